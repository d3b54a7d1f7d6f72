//! Parses the output of an indicator: from the bytes that its script printed to a checked result.
//!
//! A script prints one JSON document with a `name`, an object `@parameters` and an object `@result`. The output is untrusted:
//! anything else is [`OutputError`] and never becomes a number. Everything here is pure; the bytes themselves are stored elsewhere.

mod json;
mod output;
mod output_error;

pub use json::{MAX_BYTES, MAX_DEPTH, MAX_SAMPLES, MAX_VALUES};
pub use output::{MAX_PATH_BYTES, MAX_PATHS, Output, Value, parse};
pub use output_error::{OutputError, Position};

#[cfg(test)]
mod tests;
