//! Progress bars on a terminal, one for each region.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::shown;
use super::table::counted;
use crate::cli::{Global, Log};
use crate::run::{Progress, Silent};

/// Returns bars on a terminal, otherwise no progress.
pub fn watcher(global: &Global) -> Arc<dyn Progress> {
    if io::stderr().is_terminal() && !global.quiet && global.verbose == 0 && global.log == Log::Text
    {
        Arc::new(Bars {
            all: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            bars: Mutex::default(),
        })
    } else {
        Arc::new(Silent)
    }
}

struct Bars {
    all: MultiProgress,
    bars: Mutex<HashMap<(String, String), ProgressBar>>,
}

impl Bars {
    fn bar(&self, job: &str, region: &str) -> ProgressBar {
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (job.to_owned(), region.to_owned());
        bars.entry(key)
            .or_insert_with(|| self.all.add(new_bar(job, region)))
            .clone()
    }
}

impl Progress for Bars {
    fn started(&self, job: &str, region: &str, landed: u64, expected: u64) {
        let bar = self.bar(job, region);
        bar.set_length(expected.max(landed));
        bar.set_position(landed);
    }

    fn landed(&self, job: &str, region: &str, records: u64) {
        let bar = self.bar(job, region);
        bar.inc(1);
        if bar.length().is_none_or(|length| length < bar.position()) {
            bar.set_length(bar.position());
        }
        bar.set_message(counted(records, "record"));
    }

    fn ended(&self, job: &str, region: &str, how: &str) {
        self.bar(job, region).finish_with_message(shown(how));
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        for bar in self
            .bars
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
        {
            bar.finish_and_clear();
        }
        let _ = self.all.clear();
    }
}

fn new_bar(job: &str, region: &str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_prefix(format!("{job} {}", shown(region)));
    let style = ProgressStyle::with_template("{prefix:24} {bar:24} {pos}/{len} {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
