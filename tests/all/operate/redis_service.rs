//! The Redis section of `deploy/README.md`, followed on Debian's redis-server with the command line of its service.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::world::World;
use ingest_testing::not_run::not_run;
use ingest_testing::redis_server::free_port;

const README: &str = include_str!("../../../deploy/README.md");
const UNIT: &str = "/usr/lib/systemd/system/redis-server.service";
/// The command line of the unit in Debian 12, where the package is not installed.
const COMMAND_LINE: &str =
    "/usr/bin/redis-server /etc/redis/redis.conf --supervised systemd --daemonize no";
const PASSWORD: &str = "open-sesame";

fn section() -> &'static str {
    let after = README.split("\n## Redis\n").nth(1).expect("a section");
    after.split("\n## ").next().unwrap_or(after)
}

/// The commands of the section, without their comments.
fn commands() -> Vec<&'static str> {
    let block = section().split("```").nth(1).expect("a block of commands");
    let without_comment = |line: &'static str| line.split('#').next().unwrap_or(line).trim();
    block
        .lines()
        .map(without_comment)
        .filter(|line| !line.is_empty())
        .collect()
}

/// A directory in the place of `/`, with what the package brings.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc/redis", "var/lib/redis", "etc/ingest"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        Self(root)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// The text with every path of the documentation below this root.
    fn rooted(&self, text: &str) -> String {
        let root = self.0.path().display();
        ["/etc/redis", "/var/lib/redis", "/etc/ingest"]
            .iter()
            .fold(text.to_owned(), |text, path| {
                text.replace(path, &format!("{root}{path}"))
            })
    }

    /// Runs the lines of the documentation that install files and write the password.
    fn install(&self) {
        let runs = |line: &&str| line.starts_with("install ") || line.starts_with("sed ");
        for line in commands().into_iter().filter(runs) {
            // The tests may run as a user who cannot give files to `redis`.
            let line = self.rooted(line).replace("-o redis -g redis ", "");
            let mut shell = Command::new("sh")
                .args(["-c", &line])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            // The shell may not read it.
            let _ = shell.stdin.take().unwrap().write_all(PASSWORD.as_bytes());
            assert!(shell.wait().unwrap().success(), "{line}");
        }
        for file in ["/etc/redis/redis.conf", "/etc/redis/users.acl"] {
            let text = fs::read_to_string(self.at(file)).unwrap();
            fs::write(self.at(file), self.rooted(&text)).unwrap();
        }
    }

    /// `[ledger]` of the section, as `--set` takes it.
    fn ledger(&self, port: u16) -> Vec<String> {
        let block = section()
            .split("```toml\n")
            .nth(1)
            .expect("a block of TOML");
        let block = self.rooted(block.split("```").next().unwrap());
        let block = block.replace("redis.example:6379", &format!("127.0.0.1:{port}"));
        let document: toml::Table = block.parse().unwrap();
        let ledger = document["ledger"].as_table().unwrap();
        ledger
            .iter()
            .map(|(key, value)| format!("ledger.{key}={value}"))
            .collect()
    }
}

/// The service's main process, ended with this value.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command_line() -> String {
    let unit = fs::read_to_string(UNIT).unwrap_or_default();
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    line.unwrap_or(COMMAND_LINE).to_owned()
}

/// Starts the service as systemd does: in a directory where nothing can be written, and ready when it says so.
fn start(root: &Root, port: u16) -> Service {
    let notified = root.at("notify");
    let _ = fs::remove_file(&notified);
    let socket = UnixDatagram::bind(&notified).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let line = root.rooted(&command_line());
    let mut words = line.split_whitespace();
    let mut child = Command::new(words.next().unwrap())
        .args(words)
        .args(["--port", &port.to_string()])
        .current_dir("/proc")
        .env("NOTIFY_SOCKET", &notified)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 512];
    let is_ready = || {
        socket
            .recv(&mut said)
            .map(|length| String::from_utf8_lossy(&said[..length]).into_owned())
    };
    match ready(is_ready) {
        true => Service(child),
        false => {
            let _ = child.kill();
            let log = child.wait_with_output().unwrap().stdout;
            panic!("it did not start: {}", String::from_utf8_lossy(&log));
        }
    }
}

fn ready(mut next: impl FnMut() -> std::io::Result<String>) -> bool {
    while let Ok(said) = next() {
        if said.contains("READY=1") {
            return true;
        }
    }
    false
}

#[test]
fn debians_redis_server_starts_with_the_shipped_files_and_check_finds_it_fit() {
    if !Path::new("/usr/bin/redis-server").exists() {
        not_run("Debian's redis-server is not installed: its service is not tested");
        return;
    }
    let (root, port) = (Root::new(), free_port());
    root.install();
    let service = start(&root, port);
    let key = root.at("/etc/ingest/redis.key");
    assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut world = World::new();
    for set in root.ledger(port) {
        world.set(&set);
    }
    let checked = world.ingest(&["check", "--connect"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(checked.stdout.contains("answers"), "{checked:?}");
    for unfit in ["appendonly", "evict", "permit it"] {
        assert!(!checked.stdout.contains(unfit), "{checked:?}");
    }
    // As many as make chunks of records, which Redis writes to its file as transactions.
    for _ in 0..40 {
        let charged = world.ingest(&["charge", "youtube", "videos.list"]);
        assert_eq!(charged.code, 0, "{charged:?}");
    }
    assert!(
        root.at("/var/lib/redis/appendonlydir").exists(),
        "the append-only file is in the directory that the service may write"
    );
    drop(service);
    let _service = start(&root, port);
    let state = world.directory.path().join("other-machine");
    let mut other = world.command(&["status", "--limits", "--format", "json"]);
    let status = other.env("INGEST_STATE_DIR", state).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    let daily = &status["limits"][0];
    assert_eq!(daily["used"], 40, "what a restart restored: {status}");
}
