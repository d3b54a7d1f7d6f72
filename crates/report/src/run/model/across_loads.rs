//! The statements on all loads of a case together: the most load within the SLOs, and the knee of a closed loop.

use assay_manifest::{PointSummary, Summary, TrialId};
use assay_search::{Axis, Censored, DEFAULT_SHARE, Landmarks, Load, MaxLoad, Observation, landmarks, max_load};

use crate::render::number::significant;
use crate::render::text::counted;

/// The fewest requests of a trial at a load: of fewer, 99 of 100 are all of them.
const MIN_REQUESTS: u64 = 100;

/// Finds the most load within the SLOs of points of one case, which have to be loads of one kind: from the share of requests within every SLO
/// of each trial that counts at all of them, with at least 100 requests. `None` without SLOs, and if there are fewer than two loads or no such
/// trial.
pub fn max_load_of(summary: &Summary, points: &[&PointSummary]) -> Option<(Axis, MaxLoad)> {
    let loads: Vec<Load> = points.iter().map(|point| load_of(point)).collect::<Option<_>>()?;
    let axis = match loads.as_slice() {
        [Load::Rate(_), _, ..] => Axis::Rate,
        [Load::Concurrency(_), _, ..] => Axis::Concurrency,
        _ => return None,
    };
    let is_of_axis = |load: &Load| matches!(load, Load::Rate(_)) == (axis == Axis::Rate);
    let planned = points.iter().map(|point| point.trials_planned).max()?;
    if !loads.iter().all(is_of_axis) {
        return None;
    }
    let trial = |index: u32| -> Option<Vec<(f64, f64)>> {
        points.iter().zip(&loads).map(|(point, load)| Some((load.amount(), good_fraction(point, index)?))).collect()
    };
    let trials: Vec<_> = (0..planned).filter_map(trial).collect();
    Some((axis, max_load(&trials, DEFAULT_SHARE, axis, *summary.plan_digest.as_bytes())?))
}

/// Finds the idle point, the knee and the limit of points of a closed loop; `None` if they do not reach a limit.
pub fn landmarks_of(points: &[&PointSummary]) -> Option<Landmarks> {
    let counted = points.iter().filter(|point| point.trials_counted > 0);
    landmarks(&counted.filter_map(|point| observation_of(point)).collect::<Vec<_>>())
}

/// Returns what was observed at a point, by the medians over its trials; `None` for a point that is no load.
pub fn observation_of(point: &PointSummary) -> Option<Observation> {
    let serving = point.serving.as_ref()?;
    let median = |name: &str| point.metrics.iter().find(|metric| metric.metric == name).map(|metric| metric.median);
    Some(Observation {
        load: load_of(point)?,
        requests: serving.requests.0,
        error_rate: median("error_rate").unwrap_or(0.0),
        requests_per_s: median("request_throughput_per_s").unwrap_or(0.0),
        mean_latency_s: median("e2e_ms_mean").unwrap_or(0.0) / 1e3,
        good_fraction: median("good_fraction"),
    })
}

/// Returns the load of a point, if it is a concurrency or a constant rate and nothing else.
pub fn load_of(point: &PointSummary) -> Option<Load> {
    let mut value = point.value.iter();
    let ((name, text), None) = (value.next()?, value.next()) else { return None };
    match name.as_str() {
        "concurrency" => text.parse().ok().map(Load::Concurrency),
        "rate" => text.parse().ok().filter(|rate: &f64| rate.is_finite()).map(Load::Rate),
        _ => None,
    }
}

/// Returns the share of requests within every SLO in one trial, if it counts.
fn good_fraction(point: &PointSummary, index: u32) -> Option<f64> {
    let id = TrialId::from_parts(&point.case_id, &point.point_id, index);
    let metric = point.metrics.iter().find(|metric| metric.metric == "good_fraction")?;
    metric.trials.iter().find(|trial| trial.trial_id == id && trial.n.0 >= MIN_REQUESTS).map(|trial| trial.value)
}

/// Describes what the loads of a case say together, if it is more than each of them says.
pub(crate) fn describe(summary: &Summary, points: &[&PointSummary]) -> Option<String> {
    let most = max_load_of(summary, points).and_then(|(axis, found)| describe_max_load(axis, &found));
    let knee = || {
        let found = landmarks_of(points)?;
        let [knee, limit] = [found.knee, found.limit].map(|seen| seen.load.amount());
        let limit = if (knee - limit).abs() < 0.5 { String::new() } else { format!(", the limit at {limit}") };
        Some(format!("the knee is at concurrency {knee}{limit}"))
    };
    let said: Vec<String> = most.into_iter().chain(knee()).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn describe_max_load(axis: Axis, found: &MaxLoad) -> Option<String> {
    let name = match axis {
        Axis::Rate => "rate",
        Axis::Concurrency => "concurrency",
    };
    let most = format!("the most within the SLOs is {name}");
    match found {
        MaxLoad::Within(found) => {
            let trials = counted(found.n as u64, "trial");
            let number = |value: f64| match axis {
                Axis::Rate => significant(value, None),
                Axis::Concurrency => format!("{value}"),
            };
            Some(match &found.interval {
                Ok(ends) => format!("{most} {} [{}, {}], {trials}", number(found.median), number(ends.low), number(ends.high)),
                Err(_) => format!("{most} {} (no interval), {trials}", number(found.median)),
            })
        }
        MaxLoad::Between { meets, falls_short } => Some(format!("{most} {meets} or more, and less than {falls_short}")),
        // Where every trial says the same, so does the number of loads that met the SLOs.
        MaxLoad::Inconclusive(Censored { below: 0, .. } | Censored { above: 0, .. }) => None,
        MaxLoad::Inconclusive(Censored { below, above }) => Some(format!(
            "the most within the SLOs is not known: {} fell short at every load, and {above} at none",
            counted(u64::from(*below), "trial")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fixture;

    /// Returns the Summary of three loads with these shares of good requests in each of five trials, and these throughputs.
    fn model(loads: [(&str, &str); 3], good: [f64; 3], requests_per_s: [f64; 3]) -> fixture::Model {
        let mut model = fixture::serving::whole();
        model.summary.points.truncate(3);
        for (((point, (name, value)), good), rate) in model.summary.points.iter_mut().zip(loads).zip(good).zip(requests_per_s) {
            point.value = [(name.to_owned(), value.to_owned())].into();
            point.trials_counted = point.trials_planned;
            set(point, "good_fraction", good);
            set(point, "request_throughput_per_s", rate);
            set(point, "e2e_ms_mean", 1e3 * value.parse::<f64>().expect("a number") / rate);
        }
        model
    }

    /// Sets a metric of a point to a value in all of its trials.
    fn set(point: &mut PointSummary, name: &str, value: f64) {
        let mut metric = point.metrics.iter().find(|metric| metric.trials.len() == 5).expect("a whole metric").clone();
        point.metrics.retain(|metric| metric.metric != name);
        (metric.metric, metric.median) = (name.to_owned(), value);
        for (index, trial) in metric.trials.iter_mut().enumerate() {
            (trial.value, trial.trial_id) = (value, TrialId::from_parts(&point.case_id, &point.point_id, index as u32));
            trial.n = assay_manifest::Count(MIN_REQUESTS);
        }
        point.metrics.push(metric);
    }

    fn text(model: &fixture::Model) -> Option<String> {
        describe(&model.summary, &model.summary.points.iter().collect::<Vec<_>>())
    }

    const RATES: [(&str, &str); 3] = [("rate", "10"), ("rate", "12"), ("rate", "14")];

    #[test]
    fn the_most_rate_is_between_the_loads_where_the_share_is_crossed() {
        // Half of the way from 1.0 at 10 to 0.98 at 12.
        let text = text(&model(RATES, [1.0, 0.98, 0.5], [10.0, 11.9, 13.0])).expect("a crossing");
        assert_eq!(text, "the most within the SLOs is rate 11.0 [11.0, 11.0], 5 trials");
    }

    #[test]
    fn what_every_trial_says_alike_is_not_said_again() {
        assert_eq!(text(&model(RATES, [1.0; 3], [10.0, 12.0, 14.0])), None);
        assert_eq!(text(&model(RATES, [0.5; 3], [10.0, 12.0, 14.0])), None);
        let mut mixed = model(RATES, [1.0, 0.98, 0.5], [10.0, 12.0, 14.0]);
        for point in &mut mixed.summary.points {
            let good = point.metrics.iter_mut().find(|metric| metric.metric == "good_fraction").expect("there");
            (good.trials[0].value, good.trials[1].value) = (0.1, 1.0);
        }
        let text = text(&mixed).expect("a remark");
        assert_eq!(text, "the most within the SLOs is not known: 1 trial fell short at every load, and 1 at none");
    }

    #[test]
    fn a_trial_of_few_requests_says_nothing_about_99_of_100() {
        let mut few = model(RATES, [1.0, 0.98, 0.5], [10.0, 12.0, 14.0]);
        let good = few.summary.points[1].metrics.iter_mut().find(|metric| metric.metric == "good_fraction").expect("there");
        good.trials[0].n = assay_manifest::Count(MIN_REQUESTS - 1);
        assert!(text(&few).is_some_and(|text| text.ends_with("4 trials")));
        let good = few.summary.points[1].metrics.iter_mut().find(|metric| metric.metric == "good_fraction").expect("there");
        good.trials.iter_mut().for_each(|trial| trial.n = assay_manifest::Count(MIN_REQUESTS - 1));
        assert_eq!(text(&few), None);
    }

    #[test]
    fn loads_far_from_each_other_are_a_bracket() {
        let far = [("rate", "1"), ("rate", "5"), ("rate", "50")];
        let text = text(&model(far, [1.0, 1.0, 0.5], [1.0, 5.0, 50.0])).expect("a bracket");
        assert_eq!(text, "the most within the SLOs is rate 5 or more, and less than 50");
    }

    #[test]
    fn the_knee_of_a_closed_loop_is_named_once_it_has_a_limit() {
        let loads = [("concurrency", "4"), ("concurrency", "8"), ("concurrency", "16")];
        assert_eq!(
            text(&model(loads, [1.0; 3], [4.0, 8.0, 8.1])).as_deref(),
            Some("the knee is at concurrency 8, the limit at 16")
        );
        assert_eq!(text(&model(loads, [1.0; 3], [4.0, 8.0, 8.0])).as_deref(), Some("the knee is at concurrency 8"));
        assert_eq!(text(&model(loads, [1.0; 3], [4.0, 8.0, 15.0])), None, "more load brought more");
    }

    #[test]
    fn other_points_and_mixed_ones_say_nothing() {
        let speeds = [("speed", "1"), ("speed", "2"), ("speed", "4")];
        assert_eq!(text(&model(speeds, [1.0, 0.98, 0.5], [10.0, 12.0, 14.0])), None);
        let mut users = model(RATES, [1.0, 0.98, 0.5], [10.0, 12.0, 14.0]);
        for point in &mut users.summary.points {
            point.value.insert("users".to_owned(), "4".to_owned());
        }
        assert_eq!(text(&users), None);
    }
}
