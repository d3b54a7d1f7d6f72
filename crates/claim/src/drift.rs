//! Drift between blocks: boot, images, version, models, executed bytes and the number of ready pods must not differ; pid, port and the
//! UIDs of pods may.

use std::collections::BTreeSet;

use assay_manifest::{Block, Drift, Environment, HostRole, Image, ProvisionedTarget};

/// Finds the differences of each target and its hosts from the last earlier block that had the same one: in a comparison, a block
/// may have only one side. Collect records them, and `verify` computes them again.
pub fn find_drift(environments: &[&Environment]) -> Vec<Drift> {
    let mut environments = environments.to_vec();
    environments.sort_by_key(|environment| environment.block);
    let each = environments.iter().enumerate();
    each.flat_map(|(place, after)| drift_since(environments.get(..place).unwrap_or_default(), after)).collect()
}

fn drift_since(earlier: &[&Environment], after: &Environment) -> Vec<Drift> {
    let differs = |what: &str, before: Block, detail| Drift { what: what.to_owned(), before, after: after.block, detail };
    let boots = after.hosts_with(HostRole::Target).filter_map(|host| {
        let (block, then) = last_value(earlier, |before| boot_of(before, &host.name))?;
        let now = host.facts.boot_id.value.as_ref()?;
        (then != now).then(|| differs("boot_id", block, format!("host `{}`: {then}, then {now}", host.name)))
    });
    let targets = after.targets.iter().filter_map(|now| {
        let (block, then) = last_value(earlier, |before| before.targets.iter().find(|target| target.id == now.id))?;
        Some(differs("target", block, describe_changes(then, now)?))
    });
    boots.chain(targets).collect()
}

/// Returns the value from the last block that has it.
fn last_value<'a, T>(earlier: &[&'a Environment], of: impl Fn(&'a Environment) -> Option<T>) -> Option<(Block, T)> {
    earlier.iter().rev().find_map(|before| Some((before.block, of(before)?)))
}

/// Returns the boot id of a target's host. An unknown boot id is equal to every other.
fn boot_of<'a>(environment: &'a Environment, name: &str) -> Option<&'a String> {
    let mut hosts = environment.hosts_with(HostRole::Target);
    hosts.find(|host| host.name == name)?.facts.boot_id.value.as_ref()
}

fn describe_changes(then: &ProvisionedTarget, now: &ProvisionedTarget) -> Option<String> {
    let pairs = identity(then).into_iter().zip(identity(now)).filter(|(then, now)| then != now);
    let facts = pairs.map(|((what, then), (_, now))| format!("{what} {then}, then {now}"));
    let changes: Vec<_> = facts.chain(executables(then, now)).collect();
    (!changes.is_empty()).then(|| format!("`{}`: {}", now.id, changes.join("; ")))
}

/// Lists files that the target executes at the same path with different bytes. A file that only one block loaded, or that was not
/// read, is no difference.
fn executables(then: &ProvisionedTarget, now: &ProvisionedTarget) -> Vec<String> {
    let before = |path: &str| then.executables.iter().find(|executable| executable.path == path)?.digest;
    let differs = now.executables.iter().filter_map(|executable| {
        let (then, now) = (before(&executable.path)?, executable.digest?);
        (then != now).then(|| format!("{} `{}` {then}, then {now}", executable.role, executable.path))
    });
    differs.collect()
}

/// The properties that must not change between blocks, as text.
fn identity(target: &ProvisionedTarget) -> [(&'static str, String); 5] {
    let version = target.version.value.as_deref().unwrap_or("unknown");
    let of_pods = target.pods.iter().flat_map(|pod| &pod.containers).map(|container| &container.image);
    let images: BTreeSet<String> = target.image.iter().chain(of_pods).map(describe_image).collect();
    let image = if images.is_empty() { "none".to_owned() } else { images.into_iter().collect::<Vec<_>>().join(", ") };
    [
        ("kind", target.kind.to_string()),
        ("version", version.to_owned()),
        ("models", format!("[{}]", target.models.join(", "))),
        ("image", image),
        ("ready pods", target.pods.iter().filter(|pod| pod.ready).count().to_string()),
    ]
}

fn describe_image(image: &Image) -> String {
    format!("{} ({})", image.reference, image.digest.map_or_else(|| "unpinned".to_owned(), |digest| digest.to_string()))
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Fact, Host, HostFacts, PodFacts};
    use serde_json::json;

    use super::*;

    fn environment(index: u32) -> Environment {
        let environment = json!({
            "plan_digest": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "block": {"index": index, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
            "hosts": [], "software": [],
            "targets": [{
                "id": "vllm", "kind": "endpoint", "hosts": ["gpu"], "address": "http://gpu:8000",
                "version": {"source": "observed", "value": "1.0", "how": "/version"}, "models": ["llama"], "probes": [],
            }],
            "controls": [], "placement": {}, "readings": [],
        });
        let facts = HostFacts { boot_id: Fact::observed("a".to_owned(), "/proc"), ..HostFacts::unknown("a test") };
        let host = |name: &str, role| Host { name: name.to_owned(), roles: vec![role], facts: facts.clone() };
        let hosts = vec![host("gpu", HostRole::Target), host("local", HostRole::Client)];
        Environment { hosts, ..serde_json::from_value(environment).expect("an environment") }
    }

    /// The drift between two blocks after a change of the second.
    fn found(change: impl FnOnce(&mut Environment)) -> String {
        let (before, mut after) = (environment(0), environment(1));
        change(&mut after);
        // The order of the blocks does not matter.
        let found = find_drift(&[&after, &before]);
        assert!(found.iter().all(|drift| (drift.before, drift.after) == (before.block, after.block)));
        found.iter().map(|drift| format!("{}: {}", drift.what, drift.detail)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn equal_blocks_do_not_drift() {
        assert_eq!(found(|_| {}), "");
        assert_eq!(find_drift(&[]), []);
        assert_eq!(find_drift(&[&environment(0)]), []);
    }

    #[test]
    fn address_and_client_are_no_drift() {
        assert_eq!(found(|after| after.targets[0].address = Some("http://gpu:9999".to_owned())), "");
        assert_eq!(found(|after| after.hosts[1].facts.boot_id = Fact::observed("b".to_owned(), "/proc")), "");
        assert_eq!(found(|after| after.targets[0].version.how = "elsewhere".to_owned()), "");
    }

    #[test]
    fn another_boot_is() {
        insta::assert_snapshot!(found(|after| after.hosts[0].facts.boot_id = Fact::observed("b".to_owned(), "/proc")), @"boot_id: host `gpu`: a, then b");
        assert_eq!(
            found(|after| after.hosts[0].facts.boot_id = Fact::unknown("no /proc")),
            "",
            "what is not known cannot differ"
        );
    }

    #[test]
    fn another_version_model_or_image_is() {
        insta::assert_snapshot!(found(|after| after.targets[0].version = Fact::observed("1.1".to_owned(), "/version")), @"target: `vllm`: version 1.0, then 1.1");
        insta::assert_snapshot!(found(|after| after.targets[0].models.clear()), @"target: `vllm`: models [llama], then []");
        let image = Image { reference: "vllm:1".to_owned(), digest: None };
        insta::assert_snapshot!(found(|after| after.targets[0].image = Some(image)), @"target: `vllm`: image none, then vllm:1 (unpinned)");
    }

    #[test]
    fn another_number_of_ready_pods_or_another_of_their_images_is_and_a_new_pod_is_not() {
        let pod = |uid: &str, image: &str, ready: bool| -> PodFacts {
            let container = json!({
                "name": "c", "image": {"reference": image}, "command": [], "env": [], "limits": {}, "restarts": 0,
            });
            let pod = json!({"name": uid, "uid": uid, "node": "gpu", "ready": ready, "containers": [container]});
            serde_json::from_value(pod).expect("a pod")
        };
        let found = |before: Vec<PodFacts>, after: Vec<PodFacts>| {
            let (mut first, mut second) = (environment(0), environment(1));
            (first.targets[0].pods, second.targets[0].pods) = (before, after);
            find_drift(&[&first, &second]).into_iter().map(|drift| drift.detail).collect::<String>()
        };
        let one = || vec![pod("1", "vllm:1", true)];
        assert_eq!(found(one(), vec![pod("2", "vllm:1", true)]), "");
        assert_eq!(found(one(), vec![pod("1", "vllm:1", true), pod("2", "vllm:1", false)]), "");
        insta::assert_snapshot!(found(one(), vec![pod("1", "vllm:1", true), pod("2", "vllm:1", true)]), @"`vllm`: ready pods 1, then 2");
        insta::assert_snapshot!(found(one(), vec![pod("2", "vllm:2", true)]), @"`vllm`: image vllm:1 (unpinned), then vllm:2 (unpinned)");
    }

    #[test]
    fn another_executable_is() {
        let executable =
            |bytes: &[u8]| json!({"role": "program", "path": "/opt/serve", "digest": assay_manifest::Digest::compute(bytes)});
        let with = |environment: &mut Environment, bytes: &[u8]| {
            environment.targets[0].executables = vec![serde_json::from_value(executable(bytes)).expect("an executable")];
        };
        let found = |before: Option<&[u8]>, after: Option<&[u8]>| {
            let (mut first, mut second) = (environment(0), environment(1));
            for (environment, bytes) in [(&mut first, before), (&mut second, after)] {
                if let Some(bytes) = bytes {
                    with(environment, bytes);
                }
            }
            find_drift(&[&first, &second]).len()
        };
        assert_eq!([found(Some(b"a"), Some(b"b")), found(Some(b"a"), Some(b"a"))], [1, 0]);
        assert_eq!([found(Some(b"a"), None), found(None, Some(b"b"))], [0, 0], "what is in one block alone is no difference");
    }

    #[test]
    fn a_target_is_compared_with_the_last_block_that_had_it() {
        // The sides alternate: bb, aa, aa, bb.
        let mut blocks: Vec<_> = (0..4).map(environment).collect();
        for place in [1, 2] {
            blocks[place].targets[0].id = "other".parse().expect("a name");
            blocks[place].hosts[0].name = "elsewhere".to_owned();
        }
        blocks[3].targets[0].version = Fact::observed("1.1".to_owned(), "/version");
        blocks[3].hosts[0].facts.boot_id = Fact::observed("b".to_owned(), "/proc");
        let found = find_drift(&blocks.iter().collect::<Vec<_>>());
        let found: Vec<_> = found.iter().map(|drift| (drift.what.as_str(), drift.before.index, drift.after.index)).collect();
        assert_eq!(found, [("boot_id", 0, 3), ("target", 0, 3)]);
    }

    #[test]
    fn each_block_is_compared_with_the_one_before_it() {
        let mut blocks: Vec<_> = (0..4).map(environment).collect();
        blocks[2].targets[0].models.push("mistral".to_owned());
        let pairs: Vec<_> =
            find_drift(&blocks.iter().collect::<Vec<_>>()).iter().map(|drift| (drift.before, drift.after)).collect();
        let block = |index| Block { index, incarnation: 0 };
        assert_eq!(pairs, [(block(1), block(2)), (block(2), block(3))]);
    }
}
