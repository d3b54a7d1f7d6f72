//! A search in virtual time: the simulator's engine serves each load, and a perfect client measures it. The true knee is that of a run
//! which is far longer than those of the search.

use assay_record::Record;
use assay_search::{Goal, Load, Observation, Rule, Step, next_step};
use assay_simulator::{Concern, Engine, Latency, PerRequest, RequestKey, Seed, SimulatedRequest, simulate};

/// The tokens of each prompt and of each response.
const TOKENS: (u32, u32) = (128, 16);

/// The requests of each load of the search: the first [`WARMUP`] of them are left out, as a warm-up is.
const REQUESTS: u32 = 4_000;
const WARMUP: usize = 500;

/// The requests of each load of the long run.
const LONG: u32 = 80_000;

/// The SLO on TTFT, about twice what an idle engine needs for 99 of 100 requests.
const TTFT_NS: i64 = 150_000_000;

/// An engine with 32 places: 40 ms to the first token, 10 ms to each later one, twice that when full; beyond, requests wait.
fn engine(seed: &Seed) -> Engine<PerRequest> {
    let latency = Latency {
        ttft_ns: 40_000_000,
        ttft_jitter_ns: 10_000_000,
        ttft_jitter_sigma: 0.5,
        itl_ns: 10_000_000,
        itl_jitter_ns: 2_000_000,
        load_factor: 2.0,
        max_num_seqs: 32,
        ..Latency::none()
    };
    Engine::new(PerRequest::new(latency, seed))
}

fn requests(seed: Seed, rate: Option<f64>, count: u32) -> impl Iterator<Item = SimulatedRequest> {
    let key = RequestKey::from_seed(&seed);
    let mut at_s = 0.0;
    (0..count).map(move |number| {
        if let Some(rate) = rate {
            // Independent arrivals: exponential gaps.
            at_s += -(1.0 - key.unit(Concern::Arrival, u64::from(number))).ln() / rate;
        }
        SimulatedRequest {
            offset_ns: (at_s * 1e9) as i64,
            request_id: u128::from(number) + 1,
            prompt_tokens: TOKENS.0,
            output_tokens: TOKENS.1,
            ..SimulatedRequest::default()
        }
    })
}

fn observe(seed: Seed, load: Load, count: u32, ttft_ns: i64) -> Observation {
    let records: Vec<Record> = match load {
        Load::Rate(rate) => {
            simulate(engine(&seed), seed, assay_simulator::Load::Open(requests(seed, Some(rate), count))).collect()
        }
        Load::Concurrency(clients) => {
            let load = assay_simulator::Load::Closed { clients, requests: requests(seed, None, count) };
            simulate(engine(&seed), seed, load).collect()
        }
    };
    let counted = &records[WARMUP..];
    let end = |record: &Record| record.end_ns.expect("ended");
    let start = |record: &Record| record.intended_ns.unwrap_or(record.sent_ns.expect("sent"));
    let good = counted.iter().filter(|record| record.first_token_ns.expect("a token") - start(record) <= ttft_ns).count();
    let seconds = (end(counted.last().expect("some")) - end(&counted[0])) as f64 / 1e9;
    let latency: f64 = counted.iter().map(|record| (end(record) - start(record)) as f64 / 1e9).sum();
    Observation {
        load,
        requests: counted.len() as u64,
        error_rate: 0.0,
        requests_per_s: counted.len() as f64 / seconds,
        mean_latency_s: latency / counted.len() as f64,
        good_fraction: Some(good as f64 / counted.len() as f64),
        over_saturated: false,
    }
}

fn seed(number: u32) -> Seed {
    format!("{number:x}").parse().expect("hexadecimal")
}

/// Searches with other draws for each observation.
fn search(rule: &Rule, number: u32, ttft_ns: i64) -> (Step, Vec<Observation>) {
    let mut seen: Vec<Observation> = Vec::new();
    loop {
        match next_step(rule, &seen) {
            Step::Observe(loads) => {
                for load in loads {
                    let draws = seed(number).mixed_with(&seen.len().to_string());
                    seen.push(observe(draws, load, REQUESTS, ttft_ns));
                }
            }
            end => return (end, seen),
        }
    }
}

/// The highest rate whose share of good requests meets the rule in a long run, to 0.4 %.
fn true_knee(rule: &Rule) -> f64 {
    let meets = |rate: f64| observe(seed(0xabc), Load::Rate(rate), LONG, TTFT_NS).good_fraction >= Some(rule.share);
    let (mut low, mut high) = (32.0, 128.0);
    assert!(meets(low) && !meets(high));
    while high > low * 1.004 {
        let middle = f64::midpoint(low, high);
        if meets(middle) { low = middle } else { high = middle }
    }
    low
}

#[test]
fn the_knee_is_found_within_five_percent_by_each_of_twenty_seeds() {
    let rule = Rule::new(Goal::MaxRate);
    let knee = true_knee(&rule);
    let check = |number| {
        let (end, seen) = search(&rule, number, TTFT_NS);
        let Step::Found(bracket) = end else { panic!("seed {number}: {end:?}") };
        let distance = bracket.crossing / knee - 1.0;
        println!(
            "seed {number:2}: {:.1} requests/s in {} loads, {:+.1} % from {knee:.1}",
            bracket.crossing,
            seen.len(),
            distance * 100.0
        );
        assert!(distance.abs() <= 0.05, "seed {number}: {bracket:?}, and the knee is at {knee}");
    };
    std::thread::scope(|scope| {
        for first in [1, 2] {
            scope.spawn(move || (first..=20).step_by(2).for_each(check));
        }
    });
}

#[test]
fn a_closed_loop_keeps_littles_law() {
    for clients in [1, 8, 32, 64] {
        let seen = observe(seed(7), Load::Concurrency(clients), REQUESTS, TTFT_NS);
        let deviation = seen.deviation_from_littles_law().expect("a closed loop");
        assert!(deviation.abs() < 0.02, "{clients}: {deviation}");
    }
}

#[test]
fn no_rate_is_found_where_even_one_request_is_too_slow() {
    // 40 ms and the jitter of any request are more than that.
    let (end, seen) = search(&Rule::new(Goal::MaxRate), 3, 41_000_000);
    assert_eq!(end, Step::NoneMet(Load::Concurrency(1)));
    assert!(seen.iter().all(|seen| matches!(seen.load, Load::Concurrency(_))), "no rate is tried");
}
