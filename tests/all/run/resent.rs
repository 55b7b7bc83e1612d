//! Parameters that are sent with every page, also where the next page's URL lacks them.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// A timeline from the newest status, 20, on: two to a page, down to `since_id`, which the next page's URL lacks.
fn timeline(request: &StubRequest) -> StubAnswer {
    let number = |name: &str| {
        request
            .param(name)
            .and_then(|text| text.parse::<u64>().ok())
    };
    let newest = number("max_id").unwrap_or(21);
    let first = number("since_id").unwrap_or(0) + 1;
    let page: Vec<u64> = (first..newest).rev().take(2).collect();
    let items: Vec<Value> = page.iter().map(|id| json!({ "id": id })).collect();
    let last = page.last().copied().unwrap_or_default();
    let next = format!("/statuses?max_id={last}&tag=from%20the%20url");
    let answer = StubAnswer::json(&json!({ "items": items, "next": (last > 0).then_some(&next) }));
    match last {
        0 => answer,
        _ => answer.header("link", &format!("<{next}>; rel=\"next\"")),
    }
}

fn world(stub: &StubUpstream, page: &str) -> World {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.posts]\nbase_url = \"https://posts.example.com\"\n\
         [upstreams.posts.calls.list]\npath = \"statuses\"\ncost = 1\nparams = {{ tag = \"a b\" }}\npage = {page}\n\
         records = {{ at = \"/items\", kind = \"status\", id = \"/id\" }}\n\
         [jobs.posts]\ncredential = \"posts\"\n\
         steps = [{{ call = \"list\", params = {{ since_id = \"15\" }} }}]\n\
         [credentials.posts]\nupstream = \"posts\"\nlimits = {{ daily = {{ quota = 1_000, window = \"24h\" }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.posts.base_url=\"{}\"", stub.url()));
    world
}

#[test]
fn a_declared_parameter_is_sent_with_every_page_and_keeps_the_value_of_its_url() {
    for page in [
        r#"{ kind = "link", size = 2, resend = ["since_id", "tag"] }"#,
        r#"{ kind = "next_url", next = "/next", size = 2, resend = ["since_id", "tag"] }"#,
    ] {
        let stub = StubUpstream::start(timeline);
        let report = world(&stub, page).json(&["--region", "US"]);
        assert_eq!(report["passes"][0]["records"], 5, "{report}");
        let sent: Vec<_> = stub.requests().into_iter().map(|one| one.query).collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let first = vec![pair("since_id", "15"), pair("tag", "a b")];
        assert_eq!(sent.first(), Some(&first));
        for (query, last) in sent.iter().skip(1).zip(["19", "17", "16"]) {
            let of_the_url = [pair("max_id", last), pair("tag", "from the url")];
            assert_eq!(*query, [&of_the_url[..], &first[..1]].concat());
        }
    }
}

#[test]
fn a_parameter_that_no_step_sends_cannot_be_sent_with_every_page() {
    let stub = StubUpstream::start(timeline);
    let mut world = world(&stub, r#"{ kind = "link", size = 2, resend = "since_id" }"#);
    let checked = world.ingest(&["check", "--config-only"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    world.set("upstreams.posts.calls.list.page.resend=[\"sinceid\"]");
    let checked = world.ingest(&["check", "--config-only"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    assert!(
        checked.stderr.contains("did you mean since_id?"),
        "{checked:?}"
    );
}
