use std::collections::{BTreeMap, BTreeSet};

use secrecy::{ExposeSecret, SecretString};

use super::{Remedy, Revealed, Secret, SecretError, read};
use ingest_config::{Auth, Credential, Template};

/// The secrets of a credential: its `secret`, and those that templates name as `{secret:NAME}`.
#[derive(Debug)]
pub struct Secrets {
    own: Secret,
    named: BTreeMap<String, Secret>,
}

/// The secrets that one request carries.
#[derive(Clone, Default)]
pub struct SecretsInUse {
    own: Revealed,
    named: BTreeMap<String, Revealed>,
}

impl Secrets {
    /// The secrets of `credential`. Nothing is read yet.
    pub fn new(credential: &Credential) -> Self {
        let documents = documents(&credential.upstream.auth);
        let in_form = |secret: Secret, name: Option<&str>| {
            if documents.contains(&name) {
                secret.document()
            } else {
                secret
            }
        };
        let named = credential.secrets.iter().map(|(name, source)| {
            let owner = format!("{}: secrets.{name}", read::of_credential(&credential.name));
            let secret = Secret::owned_by(owner, Some(source.clone()));
            (name.clone(), in_form(secret, Some(name)))
        });
        Self {
            named: named.collect(),
            own: in_form(
                Secret::new(&credential.name, credential.secret.clone()),
                None,
            ),
        }
    }

    /// The same secrets and these, by their names.
    #[must_use]
    pub fn with_named(self, named: BTreeMap<String, Secret>) -> Self {
        Self { named, ..self }
    }

    /// Whether there is any secret.
    pub fn is_some(&self) -> bool {
        self.own.is_some() || !self.named.is_empty()
    }

    /// Whether a command prints one of them.
    pub fn run_commands(&self) -> bool {
        std::iter::once(&self.own)
            .chain(self.named.values())
            .any(Secret::is_from_command)
    }

    /// The secrets for one request, which are read when they are first needed.
    ///
    /// # Errors
    /// A secret is missing or malformed; the error says what to do.
    pub async fn reveal(&self) -> Result<SecretsInUse, SecretError> {
        let mut named = BTreeMap::new();
        for (name, secret) in &self.named {
            named.insert(name.clone(), secret.reveal().await?);
        }
        Ok(SecretsInUse {
            own: self.own.reveal().await?,
            named,
        })
    }

    /// Records that the upstream accepted these secrets.
    pub async fn accepted(&self, used: &SecretsInUse) {
        for (secret, revealed) in self.each(used) {
            secret.accepted(revealed).await;
        }
    }

    /// Fetches other secrets after the upstream rejected these.
    ///
    /// # Errors
    /// A secret cannot be read again.
    pub async fn rejected(&self, used: &SecretsInUse) -> Result<Remedy, SecretError> {
        let mut remedy = Remedy::Nothing;
        for (secret, revealed) in self.each(used) {
            if secret.rejected(revealed).await? == Remedy::Renewed {
                remedy = Remedy::Renewed;
            }
        }
        Ok(remedy)
    }

    fn each<'a>(
        &'a self,
        used: &'a SecretsInUse,
    ) -> impl Iterator<Item = (&'a Secret, &'a Revealed)> + use<'a> {
        let named = self.named.iter();
        let named = named.filter_map(|(name, secret)| Some((secret, used.named.get(name)?)));
        std::iter::once((&self.own, &used.own)).chain(named)
    }
}

impl From<Secret> for Secrets {
    fn from(own: Secret) -> Self {
        Self {
            own,
            named: BTreeMap::new(),
        }
    }
}

/// The names of the secrets that are documents, which no request carries as they are.
fn documents(auth: &Auth) -> BTreeSet<Option<&str>> {
    match auth {
        Auth::OAuth(oauth) => {
            let key = oauth.service_account_key();
            key.into_iter().flat_map(Template::secrets).collect()
        }
        Auth::None | Auth::Header(_) | Auth::Query(_) | Auth::Bearer | Auth::Basic { .. } => {
            BTreeSet::new()
        }
    }
}

impl SecretsInUse {
    /// The credential's `secret`; `None` if it has none.
    pub const fn own(&self) -> Option<&SecretString> {
        self.own.secret.as_ref()
    }

    /// The text of `{secret:NAME}`, or of `{secret}` without a name. `None` if there is no such secret.
    pub fn get(&self, name: Option<&str>) -> Option<&str> {
        let revealed = match name {
            None => &self.own,
            Some(name) => self.named.get(name)?,
        };
        revealed.secret.as_ref().map(ExposeSecret::expose_secret)
    }

    /// Every secret.
    pub fn all(&self) -> impl Iterator<Item = &SecretString> {
        let revealed = std::iter::once(&self.own).chain(self.named.values());
        revealed.filter_map(|revealed| revealed.secret.as_ref())
    }
}
