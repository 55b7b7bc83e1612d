use std::collections::BTreeMap;

/// The partition that a job fans out over, with values that templates can name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// Its code, such as `US`; `*` for what serves several regions at once.
    pub code: String,
    /// Values of its own, by name: `[regions.GB] city = "London"`.
    pub values: BTreeMap<String, String>,
}

impl Region {
    /// What stands for several regions at once.
    pub const SHARED: &'static str = "*";

    /// The region of what serves several regions at once.
    #[must_use]
    pub fn shared() -> Self {
        Self {
            code: Self::SHARED.to_owned(),
            ..Self::default()
        }
    }
}
