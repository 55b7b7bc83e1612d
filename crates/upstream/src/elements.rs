//! Elements of XML as lists. XML has no lists: an element that occurs once looks like one that cannot occur again. Where a pointer
//! has `*` or a number, it means an element that can, so that one, none and several are read alike.

use serde_json::Value;

/// Makes a list of each lone element for which a pointer has `*` or a number. The first `fixed` values on its way are no elements
/// that occur several times: the document and its root, or a record.
pub fn as_lists(value: &mut Value, tokens: &[String], fixed: usize) {
    let Some((token, rest)) = tokens.split_first() else {
        return;
    };
    if fixed == 0 && is_place(token) && is_element(value, rest) {
        *value = Value::Array(vec![value.take()]);
    }
    let fixed = fixed.saturating_sub(1);
    match value {
        Value::Array(elements) if token == "*" => {
            for element in elements {
                as_lists(element, rest, fixed);
            }
        }
        Value::Array(elements) => {
            let place = token.parse().ok();
            if let Some(element) = place.and_then(|place: usize| elements.get_mut(place)) {
                as_lists(element, rest, fixed);
            }
        }
        Value::Object(members) if token == "*" => {
            for member in members.values_mut() {
                as_lists(member, rest, fixed);
            }
        }
        Value::Object(members) => {
            if let Some(member) = members.get_mut(token) {
                as_lists(member, rest, fixed);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a token is a place in a list. No element's name begins with a digit.
pub fn is_place(token: &str) -> bool {
    token == "*" || (!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a value is a lone element, and not one whose child elements `*` stands for: those that have the next name themselves.
fn is_element(value: &Value, rest: &[String]) -> bool {
    let has = |value: &Value, name: &str| value.get(name).is_some();
    match (value, rest.first()) {
        (Value::Null | Value::Array(_), _) => false,
        (Value::Object(members), Some(next)) if !is_place(next) => {
            let is_behind_each = || {
                members.values().any(|member| match member {
                    Value::Array(elements) => elements.iter().any(|one| has(one, next)),
                    member => has(member, next),
                })
            };
            members.contains_key(next) || !is_behind_each()
        }
        _ => true,
    }
}
