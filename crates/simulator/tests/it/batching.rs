//! The model with continuous batching, in virtual time.

use std::collections::BTreeMap;

use assay_record::Record;
use assay_simulator::{
    Arrival, Batching, BatchingConfig, Channel, CoTenant, Engine, Event, EventKind, Load, Model as _, RequestKey, Seed,
    SimulatedRequest, StepTime, simulate,
};
use proptest::prelude::*;

/// Steps of 1,000 and 16 tokens; 10 for each token of a prompt, 100 for each that decodes, 1 for each of context.
fn batch() -> BatchingConfig {
    let step =
        StepTime { base_ns: 1_000.0, prefill_token_ns: 10.0, decode_token_ns: 100.0, context_token_ns: 1.0, jitter_sigma: 0.0 };
    BatchingConfig {
        step,
        max_num_batched_tokens: 16,
        chunked_prefill: true,
        max_num_seqs: 8,
        speculative_tokens: 0,
        speculative_acceptance: 0.0,
        prefix_cache: false,
        block_tokens: 4,
        kv_blocks: 1_000,
        slow_factor: 1.0,
        cotenant: CoTenant::none(),
    }
}

/// Steps of 1,000, whatever they hold.
fn constant() -> BatchingConfig {
    let step = StepTime { prefill_token_ns: 0.0, decode_token_ns: 0.0, context_token_ns: 0.0, ..batch().step };
    BatchingConfig { step, ..batch() }
}

fn due(request: u64, offset_ns: i64, prompt_tokens: u32, output_tokens: u32) -> SimulatedRequest {
    SimulatedRequest {
        offset_ns,
        request_id: u128::from(request) + 1,
        prompt_tokens,
        output_tokens,
        ..SimulatedRequest::default()
    }
}

fn open(config: &BatchingConfig, load: Vec<SimulatedRequest>) -> Vec<Record> {
    let engine = Engine::new(Batching::new(config.clone(), &Seed::default()));
    let mut records: Vec<Record> = simulate(engine, Seed::default(), Load::Open(load)).collect();
    records.sort_by_key(|record| record.global_index);
    records
}

/// Returns the instants of the chunks of each request.
fn times(config: &BatchingConfig, load: Vec<SimulatedRequest>) -> Vec<Vec<i64>> {
    open(config, load).iter().map(|record| record.chunks.iter().map(|chunk| chunk.at_ns).collect()).collect()
}

#[test]
fn a_chunk_of_a_prompt_and_a_decode_share_a_step() {
    let seen = times(&batch(), vec![due(0, 0, 8, 4), due(1, 1, 20, 2)]);
    // 8 tokens of the first prompt; 15 of the second beside a decode after 8 tokens; 5 after 15 beside a decode after 9; two decodes.
    let ends = [1_080, 1_080 + 1_258, 2_338 + 1_174, 3_512 + 1_230];
    assert_eq!(seen, [ends.to_vec(), ends[2..].to_vec()]);
}

#[test]
fn who_comes_in_a_step_is_admitted_at_its_end() {
    let records = open(&constant(), vec![due(0, 0, 4, 2), due(1, 999, 4, 1), due(2, 1_000, 4, 1), due(3, 5_000, 4, 1)]);
    let first: Vec<_> = records.iter().map(|record| record.first_token_ns.expect("a token")).collect();
    // A step that begins at the very instant of an arrival does not have it; an idle engine begins a step at once.
    assert_eq!(first, [1_000, 2_000, 3_000, 6_000]);
}

#[test]
fn a_prefill_delays_the_decodes_beside_it_and_smaller_chunks_less() {
    let longest_gap = |times: &[i64]| times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("gaps");
    let beside = |max_num_batched_tokens| {
        let config = BatchingConfig { max_num_batched_tokens, ..batch() };
        let seen = times(&config, vec![due(0, 0, 8, 100), due(1, 20_000, 400, 1)]);
        (longest_gap(&seen[0]), seen[1][0])
    };
    let ((large, in_large), (small, in_small)) = (beside(1_024), beside(65));
    assert_eq!(longest_gap(&times(&batch(), vec![due(0, 0, 8, 100)])[0]), 1_000 + 100 + 106, "alone, at the end");
    // The other prompt is admitted beside a decode after 25 tokens: all of it, or 64 tokens, of which the sixth time is the longest.
    assert_eq!(large, 1_000 + 4_000 + 100 + 25);
    assert_eq!(small, 1_000 + 640 + 100 + 30 + 320);
    assert!(in_small > in_large, "the prompt itself takes longer: {in_small} {in_large}");
}

#[test]
fn a_prompt_that_is_not_cut_waits_for_a_step_with_room_or_gets_one_of_its_own() {
    let whole = BatchingConfig { chunked_prefill: false, ..batch() };
    let seen = times(&whole, vec![due(0, 0, 8, 3), due(1, 1, 40, 1)]);
    assert_eq!(seen, [vec![1_080, 2_480 + 1_108, 3_588 + 1_109], vec![1_080 + 1_400]]);
    // Of two prompts of 10 tokens a step has one; with chunks it has one and a half.
    let three = || vec![due(0, 0, 10, 1), due(1, 1, 10, 1), due(2, 2, 10, 1)];
    assert_eq!(times(&whole, three()), [[1_100], [2_200], [3_300]]);
    assert_eq!(times(&batch(), three()), [[1_100], [1_100 + 1_160], [2_260 + 1_046]]);
}

#[test]
fn without_a_free_block_the_last_admitted_is_preempted_and_computed_again() {
    // Six blocks of four tokens. Both prompts have two, and both requests need a fourth block for their 13th token.
    let config = BatchingConfig { kv_blocks: 6, ..constant() };
    let seen = times(&config, vec![due(0, 0, 8, 12), due(1, 0, 8, 12)]);
    let steps = |range: std::ops::RangeInclusive<i64>| range.map(|step| 1_000 * step).collect::<Vec<_>>();
    // The second is preempted at 5,000 with four tokens sent. Three blocks for its 12 tokens are free once the first is done.
    assert_eq!(seen, [steps(1..=12), [steps(2..=5), steps(13..=20)].concat()]);
    let mut model = Batching::new(config, &Seed::default());
    for request in 0..2 {
        model.arrive(0, arrival(request, 8, 12, 0));
    }
    let preempted: Vec<(i64, u64)> = drain(&mut model)
        .iter()
        .filter(|event| event.kind == EventKind::Preempted)
        .map(|event| (event.at_ns, event.request))
        .collect();
    assert_eq!(preempted, [(5_000, 1)]);
    assert_eq!(model.occupancy().preemptions, 1);
}

#[test]
fn who_was_preempted_comes_first_and_not_in_the_same_step() {
    let steps = |steps: &[i64]| steps.iter().map(|step| 1_000 * step).collect::<Vec<_>>();
    // As above, and two blocks are free at 6,000: enough for the third, but not for the second, which is before it.
    let config = BatchingConfig { kv_blocks: 6, ..constant() };
    assert_eq!(times(&config, vec![due(0, 0, 8, 12), due(1, 0, 8, 12), due(2, 4_500, 4, 1)])[2], [13_000]);
    // With four drafts, which are all wrong, each has four blocks at first, and needs a fifth for its 17th token, drafts included. At 5,000
    // that makes the second leave with 12 tokens, which have room at once, and begin again a step later. At 7,000 it needs two blocks more.
    let drafts = BatchingConfig { kv_blocks: 8, speculative_tokens: 4, max_num_batched_tokens: 64, ..constant() };
    let seen = times(&drafts, vec![due(0, 0, 8, 8), due(1, 0, 8, 8)]);
    assert_eq!(seen, [steps(&[1, 2, 3, 4, 5, 6, 7, 8]), steps(&[2, 3, 4, 5, 7, 9, 10, 11])]);
}

#[test]
fn what_is_computed_again_takes_its_time() {
    let step = StepTime { prefill_token_ns: 10.0, ..constant().step };
    let config = BatchingConfig { step, kv_blocks: 6, ..constant() };
    let seen = times(&config, vec![due(0, 0, 8, 12), due(1, 0, 8, 12)]);
    // Its prompt of 8 and the 4 tokens that it had sent.
    assert_eq!(seen[1][4] - seen[0][11], 1_120);
}

#[test]
fn a_request_waits_for_the_blocks_of_its_prompt() {
    let load = || vec![due(0, 0, 8, 5), due(1, 1, 8, 1), due(2, 2, 1, 1)];
    // With four blocks, the second would need two beside the three of the first, and the third waits behind it.
    let few = BatchingConfig { kv_blocks: 4, ..constant() };
    assert_eq!(times(&few, load())[1..], [[6_000], [6_000]]);
    assert_eq!(times(&constant(), load())[1..], [[2_000], [2_000]]);
    let one_place = BatchingConfig { max_num_seqs: 1, ..constant() };
    assert_eq!(times(&one_place, load())[1..], [[6_000], [7_000]]);
}

#[test]
fn a_request_that_never_fits_runs_alone_and_does_not_hang() {
    let config = BatchingConfig { kv_blocks: 2, ..constant() };
    assert_eq!(config.max_request_tokens(), 8);
    let seen = times(&config, vec![due(0, 0, 20, 2), due(1, 1, 8, 1)]);
    assert_eq!(seen, [vec![2_000, 3_000], vec![4_000]]);
}

#[test]
fn what_the_prefix_cache_has_is_not_computed() {
    let config = BatchingConfig { prefix_cache: true, max_num_batched_tokens: 64, ..batch() };
    let prompt = |request, offset_ns, prompt_tokens, blocks: &[u64]| SimulatedRequest {
        prefix_blocks: blocks.to_vec(),
        ..due(request, offset_ns, prompt_tokens, 1)
    };
    let load = vec![prompt(0, 0, 10, &[1, 2]), prompt(1, 5_000, 10, &[1, 2]), prompt(2, 10_000, 8, &[1, 2])];
    let records = open(&config, load);
    let seen: Vec<_> = records.iter().map(|record| (record.cached_tokens, record.ttft_ns())).collect();
    // The 8 tokens that are found are context. The last token of a prompt is always computed.
    assert_eq!(seen, [(Some(0), Some(1_100)), (Some(8), Some(1_028)), (Some(4), Some(1_044))]);
}

#[test]
fn steps_have_a_jitter_of_the_seed_and_are_longer_by_a_factor() {
    let sigma = 0.2;
    let jittered = BatchingConfig { step: StepTime { jitter_sigma: sigma, ..constant().step }, ..constant() };
    let gaps = |config: &BatchingConfig, seed: &str| -> Vec<i64> {
        let seed: Seed = seed.parse().expect("a seed");
        let engine = Engine::new(Batching::new(config.clone(), &seed));
        let records: Vec<Record> = simulate(engine, seed, Load::Open(vec![due(0, 0, 1, 4_000)])).collect();
        records[0].chunks.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns).collect()
    };
    let seen = gaps(&jittered, "1");
    assert_eq!(seen, gaps(&jittered, "1"));
    assert_ne!(seen, gaps(&jittered, "2"));
    // Four standard errors of the mean logarithm: 4 x 0.2 / sqrt(3,999).
    let mean = seen.iter().map(|gap| (*gap as f64 / 1_000.0).ln()).sum::<f64>() / seen.len() as f64;
    assert!(mean.abs() < 4.0 * sigma / 3_999_f64.sqrt(), "{mean}");
    let slow = BatchingConfig { slow_factor: 1.5, ..constant() };
    assert!(gaps(&slow, "1").iter().all(|gap| *gap == 1_500));
    let cotenant = CoTenant { factor: 2.0, share: 0.5, episode_ns: 100_000 };
    let beside = gaps(&BatchingConfig { cotenant, ..constant() }, "1");
    assert!(beside.iter().all(|gap| [1_000, 2_000].contains(gap)));
    assert!(beside.contains(&1_000) && beside.contains(&2_000));
}

/// Returns the tokens of the chunks of each request, without its first and its last, which the prompt and the length decide.
fn verified_tokens(config: &BatchingConfig, load: Vec<SimulatedRequest>) -> Vec<Vec<u32>> {
    let inner = |record: &Record| {
        let tokens: Vec<u32> = record.chunks.iter().map(|chunk| chunk.tokens.expect("tokens")).collect();
        tokens[1..tokens.len() - 1].to_vec()
    };
    open(config, load).iter().map(inner).collect()
}

#[test]
fn a_step_brings_as_many_tokens_as_drafts_are_accepted_and_one() {
    for (drafts, acceptance) in [(3, 0.7_f64), (5, 0.2), (1, 0.95), (4, 0.0), (2, 1.0)] {
        let config = BatchingConfig {
            speculative_tokens: drafts,
            speculative_acceptance: acceptance,
            max_num_batched_tokens: 1_000,
            kv_blocks: 100_000,
            ..constant()
        };
        let load = || (0..40).map(|request| due(request, 0, 4, 600)).collect::<Vec<_>>();
        let tokens = verified_tokens(&config, load());
        let all: Vec<f64> = tokens.concat().into_iter().map(f64::from).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|tokens| (tokens - mean).powi(2)).sum::<f64>() / all.len() as f64;
        // 1 + p + p^2 + .. + p^k, which is (1 - p^(k + 1)) / (1 - p).
        let expected: f64 = (0..=drafts).map(|accepted| acceptance.powf(accepted.into())).sum();
        let standard_error = (variance / all.len() as f64).sqrt();
        assert!((mean - expected).abs() <= 4.0 * standard_error + 1e-9, "{drafts} {acceptance}: {mean} {expected}");
        // A request draws the same, whatever runs beside it.
        assert_eq!(verified_tokens(&config, vec![load().remove(7)])[0], tokens[7]);
    }
}

#[test]
fn drafts_take_time_and_room_and_respect_the_channels() {
    let config = BatchingConfig { speculative_tokens: 3, speculative_acceptance: 1.0, ..batch() };
    let records = open(&config, vec![SimulatedRequest { reasoning_tokens: 3, ..due(0, 0, 8, 10) }]);
    let chunks: Vec<_> = records[0].chunks.iter().map(|chunk| (chunk.at_ns, chunk.tokens.expect("tokens"))).collect();
    // One token of the prompt's step, then four a step after 8, 12 and 16 tokens: of the first four, two are reasoning.
    assert_eq!(chunks, [(1_080, 1), (2_488, 2), (2_488, 2), (2_488 + 1_412, 4), (3_900 + 1_416, 1)]);
    assert_eq!(records[0].first_content_ns, Some(2_488));
    // 20 tokens of cache are 17 of a request and its drafts.
    assert_eq!(BatchingConfig { kv_blocks: 5, ..config }.max_request_tokens(), 17);
}

#[test]
fn who_leaves_frees_its_blocks_at_once_and_its_tokens_never_come() {
    let mut model = Batching::new(BatchingConfig { kv_blocks: 3, ..constant() }, &Seed::default());
    model.arrive(0, arrival(0, 8, 3, 0));
    model.arrive(1, arrival(1, 12, 1, 0));
    let mut events = Vec::new();
    model.advance(1_500, &mut events);
    assert_eq!((model.occupancy().running, model.occupancy().kv_usage), (1, 1.0));
    model.cancel(1_500, 0);
    assert_eq!((model.occupancy().running, model.occupancy().waiting, model.occupancy().kv_usage), (0, 1, 0.0));
    events.extend(drain(&mut model));
    let chunks: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Chunk { .. }))
        .map(|event| (event.at_ns, event.request))
        .collect();
    // The step under way ends at 2,000 all the same.
    assert_eq!(chunks, [(1_000, 0), (3_000, 1)]);
}

/// Beyond the capacity the throughput stays and the queue grows.
#[test]
fn throughput_has_a_knee_at_the_capacity_of_the_steps() {
    const SEQS: f64 = 64.0;
    const ISL: u32 = 64;
    const OSL: u32 = 32;
    // 64 sequences, each of which takes 32 steps: in each step two begin and 62 decode. So 2 x 64 + 62 tokens of 10 us and 1 ms make a step
    // of 2.9 ms, in which two requests are done.
    let per_step = SEQS / f64::from(OSL);
    let step_s = 1e-3 + 10e-6 * (per_step * f64::from(ISL) + SEQS - per_step);
    let capacity_per_s = per_step / step_s;
    assert!((capacity_per_s - 689.7).abs() < 0.1);
    let at = |share: f64| {
        let gap_ns = 1e9 / (capacity_per_s * share);
        let load = (0..6_000_u32).map(|request| due(request.into(), (f64::from(request) * gap_ns) as i64, ISL, OSL));
        let step =
            StepTime { base_ns: 1e6, prefill_token_ns: 1e4, decode_token_ns: 1e4, context_token_ns: 0.0, jitter_sigma: 0.0 };
        let config = BatchingConfig { step, max_num_batched_tokens: 512, max_num_seqs: 64, kv_blocks: 10_000, ..batch() };
        let records = open(&config, load.collect());
        let last_ns = records.iter().filter_map(|record| record.end_ns).max().expect("an end");
        let mut ttft_ns: Vec<i64> = records.iter().filter_map(Record::ttft_ns).collect();
        ttft_ns.sort_unstable();
        (6_000e9 / last_ns as f64, ttft_ns[3_000] as f64 / 1e6)
    };
    let (half, ttft_half_ms) = at(0.5);
    let (beyond, ttft_beyond_ms) = at(1.5);
    let (far_beyond, ttft_far_ms) = at(3.0);
    assert!((half / (0.5 * capacity_per_s) - 1.0).abs() < 0.02, "{half}");
    assert!((beyond / capacity_per_s - 1.0).abs() < 0.02, "{beyond}");
    assert!((far_beyond / capacity_per_s - 1.0).abs() < 0.02, "{far_beyond}");
    assert!(ttft_half_ms < 6.0, "{ttft_half_ms}");
    // The middle request comes when 3,000 have come and only two thirds, or one third, of them are served.
    let waits_ms = |share: f64| 3_000.0 / capacity_per_s * 1e3 * (1.0 - 1.0 / share);
    assert!((ttft_beyond_ms / waits_ms(1.5) - 1.0).abs() < 0.05, "{ttft_beyond_ms}");
    assert!((ttft_far_ms / waits_ms(3.0) - 1.0).abs() < 0.05, "{ttft_far_ms}");
}

fn arrival(request: u64, prompt_tokens: u32, output_tokens: u32, reasoning_tokens: u32) -> Arrival {
    let key = RequestKey::from_id(&Seed::default(), &request.to_string());
    Arrival { request, key, prompt_tokens, output_tokens, reasoning_tokens, prefix_blocks: vec![request % 3] }
}

/// Returns all events that are left.
fn drain(model: &mut Batching) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(at_ns) = model.next_ns() {
        model.advance(at_ns, &mut events);
    }
    events
}

/// A request of a random load: the gap before it, its tokens, and the number of a request that leaves then.
type RandomRequest = (i64, u32, u32, u32, Option<u64>);

/// Returns the events, collected in steps of at most `step_ns`.
fn events(config: &BatchingConfig, load: &[RandomRequest], step_ns: i64) -> Vec<Event> {
    let mut model = Batching::new(config.clone(), &Seed::default());
    let (mut events, mut now_ns) = (Vec::new(), 0);
    for (request, (gap_ns, prompt_tokens, output_tokens, reasoning_tokens, leaves)) in (0..).zip(load) {
        let at_ns = now_ns + gap_ns;
        while now_ns < at_ns {
            now_ns = at_ns.min(now_ns + step_ns);
            model.advance(now_ns, &mut events);
        }
        model.arrive(now_ns, arrival(request, *prompt_tokens, *output_tokens, *reasoning_tokens));
        if let Some(leaves) = leaves {
            model.cancel(now_ns, leaves % (request + 1));
        }
        let occupancy = model.occupancy();
        assert!(occupancy.kv_usage <= 1.0 && occupancy.running <= config.max_num_seqs);
    }
    events.extend(drain(&mut model));
    let occupancy = model.occupancy();
    assert_eq!((occupancy.running, occupancy.waiting, occupancy.kv_usage), (0, 0, 0.0));
    let preempted = events.iter().filter(|event| event.kind == EventKind::Preempted).count() as u64;
    assert!(preempted <= occupancy.preemptions, "those of requests that left are counted, too");
    events
}

proptest! {
    #[test]
    fn whatever_comes_every_request_ends_once_with_all_its_tokens(
        load in proptest::collection::vec(
            (0_i64..3_000, 1_u32..40, 0_u32..30, 0_u32..35, proptest::option::weighted(0.2, any::<u64>())), 1..60),
        max_num_seqs in 1_u32..9,
        // At least the 18 blocks of the longest request and its drafts.
        kv_blocks in 18_u32..60,
        chunked_prefill in any::<bool>(),
        speculative_tokens in 0_u32..3,
        jitter_sigma in prop_oneof![Just(0.0), Just(0.5)],
        prefix_cache in any::<bool>(),
    ) {
        let config = BatchingConfig {
            step: StepTime { jitter_sigma, ..batch().step },
            max_num_batched_tokens: 27, max_num_seqs, kv_blocks, chunked_prefill, speculative_tokens, speculative_acceptance: 0.6,
            prefix_cache, ..batch()
        };
        let told = events(&config, &load, i64::MAX / 4);
        // The events are the same for rare and for frequent calls.
        prop_assert_eq!(&told, &events(&config, &load, 7));
        prop_assert!(told.is_sorted_by_key(|event| event.at_ns));
        let admitted: Vec<u64> =
            told.iter().filter(|event| matches!(event.kind, EventKind::Admitted { .. })).map(|event| event.request).collect();
        prop_assert!(admitted.is_sorted_by(|a, b| a < b), "first come, first served, and once");
        let left: Vec<u64> = (0..).zip(&load).filter_map(|(request, (.., leaves))| Some((*leaves)? % (request + 1))).collect();
        for (request, (_, _, output_tokens, reasoning_tokens, _)) in (0..).zip(&load) {
            let mut sent = BTreeMap::from([(0, 0), (1, 0)]);
            let mut ends = 0;
            for event in told.iter().filter(|event| event.request == request) {
                prop_assert_eq!(ends, 0, "nothing follows the end");
                match event.kind {
                    EventKind::Chunk { tokens, channel } => {
                        prop_assert!(tokens > 0 && tokens <= speculative_tokens + 1);
                        *sent.entry(i32::from(channel == Channel::Reasoning)).or_default() += tokens;
                    }
                    EventKind::Finished => ends += 1,
                    EventKind::Admitted { .. } | EventKind::Preempted => {}
                }
            }
            if ends == 1 {
                prop_assert_eq!(sent[&0] + sent[&1], *output_tokens);
                prop_assert_eq!(sent[&1], *reasoning_tokens.min(output_tokens));
            } else {
                prop_assert!(left.contains(&request), "{} neither ends nor leaves", request);
                prop_assert!(sent[&0] + sent[&1] <= *output_tokens);
            }
        }
    }
}
