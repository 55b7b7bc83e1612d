//! JSON pointers as SQL expressions.

use crate::either::literal;

/// An expression for the value of a pointer in the JSON `document`; for a pointer with a `*`, a JSON array of all values. A number
/// of more digits than SQLite's numbers hold is the text of its digits.
/// DuckDB evaluates the views with its own functions: its `json_extract` returns JSON, with quotes around text, and its names
/// of types are in capitals.
pub fn expression(document: &str, tokens: &[String]) -> String {
    one_or_all(document, tokens, |value, digits| {
        format!(
            "case when typeof({value}) = 'real' and (cast({value} as text) like '%Inf' or \
            length(replace(ltrim(substr({digits}, 1, instr({digits} || 'e', 'e') - 1), '-0.'), '.', '')) > {EXACT}) \
            then cast({digits} as text) else {value} end"
        )
    })
}

/// The most digits of a number that SQLite reads as it is written, or nearly.
const EXACT: usize = 17;

/// The same, where a number is the text of its digits.
pub fn text(document: &str, tokens: &[String]) -> String {
    one_or_all(document, tokens, |value, digits| {
        format!(
            "case when typeof({value}) in ('integer', 'real') and {digits} not in ('true', 'false') then cast({digits} as text) else {value} end"
        )
    })
}

/// The expression that `one` makes of an SQL value and of the same as JSON; for a pointer with a `*`, a JSON array of all values.
fn one_or_all(document: &str, tokens: &[String], one: impl Fn(&str, &str) -> String) -> String {
    let places: Vec<String> = tokens.split(|token| token == "*").map(path).collect();
    match places.as_slice() {
        [place] => {
            let place = literal(place);
            one(
                &format!("({document} ->> {place})"),
                &format!("({document} -> {place})"),
            )
        }
        [arrays @ .., last] => all_values(document, arrays, last),
        [] => "null".to_owned(),
    }
}

/// The same as JSON: a text with its quotes.
pub fn json(document: &str, tokens: &[String]) -> String {
    if tokens.iter().any(|token| token == "*") {
        return expression(document, tokens);
    }
    format!("{document} -> {}", literal(&path(tokens)))
}

/// Walks an array or an object for each `*`. SQLite's `json_each` fails on any other value.
fn all_values(document: &str, arrays: &[String], last: &str) -> String {
    let (mut within, mut around) = (document.to_owned(), document.to_owned());
    let mut walks = Vec::new();
    let mut conditions = Vec::new();
    for (depth, array) in arrays.iter().enumerate() {
        walks.push(format!("json_each({within}, {}) e{depth}", literal(array)));
        conditions.push(format!(
            "lower(json_type({within}, {})) in ('array', 'object')",
            literal(array)
        ));
        around = within;
        within = format!(
            "case when lower(e{depth}.type) in ('array', 'object') then e{depth}.value end"
        );
    }
    let element = format!("e{}", arrays.len().saturating_sub(1));
    let value = if last == "$" {
        format!(
            "case when {within} is not null then json({within}) \
            when typeof({element}.value) = 'real' then json({around} -> {element}.fullkey) else {element}.value end"
        )
    } else {
        conditions.push(format!(
            "json_type({within}, {}) is not null",
            literal(last)
        ));
        format!("json({within} -> {})", literal(last))
    };
    format!(
        "(select coalesce(json_group_array({value}), '[]') from {} where {})",
        walks.join(" cross join "),
        conditions.join(" and ")
    )
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

/// Whether a token can be an index of an array.
fn is_index(token: &str) -> bool {
    !token.is_empty() && token.len() < 10 && token.bytes().all(|byte| byte.is_ascii_digit())
}
