//! What the tests of several packages need: servers that they start and end, and hostile input. Nothing of the program uses it.
//!
//! A server listens on a free port of 127.0.0.1 and ends with its value. Begin with `redis_server`; `postgres` shares one server
//! among the tests of a process and gives each a schema of its own; `stub_upstream` answers as a closure says.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::new_without_default,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr
)]

pub mod fuzz;
pub mod not_run;
pub mod parrot;
pub mod pgbouncer;
pub mod postgres;
pub mod proxy;
pub mod raw_server;
pub mod redis_server;
pub mod stub_upstream;
