//! Prometheus' text format: <https://prometheus.io/docs/instrumenting/exposition_formats/>

use std::collections::BTreeMap;
use std::fmt::Write;

/// What a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It only grows; what the file held is added.
    Counter,
    /// It is as it is.
    Gauge,
}

/// The counters, with what they count.
pub const COUNTERS: [(&str, &str); 6] = [
    (RUNS, "Runs, by how they ended"),
    (REQUESTS, "Requests, by what they led to"),
    (REQUEST_SECONDS, "How long requests took, together"),
    (UNITS, "Units charged by runs"),
    (
        UNMETERED,
        "Units spent while the ledger could not be reached",
    ),
    (RECORDS, "Records landed"),
];
pub const RUNS: &str = "ingest_runs_total";
pub const REQUESTS: &str = "ingest_requests_total";
pub const REQUEST_SECONDS: &str = "ingest_request_seconds_total";
pub const UNITS: &str = "ingest_units_total";
pub const UNMETERED: &str = "ingest_unmetered_units_total";
pub const RECORDS: &str = "ingest_records_total";

/// Figures of one name.
#[derive(Debug)]
pub struct Family {
    kind: Kind,
    help: &'static str,
    samples: BTreeMap<String, f64>,
}

/// Figures by name.
#[derive(Debug, Default)]
pub struct Families(BTreeMap<&'static str, Family>);

impl Families {
    /// A counter of the table.
    pub fn counter(&mut self, name: &'static str) -> &mut Family {
        let help = COUNTERS
            .iter()
            .find(|(known, _)| *known == name)
            .map_or("", |(_, help)| help);
        self.family(name, Kind::Counter, help)
    }

    /// A figure that is as it is.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, Kind::Gauge, help)
    }

    fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> &mut Family {
        self.0.entry(name).or_insert_with(|| Family {
            kind,
            help,
            samples: BTreeMap::new(),
        })
    }

    /// All of it, counters going on from `old`, which is what an earlier run wrote.
    pub fn text(mut self, old: &str) -> String {
        self.go_on(old);
        let mut text = String::new();
        for (name, family) in &self.0 {
            let kind = if family.kind == Kind::Counter {
                "counter"
            } else {
                "gauge"
            };
            let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
            for (labels, value) in &family.samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }

    fn go_on(&mut self, old: &str) {
        for line in old.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Some(value) = value.parse::<f64>().ok().filter(|value| value.is_finite()) else {
                continue;
            };
            let (name, labels) = series
                .split_at_checked(series.find('{').unwrap_or(series.len()))
                .unwrap_or((series, ""));
            // A line that was cut, or that somebody else wrote, would spoil this file and every one after it.
            if !labels.is_empty() && !labels.ends_with("\"}") {
                continue;
            }
            if let Some((name, _)) = COUNTERS.iter().find(|(known, _)| *known == name) {
                *self
                    .counter(name)
                    .samples
                    .entry(labels.to_owned())
                    .or_default() += value;
            }
        }
    }
}

impl Family {
    /// Adds a figure to the one of these labels.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        *self.samples.entry(labels).or_default() += value;
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
