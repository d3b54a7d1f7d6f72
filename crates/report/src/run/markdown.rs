//! The report as Markdown, for pull requests and repositories: the same content in the same order, shorter.

use std::fmt::Write as _;

use assay_manifest::Address;

use crate::explanation::{Line, Section, WhyWorse};
use crate::render::markdown::{block, code, escape, prose};
use crate::render::number::grouped;
use crate::render::text::{all_of, counted};
use crate::run::model::Report;
use crate::run::model::breakdown::{Breakdown, GroupCell};
use crate::run::model::fold;
use crate::run::model::lineage::{ArtifactRow, Lineage, WorkloadLineage};
use crate::run::model::load::Load;
use crate::run::model::section::{CaseSection, PointSection, Row};
use crate::run::model::sentence::Sentence;
use crate::run::model::serving;

/// Maximum number of sentences; the tables have the rest.
const MAX_SENTENCES: usize = 12;

/// Maximum size of tables and remarks, in bytes: forges show files of half a mebibyte and stop far above. Rows beyond it are counted.
const MAX_TABLES: usize = 400_000;

impl Report {
    /// Returns the report as Markdown with tables (GitHub's dialect, which others read too).
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}: run {}\n\n", escape(&self.pipeline), code(self.run_id.as_str()));
        for text in [&self.overview.completeness, &self.overview.setting, &self.overview.certainty] {
            let _ = writeln!(out, "{}\n", prose(text));
        }
        sentences(&mut out, &self.sentences);
        let abbreviations = serving::abbreviations(&self.cases);
        if !abbreviations.is_empty() {
            let _ = writeln!(out, "\n{}.", escape(&abbreviations));
        }
        strip(&mut out, self);
        results(&mut out, self);
        why_worse(&mut out, self);
        evidence(&mut out, self);
        fine_print(&mut out, self);
        out
    }
}

fn sentences(out: &mut String, sentences: &[Sentence]) {
    for sentence in sentences.iter().take(MAX_SENTENCES) {
        let _ = match &sentence.number {
            Some(number) => writeln!(
                out,
                "- {} **{}** {}, {}",
                escape(&sentence.metric),
                escape(number),
                escape(&sentence.interval),
                escape(&sentence.rest)
            ),
            None => writeln!(out, "- {}", escape(&sentence.to_string())),
        };
    }
    let more = sentences.len().saturating_sub(MAX_SENTENCES);
    if more > 0 {
        let _ = writeln!(out, "- … and {more} more in the tables below");
    }
}

fn strip(out: &mut String, report: &Report) {
    out.push_str("\n| | state | |\n| --- | --- | --- |\n");
    for item in &report.strip {
        let headline = if item.caution { format!("⚠ {}", prose(&item.headline)) } else { prose(&item.headline) };
        let details: Vec<_> = item.first_details().map(|detail| prose(&detail)).collect();
        let _ = writeln!(out, "| {} | {headline} | {} |", item.label, details.join("<br>"));
    }
}

fn results(out: &mut String, report: &Report) {
    out.push_str("\n## Results\n");
    let end = out.len() + MAX_TABLES;
    let mut left_out = 0;
    for case in &report.cases {
        left_out += if case.serving.is_some() { serving_table(out, case, end) } else { case_table(out, case, end) };
    }
    if left_out > 0 {
        let _ = writeln!(out, "\n{} left out here; `numbers.json` has all of them.", counted(left_out as u64, "more row"));
    }
    if let Some(address) = report.example_address() {
        let _ = writeln!(
            out,
            "\nA row's address is {}; trace one with {}.",
            code(&format!("{}/{}/<row>/value", report.run_id, Address::TABLE)),
            code(&report.trace_command(address))
        );
    }
}

/// Writes why the candidate is worse, if it is.
fn why_worse(out: &mut String, report: &Report) {
    let Some(why) = &report.why_worse else { return };
    let _ = writeln!(out, "\n## Why it is worse\n\n{}\n", escape(&why.headline()));
    let command = code(&report.explain_command());
    let WhyWorse::Explained(explained) = why else {
        let _ = writeln!(out, "{command} reads them.");
        return;
    };
    let _ = writeln!(out, "{}. {command} makes it again, by the rules of the Assay that you have.", escape(&explained.between()));
    for Section { title, lines, .. } in explained.brief_sections() {
        let _ = writeln!(out, "\n**{}**\n", escape(&title));
        for Line { label, text } in lines {
            let label = if label.is_empty() { String::new() } else { format!("*{label}*: ") };
            let _ = writeln!(out, "- {label}{}", prose(&text));
        }
    }
    let _ = writeln!(out, "\n{}", escape(&explained.notes().join(" ")));
}

/// Writes the case's rows until `end`, and returns the number of rows that did not fit.
fn case_table(out: &mut String, case: &CaseSection, end: usize) -> usize {
    let rows: Vec<_> = case.groups().into_iter().flat_map(|group| group.rows).collect();
    let _ = writeln!(out, "\n### {}\n", code(case.case_id.as_str()));
    out.push_str("| metric | point | median | unit | interval | n | excluded | CV | stability | row |\n");
    out.push_str("| --- | --- | ---: | --- | --- | ---: | ---: | ---: | --- | --- |\n");
    let fitting = rows.iter().take_while(|(point, row)| {
        let fits = out.len() < end;
        if fits {
            table_row(out, point, row);
        }
        fits
    });
    let shown = fitting.count();
    write_remarks(out, case, end);
    rows.len() - shown
}

/// Writes a row for each load until `end`, and returns the number of rows that did not fit.
fn serving_table(out: &mut String, case: &CaseSection, end: usize) -> usize {
    let columns = serving::columns(case);
    let _ = writeln!(out, "\n### {}\n", code(case.case_id.as_str()));
    if let Some(work) = &case.serving {
        let _ = writeln!(out, "{}; {}.\n", escape(&work.summary()), escape(&work.arrivals));
    }
    let titles: Vec<_> = columns.iter().map(|column| serving::title_with_unit(column)).collect();
    let _ = writeln!(out, "| load | trials | ok | failed | {} | SLOs |", titles.join(" | "));
    let _ = writeln!(out, "| --- | ---: | ---: | ---: | {}--- |", "---: | ".repeat(columns.len()));
    let mut shown = 0;
    for point in &case.points {
        if out.len() < end {
            serving_row(out, point, &columns);
            shown += 1;
        }
    }
    write_remarks(out, case, end);
    Breakdown::all_of(case).for_each(|table| breakdown(out, &table, end));
    case.points.len() - shown
}

/// Writes TTFT by groups of requests until `end`.
fn breakdown(out: &mut String, table: &Breakdown<'_>, end: usize) {
    let groups: Vec<String> = table.groups.iter().map(|group| escape(group)).collect();
    let _ = writeln!(out, "\n{}, p50 / p99 in ms:\n\n| load | {} |", table.title, groups.join(" | "));
    let _ = writeln!(out, "| --- |{}", " ---: |".repeat(groups.len()));
    for (label, cells) in &table.loads {
        if out.len() < end {
            let cells: Vec<String> =
                cells.iter().map(|cell| cell.as_ref().map_or_else(|| "—".to_owned(), GroupCell::describe)).collect();
            let _ = writeln!(out, "| {} | {} |", escape(label), cells.join(" | "));
        }
    }
}

/// Writes the remarks on a case until `end`, each folded one with the texts that it stands for.
fn write_remarks(out: &mut String, case: &CaseSection, end: usize) {
    let folded = fold::fold_case(case);
    if !folded.is_empty() {
        out.push('\n');
    }
    for remark in &folded {
        if out.len() >= end {
            return;
        }
        let text = prose(remark.report_text());
        if remark.full_texts.is_empty() {
            let _ = writeln!(out, "- {text}");
            continue;
        }
        let _ = writeln!(out, "- {text}\n  <details><summary>{}</summary>\n", all_of(remark.full_texts.len() as u64, "remark"));
        for text in &remark.full_texts {
            if out.len() < end {
                let _ = writeln!(out, "  - {}", prose(text));
            }
        }
        out.push_str("\n  </details>\n");
    }
}

fn serving_row(out: &mut String, point: &PointSection, columns: &[&serving::Column]) {
    let load = point.serving.as_ref();
    let cell = |column: &&serving::Column| match point.row(column.text).map(|row| &row.measured) {
        Some(Ok(found)) => {
            let interval = found.interval.as_ref().map_or_else(|_| "no interval".to_owned(), |ends| escape(&ends.text));
            let twin = match serving::twin(point, column).map(|row| &row.measured) {
                Some(Ok(found)) => format!("<br>with failures {}", found.median_text),
                Some(Err(_)) => "<br>with failures absent".to_owned(),
                None => String::new(),
            };
            format!("{}<br>{interval}{twin}", found.median_text)
        }
        Some(Err(_)) | None => "absent".to_owned(),
    };
    let cells: Vec<_> = columns.iter().map(cell).collect();
    let count = |of: fn(&Load) -> u64| load.map_or_else(|| "—".to_owned(), |load| grouped(of(load)));
    let slos = match load.and_then(|load| load.slo_met) {
        Some(true) => "met",
        Some(false) => "missed",
        None => "—",
    };
    let _ = writeln!(
        out,
        "| {} | {}/{} | {} | {} | {} | {slos} |",
        escape(&point.label),
        point.counted,
        point.planned,
        count(|load| load.ok),
        count(Load::failed),
        cells.join(" | ")
    );
}

fn table_row(out: &mut String, point: &PointSection, row: &Row) {
    let (label, metric, unit) = (escape(&point.label), escape(&row.metric), escape(&row.unit));
    let _ = match &row.measured {
        Ok(measured) => writeln!(
            out,
            "| {metric} | {label} | {} | {unit} | {} | {}/{} | {} | {} | {} | {} |",
            measured.median_text,
            measured.interval.as_ref().map_or_else(|_| "none".to_owned(), |ends| escape(&ends.text)),
            measured.n,
            point.planned,
            point.excluded,
            measured.cv.as_deref().unwrap_or("—"),
            measured.stability,
            code(measured.address.row())
        ),
        Err(_) => {
            writeln!(out, "| {metric} | {label} | absent | {unit} | — | 0/{} | {} | — | — | — |", point.planned, point.excluded)
        }
    };
}

fn evidence(out: &mut String, report: &Report) {
    let lineage = &report.lineage;
    out.push_str("\n## Evidence\n\n");
    for (label, text) in chain(lineage) {
        let _ = writeln!(out, "- {label}: {}", code(&text));
    }
    artifacts(out, "Curated files", &lineage.files);
    warehouse(out, lineage);
    for workload in &lineage.workloads {
        workload_block(out, workload);
    }
    signatures(out, lineage);
    let _ = writeln!(out, "\n### Check it\n\n{}\n", prose(report.location_note()));
    let trace = report.example_address().map(|address| report.trace_command(address));
    let cosign = lineage.signatures.iter().map(|signature| signature.command.clone());
    let commands: Vec<_> = std::iter::once(report.verify_command()).chain(trace).chain(cosign).collect();
    out.push_str(&block("sh", &commands.join("\n")));
}

/// Writes the versions of the warehouse's tables, and the queries that select numbers.
fn warehouse(out: &mut String, lineage: &Lineage) {
    if !lineage.snapshot.is_empty() {
        let versions: Vec<_> = lineage.snapshot.iter().map(|(table, version)| format!("{} {version}", code(table))).collect();
        let _ = writeln!(out, "\nIn the warehouse at versions: {}.", versions.join(", "));
    }
    for query in &lineage.queries {
        let (path, result) = (code(&query.path), code(&query.result));
        let rows = counted(query.rows, "row");
        let _ = writeln!(out, "\n### Query {path}\n\n{rows} in {result}; {}", code(&query.digest));
        if let Some(text) = &query.text {
            let _ = writeln!(out, "\n<details><summary>Its text</summary>\n\n{}\n</details>", block("sql", text));
        }
    }
}

/// Returns the steps that all numbers share, from the row back to the commit.
fn chain(lineage: &Lineage) -> Vec<(&'static str, String)> {
    let mut steps: Vec<(&'static str, String)> = Vec::new();
    steps.extend(lineage.summary_digest.iter().map(|digest| ("Summary", digest.clone())));
    steps.push(("Collection", lineage.collection_digest.clone()));
    steps.push(("raw evidence", lineage.evidence.digest.clone()));
    steps.push(("plan", lineage.plan_digest.clone()));
    steps.extend(lineage.source.iter().cloned());
    steps.extend(lineage.trust_policy.iter().map(|(name, digest)| ("trust policy", format!("{name} {digest}"))));
    steps
}

fn artifacts(out: &mut String, title: &str, rows: &[ArtifactRow]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n### {title}\n\n| name | size | digest |\n| --- | ---: | --- |");
    for row in rows {
        let _ = writeln!(out, "| {} | {} | {} |", escape(&row.name), row.size, code(&row.digest));
    }
}

fn workload_block(out: &mut String, workload: &WorkloadLineage) {
    artifacts(out, &format!("Workload {}", code(&workload.name)), &workload.pinned);
    let _ = writeln!(out, "\n<details><summary>Frozen spec, {}</summary>\n", workload.spec_digest);
    out.push_str(&match &workload.spec {
        Some(spec) => block("json", spec),
        None => "The text of the spec was not given to this report.\n".to_owned(),
    });
    out.push_str("\n</details>\n");
}

fn signatures(out: &mut String, lineage: &Lineage) {
    out.push_str("\n### Signatures\n\n| stage | signer | key | manifest |\n| --- | --- | --- | --- |\n");
    for signature in &lineage.signatures {
        let (signer, key) = (escape(&signature.signer), code(&signature.key));
        let _ = writeln!(out, "| {} | {signer} | {key} | {} |", signature.stage, code(&signature.manifest));
    }
    if lineage.signatures_left_out > 0 {
        let more = counted(lineage.signatures_left_out as u64, "more signature");
        let _ = writeln!(out, "\n`assay verify` lists {more}.");
    }
}

fn fine_print(out: &mut String, report: &Report) {
    out.push_str("\n## Fine print\n\n");
    for item in &report.fine_print {
        let _ = writeln!(out, "- **{}**: {}", item.label, prose(&item.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fixture;

    #[test]
    fn the_whole_document() {
        insta::assert_snapshot!(fixture::report().markdown());
    }

    #[test]
    fn a_serving_case_is_one_table() {
        let text = fixture::serving::small().report().markdown();
        insta::assert_snapshot!(text.split_once("## Results").expect("results").1.split_once("## Evidence").expect("evidence").0);
    }

    #[test]
    fn a_table_beyond_its_budget_says_how_much_is_missing() {
        let text = fixture::many_points(4_000).markdown();
        assert!(text.len() < MAX_TABLES + 100_000, "{}", text.len());
        assert!(text.contains("more rows left out here"), "{}", &text[text.len() - 3_000..]);
    }
}
