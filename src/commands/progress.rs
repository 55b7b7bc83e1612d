//! Progress bars on a terminal, one for each region.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use tokio::task::JoinHandle;

use super::output::shown;
use super::table::counted;
use crate::cli::{Global, Log};
use crate::run::{Progress, Silent};

/// How long a command may compute before it says so.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether progress is shown: on a terminal, where no log is written between the bars.
fn is_shown(global: &Global) -> bool {
    let is_alone = global.verbose == 0 && global.log == Log::Text;
    io::stderr().is_terminal() && !global.quiet && is_alone
}

/// Shows on a terminal what a command computes, from a second on.
pub struct Doing(Option<JoinHandle<()>>);

impl Doing {
    /// Shows this from now on, after a second.
    pub fn new(global: &Global, what: &'static str) -> Self {
        let shown = || {
            tokio::spawn(async move {
                tokio::time::sleep(PATIENCE).await;
                let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
                let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
                let bar = bar.with_elapsed(PATIENCE);
                let bar =
                    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                bar.set_message(what);
                loop {
                    bar.tick();
                    tokio::time::sleep(PATIENCE / 10).await;
                }
            })
        };
        Self(is_shown(global).then(shown))
    }

    /// Ends it, before anything else is written.
    pub async fn end(self) {
        if let Some(shown) = self.0 {
            shown.abort();
            // It was aborted.
            let _ = shown.await;
        }
    }
}

/// Returns bars on a terminal, otherwise no progress.
pub fn watcher(global: &Global) -> Arc<dyn Progress> {
    if is_shown(global) {
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
