//! The catalog in PostgreSQL, through the binary: connections, and several machines that share one.

mod connection;
mod machines;
mod pooler;
mod tls;
