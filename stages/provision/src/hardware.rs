//! Facts of nodes that run targets but not this stage: a short-lived pod on each node reads them and prints them to its log.
//!
//! The log comes from a node that others share, so it is read as strictly as any untrusted input. If a probe fails, the facts are
//! unknown, with the reason; the run does not fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

use assay_cluster::{Object, ObjectPath, Pod, ProbePod, ProbeState, probe_pod, probe_state};
use assay_manifest::{Artifact, ControlFact, ControlState, HostFacts, ProvisionedTarget, Software};
use assay_stage::{Context, Failure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pods::{PAUSE, PodProvisioner};

/// The most nodes that are probed: a target has at most as many pods.
const MAX_NODES: usize = 64;
/// The longest wait for a probe to start.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The time limit of a probe in all.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);
/// The most bytes of a probe's output.
const MAX_BYTES: i64 = 1 << 20;

/// The facts that a probe prints of its node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeFacts {
    /// The facts of the machine.
    pub(crate) facts: HostFacts,
    /// The software of the machine.
    pub(crate) software: Vec<Software>,
}

/// The result of each probed node: its facts, or why there are none.
pub(crate) type ProbeResults = BTreeMap<String, Result<NodeFacts, String>>;

/// Reads the machine that this process runs on, and prints its facts as one line of JSON.
pub(crate) fn print_facts() -> std::io::Result<()> {
    let root = assay_host::Root::host();
    let said = serde_json::to_string(&NodeFacts { facts: assay_host::facts(&root), software: assay_host::software(&root) })?;
    writeln!(std::io::stdout().lock(), "{said}")
}

/// Returns the nodes whose facts are not known yet: those that run targets but not this stage.
pub(crate) fn nodes_to_probe<'a>(own: &str, targets: impl IntoIterator<Item = &'a ProvisionedTarget>) -> BTreeSet<String> {
    let nodes = targets.into_iter().flat_map(|target| &target.pods).map(|pod| pod.node.as_str());
    nodes.filter(|node| !node.is_empty() && *node != own).take(MAX_NODES).map(str::to_owned).collect()
}

/// Parses a probe's output: one line of observed facts. Marks each fact as seen by a probe.
pub(crate) fn parse_facts(said: &str) -> Result<NodeFacts, String> {
    let mut said: Value = serde_json::from_str(one_line(said)?).map_err(|error| format!("it said no facts: {error}"))?;
    let facts = said.get_mut("facts").and_then(Value::as_object_mut);
    facts.into_iter().flat_map(|facts| facts.values_mut()).try_for_each(mark_as_probed)?;
    let software = said.get_mut("software").and_then(Value::as_array_mut);
    software.into_iter().flatten().filter_map(|software| software.get_mut("version")).try_for_each(mark_as_probed)?;
    serde_json::from_value(said).map_err(|error| format!("it said other things than facts: {error}"))
}

/// Returns the single line of a probe's output.
pub(crate) fn one_line(said: &str) -> Result<&str, String> {
    let line = said.trim_end_matches('\n');
    if line.contains('\n') { Err("it said more than one line".to_owned()) } else { Ok(line) }
}

/// Marks facts as seen by a probe. Each has to be observed or unknown: a probe declares nothing.
fn mark_as_probed(fact: &mut Value) -> Result<(), String> {
    let has_value = !fact["value"].is_null();
    if !matches!((fact["source"].as_str(), has_value), (Some("observed"), true) | (Some("unknown"), false)) {
        return Err("one of its facts is neither observed nor unknown".to_owned());
    }
    let how = fact["how"].as_str().ok_or("one of its facts does not say where it was read")?;
    fact["how"] = Value::String(format!("by a probe on the node: {how}"));
    Ok(())
}

/// Returns the controls that the facts of all hosts of targets prove together; none if the facts of one host are unknown.
pub(crate) fn common_controls<'a>(hosts: impl IntoIterator<Item = (&'a str, Option<&'a HostFacts>)>) -> Vec<ControlFact> {
    let mut together: Vec<ControlFact> = Vec::new();
    for (name, facts) in hosts {
        let Some(facts) = facts else { return Vec::new() };
        for found in assay_host::controls(facts) {
            let evidence = format!("{name}: {}", found.evidence);
            match together.iter_mut().find(|fact| fact.control == found.control) {
                Some(fact) => {
                    fact.evidence = format!("{}; {evidence}", fact.evidence);
                    if found.state != ControlState::Proved {
                        fact.state = found.state;
                    }
                }
                None => together.push(ControlFact { evidence, ..found }),
            }
        }
    }
    together
}

impl PodProvisioner<'_> {
    /// Probes the nodes, all at once, and stores their output. It fails only if the stage is stopped.
    pub(crate) fn probe(&self, ctx: &Context, nodes: &BTreeSet<String>) -> Result<(ProbeResults, Vec<Artifact>), Failure> {
        let (mut probed, mut readings) = (ProbeResults::new(), Vec::new());
        let started: Vec<(&String, Result<String, String>)> =
            nodes.iter().map(|node| (node, self.start_probe(ctx, node).map_err(|failure| failure.message))).collect();
        let watch = ctx.clock().start();
        for (node, name) in started {
            let said = name.and_then(|name| {
                let elapsed = Duration::from_nanos(watch.elapsed_ns());
                let left = |limit: Duration| limit.saturating_sub(elapsed);
                let said = self.await_output(ctx, &name, (left(START_LIMIT), left(LIMIT)));
                self.delete_pod(&name);
                said
            });
            ctx.check_cancelled()?;
            let understood = said.and_then(|said| Ok((parse_facts(&said)?, said)));
            if let Ok((_, said)) = &understood {
                readings.push(ctx.put(format!("readings/host-{node}.json"), "application/json", said.as_bytes())?);
            }
            let facts = understood.map(|(facts, _)| facts).map_err(|why| format!("the probe on the node said nothing: {why}"));
            if let Err(why) = &facts {
                tracing::warn!(node, why, "the facts of a node are not known");
            }
            probed.insert(node.clone(), facts);
        }
        Ok((probed, readings))
    }

    fn start_probe(&self, ctx: &Context, node: &str) -> Result<String, Failure> {
        let probe = ProbePod {
            namespace: &self.here.targets_namespace,
            run_id: &self.run_id,
            block: (self.block.index, self.block.incarnation),
            image: &self.here.image,
            node,
        };
        let (name, pod) = (probe.name(), probe_pod(&probe));
        self.create_pod(ctx, &name, &pod)?;
        Ok(name)
    }

    /// Creates a probe's pod. A pod of the same name is left over from an earlier try, and is deleted.
    pub(crate) fn create_pod(&self, ctx: &Context, name: &str, pod: &Object) -> Result<(), Failure> {
        if !self.cluster.create(pod)? {
            self.delete_earlier_pod(ctx, name)?;
            self.cluster.create(pod)?;
        }
        Ok(())
    }

    /// Removes the pod of a probe that has ended.
    pub(crate) fn delete_pod(&self, name: &str) {
        if let Err(error) = self.cluster.delete(&ObjectPath::named("Pod", &self.here.targets_namespace, name), None) {
            tracing::warn!(failure = %Failure::from(error), name, "a probe's pod stays until the targets are released");
        }
    }

    /// Returns a probe's output once it has ended. The limits are for its start, and for all of it.
    pub(crate) fn await_output(
        &self,
        ctx: &Context,
        name: &str,
        (to_start, in_all): (Duration, Duration),
    ) -> Result<String, String> {
        let told = |error: assay_cluster::Error| error.to_string();
        let watch = ctx.clock().start();
        loop {
            let elapsed = Duration::from_nanos(watch.elapsed_ns());
            let pod: Option<Pod> =
                self.cluster.get(&ObjectPath::named("Pod", &self.here.targets_namespace, name)).map_err(told)?;
            match probe_state(pod.as_ref()) {
                ProbeState::Done => {
                    return self.cluster.log_limited(&self.here.targets_namespace, name, None, MAX_BYTES).map_err(told);
                }
                ProbeState::Failed(why) => return Err(why),
                ProbeState::Waiting(Some(why)) if elapsed >= to_start => return Err(why),
                ProbeState::Waiting(_) if elapsed >= in_all => return Err(format!("it took more than {in_all:?}")),
                ProbeState::Waiting(_) => {}
            }
            if ctx.cancel().wait_timeout(PAUSE) {
                return Err("the stage was stopped".to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::{Fact, FactSource, PodFacts, TargetKind};
    use proptest::prelude::*;
    use serde_json::json;

    fn target(nodes: &[&str]) -> ProvisionedTarget {
        let pod = |node: &&str| PodFacts {
            name: "p".to_owned(),
            uid: "u".to_owned(),
            node: (*node).to_owned(),
            ready: true,
            role: None,
            containers: Vec::new(),
        };
        ProvisionedTarget {
            id: "t".parse().expect("a name"),
            kind: TargetKind::Objects,
            hosts: Vec::new(),
            address: None,
            version: Fact::unknown("a test"),
            server: None,
            models: Vec::new(),
            process_start_s: None,
            cache_block_tokens: None,
            replicas: Vec::new(),
            image: None,
            pods: nodes.iter().map(pod).collect(),
            pod_selector: None,
            settings: BTreeMap::new(),
            executables: Vec::new(),
            allowed_cpus: None,
            core_cpus: None,
            probes: Vec::new(),
        }
    }

    #[test]
    fn only_nodes_that_nobody_has_seen_are_probed() {
        let of = |targets: &[ProvisionedTarget]| nodes_to_probe("own", targets).into_iter().collect::<Vec<_>>();
        assert_eq!(of(&[]), [""; 0]);
        assert_eq!(of(&[target(&["own"]), target(&[])]), [""; 0], "a cluster of one node probes nothing");
        assert_eq!(of(&[target(&["b", "own", "a", ""]), target(&["b"])]), ["a", "b"]);
        let many: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
        assert_eq!(of(&[target(&many.iter().map(String::as_str).collect::<Vec<_>>())]).len(), MAX_NODES);
    }

    /// Returns the output of a probe of this machine.
    fn probe_output() -> Value {
        let root = assay_host::Root::host();
        let facts = NodeFacts { facts: assay_host::facts(&root), software: assay_host::software(&root) };
        serde_json::to_value(facts).expect("JSON")
    }

    #[test]
    fn what_a_probe_says_is_marked_as_a_probe_s() {
        let facts = parse_facts(&format!("{}\n", probe_output())).expect("understood");
        assert_eq!(facts.facts.boot_id.source, FactSource::Observed);
        assert_eq!(facts.facts.boot_id.how, "by a probe on the node: /proc/sys/kernel/random/boot_id");
        assert!(facts.software.iter().all(|software| software.version.how.starts_with("by a probe on the node: ")));
    }

    #[test]
    fn a_probe_that_says_anything_else_is_not_believed() {
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut said = probe_output();
            change(&mut said);
            parse_facts(&said.to_string()).expect_err("refused")
        };
        let declared = refused(&|said| said["facts"]["cpu_model"] = json!({"source": "declared", "value": "EPYC", "how": "me"}));
        assert_eq!(declared, "one of its facts is neither observed nor unknown");
        assert_eq!(refused(&|said| said["facts"]["cpu_model"] = json!({"source": "observed", "how": "me"})), declared);
        assert_eq!(refused(&|said| said["facts"]["cpu_model"] = json!(1)), declared);
        assert!(refused(&|said| said["facts"]["cores"]["value"] = json!("many")).starts_with("it said other things than facts"));
        assert!(refused(&|said| said["more"] = json!(1)).contains("unknown field"));
        assert!(refused(&|said| said["facts"] = json!([])).starts_with("it said other things than facts"));
        assert!(parse_facts("").expect_err("nothing").starts_with("it said no facts"));
        assert_eq!(parse_facts("{}\n{}"), Err("it said more than one line".to_owned()));
    }

    #[test]
    fn a_control_holds_where_every_host_proves_it() {
        let facts = |boost: bool| HostFacts {
            governor: Fact::observed(vec!["performance".to_owned()], "a test"),
            boost: Fact::observed(boost, "a test"),
            gpus: Fact::observed(Vec::new(), "a test"),
            ..HostFacts::unknown("a test")
        };
        let (locked, loose) = (facts(false), facts(true));
        let told = |hosts: Vec<(&str, Option<&HostFacts>)>| {
            common_controls(hosts)
                .into_iter()
                .map(|fact| format!("{}: {}", fact.state, fact.evidence))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(told(vec![("a", Some(&locked)), ("b", None)]), "", "nothing is observed of both");
        insta::assert_snapshot!(told(vec![("a", Some(&locked)), ("b", Some(&locked))]), @"proved: a: CPU governor performance, boost off; 0 GPUs at pinned clocks; b: CPU governor performance, boost off; 0 GPUs at pinned clocks");
        insta::assert_snapshot!(told(vec![("a", Some(&locked)), ("b", Some(&loose)), ("c", Some(&locked))]), @"absent: a: CPU governor performance, boost off; 0 GPUs at pinned clocks; b: CPU governor performance, boost on; 0 GPUs at pinned clocks; c: CPU governor performance, boost off; 0 GPUs at pinned clocks");
    }

    proptest! {
        #[test]
        fn whatever_a_probe_says_is_understood_or_refused(text in "\\PC{0,80}") {
            let _ = parse_facts(&text);
        }
    }
}
