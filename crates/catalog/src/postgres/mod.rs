//! What only a catalog in a PostgreSQL database has, which several machines share: connections, the schema, leases, the views of kinds,
//! and the search.

mod about;
mod connection;
mod error;
mod lease;
mod ledgers;
mod merging;
mod password;
mod route;
mod schema;
mod search;
mod select;
mod stored;
mod tls;
mod views;
mod words;

pub use about::{About, about, server_time};
pub use connection::{Parameter, Postgres, Session, Transaction};
pub use error::PostgresError;
pub use lease::{RowLeases, TABLE as LEASE_TABLE, held};
pub use ledgers::{
    RecordedLedger, TABLE as LEDGER_TABLE, record as record_ledger, recorded as recorded_ledger,
    replace as replace_ledger,
};
pub use merging::Merging;
pub use schema::{establish, is_there};
pub use search::search;
pub use stored::{restored, stored, takes_id, time};
pub(crate) use views::refresh_views;
pub use words::{REINDEX, Vectors, index};
