//! The trials of a load over time: the window of each in time slices of equal length.

use assay_metric::Metric;

use super::views::short_trial;
use crate::render::text::clean;
use crate::render::thinning::evenly_spaced;

/// Maximum number of trials of a load that are drawn: more lines cannot be told apart.
const MAX_TRIALS: usize = 8;

/// Maximum number of slices of a trial.
const MAX_SLICES: usize = 20;

/// The trials of a load over time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimeSlices {
    /// The title of the latency, such as `TTFT`.
    pub(crate) latency: String,
    /// The unit of the rate: `output tokens/s`, or `requests/s` if tokens are not counted.
    pub(crate) rate_unit: &'static str,
    /// The number of counted trials; at most [`MAX_TRIALS`] of them are drawn.
    pub(crate) all_trials: usize,
    pub(crate) trials: Vec<SlicedTrial>,
}

/// The window of a trial.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlicedTrial {
    pub(crate) trial: String,
    pub(crate) slices: Vec<TimeSlice>,
}

/// A part of a window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimeSlice {
    /// The start and the end, in seconds since the start of the window.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Requests that failed and ended in it.
    pub(crate) failed: u64,
    /// Output tokens, or requests, per second of the responses that ended in it.
    pub(crate) rate: f64,
    /// The median and the 99th percentile of the latency, in milliseconds; `None` without samples.
    pub(crate) latency_ms: Option<[f64; 2]>,
}

impl TimeSlices {
    /// Returns what can be drawn; `None` if nothing can.
    pub(super) fn from_view(view: &assay_manifest::TimeSlices) -> Option<Self> {
        let slices = || view.trials.iter().flat_map(|trial| &trial.slices);
        let has_tokens = slices().all(|slice| slice.output_tokens.is_some());
        let drawn = evenly_spaced(&view.trials, MAX_TRIALS).filter_map(|trial| sliced_trial(trial, has_tokens));
        let trials: Vec<SlicedTrial> = drawn.collect();
        let latency =
            Metric::find(&view.latency).map_or_else(|| clean(&view.latency), |metric| metric.definition().title.to_owned());
        let rate_unit = if has_tokens { "output tokens/s" } else { "requests/s" };
        (!trials.is_empty()).then_some(Self { latency, rate_unit, all_trials: view.trials.len(), trials })
    }

    /// Returns the slices of all drawn trials.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &TimeSlice> {
        self.trials.iter().flat_map(|trial| &trial.slices)
    }
}

fn sliced_trial(trial: &assay_manifest::SlicedTrial, has_tokens: bool) -> Option<SlicedTrial> {
    let length_s = trial.to_ns.0.checked_sub(trial.from_ns.0).filter(|ns| *ns > 0)? as f64 / 1e9;
    let slices = trial.slices.get(..MAX_SLICES).unwrap_or(&trial.slices);
    let each_s = length_s / trial.slices.len().max(1) as f64;
    let slice = |(place, slice): (usize, &assay_manifest::TimeSlice)| TimeSlice {
        from_s: each_s * place as f64,
        to_s: each_s * (place + 1) as f64,
        failed: slice.failed.0,
        rate: slice.output_tokens.filter(|_| has_tokens).unwrap_or(slice.ok).0 as f64 / each_s,
        latency_ms: slice.p50_ms.zip(slice.p99_ms).map(<[f64; 2]>::from).filter(|values| values.iter().all(|ms| ms.is_finite())),
    };
    let slices: Vec<TimeSlice> = slices.iter().enumerate().map(slice).collect();
    (!slices.is_empty()).then(|| SlicedTrial { trial: short_trial(&trial.trial_id), slices })
}

#[cfg(test)]
mod tests {
    use assay_manifest::{CaseId, Count, Name, PointId, TrialId};

    use super::*;

    fn view(output_tokens: Option<u64>, length_ns: u64) -> assay_manifest::TimeSlices {
        let name = |text: &str| Name::new(text).expect("a name");
        let case = CaseId::from_names(&name("w"), &name("t"), &name("default"));
        let slice = |ok, p50_ms| assay_manifest::TimeSlice {
            ok: Count(ok),
            failed: Count(1),
            output_tokens: output_tokens.map(Count),
            samples: Count(ok),
            p50_ms,
            p99_ms: p50_ms.map(|ms: f64| ms * 2.0),
        };
        assay_manifest::TimeSlices {
            latency: "ttft".to_owned(),
            trials: vec![assay_manifest::SlicedTrial {
                trial_id: TrialId::from_parts(&case, &PointId::new("p").expect("a point"), 3),
                attempt: 0,
                from_ns: Count(1_000_000_000),
                to_ns: Count(1_000_000_000 + length_ns),
                slices: vec![slice(4, Some(10.0)), slice(2, None), slice(3, Some(f64::NAN))],
            }],
        }
    }

    #[test]
    fn rates_are_of_the_length_of_a_slice() {
        let of = |tokens| TimeSlices::from_view(&view(tokens, 6_000_000_000)).expect("drawable");
        let counted = of(Some(100));
        assert_eq!(
            (counted.latency.as_str(), counted.rate_unit, counted.trials[0].trial.as_str()),
            ("TTFT", "output tokens/s", "t3")
        );
        let slices: Vec<_> = counted.slices().map(|slice| (slice.from_s, slice.to_s, slice.rate, slice.latency_ms)).collect();
        assert_eq!(slices, [(0.0, 2.0, 50.0, Some([10.0, 20.0])), (2.0, 4.0, 50.0, None), (4.0, 6.0, 50.0, None)]);
        let rates: Vec<f64> = of(None).slices().map(|slice| slice.rate).collect();
        assert_eq!((of(None).rate_unit, rates), ("requests/s", vec![2.0, 1.0, 1.5]));
    }

    #[test]
    fn a_window_without_length_is_not_drawn() {
        assert_eq!(TimeSlices::from_view(&view(None, 0)), None);
    }
}
