//! GitHub's REST API.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use ureq::http::HeaderValue;

use super::{Dialect, Parsed, Permission, RepositoryPath, Thread, owner_and_name_path};
use crate::author::{Account, App, Author};
use crate::client::{Call, Forge};
use crate::comment::ForgePost;
use crate::issue::{Issue, LABEL, OpenedIssue};
use crate::pull::{HeadRepository, ListedPull};
use crate::status::Statuses;
use crate::{ForgeError, Repository, Token};

/// GitHub, and GitHub Enterprise Server.
pub(crate) struct GitHub;

/// A comment, or an issue with its head.
#[derive(Debug, Deserialize)]
pub(super) struct Post {
    id: u64,
    /// An issue's number, or 0 for a comment.
    #[serde(default)]
    number: u64,
    html_url: String,
    body: Option<String>,
    user: Option<Account>,
    performed_via_github_app: Option<App>,
    /// Set for a pull request: a forge lists them among the issues.
    pull_request: Option<IgnoredAny>,
    /// Gitea's: the author on the forge that it was moved from; its own account is the one that moved it.
    #[serde(default)]
    original_author: String,
}

/// The page of a written comment or issue.
#[derive(Debug, Deserialize)]
struct WrittenPost {
    html_url: String,
}

#[derive(Debug, Deserialize)]
struct NewIssue {
    html_url: String,
    #[serde(default)]
    labels: Vec<Label>,
}

#[derive(Debug, Deserialize)]
struct Label {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Pull {
    number: u64,
    state: String,
    head: PullBranch,
    base: PullBranch,
}

/// One of the two branches of a pull request.
#[derive(Debug, Deserialize)]
struct PullBranch {
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

impl From<Post> for ForgePost {
    fn from(post: Post) -> Self {
        let is_moved = !post.original_author.is_empty();
        Self {
            id: post.id,
            number: post.number,
            url: post.html_url,
            body: post.body,
            account: post.user.filter(|_| !is_moved),
            app: post.performed_via_github_app,
            is_pull_request: post.pull_request.is_some(),
        }
    }
}

impl From<Pull> for ListedPull {
    fn from(pull: Pull) -> Self {
        Self {
            number: pull.number,
            is_open: pull.state == "open",
            commit: pull.head.sha,
            branch: pull.head.branch,
            repository: pull.head.repo.map(|repo| HeadRepository::Named(repo.full_name)),
            base: pull.base.branch,
        }
    }
}

/// Parses the posts of a page.
pub(super) fn parse_posts(page: &[u8]) -> Parsed<Vec<ForgePost>> {
    Ok(serde_json::from_slice::<Vec<Post>>(page)?.into_iter().map(ForgePost::from).collect())
}

impl Dialect for GitHub {
    fn headers(&self, token: &Token) -> Result<Vec<(&'static str, HeaderValue)>, ForgeError> {
        Ok(vec![
            ("authorization", token.header("Bearer ")?),
            ("accept", HeaderValue::from_static("application/vnd.github+json")),
            ("x-github-api-version", HeaderValue::from_static("2022-11-28")),
        ])
    }

    fn repository(&self, repository: &Repository) -> Result<String, ForgeError> {
        owner_and_name_path(repository)
    }

    fn permission(&self, right: Permission) -> &'static str {
        match right {
            Permission::Account => "read:user",
            Permission::Comments => "pull-requests: write",
            Permission::Checks => "checks: write",
            Permission::Issues => "issues: write",
            Permission::Pulls => "pull-requests: read",
        }
    }

    fn hint(&self) -> &'static str {
        "in GitHub Actions, name it under `permissions:` of the job; a pull request from a fork has a token that only reads"
    }

    /// Returns the account of the token. A person's token may request it. The token of an app may not, and uses GraphQL; if that
    /// is refused as well, or missing, the token is taken for a workflow's.
    fn author(&self, forge: &Forge) -> Result<Author, ForgeError> {
        let about = forge.request_context("the account of the token".to_owned(), Permission::Account);
        match forge.get(&forge.api().url_for("/user"), &about) {
            Ok(response) => return Ok(Author::from_login(&forge.parse_json::<Account>(&response, &about)?.login)),
            Err(error) if error.is_refusal() => {}
            Err(error) => return Err(error),
        }
        let viewer = Call::Query(json!({ "query": "{ viewer { login } }" }));
        match forge.call(viewer, forge.api().graphql(), &about) {
            Ok(response) => Ok(viewer_of(response.body()).map_or_else(Author::for_workflow, |login| Author::from_login(&login))),
            Err(error) if error.is_refusal() => Ok(Author::for_workflow()),
            Err(error) => Err(error),
        }
    }

    fn comments(&self, place: &RepositoryPath<'_>, thread: Thread) -> String {
        format!("{}?per_page=100", self.new_comment(place, thread))
    }

    fn parse_comments(&self, _: &RepositoryPath<'_>, _: Thread, page: &[u8]) -> Parsed<Vec<ForgePost>> {
        parse_posts(page)
    }

    fn new_comment(&self, place: &RepositoryPath<'_>, thread: Thread) -> String {
        format!("{}/issues/{}/comments", place.path, thread.number())
    }

    fn edit_comment(&self, place: &RepositoryPath<'_>, _: Thread, id: u64, body: &str) -> (Call, String) {
        (Call::Patch(json!({ "body": body })), format!("{}/issues/comments/{id}", place.path))
    }

    fn parse_written(&self, _: &RepositoryPath<'_>, _: Thread, response: &[u8]) -> Parsed<String> {
        serde_json::from_slice(response).map(|written: WrittenPost| written.html_url)
    }

    fn issues(&self, place: &RepositoryPath<'_>) -> String {
        format!("{}/issues?state=open&labels={LABEL}&per_page=100", place.path)
    }

    fn parse_issues(&self, page: &[u8]) -> Parsed<Vec<ForgePost>> {
        parse_posts(page)
    }

    fn new_issue(&self, _: &Forge, _: &RepositoryPath<'_>, issue: &Issue, body: &str) -> Result<Value, ForgeError> {
        Ok(json!({ "title": issue.title, "body": body, "labels": [LABEL] }))
    }

    fn parse_opened(&self, response: &[u8]) -> Parsed<OpenedIssue> {
        let new: NewIssue = serde_json::from_slice(response)?;
        Ok(OpenedIssue { url: new.html_url, is_labelled: new.labels.iter().any(|label| label.name == LABEL) })
    }

    fn pulls(&self, place: &RepositoryPath<'_>) -> String {
        format!("{}/pulls?state=open&sort=created&direction=desc&per_page=100", place.path)
    }

    fn parse_pulls(&self, page: &[u8]) -> Parsed<Vec<ListedPull>> {
        Ok(serde_json::from_slice::<Vec<Pull>>(page)?.into_iter().map(ListedPull::from).collect())
    }

    fn head_repository(&self, _: &Forge, repository: &Repository) -> Result<HeadRepository, ForgeError> {
        Ok(HeadRepository::Named(repository.to_string()))
    }

    fn statuses(&self) -> Option<&dyn Statuses> {
        None
    }
}

fn viewer_of(body: &[u8]) -> Option<String> {
    let response: Value = serde_json::from_slice(body).ok()?;
    response.pointer("/data/viewer/login")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_viewer_is_who_the_token_is() {
        assert_eq!(viewer_of(br#"{"data": {"viewer": {"login": "my-app[bot]"}}}"#).as_deref(), Some("my-app[bot]"));
        assert_eq!(viewer_of(br#"{"data": null, "errors": []}"#), None);
        assert_eq!(viewer_of(b"<html>"), None);
    }
}
