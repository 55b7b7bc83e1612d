//! Which names of this server a request may use. A web page can make its own name resolve to this machine (DNS rebinding):
//! the browser then takes the server for the page's own, and only the name in `Host` shows the difference.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Uri, header};

use super::connections::Peer;
use super::header::only;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether every name that the request has for the server is one of its own.
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
