//! A request as the sandbox understands it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::slice;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Uri};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use serde_json::Value;
use url::Url;

use super::pattern::PATH;
use super::route::{AnsweredCall, texts_in};
use ingest_config::{Auth, Param, Region, Template, Variable, place_in_json};

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    /// The first segment of the path.
    pub upstream: String,
    /// The rest of the path.
    pub path: String,
    /// The query; the values of a repeated parameter are joined by a comma.
    pub params: BTreeMap<String, String>,
    pub headers: HeaderMap,
    pub body: Value,
    /// Path and query as they arrived, without the upstream.
    target: String,
}

impl Received {
    pub fn new(method: &str, uri: &Uri, headers: HeaderMap, body: &[u8]) -> Self {
        let path = uri.path().trim_start_matches('/');
        let (upstream, path) = path.split_once('/').unwrap_or((path, ""));
        let query = uri.query().map(|query| format!("?{query}"));
        Self {
            target: format!("/{path}{}", query.unwrap_or_default()),
            method: method.to_owned(),
            upstream: decoded(upstream),
            path: decoded(path),
            params: params(uri.query().unwrap_or_default()),
            body: body_of(&headers, body),
            headers,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Path and query without the secret.
    pub fn target(&self, auth: &Auth) -> String {
        let Auth::Query(secret) = auth else {
            return self.target.clone();
        };
        let (path, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let is_secret = |part: &&str| part.split('=').next() == Some(secret);
        let kept: Vec<&str> = query.split('&').filter(|part| !is_secret(part)).collect();
        format!("{path}?{}", kept.join("&"))
            .trim_end_matches('?')
            .to_owned()
    }

    /// Its secret, if it has one.
    pub fn secret(&self, auth: &Auth) -> Option<Cow<'_, str>> {
        let authorization = |scheme| self.header("authorization")?.strip_prefix(scheme);
        let secret = match auth {
            Auth::None => None,
            Auth::Header(name) => self.header(name).map(Cow::from),
            Auth::Query(name) => self.params.get(name).map(Cow::from),
            Auth::Bearer | Auth::OAuth(_) => authorization("Bearer ").map(Cow::from),
            Auth::Basic { user, .. } => authorization("Basic ").and_then(|encoded| {
                let is_user = user.secrets().next().is_some();
                secret_of_basic(encoded, is_user).map(Cow::from)
            }),
        };
        secret.filter(|secret| !secret.is_empty())
    }
}

/// JSON, or the fields of a form by name.
fn body_of(headers: &HeaderMap, body: &[u8]) -> Value {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    if content_type.is_some_and(|text| text.starts_with("application/x-www-form-urlencoded")) {
        let fields = params(&String::from_utf8_lossy(body)).into_iter();
        return fields
            .map(|(name, value)| (name, Value::from(value)))
            .collect();
    }
    serde_json::from_slice(body).unwrap_or_default()
}

/// The part of `user:password` that is secret, in Base64.
fn secret_of_basic(encoded: &str, is_user: bool) -> Option<String> {
    let both = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (user, password) = both.split_once(':')?;
    Some(if is_user { user } else { password }.to_owned())
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn params(query: &str) -> BTreeMap<String, String> {
    let mut params = BTreeMap::<String, String>::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        params
            .entry(name.into_owned())
            .and_modify(|joined| {
                joined.push(',');
                joined.push_str(&value);
            })
            .or_insert_with(|| value.clone().into_owned());
    }
    params
}

/// A request for a call. Nothing in it is secret.
#[derive(Debug, Clone)]
pub struct CallRequest<'a> {
    pub route: &'a AnsweredCall,
    pub path: &'a str,
    /// The query without the secret.
    pub params: BTreeMap<String, String>,
    pub body: &'a Value,
    /// Its path and query, without the secret.
    pub target: String,
    /// The URL of its upstream in the sandbox.
    pub base: Url,
}

impl<'a> CallRequest<'a> {
    pub fn new(route: &'a AnsweredCall, arrived: &'a Received, base: Url) -> Self {
        let mut params = arrived.params.clone();
        if let Auth::Query(name) = &route.upstream.auth {
            params.remove(name);
        }
        Self {
            route,
            path: &arrived.path,
            params,
            body: &arrived.body,
            target: arrived.target(&route.upstream.auth),
            base,
        }
    }

    /// The region that the request is for, as far as its path, parameters or body show it.
    pub fn region(&self) -> Option<&'a Region> {
        let found = self.route.regions.iter();
        found
            .map(|region| &**region)
            .find(|region| self.is_for(region))
    }

    /// Whether the values of a region are where one of the steps puts them.
    fn is_for(&self, region: &Region) -> bool {
        let in_path = self.route.pattern.read(self.path).unwrap_or_default();
        let in_path = in_path.into_iter().filter_map(|(name, value)| {
            let name = name.trim_end_matches(PATH);
            let known = match name.strip_prefix("region.").unwrap_or(name) {
                "region" => Some(&region.code),
                name => region.values.get(name),
            };
            known.map(|known| known == value)
        });
        let always: Vec<bool> = in_path.collect();
        self.route.steps.iter().any(|(params, body)| {
            let in_params = params.iter().flat_map(|(name, param)| {
                let expected = param.templates().iter();
                let expected = expected.filter_map(|template| of_region(template, region));
                expected.map(|expected| self.has_param(name, param, &expected))
            });
            let in_body = body.iter().flat_map(texts_in).filter_map(|text| {
                let expected = of_region(text.template, region)?;
                Some(self.body.pointer(&text.at).and_then(text_of) == Some(expected))
            });
            let shown = in_params.chain(in_body).chain(always.iter().copied());
            let shown: Vec<bool> = shown.collect();
            !shown.is_empty() && shown.iter().all(|fits| *fits)
        })
    }

    /// Whether it has this value of a parameter.
    fn has_param(&self, name: &str, param: &Param, value: &str) -> bool {
        self.params.get(name).is_some_and(|received| match param {
            Param::Once(_) => received == value,
            Param::Repeated(_) => received.split(',').any(|one| one == value),
        })
    }

    pub fn param(&self, name: &str) -> Option<&str> {
        self.params
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// The requested ids; `None` where it requests a list.
    pub fn ids(&self) -> Option<Vec<String>> {
        let in_query = self
            .route
            .ids_params
            .iter()
            .filter_map(|name| self.params.get(name).cloned());
        let in_path = self.route.pattern.read(self.path).unwrap_or_default();
        let in_path = in_path
            .into_iter()
            .filter(|(name, _)| matches!(name.split(':').next(), Some("ids" | "id" | "parent")))
            .map(|(_, value)| value.to_owned());
        let in_body = self
            .route
            .ids_in_body()
            .into_iter()
            .filter_map(|place| self.body.pointer(&place));
        let in_body = in_body.flat_map(texts);
        let joined = in_query.chain(in_path).chain(in_body);
        let mut joined: Vec<String> = joined.filter(|ids| !ids.is_empty()).collect();
        if self.route.has_parents && !joined.is_empty() {
            // They are the values of one record, which name one thing together.
            joined = vec![joined.join("/")];
        }
        (!joined.is_empty()).then(|| joined.iter().flat_map(|ids| self.split(ids)).collect())
    }

    /// Splits ids as the call joins them.
    fn split(&self, ids: &str) -> Vec<String> {
        if let Ok(ids) = serde_json::from_str::<Vec<String>>(ids) {
            return ids;
        }
        let separators = self.route.separators.iter();
        let ids = separators.fold(ids.to_owned(), |ids, by| ids.replace(by.as_str(), ","));
        let ids = ids.split(',').map(str::trim);
        ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
    }

    /// Its cursor, as text.
    pub fn cursor(&self) -> Option<String> {
        self.page_value(self.route.cursor_param()?)
    }

    /// The cursor of the page, or else the one with which the pass began.
    pub fn place(&self) -> Option<String> {
        let lasting = || self.page_value(self.route.lasting_param()?);
        self.cursor().or_else(lasting)
    }

    /// A parameter that turns pages: from the query, otherwise from the body.
    pub fn page_value(&self, name: &str) -> Option<String> {
        self.param(name).map(str::to_owned).or_else(|| {
            let text = text_of(place_in_json(name)?.find(self.body)?)?;
            Some(text).filter(|text| !text.is_empty())
        })
    }

    /// Identifies the requested page.
    pub fn page(&self) -> String {
        format!("{} {:?}", self.list(), self.cursor())
    }

    /// Identifies the requested list: the request without what turns pages. Where further pages are requested in another way,
    /// their token contains the list.
    pub fn list(&self) -> String {
        let token = self
            .cursor()
            .filter(|_| self.route.call.paging.then.is_some());
        if let Some(list) = token.as_deref().and_then(list_of) {
            return list;
        }
        let turning: Vec<&str> = self.route.page_params().collect();
        let params = self
            .params
            .iter()
            .filter(|(name, _)| !turning.contains(&name.as_str()));
        let params: Vec<String> = params
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut body = self.body.clone();
        for place in turning.iter().filter_map(|name| place_in_json(name)) {
            remove(&mut body, place.tokens());
        }
        format!(
            "{} {} {} {body}",
            self.route.call.name,
            self.path,
            params.join("&")
        )
    }
}

fn remove(document: &mut Value, tokens: &[String]) {
    match (document, tokens) {
        (Value::Object(members), [last]) => drop(members.shift_remove(last)),
        (Value::Object(members), [first, rest @ ..]) => {
            if let Some(member) = members.get_mut(first) {
                remove(member, rest);
            }
        }
        _ => {}
    }
}

/// The texts of a text or a list of them.
fn texts(value: &Value) -> Vec<String> {
    let elements = value
        .as_array()
        .map_or(slice::from_ref(value), Vec::as_slice);
    elements.iter().filter_map(text_of).collect()
}

/// A text, or a number as text.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The list that a token contains.
fn list_of(token: &str) -> Option<String> {
    let (_, list) = token.split_once('.')?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(list).ok()?).ok()
}

/// What a template is for a region; `None` where it uses anything else.
fn of_region(template: &Template, region: &Region) -> Option<String> {
    let variables = template.variables();
    let of_region =
        |variable: &Variable| matches!(variable, Variable::Region | Variable::OfRegion(_));
    let usable = !variables.is_empty() && variables.iter().all(of_region);
    usable.then(|| template.of_region(region))
}
