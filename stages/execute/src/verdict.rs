//! The verdict of a shard over an attempt, by which all shards decide alike if the trial is tried again.

use assay_manifest::{LastingReason, Validity};

/// The verdict of a shard over its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardVerdict {
    /// The attempt counts.
    Valid,
    /// It does not count, and the next one may.
    Invalid,
    /// It does not count, for a reason that the next one meets again.
    Lasting(LastingReason),
}

impl ShardVerdict {
    pub(crate) fn new(validity: &Validity) -> Self {
        match LastingReason::find(&validity.reasons) {
            _ if validity.valid => Self::Valid,
            Some(reason) => Self::Lasting(reason),
            None => Self::Invalid,
        }
    }

    /// Returns the name of the mark by which other shards learn of the verdict.
    pub(crate) const fn mark(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Invalid => "invalid",
            Self::Lasting(LastingReason::NoRequests) => "no_requests",
            Self::Lasting(LastingReason::OverSaturated) => "over_saturated",
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_manifest::Reason;

    use super::*;

    #[test]
    fn a_reason_lasts_only_if_no_other_stands_beside_it() {
        let verdict =
            |codes: &[&str]| ShardVerdict::new(&Validity::from_reasons(codes.iter().map(|code| Reason::new(code, "")).collect()));
        let lasting = ShardVerdict::Lasting(LastingReason::NoRequests);
        assert_eq!(verdict(&[]), ShardVerdict::Valid);
        assert_eq!([verdict(&["no_requests"]), verdict(&["no_requests", "no_requests"])], [lasting; 2]);
        // A client that hung may have been the cause, and may not hang again.
        for passing in [&["client_stalled"][..], &["no_requests", "client_stalled"], &["all_failed"]] {
            assert_eq!(verdict(passing), ShardVerdict::Invalid, "{passing:?}");
        }
    }

    #[test]
    fn each_verdict_has_a_mark_of_its_own() {
        let lasting = LastingReason::ALL.iter().map(|reason| (ShardVerdict::Lasting(*reason).mark(), reason.as_str()));
        for (mark, code) in lasting {
            assert_eq!(mark, code);
            assert!(![ShardVerdict::Valid, ShardVerdict::Invalid].map(ShardVerdict::mark).contains(&mark));
        }
    }
}
