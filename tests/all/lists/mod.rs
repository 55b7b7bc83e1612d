//! Generated upstreams: how a list is paged, what is right and wrong in its configuration, and how both change. What the upstream
//! holds decides: either every record that it held for the whole pass is landed, or the pass is not complete; nothing that it
//! still has is ever marked as gone; `{since}` passes over no record; and the requests are the fewest that prove the end.
//!
//! Left out is what no reader can see, so that no check can hold: records that a list with counted pages and no total loses while it is
//! read move others to pages that were read already; a list of one page that later has more than the upstream lets a page have, since what is
//! kept of a call says that its lists end there (a further request for each pass would be the only remedy); and a next page that gets
//! an unusual name in a call that never had one under the configured name, which looks like any other member.
//!
//! Each upstream is a function of its seed. `INGEST_LISTS` sets how many a test generates, `INGEST_LISTS_SEED` the first seed;
//! with `INGEST_LISTS_SURVEY=1` all seeds that fail are listed with why.

mod cases;
mod economy;
mod identities;
mod known_feeds;
mod life;
mod moves;
mod plan;
mod server;
mod stand_in;

use crate::support::seeds::Variables;

const VARIABLES: Variables = Variables {
    count: "INGEST_LISTS",
    seed: "INGEST_LISTS_SEED",
    survey: "INGEST_LISTS_SURVEY",
};
/// How many upstreams a test generates unless it is told otherwise.
const UPSTREAMS: u64 = 30;

#[test]
fn a_list_lands_whole_with_the_fewest_requests_or_its_pass_is_not_complete() {
    VARIABLES.live(UPSTREAMS, &plan::worlds(), life::live);
}
