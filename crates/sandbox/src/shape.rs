//! What an upstream's responses look like, as data: a shape file of a preset (`presets/shapes/`, by the path of the
//! upstream's base URL), or what the configuration itself tells. `docs/sandbox.md` describes the language.

use std::collections::BTreeMap;
use std::sync::Arc;

use include_dir::{Dir, include_dir};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::pointer::set;
use super::thing::Class;
use ingest_config::{Call, Column, ColumnType, Field, Paging, Pointer, Records, Upstream};

static SHAPES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/presets/shapes");

/// Records on a page, where neither the configuration nor the request says.
const USUAL: u64 = 20;
/// Pages are at most this large where the configuration tells nothing else.
const MOST: u64 = 10_000;
/// A list is three and a half pages long, of at most this size each, so that practice does not take long.
const USUAL_PAGE: u64 = 1_000;

/// The shapes of an upstream's responses.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamShape {
    /// The path of its base URL, or the end of that path.
    base_path: String,
    /// How ids look, by class.
    pub classes: BTreeMap<String, Class>,
    pub parameters: Parameters,
    /// Templates by name.
    pub shapes: Map<String, Value>,
    /// What every record has.
    item: Value,
    /// The response around the records.
    answer: Value,
    /// How it refuses, by reason; of several, the first that fits the limit's name.
    pub refusals: BTreeMap<String, Vec<RefusalShape>>,
    /// What its calls return, by path.
    calls: BTreeMap<String, CallShape>,
}

/// The upstream's own names of the parameters that it interprets; `None`: it has no such parameter.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    /// Ids, joined by commas.
    pub ids: Option<String>,
    /// At most this many of them.
    pub most_ids: Option<usize>,
    pub parts: Option<String>,
    pub size: Option<String>,
    pub cursor: Option<String>,
    /// A country of two letters.
    pub region: Option<String>,
    pub after: Option<String>,
    pub before: Option<String>,
    /// A parameter and its value, for the newest first.
    pub newest: Option<(String, String)>,
    /// The values of other parameters, with the refusal of any other value.
    pub values: BTreeMap<String, (Vec<String>, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefusalShape {
    /// The upstream's names of the limits that it is for: `""` is a limit without a name, `*text` any that ends so; none
    /// is any limit.
    #[serde(default)]
    pub names: Vec<String>,
    /// `None`: the reason gives it.
    pub status: Option<u16>,
    #[serde(default)]
    pub facts: Map<String, Value>,
    pub body: Value,
}

/// The responses of one call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CallShape {
    pub kind: String,
    pub list_kind: String,
    pub class: String,
    pub list: ListShape,
    /// How many records a list holds.
    pub total: u64,
    /// The parameters of which a request must have one; none where it need not.
    pub filters: Vec<String>,
    /// `None`: one page is all.
    pub page: Option<PageRange>,
    /// The records of a fixed list: id and name.
    pub values: Vec<(String, String)>,
    /// How many of a hundred requested ids do not exist.
    pub absent: u64,
    pub parent: Option<Parent>,
    /// In place of what every record of the upstream has.
    pub item: Option<Value>,
    /// In place of the response of the other calls.
    answer: Option<Value>,
    /// What a record holds by part.
    pub parts: Map<String, Value>,
}

/// What a list consists of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ListShape {
    /// How many of a hundred are in the lists of all regions. Such a list is shuffled.
    pub shared: u64,
    /// How many of a hundred are from the region's chart; at most 100.
    pub charted: u64,
    /// The parameters that the list is about; `None`: the call's filters.
    pub about: Option<Vec<String>>,
}

/// How many records a page holds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageRange {
    pub least: u64,
    pub most: u64,
    pub usual: u64,
}

/// The thing that a list belongs to: it may be unknown, or have no such list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    pub param: String,
    pub class: String,
    /// The refusal when it is unknown.
    pub unknown: String,
    /// The refusal when it has no such list.
    pub off: String,
}

/// The shape of a call's responses.
#[derive(Debug, Clone)]
pub struct ResponseShape {
    pub upstream: Arc<UpstreamShape>,
    pub call: CallShape,
    /// The class of its records.
    pub class: Class,
    /// Whether the configuration is all that is known: then nothing in it can be shown to be wrong.
    pub is_generated: bool,
}

/// Every shape file.
///
/// # Errors
/// When one is no shape file.
pub fn shipped() -> serde_json::Result<Vec<Arc<UpstreamShape>>> {
    let files = SHAPES.files().filter_map(|file| file.contents_utf8());
    files
        .map(|text| Ok(Arc::new(UpstreamShape::read(text)?)))
        .collect()
}

impl UpstreamShape {
    fn read(text: &str) -> serde_json::Result<Self> {
        let mut shape: Self = serde_json::from_str(text)?;
        for (key, class) in &mut shape.classes {
            if class.name.is_empty() {
                class.name.clone_from(key);
            }
        }
        Ok(shape)
    }

    fn call(&self, upstream: &Upstream, call: &Call) -> Option<&CallShape> {
        let base = upstream.base_url.path().trim_end_matches('/');
        let path = format!("{base}/{}", call.path.as_ref()?.as_str());
        let (_, path) = path.split_once(self.base_path.as_str())?;
        self.calls.get(path.trim_matches('/'))
    }
}

impl ResponseShape {
    /// The shape of a shape file that describes this call; otherwise what the configuration reads.
    pub fn new(
        files: &[Arc<UpstreamShape>],
        upstream: &Upstream,
        call: &Call,
        read_by_jobs: &[(&Pointer, String)],
    ) -> Option<Self> {
        let mut described = files.iter().filter_map(|file| {
            let call = file.call(upstream, call)?;
            Some(Self {
                class: file.classes.get(&call.class).cloned().unwrap_or_default(),
                call: call.clone(),
                upstream: Arc::clone(file),
                is_generated: false,
            })
        });
        described
            .next()
            .or_else(|| Self::generated(call, read_by_jobs))
    }

    /// A shape that has whatever the configuration reads of a response.
    fn generated(call: &Call, read_by_jobs: &[(&Pointer, String)]) -> Option<Self> {
        let records = call.records.as_ref()?;
        let class = Class {
            name: records.kind.clone(),
            bytes: 8,
            ..Class::default()
        };
        let mut answer = Value::Null;
        set(&mut answer, records.at.tokens(), "@items".into());
        Some(Self {
            class,
            upstream: Arc::new(UpstreamShape {
                item: record(records, read_by_jobs),
                answer,
                ..UpstreamShape::default()
            }),
            call: CallShape {
                list: ListShape {
                    shared: 40,
                    ..ListShape::default()
                },
                total: usual_total(&call.paging),
                page: page_range(&call.paging),
                absent: 2,
                ..CallShape::default()
            },
            is_generated: true,
        })
    }

    /// A class by its name in the shape file.
    pub fn class_named(&self, name: &str) -> Option<&Class> {
        self.upstream.classes.get(name)
    }

    /// A record with these parts.
    pub fn item(&self, parts: &[&str]) -> Value {
        let mut item = self
            .call
            .item
            .as_ref()
            .unwrap_or(&self.upstream.item)
            .clone();
        let wanted = |name: &str| parts.contains(&part_name(name));
        if let Value::Object(members) = &mut item {
            let parts = self.call.parts.iter();
            let parts = parts.filter(|(name, part)| !part.is_null() && wanted(name));
            members.extend(parts.map(|(name, part)| (name.clone(), part.clone())));
        }
        item
    }

    /// The response around the records.
    pub fn answer(&self) -> &Value {
        self.call.answer.as_ref().unwrap_or(&self.upstream.answer)
    }
}

/// The name of a member whose key may end in its share.
pub fn part_name(key: &str) -> &str {
    key.split_once('?').map_or(key, |(name, _)| name)
}

/// How many records a list holds, if nobody says: three and a half pages.
fn usual_total(paging: &Paging) -> u64 {
    if paging.most_pages(None) == Some(1) {
        return USUAL;
    }
    let size = paging
        .size()
        .map_or(USUAL, |size| size.size)
        .min(USUAL_PAGE);
    size.saturating_mul(3).saturating_add(size / 2)
}

fn page_range(paging: &Paging) -> Option<PageRange> {
    (paging.most_pages(None) != Some(1)).then(|| PageRange {
        least: 1,
        most: MOST,
        usual: paging.size().map_or(USUAL, |size| size.size).clamp(1, MOST),
    })
}

/// A template of a record: whatever the configuration reads of one is in it.
fn record(records: &Records, read_by_jobs: &[(&Pointer, String)]) -> Value {
    let mut record = Value::Null;
    let mut put = |at: &Pointer, value: String| set(&mut record, at.tokens(), value.into());
    let ids = records.id.iter().filter_map(Field::pointer);
    for (number, at) in ids.enumerate() {
        put(
            at,
            if number == 0 {
                "@id".to_owned()
            } else {
                format!("@hex:{at}")
            },
        );
    }
    for (at, value) in read_by_jobs {
        put(at, value.clone());
    }
    // A record of a list is there.
    let removed = records.removed.as_ref().map(|removed| &removed.at);
    let columns = records.columns.iter();
    for (name, Column { at, kind, .. }) in columns.filter(|(_, column)| Some(&column.at) != removed)
    {
        put(at, format!("@{}:{at}", column_value(name, *kind)));
    }
    for at in &records.text {
        put(at, format!("@title:{at}"));
    }
    record
}

/// What a column of this name is likely to hold.
fn column_value(column: &str, kind: Option<ColumnType>) -> &'static str {
    const COUNTS: [&str; 10] = [
        "count", "views", "stars", "size", "number", "total", "rank", "users", "sessions", "score",
    ];
    let named = |parts: &[&str]| parts.iter().any(|part| column.contains(part));
    let is_number = matches!(kind, Some(ColumnType::Integer | ColumnType::Real));
    if is_number {
        "number:1000000"
    } else if kind == Some(ColumnType::Timestamp)
        || column.ends_with("_at")
        || named(&["date", "time"])
    {
        "time"
    } else if named(&COUNTS) {
        "number:1000000"
    } else if column.contains("url") {
        "url"
    } else {
        "title"
    }
}
