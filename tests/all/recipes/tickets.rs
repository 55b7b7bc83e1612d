//! Freshdesk: a list for `updated_since`, with the next page in the header `link`.

use serde_json::{Value, json};

use super::place::Place;
use super::{Answer, Recipe, Then, Units, number, span};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

pub const RECIPE: Recipe = Recipe {
    name: "tickets",
    instead: &[("https://your-account.freshdesk.com", "{stub}")],
    secret: ("FRESHDESK_KEY", "key0123456789"),
    credential: "freshdesk",
    windows: &["minute"],
    limit: "minute",
    tries: &[("tickets", None)],
    records: &[("freshdesk_ticket", 530)],
    answer,
    refuse,
    then: Then::Retries,
};

const TOTAL: usize = 530;

fn with_limits(response: StubAnswer, used: u64) -> StubAnswer {
    response
        .header("x-ratelimit-total", "1000000")
        .header("x-ratelimit-remaining", &(1_000_000 - used).to_string())
        .header("x-ratelimit-used-currentrequest", "1")
}

fn answer(request: &StubRequest, used: &Units) -> Answer {
    assert_eq!(request.path, "/api/v2/tickets");
    // `key0123456789:X` in base64.
    assert_eq!(
        request.header("authorization"),
        Some("Basic a2V5MDEyMzQ1Njc4OTpY")
    );
    assert_eq!(request.param("updated_since"), Some("2024-01-01T00:00:00Z"));
    let page = request.param("page").map_or(1, |page| number(Some(page)));
    let size = number(request.param("per_page"));
    let (span, more) = span((page - 1) * size, size, TOTAL);
    let ticket = |at: usize| {
        json!({ "id": TOTAL - at, "subject": "It does not work", "status": 2, "priority": 1, "requester_id": 2_043_012_345_678_i64,
            "created_at": "2024-02-01T10:00:00Z", "description_text": "words", "tags": ["late"],
            "updated_at": format!("2024-03-{:02}T10:00:00Z", 28 - at / 20) })
    };
    let used = used.get("minute").copied().unwrap_or(0) + 1;
    let mut response = with_limits(
        StubAnswer::json(&json!(span.map(ticket).collect::<Vec<Value>>())),
        used,
    );
    if more {
        let mut query: Vec<String> = request
            .query
            .iter()
            .filter(|(name, _)| name != "page")
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        query.push(format!("page={}", page + 1));
        let host = request.header("host").unwrap();
        response = response.header(
            "link",
            &format!(
                "<http://{host}{}?{}>;rel=\"next\"",
                request.path,
                query.join("&")
            ),
        );
    }
    Answer::one(response, &["minute"])
}

fn refuse(_: &StubRequest) -> Answer {
    let body = json!({ "message": "You have exceeded the limit of requests per minute" });
    Answer::one(
        StubAnswer::error(429, &body).header("retry-after", "1"),
        &["minute"],
    )
}

/// The recipe, whose archive is read too, and whose first list begins late.
const WITH_ARCHIVE: Recipe = Recipe {
    instead: &[
        ("https://your-account.freshdesk.com", "{stub}"),
        ("\n# [", "\n["),
        ("\n# path = ", "\npath = "),
        ("\n# cost = ", "\ncost = "),
        ("\n# params = { query", "\nparams = { query"),
        ("\n# page = ", "\npage = "),
        ("\n# records = ", "\nrecords = "),
        ("\n# credential = ", "\ncredential = "),
        ("\n# slices = ", "\nslices = "),
        ("\n# leave = ", "\nleave = "),
        ("\n# steps = ", "\nsteps = "),
        ("2020-01-01", "2024-02-01"),
        ("step = \"1d\"", "step = \"1d\", to = \"2024-02-13\""),
        ("2024-01-01T00:00:00Z", "2024-02-10T00:00:00Z"),
    ],
    ..RECIPE
};

/// 700 tickets of 12 days in an account whose lists have at most 3 pages, and whose searches have as many.
fn capped(request: &StubRequest, _: &Units) -> Answer {
    let day = |at: usize| 1 + at / 60;
    let ticket = |at: usize| {
        let time = format!("2024-02-{:02}T{:02}:00:00Z", day(at), at % 24);
        json!({ "id": at, "subject": "s", "status": 2, "priority": 1, "requester_id": 1, "created_at": time, "updated_at": time,
            "description_text": "words", "tags": [] })
    };
    let page = request.param("page").map_or(1, |page| number(Some(page)));
    let refused = json!({ "errors": [{ "field": "page", "message": "beyond the last page", "code": "invalid_value" }] });
    if page > 3 {
        return Answer::one(StubAnswer::error(400, &refused), &["minute"]);
    }
    if request.path == "/api/v2/search/tickets" {
        let query = request.param("query").unwrap();
        let asked =
            (0..700).filter(|at| query == format!("\"created_at:'2024-02-{:02}'\"", day(*at)));
        let asked: Vec<usize> = asked.collect();
        let results: Vec<Value> = asked
            .iter()
            .skip((page - 1) * 30)
            .take(30)
            .map(|at| ticket(*at))
            .collect();
        let body = json!({ "results": results, "total": asked.len() });
        return Answer::one(StubAnswer::json(&body), &["minute"]);
    }
    let since = number(request.param("updated_since").unwrap().get(8..10));
    let newest: Vec<usize> = (0..700).rev().filter(|at| day(*at) >= since).collect();
    let tickets: Vec<Value> = newest
        .iter()
        .skip((page - 1) * 100)
        .take(100)
        .map(|at| ticket(*at))
        .collect();
    let mut response = with_limits(StubAnswer::json(&json!(tickets)), 1);
    if page * 100 < newest.len() {
        let host = request.header("host").unwrap();
        let since = request.param("updated_since").unwrap();
        let next = format!(
            "<http://{host}{}?updated_since={since}&per_page=100&page={}>;rel=\"next\"",
            request.path,
            page + 1
        );
        response = response.header("link", &next);
    }
    Answer::one(response, &["minute"])
}

#[test]
fn an_account_with_more_tickets_than_a_list_has_is_read_whole_with_the_archive_and_doubted_without()
{
    let without = Place::answering(&RECIPE, capped);
    for _ in 0..2 {
        let report = without.run(&["--set=jobs.tickets.every=1us".to_owned()]);
        assert_eq!(report["passes"][0]["outcome"], "doubtful", "{report}");
        assert_eq!(report["passes"][0]["doubts"][0]["doubt"], "cut", "{report}");
    }
    let place = Place::answering(&WITH_ARCHIVE, capped);
    let report = place.run(&[]);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(place.there(), 700, "{report}");
}
