//! How YouTube says no. What machines read of a refusal is the real thing: code, reason, domain, status, details.

use serde_json::{Map, Value, json};

use crate::sandbox::answer::Answer;
use crate::sandbox::count::Exhausted;
use crate::sandbox::refusal::Refusal;

/// The limit that most calls share. It alone says "quota exceeded"; the newer ones speak of a rate.
const POOL: &str = "defaultPerDayPerProject";

/// What every upstream can say.
pub fn refuse(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::Denied => denied(),
        Refusal::Spent(_, name) if name.as_deref().is_none_or(|name| name == POOL) => {
            let said = "This project's <a href=\"/youtube/v3/getting-started#quota\">quota</a> is used up.";
            no(403, "quotaExceeded", "youtube.quota", said, None)
        }
        Refusal::Spent(exhausted, name) => {
            rate(exhausted, name.as_deref().unwrap_or(POOL), "1/d/{project}")
        }
        Refusal::SlowDown(exhausted, name) => {
            let by_rate = name.as_deref().filter(|name| !name.contains("PerDay"));
            rate(
                exhausted,
                by_rate.unwrap_or("defaultPerMinutePerProject"),
                "1/min/{project}",
            )
        }
        Refusal::BadCursor => bad_parameter(
            "invalidPageToken",
            "pageToken",
            "The page token is invalid.",
        ),
        Refusal::Backend(status) => no(*status, "backendError", "global", "Internal error.", None),
    }
}

/// A parameter that is not taken.
pub fn bad_parameter(reason: &str, param: &str, said: &str) -> Answer {
    no(400, reason, "youtube.parameter", said, Some(param))
}

/// A refusal with one error in it.
pub fn no(status: u16, reason: &str, domain: &str, said: &str, param: Option<&str>) -> Answer {
    let mut error = Map::new();
    error.insert("message".to_owned(), said.into());
    error.insert("domain".to_owned(), domain.into());
    error.insert("reason".to_owned(), reason.into());
    if let Some(param) = param {
        error.insert("location".to_owned(), param.into());
        error.insert("locationType".to_owned(), "parameter".into());
    }
    Answer::json(
        status,
        json!({ "error": { "code": status, "message": said, "errors": [error] } }),
    )
}

fn denied() -> Answer {
    let said = "The API key is invalid.";
    let details = json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": { "service": "youtube.googleapis.com" },
    }, {
        "@type": "type.googleapis.com/google.rpc.LocalizedMessage",
        "locale": "en-US",
        "message": said,
    }]);
    detailed(400, "INVALID_ARGUMENT", "badRequest", said, &details)
}

/// What the newer buckets say, of a day and of a minute alike.
fn rate(exhausted: &Exhausted, quota_limit: &str, quota_unit: &str) -> Answer {
    let said = format!(
        "The sandbox's limit '{}' for service 'youtube.googleapis.com' is reached.",
        exhausted.limit
    );
    let details = json!([{
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "googleapis.com",
        "metadata": {
            "service": "youtube.googleapis.com",
            "consumer": "projects/000000000000",
            "quota_metric": format!("youtube.googleapis.com/{}", exhausted.limit),
            "quota_limit": quota_limit,
            "quota_unit": quota_unit,
            "quota_location": "global",
            "quota_limit_value": exhausted.quota.to_string(),
        },
    }]);
    detailed(
        429,
        "RESOURCE_EXHAUSTED",
        "rateLimitExceeded",
        &said,
        &details,
    )
}

fn detailed(code: u16, status: &str, reason: &str, said: &str, details: &Value) -> Answer {
    let errors = json!([{ "message": said, "domain": "global", "reason": reason }]);
    let error = json!({ "code": code, "message": said, "errors": errors, "status": status, "details": details });
    Answer::json(code, json!({ "error": error }))
}
