//! The catalog in a PostgreSQL database, which several machines share.

mod about;
mod connection;
mod error;
mod fence;
mod lease;
mod password;
mod route;
mod tls;

pub use about::{About, about};
pub use connection::{Parameter, Postgres, Session, Transaction};
pub use error::PostgresError;
pub use fence::{fence, fence_pass};
pub use lease::{RowLeases, TABLE as LEASE_TABLE, held};
