//! What the lists of each call showed, in earlier runs and in this one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::review::Known;
use ingest_catalog::{CallFacts, CatalogError, CatalogReader};
use ingest_config::{Call, Upstream};

/// What the lists of each call showed, by upstream and call.
#[derive(Debug, Default)]
pub struct KnownCalls(Mutex<HashMap<(String, String), KnownCall>>);

#[derive(Debug, Default)]
struct KnownCall {
    /// As the catalog has it.
    stored: String,
    /// What is known under the present configuration, once that is asked for.
    known: Option<Known>,
    /// Held by the list that proves how lists of the call end: one request is enough for all.
    proof: Arc<tokio::sync::Mutex<()>>,
}

impl KnownCall {
    fn known(&mut self, upstream: &Upstream, call: &Call) -> &mut Known {
        self.known.get_or_insert_with(|| {
            let config = Known::fingerprint(upstream, call);
            let known = Known::read(&self.stored, &config);
            known.unwrap_or(Known {
                config,
                ..Known::default()
            })
        })
    }
}

impl KnownCalls {
    /// Reads what the catalog has.
    pub async fn load(&self, catalog: &CatalogReader) -> Result<(), CatalogError> {
        let facts = catalog.call_facts().await?;
        let mut known = self.0.lock();
        for one in facts {
            known.entry((one.upstream, one.call)).or_default().stored = one.facts;
        }
        Ok(())
    }

    /// Returns what is known of a call under its present configuration. An error that its lists of this run alone had is new to all of
    /// them.
    #[must_use]
    pub fn of(&self, upstream: &Upstream, call: &Call) -> Known {
        let mut all = self.0.lock();
        let entry = all.entry(key(upstream, call)).or_default();
        let known = entry.known(upstream, call).clone();
        let stored = Known::read(&entry.stored, &known.config);
        Known {
            errors: stored.and_then(|stored| stored.errors),
            ..known
        }
    }

    /// Adds what a list showed. Returns what is to be stored; `None` if it was known.
    pub fn add(&self, upstream: &Upstream, call: &Call, shown: &Known) -> Option<CallFacts> {
        let mut all = self.0.lock();
        let (name, call_name) = key(upstream, call);
        let entry = all.entry((name.clone(), call_name.clone())).or_default();
        let known = entry.known(upstream, call);
        let before = known.clone();
        known.add(shown);
        if *known == before {
            return None;
        }
        let facts = serde_json::to_string(known).ok()?;
        Some(CallFacts {
            upstream: name,
            call: call_name,
            facts,
        })
    }

    /// Waits until no other list proves how lists of the call end. None does while the guard is held.
    pub async fn prove(&self, upstream: &Upstream, call: &Call) -> OwnedMutexGuard<()> {
        // A block of its own: nobody may wait for the proof with the lock of the map.
        let proof = {
            let mut known = self.0.lock();
            Arc::clone(&known.entry(key(upstream, call)).or_default().proof)
        };
        proof.lock_owned().await
    }
}

fn key(upstream: &Upstream, call: &Call) -> (String, String) {
    (upstream.name.clone(), call.name.clone())
}
