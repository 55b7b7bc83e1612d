//! What a failure of Redis means: an outage (L26), or a bug (L27).

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::LedgerError;
use ingest_base::plain::plain;

/// Codes of a server that cannot work now, or lacks a permission.
const OUTAGES: [&str; 9] = [
    "OOM",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "UNKILLABLE",
    "READONLY",
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

/// What the failure of a script means. A script's own error is a bug and never looks like an outage.
pub fn of_script(error: &RedisError) -> LedgerError {
    match is_outage(error) {
        true => of_connection(error),
        false => LedgerError::Broken(format!("the ledger failed: {}", words(error))),
    }
}

/// What the failure of a connection means: nothing was executed.
pub fn of_connection(error: &RedisError) -> LedgerError {
    LedgerError::Unreachable(words(error))
}

/// What the failure of a Sentinel means: the Redis was not reached. Its password is another one than that of the Redis.
pub fn of_sentinel(error: &RedisError) -> LedgerError {
    LedgerError::Unreachable(match error.kind() {
        ErrorKind::AuthenticationFailed => {
            "the Sentinel rejected the password; correct ledger.sentinel_password".to_owned()
        }
        _ if is_password_missing(error) => {
            "the Sentinel requires a password; set ledger.sentinel_password".to_owned()
        }
        _ => format!("Sentinel: {}", words(error)),
    })
}

/// Whether the connection broke, or brought what is not Redis' protocol: a server that expects TLS does so.
pub fn may_expect_tls(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Parse
        || (error.is_connection_dropped() && !error.is_connection_refusal())
}

/// Whether TLS failed since no known authority issued the server's certificate, or the server issued it to itself.
fn is_issuer_unknown(error: &RedisError) -> bool {
    let words = error.to_string();
    ["UnknownIssuer", "CaUsedAsEndEntity"]
        .iter()
        .any(|why| words.contains(why))
}

fn is_password_missing(error: &RedisError) -> bool {
    error.code() == Some("NOAUTH") || said(error, "unauthenticated")
}

/// The error with its remedy, or the server's own words.
fn words(error: &RedisError) -> String {
    match error.kind() {
        ErrorKind::Parse => {
            "the response is not in the Redis protocol, or is incomplete".to_owned()
        }
        ErrorKind::AuthenticationFailed => {
            "Redis rejected the user or the password; correct ledger.url or ledger.password"
                .to_owned()
        }
        _ if is_issuer_unknown(error) => {
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
fn own_words(error: &RedisError) -> String {
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

/// Whether the server does not know the function or the script: it never did, or it lost it in a restart.
pub fn is_unknown(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
        || said(error, "Function not found")
}

/// Whether the server runs no functions: Redis before 7, some proxies and hosted services; or a user may not run any.
pub fn lacks_functions(error: &RedisError) -> bool {
    let words = own_words(error).to_lowercase();
    NO_FUNCTIONS.iter().any(|without| words.contains(without)) || error.code() == Some("NOPERM")
}

/// The server's words.
pub fn shown(error: &RedisError) -> String {
    own_words(error)
}

fn is_outage(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(kind) => is_outage_of_server(kind) || is_outage_in_words(error),
        ErrorKind::Extension => error.code().is_some_and(|code| OUTAGES.contains(&code)),
        ErrorKind::UnexpectedReturnType => false,
        // The rest is of the connection: no script has replied.
        _ => true,
    }
}

const fn is_outage_of_server(kind: ServerErrorKind) -> bool {
    use ServerErrorKind as Kind;
    matches!(
        kind,
        Kind::BusyLoading
            | Kind::Moved
            | Kind::Ask
            | Kind::TryAgain
            | Kind::ClusterDown
            | Kind::MasterDown
            | Kind::ReadOnly
            | Kind::NoPerm
    )
}

fn is_outage_in_words(error: &RedisError) -> bool {
    is_denied(error) || OUTAGES_IN_WORDS.iter().any(|words| said(error, words))
}

fn is_denied(error: &RedisError) -> bool {
    DENIED.iter().any(|words| said(error, words))
}

fn said(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(words))
}
