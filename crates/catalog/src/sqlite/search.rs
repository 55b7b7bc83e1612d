//! Full-text search. What needs the whole texts of records comes from a second index, in memory.
//!
//! A search takes at most a time that does not grow with the catalog. Where the index would take longer, the texts of the
//! newest records, or of the few that pass the filters, are compared; and the result says how far the search came.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use crate::layout::Layouts;
use crate::scratch::Scratch;
use crate::sql::{Row, StoreError, Tx, values};
use crate::text::text_of;
use crate::values::clamped;
use crate::words::Word;
use crate::{RANKED, SearchHit, SearchQuery, SearchResults, search, words};
use ingest_base::clock::computed;
use ingest_sqlite::{Advance, Interruptible};

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

const RECORD: &str = passing!("upstream, kind, id, body, first_seen, last_seen, gone_at");
const PASSES: &str = passing!("1");
pub const STATEMENTS: &[&str] = &[RECORD, PASSES];

const MATCHES: &str =
    "select rowid from record_text where record_text match ?1 order by rowid desc";
const BEST: &str = "select rowid from record_text where record_text match ?1 order by rank";
/// `sz` is the number of words, as a variable-length integer of SQLite.
const LENGTH: &str = "select sz from record_text_docsize where id = ?1";

const RECORDS: &str = "select number from record where ?1 is null order by number desc";

/// The shortest of the newest matches whose texts are compared, where the index cannot rank in time.
const COMPARED: usize = 200;
/// The most records whose texts are read where the index cannot find the words in time.
const READ: usize = 2000;
/// The most bytes of them.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// The time that a search may take for the numbers of matches: they are many where it takes long.
// Together these times bound a search: a page of 1,000,000 records takes some 50 ms at the median (docs/benchmarks.md).
const TO_FIND: Duration = Duration::from_millis(40);
/// The time for each [`ADVANCE`] of them: words that hardly ever meet are given up early.
const TO_ADVANCE: Duration = Duration::from_millis(10);
const ADVANCE: usize = 256;
/// The time where filters may leave so few records that their texts are soon compared: enough for rare words.
const TO_FIND_FILTERED: Duration = Duration::from_millis(12);
/// The time for another attempt, where the first one found too little.
const TO_FIND_AGAIN: Duration = Duration::from_millis(15);
/// The time that the index may take to rank. It counts the records with each word first.
const TO_RANK: Duration = Duration::from_millis(20);
/// The time that a search may take for the records that pass a filter.
const TO_FILTER: Duration = Duration::from_millis(10);
/// The time that a search may take to read texts.
const TO_READ: Duration = Duration::from_millis(15);

/// Returns the records that contain all words, best match first.
pub fn search(
    catalog: &Connection,
    interruptible: &Interruptible,
    query: &SearchQuery,
) -> rusqlite::Result<SearchResults> {
    let words: Vec<Word> = words::searched(&query.words).collect();
    if words.is_empty() || query.limit == 0 {
        return Ok(SearchResults::default());
    }
    let whole = words.iter().filter(|word| !word.is_beginning);
    let search = Search {
        catalog,
        interruptible,
        query,
        whole: words::query(whole),
        all: words::query(&words),
        since: query.since.map(|at| clamped(at).to_string()),
    };
    search.results(search.found()?)
}

struct Search<'a> {
    catalog: &'a Connection,
    interruptible: &'a Interruptible,
    query: &'a SearchQuery,
    /// The FTS5 query of the words that are no beginnings; it can be empty.
    whole: String,
    /// The FTS5 query of all words.
    all: String,
    since: Option<String>,
}

/// The numbers of records that contain the words, or may contain them.
#[derive(Default)]
struct Matches {
    numbers: Vec<i64>,
    order: Order,
    end: SearchEnd,
}

#[derive(Default)]
enum Order {
    /// Best match first.
    #[default]
    Ranked,
    /// Newest first. They contain the words.
    Newest,
    /// Whether they contain the words, only their texts tell.
    Unread,
}

/// Where a search ended.
#[derive(Default, Clone, Copy)]
enum SearchEnd {
    /// It looked at all records.
    #[default]
    All,
    /// It found as many as it looked for; this is the number of the last.
    Enough(i64),
    /// Its time ran out. It looked at the records from this number on.
    Late(i64),
}

impl Search<'_> {
    /// Ranks by the index where that takes a time that does not grow with the catalog.
    fn found(&self) -> rusqlite::Result<Matches> {
        let mut matches = self.matches()?;
        let is_late = !matches!(matches, Some((_, SearchEnd::All | SearchEnd::Enough(_))));
        if self.is_filtered() && is_late {
            if let Some(few) = self.few()? {
                return Ok(few);
            }
            if matches
                .as_ref()
                .is_none_or(|(found, _)| found.len() < self.query.limit as usize)
            {
                matches = self.in_time(&self.all, RANKED as usize, TO_FIND_AGAIN)?;
            }
        }
        let Some((numbers, end)) = matches else {
            return self.unread();
        };
        if let SearchEnd::All = end
            && let Some(numbers) = self.best(&numbers)?
        {
            return Ok(Matches {
                numbers,
                ..Matches::default()
            });
        }
        let compared = COMPARED.max(self.query.limit as usize);
        Ok(Matches {
            numbers: shortest(self.catalog, numbers, compared)?,
            order: Order::Newest,
            end,
        })
    }

    /// Returns the newest records that match and pass the filters; `None` if the index finds none in time.
    fn matches(&self) -> rusqlite::Result<Option<(Vec<i64>, SearchEnd)>> {
        let time = match self.is_filtered() {
            true => TO_FIND_FILTERED,
            false => TO_FIND,
        };
        self.in_time(&self.all, RANKED as usize, time)
    }

    /// Returns records that may have the words: the newest that have the whole words, or the newest of all.
    fn unread(&self) -> rusqlite::Result<Matches> {
        let is_narrower = !self.whole.is_empty() && self.whole != self.all;
        let whole = match is_narrower {
            true => self.in_time(&self.whole, READ, TO_FIND_AGAIN)?,
            false => None,
        };
        let (numbers, end) = match whole {
            Some(found) => found,
            None => {
                let (advance, passed) = (Advance::default(), RefCell::default());
                self.newest(None, READ, (TO_FIND_AGAIN, &advance, &passed))?
            }
        };
        Ok(Matches {
            numbers,
            order: Order::Unread,
            end,
        })
    }

    /// Returns the newest records that match and pass the filters; `None` if none is found in time. The index looks for the next
    /// match however long it takes, so it must be interrupted.
    fn in_time(
        &self,
        words: &str,
        most: usize,
        time: Duration,
    ) -> rusqlite::Result<Option<(Vec<i64>, SearchEnd)>> {
        let passed = RefCell::default();
        let newest = |advance: &Advance| self.newest(Some(words), most, (time, advance, &passed));
        let patience = time.min(TO_ADVANCE);
        let found = self.interruptible.within(patience, self.catalog, newest)?;
        Ok(found.or_else(|| {
            let passed = passed.take();
            let last = passed.last().copied()?;
            Some((passed, SearchEnd::Late(last)))
        }))
    }

    /// Returns the newest records that match and pass the filters, newest first; those found in time are in `passed`.
    fn newest(
        &self,
        words: Option<&str>,
        most: usize,
        (time, advance, passed): (Duration, &Advance, &RefCell<Vec<i64>>),
    ) -> rusqlite::Result<(Vec<i64>, SearchEnd)> {
        passed.take();
        // Before the interrupt, so that it mostly ends with a number down to which it looked.
        let until = computed() + time * 3 / 4;
        let mut statement = self.catalog.prepare_cached(match words {
            Some(_) => MATCHES,
            None => RECORDS,
        })?;
        let numbers = statement.query_map([words], |row| row.get(0))?;
        for (examined, number) in (1..).zip(numbers) {
            let number = number?;
            if !self.is_filtered() || self.passes(number)? {
                passed.borrow_mut().push(number);
            }
            if passed.borrow().len() >= most {
                return Ok((passed.take(), SearchEnd::Enough(number)));
            }
            // Not for each: the time of a thread is a system call.
            if examined % ADVANCE == 0 {
                advance.note();
                if computed() > until {
                    return Ok((passed.take(), SearchEnd::Late(number)));
                }
            }
        }
        Ok((passed.take(), SearchEnd::All))
    }

    /// Returns the best of these matches, by the index; `None` if it cannot rank in time.
    fn best(&self, matches: &[i64]) -> rusqlite::Result<Option<Vec<i64>>> {
        let matches: HashSet<i64> = matches.iter().copied().collect();
        self.interruptible.within(TO_RANK, self.catalog, |_| {
            let mut statement = self.catalog.prepare_cached(BEST)?;
            let numbers = statement.query_map([&self.all], |row| row.get(0))?;
            let passed =
                numbers.filter(|number| number.as_ref().map_or(true, |n| matches.contains(n)));
            passed.take(self.query.limit as usize).collect()
        })
    }

    /// Returns the records that pass the filters, if they are few.
    fn few(&self) -> rusqlite::Result<Option<Matches>> {
        for (sql, of) in search::by_filter(self.query, READ as i64) {
            let numbers = self.interruptible.within(TO_FILTER, self.catalog, |_| {
                let found = search::numbers(&Tx::File(self.catalog), sql, of.clone());
                found.map_err(StoreError::into_sqlite)
            })?;
            if let Some(mut numbers) = numbers.filter(|numbers| numbers.len() < READ) {
                numbers.sort_unstable_by(|one, other| other.cmp(one));
                return Ok(Some(Matches {
                    numbers,
                    order: Order::Unread,
                    end: SearchEnd::All,
                }));
            }
        }
        Ok(None)
    }

    const fn is_filtered(&self) -> bool {
        self.query.kind.is_some() || self.query.region.is_some() || self.query.since.is_some()
    }

    fn results(&self, found: Matches) -> rusqlite::Result<SearchResults> {
        let (hits, stopped) = self.hits(&found)?;
        let mut hits = match found.order {
            Order::Ranked => hits,
            Order::Newest | Order::Unread => self.compared(hits)?,
        };
        self.cut_excerpts(&mut hits)?;
        let (only_newest, oldest) = match (stopped, found.end, found.order) {
            (Some(number), _, _)
            | (None, SearchEnd::Late(number), _)
            | (None, SearchEnd::Enough(number), Order::Unread) => (None, Some(number)),
            (None, SearchEnd::Enough(_), Order::Ranked | Order::Newest) => (Some(RANKED), None),
            (None, SearchEnd::All, _) => (None, None),
        };
        let first_seen = |number| search::first_seen(&Tx::File(self.catalog), number);
        let searched_since = oldest.map_or(Ok(None), first_seen);
        Ok(SearchResults {
            hits,
            only_newest,
            searched_since: searched_since.map_err(StoreError::into_sqlite)?,
        })
    }

    /// Reads records, as many as the time allows. Returns the number of the last of them if there are more.
    fn hits(&self, found: &Matches) -> rusqlite::Result<(Vec<SearchHit>, Option<i64>)> {
        let (until, mut bytes) = (computed() + TO_READ, 0);
        let mut hits = Vec::new();
        for number in &found.numbers {
            let Some((hit, length)) = self.hit(*number)? else {
                continue;
            };
            hits.push(hit);
            bytes += length;
            if matches!(found.order, Order::Unread) && (bytes > MOST_BYTES || computed() > until) {
                return Ok((hits, Some(*number)));
            }
        }
        Ok((hits, None))
    }

    /// Returns the best of these records by their texts: those that contain the words.
    fn compared(&self, hits: Vec<SearchHit>) -> rusqlite::Result<Vec<SearchHit>> {
        let best = self.scratch(hits.iter())?.best(&self.all)?;
        let mut hits: Vec<Option<SearchHit>> = hits.into_iter().map(Some).collect();
        let best = best.into_iter().filter_map(|at| hits.get_mut(at)?.take());
        Ok(best.take(self.query.limit as usize).collect())
    }

    fn passes(&self, number: i64) -> rusqlite::Result<bool> {
        let filters = (number, &self.query.kind, &self.since, &self.query.region);
        self.catalog.prepare_cached(PASSES)?.exists(filters)
    }

    /// Returns the record of a number if it passes the filters, and the length of its body.
    fn hit(&self, number: i64) -> rusqlite::Result<Option<(SearchHit, usize)>> {
        let filters = values![
            number,
            &self.query.kind,
            self.query.since,
            &self.query.region
        ];
        let row = Tx::File(self.catalog).first(RECORD, filters);
        let hit = |row: Row| Ok((search::hit(&row)?, row.verbatim(3)?.len()));
        row.and_then(|row| row.map(hit).transpose())
            .map_err(StoreError::into_sqlite)
    }

    /// An index of the texts of these records.
    fn scratch<'h>(&self, hits: impl Iterator<Item = &'h SearchHit>) -> rusqlite::Result<Scratch> {
        let layouts = Layouts::read(&Tx::File(self.catalog)).map_err(StoreError::into_sqlite)?;
        Scratch::new(hits.map(|hit| {
            let pointers = layouts.text_pointers(&hit.upstream, &hit.kind);
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
fn shortest(catalog: &Connection, numbers: Vec<i64>, most: usize) -> rusqlite::Result<Vec<i64>> {
    let mut statement = catalog.prepare_cached(LENGTH)?;
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
