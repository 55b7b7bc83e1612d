//! The page that a response contains, or what it means if it is none.

use reqwest::StatusCode;
use reqwest::header::ETAG;
use serde_json::Value;

use super::Response;
use super::refusal::{self, said};
use crate::beside::{self, has_content};
use crate::body::End;
use crate::link;
use crate::paging::{self, Onward};
use crate::records::{self, Found, WrongShape};
use crate::request::RequestParts;
use crate::signs::{MemberName, Sign};
use crate::upstream_clock::UpstreamClock;
use crate::{Classified, Exchange, Failure, Page, PageRequest, reported, transient, unread};
use ingest_base::clock::{Clock, SystemClock};
use ingest_base::record::{CachedPage, Tag};
use ingest_config::{Auth, Class, Etag, Field, NextPage, PageKind, Records};

impl Response {
    /// Interprets the response. Its class, and what it reports about the quota, are put into `exchange`, whether it is a page or not.
    ///
    /// # Errors
    /// Why it is no page.
    pub async fn understand(
        self,
        parts: &RequestParts<'_>,
        exchange: &mut Exchange,
    ) -> Result<Page, Failure> {
        let clock = UpstreamClock::read(self.date(), parts.request.now, SystemClock.now());
        let page = self.understood(parts, exchange).await?;
        Ok(Page { clock, ..page })
    }

    async fn understood(
        self,
        parts: &RequestParts<'_>,
        exchange: &mut Exchange,
    ) -> Result<Page, Failure> {
        exchange.classified = Some(Classified {
            status: self.status.as_u16(),
            rule: None,
        });
        // Of the headers alone, for a response whose body cannot be read.
        exchange.reported = reported::read(parts, &self, None);
        let cached = parts.request.known;
        if let Some(cached) = cached.filter(|_| self.status == StatusCode::NOT_MODIFIED) {
            return Ok(unchanged(cached));
        }
        if !self.status.is_success() {
            return self.refusal(&refusal::document(&self), parts, exchange);
        }
        // Upstreams report errors with every status and in every format, so the rules come before the body is read.
        let rules = &parts.request.step.call.errors;
        if !self.is_whole() {
            let document = refusal::document(&self);
            return match refusal::rule_of(&self, rules, &document) {
                Some(_) => self.refusal(&document, parts, exchange),
                None => Err(self.cut_off(parts)),
            };
        }
        let (response, document) = self.parsed().await?;
        let seen = response.for_rules(&document);
        let is_ruled = refusal::rule_of(&response, rules, &seen).is_some();
        if is_ruled || response.status == StatusCode::ACCEPTED {
            return response.refusal(&seen, parts, exchange);
        }
        // It has no body, which is otherwise a failure.
        if response.status == StatusCode::NO_CONTENT {
            return Ok(response.no_records(parts));
        }
        let document = document?;
        exchange.reported = reported::read(parts, &response, Some(&document));
        response.page(document, parts)
    }

    /// What a refusal means: an empty last page, if its rule says so, else a failure.
    fn refusal(
        &self,
        document: &Value,
        parts: &RequestParts<'_>,
        exchange: &mut Exchange,
    ) -> Result<Page, Failure> {
        let PageRequest { step, now, .. } = parts.request;
        let rules = &step.call.errors;
        let rule = refusal::rule_of(self, rules, document);
        exchange.reported = reported::read(parts, self, Some(document));
        exchange.reported.free = rule.map(|rule| rule.free.clone()).unwrap_or_default();
        exchange.classified = Some(Classified {
            status: self.status.as_u16(),
            rule: rules
                .iter()
                .position(|one| rule.is_some_and(|rule| std::ptr::eq(rule, one))),
        });
        if rule.is_some_and(|rule| rule.class == Class::End) {
            return Ok(Page {
                is_refused: true,
                ..self.no_records(parts)
            });
        }
        let is_gone = self.status == StatusCode::GONE && rule.is_none();
        Err(match refusal::failure_in(self, document, rules, now) {
            // Without a rule, "gone" is about the cursor.
            Failure::Skip(why) if is_gone && parts.request.lasting.is_some() => {
                Failure::OldCursor(why)
            }
            Failure::Denied(why) => Failure::Denied(format!("{why} ({})", self.named(parts))),
            failure => failure,
        })
    }

    /// The request, for messages: its method, its path and the id that it is about.
    fn named(&self, parts: &RequestParts<'_>) -> String {
        let path = self.shown(parts.url().path());
        let about = match parts.request.ids {
            [] => String::new(),
            [id] => format!(", id `{}`", self.shown(id)),
            ids => format!(", {} ids", ids.len()),
        };
        format!("{} {path}{about}", parts.request.step.call.method)
    }

    /// An empty last page.
    fn no_records(&self, parts: &RequestParts<'_>) -> Page {
        Page {
            lasting: paging::kept(parts),
            slot: self.slot.clone(),
            ..Page::default()
        }
    }

    fn page(&self, mut document: Value, parts: &RequestParts<'_>) -> Result<Page, Failure> {
        self.no_error(&document, parts)?;
        let call = &parts.request.step.call;
        let records = call.records.as_ref();
        let records =
            records.ok_or_else(|| Failure::Skip(format!("`{}` has no records", call.name)))?;
        self.has_id_columns(&document, records)?;
        // The cursor can be inside the records, so it is read before they are taken out of the document.
        let mut says = paging::read(&call.paging, &document, self);
        let mut unread = unread::read(&call.paging, records, &document, (self, parts.url()));
        let (total, pages) = (says.total, says.pages);
        let places = std::mem::take(&mut says.places);
        let is_first = parts.request.is_first();
        let Found { page, error, last } = records::take(
            &mut document,
            records,
            &parts.values(),
            call.paging.last.is_some(),
            &parts.request.step.read_later,
        )
        .map_err(|wrong| match wrong {
            WrongShape::Repeat(_) => Failure::Skip(wrong.to_string()),
            WrongShape::NoIds { count, ids, has } => {
                let has = has.shown_by(|name| self.shown(name));
                Failure::WrongShape(WrongShape::NoIds { count, ids, has }.to_string())
            }
            WrongShape::Value { .. } | WrongShape::Twice { .. } => {
                Failure::WrongShape(wrong.to_string())
            }
        })?;
        let ids = parts.request.ids;
        let is_about_ids = |place: &str| {
            let error = document.pointer(place);
            error.is_some_and(|error| beside::is_about_ids(error, ids))
        };
        let errors = &mut unread.beside.errors;
        errors.retain(|place, _| !is_about_ids(place));
        errors.extend(error.map(|said| ("a record without an id".to_owned(), said)));
        let left_out = page.left_out.first.iter();
        let left_out = left_out.filter(|name| MemberName::of(name).says(Sign::Error));
        errors.extend(
            left_out.map(|name| (format!("{}/{name}", records.at), "no record".to_owned())),
        );
        says.read_last(&call.paging, last.as_ref());
        let is_named = says.names_next(&call.paging);
        let (next, end, lasting, dead_end) = match paging::onward(parts, self, says, page.listed) {
            // The records are paid for: they are landed, and the list stops behind them.
            Err(Failure::Skip(why)) => (None, ingest_config::End::Proved, None, Some(why)),
            onward => match onward? {
                Onward {
                    follows: NextPage::Cursor(next),
                    ..
                } => (Some(next), ingest_config::End::Proved, None, None),
                Onward {
                    follows: NextPage::None(end),
                    lasting,
                } => (None, end, lasting, None),
            },
        };
        let is_by_url = matches!(call.paging.kind, PageKind::Link | PageKind::NextUrl);
        if let Some(next) = next.as_ref().filter(|_| is_by_url) {
            unread.dropped = self.dropped(parts, next);
        }
        let elsewhere = (page.lacks_list || page.lacks_elements)
            .then(|| unread::elsewhere(&document, records.format))
            .flatten()
            // Elements that hold the records, and of which none has one.
            .filter(|at| page.lacks_list || !records.at.as_str().starts_with(&format!("{at}/")));
        let part = beside::part(self, page.listed, (is_first, next.is_none()));
        let is_blank = self.is_blank_table();
        // A page that was not modified would lack what speaks against it.
        let is_whole = part.is_none()
            && !is_blank
            && unread.beside.errors.is_empty()
            && (!page.lacks_list || unread.beside.says_none);
        let tag = self
            .tag(parts, &page, next.as_deref())
            // A page that was not modified would end its list without the reason why it cannot go on.
            .filter(|_| dead_end.is_none() && is_whole);
        Ok(Page {
            has_instead: page.has_instead.shown_by(|name| self.shown(name)),
            replaced: page.replaced.map(|name| self.shown(&name)),
            lacks_list: page.lacks_list || page.lacks_elements,
            is_blank,
            is_unbounded: self.is_unbounded && self.can_end_anywhere() && page.listed > 0,
            part,
            is_named: is_named && next.is_some(),
            next,
            lasting,
            tag,
            dead_end,
            is_first,
            unread,
            end,
            size: parts.page_size(),
            total,
            pages,
            before: call.paging.before(parts.request.page_cursor()),
            places,
            elsewhere,
            slot: self.slot.clone(),
            ..page
        })
    }

    /// The parameters of the request that the URL of the next page lacks, but for secrets.
    fn dropped(&self, parts: &RequestParts<'_>, next: &str) -> Vec<String> {
        let mut dropped = link::dropped(parts.url(), next);
        if let Auth::Query(secret) = &parts.upstream.auth {
            dropped.retain(|name| name != secret);
        }
        dropped.retain(|name| parts.secret_params().all(|secret| secret != name));
        dropped
    }

    /// Checks that a table has the columns of the ids: without a row, nothing else tells that it is another table.
    fn has_id_columns(&self, document: &Value, records: &Records) -> Result<(), Failure> {
        let (Value::Array(_), Some(names)) = (document, self.columns()) else {
            return Ok(());
        };
        let of_request = |name: &str| {
            let column = records.columns.get(name);
            column.is_some_and(|column| column.template.is_some())
        };
        let is_there = |name: &str| names.iter().any(|one| one == name) || of_request(name);
        let columns = records.id.iter().filter_map(|id| match id {
            Field::At(at) => at.tokens().first(),
            Field::Template(_) => None,
        });
        let Some(lacking) = columns.into_iter().find(|name| !is_there(name)) else {
            return Ok(());
        };
        let shown: Vec<String> = names
            .iter()
            .map(|name| format!("`{}`", self.shown(name)))
            .collect();
        Err(Failure::WrongShape(format!(
            "the response has no column `{lacking}`, which `records.id` reads; its columns are {}",
            shown.join(", ")
        )))
    }

    /// The `ETag` with which the page can be requested again, if everything that we read is in the body that it names.
    fn tag(&self, parts: &RequestParts<'_>, page: &Page, next: Option<&str>) -> Option<Tag> {
        let wanted = parts.request.step.call.etag == Etag::Free;
        // A tag that is not UTF-8 cannot be sent back as it came. Without one, the page is requested as if it were new.
        let name = self.exact_header(ETAG.as_str()).ok()??;
        if !wanted || name.is_empty() {
            return None;
        }
        // What a page that did not change shows again is its records and its next page.
        let is_stored = page.removed.is_empty() && parts.request.step.call.paging.lasting.is_none();
        let whole =
            page.skipped == 0 && is_stored && !paging::may_grow_unseen(parts, page.listed, next);
        whole.then(|| Tag {
            request: parts.name(),
            name: name.to_owned(),
            next: next.map(str::to_owned),
        })
    }

    /// Why a success did not come whole.
    fn cut_off(&self, parts: &RequestParts<'_>) -> Failure {
        match &self.end {
            End::TooLong(most) => Failure::Skip(format!(
                "the response is longer than {most} bytes; request less, or raise \
                upstreams.{}.max_body",
                parts.upstream.name
            )),
            End::Broken(cause) => transient(format!("the response is incomplete: {cause}")),
            // It did.
            End::Whole => transient("the response is incomplete".to_owned()),
        }
    }

    /// A success that is an error: it contains a message where APIs report errors, and no records. A list lacks them at its own
    /// place, which another attempt does not change.
    fn no_error(&self, document: &Value, parts: &RequestParts<'_>) -> Result<(), Failure> {
        let error = match document {
            Value::Array(elements) => elements
                .iter()
                .find_map(|element| error_in(element, &["error", "errors", "message"])),
            document => error_in(document, &["error", "errors"]),
        };
        let records = parts.request.step.call.records.as_ref();
        let has_records =
            records.is_some_and(|records| records::has_records(document, records, &parts.values()));
        if error.is_none() || has_records {
            return Ok(());
        }
        let message = format!("the response is an error: {}", said(self, document));
        match document {
            Value::Array(_) => Err(Failure::WrongShape(message)),
            _ => Err(Failure::Transient {
                message,
                retry_after: refusal::requested_wait(self, self.upstream_time(parts.request.now)),
                limit: None,
            }),
        }
    }
}

/// The page that is stored already.
fn unchanged(known: &CachedPage) -> Page {
    let (records, next, tag) = (
        known.records.clone(),
        known.tag.next.clone(),
        Some(known.tag.clone()),
    );
    Page {
        listed: u64::try_from(records.len()).unwrap_or(u64::MAX),
        records,
        next,
        tag,
        unchanged: true,
        ..Page::default()
    }
}

/// The first of these members of an object that has content.
fn error_in<'a>(document: &'a Value, names: &[&str]) -> Option<&'a Value> {
    let members = document.as_object()?;
    let errors = names.iter().filter_map(|name| members.get(*name));
    errors.into_iter().find(|error| has_content(error))
}
