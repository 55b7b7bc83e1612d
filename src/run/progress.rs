//! What a run tells whoever watches.

/// Who watches a run.
pub trait Progress: Send + Sync {
    /// A pass begins or goes on: so many pages are landed already, of so many expected.
    fn started(&self, job: &str, region: &str, landed: u64, expected: u64);

    /// A page of it was landed.
    fn landed(&self, job: &str, region: &str, records: u64);

    /// It ended for this run, in so many words.
    fn ended(&self, job: &str, region: &str, how: &str);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _: &str, _: &str, _: u64, _: u64) {}
    fn landed(&self, _: &str, _: &str, _: u64) {}
    fn ended(&self, _: &str, _: &str, _: &str) {}
}
