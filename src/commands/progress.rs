//! Progress on a terminal: a line for each region that is walked now, and one for the whole. Drawn twice a second, whatever
//! happens, so that a long run fits a log of its terminal.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

use super::figures::{count, counted};
use super::output::shown;
use crate::cli::{Global, Log};
use crate::doc::text::columns_of;
use crate::run::{Progress, Silent};
use ingest_quota::{Account, LimitName, Units};

/// The time between two pictures.
const TICK: Duration = Duration::from_millis(500);
/// A shorter command shows nothing.
const SHORT: Duration = Duration::from_secs(1);
/// The most regions that are shown, whatever the height of the terminal.
const MOST_LINES: usize = 16;
/// The width of a bar, and of the name before it, in columns.
const BAR: usize = 16;
const NAME: usize = 24;

/// Returns the progress of a run on a terminal, otherwise no progress.
pub fn watcher(global: &Global) -> Arc<dyn Progress> {
    if !is_shown(global) {
        return Arc::new(Silent);
    }
    let state = Arc::<Mutex<Walk>>::default();
    let drawn = Arc::clone(&state);
    // Stdout is for the result.
    let screen = picture(ProgressDrawTarget::stderr(), move |elapsed, width| {
        locked(&drawn).lines(elapsed, width)
    });
    screen.enable_steady_tick(TICK);
    Arc::new(Picture { screen, state })
}

fn is_shown(global: &Global) -> bool {
    let is_text = !global.quiet && global.verbose == 0 && global.log == Log::Text;
    is_text && io::stderr().is_terminal()
}

/// A picture of the lines that `lines` returns for the time so far and the width of the terminal.
fn picture(
    target: ProgressDrawTarget,
    lines: impl Fn(Duration, usize) -> Vec<String> + Send + Sync + Clone + 'static,
) -> ProgressBar {
    let draw = move |state: &ProgressState, to: &mut dyn fmt::Write| {
        let width = columns_of(io::stderr()).unwrap_or(80);
        let lines = lines(state.elapsed(), width).into_iter();
        // A line that fills the last column would be continued on the next one.
        let cut = lines.map(|line| {
            line.chars()
                .take(width.saturating_sub(1))
                .collect::<String>()
        });
        let _ = to.write_str(&cut.collect::<Vec<_>>().join("\n"));
    };
    let style =
        ProgressStyle::with_template("{lines}").unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(None, target).with_style(style.with_key("lines", draw))
}

struct Picture {
    screen: ProgressBar,
    state: Arc<Mutex<Walk>>,
}

/// What a run has done so far.
#[derive(Default)]
struct Walk {
    /// The regions that are walked now, by job and region.
    active: BTreeMap<(String, String), Pages>,
    planned: usize,
    ended: usize,
    requests: u64,
    /// The used and enforced units of each limit, by account and limit.
    limits: BTreeMap<(String, LimitName), (Units, Units)>,
}

#[derive(Default)]
struct Pages {
    landed: u64,
    expected: u64,
    records: u64,
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock()
}

impl Progress for Picture {
    fn planned(&self, passes: usize) {
        locked(&self.state).planned = passes;
    }

    fn charged(&self, account: &Account, remaining: &BTreeMap<LimitName, Units>) {
        let mut state = locked(&self.state);
        state.requests += 1;
        for (limit, left) in remaining {
            let Some(enforced) = account.limits.get(limit).map(|limit| limit.enforced()) else {
                continue;
            };
            let used = enforced.saturating_sub(*left);
            let key = (account.name.clone(), limit.clone());
            state.limits.insert(key, (used, enforced));
        }
    }

    fn started(&self, job: &str, region: &str, landed: u64, expected: u64) {
        let pages = Pages {
            landed,
            expected,
            records: 0,
        };
        let key = (job.to_owned(), region.to_owned());
        locked(&self.state).active.insert(key, pages);
    }

    fn landed(&self, job: &str, region: &str, records: u64) {
        let key = (job.to_owned(), region.to_owned());
        if let Some(pages) = locked(&self.state).active.get_mut(&key) {
            pages.landed += 1;
            pages.records += records;
        }
    }

    fn ended(&self, job: &str, region: &str) {
        let mut state = locked(&self.state);
        state.active.remove(&(job.to_owned(), region.to_owned()));
        state.ended += 1;
    }
}

impl Drop for Picture {
    fn drop(&mut self) {
        self.screen.finish_and_clear();
    }
}

impl Walk {
    fn lines(&self, elapsed: Duration, width: usize) -> Vec<String> {
        let active = self.active.iter().take(MOST_LINES);
        let mut lines: Vec<String> = active
            .map(|((job, region), pages)| pages.line(&shown(&format!("{job} {region}")), width))
            .collect();
        let more = self.active.len().saturating_sub(MOST_LINES);
        lines.extend((more > 0).then(|| format!("and {} more", counted(more as u64, "region"))));
        lines.push(self.whole(elapsed, width));
        lines
    }

    /// `312/500 passes · 1,204 requests · 4,310 of 9,500 daily · 0:42`, or as much of it as fits.
    fn whole(&self, elapsed: Duration, width: usize) -> String {
        let passes = format!(
            "{}/{}",
            count(self.ended as u64),
            count(self.planned as u64)
        );
        let requests = counted(self.requests, "request");
        let share =
            |(used, enforced): &(Units, Units)| used.get() as f64 / enforced.get().max(1) as f64;
        let limits = self.limits.iter();
        let fullest = limits.max_by(|one, other| share(one.1).total_cmp(&share(other.1)));
        let limit = fullest.map(|((_, limit), (used, enforced))| {
            let (used, enforced) = (count(used.get()), count(enforced.get()));
            format!("{used} of {enforced} {}", shown(limit))
        });
        let limit = limit.as_deref();
        let (named, clock) = (format!("{passes} passes"), clock(elapsed));
        let forms: [[Option<&str>; 4]; 3] = [
            [Some(&named), Some(&requests), limit, Some(&clock)],
            [Some(&passes), None, limit, Some(&clock)],
            [Some(&passes), None, None, Some(&clock)],
        ];
        let mut forms =
            forms.map(|form| form.into_iter().flatten().collect::<Vec<_>>().join(" · "));
        let fits = |form: &&mut String| form.chars().count() < width;
        let fitting = forms.iter_mut().find(fits).map(std::mem::take);
        fitting.unwrap_or(passes)
    }
}

impl Pages {
    fn line(&self, name: &str, width: usize) -> String {
        let expected = self.expected.max(self.landed);
        let pages = format!("{}/{}", count(self.landed), count(expected));
        let records = counted(self.records, "record");
        if width < NAME + BAR + 32 {
            return format!("{name} {pages}, {records}");
        }
        let full = usize::try_from(self.landed * BAR as u64 / expected.max(1)).unwrap_or(BAR);
        let bar = "█".repeat(full.min(BAR)) + &"░".repeat(BAR.saturating_sub(full));
        format!("{name:NAME$} {bar} {pages:>7}  {records}")
    }
}

/// `0:42`, `1:02:03`
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// What a command other than a run is doing: shown on a terminal when it takes longer than a second, until this is dropped.
pub struct Working {
    done: Arc<AtomicU64>,
    screen: Option<(ProgressBar, JoinHandle<()>)>,
}

impl Working {
    /// `doing` and, if anything is counted, how many of `what`.
    pub fn on(global: &Global, doing: &'static str, what: &'static str) -> Self {
        let done = Arc::<AtomicU64>::default();
        let drawn = Arc::clone(&done);
        let began = Instant::now();
        let lines = move |_: Duration, _: usize| {
            let number = drawn.load(Ordering::Relaxed);
            let number = (number > 0).then(|| counted(number, what));
            let clock = clock(began.elapsed());
            let parts = [Some(doing.to_owned()), number, Some(clock)];
            vec![parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")]
        };
        let screen = is_shown(global).then(|| {
            let bar = picture(ProgressDrawTarget::hidden(), lines);
            let late = bar.clone();
            let task = tokio::spawn(async move {
                tokio::time::sleep(SHORT).await;
                late.set_draw_target(ProgressDrawTarget::stderr());
                late.enable_steady_tick(TICK);
            });
            (bar, task)
        });
        Self { done, screen }
    }

    /// Counts what is done.
    pub fn count(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some((screen, task)) = &self.screen {
            task.abort();
            screen.finish_and_clear();
        }
    }
}
