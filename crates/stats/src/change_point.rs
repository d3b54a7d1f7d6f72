//! Change points: the runs of a history at which the level of a number moved, with a false-alarm rate that accounts for the
//! search and for autocorrelation.
//!
//! The method is E-divisive means (Matteson and James, "A nonparametric approach for multiple change point analysis of
//! multivariate data", JASA 109, 2014) with four corrections that its use in performance work leaves open:
//!
//! - *The search.* A split is judged by the distribution of the highest energy divergence over all splits, not as if it had been
//!   chosen in advance. `p = (1 + extreme) / (1 + permutations)`, never 0.
//! - *The autocorrelation.* Neighbouring nightly runs are correlated, and a slow wave looks like steps. The series is prewhitened
//!   by its lag-1 autocorrelation, permuted (in blocks if dependence is left), and coloured again.
//! - *The position.* Under autocorrelation the split of highest divergence is a poor estimate of the position. If a split is
//!   significant, the reported index is the one most likely to be within five points of the change.
//! - *The waves.* In a strongly autocorrelated series, a fitted step absorbs the largest wave, and the residuals show little
//!   autocorrelation. So a significant step has to explain such a series better than autocorrelation alone does; otherwise the
//!   result is that a change cannot be distinguished.
//!
//! Values beyond 3.5 robust standard deviations of a segment's median are winsorised to that distance first, so that one wild
//! night is not a step.
//!
//! **Multiple testing.** A history of up to [`WINDOW`] points is one window, and an unchanged one raises any point with
//! probability [`Rule::level`]. A longer one is read in windows that overlap by half, each tested at the level over their number
//! (Bonferroni), so that the same holds for the whole history; [`ChangePoint::p`] is corrected likewise. The parts of a split are
//! tested at their window's level again. A nightly job calls [`find_new_change`], whose level is spread over a stated number of
//! appends.
//!
//! **Limits.** Only the level is watched, not the spread or the shape; a drift is a change. A change needs [`MIN_SIDE`] points on
//! either side, and in a window with many changes each is harder to see. Calibration and cost are in `docs/statistics.md`.

mod energy;
mod noise;
mod position;
mod wave;

use std::num::NonZeroU32;
use std::ops::Range;

use crate::normal;
use crate::robust;
use crate::samples::{SampleError, Samples};
use noise::{Noise, Surrogates};

/// The number of points of a window. The cost of a window grows with its square times the permutations, and the calibration is
/// for histories of this length; three months of nightly runs fit.
pub const WINDOW: usize = 100;

/// The fewest points on either side of a change: below three, one wild value is half of a side.
pub const MIN_SIDE: usize = 3;

/// The most points of a history. Twice as many windows halve the level of each, and beyond this no affordable number of
/// permutations reaches it.
pub const MAX_POINTS: usize = 20_000;

/// The default of [`Rule::level`], by the field's convention. Measured at 100 points: 3.4 % of independent series raise a point,
/// 5.8 % with autocorrelation 0.6 (and up to 12 % of those with 12 to 50 or 500 points: see `docs/statistics.md`).
pub const DEFAULT_LEVEL: f64 = 0.05;

/// The fewest permutations of a test, so that a p-value near the default level is known to within a few thousandths.
pub const MIN_PERMUTATIONS: u32 = 999;

/// The most permutations of a test; a level that needs more is refused.
pub const MAX_PERMUTATIONS: u32 = 100_000;

/// Values farther from the segment's median than this many robust standard deviations are winsorised to that distance.
const WINSORISE_AT: f64 = robust::OUTLIER_THRESHOLD;

/// Two divergences that differ by less than this share are equal: a permutation that restores the series must count as extreme.
const ROUNDING: f64 = 1e-9;

/// The scale on which levels are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The values themselves.
    Raw,
    /// The natural logarithms, for positive numbers that change by factors, such as latencies and rates.
    Log,
}

/// The settings of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The scale on which levels are compared.
    pub scale: Scale,
    /// The probability with which an unchanged history may raise any point.
    pub level: f64,
    /// The fewest permutations of each test; a smaller level raises them so that it can be reached.
    pub permutations: NonZeroU32,
}

impl Rule {
    /// Returns the calibrated rule: [`DEFAULT_LEVEL`] with [`MIN_PERMUTATIONS`].
    pub fn new(scale: Scale) -> Self {
        Self { scale, level: DEFAULT_LEVEL, permutations: NonZeroU32::new(MIN_PERMUTATIONS).unwrap_or(NonZeroU32::MIN) }
    }
}

/// The bound on the false alarms of a nightly job: over `appends` nights, with a call of [`find_new_change`] after each, an
/// unchanged history opens any issue with probability `level` at most. A single night has `level / appends` (Bonferroni). Strong
/// autocorrelation, which must be estimated, exceeds the bound a little: at 0.6, 7 % of series open an issue at a level of 5 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// The probability of any false issue.
    pub level: f64,
    /// The number of appends that share it.
    pub appends: NonZeroU32,
}

impl Default for Budget {
    /// One false issue in twenty series of a hundred nights: 0.0005 a night.
    fn default() -> Self {
        Self { level: 0.05, appends: NonZeroU32::new(100).unwrap_or(NonZeroU32::MIN) }
    }
}

/// An index at which the level moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The index of the first value after the change.
    pub index: usize,
    /// The p-value of the split, corrected for the search over splits and windows (for [`find_new_change`]: over splits).
    pub p: f64,
    /// The median from the change point before (or the window's limit) to this one, in the values' unit.
    pub before: f64,
    /// The median from here to the next change point, in the values' unit.
    pub after: f64,
    /// `after / before - 1`, a ratio; `None` if `before` is 0.
    pub change: Option<f64>,
    /// An approximate 95 % interval of `change`; `None` without `change`, and with fewer than [`MIN_FOR_INTERVAL`] values on a
    /// side.
    pub interval: Option<ChangeInterval>,
}

/// An approximate 95 % interval of a relative change, as a ratio.
///
/// Normal, from the spread around both medians and its autocorrelation. It takes the index as known: right after a change was
/// found it is somewhat too narrow and too far out, because changes that look larger than they are are found sooner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeInterval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The fewest values on either side for an interval of the change.
pub const MIN_FOR_INTERVAL: usize = 5;

/// The reason why a history was not searched.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum ChangePointError {
    /// A value is not a valid sample.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// Too few values for a change with [`MIN_SIDE`] on either side.
    #[error("a change point needs a history of {} values, and this one has {n}", 2 * MIN_SIDE)]
    TooShort {
        /// The number of values.
        n: usize,
    },
    /// More than [`MAX_POINTS`].
    #[error("a history of {n} values is too long to be searched; pass the last {MAX_POINTS}")]
    TooLong {
        /// The number of values.
        n: usize,
    },
    /// A value has no logarithm.
    #[error("value {index} is {value}, which has no logarithm; compare this metric on the raw scale")]
    NotPositive {
        /// Its index, counted from 0.
        index: usize,
        /// The value.
        value: f64,
    },
    /// The level is not a probability.
    #[error("the level {level} is not between 0 and 1")]
    Level {
        /// The level.
        level: f64,
    },
    /// The level would need more than [`MAX_PERMUTATIONS`].
    #[error("a test at level {level:e} needs more than {MAX_PERMUTATIONS} permutations; raise the level or shorten the history")]
    TooFine {
        /// The level of a single test.
        level: f64,
    },
    /// An apparent change may be autocorrelation of the series.
    #[error(
        "cannot tell whether the level moved: neighbouring values resemble each other so much (lag-1 autocorrelation {memory:.2}) that what looks like a change may be a slow wave"
    )]
    Autocorrelated {
        /// The lag-1 autocorrelation, if there is no change.
        memory: f64,
    },
    /// The last known change is outside the history.
    #[error("the last known change point is at {known}, but the history has {n} values")]
    KnownOutOfRange {
        /// The index given.
        known: usize,
        /// The number of values.
        n: usize,
    },
}

/// Returns the change points of a whole history, ascending; the same bytes for the same values, rule and seed, on every machine.
/// A part in which a change cannot be distinguished from autocorrelation has none; [`search`] reports these parts.
///
/// # Errors
/// [`ChangePointError`] for values that are not finite (or not positive on the log scale), for too few or too many of them, and
/// for a level outside 0 to 1 or beyond the reach of permutations; [`ChangePointError::Autocorrelated`] if nothing was found except
/// what may be autocorrelation. A constant history has no change points and is no error.
pub fn change_points(history: &[f64], rule: Rule, seed: [u8; 32]) -> Result<Vec<ChangePoint>, ChangePointError> {
    search(history, rule, seed)?.into_points()
}

/// The result of a search of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// The change points, ascending.
    pub points: Vec<ChangePoint>,
    /// The parts in which a change cannot be distinguished from autocorrelation, in the order of the search.
    pub ambiguous: Vec<AmbiguousPart>,
}

impl SearchResult {
    /// Returns the change points.
    ///
    /// # Errors
    /// [`ChangePointError::Autocorrelated`] if nothing was found except what may be autocorrelation.
    pub fn into_points(self) -> Result<Vec<ChangePoint>, ChangePointError> {
        match self.ambiguous.first() {
            Some(untold) if self.points.is_empty() => Err(ChangePointError::Autocorrelated { memory: untold.memory }),
            _ => Ok(self.points),
        }
    }
}

/// A part of a history with an apparent change that may be a wave, because neighbouring values are strongly autocorrelated.
#[derive(Debug, Clone, PartialEq)]
pub struct AmbiguousPart {
    /// The indices of the part.
    pub part: Range<usize>,
    /// Its lag-1 autocorrelation, if there is no change.
    pub memory: f64,
}

/// Searches like [`change_points`], and also returns the parts in which a change cannot be distinguished from autocorrelation.
///
/// # Errors
/// As for [`change_points`], except [`ChangePointError::Autocorrelated`].
pub fn search(history: &[f64], rule: Rule, seed: [u8; 32]) -> Result<SearchResult, ChangePointError> {
    let series = Series::new(history, rule.scale)?;
    let windows = windows(history.len());
    let test = Test::new(rule.level, windows, windows, rule.permutations.get(), seed)?;
    let mut untold = Vec::new();
    let found = series.search(&test, &mut untold);
    Ok(SearchResult { points: series.describe(&found, 0..history.len(), windows), ambiguous: untold })
}

/// Returns the change since `known`, the index of the last change point that was reported, if the level has moved: a nightly job
/// calls it after each append. Searches the last [`WINDOW`] values since then; if it finds a point, its index is the next
/// `known`.
///
/// # Errors
/// As for [`change_points`], and [`ChangePointError::KnownOutOfRange`] for an index beyond the history.
pub fn find_new_change(
    history: &[f64],
    known: Option<usize>,
    scale: Scale,
    budget: Budget,
    seed: [u8; 32],
) -> Result<Option<ChangePoint>, ChangePointError> {
    let n = history.len();
    let series = Series::new(history, scale)?;
    let test = Test::new(budget.level, budget.appends.get() as usize, 1, MIN_PERMUTATIONS, seed)?;
    let known = known.unwrap_or(0);
    if known > n {
        return Err(ChangePointError::KnownOutOfRange { known, n });
    }
    let recent = known.max(n.saturating_sub(WINDOW))..n;
    match test.split(&series.scaled, recent.clone()) {
        SplitOutcome::NotSignificant => Ok(None),
        SplitOutcome::Ambiguous { memory } => Err(ChangePointError::Autocorrelated { memory }),
        SplitOutcome::Significant(found) => Ok(series.describe(&[found], recent, 1).first().copied()),
    }
}

/// A change that calls of [`find_new_change`] after each append would have reported, and when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// The number of values after which it was reported.
    pub after: usize,
    /// The reported change.
    pub change: ChangePoint,
}

/// Returns every change that calls of [`find_new_change`] after each append would have reported, from the value at `from` on, each
/// change once, oldest first. The calls begin with the first history that is long enough. After an append at which a change
/// cannot be distinguished from autocorrelation nothing is reported.
///
/// # Errors
/// As for [`find_new_change`], except [`ChangePointError::Autocorrelated`].
pub fn replay_reports(
    history: &[f64],
    from: usize,
    scale: Scale,
    budget: Budget,
    seed: [u8; 32],
) -> Result<Vec<Report>, ChangePointError> {
    let (mut known, mut told) = (None, Vec::new());
    for after in (2 * MIN_SIDE).max(from + 1)..=history.len() {
        let so_far = history.get(..after).unwrap_or_default();
        let changed = match find_new_change(so_far, known, scale, budget, seed) {
            Err(ChangePointError::Autocorrelated { .. }) => None,
            changed => changed?,
        };
        if let Some(change) = changed {
            known = Some(change.index);
            told.push(Report { after, change });
        }
    }
    Ok(told)
}

/// Returns the number of windows in which an unchanged history of `n` values is read; changes only make them fewer.
fn windows(n: usize) -> usize {
    1 + n.saturating_sub(WINDOW).div_ceil(WINDOW / 2)
}

/// The result of a test of a segment.
enum SplitOutcome {
    /// No split is significant.
    NotSignificant,
    /// A split is significant, and the autocorrelation of the noise is too strong to tell.
    Ambiguous { memory: f64 },
    /// A split is significant.
    Significant(SignificantSplit),
}

/// A significant split, with its uncorrected p-value.
#[derive(Debug, Clone, Copy)]
struct SignificantSplit {
    index: usize,
    p: f64,
}

/// Checked values, as given and on the scale of the comparison.
struct Series<'a> {
    values: &'a [f64],
    scaled: Vec<f64>,
    scale: Scale,
}

impl<'a> Series<'a> {
    fn new(values: &'a [f64], scale: Scale) -> Result<Self, ChangePointError> {
        let n = values.len();
        if n > MAX_POINTS {
            return Err(ChangePointError::TooLong { n });
        }
        if n < 2 * MIN_SIDE {
            return Err(ChangePointError::TooShort { n });
        }
        Samples::new(values)?;
        let scaled = match scale {
            Scale::Raw => values.to_vec(),
            Scale::Log => values.iter().enumerate().map(logarithm).collect::<Result<_, _>>()?,
        };
        Ok(Self { values, scaled, scale })
    }

    /// Searches the windows one after the other; the next begins half a window on, or at the last change point if that is later.
    fn search(&self, test: &Test, untold: &mut Vec<AmbiguousPart>) -> Vec<SignificantSplit> {
        let (n, mut start, mut found) = (self.scaled.len(), 0, Vec::new());
        loop {
            let end = (start + WINDOW).min(n);
            test.divide(&self.scaled, start..end, &mut found, untold);
            if end == n {
                return self.relocate(found);
            }
            let last = found.last().map_or(0, |point: &SignificantSplit| point.index);
            start = last.max(start + WINDOW / 2);
        }
    }

    /// Locates each point again between its neighbours, now that their changes no longer interfere.
    fn relocate(&self, mut found: Vec<SignificantSplit>) -> Vec<SignificantSplit> {
        let mut start = 0;
        for number in 0..found.len() {
            let end = found.get(number + 1).map_or(self.scaled.len(), |next| next.index);
            let Some(point) = found.get_mut(number) else { break };
            let around = start.max(point.index.saturating_sub(WINDOW))..end.min(point.index + WINDOW);
            if around.len() >= 2 * MIN_SIDE {
                point.index = around.start + position::likeliest_index(&winsorise(slice(&self.scaled, &around)));
            }
            start = point.index;
        }
        found
    }

    fn describe(&self, found: &[SignificantSplit], within: Range<usize>, windows: usize) -> Vec<ChangePoint> {
        let starts = std::iter::once(within.start).chain(found.iter().map(|point| point.index));
        let ends = found.iter().skip(1).map(|point| point.index).chain(std::iter::once(within.end));
        let place = |((point, start), end): ((&SignificantSplit, usize), usize)| self.describe_one(*point, start..end, windows);
        found.iter().zip(starts).zip(ends).map(place).collect()
    }

    fn describe_one(&self, point: SignificantSplit, around: Range<usize>, windows: usize) -> ChangePoint {
        let (left, right) = (around.start..point.index, point.index..around.end);
        let (before, after) = (median(slice(self.values, &left)), median(slice(self.values, &right)));
        let change = crate::samples::ratio(after - before, before).map(|size| size.copysign(after - before));
        let interval = change.and_then(|change| self.interval(change, before, &left, &right));
        ChangePoint { index: point.index, p: (point.p * windows as f64).min(1.0), before, after, change, interval }
    }

    /// The interval of a change. Both medians have a standard error of `sqrt(pi / 2)` times that of a mean (of normal values),
    /// autocorrelation included; the difference is normal, on the scale of the comparison.
    fn interval(&self, change: f64, before: f64, left: &Range<usize>, right: &Range<usize>) -> Option<ChangeInterval> {
        if left.len().min(right.len()) < MIN_FOR_INTERVAL {
            return None;
        }
        let residuals: Vec<f64> = [left, right].into_iter().flat_map(|side| residuals(slice(&self.scaled, side))).collect();
        let spread = Samples::new(&residuals).map(|samples| robust::scale(&samples)).ok()?;
        let memory = noise::correct_bias(noise::lag_one(&residuals), residuals.len());
        let inflation = (1.0 + memory) / (1.0 - memory) * std::f64::consts::FRAC_PI_2;
        let variance = spread * spread * inflation * (1.0 / left.len() as f64 + 1.0 / right.len() as f64);
        let reach = -normal::quantile((1.0 - crate::CONFIDENCE_LEVEL) / 2.0) * variance.sqrt();
        let [low, high] = match self.scale {
            Scale::Raw => [change - reach / before.abs(), change + reach / before.abs()],
            Scale::Log => [-reach, reach].map(|shift| (1.0 + change) * libm::exp(shift) - 1.0),
        };
        (low.is_finite() && high.is_finite()).then_some(ChangeInterval { low, high })
    }
}

fn logarithm((index, &value): (usize, &f64)) -> Result<f64, ChangePointError> {
    if value > 0.0 { Ok(libm::log(value)) } else { Err(ChangePointError::NotPositive { index, value }) }
}

/// One significance test of a segment, as it is repeated over segments.
struct Test {
    level: f64,
    /// The windows of the history.
    windows: usize,
    permutations: u32,
    seed: [u8; 32],
}

impl Test {
    /// Creates a test whose level is `level` over `family`, for a history of `windows` windows.
    fn new(level: f64, family: usize, windows: usize, permutations: u32, seed: [u8; 32]) -> Result<Self, ChangePointError> {
        if !(level > 0.0 && level < 1.0) {
            return Err(ChangePointError::Level { level });
        }
        let level = level / family as f64;
        // The smallest p-value requires this many: at fine levels no permutation may be as extreme.
        let needed = (1.0 / level).ceil();
        if needed > f64::from(MAX_PERMUTATIONS) {
            return Err(ChangePointError::TooFine { level });
        }
        Ok(Self { level, windows, permutations: permutations.clamp(needed as u32, MAX_PERMUTATIONS), seed })
    }

    /// Splits a segment for as long as a split is significant; points are added in ascending order.
    fn divide(&self, scaled: &[f64], window: Range<usize>, found: &mut Vec<SignificantSplit>, untold: &mut Vec<AmbiguousPart>) {
        let mut points = Vec::new();
        let mut waiting = vec![window];
        while let Some(segment) = waiting.pop() {
            match self.split(scaled, segment.clone()) {
                SplitOutcome::NotSignificant => {}
                SplitOutcome::Ambiguous { memory } => untold.push(AmbiguousPart { part: segment, memory }),
                SplitOutcome::Significant(point) => {
                    waiting.push(point.index..segment.end);
                    waiting.push(segment.start..point.index);
                    points.push(point);
                }
            }
        }
        points.sort_unstable_by_key(|point: &SignificantSplit| point.index);
        found.extend(points);
    }

    /// Returns the one split of a segment, if it is significant.
    fn split(&self, scaled: &[f64], segment: Range<usize>) -> SplitOutcome {
        if segment.len() < 2 * MIN_SIDE {
            return SplitOutcome::NotSignificant;
        }
        let values = winsorise(slice(scaled, &segment));
        let Some(p) = self.p(&values, &segment) else { return SplitOutcome::NotSignificant };
        match wave::explain_without_step(&values, self.windows) {
            Some(memory) => SplitOutcome::Ambiguous { memory },
            None => SplitOutcome::Significant(SignificantSplit { index: segment.start + position::likeliest_index(&values), p }),
        }
    }

    /// Returns the p-value of the highest divergence, if it is within the level. Stops permuting as soon as it cannot be.
    fn p(&self, values: &[f64], segment: &Range<usize>) -> Option<f64> {
        let observed = energy::highest_divergence(values);
        if observed <= 0.0 {
            return None;
        }
        let noise = Noise::estimate(values);
        let mut surrogates = Surrogates::new(&noise, self.seed, stream(segment));
        let of = |extreme: u32| f64::from(1 + extreme) / f64::from(1 + self.permutations);
        let mut extreme = 0;
        for _ in 0..self.permutations {
            let divergence = energy::highest_divergence(surrogates.draw());
            extreme += u32::from(divergence >= observed * (1.0 - ROUNDING));
            if of(extreme) > self.level {
                return None;
            }
        }
        Some(of(extreme))
    }
}

/// Returns the segment's own random stream, independent of the tests before it.
fn stream(segment: &Range<usize>) -> u64 {
    ((segment.start as u64) << 32) | segment.end as u64
}

/// Deviations from the median in robust standard deviations, winsorised at [`WINSORISE_AT`]; zeros if there is no spread.
fn winsorise(values: &[f64]) -> Vec<f64> {
    let Ok(samples) = Samples::new(values) else { return vec![0.0; values.len()] };
    let (centre, scale) = (samples.median(), robust::scale(&samples));
    if scale <= 0.0 {
        return vec![0.0; values.len()];
    }
    values.iter().map(|x| ((x - centre) / scale).clamp(-WINSORISE_AT, WINSORISE_AT)).collect()
}

fn residuals(values: &[f64]) -> Vec<f64> {
    let centre = median(values);
    values.iter().map(|x| x - centre).collect()
}

fn median(values: &[f64]) -> f64 {
    Samples::new(values).map_or(0.0, |samples| samples.median())
}

/// The values of a range, which is within bounds.
fn slice<'a>(values: &'a [f64], range: &Range<usize>) -> &'a [f64] {
    values.get(range.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
