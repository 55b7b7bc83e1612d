//! Pages that were paid for and that the catalog could not take: a file in the state directory, which the next run lands first.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ingest_base::private::Directory;
use ingest_catalog::{Catalog, CatalogError, Landing};
use ingest_config::Records;
use ingest_quota::Timestamp;

/// The file of unlanded pages: a JSON object per line.
#[derive(Debug, Clone)]
pub struct Unlanded {
    state_dir: PathBuf,
    path: PathBuf,
}

const FILE: &str = "unlanded.jsonl";

/// What became of a line.
enum Line {
    /// The catalog has its page.
    Landed,
    /// No page can be made of it: the process ended while it wrote the line, so no cursor moved.
    Cut,
    /// Its page stays in the file.
    Left,
}

/// How the records of an upstream's call are read, as it is configured now.
pub type KindOf<'a> = &'a (dyn Fn(&str, &str) -> Option<Arc<Records>> + Sync);

impl Unlanded {
    /// The file in a state directory, whether it exists or not.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self {
            state_dir: state_dir.to_owned(),
            path: state_dir.join(FILE),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a page, and waits until the disk has it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, landing: &Landing) -> io::Result<()> {
        let _lock = self.lock()?;
        // Not behind a line that was cut while it was written.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, landing)?;
        line.push(b'\n');
        let mut file = Directory::open(&self.state_dir)?.append(FILE)?;
        file.write_all(&line)?;
        file.sync_all()
    }

    /// Lands all pages of the file, and deletes it. The pages of a pass that another run took up since bring their new records and counts
    /// only, as any page whose pass is lost; so do those of a region that another run walked since, as far as passes that began until
    /// `latest` show.
    ///
    /// # Errors
    /// The catalog is unavailable; the pages that are left stay in the file. A page that it rejects stays there too.
    pub async fn land_all(
        &self,
        catalog: &Catalog,
        kind_of: KindOf<'_>,
        latest: Timestamp,
    ) -> Result<u64, CatalogError> {
        let failed = |error: io::Error| {
            let path = self.path.display();
            CatalogError::Failed(format!("cannot land the pages in {path}: {error}"))
        };
        if !self.path.exists() {
            return Ok(0);
        }
        // Held meanwhile, so that no other run of this machine lands them too.
        let _lock = self.lock().map_err(failed)?;
        let mut bytes = Vec::new();
        let state = Directory::open(&self.state_dir).map_err(failed)?;
        let file = state.open_file(FILE);
        match file.and_then(|mut file| file.read_to_end(&mut bytes)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            read => read.map_err(failed)?,
        };
        let (mut landed, mut left) = (0, Vec::new());
        let lines = bytes.split(|byte| *byte == b'\n');
        let mut lines = lines.filter(|line| !line.is_empty());
        let mut outcome = Ok(());
        for line in lines.by_ref() {
            match self.land(catalog, (kind_of, latest), line).await {
                Ok(Line::Landed) => landed += 1,
                Ok(Line::Cut) => {}
                Ok(Line::Left) => left.push(line),
                // No later run could store it either, and none should stop for it.
                Err(error) if !error.is_retryable() => {
                    let path = self.path.display();
                    tracing::error!("{path}: a page stays there: {error}");
                    left.push(line);
                }
                Err(error) => {
                    left.push(line);
                    outcome = Err(error);
                    break;
                }
            }
        }
        left.extend(lines);
        self.replace(&left).map_err(failed)?;
        outcome.map(|()| landed)
    }

    /// Lands the page of one line.
    async fn land(
        &self,
        catalog: &Catalog,
        (kind_of, latest): (KindOf<'_>, Timestamp),
        line: &[u8],
    ) -> Result<Line, CatalogError> {
        let path = self.path.display();
        let mut landing: Landing = match serde_json::from_slice(line) {
            Ok(landing) => landing,
            Err(error) if error.is_data() => {
                tracing::error!("{path}: a page cannot be read, and stays there: {error}");
                return Ok(Line::Left);
            }
            Err(error) => {
                tracing::error!(
                    "{path}: a page was cut while it was written, so it is requested again: {error}"
                );
                return Ok(Line::Cut);
            }
        };
        let Some(kind) = kind_of(&landing.upstream, &landing.call) else {
            tracing::error!(
                "{path}: a page of {} stays there, since that call is no longer configured with records",
                landing.call
            );
            return Ok(Line::Left);
        };
        (landing.kind, landing.latest) = (kind, latest);
        catalog.land(Arc::new(landing)).await?;
        Ok(Line::Landed)
    }

    /// Writes the lines that are left in place of the file, or deletes it.
    fn replace(&self, left: &[&[u8]]) -> io::Result<()> {
        let state = Directory::open(&self.state_dir)?;
        if left.is_empty() {
            return state.remove(FILE);
        }
        let lines: Vec<&[u8]> = left.iter().flat_map(|line| [*line, b"\n"]).collect();
        state.replace(FILE, &lines.concat())
    }

    /// Waits for the other processes of this machine that use the file.
    fn lock(&self) -> io::Result<File> {
        let lock = Directory::open(&self.state_dir)?.append("unlanded.lock")?;
        lock.lock()?;
        Ok(lock)
    }
}
