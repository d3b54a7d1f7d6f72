//! The place of the load generator: the trials of a point need one origin, and it must be apart from the target.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use assay_failure::first_names;
use assay_manifest::{Attempt, Block, CpuList, Environment, Intent, Plan, Reason, Shard, TargetKind};

/// The name of the rule that the trials of a point come from one node in each shard, and of the Summary's issue if they do not.
pub const MOVED_LOAD: &str = "moved_load";

/// The name of the rule that load does not share a node with its target, and of the Summary's issue if it does.
pub const COLOCATED: &str = "colocated";

/// The name of the rule that the trials of a point measured a target on the same nodes, and of the Summary's issue if they did
/// not.
pub const MOVED_TARGET: &str = "moved_target";

/// The key prefix of a target's node in the placement of an Environment; the target's name follows.
const NODE_OF: &str = "node/";

/// The largest number of nodes that a message names.
const MAX_NODES: usize = 4;

/// One shard's part of an attempt that counts.
#[derive(Clone, Copy, Debug)]
pub struct CountedAttempt<'a> {
    /// The block that it ran in.
    pub block: Block,
    /// The shard that made it.
    pub shard: Shard,
    /// The attempt.
    pub attempt: &'a Attempt,
}

impl<'a> CountedAttempt<'a> {
    fn node(&self) -> Option<&'a str> {
        self.attempt.place.as_ref().map(|place| place.node.as_str())
    }
}

/// Reports the first point and shard whose counted trials ran on more than one node: a replaced pod started elsewhere, and its
/// trials differ by their node as well. An unknown node differs from a known one. `None` on one machine.
pub fn find_moved_load<'a>(counted: impl IntoIterator<Item = CountedAttempt<'a>>) -> Option<Reason> {
    let mut nodes: BTreeMap<_, BTreeSet<Option<&str>>> = BTreeMap::new();
    for counted in counted {
        let CountedAttempt { shard, attempt, .. } = counted;
        nodes.entry((&attempt.case_id, &attempt.point_id, shard.index)).or_default().insert(counted.node());
    }
    let mut moved = nodes.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    let ((case, point, shard), nodes) = moved.next()?;
    let more = match moved.count() {
        0 => String::new(),
        1 => "; and so it is with one other shard of a point".to_owned(),
        more => format!("; and so it is with {more} other shards of points"),
    };
    let named = list_nodes(&nodes);
    let detail =
        format!("the counted trials of {case} at `{point}` come from more than one node in shard {shard}: {named}{more}");
    Some(Reason::new(MOVED_LOAD, detail))
}

/// Reports the first case and point whose counted trials measured a target on different nodes in different blocks: they differ by
/// its machine as well. `None` on one machine.
pub fn find_moved_target<'a>(
    counted: impl IntoIterator<Item = CountedAttempt<'a>>,
    environments: &[&'a Environment],
) -> Option<Reason> {
    let mut places: BTreeMap<_, BTreeSet<BTreeSet<&str>>> = BTreeMap::new();
    for CountedAttempt { block, attempt, .. } in counted {
        let Some(environment) = environments.iter().find(|environment| environment.block == block) else { continue };
        let mut of_block: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (target, node) in nodes_of_targets(environment) {
            of_block.entry(target).or_default().insert(node);
        }
        for (target, nodes) in of_block {
            places.entry((&attempt.case_id, &attempt.point_id, target)).or_default().insert(nodes);
        }
    }
    let mut moved = places.into_iter().filter(|(_, places)| places.len() > 1);
    let ((case, point, target), places) = moved.next()?;
    let more = match moved.count() {
        0 => String::new(),
        1 => "; and so it is with one other target of a point".to_owned(),
        more => format!("; and so it is with {more} other targets of points"),
    };
    let named = list_nodes(&places.into_iter().flatten().map(Some).collect());
    let detail = format!(
        "the counted trials of {case} at `{point}` come from blocks that had the target `{target}` on different nodes: {named}{more}"
    );
    Some(Reason::new(MOVED_TARGET, detail))
}

/// Returns the targets of an Environment with their nodes; a target with several pods has one entry for each.
fn nodes_of_targets(environment: &Environment) -> impl Iterator<Item = (&str, &str)> {
    environment.placement.iter().filter_map(|(key, node)| {
        let target = key.strip_prefix(NODE_OF)?;
        Some((target.split_once('/').map_or(target, |(target, _)| target), node.as_str()))
    })
}

fn list_nodes(nodes: &BTreeSet<Option<&str>>) -> String {
    let shown = |node: Option<&str>| node.map_or_else(|| "one that is not known".to_owned(), |node| format!("`{node}`"));
    first_names(&nodes.iter().copied().map(shown).collect::<Vec<_>>(), MAX_NODES)
}

/// Reports counted load that came from the node of one of its block's targets, and so measured itself as well. `None` on one
/// machine, where sharing is known.
pub fn find_colocated_load<'a>(
    counted: impl IntoIterator<Item = CountedAttempt<'a>>,
    environments: &[&Environment],
) -> Option<Reason> {
    let mut beside = counted.into_iter().filter_map(|counted| Some((counted, target_beside(&counted, environments)?)));
    let (first, target) = beside.next()?;
    let more = match beside.count() {
        0 => String::new(),
        1 => "; and so did that of one other".to_owned(),
        more => format!("; and so did that of {more} others"),
    };
    let (trial, shard, node) = (&first.attempt.trial_id, first.shard.index, first.node().unwrap_or_default());
    let detail = format!(
        "the load of shard {shard} in trial `{trial}` came from the node `{node}`, on which the target `{target}` ran{more}"
    );
    Some(Reason::new(COLOCATED, detail))
}

/// Reports counted load that was offered on the machine of its target, unless the recorded CPUs prove that they were apart.
/// `None` if the run is exploratory.
pub fn find_shared_machine<'a>(
    plan: &Plan,
    counted: impl IntoIterator<Item = CountedAttempt<'a>>,
    environments: &[&Environment],
) -> Option<Reason> {
    if plan.intent == Intent::Exploratory {
        return None;
    }
    counted.into_iter().find_map(|counted| shared_cpus(&counted, environments)).map(|detail| Reason::new(COLOCATED, detail))
}

fn shared_cpus(counted: &CountedAttempt<'_>, environments: &[&Environment]) -> Option<String> {
    let attempt = counted.attempt;
    if attempt.place.is_some() || attempt.serving.is_none() {
        return None;
    }
    let environment = environments.iter().find(|environment| environment.block == counted.block)?;
    let [_, name, _] = attempt.case_id.names();
    let target = environment.targets.iter().find(|target| target.id.as_str() == name)?;
    let what = format!("the load of trial `{}` was offered on the machine of the target `{name}`", attempt.trial_id);
    match target.kind {
        TargetKind::Endpoint => {
            let address = target.address.as_deref().filter(|address| is_loopback(address))?;
            Some(format!("{what}, whose address is {address}"))
        }
        TargetKind::Process | TargetKind::Simulator if target.pods.is_empty() => {
            let list = |text: &Option<String>| text.as_ref()?.parse::<CpuList>().ok();
            let hint = "`targets[].cpus` and `load.cpus` keep them apart";
            let (Some(load), Some(cores)) = (list(&attempt.allowed_cpus), list(&target.core_cpus)) else {
                return Some(format!("{what}, and which CPUs each used is not known; {hint}"));
            };
            let shared = load.shared_with(&cores)?;
            Some(format!("{what}, and both might use the cores of the CPUs {shared}; {hint}"))
        }
        _ => None,
    }
}

/// Returns true if an address refers to the local machine, as a Unix socket always does.
fn is_loopback(address: &str) -> bool {
    if address.starts_with("unix:") {
        return true;
    }
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((host, _)) => host,
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    };
    let is_local = host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    is_local || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

/// Returns the target that ran on the node of an attempt.
fn target_beside<'a>(counted: &CountedAttempt<'_>, environments: &[&'a Environment]) -> Option<&'a str> {
    let node = counted.node()?;
    let environment = environments.iter().find(|environment| environment.block == counted.block)?;
    nodes_of_targets(environment).find(|(_, of_target)| *of_target == node).map(|(target, _)| target)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ZERO: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn an_address_of_this_machine_is_known() {
        for address in [
            "http://127.0.0.1:8000",
            "http://127.8.9.1/v1",
            "https://localhost:1",
            "http://LOCALHOST",
            "http://a.localhost:80/",
            "http://[::1]:8000/v1",
            "http://user@127.0.0.1:80",
            "http://0.0.0.0:8000",
            "unix:/run/server.sock:/v1",
        ] {
            assert!(is_loopback(address), "{address}");
        }
        for address in
            ["http://example.org", "http://10.0.0.1:8000", "http://[2001:db8::1]:80", "http://localhost.example.org", ""]
        {
            assert!(!is_loopback(address), "{address}");
        }
    }

    /// The finding for load that was allowed these CPUs, on this target.
    fn shared(intent: &str, target: &Value, load: Option<&str>) -> Option<String> {
        let plan = json!({
            "pipeline": {"name": "p", "path": "p.yaml", "digest": ZERO},
            "source": {"kind": "adhoc", "dirty": true, "files_digest": ZERO}, "intent": intent,
            "controls": [], "workloads": [], "targets": [], "variants": [], "cases": [],
            "trial_policy": {"count": 5, "retry_budget": 1}, "isolation": "none", "placement": "coexist",
            "order": {"seed": "00", "digest": ZERO}, "trials": [], "unpinned": [], "queries": [],
        });
        let mut found =
            json!({"id": "t", "hosts": ["local"], "version": {"source": "unknown", "how": "x"}, "models": [], "probes": []});
        for (name, value) in target.as_object().expect("an object") {
            found[name] = value.clone();
        }
        let instant = "2026-01-01T00:00:00.000000000Z";
        let environment = json!({
            "plan_digest": ZERO, "block": {"index": 0, "incarnation": 0}, "observed_at": instant, "hosts": [], "software": [],
            "targets": [found], "controls": [], "placement": {}, "readings": [],
        });
        let artifact = json!({"name": "r", "digest": ZERO, "size": "0", "media_type": "x"});
        let attempt = json!({
            "trial_id": "w.t.default.one.t0", "case_id": "w.t.default", "point_id": "one", "attempt": 0, "status": "completed",
            "window": {"start": instant, "end": instant, "duration_ns": "0"}, "validity": {"valid": true, "reasons": []}, "evidence": [],
            "serving": {
                "schedule_digest": ZERO, "start": instant, "measured_from_ns": "0", "measured_to_ns": "1", "outcomes": {},
                "warmup_outcomes": {}, "input_tokens": "0", "output_tokens": "0", "chunk_lists": "all",
                "clock": {"source": "same_boot"}, "records": artifact,
                "client": {
                    "loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0", "cpu_system_us": "0", "full_reads": "0",
                    "starved": "0", "sent_rate_per_s": 1.0, "connections": "1", "events": "1",
                },
            },
        });
        let plan: Plan = serde_json::from_value(plan).expect("a plan");
        let environment: Environment = serde_json::from_value(environment).expect("an environment");
        let mut attempt: Attempt = serde_json::from_value(attempt).expect("an attempt");
        attempt.allowed_cpus = load.map(str::to_owned);
        let block = Block { index: 0, incarnation: 0 };
        find_shared_machine(&plan, [CountedAttempt { block, shard: Shard::ONLY, attempt: &attempt }], &[&environment])
            .map(|reason| reason.detail)
    }

    #[test]
    fn load_and_target_on_one_machine_are_apart_only_where_the_recorded_cpus_prove_it() {
        let pinned = |cores: &str| json!({"kind": "process", "core_cpus": cores});
        assert_eq!(shared("publication", &pinned("0-1"), Some("2-3")), None);
        insta::assert_snapshot!(shared("realism", &pinned("0-2"), Some("2-3")).expect("shared"), @"the load of trial `w.t.default.one.t0` was offered on the machine of the target `t`, and both might use the cores of the CPUs 2; `targets[].cpus` and `load.cpus` keep them apart");
        insta::assert_snapshot!(shared("realism", &pinned("0-2"), None).expect("unknown"), @"the load of trial `w.t.default.one.t0` was offered on the machine of the target `t`, and which CPUs each used is not known; `targets[].cpus` and `load.cpus` keep them apart");
        assert!(shared("realism", &json!({"kind": "simulator"}), Some("1")).is_some(), "nor is it known of the target");
        assert_eq!(shared("exploratory", &pinned("0-2"), Some("2-3")), None, "a run that explores claims nothing");
    }

    #[test]
    fn an_endpoint_on_the_same_machine_is_no_other_machine() {
        let at = |address: &str| shared("publication", &json!({"kind": "endpoint", "address": address}), Some("0"));
        assert_eq!(at("http://example.org"), None);
        insta::assert_snapshot!(at("http://127.0.0.1:8000").expect("here"), @"the load of trial `w.t.default.one.t0` was offered on the machine of the target `t`, whose address is http://127.0.0.1:8000");
    }
}
