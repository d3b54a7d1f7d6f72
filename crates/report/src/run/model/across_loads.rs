//! The statements on all loads of a case together: the most load within the SLOs, and the knee of a closed loop.

use assay_manifest::{AllLoads, CrossingPlace, Exclusion, LastingReason, LoadBracket, LoadKind, PointSummary};
use assay_search::{DEFAULT_SHARE, Landmarks, Observation, landmarks, load_of};

use crate::render::number::significant;
use crate::render::text::counted;

/// Finds the idle point, the knee and the limit of points of a closed loop; `None` if they do not reach a limit.
pub fn landmarks_of(points: &[&PointSummary]) -> Option<Landmarks> {
    let counted = points.iter().filter(|point| point.trials_counted > 0);
    landmarks(&counted.filter_map(|point| observation_of(point)).collect::<Vec<_>>())
}

/// Returns what was observed at a point, by the medians over its trials; `None` for a point that is no load.
fn observation_of(point: &PointSummary) -> Option<Observation> {
    let serving = point.serving.as_ref()?;
    let median = |name: &str| point.metrics.iter().find(|metric| metric.metric == name).map(|metric| metric.median);
    Some(Observation {
        load: load_of(point)?,
        requests: serving.requests.0,
        error_rate: median("error_rate").unwrap_or(0.0),
        requests_per_s: median("request_throughput_per_s").unwrap_or(0.0),
        mean_latency_s: median("e2e_ms_mean").unwrap_or(0.0) / 1e3,
        good_fraction: median("good_fraction"),
        over_saturated: false,
    })
}

/// Returns what a search observed at a point. One at which every request failed, or at which requests arrived faster than they were served, has no
/// counted trial, and is observed all the same: no request of it is within an SLO, if there are SLOs (`has_slos`). `None` for a point that is no
/// load, and for one whose attempts do not count for another reason.
pub fn searched_observation(point: &PointSummary, has_slos: bool) -> Option<Observation> {
    if point.trials_counted > 0 { observation_of(point) } else { observe_excluded(point, has_slos) }
}

/// Returns the observation of a load whose attempts do not count because of the endpoint: every request failed in each of them, or requests arrived
/// faster than they were served in one, after which none is tried again. Where the client was late as well, a search still looks below, because the endpoint
/// may be the cause; a trial that is measured decides nothing then.
fn observe_excluded(point: &PointSummary, has_slos: bool) -> Option<Observation> {
    let has_failed = |exclusion: &Exclusion| exclusion.reasons.iter().any(|reason| reason.code == "all_failed");
    let outcomes = &point.serving.as_ref()?.excluded_outcomes;
    let over_saturated = is_over_saturated(point);
    let all_failed = !point.excluded.is_empty() && point.excluded.iter().all(has_failed);
    let requests = outcomes.values().map(|count| count.0).sum();
    (over_saturated || all_failed).then_some(Observation {
        load: load_of(point)?,
        requests,
        error_rate: if over_saturated { 0.0 } else { 1.0 },
        requests_per_s: 0.0,
        mean_latency_s: 0.0,
        good_fraction: has_slos.then_some(0.0),
        over_saturated,
    })
}

/// Returns true if an attempt at a point ended early because requests arrived faster than they were served, and for no other reason.
pub fn is_over_saturated(point: &PointSummary) -> bool {
    point.excluded.iter().any(|exclusion| LastingReason::find(&exclusion.reasons) == Some(LastingReason::OverSaturated))
}

/// Describes what the loads of a case say together, if it is more than each of them says.
pub(crate) fn describe(all_loads: Option<&AllLoads>, points: &[&PointSummary]) -> Option<String> {
    let most = all_loads.and_then(describe_max_load);
    let knee = || {
        let found = landmarks_of(points)?;
        let [knee, limit] = [found.knee, found.limit].map(|seen| seen.load.amount());
        let limit = if (knee - limit).abs() < 0.5 { String::new() } else { format!(", the limit at {limit}") };
        Some(format!("the knee is at concurrency {knee}{limit}"))
    };
    let rise =
        all_loads.and_then(|_| describe_rise(&points.iter().filter_map(|point| observation_of(point)).collect::<Vec<_>>()));
    let said: Vec<String> = most.into_iter().chain(rise).chain(knee()).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn describe_max_load(loads: &AllLoads) -> Option<String> {
    let most = format!("the most within the SLOs is {}", loads.load);
    if let Some(found) = loads.max_load() {
        let number = |value: f64| match loads.load {
            LoadKind::Rate => significant(value, None),
            LoadKind::Concurrency => format!("{value}"),
        };
        let interval = match &found.interval {
            Some(ends) => format!("[{}, {}]", number(ends.low), number(ends.high)),
            None => "(no interval)".to_owned(),
        };
        return Some(format!("{most} {} {interval}, {}", number(found.median), counted(found.n.0, "trial")));
    }
    if let Some(LoadBracket { meets, falls_short }) = loads.bracket {
        return Some(format!("{most} {meets} or more, and less than {falls_short}"));
    }
    match [CrossingPlace::Below, CrossingPlace::AtLeast].map(|place| loads.count(place)) {
        // Where every trial says the same, so does the number of loads that met the SLOs.
        [0, _] | [_, 0] => None,
        [below, above] => Some(format!(
            "the most within the SLOs is not known: {} fell short at every load, and {above} at none",
            counted(u64::from(below), "trial")
        )),
    }
}

/// Says so if a load meets the SLOs although a lower one does not: a reader of the table would take it for the most load, which is found from
/// shares that fall with load.
fn describe_rise(observed: &[Observation]) -> Option<String> {
    let mut observed: Vec<(&Observation, f64)> = observed.iter().filter_map(|seen| Some((seen, seen.good_fraction?))).collect();
    observed.sort_by(|(one, _), (other, _)| one.load.amount().total_cmp(&other.load.amount()));
    let (place, (lower, _)) = observed.iter().enumerate().find(|(_, (_, good))| *good < DEFAULT_SHARE)?;
    let (higher, _) = observed.iter().skip(place).rfind(|(_, good)| *good >= DEFAULT_SHARE)?;
    let [lower, higher] = [lower, higher].map(|seen| seen.load.amount());
    Some(format!(
        "load {higher} meets the SLOs although {lower} does not, which is taken for noise (neighbours share their mean)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fixture;

    /// Returns points of a closed loop, with the throughput of each.
    fn closed(loads: [(&str, f64); 3]) -> Vec<PointSummary> {
        let mut points = fixture::serving::whole().summary.points;
        points.truncate(3);
        for (point, (clients, requests_per_s)) in points.iter_mut().zip(loads) {
            point.value = [("concurrency".to_owned(), clients.to_owned())].into();
            point.trials_counted = point.trials_planned;
            let latency_ms = 1e3 * clients.parse::<f64>().expect("a number") / requests_per_s;
            for (name, value) in [("request_throughput_per_s", requests_per_s), ("e2e_ms_mean", latency_ms)] {
                let mut metric = point.metrics.first().expect("a metric").clone();
                point.metrics.retain(|metric| metric.metric != name);
                (metric.metric, metric.median) = (name.to_owned(), value);
                point.metrics.push(metric);
            }
        }
        points
    }

    #[test]
    fn a_load_without_a_counted_trial_is_observed_if_the_endpoint_is_the_reason() {
        let observed = |reasons: &[&str], has_slos: bool| {
            let mut point = closed([("8", 1.0); 3]).remove(0);
            let reason = |code: &&str| serde_json::json!({"code": code, "detail": "d"});
            let reasons: Vec<_> = reasons.iter().map(reason).collect();
            let exclusion = serde_json::json!({"trial_id": "w.t.v.p.t0", "attempt": 0, "reasons": reasons});
            point.trials_counted = 0;
            point.excluded = vec![serde_json::from_value(exclusion).expect("an exclusion")];
            searched_observation(&point, has_slos).map(|seen| (seen.over_saturated, seen.error_rate, seen.good_fraction))
        };
        assert_eq!(observed(&["all_failed"], true), Some((false, 1.0, Some(0.0))));
        assert_eq!(observed(&["all_failed"], false), Some((false, 1.0, None)));
        assert_eq!(observed(&["over_saturated"], true), Some((true, 0.0, Some(0.0))));
        assert_eq!(observed(&["client_late"], true), None);
    }

    fn of_points(points: &[PointSummary]) -> Option<String> {
        describe(None, &points.iter().collect::<Vec<_>>())
    }

    /// Returns what is said of loads, by the places of trials and the numbers of those within.
    fn of_loads(kind: LoadKind, crossings: &[(CrossingPlace, f64)], bracket: Option<LoadBracket>) -> Option<String> {
        describe(Some(&fixture::serving::all_loads(kind, crossings, bracket)), &[])
    }

    #[test]
    fn the_most_load_is_the_number_of_the_summary() {
        let within = [(CrossingPlace::Within, 11.0); 5];
        let text = of_loads(LoadKind::Rate, &within, None).expect("a number");
        assert_eq!(text, "the most within the SLOs is rate 11.0 [11.0, 11.0], 5 trials");
        let text = of_loads(LoadKind::Concurrency, &within[..1], None).expect("a number");
        assert_eq!(text, "the most within the SLOs is concurrency 11 (no interval), 1 trial");
    }

    #[test]
    fn a_load_that_meets_the_slos_above_one_that_does_not_is_named() {
        let rise = |shares: [f64; 3]| {
            let mut points = closed([("16", 1.0), ("4", 1.0), ("8", 1.0)]);
            for (point, share) in points.iter_mut().zip(shares) {
                let mut metric = point.metrics.first().expect("a metric").clone();
                (metric.metric, metric.median) = ("good_fraction".to_owned(), share);
                point.metrics.push(metric);
            }
            let all_loads = fixture::serving::all_loads(LoadKind::Concurrency, &[(CrossingPlace::AtLeast, 16.0)], None);
            describe(Some(&all_loads), &points.iter().collect::<Vec<_>>())
        };
        let told = "load 16 meets the SLOs although 4 does not, which is taken for noise (neighbours share their mean)";
        let named = |shares: [f64; 3]| rise(shares).is_some_and(|said| said.starts_with(told));
        assert!(named([0.995, 0.98, 0.99]), "{:?}", rise([0.995, 0.98, 0.99]));
        assert!(!named([0.98, 1.0, 0.99]), "shares fall with load");
        assert!(!named([0.985, 0.97, 0.98]), "none meets the SLOs, so none is taken for the most load");
    }

    #[test]
    fn what_every_trial_says_alike_is_not_said_again() {
        let (below, above, within) =
            ((CrossingPlace::Below, 10.0), (CrossingPlace::AtLeast, 14.0), (CrossingPlace::Within, 11.0));
        assert_eq!(of_loads(LoadKind::Rate, &[below; 5], None), None);
        assert_eq!(of_loads(LoadKind::Rate, &[above; 5], None), None);
        assert_eq!(of_loads(LoadKind::Rate, &[], None), None);
        let text = of_loads(LoadKind::Rate, &[below, above, within, within, within], None).expect("a remark");
        assert_eq!(text, "the most within the SLOs is not known: 1 trial fell short at every load, and 1 at none");
    }

    #[test]
    fn loads_far_from_each_other_are_a_bracket() {
        let far = LoadBracket { meets: 5.0, falls_short: 50.0 };
        let text = of_loads(LoadKind::Rate, &[(CrossingPlace::Within, 20.0); 5], Some(far)).expect("a bracket");
        assert_eq!(text, "the most within the SLOs is rate 5 or more, and less than 50");
    }

    #[test]
    fn the_knee_of_a_closed_loop_is_named_once_it_has_a_limit() {
        let said = |rates: [f64; 3]| of_points(&closed([("4", rates[0]), ("8", rates[1]), ("16", rates[2])]));
        assert_eq!(said([4.0, 8.0, 8.1]).as_deref(), Some("the knee is at concurrency 8, the limit at 16"));
        assert_eq!(said([4.0, 8.0, 8.0]).as_deref(), Some("the knee is at concurrency 8"));
        assert_eq!(said([4.0, 8.0, 15.0]), None, "more load brought more");
        let mut speeds = closed([("4", 4.0), ("8", 8.0), ("16", 8.1)]);
        for point in &mut speeds {
            point.value = [("speed".to_owned(), "1".to_owned())].into();
        }
        assert_eq!(of_points(&speeds), None, "no loads of a closed loop");
    }
}
