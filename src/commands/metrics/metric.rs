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

/// Declares all metrics.
macro_rules! metrics {
    ($($metric:ident = $kind:ident($name:literal, $help:literal);)*) => {
        $(pub static $metric: Metric = Metric {
            name: $name,
            kind: MetricType::$kind,
            help: $help,
        };)*

        // One list makes both: what a file holds of a metric that is not among these is dropped with the next run.
        static ALL: &[&Metric] = &[$(&$metric),*];
    };
}

metrics! {
    RUNS = Counter("ingest_runs_total", "Runs by outcome");
    REQUESTS = Counter("ingest_requests_total", "Requests by result");
    REQUEST_SECONDS = Counter("ingest_request_seconds_total", "Total duration of requests in seconds");
    UNITS = Counter("ingest_units_total", "Units charged by runs");
    UNMETERED = Counter("ingest_unmetered_units_total", "Units spent while the ledger could not be reached");
    RECORDS = Counter("ingest_records_total", "Records landed");
    BUILD = Gauge("ingest_build_info", "The version that wrote this file; always 1");
    CONFIG_VALID = Gauge("ingest_config_valid", "1 if the last run could use its configuration, 0 if the configuration is missing or invalid");
    LAST_RUN = Gauge("ingest_last_run_timestamp_seconds", "When the last run began");
    LAST_RUN_DURATION = Gauge("ingest_last_run_duration_seconds", "Duration of the last run in seconds");
    LAST_RUN_OUTCOME = Gauge("ingest_last_run_outcome", "1 for the outcome of the last run, 0 for every other");
    LAST_SUCCESS = Gauge("ingest_last_success_timestamp_seconds", "When the last complete pass over a region began; 0 if there was none");
    DOUBTFUL = Gauge("ingest_region_doubtful", "1 if a list in the last pass over a region cannot be trusted, else 0");
    JOB_EVERY = Gauge("ingest_job_every_seconds", "The configured `every` of a job; missing if the job is due at every run");
    LIMIT_ENFORCED = Gauge("ingest_limit_enforced_units", "The most units that are granted in one window");
    LIMIT_USED = Gauge("ingest_limit_used_units", "Units in use at the end of the last run; missing if the ledger could not be reached");
    LIMIT_REMAINING = Gauge("ingest_limit_remaining_units", "Units left at the end of the last run; missing if the ledger could not be reached");
    LIMIT_CLOSED = Gauge("ingest_limit_closed_until_timestamp_seconds", "Until when the limit is closed because the upstream reported it exhausted, or by hand; 0 while it is open");
    UNREPAID = Gauge("ingest_unrepaid_units", "Units that this machine spent while the ledger could not be reached and that the ledger has not recorded yet");
}

/// The metric of this name.
pub fn named(name: &str) -> Option<&'static Metric> {
    ALL.iter().copied().find(|metric| metric.name == name)
}
