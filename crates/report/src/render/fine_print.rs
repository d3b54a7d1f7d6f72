//! The fine print of a report: its form, which is the same for all reports.

/// A labelled paragraph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinePrint {
    pub(crate) label: &'static str,
    pub(crate) text: String,
    /// True if the paragraph is about this run rather than about all runs; a terminal shows only these.
    pub(crate) of_this_run: bool,
}
