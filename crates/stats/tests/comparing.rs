//! Agreement of tests, pairs, intervals and series with NumPy, SciPy and plain enumeration: `golden/comparing.py` wrote
//! `golden/comparing.json`.
//!
//! Each comparison states its relative tolerance. It is 1e-12 if both sides are exact except for rounding, and wider if a
//! probability far out in a tail, or SciPy's own function, has fewer digits.

use std::collections::BTreeMap;

use assay_stats::signed_rank::SignedRankMethod;
use assay_stats::{
    Alternative, Averages, Computation, Definition, Differences, Interval, Method, Samples, Side, batch_means, chi_squared,
    cliffs_delta, correlation, effective_sample_size, hodges_lehmann, kolmogorov_smirnov, mann_whitney, quantile_by,
    quantile_interval, robust, sd_upper_bound, sign_flip, signed_rank, student, welch,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    quantiles: Vec<Quantiles>,
    quantile_intervals: Vec<QuantileInterval>,
    mann_whitney: Vec<RankTest>,
    kolmogorov_smirnov: Vec<DistributionTest>,
    welch: Vec<MeanTest>,
    shifts: Vec<ShiftCase>,
    ratios: Vec<RatioCase>,
    signed_ranks: Vec<SignedRankCase>,
    sign_flips: Vec<FlipsCase>,
    averages: Vec<AveragesCase>,
    outliers: Vec<OutliersCase>,
    student: Vec<(f64, f64, f64, f64)>,
    student_quantiles: Vec<(f64, f64, f64)>,
    chi_squared: Vec<(f64, f64, f64, f64)>,
    chi_squared_quantiles: Vec<(f64, f64, f64)>,
    kolmogorov: Vec<(f64, f64)>,
    predictions: Vec<Prediction>,
    series: Vec<Series>,
    fences: Vec<FencesCase>,
}

#[derive(Deserialize)]
struct Quantiles {
    values: Vec<f64>,
    quantiles: Vec<(String, f64, f64)>,
}

#[derive(Deserialize)]
struct QuantileInterval {
    n: u32,
    q: f64,
    level: f64,
    low: f64,
    high: f64,
    coverage: f64,
}

#[derive(Deserialize)]
struct RankTest {
    name: String,
    first: Vec<f64>,
    second: Vec<f64>,
    u: f64,
    p: BTreeMap<String, f64>,
    computation: String,
}

#[derive(Deserialize)]
struct DistributionTest {
    name: String,
    distance: f64,
    p: f64,
    exact: bool,
}

#[derive(Deserialize)]
struct MeanTest {
    name: String,
    t: f64,
    df: f64,
    p: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct ShiftCase {
    name: String,
    level: f64,
    estimate: f64,
    low: f64,
    high: f64,
    coverage: f64,
    delta: f64,
}

#[derive(Deserialize)]
struct RatioCase {
    name: String,
    level: f64,
    estimate: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct SignedRankCase {
    name: String,
    differences: Vec<f64>,
    n: usize,
    zeros: usize,
    statistic: f64,
    p: BTreeMap<String, f64>,
    exact: bool,
}

#[derive(Deserialize)]
struct FlipsCase {
    name: String,
    p: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct AveragesCase {
    name: String,
    alpha: f64,
    shift: f64,
    lower: Option<f64>,
    upper: Option<f64>,
}

#[derive(Deserialize)]
struct OutliersCase {
    values: Vec<f64>,
    flagged: Vec<usize>,
}

#[derive(Deserialize)]
struct Prediction {
    values: Vec<f64>,
    level: f64,
    low: f64,
    high: f64,
    log_low: f64,
    log_high: f64,
    sd_upper_bound: f64,
}

#[derive(Deserialize)]
struct Series {
    values: Vec<f64>,
    autocorrelations: Vec<f64>,
    effective: f64,
    lags: usize,
    batches: usize,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct FencesCase {
    values: Vec<f64>,
    factor: f64,
    low: f64,
    high: f64,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("golden/comparing.json")).expect("the reference reads")
}

impl Reference {
    fn pair(&self, name: &str) -> (Samples, Samples) {
        let pair = self.mann_whitney.iter().find(|pair| pair.name == name).expect("a pair of that name");
        (samples(&pair.first), samples(&pair.second))
    }

    fn differences(&self, name: &str) -> Differences {
        let pairs = self.signed_ranks.iter().find(|pairs| pairs.name == name).expect("differences of that name");
        Differences::new(&pairs.differences).expect("differences")
    }
}

fn samples(values: &[f64]) -> Samples {
    Samples::new(values).expect("samples")
}

fn alternative(name: &str) -> Alternative {
    match name {
        "less" => Alternative::Less,
        "greater" => Alternative::Greater,
        _ => Alternative::TwoSided,
    }
}

fn side(name: &str) -> Side {
    if name == "greater" { Side::Above } else { Side::Below }
}

/// The tolerance for rounding only: both sides add up in their own order.
const ROUNDING: f64 = 1e-12;

#[track_caller]
fn near(name: &str, ours: f64, theirs: f64, tolerance: f64) {
    assert!((ours - theirs).abs() <= tolerance * theirs.abs().max(1e-300), "{name}: {ours:e} is not {theirs:e}");
}

/// Compares ends of intervals, which are differences: relative to the width as well.
#[track_caller]
fn same_ends(name: &str, ours: Interval, low: f64, high: f64) {
    let room = 1e-11 * low.abs().max(high.abs());
    assert!((ours.low - low).abs() <= room && (ours.high - high).abs() <= room, "{name}: {ours:?} is not {low} to {high}");
}

/// Compares averages of differences, which may be near 0, on a scale of about 1. Both are `None` if the pairs are too few for a
/// bound.
#[track_caller]
fn same_end(name: &str, ours: Option<f64>, theirs: Option<f64>) {
    let agree =
        ours.zip(theirs).map_or(ours == theirs, |(ours, theirs)| (ours - theirs).abs() <= ROUNDING * theirs.abs().max(1.0));
    assert!(agree, "{name}: {ours:?} is not {theirs:?}");
}

#[test]
fn all_nine_quantiles_agree_with_numpys() {
    for theirs in reference().quantiles {
        let ours = samples(&theirs.values);
        let scale = ours.max().abs().max(ours.min().abs());
        for (name, q, value) in theirs.quantiles {
            let definition = Definition::ALL.into_iter().find(|definition| definition.name() == name).expect("a definition");
            let found = quantile_by(definition, ours.sorted(), q).expect("a quantile");
            assert!((found - value).abs() <= ROUNDING * scale, "{name} {q} of {:?}: {found} is not {value}", theirs.values);
        }
    }
}

#[test]
fn intervals_of_quantiles_agree_with_the_binomial_distribution() {
    for theirs in reference().quantile_intervals {
        let ranks: Vec<f64> = (1..=theirs.n).map(f64::from).collect();
        let ours = quantile_interval(&samples(&ranks), theirs.q, theirs.level).expect("an interval");
        let name = format!("n = {}, q = {}", theirs.n, theirs.q);
        assert_eq!((ours.low, ours.high), (theirs.low, theirs.high), "{name}");
        near(&name, ours.level, theirs.coverage, ROUNDING);
    }
}

#[test]
fn mann_whitney_agrees_with_scipy_and_with_every_choice_listed() {
    for theirs in reference().mann_whitney {
        for (side, p) in theirs.p {
            let ours = mann_whitney(&samples(&theirs.first), &samples(&theirs.second), alternative(&side)).expect("a test");
            let name = format!("{} {side}", theirs.name);
            assert_eq!((ours.u, ours.computation.name()), (theirs.u, theirs.computation.as_str()), "{name}");
            // The normal tail at z moves by z^2 times the rounding of z.
            near(&name, ours.p, p, if ours.computation == Computation::Normal { 1e-11 } else { ROUNDING });
        }
    }
}

#[test]
fn kolmogorov_smirnov_agrees_with_scipy_and_with_every_choice_listed() {
    let reference = reference();
    for theirs in &reference.kolmogorov_smirnov {
        let (first, second) = reference.pair(&theirs.name);
        let ours = kolmogorov_smirnov(&first, &second).expect("a test");
        assert_eq!(ours.exact, theirs.exact, "{}", theirs.name);
        near(&theirs.name, ours.distance, theirs.distance, ROUNDING);
        near(&theirs.name, ours.p, theirs.p, 1e-10);
    }
    for &(x, p) in &reference.kolmogorov {
        near(&format!("limit {x}"), assay_stats::kolmogorov_smirnov::kolmogorov(x), p, 1e-12);
    }
}

#[test]
fn welch_agrees_with_scipy() {
    let reference = reference();
    for theirs in &reference.welch {
        let (first, second) = reference.pair(&theirs.name);
        for (side, &p) in &theirs.p {
            let ours = welch(&first, &second, alternative(side)).expect("a test");
            near(&theirs.name, ours.t, theirs.t, 1e-11);
            near(&theirs.name, ours.df, theirs.df, 1e-11);
            near(&format!("{} {side}", theirs.name), ours.p, p, 1e-10);
        }
    }
}

#[test]
fn shifts_agree_with_all_differences_and_the_counted_test() {
    let reference = reference();
    for theirs in &reference.shifts {
        let (first, second) = reference.pair(&theirs.name);
        let ours = hodges_lehmann::shift(&first, &second, theirs.level).expect("a shift");
        near(&theirs.name, ours.estimate, theirs.estimate, ROUNDING);
        let interval = ours.interval.expect("an interval");
        same_ends(&theirs.name, interval, theirs.low, theirs.high);
        near(&theirs.name, interval.level, theirs.coverage, ROUNDING);
        let exact = first.len() * second.len() <= mann_whitney::MAX_EXACT_PAIRS;
        assert_eq!(interval.method == Method::MannWhitney, exact);
        near(&theirs.name, cliffs_delta(&first, &second).expect("a delta"), theirs.delta, ROUNDING);
    }
}

#[test]
fn ratios_are_shifts_of_numpys_logarithms() {
    let reference = reference();
    for theirs in &reference.ratios {
        let (first, second) = reference.pair(&theirs.name);
        let ours = hodges_lehmann::ratio(&first, &second, theirs.level).expect("a ratio");
        near(&theirs.name, ours.estimate, theirs.estimate, 1e-11);
        same_ends(&theirs.name, ours.interval.expect("an interval"), theirs.low, theirs.high);
    }
}

#[test]
fn signed_ranks_agree_with_scipy_and_with_every_sign_counted() {
    for theirs in reference().signed_ranks {
        let differences = Differences::new(&theirs.differences).expect("differences");
        let all = (theirs.n * (theirs.n + 1)) as f64 / 2.0;
        for (alternative, p) in theirs.p {
            let ours = signed_rank(&differences, side(&alternative));
            let name = format!("{} {alternative}", theirs.name);
            let statistic = if alternative == "greater" { theirs.statistic } else { all - theirs.statistic };
            assert_eq!((ours.statistic, ours.n, ours.zeros), (statistic, theirs.n, theirs.zeros), "{name}");
            assert_eq!(ours.rule, if theirs.exact { SignedRankMethod::Exact } else { SignedRankMethod::Approximate }, "{name}");
            // The normal tail at z moves by z^2 times the rounding of z.
            near(&name, ours.p, p, if theirs.exact { ROUNDING } else { 1e-11 });
        }
    }
}

#[test]
fn sign_flips_agree_with_scipys_permutation_test() {
    let reference = reference();
    for theirs in &reference.sign_flips {
        for (alternative, &p) in &theirs.p {
            let ours = sign_flip(&reference.differences(&theirs.name), side(alternative), [0; 32]);
            assert_eq!(ours, (p, SignedRankMethod::Exact), "{} {alternative}", theirs.name);
        }
    }
}

#[test]
fn shifts_of_pairs_agree_with_all_averages_and_the_counted_test() {
    let reference = reference();
    for theirs in &reference.averages {
        let averages = Averages::new(&reference.differences(&theirs.name));
        let name = format!("{} at {}", theirs.name, theirs.alpha);
        same_end(&name, Some(averages.shift()), Some(theirs.shift));
        same_end(&name, averages.lower(theirs.alpha), theirs.lower);
        same_end(&name, averages.upper(theirs.alpha), theirs.upper);
    }
}

#[test]
fn outliers_are_those_of_scipys_modified_z_scores() {
    for theirs in reference().outliers {
        assert_eq!(robust::outliers(&samples(&theirs.values)), theirs.flagged, "{:?}", theirs.values);
    }
}

#[test]
fn student_agrees_with_scipy() {
    let reference = reference();
    for (t, df, cdf, upper) in reference.student {
        near(&format!("cdf({t}, {df})"), student::cdf(t, df), cdf, 1e-11);
        near(&format!("upper({t}, {df})"), student::upper(t, df), upper, 1e-11);
    }
    for (p, df, t) in reference.student_quantiles {
        near(&format!("quantile({p}, {df})"), student::quantile(p, df), t, 1e-11);
    }
}

#[test]
fn chi_squared_agrees_with_scipy() {
    let reference = reference();
    for (x, df, cdf, upper) in reference.chi_squared {
        near(&format!("cdf({x}, {df})"), chi_squared::cdf(x, df), cdf, 1e-11);
        near(&format!("upper({x}, {df})"), chi_squared::upper(x, df), upper, 1e-11);
    }
    for (p, df, x) in reference.chi_squared_quantiles {
        near(&format!("quantile({p}, {df})"), chi_squared::quantile(p, df), x, 1e-11);
    }
}

#[test]
fn predictions_and_the_bound_of_the_spread_agree_with_scipy() {
    for theirs in reference().predictions {
        let (ours, name) = (samples(&theirs.values), format!("{} values", theirs.values.len()));
        same_ends(&name, student::prediction_interval(&ours, theirs.level).expect("an interval"), theirs.low, theirs.high);
        let logs = student::log_prediction_interval(&ours, theirs.level).expect("an interval");
        same_ends(&name, logs, theirs.log_low, theirs.log_high);
        near(&name, sd_upper_bound(&ours, theirs.level).expect("a bound"), theirs.sd_upper_bound, 1e-11);
    }
}

#[test]
fn series_agree_with_the_definitions() {
    for theirs in reference().series {
        let (ours, name) = (samples(&theirs.values), format!("{} values", theirs.values.len()));
        for (lag, r) in theirs.autocorrelations.into_iter().enumerate() {
            let found = correlation::autocorrelation(&ours, lag).expect("varies");
            assert!((found - r).abs() <= ROUNDING, "{name}, lag {lag}: {found} is not {r}");
        }
        let effective = effective_sample_size(&ours).expect("varies");
        near(&name, effective.samples, theirs.effective, 1e-11);
        assert_eq!(effective.lags, theirs.lags, "{name}");
        let means = batch_means(&ours, theirs.batches, 0.95).expect("an interval");
        same_ends(&name, means.interval, theirs.low, theirs.high);
    }
}

#[test]
fn fences_agree_with_numpy() {
    for theirs in reference().fences {
        let ours = robust::fences(&samples(&theirs.values), theirs.factor).expect("fences");
        let room = ROUNDING * theirs.low.abs().max(theirs.high.abs());
        assert!((ours.low - theirs.low).abs() <= room && (ours.high - theirs.high).abs() <= room, "{ours:?}");
    }
}
