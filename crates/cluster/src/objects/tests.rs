use super::*;

const NAMESPACE: &str = "assay-targets";

fn with_owner<T>(queue: Option<&str>, then: impl FnOnce(&ObjectsOwner<'_>) -> T) -> T {
    let run_id = "nightly-1".parse().expect("a run id");
    then(&ObjectsOwner { namespace: NAMESPACE, run_id: &run_id, target: "vllm", queue })
}

fn files(text: &str) -> Vec<(String, Vec<Value>)> {
    vec![("targets/vllm.yaml".to_owned(), assay_spec::parse_objects("targets/vllm.yaml", text.as_bytes()).expect("YAML"))]
}

/// Returns the objects as YAML, or the failure.
fn check(text: &str) -> String {
    match with_owner(None, |of| target_objects(of, &files(text))) {
        Ok(objects) => crate::to_yaml(&objects).expect("YAML"),
        Err(error) => assay_failure::Failure::from(error).to_string(),
    }
}

/// Returns a Deployment with these fields in the spec of its pods.
fn pods_with(spec: &str) -> String {
    check(&format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: vllm}}\nspec:\n  selector: {{matchLabels: {{app: vllm}}}}\n  template: {{metadata: {{labels: {{app: vllm}}}}, spec: {{{spec}}}}}\n"
    ))
}

const WHOLE: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm, labels: {app: vllm}}
spec:
  replicas: 2
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}}
    spec:
      containers:
        - name: vllm
          image: registry.example.org/vllm@sha256:0000000000000000000000000000000000000000000000000000000000000000
          resources: {limits: {nvidia.com/gpu: 1}}
          env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: target-secrets, key: hf}}}]
          volumeMounts: [{name: settings, mountPath: /settings}]
      volumes: [{name: settings, configMap: {name: settings}}]
---
apiVersion: v1
kind: Service
metadata: {name: vllm}
spec: {selector: {app: vllm}, ports: [{port: 8000}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata: {name: router}
spec: {containers: [{name: router, image: r}]}
";

#[test]
fn whatever_can_be_made_is_taken_down() {
    assert!(KINDS.iter().all(|(kind, _)| TARGET_KINDS.contains(kind)));
    assert_eq!(KINDS.len(), TARGET_KINDS.len());
}

#[test]
fn objects_carry_their_run_and_select_nothing_of_another() {
    let objects = with_owner(Some("gpu"), |of| target_objects(of, &files(WHOLE))).expect("objects");
    insta::assert_snapshot!(crate::to_yaml(&objects).expect("YAML"));
}

#[test]
fn everything_that_an_object_may_not_be_is_told_at_once() {
    insta::assert_snapshot!(check(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\napiVersion: v1\nkind: Deployment\nmetadata: {name: Vllm, namespace: assay, finalizers: [a], ownerReferences: []}\nspec: {replicas: -1}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: 1st, labels: {assay.dev/run: other}}\nspec: {type: NodePort, externalIPs: [1.2.3.4], ports: []}\n---\nkind: 1\n"
    ), @r"
    error[target_objects]: the objects of target `vllm` cannot be provisioned:
      `targets/vllm.yaml`: the Secret `s` is of no kind that a target may consist of: ConfigMap, Service, Pod, Deployment, StatefulSet
      `targets/vllm.yaml`: the Deployment `Vllm` has to be of `apiVersion: apps/v1`
      `targets/vllm.yaml`: the Deployment `Vllm` needs a name of lower-case letters, digits and inner hyphens, at most 40 characters
      `targets/vllm.yaml`: the Deployment `Vllm` names a namespace; it is made in that of the targets
      `targets/vllm.yaml`: the Deployment `Vllm` may not set `metadata.finalizers`
      `targets/vllm.yaml`: the Deployment `Vllm` may not set `metadata.ownerReferences`
      `targets/vllm.yaml`: the Deployment `Vllm` needs a whole number of `replicas`
      `targets/vllm.yaml`: the Service `1st` needs a name of lower-case letters, digits and inner hyphens, beginning with a letter, at most 63 characters
      `targets/vllm.yaml`: the Service `1st` may not set the label `assay.dev/run`, which is Assay's to set
      `targets/vllm.yaml`: the Service `1st` may be of `type: ClusterIP` only
      `targets/vllm.yaml`: the Service `1st` may not set `spec.externalIPs`
      `targets/vllm.yaml`: the Service `1st` needs a `selector`
      `targets/vllm.yaml`: the object `` is of no kind that a target may consist of: ConfigMap, Service, Pod, Deployment, StatefulSet

    hint: docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`
    ");
}

#[test]
fn what_leads_out_of_a_pod_is_refused() {
    insta::assert_snapshot!(pods_with("hostNetwork: true, hostPID: true, nodeName: gpu-1, serviceAccountName: assay-provision, automountServiceAccountToken: true, imagePullSecrets: [{name: assay-key-plan}]"), @r"
    error[target_objects]: the objects of target `vllm` cannot be provisioned:
      `targets/vllm.yaml`: the Deployment `vllm` may not set `automountServiceAccountToken`
      `targets/vllm.yaml`: the Deployment `vllm` may not set `hostNetwork`
      `targets/vllm.yaml`: the Deployment `vllm` may not set `hostPID`
      `targets/vllm.yaml`: the Deployment `vllm` may not set `nodeName`
      `targets/vllm.yaml`: the Deployment `vllm` may not use the service account `assay-provision`: names with `assay` are Assay's own
      `targets/vllm.yaml`: the Deployment `vllm` may not use the Secret `assay-key-plan`: names with `assay` are Assay's own

    hint: docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`
    ");
    insta::assert_snapshot!(pods_with("volumes: [{name: a, hostPath: {path: /}}, {name: b, secret: {secretName: assay-key-publish}}, {name: c, projected: {sources: [{secret: {name: assay-git}}, {serviceAccountToken: {path: t}}]}}, {name: d, nfs: {server: s, path: /}}]"), @r"
    error[target_objects]: the objects of target `vllm` cannot be provisioned:
      `targets/vllm.yaml`: the Deployment `vllm` may not mount a volume of `hostPath`
      `targets/vllm.yaml`: the Deployment `vllm` may not use the Secret `assay-key-publish`: names with `assay` are Assay's own
      `targets/vllm.yaml`: the Deployment `vllm` may not use the Secret `assay-git`: names with `assay` are Assay's own
      `targets/vllm.yaml`: the Deployment `vllm` may not set `projected.serviceAccountToken`
      `targets/vllm.yaml`: the Deployment `vllm` may not mount a volume of `nfs`

    hint: docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`
    ");
    insta::assert_snapshot!(pods_with("initContainers: [{name: assay, securityContext: {privileged: true, capabilities: {add: [SYS_ADMIN]}}}], containers: [{name: b, ports: [{containerPort: 1, hostPort: 1}], env: [{name: A, valueFrom: {secretKeyRef: {name: assay-store-plan, key: k}}}], envFrom: [{secretRef: {name: assay-endpoints}}]}]"), @r"
    error[target_objects]: the objects of target `vllm` cannot be provisioned:
      `targets/vllm.yaml`: the Deployment `vllm` may not call a container `assay`
      `targets/vllm.yaml`: the Deployment `vllm` may not set `privileged`
      `targets/vllm.yaml`: the Deployment `vllm` may not set `capabilities.add`
      `targets/vllm.yaml`: the Deployment `vllm` may not set `hostPort`
      `targets/vllm.yaml`: the Deployment `vllm` may not use the Secret `assay-store-plan`: names with `assay` are Assay's own
      `targets/vllm.yaml`: the Deployment `vllm` may not use the Secret `assay-endpoints`: names with `assay` are Assay's own

    hint: docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`
    ");
    let harmless = "serviceAccountName: default, hostNetwork: false, containers: [{name: a, image: i, ports: [{containerPort: 80}], securityContext: {privileged: false, capabilities: {drop: [ALL]}}}]";
    assert!(pods_with(harmless).starts_with("---"), "{}", pods_with(harmless));
}

#[test]
fn what_would_outlast_a_run_or_go_before_the_cluster_is_refused() {
    for (spec, why) in [
        ("terminationGracePeriodSeconds: 61", "needs `terminationGracePeriodSeconds` from 0 to 60"),
        ("terminationGracePeriodSeconds: 1e9", "needs `terminationGracePeriodSeconds` from 0 to 60"),
        ("priorityClassName: system-node-critical", "may not have the priority `system-node-critical`"),
        (
            "volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {path: t}}]}}]",
            "may not set `projected.clusterTrustBundle`",
        ),
    ] {
        assert!(pods_with(spec).contains(why), "{}", pods_with(spec));
    }
    let harmless = "terminationGracePeriodSeconds: 60, priorityClassName: benchmarks, containers: [{name: a, image: i, lifecycle: {preStop: {sleep: {seconds: 5}}}}], volumes: [{name: a, projected: {sources: [{configMap: {name: c}}, {secret: {name: s}}, {downwardAPI: {items: []}}]}}]";
    assert!(pods_with(harmless).starts_with("---"), "{}", pods_with(harmless));
    let service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {a: b}, publishNotReadyAddresses: true}\n";
    assert!(check(service).contains("may not set `spec.publishNotReadyAddresses`"), "{}", check(service));
}

#[test]
fn problems_are_listed_up_to_a_limit() {
    let hosts = (0..60).map(|index| format!("{{name: v{index}, hostPath: {{path: /}}}}")).collect::<Vec<_>>().join(", ");
    let said = pods_with(&format!("volumes: [{hosts}]"));
    assert_eq!(said.matches("may not mount").count(), MAX_PROBLEMS);
    assert_eq!(said.matches("what else is wrong is not listed").count(), 1);
}

#[test]
fn shapes_that_labels_cannot_be_put_into_are_refused() {
    for part in [
        "metadata: {name: a, labels: [b]}",
        "metadata: {name: a}\nspec: text",
        "metadata: {name: a}\nspec: {selector: [], template: 1}",
    ] {
        let said = check(&format!("apiVersion: apps/v1\nkind: Deployment\n{part}\n"));
        assert!(said.contains("needs a map at"), "{said}");
    }
    assert!(check("apiVersion: v1\nkind: Pod\nmetadata: 1\n").contains("needs a name"));
}

#[test]
fn there_are_limits() {
    let pod = |index: usize| format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{index}}}\nspec: {{containers: []}}\n");
    insta::assert_snapshot!(check(&(0..51).map(pod).collect::<String>()), @r"
    error[target_objects]: the objects of target `vllm` cannot be provisioned:
      there are 51 objects; a target has at most 50

    hint: docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`
    ");
    insta::assert_snapshot!(check("apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replicas: 9223372036854775807, volumeClaimTemplates: [{}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"), @r"
    error[target_objects]: the objects of target `vllm` cannot be provisioned:
      `targets/vllm.yaml`: the StatefulSet `a` may not set `volumeClaimTemplates`
      `targets/vllm.yaml`: the Pod `a` is given twice
      they make 9223372036854775807 pods; a target has at most 64

    hint: docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`
    ");
    insta::assert_snapshot!(check("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), @r"
    error[target_objects]: the objects of target `vllm` cannot be provisioned:
      none of them brings up a pod

    hint: docs/kubernetes.md says what such objects may be; measure anything else as a target of kind `endpoint`
    ");
    let long = "a".repeat(41);
    assert!(
        check(&format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {long}}}\n")).contains("at most 40 characters")
    );
}

#[test]
fn an_object_of_somebody_else_is_left_alone() {
    let there = |labels: Value| json!({"kind": "Service", "metadata": {"name": "vllm", "labels": labels}});
    let who = |labels: Value| with_owner(None, |of| owner_conflict(of, &there(labels))).map(|conflict| conflict.to_string());
    assert_eq!(who(json!({RUN: "nightly-1", TARGET: "vllm"})), None);
    insta::assert_snapshot!(who(json!({RUN: "nightly-2", TARGET: "vllm"})).expect("taken"), @"the Service `vllm` of target `vllm` is in namespace `assay-targets` already, and another run uses it: `nightly-2`");
    insta::assert_snapshot!(who(json!({RUN: "nightly-1", TARGET: "other"})).expect("taken"), @"the Service `vllm` of target `vllm` is in namespace `assay-targets` already, and target `other` of this run uses it");
    insta::assert_snapshot!(who(json!(null)).expect("taken"), @"the Service `vllm` of target `vllm` is in namespace `assay-targets` already, and it is not Assay's");
}

#[test]
fn a_service_is_reached_from_every_namespace() {
    let objects = with_owner(None, |of| target_objects(of, &files(WHOLE))).expect("objects");
    let address = |url: &str| match with_owner(None, |of| service_address(of, url, &objects)) {
        Ok(address) => address,
        Err(error) => error.to_string(),
    };
    assert_eq!(address("http://vllm:8000"), "http://vllm.assay-targets.svc:8000");
    assert_eq!(address("http://vllm:8000/openai"), "http://vllm.assay-targets.svc:8000/openai");
    insta::assert_snapshot!(address("http://vllm"), @"target `vllm` is at `http://vllm`, but the Service `vllm` has no port 80");
    insta::assert_snapshot!(address("https://router:8000"), @"target `vllm` is at `https://router:8000`, but no Service `router` is among its objects");
    insta::assert_snapshot!(address("http://vllm:x"), @"target `vllm` is at `http://vllm:x`, but `x` is not a port");
    assert!(address("vllm").contains("that is not an address"));
}

/// Returns a Deployment of two replicas as the cluster reports it.
fn deployment(status: &Value) -> Object {
    json!({"kind": "Deployment", "metadata": {"name": "vllm", "generation": 1}, "spec": {"replicas": 2}, "status": status})
}

fn member(status: &Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "vllm-1", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}]},
        "status": status,
    });
    serde_json::from_value(pod).expect("a pod")
}

fn describe_rollout(rollout: &Rollout) -> String {
    match rollout {
        Rollout::Up => "up".to_owned(),
        Rollout::Waiting(None) => "waiting".to_owned(),
        Rollout::Waiting(Some(Trouble { obstacle, lasts })) => {
            format!("{}{}", obstacle.code(), if *lasts { ", lasts" } else { "" })
        }
    }
}

#[test]
fn objects_are_up_when_every_pod_of_the_last_change_is_ready() {
    let running = member(&json!({"phase": "Running"}));
    let of =
        |status: Value, pods: &[Pod]| describe_rollout(&rollout(&[deployment(&status), json!({"kind": "Service"})], pods, &[]));
    let ready = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2});
    let two = [running.clone(), running.clone()];
    assert_eq!(of(ready.clone(), &two), "up");
    assert_eq!(of(ready.clone(), &two[..1]), "waiting", "the pods are counted as well");
    for (name, value) in [("observedGeneration", 0), ("replicas", 3), ("updatedReplicas", 1), ("readyReplicas", 1)] {
        let mut status = ready.clone();
        status[name] = json!(value);
        assert_eq!(of(status, &two), "waiting", "{name}");
    }
    assert_eq!(of(json!(null), &[]), "waiting");
    let pod = |ready: &str| {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
        describe_rollout(&rollout(&[json!({"kind": "Pod", "status": status})], &two[..1], &[]))
    };
    assert_eq!((pod("True"), pod("False")), ("up".to_owned(), "waiting".to_owned()));
}

#[test]
fn what_keeps_objects_from_being_up_is_named() {
    let of = |status: Value, pods: &[Pod], events: &[Event]| describe_rollout(&rollout(&[deployment(&status)], pods, events));
    let waiting = |reason: &str| {
        let state = json!({"waiting": {"reason": reason, "message": "m"}});
        let status = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
        member(&json!({"phase": "Pending", "containerStatuses": [status]}))
    };
    assert_eq!(of(json!({}), &[waiting("ImagePullBackOff")], &[]), "image_pull");
    assert_eq!(of(json!({}), &[waiting("CrashLoopBackOff"), waiting("ErrImageNeverPull")], &[]), "image_pull, lasts");
    assert_eq!(of(json!({}), &[waiting("CrashLoopBackOff")], &[]), "crash_loop");
    let evicted = member(&json!({"phase": "Failed", "reason": "Evicted"}));
    assert_eq!(of(json!({}), std::slice::from_ref(&evicted), &[]), "evicted", "another pod takes its place");
    let alone = Pod { metadata: crate::ObjectMeta::default(), ..evicted };
    assert_eq!(of(json!({}), &[alone], &[]), "evicted, lasts");
    let refused =
        json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "violates PodSecurity \"restricted\""}]});
    assert_eq!(of(refused, &[], &[]), "admission");
    let event = json!({"metadata": {}, "involvedObject": {}, "reason": "FailedCreate", "message": "exceeded quota: q"});
    assert_eq!(of(json!({}), &[], &[serde_json::from_value(event).expect("an event")]), "quota");
}
