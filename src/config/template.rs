use thiserror::Error;

use super::Region;
use crate::quota::Timestamp;

/// A text with `{variables}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
}

/// What a template can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// `{region}`: the region's code.
    Region,
    /// `{ids}`: a batch of ids, joined by commas.
    Ids,
    /// `{cursor}`
    Cursor,
    /// `{now}`: RFC 3339.
    Now,
    /// `{since}`: the start of the job's last complete pass over this region, RFC 3339.
    Since,
    /// `{date:-1d:%Y/%m/%d}`: a date with an offset and a format.
    Date,
    /// Anything else: a value of the region.
    OfRegion(String),
}

/// What a template's variables stand for in one request.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The region.
    pub region: &'a Region,
    /// The batch of ids; empty in a step that lists.
    pub ids: &'a [String],
    /// The cursor of the page.
    pub cursor: Option<&'a str>,
    /// Now.
    pub now: Timestamp,
    /// The start of the job's last complete pass over this region.
    pub since: Option<Timestamp>,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// A brace without its other one.
    #[error("`{{` and `}}` do not pair up; a brace that is meant is written twice")]
    Unbalanced,
}
