//! Checks what all loads of a case say together: it follows from the numbers of the points, which are checked by themselves.

use assay_manifest::{
    ALL_LOADS, AllLoads, BetterDirection, CaseId, IntervalKind, MAX_LOAD, MetricSummary, Plan, PointSummary, Summary,
};
use assay_search::{CaseLoads, case_loads};

use super::{check_statistics_at, place_differs};
use crate::{Error, Result};

/// Checks that the Summary has all loads of the cases that have them, and computes the crossings of their trials again.
pub(super) fn check(plan: &Plan, summary: &Summary) -> Result<()> {
    let mut said = summary.all_loads.iter();
    for case in &plan.cases {
        let Some(workload) = plan.workload(&case.workload) else { continue };
        let points: Vec<&PointSummary> = summary.points.iter().filter(|point| point.case_id == case.case_id).collect();
        let Some(found) = workload.serving.as_ref().and_then(|work| case_loads(work, &points)) else { continue };
        let loads = said.next().filter(|loads| loads.case_id == case.case_id).ok_or_else(|| other_entry(&case.case_id))?;
        if let Some(what) = find_difference(loads, &found, workload.workload_spec_digest == loads.workload_spec_digest) {
            return Err(place_differs(loads.into(), what));
        }
        loads.metrics.iter().try_for_each(|metric| check_statistics_at(loads.into(), metric, is_not_between_trials))?;
    }
    said.next().map_or(Ok(()), |more| Err(other_entry(&more.case_id)))
}

/// Returns the error for all loads of a case that are missing, or there without loads to be of.
fn other_entry(case: &CaseId) -> Error {
    Error::Point { case: case.clone(), point: ALL_LOADS.to_owned(), difference: "its entry".to_owned() }
}

/// Returns the field of an interval over trials of all loads that cannot be: it is always between trials.
fn is_not_between_trials(interval: &assay_manifest::Interval) -> Option<&'static str> {
    let is_between = interval.kind == IntervalKind::BetweenTrials && interval.sessions.is_none();
    (!is_between).then_some("kind of the interval")
}

/// Returns the first field that does not follow from the points.
fn find_difference(loads: &AllLoads, found: &CaseLoads, is_same_work: bool) -> Option<&'static str> {
    let comparisons = [
        ("its name", loads.point_id.as_str() == ALL_LOADS),
        ("its workload", is_same_work),
        ("the kind of its loads", loads.load == found.kind),
        ("the unit of its loads", loads.unit == found.unit()),
        ("its crossings", loads.crossings == found.crossings()),
        ("its bracket", loads.bracket == found.bracket()),
        ("its metrics", has_metrics(loads, found)),
    ];
    comparisons.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
}

/// Returns true if there is one metric where every trial has a number, and none otherwise.
fn has_metrics(loads: &AllLoads, found: &CaseLoads) -> bool {
    match loads.metrics.as_slice() {
        [] => found.values().is_empty(),
        [metric] => !found.values().is_empty() && is_max_load(loads, metric, found),
        _ => false,
    }
}

/// Returns true if a metric is the most load within the SLOs, with the values of these trials.
fn is_max_load(loads: &AllLoads, metric: &MetricSummary, found: &CaseLoads) -> bool {
    let values = found.values();
    let has_values = values.len() == metric.trials.len()
        && values.iter().zip(&metric.trials).all(|((trial, value), said)| {
            let names = said.trial_id == loads.trial_id(trial.index) && said.attempt == 0;
            names && said.value.to_bits() == value.to_bits() && said.n.0 == trial.requests
        });
    let is_it = metric.metric == MAX_LOAD && metric.unit == found.unit();
    is_it && has_values && metric.better == Some(BetterDirection::Higher) && !metric.primary
}

#[cfg(test)]
mod tests {
    use assay_manifest::{
        Body, Count, CrossingPlace, Digest, Document, LoadBracket, LoadKind, Point, TrialCrossing, TrialId, TrialValue,
    };
    use serde_json::json;

    use super::*;

    fn example<B: Body>(name: &str) -> B {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/examples/v1alpha1").join(name);
        let document = Document::parse(&std::fs::read(path).expect("an example")).expect("a manifest");
        B::from_document(&document).expect("of that kind").body.clone()
    }

    /// Returns a Plan of one case of sessions at the concurrencies 4 and 5, and the Summary of three trials with these good fractions.
    fn run(good: [[f64; 3]; 2]) -> (Plan, Summary) {
        let (mut plan, mut summary): (Plan, Summary) = (example("plan.json"), example("summary.json"));
        plan.cases.retain(|case| case.case_id.as_str() == "chat-8b.vllm.default");
        let case = plan.cases.first_mut().expect("the case");
        summary.points.retain(|point| point.case_id == case.case_id);
        let [point, like] = [summary.points.remove(0), example::<Summary>("summary.json").points.remove(0)];
        case.points.clear();
        for (clients, good) in [4, 5].into_iter().zip(good) {
            let mut point = point.clone();
            point.point_id = format!("concurrency-{clients}").parse().expect("a point");
            point.value = [("concurrency".to_owned(), clients.to_string())].into();
            let mut metric = like.metrics.first().expect("a metric").clone();
            "good_fraction".clone_into(&mut metric.metric);
            for (index, (trial, good)) in (0..).zip(metric.trials.iter_mut().zip(good)) {
                (trial.value, trial.n) = (good, Count(100));
                trial.trial_id = TrialId::from_parts(&point.case_id, &point.point_id, index);
            }
            point.metrics = vec![metric];
            case.points.push(Point {
                point_id: point.point_id.clone(),
                kind: assay_manifest::PointKind::Concurrency,
                value: point.value.clone(),
                load_recipe_digest: None,
            });
            summary.points.push(point);
        }
        let workload = plan.workload(&plan.cases[0].workload).expect("its workload").workload_spec_digest;
        let trials = good[0].iter().zip(good[1]).enumerate().map(|(index, (low, high))| TrialCrossing {
            index: index as u32,
            place: if *low < 0.99 {
                CrossingPlace::Below
            } else if high >= 0.99 {
                CrossingPlace::AtLeast
            } else {
                CrossingPlace::Within
            },
            load: if high >= 0.99 { 5.0 } else { 4.0 },
        });
        let crossings: Vec<TrialCrossing> = trials.collect();
        let is_known = crossings.iter().all(|trial| trial.place == CrossingPlace::Within);
        let loads = AllLoads {
            case_id: plan.cases[0].case_id.clone(),
            point_id: ALL_LOADS.parse().expect("a name"),
            workload_spec_digest: workload,
            load: LoadKind::Concurrency,
            unit: "sessions".to_owned(),
            crossings,
            bracket: None,
            metrics: Vec::new(),
        };
        let metrics = if is_known { vec![max_load(&loads)] } else { Vec::new() };
        summary.all_loads = vec![AllLoads { metrics, ..loads }];
        (plan, summary)
    }

    /// Returns the most load of three trials, each of which has concurrency 4 and 200 requests.
    fn max_load(loads: &AllLoads) -> MetricSummary {
        let trial = |index: u32| TrialValue {
            trial_id: loads.trial_id(index),
            attempt: 0,
            value: 4.0,
            n: Count(200),
            flagged: false,
            row_id: Digest::compute(b"row"),
        };
        let text = json!({
            "metric": MAX_LOAD, "unit": "sessions", "better": "higher", "primary": false, "n": "3", "median": 4.0, "mean": 4.0, "sd": 0.0, "cv": 0.0,
            "min": 4.0, "max": 4.0, "interval_absent": "three trials bound no interval", "stability": "stable", "stability_reason": "they agree",
            "rows": {}, "trials": [],
        });
        let metric: MetricSummary = serde_json::from_value(text).expect("a metric");
        MetricSummary { trials: (0..3).map(trial).collect(), ..metric }
    }

    const WITHIN: [[f64; 3]; 2] = [[1.0; 3], [0.5, 0.9, 0.2]];

    /// Returns the difference that is found after a change.
    fn found(good: [[f64; 3]; 2], change: impl FnOnce(&mut Summary)) -> String {
        let (plan, mut summary) = run(good);
        change(&mut summary);
        match check(&plan, &summary) {
            Ok(()) => "nothing".to_owned(),
            Err(Error::Point { difference, .. }) => difference,
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_follows_from_the_points_is_accepted() {
        assert_eq!(found(WITHIN, |_| {}), "nothing");
        assert_eq!(found([[1.0, 0.5, 1.0], [0.5, 0.1, 1.0]], |_| {}), "nothing", "and where there is no number");
    }

    #[test]
    fn every_field_is_compared() {
        let of_loads = |change: fn(&mut AllLoads)| found(WITHIN, |summary| change(&mut summary.all_loads[0]));
        assert_eq!(of_loads(|loads| loads.point_id = "concurrency-4".parse().expect("a name")), "its name");
        assert_eq!(of_loads(|loads| loads.workload_spec_digest = Digest::compute(b"other")), "its workload");
        assert_eq!(of_loads(|loads| loads.load = LoadKind::Rate), "the kind of its loads");
        assert_eq!(of_loads(|loads| "requests".clone_into(&mut loads.unit)), "the unit of its loads");
        assert_eq!(of_loads(|loads| loads.crossings[1].load = 5.0), "its crossings");
        assert_eq!(of_loads(|loads| loads.crossings[1].place = CrossingPlace::AtLeast), "its crossings");
        assert_eq!(of_loads(|loads| loads.crossings.truncate(2)), "its crossings");
        assert_eq!(of_loads(|loads| loads.bracket = Some(LoadBracket { meets: 4.0, falls_short: 5.0 })), "its bracket");
        assert_eq!(of_loads(|loads| loads.metrics.clear()), "its metrics");
        assert_eq!(of_loads(|loads| loads.metrics.push(loads.metrics[0].clone())), "its metrics");
        assert_eq!(found(WITHIN, |summary| summary.all_loads.clear()), "its entry");
        assert_eq!(found(WITHIN, |summary| summary.all_loads.push(summary.all_loads[0].clone())), "its entry");
    }

    #[test]
    fn every_field_of_the_number_is_compared() {
        let of_metric = |change: fn(&mut MetricSummary)| found(WITHIN, |summary| change(&mut summary.all_loads[0].metrics[0]));
        for change in [
            (|metric| "min_load".clone_into(&mut metric.metric)) as fn(&mut MetricSummary),
            |metric| "requests".clone_into(&mut metric.unit),
            |metric| metric.better = Some(BetterDirection::Lower),
            |metric| metric.primary = true,
            |metric| metric.trials[0].value = 5.0,
            |metric| metric.trials[0].n = Count(100),
            |metric| metric.trials[0].attempt = 1,
            |metric| metric.trials.swap(0, 1),
            |metric| drop(metric.trials.pop()),
        ] {
            assert_eq!(of_metric(change), "its metrics");
        }
        assert_eq!(of_metric(|metric| metric.median = 4.5), "the median of `max_load`");
        assert_eq!(of_metric(|metric| metric.n = Count(5)), "the number of trials of `max_load`");
        assert_eq!(of_metric(|metric| metric.sd = None), "the sd of `max_load`");
    }

    #[test]
    fn a_number_where_trials_have_none_is_refused() {
        let censored = [[1.0, 0.5, 1.0], [0.5, 0.1, 1.0]];
        let invented = found(censored, |summary| {
            let metric = max_load(&summary.all_loads[0]);
            summary.all_loads[0].metrics.push(metric);
        });
        assert_eq!(invented, "its metrics");
    }
}
