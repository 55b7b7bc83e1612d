//! Passwords and certificates: read before the first connection, kept for all.

use std::path::Path;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;

use ingest_base::bounded;
use ingest_config::{LedgerConfig, LedgerTls};
use ingest_secret::Secret;

/// Passwords and certificates, as the connections use them.
#[derive(Default)]
pub struct Keys {
    /// `None`: the URL's, or none.
    pub password: Option<SecretString>,
    /// `None`: the Sentinels require none.
    pub sentinel_password: Option<SecretString>,
    /// `None`: the system's certificate authorities, and no certificate of the client.
    pub certificates: Option<TlsCertificates>,
}

impl Keys {
    /// Reads secrets and certificates. The error names what is missing and the remedy.
    pub async fn read(config: &LedgerConfig) -> Result<Self, String> {
        let secret = async |name: &str, source: &Option<_>| {
            let secret = Secret::owned_by(format!("ledger.{name}"), source.clone());
            let revealed = secret.reveal().await;
            revealed
                .map(|revealed| revealed.secret)
                .map_err(|error| error.to_string())
        };
        Ok(Self {
            password: secret("password", &config.password).await?,
            sentinel_password: secret("sentinel_password", &config.sentinel_password).await?,
            certificates: certificates(&config.tls)?,
        })
    }
}

fn certificates(LedgerTls { ca, client }: &LedgerTls) -> Result<Option<TlsCertificates>, String> {
    let client_tls = client.as_ref().map(|client| {
        Ok::<_, String>(ClientTlsConfig {
            client_cert: certificate("cert", &client.cert)?,
            client_key: file("key", &client.key)?,
        })
    });
    let certificates = TlsCertificates {
        client_tls: client_tls.transpose()?,
        root_cert: ca
            .as_ref()
            .map(|path| certificate("ca", path))
            .transpose()?,
    };
    let is_any = ca.is_some() || client.is_some();
    Ok(is_any.then_some(certificates))
}

fn certificate(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    let text = file(key, path)?;
    match CertificateDer::pem_slice_iter(&text).next() {
        Some(Ok(_)) => Ok(text),
        _ => Err(format!(
            "ledger.tls.{key}: {} contains no certificate (PEM)",
            path.display()
        )),
    }
}

fn file(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    bounded::file(path, bounded::DOCUMENT)
        .map_err(|error| format!("ledger.tls.{key}: cannot read {}: {error}", path.display()))
}
