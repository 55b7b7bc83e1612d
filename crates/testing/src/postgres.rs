//! PostgreSQL servers for tests: one that all tests share, each with a schema of its own, and private ones for tests that stop
//! or configure theirs.
#![allow(dead_code, reason = "a benchmark uses a part of it")]

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::{NoTls, Row};

use super::redis_server::{free_port, wait_until};

/// The settings of every server: nothing survives a power cut, and nothing has to.
const SETTINGS: [&str; 9] = [
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=200",
    "shared_buffers=32MB",
    "log_min_messages=fatal",
    "autovacuum=off",
    "jit=off",
    // In its directory: a server that is killed would leave its memory in `/dev/shm`.
    "dynamic_shared_memory_type=mmap",
];

/// A server. It ends with the process that started it, even if that is killed.
pub struct PostgresServer {
    port: u16,
    /// The directory of the data and of the socket.
    directory: TempDir,
    settings: Vec<String>,
    /// Whether it is reached by its socket only.
    is_local: bool,
    /// The shell that waits for the end of this process to end the server.
    guard: Option<Child>,
}

/// A schema of a server, for one test.
pub struct Schema {
    pub url: String,
    pub name: String,
    through: Option<String>,
}

/// The connections of each process: `$INGEST_TEST_CONNECTIONS`, or four. Everything passes with one.
pub fn connections() -> u32 {
    let set = std::env::var("INGEST_TEST_CONNECTIONS");
    set.map_or(4, |set| set.parse().unwrap())
}

impl PostgresServer {
    /// The server that all tests share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::with(&[]))
    }

    /// A server with these settings, such as `ssl=on`.
    pub fn with(settings: &[&str]) -> Self {
        let mut server = Self::empty(settings);
        server.port = free_port();
        server.initialise();
        server.start();
        server
    }

    /// A server that is reached by its socket only: another process could take a port while this server is down.
    pub fn local(settings: &[&str]) -> Self {
        let mut server = Self::empty(&[settings, &["listen_addresses="]].concat());
        server.is_local = true;
        server.initialise();
        server.start();
        server
    }

    /// A standby of a local server: it follows the server that listens on a port of 127.0.0.1, or at its socket.
    pub fn standby(of: &Self, through: Option<u16>) -> Self {
        let mut server = Self::empty(&[]);
        (server.settings, server.is_local) = (of.settings.clone(), true);
        let (host, port) = match through {
            Some(port) => ("127.0.0.1".to_owned(), port),
            None => (of.socket().display().to_string(), of.port),
        };
        let copied = as_its_user(program("pg_basebackup"))
            .args(["-h", &host, "-p", &port.to_string(), "-U", "postgres"])
            .args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"])
            .arg(server.data())
            .status();
        assert!(copied.expect(MISSING).success(), "pg_basebackup failed");
        server.start();
        server
    }

    /// Makes a standby the server.
    pub fn promote(&self) {
        self.rows("select pg_promote()");
    }

    fn empty(settings: &[&str]) -> Self {
        Self {
            port: 5432,
            settings: settings.iter().map(|set| (*set).to_owned()).collect(),
            directory: its_directory(),
            is_local: false,
            guard: None,
        }
    }

    fn initialise(&self) {
        copy_data(new_data(), &self.data());
    }

    /// Starts it, with the data that it has.
    pub fn start(&mut self) {
        // The shell's input ends with this process. A stopped server ends too: it goes on first, and after 5 s it kills its children.
        let script = "\"$@\" & server=$!; cat >/dev/null; kill -QUIT $server 2>/dev/null; kill -CONT $server 2>/dev/null; wait; \
            [ -z \"$REMOVE\" ] || rm -rf \"$REMOVE\"";
        let mut shell = as_its_user(PathBuf::from("sh"));
        shell.args(["-c", script, "sh"]).arg(program("postgres"));
        shell
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.to_string()]);
        shell.arg("-k").arg(self.directory.path());
        for setting in SETTINGS
            .iter()
            .copied()
            .chain(self.settings.iter().map(String::as_str))
        {
            shell.args(["-c", setting]);
        }
        let started = shell
            .env("REMOVE", self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.guard = Some(started.unwrap());
        wait_until("PostgreSQL answers", || self.try_rows("select 1").is_ok());
    }

    /// Ends it as a power cut does.
    pub fn kill(&mut self) {
        let pid = self.pid();
        // Its children end with it, but only soon after: they would hold the shared memory of the next start. Until it ends it would
        // replace them.
        signal(pid, Signal::STOP);
        for child in children(pid) {
            signal(child, Signal::KILL);
        }
        self.stop(Signal::KILL);
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
    }

    /// Ends it by a signal: `INT` is a fast shutdown, `QUIT` an immediate one.
    pub fn stop(&mut self, by: Signal) {
        let pid = self.pid();
        signal(pid, by);
        wait_until("the server has ended", || {
            !Path::new(&format!("/proc/{pid}")).exists()
        });
        // The directory stays.
        if let Some(mut guard) = self.guard.take() {
            let _ = guard.kill();
            let _ = guard.wait();
        }
    }

    pub fn restart(&mut self) {
        self.kill();
        self.start();
    }

    /// A copy of its data, to which it can fail over.
    pub fn copy(&mut self) -> PathBuf {
        self.kill();
        let copy = self.directory.path().join("copy");
        copy_data(&self.data(), &copy);
        self.start();
        copy
    }

    /// Goes on with a copy of the data, at the same port.
    pub fn fail_over(&mut self, copy: PathBuf) {
        self.kill();
        fs::remove_dir_all(self.data()).unwrap();
        fs::rename(copy, self.data()).unwrap();
        self.start();
    }

    /// Stops it in mid-air: connections stay open, and nothing answers.
    pub fn hang(&self) {
        self.signal_all(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal_all(Signal::CONT);
    }

    fn signal_all(&self, which: Signal) {
        let pid = self.pid();
        for process in children(pid).into_iter().chain([pid]) {
            signal(process, which);
        }
    }

    fn pid(&self) -> i32 {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The directory of its socket.
    pub fn socket(&self) -> &Path {
        self.directory.path()
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        let (port, socket) = (self.port, self.socket().display());
        match self.is_local {
            true => format!("postgres://postgres@/postgres?host={socket}&port={port}"),
            false => format!("postgres://postgres@127.0.0.1:{port}/postgres"),
        }
    }

    /// A schema that no other test uses.
    pub fn schema(&self) -> Schema {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Schema {
            url: self.url(),
            through: None,
            name: format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Waits until no other client is connected: the server counts a client's last statement when it disconnects.
    pub fn wait_until_alone(&self) {
        let others = "select 1 from pg_stat_activity
            where backend_type = 'client backend' and pid <> pg_backend_pid()";
        for _ in 0..3_000 {
            if self.rows(others).is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("another client of the server stays connected");
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.try_rows(sql).unwrap()
    }

    fn try_rows(&self, sql: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
        try_rows(&self.url(), sql)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            let _ = guard.wait();
        }
    }
}

impl Schema {
    /// The URL at which the program reaches the database.
    pub fn reached_at(&self) -> &str {
        self.through.as_ref().unwrap_or(&self.url)
    }

    /// The same schema, which the program reaches at another URL.
    pub fn through(self, url: &str) -> Self {
        Self {
            through: Some(url.to_owned()),
            ..self
        }
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        let sql = format!("set search_path to {}; {sql}", self.name);
        let (first, sql) = sql.split_once(';').unwrap();
        try_rows_after(&self.url, first, sql).unwrap()
    }

    /// One number.
    pub fn count(&self, sql: &str) -> i64 {
        self.rows(sql)[0].get(0)
    }
}

/// A directory that the server's user owns.
fn its_directory() -> TempDir {
    let directory = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
    if let Some((user, group)) = other_user() {
        chown(directory.path(), Some(user), Some(group)).unwrap();
    }
    directory
}

fn copy_data(from: &Path, to: &Path) {
    let copied = as_its_user("cp".into()).arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// The data of a server that was never started. `initdb` takes ten times as long as a copy, so it runs once.
fn new_data() -> &'static Path {
    static NEW: OnceLock<PathBuf> = OnceLock::new();
    NEW.get_or_init(|| {
        let directory = its_directory().keep();
        // The shell's input ends with this process.
        let guard = as_its_user("sh".into())
            .args(["-c", "cat >/dev/null; rm -rf \"$0\""])
            .arg(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        std::mem::forget(guard.unwrap());
        let data = directory.join("data");
        let made = as_its_user(program("initdb"))
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8"])
            .args(["--locale=C", "--no-sync", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .status();
        assert!(made.expect(MISSING).success(), "initdb failed");
        data
    })
}

fn try_rows(url: &str, sql: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
    try_rows_after(url, "", sql)
}

fn try_rows_after(url: &str, first: &str, sql: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
    Runtime::new().unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(first).await?;
        client.query_typed(sql, &[]).await
    })
}

const MISSING: &str = "PostgreSQL cannot be started: install it with `bash tests/all.sh`, or with your package manager: \
    `apt-get install postgresql`, `dnf install postgresql-server`, `brew install postgresql`";

/// A program of the server. Debian has them outside of the path, by version.
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        places.extend(versions.map(|version| version.unwrap().path().join("bin")));
    }
    let found = places.into_iter().map(|place| place.join(name));
    found.into_iter().find(|path| path.exists()).expect(MISSING)
}

/// The user as whom the server runs; `None`: this one. It refuses to be root.
pub fn other_user() -> Option<(u32, u32)> {
    if !getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let ids = |name: &str| {
        let line = users
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    ids("postgres").or_else(|| ids("nobody"))
}

pub fn as_its_user(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = other_user() {
        command.uid(user).gid(group);
    }
    command.current_dir("/");
    command
}

fn children(parent: i32) -> Vec<i32> {
    let is_child = |process: &i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let parents = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1));
        parents == Some(&parent.to_string())
    };
    let all = fs::read_dir("/proc").unwrap();
    let all = all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    all.filter(is_child).collect()
}

fn signal(process: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(process).unwrap(), signal);
}
