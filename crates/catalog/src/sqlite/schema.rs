use std::sync::LazyLock;

use ingest_sqlite::Schema;

use crate::sql::Dialect;
use crate::tables::created;

/// What a catalog file holds.
pub fn schema() -> Schema {
    static TABLES: LazyLock<String> = LazyLock::new(|| created(Dialect::Sqlite, MORE));
    Schema {
        name: "catalog",
        version: 24,
        tables: &TABLES,
        remedy: "keep the program that wrote it, or move it away: the next run then requests everything again, and what \
            upstreams no longer return, former bodies and the history of passes are lost",
    }
}

/// What a file has beside the tables.
///
/// | table | what a row is |
/// | --- | --- |
/// | `record_words` | the text of a record that is searched, by its number: its first 64 KiB, where scripts without spaces have an invisible one around each character |
/// | `record_text` | full-text index of `record_words`; `rowid` is `record.number`. Every SQLite from 3.38 on that has FTS5 reads it |
///
/// Scripts without spaces are in the index a character a word, so that any part of a title is found: to ask for `天気` by
/// hand is to ask for the phrase `"天 気"`. Triggers keep the words equal to their record and the index equal to the words, whichever
/// program changes a row. Datasette and sqlite-utils recognize an index by `content="`.
const MORE: &str = r#"
create index pass_by_age on pass (started_at);

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
