//! Full-text search. The index of the server proposes records; FTS5 in memory decides over phrases, ranks, and cuts excerpts,
//! as it does for a catalog in a file.

use std::collections::HashMap;

use super::words::{Matching, matching};
use crate::layout::Layouts;
use crate::scratch::Scratch;
use crate::search::{by_filter, first_seen, hit, numbers};
use crate::sql::{Row, StoreError, Tx, Value, values};
use crate::text::text_of;
use crate::words::Word;
use crate::{RANKED, SearchHit, SearchQuery, SearchResults, words};

/// The matches that are examined at most to find [`RANKED`] that pass the filters.
const EXAMINED: i64 = 50_000;
/// The shortest of the newest matches whose texts are compared.
const COMPARED: usize = 200;
/// The most records that pass a filter, or contain the whole words of a search, whose words are compared one by one.
const FEW: i64 = 2000;
/// The newest records whose words are compared one by one where nothing else is found in time.
const NEWEST_RECORDS: i64 = 10_000;

/// The records that pass the filters.
macro_rules! passing {
    ($select:literal, $order:literal) => {
        concat!(
            $select,
            " and (?4 is null or record.kind = ?4)
        and (?5 is null or record.last_seen >= ?5)
        and (?6 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = ?6)) ",
            $order
        )
    };
}

/// The newest matches that pass the filters, how many were examined, and the last of those. A row without a match says so
/// of the examined ones if none passes.
const NEWEST: &str = passing!(
    "with newest as materialized (
        select number, length from record_text where words @@ ?1::text::tsquery order by number desc limit ?2)
    select passed.number, passed.length, examined.number, examined.last
    from (select count(*) as number, min(number) as last from newest) as examined left join (
        select newest.number, newest.length from newest join record on record.number = newest.number where true",
    "order by newest.number desc limit ?3) as passed on true order by passed.number desc"
);
/// Those of some records that match. The function, unlike the operator, uses no index.
const AMONG: &str = passing!(
    "select record.number, record_text.length
    from record_text join record on record.number = record_text.number
    where record.number = any(?2) and ts_match_vq(record_text.words, ?1::text::tsquery)",
    "order by record.number desc limit ?3"
);
const WITH_WORDS: &str =
    "select number from record_text where words @@ ?1::text::tsquery order by number desc limit ?2";
const LAST: &str = "select number from record_text order by number desc limit ?1";
const TEXTS: &str = "select number, upstream, kind, body from record where number = any(?1)";
const HITS: &str = "select upstream, kind, id, body, first_seen, last_seen, gone_at, number from record where number = any(?1)";

/// A search, and what it reads from.
struct Search<'a> {
    tx: &'a Tx<'a>,
    matching: Matching,
    query: &'a SearchQuery,
}

/// Records that match and pass the filters.
struct Matches {
    /// Those with the fewest words first.
    numbers: Vec<i64>,
    /// Whether there are more than the newest [`RANKED`].
    more: bool,
    /// The oldest record that was looked at, if not all were.
    oldest: Option<i64>,
}

/// The records that contain all words, best match first. Of many matches the shortest texts are compared, until enough
/// contain the words. Where the server does not find the matches in time, the result says how far the search came.
pub fn search(tx: &Tx<'_>, query: &SearchQuery) -> Result<SearchResults, StoreError> {
    let limit = query.limit as usize;
    let search = Search {
        tx,
        matching: matching(&query.words)?,
        query,
    };
    if search.matching.query.is_empty() || limit == 0 {
        return Ok(SearchResults::default());
    }
    let matches = search.found()?;
    let layouts = Layouts::read(tx)?;
    let words: Vec<Word> = words::searched(&query.words).collect();
    let all = words::query(&words);
    let mut found: Vec<(i64, String)> = Vec::new();
    for numbers in matches.numbers.chunks(COMPARED.max(limit)) {
        let texts = texts(tx, numbers, &layouts)?;
        found.extend(ranked(&all, texts, search.matching.is_exact)?);
        if found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(SearchResults {
        hits: hits(tx, found)?,
        only_newest: matches.more.then_some(RANKED),
        searched_since: match matches.oldest {
            Some(oldest) => first_seen(tx, oldest)?,
            None => None,
        },
    })
}

impl Search<'_> {
    /// Finds the newest matches, by the index if it finds them in time.
    fn found(&self) -> Result<Matches, StoreError> {
        let indexed = match within(self.tx, || self.newest())? {
            Some(found) if found.oldest.is_none() => return Ok(found),
            indexed => indexed,
        };
        if let Some(few) = self.few()? {
            return self.among(few, None);
        }
        match indexed {
            Some(found) => Ok(found),
            None => self.compared(),
        }
    }

    const fn is_filtered(&self) -> bool {
        self.query.kind.is_some() || self.query.since.is_some() || self.query.region.is_some()
    }

    /// The values of a statement that finds matches which pass the filters.
    fn filtered<'v>(&'v self, of: Value<'v>, most: i64) -> Vec<Value<'v>> {
        let SearchQuery {
            kind,
            region,
            since,
            ..
        } = self.query;
        let mut all = values![&self.matching.query];
        all.push(of);
        all.extend(values![most, kind, *since, region]);
        all
    }

    /// Finds the newest matches by the index.
    fn newest(&self) -> Result<Matches, StoreError> {
        let most = i64::from(RANKED) + 1;
        let is_filtered = self.is_filtered();
        let examined = if is_filtered { EXAMINED } else { most };
        let rows = self
            .tx
            .query(NEWEST, self.filtered(examined.into(), most))?;
        let mut found = Matches::read(&rows)?;
        if let Some(row) = rows.first()
            && is_filtered
            && !found.more
            && row.integer(2)? >= EXAMINED
        {
            found.oldest = Some(row.integer(3)?);
        }
        Ok(found)
    }

    /// Compares the words of some records, newest first.
    fn among(&self, numbers: Vec<i64>, oldest: Option<i64>) -> Result<Matches, StoreError> {
        let most = i64::from(RANKED);
        let rows = self.tx.query(AMONG, self.filtered(numbers.into(), most))?;
        let found = Matches::read(&rows)?;
        // As many as are ranked of all the newest records: then these are the newest matches.
        let more = found.numbers.len() >= RANKED as usize;
        Ok(Matches {
            oldest: oldest.filter(|_| !more),
            more,
            ..found
        })
    }

    /// Compares the words of the newest records, or of those that contain the whole words of the search.
    fn compared(&self) -> Result<Matches, StoreError> {
        let whole = &self.matching.whole;
        if *whole != self.matching.query && !whole.is_empty() {
            let with_words = || numbers(self.tx, WITH_WORDS, values![whole, FEW]);
            if let Some(numbers) = within(self.tx, with_words)? {
                let is_cut = numbers.len() as i64 >= FEW;
                let oldest = numbers.last().copied().filter(|_| is_cut);
                return self.among(numbers, oldest);
            }
        }
        let newest = numbers(self.tx, LAST, values![NEWEST_RECORDS])?;
        let oldest = newest.last().copied();
        self.among(newest, oldest)
    }

    /// Returns the records that pass one of the filters, if they are few.
    fn few(&self) -> Result<Option<Vec<i64>>, StoreError> {
        for (sql, of) in by_filter(self.query, FEW) {
            let found = within(self.tx, || numbers(self.tx, sql, of.clone()))?;
            if let Some(few) = found.filter(|numbers| (numbers.len() as i64) < FEW) {
                return Ok(Some(few));
            }
        }
        Ok(None)
    }
}

impl Matches {
    /// Rows of numbers and lengths, newest first.
    fn read(rows: &[Row]) -> Result<Self, StoreError> {
        let mut numbers: Vec<(i64, i64)> = Vec::with_capacity(rows.len());
        for row in rows.iter().take(RANKED as usize) {
            if let Some(number) = row.optional_integer(0)? {
                numbers.push((row.integer(1)?, number));
            }
        }
        // A stable sort: the numbers come newest first.
        numbers.sort_by_key(|(length, _)| *length);
        Ok(Self {
            numbers: numbers.into_iter().map(|(_, number)| number).collect(),
            more: rows.len() > RANKED as usize,
            oldest: None,
        })
    }
}

/// Does a part of a search; `None` if the server needs too long for it.
fn within<T>(
    tx: &Tx<'_>,
    part: impl FnOnce() -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    // A timeout ends the transaction only back to the savepoint.
    tx.batch("savepoint part; set local statement_timeout to '250ms'")?;
    let done = match part() {
        Err(StoreError::Postgres(error)) if error.is_cancelled() => None,
        done => Some(done?),
    };
    // This undoes the timeout too.
    tx.batch("rollback to savepoint part")?;
    Ok(done)
}

/// The texts of records, in their order.
fn texts(
    tx: &Tx<'_>,
    numbers: &[i64],
    layouts: &Layouts,
) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = tx.query(TEXTS, values![numbers.to_vec()])?;
    let mut texts: HashMap<i64, String> = HashMap::new();
    for row in rows {
        let pointers = layouts.text_pointers(&row.text(1)?, &row.text(2)?);
        let body: serde_json::Value = row.json(3)?;
        texts.insert(row.integer(0)?, text_of(&body, &pointers));
    }
    let of_numbers = numbers.iter();
    Ok(of_numbers
        .filter_map(|number| Some((*number, texts.remove(number)?)))
        .collect())
}

/// Those of the texts that contain the words, best match first, with their excerpts. If the index is exact it knows better
/// than the text, which may have been indexed when other places of it were configured.
fn ranked(
    all: &str,
    texts: Vec<(i64, String)>,
    is_exact: bool,
) -> Result<Vec<(i64, String)>, StoreError> {
    let (numbers, texts): (Vec<i64>, Vec<String>) = texts.into_iter().unzip();
    let scratch = Scratch::new(texts.into_iter().map(Ok))?;
    let mut excerpts: HashMap<usize, String> = scratch.excerpts(all)?.into_iter().collect();
    let best = scratch.best(all)?;
    let mut others: Vec<Option<i64>> = numbers.into_iter().map(Some).collect();
    let mut ranked = Vec::new();
    for place in best {
        let number = others.get_mut(place).and_then(Option::take);
        let excerpt = excerpts.remove(&place).unwrap_or_default();
        ranked.extend(number.map(|number| (number, excerpt)));
    }
    if is_exact {
        ranked.extend(
            others
                .into_iter()
                .flatten()
                .map(|number| (number, String::new())),
        );
    }
    Ok(ranked)
}

fn hits(tx: &Tx<'_>, found: Vec<(i64, String)>) -> Result<Vec<SearchHit>, StoreError> {
    let numbers: Vec<i64> = found.iter().map(|(number, _)| *number).collect();
    let mut hits: HashMap<i64, SearchHit> = HashMap::new();
    for row in tx.query(HITS, values![numbers])? {
        hits.insert(row.integer(7)?, hit(&row)?);
    }
    let found = found.into_iter();
    let with_excerpts = found.filter_map(|(number, excerpt)| {
        let hit = hits.remove(&number)?;
        Some(SearchHit { excerpt, ..hit })
    });
    Ok(with_excerpts.collect())
}
