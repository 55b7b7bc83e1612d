//! Backup and restore, by the commands of the manual, with the catalog in files and in PostgreSQL.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::shared_world::SharedWorld;
use crate::support::world::{Ran, World, environment_of};
use ingest_testing::postgres::PostgresServer;

/// The commands of a section of a document that begin so.
fn commands(document: &str, section: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = std::fs::read_to_string(path).unwrap();
    let (_, after) = text.split_once(&format!("\n## {section}\n")).unwrap();
    let after = after.split("\n## ").next().unwrap();
    let block = after.split("\n```").nth(1).unwrap();
    let commands: Vec<String> = block.lines().skip(1).map(str::to_owned).collect();
    assert!(commands.len() > 3, "{commands:?}");
    commands
}

/// Runs a command of the manual in this world: its paths are below the world's directory, and systemd is left out.
fn follow(world: &World, command: &str, replaced: &[(&str, &str)]) -> Ran {
    let place = world.directory.path();
    let tools = place.join("tools");
    std::fs::create_dir_all(tools.join("backups")).unwrap();
    let arguments = world.command(&[]);
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let words: Vec<String> = arguments.get_args().map(quoted).collect();
    let program = quoted(arguments.get_program());
    let wrapped = format!("#!/bin/sh\nexec {program} {} \"$@\"\n", words.join(" "));
    for (name, text) in [("ingest", wrapped.as_str()), ("systemctl", "#!/bin/sh\n")] {
        std::fs::write(tools.join(name), text).unwrap();
        let executable = PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(tools.join(name), executable).unwrap();
    }
    let backups = tools.join("backups").display().to_string();
    let state = world.state_dir().display().to_string();
    let paths = [
        ("/var/backups", backups.as_str()),
        ("/var/lib/ingest", &state),
    ];
    let fold = |line: String, (from, to): &(&str, &str)| line.replace(from, to);
    let line = paths.iter().chain(replaced).fold(command.to_owned(), fold);
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &line]).env_clear();
    shell.envs(environment_of(&arguments)).env("PATH", path);
    Ran::of(shell.output().unwrap())
}

fn follow_all(world: &World, commands: &[String], replaced: &[(&str, &str)]) {
    for command in commands {
        let ran = follow(world, command, replaced);
        assert_eq!(ran.code, 0, "{command}\n{ran:?}");
    }
}

const US: [&str; 4] = ["--region", "US", "--job", "trending"];
const GB: [&str; 4] = ["--region", "GB", "--job", "trending"];

fn exported(world: &World) -> String {
    let ran = world.ingest(&["export", "--kind", "video"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout
}

#[test]
fn files_are_backed_up_and_restored_as_the_manual_says() {
    let world = World::new();
    let commands = commands("deploy/README.md", "Backup and restore");
    assert_eq!(world.ingest(&US).code, 0);
    let (backed_up, charged) = (exported(&world), world.charged("daily"));
    let today = [("2026-11-01", "$(date +%F)")];
    follow_all(&world, &commands[..1], &today);
    assert_eq!(world.ingest(&GB).code, 0);
    assert_ne!(exported(&world), backed_up);
    follow_all(&world, &commands[1..], &today);
    assert_eq!(exported(&world), backed_up);
    assert_eq!(world.charged("daily"), charged);
    let again = world.ingest(&GB);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stderr.contains("restored from a backup"), "{again:?}");
    let nothing = world.ingest(&US);
    assert!(
        nothing.stdout.starts_with("Nothing was due."),
        "{nothing:?}"
    );
}

#[test]
fn a_catalog_in_postgres_is_backed_up_and_restored_as_the_manual_says_and_no_unit_is_forgotten() {
    let schema = PostgresServer::shared().schema();
    let world = schema.world(&[]);
    let commands = commands("docs/postgres.md", "Backup and restore");
    let replaced = [
        ("\"$URL\"", format!("'{}'", schema.url)),
        ("\"$ADMIN\"", format!("'{}'", schema.url)),
        ("-n ingest", format!("-n {}", schema.name)),
        ("schema ingest", format!("schema {}", schema.name)),
    ];
    let replaced: Vec<(&str, &str)> = replaced.iter().map(|(from, to)| (*from, &**to)).collect();
    assert_eq!(world.ingest(&US).code, 0);
    let backed_up = exported(&world);
    follow_all(&world, &commands[..1], &replaced);
    assert_eq!(world.ingest(&GB).code, 0);
    let charged = world.charged("daily");
    assert_ne!(exported(&world), backed_up);
    follow_all(&world, &commands[1..], &replaced);
    assert_eq!(exported(&world), backed_up);
    assert_eq!(
        world.charged("daily"),
        charged,
        "the ledger is another store"
    );
    let again = world.ingest(&GB);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(
        world.charged("daily") > charged,
        "requested and charged again"
    );
}
