//! Lists that name everything once, and from then on what changed: what such an API holds, and what its recipe must do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::place::Place;
use super::{Answer, Recipe};
use ingest_testing::stub_upstream::{StubAnswer, StubRequest};

/// What happened at an API, in order: a thing was written, or removed.
pub struct Feed {
    changes: Vec<(usize, bool)>,
    /// Cursors before this one are too old.
    oldest: usize,
}

/// A page of a feed, and where its next page and the next pass begin: exactly one of them.
pub struct FeedPage {
    /// Things, and whether they are there.
    pub things: Vec<(usize, bool)>,
    pub next: Option<String>,
    pub end: Option<String>,
}

impl Feed {
    /// A feed in which `total` things were written.
    pub fn of(total: usize) -> Self {
        Self {
            changes: (0..total).map(|thing| (thing, true)).collect(),
            oldest: 0,
        }
    }

    /// The page at a cursor, or at the beginning. A cursor is the number of changes behind which its pass lists, and how many
    /// things of the pass came already. `None`: it is too old.
    pub fn page(&self, cursor: Option<&str>, size: usize) -> Option<FeedPage> {
        let (from, came) = match cursor {
            None => (None, 0),
            Some(cursor) => {
                let (from, came) = cursor.split_once('_').unwrap();
                (from.parse::<usize>().ok(), came.parse().unwrap())
            }
        };
        if from.is_some_and(|from| from < self.oldest) {
            return None;
        }
        // The last of a thing's changes holds.
        let changed = self.changes.iter().skip(from.unwrap_or(0)).copied();
        let changed: BTreeMap<usize, bool> = changed.collect();
        let listed = changed
            .into_iter()
            .filter(|(_, is_there)| *is_there || from.is_some());
        let things: Vec<(usize, bool)> = listed.collect();
        let goes_on = came + size < things.len();
        let from = from.map_or("all".to_owned(), |from| from.to_string());
        Some(FeedPage {
            next: goes_on.then(|| format!("{from}_{}", came + size)),
            end: (!goes_on).then(|| format!("{}_0", self.changes.len())),
            things: things.into_iter().skip(came).take(size).collect(),
        })
    }
}

/// Answers a request with the page of a feed, as an API does.
pub type Respond = fn(&StubRequest, &Feed) -> StubAnswer;

/// Lists everything, then what changed; everything again where the cursor is too old; and goes on from there.
pub fn lists_what_changed(of: &Recipe, job: &str, respond: Respond) {
    let total = 3;
    let feed = Arc::new(Mutex::new(Feed::of(total)));
    let place = Place::answering(of, {
        let feed = Arc::clone(&feed);
        move |request, _| Answer::free(respond(request, &feed.lock().unwrap()))
    });
    let run = || {
        let report = place.run(&[format!("--set=jobs.{job}.every=1ms")]);
        assert_eq!(super::outcome(&report), "complete", "{report}");
        let pass = &report["passes"][0];
        let sum = |name: &str| pass[name].as_u64().unwrap();
        (sum("requests"), sum("records"), pass["detail"].clone())
    };
    let all = run();
    assert_eq!((all.1, all.2), (3, Value::Null));
    let status = place.json(&["status"]);
    assert!(
        status["regions"][0]["begins_at_cursor"].is_array(),
        "{status}"
    );
    assert_eq!(run(), (1, 0, Value::Null), "nothing changed");
    let regions = place.there() / 3;
    feed.lock().unwrap().changes.extend([(1, false), (3, true)]);
    assert_eq!(
        run(),
        (1, 1, Value::Null),
        "one was removed, and one written"
    );
    assert_eq!(place.there(), 3 * regions);
    {
        let mut feed = feed.lock().unwrap();
        feed.changes.push((4, true));
        feed.oldest = feed.changes.len();
    }
    let (requests, records, detail) = run();
    assert_eq!((requests, records), (2, 4), "{detail}");
    assert!(
        detail.to_string().contains("everything is listed again"),
        "{detail}"
    );
    assert_eq!(place.there(), 4 * regions);
    assert_eq!(run(), (1, 0, Value::Null), "it goes on from there");
}
