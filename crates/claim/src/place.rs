//! Where load ran: whether the trials of a point had one origin, and whether that was beside what they measured.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Attempt, Block, Environment, Reason, Shard};

/// The word of the rule that the trials of a point come from one node in each shard, and of the Summary's issue where they do not.
pub const MOVED_LOAD: &str = "moved_load";

/// The word of the rule that load does not share a node with its target, and of the Summary's issue where it does.
pub const COLOCATED: &str = "colocated";

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

impl Counted<'_> {
    fn node(&self) -> Option<&str> {
        self.attempt.place.as_ref().map(|place| place.node.as_str())
    }
}

/// Where the trials of one point and shard that count ran on more than one node: a pod that was replaced came up elsewhere, and its
/// trials differ by their node as well. None on one machine.
pub fn moved_load<'a>(counted: impl IntoIterator<Item = Counted<'a>>) -> Option<Reason> {
    let mut nodes: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for Counted { shard, attempt, .. } in counted {
        let node = attempt.place.as_ref().map(|place| place.node.as_str());
        nodes.entry((&attempt.case_id, &attempt.point_id, shard.index)).or_default().extend(node);
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

fn named(nodes: &BTreeSet<&str>) -> String {
    let shown: Vec<_> = nodes.iter().take(MAX_NODES).map(|node| format!("`{node}`")).collect();
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
    let mut targets = environment.placement.iter().filter_map(|(key, value)| Some((key.strip_prefix(NODE_OF)?, value)));
    targets.find(|(_, of_target)| *of_target == node).map(|(target, _)| target)
}
