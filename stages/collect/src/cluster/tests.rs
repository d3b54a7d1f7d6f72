use assay_cluster::ConnectOptions;
use assay_probe::testing::{Reply, Request, Server};

use super::*;

/// Returns the lists of a run that an API server with these responses gives.
fn read(respond: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Vec<(&'static str, Vec<Value>)>, Vec<String>) {
    let server = Server::start(respond);
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server.url()}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    let path = folder.path().join("config");
    std::fs::write(&path, kubeconfig.to_string()).expect("written");
    let cluster = Cluster::from_kubeconfig(&ConnectOptions { kubeconfig: Some(path), context: None }).expect("a client");
    (read_lists(&cluster, "ns", "assay.dev/run=r").expect("lists"), server.paths())
}

fn object(uid: &str, more: &Value) -> Value {
    let mut object =
        json!({"metadata": {"uid": uid, "name": uid, "managedFields": [], "creationTimestamp": "2026-11-20T12:00:00Z"}});
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
    object
}

fn list(items: &[Value], next: &str) -> Reply {
    let body = json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": next}, "items": items});
    Reply::with_body("200 OK", &["content-type: application/json"], body.to_string())
}

fn refused(code: u16, reason: &str) -> Reply {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": "not allowed", "code": code});
    Reply::with_body(&format!("{code} {reason}"), &["content-type: application/json"], body.to_string())
}

fn event(uid: &str, of: &str) -> Value {
    object(uid, &json!({"involvedObject": {"kind": "Pod", "uid": of}}))
}

#[test]
fn events_of_the_run_are_found_page_by_page() {
    let (lists, paths) = read(|request| {
        let path = request.path.as_str();
        match path.split('?').next().unwrap_or_default() {
            "/apis/batch/v1/namespaces/ns/jobs" => list(&[object("j", &json!({}))], ""),
            "/api/v1/namespaces/ns/pods" => list(&[object("p", &json!({"spec": {"nodeName": "n"}}))], ""),
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads" => {
                let owned = |uid: &str, owner: &str| {
                    let mut workload = object(uid, &json!({}));
                    workload["metadata"]["ownerReferences"] = json!([{"kind": "Job", "uid": owner}]);
                    workload
                };
                list(&[owned("w", "j"), owned("other", "of another run")], "")
            }
            "/api/v1/namespaces/ns/events" if path.contains("continue=second") => list(&[event("e2", "w"), event("e3", "j")], ""),
            "/api/v1/namespaces/ns/events" => list(&[event("e9", "p"), event("e8", "of another run")], "second"),
            "/api/v1/nodes/n" => {
                Reply::with_body("200 OK", &["content-type: application/json"], object("n", &json!({})).to_string())
            }
            other => panic!("{other}"),
        }
    });
    let names: Vec<_> = lists.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["jobs", "pods", "events", "nodes", "workloads"]);
    let uids = |wanted: &str| {
        let (_, objects) = lists.iter().find(|(name, _)| *name == wanted).expect("a list");
        assert!(objects.iter().all(|object| object["metadata"].get("managedFields").is_none()));
        objects.iter().map(|object| object["metadata"]["uid"].as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(uids("events"), ["e2", "e3", "e9"], "sorted, without those of others");
    assert_eq!(uids("workloads"), ["w"]);
    assert!(paths.iter().filter(|path| path.contains("/events")).all(|path| path.contains("limit=500")), "{paths:?}");
}

#[test]
fn what_may_not_be_read_is_kept_as_its_refusal() {
    let (lists, _) = read(|request| match request.path.split('?').next().unwrap_or_default() {
        "/apis/batch/v1/namespaces/ns/jobs" => list(&[object("j", &json!({}))], ""),
        "/api/v1/namespaces/ns/pods" => list(&[object("p", &json!({"spec": {"nodeName": "n"}}))], ""),
        _ => refused(403, "Forbidden"),
    });
    let unknown: Vec<_> = lists
        .iter()
        .flat_map(|(name, objects)| objects.iter().filter_map(move |object| Some((*name, object[UNKNOWN].as_str()?))))
        .collect();
    let denied = "the API server denies the request: not allowed";
    assert_eq!(unknown, [("events", denied), ("nodes", denied), ("workloads", denied)]);
}

#[test]
fn a_cluster_without_queues_has_no_list_of_them() {
    let (lists, _) = read(|request| match request.path.split('?').next().unwrap_or_default() {
        path if path.contains("/kueue.x-k8s.io/") => refused(404, "NotFound"),
        _ => list(&[], ""),
    });
    assert_eq!(
        lists.iter().map(|(name, objects)| (*name, objects.len())).collect::<Vec<_>>(),
        [("jobs", 0), ("pods", 0), ("events", 0), ("nodes", 0)]
    );
}

#[test]
fn a_list_that_is_cut_says_so() {
    let cut = listed(Ok((vec![json!({})], true)));
    assert!(cut[1][UNKNOWN].as_str().is_some_and(|why| why.starts_with("there are more than 10000")), "{cut:?}");
    assert_eq!(listed(Ok((vec![json!({})], false))), [json!({})]);
}

#[test]
fn only_what_depends_on_the_run_is_of_it() {
    let owners = BTreeSet::from(["u".to_owned()]);
    let of = |references: Value| is_owned_by(&json!({"metadata": {"ownerReferences": references}}), &owners);
    assert!(of(json!([{"uid": "other"}, {"uid": "u"}])));
    assert!(!of(json!([{"uid": "other"}])));
    assert!(!of(json!(null)) && !of(json!([1, {"uid": 2}])));
}
