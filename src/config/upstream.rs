use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use url::{Host, Url};

use super::{Call, OAuth, Rule, Template};

/// An API that we pull from.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// What every path of its calls is joined to. No trailing slash is needed.
    pub base_url: Url,
    /// How a request carries the secret.
    pub auth: Auth,
    /// For one request, connecting included.
    pub timeout: Duration,
    /// How often one request is tried, the first time included; at least 1.
    pub attempts: u32,
    /// Before the second attempt; doubled before each further one.
    pub pause: Duration,
    /// The longest answer that is read, in bytes after decompression.
    pub max_body: u64,
    /// Records not seen again for this long are dropped.
    pub keep: Option<Duration>,
    /// Headers that every request carries.
    pub headers: BTreeMap<String, Template>,
    /// How its answers are told apart, first match wins; what no rule matches is told by its status alone.
    pub errors: Vec<Rule>,
    /// Its calls by name.
    pub calls: BTreeMap<String, Arc<Call>>,
}

impl Upstream {
    /// Whether it is on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.base_url)
    }
}

/// Whether a URL is on this machine.
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// How a request carries the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    None,
    /// In a header of this name.
    Header(String),
    /// In a query parameter of this name.
    Query(String),
    /// As `authorization: Bearer`.
    Bearer,
    /// As `authorization: Basic`.
    Basic {
        /// The user.
        user: Template,
        /// The password.
        password: Template,
    },
    /// An access token of OAuth 2, as `authorization: Bearer`.
    OAuth(Box<OAuth>),
}

impl Auth {
    /// Every template, for the secrets that they name.
    #[must_use]
    pub fn templates(&self) -> Vec<&Template> {
        match self {
            Self::None | Self::Header(_) | Self::Query(_) | Self::Bearer => Vec::new(),
            Self::Basic { user, password } => vec![user, password],
            Self::OAuth(oauth) => oauth.templates().collect(),
        }
    }

    /// Whether a request carries the credential's `secret` itself.
    #[must_use]
    pub const fn sends_secret(&self) -> bool {
        match self {
            Self::Header(_) | Self::Query(_) | Self::Bearer => true,
            Self::None | Self::Basic { .. } | Self::OAuth(_) => false,
        }
    }
}
