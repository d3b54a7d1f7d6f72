//! Hand-computed intervals of four clusters, refusals, and the share of intervals that hold the truth.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use super::*;
use crate::interval::CONFIDENCE_LEVEL;

fn clusters(parts: &[(f64, f64)]) -> Vec<Cluster> {
    parts.iter().map(|(part, of)| Cluster { part: *part, of: *of }).collect()
}

/// Four sessions of 2, 4, 6 and 8 requests whose latencies add up to 10, 12, 30 and 28: R = 80 / 20 = 4, residuals 2, -4, 6 and -4, their
/// squares 72 in all, variance 4/3 * 72 / 400 = 0.24; t with 3 degrees of freedom at 0.975 is 3.182446 (tables), and 3.182446 * 0.4898979 = 1.559074.
#[test]
fn the_interval_of_a_ratio_is_the_one_computed_by_hand() {
    let found = ratio_ends(&clusters(&[(10.0, 2.0), (12.0, 4.0), (30.0, 6.0), (28.0, 8.0)]), 0.95).expect("an interval");
    assert!((found.low - (4.0 - 1.559_074)).abs() < 1e-5, "{found:?}");
    assert!((found.high - (4.0 + 1.559_074)).abs() < 1e-5, "{found:?}");
    assert_eq!((found.level, found.method.name()), (0.95, "cluster_ratio"));
}

/// Four sessions of 10 requests, of which 4, 5, 5 and 6 are at or below the median: p = 20 / 40, residuals -1, 0, 0 and 1, variance
/// 4/3 * 2 / 1600 = 0.00166667, and 3.182446 * 0.0408248 = 0.129923.
#[test]
fn the_ranks_of_a_quantile_are_those_computed_by_hand() {
    let [low, high] = ranks(&clusters(&[(4.0, 10.0), (5.0, 10.0), (5.0, 10.0), (6.0, 10.0)]), 0.5, 0.95).expect("ranks");
    assert!((low - (0.5 - 0.129_923)).abs() < 1e-5 && (high - (0.5 + 0.129_923)).abs() < 1e-5, "{low} {high}");
}

#[test]
fn an_interval_needs_clusters_that_differ_and_ranks_that_samples_have() {
    let alternate =
        |n: usize, of: f64| -> Vec<Cluster> { (0..n).map(|place| Cluster { part: (place % 2) as f64 * of, of }).collect() };
    let refusal = |found: Result<Interval, NoInterval>| found.expect_err("refused").to_string();
    let rank_refusal = |found: Result<[f64; 2], NoInterval>| found.expect_err("refused").to_string();
    insta::assert_snapshot!(refusal(ratio_interval(&alternate(49, 2.0), 0.95)), @"49 clusters are too few for an interval; 50 are needed");
    insta::assert_snapshot!(refusal(ratio_interval(&alternate(1, 2.0), 0.95)), @"1 cluster is too few for an interval; 50 are needed");
    assert!(ratio_interval(&alternate(50, 2.0), 0.95).is_ok());
    insta::assert_snapshot!(refusal(ratio_interval(&clusters(&[(0.3, 3.0); 60]), 0.95)), @"its clusters do not differ, so their spread bounds nothing");
    insta::assert_snapshot!(rank_refusal(quantile_ranks(&alternate(499, 2.0), 0.99, 0.95)), @"499 clusters are too few for an interval; 500 are needed");
    insta::assert_snapshot!(rank_refusal(quantile_ranks(&alternate(60, 2.0), 0.9, 0.95)), @"its clusters bound the rank of the 0.9 quantile by 0.770 and 1.030 only, and samples have ranks between 0 and 1");
    insta::assert_snapshot!(rank_refusal(quantile_ranks(&alternate(60, 2.0), 1.0, 0.95)), @"the 1 quantile has no interval: only those strictly between 0 and 1 have one");
    insta::assert_snapshot!(refusal(ratio_interval(&alternate(60, 2.0), 1.0)), @"the confidence level 1 is not between 0 and 1");
    insta::assert_snapshot!(refusal(ratio_interval(&clusters(&[(1e200, 1.0), (1.0, 1.0)].repeat(30)), 0.95)), @"an end of the interval lies beyond every number");
}

#[test]
fn a_quantile_needs_five_clusters_on_its_smaller_side() {
    let needed = [0.5, 0.1, 0.9, 0.95, 0.99, 0.999].map(clusters_for_quantile);
    assert_eq!(needed, [50, 50, 50, 100, 500, 5000]);
}

#[test]
fn the_bits_are_the_same_on_every_machine() {
    let drawn = sessions(&mut Draws::new(7), 60, 0.5);
    let found = ratio_interval(&sums(&drawn), CONFIDENCE_LEVEL).expect("an interval");
    assert_eq!([found.low, found.high].map(f64::to_bits), [4_607_197_699_753_391_596, 4_608_683_793_585_403_568]);
}

/// Draws of normal and uniform numbers.
struct Draws(ChaCha8Rng);

impl Draws {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        crate::normal::quantile(self.uniform())
    }
}

/// Sessions of 1 to 40 requests, whose latencies are log-normal; `correlation` is that of two logarithms within a session.
fn sessions(draws: &mut Draws, count: usize, correlation: f64) -> Vec<Vec<f64>> {
    let mut session = || {
        let (own, turns) = (draws.normal() * correlation.sqrt(), 1 + (draws.uniform() * 40.0) as usize);
        (0..turns).map(|_| libm::exp(0.7 * (own + (1.0 - correlation).sqrt() * draws.normal()))).collect()
    };
    (0..count).map(|_| session()).collect()
}

fn sums(sessions: &[Vec<f64>]) -> Vec<Cluster> {
    sessions.iter().map(|session| Cluster { part: session.iter().sum(), of: session.len() as f64 }).collect()
}

/// Each sample as a cluster of its own: the naive interval, for which requests are independent.
fn samples_as_clusters(sessions: &[Vec<f64>]) -> Vec<Cluster> {
    sessions.iter().flatten().map(|sample| Cluster { part: *sample, of: 1.0 }).collect()
}

fn holds_mean(clusters: &[Cluster]) -> bool {
    // The mean of a log-normal distribution with this spread.
    ratio_interval(clusters, CONFIDENCE_LEVEL).expect("an interval").contains(libm::exp(0.7 * 0.7 / 2.0))
}

/// Returns true if the interval of a quantile holds the true one; `None` if there is no interval.
fn holds_quantile(sessions: &[Vec<f64>], by_session: bool, q: f64) -> Option<bool> {
    let mut sorted: Vec<f64> = sessions.concat();
    sorted.sort_by(f64::total_cmp);
    let at = |p: f64| crate::quantile(&sorted, p).expect("a quantile");
    let estimate = at(q);
    let below = |samples: &[f64]| Cluster {
        part: samples.iter().filter(|sample| **sample <= estimate).count() as f64,
        of: samples.len() as f64,
    };
    let clusters: Vec<Cluster> = if by_session {
        sessions.iter().map(|session| below(session)).collect()
    } else {
        sessions.iter().flatten().map(|sample| below(&[*sample])).collect()
    };
    let [low, high] = quantile_ranks(&clusters, q, CONFIDENCE_LEVEL).ok()?;
    let truth = libm::exp(0.7 * crate::normal::quantile(q));
    Some(quantile_interval(at(low), at(high), CONFIDENCE_LEVEL).contains(truth))
}

/// The intervals of one kind over many trials: those that hold the truth, and all.
#[derive(Clone, Copy, Default)]
struct Held {
    held: usize,
    of: usize,
}

impl Held {
    fn add(&mut self, holds: Option<bool>) {
        self.held += usize::from(holds == Some(true));
        self.of += usize::from(holds.is_some());
    }

    fn percent(self) -> f64 {
        100.0 * self.held as f64 / self.of as f64
    }
}

/// The coverage of the intervals by sessions and of the naive ones, percent: of the mean, and of each quantile that so many sessions may have.
fn coverage(correlation: f64, count: usize, trials: usize) -> Vec<(String, [f64; 2])> {
    let quantiles: Vec<f64> = [0.5, 0.9, 0.95, 0.99].into_iter().filter(|q| count >= clusters_for_quantile(*q)).collect();
    let mut held = vec![[Held::default(); 2]; 1 + quantiles.len()];
    let mut draws = Draws::new(20_260_828);
    for _ in 0..trials {
        let drawn = sessions(&mut draws, count, correlation);
        let mut found = vec![[Some(holds_mean(&sums(&drawn))), Some(holds_mean(&samples_as_clusters(&drawn)))]];
        found.extend(quantiles.iter().map(|q| [true, false].map(|by_session| holds_quantile(&drawn, by_session, *q))));
        held.iter_mut().zip(found).for_each(|(held, found)| held.iter_mut().zip(found).for_each(|(held, found)| held.add(found)));
    }
    let names = std::iter::once("mean".to_owned()).chain(quantiles.iter().map(|q| format!("p{:.0}", q * 100.0)));
    names.zip(held.into_iter().map(|pair| pair.map(Held::percent))).collect()
}

/// `docs/statistics.md` has this table. The nominal level is 95 %; the band is 90 to 97 %, and three standard errors of a share over these trials wider.
#[test]
fn intervals_by_sessions_hold_the_truth_and_naive_ones_do_not() {
    let mut lines = Vec::new();
    for correlation in [0.0, 0.3, 0.6] {
        for (count, trials) in [(50, 1000), (100, 1000), (500, 300)] {
            let found = coverage(correlation, count, trials);
            let error = 300.0 * (0.95_f64 * 0.05 / trials as f64).sqrt();
            for (name, [by_session, naive]) in &found {
                let cell = format!("{name} of {count} sessions at {correlation}: {by_session} {naive}");
                assert!((90.0 - error..97.0 + error).contains(by_session), "{cell}");
                assert!(correlation == 0.0 || *naive < 90.0 - error, "{cell}");
            }
            let cells = found.iter().map(|(name, [by_session, naive])| format!("{name} {by_session:.1} {naive:.1}"));
            lines.push(format!("{correlation} {count}: {}", cells.collect::<Vec<_>>().join(", ")));
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    0 50: mean 93.4 94.1, p50 93.7 94.7, p90 94.6 94.9
    0 100: mean 94.3 94.4, p50 94.9 95.1, p90 95.4 95.5, p95 94.7 94.9
    0 500: mean 94.3 95.0, p50 93.3 92.0, p90 94.7 95.3, p95 93.0 93.7, p99 96.3 96.3
    0.3 50: mean 93.1 52.7, p50 95.0 56.6, p90 94.2 65.3
    0.3 100: mean 94.9 53.3, p50 94.2 58.0, p90 95.3 64.2, p95 95.2 71.7
    0.3 500: mean 98.0 53.3, p50 96.3 55.7, p90 97.3 67.3, p95 96.7 71.7, p99 95.3 85.3
    0.6 50: mean 92.3 38.5, p50 95.8 44.0, p90 92.4 48.4
    0.6 100: mean 94.2 37.1, p50 95.7 45.1, p90 94.3 46.7, p95 93.5 47.3
    0.6 500: mean 97.0 39.7, p50 96.0 45.3, p90 96.7 47.7, p95 95.3 56.3, p99 93.0 64.0
    ");
}
