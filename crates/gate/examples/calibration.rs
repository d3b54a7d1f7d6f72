//! The error rates of the gate: false alarms, inconclusive verdicts and power over many kinds of noise, next to rules in common
//! use on the same series. Seeded: equal arguments print equal tables.
//!
//!     cargo run --release -p assay-gate --example calibration -- [GATES [PART [METRICS]]]
//!
//! PART is a part of a cell's name in the debug format, such as `unit: Pair`: all cells take hours.
//!
//! Every gate judges 100 primary metrics, or METRICS of them, with a budget of 5 % and q = 0.05. A trial has a spread of 3 %
//! (standard deviation of its logarithm). Bounds are one-sided 99 % bounds of Clopper and Pearson, found by bisection on the
//! binomial distribution.
//!
//! A cell is a noise, a correlation of metrics, a launch effect and a design. It has its own histories, each of ten unchanged
//! runs of ten pairs; the gates use them in turn, so that the effect of a lucky history is counted too. A history that the
//! planner refuses is counted and plans nothing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use assay_gate::learning::note_dependence;
use assay_gate::rule::{
    BOUND_ALPHA, JudgedMetric, Launches, LearnedNoise, Rules, Series, floor, judge, logs as logs_of, unlearned_floor,
};
use assay_gate::size;
use assay_gate::stretch::{MetricPairs, detect_stretches};
use assay_manifest::{BetterDirection, Outcome, PairUnit};
use assay_stats::{
    Alternative, Averages, Differences, Limits, Noise as Spread, Samples, Side, benjamini_hochberg, dependence, mann_whitney,
    signed_rank, welch,
};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The number of metrics of a gate, unless the third argument gives another.
const METRICS: usize = 100;
const SPREAD: f64 = 0.03;
const Q: f64 = 0.05;
const BUDGET: f64 = 0.05;
const MOST: usize = 60;
/// The number of earlier runs from which noise is learned, and of their pairs.
const HISTORY: (usize, usize) = (10, 10);
/// The number of histories of a cell.
const HISTORIES: usize = 100;
/// The number of gates of a cell at fixed pairs whose alarms are compared with those of the whole rule; at the planner's n, all
/// are.
const CHECKED: u32 = 20;
/// The numbers of pairs of the designs that the planner did not choose.
const FIXED: [usize; 4] = [5, 8, 12, 20];
/// The other rules judge one gate in this many, with this many pairs.
const RIVALS_EVERY: u32 = 8;
const RIVALS_PAIRS: usize = 12;
/// The share of `q` of each look, and the pairs that each look adds.
const LOOKS: [f64; 3] = [0.5, 0.3, 0.2];
const LOOK_PAIRS: usize = 12;

static ASKED_METRICS: OnceLock<usize> = OnceLock::new();

/// The number of metrics of a gate.
fn metrics() -> usize {
    *ASKED_METRICS.get_or_init(|| METRICS)
}

/// Returns the number of metrics that [`is_of_a_quarter`] selects.
fn quarter() -> u32 {
    (0..metrics()).filter(|metric| is_of_a_quarter(*metric)).count() as u32
}

/// The distribution of the noise of trials of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Normal,
    Lognormal,
    Heavy,
    Bimodal,
    /// Six spreads over the run.
    Drift,
    /// Three tenths of a spread with every trial.
    GrowingDrift,
    /// Two spreads more in one half of the trials of this many pairs, in one stretch: in step with pairs.
    Periodic(usize),
    /// First-order autoregression of 0.6, from trial to trial.
    Autoregressive,
    /// One trial in fifty is ten times as slow.
    Spiky,
    /// Each side has its own autocorrelation, in percent, from pair to pair.
    Memory(u8),
    /// Whole spreads, so that many differences are tied.
    Ties,
    /// Six trials in ten have the very same value.
    Zeros,
}

impl Shape {
    const ALL: [Self; 15] = [
        Self::Normal,
        Self::Lognormal,
        Self::Heavy,
        Self::Bimodal,
        Self::Drift,
        Self::GrowingDrift,
        Self::Periodic(2),
        Self::Autoregressive,
        Self::Periodic(3),
        Self::Periodic(7),
        Self::Spiky,
        Self::Memory(80),
        Self::Memory(90),
        Self::Ties,
        Self::Zeros,
    ];

    /// Returns true if this shape is combined with `launch`: the first eight shapes are combined with every kind of launch, the
    /// others with two.
    fn is_combined_with(self, launch: Launch) -> bool {
        let place = Self::ALL.iter().position(|shape| *shape == self).unwrap_or_default();
        match launch.kind {
            LaunchKind::Normal => place < 8 || launch.spreads == 0.0 || ((0.5..2.0).contains(&launch.spreads) && !launch.shared),
            LaunchKind::Rare | LaunchKind::Skewed => matches!(self, Self::Normal | Self::Heavy),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Lognormal => "lognormal",
            Self::Heavy => "Student's t, 3",
            Self::Bimodal => "two modes",
            Self::Drift => "drift, 6 spreads a run",
            Self::GrowingDrift => "drift, 0.3 spreads a trial",
            Self::Periodic(2) => "a period of 2 pairs",
            Self::Periodic(3) => "a period of 3 pairs",
            Self::Periodic(_) => "a period of 7 pairs",
            Self::Autoregressive => "AR(1), 0.6",
            Self::Spiky => "spikes, 2 % of trials x 10",
            Self::Memory(80) => "sides AR(1), 0.8 a pair",
            Self::Memory(_) => "sides AR(1), 0.9 a pair",
            Self::Ties => "ties, whole spreads",
            Self::Zeros => "zeros, 60 % alike",
        }
    }
}

/// The correlation of the metrics of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Correlation {
    Independent,
    Common,
    Blocks,
    Opposed,
    Identical,
}

impl Correlation {
    const ALL: [Self; 5] = [Self::Independent, Self::Common, Self::Blocks, Self::Opposed, Self::Identical];

    /// Returns true if this correlation is combined with `shape`. The last one is for autocorrelated sides and for normal noise:
    /// the hardest case for a test of all metrics together.
    fn is_combined_with(self, shape: Shape) -> bool {
        self != Self::Identical || matches!(shape, Shape::Normal | Shape::Memory(_))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Common => "correlation 0.9",
            Self::Blocks => "ten blocks of 0.9",
            Self::Opposed => "half opposed",
            Self::Identical => "identical",
        }
    }

    /// Returns the index of a metric's common part, its weight and its sign.
    fn common_part(self, metric: usize) -> (usize, f64, f64) {
        match self {
            Self::Independent => (0, 0.0, 1.0),
            Self::Common => (0, 0.9, 1.0),
            Self::Blocks => (metric / 10, 0.9, 1.0),
            Self::Opposed => (0, 0.9, if metric.is_multiple_of(2) { 1.0 } else { -1.0 }),
            Self::Identical => (0, 1.0, 1.0),
        }
    }
}

/// The effect of a launch on all trials of its block.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Launch {
    spreads: f64,
    shared: bool,
    kind: LaunchKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LaunchKind {
    /// Normal with that standard deviation.
    Normal,
    /// Slower by that much in one launch in ten.
    Rare,
    /// Exponential with that standard deviation: never much faster, sometimes much slower.
    Skewed,
}

impl Launch {
    fn all() -> Vec<Self> {
        let mut all = vec![Self { spreads: 0.0, shared: false, kind: LaunchKind::Normal }];
        let kinds = [0.3, 1.0, 3.0].map(|spreads| (LaunchKind::Normal, spreads));
        for (kind, spreads) in kinds.into_iter().chain([(LaunchKind::Rare, 4.0), (LaunchKind::Skewed, 1.0)]) {
            all.extend([false, true].map(|shared| Self { spreads, shared, kind }));
        }
        all
    }

    fn draw(self, draw: &mut Generator) -> f64 {
        self.spreads
            * match self.kind {
                LaunchKind::Normal => draw.normal(),
                LaunchKind::Rare => f64::from(u8::from(draw.uniform() < 0.1)),
                LaunchKind::Skewed => -draw.uniform().ln() - 1.0,
            }
    }
}

struct Generator(ChaCha8Rng);

impl Generator {
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

    /// Draws an index below `count`.
    fn index_below(&mut self, count: usize) -> usize {
        (self.uniform() * count as f64) as usize
    }

    /// Draws one innovation with a standard deviation of 1.
    fn innovation(&mut self, shape: Shape) -> f64 {
        match shape {
            Shape::Heavy => {
                let z = self.normal();
                let chi: f64 = (0..3).map(|_| self.normal()).map(|x| x * x).sum();
                z / (chi / 3.0).sqrt() / 3.0_f64.sqrt()
            }
            Shape::Bimodal => {
                let mode = if self.uniform() < 0.3 { 2.0 } else { 0.0 };
                // The variance of the modes is 4 x 0.3 x 0.7, that of the width 1/16.
                (mode - 0.6 + 0.25 * self.normal()) / (0.84 + 0.0625_f64).sqrt()
            }
            // In logarithms, a right-skewed trial: the exponential of a normal with a standard deviation of 0.5, centred and
            // scaled.
            Shape::Lognormal => {
                let variance = 0.25_f64;
                let (mean, sd) = ((variance / 2.0).exp(), ((variance.exp() - 1.0) * variance.exp()).sqrt());
                ((0.5 * self.normal()).exp() - mean) / sd
            }
            Shape::Spiky if self.uniform() < 0.02 => self.normal() + 10_f64.ln() / SPREAD,
            Shape::Zeros if self.uniform() < 0.6 => 0.0,
            Shape::Zeros => self.normal() / 0.4_f64.sqrt(),
            _ => self.normal(),
        }
    }
}

/// The values of a gate, as logarithms: `[metric][pair][side]`.
type Logs = Vec<Vec<[f64; 2]>>;

/// Draws a run of `pairs` pairs in random order, each side first in half of them, as the plan orders them.
fn run(draw: &mut Generator, cell: &Cell, pairs: usize) -> Logs {
    let Cell { unit, launch, shape, correlation: together } = *cell;
    let trials = 2 * pairs;
    let common = parts(draw, shape, if together == Correlation::Blocks { metrics().div_ceil(10) } else { 1 }, trials);
    let own = parts(draw, shape, metrics(), trials);
    let order = balanced(draw, pairs);
    let shared = |draw: &mut Generator, metrics: usize| -> Vec<f64> {
        let one = launch.draw(draw);
        (0..metrics).map(|_| SPREAD * if launch.shared { one } else { launch.draw(draw) }).collect()
    };
    let mut launches = [shared(draw, metrics()), shared(draw, metrics())];
    let mut logs = vec![vec![[0.0; 2]; pairs]; metrics()];
    for pair in 0..pairs {
        if unit == PairUnit::Launch {
            launches = [shared(draw, metrics()), shared(draw, metrics())];
        }
        for side in 0..2 {
            let trial = 2 * pair + usize::from((side == 0) != order[pair]);
            // An autocorrelated side keeps its own sequence, independent of the order of the sides.
            let place = if matches!(shape, Shape::Memory(_)) { side * pairs + pair } else { trial };
            for metric in 0..metrics() {
                let (part, weight, sign) = together.common_part(metric);
                let noise = if matches!(shape, Shape::Spiky | Shape::Zeros) {
                    // For spikes, one part of a metric decides alone: a sum of parts would dilute them.
                    let is_common = weight > 0.0 && metric % 10 != 0;
                    sign * if is_common { common[part][place] } else { own[metric][place] }
                } else {
                    sign * (f64::sqrt(weight) * common[part][place] + f64::sqrt(1.0 - weight) * own[metric][place])
                };
                let noise = noise + drift(shape, trial, trials);
                let noise = if shape == Shape::Ties { noise.round() } else { noise };
                logs[metric][pair][side] = SPREAD * noise + launches[side][metric];
            }
        }
    }
    logs
}

/// Draws for each pair whether the candidate is first: in half of them, and in the odd one by a coin flip.
fn balanced(draw: &mut Generator, pairs: usize) -> Vec<bool> {
    let odd = draw.flip();
    let mut order: Vec<bool> = (0..pairs).map(|pair| (pair % 2 == 1) != odd).collect();
    for last in (1..pairs).rev() {
        order.swap(last, draw.index_below(last + 1));
    }
    order
}

fn parts(draw: &mut Generator, shape: Shape, count: usize, trials: usize) -> Vec<Vec<f64>> {
    let series = |_| {
        let mut last = draw.innovation(shape);
        let mut next = |draw: &mut Generator, trial: usize| {
            let new = draw.innovation(shape);
            last = match shape {
                Shape::Autoregressive => 0.6 * last + 0.8 * new,
                // The second half of the trials is the other side's.
                Shape::Memory(percent) if trial != trials / 2 => {
                    let memory = f64::from(percent) / 100.0;
                    memory * last + (1.0 - memory * memory).sqrt() * new
                }
                _ => new,
            };
            last
        };
        (0..trials).map(|trial| next(draw, trial)).collect()
    };
    (0..count).map(series).collect()
}

fn drift(shape: Shape, trial: usize, trials: usize) -> f64 {
    match shape {
        Shape::Drift => 6.0 * trial as f64 / trials as f64,
        Shape::GrowingDrift => 0.3 * trial as f64,
        Shape::Periodic(pairs) if (trial + 2 * pairs - pairs / 2) % (2 * pairs) < pairs => 2.0,
        _ => 0.0,
    }
}

/// Learns from a history of unchanged runs.
fn learn(draw: &mut Generator, cell: &Cell) -> Vec<Option<LearnedNoise>> {
    let runs: Vec<Logs> = (0..HISTORY.0).map(|_| run(draw, cell, HISTORY.1)).collect();
    let of_metric = |metric: usize| {
        let groups: Vec<Vec<f64>> = runs.iter().map(|run| differences(&run[metric])).collect();
        let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
        (LearnedNoise::from_runs(&groups).expect("ten runs"), dependence(&groups).expect("numbers"))
    };
    let mut all: Vec<_> = (0..metrics()).map(of_metric).collect();
    note_dependence(&mut all);
    all.into_iter().map(|(learned, _)| Some(learned)).collect()
}

/// Returns the differences as the gate computes them, so that ties stay ties.
fn differences(pairs: &[[f64; 2]]) -> Vec<f64> {
    logs_of(&series_of(pairs, None)).expect("values above zero")
}

fn series_of(pairs: &[[f64; 2]], learned: Option<LearnedNoise>) -> Series {
    Series {
        better: BetterDirection::Lower,
        pairs: pairs.iter().map(|pair| pair.map(f64::exp)).collect(),
        places: (0..pairs.len() as u32).map(|round| [0, round]).collect(),
        learned,
    }
}

fn series(logs: &Logs, learned: Option<&[Option<LearnedNoise>]>) -> Vec<Series> {
    let metrics = logs.iter().enumerate();
    metrics.map(|(metric, pairs)| series_of(pairs, learned.and_then(|learned| learned[metric]))).collect()
}

/// The counts of many gates.
#[derive(Clone, Copy, Default)]
struct Tally {
    gates: u32,
    alarmed: u32,
    alarms: u32,
    inconclusive: u32,
    /// Gates in which an alarm was refused because pairs are autocorrelated, or few of them may be.
    refused: u32,
    /// Alarms for metrics that changed.
    found: u32,
    /// The sum over gates of the share of false alarms among the alarms, and of its square.
    false_share: [f64; 2],
}

impl Tally {
    fn count(&mut self, Alarms { alarms, refused }: &Alarms, changed: impl Fn(usize) -> bool) {
        self.refused += u32::from(*refused);
        let raised = alarms.iter().filter(|is| **is).count() as u32;
        let found = (0..metrics()).filter(|metric| alarms[*metric] && changed(*metric)).count() as u32;
        let wrong = f64::from(raised - found) / f64::from(raised.max(1));
        self.gates += 1;
        self.alarms += raised;
        self.alarmed += u32::from(raised > 0);
        self.found += found;
        self.false_share = [self.false_share[0] + wrong, self.false_share[1] + wrong * wrong];
    }

    fn share(&self, count: u32) -> f64 {
        100.0 * f64::from(count) / f64::from(self.gates.max(1))
    }

    /// Returns the share of gates with any alarm, in percent.
    fn alarmed(&self) -> f64 {
        self.share(self.alarmed)
    }

    /// Returns the upper bound of the share of gates with any alarm, in percent.
    fn bound(&self) -> f64 {
        100.0 * upper_bound(self.alarmed, self.gates)
    }

    /// Returns the expected share of false alarms among the alarms and its 99 % upper bound (normal), in percent.
    fn false_discovery_rate(&self) -> [f64; 2] {
        let n = f64::from(self.gates.max(1));
        let mean = self.false_share[0] / n;
        let variance = (self.false_share[1] / n - mean * mean).max(0.0);
        [100.0 * mean, 100.0 * (mean + 2.326 * (variance / n).sqrt())]
    }

    fn text(&self) -> String {
        format!("{:.2} ({:.2})", self.alarmed(), self.bound())
    }

    /// Returns the mean number of alarms of the gates that raised any.
    fn mean_alarms(&self) -> String {
        if self.alarmed == 0 { "-".to_owned() } else { format!("{:.1}", f64::from(self.alarms) / f64::from(self.alarmed)) }
    }

    /// Returns the share of changed metrics that were found, with `changed` of them in a gate, in percent.
    fn found(&self, changed: u32) -> f64 {
        self.share(self.found) / f64::from(changed)
    }

    /// Returns that share with its lower bound if one metric changed: several would not be independent trials.
    fn found_text(&self) -> String {
        let missed = self.gates - self.found;
        format!("{:.1} ({:.1})", self.found(1), 100.0 * (1.0 - upper_bound(missed, self.gates)))
    }

    fn inconclusive(&self) -> f64 {
        self.share(self.inconclusive)
    }

    fn inconclusive_text(&self) -> String {
        format!("{:.1} ({:.1})", self.inconclusive(), 100.0 * upper_bound(self.inconclusive, self.gates))
    }
}

const RIVALS: [&str; 3] = ["means differ by 5 %", "t-test, 0.05", "Mann-Whitney, BH"];

/// Returns, for each of the other rules, true if it would have raised any alarm.
fn run_rivals(family: &[Series]) -> [bool; 3] {
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

/// Returns the one-sided 99 % upper bound of a share.
fn upper_bound(count: u32, of: u32) -> f64 {
    if count >= of {
        return 1.0;
    }
    // P(X <= count) at share s, summed upwards from k = 0, with each term as a logarithm.
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

/// One kind of noise under one design.
#[derive(Clone, Copy, Debug)]
struct Cell {
    unit: PairUnit,
    launch: Launch,
    shape: Shape,
    correlation: Correlation,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for unit in [PairUnit::Launch, PairUnit::Pair] {
            for launch in Launch::all() {
                for shape in Shape::ALL.into_iter().filter(|shape| shape.is_combined_with(launch)) {
                    let together = Correlation::ALL.into_iter().filter(|together| together.is_combined_with(shape));
                    cells.extend(together.map(|together| Self { unit, launch, shape, correlation: together }));
                }
            }
        }
        cells
    }

    fn rules(&self) -> Rules {
        Rules { q: Q, budget: BUDGET, unit: self.unit, both_ways: false }
    }

    fn title(&self) -> String {
        let whose = match self.unit {
            PairUnit::Pair => "both sides stay up",
            PairUnit::Launch => "every pair has launches of its own",
        };
        let Launch { spreads, shared, kind } = self.launch;
        if spreads == 0.0 {
            return format!("{whose}; launches are alike");
        }
        let whose_effect = if shared { "to all metrics alike" } else { "to each metric its own" };
        match kind {
            LaunchKind::Normal => format!("{whose}; a launch adds {spreads} spreads, {whose_effect}"),
            LaunchKind::Rare => format!("{whose}; one launch of ten adds {spreads} spreads, {whose_effect}"),
            LaunchKind::Skewed => format!("{whose}; a launch adds {spreads} spreads, skewed, {whose_effect}"),
        }
    }
}

/// The results of a cell.
struct CellResult {
    cell: Cell,
    /// The number of pairs that each accepted history plans.
    planned: Vec<usize>,
    /// The number of pairs that the planner would take if it knew the standard deviation; `None` if it would refuse.
    planned_if_known: Option<usize>,
    /// The number of pairs that the exact test needs under this very noise.
    exact_pairs: Option<usize>,
    null: Tally,
    lone: Tally,
    quarter: Tally,
    fixed: [FixedResult; 4],
    rivals: [u32; 3],
    asked: u32,
}

/// The results at a number of pairs that the planner did not choose.
#[derive(Clone, Copy, Default)]
struct FixedResult {
    null: Tally,
    lone: Tally,
}

impl FixedResult {
    fn text(&self) -> String {
        let refused = |tally: &Tally| format!("{:.1}", tally.share(tally.refused));
        let (null, lone) = (&self.null, &self.lone);
        format!("{}; {}; {}; {:.0}; {}", null.text(), refused(null), null.mean_alarms(), lone.found(1), refused(lone))
    }
}

fn is_lone(metric: usize) -> bool {
    metric == 7 % metrics()
}

fn is_of_a_quarter(metric: usize) -> bool {
    metric.is_multiple_of(4)
}

/// Runs the gates of a cell.
fn run_cell(cell: Cell, gates: u32, seed: u64) -> CellResult {
    let mut draw = Generator::new(seed);
    let rules = cell.rules();
    let histories: Vec<History> = (0..HISTORIES).map(|_| History::new(learn(&mut draw, &cell), &rules)).collect();
    let mut accepted: Vec<(&History, usize)> = histories.iter().filter_map(|history| Some((history, history.pairs?))).collect();
    let planned = accepted.iter().map(|(_, pairs)| *pairs).collect();
    // If most histories are refused, the planner refuses this noise.
    if 2 * accepted.len() < HISTORIES {
        accepted.clear();
    }
    let (planned_if_known, exact) = needed_pairs(&cell);
    let mut found = CellResult {
        cell,
        planned,
        planned_if_known,
        exact_pairs: exact,
        null: Tally::default(),
        lone: Tally::default(),
        quarter: Tally::default(),
        fixed: [FixedResult::default(); 4],
        rivals: [0; 3],
        asked: 0,
    };
    for gate in 0..gates {
        if let Some((history, pairs)) = accepted.get(gate as usize % accepted.len().max(1)) {
            let logs = run(&mut draw, &cell, *pairs);
            let judged = judge(&series(&logs, Some(&history.learned)), &rules);
            let family = Family::new(&logs, Some(&history.learned), &rules);
            let alarms = family.alarms();
            assert_eq!(alarms.alarms, regressed(&judged), "an alarm is the gate's");
            let is_inconclusive = judged.iter().any(|judged| judged.outcome == Outcome::Inconclusive);
            found.null.inconclusive += u32::from(is_inconclusive && !alarms.alarms.contains(&true));
            found.null.count(&alarms, |_| false);
            found.lone.count(&family.with_change(is_lone).alarms(), is_lone);
            found.quarter.count(&family.with_change(is_of_a_quarter).alarms(), is_of_a_quarter);
        }
        // If launches are drawn anew, a gate needs no history and is run without one.
        let history = &histories[gate as usize % HISTORIES];
        let learned = (cell.unit == PairUnit::Pair).then_some(history.learned.as_slice());
        for (fixed, pairs) in found.fixed.iter_mut().zip(FIXED) {
            let logs = run(&mut draw, &cell, pairs);
            let family = Family::new(&logs, learned, &rules);
            let alarms = family.alarms();
            if gate < CHECKED {
                assert_eq!(alarms.alarms, regressed(&judge(&series(&logs, learned), &rules)), "an alarm is the gate's");
            }
            fixed.null.count(&alarms, |_| false);
            fixed.lone.count(&family.with_change(is_lone).alarms(), is_lone);
            if pairs == RIVALS_PAIRS && gate % RIVALS_EVERY == 0 {
                found.asked += 1;
                let fired = run_rivals(&series(&logs, None));
                found.rivals.iter_mut().zip(fired).for_each(|(count, fired)| *count += u32::from(fired));
            }
        }
    }
    found
}

fn regressed(judged: &[JudgedMetric]) -> Vec<bool> {
    judged.iter().map(|judged| judged.outcome == Outcome::Regressed).collect()
}

/// The result of a history of unchanged runs.
struct History {
    learned: Vec<Option<LearnedNoise>>,
    /// The number of pairs that it plans, if the planner accepts it.
    pairs: Option<usize>,
}

impl History {
    fn new(learned: Vec<Option<LearnedNoise>>, rules: &Rules) -> Self {
        // One metric that no design can decide is a refusal here, because it would be inconclusive in every gate.
        let pairs = size(&learned, rules, MOST).ok().filter(|size| size.undecidable.is_empty()).map(|size| size.pairs);
        Self { learned, pairs }
    }
}

/// Returns the floor of each metric, which depends only on what was learned.
fn floors(learned: &[Option<LearnedNoise>], rules: &Rules) -> Vec<Option<f64>> {
    let threshold = 0.5 * rules.q / metrics() as f64;
    learned.iter().map(|learned| floor(rules.unit, learned.as_ref(), threshold).map(|floor| floor.log)).collect()
}

/// A gate's result for each metric.
struct Alarms {
    /// True for each metric that it calls regressed.
    alarms: Vec<bool>,
    /// True if there would be more alarms if pairs were not autocorrelated.
    refused: bool,
}

/// A gate's metrics, each tested by itself. Follows the gate's rule for alarms without computing the detectable change, which
/// takes most of its time. Its alarms are compared with those of the gate itself.
struct Family<'a> {
    rules: &'a Rules,
    tested: Vec<Arc<TestedMetric>>,
    /// True if earlier runs were available.
    is_taught: bool,
    /// The indices at which another run begins.
    breaks: Vec<usize>,
}

struct TestedMetric {
    differences: Differences,
    /// The p-value of a change for the worse, doubled because both directions are tested.
    p: f64,
    floor: FloorRule,
}

/// The source of a metric's floor.
#[derive(Clone, Copy)]
enum FloorRule {
    /// From a history, if it gave one.
    History(Option<f64>),
    /// From the gate's own noise.
    Unlearned,
}

#[derive(Clone, Copy, PartialEq)]
enum ClearanceOutcome {
    Yes,
    No,
    /// Yes if it were known that pairs are not autocorrelated.
    Unlearned,
}

impl TestedMetric {
    fn new(differences: &[f64], floor: FloorRule) -> Self {
        let differences = Differences::new(differences).expect("differences");
        let p = (2.0 * signed_rank(&differences, Side::Above).p).min(1.0);
        Self { differences, p, floor }
    }

    /// Tests that the change is beyond the budget and clears the floor; without a history, the floor is tested separately.
    fn beyond(&self, budget: f64) -> ClearanceOutcome {
        let averages = Averages::new(&self.differences);
        let clears = |floor: Option<f64>| averages.lower(BOUND_ALPHA).zip(floor).is_some_and(|(bound, floor)| bound > floor);
        match self.floor {
            _ if averages.shift() <= budget => ClearanceOutcome::No,
            FloorRule::History(floor) if clears(floor) => ClearanceOutcome::Yes,
            FloorRule::Unlearned if clears(self.floor_around(averages.shift())) => ClearanceOutcome::Yes,
            FloorRule::Unlearned if clears(Some(0.0)) => ClearanceOutcome::Unlearned,
            FloorRule::History(_) | FloorRule::Unlearned => ClearanceOutcome::No,
        }
    }

    /// Returns the floor of a gate without a history.
    fn floor_around(&self, shift: f64) -> Option<f64> {
        let differences = self.differences.samples().observed();
        let noise = Spread::from_group(shift, differences).ok()?;
        Some(unlearned_floor(noise.without_spikes().sd, differences.len()).log)
    }
}

impl<'a> Family<'a> {
    fn new(logs: &Logs, learned: Option<&[Option<LearnedNoise>]>, rules: &'a Rules) -> Self {
        let floors: Vec<FloorRule> = match learned {
            Some(learned) => floors(learned, rules).into_iter().map(FloorRule::History).collect(),
            None => vec![FloorRule::Unlearned; metrics()],
        };
        let tested = logs.iter().zip(floors).map(|(pairs, floor)| Arc::new(TestedMetric::new(&differences(pairs), floor)));
        Self { rules, tested: tested.collect(), is_taught: learned.is_some(), breaks: Vec::new() }
    }

    /// Returns the same family with the chosen metrics slower by twice the budget.
    fn with_change(&self, is_changed: fn(usize) -> bool) -> Self {
        let slower = |(metric, tested): (usize, &Arc<TestedMetric>)| {
            if !is_changed(metric) {
                return Arc::clone(tested);
            }
            let slower: Vec<f64> =
                tested.differences.samples().observed().iter().map(|log| log + self.rules.required_effect()).collect();
            Arc::new(TestedMetric::new(&slower, tested.floor))
        };
        let tested = self.tested.iter().enumerate().map(slower).collect();
        Self { tested, breaks: self.breaks.clone(), ..*self }
    }

    /// Returns the metrics that the gate would call regressed.
    fn alarms(&self) -> Alarms {
        let adjusted = benjamini_hochberg(&self.tested.iter().map(|tested| tested.p).collect::<Vec<_>>());
        let beyond = |(tested, adjusted): (&Arc<TestedMetric>, f64)| {
            if adjusted <= self.rules.q { tested.beyond(self.rules.log_budget()) } else { ClearanceOutcome::No }
        };
        let beyond: Vec<ClearanceOutcome> = self.tested.iter().zip(adjusted).map(beyond).collect();
        let worse: Vec<bool> = beyond.iter().map(|beyond| *beyond == ClearanceOutcome::Yes).collect();
        let is_unlearned = beyond.contains(&ClearanceOutcome::Unlearned);
        if !worse.contains(&true) {
            return Alarms { alarms: worse, refused: is_unlearned };
        }
        let pairs = |(tested, is_worse): (&Arc<TestedMetric>, &bool)| MetricPairs {
            differences: tested.differences.samples().observed().iter().copied().map(Some).collect(),
            shift: if *is_worse { Averages::new(&tested.differences).shift() } else { 0.0 },
            changed: is_worse.then_some(Side::Above),
            is_known: self.is_taught,
        };
        let pairs: Vec<MetricPairs> = self.tested.iter().zip(&worse).map(pairs).collect();
        let stretches = detect_stretches(&pairs, &self.breaks);
        let alarms = worse.into_iter().zip(&stretches).map(|(worse, is_stretch)| worse && !is_stretch).collect();
        Alarms { alarms, refused: is_unlearned || stretches.contains(&true) }
    }
}

/// Returns the number of pairs that the planner takes if it knows the true standard deviations, and the number that the exact
/// test needs under this very noise. The correlation of metrics affects neither.
fn needed_pairs(cell: &Cell) -> (Option<usize>, Option<usize>) {
    type Cache = Vec<((PairUnit, Shape, u64), (Option<usize>, Option<usize>))>;
    static CACHE: Mutex<Cache> = Mutex::new(Vec::new());
    let key = (cell.unit, cell.shape, cell.launch.spreads.to_bits());
    let kept = |known: &Cache| known.iter().find(|(of, _)| *of == key).map(|(_, needed)| *needed);
    if let Some(known) = kept(&CACHE.lock().expect("what is known")) {
        return known;
    }
    let found = search_needed_pairs(cell);
    CACHE.lock().expect("what is known").push((key, found));
    found
}

fn search_needed_pairs(cell: &Cell) -> (Option<usize>, Option<usize>) {
    let mut draw = Generator::new(u64::MAX);
    let rules = cell.rules();
    let alone = Cell { correlation: Correlation::Independent, launch: Launch { shared: false, ..cell.launch }, ..*cell };
    let mut sample = |pairs: usize| -> Vec<Vec<f64>> {
        let runs = (0..20).map(|_| run(&mut draw, &alone, pairs)).collect::<Vec<_>>();
        runs.iter().flat_map(|logs| logs.iter().map(|pairs| differences(pairs))).collect()
    };
    let groups = sample(20);
    let groups: Vec<&[f64]> = groups.iter().map(Vec::as_slice).collect();
    let noise = Spread::normal(Spread::from_groups(&groups).expect("noise").sd, 1e6);
    let noise = Spread { base: Spread::from_groups(&groups).expect("noise").base, ..noise };
    let launches = Some(Launches { sd: SPREAD * cell.launch.spreads, n: 1_000_000, largest: 0.0 });
    let learned = LearnedNoise { noise, launches, autocorrelation: None };
    let planned = size(&vec![Some(learned); metrics()], &rules, MOST).ok().map(|size| size.pairs);
    let floor = floor(rules.unit, Some(&learned), 0.5 * Q / metrics() as f64).map_or(0.0, |floor| floor.log);
    let limits = Limits { floor, budget: rules.log_budget() };
    let mut suffice = |pairs: &usize| {
        let mut needs: Vec<f64> = sample(*pairs).iter().map(|differences| needed_effect(differences, &limits)).collect();
        needs.sort_by(f64::total_cmp);
        needs[needs.len() * 4 / 5] <= rules.required_effect()
    };
    let exact = (12..=MOST).filter(|_| floor < rules.required_effect()).find(|pairs| suffice(pairs));
    (planned, exact)
}

/// Returns the smallest effect at which these differences would have raised an alarm.
fn needed_effect(differences: &[f64], limits: &Limits) -> f64 {
    let averages = Averages::new(&Differences::new(differences).expect("differences"));
    let bound = |alpha: f64| averages.lower(alpha).unwrap_or(f64::NEG_INFINITY);
    (-bound(0.5 * Q / metrics() as f64)).max(limits.floor - bound(BOUND_ALPHA)).max(limits.budget - averages.shift())
}

impl CellResult {
    fn header() -> String {
        let columns = [
            "noise",
            "metrics",
            "pairs planned",
            "planned if known, exact",
            "any false alarm",
            "alarms given one",
            "inconclusive",
            "lone 10 %: found",
            "quarter 10 %: found",
            "false among alarms",
        ];
        let mut columns: Vec<String> = columns.map(str::to_owned).to_vec();
        columns.extend(FIXED.map(|pairs| format!("at {pairs} pairs")));
        columns.extend(RIVALS.map(str::to_owned));
        format!("| {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len()))
    }

    /// Returns true if the planner accepts the noise: it accepts most of its histories.
    fn is_accepted(&self) -> bool {
        self.null.gates > 0
    }

    fn mean_planned(&self) -> f64 {
        self.planned.iter().sum::<usize>() as f64 / self.planned.len().max(1) as f64
    }

    /// Returns the tallies of the gates without a change, one for each number of pairs.
    fn unchanged(&self) -> Vec<Tally> {
        let all = std::iter::once(self.null).chain(self.fixed.iter().map(|fixed| fixed.null));
        all.filter(|tally| tally.gates > 0).collect()
    }

    /// Describes the acceptance limits that are missed.
    fn describe_missed_limits(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut bar = |holds: bool, what: String| {
            if !holds {
                missed.push(what);
            }
        };
        for (fixed, pairs) in self.fixed.iter().zip(FIXED) {
            bar(fixed.null.bound() <= 5.0, format!("false alarms at {pairs} pairs {}", fixed.null.text()));
        }
        if self.is_accepted() {
            bar(self.null.bound() <= 5.0, format!("false alarms {}", self.null.text()));
            bar(self.null.inconclusive() <= 10.0, format!("inconclusive {}", self.null.inconclusive_text()));
            let [share, _] = self.quarter.false_discovery_rate();
            bar(share <= 5.0, format!("false among alarms {share:.2} %"));
            // If launches are as large as the budget, a change has to clear more than the budget.
            if self.cell.unit == PairUnit::Launch || self.cell.launch.spreads == 0.0 {
                bar(self.lone.found(1) >= 80.0, format!("a lone one found {}", self.lone.found_text()));
                bar(self.quarter.found(quarter()) >= 80.0, format!("a quarter found {:.1}", self.quarter.found(quarter())));
                if let (Some(planned), Some(exact)) = (self.planned_if_known, self.exact_pairs) {
                    bar(2 * planned <= 3 * exact, format!("{planned} pairs where {exact} suffice"));
                }
            }
        }
        missed
    }

    fn row(&self) -> String {
        let number = |pairs: Option<usize>| pairs.map_or_else(|| "-".to_owned(), |pairs| pairs.to_string());
        let refused = HISTORIES - self.planned.len();
        let planned = match (self.planned.iter().min(), self.planned.iter().max()) {
            (Some(least), Some(most)) => format!("{:.1} ({least} to {most})", self.mean_planned()),
            _ => String::new(),
        };
        let refusals = if refused == 0 { String::new() } else { format!("refused {} %", 100 * refused / HISTORIES) };
        let planned = [planned, refusals].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        let [share, bound] = self.quarter.false_discovery_rate();
        let of_planned = if self.is_accepted() {
            vec![
                self.null.text(),
                self.null.mean_alarms(),
                self.null.inconclusive_text(),
                self.lone.found_text(),
                format!("{:.1}", self.quarter.found(quarter())),
                format!("{share:.2} ({bound:.2})"),
            ]
        } else {
            vec![String::new(); 6]
        };
        let mut columns = vec![self.cell.shape.name().to_owned(), self.cell.correlation.name().to_owned(), planned];
        columns.push(format!("{}, {}", number(self.planned_if_known), number(self.exact_pairs)));
        columns.extend(of_planned);
        columns.extend(self.fixed.iter().map(FixedResult::text));
        columns.extend(self.rivals.map(|count| format!("{:.0}", self.rival_share(count))));
        format!("| {} |\n", columns.join(" | "))
    }

    /// Returns the share of gates in which another rule raised an alarm, in percent.
    fn rival_share(&self, count: u32) -> f64 {
        100.0 * f64::from(count) / f64::from(self.asked.max(1))
    }
}

/// Runs gates that look again whatever they saw, each time at all pairs so far, and counts those in which any look raised an
/// alarm.
fn run_looks(cell: &Cell, gates: u32, seed: u64) -> [Tally; 3] {
    let mut draw = Generator::new(seed);
    let mut tallies = [Tally::default(); 3];
    for _ in 0..gates {
        let mut all: Logs = vec![Vec::new(); metrics()];
        let mut seen = vec![false; metrics()];
        for (share, tally) in LOOKS.into_iter().zip(&mut tallies) {
            run(&mut draw, cell, LOOK_PAIRS).into_iter().zip(&mut all).for_each(|(more, pairs)| pairs.extend(more));
            let rules = Rules { q: Q * share, ..cell.rules() };
            let breaks = (1..all[0].len() / LOOK_PAIRS).map(|look| look * LOOK_PAIRS).collect();
            let Alarms { alarms, refused } = Family { breaks, ..Family::new(&all, None, &rules) }.alarms();
            seen.iter_mut().zip(alarms).for_each(|(seen, alarm)| *seen |= alarm);
            tally.count(&Alarms { alarms: seen.clone(), refused }, |_| false);
        }
    }
    tallies
}

/// Formats the worst cells of each design, as a summary of all rows.
fn format_worst(all: &[CellResult]) -> String {
    let columns = [
        "design",
        "noises planned for",
        "any false alarm at the planner's n, worst",
        "at 5 to 20 pairs, worst",
        "inconclusive, worst",
        "lone 10 % found, least",
        "quarter found, least",
        "false among alarms, most",
    ];
    let columns: Vec<&str> = columns.into_iter().chain(RIVALS).collect();
    let mut out = format!("| {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len()));
    for design in all.chunk_by(|one, next| one.cell.title() == next.cell.title()) {
        let accepted: Vec<&CellResult> = design.iter().filter(|found| found.is_accepted()).collect();
        let most = |tallies: &mut dyn Iterator<Item = &Tally>| {
            tallies.max_by(|one, other| one.bound().total_cmp(&other.bound())).map(Tally::text).unwrap_or_default()
        };
        let extreme = |of: fn(&CellResult) -> f64, by: fn(f64, f64) -> f64, digits: usize| {
            let value = accepted.iter().map(|found| of(found)).reduce(by);
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let mut row = vec![
            design[0].cell.title(),
            format!("{} of {}", accepted.len(), design.len()),
            most(&mut accepted.iter().map(|found| &found.null)),
            most(&mut design.iter().flat_map(|found| &found.fixed).map(|fixed| &fixed.null)),
            extreme(|found| found.null.inconclusive(), f64::max, 1),
            extreme(|found| found.lone.found(1), f64::min, 1),
            extreme(|found| found.quarter.found(quarter()), f64::min, 1),
            extreme(|found| found.quarter.false_discovery_rate()[0], f64::max, 2),
        ];
        row.extend((0..RIVALS.len()).map(|rival| {
            let shares: Vec<f64> = design.iter().map(|found| found.rival_share(found.rivals[rival])).collect();
            let [least, most] = [f64::min, f64::max].map(|by| shares.iter().copied().reduce(by).unwrap_or_default());
            format!("{least:.0} to {most:.0}")
        }));
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
    out
}

/// Formats, for each design, whether false alarms stay within their limit: cells of independent pairs next to those of
/// autocorrelated sides.
fn format_limits(all: &[CellResult]) -> String {
    let columns = [
        "design",
        "sides",
        "noises",
        "false alarms, highest bound",
        "beyond 5 %",
        "refused as autocorrelated, most",
        "histories refused, most",
    ];
    let mut out = format!("| {} |\n|{}\n", columns.join(" | "), " --- |".repeat(columns.len()));
    for design in all.chunk_by(|one, next| one.cell.title() == next.cell.title()) {
        for (is_autocorrelated, sides) in [(false, "independent"), (true, "autocorrelated")] {
            let is_of = |found: &&CellResult| matches!(found.cell.shape, Shape::Memory(_)) == is_autocorrelated;
            let cells: Vec<&CellResult> = design.iter().filter(is_of).collect();
            if cells.is_empty() {
                continue;
            }
            let most = |of: &dyn Fn(&CellResult) -> f64| cells.iter().map(|found| of(found)).fold(0.0, f64::max);
            let of_tallies = |of: &dyn Fn(&Tally) -> f64| most(&|found| found.unchanged().iter().map(of).fold(0.0, f64::max));
            let beyond = cells.iter().filter(|found| found.unchanged().iter().any(|tally| tally.bound() > 5.0)).count();
            let row = [
                design[0].cell.title(),
                sides.to_owned(),
                cells.len().to_string(),
                format!("{:.2}", of_tallies(&Tally::bound)),
                beyond.to_string(),
                format!("{:.1}", of_tallies(&|tally| tally.share(tally.refused))),
                format!("{:.0}", most(&|found| (100 * (HISTORIES - found.planned.len()) / HISTORIES) as f64)),
            ];
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
    }
    out
}

/// Runs all jobs on as many threads as there are processors, and passes the results on in order.
fn run_in_order<T: Send>(jobs: usize, work: impl Fn(usize) -> T + Sync, mut then: impl FnMut(usize, T)) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, work) = (&next, &work);
            scope.spawn(move || {
                while let Some(job) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|job| *job < jobs) {
                    sender.send((job, work(job))).expect("somebody listens");
                }
            });
        }
        // The channel closes once every thread has ended, so the wait ends too.
        drop(sender);
        let mut waiting = std::collections::BTreeMap::new();
        let mut wanted = 0;
        while wanted < jobs {
            let (job, result) = receiver.recv().expect("a result");
            waiting.insert(job, result);
            while let Some(result) = waiting.remove(&wanted) {
                then(wanted, result);
                wanted += 1;
            }
        }
    });
}

fn print(text: &str) {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("written");
}

fn main() {
    let gates: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let only: Option<String> = std::env::args().nth(2);
    if let Some(asked) = std::env::args().nth(3).and_then(|text| text.parse().ok()).filter(|asked| *asked > 0) {
        ASKED_METRICS.set(asked).expect("nobody has asked yet");
    }
    // A cell's seed is its index among all cells, so that parts of the tables equal those of the whole.
    let is_asked = |(_, cell): &(u64, Cell)| only.as_ref().is_none_or(|only| format!("{cell:?}").contains(only.as_str()));
    let cells: Vec<(u64, Cell)> = (0_u64..).zip(Cell::all()).filter(is_asked).collect();
    print(&format!("{gates} gates of {} metrics a row. `docs/calibration.md` says how to read the tables.\n", metrics()));
    let mut missed = Vec::new();
    let mut all: Vec<CellResult> = Vec::new();
    run_in_order(
        cells.len(),
        |job| run_cell(cells[job].1, gates, cells[job].0),
        |_, found| {
            let mut out = String::new();
            let title = found.cell.title();
            if all.last().is_none_or(|last| last.cell.title() != title) {
                let _ = write!(out, "\n### {}{}\n\n{}", title[..1].to_uppercase(), &title[1..], CellResult::header());
            }
            let place = format!("{title}; {}; {}", found.cell.shape.name(), found.cell.correlation.name());
            missed.extend(found.describe_missed_limits().into_iter().map(|what| format!("{place}: {what}")));
            out.push_str(&found.row());
            print(&out);
            all.push(found);
        },
    );
    // Launches that are alike, and those for which a single look errs most.
    let is_extreme = |(_, cell): &&(u64, Cell)| {
        cell.unit == PairUnit::Launch && (cell.launch.spreads == 0.0 || cell.launch.spreads > 2.0 && !cell.launch.shared)
    };
    let extreme: Vec<(u64, Cell)> = cells.iter().filter(is_extreme).copied().collect();
    if !extreme.is_empty() {
        print(&format!(
            "\n### Three looks\n\n{LOOK_PAIRS} pairs more each time, with {} of q; whatever a look showed, the next one follows.\n\n\
             | design | noise | metrics | any false alarm after the first | after the second | after all |\n\
             | --- | --- | --- | --- | --- | --- |\n",
            LOOKS.map(|share| share.to_string()).join(", ")
        ));
    }
    run_in_order(
        extreme.len(),
        |job| run_looks(&extreme[job].1, gates, 1_000 + extreme[job].0),
        |job, tallies| {
            let cell = &extreme[job].1;
            let place = format!("{} | {} | {}", cell.title(), cell.shape.name(), cell.correlation.name());
            print(&format!("| {place} | {} |\n", tallies.each_ref().map(Tally::text).join(" | ")));
            if tallies[2].bound() > 5.0 {
                missed.push(format!("three looks; {place}: false alarms {}", tallies[2].text()));
            }
        },
    );
    print(&format!("\n### The worst of each design\n\n{}", format_worst(&all)));
    print(&format!(
        "\n### The bar of false alarms\n\nAt the planner's n and at 5, 8, 12 and 20 pairs, percent.\n\n{}",
        format_limits(&all)
    ));
    print_missed(&missed, cells.len() + extreme.len());
}

fn print_missed(missed: &[String], cells: usize) {
    print(&format!("\n### Bars missed\n\n{} in {cells} cells\n\n", missed.len()));
    for missed in missed {
        print(&format!("- {missed}\n"));
    }
}
