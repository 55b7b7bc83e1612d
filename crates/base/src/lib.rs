//! What every layer above the domain uses: the clock, private files, bounded reads, work apart from async threads, text that is safe to print,
//! records. Knows no configuration and no store.

pub mod apart;
pub mod bounded;
pub mod clock;
pub mod fnv;
pub mod list_so_far;
pub mod plain;
pub mod private;
pub mod record;
pub mod saved_response;
