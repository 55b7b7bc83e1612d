//! What the pages of a list showed of it as a whole.

use serde::{Deserialize, Serialize};

/// What the pages of a list showed of it as a whole. It is stored with each checkpoint, so that a pass that is resumed protects what
/// one without a stop protects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListSoFar {
    /// Whether the list perhaps lacks records that there are: `max_pages` cut it, its end is not proved, or a page of it could not be
    /// read completely.
    #[serde(skip_serializing_if = "is_default")]
    pub is_partial: bool,
    /// Whether its end is proved.
    #[serde(skip_serializing_if = "is_default")]
    pub is_ended: bool,
    /// Whether it ended at a page of which all records are known and unchanged.
    #[serde(skip_serializing_if = "is_default")]
    pub is_known: bool,
    /// Whether the upstream named its next page, or said that there is one.
    #[serde(skip_serializing_if = "is_default")]
    pub is_named: bool,
    /// Whether a URL or a token leads to its next pages by their number, or by the number of records before them.
    #[serde(skip_serializing_if = "is_default")]
    pub is_counted: bool,
    /// Where its last page with records says that the response is cut; `None` if it does not.
    #[serde(skip_serializing_if = "is_default")]
    pub cut_at: Option<String>,
    /// Records that have no id.
    #[serde(skip_serializing_if = "is_default")]
    pub skipped: u64,
    /// Records of its pages, each once for a page.
    #[serde(skip_serializing_if = "is_default")]
    pub records: u64,
    /// Records that are in no listing, since they have no id that can be stored.
    #[serde(skip_serializing_if = "is_default")]
    pub unlisted: u64,
    /// Records with which a page begins and the page before ends.
    #[serde(skip_serializing_if = "is_default")]
    pub overlapping: u64,
    /// The different records of its pages, as the catalog lists them.
    #[serde(skip_serializing_if = "is_default")]
    pub listed: u64,
    /// Its last pages in a row that brought no record which none before them had.
    #[serde(skip_serializing_if = "is_default")]
    pub barren: u64,
    /// The numbers of all records, or of all pages, that its pages report; `None` if none does.
    #[serde(skip_serializing_if = "is_default")]
    pub total: Option<Totals>,
    /// Notes for people.
    #[serde(skip_serializing_if = "is_default")]
    pub notes: Vec<String>,
}

/// The numbers of all records of a list that its pages report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// The place of the last one, in words.
    pub at: String,
    pub first: u64,
    pub last: u64,
    pub least: u64,
    /// Whether a page reported less than one before it.
    pub fell: bool,
}

/// What is as before a first page is not written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ListSoFar {
    /// Reads what is stored. What cannot be read shows no list that is whole.
    #[must_use]
    pub fn read(stored: Option<&str>) -> Self {
        let read = stored.and_then(|stored| serde_json::from_str(stored).ok());
        read.unwrap_or(Self {
            is_partial: true,
            ..Self::default()
        })
    }

    /// Returns it as it is stored.
    #[must_use]
    pub fn stored(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Adds a note, unless it has the same one.
    pub fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// Adds the number of all records that a page reports at a place.
    pub fn report(&mut self, at: String, total: u64) {
        let totals = self.total.get_or_insert_with(|| Totals {
            first: total,
            last: total,
            least: total,
            ..Totals::default()
        });
        totals.fell |= total < totals.last;
        totals.least = totals.least.min(total);
        (totals.at, totals.last) = (at, total);
    }

    /// Returns the different records that the upstream listed.
    #[must_use]
    pub const fn reached(&self) -> u64 {
        self.listed.saturating_add(self.unlisted)
    }

    /// Returns the records that came again on a later page.
    #[must_use]
    pub const fn again(&self) -> u64 {
        self.records.saturating_sub(self.listed)
    }
}
