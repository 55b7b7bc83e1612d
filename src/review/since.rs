//! The greatest value that a list has at its job's `since.at`, and notes where the list and `{since}` do not fit each other.

use ingest_base::plain::plain;
use ingest_base::record::Record;
use ingest_config::{Job, SinceValue, Step, Variable};

/// The greatest value that a list, or one before it, had at `since.at`.
#[derive(Debug, Clone, Default)]
pub struct Greatest {
    value: Option<SinceValue>,
    has_unread: bool,
}

impl Greatest {
    /// Reads the first of these stored values that belongs to the job's `since.at`.
    pub fn read<'s>(job: &Job, stored: impl IntoIterator<Item = Option<&'s str>>) -> Self {
        let mut stored = stored.into_iter().flatten();
        Self {
            value: stored.find_map(|stored| job.since.read(stored)),
            has_unread: false,
        }
    }

    /// Returns the value as the catalog stores it; `None` where there was none.
    #[must_use]
    pub fn stored(&self, job: &Job) -> Option<String> {
        job.since.stored(self.value.as_ref()?.text()?)
    }

    /// Adds the values of a page. Returns notes: if its records have none, or are older than `since`, with which they were
    /// requested, and on what is no time where one is needed.
    pub fn see(
        &mut self,
        job: &Job,
        step: &Step,
        since: Option<&SinceValue>,
        records: &[Record],
    ) -> Vec<String> {
        let at = job.since.at.as_ref();
        let Some(at) = at.filter(|_| job.names(step, &Variable::Since)) else {
            return Vec::new();
        };
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
        let all = self.value.take().into_iter().chain(values.read);
        self.value = all.max_by(SinceValue::compare);
        notes
    }
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
    /// Reads the values. They must be times where the job has a format for them, or the step an offset or a format of `{since}`.
    #[must_use]
    pub fn read(job: &Job, step: &Step, records: &[Record]) -> Self {
        let Some(at) = &job.since.at else {
            return Self::default();
        };
        let must_be_times = job.since.format.is_some() || job.timed_since(step).is_some();
        let texts = records.iter().flat_map(|record| at.texts_in(&record.body));
        let values = texts
            .filter(|text| !text.is_empty())
            .map(|text| job.since.value_of(text));
        let (read, unread): (Vec<_>, Vec<_>) =
            values.partition(|value| !must_be_times || value.moment().is_some());
        let unread = unread.first().and_then(SinceValue::text);
        Self {
            unread: unread.map(|text| not_a_time(job, step, text)),
            read,
        }
    }

    /// Returns the greatest of them.
    #[must_use]
    pub fn greatest(self) -> Option<SinceValue> {
        self.read.into_iter().max_by(SinceValue::compare)
    }
}

/// The note on a value that is no time. The lists of many ids have the same one.
fn not_a_time(job: &Job, step: &Step, text: &str) -> String {
    let at = job.since.at.clone().unwrap_or_default();
    let value = match step.ids {
        None => format!("`{}`", plain(&shortened(text))),
        Some(_) => "a value".to_owned(),
    };
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
    let value = match step.ids {
        None => format!("`{}`", plain(&shortened(text))),
        Some(_) => "its value".to_owned(),
    };
    Some(format!(
        "{}: {timed} was sent as {value}, without its offset and its format, since that is not read as a time; name its form by \
        `format` in the job's `since`",
        step.call.name
    ))
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
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

/// The note on a pass that began anew.
#[must_use]
pub fn listed_anew(why: &str) -> String {
    format!("the cursor of the last pass is too old, so everything is listed again: {why}")
}
