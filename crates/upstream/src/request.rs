//! Builds a request: URL, headers and body, first without its secrets, then with them.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use reqwest::Request;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;
use url::form_urlencoded::byte_serialize;

use super::authorization::{Carried, no_value};
use super::http;
use super::request_body::{self as body, RenderedBody, value_text};
use super::{Failure, PageRequest};
use ingest_base::fnv::fnv;
use ingest_config as config;
use ingest_config::identity::set_ones;
use ingest_config::{
    Auth, Call, CredentialLimit, Field, Format, Lasting, Param, Params, Place, Records, Step,
    Template, Then, Turn, Values,
};
use ingest_quota::LimitName;

/// A request in which secrets are still variables, as `{secret}`.
pub struct RequestParts<'a> {
    pub upstream: &'a config::Upstream,
    pub limits: &'a BTreeMap<LimitName, CredentialLimit>,
    pub request: PageRequest<'a>,
    rendered: Rendered,
}

/// What a request consists of, with or without its secrets.
struct Rendered {
    url: Url,
    headers: HeaderMap,
    body: Option<RenderedBody>,
    /// The number of records on a full page; `None` if no size is requested.
    page_size: Option<u64>,
}

/// A request as it is sent, with `(hidden)` in place of its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownRequest {
    pub method: String,
    /// The URL with its query.
    pub url: String,
    /// Name and value of each header.
    pub headers: Vec<(String, String)>,
    /// The body; a form as text.
    pub body: Option<Value>,
}

impl<'a> RequestParts<'a> {
    pub fn new(
        upstream: &'a config::Upstream,
        limits: &'a BTreeMap<LimitName, CredentialLimit>,
        request: PageRequest<'a>,
    ) -> Result<Self, Failure> {
        let without_secrets =
            |template: &Template, values: &Values<'_>| Ok(template.render(values));
        Ok(Self {
            upstream,
            limits,
            request,
            rendered: Rendered::new(upstream, &request, &without_secrets)
                .map_err(|failure| failure.of_ids(request.ids))?,
        })
    }

    pub const fn url(&self) -> &Url {
        &self.rendered.url
    }

    /// The number of records on a full page; `None` if no size is requested.
    pub const fn page_size(&self) -> Option<u64> {
        self.rendered.page_size
    }

    /// The format of its response.
    pub fn format(&self) -> Format {
        let records = self.request.step.call.records.as_ref();
        records.map_or_else(Format::default, |records| records.format)
    }

    /// The values of its templates.
    pub fn values(&self) -> Values<'a> {
        self.request.values()
    }

    /// The names of its query parameters that contain a secret.
    pub fn secret_params(&self) -> impl Iterator<Item = &'a str> {
        let paging = &self.request.step.call.paging;
        let turn = paging.turn(self.request.cursor, self.request.lasting);
        let params = params_of(&self.request, turn.ok().and_then(|turn| turn.then));
        let secret = params.iter().filter(|(_, param)| is_secret(param));
        secret.map(|(name, _)| name.as_str())
    }

    /// Its identity among the requests to all upstreams, and that of what is stored of its response, which is not read again while
    /// the page does not change. Does not contain the secret.
    pub fn name(&self) -> String {
        let call = &self.request.step.call;
        let identity = identity_of(call, &self.upstream.name, Some(self));
        let stored = call.records.as_deref().map(|records| {
            let texts: Vec<&str> = records.templates().map(Template::as_str).collect();
            let form = (records.format, records.layout, &records.fields);
            format!("{form:?} {:?} {:?} {texts:?}", records.key, records.removed)
        });
        let stored = fnv(&stored.unwrap_or_default());
        format!("{} {identity} {stored:032x}", self.upstream.place())
    }

    /// Its path below the upstream's base path, and its query.
    fn place_of_url(&self) -> (&str, Option<&str>) {
        let (path, base) = (self.url().path(), self.upstream.base_url.path());
        let below = path.strip_prefix(base.trim_end_matches('/'));
        (below.unwrap_or(path), self.url().query())
    }

    /// The request as it is sent, without its secrets.
    pub fn shown(&self) -> ShownRequest {
        const HIDDEN: &str = "(hidden)";
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let mut headers: Vec<(String, String)> =
            http::headers(&self.rendered.all_headers(self.format()))
                .iter()
                .map(|(name, value)| (name.to_string(), text(value)))
                .collect();
        let mut url = self.url().to_string();
        for written in self.secrets_in_query() {
            let encoded: String = byte_serialize(written.as_bytes()).collect();
            url = url.replace(&encoded, &written);
        }
        match &self.upstream.auth {
            Auth::None => {}
            Auth::Query(name) => {
                let mark = if url.contains('?') { '&' } else { '?' };
                url.push_str(&format!("{mark}{name}={HIDDEN}"));
            }
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
            body: self.rendered.body.as_ref().map(RenderedBody::shown),
        }
    }

    /// The variables of secrets in its query, as they are written.
    fn secrets_in_query(&self) -> Vec<String> {
        let params = self.request.step.params.values();
        let templates = params.flat_map(Param::templates);
        let secrets = templates.flat_map(Template::secrets);
        let written = secrets.map(|name| match name {
            None => "{secret}".to_owned(),
            Some(name) => format!("{{secret:{name}}}"),
        });
        written.collect()
    }

    /// The request as it is sent.
    ///
    /// # Errors
    /// A secret is missing, or cannot be sent in this way.
    pub fn authorized(&self, carried: &Carried) -> Result<Request, Failure> {
        let revealed = |template: &Template, values: &Values<'_>| {
            let text = template.reveal(Some(values), |name| carried.secrets.get(name));
            Ok(text.ok_or_else(|| no_value(template))?.to_string())
        };
        let sent = Rendered::new(self.upstream, &self.request, &revealed)
            .map_err(|failure| failure.of_ids(self.request.ids))?;
        let headers = sent.all_headers(self.format());
        let mut request = Request::new(self.request.step.call.method.clone(), sent.url);
        *request.headers_mut() = headers;
        *request.body_mut() = sent.body.map(|body| body.to_string().into());
        if let Some(tag) = self
            .request
            .known
            // A tag that no header can carry is left out: the page is then requested as if it were new.
            .and_then(|known| HeaderValue::try_from(&known.tag.name).ok())
        {
            request.headers_mut().insert(IF_NONE_MATCH, tag);
        }
        // Last, so that no configured header or parameter takes the place of the secret.
        carried.authorize(&mut request, &self.upstream.auth)?;
        Ok(request)
    }
}

/// Makes a text of a template: with its secrets, or with the variables in their place.
trait Text: Fn(&Template, &Values<'_>) -> Result<String, Failure> {}
impl<T: Fn(&Template, &Values<'_>) -> Result<String, Failure>> Text for T {}

impl Rendered {
    fn new(
        upstream: &config::Upstream,
        request: &PageRequest<'_>,
        text: &impl Text,
    ) -> Result<Self, Failure> {
        let paging = &request.step.call.paging;
        tells_ids_apart(request)?;
        let turn = paging.turn(request.cursor, request.lasting)?;
        let body = body::rendered(request, &turn, text)?;
        let parameters = parameters(request, &turn, text)?;
        let page_size = page_size(request, &parameters, body.as_ref());
        let url = url(&upstream.base_url, request, &turn, parameters)?;
        fits(&url, request, &turn)?;
        Ok(Self {
            url,
            headers: headers(upstream, request, text)?,
            body,
            page_size,
        })
    }

    /// The configured headers, and those that the formats of the request and of its response imply.
    fn all_headers(&self, format: Format) -> HeaderMap {
        let mut headers = self.headers.clone();
        let media_type = HeaderValue::from_static(format.media_type());
        headers.entry(ACCEPT).or_insert(media_type);
        if let Some(body) = &self.body {
            let content_type = HeaderValue::from_static(body.content_type());
            headers.entry(CONTENT_TYPE).or_insert(content_type);
        }
        headers
    }
}

impl<'a> PageRequest<'a> {
    /// The cursor of the page: its own, or that with which the pass began.
    pub fn page_cursor(&self) -> Option<&'a str> {
        self.step.call.paging.cursor_of(self.cursor, self.lasting)
    }

    /// The values of its templates.
    pub(crate) fn values(&self) -> Values<'a> {
        Values {
            region: self.region,
            ids: self.ids,
            cursor: self.step.call.paging.cursor_text(self.page_cursor()),
            // All pages of a pass are requested alike, in whichever run.
            now: self.began,
            since: self.since,
            parent: self.step.ids.as_ref().map_or(&[], |ids| ids.at.parent()),
        }
    }

    /// Whether it requests the first page of a list that names everything.
    pub const fn is_first(&self) -> bool {
        self.cursor.is_none() && self.lasting.is_none()
    }
    /// Its fingerprint: the call, and a hash of the upstream's name, what is sent and how the response is read. The secret and the
    /// upstream's `base_url` are not part of it; nor is the cursor, if the request has none.
    #[must_use]
    pub fn identity(self, upstream: &config::Upstream) -> String {
        let no_limits = BTreeMap::new();
        let parts = RequestParts::new(upstream, &no_limits, self);
        identity_of(&self.step.call, &upstream.name, parts.ok().as_ref())
    }

    /// Its identity among the requests to all upstreams; `None` if it cannot be built.
    #[must_use]
    pub fn name(self, upstream: &config::Upstream) -> Option<String> {
        RequestParts::new(upstream, &BTreeMap::new(), self)
            .ok()
            .map(|parts| parts.name())
    }
}

fn identity_of(call: &Call, upstream: &str, parts: Option<&RequestParts<'_>>) -> String {
    let sent = parts.map(|parts| {
        set_ones(json!({
            "method": call.method.as_str(),
            // Without host and base path, so that a pass goes on where the upstream has moved.
            "url": parts.place_of_url(),
            "headers": header_lines(&parts.rendered.headers),
            "body": parts.rendered.body.as_ref().map(RenderedBody::to_string),
        }))
    });
    let paging = &call.paging;
    let identity = set_ones(json!({
        "sent": sent,
        "read": call.records.as_ref().map(|records| read_of(upstream, records)),
        "paging": paging.identity(),
        "lasting": paging.lasting.as_ref().map(Lasting::as_str),
        "lasting_param": paging.lasting_param.as_deref(),
    }));
    format!("{} {:032x}", call.name, fnv(&identity.to_string()))
}

/// What tells the records of a response apart.
fn read_of(upstream: &str, records: &Records) -> Value {
    let ids: Vec<&str> = records.id.iter().map(Field::as_str).collect();
    json!([upstream, records.at.as_str(), records.kind, ids])
}

fn header_lines(headers: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
    };
    headers.iter().map(line).collect()
}

fn is_secret(param: &Param) -> bool {
    let mut secrets = param.templates().iter().flat_map(Template::secrets);
    secrets.next().is_some()
}

/// The configured headers. A header of the call replaces one of its upstream.
fn headers(
    upstream: &config::Upstream,
    request: &PageRequest<'_>,
    text: &impl Text,
) -> Result<HeaderMap, Failure> {
    let values = request.values();
    let mut headers = HeaderMap::new();
    for (name, template) in upstream.headers.iter().chain(&request.step.call.headers) {
        let unfit = || {
            Failure::NotSent(format!(
                "the header `{name}` cannot contain `{template}` with these values"
            ))
        };
        let mut value = HeaderValue::try_from(text(template, &values)?).map_err(|_| unfit())?;
        value.set_sensitive(template.secrets().next().is_some());
        headers.insert(HeaderName::try_from(name).map_err(|_| unfit())?, value);
    }
    Ok(headers)
}

/// Refuses an id that contains what joins the ids: the upstream would read it as two others.
fn tells_ids_apart(request: &PageRequest<'_>) -> Result<(), Failure> {
    let values = request.values();
    let mut separators = request.step.joins_ids_by();
    let Some((separator, id)) = separators.find_map(|one| Some((one, values.id_with(one)?))) else {
        return Ok(());
    };
    Err(Failure::Unsendable(format!(
        "the id `{id}` contains `{separator}`, which joins the ids of a request; write for example `{{ids:|}}`, or request one id at a \
        time, with `{{id}}` and batch = 1"
    )))
}

/// The parameters that are configured for a request, which `then` replaces behind the first page.
fn params_of<'a>(request: &PageRequest<'a>, then: Option<&'a Then>) -> &'a Params {
    then.map_or(&request.step.params, |then| &then.params)
}

/// The query parameters. Paging parameters override the step's, which override the usual page size.
fn parameters(
    request: &PageRequest<'_>,
    turn: &Turn<'_>,
    text: &impl Text,
) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let values = request.values();
    let size = turn
        .size
        .map(|(name, size)| (name.to_owned(), vec![size.to_string()]));
    let own = params_of(request, turn.then).iter();
    let own = own.map(|(name, param)| Ok((name.clone(), param.render(&values, text)?)));
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

/// The number of records on a full page, by the size that is actually sent: a step can override that of its call.
fn page_size(
    request: &PageRequest<'_>,
    parameters: &BTreeMap<String, Vec<String>>,
    body: Option<&RenderedBody>,
) -> Option<u64> {
    let paging = &request.step.call.paging;
    let size = paging.size?;
    let param = paging.size_param.as_deref();
    let requested = param.and_then(|name| match paging.place() {
        Place::Query => parameters.get(name)?.first()?.parse().ok(),
        Place::Body => body?.value_of(name)?.parse().ok(),
    });
    requested.or(Some(size))
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
        // It has its parameters, except for secrets, which are taken out of it.
        let configured = params_of(request, turn.then);
        let is_lacking = |name: &String| configured.get(name).is_some_and(is_secret);
        add(
            &mut url,
            parameters.iter().filter(|(name, _)| is_lacking(name)),
        );
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
    let path = template.path(&request.values());
    let path = path.trim_start_matches('/');
    if path.split('/').any(climbs) {
        return Err(Failure::Unsendable(format!(
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
