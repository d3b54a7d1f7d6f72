//! The files of a recording: one JSON document a line, read as a stream.

use std::io::{BufRead, Read as _};

use assay_manifest::{Instant, Name, Series};
use assay_stage::{ErrorCode, Failure};
use serde::{Deserialize, Serialize};

/// The source of the host's counters.
pub(crate) const HOST: &str = "host";

/// Returns the source of an endpoint's counters.
pub(crate) fn endpoint_source(target: &Name) -> String {
    format!("endpoint/{target}")
}

/// One response of an endpoint's `/metrics`, as a line of the recording: either the body as received, or the reason why there is
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScrapeLine {
    /// The time of the request.
    pub(crate) at: Instant,
    /// The duration until the response, in nanoseconds.
    pub(crate) took_ns: u64,
    /// The status of the response, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) status: Option<u16>,
    /// The body of a successful response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) body: Option<String>,
    /// The reason why there is no body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) error: Option<String>,
}

/// Calls `visit` with every line of a series, and with its number from 1. A line that is too long or too many is a damaged
/// recording.
pub(crate) fn each_line(
    series: &Series,
    mut lines: impl BufRead,
    max_line_bytes: u64,
    mut visit: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let name = &series.artifact.name;
    let mut line = Vec::new();
    let mut count = 0;
    // One line more than declared is enough to know that there are too many.
    while count <= series.samples.0 {
        line.clear();
        let read = lines.by_ref().take(max_line_bytes).read_until(b'\n', &mut line).map_err(|error| {
            Failure::new(ErrorCode::Scratch, format!("cannot read back the recording `{name}`")).because(&error)
        })?;
        if read == 0 {
            break;
        }
        count += 1;
        if read as u64 == max_line_bytes && line.last() != Some(&b'\n') {
            return Err(damaged(format!("line {count} of `{name}` is longer than the limit of {max_line_bytes} bytes")));
        }
        visit(count, &line)?;
    }
    if count == series.samples.0 {
        return Ok(());
    }
    let found = if count > series.samples.0 { "more".to_owned() } else { count.to_string() };
    Err(damaged(format!("`{name}` has {found} readings, and its recording says {}", series.samples)))
}

/// Parses the reading on a line.
pub(crate) fn parse_reading<'a, T: Deserialize<'a>>(series: &Series, number: u64, line: &'a [u8]) -> Result<T, Failure> {
    let name = &series.artifact.name;
    serde_json::from_slice(line).map_err(|error| damaged(format!("line {number} of `{name}` is no reading")).because(&error))
}

fn damaged(what: String) -> Failure {
    Failure::new(ErrorCode::Recording, what)
}
