//! XML: one element, none and several are read alike.

use super::{Api, ids, records, run};
use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::{Value, json};

fn world(stub: &StubUpstream, call: &str) -> World {
    Api {
        upstream: "attempts = 1",
        call,
        ..Api::default()
    }
    .world(stub)
}

/// The pass over one response of this body.
fn landed(body: &str, call: &str) -> (Value, World) {
    let stub = StubUpstream::answering([StubAnswer::text(200, body)]);
    let world = world(&stub, call);
    (run(&world)["passes"][0].clone(), world)
}

/// Papers by so many authors each.
fn feed(papers: &[&[&str]]) -> String {
    let entry = |(at, authors): (usize, &&[&str])| {
        let authors: String = authors
            .iter()
            .map(|name| format!("<author><name>{name}</name></author><tag>{name}!</tag>"))
            .collect();
        format!("<entry><id>p{at}</id>{authors}</entry>")
    };
    let entries: String = papers.iter().enumerate().map(entry).collect();
    format!("<feed><title>t</title><link href=\"a\"/><link href=\"b\"/>{entries}</feed>")
}

const PAPERS: &str = r#"records = { at = "/feed/entry", format = "xml", kind = "paper", id = "/id", text = ["/author/*/name"], columns = { authors = "/author/*/name", tags = "/tag/*", first = "/author/0/name" } }"#;

fn column(world: &World, name: &str) -> Vec<Option<String>> {
    let catalog = world.catalog();
    let select = format!("select {name} from api_paper order by id");
    let mut query = catalog.prepare(&select).unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn columns_and_texts_find_one_element_none_and_several() {
    let (pass, world) = landed(&feed(&[&["Ann"], &[], &["Bob", "Cleo"]]), PAPERS);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        column(&world, "authors"),
        [text(r#"["Ann"]"#), text("[]"), text(r#"["Bob","Cleo"]"#)]
    );
    assert_eq!(
        column(&world, "tags"),
        [text(r#"["Ann!"]"#), text("[]"), text(r#"["Bob!","Cleo!"]"#)]
    );
    assert_eq!(column(&world, "first"), [text("Ann"), None, text("Bob")]);
    for name in ["Ann", "Cleo"] {
        let found = world.json(&["search", name]);
        assert_eq!(found["hits"].as_array().map(Vec::len), Some(1), "{found}");
    }
}

#[test]
fn a_list_of_no_element_is_empty_however_it_is_written() {
    for (body, at) in [
        (feed(&[]), "/feed/entry"),
        ("<feed/>".to_owned(), "/feed/entry"),
        ("<feed>\n</feed>".to_owned(), "/feed/entry"),
        ("<r><entries/></r>".to_owned(), "/r/entries/entry"),
        ("<r><entries/></r>".to_owned(), "/r/entries"),
        (
            "<r><entries></entries><n>0</n></r>".to_owned(),
            "/r/entries/entry/*",
        ),
        (
            "<r><group><n>1</n></group></r>".to_owned(),
            "/r/group/*/entry",
        ),
        ("<r><n>0</n></r>".to_owned(), "/r/group/*/entry"),
    ] {
        let call =
            format!(r#"records = {{ at = "{at}", format = "xml", kind = "row", id = "/id" }}"#);
        let (pass, world) = landed(&body, &call);
        assert_eq!(pass["outcome"], "complete", "{at} {body}: {pass}");
        assert_eq!(ids(&world).len(), 0);
    }
}

#[test]
fn a_document_of_another_root_has_no_list() {
    for at in ["/feed", "/feed/*", "/feed/entry"] {
        let call =
            format!(r#"records = {{ at = "{at}", format = "xml", kind = "row", id = "/id" }}"#);
        let stub = StubUpstream::answering([StubAnswer::status(200)]);
        let world = world(&stub, &call);
        let file = world.directory.path().join("saved.xml");
        std::fs::write(&file, "<other><code>7</code></other>").unwrap();
        let shown = world.json(&["try", "main", "list", "--answer", file.to_str().unwrap()]);
        let missing = shown["missing"][0].as_str().unwrap();
        assert!(missing.contains("there are no records at"), "{shown}");
    }
}

#[test]
fn a_list_that_is_elsewhere_is_no_empty_list() {
    let call = r#"records = { at = "/feed/item", format = "xml", kind = "row", id = "/id" }"#;
    let (pass, _) = landed(&feed(&[&["Ann"], &["Bob"]]), call);
    assert_eq!(pass["outcome"], "doubtful", "{pass}");
    let detail = pass["detail"].as_str().unwrap();
    assert!(detail.contains("a list at `/feed/entry`"), "{detail}");
}

#[test]
fn records_are_found_behind_one_element_and_behind_several() {
    let group = |id: &str| format!("<group><name>g</name><item><id>{id}</id></item></group>");
    let text = |id: &str| format!("<Id>{id}</Id>");
    for (at, id, one) in [
        ("/r/group/*/item", "/id", group as fn(&str) -> String),
        ("/r/group/*/item/*", "/id", group),
        ("/r/Id", "", text),
    ] {
        let call =
            format!(r#"records = {{ at = "{at}", format = "xml", kind = "row", id = "{id}" }}"#);
        for all in [vec!["1"], vec!["1", "2"]] {
            let body: String = all.iter().map(|id| one(id)).collect();
            let (pass, world) = landed(&format!("<r>{body}</r>"), &call);
            assert_eq!(pass["outcome"], "complete", "{at}: {pass}");
            assert_eq!(ids(&world), all, "{at}");
        }
    }
}

#[test]
fn elements_of_different_names_are_still_records_by_name() {
    let body = "<rates><day><usd><v>1</v></usd><eur><v>2</v></eur></day></rates>";
    let call = r#"records = { at = "/rates/day/*", key = "name", format = "xml", kind = "row", id = "/name" }"#;
    let (pass, world) = landed(body, call);
    assert_eq!(pass["outcome"], "complete", "{pass}");
    assert_eq!(ids(&world), ["eur", "usd"]);
    let call = r#"records = { at = "", format = "xml", kind = "row", id = "/rates/@day", columns = { all = "/rates/day/*/v" } }"#;
    let body = body.replace("<rates>", "<rates day=\"1\">");
    let (_, world) = landed(&body, call);
    assert_eq!(
        records(&world)[0].1["rates"]["day"]["usd"],
        json!({ "v": "1" })
    );
}

#[test]
fn ids_of_a_step_are_found_in_one_element_none_and_several() {
    let stub = StubUpstream::start(|request| match request.param("ids") {
        None => StubAnswer::text(200, &feed(&[&["a"], &[], &["b", "c"]])),
        Some(_) => StubAnswer::json(&json!([])),
    });
    let text = Api {
        call: PAPERS,
        ..Api::default()
    }
    .text()
    .replace(
        "[credentials.main]\n",
        "[upstreams.api.calls.get]\npath = \"get\"\ncost = 1\nrecords = { kind = \"author\", id = \"/id\" }\n\
        [credentials.main]\n",
    )
    .replace(
        "steps = [{ call = \"list\" }]",
        "steps = [{ call = \"list\" }, { call = \"get\", params = { ids = \"{ids}\" }, ids = { from = \"list\", at = \"/author/*/name\", batch = 9 } }]",
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.api.base_url=\"{}\"", stub.url()));
    run(&world);
    let asked = stub.requests();
    let mut sent: Vec<&str> = asked[1].param("ids").unwrap().split(',').collect();
    sent.sort_unstable();
    assert_eq!(sent, ["a", "b", "c"]);
}

#[test]
fn try_shows_one_element_and_several_alike() {
    let stub = StubUpstream::answering([StubAnswer::status(200)]);
    let world = world(&stub, PAPERS);
    let file = world.directory.path().join("saved.xml");
    std::fs::write(&file, feed(&[&["Ann"], &["Bob", "Cleo"]])).unwrap();
    let shown = world.json(&["try", "main", "list", "--answer", file.to_str().unwrap()]);
    assert_eq!(shown["records"][0]["texts"], json!(["Ann"]), "{shown}");
    assert_eq!(shown["records"][1]["texts"], json!(["Bob", "Cleo"]));
    assert_eq!(shown["records"][0]["columns"]["authors"], json!("Ann"));
}
