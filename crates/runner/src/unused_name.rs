//! A name for a run that is to be started anew.

use std::fmt;

use assay_manifest::RunId;
use assay_stage::{AcceptedResult, Layout};
use assay_store::Store;

/// The most names that are tried.
const MAX_TRIED: u32 = 100;

/// A number at the end of a name is counted on up to here: a larger one is a date or a build.
const MAX_COUNTED: u32 = 1_000;

/// A name that no run of the store has, as an instruction for people: ``write `--run-id nightly-2`, or leave `--run-id` out``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedName(Option<RunId>);

impl UnusedName {
    /// Returns the next name after that of a run: `nightly-2` after `nightly`, and `nightly-3` after that.
    pub fn after(run_id: &RunId, store: &Store) -> Self {
        let (stem, first) = counted_name(run_id.as_str());
        let names = (first..first.saturating_add(MAX_TRIED)).map(|number| RunId::new(format!("{stem}-{number}")));
        // A store that cannot be read is reported by whatever needs it.
        let is_unused = |name: &RunId| matches!(store.read(&Layout::for_run(name).source(), AcceptedResult::MAX_BYTES), Ok(None));
        Self(names.map_while(Result::ok).find(is_unused))
    }
}

/// Returns a name without the number at its end, and the next number.
fn counted_name(name: &str) -> (&str, u32) {
    let counted = name.rsplit_once('-').and_then(|(stem, number)| Some((stem, number.parse::<u32>().ok()?)));
    match counted {
        Some((stem, number)) if number < MAX_COUNTED => (stem, number + 1),
        _ => (name, 2),
    }
}

impl fmt::Display for UnusedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, "write `--run-id {name}`, or leave `--run-id` out"),
            None => f.write_str("give another `--run-id`, or leave it out"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_name_is_one_that_no_run_has() {
        let store = Store::open("memory:").expect("a store");
        let after = |name: &str| UnusedName::after(&name.parse().expect("a run id"), &store).to_string();
        assert_eq!(after("nightly"), "write `--run-id nightly-2`, or leave `--run-id` out");
        for taken in ["nightly-2", "nightly-3"] {
            let taken: RunId = taken.parse().expect("a run id");
            store.create(&Layout::for_run(&taken).source(), b"{}").expect("created");
        }
        assert_eq!(after("nightly"), "write `--run-id nightly-4`, or leave `--run-id` out");
        assert_eq!(after("nightly-3"), after("nightly"));
        assert_eq!(after("nightly-20261127"), "write `--run-id nightly-20261127-2`, or leave `--run-id` out");
        assert_eq!(after(&"x".repeat(40)), "give another `--run-id`, or leave it out", "a longer name is none");
    }
}
