//! A benchmark of change points: the rates of false and of found ones, next to Apache Otava 0.8.0's rule on the same series.
//!
//!     cargo run --release -p assay-stats --example change_points_bench -- [autocorrelation | steps | seconds] [SERIES]
//!
//! prints the tables of `docs/statistics.md`, or one of them, with SERIES series a cell (default 2,000). Everything is seeded, so
//! equal arguments print equal tables, except for the seconds in the last one. Bounds are Wilson's score interval at 99 %
//! (Wilson, JASA 22, 1927).
//!
//! The port of Otava's rule was compared with the package `apache-otava` 0.8.0 from PyPI (Python 3, NumPy 2.2): on 604 series of
//! 2 to 159 points (normal and t3, AR(1) 0, 0.3 and 0.6, half with one to three steps, a fifth rounded so that values tie),
//! `compute_change_points` at p 1e-2, 1e-3 and 1e-5 gave the same indices in all of them: 1,793, 734 and 263 points.

#![expect(clippy::print_stdout, reason = "tables are what this program is for")]

mod otava;
mod series;

use std::num::NonZeroU32;
use std::time::Instant;

use assay_stats::change_point::{Budget, DEFAULT_LEVEL, Rule, Scale, SearchResult, change_points, replay_reports, search};
use assay_stats::steady::{self, steady};
use assay_stats::{Samples, normal};
use series::{Generator, Noise};

/// The number of points of a series.
const LENGTH: usize = 100;
/// A point is located if it is within this many points of the true one.
const NEAR: usize = 5;
/// Otava's default p-value.
const OTAVA: f64 = 1e-3;
/// Otava's p-values along its curve.
const OTAVA_CURVE: [f64; 6] = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8];
/// Assay's levels along its curve.
const OUR_CURVE: [f64; 10] = [0.003, 0.01, 0.03, 0.07, 0.1, 0.2, 0.35, 0.6, 0.8, 0.97];

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = args.next();
    let table = next.take_if(|word| matches!(word.as_str(), "seconds" | "autocorrelation" | "steps"));
    let series = if table.is_some() { args.next() } else { next };
    let series = series.map_or(Ok(2_000), |count| count.parse()).unwrap_or(0);
    match (table.as_deref(), series) {
        (_, 0) => {
            println!("usage: change_points_bench [autocorrelation | steps | seconds] [SERIES], a number of series from 1 on");
        }
        (Some("seconds"), _) => seconds(),
        (Some("autocorrelation"), _) => autocorrelated(series),
        (Some(_), _) => steps(series),
        (None, _) => all(series),
    }
}

fn all(series: u64) {
    unchanged(series);
    lengths(series);
    autocorrelated(series);
    steps(series);
    curve(series);
    appends(series.div_ceil(4));
    delays(series.div_ceil(4));
    steady_states(series);
    seconds();
}

/// A series with at most one true change.
struct KnownSeries {
    values: Vec<f64>,
    at: usize,
    seed: [u8; 32],
}

fn stepped(series: u64, noise: Noise, step: f64) -> Vec<KnownSeries> {
    let one = |number| {
        let (values, at) = Generator::new(number).stepped(noise, LENGTH, step);
        KnownSeries { values, at, seed: seed(number) }
    };
    (0..series).map(one).collect()
}

fn seed(number: u64) -> [u8; 32] {
    let mut seed = [9; 32];
    for (byte, value) in seed.iter_mut().zip(number.to_le_bytes()) {
        *byte = value;
    }
    seed
}

/// Returns the indices that Assay's rule raises.
fn assay_indices(values: &[f64], rule: Rule, seed: [u8; 32]) -> Vec<usize> {
    change_points(values, rule, seed).unwrap_or_default().iter().map(|point| point.index).collect()
}

fn otava_indices(values: &[f64], max_p: f64) -> Vec<usize> {
    otava::change_points(values, otava::Rule::with_max_p(max_p)).iter().map(|point| point.index).collect()
}

fn at_level(level: f64) -> Rule {
    // If a level is high, fewer permutations are precise enough.
    let permutations = NonZeroU32::new(if level < 0.15 { 999 } else { 99 }).unwrap_or(NonZeroU32::MIN);
    Rule { level, permutations, ..Rule::new(Scale::Raw) }
}

/// A share with its 99 % bounds.
#[derive(Clone, Copy)]
struct Share {
    hits: u64,
    of: u64,
}

impl Share {
    fn count<T>(items: &[T], hit: impl Fn(&T) -> bool) -> Self {
        Self { hits: items.iter().filter(|item| hit(item)).count() as u64, of: items.len() as u64 }
    }

    fn value(self) -> f64 {
        self.hits as f64 / self.of as f64
    }

    fn bounds(self) -> [f64; 2] {
        let (n, p, z) = (self.of as f64, self.value(), normal::quantile(0.995));
        let centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let reach = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        [(centre - reach).max(0.0), (centre + reach).min(1.0)]
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [low, high] = self.bounds().map(|bound| bound * 100.0);
        write!(f, "{:.1} ({low:.1} to {high:.1})", self.value() * 100.0)
    }
}

fn format_bar(bar: bool) -> &'static str {
    if bar { "met" } else { "**missed**" }
}

fn unchanged(series: u64) {
    println!("Unchanged series of {LENGTH} points that raise any point, percent (99 % bounds), {series} series a row:\n");
    println!(
        "| noise | Assay, level {DEFAULT_LEVEL} | Otava, p 1e-3 | Otava, p 1e-4 | bar: at most 10 % |\n| --- | --- | --- | --- | --- |"
    );
    for noise in Noise::ALL {
        let all = stepped(series, noise, 0.0);
        let assay = Share::count(&all, |one| !assay_indices(&one.values, Rule::new(Scale::Raw), one.seed).is_empty());
        let [usual, strict] = [OTAVA, 1e-4].map(|p| Share::count(&all, |one| !otava_indices(&one.values, p).is_empty()));
        println!("| {} | {assay} | {usual} | {strict} | {} |", noise.name(), format_bar(assay.bounds()[1] <= 0.1));
    }
    println!();
}

fn lengths(series: u64) {
    println!("The same for Assay at other lengths (two windows and more from 101 points on):\n");
    println!("| noise | 12 | 20 | 50 | 200 | 500 |\n| --- | --- | --- | --- | --- | --- |");
    for noise in Noise::ALL {
        let cell = |n: usize| {
            let numbers: Vec<u64> = (0..series).collect();
            let raises = |&number: &u64| {
                !assay_indices(&Generator::new(number).series(noise, n), Rule::new(Scale::Raw), seed(number)).is_empty()
            };
            Share::count(&numbers, raises).to_string()
        };
        println!("| {} | {} |", noise.name(), [12, 20, 50, 200, 500].map(cell).join(" | "));
    }
    println!();
}

/// Autocorrelations of unchanged series.
const AUTOCORRELATIONS: [f64; 7] = [0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95];
const LENGTHS: [usize; 6] = [12, 20, 50, LENGTH, 200, 500];

/// Counts the series in which any point is raised, and those in which a change is reported as indistinguishable from
/// autocorrelation.
fn autocorrelated(series: u64) {
    println!(
        "Unchanged AR(1) series that raise any point, percent (upper 99 % bound), and those with the result `cannot tell whether the level moved`, percent, {series} series a cell:\n"
    );
    println!("| autocorrelation | {} |\n| --- |{}", LENGTHS.map(|n| n.to_string()).join(" | "), " --- |".repeat(LENGTHS.len()));
    for phi in AUTOCORRELATIONS {
        let cell = |n: usize| {
            let search = |number| search(&Generator::new(number).autoregressive(n, phi), Rule::new(Scale::Raw), seed(number));
            let all: Vec<SearchResult> = (0..series).filter_map(|number| search(number).ok()).collect();
            let raised = Share::count(&all, |searched| !searched.points.is_empty());
            let refused = Share::count(&all, |searched| searched.points.is_empty() && !searched.ambiguous.is_empty());
            format!("{:.1} ({:.1}); {:.1}", raised.value() * 100.0, raised.bounds()[1] * 100.0, refused.value() * 100.0)
        };
        println!("| {phi} | {} |", LENGTHS.map(cell).join(" | "));
    }
    println!();
}

/// The points that one rule raised, and the true index.
struct RaisedPoints {
    points: Vec<usize>,
    at: usize,
}

impl RaisedPoints {
    fn is_located(&self) -> bool {
        self.points.iter().any(|point| point.abs_diff(self.at) <= NEAR)
    }

    fn nearest(&self) -> Option<usize> {
        self.points.iter().map(|point| point.abs_diff(self.at)).min()
    }
}

fn raise_points(all: &[KnownSeries], rule: impl Fn(&KnownSeries) -> Vec<usize>) -> Vec<RaisedPoints> {
    all.iter().map(|one| RaisedPoints { points: rule(one), at: one.at }).collect()
}

fn raised_by_assay(all: &[KnownSeries], rule: Rule) -> Vec<RaisedPoints> {
    raise_points(all, |one| assay_indices(&one.values, rule, one.seed))
}

fn raised_by_otava(all: &[KnownSeries], max_p: f64) -> Vec<RaisedPoints> {
    raise_points(all, |one| otava_indices(&one.values, max_p))
}

fn median_error(raised: &[RaisedPoints]) -> usize {
    let mut errors: Vec<usize> = raised.iter().filter_map(RaisedPoints::nearest).collect();
    errors.sort_unstable();
    errors.get(errors.len() / 2).copied().unwrap_or(0)
}

fn steps(series: u64) {
    println!(
        "One step in {LENGTH} points of AR(1) 0.6, anywhere in the middle 60 %; recall is the percentage with a point within {NEAR} of it:\n"
    );
    println!(
        "| step, SD | Assay: any point | recall | median error | points | Otava, p 1e-3: any point | recall | median error | points | bar: recall within 2 points of Otava's |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for step in [0.5, 1.0, 1.5, 2.0, 2.5, 3.0] {
        let all = stepped(series, Noise::Ar6, step);
        let (assay, otava) = (raised_by_assay(&all, Rule::new(Scale::Raw)), raised_by_otava(&all, OTAVA));
        let [ours, theirs] = [&assay, &otava].map(|raised| {
            let recall = Share::count(raised, RaisedPoints::is_located);
            let any = Share::count(raised, |one| !one.points.is_empty()).value() * 100.0;
            let points = raised.iter().map(|one| one.points.len()).sum::<usize>() as f64 / raised.len() as f64;
            (format!("{any:.1} | {recall} | {} | {points:.1}", median_error(raised)), recall.value())
        });
        let bar = if step < 2.0 { "(curve below)" } else { format_bar(ours.1 >= theirs.1 - 0.02) };
        println!("| {step} | {} | {} | {bar} |", ours.0, theirs.0);
    }
    println!();
}

/// A false-alarm rate with the recall at that rate.
type CurvePoint = (f64, f64);

fn curve(series: u64) {
    println!(
        "Recall (percent within {NEAR}) against false alarms (percent of unchanged series with any point), AR(1) 0.6, {LENGTH} points. Assay's is interpolated between its levels at Otava's rate of false alarms:\n"
    );
    println!(
        "| step, SD | Otava's p | false alarms | Otava's recall | Assay's recall | difference (99 % bounds) | bar: on or above |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    let none = stepped(series, Noise::Ar6, 0.0);
    let any = |raised: Vec<RaisedPoints>| Share::count(&raised, |one| !one.points.is_empty()).value();
    let our_alarms = OUR_CURVE.map(|level| any(raised_by_assay(&none, at_level(level))));
    let their_alarms = OTAVA_CURVE.map(|p| any(raised_by_otava(&none, p)));
    for step in [0.5, 1.0, 1.5] {
        let all = stepped(series, Noise::Ar6, step);
        let recall = |raised: Vec<RaisedPoints>| Share::count(&raised, RaisedPoints::is_located).value();
        let our_recall = OUR_CURVE.map(|level| recall(raised_by_assay(&all, at_level(level))));
        let ours: Vec<CurvePoint> = our_alarms.into_iter().zip(our_recall).collect();
        for (max_p, alarms) in OTAVA_CURVE.into_iter().zip(their_alarms) {
            let theirs = recall(raised_by_otava(&all, max_p));
            println!("{}", curve_row(step, max_p, (alarms, theirs), interpolate(&ours, alarms), series));
        }
    }
    println!();
}

fn curve_row(step: f64, max_p: f64, (alarms, theirs): CurvePoint, ours: f64, series: u64) -> String {
    // Taken as independent: the series are the same, which makes the true bounds narrower.
    let variance = (ours * (1.0 - ours) + theirs * (1.0 - theirs)) / series as f64;
    let (difference, reach) = (ours - theirs, normal::quantile(0.995) * variance.sqrt());
    let [low, high] = [difference - reach, difference + reach].map(|bound| bound * 100.0);
    let bar = if difference >= 0.0 {
        "met"
    } else if high >= 0.0 {
        "met within bounds"
    } else {
        "**missed**"
    };
    let percent = [alarms, theirs, ours, difference].map(|share| format!("{:.1}", share * 100.0));
    let [alarms, theirs, ours, difference] = percent;
    format!("| {step} | {max_p:e} | {alarms} | {theirs} | {ours} | {difference} ({low:.1} to {high:.1}) | {bar} |")
}

/// Interpolates the recall at a rate of false alarms, on straight lines between the points of a curve that begins at (0, 0) and
/// ends at (1, 1).
fn interpolate(curve: &[CurvePoint], alarms: f64) -> f64 {
    let from = std::iter::once((0.0, 0.0)).chain(curve.iter().copied());
    let to = curve.iter().copied().chain(std::iter::once((1.0, 1.0)));
    let between = from.zip(to).find(|(left, right)| (left.0..=right.0).contains(&alarms));
    between.map_or(0.0, |((x, y), (next_x, next_y))| y + (next_y - y) * (alarms - x) / (next_x - x).max(f64::EPSILON))
}

/// The number of points from which on a series is long enough to be watched.
const WATCHED_FROM: usize = 50;
/// The number of nights for which it is watched.
const NIGHTS: usize = 100;

/// Returns the nights, counted from 0, on which an issue is opened.
fn issues(values: &[f64], seed: [u8; 32]) -> Vec<(usize, usize)> {
    let told = replay_reports(values, WATCHED_FROM, Scale::Raw, Budget::default(), seed).unwrap_or_default();
    told.iter().map(|report| (report.after - WATCHED_FROM - 1, report.change.index)).collect()
}

fn appends(series: u64) {
    println!(
        "Nightly appends to an unchanged series ({NIGHTS} nights from {WATCHED_FROM} points on, {series} series a row, budget 0.05 over 100 appends):\n"
    );
    println!(
        "| noise | appends that open an issue, percent | series with any issue in {NIGHTS} nights, percent (99 % bounds) | bar: at most 1 % of appends |\n| --- | --- | --- | --- |"
    );
    for noise in Noise::ALL {
        let one = |number| issues(&Generator::new(number).series(noise, WATCHED_FROM + NIGHTS), seed(number)).len() as u64;
        let opened: Vec<u64> = (0..series).map(one).collect();
        let of_appends = Share { hits: opened.iter().sum(), of: series * NIGHTS as u64 };
        let of_series = Share::count(&opened, |&count| count > 0);
        // Appends of one series are not independent. The bound of the total is the bound of any issue, each counted as often as
        // on average.
        let bound = of_series.bounds()[1] * (of_appends.hits as f64 / of_series.hits.max(1) as f64).max(1.0) / NIGHTS as f64;
        println!(
            "| {} | {:.3} (at most {:.3}) | {of_series} | {} |",
            noise.name(),
            of_appends.value() * 100.0,
            bound * 100.0,
            format_bar(bound <= 0.01)
        );
    }
    println!();
}

fn delays(series: u64) {
    println!(
        "Nights until a step is reported (it comes with the first append; {series} series a row), percent of series reported within:\n"
    );
    println!("| noise | step, SD | 5 nights | 10 | 20 | 40 |\n| --- | --- | --- | --- | --- | --- |");
    for (noise, step) in [(Noise::Normal, 2.0), (Noise::Normal, 3.0), (Noise::Ar6, 2.0), (Noise::Ar6, 3.0)] {
        let first = |number| {
            let mut values = Generator::new(number).series(noise, WATCHED_FROM + 40);
            values.iter_mut().skip(WATCHED_FROM).for_each(|value| *value += 2.0 * step);
            let near = |&&(_, index): &&(usize, usize)| index.abs_diff(WATCHED_FROM) <= 2 * NEAR;
            issues(&values, seed(number)).iter().find(near).map_or(usize::MAX, |&(night, _)| night + 1)
        };
        let nights: Vec<usize> = (0..series).map(first).collect();
        let within = |limit: usize| format!("{:.0}", Share::count(&nights, |&night| night <= limit).value() * 100.0);
        println!("| {} | {step} | {} |", noise.name(), [5, 10, 20, 40].map(within).join(" | "));
    }
    println!();
}

/// The number of iterations of a process.
const ITERATIONS: usize = 200;

fn steady_states(series: u64) {
    println!("Steady state of {ITERATIONS} iterations whose noise is 2 % (lognormal 5 %; t: scale 2 %), percent:\n");
    println!(
        "| noise | flat: steady from 0, floor 0 | flat: steady from 0, floor 1 % | 40 slow ones (+10 %): start within 2 | no steady state where there is one |\n| --- | --- | --- | --- | --- |"
    );
    for noise in Noise::ALL {
        let start = |slow: usize, floor: f64| {
            let rule = steady::Rule { floor, ..steady::Rule::default() };
            move |number| {
                let mut values = Generator::new(number).series(noise, ITERATIONS);
                values.iter_mut().take(slow).for_each(|value| *value += 10.0);
                Samples::new(&values).ok().and_then(|samples| steady(&samples, rule).ok()).map(|found| found.start)
            }
        };
        let starts = |slow, floor| (0..series).map(start(slow, floor)).collect::<Vec<_>>();
        let (strict, flat, warmed) = (starts(0, 0.0), starts(0, steady::DEFAULT_FLOOR), starts(40, steady::DEFAULT_FLOOR));
        let percent = |share: Share| format!("{:.1}", share.value() * 100.0);
        let none = Share::count(&[flat.as_slice(), warmed.as_slice()].concat(), Option::is_none);
        println!(
            "| {} | {} | {} | {} | {} |",
            noise.name(),
            percent(Share::count(&strict, |&start| start == Some(0))),
            percent(Share::count(&flat, |&start| start == Some(0))),
            percent(Share::count(&warmed, |start| start.is_some_and(|start| start.abs_diff(40) <= 2))),
            percent(none),
        );
    }
    println!();
}

fn seconds() {
    const POINTS: usize = 10_000;
    println!("A history of {POINTS} points, AR(1) 0.6, with steps of 5 SD up and down (one core; bar: under 1 s):\n");
    println!("| true changes | found | seconds |\n| --- | --- | --- |");
    for changes in [0, 10, 20, 50] {
        let mut values = Generator::new(1).series(Noise::Ar6, POINTS);
        let length = POINTS / (changes + 1);
        values.iter_mut().enumerate().filter(|(place, _)| place / length % 2 == 1).for_each(|(_, value)| *value += 10.0);
        let begun = Instant::now();
        let found = assay_indices(&values, Rule::new(Scale::Raw), seed(0)).len();
        println!("| {changes} | {found} | {:.2} |", begun.elapsed().as_secs_f64());
    }
}
