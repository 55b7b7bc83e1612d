//! `ingest sandbox --answers DIR`: responses that the user saved.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::world::{Ran, World};

const SHOP: &str = r#"
regions = ["US"]
[upstreams.shop]
base_url = "https://shop.example.com/v1"
auth = { bearer = true }
attempts = 1
[upstreams.shop.calls."orders.list"]
path = "orders"
cost = 1
page = { kind = "PAGING" }
records = { at = "/data", kind = "order", id = "/id", columns = { total = "/amount/total" } }
[upstreams.shop.calls."orders.get"]
path = "orders/one"
cost = 1
records = { at = "/data", kind = "detail", id = "/id" }
[credentials.shop]
upstream = "shop"
secret = { env = "YOUTUBE_API_KEY" }
limits = { daily = { quota = 100, window = "24h" } }
[jobs.orders]
credential = "shop"
steps = [{ call = "orders.list" }]
"#;

/// A shop whose orders turn their pages in this way.
fn shop(page: &str) -> World {
    World::written(&SHOP.replace("{ kind = \"PAGING\" }", page), &[])
}

const LINK: &str = "{ kind = \"link\" }";
const TOKEN: &str = r#"{ kind = "token", param = "after", next = "/next" }"#;

/// Saves a response, and returns the directory.
fn save(world: &World, name: &str, text: &str) -> String {
    let path = world.directory.path().join("answers").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let directory = world.directory.path().join("answers");
    directory.to_str().unwrap().to_owned()
}

struct Serving(Child, Value);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    fn start(world: &World, directory: &str) -> Self {
        // The sandbox has to know the upstream's own URL, since saved links lead there.
        let own = "upstreams.shop.base_url=https://shop.example.com/v1";
        let options = ["--listen", "127.0.0.1:0", "--answers", directory];
        let mut command = world.command(&["sandbox", "--set", own, "--format", "json"]);
        let command = command.args(options).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        Self(child, serde_json::from_str(&line).unwrap())
    }

    fn run(&self, world: &World) -> Ran {
        let url = self.1["base_urls"]["shop"].as_str().unwrap();
        let set = format!("upstreams.shop.base_url={url}");
        world.ingest(&["--region", "all", "--set", &set, "--format", "json"])
    }
}

fn landed(world: &World) -> Vec<String> {
    let catalog = world.catalog();
    let mut statement = catalog
        .prepare("select id from record order by id")
        .unwrap();
    let ids = statement.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

#[test]
fn the_pages_of_a_saved_list_are_served_in_their_order() {
    let world = shop(TOKEN);
    save(
        &world,
        "orders.list.1.json",
        r#"{ "data": [{ "id": "a" }], "next": "tok_2" }"#,
    );
    let directory = save(
        &world,
        "orders.list.2.json",
        r#"{ "data": [{ "id": "b" }] }"#,
    );
    let serving = Serving::start(&world, &directory);
    let ran = serving.run(&world);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(landed(&world), ["a", "b"]);
    let origins = &serving.1["responses"]["shop"];
    assert_eq!(origins["orders.list"], "saved");
    assert_eq!(origins["orders.get"], "generated");
}

#[test]
fn saved_headers_are_served_and_their_links_lead_to_the_sandbox() {
    let world = shop(LINK);
    let first = "HTTP/2 200\r\ncontent-encoding: gzip\r\nlink: <https://shop.example.com/v1/shops/7/orders?page=2>; rel=\"next\"\r\n\r\n{ \"data\": [{ \"id\": \"a\" }] }";
    save(&world, "shop/orders.list.json", first);
    let directory = save(
        &world,
        "shop/orders.list.2.json",
        r#"{ "data": [{ "id": "b" }] }"#,
    );
    let ran = Serving::start(&world, &directory).run(&world);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(landed(&world), ["a", "b"]);
}

#[test]
fn a_saved_refusal_is_served_with_its_status() {
    let world = shop(TOKEN);
    let refusal = "HTTP/1.1 403 Forbidden\r\n\r\n{ \"message\": \"No such shop.\" }";
    let directory = save(&world, "orders.list.json", refusal);
    let ran = Serving::start(&world, &directory).run(&world);
    assert_ne!(ran.code, 0);
    assert!(
        ran.stdout.contains("403 Forbidden: No such shop"),
        "{ran:?}"
    );
}

#[test]
fn a_page_that_was_not_saved_is_named() {
    let world = shop(r#"{ kind = "number", param = "page", size = 1 }"#);
    let directory = save(&world, "orders.list.json", r#"{ "data": [{ "id": "a" }] }"#);
    let ran = Serving::start(&world, &directory).run(&world);
    assert!(ran.stdout.contains("orders.list.2.json"), "{ran:?}");
}

#[test]
fn a_file_that_is_named_for_no_call_is_refused_with_what_to_do() {
    let world = shop(TOKEN);
    let directory = save(&world, "order.list.json", "{}");
    let ran = world.ingest(&[
        "sandbox",
        "--listen",
        "127.0.0.1:0",
        "--answers",
        &directory,
    ]);
    assert_eq!(ran.code, 2, "{ran:?}");
    for part in ["order.list.json is named for no call", "CALL.json"] {
        assert!(ran.stderr.contains(part), "{ran:?}");
    }
    assert!(Path::new(&directory).exists());
}

#[test]
fn the_sandbox_says_which_responses_it_generates_from_the_configuration() {
    let world = shop(TOKEN);
    let ran = world.ingest(&["--region", "all", "--sandbox"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let said = "the sandbox generates the responses of shop orders.list from the configuration";
    assert!(ran.stderr.contains(said), "{ran:?}");
    let empty = world.directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let saved = save(&world, "orders.list.json", r#"{ "data": [] }"#);
    for (directory, origin) in [
        (saved.as_str(), "saved"),
        (empty.to_str().unwrap(), "generated"),
    ] {
        let told = &Serving::start(&world, directory).1["responses"]["shop"]["orders.list"];
        assert_eq!(*told, origin);
    }
}
