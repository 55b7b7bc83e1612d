//! What an answer that is no success means.

use std::time::Duration;

use ingest_config::{Class, Condition, Free, Rule, StatusMatch, Until};
use ingest_upstream::{Failure, Wait};
use serde_json::{Value, json};

use super::{NOW, answering, asking, pointer, told};
use ingest_testing::stub_upstream::StubAnswer;

async fn failure(answer: StubAnswer, rules: Vec<Rule>) -> Failure {
    let stub = answering(answer);
    let failure = asking(&stub.url()).rules(rules).fetch().await.unwrap_err();
    assert_eq!(
        stub.requests().len(),
        1,
        "a request is sent once: {failure}"
    );
    failure
}

#[tokio::test]
async fn without_rules_the_status_decides() {
    let classes = [
        (vec![401, 403, 407], "denied"),
        (vec![429], "slow down"),
        (
            vec![400, 402, 404, 405, 406, 409, 410, 418, 422, 451],
            "skip",
        ),
        (vec![301, 302, 303, 304, 307, 308], "skip"),
        (
            vec![408, 425, 500, 501, 502, 503, 504, 507, 599],
            "transient",
        ),
    ];
    for (statuses, class) in classes {
        for status in statuses {
            let told = told(&failure(StubAnswer::status(status), Vec::new()).await);
            assert!(told.starts_with(&format!("{class}: {status}")), "{told}");
        }
    }
}

#[tokio::test]
async fn a_refusal_of_any_length_and_any_bytes_is_understood() {
    let endless = StubAnswer::endless(vec![b'y'; 1 << 16]).with_status(503);
    assert!(
        told(&failure(endless, Vec::new()).await)
            .starts_with("transient: 503 Service Unavailable: yyy")
    );
    let bytes = StubAnswer::status(404).body(vec![0xff, 0, 0x1b, b'z']);
    assert_eq!(
        told(&failure(bytes, Vec::new()).await),
        "skip: 404 Not Found: \u{fffd}"
    );
}

#[tokio::test]
async fn a_refusal_that_broke_off_is_not_told_by_its_status() {
    let status = rule(&[StatusMatch::Exactly(403)], Vec::new(), Class::Skip);
    let spent = rule(
        &[StatusMatch::Exactly(403)],
        vec![reason(&["quotaSpent"])],
        Class::Spent,
    );
    let header = vec![Condition::Header {
        name: "x-left".to_owned(),
        is: vec!["0".to_owned()],
    }];
    let rules = vec![spent, rule(&[], header, Class::Spent), status];
    let cut = |body: &Value| StubAnswer::error(403, body).half();
    let mut early = error("quotaSpent");
    early["padding"] = "x".repeat(400).into();
    let refusal = json!({ "error": { "message": "no", "padding": early["padding"], "errors": early["error"]["errors"] } });
    let answers = [
        (
            cut(&refusal),
            "transient: 403 Forbidden: no; the response is incomplete: ",
        ),
        (
            cut(&json!({ "message": "you shall not pass" })),
            "transient: 403 Forbidden; the response is incomplete: ",
        ),
        (
            cut(&early),
            "spent: 403 Forbidden: no; the response is incomplete: ",
        ),
        (
            cut(&refusal).header("x-left", "0"),
            "spent: 403 Forbidden: no; the response is incomplete: ",
        ),
        (
            StubAnswer::status(403)
                .body("{}")
                .header("content-encoding", "gzip"),
            "transient: 403 Forbidden; the response ",
        ),
    ];
    for (answer, expected) in answers {
        let told = told(&failure(answer, rules.clone()).await);
        assert!(told.starts_with(expected), "{told}");
    }
    for status in [400, 401, 404, 429] {
        let told = told(&failure(cut(&refusal).with_status(status), Vec::new()).await);
        assert!(told.starts_with("transient: "), "{told}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_by_its_body_however_that_is_written() {
    let rules = vec![
        rule(
            &[StatusMatch::Exactly(403)],
            vec![reason(&["quotaSpent"])],
            Class::Spent,
        ),
        rule(&[StatusMatch::Exactly(403)], Vec::new(), Class::Skip),
    ];
    let refusal = error("quotaSpent").to_string();
    let mut long = error("quotaSpent");
    long["padding"] = "x".repeat(300 << 10).into();
    let bodies = [
        format!("\u{feff}{refusal}").into_bytes(),
        refusal.replace("no", r"no \ud83d").into_bytes(),
        [
            refusal.trim_end_matches('}').as_bytes(),
            b", \"more\": \"caf\xe9\"}}",
        ]
        .concat(),
        long.to_string().into_bytes(),
    ];
    for body in bodies {
        let told = told(&failure(StubAnswer::status(403).body(body.clone()), rules.clone()).await);
        let body = String::from_utf8_lossy(&body)
            .chars()
            .take(300)
            .collect::<String>();
        assert!(
            told.starts_with("spent: 403 Forbidden: no"),
            "{told}: {body}"
        );
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_named_by_its_host() {
    let elsewhere = answering(StubAnswer::status(200));
    let to = format!("{}/steal?key=1", elsewhere.url());
    for status in [301, 302, 303, 307, 308] {
        let failure = failure(StubAnswer::redirect(status, &to), Vec::new()).await;
        let host = elsewhere.url().replace("http://", "");
        assert!(matches!(failure, Failure::Skip(_)));
        assert!(
            failure.to_string().contains(&format!(
                "it redirects to {host}, and redirects are not followed"
            )),
            "{failure}"
        );
        assert!(!failure.to_string().contains("steal"));
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_redirect_without_a_scheme_is_named_as_a_browser_reads_it() {
    let own = "another path of the same host";
    for (to, named) in [
        ("//elsewhere.example/steal", "elsewhere.example"),
        ("///elsewhere.example/steal", "elsewhere.example"),
        (r"\\elsewhere.example/steal", "elsewhere.example"),
        (r"/\elsewhere.example/steal", "elsewhere.example"),
        ("//user@elsewhere.example:81/steal", "elsewhere.example:81"),
        ("/there", own),
        ("there//elsewhere.example", own),
        ("?a=//elsewhere.example", own),
    ] {
        let failure = failure(StubAnswer::redirect(302, to), Vec::new())
            .await
            .to_string();
        assert!(
            failure.contains(&format!("it redirects to {named},")),
            "{to}: {failure}"
        );
    }
}

#[tokio::test]
async fn retry_after_is_understood_in_both_its_forms() {
    let values = [
        ("120", Some(120)),
        (" 7 ", Some(7)),
        ("0", Some(0)),
        ("1.2", Some(2)),
        ("Mon, 15 Jun 2026 12:02:00 GMT", Some(120)),
        ("Mon, 15 Jun 2026 11:00:00 GMT", Some(0)),
        ("99999999999999999999999999", Some(32 * 86_400)),
        ("Thu, 31 Dec 9999 23:59:59 GMT", None),
        ("-5", None),
        ("soon", None),
        ("", None),
    ];
    for (value, expected) in values {
        for status in [429, 503] {
            let answer = StubAnswer::status(status).header("retry-after", value);
            let wait = match failure(answer, Vec::new()).await {
                Failure::SlowDown { retry_after, .. } | Failure::Transient { retry_after, .. } => {
                    retry_after.map(Wait::length)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(wait, expected.map(Duration::from_secs), "{value}");
        }
    }
}

fn rule(status: &[StatusMatch], conditions: Vec<Condition>, class: Class) -> Rule {
    Rule {
        status: status.to_vec(),
        conditions,
        class,
        limit: None,
        limit_at: None,
        pause: None,
        free: Free::Nothing,
        until: None,
    }
}

fn reason(is: &[&str]) -> Condition {
    Condition::Body {
        at: pointer("/error/errors/*/reason"),
        is: is.iter().map(|&is| is.to_owned()).collect(),
    }
}

fn error(reason: &str) -> Value {
    json!({ "error": { "message": "no", "errors": [{ "reason": reason }], "details": [{ "metadata": { "limit": "Search\u{7}PerDay" } }] } })
}

#[tokio::test]
async fn a_spent_limit_is_told_with_its_name_and_its_end() {
    let now = NOW.micros() / 1_000_000;
    let spent = || Rule {
        limit_at: Some(pointer("/error/details/*/metadata/limit")),
        until: Some(Until::EpochHeader("x-reset".to_owned())),
        ..rule(&[], vec![reason(&["quotaSpent"])], Class::Spent)
    };
    let ends = [
        (vec![("x-reset", (now + 600).to_string())], Some(600)),
        (vec![("x-reset", (now - 600).to_string())], None),
        (vec![("x-reset", "9".repeat(40))], Some(32 * 86_400)),
        (
            vec![
                ("x-reset", "soon".to_owned()),
                ("retry-after", "30".to_owned()),
            ],
            Some(30),
        ),
        (vec![("retry-after", "0".to_owned())], None),
        (vec![], None),
    ];
    for (headers, expected) in ends {
        let answer = StubAnswer::error(403, &error("quotaSpent"));
        let answer = headers
            .iter()
            .fold(answer, |answer, (name, value)| answer.header(name, value));
        let Failure::Spent { limit, until, .. } = failure(answer, vec![spent()]).await else {
            panic!("{headers:?}")
        };
        assert_eq!(limit.as_deref(), Some("Search PerDay"));
        assert_eq!(
            until.map(Wait::length),
            expected.map(Duration::from_secs),
            "{headers:?}"
        );
    }
}
