//! A judged metric as every rendering shows it: numbers rounded once, texts cleaned for display.

use assay_manifest::{BetterDirection, Change, FloorSource, MetricVerdict, Outcome, Verdict};

use super::lineage::Origin;
use super::magnitude::Magnitude;
use crate::gate::inputs::Inputs;
use crate::render::number::{Format, percent, probability, significant};
use crate::render::text::{clean, counted};
use crate::render::unit::DisplayUnit;

/// The text for an absent number.
pub(crate) const ABSENT: &str = "—";

/// The outcome of a metric after acknowledgements, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MetricOutcome {
    Regressed,
    Inconclusive,
    /// It regressed within the accepted size: it passes.
    Acknowledged,
    Improved,
    Unchanged,
}

impl MetricOutcome {
    pub(crate) const ALL: [Self; 5] = [Self::Regressed, Self::Inconclusive, Self::Acknowledged, Self::Improved, Self::Unchanged];

    fn from_verdict(found: &MetricVerdict) -> Self {
        match found.outcome {
            Outcome::Regressed if found.acknowledged.is_some() => Self::Acknowledged,
            Outcome::Regressed => Self::Regressed,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::Improved => Self::Improved,
            Outcome::Unchanged => Self::Unchanged,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::Inconclusive => "inconclusive",
            Self::Acknowledged => "acknowledged",
            Self::Improved => "improved",
            Self::Unchanged => "unchanged",
        }
    }

    /// Returns true if a careful reader should stop here.
    pub(crate) fn is_caution(self) -> bool {
        matches!(self, Self::Regressed | Self::Inconclusive)
    }
}

/// A judged metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) point: String,
    pub(crate) metric: String,
    /// The unit of the shown values.
    pub(crate) unit: DisplayUnit,
    pub(crate) outcome: MetricOutcome,
    pub(crate) magnitude: Option<Magnitude>,
    /// The medians, without their unit.
    pub(crate) baseline: String,
    pub(crate) candidate: String,
    pub(crate) change: Option<Estimate>,
    /// The smaller of the two adjusted probabilities.
    pub(crate) p: String,
    /// The probability of rank sums as if nothing were paired.
    pub(crate) unpaired: String,
    pub(crate) floor: String,
    pub(crate) detectable: String,
    /// The reason for its outcome, and what it takes to decide; empty if no explanation is needed.
    pub(crate) reason: String,
    /// The sources of its values, by run.
    pub(crate) origins: Vec<Origin>,
    /// The metric as it was judged: its numbers are for pictures and machines, its texts are not cleaned.
    pub(crate) verdict: MetricVerdict,
}

/// The Hodges-Lehmann ratio with its interval, to as many digits as the interval supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Candidate over baseline: `1.121`.
    pub(crate) ratio: String,
    /// The ends of its interval: `[1.091, 1.152]`; or the text `no interval`.
    pub(crate) ratio_interval: String,
    /// The ratio as a change: `+12.1 %`.
    pub(crate) change: String,
    /// The ends of the change, in percent: `[+9.1, +15.2]`.
    pub(crate) interval: String,
    /// The ratio of the two medians, to as many digits; without an interval, because the medians are not paired.
    pub(crate) ratio_of_medians: String,
    /// The ratio of the two medians as a change.
    pub(crate) change_of_medians: String,
}

/// Returns the metrics of a verdict, worst first; metrics with the same outcome keep the plan's order.
pub(crate) fn worst_first(inputs: &Inputs<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = inputs.verdict.metrics.iter().map(|found| Row::new(inputs, found)).collect();
    rows.sort_by_key(|row| row.outcome);
    rows
}

impl Row {
    fn new(inputs: &Inputs<'_>, found: &MetricVerdict) -> Self {
        let budget = inputs.verdict.policy.budget;
        let change = found.change.as_ref();
        let smallest = change.map_or(0.0, |change| change.baseline_median.abs().min(change.candidate_median.abs()));
        let unit = DisplayUnit::choose(&clean(&found.unit), smallest);
        let median = |of: fn(&Change) -> f64| {
            change.map_or_else(|| ABSENT.to_owned(), |change| significant(unit.convert(of(change)), None))
        };
        Self {
            workload: found.workload.to_string(),
            point: found.point_id.to_string(),
            metric: clean(&found.metric),
            outcome: MetricOutcome::from_verdict(found),
            magnitude: change.map(|change| Magnitude::from_ratio(change.ratio, budget)),
            baseline: median(|change| change.baseline_median),
            candidate: median(|change| change.candidate_median),
            change: change.map(Estimate::new),
            p: change.map_or_else(|| ABSENT.to_owned(), |_| probability(found.p_worse_adjusted.min(found.p_better_adjusted))),
            unpaired: change.and_then(|change| change.p_unpaired).map_or_else(|| ABSENT.to_owned(), probability),
            floor: found.floor.as_ref().map_or_else(|| ABSENT.to_owned(), |floor| percent(floor.share)),
            detectable: found.detectable.map_or_else(|| ABSENT.to_owned(), percent),
            reason: reason(inputs.verdict, found),
            origins: Origin::for_metric(inputs, found),
            unit,
            verdict: found.clone(),
        }
    }

    /// Returns the workload and point: `chat at c64`.
    pub(crate) fn place(&self) -> String {
        format!("{} at {}", self.workload, self.point)
    }

    /// Returns its full name for a sentence: `` `ttft_ms_p99` of chat at c64 ``.
    pub(crate) fn name(&self) -> String {
        format!("`{}` of {}", self.metric, self.place())
    }

    /// Returns a median with its unit.
    pub(crate) fn with_unit(&self, median: &str) -> String {
        if median == ABSENT { ABSENT.to_owned() } else { format!("{median} {}", self.unit.unit) }
    }

    /// Returns the number of judged pairs, of those planned: `14`, or `12 of 14`.
    pub(crate) fn pairs(&self) -> String {
        let judged = self.verdict.pairs.len();
        match self.verdict.missing {
            0 => judged.to_string(),
            missing => format!("{judged} of {}", judged + missing as usize),
        }
    }

    pub(crate) fn magnitude_text(&self) -> &'static str {
        self.magnitude.map_or(ABSENT, Magnitude::as_str)
    }

    /// Returns the change with its interval: `+12.1 % [+9.1, +15.2]`.
    pub(crate) fn change_text(&self) -> String {
        self.change.as_ref().map_or_else(|| "not comparable".to_owned(), Estimate::full_text)
    }

    /// Returns the source of its noise floor, in one word.
    pub(crate) fn floor_source(&self) -> &'static str {
        match self.verdict.floor.as_ref().map(|floor| floor.source) {
            Some(FloorSource::Rerandomised) => "re-randomised",
            Some(FloorSource::History) => "history",
            Some(FloorSource::Autocorrelation) => "autocorrelation",
            Some(FloorSource::Unlearned) => "nothing learned",
            None => ABSENT,
        }
    }

    pub(crate) fn better(&self) -> &'static str {
        match self.verdict.better {
            BetterDirection::Lower => "lower is better",
            BetterDirection::Higher => "higher is better",
        }
    }
}

impl Estimate {
    fn new(change: &Change) -> Self {
        let in_percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let whole = in_percent(change.ratio);
        // Without an interval nothing supports a third digit.
        let ends = change.low.zip(change.high).map_or((0.0, whole), |(low, high)| (in_percent(low), in_percent(high)));
        // The ratio has the digits of the change: 1.12 would hide what [+11.8, +12.3] shows.
        let format = Format::new(whole, Some(ends));
        let of_ratio = format.finer_by(2);
        let interval = |show: &dyn Fn(f64) -> String| {
            if change.low.is_none() && change.high.is_none() {
                return "no interval".to_owned();
            }
            let end = |end: Option<f64>, open: &str| end.map_or_else(|| open.to_owned(), show);
            format!("[{}, {}]", end(change.low, "-∞"), end(change.high, "∞"))
        };
        let of_medians = Some(change.candidate_median / change.baseline_median).filter(|ratio| ratio.is_finite());
        let or_absent = |shown: Option<String>| shown.unwrap_or_else(|| ABSENT.to_owned());
        Self {
            ratio_of_medians: or_absent(of_medians.map(|ratio| of_ratio.show(ratio))),
            change_of_medians: or_absent(of_medians.map(|ratio| format!("{} %", format.signed(in_percent(ratio))))),
            ratio: of_ratio.show(change.ratio),
            ratio_interval: interval(&|ratio| of_ratio.show(ratio)),
            change: format!("{} %", format.signed(whole)),
            interval: interval(&|ratio| format.signed(in_percent(ratio))),
        }
    }

    /// `+12.1 % [+9.1, +15.2]`.
    pub(crate) fn full_text(&self) -> String {
        let joint = if self.interval.starts_with('[') { " " } else { ", " };
        format!("{}{joint}{}", self.change, self.interval)
    }
}

/// Returns the reason for a metric's outcome, and for an inconclusive one what it takes to decide.
fn reason(verdict: &Verdict, found: &MetricVerdict) -> String {
    let why = found.reason.as_ref().map(|reason| clean(&reason.detail)).filter(|text| !text.is_empty());
    let is_inconclusive = found.outcome == Outcome::Inconclusive;
    let why =
        why.map(
            |why| if MetricOutcome::from_verdict(found) == MetricOutcome::Acknowledged { format!("passes: {why}") } else { why },
        );
    let has_look_left = (verdict.sequence.look as usize) < verdict.policy.looks.len();
    let how = if has_look_left { "" } else { ": no look is left, so raise `trials.count`" };
    let takes = found.more_pairs.filter(|_| is_inconclusive);
    let takes = takes.map(|more| format!("{} would decide{how}", counted(more, "more pair")));
    why.into_iter().chain(takes).collect::<Vec<_>>().join("; ")
}
