//! Wrong files: each is refused with its line, its path, what was expected, and what to write.

use std::collections::BTreeMap;

use super::{SMALL, parse, problems, said, small_with};

/// The wrong files of `cases/wrong.toml`: a text of the small file, what it is replaced by, and what is said of that.
fn wrong_files() -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    toml::from_str(include_str!("../cases/wrong.toml")).unwrap()
}

#[test]
fn every_wrong_file_is_refused_with_its_line_its_path_and_what_to_write() {
    let mut complaints = Vec::new();
    for (before, replacements) in wrong_files() {
        for (after, phrases) in replacements {
            complaints.extend(complaint(&before, &after, &phrases));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What is wrong with what is said of a wrong file, or of a wrong `--set` of the right one: it begins with the first phrase and
/// contains the others.
fn complaint(before: &str, after: &str, phrases: &[String]) -> Option<String> {
    let (text, sets) = match before {
        "--set" => (SMALL.to_owned(), vec![after]),
        _ => (small_with(before, after), Vec::new()),
    };
    let said = said(&text, &sets);
    let place = match before {
        "--set" => phrases[0].clone(),
        _ => format!("quotas.toml:{}", phrases[0]),
    };
    let right = problems(&text, &sets).len() == 1
        && said.starts_with(&place)
        && phrases[1..].iter().all(|phrase| said.contains(phrase))
        && !["hush", "pw@", "pw:", "hu/"]
            .iter()
            .any(|secret| said.contains(secret));
    (!right).then(|| format!("{after:?} gave\n    {said}\n  in place of {phrases:?}"))
}

#[test]
fn a_case_that_expects_something_else_is_named() {
    let line = ["5: ledger.url".to_owned()];
    let phrase = ["4: ledger.url".to_owned(), "something else".to_owned()];
    for phrases in [&line[..], &phrase] {
        let complaint = complaint("url = \"sqlite\"", "url = 3", phrases);
        assert!(complaint.unwrap().contains("url = 3"));
    }
}

#[test]
fn names_that_refer_to_nothing_are_reported_together_with_other_mistakes() {
    let mistakes = [
        (
            "timeout = \"30s\"",
            "timeout = \"soon\"",
            "upstreams.things.timeout",
        ),
        (
            "cost = { daily = 1 }",
            "cost = { dayly = 1 }",
            "did you mean daily?",
        ),
        (
            "call = \"owners.list\"",
            "call = \"owner.list\"",
            "did you mean \"owners.list\"?",
        ),
        ("url = \"sqlite\"", "url = 7", "ledger.url"),
        ("max_pages = 4", "max_page = 4", "did you mean max_pages?"),
    ];
    let text = mistakes
        .iter()
        .fold(SMALL.to_owned(), |text, (right, wrong, _)| {
            assert!(text.contains(right), "{right}");
            text.replacen(right, wrong, 1)
        });
    let found: Vec<String> = problems(&text, &[])
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found.len(), mistakes.len(), "{}", found.join("\n"));
    for (_, wrong, phrase) in mistakes {
        let is_named = found.iter().any(|one| one.contains(phrase));
        assert!(is_named, "{wrong} gave {}", found.join("\n"));
    }
    // What is right is checked as usual beside a table that is not.
    let text = SMALL.replacen("url = \"sqlite\"", "url = 7", 1).replacen(
        "leave = { daily = 20 }",
        "leave = { dayly = 20 }",
        1,
    );
    assert_eq!(problems(&text, &[]).len(), 2);
}

#[test]
fn a_wrong_word_is_answered_with_the_right_ones_once() {
    let text = SMALL.replacen("cost = 1", "cost = 1\noutage = \"perhaps\"", 1);
    let found = said(&text, &[]);
    assert!(
        found.ends_with("expected one of allow, refuse; write one of these"),
        "{found:?}"
    );
}

#[test]
fn mistakes_of_several_credentials_are_named() {
    let listed = |keys: &str, more: &str| {
        let text = SMALL.replacen("credential = \"main\"", keys, 1) + more;
        said(&text, &[])
    };
    let both = "credentials = [\"main\", \"other\"]";
    let other = "[credentials.other]\nupstream = \"things\"\nsecret = { env = \"OTHER\" }\n";
    let daily = "limits = { daily = { quota = 90, window = \"24h\" } }\n";
    assert_eq!(listed(both, &format!("{other}{daily}")), "");
    let cases = [
        ("", String::new(), "credential: is missing"),
        (both, String::new(), "\"other\""),
        (
            "credential = \"main\"\ncredentials = [\"main\"]",
            String::new(),
            "remove one of the two",
        ),
        ("credentials = []", String::new(), "jobs.all.credentials"),
        (
            "credentials = [\"main\", \"main\"]",
            String::new(),
            "no quota of its own",
        ),
        (
            both,
            format!("{other}account = \"main\"\n"),
            "no quota of its own",
        ),
        (
            both,
            format!("{other}limits = {{ daily = {{ quota = 15, window = \"24h\" }} }}\n"),
            "`leave` reserves 20",
        ),
    ];
    for (keys, more, phrase) in cases {
        let said = listed(keys, &more);
        assert!(said.contains(phrase), "{keys} {more} gave {said:?}");
    }
}

#[test]
fn mistakes_of_slices_are_named() {
    let sliced = |keys: &str, param: &str| {
        let text = SMALL
            .replace("every = \"1h\"", keys)
            .replace("{region}", param);
        said(&text, &[])
    };
    let january = "slices = { from = \"2024-01-01\", step = \"30d\" }";
    assert_eq!(sliced(january, "{slice.from:-1d:%s}"), "");
    let cases = [
        ("", "{slice.from}", "job \"all\" has no `slices`"),
        (january, "{region}", "would list the same in every slice"),
        (january, "{slice.from} {since}", "has no {since}"),
        (
            january,
            "{slice.start}",
            "{slice.start} is not a template variable",
        ),
        (january, "{slice.to:yesterday}", "not a valid date or time"),
        (january, "{{slice.to}}", "single braces"),
        (
            "slices = { from = \"2024-01-01\", step = \"1s\" }",
            "{slice.from}",
            "at least a minute",
        ),
        (
            "slices = { from = \"2024-01-01\", step = \"fortnight\" }",
            "{slice.from}",
            "expected a duration",
        ),
        (
            "slices = { from = \"last year\", step = \"1d\" }",
            "{slice.from}",
            "expected a date",
        ),
        (
            "slices = { from = \"2024-01-01\", step = \"1d\", to = \"2023-01-01\" }",
            "{slice.from}",
            "expected an end after `from`",
        ),
        (
            "slices = { from = \"2024-01-01\", step = \"1d\", to = \"tomorrow\" }",
            "{slice.from}",
            "write for example \"2025-01-01\", \"now\" or \"now-2d\"",
        ),
        (
            "since = \"2024-01-01\"\nslices = { from = \"2024-01-01\", step = \"1d\" }",
            "{slice.from}",
            "a job with `slices` has no {since}",
        ),
    ];
    for (keys, param, phrase) in cases {
        let said = sliced(keys, param);
        assert!(said.contains(phrase), "{keys} {param} gave {said:?}");
    }
}

#[test]
fn a_list_stops_at_what_is_known_only_where_it_is_read_to_its_end_now_and_then() {
    let said = |step: &str, upstream: &str| {
        let text = SMALL
            .replace("max_pages = 4", step)
            .replace("timeout = \"30s\"", upstream);
        said(&text, &[])
    };
    let weekly = "stop_at_known = { complete_every = \"7d\" }";
    assert_eq!(said(weekly, ""), "");
    assert_eq!(
        said("stop_at_known = { complete_every = \"never\" }", ""),
        ""
    );
    assert_eq!(said(weekly, "keep = \"169h\""), "", "7d and `every`");
    let cases = [
        ("stop_at_known = {}", "", "complete_every"),
        (
            "stop_at_known = { complete_every = \"soon\" }",
            "",
            "write for example \"7d\", or \"never\"",
        ),
        (
            "stop_at_known = { complete_every = \"0s\" }",
            "",
            "longer than zero",
        ),
        ("stop_at_known = { every = \"7d\" }", "", "unknown key"),
        (
            "max_pages = 4\nstop_at_known = { complete_every = \"7d\" }",
            "",
            "remove one of the two",
        ),
        (weekly, "keep = \"7d\"", "write at most \"6days 23h\""),
        (
            "stop_at_known = { complete_every = \"never\" }",
            "keep = \"30d\"",
            "`keep` of the upstream deletes records",
        ),
        (
            weekly,
            "headers = { since = \"{since}\" }",
            "the step names {since}",
        ),
        (
            weekly,
            "headers = { on = \"{date}\" }",
            "the step names {date}",
        ),
    ];
    for (step, upstream, phrase) in cases {
        let said = said(step, upstream);
        assert!(said.contains(phrase), "{step} {upstream} gave {said:?}");
        assert!(said.contains("jobs.all.steps.0.stop_at_known"), "{said}");
    }
    let of_ids = SMALL.replace(
        "fresh_for = \"7d\" }",
        "fresh_for = \"7d\" }\nstop_at_known = { complete_every = \"7d\" }",
    );
    let of_ids = &problems(&of_ids, &[])[0].to_string();
    assert!(of_ids.contains("reads each list to its end"), "{of_ids}");
    let one_page =
        "[[jobs.all.steps]]\ncall = \"owners.list\"\nstop_at_known = { complete_every = \"7d\" }\n";
    let one_page = &problems(&format!("{SMALL}{one_page}"), &[])[0].to_string();
    assert!(one_page.contains("has one page"), "{one_page}");
}

#[test]
fn a_file_that_says_nothing_is_wrong() {
    for text in ["", "# nothing", "[upstreams]", "upstreams = {}"] {
        let found = super::problems(text, &[]);
        assert!(
            found.len() == 1 && found[0].path == "upstreams",
            "{found:?}"
        );
    }
}

#[test]
fn a_number_in_quotes_is_to_be_written_without_them() {
    let said = problems(&small_with("quota = 100", "quota = \"100\""), &[])[0].to_string();
    assert!(said.ends_with("write 100 without quotes"), "{said}");
}

#[test]
fn a_call_with_a_dot_in_its_name_is_to_be_put_in_quotes() {
    let text = small_with("calls.\"owners.list\"]", "calls.owners.list]");
    let said = problems(&text, &[])[0].to_string();
    assert!(
        said.ends_with("put a name with a dot in quotes: [upstreams.things.calls.\"owners.list\"]"),
        "{said}"
    );
}

#[test]
fn steps_in_single_brackets_are_to_be_written_in_double_ones() {
    let once = small_with(
        "[[jobs.all.steps]]\ncall = \"things.list\"",
        "[jobs.all.steps]\ncall = \"things.list\"",
    );
    let (once, _) = once.split_once("[[jobs.all.steps]]").unwrap();
    let said = problems(once, &[])[0].to_string();
    assert!(
        said.ends_with("expected a list of tables; write [[jobs.all.steps]]"),
        "{said}"
    );
}

#[test]
fn a_password_of_the_catalog_is_in_one_place_only() {
    let password = "catalog.password={ env = \"PW\" }";
    let found = problems(SMALL, &["catalog.url=postgres://u:hush@h/d", password]);
    let message = found[0].to_string();
    assert!(
        message.contains("catalog.url already contains a password"),
        "{message}"
    );
    assert!(!message.contains("hush"), "{message}");
    assert!(parse(SMALL, &["catalog.url=sqlite", password]).is_ok());
}

#[test]
fn a_rule_that_names_a_limit_which_no_credential_has_is_refused() {
    let errors = |limit: &str| {
        format!(
            "upstreams.things.errors=[{{ status = 429, class = \"spent\", limit = \"{limit}\" }}]"
        )
    };
    let found = problems(SMALL, &[&errors("dayli")]);
    let said = found[0].to_string();
    assert!(
        said.contains("no credential of this upstream has this limit")
            && said.contains("write daily"),
        "{said}"
    );
    crate::right(SMALL, &[&errors("daily")]);
}

#[test]
fn a_region_value_in_doubled_braces_is_refused_wherever_templates_are() {
    let regions = "[regions.US]\ncity = \"Boston\"\n[regions.GB]\ncity = \"London\"";
    let text = small_with("regions = [\"US\", \"GB\"]", regions);
    let call = "upstreams.things.calls.'things.list'";
    let cases = [
        ("path", "'things/{{city}}'"),
        ("headers.x-city", "'{{ city }}'"),
        ("params.q.0", "['{{city}}']"),
        ("json.a.0.b", "[{ b = 'in {{city}}' }]"),
        ("form.a", "'{{city}}'"),
        ("graphql.variables.a", "'{{city}}'"),
    ];
    for (place, value) in cases {
        let key = place.split(".0").next().unwrap();
        let mut sets = vec![format!("{call}.{key}={value}")];
        if place.starts_with("graphql") {
            sets.push(format!("{call}.graphql.query='{{ city }}'"));
        }
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let found = problems(&text, &sets);
        assert_eq!(found.len(), 1, "{place}: {found:?}");
        assert!(found[0].path.ends_with(place), "{place}: {found:?}");
        assert!(
            found[0].expected.contains("`{{city}}` is text"),
            "{found:?}"
        );
    }
    let sets = [format!("{call}.json={{ a = '{{{{ town }}}} is text' }}")];
    assert!(parse(&text, &[&sets[0]]).is_ok());
}

#[test]
fn a_key_in_place_of_the_name_of_its_variable_is_refused_and_not_repeated() {
    for key in ["sk_live_4eC39HqLyjWDarjt", "0a1b2c3d4e5f6a7b8c9d_x"] {
        let text = SMALL.replace(
            "{ env = \"THINGS_KEY\" }",
            &format!("{{ env = \"{key}\" }}"),
        );
        assert!(text.contains(key));
        let said = said(&text, &[]);
        assert!(
            said.contains("expected the name of an environment variable"),
            "{said}"
        );
        assert!(!said.contains(key), "{said}");
    }
}
