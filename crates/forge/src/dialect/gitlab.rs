//! GitLab's REST API, version 4: projects, merge requests, notes, and commit statuses in place of checks.

use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::HeaderValue;

use super::{Dialect, Parsed, Permission, RepositoryPath, Thread};
use crate::author::{Account, Author};
use crate::client::{Call, Forge};
use crate::comment::ForgePost;
use crate::issue::{Issue, LABEL, OpenedIssue};
use crate::pull::{HeadRepository, ListedPull};
use crate::status::{Status, Statuses};
use crate::{CommitSha, Conclusion, ForgeError, Repository, Token, text};

/// GitLab.
pub(crate) struct GitLab;

#[derive(Clone, Debug, Deserialize)]
struct User {
    username: String,
}

/// A comment of a merge request or an issue. It has no address of its own in the API.
#[derive(Debug, Deserialize)]
struct Note {
    id: u64,
    body: Option<String>,
    author: Option<User>,
}

#[derive(Debug, Deserialize)]
struct WrittenNote {
    id: u64,
}

#[derive(Debug, Deserialize)]
struct ListedIssue {
    id: u64,
    iid: u64,
    web_url: String,
    description: Option<String>,
    author: Option<User>,
}

#[derive(Debug, Deserialize)]
struct NewIssue {
    web_url: String,
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct MergeRequest {
    iid: u64,
    state: String,
    /// Absent until GitLab has processed the branch.
    sha: Option<String>,
    source_branch: String,
    /// Absent once a fork is deleted.
    source_project_id: Option<u64>,
    target_branch: String,
}

#[derive(Debug, Deserialize)]
struct Project {
    id: u64,
}

#[derive(Debug, Deserialize)]
struct ListedStatus {
    id: u64,
    name: String,
    status: String,
    description: Option<String>,
    target_url: Option<String>,
    author: Option<User>,
}

fn account(user: Option<User>) -> Option<Account> {
    user.map(|user| Account::from_login(user.username))
}

impl From<ListedIssue> for ForgePost {
    fn from(issue: ListedIssue) -> Self {
        Self {
            id: issue.id,
            number: issue.iid,
            url: issue.web_url,
            body: issue.description,
            account: account(issue.author),
            app: None,
            is_pull_request: false,
        }
    }
}

impl From<MergeRequest> for ListedPull {
    fn from(request: MergeRequest) -> Self {
        Self {
            number: request.iid,
            is_open: request.state == "opened",
            commit: request.sha.unwrap_or_default(),
            branch: request.source_branch,
            repository: request.source_project_id.map(HeadRepository::Numbered),
            base: request.target_branch,
        }
    }
}

impl From<ListedStatus> for Status {
    fn from(status: ListedStatus) -> Self {
        Self {
            id: status.id,
            name: status.name,
            state: status.status,
            description: status.description.unwrap_or_default(),
            target_url: status.target_url.unwrap_or_default(),
            account: account(status.author),
        }
    }
}

/// Returns the path of a merge request or an issue.
fn path(place: &RepositoryPath<'_>, thread: Thread) -> String {
    match thread {
        Thread::Pull(number) => format!("{}/merge_requests/{number}", place.path),
        Thread::Issue(number) => format!("{}/issues/{number}", place.path),
    }
}

/// Returns the page of a note, for people.
fn page(place: &RepositoryPath<'_>, thread: Thread, note: u64) -> String {
    let kind = match thread {
        Thread::Pull(_) => "merge_requests",
        Thread::Issue(_) => "issues",
    };
    format!("{}/{}/-/{kind}/{}#note_{note}", place.api.web(), place.repository, thread.number())
}

impl Dialect for GitLab {
    fn headers(&self, token: &Token) -> Result<Vec<(&'static str, HeaderValue)>, ForgeError> {
        Ok(vec![("private-token", token.header("")?), ("accept", HeaderValue::from_static("application/json"))])
    }

    /// Returns the path of a repository. Groups may be nested, so the whole path is one part of the address.
    fn repository(&self, repository: &Repository) -> Result<String, ForgeError> {
        Ok(format!("/projects/{}", text::encode_query(&repository.to_string())))
    }

    fn permission(&self, right: Permission) -> &'static str {
        match right {
            Permission::Account => "the scope `read_user` or `api`",
            Permission::Comments | Permission::Issues => "the scope `api` and the role Reporter",
            Permission::Checks => "the scope `api` and the role Developer",
            Permission::Pulls => "the scope `read_api`",
        }
    }

    fn hint(&self) -> &'static str {
        "make an access token of the project with that scope and role; the token of a job (`CI_JOB_TOKEN`) may write neither notes nor statuses"
    }

    fn author(&self, forge: &Forge) -> Result<Author, ForgeError> {
        let about = forge.request_context("the account of the token".to_owned(), Permission::Account);
        let response = forge.get(&forge.api().url_for("/user"), &about)?;
        Ok(Author::from_login(&forge.parse_json::<User>(&response, &about)?.username))
    }

    /// Escapes lines that begin with a slash, such as `/merge`: GitLab executes them with the rights of the author. A backslash
    /// before the slash shows the same text.
    fn without_commands(&self, text: String) -> String {
        let inert = |line: &str| {
            let command = line.trim_start();
            let indent = &line[..line.len() - command.len()];
            if command.starts_with('/') { format!("{indent}\\{command}") } else { line.to_owned() }
        };
        text.split('\n').map(inert).collect::<Vec<_>>().join("\n")
    }

    fn comments(&self, place: &RepositoryPath<'_>, thread: Thread) -> String {
        format!("{}?order_by=created_at&sort=asc&per_page=100", self.new_comment(place, thread))
    }

    fn parse_comments(&self, place: &RepositoryPath<'_>, thread: Thread, bytes: &[u8]) -> Parsed<Vec<ForgePost>> {
        let entry = |note: Note| ForgePost {
            id: note.id,
            number: 0,
            url: page(place, thread, note.id),
            body: note.body,
            account: account(note.author),
            app: None,
            is_pull_request: false,
        };
        Ok(serde_json::from_slice::<Vec<Note>>(bytes)?.into_iter().map(entry).collect())
    }

    fn new_comment(&self, place: &RepositoryPath<'_>, thread: Thread) -> String {
        format!("{}/notes", path(place, thread))
    }

    fn edit_comment(&self, place: &RepositoryPath<'_>, thread: Thread, id: u64, body: &str) -> (Call, String) {
        (Call::Put(json!({ "body": body })), format!("{}/{id}", self.new_comment(place, thread)))
    }

    fn parse_written(&self, place: &RepositoryPath<'_>, thread: Thread, response: &[u8]) -> Parsed<String> {
        serde_json::from_slice(response).map(|written: WrittenNote| page(place, thread, written.id))
    }

    fn issues(&self, place: &RepositoryPath<'_>) -> String {
        format!("{}/issues?state=opened&labels={LABEL}&order_by=created_at&sort=desc&per_page=100", place.path)
    }

    fn parse_issues(&self, page: &[u8]) -> Parsed<Vec<ForgePost>> {
        Ok(serde_json::from_slice::<Vec<ListedIssue>>(page)?.into_iter().map(ForgePost::from).collect())
    }

    fn new_issue(&self, _: &Forge, _: &RepositoryPath<'_>, issue: &Issue, body: &str) -> Result<Value, ForgeError> {
        Ok(json!({ "title": issue.title, "description": body, "labels": LABEL }))
    }

    fn parse_opened(&self, response: &[u8]) -> Parsed<OpenedIssue> {
        let new: NewIssue = serde_json::from_slice(response)?;
        Ok(OpenedIssue { url: new.web_url, is_labelled: new.labels.iter().any(|label| label == LABEL) })
    }

    fn pulls(&self, place: &RepositoryPath<'_>) -> String {
        format!("{}/merge_requests?state=opened&order_by=created_at&sort=desc&per_page=100", place.path)
    }

    fn parse_pulls(&self, page: &[u8]) -> Parsed<Vec<ListedPull>> {
        Ok(serde_json::from_slice::<Vec<MergeRequest>>(page)?.into_iter().map(ListedPull::from).collect())
    }

    /// Returns the head repository. Merge requests name the project that they come from by its number.
    fn head_repository(&self, forge: &Forge, repository: &Repository) -> Result<HeadRepository, ForgeError> {
        let about = forge.request_context(format!("the project `{repository}`"), Permission::Pulls);
        let response = forge.get(&forge.api().url_for(&self.repository(repository)?), &about)?;
        Ok(HeadRepository::Numbered(forge.parse_json::<Project>(&response, &about)?.id))
    }

    fn statuses(&self) -> Option<&dyn Statuses> {
        Some(self)
    }
}

impl Statuses for GitLab {
    fn list(&self, place: &RepositoryPath<'_>, commit: &CommitSha, name: &str) -> String {
        let name = text::encode_query(name);
        format!("{}/repository/commits/{commit}/statuses?name={name}&all=true&per_page=100", place.path)
    }

    fn parse(&self, page: &[u8]) -> Parsed<Vec<Status>> {
        Ok(serde_json::from_slice::<Vec<ListedStatus>>(page)?.into_iter().map(Status::from).collect())
    }

    fn name_field(&self) -> &'static str {
        "name"
    }

    /// Returns the state. A check without a statement is `skipped`: `success` would show as a green tick.
    fn state(&self, conclusion: Conclusion) -> &'static str {
        match conclusion {
            Conclusion::Success => "success",
            Conclusion::Failure | Conclusion::ActionRequired | Conclusion::TimedOut => "failed",
            Conclusion::Neutral | Conclusion::Skipped => "skipped",
            Conclusion::Cancelled => "canceled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_text_is_a_command() {
        let inert = |text: &str| GitLab.without_commands(text.to_owned());
        assert_eq!(inert("a\n/merge\n  /close now\nb / c\n"), "a\n\\/merge\n  \\/close now\nb / c\n");
        for plain in ["", "\n", "a", "a/b\r\n", "`/merge`"] {
            assert_eq!(inert(plain), plain);
        }
        let once = inert("/merge");
        assert_eq!(inert(&once), once);
    }
}
