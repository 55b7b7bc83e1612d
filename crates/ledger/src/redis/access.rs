//! Passwords and certificates: read before the first connection, kept for all.

use std::path::Path;

use redis::{ClientTlsConfig, TlsCertificates};
use secrecy::SecretString;

use ingest_base::bounded;
use ingest_config::{LedgerTls, RedisAccess};
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

/// Where passwords and certificates are configured.
pub struct Access {
    config: RedisAccess,
    password: Secret,
    sentinel_password: Secret,
}

impl Access {
    pub fn new(config: &RedisAccess) -> Self {
        let secret = |name: &str, source| Secret::owned_by(format!("ledger.{name}"), source);
        Self {
            password: secret("password", config.password.clone()),
            sentinel_password: secret("sentinel_password", config.sentinel_password.clone()),
            config: config.clone(),
        }
    }

    /// Reads secrets and certificates. The error names what is missing and the remedy.
    pub async fn read(&self) -> Result<Keys, String> {
        let password = self.password.reveal().await;
        let sentinel_password = self.sentinel_password.reveal().await;
        Ok(Keys {
            password: password.map_err(|error| error.to_string())?.secret,
            sentinel_password: sentinel_password.map_err(|error| error.to_string())?.secret,
            certificates: self.certificates()?,
        })
    }

    fn certificates(&self) -> Result<Option<TlsCertificates>, String> {
        let LedgerTls { ca, client } = &self.config.tls;
        if ca.is_none() && client.is_none() {
            return Ok(None);
        }
        let client_tls = client.as_ref().map(|client| {
            Ok::<_, String>(ClientTlsConfig {
                client_cert: file("cert", &client.cert)?,
                client_key: file("key", &client.key)?,
            })
        });
        Ok(Some(TlsCertificates {
            client_tls: client_tls.transpose()?,
            root_cert: ca.as_ref().map(|path| file("ca", path)).transpose()?,
        }))
    }
}

fn file(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    bounded::file(path, bounded::DOCUMENT)
        .map_err(|error| format!("ledger.tls.{key}: cannot read {}: {error}", path.display()))
}
