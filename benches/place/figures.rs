//! What a command took, and figures as a table.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use wait4::Wait4;

/// What one command took.
#[derive(Debug)]
pub struct Measured {
    pub took: Duration,
    /// The time of processors, which what else the machine does hardly changes.
    pub computed: Duration,
    pub megabytes: f64,
    pub exit: String,
}

/// Runs a command to its end.
pub fn measured(command: &mut Command) -> Measured {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut most = 0.0;
    // What has ended, and waits to be asked for its end, has no memory any more.
    while let Some(megabytes) = megabytes(child.id()) {
        most = megabytes;
        std::thread::sleep(Duration::from_millis(1));
    }
    let ended = child.wait4().unwrap();
    Measured {
        took: began.elapsed(),
        computed: ended.rusage.utime + ended.rusage.stime,
        megabytes: most,
        exit: ended.status.code().unwrap_or(-1).to_string(),
    }
}

/// The most memory that a process had so far; `None` if it has ended.
pub fn megabytes(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// The median; nothing of no times.
pub fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Milliseconds with one digit.
pub fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// How many times as long as `base`.
pub fn ratio(time: Duration, base: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() / base.as_secs_f64())
}

/// A table whose columns but the first hold figures.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
