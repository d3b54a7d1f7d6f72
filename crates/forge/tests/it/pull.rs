use assay_forge::{ForgeError, HeadBranch};

use super::{AUTHOR, REPOSITORY, STRANGER, StandIn, forge};
use crate::stand_in::Identity;

fn commit(digit: &str) -> String {
    digit.repeat(40)
}

fn pull_of(stand_in: &StandIn, digit: &str) -> Result<u64, ForgeError> {
    let repository = REPOSITORY.parse().expect("a repository");
    forge(stand_in).pull_of(&repository, &commit(digit).parse().expect("a commit"), None)
}

fn pull_from(stand_in: &StandIn, repository: &str, branch: &str) -> Result<u64, ForgeError> {
    let head = HeadBranch { repository: repository.parse().expect("a repository"), branch: branch.to_owned() };
    let commit = commit("b").parse().expect("a commit");
    forge(stand_in).pull_of(&REPOSITORY.parse().expect("a repository"), &commit, Some(&head))
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
fn a_closed_one_is_no_answer() {
    let stand_in = StandIn::start(Identity::Workflow);
    let closed = stand_in.pull_at(STRANGER, &commit("a"));
    stand_in.close(closed);
    assert!(matches!(pull_of(&stand_in, "a"), Err(ForgeError::NoPull { .. })));
}

/// Anyone can open a second pull request of a commit that is public. It must neither close the first nor be a second chance.
#[test]
fn a_commit_is_judged_as_the_pull_request_that_was_opened_first() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.paginate(1);
    let first = stand_in.pull_at(AUTHOR, &commit("b"));
    let copy = stand_in.pull_at(STRANGER, &commit("b"));
    assert_eq!(pull_of(&stand_in, "b").expect("found"), first);
    assert_eq!(pull_from(&stand_in, "Somebody/Project", "change").expect("the forge's names have no case"), first);
    let refused = pull_from(&stand_in, "stranger/project", "change").expect_err("the second");
    assert!(matches!(refused, ForgeError::JudgedElsewhere { pull, .. } if pull == first), "{refused}");
    for (repository, branch) in [("somebody/project", "Change"), ("another/project", "change")] {
        assert!(matches!(pull_from(&stand_in, repository, branch), Err(ForgeError::NoPull { .. })), "{repository} {branch}");
    }
    stand_in.close(first);
    assert_eq!(pull_from(&stand_in, "stranger/project", "change").expect("now the first"), copy);
    stand_in.delete_fork(copy);
    assert!(matches!(pull_from(&stand_in, "stranger/project", "change"), Err(ForgeError::NoPull { .. })));
}
