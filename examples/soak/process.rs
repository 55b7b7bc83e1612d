//! One process of the program: how it is started, what befalls it, and how it may end.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::chance::Chance;
use super::tally::Tally;

/// How often somebody looks whether something goes on.
const STEP: Duration = Duration::from_secs(1);
/// Within which a signal ends any run, and a little.
const TO_END: Duration = Duration::from_secs(12);

pub(crate) struct Process {
    pub(crate) child: Child,
    what: String,
    /// When it was started, or something went on last.
    began: Instant,
    patience: Duration,
    /// What it writes, which it could not write if nobody read it.
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts a command whose outputs are pipes. It hangs if it does not end, and nothing goes on, for `patience`.
    pub(crate) fn start(mut command: Command, what: String, patience: Duration) -> Self {
        let mut child = command.spawn().unwrap();
        Self {
            out: child.stdout.take().map(read),
            err: child.stderr.take().map(read),
            child,
            what,
            began: Instant::now(),
            patience,
        }
    }

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

    /// Waits for its end. One that ends by itself says what it did, in JSON, and nobody ever panics. Requests that the upstream
    /// `heard` from anybody meanwhile show that something goes on.
    pub(crate) fn end(mut self, heard: impl Fn() -> usize) -> Option<(i32, Value)> {
        let (status, hung) = self.wait(heard);
        let (out, err) = (self.out.take(), self.err.take());
        let (out, err) = (out.unwrap().join().unwrap(), err.unwrap().join().unwrap());
        let what = &self.what;
        assert!(
            !hung,
            "{what}: nothing went on for {:?}; asked to end, it ended by {status}: {out}\n{err}",
            self.patience
        );
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

    /// Returns how it ended, and whether it hung until it was asked to end, or killed.
    fn wait(&mut self, heard: impl Fn() -> usize) -> (ExitStatus, bool) {
        let mut before = heard();
        let patience = |process: &Self| process.patience.saturating_sub(process.began.elapsed());
        while !patience(self).is_zero() {
            if let Some(status) = self.ends_within(patience(self).min(STEP)) {
                return (status, false);
            }
            let now = heard();
            if now > before {
                (self.began, before) = (Instant::now(), now);
            }
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let status = self.ends_within(TO_END).unwrap_or_else(|| {
            self.child.kill().unwrap();
            self.child.wait().unwrap()
        });
        (status, true)
    }

    fn ends_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        loop {
            let status = self.child.try_wait().unwrap();
            if status.is_some() || began.elapsed() > patience {
                return status;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A chapter that goes wrong leaves nothing that runs.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut written = String::new();
        pipe.read_to_string(&mut written).unwrap();
        written
    })
}
