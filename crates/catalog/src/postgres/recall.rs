//! What earlier passes listed, the ids that it names, and when those were fetched.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::Row;

use super::sql::{Columns, Values, all_stored, parameters, stored};
use super::{PostgresError, Transaction};
use crate::listings::Listings;
use crate::places::{ids_in, split};
use crate::{Listed, NamedIds, PassId, RecordIds};
use ingest_config::IdPlace;
use ingest_quota::Timestamp;

const LISTINGS: &str = "select step, call, kind, id, requested is not null, pass from listing
    where pass = any($1) order by pass, step, position";
/// How many passes one statement reads: their listings are in memory twice while it does.
const AT_ONCE: usize = 500;
// PostgreSQL cannot read a place of JSON that contains U+0000 anywhere: such a body is returned whole.
const PARTS: &str = "select number,
        case when strpos(body, '\\u0000') = 0 then (body::json #> $2)::text end,
        case when strpos(body, '\\u0000') > 0 then body end
    from record where number = any($1)";
// `offset 0` keeps each lookup by its key: a planner without statistics expects few records of a kind, and reads all of them.
const NUMBERS: &str =
    "select named.id, record.number from unnest($3) with ordinality named (id, place)
    cross join lateral (select number from record where upstream = $1 and kind = $2 and id = named.id offset 0) record
    order by named.place";
const FETCHED: &str = "select named.id, greatest(record.last_seen, absent.at)
    from unnest($3) named (id)
    left join lateral (select last_seen from record where upstream = $1 and kind = $2 and id = named.id offset 0) record on true
    left join lateral (select at from absent where upstream = $1 and kind = $2 and id = named.id offset 0) absent on true
    where record.last_seen is not null or absent.at is not null";

pub async fn listings(tx: &Transaction<'_>, passes: &[PassId]) -> Result<Listed, PostgresError> {
    let mut listed: HashMap<PassId, Listings> = HashMap::new();
    for passes in passes.chunks(AT_ONCE) {
        listed.extend(passes.iter().map(|pass| (*pass, Listings::default())));
        let ids: Vec<i64> = passes.iter().map(|pass| pass.0).collect();
        for row in tx.query(LISTINGS, parameters![ids]).await? {
            let (call, kind, id) = (row.text(1)?, row.text(2)?, row.text(3)?);
            let of_pass = listed.entry(PassId(row.value(5)?)).or_default();
            of_pass.add(row.step(0)?, (&call, &kind), id.into(), row.value(4)?);
        }
    }
    let listed = listed.into_iter();
    Ok(listed
        .map(|(pass, listings)| (pass, listings.done()))
        .collect())
}

/// The ids that stored records name at a place, by the records' numbers.
pub async fn named_by(
    tx: &Transaction<'_>,
    numbers: Vec<i64>,
    at: &IdPlace,
) -> Result<HashMap<i64, Vec<Arc<str>>>, PostgresError> {
    let mut named = HashMap::new();
    if numbers.is_empty() {
        return Ok(named);
    }
    let (members, rest) = split(at);
    // In an array PostgreSQL takes `-1` for an index, which it is not in a pointer.
    let odd = members
        .iter()
        .any(|member| member.trim().parse::<i64>().is_ok());
    let (members, rest) = match odd {
        true => (&[][..], Some(at.clone())),
        false => (members, rest),
    };
    for row in tx
        .query(PARTS, parameters![numbers, all_stored(members)])
        .await?
    {
        let (part, whole): (Option<&str>, Option<&str>) = (row.value(1)?, row.value(2)?);
        let ids = match whole {
            Some(body) => ids_in(Some(body), Some(at)),
            None => ids_in(part, rest.as_ref()),
        };
        named.insert(row.value(0)?, ids.map(Arc::from).collect());
    }
    Ok(named)
}

pub async fn named_ids(
    tx: &Transaction<'_>,
    records: &RecordIds,
    at: &IdPlace,
) -> Result<Vec<NamedIds>, PostgresError> {
    let (upstream, kind) = (stored(&records.upstream), stored(&records.kind));
    let found = tx
        .query(
            NUMBERS,
            parameters![upstream, kind, all_stored(&records.ids)],
        )
        .await?;
    let found = found.iter().map(|row| Ok((row.text(0)?, row.value(1)?)));
    let found: Vec<(String, i64)> = found.collect::<Result<_, PostgresError>>()?;
    let numbers = found.iter().map(|(_, number)| *number).collect();
    let named = named_by(tx, numbers, at).await?;
    let with_ids = found.into_iter().map(|(id, number)| {
        let ids = named.get(&number).cloned().unwrap_or_default();
        (Arc::from(id), ids)
    });
    Ok(with_ids.collect())
}

/// When ids were last fetched, or requested and found absent.
pub struct LastFetched(HashMap<String, Timestamp>);

impl LastFetched {
    pub async fn read(
        tx: &Transaction<'_>,
        upstream: &str,
        kind: &str,
        ids: &[&str],
    ) -> Result<Self, PostgresError> {
        if ids.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let ids = all_stored(ids.iter().copied());
        let rows = tx
            .query(FETCHED, parameters![stored(upstream), stored(kind), ids])
            .await?;
        let fetched = |row: &Row| Ok((row.text(0)?, row.time(1)?));
        rows.iter().map(fetched).collect::<Result<_, _>>().map(Self)
    }

    /// `None` for an id that never was.
    pub fn at(&self, id: &str) -> Option<Timestamp> {
        self.0.get(id).copied()
    }
}

pub async fn last_fetched(
    tx: &Transaction<'_>,
    records: &RecordIds,
) -> Result<Vec<(Arc<str>, Timestamp)>, PostgresError> {
    let ids: Vec<&str> = records.ids.iter().map(|id| &**id).collect();
    let fetched = LastFetched::read(tx, &records.upstream, &records.kind, &ids).await?;
    let of_ids = records.ids.iter();
    Ok(of_ids
        .filter_map(|id| Some((Arc::clone(id), fetched.at(id)?)))
        .collect())
}
