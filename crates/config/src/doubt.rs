//! `trust = ["…"]`: the doubts about lists.

use schemars::JsonSchema;
use serde::Deserialize;
use strum::IntoStaticStr;

/// What cannot happen in a list that is read correctly.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Doubt {
    /// The cursor, or a whole page, came again and brought no new record.
    CursorRepeats,
    /// Two pages, or the last one, repeat records of the page before in another order.
    RecordsRepeat,
    /// The response says that there is more, and names no next page.
    NextUnnamed,
    /// The list ends, and its last response has a value elsewhere that looks like a next page.
    NextUnread,
    /// The list ends with one full page that names a next page and says that it is the last, and no response of the call ever led on.
    NextMissing,
    /// The responses lack a place that earlier ones of the call had, or have it under another name.
    PlaceMissing,
    /// The list has fewer records than the response reports. A difference of 1, or of 1%, is a note outside of slices.
    FewerThanTotal,
    /// The list of a slice moved while it was read, perhaps past records: the number of all records fell, or records of earlier pages
    /// came again.
    ListMoved,
    /// A response has no list at `records.at`, and does not say that there is none. One that has other members than the call's empty lists is no empty list; a table without a byte is none once the call had rows.
    NoRecords,
    /// A response has an error beside its list (`error`, `errors`, `error_message` and the like) that not every earlier response of the call had.
    ErrorReported,
    /// A response has a status of a part (206, or any other 2xx than 200, 201, 203, 204, 205 and 207), and its `Content-Range` does not say that the list ends with it.
    Partial,
    /// Records of a list that names `{since}`, goes on where the last one ended, stops at what is known, or is of a slice, have no id; in a slice, also other records of one id.
    IdsMissing,
    /// A response says that the list ends, and the further page has records.
    EndRefuted,
    /// `max_pages` ended a list that names `{since}`, belongs to a slice, or has the cursor of the next pass on its last page; or the
    /// upstream refused, by a rule with `class = "end"`, a page that its own response named or said to be there.
    Cut,
}

impl Doubt {
    /// Returns its name in `trust` and in results.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
