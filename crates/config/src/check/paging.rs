//! Checks of where a call sends the parameters that turn its pages.

use toml::de::DeValue;

use crate::body::BODIES;
use crate::document::Document;
use crate::error::Refusal;
use crate::{Auth, Body, Call, Method, Place, Upstream, place_in_json};

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
pub fn next_is_no_total(path: &[&str], call: &Call, document: &Document<'_>) {
    let Some(next) = &call.paging.next else {
        return;
    };
    if next
        .tokens()
        .last()
        .is_some_and(|name| COUNTS.contains(&name.as_str()))
    {
        document.refuse(
            &[path, &["page", "next"]].concat(),
            "this place names a number of records, which is not the cursor of a page",
            "write kind = \"offset\" with total, or where the response has the cursor",
        );
    }
}

/// No parameter of a page has the name of the one that carries the secret.
pub fn leaves_the_secret(path: &[&str], upstream: &Upstream, call: &Call, document: &Document<'_>) {
    let Auth::Query(secret) = &upstream.auth else {
        return;
    };
    let size = call.paging.size_param.as_deref();
    let params = [
        ("param", call.paging.param.as_deref()),
        ("size_param", size),
        ("lasting_param", call.paging.lasting_param.as_deref()),
    ];
    let taken = |(_, param): &(_, Option<&str>)| *param == Some(secret.as_str());
    if let Some((key, _)) = params.into_iter().find(taken)
        && call.paging.place() == Place::Query
    {
        document.refuse(
            &[path, &["page", key]].concat(),
            "auth.query of the upstream is this parameter already",
            "write the name of the parameter that turns pages",
        );
    }
}

/// A parameter in the body must have a place there, and one in the query is no pointer.
pub fn place(path: &[&str], call: &Call, document: &Document<'_>) {
    let size = call.paging.size_param.as_deref();
    let params = [
        ("param", call.paging.param.as_deref()),
        ("size_param", size),
    ];
    let page = [path, &["page"]].concat();
    let in_page = [&page[..], &["in"]].concat();
    let says_query = document.find(&in_page).and_then(DeValue::as_str) == Some("query");
    for (key, param) in params {
        let Some(param) = param else { continue };
        let key = [&page[..], &[key]].concat();
        let refused = match call.paging.place() {
            Place::Query => not_a_pointer(param),
            Place::Body => in_body(path, param, call, document),
        };
        match refused {
            Ok(()) => {}
            Err(Refusal {
                at,
                expected,
                instead,
            }) if at.is_empty() || !document.has(&in_page) => {
                document.refuse(&key, expected, instead);
            }
            Err(refusal) => document.report(&page, &refusal),
        }
        if says_query && param.starts_with('/') {
            document.refuse(
                &in_page,
                "a JSON pointer is a place in the body",
                "write in = \"body\", or the name of a query parameter",
            );
        }
    }
}

/// A size is sent where the cursor is.
fn not_a_pointer(param: &str) -> Result<(), Refusal> {
    match param.starts_with('/') {
        true => Err(Refusal::new(
            "a JSON pointer is a place in the body, and the cursor is sent in the query",
            "write the name of a query parameter, or send both in the body",
        )),
        false => Ok(()),
    }
}

fn in_body(
    path: &[&str],
    param: &str,
    call: &Call,
    document: &Document<'_>,
) -> Result<(), Refusal> {
    let body_at = |path: &[&str]| {
        let name = BODIES
            .iter()
            .find(|name| document.has(&[path, &[*name]].concat()))?;
        Some((*name, document.find(&[path, &[*name]].concat())?))
    };
    let then = body_at(&[path, &["page", "then"]].concat());
    if let Some((name, body)) = then {
        leads_somewhere(param, name, body)?;
    }
    match (&call.body, body_at(path)) {
        (None, _) if call.method == Method::GET => {
            let refusal = Refusal::new(
                "a GET request has no body to put the cursor into",
                "write in = \"query\", or method = \"POST\"",
            );
            Err(refusal.below("in"))
        }
        (Some(Body::Form(_)), _) if param.starts_with('/') => Err(Refusal::new(
            "the body is a form, which has no place for a JSON pointer",
            "write the name of a field",
        )),
        (Some(Body::Json(_)), Some(("graphql", _))) if !param.starts_with("/variables/") => {
            let name = param.trim_start_matches('/');
            Err(Refusal::new(
                "a GraphQL request has its parameters in `variables`",
                format!("write \"/variables/{name}\""),
            ))
        }
        (Some(Body::Json(_)), Some((name, body))) => leads_somewhere(param, name, body),
        (None | Some(Body::Form(_) | Body::Json(_)), _) => Ok(()),
    }
}

/// What is written on the way to the parameter must be tables, or elements of a list.
fn leads_somewhere(param: &str, name: &str, body: &DeValue<'_>) -> Result<(), Refusal> {
    let example = "write for example \"/variables/after\"";
    let Some(place) = place_in_json(param) else {
        let expected = "expected the name of a parameter or a JSON pointer";
        return Err(Refusal::new(expected, example));
    };
    let (mut at, mut name) = (body, name);
    for token in place.tokens() {
        let next = match at {
            DeValue::Table(table) => match table.get(token.as_str()) {
                Some(next) => Some(next),
                None => return Ok(()),
            },
            DeValue::Array(array) => token.parse::<usize>().ok().and_then(|at| array.get(at)),
            _ => None,
        };
        let Some(next) = next else {
            let expected = format!("the body has no place here: {name} is not a table");
            return Err(Refusal::new(expected, example));
        };
        (at, name) = (next.get_ref(), token);
    }
    match at.is_table() {
        true => {
            let expected = format!("{name} is a table, which the parameter would replace");
            Err(Refusal::new(expected, example))
        }
        false => Ok(()),
    }
}
