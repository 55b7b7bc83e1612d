//! Leases of the runs of one test, all in this process. A lock on a file would do as well, but for the children that other tests
//! start: between `fork` and `exec` a child has the files of its parent, and so holds on to a lock that was just released.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use ingest_catalog::{CatalogError, Lease, Leases, Resource, Taken};

/// The resources that are held.
#[derive(Debug, Clone, Default)]
pub struct MemoryLeases(Arc<Mutex<HashSet<Resource>>>);

/// Releases its resource when it is dropped.
#[derive(Debug)]
struct Guard(MemoryLeases, Resource);

impl Drop for Guard {
    fn drop(&mut self) {
        let mut held = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(&self.1);
    }
}

#[async_trait::async_trait]
impl Leases for MemoryLeases {
    async fn take(&self, resource: &Resource) -> Result<Taken, CatalogError> {
        if !self.0.lock().unwrap().insert(resource.clone()) {
            return Ok(Taken::Held(None));
        }
        Ok(Taken::Granted(Lease::new(Guard(
            self.clone(),
            resource.clone(),
        ))))
    }
}
