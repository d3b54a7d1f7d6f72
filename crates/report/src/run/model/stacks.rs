//! The software stacks of a run's variants, and the rankings of the variants.

use assay_manifest::{Digest, Plan, Summary};

use super::exclusions::describe_missing_value;
use crate::ranking::{Ranking, measured, rank};
use crate::render::text::{clean, counted};

/// The most packages of a stack that are named.
const SHOWN_PACKAGES: usize = 3;

/// The software stacks of a run with at least one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StacksSection {
    /// Each variant, in the order of the plan.
    pub(crate) stacks: Vec<Stack>,
    /// The rankings of the variants by the primary metrics, as `assay rank` has them; none if no metric has a better direction.
    pub(crate) rankings: Vec<Ranking>,
}

/// A variant with its lock file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stack {
    pub(crate) variant: String,
    /// The path of the lock file and the digest of its bytes; `None` for a variant without packages.
    pub(crate) lock: Option<(String, Digest)>,
    /// The packages of the lock file.
    pub(crate) packages: String,
}

impl StacksSection {
    /// Returns the stacks of a run; `None` if no variant states packages.
    pub(super) fn new(plan: &Plan, summary: &Summary) -> Option<Self> {
        plan.variants.iter().any(|variant| variant.python.is_some()).then(|| Self {
            stacks: plan.variants.iter().map(Stack::new).collect(),
            rankings: rank(measured(plan, summary, None, describe_missing_value)).into_iter().map(cleaned).collect(),
        })
    }
}

impl Stack {
    fn new(variant: &assay_manifest::Variant) -> Self {
        let python = variant.python.as_ref();
        Self {
            variant: variant.name.to_string(),
            lock: python.map(|stack| (clean(&stack.lock.origin), stack.lock.artifact.digest)),
            packages: python.map_or_else(|| "none".to_owned(), |stack| packages(&stack.packages)),
        }
    }
}

fn packages(all: &[assay_manifest::PinnedPackage]) -> String {
    let named: Vec<String> =
        all.iter().take(SHOWN_PACKAGES).map(|package| clean(&format!("{} {}", package.name, package.version))).collect();
    match all.len().checked_sub(SHOWN_PACKAGES).filter(|more| *more > 0) {
        Some(more) => format!("{} and {}", named.join(", "), counted(more as u64, "more package")),
        None => named.join(", "),
    }
}

/// Returns a ranking whose texts are cleaned for display.
fn cleaned(mut ranking: Ranking) -> Ranking {
    let measured = &mut ranking.measured;
    for text in [&mut measured.place, &mut measured.metric, &mut measured.unit] {
        *text = clean(text);
    }
    for (_, why) in &mut measured.left_out {
        *why = clean(why);
    }
    ranking
}
