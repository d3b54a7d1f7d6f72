//! A plan and the attempts of a run by their keys. A run may have thousands of cases, trials and attempts, and each of its rows
//! names some of them.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use assay_manifest::{
    Attempt, Case, CaseId, CollectedAttempt, CollectedTrial, Collection, Digest, ExecutionPart, FrozenWorkload, Name, Plan,
    PlannedTrial, PointId, ServingWork, TrialId,
};

/// Returns items by a key; of several with the same key, the first.
fn first_by_key<'a, T, K: Eq + Hash>(items: &'a [T], key: impl Fn(&'a T) -> K) -> HashMap<K, &'a T> {
    items.iter().rev().map(|item| (key(item), item)).collect()
}

/// The cases, workloads and trials of a plan.
pub(crate) struct PlanIndex<'a> {
    pub(crate) plan: &'a Plan,
    cases: HashMap<&'a str, &'a Case>,
    workloads: HashMap<&'a Name, &'a FrozenWorkload>,
    trials: HashMap<&'a TrialId, &'a PlannedTrial>,
}

impl<'a> PlanIndex<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            cases: first_by_key(&plan.cases, |case| case.case_id.as_str()),
            workloads: first_by_key(&plan.workloads, |workload| &workload.name),
            trials: first_by_key(&plan.trials, |trial| &trial.trial_id),
        }
    }

    /// Returns the workload of the case with this id.
    pub(crate) fn workload_of(&self, case_id: &str) -> Option<&'a FrozenWorkload> {
        self.workloads.get(&self.cases.get(case_id)?.workload).copied()
    }

    /// Returns the serving work of a case; `None` if it has none.
    pub(crate) fn serving_of(&self, case: &CaseId) -> Option<&'a ServingWork> {
        self.workload_of(case.as_str())?.serving.as_ref()
    }

    /// Returns a planned trial.
    pub(crate) fn trial(&self, id: &TrialId) -> Option<&'a PlannedTrial> {
        self.trials.get(id).copied()
    }
}

/// The trials of one point: as the plan names them, and what the Collection lists of them.
#[derive(Default)]
pub(crate) struct PointTrials<'a> {
    pub(crate) planned: usize,
    pub(crate) collected: Vec<&'a CollectedTrial>,
}

/// The trials of each point of a run.
pub(crate) struct TrialIndex<'a> {
    points: HashMap<&'a CaseId, HashMap<&'a PointId, PointTrials<'a>>>,
    collected: HashMap<&'a str, Vec<&'a CollectedTrial>>,
}

impl<'a> TrialIndex<'a> {
    pub(crate) fn new(plan: &'a Plan, collection: &'a Collection) -> Self {
        let mut index = Self { points: HashMap::new(), collected: HashMap::new() };
        // A plan that names a trial at two points is refused elsewhere: here it is a trial of both.
        let mut places: HashMap<&TrialId, BTreeSet<(&CaseId, &PointId)>> = HashMap::new();
        for trial in &plan.trials {
            let place = (&trial.case_id, &trial.point_id);
            if places.entry(&trial.trial_id).or_default().insert(place) {
                index.place(place).planned += 1;
            }
        }
        for collected in &collection.trials {
            index.collected.entry(collected.trial_id.as_str()).or_default().push(collected);
            for place in places.get(&collected.trial_id).into_iter().flatten() {
                index.place(*place).collected.push(collected);
            }
        }
        index
    }

    fn place(&mut self, (case, point): (&'a CaseId, &'a PointId)) -> &mut PointTrials<'a> {
        self.points.entry(case).or_default().entry(point).or_default()
    }

    /// Returns the trials of a point; `None` if it has none.
    pub(crate) fn of_point(&self, case: &CaseId, point: &PointId) -> Option<&PointTrials<'a>> {
        self.points.get(case)?.get(point)
    }

    /// Returns the attempts that the Collection lists of the trial with this id.
    pub(crate) fn attempts_of(&self, trial_id: &str) -> impl Iterator<Item = &'a CollectedAttempt> {
        self.collected.get(trial_id).into_iter().flatten().flat_map(|trial| &trial.attempts)
    }
}

/// The attempts of the execution parts of a run.
pub(crate) struct AttemptIndex<'a> {
    /// By trial, each with the digest of its part's manifest: those of all shards and incarnations.
    of_trials: HashMap<&'a TrialId, Vec<(Digest, &'a Attempt)>>,
    of_cases: HashMap<&'a str, Vec<&'a Attempt>>,
}

impl<'a> AttemptIndex<'a> {
    /// Indexes the attempts of parts, which come with the digests of their manifests.
    pub(crate) fn new(parts: impl IntoIterator<Item = (Digest, &'a ExecutionPart)>) -> Self {
        let mut index = Self { of_trials: HashMap::new(), of_cases: HashMap::new() };
        for (part, attempt) in parts.into_iter().flat_map(|(digest, part)| part.attempts.iter().map(move |found| (digest, found)))
        {
            index.of_trials.entry(&attempt.trial_id).or_default().push((part, attempt));
            index.of_cases.entry(attempt.case_id.as_str()).or_default().push(attempt);
        }
        index
    }

    /// Returns the attempts of a trial with their parts.
    fn of_trial(&self, trial: &TrialId) -> &[(Digest, &'a Attempt)] {
        self.of_trials.get(trial).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the attempt that the Collection lists of a trial.
    pub(crate) fn find(&self, trial: &TrialId, collected: &CollectedAttempt) -> Option<&'a Attempt> {
        let is_it = |(part, found): &&(Digest, &Attempt)| *part == collected.part && found.attempt == collected.attempt;
        self.of_trial(trial).iter().find(is_it).map(|(_, found)| *found)
    }

    /// Returns the attempts of a trial with this number, of any shard and incarnation.
    pub(crate) fn numbered(&self, trial: &TrialId, number: u32) -> impl Iterator<Item = &'a Attempt> {
        self.of_trial(trial).iter().map(|(_, found)| *found).filter(move |found| found.attempt == number)
    }

    /// Returns the attempts of the case with this id.
    pub(crate) fn of_case(&self, case_id: &str) -> &[&'a Attempt] {
        self.of_cases.get(case_id).map(Vec::as_slice).unwrap_or_default()
    }
}
