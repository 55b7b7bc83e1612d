//! Whose quota a request uses.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use super::drawn::drawn;
use ingest_config::{Auth, Config, Credential, Region, Upstream};
use ingest_quota::{Cost, LimitName};

/// The secret of a credential in the sandbox. It is a valid header value, whatever the credential's name.
pub fn secret_of(credential: &str) -> String {
    format!(
        "stand-in-{:016x}",
        drawn(0, &format!("secret {credential}"))
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

/// All callers.
pub struct Callers(Mutex<BTreeMap<String, OfUpstream>>);

/// The callers of an upstream.
#[derive(Default)]
struct OfUpstream {
    by_secret: BTreeMap<String, Caller>,
    /// Those for which no unknown secret stands yet, in the order of their names.
    unseen: VecDeque<Caller>,
    first: Option<Caller>,
}

impl Callers {
    /// A credential's secret is that of the sandbox, the credential's name, or its configured one where that is in `secrets`.
    pub fn new(config: &Config, secrets: &BTreeMap<String, SecretString>) -> Self {
        let mut upstreams = BTreeMap::<String, OfUpstream>::new();
        for one in config.credentials.values() {
            let upstream = upstreams.entry(one.upstream.name.clone()).or_default();
            let configured = secrets.get(&one.name);
            let configured = configured.map(|secret| secret.expose_secret().to_owned());
            let caller = Caller::new(one);
            if configured.is_none() {
                upstream.unseen.push_back(caller.clone());
            }
            let known = [secret_of(&one.name), one.name.clone()];
            for secret in configured.into_iter().chain(known) {
                upstream
                    .by_secret
                    .entry(secret)
                    .or_insert_with(|| caller.clone());
            }
            upstream.first.get_or_insert(caller);
        }
        Self(Mutex::new(upstreams))
    }

    /// The caller of a request; `None` where the upstream would refuse the secret. A secret that is not known stands for the
    /// next credential of the upstream whose secret is not known either, and then for the first one.
    pub fn of(&self, upstream: &Upstream, secret: Option<&str>) -> Option<Caller> {
        let needed = upstream.auth != Auth::None;
        if needed && secret.is_none_or(|secret| secret == WRONG) {
            return None;
        }
        let mut upstreams = self.0.lock();
        let caller = upstreams.get_mut(&upstream.name).and_then(|callers| {
            let Some(secret) = secret else {
                return callers.first.clone();
            };
            if let Some(known) = callers.by_secret.get(secret) {
                return Some(known.clone());
            }
            let Some(next) = callers.unseen.pop_front() else {
                return callers.first.clone();
            };
            callers.by_secret.insert(secret.to_owned(), next.clone());
            Some(next)
        });
        Some(caller.unwrap_or_else(|| Caller {
            account: String::new(),
            credential: None,
        }))
    }
}
