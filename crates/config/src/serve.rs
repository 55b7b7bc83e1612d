//! `[serve]`: the server of `ingest serve`, its clients, and their limits.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::credential::SecretSource;
use super::error::Refusal;
use super::limit::{Buckets, CountingWord, PARTS};
use super::values::{
    As, Count, Filled, Leaf, List, Named, Span, Table, Text, Whole, default, described, leaf,
};
use ingest_quota::{Limit, Units, Window};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ServeKeys")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum May {
    /// Read status, history, records and plan.
    Read,
    /// Charge the ledger, and release and settle charges.
    Charge,
}

impl ServeConfig {
    /// The address where `serve.listen` names none.
    pub const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
}

impl ServeClient {
    /// Whether the client may do this.
    pub fn may(&self, what: May) -> bool {
        self.may.contains(&what)
    }

    /// Whether the client may charge a credential.
    pub fn may_charge(&self, credential: &str) -> bool {
        let named = |names: &Vec<String>| names.iter().any(|name| name == credential);
        self.may(May::Charge) && self.charge.as_ref().is_none_or(named)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ServeKeys {
    /// The address on which `ingest serve` listens. Beyond loopback it requires a client with a token, and every request except
    /// `/healthz` needs one. Example: `listen = "0.0.0.0:8080"`.
    #[serde(default = "usual_address", with = "As::<Address>")]
    pub listen: SocketAddr,
    /// Names of this server that a `Host` header may have, besides loopback and the address. Any other is refused: a web page can make
    /// its own name resolve to this machine. Example: `hosts = ["ingest.example.org"]`.
    #[serde(default, with = "As::<List<Host, 0>>")]
    pub hosts: Vec<String>,
    /// The number of proxies in front of the server: the client is the address at this place from the right of `X-Forwarded-For` or
    /// `Forwarded`; with 0, that of the connection. Example: `trusted_hops = 1`.
    #[serde(default, with = "As::<Hops>")]
    pub trusted_hops: usize,
    /// The longest time of a query. A longer one is cancelled, with 503. Example: `query_timeout = "500ms"`.
    #[serde(default = "default::seconds::<2>", with = "As::<Span>")]
    pub query_timeout: Duration,
    /// The limit on requests of each client without a token, by its address (IPv6: its /64 network). Example: `readers = { quota =
    /// 600, window = "1min", counting = "buckets" }`.
    #[serde(default)]
    pub readers: Table<ReaderLimitKeys>,
    /// Clients with a token, by name. Example: `clients = { dashboards = { token = { credential = "dashboards" } } }`.
    #[serde(default, with = "Named::<Table<ClientKeys>>")]
    pub clients: BTreeMap<String, Table<ClientKeys>>,
}

#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReaderLimitKeys {
    /// The most requests within any window. Example: `quota = 60`.
    #[serde(with = "As::<Count>")]
    pub quota: u64,
    /// The length of the sliding window. Example: `window = "1min"`.
    #[serde(with = "As::<Span>")]
    pub window: Duration,
    /// How requests are remembered. Example: `counting = "buckets"`.
    #[serde(default)]
    pub counting: CountingWord,
    /// The number of parts of a window with `counting = "buckets"`. Example: `buckets = 12`.
    #[serde(default = "default::small::<PARTS>", with = "As::<Buckets>")]
    pub buckets: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClientKeys {
    /// Where the token is read from. The client sends it as `Authorization: Bearer`, or for reading as the password of HTTP Basic.
    /// Example: `token = { credential = "dashboards" }`.
    pub token: SecretSource,
    /// What the client may do. Example: `may = ["read", "charge"]`.
    #[serde(default = "read")]
    pub may: Vec<May>,
    /// The credentials that the client may charge. If unset, all. Example: `charge = ["things"]`.
    #[serde(default, with = "As::<Option<List<Filled, 1>>>")]
    pub charge: Option<Vec<String>>,
    /// The most requests within any window. If unset, as for `serve.readers`. Example: `quota = 600`.
    #[serde(default, with = "As::<Option<Count>>")]
    pub quota: Option<u64>,
    /// The length of the sliding window. If unset, as for `serve.readers`. Example: `window = "1min"`.
    #[serde(default, with = "As::<Option<Span>>")]
    pub window: Option<Duration>,
}

const fn usual_address() -> SocketAddr {
    ServeConfig::USUAL
}

fn read() -> Vec<May> {
    vec![May::Read]
}

impl Default for Table<ReaderLimitKeys> {
    fn default() -> Self {
        Self(ReaderLimitKeys {
            quota: 60,
            window: Duration::from_secs(60),
            counting: CountingWord::Exact,
            buckets: PARTS,
        })
    }
}

/// As far as the schema shows a default.
impl Serialize for Table<ReaderLimitKeys> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(limit) = self;
        json!({ "quota": limit.quota, "window": Span::written(&limit.window) })
            .serialize(serializer)
    }
}

described!(ServeConfig: ServeKeys);

impl TryFrom<ServeKeys> for ServeConfig {
    type Error = Refusal;

    fn try_from(keys: ServeKeys) -> Result<Self, Refusal> {
        let Table(readers) = keys.readers;
        let client = |(name, Table(client)): (String, Table<ClientKeys>)| {
            let below = |refusal: Refusal| refusal.below(&name).below("clients");
            let limit = ReaderLimitKeys {
                quota: client.quota.unwrap_or(readers.quota),
                window: client.window.unwrap_or(readers.window),
                ..readers.clone()
            };
            if client.may.is_empty() {
                let refusal = Refusal::new(
                    "expected at least 1 values",
                    "add values, or remove the key",
                );
                return Err(below(refusal.below("may")));
            }
            let client = ServeClient {
                token: client.token,
                may: client.may,
                charge: client.charge,
                limit: limit.checked().map_err(below)?,
            };
            Ok((name, client))
        };
        Ok(Self {
            listen: keys.listen,
            hosts: keys.hosts,
            trusted_hops: keys.trusted_hops,
            query_timeout: keys.query_timeout,
            clients: keys
                .clients
                .into_iter()
                .map(client)
                .collect::<Result<_, _>>()?,
            readers: readers
                .checked()
                .map_err(|refusal| refusal.below("readers"))?,
        })
    }
}

impl ReaderLimitKeys {
    fn checked(&self) -> Result<Limit, Refusal> {
        let remedy = "write for example { quota = 60, window = \"1min\" }";
        let counting = self.counting.with(self.buckets);
        let window =
            Window::new(Some(self.window), None).and_then(|window| window.counted(counting));
        let window = window.map_err(|error| Refusal::new(error, remedy))?;
        let limit = Limit::new(Units::new(self.quota), Units::ZERO, window);
        limit.map_err(|error| Refusal::new(error, remedy))
    }
}

leaf!(
    Address,
    Text,
    SocketAddr,
    |text| text.parse().ok(),
    "expected an IP address and a port",
    "write for example \"127.0.0.1:8080\"",
    json!({ "title": "IP address and port", "type": "string", "pattern": ":[0-9]+$" }),
    |address| address.to_string().into(),
);

// A host name in lower case, or an IP address as it is usually written.
leaf!(
    Host,
    Text,
    String,
    |text| {
        let name = text.to_ascii_lowercase();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(address.to_canonical().to_string());
        }
        let is_right = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        (!name.is_empty() && name.chars().all(is_right)).then_some(name)
    },
    "expected a host name or an IP address, without scheme and port",
    "write for example \"ingest.example.org\"",
    json!({
        "title": "host name or IP address",
        "type": "string",
        "pattern": r"^[A-Za-z0-9._-]+$|^\[?[0-9A-Fa-f:.]+\]?$",
    }),
);

type Hops = Whole<usize, 0, 100>;
