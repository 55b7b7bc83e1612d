//! The account of a request.

use std::collections::BTreeMap;

use super::chance::Chance;
use crate::config::{Auth, Config, Credential, Upstream};
use crate::quota::LimitName;

/// The secret of a credential in the sandbox. It is a valid header value, whatever the credential's name.
pub fn secret_of(credential: &str) -> String {
    format!(
        "stand-in-{:016x}",
        Chance::new(0).of("secret").of(credential).bits()
    )
}

/// A secret that the sandbox refuses.
const WRONG: &str = "wrong";

/// All accounts, by the secrets of their credentials.
#[derive(Debug)]
pub struct Accounts {
    /// By upstream and secret.
    by_secret: BTreeMap<(String, String), String>,
    /// Of each upstream's first credential.
    first: BTreeMap<String, String>,
    /// The upstream's names of limits.
    names: BTreeMap<(String, LimitName), String>,
}

impl Accounts {
    pub fn new(config: &Config) -> Self {
        let credentials = || config.credentials.values();
        let upstream = |credential: &Credential| credential.upstream.name.clone();
        let names = credentials().flat_map(|credential| {
            let limits = credential.limits.iter();
            limits.filter_map(|(limit, about)| {
                Some((
                    (upstream(credential), limit.clone()),
                    about.upstream_name.clone()?,
                ))
            })
        });
        let by_secret = credentials().map(|one| {
            (
                (upstream(one), secret_of(&one.name)),
                one.account.name.clone(),
            )
        });
        Self {
            names: names.collect(),
            by_secret: by_secret.collect(),
            first: credentials()
                .rev()
                .map(|one| (upstream(one), one.account.name.clone()))
                .collect(),
        }
    }

    /// The account of a request; `None` where the upstream would refuse the secret.
    pub fn of(&self, upstream: &Upstream, secret: Option<&str>) -> Option<String> {
        let needed = upstream.auth != Auth::None;
        if needed && secret.is_none_or(|secret| secret == WRONG) {
            return None;
        }
        let known = secret.and_then(|secret| {
            self.by_secret
                .get(&(upstream.name.clone(), secret.to_owned()))
        });
        Some(
            known
                .or_else(|| self.first.get(&upstream.name))
                .cloned()
                .unwrap_or_default(),
        )
    }

    /// The upstream's name of a limit, where the configuration has it.
    pub fn upstream_name(&self, upstream: &str, limit: &str) -> Option<String> {
        self.names
            .get(&(upstream.to_owned(), limit.to_owned()))
            .cloned()
    }
}
