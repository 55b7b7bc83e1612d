//! What `deploy` has for the server: units, manifests, and clients that charge.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_yaml_ng::Value as Yaml;

use super::{CLIENT, Served, TOKEN};
use crate::support::world::Ran;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("deploy")
        .join(path)
}

fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_ok()
}

#[test]
fn systemd_takes_the_units_of_the_server() {
    if !has("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for unit in ["ingest-serve.service", "ingest-serve.socket"] {
        let text = std::fs::read_to_string(deploy("systemd").join(unit)).unwrap();
        let text = text.replace("/usr/bin/ingest", env!("CARGO_BIN_EXE_ingest"));
        std::fs::write(directory.path().join(unit), text).unwrap();
    }
    for unit in ["ingest-serve.service", "ingest-serve.socket"] {
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(directory.path().join(unit))
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
fn the_probes_of_kubernetes_send_a_name_that_the_server_has() {
    use serde::Deserialize as _;
    let text = std::fs::read_to_string(deploy("kubernetes/serve.yaml")).unwrap();
    let documents: Vec<Yaml> = serde_yaml_ng::Deserializer::from_str(&text)
        .map(|one| Yaml::deserialize(one).unwrap())
        .collect();
    let container = &documents[0]["spec"]["template"]["spec"]["containers"][0];
    let hosts = text
        .lines()
        .find(|line| line.contains("hosts = ["))
        .unwrap();
    for probe in ["readinessProbe", "livenessProbe"] {
        let header = &container[probe]["httpGet"]["httpHeaders"][0];
        assert_eq!(header["name"].as_str(), Some("Host"));
        assert!(hosts.contains(header["value"].as_str().unwrap()));
    }
    let mut sets: Vec<String> = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("#   ")) {
        let Some((key, value)) = line.split('#').next().unwrap().split_once(" = ") else {
            continue;
        };
        let value = value.trim().replace("0.0.0.0:8080", "127.0.0.1:0").replace(
            "{ file = \"/etc/ingest/dashboards.key\" }",
            "{ env = \"DASHBOARDS\" }",
        );
        sets.push(format!("serve.{key}={value}"));
    }
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let served = Served::new(&sets);
    let answer = served.send("GET /healthz", &["Host: ingest.example.org"], "");
    assert_eq!(answer.status, 200);
}

#[test]
fn clients_in_three_languages_charge() {
    let served = Served::new(&[
        "serve.readers={ quota = 100_000, window = \"1min\" }",
        CLIENT,
    ]);
    let token = served.world.directory.path().join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let (mut charged, mut runs) = (0, Vec::new());
    for (program, arguments) in [
        (
            "sh",
            vec!["charge.sh", "youtube", "videos.list", "echo", "granted"],
        ),
        ("python3", vec!["charge.py", "youtube", "videos.list"]),
        ("go", vec!["run", "charge.go", "youtube", "videos.list"]),
    ] {
        if !has(program) || (program == "sh" && !has("curl")) {
            continue;
        }
        let address = format!("http://{}", served.address);
        let run = move |token: &Path| {
            let mut command = Command::new(program);
            let command = command.current_dir(deploy("clients")).args(&arguments);
            Ran::of(
                command
                    .env("INGEST_URL", &address)
                    .env("INGEST_TOKEN_FILE", token)
                    .output()
                    .unwrap(),
            )
        };
        let ran = run(&token);
        assert_eq!(ran.code, 0, "{program}: {ran:?}");
        charged += 1;
        assert_eq!(served.world.charged("daily"), charged, "{program}");
        let wrong = served.world.directory.path().join("wrong");
        std::fs::write(&wrong, "wrong").unwrap();
        assert_ne!(run(&wrong).code, 0, "{program}");
        assert_eq!(served.world.charged("daily"), charged, "{program}");
        runs.push((program, run));
    }
    assert!(charged > 0);
    // Until the units fit again, a day passes.
    let rest = (9_500 - charged).to_string();
    let all = ["charge", "youtube", "videos.list", "--times", &rest];
    assert_eq!(served.world.ingest(&all).code, 0);
    let began = Instant::now();
    for (program, run) in runs {
        let rejected = run(&token);
        assert_ne!(rejected.code, 0, "{program}: {rejected:?}");
        assert!(format!("{rejected:?}").contains("Rejected"), "{rejected:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(60));
}
