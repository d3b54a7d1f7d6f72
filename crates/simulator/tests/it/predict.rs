//! Tests a load served in virtual time, as the program prints it.

use std::process::{Command, Stdio};

use assay_simulator::{EngineConfig, Profile};
use serde_json::Value;

use crate::client::{Client, requests, serve};

/// Runs `assay-simulator predict` with these flags and returns exit code, stdout and stderr.
fn run(flags: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_assay-simulator"));
    let output = command.arg("predict").args(flags.split_whitespace()).stdin(Stdio::null()).output().expect("the binary");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn predicted(flags: &str) -> Value {
    let (code, line, errors) = run(flags);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{flags}");
    serde_json::from_str(&line).expect("one document")
}

fn metric(flags: &str, name: &str) -> f64 {
    predicted(flags)["@result"][name].as_f64().expect(name)
}

fn refusal(flags: &str) -> String {
    let (code, line, errors) = run(flags);
    assert_eq!((code, line.as_str()), (Some(2), ""), "{flags}");
    errors
}

const CONSTANT: &str = "--ttft-ms 50 --prefill-per-token-us 100 --itl-ms 10 --concurrency 4 --requests 400 --isl 200 --osl 11";
/// An 8B model, with all the randomness of a profile.
const RANDOM: &str = "--profile h100-8b --rate 5 --requests 200 --isl 200 --osl 20";

#[test]
fn it_prints_one_line_of_an_indicator() {
    let (_, line, _) = run(CONSTANT);
    // TTFT = 50 + 200 x 0.1 = 70 ms; E2E = 70 + 10 x 10 = 170 ms; 10 ms a token are 100 tokens a second; four users make 4 / 0.17 s requests a second.
    let expected = concat!(
        r#"{"name":"prediction","component":"assay-simulator","@parameters":{"concurrency":4,"requests":400,"isl":200,"osl":11,"seed":""#,
        r#"0000000000000000000000000000000000000000000000000000000000000000"},"@result":{"ttft_ms_p50":70.0,"ttft_ms_p99":70.0,"#,
        r#""ttst_ms_p50":10.0,"ttst_ms_p99":10.0,"tpot_ms_p50":10.0,"tpot_ms_p99":10.0,"itl_ms_p50":10.0,"itl_ms_p99":10.0,"icl_ms_p50":10.0,"icl_ms_p99":10.0,"#,
        r#""e2e_ms_p50":170.0,"e2e_ms_p99":170.0,"output_tokens_per_user_per_s_p50":100.0,"#,
        r#""request_throughput_per_s":23.529411764705884,"#,
        r#""output_tokens_per_s":258.8235294117647,"error_rate":0.0}}"#,
        "\n"
    );
    assert_eq!(line, expected);
}

/// Checks every number to its last bit, on every machine.
#[test]
fn equal_seeds_give_equal_bytes() {
    let (_, line, _) = run(&format!("{RANDOM} --seed 2a"));
    assert_eq!(line, run(&format!("{RANDOM} --seed 2a")).1);
    assert_ne!(line, run(&format!("{RANDOM} --seed 2b")).1);
    let latencies = concat!(
        r#"{"ttft_ms_p50":93.8323155,"ttft_ms_p99":174.53917094999994,"ttst_ms_p50":11.99383,"ttst_ms_p99":17.345638010000002,"#,
        r#""tpot_ms_p50":12.11857947368421,"#,
        r#""tpot_ms_p99":13.116904198421052,"itl_ms_p50":12.101193,"itl_ms_p99":16.957727189999986,"icl_ms_p50":12.101193,"#,
        r#""icl_ms_p99":16.957727189999986,"e2e_ms_p50":326.309745,"e2e_ms_p99":398.9913968099998,"#,
        r#""output_tokens_per_user_per_s_p50":82.51793089353706,"#,
        r#""request_throughput_per_s":4.973573536348855,"output_tokens_per_s":99.4714707269771,"error_rate":0.0}}"#,
        "\n"
    );
    assert!(line.ends_with(latencies), "{line}");
}

#[test]
fn a_text_makes_a_seed_for_every_trial() {
    let seeds: Vec<Value> = ["a", "b", "a"].map(|text| predicted(&format!("{RANDOM} --seed-from trial-{text}"))).into();
    assert_ne!(seeds[0], seeds[1]);
    assert_eq!(seeds[0], seeds[2]);
    let seed = seeds[0]["@parameters"]["seed"].as_str().expect("a seed");
    assert_eq!(predicted(&format!("{RANDOM} --seed {seed}")), seeds[0], "the seed that is printed gives it again");
}

#[test]
fn the_page_shows_what_is_printed() {
    let page = include_str!("../../../../docs/serving.md");
    let (_, rest) = page.split_once("\nassay-simulator predict ").expect("a command");
    let (flags, rest) = rest.split_once(" | python3").expect("its end");
    let (_, shown) = rest.split_once("```text\n").expect("its output");
    let (shown, _) = shown.split_once("```").expect("the end of it");
    assert_eq!(serde_json::from_str::<Value>(shown).expect("JSON"), predicted(flags));
}

/// Checks what the page says about an engine with batches: the table, the chunks beside it, and the figures of the profiles.
#[test]
fn the_page_shows_the_knee_of_a_batch() {
    let page = include_str!("../../../../docs/serving.md");
    let (_, rest) = page.split_once("### An engine with continuous batching\n").expect("a section");
    let (section, _) = rest.split_once("\n### ").expect("its end");
    let (_, command) = section.split_once("assay-simulator predict ").expect("a command");
    let (flags, _) = command.split_once(" |").expect("its end");
    let predict = |rate: u32, flags: &str| {
        let mut result = predicted(&flags.replace("$rate", &rate.to_string()))["@result"].take();
        move |name: &str| result[name].take().as_f64().expect(name)
    };
    for rate in [4, 8, 10, 12, 16] {
        let mut value = predict(rate, flags);
        let throughput = value("request_throughput_per_s");
        let ms = ["ttft_ms_p50", "ttft_ms_p99", "itl_ms_p99"].map(&mut value);
        let preemptions = value("preemptions");
        let row = format!("| {rate} | {throughput:.2} | {:.0} | {:.0} | {:.0} | {preemptions} |\n", ms[0], ms[1], ms[2]);
        assert!(section.contains(&row), "{row}");
    }
    let mut value = predict(8, &format!("{flags} --max-num-batched-tokens 1024"));
    let chunked = format!(
        "has an ITL of {:.0} ms (p99) instead of 115, and a TTFT of {:.0} ms (p50)",
        value("itl_ms_p99"),
        value("ttft_ms_p50")
    );
    assert!(section.contains(&chunked), "{chunked}");
    let [small, large] = [Profile::H100x8bBatching, Profile::H100x70bBatching].map(|profile| match profile.engine() {
        EngineConfig::Batching(batching) => batching,
        EngineConfig::PerRequest(_) => panic!("no batch"),
    });
    let thousands = |count: u32| format!("{},{:03}", count / 1_000, count % 1_000);
    for cells in [
        format!("| {:.3} | {:.3} |", small.step.base_ns / 1e6, large.step.base_ns / 1e6),
        format!("| {:.2} | {:.2} |", small.step.prefill_token_ns / 1e3, large.step.prefill_token_ns / 1e3),
        format!("| {:.4} | {:.4} |", small.step.context_token_ns / 1e3, large.step.context_token_ns / 1e3),
        format!("| {} | {} |", thousands(small.kv_blocks), thousands(large.kv_blocks)),
    ] {
        assert!(section.contains(&cells), "{cells}");
    }
}

#[test]
fn a_batch_is_predicted_in_every_loop() {
    let of = |load: &str, name: &str| metric(&format!("--profile fast-batching {load}"), name);
    let close = |load: &str, name: &str, expected: f64| {
        assert!((of(load, name) - expected).abs() < 1e-9, "{load} {name}: {}", of(load, name));
    };
    // A step of 100 tokens, and ten of one.
    let closed = "--concurrency 1 --requests 10 --isl 100 --osl 11";
    close(closed, "ttft_ms_p50", 2.0);
    close(closed, "e2e_ms_p50", 2.0 + 10.0 * 1.01);
    close(closed, "preemptions", 0.0);
    // 100 new tokens; 220 of which 96 are cached; 340 of which 208 are.
    let sessions = "--concurrency 1 --requests 6 --isl 100 --osl 20 --turns 3";
    close(sessions, "ttft_first_turn_ms_p50", 2.0);
    close(sessions, "ttft_later_turns_ms_p50", f64::midpoint(2.24, 2.32));
    // Five chunks of 512 tokens, of 6.12 ms each, keep a user from its next turn for longer than the 20 ms between its turns.
    let users = "--users 2 --rate 100 --requests 8 --isl 2560 --osl 3 --turns 1 --max-num-batched-tokens 512";
    assert!(of(users, "back_pressure_ms_p99") > 20.0);
    // Two requests of 48 tokens and a cache of 64: the last admitted one has to go.
    close("--concurrency 2 --requests 2 --isl 16 --osl 32 --kv-blocks 4", "preemptions", 1.0);
    close("--rate 1000 --requests 2 --isl 16 --osl 32", "preemptions", 0.0);
    assert!(
        refusal("--profile fast-batching --concurrency 2 --requests 2 --isl 60 --osl 5 --kv-blocks 4").contains("`osl` is 5")
    );
}

#[test]
fn an_open_loop_waits_in_the_queue_that_it_makes() {
    // Ten a second are served one at a time, 50 ms each. In a queue of Poisson arrivals and constant times the mean wait is 0.5 x
    // 50 / (2 x (1 - 0.5)) = 25 ms (Pollaczek and Khinchine), and half of all find the queue empty.
    let queue = "--rate 10 --requests 20000 --osl 1 --ttft-ms 50 --max-num-seqs 1";
    let (code, line, errors) = run(queue);
    assert_eq!(
        (code, errors.as_str()),
        (Some(0), "note: TPOT, TTST, ITL and ICL are missing: responses of one chunk have none\n")
    );
    let result: Value = serde_json::from_str::<Value>(&line).expect("one document")["@result"].take();
    let value = |name: &str| result[name].as_f64().expect(name);
    assert!((50.0..52.0).contains(&value("ttft_ms_p50")), "{line}");
    assert!(value("ttft_ms_p99") > 150.0, "{line}");
    assert!((9.8..10.2).contains(&value("request_throughput_per_s")), "{line}");
    assert!(result.get("tpot_ms_p50").is_none());
}

#[test]
fn a_tenth_slower_is_a_tenth_slower_in_every_latency() {
    let ratio = |name: &str| metric(&format!("{CONSTANT} --slow-factor 1.1"), name) / metric(CONSTANT, name);
    for name in ["ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "itl_ms_p99", "e2e_ms_p50", "e2e_ms_p99"] {
        assert!((ratio(name) - 1.1).abs() < 1e-12, "{name}: {}", ratio(name));
    }
    assert!((ratio("request_throughput_per_s") * 1.1 - 1.0).abs() < 1e-12);
    assert!((metric(&format!("{CONSTANT} --slow-factor 1.1"), "ttft_ms_p50") - 77.0).abs() < f64::EPSILON);
}

#[test]
fn a_slow_share_moves_the_tail_and_leaves_the_median() {
    let slow = "--slow-share 0.05 --slow-factor 3";
    for (name, low, high) in
        [("ttft_ms_p50", 1.0, 1.0), ("ttft_ms_p99", 3.0, 3.0), ("e2e_ms_p50", 1.0, 1.0), ("e2e_ms_p99", 3.0, 3.0)]
    {
        let ratio = metric(&format!("{CONSTANT} {slow}"), name) / metric(CONSTANT, name);
        assert!((low..=high).contains(&ratio), "{name}: {ratio}");
    }
    // If times are random, the median moves as far as one of 100 requests more or less moves it.
    for (name, low, high) in
        [("ttft_ms_p50", 1.0, 1.02), ("ttft_ms_p99", 1.1, 3.0), ("e2e_ms_p50", 1.0, 1.02), ("e2e_ms_p99", 1.1, 3.0)]
    {
        let ratio = metric(&format!("{RANDOM} {slow}"), name) / metric(RANDOM, name);
        assert!((low..=high).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn a_cotenant_makes_trials_differ() {
    let trials = |flags: &str| -> Vec<f64> {
        (0..12).map(|trial| metric(&format!("{RANDOM} --seed-from trial-{trial} {flags}"), "ttft_ms_p50")).collect()
    };
    let spread = |values: Vec<f64>| {
        let [least, most] = [f64::min, f64::max].map(|choose| values.iter().copied().reduce(choose).expect("trials"));
        most / least
    };
    assert!(spread(trials("")) < 1.1);
    // An episode of an hour contains the whole trial.
    assert!(spread(trials("--cotenant-factor 1.4 --cotenant-episode-ms 3600000")) > 1.35);
    assert!(spread(trials("--cotenant-factor 1.4 --cotenant-share 0 --cotenant-episode-ms 3600000")) < 1.1);
}

#[test]
fn faults_and_a_full_queue_are_errors() {
    let error_rate = |flags: &str| metric(&format!("{CONSTANT} {flags}"), "error_rate");
    let close = |rate: f64, expected: f64| assert!((rate - expected).abs() < f64::EPSILON, "{rate}");
    assert!((0.05..0.15).contains(&error_rate("--fault status:500 --fault refuse --fault-rate 0.1")));
    // Four arrive at once: one runs, one waits, and the others and all their later requests are refused.
    close(error_rate("--max-num-seqs 1 --max-waiting 1"), 398.0 / 400.0);
    let (code, line, errors) = run(&format!("{CONSTANT} --fault status:500"));
    assert_eq!(code, Some(0));
    assert!(line.ends_with("\"@result\":{\"error_rate\":1.0}}\n"), "{line}");
    let said = "note: latencies are missing: no request succeeded\nnote: throughput is missing: no time passed\n";
    assert_eq!(errors, said);
}

#[test]
fn what_cannot_be_predicted_is_refused() {
    let constant = |flags: &str| refusal(&format!("{CONSTANT} {flags}"));
    assert!(refusal("--requests 5").contains("--concurrency <N>"));
    assert!(refusal("--concurrency 5").contains("--requests <N>"));
    assert!(constant("--rate 5").contains("cannot be used with"));
    assert!(constant("--port-file here").contains("unexpected argument"));
    assert_eq!(refusal("--concurrency 0 --requests 5"), "error: `concurrency` is 0, and has to be from 1 to 1000000\n");
    assert_eq!(refusal("--rate NaN --requests 5"), "error: `rate` is NaN, and has to be from 0.0001 to 10000000\n");
    let requests = "error: `requests` is 1000000, and has to be from 1 to 156250 with responses of 128 tokens\n";
    assert_eq!(refusal("--concurrency 1 --requests 1000000"), requests);
    assert_eq!(refusal("--concurrency 1 --requests 5 --isl 0"), "error: `isl` is 0, and has to be from 1 to 131071\n");
    assert_eq!(refusal("--concurrency 1 --requests 5 --osl 131072"), "error: `osl` is 131072, and has to be from 1 to 130944\n");
    assert_eq!(constant("--slow-share 0.02"), "error: `slow_share` is 0.02, and has to be set together with `slow_factor`\n");
    assert!(
        constant("--fault hang").starts_with("error: `fault` is hang, and has to be `status:CODE` or `refuse` for a prediction")
    );
    assert!(constant("--ready-after-ms 5").starts_with("error: `ready_after_ms` is 5, and has to be 0 for a prediction"));
    let long = "--concurrency 1 --requests 100000 --osl 1 --ttft-ms 3600000 --slow-factor 1000";
    assert_eq!(refusal(long), "error: the load would take more than 104 days; ask for fewer requests, or for shorter times\n");
    assert!(
        refusal("--concurrency 1 --requests 5 --config /nowhere")
            .starts_with("error: cannot read the configuration file `/nowhere`")
    );
}

#[test]
fn a_setting_before_the_word_is_not_taken_for_the_prediction_s() {
    let output = Command::new(env!("CARGO_BIN_EXE_assay-simulator")).args(["--ttft-ms", "5", "predict"]).output();
    assert_eq!(output.expect("the binary").status.code(), Some(2));
}

/// The endpoint plans the same requests for the same instants: a request that is slow there is slow here.
#[test]
fn the_endpoint_keeps_to_what_was_predicted() {
    let settings = r#"{"model": "m", "seed": "7", "ttft_ms": 2, "itl_ms": 0.5, "slow_factor": 4, "slow_share": 0.3,
        "cotenant_factor": 2, "cotenant_share": 1}"#;
    let server = serve(settings);
    let mut client = Client::new(server.address());
    for number in 1..=20 {
        let id = format!("{number:032x}");
        let body = r#"{"model": "m", "prompt": "a", "max_tokens": 3, "ignore_eos": true, "stream": true}"#;
        client.call("POST", "/v1/completions", &[("x-request-id", &id)], body);
    }
    let mut planned: Vec<i64> =
        requests(server.address()).iter().map(|request| request.chunks[0].planned_ns - request.arrived_ns).collect();
    planned.sort_unstable();
    let flags = "--seed 7 --ttft-ms 2 --itl-ms 0.5 --slow-factor 4 --slow-share 0.3 --cotenant-factor 2 \
                 --cotenant-share 1 --concurrency 1 --requests 20 --osl 3";
    let (middle, last) = (planned[9] as f64 + planned[10] as f64, planned[18] as f64 + (planned[19] - planned[18]) as f64 * 0.81);
    assert!((metric(flags, "ttft_ms_p50") - middle / 2e6).abs() < 1e-9, "{planned:?}");
    assert!((metric(flags, "ttft_ms_p99") - last / 1e6).abs() < 1e-9, "{planned:?}");
}

/// Sessions of three turns of 100 own tokens and responses of 20: a turn's prompt begins with the prompt of the turn before, of which the cache
/// has the whole blocks of 16.
const SESSIONS: &str = "--ttft-ms 50 --prefill-per-token-us 100 --itl-ms 10 --isl 100 --osl 20 --turns 3 --think-time-ms 10";

#[test]
fn later_turns_find_the_earlier_ones_in_the_cache() {
    let of = |name: &str| metric(&format!("{SESSIONS} --concurrency 1 --requests 6"), name);
    let close = |name: &str, expected: f64| assert!((of(name) - expected).abs() < 1e-9, "{name}: {}", of(name));
    // 100 new tokens; 220 of which 96 are cached; 340 of which 208 are.
    close("ttft_first_turn_ms_p50", 60.0);
    close("ttft_later_turns_ms_p50", f64::midpoint(62.4, 63.2));
    // Two sessions one after the other: 185.6 ms to first tokens, 19 gaps of 10 ms a turn, and two pauses.
    close("request_throughput_per_s", 6.0 / (2.0 * (0.1856 + 3.0 * 0.19 + 0.02)));
    // Six blocks hold the first prompt, and no more: its beginning is found, and what follows is evicted.
    let small = format!("{SESSIONS} --concurrency 1 --requests 6 --kv-blocks 6");
    assert!((metric(&small, "ttft_later_turns_ms_p50") - f64::midpoint(62.4, 50.0 + 24.4)).abs() < 1e-9);
    let without = metric(&format!("{SESSIONS} --concurrency 1 --requests 6 --prefix-cache false"), "ttft_later_turns_ms_p50");
    assert!((without - f64::midpoint(72.0, 84.0)).abs() < 1e-9);
}

#[test]
fn sessions_that_cannot_be_predicted_are_refused() {
    let refused = |flags: &str| refusal(&format!("{SESSIONS} --concurrency 2 {flags}"));
    assert_eq!(refused("--requests 7"), "error: `requests` is 7, and has to be a multiple of the 3 turns of a session\n");
    assert!(refused("--requests 6 --max-model-len 300").starts_with("error: `turns` is 3, and has to be from 1 to 2"));
    assert!(refused("--requests 6 --fault status:500").contains("absent with sessions"));
    assert!(refused("--requests 6 --max-waiting 0").contains("`max_waiting` is 0, and has to be from 1"));
    assert!(refused("--requests 6 --max-waiting 1").contains("at most `max_waiting`, 1"));
    assert!(refusal("--rate 5 --requests 6 --turns 3").contains("with `--concurrency`, or with `--users` and `--rate`"));
    assert!(refusal("--users 2 --rate 5 --requests 6").contains("--turns <N>"));
    assert!(refusal("--users 2 --requests 6 --turns 3").contains("--rate <PER_S>"));
    let users = |flags: &str| refusal(&format!("--users 4 --turns 100 {flags}"));
    assert!(users("--rate 5 --requests 60000").contains("so small that the prompts of all turns have at most 20000000 blocks"));
    assert!(users("--rate 5 --requests 8 --max-waiting 3").contains("`users` is 4, and has to be at most `max_waiting`, 3"));
    assert!(users("--rate 0.0001 --requests 2000").contains("more than 104 days"));
    assert!(refusal("--concurrency 2 --requests 6 --think-time-ms 5").contains("--turns <N>"));
}

/// A turn takes 250 ms: its user sends one every 2 / 10 s, or as soon as the turn before has ended.
const USERS: &str = "--ttft-ms 50 --prefill-per-token-us 100 --itl-ms 10 --isl 100 --osl 20 --turns 1 --users 2 --requests 8";

#[test]
fn turns_of_users_wait_for_the_turn_before_and_never_move_the_grid() {
    let of = |flags: &str, name: &str| metric(&format!("{USERS} {flags}"), name);
    let close = |flags: &str, name: &str, expected: f64| {
        assert!((of(flags, name) - expected).abs() < 1e-9, "{flags} {name}: {}", of(flags, name));
    };
    // Planned at 0, 200, 400 and 600 ms, and due at 0, 250, 500 and 750: 0, 50, 100 and 150 ms late. The other user is 100 ms behind.
    close("--rate 10", "back_pressure_ms_p50", 75.0);
    close("--rate 10", "back_pressure_ms_p99", 150.0);
    close("--rate 10", "request_throughput_per_s", 8.0 / 1.1);
    // A turn each second is never late: the last one is planned at 3.5 s.
    close("--rate 2", "back_pressure_ms_p99", 0.0);
    close("--rate 2", "request_throughput_per_s", 8.0 / 3.75);
    assert_eq!(predicted(&format!("{USERS} --rate 2"))["@parameters"]["users"], 2);
    // Without a grid nothing is planned.
    assert!(predicted(&format!("{SESSIONS} --concurrency 1 --requests 6"))["@result"].get("back_pressure_ms_p50").is_none());
}

/// The endpoint plans the turns of a session as the prediction does.
#[test]
fn the_endpoint_keeps_to_predicted_sessions() {
    let server = serve(r#"{"model": "m", "ttft_ms": 2, "prefill_per_token_us": 20, "itl_ms": 0.1}"#);
    let mut client = Client::new(server.address());
    for session in 0..2 {
        let mut text = String::new();
        for turn in 0..3 {
            // Words of the turn, after those of the recorded response before.
            let words = |count: usize, kind: &str| format!("{kind}{session}-{turn} ").repeat(count);
            text += &if turn == 0 { words(40, "own") } else { words(5, "said") + &words(40, "own") };
            let body = format!(r#"{{"model": "m", "prompt": "{text}", "max_tokens": 5, "ignore_eos": true, "stream": true}}"#);
            client.post("/v1/completions", &body);
        }
    }
    let planned: Vec<i64> =
        requests(server.address()).iter().map(|request| request.chunks[0].planned_ns - request.arrived_ns).collect();
    let flags = "--ttft-ms 2 --prefill-per-token-us 20 --itl-ms 0.1 --isl 40 --osl 5 --turns 3 --concurrency 1 --requests 6";
    // 40 tokens; 85 less 32; 130 less 80.
    assert_eq!(planned, [2_800_000, 3_060_000, 3_000_000, 2_800_000, 3_060_000, 3_000_000]);
    assert!((metric(flags, "ttft_first_turn_ms_p50") - 2.8).abs() < 1e-9);
    assert!((metric(flags, "ttft_later_turns_ms_p50") - f64::midpoint(3.06, 3.0)).abs() < 1e-9);
}
