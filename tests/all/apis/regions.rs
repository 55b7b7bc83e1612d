//! Regions that a file or a command lists.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::{Api, ids};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// An upstream whose lists have one record, named by the parameter `place`.
fn stub() -> StubUpstream {
    StubUpstream::start(|request| {
        StubAnswer::json(&json!({ "data": [{ "id": request.param("place") }] }))
    })
}

fn world(stub: &StubUpstream, regions: &str, place: &str) -> World {
    let api = Api {
        call: &format!(
            "params = {{ place = \"{place}\" }}\nrecords = {{ at = \"/data\", kind = \"row\", id = \"/id\" }}"
        ),
        regions,
        ..Api::default()
    };
    api.world(stub)
}

fn written(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_file_lists_regions_as_csv_as_lines_or_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let csv = "code,city\nGB,London\nFR,\"Paris, Texas\"\n";
    let cases = [
        (csv, "{city}", ["London", "Paris, Texas"]),
        ("GB\n\nFR\n", "{region}", ["FR", "GB"]),
        ("[\"GB\", \"FR\"]", "{region}", ["FR", "GB"]),
        (
            "{\"GB\": {\"city\": \"Leeds\"}, \"FR\": {\"city\": 75}}",
            "{city}",
            ["75", "Leeds"],
        ),
        (
            "[{\"code\": \"GB\", \"city\": \"Leeds\", \"note\": null}, {\"code\": 3, \"city\": \"Nice\"}]",
            "{region} {city}",
            ["3 Nice", "GB Leeds"],
        ),
    ];
    for (text, place, expected) in cases {
        let file = written(directory.path(), "places", text);
        let stub = stub();
        let world = world(&stub, &format!("{{ file = \"{file}\" }}"), place);
        assert_eq!(super::run(&world)["outcome"], "complete");
        assert_eq!(ids(&world), expected, "{text}");
    }
}

#[test]
fn thousands_of_regions_are_walked() {
    let directory = tempfile::tempdir().unwrap();
    let codes: Vec<String> = (0..2_000).map(|number| format!("R{number}")).collect();
    let file = written(directory.path(), "places", &codes.join("\n"));
    let stub = stub();
    let mut world = world(&stub, &format!("{{ file = \"{file}\" }}"), "{region}");
    world.set("credentials.main.limits.daily.quota=5000");
    let report = super::run(&world);
    assert_eq!(report["outcome"], "complete");
    assert_eq!(report["passes"].as_array().unwrap().len(), 2_000);
    let asked: BTreeSet<String> = stub
        .requests()
        .iter()
        .map(|request| request.param("place").unwrap().to_owned())
        .collect();
    assert_eq!(asked.len(), 2_000);
    assert_eq!(stub.requests().len(), 2_000);
}

#[test]
fn what_a_command_printed_is_valid_for_its_time_and_longer_if_it_fails() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let script = format!(
        "echo run >> {0}; test -e {0}.fail && exit 3; printf 'GB\\\\nFR\\\\n'",
        log.display()
    );
    let source = |valid_for: &str| {
        format!("{{ command = [\"sh\", \"-c\", \"{script}\"], valid_for = \"{valid_for}\" }}")
    };
    let stub = stub();
    let mut world = world(&stub, &source("1h"), "{region}");
    let runs = || std::fs::read_to_string(&log).unwrap().lines().count();
    super::run(&world);
    // There was no state directory to keep it in before.
    super::run(&world);
    let before = runs();
    assert_eq!(
        world.json(&["status"])["regions"].as_array().unwrap().len(),
        2
    );
    super::run(&world);
    assert_eq!(runs(), before);
    world.set("regions.valid_for=1us");
    super::run(&world);
    assert_eq!(runs(), before + 1);
    std::fs::write(format!("{}.fail", log.display()), "").unwrap();
    let ran = world.ingest(&["--region", "all"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("printed earlier"), "{ran:?}");
    std::fs::remove_dir_all(world.state_dir()).unwrap();
    let ran = world.ingest(&["--region", "all"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr.contains("cannot read the regions: `sh` failed"),
        "{ran:?}"
    );
}

#[test]
fn a_list_that_cannot_be_read_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let csv = "code,city\nGB,London\nGB,Leeds\n";
    let twice = written(directory.path(), "twice", csv);
    let empty = written(directory.path(), "empty", "\n");
    let starred = written(directory.path(), "starred", "*\n");
    let broken = written(directory.path(), "broken", "[1, ");
    let cases = [
        ("{ file = \"/none/such\" }".to_owned(), "/none/such"),
        (format!("{{ file = \"{twice}\" }}"), "listed twice"),
        (format!("{{ file = \"{empty}\" }}"), "at least one region"),
        (format!("{{ file = \"{starred}\" }}"), "not `*`"),
        (
            format!("{{ file = \"{broken}\" }}"),
            "cannot read the regions",
        ),
        (
            "{ file = \"a\", command = [\"b\"] }".to_owned(),
            "either `file` or `command`",
        ),
        ("{ file = \"a\", fresh = \"1h\" }".to_owned(), "unknown key"),
        (
            "{ command = [\"/none/such\"] }".to_owned(),
            "was not started",
        ),
        (
            "{ command = [\"sh\", \"-c\", \"sleep 30 2>/dev/null & echo GB\"] }".to_owned(),
            "keeps its output open",
        ),
    ];
    let stub = stub();
    let world = world(&stub, "[\"US\"]", "{region}");
    for (regions, phrase) in cases {
        let set = format!("regions={regions}");
        let ran = world.ingest(&["check", "--config-only", "--set", &set]);
        assert_eq!(ran.code, 2, "{regions} {ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(phrase), "{regions} {ran:?}");
    }
}

#[test]
fn a_dry_run_keeps_nothing_of_what_a_command_lists() {
    let directory = tempfile::tempdir().unwrap();
    let list = written(directory.path(), "list.sh", "echo US");
    let stub = stub();
    let source = format!("{{ command = [\"sh\", \"{list}\"], valid_for = \"1us\" }}");
    let world = world(&stub, &source, "{region}");
    for _ in 0..2 {
        super::run(&world);
    }
    let kept = || {
        let files = std::fs::read_dir(world.state_dir()).unwrap();
        let mut files: Vec<_> = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.to_string_lossy().contains("regions-"))
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect();
        files.sort();
        files
    };
    assert_eq!(kept(), ["US\n"]);
    std::fs::write(&list, "echo GB").unwrap();
    let preview = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(preview["passes"][0]["region"], "GB", "{preview}");
    assert_eq!(kept(), ["US\n"]);
}
