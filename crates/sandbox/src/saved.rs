//! Responses that the user saved: `ingest sandbox --answers DIR`. A file is a page of a call, `CALL.json` or `CALL.1.json`,
//! `CALL.2.json` and so on; with several upstreams, in a directory of the upstream's name.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::answer::{Content, Reply};
use super::request::CallRequest;
use ingest_base::saved_response::SavedResponse;
use ingest_config::{Call, Config, PageKind};

/// The pages of calls, by upstream and call.
#[derive(Debug, Clone, Default)]
pub struct SavedResponses(BTreeMap<(String, String), Pages>);

/// The pages of a call, by their numbers.
type Pages = BTreeMap<usize, SavedResponse>;

impl SavedResponses {
    /// Reads the files of a directory.
    ///
    /// # Errors
    /// When a file cannot be read, or is named for no call.
    pub fn read(directory: &Path, config: &Config) -> io::Result<Self> {
        let mut saved = Self::default();
        for path in files(directory)? {
            let (key, page) = named(&path, directory, config).ok_or_else(|| no_call(&path))?;
            let response = SavedResponse::read(&path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            saved.0.entry(key).or_default().insert(page, response);
        }
        Ok(saved)
    }

    /// How many pages of a call there are.
    pub fn count(&self, upstream: &str, call: &str) -> usize {
        self.pages(upstream, call).map_or(0, BTreeMap::len)
    }

    fn pages(&self, upstream: &str, call: &str) -> Option<&Pages> {
        self.0.get(&(upstream.to_owned(), call.to_owned()))
    }

    /// The call in whose pages a link leads to this path and query; `None` where none does.
    pub fn linked_call(&self, upstream: &str, target: &str) -> Option<&str> {
        let mut calls = self.0.iter().filter(|((of, _), _)| of == upstream);
        let leads = |pages: &Pages| pages.values().any(|page| leads_to(page, target));
        let found = calls.find(|(_, pages)| leads(pages))?;
        Some(&found.0.1)
    }

    /// The saved page that a request is for; `None` for a call without saved pages.
    pub fn reply(&self, request: &CallRequest<'_>) -> Option<Reply> {
        let call = &request.route.call;
        let pages = self.pages(&request.route.upstream.name, &call.name)?;
        let number = page_number(request, pages);
        let mut reply = match number.and_then(|number| pages.get(&number)) {
            Some(page) => served(page, request),
            None => Reply::json(404, json!({ "message": missing(call, number) })),
        };
        reply.is_saved = true;
        Some(reply)
    }
}

fn missing(call: &Call, number: Option<usize>) -> String {
    match number {
        Some(number) => format!("There is no saved response {}.{number}.json.", call.name),
        None => format!("No saved response of {} leads to this page.", call.name),
    }
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let failed = |error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", directory.display()))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if !is_hidden {
            found.push(path);
        }
    }
    Ok(found)
}

/// The upstream and call that a file is named for, and the page's number.
fn named(path: &Path, root: &Path, config: &Config) -> Option<((String, String), usize)> {
    let name = path.file_name()?.to_str()?;
    let directory = path.parent().filter(|parent| *parent != root);
    let directory = directory.and_then(Path::file_name);
    let upstreams = config
        .upstreams
        .values()
        .filter(|upstream| directory.is_none_or(|directory| directory == upstream.name.as_str()));
    let calls =
        upstreams.flat_map(|upstream| upstream.calls.keys().map(move |call| (upstream, call)));
    let named = calls.filter_map(|(upstream, call)| {
        let page = page_of(name.strip_prefix(call.as_str())?)?;
        Some(((upstream.name.clone(), call.clone()), page))
    });
    // The longest name: that of one call can begin that of another.
    named.max_by_key(|((_, call), _)| call.len())
}

/// The page that the rest of a file's name says: `.json` is the first, `.2.json` the second.
fn page_of(rest: &str) -> Option<usize> {
    let mut parts = rest.split('.').skip(1);
    match (rest.is_empty(), parts.next(), parts.next(), parts.next()) {
        (true, ..) => Some(1),
        (false, Some(first), second, None) if rest.starts_with('.') => match first.parse() {
            Ok(page) => Some(page),
            Err(_) => second.is_none().then_some(1),
        },
        _ => None,
    }
}

fn no_call(path: &Path) -> io::Error {
    let message = format!(
        "{} is named for no call of the configuration; name it CALL.json, or CALL.2.json for the second page",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// The number of the requested page; `None` where no page leads to it.
fn page_number(request: &CallRequest<'_>, pages: &Pages) -> Option<usize> {
    let first = *pages.keys().next()?;
    if let Some(ids) = request.ids() {
        let has_one = |page: &SavedResponse| ids.iter().any(|id| contains(page, id));
        let found = pages.iter().find(|(_, page)| has_one(page));
        return Some(found.map_or(first, |(number, _)| *number));
    }
    let after = |leads: &dyn Fn(&SavedResponse) -> bool| {
        let found = pages.iter().find(|(_, page)| leads(page));
        found.map(|(number, _)| number.saturating_add(1))
    };
    let (paging, cursor) = (&request.route.call.paging, request.cursor());
    match (paging.kind, cursor) {
        (PageKind::Link | PageKind::NextUrl, _) => {
            Some(after(&|page| leads_to(page, &request.target)).unwrap_or(first))
        }
        (_, None) => Some(first),
        (PageKind::Token, Some(cursor)) => after(&|page| contains(page, &cursor)),
        (PageKind::Offset | PageKind::Number | PageKind::None, Some(cursor)) => {
            let listed = |page| listed(request, page).unwrap_or_default();
            let size = pages.values().next().map_or(1, listed);
            let position = paging.position(Some(&cursor), size.max(1), |_| None)?;
            at_position(request, pages, position)
        }
    }
}

/// The page before which this number of records is listed.
fn at_position(request: &CallRequest<'_>, pages: &Pages, position: u64) -> Option<usize> {
    let mut before = 0_u64;
    let mut next = *pages.keys().next()?;
    for (number, page) in pages {
        if before == position {
            return Some(*number);
        }
        before = before.saturating_add(listed(request, page)?);
        next = number.saturating_add(1);
    }
    (before == position).then_some(next)
}

/// The number of records on a page; `None` where it is not JSON.
fn listed(request: &CallRequest<'_>, page: &SavedResponse) -> Option<u64> {
    let records = request.route.call.records.as_ref()?;
    let document: Value = serde_json::from_slice(&page.body).ok()?;
    let list = records.at.find(&document).and_then(Value::as_array);
    u64::try_from(list.map_or(0, Vec::len)).ok()
}

fn contains(page: &SavedResponse, text: &str) -> bool {
    String::from_utf8_lossy(&page.body).contains(text)
}

/// Whether a link of a page ends with this path and query.
fn leads_to(page: &SavedResponse, target: &str) -> bool {
    let ends_here = |text: &str| {
        let mut found = text.match_indices(target);
        found.any(|(at, _)| {
            let next = text
                .get(at.saturating_add(target.len())..)
                .and_then(|rest| rest.chars().next());
            next.is_none_or(|next| matches!(next, '"' | '>' | '&' | ';'))
        })
    };
    // JSON can have `\/` for each slash of a URL.
    let body = String::from_utf8_lossy(&page.body).replace("\\/", "/");
    ends_here(&body) || page.headers.iter().any(|(_, value)| ends_here(value))
}

/// A saved page as it is served: links to the upstream lead to the sandbox.
fn served(page: &SavedResponse, request: &CallRequest<'_>) -> Reply {
    let upstream = &request.route.upstream;
    let from = upstream.base_url.as_str().trim_end_matches('/');
    let to = request.base.as_str().trim_end_matches('/');
    let here = |text: &str| {
        let text = text.replace(from, to);
        text.replace(&from.replace('/', "\\/"), &to.replace('/', "\\/"))
    };
    let mut reply = Reply::text(page.status, "");
    reply.content = Content::Bytes(match String::from_utf8(page.body.clone()) {
        Ok(text) => here(&text).into_bytes(),
        Err(_) => page.body.clone(),
    });
    // The body is decompressed and may have another length now.
    let framing = [
        "content-length",
        "content-encoding",
        "transfer-encoding",
        "connection",
    ];
    let kept = page
        .headers
        .iter()
        .filter(|(name, _)| !framing.contains(&name.as_str()));
    reply.headers = kept
        .map(|(name, value)| (name.clone(), here(value)))
        .collect();
    reply
}
