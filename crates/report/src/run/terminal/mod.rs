//! The report in a terminal: head, sentences, strip, tables, commands; and its first screen. Plain text that fits the width; colour only repeats the words.

mod case;
mod serving;
mod summary;

use assay_manifest::Address;

use crate::render::terminal::{Paint, Screen};
use crate::run::model::Report;

/// Maximum number of sentences; the table has the rest.
const MAX_SENTENCES: usize = 8;

impl Report {
    /// Returns the report for a terminal of `width` columns. `color` enables ANSI colours; without it there are no escape sequences.
    pub fn terminal(&self, width: usize, color: bool) -> String {
        let mut screen = Screen::new(width, color);
        screen.overview(self);
        screen.line("");
        screen.sentences(self);
        screen.strip(&self.strip);
        for case in &self.cases {
            if case.serving.is_some() { screen.serving_case(case) } else { screen.case(case) }
        }
        screen.notes(self);
        screen.out
    }
}

impl Screen {
    fn sentences(&mut self, report: &Report) {
        for sentence in report.sentences().take(MAX_SENTENCES) {
            self.paragraph("", &sentence, Paint::Strong);
        }
        let more = report.sentences.len().saturating_sub(MAX_SENTENCES);
        if more > 0 {
            self.line(&format!("… and {more} more in the table below"));
        }
    }

    fn notes(&mut self, report: &Report) {
        self.line("");
        if let Some(address) = report.example_address() {
            let text = "A number's address is";
            self.line(&format!("{text} {}/{}/<row>/value. Walk one back:", report.run_id, Address::TABLE));
            self.line(&format!("  {}", report.trace_command(address)));
        }
        self.line(&format!("  {}", report.verify_command()));
        self.line("");
        for item in report.fine_print.iter().filter(|item| item.of_this_run) {
            self.paragraph("", &format!("{}: {}", item.label, item.text), Paint::Faint);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::render::text::columns;
    use crate::run::fixture;

    #[test]
    fn a_wide_terminal() {
        insta::assert_snapshot!(fixture::report().terminal(140, false));
    }

    #[test]
    fn a_narrow_terminal() {
        insta::assert_snapshot!(fixture::report().terminal(80, false));
    }

    #[test]
    fn lines_keep_within_the_width() {
        // Identifiers and commands do not break; all other text does.
        let unbreakable = |line: &str| line.split_whitespace().any(|word| columns(word) > 40) || line.contains("assay ");
        for width in [60, 80, 100, 140] {
            for line in fixture::report().terminal(width, false).lines().filter(|line| !unbreakable(line)) {
                assert!(columns(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn colour_is_only_paint() {
        let report = fixture::report();
        let (plain, painted) = (report.terminal(120, false), report.terminal(120, true));
        assert!(!plain.contains('\u{1b}'));
        let stripped =
            ["0", "1", "2", "33"].iter().fold(painted.clone(), |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
        assert_ne!(painted, plain);
        let trimmed: Vec<_> = stripped.lines().map(str::trim_end).collect();
        assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
    }
}
