//! An explanation of two sides, as sections of lines.

use std::collections::BTreeSet;

use assay_diagnosis::{ALPHA, Change, Conclusion, Explanation, FEWEST_ATTEMPTS, Finding, Seen, Worse};

use crate::render::number::{grouped, probability, significant};
use crate::render::text::{clean, counted};

/// The width of the labels before the texts of a finding.
const LABEL: usize = 9;

/// The most lines of a part, and the most parts, of a report.
const MAX_LINES: usize = 20;
const MAX_SECTIONS: usize = 30;

/// Why one side is worse than the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The names of the sides, baseline first.
    pub sides: [String; 2],
    /// The points that only one side has, or that are of other work, each in words.
    pub left_out: Vec<String>,
    /// The explanation of the others.
    pub explanation: Explanation,
}

/// Why the candidate of a run's own comparison is worse than the baseline, as far as its report says it.
#[derive(Clone, Debug, PartialEq)]
pub enum WhyWorse {
    /// The explanation.
    Explained(Box<Explained>),
    /// It was not made, because the run has more rows of telemetry than a report reads.
    TooManyRows {
        /// The rows.
        rows: u64,
        /// The most that a report reads.
        most: u64,
    },
}

impl WhyWorse {
    /// Returns the result in one line, which may have code between backticks.
    pub(crate) fn headline(&self) -> String {
        match self {
            Self::Explained(explained) => explained.headline(),
            Self::TooManyRows { rows, most } => {
                format!(
                    "Not explained here: the run has {} of telemetry, more than the {} that a report reads.",
                    counted(*rows, "row"),
                    grouped(*most)
                )
            }
        }
    }
}

/// A part of an explanation: a title, and its lines.
pub(crate) struct Section {
    pub(crate) title: String,
    /// True if it is about one finding.
    is_finding: bool,
    pub(crate) lines: Vec<Line>,
}

/// A line, which may begin with a label.
pub(crate) struct Line {
    /// Empty for none.
    pub(crate) label: &'static str,
    pub(crate) text: String,
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self { label: "", text }
    }
}

impl Explained {
    /// Returns the lines for a terminal, each without a line break: a name in them begins no line of its own.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.headline(), self.between()];
        for Section { title, is_finding, lines: of_section } in self.sections() {
            lines.extend([String::new(), if is_finding { title } else { title.to_uppercase() }]);
            lines.extend(of_section.iter().map(|Line { label, text }| match *label {
                "" => format!("  {text}"),
                label => format!("  {label:<LABEL$} {text}"),
            }));
        }
        lines.push(String::new());
        lines.extend(self.notes());
        lines
    }

    /// Returns why nothing was found, as a clause.
    pub fn open_questions(&self) -> String {
        open_questions(&self.explanation)
    }

    /// Returns the sides in words.
    pub(crate) fn between(&self) -> String {
        let [baseline, candidate] = &self.sides;
        clean(&format!("{candidate} against {baseline}"))
    }

    /// Returns the parts that have lines, in the order of their weight.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let found = &self.explanation;
        let section = |title: &str, lines: Vec<String>| Section {
            title: title.to_owned(),
            is_finding: false,
            lines: lines.into_iter().map(Line::from).collect(),
        };
        let worse = found.worse.iter().map(worse_text);
        let perhaps = found.perhaps_worse.iter().map(worse_text);
        let findings = found.findings.iter().enumerate().map(|(place, finding)| Section {
            title: format!("{}. {}", place + 1, finding.title),
            is_finding: true,
            lines: finding_lines(finding),
        });
        let unsure = found.unsure.iter().map(|unsure| {
            let seen: Vec<String> = unsure.seen.iter().map(seen_text).collect();
            let (p, seen) = (probability(unsure.p_adjusted), seen.join("; "));
            format!("{} ({}) at {} of {}: {seen}; adjusted p {p}", unsure.title, unsure.rule, unsure.point, unsure.case)
        });
        let healthy = found.healthy.iter().map(|healthy| format!("{}: {}", healthy.name, change(&healthy.change)));
        let not_checked = found.not_checked.iter().map(|rule| {
            let needs = rule.needs.map(|needs| format!("; needs {needs}")).unwrap_or_default();
            format!("{}: {}{needs}", rule.rule, rule.why)
        });
        let before = [
            section("Worse", worse.collect()),
            section("Perhaps worse, and not beyond doubt with these attempts", perhaps.collect()),
        ];
        let after = [
            section("Moved, and not beyond doubt with these attempts", unsure.collect()),
            section("Checked, and not moved beyond its threshold and its spread", healthy.collect()),
            section("Not checked", not_checked.collect()),
            section("Points left out", self.left_out.clone()),
        ];
        before.into_iter().chain(findings).chain(after).filter(|section| !section.lines.is_empty()).collect()
    }

    /// Returns the parts for a report, which has little room: no more findings and lines than readers look at, and how many more there are.
    pub(crate) fn brief_sections(&self) -> Vec<Section> {
        let mut sections = self.sections();
        let command_has = |more: usize| format!("… and {more} more, which the command above prints");
        for Section { lines, .. } in &mut sections {
            let more = lines.len().saturating_sub(MAX_LINES);
            lines.truncate(MAX_LINES);
            lines.extend((more > 0).then(|| command_has(more).into()));
            for line in lines {
                line.text = clean(&line.text).replace(" -> ", " \u{2192} ");
            }
        }
        let more = sections.len().saturating_sub(MAX_SECTIONS);
        sections.truncate(MAX_SECTIONS);
        if let Some(Section { lines, .. }) = sections.last_mut().filter(|_| more > 0) {
            lines.push(command_has(more).into());
        }
        sections
    }

    /// Returns how it was computed, and what it does not say.
    pub(crate) fn notes(&self) -> [String; 2] {
        [
            format!(
                "Medians of the attempts that count. One-sided tests of Welch, of logarithms; an outcome is worse at {ALPHA}, adjusted by Holm's method for all \
                 outcomes and points, and a rule holds if its signals do together, at {ALPHA}, adjusted for {}.",
                counted(self.explanation.tests as u64, "test")
            ),
            "The sides are associated with what was recorded, which does not prove a cause: the experiment does.".to_owned(),
        ]
    }

    /// Returns what was seen of the first finding, and the experiment that would confirm it.
    pub fn first_finding(&self) -> Vec<String> {
        let Some(finding) = self.explanation.findings.first() else { return Vec::new() };
        let seen = finding.seen.iter().filter(|seen| seen.needed).map(seen_text);
        seen.map(|text| format!("{text}, at {} of {}", finding.point, finding.case))
            .chain([format!("To confirm: {}", finding.confirm)])
            .collect()
    }

    /// Returns the conclusion in one line.
    pub fn headline(&self) -> String {
        headline(&self.explanation, self.left_out.len())
    }
}

fn worse_text(worse: &Worse) -> String {
    let Change { baseline, candidate, .. } = worse.change;
    let percent = (candidate / baseline - 1.0) * 100.0;
    let by = if percent.is_finite() { format!(" ({percent:+.1} %)") } else { String::new() };
    format!("{} at {}: {} {}{by}", worse.case, worse.point, worse.metric, change(&worse.change))
}

fn headline(found: &Explanation, left_out: usize) -> String {
    let left_out = match left_out {
        0 => String::new(),
        count => format!(" {} left out, below.", counted(count as u64, "point")),
    };
    match found.conclusion {
        Conclusion::Found => {
            let more = match found.findings.len() {
                0 | 1 => String::new(),
                count => format!(" And {}, below.", counted(count as u64 - 1, "more finding")),
            };
            let first = found.findings.first().map(|finding| finding.title).unwrap_or_default();
            format!("Most evidence: {first}.{more}")
        }
        Conclusion::NotWorse => format!(
            "Nothing to explain: none of the outcomes that are judged is worse by 5 % or more, beyond the spread of the attempts.{left_out}"
        ),
        Conclusion::NothingFound => format!("Nothing found: every rule was checked, and none holds.{left_out}"),
        Conclusion::CannotTell if found.worse.is_empty() && !found.perhaps_worse.is_empty() => {
            let count = counted(found.perhaps_worse.len() as u64, "outcome");
            format!("Cannot tell: {count} may be worse, and these attempts are too few or vary too much to be sure.{left_out}")
        }
        Conclusion::CannotTell if found.worse.is_empty() => {
            format!(
                "Cannot tell: not every point has {FEWEST_ATTEMPTS} attempts of each side that count, so there may be outcomes that are worse.{left_out}"
            )
        }
        Conclusion::CannotTell => format!("Cannot tell: {}.{left_out}", open_questions(found)),
    }
}

/// Returns why nothing was found, as a clause: the rules that may hold, and those that could not be checked, each once.
fn open_questions(found: &Explanation) -> String {
    let distinct = |rules: BTreeSet<&str>| rules.len() as u64;
    let perhaps = distinct(found.unsure.iter().map(|unsure| unsure.rule).collect());
    let unchecked = distinct(found.not_checked.iter().map(|rule| rule.rule).collect());
    match (perhaps, unchecked) {
        (0, 0) => "no rule holds".to_owned(),
        (0, _) => format!("no rule holds, and {} could not be checked", counted(unchecked, "rule")),
        (_, 0) => format!("no rule holds beyond doubt, and {} may hold", counted(perhaps, "rule")),
        _ => format!("no rule holds beyond doubt; {} may hold, and {unchecked} could not be checked", counted(perhaps, "rule")),
    }
}

fn finding_lines(finding: &Finding) -> Vec<Line> {
    let line = |label, text: &str| Line { label, text: text.to_owned() };
    let mut lines = vec![line("rule", &format!("{} ({})", finding.rule, finding.class.words()))];
    lines.extend(finding.seen.iter().map(|seen| line(if seen.needed { "seen" } else { "with it" }, &seen_text(seen))));
    // The cluster repeats its message about an object for each condition that leads to the next.
    let messages: BTreeSet<&str> = finding.seen.iter().filter_map(|seen| seen.message.as_deref()).collect();
    lines.extend(messages.into_iter().map(|message| line("message", &clean(message))));
    let at = match finding.points.as_slice() {
        [_] => format!("{} at {}", finding.case, finding.point),
        points => format!("{} at {}; most evidence at {}", finding.case, points.join(", "), finding.point),
    };
    lines.push(line("at", &at));
    if !finding.places.is_empty() {
        lines.push(line("where", &finding.places.join(", ")));
    }
    lines.push(line("p", &format!("{}, adjusted", probability(finding.p_adjusted))));
    lines.push(line("instead", finding.instead));
    lines.push(line("confirm", finding.confirm));
    lines
}

fn seen_text(seen: &Seen) -> String {
    let object =
        seen.object.as_ref().map(|object| format!(" of {object}, and of the others in the same attempts")).unwrap_or_default();
    let share =
        seen.explains.as_ref().map(|(outcome, share)| format!("; as much as {:.0} % of the change of {outcome}", share * 100.0));
    match &seen.object {
        Some(_) => {
            let Change { baseline, candidate, unit, .. } = &seen.change;
            format!("{}{object}: {} and {} {unit}", seen.name, significant(*candidate, None), significant(*baseline, None))
        }
        None => format!("{}: {}{}", seen.name, change(&seen.change), share.unwrap_or_default()),
    }
}

fn change(change: &Change) -> String {
    let [before, now] = [change.baseline, change.candidate].map(|value| significant(value, None));
    format!("{before} -> {now} {}", change.unit)
}

#[cfg(test)]
mod tests {
    use assay_diagnosis::{Better, Outcome, Pair, Subject, Window, explain, rules};

    use super::*;
    use crate::run::fixture;

    /// A comparison whose candidate is slower, of which nothing else was recorded.
    fn slower(case: &str) -> WhyWorse {
        let windows = |base: f64| -> Vec<Window> {
            let outcome = |value| Outcome { value, unit: "ms".to_owned(), better: Some(Better::Lower), primary: true };
            let window = |place: i32| Window {
                outcomes: [("ttft_ms_p50".to_owned(), outcome(base + f64::from(place)))].into(),
                ..Window::default()
            };
            (0..5).map(window).collect()
        };
        let pairs = (0..30).map(|point| Pair {
            case: case.to_owned(),
            point: format!("concurrency-{point}"),
            baseline: windows(100.0),
            candidate: windows(200.0),
            subject: Subject::Requests,
            known_worse: std::collections::BTreeSet::new(),
        });
        let explanation = explain(rules(), &pairs.collect::<Vec<_>>());
        WhyWorse::Explained(Box::new(Explained { sides: ["a".to_owned(), "b".to_owned()], left_out: Vec::new(), explanation }))
    }

    fn renderings(why_worse: Option<WhyWorse>) -> [String; 3] {
        let report = fixture::Model { why_worse, ..fixture::model() }.report();
        [report.terminal(120, false), report.markdown(), report.html()]
    }

    #[test]
    fn a_report_says_why_a_side_is_worse_and_where_the_rest_is() {
        let [terminal, markdown, html] = renderings(Some(slower("chat.after.default")));
        assert!(terminal.contains("Why it is worse: Cannot tell: no rule holds, and"), "{terminal}");
        for page in [&markdown, &html] {
            assert!(
                page.contains("Why it is worse") && page.contains("b against a") && page.contains("assay explain ."),
                "{page}"
            );
            assert!(page.contains("chat.after.default at concurrency-7"), "{page}");
            assert!(page.contains("… and 10 more, which the command above prints"), "thirty points are worse: {page}");
        }
        for text in renderings(None) {
            assert!(!text.contains("Why it is worse"), "{text}");
        }
    }

    #[test]
    fn rules_that_may_hold_and_rules_that_could_not_be_checked_are_counted_once_each() {
        let WhyWorse::Explained(mut explained) = slower("a.b.c") else { panic!("it is explained") };
        let unchecked = explained.explanation.not_checked.iter().map(|rule| rule.rule).collect::<BTreeSet<_>>().len();
        assert_eq!(explained.open_questions(), format!("no rule holds, and {unchecked} rules could not be checked"));
        let twice = explained.explanation.not_checked[0].clone();
        explained.explanation.not_checked = vec![twice.clone(), twice];
        assert_eq!(explained.open_questions(), "no rule holds, and 1 rule could not be checked");
        let unsure = assay_diagnosis::Unsure {
            rule: "cpu-quota",
            title: "a",
            case: "a".to_owned(),
            point: "a".to_owned(),
            seen: Vec::new(),
            p_adjusted: 0.02,
        };
        explained.explanation.unsure = vec![unsure.clone(), unsure];
        assert_eq!(explained.open_questions(), "no rule holds beyond doubt; 1 rule may hold, and 1 could not be checked");
        explained.explanation.not_checked.clear();
        assert_eq!(explained.open_questions(), "no rule holds beyond doubt, and 1 rule may hold");
    }

    #[test]
    fn more_rows_than_a_report_reads_are_said() {
        for text in renderings(Some(WhyWorse::TooManyRows { rows: 300_000, most: 200_000 })) {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("300,000 rows of telemetry, more than the 200,000 that a report reads"), "{text}");
        }
    }

    #[test]
    fn a_hostile_name_is_no_markup() {
        for text in renderings(Some(slower("<script>alert(1)</script>\u{1b}]0;owned\u{7}"))) {
            assert!(!text.contains(['\u{1b}', '\u{7}']) && !text.contains("<script"), "{text}");
        }
    }
}
