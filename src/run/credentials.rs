//! Which credentials their upstreams accepted or rejected with their present secrets, in this run and before it. A private file of
//! the state directory keeps it, so that a wrong secret costs no request at every run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ingest_base::plain::instant;
use ingest_base::private::Directory;
use ingest_config::{Credential, Job};
use ingest_quota::Timestamp;
use ingest_secret::{Secrets, SecretsInUse};
use parking_lot::Mutex;
use ring::hmac::{HMAC_SHA256, Key};
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};

use super::due::{LONGEST_TOLERANCE, tolerance};

/// How long after its rejection a credential is asked again by a job without `every`: somebody may repair it at the upstream.
const REJECTED_EVERY: Duration = Duration::from_secs(60 * 60);

const FILE: &str = "credentials.json";
const LARGEST_FILE: u64 = 16 * 1024 * 1024;

/// What the upstreams said of the credentials. Without a file, nothing is known and no request waits.
#[derive(Debug, Default)]
pub struct Credentials {
    state_dir: Option<PathBuf>,
    /// Whether a request is sent whatever is known.
    asks_always: bool,
    kept: Mutex<Option<Kept>>,
    firsts: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// The secrets of a credential, which nobody can guess from it without the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(String);

/// What is known of a credential with its present secrets.
#[derive(Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: its first request goes alone.
    Nothing,
    Accepted,
    /// It is not asked yet. Holds why, and when it is.
    Rejected(String),
}

/// What the file of a state directory says, for who asks no upstream.
#[derive(Debug)]
pub struct Rejections(Option<Kept>);

/// A credential that a job does not ask yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct HeldBack {
    pub credential: String,
    /// Why its upstream rejected it.
    pub why: String,
    pub rejected_at: Timestamp,
    /// When it is asked again, if its secret does not change before.
    pub asked_again_at: Timestamp,
}

/// The file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    /// The key of the digests. No other machine has it.
    key: String,
    credentials: BTreeMap<String, Verdict>,
}

/// What an upstream said of a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Verdict {
    digest: Digest,
    /// `None`: it was accepted.
    rejected: Option<Rejected>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rejected {
    at: Timestamp,
    why: String,
    job: String,
    region: String,
}

impl Credentials {
    /// Those of a run, which are kept in the state directory.
    #[must_use]
    pub fn kept_in(state_dir: PathBuf) -> Self {
        Self {
            state_dir: Some(state_dir),
            ..Self::default()
        }
    }

    /// The same for a request that somebody makes by hand: it is sent whatever is known, and only its acceptance is kept.
    #[must_use]
    pub fn asking_always(self) -> Self {
        Self {
            asks_always: true,
            ..self
        }
    }

    /// Returns the digest of what a credential's requests carry, and of how. `None` where nothing is kept.
    #[must_use]
    pub fn digest(&self, credential: &Credential, secrets: &SecretsInUse) -> Option<Digest> {
        self.with_kept(|kept| kept.digest(credential, secrets))
    }

    /// Returns what is known of a credential, for a request of a job.
    #[must_use]
    pub fn known(&self, (job, credential): (&Job, &str), digest: &Digest, now: Timestamp) -> Known {
        let known = self.with_kept(|kept| {
            let verdict = kept.credentials.get(credential);
            let verdict = verdict.filter(|verdict| verdict.digest == *digest);
            match verdict.map(|verdict| &verdict.rejected) {
                None => Known::Nothing,
                Some(None) => Known::Accepted,
                Some(Some(rejected)) if rejected.is_over(job, now) => Known::Nothing,
                Some(Some(rejected)) => {
                    let at = instant(rejected.at);
                    let why = format!("{}, at {at}", rejected.why);
                    Known::Rejected(asked_again(&why, job, rejected.at))
                }
            }
        });
        match known {
            _ if self.asks_always => Known::Accepted,
            known => known.unwrap_or(Known::Accepted),
        }
    }

    /// Returns the lock that the first request of a credential holds until it is answered.
    #[must_use]
    pub fn first(&self, credential: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut firsts = self.firsts.lock();
        Arc::clone(firsts.entry(credential.to_owned()).or_default())
    }

    /// Records that the upstream accepted a credential.
    pub fn accept(&self, credential: &str, digest: &Digest) {
        let verdict = Verdict {
            digest: digest.clone(),
            rejected: None,
        };
        self.keep(credential, Some(verdict));
    }

    /// Forgets what the upstream said of a credential: it rejects what it accepted before.
    pub fn forget(&self, credential: &str) {
        self.keep(credential, None);
    }

    /// Records that the upstream rejected a credential at a request of a job for a region, by its key. Returns why, with when it is
    /// asked again.
    #[must_use]
    pub fn reject(
        &self,
        digest: &Digest,
        (job, region): (&Job, &str),
        why: &str,
        at: Timestamp,
    ) -> String {
        if self.asks_always {
            return why.to_owned();
        }
        let verdict = Verdict {
            digest: digest.clone(),
            rejected: Some(Rejected {
                at,
                why: why.to_owned(),
                job: job.name.clone(),
                region: region.to_owned(),
            }),
        };
        self.keep(&job.credential.name, Some(verdict));
        asked_again(why, job, at)
    }

    /// Whether a credential was last rejected at a request for this region. Others go first then: the cause may be the region, and
    /// nothing would ever show it.
    #[must_use]
    pub fn was_rejected_at(&self, job: &Job, region: &str) -> bool {
        let is_it = |verdict: &Verdict| {
            let rejected = verdict.rejected.as_ref();
            rejected.is_some_and(|one| one.job == job.name && one.region == region)
        };
        let found = self.with_kept(|kept| kept.credentials.values().any(is_it));
        found.unwrap_or_default()
    }

    /// Reads the file when it is first needed. Returns `None` where there is none.
    fn with_kept<T>(&self, read: impl FnOnce(&Kept) -> T) -> Option<T> {
        let state_dir = self.state_dir.as_ref()?;
        let mut kept = self.kept.lock();
        if kept.is_none() {
            *kept = match opened(state_dir) {
                Ok(opened) => Some(opened),
                Err(error) => {
                    unkept(state_dir, &error);
                    Kept::new().ok()
                }
            };
        }
        kept.as_ref().map(read)
    }

    /// Stores what an upstream said, unless that is known.
    fn keep(&self, credential: &str, verdict: Option<Verdict>) {
        let Some(state_dir) = &self.state_dir else {
            return;
        };
        let mut kept = self.kept.lock();
        let Some(kept) = kept.as_mut() else { return };
        if kept.credentials.get(credential) == verdict.as_ref() {
            return;
        }
        kept.set(credential, verdict.clone());
        if let Err(error) = stored(state_dir, kept, credential, verdict) {
            unkept(state_dir, &error);
        }
    }
}

impl Rejections {
    /// Reads them. Nothing is known where there is no file, or none that can be read.
    #[must_use]
    pub fn read(state_dir: &Path) -> Self {
        let state = Directory::open(state_dir);
        Self(state.and_then(|state| read(&state)).ok().flatten())
    }

    /// Returns whether a job holds its credential back at `now`. A secret that cannot be read here counts as unchanged, and so does
    /// one that a command prints: only a request runs it.
    pub async fn of(&self, job: &Job, now: Timestamp) -> Option<HeldBack> {
        let (kept, credential) = (self.0.as_ref()?, &job.credential);
        let verdict = kept.credentials.get(&credential.name)?;
        let rejected = verdict.rejected.as_ref()?;
        if rejected.is_over(job, now) {
            return None;
        }
        let secrets = Secrets::new(credential);
        if !secrets.run_commands()
            && let Ok(secrets) = secrets.reveal().await
            && kept.digest(credential, &secrets) != verdict.digest
        {
            return None;
        }
        Some(HeldBack {
            credential: credential.name.clone(),
            why: rejected.why.clone(),
            rejected_at: rejected.at,
            asked_again_at: rejected.at + every(job),
        })
    }
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (why, at, again) = (
            &self.why,
            instant(self.rejected_at),
            instant(self.asked_again_at),
        );
        write!(
            f,
            "the upstream rejected the credential {}: {why}, at {at}; it is asked again at {again} or when its secret changes",
            self.credential
        )
    }
}

impl Rejected {
    /// Whether the credential is asked again: a timer does not fire at exactly the same interval each time.
    fn is_over(&self, job: &Job, now: Timestamp) -> bool {
        // A rejection from the future is one of a wrong clock.
        let is_of_wrong_clock = self.at > now + LONGEST_TOLERANCE;
        let every = every(job);
        now >= self.at + every - tolerance(every) || is_of_wrong_clock
    }
}

impl Kept {
    /// Nothing, and a new key.
    fn new() -> io::Result<Self> {
        let mut key = [0_u8; 32];
        let random = SystemRandom::new().fill(&mut key);
        random.map_err(|_| io::Error::other("the system has no random numbers"))?;
        Ok(Self {
            key: STANDARD.encode(key),
            credentials: BTreeMap::new(),
        })
    }

    fn digest(&self, credential: &Credential, secrets: &SecretsInUse) -> Digest {
        let upstream = &credential.upstream;
        let (url, auth, headers) = (&upstream.base_url, &upstream.auth, &upstream.headers);
        let key = Key::new(HMAC_SHA256, self.key.as_bytes());
        let mut context = ring::hmac::Context::with_key(&key);
        for secret in secrets.all() {
            let secret = secret.expose_secret().as_bytes();
            context.update(&secret.len().to_le_bytes());
            context.update(secret);
        }
        context.update(format!("{url} {auth:?} {headers:?}").as_bytes());
        Digest(STANDARD.encode(context.sign()))
    }

    fn set(&mut self, credential: &str, verdict: Option<Verdict>) {
        match verdict {
            Some(verdict) => self.credentials.insert(credential.to_owned(), verdict),
            None => self.credentials.remove(credential),
        };
    }

    fn write(&self, state: &Directory) -> io::Result<()> {
        state.replace(FILE, &serde_json::to_vec(self)?)
    }
}

fn every(job: &Job) -> Duration {
    job.every.unwrap_or(REJECTED_EVERY)
}

/// Adds when a credential is asked again.
fn asked_again(why: &str, job: &Job, rejected: Timestamp) -> String {
    let again = instant(rejected + every(job));
    format!("{why}; it is asked again at {again} or when its secret changes")
}

/// Reads the file; one that cannot be understood is replaced, since nothing is lost with it but the knowledge.
fn opened(state_dir: &Path) -> io::Result<Kept> {
    let state = Directory::open(state_dir)?;
    let _lock = locked(&state)?;
    if let Some(kept) = read(&state)? {
        return Ok(kept);
    }
    let kept = Kept::new()?;
    kept.write(&state)?;
    Ok(kept)
}

/// Writes what one upstream said to the file. The rest of it may have been changed by another process.
fn stored(
    state_dir: &Path,
    kept: &Kept,
    credential: &str,
    verdict: Option<Verdict>,
) -> io::Result<()> {
    let state = Directory::open(state_dir)?;
    let _lock = locked(&state)?;
    let found = read(&state)?.filter(|found| found.key == kept.key);
    let mut whole = found.unwrap_or_else(|| kept.clone());
    whole.set(credential, verdict);
    whole.write(&state)
}

/// Waits for the other processes of this machine that use the file.
fn locked(state: &Directory) -> io::Result<File> {
    let lock = state.append("credentials.lock")?;
    lock.lock()?;
    Ok(lock)
}

fn read(state: &Directory) -> io::Result<Option<Kept>> {
    match state.read(FILE, LARGEST_FILE) {
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(error) if [ErrorKind::NotFound, ErrorKind::InvalidData].contains(&error.kind()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn unkept(state_dir: &Path, error: &io::Error) {
    let file = state_dir.join(FILE);
    tracing::warn!(
        "cannot keep in {} which credentials were accepted, so a rejected one is asked again at the next run: {error}",
        file.display()
    );
}
