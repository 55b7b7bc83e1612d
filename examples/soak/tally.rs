//! What was tried.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Instant;

pub(crate) struct Tally {
    began: Instant,
    counts: Mutex<BTreeMap<String, u64>>,
    most: Mutex<BTreeMap<String, u64>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            counts: Mutex::default(),
            most: Mutex::default(),
        }
    }
}

impl Tally {
    pub(crate) fn count(&self, what: &str) {
        let mut counts = self.counts.lock().unwrap();
        *counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Units in one window, by whose rule they are bounded.
    pub(crate) fn most(&self, of: &str, units: u64) {
        let mut most = self.most.lock().unwrap();
        let most = most.entry(of.to_owned()).or_default();
        *most = units.max(*most);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} minutes:",
            self.began.elapsed().as_secs_f64() / 60.0
        )?;
        for (what, count) in &*self.counts.lock().unwrap() {
            write!(f, " {what} {count},")?;
        }
        for (of, units) in &*self.most.lock().unwrap() {
            write!(f, " most in a window with {of}: {units},")?;
        }
        Ok(())
    }
}
