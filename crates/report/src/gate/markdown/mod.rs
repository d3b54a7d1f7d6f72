//! A verdict as a pull request's comment: the verdict, what changed, and the evidence; the rest is folded, and left out first if space
//! is short.

pub(crate) mod sections;

use crate::gate::model::acknowledgements::AcknowledgementLine;
use crate::gate::model::lineage::{Origin, RunLineage, SideOrigin};
use crate::gate::model::row::{MetricOutcome, Row};
use crate::gate::model::strip::{EXPIRED, WHY};
use crate::gate::model::{EarlierLine, Report};
use crate::render::markdown::{block, code, escape, prose};
use crate::render::number::significant;
use crate::render::strip::StripItem;

use sections::{Section, join_within};

/// The columns of every table of metrics.
const HEADER: &str = "| verdict | metric | at | baseline | candidate | change, interval | size | adjusted p | floor | would find | pairs | why |\n\
                      | --- | --- | --- | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |\n";

impl Report {
    /// Returns the verdict as Markdown of at most `limit` bytes; GitHub accepts 65,535 characters in a comment. The sources of the
    /// values are left out first, then unchanged metrics, and earlier verdicts last. Omissions are counted.
    pub fn markdown(&self, limit: usize) -> String {
        let sections: Vec<Section> = self.summary_sections().into_iter().chain(self.detail_sections()).collect();
        join_within(&sections, limit).unwrap_or_else(|| self.headline().chars().take(limit).collect())
    }

    /// Returns the main sections: the verdict, what changed, how far to trust it, and the evidence.
    pub(crate) fn summary_sections(&self) -> Vec<Section> {
        let changed = self.primary.iter().filter(|row| row.outcome != MetricOutcome::Unchanged);
        vec![
            section(
                0,
                "sentence",
                String::new(),
                std::iter::once(self.verdict_lines()).chain(self.expired_lines()).chain(self.why_lines()).collect(),
                "",
            ),
            section(3, "changed metric", format!("\n### What changed\n\n{HEADER}"), changed.map(line).collect(), ""),
            section(
                4,
                "fact",
                "\n### How far to believe it\n\n| | | |\n| --- | --- | --- |\n".to_owned(),
                self.strip_lines(),
                "",
            ),
            section(2, "command", "\n### Where the evidence is\n\n".to_owned(), vec![self.evidence()], ""),
        ]
    }

    /// Returns the folded sections, for readers who want the details.
    pub(crate) fn detail_sections(&self) -> Vec<Section> {
        let unchanged: Vec<_> = self.primary.iter().filter(|row| row.outcome == MetricOutcome::Unchanged).map(line).collect();
        let others: Vec<_> = self.others.iter().map(line).collect();
        let (accepted, earlier) = (self.accepted_lines(), self.earlier_lines());
        vec![
            folded(8, "unchanged metric", "Unchanged", HEADER, unchanged),
            folded(7, "other metric", "Other metrics, reported only", HEADER, others),
            folded(5, "acknowledgement", "Acknowledgements", ACCEPTED, accepted),
            folded(1, "earlier verdict", "Earlier verdicts of this pull request, newest first", EARLIER, earlier),
            folded(9, "origin", "Where the values come from", ORIGINS, self.origin_lines()),
            folded(6, "definition", "Fine print", "", self.fine_print_lines()),
        ]
    }

    fn verdict_lines(&self) -> String {
        let rest = self.sentence.strip_prefix(&self.headline()).unwrap_or(&self.sentence);
        format!("**{}**{}\n", self.headline(), prose(rest))
    }

    /// Returns the warnings that must not be overlooked, each a line under the sentence.
    fn expired_lines(&self) -> Vec<String> {
        let items = self.strip.iter().filter(|item| item.label == EXPIRED);
        let lines = items.flat_map(|item| std::iter::once(item.headline.clone()).chain(item.first_details()));
        lines.map(|line| format!("\n⚠ {}\n", prose(&line))).collect()
    }

    /// Returns what explains the regression, under the sentence.
    fn why_lines(&self) -> Vec<String> {
        let items = self.strip.iter().filter(|item| item.label == WHY);
        let line = |item: &StripItem| {
            let details: Vec<String> = item.first_details().map(|detail| format!("- {}\n", prose(&detail))).collect();
            format!("\n**{}**: {}\n\n{}", item.label, prose(&item.headline), details.concat())
        };
        items.map(line).collect()
    }

    fn strip_lines(&self) -> Vec<String> {
        let line = |item: &StripItem| {
            let mark = if item.caution { "⚠ " } else { "" };
            let details: Vec<String> = item.first_details().map(|detail| prose(&detail)).collect();
            format!("| {} | {mark}{} | {} |\n", item.label, prose(&item.headline), details.join("<br>"))
        };
        self.strip.iter().filter(|item| item.label != EXPIRED && item.label != WHY).map(line).collect()
    }

    fn evidence(&self) -> String {
        let digest = match &self.digest {
            Some(digest) => format!("The verdict of gate {} is {}.", code(&self.gate), code(digest)),
            None => format!("The verdict of gate {} is not sealed: nothing says that these are its words.", code(&self.gate)),
        };
        let summary = |run: &RunLineage| format!("Run {} was judged by its Summary {}.\n", code(&run.run_id), code(&run.summary));
        let runs: String = self.runs.iter().map(summary).collect();
        let commands =
            if self.commands.is_empty() { String::new() } else { format!("\n{}", block("sh", &self.commands.join("\n"))) };
        format!("{digest}\n{runs}{commands}")
    }

    fn accepted_lines(&self) -> Vec<String> {
        let line = |one: &AcknowledgementLine| {
            format!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                one.kind.as_str(),
                code(&one.metric),
                escape(&one.place),
                one.accepts,
                prose(&one.effect),
                escape(&one.subject),
                escape(&one.reason),
                escape(&one.approver),
                one.expires,
                code(&one.path)
            )
        };
        self.accepted.iter().map(line).collect()
    }

    /// Returns all earlier verdicts, newest first: if space is short, the oldest are left out.
    fn earlier_lines(&self) -> Vec<String> {
        let line = |one: &EarlierLine| {
            let digest: String = one.digest.trim_start_matches("sha256:").chars().take(12).collect();
            format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                one.number,
                one.outcome,
                escape(&one.gate),
                one.look,
                code(&one.commit),
                code(&digest)
            )
        };
        self.earlier.iter().rev().map(line).collect()
    }

    /// Returns the runs' own medians of each side, and their addresses.
    fn origin_lines(&self) -> Vec<String> {
        let of_row = |row: &Row| {
            let medians = row.origins.iter().flat_map(Origin::sides);
            let line = |(side, origin): (&str, &SideOrigin)| {
                let (value, address) = origin.median.as_ref()?;
                let median = row.with_unit(&significant(row.unit.convert(*value), None));
                let (metric, address) = (code(&row.metric), code(&address.to_string()));
                Some(format!("| {metric} | {} | {side} | {} | {address} |\n", escape(&row.place()), escape(&median)))
            };
            medians.filter_map(line).collect::<String>()
        };
        let lines = self.primary.iter().chain(&self.others).map(of_row);
        lines.filter(|lines| !lines.is_empty()).collect()
    }

    fn fine_print_lines(&self) -> Vec<String> {
        self.fine_print.iter().map(|item| format!("- **{}**: {}\n", item.label, prose(&item.text))).collect()
    }
}

const ORIGINS: &str = "`assay trace` walks an address back to the raw bytes. These are the runs' own medians, over all counted trials; the page \
                       has the address of every trial.\n\n\
                       | metric | at | side | median | address |\n| --- | --- | --- | ---: | --- |\n";
const ACCEPTED: &str = "| | metric | at | accepts | what it did | of | why | approved by | until | file |\n\
                        | --- | --- | --- | ---: | --- | --- | --- | --- | --- | --- |\n";
const EARLIER: &str = "| | outcome | gate | look | commit | verdict |\n| ---: | --- | --- | ---: | --- | --- |\n";

fn section(rank: u8, noun: &'static str, open: String, rows: Vec<String>, close: &str) -> Section {
    Section { rank, noun, open, rows, close: close.to_owned() }
}

fn folded(rank: u8, noun: &'static str, title: &str, header: &str, rows: Vec<String>) -> Section {
    let open = format!("\n<details><summary>{title} ({})</summary>\n\n{header}", rows.len());
    section(rank, noun, open, rows, "\n</details>\n")
}

/// Formats a metric as a line of a table. Its outcome is a word; deciding metrics that need attention are strong.
fn line(row: &Row) -> String {
    let word = row.outcome.as_str();
    let verdict = if row.verdict.primary && row.outcome.is_caution() { format!("**{word}**") } else { word.to_owned() };
    format!(
        "| {verdict} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        code(&row.metric),
        escape(&row.place()),
        escape(&row.with_unit(&row.baseline)),
        escape(&row.with_unit(&row.candidate)),
        escape(&row.change_text()),
        row.magnitude_text(),
        escape(&row.p),
        row.floor,
        row.detectable,
        row.pairs(),
        prose(&row.reason)
    )
}
