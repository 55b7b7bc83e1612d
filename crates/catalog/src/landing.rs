use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{IdSince, OpenBatch, PassId, PassRef};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::{Doubted, Record, Tag};
use ingest_config::{IdPlace, Records};
use ingest_quota::{Cost, Timestamp};

/// A page to store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Landing {
    /// A number of its own, by which the catalog knows that it has the page already: the answer to its commit was lost.
    pub id: Uuid,
    /// The pass that requested it.
    pub pass: PassRef,
    /// The step's index in its job.
    pub step: usize,
    /// The upstream that returned it.
    pub upstream: String,
    /// The call that returned it.
    pub call: String,
    /// How the call's records are read. Not part of the page when that is written to a file.
    #[serde(skip)]
    pub kind: Arc<Records>,
    /// The records, in the answer's order.
    pub records: Vec<Record>,
    /// Where its records name ids that steps of the job request. Not part of the page when that is written to a file: their bodies
    /// are then read.
    #[serde(skip)]
    pub names: Vec<IdPlace>,
    /// The ids of records that the answer says were removed: they are marked as gone.
    pub removed: Vec<String>,
    /// What its step requests: its call and parameters.
    pub request: String,
    /// The cursor of the next page; `None` when the step is done.
    pub next: Option<String>,
    /// The cursor with which the next pass begins, on the last page of a list that has one.
    pub lasting: Option<String>,
    /// Whether its list can end at what is known.
    pub at_known: AtKnown,
    /// Whether `max_pages` ended a step that names `{since}`: the next pass must then not start from this one.
    pub cut: bool,
    /// What the pages of its list showed until now, this one included. The catalog adds how many different records it lists.
    pub list: ListSoFar,
    /// The greatest value seen so far, as [`ingest_config::Since::stored`] writes it; `None` where there was none.
    pub greatest: Option<String>,
    /// How many pages in a row are empty at the end of the step, this one included.
    pub empty_pages: u64,
    /// Requested ids whose fate this page decides: those without a record in it are absent. Empty in a step that lists.
    pub requested: Vec<String>,
    /// When the absent ones count as fetched; `None`: now. A time to come withholds them until then.
    pub absent_at: Option<Timestamp>,
    /// The state of its batch of ids after it; `None` in a step that lists.
    pub batch: Option<OpenBatch>,
    /// With the last page of a complete list of one id: where the next list of that id continues.
    pub since: Option<IdSince>,
    /// The doubts that it adds to the pass.
    pub doubts: Vec<Doubted>,
    /// The doubt that is added if its cursor repeats.
    pub if_repeats: Option<Doubted>,
    /// Whether a pass that it begins lists everything again.
    pub relists: bool,
    /// Requests since the pass's last landing, failed attempts included.
    pub requests: u64,
    /// Units charged for them.
    pub units: Cost,
    /// The upstream's name for the page, to request it only if it changed.
    pub tag: Option<Tag>,
    /// When it was received.
    pub now: Timestamp,
    /// The page can wait for the catalog, and begins no pass if another one walked its region meanwhile. A pass that began later
    /// than this is of a clock that ran ahead, and does not count.
    pub latest: Timestamp,
}

/// Whether a list can end at what is known: the newest records come first, so behind a page of which nothing changed, nothing did.
///
/// A record is known if the last pass that tells about it returned it with the same body. A pass of the same job and region tells
/// about its list if it is complete and not cut: it read the list from the first page to its end, or to what the passes before it
/// knew, so nothing can be between its pages and theirs. What other passes stored tells nothing: one that stopped half-way, was
/// abandoned or is doubtful, and another list that has the same record, can have a record whose neighbours nobody read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AtKnown {
    /// It is read to its end, whatever is known.
    #[default]
    Ignore,
    /// This page does not end it. The catalog remembers the records for the passes behind it.
    ReadOn,
    /// So it does, and the page ends the list if it leads on and all of its records are known.
    Stop,
}

impl Landing {
    /// Returns what its list showed, which has this many different records now. What is behind a page that is known is not part of the
    /// list.
    pub(crate) fn list_with(&self, listed: u64, is_known: bool) -> ListSoFar {
        ListSoFar {
            listed,
            is_known,
            is_partial: self.list.is_partial || is_known,
            ..self.list.clone()
        }
    }

    /// Whether the page ends its list if all of its records are known. An empty page shows nothing.
    pub(crate) fn can_stop(&self) -> bool {
        self.at_known == AtKnown::Stop && self.next.is_some() && !self.records.is_empty()
    }
}

/// A stored page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landed {
    /// Its pass, which is in the catalog from now on.
    pub pass: PassId,
    /// Whether this step of this pass had `next` before, and the page lists nothing new. The step is then done: its cursors
    /// form a loop, or the upstream has one cursor for the whole list, which ends at an empty page.
    pub cursor_repeats: bool,
    /// Whether all of its records are known, which ended the step as [`AtKnown::Stop`] says.
    pub is_known: bool,
    /// The different records that this step of this pass lists now.
    pub listed: u64,
    /// The writes on its pass until this one.
    pub number: i64,
    /// Whether its pass was lost to another run, or by the catalog: the new records and the counts are stored, but neither the listing
    /// nor the cursor, and the page may be requested again.
    pub is_lost: bool,
}
