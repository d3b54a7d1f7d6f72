//! The rows of attempts: when and where each shard's part of each ran, and what became of it.

use assay_manifest::{Attempt, Count, CuratedFile, PlannedTrial, PodPlace, PointSummary};
use assay_stage::{Context, Failure};
use assay_warehouse::{ATTEMPT_FACT, Result as RowResult, Row};

use crate::dimensions::Dimensions;
use crate::evidence::Found;
use crate::row_failure;
use crate::rows::{RowContext, fact, reasons_text, whole};

/// Writes a row for each shard of every attempt, counted or not, as they come.
pub(crate) fn write(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
) -> Result<CuratedFile, Failure> {
    let mut stopped = None;
    let rows = rows(context, dimensions, points).map_while(|row| row.map_err(|failure| stopped = Some(failure)).ok());
    let file = crate::write_file(ctx, &ATTEMPT_FACT, rows)?;
    stopped.map_or(Ok(file), Err)
}

fn rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
) -> impl Iterator<Item = Result<Row, Failure>> {
    context.attempts.0.iter().flat_map(move |(trial, found)| {
        let point = points.iter().find(|point| point.case_id == trial.case_id && point.point_id == trial.point_id);
        found.iter().map(move |found| {
            let lost = || Failure::unexpected("attempts", format!("the trial `{}` is of no point", trial.trial_id));
            row(context, dimensions, point.ok_or_else(lost)?, trial, found).map_err(|error| row_failure(&error))
        })
    })
}

fn row(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    point: &PointSummary,
    trial: &PlannedTrial,
    Found { collected, attempt }: &Found,
) -> RowResult<Row> {
    let row = fact(&ATTEMPT_FACT, context, dimensions, point)?;
    placed(row, [attempt.place.as_ref()])?
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
        .with("reasons", reasons_text(&attempt.validity.reasons))?
        .with("window_start_unix_ns", attempt.window.start)?
        .with("window_end_unix_ns", attempt.window.end)?
        .with("duration_ns", whole(attempt.window.duration_ns.0))?
        .with("cpu_throttled_ns", cpu_throttled_ns(attempt).map(whole))?
        .sealed()
}

/// The row with the node, pod and Job that everything it says comes from; null where these are several, or not known.
pub(crate) fn placed<'a>(row: Row, places: impl IntoIterator<Item = Option<&'a PodPlace>>) -> RowResult<Row> {
    let places: Vec<_> = places.into_iter().collect();
    row.with("node_name", common(&places, |place| &place.node))?
        .with("pod_uid", common(&places, |place| &place.pod_uid))?
        .with("job_uid", common(&places, |place| &place.job_uid))
}

/// What all places have in common.
pub(crate) fn common<'a>(places: &[Option<&'a PodPlace>], of: fn(&PodPlace) -> &String) -> Option<&'a str> {
    let mut all = places.iter().map(|place| place.map(|place| of(place).as_str()));
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// How long the control group of an attempt was throttled while it ran.
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
    use assay_manifest::{Block, Shard};
    use assay_warehouse::Value;

    /// The rows of a run of one trial whose attempts these are.
    fn lines(found: Vec<Found>) -> String {
        let plan = plan(1);
        let run = Run::found(plan.clone(), vec![(plan.trials[0].clone(), found)]);
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
        rows(&context, &dimensions, &points).map(line).collect::<Vec<_>>().join("\n")
    }

    fn found(number: u32, shard: u32, place: Option<PodPlace>) -> Found {
        let planned = plan(1).trials.remove(0);
        let collected =
            assay_manifest::CollectedAttempt { shard: Shard { index: shard, count: 2 }, ..collected(number, number == 1) };
        Found { collected, attempt: Attempt { place, ..attempt(&planned, number, number == 1) } }
    }

    #[test]
    fn every_shard_s_part_of_an_attempt_says_where_it_ran() {
        let first = [found(0, 0, Some(place("a", "first"))), found(0, 1, Some(place("b", "second")))];
        let second = [found(1, 0, Some(place("a", "first"))), found(1, 1, Some(place("c", "third")))];
        insta::assert_snapshot!(lines(first.into_iter().chain(second).collect()), @r"
        0 0 completed false a first-uid job-uid first -
        0 1 completed false b second-uid job-uid second -
        1 0 completed true a first-uid job-uid first -
        1 1 completed true c third-uid job-uid third -
        ");
        insta::assert_snapshot!(lines(vec![found(0, 0, None)]), @"0 0 completed false - - - - -");
    }

    #[test]
    fn what_several_places_do_not_share_is_null() {
        let shared = |places: &[Option<&PodPlace>]| {
            let of = |of: fn(&PodPlace) -> &String| common(places, of).unwrap_or("-").to_owned();
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
            Found {
                collected: assay_manifest::CollectedAttempt { block, ..collected(0, false) },
                attempt: attempt(&planned, 0, false),
            }
        };
        let plan = plan(1);
        let run = Run::found(plan.clone(), vec![(plan.trials[0].clone(), vec![of(0), of(1)])]);
        let case = &plan.cases[0];
        let point = summarise(&plan.workloads[0], case, &case.points[0], &[], digest("collection")).expect("a summary");
        let (context, dimensions, points) = (run.context(), run.dimensions(), [point]);
        let ids: std::collections::BTreeSet<_> =
            rows(&context, &dimensions, &points).map(|row| row.expect("a row").text("row_id").map(str::to_owned)).collect();
        assert_eq!(ids.len(), 2);
    }
}
