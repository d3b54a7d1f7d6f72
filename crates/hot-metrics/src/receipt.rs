//! Receipts: what was pushed where.

use assay_manifest::{Instant, Name, RunId};
use serde::{Deserialize, Serialize};

/// The result of a push to one receiver. It is the word of the program that pushed, and no evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The run.
    pub run_id: RunId,
    /// The receiver.
    pub receiver: Name,
    /// Its protocol.
    pub protocol: String,
    /// Its address, without credentials.
    pub address: String,
    /// The time of the push.
    pub pushed_at: Instant,
    /// The time of the samples: the end of the measurement.
    pub samples_at: Instant,
    /// The digest of the series with their values.
    pub series_digest: assay_manifest::Digest,
    /// The series of the run.
    pub series: u64,
    /// The series that the receiver accepted.
    pub accepted: u64,
    /// The points whose numbers were left out, because no label tells them from another point.
    pub points_left_out: u64,
    /// The numbers that were left out for another reason.
    pub numbers_left_out: u64,
    /// The result.
    pub outcome: Outcome,
    /// The reason, unless all series were accepted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All series were accepted.
    Accepted,
    /// Some series, or none, were accepted.
    Failed,
}

impl Receipt {
    /// Returns true if this push made another one of the same series to the same address needless.
    pub fn covers(&self, other: &Self) -> bool {
        self.outcome == Outcome::Accepted
            && (&self.address, &self.protocol, &self.series_digest) == (&other.address, &other.protocol, &other.series_digest)
    }

    /// Describes the push in one line.
    pub fn line(&self) -> String {
        let Self { receiver, protocol, series, accepted, .. } = self;
        let left_out = [("point", self.points_left_out), ("number", self.numbers_left_out)];
        let counted = |(what, count): &(&str, u64)| format!("{count} {what}{}", if *count == 1 { "" } else { "s" });
        let left_out: Vec<_> = left_out.iter().filter(|(_, count)| *count > 0).map(counted).collect();
        let left_out = if left_out.is_empty() { String::new() } else { format!(", {} left out", left_out.join(" and ")) };
        let of = if accepted == series { String::new() } else { format!(" of {series}") };
        format!("metrics   {accepted}{of} series to {receiver} ({protocol}){left_out}")
    }
}
