//! The pull request of a commit.

use crate::client::Forge;
use crate::dialect::Permission;
use crate::{CommitSha, ForgeError, Repository};

/// The criteria for a pull request whose number is wanted. A forge has at most one open pull request from one branch to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullCriteria {
    /// Its newest commit.
    pub commit: CommitSha,
    /// The branch that it asks to merge; any branch with the commit as its head if left out.
    pub head: Option<HeadBranch>,
    /// The target branch, without `refs/heads/`; any if left out.
    pub base: Option<String>,
}

/// The branch that a pull request asks to merge. Compared with the forge's data, and never part of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadBranch {
    /// The repository that has the branch: the pull request's own, or a fork.
    pub repository: Repository,
    /// The branch's name, without `refs/heads/`.
    pub branch: String,
}

/// A pull request as the forge lists it.
#[derive(Debug)]
pub(crate) struct ListedPull {
    pub(crate) number: u64,
    pub(crate) is_open: bool,
    /// Its newest commit.
    pub(crate) commit: String,
    /// The branch that it asks to merge.
    pub(crate) branch: String,
    /// The repository of that branch. Absent once a fork is deleted.
    pub(crate) repository: Option<HeadRepository>,
    /// The target branch.
    pub(crate) base: String,
}

/// The repository that a pull request comes from, as the forge's list names it.
#[derive(Clone, Debug)]
pub(crate) enum HeadRepository {
    Named(String),
    Numbered(u64),
}

impl HeadRepository {
    /// Compares two names: a forge keeps the case of a repository's name, and ignores it in comparisons.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(one), Self::Named(other)) => one.eq_ignore_ascii_case(other),
            (Self::Numbered(one), Self::Numbered(other)) => one == other,
            _ => false,
        }
    }
}

impl PullCriteria {
    /// Returns true if a pull request matches; `repository` is that of the head by the forge's name, if one is given.
    fn matches(&self, pull: &ListedPull, repository: Option<&HeadRepository>) -> bool {
        let is_from = |wanted: &HeadRepository| pull.repository.as_ref().is_some_and(|from| from.is_same(wanted));
        pull.is_open
            && pull.commit == self.commit.to_string()
            && self.head.as_ref().is_none_or(|head| head.branch == pull.branch)
            && repository.is_none_or(is_from)
            && self.base.as_ref().is_none_or(|base| *base == pull.base)
    }
}

impl Forge {
    /// Returns the number of the one open pull request that matches.
    ///
    /// A workflow that runs for a fork learns only commit and branch, and no number. The number comes from the forge, and not
    /// from anything that the fork's author wrote. By the commit alone, an author who pushes another author's commit to a fork
    /// leaves two candidates.
    pub fn find_pull(&self, repository: &Repository, sought: &PullCriteria) -> Result<u64, ForgeError> {
        let (about, place) = (
            self.request_context(format!("the pull request of `{}`", sought.commit), Permission::Pulls),
            self.repository_path(repository)?,
        );
        let (dialect, head) = (self.dialect(), sought.head.as_ref());
        let from = head.map(|head| self.dialect().head_repository(self, &head.repository)).transpose()?;
        // The list by commit leaves out commits of forks, so the heads of all open ones are read, in an order that cannot change
        // meanwhile.
        let mut numbers = Vec::new();
        self.search(
            &dialect.pulls(&place),
            &about,
            |page| dialect.parse_pulls(page),
            |page: Vec<ListedPull>| {
                numbers.extend(page.iter().filter(|pull| sought.matches(pull, from.as_ref())).map(|pull| pull.number));
                None::<()>
            },
        )?;
        // If one was opened between two pages, the second begins with the last entry of the first.
        numbers.dedup();
        let commit = sought.commit.to_string();
        match numbers.as_slice() {
            [number] => Ok(*number),
            [] => Err(ForgeError::NoPull { commit }),
            several => Err(ForgeError::SeveralPulls { commit, count: several.len() }),
        }
    }
}
