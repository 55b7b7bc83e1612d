//! Where tokens are kept between runs: one file per credential, which only its owner can read. Every process of this
//! machine uses the same token, so that a refresh token that the server replaces with each use is used once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::Token;
use super::request::Dependencies;
use ingest_base::private;
use ingest_quota::Timestamp;

/// How long to wait for another process that requests a token.
const LOCK_PATIENCE: Duration = Duration::from_secs(90);
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The file with the tokens of a credential.
#[derive(Debug)]
pub struct TokenStore {
    path: PathBuf,
    dependencies: Dependencies,
}

/// The exclusive right to request a token for a credential.
#[derive(Debug)]
pub struct TokenLock {
    _file: File,
}

/// A file that is written now and replaces the stored tokens later.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    path: PathBuf,
}

impl TokenStore {
    /// The tokens of `credential` in the state directory.
    pub fn new(state_dir: &Path, credential: &str, dependencies: Dependencies) -> Self {
        let name = utf8_percent_encode(credential, NON_ALPHANUMERIC);
        Self {
            path: state_dir.join("tokens").join(format!("{name}.json")),
            dependencies,
        }
    }

    /// Waits until no other process requests a token for this credential.
    ///
    /// # Errors
    /// The lock file cannot be opened, or another process keeps it locked.
    pub async fn lock(&self) -> Result<TokenLock, String> {
        let path = self.path.with_extension("lock");
        let failed = |error: io::Error| format!("cannot lock {}: {error}", path.display());
        private::create_dir(path.parent().unwrap_or(&path)).map_err(failed)?;
        let file = private::open_to_lock(&path).map_err(failed)?;
        let attempts = LOCK_PATIENCE.as_millis() / LOCK_INTERVAL.as_millis();
        for _ in 0..attempts {
            // A lock that blocks could not be given up, neither after `LOCK_PATIENCE` nor at a signal.
            match file.try_lock() {
                Ok(()) => return Ok(TokenLock { _file: file }),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        Err(format!(
            "another process has requested an access token for {} s and holds {}",
            LOCK_PATIENCE.as_secs(),
            path.display()
        ))
    }

    /// The stored tokens; `None` if there are none of this grant. An access token of another request has expired.
    pub fn read(&self) -> Option<Token> {
        let text = Zeroizing::new(fs::read_to_string(&self.path).ok()?);
        let stored: Value = serde_json::from_str(&text).ok()?;
        let text = |name: &str| stored.get(name)?.as_str();
        if text("grant") != Some(&self.dependencies.grant) {
            return None;
        }
        let is_same_request = text("request") == Some(&self.dependencies.request);
        let secret = |name: &str| text(name).map(SecretString::from);
        let time = |name: &str| Some(Timestamp::from_micros(stored.get(name)?.as_i64()?));
        Some(Token {
            access: secret("access_token")?,
            refresh: secret("refresh_token"),
            obtained_at: time("obtained_at")?,
            expires_at: if is_same_request {
                time("expires_at")
            } else {
                // The refresh token stays usable: it depends on the grant alone.
                Some(Timestamp::from_micros(0))
            },
        })
    }

    /// Creates the file that will replace the stored tokens, before a token is requested: the server may answer with a new
    /// refresh token, which must not be lost because nothing can be written.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn prepare(&self, _: &TokenLock) -> Result<Replacement, String> {
        let path = self.path.with_extension("new");
        // A process that was killed can have left one, with other permissions.
        let created = fs::remove_file(&path)
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
            .and_then(|()| {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                options.open(&path)
            });
        let file = created.map_err(|error| {
            format!(
                "cannot store access tokens in {}: {error}; check that its directory is writable",
                path.display()
            )
        })?;
        private::hand_over(&file, &path);
        Ok(Replacement { file, path })
    }

    /// Stores tokens: after a crash at any time the file holds either these or the former ones.
    ///
    /// # Errors
    /// The tokens cannot be stored.
    pub fn replace(&self, replacement: Replacement, token: &Token) -> Result<(), String> {
        let Replacement { mut file, path } = replacement;
        let text = Zeroizing::new(self.document(token).to_string());
        let stored = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&path, &self.path))
            .and_then(|()| match self.path.parent() {
                Some(directory) => File::open(directory)?.sync_all(),
                None => Ok(()),
            });
        stored.map_err(|error| {
            format!(
                "cannot store a new access token in {}: {error}",
                self.path.display()
            )
        })
    }

    fn document(&self, token: &Token) -> Value {
        let refresh = token.refresh.as_ref().map(ExposeSecret::expose_secret);
        json!({
            "grant": self.dependencies.grant,
            "request": self.dependencies.request,
            "access_token": token.access.expose_secret(),
            "refresh_token": refresh,
            "obtained_at": token.obtained_at.micros(),
            "expires_at": token.expires_at.map(Timestamp::micros),
        })
    }
}
