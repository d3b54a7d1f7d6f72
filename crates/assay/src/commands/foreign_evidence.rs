//! Foreign evidence as `assay show` and `assay verify` print it. They find it by its digest.

use std::collections::BTreeMap;

use assay_foreign::RESULT_FORMATS;
use assay_import::{Reading, VerifiedForeignEvidence, find, public_key_beside, verify_foreign_evidence};
use assay_manifest::{ForeignEvidence, ForeignRow, InputRef, Kind, NotRead, RunId};
use assay_report::{counted, shell_word, significant};
use assay_runner::Config;
use assay_runs::{RunStore, establish, store_option};
use assay_stage::{AcceptedResult, ErrorCode, Exit, Failure, Layout};
use assay_store::Store;
use assay_verify::StoreBlobs;
use serde_json::{Value, json};

use crate::output;

/// The first line of everything that shows foreign evidence.
pub(super) const FIRST_LINE: &str = "foreign evidence: Assay measured none of it, and only its importer vouches for it";
/// The page that states how the metrics of other tools differ from those of Assay.
pub(super) const PAGE: &str = "docs/reference/foreign.md";
/// The number of fields that were not read that are shown.
const SHOWN_FIELDS: usize = 12;

/// Foreign evidence with the source of the trust that it was verified under.
pub(super) struct Opened {
    pub(super) evidence: VerifiedForeignEvidence,
    pub(super) blobs: StoreBlobs,
    trusted_by: String,
    store_uri: String,
}

/// Foreign evidence of a store that is not verified yet.
pub(crate) struct Located {
    pub(super) store: Store,
    pub(super) store_uri: String,
    pub(super) reference: InputRef,
    /// The name by which it was found; `None` if by its digest.
    pub(super) name: Option<RunId>,
}

/// Finds foreign evidence by its name or its digest.
pub(super) fn locate_named(place: &RunStore, name: &str) -> Result<Located, Failure> {
    let (store, store_uri) = (place.open_store()?, place.store_uri()?);
    if let Ok(name) = name.parse::<RunId>()
        && let Some(accepted) = AcceptedResult::read(&store, &Layout::foreign_evidence(&name))?
    {
        return Ok(Located { store, store_uri, reference: accepted.as_input(Kind::ForeignEvidence), name: Some(name) });
    }
    let reference = find(&store, name).map_err(|failure| match AcceptedResult::digits(name) {
        Some(_) => failure,
        None => Failure { message: format!("the store `{}` has no foreign evidence `{name}`", store.uri()), ..failure }
            .hint("`assay history --foreign` lists the foreign evidence of a store"),
    })?;
    Ok(Located { store, store_uri, reference, name: None })
}

/// Verifies foreign evidence of a store. Pointers are not signed, so evidence that was found by its name has to be the evidence of that name.
pub(super) fn open(place: &RunStore, Located { store, store_uri, reference, name }: Located) -> Result<Opened, Failure> {
    let blobs = StoreBlobs::new(store);
    let trust = establish(&place.trust, &Config::find()?, &blobs, &public_key_beside(&blobs, &reference)?)?;
    let evidence = verify_foreign_evidence(&blobs, reference, &trust.trust)?;
    let own = &evidence.manifest.header.run_id;
    if let Some(name) = name.filter(|name| name != own) {
        let message = format!("the pointer of the foreign evidence `{name}` leads to that of `{own}`");
        return Err(
            Failure::new(ErrorCode::PointerElsewhere, message).hint("remove the pointer, or put back the one that it replaced")
        );
    }
    Ok(Opened { evidence, blobs, trusted_by: trust.source, store_uri })
}

/// Shows foreign evidence of a store, verified before it is shown.
pub(crate) fn show(place: &RunStore, located: Located, as_json: bool) -> Result<Exit, Failure> {
    let opened = open(place, located)?;
    let VerifiedForeignEvidence { reference, manifest, .. } = &opened.evidence;
    if as_json {
        print_json(&manifest.body, &about(&opened))?;
    } else {
        evidence_lines(&manifest.body).into_iter().for_each(output::line);
        absent_lines(absent(&opened.evidence.reading)).into_iter().for_each(output::line);
        id_lines(&manifest.header.run_id, reference, &opened.store_uri).into_iter().for_each(output::line);
    }
    Ok(exit(&opened))
}

/// Verifies foreign evidence of a store, and reports what was checked.
pub(crate) fn verify(place: &RunStore, located: Located, strict: bool, as_json: bool) -> Result<Exit, Failure> {
    let opened = open(place, located)?;
    let VerifiedForeignEvidence { reference, manifest, signer, reading, .. } = &opened.evidence;
    let body = opened.evidence.body();
    if as_json {
        print_json(body, &about(&opened))?;
    } else {
        output::line(FIRST_LINE);
        output::line(format!("evidence {}", reference.manifest));
        output::line(format!("trust: {}", opened.trusted_by));
        output::line(format!("  ok  signed by {signer} for the role `import`"));
        match reading {
            Reading::Equal => {
                let (files, rows) = (counted(body.files.len() as u64, "file"), counted(body.rows.len() as u64, "number"));
                output::line(format!("  ok  {files} with the digests that the evidence states"));
                output::line(format!("  ok  {rows} read again from them, and equal"));
            }
            Reading::Absent(absent) => {
                for path in absent {
                    output::line(format!("  --  `{}` is absent: no number was read again", path.escape_debug()));
                }
            }
        }
    }
    match reading {
        Reading::Absent(absent) if strict => {
            let first = absent.first().map(|path| path.escape_debug().to_string()).unwrap_or_default();
            Err(Failure::new(ErrorCode::ArtifactAbsent, format!("`{first}` of the foreign evidence is absent"))
                .hint(put_back(&manifest.header.run_id)))
        }
        _ => Ok(exit(&opened)),
    }
}

/// Returns the hint for foreign evidence with an absent file.
pub(super) fn put_back(name: impl std::fmt::Display) -> String {
    format!("put its bytes back: `assay import results PATH --name {name}`, with the same files, stores them again")
}

fn exit(opened: &Opened) -> Exit {
    output::established(opened.evidence.established)
}

fn about(opened: &Opened) -> Value {
    let VerifiedForeignEvidence { reference, manifest, signer, established, reading } = &opened.evidence;
    json!({
        "name": manifest.header.run_id,
        "evidence": reference,
        "signer": signer,
        "established": established,
        "read_again": *reading == Reading::Equal,
        "absent": absent(reading),
    })
}

/// Returns the paths of the frozen files that are absent.
pub(super) fn absent(reading: &Reading) -> &[String] {
    match reading {
        Reading::Equal => &[],
        Reading::Absent(absent) => absent,
    }
}

pub(super) fn absent_lines(absent: &[String]) -> Vec<String> {
    let line = |path: &String| format!("absent  `{}`: no number was read again", path.escape_debug());
    absent.iter().map(line).collect()
}

/// Prints foreign evidence as one JSON document, with members that depend on the command.
pub(crate) fn print_json(evidence: &ForeignEvidence, about: &Value) -> Result<(), Failure> {
    let mut document = about.clone();
    if let Some(members) = document.as_object_mut() {
        members.insert("grade".to_owned(), json!("foreign"));
        members.insert("body".to_owned(), json!(evidence));
    }
    output::json(&document)
}

/// Returns the lines with the name and the digest of foreign evidence, and the command that verifies it.
pub(crate) fn id_lines(name: &RunId, reference: &InputRef, store_uri: &str) -> [String; 3] {
    let id = reference.manifest.to_string();
    let verify = format!("verify  assay verify {}{}", shell_word(&id), store_option(store_uri));
    [format!("name    {name}"), format!("id      {id}"), verify]
}

/// Returns the lines that show foreign evidence.
pub(crate) fn evidence_lines(evidence: &ForeignEvidence) -> Vec<String> {
    let of_samples = |rows: u64| format!(", {} of single requests or iterations", counted(rows, "row"));
    let samples = evidence.samples.as_ref().map(|samples| of_samples(samples.rows.0));
    let mut lines = vec![
        FIRST_LINE.to_owned(),
        format!(
            "{}: {}, {}{}",
            origin(evidence),
            counted(evidence.files.len() as u64, "file"),
            counted(evidence.rows.len() as u64, "number"),
            samples.unwrap_or_default()
        ),
        String::new(),
    ];
    lines.extend(table(&evidence.rows));
    lines.push(String::new());
    lines.extend(remark_lines(&evidence.remarks));
    lines.push(format!("metrics with a prefix are defined by the tool: {PAGE}#{}", evidence.format));
    for file in &evidence.files {
        lines.push(format!("file    {}  {}  {}", file.artifact.digest.short(), file.part, file.path.escape_debug()));
    }
    lines.extend(not_read_lines(&evidence.not_read));
    lines.extend(left_out_lines(&evidence.left_out));
    lines
}

/// Returns the lines of the remarks on the files of evidence.
pub(super) fn remark_lines(remarks: &[String]) -> Vec<String> {
    remarks.iter().map(|remark| format!("remark  {}", remark.escape_debug())).collect()
}

/// Returns the tool that measured with its version, and the format if it is one of several tools.
pub(super) fn origin(evidence: &ForeignEvidence) -> String {
    evidence.origin(tool_of_format(&evidence.format)).escape_debug().to_string()
}

/// Returns the name of the tool that measured.
pub(super) fn tool(evidence: &ForeignEvidence) -> &str {
    evidence.tool.as_deref().unwrap_or_else(|| tool_of_format(&evidence.format))
}

/// Returns the name of the tool of a format; an unknown format has no other name.
pub(super) fn tool_of_format(format: &str) -> &str {
    RESULT_FORMATS.iter().find(|known| known.name == format).map_or(format, |known| known.tool)
}

fn not_read_lines(not_read: &[NotRead]) -> Vec<String> {
    let values: u64 = not_read.iter().map(|field| field.count.0).fold(0, u64::saturating_add);
    let title = format!("not read: {} in {}", counted(values, "value"), counted(not_read.len() as u64, "place"));
    listed(title, not_read, |field| format!("  {}  {}: {}", field.count, field.field.escape_debug(), field.why))
}

/// Returns the lines that name the files of a folder that were not read.
fn left_out_lines(files: &[NotRead]) -> Vec<String> {
    let title = format!("left out: {}", counted(files.len() as u64, "file"));
    listed(title, files, |file| format!("  {}: {}", file.field.escape_debug(), file.why))
}

/// Returns a title with a line for each of the first of its items; nothing if there are none.
fn listed(title: String, items: &[NotRead], line: impl Fn(&NotRead) -> String) -> Vec<String> {
    if items.is_empty() {
        return Vec::new();
    }
    let more = items.len().saturating_sub(SHOWN_FIELDS);
    let more = (more > 0).then(|| format!("  and {more} more: `--json` lists all of them"));
    [title].into_iter().chain(items.iter().take(SHOWN_FIELDS).map(line)).chain(more).collect()
}

type Key<'a> = (&'a str, &'a str, &'a BTreeMap<String, String>);

/// Returns a table with a line for each metric with the same labels.
fn table(rows: &[ForeignRow]) -> Vec<String> {
    let mut order: Vec<Key<'_>> = Vec::new();
    let mut values: BTreeMap<Key<'_>, BTreeMap<&str, f64>> = BTreeMap::new();
    // The unit of a count is not that of its metric.
    let of_values = rows.iter().filter(|row| row.statistic != "count");
    let units: BTreeMap<_, &str> = of_values.map(|row| ((row.metric.as_str(), &row.labels), row.unit.as_str())).collect();
    for row in rows {
        let unit = units.get(&(row.metric.as_str(), &row.labels)).copied().unwrap_or(&row.unit);
        let key = (row.metric.as_str(), unit, &row.labels);
        values.entry(key).or_insert_with(|| {
            order.push(key);
            BTreeMap::new()
        });
        if let Some(of_key) = values.get_mut(&key) {
            of_key.insert(&row.statistic, row.value);
        }
    }
    let mut lines = vec![["METRIC", "UNIT", "VALUE OR MEAN", "P50", "P99", "N", "LABELS"].map(str::to_owned)];
    for key in order {
        let (metric, unit, labels) = key;
        let Some(found) = values.get(&key) else { continue };
        let cell = |names: &[&str]| {
            let value = names.iter().find_map(|name| found.get(name));
            value.map_or_else(|| "-".to_owned(), |value| significant(*value, None))
        };
        lines.push([
            metric.to_owned(),
            unit.to_owned(),
            cell(&["value", "mean"]),
            cell(&["p50"]),
            cell(&["p99"]),
            found.get("count").map_or_else(|| "-".to_owned(), f64::to_string),
            labels_text(labels),
        ]);
    }
    aligned(&lines)
}

pub(super) fn labels_text(labels: &BTreeMap<String, String>) -> String {
    let label = |(name, value): (&String, &String)| format!("{name}={}", value.escape_debug());
    labels.iter().map(label).collect::<Vec<_>>().join(", ")
}

pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
