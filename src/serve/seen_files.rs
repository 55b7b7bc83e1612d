//! The files of the state that a server has seen. What it answers without one of them would be wrong.

use std::collections::BTreeSet;
use std::io;

use parking_lot::Mutex;

use crate::commands::Error;
use crate::commands::environment::{CATALOG_FILE, Environment, is_missing};
use ingest_ledger::LEDGER_FILE;

/// The names of the files that the server has seen.
#[derive(Default)]
pub struct SeenFiles(Mutex<BTreeSet<&'static str>>);

impl SeenFiles {
    /// Notes which files are there.
    ///
    /// # Errors
    /// When one is gone that was there before.
    pub fn expect(&self, environment: &Environment) -> Result<(), Error> {
        let ledger = environment.config.ledger.store.is_file();
        let ledger = ledger.then_some(LEDGER_FILE);
        let catalog = environment.database().is_none().then_some(CATALOG_FILE);
        let mut seen = self.0.lock();
        for name in ledger.into_iter().chain(catalog) {
            let path = environment.state_dir.join(name);
            if !is_missing(&path) {
                seen.insert(name);
            } else if seen.contains(name) {
                let what = format!(
                    "{} was deleted, or moved away with its directory; put it back, or start this process again to go on \
                     without it",
                    path.display()
                );
                return Err(Error::io(what)(io::ErrorKind::NotFound.into()));
            }
        }
        Ok(())
    }
}
