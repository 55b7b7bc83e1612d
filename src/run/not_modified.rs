//! Pages that did not change since they were landed, where configuration says that being told so costs nothing.

use super::context::Context;
use super::pass_stats::PassStats;
use super::request::Asker;
use super::stop_reason::StopReason;
use crate::config::{Call, Etag};
use crate::ledger::Permit;
use crate::quota::Cost;
use crate::record::CachedPage;
use crate::upstream::PageRequest;

/// What is there already of a page that is about to be asked for.
pub async fn cached_page(
    context: &Context,
    asker: Asker<'_>,
    request: PageRequest<'_>,
) -> Result<Option<CachedPage>, StopReason> {
    let (call, upstream) = (&request.step.call, &asker.job.credential.upstream);
    let (Etag::Free, Some(records)) = (call.etag, &call.records) else {
        return Ok(None);
    };
    match request.name(upstream) {
        Some(name) => Ok(context
            .catalog
            .cached_page(&upstream.name, &records.kind, &name)
            .await?),
        None => Ok(None),
    }
}

/// Gives back what an unchanged page was charged. The page is there either way: it is landed even if the ledger cannot be
/// told, and then stays charged.
pub async fn give_back(
    context: &Context,
    asker: Asker<'_>,
    call: &Call,
    permit: &Permit,
    stats: &mut PassStats,
) {
    match context
        .ledger
        .release(&asker.job.credential.account, permit)
        .await
    {
        Ok(()) => stats.settle(&call.cost, &Cost::none(), permit.metered),
        Err(error) => {
            tracing::warn!(call = call.name, %error, "cannot release the charge of a page that \
                was not modified");
        }
    }
}

/// Forgets the pages of a call: one of them led on by a cursor that is no longer taken, and would again.
pub async fn forget(context: &Context, asker: Asker<'_>, call: &Call) {
    if call.etag == Etag::Free
        && let Err(error) = context
            .catalog
            .forget_tags(&asker.job.credential.upstream.name, &call.name)
            .await
    {
        tracing::warn!(call = call.name, %error, "cannot delete cached pages with an expired cursor");
    }
}
