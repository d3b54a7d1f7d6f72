//! How often the gate errs: false alarms, inconclusive verdicts and power over many kinds of noise, beside the rules that others use, on the
//! same series. Seeded: equal arguments print equal tables.
//!
//!     cargo run --release -p assay-gate --example calibration -- [GATES]
//!
//! Every gate judges 100 primary metrics with a budget of 5 % and q = 0.05. A trial has a spread of 3 % (standard deviation of its
//! logarithm). Bounds are one-sided 99 % bounds of Clopper and Pearson, found by bisection on the binomial distribution.

use std::fmt::Write as _;
use std::io::Write as _;

use assay_gate::rule::{Launches, Learned, Rules, Series, judge};
use assay_gate::size;
use assay_manifest::{Better, Outcome, PairUnit};
use assay_stats::{Alternative, Noise as Spread, Samples, benjamini_hochberg, mann_whitney, welch};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

const METRICS: usize = 100;
const SPREAD: f64 = 0.03;
const Q: f64 = 0.05;
const BUDGET: f64 = 0.05;
const MOST: usize = 60;
/// Earlier runs that noise is learned from, and their pairs.
const HISTORY: (usize, usize) = (10, 10);

/// How trials of one side differ.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Normal,
    Lognormal,
    Heavy,
    Bimodal,
    /// Six spreads over the run.
    Drift,
    /// Three tenths of a spread with every trial.
    GrowingDrift,
    /// First-order autoregression of 0.6.
    Autoregressive,
}

impl Shape {
    const ALL: [Self; 7] =
        [Self::Normal, Self::Lognormal, Self::Heavy, Self::Bimodal, Self::Drift, Self::GrowingDrift, Self::Autoregressive];

    fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Lognormal => "lognormal",
            Self::Heavy => "Student's t, 3",
            Self::Bimodal => "two modes",
            Self::Drift => "drift, 6 spreads a run",
            Self::GrowingDrift => "drift, 0.3 spreads a trial",
            Self::Autoregressive => "AR(1), 0.6",
        }
    }
}

/// How metrics of one trial go together.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Together {
    Apart,
    Alike,
    Blocks,
    Opposed,
}

impl Together {
    const ALL: [Self; 4] = [Self::Apart, Self::Alike, Self::Blocks, Self::Opposed];

    fn name(self) -> &'static str {
        match self {
            Self::Apart => "independent",
            Self::Alike => "0.9 alike",
            Self::Blocks => "ten blocks of 0.9",
            Self::Opposed => "half opposed",
        }
    }

    /// Which common part a metric has, how much of it, and with which sign.
    fn of(self, metric: usize) -> (usize, f64, f64) {
        match self {
            Self::Apart => (0, 0.0, 1.0),
            Self::Alike => (0, 0.9, 1.0),
            Self::Blocks => (metric / 10, 0.9, 1.0),
            Self::Opposed => (0, 0.9, if metric.is_multiple_of(2) { 1.0 } else { -1.0 }),
        }
    }
}

/// What a launch adds to all trials of its block.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Launch {
    spreads: f64,
    shared: bool,
}

struct Draw(ChaCha8Rng);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }

    fn normal(&mut self) -> f64 {
        assay_stats::normal::quantile(self.uniform())
    }

    fn flip(&mut self) -> bool {
        self.0.next_u32() & 1 == 1
    }

    /// One innovation with a standard deviation of 1.
    fn shaped(&mut self, shape: Shape) -> f64 {
        match shape {
            Shape::Heavy => {
                let z = self.normal();
                let chi: f64 = (0..3).map(|_| self.normal()).map(|x| x * x).sum();
                z / (chi / 3.0).sqrt() / 3.0_f64.sqrt()
            }
            Shape::Bimodal => {
                let mode = if self.uniform() < 0.3 { 2.0 } else { 0.0 };
                // Variance of the modes: 4 x 0.3 x 0.7; of the width: 1/16.
                (mode - 0.6 + 0.25 * self.normal()) / (0.84 + 0.0625_f64).sqrt()
            }
            // In logarithms, a right-skewed trial: an exponential of a normal of 0.5, centred and scaled.
            Shape::Lognormal => {
                let variance = 0.25_f64;
                let (mean, sd) = ((variance / 2.0).exp(), ((variance.exp() - 1.0) * variance.exp()).sqrt());
                ((0.5 * self.normal()).exp() - mean) / sd
            }
            _ => self.normal(),
        }
    }
}

/// A gate's values, as logarithms: `[metric][pair][side]`.
type Logs = Vec<Vec<[f64; 2]>>;

/// A run of `pairs` pairs whose order is drawn for every second pair and mirrored after it, as the plan orders them.
fn run(draw: &mut Draw, shape: Shape, together: Together, launch: Launch, unit: PairUnit, pairs: usize) -> Logs {
    let trials = 2 * pairs;
    let common = parts(draw, shape, if together == Together::Blocks { METRICS / 10 } else { 1 }, trials);
    let own = parts(draw, shape, METRICS, trials);
    let mut first = false;
    let order: Vec<bool> = (0..pairs)
        .map(|pair| {
            first = if pair % 2 == 0 { draw.flip() } else { !first };
            first
        })
        .collect();
    let shared = |draw: &mut Draw, metrics: usize| -> Vec<f64> {
        let one = draw.normal();
        (0..metrics).map(|_| SPREAD * launch.spreads * if launch.shared { one } else { draw.normal() }).collect()
    };
    let mut launches = [shared(draw, METRICS), shared(draw, METRICS)];
    let mut logs = vec![vec![[0.0; 2]; pairs]; METRICS];
    for pair in 0..pairs {
        if unit == PairUnit::Launch {
            launches = [shared(draw, METRICS), shared(draw, METRICS)];
        }
        for side in 0..2 {
            let trial = 2 * pair + usize::from((side == 0) != order[pair]);
            for metric in 0..METRICS {
                let (part, weight, sign) = together.of(metric);
                let noise = sign * (f64::sqrt(weight) * common[part][trial] + f64::sqrt(1.0 - weight) * own[metric][trial]);
                logs[metric][pair][side] = SPREAD * (noise + drift(shape, trial, trials)) + launches[side][metric];
            }
        }
    }
    logs
}

fn parts(draw: &mut Draw, shape: Shape, count: usize, trials: usize) -> Vec<Vec<f64>> {
    let series = |_| {
        let mut last = draw.shaped(shape);
        let mut next = |draw: &mut Draw| {
            let new = draw.shaped(shape);
            last = if shape == Shape::Autoregressive { 0.6 * last + 0.8 * new } else { new };
            last
        };
        (0..trials).map(|_| next(draw)).collect()
    };
    (0..count).map(series).collect()
}

fn drift(shape: Shape, trial: usize, trials: usize) -> f64 {
    match shape {
        Shape::Drift => 6.0 * trial as f64 / trials as f64,
        Shape::GrowingDrift => 0.3 * trial as f64,
        _ => 0.0,
    }
}

/// What a history of unchanged runs teaches.
fn learn(draw: &mut Draw, shape: Shape, together: Together, launch: Launch, unit: PairUnit) -> Vec<Option<Learned>> {
    let runs: Vec<Logs> = (0..HISTORY.0).map(|_| run(draw, shape, together, launch, unit, HISTORY.1)).collect();
    (0..METRICS)
        .map(|metric| {
            let groups: Vec<Vec<f64>> =
                runs.iter().map(|run| run[metric].iter().map(|pair| pair[1] - pair[0]).collect()).collect();
            let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
            let noise = Spread::of(&groups).expect("noise");
            Some(Learned { noise, launches: Some(launches_of(&groups, &noise)) })
        })
        .collect()
}

/// How shifts of whole unchanged runs differ beyond what their pairs explain.
fn launches_of(groups: &[&[f64]], noise: &Spread) -> Launches {
    let shifts: Vec<f64> = groups.iter().map(|group| group.iter().sum::<f64>() / group.len() as f64).collect();
    let between = shifts.iter().map(|shift| shift * shift).sum::<f64>() / shifts.len() as f64;
    let within = noise.sd * noise.sd / groups[0].len() as f64;
    // A shift is a difference of two launches.
    Launches { sd: ((between - within).max(0.0) / 2.0).sqrt(), n: groups.len() as u32 }
}

fn series(logs: &Logs, effect: impl Fn(usize) -> f64, learned: &[Option<Learned>]) -> Vec<Series> {
    let value = |metric: usize, pair: &[f64; 2]| [pair[0].exp(), (pair[1] + effect(metric)).exp()];
    let metrics = logs.iter().enumerate();
    metrics
        .map(|(metric, pairs)| Series {
            better: Better::Lower,
            pairs: pairs.iter().map(|pair| value(metric, pair)).collect(),
            learned: learned[metric],
        })
        .collect()
}

/// What became of many gates.
#[derive(Default)]
struct Tally {
    gates: u32,
    alarmed: u32,
    alarms: u32,
    inconclusive: u32,
    /// The others, in the order of [`RIVALS`].
    rivals: [u32; 3],
}

const RIVALS: [&str; 3] = ["means differ by 5 %", "t-test, 0.05", "Mann-Whitney, BH"];

impl Tally {
    fn count(&mut self, family: &[Series], rules: &Rules, with_rivals: bool) {
        let judged = judge(family, rules);
        let is = |outcome| judged.iter().filter(|judged| judged.outcome == outcome).count() as u32;
        self.gates += 1;
        self.alarms += is(Outcome::Regressed);
        self.alarmed += u32::from(is(Outcome::Regressed) > 0);
        self.inconclusive += u32::from(is(Outcome::Regressed) == 0 && is(Outcome::Inconclusive) > 0);
        if with_rivals {
            let fired = rivals(family);
            self.rivals.iter_mut().zip(fired).for_each(|(count, fired)| *count += u32::from(fired));
        }
    }

    fn share(&self, count: u32) -> f64 {
        100.0 * f64::from(count) / f64::from(self.gates.max(1))
    }
}

/// Whether each of the other rules would have raised any alarm.
fn rivals(family: &[Series]) -> [bool; 3] {
    let sides = |series: &Series| {
        [0, 1].map(|side| Samples::new(&series.pairs.iter().map(|pair| pair[side]).collect::<Vec<_>>()).expect("samples"))
    };
    let all: Vec<[Samples; 2]> = family.iter().map(sides).collect();
    let means = all.iter().any(|[baseline, candidate]| candidate.mean() > 1.05 * baseline.mean());
    let t = all
        .iter()
        .any(|[baseline, candidate]| welch(candidate, baseline, Alternative::Greater).is_ok_and(|tested| tested.p <= 0.05));
    let p: Vec<f64> = all
        .iter()
        .map(|[baseline, candidate]| mann_whitney(candidate, baseline, Alternative::Greater).map_or(1.0, |tested| tested.p))
        .collect();
    [means, t, benjamini_hochberg(&p).iter().any(|p| *p <= 0.05)]
}

/// The one-sided 99 % upper bound of a share.
fn upper(count: u32, of: u32) -> f64 {
    if count >= of {
        return 1.0;
    }
    // P(X <= count) at share s, summed from the likeliest term down in logarithms.
    let below = |s: f64| {
        let mut term = f64::from(of) * (1.0 - s).ln();
        let mut total = term.exp();
        for k in 1..=count {
            term += (f64::from(of - k + 1) / f64::from(k)).ln() + (s / (1.0 - s)).ln();
            total += term.exp();
        }
        total
    };
    let (mut low, mut high) = (f64::from(count) / f64::from(of), 1.0 - 1e-9);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if below(middle) > 0.01 { low = middle } else { high = middle }
    }
    high
}

fn main() {
    let gates: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let mut page = std::io::stdout();
    for unit in [PairUnit::Pair, PairUnit::Launch] {
        for spreads in [0.0, 0.3, 1.0, 3.0] {
            for shared in if spreads == 0.0 { vec![false] } else { vec![false, true] } {
                let mut out = String::new();
                table(&mut out, gates, unit, Launch { spreads, shared });
                page.write_all(out.as_bytes()).and_then(|()| page.flush()).expect("written");
            }
        }
    }
}

fn table(out: &mut String, gates: u32, unit: PairUnit, launch: Launch) {
    let whose = match unit {
        PairUnit::Pair => "both sides stay up",
        PairUnit::Launch => "every pair is launched anew",
    };
    let how = if launch.shared { "shared by all metrics" } else { "of each metric by itself" };
    let _ = writeln!(out, "\n#### {whose}; a launch adds {} spreads, {how}\n", launch.spreads);
    let _ = writeln!(
        out,
        "| noise | metrics | pairs | any false alarm, % (99 % bound) | inconclusive, % | lone 10 %: found, % | a quarter 10 %: found, % | {} |",
        RIVALS.join(" | ")
    );
    let _ = writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let rules = Rules { q: Q, budget: BUDGET, unit };
    let none = vec![None; METRICS];
    for (number, shape) in (0_u64..).zip(Shape::ALL) {
        for (other, together) in (0_u64..).zip(Together::ALL) {
            let seed = number * 1_000 + other * 100 + (launch.spreads * 10.0) as u64 * 10 + u64::from(launch.shared);
            let mut draw = Draw::new(seed);
            let learned = learn(&mut draw, shape, together, launch, unit);
            let planned = size(&learned, &rules, MOST);
            let mut designs = vec![(5, "5".to_owned(), &none), (12, "12".to_owned(), &none), (20, "20".to_owned(), &none)];
            match planned {
                Ok(size) => designs.insert(0, (size.pairs, format!("{} planned", size.pairs), &learned)),
                Err(_) => designs.insert(0, (0, "refused".to_owned(), &learned)),
            }
            for (pairs, text, learned) in designs.into_iter().filter(|(pairs, _, _)| *pairs > 0) {
                row(out, gates, (shape, together, launch, unit), (pairs, &text, learned), &rules, &mut draw);
            }
            if planned.is_err() {
                let _ = writeln!(out, "| {} | {} | refused | | | | | | | |", shape.name(), together.name());
            }
        }
    }
}

type Cell = (Shape, Together, Launch, PairUnit);

fn row(out: &mut String, gates: u32, cell: Cell, design: (usize, &str, &[Option<Learned>]), rules: &Rules, draw: &mut Draw) {
    let (shape, together, launch, unit) = cell;
    let (pairs, text, learned) = design;
    let planned = learned.iter().any(Option::is_some);
    let (mut null, mut lone, mut quarter) = (Tally::default(), Tally::default(), Tally::default());
    let effect = (1.0 + 2.0 * BUDGET).ln();
    for gate in 0..gates {
        let logs = run(draw, shape, together, launch, unit, pairs);
        null.count(&series(&logs, |_| 0.0, learned), rules, planned && gate < 300);
        if planned && gate < gates / 4 {
            lone.count(&series(&logs, |metric| if metric == 7 { effect } else { 0.0 }, learned), rules, false);
            quarter.count(&series(&logs, |metric| if metric % 4 == 0 { effect } else { 0.0 }, learned), rules, false);
        }
    }
    let power = |tally: &Tally, of: u32| {
        if tally.gates == 0 { String::new() } else { format!("{:.1}", tally.share(tally.alarms) / f64::from(of)) }
    };
    let rivals = null.rivals.map(|count| {
        if planned { format!("{:.0}", 100.0 * f64::from(count) / 300.0_f64.min(f64::from(gates))) } else { String::new() }
    });
    let _ = writeln!(
        out,
        "| {} | {} | {text} | {:.2} ({:.2}) | {:.1} | {} | {} | {} |",
        shape.name(),
        together.name(),
        null.share(null.alarmed),
        100.0 * upper(null.alarmed, null.gates),
        null.share(null.inconclusive),
        power(&lone, 1),
        power(&quarter, 25),
        rivals.join(" | "),
    );
}
