//! A real Chromium, driven through WebDriver, where it is installed.

use ingest_testing::not_run::not_run;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::key::Key;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use hyper::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use url::{ParseError, Url};

/// Arguments of the browser: nothing but what a test asks for, and the same picture everywhere.
const ARGUMENTS: [&str; 14] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--lang=en-US",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// A browser with a profile of its own.
pub(crate) struct Browser {
    client: Option<Client>,
    runtime: Runtime,
    _profile: TempDir,
}

impl Browser {
    /// A browser; `None`, and said so, where Chromium or its driver is not installed.
    pub(crate) fn start() -> Option<Self> {
        let driver = driver()?;
        let profile = tempfile::tempdir().unwrap();
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let capabilities = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(
            ClientBuilder::new(HttpConnector::new())
                .capabilities(capabilities.as_object().unwrap().clone())
                .connect(driver),
        );
        Some(Self {
            client: Some(client.unwrap()),
            runtime,
            _profile: profile,
        })
    }

    fn client(&self) -> &Client {
        self.client.as_ref().unwrap()
    }

    pub(crate) fn goto(&self, url: &str) {
        self.runtime.block_on(self.client().goto(url)).unwrap();
    }

    pub(crate) fn address(&self) -> Url {
        self.runtime.block_on(self.client().current_url()).unwrap()
    }

    /// Runs a script in the page, and returns what it returns.
    pub(crate) fn script(&self, script: &str) -> Value {
        let ran = self.client().execute(script, Vec::new());
        self.runtime.block_on(ran).unwrap()
    }

    /// Runs a script that calls its last argument with the result.
    pub(crate) fn script_async(&self, script: &str) -> Value {
        let ran = self.client().execute_async(script, Vec::new());
        self.runtime.block_on(ran).unwrap()
    }

    pub(crate) fn source(&self) -> String {
        self.runtime.block_on(self.client().source()).unwrap()
    }

    /// Presses and releases a key, while others are held down.
    pub(crate) fn press(&self, held: &[Key], key: Key) {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for key in held {
            actions = actions.then(KeyAction::Down {
                value: char::from(*key),
            });
        }
        actions = actions.then(KeyAction::Down {
            value: char::from(key),
        });
        actions = actions.then(KeyAction::Up {
            value: char::from(key),
        });
        for key in held.iter().rev() {
            actions = actions.then(KeyAction::Up {
                value: char::from(*key),
            });
        }
        let pressed = self.client().perform_actions(actions);
        self.runtime.block_on(pressed).unwrap();
    }

    pub(crate) fn type_in(&self, text: &str) {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for value in text.chars() {
            actions = actions.then(KeyAction::Down { value });
            actions = actions.then(KeyAction::Up { value });
        }
        let typed = self.client().perform_actions(actions);
        self.runtime.block_on(typed).unwrap();
    }

    /// A command of the DevTools protocol.
    pub(crate) fn devtools(&self, command: &'static str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.command("goog/cdp/execute", body)
    }

    pub(crate) fn screen(&self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub(crate) fn colours(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// What the console says since it was last asked for.
    pub(crate) fn console(&self) -> Vec<String> {
        let entries = self.command("se/log", json!({ "type": "browser" }));
        let messages = entries.as_array().unwrap().iter();
        messages
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Writes what the screen shows to `target/screenshots/NAME.png`.
    pub(crate) fn screenshot(&self, name: &str) -> PathBuf {
        let shot = self.devtools("Page.captureScreenshot", json!({ "format": "png" }));
        let png = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("{name}.png"));
        std::fs::write(&path, png).unwrap();
        path
    }

    /// The serious and critical violations of these rules of axe-core, of all if none is named; `None`, and said so, where it is
    /// not installed.
    pub(crate) fn violations(&self, rules: &[&str]) -> Option<Vec<String>> {
        let axe = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("target/axe/node_modules/axe-core/axe.min.js");
        let Ok(axe) = std::fs::read_to_string(axe) else {
            not_run("axe-core is not installed below target/axe; `bash tests/all.sh` installs it");
            return None;
        };
        if self.script("return typeof axe") == "undefined" {
            self.script(&axe);
        }
        let mut options = json!({ "resultTypes": ["violations"] });
        if !rules.is_empty() {
            options["runOnly"] = json!(rules);
        }
        let found = self.script_async(&format!(
            "const done = arguments[arguments.length - 1];
            axe.run(document, {options}).then(
                found => done(found.violations
                    .filter(one => ['serious', 'critical'].includes(one.impact))
                    .flatMap(one => one.nodes.map(node => one.id + ': ' + node.html + ' ' + node.failureSummary))),
                error => done(['axe-core failed: ' + error]))",
        ));
        let found = found.as_array().unwrap().iter();
        Some(found.map(|one| one.as_str().unwrap().to_owned()).collect())
    }

    fn command(&self, path: &'static str, body: Value) -> Value {
        let command = DriverCommand { path, body };
        self.runtime
            .block_on(self.client().issue_cmd(command))
            .unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let _ = self.runtime.block_on(client.close());
        }
    }
}

/// A command of Chromium's driver that WebDriver does not have.
#[derive(Debug)]
struct DriverCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for DriverCommand {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

/// The address of the driver that all tests share; `None` where it is not installed.
fn driver() -> Option<&'static str> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(Driver::start).as_ref()?;
    Some(&driver.url)
}

struct Driver {
    url: String,
    /// Its input ends with this process, and the driver and its browsers with that.
    _guard: Child,
}

impl Driver {
    fn start() -> Option<Self> {
        let installed = |program: &str| {
            let mut command = Command::new(program);
            let command = command.arg("--version").stdout(Stdio::null());
            command.stderr(Stdio::null()).status().is_ok()
        };
        if !installed("chromedriver") || !(installed("chromium") || installed("google-chrome")) {
            not_run("chromium and chromedriver are not installed, so no page is seen in a browser");
            return None;
        }
        let script = "chromedriver --port=0 & cat >/dev/null; kill -KILL 0";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).process_group(0);
        let mut guard = shell
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(guard.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let port = line.split("successfully on port ").nth(1)?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        // The rest of what it says must go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self {
            url: format!("http://127.0.0.1:{}", port.unwrap()),
            _guard: guard,
        })
    }
}
