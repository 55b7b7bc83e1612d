//! Reads with a bound: what a configuration names may be a device, or a program that prints without an end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a configuration, of a list of regions, or of a saved response on stdin.
pub const DOCUMENT: u64 = 16 << 20;

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// It cannot be read, or it is longer; the error names the bound.
pub fn file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bytes(File::open(path)?, most)
}

/// Reads a file of at most `most` bytes of text.
///
/// # Errors
/// As `file`; also if it is not UTF-8.
pub fn file_of_text(path: &Path, most: u64) -> io::Result<String> {
    text(File::open(path)?, most)
}

/// Reads at most `most` bytes of text to their end.
///
/// # Errors
/// As `bytes`; also if they are not UTF-8.
pub fn text(source: impl Read, most: u64) -> io::Result<String> {
    let bytes = bytes(source, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("stream did not contain valid UTF-8"))
}

/// Reads at most `most` bytes to their end.
///
/// # Errors
/// It cannot be read, or there is more; the error names the bound.
pub fn bytes(source: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(too_long(most))),
        false => Ok(bytes),
    }
}

/// What a message says of something that is longer than its bound.
#[must_use]
pub fn too_long(most: u64) -> String {
    let bound = match most >> 20 {
        0 => format!("{} KiB", most >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    };
    format!("it is longer than {bound}, which is the most that is read")
}
