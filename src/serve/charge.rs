//! Charging over HTTP: the charge of `ingest charge`, for programs without `ingest`. The client's `Idempotency-Key` is the id
//! of the charge, so that a request whose answer was lost is safe to repeat.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tokio::task::JoinError;
use tokio::time::timeout;

use super::App;
use super::api::{JSON, json_text};
use super::auth::{TokenClient, only};
use super::fields::whole_seconds;
use super::problem::{Problem, RETRY};
use super::turns::{Turns, apart};
use crate::commands::Error;
use crate::commands::charge::{
    ChargeOrder, ChargeReport, Charging, OrderedCost, WhyRefused, Word, id_of,
};
use crate::commands::environment::Environment;
use crate::commands::refill::charging_ledger;
use crate::commands::release::correct;
use ingest_config::{Credential, Region};
use ingest_ledger::{LedgerClient, OpenLedgerError};
use ingest_quota::{Account, ChargeId, Cost, LimitName, Units};

/// The longest body of a request, in bytes.
const LONGEST_BODY: usize = 64 * 1024;
/// How long a body may take to arrive.
const BODY: Duration = Duration::from_secs(10);
/// The most charges of a ledger in a file at once. They take turns there anyway, and each opens the file.
const MOST_IN_FILE: usize = 8;
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The ledger, while the server charges it.
pub struct Charges {
    /// A shared ledger stays open, so that a charge needs no new connection.
    shared: OnceCell<Arc<dyn LedgerClient>>,
    turns: Turns,
}

impl Default for Charges {
    fn default() -> Self {
        Self {
            shared: OnceCell::new(),
            turns: Turns::of(MOST_IN_FILE),
        }
    }
}

/// The units of a charge: of each limit, or a number for the limit `daily`.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "`cost`: expected units, such as 3, or units by limit, such as {\"daily\": 3}"
)]
enum UnitsBody {
    /// Of the limit `daily`.
    Daily(u64),
    /// By limit.
    ByLimit(BTreeMap<LimitName, u64>),
}

/// A charge: of a call, or of units.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChargeBody {
    /// A credential of the configuration.
    credential: String,
    /// A call of its upstream, which costs what is configured.
    call: Option<String>,
    /// The units, in place of a call.
    cost: Option<UnitsBody>,
    /// How many times; 1 if absent.
    times: Option<u64>,
    /// The region of the requests; required if they charge a limit with a scope.
    region: Option<String>,
}

/// A charge to release.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// The id of the charge; the `Idempotency-Key` if absent.
    id: Option<String>,
    /// The credential that was charged; required if it cannot be found by its id alone.
    credential: Option<String>,
}

/// A charge and its true cost.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettleBody {
    /// The id of the charge; the `Idempotency-Key` if absent.
    id: Option<String>,
    /// The credential that was charged; required if it cannot be found by its id alone.
    credential: Option<String>,
    /// The units that it truly cost, by the names of the limits in the answer to the charge. Those of the configuration are
    /// understood too if the credential is clear.
    cost: UnitsBody,
}

/// A charge that counts no longer.
#[derive(Debug, Serialize)]
pub struct Released {
    id: ChargeId,
    account: String,
    /// Not where another machine made it and the ledger cannot be asked for it: it is released at the next contact.
    released: bool,
}

/// A charge with its true cost.
#[derive(Debug, Serialize)]
pub struct Settled {
    id: ChargeId,
    account: String,
    /// As in [`Released`].
    settled: bool,
    units: Cost,
}

impl From<UnitsBody> for Cost {
    fn from(body: UnitsBody) -> Self {
        match body {
            UnitsBody::Daily(units) => Self::from_iter([("daily".to_owned(), Units::new(units))]),
            UnitsBody::ByLimit(limits) => limits
                .into_iter()
                .map(|(limit, units)| (limit, Units::new(units)))
                .collect(),
        }
    }
}

/// `POST /api/v1/charge`
pub async fn charge(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Arc<TokenClient>>,
    request: Request,
) -> Result<Response, Problem> {
    let key = key(request.headers())?;
    let body: ChargeBody = body(request).await?;
    // Before the credential is looked up: the answer to an unknown name has all known ones.
    may_charge(&client, &body.credential)?;
    let charging = charging(&app.environment, &body, key.as_deref())?;
    // A client that hangs up does not leave the charge half done.
    let task = tokio::spawn(async move {
        let charge =
            |ledger: Arc<dyn LedgerClient>| async move { Ok(charging.charge_in(&*ledger).await?) };
        app.in_ledger(charge).await
    });
    Ok(answered(&task.await.map_err(unfinished)??))
}

/// `POST /api/v1/release`
pub async fn release(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Arc<TokenClient>>,
    request: Request,
) -> Result<Response, Problem> {
    let key = key(request.headers())?;
    let body: ReleaseBody = body(request).await?;
    let (id, accounts) = named(&app, &client, body.id.or(key), body.credential.as_deref())?;
    let (id, account, released) = app.correct(id, accounts, Cost::none()).await?;
    Ok(json_text(&Released {
        id,
        account,
        released,
    }))
}

/// `POST /api/v1/settle`
pub async fn settle(
    State(app): State<Arc<App>>,
    Extension(client): Extension<Arc<TokenClient>>,
    request: Request,
) -> Result<Response, Problem> {
    let key = key(request.headers())?;
    let body: SettleBody = body(request).await?;
    let (id, accounts) = named(&app, &client, body.id.or(key), body.credential.as_deref())?;
    let units = true_cost(&app, &client, body.credential.as_deref(), body.cost.into());
    if units.counted() != units {
        let most = Units::MOST_COUNTED;
        return Err(Problem::bad_request(format!(
            "cost: expected at most {most} units of each limit"
        )));
    }
    let (id, account, settled) = app.correct(id, accounts, units.clone()).await?;
    Ok(json_text(&Settled {
        id,
        account,
        settled,
        units,
    }))
}

/// The units by the names of their limits in the ledger. The names in the configuration are those of a credential: the named
/// one, or the only one that the client may charge.
fn true_cost(app: &App, client: &TokenClient, credential: Option<&str>, units: Cost) -> Cost {
    let mut own = own(app, client, credential);
    match (own.next(), own.next()) {
        // Names that the configuration does not know may be those in the ledger: `correct` refuses what is neither.
        (Some(only), None) => only.in_ledger(&units, &Region::shared()).unwrap_or(units),
        (Some(_), Some(_)) | (None, _) => units,
    }
}

/// The credentials that the client may charge; of these, the named one.
fn own<'a>(
    app: &'a App,
    client: &'a TokenClient,
    credential: Option<&'a str>,
) -> impl Iterator<Item = &'a Arc<Credential>> {
    let credentials = app.environment.config.credentials.values();
    credentials.filter(move |one| {
        client.config.may_charge(&one.name) && credential.is_none_or(|name| name == one.name)
    })
}

fn may_charge(client: &TokenClient, credential: &str) -> Result<(), Problem> {
    if client.config.may_charge(credential) {
        return Ok(());
    }
    let credential = ingest_base::plain::one_line(credential);
    let detail = format!(
        "client `{}` may not charge credential `{credential}`; see serve.clients.{}.charge",
        client.name, client.name
    );
    Err(Problem::new(StatusCode::FORBIDDEN, detail))
}

/// The id of the request: a string in quotes, as the header's definition has it, or the bare text.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let wrong = || {
        Problem::bad_request(
            "Idempotency-Key: expected one, of 1 to 255 printable ASCII characters",
        )
    };
    let Some(text) = only(headers, &KEY).map_err(|_| wrong())? else {
        return Ok(None);
    };
    let text = text.trim();
    let quoted = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let text = quoted.unwrap_or(text);
    // A header may hold tabs, which are not printable.
    let is_right = (1..=255).contains(&text.len()) && !text.contains('\t');
    is_right.then(|| Some(text.to_owned())).ok_or_else(wrong)
}

async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let bytes = timeout(BODY, to_bytes(request.into_body(), LONGEST_BODY)).await;
    let late = |_| {
        let detail = "the body took longer than 10 s; send it again";
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    };
    let unread = |error: axum::Error| {
        if !error.into_inner().is::<LengthLimitError>() {
            let detail = "the body ended early, or its chunks cannot be read; send it again";
            return Problem::bad_request(detail);
        }
        let detail = "the body is longer than 64 KiB; a charge needs far less";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let bytes = bytes.map_err(late)?.map_err(unread)?;
    // A list would be taken for the members in their order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        let detail =
            "the body: expected a JSON object, such as {\"credential\": \"…\", \"call\": \"…\"}";
        return Err(Problem::bad_request(detail));
    }
    let wrong = |error: serde_json::Error| {
        let why = ingest_base::plain::one_line(&error.to_string());
        Problem::bad_request(format!("the body: {why}"))
    };
    serde_json::from_slice(&bytes).map_err(wrong)
}

fn charging(
    environment: &Environment,
    body: &ChargeBody,
    key: Option<&str>,
) -> Result<Charging, Problem> {
    let times = body.times.unwrap_or(1);
    if times == 0 {
        return Err(Problem::bad_request("times: expected 1 or more"));
    }
    let units = body.cost.clone().map(|cost| Cost::from(cost).times(times));
    let what = match (&body.call, &units) {
        (Some(call), None) => OrderedCost::Calls(call, times),
        (None, Some(units)) => OrderedCost::Units(units),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Problem::bad_request("expected one of `call` and `cost`"));
        }
    };
    let order = ChargeOrder {
        credential: &body.credential,
        what,
        region: body.region.as_deref(),
        id: key,
    };
    Ok(Charging::new(environment, &order)?)
}

/// The charge that a request names, and the accounts in which the client may look for it.
fn named(
    app: &App,
    client: &TokenClient,
    id: Option<String>,
    credential: Option<&str>,
) -> Result<(ChargeId, Vec<Arc<Account>>), Problem> {
    let id = id.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| Problem::bad_request("expected the `id` of the charge"))?;
    let id = id_of(&id)?;
    if let Some(credential) = credential {
        may_charge(client, credential)?;
    }
    let accounts = crate::run::accounts(own(app, client, credential));
    match (accounts.is_empty(), credential) {
        (false, _) => Ok((id, accounts)),
        (true, Some(name)) => {
            let name = ingest_base::plain::one_line(name);
            Err(Problem::bad_request(format!("unknown credential `{name}`")))
        }
        (true, None) => Err(Problem::bad_request("there is no credential to charge")),
    }
}

impl App {
    /// Corrects a charge to its true cost, and returns its id, its account, and whether it is known; without units it is released.
    async fn correct(
        &self,
        id: ChargeId,
        accounts: Vec<Arc<Account>>,
        units: Cost,
    ) -> Result<(ChargeId, String, bool), Problem> {
        self.in_ledger(move |ledger| async move {
            let only = match &*accounts {
                [only] => Some(&*only.name),
                _ => None,
            };
            let correction = correct(&*ledger, (&accounts, only), &id, &units).await?;
            // A client whose answer was lost releases again.
            if correction.was_released && !units.is_none() {
                let detail = format!("charge `{id}` was released; charge again under a new id");
                return Err(Problem::new(StatusCode::CONFLICT, detail));
            }
            Ok((id, correction.account, correction.is_known))
        })
        .await
    }

    /// Works with the ledger, opened for charging. One in a file is opened for each request: a process that has it open keeps a new
    /// one from being filled.
    pub async fn in_ledger<T, F>(
        &self,
        work: impl FnOnce(Arc<dyn LedgerClient>) -> F + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Problem>> + Send,
    {
        if !self.environment.config.ledger.store.is_file() {
            let open = || open(&self.environment);
            let ledger = self.charges.shared.get_or_try_init(open).await?;
            return work(Arc::clone(ledger)).await;
        }
        let turn = self.charges.turns.take().await?;
        let environment = Arc::clone(&self.environment);
        let worked = apart(move || async move {
            let _turn = turn;
            work(open(&environment).await?).await
        });
        worked.await.map_err(unfinished)?
    }
}

fn unfinished(error: JoinError) -> Problem {
    Error::io("a charge did not finish")(error.into()).into()
}

async fn open(environment: &Environment) -> Result<Arc<dyn LedgerClient>, Problem> {
    // The server may be the first command that works in it.
    environment.create_state_dir()?;
    match charging_ledger(environment).await {
        // A new ledger is being filled, or another one is charged.
        Err(error @ Error::Ledger(OpenLedgerError::StillUsed)) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            error.to_string(),
        )),
        Err(Error::Refused(why)) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)),
        opened => Ok(opened?),
    }
}

fn answered(charged: &ChargeReport) -> Response {
    let status = match (charged.decision, charged.refusal) {
        (Word::Granted | Word::Unmetered, _) => StatusCode::OK,
        (Word::Rejected, _) => StatusCode::TOO_MANY_REQUESTS,
        (Word::Refused, Some(WhyRefused::Never)) => StatusCode::BAD_REQUEST,
        (Word::Refused, Some(WhyRefused::OtherCharge)) => {
            let other = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, &*charged.detail);
            return other.into_response();
        }
        (Word::Refused, Some(WhyRefused::Unavailable) | None) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = serde_json::to_vec(charged).unwrap_or_default();
    let mut response = (status, [(header::CONTENT_TYPE, JSON)], body).into_response();
    let retry = match status {
        StatusCode::SERVICE_UNAVAILABLE => Some(RETRY),
        _ => charged
            .retry_after_seconds
            .map(|seconds| whole_seconds(Duration::try_from_secs_f64(seconds).unwrap_or_default())),
    };
    if let Some(seconds) = retry {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
