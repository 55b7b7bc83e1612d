//! What holds whatever an upstream sends beside its pages; `fuzz` tries those, links, waits and tokens.

use std::time::Duration;

use ingest_quota::Timestamp;
use ingest_upstream::{Response, failure_of, next_link, retry_after};
use proptest::prelude::*;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::NOW;

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
    fn seconds_and_the_date_they_lead_to_are_the_same_wait(seconds in 0u64..2_000_000) {
        let date = (NOW + Duration::from_secs(seconds)).to_utc().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let wait = Some(Duration::from_secs(seconds));
        prop_assert_eq!(retry_after(&seconds.to_string(), NOW), wait);
        prop_assert_eq!(retry_after(&date, NOW), wait);
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
