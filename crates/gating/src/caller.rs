//! The program around a gate: it is given events, holds the key, and runs pipelines.

use assay_manifest::{Name, RunId};
use assay_runner::KeyRing;
use assay_runs::LeftOutRun;
use assay_stage::Failure;

/// The program that a gate is judged by, such as the command line.
pub trait Caller {
    /// Reports an event.
    fn report(&self, event: GateEvent<'_>);

    /// Returns the unlocked key of the role `gate`, which may be made at first use.
    fn gate_key(&self) -> Result<KeyRing, Failure>;

    /// Runs a pipeline once more, and returns once the run has its Publication.
    fn run_again(&self, run: &RepeatedRun<'_>) -> Result<(), Failure>;
}

/// An event while a gate is judged.
#[derive(Clone, Copy, Debug)]
pub enum GateEvent<'a> {
    /// The rules are those of a branch.
    RulesRead {
        /// The branch by name and commit.
        branch: &'a str,
    },
    /// No new verdict is made, because an earlier one applies.
    VerdictStands {
        /// Its number.
        number: u32,
        /// The pull request or tree that it is about.
        subject: &'a Name,
    },
    /// The run is part of an earlier verdict already.
    JudgedBefore {
        /// The run.
        run: &'a RunId,
    },
    /// The run is not judged, because no look is left.
    NoLookLeft {
        /// The gate.
        gate: &'a Name,
        /// The number of looks that it allows.
        looks: usize,
        /// The run.
        run: &'a RunId,
    },
    /// The pipeline is not run once more, because the remaining looks cannot decide.
    LooksFutile {
        /// The reason.
        reason: &'a str,
    },
    /// The pipeline is run once more.
    RunsAgain(&'a RepeatedRun<'a>),
    /// The run is compared with history by the first of several gates.
    FirstGate {
        /// The gate.
        gate: &'a Name,
        /// The number of gates.
        of: usize,
    },
    /// The metrics of earlier runs were read.
    HistoryRead {
        /// The number of runs that were copied here from other stores, whose tables have their rows.
        fetched: usize,
        /// The runs that are left out, because their signers are unknown.
        left_out: &'a [LeftOutRun],
        /// True if a trust policy names every signer.
        is_established: bool,
    },
}

/// A run of a pipeline that is made again, for another look.
#[derive(Clone, Copy, Debug)]
pub struct RepeatedRun<'a> {
    /// The path of the pipeline, from the repository's root.
    pub pipeline: &'a str,
    /// The commit that is measured.
    pub commit: &'a str,
    /// The name of the new run.
    pub run_id: &'a RunId,
}
