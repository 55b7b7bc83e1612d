//! Full-text search. The index of the server proposes records; FTS5 in memory decides over phrases, ranks, and cuts excerpts,
//! as it does for a catalog in a file.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::sql::{Columns, parameters, plain, stored, time};
use super::views::Layouts;
use super::words::{Matching, matching};
use super::{PostgresError, Transaction};
use crate::apart::apart;
use crate::catalog::scratch::Scratch;
use crate::catalog::text::text_of;
use crate::catalog::{RANKED, SearchHit, SearchQuery, SearchResults, words};

/// The matches that are examined at most to find [`RANKED`] that pass the filters.
const EXAMINED: i64 = 50_000;
/// The shortest of the newest matches whose texts are compared.
const COMPARED: usize = 200;

/// The newest matches that pass the filters, and how many were examined.
const NEWEST: &str = "with newest as materialized (
        select number, length from record_text where words @@ $1::text::tsquery order by number desc limit $2)
    select newest.number, newest.length, (select count(*) from newest)
    from newest join record on record.number = newest.number
    where ($4 is null or record.kind = $4)
        and ($5 is null or record.last_seen >= $5)
        and ($6 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = $6))
    order by newest.number desc limit $3";
const TEXTS: &str = "select number, upstream, kind, body from record where number = any($1)";
const HITS: &str = "select number, upstream, kind, id, body, first_seen, last_seen from record where number = any($1)";

/// The records that contain all words, best match first. Of many matches the shortest texts are compared, until enough
/// contain the words.
pub async fn search(
    tx: &Transaction<'_>,
    query: &SearchQuery,
) -> Result<SearchResults, PostgresError> {
    let limit = query.limit as usize;
    let matching = matching(&query.words)?;
    if matching.query.is_empty() || limit == 0 {
        return Ok(SearchResults::default());
    }
    let (newest, more) = newest(tx, query, &matching).await?;
    let layouts = Layouts::read(tx).await?;
    let all = words::queries(&query.words).join(" ");
    let mut found: Vec<(i64, String)> = Vec::new();
    for numbers in newest.chunks(COMPARED.max(limit)) {
        let texts = texts(tx, numbers, &layouts).await?;
        found.extend(ranked(&all, texts, matching.is_exact).await?);
        if found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    Ok(SearchResults {
        hits: hits(tx, found).await?,
        only_newest: more.then_some(RANKED),
    })
}

/// Returns the newest matches, those with the fewest words first, and whether there may be more.
async fn newest(
    tx: &Transaction<'_>,
    query: &SearchQuery,
    matching: &Matching,
) -> Result<(Vec<i64>, bool), PostgresError> {
    let kind = query.kind.as_deref().map(stored);
    let (since, region) = (query.since.map(time), query.region.as_deref().map(stored));
    let most = i64::from(RANKED) + 1;
    let is_filtered = kind.is_some() || since.is_some() || region.is_some();
    let examined = if is_filtered { EXAMINED } else { most };
    let words = plain(&matching.query);
    let rows = tx
        .query(
            NEWEST,
            parameters![words, examined, most, kind, since, region],
        )
        .await?;
    let mut more = rows.len() > RANKED as usize;
    let mut newest: Vec<(i64, i64)> = Vec::with_capacity(rows.len());
    for row in rows.iter().take(RANKED as usize) {
        newest.push((row.value(1)?, row.value(0)?));
        more |= is_filtered && row.value::<i64>(2)? >= EXAMINED;
    }
    // A stable sort: the numbers come newest first.
    newest.sort_by_key(|(length, _)| *length);
    Ok((newest.into_iter().map(|(_, number)| number).collect(), more))
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
