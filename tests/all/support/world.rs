//! A place of its own for one test: an empty directory, the shipped configuration, a sandbox, and the binary.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest_base::clock::SystemClock;
use ingest_config::{Config, Sources};
use ingest_sandbox::{Options, Sandbox};
use ingest_testing::not_run::not_run;
use ingest_testing::stub_upstream::StubUpstream;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The secret that the binary is given: no output, file or URL may hold it.
pub const SECRET: &str = "s3cr3t-k3y-0f-th3-t3sts";

/// Where the library is that gives a process another clock; a test that needs it tells nothing without it.
pub const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// The shipped configuration.
pub fn shipped() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("quotas.toml")
}

/// A client of the sandbox. It speaks no TLS, so it reads none of the system's certificates: that takes longer than most tests.
pub fn sandbox_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_certs_only([])
}

/// Much longer than any of these runs takes, on a machine with much else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a command to its end, which must come.
pub fn ended(mut command: Command) -> Ran {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    ends_within(piped.spawn().unwrap(), PATIENCE)
}

/// Waits for a process; ends and shows one that takes longer.
pub fn ends_within(mut child: Child, patience: Duration) -> Ran {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > patience {
            child.kill().unwrap();
            panic!("no end: {:?}", Ran::of(child.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ran::of(child.wait_with_output().unwrap())
}

/// What a command has in its environment.
pub fn environment_of(command: &Command) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    let all = command.get_envs();
    all.filter_map(|(name, value)| Some((name, value?)))
}

/// A command that another one starts, with the directory and the environment of the inner one.
pub fn through(mut outer: Command, inner: &Command) -> Command {
    outer
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear()
        .envs(environment_of(inner))
        .current_dir(inner.get_current_dir().unwrap())
        .stdin(Stdio::null());
    outer
}

/// A command behind what a shell does first, such as `ulimit -n 8`.
pub fn in_shell(first: &str, inner: &Command) -> Command {
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", &format!("{first}; exec \"$@\""), "bash"]);
    through(shell, inner)
}

/// A command for a user whom permissions stop; `None` where nobody can become one.
pub fn as_another_user(inner: &Command) -> Option<Command> {
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let mut probe = Command::new("setpriv");
    let probed = probe.args(nobody).arg("true").status();
    if !rustix::process::geteuid().is_root() || !probed.is_ok_and(|probed| probed.success()) {
        not_run("nobody else may run here: what needs another user is not checked");
        return None;
    }
    let mut setpriv = Command::new("setpriv");
    setpriv.args(nobody);
    let mut command = through(setpriv, inner);
    command.env("PATH", "/usr/bin:/bin");
    Some(command)
}

pub struct World {
    pub directory: TempDir,
    pub sets: Vec<String>,
    config: PathBuf,
    sandbox: Sandbox,
    runtime: Runtime,
}

/// What one run of the binary left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            code: output
                .status
                .code()
                .unwrap_or_else(|| -output.status.signal().unwrap()),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A world whose sandbox has its options changed.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::configured(&[], change)
    }

    /// A world with another configuration, which the sandbox has too.
    pub fn configured(sets: &[&str], change: impl FnOnce(&mut Options)) -> Self {
        Self::of(shipped(), sets, change)
    }

    /// A world of a preset.
    pub fn preset(name: &str, sets: &[&str]) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("presets/{name}.toml"));
        Self::of(path, sets, |_| {})
    }

    /// A world of a configuration that a test wrote.
    pub fn written(text: &str, sets: &[&str]) -> Self {
        Self::written_with(text, sets, |_| {})
    }

    /// The same, whose upstreams are all this stub.
    pub fn upon(stub: &StubUpstream, text: &str) -> Self {
        let mut world = Self::written(text, &[]);
        for (name, _) in world.sandbox.base_urls() {
            world.set(&format!("upstreams.{name}.base_url=\"{}\"", stub.url()));
        }
        world
    }

    /// The same, with a sandbox whose options are changed.
    pub fn written_with(text: &str, sets: &[&str], change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("written.toml");
        std::fs::write(&path, text).unwrap();
        Self {
            directory,
            ..Self::of(path, sets, change)
        }
    }

    fn of(config: PathBuf, sets: &[&str], change: impl FnOnce(&mut Options)) -> Self {
        let mut sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let path = config;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Runtime::new().unwrap();
        let config = Config::load(&Sources {
            path: Some(path.clone()),
            sets: sets.clone(),
        })
        .unwrap();
        let mut options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            seed: 1,
            ..Options::default()
        };
        change(&mut options);
        let sandbox = runtime
            .block_on(Sandbox::start(&config, options, Arc::new(SystemClock)))
            .unwrap();
        for (name, url) in sandbox.base_urls() {
            sets.push(format!("upstreams.{name}.base_url=\"{url}\""));
            sets.push(format!("upstreams.{name}.pause=1ms"));
        }
        for credential in config
            .credentials
            .values()
            .filter(|one| one.secret.is_some())
        {
            sets.push(format!(
                "credentials.{}.secret={{ env = \"YOUTUBE_API_KEY\" }}",
                credential.name
            ));
        }
        Self {
            directory: tempfile::tempdir().unwrap(),
            sets,
            config: path,
            sandbox,
            runtime,
        }
    }

    /// The configuration as every run has it.
    pub fn config(&self) -> Config {
        Config::load(&Sources {
            path: Some(self.config.clone()),
            sets: self.sets.clone(),
        })
        .unwrap()
    }

    /// Changes the configuration of every later run.
    pub fn set(&mut self, set: &str) -> &mut Self {
        self.sets.push(set.to_owned());
        self
    }

    /// Lets every later run have its ledger in the Redis at this port.
    pub fn ledger_at(&mut self, port: u16) -> &mut Self {
        self.set(&format!("ledger.url=\"redis://127.0.0.1:{port}\""))
    }

    pub fn state_dir(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The binary in this world, in an environment with nothing in it but the key.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("YOUTUBE_API_KEY", SECRET)
            .env("INGEST_STATE_DIR", self.state_dir())
            .arg("--config")
            .arg(&self.config)
            .stdin(Stdio::null());
        for set in &self.sets {
            command.arg("--set").arg(set);
        }
        command.args(arguments);
        command
    }

    /// The binary at another time, in UTC.
    pub fn command_at(&self, when: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command
            .env("TZ", "UTC")
            .env("LD_PRELOAD", FAKETIME)
            .env("FAKETIME", format!("@{when}"))
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        command
    }

    pub fn ingest(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs the binary and reads its JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.ingest(&[arguments, &["--format", "json"]].concat());
        ran.json()
    }

    /// Starts `count` processes at once, and waits for all.
    pub fn ingest_at_once(&self, count: usize, arguments: &[&str]) -> Vec<Ran> {
        let spawn = |_| {
            let mut command = self.command(arguments);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let children: Vec<_> = (0..count).map(spawn).collect();
        children
            .into_iter()
            .map(|child| Ran::of(child.wait_with_output().unwrap()))
            .collect()
    }

    /// What the sandbox counted of a limit, in units.
    pub fn counted(&self, limit: &str) -> u64 {
        let counted = self
            .sandbox
            .usage()
            .into_iter()
            .find(|counted| counted.limit == limit);
        counted.map_or(0, |counted| counted.used.get())
    }

    /// The catalog, as anyone may query it.
    pub fn catalog(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.state_dir().join("catalog.db")).unwrap()
    }

    /// One number from the catalog.
    pub fn count(&self, query: &str) -> i64 {
        self.catalog()
            .query_row(query, [], |row| row.get(0))
            .unwrap()
    }

    /// All that the ledger's file holds of a limit, in units: what it counts, as long as no window has ended.
    pub fn recorded(&self, limit: &str) -> u64 {
        let Ok(ledger) = rusqlite::Connection::open(self.state_dir().join("ledger.db")) else {
            return 0;
        };
        let sum = "select coalesce(sum(units), 0) from taken where limit_name = ?1";
        ledger
            .query_row(sum, [limit], |row| row.get::<_, i64>(0))
            .map_or(0, |sum| sum.try_into().unwrap())
    }

    /// What the ledger counts of a limit, in units.
    pub fn charged(&self, limit: &str) -> u64 {
        let status = self.json(&["status"]);
        let limits = status["limits"].as_array().unwrap();
        limits.iter().find(|one| one["limit"] == limit).unwrap()["used"]
            .as_u64()
            .unwrap()
    }

    pub fn requests(&self) -> u64 {
        self.sandbox.requests()
    }

    /// An answer of the sandbox about itself: `usage`, `requests`.
    pub fn sandbox_says(&self, what: &str) -> Value {
        let url = format!("http://{}/_sandbox/{what}", self.sandbox.address());
        let request = sandbox_client().build().unwrap().get(url);
        self.runtime
            .block_on(async { request.send().await.unwrap().json().await.unwrap() })
    }

    /// What the sandbox's count of a limit ever held at most in one window, in units.
    pub fn most_in_window(&self, limit: &str) -> u64 {
        let counted = self
            .sandbox
            .usage()
            .into_iter()
            .find(|counted| counted.limit == limit);
        counted.unwrap().most_in_window.get()
    }

    /// How much the lists of a call hold.
    pub fn totals(&self, totals: &Value) {
        self.tell("totals", totals);
    }

    /// Asks the sandbox as somebody else who spends the same quota.
    pub fn somebody_else_asks(&self, upstream: &str, path: &str) -> u16 {
        let url = format!("{}/{path}", self.sandbox.base_url(upstream));
        let client = sandbox_client().build().unwrap();
        let request = client.get(url).bearer_auth(SECRET);
        self.runtime
            .block_on(request.send())
            .unwrap()
            .status()
            .as_u16()
    }

    /// Where the sandbox listens: `127.0.0.1:PORT`.
    pub fn sandbox_address(&self) -> String {
        self.sandbox.address().to_string()
    }

    /// Where the sandbox stands in for YouTube.
    pub fn base_url(&self) -> String {
        self.sandbox.base_url("youtube").to_string()
    }

    /// Makes the sandbox misbehave.
    pub fn faults(&self, faults: &Value) {
        self.tell("faults", faults);
    }

    fn tell(&self, what: &str, told: &Value) {
        let url = format!("http://{}/_sandbox/{what}", self.sandbox.address());
        let request = sandbox_client().build().unwrap().post(url).json(told);
        let answer = self.runtime.block_on(request.send()).unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }
}
