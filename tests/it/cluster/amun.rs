//! Specifications of Amun and stacks of packages in a cluster.

use serde_json::{Value, json};

use super::{Installation, name_of, shared_installation};
use crate::amun::{attempts, stdout};
use crate::pipeline::{list, text};
use crate::support::PIPELINE;

/// Reports a file that only its base image has.
const SCRIPT: &str = r#"#!/bin/sh
read -r base </etc/assay-base
printf '{"name": "PiBase", "component": "shell", "@parameters": {"base": "%s"}, "@result": {"n": 1}}' "$base"
"#;

/// The labels of the node that the specification demands.
const LABELS: [(&str, &str); 2] = [("CPU_FAMILY", "6"), ("CPU_MODEL", "94")];

/// Returns the image with a shell that the nodes have, if there is one.
fn shell_image() -> Option<String> {
    let image = std::env::var("ASSAY_TEST_SHELL_IMAGE").ok().filter(|image| !image.is_empty());
    if image.is_none() {
        println!("ASSAY_TEST_SHELL_IMAGE is not set: no script ran in an image of its own");
    }
    image
}

fn specification(base: &str) -> String {
    json!({
        "base": base, "identifier": "base", "batch_size": 2, "script": SCRIPT,
        "run": {"requests": {"cpu": "100m", "memory": "256Mi", "hardware": {"cpu_family": 6, "cpu_model": 94}}},
    })
    .to_string()
}

/// Gives the labels to the only node, and takes them away when it is dropped: other tests share the node.
struct LabelledNode<'a> {
    at: &'a Installation,
    node: String,
}

impl<'a> LabelledNode<'a> {
    fn new(at: &'a Installation) -> Self {
        let node = name_of(&at.lab.all("default", &["nodes"])[0]).to_owned();
        let labelled = Self { at, node };
        labelled.label(&LABELS.map(|(name, value)| format!("{name}={value}")));
        labelled
    }

    fn label(&self, labels: &[String]) {
        let words = ["label", "node", self.node.as_str()].into_iter().chain(labels.iter().map(String::as_str));
        self.at.lab.kubectl(&words.collect::<Vec<_>>()).success();
    }
}

impl Drop for LabelledNode<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.label(&LABELS.map(|(name, _)| format!("{name}-")));
        }
    }
}

/// Without a node that has the hardware the pod stays Pending, and the run names the labels; with one, the items run one after the other in the base.
#[test]
fn a_specification_waits_for_its_hardware_and_runs_in_its_base() {
    let Some(at) = shared_installation() else { return };
    let Some(base) = shell_image() else { return };
    let person = at.user();
    person.fixture.write("amun.json", &specification(&base));
    person.fixture.commit("a specification");
    let trust = person.trust();
    let run = ["run", "amun.json", "--on", "kubernetes", "--namespace", &at.namespace, "--run-id", "amun", "--trust", &trust];
    let refused = person.fixture.assay(&[&run[..], &["--start-limit", "5"]].concat()).refuses(30, "unschedulable");
    for part in ["node affinity/selector", "It demands a node with the labels ", "CPU_FAMILY=6", "CPU_MODEL=94"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }

    let running = person.fixture.spawn(&[&run[..], &["--start-limit", "600"]].concat());
    let pod = person.wait_for_pod("amun", "execute", "Pending");
    let images: Vec<&str> = list(&pod["spec"]["containers"]).iter().map(|container| text(&container["image"])).collect();
    assert_eq!(images, [base.as_str()]);
    let labelled = LabelledNode::new(at);
    running.finish().success();
    drop(labelled);

    person.fixture.assay(&["verify", "amun", "--trust", &trust]).success();
    let attempts: Vec<Value> = attempts(&person.fixture, "amun");
    assert_eq!(attempts.len(), 2, "one for each item of the batch");
    for attempt in &attempts {
        assert!(stdout(&person.fixture, attempt).contains("\"base\": \"the image with a shell\""), "{attempt:#}");
        assert_eq!(attempt["validity"]["valid"], true, "{attempt:#}");
    }
    let [first, second] = [0, 1].map(|index| &attempts[index]["window"]);
    assert!(text(&first["end"]) <= text(&second["start"]), "one after the other: {first} {second}");
    person.assert_nothing_left("amun");
}

#[test]
fn a_stack_in_a_cluster_is_refused_before_anything_is_brought_up() {
    let Some(at) = shared_installation() else { return };
    let person = at.user();
    person.fixture.indicator("base", "#!/bin/sh\n", "");
    person.fixture.write("stacks/old.txt", &format!("pace==1.0.0 --hash=sha256:{}\n", "0".repeat(64)));
    let variants = "  variants: [{name: old, python: {lock: stacks/old.txt}}]\n";
    person.fixture.write(PIPELINE, &crate::support::pipeline("exploratory", &["base"], 2, variants));
    person.fixture.commit("a stack");
    let refused = person.run("stack", &[]).refuses(10, "stack_in_cluster");
    for part in ["the variant `old` has a lock file of Python packages", "`image` of a workload of its own"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let jobs = at.lab.all(&at.namespace, &["jobs", "--selector", "assay.dev/run=stack"]);
    let mut stages: Vec<_> = jobs.iter().map(|job| text(&job["metadata"]["labels"]["assay.dev/stage"])).collect();
    stages.sort_unstable();
    assert_eq!(stages, ["driver", "plan"]);
    at.lab.kubectl(&["--namespace", &at.namespace, "delete", "configmap", "assay-stack"]).success();
    person.assert_nothing_left("stack");
}
