//! What a response says beside its records that tells whether they are the whole list: errors, and that it is a part.

use std::collections::BTreeMap;

use reqwest::StatusCode;
use reqwest::header::CONTENT_RANGE;
use serde_json::{Value, json};

use super::layout::SCALAR;
use super::response::Response;
use super::signs::{MemberName, Sign};
use ingest_base::plain::one_line;
use ingest_config::Pointer;

/// What a response says beside its records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    /// The errors: what they say, by their place.
    pub errors: BTreeMap<String, String>,
    /// Its flags and words, by their place. Numbers, ids and times differ from response to response.
    pub values: BTreeMap<String, String>,
    /// The name of a member for messages, and what it says.
    pub message: Option<(String, String)>,
    /// Whether it says that there is no record: a number of all records that is 0.
    pub says_none: bool,
}

/// The longest text that is kept of a response, in characters.
const LONGEST: usize = 200;

/// Words of a request that succeeded.
const GOOD: [&str; 9] = [
    "complete",
    "completed",
    "done",
    "finished",
    "ok",
    "ready",
    "success",
    "successful",
    "succeeded",
];

/// Words of one that found nothing, or that was answered from older data.
const NEUTRAL: [&str; 6] = [
    "cached",
    "delayed",
    "empty",
    "no_results",
    "noresults",
    "zero_results",
];

/// What such a word contains where the request failed.
const FAILED: [&str; 12] = [
    "denied",
    "error",
    "exceeded",
    "fail",
    "forbidden",
    "invalid",
    "_limit",
    "ratelimit",
    "timedout",
    "timeout",
    "unauthorized",
    "unavailable",
];

/// Such a word as a whole, of a failure or of a part. An order can be `partially_paid`.
const UNSUCCESSFUL: [&str; 6] = [
    "ko",
    "nok",
    "partial",
    "partial_content",
    "partial_results",
    "partial_success",
];

/// A word of a response's own state, in an object, where its list is not whole. A thing can be `incomplete`, too.
const NOT_WHOLE: [&str; 4] = ["incomplete", "partial", "partial_results", "truncated"];

/// Codes of a warning that records are missing.
const UNREACHED: [&str; 3] = ["partial_success", "partial_response", "unreachable"];

/// Texts that stand where an error would, and say that there is none.
const NO_ERROR: [&str; 10] = [
    "false",
    "no error",
    "no errors",
    "none",
    "null",
    "ok",
    "success",
    "successful",
    "succeeded",
    "undefined",
];

impl Beside {
    /// Takes up a member. `path` ends with its name; `list` is the place of the records.
    pub fn see(&mut self, name: &MemberName, value: &Value, (path, list): (&[String], &Pointer)) {
        let place = format!("/{}", path.join("/"));
        let is_of_request = is_of_request(path, list);
        let code = code(value).filter(|_| name.says(Sign::StateCode) && is_of_request);
        if let Some(text) = word(value).or_else(|| code.clone()) {
            self.values.insert(place.clone(), text);
        }
        let is_message = name.plain.ends_with("message") || name.plain.ends_with("msg");
        let is_meaning = path.len() == 1 && name.says(Sign::Meaning);
        if let (Value::String(text), true) = (value, is_meaning || is_of_request && is_message) {
            self.message
                .get_or_insert_with(|| (path.join("/"), shown(text)));
        }
        // Within an error, and within what was requested, names mean something else.
        let is_within = |name: &String| {
            let name = MemberName::of(name);
            name.says(Sign::Echo) || name.says(Sign::Error)
        };
        let is_inside = path
            .split_last()
            .is_some_and(|(_, above)| above.iter().any(is_within));
        let is_refusal = code.is_some_and(|code| is_refusal(&code));
        let is_failure = is_error(name, value, (path, is_of_request))
            || is_of_request && lacks_source(name, value);
        // Errors can be what is listed.
        let is_list = list.tokens().starts_with(path);
        if !is_inside && !is_list && (is_refusal || is_failure) {
            self.errors.insert(place, said(value));
        }
    }
}

/// Whether a member is one of the response, of an object that holds the list, or of what the response says of the request.
pub fn is_of_request(path: &[String], list: &Pointer) -> bool {
    let Some((_, above)) = path.split_last() else {
        return false;
    };
    let holds_list = list.tokens().len() > above.len() && list.tokens().starts_with(above);
    match above.split_last() {
        _ if holds_list => true,
        None => true,
        // At the root, or beside what holds the list.
        Some((last, above)) => {
            list.tokens().starts_with(above) && MemberName::of(last).says(Sign::Envelope)
        }
    }
}

/// A code for the success of a request, as text: a number, or a short word such as `E100`.
fn code(value: &Value) -> Option<String> {
    const LONGEST: usize = 20;
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if text.len() <= LONGEST => {
            let is_code = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_code.then(|| text.clone())
        }
        _ => None,
    }
}

/// Whether a number is the status of a refusal; 404 and 410 can be about a requested id.
fn is_refusal(code: &str) -> bool {
    let code = code.parse().unwrap_or(0);
    (400..600).contains(&code) && !matches!(code, 404 | 410)
}

/// Whether what a response says at a place never means a whole list, however often it is said: that it is a part, or a failure that
/// passes.
pub fn says_part(place: &str, said: &str) -> bool {
    let name = MemberName::of(place.rsplit('/').next().unwrap_or(place));
    name.says(Sign::NotWhole) || name.says(Sign::Unreached) || says_transient(said)
}

/// Whether a member says that something could not be asked for its records: it names that, counts shards that failed without an error of
/// their own, or is a warning with a code that says so.
fn lacks_source(name: &MemberName, value: &Value) -> bool {
    let says_so = |warning: &Value| {
        let code = warning["code"].as_str().map(str::to_ascii_lowercase);
        code.is_some_and(|code| UNREACHED.contains(&code.as_str()))
    };
    let failed = value["failed"].as_u64();
    match name.plain.as_str() {
        "warning" => says_so(value),
        "warnings" => value
            .as_array()
            .is_some_and(|warnings| warnings.iter().any(says_so)),
        "shards" => failed.is_some_and(|failed| failed > 0) && !has_content(&value["failures"]),
        _ => name.says(Sign::Unreached) && value.is_array() && has_content(value),
    }
}

/// Whether a word of the response's state, such as `type` in `request_status`, says that the list is not whole.
pub fn says_not_whole(word: &Value, path: &[String], list: &Pointer) -> bool {
    let [above @ .., state, name] = path else {
        return false;
    };
    let (of, name) = (MemberName::of(state), MemberName::of(name));
    let is_of_state = of.says(Sign::State) || of.plain == "requeststatus";
    let is_word = name.says(Sign::State) || matches!(name.plain.as_str(), "code" | "type");
    let is_beside =
        list.tokens().starts_with(above) && list.tokens().get(above.len()) != Some(state);
    let text = word.as_str().map(str::to_ascii_lowercase);
    is_of_state
        && is_word
        && is_beside
        && text.is_some_and(|text| NOT_WHOLE.contains(&text.as_str()))
}

/// Whether a value says that the request failed, or that its list is not whole, by what every earlier response had there. `list`: the
/// place of the records.
pub fn is_setback((place, list): (&str, &Pointer), was: &str, now: &str) -> bool {
    let path: Vec<String> = place.split('/').skip(1).map(str::to_owned).collect();
    let name = MemberName::of(path.last().map_or("", String::as_str));
    let is_good = |text: &str| {
        let text = text.to_ascii_lowercase();
        // Of what was accepted (202), or is a part (206), the rest is to come.
        let is_success = ["200", "201", "204"].contains(&text.as_str());
        let is_number = text.bytes().all(|byte| byte == b'0') || is_success;
        is_number || text == "true" || GOOD.contains(&text.as_str())
    };
    let is_neutral = |text: &str| NEUTRAL.contains(&text.to_ascii_lowercase().as_str());
    let is_no = |text: &str| ["0", "n", "no"].contains(&text.to_ascii_lowercase().as_str());
    if name.says(Sign::Succeeded) {
        return was != now && is_no(now);
    }
    (name.says(Sign::Whole) && was == "true" && now == "false")
        || ((name.says(Sign::State) || name.says(Sign::StateCode))
            && is_of_request(&path, list)
            && is_good(was)
            && !is_good(now)
            && !is_neutral(now))
}

fn is_error(name: &MemberName, value: &Value, (path, is_of_request): (&[String], bool)) -> bool {
    let says_false = |text: &str| text.eq_ignore_ascii_case("false");
    let is_no = |value: &Value| {
        matches!(value, Value::Bool(false)) || value.as_str().is_some_and(says_false)
    };
    let is_yes = |value: &Value| matches!(value, Value::Bool(true)) || value == "true";
    if name.says(Sign::Error) {
        // A number below other members can be that of the records with this state.
        let is_count = value.is_number() && path.len() > 1 && !name.says(Sign::Code);
        return !is_count && has_content(value);
    }
    let is_failure = |text: &str| {
        let text = text.to_ascii_lowercase();
        let is_failed = FAILED.iter().any(|word| text.contains(word));
        !text.contains(' ') && (is_failed || UNSUCCESSFUL.contains(&text.as_str()))
    };
    (name.says(Sign::NotWhole) && is_yes(value))
        || (name.says(Sign::Succeeded) && is_no(value))
        || (is_of_request && name.says(Sign::State) && value.as_str().is_some_and(is_failure))
}

/// Whether an error has content: it is not null, false, 0, empty, or a word for success.
pub fn has_content(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => !matches!(number.as_f64(), Some(0.0 | 200.0)),
        Value::String(text) => {
            let text = text.trim().trim_end_matches('.').to_ascii_lowercase();
            let is_zero = text.bytes().all(|byte| byte == b'0') || text == "200";
            !is_zero && !NO_ERROR.contains(&text.as_str())
        }
        Value::Array(elements) => elements.iter().any(has_content),
        Value::Object(members) => {
            let means = |name: &str| {
                let name = MemberName::of(name);
                name.says(Sign::Meaning) || name.says(Sign::Error)
            };
            let has_meaning = members.keys().any(|name| means(name));
            let mut told = members
                .iter()
                .filter(|(name, _)| !has_meaning || means(name));
            told.any(|(_, value)| has_content(value))
        }
    }
}

/// Words of a transient failure.
const TRANSIENT: [&str; 13] = [
    "exceed",
    "internal",
    "limit reached",
    "maintenance",
    "overloaded",
    "partial",
    "throttled",
    "timed out",
    "timeout",
    "too many",
    "try again",
    "unavailable",
    "unreachable",
];

/// What an error says: its message, or else itself.
fn said(value: &Value) -> String {
    let named = |value: &Value| {
        ["message", "msg", "description", "detail", "title"]
            .iter()
            .find_map(|name| value.get(*name)?.as_str().map(str::to_owned))
    };
    let first = match value {
        Value::Array(elements) => elements.iter().find(|one| has_content(one)),
        _ => Some(value),
    };
    let text = match first {
        Some(Value::String(text)) => text.clone(),
        Some(other) => named(other).unwrap_or_else(|| other.to_string()),
        None => value.to_string(),
    };
    shown(&text)
}

/// Whether a message says that a request failed, so that a list without records is no empty one.
pub fn says_failure(message: &str) -> bool {
    const WORDS: [&str; 13] = [
        "blocked",
        "busy",
        "call frequency",
        "denied",
        "error",
        "expired",
        "failed",
        "failure",
        "forbidden",
        "invalid",
        "not valid",
        "rate limit",
        "unauthorized",
    ];
    let text = message.to_ascii_lowercase();
    // That there are no failed payments is no failure.
    let says = |word: &&str| text.replace(&format!("no {word}"), "").contains(word);
    !text.contains("no error") && (WORDS.iter().any(says) || says_transient(&text))
}

/// Whether a response without records has a code that no success has, beside a message that is not about finding nothing.
pub fn says_refusal(values: &BTreeMap<String, String>, message: &str) -> bool {
    let is_code = |place: &String| {
        let name = place.rsplit('/').next().unwrap_or(place);
        MemberName::of(name).says(Sign::StateCode)
    };
    let is_unusual = |code: &str| {
        let number = code.parse::<u64>();
        number.is_ok_and(|number| number > 1 && !(200..300).contains(&number))
    };
    let text = message.trim().trim_end_matches('.').to_ascii_lowercase();
    let finds_nothing = ["not found", "empty", "none"];
    let is_empty =
        text.starts_with("no ") || finds_nothing.iter().any(|words| text.contains(words));
    let is_good = text.is_empty() || NO_ERROR.iter().chain(&GOOD).any(|word| *word == text);
    let mut codes = values.iter().filter(|(place, _)| is_code(place));
    !is_empty && !is_good && codes.any(|(_, code)| is_unusual(code))
}

fn shown(text: &str) -> String {
    let text: String = text.chars().take(LONGEST).collect();
    one_line(&text)
}

/// A flag, or a text without digits that is short, as text; `None` for any other value.
fn word(value: &Value) -> Option<String> {
    const LONGEST: usize = 60;
    match value {
        Value::Bool(truth) => Some(truth.to_string()),
        Value::String(text) => {
            let is_word = !text.is_empty() && !text.contains(|letter: char| letter.is_numeric());
            (is_word && text.len() <= LONGEST).then(|| text.clone())
        }
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What an object says that has an error as a member; `None` without one.
pub fn error_of(value: &Value) -> Option<String> {
    let members = value.as_object()?.iter();
    let mut errors = members.filter(|(name, value)| {
        let plain = MemberName::of(name);
        is_error(&plain, value, (std::slice::from_ref(name), true))
    });
    errors.next().map(|(_, error)| said(error))
}

/// What an object says that is an error: as a member, or as the message or the code of a refusal. `None` without one. `key`: where a
/// record has the name of the member that it was, whose plain value is its only other one.
pub fn says_error(value: &Value, key: Option<&str>) -> Option<String> {
    let members = value.as_object()?;
    let name = key.and_then(|key| members.get(key)?.as_str());
    if let (Some(name), Some(alone), 2) = (name, members.get(SCALAR), members.len()) {
        return says_error(&json!({ name: alone }), None);
    }
    let refuses = |(name, value): (&String, &Value)| {
        let name = MemberName::of(name);
        let code = || code(value).filter(|code| is_refusal(code));
        match value.as_str().filter(|_| name.says(Sign::Meaning)) {
            Some(words) if says_failure(words) => Some(shown(words)),
            _ => code().filter(|_| name.says(Sign::StateCode)),
        }
    };
    error_of(value).or_else(|| members.iter().find_map(refuses))
}

/// Whether an error is about requested ids: it says that something was not found, or names one and no transient failure.
pub fn is_about_ids(error: &Value, ids: &[String]) -> bool {
    const ABSENT: [&str; 5] = [
        "not found",
        "not_found",
        "notfound",
        "does not exist",
        "no such",
    ];
    let about = |error: &Value| {
        let text = error.to_string();
        let lower = text.to_lowercase();
        let is_absent = ABSENT.iter().any(|word| lower.contains(word));
        is_absent || (!says_transient(&text) && ids.iter().any(|id| names(&text, id)))
    };
    match error {
        _ if ids.is_empty() => false,
        Value::Array(errors) => errors.iter().filter(|one| has_content(one)).all(about),
        error => about(error),
    }
}

/// Whether a message names a transient failure.
pub fn says_transient(message: &str) -> bool {
    let text = message.to_lowercase();
    TRANSIENT.iter().any(|word| text.contains(word))
}

/// Whether a text has an id as a word.
fn names(text: &str, id: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let mut found = text.match_indices(id).filter(|_| !id.is_empty());
    found.any(|(at, _)| {
        let (before, after) = (text.get(..at), text.get(at + id.len()..));
        let before = before.and_then(|text| text.chars().next_back());
        let after = after.and_then(|text| text.chars().next());
        !is_part(before) && !is_part(after)
    })
}

/// Whether the text of a header for warnings says that the list is cut. What is said of the number of requests is said of no list.
pub fn warns_of_cut(text: &str) -> bool {
    const CUT: [&str; 5] = ["exceeded", "incomplete", "limit", "partial", "truncated"];
    const OTHER: [&str; 7] = [
        "deprecat",
        "per minute",
        "quota",
        "rate limit",
        "rate-limit",
        "ratelimit",
        "throttl",
    ];
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    has(&CUT) && !has(&OTHER)
}

/// What says that a success is a part of what was requested: a status that is not one of a whole response. `None`: it is whole, or
/// its `Content-Range` says that it is the part that a list in pages requests. `is_last`: no further page is named.
pub fn part(response: &Response, listed: u64, (is_first, is_last): (bool, bool)) -> Option<String> {
    let status = response.status;
    let is_whole = matches!(
        status,
        StatusCode::OK
            | StatusCode::CREATED
            | StatusCode::NON_AUTHORITATIVE_INFORMATION
            | StatusCode::RESET_CONTENT
            | StatusCode::MULTI_STATUS
    );
    let range = response.headers.get(CONTENT_RANGE);
    let range = range.map(|range| String::from_utf8_lossy(range.as_bytes()));
    let fits = range.as_deref().and_then(range_of);
    let fits = fits.is_some_and(|(first, last, total)| {
        let begins = !is_first || first == 0;
        let ends = !is_last || total == Some(last.saturating_add(1));
        begins && ends && last.saturating_sub(first).saturating_add(1) == listed
    });
    // The range of a whole response says so too where there are records behind it.
    let is_range_cut = range
        .as_deref()
        .and_then(range_of)
        .is_some_and(|(_, last, total)| {
            is_last && total.is_some_and(|total| total > last.saturating_add(1))
        });
    if (is_whole && !is_range_cut) || fits {
        return None;
    }
    let range = range.map(|range| format!(" (`Content-Range: {}`)", response.shown(&range)));
    Some(format!("{status}{}", range.unwrap_or_default()))
}

/// The first and the last record of a range that does not count bytes, and the number of all records if it has that.
fn range_of(header: &str) -> Option<(u64, u64, Option<u64>)> {
    let range = match header.trim().split_once(' ') {
        Some((unit, _)) if unit.eq_ignore_ascii_case("bytes") => return None,
        Some((_, range)) => range,
        None => header.trim(),
    };
    let (range, total) = range.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let total = total.trim().parse().ok();
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?, total))
}
