//! An empty directory with a recipe, its API, and the binary.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use super::{Answer, Recipe, Units};
use crate::support::world::Ran;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// More than any run uses.
const PLENTY: u64 = 1_000_000;
/// The path of token requests, which no API counts.
const TOKENS: &str = "/token";

pub struct Place {
    of: Recipe,
    directory: TempDir,
    api: Arc<Mutex<Api>>,
    stub: StubUpstream,
}

/// What the API remembers.
#[derive(Default)]
struct Api {
    counted: Units,
    /// Requests that were answered with a page.
    pages: Vec<String>,
    /// Requests that were counted or declined so far.
    requests: usize,
    refused: Option<usize>,
}

impl Api {
    fn answer(
        &mut self,
        (of, answer): (&Recipe, &impl Fn(&StubRequest, &Units) -> Answer),
        request: &StubRequest,
    ) -> StubAnswer {
        if request.path == TOKENS {
            let token = serde_json::json!({ "access_token": "token-0123456789abcdef", "token_type": "bearer", "expires_in": 86_400 });
            return StubAnswer::json(&token);
        }
        let number = self.requests;
        self.requests += 1;
        let Answer { response, cost } = match self.refused {
            Some(refused) if refused == number => (of.refuse)(request),
            _ => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let page = format!("{} {:?} {body}", request.path, request.query);
                self.pages.push(page);
                answer(request, &self.counted)
            }
        };
        for (limit, units) in cost {
            *self.counted.entry(limit).or_default() += units;
        }
        response
    }
}

impl Place {
    pub fn new(of: &Recipe) -> Self {
        Self::answering(of, of.answer)
    }

    /// A place whose API answers otherwise than the recipe's.
    pub fn answering(
        of: &Recipe,
        answer: impl Fn(&StubRequest, &Units) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let api = Arc::new(Mutex::new(Api::default()));
        let stub = StubUpstream::start({
            let (of, api) = (*of, Arc::clone(&api));
            move |request| api.lock().unwrap().answer((&of, &answer), request)
        });
        let place = Self {
            of: *of,
            directory: tempfile::tempdir().unwrap(),
            api,
            stub,
        };
        std::fs::write(place.directory.path().join("quotas.toml"), place.text()).unwrap();
        let secret = place.directory.path().join("secret");
        std::fs::write(&secret, of.secret.1).unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        place
    }

    /// The recipe, with the stand-in in place of its API.
    fn text(&self) -> String {
        let file = format!(
            "{}/docs/recipes/{}.toml",
            env!("CARGO_MANIFEST_DIR"),
            self.of.name
        );
        let mut text = std::fs::read_to_string(file).unwrap();
        for (before, after) in self.of.instead {
            assert!(text.contains(before), "{before}");
            let after = after.replace("{stub}", &self.stub.url());
            let after = after.replace("{directory}", self.directory.path().to_str().unwrap());
            text = text.replace(before, &after);
        }
        text
    }

    /// Settings with this quota for a limit.
    pub fn quota_of(&self, limit: &str, quota: u64) -> [String; 2] {
        let limit = limit.split('/').next().unwrap();
        let limit = format!("--set=credentials.{}.limits.{limit}", self.of.credential);
        [
            format!("{limit}.quota={quota}"),
            format!("{limit}.headroom=0"),
        ]
    }

    /// Settings with which no run waits for a window, and the ledger forgets nothing.
    fn patient(&self) -> Vec<String> {
        let credential = self.of.credential;
        let limits = self.of.windows.iter().flat_map(|limit| {
            let limit = format!("--set=credentials.{credential}.limits.{limit}");
            [
                format!("{limit}.window=6h"),
                format!("{limit}.quota={PLENTY}"),
                format!("{limit}.headroom=0"),
            ]
        });
        let config: toml::Table = self.text().parse().unwrap();
        let upstreams = config["upstreams"].as_table().unwrap().keys();
        let pauses = upstreams.map(|name| format!("--set=upstreams.{name}.pause=1ms"));
        limits.chain(pauses).collect()
    }

    pub fn ingest(&self, arguments: &[&str], settings: &[String]) -> Ran {
        let (variable, secret) = self.of.secret;
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
        let command = command
            .current_dir(self.directory.path())
            .env_clear()
            .env(variable, secret)
            .env("INGEST_STATE_DIR", self.directory.path().join("state"))
            .args(arguments)
            .args(self.patient())
            .args(settings)
            .stdin(Stdio::null());
        Ran::of(command.output().unwrap())
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        self.ingest(&[arguments, &["--format", "json"]].concat(), &[])
            .json()
    }

    /// The report of a run over all regions.
    pub fn run(&self, settings: &[String]) -> Value {
        self.ingest(&["--region", "all", "--format", "json"], settings)
            .json()
    }

    /// Whether every limit has units left.
    pub fn reports_open(&self) -> bool {
        let report = self.json(&["status"]);
        let mut limits = report["limits"].as_array().unwrap().iter();
        limits.all(|limit| limit["remaining"] != 0)
    }

    /// Opens the limit that the API declined.
    pub fn reopen(&self) {
        let report = self.json(&["status"]);
        for limit in report["limits"].as_array().unwrap() {
            if !limit["closed_until"].is_null() {
                let (account, limit) = (&limit["account"], &limit["limit"]);
                let (account, limit) = (account.as_str().unwrap(), limit.as_str().unwrap());
                let ran = self.ingest(&["reopen", account, limit], &[]);
                assert_eq!(ran.code, 0, "{ran:?}");
            }
        }
    }

    /// Declines one request, counted from 0.
    pub fn refuse_request(&self, number: usize) {
        self.api.lock().unwrap().refused = Some(number);
    }

    pub fn requests(&self) -> usize {
        self.api.lock().unwrap().requests
    }

    pub fn pages(&self) -> Vec<String> {
        self.api.lock().unwrap().pages.clone()
    }

    /// What the API counted.
    pub fn counted(&self) -> Units {
        let mut counted = self.api.lock().unwrap().counted.clone();
        counted.retain(|_, units| *units > 0);
        counted
    }

    pub fn counted_of(&self, limit: &str) -> u64 {
        self.counted().get(limit).copied().unwrap_or(0)
    }

    /// What the ledger holds.
    pub fn recorded(&self) -> Units {
        let ledger = self.directory.path().join("state/ledger.db");
        let ledger = rusqlite::Connection::open(ledger).unwrap();
        let sum =
            "select limit_name, sum(units) from taken group by limit_name having sum(units) > 0";
        let mut query = ledger.prepare(sum).unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)));
        rows.unwrap()
            .collect::<Result<BTreeMap<_, _>, _>>()
            .unwrap()
    }

    /// How many records a view has.
    pub fn count(&self, view: &str) -> i64 {
        self.number(&format!("select count(*) from \"{view}\""))
    }

    /// How many records are not gone.
    pub fn there(&self) -> i64 {
        self.number("select count(*) from record where gone_at is null")
    }

    fn number(&self, query: &str) -> i64 {
        let catalog = self.directory.path().join("state/catalog.db");
        let catalog = rusqlite::Connection::open(catalog).unwrap();
        catalog.query_row(query, [], |row| row.get(0)).unwrap()
    }
}
