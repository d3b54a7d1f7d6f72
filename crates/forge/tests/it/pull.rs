use assay_forge::{ForgeError, HeadBranch, PullCriteria};

use super::{AUTHOR, REPOSITORY, STRANGER, StandIn, forge};
use crate::stand_in::Identity;

fn commit(digit: &str) -> String {
    digit.repeat(40)
}

fn pull_of(stand_in: &StandIn, digit: &str) -> Result<u64, ForgeError> {
    find_pull_by(stand_in, digit, None, None)
}

fn find_pull_by(stand_in: &StandIn, digit: &str, head: Option<(&str, &str)>, base: Option<&str>) -> Result<u64, ForgeError> {
    let head = head.map(|(repository, branch)| HeadBranch {
        repository: repository.parse().expect("a repository"),
        branch: branch.to_owned(),
    });
    let sought = PullCriteria { commit: commit(digit).parse().expect("a commit"), head, base: base.map(str::to_owned) };
    forge(stand_in).find_pull(&REPOSITORY.parse().expect("a repository"), &sought)
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
fn a_closed_one_is_not_found() {
    let stand_in = StandIn::start(Identity::Workflow);
    let closed = stand_in.pull_at(STRANGER, &commit("a"));
    stand_in.close(closed);
    assert!(matches!(pull_of(&stand_in, "a"), Err(ForgeError::NoPull { .. })));
}

/// Every account can open a second pull request of a public commit, and an author one more into another branch.
#[test]
fn pull_requests_of_one_commit_are_told_by_their_branches() {
    let stand_in = StandIn::start(Identity::Workflow);
    stand_in.paginate(1);
    let copy = stand_in.pull_at(STRANGER, &commit("b"));
    let ours = stand_in.pull_at(AUTHOR, &commit("b"));
    assert!(matches!(pull_of(&stand_in, "b"), Err(ForgeError::SeveralPulls { count: 2, .. })));
    let of = |repository: &str, branch: &str, base: Option<&str>| find_pull_by(&stand_in, "b", Some((repository, branch)), base);
    assert_eq!(of("Somebody/Project", "change", None).expect("the forge's names have no case"), ours);
    assert_eq!(of("stranger/project", "change", Some("main")).expect("found"), copy);
    for (repository, branch, base) in
        [("somebody/project", "Change", None), ("another/project", "change", None), ("somebody/project", "change", Some("old"))]
    {
        assert!(matches!(of(repository, branch, base), Err(ForgeError::NoPull { .. })), "{repository} {branch}");
    }
    stand_in.delete_fork(copy);
    assert!(matches!(of("stranger/project", "change", None), Err(ForgeError::NoPull { .. })));
}
