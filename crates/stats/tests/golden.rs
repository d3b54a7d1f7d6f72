//! Agreement with NumPy, SciPy and an independent ChaCha8: `golden/reference.py` wrote `golden/reference.json`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use assay_stats::signed_rank::SignedRankMethod;
use assay_stats::{
    Bootstrap, Differences, Interval, Samples, Side, Statistic, bootstrap, median_interval, nearest_rank, normal, robust,
    sign_flip, trend,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    samples: BTreeMap<String, Description>,
    median_intervals: Vec<MedianInterval>,
    trends: Vec<Kendall>,
    resamples: NonZeroU32,
    bootstraps: Vec<Ends>,
    sign_flips: Vec<Flips>,
    bcas: Vec<Ends>,
    normal_cdf: Vec<Normal>,
    normal_quantile: Vec<NormalQuantile>,
}

#[derive(Deserialize)]
struct Description {
    values: Vec<f64>,
    quantiles: Vec<(f64, f64)>,
    nearest_ranks: Vec<(f64, f64)>,
    mean: f64,
    variance: Option<f64>,
    cv: Option<f64>,
    iqr: f64,
    mad: f64,
}

#[derive(Deserialize)]
struct MedianInterval {
    n: u32,
    low: f64,
    high: f64,
    level: f64,
}

#[derive(Deserialize)]
struct Kendall {
    values: Vec<f64>,
    p: f64,
    slope: f64,
}

#[derive(Deserialize)]
struct Ends {
    sample: String,
    statistic: String,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Flips {
    differences: Vec<f64>,
    p: f64,
}

#[derive(Deserialize)]
struct Normal {
    x: f64,
    cdf: f64,
}

#[derive(Deserialize)]
struct NormalQuantile {
    p: f64,
    x: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("golden/reference.json")).expect("the reference reads")
}

fn samples(values: &[f64]) -> Samples {
    Samples::new(values).expect("samples")
}

/// Checks equality except for rounding: both sides add up in their own order.
#[track_caller]
fn same(name: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= 1e-12 * theirs.abs().max(1e-300), "{name}: {ours:e} is not {theirs:e}");
}

#[track_caller]
fn both(name: &str, ours: Option<f64>, theirs: Option<f64>) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => same(name, ours, theirs),
        (ours, theirs) => assert_eq!(ours, theirs, "{name}"),
    }
}

#[test]
fn descriptions_agree_with_numpy_and_scipy() {
    for (name, theirs) in reference().samples {
        let ours = samples(&theirs.values);
        same(&name, ours.mean(), theirs.mean);
        both(&name, ours.variance(), theirs.variance);
        both(&name, ours.cv(), theirs.cv);
        same(&name, robust::iqr(&ours), theirs.iqr);
        same(&name, robust::mad(&ours), theirs.mad);
        for (q, value) in theirs.quantiles {
            same(&format!("{name} {q}"), ours.quantile(q), value);
        }
        for (q, value) in theirs.nearest_ranks {
            assert_eq!(nearest_rank(ours.sorted(), q), Some(value), "{name} {q}");
        }
    }
}

#[test]
fn median_intervals_agree_with_scipys_exact_ones() {
    for theirs in reference().median_intervals {
        let ranks: Vec<f64> = (1..=theirs.n).map(f64::from).collect();
        let ours = median_interval(&samples(&ranks), 0.95).expect("an interval");
        assert_eq!((ours.low, ours.high), (theirs.low, theirs.high), "n = {}", theirs.n);
        same(&format!("n = {}", theirs.n), ours.level, theirs.level);
    }
}

#[test]
fn trends_agree_with_scipys_kendall_and_theil_sen() {
    for theirs in reference().trends {
        let ours = trend(&samples(&theirs.values)).expect("a trend");
        let tolerance = if ours.exact { 1e-12 } else { 2e-3 };
        assert!((ours.p - theirs.p).abs() <= tolerance, "{} is not {}", ours.p, theirs.p);
        assert!((ours.slope - theirs.slope).abs() <= 1e-12, "{} is not {}", ours.slope, theirs.slope);
    }
}

fn seed() -> [u8; 32] {
    std::array::from_fn(|index| index as u8)
}

fn interval(reference: &Reference, ends: &Ends, resamples: NonZeroU32, bca: bool) -> Interval {
    let statistic = if ends.statistic == "median" { Statistic::Median } else { Statistic::Mean };
    let how = Bootstrap { level: 0.95, resamples, bca };
    bootstrap(&samples(&reference.samples[&ends.sample].values), statistic, how, seed()).expect("an interval")
}

#[test]
fn bootstrap_draws_agree_with_an_independent_chacha8() {
    let reference = reference();
    for theirs in &reference.bootstraps {
        let ours = interval(&reference, theirs, reference.resamples, false);
        same(&theirs.sample, ours.low, theirs.low);
        same(&theirs.sample, ours.high, theirs.high);
    }
}

#[test]
fn drawn_sign_flips_agree_with_an_independent_chacha8() {
    for theirs in reference().sign_flips {
        let ours = sign_flip(&Differences::new(&theirs.differences).expect("differences"), Side::Above, seed());
        assert_eq!(ours, (theirs.p, SignedRankMethod::Sampled));
    }
}

#[test]
fn bca_intervals_come_near_scipys() {
    let reference = reference();
    let many = NonZeroU32::new(200_000).expect("some");
    for theirs in &reference.bcas {
        let ours = interval(&reference, theirs, many, true);
        let tolerance = 0.02 * (theirs.high - theirs.low);
        let near = (ours.low - theirs.low).abs() <= tolerance && (ours.high - theirs.high).abs() <= tolerance;
        assert!(near, "{} {}: {ours:?}, not {} to {}", theirs.sample, theirs.statistic, theirs.low, theirs.high);
    }
}

#[test]
fn the_normal_distribution_agrees_with_scipys() {
    let reference = reference();
    for theirs in &reference.normal_cdf {
        let ours = normal::cdf(theirs.x);
        // Far out, the rounding of x / sqrt(2) alone moves the tail by x^2 times the rounding error.
        assert!((ours / theirs.cdf - 1.0).abs() < 1e-12, "{}: {ours:e} is not {:e}", theirs.x, theirs.cdf);
    }
    for theirs in &reference.normal_quantile {
        same("quantile", normal::quantile(theirs.p), theirs.x);
    }
}
