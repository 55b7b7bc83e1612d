//! What a response says about its list although the configuration does not read it: a next page, the number of all records.

use reqwest::header::HeaderName;
use serde_json::Value;
use url::Url;

use super::beside::{
    Beside, has_content, is_of_request, says_failure, says_not_whole, says_transient, warns_of_cut,
};
use super::link::{is_no_link, is_other_page, is_usual, link_values, next_link, unusual_relation};
use super::paging::truth;
use super::response::Response;
use super::signs::{MemberName, Sign};
use ingest_config::{Format, PageKind, Paging, Pointer, Records};

/// What a page says about its list beside what is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    /// A place with a value that looks like a next page, or says that there is one.
    pub next: Option<String>,
    /// A place that says that the response is cut.
    pub cut: Option<String>,
    /// A place with the number of records behind the page, and that number.
    pub rest: Option<(String, u64)>,
    /// A place beside a list that holds a part of the records, and that says that this list goes on.
    pub cut_part: Option<String>,
    /// A place with the URL of another page of the list, which can be the next.
    pub url: Option<String>,
    /// A place with a text that can be a cursor.
    pub token: Option<String>,
    /// A place whose value looks like the one that says whether there are more pages.
    pub more: Option<String>,
    /// A place whose value looks like the one that says whether this is the last page.
    pub done: Option<String>,
    /// A place that looks like the number of all records, and that number.
    pub total: Option<(String, u64)>,
    /// Parameters of the request that the URL of the next page lacks. Secrets are none of them: a URL may lack these.
    pub dropped: Vec<String>,
    /// Keys of `page` whose place has no value.
    pub lacking: Vec<Lacking>,
    /// Whether the response names a next page where the configuration looks for it, and says that it is the last page.
    pub ends_before_next: bool,
    /// The names of its members beside the records.
    pub names: Vec<String>,
    /// Those of them that have content. What messages and errors say is read where they are.
    pub telling: Vec<String>,
    /// What it says of the whole list.
    pub beside: Beside,
}

/// A key of `page` whose place in a response has no value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lacking {
    pub key: &'static str,
    /// The place.
    pub at: String,
    /// Another place of the response whose value looks like the one that is meant.
    pub instead: Option<String>,
}

/// How deep a document is searched: paging is near its root.
const DEEPEST: usize = 4;
/// The most members of one object that are searched: more are records by name.
const WIDEST: usize = 40;

/// The most elements of a list at the root that are searched: more are records.
const FEWEST: usize = 4;

/// The header that leads on, in messages.
pub const LINK: &str = "the header `link`";

/// Headers that lead on, beside `link`.
const NEXT_HEADERS: [&str; 8] = [
    "opc-next-page",
    "x-continuation-token",
    "x-ms-continuation",
    "x-ms-continuationtoken",
    "x-next-cursor",
    "x-next-page",
    "x-next-page-token",
    "x-next-token",
];

/// Headers that are `true` where there are more pages.
const MORE_HEADERS: [&str; 3] = ["x-has-more", "x-has-next", "x-has-next-page"];

/// Headers that are `true` where the response is cut.
const CUT_HEADERS: [&str; 3] = ["x-result-truncated", "x-results-truncated", "x-truncated"];

/// Headers with the number of all records.
const TOTAL_HEADERS: [&str; 8] = [
    "x-total-count",
    "x-total",
    "x-wp-total",
    "x-total-results",
    "x-total-records",
    "x-total-items",
    "x-pagination-total-count",
    "total-count",
];

/// Headers with the number of all pages.
const PAGES_HEADERS: [&str; 3] = ["x-total-pages", "x-wp-totalpages", "x-page-count"];

/// The header whose value is an object that says what others say in the body.
const PAGINATION: &str = "x-pagination";

/// Members of an object with one of these names that lead to the next page.
pub const WITHIN_NEXT: [&str; 6] = ["href", "url", "uri", "after", "cursor", "offset"];

/// Reads what a response says. Its records are still in the document.
pub fn read(
    paging: &Paging,
    records: &Records,
    document: &Value,
    (response, requested): (&Response, &Url),
) -> Unread {
    let mut search = PlaceSearch::of(&records.at, paging.lasting_at(), Some(requested));
    search.totals_in = objects_of_totals(paging, records, document);
    search.walk(document, &mut Vec::new());
    search.see_parts(document);
    let mut found = search.found;
    let has_one_page = paging.kind == PageKind::None;
    let are_several = |pages: &str| pages.parse().is_ok_and(|pages: u64| pages > 1);
    let has_pages = || header_of(response, &PAGES_HEADERS, are_several);
    let has_pages = search.has_pages.or_else(has_pages);
    found.cut = found.cut.or_else(|| cut_header(response));
    let says_more = search.says_more.or(found.cut.clone());
    let says_more = says_more.or(has_pages.filter(|_| has_one_page));
    let says_more = says_more.or_else(|| says_pagination(response).filter(|_| has_one_page));
    if paging.total.is_none() {
        found.total = found.total.or_else(|| total_header(response));
    }
    // The value of a cursor says more than a flag.
    found.next = found.next.or(says_more);
    found.next = found.next.or_else(|| linked(paging, response, requested));
    let read = [
        ("total", &paging.total, None),
        ("pages", &paging.pages, None),
        ("more", &paging.more, found.more.clone()),
        ("done", &paging.done, found.done.clone()),
    ];
    let is_lacking = |key: &str, at: &Pointer| match at.find(document) {
        None | Some(Value::Null) => true,
        Some(value) => !matches!(key, "total" | "pages") && truth(value).is_none(),
    };
    found.beside.says_none &= found.total.as_ref().is_none_or(|(_, total)| *total == 0);
    let lacking = read.into_iter().filter_map(|(key, at, instead)| {
        let at = at.as_ref().filter(|at| is_lacking(key, at))?.to_string();
        Some(Lacking { key, at, instead })
    });
    found.lacking = lacking.collect();
    found.ends_before_next = says_last(paging, document) && names_next(paging, document, response);
    found
}

/// The objects whose numbers can be that of all records beside the one that is configured: the root, and those of the list and of that
/// number; `None` where the response does not have it: any.
fn objects_of_totals(paging: &Paging, records: &Records, document: &Value) -> Option<Vec<String>> {
    let configured = paging.total.as_ref().or(paging.pages.as_ref())?;
    let is_reported = configured
        .find(document)
        .is_some_and(|value| !value.is_null());
    is_reported.then(|| vec![String::new(), object_of(&records.at), object_of(configured)])
}

/// The place of the object that has the member at a place.
fn object_of(at: &Pointer) -> String {
    let object = at.as_str().rsplit_once('/');
    object.map_or("", |(object, _)| object).to_owned()
}

/// Whether a link leads to the next page: `{ "rel": "next", "href": "…" }`, also as FHIR and XML have it.
fn is_next_link(link: &Value) -> bool {
    let names = ["rel", "relation", "@rel"];
    let is_next = names.iter().any(|name| link[*name] == "next");
    let mut places = ["href", "url", "uri", "@href"].iter();
    is_next && places.any(|name| link[*name].is_string())
}

/// Reads what a response says beside its records where nothing is configured.
pub fn signs(records: &Pointer, document: &Value, response: &Response) -> Unread {
    let links = link_values(&response.headers);
    let link = next_link(links.iter().map(String::as_str));
    let mut search = PlaceSearch::of(records, None, None);
    search.walk(document, &mut Vec::new());
    let mut found = search.found;
    found.next = found.next.or(link.map(|_| LINK.to_owned()));
    found
}

/// The number of all records in one of the usual headers, and its place in words.
fn total_header(response: &Response) -> Option<(String, u64)> {
    TOTAL_HEADERS.iter().find_map(|name| {
        let total = response.header(name)?.trim().parse().ok()?;
        Some((format!("the header `{name}`"), total))
    })
}

/// The first of these headers of which something holds, in words.
fn header_of(response: &Response, names: &[&str], holds: impl Fn(&str) -> bool) -> Option<String> {
    let says = |name: &&&str| response.header(name).is_some_and(|text| holds(text.trim()));
    let name = names.iter().find(says)?;
    Some(format!("the header `{name}`"))
}

/// The header `x-pagination`, in words, if it says that there is more than one page.
fn says_pagination(response: &Response) -> Option<String> {
    let stated = serde_json::from_str(&response.header(PAGINATION)?).ok()?;
    let nowhere = Pointer::parse("/-").ok()?;
    let mut search = PlaceSearch::of(&nowhere, None, None);
    search.walk(&stated, &mut Vec::new());
    let says_more = search.found.next.or(search.says_more);
    says_more.or(search.has_pages)?;
    Some(format!("the header `{PAGINATION}`"))
}

/// A header that says that the response is cut, in words.
fn cut_header(response: &Response) -> Option<String> {
    let names = response.headers.keys().map(HeaderName::as_str);
    let mut warnings = names.filter(|name| name.ends_with("warning"));
    let warns = |name: &&str| response.headers(name).any(|text| warns_of_cut(&text));
    let flag = header_of(response, &CUT_HEADERS, is_true);
    let warning = || Some(format!("the header `{}`", warnings.find(warns)?));
    flag.or_else(warning)
}

/// Whether a header says that what its name says is so.
fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// What leads on in the header `Link`.
fn linked(paging: &Paging, response: &Response, requested: &Url) -> Option<String> {
    let values = link_values(&response.headers);
    let links = || values.iter().map(String::as_str);
    if next_link(links()).is_some_and(|url| !url.is_empty()) {
        return Some(LINK.to_owned());
    }
    let is_token = paging.next_header.is_none();
    let token = || header_of(response, &NEXT_HEADERS, |next| !next.is_empty());
    let flag = || header_of(response, &MORE_HEADERS, is_true);
    if let Some(header) = is_token.then(token).flatten().or_else(flag) {
        return Some(header);
    }
    let is_read = paging.kind == PageKind::Link;
    if is_read && links().any(is_no_link) {
        return Some("a header `link` that is no link (`<URL>; rel=\"next\"`)".to_owned());
    }
    let relation = unusual_relation(links().filter(|_| is_read), requested)?;
    let relation = response.shown(relation);
    Some(format!(
        "the relation `{relation}` of the header `link`, which has no `next`"
    ))
}

/// Returns where a document has a list of objects; of XML, a list of elements that have child elements.
pub fn elsewhere(document: &Value, format: Format) -> Option<String> {
    fn is_record(value: &Value, format: Format) -> bool {
        let is_child = |name: &String| format != Format::Xml || !name.starts_with(['@', '#']);
        let members = value.as_object();
        members.is_some_and(|members| members.is_empty() || members.keys().any(is_child))
    }
    fn find(value: &Value, format: Format, path: &mut Vec<String>) -> bool {
        match value {
            Value::Array(elements) => {
                !elements.is_empty() && elements.iter().all(|one| is_record(one, format))
            }
            Value::Object(members) if path.len() <= DEEPEST => {
                members.iter().any(|(name, member)| {
                    path.push(name.replace('~', "~0").replace('/', "~1"));
                    let is_here = find(member, format, path);
                    if !is_here {
                        path.pop();
                    }
                    is_here
                })
            }
            Value::Object(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => false,
        }
    }
    let mut path = Vec::new();
    find(document, format, &mut path).then(|| path.iter().map(|name| format!("/{name}")).collect())
}

/// Whether the response says that it is the last page.
fn says_last(paging: &Paging, document: &Value) -> bool {
    let says = |at: &Option<Pointer>| truth(at.as_ref()?.find(document)?);
    says(&paging.more) == Some(false) || says(&paging.done) == Some(true)
}

/// Whether the response has a value where the configuration looks for the next page.
fn names_next(paging: &Paging, document: &Value, response: &Response) -> bool {
    let in_body = paging.next.as_ref().and_then(|at| at.text_in(document));
    let header = paging.next_header.as_ref();
    let in_header = header.and_then(|name| response.header(name));
    in_body.is_some_and(|text| !text.is_empty()) || in_header.is_some_and(|text| !text.is_empty())
}

struct PlaceSearch<'a> {
    /// Where the records are, which are not searched.
    records: &'a Pointer,
    /// Where the cursor of the next pass is.
    lasting: Option<&'a Pointer>,
    /// The URL of the page; `None`: it is not known.
    requested: Option<&'a Url>,
    /// The objects whose numbers can be that of all records; `None`: any.
    totals_in: Option<Vec<String>>,
    found: Unread,
    /// A place that says that there are more pages.
    says_more: Option<String>,
    /// A place that says that there are several pages.
    has_pages: Option<String>,
}

impl<'a> PlaceSearch<'a> {
    fn of(records: &'a Pointer, lasting: Option<&'a Pointer>, requested: Option<&'a Url>) -> Self {
        Self {
            records,
            lasting,
            requested,
            totals_in: None,
            found: Unread::default(),
            says_more: None,
            has_pages: None,
        }
    }

    fn walk(&mut self, value: &Value, path: &mut Vec<String>) {
        let members = match value {
            Value::Object(members) => members,
            Value::Array(elements) => return self.walk_elements(elements, path),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
        };
        if members.len() > WIDEST || path.len() > DEEPEST || self.is_record(path) {
            return;
        }
        for (name, member) in members {
            path.push(name.replace('~', "~0").replace('/', "~1"));
            self.see(name, member, path);
            self.walk(member, path);
            path.pop();
        }
    }

    /// Walks a list that is no list of records: `[{ "total": 64 }, [ … ]]`.
    fn walk_elements(&mut self, elements: &[Value], path: &mut Vec<String>) {
        let is_list =
            path.is_empty() && elements.len() <= FEWEST && !self.records.tokens().is_empty();
        for (place, element) in elements.iter().enumerate().filter(|_| is_list) {
            path.push(place.to_string());
            if !self.is_record(path) {
                self.walk(element, path);
            }
            path.pop();
        }
    }

    /// Takes up what the objects of a list say that hold a part of the records each: `/groups/*/items`.
    fn see_parts(&mut self, document: &Value) {
        let Some((above, within)) = self.records.as_str().split_once("/*/") else {
            return;
        };
        let Ok(within) = Pointer::parse(&format!("/{within}")) else {
            return;
        };
        let parts = document.pointer(above);
        let is_list = parts.is_some_and(Value::is_array);
        let parts: Vec<&Value> = match parts {
            Some(Value::Array(parts)) => parts.iter().collect(),
            Some(Value::Object(parts)) => parts.values().collect(),
            _ => Vec::new(),
        };
        for part in parts.into_iter().filter(|part| part.is_object()) {
            let mut search = PlaceSearch::of(&within, None, self.requested);
            search.totals_in = Some(vec![String::new(), object_of(&within)]);
            search.walk(part, &mut Vec::new());
            search.see_parts(part);
            let place = |at: &str| format!("`{above}/*{}`", at.trim_matches('`'));
            let found = search.found;
            // A group of tasks can be done, too.
            let says_more = search
                .says_more
                .filter(|at| !is_done(at.trim_matches(['`', '/'])));
            let lacks_list = within.find(part).is_none_or(Value::is_null);
            let elements = within.find(part).and_then(Value::as_array);
            let has_more = |at: &str, total| {
                let name = at.trim_matches('`').rsplit('/').next().unwrap_or(at);
                // The total of a group can be a sum of money.
                let is_of_records = !["count", "found", "total"].contains(&name);
                is_of_records && elements.is_some_and(|elements| total > elements.len() as u64)
            };
            let total = found.total.filter(|(at, total)| has_more(at, *total));
            let total = total.map(|(at, _)| at);
            let goes_on = found.cut_part.or(found.next).or(says_more).or(total);
            // In a map, a member without a list can be what the response says of its pages.
            let is_part = is_list || !lacks_list;
            if let Some(at) = goes_on.filter(|_| is_part) {
                self.found.cut_part.get_or_insert_with(|| place(&at));
            }
            // A part that is there can have an error of its own, such as a build that failed.
            let words = found
                .beside
                .message
                .filter(|(_, words)| lacks_list && says_failure(words));
            let words = words.map(|(name, words)| (format!("/{name}"), words));
            let errors = found.beside.errors.into_iter().chain(words);
            let errors = errors.filter(|(_, said)| lacks_list || says_transient(said));
            let errors = errors.map(|(at, said)| (format!("{above}/*{at}"), said));
            self.found.beside.errors.extend(errors);
        }
    }

    /// Whether the value at a path is a record, or the records by name.
    fn is_record(&self, path: &[String]) -> bool {
        let fixed: Vec<&String> = self
            .records
            .tokens()
            .iter()
            .take_while(|token| *token != "*")
            .collect();
        path.len() >= fixed.len() && fixed.iter().zip(path).all(|(token, name)| *token == name)
    }

    /// Whether the cursor of the next pass is at a path, or within it.
    fn is_lasting(&self, path: &[String]) -> bool {
        let within = |at: &Pointer| {
            let rest = at.as_str().strip_prefix(&format!("/{}", path.join("/")));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.lasting.is_some_and(within)
    }

    /// Whether a number at a path can be that of all records.
    fn can_have_total(&self, path: &[String]) -> bool {
        let object = path.split_last().map_or(&[][..], |(_, object)| object);
        let object: String = object.iter().map(|name| format!("/{name}")).collect();
        self.totals_in
            .as_ref()
            .is_none_or(|objects| objects.contains(&object))
    }

    /// Whether a path is within what was requested, what the credential has or where its records are asked for, and not beside the list.
    fn is_of_other(&self, path: &[String]) -> bool {
        let list = self.records.tokens();
        let is_other = |(depth, name): (usize, &String)| {
            let name = MemberName::of(name);
            let of_other = [Sign::Echo, Sign::Account, Sign::Unreached];
            let is_other = of_other.iter().any(|sign| name.says(*sign));
            is_other
                && path
                    .get(..=depth)
                    .is_none_or(|above| !list.starts_with(above))
        };
        let above = path.split_last().map_or(&[][..], |(_, above)| above);
        above.iter().enumerate().any(is_other)
    }

    /// Takes up a member. `path` ends with its name.
    fn see(&mut self, name: &str, value: &Value, path: &[String]) {
        let name = MemberName::of(name);
        self.found.beside.see(&name, value, (path, self.records));
        self.see_name(&name, value, path);
        if self.is_of_other(path) {
            return;
        }
        self.see_flag(&name, value, path);
        if !self.is_lasting(path) {
            self.see_next(&name, value, path);
        }
        self.see_number(&name, value, path);
    }

    fn see_name(&mut self, name: &MemberName, value: &Value, path: &[String]) {
        self.found.names.push(path.join("/"));
        let is_message = name.plain.ends_with("message") || name.plain.ends_with("msg");
        let is_error = |name: &String| MemberName::of(name).says(Sign::Error);
        if has_content(value) && !is_message && !path.iter().any(is_error) {
            self.found.telling.push(path.join("/"));
        }
    }

    /// Takes up what says that there are more pages, or that this is the last one.
    fn see_flag(&mut self, name: &MemberName, value: &Value, path: &[String]) {
        let at = || place(path);
        let is_yes = *value == Value::Bool(true) || value == "true";
        let left = self.left(name, value, path);
        let of_rest = left.filter(|_| name.plain == "remainingcount");
        self.found.rest = self.found.rest.take().or(of_rest.map(|rest| (at(), rest)));
        let is_cut = is_yes && name.says(Sign::Cut)
            || name.says(Sign::Rest) && has_content(value)
            || left.is_some_and(|left| left > 0)
            || says_not_whole(value, path, self.records);
        // An order can be done, too.
        let is_done = is_done(&name.plain) && !matches!(path, [_]);
        let above = path.iter().rev().nth(1);
        let is_thing = is_done && !above.is_some_and(|above| MemberName::of(above).is_envelope());
        let is_open = *value == Value::Bool(false) && name.says(Sign::NotDone) && !is_thing;
        let says_more = is_cut || is_open || is_yes && name.says(Sign::More);
        note(&mut self.says_more, says_more, at);
        note(&mut self.found.cut, is_cut, at);
        let is_flag = |sign| value.is_boolean() && name.says(sign);
        note(&mut self.found.more, is_flag(Sign::More), at);
        note(&mut self.found.done, is_flag(Sign::Done), at);
    }

    /// The number of records that the list lacks, as a member beside it or of what is said of its pages.
    fn left(&self, name: &MemberName, value: &Value, path: &[String]) -> Option<u64> {
        let above = path.iter().rev().nth(1);
        let is_of_pages = above.is_some_and(|above| MemberName::of(above).is_envelope());
        let is_of_list = is_of_pages || is_of_request(path, self.records);
        number(value).filter(|_| name.says(Sign::Left) && is_of_list)
    }

    /// Takes up what leads to the next page, or can.
    fn see_next(&mut self, name: &MemberName, value: &Value, path: &[String]) {
        let at = || place(path);
        note(&mut self.found.next, names_next_page(name, value), at);
        let Value::String(text) = value else {
            return;
        };
        let is_usual = path.iter().any(|name| is_usual(name));
        let is_other = |requested| is_other_page(text, requested);
        let is_other = self.requested.is_some_and(is_other) && !is_usual;
        note(&mut self.found.url, is_other, at);
        let is_token = !text.trim().is_empty() && name.says(Sign::Token);
        note(&mut self.found.token, is_token, at);
    }

    /// Takes up the number of all pages, or of all records.
    fn see_number(&mut self, name: &MemberName, value: &Value, path: &[String]) {
        let number = number(value);
        let are_several = number.is_some_and(|pages| pages > 1) && name.says(Sign::Pages);
        note(&mut self.has_pages, are_several, || place(path));
        self.found.beside.says_none |= number == Some(0) && name.is_total();
        let is_total = name.says(Sign::Total) && self.can_have_total(path);
        if let Some(number) = number.filter(|_| is_total) {
            let known = self.found.total.as_ref().map_or(0, |(_, known)| *known);
            // A response can have the number of records on the page under such a name too, which is smaller.
            if number > known {
                self.found.total = Some((place(path), number));
            }
        }
    }
}

/// A whole number, also as text.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether a member by this name says of a thing whether it is done, or of a list whether it has ended.
fn is_done(name: &str) -> bool {
    matches!(MemberName::of(name).plain.as_str(), "done" | "iscomplete")
}

/// A path as messages have it.
fn place(path: &[String]) -> String {
    format!("`/{}`", path.join("/"))
}

/// Whether a member names the next page: by a text, a number above 0, or a link.
fn names_next_page(name: &MemberName, value: &Value) -> bool {
    let is_next = name.says(Sign::Next);
    match value {
        Value::String(text) => is_next && !text.trim().is_empty(),
        Value::Number(number) => is_next && number.as_u64().is_some_and(|number| number > 0),
        Value::Object(link) => {
            let within = WITHIN_NEXT.iter();
            let mut texts = within.filter_map(|name| link.get(*name)?.as_str());
            let is_key = name.plain == "lastevaluatedkey" && !link.is_empty();
            let leads = is_next && texts.any(|text| !text.is_empty());
            is_key || leads || name.plain == "link" && is_next_link(value)
        }
        Value::Array(links) => {
            let are_links = matches!(name.plain.as_str(), "links" | "link");
            are_links && links.iter().any(is_next_link)
        }
        Value::Null | Value::Bool(_) => false,
    }
}

/// Keeps the first place that is one.
fn note(first: &mut Option<String>, is_one: bool, at: impl Fn() -> String) {
    if is_one {
        first.get_or_insert_with(at);
    }
}
