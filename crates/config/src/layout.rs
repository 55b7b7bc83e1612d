//! `layout`: how the records of a response are arranged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the records at their place are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Each element is a record, or the object is one.
    #[default]
    Objects,
    /// An object with one list for each field: `{"time": [1, 2], "rain": [0, 3]}` is two records. A member that is no list is in each record.
    Columns,
    /// A list of lists, of which the first names the fields: `[["time", "rain"], [1, 0], [2, 3]]` is two records. With `fields`, the
    /// first is a record too.
    Rows,
}
