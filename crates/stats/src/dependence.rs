//! Tests whether the pairs of a comparison are independent of each other. A test of pairs assumes that and cannot detect a
//! violation: if a side is autocorrelated (a cache, a heap, a file layout that lasts for some pairs), a lucky stretch looks like
//! a change.
//!
//! Earlier runs show dependence by two marks: neighbouring pairs are correlated, and whole runs differ by more than their pairs
//! explain. A single run shows only the first, with little statistical power if it has few pairs.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::normal;
use crate::paired::{Averages, Differences, PairError};
use crate::special;
use crate::sum;

/// The number of random orders of a run's pairs with which the observed order is compared.
const DRAWN_ORDERS: usize = 999;

/// The seed of the drawn orders, which are part of the method's definition and the same for every caller.
const SEED: [u8; 32] = *b"assay: orders of pairs, redrawn.";

/// The autocorrelation of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dependence {
    /// The lag-1 autocorrelation of the ranks of the differences within their runs, without the bias from centring: about 0 for
    /// independent pairs, otherwise about the correlation itself.
    pub autocorrelation: f64,
    /// The probability of this much correlation, or of runs this far apart, if pairs were independent: twice the smaller of both.
    pub p: f64,
}

/// The autocorrelation of the pairs of earlier runs: `runs` hold the differences of each, in the order of its pairs. Runs of one
/// pair are ignored. `None` if no run has two pairs, or nothing varies.
///
/// # Errors
/// [`PairError`] if a difference is not a finite number.
pub fn dependence(runs: &[&[f64]]) -> Result<Option<Dependence>, PairError> {
    let mut serial = SerialProducts::default();
    let mut shifts = Vec::new();
    let (mut within, mut freedom) = (0.0, 0.0);
    for run in runs.iter().filter(|run| run.len() > 1) {
        let shift = Averages::new(&Differences::new(run)?).shift();
        serial.add(&centred_ranks(run));
        let squares: Vec<f64> = run.iter().map(|value| (value - shift) * (value - shift)).collect();
        within += sum::pairwise(&squares, |x| x);
        freedom += run.len() as f64 - 1.0;
        shifts.push((run.len() as f64, shift));
    }
    let Some(p_serial) = serial.p() else { return Ok(None) };
    let p = (2.0 * p_serial.min(p_between(&shifts, within / freedom, freedom))).min(1.0);
    Ok(Some(Dependence { autocorrelation: serial.autocorrelation(), p }))
}

/// The probability of shifts this far apart if each run's shift is the mean of its independent pairs: a one-way analysis of
/// variance (Fisher, "Statistical Methods for Research Workers", 1925, chapter 7) on the Hodges-Lehmann shifts, which vary hardly
/// more than means under normal noise and less under heavy tails.
fn p_between(shifts: &[(f64, f64)], within: f64, freedom: f64) -> f64 {
    if shifts.len() < 2 || within <= 0.0 {
        return 1.0;
    }
    let total: f64 = shifts.iter().map(|(n, _)| n).sum();
    let middle = shifts.iter().map(|(n, shift)| n * shift).sum::<f64>() / total;
    let between: f64 = shifts.iter().map(|(n, shift)| n * (shift - middle) * (shift - middle)).sum();
    let runs = shifts.len() as f64 - 1.0;
    let ratio = between / runs / within;
    // The upper tail of the F distribution is an incomplete beta function of `freedom / (freedom + runs x ratio)`.
    let x = freedom / (freedom + runs * ratio);
    special::beta(0.5 * freedom, 0.5 * runs, x, 1.0 - x).lower
}

/// The ranks of the values less their mean; tied values share their mean rank.
fn centred_ranks(values: &[f64]) -> Vec<f64> {
    let centred = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count() as f64;
        let above = values.iter().filter(|other| *other > value).count() as f64;
        0.5 * (below - above)
    };
    values.iter().map(centred).collect()
}

/// The sum of products of neighbours, over all runs, with its mean and variance over all orders of each run's values (Wald and
/// Wolfowitz, "An exact test for randomness in the non-parametric case based on serial correlation", Annals of Mathematical
/// Statistics 14, 1943; here without the product of the last and the first).
#[derive(Debug, Default)]
struct SerialProducts {
    products: f64,
    mean: f64,
    variance: f64,
    squares: f64,
}

impl SerialProducts {
    fn add(&mut self, centred: &[f64]) {
        let n = centred.len() as f64;
        let squares = sum::pairwise(centred, |x| x * x);
        let fourth = sum::pairwise(centred, |x| x * x * x * x);
        let products: Vec<f64> = centred.windows(2).map(|pair| pair[0] * pair[1]).collect();
        let mean = -squares / n;
        // Means over all choices of positions: of two squares, of a square between two others, and of four values.
        let two = (squares * squares - fourth) / (n * (n - 1.0));
        let three = if n > 2.0 { (2.0 * fourth - squares * squares) / (n * (n - 1.0) * (n - 2.0)) } else { 0.0 };
        let four = if n > 3.0 { (3.0 * squares * squares - 6.0 * fourth) / (n * (n - 1.0) * (n - 2.0) * (n - 3.0)) } else { 0.0 };
        let second = (n - 1.0) * two + 2.0 * (n - 2.0) * three + (n - 2.0) * (n - 3.0) * four;
        self.products += sum::pairwise(&products, |x| x);
        self.mean += mean;
        self.variance += (second - mean * mean).max(0.0);
        self.squares += squares;
    }

    /// The probability of a sum this large, by the normal approximation.
    fn p(&self) -> Option<f64> {
        let is_known = self.variance > 1e-12 * self.squares * self.squares;
        is_known.then(|| 1.0 - normal::cdf((self.products - self.mean) / self.variance.sqrt()))
    }

    fn autocorrelation(&self) -> f64 {
        ((self.products - self.mean) / self.squares).clamp(-1.0, 1.0)
    }
}

/// The probability that the pairs of one run are correlated with those before them as much as observed, over all metrics
/// together, if their order is random: the order is drawn again 999 times, the same for every metric, so that correlated metrics
/// are not counted as independent evidence.
///
/// The statistic of a metric is the mean square difference of neighbours over the variance (von Neumann, "Distribution of the
/// ratio of the mean square successive difference to the variance", Annals of Mathematical Statistics 12, 1941), and that of
/// several metrics the sum. A product of neighbours, which a large value at either end makes smaller, is less powerful: of eight
/// pairs with an autocorrelation of 0.9 that look like a change, it misses one in three at a level of 0.1, and the ratio two in
/// nine.
///
/// `metrics` hold a difference for each index of a pair, `None` if it is missing; all have the same length. The indices before
/// and after a break (`breaks` are the indices that begin another run) are not neighbours. 1 if nothing can be computed.
///
/// Which changes are found in a run does not depend on the order of its pairs, so the test is also valid for only the metrics
/// that seem to have changed.
pub fn order_p(metrics: &[Vec<Option<f64>>], breaks: &[usize]) -> f64 {
    Products::new(metrics).order_p(breaks)
}

/// The same test for all metrics of a run, changed or not: twice the smaller of two probabilities, that of [`order_p`], and that
/// of the metrics without their first principal component. A hundred metrics of one machine may rise and fall together, and then
/// amount to a single metric; the individual part of each metric still gives a hundred pieces of evidence of autocorrelation.
pub fn family_order_p(metrics: &[Vec<Option<f64>>], breaks: &[usize]) -> f64 {
    let products = Products::new(metrics);
    (2.0 * products.order_p(breaks).min(products.without_common_part().order_p(breaks))).min(1.0)
}

/// For every two indices of pairs, the products of the differences there, summed over metrics: each metric about its mean and in
/// units of its sum of squares, 0 if it has no difference. Metrics that do not vary are left out. An order is evaluated 999
/// times, and every evaluation is a sum of these.
struct Products {
    places: usize,
    /// The sums, row by row.
    sums: Vec<f64>,
}

/// The number of steps of the power method. The precision of the common part affects the test's power, not its validity.
const POWER_STEPS: usize = 30;

/// The share of the sum of squares below which the rest is rounding.
const NOTHING_LEFT: f64 = 1e-9;

impl Products {
    fn new(metrics: &[Vec<Option<f64>>]) -> Self {
        let places = metrics.first().map_or(0, Vec::len);
        let mut sums = vec![0.0; places * places];
        for metric in metrics.iter().filter_map(|metric| standardised(metric)) {
            for (row, one) in sums.chunks_exact_mut(places).zip(&metric) {
                row.iter_mut().zip(&metric).for_each(|(sum, other)| *sum += one * other);
            }
        }
        Self { places, sums }
    }

    fn product(&self, one: usize, other: usize) -> f64 {
        self.sums[one * self.places + other]
    }

    /// The sum of squares of all metrics.
    fn squares(&self) -> f64 {
        (0..self.places).map(|place| self.product(place, place)).sum()
    }

    /// The products of the metrics without their first principal component (Hotelling, "Analysis of a complex of statistical
    /// variables into principal components", Journal of Educational Psychology 24, 1933), found by the power method from the
    /// index at which metrics vary most: by nothing that depends on the order of indices.
    fn without_common_part(&self) -> Self {
        let times = |direction: &[f64]| -> Vec<f64> {
            let row = |row: &[f64]| row.iter().zip(direction).map(|(sum, part)| sum * part).sum::<f64>();
            self.sums.chunks_exact(self.places.max(1)).map(row).collect()
        };
        let start = (0..self.places).max_by(|one, other| self.product(*one, *one).total_cmp(&self.product(*other, *other)));
        let mut direction: Vec<f64> =
            start.map_or_else(Vec::new, |start| (0..self.places).map(|place| self.product(start, place)).collect());
        for _ in 0..POWER_STEPS {
            direction = unit(&times(&direction));
        }
        let image = times(&direction);
        let strength: f64 = image.iter().zip(&direction).map(|(image, part)| image * part).sum();
        let left = |(place, sum): (usize, &f64)| {
            let (one, other) = (place / self.places, place % self.places);
            sum - direction[one] * image[other] - image[one] * direction[other] + strength * direction[one] * direction[other]
        };
        let left = Self { places: self.places, sums: self.sums.iter().enumerate().map(left).collect() };
        let is_rounding = left.squares() <= NOTHING_LEFT * self.squares();
        if is_rounding { Self { places: self.places, sums: vec![0.0; self.sums.len()] } } else { left }
    }

    /// The share of orders in which neighbours are as near each other.
    fn order_p(&self, breaks: &[usize]) -> f64 {
        let (places, squares) = (self.places, self.squares());
        if places < 3 || squares <= 0.0 {
            return 1.0;
        }
        let neighbours: Vec<usize> = (1..places).filter(|place| !breaks.contains(place)).collect();
        let apart =
            |one: usize, other: usize| self.product(one, one) + self.product(other, other) - 2.0 * self.product(one, other);
        let steps = |order: &[usize]| -> f64 { neighbours.iter().map(|place| apart(order[place - 1], order[*place])).sum() };
        let mut order: Vec<usize> = (0..places).collect();
        // Equal sums in another order differ by rounding.
        let observed = steps(&order) + 1e-9 * squares;
        let mut rng = ChaCha8Rng::from_seed(SEED);
        let mut reaches = || {
            for last in (1..places).rev() {
                let below = last as u64 + 1;
                order.swap(last, ((u64::from(rng.next_u32()) * below) >> 32) as usize);
            }
            steps(&order) <= observed
        };
        let reached = (0..DRAWN_ORDERS).filter(|_| reaches()).count();
        (1 + reached) as f64 / (1 + DRAWN_ORDERS) as f64
    }
}

/// A direction scaled to length 1; unchanged if its length is 0.
fn unit(direction: &[f64]) -> Vec<f64> {
    let length = direction.iter().map(|part| part * part).sum::<f64>().sqrt();
    direction.iter().map(|part| if length > 0.0 { part / length } else { *part }).collect()
}

/// The differences of a metric about their mean, in units of the root of their sum of squares, 0 if there is no difference;
/// `None` if they do not vary.
fn standardised(metric: &[Option<f64>]) -> Option<Vec<f64>> {
    let there: Vec<f64> = metric.iter().flatten().copied().collect();
    let first = there.first()?;
    if there.iter().all(|value| value.total_cmp(first).is_eq()) {
        return None;
    }
    let mean = sum::pairwise(&there, |x| x) / there.len() as f64;
    let squares = sum::pairwise(&there, |x| (x - mean) * (x - mean));
    (squares > 0.0).then(|| metric.iter().map(|value| value.map_or(0.0, |value| (value - mean) / squares.sqrt())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Generator(ChaCha8Rng);

    impl Generator {
        fn normal(&mut self) -> f64 {
            normal::quantile((f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0)
        }

        /// `pairs` pairs whose differences have this lag-1 correlation, about the run's own shift.
        fn run(&mut self, pairs: usize, correlation: f64, shift: f64) -> Vec<f64> {
            let mut last = self.normal();
            let mut next = |draw: &mut Self| {
                let value = last;
                last = correlation * last + (1.0 - correlation * correlation).sqrt() * draw.normal();
                value + shift
            };
            (0..pairs).map(|_| next(self)).collect()
        }
    }

    /// Counts the histories, of 400 with ten runs of ten pairs, with a `p` of at most one percent.
    fn count_significant(correlation: f64, apart: f64) -> usize {
        let mut draw = Generator(ChaCha8Rng::seed_from_u64(7));
        let mut history = || {
            let mut run = |_| {
                let shift = apart * draw.normal();
                draw.run(10, correlation, shift)
            };
            let runs: Vec<Vec<f64>> = (0..10).map(&mut run).collect();
            let runs: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
            dependence(&runs).expect("numbers").expect("they vary")
        };
        (0..400).filter(|_| history().p <= 0.01).count()
    }

    #[test]
    fn what_remembers_is_told_from_what_does_not() {
        let independent = count_significant(0.0, 0.0);
        // Four are expected.
        assert!(independent <= 11, "{independent}");
        assert_eq!(count_significant(0.8, 0.0), 400);
        assert!(count_significant(0.6, 0.0) > 380 && count_significant(0.4, 0.0) > 200);
        assert!(count_significant(0.0, 1.0) > 390, "runs that lie apart, of pairs that are independent within them");
        let mut draw = Generator(ChaCha8Rng::seed_from_u64(8));
        let run = draw.run(1_000, 0.8, 3.0);
        let found = dependence(&[&run]).expect("numbers").expect("it varies");
        assert!((found.autocorrelation - 0.8).abs() < 0.07, "{found:?}");
    }

    #[test]
    fn the_moments_are_those_of_all_orders() {
        let values = [3.0, -1.0, -4.0, 0.5, 1.5];
        let (mut sums, mut order) = (Vec::new(), vec![0_usize, 1, 2, 3, 4]);
        every_order(&mut order, 0, &mut |order| {
            sums.push(order.windows(2).map(|pair| values[pair[0]] * values[pair[1]]).sum::<f64>());
        });
        assert_eq!(sums.len(), 120);
        let mean = sums.iter().sum::<f64>() / 120.0;
        let variance = sums.iter().map(|sum| (sum - mean) * (sum - mean)).sum::<f64>() / 120.0;
        let mut serial = SerialProducts::default();
        serial.add(&values);
        assert!((serial.mean - mean).abs() < 1e-12 && (serial.variance - variance).abs() < 1e-9, "{serial:?} {mean} {variance}");
    }

    fn every_order(order: &mut Vec<usize>, from: usize, visit: &mut impl FnMut(&[usize])) {
        if from == order.len() {
            visit(order);
        }
        for place in from..order.len() {
            order.swap(from, place);
            every_order(order, from + 1, visit);
            order.swap(from, place);
        }
    }

    #[test]
    fn what_does_not_vary_says_nothing() {
        assert_eq!(dependence(&[&[1.0; 5], &[2.0; 5]]).expect("numbers"), None);
        assert_eq!(dependence(&[&[1.0]]).expect("numbers"), None);
        assert!(dependence(&[&[1.0, f64::NAN]]).is_err());
        let silent: [&[Vec<Option<f64>>]; 3] = [&[], &[vec![Some(1.0); 9]], &[vec![None; 9]]];
        assert!(silent.iter().all(|metrics| order_p(metrics, &[]) > 0.999 && family_order_p(metrics, &[]) > 0.999));
    }

    #[test]
    fn one_run_tells_by_the_order_of_its_pairs() {
        let shares = |correlation: f64, metrics: usize| {
            let mut draw = Generator(ChaCha8Rng::seed_from_u64(9));
            let mut p = || {
                let of = |draw: &mut Generator| draw.run(12, correlation, 0.0).into_iter().map(Some).collect();
                let family: Vec<Vec<Option<f64>>> = (0..metrics).map(|_| of(&mut draw)).collect();
                order_p(&family, &[])
            };
            (0..200).filter(|_| p() <= 0.1).count()
        };
        let independent = shares(0.0, 1);
        assert!((8..=34).contains(&independent), "a tenth, by its construction: {independent} of 200");
        assert!(shares(0.8, 1) > 150);
        assert!(shares(0.8, 20) > 198, "metrics that remember each for themselves tell together");
    }

    /// Counts the runs, of 200 with ten pairs, in which the whole family is significant at one percent: fifty metrics, each nine
    /// parts common and one part its own.
    fn count_significant_families(common: f64, own: f64) -> usize {
        let mut draw = Generator(ChaCha8Rng::seed_from_u64(10));
        let mut p = || {
            let shared = draw.run(10, common, 0.0);
            let mut metric = |_| {
                let alone = draw.run(10, own, 0.0);
                alone.iter().zip(&shared).map(|(alone, shared)| Some(0.9_f64.sqrt() * shared + 0.1_f64.sqrt() * alone)).collect()
            };
            let family: Vec<Vec<Option<f64>>> = (0..50).map(&mut metric).collect();
            family_order_p(&family, &[])
        };
        (0..200).filter(|_| p() <= 0.01).count()
    }

    #[test]
    fn metrics_that_go_together_tell_by_what_each_has_of_its_own() {
        let independent = count_significant_families(0.0, 0.0);
        // Two are expected.
        assert!(independent <= 8, "{independent}");
        assert!(count_significant_families(0.8, 0.8) > 190);
        assert!(count_significant_families(0.0, 0.8) > 190, "what they have in common does not hide it");
    }

    #[test]
    fn the_common_part_is_taken_off_whatever_its_sign() {
        let shared = [3.0, -1.0, 2.0, -4.0, 1.5, -0.5];
        let metric = |sign: f64| shared.iter().map(|value| Some(sign * value)).collect::<Vec<_>>();
        let products = Products::new(&[metric(1.0), metric(-2.0), metric(0.5)]);
        assert!((products.squares() - 3.0).abs() < 1e-12);
        assert_eq!(products.without_common_part().squares().to_bits(), 0.0_f64.to_bits());
        let p = order_p(&[metric(1.0)], &[]);
        assert!((family_order_p(&[metric(1.0), metric(-1.0)], &[]) - (2.0 * p).min(1.0)).abs() < 1e-12, "three that are one");
    }

    #[test]
    fn pairs_of_two_runs_are_no_neighbours() {
        let rising: Vec<Option<f64>> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].map(Some).to_vec();
        assert!(order_p(std::slice::from_ref(&rising), &[]) <= 0.01);
        let all_apart: Vec<usize> = (1..8).collect();
        assert!(order_p(&[rising], &all_apart) > 0.99);
    }
}
