//! Whether `ingest serve` can start: its address, and the tokens of its clients.

use secrecy::{ExposeSecret, SecretString};

use super::finding::{CheckFinding, bad, good};
use ingest_config::ServeConfig;
use ingest_secret::Secret;

/// Checks the address and each token. Binds nothing.
pub async fn server(config: &ServeConfig) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let is_open = !config.listen.ip().to_canonical().is_loopback();
    if is_open && config.clients.is_empty() {
        let detail = format!(
            "other machines can reach {}, and no client has a token; `ingest serve` starts there only with \
            [serve.clients.NAME]",
            config.listen
        );
        findings.push(bad("serve.listen".to_owned(), detail));
    }
    let mut known: Vec<(SecretString, &str)> = Vec::new();
    for (name, client) in &config.clients {
        let what = format!("token of serve.clients.{name}");
        let secret = Secret::owned_by(
            format!("serve.clients.{name}.token"),
            Some(client.token.clone()),
        );
        let token = match secret.reveal().await {
            Ok(shown) => shown.secret.unwrap_or_default(),
            Err(error) => {
                findings.push(bad(what, error.to_string()));
                continue;
            }
        };
        let is_same =
            |(one, _): &&(SecretString, &str)| one.expose_secret() == token.expose_secret();
        findings.push(match known.iter().find(is_same) {
            None => good(what, "found".to_owned()),
            Some((_, other)) => bad(
                what,
                format!("client `{other}` has the same token; give each its own"),
            ),
        });
        known.push((token, name));
    }
    findings
}
