//! The cost of a scheduled request: `cargo run --release -p assay-schedule --example cost`.
//!
//! Prints nanoseconds per request, the best of five passes over a million: for the whole trial, for one of 16 shards (per own
//! request, walking the gaps of the others), and for the digest that every shard computes before it starts.

#![expect(clippy::print_stdout, reason = "an example that reports figures")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use assay_manifest::{
    ArrivalLaw, CacheMode, CaptureMode, Count, Digest, LengthLaw, PointId, PromptSource, ServingApi, ServingWork, Tokenizer,
};
use assay_schedule::{Nonce, OfferedLoad, Phase, PointKey, ScheduleError, Seed, Stripe, TrialKey, TrialSchedule};

const REQUESTS: u64 = 1_000_000;
const SHARDS: u32 = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let laws = [
        ("closed", ArrivalLaw::Closed),
        ("constant", ArrivalLaw::Constant),
        ("poisson", ArrivalLaw::Poisson),
        ("gamma 4", ArrivalLaw::Gamma { smoothness: 4.0 }),
        ("gamma 0.5", ArrivalLaw::Gamma { smoothness: 0.5 }),
    ];
    let stripe = Stripe::new(SHARDS - 1, SHARDS)?;
    println!("{:<10} {:>10} {:>14} {:>10}   ns per request", "arrivals", "whole", "one of 16", "digest");
    for (name, law) in laws {
        let schedule = schedule(law)?;
        let whole = best(|| schedule.requests(Phase::Measure).map(black_box).count() as u64);
        let striped = best(|| schedule.shard_requests(Phase::Measure, stripe).map(black_box).count() as u64);
        let digest = best(|| {
            black_box(schedule.digest());
            REQUESTS
        });
        println!("{name:<10} {whole:>10.1} {striped:>14.1} {digest:>10.1}");
    }
    Ok(())
}

fn best(pass: impl Fn() -> u64) -> f64 {
    let once = || {
        let start = Instant::now();
        let requests = pass();
        start.elapsed().as_nanos() as f64 / requests as f64
    };
    (0..5).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn schedule(arrival: ArrivalLaw) -> Result<TrialSchedule, ScheduleError> {
    let work = ServingWork {
        api: ServingApi::Chat,
        custom: None,
        model: "model".to_owned(),
        arrival,
        prompts: PromptSource::Synthetic { input: LengthLaw::Normal { mean: 480.0, stddev: 240.0 }, query: None, prefix: None },
        sessions: None,
        rate_profile: None,
        max_concurrency: None,
        cancel: None,
        over_saturation: None,
        stop_on_errors: None,
        scenario: None,
        connections: assay_manifest::ConnectionPolicy::Pooled,
        session_header: None,
        adapters: Vec::new(),
        output: Some(LengthLaw::Uniform { min: 100, max: 300 }),
        text: None,
        token_ids: None,
        images: None,
        image_files: None,
        exact_output: true,
        continuous_usage: false,
        batch: 1,
        body: BTreeMap::new(),
        extra_body: serde_json::Map::new(),
        requests: Some(Count(REQUESTS)),
        duration_ns: None,
        warmup_ns: Count(0),
        timeout_ns: Count(0),
        time_limit_ns: Count(0),
        cache: CacheMode::ColdSalt,
        streaming: true,
        capture: CaptureMode::None,
        slos: Vec::new(),
        tokenizer: Tokenizer {
            name: "common-words".to_owned(),
            digest: Digest::compute(b""),
            file: None,
            pattern: None,
            template: None,
        },
    };
    let (seed, workload) = (Seed::new([7; 32]), Digest::compute(b"workload"));
    let point = PointId::new("point").map_err(|_| ScheduleError::Endless)?;
    let key = TrialKey { point: PointKey { seed: &seed, workload: &workload, point: &point }, trial: 0, nonce: Nonce::new(1) };
    let offered =
        if arrival == ArrivalLaw::Closed { OfferedLoad::Concurrency { users: 8 } } else { OfferedLoad::Rate { per_s: 10_000.0 } };
    TrialSchedule::new(&work, offered, &key, None)
}
