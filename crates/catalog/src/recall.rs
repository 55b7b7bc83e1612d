//! What earlier passes listed, and when ids were fetched.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::sql::{StoreError, Tx, values};
use super::{CatalogError, CatalogReader, PassId, PassListings, RecordIds, StepListing};
use ingest_quota::Timestamp;

const LISTING: &str = "select step, call, kind, id, requested is not null from listing
    where pass = {key} order by step, position";
/// How many passes one statement reads: their listings are in memory twice while it does.
const AT_ONCE: usize = 500;
const FETCHED: &str =
    "select (select last_seen from record where upstream = ?1 and kind = ?2 and id = {key} and gone_at is null),
    (select at from absent where upstream = ?1 and kind = ?2 and id = {key})";
pub const STATEMENTS: &[&str] = &[LISTING, FETCHED];

impl CatalogReader {
    /// Returns what each of these passes listed, step by step, in order.
    pub async fn listings(&self, passes: &[PassId]) -> Result<PassListings, CatalogError> {
        let passes = passes.to_vec();
        self.read(move |tx| {
            let mut listed: HashMap<PassId, Listings> = HashMap::new();
            for passes in passes.chunks(AT_ONCE) {
                listed.extend(passes.iter().map(|pass| (*pass, Listings::default())));
                for row in tx.each(LISTING, values![], passes.iter().map(|pass| pass.0))? {
                    let of_pass = passes.get(row.place).and_then(|pass| listed.get_mut(pass));
                    let (call, kind) = (row.text(1)?, row.text(2)?);
                    if let Some(listings) = of_pass {
                        let id = row.text(3)?.into();
                        listings.add(row.step(0)?, (&call, &kind), id, row.truth(4)?);
                    }
                }
            }
            let listed = listed.into_iter();
            Ok(listed
                .map(|(pass, listings)| (pass, listings.steps))
                .collect())
        })
        .await
    }

    /// Returns when these ids were last fetched, or requested and found absent. Omits ids that never were, and those of gone records.
    pub async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        if let Some(simulated) = &self.simulated {
            return Ok(simulated.last_fetched(records));
        }
        self.read(move |tx| last_fetched(tx, &records)).await
    }
}

/// A pass's listing, which is read row by row in order.
#[derive(Default)]
struct Listings {
    steps: Vec<StepListing>,
    children: HashSet<(usize, Arc<str>)>,
}

impl Listings {
    /// Adds a row. A child, which was requested by an id, has a row for each of its parents and counts once.
    fn add(&mut self, step: usize, (call, kind): (&str, &str), id: Arc<str>, is_child: bool) {
        if is_child && !self.children.insert((step, Arc::clone(&id))) {
            return;
        }
        let last = self.steps.last_mut();
        match last.filter(|last| (last.step, &*last.call, &*last.kind) == (step, call, kind)) {
            Some(last) => last.ids.push(id),
            None => self.steps.push(StepListing {
                step,
                call: call.to_owned(),
                kind: kind.to_owned(),
                ids: vec![id],
            }),
        }
    }
}

/// When ids were last fetched, or requested and found absent. Omits those that never were, and those that a list lost since.
pub fn last_fetched(
    tx: &Tx<'_>,
    records: &RecordIds,
) -> Result<Vec<(Arc<str>, Timestamp)>, StoreError> {
    let of = values![&records.upstream, &records.kind];
    let mut fetched = Vec::new();
    for row in tx.each(FETCHED, of, &records.ids)? {
        let at = row.optional_time(0)?.max(row.optional_time(1)?);
        fetched.extend(records.ids.get(row.place).cloned().zip(at));
    }
    Ok(fetched)
}
