//! TLS for tokio-postgres, over the rustls that everything else uses.

use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;
use rustls_tokio_postgres::MakeRustlsConnect;

use ingest_config::PostgresTls;

/// Encrypts connections, and verifies the server's certificate and name; `None`: connections are not encrypted. Channel binding
/// is off: SCRAM without it is enough where the server's certificate is verified.
pub type Tls = Option<MakeRustlsConnect>;

/// Reads the certificates.
///
/// # Errors
/// What cannot be read, and why.
pub fn tls(settings: &PostgresTls) -> Result<Tls, String> {
    let PostgresTls::Verified { root, client } = settings else {
        return Ok(None);
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
    Ok(Some(MakeRustlsConnect::new(config)))
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
