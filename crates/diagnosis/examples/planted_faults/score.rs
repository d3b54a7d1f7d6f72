//! The verdict on one recording: what was planted, and what the diagnosis says.

use assay_diagnosis::{Conclusion, Explanation, Finding, explain, rules};
use assay_simulator::Seed;

use crate::fault::Fault;
use crate::recording::{CASE, LEAST_CHANGE, Setup};

/// The draws of a recording until its faults make an outcome worse.
const MAX_DRAWS: u32 = 200;

/// The sets of seeds. What is learned from one says nothing about the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeedSet {
    Development,
    HeldBack,
}

impl SeedSet {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::HeldBack => "held-back",
        }
    }

    /// Returns the text that seeds come from. Rules that were changed after a held-back set was evaluated are evaluated by another one.
    fn label(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::HeldBack => "held-back 2",
        }
    }

    /// Returns the seed of a recording.
    pub(crate) fn seed(self, kind: &str, number: u32) -> Seed {
        Seed::default().mixed_with(&format!("{} {kind} {number}", self.label()))
    }
}

/// A finding beside what was planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It names a planted fault.
    Planted,
    /// It names a true consequence of a planted fault.
    Consequence,
    /// It names something that was not there.
    Wrong,
}

/// The result of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
    pub(crate) faults: Vec<Fault>,
    /// The largest change of an outcome without noise, for the worse.
    pub(crate) change: f64,
    pub(crate) redraws: u32,
    pub(crate) conclusion: Conclusion,
    /// The findings in their order.
    pub(crate) findings: Vec<(&'static str, Kind)>,
    /// For each fault: true if its finding has the right points, a source that sees the fault, and the object.
    pub(crate) right_scope: Vec<bool>,
}

/// Draws and explains a recording with faults.
///
/// # Panics
/// Panics if no draw makes an outcome worse: then the generator is at fault.
pub(crate) fn record(seed: Seed, trials: usize, faults: &[Fault]) -> Option<Scored> {
    let draw = |number: u32| Setup::draw(seed.mixed_with(&format!("draw {number}")), faults);
    draw(0)?;
    for redraws in 0..MAX_DRAWS {
        let setup = draw(redraws)?;
        let changes: Vec<f64> = faults.iter().map(|fault| setup.with_only(*fault).change_without_noise()).collect();
        if changes.iter().all(|change| *change >= LEAST_CHANGE && change.is_finite()) {
            let change = changes.into_iter().fold(0.0, f64::max);
            return Some(score(&setup, change, redraws, &explain(rules(), &setup.pairs(trials))));
        }
    }
    panic!("no draw of {faults:?} makes an outcome worse");
}

fn score(setup: &Setup, change: f64, redraws: u32, explanation: &Explanation) -> Scored {
    let findings: Vec<_> = explanation.findings.iter().map(|finding| (finding.rule, kind(&setup.faults, finding.rule))).collect();
    let right_scope = setup.faults.iter().map(|fault| {
        explanation
            .findings
            .iter()
            .any(|finding| fault.description().has_cause(finding.rule) && has_right_scope(setup, *fault, finding))
    });
    Scored {
        faults: setup.faults.clone(),
        change,
        redraws,
        conclusion: explanation.conclusion,
        right_scope: right_scope.collect(),
        findings,
    }
}

fn kind(faults: &[Fault], rule: &str) -> Kind {
    let planted = faults.iter().any(|fault| fault.description().has_cause(rule));
    let consequence = faults.iter().any(|fault| fault.description().has_consequence(rule));
    match (planted, consequence) {
        (true, _) => Kind::Planted,
        (false, true) => Kind::Consequence,
        (false, false) => Kind::Wrong,
    }
}

fn has_right_scope(setup: &Setup, fault: Fault, finding: &Finding) -> bool {
    let is_faulty = |name: &String| setup.points.iter().any(|point| point.name == *name && point.is_faulty);
    // A finding from the client's records alone names no source.
    let has_place = match setup.place(fault) {
        None => true,
        Some(_) if finding.places.is_empty() => fault.is_in_records(),
        Some(seen_by) => finding.places.iter().any(|place| place.starts_with(seen_by)),
    };
    let names_gpu = setup.straggling_gpu().filter(|_| fault == Fault::StragglingGpu).is_none_or(|gpu| {
        let objects = finding.seen.iter().filter_map(|seen| seen.object.as_deref());
        objects.flat_map(|object| object.split_whitespace()).any(|word| word == gpu.to_string())
    });
    finding.case == CASE && finding.points.iter().all(is_faulty) && has_place && names_gpu
}

impl Scored {
    /// Returns the place of the finding that names a fault, from 0; `None` if none does.
    pub(crate) fn rank(&self, fault: Fault) -> Option<usize> {
        self.findings.iter().position(|(rule, _)| fault.description().has_cause(rule))
    }

    /// Returns true if only true consequences stand before the finding that names a fault.
    pub(crate) fn is_first_cause(&self, fault: Fault) -> bool {
        self.rank(fault).is_some_and(|rank| self.findings[..rank].iter().all(|(_, kind)| *kind == Kind::Consequence))
    }

    /// Returns the rules of a kind.
    pub(crate) fn rules(&self, kind: Kind) -> impl Iterator<Item = &'static str> {
        self.findings.iter().filter(move |(_, found)| *found == kind).map(|(rule, _)| *rule)
    }
}
