//! The state strip of a report: its form, which is the same for all reports.

/// Maximum number of details of an item in a short list; the rest are counted.
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
    pub(crate) fn new(label: &'static str, caution: bool, headline: String, details: Vec<String>) -> Self {
        Self { label, headline, caution, details }
    }

    /// Returns the first details; a last one counts the others, if there are any.
    pub(crate) fn first_details(&self) -> impl Iterator<Item = String> {
        let more = self.details.len().saturating_sub(MAX_DETAILS);
        self.details.iter().take(MAX_DETAILS).cloned().chain((more > 0).then(|| format!("and {more} more")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_beyond_the_first_are_counted() {
        let item = |count: usize| StripItem::new("Trials", false, String::new(), vec!["x".to_owned(); count]);
        let details = |count| item(count).first_details().collect::<Vec<_>>();
        assert_eq!((details(12).len(), details(12).last().map(String::as_str)), (12, Some("x")));
        assert_eq!((details(15).len(), details(15).last().map(String::as_str)), (13, Some("and 3 more")));
    }
}
