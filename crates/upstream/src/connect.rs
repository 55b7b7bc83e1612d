//! How a connection to an upstream is made: directly, or through the proxy that the environment names.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use reqwest::header::HeaderValue;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;
use url::Url;

use super::endpoint::{Endpoint, host_of};
use super::line::{Line, Watch};
use ingest_config::is_loopback;

const CONNECT: Duration = Duration::from_secs(10);

const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Uri = hyper::Uri;

/// Makes connections to one host.
#[derive(Debug)]
pub struct Connector {
    base: Url,
    tcp: HttpConnector,
    tls: Option<Arc<ClientConfig>>,
    proxy: Option<Proxy>,
    /// The longest time that a connection may take, handshakes included.
    patience: Duration,
}

/// An HTTP proxy.
#[derive(Debug)]
struct Proxy {
    uri: Uri,
    /// The value of `Proxy-Authorization`.
    authorization: Option<HeaderValue>,
}

/// A stream of bytes to and from a host.
pub trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

impl Connector {
    /// Connects to `endpoint`. This is slow for TLS, since it reads the system's certificates.
    ///
    /// # Errors
    /// There are no certificates, or the environment names a proxy that is not supported.
    pub fn new(endpoint: Endpoint) -> Result<Self, String> {
        let Endpoint {
            url: base, timeout, ..
        } = endpoint;
        let tls = (base.scheme() == "https").then(tls).transpose()?;
        // A proxy cannot reach this machine, and would receive the secret.
        let proxy = if is_loopback(&base) {
            None
        } else {
            Proxy::from_environment(&base)?
        };
        let patience = CONNECT.min(timeout / 2);
        let mut tcp = HttpConnector::new();
        // The connector would refuse an `https` URL. TLS is added to its stream here.
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_connect_timeout(Some(patience));
        Ok(Self {
            base,
            tcp,
            tls,
            proxy,
            patience,
        })
    }

    /// Makes a connection. No request is sent.
    ///
    /// # Errors
    /// No connection can be made.
    pub async fn connect(&self) -> Result<(Box<dyn Bytes>, Arc<Watch>), String> {
        let connected = tokio::time::timeout(self.patience, self.connect_in_time()).await;
        connected.unwrap_or_else(|_| Err(self.failed("timeout")))
    }

    /// The value of `Proxy-Authorization`, if any, for a proxy that forwards whole requests. `None` if requests are sent to
    /// the host itself, directly or through a tunnel.
    pub fn forwarded(&self) -> Option<Option<&HeaderValue>> {
        let proxy = self.proxy.as_ref().filter(|_| self.tls.is_none())?;
        Some(proxy.authorization.as_ref())
    }

    /// The proxy that requests go through, in words without its credentials.
    pub fn proxy(&self) -> Option<String> {
        self.proxy.as_ref().map(ToString::to_string)
    }

    async fn connect_in_time(&self) -> Result<(Box<dyn Bytes>, Arc<Watch>), String> {
        let tcp = self.tcp().await.map_err(|why| self.failed(&why))?;
        let line = Line::new(tcp, self.tls.is_some());
        let watch = line.watch();
        let Some(tls) = &self.tls else {
            return Ok((Box::new(line), watch));
        };
        let host = self.base.host_str().unwrap_or_default();
        // An IPv6 address stands in brackets in a URL, and without them in a certificate.
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let name = name.map_err(|error| self.failed(&error.to_string()))?;
        let sealed = TlsConnector::from(Arc::clone(tls))
            .connect(name, line)
            .await;
        let sealed = sealed.map_err(|error| self.failed(&innermost(&error)))?;
        Ok((Box::new(sealed), watch))
    }

    /// Makes what TLS and requests go over: a connection to the host, a tunnel to it, or a connection to a proxy that forwards.
    ///
    /// # Errors
    /// Nothing can be reached: the cause alone, without a name.
    pub async fn tcp(&self) -> Result<TcpStream, String> {
        let mut tcp = self.tcp.clone();
        let to = match &self.proxy {
            None => uri(&self.base)?,
            Some(proxy) if self.tls.is_none() => proxy.uri.clone(),
            Some(proxy) => return self.tunnel(proxy).await,
        };
        let connected = tcp.call(to).await;
        connected
            .map(TokioIo::into_inner)
            .map_err(|error| innermost(&error))
    }

    async fn tunnel(&self, proxy: &Proxy) -> Result<TcpStream, String> {
        let mut tunnel = Tunnel::new(proxy.uri.clone(), self.tcp.clone());
        if let Some(authorization) = &proxy.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let tunnelled = tunnel.call(uri(&self.base)?).await;
        tunnelled
            .map(TokioIo::into_inner)
            .map_err(|error| innermost(&error))
    }

    fn failed(&self, why: &str) -> String {
        let to = host_of(&self.base);
        match &self.proxy {
            None => format!("cannot connect to {to}: {why}"),
            Some(proxy) => format!("cannot connect to {to} through {proxy}: {why}"),
        }
    }
}

impl Proxy {
    /// The proxy that the environment names for this URL: `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`, unless `NO_PROXY`
    /// excludes it.
    fn from_environment(base: &Url) -> Result<Option<Self>, String> {
        let Some(found) = Matcher::from_env().intercept(&uri(base)?) else {
            return Ok(None);
        };
        let proxy = Self::new(&found);
        // A proxy that cannot be used is an error: without it, requests would bypass what the environment prescribes.
        if found.uri().scheme_str() != Some("http") {
            let scheme = found.uri().scheme_str().unwrap_or_default();
            return Err(format!(
                "the environment sets {proxy}, and {scheme}:// proxies are not supported; set an \
                http:// proxy, or add the host to NO_PROXY"
            ));
        }
        Ok(Some(proxy))
    }

    fn new(found: &Intercept) -> Self {
        Self {
            uri: found.uri().clone(),
            authorization: found.basic_auth().cloned(),
        }
    }
}

/// Its host and port, without its credentials.
impl std::fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = self.uri.host().unwrap_or_default();
        match self.uri.port() {
            Some(port) => write!(formatter, "the proxy {host}:{port}"),
            None => write!(formatter, "the proxy {host}"),
        }
    }
}

fn tls() -> Result<Arc<ClientConfig>, String> {
    // The provider is the same, whichever call installs it first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ClientConfig::with_platform_verifier();
    let mut config = config.map_err(|error| format!("cannot set up TLS: {error}"))?;
    // The connection speaks HTTP/1.1 only, so a server must not choose HTTP/2.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn uri(url: &Url) -> Result<Uri, String> {
    url.as_str()
        .parse()
        .map_err(|error| format!("cannot build a request to {}: {error}", host_of(url)))
}

/// The innermost cause of an error, which is the most specific one.
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
