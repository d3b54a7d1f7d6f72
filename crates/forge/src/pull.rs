//! The pull request of a commit.

use serde::Deserialize;

use crate::client::{About, Forge};
use crate::{CommitSha, ForgeError, Repository};

/// What is known of a pull request whose number is asked for. A forge has at most one open pull request from one branch to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// Its newest commit.
    pub commit: CommitSha,
    /// The branch that it asks to merge; any that ends with the commit if left out.
    pub head: Option<HeadBranch>,
    /// The branch that it is to be merged into, without `refs/heads/`; any if left out.
    pub base: Option<String>,
}

/// The branch that a pull request asks to merge. Compared with what the forge says, and never part of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadBranch {
    /// The repository that has the branch: the pull request's own, or a fork.
    pub repository: Repository,
    /// The branch's name, without `refs/heads/`.
    pub branch: String,
}

/// A pull request as the forge lists it.
#[derive(Debug, Deserialize)]
struct Listed {
    number: u64,
    state: String,
    head: End,
    base: End,
}

/// One of the two branches of a pull request.
#[derive(Debug, Deserialize)]
struct End {
    sha: String,
    #[serde(rename = "ref")]
    branch: String,
    /// Absent once a fork is deleted.
    repo: Option<Repo>,
}

#[derive(Debug, Deserialize)]
struct Repo {
    full_name: String,
}

impl HeadBranch {
    /// A forge keeps the case of a repository's name, and tells none apart by it.
    fn is(&self, head: &End) -> bool {
        let named = self.repository.to_string();
        head.branch == self.branch && head.repo.as_ref().is_some_and(|repo| repo.full_name.eq_ignore_ascii_case(&named))
    }
}

impl Sought {
    fn is(&self, pull: &Listed) -> bool {
        pull.state == "open"
            && pull.head.sha == self.commit.to_string()
            && self.head.as_ref().is_none_or(|head| head.is(&pull.head))
            && self.base.as_ref().is_none_or(|base| *base == pull.base.branch)
    }
}

impl Forge {
    /// The number of the one open pull request that is sought.
    ///
    /// Who runs a workflow for a fork learns only commit and branch, and no number. Nothing that its author wrote is asked: the forge
    /// itself knows. By the commit alone, whoever pushes somebody else's to a fork leaves two to choose from.
    pub fn pull_of(&self, repository: &Repository, sought: &Sought) -> Result<u64, ForgeError> {
        let about = About { what: format!("the pull request of `{}`", sought.commit), permission: "pull-requests: read" };
        // The list by commit leaves out commits of forks, so all open ones are asked for theirs; in an order that nobody can change meanwhile.
        let path = format!("/repos/{repository}/pulls?state=open&sort=created&direction=desc&per_page=100");
        let mut numbers = Vec::new();
        self.search(&path, &about, |page: Vec<Listed>| {
            numbers.extend(page.iter().filter(|pull| sought.is(pull)).map(|pull| pull.number));
            None::<()>
        })?;
        // Where one was opened between two pages, the second begins with what the first ended with.
        numbers.dedup();
        let commit = sought.commit.to_string();
        match numbers.as_slice() {
            [number] => Ok(*number),
            [] => Err(ForgeError::NoPull { commit }),
            several => Err(ForgeError::SeveralPulls { commit, count: several.len() }),
        }
    }
}
