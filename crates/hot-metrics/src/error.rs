//! The reasons why hot metrics were not pushed.

use std::time::Duration;

use assay_failure::{ErrorCode, Failure};
use assay_probe::{HeaderError, RequestError};
use assay_spec::HotLabel;

/// The result of a function of this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why hot metrics were not pushed. Texts of a receiver are cut, in one line, and without secrets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A label has a value that no series may have.
    #[error("the label `{label}` would have the value `{value}`, which is longer than 256 bytes or has control characters")]
    Label {
        /// The label.
        label: HotLabel,
        /// The beginning of its value.
        value: String,
    },
    /// The series are more than the budget.
    #[error(
        "the run has {series} series{}, and at most {max} may be active; the label `{label}` makes the most of them, with {values} values",
        .active.map(|active| format!(" and the receiver {active} active ones of other runs")).unwrap_or_default()
    )]
    Budget {
        /// The series of the run.
        series: u64,
        /// The active series of other runs, if they were counted.
        active: Option<u64>,
        /// The budget.
        max: u64,
        /// The label with the most values.
        label: HotLabel,
        /// The number of its values.
        values: u64,
    },
    /// A header cannot be read from its reference, or not be sent.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// There was no whole response.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The receiver redirects, which is not followed: the credentials are for the given address.
    #[error("it redirects to `{0}`, which is not followed")]
    Redirected(String),
    /// The receiver limits the rate of requests.
    #[error("it accepts no more requests at the moment (429){}", .0.map(|wait| format!(", and asks to wait for {wait:?}")).unwrap_or_default())]
    RateLimited(Option<Duration>),
    /// The receiver refuses the request.
    #[error("it responded with {status}: {text}")]
    Status {
        /// The status, such as `400 Bad Request`.
        status: String,
        /// True for a status that may pass.
        passes: bool,
        /// The time that the receiver asks to wait.
        wait: Option<Duration>,
        /// The receiver's message.
        text: String,
    },
    /// The receiver accepted the request, and not all of its series.
    #[error("it rejected {rejected} series: {text}")]
    Rejected {
        /// The rejected series.
        rejected: u64,
        /// The receiver's message.
        text: String,
    },
    /// A response cannot be read.
    #[error("its response cannot be read: {0}")]
    Response(String),
    /// The active series cannot be counted.
    #[error("its active series cannot be counted: {0}")]
    Query(Box<Self>),
    /// The push was cancelled.
    #[error("the push was cancelled")]
    Cancelled,
    /// The series cannot be encoded.
    #[error("the series cannot be encoded: {0}")]
    Encode(String),
}

impl Error {
    /// Returns true if the same request may be accepted later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Request(error) => error.is_unreachable() || matches!(error, RequestError::Protocol(_)),
            Self::RateLimited(_) => true,
            Self::Status { passes, .. } => *passes,
            _ => false,
        }
    }

    /// Returns the error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Label { .. } => ErrorCode::SeriesLabel,
            Self::Budget { .. } => ErrorCode::SeriesBudget,
            Self::Header(_) => ErrorCode::SecretAbsent,
            Self::Cancelled => ErrorCode::Cancelled,
            _ => ErrorCode::HotMetrics,
        }
    }

    /// Returns a remedy for this occurrence.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Status { status, text, .. } if status.starts_with("400") && text.contains("bound") => Some(
                "Prometheus takes no samples older than an hour: set `out_of_order_time_window` there, as deploy/prometheus/prometheus.yml does",
            ),
            Self::Status { status, .. } if status.starts_with("401") || status.starts_with("403") => {
                Some("check the receiver's `headers`, and the variable that holds the credentials")
            }
            Self::Status { status, .. } if status.starts_with("404") => {
                Some("check the path of the address; Prometheus needs `--web.enable-remote-write-receiver` for `/api/v1/write`")
            }
            Self::Budget { .. } => {
                Some("`max_active_series` and `labels` of the pipeline decide that: change them for the next run")
            }
            Self::Redirected(_) => Some("write the address that it redirects to, if it is the receiver's"),
            _ => None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let hint = error.hint();
        let failure = Failure::from_error(error.code(), &error);
        if let Some(hint) = hint { failure.hint(hint) } else { failure }
    }
}

/// Returns a text of a receiver fit to be shown: in one line and cut.
pub(crate) fn clean(text: &str) -> String {
    const MAX_CHARACTERS: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cleaned: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MAX_CHARACTERS).collect();
    if cleaned.is_empty() { "no reason that can be read".to_owned() } else { cleaned }
}
