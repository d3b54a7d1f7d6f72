//! The comparison of two commands: the verdict of the run's own gate, in words.

use assay_manifest::{CPU_TIME, Change, INSTRUCTIONS, MetricVerdict, Outcome, Verdict};
use assay_report::{counted, percent};
use assay_stage::Exit;
use serde_json::{Value, json};

use super::RUNS_OF_COMPARISON;

/// The command that learns of noise from runs of a pipeline: `assay exec` does not read what it learns.
const NOISE: &str = "(`assay noise`)";

/// The probability with which a design finds what it can find: see [`MetricVerdict::detectable`].
const FOUND: &str = "in 8 of 10 cases";

/// The remedy of noise that no number of runs outweighs.
const LESS_NOISE: &str = "less noise may decide it: `--times N` for longer runs, or a machine without other load";

/// The remedy of runs that resemble those before them.
const SAME_STATE: &str = "begin each run in the same state, such as with the same files and caches";

/// The treatment of a comparison of two commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandComparison {
    /// True if the exit code reports the outcome.
    pub(crate) decides_exit: bool,
}

impl CommandComparison {
    /// Returns the exit code of an outcome.
    pub(crate) fn exit(self, verdict: &Verdict) -> Exit {
        match verdict.outcome {
            Outcome::Regressed if self.decides_exit => Exit::Regression,
            Outcome::Inconclusive if self.decides_exit => Exit::Inconclusive,
            _ => Exit::Done,
        }
    }
}

/// Returns the comparison for programs: the outcome, its sentence, and the verdict of the gate.
pub(crate) fn comparison_json(verdict: &Verdict) -> Value {
    json!({"outcome": verdict.outcome, "sentence": sentence(verdict, &primary(verdict)), "verdict": verdict})
}

fn primary(verdict: &Verdict) -> Vec<&MetricVerdict> {
    verdict.metrics.iter().filter(|metric| metric.primary).collect()
}

/// Returns the lines of a verdict: a sentence, and one row for each metric, with the reason of an inconclusive one below it.
pub(crate) fn comparison_lines(verdict: &Verdict) -> Vec<String> {
    let primary = primary(verdict);
    let sentence = sentence(verdict, &primary);
    let rows: Vec<[String; 3]> = primary.iter().map(|metric| row(metric, verdict.policy.budget)).collect();
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let (metrics, outcomes) = (width(0), width(1));
    let lines = primary.iter().zip(&rows).flat_map(|(metric, [name, outcome, change])| {
        let line = format!("  {name:<metrics$}  {outcome:<outcomes$}  {change}").trim_end().to_owned();
        let why = why_inconclusive(metric).filter(|why| !sentence.contains(why.as_str()));
        [Some(line), why.map(|why| format!("      {why}"))].into_iter().flatten()
    });
    [sentence.clone()].into_iter().chain(lines).chain([String::new()]).collect()
}

/// Returns why a metric is inconclusive, and what would decide it.
fn why_inconclusive(metric: &MetricVerdict) -> Option<String> {
    let reason = metric.reason.as_ref().filter(|_| metric.outcome == Outcome::Inconclusive)?;
    let remedy = runs_that_decide(metric).map(|runs| format!("; about `--runs {runs}` would decide it"));
    let remedy = remedy.or_else(|| Some(format!("; {}", other_remedy(metric)?))).unwrap_or_default();
    Some(format!("{}{remedy}", without_noise(&reason.detail)))
}

/// Returns about the number of runs that would decide a metric, by the noise of its runs.
fn runs_that_decide(metric: &MetricVerdict) -> Option<usize> {
    Some(metric.pairs.len() + metric.more_pairs? as usize)
}

/// Returns what may decide a metric for which the number of runs is not known.
fn other_remedy(metric: &MetricVerdict) -> Option<String> {
    match metric.reason.as_ref()?.code.as_str() {
        "underpowered" if metric.noise.is_none() && metric.pairs.len() < RUNS_OF_COMPARISON as usize => {
            Some(format!("try `--runs {RUNS_OF_COMPARISON}`"))
        }
        "underpowered" | "within_floor" => Some(LESS_NOISE.to_owned()),
        "pairs_remember" => Some(SAME_STATE.to_owned()),
        _ => None,
    }
}

/// Returns the verdict in one sentence.
fn sentence(verdict: &Verdict, primary: &[&MetricVerdict]) -> String {
    let with = |outcome: Outcome| primary.iter().copied().find(|metric| metric.outcome == outcome);
    let budget = whole_percent(verdict.policy.budget);
    match verdict.outcome {
        Outcome::Regressed => match with(Outcome::Regressed) {
            Some(metric) => format!("{} than the baseline: {}", capital(worse(metric)), named_change(metric)),
            None => format!("Worse than the baseline: {}", first_reason(verdict)),
        },
        Outcome::Improved => {
            let metric = with(Outcome::Improved);
            let named = metric.map(|metric| format!("{} than the baseline: {}", capital(better(metric)), named_change(metric)));
            named.unwrap_or_else(|| "Better than the baseline".to_owned())
        }
        Outcome::Unchanged => format!("No difference found beyond {budget}{}", detectable(primary)),
        Outcome::Inconclusive => format!("Inconclusive: {}", remedy(verdict, primary)),
    }
}

/// Returns a share that a person chose in percent, without digits that are zero.
fn whole_percent(share: f64) -> String {
    format!("{} %", (share * 1e5).round() / 1e3)
}

/// Returns what would decide an inconclusive comparison: more runs, if they do, or else its first reason, with another remedy.
fn remedy(verdict: &Verdict, primary: &[&MetricVerdict]) -> String {
    let undecided = || primary.iter().filter(|metric| metric.outcome == Outcome::Inconclusive);
    if verdict.checks.iter().any(|check| !check.holds()) {
        return first_reason(verdict);
    }
    let runs = undecided().map(|metric| runs_that_decide(metric)).collect::<Option<Vec<_>>>();
    if let Some(runs) = runs.and_then(|runs| runs.into_iter().max()) {
        return format!("about `--runs {runs}` would decide it {FOUND}, by the noise of these runs");
    }
    let open = undecided().find(|metric| runs_that_decide(metric).is_none());
    let why = open.and_then(|metric| Some(format!("`{}`: {}", metric.metric, why_inconclusive(metric)?)));
    why.unwrap_or_else(|| first_reason(verdict))
}

fn first_reason(verdict: &Verdict) -> String {
    verdict.reasons.first().map_or_else(|| "the verdict has no reason".to_owned(), |reason| without_noise(&reason.detail))
}

/// Leaves out of a reason what only a gate can do about it: to learn of noise from earlier runs.
fn without_noise(reason: &str) -> String {
    let said = reason.split("; ").enumerate().filter(|(number, clause)| *number == 0 || !clause.ends_with(NOISE));
    let clauses: Vec<&str> = said.map(|(_, clause)| clause.trim_end_matches(NOISE).trim_end()).collect();
    clauses.join("; ")
}

/// Returns the clause with the smallest change that every metric would have shown, in either direction.
fn detectable(primary: &[&MetricVerdict]) -> String {
    let smallest = primary.iter().map(|metric| metric.detectable).collect::<Option<Vec<_>>>();
    let widest = smallest.and_then(|smallest| smallest.into_iter().reduce(f64::max));
    widest.map_or_else(String::new, |change| format!(": one of {} would have been found {FOUND}", percent(change)))
}

/// Returns the metric, its outcome, and its change with the interval and the number of pairs.
fn row(metric: &MetricVerdict, budget: f64) -> [String; 3] {
    let outcome = match metric.outcome {
        Outcome::Regressed => worse(metric).to_owned(),
        Outcome::Improved => better(metric).to_owned(),
        Outcome::Unchanged => format!("no difference found beyond {}", whole_percent(budget)),
        Outcome::Inconclusive => "inconclusive".to_owned(),
    };
    let change = metric.change.as_ref().map(|change| format!("{}, ", change_text(change))).unwrap_or_default();
    [metric.metric.clone(), outcome, format!("{change}{}", counted(metric.pairs.len() as u64, "pair"))]
}

fn named_change(metric: &MetricVerdict) -> String {
    let change = metric.change.as_ref().map(|change| format!(" {}", change_text(change))).unwrap_or_default();
    format!("`{}`{change}", metric.metric)
}

/// Returns a change with its interval, in percent: `+12 % [+9.1, +15]`.
fn change_text(change: &Change) -> String {
    let interval = match (change.low, change.high) {
        (Some(low), Some(high)) => format!("[{}, {}]", signed(low - 1.0), signed(high - 1.0)),
        _ => "(no interval)".to_owned(),
    };
    format!("{} % {interval}", signed(change.ratio - 1.0))
}

/// Returns a share in percent with its sign, to two or three digits.
fn signed(share: f64) -> String {
    let points = share * 100.0;
    match points.abs() {
        size if size < 1.0 => format!("{points:+.2}"),
        size if size < 10.0 => format!("{points:+.1}"),
        _ => format!("{points:+.0}"),
    }
}

fn worse(metric: &MetricVerdict) -> &'static str {
    match metric.metric.as_str() {
        CPU_TIME => "more CPU time",
        INSTRUCTIONS => "more instructions",
        _ => "slower",
    }
}

fn better(metric: &MetricVerdict) -> &'static str {
    match metric.metric.as_str() {
        CPU_TIME => "less CPU time",
        INSTRUCTIONS => "fewer instructions",
        _ => "faster",
    }
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::WALL_TIME;

    /// Returns a metric with a ratio, its interval, and what an inconclusive one needs.
    fn metric(name: &str, outcome: &str, [ratio, low, high]: [f64; 3], more: Option<u32>) -> Value {
        let pairs: Vec<Value> =
            (0..20).map(|index| json!({"run": 0, "index": index, "baseline": 1.0, "candidate": ratio})).collect();
        let mut metric = json!({
            "workload": "w", "point_id": "default", "metric": name, "unit": "ms", "better": "lower", "primary": true,
            "outcome": outcome, "pairs": pairs, "missing": 0, "p_worse_adjusted": 0.5, "p_better_adjusted": 0.5, "detectable": 0.08,
            "change": {"ratio": ratio, "low": low, "high": high, "level": 0.95, "baseline_median": 1.0, "candidate_median": ratio,
                "p_worse": 0.5, "p_better": 0.5},
        });
        if let Some(more) = more {
            metric["more_pairs"] = json!(more);
        }
        metric
    }

    fn verdict(outcome: &str, metrics: &[Value], reason: Option<&str>) -> Verdict {
        let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
        let reasons: Vec<Value> = reason.iter().map(|detail| json!({"code": "c", "detail": detail})).collect();
        serde_json::from_value(json!({
            "contract": "assay-gate/11", "gate": "exec", "outcome": outcome, "blocks": false, "reasons": reasons,
            "policy": {"path": "p", "digest": digest, "q": 0.05, "looks": [1.0], "budget": 0.05, "metrics": [],
                "block_on_inconclusive": false, "slo": false, "provenance": false},
            "comparison": {"baseline": {"target": "baseline", "variant": "default"}, "candidate": {"target": "candidate", "variant": "default"},
                "variable_under_test": "other", "other": "the command"},
            "placement": "coexist", "isolation": "none", "unit": "launch", "runs": [],
            "sequence": {"name": "r", "look": 1, "earlier": []}, "judged_on": "2026-01-01T00:00:00.000000000Z",
            "acknowledgements": [], "policy_changes": [], "definition_changes": [], "differences": [], "files": [], "checks": [],
            "metrics": metrics,
        }))
        .expect("a verdict")
    }

    fn lines(outcome: &str, metrics: &[Value], reason: Option<&str>) -> String {
        comparison_lines(&verdict(outcome, metrics, reason)).join("\n")
    }

    #[test]
    fn each_outcome_has_its_sentence() {
        let slower = metric(WALL_TIME, "regressed", [7.5, 7.1, 8.1], None);
        let same = metric(CPU_TIME, "unchanged", [1.003, 0.99, 1.02], None);
        let same_row = |outcomes: usize| {
            format!("  cpu_time_ms   {:<outcomes$}  +0.30 % [-1.0, +2.0], 20 pairs", "no difference found beyond 5 %")
        };
        assert_eq!(
            lines("regressed", &[same.clone(), slower], None),
            format!(
                "Slower than the baseline: `wall_time_ms` +650 % [+610, +710]\n{}\n  \
                 wall_time_ms  slower                          +650 % [+610, +710], 20 pairs\n",
                same_row(30)
            )
        );
        let faster = metric(WALL_TIME, "improved", [0.5, 0.4, 0.6], None);
        assert_eq!(
            lines("improved", &[faster], None),
            "Faster than the baseline: `wall_time_ms` -50 % [-60, -40]\n  \
             wall_time_ms  faster  -50 % [-60, -40], 20 pairs\n"
        );
        let first =
            |outcome, metrics: &[Value], reason| lines(outcome, metrics, reason).lines().next().unwrap_or_default().to_owned();
        assert_eq!(
            first("unchanged", std::slice::from_ref(&same), None),
            "No difference found beyond 5 %: one of 8.0 % would have been found in 8 of 10 cases"
        );
        let open = |more| metric(WALL_TIME, "inconclusive", [1.05, 0.9, 1.2], more);
        let inconclusive = |more| first("inconclusive", &[same.clone(), open(more)], Some("no power"));
        assert_eq!(
            inconclusive(Some(28)),
            "Inconclusive: about `--runs 48` would decide it in 8 of 10 cases, by the noise of these runs"
        );
        assert_eq!(inconclusive(None), "Inconclusive: no power");
    }

    /// The sentence says what would decide the comparison, and the line of each metric why it is open.
    #[test]
    fn each_inconclusive_metric_has_its_reason_and_its_remedy() {
        let open = |name: &str, code: &str, detail: &str, more: Option<u32>| {
            let mut metric = metric(name, "inconclusive", [1.05, 0.9, 1.2], more);
            metric["reason"] = json!({"code": code, "detail": detail});
            metric["noise"] = json!(0.1);
            metric
        };
        let small = "the smallest change that would have been found is 17 %; a verdict needs 10.0 %";
        let floor = "it seems worse, but its bound does not clear the noise floor of 12 % of so few pairs (`assay noise`)";
        let wall = open(WALL_TIME, "underpowered", small, Some(28));
        let cpu = open(CPU_TIME, "within_floor", floor, Some(4));
        insta::assert_snapshot!(lines("inconclusive", &[wall.clone(), cpu], Some(small)), @r"
        Inconclusive: about `--runs 48` would decide it in 8 of 10 cases, by the noise of these runs
          wall_time_ms  inconclusive  +5.0 % [-10.0, +20], 20 pairs
              the smallest change that would have been found is 17 %; a verdict needs 10.0 %; about `--runs 48` would decide it
          cpu_time_ms   inconclusive  +5.0 % [-10.0, +20], 20 pairs
              it seems worse, but its bound does not clear the noise floor of 12 % of so few pairs; about `--runs 24` would decide it
        ");
        let never = format!("{small}; 1000 pairs would not tell either");
        insta::assert_snapshot!(lines("inconclusive", &[wall, open(CPU_TIME, "underpowered", &never, None)], Some(small)), @r"
        Inconclusive: `cpu_time_ms`: the smallest change that would have been found is 17 %; a verdict needs 10.0 %; 1000 pairs would not tell either; less noise may decide it: `--times N` for longer runs, or a machine without other load
          wall_time_ms  inconclusive  +5.0 % [-10.0, +20], 20 pairs
              the smallest change that would have been found is 17 %; a verdict needs 10.0 %; about `--runs 48` would decide it
          cpu_time_ms   inconclusive  +5.0 % [-10.0, +20], 20 pairs
        ");
        let state = "its pairs resemble those before them";
        let told = lines("inconclusive", &[open(WALL_TIME, "pairs_remember", state, None)], Some(state));
        assert_eq!(told.lines().next(), Some(format!("Inconclusive: `{WALL_TIME}`: {state}; {SAME_STATE}").as_str()));
        assert_eq!(told.matches(state).count(), 1, "{told}");
    }

    #[test]
    fn an_inconclusive_comparison_names_no_other_command_and_the_runs_that_it_takes() {
        let mut metric = metric(WALL_TIME, "inconclusive", [1.05, 0.9, 1.2], None);
        let detail = "so few pairs could not have found a change of this metric alone, of any size; a verdict needs 10.0 %; noise that is learned from earlier \
                      runs may lower it (`assay noise`)";
        metric["reason"] = json!({"code": "underpowered", "detail": detail});
        metric["pairs"] = json!([{"run": 0, "index": 0, "baseline": 1.0, "candidate": 1.05}]);
        let told = lines("inconclusive", &[metric], Some(detail));
        let first = "Inconclusive: `wall_time_ms`: so few pairs could not have found a change of this metric alone, of any size; a verdict needs 10.0 %; try `--runs 20`";
        assert_eq!(told.lines().next(), Some(first));
        assert_eq!(without_noise("a floor of so few pairs (`assay noise`); b"), "a floor of so few pairs; b");
        assert_eq!(without_noise("a; 1000 pairs would not tell either"), "a; 1000 pairs would not tell either");
    }

    #[test]
    fn instructions_and_cpu_time_are_no_speed() {
        let more = metric(INSTRUCTIONS, "regressed", [2.0, 1.9, 2.1], None);
        assert!(lines("regressed", &[more], None).starts_with("More instructions than the baseline"));
        let less = metric(CPU_TIME, "improved", [0.5, 0.4, 0.6], None);
        assert!(lines("improved", &[less], None).starts_with("Less CPU time than the baseline"));
    }

    #[test]
    fn the_exit_code_reports_the_outcome_only_if_it_is_to() {
        let exit = |decides_exit, outcome| CommandComparison { decides_exit }.exit(&verdict(outcome, &[], None));
        assert_eq!(exit(true, "regressed"), Exit::Regression);
        assert_eq!(exit(true, "inconclusive"), Exit::Inconclusive);
        assert_eq!([exit(true, "improved"), exit(true, "unchanged")], [Exit::Done; 2]);
        assert_eq!([exit(false, "regressed"), exit(false, "inconclusive")], [Exit::Done; 2]);
    }
}
