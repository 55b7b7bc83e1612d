//! Where a response leads on to the next page. What that means for each kind of paging is in [`Paging`].

use serde_json::Value;
use url::Url;

use super::Failure;
use super::link::{link_values, next_link};
use super::records::name_of;
use super::request::RequestParts;
use super::response::Response;
use ingest_config::{
    Auth, End, Lasting, Lead, NextPage, NotANumber, PageKind, Paging, Pointer, SeenPage, text_of,
};

impl From<NotANumber> for Failure {
    fn from(error: NotANumber) -> Self {
        Self::BadCursor(error.to_string())
    }
}

/// What a response says about the next page.
pub struct Says {
    /// The number of all records that it reports.
    pub total: Option<u64>,
    /// The number of all pages that it reports.
    pub pages: Option<u64>,
    /// The keys of `page` whose place it has, and those whose place it lacks.
    pub places: Vec<(&'static str, bool)>,
    /// The token or the URL of the next page, or the number of all records.
    reported: Result<Option<String>, Failure>,
    /// Whether there are more pages; `None` if the response does not say.
    more: Option<bool>,
    /// The token or the URL with which the next pass begins, where it has a place of its own.
    lasting: Result<Option<String>, Failure>,
}

/// Reads what a response says about the next page, before the records are taken out of the document: it can be inside them.
pub fn read(paging: &Paging, document: &Value, response: &Response) -> Says {
    let total = paging.total.as_ref();
    let total = total.and_then(|at| total_at(at, document));
    let pages = paging.pages.as_ref();
    let pages = pages.and_then(|at| at.text_in(document));
    let reported = match paging.lead() {
        Some(Lead::Token(at) | Lead::Url(at)) => token(paging, at, document),
        Some(Lead::TokenHeader(name)) => token_header(response, name),
        Some(Lead::LinkHeader) => Ok(link(response)),
        // It is read when the records are known.
        Some(Lead::LastRecord(_)) => Ok(None),
        None => Ok(total.clone().or_else(|| pages.clone())),
    };
    let truth = |at: Option<&Pointer>| truth(at?.find(document)?);
    let more = truth(paging.more.as_ref()).or(truth(paging.done.as_ref()).map(|is_last| !is_last));
    let lasting = match &paging.lasting {
        Some(Lasting::At(at)) => token(paging, at, document),
        Some(Lasting::Last) | None => Ok(None),
    };
    Says {
        reported,
        more,
        lasting,
        total: total.and_then(|total| total.parse().ok()),
        pages: pages.and_then(|pages| pages.parse().ok()),
        places: places(paging, document, response),
    }
}

/// The number of all records; `None` where the response says beside it that there are perhaps more, as Elasticsearch does.
fn total_at(at: &Pointer, document: &Value) -> Option<String> {
    let above = at.as_str().rsplit_once('/').map(|(above, _)| above);
    let relation = above.and_then(|above| document.pointer(above)?.get("relation"));
    let is_least = relation.is_some_and(|relation| relation == "gte");
    at.text_in(document).filter(|_| !is_least)
}

/// The keys of `page` that name a place, and whether the response has it. A value of null is there.
fn places(paging: &Paging, document: &Value, response: &Response) -> Vec<(&'static str, bool)> {
    let is_in_body = |at: &Pointer| at.find(document).is_some();
    let lead = match paging.lead() {
        Some(Lead::TokenHeader(name)) => Some(("next_header", response.header(name).is_some())),
        Some(Lead::LinkHeader) => Some(("link", link(response).is_some())),
        Some(Lead::Token(_) | Lead::Url(_) | Lead::LastRecord(_)) | None => None,
    };
    let in_body = [
        ("next", &paging.next),
        ("pages", &paging.pages),
        ("total", &paging.total),
        ("more", &paging.more),
        ("done", &paging.done),
    ];
    let in_body = in_body.into_iter();
    let in_body = in_body.filter_map(|(key, at)| Some((key, is_in_body(at.as_ref()?))));
    lead.into_iter().chain(in_body).collect()
}

impl Says {
    /// Whether the upstream names the next page, or says that there is one.
    pub fn names_next(&self, paging: &Paging) -> bool {
        let reported = self.reported.as_ref().is_ok_and(Option::is_some);
        paging.names_next(self.more, reported)
    }

    /// Reads the token out of the last record, if it is there.
    pub fn read_last(&mut self, paging: &Paging, last: Option<&Value>) {
        if let (Some(at), Some(last)) = (&paging.last, last) {
            self.reported = token(paging, at, last);
        }
    }
}

/// true, 1 and "true"; false, 0 and "false".
pub fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::Number(number) => match number.as_u64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            Some(_) | None => None,
        },
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What follows a page, and the cursor behind its list.
pub struct Onward {
    /// The next page, or why there is none.
    pub follows: NextPage,
    /// The cursor of the next pass, on a last page.
    pub lasting: Option<String>,
}

/// What follows a page that listed `listed` records, and the cursor behind its list. A page with the cursor of the next pass at a
/// place of its own is the last one: the upstream says so.
pub fn onward(
    parts: &RequestParts<'_>,
    response: &Response,
    says: Says,
    listed: u64,
) -> Result<Onward, Failure> {
    let paging = &parts.request.step.call.paging;
    let own = says.lasting.clone()?;
    let last = says.reported.as_ref().ok().cloned().flatten();
    let more = says.more;
    let follows = next(parts, response, says, listed)?;
    let follows = match follows {
        // An upstream can have one cursor for the whole list, and end it with an empty page.
        NextPage::Cursor(next)
            if listed == 0 && more != Some(true) && parts.request.page_cursor() == Some(&next) =>
        {
            NextPage::None(End::Proved)
        }
        follows => ended(follows, paging, (listed, &own)),
    };
    let ends = matches!(follows, NextPage::None(_));
    let found = match paging.lasting.as_ref().filter(|_| ends) {
        None => None,
        Some(Lasting::At(at)) => own.map(|cursor| (cursor, format!("at `{at}`"))),
        Some(Lasting::Last) => last.map(|cursor| (cursor, paging.next_place())),
    };
    let lasting = match found {
        Some((url, place)) if paging.kind == PageKind::NextUrl => {
            Some(on_same_host(parts, response, &url, &place)?)
        }
        found => found.map(|(token, _)| token),
    };
    let lasting = lasting.or_else(|| kept(parts).filter(|_| ends));
    Ok(Onward { follows, lasting })
}

/// What follows a page that listed `listed` records and has `own` as the cursor of the next pass.
fn ended(follows: NextPage, paging: &Paging, (listed, own): (u64, &Option<String>)) -> NextPage {
    let is_flagged = paging.more.is_some() || paging.done.is_some();
    match (follows, paging.lasting.as_ref()) {
        (NextPage::None(End::NotNamed | End::Assumed(_)), Some(Lasting::At(_)))
            if own.is_some() =>
        {
            NextPage::None(End::Proved)
        }
        (NextPage::None(End::NotNamed), Some(Lasting::At(at))) if listed > 0 => {
            NextPage::None(End::Unnamed(format!(
                "the page names neither a next page {} nor, at `{at}` (`page.lasting`), where the next pass begins",
                paging.next_place()
            )))
        }
        // A feed names a next page always: behind an empty one, it is where the next pass begins.
        (NextPage::Cursor(_), Some(Lasting::Last)) if listed == 0 && !is_flagged => {
            NextPage::None(End::Proved)
        }
        (follows, _) => follows,
    }
}

/// The cursor of the next pass behind a last page that has none: that of the page itself, or the one with which this pass began.
pub fn kept(parts: &RequestParts<'_>) -> Option<String> {
    let request = &parts.request;
    let cursor = match request.step.call.paging.lasting.as_ref()? {
        Lasting::At(_) => request.lasting,
        Lasting::Last => request.page_cursor().or(request.lasting),
    };
    cursor.map(str::to_owned)
}

/// What follows a page that listed `listed` records.
fn next(
    parts: &RequestParts<'_>,
    response: &Response,
    says: Says,
    listed: u64,
) -> Result<NextPage, Failure> {
    let paging = &parts.request.step.call.paging;
    let page = SeenPage {
        cursor: parts.request.page_cursor(),
        listed,
        is_full: is_full(parts, listed),
        reported: says.reported?,
        more: says.more,
    };
    let url = match paging.next(page)? {
        NextPage::Cursor(url) if matches!(paging.kind, PageKind::Link | PageKind::NextUrl) => url,
        next => return Ok(next),
    };
    let next = on_same_host(parts, response, &url, &paging.next_place())?;
    Ok(NextPage::Cursor(match paging.lead() {
        // A body is cleaned of secrets as a whole, a header is not.
        Some(Lead::LinkHeader) => response.redactor.clean_data(&next).into_owned(),
        Some(Lead::Url(_) | Lead::Token(_) | Lead::TokenHeader(_) | Lead::LastRecord(_)) | None => {
            next
        }
    }))
}

/// The URL of the next page in the header `Link`.
fn link(response: &Response) -> Option<String> {
    let values = link_values(&response.headers);
    let next = next_link(values.iter().map(String::as_str));
    next.filter(|url| !url.is_empty()).map(str::to_owned)
}

/// The token in a header. Nothing and a blank text are the end.
fn token_header(response: &Response, name: &str) -> Result<Option<String>, Failure> {
    let value = response.exact_header(name).map_err(|shown| {
        Failure::WrongShape(format!(
            "the next page's token, in the header `{name}`, is not UTF-8: \"{shown}\""
        ))
    })?;
    let value = value.map(str::trim).filter(|value| !value.is_empty());
    Ok(value.map(str::to_owned))
}

/// Whether a list can continue behind a page although the page's own body stays the same: a full last one, where a header
/// leads on.
pub fn may_grow_unseen(parts: &RequestParts<'_>, listed: u64, next: Option<&str>) -> bool {
    parts.request.step.call.paging.may_grow_unseen() && next.is_none() && is_full(parts, listed)
}

/// Whether a page has as many records as were requested, or the size is unknown.
fn is_full(parts: &RequestParts<'_>, listed: u64) -> bool {
    parts.page_size().is_none_or(|size| listed >= size)
}

/// The token at a place, as it is stored. Nothing, null, false and blank texts are the end.
fn token(paging: &Paging, at: &Pointer, document: &Value) -> Result<Option<String>, Failure> {
    match at.find(document).map(text_of) {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::String(token)) if token.trim().is_empty() => Ok(None),
        Some(token) => {
            let stored = paging.stored_token(token);
            stored.map_or_else(
                || Err(no_token(name_of(token), at)),
                |token| Ok(Some(token)),
            )
        }
    }
}

fn no_token(found: &str, at: &Pointer) -> Failure {
    Failure::WrongShape(format!(
        "the response contains {found} instead of the next page's token (at `{at}`)"
    ))
}

/// The path and query of a page's URL, which the response has at `place`, without secrets. Another host is refused.
fn on_same_host(
    parts: &RequestParts<'_>,
    answer: &Response,
    url: &str,
    place: &str,
) -> Result<String, Failure> {
    let base = &parts.upstream.base_url;
    let shown = || answer.shown(url);
    let none = |_| Failure::WrongShape(format!("the value {place} is not a URL: \"{}\"", shown()));
    let mut to = parts.url().join(url).map_err(none)?;
    if !to.has_host() {
        return Err(Failure::Skip(format!(
            "the next page's URL has no host: \"{}\"",
            shown()
        )));
    }
    let same_port = to.port().is_none() || to.port() == base.port();
    // Either scheme: only path and query are taken, and the request goes where `base_url` says.
    if to.host() != base.host() || !same_port || !matches!(to.scheme(), "http" | "https") {
        let to = super::endpoint::host_of(&to);
        return Err(Failure::Skip(format!(
            "the next page is on another host ({to}), to which no request is sent; if it is the \
            same API, write this host into upstreams.{}.base_url",
            parts.upstream.name
        )));
    }
    if let Auth::Query(secret) = &parts.upstream.auth {
        remove_parameters(&mut to, |name, _| name == secret);
    }
    for secret in parts.secret_params() {
        remove_parameters(&mut to, |name, _| name == secret);
    }
    // An upstream can repeat the secret of a header, which the next request has again. `access_token` is that of a bearer (RFC 6750),
    // also in a saved response, beside which no secret is read.
    let is_bearer = matches!(parts.upstream.auth, Auth::Bearer | Auth::OAuth(_));
    remove_parameters(&mut to, |name, value| {
        answer.redactor.is_secret(value) || (is_bearer && name == "access_token")
    });
    let query = to
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    Ok(format!("{}{query}", to.path()))
}

/// Removes the parameters of which this holds, by name and value.
fn remove_parameters(url: &mut Url, is_removed: impl Fn(&str, &str) -> bool) {
    // Untouched where nothing is removed: writing the pairs again encodes them anew, and an upstream may compare them.
    if !url
        .query_pairs()
        .any(|(name, value)| is_removed(&name, &value))
    {
        return;
    }
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, value)| !is_removed(name, value))
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(kept);
}
