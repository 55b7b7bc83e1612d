//! The catalog of a simulation passes the suite of the catalogs, as far as it has it: passes, pages and leases.

use std::sync::Arc;

use ingest::foresight::SimulatedCatalog;

use crate::suite::{Handle, Place, pass_suite};

struct Simulated(Arc<SimulatedCatalog>);

fn simulated() -> Arc<dyn Place> {
    Arc::new(Simulated(Arc::default()))
}

impl Place for Simulated {
    fn open(&self) -> Handle {
        Handle {
            store: self.0.clone(),
            leases: self.0.clone(),
            archive: None,
        }
    }
}

pass_suite!(simulated);
