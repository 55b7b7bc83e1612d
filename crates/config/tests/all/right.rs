//! Right files: what is read from them.

use std::time::Duration;

use ingest_config::{
    AfterLoss, Auth, Body, CatalogStore, Lasting, LedgerStore, Method, PageKind, Paging, Place,
    Pointer, PostgresTls, ResponseField, SecretSource,
};
use ingest_quota::{Calendar, Counting, Limit, Outage, Period, Units, Window};
use serde_json::json;
use strum::VariantArray;

use super::{SMALL, problems, right, small_with};

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).unwrap()
}

#[test]
fn what_is_not_said_is_the_default() {
    let config = right(&small_with("[ledger]\nurl = \"sqlite\"", ""), &[]);
    let ledger = &config.ledger;
    assert_eq!(
        (&ledger.store, ledger.timeout),
        (&LedgerStore::Sqlite, Duration::from_millis(250))
    );
    assert_eq!(
        (ledger.cheap_max, ledger.unmetered_max),
        (Units::new(5), Units::new(50))
    );
    assert_eq!(
        (ledger.max_skew, ledger.after_loss),
        (Duration::from_secs(300), AfterLoss::Floor)
    );

    let upstream = &config.upstreams["things"];
    assert_eq!(
        (upstream.timeout, upstream.attempts),
        (Duration::from_secs(30), 4)
    );
    assert_eq!((upstream.max_body, upstream.keep), (32 * 1024 * 1024, None));
    let call = &upstream.calls["owners.list"];
    assert_eq!(
        (call.method.clone(), call.outage, &call.paging),
        (Method::GET, None, &Paging::default())
    );

    let credential = &config.credentials["main"];
    assert_eq!(credential.account.name, "main");
    assert_eq!(credential.limits["daily"].wait, Duration::from_secs(2));
    let job = &config.jobs[0];
    assert_eq!(
        (job.resume_within, job.regions.len()),
        (Duration::from_secs(72 * 60 * 60), 2)
    );
}

#[test]
fn a_plain_cost_is_of_the_daily_limit() {
    let config = right(SMALL, &[]);
    assert_eq!(
        config.upstreams["things"].calls["owners.list"]
            .cost
            .of("daily"),
        Units::new(1)
    );
}

#[test]
fn a_plain_cost_where_the_only_limit_has_another_name_must_name_it() {
    let text = small_with("daily = { quota", "core = { quota").replace("{ daily = ", "{ core = ");
    let said = problems(&text, &[])
        .iter()
        .map(ToString::to_string)
        .collect::<String>();
    assert!(
        said.contains("name the limit, for example cost = { core = 1 }"),
        "{said}"
    );
    right(
        &text,
        &["upstreams.things.calls.'owners.list'.cost={ core = 1 }"],
    );
}

#[test]
fn a_cost_of_nothing_has_to_be_said() {
    let config = right(SMALL, &["upstreams.things.calls.'owners.list'.cost={}"]);
    assert!(
        config.upstreams["things"].calls["owners.list"]
            .cost
            .is_none()
    );
}

#[test]
fn regions_may_have_values_that_templates_name() {
    let table = "regions={ GB = { city = \"London\", people = 9 }, US = { city = \"New York\" } }";
    let config = right(
        SMALL,
        &[table, "jobs.all.steps.0.params.region={region} {city}"],
    );
    let codes: Vec<_> = config
        .regions
        .iter()
        .map(|region| region.code.as_str())
        .collect();
    assert_eq!(codes, ["GB", "US"]);
    assert_eq!(config.regions[0].values["people"], "9");

    let lacking = problems(SMALL, &[table, "jobs.all.steps.0.params.region={people}"]);
    let said = lacking[0].to_string();
    assert!(
        said.contains("people has no value")
            && said.contains(": US;")
            && said.contains("[regions.US] people"),
        "{said}"
    );
    right(
        SMALL,
        &[
            table,
            "jobs.all.steps.0.params.region={people}",
            "jobs.all.regions=[\"GB\"]",
        ],
    );
}

#[test]
fn regions_of_any_script_keep_their_order() {
    let text = small_with(
        "regions = [\"US\", \"GB\"]",
        "regions = [\"ZZ\", \"São Paulo\", \"日本\", \"a b\", \"AA\"]",
    );
    let codes: Vec<_> = right(&text, &[])
        .regions
        .iter()
        .map(|region| region.code.clone())
        .collect();
    assert_eq!(codes, ["ZZ", "São Paulo", "日本", "a b", "AA"]);
}

#[test]
fn jobs_keep_the_order_of_the_file() {
    let job = |name: &str| {
        format!("[jobs.{name}]\ncredential = \"main\"\nsteps = [{{ call = \"things.list\" }}]\n")
    };
    let text = format!("{SMALL}{}{}", job("zebra"), job("ant"));
    let names: Vec<_> = right(&text, &[])
        .jobs
        .iter()
        .map(|job| job.name.clone())
        .collect();
    assert_eq!(names, ["all", "zebra", "ant"]);
}

#[test]
fn the_parameters_of_a_call_are_merged_under_those_of_the_step() {
    let call =
        "upstreams.things.calls.'things.list'.params={ region = \"none\", part = \"{region}\" }";
    let config = right(SMALL, &[call]);
    let params = &config.jobs[0].steps[0].params;
    assert_eq!(
        (
            params["region"].templates()[0].as_str(),
            params["part"].templates()[0].as_str()
        ),
        ("{region}", "{region}")
    );
}

#[test]
fn pages_are_turned_in_each_way() {
    let sized = |paging: Paging| Paging {
        size_param: Some("n".to_owned()),
        size: Some(10),
        ..paging
    };
    let cases = [
        ("{ kind = 'none' }", Paging::default()),
        (
            "{ kind = 'link', size_param = 'n', size = 10 }",
            sized(Paging {
                kind: PageKind::Link,
                ..Paging::default()
            }),
        ),
        (
            "{ kind = 'next_url', next = '/next' }",
            Paging {
                kind: PageKind::NextUrl,
                next: Some(pointer("/next")),
                ..Paging::default()
            },
        ),
        (
            "{ kind = 'next_url', next = '/next', lasting = 'last', empty_page_ends = true }",
            Paging {
                kind: PageKind::NextUrl,
                lasting: Some(Lasting::Last),
                next: Some(pointer("/next")),
                empty_page_ends: Some(true),
                ..Paging::default()
            },
        ),
        (
            "{ kind = 'token', param = 't', next = '/a', lasting = '/b', lasting_param = 's' }",
            Paging {
                kind: PageKind::Token,
                lasting: Some(Lasting::At(pointer("/b"))),
                lasting_param: Some("s".to_owned()),
                param: Some("t".to_owned()),
                next: Some(pointer("/a")),
                ..Paging::default()
            },
        ),
        (
            "{ kind = 'token', param = 't', next = '/a/b' }",
            Paging {
                kind: PageKind::Token,
                param: Some("t".to_owned()),
                next: Some(pointer("/a/b")),
                ..Paging::default()
            },
        ),
        (
            "{ kind = 'offset', param = 'o', in = 'body', size_param = 'n', size = 10, total = '/total' }",
            sized(Paging {
                kind: PageKind::Offset,
                param: Some("o".to_owned()),
                place: Some(Place::Body),
                total: Some(pointer("/total")),
                ..Paging::default()
            }),
        ),
        (
            "{ kind = 'number', param = 'p', first = 0 }",
            Paging {
                kind: PageKind::Number,
                param: Some("p".to_owned()),
                first: Some(0.to_string()),
                ..Paging::default()
            },
        ),
    ];
    for (text, expected) in cases {
        let sets = [
            &format!("upstreams.things.calls.'owners.list'.page={text}"),
            "upstreams.things.calls.'owners.list'.method=POST",
        ];
        assert_eq!(
            right(SMALL, &sets).upstreams["things"].calls["owners.list"].paging,
            expected
        );
    }
}

#[test]
fn a_body_is_json_whose_texts_are_templates() {
    let call = "upstreams.things.calls.'owners.list'";
    let body = "{ ids = ['{ids}'], n = 5, x = 1.5, deep = { yes = true, day = 2026-01-01 } }";
    let sets = [
        format!("{call}.method=POST"),
        format!("{call}.json={body}"),
        "jobs.all.steps.1.params={}".to_owned(),
    ];
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let config = right(SMALL, &sets);
    let expected =
        json!({ "ids": ["{ids}"], "n": 5, "x": 1.5, "deep": { "yes": true, "day": "2026-01-01" } });
    let expected = Body::Json(serde_json::from_value(expected).unwrap());
    assert_eq!(
        config.upstreams["things"].calls["owners.list"].body,
        Some(expected)
    );

    let typo = format!("{call}.json.deep.yes={{regoin}}");
    let wrong = [&sets[..], &[&typo]].concat();
    assert_eq!(
        problems(SMALL, &wrong)[0].path,
        "upstreams.things.calls.\"owners.list\".json.deep.yes"
    );
}

#[test]
fn a_secret_is_carried_and_found_in_each_way() {
    let cases = [
        ("{ header = 'X-Key' }", Auth::Header("x-key".to_owned())),
        ("{ query = 'key' }", Auth::Query("key".to_owned())),
        ("{ bearer = true }", Auth::Bearer),
    ];
    for (text, expected) in cases {
        assert_eq!(
            right(SMALL, &[&format!("upstreams.things.auth={text}")]).upstreams["things"].auth,
            expected
        );
    }
    let cases = [
        (
            "{ file = '/run/key' }",
            SecretSource::File("/run/key".into()),
        ),
        (
            "{ credential = 'key' }",
            SecretSource::Credential("key".to_owned()),
        ),
        (
            "{ command = ['pass', 'show'] }",
            SecretSource::Command(vec!["pass".to_owned(), "show".to_owned()]),
        ),
    ];
    for (text, expected) in cases {
        let config = right(SMALL, &[&format!("credentials.main.secret={text}")]);
        assert_eq!(config.credentials["main"].secret, Some(expected));
    }
}

#[test]
fn an_upstream_without_auth_needs_no_secret_and_takes_none() {
    let open = small_with("secret = { env = \"THINGS_KEY\" }\n", "");
    for none in [
        "upstreams.things.auth=none",
        "upstreams.things.auth=\"none\"",
    ] {
        let config = right(
            &open,
            &[none, "upstreams.things.base_url=http://example.com"],
        );
        assert_eq!(config.credentials["main"].secret, None);
        assert_eq!(problems(SMALL, &[none])[0].path, "credentials.main.secret");
    }
}

#[test]
fn plain_http_carries_a_secret_to_this_machine_only() {
    for host in [
        "127.0.0.1:8080",
        "localhost",
        "[::1]:80",
        "127.9.9.9",
        "sandbox.localhost",
    ] {
        right(
            SMALL,
            &[&format!("upstreams.things.base_url=http://{host}/v1")],
        );
    }
    for host in [
        "127.0.0.1.example.com",
        "localhost.example.com",
        "10.0.0.1",
        "[::2]",
        "0.0.0.0",
    ] {
        let found = problems(
            SMALL,
            &[&format!("upstreams.things.base_url=http://{host}/v1")],
        );
        assert!(
            found.len() == 1 && found[0].to_string().contains("only over https"),
            "{host}: {found:?}"
        );
    }
}

#[test]
fn reported_headers_are_read() {
    let limit =
        "credentials.main.limits.daily.reported={ remaining = 'x-left', reset = 'x-reset' }";
    let config = right(SMALL, &[limit]);
    let headers = &config.credentials["main"].limits["daily"].reported;
    let headers = headers.as_ref().unwrap();
    let header = |name: &str| ResponseField::Header(name.to_owned());
    assert_eq!(headers.remaining, Some(header("x-left")));
    assert_eq!(headers.reset, Some(header("x-reset")));
    assert_eq!(headers.resource, None);
}

#[test]
fn two_credentials_of_one_account_share_its_limits() {
    let spare =
        "credentials.spare={ upstream = 'things', secret = { env = 'SPARE' }, account = 'main' }";
    let config = right(SMALL, &[spare]);
    assert_eq!(
        config.credentials["spare"].account,
        config.credentials["main"].account
    );
    assert!(config.credentials["spare"].limits.contains_key("daily"));

    let same = "credentials.spare.limits={ daily = { quota = 100, headroom = 10, window = '24h', resets = 'UTC', wait = '1s' } }";
    let config = right(SMALL, &[spare, same]);
    assert_eq!(
        config.credentials["spare"].limits["daily"].wait,
        Duration::from_secs(1)
    );
    assert_eq!(
        config.credentials["main"].limits["daily"].wait,
        Duration::from_secs(2)
    );

    let other = "credentials.spare.limits={ daily = { quota = 200, window = '24h' } }";
    let said = problems(SMALL, &[spare, other])[0].to_string();
    assert!(
        said.contains("limits.daily")
            && said.contains("differently")
            && said.contains("in one credential"),
        "{said}"
    );
}

#[test]
fn a_limit_has_any_window() {
    let cases = [
        (
            "{ quota = 5, window = '1s' }",
            Window::new(Some(Duration::from_secs(1)), None),
        ),
        (
            "{ quota = 5, resets = 'Asia/Kathmandu' }",
            Window::new(None, Some(Calendar::days(chrono_tz::Asia::Kathmandu))),
        ),
    ];
    for (text, window) in cases {
        let config = right(
            SMALL,
            &["jobs={}", &format!("credentials.main.limits.daily={text}")],
        );
        let expected = Limit::new(Units::new(5), Units::ZERO, window.unwrap()).unwrap();
        assert_eq!(config.credentials["main"].account.limits["daily"], expected);
    }
}

#[test]
fn a_limit_counts_over_any_period_by_its_word() {
    for period in Period::VARIANTS {
        let limit = format!("{{ quota = 5, resets = 'UTC', period = '{period}' }}");
        let set = format!("credentials.main.limits.daily={limit}");
        let config = right(SMALL, &["jobs={}", &set]);
        let window = config.credentials["main"].account.limits["daily"].window();
        assert_eq!(
            window.resets(),
            Some(Calendar::new(chrono_tz::UTC, *period))
        );
    }
}

#[test]
fn a_limit_counts_in_buckets_where_it_says_so() {
    let sliding = || Window::new(Some(Duration::from_secs(86_400)), None).unwrap();
    let cases = [
        (
            "{ quota = 5, window = '24h', counting = 'exact' }",
            sliding(),
        ),
        (
            "{ quota = 5, window = '24h', counting = 'buckets' }",
            sliding().counted(Counting::Buckets(60)).unwrap(),
        ),
        (
            "{ quota = 5, window = '24h', counting = 'buckets', buckets = 24 }",
            sliding().counted(Counting::Buckets(24)).unwrap(),
        ),
    ];
    for (text, window) in cases {
        let config = right(
            SMALL,
            &["jobs={}", &format!("credentials.main.limits.daily={text}")],
        );
        let expected = Limit::new(Units::new(5), Units::ZERO, window).unwrap();
        assert_eq!(config.credentials["main"].account.limits["daily"], expected);
    }
}

#[test]
fn sizes_are_read_in_their_units() {
    for (text, bytes) in [
        ("1", 1),
        ("\"64\"", 64),
        ("\"10kB\"", 10_000),
        ("\"2 MiB\"", 2 << 20),
        ("\"1GiB\"", 1 << 30),
    ] {
        let config = right(SMALL, &[&format!("upstreams.things.max_body={text}")]);
        assert_eq!(config.upstreams["things"].max_body, bytes, "{text}");
    }
}

#[test]
fn each_address_of_a_redis_is_taken() {
    for url in [
        "redis://127.0.0.1/0",
        "rediss://user:pw@redis.example.com:6380",
        "redis+sentinel://a:26379/main",
        "redis+sentinel://user:pw@a:26379,b:26379,c/main/2?tls=true",
        "redis+cluster://a:6379",
        "redis+cluster://a:6379,b:6380",
        "unix:///run/redis.sock",
    ] {
        let config = right(SMALL, &[&format!("ledger.url={url}")]);
        assert!(
            matches!(config.ledger.store, LedgerStore::Redis(_)),
            "{url}"
        );
    }
}

#[test]
fn each_address_of_a_postgresql_is_taken_and_verified_unless_it_is_this_machine() {
    let disabled = PostgresTls::Disabled;
    let verified = |root: Option<&str>| PostgresTls::Verified {
        root: root.map(Into::into),
        client: None,
    };
    for (url, tls, shown) in [
        (
            "postgres://u@db.example/n",
            verified(None),
            "postgres://u@db.example/n",
        ),
        (
            "postgresql://u:pw@db.example:6432",
            verified(None),
            "postgres://u@db.example:6432",
        ),
        (
            "postgres://u@db/n?sslmode=disable",
            disabled.clone(),
            "postgres://u@db/n",
        ),
        (
            "postgres://u@db/n?sslmode=require",
            verified(None),
            "postgres://u@db/n",
        ),
        (
            "postgres://u@127.0.0.1/n?sslrootcert=/ca.pem",
            verified(Some("/ca.pem")),
            "postgres://u@127.0.0.1/n",
        ),
        (
            "postgres://u@127.0.0.1/n",
            disabled.clone(),
            "postgres://u@127.0.0.1/n",
        ),
        (
            "postgres://u@localhost:1/n",
            disabled.clone(),
            "postgres://u@localhost:1/n",
        ),
        (
            "postgres://u@[::1]:1/n",
            disabled.clone(),
            "postgres://u@[::1]:1/n",
        ),
        (
            "postgres:///n?host=/run/pg&user=u&sslmode=verify-full",
            disabled.clone(),
            "postgres:///run/pg/.s.PGSQL.5432/n",
        ),
        (
            "postgres://u:p%2Fw@%2Frun%2Fpg/n",
            disabled,
            "postgres://u@/run/pg/.s.PGSQL.5432/n",
        ),
        (
            "postgres://u@a,b:2,c/n?target_session_attrs=read-write&connect_timeout=3",
            verified(None),
            "postgres://u@a,b:2,c/n",
        ),
    ] {
        let config = right(SMALL, &[&format!("catalog.url={url}")]);
        let CatalogStore::Postgres(read) = &config.catalog.store else {
            panic!("{url}")
        };
        assert_eq!(read.tls_of(&read.hosts[0]), tls, "{url}");
        let debug = format!("{:?}", config.catalog);
        assert!(!debug.contains("pw") && !debug.contains("p/w"), "{debug}");
        if !shown.contains("/run") {
            assert_eq!(read.to_string(), shown);
        }
    }
}

#[test]
fn a_call_may_say_what_it_does_in_an_outage() {
    for (text, expected) in [("allow", Outage::Allow), ("refuse", Outage::Refuse)] {
        let config = right(
            SMALL,
            &[&format!(
                "upstreams.things.calls.'owners.list'.outage={text}"
            )],
        );
        assert_eq!(
            config.upstreams["things"].calls["owners.list"].outage,
            Some(expected)
        );
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let found = problems(
        SMALL,
        &[
            "ledger.timeout=soon",
            "jobs.all.every=often",
            "upstreams.things.attempts=0",
        ],
    );
    let paths: Vec<_> = found.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "ledger.timeout",
            "upstreams.things.attempts",
            "jobs.all.every"
        ]
    );
}

#[test]
fn a_section_that_is_wrong_hides_no_mistake_between_others() {
    for wrong in ["serve.query_timeout=soon", "ledger.timeout=soon"] {
        let found = problems(
            SMALL,
            &[wrong, "upstreams.things.calls.'things.list'.path={city}"],
        );
        let paths: Vec<_> = found.iter().map(|problem| problem.path.as_str()).collect();
        assert!(
            paths.iter().any(|path| path.starts_with("upstreams")),
            "{wrong}: {paths:?}"
        );
    }
}

#[test]
fn a_call_that_is_only_charged_by_hand_needs_neither_path_nor_records() {
    right(
        SMALL,
        &["upstreams.things.calls.'things.delete'={ cost = 50 }"],
    );
}

#[test]
fn a_step_may_ask_for_pages_of_another_size_than_its_call() {
    let config = right(SMALL, &["jobs.all.steps.0.params.size=5"]);
    assert_eq!(
        config.jobs[0].steps[0].params["size"].templates()[0].as_str(),
        "5"
    );
}

#[test]
fn a_secret_among_the_parameters_is_refused_and_not_shown() {
    let sets = [
        "upstreams.things.auth={ query = 'key' }",
        "jobs.all.steps.0.params.key=hush",
    ];
    let said = format!("{:?}", problems(SMALL, &sets));
    assert!(
        said.contains("auth sets this parameter") && !said.contains("hush"),
        "{said}"
    );
}

#[test]
fn what_is_wrong_for_two_jobs_is_said_once() {
    let text = format!(
        "{SMALL}[jobs.more]\ncredential = \"main\"\nsteps = [{{ call = \"things.list\" }}]\n"
    );
    let found = problems(&text, &["upstreams.things.calls.'things.list'.path={city}"]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_list_that_stops_at_what_is_known_is_read_to_its_end_every_so_often() {
    let stop = |every: &str| {
        let stop = format!("stop_at_known = {{ complete_every = \"{every}\" }}");
        let config = right(&SMALL.replace("max_pages = 4", &stop), &[]);
        config.jobs[0].steps[0].stop_at_known.unwrap()
    };
    let last = ingest_quota::Timestamp::parse("2026-03-01T00:00:00Z").unwrap();
    let next = ingest_quota::Timestamp::parse("2026-03-08T00:00:00Z");
    assert_eq!(stop("7d").complete_at(last), next);
    assert_eq!(stop("never").complete_at(last), None);
    let steps = &right(SMALL, &[]).jobs[0].steps;
    assert!(steps.iter().all(|step| step.stop_at_known.is_none()));
}

#[test]
fn slices_divide_time_and_appear_when_they_are_over() {
    let slices = |keys: &str| {
        let text = SMALL
            .replace("every = \"1h\"", &format!("slices = {{ {keys} }}"))
            .replace("{region}", "{slice.from}");
        let config = right(&text, &[]);
        config.jobs[0].slices.unwrap()
    };
    let at = |text: &str| ingest_quota::Timestamp::parse(text).unwrap();
    let left = |keys: &str, now: &str| {
        let left = slices(keys).left(at(now), &[]);
        let names: Vec<String> = left.slices.iter().map(ToString::to_string).collect();
        (names.join(" "), left.next_at)
    };
    let weeks = "from = \"2024-01-01\", step = \"week\"";
    assert_eq!(
        left(weeks, "2024-01-14T23:59:59Z"),
        (
            "2024-01-01/2024-01-08".to_owned(),
            Some(at("2024-01-15T00:00:00Z"))
        )
    );
    assert_eq!(
        left(weeks, "2024-01-15T00:00:00Z").0,
        "2024-01-08/2024-01-15 2024-01-01/2024-01-08"
    );
    assert_eq!(
        left(
            "from = \"2024-01-01\", step = \"1d\", to = \"now-2d\"",
            "2024-01-03T23:00:00Z"
        ),
        (String::new(), Some(at("2024-01-04T00:00:00Z")))
    );
    assert_eq!(
        left(
            "from = \"2024-01-31T12:00:00Z\", step = \"3 months\", to = \"2024-06-01\"",
            "2030-01-01T00:00:00Z"
        ),
        (
            "2024-04-30T12:00:00.000000Z/2024-06-01T00:00:00.000000Z \
             2024-01-31T12:00:00.000000Z/2024-04-30T12:00:00.000000Z"
                .to_owned(),
            None
        )
    );
}
