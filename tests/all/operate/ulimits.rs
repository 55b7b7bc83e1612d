//! Limits of the system that a process meets: a sentence and an exit code, and never a signal or a panic.

use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use crate::support::world::{FAKETIME, Ran, World, ended, in_shell};
use ingest_testing::not_run::not_run;

/// The program under limits that a shell sets first.
fn under(limits: &str, command: &Command) -> Ran {
    ended(in_shell(limits, command))
}

fn is_a_sentence(limits: &str, ran: &Ran) {
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        !said.contains("panicked") && !said.contains("src/"),
        "{limits}: {said}"
    );
    assert!(ran.code >= 0 && ran.code < 128, "{limits}: {ran:?}");
}

#[test]
fn a_process_with_few_files_threads_or_little_stack_says_what_it_lacks() {
    let world = World::new();
    assert_eq!(world.ingest(&["--region", "US"]).code, 0);
    for files in 4..40 {
        for arguments in [
            &["charge", "youtube", "videos.list"][..],
            &["status"],
            &["--region", "GB", "--job", "trending"],
        ] {
            let limits = format!("ulimit -n {files}");
            let ran = under(&limits, &world.command(arguments));
            is_a_sentence(&limits, &ran);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            let is_told = said.contains("ulimit -n") || said.contains("Too many open files");
            assert!(ran.code == 0 || is_told, "{limits} {arguments:?}: {said}");
            assert!(
                !said.contains("check that its directory"),
                "{limits}: {said}"
            );
        }
    }
    for stack in [32, 64, 128] {
        let limits = format!("ulimit -s {stack}");
        let ran = under(&limits, &world.command(&["status"]));
        assert_eq!(ran.code, 0, "{limits}: {ran:?}");
    }
}

#[test]
fn a_user_with_too_many_processes_learns_it() {
    if !geteuid().is_root() {
        return;
    }
    let program = assert_cmd::cargo::cargo_bin!("ingest");
    for most in [0, 1, 2] {
        let mut shell = Command::new("setpriv");
        shell.args(["--reuid", "12003", "--clear-groups", "bash", "-c"]);
        shell
            .arg(format!("ulimit -u {most}; exec \"$0\" status"))
            .arg(program);
        shell.current_dir("/").env("INGEST_STATE_DIR", "/nowhere");
        let ran = ended(shell);
        is_a_sentence("ulimit -u", &ran);
        assert_ne!(ran.code, 0, "{ran:?}");
    }
}

#[test]
fn a_limit_of_the_size_of_files_is_met_as_a_full_disk() {
    for blocks in [0, 1, 8, 20, 60, 200] {
        let world = World::new();
        let limits = format!("ulimit -f {blocks}");
        for arguments in [
            &["charge", "youtube", "videos.list"][..],
            &["--region", "US", "--job", "trending"],
        ] {
            let ran = under(&limits, &world.command(arguments));
            is_a_sentence(&limits, &ran);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(
                ran.code == 0 || said.contains("ulimit -f") || said.contains("File too large"),
                "{limits}: {said}"
            );
        }
        // And when there is room again, everything goes on.
        let ran = world.ingest(&["--region", "US", "--job", "trending"]);
        assert_eq!(ran.code, 0, "{limits}: {ran:?}");
    }
}

#[test]
fn a_clock_before_1970_is_said_to_be_wrong() {
    if !Path::new(FAKETIME).exists() {
        return not_run("libfaketime is not installed: a clock before 1970 is not checked");
    }
    let world = World::new();
    for arguments in [
        &["--region", "US"][..],
        &["status"],
        &["charge", "youtube", "videos.list"],
        &["check"],
    ] {
        let ran = ended(world.command_at("1965-01-01 00:00:00", arguments));
        is_a_sentence("1965", &ran);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.stderr.contains("clock"), "{ran:?}");
    }
}
