//! The differences between the APIs of forges: paths, names of fields, and the header of the token.
//!
//! Their use (reading, deciding, writing) is the same for all, and is not here.

mod gitea;
mod github;
mod gitlab;

use ureq::http::HeaderValue;

use crate::author::Author;
use crate::client::{Call, Forge};
use crate::comment::ForgePost;
use crate::issue::{Issue, OpenedIssue};
use crate::pull::{HeadRepository, ListedPull};
use crate::status::Statuses;
use crate::{Api, ForgeError, Repository, Token};

pub(crate) use gitea::Gitea;
pub(crate) use github::GitHub;
pub(crate) use gitlab::GitLab;

/// The content of a parsed response, or its problem.
pub(crate) type Parsed<T> = serde_json::Result<T>;

/// A repository of a forge, and its path in the API.
pub(crate) struct RepositoryPath<'a> {
    pub(crate) api: &'a Api,
    pub(crate) repository: &'a Repository,
    pub(crate) path: String,
}

/// The thing below which comments stand, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thread {
    Pull(u64),
    Issue(u64),
}

impl Thread {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Pull(number) | Self::Issue(number) => number,
        }
    }
}

/// A right that a token must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// To read the token's account.
    Account,
    /// To comment a pull request.
    Comments,
    /// To report the result of a check of a commit.
    Checks,
    /// To open issues and to comment them.
    Issues,
    /// To list pull requests.
    Pulls,
}

/// A forge's API. Paths are whole: they begin with that of a [`RepositoryPath`].
pub(crate) trait Dialect: Sync {
    /// Returns the headers that authenticate a request, and select the version of the API.
    fn headers(&self, token: &Token) -> Result<Vec<(&'static str, HeaderValue)>, ForgeError>;

    /// Returns the path of a repository.
    fn repository(&self, repository: &Repository) -> Result<String, ForgeError>;

    /// Returns the forge's name of a permission.
    fn permission(&self, right: Permission) -> &'static str;

    /// Returns the advice if a token lacks a permission.
    fn hint(&self) -> &'static str;

    /// Returns the account of the token.
    fn author(&self, forge: &Forge) -> Result<Author, ForgeError>;

    /// Returns a text of which the forge takes no line for a command.
    fn without_commands(&self, text: String) -> String {
        text
    }

    /// Returns the path of the list of comments, from the oldest.
    fn comments(&self, place: &RepositoryPath<'_>, thread: Thread) -> String;

    /// Parses the comments of a page of that list.
    fn parse_comments(&self, place: &RepositoryPath<'_>, thread: Thread, page: &[u8]) -> Parsed<Vec<ForgePost>>;

    /// Returns the path for creating a comment.
    fn new_comment(&self, place: &RepositoryPath<'_>, thread: Thread) -> String;

    /// Returns the request that changes a comment, and its path.
    fn edit_comment(&self, place: &RepositoryPath<'_>, thread: Thread, id: u64, body: &str) -> (Call, String);

    /// Parses the page of a written comment.
    fn parse_written(&self, place: &RepositoryPath<'_>, thread: Thread, response: &[u8]) -> Parsed<String>;

    /// Returns the path of the list of open issues with the label.
    fn issues(&self, place: &RepositoryPath<'_>) -> String;

    /// Parses the issues of a page of that list.
    fn parse_issues(&self, page: &[u8]) -> Parsed<Vec<ForgePost>>;

    /// Returns the request body to open an issue with the label. Some forges name a label by a number, which is requested first.
    fn new_issue(
        &self,
        forge: &Forge,
        place: &RepositoryPath<'_>,
        issue: &Issue,
        body: &str,
    ) -> Result<serde_json::Value, ForgeError>;

    /// Parses the issue that was opened.
    fn parse_opened(&self, response: &[u8]) -> Parsed<OpenedIssue>;

    /// Returns the path of the list of open pull requests, in an order that cannot change.
    fn pulls(&self, place: &RepositoryPath<'_>) -> String;

    /// Parses the pull requests of a page of that list.
    fn parse_pulls(&self, page: &[u8]) -> Parsed<Vec<ListedPull>>;

    /// Returns a repository as that list names it.
    fn head_repository(&self, forge: &Forge, repository: &Repository) -> Result<HeadRepository, ForgeError>;

    /// Returns the API of commit statuses, if the forge has these in place of checks.
    fn statuses(&self) -> Option<&dyn Statuses>;
}

/// Returns the path of a repository that has one owner and a name.
fn owner_and_name_path(repository: &Repository) -> Result<String, ForgeError> {
    if repository.has_one_owner() {
        Ok(format!("/repos/{repository}"))
    } else {
        Err(ForgeError::Repository(repository.to_string()))
    }
}
