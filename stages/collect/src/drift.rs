//! What differs between blocks although it should not: never pid or port, always boot, image, version and models.

use assay_manifest::{Drift, Environment, HostRole, ProvisionedTarget};

/// What differs from each block to the next.
pub(crate) fn drift(environments: &[&Environment]) -> Vec<Drift> {
    let mut environments = environments.to_vec();
    environments.sort_by_key(|environment| environment.block);
    environments.iter().zip(environments.iter().skip(1)).flat_map(|(before, after)| between(before, after)).collect()
}

fn between(before: &Environment, after: &Environment) -> Vec<Drift> {
    let differs = |what: &str, detail| Drift { what: what.to_owned(), before: before.block, after: after.block, detail };
    let boots = boots(before, after).into_iter().map(|detail| differs("boot_id", detail));
    let targets = targets(before, after).into_iter().map(|detail| differs("target", detail));
    boots.chain(targets).collect()
}

/// Target hosts of one name under two boots. A boot that is not known on one side cannot be told from the other.
fn boots(before: &Environment, after: &Environment) -> Vec<String> {
    let earlier = |name: &str| before.hosts_with(HostRole::Target).find(|host| host.name == name);
    let differs = after.hosts_with(HostRole::Target).filter_map(|host| {
        let (then, now) = (earlier(&host.name)?.facts.boot_id.value.as_ref()?, host.facts.boot_id.value.as_ref()?);
        (then != now).then(|| format!("host `{}`: {then}, then {now}", host.name))
    });
    differs.collect()
}

fn targets(before: &Environment, after: &Environment) -> Vec<String> {
    let earlier = |now: &ProvisionedTarget| before.targets.iter().find(|target| target.id == now.id);
    let pairs = after.targets.iter().filter_map(|now| Some((earlier(now)?, now)));
    pairs.filter(|(then, now)| then.identity() != now.identity()).map(|(then, now)| changes(then, now)).collect()
}

fn changes(then: &ProvisionedTarget, now: &ProvisionedTarget) -> String {
    let pairs = identity(then).into_iter().zip(identity(now)).filter(|(then, now)| then != now);
    let changes: Vec<_> = pairs.map(|((what, then), (_, now))| format!("{what} {then}, then {now}")).collect();
    format!("`{}`: {}", now.id, changes.join("; "))
}

/// What [`ProvisionedTarget::identity`] compares, in words.
fn identity(target: &ProvisionedTarget) -> [(&'static str, String); 4] {
    let version = target.version.value.as_deref().unwrap_or("unknown");
    let image = target.image.as_ref().map_or_else(
        || "none".to_owned(),
        |image| {
            format!("{} ({})", image.reference, image.digest.map_or_else(|| "unpinned".to_owned(), |digest| digest.to_string()))
        },
    );
    [
        ("kind", target.kind.to_string()),
        ("version", version.to_owned()),
        ("models", format!("[{}]", target.models.join(", "))),
        ("image", image),
    ]
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Block, Fact, Host, HostFacts, Image};
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

    /// What is found between two blocks of which the second was changed.
    fn found(change: impl FnOnce(&mut Environment)) -> String {
        let (before, mut after) = (environment(0), environment(1));
        change(&mut after);
        // In whatever order they are given.
        let found = drift(&[&after, &before]);
        assert!(found.iter().all(|drift| (drift.before, drift.after) == (before.block, after.block)));
        found.iter().map(|drift| format!("{}: {}", drift.what, drift.detail)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn equal_blocks_do_not_drift() {
        assert_eq!(found(|_| {}), "");
        assert_eq!(drift(&[]), []);
        assert_eq!(drift(&[&environment(0)]), []);
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
    fn each_block_is_compared_with_the_one_before_it() {
        let mut blocks: Vec<_> = (0..4).map(environment).collect();
        blocks[2].targets[0].models.push("mistral".to_owned());
        let pairs: Vec<_> = drift(&blocks.iter().collect::<Vec<_>>()).iter().map(|drift| (drift.before, drift.after)).collect();
        let block = |index| Block { index, incarnation: 0 };
        assert_eq!(pairs, [(block(1), block(2)), (block(2), block(3))]);
    }
}
