//! What a response does not contain although the configuration reads it: the first sign of a mistake in the file.

use super::records::LONG_ID;
use super::unread::Lacking;
use super::{Page, ReportedCost};
use ingest_config::{Call, Column, Lasting, Lead, Paging, Pointer, Records};

/// One thing that a page, or the report that came with it, does not contain, in words. A run that counts those of all its pages knows
/// what no response contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What is missing, where, and the key that reads it.
    pub text: String,
    /// The same without an example of what the response has there instead: by this it is the same on two pages.
    pub what: String,
    pub from: MissingFrom,
}

/// How many pages of a run lack what is a sign of a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingFrom {
    /// Any one.
    AnyPage,
    /// All with records.
    AllWithRecords,
    /// All that are full: one that is not full may be the last one, and lack it rightly.
    AllFull,
    /// All but those that did not change, which report no cost.
    AllReports,
    /// None: who reads the whole list judges it by more than this.
    NoneOfAList,
}

impl Missing {
    /// Something that a page does not contain.
    pub fn new(from: MissingFrom, text: String) -> Self {
        Self {
            what: text.clone(),
            text,
            from,
        }
    }

    /// Records that repeat the id of another record of their page.
    pub fn distinct_ids(records: u64) -> Self {
        let text = format!(
            "{records} records repeat the id of another record of the page (`records.id`) and are not landed: check that the id is \
            distinct"
        );
        Self::new(MissingFrom::NoneOfAList, text)
    }

    /// A report of the quota: `what` of it, where, what the response has there instead, and the key that reads it.
    pub fn report(what: &str, at: &str, held: Option<&str>, key: &str) -> Self {
        let place = match at.starts_with('/') {
            true => format!("at `{at}`"),
            false => format!("in the header `{at}`"),
        };
        let held = held.map_or_else(String::new, |held| format!(", which holds \"{held}\""));
        let what = format!("the response does not report {what} {place}");
        Self {
            text: format!("{what}{held} (`{key}`)"),
            what: format!("{what} (`{key}`)"),
            from: MissingFrom::AllReports,
        }
    }
}

/// What shows that a list perhaps goes on behind a page that ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignOfMore {
    pub kind: SignKind,
    /// What shows it, in words.
    pub text: String,
}

/// Which sign it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignKind {
    /// The page is full and does not lead to a next one; perhaps another place does.
    FullPage { is_elsewhere: bool },
    /// The page is full and names a next page, and `more` or `done` says that there is none.
    Denied,
    /// The response says that there is a next page where the configuration does not look.
    NamedElsewhere,
    /// The first page says that there are more records than it has.
    MoreRecords,
}

/// What a page of this call does not contain.
pub fn missing(call: &Call, page: &Page, reported: &ReportedCost) -> Vec<Missing> {
    let signs = signs_of_end(&call.paging, page).into_iter();
    let signs = signs.map(|sign| Missing::new(MissingFrom::NoneOfAList, sign.text));
    let mut missing: Vec<Missing> = signs.collect();
    missing.extend(of_paging(&call.paging, page));
    if let Some(records) = &call.records {
        // An empty page says nothing about columns and texts.
        if !page.records.is_empty() {
            missing.extend(of_records(records, page));
        }
        missing.extend(of_list(records, page));
    }
    missing.extend(reported.missing.iter().cloned());
    missing
}

/// What shows that a list perhaps goes on behind a page that ends it.
pub fn signs_of_end(paging: &Paging, page: &Page) -> Option<SignOfMore> {
    if page.listed == 0 && paging.empty_page_ends() {
        return None;
    }
    next_page(paging, page).or_else(|| of_end(page))
}

fn of_list(records: &Records, page: &Page) -> Vec<Missing> {
    let mut found = Vec::new();
    let at = &records.at;
    if page.lacks_list {
        let text = format!("there are no records at `{at}` (`records.at`)");
        found.push(Missing::new(MissingFrom::NoneOfAList, text));
    }
    if page.skipped > 0 {
        let text = format!(
            "{} records have no id (`records.id`) and are not landed{}",
            page.skipped, page.has_instead
        );
        found.push(Missing::new(MissingFrom::NoneOfAList, text));
    }
    if page.has_instead.has_long_id {
        found.push(Missing::new(MissingFrom::AnyPage, LONG_ID.to_owned()));
    }
    if let Some(first) = &page.left_out.first {
        let text = match page.left_out.members {
            1 => format!("1 member at `{at}` is no object and was left out, such as `{first}`"),
            members => format!(
                "{members} members at `{at}` are no objects and were left out, such as `{first}`"
            ),
        };
        found.push(Missing::new(MissingFrom::AnyPage, text));
    }
    if let Some(name) = &page.replaced {
        let text = format!(
            "records have a member `{name}` of their own, which `records.key` or `records.columns` replaces: write another name \
            there to keep it"
        );
        found.push(Missing::new(MissingFrom::AnyPage, text));
    }
    if page.differing > 0 {
        found.push(Missing::distinct_ids(page.differing));
    }
    found
}

fn of_records<'a>(records: &'a Records, page: &'a Page) -> impl Iterator<Item = Missing> + 'a {
    let columns = records.columns.iter();
    let columns = columns.filter_map(|(name, column)| of_column(name, column, page));
    let has_text = |at: &Pointer| {
        let mut bodies = page.records.iter().map(|record| &record.body);
        bodies.any(|body| at.has_text_in(body))
    };
    let texts = records.text.iter().filter(move |at| !has_text(at));
    let texts = texts.map(|at| format!("no record has a text at `{at}` (`records.text`)"));
    let all = columns.chain(texts);
    all.map(|text| Missing::new(MissingFrom::AllWithRecords, text))
}

/// What the records of a page lack for a column: any value, or one of its type.
fn of_column(name: &str, column: &Column, page: &Page) -> Option<String> {
    let bodies = page.records.iter().map(|record| &record.body);
    let mut values = bodies
        .flat_map(|body| column.at.find_all(body))
        .filter(|value| !value.is_null())
        .peekable();
    let at = &column.at;
    if values.peek().is_none() {
        return Some(match column.template {
            Some(_) => format!(
                "the records are lists, to which the column `{name}` cannot be added: name their values by `fields` and \
                `layout = \"rows\"` (`records`)"
            ),
            None => format!("no record has a value for the column `{name}` at `{at}`"),
        });
    }
    let kind = column.kind?;
    (!values.any(|value| kind.fits(value))).then(|| {
        format!(
            "no value of the column `{name}` at `{at}` is of the type `{}`, so the view shows none",
            kind.name()
        )
    })
}

fn next_page(paging: &Paging, page: &Page) -> Option<SignOfMore> {
    let is_full = paging.size.is_some_and(|size| page.listed >= size);
    // The cursor of the next pass stands where the list ends.
    let is_last = page.lasting.is_some() && matches!(paging.lasting, Some(Lasting::At(_)));
    if !is_full || is_last || page.next.is_some() || page.dead_end.is_some() {
        return None;
    }
    // Where it is none, the next page is counted, not read.
    let at = match paging.lead()? {
        Lead::Token(at) | Lead::Url(at) => format!("`{at}`"),
        Lead::LinkHeader => "the header `link`".to_owned(),
        Lead::TokenHeader(name) => format!("the header `{name}`"),
        Lead::LastRecord(at) => format!("{at} of the last record"),
    };
    let at = format!("{at} (`page.next`)");
    let page_has = format!("the page is full ({} records)", page.listed);
    if page.unread.ends_before_next {
        let text = format!(
            "{page_has} and has a value at {at}, but says that it is the last one: if it is not, `page.more` and `page.done` are \
            confused, and the rest of the list is lost"
        );
        return Some(SignOfMore {
            kind: SignKind::Denied,
            text,
        });
    }
    let elsewhere = page.unread.next.as_ref().map_or_else(String::new, |at| {
        format!("; the response has a value at {at} that looks like it")
    });
    let lost = "if this is not the last page, the rest of the list is lost";
    Some(SignOfMore {
        kind: SignKind::FullPage {
            is_elsewhere: page.unread.next.is_some(),
        },
        text: format!("{page_has} and has no value at {at}: {lost}{elsewhere}"),
    })
}

/// What shows that a list goes on behind its last page.
fn of_end(page: &Page) -> Option<SignOfMore> {
    if page.next.is_some() || page.dead_end.is_some() || page.unchanged {
        return None;
    }
    if let Some(at) = &page.unread.next {
        return Some(SignOfMore {
            kind: SignKind::NamedElsewhere,
            text: format!(
                "the list ends here, and the response has a value at {at} that looks like a next page (`page`): if it is one, the \
                rest of the list is lost"
            ),
        });
    }
    let (at, total) = page.unread.total.as_ref()?;
    let has_rest = page.is_first && page.listed > 0 && *total > page.listed;
    has_rest.then(|| SignOfMore {
        kind: SignKind::MoreRecords,
        text: format!(
            "the list ends here with {} records, and the response has {total} at {at}: if that is the number of all records, the \
            rest of the list is lost (`page`)",
            page.listed
        ),
    })
}

/// What shows that a page is turned wrongly.
fn of_paging(paging: &Paging, page: &Page) -> Vec<Missing> {
    let is_last = page.next.is_none() && page.dead_end.is_none();
    let mut found = Vec::new();
    for Lacking { key, at, instead } in &page.unread.lacking {
        // The last page says that it is the last one, others need not say anything.
        let (is_said, from) = match *key {
            "done" if !is_last => (false, MissingFrom::NoneOfAList),
            "done" => (true, MissingFrom::AnyPage),
            _ => (page.listed >= paging.page_size(), MissingFrom::AllFull),
        };
        // An upstream can leave it out elsewhere.
        if instead.is_none() && !(is_said && page.listed > 0) {
            continue;
        }
        let value = match *key {
            "more" | "done" => "true or false",
            _ => "value",
        };
        let instead = instead.as_ref();
        let instead = instead.map_or_else(String::new, |at| format!("; {at} looks like it"));
        let text = format!("the response has no {value} at `{at}` (`page.{key}`){instead}");
        found.push(Missing::new(from, text));
    }
    if let Some(size) = paging.size.filter(|size| page.listed > *size)
        && let Some(param) = &paging.size_param
    {
        let text = match paging.then.is_some() && !page.is_first {
            true => format!(
                "the page has more than {size} records, since the requests of `page.then` have no size: add \
                params = {{ {param} = \"{size}\" }} to it, or its json or form"
            ),
            false => format!(
                "the page has more than the {size} records that `{param}` requests (`page.size_param`, `page.size`): the upstream \
                does not know the parameter, or not this size"
            ),
        };
        found.push(Missing::new(MissingFrom::AnyPage, text));
    }
    found
}
