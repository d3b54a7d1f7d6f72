//! Ratios of sums over requests: the metrics of a trial whose sums divide into those of its sessions.

use crate::{Field, Metric, RequestFields, is_length_mismatch};

/// A request of the measured phase, as far as ratios of sums depend on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountedRequest {
    /// Its facts; of those, the ones that the ratio reads.
    pub fields: RequestFields,
    /// True if it succeeded.
    pub is_ok: bool,
    /// True if the client cancelled it as planned.
    pub is_cancelled: bool,
    /// True if it met every SLO.
    pub is_good: bool,
}

/// A metric that is a ratio of two sums over requests.
#[derive(Debug)]
pub struct Ratio {
    /// The facts that it reads.
    pub reads: &'static [Field],
    /// True if it is a share, which is never below 0 or above 1.
    pub is_share: bool,
    /// The parts of a request in the upper and the lower sum; `None` if it has none.
    pub parts: fn(&CountedRequest) -> Option<[i64; 2]>,
}

/// The reason why a total has no interval within a trial.
const TOTAL: &str = "it is a total over the window, and sessions are no sample of it";

/// The reason why what a cache could hold has no interval within a trial.
const BY_SCHEDULE: &str = "what a cache could hold follows from the order of all sessions, and is no sum over them";

impl Metric {
    /// Returns the ratio of sums that a metric with one value for each trial is, or the reason why it is none.
    pub fn ratio(self) -> Result<&'static Ratio, &'static str> {
        Ok(match self {
            Self::ErrorRate => &ERROR_RATE,
            Self::GoodFraction => &GOOD_FRACTION,
            Self::IslRequested => &ISL_REQUESTED,
            Self::Isl => &ISL,
            Self::IslEndpoint => &ISL_ENDPOINT,
            Self::IslDifference => &ISL_DIFFERENCE,
            Self::Osl => &OSL,
            Self::OslMismatch => &OSL_MISMATCH,
            Self::QueuedShare => &QUEUED_SHARE,
            Self::CancelledShare => &CANCELLED_SHARE,
            Self::CachedShare => &CACHED_SHARE,
            Self::TheoreticalCachedShare | Self::ReuseEfficiency => return Err(BY_SCHEDULE),
            _ => return Err(TOTAL),
        })
    }
}

/// Makes the mean of a number of tokens over the successful requests that have it.
macro_rules! mean_of {
    ($field:expr) => {
        Ratio {
            reads: &[$field],
            is_share: false,
            parts: |request| request.fields.get($field).filter(|_| request.is_ok).map(|tokens| [tokens, 1]),
        }
    };
}

static ERROR_RATE: Ratio =
    Ratio { reads: &[], is_share: true, parts: |request| (!request.is_cancelled).then_some([i64::from(!request.is_ok), 1]) };

static GOOD_FRACTION: Ratio =
    Ratio { reads: &[], is_share: true, parts: |request| (!request.is_cancelled).then_some([i64::from(request.is_good), 1]) };

static ISL_REQUESTED: Ratio = mean_of!(Field::InputTokensRequested);

static ISL: Ratio = mean_of!(Field::InputTokens);

static OSL: Ratio = mean_of!(Field::OutputTokens);

static ISL_ENDPOINT: Ratio =
    Ratio { reads: BOTH_COUNTS, is_share: false, parts: |request| both_counts(request).map(|[_, theirs]| [theirs, 1]) };

static ISL_DIFFERENCE: Ratio = Ratio {
    reads: BOTH_COUNTS,
    is_share: false,
    parts: |request| both_counts(request).map(|[ours, theirs]| [theirs.saturating_sub(ours), ours]),
};

static OSL_MISMATCH: Ratio = Ratio {
    reads: &[Field::OutputTokensRequested, Field::OutputTokens],
    is_share: true,
    parts: |request| {
        let tokens = |field| request.fields.get(field).and_then(|tokens| u32::try_from(tokens).ok());
        let (requested, actual) = (tokens(Field::OutputTokensRequested)?, tokens(Field::OutputTokens)?);
        request.is_ok.then(|| [i64::from(is_length_mismatch(requested, actual)), 1])
    },
};

static QUEUED_SHARE: Ratio = Ratio {
    reads: &[Field::Start, Field::Ready, Field::Sent],
    is_share: true,
    parts: |request| {
        let is_queued = request.fields.get(Field::Ready) > request.fields.get(Field::Start);
        request.fields.get(Field::Sent).map(|_| [i64::from(is_queued), 1])
    },
};

static CANCELLED_SHARE: Ratio = Ratio {
    reads: &[Field::Sent],
    is_share: true,
    parts: |request| Some([i64::from(request.is_cancelled), i64::from(request.fields.get(Field::Sent).is_some())]),
};

static CACHED_SHARE: Ratio = Ratio {
    reads: &[Field::CachedTokens, Field::EndpointInputTokens, Field::InputTokens],
    is_share: true,
    parts: |request| {
        let cached = request.fields.get(Field::CachedTokens).filter(|_| request.is_ok)?;
        let of = request.fields.get(Field::EndpointInputTokens).or(request.fields.get(Field::InputTokens));
        Some([cached, of.unwrap_or(0)])
    },
};

/// The facts of both counts of a prompt's tokens.
const BOTH_COUNTS: &[Field] = &[Field::InputTokens, Field::EndpointInputTokens];

/// Returns the tokens of a successful request's prompt by the workload's tokenizer and by the endpoint, if both are known.
fn both_counts(request: &CountedRequest) -> Option<[i64; 2]> {
    let both = request.fields.get(Field::InputTokens).zip(request.fields.get(Field::EndpointInputTokens));
    both.filter(|_| request.is_ok).map(|(ours, theirs)| [ours, theirs])
}
