//! The pull request of a commit.

use serde::Deserialize;

use crate::client::{About, Forge};
use crate::{CommitSha, ForgeError, Repository};

/// A pull request, as the forge lists those of a commit.
#[derive(Debug, Deserialize)]
struct Listed {
    number: u64,
    state: String,
    head: Head,
}

#[derive(Debug, Deserialize)]
struct Head {
    sha: String,
    #[serde(default, rename = "ref")]
    branch: String,
    /// Absent once the fork is deleted.
    #[serde(default)]
    repo: Option<Repo>,
}

#[derive(Debug, Deserialize)]
struct Repo {
    full_name: String,
}

/// The branch that a pull request asks to merge, in whatever fork it is: what the forge knows of it, and nobody else can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadBranch {
    /// The repository that has the branch: the pull request's own, or a fork.
    pub repository: Repository,
    /// The branch's name, without `refs/heads/`. Compared, and never part of an address.
    pub branch: String,
}

impl HeadBranch {
    /// A forge keeps the case of a repository's name, and tells none apart by it.
    fn is(&self, head: &Head) -> bool {
        let named = self.repository.to_string();
        head.branch == self.branch && head.repo.as_ref().is_some_and(|repo| repo.full_name.eq_ignore_ascii_case(&named))
    }
}

impl Forge {
    /// The number of the one open pull request whose head is `commit`, and where `branch` is given, asks to merge that branch.
    ///
    /// Who runs a workflow for a fork learns only these, and no number. Nothing that its author wrote is asked: the forge itself knows.
    /// Without the branch, whoever pushes somebody else's commit to a fork and opens a pull request of it leaves two to choose from.
    pub fn pull_of(&self, repository: &Repository, commit: &CommitSha, branch: Option<&HeadBranch>) -> Result<u64, ForgeError> {
        let about = About { what: format!("the pull request of `{commit}`"), permission: "pull-requests: read" };
        // The list by commit leaves out commits of forks, so all open ones are asked for theirs.
        let path = format!("/repos/{repository}/pulls?state=open&sort=updated&direction=desc&per_page=100");
        let commit = commit.to_string();
        let mut numbers = Vec::new();
        self.search(&path, &about, |page: Vec<Listed>| {
            let is_ours = |head: &Head| head.sha == commit && branch.is_none_or(|branch| branch.is(head));
            numbers.extend(page.iter().filter(|pull| pull.state == "open" && is_ours(&pull.head)).map(|pull| pull.number));
            None::<()>
        })?;
        match numbers.as_slice() {
            [number] => Ok(*number),
            [] => Err(ForgeError::NoPull { commit }),
            several => Err(ForgeError::SeveralPulls { commit, count: several.len() }),
        }
    }
}
