//! What a response says beside its records: an error, that it is a part, or nothing of a list at all.

use serde_json::Value;

use super::{Review, Said, Turn};
use ingest_base::plain::plain;
use ingest_base::record::Record;
use ingest_config::{Doubt, Field, Format, Lasting};
use ingest_upstream::{End, Page, is_setback, says_error, says_failure, says_part, says_refusal};

/// The place of a message, in words.
const MESSAGE: &str = "a message beside an empty list";

impl Review<'_> {
    /// Adds the doubts about a page that is a part, or that has an error beside its records, and notes what its next URL lacks.
    pub fn check_beside(&mut self, page: &Page, said: &mut Said) {
        let name = &self.call.name;
        if page.is_unbounded {
            said.note(self.text(
                "only the end of the connection ended a response (it has neither `Content-Length` nor chunks), so a part of it would \
                look like the whole; this pass marks no record as gone",
            ));
        }
        if let Some(part) = &page.part {
            let text = format!("{name}: a response is a part of the list: {part}");
            said.add(self.find(Doubt::Partial, text));
        }
        if let Some(at) = &page.unread.cut_part {
            let text = format!(
                "{name}: the response says at {at} that a list goes on of which it has the first part, and nothing requests the rest"
            );
            said.add(self.find(Doubt::NextUnread, text));
        }
        self.check_dropped(page, said);
        self.check_page_without_list(page, said);
        let errors = page.unread.beside.errors.iter();
        let mut unknown = errors.filter(|(place, said)| {
            let is_part = page.listed == 0 || says_part(place, said);
            is_part || !self.known.always_says((place, said))
        });
        let values = page.unread.beside.values.iter();
        let list = self.call.records.as_ref().map(|records| &records.at);
        let mut setback = values.filter(|(place, now)| {
            let was = self.known.values.get(*place);
            was.zip(list.as_ref())
                .is_some_and(|(was, list)| is_setback((place, list), was, now))
        });
        let message = page.unread.beside.message.as_ref();
        let refusal = message.filter(|message| self.refuses(page, message));
        let refusal = refusal.map(|(name, words)| match page.listed {
            0 => (MESSAGE.to_owned(), words),
            _ => (format!("/{name}"), words),
        });
        let error = unknown.next().or_else(|| setback.next());
        let error = error.map(|(place, words)| (place.clone(), words));
        if let Some((place, words)) = error.or(refusal).filter(|_| !self.has_error) {
            let text = format!(
                "{name}: a response has an error at `{place}`: \"{words}\"; match it in `errors` if the upstream refuses the \
                request with it"
            );
            self.has_error = true;
            said.add(self.find(Doubt::ErrorReported, text));
        }
        self.check_records(page, said);
    }

    /// Adds the doubt about a page with a record that is an error, and after it learnt of the others what records have.
    fn check_records(&mut self, page: &Page, said: &mut Said) {
        self.learn_members(page);
        if let Some((id, words)) = self.errors_in(page).into_iter().next() {
            let text = self.text(&format!(
                "the record `{}` has an error and nothing that earlier ones had, so it is not landed: \"{words}\"; match it in \
                `errors` if the upstream refuses the request with it",
                plain(&id)
            ));
            said.add(self.find(Doubt::ErrorReported, text));
        }
    }

    /// Learns what records have, of the first one of a page that is no error.
    fn learn_members(&mut self, page: &Page) {
        let is_record = |one: &&Record| says_error(&one.body, self.key()).is_none();
        let mut records = page.records.iter().filter(|_| !page.unchanged);
        if let Some(first) = records.find(is_record) {
            let members = self.own_members(&first.body).cloned().collect::<Vec<_>>();
            self.shown.add_members(members);
        }
    }

    /// Returns the member that has the name of a record by name.
    fn key(&self) -> Option<&str> {
        self.call.records.as_ref()?.key.as_deref()
    }

    /// Returns the ids of records that are errors, as one of several or in place of all, and what they say: they have nothing of what
    /// the records of the call have. Among the records of a list, one with an error is data.
    #[must_use]
    pub fn errors_in(&self, page: &Page) -> Vec<(String, String)> {
        if self.call.trust.contains(&Doubt::ErrorReported) {
            return Vec::new();
        }
        let records = page.records.iter();
        let errors = records.filter_map(|one| Some((one.id.clone(), self.error_in(one)?)));
        let errors: Vec<_> = errors.collect();
        // A stream that fails ends with a line that says so.
        let read = self.call.records.as_ref();
        let is_stream = read.is_some_and(|read| read.format == Format::Ndjson);
        let ends_with_one = || {
            let (last, error) = (page.records.last(), errors.last());
            last.is_some_and(|last| error.is_some_and(|(id, _)| *id == last.id))
        };
        let are_all = errors.len() == page.records.len();
        match self.step.ids.is_some() || are_all || (is_stream && ends_with_one()) {
            true => errors,
            false => Vec::new(),
        }
    }

    fn error_in(&self, record: &Record) -> Option<String> {
        let known = [&self.known, &self.shown];
        let are_known = known.iter().any(|known| !known.members.is_empty());
        let mut own = self.own_members(&record.body);
        if !are_known || own.any(|name| known.iter().any(|one| one.may_have(name))) {
            return None;
        }
        says_error(&record.body, self.key())
    }

    /// The members of a record that neither are its id nor come from the configuration.
    fn own_members<'b>(&self, body: &'b Value) -> impl Iterator<Item = &'b String> {
        let records = self.call.records.as_deref();
        let is_added = move |name: &str| {
            records.is_some_and(|records| {
                let mut ids = records.id.iter().filter_map(Field::pointer);
                let column = records.columns.get(name);
                records.key.as_deref() == Some(name)
                    || column.is_some_and(|column| column.template.is_some())
                    || ids.any(|at| at.tokens().first().is_some_and(|token| token == name))
            })
        };
        let members = body.as_object().into_iter().flatten();
        members
            .map(|(name, _)| name)
            .filter(move |name| !is_added(name))
    }

    /// Adds the doubt about a page that leads on, has no list and says something that no page with one says: many upstreams leave out an
    /// empty list, and others answer so while they fail.
    fn check_page_without_list(&mut self, page: &Page, said: &mut Said) {
        if page.lacks_list && page.next.is_some() {
            let names = page.unread.names.iter().cloned();
            self.names_without_list.extend(names);
        }
        let known = [&self.known, &self.shown];
        let has_lists = known.iter().any(|known| known.has_lists);
        let contradicts = page.lacks_list
            && page.next.is_some()
            && known
                .iter()
                .any(|known| known.contradicts(&page.unread.beside.values));
        let mut names = self
            .names_without_list
            .iter()
            .filter(|name| !self.is_of_paging(name));
        let new = names.find(|name| known.iter().all(|known| !known.may_know(name)));
        if !has_lists || !(contradicts || new.is_some()) {
            return;
        }
        let at = self.call.records.as_ref().map(|records| &records.at);
        let at = at.map_or_else(String::new, |at| format!(" at `{at}`"));
        let has = new.map_or_else(String::new, |new| format!(", and has `/{new}`"));
        let text = format!(
            "{}: a response before the last has no list{at}{has}, which none with a list has; check its records.at",
            self.call.name
        );
        self.names_without_list.clear();
        said.add(self.find(Doubt::NoRecords, text));
    }

    /// Whether a member has, or contains, what the configuration reads of paging.
    fn is_of_paging(&self, name: &str) -> bool {
        let paging = &self.call.paging;
        let lasting = match &paging.lasting {
            Some(Lasting::At(at)) => Some(at),
            Some(Lasting::Last) | None => None,
        };
        let ends = [&paging.pages, &paging.more, &paging.done];
        let places = [&paging.next, &paging.total].into_iter().chain(ends);
        let mut places = places.flatten().chain(lasting);
        places.any(|at| {
            let rest = at
                .as_str()
                .strip_prefix('/')
                .and_then(|at| at.strip_prefix(name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Whether a message says why a list has no record, in a step that lists, or why it has fewer: no response with a list had one.
    fn refuses(&self, page: &Page, (name, words): &(String, String)) -> bool {
        let is_empty = page.listed == 0 && !page.lacks_list && self.step.ids.is_none();
        let is_new = page.listed > 0 && self.known.is_new(name);
        // Before any list was seen, nothing shows which codes are those of a success.
        let is_first = is_empty && !self.known.has_lists && self.with_records == 0;
        (is_empty || is_new) && says_failure(words)
            || is_first && says_refusal(&page.unread.beside.values, words)
    }

    /// Adds the doubt about a list without records, of a region that had some, whose response says something that none with records
    /// says: upstreams answer so while they fail.
    pub fn check_empty(&self, page: &Page, turn: Turn<'_>, said: &mut Said) {
        let is_empty = page.listed == 0 && page.is_first && !page.lacks_list && !page.is_blank;
        let had_records = (1..u64::MAX).contains(&self.last_pages) && !self.names_since();
        let lists = turn.ids.is_empty() && self.step.ids.is_none();
        if !is_empty || !had_records || !lists {
            return;
        }
        let mut names = page.unread.telling.iter();
        let is_news = |name: &&String| self.known.is_new(name) && !self.is_of_paging(name);
        if let Some(new) = names.find(is_news) {
            let text = self.text(&format!(
                "the list is empty, and its response has `/{new}`, which none with records had"
            ));
            said.add(self.find(Doubt::NoRecords, text));
        }
    }

    /// Adds the doubt about a page that ends its list and has none where the configuration looks for it: a typing error there, or a
    /// refusal with the status of a success, would otherwise pass for an empty list. `was_asked`: it was requested to prove the end.
    pub fn check_list(&mut self, page: &Page, turn: Turn<'_>, was_asked: bool, said: &mut Said) {
        let Some(records) = self
            .call
            .records
            .as_ref()
            .filter(|_| page.lacks_list || page.is_blank)
        else {
            return;
        };
        let name = &self.call.name;
        if page.is_blank {
            if self.known.has_lists || self.shown.has_lists {
                let text = format!(
                    "{name}: a response has no byte, and earlier ones had at least the names of columns"
                );
                said.add(self.find(Doubt::NoRecords, text));
            }
            return;
        }
        if self.is_empty_list(page, was_asked) {
            self.shown.add_empty(&page.unread.names);
            let had_records = (1..u64::MAX).contains(&self.last_pages) && !self.names_since();
            if had_records && self.without_list == self.fetched {
                said.note(self.text(
                    "the response leaves the list out, as it does without records; this pass marks no record as gone",
                ));
            }
            return;
        }
        let names = &page.unread.names;
        // Upstreams leave out what they do not have of the requested ids.
        let is_of_ids = self.step.ids.is_some() || !turn.ids.is_empty();
        if is_of_ids && !names.iter().any(|name| self.known.is_new(name)) {
            return;
        }
        let words = page.unread.beside.message.as_ref();
        let words = words.map_or_else(String::new, |(_, words)| format!(", and says \"{words}\""));
        let text = match self.without_list == self.fetched {
            true => format!(
                "no response of {name} has a list at `{}`{words}; check its records.at",
                records.at
            ),
            false => format!(
                "{name}: the last response has no list at `{}`{words}",
                records.at
            ),
        };
        match page.lacks_elements {
            // An empty list in XML: its elements are left out.
            true => said.note(text),
            false => said.add(self.find(Doubt::NoRecords, text)),
        }
    }

    /// Whether a page without a list is an empty list: it says so, or is what the call answers where it has nothing.
    fn is_empty_list(&self, page: &Page, was_asked: bool) -> bool {
        let (beside, names) = (&page.unread.beside, &page.unread.names);
        if beside.says_none || page.total == Some(0) {
            return true;
        }
        let known = [&self.known, &self.shown];
        let total = page.total.filter(|_| page.is_first);
        if total.is_some() || known.iter().any(|known| known.contradicts(&beside.values)) {
            return false;
        }
        let says_end = page.places.iter().any(|(_, is_there)| *is_there);
        let has_lasting = matches!(self.call.paging.lasting, Some(Lasting::At(_)));
        let begins_next = has_lasting && page.lasting.is_some() && page.end == End::Proved;
        let is_own = names
            .iter()
            .all(|name| known.iter().any(|known| known.names.contains(name)));
        let agrees = known.iter().any(|known| known.agrees(&beside.values));
        let was_empty = self.known.was_empty(names);
        let is_behind = self.call.paging.counts_itself() && !page.is_first && !self.was_named;
        let was_asked = was_asked || is_behind;
        // A list that leads on and shows records on none of its pages has them elsewhere.
        let had_lists = page.is_first || self.without_list < self.fetched;
        let has_lists = known.iter().any(|known| known.has_lists);
        // Until a list was seen, words are the only sign of what is none.
        let says_end = says_end && had_lists && (is_own || !has_lists && beside.message.is_none());
        says_end || begins_next || was_empty || (is_own && (was_asked || agrees))
    }
}
