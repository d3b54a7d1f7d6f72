//! The objects that an administrator installs once: namespaces, service accounts, RBAC rights, network policies, and a store if
//! there is none.

use std::collections::BTreeMap;

use assay_manifest::Role;
use serde_json::{Value, json};

use crate::pod::{container_security, key_secret, pod_security, store_secret};
use crate::{Installation, MANAGED_BY, Object};

/// The label of a namespace that was made for one run and is removed after it. Its value is the namespace of the installation
/// that it was made for.
pub const TEMPORARY: &str = "assay.dev/temporary";

/// The port of a served store.
pub(crate) const STORE_PORT: u16 = 8420;
/// The annotations by which GitOps agents keep the results if their manifest, or all of the installation, is removed from Git: the
/// claim carries them, and its namespace, with which the claim would go.
const KEPT: [(&str, &str); 2] =
    [("argocd.argoproj.io/sync-options", "Prune=false,Delete=false"), ("kustomize.toolkit.fluxcd.io/prune", "disabled")];

/// The name of a served store's Deployment, Service and PersistentVolumeClaim.
const STORE: &str = "assay-store";

/// The parameters of an installation.
pub struct InstallParameters<'a> {
    /// The settings that pods read.
    pub installation: &'a Installation,
    /// The store that is served in the cluster; `None` if the cluster has an object store.
    pub served_store: Option<ServedStore<'a>>,
    /// True if the stages that record hosts may read nodes.
    pub reads_nodes: bool,
    /// Namespaces whose InferenceServices may be named by targets.
    pub serving_namespaces: &'a [String],
}

/// A store that is served in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct ServedStore<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// The size of its claim; `None` if the store belongs to another installation and only has to be reached.
    pub size: Option<&'a str>,
}

/// Secrets of an installation, generated elsewhere.
pub struct Keys {
    /// For each role: its encrypted private key in cosign's format, its public key, and the password of the private key.
    pub signing: BTreeMap<Role, [String; 3]>,
    /// The secret of each identity of a served store, by its name.
    pub store: BTreeMap<String, String>,
}

/// Returns the service accounts of an installation, each with the role whose key it has.
pub fn identities() -> impl Iterator<Item = (String, Role)> {
    let stages = Role::STAGES.into_iter().map(|role| (format!("assay-{role}"), role));
    std::iter::once(("assay-driver".to_owned(), Role::Source)).chain(stages)
}

/// Builds all objects, in the order in which they can be applied.
pub fn installation_objects(install: &InstallParameters<'_>, keys: Option<&Keys>) -> Vec<Object> {
    let InstallParameters { installation, served_store: served, .. } = install;
    let own_store = served.and_then(|served| Some((served.namespace, served.size?)));
    let mut targets = namespace(&installation.targets_namespace);
    targets["metadata"]["labels"][crate::TARGETS_OWNER] = json!(installation.namespace);
    let mut objects = vec![namespace(&installation.namespace), targets];
    objects.extend(own_store.map(|(name, _)| keep_results(namespace(name))));
    objects.extend(identities().map(|(name, _)| service_account(&installation.namespace, &name)));
    objects.extend(rights(installation));
    objects.extend(own_store.map(|(name, _)| store_rights(name)));
    if install.reads_nodes {
        objects.extend(node_rights(installation));
    }
    objects.extend(install.serving_namespaces.iter().flat_map(|namespace| serving_rights(installation, namespace)));
    objects.extend(network(installation, served.map(|served| served.namespace)));
    objects.push(installation.config_map());
    if let Some(keys) = keys {
        objects.extend(secrets(installation, keys));
    }
    if let Some((store, size)) = own_store {
        objects.extend(served_store(installation, store, size, keys));
    }
    objects
}

/// Builds the right of a run's driver to remove the namespaces that were made for the run, and no others.
pub fn removal_rights(installation: &Installation, namespaces: &[&str]) -> Vec<Object> {
    let named = json!({"apiGroups": [""], "resources": ["namespaces"], "resourceNames": namespaces, "verbs": ["get", "delete"]});
    grant_cluster_role(&format!("assay-remove-{}", installation.namespace), &installation.namespace, &["assay-driver"], &[named])
}

/// Sets the namespace that was made for one run as the owner of all objects outside of it, so that they are deleted with it;
/// `uid` is that namespace's UID. A store is not deleted: it goes with a namespace of its own, or stays in a namespace that
/// another party owns.
pub fn set_namespace_owner(
    installation: &Installation,
    (namespace, uid): (&str, &str),
    store: Option<&str>,
    objects: &mut [Object],
) {
    let owner = json!([{"apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": uid}]);
    let goes = |object: &&mut Object| {
        let within = object["metadata"]["namespace"].as_str();
        let is_store = within.is_some() && within == store && object["kind"] != "NetworkPolicy";
        object["kind"] != "Namespace" && within != Some(installation.namespace.as_str()) && !is_store
    };
    for object in objects.iter_mut().filter(goes) {
        object["metadata"]["ownerReferences"] = owner.clone();
    }
}

fn metadata(namespace: &str, name: &str) -> Value {
    json!({"name": name, "namespace": namespace, "labels": {MANAGED_BY.0: MANAGED_BY.1}})
}

/// Builds a namespace in which Pod Security `restricted` is enforced.
fn namespace(name: &str) -> Object {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {
            MANAGED_BY.0: MANAGED_BY.1,
            "pod-security.kubernetes.io/enforce": "restricted",
        }},
    })
}

/// Adds the annotations by which GitOps agents keep an object that holds results.
fn keep_results(mut object: Object) -> Object {
    object["metadata"]["annotations"] = KEPT.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    object
}

fn service_account(namespace: &str, name: &str) -> Object {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(namespace, name),
        "automountServiceAccountToken": false,
    })
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// The right to read the workloads of a queue.
fn queue_rule() -> Value {
    rule("kueue.x-k8s.io", &["workloads"], &["list"])
}

/// The right to list the pods of targets: provision records them, and execute compares them before, during and after each
/// attempt.
fn target_pods_rule() -> Value {
    rule("", &["pods"], &["list"])
}

/// Kinds of a target's objects, by API group: provision may create and the driver may delete all of them.
const TARGET_KINDS: [(&str, &[&str]); 2] =
    [("", &["configmaps", "pods", "services"]), ("apps", &["deployments", "statefulsets"])];

const READ: [&str; 3] = ["get", "list", "watch"];

fn rights(installation: &Installation) -> Vec<Object> {
    let (own, targets) = (installation.namespace.as_str(), installation.targets_namespace.as_str());
    let on_targets = |verbs: &[&str]| TARGET_KINDS.iter().map(|(group, kinds)| rule(group, kinds, verbs)).collect::<Vec<_>>();
    let looks = || vec![rule("", &["pods", "events"], &READ), rule("", &["pods/log"], &["get"]), rule("batch", &["jobs"], &READ)];
    let mut driver = looks();
    driver.extend([
        rule("batch", &["jobs"], &["create", "delete", "patch"]),
        // A schedule's driver puts the run's label on itself.
        rule("", &["pods"], &["patch"]),
        rule("", &["configmaps"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule("coordination.k8s.io", &["leases"], &["get", "create", "update"]),
        queue_rule(),
    ]);
    let release = on_targets(&["get", "list", "delete", "deletecollection"]);
    let mut provision = on_targets(&["get", "list", "watch", "create", "patch"]);
    // A stage that is retried makes room for its target.
    provision.push(rule("", &["pods"], &["delete"]));
    provision.extend([rule("", &["pods/log"], &["get"]), rule("", &["events"], &READ), queue_rule()]);
    let mut person = looks();
    person.extend([
        rule("batch", &["jobs"], &["create", "delete"]),
        rule("", &["configmaps"], &["get", "list", "watch", "create", "patch", "delete"]),
    ]);
    let mut objects = Vec::new();
    objects.extend(grant_role(own, "assay-driver", own, "assay-driver", &driver));
    objects.extend(grant_role(targets, "assay-driver", own, "assay-driver", &release));
    objects.extend(grant_role(targets, "assay-provision", own, "assay-provision", &provision));
    objects.extend(grant_role(targets, "assay-execute", own, "assay-execute", &[target_pods_rule()]));
    let mut collect = looks();
    collect.push(queue_rule());
    objects.extend(grant_role(own, "assay-collect", own, "assay-collect", &collect));
    // For people who start runs: an administrator chooses to whom it is bound.
    objects.push(role("Role", Some(own), "assay-user", &person));
    objects
}

/// Builds the rights of a person who reaches a served store only through the API server.
fn store_rights(store: &str) -> Object {
    let rules = [
        rule("", &["services"], &["get"]),
        rule("", &["pods"], &["get", "list"]),
        rule("", &["pods/portforward"], &["get", "create"]),
    ];
    role("Role", Some(store), "assay-user", &rules)
}

fn role(kind: &str, namespace: Option<&str>, name: &str, rules: &[Value]) -> Object {
    let mut metadata = json!({"name": name, "labels": {MANAGED_BY.0: MANAGED_BY.1}});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules})
}

/// Builds a Role in a namespace, bound to one of our service accounts.
fn grant_role(namespace: &str, name: &str, accounts: &str, account: &str, rules: &[Value]) -> [Object; 2] {
    [
        role("Role", Some(namespace), name, rules),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(namespace, name),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": accounts}],
        }),
    ]
}

/// Builds the right to read nodes. It is a right of the whole cluster, so it is the one right that can be left out: facts of
/// nodes are unknown then.
fn node_rights(installation: &Installation) -> Vec<Object> {
    let reads = [rule("", &["nodes"], &["get", "list"])];
    grant_cluster_role(
        &format!("assay-nodes-{}", installation.namespace),
        &installation.namespace,
        &["assay-provision", "assay-collect"],
        &reads,
    )
}

/// Builds a ClusterRole, bound to service accounts of ours.
fn grant_cluster_role(name: &str, accounts: &str, names: &[&str], rules: &[Value]) -> Vec<Object> {
    let subject = |name: &&str| json!({"kind": "ServiceAccount", "name": name, "namespace": accounts});
    vec![
        role("ClusterRole", None, name, rules),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": names.iter().map(subject).collect::<Vec<_>>(),
        }),
    ]
}

/// Builds the rights that provision needs to find an InferenceService or a Service and its pods, and execute to compare its pods. The
/// namespace is its owner's: it is neither created nor changed, and several installations may read it.
fn serving_rights(installation: &Installation, namespace: &str) -> Vec<Object> {
    let own = installation.namespace.as_str();
    let provision = [
        rule("serving.kserve.io", &["inferenceservices", "llminferenceservices"], &["get"]),
        rule("ome.io", &["inferenceservices"], &["get"]),
        rule("", &["services"], &["get"]),
        target_pods_rule(),
    ];
    let grant = |account: &str, rules: &[Value]| grant_role(namespace, &format!("{account}-{own}"), own, account, rules);
    [grant("assay-provision", &provision), grant("assay-execute", &[target_pods_rule()])].concat()
}

fn policy(namespace: &str, name: &str, selector: Value, kinds: &[&str], ingress: &[Value], egress: &[Value]) -> Object {
    let mut spec = json!({"podSelector": selector, "policyTypes": kinds});
    if !ingress.is_empty() {
        spec["ingress"] = json!(ingress);
    }
    if !egress.is_empty() {
        spec["egress"] = json!(egress);
    }
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(namespace, name),
        "spec": spec,
    })
}

/// Builds the network policies. No ingress to our pods is allowed; egress is allowed to what their stage needs: DNS, the store,
/// and for some the API server or the target.
fn network(installation: &Installation, store: Option<&str>) -> Vec<Object> {
    let own = installation.namespace.as_str();
    let everything = json!({});
    let stages = |names: &[&str]| json!({"matchExpressions": [{"key": crate::STAGE, "operator": "In", "values": names}]});
    let port = |number: u16| json!({"port": number, "protocol": "TCP"});
    let dns = json!({"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]});
    let of_namespace = |name: &str| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
    let to_store = match store {
        Some(store) => json!({"to": [of_namespace(store)], "ports": [port(STORE_PORT)]}),
        None => json!({"ports": [port(443), port(80), port(9000)]}),
    };
    let to_api = json!({"ports": [port(443), port(6443), port(22)]});
    let mut policies = vec![
        policy(own, "assay-deny", everything.clone(), &["Ingress", "Egress"], &[], &[]),
        policy(own, "assay-store", everything.clone(), &["Egress"], &[], &[dns, to_store]),
        // The API server, and with the same ports the remotes and registries that the driver and plan fetch from.
        policy(own, "assay-api", stages(&["driver", "plan", "provision", "collect"]), &["Egress"], &[], &[to_api]),
        // A target may be anywhere, and so may a Prometheus, which collect asks.
        policy(own, "assay-measure", stages(&["provision", "execute", "record", "collect"]), &["Egress"], &[], &[json!({})]),
        // Shards on several nodes compare their clocks.
        policy(
            own,
            "assay-shards",
            stages(&["execute"]),
            &["Ingress"],
            &[json!({"from": [{"podSelector": stages(&["execute"])}]})],
            &[],
        ),
        policy(
            &installation.targets_namespace,
            "assay-targets",
            everything.clone(),
            &["Ingress"],
            &[json!({
                "from": [of_namespace(own), {"podSelector": {}}],
            })],
            &[],
        ),
    ];
    if let Some(store) = store {
        let from = json!({"from": [of_namespace(own)], "ports": [port(STORE_PORT)]});
        // One policy for each installation that the store serves: policies add up.
        policies.push(policy(store, &format!("assay-store-{own}"), everything, &["Ingress", "Egress"], &[from], &[]));
    }
    policies
}

fn secret(namespace: &str, name: &str, data: &BTreeMap<&str, &str>) -> Object {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(namespace, name),
        "type": "Opaque",
        "stringData": data,
    })
}

/// Builds one Secret of each role for its key, with cosign's member names, and one for its credentials for the store.
fn secrets(installation: &Installation, keys: &Keys) -> Vec<Object> {
    let signing = keys.signing.iter().map(|(role, [key, public, password])| {
        let data = BTreeMap::from([("cosign.key", key.as_str()), ("cosign.pub", public), ("cosign.password", password)]);
        secret(&installation.namespace, &key_secret(*role), &data)
    });
    let store = keys.store.iter().filter_map(|(identity, value)| {
        let role = Role::RUN.into_iter().find(|role| role.as_str() == identity)?;
        let data = BTreeMap::from([("AWS_ACCESS_KEY_ID", identity.as_str()), ("AWS_SECRET_ACCESS_KEY", value)]);
        Some(secret(&installation.namespace, &store_secret(role), &data))
    });
    signing.chain(store).collect()
}

/// Builds `assay serve` over a PersistentVolumeClaim, in a namespace that no run removes.
fn served_store(installation: &Installation, namespace_name: &str, size: &str, keys: Option<&Keys>) -> Vec<Object> {
    let labels = json!({"app.kubernetes.io/name": STORE});
    let mut objects = Vec::new();
    if let Some(keys) = keys {
        let data = keys.store.iter().map(|(identity, value)| (identity.as_str(), value.as_str())).collect();
        objects.push(secret(namespace_name, "assay-store-credentials", &data));
    }
    let mut container = json!({
        "name": "assay",
        "image": installation.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/assay/assay-serve", "--store", "/data/store", "--credentials", "/credentials",
            "--listen", format!("0.0.0.0:{STORE_PORT}")],
        "ports": [{"containerPort": STORE_PORT}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "credentials", "mountPath": "/credentials", "readOnly": true},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    });
    container["readinessProbe"] = json!({"httpGet": {"path": "/-/ready", "port": STORE_PORT}, "periodSeconds": 2});
    objects.extend([
        keep_results(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata(namespace_name, STORE),
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
        })),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(namespace_name, STORE),
            "spec": {"selector": labels, "ports": [{"port": STORE_PORT, "targetPort": STORE_PORT}]},
        }),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(namespace_name, STORE),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                // Two servers of one folder would each delete files that the other is about to use.
                "strategy": {"type": "Recreate"},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "automountServiceAccountToken": false,
                    "containers": [container],
                    "enableServiceLinks": false,
                    "securityContext": pod_security(),
                    "volumes": [
                        {"name": "data", "persistentVolumeClaim": {"claimName": STORE}},
                        {"name": "credentials", "secret": {"secretName": "assay-store-credentials", "defaultMode": 0o440}},
                        {"name": "tmp", "emptyDir": {}},
                    ],
                }},
            },
        }),
    ]);
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::installation;

    fn all() -> Vec<Object> {
        let install = InstallParameters {
            installation: &installation(),
            served_store: Some(ServedStore { namespace: "assay-store", size: Some("10Gi") }),
            reads_nodes: true,
            serving_namespaces: &["serving".to_owned()],
        };
        installation_objects(&install, None)
    }

    #[test]
    fn an_installation_as_an_administrator_reviews_it() {
        insta::assert_snapshot!(crate::to_yaml(&all()).expect("YAML"));
    }

    /// Returns the rights of a service account, by namespace.
    fn account_rights(account: &str) -> Vec<String> {
        let objects = all();
        let is_bound = |binding: &&Object| {
            let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
            subjects.iter().any(|subject| subject["name"] == account)
        };
        let mut rights = Vec::new();
        for binding in objects.iter().filter(is_bound) {
            let of = &binding["roleRef"];
            let namespace = &binding["metadata"]["namespace"];
            let role = objects.iter().find(|object| {
                object["kind"] == of["kind"]
                    && object["metadata"]["name"] == of["name"]
                    && object["metadata"]["namespace"] == *namespace
            });
            for rule in role.expect("the role is there")["rules"].as_array().expect("rules") {
                for resource in rule["resources"].as_array().expect("resources") {
                    for verb in rule["verbs"].as_array().expect("verbs") {
                        let (namespace, text) =
                            (namespace.as_str().unwrap_or("*"), |value: &Value| value.as_str().unwrap_or("").to_owned());
                        rights.push(format!("{namespace}: {} {}", text(verb), text(resource)));
                    }
                }
            }
        }
        rights
    }

    #[test]
    fn what_is_made_for_one_run_goes_with_its_namespace() {
        let served_store = Some(ServedStore { namespace: "assay-store", size: None });
        let mut objects = installation_objects(
            &InstallParameters { installation: &installation(), served_store, reads_nodes: true, serving_namespaces: &[] },
            None,
        );
        objects.extend(removal_rights(&installation(), &["assay-targets", "assay"]));
        set_namespace_owner(&installation(), ("assay", "u"), Some("assay-store"), &mut objects);
        let of_store = objects.iter().filter(|object| object["metadata"]["namespace"] == "assay-store");
        let of_store: Vec<_> = of_store.map(|object| object["kind"].as_str().expect("a kind")).collect();
        assert_eq!(of_store, ["NetworkPolicy"], "another installation's store is only reached");
        for object in &objects {
            let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
            let lies_within = object["kind"] == "Namespace" || object["metadata"]["namespace"] == "assay";
            assert_eq!(owner, (!lies_within).then_some("u"), "{object}");
        }
        let served_store = Some(ServedStore { namespace: "assay-store", size: Some("1Gi") });
        let mut whole = installation_objects(
            &InstallParameters { installation: &installation(), served_store, reads_nodes: true, serving_namespaces: &[] },
            None,
        );
        set_namespace_owner(&installation(), ("assay", "u"), Some("assay-store"), &mut whole);
        let claim = whole.iter().find(|object| object["kind"] == "PersistentVolumeClaim").expect("a claim");
        assert_eq!(claim["metadata"].get("ownerReferences"), None, "results do not go with a run");
    }

    #[test]
    fn a_gitops_agent_keeps_the_claim_of_the_results_and_its_namespace() {
        let manifest = include_str!("../../../deploy/base/assay.yaml");
        let kept = |kind: &str| {
            let documents = manifest.split("---\n");
            let of_store = |document: &&str| {
                let is_of_kind = document.lines().any(|line| line == format!("kind: {kind}"));
                is_of_kind && document.lines().any(|line| line == "  name: assay-store")
            };
            let [document] = documents.filter(of_store).collect::<Vec<_>>()[..] else { panic!("one {kind}") };
            KEPT.iter().all(|(key, value)| document.contains(&format!("    {key}: {value}\n")))
        };
        assert!(kept("PersistentVolumeClaim"));
        assert!(kept("Namespace"), "a claim goes with its namespace");
        assert!(!kept("Service"), "nothing else is kept");
    }

    #[test]
    fn only_provision_reads_inference_services_execute_their_pods_and_nobody_changes_one() {
        let in_serving = |account: &str| {
            account_rights(account).into_iter().filter(|right| right.starts_with("serving: ")).collect::<Vec<_>>()
        };
        for (account, _) in identities() {
            let rights = in_serving(&account);
            let expected: &[&str] = match account.as_str() {
                "assay-provision" => &[
                    "serving: get inferenceservices",
                    "serving: get llminferenceservices",
                    "serving: get inferenceservices",
                    "serving: get services",
                    "serving: list pods",
                ],
                "assay-execute" => &["serving: list pods"],
                _ => &[],
            };
            assert_eq!(rights, expected, "{account}");
        }
    }

    #[test]
    fn nobody_may_read_a_secret_or_make_a_pod_beside_the_keys() {
        for (account, _) in identities() {
            let rights = account_rights(&account);
            assert!(rights.iter().all(|right| !right.contains("secrets")), "{account}: {rights:?}");
            assert!(!rights.contains(&"assay: create pods".to_owned()), "{account}");
            let makes_jobs = rights.contains(&"assay: create jobs".to_owned());
            assert_eq!(makes_jobs, account == "assay-driver", "{account}");
        }
        for account in ["assay-plan", "assay-reduce", "assay-publish"] {
            assert_eq!(account_rights(account), [""; 0], "{account} asks the API server nothing");
        }
        assert_eq!(account_rights("assay-execute"), ["assay-targets: list pods", "serving: list pods"]);
    }
}
