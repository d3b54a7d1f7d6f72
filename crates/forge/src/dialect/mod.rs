//! Everything in which the APIs of forges differ: paths, names of fields, and how a token is sent.
//!
//! What is done with them (looking, deciding, writing) is the same for all, and is not here.

mod gitea;
mod github;
mod gitlab;

use ureq::http::HeaderValue;

use crate::author::Author;
use crate::client::{Call, Forge};
use crate::comment::Entry;
use crate::issue::{Issue, Opened};
use crate::pull::{HeadRepository, Listed};
use crate::status::Statuses;
use crate::{Api, ForgeError, Repository, Token};

pub(crate) use gitea::Gitea;
pub(crate) use github::GitHub;
pub(crate) use gitlab::GitLab;

/// What was read of a response, or what is wrong with it.
pub(crate) type Parsed<T> = serde_json::Result<T>;

/// A repository of a forge, and the path below which its API has it.
pub(crate) struct Place<'a> {
    pub(crate) api: &'a Api,
    pub(crate) repository: &'a Repository,
    pub(crate) path: String,
}

/// What comments stand below, by its number.
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

/// What a token must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// To ask whose token it is.
    Account,
    /// To comment a pull request.
    Comments,
    /// To say how a check of a commit ended.
    Checks,
    /// To open issues and to comment them.
    Issues,
    /// To list pull requests.
    Pulls,
}

/// A forge's API. Paths are whole: they begin with that of a [`Place`].
pub(crate) trait Dialect: Sync {
    /// The headers that say whose request it is, and in which version of the API.
    fn headers(&self, token: &Token) -> Result<Vec<(&'static str, HeaderValue)>, ForgeError>;

    /// The path of a repository.
    fn repository(&self, repository: &Repository) -> Result<String, ForgeError>;

    /// The name of a permission, as the forge calls it.
    fn permission(&self, right: Right) -> &'static str;

    /// What to do where a token lacks a permission.
    fn hint(&self) -> &'static str;

    /// The account of the token.
    fn author(&self, forge: &Forge) -> Result<Author, ForgeError>;

    /// A text in which the forge takes no line for a command to it.
    fn without_commands(&self, text: String) -> String {
        text
    }

    /// The path of the list of comments, from the oldest.
    fn comments(&self, place: &Place<'_>, thread: Thread) -> String;

    /// The comments of a page of that list.
    fn parse_comments(&self, place: &Place<'_>, thread: Thread, page: &[u8]) -> Parsed<Vec<Entry>>;

    /// The path that takes another comment.
    fn new_comment(&self, place: &Place<'_>, thread: Thread) -> String;

    /// The request that changes a comment, and its path.
    fn edit_comment(&self, place: &Place<'_>, thread: Thread, id: u64, body: &str) -> (Call, String);

    /// The page of a comment that was written.
    fn parse_written(&self, place: &Place<'_>, thread: Thread, response: &[u8]) -> Parsed<String>;

    /// The path of the list of open issues with our label.
    fn issues(&self, place: &Place<'_>) -> String;

    /// The issues of a page of that list.
    fn parse_issues(&self, page: &[u8]) -> Parsed<Vec<Entry>>;

    /// What is sent to open an issue with our label. Some forges name a label by a number, which is asked for.
    fn new_issue(&self, forge: &Forge, place: &Place<'_>, issue: &Issue, body: &str) -> Result<serde_json::Value, ForgeError>;

    /// The issue that was opened.
    fn parse_opened(&self, response: &[u8]) -> Parsed<Opened>;

    /// The path of the list of open pull requests, in an order that nobody can change.
    fn pulls(&self, place: &Place<'_>) -> String;

    /// The pull requests of a page of that list.
    fn parse_pulls(&self, page: &[u8]) -> Parsed<Vec<Listed>>;

    /// A repository as that list names it.
    fn head_repository(&self, forge: &Forge, repository: &Repository) -> Result<HeadRepository, ForgeError>;

    /// The statuses of commits, where the forge has these in place of checks.
    fn statuses(&self) -> Option<&dyn Statuses>;
}

/// The path of a repository that has one owner and a name.
fn owned(repository: &Repository) -> Result<String, ForgeError> {
    if repository.has_one_owner() {
        Ok(format!("/repos/{repository}"))
    } else {
        Err(ForgeError::Repository(repository.to_string()))
    }
}
