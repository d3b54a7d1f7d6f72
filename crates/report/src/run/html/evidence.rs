//! The evidence behind a report's numbers: commands, source, workloads, files, queries, signatures, and facts of machines.

use crate::render::html::writer::Writer;
use crate::render::html::{Typeface, command_line, folded, pairs};
use crate::render::text::counted;
use crate::run::model::Report;
use crate::run::model::environment::{FactRow, Facts};
use crate::run::model::lineage::{ArtifactRow, Lineage, WorkloadLineage};

/// Maximum size of workloads with their artifacts and specs, in bytes; beyond it, workloads have only their digest and a note.
const MAX_WORKLOADS: usize = 300_000;

const SPEC_LEFT_OUT: &str = "The text of the spec is not part of this page; its digest is.";

impl Report {
    pub(super) fn evidence(&self, page: &mut Writer) {
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
        folded(page, "Workloads, files and queries", |page| {
            write_workloads(page, &self.lineage);
            page.leaf("h3", &[("id", "files")], "Curated files");
            artifacts(page, &self.lineage.files);
            write_warehouse(page, &self.lineage);
        });
        signatures(page, &self.lineage);
        for facts in &self.facts {
            write_facts(page, facts);
        }
    }
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
