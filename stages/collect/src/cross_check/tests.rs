use assay_manifest::{ClientHealth, ClockOffset, Digest};
use serde_json::json;

use super::*;

fn outcome(outcomes: &[(&str, u64)], warmup: &[(&str, u64)], input: u64, output: u64) -> ServingOutcome {
    let counts = |of: &[(&str, u64)]| of.iter().map(|(word, count)| ((*word).to_owned(), Count(*count))).collect();
    let digest = Digest::compute(b"");
    ServingOutcome {
        schedule_digest: digest,
        start: Instant::from_unix_ns(0),
        measured_from_ns: Count(0),
        measured_to_ns: Count(0),
        outcomes: counts(outcomes),
        warmup_outcomes: counts(warmup),
        input_tokens: Count(input),
        output_tokens: Count(output),
        chunk_lists: "all".to_owned(),
        client: ClientHealth::default(),
        cache_flushed: None,
        clock: ClockOffset { source: "same_host".to_owned(), offset_ns: None, uncertainty_ns: None, no_exchange: None },
        records: serde_json::from_value(json!({"name": "r", "digest": digest, "size": "0", "media_type": "x"}))
            .expect("an artifact"),
    }
}

fn work(api: &str, tokenizer_file: bool, output: bool) -> ServingWork {
    let digest = Digest::compute(b"");
    let artifact = json!({"name": "t", "digest": digest, "size": "0", "media_type": "application/json"});
    let mut work = json!({
        "api": api, "model": "m", "arrival": {"law": "closed"}, "input": {"law": "fixed", "tokens": 10}, "exact_output": true,
        "batch": 1, "body": {}, "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt",
        "streaming": true, "continuous_usage": true, "capture": "none", "slos": [], "tokenizer": {"name": "t", "digest": digest},
    });
    if tokenizer_file {
        work["tokenizer"]["file"] = json!({"path": "t.json", "origin": "t.json", "executable": false, "artifact": artifact});
    }
    if output {
        work["output"] = json!({"law": "fixed", "tokens": 10});
    }
    serde_json::from_value(work).expect("a serving work")
}

fn growth(outer: u64, inner: u64, resets: u32) -> Growth {
    let reach = (Instant::from_unix_ns(0), Instant::from_unix_ns(9_000_000_000));
    // Such a window holds the number of responses that a growth needs.
    let within = if inner == 0 { 1 } else { 5 };
    Growth { counter: "vllm:request_success_total", outer, inner, within, reach, resets }
}

/// Returns true if client and endpoint agree on one kind of count.
fn agrees(what: CountedQuantity, counted: &ClientCounts, growth: Growth, left_open: u64, has_neighbours: bool) -> bool {
    let between = |_, _| has_neighbours;
    let neighbours = OtherActivity { left_open, between: &between };
    let checks = checks(counted, &work("completions", true, true), &[(what, growth)], &neighbours);
    checks.first().expect("a check").agrees
}

#[test]
fn what_the_client_counted_is_summed_over_shards_and_phases() {
    let one = outcome(&[("ok", 10), ("timeout", 1), ("dropped", 5)], &[("ok", 3), ("http_error", 2)], 100, 200);
    let other = outcome(&[("ok", 7), ("cancelled_at_end", 4), ("connect_error", 6), ("of_a_later_version", 1)], &[], 70, 140);
    let counted = ClientCounts::from_outcomes([&one, &other]);
    let expected = ClientCounts { ok: 20, unsure: 8, open: 5, warmup: 5, input_tokens: 170, output_tokens: 340 };
    assert_eq!(counted, expected);
}

fn requests(ok: u64, unsure: u64) -> ClientCounts {
    ClientCounts { ok, unsure, ..ClientCounts::default() }
}

#[test]
fn every_successful_request_is_counted_and_no_other_but_those_that_may_be() {
    let alone = |ok, unsure, outer| agrees(CountedQuantity::Requests, &requests(ok, unsure), growth(outer, 0, 0), 0, false);
    assert!(alone(100, 0, 100));
    assert!(!alone(100, 0, 99), "the client counts more than the endpoint");
    assert!(!alone(100, 0, 101), "somebody else asked");
    assert!(alone(100, 3, 103));
    assert!(!alone(100, 3, 104));
    assert!(
        agrees(CountedQuantity::Requests, &requests(100, 3), growth(105, 0, 0), 2, false),
        "two were left open by the attempt before"
    );
    assert!(alone(0, 0, 0));
}

#[test]
fn what_other_attempts_brought_is_not_held_against_this_one() {
    let shared = |outer, inner| agrees(CountedQuantity::Requests, &requests(100, 0), growth(outer, inner, 0), 0, true);
    assert!(shared(140, 90), "40 of the others");
    assert!(!shared(140, 101), "more within the window than this attempt asked");
    assert!(!shared(99, 90), "fewer than it says, with all of the others");
}

#[test]
fn what_warmed_the_cache_is_not_held_against_the_attempt() {
    let between = |_, _| false;
    let neighbours = OtherActivity { left_open: 0, between: &between };
    let agrees = |cache: CacheMode| {
        let work = ServingWork { cache, ..work("completions", true, true) };
        let found = checks(&requests(100, 0), &work, &[(CountedQuantity::Requests, growth(200, 0, 0))], &neighbours);
        found.first().expect("a check").agrees
    };
    assert!(agrees(CacheMode::Warm), "100 prompts were sent before the window");
    assert!(!agrees(CacheMode::ColdSalt));
}

#[test]
fn an_endpoint_that_started_again_proves_nothing() {
    assert!(!agrees(CountedQuantity::Requests, &requests(100, 0), growth(100, 100, 1), 0, false));
}

#[test]
fn tokens_agree_within_one_in_a_hundred() {
    let counted = |unsure| ClientCounts { ok: 10, unsure, output_tokens: 1000, input_tokens: 1000, ..ClientCounts::default() };
    for what in [CountedQuantity::OutputTokens, CountedQuantity::InputTokens] {
        let alone = |unsure, outer| agrees(what, &counted(unsure), growth(outer, 0, 0), 0, false);
        assert!(alone(0, 990) && alone(0, 1010));
        assert!(!alone(0, 989) && !alone(0, 1011));
        // Each of two unsure requests may have brought the mean of 100 tokens, and one for rounding.
        assert!(alone(2, 1010 + 202) && !alone(2, 1010 + 203));
    }
}

fn detail(work: &ServingWork, counted: &ClientCounts, what: CountedQuantity, growth: Growth, has_neighbours: bool) -> String {
    let between = |_, _| has_neighbours;
    let neighbours = OtherActivity { left_open: 0, between: &between };
    let found = checks(counted, work, &[(what, growth)], &neighbours);
    let texts = found.iter().map(|check| format!("{} {}: {}", check.what, check.agrees, check.detail));
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn prompts_are_compared_only_where_both_count_alike() {
    let counted = ClientCounts { ok: 1, input_tokens: 10, ..ClientCounts::default() };
    let warmed = ClientCounts { warmup: 1, ..counted.clone() };
    let said =
        |work: ServingWork, counted: &ClientCounts| detail(&work, counted, CountedQuantity::InputTokens, growth(99, 0, 0), false);
    insta::assert_snapshot!(said(work("chat", true, true), &counted), @"input_tokens true: informational, nothing is required: the endpoint's chat template adds tokens");
    insta::assert_snapshot!(said(work("completions", false, true), &counted), @"input_tokens true: informational, nothing is required: the client does not count by the model's tokenizer");
    insta::assert_snapshot!(said(work("completions", true, true), &warmed), @"input_tokens true: informational, nothing is required: the client does not count the prompts of the warm-up");
    assert!(said(work("embeddings", true, false), &counted).starts_with("input_tokens false"));
}

#[test]
fn embeddings_have_no_output_to_compare() {
    assert_eq!(
        detail(&work("embeddings", true, false), &ClientCounts::default(), CountedQuantity::OutputTokens, growth(0, 0, 0), false),
        ""
    );
}

#[test]
fn a_check_says_its_rule_and_what_was_seen() {
    let work = work("chat", true, true);
    let said = |outer, inner, resets, shared| {
        detail(&work, &requests(100, 3), CountedQuantity::Requests, growth(outer, inner, resets), shared)
    };
    insta::assert_snapshot!(said(101, 0, 0, false), @"requests true: 100 requests succeeded and 3 others may have been counted: from 100 to 103; the counter grew by 101 between 1970-01-01T00:00:00.000000000Z and 1970-01-01T00:00:09.000000000Z");
    insta::assert_snapshot!(said(140, 90, 0, true), @"requests true: 100 requests succeeded and 3 others may have been counted: from 100 to 103; the counter grew by 140 between 1970-01-01T00:00:00.000000000Z and 1970-01-01T00:00:09.000000000Z, which requests outside of the window share, and by 90 within the window");
    insta::assert_snapshot!(said(140, 0, 0, true), @"requests true: 100 requests succeeded and 3 others may have been counted: from 100 to 103; the counter grew by 140 between 1970-01-01T00:00:00.000000000Z and 1970-01-01T00:00:09.000000000Z, which requests outside of the window share; the window is too short to hold two readings, so it was only checked that the growth is not smaller");
    insta::assert_snapshot!(said(101, 0, 2, false), @"requests false: 100 requests succeeded and 3 others may have been counted: from 100 to 103; the counter grew by 101 between 1970-01-01T00:00:00.000000000Z and 1970-01-01T00:00:09.000000000Z; it fell 2 times, as when the endpoint starts again, and what it lost is unknown");
}
