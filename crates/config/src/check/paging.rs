//! Checks of where a call sends the parameters that turn its pages.

use crate::body::body_of;
use crate::item::Item;
use crate::{Body, Call, Method, Place, place_in_json};

/// Members that count records, which no cursor is.
const COUNTS: [&str; 8] = [
    "count",
    "total",
    "totalCount",
    "totalItems",
    "totalResults",
    "total_count",
    "total_items",
    "total_results",
];

/// A cursor is no number of records.
pub fn next_is_no_total(page: &Item<'_>) {
    let Some(next) = page.find(&["next"]) else {
        return;
    };
    let text = next.as_text().unwrap_or_default();
    let counts = text
        .rsplit('/')
        .next()
        .is_some_and(|name| COUNTS.contains(&name));
    if counts {
        next.refuse::<()>(
            "this place names a number of records, which is not the cursor of a page",
            "write kind = \"offset\" with total, or where the response has the cursor",
        );
    }
}

/// A parameter in the body must have a place there.
pub fn place(item: &Item<'_>, call: &Call) {
    let Some(page) = item.find(&["page"]) else {
        return;
    };
    next_is_no_total(&page);
    let size = call.paging.size().and_then(|size| size.param.as_deref());
    let params = [("param", call.paging.cursor_param()), ("size_param", size)];
    let in_query = page.find(&["in"]);
    let in_query = in_query.filter(|place| place.as_text().as_deref() == Some("query"));
    for (key, param) in params {
        let found = page.find(&[key]).zip(param);
        let Some((key, param)) = found else { continue };
        if let Some(body) = page.find(&["then"]).as_ref().and_then(body_of)
            && call.paging.place() == Place::Body
        {
            leads_somewhere(&key, param, &body);
        }
        match call.paging.place() {
            Place::Query => not_a_pointer(&key, param),
            Place::Body => in_body(&key, param, item, call),
        };
        if let Some(place) = in_query.as_ref().filter(|_| param.starts_with('/')) {
            place.refuse::<()>(
                "a JSON pointer is a place in the body",
                "write in = \"body\", or the name of a query parameter",
            );
        }
    }
}

/// A size is sent where the cursor is.
fn not_a_pointer(key: &Item<'_>, param: &str) -> Option<()> {
    match param.starts_with('/') {
        true => key.refuse(
            "a JSON pointer is a place in the body, and the cursor is sent in the query",
            "write the name of a query parameter, or send both in the body",
        ),
        false => Some(()),
    }
}

fn in_body(key: &Item<'_>, param: &str, call_item: &Item<'_>, call: &Call) -> Option<()> {
    let is_pointer = param.starts_with('/');
    match (&call.body, body_of(call_item)) {
        (None, _) if call.method == Method::GET => call_item
            .find(&["page", "in"])
            .unwrap_or_else(|| key.clone())
            .refuse(
                "a GET request has no body to put the cursor into",
                "write in = \"query\", or method = \"POST\"",
            ),
        (Some(Body::Form(_)), _) if is_pointer => key.refuse(
            "the body is a form, which has no place for a JSON pointer",
            "write the name of a field",
        ),
        (Some(Body::Json(_)), Some(body))
            if body.name() == "graphql" && !param.starts_with("/variables/") =>
        {
            key.refuse(
                "a GraphQL request has its parameters in `variables`",
                format!("write \"/variables/{}\"", param.trim_start_matches('/')),
            )
        }
        (Some(Body::Json(_)), Some(body)) => leads_somewhere(key, param, &body),
        (None | Some(Body::Form(_) | Body::Json(_)), _) => Some(()),
    }
}

/// What is written on the way to the parameter must be tables, or elements of a list.
fn leads_somewhere(key: &Item<'_>, param: &str, body: &Item<'_>) -> Option<()> {
    let example = "write for example \"/variables/after\"";
    let Some(place) = place_in_json(param) else {
        return key.refuse(
            "expected the name of a parameter or a JSON pointer",
            example,
        );
    };
    let mut at = Some(body.clone());
    for token in place.tokens() {
        let Some(inside) = at else { return Some(()) };
        at = inside.find(&[token]);
        if at.is_none() && !inside.is_table() {
            let expected = format!(
                "the body has no place here: {} is not a table",
                inside.name()
            );
            return key.refuse(expected, example);
        }
    }
    match at {
        Some(table) if table.is_table() => key.refuse(
            format!(
                "{} is a table, which the parameter would replace",
                table.name()
            ),
            example,
        ),
        Some(_) | None => Some(()),
    }
}
