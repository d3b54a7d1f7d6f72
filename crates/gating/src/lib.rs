//! Gating: gathers the evidence that a gate decides by, runs more trials, and replays verdicts; `assay-gate` decides.
//!
//! [`GateRequest::judge`] opens the judged run, reads the rules, finds the earlier verdicts, and signs and stores a new one.
//! [`replay`] repeats a verdict from the inputs that it names, [`compare_with_history`] compares a run with those before it, and
//! [`NoiseRequest::learn`] learns noise from earlier runs. [`judge_own_comparison`] judges an exploratory comparison by its own rules, without a
//! signed verdict. [`ForeignGateRequest::judge`] judges results of other tools.
//! Nothing is printed here: a [`Caller`] is given typed [`GateEvent`]s, holds the key, and runs a pipeline once more.

mod caller;
mod decide;
mod evidence;
mod foreign;
mod history;
mod noise;
mod own;
mod replay;
mod request;
mod rules;
mod sequence;
mod top_up;

pub use caller::{Caller, GateEvent, RepeatedRun};
pub use decide::GateDecision;
pub use foreign::{ForeignGateRequest, VerifiedForeignVerdict, find_foreign_verdict, verify_foreign_verdict};
pub use history::{FollowedMetric, HistoryJudgement, MissingMetric, RecommendedDesign, compare_with_history};
pub use noise::{NoiseEvent, NoiseFile, NoiseRequest};
pub use own::{judge_own_comparison, judge_own_gates};
pub use replay::replay;
pub use request::{GateRequest, RuleOrigin};
pub use sequence::VerifiedVerdict;
