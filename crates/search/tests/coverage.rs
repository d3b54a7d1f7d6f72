//! The distance of the most load within the SLOs of a measured grid from the truth, and how often its interval holds it: a loss system of seven
//! places, of which Erlang's formula gives the share of good requests at each rate.

use assay_manifest::LoadKind;
use assay_search::{Bracket, Crossing, Load, MaxLoad, crossing, max_load};
use assay_stats::estimate;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

const SHARE: f64 = 0.99;
const TRIALS: usize = 5;
const GRIDS: u32 = 400;

/// The share of requests that a system of seven places of 8 ms each does not turn away (Erlang's loss formula).
fn good(rate: f64) -> f64 {
    let offered = rate * 0.008;
    let lost = (1..=7).fold(1.0, |lost, places| offered * lost / (f64::from(places) + offered * lost));
    1.0 - lost
}

fn truth() -> f64 {
    let (mut low, mut high) = (50.0, 2_000.0);
    while high - low > 0.01 {
        let middle = f64::midpoint(low, high);
        if good(middle) >= SHARE { low = middle } else { high = middle }
    }
    low
}

/// The results of many grids.
struct Simulated {
    /// The mean result over the truth.
    mean: f64,
    held: u32,
    conclusive: u32,
}

/// Simulates grids with a number of requests for each load and trial, around a bracket whose crossing is `off` times the truth.
fn simulate(requests: u32, off: f64) -> Simulated {
    let truth = truth();
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(requests));
    let mut unit = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let bracket = Bracket { meets: Load::Rate(truth), falls_short: Load::Rate(truth), crossing: truth * off };
    let loads: Vec<f64> = bracket.grid().into_iter().map(|load| if let Load::Rate(rate) = load { rate } else { 0.0 }).collect();
    let (mut sum, mut held, mut conclusive) = (0.0, 0, 0);
    for _ in 0..GRIDS {
        let mut trial = || -> Vec<(f64, f64)> {
            let seen = |load: &f64| {
                let share = good(*load);
                let met = (0..requests).filter(|_| unit() < share).count();
                (*load, met as f64 / f64::from(requests))
            };
            loads.iter().map(seen).collect()
        };
        let trials: Vec<_> = (0..TRIALS).map(|_| trial()).collect();
        let crossings: Vec<Crossing> = trials.iter().filter_map(|points| crossing(points, SHARE)).collect();
        if let Some(MaxLoad::Within(values)) = max_load(&crossings, LoadKind::Rate) {
            let found = estimate(&values, [0; 32]).expect("five numbers");
            let interval = found.interval.expect("five trials");
            sum += found.median / truth;
            held += u32::from(interval.low <= truth && truth <= interval.high);
            conclusive += 1;
        }
    }
    Simulated { mean: sum / f64::from(conclusive), held, conclusive }
}

#[test]
fn the_interval_of_the_most_load_holds_the_truth_nearly_as_often_as_it_claims() {
    println!("requests  grid at  mean / truth  intervals with the truth  conclusive");
    for (requests, off) in [(100, 1.0), (100, 0.97), (300, 1.0), (300, 0.97), (1_000, 1.0), (1_000, 0.97)] {
        let Simulated { mean, held, conclusive } = simulate(requests, off);
        let share = f64::from(held) / f64::from(conclusive);
        println!("{requests:8}  {off:7}  {mean:12.3}  {:22.1} %  {conclusive} of {GRIDS}", share * 100.0);
        // The interval of five trials claims 93.75 %. Exactly 99 of 100 meet the SLOs, so that few requests lift the crossing a little, and
        // the interval with it.
        assert!(share > 0.84, "{requests} requests: {held} of {conclusive}");
        assert!((mean - 1.0).abs() < 0.03, "{requests} requests: {mean}");
    }
}
