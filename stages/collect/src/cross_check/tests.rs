use assay_manifest::{ChatTemplate, ClientHealth, ClockOffset, Digest, ImageFormat, Images};
use assay_telemetry::counters;
use proptest::prelude::*;
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
        warmed_turns: None,
        idle_cut_ns: None,
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
        "api": api, "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}}, "exact_output": true,
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

#[test]
fn what_the_client_counted_is_summed_over_shards_and_phases() {
    let one = outcome(&[("ok", 10), ("timeout", 1), ("dropped", 5)], &[("ok", 3), ("http_error", 2)], 100, 200);
    let other = outcome(&[("ok", 7), ("cancelled_at_end", 4), ("connect_error", 6), ("of_a_later_version", 1)], &[], 70, 140);
    let counted = ClientCounts::from_outcomes([&one, &other]);
    let expected = ClientCounts { ok: 20, unsure: 8, open: 5, warmup: 5, input_tokens: 170, output_tokens: 340 };
    assert_eq!(counted, expected);
}

const SECOND: i64 = 1_000_000_000;

fn at(second: i64) -> Instant {
    Instant::from_unix_ns(second * SECOND)
}

/// Returns counts of requests with ten tokens in and ten tokens out.
fn requests(ok: u64, unsure: u64) -> ClientCounts {
    ClientCounts { ok, unsure, input_tokens: 10 * ok, output_tokens: 10 * ok, ..ClientCounts::default() }
}

/// Returns an attempt between two seconds.
fn served(work: &ServingWork, trial: u32, (from, to): (i64, i64), counts: ClientCounts) -> ServedAttempt<'_> {
    let attempt = CheckedAttempt { trial_id: format!("w.t.default.one.t{trial}").parse().expect("a trial id"), attempt: 0 };
    ServedAttempt { attempt, window: span(at(from), at(to)), work, counts, is_complete: true }
}

/// Returns the readings of an endpoint that has completed this number of requests at each second, with ten tokens in and out.
fn readings(requests: &[(i64, u64)]) -> Readings {
    let one = |(second, value): &(i64, u64)| Scrape {
        requested_at: at(*second),
        received_at: at(*second),
        counters: counters(&format!(
            "vllm:request_success_total {value}\nvllm:prompt_tokens_total {0}\nvllm:generation_tokens_total {0}\n",
            10 * value
        )),
    };
    Readings::Responses(vec![requests.iter().map(one).collect()])
}

const BLOCK: Block = Block { index: 0, incarnation: 0 };

/// Returns each check of a quantity in a line: its trials, both counts, the outcome and the reason.
fn lines(what: CountedQuantity, attempts: &[ServedAttempt<'_>], readings: &Readings) -> Vec<String> {
    let line = |check: CrossCheck| {
        let trial = |served: &CheckedAttempt| served.trial_id.as_str().rsplit('.').next().expect("a trial").to_owned();
        let trials: Vec<_> = check.attempts.iter().map(trial).collect();
        let endpoint = check.endpoint.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let because = check.reason.map_or_else(String::new, |reason| format!(" because {reason}"));
        format!("{}: {} {endpoint} {}{because}", trials.join("+"), check.client, check.outcome)
    };
    checks(BLOCK, attempts, readings).into_iter().filter(|check| check.what == what.as_str()).map(line).collect()
}

fn request_lines(attempts: &[ServedAttempt<'_>], of: &[(i64, u64)]) -> Vec<String> {
    lines(CountedQuantity::Requests, attempts, &readings(of))
}

fn completions() -> ServingWork {
    work("completions", true, true)
}

#[test]
fn every_successful_request_is_counted_and_no_other_but_those_that_may_be() {
    let work = completions();
    let alone = |ok, unsure, grown: u64| {
        let attempt = served(&work, 0, (10, 20), requests(ok, unsure));
        request_lines(&[attempt], &[(10, 7), (15, 7 + grown / 2), (20, 7 + grown)]).concat()
    };
    assert_eq!(alone(100, 0, 100), "t0: 100 100 agrees");
    assert_eq!(alone(100, 0, 99), "t0: 100 99 disagrees", "the client counts more than the endpoint");
    assert_eq!(alone(100, 0, 101), "t0: 100 101 disagrees", "another client sent one");
    assert_eq!(alone(100, 3, 103), "t0: 100 103 agrees");
    assert_eq!(alone(100, 3, 104), "t0: 100 104 disagrees");
    assert_eq!(alone(0, 0, 0), "t0: 0 0 agrees");
}

#[test]
fn tokens_agree_within_one_in_a_hundred() {
    use CrossCheckOutcome::{Agrees, Disagrees};
    let work = completions();
    for what in [CountedQuantity::OutputTokens, CountedQuantity::InputTokens] {
        let outcome = |unsure, outer| {
            let attempt = served(&work, 0, (0, 9), requests(100, unsure));
            let limits = Limits::new(what, &attempt.counts, 0);
            let growth = Growth { counter: "c", outer, inner: 0, within: 0, reach: (at(0), at(9)), resets: 0 };
            let comparison = Comparison { block: BLOCK, what, attempts: &[] };
            comparison.check(&[&attempt], &limits, &growth, None).outcome
        };
        assert_eq!([990, 1010].map(|outer| outcome(0, outer)), [Agrees, Agrees]);
        assert_eq!([989, 1011].map(|outer| outcome(0, outer)), [Disagrees, Disagrees]);
        // Each of two unsure requests may have brought the mean of 10 tokens, and one for rounding.
        assert_eq!([1010 + 22, 1010 + 23].map(|outer| outcome(2, outer)), [Agrees, Disagrees]);
    }
}

#[test]
fn attempts_without_a_reading_between_them_are_compared_as_one_sum() {
    let work = completions();
    let attempts = |open| {
        [
            served(&work, 0, (5, 9), ClientCounts { open, ..requests(40, open) }),
            served(&work, 1, (10, 19), requests(50, 0)),
            // It begins within the second in which the previous one ended: the reading at 20 s is after both.
            served(&work, 2, (19, 25), requests(7, 0)),
        ]
    };
    let of = |open, counts: &[(i64, u64)]| request_lines(&attempts(open), counts);
    let honest = [(5, 60), (10, 100), (11, 105), (18, 145), (20, 153), (25, 157)];
    assert_eq!(of(0, &honest), ["t0: 40 40 agrees", "t1+t2: 57 57 agrees"]);
    let one_more = [(5, 60), (10, 100), (11, 105), (18, 145), (20, 153), (25, 158)];
    assert_eq!(of(0, &one_more), ["t0: 40 40 agrees", "t1+t2: 57 58 disagrees"], "as bounds alone, neither would disagree");
    let one_fewer = [(5, 60), (10, 100), (11, 105), (18, 145), (20, 153), (25, 156)];
    assert_eq!(of(0, &one_fewer), ["t0: 40 40 agrees", "t1+t2: 57 56 disagrees"]);
    assert_eq!(of(1, &one_more), ["t0: 40 40 agrees", "t1+t2: 57 58 agrees"], "the attempt before had left one open");
    let two_more = [(5, 60), (10, 100), (11, 105), (18, 145), (20, 153), (25, 159)];
    assert_eq!(of(1, &two_more), ["t0: 40 40 agrees", "t1+t2: 57 59 disagrees"], "one, and not one for each member");
    assert_eq!(of(0, &[(5, 60), (25, 157)]), ["t0+t1+t2: 97 97 agrees"], "the readings between them are missing");
}

#[test]
fn a_sum_does_not_hide_what_one_of_its_attempts_contradicts() {
    let work = completions();
    let attempts = [served(&work, 1, (10, 19), requests(50, 0)), served(&work, 2, (19, 25), requests(17, 0))];
    let counts = [(10, 100), (11, 105), (18, 160), (20, 163), (25, 167)];
    let found = request_lines(&attempts, &counts);
    let both = ["t1+t2: 67 67 agrees", "t1: 50 60 disagrees", "t2: 17 7 disagrees"];
    assert_eq!(found, both, "60 within the window of the first, and 7 since its last reading");
    let found = request_lines(&attempts, &[(10, 100), (20, 149), (25, 167)]);
    let both = ["t1+t2: 67 67 agrees", "t1: 50 49 disagrees", "t2: 17 18 disagrees"];
    assert_eq!(found, both, "one of the first is counted in the second");
}

/// Returns an attempt of which a shard was lost.
fn lost(work: &ServingWork, trial: u32, window: (i64, i64)) -> ServedAttempt<'_> {
    ServedAttempt { is_complete: false, ..served(work, trial, window, requests(3, 0)) }
}

#[test]
fn a_growth_with_requests_of_an_attempt_without_counts_has_only_a_lower_limit() {
    let work = completions();
    let attempts = [served(&work, 0, (10, 19), requests(50, 0)), lost(&work, 1, (19, 25))];
    let of = |counts| request_lines(&attempts, counts);
    let lost = format!("t1: 3 - not_compared because {}", reason::NO_COUNTS);
    let at_least = format!("t0: 50 70 at_least because {}", reason::OTHER_ATTEMPT);
    assert_eq!(of(&[(10, 100), (11, 102), (18, 146), (20, 151), (25, 170)]), [lost.clone(), at_least]);
    assert_eq!(of(&[(10, 100), (18, 140), (20, 145), (25, 149)]), [lost.clone(), "t0: 50 45 disagrees".to_owned()]);
    let within = of(&[(10, 100), (11, 102), (18, 151), (20, 155), (25, 170)]);
    assert_eq!(within, [lost, "t0: 50 51 disagrees".to_owned()], "more within its window than it counts");
}

#[test]
fn an_attempt_without_counts_may_have_left_requests_open() {
    let work = completions();
    let attempts =
        [lost(&work, 0, (10, 19)), served(&work, 1, (21, 25), requests(50, 0)), served(&work, 2, (26, 30), requests(9, 0))];
    let found = request_lines(&attempts, &[(10, 0), (20, 10), (21, 10), (25, 60), (26, 60), (30, 69)]);
    let at_least = format!("t1: 50 50 at_least because {}", reason::LEFT_OPEN);
    assert_eq!(found[1..], [at_least, "t2: 9 9 agrees".to_owned()]);
}

#[test]
fn an_attempt_without_a_reading_after_it_leaves_the_previous_one_without_an_upper_limit() {
    let work = completions();
    let attempts = [served(&work, 0, (10, 19), requests(50, 0)), served(&work, 1, (19, 25), requests(7, 0))];
    let apart = format!("t1: 7 - not_compared because {}", reason::NOT_AROUND);
    let at_least = format!("t0: 50 53 at_least because {}", reason::OTHER_ATTEMPT);
    assert_eq!(request_lines(&attempts, &[(10, 100), (20, 153)]), [apart.clone(), at_least]);
    assert_eq!(request_lines(&attempts, &[(10, 100), (19, 150)]), [apart, "t0: 50 50 agrees".to_owned()]);
}

#[test]
fn what_warmed_the_cache_is_not_held_against_an_attempt() {
    let (cold, warm) = (completions(), ServingWork { cache: CacheMode::Warm, ..completions() });
    let counts = [(9, 0), (21, 200), (24, 200), (31, 250)];
    let first = |work, next| {
        let attempts = [served(work, 0, (10, 20), requests(100, 0)), served(next, 1, (25, 30), requests(50, 0))];
        request_lines(&attempts, &counts)
    };
    let at_least = format!("t0: 100 200 at_least because {}", reason::WARMED_CACHE);
    assert_eq!(first(&warm, &cold), [at_least.clone(), "t1: 50 50 agrees".to_owned()]);
    assert_eq!(first(&cold, &cold)[0], "t0: 100 200 disagrees");
    assert_eq!(first(&cold, &warm)[0], at_least, "the next attempt warms the cache from second 20 on");
}

#[test]
fn an_endpoint_that_started_again_has_only_a_lower_limit() {
    let work = completions();
    let of = |ok| request_lines(&[served(&work, 0, (10, 20), requests(ok, 0))], &[(10, 100), (15, 150), (17, 20), (20, 60)]);
    assert_eq!(of(110), [format!("t0: 110 110 at_least because {}", reason::FELL)]);
    assert_eq!(of(111), [format!("t0: 111 110 not_compared because {}", reason::FELL)], "the rest may be lost");
    assert_eq!(of(109), ["t0: 109 110 disagrees"], "what is lost would be still more");
}

#[test]
fn counts_without_readings_on_both_sides_are_not_compared() {
    let work = completions();
    let attempts = [served(&work, 0, (10, 19), requests(50, 0)), served(&work, 1, (20, 25), requests(7, 0))];
    let of = |readings| lines(CountedQuantity::Requests, &attempts, &readings);
    let both = |reason| [format!("t0+t1: 57 - not_compared because {reason}")];
    assert_eq!(of(Readings::Responses(vec![Vec::new()])), both(reason::NO_READING));
    assert_eq!(of(Readings::SeveralPods), both(reason::SEVERAL_PODS));
    let scrape = |second| Scrape { requested_at: at(second), received_at: at(second), counters: counters("up 1") };
    assert_eq!(of(Readings::Responses(vec![(0..30).map(scrape).collect()])), both(reason::NO_COUNTER));
    assert_eq!(of(readings(&[(11, 0), (19, 49)])), both(reason::NOT_AROUND));
}

#[test]
fn prompts_are_compared_only_if_both_count_alike() {
    let of = |work: &ServingWork, counts: ClientCounts| {
        lines(CountedQuantity::InputTokens, &[served(work, 0, (10, 20), counts)], &readings(&[(10, 0), (20, 5)])).concat()
    };
    let warmed = ClientCounts { warmup: 1, ..requests(5, 0) };
    insta::assert_snapshot!(of(&work("chat", true, true), requests(5, 0)), @"t0: 50 50 not_compared because the endpoint's chat template may add tokens");
    insta::assert_snapshot!(of(&work("completions", false, true), requests(5, 0)), @"t0: 50 50 not_compared because the client does not count by the model's tokenizer");
    insta::assert_snapshot!(of(&completions(), warmed), @"t0: 50 50 not_compared because the client does not count the prompts of the warm-up");
    assert_eq!(of(&work("embeddings", true, false), requests(5, 0)), "t0: 50 50 agrees");
}

#[test]
fn prompts_are_compared_if_the_client_counts_the_chat_template() {
    let mut chat = work("chat", true, true);
    chat.tokenizer.template = Some(ChatTemplate { usage: TemplateUse::Count, config: None, file: None, tokens: 3 });
    let of = |work: &ServingWork, counted| {
        lines(CountedQuantity::InputTokens, &[served(work, 0, (10, 20), requests(5, 0))], &readings(&[(10, 0), (20, counted)]))
            .concat()
    };
    assert_eq!(of(&chat, 5), "t0: 50 50 agrees");
    assert_eq!(of(&chat, 6), "t0: 50 60 disagrees", "another template, or other traffic");
    let images = Images { width: 8, height: 8, count: 1, format: ImageFormat::Png };
    let seeing = ServingWork { images: Some(images), ..chat.clone() };
    assert_eq!(of(&seeing, 5), format!("t0: 50 50 not_compared because {}", reason::IMAGES));
    let sessions = json!({"turns": {"law": "fixed", "tokens": 2}, "think_time": {"law": "fixed", "ns": "0"}, "history": "live", "reasoning": "drop"});
    let live = ServingWork { sessions: Some(serde_json::from_value(sessions).expect("sessions")), ..chat };
    assert_eq!(of(&live, 5), format!("t0: 50 50 not_compared because {}", reason::LIVE_HISTORY));
}

#[test]
fn tokens_that_are_not_compared_may_be_part_of_a_shared_growth() {
    let (one, chat, embeddings) = (completions(), work("chat", true, true), work("embeddings", true, false));
    let of = |what, next| {
        let attempts = [served(&one, 0, (10, 19), requests(50, 0)), served(next, 1, (19, 25), requests(7, 0))];
        lines(what, &attempts, &readings(&[(10, 0), (20, 53), (25, 57)]))
    };
    let at_least = format!("t0: 500 570 at_least because {}", reason::OTHER_ATTEMPT);
    assert_eq!(of(CountedQuantity::InputTokens, &chat)[1], at_least);
    assert_eq!(of(CountedQuantity::OutputTokens, &embeddings), [at_least], "embeddings have no output to compare");
    assert_eq!(of(CountedQuantity::OutputTokens, &chat), ["t0+t1: 570 570 agrees"]);
}

#[test]
fn a_check_states_its_rule_and_the_readings() {
    let (one, warm) = (completions(), ServingWork { cache: CacheMode::Warm, ..completions() });
    let details = |work, counts: &[(i64, u64)]| {
        let attempts = [served(work, 0, (10, 19), requests(50, 2)), served(work, 1, (19, 25), requests(7, 0))];
        let requests = checks(BLOCK, &attempts, &readings(counts)).into_iter().filter(|check| check.what == "requests");
        requests.map(|check| format!("{}: {}", check.outcome, check.detail)).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(details(&one, &[(10, 0), (20, 53), (25, 58)]), @"agrees: 2 attempts as one sum: 57 requests succeeded and 2 others may have been counted: from 57 to 59; the counter grew by 58 between 1970-01-01T00:00:10.000000000Z and 1970-01-01T00:00:25.000000000Z");
    insta::assert_snapshot!(details(&warm, &[(9, 0), (20, 153), (25, 158)]), @"at_least: 2 attempts as one sum: 57 requests succeeded and 2 others may have been counted: from 57 to 59; the counter grew by 158 between 1970-01-01T00:00:09.000000000Z and 1970-01-01T00:00:25.000000000Z; only the lower limit was checked, because the endpoint also counts the requests that warm its cache, and the client does not");
    insta::assert_snapshot!(details(&one, &[(10, 0), (11, 2), (18, 57), (20, 57), (25, 59)]), @r"
    agrees: 2 attempts as one sum: 57 requests succeeded and 2 others may have been counted: from 57 to 59; the counter grew by 59 between 1970-01-01T00:00:10.000000000Z and 1970-01-01T00:00:25.000000000Z
    disagrees: 50 requests succeeded and 2 others may have been counted: from 50 to 52; the counter grew by 57 between 1970-01-01T00:00:10.000000000Z and 1970-01-01T00:00:20.000000000Z; it grew by 57 between the 3 readings within the attempt
    disagrees: 7 requests succeeded and 0 others may have been counted: from 7 to 7; the counter grew by 2 between 1970-01-01T00:00:18.000000000Z and 1970-01-01T00:00:25.000000000Z
    ");
    insta::assert_snapshot!(details(&one, &[(10, 9), (18, 40), (20, 6), (25, 10)]), @"not_compared: 2 attempts as one sum: 57 requests succeeded and 2 others may have been counted: from 57 to 59; the counter grew by 41 between 1970-01-01T00:00:10.000000000Z and 1970-01-01T00:00:25.000000000Z; it fell once; not compared, because the counter fell, as when the endpoint starts again, and the growth that it lost is unknown");
}

proptest! {
    /// The requests of an attempt are counted in its first second, and are the endpoint's only ones but for `stray`.
    #[test]
    fn counts_that_are_equal_agree_and_one_request_of_another_client_does_not(
        attempts in prop::collection::vec((0_i64..4, 1_i64..6, 0_u64..9), 1..12),
        unread in prop::collection::vec(any::<bool>(), 100),
        stray in prop::option::of(0_usize..12),
    ) {
        let work = completions();
        let (mut now, mut total) = (1, 0);
        let (mut values, mut all) = (vec![0], Vec::new());
        for (trial, (pause, length, ok)) in (0..).zip(&attempts) {
            values.extend((0..*pause).map(|_| total));
            total += ok + u64::from(stray.is_some_and(|stray| stray % attempts.len() == trial as usize));
            values.extend((0..*length).map(|_| total));
            all.push(served(&work, trial, (now + pause - 1, now + pause + length - 1), requests(*ok, 0)));
            now += pause + length;
        }
        values.push(total);
        let read = (0..).zip(&values).filter(|(second, _)| *second == 0 || *second == now - 1 || !unread[*second as usize]);
        let read: Vec<(i64, u64)> = read.map(|(second, value)| (second, *value)).collect();
        let found = checks(BLOCK, &all, &readings(&read));
        let of_requests = found.iter().filter(|check| check.what == "requests" && check.outcome == CrossCheckOutcome::Agrees);
        let agreeing = of_requests.flat_map(|check| &check.attempts).count();
        let strange = found.iter().any(|check| check.what == "requests" && check.outcome == CrossCheckOutcome::Disagrees);
        prop_assert_eq!(strange, stray.is_some(), "{:?}", &found);
        prop_assert!(stray.is_some() || agreeing == all.len(), "{:?}", &found);
    }
}

#[test]
fn what_several_servers_count_is_added_up() {
    let work = completions();
    let attempt = [served(&work, 0, (10, 20), requests(100, 0))];
    let of = |servers: &[&[(i64, u64)]]| {
        let scrapes = servers.iter().map(|server| match readings(server) {
            Readings::Responses(mut one) => one.remove(0),
            Readings::SeveralPods => Vec::new(),
        });
        lines(CountedQuantity::Requests, &attempt, &Readings::Responses(scrapes.collect())).concat()
    };
    let (first, second): ([_; 2], [_; 2]) = ([(9, 500), (21, 560)], [(10, 7), (20, 47)]);
    assert_eq!(of(&[&first, &second]), "t0: 100 100 agrees");
    assert_eq!(of(&[&first]), "t0: 100 60 disagrees", "one of them alone lacks what the other served");
    assert_eq!(of(&[&first, &second, &[(10, 3), (20, 4)]]), "t0: 100 101 disagrees");
    let fell = of(&[&first, &second, &[(10, 3), (20, 0)]]);
    assert!(fell.starts_with("t0: 100 100 at_least because the counter fell"), "{fell}");
    let late = of(&[&first, &second, &[(11, 3), (20, 3)]]);
    assert!(late.starts_with("t0: 100 - not_compared because no reading of the endpoint's counter lies before"), "{late}");
    let silent = of(&[&first, &second, &[]]);
    assert!(silent.starts_with("t0: 100 - not_compared because no reading of the endpoint's counters was recorded"), "{silent}");
}

#[test]
fn a_server_that_has_not_counted_yet_has_counted_nothing() {
    let work = completions();
    let attempt = [served(&work, 0, (10, 20), requests(100, 0))];
    let Readings::Responses(mut servers) = readings(&[(9, 0), (21, 100)]) else { unreachable!("they are responses") };
    let shown = |second, text: &str| Scrape { requested_at: at(second), received_at: at(second), counters: counters(text) };
    let idle = "vllm:prompt_tokens_total 0\n";
    servers.push(vec![shown(9, idle), shown(21, idle)]);
    let found = lines(CountedQuantity::Requests, &attempt, &Readings::Responses(servers.clone()));
    assert_eq!(found, ["t0: 100 100 agrees"]);
    // One that shows no known counter may be of another software, and have counted whatever.
    servers.push(vec![shown(9, "up 1\n"), shown(21, "up 1\n")]);
    let found = lines(CountedQuantity::Requests, &attempt, &Readings::Responses(servers)).concat();
    assert!(found.starts_with("t0: 100 - not_compared"), "{found}");
}
