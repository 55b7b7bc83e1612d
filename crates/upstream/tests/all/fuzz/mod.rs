//! Hostile answers, headers and tokens.

mod answers;
mod headers;
mod tokens;
