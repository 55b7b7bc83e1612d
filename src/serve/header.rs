//! Headers that a request has at most once.

use axum::http::{HeaderMap, HeaderName};

/// A header that comes several times, or is no ASCII text. A proxy in front may have read it differently from this server, so
/// such a request is refused.
#[derive(Debug, Clone, Copy)]
pub struct Unclear;

/// Returns the value of a header; `None` where the request does not have it.
///
/// # Errors
/// It comes several times, or is no ASCII text.
pub fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Unclear> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Unclear),
        (Some(_), Some(_)) => Err(Unclear),
    }
}
