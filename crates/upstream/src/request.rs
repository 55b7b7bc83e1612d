//! Builds a request: URL, headers and body, first without its secrets, then with them.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use reqwest::Request;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use secrecy::zeroize::Zeroizing;
use serde_json::{Value, json};
use url::Url;

use super::authorization::{Carried, add_header, no_value};
use super::http;
use super::request_body::{self as body, RenderedBody};
use super::shown::ShownRequest;
use super::{Failure, PageRequest};
use ingest_base::fnv::fnv;
use ingest_config as config;
use ingest_config::identity::set_ones;
use ingest_config::{
    Auth, Body, CredentialLimit, Field, Format, Lasting, Param, Place, Records, Step, Template,
    Turn, Values,
};
use ingest_quota::LimitName;

/// A request without its secret.
pub struct RequestParts<'a> {
    pub upstream: &'a config::Upstream,
    pub limits: &'a BTreeMap<LimitName, CredentialLimit>,
    pub request: PageRequest<'a>,
    pub url: Url,
    /// The number of records on a full page; `None` if no size is requested.
    pub page_size: Option<u64>,
    headers: HeaderMap,
    body: Option<RenderedBody>,
    /// Headers and query parameters that contain a secret, which is added when the request is sent.
    secret_headers: Templates<'a>,
    pub secret_params: Parameters<'a>,
}

/// Templates by the names of their headers.
type Templates<'a> = BTreeMap<&'a str, &'a Template>;
/// Parameters by their names.
type Parameters<'a> = BTreeMap<&'a str, &'a Param>;

impl<'a> RequestParts<'a> {
    pub fn new(
        upstream: &'a config::Upstream,
        limits: &'a BTreeMap<LimitName, CredentialLimit>,
        request: PageRequest<'a>,
    ) -> Result<Self, Failure> {
        let turn = request
            .step
            .call
            .paging
            .turn(request.cursor, request.lasting)?;
        let body = body::rendered(&request, &turn, &without_secrets)?;
        let (headers, secret_headers) = headers(upstream, &request)?;
        let params = turn.then.map_or(&request.step.params, |then| &then.params);
        let params = params.iter().map(|(name, param)| (name.as_str(), param));
        let (secret_params, params) =
            params.partition(|(_, param)| param.templates().iter().any(contains_secret));
        let parameters = parameters(&request, &turn, &params)?;
        let page_size = page_size(&request, &parameters, body.as_ref());
        let url = url(&upstream.base_url, &request, &turn, parameters)?;
        fits(&url, &request, &turn)?;
        Ok(Self {
            upstream,
            limits,
            request,
            url,
            page_size,
            headers,
            body,
            secret_headers,
            secret_params,
        })
    }

    /// The format of its response.
    pub fn format(&self) -> Format {
        let records = self.request.step.call.records.as_ref();
        records.map_or_else(Format::default, |records| records.format)
    }

    /// The values of its templates.
    pub fn values(&self) -> Values<'a> {
        values(&self.request)
    }

    /// The identity of this request, and of what is read from its response. Does not contain the secret.
    pub fn name(&self) -> String {
        let call = &self.request.step.call;
        let records = call.records.as_ref();
        let sent = json!({
            "method": call.method.as_str(),
            "upstream": self.upstream.place(),
            "url": self.place_of_url(),
            "headers": header_lines(&self.headers),
            "secrets": self.secret_lines(),
            "read": records.map(|records| read_of(records)),
        });
        set_ones(sent).to_string()
    }

    /// Its path below the upstream's base path, and its query.
    fn place_of_url(&self) -> (&str, Option<&str>) {
        let (path, base) = (self.url.path(), self.upstream.base_url.path());
        let below = path.strip_prefix(base.trim_end_matches('/'));
        (below.unwrap_or(path), self.url.query())
    }

    /// The headers and parameters that contain a secret, as they are configured.
    fn secret_lines(&self) -> Vec<String> {
        let header = |(name, template): (&&str, &&Template)| format!("{name}: {template}");
        let params = self.secret_params.iter().flat_map(|(name, param)| {
            let templates = param.templates().iter();
            templates.map(move |template| format!("{name}={template}"))
        });
        let headers = self.secret_headers.iter().map(header);
        headers.chain(params).collect()
    }

    /// The request as it is sent, without its secrets.
    pub fn shown(&self) -> ShownRequest {
        const HIDDEN: &str = "(hidden)";
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut headers: Vec<(String, String)> = http::headers(&self.public_headers())
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        let secret = self.secret_headers.iter();
        headers.extend(secret.map(|(name, template)| ((*name).to_owned(), template.to_string())));
        let mut url = self.url.to_string();
        let mut add = |name: &str, value: &str| {
            let mark = if url.contains('?') { '&' } else { '?' };
            url.push_str(&format!("{mark}{name}={value}"));
        };
        for (name, param) in &self.secret_params {
            for template in param.templates() {
                add(name, template.as_str());
            }
        }
        match &self.upstream.auth {
            Auth::None => {}
            Auth::Query(name) => add(name, HIDDEN),
            Auth::Header(name) => headers.push((name.clone(), HIDDEN.to_owned())),
            Auth::Bearer | Auth::OAuth(_) => {
                headers.push((AUTHORIZATION.to_string(), format!("Bearer {HIDDEN}")));
            }
            Auth::Basic { .. } => {
                headers.push((AUTHORIZATION.to_string(), format!("Basic {HIDDEN}")));
            }
        }
        ShownRequest {
            method: self.request.step.call.method.to_string(),
            url,
            headers,
            body: self.body.as_ref().map(RenderedBody::shown),
        }
    }

    /// The request as it is sent.
    ///
    /// # Errors
    /// A secret is missing, or cannot be sent in this way.
    pub fn authorized(&self, carried: &Carried) -> Result<Request, Failure> {
        let method = self.request.step.call.method.clone();
        let mut request = Request::new(method, self.url.clone());
        *request.headers_mut() = self.public_headers();
        if let Some(tag) = self
            .request
            .known
            // A tag that no header can carry is left out: the page is then requested as if it were new.
            .and_then(|known| HeaderValue::try_from(&known.tag.name).ok())
        {
            request.headers_mut().insert(IF_NONE_MATCH, tag);
        }
        self.add_body(&mut request, carried)?;
        self.reveal(&mut request, carried)?;
        // Last, so that no configured header or parameter takes the place of the secret.
        carried.authorize(&mut request, &self.upstream.auth)?;
        Ok(request)
    }

    fn add_body(&self, request: &mut Request, carried: &Carried) -> Result<(), Failure> {
        let PageRequest {
            step,
            cursor,
            lasting,
            ..
        } = self.request;
        let turn = step.call.paging.turn(cursor, lasting)?;
        let configured = body::of_page(&self.request, &turn).into_iter();
        // Rendered again: the first body has variables in place of secrets, so that fingerprints and `shown` have none.
        let body = if configured.flat_map(Body::templates).any(contains_secret) {
            body::rendered(&self.request, &turn, &|template, values| {
                Ok(revealed(template, values, carried)?.to_string())
            })?
        } else {
            self.body.clone()
        };
        *request.body_mut() = body.map(|body| body.to_string().into());
        Ok(())
    }

    /// The configured headers without a secret, and those that the formats of the request and of its response imply.
    fn public_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let media_type = HeaderValue::from_static(self.format().media_type());
        headers.entry(ACCEPT).or_insert(media_type);
        if let Some(body) = &self.body {
            let content_type = HeaderValue::from_static(body.content_type());
            headers.entry(CONTENT_TYPE).or_insert(content_type);
        }
        headers
    }

    fn reveal(&self, request: &mut Request, carried: &Carried) -> Result<(), Failure> {
        let values = self.values();
        for (name, template) in &self.secret_headers {
            add_header(request, name, &revealed(template, &values, carried)?)?;
        }
        for (name, param) in &self.secret_params {
            let texts = param.render(&values, |template, values| {
                revealed(template, values, carried)
            })?;
            let mut query = request.url_mut().query_pairs_mut();
            for text in texts {
                query.append_pair(name, &text);
            }
        }
        Ok(())
    }
}

impl<'a> PageRequest<'a> {
    /// The cursor of the page: its own, or that with which the pass began.
    #[must_use]
    pub fn page_cursor(&self) -> Option<&'a str> {
        self.step.call.paging.cursor_of(self.cursor, self.lasting)
    }

    /// Whether it requests the first page of a list that names everything.
    #[must_use]
    pub const fn is_first(&self) -> bool {
        self.cursor.is_none() && self.lasting.is_none()
    }
    /// Its fingerprint: the call, and a hash of what is sent and how the response is read. The secret and the upstream's
    /// `base_url` are not part of it; nor is the cursor, if the request has none.
    #[must_use]
    pub fn identity(self, upstream: &config::Upstream) -> String {
        let call = &self.step.call;
        let sent = RequestParts::new(upstream, &BTreeMap::new(), self).map(|parts| {
            let mut lines = header_lines(&parts.headers);
            lines.extend(parts.secret_lines());
            set_ones(json!({
                "method": call.method.as_str(),
                // Without host and base path, so that a pass goes on where the upstream has moved.
                "url": parts.place_of_url(),
                "headers": lines,
                "body": parts.body.as_ref().map(RenderedBody::to_string),
            }))
        });
        let paging = &call.paging;
        let identity = set_ones(json!({
            "sent": sent.ok(),
            "read": call.records.as_ref().map(|records| read_of(records)),
            "paging": paging.identity(),
            "lasting": paging.lasting().map(Lasting::as_str),
            "lasting_param": paging.lasting_param(),
        }));
        format!("{} {:032x}", call.name, fnv(&identity.to_string()))
    }

    /// Its identity among the requests to this upstream; `None` if it cannot be built.
    #[must_use]
    pub fn name(self, upstream: &config::Upstream) -> Option<String> {
        RequestParts::new(upstream, &BTreeMap::new(), self)
            .ok()
            .map(|parts| parts.name())
    }
}

/// What tells the records of a response apart.
fn read_of(records: &Records) -> Value {
    let ids: Vec<&str> = records.id.iter().map(Field::as_str).collect();
    json!([records.at.as_str(), records.kind, ids])
}

fn header_lines(headers: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
    };
    headers.iter().map(line).collect()
}

pub(super) fn values<'a>(request: &PageRequest<'a>) -> Values<'a> {
    Values {
        region: request.region,
        ids: request.ids,
        cursor: request.step.call.paging.cursor_text(request.page_cursor()),
        // All pages of a pass are requested alike, in whichever run.
        now: request.began,
        since: request.since,
        parent: request.step.ids.as_ref().map_or(&[], |ids| ids.at.parent()),
    }
}

fn contains_secret(template: &Template) -> bool {
    template.secrets().next().is_some()
}

/// A text in which secrets are still variables.
fn without_secrets(template: &Template, values: &Values<'_>) -> Result<String, Failure> {
    Ok(template.render(values))
}

fn revealed(
    template: &Template,
    values: &Values<'_>,
    carried: &Carried,
) -> Result<Zeroizing<String>, Failure> {
    let text = template.reveal(Some(values), |name| carried.secrets.get(name));
    text.ok_or_else(|| no_value(template))
}

/// The configured headers, and those that contain a secret. A header of the call replaces one of its upstream.
fn headers<'a>(
    upstream: &'a config::Upstream,
    request: &PageRequest<'a>,
) -> Result<(HeaderMap, Templates<'a>), Failure> {
    let configured = upstream.headers.iter().chain(&request.step.call.headers);
    let configured: Templates<'a> = configured
        .map(|(name, template)| (name.as_str(), template))
        .collect();
    let (secret, public): (Templates<'a>, Templates<'a>) = configured
        .into_iter()
        .partition(|(_, template)| contains_secret(template));
    let mut headers = HeaderMap::new();
    for (name, template) in public {
        let unfit = || {
            Failure::NotSent(format!(
                "the header `{name}` cannot contain `{template}` with these values"
            ))
        };
        let value =
            HeaderValue::try_from(template.render(&values(request))).map_err(|_| unfit())?;
        headers.insert(HeaderName::try_from(name).map_err(|_| unfit())?, value);
    }
    Ok((headers, secret))
}

/// The query parameters. Paging parameters override the step's, which override the usual page size.
fn parameters(
    request: &PageRequest<'_>,
    turn: &Turn<'_>,
    params: &Parameters<'_>,
) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let values = values(request);
    let size = turn
        .size
        .map(|(name, size)| (name.to_owned(), vec![size.to_string()]));
    let own = params.iter().map(|(name, param)| {
        let texts = param.render(&values, without_secrets)?;
        Ok(((*name).to_owned(), texts))
    });
    let own = own.collect::<Result<Vec<_>, Failure>>()?;
    let cursor = turn.begins.iter().chain(&turn.cursor);
    let cursor = cursor.flat_map(|(name, cursor)| match cursor {
        Value::Object(members) => {
            let parameter =
                |(name, value): (&String, &Value)| (name.clone(), vec![value_text(value)]);
            members.iter().map(parameter).collect()
        }
        cursor => vec![((*name).to_owned(), vec![value_text(cursor)])],
    });
    Ok(match turn.place {
        Place::Query => size.into_iter().chain(own).chain(cursor).collect(),
        Place::Body => own.into_iter().collect(),
    })
}

pub(super) fn value_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The number of records on a full page, by the size that is actually sent: a step can override that of its call.
fn page_size(
    request: &PageRequest<'_>,
    parameters: &BTreeMap<String, Vec<String>>,
    body: Option<&RenderedBody>,
) -> Option<u64> {
    let paging = &request.step.call.paging;
    let size = paging.size()?;
    let requested = size.param.and_then(|name| match paging.place() {
        Place::Query => parameters.get(name)?.first()?.parse().ok(),
        Place::Body => body?.value_of(name)?.parse().ok(),
    });
    requested.or(Some(size.size))
}

/// The longest URL, in bytes, with space for a secret.
// The URI type of the HTTP library holds 65,534 bytes.
const LONGEST_URL: usize = 64_000;

fn fits(url: &Url, request: &PageRequest<'_>, turn: &Turn<'_>) -> Result<(), Failure> {
    let length = url.as_str().len();
    if length <= LONGEST_URL {
        return Ok(());
    }
    let cursor = request
        .page_cursor()
        .map_or(0, |cursor| cursor.chars().count());
    Err(Failure::NotSent(match turn {
        Turn { go_to: Some(_), .. } => {
            format!(
                "the next page's URL is {cursor} characters long, which is too long for a \
                request"
            )
        }
        Turn {
            cursor: Some((_, Value::String(_))),
            place: Place::Query,
            ..
        } if cursor > length / 4 => {
            format!(
                "the next page's token is {cursor} characters long, which is too long for a URL"
            )
        }
        _ => format!("the URL is {length} characters long, which is too long for a request"),
    }))
}

fn url(
    base: &Url,
    request: &PageRequest<'_>,
    turn: &Turn<'_>,
    parameters: BTreeMap<String, Vec<String>>,
) -> Result<Url, Failure> {
    let mut url = base.clone();
    if let Some(page) = turn.go_to {
        let (path, query) = page
            .split_once('?')
            .map_or((page, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
        return Ok(url);
    }
    let path = path(request, turn)?;
    let separator = if path.is_empty() { "" } else { "/" };
    url.set_path(&format!(
        "{}{separator}{path}",
        base.path().trim_end_matches('/')
    ));
    add(&mut url, parameters.iter());
    Ok(url)
}

/// Adds parameters to a query. Without any, the URL keeps no `?`.
fn add<'a>(url: &mut Url, parameters: impl Iterator<Item = (&'a String, &'a Vec<String>)>) {
    let mut pairs = parameters
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
        .peekable();
    if pairs.peek().is_some() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
}

/// The path below the base URL. A value never leaves its segment.
fn path(request: &PageRequest<'_>, turn: &Turn<'_>) -> Result<String, Failure> {
    let Step { call, .. } = request.step;
    let then = turn.then.and_then(|then| then.path.as_ref());
    let template = then
        .or(call.path.as_ref())
        .ok_or_else(|| Failure::NotSent(format!("`{}` has no path", call.name)))?;
    let path = template.path(&values(request));
    let path = path.trim_start_matches('/');
    if path.split('/').any(climbs) {
        return Err(Failure::NotSent(format!(
            "the path of `{}` leads outside base_url: `{template}` with these values",
            call.name
        )));
    }
    Ok(path.to_owned())
}

/// Whether a segment is `.` or `..`, encoded or not.
fn climbs(segment: &str) -> bool {
    matches!(
        &*percent_decode_str(segment).collect::<Vec<u8>>(),
        b"." | b".."
    )
}
