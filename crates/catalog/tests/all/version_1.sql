create table record (
    number     integer primary key,
    upstream   text not null,
    kind       text not null,
    id         text not null,
    first_seen text not null,
    last_seen  text not null,
    text_hash  integer,
    body       text not null,
    unique (upstream, kind, id)
) strict;
create index record_by_age on record (upstream, last_seen);

create table pass (
    id          integer primary key,
    job         text not null,
    region      text not null,
    started_at  text not null,
    finished_at text,
    outcome     text check (outcome in ('complete', 'refused', 'abandoned')),
    pages       integer not null default 0,
    records     integer not null default 0,
    requests    integer not null default 0,
    units       text not null default '{}'
) strict;
create index pass_by_outcome on pass (job, region, outcome, started_at);
create index pass_open on pass (job, started_at) where finished_at is null;

create table listing (
    pass     integer not null,
    step     integer not null,
    position integer not null,
    call     text not null,
    upstream text not null,
    kind     text not null,
    id       text not null,
    primary key (pass, step, position)
) strict, without rowid;
create unique index listing_of_record on listing (id, kind, upstream, pass, step);

create table checkpoint (
    pass      integer not null,
    step      integer not null,
    page      integer not null,
    cursor    text,
    landed_at text not null,
    primary key (pass, step, page)
) strict, without rowid;
create unique index checkpoint_by_cursor on checkpoint (pass, step, cursor);

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

create virtual table record_text using fts5 (
    text,
    content = '',
    contentless_delete = 1,
    tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
);
