//! Full-text search. The index holds words only, so what needs the texts of records comes from a second index, in memory.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::Value;

use super::text_index::TextIndex;
use super::{StoreError, columns, views};
use crate::catalog::scratch::Scratch;
use crate::catalog::text::text_of;
use crate::catalog::{RANKED, SearchHit, SearchQuery, SearchResults, words};
use crate::sqlite::Interruptible;

/// A query for a record that passes the filters.
macro_rules! passing {
    ($columns:literal) => {
        concat!(
            "select ",
            $columns,
            " from record
    where number = ?1
        and (?2 is null or kind = ?2)
        and (?3 is null or last_seen >= ?3)
        and (?4 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = ?4))"
        )
    };
}

const RECORD: &str = passing!("upstream, kind, id, body, first_seen, last_seen");
const PASSES: &str = passing!("1");
pub const STATEMENTS: &[&str] = &[RECORD, PASSES, views::SHAPE, views::SHAPES];

const NEWEST: &str = "select rowid from record_text where record_text match ?1 order by rowid desc";
const BEST: &str = "select rowid from record_text where record_text match ?1 order by rank";
const COUNT: &str =
    "select count(*) from (select 1 from record_text where record_text match ?1 limit ?2)";
/// `sz` is the number of words, as a variable-length integer of SQLite.
const LENGTH: &str = "select sz from record_text_docsize where id = ?1";

/// The matches that are examined at most to find [`RANKED`] that pass the filters.
const EXAMINED: usize = 50_000;
/// A word that more records contain is common: to rank, FTS5 counts the records with each word at every search.
const COMMON: i64 = 100_000;
/// The shortest of the newest matches whose texts are compared, where the index cannot rank in time.
const COMPARED: usize = 200;

/// Returns the records that contain all words, best match first. The index should hold the changes up to `newest`.
pub fn search(
    (records, newest): (&Connection, Option<i64>),
    index: &TextIndex,
    interruptible: &Interruptible,
    query: &SearchQuery,
) -> Result<SearchResults, StoreError> {
    let words = words::queries(&query.words);
    if words.is_empty() || query.limit == 0 {
        return Ok(SearchResults::default());
    }
    let search = Search {
        records,
        query,
        all: words.join(" "),
        words,
        since: query.since.map(columns::time),
    };
    let matches = index.read((records, newest), interruptible, |index| {
        search.matches(index)
    })?;
    let mut hits = match &matches {
        Matches::Ranked(numbers) => search.hits(numbers)?,
        Matches::Shortest(numbers, _) => search.compared(numbers)?,
    };
    search.cut_excerpts(&mut hits)?;
    let only_newest = match matches {
        Matches::Shortest(_, true) => Some(RANKED),
        Matches::Shortest(_, false) | Matches::Ranked(_) => None,
    };
    Ok(SearchResults { hits, only_newest })
}

struct Search<'a> {
    records: &'a Connection,
    query: &'a SearchQuery,
    /// The FTS5 query of each word, and of all together.
    words: Vec<String>,
    all: String,
    since: Option<String>,
}

/// The numbers of records.
enum Matches {
    /// Best match first.
    Ranked(Vec<i64>),
    /// Of the newest matches those with the fewest words; and whether there are more matches than the newest.
    Shortest(Vec<i64>, bool),
}

impl Default for Matches {
    fn default() -> Self {
        Self::Ranked(Vec::new())
    }
}

impl Search<'_> {
    /// Ranks by the index where that takes a time that does not grow with the catalog.
    fn matches(&self, index: &Connection) -> rusqlite::Result<Matches> {
        let (newest, more) = self.newest(index)?;
        if !more && !self.has_common_word(index)? {
            let newest: HashSet<i64> = newest.into_iter().collect();
            let mut statement = index.prepare_cached(BEST)?;
            let numbers = statement.query_map([&self.all], |row| row.get(0))?;
            let passed =
                numbers.filter(|number| number.as_ref().map_or(true, |n| newest.contains(n)));
            let best = passed.take(self.query.limit as usize);
            return best.collect::<rusqlite::Result<_>>().map(Matches::Ranked);
        }
        let compared = COMPARED.max(self.query.limit as usize);
        shortest(index, newest, compared).map(|numbers| Matches::Shortest(numbers, more))
    }

    /// Returns the newest matches that pass the filters, newest first, and whether there may be more.
    fn newest(&self, index: &Connection) -> rusqlite::Result<(Vec<i64>, bool)> {
        let mut statement = index.prepare_cached(NEWEST)?;
        let numbers = statement.query_map([&self.all], |row| row.get(0))?;
        let mut passed = Vec::new();
        for (examined, number) in numbers.enumerate() {
            if passed.len() >= RANKED as usize || examined >= EXAMINED {
                return Ok((passed, true));
            }
            let number = number?;
            if !self.is_filtered() || self.passes(number)? {
                passed.push(number);
            }
        }
        Ok((passed, false))
    }

    const fn is_filtered(&self) -> bool {
        self.query.kind.is_some() || self.query.region.is_some() || self.query.since.is_some()
    }

    /// Whether a word of several is common. The only word of a search is in its matches alone.
    fn has_common_word(&self, index: &Connection) -> rusqlite::Result<bool> {
        if self.words.len() < 2 {
            return Ok(false);
        }
        let mut statement = index.prepare_cached(COUNT)?;
        for word in &self.words {
            let matches: i64 = statement.query_row((word, COMMON), |row| row.get(0))?;
            if matches >= COMMON {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the records of these numbers.
    fn hits(&self, numbers: &[i64]) -> rusqlite::Result<Vec<SearchHit>> {
        let found = numbers.iter().map(|number| self.hit(*number));
        found.filter_map(Result::transpose).collect()
    }

    /// Returns the best of these records by their texts.
    fn compared(&self, numbers: &[i64]) -> rusqlite::Result<Vec<SearchHit>> {
        let mut hits: Vec<Option<SearchHit>> = self.hits(numbers)?.into_iter().map(Some).collect();
        let best = self.scratch(hits.iter().flatten())?.best(&self.all)?;
        let best = best.into_iter().filter_map(|at| hits.get_mut(at)?.take());
        Ok(best.take(self.query.limit as usize).collect())
    }

    fn passes(&self, number: i64) -> rusqlite::Result<bool> {
        let filters = (number, &self.query.kind, &self.since, &self.query.region);
        self.records.prepare_cached(PASSES)?.exists(filters)
    }

    /// Returns the record of a number if it passes the filters.
    fn hit(&self, number: i64) -> rusqlite::Result<Option<SearchHit>> {
        let filters = (number, &self.query.kind, &self.since, &self.query.region);
        let mut statement = self.records.prepare_cached(RECORD)?;
        statement.query_row(filters, hit).optional()
    }

    /// An index of the texts of these records.
    fn scratch<'h>(&self, hits: impl Iterator<Item = &'h SearchHit>) -> rusqlite::Result<Scratch> {
        Scratch::new(hits.map(|hit| {
            let pointers = views::text_pointers(self.records, &hit.upstream, &hit.kind)?;
            Ok(text_of(&hit.body, &pointers))
        }))
    }

    fn cut_excerpts(&self, hits: &mut [SearchHit]) -> rusqlite::Result<()> {
        for (place, excerpt) in self.scratch(hits.iter())?.excerpts(&self.all)? {
            if let Some(hit) = hits.get_mut(place) {
                hit.excerpt = excerpt;
            }
        }
        Ok(())
    }
}

/// Returns the records with the fewest words, newer ones first where several have as many.
fn shortest(index: &Connection, numbers: Vec<i64>, most: usize) -> rusqlite::Result<Vec<i64>> {
    let mut statement = index.prepare_cached(LENGTH)?;
    let mut lengths = Vec::with_capacity(numbers.len());
    for number in numbers {
        let length: Option<Vec<u8>> = statement.query_row([number], |row| row.get(0)).optional()?;
        lengths.push((varint(&length.unwrap_or_default()), number));
    }
    // A stable sort: the numbers come newest first.
    lengths.sort_by_key(|(length, _)| *length);
    lengths.truncate(most);
    Ok(lengths.into_iter().map(|(_, number)| number).collect())
}

/// Reads the variable-length integer at the beginning: seven bits in each byte, the highest set in all but the last.
fn varint(bytes: &[u8]) -> u64 {
    let last = bytes.iter().position(|byte| byte & 0x80 == 0);
    let bytes = bytes.iter().take(last.map_or(bytes.len(), |last| last + 1));
    bytes.fold(0, |number, byte| (number << 7) | u64::from(byte & 0x7f))
}

fn hit(row: &Row<'_>) -> rusqlite::Result<SearchHit> {
    let body: String = row.get(3)?;
    Ok(SearchHit {
        upstream: row.get(0)?,
        kind: row.get(1)?,
        id: row.get(2)?,
        excerpt: String::new(),
        body: serde_json::from_str(&body).unwrap_or(Value::String(body)),
        first_seen: columns::read_time(row, 4)?,
        last_seen: columns::read_time(row, 5)?,
    })
}
