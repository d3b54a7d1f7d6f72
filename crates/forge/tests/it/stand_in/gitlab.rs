//! The used part of GitLab's REST API.

use serde_json::{Value, json};

use super::{Identity, REPOSITORY, RecordedRequest, Reply, State, id, query, text};

/// The states of a status that the API accepts.
const STATES: [&str; 6] = ["pending", "running", "success", "failed", "canceled", "skipped"];

/// The longest line of a status, in characters.
const MAX_DESCRIPTION: usize = 255;

pub(super) fn reply(state: &mut State, asked: &RecordedRequest) -> Reply {
    let path = asked.path.split('?').next().unwrap_or_default();
    let Some(path) = path.strip_prefix("/api/v4/") else { return Reply::refused(404, "404 Not Found") };
    let project = format!("projects/{}", REPOSITORY.replace('/', "%2F"));
    let (body, identity) = (&asked.body, state.identity);
    if (asked.method.as_str(), path) == ("GET", "user") {
        return Reply::ok(json!({ "id": 1, "username": identity.login() }));
    }
    let Some(below) = path.strip_prefix(&project) else { return other_project(asked, path) };
    let parts: Vec<&str> = below.split('/').skip(1).collect();
    match (asked.method.as_str(), parts.as_slice()) {
        ("GET", ["merge_requests" | "issues", number, "notes"]) => {
            let notes = ordered(asked, state.comments_of(id(number)));
            state.page(asked, &notes, None)
        }
        ("POST", ["merge_requests" | "issues", number, "notes"]) => {
            let body = text(&body["body"]);
            // The command is executed, and so its line is not kept.
            let kept: Vec<&str> = body.split('\n').filter(|line| !line.trim_start().starts_with('/')).collect();
            Reply::made(state.add_comment(identity, id(number), &kept.join("\n")))
        }
        ("PUT", ["merge_requests" | "issues", _, "notes", note]) => state.edit_comment(id(note), body),
        ("GET", ["merge_requests"]) => {
            let requests: Vec<Value> = state.issues.iter().filter(|issue| issue["head"].is_object()).map(request).collect();
            state.page(asked, &opened(asked, requests), None)
        }
        ("GET", ["issues"]) => {
            let issues = state.issues.iter().filter(|issue| issue["pull_request"].is_null()).map(issue);
            let label = query(asked, "labels").unwrap_or_default();
            let has_label = |issue: &Value| issue["labels"].as_array().is_some_and(|labels| labels.contains(&json!(label)));
            let issues = issues.filter(has_label).collect();
            state.page(asked, &opened(asked, issues), None)
        }
        ("POST", ["issues"]) => {
            // Labels come in one text, and a missing one is created.
            let labels: Vec<&str> = body["labels"].as_str().into_iter().flat_map(|all| all.split(',')).collect();
            let wanted = json!({ "title": body["title"], "body": body["description"], "labels": labels });
            Reply::made(issue(&state.add_issue(identity, &wanted)))
        }
        ("GET", ["repository", "commits", sha, "statuses"]) => {
            let named = query(asked, "name").unwrap_or_default().replace("%20", " ").replace("%2F", "/").replace("%3A", ":");
            let mut found: Vec<Value> = state.statuses_of(sha).into_iter().filter(|one| one["name"] == named.as_str()).collect();
            if query(asked, "all") != Some("true") {
                found.drain(..found.len().saturating_sub(1));
            }
            state.page(asked, &found, None)
        }
        ("POST", ["statuses", sha]) => post_status(state, sha, body),
        _ => Reply::refused(404, "404 Not Found"),
    }
}

/// Returns the number of a project, such as one that a merge request comes from.
fn project_id(path: &str) -> u64 {
    path.to_ascii_lowercase().bytes().map(u64::from).sum()
}

fn other_project(asked: &RecordedRequest, path: &str) -> Reply {
    match path.strip_prefix("projects/").map(|path| path.replace("%2F", "/")) {
        Some(project) if asked.method == "GET" && project.split('/').count() == 2 => {
            Reply::ok(json!({ "id": project_id(&project) }))
        }
        _ => Reply::refused(404, "404 Project Not Found"),
    }
}

/// Sorts from the newest, unless the request says otherwise.
fn ordered(asked: &RecordedRequest, mut all: Vec<Value>) -> Vec<Value> {
    if query(asked, "sort") != Some("asc") {
        all.reverse();
    }
    all
}

fn opened(asked: &RecordedRequest, all: Vec<Value>) -> Vec<Value> {
    let wanted = query(asked, "state").unwrap_or_default();
    ordered(asked, all.into_iter().filter(|one| wanted.is_empty() || one["state"] == wanted).collect())
}

fn state_of(issue: &Value) -> &'static str {
    if issue["state"] == "open" { "opened" } else { "closed" }
}

fn issue(issue: &Value) -> Value {
    let labels: Vec<&Value> = issue["labels"].as_array().into_iter().flatten().map(|label| &label["name"]).collect();
    json!({
        "id": issue["id"], "iid": issue["number"], "web_url": issue["html_url"], "state": state_of(issue), "title": issue["title"],
        "description": issue["body"], "labels": labels, "author": { "username": issue["user"]["login"] },
    })
}

fn request(pull: &Value) -> Value {
    let repository = pull["head"]["repo"]["full_name"].as_str().map(project_id);
    json!({
        "id": pull["id"], "iid": pull["number"], "state": state_of(pull), "sha": pull["head"]["sha"],
        "source_branch": pull["head"]["ref"], "source_project_id": repository, "target_branch": pull["base"]["ref"],
    })
}

/// Adds a status. One that ended is never changed: the next one of its name replaces it.
fn post_status(state: &mut State, sha: &str, wanted: &Value) -> Reply {
    if !STATES.contains(&text(&wanted["state"]).as_str()) {
        return Reply(400, json!({ "error": "state does not have a valid value" }), Vec::new());
    }
    if text(&wanted["description"]).chars().count() > MAX_DESCRIPTION {
        return Reply(400, json!({ "message": { "description": ["is too long (maximum is 255 characters)"] } }), Vec::new());
    }
    let identity: Identity = state.identity;
    Reply::made(state.add_status(identity, sha, wanted))
}
