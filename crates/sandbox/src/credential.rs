//! Whose quota a request uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

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
pub struct Callers {
    /// By upstream and secret.
    by_secret: BTreeMap<(String, String), Caller>,
    /// The credentials of each upstream that no unknown secret stands for yet, and the first of all.
    unseen: Mutex<BTreeMap<String, Unseen>>,
}

/// The credentials of an upstream whose secrets the sandbox does not know.
struct Unseen {
    first: Caller,
    /// In the reverse order of their names.
    rest: Vec<Caller>,
    by_secret: BTreeMap<String, Caller>,
}

impl Callers {
    /// A credential's secret is that of the sandbox, the credential's name, or its configured one where that is in `secrets`.
    pub fn new(config: &Config, secrets: &BTreeMap<String, SecretString>) -> Self {
        let credentials = || config.credentials.values();
        let known = credentials().flat_map(|one| {
            let configured = secrets.get(&one.name);
            let configured = configured.map(|secret| secret.expose_secret().to_owned());
            let all = [secret_of(&one.name), one.name.clone()];
            let key = |secret| ((one.upstream.name.clone(), secret), Caller::new(one));
            configured.into_iter().chain(all).map(key)
        });
        let mut unseen = BTreeMap::new();
        // From the last name to the first: `first` is then the first, and `pop` takes the others in their order.
        for one in credentials().rev() {
            let upstream = unseen.entry(one.upstream.name.clone());
            let upstream = upstream.or_insert_with(|| Unseen::new(one));
            upstream.first = Caller::new(one);
            let is_unknown = !secrets.contains_key(&one.name);
            upstream.rest.extend(is_unknown.then(|| Caller::new(one)));
        }
        Self {
            by_secret: known.collect(),
            unseen: Mutex::new(unseen),
        }
    }

    /// The caller of a request; `None` where the upstream would refuse the secret. A secret that is not known stands for the
    /// next credential of the upstream whose secret is not known either.
    pub fn of(&self, upstream: &Upstream, secret: Option<&str>) -> Option<Caller> {
        let needed = upstream.auth != Auth::None;
        if needed && secret.is_none_or(|secret| secret == WRONG) {
            return None;
        }
        let known = secret.and_then(|secret| {
            self.by_secret
                .get(&(upstream.name.clone(), secret.to_owned()))
        });
        let nobody = || Caller {
            account: String::new(),
            credential: None,
        };
        Some(known.cloned().unwrap_or_else(|| {
            let mut unseen = self.unseen.lock();
            let upstream = unseen.get_mut(&upstream.name);
            upstream.map_or_else(nobody, |upstream| upstream.caller(secret))
        }))
    }
}

impl Unseen {
    fn new(first: &Arc<Credential>) -> Self {
        Self {
            first: Caller::new(first),
            rest: Vec::new(),
            by_secret: BTreeMap::new(),
        }
    }

    fn caller(&mut self, secret: Option<&str>) -> Caller {
        let Some(secret) = secret else {
            return self.first.clone();
        };
        if let Some(known) = self.by_secret.get(secret) {
            return known.clone();
        }
        let Some(next) = self.rest.pop() else {
            return self.first.clone();
        };
        self.by_secret.insert(secret.to_owned(), next.clone());
        next
    }
}
