//! Prometheus' text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::collections::BTreeMap;
use std::fmt::Write;

use super::labels::{Labels, parsed, written};
use super::metric::{self, Metric, MetricType};

/// Samples by metric and labels.
#[derive(Debug)]
pub struct Families {
    /// The escaped name of the file, a label of every sample; `None`: no label.
    file: Option<String>,
    families: BTreeMap<&'static str, Family>,
}

#[derive(Debug)]
struct Family {
    metric: &'static Metric,
    samples: BTreeMap<String, f64>,
}

impl Families {
    /// Returns an empty set for a file of this name.
    pub fn new(file: Option<&str>) -> Self {
        Self {
            file: file.map(escaped),
            families: BTreeMap::new(),
        }
    }

    /// Adds a value to the sample with these labels.
    pub fn add(&mut self, metric: &'static Metric, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<(&str, String)> = labels
            .iter()
            .map(|(name, value)| (*name, escaped(value)))
            .collect();
        let labels: Labels<'_> = labels
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        self.add_escaped(metric, labels, value);
    }

    fn add_escaped(&mut self, metric: &'static Metric, labels: Labels<'_>, value: f64) {
        let mut labels: Labels<'_> = labels;
        labels.retain(|(name, _)| *name != FILE);
        labels.extend(self.file.as_deref().map(|file| (FILE, file)));
        let family = self.families.entry(metric.name).or_insert_with(|| Family {
            metric,
            samples: BTreeMap::new(),
        });
        *family.samples.entry(written(&labels)).or_default() += value;
    }

    /// Continues from `old`, the text of an earlier run: counters are added, and the gauges that `keep` names are kept.
    pub fn go_on(&mut self, old: &str, keep: &Keep) {
        // Before anything is added, since that would count as set by this run.
        let set: Vec<&'static str> = self.families.keys().copied().collect();
        for line in old.lines().filter(|line| !line.starts_with('#')) {
            let Some((metric, labels, value)) = sample(line) else {
                continue;
            };
            let goes_on = match (metric.kind, keep) {
                (MetricType::Counter, _) => true,
                (MetricType::Gauge, Keep::NotSet) => !set.contains(&metric.name),
                (MetricType::Gauge, Keep::OfAccounts(accounts)) => {
                    labels.iter().any(|(name, value)| {
                        *name == ACCOUNT && accounts.iter().any(|one| one == value)
                    })
                }
            };
            if goes_on {
                self.add_escaped(metric, labels, value);
            }
        }
    }

    /// Returns the text of all samples.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Family { metric, samples } in self.families.values() {
            let (name, help, kind) = (metric.name, metric.help, metric.kind.name());
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }
}

/// Which gauges of an earlier run still hold.
pub enum Keep {
    /// Those that this run did not set.
    NotSet,
    /// Those of these accounts, by their escaped names.
    OfAccounts(Vec<String>),
}

/// The label with the name of the file.
const FILE: &str = "ingest_file";
/// The label with the name of an account.
pub const ACCOUNT: &str = "account";
/// The label with the name of a job. Prometheus itself sets `job`: the job that scrapes.
pub const JOB: &str = "ingest_job";

/// Reads a sample of one of our metrics; `None` for a truncated line or one of another program, which would spoil this file and
/// all later ones.
fn sample(line: &str) -> Option<(&'static Metric, Labels<'_>, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, parsed(labels.strip_suffix('}')?)?),
        None => (series, Vec::new()),
    };
    Some((metric::named(name)?, labels, value))
}

/// Returns a label's value as the format escapes it.
pub fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Whether a file holds samples of a job.
pub fn holds_job(text: &str, job: &str) -> bool {
    let value = escaped(job);
    text.contains(&format!("{JOB}=\"{value}\""))
}
