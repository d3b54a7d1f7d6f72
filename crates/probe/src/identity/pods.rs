//! The change of a target's pods since it was provisioned.

use assay_manifest::{ContainerFacts, PodFacts};
use assay_stage::first_names;

/// The most pods that are named.
const MAX_NAMED: usize = 3;

/// Describes the change of a target's pods since they were recorded, for people; `None` if there is none. Replaced, added and
/// removed pods come first, then other images, restarts, and another number of ready pods.
pub fn describe_pod_change(recorded: &[PodFacts], now: &[PodFacts]) -> Option<String> {
    let change = replacement(recorded, now).or_else(|| same_pods(recorded, now).find_map(|(then, now)| pod_change(then, now)));
    change.or_else(|| readiness(recorded, now))
}

/// Describes which pods have gone and which are new. A pod is identified by its UID: one of the same name is another.
fn replacement(recorded: &[PodFacts], now: &[PodFacts]) -> Option<String> {
    let without = |all: &[PodFacts], known: &[PodFacts]| -> Vec<String> {
        let is_known = |pod: &&PodFacts| known.iter().any(|other| other.uid == pod.uid);
        all.iter().filter(|pod| !is_known(pod)).map(|pod| format!("`{}`", pod.name)).collect()
    };
    let (gone, new) = (without(recorded, now), without(now, recorded));
    let changes = [("gone", gone), ("new", new)].into_iter().filter(|(_, pods)| !pods.is_empty());
    let changes: Vec<String> = changes.map(|(what, pods)| format!("{what}: {}", first_names(&pods, MAX_NAMED))).collect();
    (!changes.is_empty()).then(|| format!("its pods changed since it was provisioned ({})", changes.join("; ")))
}

/// Returns the pods that exist before and now, with both states.
fn same_pods<'a>(recorded: &'a [PodFacts], now: &'a [PodFacts]) -> impl Iterator<Item = (&'a PodFacts, &'a PodFacts)> {
    recorded.iter().filter_map(|then| Some((then, now.iter().find(|pod| pod.uid == then.uid)?)))
}

fn pod_change(then: &PodFacts, now: &PodFacts) -> Option<String> {
    let of_container = |(then, now): (&ContainerFacts, &ContainerFacts)| {
        if then.image != now.image {
            let (before, after) = (&then.image.reference, &now.image.reference);
            return Some(format!("ran `{before}` when it was provisioned, and runs `{after}` now"));
        }
        (then.restarts != now.restarts)
            .then(|| format!("had restarted {} times when it was provisioned, {} times now", then.restarts, now.restarts))
    };
    let mut containers = then.containers.iter().zip(&now.containers);
    containers
        .find_map(|pair| Some(format!("the container `{}` of its pod `{}` {}", pair.0.name, then.name, of_container(pair)?)))
}

fn readiness(recorded: &[PodFacts], now: &[PodFacts]) -> Option<String> {
    let count = |pods: &[PodFacts]| pods.iter().filter(|pod| pod.ready).count();
    let (then, now) = (count(recorded), count(now));
    (then != now).then(|| format!("ready pods: {then} when it was provisioned, {now} now"))
}
