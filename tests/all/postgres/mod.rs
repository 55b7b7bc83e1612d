//! The catalog in PostgreSQL, through the binary: connections, and several machines that share one.

mod connection;
mod copying;
mod failover;
mod machines;
mod pooler;
mod tls;
