//! The most load within the SLOs of a case, from the points of its Summary. Reduce signs it, and verify computes it again.

use std::collections::BTreeMap;

use assay_manifest::{
    CrossingPlace, LastingReason, LoadBracket, LoadKind, PointSummary, Reason, ServingWork, TrialCrossing, TrialId,
};

use crate::crossing::{Crossing, MaxLoad, crossing, max_load};
use crate::{DEFAULT_SHARE, GOOD_OF, Load, MIN_REQUESTS};

/// The metric of a trial at a load that decides if the load is within the SLOs: the share of requests within every one of them.
pub const GOOD_FRACTION: &str = "good_fraction";

/// The result of all loads of a case together.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseLoads {
    /// The kind of the loads.
    pub kind: LoadKind,
    /// True if they are loads of sessions, and not of single requests.
    pub has_sessions: bool,
    /// The trials that say at every load if it is within the SLOs, in their order.
    pub trials: Vec<CaseTrial>,
}

/// A trial that says at every load if it is within the SLOs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaseTrial {
    /// Its number at each of the loads, from 0.
    pub index: u32,
    /// The counted requests of all loads, without those that the client cancelled as planned.
    pub requests: u64,
    /// The place of the most load within the SLOs.
    pub crossing: Crossing,
}

/// Finds the crossing of each trial that says at all points of a case if they are within the SLOs. `None` without SLOs, and unless the points are two
/// or more loads of one kind.
///
/// A trial says so at a load with at least [`MIN_REQUESTS`] requests, or with so many that are not good that [`MIN_REQUESTS`] fall short too. One whose
/// attempts at a load do not count because every request failed there, or because requests arrived faster than they were served, has a share of 0.
pub fn case_loads(work: &ServingWork, points: &[&PointSummary]) -> Option<CaseLoads> {
    let loads: Vec<Load> = points.iter().map(|point| load_of(point)).collect::<Option<_>>()?;
    let kind = loads.first()?.kind();
    if work.slos.is_empty() || loads.len() < 2 || loads.iter().any(|load| load.kind() != kind) {
        return None;
    }
    let planned = points.iter().map(|point| point.trials_planned).max().unwrap_or(0);
    let trial = |index: u32| {
        let at_loads: Vec<(f64, u64)> = points.iter().map(|point| good_fraction(point, index)).collect::<Option<_>>()?;
        let good: Vec<(f64, f64)> = loads.iter().zip(&at_loads).map(|(load, (share, _))| (load.amount(), *share)).collect();
        let requests = at_loads.iter().fold(0, |sum: u64, (_, requests)| sum.saturating_add(*requests));
        Some(CaseTrial { index, requests, crossing: crossing(&good, DEFAULT_SHARE)? })
    };
    Some(CaseLoads { kind, has_sessions: work.sessions.is_some(), trials: (0..planned).filter_map(trial).collect() })
}

impl CaseLoads {
    /// Returns what the trials say together; `None` without a trial.
    pub fn outcome(&self) -> Option<MaxLoad> {
        max_load(&self.trials.iter().map(|trial| trial.crossing).collect::<Vec<_>>(), self.kind)
    }

    /// Returns the crossings as a Summary holds them.
    pub fn crossings(&self) -> Vec<TrialCrossing> {
        let place = |crossing: Crossing| match crossing {
            Crossing::At { .. } => CrossingPlace::Within,
            Crossing::Below(_) => CrossingPlace::Below,
            Crossing::AtLeast(_) => CrossingPlace::AtLeast,
        };
        let found = |trial: &CaseTrial| TrialCrossing {
            index: trial.index,
            place: place(trial.crossing),
            load: trial.crossing.load(self.kind),
        };
        self.trials.iter().map(found).collect()
    }

    /// Returns the loads around the most one, if they are too far from each other for a number between them.
    pub fn bracket(&self) -> Option<LoadBracket> {
        match self.outcome()? {
            MaxLoad::Between { meets, falls_short } => Some(LoadBracket { meets, falls_short }),
            MaxLoad::Within(_) | MaxLoad::Inconclusive(_) => None,
        }
    }

    /// Returns the trials with the most load of each, if every one of them has a number.
    pub fn values(&self) -> Vec<(&CaseTrial, f64)> {
        match self.outcome() {
            Some(MaxLoad::Within(values)) => self.trials.iter().zip(values).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the unit of the loads.
    pub fn unit(&self) -> &'static str {
        match (self.kind, self.has_sessions) {
            (LoadKind::Concurrency, false) => "requests",
            (LoadKind::Concurrency, true) => "sessions",
            (LoadKind::Rate, false) => "requests/s",
            (LoadKind::Rate, true) => "sessions/s",
        }
    }
}

/// Returns the load of a point, if it is a concurrency or a constant rate and nothing else.
pub fn load_of(point: &PointSummary) -> Option<Load> {
    load_of_value(&point.value)
}

/// Returns the load of a point's value, if it is a concurrency or a constant rate and nothing else.
pub(crate) fn load_of_value(value: &BTreeMap<String, String>) -> Option<Load> {
    let mut value = value.iter();
    let ((name, text), None) = (value.next()?, value.next()) else { return None };
    match name.as_str() {
        "concurrency" => text.parse().ok().map(Load::Concurrency),
        "rate" => text.parse().ok().filter(|rate: &f64| rate.is_finite()).map(Load::Rate),
        _ => None,
    }
}

/// Returns the share of requests within every SLO in one trial, and the number of its counted requests, if they decide.
fn good_fraction(point: &PointSummary, index: u32) -> Option<(f64, u64)> {
    let id = TrialId::from_parts(&point.case_id, &point.point_id, index);
    let metric = point.metrics.iter().find(|metric| metric.metric == GOOD_FRACTION);
    let Some(trial) = metric.and_then(|metric| metric.trials.iter().find(|trial| trial.trial_id == id)) else {
        return fails_at(point, &id).then_some((0.0, 0));
    };
    (trial.n.0 >= MIN_REQUESTS || falls_short_for_certain(trial.value, trial.n.0)).then_some((trial.value, trial.n.0))
}

/// Returns true if so many of these few requests are not good that even if all further ones were, [`MIN_REQUESTS`] would fall short.
fn falls_short_for_certain(good: f64, requests: u64) -> bool {
    let bad = ((1.0 - good) * requests as f64).round();
    bad > f64::from(GOOD_OF[1] - GOOD_OF[0])
}

/// Returns true if a trial has attempts at a load, and the endpoint alone is the reason why none of them counts.
fn fails_at(point: &PointSummary, trial: &TrialId) -> bool {
    let of_endpoint = |reasons: &[Reason]| {
        LastingReason::find(reasons) == Some(LastingReason::OverSaturated)
            || !reasons.is_empty() && reasons.iter().all(|reason| reason.code == "all_failed")
    };
    let mut attempts = point.excluded.iter().filter(|exclusion| exclusion.trial_id == *trial).peekable();
    attempts.peek().is_some() && attempts.all(|exclusion| of_endpoint(&exclusion.reasons))
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Body as _, Digest, Document, Plan};
    use serde_json::{Value, json};

    use super::*;

    /// Returns a workload with an SLO.
    fn work() -> ServingWork {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/examples/v1alpha1/plan.json");
        let document = Document::parse(&std::fs::read(path).expect("an example")).expect("a manifest");
        let plan = &Plan::from_document(&document).expect("a plan").body;
        let work = plan.workloads.iter().find_map(|workload| workload.serving.clone()).expect("it serves");
        assert!(!work.slos.is_empty() && work.sessions.is_some());
        work
    }

    /// Returns a point of a load, with the share of good requests in each trial and the number of its requests.
    fn point(value: &Value, trials: &[(f64, u64)]) -> PointSummary {
        let (name, amount) = value.as_object().and_then(|value| value.iter().next()).expect("a load");
        let id = format!("{name}-{}", amount.as_str().unwrap_or_default().replace('.', "-"));
        let trials: Vec<Value> = (0..)
            .zip(trials)
            .map(|(index, (good, requests)): (u32, _)| {
                json!({
                    "trial_id": format!("w.t.default.{id}.t{index}"), "attempt": 0, "value": good, "n": requests.to_string(), "flagged": false,
                    "row_id": Digest::compute(b"row"),
                })
            })
            .collect();
        serde_json::from_value(json!({
            "case_id": "w.t.default", "point_id": id, "workload_type": "serving", "workload_spec_digest": Digest::compute(b"spec"),
            "value": value, "trials_planned": 3, "trials_counted": 3, "attempts": 3, "excluded": [],
            "metrics": [{
                "metric": "good_fraction", "unit": "1", "primary": false, "n": "3", "median": 1.0, "mean": 1.0, "min": 1.0, "max": 1.0,
                "stability": "unknown", "stability_reason": "a test", "rows": {}, "trials": trials,
            }],
        }))
        .expect("a point")
    }

    fn rate(rate: &str, good: [f64; 3]) -> PointSummary {
        point(&json!({"rate": rate}), &good.map(|good| (good, 100)))
    }

    fn found(points: &[PointSummary]) -> Option<CaseLoads> {
        case_loads(&work(), &points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn each_trial_has_the_load_at_which_its_share_is_crossed() {
        // Half of the way from 1.0 at 10 to 0.98 at 12 in the first; the others cross between the same loads.
        let points = [rate("10", [1.0, 1.0, 0.995]), rate("12", [0.98, 0.5, 0.985]), rate("14", [0.5, 0.1, 0.2])];
        let found = found(&points).expect("loads");
        assert_eq!((found.kind, found.unit(), found.bracket()), (LoadKind::Rate, "sessions/s", None));
        let crossings = found.crossings();
        assert_eq!(
            crossings.iter().map(|trial| (trial.index, trial.place)).collect::<Vec<_>>(),
            [(0, CrossingPlace::Within), (1, CrossingPlace::Within), (2, CrossingPlace::Within)]
        );
        assert!((crossings[0].load - 11.0).abs() < 1e-9 && (crossings[1].load - 10.04).abs() < 1e-9, "{crossings:?}");
        let values = found.values();
        assert_eq!(values.iter().map(|(trial, _)| trial.requests).collect::<Vec<_>>(), [300; 3], "of all loads");
        assert!(values.iter().zip(&crossings).all(|((_, value), trial)| value.to_bits() == trial.load.to_bits()));
    }

    #[test]
    fn a_trial_outside_of_the_loads_leaves_no_number() {
        let points = [rate("10", [0.9, 1.0, 1.0]), rate("12", [0.8, 1.0, 0.9])];
        let found = found(&points).expect("loads");
        let seen: Vec<_> = found.crossings().iter().map(|trial| (trial.place, trial.load.to_string())).collect();
        assert_eq!(seen[..2], [(CrossingPlace::Below, "10".to_owned()), (CrossingPlace::AtLeast, "12".to_owned())]);
        assert_eq!((found.values().len(), found.bracket()), (0, None));
    }

    #[test]
    fn loads_far_from_each_other_leave_a_bracket() {
        let points = [rate("1", [1.0; 3]), rate("5", [1.0; 3]), rate("50", [0.5; 3])];
        let found = found(&points).expect("loads");
        assert_eq!((found.values().len(), found.bracket()), (0, Some(LoadBracket { meets: 5.0, falls_short: 50.0 })));
    }

    #[test]
    fn a_trial_of_few_requests_says_nothing_about_99_of_100() {
        let closed =
            |clients: &str, good: f64, requests: u64| point(&json!({"concurrency": clients}), &[(1.0, 100), (good, requests)]);
        let trials = |good: f64, requests: u64| {
            let found = found(&[closed("4", 1.0, 100), closed("5", good, requests)]).expect("loads");
            assert_eq!((found.kind, found.unit()), (LoadKind::Concurrency, "sessions"));
            found.trials.iter().map(|trial| trial.index).collect::<Vec<_>>()
        };
        assert_eq!(trials(1.0, MIN_REQUESTS), [0, 1]);
        assert_eq!(trials(1.0, MIN_REQUESTS - 1), [0]);
        assert_eq!(trials(0.9, 10), [0], "one of ten fell short, as one of 100 may");
        assert_eq!(trials(0.8, 10), [0, 1], "two of ten fell short: of 100, at most 98 would be good");
        assert_eq!(trials(0.0, 1), [0]);
    }

    #[test]
    fn a_load_at_which_every_request_fails_falls_short_in_that_trial() {
        let failed = |attempts: &[&[&str]]| {
            let mut above = rate("12", [0.5; 3]);
            let trials = &mut above.metrics[0].trials;
            let lost = trials.remove(1);
            let exclusion = |reasons: &&[&str]| {
                let reasons: Vec<Value> = reasons.iter().map(|code| json!({"code": code, "detail": "d"})).collect();
                serde_json::from_value(json!({"trial_id": lost.trial_id, "attempt": 0, "reasons": reasons}))
                    .expect("an exclusion")
            };
            above.excluded = attempts.iter().map(exclusion).collect();
            let found = found(&[rate("10", [1.0; 3]), above]).expect("loads");
            found.trials.iter().map(|trial| (trial.index, trial.requests)).collect::<Vec<_>>()
        };
        let without = [(0, 200), (2, 200)];
        let with = [(0, 200), (1, 100), (2, 200)];
        assert_eq!(failed(&[&["all_failed"], &["all_failed", "all_failed"]]), with);
        assert_eq!(failed(&[&["over_saturated"]]), with);
        assert_eq!(failed(&[]), without, "it was not tried");
        assert_eq!(failed(&[&["client_late"]]), without);
        assert_eq!(failed(&[&["all_failed"], &["all_failed", "client_late"]]), without, "the client may be the cause");
    }

    #[test]
    fn what_has_no_slos_or_no_loads_of_one_kind_has_no_most_load() {
        let [one, other] = [rate("10", [1.0; 3]), rate("12", [0.9; 3])];
        assert!(found(&[one.clone(), other.clone()]).is_some());
        assert_eq!(found(std::slice::from_ref(&one)), None, "one load");
        assert_eq!(found(&[one.clone(), point(&json!({"concurrency": "4"}), &[(0.5, 100)])]), None, "two kinds");
        assert_eq!(found(&[one.clone(), point(&json!({"speed": "4"}), &[(0.5, 100)])]), None, "no load");
        assert_eq!(found(&[one.clone(), point(&json!({"rate": "inf"}), &[(0.5, 100)])]), None, "no number");
        let users = PointSummary {
            value: [("rate", "2"), ("users", "4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..other.clone()
        };
        assert_eq!(found(&[one.clone(), users]), None, "users");
        let without = ServingWork { slos: Vec::new(), ..work() };
        assert_eq!(case_loads(&without, &[&one, &other]), None, "no SLOs");
    }
}
