//! The places of ids in stored records.

use serde_json::Value;

use ingest_config::Pointer;

/// Splits a pointer: its leading names of members, which a database can follow, and a pointer to apply to the value there.
pub fn split(pointer: &Pointer) -> (&[String], Option<Pointer>) {
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
    (members, Pointer::parse(&rest).ok())
}

/// The ids at the place `rest` of a part of a record, which is JSON.
pub fn ids_in(part: Option<&str>, rest: Option<&Pointer>) -> impl Iterator<Item = String> {
    let part: Value = part
        .and_then(|part| serde_json::from_str(part).ok())
        .unwrap_or_default();
    let ids = rest.map(|rest| rest.texts_in(&part)).unwrap_or_default();
    ids.into_iter().filter(|id| !id.is_empty())
}

/// Whether a token can be an index of an array.
pub fn is_index(token: &str) -> bool {
    !token.is_empty() && token.len() < 10 && token.bytes().all(|byte| byte.is_ascii_digit())
}

fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}
