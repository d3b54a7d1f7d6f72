//! The changes that the newest runs show, as Markdown for an issue.

use std::fmt::Write as _;

use super::model::{Report, Series};
use super::phrases;
use crate::render::markdown::{code, escape, prose};

/// Maximum size of an issue, in bytes: forges accept 65,536 characters, and the caller may add some.
const MAX_ISSUE: usize = 60_000;

/// The first paragraph of an issue.
const OPENING: &str = "The level of these metrics moved with the newest runs. History never blocks: a paired run tells whether it is the \
                       change or the machine.\n\n";

impl Report {
    /// Returns true if a text is an issue as [`Self::issue`] writes it.
    pub fn is_issue(text: &str) -> bool {
        text.starts_with(OPENING)
    }

    /// Returns the changes that the newest runs show, as at most 60,000 bytes of Markdown; `None` if there are none.
    pub fn issue(&self) -> Option<String> {
        let lines: Vec<String> = self.series.iter().filter_map(|series| self.issue_line(series)).collect();
        if lines.is_empty() {
            return None;
        }
        let mut issue = OPENING.to_owned();
        let fits = |line: &&String| {
            let fits = issue.len() + line.len() <= MAX_ISSUE;
            if fits {
                issue.push_str(line);
            }
            fits
        };
        let shown = lines.iter().take_while(fits).count();
        if lines.len() > shown {
            let _ = writeln!(issue, "\nAnd {} more, which {} lists.", lines.len() - shown, code("assay history"));
        }
        Some(issue)
    }

    /// Returns a line for a series whose newest runs show a change, with the command that traces the first of them to its evidence.
    fn issue_line(&self, series: &Series) -> Option<String> {
        let change = series.newest_change.as_ref()?;
        let address = series.runs.get(change.index).and_then(|run| run.address.as_ref());
        let trace = address.map(|address| format!("; {}", code(&self.trace_command(address))));
        let (name, told) = (prose(&series.name()), escape(&phrases::describe_change(series, change)));
        Some(format!("- {name}: {told}{}\n", trace.unwrap_or_default()))
    }
}
