use std::path::{Path, PathBuf};
use std::time::Duration;

use ingest_testing::redis_server::RedisServer;

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
pub(crate) struct Redis(RedisServer);

impl Redis {
    pub(crate) fn start() -> Self {
        Self(RedisServer::local())
    }

    pub(crate) fn url(&self) -> String {
        self.0.socket_url()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.socket()
    }

    /// Something happens, and is over when this returns.
    pub(crate) fn suffer(&mut self, mishap: Mishap, span: Duration, percent: usize) {
        match mishap {
            Mishap::Restart => self.restart(span, |_| {}),
            Mishap::Hang => {
                self.0.hang();
                std::thread::sleep(span);
                self.0.resume();
            }
            Mishap::OutOfMemory => {
                self.0.tell("CONFIG SET maxmemory 1");
                std::thread::sleep(span);
                self.0.tell("CONFIG SET maxmemory 0");
            }
            Mishap::Demotion => {
                self.0.tell("REPLICAOF 127.0.0.1 1");
                std::thread::sleep(span);
                self.0.tell("REPLICAOF NO ONE");
            }
            Mishap::CutOff => self.0.tell("CLIENT KILL TYPE normal"),
            Mishap::NoScripts => self.0.tell("SCRIPT FLUSH SYNC"),
            Mishap::Flush => self.0.tell("FLUSHALL SYNC"),
            Mishap::Rollback => self.restart(span, |file| {
                let written = std::fs::read(file).unwrap();
                let kept = written.len() - written.len() * percent / 100;
                std::fs::write(file, last_whole(&written[..kept])).unwrap();
            }),
            Mishap::Wipe => self.restart(span, |file| std::fs::write(file, "").unwrap()),
        }
    }

    /// Sees that what the keys hold fits together.
    pub(crate) fn check(&self) {
        let script = redis::Script::new(include_str!(
            "../../crates/ledger/tests/all/redis/stored.lua"
        ));
        let mut invocation = script.prepare_invoke();
        for part in ["main", "log", "ids"] {
            invocation.key(format!("ingest:{{youtube}}:{part}"));
        }
        let parts: Vec<redis::Value> = invocation.invoke(&mut self.0.connect()).unwrap();
        // Four numbers come first.
        assert!(parts.len() == 4, "{:?}: {}", parts.get(4..), self.dump());
    }

    /// What it holds, and its time.
    pub(crate) fn dump(&self) -> String {
        let held = [
            "TIME",
            "HGETALL ingest:{youtube}:main",
            "ZRANGE ingest:{youtube}:log 0 -1 WITHSCORES",
            "HGETALL ingest:{youtube}:ids",
        ];
        let held = held.map(|what| format!("{what}: {:?}", self.0.ask::<redis::Value>(what)));
        held.join("\n")
    }

    /// Kills it, does something to the file that it will read again, and starts it.
    fn restart(&mut self, away: Duration, change: impl Fn(&Path)) {
        self.0.kill();
        let files = self.socket().with_file_name("appendonlydir");
        let files = std::fs::read_dir(files).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
            .for_each(|file| change(&file));
        std::thread::sleep(away);
        self.0.restart();
    }
}

/// A beginning of an append-only file, to the end of its last script that is whole. One that is cut in its middle
/// is another matter: Redis 7.0 leaves its beginning there, and runs that half at the start after the next.
fn last_whole(file: &[u8]) -> &[u8] {
    const END: &[u8] = b"$4\r\nEXEC\r\n";
    let end = file.windows(END.len()).rposition(|piece| piece == END);
    &file[..end.map_or(0, |at| at + END.len())]
}
