//! The tables of a catalog, written once for both databases: what a file or a schema is made with, and what a copy contains.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::sql::{Dialect, Insert, Row, StoreError, Tx, Value, values};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// A number.
    Integer,
    /// Text of any characters, JSON too.
    Text,
    Time,
    /// Yes or no.
    Truth,
}

/// A table of every catalog.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// Its columns. The first ones are its key.
    pub columns: Vec<(&'static str, Holds)>,
    /// The number of columns of its key.
    pub key: usize,
    /// Its column that rises with every row; `None` if it has none.
    number: Option<&'static str>,
}

impl Table {
    /// The statement by which the next number of PostgreSQL follows those of copied rows; in a file it does by itself. `None` without
    /// numbers.
    pub fn next_number(&self) -> Option<String> {
        let (table, column) = (self.name, self.number?);
        Some(format!(
            "select setval('{table}_{column}_seq', greatest((select max({column}) from {table}), 1))"
        ))
    }

    pub fn key_columns(&self) -> &[(&'static str, Holds)] {
        self.columns.get(..self.key).unwrap_or(&self.columns)
    }

    /// The names of columns, separated by commas, each behind `before`.
    pub fn names(columns: &[(&str, Holds)], before: &str) -> String {
        let names = columns.iter().map(|(name, _)| format!("{before}{name}"));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The statement that selects the columns.
    pub fn select(&self) -> String {
        format!(
            "select {} from {}",
            Self::names(&self.columns, ""),
            self.name
        )
    }

    /// Reads a row of [`Self::select`].
    pub fn row(&self, row: &Row) -> Result<CopiedRow, StoreError> {
        let columns = self.columns.iter().enumerate();
        let value = |(place, (_, holds)): (usize, &(&str, Holds))| {
            Ok(match holds {
                Holds::Integer => Value::Integer(row.optional_integer(place)?),
                Holds::Text => Value::Text(row.optional_text(place)?.map(Cow::Owned)),
                Holds::Time => Value::Time(row.optional_time(place)?),
                Holds::Truth => Value::Truth(row.optional_truth(place)?),
            })
        };
        columns.map(value).collect()
    }
}

/// The statements that create the tables. In braces stands what the databases say in different words; of a column it also says what a
/// copy finds there. `{id}` is a number that rises with every row, `{own integer}` and `{own text}` are not copied, `{object}` is the
/// empty object of JSON, and behind a table stands `{table}`, or `{by key}` where its rows are kept in the order of the primary key.
///
/// Times are RFC 3339 in UTC with six digits of a second in a file, so that they sort as text, and `timestamptz` in PostgreSQL, where
/// all text compares byte by byte (collation `C`), as it does in a file. There U+0000 in an id, cursor or name is stored as U+001A and
/// `0`, U+001A as U+001A and `1`, because `text` cannot contain U+0000; and an index has hashes of texts that have no limit, because an
/// index row has 2.7 kB at most.
///
/// | table | what a row is |
/// | --- | --- |
/// | `record` | a thing that an upstream returned, as it was when last seen; `number` rises in the order of first sight; `text_hash` tells whether its text changed; `changed_at` is when its body last changed or it returned; `gone_at` is null unless no list has it any more |
/// | `listing` | a record's place in what a step of a pass returned, from 1; stays when the record is dropped; `version` is a hash of its body there, in a list that stops at what is known; `requested` is the id with which a step of ids requested it, and `parent` the id of the record that named that id: a record of several parents has a row for each, the later ones at the end |
/// | `pass` | a walk of a job over a region; `outcome` is null while it is open, `failed` where it landed no page; `units` is JSON, by limit; `cut` tells whether `max_pages` ended a step that names `{since}`; `greatest` is JSON: the job's `since.at`, and the greatest value of each list there; `slice_from` and `slice_to` are the span of time that it fetches, in a job with slices; `left_at` is when a run last left it, `failed` tells whether that run failed, `notes` is why it got no further and what it noticed, `request` is a hash of what the job requested where it was refused or is doubtful, `doubts` is JSON: what cannot happen in a list that is read correctly, `relists` tells whether it lists everything again, `token` is what its holder wrote to it, and `landed` is how many writes on it there were |
/// | `wanted` | an id that a record names which a pass listed, at a place in its body; empty where it names none; kept while the pass is open, and of the last complete pass of each region |
/// | `checkpoint` | a landed page and the cursor that led on from it; null when the step was done; `request` names the step's call and a hash of its parameters; `empty_pages` is how many pages in a row were empty; `cut` tells whether `max_pages` ended the step; `list` is JSON: what the pages until then showed of the list, so that one that is resumed is judged as one that was not stopped; `landing` is the number of the landing, so that one that is repeated is stored once |
/// | `lasting_cursor` | a list of which a pass reads only what is new: the cursor at its end, with which the next pass begins, null when the upstream no longer accepted it; or, where the list stops at what is known, whether this pass `stopped` before its end; `request` as in `checkpoint` |
/// | `restart` | a step of a pass that was started over, and when |
/// | `absent` | an id that was requested and not returned, and when; one that the upstream forbids can have a time to come, before which it is not requested again |
/// | `kind` | how a call's records are read: JSON of the pointers to their text, and of the columns of their view |
/// | `record_version` | a former body of a record of a kind with `history`, the pass whose page replaced it, and when |
/// | `estimate` | what a call is expected to cost whose answers tell it; `units` is JSON, by limit |
/// | `call_facts` | what the lists of a call showed: JSON |
/// | `tag` | a page that came under an `ETag`: the request, its records' ids as JSON, and the cursor that led on |
/// | `batch` | ids that were requested together and are between two pages: those not returned yet, and the cursors; JSON; `began` is the time with which its requests are rendered; `greatest` as in `pass`, of its pages |
/// | `id_since` | the last complete list of an id that steps of a call requested for a job: `began` is when its pass started, `greatest` as in `pass`; the next list takes `{since}` from it; `cursor` is the one with which that list begins, and `request` that of its step |
///
/// `pass.pages` and `pass.records` count the rows in `checkpoint` and `listing`; `pass.requests` and `pass.units` what
/// was spent, pages that a restart threw away included.
// Rows of listing steps are not in the index of parents, so landing them costs no more. The index of passes by age finds those since an
// instant without a look at those before: every charge in a file asks for them.
const TABLES: &str = "
create table record (
    number     {id},
    upstream   {text} not null,
    kind       {text} not null,
    id         {text} not null,
    first_seen {time} not null,
    last_seen  {time} not null,
    text_hash  {own integer},
    body       {json} not null,
    changed_at {time},
    gone_at    {time},
    unique (upstream, kind, id)
){table};
create index record_by_age on record (upstream, last_seen);

create table record_version (
    number      {id},
    upstream    {text} not null,
    kind        {text} not null,
    id          {text} not null,
    pass        {integer} not null,
    replaced_at {time} not null,
    body        {json} not null
){table};
create index version_of_record on record_version (id, kind, upstream, replaced_at);
create index version_by_age on record_version (upstream, replaced_at);

create table pass (
    id          {id},
    job         {text} not null,
    region      {text} not null,
    started_at  {time} not null,
    finished_at {time},
    outcome     {text} check (outcome in ('complete', 'doubtful', 'refused', 'abandoned', 'failed')),
    pages       {integer} not null default 0,
    records     {integer} not null default 0,
    requests    {integer} not null default 0,
    units       {json} not null default '{object}',
    cut         {truth} not null default false,
    greatest    {text},
    slice_from  {time},
    slice_to    {time},
    left_at     {time},
    failed      {truth} not null default false,
    notes       {text},
    request     {text},
    doubts      {json},
    relists     {truth} not null default false,
    token       {own text},
    landed      {own integer} not null default 0
){table};
create index pass_by_outcome on pass (job, region, outcome, started_at);
create index pass_open on pass (job, region, started_at) where finished_at is null;
create unique index pass_held on pass
    (job, region, coalesce(slice_from, '-infinity'), coalesce(slice_to, '-infinity')) where finished_at is null;
create index pass_uncut on pass (job, region, started_at) where outcome = 'complete' and cut = false;
create index pass_failed on pass (left_at) where failed = true;
create index pass_of_slice on pass (job, region, slice_from) where slice_from is not null;

create table listing (
    pass      {integer} not null,
    step      {integer} not null,
    position  {integer} not null,
    call      {text} not null,
    upstream  {text} not null,
    kind      {text} not null,
    id        {text} not null,
    requested {text},
    parent    {text},
    version   {integer},
    primary key (pass, step, position)
){by key};
create unique index listing_of_record on listing
    (id, kind, upstream, pass, step, coalesce(requested, ''), coalesce(parent, ''));
create index listing_of_child on listing (id, kind, upstream, pass, parent) where parent is not null;

create table wanted (
    pass   {integer} not null,
    step   {integer} not null,
    at     {text} not null,
    record {text} not null,
    id     {text} not null,
    primary key (pass, step, at, record, id)
){by key};

create table checkpoint (
    pass        {integer} not null,
    step        {integer} not null,
    page        {integer} not null,
    cursor      {text},
    landed_at   {time} not null,
    request     {text},
    empty_pages {integer} not null default 0,
    cut         {truth} not null default false,
    list        {json},
    landing     {own text} unique,
    primary key (pass, step, page)
){by key};
create index checkpoint_by_cursor on checkpoint (pass, step, {hash cursor});

create table lasting_cursor (
    pass    {integer} not null,
    request {text} not null,
    step    {integer} not null,
    cursor  {text},
    stopped {truth},
    primary key (pass, request)
){by key};
create index lasting_by_request on lasting_cursor (request, stopped);

create table restart (
    pass {integer} not null,
    step {integer} not null,
    at   {time} not null,
    primary key (pass, step)
){by key};

create table absent (
    upstream {text} not null,
    kind     {text} not null,
    id       {text} not null,
    at       {time} not null,
    primary key (upstream, kind, id)
){by key};
create index absent_by_age on absent (upstream, at);

create table kind (
    upstream {text} not null,
    kind     {text} not null,
    call     {text} not null,
    text     {json} not null,
    columns  {json} not null,
    primary key (upstream, kind, call)
){by key};

create table estimate (
    upstream {text} not null,
    call     {text} not null,
    units    {json} not null,
    primary key (upstream, call)
){by key};

create table call_facts (
    upstream {text} not null,
    call     {text} not null,
    facts    {json} not null,
    primary key (upstream, call)
){by key};

create table tag (
    upstream {text} not null,
    request  {text} not null,
    call     {text} not null,
    name     {text} not null,
    kind     {text} not null,
    ids      {json} not null,
    next     {text},
    at       {time} not null
){table};
create unique index tag_of_request on tag (upstream, {hash request});
create index tag_by_age on tag (upstream, at);

create table batch (
    pass        {integer} not null,
    step        {integer} not null,
    ids         {json} not null,
    missing     {json} not null,
    cursors     {json} not null,
    began       {time} not null,
    empty_pages {integer} not null default 0,
    greatest    {text}
){table};
create index batch_of_step on batch (pass, step);

create table id_since (
    job      {text} not null,
    call     {text} not null,
    id       {text} not null,
    began    {time} not null,
    greatest {text},
    request  {text},
    cursor   {text},
    primary key (job, call, id)
){by key};
";

/// The columns by which rows of tables without a primary key are found.
const KEYS: [(&str, usize); 2] = [("tag", 2), ("batch", 3)];

/// The statements that create the tables in a database, and what else it has.
pub fn created(dialect: Dialect, more: &str) -> String {
    dialect.text(TABLES, "") + more
}

/// Not copied: of what it lacks, the bodies are read.
const WANTED: &str = "wanted";

/// The tables that a copy contains. It has no leases. The target builds its full-text index and the hashes of its texts itself.
pub static COPIED: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let tables = TABLES.split("create table ").skip(1);
    let tables = tables.filter_map(table);
    tables.filter(|table| table.name != WANTED).collect()
});

/// Reads the columns of a table from its statement.
fn table(statement: &'static str) -> Option<Table> {
    let (name, columns) = statement.split_once(" (\n")?;
    let (columns, _) = columns.split_once("\n)")?;
    let (mut all, mut number) = (Vec::new(), None);
    let mut key = KEYS
        .iter()
        .find(|(table, _)| *table == name)
        .map(|(_, key)| *key);
    for line in columns.lines() {
        let line = line.trim();
        if let Some(columns) = line.strip_prefix("primary key ") {
            key = Some(columns.split(',').count());
        } else if let Some((column, kind)) = line.split_once('{') {
            let kind = kind.split('}').next()?;
            number = number.or((kind == "id").then_some(column.trim_end()));
            all.extend(holds(kind).map(|holds| (column.trim_end(), holds)));
        }
    }
    Some(Table {
        name,
        columns: all,
        number,
        key: key.unwrap_or(1),
    })
}

/// What a column of this kind holds; `None` for one that is not copied.
fn holds(kind: &str) -> Option<Holds> {
    match kind {
        "id" | "integer" => Some(Holds::Integer),
        "text" | "json" => Some(Holds::Text),
        "time" => Some(Holds::Time),
        "truth" => Some(Holds::Truth),
        _ => None,
    }
}

/// A row of a table: its columns in their order.
pub type CopiedRow = Vec<Value<'static>>;

/// The rows of a table that a condition finds for each of these keys.
pub fn rows_of(
    tx: &Tx<'_>,
    table: &str,
    which: &str,
    keys: &[i64],
) -> Result<(&'static Table, Vec<CopiedRow>), StoreError> {
    let table = COPIED.iter().find(|one| one.name == table);
    let table = table.ok_or_else(|| StoreError::Unusable("no such table".to_owned()))?;
    let sql = format!("{} where {which}", table.select());
    let rows = tx.each(&sql, values![], keys.iter().copied())?;
    let rows = rows.iter().map(|row| table.row(row));
    Ok((table, rows.collect::<Result<_, _>>()?))
}

/// Adds rows to a table.
pub fn put(tx: &Tx<'_>, table: &Table, rows: Vec<CopiedRow>) -> Result<(), StoreError> {
    let columns: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let insert = Insert {
        table: table.name,
        columns: &columns,
        tail: "",
    };
    tx.insert_later(&insert, rows)
}

/// The statement that adds a row of `listing` at the position `?4` and with the parent `?5`, with all other columns of the row of the
/// pass `?1` and the step `?2` at the position `?3`.
pub fn listing_again() -> String {
    let columns = COPIED
        .iter()
        .filter(|table| table.name == "listing")
        .flat_map(|table| &table.columns);
    let columns = columns.map(|(name, _)| match *name {
        "position" => ("position", "?4"),
        "parent" => ("parent", "?5"),
        other => (other, other),
    });
    let (names, values): (Vec<&str>, Vec<&str>) = columns.unzip();
    format!(
        "insert into listing ({}) select {} from listing where pass = ?1 and step = ?2 and position = ?3",
        names.join(", "),
        values.join(", ")
    )
}

/// Returns the tables whose rows belong to a step of a pass.
pub fn tables_of_steps() -> impl Iterator<Item = &'static str> {
    let names_step = |table: &&Table| table.columns.iter().any(|(name, _)| *name == "step");
    let copied = COPIED.iter().filter(names_step).map(|table| table.name);
    copied.chain([WANTED])
}
