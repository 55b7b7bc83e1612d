use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const SOCKET: &str = "redis.sock";

/// What befalls a Redis.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mishap {
    /// Killed and started again; nothing is lost.
    Restart,
    /// It does not answer for a while.
    Hang,
    /// It takes nothing for a while, and says so.
    OutOfMemory,
    /// It becomes a replica that only reads, and a primary again: another server with the same keys.
    Demotion,
    /// Every connection breaks, with whatever is on it.
    CutOff,
    /// It forgets the scripts.
    NoScripts,
    /// It forgets everything.
    Flush,
    /// It is killed, and comes back without the last that it wrote.
    Rollback,
    /// It is killed, and comes back with nothing.
    Wipe,
}

impl Mishap {
    /// Those that lose nothing.
    pub(crate) const HARMLESS: [Self; 6] = [
        Self::Restart,
        Self::Hang,
        Self::OutOfMemory,
        Self::Demotion,
        Self::CutOff,
        Self::NoScripts,
    ];
}

/// A Redis that keeps what it was told, unless it suffers a loss.
pub(crate) struct Redis {
    child: Child,
    directory: TempDir,
}

impl Redis {
    pub(crate) fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let child = spawn(&directory)?;
        Some(Self { child, directory })
    }

    /// A Unix socket in a directory of its own: another process could take a port while this Redis is down.
    pub(crate) fn url(&self) -> String {
        url(&self.directory)
    }

    /// Something happens, and is over when this returns.
    pub(crate) fn suffer(&mut self, mishap: Mishap, span: Duration, percent: usize) {
        match mishap {
            Mishap::Restart => self.restart(span, |_| {}),
            Mishap::Hang => self.hang(span),
            Mishap::OutOfMemory => {
                self.order("CONFIG", &["SET", "maxmemory", "1"]);
                std::thread::sleep(span);
                self.order("CONFIG", &["SET", "maxmemory", "0"]);
            }
            Mishap::Demotion => {
                self.order("REPLICAOF", &["127.0.0.1", "1"]);
                std::thread::sleep(span);
                self.order("REPLICAOF", &["NO", "ONE"]);
            }
            Mishap::CutOff => self.order("CLIENT", &["KILL", "TYPE", "normal"]),
            Mishap::NoScripts => self.order("SCRIPT", &["FLUSH", "SYNC"]),
            Mishap::Flush => self.order("FLUSHALL", &["SYNC"]),
            Mishap::Rollback => self.restart(span, |file| {
                let length = file.metadata().unwrap().len();
                let kept = last_whole(
                    &std::fs::read(file).unwrap(),
                    length - length * percent as u64 / 100,
                );
                std::fs::OpenOptions::new()
                    .write(true)
                    .open(file)
                    .unwrap()
                    .set_len(kept)
                    .unwrap();
            }),
            Mishap::Wipe => self.restart(span, |file| std::fs::write(file, "").unwrap()),
        }
    }

    /// Sees that what the keys hold fits together.
    pub(crate) fn check(&self) {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let script = redis::Script::new(include_str!(
            "../../crates/ledger/tests/all/redis/stored.lua"
        ));
        let mut invocation = script.prepare_invoke();
        for part in ["main", "log", "ids"] {
            invocation.key(format!("ingest:{{youtube}}:{part}"));
        }
        let parts: Vec<redis::Value> = invocation.invoke(&mut connection).unwrap();
        // Four numbers come first.
        assert!(parts.len() == 4, "{:?}: {}", parts.get(4..), self.dump());
    }

    /// What it holds, and its time.
    pub(crate) fn dump(&self) -> String {
        let key = |part: &str| format!("ingest:{{youtube}}:{part}");
        let time = self.ask("TIME", &[]);
        let (main, ids) = (
            self.ask("HGETALL", &[&key("main")]),
            self.ask("HGETALL", &[&key("ids")]),
        );
        let log = self.ask("ZRANGE", &[&key("log"), "0", "-1", "WITHSCORES"]);
        format!("time {time:?}\nmain {main:?}\nlog {log:?}\nids {ids:?}")
    }

    fn ask(&self, command: &str, arguments: &[&str]) -> redis::Value {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        redis::cmd(command)
            .arg(arguments)
            .query(&mut connection)
            .unwrap()
    }

    fn order(&self, command: &str, arguments: &[&str]) {
        self.ask(command, arguments);
    }

    /// Kills it, does something to the file that it will read again, and starts it.
    fn restart(&mut self, away: Duration, change: impl Fn(&PathBuf)) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let files = std::fs::read_dir(self.directory.path().join("appendonlydir")).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
            .for_each(|file| change(&file));
        std::thread::sleep(away);
        self.child = spawn(&self.directory).expect("it started before");
    }

    fn hang(&self, span: Duration) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(span);
        kill_process(pid, Signal::CONT).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether it has read what it wrote down, and answers.
fn answers(directory: &TempDir) -> bool {
    let client = redis::Client::open(url(directory)).unwrap();
    client
        .get_connection()
        .is_ok_and(|mut connection| redis::cmd("PING").query::<String>(&mut connection).is_ok())
}

/// Where the last script ends that is whole within so many bytes of an append-only file. One that is cut in its middle
/// is another matter: Redis 7.0 leaves its beginning there, and runs that half at the start after the next.
fn last_whole(file: &[u8], within: u64) -> u64 {
    const END: &[u8] = b"$4\r\nEXEC\r\n";
    let within = &file[..usize::try_from(within).unwrap()];
    let end = within.windows(END.len()).rposition(|piece| piece == END);
    end.map_or(0, |at| (at + END.len()) as u64)
}

fn url(directory: &TempDir) -> String {
    format!("unix://{}", directory.path().join(SOCKET).display())
}

fn spawn(directory: &TempDir) -> Option<Child> {
    let mut child = Command::new("redis-server")
        .args([
            "--port",
            "0",
            "--unixsocket",
            SOCKET,
            "--save",
            "",
            "--appendonly",
            "yes",
            "--dir",
        ])
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    while !answers(directory) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "redis-server does not start"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(child)
}
