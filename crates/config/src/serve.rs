//! `[serve]`: the server of `ingest serve`, its clients, and their limits.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::json;

use super::counting::{BUCKETS, COUNTING, CountingWord};
use super::credential::{SECRET, SecretSource};
use super::declare::{
    COUNT, DURATION, Leaf, ListOf, Named, Optional, Or, Required, Shape, TEXT, Type, Words, keys,
    table, whole,
};
use super::item::{Item, all};
use ingest_quota::{Limit, Units, Window};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeConfig {
    /// The address on which the server listens.
    pub listen: SocketAddr,
    /// Names of the server that a `Host` header may have, in lower case, besides those of loopback and the address.
    pub hosts: Vec<String>,
    /// The number of proxies in front of the server.
    pub trusted_hops: usize,
    /// The longest time that a query may take.
    pub query_timeout: Duration,
    /// The limit on the requests of each client without a token.
    pub readers: Limit,
    /// Clients with a token, by name.
    pub clients: BTreeMap<String, ServeClient>,
}

/// A client that presents a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeClient {
    /// Where to read the token from.
    pub token: SecretSource,
    /// What the client may do.
    pub may: Vec<May>,
    /// The credentials that it may charge; `None`: all of them.
    pub charge: Option<Vec<String>>,
    /// The limit on its requests.
    pub limit: Limit,
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Read status, history, records and plan.
    Read,
    /// Charge the ledger.
    Charge,
}

impl ServeConfig {
    /// The address where `serve.listen` names none.
    pub const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
}

impl ServeClient {
    /// Whether the client may do this.
    #[must_use]
    pub fn may(&self, what: May) -> bool {
        self.may.contains(&what)
    }

    /// Whether the client may charge a credential.
    #[must_use]
    pub fn may_charge(&self, credential: &str) -> bool {
        let named = |names: &Vec<String>| names.iter().any(|name| name == credential);
        self.may(May::Charge) && self.charge.as_ref().is_none_or(named)
    }
}

keys! {
    struct ServeKeys {
        /// The address on which `ingest serve` listens. An address beyond loopback requires a client with a token, and then
        /// every request except `/healthz` needs a token.
        listen: SocketAddr = Or(ADDRESS, "'127.0.0.1:8080'", "'0.0.0.0:8080'"),
        /// Names of this server that a `Host` header may have, besides those of loopback and the address. A request with any
        /// other name is refused, since a web page can make its own name resolve to this machine.
        hosts: Vec<String> = Or(ListOf(HOST, 0), "[]", "['ingest.example.org']"),
        /// The number of proxies in front of the server. The client is counted by the address at this place from the right of
        /// `X-Forwarded-For` or `Forwarded`; with 0 by the address of the connection.
        trusted_hops: usize = Or(HOPS, "0", "1"),
        /// The longest time that a query may take. A longer one is cancelled, and the response is 503.
        query_timeout: Duration = Or(DURATION, "'2s'", "'500ms'"),
        /// The limit on the requests of each client without a token, by its address (IPv6: by its /64 network).
        readers: ReaderLimitKeys = Or(table::<ReaderLimitKeys>(), "{ quota = 60, window = '1min' }", "{ quota = 600, window = '1min', counting = 'buckets' }"),
        /// Clients with a token, by name.
        clients: BTreeMap<String, ClientKeys> = Or(Named(table::<ClientKeys>(), "NAME"), "{}", "{ dashboards = { token = { credential = 'dashboards' } } }"),
    }
}

keys! {
    #[derive(Clone)]
    struct ReaderLimitKeys {
        /// The most requests within any window.
        quota: u64 = Required(COUNT, "60"),
        /// The length of the sliding window.
        window: Duration = Required(DURATION, "'1min'"),
        /// How requests are remembered.
        counting: CountingWord = Or(Words(COUNTING), "'exact'", "'buckets'"),
        /// The number of parts of a window with `counting = "buckets"`.
        buckets: u32 = Or(BUCKETS, "60", "12"),
    }
}

keys! {
    struct ClientKeys {
        /// Where to read the token from; never the token itself. The client presents it as `Authorization: Bearer`, or for
        /// reading as the password of HTTP Basic.
        token: SecretSource = Required(SECRET, "{ credential = 'dashboards' }"),
        /// What the client may do.
        may: Vec<May> = Or(ListOf(Words(MAY), 1), "['read']", "['read', 'charge']"),
        /// The credentials that a client with `may = ["charge"]` may charge. If unset, all of them.
        charge: Option<Vec<String>> = Optional(ListOf(TEXT, 1), "['things']"),
        /// The most requests within any window. If unset, as for `serve.readers`.
        quota: Option<u64> = Optional(COUNT, "600"),
        /// The length of the sliding window. If unset, as for `serve.readers`.
        window: Option<Duration> = Optional(DURATION, "'1min'"),
    }
}

pub const SERVE: Leaf<ServeConfig> = Leaf {
    read: |item| serve(&item, table::<ServeKeys>().read(item.clone())?),
    shape: || table::<ServeKeys>().shape(),
};

const MAY: &[(&str, May, &str)] = &[
    ("read", May::Read, "Read status, history, records and plan."),
    (
        "charge",
        May::Charge,
        "Charge the ledger, and release and settle charges.",
    ),
];

fn serve(item: &Item<'_>, keys: ServeKeys) -> Option<ServeConfig> {
    let readers = keys.readers;
    let client = |(name, client): (String, ClientKeys)| {
        let limit = ReaderLimitKeys {
            quota: client.quota.unwrap_or(readers.quota),
            window: client.window.unwrap_or(readers.window),
            ..readers.clone()
        };
        let client = ServeClient {
            token: client.token,
            may: client.may,
            charge: client.charge,
            limit: limit.checked(item)?,
        };
        Some((name, client))
    };
    Some(ServeConfig {
        listen: keys.listen,
        hosts: keys.hosts,
        trusted_hops: keys.trusted_hops,
        query_timeout: keys.query_timeout,
        clients: all(keys.clients.into_iter().map(client))?,
        readers: readers.checked(item)?,
    })
}

impl ReaderLimitKeys {
    fn checked(&self, item: &Item<'_>) -> Option<Limit> {
        let wrong = |error: &dyn std::fmt::Display| {
            item.refuse(error, "write for example { quota = 60, window = \"1min\" }")
        };
        let counting = self.counting.with(self.buckets);
        let window = Window::new(Some(self.window), None);
        let window = match window.and_then(|window| window.counted(counting)) {
            Ok(window) => window,
            Err(error) => return wrong(&error),
        };
        match Limit::new(Units::new(self.quota), Units::ZERO, window) {
            Ok(limit) => Some(limit),
            Err(error) => wrong(&error),
        }
    }
}

const ADDRESS: Leaf<SocketAddr> = Leaf {
    read: |item| {
        let address = item.text()?.parse().ok();
        address.or_else(|| {
            item.refuse(
                "expected an IP address and a port",
                "write for example \"127.0.0.1:8080\"",
            )
        })
    },
    shape: || {
        let schema = json!({ "type": "string", "pattern": ":[0-9]+$" });
        Shape::scalar("IP address and port", schema)
    },
};

/// A host name in lower case, or an IP address as it is usually written.
const HOST: Leaf<String> = Leaf {
    read: |item| {
        let name = item.text()?.to_ascii_lowercase();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(address.to_canonical().to_string());
        }
        let is_right = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if !name.is_empty() && name.chars().all(is_right) {
            return Some(name);
        }
        item.refuse(
            "expected a host name or an IP address, without scheme and port",
            "write for example \"ingest.example.org\"",
        )
    },
    shape: || {
        let schema =
            json!({ "type": "string", "pattern": r"^[A-Za-z0-9._-]+$|^\[?[0-9A-Fa-f:.]+\]?$" });
        Shape::scalar("host name or IP address", schema)
    },
};

const HOPS: Leaf<usize> = whole::<_, 0, 100>();
