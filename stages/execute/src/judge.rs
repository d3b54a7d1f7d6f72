//! The verdict over an indicator's attempt, from its result: pure, so that every verdict can be tested.

use assay_indicator::{Output, OutputError, Value};
use assay_manifest::{AttemptStatus, HostChange, Metric, Reason, ValidityLimits};
use assay_process::{ChildExit, Status};
use assay_stage::first_names;

use crate::capture::describe_excess;

/// The maximum magnitude of a sample whose square can be summed, which the statistics require. A larger one would stop the whole
/// run long after it was measured.
const MAX_MAGNITUDE: f64 = 1e150;

/// The result of an attempt.
pub(crate) struct JudgeInput<'a> {
    /// The kind of program: a script or a program.
    pub(crate) what: &'a str,
    /// The last lines of its stderr.
    pub(crate) last_words: Option<String>,
    /// True if the result is its time.
    pub(crate) is_measured: bool,
    pub(crate) ended: &'a ChildExit,
    /// True if it printed more than the limit.
    pub(crate) is_exceeded: bool,
    pub(crate) output: &'a Result<Output, OutputError>,
    pub(crate) metrics: &'a [Metric],
    /// The change of the machine over the attempt.
    pub(crate) machine: HostChange<'a>,
    pub(crate) limits: &'a ValidityLimits,
}

/// Returns the status of the attempt, and all reasons against counting it.
pub(crate) fn judge(left: &JudgeInput<'_>) -> (AttemptStatus, Vec<Reason>) {
    let status = status(left.ended, left.is_exceeded, left.output);
    let mut reasons = Vec::new();
    let last_words = left.last_words.as_ref().map(|words| format!("; last on stderr: {words}")).unwrap_or_default();
    match status {
        AttemptStatus::Cancelled => reasons.push(Reason::new("cancelled", "the run was stopped in the middle of the attempt")),
        AttemptStatus::TimedOut => {
            let text = format!("the {} ran into its time limit and was stopped{last_words}", left.what);
            reasons.push(Reason::new("time_limit", text));
        }
        AttemptStatus::Failed if left.is_exceeded => {
            reasons.push(Reason::new("output_limit", describe_excess(left.what)));
        }
        AttemptStatus::Failed => {
            let text = format!("the {} ended with {}{last_words}", left.what, left.ended.status);
            reasons.push(Reason::new("exit_code", text));
        }
        _ => {}
    }
    match left.output {
        // A failed attempt already has a reason.
        Ok(_) if (left.is_measured || left.is_exceeded) && status != AttemptStatus::Completed => {}
        Ok(output) => reasons.extend(left.metrics.iter().filter_map(|metric| judge_metric(metric, output))),
        Err(malformed) if status == AttemptStatus::Malformed => {
            reasons.push(Reason::new(&format!("malformed_{}", malformed.code()), format!("{malformed}{last_words}")));
        }
        Err(_) => {}
    }
    reasons.extend(judge_leftovers(left));
    reasons.extend(left.limits.machine_reasons(left.machine));
    (status, reasons)
}

fn status(ended: &ChildExit, is_exceeded: bool, output: &Result<Output, OutputError>) -> AttemptStatus {
    match (ended, output) {
        (ChildExit { cancelled: true, .. }, _) => AttemptStatus::Cancelled,
        (ChildExit { timed_out: true, .. }, _) => AttemptStatus::TimedOut,
        _ if is_exceeded => AttemptStatus::Failed,
        (ChildExit { status: Status::Exited(0), .. }, Ok(_)) => AttemptStatus::Completed,
        (ChildExit { status: Status::Exited(0), .. }, Err(_)) => AttemptStatus::Malformed,
        _ => AttemptStatus::Failed,
    }
}

/// Returns the reason against a program that leaves processes running: it has passed work to them, whose time is not measured.
fn judge_leftovers(left: &JudgeInput<'_>) -> Option<Reason> {
    let count = left.ended.leftovers;
    (left.is_measured && count > 0).then(|| {
        let detail = format!("it left {count} of its processes running, which were ended: their time is in no number");
        Reason::new("processes_left", detail)
    })
}

/// Returns the reason against a result that lacks a declared metric as a number.
fn judge_metric(metric: &Metric, output: &Output) -> Option<Reason> {
    let path = &metric.path;
    if output.not_finite.iter().any(|spoiled| spoiled == path || spoiled.starts_with(&format!("{path}."))) {
        return Some(Reason::new("metric_not_finite", format!("the metric `{path}` is not a finite number")));
    }
    let samples = match output.result.iter().find(|(name, _)| name == path).map(|(_, value)| value) {
        Some(Value::Number(number)) => std::slice::from_ref(number),
        Some(Value::Samples(samples)) if !samples.is_empty() => samples,
        Some(_) => {
            let detail = format!("the metric `{path}` is neither a number nor a list of numbers");
            return Some(Reason::new("metric_not_a_number", detail));
        }
        None => return Some(Reason::new("metric_absent", describe_absence(path, &output.result))),
    };
    let beyond = samples.iter().find(|sample| sample.abs() > MAX_MAGNITUDE)?;
    Some(Reason::new("metric_too_large", format!("the metric `{path}` is {beyond:e}, which nothing measured comes near")))
}

/// The number of metrics of a result that a message names.
const NAMED_METRICS: usize = 5;

/// States that a result lacks a metric, with the names of those that it has.
fn describe_absence(path: &str, result: &[(String, Value)]) -> String {
    let names: Vec<String> = result.iter().map(|(name, _)| format!("`{name}`")).collect();
    let has = if names.is_empty() { "none".to_owned() } else { first_names(&names, NAMED_METRICS) };
    format!("the result has no metric `{path}`: it has {has}")
}

#[cfg(test)]
mod tests {
    use assay_manifest::{BetterDirection, Count, HarnessFormat, HostState, Instant};
    use assay_process::Usage;

    use super::*;

    const GOOD: &str = r#"{"name": "n", "@parameters": {}, "@result": {"rate": 1.5, "runs": [1, 2], "note": "x"}}"#;

    fn exited(code: i32) -> ChildExit {
        let usage = Usage::default();
        let status = Status::Exited(code);
        ChildExit { status, timed_out: false, cancelled: false, leftovers: 0, usage, wall_ns: 1_000_000_000 }
    }

    fn state(throttled_us: Option<u64>) -> HostState {
        HostState { cgroup_throttled_us: throttled_us.map(Count), ..HostState::at(Instant::from_unix_ns(0)) }
    }

    fn metric(path: &str) -> Metric {
        Metric { path: path.to_owned(), unit: "GB/s".to_owned(), better: BetterDirection::Higher, primary: true }
    }

    /// Formats the verdict over an attempt's result as lines.
    fn verdict(ended: &ChildExit, printed: &str, metrics: &[&str], throttled: [Option<u64>; 2]) -> String {
        let output = assay_indicator::parse(printed.as_bytes());
        let metrics: Vec<_> = metrics.iter().map(|path| metric(path)).collect();
        verdict_over(ended, &output, &metrics, throttled)
    }

    fn verdict_over(
        ended: &ChildExit,
        output: &Result<Output, OutputError>,
        metrics: &[Metric],
        throttled: [Option<u64>; 2],
    ) -> String {
        let [before, after] = throttled.map(state);
        let (status, reasons) = judge(&JudgeInput {
            what: "script",
            last_words: None,
            is_measured: false,
            ended,
            is_exceeded: false,
            output,
            metrics,
            machine: HostChange { before: &before, after: &after, window_ns: ended.wall_ns },
            limits: &ValidityLimits::default(),
        });
        let lines = reasons.iter().map(|reason| format!("\n{}: {}", reason.code, reason.detail));
        format!("{status}{}", lines.collect::<String>())
    }

    fn ended_as(ended: &ChildExit) -> String {
        verdict(ended, GOOD, &["rate"], [None; 2])
    }

    fn printed(text: &str) -> String {
        verdict(&exited(0), text, &["rate"], [None; 2])
    }

    #[test]
    fn a_result_and_a_good_end_are_valid() {
        assert_eq!(ended_as(&exited(0)), "completed");
        assert_eq!(verdict(&exited(0), GOOD, &["rate", "runs"], [None; 2]), "completed", "numbers and lists of numbers");
        assert_eq!(verdict(&exited(0), GOOD, &[], [None; 2]), "completed", "nothing is asked for");
        assert_eq!(ended_as(&ChildExit { leftovers: 3, ..exited(0) }), "completed", "what it left running was ended");
    }

    #[test]
    fn how_it_ended_decides_whatever_it_printed() {
        insta::assert_snapshot!(ended_as(&exited(3)), @r"
        failed
        exit_code: the script ended with exit code 3
        ");
        insta::assert_snapshot!(ended_as(&ChildExit { status: Status::Signaled(11), ..exited(0) }), @r"
        failed
        exit_code: the script ended with signal 11 (SIGSEGV)
        ");
        insta::assert_snapshot!(ended_as(&ChildExit { timed_out: true, ..exited(143) }), @r"
        timed_out
        time_limit: the script ran into its time limit and was stopped
        ");
        insta::assert_snapshot!(ended_as(&ChildExit { cancelled: true, ..exited(143) }), @r"
        cancelled
        cancelled: the run was stopped in the middle of the attempt
        ");
        assert_eq!(
            ended_as(&ChildExit { timed_out: true, ..exited(0) }),
            ended_as(&ChildExit { timed_out: true, ..exited(143) })
        );
        let both = ChildExit { cancelled: true, timed_out: true, ..exited(0) };
        assert!(ended_as(&both).starts_with("cancelled"), "a person's stop is nobody's time limit");
    }

    #[test]
    fn a_failed_script_is_not_blamed_for_its_output_as_well() {
        insta::assert_snapshot!(verdict(&exited(1), "Traceback", &["rate"], [None; 2]), @r"
        failed
        exit_code: the script ended with exit code 1
        ");
    }

    #[test]
    fn what_is_no_result_is_malformed_with_its_reason() {
        insta::assert_snapshot!(printed(""), @r"
        malformed
        malformed_empty: the output is empty
        ");
        insta::assert_snapshot!(printed("42"), @r"
        malformed
        malformed_not_an_object: the document is a number, not an object
        ");
        insta::assert_snapshot!(printed("{"), @r"
        malformed
        malformed_not_json: the output is not JSON at line 1 column 2: expected a key in double quotes
        ");
        insta::assert_snapshot!(printed(r#"{"name": "n", "@parameters": {}}"#), @r"
        malformed
        malformed_missing: `@result` is missing
        ");
        insta::assert_snapshot!(printed(&format!("{GOOD}{GOOD}")), @r"
        malformed
        malformed_trailing_bytes: the output goes on after its document at line 1 column 88
        ");
    }

    #[test]
    fn a_harness_s_unit_is_that_of_the_workload() {
        let hyperfine = br#"{"results": [{"command": "x", "times": [0.5]}]}"#;
        let of = |unit: &str| {
            let metrics = [Metric { unit: unit.to_owned(), ..metric("x.time_seconds") }];
            let output = assay_foreign::harness::parse(Some(HarnessFormat::Hyperfine), "n", &metrics, hyperfine);
            verdict_over(&exited(0), &output, &metrics, [None; 2])
        };
        assert_eq!(of("s"), "completed");
        insta::assert_snapshot!(of("ms"), @r"
        malformed
        malformed_unit: the metric `x.time_seconds` is in s, and the workload says ms
        ");
    }

    #[test]
    fn a_declared_metric_must_be_there_as_a_number() {
        let of = |metric| verdict(&exited(0), GOOD, &[metric], [None; 2]);
        insta::assert_snapshot!(of("speed"), @r"
        completed
        metric_absent: the result has no metric `speed`: it has `rate`, `runs`, `note`
        ");
        insta::assert_snapshot!(of("note"), @r"
        completed
        metric_not_a_number: the metric `note` is neither a number nor a list of numbers
        ");
        let spoiled = r#"{"name": "n", "@parameters": {}, "@result": {"rate": NaN, "deep": {"x": [1, Infinity]}}}"#;
        insta::assert_snapshot!(printed(spoiled), @r"
        completed
        metric_not_finite: the metric `rate` is not a finite number
        ");
        insta::assert_snapshot!(verdict(&exited(0), spoiled, &["deep.x", "deep"], [None; 2]), @r"
        completed
        metric_not_finite: the metric `deep.x` is not a finite number
        metric_not_finite: the metric `deep` is not a finite number
        ");
    }

    #[test]
    fn a_declared_metric_must_be_a_measure_of_something() {
        let large = |value: &str| printed(&format!(r#"{{"name": "n", "@parameters": {{}}, "@result": {{"rate": {value}}}}}"#));
        assert_eq!(large("1e150"), "completed");
        insta::assert_snapshot!(large("[1, -2e150]"), @r"
        completed
        metric_too_large: the metric `rate` is -2e150, which nothing measured comes near
        ");
    }

    #[test]
    fn every_reason_is_given() {
        insta::assert_snapshot!(verdict(&exited(2), GOOD, &["speed", "note"], [Some(0), Some(600_000)]), @r"
        failed
        exit_code: the script ended with exit code 2
        metric_absent: the result has no metric `speed`: it has `rate`, `runs`, `note`
        metric_not_a_number: the metric `note` is neither a number nor a list of numbers
        cpu_throttled: the control group was throttled for 60 % of the attempt
        ");
    }

    #[test]
    fn a_throttled_attempt_does_not_count() {
        let throttled = |before, after| verdict(&exited(0), GOOD, &["rate"], [before, after]);
        assert_eq!(throttled(Some(10), Some(50_010)), "completed", "the limit itself is allowed");
        insta::assert_snapshot!(throttled(Some(10), Some(60_010)), @r"
        completed
        cpu_throttled: the control group was throttled for 6 % of the attempt
        ");
        let instant = ChildExit { wall_ns: 0, ..exited(0) };
        assert_eq!(verdict(&instant, GOOD, &["rate"], [Some(0), Some(0)]), "completed");
    }
}
