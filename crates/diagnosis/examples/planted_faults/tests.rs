use assay_diagnosis::{Conclusion, explain, rules};

use crate::fault::Fault;
use crate::recording::{LEAST_CHANGE, Setup, TRIALS};
use crate::report::bounds;
use crate::scheduler::{self, Use, Waiting};
use crate::score::{SeedSet, record};

fn setup(fault: Fault, number: u32) -> Setup {
    Setup::draw(SeedSet::Development.seed("test", number), &[fault]).expect("one fault goes with itself")
}

#[test]
fn sides_without_fault_and_noise_are_equal() {
    for fault in [Fault::OtherTraffic, Fault::KvCache, Fault::PathBandwidth, Fault::AdmissionWaits] {
        let setup = setup(fault, 1);
        let difference = setup.without_faults().change_without_noise();
        assert!(difference.abs() < f64::EPSILON, "{fault:?}: {difference}");
    }
}

#[test]
fn every_fault_makes_an_outcome_worse_in_one_of_few_draws() {
    for fault in Fault::ALL {
        assert!((0..6).any(|number| setup(fault, number).change_without_noise() >= LEAST_CHANGE), "{fault:?}");
    }
}

#[test]
fn the_same_seed_has_the_same_recording() {
    let setup = setup(Fault::StragglingGpu, 3);
    let [one, other] = [setup.pairs(TRIALS), setup.pairs(TRIALS)];
    assert_eq!(one, other);
    let [one, other] = [explain(rules(), &one), explain(rules(), &other)];
    assert_eq!(one, other);
    assert_ne!(setup.pairs(TRIALS), self::setup(Fault::StragglingGpu, 4).pairs(TRIALS));
}

#[test]
fn a_recording_without_fault_has_no_finding_and_the_longest_queue_is_found() {
    let clean = record(SeedSet::Development.seed("test clean", 0), TRIALS, &[]).expect("no fault goes with no fault");
    assert_eq!(clean.findings, []);
    let queue = |number: u32| {
        record(SeedSet::Development.seed("test queue", number), TRIALS, &[Fault::BatchLimit]).expect("it goes alone")
    };
    let longest = (0..3).map(queue).max_by(|one, other| one.change.total_cmp(&other.change)).expect("three recordings");
    // The queue is what a smaller limit makes; which of both rules is named first is a question of rates, and no test.
    assert!(longest.findings.iter().any(|(rule, _)| ["server-queue", "batch-limit"].contains(rule)), "{:?}", longest.findings);
}

#[test]
fn bounds_are_those_of_clopper_and_pearson() {
    // `binom.test` of R, and for no success the closed form 1 - 0.025^(1 / n).
    for (count, of, expected) in [(0, 200, [0.0, 0.018_275]), (20, 20, [0.831_566, 1.0]), (18, 20, [0.683_017, 0.987_651])] {
        let found = bounds(count, of);
        assert!(
            found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-5),
            "{count} of {of}: {found:?}"
        );
    }
}

#[test]
fn a_planted_wait_is_found_first_and_a_cluster_with_room_has_hardly_any() {
    for waiting in Waiting::ALL {
        let record = |of: Use, number: &u32| scheduler::record(SeedSet::Development, waiting, of, *number, true);
        assert!((0..10).filter(|number| record(Use::Overloaded, number).rank() == Some(0)).count() >= 8, "{waiting:?}");
        // Some 5 of 2,000 have one.
        let clean = (0..10).filter(|number| !record(Use::WithRoom, number).explanation.findings.is_empty()).count();
        assert!(clean <= 1, "{waiting:?}: {clean}");
    }
}

#[test]
fn a_wait_beside_a_run_without_facts_could_not_be_checked() {
    for waiting in Waiting::ALL {
        let scored = scheduler::record(SeedSet::Development, waiting, Use::Overloaded, 0, false);
        assert_eq!((scored.is_judged(), scored.explanation.findings.len()), (false, 0), "{waiting:?}");
        assert_eq!(scored.explanation.conclusion, Conclusion::CannotTell);
    }
}
