//! One process of the program: how it is started, what befalls it, and how it may end.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::chance::Chance;
use super::tally::Tally;

const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) what: String,
}

impl Process {
    pub(crate) fn befall(&mut self, chance: &mut Chance, tally: &Tally) {
        let signal = match chance.below(8) {
            0 | 1 => Signal::KILL,
            2 => Signal::TERM,
            3 => Signal::INT,
            _ => return,
        };
        tally.count(if signal == Signal::KILL {
            "killed"
        } else {
            "asked to end"
        });
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for its end. One that ends by itself says what it did, in JSON, and nobody ever panics.
    pub(crate) fn end(mut self) -> Option<(i32, Value)> {
        let status = self.wait();
        let (mut out, mut err) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        let Self { what, .. } = self;
        assert!(!err.contains("panicked"), "{what}: {err}");
        match (status.code(), status.signal()) {
            (Some(code @ (0 | 1 | 75 | 130 | 143)), _) => {
                let said = serde_json::from_str(&out)
                    .unwrap_or_else(|error| panic!("{what}: {error}: {out}: {err}"));
                Some((code, said))
            }
            // A signal that comes before anybody listens.
            (_, Some(2 | 9 | 15)) => None,
            _ => panic!("{what}: {status}: {out} {err}"),
        }
    }

    fn wait(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{} does not end", self.what);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
