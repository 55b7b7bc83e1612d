//! Regions that a file or a command lists.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::declare::{DURATION, ListOf, Optional, Or, TEXT, Type, keys, table};
use super::item::{Document, Item};
use super::tree::{Entry, Kind, Node, Origin};
use ingest_base::fnv::fnv;
use ingest_base::private;

keys! {
    /// Where the regions are.
    pub struct RegionSource {
        /// The file with the regions, relative to the directory of this file: CSV whose first column is `code` and whose others are
        /// values of the regions; one code a line; or JSON, as this key itself could have it, or a list of objects with `code`.
        file: Option<String> = Optional(TEXT, "'places.csv'"),
        /// A program that prints the same, and its arguments.
        command: Option<Vec<String>> = Optional(ListOf(TEXT, 1), "['stations', '--all']"),
        /// How long what the command printed is valid. It is kept in the state directory. If the command fails after that, it is used
        /// longer, with a warning.
        valid_for: Duration = Or(DURATION, "'1d'", "'7d'"),
    }
}

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
/// How long what it printed is read after its end.
const AFTER_ITS_END: Duration = Duration::from_secs(2);

/// Where the output of commands is kept.
#[derive(Debug, Clone, Copy)]
pub struct Kept<'a> {
    /// The state directory.
    pub directory: &'a Path,
    /// Whether it is only read.
    pub is_dry: bool,
}

/// Returns the regions that a file or a command lists, in place of `regions.file` or `regions.command`; `None` if the document
/// lists them itself. Without `kept`, the command is run each time.
///
/// # Errors
/// There is no valid list; the problem is in the document.
pub fn listed(document: &Document, kept: Option<Kept<'_>>) -> Result<Option<Kind>, ()> {
    let Some(regions) = document.item().find(&["regions"]).filter(is_source) else {
        return Ok(None);
    };
    let source = table::<RegionSource>().read(regions.clone()).ok_or(())?;
    let directory = document.file.parent().unwrap_or(Path::new(""));
    let text = source.text(directory, kept);
    match text.and_then(|text| parsed(&text, regions.origin())) {
        Ok(kind) => Ok(Some(kind)),
        Err(why) => {
            regions.refuse::<()>(
                format!("cannot read the regions: {why}"),
                "list codes one a line, or as CSV whose first column is `code`, or as JSON",
            );
            Err(())
        }
    }
}

/// Whether a value says where the regions are: the values of a region are tables.
fn is_source(regions: &Item<'_>) -> bool {
    let has = |key: &str| regions.find(&[key]).is_some_and(|value| !value.is_table());
    regions.is_table() && (has("file") || has("command"))
}

impl RegionSource {
    fn text(&self, directory: &Path, kept: Option<Kept<'_>>) -> Result<String, String> {
        match (&self.file, &self.command) {
            (Some(file), None) => {
                let file = directory.join(file);
                fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
            }
            (None, Some(words)) => self.printed(words, kept),
            _ => Err("write either `file` or `command`".to_owned()),
        }
    }

    /// What the command prints, or printed within `valid_for`.
    fn printed(&self, words: &[String], kept: Option<Kept<'_>>) -> Result<String, String> {
        let file = kept.map(|kept| {
            let name = format!("regions-{:032x}.txt", fnv(&words.join("\0")));
            kept.directory.join(name)
        });
        let text = || fs::read_to_string(file.as_ref()?).ok();
        if let Some(text) = file
            .as_deref()
            .filter(|file| self.is_valid(file))
            .and_then(|_| text())
        {
            return Ok(text);
        }
        match run(words) {
            Ok(printed) => {
                let may_keep = kept.is_some_and(|kept| !kept.is_dry);
                if let Some(file) = file
                    .as_deref()
                    .filter(|_| may_keep)
                    // What is no list is not kept: it would stand in for an earlier one for as long as `valid_for`.
                    .filter(|_| parsed(&printed, &Origin::Line(1)).is_ok())
                {
                    keep(file, &printed);
                }
                Ok(printed)
            }
            Err(why) => match text() {
                Some(text) => {
                    tracing::warn!("{why}; using the regions that it printed earlier");
                    Ok(text)
                }
                None => Err(why),
            },
        }
    }

    fn is_valid(&self, file: &Path) -> bool {
        let written = fs::metadata(file).and_then(|about| about.modified());
        // A file from the future, which a clock that was set back leaves, counts as new.
        let age = written.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        age.is_ok_and(|age| age < self.valid_for)
    }
}

/// Keeps what a command printed. Before the first run there is no state directory, and the command is run again.
fn keep(file: &Path, text: &str) {
    let beside = PathBuf::from(format!("{}.{}.tmp", file.display(), std::process::id()));
    if file.parent().is_some_and(Path::is_dir)
        // Beside the file first: another process may read the file at any time.
        && let Err(error) = write(&beside, text).and_then(|()| fs::rename(&beside, file))
    {
        tracing::warn!("cannot keep the regions in {}: {error}", file.display());
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    private::create_file(file)?;
    fs::write(file, text)
}

/// Runs a command and returns what it prints.
fn run(words: &[String]) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("the command is empty")?;
    let failed = |why: String| format!("`{program}` {why}");
    let mut command = Command::new(program);
    let command = command.args(arguments).stdin(Stdio::null());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command
        .spawn()
        .map_err(|error| failed(format!("was not started: {error}")))?;
    let Some(mut output) = child.stdout.take() else {
        return Err(failed("has no output".to_owned()));
    };
    // Beside the waiting: a command that fills the pipe would wait for a reader until it is killed.
    let (sender, read) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        // Nobody waits for it any more where the time is over.
        let _ = sender.send(output.read_to_string(&mut text).map(|_| text));
    });
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("took longer than {} s", PATIENCE.as_secs())));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }
    // A process that the command left behind can keep the output open for ever.
    match read.recv_timeout(AFTER_ITS_END) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(failed(format!("printed no text: {error}"))),
        Err(_) => Err(failed(
            "ended, and a process that it started keeps its output open: redirect the output of that process"
                .to_owned(),
        )),
    }
}

/// Reads a list of regions, as the value of `regions` could be written.
fn parsed(text: &str, origin: &Origin) -> Result<Kind, String> {
    // Spreadsheets begin a CSV file with a byte order mark.
    let text = text.trim_start_matches('\u{feff}').trim();
    let node = |kind| Node {
        origin: origin.clone(),
        kind,
    };
    if text.starts_with(['[', '{']) {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        return of_json(&value, origin);
    }
    let is_table = text.lines().next().is_some_and(|head| {
        let first = head.split(',').next().unwrap_or_default();
        first.trim().trim_matches('"') == "code"
    });
    if is_table {
        return of_csv(text, origin);
    }
    let codes = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let codes = codes.map(|code| node(Kind::Text(code.to_owned())));
    Ok(Kind::List(codes.collect()))
}

fn of_csv(text: &str, origin: &Origin) -> Result<Kind, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let heads = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut regions = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        let values = heads.iter().zip(row.iter()).skip(1);
        // An empty cell is no value.
        let values = values.filter(|(_, value)| !value.is_empty());
        let values = values.map(|(head, value)| entry(head, Kind::Text(value.to_owned()), origin));
        let code = row.get(0).unwrap_or_default();
        regions.push(entry(code, Kind::Table(values.collect()), origin));
    }
    once_each(regions)
}

/// A list of codes, a list of objects with `code`, or an object of regions with their values.
fn of_json(value: &Value, origin: &Origin) -> Result<Kind, String> {
    let objects = match value {
        Value::Array(all) if all.first().is_some_and(Value::is_object) => all,
        value => return kind_of(value, origin),
    };
    let mut regions = Vec::new();
    for one in objects {
        let mut values = one.as_object().cloned().unwrap_or_default();
        let code = match values.remove("code") {
            Some(Value::String(code)) => code,
            Some(Value::Number(code)) => code.to_string(),
            _ => return Err(format!("{one} has no `code`")),
        };
        regions.push(entry(
            &code,
            kind_of(&Value::Object(values), origin)?,
            origin,
        ));
    }
    once_each(regions)
}

fn kind_of(value: &Value, origin: &Origin) -> Result<Kind, String> {
    Ok(match value {
        Value::String(text) => Kind::Text(text.clone()),
        Value::Number(number) => Kind::Text(number.to_string()),
        Value::Bool(truth) => Kind::Bool(*truth),
        Value::Null => return Err("null is no value".to_owned()),
        Value::Array(all) => {
            let nodes = all.iter().map(|one| {
                Ok::<_, String>(Node {
                    origin: origin.clone(),
                    kind: kind_of(one, origin)?,
                })
            });
            Kind::List(nodes.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let present = members.iter().filter(|(_, value)| !value.is_null());
            let entries =
                present.map(|(key, value)| Ok(entry(key, kind_of(value, origin)?, origin)));
            Kind::Table(entries.collect::<Result<_, String>>()?)
        }
    })
}

fn entry(key: &str, kind: Kind, origin: &Origin) -> Entry {
    let node = Node {
        origin: origin.clone(),
        kind,
    };
    Entry {
        key: key.to_owned(),
        node,
    }
}

fn once_each(regions: Vec<Entry>) -> Result<Kind, String> {
    let mut seen = std::collections::HashSet::new();
    match regions.iter().find(|region| !seen.insert(&region.key)) {
        Some(twice) => Err(format!("{:?} is listed twice", twice.key)),
        None => Ok(Kind::Table(regions)),
    }
}
