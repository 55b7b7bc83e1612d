//! The messages of `envoy/service/ratelimit/v3/rls.proto`, as far as they are read or written here: the compiler of
//! protocol buffers is not needed to build this program.

use std::collections::HashMap;
use std::time::Duration;

use prost::{Enumeration, Message};

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    /// Zero if unset, which is one hit.
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<DescriptorEntry>,
    /// In place of the request's.
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<UInt64Value>,
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct DescriptorEntry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct UInt64Value {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub overall_code: i32,
    /// One for each descriptor.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Enumeration)]
#[repr(i32)]
pub enum Code {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

#[derive(Clone, PartialEq, Message)]
pub struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    pub code: i32,
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<ProtoDuration>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    pub unit: i32,
    #[prost(string, tag = "3")]
    pub name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Enumeration)]
#[repr(i32)]
pub enum Unit {
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
}

impl Unit {
    /// The unit that is as long as a window. A day of a calendar can have 25 hours.
    pub const fn of(window: Duration) -> Self {
        match (window.as_secs(), window.subsec_nanos()) {
            (1, 0) => Self::Second,
            (60, 0) => Self::Minute,
            (3600, 0) => Self::Hour,
            (86_400..=90_000, 0) => Self::Day,
            _ => Self::Unknown,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ProtoDuration {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl From<Duration> for ProtoDuration {
    fn from(span: Duration) -> Self {
        Self {
            seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(span.subsec_nanos()).unwrap_or_default(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct HeaderValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

impl RateLimitResponse {
    /// The response to these descriptors, which is over the limit if one of them is.
    pub fn of(statuses: Vec<DescriptorStatus>, headers: HashMap<&'static str, String>) -> Self {
        let is_over = statuses.iter().any(DescriptorStatus::is_over);
        let headers = headers.into_iter().map(|(key, value)| HeaderValue {
            key: key.to_owned(),
            value,
        });
        Self {
            overall_code: if is_over { Code::OverLimit } else { Code::Ok }.into(),
            statuses,
            response_headers_to_add: headers.collect(),
        }
    }
}

impl DescriptorStatus {
    /// The status of a descriptor that nothing limits.
    pub fn unlimited() -> Self {
        Self {
            code: Code::Ok.into(),
            ..Self::default()
        }
    }

    /// Whether the descriptor is over its limit.
    pub fn is_over(&self) -> bool {
        self.code() == Code::OverLimit
    }
}
