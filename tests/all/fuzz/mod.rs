//! Hostile input for what the program reads: files, configuration, searches. What reads answers of upstreams and replies of
//! Redis is tried in the tests of `ingest-upstream` and `ingest-ledger`.

mod config;
mod files;
mod search;
mod templates;
