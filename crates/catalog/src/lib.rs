//! What was fetched, and how far each region is. Each page is stored in one transaction with the cursor that continues behind
//! it, so a page that was paid for is stored once and its pass continues after it.
//!
//! A [`Catalog`] is what a run writes, a [`CatalogReader`] what previews, reports and the commands that show records read; [`Leases`]
//! keep two runs from working on one region.
//!
//! Never charges or requests anything. Begin with [`Catalog::land`] and [`Landing`]. The tests in `crates/catalog/tests/all/suite`
//! define its behaviour over both databases.

mod archive;
mod batch;
mod catalog;
mod copy;
mod either;
mod error;
mod estimates;
mod gone;
mod id_since;
mod index;
mod land;
mod landing;
mod lasting;
mod layout;
mod lease;
mod lock_files;
pub mod memory;
mod page;
mod parents;
mod pass;
mod passes;
pub mod postgres;
mod prune;
mod query;
mod recall;
mod records;
mod rows;
mod scratch;
mod search;
mod sql;
mod sqlite;
mod store;
mod tables;
mod tags;
mod text;
mod tokens;
mod values;
mod views;
mod wanted;
mod words;

use std::collections::HashMap;

use futures_util::stream::BoxStream;

pub use batch::OpenBatch;
pub use catalog::{Catalog, CatalogReader};
pub use copy::{CopiedTable, copy};
pub use error::CatalogError;
pub use gone::KeptLists;
pub use landing::{AtKnown, Landed, Landing};
pub use lease::{HeldLease, Holder, Lease, Leases, Resource, Taken};
pub use lock_files::LockFiles;
pub use pass::{
    DoubtfulPass, EndedSlice, IdSince, KnownList, LastingCursor, LastingCursors, OpenPass, PassEnd,
    PassId, PassRef, Rearrangement, RegionState, SliceState, StepPosition, UncutPass, filled,
    pages, slice_states,
};
pub use postgres::{Parameter, Postgres, PostgresError, RowLeases, Session, Transaction};
pub use query::{
    CallFacts, Estimate, NamedIds, PassRecord, PassScope, PendingId, PendingQuery, RecordIds,
    RecordsPage, RecordsQuery, SearchHit, SearchQuery, SearchResults, StepListing, StoredRecord,
};
pub use tables::{COPIED, Table};
pub use text::MARKS;

/// Records of an export, in pages that fit in memory.
pub type RecordPages = BoxStream<'static, Result<Vec<StoredRecord>, CatalogError>>;

/// The pages of each step, by the step's index, of some passes.
pub type LastPages = Vec<Vec<(usize, u64)>>;

/// What passes listed, step by step, in order.
pub type PassListings = HashMap<PassId, Vec<StepListing>>;

/// The number of newest matches that a search ranks at most.
// To rank reads every match: in a catalog of 10,000,000 records it took 11 s.
pub const RANKED: u32 = 10_000;
