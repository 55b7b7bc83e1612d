//! The places of ids in stored records.

use serde_json::Value;

use ingest_config::{IdPlace, Pointer};

/// Splits a place: the leading names of members, which a database can follow, and the place in the value there. A place of several
/// values is one in the whole record.
pub fn split(place: &IdPlace) -> (&[String], Option<IdPlace>) {
    if !place.parent().is_empty() {
        return (&[], Some(place.clone()));
    }
    let pointer = place.at();
    let plain = pointer
        .tokens()
        .iter()
        .take_while(|token| *token != "*" && !is_index(token))
        .count();
    let (members, rest) = pointer.tokens().split_at(plain);
    let rest: String = rest
        .iter()
        .map(|token| format!("/{}", escape(token)))
        .collect();
    let rest = Pointer::parse(&rest).ok();
    (members, rest.map(IdPlace::from))
}

/// The ids at the place `rest` of a part of a record, which is JSON.
pub fn ids_in(part: Option<&str>, rest: Option<&IdPlace>) -> impl Iterator<Item = String> {
    let part: Value = part
        .and_then(|part| serde_json::from_str(part).ok())
        .unwrap_or_default();
    let ids = rest.map(|rest| rest.ids_in(&part)).unwrap_or_default();
    ids.into_iter()
}

/// Whether a token can be an index of an array.
pub fn is_index(token: &str) -> bool {
    !token.is_empty() && token.len() < 10 && token.bytes().all(|byte| byte.is_ascii_digit())
}

fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}
