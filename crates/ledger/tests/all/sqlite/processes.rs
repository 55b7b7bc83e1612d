//! Many processes on one file, and some that are killed. The processes are this very test program, started again with one
//! ignored test to run, which finds the file in the environment.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use ingest_base::private;
use ingest_quota::{Account, Decision};

use super::{File, open};
use crate::Store;
use crate::books::{Books, at, cost, daily};

const FILE: &str = "INGEST_TEST_LEDGER";

/// The account that all processes share.
pub(crate) fn account() -> Account {
    Account {
        name: "shared".to_owned(),
        limits: [("daily".to_owned(), daily(100_000))].into(),
    }
}

/// One with `left` units left.
fn nearly_spent(left: u64) -> Account {
    Account {
        name: "spent".to_owned(),
        limits: [("daily".to_owned(), daily(left))].into(),
    }
}

fn start(test: &str, path: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program)
        .args([
            "--exact",
            "--ignored",
            "--nocapture",
            &format!("sqlite::processes::{test}"),
        ])
        .env(FILE, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until its parent says so, so that all begin at once.
fn wait_for_the_start() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn granted(line: &str) -> Option<u64> {
    line.strip_prefix("granted ")
        .and_then(|count| count.parse().ok())
}

#[tokio::test]
#[ignore = "a process of other tests"]
async fn spends_what_it_can() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    wait_for_the_start();
    let books = Books::new(Arc::new(open(path.as_ref())), nearly_spent(25));
    let mut granted = 0;
    for _ in 0..5 {
        granted += u64::from(matches!(
            books.charge(&cost([("daily", 1)]), at(0.0)).await,
            Decision::Granted(_)
        ));
    }
    println!("\ngranted {granted}");
}

#[tokio::test]
#[ignore = "a process of other tests"]
async fn spends_until_it_is_killed() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let books = Books::new(Arc::new(open(path.as_ref())), account());
    for granted in 1.. {
        books.take(&cost([("daily", 1)]), at(0.0)).await;
        println!("\ngranted {granted}");
    }
}

#[tokio::test]
#[ignore = "a process of other tests"]
async fn spends_a_unit_for_each_line() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let books = Books::new(Arc::new(open(path.as_ref())), account());
    for line in std::io::stdin().lines() {
        line.unwrap();
        books.take(&cost([("daily", 1)]), at(0.0)).await;
        println!("\ngranted 1");
    }
}

/// A process that spends when it is told to.
pub(crate) struct Writer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    pub(crate) fn start(path: &Path) -> Self {
        let mut child = start("spends_a_unit_for_each_line", path);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn spend(&mut self) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(b"one more\n")
            .unwrap();
        let told = self.lines.find_map(|line| granted(&line.unwrap()));
        assert_eq!(told, Some(1));
    }

    /// Lets it come to its own end.
    pub(crate) fn end(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// How many units a process was granted before it was killed, with one more perhaps on its way.
pub(crate) fn granted_until_killed(path: &Path, enough: u64) -> u64 {
    let mut child = start("spends_until_it_is_killed", path);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    for line in lines.map_while(Result::ok) {
        last = granted(&line).unwrap_or(last);
        if last == enough {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(last >= enough, "the process ended by itself");
    last
}

#[tokio::test]
async fn sixteen_processes_on_a_fresh_file_spend_exactly_what_is_left() {
    let file = File::new();
    let mut children: Vec<_> = (0..16)
        .map(|_| start("spends_what_it_can", &file.path()))
        .collect();
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let mut total = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        total += text.lines().find_map(granted).unwrap();
    }
    assert_eq!(total, 25);
    let books = Books::new(file.ledger(), nearly_spent(25));
    assert_eq!(books.used("daily", at(0.0)).await, 25);
}

#[tokio::test]
async fn a_killed_process_takes_no_grant_with_it() {
    let file = File::new();
    let (mut least, mut most) = (0, 0);
    for round in 1..6 {
        let granted = granted_until_killed(&file.path(), round * 7);
        (least, most) = (least + granted, most + granted + 1);
        let used = Books::new(file.ledger(), account())
            .used("daily", at(0.0))
            .await;
        assert!(
            least <= used && used <= most,
            "{used} used, {least} to {most} granted"
        );
    }
}

#[test]
fn many_threads_open_a_fresh_file_at_once() {
    for _ in 0..5 {
        let file = File::new();
        std::thread::scope(|scope| {
            (0..16).for_each(|_| drop(scope.spawn(|| open(&file.path()))));
        });
        let version = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        assert_eq!(
            file.query()
                .pragma_query_value(None, "user_version", version)
                .unwrap(),
            6
        );
    }
}

#[test]
fn a_directory_that_is_there_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::TempDir::new().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    private::create_dir(directory.path()).unwrap();
    assert_eq!(
        directory.path().metadata().unwrap().permissions().mode() & 0o777,
        0o755
    );
}
