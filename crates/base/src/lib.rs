//! Small things that every layer above the domain uses: the clock, private files, hashes, safe text, records.

pub mod apart;
pub mod clock;
pub mod fnv;
pub mod plain;
pub mod private;
pub mod record;
pub mod saved_response;
