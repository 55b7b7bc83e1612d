//! `ingest presets` lists the presets, `ingest init` writes one. They are the files of `presets/`, which the program contains
//! without knowing their names.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use include_dir::{Dir, include_dir};

use serde_json::json;

use super::names::unknown;
use super::output::Message;
use super::{Error, draft, output};
use crate::cli::{Global, InitArgs};
use crate::exit::Exit;

// cargo does not notice a new file there: this one has to be touched.
static PRESETS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/presets");
/// The file that is found without `--config`.
const USUAL: &str = "quotas.toml";

/// The name of a file that stands for stdout.
const STDOUT: &str = "-";
/// The shipped configuration.
pub const SHIPPED: &str = include_str!("../../quotas.toml");

/// What names the schema to an editor, in the first line of a file.
const SCHEMA: &str = "#:schema ";

/// A configuration to start from.
struct Preset {
    name: &'static str,
    text: &'static str,
}

impl Preset {
    /// Every preset, by name.
    fn all() -> Vec<Self> {
        let named = PRESETS.files().filter_map(|file| {
            let name = file.path().to_str()?.strip_suffix(".toml")?;
            Some(Self {
                name,
                text: file.contents_utf8()?,
            })
        });
        let mut all: Vec<Self> = named.collect();
        all.sort_by_key(|preset| preset.name);
        all
    }

    /// Its first comment behind the name of the schema, up to an empty line.
    fn about(&self) -> String {
        let lines = without_schema(self.text).lines();
        let lines = lines.map_while(|line| line.strip_prefix("# "));
        lines.collect::<Vec<_>>().join(" ")
    }
}

/// The names of the presets.
pub fn names() -> Vec<String> {
    Preset::all()
        .iter()
        .map(|preset| preset.name.to_owned())
        .collect()
}

/// Lists the presets.
pub fn list(global: &Global) -> Result<Exit, Error> {
    let presets = Preset::all();
    let listed = presets
        .iter()
        .map(|one| json!({ "name": one.name, "about": one.about() }));
    let report = json!({ "presets": listed.collect::<Vec<_>>() });
    output::report(global, &report, |_| {
        let width = presets.iter().map(|preset| preset.name.len()).max();
        let width = width.unwrap_or_default();
        let line = |preset: &Preset| format!("{:width$}  {}", preset.name, preset.about());
        Message::Result(presets.iter().map(line).collect::<Vec<_>>().join("\n"))
    })?;
    Ok(Exit::Success)
}

/// Writes a preset, or the shipped configuration, to a file that does not exist yet, or with `-` to stdout.
pub fn init(global: &Global, args: &InitArgs) -> Result<Exit, Error> {
    let text = match &args.answer {
        Some(file) => draft::draft(file)?.into(),
        None => text_of(args.preset.as_deref())?,
    };
    let text = format!("{SCHEMA}./quotas.schema.json\n{}", without_schema(&text));
    if args.file == Path::new(STDOUT) {
        output::bytes(text.as_bytes())?;
        return Ok(Exit::Success);
    }
    write(&args.file, &text)?;
    output::report(
        global,
        &json!({ "file": args.file.to_string_lossy() }),
        |_| {
            let file = args.file.display();
            let named = if args.file == Path::new(USUAL) {
                String::new()
            } else {
                format!(" --config {file}")
            };
            Message::Done(format!(
                "Wrote {file}. Try it with `ingest{named} --region all --sandbox`; then set its \
            secret and run `ingest{named} check`."
            ))
        },
    )?;
    Ok(Exit::Success)
}

fn text_of(name: Option<&str>) -> Result<Cow<'static, str>, Error> {
    let Some(name) = name else {
        return Ok(SHIPPED.into());
    };
    let presets = Preset::all();
    match presets.iter().find(|preset| preset.name == name) {
        Some(preset) => Ok(preset.text.into()),
        None => {
            let names = presets.iter().map(|preset| preset.name);
            Err(unknown("preset", name, names))
        }
    }
}

/// A configuration without its first line, if that names the schema: the path is right only where the file is shipped.
fn without_schema(text: &str) -> &str {
    let named = text.strip_prefix(SCHEMA);
    named
        .and_then(|rest| rest.split_once('\n'))
        .map_or(text, |(_, rest)| rest)
}

/// Rejects an existing file: it is somebody's work.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Usage(format!(
            "{} exists and was not changed; name another file",
            path.display()
        )),
        _ => Error::Io {
            what: format!("cannot write {}", path.display()),
            source: error,
        },
    })
}
