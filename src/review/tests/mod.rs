//! The table of states of a list, row by row.

use std::path::Path;

use serde_json::Value;

use super::{Known, Onward, Review, Turn};
use ingest_base::record::Record;
use ingest_config::Config;
use ingest_upstream::{End, Page};

/// A call whose pages are counted, and have three records; `more` is added to it, and `step` to the step.
fn config(more: &str, step: &str) -> Config {
    let text = format!(
        "regions = [\"US\"]\n[upstreams.a]\nbase_url = \"https://a.example.com\"\n[upstreams.a.calls.list]\npath = \"list\"\ncost = 1\n\
         page = {{ kind = \"number\", param = \"page\", size_param = \"size\", size = 3 }}\n\
         records = {{ at = \"/rows\", kind = \"row\", id = \"/id\" }}\n{more}\n\
         [credentials.a]\nupstream = \"a\"\nlimits = {{ daily = {{ quota = 100, window = \"24h\" }} }}\n\
         [jobs.a]\ncredential = \"a\"\nsteps = [{{ call = \"list\"{step} }}]\n"
    );
    Config::parse(&text, Path::new("quotas.toml"), &[]).unwrap()
}

fn page(ids: &[u32], next: Option<&str>, end: End) -> Page {
    let record = |id: &u32| Record {
        id: id.to_string(),
        body: Value::Null,
    };
    Page {
        records: ids.iter().map(record).collect(),
        listed: ids.len() as u64,
        next: next.map(str::to_owned),
        size: Some(3),
        end,
        ..Page::default()
    }
}

fn full(first: u32) -> Page {
    page(&[first, first + 1, first + 2], Some("further"), End::Proved)
}

/// A page that is not full, behind which the upstream says nothing.
fn short(ids: &[u32]) -> Page {
    page(ids, None, End::Assumed("further".to_owned()))
}

fn empty() -> Page {
    page(&[], None, End::Proved)
}

fn with(page: Page, change: impl FnOnce(&mut Page)) -> Page {
    let mut page = page;
    change(&mut page);
    page
}

/// What follows from each page, with the doubts that it adds.
fn read(config: &Config, known: Known, last_pages: u64, pages: Vec<Page>) -> Vec<String> {
    let (job, step) = (&config.jobs[0], &config.jobs[0].steps[0]);
    let mut review = Review::new(job, step, &job.regions[0], known, last_pages);
    let mut shown = Vec::new();
    for (before, page) in pages.iter().enumerate() {
        let turn = Turn {
            before: before as u64,
            begins_at_cursor: false,
            is_named: false,
            barren: 0,
            ids: &[],
        };
        let verdict = review.see(page, turn);
        let onward = match verdict.onward {
            Onward::Next(_) => "goes on",
            Onward::Proof(_) => "asks",
            Onward::Cut => "is cut",
            Onward::End { is_proved: true } => "ends",
            Onward::End { is_proved: false } => "stops",
        };
        let doubts = verdict.said.doubts.iter().map(|one| one.doubt.as_str());
        let words: Vec<&str> = std::iter::once(onward).chain(doubts).collect();
        shown.push(words.join(" "));
    }
    shown
}

#[test]
fn a_list_is_read_on_as_the_table_of_states_says() {
    let unknown = Known::default;
    let proved = Known {
        proved: Some(2),
        ..Known::default()
    };
    let was_full = Known {
        full: Some((3, 3)),
        ..Known::default()
    };
    let told = with(
        page(&[1, 2], None, End::Said("further".to_owned())),
        |page| {
            page.unread.total = Some(("`/count`".to_owned(), 9));
        },
    );
    let cases = [
        (
            "a full page shows that its size is honoured",
            unknown(),
            0,
            vec![full(1), short(&[4])],
            "goes on, ends",
        ),
        (
            "a further page that is empty proves an end",
            unknown(),
            0,
            vec![short(&[1, 2]), empty()],
            "asks, ends",
        ),
        (
            "what another list proved needs no further page",
            proved,
            0,
            vec![short(&[1, 2])],
            "ends",
        ),
        (
            "a further page with records shows a cap",
            unknown(),
            0,
            vec![short(&[1, 2]), short(&[3]), empty()],
            "asks, goes on, ends",
        ),
        (
            "a list that is shorter than the last one is asked",
            was_full,
            2,
            vec![short(&[1, 2]), empty()],
            "asks, ends",
        ),
        (
            "an end that the page denies elsewhere is asked",
            unknown(),
            0,
            vec![told.clone(), empty()],
            "asks, ends",
        ),
        (
            "records behind such an end refute it",
            unknown(),
            0,
            vec![told, short(&[3])],
            "asks, stops end-refuted",
        ),
        (
            "a page that comes again ends the list",
            unknown(),
            0,
            vec![full(1), full(1)],
            "goes on, stops cursor-repeats",
        ),
        (
            "pages that lead back are doubtful at the second",
            unknown(),
            0,
            vec![
                page(&[1, 2, 3], Some("b"), End::Proved),
                page(&[3, 2, 9], Some("c"), End::Proved),
                page(&[9, 2, 8], Some("d"), End::Proved),
            ],
            "goes on, goes on, stops records-repeat",
        ),
        (
            "more without a next page is doubtful",
            unknown(),
            0,
            vec![page(&[1], None, End::Unnamed("more".to_owned()))],
            "stops next-unnamed",
        ),
        (
            "a part of a list is doubtful",
            unknown(),
            0,
            vec![with(full(1), |page| page.part = Some("206".to_owned()))],
            "goes on partial",
        ),
        (
            "a list elsewhere ends this one",
            unknown(),
            0,
            vec![with(empty(), |page| {
                page.elsewhere = Some("/items".to_owned())
            })],
            "stops no-records",
        ),
        (
            "a page without a list, and with names of its own, is no empty list",
            unknown(),
            0,
            vec![with(empty(), |page| {
                page.lacks_list = true;
                page.unread.names = vec!["notice".to_owned()];
            })],
            "stops no-records",
        ),
        (
            "pages in a circle end the list at the third that comes again",
            unknown(),
            0,
            vec![full(1), full(4), full(1), full(4), full(1)],
            "goes on, goes on, goes on, goes on, stops cursor-repeats",
        ),
    ];
    let config = config("", "");
    for (name, known, last_pages, pages, expected) in cases {
        let shown = read(&config, known, last_pages, pages).join(", ");
        assert_eq!(shown, expected, "{name}");
    }
}

#[test]
fn a_further_page_that_is_empty_tells_how_lists_of_the_call_end() {
    let config = config("", "");
    let (job, step) = (&config.jobs[0], &config.jobs[0].steps[0]);
    let mut review = Review::new(job, step, &job.regions[0], Known::default(), 0);
    let turn = |before| Turn {
        before,
        begins_at_cursor: false,
        is_named: false,
        barren: 0,
        ids: &[],
    };
    review.see(&short(&[1, 2]), turn(0));
    assert_eq!(review.shown().proved, None);
    assert!(review.see(&empty(), turn(1)).has_proved);
    assert_eq!(review.shown().proved, Some(2));
}

#[test]
fn a_doubt_that_is_trusted_is_a_note() {
    let config = config("trust = [\"cursor-repeats\"]", "");
    let shown = read(&config, Known::default(), 0, vec![full(1), full(1)]);
    assert_eq!(shown.join(", "), "goes on, ends");
}

#[test]
fn max_pages_cuts_a_list_and_that_is_doubtful_only_where_records_are_lost() {
    for (step, expected) in [
        (", max_pages = 1", "is cut"),
        (
            ", max_pages = 1, params = { since = \"{since}\" }",
            "is cut cut",
        ),
    ] {
        let shown = read(&config("", step), Known::default(), 0, vec![full(1)]);
        assert_eq!(shown, [expected]);
    }
}
