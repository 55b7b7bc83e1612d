//! The catalog in a PostgreSQL database, which several machines share.

mod connection;
mod error;
mod password;
mod route;
mod tls;

pub use connection::{Parameter, Postgres, Session, Transaction};
pub use error::PostgresError;
