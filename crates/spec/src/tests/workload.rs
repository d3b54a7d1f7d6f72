//! Workloads: accepted and refused definitions.

use std::time::Duration;

use assay_manifest::{
    CacheMode, CaptureMode, ConnectionPolicy, Count, DatasetFormat, Digest, HarnessFormat, History, InstructionCounter,
    MeasuredCommand, OverLongPrompt, RateProfile, RateSegment, ReasoningHistory, SessionPlay, SloMetric,
};
use insta::assert_snapshot;

use super::{COMPARING, INDICATOR, PIPELINE, SERVING, problems, replace_part, workload};
use crate::{
    ArrivalMode, ArrivalProcess, Distribution, Lengths, Load, OfferedRate, Parameter, Pause, PinnableFile, Pins, Program,
    Prompts, ResponseLength, Scenario, Script, Sessions, Slo, TraceTimes, Work, Workload, render,
};

fn indicator(part: &str, replacement: &str) -> String {
    problems(&replace_part(INDICATOR, part, replacement))
}

fn serving(part: &str, replacement: &str) -> String {
    problems(&replace_part(SERVING, part, replacement))
}

#[test]
fn an_indicator_is_read() {
    let workload = workload(INDICATOR);
    assert_eq!((workload.name.as_str(), workload.owner.as_deref()), ("stream", Some("performance")));
    let spec = &workload.spec;
    assert_eq!(spec.files, ["stream.c"]);
    assert_eq!(spec.time_limit, Duration::from_mins(2));
    assert_eq!(
        spec.metrics.iter().map(|metric| (metric.path.as_str(), metric.primary)).collect::<Vec<_>>(),
        [("copy.rate", true), ("copy.elapsed", false)]
    );
    let Work::Indicator(executable) = &spec.work else { panic!("an indicator") };
    assert_eq!(executable.program, Program::Script(Script::Path { path: "run.sh".to_owned(), sha256: None }));
    assert_eq!(executable.parameters["REPS"], Parameter::Constant("20".to_owned()));
    assert_eq!(executable.parameters["THREADS"], Parameter::Axis(["1", "2", "4"].map(str::to_owned).to_vec()));
    assert_eq!(executable.prepare.as_ref().map(|prepare| prepare.time_limit), Some(Duration::from_mins(10)));
}

const COMMAND: &str = "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: words}
spec:
  type: indicator
  command: {run: [./words, '9']}
";

#[test]
fn a_command_is_read_with_what_it_reports() {
    let read = |text: &str| {
        let workload = workload(text);
        let Work::Indicator(executable) = &workload.spec.work else { panic!("an indicator") };
        let Program::Command(command) = &executable.program else { panic!("a command") };
        let metrics: Vec<_> = workload.spec.metrics.iter().map(|metric| (metric.path.clone(), metric.primary)).collect();
        (command.clone(), metrics)
    };
    let metric = |path: &str, primary| (path.to_owned(), primary);
    let (command, metrics) = read(COMMAND);
    let run = ["./words", "9"].map(str::to_owned).to_vec();
    assert_eq!(command, MeasuredCommand { run, times: 1, warmup: 0, instructions: None });
    assert_eq!(metrics, [metric("cpu_time_ms", true), metric("wall_time_ms", false)]);
    let (command, metrics) = read(&replace_part(COMMAND, "'9']", "'9'], times: 5, instructions: cachegrind"));
    assert_eq!((command.times, command.instructions), (5, Some(InstructionCounter::Cachegrind)));
    assert_eq!(metrics.last(), Some(&metric("instructions", false)));
    let wall = "{run: [./words, '9']}\n  metrics: [{path: wall_time_ms, unit: ms, better: lower}]";
    let (_, metrics) = read(&replace_part(COMMAND, "{run: [./words, '9']}", wall));
    assert_eq!(metrics, [metric("wall_time_ms", true)]);
}

#[test]
fn the_output_of_a_script_may_be_that_of_a_harness() {
    let output = |text: &str| match workload(text).spec.work {
        Work::Indicator(executable) => executable.output,
        _ => panic!("an indicator"),
    };
    let text = replace_part(INDICATOR, "  files: [stream.c]", "  output: go-bench\n  files: [stream.c]");
    assert_eq!([output(INDICATOR), output(&text)], [None, Some(HarnessFormat::GoBench)]);
    assert_snapshot!(problems(&format!("{COMMAND}  output: jmh\n")), @r"
    error: `spec.output` is the harness whose output a `script` prints, and this is a `command`, whose output is not read
     --> a.yaml:7:11
      |
    7 |   output: jmh
      |           ^^^
    hint: remove it, or write a `script` that runs the harness
    ");
}

#[test]
fn a_command_and_its_counter_are_part_of_the_digest() {
    let digest = |text: &str| workload(text).freeze(&crate::Pins::default()).expect("frozen").digest;
    let other = |part: &str, replacement: &str| digest(&replace_part(COMMAND, part, replacement)) != digest(COMMAND);
    assert!(other("'9'", "'10'") && other("'9']", "'9'], times: 2") && other("'9']", "'9'], instructions: perf"));
    assert_ne!(
        digest(&replace_part(COMMAND, "'9']", "'9'], instructions: perf")),
        digest(&replace_part(COMMAND, "'9']", "'9'], instructions: cachegrind")),
        "what one counter counts is not what the other does"
    );
    assert!(!other("'9']", "'9'], times: 1"), "a default that is written out");
}

#[test]
fn an_indicator_has_a_script_or_a_command() {
    let command = |part: &str, replacement: &str| problems(&replace_part(COMMAND, part, replacement));
    assert_snapshot!(command("  command: {run: [./words, '9']}\n", "  time_limit: 1m\n"), @r"
    error: `spec` needs one of `script`, `command`
     --> a.yaml:4:1
      |
    4 | spec:
      | ^^^^
    ");
    assert_snapshot!(command("'9']}", "'9']}\n  script: {path: run.sh}"), @r"
    error: `spec` takes only one of `script`, `command`
     --> a.yaml:7:3
      |
    7 |   script: {path: run.sh}
      |   ^^^^^^
    hint: `command` is given too; keep one of them
    ");
    assert_snapshot!(command("'9']}", "'9']}\n  metrics: [{path: speed, unit: MB/s, better: higher}]"), @r"
    error: the command reports no metric `speed`
     --> a.yaml:7:20
      |
    7 |   metrics: [{path: speed, unit: MB/s, better: higher}]
      |                    ^^^^^
    hint: it reports cpu_time_ms, wall_time_ms, max_rss_kib
    ");
    let declared = |metric: &str| command("'9']}", &format!("'9']}}\n  metrics: [{{{metric}}}]"));
    assert_snapshot!(declared("path: cpu_time_ms, unit: s, better: lower"), @r"
    error: the `unit` of `cpu_time_ms` is `ms`, not `s`
     --> a.yaml:7:39
      |
    7 |   metrics: [{path: cpu_time_ms, unit: s, better: lower}]
      |                                       ^
    hint: it is Assay that measures it
    ");
    assert_snapshot!(declared("path: wall_time_ms, unit: ms, better: higher"), @r"
    error: the `better` of `wall_time_ms` is `lower`, not `higher`
     --> a.yaml:7:52
      |
    7 |   metrics: [{path: wall_time_ms, unit: ms, better: higher}]
      |                                                    ^^^^^^
    hint: it is Assay that measures it
    ");
    assert_snapshot!(command("'9']", "'${SIZE}']"), @r"
    error: the command names `${SIZE}`, which is no parameter
     --> a.yaml:6:13
      |
    6 |   command: {run: [./words, '${SIZE}']}
      |             ^^^
    hint: add it to `spec.parameters`, or write `$${` for what is no parameter
    ");
    let with_size = replace_part(COMMAND, "'9']}", "'--size=${SIZE}']}\n  parameters: {SIZE: [1, 2]}");
    assert_eq!(workload(&with_size).spec.metrics.len(), 2);
    assert_snapshot!(command("'9']", "'9'], times: 0"), @r"
    error: `spec.command.times` must be from 1 to 10000, not 0
     --> a.yaml:6:41
      |
    6 |   command: {run: [./words, '9'], times: 0}
      |                                         ^
    ");
    assert_snapshot!(command("'9']", "'9'], instructions: gdb"), @r"
    error: `spec.command.instructions` must be one of `perf`, `cachegrind`, not `gdb`
     --> a.yaml:6:48
      |
    6 |   command: {run: [./words, '9'], instructions: gdb}
      |                                                ^^^
    ");
    assert_snapshot!(serving("  type: serving", "  type: serving\n  command: {run: [x]}"), @r"
    error: `spec.command` does not belong to a workload of `type: serving`
     --> a.yaml:6:3
      |
    6 |   command: {run: [x]}
      |   ^^^^^^^
    hint: it belongs to `type: indicator`; remove it
    ");
}

#[test]
fn a_serving_workload_is_read_with_its_defaults() {
    let workload = workload(SERVING);
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    assert_eq!(
        serving.load,
        Load {
            arrivals: ArrivalMode::Open {
                rate: OfferedRate::Each(vec![1.0, 2.5, 10.0]),
                process: ArrivalProcess::Gamma { smoothness: 0.5 }
            },
            max_concurrency: None,
            cancel: None,
            over_saturation: None,
            stop_on_errors: None,
            search: None,
            duration: Some(Duration::from_mins(1)),
            requests: None,
            sessions: None,
            warmup: Duration::from_secs(10),
            timeout: Duration::from_mins(5),
            connections: ConnectionPolicy::Pooled,
        }
    );
    let scenario = Scenario::Normal { input: (480, 240), output: (300, 150) };
    assert_eq!(serving.prompts, Prompts::Synthetic(Lengths::Scenario(scenario)));
    assert_eq!((serving.cache, serving.streaming, serving.capture), (CacheMode::ColdSalt, true, CaptureMode::Digest));
    assert_eq!(
        serving.slos,
        [Slo { metric: SloMetric::Ttft, at_most_ns: 2_000_000_000 }, Slo { metric: SloMetric::Tpot, at_most_ns: 200_000_000 }]
    );
    assert_eq!(workload.spec.dimensions.stack.as_deref(), Some("vllm"));
}

#[test]
fn explicit_lengths_are_read() {
    let text = replace_part(
        SERVING,
        "N(480,240)/(300,150)",
        "{input: {uniform: {min: 1, max: 9}}, output: {lognormal: {mean: 50, stddev: 20.5}}}",
    );
    let workload = workload(&text);
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    let output = Distribution::LogNormal { mean: 50.0, stddev: 20.5 };
    let input = Distribution::Uniform { min: 1, max: 9 };
    assert_eq!(serving.prompts, Prompts::Synthetic(Lengths::Explicit { input, output }));
}

#[test]
fn the_ranges_of_peers_are_read_by_their_own_rules() {
    let drawn = |lengths: &str| {
        let workload = workload(&replace_part(SERVING, "N(480,240)/(300,150)", lengths));
        let Work::Serving(serving) = workload.spec.work else { panic!("serving") };
        let Prompts::Synthetic(Lengths::Explicit { input, output }) = serving.prompts else { panic!("explicit lengths") };
        (input, output)
    };
    let uniform = |min, max| Distribution::Uniform { min, max };
    let range = |rule: &str, tokens: u32, ratio: f64| format!("{{{rule}: {{tokens: {tokens}, ratio: {ratio}}}}}");
    let both = |rule, ratio| format!("{{input: {}, output: {}}}", range(rule, 1_024, ratio), range(rule, 10, ratio));
    assert_eq!(drawn(&both("vllm_range", 0.8)), (uniform(204, 1_844), uniform(1, 18)));
    assert_eq!(drawn(&both("vllm_range", 0.0)), (uniform(1_024, 1_024), uniform(10, 10)));
    assert_eq!(drawn(&both("sglang_range", 0.0)), (uniform(1, 1_024), uniform(1, 10)));
    assert_eq!(drawn(&both("sglang_range", 0.55)), (uniform(563, 1_024), uniform(5, 10)));
    assert_eq!(drawn(&both("sglang_range", 1.0)), (uniform(1_024, 1_024), uniform(10, 10)));
}

#[test]
fn a_trace_is_read_with_its_part_and_its_speeds() {
    let text = replace_part(
        SERVING,
        "lengths: N(480,240)/(300,150)",
        "trace: {path: t.jsonl, format: timed-jsonl, window: {to: 20m}, sample: 0.5}",
    );
    let open = "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n    duration: 60s\n";
    let text = replace_part(&text, open, "    mode: replay\n    speed: [0.5, 2]\n");
    let workload = workload(&text);
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    assert_eq!(serving.load.arrivals, ArrivalMode::Replay { speed: vec![0.5, 2.0] });
    let Prompts::Dataset(trace) = &serving.prompts else { panic!("a trace") };
    let times = TraceTimes {
        from: Duration::ZERO,
        to: Some(Duration::from_mins(20)),
        max_gap: None,
        max_tool_time: None,
        sample: Some(0.5),
    };
    assert_eq!((trace.format, trace.times, trace.member()), (DatasetFormat::TimedJsonl, Some(times), "trace"));
    assert_eq!(workload.mutable_parts().paths, ["t.jsonl"]);
}

#[test]
fn a_trace_and_its_replay_belong_together() {
    assert_snapshot!(serving("lengths: N(480,240)/(300,150)", "trace: {path: t.jsonl, format: mooncake, window: {from: 2m, to: 1m}}"), @r"
    error: `spec.trace` needs `spec.load.mode: replay`, or `closed` with `sessions`
      --> a.yaml:13:11
       |
    13 |     mode: open
       |           ^^^^
    hint: to send its requests at a concurrency or rate of your own, name the file as `dataset`

    error: `spec.trace.window.to` is not after `from`
      --> a.yaml:19:44
       |
    19 |   trace: {path: t.jsonl, format: mooncake, window: {from: 2m, to: 1m}}
       |                                            ^^^^^^
    ");
    assert_snapshot!(serving("mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5", "mode: replay"), @r"
    error: `spec.load.mode: replay` needs `spec.trace`
      --> a.yaml:13:11
       |
    13 |     mode: replay
       |           ^^^^^^
    hint: it names a file of requests with times, instead of `lengths` or `dataset`
    ");
    assert_snapshot!(serving("lengths: N(480,240)/(300,150)", "dataset: {path: t.jsonl}\n  prefix: {system: 9}"), @r"
    error: `spec.prefix` belongs to `lengths`: the prompts of a dataset have the beginnings that they have
      --> a.yaml:20:3
       |
    20 |   prefix: {system: 9}
       |   ^^^^^^
    hint: remove it
    ");
    assert_snapshot!(serving("lengths: N(480,240)/(300,150)", "lengths: D(1,1)\n  prefix: {groups: 9}"), @r"
    error: `spec.prefix` needs at least one of `system`, `group`
      --> a.yaml:20:3
       |
    20 |   prefix: {groups: 9}
       |   ^^^^^^
    ");
}

/// Returns the messages about a workload that plays the sessions of a trace, without their places and hints.
fn messages_of_trace_sessions(load: &str, trace: &str, more: &str) -> String {
    let found = problems_of_trace_sessions(load, trace, more);
    found.lines().filter_map(|line| line.strip_prefix("error: ")).collect::<Vec<_>>().join("\n")
}

fn problems_of_trace_sessions(load: &str, trace: &str, more: &str) -> String {
    let open =
        "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n    duration: 60s\n    warmup: 10s\n";
    let text = replace_part(SERVING, open, &format!("    {load}\n"));
    let text = replace_part(&text, "lengths: N(480,240)/(300,150)", &format!("trace: {{path: t.jsonl, {trace}}}\n{more}"));
    problems(&text)
}

#[test]
fn a_hint_on_the_end_of_a_trial_names_what_works() {
    let hints = |end: &str, sessions: &str| {
        let load = format!("mode: closed\n    concurrency: [2]\n    {end}");
        let found = problems_of_trace_sessions(&load, "format: weka", &format!("  sessions: {{{sessions}}}\n"));
        found.lines().filter_map(|line| line.strip_prefix("hint: ")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(hints("sessions: 6\n    warmup: 1s", ""), "remove `warmup`");
    assert_eq!(hints("sessions: 6\n    duration: 1s", ""), "remove it: `spec.load.sessions` ends the trial");
    assert_eq!(hints("duration: 1s", ""), "write `sessions`, the number that is played, or add `recycle: true`");
    assert_eq!(hints("requests: 5", ""), "write `sessions`");
    assert_eq!(hints("requests: 5\n    sessions: 6", ""), "remove it");
    assert_eq!(hints("requests: 5", "recycle: true"), "write `duration`");
    // Each of them leaves a workload without a problem.
    assert_eq!(hints("sessions: 6", ""), "");
    assert_eq!(hints("duration: 1s", "recycle: true"), "");
}

#[test]
fn the_sessions_of_a_trace_are_played_at_their_times_or_at_a_concurrency() {
    let sessions = "  sessions: {header: x-session}\n";
    let messages = |load: &str, trace: &str| messages_of_trace_sessions(load, trace, sessions);
    let (replay, closed) = ("mode: replay", "mode: closed\n    concurrency: [2]\n    sessions: 9");
    assert_eq!(messages(replay, "format: bailian, max_gap: 9s, max_tool_time: 1s"), "");
    assert_eq!(messages(closed, "format: weka"), "");
    assert_eq!(messages(closed, "format: tracelab, window: {to: 1h}"), "");
    assert_snapshot!(messages(replay, "format: azure"), @"the requests of a trace of the format `azure` belong to no sessions, which `spec.sessions` would play");
    assert_snapshot!(messages(replay, "format: weka, window: {to: 1h}"), @r"
    a trace of the format `weka` does not record when its sessions began, which `mode: replay` needs
    a trace of the format `weka` does not record when its sessions began, so that no `window` can be taken of it
    ");
    let by_clock = "mode: closed\n    concurrency: [2]\n    duration: 9s";
    assert_snapshot!(messages(by_clock, "format: weka"), @"`spec.load.duration` cannot end a trial that plays each session of a trace once: it may be longer than all of them");
    let endless = "mode: closed\n    concurrency: [2]";
    assert_snapshot!(messages(endless, "format: weka"), @"`spec.load` needs `sessions`, the number of sessions that are played");
    let recycled = messages_of_trace_sessions(endless, "format: weka", "  sessions: {recycle: true}\n");
    assert_snapshot!(recycled, @"`spec.load` needs one of `duration`, `sessions`");
    let with = |more: &str| messages_of_trace_sessions(replay, "format: bailian", &format!("  sessions: {{{more}}}\n"));
    assert_snapshot!(with("history: live"), @"`spec.sessions.history: live` belongs to `lengths` or `dataset`: the prompts of a trace are whole ones, as recorded");
    assert_snapshot!(with("turns: 3"), @"`spec.sessions.turns` belongs to `lengths`: a trace has its own turns");
    let without = |trace: &str| messages_of_trace_sessions(replay, trace, "");
    assert_snapshot!(without("format: tracelab"), @"a trace of the format `tracelab` consists of sessions, which are played turn by turn");
    assert_snapshot!(without("format: mooncake, max_tool_time: 1s"), @"`spec.trace.max_tool_time` needs `spec.sessions`: only turns of sessions wait for tools");
    assert_snapshot!(messages_of_trace_sessions(closed, "format: azure, max_tool_time: 1s", ""), @r"
    `spec.trace` needs `spec.load.mode: replay`: requests of the format `azure` belong to no sessions
    `spec.load.sessions` needs `spec.sessions`
    `spec.trace.max_tool_time` needs `spec.sessions`: only turns of sessions wait for tools
    ");
    let completions = format!("{sessions}  api: completions\n");
    assert_eq!(messages_of_trace_sessions(replay, "format: bailian", &completions), "");
}

/// Returns the messages about a workload of users with these members of `load`, and these of `spec` instead of `lengths`, with their hints.
fn messages_of_users(load: &str, spec: &str) -> Vec<String> {
    let open =
        "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n    duration: 60s\n    warmup: 10s\n";
    let text = replace_part(SERVING, open, &format!("    mode: users\n    users: [15]\n{load}"));
    let found = problems(&replace_part(&text, "lengths: N(480,240)/(300,150)", spec));
    let lines = found.lines().filter_map(|line| line.strip_prefix("error: ").or_else(|| line.strip_prefix("hint: ")));
    lines.map(str::to_owned).collect()
}

#[test]
fn users_have_a_rate_and_a_duration() {
    let load = "    mode: users\n    users: [15, 30]\n    rate: [0.5, 1]\n";
    let open = "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n";
    let text = replace_part(SERVING, open, load);
    let text = replace_part(&text, "lengths: N(480,240)/(300,150)", "lengths: D(9,9)\n  sessions: {turns: 20}");
    let Work::Serving(serving) = workload(&text).spec.work else { panic!("serving") };
    assert_eq!(serving.load.arrivals, ArrivalMode::Users { users: vec![15, 30], rate: vec![0.5, 1.0] });
    let rate = "    rate: [1]\n    duration: 60s\n";
    assert_eq!(messages_of_users(rate, "lengths: D(9,9)\n  sessions: {turns: 20}"), [""; 0]);
    let chats = "dataset: {path: chats.json, format: sharegpt}\n  sessions: {history: live}";
    assert_eq!(messages_of_users(rate, chats), [""; 0]);
}

#[test]
fn what_users_cannot_do_is_refused() {
    let drawn = "lengths: D(9,9)\n  sessions: {turns: 20}";
    let rate = |more: &str| format!("    rate: [1]\n    duration: 60s\n{more}");
    let cases: [(&str, &str, &[&str]); 11] = [
        (
            &rate(""),
            "lengths: D(9,9)",
            &[
                "`spec.load.mode: users` needs `spec.sessions`, whose turns its users send",
                "add `sessions`, such as `sessions: {turns: 20}`",
            ],
        ),
        (
            &rate(""),
            "trace: {path: t.jsonl, format: bailian}\n  sessions: {}",
            &[
                "`spec.load.mode: users` cannot play a `trace`: its turns have times of their own",
                "write `mode: replay` or `closed`, or name the file as `dataset`",
            ],
        ),
        (
            "    rate: {ramp: {shape: linear, from: 1, to: 5}}\n    duration: 60s\n",
            drawn,
            &[
                "`spec.load.rate` of `mode: users` cannot change during a trial: the gap of a user would",
                "write `rate: [1]`, or `mode: open`, in which sessions arrive at a rate",
            ],
        ),
        (
            &rate(""),
            "lengths: D(9,9)\n  sessions: {turns: 20, think_time: 1s}",
            &[
                "`spec.sessions.think_time` has no place in `mode: users`: the gap of a user is its number of users over the rate",
                "remove it, or write `mode: closed` or `open`",
            ],
        ),
        (
            &rate("    sessions: 9\n"),
            drawn,
            &[
                "`spec.load.sessions` cannot end a trial of `mode: users`: all of its users play up to the end",
                "write `duration` instead",
            ],
        ),
        (
            &rate("    requests: 9\n"),
            drawn,
            &[
                "`spec.load.requests` cannot end a trial of sessions: a session is never cut to a number of requests",
                "write `duration`",
            ],
        ),
        ("    rate: [1]\n", drawn, &["`spec.load` lacks `duration` for `mode: users`"]),
        ("    duration: 60s\n", drawn, &["`spec.load` lacks `rate` for `mode: users`"]),
        (&rate("    arrival: poisson\n"), drawn, &["`spec.load.arrival`"]),
        (&rate("    max_concurrency: 9\n"), drawn, &["`spec.load.max_concurrency`"]),
        (&rate("    cancel: {share: 0.1, after: 1s}\n"), drawn, &["`spec.load.cancel` cancels single requests"]),
    ];
    for (load, spec, expected) in cases {
        let found = messages_of_users(load, spec);
        let begins = expected.iter().zip(&found).all(|(expected, found)| found.starts_with(expected));
        assert!(begins && found.len() <= 2, "{expected:?}: {found:#?}");
    }
}

#[test]
fn sessions_are_read_with_their_defaults_and_laws() {
    let of = |sessions: &str| {
        let text = replace_part(SERVING, "lengths: N(480,240)/(300,150)", &format!("lengths: D(9,9)\n  sessions: {sessions}"));
        let Work::Serving(serving) = workload(&text).spec.work else { panic!("serving") };
        serving.sessions.expect("sessions")
    };
    let simple = of("{turns: 5}");
    assert_eq!(
        simple,
        Sessions {
            turns: Some(Distribution::Fixed(5)),
            think_time: Pause::Fixed(Duration::ZERO),
            history: History::Recorded,
            reasoning: ReasoningHistory::Drop,
            header: None,
            play: SessionPlay::default(),
        }
    );
    let uniform = of(
        "{turns: {uniform: {min: 2, max: 8}}, think_time: {uniform: {min: 0s, max: 1m}}, history: live, reasoning: keep, header: X-Session-Id}",
    );
    assert_eq!(uniform.turns, Some(Distribution::Uniform { min: 2, max: 8 }));
    assert_eq!(uniform.think_time, Pause::Uniform { min: Duration::ZERO, max: Duration::from_mins(1) });
    assert_eq!((uniform.history, uniform.reasoning), (History::Live, ReasoningHistory::Keep));
    assert_eq!(uniform.header.as_deref(), Some("x-session-id"));
    assert_eq!(of("{turns: 1, think_time: 2s}").think_time, Pause::Fixed(Duration::from_secs(2)));
    let mean = Duration::from_secs(3);
    assert_eq!(of("{turns: 1, think_time: {exponential: {mean: 3s}}}").think_time, Pause::Exponential { mean });
    let stddev = Duration::from_millis(500);
    let spread = of("{turns: {lognormal: {mean: 4, stddev: 2}}, think_time: {lognormal: {mean: 3s, stddev: 500ms}}}");
    assert_eq!(
        (spread.turns, spread.think_time),
        (Some(Distribution::LogNormal { mean: 4.0, stddev: 2.0 }), Pause::LogNormal { mean, stddev })
    );
}

#[test]
fn the_conversations_of_a_dataset_have_their_own_turns() {
    let text = with_dataset("{path: chats.json, format: sharegpt}\n  sessions: {think_time: 2s}");
    let Work::Serving(serving) = workload(&text).spec.work else { panic!("serving") };
    assert_eq!(serving.sessions.expect("sessions").turns, None);
    let found = |dataset: &str| problems(&with_dataset(dataset));
    assert_snapshot!(found("{path: chats.json, format: sharegpt}\n  sessions: {turns: 3}"), @r"
    error: `spec.sessions.turns` belongs to `lengths`: the conversations of a dataset have their own turns
      --> a.yaml:20:14
       |
    20 |   sessions: {turns: 3}
       |              ^^^^^
    hint: remove it
    ");
    assert_snapshot!(found("{path: chats.csv}\n  sessions: {think_time: 2s}"), @r"
    error: a dataset of the format `csv` has no conversations, which `spec.sessions` would send
      --> a.yaml:20:3
       |
    20 |   sessions: {think_time: 2s}
       |   ^^^^^^^^
    hint: write `format: sharegpt`, `format: jsonl`, or remove `sessions`
    ");
    assert_snapshot!(serving_with("trace: {path: t.jsonl, format: mooncake}\n  sessions: {think_time: 2s}"), @r"
    error: `spec.trace` needs `spec.load.mode: replay`, or `closed` with `sessions`
      --> a.yaml:13:11
       |
    13 |     mode: open
       |           ^^^^
    hint: to send its requests at a concurrency or rate of your own, name the file as `dataset`

    error: `spec.sessions.think_time` belongs to `lengths` or `dataset`: a trace has its own pauses, which `spec.trace.max_gap` can cut
      --> a.yaml:20:14
       |
    20 |   sessions: {think_time: 2s}
       |              ^^^^^^^^^^
    hint: remove it
    ");
    assert_snapshot!(serving_with("lengths: D(9,9)\n  sessions: {think_time: 2s}"), @r"
    error: `spec.sessions` lacks `turns`
      --> a.yaml:20:3
       |
    20 |   sessions: {think_time: 2s}
       |   ^^^^^^^^
    hint: a number, such as `turns: 5`, or `turns: {uniform: {min: 2, max: 8}}`
    ");
}

fn serving_with(prompts: &str) -> String {
    serving("lengths: N(480,240)/(300,150)", prompts)
}

#[test]
fn what_cannot_be_sessions_is_refused() {
    let with = |more: &str| serving("lengths: N(480,240)/(300,150)", &format!("lengths: D(9,9)\n  {more}"));
    assert_snapshot!(with("sessions: {turns: 0}"), @r"
    error: `spec.sessions.turns` must be from 1 to 1000, not 0
      --> a.yaml:20:21
       |
    20 |   sessions: {turns: 0}
       |                     ^
    ");
    assert_snapshot!(with("sessions: {turns: {uniform: {min: 4, max: 2}}, think_time: {uniform: {min: 2s, max: 1s}}}"), @r"
    error: `spec.sessions.turns.uniform`: its `max` is below its `min`
      --> a.yaml:20:22
       |
    20 |   sessions: {turns: {uniform: {min: 4, max: 2}}, think_time: {uniform: {min: 2s, max: 1s}}}
       |                      ^^^^^^^

    error: `spec.sessions.think_time.uniform`: its `max` is below its `min`
      --> a.yaml:20:63
       |
    20 |   sessions: {turns: {uniform: {min: 4, max: 2}}, think_time: {uniform: {min: 2s, max: 1s}}}
       |                                                               ^^^^^^^
    ");
    assert_snapshot!(with("sessions: {turns: 2, header: x-request-id}"), @r"
    error: `spec.sessions.header` is not the name of a header of sessions: `x-request-id`
      --> a.yaml:20:32
       |
    20 |   sessions: {turns: 2, header: x-request-id}
       |                                ^^^^^^^^^^^^
    hint: a name that begins with `x-`, of letters, digits and hyphens; `x-request-id` is Assay's own
    ");
    assert_snapshot!(with("sessions: {turns: 2, think_time: 25h}"), @r"
    error: `spec.sessions.think_time` is not a duration: `25h`
      --> a.yaml:20:36
       |
    20 |   sessions: {turns: 2, think_time: 25h}
       |                                    ^^^
    hint: must not be longer than a day
    ");
    assert_snapshot!(with("api: completions\n  sessions: {turns: 2}\n  cache: warm"), @r"
    error: requests of `api: completions` have no messages, of which sessions consist
      --> a.yaml:21:3
       |
    21 |   sessions: {turns: 2}
       |   ^^^^^^^^
    hint: write `api: chat`, or let the client make one text of messages by a chat template: `tokenizer: {folder: FOLDER, template: apply}` (`--tokenizer FOLDER --template apply`)

    error: `cache: warm` cannot warm sessions: what a later turn sends is not known beforehand
      --> a.yaml:22:10
       |
    22 |   cache: warm
       |          ^^^^
    hint: write `cache: cold_salt` or `cache: shared`
    ");
    let ends_after = |warmup: &str, end: &str| {
        let text = replace_part(&replace_part(SERVING, "duration: 60s", end), "warmup: 10s", warmup);
        problems(&replace_part(&text, "lengths: N(480,240)/(300,150)", "lengths: D(9,9)\n  sessions: {turns: 2}"))
    };
    let ends = |end: &str| ends_after("warmup: 0s", end);
    assert_snapshot!(ends_after("warmup: 1s", "sessions: 9"), @r"
    error: `spec.load.sessions` leaves no time for a `warmup`: a fast endpoint would play them all in it
      --> a.yaml:17:15
       |
    17 |     sessions: 9
       |               ^
    hint: remove `warmup`, or write `duration` instead of `sessions`
    ");
    assert_snapshot!(with("sessions: {turns: 2, reasoning: keep}"), @r"
    error: `spec.sessions.reasoning: keep` keeps the reasoning of live responses, and `history` is `recorded`
      --> a.yaml:20:35
       |
    20 |   sessions: {turns: 2, reasoning: keep}
       |                                   ^^^^
    hint: remove it, or write `history: live`
    ");
    assert_snapshot!(ends("requests: 9"), @r"
    error: `spec.load.requests` cannot end a trial of sessions: a session is never cut to a number of requests
      --> a.yaml:17:15
       |
    17 |     requests: 9
       |               ^
    hint: write `sessions`, or `duration`
    ");
    assert_snapshot!(ends("duration: 60s\n    sessions: 9"), @r"
    error: `spec.load.sessions` and `duration` cannot both end a trial: the last sessions would be cut
      --> a.yaml:18:15
       |
    18 |     sessions: 9
       |               ^
    hint: remove one of them
    ");
    assert_eq!(ends("sessions: 9"), "no problem");
    assert_snapshot!(ends("timeout: 1m"), @r"
    error: `spec.load` needs one of `duration`, `sessions`
      --> a.yaml:12:3
       |
    12 |   load:
       |   ^^^^
    ");
    assert_snapshot!(serving("duration: 60s", "sessions: 9"), @r"
    error: `spec.load.sessions` needs `spec.sessions`
      --> a.yaml:17:15
       |
    17 |     sessions: 9
       |               ^
    hint: write `requests`, or add `sessions`
    ");
}

fn with_dataset(dataset: &str) -> String {
    replace_part(SERVING, "lengths: N(480,240)/(300,150)", &format!("dataset: {dataset}"))
}

#[test]
fn a_dataset_is_read_with_its_defaults() {
    let workload = workload(&with_dataset("{path: prompts.jsonl}"));
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    let Prompts::Dataset(dataset) = &serving.prompts else { panic!("a dataset") };
    assert_eq!(dataset.file, PinnableFile::Path { path: "prompts.jsonl".to_owned(), sha256: None });
    assert_eq!((dataset.format, dataset.over), (DatasetFormat::Jsonl, OverLongPrompt::Refuse));
    assert_eq!((&dataset.output, dataset.max_input, dataset.fields.len()), (&ResponseLength::Recorded, None, 0));
    assert_eq!(workload.mutable_parts().paths, ["prompts.jsonl"]);
}

#[test]
fn a_dataset_may_name_everything() {
    let text = "{url: 'https://example.org/a.json?raw', format: sharegpt, max_input: 4096, over: skip, output: {fixed: 9}}";
    let workload = workload(&with_dataset(text));
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    let Prompts::Dataset(dataset) = &serving.prompts else { panic!("a dataset") };
    assert_eq!(dataset.output, ResponseLength::Drawn(Distribution::Fixed(9)));
    assert_eq!((dataset.max_input, dataset.max_output, dataset.over), (Some(4096), None, OverLongPrompt::Skip));
    assert_eq!(workload.mutable_parts().dataset_url.as_deref(), Some("https://example.org/a.json?raw"));
    let fields = "{path: a.csv, fields: {prompt: question, output_tokens: n}, output: server, max_output: 50}";
    let Work::Serving(serving) = &self::workload(&with_dataset(fields)).spec.work else { panic!("serving") };
    let Prompts::Dataset(dataset) = &serving.prompts else { panic!("a dataset") };
    assert_eq!((dataset.format, &dataset.output), (DatasetFormat::Csv, &ResponseLength::Server));
    assert_eq!(dataset.max_output, Some(50));
    assert_eq!(dataset.fields.get("prompt").map(String::as_str), Some("question"));
}

#[test]
fn drawn_lengths_have_no_other_limit() {
    assert_snapshot!(serving_with("dataset: {path: a.jsonl, output: {fixed: 9}, max_output: 5}"), @r"
    error: `spec.dataset.max_output` limits recorded lengths and those that the endpoint decides, and `output` draws all of them
      --> a.yaml:19:60
       |
    19 |   dataset: {path: a.jsonl, output: {fixed: 9}, max_output: 5}
       |                                                            ^
    hint: remove it, and draw no longer ones
    ");
    assert_eq!(serving_with("dataset: {path: a.jsonl, output: server, max_output: 5}"), "no problem");
}

#[test]
fn a_treatment_of_long_prompts_needs_a_limit() {
    assert_snapshot!(serving_with("dataset: {path: a.jsonl, over: truncate}"), @r"
    error: `spec.dataset.over` is the treatment of prompts longer than `max_input`, which is not given
      --> a.yaml:19:34
       |
    19 |   dataset: {path: a.jsonl, over: truncate}
       |                                  ^^^^^^^^
    hint: add `max_input`, such as `max_input: 4096`, or remove it
    ");
    assert_eq!(serving_with("dataset: {path: a.jsonl, over: truncate, max_input: 5}"), "no problem");
    assert_eq!(serving_with("dataset: {path: a.jsonl, over: refuse}"), "no problem", "which is what happens anyway");
}

#[test]
fn a_dataset_pins_its_content() {
    let freeze = |content: Option<&[u8]>| {
        let contents = content.map(|bytes| ("prompts.jsonl".to_owned(), Digest::compute(bytes))).into_iter().collect();
        workload(&with_dataset("{path: prompts.jsonl}")).freeze(&Pins { contents, ..Pins::default() }).expect("frozen")
    };
    let (one, other) = (freeze(Some(b"a")), freeze(Some(b"b")));
    assert_ne!(one.digest, other.digest);
    assert_eq!(one.json["dataset"]["sha256"], Digest::compute(b"a").hex());
    assert_eq!(freeze(None).unpinned, ["prompts.jsonl"]);
}

#[test]
fn datasets_that_cannot_be_used_are_refused() {
    let found = |dataset: &str| problems(&with_dataset(dataset));
    assert_snapshot!(found("{path: prompts}"), @r"
    error: `spec.dataset` lacks `format`, and the name `prompts` does not tell it
      --> a.yaml:19:3
       |
    19 |   dataset: {path: prompts}
       |   ^^^^^^^
    hint: `format` (`--dataset-format`) is one of jsonl, sharegpt, openai_batch, csv, parquet, text, mooncake, bailian, azure, burstgpt, timed_jsonl, weka, tracelab
    ");
    assert_snapshot!(found("{path: a.json, format: sharegpt, fields: {prompt: x}}"), @r"
    error: `spec.dataset.fields` belongs to formats whose members have names of your own choosing
      --> a.yaml:19:45
       |
    19 |   dataset: {path: a.json, format: sharegpt, fields: {prompt: x}}
       |                                             ^^^^^^
    hint: remove it, or write `format: jsonl`
    ");
    assert!(found("{path: a.csv}\n  batch: 2\n  api: embeddings").contains("`spec.batch` above 1 belongs to `lengths`"));
    assert!(
        found("{path: a.csv}\n  api: rerank")
            .contains("`api: rerank` cannot take a dataset: its requests have a query and documents")
    );
    assert!(
        found("{path: a.csv, output: server}\n  api: embeddings")
            .contains("responses of `api: embeddings` have no output tokens")
    );
    assert!(found("{path: a.csv}\n  lengths: D(1,2)").contains("takes only one of `lengths`, `dataset`"));
    assert!(found("{path: a.csv, url: 'https://a.b/c.csv'}").contains("takes only one of `path`, `url`"));
    assert!(
        found("{path: a.csv, output: {uniform: {min: 9, max: 1}}}")
            .contains("`spec.dataset.output.uniform.max` is 1, below `min`")
    );
    assert!(found("{path: ../a.csv}").contains("error"));
}

#[test]
fn parameters_are_kept_as_they_are_written() {
    let workload = workload(&replace_part(
        INDICATOR,
        "REPS: 20",
        "REPS: 1.50\n    FLAG: yes\n    BIG: 0x1F\n    TEXT: '007'\n    EMPTY: ''",
    ));
    let parameters = &workload.spec.work.executable().expect("an executable").parameters;
    let constant = |name: &str| match &parameters[name] {
        Parameter::Constant(text) => text.clone(),
        Parameter::Axis(_) => panic!("a constant"),
    };
    assert_eq!(["REPS", "FLAG", "BIG", "TEXT", "EMPTY"].map(constant), ["1.50", "yes", "0x1F", "007", ""]);
}

#[test]
fn the_name_is_the_folders() {
    let parse =
        |file: &str| Workload::parse(file, INDICATOR.as_bytes()).map_or_else(|problems| render(&problems), |_| "read".to_owned());
    assert_eq!(parse("workloads/stream/workload.yaml"), "read");
    assert_eq!(parse("anywhere/x.yaml"), "read");
    assert_snapshot!(parse("workloads/other/workload.yaml"), @r"
    error: the workload is named `stream` and lies in the folder `other`
     --> workloads/other/workload.yaml:4:9
      |
    4 |   name: stream
      |         ^^^^^^
    hint: name it as its folder, so that pipelines find it
    ");
}

#[test]
fn another_kind_is_refused_where_a_workload_is_expected() {
    let problems = Workload::parse("workloads/x/workload.yaml", PIPELINE.as_bytes()).expect_err("a pipeline");
    assert_snapshot!(render(&problems), @r"
    error: a Workload is expected here, not a Pipeline
     --> workloads/x/workload.yaml:2:7
      |
    2 | kind: Pipeline
      |       ^^^^^^^^
    ");
}

#[test]
fn a_file_that_is_not_text_is_refused() {
    let problems = Workload::parse("w.yaml", b"a: 1\nb: \xff").expect_err("not text");
    assert_snapshot!(render(&problems), @r"
    error: the file is not UTF-8 text: line 2 holds other bytes
     --> w.yaml
    ");
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert_eq!(problems(&format!("\u{feff}{INDICATOR}")), "no problem");
}

#[test]
fn a_file_must_be_a_map() {
    assert_snapshot!(problems("- a\n"), @r"
    error: a definition must be a map of fields
     --> a.yaml:1:1
      |
    1 | - a
      | ^^^
    hint: a definition begins with `apiVersion: assay.dev/v1alpha1` and `kind:`
    ");
}

#[test]
fn a_file_must_say_what_it_defines() {
    assert_snapshot!(indicator("kind: Workload\n", ""), @r"
    error: the file does not say what it defines
     --> a.yaml:1:1
      |
    1 | apiVersion: assay.dev/v1alpha1
      | ^
    hint: write `kind:` with one of Pipeline, Workload, TrustPolicy, Acknowledgement, Noise, ForeignGate
    ");
}

#[test]
fn an_unknown_kind_is_refused() {
    assert_snapshot!(indicator("kind: Workload", "kind: Worklaod"), @r"
    error: `Worklaod` is not a kind of definition: expected one of Pipeline, Workload, TrustPolicy, Acknowledgement, Noise, ForeignGate
     --> a.yaml:2:7
      |
    2 | kind: Worklaod
      |       ^^^^^^^^
    hint: did you mean `Workload`?
    ");
}

#[test]
fn another_version_is_refused_alone() {
    assert_snapshot!(indicator("assay.dev/v1alpha1", "assay.dev/v2"), @r"
    error: `assay.dev/v2` is not a version that this Assay reads
     --> a.yaml:1:13
      |
    1 | apiVersion: assay.dev/v2
      |             ^^^^^^^^^^^^
    hint: write `apiVersion: assay.dev/v1alpha1`
    ");
}

#[test]
fn a_missing_version_is_named() {
    assert_snapshot!(indicator("apiVersion: assay.dev/v1alpha1\n", ""), @r"
    error: a Workload lacks `apiVersion`
     --> a.yaml:1:1
      |
    1 | kind: Workload
      | ^
    hint: the version of the format: write `apiVersion: assay.dev/v1alpha1`
    ");
}

#[test]
fn unknown_fields_are_refused_with_the_nearest_known_one() {
    assert_snapshot!(indicator("time_limit: 2m", "time_limt: 2m"), @r"
    error: `spec` has no field `time_limt`
      --> a.yaml:20:3
       |
    20 |   time_limt: 2m
       |   ^^^^^^^^^
    hint: did you mean `time_limit`?
    ");
}

#[test]
fn unknown_fields_far_from_any_are_refused_with_all_known_ones() {
    assert_snapshot!(indicator("{path: run.sh}", "{path: run.sh, whatever: 1}"), @r"
    error: `spec.script` has no field `whatever`
     --> a.yaml:8:26
      |
    8 |   script: {path: run.sh, whatever: 1}
      |                          ^^^^^^^^
    hint: it takes `path`, `url`, `sha256`
    ");
}

#[test]
fn all_problems_come_in_one_go_in_the_order_of_the_file() {
    let text = replace_part(INDICATOR, "name: stream", "name: Stream");
    let text = replace_part(&text, "time_limit: 2m", "time_limit: soon\n  seed: 12");
    let text = replace_part(&text, "better: higher", "better: bigger");
    assert_snapshot!(problems(&text), @r"
    error: `metadata.name` is not a name: `Stream`
     --> a.yaml:4:9
      |
    4 |   name: Stream
      |         ^^^^^^
    hint: lower-case letters, digits and inner hyphens, at most 40 characters

    error: `spec.metrics[0].better` must be one of `higher`, `lower`, not `bigger`
      --> a.yaml:18:45
       |
    18 |     - {path: copy.rate, unit: GB/s, better: bigger}
       |                                             ^^^^^^
    hint: did you mean `higher`?

    error: `spec.time_limit` is not a duration: `soon`
      --> a.yaml:20:15
       |
    20 |   time_limit: soon
       |               ^^^^
    hint: whole numbers with `h`, `m`, `s` and `ms`, in that order, such as `30s` or `1h30m`

    error: `spec.seed` must be a seed, not the number `12`
      --> a.yaml:21:9
       |
    21 |   seed: 12
       |         ^^
    hint: 64 lower-case hexadecimal digits
    ");
}

#[test]
fn a_field_of_another_type_is_refused_by_name() {
    assert_snapshot!(indicator("time_limit: 2m", "lengths: D(1,2)"), @r"
    error: `spec.lengths` does not belong to a workload of `type: indicator`
      --> a.yaml:20:3
       |
    20 |   lengths: D(1,2)
       |   ^^^^^^^
    hint: it belongs to `type: serving`; remove it
    ");
    assert_snapshot!(serving("  slos:", "  script: {path: run.sh}\n  slos:"), @r"
    error: `spec.script` does not belong to a workload of `type: serving`
      --> a.yaml:20:3
       |
    20 |   script: {path: run.sh}
       |   ^^^^^^
    hint: it belongs to `type: indicator` or `type: training`; remove it
    ");
    assert_snapshot!(indicator("time_limit: 2m", "parallelism: tp8"), @r"
    error: `spec.parallelism` does not belong to a workload of `type: indicator`
      --> a.yaml:20:3
       |
    20 |   parallelism: tp8
       |   ^^^^^^^^^^^
    hint: it belongs to `type: training`; remove it
    ");
}

#[test]
fn an_unknown_type_is_one_problem() {
    assert_snapshot!(indicator("type: indicator", "type: micro"), @r"
    error: `spec.type` must be one of `serving`, `indicator`, `training`, not `micro`
     --> a.yaml:7:9
      |
    7 |   type: micro
      |         ^^^^^
    ");
}

#[test]
fn missing_fields_say_for_which_type() {
    assert_snapshot!(serving("  model: llama-3.1-8b\n  precision: fp8\n", ""), @"
    error: `spec` lacks `model` for `type: serving`
     --> a.yaml:4:1
      |
    4 | spec:
      | ^^^^
    hint: the model, such as `llama-3.1-8b`

    error: `spec` lacks `precision` for `type: serving`
     --> a.yaml:4:1
      |
    4 | spec:
      | ^^^^
    hint: the number format, such as `fp8`
    ");
    assert_snapshot!(indicator("  script: {path: run.sh}\n", ""), @r"
    error: `spec` needs one of `script`, `command`
     --> a.yaml:6:1
      |
    6 | spec:
      | ^^^^
    ");
}

#[test]
fn serving_needs_a_load() {
    let begin = SERVING.find("  load:").expect("a load");
    let end = SERVING.find("  lengths:").expect("lengths");
    assert_snapshot!(serving(&SERVING[begin..end], ""), @r"
    error: `spec` lacks `load` for `type: serving`
     --> a.yaml:4:1
      |
    4 | spec:
      | ^^^^
    hint: how requests arrive
    ");
}

#[test]
fn training_is_refused_where_it_is_written() {
    let training = "type: training\n  framework: c\n  model: m\n  precision: p";
    assert_snapshot!(indicator("type: indicator", training), @r"
    error: `spec.type` is `training`, which this version cannot run
     --> a.yaml:7:9
      |
    7 |   type: training
      |         ^^^^^^^^
    hint: this version runs `serving` and `indicator`; an indicator may time a training script
    ");
    assert_eq!(indicator("type: indicator", "type: indicator\n  framework: c"), "no problem");
}

#[test]
fn training_needs_its_dimensions() {
    assert_snapshot!(indicator("type: indicator", "type: training"), @r"
    error: `spec` lacks `model` for `type: training`
     --> a.yaml:6:1
      |
    6 | spec:
      | ^^^^
    hint: the model, such as `llama-3.1-8b`

    error: `spec` lacks `precision` for `type: training`
     --> a.yaml:6:1
      |
    6 | spec:
      | ^^^^
    hint: the number format, such as `fp8`

    error: `spec` lacks `framework` for `type: training`
     --> a.yaml:6:1
      |
    6 | spec:
      | ^^^^
    hint: what computes, such as `pytorch`

    error: `spec.type` is `training`, which this version cannot run
     --> a.yaml:7:9
      |
    7 |   type: training
      |         ^^^^^^^^
    hint: this version runs `serving` and `indicator`; an indicator may time a training script
    ");
}

#[test]
fn a_field_without_a_value_is_refused() {
    assert_snapshot!(indicator("time_limit: 2m", "time_limit:"), @r"
    error: `spec.time_limit` has no value
      --> a.yaml:20:3
       |
    20 |   time_limit:
       |   ^^^^^^^^^^
    hint: give it a value or remove it
    ");
    assert_snapshot!(indicator("REPS: 20", "REPS:"), @r#"
    error: `spec.parameters.REPS` has no value
      --> a.yaml:16:5
       |
    16 |     REPS:
       |     ^^^^
    hint: write `""` for the empty text
    "#);
}

#[test]
fn text_that_looks_like_something_else_needs_quotes() {
    assert_snapshot!(serving("precision: fp8", "precision: 16"), @r#"
    error: `spec.precision` must be a short text without spaces, not the number `16`
     --> a.yaml:7:14
      |
    7 |   precision: 16
      |              ^^
    hint: put it in quotes: `"16"`
    "#);
    assert_snapshot!(indicator("owner: performance", "owner: true"), @r#"
    error: `metadata.owner` must be a text, not the boolean `true`
     --> a.yaml:5:10
      |
    5 |   owner: true
      |          ^^^^
    hint: put it in quotes: `"true"`
    "#);
    assert_eq!(serving("precision: fp8", "precision: '16'"), "no problem");
    assert_eq!(indicator("owner: performance", "owner: on"), "no problem");
}

#[test]
fn booleans_are_true_or_false() {
    assert_snapshot!(indicator("primary: false", "primary: no"), @r"
    error: `spec.metrics[1].primary` must be `true` or `false`, not the text `no`
      --> a.yaml:19:62
       |
    19 |     - {path: copy.elapsed, unit: ms, better: lower, primary: no}
       |                                                              ^^
    hint: write `false`, without quotes
    ");
    assert_snapshot!(indicator("primary: false", "primary: \"true\""), @r#"
    error: `spec.metrics[1].primary` must be `true` or `false`, not the text `true`
      --> a.yaml:19:62
       |
    19 |     - {path: copy.elapsed, unit: ms, better: lower, primary: "true"}
       |                                                              ^^^^^^
    hint: write `true`, without quotes
    "#);
    assert_snapshot!(indicator("primary: false", "primary: 1"), @r"
    error: `spec.metrics[1].primary` must be `true` or `false`, not the number `1`
      --> a.yaml:19:62
       |
    19 |     - {path: copy.elapsed, unit: ms, better: lower, primary: 1}
       |                                                              ^
    ");
}

#[test]
fn numbers_are_numbers_within_limits() {
    assert_snapshot!(serving("smoothness: 0.5", "smoothness: '0.5'"), @r"
    error: `spec.load.smoothness` must be a number, not the text `0.5`
      --> a.yaml:16:17
       |
    16 |     smoothness: '0.5'
       |                 ^^^^^
    hint: write it without quotes
    ");
    assert_snapshot!(serving("smoothness: 0.5", "smoothness: .inf"), @r"
    error: `spec.load.smoothness` must be a number, not the number `.inf`
      --> a.yaml:16:17
       |
    16 |     smoothness: .inf
       |                 ^^^^
    hint: write it in plain decimal digits, such as `10` or `2.5`
    ");
    assert_snapshot!(serving("smoothness: 0.5", "smoothness: much"), @r"
    error: `spec.load.smoothness` must be a number, not the text `much`
      --> a.yaml:16:17
       |
    16 |     smoothness: much
       |                 ^^^^
    ");
    assert_snapshot!(serving("rate: [1, 2.5, 10]", "rate: [1, 0, -3, 99999999999]"), @r"
    error: `spec.load.rate[1]` must be at least 0.0001 and at most 10000000, not 0
      --> a.yaml:14:15
       |
    14 |     rate: [1, 0, -3, 99999999999]
       |               ^

    error: `spec.load.rate[2]` must be at least 0.0001 and at most 10000000, not -3
      --> a.yaml:14:18
       |
    14 |     rate: [1, 0, -3, 99999999999]
       |                  ^^

    error: `spec.load.rate[3]` must be at least 0.0001 and at most 10000000, not 99999999999
      --> a.yaml:14:22
       |
    14 |     rate: [1, 0, -3, 99999999999]
       |                      ^^^^^^^^^^^
    ");
    assert_snapshot!(serving("duration: 60s", "duration: 60s\n    requests: 1.5"), @r"
    error: `spec.load.requests` must be a whole number, not the number `1.5`
      --> a.yaml:18:15
       |
    18 |     requests: 1.5
       |               ^^^
    hint: write it in plain decimal digits, such as `10` or `2.5`
    ");
    assert_snapshot!(serving("duration: 60s", "duration: 60s\n    requests: 0"), @r"
    error: `spec.load.requests` must be from 1 to 1000000000, not 0
      --> a.yaml:18:15
       |
    18 |     requests: 0
       |               ^
    ");
    assert_snapshot!(serving("duration: 60s", "duration: 60s\n    requests: 99999999999999999999"), @r"
    error: `spec.load.requests` must be from 1 to 1000000000, not 99999999999999999999
      --> a.yaml:18:15
       |
    18 |     requests: 99999999999999999999
       |               ^^^^^^^^^^^^^^^^^^^^
    ");
}

#[test]
fn lists_and_maps_are_told_from_scalars() {
    assert_snapshot!(serving("rate: [1, 2.5, 10]", "rate: 5"), @r"
    error: `spec.load.rate` must be a list or a map, not the number `5`
      --> a.yaml:14:11
       |
    14 |     rate: 5
       |           ^
    hint: write a list: `[5]`
    ");
    assert_snapshot!(indicator("files: [stream.c]", "files: {a: b}"), @r"
    error: `spec.files` must be a list, not a map
     --> a.yaml:9:10
      |
    9 |   files: {a: b}
      |          ^^^^^
    ");
    assert_snapshot!(indicator("  script: {path: run.sh}", "  script: run.sh"), @r"
    error: `spec.script` must be a map, not the text `run.sh`
     --> a.yaml:8:11
      |
    8 |   script: run.sh
      |           ^^^^^^
    hint: its fields are `path`, `url`, `sha256`
    ");
    assert_snapshot!(indicator("ARRAY_MIB: [64, 256]", "ARRAY_MIB: {min: 64}"), @r"
    error: `spec.parameters.ARRAY_MIB` must be a text, number or boolean or a list, not a map
      --> a.yaml:14:16
       |
    14 |     ARRAY_MIB: {min: 64}
       |                ^^^^^^^^
    ");
}

#[test]
fn empty_and_overlong_values_are_refused() {
    assert_snapshot!(serving("rate: [1, 2.5, 10]", "rate: []"), @r"
    error: `spec.load.rate` must not be empty
      --> a.yaml:14:5
       |
    14 |     rate: []
       |     ^^^^
    ");
    assert_snapshot!(indicator("owner: performance", "owner: ' '"), @r"
    error: `metadata.owner` must not be empty
     --> a.yaml:5:10
      |
    5 |   owner: ' '
      |          ^^^
    ");
    assert_snapshot!(indicator("unit: GB/s", &format!("unit: {}", "x".repeat(33))), @r"
    error: `spec.metrics[0].unit` is not a unit: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` has more than 32 characters
      --> a.yaml:18:31
       |
    18 |     - {path: copy.rate, unit: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, better: higher}
       |                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(indicator("ARRAY_MIB: [64, 256]", &format!("ARRAY_MIB: [{}]", (0..201).map(|i| i.to_string()).collect::<Vec<_>>().join(","))), @r"
    error: `spec.parameters.ARRAY_MIB` has 201 items; at most 200 are allowed
      --> a.yaml:14:5
       |
    14 |     ARRAY_MIB: [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,
       |     ^^^^^^^^^
    ");
    assert_snapshot!(indicator("owner: performance", r#"owner: "a\u0007b""#), @r#"
    error: `metadata.owner` is not a text: `a�b` holds control characters
     --> a.yaml:5:10
      |
    5 |   owner: "a\u0007b"
      |          ^^^^^^^^^^
    "#);
    assert_snapshot!(indicator("REPS: 20", r#"REPS: "a\0b""#), @r#"
    error: `spec.parameters.REPS` must have at most 4096 bytes and no NUL
      --> a.yaml:16:11
       |
    16 |     REPS: "a\0b"
       |           ^^^^^^
    "#);
}

#[test]
fn repetitions_are_refused() {
    assert_snapshot!(indicator("THREADS: [1, 2, 4]", "THREADS: [1, 2, '1']"), @r"
    error: `1` is listed twice in `spec.parameters.THREADS`
      --> a.yaml:15:21
       |
    15 |     THREADS: [1, 2, '1']
       |                     ^^^
    ");
    assert_snapshot!(indicator("path: copy.elapsed", "path: copy.rate"), @r"
    error: `copy.rate` is listed twice in `spec.metrics` by `path`
      --> a.yaml:19:14
       |
    19 |     - {path: copy.rate, unit: ms, better: lower, primary: false}
       |              ^^^^^^^^^
    ");
    assert_snapshot!(indicator("files: [stream.c]", "files: [stream.c, ./stream.c]"), @r"
    error: `stream.c` is listed twice in `spec.files`
     --> a.yaml:9:21
      |
    9 |   files: [stream.c, ./stream.c]
      |                     ^^^^^^^^^^
    ");
    assert_snapshot!(serving("rate: [1, 2.5, 10]", "rate: [1, 1.0]"), @r"
    error: `1.0` is listed twice in `spec.load.rate`
      --> a.yaml:14:15
       |
    14 |     rate: [1, 1.0]
       |               ^^^
    ");
}

#[test]
fn a_script_is_a_path_or_an_address() {
    assert_snapshot!(indicator("{path: run.sh}", "{}"), @r"
    error: `spec.script` needs one of `path`, `url`
     --> a.yaml:8:3
      |
    8 |   script: {}
      |   ^^^^^^
    ");
    assert_snapshot!(indicator("{path: run.sh}", "{path: run.sh, url: https://example.org/run.sh}"), @r"
    error: `spec.script` takes only one of `path`, `url`
     --> a.yaml:8:26
      |
    8 |   script: {path: run.sh, url: https://example.org/run.sh}
      |                          ^^^
    hint: `path` is given too; keep one of them
    ");
    assert_snapshot!(indicator("{path: run.sh}", "{url: http://example.org/run.sh}"), @r"
    error: `spec.script.url` is not an address: `http://example.org/run.sh`
     --> a.yaml:8:17
      |
    8 |   script: {url: http://example.org/run.sh}
      |                 ^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: its scheme has to be `https`, and is `http`
    ");
    assert_snapshot!(indicator("{path: run.sh}", "{url: https://example.org/run.sh, sha256: abc}"), @r"
    error: `spec.script.sha256` is not a sha256: `abc`
     --> a.yaml:8:53
      |
    8 |   script: {url: https://example.org/run.sh, sha256: abc}
      |                                                     ^^^
    hint: 64 lower-case hexadecimal digits
    ");
}

#[test]
fn paths_do_not_leave_their_folder() {
    assert_snapshot!(indicator("{path: run.sh}", "{path: ../run.sh}"), @r"
    error: `spec.script.path` is not a relative path: `../run.sh`
     --> a.yaml:8:18
      |
    8 |   script: {path: ../run.sh}
      |                  ^^^^^^^^^
    hint: must not lead out of its folder with `..`
    ");
    assert_snapshot!(indicator("files: [stream.c]", "files: [/etc/passwd]"), @r"
    error: `spec.files[0]` is not a relative path: `/etc/passwd`
     --> a.yaml:9:11
      |
    9 |   files: [/etc/passwd]
      |           ^^^^^^^^^^^
    hint: must be relative, with `/` between folders
    ");
}

#[test]
fn names_of_parameters_are_those_of_variables() {
    assert_snapshot!(indicator("REPS: 20", "reps: 20"), @r"
    error: `spec.parameters` is not an environment variable's name: `reps`
      --> a.yaml:16:5
       |
    16 |     reps: 20
       |     ^^^^
    hint: upper-case letters, digits and `_`, beginning with a letter
    ");
}

#[test]
fn files_lie_side_by_side() {
    assert_snapshot!(indicator("files: [stream.c]", "files: [run.sh]"), @r"
    error: `run.sh` is the script already
     --> a.yaml:9:11
      |
    9 |   files: [run.sh]
      |           ^^^^^^
    hint: remove it from `files`
    ");
    assert_snapshot!(indicator("outputs: [stream]", "outputs: [stream.c]"), @r"
    error: `stream.c` is an output of `prepare` and a file of the repository
      --> a.yaml:12:15
       |
    12 |     outputs: [stream.c]
       |               ^^^^^^^^
    ");
}

#[test]
fn secrets_do_not_stand_in_parameters() {
    assert_snapshot!(indicator("REPS: 20", "HF_TOKEN: hf_very_secret"), @r"
    error: `HF_TOKEN` looks like a secret; a workload's parameters are published with its results
      --> a.yaml:16:15
       |
    16 |     HF_TOKEN: …
       |               ^
    hint: give its place, `{from_env: NAME}` or `{from_file: PATH}`, in a target's `env`
    ");
}

#[test]
fn the_load_fits_its_mode() {
    assert_snapshot!(serving("mode: open", "mode: closed"), @r"
    error: `spec.load` lacks `concurrency` for `mode: closed`
      --> a.yaml:12:3
       |
    12 |   load:
       |   ^^^^
    hint: users at a time, one point each

    error: `spec.load.rate` does not belong to a load of `mode: closed`
      --> a.yaml:14:5
       |
    14 |     rate: [1, 2.5, 10]
       |     ^^^^
    hint: it belongs to `mode: open` or `mode: users`; remove it

    error: `spec.load.arrival` does not belong to a load of `mode: closed`
      --> a.yaml:15:5
       |
    15 |     arrival: gamma
       |     ^^^^^^^
    hint: it belongs to `mode: open`; remove it

    error: `spec.load.smoothness` does not belong to a load of `mode: closed`
      --> a.yaml:16:5
       |
    16 |     smoothness: 0.5
       |     ^^^^^^^^^^
    hint: it belongs to `mode: open`; remove it
    ");
    assert_snapshot!(serving("    smoothness: 0.5\n", ""), @r"
    error: `spec.load` lacks `smoothness` for `arrival: gamma`
      --> a.yaml:12:3
       |
    12 |   load:
       |   ^^^^
    hint: 1 is Poisson, below it is burstier
    ");
    assert_snapshot!(serving("arrival: gamma", "arrival: poisson"), @r"
    error: `spec.load.smoothness` belongs to `arrival: gamma`
      --> a.yaml:16:5
       |
    16 |     smoothness: 0.5
       |     ^^^^^^^^^^
    hint: write `arrival: gamma` or remove it
    ");
    assert_snapshot!(serving("    duration: 60s\n", ""), @r"
    error: `spec.load` needs at least one of `duration`, `requests`
      --> a.yaml:12:3
       |
    12 |   load:
       |   ^^^^
    ");
    assert_snapshot!(serving("duration: 60s", "duration: 29m50s"), @r"
    error: warm-up and duration do not fit into the time limit of 30m
      --> a.yaml:17:15
       |
    17 |     duration: 29m50s
       |               ^^^^^^
    hint: raise `spec.time_limit`
    ");
}

#[test]
fn scenarios_of_other_work_are_refused_by_name() {
    assert_snapshot!(serving("N(480,240)/(300,150)", "A(100)"), @r"
    error: `spec.lengths` is not a traffic scenario: `A(100)`
      --> a.yaml:19:12
       |
    19 |   lengths: A(100)
       |            ^^^^^^
    hint: `A` scenarios (speech) are not supported: use `D`, `N`, `U`, `E`, `R` or `I`
    ");
    assert_snapshot!(serving("N(480,240)/(300,150)", "D(1, 2)"), @r"
    error: `spec.lengths` is not a traffic scenario: `D(1, 2)`
      --> a.yaml:19:12
       |
    19 |   lengths: D(1, 2)
       |            ^^^^^^^
    hint: expected `D(in,out)`, `N(mean,sd)/(mean,sd)`, `U(low,high)/(low,high)`, `U(in,out)`, `E(tokens)`, `R(document,query)` or `I(width,height,images)`, without spaces
    ");
    assert_snapshot!(serving("N(480,240)/(300,150)", "[1, 2]"), @r"
    error: `spec.lengths` must be a traffic scenario or a map, not a list
      --> a.yaml:19:12
       |
    19 |   lengths: [1, 2]
       |            ^^^^^
    ");
}

#[test]
fn a_request_of_messages_has_a_limit_and_no_reasoning_of_earlier_responses() {
    let dataset = |more: &str| serving_with(&format!("dataset: {{path: a.jsonl{more}}}\n  api: messages"));
    assert_snapshot!(dataset(""), @r"
    error: `spec.dataset` lacks `max_output`: an endpoint refuses a request of `api: messages` without a limit
      --> a.yaml:19:3
       |
    19 |   dataset: {path: a.jsonl}
       |   ^^^^^^^
    hint: it limits the responses of rows that record none, such as `max_output: 1024`
    ");
    assert!(dataset(", output: server").contains("lacks `max_output`"));
    for allowed in [", max_output: 9", ", output: server, max_output: 9", ", output: {fixed: 9}"] {
        assert_eq!(dataset(allowed), "no problem", "{allowed}");
    }
    assert_eq!(serving_with("dataset: {path: a.jsonl}\n  api: responses"), "no problem");
    let sessions = "sessions: {turns: 2, history: live, reasoning: keep}";
    assert_snapshot!(serving("lengths: N(480,240)/(300,150)", &format!("lengths: D(9,9)\n  api: messages\n  {sessions}")), @r"
    error: requests of `api: messages` cannot send reasoning back, which `spec.sessions.reasoning: keep` asks for
      --> a.yaml:21:50
       |
    21 |   sessions: {turns: 2, history: live, reasoning: keep}
       |                                                  ^^^^
    hint: remove it, or write `api: chat`
    ");
    for api in ["responses", "messages"] {
        let load = format!("lengths: D(9,9)\n  api: {api}\n  sessions: {{turns: 2, history: live}}");
        assert_eq!(serving("lengths: N(480,240)/(300,150)", &load), "no problem", "{api}");
    }
}

#[test]
fn lengths_batch_and_slos_fit_the_api() {
    assert_snapshot!(serving("N(480,240)/(300,150)", "R(64,100)"), @r"
    error: the scenario `R(64,100)` is of scores, and `spec.api` is `chat`
      --> a.yaml:19:12
       |
    19 |   lengths: R(64,100)
       |            ^^^^^^^^^
    hint: write `api: rerank`, or a scenario such as `D(128,256)`
    ");
    let refused = |lines: &str, expected: &str| {
        let found = serving("  lengths: N(480,240)/(300,150)\n", lines);
        assert!(found.contains(expected), "{lines}: {found}");
    };
    refused("  api: rerank\n  lengths: E(64)\n", "is of embeddings, and `spec.api` is `rerank`");
    refused("  api: rerank\n  lengths: E(64)\n", "hint: write `api: embeddings`, or a scenario such as `R(128,100)`");
    refused("  api: rerank_tei\n  lengths: D(1,2)\n", "error: `api: rerank_tei` needs a scenario `R(document,query)`");
    refused("  api: embeddings\n  lengths: D(1,2)\n", "hint: write `lengths: E(128)`");
    // A document may have a million tokens, and a request 4096 documents, but not both.
    let many = "`spec.batch` of 4096 makes requests of 4096000000 tokens, more than 16000000";
    refused("  api: embeddings\n  batch: 4096\n  lengths: E(1000000)\n", many);
    refused(
        "  api: rerank\n  batch: 16\n  lengths: R(1000000,1)\n",
        "`spec.batch` of 16 makes requests of 16000001 tokens, more than 16000000",
    );
    refused("  batch: 2\n  lengths: D(1,2)\n", "`spec.batch` belongs to `api: embeddings` or `api: rerank` or `api: rerank_tei`");
    refused("  api: responses\n  lengths: D(1,2)\n  body: {input: a}\n", "the member `input` of `spec.body` would replace one");
    refused("  api: responses\n  lengths: E(64)\n", "is of embeddings, and `spec.api` is `responses`");
    let ttft = "`spec.slos.ttft` cannot be measured: the responses of `api: rerank` are not streamed";
    refused("  api: rerank\n  lengths: R(1,2)\n", ttft);
    refused(
        "  api: rerank\n  lengths: R(1,2)\n  body: {documents: 3}\n",
        "the member `documents` of `spec.body` would replace one",
    );
    refused("  lengths: D(1,2)\n  body: {temperature: 1, model: other}\n", "the member `model` of `spec.body` would replace one");
    refused("  lengths: D(1,2)\n  body: {max_tokens: 3}\n", "the member `max_tokens` of `spec.body` would replace one");
    refused(
        "  lengths: D(1,2)\n  extra_body: '{\"stream\": false}'\n",
        "`spec.extra_body` has the member `stream`, which Assay writes itself",
    );
    refused("  lengths: D(1,2)\n  body: {api_key: hunter22}\n", "the member `api_key` of `spec.body` looks like a secret");
    refused(
        "  lengths: D(1,2)\n  extra_body: '{\"headers\": {\"Authorization\": \"Bearer hunter22\"}}'\n",
        "the member `headers` of `spec.extra_body` looks like a secret",
    );
    refused(
        "  lengths: D(1,2)\n  body: {a: 1}\n  extra_body: '{\"a\": {}}'\n",
        "`spec.extra_body` has the member `a`, which `spec.body` has too",
    );
    refused("  lengths: D(1,2)\n  extra_body: '[1]'\n", "it has to be an object, in braces");
    let added = serving("  lengths: N(480,240)/(300,150)\n", "  lengths: D(1,2)\n  body: {temperature: 1, documents: 3}\n");
    assert!(!added.contains("would replace"), "{added}");
}

#[test]
fn distributions_hold_together() {
    assert_snapshot!(serving("N(480,240)/(300,150)", "{input: {fixed: 5, normal: {mean: 1, stddev: 0}}, output: {uniform: {min: 9, max: 1}}}"), @r"
    error: `spec.lengths.input` takes only one of `fixed`, `uniform`, `normal`, `lognormal`, `histogram`, `vllm_range`, `sglang_range`
      --> a.yaml:19:31
       |
    19 |   lengths: {input: {fixed: 5, normal: {mean: 1, stddev: 0}}, output: {uniform: {min: 9, max: 1}}}
       |                               ^^^^^^
    hint: `fixed` is given too; keep one of them

    error: `spec.lengths.output.uniform.max` is 1, below `min`, which is 9
      --> a.yaml:19:71
       |
    19 |   lengths: {input: {fixed: 5, normal: {mean: 1, stddev: 0}}, output: {uniform: {min: 9, max: 1}}}
       |                                                                       ^^^^^^^
    ");
}

#[test]
fn limits_need_what_they_measure() {
    assert_snapshot!(serving("  slos:", "  streaming: false\n  slos:"), @r"
    error: `spec.slos.ttft` cannot be measured without streaming
      --> a.yaml:21:10
       |
    21 |   slos: {ttft: 2s, tpot: 200ms}
       |          ^^^^
    hint: limit `e2e`, or write `streaming: true`

    error: `spec.slos.tpot` cannot be measured without streaming
      --> a.yaml:21:20
       |
    21 |   slos: {ttft: 2s, tpot: 200ms}
       |                    ^^^^
    hint: limit `e2e`, or write `streaming: true`
    ");
    assert_snapshot!(serving("ttft: 2s", "ttft: 2"), @r"
    error: `spec.slos.ttft` must be a latency with its unit, not the number `2`
      --> a.yaml:20:16
       |
    20 |   slos: {ttft: 2, tpot: 200ms}
       |                ^
    hint: a number above 0 with `us`, `ms` or `s`, such as `200ms` or `1.5s`
    ");
    assert_snapshot!(serving("ttft: 2s", "ttft: 1h"), @r"
    error: `spec.slos.ttft` is not a latency with its unit: `1h`
      --> a.yaml:20:16
       |
    20 |   slos: {ttft: 1h, tpot: 200ms}
       |                ^^
    hint: a number above 0 with `us`, `ms` or `s`, such as `3600s`
    ");
    assert_snapshot!(serving("ttft: 2s", "p99: 2s"), @r"
    error: `spec.slos` has no field `p99`
      --> a.yaml:20:10
       |
    20 |   slos: {p99: 2s, tpot: 200ms}
       |          ^^^
    hint: it takes `ttft`, `ttfo`, `tpot`, `e2e`
    ");
}

#[test]
fn seeds_are_64_digits() {
    assert_snapshot!(indicator("time_limit: 2m", "seed: c0ffee"), @r"
    error: `spec.seed` is not a seed: `c0ffee`
      --> a.yaml:20:9
       |
    20 |   seed: c0ffee
       |         ^^^^^^
    hint: 64 lower-case hexadecimal digits
    ");
}

#[test]
fn a_key_given_twice_is_one_problem() {
    assert_snapshot!(indicator("time_limit: 2m", "time_limit: 2m\n  time_limit: 3m"), @r"
    error: the key `time_limit` is given twice
      --> a.yaml:21:3
       |
    21 |   time_limit: 3m
       |   ^^^^^^^^^^
    hint: it is first given in line 20; keep one of them
    ");
}

#[test]
fn the_whole_examples_hold() {
    for text in [INDICATOR, SERVING, PIPELINE, COMPARING, super::TRUST] {
        assert_eq!(problems(text), "no problem");
    }
}

/// One error is reported once, without problems that merely follow from it.
#[test]
fn a_wrong_part_makes_no_second_problem() {
    let count = |text: &str| problems(text).matches("error: ").count();
    let wrongs = [
        replace_part(SERVING, "smoothness: 0.5", "smoothness: much"),
        replace_part(SERVING, "arrival: gamma", "arrival: bursts"),
        replace_part(SERVING, "  slos:", "  time_limit: soon\n  slos:"),
        replace_part(SERVING, "  slos:", "  streaming: no\n  slos:"),
        replace_part(COMPARING, "- {name: default}", "- {name: Default}"),
        replace_part(COMPARING, "- name: old", "- name: Old"),
        replace_part(COMPARING, "{target: old}", "{target: [old]}"),
        replace_part(COMPARING, "variable_under_test: runtime_version", "variable_under_test: x"),
        replace_part(COMPARING, "- {name: plan}", "- plan"),
        replace_part(COMPARING, "placement: alternate", "placement: beside"),
        replace_part(COMPARING, "intent: publication_grade", "intent: fun"),
        replace_part(COMPARING, "count: 7", "count: many"),
    ];
    for text in &wrongs {
        assert_eq!(count(text), 1, "{}", problems(text));
    }
}

#[test]
fn passwords_in_addresses_are_not_shown() {
    assert_snapshot!(indicator("{path: run.sh}", "{url: 'https://user:pw@example.org/run.sh'}"), @r"
    error: `spec.script.url` carries a user or password
     --> a.yaml:8:17
      |
    8 |   script: {url: …
      |                 ^
    hint: remove it; credentials go into `headers`, as references
    ");
}

#[test]
fn a_load_may_name_the_search_that_it_comes_from() {
    let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let with = |search: &str| replace_part(SERVING, "    mode: open\n", &format!("    mode: open\n    search: {search}\n"));
    for search in [hex.to_owned(), format!("sha256:{hex}")] {
        let Work::Serving(serving) = workload(&with(&search)).spec.work else { panic!("serving") };
        assert_eq!(serving.load.search, assay_manifest::Digest::from_hex(hex).ok(), "{search}");
    }
    assert!(problems(&with("sha256:12")).contains("`spec.load.search`"));
}

#[test]
fn a_load_may_end_early_if_its_requests_fail() {
    use assay_manifest::{ErrorLimit, RecentErrors};

    let with = |limit: &str| replace_part(SERVING, "    mode: open\n", &format!("    mode: open\n    stop_on_errors: {limit}\n"));
    let read = |limit: &str| {
        let Work::Serving(serving) = workload(&with(limit)).spec.work else { panic!("serving") };
        serving.load.stop_on_errors
    };
    let recent = |share, of_last| Some(RecentErrors { share, of_last: Count(of_last) });
    assert_eq!(read("{count: 50}"), Some(ErrorLimit { count: Some(Count(50)), recent: None }));
    assert_eq!(read("{share: 0.5}"), Some(ErrorLimit { count: None, recent: recent(0.5, 100) }));
    assert_eq!(read("{count: 9, share: 1, of_last: 5}"), Some(ErrorLimit { count: Some(Count(9)), recent: recent(1.0, 5) }));
    assert!(problems(&with("{count: 0}")).contains("`spec.load.stop_on_errors.count` must be from 1 to"));
    assert!(problems(&with("{share: 0}")).contains("`spec.load.stop_on_errors.share`"));
    assert!(problems(&with("{count: 9, of_last: 5}")).contains("there is no `share`"));
    assert!(problems(&with("{}")).contains("`count`"), "{}", problems(&with("{}")));
}

#[test]
fn an_open_loop_may_end_early_if_its_queue_grows() {
    let with = |text: &str, limit: &str| {
        replace_part(text, "    mode: open\n", &format!("    mode: open\n    over_saturation: {limit}\n"))
    };
    let limited = workload(&with(SERVING, "{in_flight: 200, for: 1500ms}"));
    let Work::Serving(serving) = &limited.spec.work else { panic!("serving") };
    let limit = assay_manifest::OverSaturation { in_flight: Count(200), for_ns: Count(1_500_000_000) };
    assert_eq!(serving.load.over_saturation, Some(limit));
    assert!(
        problems(&with(SERVING, "{in_flight: 0, for: 2s}")).contains("`spec.load.over_saturation.in_flight` must be from 1 to")
    );
    assert!(problems(&with(SERVING, "{in_flight: 9}")).contains("lacks `for`"));
    let capped = replace_part(SERVING, "    mode: open\n", "    mode: open\n    max_concurrency: 64\n");
    let never = "`spec.load.over_saturation.in_flight` is never exceeded: `max_concurrency` allows no more requests in flight";
    assert!(problems(&with(&capped, "{in_flight: 64, for: 2s}")).contains(never));
    assert!(!problems(&with(&capped, "{in_flight: 63, for: 2s}")).contains("over_saturation"));
    let closed = replace_part(&with(SERVING, "{in_flight: 9, for: 2s}"), "    mode: open\n", "    mode: closed\n");
    assert!(problems(&closed).contains("`spec.load.over_saturation`"), "a closed loop has as many in flight as it states");
}

#[test]
fn a_share_of_single_requests_may_be_cancelled() {
    let with =
        |text: &str, cancel: &str| replace_part(text, "    mode: open\n", &format!("    mode: open\n    cancel: {cancel}\n"));
    let cancelling = workload(&with(SERVING, "{share: 0.1, after: 500ms}"));
    let Work::Serving(serving) = &cancelling.spec.work else { panic!("serving") };
    assert_eq!(serving.load.cancel, Some(assay_manifest::Cancellation { share: 0.1, after_ns: Count(500_000_000) }));
    let at_once = workload(&with(SERVING, "{share: 0.1, after: 0s}"));
    let Work::Serving(serving) = &at_once.spec.work else { panic!("serving") };
    assert_eq!(serving.load.cancel.map(|cancel| cancel.after_ns), Some(Count(0)));
    assert_snapshot!(problems(&with(SERVING, "{share: 0, after: 500ms}")), @r"
    error: `spec.load.cancel.share` must be above 0 and at most 1, not 0
      --> a.yaml:14:21
       |
    14 |     cancel: {share: 0, after: 500ms}
       |                     ^
    ");
    assert!(problems(&with(SERVING, "{share: 0.1}")).contains("lacks `after`"));
    let sessions = replace_part(SERVING, "lengths: N(480,240)/(300,150)", "lengths: D(9,9)\n  sessions: {turns: 2}");
    let refused = problems(&with(&sessions, "{share: 0.1, after: 0s}"));
    assert!(
        refused.contains("`spec.load.cancel` cancels single requests: a turn that is cancelled would end its session"),
        "{refused}"
    );
}

#[test]
fn a_cap_belongs_to_an_open_loop_of_single_requests() {
    let capped = workload(&replace_part(SERVING, "    mode: open\n", "    mode: open\n    max_concurrency: 8\n"));
    let Work::Serving(serving) = &capped.spec.work else { panic!("serving") };
    assert_eq!(serving.load.max_concurrency, Some(8));
    let open = "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n";
    assert_snapshot!(problems(&replace_part(SERVING, open, "    mode: closed\n    concurrency: [1]\n    max_concurrency: 8\n")), @r"
    error: `spec.load.max_concurrency` does not belong to a load of `mode: closed`
      --> a.yaml:15:5
       |
    15 |     max_concurrency: 8
       |     ^^^^^^^^^^^^^^^
    hint: it belongs to `mode: open` or `mode: replay`; remove it
    ");
    assert_snapshot!(problems(&replace_part(SERVING, "    mode: open\n", "    mode: open\n    max_concurrency: 0\n")), @r"
    error: `spec.load.max_concurrency` must be from 1 to 1000000, not 0
      --> a.yaml:14:22
       |
    14 |     max_concurrency: 0
       |                      ^
    ");
    let sessions = replace_part(SERVING, "lengths: N(480,240)/(300,150)", "lengths: D(9,9)\n  sessions: {turns: 2}");
    assert_snapshot!(problems(&replace_part(&sessions, "    mode: open\n", "    mode: open\n    max_concurrency: 8\n")), @r"
    error: `spec.load.max_concurrency` holds back single requests, and a later turn of a session cannot wait for other sessions
      --> a.yaml:14:22
       |
    14 |     max_concurrency: 8
       |                      ^
    hint: remove it; `mode: closed` limits the sessions that are played at a time
    ");
}

/// The load of [`SERVING`], with another rate and more fields.
fn with_rate(rate: &str, more: &str) -> String {
    let open = "    mode: open\n    rate: [1, 2.5, 10]\n    arrival: gamma\n    smoothness: 0.5\n";
    replace_part(SERVING, open, &format!("    mode: open\n    rate: {rate}\n{more}"))
}

#[test]
fn a_rate_that_changes_is_a_ramp_or_a_series() {
    let of = |rate: &str| {
        let workload = workload(&with_rate(rate, ""));
        let Work::Serving(serving) = workload.spec.work else { panic!("serving") };
        let ArrivalMode::Open { rate: OfferedRate::Profile(profile), .. } = serving.load.arrivals else { panic!("a profile") };
        profile
    };
    let (from_per_s, to_per_s) = (1.0, 50.0);
    assert_eq!(of("{ramp: {shape: linear, from: 1, to: 50}}"), RateProfile::Linear { from_per_s, to_per_s });
    assert_eq!(of("{ramp: {shape: exponential, from: 1, to: 50}}"), RateProfile::Exponential { from_per_s, to_per_s });
    assert_eq!(of("{ramp: {shape: steps, from: 1, to: 50, steps: 5}}"), RateProfile::Steps { from_per_s, to_per_s, steps: 5 });
    let segment = |ms: u64, per_s| RateSegment { duration_ns: Count(ms * 1_000_000), per_s };
    let minute = "{series: [{duration: 59s, rate: 5}, {duration: 1s, rate: 0.5}]}";
    assert_eq!(of(minute), RateProfile::Series { segments: vec![segment(59_000, 5.0), segment(1_000, 0.5)] });
    let digest = |rate: &str| workload(&with_rate(rate, "")).freeze(&Pins::default()).expect("frozen").digest;
    assert_ne!(digest("{ramp: {shape: linear, from: 1, to: 50}}"), digest("{ramp: {shape: exponential, from: 1, to: 50}}"));
}

#[test]
fn a_rate_that_does_not_fit_its_trial_is_refused() {
    let refused = |rate: &str, more: &str| problems(&with_rate(rate, more));
    assert_snapshot!(refused("5", ""), @r"
    error: `spec.load.rate` must be a list or a map, not the number `5`
      --> a.yaml:14:11
       |
    14 |     rate: 5
       |           ^
    hint: write a list: `[5]`
    ");
    assert_snapshot!(refused("{}", ""), @r"
    error: `spec.load.rate` needs one of `ramp`, `series`
      --> a.yaml:14:5
       |
    14 |     rate: {}
       |     ^^^^
    ");
    assert_snapshot!(refused("{ramp: {shape: linear, from: 1, to: 0}}", ""), @r"
    error: `spec.load.rate.ramp.to` must be at least 0.0001 and at most 10000000, not 0
      --> a.yaml:14:47
       |
    14 |     rate: {ramp: {shape: linear, from: 1, to: 0}}
       |                                               ^
    ");
    assert_snapshot!(refused("{ramp: {shape: steps, from: 1, to: 5}}", ""), @r"
    error: `spec.load.rate.ramp` lacks `steps` for `shape: steps`
      --> a.yaml:14:12
       |
    14 |     rate: {ramp: {shape: steps, from: 1, to: 5}}
       |            ^^^^
    hint: the number of rates, the first and the last included
    ");
    assert_snapshot!(refused("{ramp: {shape: linear, from: 1, to: 5, steps: 4}}", ""), @r"
    error: `spec.load.rate.ramp.steps` does not belong to a ramp of `shape: linear`
      --> a.yaml:14:50
       |
    14 |     rate: {ramp: {shape: linear, from: 1, to: 5, steps: 4}}
       |                                                  ^^^^^
    hint: it belongs to `shape: steps`; remove it
    ");
    assert_snapshot!(refused("{series: [{duration: 5s, rate: 5}, {duration: 6500ms, rate: 1}]}", ""), @r"
    error: the segments of `spec.load.rate.series` take 11s500ms together, and `duration` is 1m
      --> a.yaml:15:15
       |
    15 |     duration: 60s
       |               ^^^
    hint: write `duration: 11s500ms`
    ");
    assert_snapshot!(refused("{ramp: {shape: linear, from: 1, to: 5}}", "    requests: 50\n"), @r"
    error: `spec.load.requests` would cut a `rate` that changes over the `duration` of a trial
      --> a.yaml:15:15
       |
    15 |     requests: 50
       |               ^^
    hint: remove `requests`
    ");
    let endless =
        replace_part(&with_rate("{ramp: {shape: linear, from: 1, to: 5}}", ""), "    duration: 60s\n", "    requests: 50\n");
    assert_snapshot!(problems(&endless), @r"
    error: `spec.load` lacks `duration`, over which its `rate` changes
      --> a.yaml:14:5
       |
    14 |     rate: {ramp: {shape: linear, from: 1, to: 5}}
       |     ^^^^
    hint: write `duration: 60s`, or the time that its segments take together

    error: `spec.load.requests` would cut a `rate` that changes over the `duration` of a trial
      --> a.yaml:15:15
       |
    15 |     requests: 50
       |               ^^
    hint: remove `requests`
    ");
}

#[test]
fn connections_are_shared_by_sessions_alone() {
    let of = |policy: &str| {
        let text = replace_part(SERVING, "lengths: N(480,240)/(300,150)", "lengths: D(9,9)\n  sessions: {turns: 2}");
        let workload =
            workload(&replace_part(&text, "    mode: open\n", &format!("    mode: open\n    connections: {policy}\n")));
        let Work::Serving(serving) = workload.spec.work else { panic!("serving") };
        serving.load.connections
    };
    assert_eq!(
        ["pooled", "never", "sticky"].map(of),
        [ConnectionPolicy::Pooled, ConnectionPolicy::Never, ConnectionPolicy::Sticky]
    );
    assert_snapshot!(problems(&replace_part(SERVING, "    mode: open\n", "    mode: open\n    connections: sticky\n")), @r"
    error: `spec.load.connections: sticky` needs `spec.sessions`: requests that stand for themselves have nothing to share
      --> a.yaml:14:18
       |
    14 |     connections: sticky
       |                  ^^^^^^
    hint: write `pooled`, or add `sessions`
    ");
}
