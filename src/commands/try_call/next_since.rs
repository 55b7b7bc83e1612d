//! What a page says about the next `{since}`: how its greatest value is read, and what the next request then carries.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::review::SeenValues;
use ingest_config::{Job, Moment, Step};

/// The greatest value of a page as the next `{since}`.
#[derive(Debug, Serialize)]
pub struct NextSince {
    at: String,
    value: String,
    /// The form in which it is read as a time; `None`: nothing shifts or formats it, so it is sent as it is.
    read_as: Option<&'static str>,
    /// The same time in RFC 3339, to the second.
    time: Option<String>,
    /// Each `{since}` of the request, as it is written, and what it then is.
    carries: BTreeMap<String, String>,
}

impl NextSince {
    /// `None`: the page has no value, or the job does not read one.
    pub fn read(job: &Job, step: &Step, values: SeenValues) -> Option<Self> {
        let at = job.since.at.as_ref()?.to_string();
        let value = values.greatest()?;
        let is_time = job.since.format.is_some() || job.timed_since(step).is_some();
        let moment = value.moment().filter(|_| is_time);
        let templates = job.templates_of_since(step).into_iter();
        Some(Self {
            at,
            value: value.text()?.to_owned(),
            read_as: moment.as_ref().map(Moment::form),
            time: moment.map(|moment| Moment::at(moment.time()).text()),
            carries: templates
                .filter_map(|template| template.since_with(&value))
                .collect(),
        })
    }
}

impl fmt::Display for NextSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, value, .. } = self;
        write!(
            f,
            "Next {{since}}, unless another page has a greater value, and never after the start of the pass if it is a time: `{value}` at `{at}`"
        )?;
        if let (Some(form), Some(time)) = (&self.read_as, &self.time) {
            write!(f, ", read as {form}: {time}")?;
        }
        self.carries
            .iter()
            .try_for_each(|(variable, text)| write!(f, "; {variable} is then {text}"))
    }
}
