//! Redis servers of the tests' own, on free ports of 127.0.0.1, ended with the value that stands for them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ingest_config::{AfterLoss, LedgerConfig, LedgerStore, LedgerTls, RedisUrl};
use ingest_quota::Units;
use redis::{Client, Cmd, Connection, FromRedisValue, RedisResult, cmd};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longer than any healthy server needs to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

const KEEPS_NOTHING: [&str; 4] = ["--save", "", "--appendonly", "no"];
const NO_FUNCTIONS: [&str; 3] = ["--rename-command", "FCALL", ""];

/// One `redis-server`, or the program that `INGEST_TEST_REDIS` names.
pub struct RedisServer {
    child: Child,
    port: u16,
    directory: TempDir,
    arguments: Vec<String>,
}

impl RedisServer {
    /// A server that keeps nothing.
    pub fn start() -> Self {
        Self::with(&KEEPS_NOTHING)
    }

    /// A server that keeps everything, and is reached by its socket only: another process could take a port while it is down.
    pub fn local() -> Self {
        Self::with(&["--port", "0", "--save", "", "--appendonly", "yes"])
    }

    /// One that keeps nothing and is without functions, as Redis before 7.
    pub fn without_functions() -> Self {
        Self::with(&[&KEEPS_NOTHING[..], &NO_FUNCTIONS].concat())
    }

    /// A server with these arguments. Where `INGEST_TEST_SCRIPTS` is set, every server is without functions.
    pub fn with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut arguments: Vec<_> = arguments.iter().map(|&one| one.to_owned()).collect();
        if std::env::var_os("INGEST_TEST_SCRIPTS").is_some()
            && !arguments.contains(&"FCALL".to_owned())
        {
            arguments.extend(NO_FUNCTIONS.map(str::to_owned));
        }
        for _ in 0..20 {
            let port = free_port();
            let mut child = spawn(port, &directory, &arguments);
            if answers(&mut child, &directory) {
                return Self {
                    child,
                    port,
                    directory,
                    arguments,
                };
            }
        }
        panic!("redis-server did not start with {arguments:?}");
    }

    /// Three servers that share the slots of a cluster.
    pub fn cluster() -> [Self; 3] {
        let cluster = "--cluster-enabled yes --cluster-node-timeout 2000";
        let arguments: Vec<&str> = cluster.split(' ').chain(KEEPS_NOTHING).collect();
        let nodes = [(); 3].map(|()| Self::with(&arguments));
        for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
            node.tell(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
            node.tell(&format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port));
        }
        wait_until("the cluster knows itself", || {
            nodes.iter().all(Self::is_in_cluster)
        });
        nodes
    }

    fn is_in_cluster(&self) -> bool {
        let info: String = self.ask("CLUSTER INFO");
        info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
    }

    /// A Sentinel that watches a primary under the name `ledger`.
    pub fn sentinel(primary: &Self) -> Self {
        Self::sentinel_with(primary, "")
    }

    /// The same with more lines of configuration.
    pub fn sentinel_with(primary: &Self, more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let watch = format!(
            "sentinel monitor ledger 127.0.0.1 {} 1\nsentinel down-after-milliseconds ledger 500\n\
             sentinel failover-timeout ledger 3000\n{more}\n",
            primary.port
        );
        let file = directory.path().join("sentinel.conf");
        fs::write(&file, watch).unwrap();
        let (port, arguments) = (
            free_port(),
            vec![file.display().to_string(), "--sentinel".to_owned()],
        );
        let mut child = spawn(port, &directory, &arguments);
        assert!(
            answers(&mut child, &directory),
            "the Sentinel did not start"
        );
        Self {
            child,
            port,
            directory,
            arguments,
        }
    }

    /// A server that speaks TLS, too, on a port of its own: with this certificate and its key, in PEM.
    pub fn with_tls(certificate: &Path, key: &Path) -> (Self, u16) {
        Self::with_tls_clients(certificate, key, "no")
    }

    /// The same, whose clients need a certificate (`yes`) or not (`no`).
    pub fn with_tls_clients(certificate: &Path, key: &Path, clients: &str) -> (Self, u16) {
        let port = free_port();
        let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
        let tls_port = port.to_string();
        let files = [
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &certificate,
        ];
        let server = Self::with(
            &[
                &[
                    "--tls-port",
                    &tls_port,
                    "--tls-auth-clients",
                    clients,
                    "--save",
                    "",
                ],
                &files[..],
            ]
            .concat(),
        );
        (server, port)
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The URL of its socket.
    pub fn socket_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub fn url(&self) -> RedisUrl {
        url(&format!("redis://127.0.0.1:{}", self.port))
    }

    pub fn connect(&self) -> Connection {
        self.try_connect().unwrap()
    }

    pub fn try_connect(&self) -> RedisResult<Connection> {
        Client::open(self.socket_url())?.get_connection()
    }

    /// What the server answers to a command, told as in a shell.
    pub fn ask<T: FromRedisValue>(&self, command: &str) -> T {
        self.try_ask(command).unwrap()
    }

    pub fn try_ask<T: FromRedisValue>(&self, command: &str) -> RedisResult<T> {
        words(command).query(&mut self.try_connect()?)
    }

    pub fn tell(&self, command: &str) {
        self.ask::<redis::Value>(command);
    }

    /// Every key with what it holds, as Redis writes it down.
    pub fn dump_all(&self) -> std::collections::BTreeMap<String, Vec<u8>> {
        let mut connection = self.connect();
        let keys: Vec<String> = cmd("KEYS").arg("*").query(&mut connection).unwrap();
        let mut dump = |key: String| {
            let held = cmd("DUMP").arg(&key).query(&mut connection).unwrap();
            (key, held)
        };
        keys.into_iter().map(&mut dump).collect()
    }

    /// Makes it hold what it held.
    pub fn restore_all(&self, dumped: &std::collections::BTreeMap<String, Vec<u8>>) {
        let mut connection = self.connect();
        cmd("FLUSHALL").query::<()>(&mut connection).unwrap();
        for (key, held) in dumped {
            cmd("RESTORE")
                .arg(key)
                .arg(0)
                .arg(held)
                .query::<()>(&mut connection)
                .unwrap();
        }
    }

    /// How often each command was called so far.
    pub fn calls(&self) -> std::collections::BTreeMap<String, u64> {
        let stats: String = self.ask("INFO commandstats");
        let of_line = |line: &str| {
            let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((command.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        stats.lines().filter_map(of_line).collect()
    }

    /// Ends it as a power cut does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, with what it kept.
    pub fn restart(&mut self) {
        self.kill();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let _ = fs::remove_file(self.socket());
            self.child = spawn(self.port, &self.directory, &self.arguments);
            if answers(&mut self.child, &self.directory) {
                return;
            }
        }
        panic!("redis-server did not start again");
    }

    /// Starts it again so that it takes long to load what it kept, and does not wait for that.
    pub fn restart_slowly(&mut self) {
        self.kill();
        let _ = fs::remove_file(self.socket());
        let slowly = "--key-load-delay 50000 --loading-process-events-interval-bytes 1024";
        self.arguments.extend(slowly.split(' ').map(str::to_owned));
        self.child = spawn(self.port, &self.directory, &self.arguments);
        let socket = self.socket();
        wait_until("it listens", || UnixStream::connect(&socket).is_ok());
    }

    /// Stops it in mid-air: it accepts connections and answers nothing.
    pub fn hang(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn url(text: &str) -> RedisUrl {
    RedisUrl::parse(text).unwrap()
}

/// The configuration of a ledger in Redis, without secrets and allowance.
pub fn ledger_config(timeout: Duration, max_skew: Duration) -> LedgerConfig {
    LedgerConfig {
        store: LedgerStore::Sqlite,
        password: None,
        sentinel_password: None,
        tls: LedgerTls::default(),
        timeout,
        cheap_max: Units::ZERO,
        unmetered_max: Units::ZERO,
        max_skew,
        after_loss: AfterLoss::Floor,
    }
}

/// Waits until something holds, for as long as a healthy server may need.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn words(command: &str) -> Cmd {
    // A space that is not to part words is written as one that does not break.
    let mut words = command.split(' ').map(|word| word.replace('\u{a0}', " "));
    let mut whole = cmd(&words.next().unwrap());
    for word in words {
        whole.arg(word);
    }
    whole
}

/// A port that was free just now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn spawn(port: u16, directory: &TempDir, arguments: &[String]) -> Child {
    // A configuration file comes before everything else.
    let (file, arguments) = arguments.split_at(usize::from(
        arguments
            .first()
            .is_some_and(|first| first.starts_with('/')),
    ));
    let program = std::env::var_os("INGEST_TEST_REDIS");
    let started = Command::new(program.unwrap_or_else(|| "redis-server".into()))
        .args(file)
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--loglevel",
            "warning",
        ])
        .arg("--dir")
        .arg(directory.path())
        .arg("--unixsocket")
        .arg(directory.path().join("socket"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.unwrap_or_else(|error| {
        panic!("redis-server cannot be started ({error}): install it with `bash tests/all.sh`, or with your package manager: `apt-get install redis-server`, `dnf install redis`, `brew install redis`")
    })
}

/// Whether it answers at all; `false` where it ended instead, as it does when somebody else took the port.
fn answers(child: &mut Child, directory: &TempDir) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if is_up(&directory.path().join("socket")) {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// Whether it answers what it is asked, if only that it wants a password.
fn is_up(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = [0; 8];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read(&mut answer).is_ok_and(|length| length > 0)
        && !answer.starts_with(b"-LOADING")
}
