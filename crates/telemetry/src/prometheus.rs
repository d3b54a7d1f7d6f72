//! Prometheus servers that a pipeline names (`telemetry: [{name, prometheus, pack}]`), which hold the samples of many exporters.
//!
//! A Prometheus is asked after the trials, for the raw samples of each query in each attempt's window: a range selector returns them
//! with the times at which they were scraped. A query over steps of time would repeat each sample for up to five minutes, so that a
//! metric scraped once a minute would look like one scraped every second.
//!
//! collect sends the requests and keeps every response unchanged, a [`QueryLine`] each; [`QueryRows`] makes rows of them, finds the GPUs that their labels
//! describe, and reports what is in no row. Sample times are those of the Prometheus; its clock is compared with that of collect ([`ClockOffset`]).

mod clock;
mod findings;
mod line;
mod request;
mod response;
mod rows;
mod series;

pub use clock::ClockOffset;
pub use line::{QueryLine, QueryOf, Request};
pub use request::{PRESENCE_RANGE, clock_url, presence_query, query_url, samples_query};
pub use response::{SampledSeries, SeriesResponse, parse_series, parse_time, read_body};
pub use rows::{AttemptKey, AttemptRows, QueryRows};
pub use series::{EvaluatedQuery, QueryRow, evaluate};

use assay_manifest::Name;

/// The folder of the responses, one file for each Prometheus.
const FOLDER: &str = "prometheus";

/// The end of a file's name: lines packed with zstd.
const SUFFIX: &str = ".jsonl.zst";

/// The media type of the files.
pub const MEDIA_TYPE: &str = "application/jsonl+zstd";

/// The most samples of one query in one attempt, 128 MiB: 1,000 GPUs once a second for two hours.
pub const MAX_SAMPLES: usize = 1 << 23;

/// The most series of a response, and of one query in one attempt: each has labels, which cost memory without any sample.
pub const MAX_SERIES: usize = 100_000;

/// The most rows of one Prometheus in one attempt.
pub const MAX_ROWS: usize = 200_000;

/// Returns the name of the evidence file of a Prometheus.
pub fn file_name(source: &Name) -> String {
    format!("{FOLDER}/{source}{SUFFIX}")
}

/// Returns the name of a Prometheus in rows and issues.
pub fn source_name(source: &Name) -> String {
    format!("{FOLDER}/{source}")
}
