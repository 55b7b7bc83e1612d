//! Bounds what the records of a response repeat. A response has the names of its columns once and each of its records has them
//! again, so a short response could make records that no memory holds.

use serde_json::Value;
use thiserror::Error;

/// The most bytes that the records of a response repeat.
const MOST: usize = 32 * 1024 * 1024;

/// The records of a response would repeat more bytes than are allowed.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "the response contains names or values that all of its records repeat, more than 32 MiB in total; request smaller pages"
)]
pub struct TooMuchRepeated;

/// Counts the bytes that the records of a response repeat.
#[derive(Debug, Default)]
pub struct Repeated(usize);

impl Repeated {
    /// Counts `bytes` that are repeated this often.
    ///
    /// # Errors
    /// All that were counted exceed 32 MiB.
    pub fn add(&mut self, bytes: usize, times: usize) -> Result<(), TooMuchRepeated> {
        self.0 = self.0.saturating_add(bytes.saturating_mul(times));
        if self.0 > MOST {
            Err(TooMuchRepeated)
        } else {
            Ok(())
        }
    }
}

/// The number of bytes that a copy of a value takes, approximately.
pub fn size(value: &Value) -> usize {
    /// Of a value or a name without its text.
    const EACH: usize = 64;
    let inside: usize = match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(elements) => elements.iter().map(size).sum(),
        Value::Object(members) => {
            let members = members.iter();
            members
                .map(|(name, member)| EACH + name.len() + size(member))
                .sum()
        }
    };
    EACH + inside
}
