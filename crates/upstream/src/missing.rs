//! What a response does not contain although the configuration reads it: the first sign of a mistake in the file.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::records::MembersOf;
use super::unread::Lacking;
use super::{Page, ReportedCost};
use ingest_config::{Call, Column, Lasting, Lead, Paging, Pointer, Records};
use ingest_quota::LimitName;

/// One thing that a page, or the report that came with it, does not contain. A run that intersects the results of all its
/// pages knows what no response contained.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "missing", rename_all = "snake_case")]
pub enum Missing {
    /// There is nothing at the place of the records.
    List {
        /// The place.
        at: String,
    },
    /// The page is full and does not lead to a next one.
    Next {
        /// Where the next page is named.
        at: String,
        /// The number of records on the page.
        records: u64,
        /// A place with a value that looks like a next page.
        #[serde(skip_serializing_if = "Option::is_none")]
        unread: Option<String>,
        /// Whether it names a next page, and `more` or `done` says that there is none.
        #[serde(skip)]
        is_flag: bool,
    },
    /// The page ends its list, and the response says that there is a next page where the configuration does not look.
    UnreadNext {
        /// The place.
        at: String,
    },
    /// The first page ends its list, and the response says that there are more records.
    Rest {
        /// Where it says so.
        at: String,
        /// The number that it says.
        total: u64,
        /// The number of records on the page.
        records: u64,
    },
    /// A key of `page` reads a place that has no value.
    Paging {
        key: &'static str,
        /// The place.
        at: String,
        /// Another place whose value looks like the one that is meant.
        instead: Option<String>,
    },
    /// The page has more records than were requested.
    Size {
        /// The parameter for the size of a page.
        param: String,
        /// The configured size.
        size: u64,
        /// Whether the page is one of `page.then`, whose requests have no size of their own.
        #[serde(skip)]
        then: bool,
    },
    /// No record has a value for a column.
    Column {
        column: String,
        /// Its place in a record.
        at: String,
    },
    /// The records are lists, to which the values of their request cannot be added.
    NoMembers {
        /// A column with such a value.
        column: String,
    },
    /// No value of a column is of its type, so all of them are null in the view.
    ColumnType {
        column: String,
        /// Its place in a record.
        at: String,
        r#type: &'static str,
    },
    /// No record has a text there.
    Text {
        /// The place in a record.
        at: String,
    },
    /// No record has an id that a later step requests.
    Ids {
        /// Its place in a record.
        at: String,
    },
    /// Records that name an id for a later step lack a value that is sent with it.
    Parent {
        /// The place of that value in a record.
        at: String,
    },
    /// No record has a value from which `{since}` advances.
    Since {
        /// Its place in a record.
        at: String,
    },
    /// Records have no id.
    Id {
        records: u64,
        /// The members of the first one.
        #[serde(skip)]
        has: MembersOf,
    },
    /// Members at the place of the records are no objects, and others are.
    NoObject {
        /// The place.
        at: String,
        members: u64,
        /// The name of the first one.
        first: String,
    },
    /// Ids that an earlier record of the page has too.
    DistinctId {
        /// How many records repeat one.
        records: u64,
    },
    /// The response does not report the state of a limit.
    Reported {
        limit: LimitName,
        /// The header, or the place in the body, with the remaining units.
        header: String,
        /// What is there and cannot be read.
        #[serde(flatten)]
        held: Held,
    },
    /// The response does not report when the units of a limit return.
    Reset {
        limit: LimitName,
        /// The header, or the place in the body, with the reset.
        at: String,
        /// What is there and cannot be read.
        #[serde(flatten)]
        held: Held,
    },
    /// The response does not report its cost.
    Settle {
        limit: LimitName,
        /// The header, or the place in the body, with the cost.
        at: String,
        /// What is there and cannot be read.
        #[serde(flatten)]
        held: Held,
    },
}

/// An example of what the responses have at a place; `None`: nothing. It makes no difference to what is missing.
#[derive(Debug, Clone, Serialize)]
pub struct Held {
    /// The text, safe to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
}

impl PartialEq for Held {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// What a page of this call does not contain.
#[must_use]
pub fn missing(call: &Call, page: &Page, reported: &ReportedCost) -> BTreeSet<Missing> {
    let mut missing = BTreeSet::new();
    if let Some(records) = &call.records {
        missing.extend(of_list(records, page));
        // An empty page says nothing about columns and texts.
        if !page.records.is_empty() {
            missing.extend(of_records(records, page));
        }
    }
    missing.extend(signs_of_end(&call.paging, page));
    missing.extend(of_paging(&call.paging, page));
    missing.extend(reported.missing.iter().cloned());
    missing
}

/// What shows that a list perhaps goes on behind a page that ends it.
#[must_use]
pub fn signs_of_end(paging: &Paging, page: &Page) -> Option<Missing> {
    if page.listed == 0 && paging.empty_page_ends() {
        return None;
    }
    next_page(paging, page).or_else(|| of_end(page))
}

fn of_list(records: &Records, page: &Page) -> impl Iterator<Item = Missing> {
    let list = page.lacks_list.then(|| Missing::List {
        at: records.at.to_string(),
    });
    let id = (page.skipped > 0).then(|| Missing::Id {
        records: page.skipped,
        has: page.has_instead.clone(),
    });
    let left_out = page.left_out.first.clone().map(|first| Missing::NoObject {
        at: records.at.to_string(),
        members: page.left_out.members,
        first,
    });
    let repeated = (page.repeated > 0).then_some(Missing::DistinctId {
        records: page.repeated,
    });
    list.into_iter().chain(id).chain(left_out).chain(repeated)
}

fn of_records<'a>(records: &'a Records, page: &'a Page) -> impl Iterator<Item = Missing> + 'a {
    let columns = records.columns.iter();
    let columns = columns.filter_map(|(name, column)| of_column(name, column, page));
    let has_text = |at: &Pointer| {
        let mut bodies = page.records.iter().map(|record| &record.body);
        bodies.any(|body| at.has_text_in(body))
    };
    let texts = records.text.iter().filter(move |at| !has_text(at));
    columns.chain(texts.map(|at| Missing::Text { at: at.to_string() }))
}

/// What the records of a page lack for a column: any value, or one of its type.
fn of_column(name: &str, column: &Column, page: &Page) -> Option<Missing> {
    let bodies = page.records.iter().map(|record| &record.body);
    let mut values = bodies
        .flat_map(|body| column.at.find_all(body))
        .filter(|value| !value.is_null())
        .peekable();
    let (column_name, at) = (name.to_owned(), column.at.to_string());
    if values.peek().is_none() && column.template.is_some() {
        return Some(Missing::NoMembers {
            column: column_name,
        });
    }
    if values.peek().is_none() {
        return Some(Missing::Column {
            column: column_name,
            at,
        });
    }
    let kind = column.kind?;
    (!values.any(|value| kind.fits(value))).then(|| Missing::ColumnType {
        column: column_name,
        at,
        r#type: kind.name(),
    })
}

fn next_page(paging: &Paging, page: &Page) -> Option<Missing> {
    let is_full = paging.size().is_some_and(|size| page.listed >= size.size);
    // The cursor of the next pass stands where the list ends.
    let is_last = page.lasting.is_some() && matches!(paging.lasting(), Some(Lasting::At(_)));
    if !is_full || is_last || page.next.is_some() || page.dead_end.is_some() {
        return None;
    }
    let at = match paging.lead() {
        Lead::Token(next) | Lead::Url(next) => next.to_string(),
        Lead::LinkHeader => "the header `link`".to_owned(),
        Lead::TokenHeader(name) => format!("the header `{name}`"),
        Lead::LastRecord(at) => format!("{at} of the last record"),
        // The next page is counted, not read.
        Lead::Nowhere | Lead::Total(_) | Lead::Pages(_) => return None,
    };
    Some(Missing::Next {
        at,
        records: page.listed,
        unread: page.unread.next.clone(),
        is_flag: page.unread.ends_before_next,
    })
}

/// What shows that a list goes on behind its last page.
fn of_end(page: &Page) -> Option<Missing> {
    if page.next.is_some() || page.dead_end.is_some() || page.unchanged {
        return None;
    }
    if let Some(at) = page.unread.next.clone() {
        return Some(Missing::UnreadNext { at });
    }
    let (at, total) = page.unread.total.clone()?;
    let has_rest = page.is_first && page.listed > 0 && total > page.listed;
    has_rest.then_some(Missing::Rest {
        at,
        total,
        records: page.listed,
    })
}

/// Whether a response with this page has a value for a key of `page`, even if the upstream leaves it out elsewhere.
fn says(key: &str, paging: &Paging, page: &Page) -> bool {
    let is_last = page.next.is_none() && page.dead_end.is_none();
    page.listed > 0
        && match key {
            "done" => is_last,
            _ => page.listed >= paging.page_size(),
        }
}

/// What shows that a page is turned wrongly.
fn of_paging(paging: &Paging, page: &Page) -> Vec<Missing> {
    let mut found = Vec::new();
    let lacking = page.unread.lacking.iter();
    let lacking = lacking.filter(|one| one.instead.is_some() || says(one.key, paging, page));
    found.extend(
        lacking
            .cloned()
            .map(|Lacking { key, at, instead }| Missing::Paging { key, at, instead }),
    );
    if let Some(size) = paging.size().filter(|size| page.listed > size.size)
        && let Some(param) = size.param
    {
        found.push(Missing::Size {
            param: param.to_owned(),
            size: size.size,
            then: paging.then().is_some() && !page.is_first,
        });
    }
    found
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List { at } => write!(f, "there are no records at `{at}` (`records.at`)"),
            Self::Next {
                at,
                records,
                unread,
                is_flag,
            } => write_next(f, at, *records, *is_flag, unread.as_deref()),
            Self::UnreadNext { at } => write_unread(f, at),
            Self::Rest { at, total, records } => write_rest(f, at, *total, *records),
            Self::Paging { key, at, instead } => write_paging(f, key, at, instead.as_deref()),
            Self::Size { param, size, then } => write_size(f, param, *size, *then),
            Self::NoMembers { column } => write!(
                f,
                "the records are lists, to which the column `{column}` cannot be added: name their values by `fields` and \
                `layout = \"rows\"` (`records`)"
            ),
            Self::Column { column, at } => {
                write!(
                    f,
                    "no record has a value for the column `{column}` at `{at}`"
                )
            }
            Self::ColumnType { column, at, r#type } => write!(
                f,
                "no value of the column `{column}` at `{at}` is of the type `{type}`, so the view shows none"
            ),
            Self::Text { at } => write!(f, "no record has a text at `{at}` (`records.text`)"),
            Self::Ids { at } => write!(
                f,
                "no record has an id at `{at}` (`ids.at`) for a later step, which so requests nothing"
            ),
            Self::Parent { at } => write!(
                f,
                "records that name an id have no value at `{at}` (`{{parent:{at}}}`), so nothing is requested for them"
            ),
            Self::Since { at } => write!(
                f,
                "no record has a value at `{at}` (`since.at`), so {{since}} does not advance by it"
            ),
            Self::Id { records, has } => write!(
                f,
                "{records} records have no id (`records.id`) and are not landed{has}"
            ),
            Self::NoObject { at, members, first } => write_no_object(f, at, *members, first),
            Self::DistinctId { records } => write!(
                f,
                "{records} records repeat the id of another record of the page (`records.id`) and are \
                not landed: check that the id is distinct"
            ),
            Self::Reported {
                limit,
                header,
                held,
            } => write!(
                f,
                "the response does not report the limit `{limit}` {} (`reported`)",
                of_response(header, held)
            ),
            Self::Reset { limit, at, held } => write!(
                f,
                "the response does not report the reset of the limit `{limit}` {} (`reported`)",
                of_response(at, held)
            ),
            Self::Settle { limit, at, held } => write!(
                f,
                "the response does not report the cost for the limit `{limit}` {} (`settle`)",
                of_response(at, held)
            ),
        }
    }
}

fn write_next(
    f: &mut fmt::Formatter<'_>,
    at: &str,
    records: u64,
    is_flag: bool,
    unread: Option<&str>,
) -> fmt::Result {
    if is_flag {
        return write!(
            f,
            "the page is full ({records} records) and has a value at {} (`page.next`), but says that it is the last one: if it is \
            not, `page.more` and `page.done` are confused, and the rest of the list is lost",
            place(at)
        );
    }
    write!(
        f,
        "the page is full ({records} records) and has no value at {} (`page.next`): if this is not the last page, the rest of \
        the list is lost",
        place(at)
    )?;
    unread.map_or(Ok(()), |at| {
        write!(f, "; the response has a value at {at} that looks like it")
    })
}

fn write_unread(f: &mut fmt::Formatter<'_>, at: &str) -> fmt::Result {
    write!(
        f,
        "the list ends here, and the response has a value at {at} that looks like a next page (`page`): if it is one, the rest \
        of the list is lost"
    )
}

fn write_rest(f: &mut fmt::Formatter<'_>, at: &str, total: u64, records: u64) -> fmt::Result {
    write!(
        f,
        "the list ends here with {records} records, and the response has {total} at {at}: if that is the number of all \
        records, the rest of the list is lost (`page`)"
    )
}

fn write_no_object(f: &mut fmt::Formatter<'_>, at: &str, members: u64, first: &str) -> fmt::Result {
    let are = match members {
        1 => "1 member at".to_owned(),
        _ => format!("{members} members at"),
    };
    let is = if members == 1 {
        "is no object and was"
    } else {
        "are no objects and were"
    };
    write!(f, "{are} `{at}` {is} left out, such as `{first}`")
}

fn write_paging(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    at: &str,
    instead: Option<&str>,
) -> fmt::Result {
    let value = match key {
        "more" | "done" => "true or false",
        _ => "value",
    };
    write!(f, "the response has no {value} at `{at}` (`page.{key}`)")?;
    instead.map_or(Ok(()), |instead| write!(f, "; {instead} looks like it"))
}

fn write_size(f: &mut fmt::Formatter<'_>, param: &str, size: u64, then: bool) -> fmt::Result {
    match then {
        true => write!(
            f,
            "the page has more than {size} records, since the requests of `page.then` have no size: add \
            params = {{ {param} = \"{size}\" }} to it, or its json or form"
        ),
        false => write!(
            f,
            "the page has more than the {size} records that `{param}` requests (`page.size_param`, `page.size`): the upstream \
            does not know the parameter, or not this size"
        ),
    }
}

/// Where a response reports a value, and what it has there instead.
fn of_response(at: &str, held: &Held) -> String {
    let place = match at.starts_with('/') {
        true => format!("at `{at}`"),
        false => format!("in the header `{at}`"),
    };
    match &held.held {
        Some(text) => format!("{place}, which holds \"{text}\""),
        None => place,
    }
}

/// A pointer in quotes; other places name themselves.
fn place(at: &str) -> String {
    if at.starts_with('/') {
        format!("`{at}`")
    } else {
        at.to_owned()
    }
}
