//! The catalog in PostgreSQL, through the binary: connections, and several machines that share one.

mod commits;
mod connection;
mod copying;
mod ends;
mod failover;
mod growth;
mod long_ids;
mod machines;
mod pooler;
mod roles;
mod round_trips;
mod shipped;
mod tls;
