//! `keep`: records that no response contained for too long.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::{Context, Selection};
use crate::when::seconds;
use ingest_catalog::{CatalogError, CatalogReader, Resource, Taken};
use ingest_quota::Timestamp;

/// Records that a run deletes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deletion {
    /// The upstream that returned them.
    pub upstream: String,
    /// Their number.
    pub records: u64,
    /// The upstream's `keep`, in seconds.
    #[serde(serialize_with = "seconds")]
    pub keep: Duration,
}

/// Deletes records that were not seen again within their upstream's `keep`, and adds them to `deletions`.
pub async fn drop_unseen(
    context: &Context,
    selection: &Selection,
    deletions: &mut Vec<Deletion>,
) -> Result<(), CatalogError> {
    let now = context.clock.now();
    for (upstream, keep) in keeps(selection) {
        let resource = Resource::Retention {
            upstream: upstream.to_owned(),
        };
        // The run that holds it deletes the same records.
        let Taken::Granted(_lease) = context.leases.take(&resource).await? else {
            continue;
        };
        let records = context.catalog.drop_unseen(upstream, now - keep).await?;
        deletions.extend(deletion(upstream, records, keep));
    }
    Ok(())
}

/// Returns what a run would delete now if it met none of these records.
pub async fn unseen(
    catalog: &CatalogReader,
    selection: &Selection,
    now: Timestamp,
) -> Result<Vec<Deletion>, CatalogError> {
    let mut deletions = Vec::new();
    for (upstream, keep) in keeps(selection) {
        let records = catalog.unseen(upstream, now - keep).await?;
        deletions.extend(deletion(upstream, records, keep));
    }
    Ok(deletions)
}

/// The upstreams of a selection with a `keep`.
fn keeps(selection: &Selection) -> BTreeMap<&str, Duration> {
    let upstreams = selection.iter().map(|(job, _)| &job.credential.upstream);
    upstreams
        .filter_map(|upstream| Some((upstream.name.as_str(), upstream.keep?)))
        .collect()
}

fn deletion(upstream: &str, records: u64, keep: Duration) -> Option<Deletion> {
    (records > 0).then(|| Deletion {
        upstream: upstream.to_owned(),
        records,
        keep,
    })
}
