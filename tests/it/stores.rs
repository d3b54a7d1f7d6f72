//! Stores that are not a folder: served by `assay serve`, and by another project's S3 server.

#![expect(clippy::print_stdout, reason = "a test that looks at less says so, and children say what they did")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use assay_store::{Store, conformance};
use serde_json::json;
use tempfile::TempDir;

use crate::pipeline::{list, text};
use crate::support::{
    CommandResult, Fixture, PIPELINE, Running, binary, blob, files_under, indicator_output, pipeline, script, wait_until,
    write_file,
};

/// The variable that gives the child of a conformance test its store.
const CONFORMANCE_STORE_ENV: &str = "ASSAY_IT_CONFORMING";
const STORE_FOLDER_ENV: &str = "ASSAY_IT_BEHIND";

/// A served store: its folder, its credentials, and the server, which is killed when this is dropped.
pub(crate) struct ServedStore {
    folder: TempDir,
    address: SocketAddr,
    server: Child,
}

impl ServedStore {
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("assay-it-served-").tempdir().expect("a folder");
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let (server, address) = serve(folder.path(), free, &["--make-credentials"]);
        Self { folder, address, server }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn credentials(&self) -> PathBuf {
        self.folder.path().join("credentials")
    }

    pub(crate) fn uri(&self) -> String {
        format!("s3://assay?endpoint=http://{}", self.address)
    }

    fn secret(&self, identity: &str) -> String {
        fs::read_to_string(self.credentials().join(identity)).expect("a secret").trim().to_owned()
    }

    /// Gives every program of a fixture the credentials of this identity.
    pub(crate) fn set_credentials(&self, fixture: &mut Fixture, identity: &str) {
        fixture.set("AWS_ACCESS_KEY_ID", identity);
        fixture.set("AWS_SECRET_ACCESS_KEY", self.secret(identity));
    }

    /// Kills the server as a crash would, and starts another one at the same address.
    fn crash_and_restart(&mut self, away: Duration) {
        self.server.kill().expect("killed");
        self.server.wait().expect("waited");
        std::thread::sleep(away);
        (self.server, _) = serve(self.folder.path(), self.address, &[]);
    }
}

impl Drop for ServedStore {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts a server and waits until it prints its address.
fn serve(folder: &Path, listen: SocketAddr, more: &[&str]) -> (Child, SocketAddr) {
    let mut command = Command::new(binary("assay"));
    command.arg("serve").arg("--store").arg(folder.join("store")).arg("--credentials").arg(folder.join("credentials"));
    command.args(["--listen", &listen.to_string()]).args(more).env_clear();
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("the server starts");
    let mut lines = BufReader::new(server.stdout.take().expect("its output")).lines();
    let said = lines.find_map(|line| line.expect("text").strip_prefix("as ").map(str::to_owned));
    let address = said.as_deref().and_then(|said| said.split("http://").nth(1)).and_then(|address| address.parse().ok());
    (server, address.expect("an address"))
}

/// The child's part: runs the conformance suite of every backend against a store. Does nothing without the variable.
#[test]
fn conforming_child() {
    let Some(uri) = std::env::var_os(CONFORMANCE_STORE_ENV) else { return };
    let uri = uri.to_str().expect("text");
    let open = || Store::open(uri).expect("a store");
    match std::env::var_os(STORE_FOLDER_ENV) {
        None => conformance::check_conformance(&open),
        Some(folder) => conformance::check_conformance_with(&open, &|digest, bytes| {
            let path = blob(Path::new(&folder), &digest.to_string());
            write_file(&path, bytes);
        }),
    }
}

/// Runs the suite in a separate process, because credentials come from the environment. `behind` is the folder of a store that
/// accepts no wrong bytes from clients.
fn check_conformance_in_child(uri: &str, key: &str, secret: &str, behind: Option<&Path>) {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "stores::conforming_child", "--nocapture"]).env(CONFORMANCE_STORE_ENV, uri);
    child.env("AWS_ACCESS_KEY_ID", key).env("AWS_SECRET_ACCESS_KEY", secret).env_remove(STORE_FOLDER_ENV);
    if let Some(folder) = behind {
        child.env(STORE_FOLDER_ENV, folder);
    }
    CommandResult::from_output(child.output().expect("a child")).success();
}

#[test]
fn a_served_store_conforms() {
    let served = ServedStore::start();
    check_conformance_in_child(&served.uri(), "run", &served.secret("run"), Some(&served.store()));
    let left: Vec<_> = files_under(&served.store().join("staging"));
    assert_eq!(left, Vec::<PathBuf>::new(), "nothing stays in staging");
}

/// An S3 server of another project, which `ASSAY_TEST_S3` names: versitygw.
pub(crate) struct Gateway {
    _folder: TempDir,
    address: SocketAddr,
    server: Child,
}

impl Gateway {
    const KEY: &str = "tester";
    const SECRET: &str = "a secret of a test";

    /// Returns `None` if no server is requested; if it is requested but absent, the test fails.
    pub(crate) fn start(conditional_writes: bool) -> Option<Self> {
        let Some(program) = std::env::var_os("ASSAY_TEST_S3").map(PathBuf::from) else {
            println!("ASSAY_TEST_S3 is not set: no S3 server of another project was asked");
            return None;
        };
        assert!(program.is_file(), "`{}` is not there", program.display());
        let folder = tempfile::Builder::new().prefix("assay-it-s3-").tempdir().expect("a folder");
        let [data, meta] = ["data", "meta"].map(|name| folder.path().join(name));
        fs::create_dir_all(data.join("bucket")).and_then(|()| fs::create_dir(&meta)).expect("folders");
        // It cannot report a port that it chose itself, so a port that was free a moment ago has to do.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let mut command = Command::new(&program);
        command.args(["--port", &address.to_string(), "--quiet", "posix"]);
        if conditional_writes {
            command.arg("--sidecar").arg(&meta);
        } else {
            command.arg("--nometa");
        }
        command.arg(&data).env_clear().env("ROOT_ACCESS_KEY_ID", Self::KEY).env("ROOT_SECRET_ACCESS_KEY", Self::SECRET);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(folder.path());
        let gateway = Self { _folder: folder, address, server: command.spawn().expect("the server starts") };
        wait_until("the S3 server listens", || TcpStream::connect(address).is_ok());
        Some(gateway)
    }

    pub(crate) fn uri(&self) -> String {
        format!("s3://bucket/a/prefix?endpoint=http://{}&region=us-east-1", self.address)
    }

    pub(crate) fn set_credentials(fixture: &mut Fixture) {
        fixture.set("AWS_ACCESS_KEY_ID", Self::KEY);
        fixture.set("AWS_SECRET_ACCESS_KEY", Self::SECRET);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_bucket_of_another_project_s_server_conforms() {
    let Some(gateway) = Gateway::start(true) else { return };
    check_conformance_in_child(&gateway.uri(), Gateway::KEY, Gateway::SECRET, None);
}

#[test]
fn a_service_without_conditional_writes_is_refused_before_anything_is_measured() {
    let Some(gateway) = Gateway::start(false) else { return };
    let mut fixture = Fixture::new();
    Gateway::set_credentials(&mut fixture);
    let refused = fixture.assay(&["run", PIPELINE, "--store", &gateway.uri()]).refuses(30, "store");
    assert!(refused.stderr.contains("does not honour create-if-absent"), "{}", refused.stderr);
}

#[test]
fn a_run_in_a_bucket_is_fetched_and_verified_without_it() {
    let Some(gateway) = Gateway::start(true) else { return };
    let mut fixture = Fixture::new();
    Gateway::set_credentials(&mut fixture);
    run_and_fetch(&fixture, &gateway.uri());
}

#[test]
fn a_run_in_a_served_store_is_fetched_and_verified_without_it() {
    let served = ServedStore::start();
    let mut fixture = Fixture::new();
    served.set_credentials(&mut fixture, "run");
    run_and_fetch(&fixture, &served.uri());
    // The served files are a store's folder, which can be read without a server.
    fixture.assay(&["verify", "one", "--store", served.store().to_str().expect("text")]).success();
    assert_eq!(files_under(&served.store().join("staging")), Vec::<PathBuf>::new(), "nothing stays in staging");

    // A reader without write access sees all of the store, and cannot start a run.
    served.set_credentials(&mut fixture, "read");
    fixture.assay(&["verify", "one", "--store", &served.uri()]).success();
    let refused = fixture.assay(&["run", PIPELINE, "--store", &served.uri()]).refuses(30, "store");
    assert!(refused.stderr.contains("these credentials only read"), "{}", refused.stderr);
}

/// Checks a run in a remote store: shown and queried there, copied, and verified in its copy.
fn run_and_fetch(fixture: &Fixture, uri: &str) {
    let far = ["--store", uri];
    let there = |arguments: &[&str]| fixture.assay(&[arguments, &far].concat());
    let run = there(&["run", PIPELINE, "--run-id", "one"]).success();
    assert!(run.stdout.contains(&format!("assay verify one --store '{uri}'")), "{}", run.stdout);
    assert!(!fixture.store().join("runs").exists(), "nothing of it is in the usual store");
    assert!(there(&["runs"]).success().stdout.contains("published"));
    let level = "level 3 (raw bytes) of 4 reached";
    let verified = there(&["verify", "one"]).success().stdout;
    assert!(verified.contains(level) && verified.contains("in the warehouse at the pinned versions"), "{verified}");
    let counted = there(&["query", "SELECT count(*) AS n FROM benchmark_run_fact", "--format", "json"]).success();
    assert!(counted.stdout.contains('2'), "a row of each case: {}", counted.stdout);

    let fetched = fixture.assay(&["fetch", "one", "--store", uri]).success();
    assert!(fetched.stdout.contains("verify   assay verify one\n"), "{}", fetched.stdout);
    let verified = fixture.verify("one").success().stdout;
    assert!(
        verified.contains(level) && verified.contains(&format!("the run is marked as fetched from {uri}, whose tables")),
        "{verified}"
    );
    let again = fixture.assay(&["fetch", "one", "--store", uri]).success();
    assert!(again.stdout.contains(": 0 blobs, 0.0 MB; "), "{}", again.stdout);

    let without = fixture.root().join("without");
    let without = without.to_str().expect("text");
    fixture.assay(&["fetch", "one", "--store", uri, "--to", without, "--without-raw"]).success();
    let verified = fixture.assay(&["verify", "one", "--store", without]).success().stdout;
    assert!(verified.contains("level 2 (rows and queries) of 4 reached"), "{verified}");

    // The same files and no wall clock: the store does not influence the plan.
    fixture.run("here").success();
    let plan = |run: &str| crate::pipeline::without_order(fixture.manifest(run, "plan")["body"].clone());
    assert_eq!(plan("one"), plan("here"));

    // In a store with its own tables, the tables return the same results as before.
    let asked = fixture.assay(&["query", "SELECT run_id FROM benchmark_run_fact GROUP BY run_id", "--format", "csv"]).success();
    assert_eq!(asked.stdout, "run_id\nhere\n");
    assert!(asked.stderr.contains("1 run of this store fetched from elsewhere"), "{}", asked.stderr);

    // A store with another run of that name keeps it.
    let other = fixture.root().join("other");
    let other = other.to_str().expect("text");
    fixture.write("workloads/first/run.sh", "#!/bin/sh\necho 'other bytes'\n");
    fixture.commit("another script");
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", other]);
    fixture.assay(&["fetch", "one", "--store", uri, "--to", other]).refuses(20, "other_run");
    fixture.assay(&["fetch", "one", "--store", uri, "--to", uri]).refuses(2, "same_store");
    fixture.assay(&["fetch", "two", "--store", uri]).refuses(2, "no_such_run");
}

#[test]
fn a_run_outlives_crashes_of_the_server() {
    let mut served = ServedStore::start();
    let mut fixture = Fixture::new();
    served.set_credentials(&mut fixture, "run");
    let uri = served.uri();
    let run = fixture.spawn(&["run", PIPELINE, "--run-id", "one", "--store", &uri]);
    // The moments are events of the run, so that it is in another stage each time, however fast the machine is.
    for stage in ["plan", "provision", "execute", "collect", "reduce"] {
        let results = served.store().join("runs/one").join(stage);
        wait_until(stage, || results.exists());
        // In one stage it is away for longer than quick retries last, because the longer retries are tested here.
        let away = if stage == "execute" { Duration::from_secs(8) } else { Duration::ZERO };
        served.crash_and_restart(away);
    }
    run.finish().success();
    let verified = fixture.assay(&["verify", "one", "--store", &uri]).success();
    assert!(verified.stdout.contains("level 3 (raw bytes) of 4 reached"), "{}", verified.stdout);
}

/// The number of bytes of a response that a network lets through, by the request line and the response.
type Passed = dyn Fn(&str, &[u8]) -> usize + Send + Sync;

/// A network with faults: it passes every request on, and closes the connection after a part of the response, or before it.
struct FaultyProxy {
    address: SocketAddr,
}

impl FaultyProxy {
    fn start(server: SocketAddr, passed: Arc<Passed>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Self { address: listener.local_addr().expect("an address") };
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let passed = Arc::clone(&passed);
                std::thread::spawn(move || Self::forward(client, server, &*passed));
            }
        });
        proxy
    }

    fn uri(&self) -> String {
        format!("s3://assay?endpoint=http://{}", self.address)
    }

    /// Passes one request per connection; the response ends when the server closes it.
    fn forward(mut client: TcpStream, server: SocketAddr, passed: &Passed) -> Option<()> {
        let mut reader = BufReader::new(client.try_clone().ok()?);
        let (mut head, mut size) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            if let Some(length) = line.to_lowercase().strip_prefix("content-length:") {
                size = length.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; size];
        reader.read_exact(&mut body).ok()?;
        let mut server = TcpStream::connect(server).ok()?;
        server.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).ok()?;
        server.write_all(&body).ok()?;
        let mut response = Vec::new();
        server.read_to_end(&mut response).ok()?;
        let passed = passed(head.lines().next()?, &response);
        client.write_all(response.get(..passed)?).ok()
    }
}

/// A network that notes the request line of each request.
pub(crate) struct CountingProxy {
    proxy: FaultyProxy,
    lines: Arc<Mutex<Vec<String>>>,
}

impl CountingProxy {
    pub(crate) fn start(served: &ServedStore) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&lines);
        let passed = move |line: &str, response: &[u8]| {
            noted.lock().expect("no thread has panicked").push(line.to_owned());
            response.len()
        };
        Self { proxy: FaultyProxy::start(served.address, Arc::new(passed)), lines }
    }

    pub(crate) fn uri(&self) -> String {
        self.proxy.uri()
    }

    /// Returns the request lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no thread has panicked").clone()
    }
}

/// A network that cuts responses in the middle of their bodies.
struct CuttingProxy {
    proxy: FaultyProxy,
    cut: Arc<AtomicUsize>,
}

impl CuttingProxy {
    /// Cuts one in `every` responses that have a body and whose status begins with `status`, chosen by a fixed sequence.
    fn start(server: SocketAddr, every: u64, status: &'static str) -> Self {
        let (cut, draws) = (Arc::new(AtomicUsize::new(0)), AtomicU64::new(0));
        let counted = Arc::clone(&cut);
        let passed = move |_: &str, response: &[u8]| {
            let body = response.windows(4).position(|window| window == b"\r\n\r\n").map_or(response.len(), |end| end + 4);
            // The finaliser of SplitMix64: a sequence without a pattern, the same in each run.
            let mut draw = draws.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            draw = (draw ^ (draw >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            draw = (draw ^ (draw >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            draw ^= draw >> 31;
            let is_chosen = response.starts_with(format!("HTTP/1.1 {status}").as_bytes()) && draw.is_multiple_of(every);
            if body == response.len() || !is_chosen {
                return response.len();
            }
            counted.fetch_add(1, Ordering::Relaxed);
            body + (response.len() - body) / 2
        };
        Self { proxy: FaultyProxy::start(server, Arc::new(passed)), cut }
    }
}

#[test]
fn responses_that_are_cut_in_the_body_are_requested_again() {
    let served = ServedStore::start();
    let cutting = CuttingProxy::start(served.address, 10, "");
    let mut fixture = Fixture::new();
    served.set_credentials(&mut fixture, "run");
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", &cutting.proxy.uri()]).success();
    assert!(cutting.cut.load(Ordering::Relaxed) > 10, "responses were cut");
    let verified = fixture.assay(&["verify", "one", "--store", &cutting.proxy.uri()]).success();
    assert!(verified.stdout.contains("level 3 (raw bytes) of 4 reached"), "{}", verified.stdout);
}

#[test]
fn a_served_store_conforms_although_a_third_of_its_responses_are_cut() {
    let served = ServedStore::start();
    // A refusal that is cut is taken for a lost response: then equal bytes decide who has created an object.
    let cutting = CuttingProxy::start(served.address, 3, "2");
    check_conformance_in_child(&cutting.proxy.uri(), "run", &served.secret("run"), Some(&served.store()));
    assert!(cutting.cut.load(Ordering::Relaxed) > 10, "responses were cut");
}

#[test]
fn lost_responses_change_nothing() {
    let served = ServedStore::start();
    let lost = Arc::new(Mutex::new(BTreeSet::new()));
    let lossy = FaultyProxy::start(served.address, {
        let lost = Arc::clone(&lost);
        // The first response to each write is lost.
        Arc::new(move |asked: &str, response: &[u8]| {
            let is_write = asked.starts_with("PUT ") || asked.starts_with("POST ");
            if is_write && lost.lock().expect("no panic").insert(asked.to_owned()) { 0 } else { response.len() }
        })
    });
    let mut fixture = Fixture::new();
    served.set_credentials(&mut fixture, "run");
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", &lossy.uri()]).success();
    assert!(lost.lock().expect("no panic").len() > 100, "responses were lost");
    let verified = fixture.assay(&["verify", "one", "--store", &served.uri()]).success();
    assert!(verified.stdout.contains("level 3 (raw bytes) of 4 reached"), "{}", verified.stdout);
    // No write was taken for another client's: nothing was retried, ended or measured twice.
    fixture.assay(&["fetch", "one", "--store", &served.uri()]).success();
    for attempt in list(&fixture.manifest("one", "execute")["body"]["attempts"]) {
        assert_eq!((&attempt["attempt"], &attempt["status"]), (&json!(0), &json!("completed")), "{attempt:#}");
    }
    assert!(!served.store().join("runs/one/ends").exists());
}

#[test]
fn each_trouble_with_a_bucket_has_its_words() {
    let served = ServedStore::start();
    let mut fixture = Fixture::new();
    let run = |fixture: &Fixture, uri: &str| fixture.assay(&["run", PIPELINE, "--store", uri]);
    run(&fixture, &served.uri()).refuses(2, "store_credentials");

    served.set_credentials(&mut fixture, "run");
    fixture.set("AWS_SECRET_ACCESS_KEY", "another secret");
    let wrong = run(&fixture, &served.uri()).refuses(30, "store");
    assert!(wrong.stderr.contains("SignatureDoesNotMatch"), "{}", wrong.stderr);

    served.set_credentials(&mut fixture, "run");
    let bucket = run(&fixture, &served.uri().replace("//assay", "//other")).refuses(30, "store");
    assert!(bucket.stderr.contains("this server has one bucket, `assay`"), "{}", bucket.stderr);
    let prefix = run(&fixture, &served.uri().replace("//assay", "//assay/x y")).refuses(2, "store_uri");
    assert!(prefix.stderr.contains("its prefix may have"), "{}", prefix.stderr);
    fixture.assay(&["runs", "--store", &served.uri()]).refuses(2, "store_uri");

    let prefix = run(&fixture, &served.uri().replace("//assay", "//assay/prefix")).refuses(30, "store");
    assert!(prefix.stderr.contains("a served store has no prefix"), "{}", prefix.stderr);
    fixture.set("AWS_SECRET_ACCESS_KEY", "");
    run(&fixture, &served.uri()).refuses(2, "store_credentials");
    served.set_credentials(&mut fixture, "run");
    fixture.set("AWS_ENDPOINT_URL", "http://user:a-password@127.0.0.1:1");
    let password = run(&fixture, "s3://assay").refuses(2, "store_uri");
    assert!(!password.stderr.contains("a-password"), "{}", password.stderr);
    fixture.unset("AWS_ENDPOINT_URL");

    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let nobody = run(&fixture, &format!("s3://assay?endpoint=http://{nobody}")).refuses(30, "store");
    assert!(nobody.stderr.contains("failed to open the store"), "{}", nobody.stderr);
    assert!(!nobody.stderr.contains(&served.secret("run")), "no secret is told");
}

#[test]
fn no_error_about_a_store_shows_a_password() {
    let fixture = Fixture::new();
    let addresses = [
        "s3://k:hunter2secret@bucket/x",
        "s3://k:hunter2secret/y@bucket/x",
        "s3://bucket/x?endpoint=http://u:hunter2secret@127.0.0.1:1",
        "s3://bucket/x?secret=hunter2secret",
        "gs://k:hunter2secret@bucket/x",
        "http://u:hunter2secret@h/x",
        "file:///x?token=hunter2secret",
    ];
    let hides = |ran: CommandResult| {
        let refused = ran.refuses(2, "store_uri");
        assert!(!format!("{}{}", refused.stdout, refused.stderr).contains("hunter2"), "{}", refused.stderr);
    };
    for address in addresses {
        hides(fixture.assay(&["runs", "--store", address]));
        hides(fixture.assay(&["fetch", "one", "--store", address]));
    }
    hides(fixture.assay(&["run", PIPELINE, "--store", addresses[0]]));
    let store = fixture.store().display().to_string();
    fs::create_dir_all(fixture.store().join("blobs")).expect("a folder");
    hides(fixture.assay(&["fetch", "one", "--store", &store, "--to", addresses[0]]));
    for arguments in [&["--run", "one", "--trust", "trust.yaml", "--parameters", "{}"][..], &["--help"]] {
        let mut stage = fixture.command(&binary("assay-plan"));
        let ran = stage.args(arguments).env("ASSAY_STORE", addresses[0]).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(said.contains("store") && !said.contains("hunter2"), "{said}");
    }
}

/// A pod has a token and no secret: an agent on its node exchanges it for credentials. The agent here is a fake that knows one token;
/// the client that requests the credentials and uses them is real.
#[test]
fn a_workload_s_identity_is_exchanged_for_credentials() {
    const TOKEN: &str = "a-token-of-the-cluster-s";
    let served = ServedStore::start();
    let mut fixture = Fixture::new();
    let agent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = agent.local_addr().expect("an address");
    let credentials = serde_json::json!({
        "AccessKeyId": "run", "SecretAccessKey": served.secret("run"), "Token": "unused", "Expiration": "2999-01-01T00:00:00Z"
    });
    std::thread::spawn(move || {
        for stream in agent.incoming() {
            let mut stream = stream.expect("a connection");
            let lines = BufReader::new(&stream).lines().map(|line| line.expect("text"));
            let head: Vec<_> = lines.take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
            let is_known = head.contains(&format!("authorization: {TOKEN}"));
            let (status, body) = if is_known { ("200 OK", credentials.to_string()) } else { ("403 Forbidden", String::new()) };
            let response = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
            stream.write_all(response.as_bytes()).expect("sent");
        }
    });
    let token = fixture.root().join("token");
    fixture.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://{address}/v1/credentials"));
    fixture.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token);
    let run = || fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", &served.uri()]);
    write_file(&token, b"another-token");
    run().refuses(30, "store");
    write_file(&token, TOKEN.as_bytes());
    run().success();
}

#[test]
fn a_server_that_cannot_serve_says_why() {
    let fixture = Fixture::new();
    let serve = |more: &[&str]| {
        let common = ["serve", "--store", "served", "--credentials", "credentials", "--listen", "127.0.0.1:0"];
        fixture.assay(&[&common, more].concat())
    };
    let none = serve(&[]).refuses(2, "credentials");
    assert!(none.stderr.contains("--make-credentials makes them"), "{}", none.stderr);
    fixture.write("credentials/read", "short\n");
    assert!(serve(&[]).refuses(2, "credentials").stderr.contains("fewer than 16 characters"));
    fixture.write("credentials/read", "a secret that is long enough\n");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let busy = fixture.assay(&["serve", "--store", "served", "--credentials", "credentials", "--listen", &address]);
    busy.refuses(30, "listen");
    assert!(fixture.assay(&["serve", "--help"]).success().stdout.contains("--make-credentials"));
}

/// Clients of other projects: the AWS SDK and deltalake, as readers and as stages that exceed their rights.
#[test]
fn other_projects_clients_find_a_store_that_is_only_added_to() {
    let Some(folder) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: no client of another project asked");
        return;
    };
    let served = ServedStore::start();
    let mut fixture = Fixture::new();
    served.set_credentials(&mut fixture, "run");
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", &served.uri()]).success();
    let mut command = Command::new(folder.join("venv/bin/python"));
    command.arg(folder.join("s3.py")).arg(format!("http://{}", served.address)).arg(served.credentials()).arg("one");
    let ran = CommandResult::from_output(command.env_clear().output().expect("python runs")).success();
    assert_eq!(ran.stdout, "ok\n");
}

/// The child's part: creates pointers as one identity, and prints which it could. Does nothing without the variable.
#[test]
fn creating_child() {
    let Some(uri) = std::env::var_os(CREATION_STORE_ENV) else { return };
    let store = Store::open_existing(uri.to_str().expect("text")).expect("a store");
    for path in RESULT_PATHS {
        let created = store.create(path, std::env::var("AWS_ACCESS_KEY_ID").expect("an identity").as_bytes()).is_ok();
        println!("{path}={created}");
    }
}

const CREATION_STORE_ENV: &str = "ASSAY_IT_CREATING";
/// A path of each kind of result.
const RESULT_PATHS: [&str; 8] = [
    "runs/r/source",
    "runs/r/plan/00/accepted/0",
    "runs/r/provision/00/accepted/0",
    "runs/r/execute/00/accepted/0",
    "runs/r/collect/00/accepted/0",
    "runs/r/reduce/00/accepted/0",
    "runs/r/publish/00/accepted/0",
    "warehouse/t/_delta_log/00000000000000000000.json",
];

#[test]
fn a_stage_s_credentials_write_its_own_results_only() {
    let served = ServedStore::start();
    fs::create_dir_all(served.store().join("blobs/sha256/00")).expect("a folder");
    write_file(&blob(&served.store(), &"0".repeat(64)), b"something, so that it is a store");
    let created = |identity: &str| -> Vec<String> {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "stores::creating_child", "--nocapture"]).env(CREATION_STORE_ENV, served.uri());
        child.env("AWS_ACCESS_KEY_ID", identity).env("AWS_SECRET_ACCESS_KEY", served.secret(identity));
        let said = CommandResult::from_output(child.output().expect("a child")).success().stdout;
        said.lines().filter_map(|line| line.strip_suffix("=true")).map(str::to_owned).collect()
    };
    assert_eq!(created("read"), [""; 0]);
    for (stage, place) in ["source", "plan", "provision", "execute", "collect", "reduce"].into_iter().zip(RESULT_PATHS) {
        assert_eq!(created(stage), [place], "{stage}");
        assert_eq!(fs::read(served.store().join(place)).expect("created"), stage.as_bytes());
    }
    assert_eq!(created("publish"), RESULT_PATHS[6..]);
}

#[test]
fn a_server_ends_on_its_signal_and_responds_to_probes() {
    let mut served = ServedStore::start();
    let response = |path: &str| {
        let mut stream = TcpStream::connect(served.address).expect("connected");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("sent");
        response
    };
    assert!(response("/-/ready").starts_with("HTTP/1.1 200 OK"));
    let denied = response("/assay?list-type=2");
    assert!(denied.starts_with("HTTP/1.1 403") && denied.contains("credentials are needed"), "{denied}");
    let pid = i32::try_from(served.server.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it takes a signal");
    assert!(served.server.wait().expect("waited").success());
}

/// Starts a run whose script waits, and returns it once the script runs, with the file that ends the wait.
fn run_that_waits(fixture: &Fixture, store: &Path) -> (Running, PathBuf) {
    let [started, go] = ["started", "go"].map(|name| fixture.root().join(name));
    let wait = format!("touch '{}'\nuntil [ -e '{}' ]; do sleep 0.02; done", started.display(), go.display());
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 1, ""));
    fixture.indicator("only", &script(&format!("{wait}\necho '{}'", indicator_output("only", "1"))), "");
    fixture.commit("a script that waits");
    let run = fixture.spawn(&["run", PIPELINE, "--run-id", "one", "--store", store.to_str().expect("text")]);
    wait_until("the script runs", || started.exists());
    (run, go)
}

#[test]
fn a_store_that_vanishes_in_the_middle_of_a_run_is_missed_by_name_and_not_made_anew() {
    let fixture = Fixture::bare();
    let [store, away] = ["store", "away"].map(|name| fixture.root().join(name));
    let (run, go) = run_that_waits(&fixture, &store);
    fs::rename(&store, &away).expect("the store can be moved");
    write_file(&go, b"");
    let failed = run.finish().refuses(30, "store_vanished");
    assert!(failed.stderr.contains(store.to_str().expect("text")), "{}", failed.stderr);
    assert!(!store.exists(), "the store was made anew: {:?}", files_under(&store));
    // When it is back, the run goes on.
    fs::rename(&away, &store).expect("the store can be moved");
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", store.to_str().expect("text")]).success();
}

#[test]
fn an_empty_folder_in_the_place_of_a_store_is_not_that_store() {
    let fixture = Fixture::bare();
    let [store, away] = ["store", "away"].map(|name| fixture.root().join(name));
    let (run, go) = run_that_waits(&fixture, &store);
    // As if its file system was unmounted.
    fs::rename(&store, &away).and_then(|()| fs::create_dir(&store)).expect("the store can be moved");
    write_file(&go, b"");
    run.finish().refuses(30, "store_vanished");
    assert_eq!(fs::read_dir(&store).expect("the folder").count(), 0, "{:?}", files_under(&store));
}

#[test]
fn a_store_that_loses_files_in_the_middle_of_a_run_is_no_reason_to_doubt_the_run() {
    let fixture = Fixture::bare();
    let store = fixture.root().join("store");
    let (run, go) = run_that_waits(&fixture, &store);
    // As in the middle of `rm -rf`: the folder is still the same one, and some of its files are gone.
    for blob in files_under(&store.join("blobs")) {
        fs::remove_file(&blob).expect("the blob can be removed");
    }
    write_file(&go, b"");
    let failed = run.finish().refuses(30, "store_vanished");
    assert!(failed.stderr.contains("the store has no blob"), "{}", failed.stderr);
}

#[test]
fn the_default_store_that_vanishes_is_missed_too() {
    let fixture = Fixture::bare();
    let (run, go) = run_that_waits(&fixture, &fixture.store());
    fs::rename(fixture.store(), fixture.root().join("away")).expect("the store can be moved");
    write_file(&go, b"");
    let failed = run.finish().refuses(30, "store_vanished");
    assert!(failed.stderr.contains(".assay"), "{}", failed.stderr);
    assert!(!fixture.store().join("blobs").exists(), "the store was made anew");
}

/// A user without rights, as whom commands run if the test is run by root.
pub(crate) const OTHER_USER: u32 = 65_534;

pub(crate) fn chown_all(path: &Path, user: u32) {
    std::os::unix::fs::lchown(path, Some(user), Some(user)).expect("root may");
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).expect("a folder") {
            chown_all(&entry.expect("an entry").path(), user);
        }
    }
}

#[test]
fn a_store_with_folders_of_another_user_is_refused_before_anything_is_measured() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    let fixture = Fixture::new();
    fixture.run("one").success();
    // A folder of one digit pair that belongs to another user, as after that user's run.
    let closed = fixture.store().join("blobs/sha256/5e");
    fs::create_dir_all(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).expect("a mode");
    let owner = fs::metadata(&closed).expect("a folder").uid();
    let mut command = fixture.command(&binary("assay"));
    command.args(["run", PIPELINE, "--run-id", "two"]);
    if owner == 0 {
        chown_all(&fixture.root(), OTHER_USER);
        std::os::unix::fs::chown(&closed, Some(0), Some(0)).expect("root may");
        command.uid(OTHER_USER).gid(OTHER_USER);
    }
    let refused = CommandResult::from_output(command.output().expect("the binary runs")).refuses(30, "store_owner");
    let named = [closed.to_str().expect("text"), "chmod", "assay serve"];
    assert!(named.iter().all(|part| refused.stderr.contains(part)), "{}", refused.stderr);
    assert!(owner != 0 || refused.stderr.contains("root"), "{}", refused.stderr);
    assert!(!fixture.store().join("runs/two").exists(), "nothing was begun");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// Takes the right to write away from the folders of a store.
fn forbid_writing(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            forbid_writing(&entry);
        }
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o555)).expect("a mode");
}

#[test]
fn a_reader_of_a_store_recomputes_without_writing_to_it() {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::CommandExt as _;
    let fixture = Fixture::new();
    fixture.run("one").success();
    let numbers = crate::warehouse::numbers(&fixture, "one");
    let address = text(&numbers[0]["address"]);
    let is_root = fs::metadata(fixture.store()).expect("a folder").uid() == 0;
    if is_root {
        chown_all(&fixture.root(), OTHER_USER);
        chown_all(&fixture.store(), 0);
    }
    forbid_writing(&fixture.store());
    for arguments in [["verify", "one", "--recompute"], ["trace", address, "--recompute"]] {
        let mut command = fixture.command(&binary("assay"));
        command.args(arguments);
        if is_root {
            command.uid(OTHER_USER).gid(OTHER_USER);
        }
        let ran = CommandResult::from_output(command.output().expect("the binary runs")).success();
        assert!(
            ran.stdout.contains("level 4 (recomputed) of 4 reached") || ran.stdout.contains("computed again"),
            "{}",
            ran.stdout
        );
    }
    Command::new("chmod").args(["-R", "u+w"]).arg(fixture.store()).status().expect("chmod runs");
}

#[test]
fn a_store_of_a_group_stays_writable_for_the_group() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    fs::create_dir(fixture.store()).expect("a folder");
    fs::set_permissions(fixture.store(), fs::Permissions::from_mode(0o2770)).expect("a mode");
    let mut command = Command::new("sh");
    command.env_clear().arg("-c").arg("umask 077; exec \"$0\" \"$@\"").arg(binary("assay"));
    let inner = fixture.command(&binary("assay"));
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(fixture.repo());
    command.args(["run", PIPELINE, "--run-id", "one"]);
    CommandResult::from_output(command.output().expect("the binary runs")).success();
    for part in ["blobs", "runs", "warehouse"] {
        for file in files_under(&fixture.store().join(part)) {
            let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
            assert_eq!(mode(&file) & 0o040, 0o040, "{}", file.display());
            let folder = file.parent().expect("a folder");
            assert_eq!(mode(folder) & 0o2070, 0o2070, "{}", folder.display());
        }
    }
}

#[test]
fn a_run_of_an_unknown_signer_is_left_out_by_name() {
    let mut fixture = Fixture::new();
    fixture.run("one").success();
    let own = fixture.config();
    fixture.set("ASSAY_CONFIG", fixture.root().join("other-config"));
    fixture.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    fixture.run("two").success();
    fixture.set("ASSAY_CONFIG", own);

    let sql = "SELECT run_id, count(*) > 0 AS has_rows FROM outcomes GROUP BY run_id";
    let asked = fixture.assay(&["query", sql, "--format", "csv"]).success();
    assert_eq!(asked.stdout, "run_id,has_rows\none,true\n");
    assert!(asked.stderr.contains("left out: run `two`"), "{}", asked.stderr);
    let asked = fixture.assay(&["query", sql, "--format", "json"]).success();
    let last: serde_json::Value = serde_json::from_str(asked.stdout.lines().last().expect("a line")).expect("JSON");
    assert_eq!((&last["left_out"][0]["run"], &last["left_out"][0]["code"]), (&json!("two"), &json!("unknown_key")));
    let strict = fixture.assay(&["query", sql, "--strict"]).refuses(20, "unknown_key");
    assert!(strict.stderr.contains("run `two`"), "{}", strict.stderr);
    let both = fixture.assay(&["query", sql, "--format", "csv", "--unverified"]).success();
    assert!(both.stdout.contains("two,true"), "{}", both.stdout);

    fixture.assay(&["runs"]).success();
    let history = fixture.assay(&["history", "speed", "--json"]).success();
    assert!(history.stderr.contains("left out: run `two`"), "{}", history.stderr);
    let series = history.json();
    assert_eq!(series[0]["left_out"][0]["run"], "two");
    assert_eq!(series[0]["runs"].as_array().map(Vec::len), Some(1));
    fixture.assay(&["history", "speed", "--strict"]).refuses(20, "unknown_key");
    let judged = fixture.assay(&["gate", "one", "--baseline", "history"]);
    assert!(judged.code != 20 && judged.stderr.contains("left out: run `two`"), "{judged:?}");
}
