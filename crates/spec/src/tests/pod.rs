//! Pod settings of stages: accepted and refused ones.

use insta::assert_snapshot;
use serde_json::json;

use super::{PIPELINE, pipeline, problems};
use crate::PodOverride;

/// Examples of pod settings.
pub(super) const POD_SETTINGS: &str = "\
    env: [{name: NCCL_DEBUG, value: 1}, {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hugging-face, key: token}}}], \
    envFrom: [{prefix: TEAM_, configMapRef: {name: team-settings}}], \
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}], \
    affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [\
        {key: pool, operator: In, values: [load]}]}]}}}, \
    volumes: [{name: data, emptyDir: {}}, {name: login, secret: {secretName: login, items: [{key: a, path: b/c}]}}], \
    volumeMounts: [{name: data, mountPath: /data/}, {name: login, mountPath: /login, readOnly: true}], \
    priorityClassName: benchmarks, serviceAccountName: load, \
    securityContext: {runAsUser: 1000, fsGroup: 2000}";

/// Returns a pipeline whose stage of that name has these pod settings.
pub(super) fn pipeline_with_pod(stage: &str, pod: &str) -> String {
    let stages = ["plan", "provision", "execute", "collect", "reduce", "publish"].map(|name| {
        let pod = if name == stage { format!(", pod: {{{pod}}}") } else { String::new() };
        format!("    - {{name: {name}{pod}}}\n")
    });
    format!("{PIPELINE}  stages:\n{}", stages.concat())
}

fn refused(pod: &str) -> String {
    problems(&pipeline_with_pod("execute", pod))
}

#[test]
fn what_a_stage_asks_of_its_pods_is_as_kubernetes_takes_it() {
    let stages = pipeline(&pipeline_with_pod("execute", POD_SETTINGS)).spec.stages;
    assert_eq!(stages[0].pod, PodOverride::default());
    let pod = &stages[2].pod;
    assert_eq!(pod.env()[0], json!({"name": "NCCL_DEBUG", "value": "1"}));
    assert_eq!(
        pod.env()[1],
        json!({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}})
    );
    assert_eq!(pod.env_from(), [json!({"prefix": "TEAM_", "configMapRef": {"name": "team-settings"}})]);
    assert_eq!(pod.tolerations(), [json!({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})]);
    let terms = json!([{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["load"]}]}]);
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    assert_eq!(pod.affinity(), Some(&json!({"nodeAffinity": required})));
    // An `emptyDir` has a size limit even if none is written.
    assert_eq!(pod.volumes()[0], json!({"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}));
    let items = json!([{"key": "a", "path": "b/c"}]);
    assert_eq!(pod.volumes()[1], json!({"name": "login", "secret": {"secretName": "login", "items": items}}));
    assert_eq!(pod.volume_mounts()[0], json!({"name": "data", "mountPath": "/data", "readOnly": false}));
    assert_eq!((pod.priority_class(), pod.service_account()), (Some("benchmarks"), Some("load")));
    assert_eq!(pod.security_context(), Some(&json!({"runAsUser": 1000, "fsGroup": 2000, "supplementalGroups": []})));
}

#[test]
fn no_way_leads_to_a_secret_of_assays() {
    assert_snapshot!(refused("envFrom: [{secretRef: {name: assay-key-publish}}]"), @r"
    error: `spec.stages[2].pod.envFrom[0].secretRef.name` names `assay-key-publish`, which is Assay's own
      --> a.yaml:11:58
       |
    11 |     - {name: execute, pod: {envFrom: [{secretRef: {name: assay-key-publish}}]}}
       |                                                          ^^^^^^^^^^^^^^^^^
    hint: keys, credentials and settings of the stages are named `assay-*`, and no pipeline hands them on
    ");
    for way in [
        "env: [{name: A, valueFrom: {secretKeyRef: {name: assay-key-execute, key: cosign.key}}}]",
        "env: [{name: A, valueFrom: {configMapKeyRef: {name: assay, key: image}}}]",
        "envFrom: [{configMapRef: {name: assay-nightly-1}}]",
        "volumes: [{name: v, secret: {secretName: assay-git}}]",
        "volumes: [{name: v, configMap: {name: assay}}]",
    ] {
        assert!(refused(way).contains("which is Assay's own"), "{way}");
    }
    assert_eq!(refused("envFrom: [{secretRef: {name: assays}}]"), "no problem");
}

#[test]
fn an_account_of_another_stage_is_refused() {
    assert_snapshot!(refused("serviceAccountName: assay-publish"), @r"
    error: `spec.stages[2].pod.serviceAccountName` is `assay-publish`, which is not the account of `execute`
      --> a.yaml:11:49
       |
    11 |     - {name: execute, pod: {serviceAccountName: assay-publish}}
       |                                                 ^^^^^^^^^^^^^
    hint: `assay-execute` is; leave it out, or name an account that does not begin with `assay-`
    ");
    assert_snapshot!(problems(&pipeline_with_pod("collect", "serviceAccountName: bucket-writer")), @r"
    error: `spec.stages[3].pod.serviceAccountName` is `bucket-writer`, and `collect` asks the API server as `assay-collect`
      --> a.yaml:12:49
       |
    12 |     - {name: collect, pod: {serviceAccountName: bucket-writer}}
       |                                                 ^^^^^^^^^^^^^
    hint: give the account `assay-collect` the identity that the stage needs
    ");
    assert_eq!(refused("serviceAccountName: assay-execute"), "no problem");
    assert_eq!(refused("serviceAccountName: bucket-writer"), "no problem");
    assert!(refused("serviceAccountName: assay-driver").contains("not the account of `execute`"));
}

#[test]
fn variables_of_assays_are_refused() {
    assert_snapshot!(refused("env: [{name: ASSAY_STORE, value: x}]"), @r"
    error: `spec.stages[2].pod.env[0].name` is Assay's own variable `ASSAY_STORE`
      --> a.yaml:11:42
       |
    11 |     - {name: execute, pod: {env: [{name: ASSAY_STORE, value: x}]}}
       |                                          ^^^^^^^^^^^
    hint: names that begin with `ASSAY_`, `AWS_`, `COSIGN_`, `ENDPOINT_`, `KUBERNETES_`, `LD_` are taken, and so are `JOB_COMPLETION_INDEX`, `PATH`, `TMPDIR`
    ");
    assert_snapshot!(refused("envFrom: [{prefix: ASS, secretRef: {name: x}}]"), @r"
    error: `spec.stages[2].pod.envFrom[0].prefix` is `ASS`, which may make variables of Assay's own
      --> a.yaml:11:48
       |
    11 |     - {name: execute, pod: {envFrom: [{prefix: ASS, secretRef: {name: x}}]}}
       |                                                ^^^
    hint: names that begin with `ASSAY_`, `AWS_`, `COSIGN_`, `ENDPOINT_`, `KUBERNETES_`, `LD_` are taken, and so are `JOB_COMPLETION_INDEX`, `PATH`, `TMPDIR`
    ");
    assert_snapshot!(refused("env: [{name: A, value: x}, {name: A, value: y}, {name: B}, {name: C, value: x, valueFrom: {}}]"), @r"
    error: `A` is listed twice in `spec.stages[2].pod.env` by `name`
      --> a.yaml:11:63
       |
    11 | pod: {env: [{name: A, value: x}, {name: A, value: y}, {name: B}, {name: C, value: x, valueFrom: {}}]}}
       |                                         ^

    error: `spec.stages[2].pod.env[2]` needs one of `value`, `valueFrom`
      --> a.yaml:11:77
       |
    11 | ame: A, value: x}, {name: A, value: y}, {name: B}, {name: C, value: x, valueFrom: {}}]}}
       |                                         ^^^^^^^^

    error: `spec.stages[2].pod.env[3].valueFrom` needs one of `secretKeyRef`, `configMapKeyRef`
      --> a.yaml:11:108
       |
    11 | lue: y}, {name: B}, {name: C, value: x, valueFrom: {}}]}}
       |                                         ^^^^^^^^^

    error: `spec.stages[2].pod.env[3]` takes only one of `value`, `valueFrom`
      --> a.yaml:11:108
       |
    11 | lue: y}, {name: B}, {name: C, value: x, valueFrom: {}}]}}
       |                                         ^^^^^^^^^
    hint: `value` is given too; keep one of them
    ");
}

#[test]
fn a_secret_is_no_value() {
    let said = refused("env: [{name: HF_TOKEN, value: hf_very_secret}]");
    assert!(!said.contains("very_secret"), "{said}");
    assert_snapshot!(said, @r"
    error: `HF_TOKEN` looks like a secret; a definition holds references to secrets only
      --> a.yaml:11:59
       |
    11 |     - {name: execute, pod: {env: [{name: HF_TOKEN, value: …
       |                                                           ^
    hint: give its place: `valueFrom: {secretKeyRef: {name: SECRET, key: MEMBER}}`
    ");
}

#[test]
fn volumes_are_of_four_kinds_and_none_of_assays() {
    assert_snapshot!(refused("volumes: [{name: host, hostPath: {path: /}}]"), @r"
    error: `spec.stages[2].pod.volumes[0]` needs one of `configMap`, `secret`, `emptyDir`, `persistentVolumeClaim`
      --> a.yaml:11:39
       |
    11 |     - {name: execute, pod: {volumes: [{name: host, hostPath: {path: /}}]}}
       |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    error: `spec.stages[2].pod.volumes[0]` has no field `hostPath`
      --> a.yaml:11:52
       |
    11 |     - {name: execute, pod: {volumes: [{name: host, hostPath: {path: /}}]}}
       |                                                    ^^^^^^^^
    hint: it takes `name`, `configMap`, `secret`, `emptyDir`, `persistentVolumeClaim`
    ");
    assert_snapshot!(refused("volumes: [{name: key, emptyDir: {}}]"), @r"
    error: `spec.stages[2].pod.volumes[0].name` is `key`, which is a volume of Assay's own
      --> a.yaml:11:46
       |
    11 |     - {name: execute, pod: {volumes: [{name: key, emptyDir: {}}]}}
       |                                              ^^^
    hint: `key`, `programs`, `scratch` are taken
    ");
    assert_snapshot!(refused("volumes: [{name: a, emptyDir: {}, configMap: {name: b}}, {name: a, emptyDir: {sizeLimit: much}}]"), @r"
    error: `spec.stages[2].pod.volumes[0]` takes only one of `configMap`, `secret`, `emptyDir`, `persistentVolumeClaim`
      --> a.yaml:11:63
       |
    11 | pod: {volumes: [{name: a, emptyDir: {}, configMap: {name: b}}, {name: a, emptyDir: {sizeLimit: much}}]}}
       |                                         ^^^^^^^^^
    hint: `emptyDir` is given too; keep one of them

    error: `a` is listed twice in `spec.stages[2].pod.volumes` by `name`
      --> a.yaml:11:93
       |
    11 | yDir: {}, configMap: {name: b}}, {name: a, emptyDir: {sizeLimit: much}}]}}
       |                                         ^

    error: `spec.stages[2].pod.volumes[1].emptyDir.sizeLimit` is not a quantity: `much`
      --> a.yaml:11:118
       |
    11 | e: b}}, {name: a, emptyDir: {sizeLimit: much}}]}}
       |                                         ^^^^
    hint: a number with `m`, `k`, `M`, `G`, `T`, `Ki`, `Mi`, `Gi` or `Ti`
    ");
}

#[test]
fn mounts_have_a_volume_and_a_folder_of_their_own() {
    let mount = |name: &str, path: &str| {
        refused(&format!("volumes: [{{name: data, emptyDir: {{}}}}], volumeMounts: [{{name: {name}, mountPath: {path}}}]"))
    };
    assert_eq!(mount("data", "/data"), "no problem");
    assert_eq!(mount("data", "/dev/shm"), "no problem");
    assert_eq!(mount("data", "/etc/authorities"), "no problem");
    assert!(mount("data", "/usr/bin").contains("has `/usr`"));
    assert_snapshot!(mount("date", "/data"), @r"
    error: `spec.stages[2].pod.volumeMounts[0].name` is `date`, which is none of `volumes`
      --> a.yaml:11:90
       |
    11 |     - {name: execute, pod: {volumes: [{name: data, emptyDir: {}}], volumeMounts: [{name: date, mountPath: /data}]}}
       |                                                                                          ^^^^
    hint: did you mean `data`?
    ");
    assert_snapshot!(mount("data", "/keys/"), @r"
    error: `spec.stages[2].pod.volumeMounts[0].mountPath` is `/keys`, where Assay or the pod itself has `/keys`
      --> a.yaml:11:107
       |
    11 |     - {name: execute, pod: {volumes: [{name: data, emptyDir: {}}], volumeMounts: [{name: data, mountPath: /keys/}]}}
       |                                                                                                           ^^^^^^
    hint: a folder apart from `/assay`, `/bin`, `/dev`, `/etc/group`, `/etc/hosts`, `/etc/ld.so.conf`, `/etc/ld.so.conf.d`, `/etc/ld.so.preload`, `/etc/nsswitch.conf`, `/etc/passwd`, `/etc/pki`, `/etc/resolv.conf`, `/etc/ssl`, `/keys`, `/lib`, `/lib64`, `/proc`, `/run/secrets`, `/sbin`, `/scratch`, `/sys`, `/tmp`, `/usr`, `/var/run/secrets`; of these, `/dev/shm` alone may be mounted
    ");
    assert_snapshot!(mount("data", "data"), @r"
    error: `spec.stages[2].pod.volumeMounts[0].mountPath` is not a path in the container: `data`
      --> a.yaml:11:107
       |
    11 |     - {name: execute, pod: {volumes: [{name: data, emptyDir: {}}], volumeMounts: [{name: data, mountPath: data}]}}
       |                                                                                                           ^^^^
    hint: must begin with `/`
    ");
    for path in ["/", "/scratch", "/assay", "/tmp", "/dev", "/proc", "/sys", "/var/run/secrets", "/var", "/assay/x", "//keys/./x"]
    {
        assert!(mount("data", path).contains("where Assay or the pod itself has"), "{path}");
    }
    assert!(
        refused("volumes: [{name: d, emptyDir: {}}], volumeMounts: [{name: d, mountPath: /d}, {name: d, mountPath: /d/}]")
            .contains("listed twice")
    );
}

#[test]
fn nothing_weakens_the_pod() {
    assert_snapshot!(refused("securityContext: {runAsUser: 0, privileged: true}"), @r"
    error: `spec.stages[2].pod.securityContext.runAsUser` must be from 1 to 2147483647, not 0
      --> a.yaml:11:58
       |
    11 |     - {name: execute, pod: {securityContext: {runAsUser: 0, privileged: true}}}
       |                                                          ^

    error: `spec.stages[2].pod.securityContext` has no field `privileged`
      --> a.yaml:11:61
       |
    11 |     - {name: execute, pod: {securityContext: {runAsUser: 0, privileged: true}}}
       |                                                             ^^^^^^^^^^
    hint: it takes `runAsUser`, `runAsGroup`, `fsGroup`, `supplementalGroups`
    ");
    assert_snapshot!(refused("priorityClassName: system-node-critical"), @r"
    error: `spec.stages[2].pod.priorityClassName` is `system-node-critical`, which is for the cluster itself
      --> a.yaml:11:48
       |
    11 |     - {name: execute, pod: {priorityClassName: system-node-critical}}
       |                                                ^^^^^^^^^^^^^^^^^^^^
    hint: name a PriorityClass that an administrator has made for benchmarks
    ");
    for field in ["hostNetwork: true", "hostPID: true", "initContainers: []", "containers: []", "shareProcessNamespace: true"] {
        assert!(refused(field).contains("has no field"), "{field}");
    }
    for field in ["runAsNonRoot: false", "capabilities: {add: [SYS_ADMIN]}", "seccompProfile: {type: Unconfined}", "fsGroup: 0"] {
        assert_ne!(refused(&format!("securityContext: {{{field}}}")), "no problem", "{field}");
    }
}

#[test]
fn tolerations_and_affinities_mean_something() {
    assert_snapshot!(refused("tolerations: [{value: a}, {key: a, operator: Exists, value: b, tolerationSeconds: 5}]"), @r"
    error: `spec.stages[2].pod.tolerations[0]` has no `key`
      --> a.yaml:11:43
       |
    11 |     - {name: execute, pod: {tolerations: [{value: a}, {key: a, operator: Exists, value: b, tolerationSeconds: 5}]}}
       |                                           ^^^^^^^^^
    hint: write one, or `operator: Exists` for every taint

    error: `spec.stages[2].pod.tolerations[1].value` is not compared by `operator: Exists`
      --> a.yaml:11:82
       |
    11 |     - {name: execute, pod: {tolerations: [{value: a}, {key: a, operator: Exists, value: b, tolerationSeconds: 5}]}}
       |                                                                                  ^^^^^
    hint: remove one of them

    error: `spec.stages[2].pod.tolerations[1].tolerationSeconds` belongs to `effect: NoExecute`
      --> a.yaml:11:92
       |
    11 |     - {name: execute, pod: {tolerations: [{value: a}, {key: a, operator: Exists, value: b, tolerationSeconds: 5}]}}
       |                                                                                            ^^^^^^^^^^^^^^^^^
    hint: write `effect: NoExecute`, or remove it
    ");
    assert_snapshot!(refused("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}"), @r"
    error: `spec.stages[2].pod.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]` lacks `matchExpressions`
      --> a.yaml:11:124
       |
    11 | edDuringExecution: {nodeSelectorTerms: [{}]}}}}}
       |                                         ^
    hint: the expressions, all of which must hold
    ");
    let term = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}}";
    assert_snapshot!(refused(term), @r"
    error: `spec.stages[2].pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]` lacks `topologyKey`
      --> a.yaml:11:107
       |
    11 | uringSchedulingIgnoredDuringExecution: [{labelSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}
       |                                         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    hint: nodes with the same value of this label are near each other: for example `topologyKey: topology.kubernetes.io/zone`

    error: `spec.stages[2].pod.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].values` does not belong to a label expression of `operator: Exists`
      --> a.yaml:11:170
       |
    11 | xpressions: [{key: a, operator: Exists, values: [b]}]}}]}}}}
       |                                         ^^^^^^
    hint: it belongs to `operator: In` or `operator: NotIn`; remove it
    ");
    assert_eq!(refused("tolerations: [{operator: Exists}, {key: a, effect: NoExecute, tolerationSeconds: 5}]"), "no problem");
}
