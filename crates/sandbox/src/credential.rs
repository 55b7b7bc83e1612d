//! Whose quota a request uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chance::Chance;
use ingest_config::{Auth, Config, Credential, Region, Upstream};
use ingest_quota::{Cost, LimitName};

/// The secret of a credential in the sandbox. It is a valid header value, whatever the credential's name.
pub fn secret_of(credential: &str) -> String {
    format!(
        "stand-in-{:016x}",
        Chance::new(0).of("secret").of(credential).bits()
    )
}

/// A secret that the sandbox refuses.
const WRONG: &str = "wrong";

/// Who sent a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Its account in the ledger.
    pub account: String,
    /// Its credential; `None` where the upstream has none.
    credential: Option<Arc<Credential>>,
}

impl Caller {
    fn new(credential: &Arc<Credential>) -> Self {
        Self {
            account: credential.account.name.clone(),
            credential: Some(Arc::clone(credential)),
        }
    }

    /// What a request costs, by the names of the limits in the ledger. A limit with a scope of which the request shows no
    /// value keeps its name, and is not counted.
    pub fn charged(&self, cost: &Cost, region: Option<&Region>) -> Cost {
        let Some(credential) = &self.credential else {
            return cost.clone();
        };
        let shared = Region::shared();
        let region = region.unwrap_or(&shared);
        let name = |limit: &LimitName| credential.ledger_name(limit, region);
        cost.iter()
            .map(|(limit, units)| (name(limit).unwrap_or_else(|_| limit.clone()), units))
            .collect()
    }

    /// The configured name of a limit, and the upstream's, where the configuration has one.
    pub fn names(&self, limit: &str) -> (LimitName, Option<String>) {
        let Some(credential) = &self.credential else {
            return (limit.to_owned(), None);
        };
        let configured = credential.configured_name(limit);
        let about = credential.limits.get(configured);
        let name = about.and_then(|about| about.upstream_name.clone());
        (configured.to_owned(), name)
    }
}

/// All callers, by the secrets of their credentials.
#[derive(Debug)]
pub struct Callers {
    /// By upstream and secret.
    by_secret: BTreeMap<(String, String), Caller>,
    /// Of each upstream's first credential.
    first: BTreeMap<String, Caller>,
}

impl Callers {
    pub fn new(config: &Config) -> Self {
        let credentials = || config.credentials.values();
        let upstream = |credential: &Credential| credential.upstream.name.clone();
        Self {
            by_secret: credentials()
                .map(|one| ((upstream(one), secret_of(&one.name)), Caller::new(one)))
                .collect(),
            first: credentials()
                .rev()
                .map(|one| (upstream(one), Caller::new(one)))
                .collect(),
        }
    }

    /// The caller of a request; `None` where the upstream would refuse the secret.
    pub fn of(&self, upstream: &Upstream, secret: Option<&str>) -> Option<Caller> {
        let needed = upstream.auth != Auth::None;
        if needed && secret.is_none_or(|secret| secret == WRONG) {
            return None;
        }
        let known = secret.and_then(|secret| {
            self.by_secret
                .get(&(upstream.name.clone(), secret.to_owned()))
        });
        let known = known.or_else(|| self.first.get(&upstream.name));
        Some(known.cloned().unwrap_or_else(|| Caller {
            account: String::new(),
            credential: None,
        }))
    }
}
