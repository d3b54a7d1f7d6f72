//! Two pieces of foreign evidence side by side, as a page: one [`ForeignComparison`] and its rendering.
//!
//! It is no verdict: the page shows both numbers, and the intervals that samples have. Its first line states the grade. Names, labels and reasons come
//! from other tools and from the importers of their files, so all of them are escaped. Renderings of equal inputs have equal bytes.

mod html;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use assay_manifest::{BetterDirection, Digest, Instant};

/// Two pieces of foreign evidence for people.
#[derive(Clone, Debug)]
pub struct ForeignComparison<'a> {
    /// Both pieces: A and B.
    pub sides: [ComparedEvidence<'a>; 2],
    /// The sentences about what may make both differ beside what was measured: other tools, other versions.
    pub remarks: Vec<String>,
    /// The numbers that both state.
    pub numbers: Vec<ComparedNumber<'a>>,
    /// The medians of the samples that both have.
    pub medians: Vec<ComparedMedian<'a>>,
    /// The sentences about the intervals of the medians.
    pub interval_notes: Vec<String>,
    /// The definition of each metric of the page.
    pub definitions: Vec<ComparedDefinition<'a>>,
    /// A sentence for each metric that cannot be compared.
    pub not_comparable: Vec<String>,
    /// The store, if `assay` does not find it by itself.
    pub store: Option<&'a str>,
}

/// One piece of evidence.
#[derive(Clone, Debug)]
pub struct ComparedEvidence<'a> {
    /// Its name.
    pub name: &'a str,
    /// The digest of its manifest.
    pub id: Digest,
    /// The tool with its version, and the format if it is one of several tools.
    pub origin: String,
    /// The time of the import.
    pub imported_at: Instant,
    /// Its signer.
    pub signer: &'a str,
    /// True if a trust policy names its signer.
    pub established: bool,
    /// Its files: path and digest.
    pub files: Vec<(&'a str, Digest)>,
    /// The files that are absent, so that no number was read again.
    pub absent: Vec<&'a str>,
}

/// A number that both state.
#[derive(Clone, Copy, Debug)]
pub struct ComparedNumber<'a> {
    /// The metric.
    pub metric: &'a str,
    /// The statistic.
    pub statistic: &'a str,
    /// The unit.
    pub unit: &'a str,
    /// The load and other circumstances.
    pub labels: &'a BTreeMap<String, String>,
    /// The numbers of A and B.
    pub values: [f64; 2],
    /// The better direction of the metric; `None` if no reviewed table states it.
    pub better: Option<BetterDirection>,
}

/// The medians of the samples of one metric.
#[derive(Clone, Debug)]
pub struct ComparedMedian<'a> {
    /// The metric.
    pub metric: &'a str,
    /// The unit.
    pub unit: &'a str,
    /// The load and other circumstances.
    pub labels: &'a BTreeMap<String, String>,
    /// The medians of A and B, or the reason why one has no interval.
    pub medians: [Result<IntervalOfMedian, String>; 2],
    /// The better direction of the metric; `None` if no reviewed table states it.
    pub better: Option<BetterDirection>,
}

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalOfMedian {
    /// The median.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The level, as a share.
    pub level: f64,
}

/// The definition of a metric of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComparedDefinition<'a> {
    /// The metric.
    pub metric: &'a str,
    /// The definition of the tool.
    pub definition: &'a str,
    /// The metric of Assay that is near, and how it is defined differently; `None` if Assay has no such metric. The difference is empty if Assay defines it
    /// alike.
    pub near: Option<(&'a str, &'a str)>,
}

impl ForeignComparison<'_> {
    /// The first line of the page.
    pub const ABOUT: &'static str =
        "grade foreign: Assay measured none of these numbers, and only their importers vouch for them";
}
