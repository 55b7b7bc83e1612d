//! Which names of this server a request may use. A web page can make its own name resolve to this machine (DNS rebinding):
//! the browser then takes the server for the page's own, and only the name in `Host` shows the difference.

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};

use super::connections::Peer;

/// Whether every name that the request has for the server is one of its own.
pub fn is_own(headers: &HeaderMap, uri: &Uri, peer: Peer, hosts: &[String]) -> bool {
    let mut named = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (named.next(), named.next()) else {
        return false;
    };
    let host = host
        .to_str()
        .is_ok_and(|host| is_allowed(host, peer, hosts));
    let in_uri = uri.authority();
    host && in_uri.is_none_or(|authority| is_allowed(authority.as_str(), peer, hosts))
}

/// Whether a page of `origin` is of the server that the request names.
pub fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &axum::http::HeaderValue| value.to_str())
    };
    let site = text(header::HeaderName::from_static("sec-fetch-site"));
    let is_own_site = site.is_none_or(|site| matches!(site, Ok("same-origin" | "none")));
    let of_host = match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => true,
        (Some(Ok(origin)), Some(Ok(host))) => origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))
            .is_some_and(|authority| authority.eq_ignore_ascii_case(host)),
        _ => false,
    };
    is_own_site && of_host
}

fn is_allowed(host: &str, peer: Peer, hosts: &[String]) -> bool {
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
                || hosts.contains(&name)
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
