//! Where the lists of ids continue: the ends of their last complete lists.

use super::sql::{StoreError, Tx, values};
use super::{Catalog, CatalogError, CatalogReader, IdSince, PassId, rows};

const SINCE: &str = "select id, began, greatest, request, cursor from id_since
    where job = ?1 and call = ?2 and id = {key}";
const STORE: &str = "insert into id_since (job, call, id, began, greatest, request, cursor)
    select job, ?2, ?3, ?4, ?5, ?6, ?7 from pass where id = ?1
    on conflict (job, call, id) do update set began = excluded.began, greatest = excluded.greatest,
        request = excluded.request, cursor = excluded.cursor";
const FORGET: &str =
    "update id_since set request = null, cursor = null where job = ?1 and call = ?2 and id = ?3";
pub const STATEMENTS: &[&str] = &[SINCE, FORGET];

impl CatalogReader {
    /// Returns where the lists of these ids continue, as steps of this call request them for this job. Omits ids without a
    /// complete list.
    pub async fn id_sinces(
        &self,
        job: &str,
        call: &str,
        ids: &[String],
    ) -> Result<Vec<IdSince>, CatalogError> {
        let (job, call, ids) = (job.to_owned(), call.to_owned(), ids.to_vec());
        self.read(move |tx| {
            let rows = tx.each(SINCE, values![&job, &call], &ids)?;
            rows.iter().map(rows::id_since).collect()
        })
        .await
    }
}

impl Catalog {
    /// Deletes the cursor with which the next list of an id begins, as steps of this call request it for this job.
    pub async fn forget_lasting_of_id(
        &self,
        job: &str,
        call: &str,
        id: &str,
    ) -> Result<(), CatalogError> {
        let [job, call, id] = [job, call, id].map(str::to_owned);
        self.write(move |tx| tx.later(FORGET, values![&job, &call, &id]))
            .await
    }
}

/// Stores the end of a complete list of an id, for the job of the pass.
pub fn store(tx: &Tx<'_>, pass: PassId, call: &str, since: &IdSince) -> Result<(), StoreError> {
    let lasting = since.lasting.as_ref();
    tx.later(
        STORE,
        values![
            pass.0,
            call,
            &since.id,
            since.began,
            &since.greatest,
            lasting.map(|lasting| &lasting.request),
            lasting.map(|lasting| &lasting.cursor),
        ],
    )
}
