//! Attempts that a shard did not complete.

use std::collections::BTreeSet;

use assay_manifest::{Digest, Shard, TrialId, canonical_json};
use assay_store::Store;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::{ErrorCode, Failure};

/// The mark that a shard was lost in the middle of an attempt: the attempt is over for all shards, and they meet again at the
/// next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokenMark {
    /// The index of the lost shard.
    pub shard: u32,
}

impl BrokenMark {
    /// Writes the mark, unless it exists.
    pub fn write(self, store: &Store, layout: &Layout, input: Digest, trial: &TrialId, attempt: u32) -> Result<(), Failure> {
        let bytes = canonical_json(&self)
            .map_err(|error| Failure::new(ErrorCode::Internal, "a mark has no canonical form").because(&error))?;
        store.create(&layout.attempt_broken(input, trial, attempt), &bytes)?;
        Ok(())
    }

    /// Writes the mark for every attempt that this shard has begun and not completed, and returns those attempts. Called by the
    /// process that observes that the shard's process is gone.
    pub fn write_all(store: &Store, layout: &Layout, input: Digest, shard: Shard) -> Result<Vec<(TrialId, u32)>, Failure> {
        let paths: BTreeSet<String> = store.list(&layout.trials(input))?.into_iter().collect();
        let open = paths.iter().filter_map(|path| layout.started_attempt(path, input, shard)).filter(|(trial, attempt)| {
            let is_there = |path: &str| paths.contains(path);
            !is_there(&layout.attempt(input, trial, *attempt, shard)) && !is_there(&layout.attempt_broken(input, trial, *attempt))
        });
        let open: Vec<_> = open.collect();
        for (trial, attempt) in &open {
            Self { shard: shard.index }.write(store, layout, input, trial, *attempt)?;
        }
        Ok(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shard_has_begun_and_not_ended_is_broken_and_only_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().display().to_string()).expect("a store");
        let (layout, input) = (Layout::for_run(&"a-run".parse().expect("a run")), Digest::compute(b"input"));
        let trial: TrialId = "chat.local.default.c1.t1".parse().expect("a trial");
        let shard = |index: u32| Shard { index, count: 2 };
        let put = |path: String| store.create(&path, b"{}").expect("put");
        for (attempt, of) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
            put(layout.attempt_started(input, &trial, attempt, shard(of)));
        }
        put(layout.attempt(input, &trial, 1, shard(1)));
        let broken = |of: u32| BrokenMark::write_all(&store, &layout, input, shard(of)).expect("marked");
        assert_eq!(broken(1), [(trial.clone(), 2)], "it came to the end of the first");
        assert_eq!(broken(1), [], "what is broken is broken");
        assert_eq!(broken(0), [(trial.clone(), 1)], "the second is broken for all");
        let mark = store.read(&layout.attempt_broken(input, &trial, 2), 100).expect("read").expect("there");
        assert_eq!(serde_json::from_slice::<BrokenMark>(&mark).expect("a mark"), BrokenMark { shard: 1 });
    }
}
