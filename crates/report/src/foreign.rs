//! The report of a verdict over foreign evidence: one [`ForeignReport`], rendered for the terminal, as a pull request's comment, as a page,
//! and for CI systems.
//!
//! Each begins with the statement that Assay measured none of the numbers, or has it as a property. Names, labels and reasons come from other tools and from the importers of
//! their files, so every rendering escapes them. Renderings of equal inputs have equal bytes.

mod html;
mod junit;
mod markdown;
mod phrases;
mod terminal;
#[cfg(test)]
mod tests;

use assay_manifest::{Digest, ForeignVerdict};

/// A verdict over foreign evidence for people.
#[derive(Clone, Copy, Debug)]
pub struct ForeignReport<'a> {
    /// The verdict.
    pub verdict: &'a ForeignVerdict,
    /// The digest of its manifest.
    pub digest: Digest,
    /// The store, if `assay` does not find it by itself.
    pub store: Option<&'a str>,
}
