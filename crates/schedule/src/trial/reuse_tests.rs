//! The repeated beginnings of prompts, against hand-made sequences.

use assay_dataset::{FileRow, ImportRules, Row, RowContent, RowTime, RowWriter, TimeRules, TokenBlocks};
use assay_manifest::{History, PauseLaw, ReasoningHistory, ServingApi};

use super::tests::{Letters, RATE, USERS, closed, finish_import, schedule, synthetic, work};
use super::*;
use crate::{PrefixReuse, tokens_in_blocks};

fn prefixed(prefix: SharedPrefix) -> ServingWork {
    let prompts = PromptSource::Synthetic { input: LengthLaw::Uniform { min: 1, max: 9 }, query: None, prefix: Some(prefix) };
    ServingWork { prompts, ..work() }
}

fn talk(history: History) -> ServingWork {
    let sessions = Sessions {
        turns: Some(LengthLaw::Fixed { tokens: 3 }),
        think_time: PauseLaw::Fixed { ns: Count(1) },
        history,
        reasoning: ReasoningHistory::Drop,
        count: Some(Count(4)),
        play: assay_manifest::SessionPlay::default(),
    };
    let lengths = (synthetic(LengthLaw::Uniform { min: 10, max: 20 }), Some(LengthLaw::Fixed { tokens: 5 }));
    closed(ServingWork {
        prompts: lengths.0,
        output: lengths.1,
        sessions: Some(sessions),
        requests: None,
        duration_ns: None,
        warmup_ns: Count(0),
        ..work()
    })
}

fn new(work: &ServingWork, offered: OfferedLoad, index: Option<&Arc<Index>>) -> Result<PrefixReuse, String> {
    PrefixReuse::new(work, offered, index)
}

#[test]
fn a_prefix_is_repeated_once_it_was_sent() {
    let work = prefixed(SharedPrefix { system: 10, groups: 3, group: 6, zipf: 0.0 });
    let mut reuse = new(&work, RATE, None).expect("known");
    let mut seen: Vec<u32> = Vec::new();
    for request in schedule(&work, RATE).requests(Phase::Measure).take(50) {
        let group = request.group.expect("a group");
        let expected = if seen.contains(&group) { 16 } else { 10 * u32::from(!seen.is_empty()) };
        assert_eq!(reuse.repeated_tokens(&request), expected, "{group} after {seen:?}");
        seen.push(group);
    }
    assert!((0..3).all(|group| seen.contains(&group)));
}

#[test]
fn a_later_turn_repeats_the_prompt_of_the_turn_before() {
    let work = talk(History::Recorded);
    let mut reuse = new(&work, USERS, None).expect("known");
    let requests: Vec<ScheduledRequest> = schedule(&work, USERS).requests(Phase::Measure).collect();
    assert_eq!(requests.len(), 12);
    for (place, request) in requests.iter().enumerate() {
        let before = if place % 3 == 0 { 0 } else { requests[place - 1].input_tokens };
        assert_eq!(reuse.repeated_tokens(request), before);
        let own = request.turn.expect("a turn").own_tokens;
        // What is new is the response before, of 5 tokens, and the turn's own words.
        assert_eq!(request.input_tokens - before, own + if before == 0 { 0 } else { 5 });
    }
}

/// A trace of these blocks of 10 tokens, one row a second.
fn trace(rows: &[&[u64]]) -> (ServingWork, Arc<Index>) {
    let rules = ImportRules { times: Some(TimeRules::default()), ..ImportRules::UNLIMITED };
    let mut writer = RowWriter::new(rules, &Letters, Vec::new(), Vec::new()).expect("a writer");
    for (number, ids) in (1_u64..).zip(rows) {
        let tokens = 10 * ids.len() as u32 + 3;
        let blocks = TokenBlocks { tokens, size: 10, ids: ids.to_vec(), scope: None, messages: Vec::new() };
        let row = Row {
            output_tokens: Some(7),
            time: Some(RowTime { at_ns: number.cast_signed() * 1_000_000_000, session: None }),
            ..Row::new(RowContent::Blocks(blocks))
        };
        writer.write(number, Ok(FileRow::Request(row))).expect("a row");
    }
    let (work, index) = finish_import(writer);
    (ServingWork { arrival: ArrivalLaw::Recorded, requests: None, duration_ns: None, warmup_ns: Count(0), ..work }, index)
}

#[test]
fn a_trace_repeats_its_blocks() {
    let (work, index) = trace(&[&[1, 2, 3], &[1, 2, 4], &[2, 1], &[1, 2, 3]]);
    let replay = OfferedLoad::Replay { speed: 1.0 };
    let key = PointKey { seed: &Seed::new([7; 32]), workload: &Digest::compute(b"w"), point: &super::tests::point() };
    let key = TrialKey { point: key, trial: 0, nonce: super::tests::NONCE };
    let schedule = TrialSchedule::new(&work, replay, &key, Some(&index)).expect("a schedule");
    let mut reuse = new(&work, replay, Some(&index)).expect("known");
    let repeated: Vec<u32> = schedule.requests(Phase::Measure).map(|request| reuse.repeated_tokens(&request)).collect();
    assert_eq!(repeated, [0, 20, 0, 30]);
    let refused = new(&work, USERS, Some(&index)).expect_err("another order");
    assert_eq!(refused, "the rows of the trace are not sent in its order");
}

#[test]
fn what_is_not_known_is_said() {
    let prefix = SharedPrefix { system: 10, groups: 1, group: 0, zipf: 0.0 };
    let why = |work: ServingWork| new(&work, RATE, None).expect_err("not known");
    insta::assert_snapshot!(why(work()), @"no two prompts begin alike, by the plan");
    insta::assert_snapshot!(why(talk(History::Live)), @"with live history, what a turn repeats depends on the responses");
    insta::assert_snapshot!(why(ServingWork { cache: CacheMode::Shared, ..prefixed(prefix) }), @"with `cache: shared`, earlier attempts leave prompts in the cache");
    insta::assert_snapshot!(why(ServingWork { api: ServingApi::Embeddings, ..prefixed(prefix) }), @"its requests have documents, which have no beginning in common");
    let warm = ServingWork { cache: CacheMode::Warm, ..work() };
    let request = schedule(&warm, RATE).requests(Phase::Measure).next().expect("a request");
    assert_eq!(new(&warm, RATE, None).expect("known").repeated_tokens(&request), request.input_tokens);
}

#[test]
fn a_cache_holds_whole_blocks_and_computes_the_last_token() {
    // Repeated tokens, tokens of the prompt and of a block, and the tokens that are found.
    let cases =
        [(0, 40, 16, 0), (31, 40, 16, 16), (32, 40, 16, 32), (40, 40, 16, 32), (32, 32, 16, 16), (9, 9, 1, 8), (5, 0, 0, 0)];
    for (repeated, prompt, block, found) in cases {
        assert_eq!(tokens_in_blocks(repeated, prompt, block), found, "{repeated} of {prompt} in {block}");
    }
}
