//! What designs of each number of pairs can find, for one family of metrics: most of them have the same number, and a curve costs
//! thousands of simulated repetitions, so each is made once.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use assay_stats::power::curve_share;
use assay_stats::{Curve, Limits, View, lone_threshold};

use crate::rule::BOUND_ALPHA;

/// The curves of a family, made as they are asked for.
pub(crate) struct Curves {
    threshold: f64,
    known: BTreeMap<(usize, u64), Option<Arc<Curve>>>,
}

/// A curve is a function of the number of pairs, the share of spikes and the bits of the threshold, and takes a tenth of a second: whoever
/// judges one family after another, as a calibration does, makes each once.
static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);

/// By number of pairs and the bits of share and threshold; nothing where the pairs are too few for any effect.
type Made = BTreeMap<(usize, u64, u64), Option<Arc<Curve>>>;

/// The most curves that are kept: more than most calibrations ask for; others are made again.
const MAX_MADE: usize = 500;

fn made(pairs: usize, share: f64, threshold: f64) -> Option<Arc<Curve>> {
    let key = (pairs, share.to_bits(), threshold.to_bits());
    let there = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = there().get(&key) {
        return known.clone();
    }
    // Made without the lock: two threads may make the same one, and no one waits.
    let curve = Curve::of(pairs, share, threshold, BOUND_ALPHA).map(Arc::new);
    let mut kept = there();
    if kept.len() < MAX_MADE {
        kept.insert(key, curve.clone());
    }
    curve
}

impl Curves {
    /// Of a family of so many tests at rate `q`.
    pub(crate) fn new(q: f64, tests: usize) -> Self {
        Self { threshold: lone_threshold(q, tests), known: BTreeMap::new() }
    }

    /// The probability that a lone metric of the family has to reach.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The curve of so many pairs with such a share of spikes; absent where they are too few for any effect.
    pub(crate) fn of(&mut self, pairs: usize, spikes: f64) -> Option<&Curve> {
        let (threshold, share) = (self.threshold, curve_share(spikes));
        self.known.entry((pairs, share.to_bits())).or_insert_with(|| made(pairs, share, threshold)).as_deref()
    }

    /// The smallest effect, as a logarithm of a ratio, that so many pairs find under noise that may be seen in any of these ways; absent
    /// where they are too few for any effect.
    pub(crate) fn detectable(&mut self, pairs: usize, noise: impl Iterator<Item = View>, limits: &Limits) -> Option<f64> {
        let of_view = |view: View| Some(self.of(pairs, view.spikes)?.detectable(view.sd, limits));
        noise.filter_map(of_view).min_by(f64::total_cmp)
    }

    /// The fewest pairs, from the first number to the second, that find an effect under noise that may be seen in any of these ways; `limits` is a
    /// function of the number of pairs.
    pub(crate) fn fewest_for(
        &mut self,
        effect: f64,
        (fewest, most): (usize, usize),
        noise: impl Iterator<Item = View>,
        limits: impl Fn(usize) -> Limits,
    ) -> Option<usize> {
        let finds = |view: View, pairs: usize, curve: &Curve| curve.detectable(view.sd, &limits(pairs)) <= effect;
        let of_view = |view: View| self.fewest(fewest, most, view.spikes, |pairs, curve| finds(view, pairs, curve));
        noise.filter_map(of_view).min()
    }

    /// The fewest pairs from `fewest` to `most` whose curve, for that share of spikes, `suffices`. More pairs find smaller effects but for the
    /// steps of discrete thresholds, so the answer is halved in on.
    fn fewest(&mut self, fewest: usize, most: usize, spikes: f64, suffices: impl Fn(usize, &Curve) -> bool) -> Option<usize> {
        let mut at = |pairs: usize| self.of(pairs, spikes).is_some_and(|curve| suffices(pairs, curve));
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
