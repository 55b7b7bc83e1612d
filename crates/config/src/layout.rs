//! `layout`: how the records of a response are arranged.

/// The words for a layout.
pub const LAYOUTS: &[(&str, Layout, &str)] = &[
    (
        "objects",
        Layout::Objects,
        "Each element of the list is a record, or the object is one.",
    ),
    (
        "columns",
        Layout::Columns,
        "An object with one list for each field: `{\"time\": [1, 2], \"rain\": [0, 3]}` is two records. A member that is no list \
        is in each record.",
    ),
    (
        "rows",
        Layout::Rows,
        "A list of lists, of which the first one names the fields: `[[\"time\", \"rain\"], [1, 0], [2, 3]]` is two records. With \
        `fields`, the first one is a record too.",
    ),
];

/// How the records at their place are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    #[default]
    Objects,
    Columns,
    Rows,
}
