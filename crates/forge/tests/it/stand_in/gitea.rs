//! The used part of the REST API of Gitea and Forgejo.

use serde_json::{Value, json};

use super::{Identity, REPOSITORY, RecordedRequest, Reply, State, id, query, text};

/// The states of a status that the API accepts.
const STATES: [&str; 5] = ["pending", "success", "error", "failure", "warning"];

pub(super) fn reply(state: &mut State, asked: &RecordedRequest) -> Reply {
    let path = asked.path.split('?').next().unwrap_or_default();
    let below = path.strip_prefix(&format!("/api/v1/repos/{REPOSITORY}/")).unwrap_or_default();
    let parts: Vec<&str> = below.split('/').collect();
    let (body, identity) = (&asked.body, state.identity);
    match (asked.method.as_str(), parts.as_slice()) {
        ("GET", [""]) if path == "/api/v1/user" => Reply::ok(json!({ "id": 1, "login": identity.login() })),
        // All of them, independent of the requested page.
        ("GET", ["issues", number, "comments"]) => Reply::ok(json!(state.comments_of(id(number)))),
        ("POST", ["issues", number, "comments"]) => Reply::made(state.add_comment(identity, id(number), &text(&body["body"]))),
        ("PATCH", ["issues", "comments", comment]) => state.edit_comment(id(comment), body),
        ("GET", ["issues"]) => {
            let open = open_issues(state, asked);
            state.page(asked, &open, None)
        }
        ("POST", ["issues"]) => open_issue(state, body),
        ("GET", ["labels"]) => {
            let labels: Vec<Value> = (1_u64..).zip(&state.labels).map(|(id, name)| json!({ "id": id, "name": name })).collect();
            state.page(asked, &labels, None)
        }
        ("POST", ["labels"]) => add_label(state, body),
        ("GET", ["pulls"]) => {
            let pulls = state.open_pulls();
            state.page(asked, &pulls, None)
        }
        ("GET", ["statuses", sha]) => {
            let mut statuses = state.statuses_of(sha);
            if query(asked, "sort") != Some("leastindex") {
                statuses.reverse();
            }
            state.page(asked, &statuses, None)
        }
        ("POST", ["statuses", sha]) => post_status(state, sha, body),
        _ => Reply::refused(404, "The target couldn't be found."),
    }
}

/// Returns open issues with a label. A label that does not exist is no condition.
fn open_issues(state: &State, asked: &RecordedRequest) -> Vec<Value> {
    let label = query(asked, "labels").filter(|label| state.labels.iter().any(|known| known == label));
    let has_label = |issue: &Value| {
        issue["labels"].as_array().is_some_and(|labels| labels.iter().any(|one| label.is_none_or(|label| one["name"] == label)))
    };
    let is_wanted =
        |issue: &&Value| issue["state"] == "open" && issue["pull_request"].is_null() && (label.is_none() || has_label(issue));
    state.issues.iter().filter(is_wanted).cloned().collect()
}

/// Opens an issue. Labels are given by their numbers.
fn open_issue(state: &mut State, wanted: &Value) -> Reply {
    let Some(numbers) = wanted["labels"].as_array().map(|all| all.iter().map(Value::as_u64).collect::<Option<Vec<_>>>()) else {
        return Reply::refused(422, "no labels");
    };
    let Some(numbers) = numbers else {
        return Reply::refused(422, "[]: json: cannot unmarshal string into Go value of type int64");
    };
    let name = |number: &u64| usize::try_from(*number).ok()?.checked_sub(1).and_then(|at| state.labels.get(at)).cloned();
    let labels: Vec<String> = numbers.iter().filter_map(name).collect();
    let wanted = json!({ "title": wanted["title"], "body": wanted["body"], "labels": labels });
    let identity: Identity = state.identity;
    Reply::made(state.add_issue(identity, &wanted))
}

fn add_label(state: &mut State, wanted: &Value) -> Reply {
    if !text(&wanted["color"]).starts_with('#') {
        return Reply::refused(422, "bad color");
    }
    state.labels.push(text(&wanted["name"]));
    Reply::made(json!({ "id": state.labels.len(), "name": wanted["name"] }))
}

fn post_status(state: &mut State, sha: &str, wanted: &Value) -> Reply {
    if !STATES.contains(&text(&wanted["state"]).as_str()) {
        return Reply::refused(422, "unknown state");
    }
    let identity: Identity = state.identity;
    Reply::made(state.add_status(identity, sha, wanted))
}
