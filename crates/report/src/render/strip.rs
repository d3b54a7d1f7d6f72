//! The state strip of a report: its form, which is the same for all reports.

/// Maximum number of details of an item; the rest are counted.
const MAX_DETAILS: usize = 12;

/// One labelled fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StripItem {
    pub(crate) label: &'static str,
    pub(crate) headline: String,
    /// True if a careful reader should stop here. The words give the reason; the colour only repeats it.
    pub(crate) caution: bool,
    pub(crate) details: Vec<String>,
}

impl StripItem {
    pub(crate) fn new(label: &'static str, caution: bool, headline: String, mut details: Vec<String>) -> Self {
        let more = details.len().saturating_sub(MAX_DETAILS);
        details.truncate(MAX_DETAILS);
        if more > 0 {
            details.push(format!("and {more} more"));
        }
        Self { label, headline, caution, details }
    }
}
