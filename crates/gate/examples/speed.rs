//! The duration of a gate: 1,000 metrics of 20 trials a side, judged as one family, next to a Mann-Whitney test of each on the
//! same series.
//!
//!     cargo run --release -p assay-gate --example speed

use std::io::Write as _;
use std::time::Instant;

use assay_gate::rule::{Rules, Series, judge};
use assay_manifest::{BetterDirection, PairUnit};
use assay_stats::{Alternative, Samples, mann_whitney};

const METRICS: usize = 1_000;
const PAIRS: usize = 20;
/// The limit, in seconds.
const LIMIT_SECONDS: f64 = 2.0;

/// Returns a value with a ripple of a few percent that differs for every metric.
fn value(metric: usize, pair: usize, side: usize) -> f64 {
    100.0 + ((metric * 7_919 + pair * 104_729 + side * 1_299_709) % 1_009) as f64 / 200.0
}

fn main() {
    let family: Vec<Series> = (0..METRICS)
        .map(|metric| Series {
            better: BetterDirection::Lower,
            pairs: (0..PAIRS).map(|pair| [value(metric, pair, 0), value(metric, pair, 1)]).collect(),
            places: (0..PAIRS as u32).map(|round| [0, round]).collect(),
            learned: None,
        })
        .collect();
    let rules = Rules { q: 0.05, budget: 0.05, unit: PairUnit::Launch, both_ways: false };
    let begun = Instant::now();
    let judged = judge(&family, &rules).len();
    let gate = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let tested = family.iter().filter(|series| by_ranks(series)).count();
    let ranks = begun.elapsed().as_secs_f64();
    let text = format!(
        "gate of {judged} metrics x {PAIRS} trials a side: {gate:.3} s (bar {LIMIT_SECONDS} s), {:.2} x one Mann-Whitney test of each ({ranks:.4} s, {tested} \
         below 0.05)\n",
        gate / ranks
    );
    std::io::stdout().write_all(text.as_bytes()).expect("written");
}

fn by_ranks(series: &Series) -> bool {
    let side = |side: usize| Samples::new(&series.pairs.iter().map(|pair| pair[side]).collect::<Vec<_>>()).expect("samples");
    mann_whitney(&side(1), &side(0), Alternative::TwoSided).is_ok_and(|tested| tested.p < 0.05)
}
