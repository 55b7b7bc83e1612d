//! Any history of what a run writes gives the same answers from a file and from PostgreSQL.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::TryStreamExt;
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::{Record, Tag};
use ingest_catalog::{
    Catalog, CatalogError, CatalogReader, Estimate, IdSince, Landing, OpenBatch, PassEnd, PassId,
    PassRef, PassScope, PendingQuery, Rearrangement, RecordIds, RecordsQuery, SearchQuery,
    StoredRecord,
};
use ingest_config::{IdPlace, Slice};
use ingest_quota::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime;

use super::fixture::{JOB, Page, at, daily, new_pass, pending_query, pointer, record, records_of};
use super::places::database;
use ingest_testing::postgres::PostgresServer;

const REGIONS: [&str; 3] = ["US", "G\0B", "*"];
/// Ids that a store may take for others.
const IDS: [&str; 8] = ["a", "A", "", "a\0", "\u{1A}0", "ä", "a ", "天"];
const WORDS: [&str; 12] = [
    "天気予報",
    "Crème",
    "cre\u{301}me",
    "don't",
    "x",
    "पानी",
    "NUL\0NUL",
    "naïve",
    "東京",
    "1.5",
    "ﬁn",
    "c++",
];

#[derive(Debug, Clone)]
enum Event {
    Land {
        region: usize,
        step: usize,
        slice: Option<u8>,
        records: Vec<(usize, u8)>,
        next: Option<u8>,
        odd: Odd,
    },
    /// A batch of ids is requested; these come, and a further page may follow.
    Fetch {
        ids: Vec<usize>,
        came: Vec<usize>,
        more: bool,
    },
    Restart(usize, usize),
    EndStep(usize, usize, bool),
    Rearrange(usize, bool),
    LinkParents,
    MarkGone(usize),
    Finish(usize, usize),
    Count(usize),
    /// A run leaves a pass, failed or not, with notes or without.
    Leave(usize, bool, bool),
    Learn(u8),
    ForgetTags,
    Drop(u64),
}

/// What a page has beside its records.
#[derive(Debug, Clone, Copy)]
struct Odd {
    history: bool,
    tagged: bool,
    cut: bool,
    other_columns: bool,
    greatest: Option<u8>,
}

fn odd() -> impl Strategy<Value = Odd> {
    (any::<(bool, bool, bool, bool)>(), prop::option::of(0..3_u8)).prop_map(
        |((history, tagged, cut, other_columns), greatest)| Odd {
            history,
            tagged,
            cut,
            other_columns,
            greatest,
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let records = prop::collection::vec((0..IDS.len(), 0..40_u8), 0..6);
    let ids = || prop::collection::vec(0..IDS.len(), 1..4);
    let land = (
        0..2_usize,
        0..2_usize,
        prop::option::weighted(0.1, 0..2_u8),
        records,
        prop::option::of(0..4_u8),
        odd(),
    );
    prop_oneof![
        8 => land.prop_map(|(region, step, slice, records, next, odd)| Event::Land { region, step, slice, records, next, odd }),
        3 => (ids(), ids(), any::<bool>()).prop_map(|(ids, came, more)| Event::Fetch { ids, came, more }),
        1 => (0..3_usize, 0..2_usize).prop_map(|(region, step)| Event::Restart(region, step)),
        1 => (0..3_usize, 0..2_usize, any::<bool>()).prop_map(|(region, step, cut)| Event::EndStep(region, step, cut)),
        1 => (0..3_usize, any::<bool>()).prop_map(|(region, swaps)| Event::Rearrange(region, swaps)),
        2 => Just(Event::LinkParents),
        2 => (0..2_usize).prop_map(Event::MarkGone),
        2 => (0..3_usize, 0..3_usize).prop_map(|(region, end)| Event::Finish(region, end)),
        1 => (0..3_usize).prop_map(Event::Count),
        1 => (0..3_usize, any::<bool>(), any::<bool>()).prop_map(|(region, failed, noted)| Event::Leave(region, failed, noted)),
        1 => (0..3_u8).prop_map(Event::Learn),
        1 => Just(Event::ForgetTags),
        1 => (0..20_u64).prop_map(Event::Drop),
    ]
}

/// A record that names another one, with a text of one or two words.
fn thing((id, variant): (usize, u8)) -> Record {
    let word = |n: usize| WORDS[n % WORDS.len()];
    let title = format!("{} {}", word(variant.into()), word(id));
    let body = json!({"id": IDS[id], "t": title, "names": [IDS[usize::from(variant) % IDS.len()]], "n": variant / 20});
    record(IDS[id], body)
}

struct Both {
    file: Catalog,
    shared: Catalog,
    now: u64,
    _dir: TempDir,
}

/// Asks both, and compares the answers.
macro_rules! same {
    ($both:expr, $catalog:ident => $ask:expr) => {{
        let $catalog = &$both.file;
        let file = $ask.await;
        let $catalog = &$both.shared;
        let shared = $ask.await;
        same(file, shared)
    }};
}

fn same<T: Debug + PartialEq>(
    file: Result<T, CatalogError>,
    shared: Result<T, CatalogError>,
) -> Option<T> {
    match (file, shared) {
        (Ok(file), Ok(shared)) => {
            assert_eq!(file, shared, "from the file, and from PostgreSQL");
            Some(file)
        }
        (Err(_), Err(_)) => None,
        (file, shared) => panic!("from the file: {file:?}; from PostgreSQL: {shared:?}"),
    }
}

impl Both {
    fn slice(&self, slice: Option<u8>) -> Option<Slice> {
        let day = |day: u8| at(0) + std::time::Duration::from_secs(86_400 * u64::from(day));
        slice.map(|from| Slice {
            from: day(from),
            to: day(from + 1),
        })
    }

    async fn pass(&self, region: usize, slice: Option<Slice>) -> PassRef {
        let open = self.file.open_passes(JOB).await.unwrap();
        let found = open
            .iter()
            .find(|pass| pass.region == REGIONS[region] && pass.slice == slice);
        let started_at = found.map_or(at(self.now), |open| open.started_at);
        PassRef {
            slice,
            id: found.map(|open| open.id),
            ..new_pass(REGIONS[region], started_at)
        }
    }

    async fn play(&mut self, event: &Event) {
        let now = at(self.now);
        match event {
            Event::Land {
                region,
                step,
                slice,
                records,
                next,
                odd,
            } => {
                let pass = self.pass(*region, self.slice(*slice)).await;
                let landing = self.landing((pass, *step), records, *next, *odd);
                self.land(landing).await;
            }
            Event::Fetch { ids, came, more } => self.fetch(ids, came, *more).await,
            Event::Restart(region, step) => {
                let pass = self.pass(*region, None).await;
                same!(self, catalog => catalog.restart_step(&mut pass.clone(), *step, at(0)));
            }
            Event::EndStep(region, step, cut) => {
                let pass = self.pass(*region, None).await;
                let list = listed(u64::from(*cut));
                same!(self, catalog => catalog.end_step(&mut pass.clone(), (*step, *cut), &list, &[]));
            }
            Event::Rearrange(region, swaps) => {
                let pass = self.pass(*region, None).await;
                let change = match swaps {
                    true => Rearrangement {
                        moved: vec![(0, 1), (1, 0)],
                        dropped: Vec::new(),
                    },
                    false => Rearrangement {
                        moved: vec![(1, 0)],
                        dropped: vec![0],
                    },
                };
                same!(self, catalog => catalog.rearrange(&mut pass.clone(), &change));
            }
            Event::LinkParents => {
                let pass = self.pass(2, None).await;
                let query = pending_query("/names/*", at(3));
                same!(self, catalog => catalog.link_parents(&mut pass.clone(), 1, query.clone()));
            }
            Event::MarkGone(region) => {
                let pass = self.pass(*region, None).await;
                let of = (pass.id.unwrap_or(PassId(0)), &[0, 1][..]);
                same!(self, catalog => catalog.mark_gone(&mut pass.clone(), of, now));
            }
            Event::Finish(region, end) => {
                let end = [PassEnd::Complete, PassEnd::Refused, PassEnd::Abandoned][*end];
                let pass = self.pass(*region, None).await;
                same!(self, catalog => catalog.finish(&mut pass.clone(), end, now));
            }
            Event::Count(region) => {
                let pass = self.pass(*region, None).await;
                same!(self, catalog => catalog.count_unproductive(&pass, 2, &daily(3), now));
            }
            Event::Leave(region, failed, noted) => {
                let pass = self.pass(*region, None).await;
                let notes = noted.then_some("it sent \0 and ä");
                same!(self, catalog => catalog.store_outcome(&pass, *failed, notes, now));
                same!(self, catalog => catalog.failures(at(0), 3));
            }
            Event::Learn(units) => {
                let estimate = Estimate {
                    upstream: "youtube".into(),
                    call: "c".into(),
                    cost: daily(u64::from(*units) + 1),
                };
                same!(self, catalog => catalog.learn(estimate.clone()));
            }
            Event::ForgetTags => {
                same!(self, catalog => catalog.forget_tags("youtube", "videos.list"));
            }
            Event::Drop(minutes) => {
                let since = at(self.now.saturating_sub(*minutes));
                same!(self, catalog => catalog.drop_unseen("youtube", since));
            }
        }
    }

    fn landing(
        &self,
        (pass, step): (PassRef, usize),
        records: &[(usize, u8)],
        next: Option<u8>,
        odd: Odd,
    ) -> Landing {
        let columns: &[(&str, &str)] = if odd.other_columns {
            &[("n", "/n")]
        } else {
            &[("t", "/t"), ("names", "/names/*")]
        };
        let mut kind = records_of("video", &["/t"], columns);
        kind.history = odd.history;
        let tag = Tag {
            request: format!("r{step}"),
            name: "v\0".into(),
            next: next.map(|next| next.to_string()),
        };
        let page = Page {
            pass,
            step,
            kind,
            next: next.map(|next| {
                if next == 0 {
                    "\0".to_owned()
                } else {
                    next.to_string()
                }
            }),
            tag: odd.tagged.then_some(tag),
            ..Page::of(records.iter().copied().map(thing).collect()).now(at(self.now))
        };
        Landing {
            cut: odd.cut,
            list: listed(self.now),
            removed: Vec::new(),
            lasting: None,
            greatest: odd.greatest.map(|greatest| greatest.to_string()),
            request: format!("request {step}"),
            // Without a place, the ids are read from the bodies.
            names: [pointer("/names/*").into()]
                .into_iter()
                .filter(|_| !odd.cut)
                .collect(),
            ..page.landing()
        }
    }

    async fn fetch(&mut self, ids: &[usize], came: &[usize], more: bool) {
        // No record names an empty id.
        let asked = ids.iter().map(|id| IDS[*id]).filter(|id| !id.is_empty());
        let asked: Vec<&str> = asked.collect();
        let records: Vec<&str> = came.iter().map(|id| IDS[*id]).collect();
        let page = Page {
            pass: self.pass(2, None).await,
            ..Page::channels(&asked, &records).now(at(self.now))
        };
        let mut batch = OpenBatch::new(
            1,
            asked.iter().map(|id| (*id).to_owned()).collect(),
            at(self.now),
        );
        if more {
            batch.cursors.push("on".into());
            batch.greatest = Some("g\0".into());
        }
        let since = |id: &&str| IdSince {
            id: (*id).to_owned(),
            began: at(self.now),
            greatest: came.first().map(|id| IDS[*id].to_owned()),
            lasting: None,
        };
        self.land(Landing {
            since: asked.first().filter(|_| !more).map(since),
            batch: Some(batch),
            ..page.landing()
        })
        .await;
    }

    async fn land(&mut self, landing: Landing) {
        let landing = Arc::new(landing);
        let landed = same!(self, catalog => catalog.land(Arc::clone(&landing)));
        let again = Landing {
            pass: PassRef {
                id: Some(landed.unwrap().pass),
                ..landing.pass.clone()
            },
            ..(*landing).clone()
        };
        let again = self.shared.land(Arc::new(again)).await.unwrap();
        assert_eq!(Some(again), landed, "a repeated landing is stored once");
    }

    async fn compare(&self) {
        let regions = REGIONS.map(str::to_owned);
        let now = at(self.now);
        same!(self, catalog => catalog.region_states(JOB, &regions, now));
        for known in same!(self, catalog => catalog.slices(JOB, &regions, now)).unwrap() {
            let region = &known.state.region;
            same!(self, catalog => catalog.slice(JOB, region, known.slice, now));
        }
        same!(self, catalog => catalog.last_pages(JOB, &regions, 3));
        same!(self, catalog => catalog.open_passes(JOB));
        same!(self, catalog => catalog.estimates());
        same!(self, catalog => catalog.tags("youtube"));
        same!(self, catalog => catalog.cached_page("youtube", "video", "r0"));
        let history = same!(self, catalog => catalog.history(Timestamp::from_micros(i64::MIN)));
        for pass in 1..=history.map_or(0, |history| history.len()) {
            let pass = PassId(i64::try_from(pass).unwrap());
            same!(self, catalog => catalog.listings(&[pass]));
            let scope = PassScope::Passes(vec![pass]);
            same!(self, catalog => catalog.pending_ids(PendingQuery { scope: scope.clone(), ..pending_query("/names/*", at(3)) }));
        }
        same!(self, catalog => catalog.pending_ids(pending_query("/names/*", at(3))));
        let ids = IDS.map(str::to_owned);
        for call in ["channels.list", "another"] {
            same!(self, catalog => catalog.id_sinces(JOB, call, &ids));
        }
        let ids: Vec<Arc<str>> = IDS.iter().map(|id| Arc::from(*id)).collect();
        for kind in ["video", "channel"] {
            let records = RecordIds::new("youtube", kind, &ids);
            same!(self, catalog => catalog.named_ids(records.clone(), &pointer("/names/0").into()));
            let with_values = IdPlace::new(pointer("/names/0"), vec![pointer("/names/0")]);
            same!(self, catalog => catalog.named_ids(records.clone(), &with_values));
            same!(self, catalog => sorted(catalog.last_fetched(records.clone())));
            self.compare_records(kind).await;
        }
        for word in WORDS
            .iter()
            .chain(&["天", "気", "creme", "cr*", "天気*", "nul 東"])
        {
            same!(self, catalog => found(catalog, word));
        }
    }

    async fn compare_records(&self, kind: &str) {
        let query = |region: Option<&str>, changed| RecordsQuery {
            kind: kind.to_owned(),
            region: region.map(str::to_owned),
            since: None,
            changed_since: changed,
        };
        let middle = at(self.now / 2);
        same!(self, catalog => records(catalog, query(None, None)));
        same!(self, catalog => records(catalog, query(Some(REGIONS[1]), None)));
        same!(self, catalog => records(catalog, query(None, Some(middle))));
        same!(self, catalog => records(catalog, query(None, Some(at(self.now)))));
    }
}

async fn sorted<T: Ord>(
    list: impl Future<Output = Result<Vec<T>, CatalogError>>,
) -> Result<Vec<T>, CatalogError> {
    let mut list = list.await?;
    list.sort();
    Ok(list)
}

/// The records, but for their positions: PostgreSQL leaves out numbers.
async fn records(
    catalog: &CatalogReader,
    query: RecordsQuery,
) -> Result<Vec<StoredRecord>, CatalogError> {
    let pages: Vec<Vec<StoredRecord>> = catalog.records(query).try_collect().await?;
    let records = pages.concat().into_iter();
    Ok(records
        .map(|record| StoredRecord {
            position: 0,
            ..record
        })
        .collect())
}

/// What a search finds, by id, with its excerpt.
async fn found(
    catalog: &CatalogReader,
    words: &str,
) -> Result<BTreeMap<String, (String, Value)>, CatalogError> {
    let query = SearchQuery {
        words: words.to_owned(),
        kind: None,
        region: None,
        since: None,
        limit: 99,
    };
    let hits = catalog.search(query).await?.hits.into_iter();
    Ok(hits
        .map(|hit| (format!("{} {}", hit.kind, hit.id), (hit.excerpt, hit.body)))
        .collect())
}

/// What a list showed whose records without an id are so many.
fn listed(skipped: u64) -> ListSoFar {
    ListSoFar {
        is_partial: skipped > 0,
        skipped,
        notes: vec!["a note\0 of a list".into()],
        ..ListSoFar::default()
    }
}

async fn both() -> Both {
    let dir = TempDir::new().unwrap();
    let schema = tokio::task::block_in_place(|| PostgresServer::shared().schema());
    Both {
        file: Catalog::open(&dir.path().join("catalog.db")).unwrap(),
        shared: Catalog::connect(database(&schema)).await.unwrap(),
        now: 0,
        _dir: dir,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_and_postgres_give_the_same_answers(events in prop::collection::vec(event(), 1..25)) {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut both = both().await;
            for (now, event) in (0..).zip(&events) {
                both.now = now;
                both.play(event).await;
                both.compare().await;
            }
        });
    }

    #[test]
    fn a_file_and_postgres_find_the_same_records(
        texts in prop::collection::vec("[a-cé天気東ไทย가\u{300}\u{301}'. \u{0}-]{0,12}|\\PC{0,20}", 1..20),
        asked in prop::collection::vec("[a-cé天気東ไทย가\u{301}'.-]{1,5}[*]?|\\PC{1,6}", 1..12),
    ) {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut both = both().await;
            let records = texts.iter().enumerate().map(|(n, text)| record(&n.to_string(), json!({"t": text})));
            let page = Page { kind: records_of("video", &["/t"], &[]), ..Page::of(records.collect()) };
            both.land(page.landing()).await;
            let of_texts = texts.iter().flat_map(|text| text.split_whitespace().map(str::to_owned));
            for words in asked.iter().cloned().chain(of_texts) {
                same!(both, catalog => found(catalog, &words));
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_very_long_texts_are_found_where_they_are_and_not_elsewhere() {
    let mut both = both().await;
    // Positions in a tsvector end at 16,383, and a word has 256 of them.
    let kana = "のあいうえおかきくけこ".repeat(1_900);
    let texts = [
        format!("{kana}天気"),
        format!("天{kana}気"),
        format!("{} needle hay", "straw hay ".repeat(6_000)),
        "x".repeat(60_000),
        format!("{}y", "x".repeat(60_000)),
    ];
    let records = texts
        .iter()
        .enumerate()
        .map(|(n, text)| record(&n.to_string(), json!({"t": text})));
    let page = Page {
        kind: records_of("video", &["/t"], &[]),
        ..Page::of(records.collect())
    };
    both.land(page.landing()).await;
    let ids = async |words: &str| -> Vec<String> {
        let found = same!(both, catalog => found(catalog, words)).unwrap();
        found.into_keys().collect()
    };
    assert_eq!(ids("天気").await, ["video 0"]);
    assert_eq!(ids("こ天気").await, ["video 0"]);
    assert_eq!(ids("天の").await, ["video 1"]);
    assert_eq!(ids("needle straw").await, ["video 2"]);
    // FTS5 cuts words at 32 KiB, so these are one word.
    assert_eq!(ids(&"x".repeat(60_000)).await, ["video 3", "video 4"]);
    assert_eq!(
        ids(&format!("{}*", "x".repeat(600))).await,
        ["video 3", "video 4"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_landing_that_is_repeated_begins_one_pass() {
    let both = both().await;
    let landing = Arc::new(Page::of(vec![thing((0, 0))]).next("2").landing());
    let landed = both.shared.land(Arc::clone(&landing)).await.unwrap();
    assert_eq!(both.shared.land(landing).await.unwrap(), landed);
    let open = both.shared.open_passes(JOB).await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].steps[0].cursor.as_deref(), Some("2"));
    let history = both.shared.history(at(0)).await.unwrap();
    assert_eq!((history[0].pages, history[0].requests), (1, 1));
}
