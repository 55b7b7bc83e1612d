//! The tokens of the clients of `ingest serve`, as the server and `ingest check` read them.

use secrecy::{ExposeSecret, SecretString};

use ingest_config::{May, ServeConfig};
use ingest_secret::Secret;

/// The fewest characters of a token with which a client may charge: with fewer, it can be guessed.
const LEAST: usize = 16;

/// Reads the token of each client, in the order of their names, or says why the client cannot have it.
pub async fn tokens(config: &ServeConfig) -> Vec<(&str, Result<SecretString, String>)> {
    let mut read: Vec<(&str, Result<SecretString, String>)> = Vec::new();
    for (name, client) in &config.clients {
        let owner = format!("serve.clients.{name}.token");
        let secret = Secret::owned_by(owner.clone(), Some(client.token.clone()));
        let token = match secret.reveal().await {
            Ok(shown) => shown.secret.unwrap_or_default(),
            Err(error) => {
                read.push((name, Err(error.to_string())));
                continue;
            }
        };
        let is_same = |other: &&(&str, Result<SecretString, String>)| {
            let (_, other) = other;
            let other = other.as_ref().map(ExposeSecret::expose_secret);
            other.is_ok_and(|other| other == token.expose_secret())
        };
        let length = token.expose_secret().chars().count();
        let checked = match read.iter().find(is_same) {
            Some((other, _)) => Err(format!(
                "{owner}: client `{other}` has the same token; give each its own"
            )),
            None if client.may(May::Charge) && length < LEAST => Err(format!(
                "{owner}: a token with which a client may charge has at least {LEAST} characters, since a shorter one can be guessed; `openssl rand -hex 32` prints one"
            )),
            None => Ok(token),
        };
        read.push((name, checked));
    }
    read
}
