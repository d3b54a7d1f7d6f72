//! The report as one HTML page: no scripts, no requests, readable from a phone to a wall display, on paper and by a screen reader.
//!
//! Any number is a link to its lineage, a panel that the URL's fragment opens (`:target`). The lineage of a number can so be shared as
//! a URL, and works wherever style sheets do. Without style sheets the panels are the page's last section.

pub(crate) mod axis;
pub(crate) mod figure;
mod panel;
pub(crate) mod plot;
mod serving;
mod serving_table;
mod table;
pub(crate) mod writer;

use writer::Writer;

use crate::Report;
use crate::environment::{FactRow, Facts};
use crate::lineage::{ArtifactRow, Lineage, WorkloadLineage};
use crate::model::Sentence;
use crate::strip::StripItem;
use crate::text::counted;

/// A space as wide as a tabular digit.
const FIGURE_SPACE: char = '\u{2007}';
/// A space as wide as a decimal point.
const PUNCTUATION_SPACE: char = '\u{2008}';

/// Maximum number of sentences; the table has the rest.
const MAX_SENTENCES: usize = 12;

/// The target size of the page, in bytes: it opens at once, and the last row, however long, does not take it over two megabytes.
pub(crate) const MAX_PAGE: usize = 1_900_000;

/// Maximum size of workloads with their artifacts and specs, in bytes; beyond it, workloads have only their digest and a note.
const MAX_WORKLOADS: usize = 300_000;

/// The size of the short panel of a linked number, in bytes.
const LINKED_PANEL_BYTES: usize = 1_000;

const SPEC_LEFT_OUT: &str = "The text of the spec is not part of this page; its digest is.";

/// The page's content security policy: nothing may be fetched, nothing may run.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

impl Report {
    /// Returns the report as a self-contained HTML page, below two megabytes for a thousand points.
    pub fn html(&self) -> String {
        let mut page = Writer::doctype();
        page.element("html", &[("lang", "en")], |page| {
            let title = format!("{}: run {}", self.pipeline, self.run_id);
            page.element("head", &[], |page| head(page, &title, include_str!("style.css")));
            page.element("body", &[], |page| self.body(page));
        });
        page.newline();
        page.finish()
    }

    fn body(&self, page: &mut Writer) {
        // Written first, so that the tables know how much room is left.
        let mut below = Writer::default();
        section(&mut below, "evidence", "Evidence", |page| self.evidence(page));
        section(&mut below, "fine-print", "Fine print", |page| self.fine_print(page));
        let mut panels = panel::Panels::default();
        page.element("main", &[], |page| {
            self.header(page);
            section(page, "state", "State", |page| page.element("dl", &[("class", "strip-items")], |page| self.state(page)));
            if self.cases.iter().any(|case| case.serving.is_some()) {
                section(page, "throughput", "Throughput against latency", |page| serving::throughput_figures(page, self));
                section(page, "distributions", "Distributions", |page| serving::distribution_figures(page, self));
            }
            section(page, "trials", "Trials", |page| {
                let mut figures = Writer::default();
                figure::figures(&mut figures, self);
                page.append(figures);
            });
            if serving::has_timelines(self) {
                section(page, "requests", "Requests in time", |page| serving::timeline_figures(page, self));
            }
            let room = MAX_PAGE.saturating_sub(page.len() + below.len() + page.links().len() * LINKED_PANEL_BYTES);
            section(page, "results", "Results", |page| table::tables(page, &mut panels, self, room));
            page.append(below);
        });
        panels.write_missing(self, page.links());
        page.element("aside", &[("aria-label", "Lineage of each number")], |page| page.append(panels.into_page()));
    }

    fn header(&self, page: &mut Writer) {
        page.element("header", &[], |page| {
            theme(page);
            page.element("p", &[("class", "eyebrow")], |page| {
                page.text("Run ");
                page.leaf("code", &[], self.run_id.as_str());
            });
            page.leaf("h1", &[], &self.pipeline);
            page.element("ul", &[("class", "sentences")], |page| {
                for sentence in self.sentences.iter().take(MAX_SENTENCES) {
                    page.element("li", &[], |page| write_sentence(page, sentence));
                }
            });
            let more = self.sentences.len().saturating_sub(MAX_SENTENCES);
            if more > 0 {
                page.element("p", &[("class", "quiet")], |page| {
                    page.text(&format!("And {more} more in the "));
                    page.leaf("a", &[("href", "#results")], "table");
                    page.text(".");
                });
            }
        });
    }

    fn state(&self, page: &mut Writer) {
        for item in &self.strip {
            strip_item(page, item);
        }
    }

    fn evidence(&self, page: &mut Writer) {
        page.element("p", &[], |page| {
            page.text("Every number above walks back by digest and signature to the bytes that it came from. ");
            page.prose(self.location_note());
        });
        page.leaf("h3", &[("id", "check")], "Check it");
        let trace = self.example_address().map(|address| self.trace_command(address));
        for command in std::iter::once(self.verify_command()).chain(trace) {
            command_line(page, &command);
        }
        page.leaf("h3", &[("id", "source")], "Source");
        pairs(page, self.lineage.source.iter().map(|(label, text)| (*label, text.as_str(), Typeface::Code)));
        write_workloads(page, &self.lineage);
        page.leaf("h3", &[("id", "files")], "Curated files");
        artifacts(page, &self.lineage.files);
        write_warehouse(page, &self.lineage);
        signatures(page, &self.lineage);
        for facts in &self.facts {
            write_facts(page, facts);
        }
    }

    fn fine_print(&self, page: &mut Writer) {
        page.element("dl", &[("class", "fine")], |page| {
            for item in &self.fine_print {
                page.leaf("dt", &[], item.label);
                page.element("dd", &[], |page| page.prose(&item.text));
            }
        });
    }
}

/// Writes the page's head: title, style sheet, and the policy that forbids fetching and running anything.
pub(crate) fn head(page: &mut Writer, title: &str, css: &'static str) {
    page.void("meta", &[("charset", "utf-8")]);
    page.void("meta", &[("http-equiv", "Content-Security-Policy"), ("content", POLICY)]);
    page.void("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    page.void("meta", &[("name", "color-scheme"), ("content", "light dark")]);
    page.leaf("title", &[], title);
    page.style(css);
}

/// Writes the choice of the light or dark theme: the system's, or the reader's by radio buttons, which need no script.
pub(crate) fn theme(page: &mut Writer) {
    page.element("fieldset", &[("class", "theme")], |page| {
        page.leaf("legend", &[], "Theme");
        for (id, name) in [("theme-auto", "Auto"), ("theme-light", "Light"), ("theme-dark", "Dark")] {
            page.element("label", &[("for", id)], |page| {
                let attributes = [("type", "radio"), ("name", "theme"), ("id", id)];
                match id {
                    "theme-auto" => page.void("input", &[attributes[0], attributes[1], attributes[2], ("checked", "")]),
                    _ => page.void("input", &attributes),
                }
                page.text(name);
            });
        }
    });
}

pub(crate) fn section(page: &mut Writer, id: &str, title: &str, inside: impl FnOnce(&mut Writer)) {
    page.newline();
    page.element("section", &[("id", id)], |page| {
        page.leaf("h2", &[], title);
        inside(page);
    });
}

fn write_sentence(page: &mut Writer, sentence: &Sentence) {
    let (Some(number), Some(address)) = (&sentence.number, &sentence.address) else {
        page.text(&sentence.to_string());
        return;
    };
    page.links_to(address.row());
    page.text(&sentence.metric);
    page.text(" ");
    page.leaf("a", &[("class", "number headline"), ("href", &format!("#r-{}", address.row()))], number);
    page.text(" ");
    page.leaf("span", &[("class", "interval-text")], &sentence.interval);
    page.leaf("span", &[("class", "rest")], &format!(", {}", sentence.rest));
}

/// Writes an item of the strip. A caution has a mark and its own words; the colour only repeats them.
pub(crate) fn strip_item(page: &mut Writer, item: &StripItem) {
    let class = if item.caution { "item caution" } else { "item" };
    page.element("div", &[("class", class)], |page| {
        page.leaf("dt", &[], item.label);
        page.element("dd", &[], |page| {
            page.element("p", &[("class", "headline")], |page| {
                if item.caution {
                    page.leaf("span", &[("class", "mark"), ("role", "img"), ("aria-label", "caution")], "!");
                }
                page.prose(&item.headline);
            });
            for detail in &item.details {
                page.element("p", &[("class", "quiet")], |page| page.prose(detail));
            }
        });
    });
}

/// Writes a command to copy: one click selects all of it.
pub(crate) fn command_line(page: &mut Writer, command: &str) {
    page.element("pre", &[("class", "command"), ("tabindex", "0")], |page| page.leaf("code", &[], command));
}

/// The typography of a value: words, or characters to compare one by one.
#[derive(Clone, Copy)]
enum Typeface {
    Text,
    Code,
}

fn pairs<'a>(page: &mut Writer, pairs: impl IntoIterator<Item = (&'a str, &'a str, Typeface)>) {
    page.element("dl", &[("class", "pairs")], |page| {
        for (label, text, face) in pairs {
            page.leaf("dt", &[], label);
            match face {
                Typeface::Text => page.element("dd", &[], |page| page.prose(text)),
                Typeface::Code => page.element("dd", &[], |page| page.leaf("code", &[], text)),
            }
        }
    });
}

/// Writes the workloads, those beyond [`MAX_WORKLOADS`] with their digest only.
fn write_workloads(page: &mut Writer, lineage: &Lineage) {
    let start = page.len();
    for workload in &lineage.workloads {
        page.leaf("h3", &[("id", &format!("w-{}", workload.name))], &format!("Workload {}", workload.name));
        let limit = workload.time_limit.as_deref().map(|limit| ("time limit", limit, Typeface::Text));
        let digests = [("spec", workload.spec_digest.as_str(), Typeface::Code), ("seed", &workload.seed, Typeface::Code)];
        pairs(page, digests.into_iter().chain(limit));
        let mut piece = Writer::default();
        write_spec(&mut piece, workload);
        if page.len() - start + piece.len() < MAX_WORKLOADS {
            page.append(piece);
        } else {
            page.leaf("p", &[("class", "quiet")], SPEC_LEFT_OUT);
        }
    }
}

fn write_spec(page: &mut Writer, workload: &WorkloadLineage) {
    artifacts(page, &workload.pinned);
    match &workload.spec {
        Some(spec) => page.element("details", &[], |page| {
            page.leaf("summary", &[], "The spec as it was frozen");
            page.element("pre", &[("tabindex", "0")], |page| page.leaf("code", &[], spec));
        }),
        None => page.leaf("p", &[("class", "quiet")], SPEC_LEFT_OUT),
    }
}

/// Writes the versions of the warehouse's tables, and the queries that select numbers.
fn write_warehouse(page: &mut Writer, lineage: &Lineage) {
    if !lineage.snapshot.is_empty() {
        page.leaf("h3", &[("id", "warehouse")], "Warehouse");
        page.leaf("p", &[], "The curated files are in these versions of the tables:");
        pairs(page, lineage.snapshot.iter().map(|(table, version)| (table.as_str(), version.as_str(), Typeface::Text)));
    }
    if lineage.queries.is_empty() {
        return;
    }
    page.leaf("h3", &[("id", "queries")], "Queries");
    for query in &lineage.queries {
        page.element("details", &[], |page| {
            page.leaf("summary", &[], &format!("{}: {} in {}", query.path, counted(query.rows, "row"), query.result));
            pairs(page, [("digest", query.digest.as_str(), Typeface::Code)]);
            if let Some(text) = &query.text {
                page.element("pre", &[("tabindex", "0")], |page| page.leaf("code", &[], text));
            }
        });
    }
}

fn artifacts(page: &mut Writer, rows: &[ArtifactRow]) {
    if rows.is_empty() {
        return;
    }
    page.element("div", &[("class", "scroll")], |page| {
        page.element("table", &[("class", "wide-cells")], |page| {
            page.element("thead", &[], |page| {
                page.element("tr", &[], |page| {
                    page.leaf("th", &[("scope", "col")], "artifact");
                    page.leaf("th", &[("scope", "col"), ("class", "n")], "size");
                    page.leaf("th", &[("scope", "col")], "digest");
                });
            });
            page.element("tbody", &[], |page| rows.iter().for_each(|row| artifact(page, row)));
        });
    });
}

fn artifact(page: &mut Writer, row: &ArtifactRow) {
    page.element("tr", &[], |page| {
        page.leaf("td", &[], &row.name);
        page.leaf("td", &[("class", "n")], &row.size);
        page.element("td", &[], |page| page.leaf("code", &[("class", "digest")], &row.digest));
    });
}

fn signatures(page: &mut Writer, lineage: &Lineage) {
    page.leaf("h3", &[("id", "signatures")], "Signatures");
    match &lineage.trust_policy {
        Some((name, digest)) => {
            pairs(page, [("trust policy", name.as_str(), Typeface::Text), ("its digest", digest, Typeface::Code)]);
        }
        None => page.leaf(
            "p",
            &[],
            "No trust policy: the signatures are consistent with each other, but the signers are not established.",
        ),
    }
    for signature in &lineage.signatures {
        page.element("details", &[("class", "signature")], |page| {
            page.element("summary", &[], |page| {
                page.leaf("strong", &[], &signature.name);
                let role =
                    if signature.name == signature.stage.as_str() { String::new() } else { format!(" ({})", signature.stage) };
                page.text(&format!("{role} signed by {}", signature.signer));
            });
            let digests = [("key", &signature.key), ("manifest", &signature.manifest), ("bundle", &signature.bundle)];
            pairs(page, digests.map(|(label, digest)| (label, digest.as_str(), Typeface::Code)));
            command_line(page, &signature.command);
        });
    }
    if lineage.signatures_left_out > 0 {
        let more = counted(lineage.signatures_left_out as u64, "more signature");
        page.element("p", &[("class", "quiet")], |page| page.prose(&format!("`assay verify` lists {more}.")));
    }
}

fn write_facts(page: &mut Writer, facts: &Facts) {
    page.element("details", &[("class", "facts")], |page| {
        page.leaf("summary", &[], &format!("What is known of {}", facts.title));
        page.element("div", &[("class", "scroll")], |page| {
            page.element("table", &[("class", "wide-cells")], |page| {
                page.element("thead", &[], |page| {
                    page.element("tr", &[], |page| {
                        for title in ["fact", "value", "known by", "from"] {
                            page.leaf("th", &[("scope", "col")], title);
                        }
                    });
                });
                page.element("tbody", &[], |page| facts.rows.iter().for_each(|row| fact(page, row)));
            });
        });
    });
}

fn fact(page: &mut Writer, row: &FactRow) {
    page.element("tr", &[], |page| {
        page.leaf("th", &[("scope", "row")], &row.name);
        page.leaf("td", &[], row.value.as_deref().unwrap_or("—"));
        page.leaf("td", &[], row.source.as_str());
        page.leaf("td", &[("class", "quiet")], &row.how);
    });
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use crate::fixture;

    /// HTML elements without an end tag.
    const VOID: [&str; 2] = ["meta", "input"];

    /// The first character of a terminal's escape sequence.
    const ESCAPE: char = '\u{1b}';

    /// Returns the number of tags, if every element is closed in the right order.
    pub(crate) fn check_balance(html: &str) -> Result<usize, String> {
        let mut open: Vec<&str> = Vec::new();
        let mut seen = 0;
        // The style sheet is raw text and the only part of the page that is not markup.
        let (before, rest) = html.split_once("<style>").ok_or("no style sheet")?;
        let (css, after) = rest.split_once("</style>").ok_or("an open style sheet")?;
        if css.contains('<') {
            return Err("markup in the style sheet".to_owned());
        }
        for piece in before.split('<').chain(after.split('<')).filter(|piece| !piece.is_empty()) {
            let (tag, text) = piece.split_once('>').unwrap_or(("", piece));
            if text.contains('>') {
                return Err(format!("a bare > after `{tag}`"));
            }
            let name = tag.split(' ').next().unwrap_or_default();
            seen += 1;
            if let Some(closed) = name.strip_prefix('/') {
                match open.pop() {
                    Some(expected) if expected == closed => {}
                    other => return Err(format!("`{closed}` closes {other:?}")),
                }
            } else if !name.is_empty() && name != "!doctype" && !tag.ends_with('/') && !VOID.contains(&name) {
                open.push(name);
            }
        }
        if open.is_empty() { Ok(seen) } else { Err(format!("left open: {open:?}")) }
    }

    pub(crate) fn ids<'a>(html: &'a str, attribute: &'a str) -> Vec<&'a str> {
        html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn the_page_is_well_formed() {
        let tags = check_balance(&fixture::report().html()).expect("well formed");
        assert!(tags > 500, "{tags}");
        assert!(check_balance("<style></style><p><b></p></b>").is_err());
        assert!(check_balance("<style></style><p>").is_err());
    }

    #[test]
    fn every_link_inside_the_page_arrives_at_one_place() {
        let html = fixture::report().html();
        let targets = ids(&html, " id=\"");
        let unique: std::collections::BTreeSet<_> = targets.iter().collect();
        assert_eq!(unique.len(), targets.len(), "an id stands twice");
        let links = ids(&html, "href=\"#");
        assert!(links.len() > 20, "{}", links.len());
        for link in links {
            assert!(targets.contains(&link), "nothing is called {link}");
        }
    }

    #[test]
    fn every_number_of_the_table_opens_its_lineage() {
        let report = fixture::report();
        let html = report.html();
        for (_, _, row) in report.rows() {
            let Ok(measured) = &row.measured else { continue };
            let row = measured.address.row();
            assert!(html.contains(&format!("href=\"#r-{row}\"")), "{row}");
            assert!(html.contains(&format!("assay trace {}", measured.address)), "{row}");
        }
    }

    #[test]
    fn nothing_is_requested_and_nothing_runs() {
        let html = fixture::report().html();
        for forbidden in
            ["<script", "<link", "<img", "<iframe", " src=", "url(", "@import", "@font-face", " onload", "href=\"http"]
        {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn headings_nest() {
        let html = fixture::report().html();
        let mut before = 0;
        for level in html.split("<h").skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10)) {
            assert!(level <= before + 1, "h{level} after h{before}");
            before = level;
        }
        assert_eq!(html.matches("<h1").count(), 1);
    }

    #[test]
    fn a_serving_page_is_well_formed_and_every_link_arrives() {
        let html = fixture::serving::whole().report().html();
        check_balance(&html).expect("well formed");
        let targets = ids(&html, " id=\"");
        let unique: std::collections::BTreeSet<_> = targets.iter().collect();
        assert_eq!(unique.len(), targets.len(), "an id stands twice");
        for link in ids(&html, "href=\"#") {
            assert!(unique.contains(&link), "nothing is called {link}");
        }
        for forbidden in ["<script", "<link", "<img", " src=", "url(", "@import", "href=\"http"] {
            assert!(!html.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn every_number_of_serving_opens_its_lineage() {
        let report = fixture::serving::small().report();
        let html = report.html();
        let numbers: Vec<_> = report.rows().filter_map(|(_, _, row)| row.measured.as_ref().ok()).collect();
        assert!(numbers.len() > 40, "{}", numbers.len());
        for measured in numbers {
            assert!(html.contains(&format!("id=\"r-{}\"", measured.address.row())), "{}", measured.address);
        }
    }

    #[test]
    fn serving_pictures_say_what_they_show_and_what_they_do_not() {
        let model = fixture::serving::small();
        let timelines = model.views.iter().flat_map(|views| &views.points).filter_map(|view| view.timeline.as_ref());
        let failed = timelines.flat_map(|timeline| &timeline.shown).filter(|request| request.outcome != "ok").count();
        let html = model.report().html();
        assert!(html.contains("Not drawn: vllm at 128 streams: none of 5 trials counts (client_stalled × 5)"));
        assert!(html.contains("vllm: no counted trial"));
        assert!(html.contains("1.6 % failed"), "a curve ends at the share of failed requests");
        assert!(html.contains("SLO TTFT 500 ms"));
        assert!(html.contains("48 of 160 requests, thinned: 1 in 2 requests, and all failed ones; of those, evenly chosen"));
        assert_eq!(html.matches("class=\"failed\"").count(), failed, "a cross for each failed request");
        assert!(failed > 0);
        for picture in html.split("<svg role=\"img\"").skip(1) {
            let title = picture.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).expect("a title").0;
            assert!(title.len() > 10, "{title}");
        }
    }

    #[test]
    fn hollow_is_what_is_unstable_or_incomplete() {
        let mut model = fixture::serving::small();
        let hollow = |model: &fixture::Model| model.report().html().matches("class=\"mark hollow\"").count();
        assert_eq!(hollow(&model), 0);
        model.summary.points[0].trials_counted = 4;
        assert_eq!(hollow(&model), 3, "one for each of TTFT, TPOT and E2E");
    }

    #[test]
    fn a_thousand_loads_stay_under_two_megabytes_with_all_their_rows() {
        let html = fixture::serving::many(1_000).report().html();
        assert!(html.len() < 2_000_000, "{}", html.len());
        assert!(!html.contains("rows are left out"));
        assert_eq!(html.matches("<section id=\"p-0-").count(), 1_000);
        assert!(html.contains("12 of 1000 loads, evenly chosen."));
        assert!(html.contains("6 of 1000 loads, evenly chosen."));
        assert!(html.contains("Of more than 60 loads of a case, 60 evenly chosen ones are drawn."));
        check_balance(&html).expect("well formed");
        let targets: std::collections::BTreeSet<_> = ids(&html, " id=\"").into_iter().collect();
        for link in ids(&html, "href=\"#") {
            assert!(targets.contains(link), "nothing is called {link}");
        }
    }

    /// Returns a serving fixture in which every free text is `text`.
    fn serving_with_hostile_text(text: &str) -> crate::Report {
        let mut model = fixture::serving::small();
        let own = || text.to_owned();
        for work in model.plan.workloads.iter_mut().filter_map(|workload| workload.serving.as_mut()) {
            work.model = own();
        }
        for point in &mut model.summary.points {
            for metric in &mut point.metrics {
                metric.stability = assay_manifest::Stability::Unstable;
                metric.stability_reason = own();
            }
            for reason in point.excluded.iter_mut().flat_map(|excluded| &mut excluded.reasons) {
                (reason.code, reason.detail) = (own(), own());
            }
            if let Some(serving) = &mut point.serving {
                serving.outcomes.insert(own(), assay_manifest::Count(3));
                serving.latency_from = own();
                serving.absent.insert(own(), own());
                serving.absent.insert("e2e_ms_p99_with_failures".to_owned(), own());
            }
        }
        for view in model.views.iter_mut().flat_map(|views| &mut views.points) {
            for curve in &mut view.curves {
                curve.quantiles.insert(0, [f64::NAN, f64::INFINITY]);
            }
            if let Some(timeline) = &mut view.timeline {
                timeline.thinning = own();
                for request in &mut timeline.shown {
                    request.outcome = own();
                    request.end_ms = Some(f64::INFINITY);
                }
            }
        }
        for check in
            model.collection.trials.iter_mut().flat_map(|trial| &mut trial.attempts).flat_map(|tried| &mut tried.cross_checks)
        {
            check.what = own();
            check.agrees = false;
        }
        model.verified = Some(crate::Verification { level: own(), verifier: own() });
        model.report()
    }

    #[test]
    fn hostile_texts_of_serving_reach_no_rendering_as_markup() {
        let report = serving_with_hostile_text("</text></svg><script>alert(1)</script>\"' onload=x \u{1b}]0;owned\u{7}");
        let html = report.html();
        check_balance(&html).expect("well formed");
        assert!(!html.contains("<script"));
        assert!(html.contains("&lt;script&gt;"));
        assert!(!report.markdown().contains("<script"));
        for text in [report.terminal(100, false), report.markdown(), html] {
            assert!(!text.contains(['\u{1b}', '\u{7}']));
            assert!(!text.contains("NaN"));
        }
    }

    #[test]
    fn a_thousand_points_stay_under_two_megabytes_with_all_their_rows() {
        let html = fixture::many_points(1_000).html();
        assert!(html.len() < 2_000_000, "{}", html.len());
        assert_eq!(html.matches("class=\"lineage\"").count(), 1_000);
        assert!(html.contains("The first 40 of 1000 points are drawn."));
        assert!(!html.contains("rows are left out"));
        check_balance(&html).expect("well formed");
    }

    #[test]
    fn more_than_fits_is_left_out_aloud() {
        let html = fixture::many_points(5_000).html();
        assert!(html.len() < 2_000_000, "{}", html.len());
        assert!(html.contains("more rows left out to keep this page small; numbers.json has all of them."));
    }

    #[test]
    fn texts_of_any_length_keep_the_page_small() {
        let mut model = fixture::model();
        let long = "x".repeat(1_000_000);
        model.plan.pipeline.path.clone_from(&long);
        for spec in model.specs.values_mut() {
            spec.clone_from(&long);
        }
        for metric in model.summary.points.iter_mut().flat_map(|point| &mut point.metrics) {
            metric.stability_reason.clone_from(&long);
        }
        let html = model.report().html();
        assert!(html.len() < 300_000, "{}", html.len());
    }

    /// Returns a fixture in which every free text is `text`.
    fn with_hostile_text(text: &str) -> crate::Report {
        let mut model = fixture::model();
        let text = || text.to_owned();
        model.plan.pipeline.path = text();
        model.plan.source.repository = Some(text());
        model.plan.source.commit = Some(text());
        model.plan.order.seed = text();
        model.plan.claim = Some(assay_manifest::Claim { methodology: text(), representative: true, statement: text() });
        model.plan.unpinned.push(assay_manifest::UnpinnedInput { what: text(), reason: text() });
        for workload in &mut model.plan.workloads {
            workload.seed = text();
            for metric in &mut workload.metrics {
                metric.path = text();
                metric.unit = text();
            }
            for file in workload.indicator.iter_mut().flat_map(|work| &mut work.files) {
                file.origin = text();
            }
        }
        for point in model.plan.cases.iter_mut().flat_map(|case| &mut case.points) {
            point.value = std::iter::once((text(), text())).collect();
        }
        for control in &mut model.environment.controls {
            control.evidence = text();
        }
        for host in &mut model.environment.hosts {
            host.name = text();
            host.facts.cpu_model = assay_manifest::Fact::observed(text(), text());
            host.facts.virtualization = assay_manifest::Fact::unknown(text());
        }
        for software in &mut model.environment.software {
            software.name = text();
        }
        model.summary.issues.push(assay_manifest::Reason { code: text(), detail: text() });
        for file in &mut model.summary.files {
            file.artifact.name = text();
        }
        for point in &mut model.summary.points {
            for reason in point.excluded.iter_mut().flat_map(|excluded| &mut excluded.reasons) {
                reason.code = text();
                reason.detail = text();
            }
            for metric in &mut point.metrics {
                metric.metric = text();
                metric.unit = text();
                metric.stability_reason = text();
                metric.interval_absent = Some(text());
                if let Some(interval) = &mut metric.interval {
                    interval.method = text();
                }
                metric.rows = metric
                    .rows
                    .iter()
                    .map(|(statistic, row)| (if statistic == "median" { statistic.clone() } else { text() }, *row))
                    .collect();
            }
        }
        for shortfall in &mut model.grade.shortfalls {
            shortfall.rule = text();
            shortfall.found = text();
        }
        for signature in &mut model.signers {
            signature.name = text();
            signature.signer = text();
            signature.key_fingerprint = text();
        }
        model.trust_policy = model.trust_policy.map(|(_, digest)| (text(), digest));
        for spec in model.specs.values_mut() {
            *spec = text();
        }
        model.report()
    }

    #[test]
    fn hostile_texts_reach_no_rendering_as_markup() {
        let report = with_hostile_text("</code><script>alert(1)</script>\"' onload=x \u{1b}]0;owned\u{7}");
        let html = report.html();
        check_balance(&html).expect("well formed");
        assert!(!html.contains("<script"));
        assert!(html.contains("&lt;script&gt;"));
        for text in [report.terminal(100, false), report.markdown(), html] {
            assert!(!text.contains(['\u{1b}', '\u{7}']));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn no_text_opens_a_tag(text in "[<>&\"'`a-z/= \\-!\\[\\]\u{0}-\u{1f}\u{202e}]{0,24}") {
            let report = with_hostile_text(&text);
            let html = report.html();
            prop_assert!(check_balance(&html).is_ok(), "{:?}", check_balance(&html));
            // The tags are the fixture's own: as many as with a text that is harmless and has no code marks.
            if !text.contains('`') && !text.trim().is_empty() {
                let count = |html: &str| html.matches('<').count();
                // Its lines stay, because some places write each as an element of its own.
                let harmless: String = text.chars().map(|letter| if letter.is_ascii_graphic() { 'x' } else { letter }).collect();
                prop_assert!(count(&html).abs_diff(count(&with_hostile_text(&harmless).html())) <= 8, "{text:?}");
            }
            prop_assert!(!report.terminal(80, false).contains(ESCAPE));
            prop_assert!(!report.markdown().contains("<script"));
        }
    }
}
