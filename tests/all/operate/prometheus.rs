//! The metrics and the alerts in the real Prometheus, where it is installed: promtool, the server, node_exporter.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use percent_encoding::NON_ALPHANUMERIC;
use serde_json::Value;

use crate::support::world::World;
use ingest_testing::not_run::not_run;
use ingest_testing::redis_server::free_port;

const LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(50);

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/prometheus/ingest.rules.yml")
}

/// Whether all of these programs are installed.
fn are_installed(programs: &[&str]) -> bool {
    let is_missing = |program: &&&str| {
        let mut command = Command::new(program);
        let command = command.arg("--version").stdout(Stdio::null());
        command.stderr(Stdio::null()).status().is_err()
    };
    let missing: Vec<_> = programs.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        not_run(&format!(
            "not installed: {missing:?}; the metrics are not checked with Prometheus"
        ));
    }
    missing.is_empty()
}

fn promtool(arguments: &[&str], input: Stdio) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(input).output().unwrap()
}

fn assert_success(output: &Output) {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}{err}");
}

/// A server that ends with the value.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(program: &str, arguments: &[String]) -> Self {
        let port = free_port();
        let log = Stdio::null;
        let child = Command::new(program)
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(arguments)
            .stdout(log())
            .stderr(log())
            .spawn()
            .unwrap();
        let server = Self { child, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < LIMIT, "{program} does not listen");
            sleep(STEP);
        }
        server
    }

    fn node_exporter(directory: &Path) -> Self {
        let directory = directory.display();
        let arguments = [
            "--collector.disable-defaults".to_owned(),
            "--collector.textfile".to_owned(),
            format!("--collector.textfile.directory={directory}"),
        ];
        Self::start("prometheus-node-exporter", &arguments)
    }

    /// A server that scrapes `exporter` and evaluates `rules`, all at short intervals.
    fn prometheus(directory: &Path, exporter: &Self, rules: &Path) -> Self {
        let config = directory.join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms }}\n\
             rule_files: [{}]\n\
             scrape_configs: [{{ job_name: node, static_configs: [{{ targets: ['127.0.0.1:{}'] }}] }}]\n",
            rules.display(),
            exporter.port
        );
        fs::write(&config, text).unwrap();
        let arguments = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", directory.join("tsdb").display()),
        ];
        Self::start("prometheus", &arguments)
    }

    fn get(&self, path: &str) -> String {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async { reqwest::get(url).await.unwrap().text().await.unwrap() })
    }

    /// Asks until the result has something in it.
    fn query(&self, expression: &str) -> Vec<Value> {
        let encoded = percent_encoding::utf8_percent_encode(expression, NON_ALPHANUMERIC);
        let path = format!("/api/v1/query?query={encoded}");
        let began = Instant::now();
        loop {
            let answer: Value = serde_json::from_str(&self.get(&path)).unwrap_or_default();
            match answer["data"]["result"].as_array() {
                Some(result) if !result.is_empty() => return result.clone(),
                _ => assert!(began.elapsed() < LIMIT, "{expression}: {answer}"),
            }
            sleep(STEP);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a job, with a metrics file of this name in the directory.
fn run(world: &World, directory: &Path, job: &str, name: &str) -> PathBuf {
    let file = directory.join(name);
    let path = file.to_str().unwrap();
    world.ingest(&["--region", "all", "--job", job, "--metrics-file", path]);
    file
}

/// A directory of node_exporter's.
fn collected(world: &World) -> PathBuf {
    let directory = world.directory.path().join("collected");
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn promtool_takes_the_metrics_and_has_no_advice() {
    if !are_installed(&["promtool"]) {
        return;
    }
    let mut world = World::configured(&[r#"regions=["US", "G\"B\\X;} 1"]"#], |_| {});
    world.set("upstreams.youtube.attempts=1");
    let file = run(&world, world.directory.path(), "trending", "ingest.prom");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#"region="G\"B\\X;} 1""#), "{text}");
    let checked = promtool(&["check", "metrics"], fs::File::open(file).unwrap().into());
    assert_success(&checked);
    assert!(
        checked.stdout.is_empty() && checked.stderr.is_empty(),
        "{checked:?}"
    );
}

#[test]
fn promtool_takes_the_alert_rules_and_each_fires_when_it_should() {
    if !are_installed(&["promtool"]) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (rules, tests) in [
        (rules(), "rules_test.yml"),
        (
            root.join("deploy/prometheus/kubernetes.rules.yml"),
            "kubernetes_rules_test.yml",
        ),
    ] {
        let checked = ["check", "rules", "--lint-fatal", rules.to_str().unwrap()];
        assert_success(&promtool(&checked, Stdio::null()));
        let tests = root.join("tests/all/operate").join(tests);
        let tested = ["test", "rules", tests.to_str().unwrap()];
        assert_success(&promtool(&tested, Stdio::null()));
        let tested = fs::read_to_string(tests).unwrap();
        for alert in alerts(&rules) {
            assert!(tested.contains(&alert), "{alert} is not tested");
        }
    }
}

/// The names of the shipped alerts.
fn alerts(rules: &Path) -> Vec<String> {
    let text = fs::read_to_string(rules).unwrap();
    let names = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

#[test]
fn node_exporter_collects_the_file_of_several_jobs() {
    if !are_installed(&["prometheus-node-exporter"]) {
        return;
    }
    let world = World::new();
    let directory = collected(&world);
    run(&world, &directory, "trending", "ingest.prom");
    let file = run(&world, &directory, "discover", "ingest.prom");
    let exporter = Server::node_exporter(&directory);
    let scraped = exporter.get("/metrics");
    assert!(
        scraped.contains("node_textfile_scrape_error 0"),
        "{scraped}"
    );
    let text = fs::read_to_string(file).unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let is_there = |one: &str| taken_apart(one) == taken_apart(line);
        assert!(scraped.lines().any(is_there), "{line} is not in {scraped}");
    }
}

/// A sample's name, its labels in order, and its value.
fn taken_apart(line: &str) -> Option<(&str, Vec<&str>, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let mut labels: Vec<&str> = labels.trim_end_matches('}').split("\",").collect();
    labels
        .iter_mut()
        .for_each(|one| *one = one.trim_end_matches('"'));
    labels.sort_unstable();
    Some((name, labels, value.parse().ok()?))
}

/// The text of a metrics file with other values for the series that begin so.
fn with_values(text: &str, values: &[(&str, f64)]) -> String {
    let changed = |line: &str| {
        let series = line.rsplit_once(' ').unwrap().0;
        let value = values.iter().find(|(name, _)| series.starts_with(name));
        value.map_or_else(|| format!("{line}\n"), |(_, to)| format!("{series} {to}\n"))
    };
    text.lines().map(changed).collect()
}

/// The shipped rules, without their delays.
fn rules_without_delay(world: &World) -> PathBuf {
    let rules_now = world.directory.path().join("rules.yml");
    let text = fs::read_to_string(rules()).unwrap();
    let at_once = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("for: "));
    fs::write(&rules_now, at_once.collect::<Vec<_>>().join("\n")).unwrap();
    rules_now
}

fn firing(prometheus: &Server, alert: &str) -> Vec<Value> {
    prometheus.query(&format!(
        r#"ALERTS{{alertname="{alert}",alertstate="firing"}}"#
    ))
}

/// Nothing ran, then a run was whole, then everything is wrong.
#[test]
fn each_alert_fires_in_prometheus() {
    if !are_installed(&["prometheus", "prometheus-node-exporter"]) {
        return;
    }
    let mut world = World::new();
    let directory = collected(&world);
    let exporter = Server::node_exporter(&directory);
    let rules_now = rules_without_delay(&world);
    let prometheus = Server::prometheus(world.directory.path(), &exporter, &rules_now);
    firing(&prometheus, "IngestNoMetrics");
    run(&world, &directory, "trending", "ingest.prom");
    prometheus.query("ingest_last_run_unmetered_units == 0");
    world.set("jobs.trending.evry=1h");
    let file = run(&world, &directory, "trending", "ingest.prom");
    let wrong = [
        ("ingest_last_success_timestamp_seconds{", 1e9),
        ("ingest_last_run_timestamp_seconds", 1e9),
        ("ingest_limit_closed_until_timestamp_seconds{", 9e9),
        ("ingest_region_doubtful{", 1.0),
        ("ingest_last_run_unmetered_units", 7.0),
        ("ingest_unrepaid_units{", 7.0),
    ];
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, with_values(&text, &wrong)).unwrap();
    // The regions of the other job, which never ran, are stale before.
    prometheus.query(r#"count(ALERTS{alertname="IngestRegionStale",alertstate="firing"}) == 16"#);
    let stale = firing(&prometheus, "IngestRegionStale");
    assert_eq!(stale.len(), 16, "{stale:#?}");
    assert!(
        stale
            .iter()
            .all(|alert| !alert["metric"]["ingest_job"].is_null()
                && alert["metric"]["job"] == "node"
                && alert["metric"]["exported_job"].is_null()),
        "{stale:#?}"
    );
    for alert in alerts(&rules())
        .iter()
        .filter(|name| *name != "IngestNoMetrics")
    {
        firing(&prometheus, alert);
    }
}

#[test]
fn every_panel_of_the_dashboard_shows_something_after_two_runs() {
    if !are_installed(&["prometheus", "prometheus-node-exporter"]) {
        return;
    }
    let world = World::new();
    let directory = collected(&world);
    let exporter = Server::node_exporter(&directory);
    let prometheus = Server::prometheus(world.directory.path(), &exporter, &rules());
    run(&world, &directory, "trending", "ingest.prom");
    prometheus.query("ingest_last_run_timestamp_seconds");
    run(&world, &directory, "discover", "ingest.prom");
    let expressions = dashboard_expressions();
    assert!(expressions.len() > 10, "{expressions:?}");
    for expression in expressions {
        prometheus.query(&expression.replace("$instance", ".+"));
    }
}

fn dashboard_expressions() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/grafana/ingest.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}
