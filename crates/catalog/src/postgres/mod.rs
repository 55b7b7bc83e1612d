//! The catalog in a PostgreSQL database, which several machines share.

mod about;
mod archive;
mod before;
mod catalog;
mod connection;
mod copying;
mod error;
mod estimates;
mod fence;
mod functions;
mod gone;
mod id_since;
mod land;
mod lasting;
mod lease;
mod ledgers;
mod merging;
mod parents;
mod passes;
mod password;
mod pending;
mod prune;
mod reader;
mod rebuild;
mod recall;
mod records;
mod route;
mod schema;
mod search;
mod select;
mod sql;
mod store;
mod tags;
mod tls;
mod turns;
mod views;
mod words;

pub use about::{About, about, server_time};
pub use catalog::PostgresCatalog;
pub use connection::{Parameter, Postgres, Session, Transaction};
pub use error::PostgresError;
pub use fence::lock_pass;
pub use lease::{RowLeases, TABLE as LEASE_TABLE, held};
pub use ledgers::{
    RecordedLedger, TABLE as LEDGER_TABLE, record as record_ledger, replace as replace_ledger,
};
pub use schema::{VERSION, Version, establish};
