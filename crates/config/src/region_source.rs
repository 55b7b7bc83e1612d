//! Regions that a file or a command lists.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::declare::{DURATION, ListOf, Optional, Or, TEXT, Type, keys, table};
use super::item::{Document, Item};
use super::tree::{Entry, Kind, Node, Origin};
use ingest_base::bounded;
use ingest_base::fnv::fnv;
use ingest_base::private::Directory;

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
                let text = bounded::file_of_text(&file, bounded::DOCUMENT);
                text.map_err(|error| format!("{}: {error}", file.display()))
            }
            (None, Some(words)) => self.printed(words, kept),
            _ => Err("write either `file` or `command`".to_owned()),
        }
    }

    /// What the command prints, or printed within `valid_for`.
    fn printed(&self, words: &[String], kept: Option<Kept<'_>>) -> Result<String, String> {
        let name = format!("regions-{:032x}.txt", fnv(&words.join("\0")));
        // Before the first run there is no state directory, and the command is run again.
        let kept = kept.and_then(|kept| Some((kept, Directory::open(kept.directory).ok()?)));
        let earlier = kept
            .as_ref()
            .and_then(|(_, state)| state.open_file(&name).ok());
        if let Some(file) = earlier.as_ref().filter(|file| self.is_valid(file))
            && let Ok(text) = bounded::text(file, bounded::DOCUMENT)
        {
            return Ok(text);
        }
        match run(words) {
            Ok(printed) => {
                if let Some((kept, state)) = &kept
                    && !kept.is_dry
                    // What is no list is not kept: it would stand in for an earlier one for as long as `valid_for`.
                    && parsed(&printed, &Origin::Line(1)).is_ok()
                    && let Err(error) = state.replace(&name, printed.as_bytes())
                {
                    let file = kept.directory.join(name);
                    tracing::warn!("cannot keep the regions in {}: {error}", file.display());
                }
                Ok(printed)
            }
            Err(why) => match earlier.map(|file| bounded::text(file, bounded::DOCUMENT)) {
                Some(Ok(text)) => {
                    tracing::warn!("{why}; using the regions that it printed earlier");
                    Ok(text)
                }
                Some(Err(_)) | None => Err(why),
            },
        }
    }

    fn is_valid(&self, file: &File) -> bool {
        let written = file.metadata().and_then(|about| about.modified());
        // A file from the future, which a clock that was set back leaves, counts as new.
        let age = written.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
        age.is_ok_and(|age| age < self.valid_for)
    }
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
    let Some(output) = child.stdout.take() else {
        return Err(failed("has no output".to_owned()));
    };
    // Beside the waiting: a command that fills the pipe would wait for a reader until it is killed.
    let (sender, read) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody waits for it any more where the time is over. A longer output is not read: its writer then gets SIGPIPE.
        let _ = sender.send(bounded::text(output, bounded::DOCUMENT));
    });
    let began = Instant::now();
    let mut ended = None;
    let status = loop {
        ended = ended.or_else(|| read.try_recv().ok());
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if matches!(ended, Some(Err(_))) => {
                end(&mut child);
                break ExitStatus::default();
            }
            Ok(None) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Ok(None) => {
                end(&mut child);
                return Err(failed(format!("took longer than {} s", PATIENCE.as_secs())));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    // A process that the command left behind can keep the output open for ever.
    match ended.map_or_else(|| read.recv_timeout(AFTER_ITS_END), Ok) {
        Ok(Err(error)) => Err(failed(format!("printed no list: {error}"))),
        _ if !status.success() => Err(failed(format!("failed: {status}"))),
        Ok(Ok(text)) => Ok(text),
        Err(_) => Err(failed(
            "ended, and a process that it started keeps its output open: redirect the output of that process"
                .to_owned(),
        )),
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
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
