use std::sync::Arc;

use super::merging::Merging;
use super::{Postgres, PostgresError, rebuild, schema, views};
use crate::CatalogError;

/// A catalog in a PostgreSQL database, which the processes of several machines can have open.
#[derive(Clone)]
pub struct PostgresCatalog {
    pub(super) postgres: Arc<Postgres>,
    pub(super) merging: Arc<Merging>,
}

impl PostgresCatalog {
    /// Opens a catalog for writing; creates its schema if there is none.
    ///
    /// # Errors
    /// Fails if the database cannot be reached or used, or another version wrote the catalog.
    pub async fn open(postgres: Postgres) -> Result<Self, CatalogError> {
        let catalog = Self::new(postgres);
        catalog.done(schema::establish(&catalog.postgres, &schema::VERSION).await)?;
        views::refresh(&catalog.postgres).await;
        Ok(catalog)
    }

    /// Opens a catalog for reading; `None` if there is none yet. Nothing is written.
    ///
    /// # Errors
    /// Fails if the database cannot be reached or used, or another version wrote the catalog.
    pub async fn open_read_only(postgres: Postgres) -> Result<Option<Self>, CatalogError> {
        let catalog = Self::new(postgres);
        let is_there = catalog.done(schema::is_there(&catalog.postgres).await)?;
        Ok(is_there.then_some(catalog))
    }

    /// Rebuilds the full-text index and the views from the records. Returns the number of indexed records.
    ///
    /// # Errors
    /// Fails if the database cannot be reached or written.
    pub async fn rebuild_text(&self) -> Result<u64, CatalogError> {
        views::refresh(&self.postgres).await;
        self.done(rebuild::rebuild(&self.postgres).await)
    }

    fn new(postgres: Postgres) -> Self {
        Self {
            merging: Merging::new(&postgres),
            postgres: Arc::new(postgres),
        }
    }

    pub(super) fn done<T>(&self, result: Result<T, PostgresError>) -> Result<T, CatalogError> {
        result.map_err(|error| self.postgres.error(error))
    }
}

/// Reads one state of the catalog.
macro_rules! reading {
    ($catalog:ident, $tx:ident => $work:expr) => {{
        let work = async {
            let mut session = $catalog.postgres.session().await?;
            let $tx = session.begin_reading().await?;
            let read = $work.await?;
            $tx.end();
            Ok(read)
        };
        $catalog.done(work.await)
    }};
}

/// Writes in one transaction.
macro_rules! in_transaction {
    ($postgres:expr, $tx:ident => $work:expr) => {{
        let work = || async {
            let mut session = $postgres.session().await?;
            let $tx = session.begin().await?;
            let written = $work.await?;
            $tx.commit().await?;
            Ok(written)
        };
        $postgres.repeated(work).await
    }};
}

/// The same, with the error as callers of the catalog see it.
macro_rules! writing {
    ($catalog:ident, $tx:ident => $work:expr) => {
        $catalog.done($crate::postgres::catalog::in_transaction!($catalog.postgres, $tx => $work))
    };
}

pub(super) use {in_transaction, reading, writing};
