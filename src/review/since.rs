//! The value of the next `{since}`: the greatest that a list has at its job's `since.at`, as far as the pass can vouch for it; and notes where the list and `{since}` do not fit each other.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_base::clock::{Clock, SystemClock};
use ingest_base::plain::plain;
use ingest_base::record::Record;
use ingest_config::{Field, Job, Moment, Pointer, SinceValue, Step, Variable};
use ingest_quota::Timestamp;
use ingest_upstream::Page;

/// The value of the next `{since}` of each list of a pass: the greatest that it, or the same list before it, had at `since.at`. A time
/// among them is never after the start of the pass: what changes later is perhaps on a page that was read before. Without `since.at`,
/// that start.
#[derive(Debug, Clone)]
pub struct Greatest {
    /// By what the list requests.
    values: BTreeMap<String, SinceValue>,
    /// The start of the pass by the upstream's clock, as far as its responses show that.
    start: Timestamp,
    has_unread: bool,
}

impl Greatest {
    /// Reads the first of these stored values of each list that belongs to the job's `since.at`. `start`: of the pass, by this machine's
    /// clock.
    pub fn read<'s>(
        job: &Job,
        start: Timestamp,
        stored: impl IntoIterator<Item = Option<&'s str>>,
    ) -> Self {
        let mut values = BTreeMap::new();
        for (list, value) in stored
            .into_iter()
            .flatten()
            .flat_map(|one| job.since.read(one))
        {
            values.entry(list).or_insert(value);
        }
        Self {
            values,
            start,
            has_unread: false,
        }
    }

    /// Returns the values as the catalog stores them; `None` where there was none.
    #[must_use]
    pub fn stored(&self, job: &Job) -> Option<String> {
        (!self.values.is_empty()).then(|| job.since.stored(&self.values))
    }

    /// Adds the values of a page of a list. Returns notes: if its records have none, or are older than `since`, with which they were
    /// requested, and on what is no time where one is needed, or is one that has not come yet.
    pub fn see(
        &mut self,
        job: &Job,
        (step, list): (&Step, &str),
        since: Option<&SinceValue>,
        page: &Page,
    ) -> Vec<String> {
        if !job.names(step, &Variable::Since) {
            return Vec::new();
        }
        let theirs = page.clock.theirs(self.start);
        let is_behind = theirs < self.start;
        self.start = theirs;
        let Some(at) = &job.since.at else {
            // Otherwise it is when the pass started, which the catalog knows.
            if is_behind {
                let start = SinceValue::Time(self.start);
                self.values.insert(list.to_owned(), start);
            }
            return Vec::new();
        };
        let records = &page.records;
        let sent_unread = since.and_then(|since| sent_unread(job, step, since));
        let mut notes = Vec::from_iter(sent_unread);
        let values = SeenValues::read(job, step, records);
        let is_older = |value: &SinceValue| {
            since.is_some_and(|since| since.text().is_some() && value.compare(since).is_lt())
        };
        // With an offset, older records are asked for.
        if !step.shifts_since() && values.read.iter().any(is_older) {
            notes.push(older_than_since(&step.call.name));
        }
        if let Some(unread) = values.unread.filter(|_| !self.has_unread) {
            self.has_unread = true;
            notes.push(unread);
        } else if values.read.is_empty() && !records.is_empty() && !self.has_unread {
            notes.push(format!(
                "{}: no record of a page has a value at `{at}` (`since.at`), so {{since}} does not advance by it",
                step.call.name
            ));
        }
        notes.extend(self.advance(job, (step, list), values.read, page));
        notes
    }

    /// Advances by the values of a page, to the start of the pass at most where they are times. Returns a note on one that has not come
    /// yet.
    fn advance(
        &mut self,
        job: &Job,
        (step, list): (&Step, &str),
        values: Vec<SinceValue>,
        page: &Page,
    ) -> Option<String> {
        let all = self.values.remove(list).into_iter().chain(values);
        let all: Vec<SinceValue> = all.collect();
        let all_are_times = all_are_times(job, step, &all, self.start);
        let greatest = all.into_iter().max_by(SinceValue::compare)?;
        let is_time = |moment: &Moment| all_are_times || moment.is_of_calendar();
        let moment = greatest.moment().filter(is_time);
        let Some(moment) = moment.filter(|moment| moment.time() > self.start) else {
            self.values.insert(list.to_owned(), greatest);
            return None;
        };
        let at_start = greatest.moved_to(self.start);
        self.values
            .extend(at_start.map(|value| (list.to_owned(), value)));
        let ahead = match moment.has_zone() {
            true => SOON,
            false => SOON + ANY_ZONE,
        };
        let is_future = moment.time() > page.clock.theirs(SystemClock.now()) + ahead;
        is_future.then(|| in_the_future(job, step, greatest.text().unwrap_or_default()))
    }
}

/// Values that are later by this are not in the future: clocks differ, and a record can change while its page is read.
const SOON: Duration = Duration::from_secs(60);
/// A time without a zone can be ahead of UTC by this.
const ANY_ZONE: Duration = Duration::from_secs(14 * 60 * 60);

/// Whether every value of a list that can be read as a time is one; otherwise numbers are ids, versions or the like. A number is a time
/// where the configuration reads it as one. Otherwise it can be an id; it is a time where it is none, and others of the list are of
/// this century and before the pass.
fn all_are_times(job: &Job, step: &Step, values: &[SinceValue], start: Timestamp) -> bool {
    const YEAR_2001: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
    let is_of_id = |at: &Pointer| {
        let records = step.call.records.iter();
        let mut ids = records.flat_map(|records| &records.id);
        ids.any(|id| matches!(id, Field::At(id) if id == at))
    };
    let is_recent = |value: &SinceValue| {
        let time = value.time();
        time.is_some_and(|time| (YEAR_2001..=start).contains(&time))
    };
    let is_id = job.since.at.as_ref().is_some_and(is_of_id);
    must_be_times(job, step) || (!is_id && values.iter().any(is_recent))
}

/// Whether the job has a format for values of `{since}`, or the step an offset or a format of it.
fn must_be_times(job: &Job, step: &Step) -> bool {
    job.since.format.is_some() || job.timed_since(step).is_some()
}

/// A value in a note. The lists of many ids have the same one.
fn value_in_words(step: &Step, text: &str, other: &str) -> String {
    match step.ids {
        None => format!("`{}`", plain(&text.chars().take(64).collect::<String>())),
        Some(_) => other.to_owned(),
    }
}

/// The note on a value that has not come yet.
fn in_the_future(job: &Job, step: &Step, text: &str) -> String {
    let at = job.since.at.clone().unwrap_or_default();
    let value = value_in_words(step, text, "a value");
    format!(
        "{}: {value} at `{at}` is in the future, so {{since}} is the start of the pass and not that value",
        step.call.name
    )
}

/// The values that the records of a page have for the next `{since}`.
#[derive(Debug, Default)]
pub struct SeenValues {
    /// Those by which it can advance.
    pub read: Vec<SinceValue>,
    /// A note, if there is one that must be a time and is none.
    pub unread: Option<String>,
}

impl SeenValues {
    /// Reads the values.
    #[must_use]
    pub fn read(job: &Job, step: &Step, records: &[Record]) -> Self {
        let Some(at) = &job.since.at else {
            return Self::default();
        };
        let must_be_times = must_be_times(job, step);
        let texts = records.iter().flat_map(|record| at.texts_in(&record.body));
        let values = texts
            .filter(|text| !text.is_empty())
            .map(|text| job.since.value_of(text));
        let (read, unread): (Vec<_>, Vec<_>) =
            values.partition(|value| !must_be_times || value.moment().is_some());
        let unread = unread.first().and_then(SinceValue::text);
        let unread = unread.map(|text| not_a_time(job, step, text));
        let mut odd = read.iter().filter(|value| value.moment().is_none());
        let odd = odd.find_map(|value| value.text().filter(|text| has_clock(text)));
        Self {
            unread: unread.or_else(|| Some(an_unread_time(job, step, odd?))),
            read,
        }
    }

    /// Returns the greatest of them.
    #[must_use]
    pub fn greatest(self) -> Option<SinceValue> {
        self.read.into_iter().max_by(SinceValue::compare)
    }
}

/// Whether a text has the time of a day, such as `9:30`.
fn has_clock(text: &str) -> bool {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let mut colons = bytes.iter().enumerate().filter(|(_, byte)| **byte == b':');
    colons.any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        is_digit(before) && is_digit(bytes.get(at + 1)) && is_digit(bytes.get(at + 2))
    })
}

/// The note on a value that looks like a time and is not read as one: it is not compared with the start of the pass.
fn an_unread_time(job: &Job, step: &Step, text: &str) -> String {
    let at = job.since.at.clone().unwrap_or_default();
    let value = value_in_words(step, text, "a value");
    format!(
        "{}: {value} at `{at}` looks like a time and is not read as one, so {{since}} can pass what changes while the list is read; name \
        its form by `format` in the job's `since`, such as format = \"%d.%m.%Y %H:%M\"",
        step.call.name
    )
}

/// The note on a value that is no time.
fn not_a_time(job: &Job, step: &Step, text: &str) -> String {
    let at = job.since.at.clone().unwrap_or_default();
    let value = value_in_words(step, text, "a value");
    let format = match &job.since.format {
        Some(format) => format!(
            "it is not of the `format` in the job's `since`, {:?}",
            format.to_string()
        ),
        None => "name its form by `format` in the job's `since`, such as format = \"%d.%m.%Y\""
            .to_owned(),
    };
    format!(
        "{}: {value} at `{at}` is not read as a time, so {{since}} does not advance by it; {format}",
        step.call.name
    )
}

/// Returns the note on a `{since}` whose offset or format could not be applied to its value.
#[must_use]
pub fn sent_unread(job: &Job, step: &Step, since: &SinceValue) -> Option<String> {
    let timed = job.timed_since(step)?;
    let text = since.text().filter(|_| since.moment().is_none())?;
    let value = value_in_words(step, text, "its value");
    Some(format!(
        "{}: {timed} was sent as {value}, without its offset and its format, since that is not read as a time; name its form by \
        `format` in the job's `since`",
        step.call.name
    ))
}

/// The note about lists that begin at the first value of `since` and have no record at all.
#[must_use]
pub fn nothing_since_first(call: &str) -> String {
    format!(
        "{call}: no record since the first value of `since`; check the format in which the parameter has {{since}}, such as \
        {{since:%s}} for seconds"
    )
}

/// Returns the note on a list whose records are older than it requests.
#[must_use]
pub fn older_than_since(call: &str) -> String {
    format!(
        "{call}: records are older than {{since}}; check the parameter that carries it, and its format"
    )
}
