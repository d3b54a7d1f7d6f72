//! Rates of an open loop that change during the measured phase.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Count;

/// The arrivals per second over the measured phase, from its start to its end. A warm-up has the rate of the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "profile", rename_all = "snake_case", deny_unknown_fields)]
pub enum RateProfile {
    /// The rate changes by the same amount in equal times.
    Linear {
        /// The rate at the start.
        from_per_s: f64,
        /// The rate at the end.
        to_per_s: f64,
    },
    /// The rate changes by the same factor in equal times.
    Exponential {
        /// The rate at the start.
        from_per_s: f64,
        /// The rate at the end.
        to_per_s: f64,
    },
    /// Constant rates one after the other, each for the same time, which differ by the same amount.
    Steps {
        /// The first rate.
        from_per_s: f64,
        /// The last rate.
        to_per_s: f64,
        /// The number of rates.
        steps: u32,
    },
    /// Constant rates one after the other, each for a time of its own.
    Series {
        /// The rates, in their order.
        segments: Vec<RateSegment>,
    },
}

/// A constant rate for some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateSegment {
    /// The time, in nanoseconds.
    pub duration_ns: Count,
    /// Arrivals per second.
    pub per_s: f64,
}

impl RateProfile {
    /// Returns the rate at the start.
    pub fn first_per_s(&self) -> f64 {
        match self {
            Self::Linear { from_per_s, .. } | Self::Exponential { from_per_s, .. } | Self::Steps { from_per_s, .. } => {
                *from_per_s
            }
            Self::Series { segments } => segments.first().map_or(0.0, |segment| segment.per_s),
        }
    }

    /// Returns the rates that it states, in their order: the first and the last one, or that of each segment.
    pub fn rates_per_s(&self) -> Vec<f64> {
        match self {
            Self::Linear { from_per_s, to_per_s }
            | Self::Exponential { from_per_s, to_per_s }
            | Self::Steps { from_per_s, to_per_s, .. } => vec![*from_per_s, *to_per_s],
            Self::Series { segments } => segments.iter().map(|segment| segment.per_s).collect(),
        }
    }

    /// Returns the lowest and the highest rate.
    pub fn range_per_s(&self) -> (f64, f64) {
        let rates = self.rates_per_s();
        (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max))
    }
}
