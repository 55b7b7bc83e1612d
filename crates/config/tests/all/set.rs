//! `--set PATH=VALUE`

use std::time::Duration;

use ingest_config::LedgerStore;
use ingest_quota::Units;

use super::{SMALL, problems, right};

#[test]
fn a_value_is_read_as_toml() {
    let config = right(
        SMALL,
        &[
            "ledger.cheap_max=7",
            "upstreams.things.max_body=0x10",
            "jobs.all.leave={ daily = 1 }",
        ],
    );
    assert_eq!(config.ledger.cheap_max, Units::new(7));
    assert_eq!(config.upstreams["things"].max_body, 16);
    assert_eq!(
        config.jobs[0]
            .leave
            .of(&config.jobs[0].credential)
            .of("daily"),
        Units::new(1)
    );
}

#[test]
fn a_value_that_is_not_toml_is_text() {
    let sets = [
        "upstreams.things.base_url=http://127.0.0.1:9000/v3?",
        "ledger.timeout=3s",
    ];
    assert_eq!(
        problems(SMALL, &sets)[0].place,
        "--set upstreams.things.base_url"
    );
    let config = right(
        SMALL,
        &[
            "upstreams.things.base_url=http://127.0.0.1:9000/v3",
            "ledger.timeout=3s",
        ],
    );
    assert_eq!(
        config.upstreams["things"].base_url.as_str(),
        "http://127.0.0.1:9000/v3"
    );
    assert_eq!(config.ledger.timeout, Duration::from_secs(3));
}

#[test]
fn a_value_in_quotes_loses_them_and_may_hold_an_equals_sign() {
    let config = right(
        SMALL,
        &[
            "jobs.all.steps.0.params.q=\"a=b\"",
            "jobs.all.steps.0.params.r=c=d",
        ],
    );
    let params = &config.jobs[0].steps[0].params;
    assert_eq!(params["q"].templates()[0].as_str(), "a=b");
    assert_eq!(params["r"].templates()[0].as_str(), "c=d");
}

#[test]
fn blanks_around_the_equals_sign_are_no_part_of_path_or_value() {
    let sets = [
        "credentials.main.limits.daily.quota = 5000",
        "ledger = { cheap_max = 7 }",
        "jobs.all.every = 2h ",
        "jobs.all.steps.0.params.q = ' kept '",
    ];
    let config = right(SMALL, &sets);
    assert_eq!(
        config.credentials["main"].account.limits["daily"].quota(),
        Units::new(5000)
    );
    assert_eq!(config.ledger.cheap_max, Units::new(7));
    assert_eq!(config.jobs[0].every, Some(Duration::from_secs(7200)));
    assert_eq!(
        config.jobs[0].steps[0].params["q"].templates()[0].as_str(),
        " kept "
    );
}

#[test]
fn a_key_that_holds_a_dot_goes_in_quotes_of_either_kind() {
    for path in [
        "upstreams.things.calls.\"owners.list\".cost",
        "upstreams.things.calls.'owners.list'.cost",
    ] {
        let config = right(
            SMALL,
            &[
                &format!("{path}={{ daily = 1 }}"),
                &format!("{path}.daily=3"),
            ],
        );
        assert_eq!(
            config.upstreams["things"].calls["owners.list"]
                .cost
                .of("daily"),
            Units::new(3)
        );
    }
}

#[test]
fn a_key_may_hold_an_equals_sign_and_a_quote() {
    let config = right(SMALL, &[r#"jobs.all.steps.0.params."a=\"b"=1"#]);
    assert_eq!(
        config.jobs[0].steps[0].params["a=\"b"].templates()[0].as_str(),
        "1"
    );
}

#[test]
fn a_table_replaces_a_table() {
    let config = right(
        SMALL,
        &["credentials.main.limits={ daily = { quota = 50, window = \"1h\" } }"],
    );
    let limit = config.credentials["main"].account.limits["daily"];
    assert_eq!(
        (limit.quota(), limit.headroom()),
        (Units::new(50), Units::ZERO)
    );
    assert_eq!(limit.window().resets(), None);
}

#[test]
fn what_is_missing_is_created() {
    let sets = [
        "catalog.url=sqlite",
        "credentials.spare={upstream=\"things\",secret={env=\"X\"},account=\"main\"}",
    ];
    let config = right(SMALL, &sets);
    assert_eq!(config.credentials["spare"].account.name, "main");
}

#[test]
fn the_last_of_several_holds() {
    let config = right(SMALL, &["ledger.cheap_max=1", "ledger.cheap_max=2"]);
    assert_eq!(config.ledger.cheap_max, Units::new(2));
}

#[test]
fn an_element_of_a_list_is_named_by_its_number() {
    let config = right(SMALL, &["jobs.all.steps.0.max_pages=9", "regions.2=FR"]);
    assert_eq!(config.jobs[0].steps[0].max_pages, Some(9));
    assert_eq!(config.regions[2].code, "FR");
}

#[test]
fn a_wrong_value_is_told_by_the_flag_that_set_it() {
    let found = problems(SMALL, &["ledger.timeout=soon"]);
    assert_eq!(
        (found[0].place.as_str(), found[0].path.as_str()),
        ("--set ledger.timeout", "ledger.timeout")
    );
    assert!(found[0].to_string().contains("\"soon\""), "{}", found[0]);
}

#[test]
fn a_password_in_a_set_is_in_no_message() {
    for set in [
        "ledger.url=redis://:hush@host:port/0",
        "ledger.url=rediss//:hush@host",
        "ledger.url=redis://me:12/hush@host",
        "ledger.url=redis+sentinel://:hush@host",
        "ledger.url redis://:hush@host",
        "ledger.urls=redis://:hush@host",
        "ledger=redis://:hush@host",
        "credentials.main.secret=hush",
        "credentials.main.secret.env='hush hush'",
        "upstreams.things.auth=hush",
        "upstreams.things.auth={ bearer = 'hush' }",
        "upstreams.things.auth={ header = 'hush hush' }",
        "credentials.main=hush",
        "credentials=hush",
        "credentials.main.sceret=hush",
        "upstreams.things.headers.x-key=\"hush\\n\"",
        "upstreams.things.base_url=https://me:hush@example.com",
        "upstreams.things.base_url=https://example.com?key=hush",
    ] {
        let said = problems(SMALL, &[set])
            .iter()
            .map(|problem| format!("{problem} {problem:?}"))
            .collect::<String>();
        assert!(!said.is_empty() && !said.contains("hush"), "{set}: {said}");
    }
}

#[test]
fn the_password_of_a_redis_url_is_not_shown_and_is_kept() {
    let config = right(SMALL, &["ledger.url=redis://hush@host"]);
    assert!(
        !format!("{} {config:?}", config.ledger.store).contains("hush"),
        "a password where the user belongs"
    );
    let config = right(
        SMALL,
        &["ledger.url=redis://me:hush@host:6379/3?protocol=hush"],
    );
    let LedgerStore::Redis(url) = &config.ledger.store else {
        panic!("{:?}", config.ledger)
    };
    assert_eq!(url.expose().password(), Some("hush"));
    assert!(
        !format!("{url} {config:?}").contains("hush"),
        "{url} {config:?}"
    );
}
