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

/// The codings of bodies that HTTP knows and that are not read. Anything else that a server writes into `Content-Encoding`, such as
/// `UTF-8`, is no coding and says nothing.
const NOT_READ: [&str; 11] = [
    "aes128gcm",
    "br",
    "compress",
    "dcb",
    "dcz",
    "deflate",
    "exi",
    "pack200-gzip",
    "x-compress",
    "x-deflate",
    "zstd",
];

/// The coding that a response declares and that is not read.
pub fn not_read(headers: &HeaderMap) -> Option<String> {
    codings(headers).find(|coding| NOT_READ.contains(&&**coding))
}

fn is_gzip(headers: &HeaderMap) -> bool {
    codings(headers).any(|coding| coding == "gzip" || coding == "x-gzip")
}

/// The codings that a response declares, in lower case.
fn codings(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let lines = headers.get_all(CONTENT_ENCODING).into_iter();
    lines.flat_map(|line| {
        let line = String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase();
        let codings = line.split(',').map(|coding| coding.trim().to_owned());
        codings.collect::<Vec<_>>()
    })
}

/// How each body that is compressed with gzip begins, such as a file `.csv.gz`, and no text does.
pub const GZIP: [u8; 2] = [0x1F, 0x8B];

/// In which form a body arrives.
enum Form {
    /// Fewer bytes than tell gzip have arrived.
    Unknown,
    /// Not compressed.
    Plain,
    /// As one or several gzip members.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

/// A body, as far as it has arrived.
pub struct Body {
    bytes: Vec<u8>,
    most: usize,
    form: Form,
    /// The first byte that arrived.
    first: Option<u8>,
}

impl Body {
    /// A body of at most `most` bytes after decompression, of a response with these headers.
    pub fn new(headers: &HeaderMap, most: u64) -> Self {
        Self {
            bytes: Vec::new(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
            form: match is_gzip(headers) {
                true => Form::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
                false => Form::Unknown,
            },
            first: None,
        }
    }

    /// A body of which all bytes have arrived, be they gzip or not, and how it ends.
    pub fn of(arrived: &[u8], most: u64) -> (Vec<u8>, End) {
        let mut body = Self::new(&HeaderMap::new(), most);
        let mut parts = body.parts(arrived);
        let end = parts.find_map(|part| body.push(part).err());
        let end = end.unwrap_or_else(|| body.finish());
        (body.into_bytes(), end)
    }

    /// The number of decompressed bytes so far.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it arrives compressed, in a form that has an end of its own.
    pub const fn is_packed(&self) -> bool {
        matches!(self.form, Form::Gzip(_))
    }

    /// Reserves capacity for a long body at once: a buffer that grows leaves fragments of memory behind.
    pub fn reserve(&mut self) {
        let most = self.most.min(LONG_BODY);
        self.bytes.reserve(most.saturating_sub(self.bytes.len()));
    }

    /// The parts of bytes that have arrived, to be pushed one after the other: a part adds less than 1 MiB to the body, so that
    /// the length of the body is known before it takes much memory.
    pub fn parts<'a>(&self, arrived: &'a [u8]) -> Chunks<'a, u8> {
        let size = match self.form {
            Form::Unknown | Form::Gzip(_) => UNPACKED_AT_ONCE,
            Form::Plain => READ_AT_ONCE,
        };
        arrived.chunks(size)
    }

    /// Adds a part of the bytes that have arrived.
    ///
    /// # Errors
    /// How the body ends, if it ends here: too long, or not decompressible.
    pub fn push(&mut self, part: &[u8]) -> Result<(), End> {
        let packed = match &mut self.form {
            Form::Unknown => return self.begin(part),
            Form::Plain => return keep(&mut self.bytes, self.most, part),
            Form::Gzip(packed) => packed,
        };
        self.first = self.first.or_else(|| part.first().copied());
        packed
            .write_all(part)
            .map_err(|error| broken(self.first, &error))?;
        let unpacked = packed.get_mut();
        let kept = keep(&mut self.bytes, self.most, unpacked);
        unpacked.clear();
        kept
    }

    /// Adds one of the first parts, which tell the form of the body.
    fn begin(&mut self, part: &[u8]) -> Result<(), End> {
        keep(&mut self.bytes, self.most, part)?;
        match self.bytes.get(..GZIP.len()) {
            None => Ok(()),
            Some(first) if first == GZIP => {
                self.form = Form::Gzip(Box::new(MultiGzDecoder::new(Vec::new())));
                let arrived = std::mem::take(&mut self.bytes);
                self.push(&arrived)
            }
            Some(_) => {
                self.form = Form::Plain;
                Ok(())
            }
        }
    }

    /// Ends the body: nothing more arrives.
    pub fn finish(&mut self) -> End {
        // No byte at all is an empty body, which a server may declare as gzip too.
        let packed = match &mut self.form {
            Form::Gzip(packed) if self.first.is_some() => packed,
            Form::Gzip(_) | Form::Unknown | Form::Plain => return End::Whole,
        };
        if let Err(error) = packed.try_finish() {
            return broken(self.first, &error);
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

fn broken(first: Option<u8>, error: &std::io::Error) -> End {
    End::Broken(match error.kind() {
        _ if first != Some(GZIP[0]) => "it is declared as gzip, and is not".to_owned(),
        std::io::ErrorKind::UnexpectedEof => "its gzip is cut off".to_owned(),
        // Of a checksum that is cut off, and of one that does not match.
        std::io::ErrorKind::InvalidInput => {
            "its gzip is cut off, or its checksum does not match".to_owned()
        }
        _ => format!("its gzip cannot be unpacked: {error}"),
    })
}
