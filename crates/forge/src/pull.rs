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
}

impl Forge {
    /// The number of the one open pull request whose head is `commit`.
    ///
    /// Who runs a workflow for a fork learns only the commit. Nothing that its author wrote is asked: the forge itself knows.
    pub fn pull_of(&self, repository: &Repository, commit: &CommitSha) -> Result<u64, ForgeError> {
        let about = About { what: format!("the pull request of `{commit}`"), permission: "pull-requests: read" };
        // The list by commit leaves out commits of forks, so all open ones are asked for theirs.
        let path = format!("/repos/{repository}/pulls?state=open&sort=updated&direction=desc&per_page=100");
        let commit = commit.to_string();
        let mut numbers = Vec::new();
        self.search(&path, &about, |page: Vec<Listed>| {
            numbers.extend(page.iter().filter(|pull| pull.state == "open" && pull.head.sha == commit).map(|pull| pull.number));
            None::<()>
        })?;
        match numbers.as_slice() {
            [number] => Ok(*number),
            [] => Err(ForgeError::NoPull { commit }),
            several => Err(ForgeError::SeveralPulls { commit, count: several.len() }),
        }
    }
}
