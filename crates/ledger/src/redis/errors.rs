//! Why a command got no reply, and what that means: an outage (L26), or a bug (L27).

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::LedgerError;
use ingest_base::plain::plain;
use ingest_config::RedisUrl;

/// Codes of a server that cannot work now, or lacks a permission.
const OUTAGES: [&str; 15] = [
    "OOM",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "UNKILLABLE",
    "READONLY",
    "LOADING",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "MASTERDOWN",
];

/// The error of a script whose user lacks a permission: of Redis before 7.2; of later ones and of Valkey.
const DENIED: [&str; 2] = [
    "The user executing the script can't",
    "ACL failure in script",
];

/// Errors that older servers, and every server within a script, report in words instead of a code.
const OUTAGES_IN_WORDS: [&str; 4] = [
    "unauthenticated",
    "max number of clients",
    "command not allowed when used memory",
    "against a read only",
];

/// How servers refuse commands that they do not have.
const NO_FUNCTIONS: [&str; 5] = [
    "unknown command",
    "unsupported command",
    "not supported",
    "is not available",
    "command is disabled",
];

/// Why a command got no reply.
pub enum Failure {
    /// No answer came within this time.
    Silent(Duration),
    /// No Sentinel watches a service of this name.
    UnknownService(String),
    /// A Sentinel failed: the Redis was not reached.
    Sentinel(RedisError),
    /// The Redis was not connected to: nothing was executed.
    Connecting(RedisError),
    /// The Redis failed, or the connection to it.
    Redis(RedisError),
}

impl Failure {
    /// How much it says about the cause: that a Sentinel is down says little, and that a Redis refuses says most.
    pub fn weight(&self) -> u8 {
        match self {
            Self::Sentinel(error) if error.is_io_error() => 0,
            Self::Connecting(error) if error.is_io_error() => 1,
            Self::UnknownService(_) => 2,
            Self::Sentinel(_) => 3,
            Self::Silent(_) | Self::Connecting(_) | Self::Redis(_) => 4,
        }
    }

    /// Whether the server does not know the function or the script: it never did, or it lost it in a restart.
    pub fn is_unknown_text(&self) -> bool {
        matches!(self, Self::Redis(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
            || said(error, "Function not found"))
    }

    /// What it means of the ledger at `url`. A script's own error is a bug and never looks like an outage.
    pub fn meaning(&self, url: &RedisUrl) -> LedgerError {
        let why = match self {
            Self::Redis(error) if !is_outage(error) => {
                return LedgerError::Broken(format!("the ledger failed: {}", words(error)));
            }
            Self::Silent(deadline) => format!("no answer within {deadline:?}"),
            Self::UnknownService(service) => {
                format!("the Sentinels do not monitor a service `{service}`; correct ledger.url")
            }
            Self::Sentinel(error) => words_of_sentinel(error),
            Self::Connecting(error) | Self::Redis(error) => words(error),
        };
        LedgerError::Unreachable(format!("{url}: {why}{}", self.hint(url)))
    }

    /// Whether TLS on one side only may be the cause: such a server closes the connection, or does not answer.
    fn hint(&self, url: &RedisUrl) -> &'static str {
        match self {
            Self::Silent(_) if url.is_tls() => {
                " (rediss:// requires TLS: does the server support it?)"
            }
            Self::Sentinel(error) | Self::Connecting(error) | Self::Redis(error)
                if url.is_tls() && may_expect_certificate(error) =>
            {
                " (if the server expects a certificate of its clients, set or correct ledger.tls.cert)"
            }
            Self::Sentinel(error) | Self::Connecting(error) | Self::Redis(error)
                if !url.is_tls() && may_expect_tls(error) =>
            {
                match url.expose().scheme() {
                    "redis" => " (if the server expects TLS, write rediss://)",
                    "unix" => "",
                    _ => " (if the server expects TLS, append ?tls=true)",
                }
            }
            _ => "",
        }
    }
}

/// What a Sentinel's failure means. Its password is another one than that of the Redis.
fn words_of_sentinel(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            "the Sentinel rejected the password; correct ledger.sentinel_password".to_owned()
        }
        _ if is_password_missing(error) => {
            "the Sentinel requires a password; set ledger.sentinel_password".to_owned()
        }
        _ => format!("Sentinel: {}", words(error)),
    }
}

/// Whether the connection broke, or brought what is not Redis' protocol: a server that expects TLS does so.
fn may_expect_tls(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse
        || (error.is_connection_dropped() && !error.is_connection_refusal())
}

/// Whether the server ended the connection, with or without the alert of TLS that says so: one that does not accept the client's
/// certificate, or gets none, does so.
fn may_expect_certificate(error: &RedisError) -> bool {
    let is_dropped = error.is_connection_dropped() && !error.is_connection_refusal();
    is_dropped || error.to_string().contains("received fatal alert")
}

fn is_password_missing(error: &RedisError) -> bool {
    error.code() == Some("NOAUTH") || said(error, "unauthenticated")
}

/// The error with its remedy, or the server's own words.
fn words(error: &RedisError) -> String {
    // No known authority issued the server's certificate, or the server issued it to itself.
    let is_issuer_unknown = ["UnknownIssuer", "CaUsedAsEndEntity"]
        .iter()
        .any(|why| error.to_string().contains(why));
    match error.kind() {
        ErrorKind::Parse => {
            "the response is not in the Redis protocol, or is incomplete".to_owned()
        }
        ErrorKind::AuthenticationFailed => {
            "Redis rejected the user or the password; correct ledger.url or ledger.password"
                .to_owned()
        }
        _ if is_issuer_unknown => {
            "this machine does not know the issuer of the server's certificate; name the file of the issuer's own certificate \
             in ledger.tls.ca"
                .to_owned()
        }
        _ if is_password_missing(error) => {
            "Redis requires a password; set ledger.password (and the user: redis://USER@HOST)"
                .to_owned()
        }
        _ if error.code() == Some("NOPERM") || is_denied(error) => {
            format!("{}; permit it (deploy/redis/users.acl)", own_words(error))
        }
        _ => own_words(error),
    }
}

/// The server's words without control characters: they go to terminals and logs.
pub fn own_words(error: &RedisError) -> String {
    plain(&match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    })
}

/// Whether the command may be repeated at once over a new connection: this one is dead, or leads to a server that is no
/// longer the primary.
pub fn needs_another_connection(error: &RedisError) -> bool {
    error.is_connection_dropped() || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

/// Whether the server runs no functions: Redis before 7, some proxies and hosted services; or a user may not run any.
pub fn lacks_functions(error: &RedisError) -> bool {
    let words = own_words(error).to_lowercase();
    NO_FUNCTIONS.iter().any(|without| words.contains(without)) || error.code() == Some("NOPERM")
}

fn is_outage(error: &RedisError) -> bool {
    let in_words = || OUTAGES_IN_WORDS.iter().any(|words| said(error, words));
    match error.code() {
        Some(code) => OUTAGES.contains(&code) || is_denied(error) || in_words(),
        // The rest is of the connection: no script has replied.
        None => error.kind() != ErrorKind::UnexpectedReturnType,
    }
}

fn is_denied(error: &RedisError) -> bool {
    DENIED.iter().any(|words| said(error, words))
}

fn said(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(words))
}
