//! A response that a user saved in a file: the body alone, or everything that `curl -i` prints.

use std::io;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedResponse {
    /// The status; 200 where only the body was saved.
    pub status: u16,
    /// The headers, with names in lower case; empty where only the body was saved.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed.
    pub body: Vec<u8>,
}

/// Four times as long as the longest response that is read unless `max_body` is set.
const LONGEST: u64 = 128 << 20;

impl SavedResponse {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(path: &Path) -> io::Result<Self> {
        crate::bounded::file(path, LONGEST).map(|bytes| Self::parse(&bytes))
    }

    /// Splits what was saved into status, headers and body. Of several heads, as a proxy or a redirect leaves them, the
    /// last one counts.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut saved = Self {
            status: 200,
            headers: Vec::new(),
            body: bytes.to_vec(),
        };
        let mut rest = bytes;
        while let Some((status, headers, body)) = head(rest) {
            saved = Self {
                status,
                headers,
                body: body.to_vec(),
            };
            rest = body;
        }
        saved
    }
}

/// Status, headers, and what follows them.
type Head<'a> = (u16, Vec<(String, String)>, &'a [u8]);

/// The head at the beginning; `None` where there is none.
fn head(bytes: &[u8]) -> Option<Head<'_>> {
    if !bytes.starts_with(b"HTTP/") {
        return None;
    }
    let end = |blank: &[u8]| {
        let at = bytes.windows(blank.len()).position(|part| part == blank);
        at.map(|at| (at, at.saturating_add(blank.len())))
    };
    let ends = [end(b"\r\n\r\n"), end(b"\n\n")];
    let (head_end, body_start) = ends.into_iter().flatten().min()?;
    let head = String::from_utf8_lossy(bytes.get(..head_end)?).into_owned();
    let mut lines = head.lines();
    let status = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some((
        status,
        lines.filter_map(header).collect(),
        bytes.get(body_start..)?,
    ))
}
