//! Slack: cursors in `response_metadata`, and `ok: false` in a response 200.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Answer, Recipe, Then, Units, number, span};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

pub const RECIPE: Recipe = Recipe {
    name: "slack",
    instead: &[("https://slack.com", "{stub}")],
    secret: ("SLACK_TOKEN", "xoxb-0123456789"),
    credential: "slack",
    windows: &["list", "history"],
    limit: "history",
    tries: &[
        ("conversations.list", None),
        ("conversations.history", Some("C0001")),
    ],
    // The bot is not a member of the last channel.
    records: &[("slack_channel", 4), ("slack_message", 3 * 450)],
    answer,
    refuse,
    then: Then::Retries,
};

fn page(key: &str, things: Vec<Value>, next: Option<usize>) -> StubAnswer {
    let next = next.map_or(String::new(), |at| format!("bmV4dDo={at}"));
    let mut body = json!({ "ok": true, "response_metadata": { "next_cursor": next } });
    body[key] = json!(things);
    StubAnswer::json(&body)
}

fn answer(request: &StubRequest, _: &Units) -> Answer {
    assert_eq!(
        request.header("authorization"),
        Some("Bearer xoxb-0123456789")
    );
    let cursor = request
        .param("cursor")
        .map(|cursor| cursor.strip_prefix("bmV4dDo=").unwrap());
    let (start, size) = (number(cursor), number(request.param("limit")));
    match request.path.as_str() {
        "/api/conversations.list" => {
            let channel = |at| {
                json!({ "id": format!("C000{at}"), "name": format!("team-{at}"), "is_channel": true, "created": 1_600_000_000,
                    "num_members": 12, "purpose": { "value": "work", "creator": "", "last_set": 0 } })
            };
            let response = page("channels", (0..4).map(channel).collect(), None);
            Answer::one(response, &["list"])
        }
        "/api/conversations.history" => {
            let channel = request.param("channel").unwrap();
            assert_eq!(request.param("oldest"), Some("1704067200.000000"));
            if channel == "C0003" {
                let body = json!({ "ok": false, "error": "not_in_channel" });
                return Answer::one(StubAnswer::json(&body), &["history"]);
            }
            let (span, more) = span(start, size, 450);
            let message = |at: usize| {
                json!({ "type": "message", "user": "U1", "text": format!("message {at}"), "thread_ts": "1700000000.000100",
                    "ts": format!("{}.{:06}", 1_710_000_000 - at, 100) })
            };
            let next = more.then_some(span.end);
            Answer::one(
                page("messages", span.map(message).collect(), next),
                &["history"],
            )
        }
        other => panic!("{other}"),
    }
}

fn refuse(request: &StubRequest) -> Answer {
    let limit = match request.path.as_str() {
        "/api/conversations.list" => "list",
        _ => "history",
    };
    let body = json!({ "ok": false, "error": "ratelimited" });
    let response = StubAnswer::error(429, &body).header("retry-after", "1");
    Answer::one(response, &[limit])
}

/// A workspace whose channels get messages: their times, in seconds, by channel.
#[derive(Default)]
struct Workspace {
    channels: BTreeMap<&'static str, Vec<u64>>,
    /// The channel that the bot is not in.
    closed: Option<&'static str>,
    /// The `oldest` of each list of a channel that began, in their order.
    begun: Vec<(String, String)>,
}

impl Workspace {
    fn answer(&mut self, request: &StubRequest) -> StubAnswer {
        let cursor = number(request.param("cursor"));
        if request.path.ends_with("conversations.list") {
            let ids = self.channels.keys();
            let channels = ids.map(|id| json!({ "id": id, "name": id }));
            return StubAnswer::json(
                &json!({ "ok": true, "channels": channels.collect::<Vec<_>>() }),
            );
        }
        let channel = request.param("channel").unwrap();
        let oldest = request.param("oldest").unwrap();
        if self.closed == Some(channel) {
            return StubAnswer::json(&json!({ "ok": false, "error": "not_in_channel" }));
        }
        if cursor == 0 {
            self.begun.push((channel.to_owned(), oldest.to_owned()));
        }
        let mut newer: Vec<String> = self.channels[channel]
            .iter()
            .map(|at| format!("{at}.000100"))
            .filter(|at| at.as_str() > oldest)
            .collect();
        newer.sort_unstable_by(|one, other| other.cmp(one));
        let (span, more) = span(cursor, 2, newer.len());
        let next = if more {
            span.end.to_string()
        } else {
            String::new()
        };
        let messages = newer[span]
            .iter()
            .map(|at| json!({ "ts": at, "text": "words" }));
        StubAnswer::json(
            &json!({ "ok": true, "messages": messages.collect::<Vec<_>>(),
            "response_metadata": { "next_cursor": next } }),
        )
    }

    fn add(&mut self, channel: &'static str, times: impl IntoIterator<Item = u64>) {
        self.channels.entry(channel).or_default().extend(times);
    }
}

const DAY: u64 = 86_400;
const START: u64 = 1_710_000_000;

/// A workspace with two channels of five messages each, and a place with the recipe.
fn place() -> (World, StubUpstream, Arc<Mutex<Workspace>>) {
    let workspace = Arc::new(Mutex::new(Workspace::default()));
    for channel in ["C1", "C2"] {
        let times = (0..5).map(|at| START + at);
        workspace.lock().unwrap().add(channel, times);
    }
    let stub = StubUpstream::start({
        let workspace = Arc::clone(&workspace);
        move |request| workspace.lock().unwrap().answer(request)
    });
    let path = format!("{}/docs/recipes/slack.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut world = World::upon(&stub, &text);
    world.set("jobs.messages.every=\"1ms\"");
    (world, stub, workspace)
}

fn run(world: &World) -> Value {
    world.json(&["--region", "all"])
}

fn has_all(world: &World, workspace: &Mutex<Workspace>) {
    let workspace = workspace.lock().unwrap();
    let sent: usize = workspace.channels.values().map(Vec::len).sum();
    let count = "select count(*) from slack_message";
    let landed: i64 = world
        .catalog()
        .query_row(count, [], |row| row.get(0))
        .unwrap();
    assert_eq!(usize::try_from(landed).unwrap(), sent);
}

/// What the lists had as `oldest` that began since this was last called.
fn begun(workspace: &Mutex<Workspace>) -> Vec<(String, String)> {
    let mut begun = std::mem::take(&mut workspace.lock().unwrap().begun);
    begun.sort();
    begun
}

fn from(channel: &str, at: u64) -> (String, String) {
    (channel.to_owned(), format!("{at}.000100"))
}

#[test]
fn each_channel_goes_on_from_its_own_latest_message_after_a_month_without_a_run() {
    let (world, _stub, workspace) = place();
    assert_eq!(run(&world)["outcome"], "complete");
    has_all(&world, &workspace);
    begun(&workspace);
    let month = (1..=30).map(|day| START + day * DAY);
    workspace.lock().unwrap().add("C1", month);
    // The newest message of the other channel is older.
    workspace.lock().unwrap().add("C2", [START + 10]);
    workspace.lock().unwrap().add("C3", [START - 50 * DAY]);
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    has_all(&world, &workspace);
    let first = ("C3".to_owned(), "1704067200.000000".to_owned());
    let expected = [from("C1", START + 4), from("C2", START + 4), first];
    assert_eq!(begun(&workspace), expected);
    assert_eq!(run(&world)["outcome"], "complete");
    let latest = [
        from("C1", START + 30 * DAY),
        from("C2", START + 10),
        from("C3", START - 50 * DAY),
    ];
    assert_eq!(begun(&workspace), latest);
}

#[test]
fn a_pass_that_a_limit_stops_inside_a_channel_resumes_there_and_loses_no_message() {
    let (mut world, stub, workspace) = place();
    run(&world);
    begun(&workspace);
    let month = |channel| (1..=7).map(move |day| (channel, START + day * DAY));
    for (channel, at) in month("C1").chain(month("C2")) {
        workspace.lock().unwrap().add(channel, [at]);
    }
    // Six requests of the first run, and two of the four pages of a channel.
    world.set("credentials.slack.limits.history.quota=8");
    world.set("credentials.slack.limits.history.window=\"6h\"");
    let report = run(&world);
    assert_eq!(report["outcome"], "stopped", "{report}");
    world.set("credentials.slack.limits.history.quota=50");
    let report = run(&world);
    assert_eq!(report["outcome"], "complete", "{report}");
    has_all(&world, &workspace);
    let expected = [from("C1", START + 4), from("C2", START + 4)];
    assert_eq!(begun(&workspace), expected);
    let history = stub
        .requests()
        .iter()
        .filter(|request| request.path.ends_with("history"))
        .count();
    assert_eq!(history, 6 + 8, "no page was requested twice");
}

#[test]
fn a_channel_that_was_refused_goes_on_from_its_last_complete_list() {
    let (world, _stub, workspace) = place();
    run(&world);
    for channel in ["C1", "C2"] {
        workspace.lock().unwrap().add(channel, [START + DAY]);
    }
    workspace.lock().unwrap().closed = Some("C1");
    let report = run(&world);
    let detail = report.to_string();
    assert!(
        detail.contains("id `C1` was refused and skipped"),
        "{detail}"
    );
    workspace.lock().unwrap().closed = None;
    for channel in ["C1", "C2"] {
        workspace.lock().unwrap().add(channel, [START + 2 * DAY]);
    }
    begun(&workspace);
    run(&world);
    has_all(&world, &workspace);
    let expected = [from("C1", START + 4), from("C2", START + DAY)];
    assert_eq!(begun(&workspace), expected);
}
