//! The model by itself, in virtual time.

use assay_record::Record;
use assay_simulator::{
    Arrival, Channel, CoTenant, Engine, EngineConfig, Event, EventKind, Latency, Load, Model as _, PerRequest, Profile,
    RequestKey, Seed, SimulatedRequest, SlowRequests, Stall, simulate,
};
use proptest::prelude::*;

const MS: i64 = 1_000_000;

fn due(request: u64, offset_ns: i64, output_tokens: u32) -> SimulatedRequest {
    SimulatedRequest {
        offset_ns,
        request_id: u128::from(request) + 1,
        prompt_tokens: 8,
        output_tokens,
        ..SimulatedRequest::default()
    }
}

fn open(latency: &Latency, seed: &str, load: Vec<SimulatedRequest>) -> Vec<Record> {
    let seed: Seed = seed.parse().expect("a seed");
    simulate(Engine::new(PerRequest::new(latency.clone(), &seed)), seed, Load::Open(load)).collect()
}

fn h100() -> Latency {
    match Profile::H100x8b.engine() {
        EngineConfig::PerRequest(latency) => latency,
        EngineConfig::Batching(_) => panic!("a batch"),
    }
}

fn ms(count: u64) -> i64 {
    i64::try_from(count).expect("not so many") * MS
}

fn times(record: &Record) -> Vec<i64> {
    record.chunks.iter().map(|chunk| chunk.at_ns).collect()
}

#[test]
fn a_plan_without_jitter_is_sums() {
    let latency = Latency { ttft_ns: 100, prefill_per_token_ns: 5, itl_ns: 10, ..Latency::none() };
    let records = open(&latency, "1", vec![due(0, 7, 3)]);
    assert_eq!(times(&records[0]), [147, 157, 167]);
    assert_eq!((records[0].ttft_ns(), records[0].e2e_ns()), (Some(140), Some(160)));
    assert_eq!((records[0].output_tokens, records[0].finish_reason.as_deref()), (Some(3), Some("length")));
}

#[test]
fn who_waits_for_a_turn_has_its_first_token_so_much_later() {
    let latency = Latency { ttft_ns: 100, itl_ns: 10, max_num_seqs: 1, ..Latency::none() };
    let records = open(&latency, "1", vec![due(0, 0, 3), due(1, 5, 1), due(2, 6, 1)]);
    let all: Vec<_> = records.iter().map(|record| (record.global_index, times(record))).collect();
    assert_eq!(all, [(0, vec![100, 110, 120]), (1, vec![220]), (2, vec![320])]);
}

#[test]
fn load_stretches_times_by_how_many_run_beside() {
    let latency = Latency { ttft_ns: 100, itl_ns: 10, load_factor: 3.0, max_num_seqs: 3, ..Latency::none() };
    // Factor 1 alone, 2 with two, 3 with three.
    assert_eq!(times(&open(&latency, "1", vec![due(0, 0, 2)])[0]), [100, 110]);
    let records = open(&latency, "1", vec![due(0, 0, 2), due(1, 0, 2), due(2, 0, 2)]);
    let all: Vec<_> = records.iter().map(|record| (record.global_index, times(record))).collect();
    // The first was planned alone; its second token comes beside two others. Then each one that ends reduces the load of the
    // rest.
    assert_eq!(all, [(0, vec![100, 130]), (1, vec![200, 220]), (2, vec![300, 310])]);
}

#[test]
fn chunks_bring_their_tokens_when_the_last_of_them_is_due_and_keep_channels_apart() {
    let latency = Latency { ttft_ns: 100, itl_ns: 10, first_chunk_tokens: 2, tokens_per_chunk: 4, ..Latency::none() };
    let records = open(&latency, "1", vec![SimulatedRequest { reasoning_tokens: 5, ..due(0, 0, 12) }]);
    let chunks: Vec<_> = records[0].chunks.iter().map(|chunk| (chunk.at_ns, chunk.tokens)).collect();
    assert_eq!(chunks, [(100, Some(2)), (130, Some(3)), (170, Some(4)), (200, Some(3))]);
    assert_eq!((records[0].first_content_ns, records[0].first_event_tokens), (Some(170), Some(2)));
}

#[test]
fn a_cached_prefix_costs_no_prefill() {
    let latency = Latency { prefill_per_token_ns: 10, ..Latency::none() };
    let prompt = |request, offset_ns, blocks: &[u64]| SimulatedRequest {
        prompt_tokens: 40,
        prefix_blocks: blocks.to_vec(),
        ..due(request, offset_ns, 1)
    };
    let records = open(&latency, "1", vec![prompt(0, 0, &[1, 2]), prompt(1, 1_000, &[1, 2]), prompt(2, 2_000, &[1, 3])]);
    let seen: Vec<_> = records.iter().map(|record| (record.cached_tokens, record.ttft_ns())).collect();
    assert_eq!(seen, [(Some(0), Some(400)), (Some(32), Some(80)), (Some(16), Some(240))]);
    // The last token is never cached: it has to be computed for the first one of the response.
    let whole = |request, offset_ns| SimulatedRequest { prompt_tokens: 32, ..prompt(request, offset_ns, &[7, 8]) };
    assert_eq!(open(&latency, "1", vec![whole(0, 0), whole(1, 1_000)])[1].cached_tokens, Some(16));
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_another() {
    let latency = h100();
    let load: Vec<SimulatedRequest> = (0..200).map(|request| due(request, ms(3 * request), 20)).collect();
    let first = open(&latency, "1", load.clone());
    assert_eq!(first, open(&latency, "1", load.clone()));
    assert_ne!(first, open(&latency, "2", load));
}

#[test]
fn without_load_a_request_draws_the_same_wherever_it_comes() {
    let latency = Latency { load_factor: 1.0, ..h100() };
    let spans = |order: &[u64]| {
        let load = (0..).zip(order).map(|(place, request)| due(*request, ms(place), 10)).collect();
        let mut records = open(&latency, "1", load);
        records.sort_by_key(|record| record.request_id);
        let span = |record: &Record| times(record).iter().map(|at_ns| at_ns - record.sent_ns.expect("sent")).collect::<Vec<_>>();
        records.iter().map(span).collect::<Vec<_>>()
    };
    assert_eq!(spans(&[0, 1, 2, 3, 4, 5]), spans(&[5, 3, 1, 0, 2, 4]));
}

#[test]
fn a_profile_has_the_moments_that_it_states() {
    let latency = Latency { load_factor: 1.0, ..h100() };
    let load: Vec<SimulatedRequest> = (0..40_000).map(|request| due(request, 0, 2)).collect();
    let latency = Latency { max_num_seqs: 1_000_000, ..latency };
    let records = open(&latency, "1", load);
    let moments = |values: Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    };
    let in_ms = |ns: Option<i64>| ns.expect("a time") as f64 / MS as f64;
    let between = |record: &Record| Some(record.last_token_ns? - record.first_token_ns?);
    let (mean, deviation) = moments(records.iter().map(|record| in_ms(record.ttft_ns())).collect());
    // 100 and 20 ms; the standard error of the mean is 0.1 ms, that of the deviation of so long a tail near 1 ms.
    assert!((mean - 100.0).abs() < 0.5 && (deviation - 20.0).abs() < 2.0, "{mean} {deviation}");
    let (mean, deviation) = moments(records.iter().map(|record| in_ms(between(record))).collect());
    // 12 and 2 ms; standard errors 0.01 and 0.007 ms.
    assert!((mean - 12.0).abs() < 0.05 && (deviation - 2.0).abs() < 0.04, "{mean} {deviation}");
}

#[test]
fn a_stall_shows_in_open_loop_and_hides_in_closed_loop() {
    let latency = Latency { ttft_ns: MS, ..Latency::none() };
    let stalled = || {
        let mut engine = Engine::new(PerRequest::new(latency.clone(), &Seed::default()));
        engine.stall(Stall { at_ns: 1_000 * MS, for_ns: 500 * MS }).expect("a stall");
        engine
    };
    let slow =
        |records: Vec<Record>| records.iter().filter(|record| record.ttft_ns().is_some_and(|ttft_ns| ttft_ns > 10 * MS)).count();
    // One a millisecond: those that arrive in the first 490 ms of the stall wait for more than 10 ms, and so does the one before
    // it.
    let arrivals: Vec<SimulatedRequest> = (0..3_000).map(|request| due(request, ms(request), 1)).collect();
    assert_eq!(slow(simulate(stalled(), Seed::default(), Load::Open(arrivals)).collect()), 492);
    let requests: Vec<SimulatedRequest> = (0..3_000).map(|request| due(request, 0, 1)).collect();
    let closed = Load::Closed { clients: 1, requests };
    assert_eq!(slow(simulate(stalled(), Seed::default(), closed).collect()), 1);
}

#[test]
fn clients_of_a_closed_loop_send_after_each_response() {
    let latency = Latency { ttft_ns: 10, itl_ns: 1, ..Latency::none() };
    let requests: Vec<SimulatedRequest> = (0..7).map(|request| due(request, 0, 3)).collect();
    let engine = Engine::new(PerRequest::new(latency, &Seed::default()));
    let records: Vec<Record> = simulate(engine, Seed::default(), Load::Closed { clients: 3, requests }).collect();
    let sent: Vec<_> = records.iter().map(|record| (record.intended_ns, record.sent_ns, record.end_ns)).collect();
    let row = |sent: i64| (None, Some(sent), Some(sent + 12));
    assert_eq!(sent, [row(0), row(0), row(0), row(12), row(12), row(12), row(24)]);
}

#[test]
fn who_finds_the_queue_full_is_turned_away() {
    let latency = Latency { ttft_ns: 100, max_num_seqs: 1, ..Latency::none() };
    let engine = Engine::new(PerRequest::new(latency, &Seed::default()));
    let load = Load::Open(vec![due(0, 0, 1), due(1, 1, 1), due(2, 2, 1), due(3, 100, 1)]);
    let seen = simulate(engine, Seed::default(), load).with_max_waiting(1);
    let seen: Vec<_> = seen.map(|record| (record.global_index, record.http_status, record.end_ns)).collect();
    // The third finds one waiting; when the last one arrives, that one is running.
    assert_eq!(seen, [(2, Some(429), Some(2)), (0, Some(200), Some(100)), (1, Some(200), Some(200)), (3, Some(200), Some(300))]);
}

#[test]
fn every_time_of_a_slow_request_is_longer_by_the_factor() {
    let latency = Latency { ttft_ns: 1_000, ttft_jitter_ns: 300, ttft_jitter_sigma: 0.5, itl_ns: 100, ..Latency::none() };
    let slower = |factor, share| Latency { slow: SlowRequests { factor, share }, ..latency.clone() };
    let spans = |latency: &Latency| -> Vec<Vec<i64>> {
        let records = open(latency, "1", (0..1_000).map(|request| due(request, 0, 3)).collect());
        let gaps = |record: &Record| times(record).iter().scan(0, |last, at| Some(at - std::mem::replace(last, *at))).collect();
        let mut spans: Vec<(u64, Vec<i64>)> = records.iter().map(|record| (record.global_index, gaps(record))).collect();
        spans.sort_unstable();
        spans.into_iter().map(|(_, spans)| spans).collect()
    };
    let (as_is, doubled) = (spans(&latency), spans(&slower(2.0, 1.0)));
    let twice = |spans: &[i64]| spans.iter().map(|span| 2 * span).collect::<Vec<_>>();
    assert_eq!(doubled, as_is.iter().map(|spans| twice(spans)).collect::<Vec<_>>());
    // A share of them is slow as a whole, the rest as before.
    let slow = spans(&slower(2.0, 0.1)).into_iter().zip(&as_is).filter(|(now, before)| {
        assert!(now == *before || *now == twice(before));
        now != *before
    });
    let slow = slow.count();
    // Four standard errors: 4 x sqrt(1,000 x 0.1 x 0.9) = 38.
    assert!((62..=138).contains(&slow), "{slow}");
}

/// Returns the time to first token in each of the first episodes of 1,000 ns, at their beginning and towards their end.
fn beside_a_cotenant(share: f64, seed: &str, start_ns: i64) -> Vec<[i64; 2]> {
    let cotenant = CoTenant { factor: 1.5, share, episode_ns: 1_000 };
    let seed: Seed = seed.parse().expect("a seed");
    let mut engine = Engine::new(PerRequest::new(Latency { ttft_ns: 10, cotenant, ..Latency::none() }, &seed));
    engine.start(start_ns);
    let arrivals = (0..400).flat_map(|episode| [0, 900].map(|offset_ns| start_ns + 1_000 * episode + offset_ns));
    let load: Vec<SimulatedRequest> = (0..).zip(arrivals).map(|(request, offset_ns)| due(request, offset_ns, 1)).collect();
    let ttft: Vec<i64> = simulate(engine, seed, Load::Open(load)).map(|record| record.ttft_ns().expect("a token")).collect();
    ttft.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()
}

#[test]
fn a_cotenant_slows_whole_episodes_which_the_seed_draws() {
    let ttft = beside_a_cotenant(0.5, "1", 0);
    assert!(ttft.iter().all(|pair| [[10, 10], [15, 15]].contains(pair)));
    let slow = ttft.iter().filter(|[first, _]| *first == 15).count();
    // Four standard errors: 4 x sqrt(400 / 4) = 40.
    assert!((160..=240).contains(&slow), "{slow}");
    assert_ne!(ttft, beside_a_cotenant(0.5, "2", 0));
    assert_eq!(ttft, beside_a_cotenant(0.5, "1", 123_456), "episodes count from the start");
    assert!(beside_a_cotenant(0.0, "1", 0).iter().all(|pair| *pair == [10, 10]));
    assert!(beside_a_cotenant(1.0, "1", 0).iter().all(|pair| *pair == [15, 15]));
}

fn arrival(request: u64, output_tokens: u32, reasoning_tokens: u32) -> Arrival {
    let key = RequestKey::from_id(&Seed::default(), &request.to_string());
    Arrival { request, key, prompt_tokens: 20, output_tokens, reasoning_tokens, prefix_blocks: vec![request % 3] }
}

/// Returns the events, collected in steps of at most `step_ns`.
fn events(latency: &Latency, load: &[(i64, u32, u32, bool)], step_ns: i64) -> Vec<Event> {
    let mut model = PerRequest::new(latency.clone(), &Seed::default());
    let (mut events, mut now_ns) = (Vec::new(), 0);
    for (request, (gap_ns, output_tokens, reasoning_tokens, is_cancelled)) in load.iter().enumerate() {
        let at_ns = now_ns + gap_ns;
        while now_ns < at_ns {
            now_ns = at_ns.min(now_ns + step_ns);
            model.advance(now_ns, &mut events);
        }
        model.arrive(now_ns, arrival(request as u64, *output_tokens, *reasoning_tokens));
        if *is_cancelled {
            model.cancel(now_ns, request as u64 / 2);
        }
    }
    while let Some(at_ns) = model.next_ns() {
        model.advance(at_ns.max(now_ns), &mut events);
    }
    let occupancy = model.occupancy();
    assert_eq!((occupancy.running, occupancy.waiting, occupancy.kv_usage), (0, 0, 0.0));
    events
}

proptest! {
    #[test]
    fn whatever_comes_the_plan_is_orderly(
        load in proptest::collection::vec((0_i64..300, 0_u32..12, 0_u32..15, proptest::bool::weighted(0.2)), 1..60),
        max_num_seqs in 1_u32..5,
        tokens_per_chunk in 1_u32..4,
    ) {
        let latency = Latency {
            ttft_ns: 100, ttft_jitter_ns: 20, ttft_jitter_sigma: 0.5, itl_ns: 30, itl_jitter_ns: 10, load_factor: 2.0, max_num_seqs,
            tokens_per_chunk, vary_chunks: true, prefill_per_token_ns: 1, ..Latency::none()
        };
        let told = events(&latency, &load, i64::MAX / 4);
        // The events are the same for rare and for frequent calls.
        prop_assert_eq!(&told, &events(&latency, &load, 7));
        prop_assert!(told.is_sorted_by_key(|event| event.at_ns));
        let admitted: Vec<u64> =
            told.iter().filter(|event| matches!(event.kind, EventKind::Admitted { .. })).map(|event| event.request).collect();
        prop_assert!(admitted.is_sorted(), "first come, first served");
        for (request, (_, output_tokens, reasoning_tokens, _)) in load.iter().enumerate() {
            let own: Vec<EventKind> =
                told.iter().filter(|event| event.request == request as u64).map(|event| event.kind).collect();
            let sum = |wanted: Channel| -> u32 {
                let tokens = |kind: &EventKind| match kind {
                    EventKind::Chunk { tokens, channel } if *channel == wanted => *tokens,
                    _ => 0,
                };
                own.iter().map(tokens).sum()
            };
            let (content, reasoning) = (sum(Channel::Content), sum(Channel::Reasoning));
            if own.last() == Some(&EventKind::Finished) {
                prop_assert_eq!(content + reasoning, *output_tokens);
                prop_assert_eq!(reasoning, *reasoning_tokens.min(output_tokens));
            } else {
                prop_assert!(content + reasoning <= *output_tokens);
            }
            let is_empty = |kind: &EventKind| matches!(kind, EventKind::Chunk { tokens: 0, .. });
            prop_assert!(!own.iter().any(is_empty));
        }
    }
}
