//! The rows of `attempt_fact`: time, place and outcome of each shard of each attempt.

use std::collections::BTreeMap;

use assay_indicator::{Output, Value as OutputValue};
use assay_manifest::{Attempt, Count, CuratedFile, IndicatorOutcome, PlannedTrial, PodPlace, PointSummary};
use assay_stage::{Context, ErrorCode, Failure};
use assay_warehouse::{ATTEMPT_FACT, Result as RowResult, Row, Value};

use crate::dimensions::{Dimensions, json};
use crate::evidence::{ShardAttempt, read_output};
use crate::row_failure;
use crate::rows::{RowContext, fact};

/// Writes a row for each shard of every attempt, counted or not, in their order.
pub(crate) fn write(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
) -> Result<CuratedFile, Failure> {
    let mut stopped = None;
    let read = |attempt: &Attempt| read_output(ctx, context.plan, attempt);
    let rows = rows(context, dimensions, points, &read).map_while(|row| row.map_err(|failure| stopped = Some(failure)).ok());
    let file = crate::write_file(ctx, &ATTEMPT_FACT, rows)?;
    stopped.map_or(Ok(file), Err)
}

/// Reads the document that an attempt printed, if it printed one.
type ReadOutput<'a> = dyn Fn(&Attempt) -> Result<Option<Output>, Failure> + 'a;

fn rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    read: &ReadOutput<'_>,
) -> impl Iterator<Item = Result<Row, Failure>> {
    context.attempts.0.iter().flat_map(move |(trial, shards)| {
        let point = points.iter().find(|point| point.case_id == trial.case_id && point.point_id == trial.point_id);
        shards.iter().map(move |shard| {
            let no_point = || Failure::new(ErrorCode::Attempts, format!("the trial `{}` is of no point", trial.trial_id));
            let output = read(&shard.attempt)?;
            row(context, dimensions, point.ok_or_else(no_point)?, trial, shard)
                .and_then(|row| with_indicator(row, shard.attempt.indicator.as_ref(), output.as_ref())?.seal())
                .map_err(|error| row_failure(&error))
        })
    })
}

fn row(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    point: &PointSummary,
    trial: &PlannedTrial,
    ShardAttempt { collected, attempt }: &ShardAttempt,
) -> RowResult<Row> {
    let row = fact(&ATTEMPT_FACT, context, dimensions, point)?;
    with_place(row, [attempt.place.as_ref()])?
        .with("point_id", trial.point_id.as_str())?
        .with("trial_id", trial.trial_id.as_str())?
        .with("block", collected.block.index)?
        .with("incarnation", collected.block.incarnation)?
        .with("attempt", attempt.attempt)?
        .with("shard", collected.shard.index)?
        .with("shards", collected.shard.count)?
        .with("pod_name", attempt.place.as_ref().map(|place| place.pod.as_str()))?
        .with("attempt_status", attempt.status.as_str())?
        .with("valid", attempt.validity.valid)?
        .with("counted", collected.counted)?
        .with("reasons", Value::from_reasons(&attempt.validity.reasons))?
        .with("window_start_unix_ns", attempt.window.start)?
        .with("window_end_unix_ns", attempt.window.end)?
        .with("duration_ns", Value::from_count(attempt.window.duration_ns.0))?
        .with("cpu_throttled_ns", cpu_throttled_ns(attempt).map(Value::from_count))
}

/// Adds the resources that an indicator used and the result that it printed; null for other work.
fn with_indicator(row: Row, outcome: Option<&IndicatorOutcome>, output: Option<&Output>) -> RowResult<Row> {
    let Some(IndicatorOutcome { usage, exit_code, name, component, .. }) = outcome else { return Ok(row) };
    let scaled = |count: Count, by: u64| Value::from_count(count.0.saturating_mul(by));
    row.with("indicator_name", name.as_deref())?
        .with("indicator_component", component.as_deref())?
        .with("indicator_parameters", output.and_then(parameters))?
        .with("exit_code", *exit_code)?
        .with("cpu_user_ns", scaled(usage.utime_us, 1_000))?
        .with("cpu_system_ns", scaled(usage.stime_us, 1_000))?
        .with("max_rss_bytes", scaled(usage.maxrss_kib, 1_024))?
        .with("major_page_faults", Value::from_count(usage.majflt.0))?
        .with("voluntary_context_switches", Value::from_count(usage.nvcsw.0))?
        .with("involuntary_context_switches", Value::from_count(usage.nivcsw.0))
}

/// Returns the parameters of a document, by path, as canonical JSON.
fn parameters(output: &Output) -> Option<String> {
    let value = |value: &OutputValue| match value {
        OutputValue::Number(number) => serde_json::json!(number),
        OutputValue::Samples(samples) => serde_json::json!(samples),
        OutputValue::Text(text) => serde_json::json!(text),
        OutputValue::Bool(truth) => serde_json::json!(truth),
        OutputValue::Null => serde_json::Value::Null,
    };
    json(&output.parameters.iter().map(|(path, parameter)| (path, value(parameter))).collect::<BTreeMap<_, _>>())
}

/// Adds the node, pod and Job that the row's data come from. Each is null if the data come from several, or if it is unknown.
pub(crate) fn with_place<'a>(row: Row, places: impl IntoIterator<Item = Option<&'a PodPlace>>) -> RowResult<Row> {
    let places: Vec<_> = places.into_iter().collect();
    row.with("node_name", common_value(&places, |place| &place.node))?
        .with("pod_uid", common_value(&places, |place| &place.pod_uid))?
        .with("job_uid", common_value(&places, |place| &place.job_uid))
}

/// Returns the value that all places have in common.
pub(crate) fn common_value<'a>(places: &[Option<&'a PodPlace>], of: fn(&PodPlace) -> &String) -> Option<&'a str> {
    let mut all = places.iter().map(|place| place.map(|place| of(place).as_str()));
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// Returns the time for which the control group of an attempt was throttled while it ran.
pub(crate) fn cpu_throttled_ns(attempt: &Attempt) -> Option<u64> {
    let of = |state: &Option<assay_manifest::HostState>| state.as_ref()?.cgroup_throttled_us;
    let (Count(before), Count(after)) = (of(&attempt.host_before)?, of(&attempt.host_after)?);
    after.checked_sub(before).map(|us| us.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::summarise;
    use crate::fixture::{Run, attempt, collected, digest, place, plan};
    use assay_manifest::{Block, HostState, Instant, Shard};

    #[test]
    fn an_indicator_s_attempt_has_what_it_used_and_printed() {
        let plan = plan(1);
        let outcome: IndicatorOutcome = serde_json::from_value(serde_json::json!({
            "script_sha256": digest("s"), "exit_code": 0, "leftovers": 0, "parameters": {}, "name": "copy", "component": "memory",
            "usage": {
                "utime_us": "1500", "stime_us": "250", "maxrss_kib": "2048", "ixrss": "0", "idrss": "0", "isrss": "0", "minflt": "7",
                "majflt": "3", "nswap": "0", "inblock": "0", "oublock": "0", "msgsnd": "0", "msgrcv": "0", "nsignals": "0", "nvcsw": "11",
                "nivcsw": "12",
            },
        }))
        .expect("an outcome");
        let state = |us: u64| HostState { cgroup_throttled_us: Some(Count(us)), ..HostState::at(Instant::from_unix_ns(0)) };
        let tried = Attempt {
            indicator: Some(outcome),
            place: Some(place("n", "p")),
            host_before: Some(state(5)),
            host_after: Some(state(7)),
            ..attempt(&plan.trials[0], 0, false)
        };
        let shard = ShardAttempt { collected: collected(0, false), attempt: tried };
        let run = Run::with_attempts(plan.clone(), vec![(plan.trials[0].clone(), vec![shard])]);
        let (context, dimensions, case) = (run.context(), run.dimensions(), &plan.cases[0]);
        let point = summarise(&plan.workloads[0], case, &case.points[0], &[], digest("collection")).expect("a summary");
        let document = br#"{"name": "copy", "component": "memory", "@parameters": {"b": [1, 2], "a": {"size": 64}}, "@result": {"rate": 1}}"#;
        let read = |_: &Attempt| Ok(Some(assay_indicator::parse(document).expect("a result")));
        let row = rows(&context, &dimensions, &[point], &read).next().expect("a row").expect("a row");
        crate::fixture::assert_filled(&ATTEMPT_FACT, std::slice::from_ref(&row), &[]);
        let of_indicator: Vec<_> = row.iter().skip_while(|(column, _)| column.name != "indicator_name").collect();
        let shown = |(column, value): &(&assay_warehouse::Column, &Value)| match value {
            Value::Text(text) => format!("{}: {text}", column.name),
            Value::Int(number) => format!("{}: {number}", column.name),
            other => format!("{}: {other:?}", column.name),
        };
        let shown: Vec<_> = of_indicator.iter().filter(|(column, _)| column.name != "row_id").map(shown).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        indicator_name: copy
        indicator_component: memory
        indicator_parameters: {"a.size":64,"b":[1,2]}
        exit_code: 0
        cpu_user_ns: 1500000
        cpu_system_ns: 250000
        max_rss_bytes: 2097152
        major_page_faults: 3
        voluntary_context_switches: 11
        involuntary_context_switches: 12
        "#);
    }

    /// Returns the rows of a run of one trial with these attempts.
    fn lines(shards: Vec<ShardAttempt>) -> String {
        let plan = plan(1);
        let run = Run::with_attempts(plan.clone(), vec![(plan.trials[0].clone(), shards)]);
        let (context, dimensions, case) = (run.context(), run.dimensions(), &plan.cases[0]);
        let point = summarise(&plan.workloads[0], case, &case.points[0], &[], digest("collection")).expect("a summary");
        let points = [point];
        let line = |row: Result<Row, Failure>| {
            let row = row.expect("a row");
            let columns = [
                "attempt",
                "shard",
                "attempt_status",
                "counted",
                "node_name",
                "pod_uid",
                "job_uid",
                "pod_name",
                "cpu_throttled_ns",
            ];
            let shown = |name: &&str| match row.get(name) {
                Some(Value::Text(text)) => text.clone(),
                Some(Value::Int(number)) => number.to_string(),
                Some(Value::Bool(truth)) => truth.to_string(),
                _ => "-".to_owned(),
            };
            columns.iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        rows(&context, &dimensions, &points, &|_| Ok(None)).map(line).collect::<Vec<_>>().join("\n")
    }

    fn shard_attempt(number: u32, shard: u32, place: Option<PodPlace>) -> ShardAttempt {
        let planned = plan(1).trials.remove(0);
        let collected =
            assay_manifest::CollectedAttempt { shard: Shard { index: shard, count: 2 }, ..collected(number, number == 1) };
        ShardAttempt { collected, attempt: Attempt { place, ..attempt(&planned, number, number == 1) } }
    }

    #[test]
    fn every_shard_s_part_of_an_attempt_says_where_it_ran() {
        let first = [shard_attempt(0, 0, Some(place("a", "first"))), shard_attempt(0, 1, Some(place("b", "second")))];
        let second = [shard_attempt(1, 0, Some(place("a", "first"))), shard_attempt(1, 1, Some(place("c", "third")))];
        insta::assert_snapshot!(lines(first.into_iter().chain(second).collect()), @r"
        0 0 completed false a first-uid job-uid first -
        0 1 completed false b second-uid job-uid second -
        1 0 completed true a first-uid job-uid first -
        1 1 completed true c third-uid job-uid third -
        ");
        insta::assert_snapshot!(lines(vec![shard_attempt(0, 0, None)]), @"0 0 completed false - - - - -");
    }

    #[test]
    fn what_several_places_do_not_share_is_null() {
        let shared = |places: &[Option<&PodPlace>]| {
            let of = |of: fn(&PodPlace) -> &String| common_value(places, of).unwrap_or("-").to_owned();
            format!("{} {} {}", of(|place| &place.node), of(|place| &place.pod_uid), of(|place| &place.job_uid))
        };
        let (first, second, away) = (place("a", "first"), place("a", "second"), place("b", "third"));
        assert_eq!(shared(&[Some(&first)]), "a first-uid job-uid");
        assert_eq!(shared(&[Some(&first), Some(&second)]), "a - job-uid");
        assert_eq!(shared(&[Some(&first), Some(&away)]), "- - job-uid");
        assert_eq!(shared(&[Some(&first), None]), "- - -");
        assert_eq!(shared(&[]), "- - -");
    }

    #[test]
    fn throttling_is_known_where_both_states_tell() {
        let state = |us: Option<u64>| {
            let state = serde_json::json!({"at": "2026-01-01T00:00:00.000000000Z", "frequencies_khz": [], "temperatures_millicelsius": {}});
            let state: assay_manifest::HostState = serde_json::from_value(state).expect("a state");
            Some(assay_manifest::HostState { cgroup_throttled_us: us.map(Count), ..state })
        };
        let between = |before, after| {
            let planned = plan(1).trials.remove(0);
            cpu_throttled_ns(&Attempt { host_before: before, host_after: after, ..attempt(&planned, 0, true) })
        };
        assert_eq!(between(state(Some(5)), state(Some(12))), Some(7_000));
        assert_eq!(between(state(Some(12)), state(Some(5))), None, "another control group");
        assert_eq!(between(state(None), state(Some(5))), None);
        assert_eq!(between(None, None), None, "it was cut short");
    }

    #[test]
    fn blocks_are_told_apart() {
        let of = |incarnation| {
            let planned = plan(1).trials.remove(0);
            let block = Block { index: 0, incarnation };
            ShardAttempt {
                collected: assay_manifest::CollectedAttempt { block, ..collected(0, false) },
                attempt: attempt(&planned, 0, false),
            }
        };
        let plan = plan(1);
        let run = Run::with_attempts(plan.clone(), vec![(plan.trials[0].clone(), vec![of(0), of(1)])]);
        let case = &plan.cases[0];
        let point = summarise(&plan.workloads[0], case, &case.points[0], &[], digest("collection")).expect("a summary");
        let (context, dimensions, points) = (run.context(), run.dimensions(), [point]);
        let ids: std::collections::BTreeSet<_> = rows(&context, &dimensions, &points, &|_| Ok(None))
            .map(|row| row.expect("a row").text("row_id").map(str::to_owned))
            .collect();
        assert_eq!(ids.len(), 2);
    }
}
