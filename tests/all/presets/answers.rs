use std::borrow::Cow;
use std::collections::BTreeMap;

use ingest_config::{Class, RuleBody, classify};
use serde_json::Value;

use super::{directory, names, preset};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    answers: Vec<Answer>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: String,
    class: String,
    limit: Option<String>,
}

fn word(class: Class) -> &'static str {
    match class {
        Class::End => "end",
        Class::Spent => "spent",
        Class::SlowDown => "slow_down",
        Class::Denied => "denied",
        Class::Skip => "skip",
        Class::BadCursor => "bad_cursor",
        Class::OldCursor => "old_cursor",
        Class::Transient => "transient",
    }
}

#[test]
fn the_rules_of_every_preset_tell_its_answers_apart() {
    for name in names() {
        let text =
            std::fs::read_to_string(directory().join(format!("answers/{name}.toml"))).unwrap();
        let listed: Answers =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let config = preset(&name);
        let rules = &config.upstreams.values().next().unwrap().errors;
        for Answer {
            status,
            headers,
            body,
            class,
            limit,
        } in listed.answers
        {
            let document: Value =
                serde_json::from_str(&body).unwrap_or_else(|_| Value::String(body.clone()));
            let header = |name: &str| headers.get(name).map(Cow::from);
            let seen = RuleBody {
                document: &document,
                text: &body,
            };
            let rule = classify(rules, status, header, seen)
                .unwrap_or_else(|| panic!("{name}: {status} {body}"));
            assert_eq!(word(rule.class), class, "{name}: {status} {body}");
            let told = || rule.limit_at.as_ref().and_then(|at| at.text_in(&document));
            assert_eq!(
                rule.limit.clone().or_else(told),
                limit,
                "{name}: {status} {body}"
            );
        }
    }
}

#[test]
fn a_rule_names_only_limits_that_there_are() {
    for name in names() {
        let config = preset(&name);
        let limits = &config.credentials.values().next().unwrap().limits;
        for rule in &config.upstreams.values().next().unwrap().errors {
            assert!(
                rule.limit
                    .as_ref()
                    .is_none_or(|limit| limits.contains_key(limit)),
                "{name}: {rule:?}"
            );
        }
    }
}
