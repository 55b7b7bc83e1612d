//! The signed claim of a Google service account (RFC 7523).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::SecretString;
use secrecy::zeroize::Zeroizing;
use serde::Deserialize;
use serde_json::json;

use ingest_quota::Timestamp;

/// The grant type of the token request that carries the claim.
pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

const LIFETIME_SECONDS: i64 = 3600;

/// The parts of a service account's key that we need.
#[derive(Deserialize)]
pub struct ServiceAccountKey {
    client_email: String,
    private_key: SecretString,
    private_key_id: Option<String>,
    /// The token endpoint.
    pub token_uri: Option<String>,
}

impl ServiceAccountKey {
    /// Reads the JSON document that Google issues.
    ///
    /// # Errors
    /// The document is not one of these. The error contains nothing of it.
    pub fn parse(document: &str) -> Result<Self, String> {
        serde_json::from_str(document).map_err(|error| {
            format!(
                "the service account's key is not the JSON document that Google issues (line {}, \
                column {}): it must have client_email and private_key",
                error.line(),
                error.column()
            )
        })
    }

    /// The claim that the holder of this key may act as its account, signed with it.
    ///
    /// # Errors
    /// The private key is not an RSA key in PKCS #8.
    pub fn assertion(
        &self,
        audience: &str,
        scope: Option<&str>,
        subject: Option<&str>,
        now: Timestamp,
    ) -> Result<SecretString, String> {
        let issued_at = now.micros() / 1_000_000;
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.private_key_id });
        let claims = json!({
            "iss": self.client_email,
            "sub": subject.unwrap_or(&self.client_email),
            "scope": scope,
            "aud": audience,
            "iat": issued_at,
            "exp": issued_at + LIFETIME_SECONDS,
        });
        let part = |part: &serde_json::Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.sign(signed.as_bytes())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(&*signature)).into())
    }

    fn sign(&self, message: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        use secrecy::ExposeSecret;
        let unfit = |why: &dyn std::fmt::Display| {
            format!("the service account's private_key is not an RSA key in PEM: {why}")
        };
        let pem = self.private_key.expose_secret().as_bytes();
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|error| unfit(&error))?;
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| unfit(&error))?;
        let mut signature = Zeroizing::new(vec![0; key.public().modulus_len()]);
        key.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            message,
            &mut signature,
        )
        .map_err(|error| unfit(&error))?;
        Ok(signature)
    }
}
