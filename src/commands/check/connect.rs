//! `ingest check --connect`: connects to ledger and upstreams. Requests nothing of an API, so nothing is metered: an upstream whose
//! lists name `{since}` is asked for its clock alone.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::ConfigVerifierExt;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::finding::{CheckFinding, bad, found, good, warning};
use crate::commands::environment::Environment;
use crate::commands::refill::charged_elsewhere;
use ingest_base::clock::{Clock, SystemClock};
use ingest_catalog::postgres::{self, About};
use ingest_catalog::{Postgres, PostgresError};
use ingest_config::{Upstream, Variable};
use ingest_ledger as ledger;
use ingest_ledger::LedgerClient;
use ingest_upstream::{Connector, UpstreamClock, http_date};

const PATIENCE: Duration = Duration::from_secs(5);

pub async fn everything(
    environment: &Environment,
    ledger: Option<&dyn LedgerClient>,
) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    if let Some(ledger) = ledger {
        findings.extend(shared_ledger(environment, ledger).await);
    }
    if let Some(database) = environment.database() {
        findings.push(catalog(environment, database).await);
    }
    for upstream in environment.config.upstreams.values() {
        let what = format!("upstream {}", upstream.name);
        let connected = tokio::time::timeout(PATIENCE, connect(environment, upstream)).await;
        let late = |_| {
            let to = at(upstream).0;
            Err(format!("{to} did not respond within {PATIENCE:?}"))
        };
        findings.push(match connected.unwrap_or_else(late) {
            Ok((spoken, None)) => good(what, spoken),
            Ok((spoken, Some(differs))) => warning(what, format!("{spoken}; {differs}")),
            Err(why) => bad(what, format!("{why}; check base_url and the network")),
        });
    }
    findings
}

/// Whether the ledger answers for every account.
pub async fn answers(environment: &Environment, ledger: &dyn LedgerClient) -> Result<(), String> {
    for credential in environment.config.credentials.values() {
        ledger
            .usage(&credential.account)
            .await
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Checks that a Redis answers, permits all commands that the ledger needs, in which way it runs the ledger, and is configured to lose nothing.
async fn shared_ledger(environment: &Environment, ledger: &dyn LedgerClient) -> Vec<CheckFinding> {
    let config = &environment.config.ledger;
    let Some(url) = config.store.redis() else {
        return Vec::new();
    };
    let what = format!("the ledger ({})", config.store);
    if let Err(why) = answers(environment, ledger).await {
        return vec![bad(what, why)];
    }
    let mut findings = vec![good(what.clone(), "answers".to_owned())];
    match ledger::redis::inspect(url, config, environment.clock.now()).await {
        Ok(fitness) => {
            findings.push(good(what.clone(), fitness.way));
            let risks = fitness.risks.into_iter();
            findings.extend(risks.map(|risk| warning(what.clone(), risk)));
            let faults = fitness.faults.into_iter();
            findings.extend(faults.map(|fault| bad(what.clone(), fault)));
        }
        Err(error) => findings.push(bad(what, error.to_string())),
    }
    findings
}

/// Reports the server of the catalog, its role and its schema.
async fn catalog(environment: &Environment, database: &Postgres) -> CheckFinding {
    let what = format!("the catalog ({})", database.shown());
    let of_catalog = of_catalog(environment, database).await;
    found(
        what,
        of_catalog.unwrap_or_else(|error| Err(error.to_string())),
    )
}

/// What the database is, or what its role lacks, or why nothing can be charged beside it.
async fn of_catalog(
    environment: &Environment,
    database: &Postgres,
) -> Result<Result<String, String>, PostgresError> {
    let found = postgres::about(database).await?;
    if found.catalog.is_some()
        && found.may_use
        && let Some(why) = charged_elsewhere(environment, database).await?
    {
        return Ok(Err(why));
    }
    let schema = database.schema();
    let About {
        version,
        role,
        encryption,
        ..
    } = &found;
    let server = format!("PostgreSQL {version}, role {role}, {encryption}");
    let missing = format!(
        "{server}; the schema `{schema}` does not exist, and the role may not create it: run CREATE \
        SCHEMA {schema} AUTHORIZATION {role}"
    );
    Ok(match &found.owner {
        None if found.may_create => Ok(format!(
            "{server}; the first run creates the schema `{schema}`"
        )),
        None => Err(missing),
        Some(owner) if !found.may_use => Err(format!(
            "{server}; the schema `{schema}` is {owner}'s: run GRANT {owner} TO {role}, or set \
            catalog.schema"
        )),
        Some(owner) => {
            let version = found
                .catalog
                .map(|version| format!("has version {version}"));
            let version =
                version.unwrap_or_else(|| "is empty, and the first run fills it".to_owned());
            Ok(format!(
                "{server}; the schema `{schema}` of {owner} {version}"
            ))
        }
    })
}

/// Whether a list of the upstream names `{since}`, so that a wrong clock could pass over records.
fn uses_its_clock(environment: &Environment, upstream: &Upstream) -> bool {
    let mut steps = environment.config.steps();
    steps.any(|(job, step)| {
        job.credential.upstream.name == upstream.name && job.names(step, &Variable::Since)
    })
}

/// Returns what the upstream speaks, and a difference of the clocks above a minute.
async fn connect(
    environment: &Environment,
    upstream: &Upstream,
) -> Result<(String, Option<String>), String> {
    let (to, host) = at(upstream);
    let connector = Connector::new(upstream.into())?;
    let through = connector.proxy();
    let through = through.map_or_else(String::new, |proxy| format!(" through {proxy}"));
    let connected = connector.tcp().await;
    let socket = connected.map_err(|why| format!("{to} cannot be reached{through}: {why}"))?;
    // A proxy that forwards requests may answer in place of the upstream.
    let asks_clock = uses_its_clock(environment, upstream) && connector.forwarded().is_none();
    if upstream.base_url.scheme() != "https" {
        let clock = match asks_clock {
            true => clock(upstream, socket).await,
            false => None,
        };
        return Ok((format!("{to} can be reached{through}"), clock));
    }
    let (version, stream) = speak_tls(host, socket)
        .await
        .map_err(|why| format!("{to}{through}: the TLS handshake failed: {why}"))?;
    let clock = match asks_clock {
        true => clock(upstream, stream).await,
        false => None,
    };
    let spoken = format!("{to} can be reached{through} and speaks {version}");
    Ok((spoken, clock))
}

/// The largest head of a response that is read for its `Date`, in bytes.
const MOST_OF_HEAD: u64 = 16 * 1024;

/// Returns a difference of the clocks above a minute; `None` where there is none, or the server does not say. `OPTIONS *` asks about
/// the server itself, without a credential: no API meters it.
async fn clock(
    upstream: &Upstream,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> Option<String> {
    let sent = SystemClock.now();
    let request = format!(
        "OPTIONS * HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        at(upstream).0
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut lines = BufReader::new(stream.take(MOST_OF_HEAD)).lines();
    while let Ok(Some(line)) = tokio::time::timeout(PATIENCE / 2, lines.next_line())
        .await
        .ok()?
    {
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("date") {
            let clock = UpstreamClock::read(http_date(value.trim()), sent, SystemClock.now());
            return clock.note(&upstream.name);
        }
    }
    None
}

/// `host:port`, and the host alone.
fn at(upstream: &Upstream) -> (String, &str) {
    let host = upstream.base_url.host_str().unwrap_or_default();
    let port = upstream.base_url.port_or_known_default().unwrap_or(443);
    (format!("{host}:{port}"), host)
}

/// Performs a TLS handshake, with the certificate checked as for a request.
async fn speak_tls(
    host: &str,
    socket: TcpStream,
) -> Result<(String, TlsStream<TcpStream>), String> {
    // `Err` means that a provider is installed already: the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ClientConfig::with_platform_verifier().map_err(|error| error.to_string())?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|error| error.to_string())?;
    let spoken = TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
        .map_err(|error| error.to_string())?;
    let version = spoken
        .get_ref()
        .1
        .protocol_version()
        .and_then(|version| version.as_str().map(str::to_owned));
    let version = version.map_or_else(
        || "TLS".to_owned(),
        |version| version.replace('_', ".").replace("TLSv", "TLS "),
    );
    Ok((version, spoken))
}
