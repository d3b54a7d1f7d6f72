//! Jobs: one for each call of a stage, and one that drives a run.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::{Digest, InputRef, Role, RunId};
use assay_spec::PodOverride;
use assay_stage::StageName;
use assay_stage::parameters::StageParameters;
use serde_json::{Map, Value, json};

use crate::affinity::avoid_nodes;
use crate::pod::{IN_QUEUE, LOAD_POD, PodParameters, START_LIMIT, template};
use crate::{
    Installation, KEY_FOLDER, LoadPod, MANAGED_BY, Object, QUEUE, RUN, Resources, RunRoot, SCRATCH, STAGE, driver_name, job_name,
};

/// The termination grace period of a stage, in seconds.
const STAGE_GRACE: u32 = 30;
/// The termination grace period of the recorder, in which it signs its recording, in seconds.
const RECORDER_GRACE: u32 = 60;
/// The termination grace period of the driver, in which it ends its stages and signs that it did, in seconds.
const DRIVER_GRACE: u32 = 120;
/// The most restarts of a driver that was killed. A restarted driver resumes the run.
const DRIVER_RETRIES: u32 = 6;
/// Exit codes after which a retry is useless.
const FINAL_CODES: [u8; 8] = [1, 2, 10, 20, 21, 40, 41, 50];

/// One call of a stage, to be run as a Job.
pub struct StageJob<'a> {
    /// The installation.
    pub installation: &'a Installation,
    /// The root of the run, which owns the Job.
    pub root: &'a RunRoot,
    /// The run.
    pub run_id: &'a RunId,
    /// The digest of everything that identifies this call: equal calls have equal digests.
    pub input: Digest,
    /// Its inputs.
    pub inputs: &'a [InputRef],
    /// Its stage, with the parameters.
    pub parameters: &'a StageParameters,
    /// The trust policy.
    pub trust: Digest,
    /// The number of pods that run it together.
    pub shards: u32,
    /// The time limit after which it is stopped.
    pub timeout: Option<Duration>,
    /// The number of retries.
    pub retries: u32,
    /// Its CPU and memory.
    pub resources: &'a Resources,
    /// Labels that its node must carry.
    pub node_selector: &'a BTreeMap<String, String>,
    /// Nodes that serve: load is kept off them if possible.
    pub avoid: &'a [String],
    /// True if load must be kept off them.
    pub must_avoid: bool,
    /// The image that it runs in, if it is not the installed one.
    pub image: Option<&'a str>,
    /// The pipeline's overrides for its pods.
    pub overrides: &'a PodOverride,
    /// The queue of targets and load, if the cluster has queues.
    pub queue: Option<&'a str>,
    /// The longest wait for a pod that cannot start.
    pub start_limit: Duration,
    /// The placement and limits of a shard of load, if provision has to measure how much load one can make.
    pub load: Option<&'a LoadPod>,
    /// The object of the store that the stage begins after; none if it begins at once.
    pub begin_after: Option<&'a str>,
}

/// Builds the Job of a call. Fails if the parameters cannot be written as JSON.
pub fn stage_job(call: &StageJob<'_>) -> Result<Object, serde_json::Error> {
    let (installation, stage) = (call.installation, call.parameters.stage());
    let role = stage.role();
    let name = job_name(call.run_id, stage, &call.input);
    let labels = labels(call.run_id, stage.as_str());
    let template = template(PodParameters {
        role,
        account: format!("assay-{role}"),
        asks_api: matches!(stage, StageName::Provision | StageName::Collect) || is_load(call),
        installed: &installation.image,
        image: call.image.unwrap_or(&installation.image),
        store: &installation.store,
        targets_namespace: &installation.targets_namespace,
        labels: labels.clone(),
        command: stage_command(call)?,
        asks_endpoints: matches!(stage, StageName::Provision | StageName::Execute | StageName::Record | StageName::Collect),
        resources: call.resources.for_stage(stage),
        node_selector: call.node_selector,
        grace_seconds: if stage == StageName::Record { RECORDER_GRACE } else { STAGE_GRACE },
        extra_volumes: Vec::new(),
        env: if stage == StageName::Provision { provision_env(call) } else { Vec::new() },
        affinity: (stage == StageName::Execute).then(|| avoid_nodes(call.avoid, call.must_avoid)).flatten(),
        spread: (call.shards > 1).then(|| spread(call.run_id)),
        overrides: call.overrides,
    });
    let mut spec = json!({
        // The retries of each shard add up.
        "backoffLimit": call.retries.saturating_mul(call.shards),
        "completionMode": if is_indexed(stage) { "Indexed" } else { "NonIndexed" },
        "completions": call.shards,
        "parallelism": call.shards,
        "podFailurePolicy": {"rules": failure_rules(&FINAL_CODES)},
        "podReplacementPolicy": "Failed",
        "template": template,
    });
    if let Some(timeout) = call.timeout {
        spec["activeDeadlineSeconds"] = json!(timeout.as_secs().max(1));
    }
    let mut metadata = json!({
        "name": name,
        "namespace": installation.namespace,
        "labels": labels,
        "ownerReferences": [call.root.reference()],
    });
    if let Some(queue) = call.queue.filter(|_| is_load(call)) {
        metadata["labels"][QUEUE] = json!(queue);
        spec["suspend"] = json!(true);
    }
    Ok(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}))
}

/// Returns a text that Kubernetes does not expand: it replaces `$(NAME)` in arguments and values, and `$$` stands for `$`.
fn escape_variables(text: &str) -> String {
    text.replace('$', "$$")
}

/// Returns the variables by which provision configures the pods that it makes itself.
fn provision_env(call: &StageJob<'_>) -> Vec<Value> {
    let limit = json!({"name": START_LIMIT, "value": call.start_limit.as_secs().to_string()});
    let queue = call.queue.map(|queue| json!({"name": IN_QUEUE, "value": queue}));
    let load = call.load.and_then(|load| serde_json::to_string(load).ok());
    let load = load.map(|load| json!({"name": LOAD_POD, "value": escape_variables(&load)}));
    std::iter::once(limit).chain(queue).chain(load).collect()
}

/// Returns true if the call makes load. Closing a block only collects what exists: it measures nothing, and has to wait for no
/// quota.
fn is_load(call: &StageJob<'_>) -> bool {
    matches!(call.parameters, StageParameters::Execute(execute) if !execute.close)
}

/// Returns true if the Job is Indexed: each pod of execute is a shard, and an Indexed Job replaces a lost one under the same
/// index.
fn is_indexed(stage: StageName) -> bool {
    stage == StageName::Execute
}

fn stage_command(call: &StageJob<'_>) -> Result<Vec<String>, serde_json::Error> {
    let stage = call.parameters.stage();
    let index = if is_indexed(stage) { "$(JOB_COMPLETION_INDEX)" } else { "0" };
    let mut words = vec![format!("/assay/assay-{}", stage.role())];
    if stage == StageName::Record {
        words.push("record".to_owned());
    }
    let named = [
        ("--run", call.run_id.to_string()),
        ("--trust", call.trust.to_string()),
        ("--key", format!("{KEY_FOLDER}/cosign.key")),
        ("--parameters", escape_variables(&call.parameters.to_json()?.to_string())),
        ("--shard", format!("{index}/{}", call.shards)),
        ("--scratch", SCRATCH.to_owned()),
        ("--failure-file", crate::FAILURE_FILE.to_owned()),
    ];
    words.extend(named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
    if let Some(path) = call.begin_after {
        words.extend(["--begin-after".to_owned(), path.to_owned()]);
    }
    for input in call.inputs {
        words.extend(["--input".to_owned(), format!("{},{}", input.manifest, input.bundle)]);
    }
    Ok(words)
}

/// Builds the pod failure policy: a disruption is not the stage's fault and does not count as a try; an error that a retry cannot
/// fix fails the Job at once.
fn failure_rules(codes: &[u8]) -> Value {
    json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "assay", "operator": "In", "values": codes}},
    ])
}

fn labels(run_id: &RunId, stage: &str) -> Map<String, Value> {
    let pairs = [(MANAGED_BY.0, MANAGED_BY.1), (RUN, run_id.as_str()), (STAGE, stage)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

fn spread(run_id: &RunId) -> Value {
    json!([{
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {RUN: run_id, STAGE: StageName::Execute.as_str()}},
    }])
}

/// The driver of a run.
pub struct DriverJob<'a> {
    /// The installation.
    pub installation: &'a Installation,
    /// The root of the run, which owns the Job.
    pub root: &'a RunRoot,
    /// The run.
    pub run_id: &'a RunId,
    /// Arguments of `assay drive` besides the run.
    pub arguments: &'a [String],
}

/// Builds the Job that drives a run whose Source is in the store.
pub fn driver_job(driver: &DriverJob<'_>) -> Object {
    let DriverJob { installation, root, run_id, arguments } = driver;
    let mut command = vec!["/assay/assay".to_owned(), "drive".to_owned(), "--run-id".to_owned(), run_id.to_string()];
    command.extend(arguments.iter().cloned());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": driver_name(run_id),
            "namespace": installation.namespace,
            "labels": labels(run_id, "driver"),
            "ownerReferences": [root.reference()],
        },
        "spec": driver_spec(installation, labels(run_id, "driver"), command),
    })
}

/// Builds the part of a driver's Job that a schedule repeats.
pub(crate) fn driver_spec(installation: &Installation, labels: Map<String, Value>, command: Vec<String>) -> Value {
    let none = BTreeMap::new();
    // A failure of the environment ends the run; only a driver that was killed is replaced.
    let mut codes: Vec<u8> = FINAL_CODES.into_iter().chain([30]).collect();
    codes.sort_unstable();
    json!({
        "backoffLimit": DRIVER_RETRIES,
        "podFailurePolicy": {"rules": failure_rules(&codes)},
        "podReplacementPolicy": "Failed",
        "template": template(PodParameters {
            role: Role::Source,
            account: "assay-driver".to_owned(),
            asks_api: true,
            installed: &installation.image,
            image: &installation.image,
            store: &installation.store,
            targets_namespace: &installation.targets_namespace,
            labels,
            command,
            // The credentials of receivers of hot metrics are among them.
            asks_endpoints: true,
            resources: json!({"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}),
            node_selector: &none,
            grace_seconds: DRIVER_GRACE,
            env: Vec::new(),
            extra_volumes: vec![(
                json!({"name": "installation", "configMap": {"name": crate::INSTALLATION}}),
                json!({"name": "installation", "mountPath": "/installation", "readOnly": true}),
            )],
            affinity: None,
            spread: None,
            overrides: &PodOverride::default(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::installation;
    use assay_manifest::Kind;
    use assay_stage::parameters::ExecuteParameters;

    /// Builds a Job of execute with three shards, after `change`.
    fn execute(change: impl FnOnce(&mut StageJob<'_>)) -> Object {
        let digest = Digest::compute(b"");
        let (installation, run_id) = (installation(), "nightly-1".parse().expect("a run id"));
        let root = RunRoot { name: "assay-nightly-1".to_owned(), uid: "u".to_owned() };
        let inputs = [InputRef { kind: Kind::Plan, manifest: digest, bundle: digest }];
        let parameters = StageParameters::default_for(StageName::Execute);
        let (resources, none, nothing) = (Resources::default(), BTreeMap::new(), PodOverride::default());
        let mut call = StageJob {
            installation: &installation,
            root: &root,
            run_id: &run_id,
            input: digest,
            inputs: &inputs,
            parameters: &parameters,
            trust: digest,
            shards: 3,
            timeout: Some(Duration::from_mins(10)),
            retries: 1,
            resources: &resources,
            node_selector: &none,
            avoid: &["gpu-1".to_owned()],
            must_avoid: false,
            image: None,
            overrides: &nothing,
            queue: None,
            start_limit: Duration::from_mins(5),
            load: None,
            begin_after: None,
        };
        change(&mut call);
        stage_job(&call).expect("JSON")
    }

    /// Returns the default parameters of a stage.
    fn parameters(stage: StageName) -> &'static StageParameters {
        Box::leak(Box::new(StageParameters::default_for(stage)))
    }

    fn container(job: &Object) -> &Value {
        &job["spec"]["template"]["spec"]["containers"][0]
    }

    #[test]
    fn a_sharded_execute() {
        insta::assert_snapshot!(crate::to_yaml(&[execute(|_| ())]).expect("YAML"));
    }

    #[test]
    fn a_driver() {
        let (installation, run_id) = (installation(), "nightly-1".parse().expect("a run id"));
        let root = RunRoot { name: "assay-nightly-1".to_owned(), uid: "u".to_owned() };
        let job = driver_job(&DriverJob {
            installation: &installation,
            root: &root,
            run_id: &run_id,
            arguments: &["--queue".to_owned(), "q".to_owned()],
        });
        insta::assert_snapshot!(crate::to_yaml(&[job]).expect("YAML"));
    }

    #[test]
    fn load_has_whole_cpus_of_its_own_unless_it_asks_for_less() {
        let of = |cpu: Option<&str>| {
            let resources = Resources { cpu: cpu.map(str::to_owned), memory: None };
            let job = execute(|call| call.resources = Box::leak(Box::new(resources)));
            container(&job)["resources"].to_string()
        };
        assert_eq!(of(None), r#"{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}"#);
        assert_eq!(of(Some("4")), r#"{"limits":{"cpu":"4","memory":"1Gi"},"requests":{"cpu":"4","memory":"1Gi"}}"#);
        assert_eq!(of(Some("100m")), r#"{"limits":{"memory":"1Gi"},"requests":{"cpu":"100m","memory":"1Gi"}}"#);
    }

    #[test]
    fn what_a_person_wrote_is_no_variable() {
        let job = execute(|_| ());
        let words: Vec<_> = container(&job)["command"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
        assert!(words.contains(&r#"{"block":0,"close":false,"except":[],"incarnation":0}"#), "{words:?}");
        assert_eq!(escape_variables(r#"{"text":"$(KEY)"}"#), r#"{"text":"$$(KEY)"}"#);
        assert!(words.contains(&"$(JOB_COMPLETION_INDEX)/3"), "{words:?}");
    }

    const OWN: &str = "example.org/own@sha256:1111111111111111111111111111111111111111111111111111111111111111";

    /// An override with everything that a pipeline may set for the pods of a stage.
    const ASKED: &str = "\
        env: [{name: NCCL_DEBUG, value: $(KEY)}, {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hugging-face, key: token}}}], \
        envFrom: [{configMapRef: {name: proxies, optional: true}}], \
        tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}], \
        affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [\
            {key: pool, operator: In, values: [load]}]}]}}, \
          podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 10, podAffinityTerm: {\
            topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: noisy}}}}]}}, \
        volumes: [{name: cache, persistentVolumeClaim: {claimName: models, readOnly: true}}, {name: shared, emptyDir: {medium: Memory}}, \
          {name: authorities, configMap: {name: authorities, items: [{key: ca.crt, path: ca.crt}]}}, {name: login, secret: {secretName: login}}], \
        volumeMounts: [{name: cache, mountPath: /models, subPath: llama, readOnly: true}, {name: shared, mountPath: /dev/shm}, \
          {name: authorities, mountPath: /etc/authorities, readOnly: true}, {name: login, mountPath: /login}], \
        priorityClassName: benchmarks, serviceAccountName: load, \
        securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000, supplementalGroups: [3000]}";

    #[test]
    fn an_execute_with_everything_that_a_pipeline_may_ask_for() {
        let asked =
            crate::pod_override::parse_stage_override(Role::Execute, ASKED).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let job = execute(|call| {
            call.overrides = Box::leak(Box::new(asked));
            (call.image, call.must_avoid) = (Some(OWN), true);
        });
        insta::assert_snapshot!(crate::to_yaml(&[job["spec"]["template"]["spec"].clone()]).expect("YAML"));
    }

    #[test]
    fn programs_are_laid_only_where_the_image_is_another() {
        let installation = installation();
        let job = execute(|call| call.image = Some(&call.installation.image));
        assert_eq!(job["spec"]["template"]["spec"].get("initContainers"), None);
        let publish = execute(|call| (call.parameters, call.shards, call.image) = (parameters(StageName::Publish), 1, Some(OWN)));
        let installed = &publish["spec"]["template"]["spec"]["initContainers"][0];
        assert_eq!(
            installed["command"],
            json!(["/assay/assay", "install-programs", "--to", "/programs", "assay-publish", "assay-sql"])
        );
        assert_eq!(installed["image"], json!(installation.image));
        assert_eq!(container(&publish)["image"], json!(OWN));
        let variables = container(&publish)["env"].as_array().expect("a list");
        assert!(
            variables.contains(&json!({"name": "ASSAY_IMAGE", "value": installation.image})),
            "targets run in the installed one"
        );
    }

    #[test]
    fn provision_is_told_how_load_is_placed_where_it_is_to_count_shards() {
        let asked = crate::pod_override::parse_stage_override(Role::Execute, "tolerations: [{key: load, operator: Exists}]")
            .expect("it may ask that");
        let resources = Resources { cpu: Some("2".to_owned()), memory: None };
        let selector = BTreeMap::from([("pool".to_owned(), "$(ASSAY_IMAGE)".to_owned())]);
        let load: &LoadPod = Box::leak(Box::new(LoadPod::new(&resources, &selector, &asked, true)));
        let provision =
            execute(|call| (call.parameters, call.shards, call.load) = (parameters(StageName::Provision), 1, Some(load)));
        let variables = container(&provision)["env"].as_array().expect("a list");
        let told = variables.iter().find(|variable| variable["name"] == "ASSAY_LOAD_POD").expect("it is told")["value"].as_str();
        let told = told.expect("a text");
        assert!(told.contains("$$(ASSAY_IMAGE)"), "nothing that a person wrote is expanded: {told}");
        assert_eq!(serde_json::from_str::<LoadPod>(&told.replace("$$", "$")).expect("a load pod"), *load);
    }

    #[test]
    fn only_load_waits_in_a_queue() {
        let job = execute(|call| call.queue = Some("gpu"));
        assert_eq!(
            (job["spec"]["suspend"].as_bool(), job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"].as_str()),
            (Some(true), Some("gpu"))
        );
        let provision =
            execute(|call| (call.parameters, call.shards, call.queue) = (parameters(StageName::Provision), 1, Some("gpu")));
        let told = container(&provision)["env"].to_string();
        assert!(told.contains(r#"{"name":"ASSAY_START_LIMIT","value":"300"},{"name":"ASSAY_QUEUE","value":"gpu"}"#), "{told}");
        assert_eq!(provision["spec"].get("suspend"), None, "the pods that it makes wait, and not provision");
        assert!(!told.contains("ASSAY_LOAD_POD"), "it makes no pod of load's kind unasked");
        let close = StageParameters::Execute(ExecuteParameters { close: true, ..ExecuteParameters::default() });
        let closing = execute(|call| (call.parameters, call.queue) = (Box::leak(Box::new(close)), Some("gpu")));
        assert_eq!(closing["spec"].get("suspend"), None, "closing a block is no load");
        let plan = execute(|call| (call.parameters, call.shards, call.queue) = (parameters(StageName::Plan), 1, Some("gpu")));
        assert!(!container(&plan)["env"].to_string().contains("ASSAY_QUEUE"));
        assert_eq!(plan["spec"].get("suspend"), None);
        assert_eq!(plan["spec"]["template"]["spec"].get("affinity"), None, "only load is kept off");
    }
}
