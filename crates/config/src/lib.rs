//! `quotas.toml`, read into types that cannot express what makes no sense.
//!
//! [`Config`] has credentials, upstreams and jobs; a [`Job`] has [`Step`]s; a step sends a [`Call`], which has a [`Paging`] and
//! [`Rule`]s for errors. Each key is declared once, by `keys!` in `declare/mod.rs`, for the reader, the schema and the manual. A wrong
//! file is refused as a whole, with each line, path and what to write.
//!
//! Never sends, stores or looks at a clock. Begin with [`Config`] below, then `call.rs` and `paging.rs`; `load.rs` shows how a
//! file becomes these types.

mod body;
mod call;
mod catalog;
mod counting;
mod credential;
mod doubt;
mod field;
mod format;
mod header_pattern;
mod headers;
pub mod identity;
mod job;
mod layout;
mod ledger;
mod limit;
mod loopback;
mod moment;
mod oauth;
mod paging;
mod path;
mod pointer;
mod postgres_url;
mod redis_url;
mod region;
mod region_source;
mod rules;
mod serve;
mod since;
mod slices;
mod template;
mod upstream;

// How the file becomes these types.
mod check;
mod declare;
mod error;
mod item;
mod load;
pub mod manual;
mod names;
mod read;
mod schema;
mod set;
mod shown;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

pub use body::{Body, JsonTemplate, Param, Params};
pub use call::{Call, Etag, Records, Removed};
pub use catalog::{CatalogConfig, CatalogStore};
pub use credential::{Credential, SecretSource};
pub use doubt::Doubt;
pub use error::{ConfigError, NamedBy, Problem};
pub use field::{Column, ColumnType, Field, ResponseField};
pub use format::Format;
pub use header_pattern::{HeaderPattern, Part, Parts};
pub use job::{Ids, Job, Step};
pub use layout::Layout;
pub use ledger::{AfterLoss, ClientCertificate, LedgerConfig, LedgerStore, LedgerTls, RedisAccess};
pub use limit::{CredentialLimit, Limits, ReportedState};
pub use load::{Sources, Surroundings};
pub use loopback::is_loopback;
pub use moment::{Moment, TimeFormat};
pub use oauth::{ClientPlace, Grant, OAuth, OAuthClient};
pub use paging::{
    ByLink, ByNextUrl, ByNumber, ByOffset, ByToken, CursorText, Lasting, Lead, MOST_EMPTY_PAGES,
    NextPage, NotANumber, PageSize, Paging, Place, SeenPage, Then, Turn, place_in_json,
};
pub use pointer::Pointer;
pub use postgres_url::{PostgresAddress, PostgresHost, PostgresTls, PostgresUrl, PostgresUrlError};
pub use redis_url::{RedisUrl, RedisUrlError};
pub use region::Region;
pub use reqwest::Method;
pub use rules::{Class, Condition, Free, Rule, RuleBody, StatusMatch, Until, classify};
pub use schema::schema;
pub use serve::{May, ServeClient, ServeConfig};
pub use since::{Since, SinceValue};
pub use slices::{Slice, Slices, SlicesLeft};
pub use template::{Template, TemplateError, Values, Variable};
pub use upstream::{Auth, Upstream};

pub use names::{closest, without};

/// The content of `quotas.toml`, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it came from.
    pub path: PathBuf,
    /// The regions that jobs walk, in the order of the file.
    pub regions: Vec<Arc<Region>>,
    /// Where charges are recorded, and what happens during an outage of that.
    pub ledger: LedgerConfig,
    /// Where pages are stored.
    pub catalog: CatalogConfig,
    /// The server of `ingest serve`.
    pub serve: ServeConfig,
    /// The upstreams by name.
    pub upstreams: BTreeMap<String, Arc<Upstream>>,
    /// The credentials by name.
    pub credentials: BTreeMap<String, Arc<Credential>>,
    /// The jobs, in the order of the file.
    pub jobs: Vec<Arc<Job>>,
}

impl Config {
    /// What responses contain, of every call that has records.
    pub fn records(&self) -> impl Iterator<Item = &Records> {
        let calls = self.upstreams.values().flat_map(|one| one.calls.values());
        calls.filter_map(|call| call.records.as_deref())
    }

    /// Where the secrets are.
    pub fn secret_sources(&self) -> impl Iterator<Item = &SecretSource> {
        let credentials = self.credentials.values();
        let of_credentials =
            credentials.flat_map(|one| one.secret.iter().chain(one.secrets.values()));
        let access = &self.ledger.access;
        let of_ledger = access.password.iter().chain(&access.sentinel_password);
        let of_clients = self.serve.clients.values().map(|client| &client.token);
        let of_catalog = self.catalog.password.iter();
        of_credentials
            .chain(of_ledger)
            .chain(of_catalog)
            .chain(of_clients)
    }

    /// The kinds of records.
    #[must_use]
    pub fn kinds(&self) -> BTreeSet<&str> {
        self.records().map(|records| &*records.kind).collect()
    }
}
