//! What holds whatever an upstream sends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ingest_quota::Timestamp;
use ingest_upstream::{Failure, Response, failure_of, next_link, retry_after};
use proptest::prelude::*;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::{NOW, asking, token_paging};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const LONGEST: Duration = Duration::from_secs(32 * 86_400);

fn headers(values: &[(&'static str, Vec<u8>)]) -> HeaderMap {
    let valid = values.iter().filter_map(|(name, value)| {
        HeaderValue::from_bytes(value)
            .ok()
            .map(|value| (HeaderName::from_static(name), value))
    });
    valid.collect()
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let telling =
        r#"(\{"(error|message|errors)":)?[\[{"\\<> \x00-\x1f\u{9b}a-zé-]{0,300}[\]}"]{0,3}"#;
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..400),
        telling.prop_map(String::into_bytes)
    ]
}

fn any_answer() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just("null"),
        Just("1"),
        Just("-2.5e3"),
        Just("true"),
        Just(r#""a""#),
        Just(r#""""#)
    ];
    let value = leaf
        .prop_map(str::to_owned)
        .prop_recursive(4, 24, 4, |inner| {
            let name = prop_oneof![
                Just("items"),
                Just("id"),
                Just("next"),
                Just("error"),
                Just("total")
            ];
            let members = prop::collection::vec((name, inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4)
                    .prop_map(|elements| format!("[{}]", elements.join(","))),
                members.prop_map(|members| {
                    let members: Vec<String> = members
                        .iter()
                        .map(|(name, value)| format!(r#""{name}":{value}"#))
                        .collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        });
    prop_oneof![4 => value.prop_map(String::into_bytes), 1 => any_body()]
}

/// Whatever comes with a 200: a page whose records all have ids, each once, or a failure: to be tried again, or text
/// that cannot be read.
#[test]
fn any_success_is_a_page_or_a_failure() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let body = Arc::new(Mutex::new(Vec::new()));
    let answer = Arc::clone(&body);
    let stub =
        StubUpstream::start(move |_| StubAnswer::status(200).body(answer.lock().unwrap().clone()));
    let asking = asking(&stub.url()).paging(token_paging());
    let client = asking.client();
    proptest!(|(answer in any_answer())| {
        *body.lock().unwrap() = answer;
        match runtime.block_on(asking.fetch_by(&client)) {
            Ok(page) => {
                let distinct: HashSet<_> = page.records.iter().map(|record| &record.id).collect();
                prop_assert_eq!(distinct.len(), page.records.len());
                prop_assert!(page.skipped == 0 || !page.records.is_empty());
                prop_assert!(page.next.is_none_or(|next| !next.is_empty()));
            }
            Err(failure) => prop_assert!(matches!(failure, Failure::Transient { .. } | Failure::Unreadable { .. } | Failure::WrongShape(_)), "{:?}", failure),
        }
    });
}

/// A token is the upstream's: it comes back as it was, whatever it holds, and leads nowhere else.
#[test]
fn any_page_token_comes_back_as_it_was() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stub = StubUpstream::start(|_| StubAnswer::json(&super::things(&["a"])));
    proptest!(|(token in r"[&=?#%+/ \x00-\x1f]{0,6}.{0,40}")| {
        let asking = asking(&stub.url()).paging(token_paging()).cursor(Some(token.clone()));
        let page = runtime.block_on(asking.fetch());
        prop_assert!(page.is_ok(), "{:?}", page);
        let request = stub.requests().pop().unwrap();
        let came: Vec<&String> = request.query.iter().filter(|(name, _)| name == "pageToken").map(|(_, value)| value).collect();
        prop_assert_eq!(came, vec![&token]);
    });
}

proptest! {
    #[test]
    fn any_refusal_is_understood_in_one_short_plain_line(
        status in 300u16..600,
        body in any_body(),
        wait in prop::collection::vec(any::<u8>(), 0..40),
        location in prop::collection::vec(any::<u8>(), 0..40),
        now in any::<i64>(),
    ) {
        let headers = headers(&[("retry-after", wait), ("location", location)]);
        let answer = Response::new(StatusCode::from_u16(status).unwrap(), headers, body);
        let message = failure_of(&answer, &[], Timestamp::from_micros(now)).to_string();
        prop_assert!(message.starts_with(&status.to_string()));
        prop_assert!(message.chars().count() <= 200, "{}", message);
        prop_assert!(!message.chars().any(char::is_control), "{:?}", message);
    }

    #[test]
    fn any_retry_after_is_understood_or_left(value in ".{0,40}", now in any::<i64>()) {
        let wait = retry_after(&value, Timestamp::from_micros(now));
        prop_assert!(wait.is_none_or(|wait| wait <= LONGEST));
    }

    #[test]
    fn seconds_and_the_date_they_lead_to_are_the_same_wait(seconds in 0u64..2_000_000) {
        let date = (NOW + Duration::from_secs(seconds)).to_utc().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let wait = Some(Duration::from_secs(seconds));
        prop_assert_eq!(retry_after(&seconds.to_string(), NOW), wait);
        prop_assert_eq!(retry_after(&date, NOW), wait);
    }

    #[test]
    fn any_link_is_understood_or_left(value in r#"[<>;,="\\ a-zé/?]{0,60}|.{0,60}"#) {
        let _ = next_link([value.as_str()]);
    }

    #[test]
    fn the_next_link_is_found_among_others(
        before in prop::collection::vec(r#"<[a-z/?,;="]{0,9}>(; ?[a-z]{1,4}="[a-z,;<> ]{0,6}"){0,3}; rel=(prev|"last")"#, 0..3),
        target in "[a-zA-Z0-9/?&=,;:.]{1,20}",
        relation in r#"rel=next|rel="next"|REL="last Next"|title="a,b;c<d>"; rel="next"|rel = "next""#,
        after in prop::collection::vec(r"<[a-z]{0,9}>; rel=first", 0..2),
    ) {
        let link = format!("<{target}>; {relation}");
        let links = [before, vec![link], after].concat();
        let joined = links.join(", ");
        prop_assert_eq!(next_link([joined.as_str()]), Some(target.as_str()));
        prop_assert_eq!(next_link(links.iter().map(String::as_str)), Some(target.as_str()));
    }
}
