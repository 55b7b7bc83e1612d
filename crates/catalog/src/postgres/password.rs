//! Where the password of a role comes from.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use ingest_base::bounded;
use ingest_config::{PostgresAddress, PostgresHost, PostgresUrl, SecretSource};
use ingest_secret::Secret;

/// The directory of sockets for which a password file says `localhost`.
const SOCKETS: &str = "/var/run/postgresql";

/// The places of a password: `catalog.password`, the URL, `$PGPASSWORD`, and the file that `$PGPASSFILE` names or
/// `~/.pgpass`. The first one that has it decides.
pub struct Password {
    configured: Secret,
}

impl Password {
    /// The password whose place `catalog.password` says, if it does. Nothing is read yet.
    pub fn new(source: Option<SecretSource>) -> Self {
        Self {
            configured: Secret::owned_by("catalog.password".to_owned(), source),
        }
    }

    /// Reads the configured password.
    ///
    /// # Errors
    /// It cannot be read; the error says why.
    pub async fn ready(&self) -> Result<(), String> {
        self.configured
            .ready()
            .await
            .map_err(|error| error.to_string())
    }

    /// Reads the password for one host; `None` where nothing has one.
    ///
    /// # Errors
    /// The configured one cannot be read; the error says why.
    pub async fn read(
        &self,
        url: &PostgresUrl,
        host: &PostgresHost,
        user: &str,
    ) -> Result<Option<SecretString>, String> {
        if self.configured.is_some() {
            let revealed = self.configured.reveal().await;
            return Ok(revealed.map_err(|error| error.to_string())?.secret);
        }
        if let Some(password) = url.password() {
            return Ok(Some(password.clone()));
        }
        if let Some(password) = variable("PGPASSWORD") {
            return Ok(password.into_string().ok().map(SecretString::from));
        }
        let database = url.database.as_deref().unwrap_or(user);
        Ok(file().and_then(|path| {
            from_file(
                &path,
                &[&name_of(host), &host.port.to_string(), database, user],
            )
        }))
    }
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn file() -> Option<PathBuf> {
    let named = variable("PGPASSFILE").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".pgpass")))
}

/// The host as password files name it.
fn name_of(host: &PostgresHost) -> String {
    match &host.address {
        PostgresAddress::Tcp(name) => name.clone(),
        PostgresAddress::Socket(path) if path == Path::new(SOCKETS) => "localhost".to_owned(),
        PostgresAddress::Socket(path) => path.display().to_string(),
    }
}

/// The password of the first line of a password file that fits host, port, database and role.
fn from_file(path: &Path, wanted: &[&str; 4]) -> Option<SecretString> {
    let about = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    if about.permissions().mode() & 0o077 != 0 {
        tracing::warn!(
            "{}: not used, since others than its owner can read it; run chmod 600",
            path.display()
        );
        return None;
    }
    let lines = bounded::file_of_text(path, bounded::DOCUMENT).ok()?;
    let fits = |line: &str| {
        let fields = fields(line);
        let (password, place) = fields.split_last()?;
        let is_wanted = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        let all = place.len() == wanted.len() && place.iter().zip(wanted).all(is_wanted);
        all.then(|| SecretString::from(password.clone()))
    };
    lines
        .lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(fits)
}

/// The five fields of a line: `host:port:database:role:password`, where `\` escapes a colon and itself.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let count = fields.len();
        let Some(field) = fields.last_mut() else {
            break;
        };
        match letter {
            '\\' => field.extend(letters.next()),
            ':' if count < 5 => fields.push(String::new()),
            other => field.push(other),
        }
    }
    fields
}
