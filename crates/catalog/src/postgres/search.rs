//! Full-text search. The index of the server proposes records; FTS5 in memory decides over phrases, ranks, and cuts excerpts,
//! as it does for a catalog in a file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;

use chrono::{DateTime, Utc};
use tokio_postgres::Row;

use super::sql::{Columns, Values, as_is, parameters, stored, time};
use super::views::Layouts;
use super::words::{Matching, matching};
use super::{Parameter, PostgresError, Transaction};
use crate::scratch::Scratch;
use crate::text::text_of;
use crate::words::Word;
use crate::{RANKED, SearchHit, SearchQuery, SearchResults, words};
use ingest_base::apart::apart;
use ingest_quota::Timestamp;

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
            " and ($4 is null or record.kind = $4)
        and ($5 is null or record.last_seen >= $5)
        and ($6 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = $6)) ",
            $order
        )
    };
}

/// The newest matches that pass the filters, how many were examined, and the last of those. A row without a match says so
/// of the examined ones if none passes.
const NEWEST: &str = passing!(
    "with newest as materialized (
        select number, length from record_text where words @@ $1::text::tsquery order by number desc limit $2)
    select passed.number, passed.length, examined.number, examined.last
    from (select count(*) as number, min(number) as last from newest) as examined left join (
        select newest.number, newest.length from newest join record on record.number = newest.number where true",
    "order by newest.number desc limit $3) as passed on true order by passed.number desc"
);
/// Those of some records that match. The function, unlike the operator, uses no index.
const AMONG: &str = passing!(
    "select record.number, record_text.length
    from record_text join record on record.number = record_text.number
    where record.number = any($2) and ts_match_vq(record_text.words, $1::text::tsquery)",
    "order by record.number desc limit $3"
);
const OF_KIND: &str = "select number from record
    where (upstream, kind) in (select upstream, kind from kind where kind = $1) limit $2";
const SEEN_SINCE: &str = "select number from record
    where upstream in (select upstream from kind) and last_seen >= $1 limit $2";
const OF_REGION: &str = "select distinct record.number
    from pass join listing on listing.pass = pass.id
    join record on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where pass.region = $1 limit $2";
const WITH_WORDS: &str =
    "select number from record_text where words @@ $1::text::tsquery order by number desc limit $2";
const LAST: &str = "select number from record_text order by number desc limit $1";
const FIRST_SEEN: &str = "select first_seen from record where number >= $1 order by number limit 1";
const TEXTS: &str = "select number, upstream, kind, body from record where number = any($1)";
const HITS: &str = "select number, upstream, kind, id, body, first_seen, last_seen from record where number = any($1)";

/// A search, and what it reads from.
struct Search<'a> {
    tx: &'a Transaction<'a>,
    matching: Matching,
    kind: Option<Cow<'a, str>>,
    since: Option<DateTime<Utc>>,
    region: Option<Cow<'a, str>>,
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
pub async fn search(
    tx: &Transaction<'_>,
    query: &SearchQuery,
) -> Result<SearchResults, PostgresError> {
    let limit = query.limit as usize;
    let search = Search {
        tx,
        matching: matching(&query.words)?,
        kind: query.kind.as_deref().map(stored),
        since: query.since.map(time),
        region: query.region.as_deref().map(stored),
    };
    if search.matching.query.is_empty() || limit == 0 {
        return Ok(SearchResults::default());
    }
    let matches = search.found().await?;
    let layouts = Layouts::read(tx).await?;
    let words: Vec<Word> = words::searched(&query.words).collect();
    let all = words::query(&words);
    let mut found: Vec<(i64, String)> = Vec::new();
    for numbers in matches.numbers.chunks(COMPARED.max(limit)) {
        let texts = texts(tx, numbers, &layouts).await?;
        found.extend(ranked(&all, texts, search.matching.is_exact).await?);
        if found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(SearchResults {
        hits: hits(tx, found).await?,
        only_newest: matches.more.then_some(RANKED),
        searched_since: match matches.oldest {
            Some(oldest) => first_seen(tx, oldest).await?,
            None => None,
        },
    })
}

impl Search<'_> {
    /// Finds the newest matches, by the index if it finds them in time.
    async fn found(&self) -> Result<Matches, PostgresError> {
        let indexed = match within(self.tx, self.newest()).await? {
            Some(found) if found.oldest.is_none() => return Ok(found),
            indexed => indexed,
        };
        if let Some(few) = self.few().await? {
            return self.among(few, None).await;
        }
        match indexed {
            Some(found) => Ok(found),
            None => self.compared().await,
        }
    }

    const fn is_filtered(&self) -> bool {
        self.kind.is_some() || self.since.is_some() || self.region.is_some()
    }

    /// Finds the newest matches by the index.
    async fn newest(&self) -> Result<Matches, PostgresError> {
        let most = i64::from(RANKED) + 1;
        let is_filtered = self.is_filtered();
        let examined = if is_filtered { EXAMINED } else { most };
        let words = as_is(&self.matching.query);
        let parameters = parameters![words, examined, most, self.kind, self.since, self.region];
        let rows = self.tx.query(NEWEST, parameters).await?;
        let mut found = Matches::read(&rows)?;
        if let Some(row) = rows.first()
            && is_filtered
            && !found.more
            && row.value::<i64>(2)? >= EXAMINED
        {
            found.oldest = Some(row.value(3)?);
        }
        Ok(found)
    }

    /// Compares the words of some records, newest first.
    async fn among(
        &self,
        numbers: Vec<i64>,
        oldest: Option<i64>,
    ) -> Result<Matches, PostgresError> {
        let most = i64::from(RANKED);
        let words = as_is(&self.matching.query);
        let parameters = parameters![words, numbers, most, self.kind, self.since, self.region];
        let rows = self.tx.query(AMONG, parameters).await?;
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
    async fn compared(&self) -> Result<Matches, PostgresError> {
        let whole = as_is(&self.matching.whole);
        if self.matching.whole != self.matching.query && !whole.is_empty() {
            let parameters = parameters![whole, FEW];
            let with_words = numbers(self.tx, WITH_WORDS, parameters);
            if let Some(numbers) = within(self.tx, with_words).await? {
                let is_cut = numbers.len() as i64 >= FEW;
                let oldest = numbers.last().copied().filter(|_| is_cut);
                return self.among(numbers, oldest).await;
            }
        }
        let newest = numbers(self.tx, LAST, parameters![NEWEST_RECORDS]).await?;
        let oldest = newest.last().copied();
        self.among(newest, oldest).await
    }

    /// Returns the records that pass one of the filters, if they are few.
    async fn few(&self) -> Result<Option<Vec<i64>>, PostgresError> {
        let parameters = parameters![self.since, FEW];
        let seen_since = (self.since.is_some(), SEEN_SINCE, parameters);
        let parameters = parameters![self.region, FEW];
        let of_region = (self.region.is_some(), OF_REGION, parameters);
        let parameters = parameters![self.kind, FEW];
        let of_kind = (self.kind.is_some(), OF_KIND, parameters);
        for (is_set, sql, parameters) in [seen_since, of_region, of_kind] {
            if !is_set {
                continue;
            }
            let found = within(self.tx, numbers(self.tx, sql, parameters)).await?;
            if let Some(few) = found.filter(|numbers| (numbers.len() as i64) < FEW) {
                return Ok(Some(few));
            }
        }
        Ok(None)
    }
}

impl Matches {
    /// Rows of numbers and lengths, newest first.
    fn read(rows: &[Row]) -> Result<Self, PostgresError> {
        let mut numbers: Vec<(i64, i64)> = Vec::with_capacity(rows.len());
        for row in rows.iter().take(RANKED as usize) {
            if let Some(number) = row.value(0)? {
                numbers.push((row.value(1)?, number));
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
async fn within<T>(
    tx: &Transaction<'_>,
    part: impl Future<Output = Result<T, PostgresError>>,
) -> Result<Option<T>, PostgresError> {
    // A timeout ends the transaction only back to the savepoint.
    tx.batch("savepoint part; set local statement_timeout to '250ms'")
        .await?;
    let done = match part.await {
        Err(error) if error.is_cancelled() => None,
        done => Some(done?),
    };
    // This undoes the timeout too.
    tx.batch("rollback to savepoint part").await?;
    Ok(done)
}

async fn numbers(
    tx: &Transaction<'_>,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<i64>, PostgresError> {
    let rows = tx.query(sql, parameters).await?;
    rows.iter().map(|row| row.value(0)).collect()
}

async fn first_seen(tx: &Transaction<'_>, number: i64) -> Result<Option<Timestamp>, PostgresError> {
    let rows = tx.query(FIRST_SEEN, parameters![number]).await?;
    rows.first().map(|row| row.time(0)).transpose()
}

/// The texts of records, in their order.
async fn texts(
    tx: &Transaction<'_>,
    numbers: &[i64],
    layouts: &Layouts,
) -> Result<Vec<(i64, String)>, PostgresError> {
    let rows = tx.query(TEXTS, parameters![numbers.to_vec()]).await?;
    let mut texts: HashMap<i64, String> = HashMap::new();
    for row in rows {
        let pointers = layouts.text_pointers(&row.text(1)?, &row.text(2)?);
        let body: serde_json::Value = row.json(3)?;
        texts.insert(row.value(0)?, text_of(&body, &pointers));
    }
    let of_numbers = numbers.iter();
    Ok(of_numbers
        .filter_map(|number| Some((*number, texts.remove(number)?)))
        .collect())
}

/// Those of the texts that contain the words, best match first, with their excerpts. If the index is exact it knows better
/// than the text, which may have been indexed when other places of it were configured.
async fn ranked(
    all: &str,
    texts: Vec<(i64, String)>,
    is_exact: bool,
) -> Result<Vec<(i64, String)>, PostgresError> {
    let (numbers, texts): (Vec<i64>, Vec<String>) = texts.into_iter().unzip();
    let all = all.to_owned();
    let compared = apart(move || {
        let scratch = Scratch::new(texts.into_iter().map(Ok))?;
        let excerpts: HashMap<usize, String> = scratch.excerpts(&all)?.into_iter().collect();
        rusqlite::Result::Ok((scratch.best(&all)?, excerpts))
    });
    let unranked =
        |error: String| PostgresError::Unusable(format!("cannot rank what was found: {error}"));
    let compared = compared
        .await
        .map_err(|error| unranked(error.to_string()))?;
    let (best, mut excerpts) =
        compared.map_err(|error: rusqlite::Error| unranked(error.to_string()))?;
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

async fn hits(
    tx: &Transaction<'_>,
    found: Vec<(i64, String)>,
) -> Result<Vec<SearchHit>, PostgresError> {
    let numbers: Vec<i64> = found.iter().map(|(number, _)| *number).collect();
    let mut hits: HashMap<i64, SearchHit> = HashMap::new();
    for row in tx.query(HITS, parameters![numbers]).await? {
        hits.insert(row.value(0)?, hit(&row)?);
    }
    let found = found.into_iter();
    let with_excerpts = found.filter_map(|(number, excerpt)| {
        let hit = hits.remove(&number)?;
        Some(SearchHit { excerpt, ..hit })
    });
    Ok(with_excerpts.collect())
}

fn hit(row: &Row) -> Result<SearchHit, PostgresError> {
    Ok(SearchHit {
        upstream: row.text(1)?,
        kind: row.text(2)?,
        id: row.text(3)?,
        excerpt: String::new(),
        body: row.json(4)?,
        first_seen: row.time(5)?,
        last_seen: row.time(6)?,
    })
}
