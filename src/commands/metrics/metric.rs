//! All metrics: name, type, and what each measures.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only increases, over all runs that write to the file.
    Counter,
    /// The value at the end of the last run.
    Gauge,
}

impl MetricType {
    /// Its name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricType,
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricType::Counter,
        help,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricType::Gauge,
        help,
    }
}

pub static RUNS: Metric = counter("ingest_runs_total", "Runs by outcome");
pub static REQUESTS: Metric = counter("ingest_requests_total", "Requests by result");
pub static REQUEST_SECONDS: Metric = counter(
    "ingest_request_seconds_total",
    "Total duration of requests in seconds",
);
pub static UNITS: Metric = counter("ingest_units_total", "Units charged by runs");
pub static UNMETERED: Metric = counter(
    "ingest_unmetered_units_total",
    "Units spent while the ledger could not be reached",
);
pub static RECORDS: Metric = counter("ingest_records_total", "Records landed");
pub static BUILD: Metric = gauge(
    "ingest_build_info",
    "The version that wrote this file; always 1",
);
pub static CONFIG_VALID: Metric = gauge(
    "ingest_config_valid",
    "1 if the last run could use its configuration, 0 if the configuration is missing or invalid",
);
pub static LAST_RUN: Metric = gauge(
    "ingest_last_run_timestamp_seconds",
    "When the last run began",
);
pub static LAST_RUN_DURATION: Metric = gauge(
    "ingest_last_run_duration_seconds",
    "Duration of the last run in seconds",
);
pub static LAST_RUN_OUTCOME: Metric = gauge(
    "ingest_last_run_outcome",
    "1 for the outcome of the last run, 0 for every other",
);
pub static LAST_SUCCESS: Metric = gauge(
    "ingest_last_success_timestamp_seconds",
    "When the last complete pass over a region began; 0 if there was none",
);
pub static DOUBTFUL: Metric = gauge(
    "ingest_region_doubtful",
    "1 if a list in the last pass over a region cannot be trusted, else 0",
);
pub static JOB_EVERY: Metric = gauge(
    "ingest_job_every_seconds",
    "The configured `every` of a job; missing if the job is due at every run",
);
pub static LIMIT_ENFORCED: Metric = gauge(
    "ingest_limit_enforced_units",
    "The most units that are granted in one window",
);
pub static LIMIT_USED: Metric = gauge(
    "ingest_limit_used_units",
    "Units in use at the end of the last run; missing if the ledger could not be reached",
);
pub static LIMIT_REMAINING: Metric = gauge(
    "ingest_limit_remaining_units",
    "Units left at the end of the last run; missing if the ledger could not be reached",
);
pub static LIMIT_CLOSED: Metric = gauge(
    "ingest_limit_closed_until_timestamp_seconds",
    "Until when the limit is closed because the upstream reported it exhausted; 0 while it is open",
);
pub static UNREPAID: Metric = gauge(
    "ingest_unrepaid_units",
    "Units that this machine spent while the ledger could not be reached and that the ledger has not recorded yet",
);

static ALL: [&Metric; 19] = [
    &RUNS,
    &REQUESTS,
    &REQUEST_SECONDS,
    &UNITS,
    &UNMETERED,
    &RECORDS,
    &BUILD,
    &CONFIG_VALID,
    &LAST_RUN,
    &LAST_RUN_DURATION,
    &LAST_RUN_OUTCOME,
    &LAST_SUCCESS,
    &DOUBTFUL,
    &JOB_EVERY,
    &LIMIT_ENFORCED,
    &LIMIT_USED,
    &LIMIT_REMAINING,
    &LIMIT_CLOSED,
    &UNREPAID,
];

/// The metric of this name.
pub fn named(name: &str) -> Option<&'static Metric> {
    ALL.into_iter().find(|metric| metric.name == name)
}
