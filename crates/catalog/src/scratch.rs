//! A full-text index of a few texts, in memory: it ranks them, and cuts their excerpts.

use rusqlite::Connection;

use super::words;

const TABLE: &str = r#"create virtual table hit using fts5 (
    text, tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co M*'")"#;
const INSERT: &str = "insert into hit (rowid, text) values (?1, ?2)";
const BEST: &str = "select rowid from hit where hit match ?1 order by rank";
const EXCERPTS: &str = "select rowid, snippet(hit, 0, char(0xE000), char(0xE001), '…', 32) from hit where hit match ?1";

/// An index of texts, which it names by their places.
pub struct Scratch(Connection);

impl Scratch {
    pub fn new(texts: impl Iterator<Item = rusqlite::Result<String>>) -> rusqlite::Result<Self> {
        let scratch = Connection::open_in_memory()?;
        // One transaction, which is never committed: the index writes a segment at the end of each.
        scratch.execute_batch("begin")?;
        scratch.execute_batch(TABLE)?;
        let mut insert = scratch.prepare(INSERT)?;
        for (number, text) in (0_u32..).zip(texts) {
            insert.execute((number, words::part(&text?)))?;
        }
        drop(insert);
        Ok(Self(scratch))
    }

    /// The texts that match all of [`words::queries`], best match first.
    pub fn best(&self, all: &str) -> rusqlite::Result<Vec<usize>> {
        let mut best = self.0.prepare(BEST)?;
        let places = best.query_map([all], |row| row.get::<_, u32>(0))?;
        places.map(|place| Ok(place? as usize)).collect()
    }

    /// The excerpts of the texts that match.
    pub fn excerpts(&self, all: &str) -> rusqlite::Result<Vec<(usize, String)>> {
        let mut excerpts = self.0.prepare(EXCERPTS)?;
        let rows = excerpts.query_map([all], |row| {
            let excerpt: String = row.get(1)?;
            Ok((row.get::<_, u32>(0)? as usize, words::join(&excerpt)))
        })?;
        rows.collect()
    }
}
