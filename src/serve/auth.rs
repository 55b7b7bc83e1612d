//! Whose request it is: a client with a token, or an address; and whether it means this server. A page of another server that only
//! borrowed this machine's address is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, Uri, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use secrecy::ExposeSecret;
use subtle::ConstantTimeEq;

use crate::commands::Error;
use crate::commands::tokens::tokens;
use ingest_config::{ServeClient, ServeConfig};

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The other side.
    pub address: SocketAddr,
    /// This side.
    pub local: SocketAddr,
}

/// The clients with a token, and how the others are told apart.
pub struct Clients {
    known: Vec<KnownClient>,
    /// Whether every request needs a token.
    pub must_present_token: bool,
    trusted_hops: usize,
    /// The names of the server that a request may use.
    pub hosts: Vec<String>,
}

struct KnownClient {
    client: Arc<TokenClient>,
    /// Of the token: tokens of any length are compared in the same time.
    digest: [u8; 32],
}

/// A client with a token.
#[derive(Debug)]
pub struct TokenClient {
    pub name: String,
    /// What it may do.
    pub config: ServeClient,
}

/// Whose request it is.
#[derive(Debug, Clone)]
pub struct Requester {
    pub token: Presented,
    /// The address that the request is counted by if it has no valid token.
    pub address: IpAddr,
}

/// The token that a request presents.
#[derive(Debug, Clone)]
pub enum Presented {
    /// None.
    Nothing,
    /// One that no client has.
    Unknown,
    /// That of a client, as a bearer token.
    Bearer(Arc<TokenClient>),
    /// That of a client, as the password of HTTP Basic.
    Basic(Arc<TokenClient>),
}

impl Presented {
    /// The client whose token it is.
    pub const fn client(&self) -> Option<&Arc<TokenClient>> {
        match self {
            Self::Bearer(client) | Self::Basic(client) => Some(client),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

impl Clients {
    /// Reads the tokens.
    ///
    /// # Errors
    /// A token cannot be read or is too short, or two clients have the same.
    pub async fn read(config: &ServeConfig, must_present_token: bool) -> Result<Self, Error> {
        let mut known = Vec::new();
        for ((name, token), client) in tokens(config)
            .await
            .into_iter()
            .zip(config.clients.values())
        {
            let token = token.map_err(Error::Usage)?;
            known.push(KnownClient {
                client: Arc::new(TokenClient {
                    name: name.to_owned(),
                    config: client.clone(),
                }),
                digest: digest_of(token.expose_secret().as_bytes()),
            });
        }
        Ok(Self {
            known,
            must_present_token,
            trusted_hops: config.trusted_hops,
            hosts: config.hosts.clone(),
        })
    }

    /// Returns whose request it is.
    pub fn identify(&self, headers: &HeaderMap, peer: Peer) -> Requester {
        Requester {
            token: self.presented(headers),
            address: self.address(headers, peer),
        }
    }

    fn presented(&self, headers: &HeaderMap) -> Presented {
        let (scheme, token) = match only(headers, &header::AUTHORIZATION) {
            Ok(None) => return Presented::Nothing,
            Ok(Some(value)) => value.split_once(' ').unwrap_or_default(),
            Err(_) => return Presented::Unknown,
        };
        let (token, client): (_, fn(_) -> _) = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => (token.trim().as_bytes().to_vec(), Presented::Bearer),
            "basic" => (password(token.trim()), Presented::Basic),
            _ => return Presented::Unknown,
        };
        self.find(&token).map_or(Presented::Unknown, client)
    }

    /// Compares the token with each, whichever it is, so that the time tells nothing.
    fn find(&self, token: &[u8]) -> Option<Arc<TokenClient>> {
        let presented = digest_of(token);
        let mut found = None;
        for known in &self.known {
            if bool::from(known.digest.ct_eq(&presented)) {
                found = Some(&known.client);
            }
        }
        found.cloned()
    }

    /// The address of the client: of the connection, or as the proxies in front of the server report it.
    fn address(&self, headers: &HeaderMap, peer: Peer) -> IpAddr {
        let peer = peer.address.ip();
        let reported = match self.trusted_hops {
            0 => None,
            hops => reported(headers, hops),
        };
        network(reported.unwrap_or(peer))
    }
}

/// The digest of a text.
pub fn digest_of(token: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token).as_ref());
    bytes
}

/// The password of HTTP Basic.
fn password(encoded: &str) -> Vec<u8> {
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    let mut parts = decoded.splitn(2, |byte| *byte == b':');
    parts.nth(1).unwrap_or_default().to_vec()
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address at this place from the right, over all lines of the header together: what is further left, the client wrote.
/// `None` where it is not reported, or where the two headers disagree: a proxy sets one, and a client can send the other.
fn reported(headers: &HeaderMap, hops: usize) -> Option<IpAddr> {
    let nth = |name: &HeaderName, address: fn(&str) -> Option<IpAddr>| {
        headers.contains_key(name).then(|| {
            let lines = headers.get_all(name).iter();
            let joined: Vec<&str> = lines
                .map(|line| line.to_str().unwrap_or_default())
                .collect();
            let joined = joined.join(",");
            let place = joined.rsplit(',').nth(hops.saturating_sub(1))?;
            address(place.trim())
        })
    };
    match (
        nth(&FORWARDED_FOR, address),
        nth(&header::FORWARDED, forwarded_address),
    ) {
        (Some(one), None) | (None, Some(one)) => one,
        (Some(one), Some(other)) if one == other => one,
        (Some(_), Some(_)) | (None, None) => None,
    }
}

/// `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::1`, `[2001:db8::1]:4711`
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    // Whatever stands for the port: a proxy may hide it.
    match text.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')?
            .0
            .parse::<Ipv6Addr>()
            .ok()
            .map(IpAddr::V6),
        None => text
            .split_once(':')?
            .0
            .parse::<Ipv4Addr>()
            .ok()
            .map(IpAddr::V4),
    }
}

/// `for="[2001:db8::1]:4711";proto=https`
fn forwarded_address(element: &str) -> Option<IpAddr> {
    let mut pairs = element
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    address(value.trim_matches('"'))
}

/// The address of which requests are counted together: an IPv6 host has a whole /64 of addresses.
pub fn network(address: IpAddr) -> IpAddr {
    // A socket for both families reports an IPv4 client as `::ffff:203.0.113.7`, which would share its /64 with all others.
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether every name that the request has for the server is one of its own. A web page can make its own name resolve to this machine
/// (DNS rebinding): the browser then takes the server for the page's own, and only the name in `Host` shows the difference.
pub fn is_own(headers: &HeaderMap, uri: &Uri, peer: Peer, hosts: &[String]) -> bool {
    let is_allowed = |name: &str| is_allowed(name, peer, hosts);
    let in_uri = uri.authority().map(|authority| authority.as_str());
    only(headers, &header::HOST).is_ok_and(|host| host.is_some_and(is_allowed))
        && in_uri.is_none_or(is_allowed)
}

/// Whether no page of another server sends the request.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    // Programs send neither header, and browsers that do not know this one still send `Origin`.
    let is_own_site = match only(headers, &SITE) {
        Ok(site) => matches!(site, None | Some("same-origin" | "none")),
        Err(_) => false,
    };
    let is_own_origin = match (only(headers, &header::ORIGIN), only(headers, &header::HOST)) {
        (Ok(None), _) => true,
        (Ok(Some(origin)), Ok(Some(host))) => origin
            // By its authority alone: behind a proxy with TLS the page came over https, and this server speaks http.
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))
            .is_some_and(|authority| authority.eq_ignore_ascii_case(host)),
        (Ok(Some(_)), Ok(None) | Err(_)) | (Err(_), _) => false,
    };
    is_own_site && is_own_origin
}

fn is_allowed(host: &str, peer: Peer, hosts: &[String]) -> bool {
    // A name may end in a dot, the root of the DNS, and has no case.
    let name = without_port(host)
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let address = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    match address {
        Ok(address) => {
            let address = address.to_canonical();
            address.is_loopback()
                || address == peer.local.ip().to_canonical()
                || hosts.contains(&address.to_string())
        }
        Err(_) => name == "localhost" || hosts.contains(&name),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !is_bare_ipv6(host) =>
        {
            name
        }
        _ => host,
    }
}

/// Whether the colons are those of an address without brackets.
fn is_bare_ipv6(host: &str) -> bool {
    !host.starts_with('[') && host.matches(':').count() > 1
}

/// A header that comes several times, or is no ASCII text. A proxy in front may have read it differently from this server, so
/// such a request is refused.
#[derive(Debug, Clone, Copy)]
pub struct Unclear;

/// Returns the value of a header; `None` where the request does not have it.
///
/// # Errors
/// It comes several times, or is no ASCII text.
pub fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Unclear> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Unclear),
        (Some(_), Some(_)) => Err(Unclear),
    }
}
