//! Queries for reports: what was charged, and what for.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Result, Row};

use super::rows::{LogPosition, Rows, origin};
use crate::{Origin, Purpose, Spent};
use ingest_quota::{Account, Timestamp};

/// Returns what was charged since `from`, oldest first. Reads both tables in their order and merges them: a join would look
/// up each charge by itself.
pub fn spent(rows: Rows<'_>, account: &Account, from: Timestamp) -> Result<Vec<Spent>> {
    let mut purposes = Purposes::default();
    let charged = rows.charged(from, |row| {
        Ok((purposes.read(row)?, row.get(5)?, origin(row, 6)?))
    })?;
    let found_at = |place: LogPosition| -> (Arc<Purpose>, u32, Origin) {
        let found = charged
            .binary_search_by_key(&place, |(place, _)| *place)
            .ok()
            .and_then(|at| charged.get(at));
        found.map(|(_, found)| found.clone()).unwrap_or_default()
    };
    let mut spent = Vec::new();
    for limit in account.limits.keys() {
        for (place, units) in rows.taken_from(limit, from)? {
            let (purpose, charges, origin) = found_at(place);
            spent.push(Spent {
                at: place.at,
                limit: limit.clone(),
                units,
                charges: charges.max(1).into(),
                purpose,
                origin,
            });
        }
    }
    spent.sort_by_key(|spent| spent.at);
    Ok(spent)
}

/// The purposes, each once: thousands of charges are for a few dozen purposes.
#[derive(Default)]
pub struct Purposes {
    all: BTreeSet<Arc<Purpose>>,
    last: Arc<Purpose>,
}

impl Purposes {
    /// Reads the purpose from the columns after the place.
    pub fn read(&mut self, row: &Row<'_>) -> Result<Arc<Purpose>> {
        let (job, region, call) = (
            text(row, 2)?,
            text(row, 3)?,
            text(row, 4)?.unwrap_or_default(),
        );
        let last = &*self.last;
        if (
            last.job.as_deref(),
            last.region.as_deref(),
            last.call.as_str(),
        ) != (job, region, call)
        {
            let read = Purpose {
                job: job.map(str::to_owned),
                region: region.map(str::to_owned),
                call: call.to_owned(),
            };
            self.last = self
                .all
                .get(&read)
                .cloned()
                .unwrap_or_else(|| Arc::new(read));
            self.all.insert(Arc::clone(&self.last));
        }
        Ok(Arc::clone(&self.last))
    }
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_str()?)),
    }
}
