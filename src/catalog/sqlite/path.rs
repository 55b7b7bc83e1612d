//! Pointers as SQL knows them.

use crate::config::Pointer;

/// A pointer's leading tokens that name members of objects, as a JSON path, and what is left to be applied to what is
/// there.
pub(super) fn split(pointer: &Pointer) -> (String, Option<Pointer>) {
    let plain = pointer.tokens().iter().take_while(|token| *token != "*" && !is_index(token)).count();
    let (members, rest) = pointer.tokens().split_at(plain);
    let rest: String = rest.iter().map(|token| format!("/{}", escape(token))).collect();
    (path(members), Pointer::parse(&rest).ok())
}

/// An expression for what a pointer points at in the JSON `document`: its first value, or where it has a `*` a JSON array of
/// all of them.
pub(super) fn expression(document: &str, tokens: &[String]) -> String {
    nested(document, tokens, 0)
}

fn nested(document: &str, tokens: &[String], depth: usize) -> String {
    let mut parts = tokens.splitn(2, |token| token == "*");
    let before = literal(&path(parts.next().unwrap_or_default()));
    let Some(after) = parts.next() else { return format!("json_extract({document}, {before})") };
    let each = format!("e{depth}");
    let value = if after.is_empty() {
        format!("{each}.value")
    } else {
        nested(&format!("case when {each}.type in ('array', 'object') then {each}.value end"), after, depth + 1)
    };
    format!(
        "(select json_group_array({value}) from json_each({document}, {before}) {each} where typeof({each}.key) = 'integer')"
    )
}

/// Quotes a text for SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\0', "\u{FFFD}").replace('\'', "''"))
}

/// Quotes a name for SQL, whatever it holds.
pub(super) fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('\0', "\u{FFFD}").replace('"', "\"\""))
}

fn path(tokens: &[String]) -> String {
    tokens.iter().fold("$".to_owned(), |path, token| {
        if is_index(token) {
            format!("{path}[{token}]")
        } else {
            format!("{path}.{}", serde_json::Value::from(token.as_str()))
        }
    })
}

fn is_index(token: &str) -> bool {
    !token.is_empty() && token.len() < 10 && token.bytes().all(|byte| byte.is_ascii_digit())
}

fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}
