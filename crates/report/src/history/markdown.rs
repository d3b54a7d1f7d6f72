//! What changed with the newest runs, as Markdown for an issue.

use std::fmt::Write as _;

use super::{Report, Series, words};
use crate::markdown::{code, escape, prose};

/// Bytes of an issue: forges take 65,536 characters, and whoever posts it may add some.
const MAX_ISSUE: usize = 60_000;

/// What an issue begins with.
const OPENING: &str = "The level of these metrics moved with the newest runs. History never blocks: a paired run tells whether it is the \
                       change or the machine.\n\n";

impl Report {
    /// Whether a text is an issue as [`Self::issue`] writes it.
    pub fn is_issue(text: &str) -> bool {
        text.starts_with(OPENING)
    }

    /// What changed with the newest runs, at most 60,000 bytes of Markdown; none where nothing did.
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

    /// A line for a series whose newest runs show a change, with the way back to the first of them.
    fn issue_line(&self, series: &Series) -> Option<String> {
        let change = series.news.as_ref()?;
        let address = series.runs.get(change.index).and_then(|run| run.address.as_ref());
        let trace = address.map(|address| format!("; {}", code(&self.trace_command(address))));
        let (name, told) = (prose(&series.name()), escape(&words::told(series, change)));
        Some(format!("- {name}: {told}{}\n", trace.unwrap_or_default()))
    }
}
