//! Where `quotas.toml` is looked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ingest_config::{Config, ConfigError, NamedBy, Sources, Surroundings};
use tempfile::TempDir;

use super::SMALL;

/// A machine with a directory of each kind, and the files that were put there.
struct Machine {
    root: TempDir,
    variables: BTreeMap<&'static str, PathBuf>,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let variables = BTreeMap::from([("HOME", root.path().join("home"))]);
        Self { root, variables }
    }

    /// Puts a file there, told from others by the cheap_max that it says.
    fn put(&self, path: &str, cheap_max: u64) -> PathBuf {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = SMALL.replace(
            "url = \"sqlite\"",
            &format!("url = \"sqlite\"\ncheap_max = {cheap_max}"),
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    fn load(&self, path: Option<&Path>) -> Result<Config, ConfigError> {
        let sources = Sources {
            path: path.map(Path::to_owned),
            sets: Vec::new(),
        };
        let variable = |name: &str| self.variables.get(name).cloned();
        Config::load_from(
            &sources,
            &Surroundings {
                directory: self.root.path().join("here"),
                variable: &variable,
            },
        )
    }

    fn cheap_max(&self, path: Option<&Path>) -> u64 {
        self.load(path).unwrap().ledger.cheap_max.get()
    }
}

#[test]
fn the_first_place_that_has_a_file_holds() {
    let mut machine = Machine::new();
    machine.put("home/.config/ingest/quotas.toml", 1);
    assert_eq!(machine.cheap_max(None), 1);

    machine.put("xdg/ingest/quotas.toml", 2);
    machine
        .variables
        .insert("XDG_CONFIG_HOME", machine.root.path().join("xdg"));
    assert_eq!(machine.cheap_max(None), 2);

    let here = machine.put("here/quotas.toml", 3);
    assert_eq!(machine.cheap_max(None), 3);
    assert_eq!(machine.load(None).unwrap().path, here);

    let named = machine.put("named.toml", 4);
    machine.variables.insert("INGEST_CONFIG", named);
    assert_eq!(machine.cheap_max(None), 4);

    let flag = machine.put("flag.toml", 5);
    assert_eq!(machine.cheap_max(Some(&flag)), 5);
}

#[test]
fn an_empty_or_relative_variable_is_as_good_as_none() {
    let mut machine = Machine::new();
    machine.put("home/.config/ingest/quotas.toml", 1);
    machine.variables.insert("INGEST_CONFIG", PathBuf::new());
    machine
        .variables
        .insert("XDG_CONFIG_HOME", PathBuf::from("relative"));
    assert_eq!(machine.cheap_max(None), 1);
}

#[test]
fn without_any_file_it_says_where_it_looked_and_what_to_do() {
    let machine = Machine::new();
    let Err(error) = machine.load(None) else {
        return;
    }; // a machine with a file in /etc
    let said = error.to_string();
    for phrase in [
        "here/quotas.toml",
        ".config/ingest/quotas.toml",
        "/etc/ingest/quotas.toml",
        "--config FILE",
    ] {
        assert!(said.contains(phrase), "{said}");
    }
}

#[test]
fn a_file_that_was_named_and_is_not_there_is_never_replaced_by_another() {
    let mut machine = Machine::new();
    machine.put("here/quotas.toml", 3);
    let missing = machine.root.path().join("missing.toml");
    let by_flag = machine.load(Some(&missing)).unwrap_err();
    assert!(matches!(
        by_flag,
        ConfigError::Unreadable {
            named_by: NamedBy::Flag,
            ..
        }
    ));
    assert!(by_flag.to_string().contains("missing.toml"), "{by_flag}");

    machine.variables.insert("INGEST_CONFIG", missing);
    let by_variable = machine.load(None).unwrap_err();
    assert!(
        by_variable.to_string().contains("$INGEST_CONFIG"),
        "{by_variable}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_not_passed_over() {
    let machine = Machine::new();
    std::fs::create_dir_all(machine.root.path().join("here/quotas.toml")).unwrap();
    let error = machine.load(None).unwrap_err();
    assert!(
        matches!(
            error,
            ConfigError::Unreadable {
                named_by: NamedBy::Place,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_utf_8_is_told_with_its_line() {
    let machine = Machine::new();
    let path = machine.put("latin.toml", 0);
    let mut bytes = SMALL.as_bytes().to_vec();
    let at = SMALL.find("things").unwrap();
    bytes.splice(at..at, *b"caf\xe9");
    std::fs::write(&path, bytes).unwrap();
    let said = machine.load(Some(&path)).unwrap_err().to_string();
    assert_eq!(
        said,
        format!(
            "{}:6: the file is not UTF-8; save the file as UTF-8",
            path.display()
        )
    );
}

#[test]
fn a_problem_names_the_file_that_it_is_in() {
    let machine = Machine::new();
    let path = machine.put("wrong.toml", 0);
    std::fs::write(&path, SMALL.replace("30s", "soon")).unwrap();
    let said = machine.load(Some(&path)).unwrap_err().to_string();
    assert!(
        said.starts_with(&format!("{}:9: upstreams.things.timeout", path.display())),
        "{said}"
    );
}
