use assay_forge::ForgeError;

use super::{REPOSITORY, STRANGER, StandIn, forge};
use crate::stand_in::Identity;

fn commit(digit: &str) -> String {
    digit.repeat(40)
}

fn pull_of(stand_in: &StandIn, digit: &str) -> Result<u64, ForgeError> {
    let repository = REPOSITORY.parse().expect("a repository");
    forge(stand_in).pull_of(&repository, &commit(digit).parse().expect("a commit"))
}

#[test]
fn the_open_pull_request_with_that_head_is_found_on_whatever_page() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.paginate(1);
    for digit in ["a", "b", "c"] {
        stand_in.pull_at(STRANGER, &commit(digit));
    }
    assert_eq!(pull_of(&stand_in, "b").expect("found"), 101);
}

#[test]
fn a_closed_one_and_two_at_once_are_no_answer() {
    let stand_in = StandIn::start(Identity::Workflow);
    let closed = stand_in.pull_at(STRANGER, &commit("a"));
    stand_in.close(closed);
    assert!(matches!(pull_of(&stand_in, "a"), Err(ForgeError::NoPull { .. })));
    stand_in.pull_at(STRANGER, &commit("b"));
    stand_in.pull_at(STRANGER, &commit("b"));
    assert!(matches!(pull_of(&stand_in, "b"), Err(ForgeError::SeveralPulls { count: 2, .. })));
}
