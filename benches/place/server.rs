//! `ingest serve` over a place.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Place;
use super::figures::{Measured, megabytes};

/// `ingest serve` over a place.
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    pub fn start(place: &Place) -> Self {
        let mut child = place
            .command()
            .args([
                "--set",
                "serve.readers={ quota = 1000000, window = \"1min\" }",
            ])
            .args(["serve", "--listen", "127.0.0.1:0", "--format", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = said["address"].as_str().unwrap().to_owned();
        Self { child, address }
    }

    /// Gets a page, and returns what that took.
    pub fn measure(&self, path: &str) -> Measured {
        let (began, before) = (Instant::now(), self.computed());
        drop(self.get(path));
        Measured {
            took: began.elapsed(),
            computed: self.computed().saturating_sub(before),
            megabytes: megabytes(self.child.id()).unwrap(),
            exit: "0".to_owned(),
        }
    }

    /// The time of processors that its threads took so far. A thread that ended took its time along.
    fn computed(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let took = threads.filter_map(|thread| -> Option<u64> {
            let told = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).ok()?;
            told.split(' ').next()?.parse().ok()
        });
        Duration::from_nanos(took.sum())
    }

    /// The body of an answer with status 200.
    pub fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{path}: {answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
