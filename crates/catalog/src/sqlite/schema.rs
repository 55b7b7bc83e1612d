use ingest_sqlite::Schema;

/// What a catalog file holds.
///
/// Times are RFC 3339 in UTC with six digits of a second, so that they sort as text.
///
/// | table | what a row is |
/// | --- | --- |
/// | `record` | a thing that an upstream returned, as it was when last seen; `text_hash` tells whether its text changed; `changed_at` is when its body last changed or it returned; `gone_at` is null unless no list has it any more |
/// | `listing` | a record's place in what a step of a pass returned, from 1; stays when the record is dropped; `version` is a hash of its body there, in a list that stops at what is known; `requested` is the id with which a step of ids requested it, and `parent` the id of the record that named that id: a record of several parents has a row for each, the later ones at the end |
/// | `pass` | a walk of a job over a region; `outcome` is null while it is open, `failed` where it landed no page; `units` is JSON, by limit; `cut` is 1 where `max_pages` ended a step that names `{since}`; `greatest` is JSON: the job's `since.at`, and the greatest value seen there; `slice_from` and `slice_to` are the span of time that it fetches, in a job with slices; `left_at` is when a run last left it, `failed` is 1 if that run failed, `notes` is why it got no further and what it noticed, `request` is a hash of what the job requested where it was refused or is doubtful, `doubts` is JSON: what cannot happen in a list that is read correctly, and `relists` tells whether it lists everything again |
/// | `checkpoint` | a landed page and the cursor that led on from it; null when the step was done; `request` names the step's call and a hash of its parameters; `empty_pages` is how many pages in a row were empty; `cut` is 1 where `max_pages` ended the step; `list` is JSON: what the pages until then showed of the list, so that one that is resumed is judged as one that was not stopped; `landing` is the number of the landing, so that one that is repeated is stored once |
/// | `lasting_cursor` | a list of which a pass reads only what is new: the cursor at its end, with which the next pass begins, null when the upstream no longer accepted it; or, where the list stops at what is known, whether this pass `stopped` before its end; `request` as in `checkpoint` |
/// | `restart` | a step of a pass that was started over |
/// | `absent` | an id that was requested and not returned, and when; one that the upstream forbids can have a time to come, before which it is not requested again |
/// | `kind` | how a call's records are read: JSON of the pointers to their text, and of the columns of their view |
/// | `record_version` | a former body of a record of a kind with `history`, the pass whose page replaced it, and when |
/// | `estimate` | what a call is expected to cost whose answers tell it; `units` is JSON, by limit |
/// | `call_facts` | what the lists of a call showed: JSON |
/// | `tag` | a page that came under an `ETag`: the request, its records' ids as JSON, and the cursor that led on |
/// | `batch` | ids that were requested together and are between two pages: those not returned yet, and the cursors; JSON; `began` is the time with which its requests are rendered; `greatest` as in `pass`, of its pages |
/// | `id_since` | the last complete list of an id that steps of a call requested for a job: `began` is when its pass started, `greatest` as in `pass`; the next list takes `{since}` from it; `cursor` is the one with which that list begins, and `request` that of its step |
/// | `record_words` | the text of a record that is searched, by its number: its first 64 KiB, where scripts without spaces have an invisible one around each character |
/// | `record_text` | full-text index of `record_words`; `rowid` is `record.number`. Every SQLite from 3.38 on that has FTS5 reads it |
///
/// `pass.pages` and `pass.records` count the rows in `checkpoint` and `listing`; `pass.requests` and `pass.units` what
/// was spent, pages that a restart threw away included.
///
/// Scripts without spaces are in the index a character a word, so that any part of a title is found: to ask for `天気` by
/// hand is to ask for the phrase `"天 気"`.
pub const SCHEMA: Schema = Schema {
    name: "catalog",
    version: 21,
    tables: TABLES,
    former: None,
    remedy: "keep the program that wrote it, or move it away: the next run then requests everything again, and what \
        upstreams no longer return, former bodies and the history of passes are lost",
};

/// Rows of listing steps are not in the index of parents, so landing them costs no more. `pass_by_age` finds the passes since an
/// instant without a look at those before: every charge in a file asks for them. Triggers keep
/// the words equal to their record and the index equal to the words, whichever program changes a row. Datasette and sqlite-utils
/// recognize an index by `content="`.
const TABLES: &str = r#"
create table record (
    number     integer primary key,
    upstream   text not null,
    kind       text not null,
    id         text not null,
    first_seen text not null,
    last_seen  text not null,
    text_hash  integer,
    body       text not null,
    changed_at text,
    gone_at    text,
    unique (upstream, kind, id)
) strict;
create index record_by_age on record (upstream, last_seen);

create table pass (
    id          integer primary key,
    job         text not null,
    region      text not null,
    started_at  text not null,
    finished_at text,
    outcome     text check (outcome in ('complete', 'doubtful', 'refused', 'abandoned', 'failed')),
    pages       integer not null default 0,
    records     integer not null default 0,
    requests    integer not null default 0,
    units       text not null default '{}',
    cut         integer not null default 0,
    greatest    text,
    slice_from  text,
    slice_to    text,
    left_at     text,
    failed      integer not null default 0,
    notes       text,
    request     text,
    doubts      text,
    relists     integer not null default 0
) strict;
create index pass_by_outcome on pass (job, region, outcome, started_at);
create index pass_open on pass (job, started_at) where finished_at is null;
create index pass_uncut on pass (job, region, started_at) where outcome = 'complete' and cut = false;
create index pass_failed on pass (left_at) where failed = true;
create index pass_of_slice on pass (job, region, slice_from) where slice_from is not null;
create index pass_by_age on pass (started_at);

create table listing (
    pass      integer not null,
    step      integer not null,
    position  integer not null,
    call      text not null,
    upstream  text not null,
    kind      text not null,
    id        text not null,
    requested text,
    parent    text,
    version   integer,
    primary key (pass, step, position)
) strict, without rowid;
create unique index listing_of_record on listing
    (id, kind, upstream, pass, step, coalesce(requested, ''), coalesce(parent, ''));
create index listing_of_child on listing (id, kind, upstream, pass, parent) where parent is not null;

create table checkpoint (
    pass        integer not null,
    step        integer not null,
    page        integer not null,
    cursor      text,
    landed_at   text not null,
    request     text,
    empty_pages integer not null default 0,
    cut         integer not null default 0,
    list        text,
    landing     text unique,
    primary key (pass, step, page)
) strict, without rowid;
create index checkpoint_by_cursor on checkpoint (pass, step, cursor);

create table lasting_cursor (
    pass    integer not null,
    step    integer not null,
    request text not null,
    cursor  text,
    stopped integer,
    primary key (pass, request)
) strict, without rowid;
create index lasting_by_request on lasting_cursor (request, stopped);

create table restart (
    pass integer not null,
    step integer not null,
    primary key (pass, step)
) strict, without rowid;

create table absent (
    upstream text not null,
    kind     text not null,
    id       text not null,
    at       text not null,
    primary key (upstream, kind, id)
) strict, without rowid;
create index absent_by_age on absent (upstream, at);

create table kind (
    upstream text not null,
    kind     text not null,
    call     text not null,
    text     text not null,
    columns  text not null,
    primary key (upstream, kind, call)
) strict, without rowid;

create table record_version (
    number      integer primary key,
    upstream    text not null,
    kind        text not null,
    id          text not null,
    pass        integer not null,
    replaced_at text not null,
    body        text not null
) strict;
create index version_of_record on record_version (id, kind, upstream, replaced_at);
create index version_by_age on record_version (upstream, replaced_at);

create table estimate (
    upstream text not null,
    call     text not null,
    units    text not null,
    primary key (upstream, call)
) strict, without rowid;

create table call_facts (
    upstream text not null,
    call     text not null,
    facts    text not null,
    primary key (upstream, call)
) strict, without rowid;

create table tag (
    upstream text not null,
    request  text not null,
    call     text not null,
    name     text not null,
    kind     text not null,
    ids      text not null,
    next     text,
    at       text not null,
    primary key (upstream, request)
) strict, without rowid;
create index tag_by_age on tag (upstream, at);

create table batch (
    pass        integer not null,
    step        integer not null,
    ids         text not null,
    missing     text not null,
    cursors     text not null,
    began       text not null,
    empty_pages integer not null default 0,
    greatest    text,
    primary key (pass, step, ids)
) strict, without rowid;

create table id_since (
    job      text not null,
    call     text not null,
    id       text not null,
    began    text not null,
    greatest text,
    request  text,
    cursor   text,
    primary key (job, call, id)
) strict, without rowid;

create table record_words (
    number integer primary key,
    text   text not null
) strict;
create virtual table record_text using fts5 (
    text,
    content="record_words",
    content_rowid="number",
    tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
);
create trigger words_added after insert on record_words begin
    insert into record_text (rowid, text) values (new.number, new.text);
end;
create trigger words_changed after update on record_words begin
    insert into record_text (record_text, rowid, text) values ('delete', old.number, old.text);
    insert into record_text (rowid, text) values (new.number, new.text);
end;
create trigger words_dropped after delete on record_words begin
    insert into record_text (record_text, rowid, text) values ('delete', old.number, old.text);
end;
create trigger record_dropped after delete on record begin
    delete from record_words where number = old.number;
end;
"#;
