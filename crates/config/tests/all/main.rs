//! What `quotas.toml` may say, and what is said of a wrong one.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr
)]

mod errors;
mod kinds;
mod look_up;
mod marked;
mod moment;
mod others;
mod right;
mod set;
mod shipped;
mod template;
mod wrong;

use std::path::Path;

use ingest_config::{Config, ConfigError, Problem};

/// What ships.
const SHIPPED: &str = include_str!("../../../../quotas.toml");

/// A small file with a bit of everything, to be changed.
const SMALL: &str = r#"regions = ["US", "GB"]

[ledger]
url = "sqlite"

[upstreams.things]
base_url = "https://api.example.com/v1"
auth = { header = "x-api-key" }
timeout = "30s"

[upstreams.things.calls."things.list"]
path = "things"
cost = { daily = 1 }
page = { kind = "token", param = "page", next = "/next", size_param = "size", size = 50 }
records = { at = "/items", kind = "thing", id = "/id" }

[upstreams.things.calls."owners.list"]
path = "owners"
cost = 1
records = { at = "/items", kind = "owner", id = "/id" }

[credentials.main]
upstream = "things"
secret = { env = "THINGS_KEY" }
[credentials.main.limits]
daily = { quota = 100, headroom = 10, window = "24h", resets = "UTC" }

[jobs.all]
credential = "main"
every = "1h"
leave = { daily = 20 }

[[jobs.all.steps]]
call = "things.list"
params = { region = "{region}" }
max_pages = 4

[[jobs.all.steps]]
call = "owners.list"
params = { id = "{ids}" }
ids = { from = "things.list", at = "/owner", batch = 50, fresh_for = "7d" }
"#;

fn parse(text: &str, sets: &[&str]) -> Result<Config, ConfigError> {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    Config::parse(text, Path::new("quotas.toml"), &sets)
}

fn right(text: &str, sets: &[&str]) -> Config {
    parse(text, sets).unwrap_or_else(|error| panic!("{error}"))
}

fn problems(text: &str, sets: &[&str]) -> Vec<Problem> {
    match parse(text, sets) {
        Err(ConfigError::Wrong(problems)) => problems,
        Err(other) => panic!("{other}"),
        Ok(_) => Vec::new(),
    }
}

/// All that is said of a wrong file, a line each.
fn said(text: &str, sets: &[&str]) -> String {
    let said: Vec<String> = problems(text, sets)
        .iter()
        .map(ToString::to_string)
        .collect();
    said.join("\n")
}

/// `SMALL` with one text, which must be in it once, replaced by another.
fn small_with(before: &str, after: &str) -> String {
    assert_eq!(
        SMALL.matches(before).count(),
        1,
        "{before:?} is not in the file once"
    );
    SMALL.replace(before, after)
}
