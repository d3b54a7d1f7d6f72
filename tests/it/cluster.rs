//! Runs in a real Kubernetes cluster: the stages as Jobs, faults of the cluster, and isolation of keys and images.
//!
//! `ASSAY_TEST_KUBERNETES=node` requests it: `ASSAY_TEST_KUBECONFIG` then names a cluster whose nodes have the image that
//! `ASSAY_TEST_IMAGE` names by digest, and `ASSAY_TEST_SHELL_IMAGE` another one with a shell; `ASSAY_TEST_KUBECTL` names kubectl. `ci/test` sets all of them. With
//! `ASSAY_TEST_KUBERNETES=api` the cluster has an API server and no node, so that no pod runs.

#![expect(clippy::print_stdout, reason = "a test that looks at less says so")]

mod amun;
mod replicas;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use assay_cluster::{Resources, RunRoot, StageJob, stage_job};
use assay_manifest::{Digest, Role};
use assay_stage::StageName;
use assay_stage::parameters::StageParameters;
use serde_json::{Value, json};

use crate::docs::{Reader, blocks};
use crate::hot_metrics::{self, ForeignServer};
use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, PIPELINE, Running, write_file};

/// A lock that every test holds that needs the API server and the store to stay up; the test that stops them waits for all others.
static OUTAGE_LOCK: RwLock<()> = RwLock::new(());

/// The longest that a test waits for the cluster: pods start in seconds, but there are few CPUs.
const WAIT_LIMIT: Duration = Duration::from_mins(10);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A retry budget: a busy machine may delay the client's reads from its sockets, which makes an attempt invalid.
const RETRY_BUDGET: u32 = 50;

/// The cluster that tests run in.
struct TestCluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    image: String,
    /// True if the cluster has nodes, so that pods run.
    has_node: bool,
}

/// Returns the cluster if pods run in it, or `None` if no such cluster is requested.
fn cluster_with_nodes() -> Option<&'static TestCluster> {
    let found = any_cluster().filter(|lab| lab.has_node);
    if found.is_none() {
        println!("ASSAY_TEST_KUBERNETES is not `node`: nothing ran in a cluster");
    }
    found
}

/// Returns the cluster, whether pods run in it or not, or `None` if no cluster is requested. If it is requested but absent, the test
/// fails.
fn any_cluster() -> Option<&'static TestCluster> {
    static LAB: OnceLock<Option<TestCluster>> = OnceLock::new();
    let found = LAB.get_or_init(|| {
        let level = std::env::var("ASSAY_TEST_KUBERNETES").unwrap_or_default();
        if matches!(level.as_str(), "" | "off") {
            return None;
        }
        assert!(matches!(level.as_str(), "node" | "api"), "ASSAY_TEST_KUBERNETES is node, api or off");
        let value = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        let lab = TestCluster {
            kubectl: value("ASSAY_TEST_KUBECTL").into(),
            kubeconfig: value("ASSAY_TEST_KUBECONFIG").into(),
            image: value("ASSAY_TEST_IMAGE"),
            has_node: level == "node",
        };
        lab.kubectl(&["get", "--raw", "/readyz"]).success();
        Some(lab)
    });
    if found.is_none() {
        println!("ASSAY_TEST_KUBERNETES is not set: nothing ran in a cluster");
    }
    found.as_ref()
}

impl TestCluster {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).env("KUBECACHEDIR", std::env::temp_dir().join("assay-it-kubectl"));
        command
    }

    /// Runs kubectl. A test that restarts the API server may run at the same time, so a command is retried if the API server is away.
    fn kubectl(&self, arguments: &[&str]) -> CommandResult {
        wait_until("the API server responds", || {
            let ran =
                CommandResult::from_output(self.command().args(arguments).stdin(Stdio::null()).output().expect("kubectl runs"));
            let away =
                ["refused - did you", "connection refused", "connection reset", "EOF", "ServiceUnavailable", "TLS handshake"];
            (ran.code == 0 || !away.iter().any(|word| ran.stderr.contains(word))).then_some(ran)
        })
    }

    /// Runs kubectl with a document on stdin.
    fn kubectl_with(&self, arguments: &[&str], document: &str) -> CommandResult {
        use std::io::Write as _;
        let mut command = self.command();
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl");
        child.stdin.take().expect("a pipe").write_all(document.as_bytes()).expect("written");
        CommandResult::from_output(child.wait_with_output().expect("it ends"))
    }

    fn get(&self, namespace: &str, what: &[&str]) -> Value {
        let mut arguments = vec!["--namespace", namespace, "get", "--output", "json"];
        arguments.extend(what);
        self.kubectl(&arguments).success().json()
    }

    /// Returns the pods of a run in a namespace.
    fn pods(&self, namespace: &str, run: &str) -> Vec<Value> {
        self.all(namespace, &["pods", "--selector", &format!("assay.dev/run={run}")])
    }

    /// Returns an image without Assay's programs that is on the nodes: the pause image, if the nodes list it.
    fn other_image(&self) -> Option<String> {
        let nodes = self.all("default", &["nodes"]);
        let images = nodes.iter().flat_map(|node| list(&node["status"]["images"]));
        let mut names = images.flat_map(|image| list(&image["names"])).map(text);
        names.find(|name| name.contains("/pause@sha256:")).map(str::to_owned)
    }

    /// Defines a custom resource of another project, with any fields. An existing definition stays unchanged.
    fn define(&self, group: &str, kind: &str) {
        let singular = kind.to_lowercase();
        let name = format!("{singular}s.{group}");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
                "versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        let crd = format!("crd/{name}");
        if self.kubectl(&["get", &crd, "--ignore-not-found", "--output", "name"]).success().stdout.is_empty() {
            self.kubectl_with(&["create", "--filename", "-"], &definition.to_string()).success();
        }
        self.kubectl(&["wait", "--for", "condition=established", &crd, "--timeout", "60s"]).success();
    }

    /// Returns all objects that kubectl finds.
    fn all(&self, namespace: &str, what: &[&str]) -> Vec<Value> {
        list(&self.get(namespace, what)["items"]).clone()
    }
}

/// Polls the cluster until it is in the expected state.
#[track_caller]
fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {WAIT_LIMIT:?} in vain: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// An installation of Assay.
struct Installation {
    lab: &'static TestCluster,
    namespace: String,
    /// The trust policy that `assay bootstrap` printed.
    trust: String,
    secret: String,
}

/// Keeps the API server and the store up while the guard is held. A [`ClusterUser`] holds one already, and no test may take a second one: the
/// test that waits to stop them takes the lock before a second reader.
fn prevent_outage() -> RwLockReadGuard<'static, ()> {
    OUTAGE_LOCK.read().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the installation that most tests share.
fn shared_installation() -> Option<&'static Installation> {
    cluster_with_nodes()?;
    shared_installation_on_any_cluster()
}

/// Like [`shared_installation`], but pods need not run.
fn shared_installation_on_any_cluster() -> Option<&'static Installation> {
    static INSTALLED: OnceLock<Installation> = OnceLock::new();
    let lab = any_cluster()?;
    Some(INSTALLED.get_or_init(|| Installation::new(lab, &format!("it-{}", std::process::id()))))
}

impl Installation {
    fn new(lab: &'static TestCluster, namespace: &str) -> Self {
        let mut fixture = Fixture::bare();
        fixture.set("KUBECONFIG", &lab.kubeconfig);
        let bootstrap = ["bootstrap", "--namespace", namespace, "--image", &lab.image, "--store-size", "1Gi"];
        let trust = fixture.assay(&bootstrap).success().stdout;
        let store = format!("{namespace}-store");
        if lab.has_node {
            lab.kubectl(&["--namespace", &store, "rollout", "status", "deployment/assay-store", "--timeout", "180s"]).success();
        }
        // Images that stages may name: one that no node has, one that is not Assay's, and one with a shell.
        let shell = std::env::var("ASSAY_TEST_SHELL_IMAGE").ok();
        let reviewed = [Some(format!("assay.test/absent@sha256:{}", "0".repeat(64))), lab.other_image(), shell];
        let images = json!({"data": {"images": reviewed.into_iter().flatten().collect::<Vec<_>>().join("\n")}});
        lab.kubectl(&["--namespace", namespace, "patch", "configmap", "assay", "--patch", &images.to_string()]).success();
        let template = "{{.data.AWS_SECRET_ACCESS_KEY | base64decode}}";
        let secret = ["--namespace", namespace, "get", "secret", "assay-store-source", "--template", template];
        let secret = lab.kubectl(&secret).success().stdout;
        Self { lab, namespace: namespace.to_owned(), trust, secret }
    }

    /// Creates a user with a kubeconfig, credentials for the store, and the cluster's trust policy beside the user's own root. While the
    /// value exists, store and API server stay up.
    fn user(&self) -> ClusterUser<'_> {
        ClusterUser { _up: Some(prevent_outage()), ..self.user_during_outage() }
    }

    /// Like [`Installation::user`], without keeping store and API server up.
    fn user_during_outage(&self) -> ClusterUser<'_> {
        let mut fixture = Fixture::bare();
        fixture.set("KUBECONFIG", &self.lab.kubeconfig);
        fixture.set("AWS_ACCESS_KEY_ID", "source");
        fixture.set("AWS_SECRET_ACCESS_KEY", &self.secret);
        write_file(&fixture.root().join("trust.yaml"), self.trust.as_bytes());
        ClusterUser { fixture, installation: self, _up: None }
    }

    fn targets(&self) -> String {
        format!("{}-targets", self.namespace)
    }
}

/// A user who starts runs.
struct ClusterUser<'a> {
    fixture: Fixture,
    installation: &'a Installation,
    _up: Option<RwLockReadGuard<'static, ()>>,
}

impl ClusterUser<'_> {
    /// Commits a pipeline of `shards` over a chat workload with this load, and these overrides of stages.
    fn pipeline(&self, load: &str, shards: impl std::fmt::Display, overrides: &[(&str, &str)]) {
        self.fixture.write(
            "workloads/chat/workload.yaml",
            &format!(
                "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: chat}}
spec:
  type: serving
  model: simulated-8b
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  batching_policy: continuous
  stack: assay-simulator
  load: {{{load}, timeout: 60s}}
  lengths: D(20,10)
"
            ),
        );
        let overrides: BTreeMap<_, _> = overrides.iter().copied().collect();
        let stages = ["plan", "provision", "execute", "collect", "reduce", "publish"].map(|stage| {
            let usual = if stage == "execute" { "resources: {cpu: 100m, memory: 256Mi}" } else { "retries: 1" };
            format!("    - {{name: {stage}, {}}}\n", overrides.get(stage).unwrap_or(&usual))
        });
        self.fixture.write(
            PIPELINE,
            &format!(
                "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: fixture}}
spec:
  intent: exploratory
  workloads: [chat]
  targets:
    - {{name: simulator, kind: simulator, config: {{profile: fast}}}}
  trials: {{count: 1, retry_budget: {RETRY_BUDGET}}}
  shards: {shards}
  stages:
{}",
                stages.concat()
            ),
        );
        self.fixture.commit("a pipeline");
    }

    /// Sets the image of the workload.
    fn set_workload_image(&self, image: &str) {
        let path = "workloads/chat/workload.yaml";
        let workload = std::fs::read_to_string(self.fixture.repo().join(path)).expect("a workload");
        self.fixture.write(path, &format!("{workload}  image: \"{image}\"\n"));
        self.fixture.commit("an image of its own");
    }

    /// Like [`ClusterUser::pipeline`], for this target instead of a simulator.
    fn pipeline_on(&self, target: &str, load: &str) {
        self.pipeline(load, 1, &[]);
        let pipeline = std::fs::read_to_string(self.fixture.repo().join(PIPELINE)).expect("a pipeline");
        let simulator = "{name: simulator, kind: simulator, config: {profile: fast}}";
        assert!(pipeline.contains(simulator), "{pipeline}");
        self.fixture.write(PIPELINE, &pipeline.replace(simulator, target));
        self.fixture.commit("another target");
    }

    fn arguments<'b>(&'b self, run: &'b str, more: &[&'b str]) -> Vec<&'b str> {
        let mut arguments =
            vec!["run", PIPELINE, "--on", "kubernetes", "--namespace", &self.installation.namespace, "--run-id", run];
        arguments.extend(more);
        arguments
    }

    fn run(&self, run: &str, more: &[&str]) -> CommandResult {
        self.fixture.assay(&self.arguments(run, more))
    }

    fn spawn(&self, run: &str, more: &[&str]) -> Running {
        self.fixture.spawn(&self.arguments(run, more))
    }

    fn trust(&self) -> String {
        self.fixture.root().join("trust.yaml").display().to_string()
    }

    /// Runs an `assay` command about runs of the cluster.
    fn run_in_namespace(&self, words: &[&str]) -> CommandResult {
        let mut arguments = words.to_vec();
        arguments.extend(["--namespace", &self.installation.namespace]);
        self.fixture.assay(&arguments)
    }

    /// Asserts that no object of a run is left in the cluster.
    #[track_caller]
    fn assert_nothing_left(&self, run: &str) {
        for namespace in [self.installation.namespace.clone(), self.installation.targets()] {
            wait_until("everything of the run has gone", || {
                let selector = format!("assay.dev/run={run}");
                let kinds = "pods,jobs,configmaps,leases,services,deployments,statefulsets";
                let all = [kinds, "--selector", &selector];
                self.installation.lab.all(&namespace, &all).is_empty().then_some(())
            });
        }
    }

    /// Waits for a pod of a run's stage that is in this phase.
    fn wait_for_pod(&self, run: &str, stage: &str, phase: &str) -> Value {
        wait_until(&format!("a pod of {stage} is {phase}"), || {
            let pods = self.installation.lab.pods(&self.installation.namespace, run);
            pods.into_iter().find(|pod| pod["metadata"]["labels"]["assay.dev/stage"] == stage && pod["status"]["phase"] == phase)
        })
    }
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// A probe with the placement and limits of a shard measures the ceiling of one shard, or says why it could not; the next run reuses the
/// result.
#[test]
fn shards_are_counted_by_what_a_pod_like_theirs_can_make() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    // A fraction of a CPU is not a whole one, so that even this small load is measured.
    person.pipeline("mode: closed, concurrency: [3], requests: 60", "auto", &[]);
    let shards = |run: &str| {
        let ran = person.run(run, &["--keep"]).exits(21);
        let shards = person.fixture.manifest(run, "provision")["body"]["shards"].clone();
        assert!(ran.stderr.contains(text(&shards["formula"])), "progress says it: {}", ran.stderr);
        assert!(person.installation.lab.pods(&at.targets(), run).is_empty(), "the probe has gone");
        shards
    };
    let (first, second) = (shards("counted"), shards("counted-again"));
    assert_eq!(first["shards"], json!(1));
    match first["ceiling"]["value"]["concurrency"].as_u64() {
        Some(concurrency) => {
            assert_eq!(text(&first["formula"]), format!("shards: 1 = ceil(concurrency 3 / (0.5 * {concurrency}))"));
            assert!(!text(&first["ceiling"]["value"]["node"]).is_empty());
            let of = |shards: &Value, member: &str| shards["ceiling"]["value"][member].clone();
            assert_eq!((of(&second, "cached"), of(&second, "concurrency")), (json!(true), json!(concurrency)));
            assert_eq!(of(&second, "measured_at"), of(&first, "measured_at"));
        }
        // A busy machine may rightly find that it carries no load in time.
        None => assert!(text(&first["ceiling"]["how"]).contains("not even"), "{first}"),
    }
}

#[test]
fn three_shards_run_as_jobs_and_their_chain_verifies_from_outside() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [3], requests: 60", 3, &[]);
    let ran = person.run("shards", &["--keep"]).exits(21);
    assert!(ran.stdout.contains("chat.simulator.default"), "{}", ran.stdout);
    assert!(ran.stderr.contains("who signed is not established"), "{}", ran.stderr);
    assert!(ran.stderr.contains("execute 0-0-2"), "progress is shown: {}", ran.stderr);

    // The fetched copy is complete, and verifies for a reader who trusts the cluster's keys.
    let trust = person.trust();
    person.fixture.assay(&["verify", "shards", "--trust", &trust]).success();
    person.fixture.verify("shards").refuses(20, "unknown_key");
    let parts = person.fixture.pointers("shards", "execute");
    let parts: Vec<_> = parts.iter().map(|part| part.load(&person.fixture.store())).collect();
    assert_eq!(parts.len(), 3);

    // The same commit on this machine has the same plan, except for the order of its trials, and the same load.
    let pipeline_on_this_machine = person.fixture.run("here").success();
    assert!(pipeline_on_this_machine.stderr.contains("execute 0-0-2"));
    let plan = |run: &str| crate::pipeline::without_order(person.fixture.manifest(run, "plan")["body"].clone());
    assert_eq!(plan("shards"), plan("here"));
    let schedules = |part: &Value| part["body"]["schedule_digests"].clone();
    let here = person.fixture.pointers("here", "execute")[0].load(&person.fixture.store());
    assert!(parts.iter().all(|part| schedules(part) == schedules(&here)), "one schedule for all");

    // The Environment holds the node, and the image that ran.
    let environment = &person.fixture.manifest("shards", "provision")["body"];
    assert_eq!(environment["placement"]["cluster"], "kubernetes");
    let image = text(&environment["targets"][0]["image"]["reference"]);
    assert!(at.lab.image.ends_with(image.rsplit('@').next().expect("a digest")), "{image}");

    // The cluster's description is evidence: every pod with its UID and its node, and the readings of each.
    let evidence = text(&person.fixture.manifest("shards", "collect")["body"]["evidence"]["digest"]).to_owned();
    let read = |digest: &str| -> Value {
        let bytes = std::fs::read(crate::support::blob(&person.fixture.store(), digest)).expect("a blob");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let evidence = read(&evidence);
    let of = |name: &str| {
        let found = list(&evidence).iter().find(|artifact| artifact["name"] == name).expect(name);
        list(&read(text(&found["digest"]))).clone()
    };
    let pods = of("cluster/pods.json");
    let is_load = |pod: &&Value| pod["metadata"]["labels"]["assay.dev/stage"] == "execute";
    assert_eq!(pods.iter().filter(is_load).filter(|pod| pod["metadata"]["uid"].is_string()).count(), 3);
    let target = read(text(
        &list(&evidence).iter().find(|artifact| artifact["name"] == "readings/pod-simulator.json").expect("a reading")["digest"],
    ));
    assert_eq!(target["metadata"]["labels"]["assay.dev/target"], "simulator");
    assert!(of("cluster/events.json").iter().any(|event| event["reason"] == "Scheduled"));
    assert_eq!(of("cluster/nodes.json")[0]["metadata"]["name"], pods[0]["spec"]["nodeName"]);
    assert!(of("cluster/jobs.json").len() > 3);

    // Every attempt names its pod and node, and so do the tables: SQL returns what the cluster reported.
    let of_load: BTreeMap<&str, &Value> = pods.iter().filter(is_load).map(|pod| (text(&pod["metadata"]["uid"]), pod)).collect();
    let store = person.store();
    let ask = |sql: &str| -> Vec<Value> {
        let asked = ["query", sql, "--store", &store.uri, "--trust", &trust, "--format", "json"];
        let rows = person.fixture.assay(&asked).success().stdout;
        rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect()
    };
    let measured =
        ask("SELECT DISTINCT a.shard, a.pod_uid, a.job_uid, a.node_name, a.pod_name, p.stage, p.shard AS of_pod, p.image_id,
            p.attempts, p.scheduling_ns, p.queueing_ns, p.restarts
        FROM attempts a JOIN pods p ON p.run_id = a.run_id AND p.pod_uid = a.pod_uid
        WHERE a.run_id = 'shards' AND a.counted ORDER BY a.shard");
    assert_eq!(measured.len(), 3, "{measured:?}");
    for (shard, row) in measured.iter().enumerate() {
        let pod = of_load.get(text(&row["pod_uid"])).expect("one of the load pods");
        assert_eq!((&row["node_name"], &row["pod_name"]), (&pod["spec"]["nodeName"], &pod["metadata"]["name"]));
        assert_eq!(row["job_uid"], pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"]);
        assert_eq!(
            (row["shard"].as_u64(), row["of_pod"].as_u64(), text(&row["stage"])),
            (Some(shard as u64), Some(shard as u64), "execute")
        );
        assert_eq!(row["image_id"], pod["status"]["containerStatuses"][0]["imageID"]);
        assert!(row["attempts"].as_u64() >= Some(1) && row["restarts"] == 0, "{row}");
        assert!(row["scheduling_ns"].is_number() && row["queueing_ns"].is_number(), "{row}");
    }
    let nodes = ask(
        "SELECT DISTINCT node_name, pod_uid IS NULL AS of_three FROM outcome_fact WHERE run_id = 'shards' AND trial_id IS NOT NULL",
    );
    assert_eq!(nodes, [json!({"node_name": pods[0]["spec"]["nodeName"], "of_three": true})], "one node, and no one pod");
    let hosts = ask("SELECT DISTINCT scope_id, node_name FROM telemetry WHERE run_id = 'shards' AND scope_kind = 'host'");
    assert!(hosts.iter().all(|host| host["scope_id"] == host["node_name"]), "the recorder's node: {hosts:?}");
    let path = ask("SELECT DISTINCT scheduler_path FROM runs WHERE run_id = 'shards'");
    assert_eq!(path, [json!({"scheduler_path": "kubernetes"})]);
    // A cluster of one node has its load beside the target, which the Summary reports.
    let issues = person.fixture.manifest("shards", "reduce")["body"]["issues"].clone();
    let beside = list(&issues).iter().any(|issue| issue["code"] == "colocated");
    assert_eq!(
        beside,
        of_load.values().any(|pod| pod["spec"]["nodeName"] == environment["placement"]["node/simulator"]),
        "{issues}"
    );
    person.fixture.assay(&["verify", "shards", "--trust", &trust, "--recompute"]).success();

    // One Job for each call, none of them twice; deleting the root deletes all objects of the run.
    let jobs = at.lab.all(&at.namespace, &["jobs", "--selector", "assay.dev/run=shards"]);
    let mut stages: Vec<_> = jobs.iter().map(|job| text(&job["metadata"]["labels"]["assay.dev/stage"])).collect();
    stages.sort_unstable();
    assert_eq!(stages, ["collect", "driver", "execute", "plan", "provision", "publish", "reduce"], "the recorder's is gone");
    assert!(at.lab.pods(&at.targets(), "shards").is_empty(), "the target is released");
    let again = person.run("shards", &["--trust", &trust]).success();
    assert!(again.stdout.contains("assay verify shards"), "a finished run shows its result: {}", again.stdout);
    let times = person.fixture.assay(&["show", "shards", "--trust", &trust, "--json"]).success().json()["times"].clone();
    for stage in list(&times["drivers"][0]["stages"]).iter().filter(|stage| stage["stage"] != "record") {
        assert!(stage["waiting_ns"].is_u64() && stage["pulling_ns"].is_u64(), "the cluster states both: {stage}");
        assert_eq!(stage["shards"], json!(if stage["stage"] == "execute" { 3 } else { 1 }), "{stage}");
    }
    person.assert_nothing_left("shards");
}

#[test]
fn one_shard_has_a_whole_cpu_of_its_own() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [2], requests: 200", 1, &[("execute", "retries: 1")]);
    let run = person.spawn("guaranteed", &["--trust", &person.trust()]);
    let pod = person.wait_for_pod("guaranteed", "execute", "Running");
    assert_eq!(pod["status"]["qosClass"], "Guaranteed");
    let spec = &pod["spec"];
    // The stage lists the pods of its target, with a token in its own container alone.
    assert_eq!(spec["automountServiceAccountToken"], json!(false));
    let has_token = |mount: &Value| mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount";
    let all_mounts = spec.to_string().matches("/var/run/secrets/kubernetes.io/serviceaccount").count();
    assert!(list(&spec["containers"][0]["volumeMounts"]).iter().any(has_token) && all_mounts == 1, "{spec}");
    assert_eq!(spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"], json!(true));
    run.finish().success();
    person.assert_nothing_left("guaranteed");
}

#[test]
fn a_run_is_left_to_itself_watched_and_cancelled() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [1], duration: 120s", 1, &[]);
    let started = person.run("detached", &["--detach"]).success();
    assert!(started.stdout.contains("assay attach detached --namespace"), "{}", started.stdout);
    person.wait_for_pod("detached", "execute", "Running");
    let status = person.run_in_namespace(&["status", "detached"]).success().stdout;
    assert!(status.contains("execute") && status.contains("running") && status.contains(PIPELINE), "{status}");
    let all = person.run_in_namespace(&["status", "--json"]).success().json();
    assert!(list(&all["jobs"]).iter().any(|job| job["run"] == "detached" && job["state"] == "running"), "{all}");
    wait_until("the trial's start is in the log", || {
        let logs = person.run_in_namespace(&["logs", "detached", "execute"]).success().stdout;
        logs.contains("trial_started").then_some(())
    });

    let attached = person.fixture.spawn(&["attach", "detached", "--namespace", &at.namespace]);
    person.run_in_namespace(&["cancel", "detached", "--reason", "no longer of interest"]).success();
    let watched = attached.finish().exits(50);
    assert!(watched.stderr.contains("no longer of interest"), "{}", watched.stderr);
    // It ended early, and the end is signed.
    assert!(at.lab.pods(&at.targets(), "detached").is_empty(), "the target is released");
    let resumed = person.run("detached", &["--detach"]).success();
    assert!(resumed.stdout.contains("assay attach detached"), "a cancelled run may be taken up again");
    person.wait_for_pod("detached", "execute", "Running");
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", "assay-detached"]).success();
    person.assert_nothing_left("detached");
    // A reader of the store finds both ends, signed.
    let store = person.store();
    let verified = person.fixture.assay(&["verify", "detached", "--store", &store.uri, "--trust", &person.trust()]);
    let ends: Vec<_> = verified.stdout.lines().filter(|line| line.contains("run_end")).collect();
    assert_eq!(ends.len(), 2, "cancelled by a mark, and by taking its root away: {verified:?}");
}

/// A port of this machine that kubectl forwards to a cluster's store.
struct StorePort {
    uri: String,
    forwarder: std::process::Child,
    /// Held open, because kubectl ends when its stdout is closed.
    _stdout: std::io::BufReader<std::process::ChildStdout>,
}

impl Drop for StorePort {
    fn drop(&mut self) {
        let _ = self.forwarder.kill();
        let _ = self.forwarder.wait();
    }
}

impl ClusterUser<'_> {
    fn store(&self) -> StorePort {
        use std::io::BufRead as _;
        let namespace = format!("{}-store", self.installation.namespace);
        let mut command = self.installation.lab.command();
        command.args(["--namespace", &namespace, "port-forward", "service/assay-store", ":8420"]);
        let mut forwarder = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let mut said = std::io::BufReader::new(forwarder.stdout.take().expect("a pipe"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port").to_owned();
        StorePort { uri: format!("s3://assay?endpoint=http://127.0.0.1:{port}"), forwarder, _stdout: said }
    }
}

/// Faults of a cluster are named; each case has the stage and the override that cause it.
#[test]
fn what_a_cluster_does_to_a_stage_is_named() {
    let Some(at) = shared_installation() else { return };
    let absent = format!("retries: 0, image: \"assay.test/absent@sha256:{}\"", "0".repeat(64));
    let cases = [
        // Unlocking its key alone takes 64 MiB.
        ("memory", "plan", "retries: 0, resources: {memory: 40Mi}", "300", "out_of_memory", "killed at its memory limit of 40Mi"),
        (
            "nowhere",
            "plan",
            "retries: 0, placement: {node_selector: {assay.dev/absent: \"true\"}}",
            "5",
            "unschedulable",
            "0/1 nodes are available",
        ),
        // Other tests may keep the node full for a while, so this pod may wait longer.
        ("image", "plan", &absent, "60", "image_pull", "assay.test/absent@sha256:0000"),
        (
            "late",
            "provision",
            // Its work is to start another pod, and to wait for it.
            "retries: 0, timeout: 1s",
            "300",
            "stage_timeout",
            "ran into its time limit",
        ),
    ];
    for (run, stage, faulty, limit, code, said) in cases {
        let person = at.user();
        person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[(stage, faulty)]);
        let ran = person.run(run, &["--start-limit", limit]).refuses(30, code);
        assert!(ran.stderr.contains(said), "{run}: {}", ran.stderr);
        let status = person.run_in_namespace(&["status", run]).success().stdout;
        assert!(status.contains("failed") && status.contains(code), "{run}: {status}");
        at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", &format!("assay-{run}")]).success();
        person.assert_nothing_left(run);
    }
}

/// Follows the first run of the page, in namespaces of this test.
#[test]
fn the_first_run_of_the_page_is_followed_to_its_end() {
    let Some(lab) = cluster_with_nodes() else { return };
    let up = prevent_outage();
    let own = format!("it-page-{}", std::process::id());
    let page = include_str!("../../docs/kubernetes.md");
    let here = |page: String, words: &str| page.replace(&format!("\n{words} "), &format!("\n{words} --namespace {own} "));
    let page = ["assay bootstrap", "assay status", "assay cancel"].into_iter().fold(page.to_owned(), here);
    let page = page.replace("--on kubernetes --run-id", &format!("--on kubernetes --namespace {own} --run-id"));
    let page = page.replace("--namespace assay-store rollout", &format!("--namespace {own}-store rollout"));
    let blocks: Vec<_> =
        blocks(&page).into_iter().filter(|block| block.purpose == "run" || block.purpose.starts_with("file=")).collect();
    assert!(blocks.len() >= 7, "the page has its steps");
    let mut fixture = Fixture::bare();
    fixture.set("KUBECONFIG", &lab.kubeconfig);
    fixture.set("image", &lab.image);
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        fixture.set(name, "reader@example.org");
    }
    let mut reader = Reader::new(&fixture);
    let tools = lab.kubectl.parent().expect("kubectl lies in a folder").to_owned();
    reader.tools = Some(tools);
    for block in &blocks {
        reader.follow(block);
    }
    assert!(reader.folder.join("first/.assay/runs/first/source").is_file(), "the finished run is here");
    for name in [own.clone(), format!("{own}-targets"), format!("{own}-store")] {
        lab.kubectl(&["delete", "namespace", &name, "--wait=false"]).success();
    }
    lab.kubectl(&["delete", "clusterrole,clusterrolebinding", &format!("assay-nodes-{own}")]).success();
    drop(up);
}

/// With `--bootstrap`, a missing namespace is created for a run and removed with it; an existing one stays.
#[test]
fn a_namespace_that_was_made_for_a_run_goes_with_it() {
    let Some(at) = shared_installation() else { return };
    let mut person = at.user();
    // A user who may install may also read the credentials for the store.
    person.fixture.unset("AWS_ACCESS_KEY_ID");
    person.fixture.unset("AWS_SECRET_ACCESS_KEY");
    person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[]);
    // No other test queries the tables of this store: they will hold rows of a signer that its policy does not know.
    let keeper = Installation::new(at.lab, &format!("{}-keeper", at.namespace));
    let own = format!("{}-brief", at.namespace);
    let (targets, store) = (format!("{own}-targets"), format!("{}-store", keeper.namespace));
    let run = |id: &str, more: &[&str]| {
        let mut words = vec!["run", PIPELINE, "--on", "kubernetes", "--namespace", &own, "--run-id", id];
        words.extend(["--bootstrap", "--image", &at.lab.image]);
        words.extend(more);
        person.fixture.assay(&words)
    };
    let is_there = |what: &[&str]| {
        let mut words = vec!["get", "--ignore-not-found", "--output", "name"];
        words.extend(what);
        !at.lab.kubectl(&words).success().stdout.is_empty()
    };

    // Its results must not be removed with it.
    run("brief", &[]).refuses(2, "temporary_store");
    assert!(!is_there(&["namespace", &own]), "nothing is made for a run that is refused");

    at.lab.kubectl(&["create", "namespace", &targets]).success();
    let ran = run("brief", &["--store-namespace", &store]).exits(21);
    assert!(ran.stderr.contains(&format!("namespace  {own} was not there")), "{}", ran.stderr);
    assert!(ran.stderr.contains("kind: TrustPolicy"), "its policy is shown: {}", ran.stderr);
    wait_until("what was made has gone", || {
        let (nodes, removal) = (format!("assay-nodes-{own}"), format!("assay-remove-{own}"));
        let policy = format!("assay-store-{own}");
        let gone = !is_there(&["namespace", &own])
            && !is_there(&["clusterrole,clusterrolebinding", &nodes, &removal])
            && !is_there(&["--namespace", &store, "networkpolicy", &policy])
            && !is_there(&["--namespace", &targets, "role,rolebinding", "assay-driver", "assay-execute", "assay-provision"]);
        gone.then_some(())
    });
    assert!(is_there(&["namespace", &targets]), "what was there before stays");

    // The client need not wait for the removal: the driver removes the namespace as its last act, also if the run has failed.
    at.lab.kubectl(&["delete", "namespace", &targets]).success();
    person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[("plan", "retries: 0, timeout: 1s")]);
    let left = run("briefly", &["--store-namespace", &store, "--detach"]).success();
    assert!(left.stdout.contains("assay attach briefly"), "{}", left.stdout);
    wait_until("the driver has removed what was made", || {
        (!is_there(&["namespace", &own]) && !is_there(&["namespace", &targets])).then_some(())
    });

    // A temporary store is removed as well, once the run is fetched.
    person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[]);
    let to = person.fixture.root().join("fetched").display().to_string();
    run("whole", &["--fetch-to", &to, "--store-size", "1Gi"]).exits(21);
    wait_until("the store has gone too", || {
        let names = [own.clone(), format!("{own}-targets"), format!("{own}-store")];
        names.iter().all(|name| !is_there(&["namespace", name])).then_some(())
    });
    person.fixture.assay(&["verify", "whole", "--store", &to]).refuses(20, "unknown_key");
}

/// Load waits until its queue admits it. If the queue does not admit it, the targets are released; the admission is kept as evidence. The
/// test acts as the queue, in the way of an older Kueue: a real Kueue has its own tests.
#[test]
fn load_waits_in_its_queue_and_gives_up() {
    let Some(at) = shared_installation() else { return };
    if has_kueue() {
        println!("ASSAY_TEST_KUEUE is set: nothing stood in for Kueue");
        return;
    }
    let person = at.user();
    at.lab.define("kueue.x-k8s.io", "Workload");
    person.pipeline("mode: closed, concurrency: [1], requests: 20", 1, &[]);
    person.run("queued", &["--queue", "busy", "--start-limit", "5"]).refuses(30, "queue");
    assert!(at.lab.pods(&at.targets(), "queued").is_empty(), "the target is released");

    let run = person.spawn("queued", &["--queue", "busy", "--trust", &person.trust()]);
    let target = wait_until("the target is up again", || at.lab.pods(&at.targets(), "queued").pop());
    assert_eq!(target["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "busy");
    let selector = "assay.dev/run=queued,assay.dev/stage=execute";
    let job = wait_until("load waits", || {
        let jobs = at.lab.all(&at.namespace, &["jobs", "--selector", selector]);
        jobs.into_iter().find(|job| job["spec"]["suspend"] == true && job["metadata"]["deletionTimestamp"].is_null())
    });
    assert_eq!(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "busy");
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]});
    let admitted = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"name": "job-queued", "namespace": at.namespace, "ownerReferences": [owner]},
        "spec": {"queueName": "busy"},
    });
    at.lab.kubectl_with(&["create", "--filename", "-"], &admitted.to_string()).success();
    let patch = ["--namespace", &at.namespace, "patch", "job", name_of(&job), "--patch", "{\"spec\":{\"suspend\":false}}"];
    at.lab.kubectl(&patch).success();
    run.finish().success();
    let evidence = text(&person.fixture.manifest("queued", "collect")["body"]["evidence"]["digest"]).to_owned();
    let bytes = std::fs::read(crate::support::blob(&person.fixture.store(), &evidence)).expect("a blob");
    assert!(String::from_utf8_lossy(&bytes).contains("cluster/workloads.json"), "what the queue said is kept");
    let summary = person.fixture.manifest("queued", "reduce");
    let tables: Vec<_> = list(&summary["body"]["files"]).iter().map(|file| text(&file["table"])).collect();
    assert!(tables.contains(&"cluster_event_fact"), "the events of its pods have rows: {tables:?}");
    person.assert_nothing_left("queued");
}

/// Returns true if the cluster has a real Kueue.
fn has_kueue() -> bool {
    std::env::var_os("ASSAY_TEST_KUEUE").is_some()
}

/// Returns the installation, if the cluster has a real Kueue.
fn kueue_installation() -> Option<&'static Installation> {
    let at = shared_installation().filter(|_| has_kueue());
    if at.is_none() {
        println!("ASSAY_TEST_KUEUE is not set: nothing waited in a queue of Kueue's");
    }
    at
}

impl Installation {
    /// Creates a Kueue queue for targets and load, with a quota of `cpu`.
    fn queue(&self, name: &str, cpu: &str) -> Queue<'_> {
        let of_cluster = format!("{}-{name}", self.namespace);
        let version = "kueue.x-k8s.io/v1beta2";
        let object = |kind: &str, metadata: Value, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        let room = [("cpu", cpu), ("memory", "4Gi"), ("pods", "10")];
        let room = room.map(|(name, quota)| json!({"name": name, "nominalQuota": quota}));
        let flavor = json!({"name": of_cluster, "resources": room});
        let groups = json!([{"coveredResources": ["cpu", "memory", "pods"], "flavors": [flavor]}]);
        let local = |namespace: &str| {
            object("LocalQueue", json!({"name": name, "namespace": namespace}), json!({"clusterQueue": of_cluster}))
        };
        let objects = [
            object("ResourceFlavor", json!({"name": of_cluster}), json!({})),
            object("ClusterQueue", json!({"name": of_cluster}), json!({"namespaceSelector": {}, "resourceGroups": groups})),
            local(&self.namespace),
            local(&self.targets()),
        ];
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.lab.kubectl_with(&["apply", "--server-side", "--filename", "-"], &objects.to_string()).success();
        Queue { installation: self, of_cluster }
    }
}

/// A queue; its cluster-wide objects are deleted when it is dropped.
struct Queue<'a> {
    installation: &'a Installation,
    of_cluster: String,
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        let kinds = ["clusterqueue", "resourceflavor"].map(|kind| format!("{kind}/{}", self.of_cluster));
        let mut command = self.installation.lab.command();
        command.args(["delete", "--ignore-not-found", "--wait=false"]).args(kinds).stdin(Stdio::null());
        // This may run at the end of a failed test.
        drop(command.output());
    }
}

/// Reads one document of a run's evidence.
fn read_evidence(person: &ClusterUser<'_>, run: &str, name: &str) -> Value {
    let read = |digest: &Value| -> Value {
        let bytes = std::fs::read(crate::support::blob(&person.fixture.store(), text(digest))).expect("a blob");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let evidence = read(&person.fixture.manifest(run, "collect")["body"]["evidence"]["digest"]);
    let found = list(&evidence).iter().find(|artifact| artifact["name"] == name);
    read(&found.unwrap_or_else(|| panic!("no {name}: {evidence}"))["digest"])
}

/// Returns the types of the true conditions of Kueue's Workload for a run's load.
fn workload_conditions(person: &ClusterUser<'_>, run: &str) -> Vec<String> {
    let workloads = read_evidence(person, run, "cluster/workloads.json");
    let jobs = read_evidence(person, run, "cluster/jobs.json");
    let job = list(&jobs).iter().find(|job| job["metadata"]["labels"]["assay.dev/stage"] == "execute").expect("execute's Job");
    let is_its = |workload: &&Value| workload["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"];
    let workload = list(&workloads).iter().find(is_its).expect("its Workload");
    assert_eq!(workload["apiVersion"], "kueue.x-k8s.io/v1beta2");
    let conditions = list(&workload["status"]["conditions"]).iter().filter(|condition| condition["status"] == "True");
    conditions.map(|condition| text(&condition["type"]).to_owned()).collect()
}

/// Kueue admits what fits into the quota of a queue, targets first; other load is given up with Kueue's reason, and continues in another
/// queue.
#[test]
fn kueue_admits_what_a_queue_has_room_for() {
    let Some(at) = kueue_installation() else { return };
    let person = at.user();
    let _queues = [at.queue("roomy", "1"), at.queue("tight", "50m")];
    person.pipeline("mode: closed, concurrency: [1], requests: 20", 1, &[]);
    let trust = person.trust();
    person.run("roomy", &["--queue", "roomy", "--trust", &trust]).success();
    let said = workload_conditions(&person, "roomy");
    assert!(["QuotaReserved", "Admitted"].iter().all(|word| said.iter().any(|said| said == word)), "{said:?}");
    let target = read_evidence(&person, "roomy", "readings/pod-simulator.json");
    assert_eq!(target["metadata"]["labels"]["kueue.x-k8s.io/managed"], "true", "the target was Kueue's to admit: {target}");
    let store = person.store();
    let sql = "SELECT DISTINCT queue, queueing_ns IS NULL AS unknown FROM pods WHERE run_id = 'roomy' AND stage = 'execute'";
    let asked = ["query", sql, "--store", &store.uri, "--trust", &trust, "--format", "json"];
    assert_eq!(person.fixture.assay(&asked).success().json(), json!({"queue": "roomy", "unknown": false}));
    person.assert_nothing_left("roomy");

    // The target requests no resources, so it is admitted, and load is not.
    let tight = person.run("tight", &["--queue", "tight", "--start-limit", "10"]).refuses(30, "queue");
    assert!(tight.stderr.contains("execute: it waits in its queue to be admitted: "), "{}", tight.stderr);
    assert!(tight.stderr.contains("insufficient quota for cpu"), "{}", tight.stderr);
    assert!(at.lab.pods(&at.targets(), "tight").is_empty(), "the target is released");
    person.run("tight", &["--queue", "roomy", "--trust", &trust]).success();
    person.assert_nothing_left("tight");

    let nowhere = person.run("queueless", &["--queue", "nowhere", "--start-limit", "10"]).refuses(30, "queue");
    assert!(nowhere.stderr.contains("LocalQueue nowhere doesn't exist"), "{}", nowhere.stderr);
    assert!(at.lab.pods(&at.targets(), "queueless").is_empty(), "what was never admitted has gone");
}

/// A queue may evict admitted load: load is stopped, waits again, and its trial is measured anew.
#[test]
fn load_that_kueue_evicts_is_measured_anew() {
    let Some(at) = kueue_installation() else { return };
    let person = at.user();
    let _queue = at.queue("fickle", "1");
    person.pipeline("mode: closed, concurrency: [1], requests: 1500", 1, &[]);
    let trust = person.trust();
    let run = person.spawn("evicted", &["--queue", "fickle", "--trust", &trust]);
    let first = person.wait_for_pod("evicted", "execute", "Running");
    let selector = format!("kueue.x-k8s.io/job-uid={}", text(&first["metadata"]["ownerReferences"][0]["uid"]));
    let workload = wait_until("its Workload", || at.lab.all(&at.namespace, &["workloads", "--selector", &selector]).pop());
    let set = |active: bool| {
        let patch = json!({"spec": {"active": active}}).to_string();
        let patch = ["--namespace", &at.namespace, "patch", "workload", name_of(&workload), "--type", "merge", "--patch", &patch];
        at.lab.kubectl(&patch).success();
    };
    set(false);
    let is_load = |pod: &Value| pod["metadata"]["labels"]["assay.dev/stage"] == "execute";
    wait_until("load has been stopped", || (!at.lab.pods(&at.namespace, "evicted").iter().any(is_load)).then_some(()));
    let status = person.run_in_namespace(&["status", "evicted"]).success().stdout;
    assert!(status.contains("it waits in its queue to be admitted"), "{status}");
    set(true);
    run.finish().success();
    let pods = read_evidence(&person, "evicted", "cluster/pods.json");
    let load: Vec<_> = list(&pods).iter().filter(|pod| is_load(pod)).collect();
    assert_eq!(load.len(), 1, "one pod is left: {pods}");
    assert_ne!(load[0]["metadata"]["uid"], first["metadata"]["uid"]);
    assert!(workload_conditions(&person, "evicted").iter().any(|said| said == "Requeued"));
    let store = person.store();
    let sql = "SELECT DISTINCT pod_uid FROM attempts WHERE run_id = 'evicted' AND counted";
    let asked = ["query", sql, "--store", &store.uri, "--trust", &trust, "--format", "json"];
    assert_eq!(person.fixture.assay(&asked).success().json(), json!({"pod_uid": load[0]["metadata"]["uid"]}));
    person.assert_nothing_left("evicted");
}

/// An installation removes objects that it does not know, so no two installations bring their targets up in one namespace.
#[test]
fn two_installations_do_not_share_a_namespace_for_targets() {
    let Some(at) = shared_installation_on_any_cluster() else { return };
    let _up = prevent_outage();
    let other = format!("{}-other", at.namespace);
    let mut fixture = Fixture::bare();
    fixture.set("KUBECONFIG", &at.lab.kubeconfig);
    let targets = at.targets();
    let words = ["bootstrap", "--namespace", &other, "--targets-namespace", &targets, "--image", &at.lab.image];
    fixture.assay(&words).refuses(30, "targets_shared");
    assert_eq!(at.lab.kubectl(&["get", "namespace", &other, "--ignore-not-found"]).success().stdout, "", "nothing was made");
}

/// An exceeded quota is named, in a namespace that its owner has created and keeps.
#[test]
fn a_quota_that_is_used_up_is_named() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[]);
    let (own, store) = (format!("{}-full", at.namespace), format!("{}-store", at.namespace));
    at.lab.kubectl(&["create", "namespace", &own]).success();
    at.lab.kubectl(&["--namespace", &own, "create", "quota", "drivers-alone", "--hard=pods=1"]).success();
    let words = ["run", PIPELINE, "--on", "kubernetes", "--namespace", &own, "--run-id", "full", "--start-limit", "5"];
    let made = ["--bootstrap", "--image", &at.lab.image, "--store-namespace", &store];
    let ran = person.fixture.assay(&[&words[..], &made[..]].concat()).refuses(30, "quota");
    assert!(ran.stderr.contains("drivers-alone"), "{}", ran.stderr);
    at.lab.kubectl(&["get", "namespace", &own]).success();
    wait_until("what was made for the run has gone", || {
        let targets = format!("{own}-targets");
        at.lab.kubectl(&["get", "namespace", &targets, "--ignore-not-found"]).success().stdout.is_empty().then_some(())
    });
    at.lab.kubectl(&["delete", "namespace", &own, "--wait=false"]).success();
    at.lab.kubectl(&["delete", "clusterrole,clusterrolebinding", &format!("assay-nodes-{own}")]).success();
    let right = at.lab.kubectl(&["get", "clusterrole", &format!("assay-remove-{own}"), "--ignore-not-found"]).success();
    assert_eq!(right.stdout, "", "the right to remove the targets' namespace has gone with it");
}

/// Overrides of execute's pods in a pipeline.
const POD: &str = "env: [{name: GREETING, value: \"$(ASSAY_STORE)\"}], \
    tolerations: [{key: assay.dev/taint, operator: Exists, effect: NoSchedule}], \
    affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [\
        {key: kubernetes.io/os, operator: In, values: [linux]}]}]}}}, \
    volumes: [{name: data, emptyDir: {}}], volumeMounts: [{name: data, mountPath: /data}], \
    securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}";

/// Execute runs in an image without Assay's programs, because its workload names it. The programs are copied into its pods, which have
/// the overrides of the pipeline.
#[test]
fn a_workload_runs_in_an_image_of_its_own() {
    let Some(at) = shared_installation() else { return };
    let Some(image) = at.lab.other_image() else {
        println!("the nodes name no other image: no workload ran in one of its own");
        return;
    };
    let person = at.user();
    let asked = format!("resources: {{cpu: 100m, memory: 256Mi}}, pod: {{{POD}}}");
    person.pipeline("mode: closed, concurrency: [1], requests: 20", 1, &[("execute", &asked)]);
    person.set_workload_image(&image);
    person.run("own-image", &["--trust", &person.trust(), "--keep"]).success();
    let pod = person.wait_for_pod("own-image", "execute", "Succeeded");
    let spec = &pod["spec"];
    let (before, container) = (&spec["initContainers"][0], &spec["containers"][0]);
    assert_eq!((text(&container["image"]), text(&before["image"])), (image.as_str(), at.lab.image.as_str()));
    assert!(list(&before["volumeMounts"]).iter().all(|mount| mount["name"] == "programs"), "it has no key: {before}");
    assert!(list(&container["env"]).contains(&json!({"name": "GREETING", "value": "$$(ASSAY_STORE)"})), "{container}");
    assert!(list(&container["volumeMounts"]).iter().any(|mount| mount["mountPath"] == "/data"), "{container}");
    assert_eq!((&spec["securityContext"]["runAsUser"], &spec["securityContext"]["runAsNonRoot"]), (&json!(1000), &json!(true)));
    assert!(list(&spec["tolerations"]).iter().any(|toleration| toleration["key"] == "assay.dev/taint"), "{spec}");
    let affinity = &spec["affinity"]["nodeAffinity"];
    assert!(affinity["requiredDuringSchedulingIgnoredDuringExecution"].is_object(), "what is asked for: {affinity}");
    assert!(affinity["preferredDuringSchedulingIgnoredDuringExecution"].is_array(), "and away from the target: {affinity}");
    person.fixture.assay(&["verify", "own-image", "--trust", &person.trust()]).success();

    // The place of the run is not part of the measured work: on this machine the plan is the same, except for the order of its trials.
    person.fixture.run("own-here").success();
    let plan = |run: &str| crate::pipeline::without_order(person.fixture.manifest(run, "plan")["body"].clone());
    assert_eq!(plan("own-image"), plan("own-here"));
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", "assay-own-image"]).success();
    person.assert_nothing_left("own-image");
}

/// One block has one image, and execute's key is not mounted into an unreviewed one: both are refused before a target is brought up.
#[test]
fn an_image_that_cannot_be_is_refused_before_anything_is_brought_up() {
    let Some(at) = shared_installation() else { return };
    let absent = format!("assay.test/absent@sha256:{}", "0".repeat(64));
    let of_stage = format!("image: \"{absent}\"");
    let unreviewed = format!("assay.test/foreign@sha256:{}", "1".repeat(64));
    for (run, of_stage, of_workload, code) in [
        ("two-images", of_stage.as_str(), &unreviewed, "workload_image"),
        ("unreviewed", "retries: 1", &unreviewed, "stage_image"),
    ] {
        let person = at.user();
        person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[("execute", of_stage)]);
        person.set_workload_image(of_workload);
        person.run(run, &[]).refuses(10, code);
        let jobs = at.lab.all(&at.namespace, &["jobs", "--selector", &format!("assay.dev/run={run}")]);
        let mut stages: Vec<_> = jobs.iter().map(|job| text(&job["metadata"]["labels"]["assay.dev/stage"])).collect();
        stages.sort_unstable();
        assert_eq!(stages, ["driver", "plan"], "{run}");
        at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", &format!("assay-{run}")]).success();
        person.assert_nothing_left(run);
    }
}

/// A run that failed before its first trial has released its target. Resuming it measures another one, with a new incarnation.
#[test]
fn a_target_that_was_released_is_brought_up_anew() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    let label = format!("assay.dev/{}", at.namespace);
    let load =
        format!("retries: 0, resources: {{cpu: 100m, memory: 256Mi}}, placement: {{node_selector: {{{label}: \"true\"}}}}");
    person.pipeline("mode: closed, concurrency: [1], requests: 20", 1, &[("execute", &load)]);
    person.run("again", &["--start-limit", "5"]).refuses(30, "unschedulable");
    assert!(at.lab.pods(&at.targets(), "again").is_empty(), "the target is released");
    let nodes = at.lab.all("default", &["nodes"]);
    at.lab.kubectl(&["label", "node", name_of(&nodes[0]), &format!("{label}=true")]).success();
    person.run("again", &["--trust", &person.trust()]).success();
    let environments = person.fixture.pointers("again", "provision");
    let mut incarnations: Vec<_> = environments
        .iter()
        .map(|pointer| pointer.load(&person.fixture.store())["body"]["block"]["incarnation"].as_u64().expect("a number"))
        .collect();
    incarnations.sort_unstable();
    assert_eq!(incarnations, [0, 1]);
    person.fixture.assay(&["verify", "again", "--trust", &person.trust()]).success();
    person.assert_nothing_left("again");
}

/// A pod that is deleted during a trial is replaced by its Job; its attempt does not count.
#[test]
fn a_pod_that_is_lost_ends_its_attempt_and_not_the_run() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [2], duration: 30s", 2, &[]);
    let run = person.spawn("lost", &["--trust", &person.trust(), "--keep"]);
    person.wait_for_load("lost");
    let pods = at.lab.pods(&at.namespace, "lost");
    let of_index = |pod: &&Value| pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1";
    let pod = pods.iter().find(of_index).expect("the second shard");
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "pod", name_of(pod), "--grace-period=0", "--force"]).success();
    run.finish().success();
    let driver = person.run_in_namespace(&["logs", "lost", "driver"]);
    assert!(driver.stdout.contains("broken off: its pod has gone"), "the driver has seen it first: {}", driver.stdout);
    for part in person.fixture.pointers("lost", "execute") {
        let part = part.load(&person.fixture.store());
        let attempts = list(&part["body"]["attempts"]);
        assert!(attempts.len() > 1, "{part}");
        assert_eq!(attempts.last().expect("another")["validity"]["valid"], json!(true));
    }
    person.fixture.assay(&["verify", "lost", "--trust", &person.trust()]).success();
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", "assay-lost"]).success();
    person.assert_nothing_left("lost");
}

/// An attempt of a run.
#[derive(Debug)]
struct AttemptEnd {
    incarnation: u64,
    trial: String,
    is_valid: bool,
    reasons: Vec<String>,
}

impl ClusterUser<'_> {
    /// Waits until load of a run has begun.
    fn wait_for_load(&self, run: &str) {
        self.wait_for_events(run, "\"event\":\"load\"", 5);
    }

    /// Waits until the present load pods of a run have reported so many events.
    fn wait_for_events(&self, run: &str, event: &str, count: usize) {
        wait_until(&format!("{count} events {event}"), || {
            let said = self.run_in_namespace(&["logs", run, "execute"]);
            (said.code == 0 && said.stdout.matches(event).count() >= count).then_some(())
        });
    }

    /// Deletes a pod of a run's target, without grace, once it runs, and returns its UID.
    fn delete_target_pod(&self, run: &str) -> String {
        let targets = self.installation.targets();
        let is_up = |pod: &Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        let pod = wait_until("the target is up", || self.installation.lab.pods(&targets, run).into_iter().find(is_up));
        let delete = ["--namespace", &targets, "delete", "pod", name_of(&pod), "--grace-period=0", "--force"];
        self.installation.lab.kubectl(&delete).success();
        text(&pod["metadata"]["uid"]).to_owned()
    }

    /// Returns all attempts of a finished run.
    fn attempts(&self, run: &str) -> Vec<AttemptEnd> {
        let attempts_of = |part: Value| {
            let incarnation = part["body"]["block"]["incarnation"].as_u64().expect("a number");
            let end = |attempt: &Value| AttemptEnd {
                incarnation,
                trial: text(&attempt["trial_id"]).to_owned(),
                is_valid: attempt["validity"]["valid"] == true,
                reasons: list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"]).to_owned()).collect(),
            };
            list(&part["body"]["attempts"]).iter().map(end).collect::<Vec<_>>()
        };
        let parts = self.fixture.pointers(run, "execute");
        parts.iter().flat_map(|part| attempts_of(part.load(&self.fixture.store()))).collect()
    }

    /// Asserts that a run has measured each of `count` trials once, and returns its incarnations and all attempts.
    #[track_caller]
    fn assert_measured_once(&self, run: &str, count: usize) -> (usize, Vec<AttemptEnd>) {
        let attempts = self.attempts(run);
        let mut valid: Vec<&str> = attempts.iter().filter(|end| end.is_valid).map(|end| end.trial.as_str()).collect();
        assert_eq!(valid.len(), count, "no trial is lost, and none counts twice: {attempts:?}");
        valid.sort_unstable();
        valid.dedup();
        assert_eq!(valid.len(), count, "{attempts:?}");
        self.fixture.assay(&["verify", run, "--trust", &self.trust()]).success();
        (self.fixture.pointers(run, "provision").len(), attempts)
    }
}

/// The pod of a simulator is killed during an attempt, and again after one: each time the block gets a new incarnation with a new
/// pod, and every trial is measured once.
#[test]
fn a_target_pod_that_is_killed_costs_no_trial() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [1, 2, 3], duration: 15s", 1, &[]);
    let run = person.spawn("killed", &["--trust", &person.trust()]);
    person.wait_for_load("killed");
    let first = person.delete_target_pod("killed");
    wait_until("another pod is up", || {
        let pods = at.lab.pods(&at.targets(), "killed");
        pods.into_iter().find(|pod| pod["metadata"]["uid"] != first.as_str() && pod["status"]["phase"] == "Running")
    });
    person.wait_for_events("killed", "\"event\":\"trial_finished\"", 1);
    person.delete_target_pod("killed");
    run.finish().success();
    let (incarnations, attempts) = person.assert_measured_once("killed", 3);
    assert!(incarnations > 1, "{attempts:?}");
    let mut changed: Vec<_> = attempts.iter().filter(|end| end.reasons.iter().any(|reason| reason == "target_changed")).collect();
    changed.sort_by_key(|end| end.incarnation);
    assert_eq!(changed.first().map(|end| end.incarnation), Some(0), "the first pod was killed under load: {attempts:?}");
    assert!(changed.iter().all(|end| !end.is_valid), "{attempts:?}");
    person.assert_nothing_left("killed");
}

/// A pod of a Deployment is replaced while load runs. The other pod and the new one respond to every request, so only the identity of the
/// pods shows that it is another target.
#[test]
fn a_target_whose_pods_are_replaced_under_load_is_measured_anew() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.write_simulators("replaced");
    person.pipeline_on(&simulators_target("replaced"), "mode: closed, concurrency: [2], duration: 30s");
    let run = person.spawn("replaced", &["--trust", &person.trust()]);
    person.wait_for_load("replaced");
    let gone = person.delete_target_pod("replaced");
    run.finish().success();
    let (incarnations, attempts) = person.assert_measured_once("replaced", 1);
    assert_eq!(incarnations, 2, "{attempts:?}");
    let first = attempts.iter().find(|end| end.incarnation == 0).expect("an attempt");
    assert!(first.reasons.iter().any(|reason| reason == "target_changed"), "{attempts:?}");
    let environments = person.fixture.pointers("replaced", "provision");
    let environments: Vec<Value> = environments.iter().map(|found| found.load(&person.fixture.store())).collect();
    let selector = "assay.dev/run=replaced,assay.dev/target=pair";
    for environment in &environments {
        let target = &environment["body"]["targets"][0];
        assert_eq!(target["pod_selector"], json!({"namespace": at.targets(), "labels": selector}));
        assert_eq!(list(&target["pods"]).iter().filter(|pod| pod["ready"] == true).count(), 2, "{target}");
        let has_gone = list(&target["pods"]).iter().any(|pod| pod["uid"] == gone.as_str());
        assert_eq!(has_gone, environment["body"]["block"]["incarnation"] == 0, "{target}");
    }
    person.assert_nothing_left("replaced");
}

/// A queue takes an admitted target back while load runs: the attempt does not count, and the block is provisioned anew once the queue
/// admits the next pod.
#[test]
fn a_target_that_kueue_evicts_is_measured_anew() {
    let Some(at) = kueue_installation() else { return };
    let person = at.user();
    let _queue = at.queue("grudging", "1");
    person.pipeline("mode: closed, concurrency: [1], duration: 30s", 1, &[]);
    let run = person.spawn("taken-back", &["--queue", "grudging", "--trust", &person.trust()]);
    person.wait_for_load("taken-back");
    let targets = at.targets();
    let pod = at.lab.pods(&targets, "taken-back").pop().expect("the target");
    let is_its = |workload: &Value| workload["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"];
    let workload = at.lab.all(&targets, &["workloads"]).into_iter().find(is_its).expect("the target's Workload");
    let patch = json!({"spec": {"active": false}}).to_string();
    let patch = ["--namespace", &targets, "patch", "workload", name_of(&workload), "--type", "merge", "--patch", &patch];
    at.lab.kubectl(&patch).success();
    run.finish().success();
    let (incarnations, attempts) = person.assert_measured_once("taken-back", 1);
    assert!(incarnations > 1, "{attempts:?}");
    assert!(attempts.iter().any(|end| end.reasons.iter().any(|reason| reason == "target_changed")), "{attempts:?}");
    person.assert_nothing_left("taken-back");
}

/// A driver that dies is replaced, and the next one resumes the run from the cluster and the store: no stage runs twice.
#[test]
fn a_driver_that_dies_is_replaced_and_no_stage_runs_twice() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [1], duration: 5s", 1, &[]);
    let run = person.spawn("orphan", &["--trust", &person.trust(), "--keep"]);
    for stage in ["plan", "execute", "reduce"] {
        wait_until(&format!("{stage} has begun"), || {
            let pods = at.lab.pods(&at.namespace, "orphan");
            pods.iter().any(|pod| pod["metadata"]["labels"]["assay.dev/stage"] == stage).then_some(())
        });
        let driver = person.wait_for_pod("orphan", "driver", "Running");
        at.lab
            .kubectl(&["--namespace", &at.namespace, "delete", "pod", name_of(&driver), "--grace-period=0", "--force"])
            .success();
    }
    run.finish().success();
    let jobs = at.lab.all(&at.namespace, &["jobs", "--selector", "assay.dev/run=orphan"]);
    let mut stages: Vec<_> = jobs.iter().map(|job| text(&job["metadata"]["labels"]["assay.dev/stage"])).collect();
    stages.sort_unstable();
    assert_eq!(stages, ["collect", "driver", "execute", "plan", "provision", "publish", "reduce"]);
    // Each Job had one pod, which succeeded. A run goes on once the store has a result, and the Job's status follows.
    for job in jobs.iter().filter(|job| job["metadata"]["labels"]["assay.dev/stage"] != "driver") {
        wait_until("the Job has ended", || {
            let job = at.lab.get(&at.namespace, &["job", name_of(job)]);
            assert_eq!(job["status"]["failed"], Value::Null, "{}", name_of(&job));
            (job["status"]["succeeded"] == json!(1)).then_some(())
        });
    }
    // The trial went on without a driver: none of its attempts was stopped. On a busy machine one may not count for another reason.
    let (incarnations, attempts) = person.assert_measured_once("orphan", 1);
    assert_eq!(incarnations, 1, "{attempts:?}");
    let stopped = ["interrupted", "cancelled", "shard_lost", "target_changed", "target_gone", "all_failed"];
    assert!(attempts.iter().all(|end| end.reasons.iter().all(|reason| !stopped.contains(&reason.as_str()))), "{attempts:?}");
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", "assay-orphan"]).success();
    person.assert_nothing_left("orphan");
}

/// The store goes away and the API server is killed while a trial runs; both come back.
#[test]
fn a_run_outlasts_its_store_and_its_api_server() {
    let Some(at) = shared_installation() else { return };
    let _alone = OUTAGE_LOCK.write().unwrap_or_else(PoisonError::into_inner);
    let person = at.user_during_outage();
    person.pipeline("mode: closed, concurrency: [1], duration: 12s", 1, &[]);
    let run = person.spawn("outage", &["--trust", &person.trust()]);
    person.wait_for_pod("outage", "execute", "Running");
    let store = format!("{}-store", at.namespace);
    let scale =
        |count: &str| at.lab.kubectl(&["--namespace", &store, "scale", "deployment/assay-store", "--replicas", count]).success();
    scale("0");
    wait_until("the store is away", || at.lab.all(&store, &["pods"]).is_empty().then_some(()));
    if let Some(restart) = std::env::var_os("ASSAY_TEST_KUBERNETES_RESTART") {
        CommandResult::from_output(Command::new("sh").arg("-c").arg(restart).output().expect("a shell")).success();
    } else {
        println!("ASSAY_TEST_KUBERNETES_RESTART is not set: the API server stayed up");
    }
    scale("1");
    at.lab.kubectl(&["--namespace", &store, "rollout", "status", "deployment/assay-store", "--timeout", "180s"]).success();
    let ran = run.finish().success();
    assert!(ran.stdout.contains("assay verify outage"), "{ran:?}");
    person.assert_nothing_left("outage");
}

/// The rights of each account, as the API server sees them.
#[test]
fn no_stage_may_do_more_than_its_own() {
    let Some(at) = shared_installation_on_any_cluster() else { return };
    let _up = prevent_outage();
    let (own, targets) = (at.namespace.clone(), at.targets());
    let may = |account: &str, namespace: &str, verb: &str, what: &str| {
        let who = format!("--as=system:serviceaccount:{own}:assay-{account}");
        at.lab.kubectl(&["--namespace", namespace, "auth", "can-i", verb, what, &who]).code == 0
    };
    for account in ["driver", "plan", "provision", "execute", "collect", "reduce", "publish"] {
        for what in ["secrets", "secrets/assay-key-publish"] {
            for namespace in [&own, &targets] {
                assert!(!may(account, namespace, "get", what), "{account} reads {what} in {namespace}");
            }
        }
        assert!(!may(account, &own, "create", "pods"), "{account} makes pods beside the keys");
        assert_eq!(may(account, &own, "create", "jobs"), account == "driver", "{account}");
        assert_eq!(may(account, &targets, "create", "pods"), account == "provision", "{account}");
        let removes = ["driver", "provision"].contains(&account);
        assert_eq!(may(account, &targets, "delete", "pods"), removes, "{account}");
        assert_eq!(may(account, &own, "list", "events"), ["driver", "collect"].contains(&account), "{account}");
    }
    assert!(may("execute", &targets, "list", "pods"), "their pods are a part of the identity of targets");
    for (namespace, verb, what) in
        [(&targets, "get", "pods"), (&targets, "watch", "pods"), (&targets, "list", "services"), (&own, "list", "pods")]
    {
        assert!(!may("execute", namespace, verb, what), "execute may {verb} {what} in {namespace}");
    }
}

/// Attempts to reach publish's key, none of which succeeds.
#[test]
fn the_key_of_publish_is_out_of_reach() {
    let Some(at) = shared_installation_on_any_cluster() else { return };
    let person = at.user();
    let (own, targets) = (at.namespace.clone(), at.targets());
    let as_provision = format!("--as=system:serviceaccount:{own}:assay-provision");

    // By the API.
    let read = at.lab.kubectl(&["--namespace", &own, "get", "secret", "assay-key-publish", &as_provision]).exits(1);
    assert!(read.stderr.contains("forbidden"), "{}", read.stderr);

    // By a pod that provision creates: it may not create one in the namespace of the key, and where it may create one there is no key.
    let thief = |namespace: &str, command: &str| {
        format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: thief, namespace: {namespace}}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {{runAsNonRoot: true, runAsUser: 65532, seccompProfile: {{type: RuntimeDefault}}}}
  containers:
    - name: thief
      image: {}
      command: [{command}]
      securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
      volumeMounts: [{{name: key, mountPath: /keys}}]
  volumes: [{{name: key, secret: {{secretName: assay-key-publish}}}}]
",
            at.lab.image
        )
    };
    let create = ["create", "--filename", "-", &as_provision];
    let beside = at.lab.kubectl_with(&create, &thief(&own, "/assay/assay, keys")).exits(1);
    assert!(beside.stderr.contains("forbidden"), "{}", beside.stderr);
    if !at.lab.has_node {
        println!("no pod runs: what one would find was not looked for");
        return;
    }
    at.lab.kubectl_with(&create, &thief(&targets, "/assay/assay, keys")).success();
    // On a busy node the volume may have other events before the kubelet looks for the Secret.
    wait_until("the key is missed", || {
        let events = at.lab.all(&targets, &["events", "--field-selector", "involvedObject.name=thief,reason=FailedMount"]);
        events.iter().find(|event| text(&event["message"]).contains("secret \"assay-key-publish\" not found")).map(drop)
    });
    at.lab.kubectl(&["--namespace", &targets, "delete", "pod", "thief", "--grace-period=0", "--force"]).success();

    // By a target of a workload: its variables come from one Secret of the targets' namespace, whatever they name.
    person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[]);
    let pipeline = std::fs::read_to_string(person.fixture.repo().join(PIPELINE)).expect("a pipeline");
    let target = "{name: simulator, kind: simulator, config: {profile: fast}}";
    let stealing = "{name: simulator, kind: simulator, config: {profile: fast}, ready: {timeout: 5s}, env: {KEY: {from_env: assay-key-publish}}}";
    person.fixture.write(PIPELINE, &pipeline.replace(target, stealing));
    person.fixture.commit("a thief");
    let refused = person.run("thief", &[]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(!refused.stdout.contains("BEGIN"), "{refused:?}");

    // By an image that the pipeline names, which would be given the key.
    let foreign = format!("retries: 0, image: \"assay.test/foreign@sha256:{}\"", "1".repeat(64));
    person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[("plan", &foreign)]);
    person.run("foreign", &[]).refuses(10, "stage_image");

    // By an override: the overrides of a stage's pods may not name Assay's objects.
    for asked in [
        "serviceAccountName: assay-publish",
        "env: [{name: KEY, valueFrom: {secretKeyRef: {name: assay-key-publish, key: cosign.key}}}]",
        "envFrom: [{secretRef: {name: assay-key-publish}}]",
        "volumes: [{name: key-of-publish, secret: {secretName: assay-key-publish}}]",
        "volumes: [{name: node, hostPath: {path: /}}]",
    ] {
        person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[("execute", &format!("pod: {{{asked}}}"))]);
        person.run("override", &[]).refuses(10, "definition_invalid");
        person.fixture.assay(&["validate"]).exits(10);
    }
}

/// The API server accepts every object that `assay render` prints, with every field.
#[test]
fn the_api_server_takes_every_rendered_object() {
    let Some(at) = shared_installation_on_any_cluster() else { return };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [1], requests: 5", 1, &[]);
    let pipeline = std::fs::read_to_string(person.fixture.repo().join(PIPELINE)).expect("a pipeline");
    person.fixture.write(PIPELINE, &(pipeline + "  schedule: {cron: \"0 2 * * *\"}\n"));
    let render = [
        "render",
        "kubernetes",
        PIPELINE,
        "--namespace",
        &at.namespace,
        "--image",
        &at.lab.image,
        "--repo",
        "https://example.org/a.git",
        "--store-size",
        "1Gi",
        "--serving-namespace",
        "default",
    ];
    let objects = person.fixture.assay(&render).success().stdout;
    let taken = at.lab.kubectl_with(
        &["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename", "-"],
        &objects,
    );
    let taken = taken.success().stdout;
    assert!(taken.contains("cronjob.batch/fixture") && taken.lines().count() > 30, "{taken}");
    let right = format!("rolebinding.rbac.authorization.k8s.io/assay-provision-{}", at.namespace);
    assert!(taken.contains(&right), "{taken}");
    person.fixture.write("job.yaml", &crate::as_is::job("http://llama.serving:8080", ""));
    for (file, names) in [(PIPELINE, &["job.batch/fixture"][..]), ("job.yaml", &["configmap/llama-chat", "job.batch/llama-chat"])]
    {
        let hook = ["render", "kubernetes", file, "--hook", "PostSync", "--hook-wave", "1", "--namespace", &at.namespace];
        let hook = [&hook[..], &["--image", &at.lab.image, "--repo", "https://example.org/a.git"]].concat();
        let objects = person.fixture.assay(&hook).success().stdout;
        let create = ["create", "--dry-run=server", "--validate=strict", "--filename", "-"];
        let taken = at.lab.kubectl_with(&create, &objects).success().stdout;
        assert!(names.iter().all(|name| taken.contains(name)) && taken.lines().count() == names.len(), "{taken}");
    }
}

/// The API server accepts the Job of every stage with all overrides that a pipeline may have, and its pods, which meet Pod Security
/// `restricted`.
#[test]
fn the_api_server_takes_every_job_with_all_that_a_stage_may_ask_for() {
    let Some(at) = shared_installation_on_any_cluster() else { return };
    let _up = prevent_outage();
    let objects: Vec<Value> = StageName::ALL.iter().flat_map(|stage| job_and_pod(at, *stage)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let create = ["create", "--dry-run=server", "--validate=strict", "--filename", "-"];
    let taken = at.lab.kubectl_with(&create, &list.to_string()).success().stdout;
    assert_eq!(taken.lines().count(), 2 * StageName::ALL.len(), "{taken}");
}

/// Returns the Job of a stage in a custom image, with all overrides, and a pod of it.
fn job_and_pod(at: &Installation, stage: StageName) -> [Value; 2] {
    let account = if [Role::Provision, Role::Collect].contains(&stage.role()) { "" } else { ", serviceAccountName: default" };
    let pod = format!(
        "{POD}, envFrom: [{{prefix: TEAM_, secretRef: {{name: team, optional: true}}}}, {{configMapRef: {{name: team}}}}], \
         priorityClassName: benchmarks{account}"
    );
    let pipeline = Role::STAGES.map(|role| {
        let asked = if role == stage.role() { format!(", pod: {{{pod}}}") } else { String::new() };
        format!("{{name: {role}{asked}}}")
    });
    let pipeline = format!(
        "apiVersion: assay.dev/v1alpha1\nkind: Pipeline\nmetadata: {{name: p}}\nspec:\n  workloads: [w]\n  \
         targets: [{{name: h, kind: host}}]\n  stages: [{}]\n",
        pipeline.join(", ")
    );
    let pipeline = assay_spec::Pipeline::parse("p.yaml", pipeline.as_bytes()).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let asked = pipeline.spec.stages.iter().find(|asked| asked.role == stage.role()).expect("the stage");
    let installation = assay_cluster::Installation {
        namespace: at.namespace.clone(),
        targets_namespace: at.targets(),
        store: "s3://results".to_owned(),
        image: at.lab.image.clone(),
        trust: String::new(),
        images: Vec::new(),
        forward: None,
    };
    let (digest, run_id) = (Digest::compute(b""), "dry".parse().expect("a run id"));
    let job = stage_job(&StageJob {
        installation: &installation,
        root: &RunRoot { name: "assay-dry".to_owned(), uid: "0a4ad3ce-1c0e-4c4b-9f4e-3f3f6f2b8f10".to_owned() },
        run_id: &run_id,
        input: digest,
        inputs: &[],
        parameters: &StageParameters::default_for(stage),
        trust: digest,
        shards: if stage == StageName::Execute { 3 } else { 1 },
        timeout: Some(Duration::from_mins(1)),
        retries: 1,
        resources: &Resources::default(),
        node_selector: &BTreeMap::new(),
        avoid: &["node".to_owned()],
        must_avoid: true,
        image: Some(&format!("example.org/own@sha256:{}", "1".repeat(64))),
        overrides: &asked.pod,
        queue: Some("queue"),
        start_limit: Duration::from_mins(5),
        load: None,
        begin_after: Some("runs/dry/execute/0/may-begin"),
    })
    .expect("JSON");
    // A pod is admitted only if its priority class and its service account exist.
    let mut spec = job["spec"]["template"]["spec"].clone();
    let members = spec.as_object_mut().expect("members");
    members.remove("priorityClassName");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("dry-{stage}"), "namespace": at.namespace}, "spec": spec});
    [job, pod]
}

/// A schedule's Job finds the branch's commit by itself, and signs its Source with the cluster's own key.
#[test]
fn a_schedule_runs_what_its_branch_holds() {
    let Some(at) = shared_installation() else { return };
    let Ok(host) = std::env::var("ASSAY_TEST_KUBERNETES_HOST") else {
        println!("ASSAY_TEST_KUBERNETES_HOST is not set: no pod reaches this machine's Git");
        return;
    };
    let person = at.user();
    person.pipeline("mode: closed, concurrency: [1], requests: 20", 1, &[]);
    let pipeline = std::fs::read_to_string(person.fixture.repo().join(PIPELINE)).expect("a pipeline");
    // Its driver pushes hot metrics to a real Prometheus, if there is one.
    let prometheus = ForeignServer::prometheus_for_pods(&host);
    let receiver = |prometheus: &ForeignServer| format!("{{name: fleet, remote_write: '{}'}}", prometheus.at("/api/v1/write"));
    let push = prometheus.as_ref().map(|prometheus| hot_metrics::publish(&[receiver(prometheus)], hot_metrics::EXPLORATORY));
    let schedule = "  schedule: {cron: \"0 2 29 2 *\"}\n";
    person.fixture.write(PIPELINE, &format!("{pipeline}{schedule}{}", push.unwrap_or_default()));
    let commit = person.fixture.commit("nightly");
    let remotes = person.fixture.root().join("remotes");
    person.fixture.git(&["clone", "--quiet", "--bare", ".", &remotes.join("bench.git").display().to_string()]);
    let server = crate::git_https::GitServer::start_on(&host, &remotes, "robot:hunter2");
    let repo = format!("https://{}/bench.git", server.address());
    // A Secret says how to reach the remote: its certificate authority, and the password.
    let config = person.fixture.root().join("git-config");
    std::fs::write(&config, "[credential]\n\thelper = \"!f() { echo username=robot; echo password=hunter2; }; f\"\n")
        .expect("written");
    let files =
        [format!("--from-file=ca.crt={}", server.certificate.display()), format!("--from-file=config={}", config.display())];
    let secret = ["--namespace", &at.namespace, "create", "secret", "generic", "assay-git", &files[0], &files[1]];
    at.lab.kubectl(&secret).success();
    let render = [
        "render",
        "kubernetes",
        PIPELINE,
        "--only-schedules",
        "--namespace",
        &at.namespace,
        "--image",
        &at.lab.image,
        "--repo",
        &repo,
    ];
    let objects = person.fixture.assay(&render).success().stdout;
    at.lab.kubectl_with(&["apply", "--server-side", "--filename", "-"], &objects).success();
    at.lab.kubectl(&["--namespace", &at.namespace, "create", "job", "--from", "cronjob/fixture", "fixture-29000000"]).success();
    wait_until("the scheduled run has ended", || {
        let job = at.lab.get(&at.namespace, &["job", "fixture-29000000"]);
        let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True");
        assert!(!is("Failed"), "{}", at.lab.kubectl(&["--namespace", &at.namespace, "logs", "job/fixture-29000000"]).stdout);
        is("Complete").then_some(())
    });
    let status = person.run_in_namespace(&["status", "fixture-29000000"]).success().stdout;
    assert!(status.contains("driver") && status.contains("done") && !status.contains("hunter2"), "{status}");
    if let Some(prometheus) = prometheus {
        let series = prometheus.query("last_over_time({run_id=\"fixture-29000000\"}[1d])");
        let of =
            |name: &str| series.iter().find(|series| series["metric"]["__name__"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(of("assay_run_succeeded")["value"][1], "1");
        let labels = &of("assay_ttft_p99_seconds")["metric"];
        assert_eq!((text(&labels["benchmark_case_id"]), text(&labels["cluster"])), ("chat.simulator.default", "kubernetes"));
    }
    let store = person.store();
    person.fixture.assay(&["fetch", "fixture-29000000", "--store", &store.uri, "--trust", &person.trust()]).success();
    person.fixture.assay(&["verify", "fixture-29000000", "--trust", &person.trust()]).success();
    let source = person.fixture.manifest("fixture-29000000", "source");
    assert_eq!((text(&source["body"]["kind"]), text(&source["body"]["commit"])), ("git", commit.as_str()));
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "cronjob", "fixture"]).success();
}

/// Returns a pod's spec that meets Pod Security `restricted`, with this command of Assay's image.
fn restricted(image: &str, command: &[&str]) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "main",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": command,
            "env": [{"name": "PLAIN", "value": "in plain sight"}],
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        }],
    })
}

const SIMULATOR: [&str; 7] =
    ["/assay/assay-simulator", "--listen", "0.0.0.0:8000", "--profile", "instant", "--model", "simulated-8b"];

/// Returns the names of a run's evidence.
fn evidence_of(person: &ClusterUser<'_>, run: &str) -> Vec<String> {
    let digest = text(&person.fixture.manifest(run, "collect")["body"]["evidence"]["digest"]).to_owned();
    let bytes = std::fs::read(crate::support::blob(&person.fixture.store(), &digest)).expect("a blob");
    let evidence: Value = serde_json::from_slice(&bytes).expect("JSON");
    list(&evidence).iter().map(|artifact| text(&artifact["name"]).to_owned()).collect()
}

/// Returns the target of [`ClusterUser::write_simulators`].
fn simulators_target(name: &str) -> String {
    format!(
        "{{name: pair, kind: objects, objects: [targets/simulators.yaml], url: 'http://{name}', ready: {{http: /health, timeout: 3m}}}}"
    )
}

impl ClusterUser<'_> {
    /// Writes a Deployment of two simulators and its Service, and returns the Service.
    fn write_simulators(&self, name: &str) -> Value {
        let labels = json!({"app": name});
        let mut pod = restricted(&self.installation.lab.image, &SIMULATOR);
        pod["containers"][0]["readinessProbe"] = json!({"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8000}]},
        });
        self.fixture.write("targets/simulators.yaml", &format!("{deployment}\n---\n{service}\n"));
        service
    }
}

/// Two simulators behind a Service, as a repository describes them: brought up, measured, described pod by pod, and taken down.
#[test]
fn objects_of_the_repository_are_brought_up_and_released() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    let service = person.write_simulators("simulators");
    person.pipeline_on(&simulators_target("simulators"), "mode: closed, concurrency: [2], requests: 20");
    person.run("objects", &["--trust", &person.trust()]).success();

    let plan = &person.fixture.manifest("objects", "plan")["body"];
    assert_eq!(plan["targets"][0]["objects"][0]["path"], "targets/simulators.yaml");
    let environment = &person.fixture.manifest("objects", "provision")["body"];
    let found = &environment["targets"][0];
    assert_eq!(found["address"], format!("http://simulators.{}.svc:80", at.targets()));
    let pods = list(&found["pods"]);
    assert_eq!(pods.len(), 2, "{found}");
    for (number, pod) in pods.iter().enumerate() {
        let container = &pod["containers"][0];
        assert!(at.lab.image.ends_with(text(&container["image"]["digest"])), "{container}");
        assert_eq!(container["env"], json!(["PLAIN"]));
        let identity = format!("{}/{}", text(&pod["name"]), text(&pod["uid"]));
        assert_eq!(environment["placement"][format!("pod/pair/{number}")], identity);
    }
    assert_eq!(environment["placement"]["node/pair"], pods[0]["node"]);
    let in_pods: Vec<&Value> = list(&found["replicas"]).iter().map(|replica| &replica["pod"]).collect();
    assert_eq!(in_pods, pods.iter().map(|pod| &pod["name"]).collect::<Vec<_>>(), "each pod is read by itself");
    let checks = list(&person.fixture.manifest("objects", "collect")["body"]["cross_checks"]).clone();
    let requests: Vec<&Value> = checks.iter().filter(|check| check["what"] == "requests").collect();
    assert!(!requests.is_empty() && requests.iter().all(|check| check["outcome"] == "agrees"), "{checks:#?}");
    let evidence = evidence_of(&person, "objects");
    for name in ["readings/objects/pair/deployment-simulators.json", "readings/objects/pair/service-simulators.json"] {
        assert!(evidence.iter().any(|known| known == name), "{evidence:?}");
    }
    person.fixture.assay(&["verify", "objects", "--trust", &person.trust()]).success();
    person.assert_nothing_left("objects");

    // Names stay as they are written, so the object of another run is left to it. It lacks the label by which drivers remove objects.
    let mut foreign = service;
    foreign["metadata"]["labels"] = json!({"assay.dev/run": "another"});
    let targets = at.targets();
    at.lab.kubectl_with(&["--namespace", &targets, "create", "--filename", "-"], &foreign.to_string()).success();
    let refused = person.run("taken", &[]).refuses(30, "target_taken");
    assert!(refused.stderr.contains("another run uses it: `another`"), "{}", refused.stderr);
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", "assay-taken"]).success();
    person.assert_nothing_left("taken");
    at.lab.kubectl(&["--namespace", &targets, "delete", "service", "simulators"]).success();
}

/// An InferenceService that its owner has brought up, with the status that KServe would set: found, described, measured, and left
/// unchanged.
#[test]
fn an_inference_service_is_found_and_left_alone() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    let serving = format!("{}-serving", at.namespace);
    // A new namespace accepts no pod until it has a service account.
    let apply = |object: &Value| {
        wait_until("the object is taken", || {
            let ran = at.lab.kubectl_with(&["apply", "--server-side", "--filename", "-"], &object.to_string());
            (ran.code == 0).then_some(())
        });
    };
    at.lab.define("serving.kserve.io", "InferenceService");
    at.lab.kubectl(&["create", "namespace", &serving]).success();
    let label = json!({"serving.kserve.io/inferenceservice": "llama"});
    apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llama-predictor", "namespace": serving, "labels": label},
        "spec": restricted(&at.lab.image, &SIMULATOR),
    }));
    apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "llama-predictor", "namespace": serving},
        "spec": {"selector": label, "ports": [{"port": 80, "targetPort": 8000}]},
    }));
    apply(&json!({
        "apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService",
        "metadata": {"name": "llama", "namespace": serving},
        "spec": {"predictor": {"model": {"modelFormat": {"name": "huggingface"}, "storageUri": "hf://meta/llama"}}},
    }));
    let address = format!("http://llama-predictor.{serving}.svc");
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "address": {"url": address}}});
    let patch = ["--namespace", &serving, "patch", "inferenceservice", "llama", "--subresource", "status", "--type", "merge"];
    at.lab.kubectl(&[&patch[..], &["--patch", &status.to_string()]].concat()).success();

    // The rights that an administrator renders for that namespace.
    let render =
        ["render", "kubernetes", "--namespace", &at.namespace, "--image", &at.lab.image, "--serving-namespace", &serving];
    let objects = person.fixture.assay(&render).success().stdout;
    let rights: Vec<_> = objects.split("---\n").filter(|object| object.contains(&format!("namespace: {serving}\n"))).collect();
    assert_eq!(rights.len(), 4, "a Role and its binding for provision, and for execute: {objects}");
    let (provision, execute) = rights.split_at(2);
    let grant = |rights: &[&str]| {
        at.lab.kubectl_with(&["apply", "--server-side", "--filename", "-"], &rights.join("---\n")).success();
    };
    grant(provision);

    let target = format!(
        "{{name: llama, kind: inference_service, inference_service: {{api: kserve, name: llama, namespace: {serving}}}, ready: {{http: /health, timeout: 3m}}}}"
    );
    person.pipeline_on(&target, "mode: closed, concurrency: [1], requests: 10");
    let denied = person.run("served", &[]).refuses(30, "forbidden");
    let execute_may = format!("`--serving-namespace {serving}` of `assay bootstrap`");
    assert!(denied.stderr.contains("assay-execute") && denied.stderr.contains(&execute_may), "{}", denied.stderr);
    grant(execute);
    person.run("served", &["--trust", &person.trust()]).success();
    let environment = &person.fixture.manifest("served", "provision")["body"];
    let found = &environment["targets"][0];
    assert_eq!(found["address"], address);
    assert_eq!(
        (&found["settings"]["storage_uri"], &found["settings"]["model_format"]),
        (&json!("hf://meta/llama"), &json!("huggingface"))
    );
    assert_eq!(found["pods"][0]["name"], "llama-predictor");
    assert_eq!(environment["placement"]["node/llama"], found["pods"][0]["node"]);
    assert_eq!(environment["placement"].get("pod/llama"), None, "its owner may replace it");
    let evidence = evidence_of(&person, "served");
    assert!(evidence.iter().any(|name| name == "readings/objects/llama/inferenceservice-llama.json"), "{evidence:?}");
    person.assert_nothing_left("served");

    // The same pods, behind an endpoint whose address names the Service.
    let endpoint = format!("{{name: llama, kind: endpoint, url: '{address}', ready: {{http: /health, timeout: 3m}}}}");
    person.pipeline_on(&endpoint, "mode: closed, concurrency: [1], requests: 10");
    person.run("behind", &["--trust", &person.trust()]).success();
    let environment = &person.fixture.manifest("behind", "provision")["body"];
    let behind = &environment["targets"][0];
    assert_eq!(behind["pods"], found["pods"]);
    assert_eq!(environment["placement"]["node/llama"], found["pods"][0]["node"]);
    let evidence = evidence_of(&person, "behind");
    assert!(evidence.iter().any(|name| name.starts_with("readings/objects/llama/service-llama")), "{evidence:?}");
    person.assert_nothing_left("behind");
    let still = at.lab.get(&serving, &["pod", "llama-predictor"]);
    assert_eq!(still["status"]["phase"], "Running", "it is not the run's to take down");
    at.lab.kubectl(&["delete", "namespace", &serving, "--wait=false"]).success();
}

/// Runs the program of a probe's pod in the place of one: without a key, a token or a right.
#[test]
fn a_probe_says_the_facts_of_its_node() {
    let Some(at) = shared_installation() else { return };
    let _up = prevent_outage();
    let (targets, nodes) = (at.targets(), at.lab.all("default", &["nodes"]));
    let mut spec = restricted(&at.lab.image, &["/assay/assay-provision", "facts"]);
    spec["restartPolicy"] = json!("Never");
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = json!(true);
    let is_it = json!({"key": "metadata.name", "operator": "In", "values": [name_of(&nodes[0])]});
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [is_it]}],
    }}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": targets}, "spec": spec});
    at.lab.kubectl_with(&["create", "--filename", "-"], &pod.to_string()).success();
    wait_until("the probe has ended", || {
        let pod = at.lab.get(&targets, &["pod", "probe"]);
        assert_ne!(pod["status"]["phase"], "Failed", "{pod}");
        (pod["status"]["phase"] == "Succeeded").then_some(())
    });
    let said = at.lab.kubectl(&["--namespace", &targets, "logs", "probe"]).success().stdout;
    assert_eq!(said.lines().count(), 1, "{said}");
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["facts"]["boot_id"]["value"], nodes[0]["status"]["nodeInfo"]["bootID"]);
    at.lab.kubectl(&["--namespace", &targets, "delete", "pod", "probe"]).success();
}
