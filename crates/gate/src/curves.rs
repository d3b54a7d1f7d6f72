//! The smallest effects that designs of each number of pairs can find, for one family of metrics. Most metrics have the same
//! number, and a curve costs thousands of simulated repetitions, so each curve is computed once.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use assay_stats::power::curve_share;
use assay_stats::{Curve, Limits, NoiseView, lone_threshold};

/// One minus the confidence of the one-sided bound that has to clear the floor: the ends of a two-sided interval of 95 %.
pub const BOUND_ALPHA: f64 = 0.025;

/// The curves of a family, computed on demand.
pub(crate) struct Curves {
    threshold: f64,
    known: BTreeMap<(usize, u64), Option<Arc<Curve>>>,
}

/// The curves computed so far by this process. A curve is a function of the number of pairs, the share of spikes and the bits of
/// the threshold, and takes a tenth of a second: a caller that judges one family after another, such as the calibration, computes
/// each once.
static CURVE_CACHE: LazyLock<Mutex<CurveCache>> = LazyLock::new(Mutex::default);

/// Curves by number of pairs and the bits of share and threshold; `None` if the pairs are too few for any effect.
type CurveCache = BTreeMap<(usize, u64, u64), Option<Arc<Curve>>>;

/// The most curves that are kept: more than most calibrations need; others are computed again.
const MAX_CACHED: usize = 500;

fn cached_curve(pairs: usize, share: f64, threshold: f64) -> Option<Arc<Curve>> {
    let key = (pairs, share.to_bits(), threshold.to_bits());
    let there = || CURVE_CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = there().get(&key) {
        return known.clone();
    }
    // Computed without the lock: two threads may compute the same curve, and neither waits.
    let curve = Curve::new(pairs, share, threshold, BOUND_ALPHA).map(Arc::new);
    let mut kept = there();
    if kept.len() < MAX_CACHED {
        kept.insert(key, curve.clone());
    }
    curve
}

impl Curves {
    /// Creates the curves of a family of `tests` tests at rate `q`.
    pub(crate) fn new(q: f64, tests: usize) -> Self {
        Self { threshold: lone_threshold(q, tests), known: BTreeMap::new() }
    }

    /// Returns the p-value that a lone metric of the family has to reach.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Returns the curve for this number of pairs and this share of spikes; `None` if they are too few for any effect.
    pub(crate) fn curve(&mut self, pairs: usize, spikes: f64) -> Option<&Curve> {
        let (threshold, share) = (self.threshold, curve_share(spikes));
        self.known.entry((pairs, share.to_bits())).or_insert_with(|| cached_curve(pairs, share, threshold)).as_deref()
    }

    /// Returns the smallest effect, as a logarithm of a ratio, that this number of pairs finds under any of these views of the
    /// noise; `None` if they are too few for any effect.
    pub(crate) fn detectable(&mut self, pairs: usize, noise: impl Iterator<Item = NoiseView>, limits: &Limits) -> Option<f64> {
        let of_view = |view: NoiseView| Some(self.curve(pairs, view.spikes)?.detectable(view.sd, limits));
        noise.filter_map(of_view).min_by(f64::total_cmp)
    }

    /// Returns the fewest pairs, from the first number to the second, that find an effect under any of these views of the noise;
    /// `limits` is a function of the number of pairs.
    pub(crate) fn fewest_for(
        &mut self,
        effect: f64,
        (fewest, most): (usize, usize),
        noise: impl Iterator<Item = NoiseView>,
        limits: impl Fn(usize) -> Limits,
    ) -> Option<usize> {
        let finds = |view: NoiseView, pairs: usize, curve: &Curve| curve.detectable(view.sd, &limits(pairs)) <= effect;
        let of_view = |view: NoiseView| self.fewest(fewest, most, view.spikes, |pairs, curve| finds(view, pairs, curve));
        noise.filter_map(of_view).min()
    }

    /// Returns the fewest pairs from `fewest` to `most` for which `suffices` accepts the curve of that share of spikes. More
    /// pairs find smaller effects, except for the steps of discrete thresholds, so the number is found by bisection.
    fn fewest(&mut self, fewest: usize, most: usize, spikes: f64, suffices: impl Fn(usize, &Curve) -> bool) -> Option<usize> {
        let mut at = |pairs: usize| self.curve(pairs, spikes).is_some_and(|curve| suffices(pairs, curve));
        if fewest > most {
            return None;
        }
        if at(fewest) {
            return Some(fewest);
        }
        if !at(most) {
            return None;
        }
        let (mut too_few, mut enough) = (fewest, most);
        while enough - too_few > 1 {
            let middle = usize::midpoint(too_few, enough);
            if at(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }
}
