//! Page tokens: they come from an upstream, lie in the catalog, and go back.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use serde_json::json;

use crate::{asking, token_paging};
use ingest_testing::fuzz::{cases, text_near};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

#[test]
fn a_changed_token_goes_back_as_it_came() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (given, came) = (
        Arc::new(Mutex::new(String::new())),
        Arc::new(Mutex::new(Vec::new())),
    );
    let (giving, coming) = (Arc::clone(&given), Arc::clone(&came));
    let stub = StubUpstream::start(move |request| {
        *coming.lock().unwrap() = request.query.clone();
        StubAnswer::json(&json!({ "items": [{ "id": "a" }], "next": *giving.lock().unwrap() }))
    });
    let asking = asking(&stub.url()).paging(token_paging());
    let client = asking.client();
    proptest!(cases(2), |(token in text_near("token"))| {
        *given.lock().unwrap() = token.clone();
        let page = runtime.block_on(asking.fetch_by(&client)).unwrap();
        prop_assert_eq!(&page.next, &Some(token).filter(|token| !token.trim().is_empty()));
        let Some(next) = page.next else { return Ok(()) };
        runtime.block_on(asking.clone().cursor(Some(next.clone())).fetch_by(&client)).unwrap();
        let came = came.lock().unwrap();
        let came: Vec<_> = came.iter().filter(|(name, _)| name == "pageToken").map(|(_, value)| value).collect();
        prop_assert_eq!(came, vec![&next]);
    });
}
