//! What only a catalog in a SQLite file has: its tables, the views of kinds, and the search.

mod path;
mod schema;
mod search;
mod typed;
mod views;

/// Rebuilds the index from the words of the records.
pub const REBUILD: &str = "insert into record_text (record_text) values ('rebuild')";

pub use schema::schema;
pub use search::{STATEMENTS as SEARCH_STATEMENTS, search};
pub use views::{create_view, create_views, refresh_views};
