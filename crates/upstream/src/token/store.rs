//! Where tokens are kept between runs: one file per credential, which only its owner can read. Every process of this
//! machine uses the same token, so that a refresh token that the server replaces with each use is used once.

use std::fs::{File, TryLockError};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::Token;
use super::request::Dependencies;
use ingest_base::private::{self, Directory};
use ingest_quota::Timestamp;

/// How long to wait for another process that requests a token.
const LOCK_PATIENCE: Duration = Duration::from_secs(90);
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// The file with the tokens of a credential.
#[derive(Debug)]
pub struct TokenStore {
    state_dir: PathBuf,
    /// The name of the files of this credential, without what the dot precedes.
    name: String,
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
    directory: Directory,
    file: File,
}

/// The directory of tokens in a state directory.
const TOKENS: &str = "tokens";
/// The bytes that tokens are expected to take at most.
const ROOM: usize = 64 * 1024;
/// More bytes than the file of a credential has: answers with tokens are shorter.
const LONGEST: u64 = 16 << 20;

impl TokenStore {
    /// The tokens of `credential` in the state directory.
    pub fn new(state_dir: &Path, credential: &str, dependencies: Dependencies) -> Self {
        Self {
            state_dir: state_dir.to_owned(),
            name: utf8_percent_encode(credential, NON_ALPHANUMERIC).to_string(),
            dependencies,
        }
    }

    /// Waits until no other process requests a token for this credential.
    ///
    /// # Errors
    /// The lock file cannot be opened, or another process keeps it locked.
    pub async fn lock(&self) -> Result<TokenLock, String> {
        let path = self.path("lock");
        let failed = |error: io::Error| format!("cannot lock {}: {error}", path.display());
        let file = self
            .make_directory()
            .and_then(|directory| directory.append(self.file("lock")));
        let file = file.map_err(failed)?;
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
        let directory = Directory::open(&self.state_dir).and_then(|state| state.below(TOKENS));
        let text = Zeroizing::new(directory.ok()?.read(self.file("json"), LONGEST).ok()?);
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

    /// Creates the file that will replace the stored tokens, with room for them on its disk, before a token is requested: the server
    /// may answer with a new refresh token, which must not be lost because nothing can be written.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn prepare(&self, _: &TokenLock) -> Result<Replacement, String> {
        let name = self.file("new");
        let created = self.make_directory().and_then(|directory| {
            // A process that was killed can have left one, with other permissions.
            directory.remove(&name)?;
            self.expect_file(&directory)?;
            let mut file = directory.create_new(&name)?;
            file.write_all(&vec![b' '; ROOM])?;
            file.sync_all()?;
            file.rewind()?;
            Ok(Replacement { directory, file })
        });
        created.map_err(|error| {
            format!(
                "cannot store access tokens in {}: {error}; check that its directory is writable",
                self.path("new").display()
            )
        })
    }

    /// Stores tokens: after a crash at any time the file holds either these or the former ones.
    ///
    /// # Errors
    /// The tokens cannot be stored.
    pub fn replace(&self, replacement: Replacement, token: &Token) -> Result<(), String> {
        let Replacement {
            directory,
            mut file,
        } = replacement;
        let text = Zeroizing::new(self.document(token).to_string());
        let stored = file
            .write_all(text.as_bytes())
            .and_then(|()| file.set_len(text.len() as u64))
            .and_then(|()| file.sync_all())
            .and_then(|()| directory.rename(self.file("new"), self.file("json")));
        stored.map_err(|error| {
            format!(
                "cannot store a new access token in {}: {error}",
                self.path("json").display()
            )
        })
    }

    /// Fails where something else is in the place of the stored tokens, which no file replaces.
    fn expect_file(&self, directory: &Directory) -> io::Result<()> {
        match directory.open_file(self.file("json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn make_directory(&self) -> io::Result<Directory> {
        private::create_dir(&self.state_dir)?;
        Directory::open(&self.state_dir)?.create_below(TOKENS)
    }

    /// The name of a file: `lock`, `new` or `json`.
    fn file(&self, extension: &str) -> String {
        format!("{}.{extension}", self.name)
    }

    /// The same file in messages.
    fn path(&self, extension: &str) -> PathBuf {
        self.state_dir.join(TOKENS).join(self.file(extension))
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
