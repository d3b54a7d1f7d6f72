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
        screen.why_worse(self);
        screen.strip(&self.strip, true);
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

    fn why_worse(&mut self, report: &Report) {
        let Some(why) = &report.why_worse else { return };
        self.paragraph(
            "",
            &format!("Why it is worse: {} `{}` says more.", why.headline(), report.explain_command()),
            Paint::Plain,
        );
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
    use assay_manifest::{Count, IntervalKind, Stability};

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
    fn an_interval_within_a_run_is_named_in_every_rendering_with_what_it_does_not_hold() {
        let renderings = |model: &fixture::Model| {
            let report = model.report();
            let texts = [report.terminal_summary(120, false), report.terminal(120, false), report.markdown(), report.html()];
            texts.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let mut model = fixture::serving::small();
        for text in renderings(&model) {
            assert!(!text.to_lowercase().contains("within run"), "{text}");
        }
        let metrics = model.summary.points.iter_mut().flat_map(|point| &mut point.metrics);
        for interval in metrics.filter_map(|metric| metric.interval.as_mut()) {
            (interval.kind, interval.sessions) = (IntervalKind::WithinRun, Some(Count(60)));
            "cluster_quantile".clone_into(&mut interval.method);
        }
        for text in renderings(&model) {
            assert!(text.contains("] within run") || text.contains("the interval within run"), "{text}");
            assert!(text.contains("do not hold the variation from run to run"), "{text}");
        }
        let [.., html] = renderings(&model);
        assert!(html.contains("interval of quantiles over sessions"), "{html}");
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
    fn the_whole_report_leaves_no_remark_and_no_name_out() {
        let mut model = fixture::serving::many(20);
        for (failed, point) in (1..).zip(&mut model.summary.points) {
            let serving = point.serving.as_mut().expect("it serves");
            serving.outcomes = [("ok", serving.requests.0 - failed), ("timeout", failed)]
                .map(|(outcome, count)| (outcome.to_owned(), Count(count)))
                .into();
            point.metrics.iter_mut().filter(|metric| metric.metric == "tpot_ms_p50").for_each(|metric| {
                (metric.interval, metric.interval_absent) = (None, Some("4 samples; 5 are needed".to_owned()));
            });
        }
        let unstable = model.summary.points[1..].iter_mut().flat_map(|point| &mut point.metrics);
        for (drift, metric) in (1..).zip(unstable.filter(|metric| metric.metric == "itl_ms_p99")) {
            (metric.stability, metric.stability_reason) = (Stability::Unstable, format!("drift of {drift} %"));
        }
        let report = model.report();
        let whole = report.terminal(100, false);
        assert!(report.terminal_summary(100, false).contains("more remarks, in the report"));
        assert!(!whole.contains("more remark"), "{whole}");
        for point in &report.cases[0].points {
            assert!(whole.contains(&format!("· {}: ", point.label)), "{}\n{whole}", point.label);
        }
        let unstable = whole.lines().filter(|line| line.starts_with("      concurrency") && line.contains(": unstable, "));
        assert_eq!(unstable.count(), 19, "each below the remark that only names the worst: {whole}");
        assert!(whole.contains("· every load, TPOT p50: no interval, 4 samples; 5 are needed"), "{whole}");
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
