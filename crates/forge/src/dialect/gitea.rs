//! The REST API of Gitea and Forgejo: GitHub's for comments, issues and pull requests, with commit statuses in place of checks.

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::HeaderValue;

use super::{Dialect, GitHub, Parsed, Permission, RepositoryPath, Thread, owner_and_name_path};
use crate::author::{Account, Author};
use crate::client::{Call, Forge};
use crate::comment::ForgePost;
use crate::issue::{Issue, LABEL, OpenedIssue};
use crate::pull::{HeadRepository, ListedPull};
use crate::status::{Status, Statuses};
use crate::{CommitSha, Conclusion, ForgeError, Repository, Token};

/// Gitea, and Forgejo.
pub(crate) struct Gitea;

/// The color of the label, if it is created.
const LABEL_COLOR: &str = "#6f42c1";

#[derive(Debug, Deserialize)]
struct Label {
    id: u64,
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct ListedStatus {
    id: u64,
    context: String,
    status: String,
    description: Option<String>,
    target_url: Option<String>,
    creator: Option<Account>,
}

impl From<ListedStatus> for Status {
    fn from(status: ListedStatus) -> Self {
        Self {
            id: status.id,
            name: status.context,
            state: status.status,
            description: status.description.unwrap_or_default(),
            target_url: status.target_url.unwrap_or_default(),
            account: status.creator,
        }
    }
}

impl Dialect for Gitea {
    fn headers(&self, token: &Token) -> Result<Vec<(&'static str, HeaderValue)>, ForgeError> {
        Ok(vec![("authorization", token.header("token ")?), ("accept", HeaderValue::from_static("application/json"))])
    }

    fn repository(&self, repository: &Repository) -> Result<String, ForgeError> {
        owner_and_name_path(repository)
    }

    fn permission(&self, right: Permission) -> &'static str {
        match right {
            Permission::Account => "read:user",
            Permission::Comments | Permission::Issues => "write:issue",
            Permission::Checks => "write:repository",
            Permission::Pulls => "read:repository",
        }
    }

    fn hint(&self) -> &'static str {
        "make a token with that scope, of an account that may write to the repository; in a workflow the token of a pull request from a fork only reads"
    }

    fn author(&self, forge: &Forge) -> Result<Author, ForgeError> {
        let about = forge.request_context("the account of the token".to_owned(), Permission::Account);
        let response = forge.get(&forge.api().url_for("/user"), &about)?;
        Ok(Author::from_login(&forge.parse_json::<Account>(&response, &about)?.login))
    }

    /// Returns the path of the comments, a list of one page.
    fn comments(&self, place: &RepositoryPath<'_>, thread: Thread) -> String {
        self.new_comment(place, thread)
    }

    fn parse_comments(&self, place: &RepositoryPath<'_>, thread: Thread, page: &[u8]) -> Parsed<Vec<ForgePost>> {
        GitHub.parse_comments(place, thread, page)
    }

    fn new_comment(&self, place: &RepositoryPath<'_>, thread: Thread) -> String {
        GitHub.new_comment(place, thread)
    }

    fn edit_comment(&self, place: &RepositoryPath<'_>, thread: Thread, id: u64, body: &str) -> (Call, String) {
        GitHub.edit_comment(place, thread, id, body)
    }

    fn parse_written(&self, place: &RepositoryPath<'_>, thread: Thread, response: &[u8]) -> Parsed<String> {
        GitHub.parse_written(place, thread, response)
    }

    fn issues(&self, place: &RepositoryPath<'_>) -> String {
        format!("{}/issues?state=open&type=issues&labels={LABEL}&limit=50", place.path)
    }

    fn parse_issues(&self, page: &[u8]) -> Parsed<Vec<ForgePost>> {
        GitHub.parse_issues(page)
    }

    fn new_issue(&self, forge: &Forge, place: &RepositoryPath<'_>, issue: &Issue, body: &str) -> Result<Value, ForgeError> {
        Ok(json!({ "title": issue.title, "body": body, "labels": [label(forge, place)?] }))
    }

    fn parse_opened(&self, response: &[u8]) -> Parsed<OpenedIssue> {
        GitHub.parse_opened(response)
    }

    /// Returns the path of the pull requests, in the order of their opening, which is the order without `sort`.
    fn pulls(&self, place: &RepositoryPath<'_>) -> String {
        format!("{}/pulls?state=open&limit=50", place.path)
    }

    fn parse_pulls(&self, page: &[u8]) -> Parsed<Vec<ListedPull>> {
        GitHub.parse_pulls(page)
    }

    fn head_repository(&self, _: &Forge, repository: &Repository) -> Result<HeadRepository, ForgeError> {
        Ok(HeadRepository::Named(repository.to_string()))
    }

    fn statuses(&self) -> Option<&dyn Statuses> {
        Some(self)
    }
}

impl Statuses for Gitea {
    fn list(&self, place: &RepositoryPath<'_>, commit: &CommitSha, _: &str) -> String {
        format!("{}/statuses/{commit}?sort=leastindex&limit=50", place.path)
    }

    fn parse(&self, page: &[u8]) -> Parsed<Vec<Status>> {
        Ok(serde_json::from_slice::<Vec<ListedStatus>>(page)?.into_iter().map(Status::from).collect())
    }

    fn name_field(&self) -> &'static str {
        "context"
    }

    fn state(&self, conclusion: Conclusion) -> &'static str {
        match conclusion {
            Conclusion::Success => "success",
            Conclusion::Failure | Conclusion::ActionRequired => "failure",
            Conclusion::Neutral | Conclusion::Skipped => "warning",
            Conclusion::Cancelled | Conclusion::TimedOut => "error",
        }
    }
}

/// Returns the number of the label, which is created if the repository has none of that name.
fn label(forge: &Forge, place: &RepositoryPath<'_>) -> Result<u64, ForgeError> {
    let about = forge.request_context(format!("the list of labels of `{}`", place.repository), Permission::Issues);
    let path = format!("{}/labels", place.path);
    let ours = |labels: Vec<Label>| labels.into_iter().find(|label| label.name == LABEL);
    let found = forge.search(&format!("{path}?limit=50"), &about, |page| serde_json::from_slice(page), ours)?;
    if let Some(label) = found {
        return Ok(label.id);
    }
    let wanted = Call::Post(json!({ "name": LABEL, "color": LABEL_COLOR }));
    let made = forge.write(wanted, &path, &about)?;
    Ok(forge.parse_json::<Label>(&made, &about)?.id)
}
