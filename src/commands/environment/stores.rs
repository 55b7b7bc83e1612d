//! What a command opens: the catalog, its leases, and the clients of the upstreams.

use std::sync::{Arc, Weak};

#[cfg(feature = "sandbox")]
use super::practice::{known_secrets, sandboxed};
use super::{CATALOG_FILE, Environment};
use crate::commands::Error;
use crate::run::due::LONGEST_TOLERANCE;
use crate::run::{Context, Selection, Unlanded, Upstreams};
use ingest_base::clock::Monotonic;
use ingest_catalog::{
    Catalog, CatalogError, CatalogReader, HeldLease, Leases, LockFiles, Postgres, RowLeases,
    postgres,
};
use ingest_config::{CatalogConfig, CatalogStore, Credential};
use ingest_ledger::clocks::{self, Told};
use ingest_upstream as upstream;
use ingest_upstream::{Client, ClientError};

impl Environment {
    /// The database of the catalog; `None` if the catalog is in files. Connects to nothing.
    pub fn database(&self) -> Option<&Postgres> {
        let CatalogConfig {
            store,
            password,
            schema,
            connections,
            ..
        } = &self.config.catalog;
        let CatalogStore::Postgres(url) = store else {
            return None;
        };
        let database = || Postgres::new(url, password.clone(), schema, *connections);
        Some(self.database.get_or_init(database))
    }

    /// The leases of this process: rows of the catalog's database, or lock files.
    pub fn leases(&self) -> Result<Arc<dyn Leases>, Error> {
        if let Some(database) = self.database() {
            let length = self.config.catalog.lease;
            return Ok(Arc::new(RowLeases::new(database, length)));
        }
        let files = LockFiles::open(&self.state_dir);
        Ok(Arc::new(files.map_err(Error::io(
            "cannot create the directory of locks",
        ))?))
    }

    /// Returns who walks which region, on any machine that shares the catalog.
    pub async fn held_leases(&self) -> Result<Vec<HeldLease>, Error> {
        match self.database() {
            Some(database) => {
                let held = postgres::held(database).await;
                Ok(held.map_err(|error| database.error(error))?)
            }
            None => Ok(LockFiles::held(&self.state_dir)),
        }
    }

    /// Where pages are kept that the catalog cannot take; `None` for a catalog in files, which is on the same disk.
    pub fn unlanded(&self) -> Option<Unlanded> {
        self.database().map(|_| Unlanded::new(&self.state_dir))
    }

    /// Lands the pages that an earlier run kept.
    pub async fn land_kept(&self, context: &Context) -> Result<(), Error> {
        let Some(unlanded) = &context.unlanded else {
            return Ok(());
        };
        let kind_of = |upstream: &str, call: &str| {
            let upstream = self.config.upstreams.get(upstream)?;
            upstream.calls.get(call)?.records.clone()
        };
        let latest = context.clock.now() + LONGEST_TOLERANCE;
        let landed = unlanded
            .land_all(&context.catalog, &kind_of, latest)
            .await?;
        if landed > 0 {
            tracing::info!(
                pages = landed,
                "stored pages that an earlier run could not store"
            );
        }
        Ok(())
    }

    /// The catalog, for landing.
    pub async fn catalog(&self) -> Result<Arc<Catalog>, Error> {
        if let Some(database) = self.database() {
            let catalog = Catalog::connect(database.clone()).await?;
            self.compare_clocks().await?;
            return Ok(Arc::new(catalog));
        }
        let path = self.state_dir.join(CATALOG_FILE);
        let catalog = Arc::new(Catalog::open(&path)?);
        // Of two, the first is the one to read from while it is open.
        let _ = self.landing.set(Arc::downgrade(catalog.reader()));
        Ok(catalog)
    }

    /// Goes by the clock of the database that machines share, where this machine's clock is wrong: a region that one of them
    /// walked at a time that is still to come would not count as walked for the others.
    ///
    /// # Errors
    /// The database did not tell its time, and never did in this process.
    pub async fn compare_clocks(&self) -> Result<(), CatalogError> {
        let Some(database) = self.database().filter(|_| clocks::is_due(&self.corrected)) else {
            return Ok(());
        };
        let began = Monotonic::now();
        match postgres::server_time(database).await {
            Ok(at) => {
                let (by, took) = (database.shown(), began.elapsed());
                let told = Told { by, at, took };
                clocks::compare(&self.corrected, &told, &self.config.ledger).await;
                Ok(())
            }
            // An earlier comparison holds on: the monotonic clock runs on from it.
            Err(_) if self.corrected.checked().is_some() => Ok(()),
            Err(error) => Err(database.error(error)),
        }
    }

    /// The catalog, for reading: as it is open for landing, or opened. One that is not there yet reads as an empty one.
    pub async fn reader(&self) -> Result<Arc<CatalogReader>, Error> {
        if let Some(catalog) = self.landing.get().and_then(Weak::upgrade) {
            return Ok(catalog);
        }
        let Some(database) = self.database() else {
            let path = self.state_dir.join(CATALOG_FILE);
            return Ok(Arc::new(CatalogReader::open(&path)?));
        };
        let catalog = CatalogReader::connect(database.clone()).await?;
        self.compare_clocks().await?;
        Ok(Arc::new(catalog))
    }

    /// Returns the clients of the upstreams of these jobs.
    pub fn upstreams(&self, selection: &Selection) -> Upstreams {
        let credentials = selection.iter().flat_map(|(job, _)| job.credentials());
        let upstream = |credential: &Arc<Credential>| {
            let client = self.client(credential);
            let client = client.map(|client| Arc::new(client) as Arc<dyn upstream::Upstream>);
            let client = client.map_err(|error| error.to_string());
            (credential.name.clone(), client)
        };
        credentials.map(upstream).collect()
    }

    /// Returns the client of a credential's upstream.
    pub fn client(&self, credential: &Credential) -> Result<Client, ClientError> {
        #[cfg(feature = "sandbox")]
        if self.practising {
            let client = Client::new(sandboxed(&credential.upstream), known_secrets(credential))?;
            return Ok(client.with(credential.limits.clone()));
        }
        Client::for_credential(credential, &self.state_dir)
    }
}
