//! A stand-in of a forge: the REST API of GitHub, GitLab or Gitea over real connections of this machine, for one repository, kept in memory.
//!
//! It behaves like the real one, records every request, and fails if it is configured to. It needs nothing but the standard
//! library and serde_json, so that other tests can include this file by its path.
#![allow(dead_code, reason = "each test binary that includes this file uses another part of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use serde_json::{Map, Value, json};

#[path = "stand_in/gitea.rs"]
mod gitea;
#[path = "stand_in/gitlab.rs"]
mod gitlab;

/// The only repository.
pub(crate) const REPOSITORY: &str = "example/project";

/// The API that it implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    GitHub,
    GitLab,
    Gitea,
}

impl Flavor {
    /// Returns the path of its API, on its server.
    fn path(self) -> &'static str {
        match self {
            Self::GitHub => "",
            Self::GitLab => "/api/v4",
            Self::Gitea => "/api/v1",
        }
    }

    /// Returns the header that carries this token.
    fn authorization(self, token: &str) -> (&'static str, String) {
        match self {
            Self::GitHub => ("authorization", format!("Bearer {token}")),
            Self::GitLab => ("private-token", token.to_owned()),
            Self::Gitea => ("authorization", format!("token {token}")),
        }
    }
}

/// The account of the token, and the forge's response about it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Identity {
    /// A person's token: `GET /user` returns the login.
    User(&'static str),
    /// An app's token, by the app's slug: only GraphQL returns the login.
    App(&'static str),
    /// A token whose account is not returned, and which writes as `github-actions[bot]`.
    Workflow,
}

impl Identity {
    fn login(self) -> String {
        match self {
            Self::User(login) => login.to_owned(),
            Self::App(slug) => format!("{slug}[bot]"),
            Self::Workflow => "github-actions[bot]".to_owned(),
        }
    }

    fn slug(self) -> Option<&'static str> {
        match self {
            Self::User(_) => None,
            Self::App(slug) => Some(slug),
            Self::Workflow => Some("github-actions"),
        }
    }
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl RecordedRequest {
    /// Returns the value of a header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if it requests a change. A GraphQL query does not.
    pub(crate) fn is_write(&self) -> bool {
        self.method != "GET" && self.path != "/graphql"
    }
}

/// The failure of a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is not executed, and gets a response with a status, more lines of the head, and a body.
    Status(u16, Vec<String>, String),
    /// It is executed, and the connection is closed without a response.
    Lost,
    /// It is executed, and the connection is closed in the middle of the response.
    Half,
    /// It is not executed, and these bytes are sent.
    Raw(Vec<u8>),
    /// It is not executed, and an endless response is sent.
    Endless,
}

impl Fault {
    /// A status with a message in GitHub's format.
    pub(crate) fn status(status: u16, message: &str) -> Self {
        Self::Status(status, Vec::new(), json!({ "message": message }).to_string())
    }

    /// A status with one more line of the head.
    pub(crate) fn with_line(status: u16, line: &str) -> Self {
        Self::Status(status, vec![line.to_owned()], json!({ "message": "no" }).to_string())
    }
}

struct PlannedFault {
    method: &'static str,
    part: &'static str,
    fault: Fault,
    times: usize,
}

/// The data of the forge.
struct State {
    flavor: Flavor,
    url: String,
    identity: Identity,
    /// The only token that is accepted; any if `None`.
    token: Option<String>,
    per_page: usize,
    keeps_labels: bool,
    next_id: u64,
    /// Comments of all issues and pull requests, each with the number of its issue.
    comments: Vec<(u64, Value)>,
    issues: Vec<Value>,
    checks: Vec<Value>,
    /// Annotations, each with the id of its check.
    annotations: Vec<(u64, Value)>,
    /// Statuses of commits, each with its commit.
    statuses: Vec<(String, Value)>,
    /// Names of labels, each with the number that is its place.
    labels: Vec<String>,
    asked: Vec<RecordedRequest>,
    planned: Vec<PlannedFault>,
}

/// A forge that runs until it is dropped.
pub(crate) struct StandIn {
    flavor: Flavor,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Starts an empty forge with GitHub's API, whose token is of `identity`.
    pub(crate) fn start(identity: Identity) -> Self {
        Self::start_as(Flavor::GitHub, identity)
    }

    /// Starts an empty forge with an API, whose token is of `identity`.
    pub(crate) fn start_as(flavor: Flavor, identity: Identity) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State::new(flavor, format!("http://{address}"), identity)));
        let over = Arc::new(AtomicBool::new(false));
        let (held, stop) = (Arc::clone(&state), Arc::clone(&over));
        // One request after the other: each has a connection of its own and is sent at once.
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                // The client closes the connection once it has read enough.
                let _ = respond(stream, &held);
            }
        });
        Self { flavor, address, state, over, thread: Some(thread) }
    }

    /// Returns the API that it implements.
    pub(crate) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Returns the base address of its API.
    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, self.flavor.path())
    }

    /// Returns the base address of its pages for people.
    pub(crate) fn web(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Accepts this token alone.
    pub(crate) fn accept_only(&self, token: &str) {
        self.state().token = Some(token.to_owned());
    }

    /// Returns at most this many entries in one page, independent of the request.
    pub(crate) fn paginate(&self, per_page: usize) {
        self.state().per_page = per_page;
    }

    /// Drops labels, as GitHub does if a token may not set them.
    pub(crate) fn drop_labels(&self) {
        self.state().keeps_labels = false;
    }

    /// Fails the next `times` requests with this method whose path contains `part`.
    pub(crate) fn fail(&self, times: usize, method: &'static str, part: &'static str, fault: Fault) {
        self.state().planned.push(PlannedFault { method, part, fault, times });
    }

    /// Adds a comment by an account.
    pub(crate) fn comment_by(&self, identity: Identity, number: u64, body: &str) {
        self.state().add_comment(identity, number, body);
    }

    /// Opens an issue by an account, with the label `assay`.
    pub(crate) fn issue_by(&self, identity: Identity, title: &str, body: &str) -> u64 {
        let wanted = json!({ "title": title, "body": body, "labels": ["assay"] });
        self.state().add_issue(identity, &wanted)["number"].as_u64().expect("a number")
    }

    /// Opens a pull request by an account, with the label `assay`, which the forge lists among the issues.
    pub(crate) fn pull_by(&self, identity: Identity, body: &str) -> u64 {
        let number = self.issue_by(identity, "a pull request", body);
        for issue in self.state().issues.iter_mut().filter(|issue| issue["number"] == number) {
            issue["pull_request"] = json!({});
        }
        number
    }

    /// Adds a status of a commit by an account.
    pub(crate) fn status_by(&self, identity: Identity, commit: &str, wanted: &Value) {
        self.state().add_status(identity, commit, wanted);
    }

    /// Returns all statuses, from the oldest.
    pub(crate) fn statuses(&self) -> Vec<Value> {
        self.state().statuses.iter().map(|(_, status)| status.clone()).collect()
    }

    /// Adds a comment that came with the repository from another forge: in the name of the account that moved it, with another
    /// author.
    pub(crate) fn moved_comment(&self, identity: Identity, number: u64, body: &str) {
        let mut state = self.state();
        state.add_comment(identity, number, body);
        if let Some((_, comment)) = state.comments.last_mut() {
            comment["original_author"] = json!("somebody-else");
        }
    }

    /// Opens a pull request by an account, from the branch `change` of its fork, whose head is this commit.
    pub(crate) fn pull_at(&self, identity: Identity, commit: &str) -> u64 {
        let number = self.pull_by(identity, "a change");
        for issue in self.state().issues.iter_mut().filter(|issue| issue["number"] == number) {
            issue["base"] = json!({ "sha": "0".repeat(40), "ref": "main", "repo": { "full_name": REPOSITORY } });
            issue["head"] = json!({
                "sha": commit, "ref": "change", "repo": { "full_name": format!("{}/project", identity.login()) }
            });
        }
        number
    }

    /// Deletes the fork of a pull request.
    pub(crate) fn delete_fork(&self, number: u64) {
        for issue in self.state().issues.iter_mut().filter(|issue| issue["number"] == number) {
            issue["head"]["repo"] = Value::Null;
        }
    }

    /// Closes an issue.
    pub(crate) fn close(&self, number: u64) {
        for issue in self.state().issues.iter_mut().filter(|issue| issue["number"] == number) {
            issue["state"] = json!("closed");
        }
    }

    /// Adds a check by an account.
    pub(crate) fn check_by(&self, identity: Identity, wanted: &Value) {
        self.state().add_check(identity, wanted);
    }

    /// Returns authors and texts of the comments of an issue or a pull request, from the oldest.
    pub(crate) fn comments(&self, number: u64) -> Vec<(String, String)> {
        let of_it = |(of, comment): &(u64, Value)| (*of == number).then(|| (author_of(comment), text(&comment["body"])));
        self.state().comments.iter().filter_map(of_it).collect()
    }

    /// Returns all issues, from the oldest.
    pub(crate) fn issues(&self) -> Vec<Value> {
        self.state().issues.clone()
    }

    /// Returns all checks, from the oldest.
    pub(crate) fn checks(&self) -> Vec<Value> {
        self.state().checks.clone()
    }

    /// Returns all annotations, each with the id of its check.
    pub(crate) fn annotations(&self) -> Vec<(u64, Value)> {
        self.state().annotations.clone()
    }

    /// Returns every request so far.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.state().asked.clone()
    }

    /// Returns the method and the path of every request so far that requested a change.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.requests().iter().filter(|asked| asked.is_write()).map(|asked| format!("{} {}", asked.method, asked.path)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic in the forge")
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // The thread waits for a connection: this is the last one.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A status, a body, and more lines of the head.
struct Reply(u16, Value, Vec<String>);

impl Reply {
    fn ok(body: Value) -> Self {
        Self(200, body, Vec::new())
    }

    fn made(body: Value) -> Self {
        Self(201, body, Vec::new())
    }

    fn refused(status: u16, message: &str) -> Self {
        Self(status, json!({ "message": message }), Vec::new())
    }

    fn bytes(&self) -> Vec<u8> {
        head_and_body(self.0, &self.2, &self.1.to_string())
    }
}

fn head_and_body(status: u16, lines: &[String], body: &str) -> Vec<u8> {
    let mut text = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    for line in lines {
        text.extend([line, "\r\n"]);
    }
    [text.as_bytes(), b"\r\n", body.as_bytes()].concat()
}

fn respond(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let Some(asked) = read(&stream) else { return Ok(()) };
    let (fault, reply) = {
        let mut state = state.lock().expect("no panic in the forge");
        state.asked.push(asked.clone());
        let fault = state.next_fault(&asked);
        let is_done = matches!(fault, None | Some(Fault::Lost | Fault::Half));
        (fault, if is_done { state.reply(&asked).bytes() } else { Vec::new() })
    };
    match fault {
        None => stream.write_all(&reply),
        Some(Fault::Lost) => Ok(()),
        Some(Fault::Half) => stream.write_all(&reply[..reply.len() - 2]),
        Some(Fault::Status(status, lines, body)) => stream.write_all(&head_and_body(status, &lines, &body)),
        Some(Fault::Raw(bytes)) => stream.write_all(&bytes),
        Some(Fault::Endless) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&b" ".repeat(1 << 16))?;
            }
        }
    }
}

fn read(stream: &TcpStream) -> Option<RecordedRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().map(|_| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    while let Some((name, value)) = line()?.split_once(": ") {
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(RecordedRequest { method, path, headers, body })
}

impl State {
    fn new(flavor: Flavor, url: String, identity: Identity) -> Self {
        Self {
            flavor,
            url,
            identity,
            token: None,
            per_page: 100,
            keeps_labels: true,
            next_id: 1,
            comments: Vec::new(),
            issues: Vec::new(),
            checks: Vec::new(),
            annotations: Vec::new(),
            statuses: Vec::new(),
            labels: Vec::new(),
            asked: Vec::new(),
            planned: Vec::new(),
        }
    }

    fn next_fault(&mut self, asked: &RecordedRequest) -> Option<Fault> {
        let meant = |plan: &&mut PlannedFault| plan.times > 0 && plan.method == asked.method && asked.path.contains(plan.part);
        let plan = self.planned.iter_mut().find(meant)?;
        plan.times -= 1;
        Some(plan.fault.clone())
    }

    fn reply(&mut self, asked: &RecordedRequest) -> Reply {
        if !self.is_accepted(asked) {
            return Reply::refused(401, "Bad credentials");
        }
        match self.flavor {
            Flavor::GitHub => self.reply_as_github(asked),
            Flavor::GitLab => gitlab::reply(self, asked),
            Flavor::Gitea => gitea::reply(self, asked),
        }
    }

    /// Returns true if a request carries the token, in the one header that the forge accepts.
    fn is_accepted(&self, asked: &RecordedRequest) -> bool {
        self.token.as_ref().is_none_or(|token| {
            let (name, value) = self.flavor.authorization(token);
            asked.header(name) == Some(&value)
        })
    }

    fn reply_as_github(&mut self, asked: &RecordedRequest) -> Reply {
        let path = asked.path.split('?').next().unwrap_or_default();
        let below = path.strip_prefix(&format!("/repos/{REPOSITORY}/")).unwrap_or_default();
        let parts: Vec<&str> = below.split('/').collect();
        let (body, identity) = (&asked.body, self.identity);
        match (asked.method.as_str(), parts.as_slice()) {
            ("GET", [""]) if path == "/user" => self.user(),
            ("POST", [""]) if path == "/graphql" => self.viewer(),
            ("GET", ["issues", number, "comments"]) => self.page(asked, &self.comments_of(id(number)), None),
            ("POST", ["issues", number, "comments"]) => Reply::made(self.add_comment(identity, id(number), &text(&body["body"]))),
            ("PATCH", ["issues", "comments", comment]) => self.edit_comment(id(comment), body),
            ("GET", ["issues"]) => self.page(asked, &self.open_issues(asked), None),
            ("GET", ["pulls"]) => self.page(asked, &self.open_pulls(), None),
            ("POST", ["issues"]) => Reply::made(self.add_issue(identity, body)),
            ("GET", ["commits", sha, "check-runs"]) => self.page(asked, &self.checks_of(asked, sha), Some("check_runs")),
            ("POST", ["check-runs"]) => Reply::made(self.add_check(identity, body)),
            ("PATCH", ["check-runs", check]) => self.edit_check(id(check), body),
            ("GET", ["check-runs", check, "annotations"]) => self.page(asked, &self.annotations_of(id(check)), None),
            _ => Reply::refused(404, "Not Found"),
        }
    }

    fn user(&self) -> Reply {
        match self.identity {
            Identity::User(login) => Reply::ok(json!({ "login": login, "type": "User" })),
            _ => Reply::refused(403, "Resource not accessible by integration"),
        }
    }

    fn viewer(&self) -> Reply {
        match self.identity {
            Identity::Workflow => Reply::refused(404, "Not Found"),
            known => Reply::ok(json!({ "data": { "viewer": { "login": known.login() } } })),
        }
    }

    /// Returns one page of a list, with the address of the next in its head; `under` is the field that holds it, if it is not
    /// bare.
    fn page(&self, asked: &RecordedRequest, all: &[Value], under: Option<&str>) -> Reply {
        let number = query(asked, "page").and_then(|page| page.parse().ok()).unwrap_or(1_usize);
        let most = query(asked, "per_page").or_else(|| query(asked, "limit")).and_then(|most| most.parse().ok());
        let per_page = self.per_page.min(most.unwrap_or(20));
        let shown: Vec<Value> = all.iter().skip((number - 1) * per_page).take(per_page).cloned().collect();
        let is_last = number * per_page >= all.len();
        let place = asked.path.split("&page=").next().unwrap_or_default();
        let next = format!("link: <{}{place}&page={}>; rel=\"next\"", self.url, number + 1);
        let body = match under {
            Some(field) => json!({ "total_count": all.len(), field: shown }),
            None => json!(shown),
        };
        Reply(200, body, if is_last { Vec::new() } else { vec![next] })
    }

    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn comments_of(&self, number: u64) -> Vec<Value> {
        self.comments.iter().filter(|(of, _)| *of == number).map(|(_, comment)| comment.clone()).collect()
    }

    fn add_comment(&mut self, by: Identity, number: u64, body: &str) -> Value {
        let id = self.take_id();
        let url = format!("{}/{REPOSITORY}/issues/{number}#issuecomment-{id}", self.url);
        let comment = match self.flavor {
            Flavor::GitLab => json!({ "id": id, "body": body, "author": { "username": by.login() }, "system": false }),
            Flavor::Gitea => {
                json!({ "id": id, "html_url": url, "body": body, "user": { "login": by.login() }, "original_author": "" })
            }
            Flavor::GitHub => {
                json!({ "id": id, "html_url": url, "body": body, "user": account(by), "performed_via_github_app": app(by) })
            }
        };
        self.comments.push((number, comment.clone()));
        comment
    }

    fn edit_comment(&mut self, id: u64, change: &Value) -> Reply {
        let Some((_, comment)) = self.comments.iter_mut().find(|(_, comment)| comment["id"] == id) else {
            return Reply::refused(404, "Not Found");
        };
        comment["body"] = change["body"].clone();
        Reply::ok(comment.clone())
    }

    fn open_issues(&self, asked: &RecordedRequest) -> Vec<Value> {
        let label = query(asked, "labels").unwrap_or_default();
        let has_label =
            |issue: &Value| issue["labels"].as_array().is_some_and(|labels| labels.iter().any(|one| one["name"] == label));
        self.issues.iter().filter(|issue| issue["state"] == "open" && has_label(issue)).cloned().collect()
    }

    fn open_pulls(&self) -> Vec<Value> {
        let pulls = self.issues.iter().filter(|issue| issue["state"] == "open" && issue["head"].is_object());
        pulls.cloned().collect()
    }

    fn add_issue(&mut self, by: Identity, wanted: &Value) -> Value {
        let id = self.take_id();
        let number = self.issues.len() as u64 + 100;
        let names = wanted["labels"].as_array().filter(|_| self.keeps_labels).cloned().unwrap_or_default();
        let labels: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        let issue = json!({
            "id": id, "number": number, "html_url": format!("{}/{REPOSITORY}/issues/{number}", self.url), "state": "open",
            "title": wanted["title"], "body": wanted["body"], "labels": labels, "user": account(by),
            "performed_via_github_app": app(by),
        });
        self.issues.push(issue.clone());
        issue
    }

    /// Adds a status, in the shape in which the forge lists it.
    fn add_status(&mut self, by: Identity, commit: &str, wanted: &Value) -> Value {
        let id = self.take_id();
        let mut status = json!({
            "id": id, "status": wanted["state"], "description": wanted["description"], "target_url": wanted["target_url"],
        });
        let (name, author, login) = match self.flavor {
            Flavor::GitLab => ("name", "author", "username"),
            _ => ("context", "creator", "login"),
        };
        status[name] = wanted[name].clone();
        status[author] = json!({ login: by.login() });
        self.statuses.push((commit.to_owned(), status.clone()));
        status
    }

    /// Returns the statuses of a commit, from the oldest.
    fn statuses_of(&self, commit: &str) -> Vec<Value> {
        self.statuses.iter().filter(|(of, _)| of == commit).map(|(_, status)| status.clone()).collect()
    }

    /// Returns the checks of a commit under a name, the newest first.
    fn checks_of(&self, asked: &RecordedRequest, sha: &str) -> Vec<Value> {
        let name = query(asked, "check_name").unwrap_or_default().replace("%20", " ").replace("%2F", "/").replace("%3A", ":");
        self.checks.iter().rev().filter(|check| check["head_sha"] == sha && check["name"] == name.as_str()).cloned().collect()
    }

    fn add_check(&mut self, by: Identity, wanted: &Value) -> Value {
        let id = self.take_id();
        let url = format!("{}/{REPOSITORY}/runs/{id}", self.url);
        self.checks.push(json!({ "id": id, "html_url": url, "details_url": url, "app": app(by), "output": {} }));
        self.edit_check(id, wanted).1
    }

    /// Changes a check. Given fields replace the previous ones; annotations are added.
    fn edit_check(&mut self, id: u64, change: &Value) -> Reply {
        let Some(check) = self.checks.iter_mut().find(|check| check["id"] == id) else {
            return Reply::refused(404, "Not Found");
        };
        let fields = change.as_object().cloned().unwrap_or_else(Map::new);
        for (field, value) in fields.into_iter().filter(|(field, _)| field != "output") {
            check[field] = value;
        }
        for field in ["title", "summary", "text"] {
            check["output"][field] = change["output"][field].clone();
        }
        let added = change["output"]["annotations"].as_array().cloned().unwrap_or_default();
        self.annotations.extend(added.into_iter().map(|annotation| (id, annotation)));
        check["output"]["annotations_count"] = json!(self.annotations.iter().filter(|(of, _)| *of == id).count());
        Reply::ok(check.clone())
    }

    fn annotations_of(&self, check: u64) -> Vec<Value> {
        self.annotations.iter().filter(|(of, _)| *of == check).map(|(_, annotation)| annotation.clone()).collect()
    }
}

fn author_of(comment: &Value) -> String {
    let login = text(&comment["user"]["login"]);
    if login.is_empty() { text(&comment["author"]["username"]) } else { login }
}

fn account(by: Identity) -> Value {
    json!({ "login": by.login(), "type": if by.slug().is_some() { "Bot" } else { "User" } })
}

fn app(by: Identity) -> Value {
    by.slug().map_or(Value::Null, |slug| json!({ "slug": slug }))
}

fn id(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn query<'a>(asked: &'a RecordedRequest, name: &str) -> Option<&'a str> {
    let (_, query) = asked.path.split_once('?')?;
    query.split('&').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name).map(|(_, value)| value)
}
