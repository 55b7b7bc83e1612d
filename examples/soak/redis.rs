use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A Redis that keeps what it was told, and is killed, stopped and started again.
pub(crate) struct Redis {
    child: Child,
    directory: TempDir,
    pub(crate) port: u16,
}

impl Redis {
    pub(crate) fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = spawn(port, &directory)?;
        Some(Self { child, directory, port })
    }

    pub(crate) fn kill_and_restart(&mut self, away: Duration) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::thread::sleep(away);
        self.child = spawn(self.port, &self.directory).expect("it started before");
    }

    pub(crate) fn stop_for(&self, span: Duration) {
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

fn spawn(port: u16, directory: &TempDir) -> Option<Child> {
    let child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir"])
        .arg(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(child)
}
