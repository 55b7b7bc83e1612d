//! The body of a response: decompressed as it arrives, up to the largest allowed size.

use std::io::Write;
use std::slice::Chunks;

use flate2::write::MultiGzDecoder;
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

/// The capacity that is reserved for a long body at once: the default of `max_body`.
const LONG_BODY: usize = 32 * 1024 * 1024;

/// The number of bytes that are decompressed at a time: they can grow a thousandfold, to half of what is read without the slot of
/// large bodies.
const UNPACKED_AT_ONCE: usize = 512;

/// The number of bytes that are added at a time if they are not compressed.
const READ_AT_ONCE: usize = 512 * 1024;

/// How a body ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// It arrived completely.
    Whole,
    /// It is longer than this number of bytes.
    TooLong(usize),
    /// It broke off, for this reason.
    Broken(String),
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all, or in a way that was not requested.
    AsIs,
    /// As one or several gzip members.
    Gzip,
}

impl Encoding {
    /// The encoding that a response declares.
    pub fn declared(headers: &HeaderMap) -> Self {
        let declared = headers.get(CONTENT_ENCODING);
        match declared.and_then(|value| value.to_str().ok()) {
            Some(name) if is_gzip(name) => Self::Gzip,
            _ => Self::AsIs,
        }
    }
}

/// The encoding that a response declares although it was not requested.
pub fn not_requested(headers: &HeaderMap) -> Option<String> {
    let declared = headers.get(CONTENT_ENCODING)?;
    let name = String::from_utf8_lossy(declared.as_bytes()).into_owned();
    let is_read = is_gzip(&name) || name.trim().is_empty() || is_named(&name, "identity");
    (!is_read).then_some(name)
}

fn is_gzip(name: &str) -> bool {
    is_named(name, "gzip") || is_named(name, "x-gzip")
}

fn is_named(name: &str, expected: &str) -> bool {
    name.trim().eq_ignore_ascii_case(expected)
}

/// A body, as far as it has arrived.
pub struct Body {
    bytes: Vec<u8>,
    most: usize,
    packed: Option<MultiGzDecoder<Vec<u8>>>,
    has_begun: bool,
}

impl Body {
    /// A body of at most `most` bytes after decompression.
    pub fn new(encoding: Encoding, most: u64) -> Self {
        Self {
            bytes: Vec::new(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
            packed: (encoding == Encoding::Gzip).then(|| MultiGzDecoder::new(Vec::new())),
            has_begun: false,
        }
    }

    /// The number of decompressed bytes so far.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Reserves capacity for a long body at once: a buffer that grows leaves fragments of memory behind.
    pub fn reserve(&mut self) {
        let most = self.most.min(LONG_BODY);
        self.bytes.reserve(most.saturating_sub(self.bytes.len()));
    }

    /// The parts of bytes that have arrived, to be pushed one after the other: a part adds less than 1 MiB to the body, so that
    /// the length of the body is known before it takes much memory.
    pub fn parts<'a>(&self, arrived: &'a [u8]) -> Chunks<'a, u8> {
        let size = match self.packed {
            Some(_) => UNPACKED_AT_ONCE,
            None => READ_AT_ONCE,
        };
        arrived.chunks(size)
    }

    /// Adds a part of the bytes that have arrived.
    ///
    /// # Errors
    /// How the body ends, if it ends here: too long, or not decompressible.
    pub fn push(&mut self, part: &[u8]) -> Result<(), End> {
        let Some(packed) = &mut self.packed else {
            return keep(&mut self.bytes, self.most, part);
        };
        self.has_begun |= !part.is_empty();
        packed.write_all(part).map_err(|error| broken(&error))?;
        let unpacked = packed.get_mut();
        let kept = keep(&mut self.bytes, self.most, unpacked);
        unpacked.clear();
        kept
    }

    /// Ends the body: nothing more arrives.
    pub fn finish(&mut self) -> End {
        // No byte at all is an empty body, which a server may declare as gzip too.
        let Some(packed) = self.packed.as_mut().filter(|_| self.has_begun) else {
            return End::Whole;
        };
        if let Err(error) = packed.try_finish() {
            return broken(&error);
        }
        let kept = keep(&mut self.bytes, self.most, packed.get_ref());
        kept.map_or_else(|end| end, |()| End::Whole)
    }

    /// The decompressed bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

fn keep(bytes: &mut Vec<u8>, most: usize, more: &[u8]) -> Result<(), End> {
    let free = most - bytes.len();
    // What fits is kept: the beginning of a refusal is enough for its message and its error rule.
    bytes.extend(more.iter().take(free));
    if more.len() > free {
        return Err(End::TooLong(most));
    }
    Ok(())
}

fn broken(error: &std::io::Error) -> End {
    End::Broken(match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "its gzip is cut off".to_owned(),
        _ => format!("its gzip cannot be unpacked: {error}"),
    })
}
