//! `deploy/` is checked by the tools of whoever runs it, where they are installed, and run as they would run it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_yaml_ng::Value as Yaml;

use crate::support::world::{SECRET, World, shipped};
use ingest_testing::not_run::not_run;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(deploy(path)).unwrap()
}

fn is_installed(program: &str) -> bool {
    let asked = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let installed = asked.is_ok_and(|status| status.success());
    if !installed {
        not_run(&format!(
            "{program} is not installed: what it would check is not checked"
        ));
    }
    installed
}

/// The units in a directory of their own, their program where it is here.
fn units() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(deploy("systemd"))
        .unwrap()
        .map(|entry| entry.unwrap())
    {
        let text = fs::read_to_string(entry.path()).unwrap();
        let text = text.replace("/usr/bin/ingest", cargo_bin!("ingest").to_str().unwrap());
        fs::write(directory.path().join(entry.file_name()), text).unwrap();
    }
    directory
}

fn services() -> [&'static str; 3] {
    [
        "ingest.service",
        "ingest-job@.service",
        "ingest-region@.service",
    ]
}

/// A template is looked at as an instance of it.
fn instance(unit: &str) -> String {
    unit.replace('@', "@GB")
}

#[test]
fn systemd_takes_the_units() {
    if !is_installed("systemd-analyze") {
        return;
    }
    let units = units();
    for unit in services()
        .iter()
        .flat_map(|unit| [unit.to_string(), unit.replace(".service", ".timer")])
    {
        let path = units.path().join(&unit);
        let instance = units.path().join(instance(&unit));
        if instance != path {
            fs::copy(&path, &instance).unwrap();
        }
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&instance)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stderr);
        assert!(
            verified.status.success() && said.trim().is_empty(),
            "{unit}: {said}"
        );
    }
}

#[test]
fn systemd_rates_the_services_as_safe() {
    if !is_installed("systemd-analyze") {
        return;
    }
    let units = units();
    for unit in services() {
        let security = ["security", "--offline=true", "--threshold=15"];
        let path = units.path().join(unit);
        let rated = Command::new("systemd-analyze")
            .args(security)
            .arg(&path)
            .env("SYSTEMD_PAGER", "")
            .output()
            .unwrap();
        assert!(
            rated.status.success(),
            "{unit}: {}",
            String::from_utf8_lossy(&rated.stdout)
        );
    }
}

/// The values of a key in a unit, in order.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines()
        .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
        .collect()
}

/// A place as the unit makes it: `/etc/ingest`, a credential directory, a state directory.
struct Place {
    world: World,
    config: PathBuf,
    credentials: PathBuf,
}

impl Place {
    fn new() -> Self {
        let world = World::new();
        let at = |name: &str| world.directory.path().join(name);
        let base_url = format!("base_url = \"{}\"", world.base_url());
        let text = fs::read_to_string(shipped()).unwrap();
        let text = text.replace(
            "base_url = \"https://www.googleapis.com/youtube/v3\"",
            &base_url,
        );
        fs::write(at("quotas.toml"), text).unwrap();
        fs::create_dir(at("credentials")).unwrap();
        fs::write(at("credentials/youtube"), SECRET).unwrap();
        fs::set_permissions(at("credentials/youtube"), fs::Permissions::from_mode(0o400)).unwrap();
        Self {
            config: at("quotas.toml"),
            credentials: at("credentials"),
            world,
        }
    }

    /// Runs a command line of ours in nothing but this environment.
    fn run(&self, line: &str, environment: BTreeMap<String, String>) -> std::process::Output {
        let line = line.replace("/etc/ingest/quotas.toml", self.config.to_str().unwrap());
        let mut words = line.split_whitespace();
        assert!(words.next().unwrap().ends_with("ingest"));
        Command::new(cargo_bin!("ingest"))
            .args(words)
            .env_clear()
            .envs(environment)
            .current_dir("/")
            .output()
            .unwrap()
    }

    fn state(&self) -> String {
        self.world.state_dir().to_str().unwrap().to_owned()
    }
}

#[test]
fn the_units_command_lines_run_as_the_units_run_them() {
    for unit in services() {
        let (text, place) = (read(&format!("systemd/{unit}")), Place::new());
        let credentials = place.credentials.to_str().unwrap().to_owned();
        let mut environment = BTreeMap::from([
            ("CREDENTIALS_DIRECTORY".to_owned(), credentials.clone()),
            ("STATE_DIRECTORY".to_owned(), place.state()),
        ]);
        for set in values(&text, "Environment") {
            let (name, value) = set.split_once('=').unwrap();
            environment.insert(name.to_owned(), value.replace("%d", &credentials));
        }
        let [line] = values(&text, "ExecStart")[..] else {
            panic!("{unit} has one ExecStart")
        };
        let line = line
            .replace("--job %i", "--job trending")
            .replace("%i", "GB");
        let ran = place.run(&line, environment);
        assert_eq!(ran.status.code(), Some(0), "{unit}: {ran:?}");
        assert!(
            ran.stdout.is_empty() && ran.stderr.is_empty(),
            "{unit}: {ran:?}"
        );
        assert!(
            place.world.requests() > 0 && place.world.state_dir().join("catalog.db").exists(),
            "{unit}"
        );
    }
}

/// systemd fails a unit with status 243 before it starts, if a file of `LoadCredential=` is missing and nothing stands in.
#[test]
fn a_unit_starts_without_the_key_and_one_that_needs_it_says_where_to_put_it() {
    for unit in services() {
        let text = read(&format!("systemd/{unit}"));
        for loaded in values(&text, "LoadCredential") {
            let (name, _) = loaded.split_once(':').unwrap();
            let stand_in = format!("{name}:\\n");
            assert!(
                values(&text, "SetCredential").contains(&stand_in.as_str()),
                "{unit}: {loaded}"
            );
        }
    }
    let place = Place::new();
    let key = place.credentials.join("youtube");
    fs::remove_file(&key).unwrap();
    fs::write(&key, "\n").unwrap();
    let environment = BTreeMap::from([
        (
            "CREDENTIALS_DIRECTORY".to_owned(),
            place.credentials.to_str().unwrap().to_owned(),
        ),
        (
            "YOUTUBE_API_KEY_FILE".to_owned(),
            key.to_str().unwrap().to_owned(),
        ),
        ("STATE_DIRECTORY".to_owned(), place.state()),
    ]);
    let ran = place.run(
        "ingest --config /etc/ingest/quotas.toml --region US -q",
        environment,
    );
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(
        said.contains("the secret is empty") && said.contains("LoadCredential=youtube:"),
        "{ran:?}"
    );
}

#[test]
fn a_unit_that_is_stopped_during_a_run_has_not_failed() {
    for unit in services() {
        let text = read(&format!("systemd/{unit}"));
        assert_eq!(values(&text, "SuccessExitStatus"), ["143"], "{unit}");
    }
}

/// Programs that only note how they were called, in a directory of their own.
fn stand_ins(directory: &Path, scripts: &[(&str, &str)]) {
    for (name, script) in scripts {
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The real systemd takes all of it: tried by hand on systemd 252.
#[test]
fn ingest_as_unit_passes_on_where_the_unit_runs_and_nothing_of_what() {
    let directory = tempfile::tempdir().unwrap();
    let unit = deploy("systemd/ingest.service");
    let changed = directory.path().join("changed.conf");
    let change =
        "[Service]\nEnvironment=ONE=1 \\\n    TWO=2\nLoadCredential = redis.key:/etc/redis.key\n";
    fs::write(&changed, change).unwrap();
    let cat = format!("cat {} {}", unit.display(), changed.display());
    let print = "for word in \"$@\"; do echo \"$word\"; done";
    stand_ins(
        directory.path(),
        &[("systemctl", &cat), ("systemd-run", print)],
    );
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let ran = Command::new(deploy("bin/ingest-as-unit"))
        .args(["search", "some words"])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let said = String::from_utf8(ran.stdout).unwrap();
    let words: Vec<&str> = said.lines().collect();
    let command = [
        "/usr/bin/ingest",
        "--config",
        "/etc/ingest/quotas.toml",
        "search",
        "some words",
    ];
    assert!(words.ends_with(&command), "{words:#?}");
    let text = read("systemd/ingest.service");
    for key in [
        "LoadCredential",
        "StateDirectory",
        "User",
        "SystemCallFilter",
    ] {
        for value in values(&text, key) {
            let property = format!("--property={key}={value}");
            assert!(words.contains(&property.as_str()), "{property} {words:#?}");
        }
    }
    for property in [
        "Environment=ONE=1      TWO=2",
        "LoadCredential=redis.key:/etc/redis.key",
    ] {
        let property = format!("--property={property}");
        assert!(words.contains(&property.as_str()), "{property} {words:#?}");
    }
    assert!(
        !said.contains("ExecStart") && !said.contains("Type="),
        "{said}"
    );
    let name = words.iter().find_map(|word| word.strip_prefix("--unit="));
    let key = format!(
        "--property=Environment=YOUTUBE_API_KEY_FILE=/run/credentials/{}.service/youtube",
        name.unwrap()
    );
    assert!(words.contains(&key.as_str()), "{key} {words:#?}");
}

/// The blocks of commands of a section of deploy/README.md.
fn commands_of(section: &str) -> String {
    let readme = read("README.md");
    let (_, after) = readme.split_once(&format!("\n## {section}\n")).unwrap();
    let text = after.split("\n## ").next().unwrap();
    let blocks = text.split("\n```").skip(1).step_by(2);
    let commands = blocks.filter_map(|block| block.strip_prefix('\n'));
    commands.collect::<Vec<_>>().join("\n")
}

/// Runs the commands of a section with every path of the system below a directory, and the system's own tools replaced. What
/// these were called with is in `calls`.
fn follow(section: &str, root: &Path) -> String {
    let tools = root.join("tools");
    for directory in [
        "tools",
        "etc/systemd/system",
        "etc/prometheus",
        "checkout/target/release",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let note = format!("echo \"$(basename \"$0\") $*\" >>{}/calls", root.display());
    let noted = [
        "systemctl",
        "cargo",
        "docker",
        "podman",
        "apt",
        "editor",
        "groupadd",
        "chown",
        "promtool",
        "ingest",
        "ingest-as-unit",
    ];
    for name in noted {
        stand_ins(&tools, &[(name, &note)]);
    }
    let crontab = format!("{note}\n[ \"$*\" != - ] || cat >/dev/null");
    stand_ins(&tools, &[("crontab", &crontab)]);
    let install = "for word; do shift; case $word in -o | -g) skip=1 ;; *) [ \"$skip\" ] && skip= || set -- \"$@\" \"$word\" ;; esac; done\n\
                   exec /usr/bin/install \"$@\"";
    let kubectl = format!("{note}\ncase $* in *dry-run*) echo '{{}}' ;; *) cat >/dev/null ;; esac");
    stand_ins(&tools, &[("install", install), ("kubectl", &kubectl)]);
    let checkout = root.join("checkout");
    for name in ["deploy", "quotas.toml"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let copied = Command::new("cp")
            .arg("-r")
            .args([&from, &checkout])
            .status();
        assert!(copied.unwrap().success());
    }
    for made in ["target/release/ingest", "youtube.key", "redis.key"] {
        fs::write(checkout.join(made), "").unwrap();
    }
    let mut script = commands_of(section);
    for system in ["/etc/", "/usr/", "/opt/", "/var/"] {
        let before = [" ", "=", "\"", "("];
        for mark in before {
            script = script.replace(
                &format!("{mark}{system}"),
                &format!("{mark}{}{system}", root.display()),
            );
        }
    }
    script = script.replace("deploy/deb/build.sh", ": build.sh");
    if section == "Debian package" {
        // What the package itself makes.
        fs::create_dir_all(root.join("etc/ingest")).unwrap();
    }
    let key = root.join("pasted");
    fs::write(&key, "pasted-key\n").unwrap();
    let ran = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(&checkout)
        .env_clear()
        .env("USER", "root")
        .env("PATH", format!("{}:/usr/bin:/bin", tools.display()))
        .stdin(fs::File::open(&key).unwrap())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{section}: {ran:?}\n{script}");
    fs::read_to_string(root.join("calls")).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn the_documented_commands_put_each_file_where_the_next_one_looks() {
    let sections = [
        "cron",
        "systemd",
        "Debian package",
        "Container, with Redis",
        "Kubernetes",
        "Prometheus",
    ];
    for section in sections {
        let place = tempfile::tempdir().unwrap();
        let calls = follow(section, place.path());
        let secrets = [
            "etc/ingest/youtube.key",
            "opt/ingest/youtube.key",
            "opt/ingest/redis.key",
            "opt/ingest/users.acl",
            "opt/ingest/quotas.toml",
        ];
        for secret in secrets.map(|name| place.path().join(name)) {
            assert!(
                !secret.exists() || mode(&secret) == 0o600,
                "{}",
                secret.display()
            );
        }
        match section {
            "systemd" => {
                for file in [
                    "usr/sbin/ingest-as-unit",
                    "etc/systemd/system/ingest-job@.service.d/metrics.conf",
                ] {
                    mode(&place.path().join(file));
                }
                let first = calls.find("ingest-as-unit --region all").unwrap();
                assert!(first < calls.find("enable --now ingest.timer").unwrap());
            }
            "Kubernetes" => assert!(
                calls.contains(r#""value":["search","some","words"]"#),
                "{calls}"
            ),
            _ => assert!(!calls.is_empty()),
        }
    }
}

/// Where a unit may write its metrics, and through which group, is what the document makes.
#[test]
fn the_drop_in_for_metrics_fits_the_documented_directory() {
    let drop_in = read("prometheus/metrics.conf");
    let [file] = values(&drop_in, "Environment")[..] else {
        panic!("{drop_in}")
    };
    let [writable] = values(&drop_in, "ReadWritePaths")[..] else {
        panic!("{drop_in}")
    };
    let [group] = values(&drop_in, "SupplementaryGroups")[..] else {
        panic!("{drop_in}")
    };
    assert_eq!(file, format!("INGEST_METRICS_FILE={writable}/ingest.prom"));
    let commands = commands_of("systemd");
    assert!(
        commands.contains(&format!("install -d -g {group} -m 2775 {writable}")),
        "{commands}"
    );
}

#[test]
fn the_credential_can_be_named_in_the_configuration_instead() {
    let place = Place::new();
    let environment = BTreeMap::from([
        (
            "CREDENTIALS_DIRECTORY".to_owned(),
            place.credentials.to_str().unwrap().to_owned(),
        ),
        ("STATE_DIRECTORY".to_owned(), place.state()),
    ]);
    let secret = "credentials.youtube.secret={credential=\"youtube\"}";
    let ran = place.run(
        &format!("ingest --config /etc/ingest/quotas.toml --region US -q --set {secret}"),
        environment,
    );
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn crons_lines_are_five_fields_and_a_command_that_runs() {
    let text = read("cron/ingest.cron");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .collect();
    let (variables, jobs): (Vec<&str>, Vec<&str>) = lines
        .into_iter()
        .partition(|line| line.split_once(' ').is_none());
    let place = Place::new();
    let mut environment = BTreeMap::from([
        ("INGEST_STATE_DIR".to_owned(), place.state()),
        ("HOME".to_owned(), "/nonexistent".to_owned()),
    ]);
    environment.insert(
        "INGEST_CONFIG".to_owned(),
        place.config.to_str().unwrap().to_owned(),
    );
    for variable in variables {
        let (name, value) = variable.split_once('=').unwrap();
        let key = place.credentials.join("youtube");
        environment.insert(
            name.to_owned(),
            value.replace("/etc/ingest/youtube.key", key.to_str().unwrap()),
        );
    }
    let [job] = jobs[..] else {
        panic!("one line: {jobs:?}")
    };
    let mut fields = job.splitn(6, ' ');
    for field in fields.by_ref().take(5) {
        assert!(
            field
                .chars()
                .all(|letter| "0123456789*/,-".contains(letter)),
            "{field}"
        );
    }
    let ran = place.run(fields.next().unwrap(), environment);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(
        ran.stdout.is_empty() && ran.stderr.is_empty(),
        "cron would mail it: {ran:?}"
    );
}

#[test]
fn crontab_takes_the_line_and_no_broken_one() {
    // Debian's option that checks a file without installing it, and everybody else's.
    let check = |option: &str, file: &Path| Command::new("crontab").arg(option).arg(file).output();
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("broken.cron");
    fs::write(&broken, "*/15 * * * ingest\n").unwrap();
    let checks =
        |option: &&str| check(option, &broken).is_ok_and(|said| said_of_a_line(&said.stderr));
    let Some(option) = ["-n", "-T"].into_iter().find(checks) else {
        not_run("there is no crontab that checks files: what it would check is not checked");
        return;
    };
    let checked = check(option, &deploy("cron/ingest.cron")).unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

/// Whether a complaint is about a line of the file.
fn said_of_a_line(complaint: &[u8]) -> bool {
    String::from_utf8_lossy(complaint).contains("broken.cron\":1: bad")
}

fn yaml(path: &str) -> Vec<Yaml> {
    documents(&read(path))
}

fn documents(text: &str) -> Vec<Yaml> {
    use serde::Deserialize as _;
    serde_yaml_ng::Deserializer::from_str(text)
        .map(|document| Yaml::deserialize(document).unwrap())
        .filter(|document| !document.is_null())
        .collect()
}

#[test]
fn the_compose_file_is_whole_and_gives_nothing_away() {
    let document = yaml("container/compose.yaml").remove(0);
    let with_catalog = yaml("container/compose.postgres.yaml").remove(0);
    let services = document["services"].as_mapping().unwrap();
    for (name, _) in services.iter().filter(|one| !one.1["configs"].is_null()) {
        // What reads quotas.toml reads the password of its catalog too.
        let added = &with_catalog["services"][name];
        assert_eq!(added["secrets"][0]["target"], "catalog.key", "{name:?}");
        assert!(added["depends_on"]["postgres"].is_mapping(), "{name:?}");
    }
    for (kind, used) in [("secrets", "secrets"), ("configs", "configs")] {
        for one in document["services"]["ingest"][used].as_sequence().unwrap() {
            let source = one["source"].as_str().unwrap();
            assert!(
                document[kind][source].is_mapping(),
                "{source} is not among the {kind}"
            );
        }
    }
    for service in ["redis", "ingest"] {
        let service = &document["services"][service];
        assert_eq!(
            (&service["read_only"], service["cap_drop"][0].as_str()),
            (&Yaml::Bool(true), Some("ALL"))
        );
        for network in service["networks"].as_sequence().unwrap() {
            assert!(document["networks"].get(network).is_some());
        }
        assert!(
            service["ports"].is_null(),
            "nothing of it is reached from outside"
        );
    }
}

/// Whoever follows the README copies the file elsewhere.
#[test]
fn the_compose_file_names_nothing_but_what_lies_beside_it() {
    let document = yaml("container/compose.yaml").remove(0);
    assert!(document["services"]["ingest"]["build"].is_null());
    let text = read("container/compose.yaml");
    assert!(
        !text
            .lines()
            .any(|line| !line.trim_start().starts_with('#') && line.contains("../")),
        "{text}"
    );
    let readme = read("README.md");
    for (kind, name) in [("secrets", "youtube"), ("configs", "quotas")] {
        let file = document[kind][name]["file"]
            .as_str()
            .unwrap()
            .strip_prefix("./")
            .unwrap();
        assert!(readme.contains(file), "{file}");
    }
}

/// What the compiler puts into the program, by the path of the file or directory from the root.
fn compiled_in() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![
        root.join("Cargo.toml"),
        root.join("Cargo.lock"),
        root.join("src"),
        root.join("crates"),
        root.join("lua"),
    ];
    let below = |name| super::files::everything_below(&root.join(name));
    let sources = below("src").into_iter().chain(below("crates"));
    for file in sources.filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let text = fs::read_to_string(&file).unwrap();
        let named = text
            .split("include_")
            .skip(1)
            .filter_map(|rest| rest.split_once("!(\"")?.1.split_once('"'));
        for (name, _) in named {
            let path = match name.strip_prefix("$CARGO_MANIFEST_DIR/") {
                Some(name) => root.join(name),
                None => file.parent().unwrap().join(name),
            };
            found.push(
                path.canonicalize()
                    .unwrap_or_else(|_| panic!("{} names {name}", file.display())),
            );
        }
    }
    found
}

#[test]
fn the_container_is_built_from_everything_that_is_compiled_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ignore = read("container/Containerfile.dockerignore");
    let sent: Vec<PathBuf> = ignore
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .map(|name| root.join(name))
        .collect();
    assert!(sent.iter().all(|path| path.exists()), "{sent:?}");
    let all = compiled_in();
    assert!(all.len() > 8, "{all:?}");
    for path in all {
        assert!(
            sent.iter().any(|sent| path.starts_with(sent)),
            "{} is not sent to the build",
            path.display()
        );
    }
    // A link into what is not sent leads nowhere.
    for entry in fs::read_dir(root.join("presets")).unwrap() {
        let path = entry.unwrap().path().canonicalize().unwrap();
        assert!(
            sent.iter().any(|sent| path.starts_with(sent)),
            "{} is not sent to the build",
            path.display()
        );
    }
    let manifest: toml::Value =
        toml::from_str(&fs::read_to_string(root.join("Cargo.toml")).unwrap()).unwrap();
    for target in ["bench", "test"]
        .iter()
        .flat_map(|kind| manifest[kind].as_array().unwrap())
    {
        let name = target["name"].as_str().unwrap();
        let path = target.get("path").map_or_else(
            || format!("benches/{name}.rs"),
            |path| path.as_str().unwrap().to_owned(),
        );
        assert!(
            sent.iter().any(|sent| root.join(&path).starts_with(sent)),
            "{path}: cargo wants every target to be there"
        );
    }
}

#[test]
fn docker_takes_the_compose_file() {
    let available = Command::new("docker").args(["compose", "version"]).output();
    if !available.is_ok_and(|output| output.status.success()) {
        not_run("docker compose is not installed: what it would check is not checked");
        return;
    }
    // Where the README puts it, with what it wants beside it.
    let place = tempfile::tempdir().unwrap();
    for file in [
        "container/compose.yaml",
        "redis/redis.conf",
        "redis/users.acl",
    ] {
        fs::copy(
            deploy(file),
            place.path().join(Path::new(file).file_name().unwrap()),
        )
        .unwrap();
    }
    for file in ["quotas.toml", "youtube.key"] {
        fs::write(place.path().join(file), "").unwrap();
    }
    let checked = Command::new("docker")
        .args(["compose", "-f"])
        .arg(place.path().join("compose.yaml"))
        .args(["config", "-q"])
        .output();
    let checked = checked.unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

#[test]
fn the_cron_job_of_kubernetes_is_alone_unprivileged_and_whole() {
    let documents = yaml("kubernetes/cronjob.yaml");
    let find = |kind: &str| {
        documents
            .iter()
            .find(|document| document["kind"] == kind)
            .unwrap()
    };
    let (claim, job) = (find("PersistentVolumeClaim"), find("CronJob"));
    assert_eq!(job["spec"]["concurrencyPolicy"], "Forbid");
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let volumes: Vec<&str> = pod["volumes"]
        .as_sequence()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for mount in container["volumeMounts"].as_sequence().unwrap() {
        assert!(volumes.contains(&mount["name"].as_str().unwrap()));
    }
    assert_eq!(
        pod["volumes"][1]["persistentVolumeClaim"]["claimName"],
        claim["metadata"]["name"]
    );
}

/// As the section "Several workers" makes them, by its own `sed`.
#[test]
fn the_workers_of_kubernetes_have_a_name_and_a_volume_each() {
    let manual = read("README.md");
    let begins = manual.find("for worker in a b c; do").unwrap();
    let script = &manual[begins..];
    let script = &script[..script.find("```").unwrap()];
    let script = script.replace("kubectl -n ingest apply -f -", "sed '$a---'");
    let written = Command::new("sh")
        .args(["-euc", &script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(written.status.success(), "{written:?}");
    let documents = documents(&String::from_utf8(written.stdout).unwrap());
    let named = |kind: &str| -> Vec<String> {
        let of_kind = documents.iter().filter(|one| one["kind"] == kind);
        of_kind
            .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let wanted = ["ingest-a", "ingest-b", "ingest-c"];
    assert_eq!(named("PersistentVolumeClaim"), wanted);
    assert_eq!(named("CronJob"), wanted);
    for job in documents.iter().filter(|one| one["kind"] == "CronJob") {
        let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
        assert_eq!(
            pod["volumes"][1]["persistentVolumeClaim"]["claimName"],
            job["metadata"]["name"]
        );
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], "ingest");
        assert_eq!(pod["containers"][0]["name"], "ingest");
        assert_eq!(pod["containers"][0]["image"], "REGISTRY/ingest:0.1.0");
    }
}

#[test]
fn a_command_in_kubernetes_gets_its_arguments_as_they_are() {
    let manual = read("README.md");
    let (_, function) = manual.split_once("\ningest_in_kubernetes() {").unwrap();
    let (function, _) = function.split_once("\n}").unwrap();
    let tools = tempfile::tempdir().unwrap();
    let patch = tools.path().join("patch");
    let keeps = format!(
        "while [ $# -gt 0 ]; do [ \"$1\" != -p ] || printf %s \"$2\" >{}; shift; done",
        patch.display()
    );
    stand_ins(tools.path(), &[("kubectl", &keeps)]);
    let arguments = ["search", "\"state of the art\"", "a\\b"];
    let ran = Command::new("sh")
        .args(["-c", function, "sh"])
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", tools.path().display()))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let patch: serde_json::Value = serde_json::from_slice(&fs::read(patch).unwrap()).unwrap();
    assert_eq!(patch[0]["value"], serde_json::json!(arguments));
}

/// The arguments that a deployment gives are ones that the program has.
#[test]
fn the_arguments_of_every_deployment_are_known() {
    let place = Place::new();
    let documents = yaml("kubernetes/cronjob.yaml");
    let pod = &documents[1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<&str> = pod["args"]
        .as_sequence()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let environment = BTreeMap::from([
        (
            "INGEST_CONFIG".to_owned(),
            place.config.to_str().unwrap().to_owned(),
        ),
        ("INGEST_STATE_DIR".to_owned(), place.state()),
        (
            "YOUTUBE_API_KEY_FILE".to_owned(),
            place
                .credentials
                .join("youtube")
                .to_str()
                .unwrap()
                .to_owned(),
        ),
    ]);
    let ran = place.run(&format!("ingest {}", arguments.join(" ")), environment);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let containerfile = read("container/Containerfile");
    assert!(containerfile.contains(r#"CMD ["--region", "all", "--quiet"]"#));
    assert!(!containerfile.contains("USER root"));
}

#[test]
fn the_image_has_a_numeric_user_and_the_sandbox() {
    let text = read("container/Containerfile");
    let user = text
        .lines()
        .filter_map(|line| line.strip_prefix("USER "))
        .next_back();
    assert_eq!(user, Some("65532:65532"), "Kubernetes cannot check a name");
    assert!(
        !text.contains("--no-default-features"),
        "the sandbox is a default feature"
    );
}

#[test]
fn what_the_debian_package_holds_is_there_or_made() {
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Value = toml::from_str(&manifest).unwrap();
    let package = &manifest["package"]["metadata"]["deb"];
    let build = read("deb/build.sh");
    for asset in package["assets"].as_array().unwrap() {
        let source = asset[0].as_str().unwrap();
        let made = source
            .strip_prefix("target/deb-assets/")
            .is_some_and(|name| build.contains(name));
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let is_there =
            root.join(source.trim_end_matches('*')).exists() && !source.starts_with("target/");
        assert!(
            made || is_there || source == "target/release/ingest",
            "{source}"
        );
    }
    assert_eq!(
        package["conf-files"][0].as_str(),
        Some("/etc/ingest/quotas.toml")
    );
}

fn package() -> toml::Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest: toml::Value = toml::from_str(&fs::read_to_string(manifest).unwrap()).unwrap();
    manifest["package"].clone()
}

#[test]
fn every_manual_page_that_the_main_one_names_is_made_and_it_has_what_a_manual_has() {
    let world = World::new();
    let main = world.ingest(&["man"]).stdout;
    for section in ["FILES", "ENVIRONMENT", "EXAMPLES"] {
        assert!(main.contains(&format!(".SH {section}")), "{section}");
    }
    let named = main
        .lines()
        .filter_map(|line| line.strip_prefix("ingest\\-")?.strip_suffix("(1)"));
    let named: Vec<&str> = named.collect();
    assert!(named.len() > 10, "{named:?}");
    for command in named {
        let page = world.ingest(&["man", command]);
        assert_eq!(page.code, 0, "{command}: {page:?}");
        assert!(
            page.stdout.contains(&format!("ingest\\-{command}")),
            "{command}"
        );
    }
    let build = read("deb/build.sh");
    assert!(
        build.contains(r"s/^ingest\\-\([a-z]*\)(1)$/\1/p"),
        "every page is packaged: {build}"
    );
}

#[test]
fn the_changelog_of_the_package_is_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert!(read("deb/changelog").starts_with(&format!("ingest ({version}-1) ")));
}

#[test]
fn the_maintainer_scripts_are_shell_stop_what_runs_and_purge_everything() {
    let scripts = package()["metadata"]["deb"]["maintainer-scripts"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(scripts, "deploy/deb");
    for name in ["postinst", "prerm", "postrm"] {
        let checked = Command::new("sh")
            .arg("-n")
            .arg(deploy(&format!("deb/{name}")))
            .status();
        assert!(checked.unwrap().success(), "{name}");
    }
    // Each is called as dpkg calls it, with the paths of the system below a directory.
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let at = |name: &str| root.join(name);
    for directory in [
        "run/systemd/system",
        "etc/ingest",
        "var/lib/private/ingest",
        "usr/bin",
        "etc/systemd/system/timers.target.wants",
        "etc/systemd/system/sockets.target.wants",
        "var/lib/systemd/timers",
    ] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    let note = format!("echo \"$(basename \"$0\") $*\" >>{}/calls", root.display());
    for name in ["systemctl", "deb-systemd-helper", "deb-systemd-invoke"] {
        stand_ins(&at("usr/bin"), &[(name, &note)]);
    }
    std::os::unix::fs::symlink("private/ingest", at("var/lib/ingest")).unwrap();
    for file in [
        "etc/ingest/youtube.key",
        "var/lib/private/ingest/ledger.db",
        "etc/systemd/system/timers.target.wants/ingest-job@trending.timer",
        "etc/systemd/system/sockets.target.wants/ingest-serve.socket",
        "var/lib/systemd/timers/stamp-ingest.timer",
    ] {
        fs::write(at(file), "").unwrap();
    }
    let call = |script: &str, arguments: &[&str]| {
        let text = read(&format!("deb/{script}"));
        let text = ["/run/", "/etc/", "/var/", "/usr/"]
            .iter()
            .fold(text, |text, system| {
                [" ", "="].iter().fold(text, |text, mark| {
                    text.replace(
                        &format!("{mark}{system}"),
                        &format!("{mark}{}{system}", root.display()),
                    )
                })
            });
        let ran = Command::new("sh")
            .args(["-c", &text, script])
            .args(arguments)
            .env("PATH", format!("{}:/usr/bin:/bin", at("usr/bin").display()))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{script} {arguments:?}: {ran:?}");
        let calls = fs::read_to_string(at("calls")).unwrap_or_default();
        let _ = fs::remove_file(at("calls"));
        calls
    };
    let calls = call("postinst", &["configure", ""]);
    assert!(
        calls.contains("daemon-reload") && !calls.contains("restart"),
        "{calls}"
    );
    let calls = call("postinst", &["configure", "0.0.9-1"]);
    let restarted = "try-restart ingest.timer ingest-serve.service";
    assert!(calls.contains(restarted), "{calls}");
    let calls = call("prerm", &["remove"]);
    for unit in ["ingest-serve.socket", "ingest-serve.service"] {
        assert!(calls.contains(unit), "{unit} is not stopped: {calls}");
        assert!(read("rpm/preun.sh").contains(unit), "{unit}");
    }
    assert!(read("rpm/post.sh").contains(restarted));
    let (timer, service) = (
        calls.find("stop ingest.timer").unwrap(),
        calls.find("stop ingest.service").unwrap(),
    );
    assert!(timer < service, "{calls}");
    assert_eq!(call("prerm", &["upgrade", "0.2.0-1"]), "");
    call("postrm", &["remove"]);
    assert!(
        at("etc/ingest/youtube.key").exists() && at("var/lib/private/ingest/ledger.db").exists()
    );
    call("postrm", &["purge"]);
    for gone in [
        "etc/ingest",
        "var/lib/ingest",
        "var/lib/private/ingest",
        "etc/systemd/system/timers.target.wants/ingest-job@trending.timer",
        "etc/systemd/system/sockets.target.wants/ingest-serve.socket",
        "var/lib/systemd/timers/stamp-ingest.timer",
    ] {
        assert!(fs::symlink_metadata(at(gone)).is_err(), "{gone} is left");
    }
}

/// The package as it is built, with another program in place of `ingest`, since a release build takes minutes.
#[test]
fn lintian_finds_no_error_in_the_package() {
    if !["lintian", "dpkg-deb", "cargo-deb"]
        .into_iter()
        .all(is_installed)
    {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (target, output) = (place.path().join("target"), place.path().join("ingest.deb"));
    fs::create_dir_all(target.join("release")).unwrap();
    fs::copy("/bin/true", target.join("release/ingest")).unwrap();
    let built = Command::new(deploy("deb/build.sh"))
        .args(["--fast", "--output", output.to_str().unwrap()])
        .env("INGEST_BUILT", cargo_bin!("ingest"))
        .env("CARGO_TARGET_DIR", target)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let mut lintian = Command::new("lintian");
    let lintian = lintian.args(["--fail-on", "error", "--allow-root"]);
    let checked = lintian.arg(&output).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{said}");
}
