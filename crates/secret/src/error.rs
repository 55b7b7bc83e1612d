use std::path::PathBuf;

use thiserror::Error;

/// Why a secret cannot be read, and what to do about it. It never contains the secret.
#[derive(Debug, Error)]
#[error("{owner}: {problem}")]
pub struct SecretError {
    /// The owner of the secret in messages: "credential `youtube`", "ledger.password".
    pub owner: String,
    /// What is wrong.
    pub problem: SecretProblem,
}

/// What is wrong with a secret.
#[derive(Debug, Error)]
pub enum SecretProblem {
    /// The environment variable is not set.
    #[error(
        "the secret is not set: set {0}, or set {0}_FILE to the path of a file with it, or \
        configure another place, such as `secret = {{ file = \"…\" }}`"
    )]
    Unset(String),
    /// The configured place is empty.
    #[error("the secret is empty: put it into {0}")]
    Empty(String),
    /// The command succeeded and printed nothing.
    #[error(
        "{0} printed no secret: run it by hand to see what it prints, or correct the command in the configuration"
    )]
    PrintedNothing(String),
    /// A pipe stays open for longer than we wait.
    #[error(
        "{path} is a pipe that was not closed within {seconds} s: end the program that writes the secret into it, or name a \
         regular file"
    )]
    Unfinished {
        path: PathBuf,
        /// How long we waited, in seconds.
        seconds: u64,
    },
    /// It contains characters that no header can carry.
    #[error(
        "the secret from {0} contains a line break, a control character or a character outside \
        ASCII: it must contain the secret only"
    )]
    Unfit(String),
    /// It is longer than any secret.
    #[error("the secret from {0} is too long: {1}; it must contain the secret only")]
    TooLong(String, String),
    /// A file cannot be read.
    #[error(
        "cannot read the secret's file {path}: {error}; put the secret there, or correct the path in the configuration"
    )]
    Unreadable {
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A credential of systemd is configured, and systemd supplied none.
    #[error(
        "$CREDENTIALS_DIRECTORY is not set: start ingest as a systemd unit with \
        `LoadCredential={0}:/path/of/the/secret`, or configure another place, such as `secret = \
        {{ env = \"…\" }}`"
    )]
    NoDirectory(String),
    /// The command cannot be started.
    #[error(
        "cannot run `{program}` for the secret: {error}; install it, or correct the command in the configuration"
    )]
    NotStarted {
        /// Its name.
        program: String,
        /// The reason.
        error: std::io::Error,
    },
    /// The command failed.
    #[error("`{program}` printed no secret, {status}: {said}; run it by hand to see why")]
    Failed {
        /// Its name.
        program: String,
        status: std::process::ExitStatus,
        /// The first line of its error output.
        said: String,
    },
    /// The command did not end.
    #[error("`{program}` printed no secret within {seconds} s; run it by hand to see why")]
    Hung {
        /// Its name.
        program: String,
        /// How long we waited, in seconds.
        seconds: u64,
    },
}
