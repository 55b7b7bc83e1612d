//! What the sandbox sends, and how it may break off.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::Value;

use super::pointer::set;
use ingest_base::fnv::fnv;
use ingest_config::Pointer;

/// A response before it is sent.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub content: Content,
    pub ending: Ending,
    pub delay: Duration,
    /// Whether it is a response that the user saved.
    pub is_saved: bool,
}

/// The body of a response.
#[derive(Debug, Clone)]
pub enum Content {
    Json(Value),
    Text(String),
    Bytes(Vec<u8>),
    /// A text of this media type.
    Formatted(String, &'static str),
}

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Complete.
    Whole,
    /// The connection is closed before anything was sent.
    Dropped,
    /// The connection is closed in the middle of the body.
    Half,
    /// The body never ends.
    Endless,
}

impl Reply {
    pub fn json(status: u16, body: Value) -> Self {
        Self::new(status, Content::Json(body))
    }

    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self::new(status, Content::Text(body.into()))
    }

    const fn new(status: u16, content: Content) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content,
            ending: Ending::Whole,
            delay: Duration::ZERO,
            is_saved: false,
        }
    }

    pub fn with_header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Writes a value at a place of the body, if that is JSON.
    pub fn with_value(mut self, at: &Pointer, value: Value) -> Self {
        if let Content::Json(body) = &mut self.content {
            set(body, at.tokens(), value);
        }
        self
    }

    /// Adds a header unless the response has it.
    pub fn or_header(self, name: &str, value: String) -> Self {
        let there = self.headers.iter().any(|(other, _)| other == name);
        if there {
            self
        } else {
            self.with_header(name, value)
        }
    }

    pub const fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    /// Adds an `ETag` to a successful reply; becomes "not modified" where the client has cached this one.
    pub fn unless_cached(self, cached: Option<&str>) -> Self {
        if self.status != 200 {
            return self;
        }
        let tag = format!(
            "\"{:032x}\"",
            fnv(&String::from_utf8_lossy(&self.content.to_bytes()))
        );
        // The tag is drawn from the content, so a client that has it has this very page.
        if cached == Some(tag.as_str()) {
            return Self::text(304, "").with_header("etag", tag);
        }
        self.with_header("etag", tag)
    }

    /// Converts it for the web server; omits what is no valid header.
    pub fn into_response(self) -> Response {
        let kind = match self.content {
            Content::Json(_) | Content::Bytes(_) => "application/json; charset=UTF-8",
            Content::Text(_) => "text/html; charset=UTF-8",
            Content::Formatted(_, media_type) => media_type,
        };
        let mut response = Response::new(body(self.content.to_bytes(), self.ending));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl Content {
    fn to_bytes(&self) -> Bytes {
        match self {
            Self::Json(value) => value.to_string().into(),
            Self::Text(text) | Self::Formatted(text, _) => text.clone().into(),
            Self::Bytes(bytes) => bytes.clone().into(),
        }
    }
}

fn body(whole: Bytes, ending: Ending) -> Body {
    match ending {
        Ending::Whole => Body::from(whole),
        Ending::Dropped => broken_after(None),
        Ending::Half => broken_after(Some(half(&whole))),
        Ending::Endless => endless(&whole),
    }
}

fn half(whole: &Bytes) -> Bytes {
    whole.slice(..whole.len() / 2)
}

/// A body that breaks off after this part; `None`: the connection ends before anything is sent.
fn broken_after(part: Option<Bytes>) -> Body {
    Body::from_stream(stream::unfold(part, |part| async move {
        match part {
            Some(part) if !part.is_empty() => Some((Ok(part), Some(Bytes::new()))),
            Some(_) => {
                // Lets the server send what it has before the connection breaks.
                tokio::time::sleep(Duration::from_millis(5)).await;
                Some((Err(io::Error::other("broken off")), None))
            }
            None => Some((Err(io::Error::other("broken off")), None)),
        }
    }))
}

fn endless(whole: &[u8]) -> Body {
    let part = Bytes::from(if whole.is_empty() {
        vec![b' '; 64 * 1024]
    } else {
        whole.repeat(8)
    });
    Body::from_stream(stream::repeat_with(move || {
        Ok::<_, Infallible>(part.clone())
    }))
}
