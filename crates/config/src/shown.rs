//! Values as messages show them: shortened, and never a secret.

use super::tree::{Entry, Kind, Node};

const LONGEST: usize = 60;

/// A value as a message shows it; `None` if it may contain a secret.
pub fn shown(path: &[String], node: &Node) -> Option<String> {
    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["ledger", "url"] => scheme(node),
        // Whole tables: what they hold may be a secret at the wrong place.
        ["ledger"] | ["credentials"] | ["credentials", _] | [] => None,
        ["serve"] | ["serve", "clients"] | ["serve", "clients", _] => None,
        ["serve", "clients", _, "token", ..] => None,
        _ if segments.iter().any(|segment| {
            matches!(
                *segment,
                "secret" | "password" | "sentinel_password" | "auth" | "headers"
            )
        }) =>
        {
            None
        }
        _ if segments.last() == Some(&"base_url") => without_user(node),
        _ if is_section(node) => None,
        _ => Some(shortened(&written(node))),
    }
}

/// Whether a value is a table of more than plain values, which is too long for a message.
fn is_section(node: &Node) -> bool {
    let nested = |entry: &Entry| matches!(entry.node.kind, Kind::Table(_) | Kind::List(_));
    matches!(&node.kind, Kind::Table(entries) if entries.is_empty() || entries.iter().any(nested))
}

/// A URL that may contain a password is shown by its scheme only.
fn scheme(node: &Node) -> Option<String> {
    let Kind::Text(text) = &node.kind else {
        return Some(shortened(&written(node)));
    };
    match text.split_once("://") {
        Some((scheme, _))
            if scheme
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '+') =>
        {
            Some(format!("\"{}://...\"", shortened(scheme)))
        }
        None if text.chars().all(|letter| letter.is_ascii_alphanumeric()) => {
            Some(shortened(&format!("{text:?}")))
        }
        _ => None,
    }
}

fn without_user(node: &Node) -> Option<String> {
    match &node.kind {
        // A user, a password or a key can be in such a URL.
        Kind::Text(text) if text.contains(['@', '?']) => None,
        _ => Some(shortened(&written(node))),
    }
}

/// A value as TOML, in one line.
pub fn written(node: &Node) -> String {
    match &node.kind {
        Kind::Text(text) => format!("{:?}", text.chars().take(LONGEST * 2).collect::<String>()),
        Kind::Integer(number) => number.to_string(),
        Kind::Float(_, written) => written.clone(),
        Kind::Bool(truth) => truth.to_string(),
        Kind::Date(date) => date.clone(),
        Kind::List(nodes) => format!(
            "[{}]",
            nodes.iter().map(written).collect::<Vec<_>>().join(", ")
        ),
        Kind::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Kind::Table(entries) => format!(
            "{{ {} }}",
            entries.iter().map(entry).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn entry(entry: &Entry) -> String {
    format!(
        "{} = {}",
        super::names::quoted(&entry.key),
        written(&entry.node)
    )
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}...", text.get(..cut).unwrap_or_default()),
        None => text.to_owned(),
    }
}
