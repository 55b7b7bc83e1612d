//! Rebuilds the full-text index from the records.

use super::catalog::in_transaction;
use super::sql::{Columns, Values, parameters};
use super::views::Layouts;
use super::words::Vectors;
use super::{Postgres, PostgresError, Transaction};
use crate::page::Text;

/// Records indexed in one transaction, so that other machines can land pages in between.
const AT_ONCE: i64 = 200;

// Locked, so that no landing indexes another text of a record between the statements below.
const RECORDS: &str = "select number, upstream, kind, body from record where number > $1
    order by number limit $2 for update";
const UNINDEX: &str = "delete from record_text where number = any($1)";
const INDEX: &str = "insert into record_text (number, length, words)
    select page.number, page.length, page.words from unnest($1, $2, $3) page (number, length, words)
    order by page.number";
const REHASH: &str =
    "update record set text_hash = page.hash from unnest($1, $2) page (number, hash)
    where record.number = page.number and record.text_hash is distinct from page.hash";
const ORPHANS: &str = "delete from record_text where not exists
    (select 1 from record where record.number = record_text.number)";
const REINDEX: &str = "reindex index record_text_words";

/// Replaces the index by one of all records. Returns the number of indexed records.
pub async fn rebuild(postgres: &Postgres) -> Result<u64, PostgresError> {
    let (mut indexed, mut after) = (0_u64, 0_i64);
    loop {
        let done = in_transaction!(postgres, tx => rebuild_some(&tx, after))?;
        let Some((last, of_these)) = done else { break };
        (after, indexed) = (last, indexed + of_these);
    }
    let mut session = postgres.session().await?;
    let tx = session.begin().await?;
    // It takes as long as the catalog is large.
    tx.batch("set local statement_timeout to 0").await?;
    tx.execute(ORPHANS, &[]).await?;
    tx.batch(REINDEX).await?;
    tx.commit().await?;
    Ok(indexed)
}

/// Returns the last number, and how many of the records have text; `None` after the last record.
async fn rebuild_some(
    tx: &Transaction<'_>,
    after: i64,
) -> Result<Option<(i64, u64)>, PostgresError> {
    let rows = tx.query(RECORDS, parameters![after, AT_ONCE]).await?;
    let layouts = Layouts::read(tx).await?;
    let (mut numbers, mut hashes) = (Vec::new(), Vec::new());
    let (mut with_text, mut texts) = (Vec::new(), Vec::new());
    for row in &rows {
        let pointers = layouts.text_pointers(&row.text(1)?, &row.text(2)?);
        let text = Text::new(&row.json(3)?, &pointers);
        let number: i64 = row.value(0)?;
        numbers.push(number);
        hashes.push(text.as_ref().map(|text| text.hash));
        if let Some(text) = text {
            with_text.push(number);
            texts.push(text.parted);
        }
    }
    let Some(last) = numbers.last().copied() else {
        return Ok(None);
    };
    let Vectors { words, lengths } = Vectors::new(texts.iter().map(String::as_str))?;
    let indexed = with_text.len() as u64;
    tx.execute(UNINDEX, parameters![numbers]).await?;
    tx.execute(INDEX, parameters![with_text, lengths, words])
        .await?;
    tx.execute(REHASH, parameters![numbers, hashes]).await?;
    Ok(Some((last, indexed)))
}
