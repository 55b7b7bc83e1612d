//! Access tokens of OAuth 2: requested, shared with the other processes of this machine, and renewed before they expire.
//! Token requests are not charged: they go to another server than the metered calls, which counts no quota for them.

mod request;
mod service_account;
mod store;

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Mutex;

use self::request::{TokenRequest, dependencies, token_request, tokens};
use self::store::TokenStore;
use super::endpoint::{Endpoint, host_of};
use super::http::Http;
use super::redactor::Redactor;
use super::{Failure, Wait, transient};
use ingest_base::clock::{Clock, Deadline, Monotonic, SystemClock};
use ingest_config as config;
use ingest_config::OAuth;
use ingest_quota::Timestamp;
use ingest_secret::{Remedy, SecretsInUse};

pub use self::request::basic;

/// A token is renewed this long before it expires, or a quarter of its lifetime if that is shorter.
const EARLY: Duration = Duration::from_secs(60);
/// After a failed token request, none is sent for this long: each of many regions would wait for it.
const FAILURE_LASTS: Duration = Duration::from_secs(60);
/// The longest pause between two token requests.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The largest response of a token endpoint, in bytes.
const MAX_BODY: u64 = 256 * 1024;

/// The access token of a credential.
#[derive(Debug)]
pub struct AccessToken {
    oauth: OAuth,
    timeout: Duration,
    attempts: u32,
    pause: Duration,
    /// The state directory in which tokens are stored, and the credential whose they are; `None`: they are not stored.
    stored_in: Option<(PathBuf, String)>,
    cached: Mutex<CachedToken>,
}

/// Tokens as the server issued them.
#[derive(Debug, Clone)]
struct Token {
    access: SecretString,
    /// `None` if the server issued none: then the former one stays valid.
    refresh: Option<SecretString>,
    obtained_at: Timestamp,
    /// `None` if the server did not say.
    expires_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct CachedToken {
    token: Option<Token>,
    /// How many tokens this process has had.
    generation: u64,
    /// Whether the upstream has accepted the token.
    accepted: bool,
    /// The last token request failed then, for this reason.
    failed: Option<(Monotonic, Failure)>,
}

/// The token that one request carries.
#[derive(Debug, Clone)]
pub struct TokenInUse {
    /// The token.
    pub access: SecretString,
    generation: u64,
}

impl Token {
    /// Whether it need not be renewed yet.
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expiry| {
            let lifetime = expiry.since(self.obtained_at);
            expiry.since(now) > EARLY.min(lifetime / 4)
        })
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expiry| expiry > now)
    }

    fn is(&self, access: &SecretString) -> bool {
        self.access.expose_secret() == access.expose_secret()
    }
}

impl AccessToken {
    /// The access token for an upstream. Nothing is requested yet.
    pub fn new(oauth: OAuth, upstream: &config::Upstream) -> Self {
        Self {
            oauth,
            timeout: upstream.timeout,
            attempts: upstream.attempts,
            pause: upstream.pause,
            stored_in: None,
            cached: Mutex::default(),
        }
    }

    /// The same token, which is stored in the state directory as the token of `credential`.
    pub fn stored_in(self, state_dir: &Path, credential: &str) -> Self {
        Self {
            stored_in: Some((state_dir.to_owned(), credential.to_owned())),
            ..self
        }
    }

    /// Builds the request for a token, which is not sent.
    ///
    /// # Errors
    /// None can be built of these secrets.
    pub fn check(&self, secrets: &SecretsInUse) -> Result<(), Failure> {
        let request = token_request(&self.oauth, secrets, None, SystemClock.now());
        request.map(drop).map_err(Failure::NotSent)
    }

    /// A token for one request, which is requested if there is none that stays valid for a while.
    ///
    /// # Errors
    /// Why there is none. No metered request was sent.
    pub async fn reveal(&self, secrets: &SecretsInUse) -> Result<TokenInUse, Failure> {
        // Held while a token is requested: the other regions wait for this one instead of each requesting its own.
        let mut cached = self.cached.lock().await;
        let now = SystemClock.now();
        if cached
            .token
            .as_ref()
            .is_some_and(|token| token.is_fresh(now))
        {
            return cached.in_use();
        }
        let failed = cached.failed.take();
        let failed = failed.filter(|(at, _)| at.elapsed() < FAILURE_LASTS);
        let obtained = match failed {
            Some((at, failure)) => {
                cached.failed = Some((at, failure.clone()));
                Err(failure)
            }
            None => self.obtain(secrets, None).await.inspect_err(|failure| {
                cached.failed = Some((Monotonic::now(), failure.clone()));
            }),
        };
        match obtained {
            Ok(token) => cached.replace(token),
            // It was to be renewed early; until it expires it serves.
            Err(_)
                if cached
                    .token
                    .as_ref()
                    .is_some_and(|token| token.is_valid(now)) => {}
            Err(failure) => return Err(failure),
        }
        cached.in_use()
    }

    /// The token that was revealed last, else a new one. Used after a request was charged, when nothing may take long.
    ///
    /// # Errors
    /// As [`Self::reveal`].
    pub async fn current(&self, secrets: &SecretsInUse) -> Result<TokenInUse, Failure> {
        let current = self.cached.lock().await.in_use();
        match current {
            Ok(token) => Ok(token),
            Err(_) => self.reveal(secrets).await,
        }
    }

    /// Records that the upstream accepted the token.
    pub async fn accepted(&self, used: &TokenInUse) {
        let mut cached = self.cached.lock().await;
        cached.accepted |= cached.generation == used.generation;
    }

    /// Requests another token after the upstream rejected this one: once, and again only after it accepted one.
    ///
    /// # Errors
    /// There is no other token.
    pub async fn rejected(
        &self,
        used: &TokenInUse,
        secrets: &SecretsInUse,
    ) -> Result<Remedy, Failure> {
        let mut cached = self.cached.lock().await;
        // Another request has renewed it meanwhile.
        if cached.generation > used.generation {
            return Ok(Remedy::Renewed);
        }
        // The token that replaced a rejected one was never accepted: a third one would be rejected too.
        if cached.generation > 1 && !cached.accepted {
            return Ok(Remedy::Nothing);
        }
        let token = self.obtain(secrets, Some(&used.access)).await?;
        cached.replace(token);
        Ok(Remedy::Renewed)
    }

    /// A token that another process stored meanwhile, else one that is requested now.
    async fn obtain(
        &self,
        secrets: &SecretsInUse,
        rejected: Option<&SecretString>,
    ) -> Result<Token, Failure> {
        let Some((state_dir, credential)) = &self.stored_in else {
            return self.request(secrets, None).await;
        };
        let dependencies = dependencies(&self.oauth, secrets).map_err(Failure::NotSent)?;
        let store = TokenStore::new(state_dir, credential, dependencies);
        let lock = store.lock().await.map_err(Failure::NotSent)?;
        // Behind the lock: the process that held it may have stored a token.
        let stored = store.read();
        if let Some(token) = &stored
            && token.is_fresh(SystemClock.now())
            && rejected.is_none_or(|rejected| !token.is(rejected))
        {
            return Ok(token.clone());
        }
        let replacement = store.prepare(&lock).map_err(Failure::NotSent)?;
        let former = stored.and_then(|token| token.refresh);
        let issued = self.request(secrets, former.as_ref()).await?;
        let token = Token {
            // A server that sends no new refresh token leaves the former one valid.
            refresh: issued.refresh.or(former),
            ..issued
        };
        if let Err(why) = store.replace(replacement, &token) {
            // The token itself is valid, so this run goes on.
            tracing::error!("{why}; if the server replaces refresh tokens, authorize again");
        }
        Ok(token)
    }

    /// Requests a token, several times if the endpoint fails for a while.
    async fn request(
        &self,
        secrets: &SecretsInUse,
        refresh: Option<&SecretString>,
    ) -> Result<Token, Failure> {
        let mut attempt = 1;
        loop {
            let request = token_request(&self.oauth, secrets, refresh, SystemClock.now());
            let request = request.map_err(|why| self.unsendable(&why))?;
            let (why, pause) = match self.send(&request).await {
                Err(Failure::Transient {
                    message,
                    retry_after,
                    ..
                }) => (message, retry_after.map_or(Duration::ZERO, Wait::length)),
                Err(Failure::Unreachable(why)) => (why, Duration::ZERO),
                done => {
                    if done.is_ok() {
                        tracing::info!("obtained an access token from {}", host_of(&request.url));
                    }
                    return done;
                }
            };
            let pause = pause.max(self.pause.saturating_mul(1 << (attempt - 1).min(16)));
            if attempt >= self.attempts || pause > LONGEST_PAUSE {
                return Err(Failure::Unreachable(format!(
                    "no access token after {attempt} attempts: {why}"
                )));
            }
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    fn unsendable(&self, why: &str) -> Failure {
        let whose = self.stored_in.as_ref();
        let whose = whose.map(|(_, credential)| format!("the credential {credential}: "));
        Failure::NotSent(whose.unwrap_or_default() + why)
    }

    async fn send(&self, request: &TokenRequest) -> Result<Token, Failure> {
        let endpoint = Endpoint {
            url: request.url.clone(),
            timeout: self.timeout,
            max_body: MAX_BODY,
        };
        let http = Http::new(endpoint).map_err(Failure::NotSent)?;
        let sent = request.http()?;
        let redactor = Redactor::new(request.secrets());
        let connection = http.connect().await?;
        // A token request is not charged, so no grant limits when it may leave.
        let deadline = Deadline::new(Monotonic::now(), self.timeout);
        let response = http.exchange(&sent, connection, deadline, redactor).await;
        let response = response.map_err(|failure| match failure {
            Failure::TooLate => {
                transient(format!("{} did not respond in time", host_of(&request.url)))
            }
            failure => failure,
        })?;
        tokens(&response, &request.url, SystemClock.now())
    }
}

impl CachedToken {
    fn replace(&mut self, token: Token) {
        *self = Self {
            token: Some(token),
            generation: self.generation + 1,
            accepted: false,
            failed: None,
        };
    }

    fn in_use(&self) -> Result<TokenInUse, Failure> {
        let token = self.token.as_ref();
        let token = token.ok_or_else(|| Failure::NotSent("there is no access token".to_owned()))?;
        Ok(TokenInUse {
            access: token.access.clone(),
            generation: self.generation,
        })
    }
}
