//! Where load ran: whether the trials of a point had one origin, and whether that was beside what they measured.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Attempt, Block, Environment, Reason, Shard};

/// The word of the rule that the trials of a point come from one node in each shard, and of the Summary's issue where they do not.
pub const MOVED_LOAD: &str = "moved_load";

/// The word of the rule that load does not share a node with its target, and of the Summary's issue where it does.
pub const COLOCATED: &str = "colocated";

/// The word of the rule that the trials of a point measured a target on the same nodes, and of the Summary's issue where they did not.
pub const MOVED_TARGET: &str = "moved_target";

/// How a node of a target stands in the placement of an Environment, before the target's name.
const NODE_OF: &str = "node/";

/// The most nodes that are named.
const MAX_NODES: usize = 4;

/// A shard's part of an attempt that counts.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The block that it ran in.
    pub block: Block,
    /// The shard that made it.
    pub shard: Shard,
    /// The attempt.
    pub attempt: &'a Attempt,
}

impl<'a> Counted<'a> {
    fn node(&self) -> Option<&'a str> {
        self.attempt.place.as_ref().map(|place| place.node.as_str())
    }
}

/// Where the trials of one point and shard that count ran on more than one node: a pod that was replaced came up elsewhere, and its
/// trials differ by their node as well. One whose node nobody knows is another's beside one that is known. None on one machine.
pub fn moved_load<'a>(counted: impl IntoIterator<Item = Counted<'a>>) -> Option<Reason> {
    let mut nodes: BTreeMap<_, BTreeSet<Option<&str>>> = BTreeMap::new();
    for counted in counted {
        let Counted { shard, attempt, .. } = counted;
        nodes.entry((&attempt.case_id, &attempt.point_id, shard.index)).or_default().insert(counted.node());
    }
    let mut moved = nodes.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    let ((case, point, shard), nodes) = moved.next()?;
    let more = match moved.count() {
        0 => String::new(),
        1 => "; and so it is with one other shard of a point".to_owned(),
        more => format!("; and so it is with {more} other shards of points"),
    };
    let named = named(&nodes);
    let detail =
        format!("the counted trials of {case} at `{point}` come from more than one node in shard {shard}: {named}{more}");
    Some(Reason::new(MOVED_LOAD, detail))
}

/// Where the counted trials of one case and point measured a target that another block had on other nodes: they differ by its machine as
/// well. None on one machine.
pub fn moved_target<'a>(counted: impl IntoIterator<Item = Counted<'a>>, environments: &[&'a Environment]) -> Option<Reason> {
    let mut places: BTreeMap<_, BTreeSet<BTreeSet<&str>>> = BTreeMap::new();
    for Counted { block, attempt, .. } in counted {
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
    let named = named(&places.into_iter().flatten().map(Some).collect());
    let detail = format!(
        "the counted trials of {case} at `{point}` come from blocks that had the target `{target}` on different nodes: {named}{more}"
    );
    Some(Reason::new(MOVED_TARGET, detail))
}

/// The targets of an Environment with their nodes: one of several pods stands there once for each.
fn nodes_of_targets(environment: &Environment) -> impl Iterator<Item = (&str, &str)> {
    environment.placement.iter().filter_map(|(key, node)| {
        let target = key.strip_prefix(NODE_OF)?;
        Some((target.split_once('/').map_or(target, |(target, _)| target), node.as_str()))
    })
}

fn named(nodes: &BTreeSet<Option<&str>>) -> String {
    let shown = |node: Option<&str>| node.map_or_else(|| "one that is not known".to_owned(), |node| format!("`{node}`"));
    let shown: Vec<_> = nodes.iter().take(MAX_NODES).copied().map(shown).collect();
    let left = nodes.len().saturating_sub(MAX_NODES);
    let left = if left == 0 { String::new() } else { format!(" and {left} more") };
    format!("{}{left}", shown.join(", "))
}

/// Where load that counts came from the node of one of its block's targets: it measured itself as well. None on one machine, where it
/// is known to.
pub fn colocated<'a>(counted: impl IntoIterator<Item = Counted<'a>>, environments: &[&Environment]) -> Option<Reason> {
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

/// The target that ran on the node of an attempt.
fn target_beside<'a>(counted: &Counted<'_>, environments: &[&'a Environment]) -> Option<&'a str> {
    let node = counted.node()?;
    let environment = environments.iter().find(|environment| environment.block == counted.block)?;
    nodes_of_targets(environment).find(|(_, of_target)| *of_target == node).map(|(target, _)| target)
}
