//! The cases of `tests/cases`: a configuration, what the upstream answers, and what runs of the program make of it.
//!
//! A case is a table under its name. It changes a base, which has one upstream `api`, its call `list`, the credential `main` with
//! the limit `daily`, and the job `all`, by the keys of its tables `upstream`, `call`, `credential`, `limit` and `job`; `calls` are
//! calls beside `list`. Its other keys are those of its first run, as [`walk`] and [`is`] describe them; `then` has the further
//! runs, and `each` variants of the case. The table `every case` of a file is the base of each of its cases.

use std::sync::{Arc, Mutex};

use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use toml::Table;

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const BASE: &str = r#"
[upstreams.api]
base_url = "https://api.example.com"
[upstreams.api.calls.list]
path = "list"
cost = 1
records = { at = "/data", kind = "row", id = "/id" }
[credentials.main]
upstream = "api"
[credentials.main.limits.daily]
quota = 1000
window = "24h"
[jobs.all]
credential = "main"
steps = [{ call = "list" }]
"#;

/// The tables of a case that change the base, and where.
const CHANGES: [(&str, &[&str]); 6] = [
    ("upstream", &["upstreams", "api"]),
    ("calls", &["upstreams", "api", "calls"]),
    ("call", &["upstreams", "api", "calls", "list"]),
    ("credential", &["credentials", "main"]),
    ("limit", &["credentials", "main", "limits", "daily"]),
    ("job", &["jobs", "all"]),
];

/// The text of a file of cases.
fn cases(name: &str) -> String {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    std::fs::read_to_string(format!("{directory}/{name}.toml")).unwrap()
}

/// Lives all cases of a file, and names those that went otherwise.
fn hold(file: &str) {
    let mut cases: Table = file.parse().unwrap();
    let every = cases
        .remove("every case")
        .unwrap_or_else(|| Table::new().into());
    let mut wrong = Vec::new();
    for (name, case) in cases {
        for variant in variants(&changed(every.as_table().unwrap(), &case)) {
            if let Err(complaint) = live(variant) {
                wrong.push(format!("{name}: {complaint}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The case, or each of its variants.
fn variants(case: &Table) -> Vec<Table> {
    let mut case = case.clone();
    match case.remove("each") {
        Some(each) => each
            .as_array()
            .unwrap()
            .iter()
            .map(|variant| changed(&case, variant))
            .collect(),
        None => vec![case],
    }
}

/// A table that changes the base, and the answers by request, are added to those of the case; all else replaces it.
fn changed(case: &Table, changes: &toml::Value) -> Table {
    let mut changed = case.clone();
    for (key, change) in changes.as_table().unwrap() {
        let is_added = key == "answers" || CHANGES.iter().any(|(name, _)| name == key);
        match (changed.get_mut(key), change) {
            (Some(toml::Value::Table(table)), toml::Value::Table(more))
                if is_added && !more.contains_key("headers") =>
            {
                table.extend(more.clone());
            }
            _ => {
                changed.insert(key.clone(), change.clone());
            }
        }
    }
    changed
}

fn live(mut case: Table) -> Result<(), String> {
    let text = configuration(&mut case);
    let answers = Arc::new(Mutex::new(toml::Value::from("{}")));
    let told = Arc::clone(&answers);
    let stub = StubUpstream::start(move |request| answer(&told.lock().unwrap(), request));
    let mut world = World::upon(&stub, &text);
    let then = case
        .remove("then")
        .unwrap_or_else(|| Vec::<Table>::new().into());
    let further = then.as_array().unwrap().iter();
    let further = further.map(|run| run.as_table().unwrap().clone());
    for (nth, mut run) in std::iter::once(case).chain(further).enumerate() {
        if let Some(changed) = run.remove("answers") {
            *answers.lock().unwrap() = changed;
        }
        let walked = walk(&mut world, &stub, run);
        walked.map_err(|complaint| format!("run {}: {complaint}", nth + 1))?;
    }
    Ok(())
}

/// Takes out of a case what changes the base, and makes a file of it.
fn configuration(case: &mut Table) -> String {
    let mut file: Table = BASE.parse().unwrap();
    for (key, path) in CHANGES {
        let mut table = &mut file;
        for name in path {
            table = table[*name].as_table_mut().unwrap();
        }
        if let Some(toml::Value::Table(changes)) = case.remove(key) {
            table.extend(changes);
        }
    }
    file.extend(
        case.remove("regions")
            .map(|regions| ("regions".to_owned(), regions)),
    );
    file.to_string()
}

/// A request as cases have it: its path, its query and its body.
pub(crate) fn shown(request: &StubRequest) -> String {
    let query = request.query.iter();
    let query: Vec<String> = query
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let query = match query.is_empty() {
        true => String::new(),
        false => format!("?{}", query.join("&")),
    };
    let body = String::from_utf8_lossy(&request.body);
    format!("{}{query} {body}", request.path)
        .trim_end()
        .to_owned()
}

/// `answers` is one answer, several in turn, of which the last is repeated, or a table in which the first key that the request
/// contains has its answer. An answer is its body, in which `{number}` counts the requests, behind a status if it is not 200, or a table of `status`, `headers` and `body`.
pub(crate) fn answer(answers: &toml::Value, request: &StubRequest) -> StubAnswer {
    match answers {
        toml::Value::String(text) => match text.split_once(' ') {
            Some((status, body)) if status.len() == 3 && status.parse::<u16>().is_ok() => {
                StubAnswer::text(status.parse().unwrap(), body)
            }
            _ => StubAnswer::text(200, &text.replace("{number}", &request.number.to_string())),
        },
        toml::Value::Array(answers) => {
            answer(&answers[request.number.min(answers.len() - 1)], request)
        }
        toml::Value::Table(whole) if whole.contains_key("headers") => {
            let bare = answer(&whole["body"], request);
            let status = whole
                .get("status")
                .map_or(200, |status| status.as_integer().unwrap());
            let headers = whole["headers"].as_table().unwrap().iter();
            let lines = headers
                .flat_map(|(name, values)| phrases(values).into_iter().map(move |one| (name, one)));
            lines.fold(
                bare.with_status(status.try_into().unwrap()),
                |answer, (name, value)| answer.header(name, &value),
            )
        }
        toml::Value::Table(by_request) => {
            let shown = shown(request);
            let mut found = by_request.iter().filter(|(part, _)| shown.contains(*part));
            match found.next() {
                Some((_, found)) => answer(found, request),
                None => StubAnswer::text(500, &format!("no case expects {shown}")),
            }
        }
        other => panic!("no answer: {other}"),
    }
}

/// One run: `set` and `answers` change what was before it, `run` has other options than `--region all`, `check` has what `check`
/// says in place of a run, and every other key is compared with what [`is`]. A run without options of its own is `complete` if
/// nothing is said of its outcome.
fn walk(world: &mut World, stub: &StubUpstream, mut run: Table) -> Result<(), String> {
    for set in run.remove("set").iter().flat_map(phrases) {
        world.set(&set);
    }
    if let Some(expected) = run.remove("check") {
        let ran = world.ingest(&["check", "--config-only"]);
        let missing = missing(&ran.stderr, &expected);
        return match missing.is_empty() && ran.code == 2 && run.is_empty() {
            true => Ok(()),
            false => Err(format!("`check` does not say {missing:?}: {ran:?}")),
        };
    }
    let report = match run.remove("run") {
        Some(options) => said(world, options.as_str().unwrap()),
        None => {
            run.entry("outcome").or_insert_with(|| "complete".into());
            said(world, "--region all")
        }
    };
    for (key, expected) in &run {
        let is = is(key, expected, &report, world, stub);
        let expected = match key.as_str() {
            "says" | "says_not" | "shows" => json!([]),
            "bodies" => parsed(&phrases(expected)),
            _ => serde_json::to_value(expected).unwrap(),
        };
        if is != expected {
            return Err(format!("{key} is {is} in place of {expected}: {report}"));
        }
    }
    Ok(())
}

/// What a command says as JSON.
fn said(world: &World, command: &str) -> Value {
    world.json(&command.split(' ').collect::<Vec<_>>())
}

/// What a run made of a key.
fn is(
    key: &str,
    expected: &toml::Value,
    report: &Value,
    world: &World,
    stub: &StubUpstream,
) -> Value {
    let pass = &report["passes"][0];
    let requests = stub.requests();
    match key {
        "outcome" => report["outcome"].clone(),
        // Of the first pass: its outcome, and its doubts by their names.
        "pass" => pass["outcome"].clone(),
        "doubts" => pass["doubts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one["doubt"].clone())
            .collect(),
        // What the report does not contain, what it contains though it should not, and what it has at JSON pointers.
        "says" => missing(&report.to_string(), expected).into(),
        "says_not" => {
            let absent = missing(&report.to_string(), expected);
            phrases(expected)
                .into_iter()
                .filter(|phrase| !absent.contains(phrase))
                .collect()
        }
        "report" => at(report, expected),
        // Of commands behind the run: what their JSON has at pointers, and what their text lacks.
        "json" => of_each(expected, |command, places| {
            at(&said(world, command), places)
        }),
        "shows" => {
            let shown = |(command, expected): (&String, &toml::Value)| {
                let ran = world.ingest(&command.split(' ').collect::<Vec<_>>());
                missing(&format!("{} {}", ran.stdout, ran.stderr), expected)
            };
            expected
                .as_table()
                .unwrap()
                .iter()
                .flat_map(shown)
                .collect()
        }
        // Since the beginning: how many requests, all of them, and of the last its method and headers, or `none`.
        "requests" => requests.len().into(),
        "sent" => requests.iter().map(shown).collect(),
        "sorted" => {
            let mut shown: Vec<String> = requests.iter().map(shown).collect();
            shown.sort();
            shown.into()
        }
        "method" => requests.last().unwrap().method.as_str().into(),
        "headers" => {
            let last = requests.last().unwrap();
            of_each(expected, |name, _| {
                last.header(name).unwrap_or("none").into()
            })
        }
        // In the catalog: the ids, the number and the bodies of all records, how many are gone, and what queries give.
        "ids" => column(&world.catalog(), "select id from record order by id").into(),
        "count" => world.count("select count(*) from record").into(),
        "gone" => world
            .count("select count(*) from record where gone_at is not null")
            .into(),
        "bodies" => parsed(&column(
            &world.catalog(),
            "select body from record order by id",
        )),
        "select" => of_each(expected, |select, _| {
            column(&world.catalog(), select).into()
        }),
        // What the ledger has counted of the limit `daily`.
        "charged" => world.charged("daily").into(),
        _ => Value::from("no key of a case"),
    }
}

/// What JSON has at these pointers; a null is the text `null`.
fn at(json: &Value, places: &toml::Value) -> Value {
    of_each(places, |pointer, _| match json.pointer(pointer) {
        None | Some(Value::Null) => "null".into(),
        Some(found) => found.clone(),
    })
}

fn parsed(bodies: &[String]) -> Value {
    bodies
        .iter()
        .map(|body| body.parse::<Value>().unwrap())
        .collect()
}

fn of_each(expected: &toml::Value, is: impl Fn(&str, &toml::Value) -> Value) -> Value {
    let expected = expected.as_table().unwrap().iter();
    expected
        .map(|(name, expected)| (name.clone(), is(name, expected)))
        .collect()
}

/// One phrase or several.
fn phrases(value: &toml::Value) -> Vec<String> {
    match value {
        toml::Value::Array(phrases) => phrases.iter().flat_map(self::phrases).collect(),
        _ => vec![value.as_str().unwrap().to_owned()],
    }
}

/// The phrases that a text lacks, whose lines may be broken anywhere.
fn missing(text: &str, expected: &toml::Value) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let mut missing = phrases(expected);
    missing.retain(|phrase| !text.contains(phrase));
    missing
}

/// The first column of the rows that a query of the catalog gives, as text; a null is `-`.
pub(crate) fn column(catalog: &rusqlite::Connection, select: &str) -> Vec<String> {
    let mut query = catalog.prepare(select).unwrap();
    let rows = query.query_map([], |row| {
        Ok(match row.get_ref(0)? {
            ValueRef::Null => "-".to_owned(),
            ValueRef::Integer(number) => number.to_string(),
            text => text.as_str()?.to_owned(),
        })
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_case_that_goes_otherwise_is_named() {
    for wrong in [
        "outcome = 'failed'",
        "pass = 'doubtful'",
        "doubts = ['no-records']",
        "ids = ['2']",
        "count = 2",
        "gone = 1",
        "requests = 2",
        "charged = 2",
        "says = 'doubtful'",
        "says_not = 'complete'",
        "sent = ['/list?page=1']",
        "headers = { accept = 'text/csv' }",
        "method = 'PUT'",
        "bodies = ['{\"id\":2}']",
        "select = { 'select id from record' = ['2'] }",
        "shows = { 'try main list' = 'denied' }",
        "json = { status = { '/limits/0/remaining' = 1 } }",
        "report = { '/passes/0/pages' = 2 }",
        "run = '--region all --dry-run'\noutcome = 'complete'",
        "check = 'unknown'",
        "then = [{ requests = 3 }]",
        "each = [{ requests = 1 }, { requests = 2 }]",
        "request = 1",
    ] {
        let case = format!("[\"this case\"]\nanswers = '{{\"data\":[{{\"id\":1}}]}}'\n{wrong}");
        let lived = std::panic::catch_unwind(|| hold(&case));
        let said = lived.expect_err(wrong).downcast::<String>().unwrap();
        assert!(said.starts_with("this case: "), "{wrong}: {said}");
    }
}

#[test]
fn pages_lead_on_and_end_as_the_cases_say() {
    hold(&cases("pages"));
}

#[test]
fn records_are_found_as_the_cases_say() {
    hold(&cases("records"));
}

#[test]
fn formats_are_read_as_the_cases_say() {
    hold(&cases("formats"));
}

#[test]
fn requests_and_their_limits_are_as_the_cases_say() {
    hold(&cases("requests"));
}

#[test]
fn what_stands_beside_a_list_is_a_doubt_or_none_as_the_cases_say() {
    hold(&cases("beside"));
}

#[test]
fn lists_continue_where_the_last_pass_ended_as_the_cases_say() {
    hold(&cases("since"));
}

#[test]
fn edited_steps_go_on_as_the_cases_say() {
    hold(&cases("edited"));
}

#[test]
fn lists_are_whole_or_in_doubt_as_the_cases_say() {
    hold(&cases("lists"));
}

#[test]
fn lists_end_at_what_is_known_as_the_cases_say() {
    hold(&cases("known"));
}

#[test]
fn requests_have_values_of_their_parents_as_the_cases_say() {
    hold(&cases("parents"));
}
