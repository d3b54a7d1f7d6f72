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
    /// The number of the open pull request as which `commit` is judged: of those whose head it is, the one that was opened first.
    ///
    /// Who runs a workflow for a fork learns only commit and branch, and no number. Nothing that its author wrote is asked: the forge
    /// itself knows.
    ///
    /// Anyone can push a commit that is public to a fork and open another pull request of it. A check belongs to the commit, and so to
    /// both. If each were judged, the second would be a second chance; if neither were, whoever opens it could close the first. So where
    /// `branch` is given, and is not what the first asks to merge, this is [`ForgeError::JudgedElsewhere`].
    pub fn pull_of(&self, repository: &Repository, commit: &CommitSha, branch: Option<&HeadBranch>) -> Result<u64, ForgeError> {
        let about = About { what: format!("the pull request of `{commit}`"), permission: "pull-requests: read" };
        // The list by commit leaves out commits of forks, so all open ones are asked for theirs.
        let path = format!("/repos/{repository}/pulls?state=open&sort=updated&direction=desc&per_page=100");
        let commit = commit.to_string();
        let mut found: Vec<Listed> = Vec::new();
        self.search(&path, &about, |page: Vec<Listed>| {
            found.extend(page.into_iter().filter(|pull| pull.state == "open" && pull.head.sha == commit));
            None::<()>
        })?;
        let is_asked = |pull: &Listed| branch.is_none_or(|branch| branch.is(&pull.head));
        let Some(first) = found.iter().min_by_key(|pull| pull.number) else { return Err(ForgeError::NoPull { commit }) };
        match found.iter().any(is_asked) {
            false => Err(ForgeError::NoPull { commit }),
            true if is_asked(first) => Ok(first.number),
            true => Err(ForgeError::JudgedElsewhere { commit, pull: first.number }),
        }
    }
}
