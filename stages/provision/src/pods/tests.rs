use super::*;
use serde_json::json;

fn pod(name: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "managedFields": []},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "x"}]}]},
    });
    serde_json::from_value(pod).expect("a pod")
}

fn seen(pods: &[&str], objects: Vec<Value>) -> TargetState {
    TargetState { target: "vllm".to_owned(), is_ours: true, pods: pods.iter().map(|name| pod(name)).collect(), objects }
}

#[test]
fn every_pod_of_a_target_is_identified() {
    let of = |pods: &[&str]| pod_identities(&seen(pods, Vec::new()));
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(of(&["a"]), [pair("pod/vllm", "a/uid-a")]);
    assert_eq!(of(&["a", "b"]), [pair("pod/vllm/0", "a/uid-a"), pair("pod/vllm/1", "b/uid-b")]);
    assert_eq!(of(&[]), []);
}

#[test]
fn what_is_kept_of_a_target_has_names_of_its_own_and_no_values_of_variables() {
    let names = |seen: &TargetState| target_readings(seen).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&seen(&["a"], Vec::new())), ["readings/pod-vllm.json"]);
    let objects = vec![json!({"kind": "Deployment", "metadata": {"name": "vllm"}})];
    assert_eq!(names(&seen(&["a"], objects)), ["readings/pods/vllm/a.json", "readings/objects/vllm/deployment-vllm.json"]);
    let kept = &target_readings(&seen(&["a"], Vec::new()))[0].1;
    assert_eq!((&kept["spec"]["containers"][0]["env"], kept["metadata"].get("managedFields")), (&json!([{"name": "A"}]), None));
}
