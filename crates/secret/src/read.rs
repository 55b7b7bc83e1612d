use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::OFlags;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;

use super::{Environment, SecretError, SecretProblem};
use ingest_base::bounded::too_long;
use ingest_base::plain::one_line;
use ingest_config::SecretSource;

/// No secret is longer than this; a longer file was named by mistake.
const LONGEST_BYTES: u64 = 64 * 1024;

/// The longest time that a command may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Which characters a secret may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Those that a header can carry.
    Header,
    /// Any text, of several lines too.
    Document,
}

/// Reads the secret of `credential` now; a command that takes longer than `patience` is killed.
///
/// # Errors
/// The secret is missing or malformed; the error says what to do.
pub async fn read(
    credential: &str,
    source: &SecretSource,
    environment: &Environment,
    patience: Duration,
) -> Result<SecretString, SecretError> {
    let owner = of_credential(credential);
    read_for(&owner, source, Form::Header, environment, patience).await
}

/// The name of a credential in messages.
pub fn of_credential(name: &str) -> String {
    format!("credential `{name}`")
}

/// Reads the secret of `owner`, which is its name in messages.
pub async fn read_for(
    owner: &str,
    source: &SecretSource,
    form: Form,
    environment: &Environment,
    patience: Duration,
) -> Result<SecretString, SecretError> {
    let pointed = file_of(source, environment);
    let source = pointed.as_ref().unwrap_or(source);
    let read = match source {
        SecretSource::Env(name) => from_environment(name, environment),
        SecretSource::File(path) => from_file(path, patience).await,
        SecretSource::Credential(name) => from_directory(name, environment, patience).await,
        SecretSource::Command(words) => from_command(words, patience).await,
    };
    let checked = read.and_then(|secret| check(&secret, form, source, place(source, environment)));
    checked.map_err(|problem| SecretError {
        owner: owner.to_owned(),
        problem,
    })
}

/// The file that `$NAME_FILE` names, if `$NAME` is not set: containers supply their secrets this way.
fn file_of(source: &SecretSource, environment: &Environment) -> Option<SecretSource> {
    match source {
        SecretSource::Env(name) if environment(name).is_none() => {
            let path = environment(&format!("{name}_FILE")).filter(|path| !path.is_empty())?;
            Some(SecretSource::File(path.into()))
        }
        _ => None,
    }
}

fn from_environment(name: &str, environment: &Environment) -> Result<SecretString, SecretProblem> {
    match environment(name).map(OsString::into_string) {
        None => Err(SecretProblem::Unset(name.to_owned())),
        Some(Ok(secret)) => Ok(SecretString::from(secret)),
        Some(Err(_)) => Err(SecretProblem::Unfit(name.to_owned())),
    }
}

async fn from_file(path: &Path, patience: Duration) -> Result<SecretString, SecretProblem> {
    let unreadable = |error| SecretProblem::Unreadable {
        // A relative path is of the working directory, which cron and systemd choose.
        path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        error,
    };
    let file = open(path).map_err(unreadable)?;
    let is_pipe = file.metadata().map_err(unreadable)?.file_type().is_fifo();
    let mut bytes = Zeroizing::new(Vec::new());
    if is_pipe {
        let read = tokio::time::timeout(patience, from_pipe(file, &mut bytes)).await;
        read.map_err(|_| SecretProblem::Unfinished {
            path: path.to_owned(),
            seconds: patience.as_secs(),
        })?
        .map_err(unreadable)?;
    } else {
        warn_of_others(path, &file);
        file.take(LONGEST_BYTES.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
    }
    text(&bytes, || path.display().to_string())
}

/// Opens a file to read it, without waiting for the writer of a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Reads a pipe until its writer closes it.
async fn from_pipe(file: File, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut first = Zeroizing::new([0; 512]);
    match (&file).read(&mut *first) {
        // A pipe without a writer never ends.
        Ok(0) => return Ok(()),
        Ok(length) => bytes.extend(first.iter().take(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    let pipe = Receiver::from_file(file)?;
    let more = LONGEST_BYTES.saturating_add(1);
    pipe.take(more).read_to_end(bytes).await.map(drop)
}

async fn from_directory(
    name: &str,
    environment: &Environment,
    patience: Duration,
) -> Result<SecretString, SecretProblem> {
    let directory = environment("CREDENTIALS_DIRECTORY")
        .ok_or_else(|| SecretProblem::NoDirectory(name.to_owned()))?;
    from_file(&Path::new(&directory).join(name), patience).await
}

async fn from_command(words: &[String], patience: Duration) -> Result<SecretString, SecretProblem> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| SecretProblem::Empty("`secret.command`".to_owned()))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Dropped when it takes too long or prints too much: it must not run on.
        .kill_on_drop(true);
    match tokio::time::timeout(patience, output(command)).await {
        Err(_) => Err(SecretProblem::Hung {
            program: program.clone(),
            seconds: patience.as_secs(),
        }),
        Ok(Err(error)) => Err(SecretProblem::NotStarted {
            program: program.clone(),
            error,
        }),
        Ok(Ok(output)) => printed(program, &output),
    }
}

/// What a command printed.
struct Output {
    status: ExitStatus,
    stdout: Zeroizing<Vec<u8>>,
    stderr: Vec<u8>,
}

/// Runs a command to its end, or until it printed more than a secret has.
async fn output(mut command: Command) -> io::Result<Output> {
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let printed = async {
        let mut bytes = Zeroizing::new(Vec::new());
        if let Some(stdout) = stdout {
            let mut stdout = stdout.take(LONGEST_BYTES.saturating_add(1));
            stdout.read_to_end(&mut bytes).await?;
        }
        Ok::<_, io::Error>(bytes)
    };
    let said = async {
        let mut bytes = Vec::new();
        if let Some(stderr) = stderr {
            let mut stderr = stderr.take(LONGEST_BYTES);
            stderr.read_to_end(&mut bytes).await?;
            // What is not read would keep the command from its end.
            tokio::io::copy(stderr.get_mut(), &mut tokio::io::sink()).await?;
        }
        Ok::<_, io::Error>(bytes)
    };
    let status = async {
        let stdout = printed.await?;
        if stdout.len() as u64 > LONGEST_BYTES {
            child.start_kill()?;
        }
        Ok::<_, io::Error>((stdout, child.wait().await?))
    };
    let ((stdout, status), stderr) = tokio::try_join!(status, said)?;
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

fn printed(program: &str, output: &Output) -> Result<SecretString, SecretProblem> {
    if output.status.success() || output.stdout.len() as u64 > LONGEST_BYTES {
        return text(&output.stdout, || format!("`{program}`"));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said
        .lines()
        .find(|line| !line.trim().is_empty())
        .map_or_else(|| "no error output".to_owned(), one_line);
    Err(SecretProblem::Failed {
        program: program.to_owned(),
        status: output.status,
        said,
    })
}

fn text(bytes: &[u8], place: impl Fn() -> String) -> Result<SecretString, SecretProblem> {
    if bytes.len() as u64 > LONGEST_BYTES {
        return Err(SecretProblem::TooLong(place(), too_long(LONGEST_BYTES)));
    }
    std::str::from_utf8(bytes)
        .map(SecretString::from)
        .map_err(|_| SecretProblem::Unfit(place()))
}

/// The secret without the white space around it, if it has the form.
fn check(
    secret: &SecretString,
    form: Form,
    source: &SecretSource,
    place: String,
) -> Result<SecretString, SecretProblem> {
    let trimmed = secret.expose_secret().trim();
    if trimmed.is_empty() {
        return Err(match source {
            SecretSource::Command(_) => SecretProblem::PrintedNothing(place),
            SecretSource::Env(_) | SecretSource::File(_) | SecretSource::Credential(_) => {
                SecretProblem::Empty(place)
            }
        });
    }
    let is_printable = |byte: u8| (b' '..=b'~').contains(&byte);
    if form == Form::Header && !trimmed.bytes().all(is_printable) {
        return Err(SecretProblem::Unfit(place));
    }
    Ok(SecretString::from(trimmed))
}

/// The place into which a person puts the secret.
fn place(source: &SecretSource, environment: &Environment) -> String {
    match source {
        SecretSource::Env(name) => name.clone(),
        SecretSource::File(path) => {
            credential_of(path, environment).map_or_else(|| path.display().to_string(), loaded)
        }
        SecretSource::Credential(name) => loaded(name),
        SecretSource::Command(words) => format!("`{}`", words.first().map_or("", String::as_str)),
    }
}

/// The name of a systemd credential, if the file is one: it is a copy, made at the start of the unit.
fn credential_of<'a>(path: &'a Path, environment: &Environment) -> Option<&'a str> {
    let directory = environment("CREDENTIALS_DIRECTORY").filter(|path| !path.is_empty())?;
    path.strip_prefix(directory).ok()?.to_str()
}

fn loaded(credential: &str) -> String {
    format!("the file of `LoadCredential={credential}:` in the systemd unit")
}

fn warn_of_others(path: &Path, file: &File) {
    const GROUP_READS: u32 = 0o040;
    const OTHERS_READ: u32 = 0o004;
    let Ok(about) = file.metadata() else { return };
    // A file of another user is shared with us through its group, as Kubernetes and packages do it.
    let is_ours = about.uid() == rustix::process::geteuid().as_raw();
    let who = match about.mode() {
        mode if mode & OTHERS_READ != 0 => "every user of this machine",
        mode if mode & GROUP_READS != 0 && is_ours => "every member of its group",
        _ => return,
    };
    tracing::warn!(
        "{who} can read the secret in {0}; run `chmod 600 {0}`",
        path.display()
    );
}
