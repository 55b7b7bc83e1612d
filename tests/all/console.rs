//! The stories of `tests/cases/console`: what is typed, line by line, and what the program says and leaves behind.
//!
//! A story is a line with its name and indented lines, of which the first ones make its world. `$` runs the program, which ends with 0
//! unless `exit` says otherwise; `%` runs it with `--format json`, which is one line whatever happens, and its exit is of no interest unless `exit` names it. The other lines
//! are those of [`Told::line`]. `upstream NAME` puts a stub in the place of an upstream, which answers as in the cases of `tests/cases`
//! from `answers` on. `serve` starts the server; `GET` and `POST`, which has the client's token, and `send` ask it, with the lines of
//! `head` before them, and are answered with 200 unless `status` says otherwise. A story `every story` is the beginning of those behind it. `each` lines are those of [`variants`].

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

use crate::cases::{answer, column, shown};
use crate::serve::{CLIENT, TOKEN, send, start};
use crate::support::shared_world::SharedWorld;
use crate::support::world::{Ran, SECRET, World};
use ingest_testing::postgres::{PostgresServer, Schema};
use ingest_testing::redis_server::RedisServer;
use ingest_testing::stub_upstream::StubUpstream;

type Otherwise = Result<(), String>;

/// Tells all stories of a file, and names those that went otherwise.
fn hold(text: &str) {
    let mut wrong = Vec::new();
    let mut every = Vec::new();
    for (name, lines) in stories(text) {
        if name == "every story" {
            every = lines;
            continue;
        }
        for (values, lines) in variants([&every[..], &lines].concat()) {
            if let Err(otherwise) = Told::tell(&lines) {
                wrong.push(format!("{name}{values}: {otherwise}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn file(name: &str) -> String {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/console");
    fs::read_to_string(format!("{directory}/{name}.txt")).unwrap()
}

/// The stories of a text, each with its name and its lines.
fn stories(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut stories: Vec<(&str, Vec<String>)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix("    "), stories.last_mut()) {
            (Some(line), Some((_, lines))) => lines.push(line.to_owned()),
            _ if line.is_empty() => {}
            _ => stories.push((line, Vec::new())),
        }
    }
    stories
}

/// A story for each row of its `each` lines, with the values of the row for their names: `each {NAME}: ONE | OTHER`, or the names
/// alone and behind them a line for each row.
fn variants(mut lines: Vec<String>) -> Vec<(String, Vec<String>)> {
    let Some(at) = lines.iter().position(|line| line.starts_with("each {")) else {
        return vec![(String::new(), lines)];
    };
    let each = lines.remove(at);
    let (names, values) = each.split_once(": ").unwrap_or((&each, ""));
    let mut rows: Vec<String> = values.split(" | ").map(str::to_owned).collect();
    if values.is_empty() {
        let count = lines[at..].iter().take_while(|line| line.starts_with(' '));
        let count = count.count();
        rows = lines.drain(at..at + count).collect();
    }
    let names: Vec<&str> = names.split(' ').skip(1).collect();
    let with = |row: &String| {
        let values = row.trim_start().splitn(names.len(), " => ");
        let values: Vec<_> = names.iter().zip(values).collect();
        let filled_in = |line: &String| {
            let all = values.iter();
            all.fold(line.clone(), |line, (name, value)| {
                line.replace(*name, value)
            })
        };
        let further = variants(lines.iter().map(filled_in).collect()).into_iter();
        let named = further.map(|(behind, lines)| (format!(" ({}){behind}", row.trim()), lines));
        named.collect::<Vec<_>>()
    };
    rows.iter().flat_map(with).collect()
}

/// A story as far as it is told.
struct Told {
    world: World,
    stub: Option<StubUpstream>,
    answers: Arc<Mutex<toml::Value>>,
    /// How many requests a line `sent` has seen.
    seen: usize,
    redis: Option<RedisServer>,
    schema: Option<Schema>,
    server: Option<(Child, SocketAddr)>,
    /// More lines of the head of the next request.
    head: Vec<String>,
    /// Variables of the environment of the next run; `-NAME` is one that it lacks.
    environment: Vec<(String, String)>,
    known: BTreeMap<String, Value>,
    ran: Ran,
    took: Duration,
}

impl Told {
    /// `begin SET` is a setting that the sandbox has too, `preset NAME` and lines that begin with `|` are another configuration than
    /// the shipped one.
    fn tell(lines: &[String]) -> Otherwise {
        let all = |word: &str| {
            let lines = lines.iter().filter_map(|line| line.strip_prefix(word));
            lines.collect::<Vec<_>>()
        };
        let (sets, presets, text) = (all("begin "), all("preset "), all("| "));
        let world = match (presets.first(), text.is_empty()) {
            (Some(preset), _) => World::preset(preset, &sets),
            (None, true) => World::configured(&sets, |_| {}),
            (None, false) => World::written(&text.join("\n"), &sets),
        };
        let mut told = Self {
            world,
            stub: None,
            answers: Arc::new(Mutex::new(toml::Value::from("{}"))),
            seen: 0,
            redis: None,
            schema: None,
            server: None,
            head: Vec::new(),
            environment: Vec::new(),
            known: BTreeMap::new(),
            ran: Ran {
                code: 0,
                stdout: String::new(),
                stderr: String::new(),
            },
            took: Duration::ZERO,
        };
        for (at, line) in lines.iter().enumerate() {
            let exit = lines
                .get(at + 1)
                .and_then(|next| next.strip_prefix("exit ").or(next.strip_prefix("status ")))
                .map(|code| code.parse().unwrap());
            let line = told.filled_in(line);
            told.line(&line, exit)
                .map_err(|otherwise| format!("{line}: {otherwise}\n{:?}", told.ran))?;
        }
        Ok(())
    }

    /// A line with what is known where it is named; `{now+60}` is in a minute, in seconds since 1970, and
    /// `{date-60}` was a minute ago, as HTTP has it.
    fn filled_in(&self, line: &str) -> String {
        let directory = self.world.directory.path().display().to_string();
        let mut line = line.replace("{dir}", &directory);
        while let Some((before, span, behind)) = between(&line, "{now", "}") {
            let seconds = at(span).timestamp();
            line = format!("{before}{seconds}{behind}");
        }
        while let Some((before, span, behind)) = between(&line, "{date", "}") {
            let date = at(span).format("%a, %d %b %Y %H:%M:%S GMT");
            line = format!("{before}{date}{behind}");
        }
        if let Some(redis) = &self.redis {
            line = line.replace("{redis}", &format!("127.0.0.1:{}", redis.port()));
        }
        if let Some((_, address)) = &self.server {
            line = line.replace("{address}", &address.to_string());
        }
        if let Some(schema) = &self.schema {
            line = line.replace("{postgres}", &schema.url);
        }
        for (name, value) in &self.known {
            line = line.replace(&format!("{{{name}}}"), &plain(value));
        }
        line
    }

    fn line(&mut self, line: &str, exit: Option<i32>) -> Otherwise {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "begin" | "preset" | "|" | "exit" | "status" => Ok(()),
            "GET" => self.ask(line, "", exit),
            "POST" => {
                let [path, body] = halves(rest);
                self.head.push("Content-Type: application/json".to_owned());
                self.head.push(format!("Authorization: Bearer {TOKEN}"));
                self.ask(&format!("POST {path}"), body, exit)
            }
            "send" => {
                let mut parts = rest.splitn(3, ' ');
                let [method, path] = [(); 2].map(|()| parts.next().unwrap());
                let body = parts.next().unwrap_or_default();
                self.ask(&format!("{method} {path}"), body, exit)
            }
            "$" => {
                self.run(&words(rest));
                equal(self.ran.code, exit.unwrap_or_default())
            }
            "%" => {
                let mut words = words(rest);
                words.extend(["--format".to_owned(), "json".to_owned()]);
                self.run(&words);
                equal(self.ran.stdout.matches('\n').count(), 1)?;
                exit.map_or(Ok(()), |exit| equal(self.ran.code, exit))
            }
            "out" => said(&self.ran.stdout, rest),
            "err" => said(&self.ran.stderr, rest),
            "said" => said(&format!("{}{}", self.ran.stdout, self.ran.stderr), rest),
            "json" => self.json(rest),
            "keep" => {
                let (name, pointer) = rest.split_once(' ').unwrap();
                let value = found(&self.ran.json(), pointer).unwrap_or_default();
                self.known.insert(name.to_owned(), value);
                Ok(())
            }
            "known" => {
                let [name, query] = halves(rest);
                let found = column(&self.world.catalog(), query).join(" ");
                self.known.insert(name.to_owned(), found.into());
                Ok(())
            }
            "requests" => {
                let stub = self.stub.as_ref();
                let requests = stub.map(|stub| stub.requests().len());
                let requests = requests.unwrap_or(self.world.requests().try_into().unwrap());
                equal(requests.to_string(), rest.to_owned())
            }
            // What the stub was sent since the last such line, or with which status the sandbox answered.
            "sent" => {
                let sent: Vec<String> = match &self.stub {
                    Some(stub) => stub.requests().iter().map(shown).collect(),
                    None => self.statuses(),
                };
                let new = sent[self.seen..].join(" | ");
                self.seen = sent.len();
                equal(new, rest.to_owned())
            }
            // Of the sandbox: how often it did not answer with 200, and what it counts.
            "refused" => {
                let refused = self.statuses();
                let refused = refused.iter().filter(|status| *status != "200");
                equal(refused.count().to_string(), rest.to_owned())
            }
            "counted" => {
                let (units, limit) = rest.split_once(' ').unwrap();
                equal(self.world.counted(limit).to_string(), units.to_owned())
            }
            "rows" => {
                let (rows, query) = rest.split_once(" of ").unwrap();
                let found = match query.strip_prefix("ledger.db: ") {
                    Some(query) => column(&self.opened("ledger.db"), query),
                    None => column(&self.world.catalog(), query),
                };
                equal(found.join(" "), rows.to_owned())
            }
            "charged" => self.charged(rest),
            "count" => {
                let (number, sql) = rest.split_once(' ').unwrap();
                equal(self.world.count(sql).to_string(), number.to_owned())
            }
            "there" => equal(self.path(rest).symlink_metadata().is_ok(), true),
            "holds" => {
                let [name, text] = halves(rest);
                said(&fs::read_to_string(self.path(name)).unwrap(), text)
            }
            "same" => {
                let [one, other] = halves(rest).map(|name| fs::read(self.path(name)).unwrap());
                equal(one == other, true)
            }
            "private" => {
                let mode = fs::metadata(self.path(rest)).unwrap().permissions();
                equal(mode.mode() & 0o077, 0)
            }
            // At least so long.
            "took" => equal(
                self.took >= Duration::from_millis(rest.parse().unwrap()),
                true,
            ),
            "missing" => equal(self.path(rest).symlink_metadata().is_ok(), false),
            _ => {
                self.change(word, rest);
                Ok(())
            }
        }
    }

    fn statuses(&self) -> Vec<String> {
        let requests = self.world.sandbox_says("requests");
        let requests = requests.as_array().unwrap().iter();
        requests.map(|one| one["status"].to_string()).collect()
    }

    /// What happens between the runs.
    fn change(&mut self, word: &str, rest: &str) {
        let two = || rest.split_once(' ').unwrap();
        match word {
            "set" => drop(self.world.set(rest)),
            "env" => {
                let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
                self.environment.push((name.to_owned(), value.to_owned()));
            }
            "upstream" => self.upstream(rest),
            "answers" => {
                let answers: toml::Table = format!("all = {rest}").parse().unwrap();
                *self.answers.lock().unwrap() = answers["all"].clone();
            }
            "serve" => self.serve(rest),
            "head" => self.head.push(rest.to_owned()),
            "ledger" => self.ledger(rest),
            "catalog" => {
                let schema = PostgresServer::shared().schema();
                schema.in_world(&mut self.world);
                self.schema = Some(schema);
            }
            "redis" => match (rest, self.redis.as_mut().unwrap()) {
                ("is killed", redis) => redis.kill(),
                ("restarts", redis) => redis.restart(),
                (command, redis) => redis.tell(command),
            },
            // `somebody 13 UPSTREAM PATH` asks the sandbox, and is answered.
            "somebody" => {
                let (times, [upstream, path]) = (two().0, halves(two().1));
                for _ in 0..times.parse().unwrap() {
                    assert_eq!(self.world.somebody_else_asks(upstream, path), 200);
                }
            }
            "totals" => self.world.totals(&serde_json::from_str(rest).unwrap()),
            "faults" => self.world.faults(&serde_json::from_str(rest).unwrap()),
            "mkdir" => fs::create_dir_all(self.path(rest)).unwrap(),
            "write" => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                fs::write(self.path(name), text.replace("\\n", "\n")).unwrap();
            }
            "mode" => {
                let mode = u32::from_str_radix(two().1, 8).unwrap();
                fs::set_permissions(self.path(two().0), fs::Permissions::from_mode(mode)).unwrap();
            }
            "copy" => drop(fs::copy(self.path(two().0), self.path(two().1)).unwrap()),
            // With what a process that was killed leaves beside it.
            "delete" => {
                for side in ["", "-wal", "-shm"] {
                    let _ = fs::remove_file(self.path(&format!("{rest}{side}")));
                }
            }
            "sql" => self.sql(two().0, two().1),
            other => panic!("no story has a line `{other}`"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.directory.path().join(name)
    }

    fn run(&mut self, arguments: &[String]) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = self.world.command(&arguments);
        for (name, value) in self.environment.drain(..) {
            match name.strip_prefix('-') {
                Some(name) => command.env_remove(name),
                None => command.env(name, value),
            };
        }
        let began = Instant::now();
        self.ran = Ran::of(command.output().unwrap());
        self.took = began.elapsed();
    }

    fn upstream(&mut self, name: &str) {
        let answers = Arc::clone(&self.answers);
        let stub = StubUpstream::start(move |request| answer(&answers.lock().unwrap(), request));
        self.world
            .set(&format!("upstreams.{name}.base_url=\"{}\"", stub.url()));
        self.stub = Some(stub);
    }

    /// Starts the server, in place of one that runs, with a client that has a token, on this machine alone or `open` to others.
    fn serve(&mut self, how: &str) {
        self.stop_server();
        // Before what the story has set.
        let readers = "serve.readers={ quota = 100_000, window = \"1min\" }";
        self.world
            .sets
            .splice(0..0, [CLIENT, readers].map(str::to_owned));
        let listen = if how == "open" {
            "0.0.0.0:0"
        } else {
            "127.0.0.1:0"
        };
        let (child, mut address) = start(&self.world, &["--listen", listen]);
        address.set_ip([127, 0, 0, 1].into());
        self.server = Some((child, address));
    }

    fn stop_server(&mut self) {
        if let Some((mut server, _)) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Sends a request: the answer has its status for an exit, its body for an output, and its head for what is said beside it.
    fn ask(&mut self, request: &str, body: &str, status: Option<i32>) -> Otherwise {
        let head = std::mem::take(&mut self.head);
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let answer = send(self.server.as_ref().unwrap().1, request, &head, body);
        self.ran = Ran {
            code: answer.status.into(),
            stdout: answer.text(),
            stderr: answer.head,
        };
        equal(self.ran.code, status.unwrap_or(200))
    }

    /// A ledger in a file, in a Redis, or in one that is away.
    fn ledger(&mut self, place: &str) {
        let port = match place {
            "file" => return,
            "away" => 1,
            _ => self.redis.insert(RedisServer::start()).port(),
        };
        self.world
            .set(&format!("ledger.url=\"redis://127.0.0.1:{port}\""))
            .set("ledger.timeout=5s");
    }

    fn sql(&self, file: &str, sql: &str) {
        match &self.schema {
            Some(schema) if file == "catalog" => drop(schema.rows(sql)),
            _ => self.opened(file).execute_batch(sql).unwrap(),
        }
    }

    fn opened(&self, file: &str) -> Connection {
        Connection::open(self.world.state_dir().join(file)).unwrap()
    }

    /// `charged 4`, or `charged 4 LIMIT`, as `status` shows it.
    fn charged(&self, rest: &str) -> Otherwise {
        let (units, limit) = rest.split_once(' ').unwrap_or((rest, "daily"));
        equal(self.world.charged(limit).to_string(), units.to_owned())
    }

    /// A place of the JSON and its value, or what holds of it.
    fn json(&self, rest: &str) -> Otherwise {
        let (pointer, wanted) = rest.split_once(' ').unwrap();
        let value = found(&self.ran.json(), pointer);
        let shown = value.as_ref().map_or("nothing".to_owned(), plain);
        let holds = match wanted.split_once(' ').unwrap_or((wanted, "")) {
            ("has", part) => shown.contains(part),
            ("not", other) => shown != other,
            ("ends", end) => shown.ends_with(end),
            ("length", length) => {
                let length: usize = length.parse().unwrap();
                value.is_some_and(|value| value.as_array().unwrap().len() == length)
            }
            ("plus", sum) => {
                let [more, before]: [u64; 2] = halves(sum).map(|number| number.parse().unwrap());
                shown == (before + more).to_string()
            }
            ("from", bounds) => {
                let (least, most) = bounds.split_once(" to ").unwrap();
                let [least, most, found]: [f64; 3] =
                    [least, most, &shown].map(|number| number.parse().unwrap());
                (least..=most).contains(&found)
            }
            ("string", "") => value.is_some_and(|value| value.is_string()),
            _ => shown == wanted,
        };
        holds.then_some(()).ok_or(format!("it is {shown}"))
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.stop_server();
    }
}

/// The time so many seconds from now.
fn at(seconds: &str) -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now() + chrono::TimeDelta::seconds(seconds.parse().unwrap())
}

fn between<'t>(text: &'t str, open: &str, close: &str) -> Option<(&'t str, &'t str, &'t str)> {
    let (before, rest) = text.split_once(open)?;
    let (within, behind) = rest.split_once(close)?;
    Some((before, within, behind))
}

fn halves(text: &str) -> [&str; 2] {
    <[&str; 2]>::from(text.split_once(' ').unwrap())
}

fn equal<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Otherwise {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?}")),
    }
}

/// A part of a text, or `not` a part, `is` all of it, `begins` it, `nothing`, or `once`: a part that is in it one time. Where its lines end
/// is of no interest.
fn said(text: &str, wanted: &str) -> Otherwise {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let holds = match wanted.split_once(' ').unwrap_or((wanted, "")) {
        ("not", part) => !text.contains(part) && !words.contains(part),
        ("is", all) => text.trim_end_matches('\n') == all,
        ("begins", first) => text.starts_with(first),
        ("once", part) => text.matches(part).count() == 1,
        ("nothing", "") => text.is_empty(),
        _ => text.contains(wanted) || words.contains(wanted),
    };
    // No output may hold it.
    match holds && !text.contains(SECRET) {
        true => Ok(()),
        false => Err("it says otherwise".to_owned()),
    }
}

/// A text without its quotes, all else as JSON has it.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The value at a place: names and numbers behind slashes; `[NAME=VALUE]` is the element that has this, `[NAME~PART]` the one whose
/// text has it.
fn found(value: &Value, pointer: &str) -> Option<Value> {
    let (mut value, mut rest) = (value.clone(), pointer);
    while let Some(part) = rest.strip_prefix('/') {
        let end = match part.starts_with('[') {
            true => part.find(']')? + 1,
            false => part.find('/').unwrap_or(part.len()),
        };
        let (part, behind) = part.split_at(end);
        rest = behind;
        value = match part
            .strip_prefix('[')
            .and_then(|part| part.strip_suffix(']'))
        {
            Some(wanted) => {
                let mut elements = value.as_array()?.iter();
                elements.find(|one| is_one(one, wanted))?.clone()
            }
            None => value.pointer(&format!("/{part}"))?.clone(),
        };
    }
    Some(value)
}

fn is_one(element: &Value, wanted: &str) -> bool {
    wanted.split('&').all(|one| match one.split_once('~') {
        Some((name, part)) => plain(&element[name]).contains(&part.replace('_', " ")),
        None => {
            let (name, value) = one.split_once('=').unwrap();
            plain(&element[name]) == value
        }
    })
}

/// The words of a line; quotes `'` hold one together, and `''` is an empty one.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn a_story_that_goes_otherwise_is_named() {
    for wrong in [
        "$ status\n    exit 1",
        "$ charge youtube nope.list",
        "$ status\n    out not youtube",
        "$ status\n    out is youtube",
        "$ status\n    out nothing",
        "$ status\n    err anything",
        "$ status\n    out once e",
        "% status\n    json /limits/[limit=daily]/used 1",
        "% status\n    json /limits/[limit=daily]/used string",
        "% status\n    json /limits length 9",
        "% status\n    json /limits/0/used from 1 to 2",
        "requests 1",
        "counted 1 daily",
        "refused 1",
        "$ status\n    took 60000",
        "upstream youtube\n    sent /videos",
        "sent 200",
        "charged 1",
        "there state",
        "missing .",
        "$ --region US --job trending\n    count 0 select count(*) from record",
        "$ --region US --job trending\n    rows 1 of select count(*) from record",
        "serve\n    GET /healthz\n    status 404",
        "serve\n    GET /healthz\n    err x-nothing",
        "each {one}: 0 | 1\n    charged {one}",
        "each {one} {other}\n        0 => 1\n    charged {one}\n    charged {other}",
    ] {
        let told = std::panic::catch_unwind(|| hold(&format!("this story\n    {wrong}")));
        let said = told.expect_err(wrong).downcast::<String>().unwrap();
        assert!(said.starts_with("this story"), "{wrong}: {said}");
    }
}

#[test]
fn what_is_typed_wrongly_or_nearly_right_is_answered_as_the_stories_say() {
    hold(&file("typed"));
}

#[test]
fn limits_are_closed_and_reopened_by_hand_as_the_stories_say() {
    hold(&file("close"));
}

#[test]
fn charges_by_hand_are_made_and_released_as_the_stories_say() {
    hold(&file("charge"));
}

#[test]
fn a_check_finds_what_the_stories_say() {
    hold(&file("check"));
}

#[test]
fn a_call_is_tried_as_the_stories_say() {
    hold(&file("try"));
}

#[test]
fn files_are_repaired_backed_up_and_missed_as_the_stories_say() {
    hold(&file("files"));
}

#[test]
fn status_history_and_logs_show_what_the_stories_say() {
    hold(&file("shown"));
}

#[test]
fn requests_over_http_are_answered_as_the_stories_say() {
    hold(&file("serve"));
}

#[test]
fn limits_of_values_and_what_responses_report_of_limits_are_as_the_stories_say() {
    hold(&file("limits"));
}

#[test]
fn jobs_with_credentials_slices_and_refused_regions_are_as_the_stories_say() {
    hold(&file("jobs"));
}

#[test]
fn requests_are_sent_and_not_sent_as_the_stories_say() {
    hold(&file("requests"));
}

#[test]
fn runs_spend_and_say_what_the_stories_say() {
    hold(&file("runs"));
}

#[test]
fn what_upstreams_answer_is_understood_as_the_stories_say() {
    hold(&file("answers"));
}
