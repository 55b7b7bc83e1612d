//! TLS for tokio-postgres, over the rustls that everything else uses.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Encrypted;

use crate::config::PostgresTls;

/// Encrypts connections, and verifies the server's certificate and name. Without a configuration it makes none.
#[derive(Clone)]
pub struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    /// Reads the certificates.
    ///
    /// # Errors
    /// What cannot be read, and why.
    pub fn new(tls: &PostgresTls) -> Result<Self, String> {
        let PostgresTls::Verified { root, client } = tls else {
            return Ok(Self(None));
        };
        // The provider is the same, whichever call installs it first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = ClientConfig::builder();
        let builder = match root {
            Some(path) => builder.with_root_certificates(roots(path)?),
            None => system(builder)?,
        };
        let config = match client {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => builder
                .with_client_auth_cert(certificates("sslcert", cert)?, private_key(key)?)
                .map_err(|error| format!("sslcert: cannot use {}: {error}", cert.display()))?,
        };
        Ok(Self(Some(Arc::new(config))))
    }

    /// Whether it makes encrypted connections.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

type WantsClient = ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn system(builder: ConfigBuilder<ClientConfig, WantsVerifier>) -> Result<WantsClient, String> {
    let verified = builder.with_platform_verifier();
    verified.map_err(|error| format!("cannot read the certificates of the system: {error}"))
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", path)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("sslrootcert: {}: {error}", path.display()))?;
    }
    Ok(roots)
}

fn certificates(setting: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| format!("{setting}: cannot read {shown}: {error}"))?;
    match read.is_empty() {
        true => Err(format!("{setting}: {shown} contains no certificate (PEM)")),
        false => Ok(read),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| format!("sslkey: cannot read {}: {error}", path.display()))
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Sealed<S>;
    type TlsConnect = ToHost;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ToHost> {
        Ok(ToHost {
            tls: self.clone(),
            host: host.to_owned(),
        })
    }
}

/// The TLS of one connection.
pub struct ToHost {
    tls: Tls,
    host: String,
}

impl<S> TlsConnect<S> for ToHost
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Sealed<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Sealed<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let config = self.tls.0.ok_or(io::ErrorKind::Unsupported)?;
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let sealed = TlsConnector::from(config).connect(name, stream).await?;
            Ok(Sealed(sealed))
        })
    }
}

/// An encrypted connection.
pub struct Sealed<S>(Encrypted<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Sealed<S> {
    /// None: SCRAM without channel binding is enough where the server's certificate is verified.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Sealed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Sealed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
