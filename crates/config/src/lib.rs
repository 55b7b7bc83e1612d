//! `quotas.toml`, read into types that cannot express what makes no sense.
//!
//! [`Config`] has credentials, upstreams and jobs; a [`Job`] has [`Step`]s; a step sends a [`Call`], which has a [`Paging`] and
//! [`Rule`]s for errors. serde reads each key once (`values.rs` has the types of single values), and its docstring is its text in the
//! schema and the manual. A wrong file is refused as a whole, with each line, path and what to write (`document.rs`).
//!
//! Never sends, stores or looks at a clock. Begin with [`Config`] below, then `call.rs` and `paging.rs`; `read.rs` shows how a
//! file becomes these types.

mod body;
mod call;
mod catalog;
mod credential;
mod doubt;
mod field;
mod format;
mod header_pattern;
mod headers;
mod id_place;
pub mod identity;
mod job;
mod ledger;
mod limit;
mod moment;
mod oauth;
mod paging;
mod pointer;
mod postgres_url;
mod redis_url;
mod region;
mod rules;
mod serve;
mod since;
mod slices;
mod stop_at_known;
mod template;
mod upstream;

// How the file becomes these types.
mod check;
mod document;
mod entries;
mod error;
mod load;
mod names;
mod read;
pub mod schema;
mod set;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;

pub use body::{Body, JsonTemplate, NoNumber, Param, Params};
pub use call::{Call, Etag, Records, Removed, outage_by_cost};
pub use catalog::{CatalogConfig, CatalogStore};
pub use check::SAYS;
pub use credential::{Credential, SecretSource};
pub use doubt::Doubt;
pub use error::{ConfigError, NamedBy, Problem};
pub use field::{Column, ColumnType, Field, ResponseField};
pub use format::{Format, Layout};
pub use header_pattern::{HeaderPattern, Part, Parts};
pub use id_place::{IdPlace, joined};
pub use job::{Ids, Job, Leave, Step};
pub use ledger::{AfterLoss, ClientCertificate, LedgerConfig, LedgerStore, LedgerTls};
pub use limit::{CredentialLimit, Limits, ReportedState};
pub use load::{Sources, Surroundings};
pub use moment::{Moment, TimeFormat};
pub use oauth::{ClientPlace, Grant, OAuth, OAuthClient};
pub use paging::{
    CursorText, End, Lasting, Lead, MOST_EMPTY_PAGES, NextPage, NotANumber, PageKind, Paging,
    Place, SeenPage, Then, Turn, place_in_json,
};
pub use pointer::{Pointer, text_of};
pub use postgres_url::{PostgresAddress, PostgresHost, PostgresTls, PostgresUrl, PostgresUrlError};
pub use redis_url::{RedisUrl, RedisUrlError};
pub use region::Region;
pub use reqwest::Method;
pub use rules::{Class, Condition, Free, Rule, RuleBody, StatusMatch, Until, classify};
pub use schema::schema;
pub use serve::{May, ServeClient, ServeConfig};
pub use since::{Since, SinceValue};
pub use slices::{Slice, Slices, SlicesLeft};
pub use stop_at_known::{Recurs, StopAtKnown};
pub use template::{Template, TemplateError, Values, Variable};
pub use upstream::{Auth, Upstream};
pub use values::is_loopback;

pub use names::{closest, without};

/// The content of `quotas.toml`, checked.
#[derive(Debug, Clone, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file it came from.
    #[schemars(skip)]
    pub path: PathBuf,
    /// The partitions that jobs walk, in the order of the file: a list of codes, a table of regions with values for templates
    /// (`[regions.GB]` with `city = "London"` is used as `{city}`), or `{ file = "places.csv" }`.
    /// If unset, each job makes one pass, whose region is shown as `-`. Example: `regions = ["US", "GB", "DE"]`.
    #[schemars(with = "Option<region::Regions>")]
    pub regions: Vec<Arc<Region>>,
    /// Where charges are recorded. Example: `ledger = { url = "sqlite", timeout = "1s" }`.
    #[schemars(with = "Option<LedgerConfig>")]
    pub ledger: LedgerConfig,
    /// Where pages are stored. Example: `catalog = { url = "sqlite" }`.
    #[schemars(with = "Option<CatalogConfig>")]
    pub catalog: CatalogConfig,
    /// The server of `ingest serve`: a page, a read API, and charging over HTTP. Example: `serve = { listen = "127.0.0.1:8080" }`.
    #[schemars(with = "Option<ServeConfig>")]
    pub serve: ServeConfig,
    /// The APIs, by name. Example: `upstreams = { things = { base_url = "https://api.example.com/v1", calls = { "things.list" = { path = "things", cost = 1 } } } }`.
    #[schemars(with = "values::Named<Upstream>")]
    pub upstreams: BTreeMap<String, Arc<Upstream>>,
    /// Secrets, and the accounts whose quota they use, by name. Example: `credentials = { things = { upstream = "things", secret = { env = "THINGS_KEY" } } }`.
    #[schemars(with = "Option<values::Named<credential::CredentialKeys>>")]
    pub credentials: BTreeMap<String, Arc<Credential>>,
    /// What to fetch for each region, by name, in the order of the file. Example: `jobs = { popular = { credential = "things", steps = [{ call = "things.list" }] } }`.
    #[schemars(with = "Option<values::Named<job::JobKeys>>")]
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
        let ledger = &self.ledger;
        let of_ledger = ledger.password.iter().chain(&ledger.sentinel_password);
        let of_clients = self.serve.clients.values().map(|client| &client.token);
        let of_catalog = self.catalog.password.iter();
        of_credentials
            .chain(of_ledger)
            .chain(of_catalog)
            .chain(of_clients)
    }

    /// The job of a name.
    pub fn job(&self, name: &str) -> Option<&Arc<Job>> {
        self.jobs.iter().find(|job| job.name == name)
    }

    /// The account of a job of this name: of the credential that it uses first.
    pub fn account_of(&self, job: &str) -> Option<&str> {
        self.job(job).map(|job| &*job.credential.account.name)
    }

    /// The steps of all jobs.
    pub fn steps(&self) -> impl Iterator<Item = (&Arc<Job>, &Step)> + Clone {
        let jobs = self.jobs.iter();
        jobs.flat_map(|job| job.steps.iter().map(move |step| (job, step)))
    }

    /// The kinds of records.
    pub fn kinds(&self) -> BTreeSet<&str> {
        self.records().map(|records| &*records.kind).collect()
    }
}
