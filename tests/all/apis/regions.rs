//! Regions that a file lists.

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
        ("{ file = \"a\", fresh = \"1h\" }".to_owned(), "unknown key"),
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
