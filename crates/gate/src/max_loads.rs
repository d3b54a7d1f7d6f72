//! The most load within the SLOs on both sides, paired by trial: each trial is one at every load of the workload.

use std::collections::BTreeMap;

use assay_manifest::{AllLoads, CrossingPlace, LoadBracket, LoadKind, Reason, TrialCrossing, TrialPair};
use assay_search::MIN_REQUESTS;

/// Returns the pairs of both sides, baseline first, or the reason why they decide nothing.
///
/// The loads of both sides are those of their workload. A trial whose most load is outside of them has no number, and that it is missing may be
/// all of a difference: then no pair is judged.
pub(crate) fn pair_loads(run: u32, sides: [&AllLoads; 2]) -> Result<Vec<TrialPair>, Reason> {
    find_gap(sides).map_or_else(|| Ok(pairs(run, sides)), Err)
}

/// Returns the values of both sides for every trial that both have.
fn pairs(run: u32, sides: [&AllLoads; 2]) -> Vec<TrialPair> {
    let [baseline, candidate] =
        sides.map(|side| side.crossings.iter().map(|trial| (trial.index, trial.load)).collect::<BTreeMap<u32, f64>>());
    let pair = |(index, baseline): (u32, f64)| {
        candidate.get(&index).map(|candidate| TrialPair { run, index, baseline, candidate: *candidate })
    };
    baseline.into_iter().filter_map(pair).collect()
}

/// Returns the reason why a side has no number in every trial, with the remedy. Of several, the first of the candidate.
fn find_gap([baseline, candidate]: [&AllLoads; 2]) -> Option<Reason> {
    [("candidate", candidate), ("baseline", baseline)].into_iter().find_map(|(side, loads)| gap_of(side, loads))
}

fn gap_of(side: &str, loads: &AllLoads) -> Option<Reason> {
    let (kind, trials) = (loads.load, loads.crossings.len());
    let ends_at = |place: CrossingPlace| {
        let at_end: Vec<&TrialCrossing> = loads.crossings.iter().filter(|trial| trial.place == place).collect();
        at_end.first().map(|trial| (at_end.len(), describe(kind, trial.load)))
    };
    if trials == 0 {
        let text = format!(
            "no trial of the {side} counts at every load with at least {MIN_REQUESTS} requests: use a longer `duration` or more `requests`, and leave out loads at which every request fails"
        );
        return Some(Reason::new("no_trial_at_every_load", text));
    }
    if let Some((count, lowest)) = ends_at(CrossingPlace::Below) {
        let text = format!(
            "the {side} fell short of the SLOs even at the lowest load, {lowest}, in {count} of {trials} trials: add lower loads to the workload"
        );
        return Some(Reason::new("below_all_loads", text));
    }
    if let Some((count, highest)) = ends_at(CrossingPlace::AtLeast) {
        let text = format!(
            "the {side} was within the SLOs even at the highest load, {highest}, in {count} of {trials} trials: add higher loads to the workload"
        );
        return Some(Reason::new("above_all_loads", text));
    }
    loads.bracket.map(|LoadBracket { meets, falls_short }| {
        let text = format!(
            "the most load of the {side} is between {meets} and {falls_short}, and its loads there are too far from each other: add loads between them"
        );
        Reason::new("loads_apart", text)
    })
}

fn describe(kind: LoadKind, load: f64) -> String {
    format!("{kind} {load}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the loads of a side whose trials cross at these places.
    fn side(crossings: &[(u32, CrossingPlace, f64)], bracket: Option<LoadBracket>) -> AllLoads {
        AllLoads {
            case_id: "w.t.default".parse().expect("a case"),
            point_id: assay_manifest::ALL_LOADS.parse().expect("a name"),
            workload_spec_digest: assay_manifest::Digest::compute(b"work"),
            load: LoadKind::Rate,
            unit: "requests/s".to_owned(),
            crossings: crossings
                .iter()
                .map(|(index, place, load)| TrialCrossing { index: *index, place: *place, load: *load })
                .collect(),
            bracket,
            metrics: Vec::new(),
        }
    }

    fn gap(baseline: &AllLoads, candidate: &AllLoads) -> String {
        find_gap([baseline, candidate]).map(|reason| format!("{}: {}", reason.code, reason.detail)).unwrap_or_default()
    }

    #[test]
    fn trials_are_paired_by_their_number() {
        let one = side(&[(0, CrossingPlace::Within, 10.0), (2, CrossingPlace::Within, 12.0)], None);
        let other = side(&[(1, CrossingPlace::Within, 9.0), (2, CrossingPlace::Within, 8.0)], None);
        let pairs = pairs(3, [&one, &other]);
        let seen: Vec<_> =
            pairs.iter().map(|pair| (pair.run, pair.index, pair.baseline.to_string(), pair.candidate.to_string())).collect();
        assert_eq!(seen, [(3, 2, "12".to_owned(), "8".to_owned())]);
    }

    #[test]
    fn a_trial_outside_of_the_loads_says_at_which_end_and_what_to_add() {
        let within = side(&[(0, CrossingPlace::Within, 10.0), (1, CrossingPlace::Within, 11.0)], None);
        let below = side(&[(0, CrossingPlace::Within, 10.0), (1, CrossingPlace::Below, 4.0)], None);
        let above = side(&[(0, CrossingPlace::AtLeast, 40.0), (1, CrossingPlace::AtLeast, 40.0)], None);
        assert_eq!(gap(&within, &within), "");
        assert_eq!(
            gap(&within, &below),
            "below_all_loads: the candidate fell short of the SLOs even at the lowest load, rate 4, in 1 of 2 trials: add lower loads to the workload"
        );
        assert_eq!(
            gap(&above, &within),
            "above_all_loads: the baseline was within the SLOs even at the highest load, rate 40, in 2 of 2 trials: add higher loads to the \
             workload"
        );
        assert!(gap(&above, &below).contains("the candidate fell short"), "the candidate's first");
    }

    #[test]
    fn loads_too_far_apart_and_sides_without_a_trial_say_so() {
        let within = side(&[(0, CrossingPlace::Within, 10.0)], None);
        let apart = side(&[(0, CrossingPlace::Within, 10.0)], Some(LoadBracket { meets: 4.0, falls_short: 16.0 }));
        assert!(gap(&within, &apart).starts_with("loads_apart: the most load of the candidate is between 4 and 16"));
        assert!(
            gap(&side(&[], None), &within).starts_with("no_trial_at_every_load: no trial of the baseline counts at every load")
        );
    }
}
