//! Foreign evidence from import to import: `assay history --foreign` lists what a store has, and shows a metric of a tool with its change points.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use assay_foreign::{better_direction_of, is_level};
use assay_import::{ForeignHistory, ForeignValue, Piece, Repetition, SignedForeignEvidence, histories, in_order};
use assay_manifest::{Digest, InputRef, RunId};
use assay_report::counted;
use assay_report::history::{self, Subject};
use assay_runs::{RunStore, named_store};
use assay_spec::did_you_mean;
use assay_stage::{AcceptedResult, ErrorCode, Exit, Failure};
use assay_stats::change_point::DEFAULT_LEVEL;
use serde_json::{Value, json};

use crate::commands::foreign_evidence::{FIRST_LINE, aligned, tool, tool_of_format};
use crate::commands::history::{Changes, write};
use crate::commands::signed_evidence::{SignedEvidence, report_unknown_signers};
use crate::output;

/// The most metrics that a list shows.
const SHOWN_METRICS: usize = 40;

/// The most versions of a tool that the first line names.
const SHOWN_VERSIONS: usize = 4;

/// A call of `assay history --foreign`.
pub(super) struct ForeignHistoryRequest {
    /// Metrics, and names, beginnings of names and digests of evidence.
    pub(super) words: Vec<String>,
    pub(super) place: RunStore,
    pub(super) strict: bool,
    pub(super) html: Option<PathBuf>,
    pub(super) json: bool,
}

/// Shows the history of foreign metrics, or lists the evidence if no metric is named.
pub(super) fn run(request: &ForeignHistoryRequest) -> Result<Exit, Failure> {
    let store = request.place.open_store()?;
    let SignedEvidence { all, left_out } = SignedEvidence::read(&store, &request.place.trust, request.strict)?;
    report_unknown_signers(&left_out);
    let (metrics, names): (Vec<&str>, Vec<&str>) = request.words.iter().map(String::as_str).partition(|word| is_metric(word));
    let chosen = choose(&all, &names)?;
    let established = chosen.iter().all(|(_, signed)| signed.established);
    let pieces = chosen.iter().map(|(reference, signed)| piece(reference, signed)).collect();
    let (pieces, repeated) = in_order(pieces);
    if metrics.is_empty() {
        if request.html.is_some() {
            return Err(Failure::new(ErrorCode::NoHistory, "a list of evidence is no page").hint("name a metric before `--html`"));
        }
        list(request, &chosen, &pieces, &repeated, &left_out)?;
        return Ok(output::established(established));
    }
    repeated.iter().map(describe_repetition).for_each(output::diagnostic);
    let mut found = Vec::new();
    for metric in metrics {
        let of_metric = histories(&pieces, metric);
        if of_metric.is_empty() {
            return Err(no_history(metric, &pieces));
        }
        found.extend(of_metric);
    }
    let searched: Vec<history::Series> = found.iter().map(search).collect();
    show(request, &found, &searched, &repeated, &left_out)?;
    Ok(output::established(established))
}

/// Returns true for a word that is a metric: the name of a metric has a dot or an underscore, and that of evidence has neither.
fn is_metric(word: &str) -> bool {
    word.contains(['.', '_']) && !word.starts_with("sha256:")
}

type Signed = (InputRef, SignedForeignEvidence);

fn piece<'a>(reference: &InputRef, signed: &'a SignedForeignEvidence) -> Piece<'a> {
    Piece { name: &signed.manifest.header.run_id, id: reference.manifest, body: &signed.manifest.body }
}

/// Returns the evidence that one of the names is of; all without a name.
fn choose<'a>(all: &'a [Signed], names: &[&str]) -> Result<Vec<&'a Signed>, Failure> {
    let is_of = |(reference, signed): &Signed, name: &str| {
        let own = signed.manifest.header.run_id.as_str();
        let by_digest = || AcceptedResult::digits(name).is_some_and(|digits| reference.manifest.hex().starts_with(digits));
        own == name || name.strip_suffix('*').is_some_and(|beginning| own.starts_with(beginning)) || by_digest()
    };
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|signed| is_of(signed, name))) {
        let message = format!("the store has no foreign evidence `{unknown}`");
        let known = all.iter().map(|(_, signed)| signed.manifest.header.run_id.as_str());
        let near = did_you_mean(unknown, known).map(|near| format!("{near} ")).unwrap_or_default();
        return Err(Failure::new(ErrorCode::NoSuchForeignEvidence, message).hint(format!(
            "{near}`assay history --foreign` lists the evidence; a metric has a dot or an underscore, such as `vllm.ttft`"
        )));
    }
    Ok(all.iter().filter(|signed| names.is_empty() || names.iter().any(|name| is_of(signed, name))).collect())
}

fn describe_repetition(Repetition { name, of, path }: &Repetition) -> String {
    format!("left out: `{name}` holds the same file as `{of}` (`{}`), which is one observation", path.escape_debug())
}

fn no_history(metric: &str, pieces: &[Piece<'_>]) -> Failure {
    let rows = pieces.iter().flat_map(|piece| &piece.body.rows);
    let known: BTreeSet<&str> = rows.map(|row| row.metric.as_str()).collect();
    let near = did_you_mean(metric, known).map(|near| format!("{near} ")).unwrap_or_default();
    Failure::new(ErrorCode::NoHistory, format!("no foreign evidence that was read states `{metric}`")).hint(format!(
        "{near}`assay history --foreign` lists the metrics; a statistic follows after an underscore, such as `vllm.ttft_p99`"
    ))
}

/// Returns a history with its change points, as a report shows it.
fn search(found: &ForeignHistory) -> history::Series {
    let values: Vec<f64> = found.values.iter().map(|value| value.value).collect();
    let Changes { changes, ambiguous, newest_change } = Changes::search(&values, seed(found));
    let before = std::iter::once(None).chain(found.values.iter().map(Some));
    history::Series {
        subject: Subject::Foreign {
            tool: tool_of_format(&found.format).to_owned(),
            statistic: found.statistic.clone(),
            labels: found.labels.clone(),
        },
        metric: found.metric.clone(),
        unit: found.unit.clone(),
        better: better_direction_of(&found.metric, &found.unit, &found.labels).filter(|_| is_level(&found.statistic)),
        runs: found.values.iter().zip(before).map(|(value, before)| as_run(value, before)).collect(),
        changes,
        ambiguous,
        newest_change,
        other_work: found.without_statistic as u64,
    }
}

fn as_run(value: &ForeignValue, before: Option<&ForeignValue>) -> history::Run {
    history::Run {
        id: value.name.to_string(),
        value: value.value,
        started: Some(value.imported_at),
        commit: None,
        hardware_changed: false,
        software_changed: false,
        pipeline_changed: false,
        tool_changed: before.is_some_and(|before| before.tool_version != value.tool_version || before.tool != value.tool),
        address: None,
        evidence: Some(value.id),
    }
}

/// Returns the seed of permutations. It begins as that of no series of runs does.
fn seed(found: &ForeignHistory) -> [u8; 32] {
    let ForeignHistory { format, metric, statistic, unit, labels, .. } = found;
    *Digest::compute(json!(["foreign", format, metric, statistic, unit, labels]).to_string().as_bytes()).as_bytes()
}

/// Returns the first line: the tools that measured the values, with their versions.
fn origin(found: &[ForeignHistory]) -> String {
    let mut tools: BTreeMap<(&str, String), BTreeSet<Option<&str>>> = BTreeMap::new();
    for history in found {
        for value in &history.values {
            tools.entry(tool_and_format(&history.format, value)).or_default().insert(value.tool_version.as_deref());
        }
    }
    let of_tool = |((tool, format), versions): (&(&str, String), &BTreeSet<Option<&str>>)| {
        if versions.iter().all(Option::is_none) {
            return format!("{tool} of a version that its files do not state{format}");
        }
        let mut named: Vec<String> =
            versions.iter().flatten().take(SHOWN_VERSIONS).map(|version| (*version).to_owned()).collect();
        if let Some(more) = versions.iter().flatten().count().checked_sub(SHOWN_VERSIONS).filter(|more| *more > 0) {
            named.push(counted(more as u64, "more version"));
        }
        if versions.contains(&None) {
            named.push("a version that its files do not state".to_owned());
        }
        format!("{tool} {}{format}", named.join(" and "))
    };
    let tools: Vec<String> = tools.iter().map(of_tool).collect();
    format!("foreign: measured by {}, not by Assay", tools.join(", "))
}

/// Returns the tool that measured a value, and ` in FORMAT VERSION` if the format is one of several tools.
fn tool_and_format<'a>(format: &'a str, value: &'a ForeignValue) -> (&'a str, String) {
    let known = tool_of_format(format);
    let format = value.format_version.as_ref().map_or_else(String::new, |version| format!(" in {known} {version}"));
    (value.tool.as_deref().unwrap_or(known), format)
}

fn show(
    request: &ForeignHistoryRequest,
    found: &[ForeignHistory],
    searched: &[history::Series],
    repeated: &[Repetition],
    left_out: &[(InputRef, Failure)],
) -> Result<(), Failure> {
    let (uri, origin) = (request.place.store_uri()?, origin(found));
    let inputs = history::Inputs { series: searched, level: DEFAULT_LEVEL, store: named_store(&uri), origin: Some(&origin) };
    let report = history::Report::build(&inputs);
    if request.json {
        let histories: Vec<Value> = searched.iter().map(history::Series::document).collect();
        output::json(&json!({
            "about": origin, "grade": "foreign", "histories": histories,
            "repeated": repeated.iter().map(repetition_json).collect::<Vec<_>>(), "left_out": left_out_json(left_out),
        }))?;
    } else {
        output::report(report.terminal(output::width()));
        output::diagnostic(
            "each piece of evidence counts as one run of its tool, in the order of the imports; `assay verify` reads its files again",
        );
    }
    if let Some(file) = &request.html {
        write(file, &report.html())?;
        output::diagnostic(format!("wrote the history to {}", file.display()));
    }
    Ok(())
}

fn repetition_json(Repetition { name, of, path }: &Repetition) -> Value {
    json!({"evidence": name, "of": of, "path": path})
}

fn left_out_json(left_out: &[(InputRef, Failure)]) -> Vec<Value> {
    let one = |(reference, failure): &(InputRef, Failure)| json!({"id": reference.manifest, "code": failure.code.as_str(), "message": failure.message});
    left_out.iter().map(one).collect()
}

/// Lists the evidence, and the metrics of which there are histories.
fn list(
    request: &ForeignHistoryRequest,
    chosen: &[&Signed],
    pieces: &[Piece<'_>],
    repeated: &[Repetition],
    left_out: &[(InputRef, Failure)],
) -> Result<(), Failure> {
    let mut by_time: Vec<&Signed> = chosen.to_vec();
    by_time.sort_by_key(|(_, signed)| (signed.manifest.body.imported_at, &signed.manifest.header.run_id));
    let metrics = metrics(pieces);
    if request.json {
        return output::json(&json!({
            "about": FIRST_LINE, "grade": "foreign", "evidence": by_time.iter().map(|signed| evidence_json(signed)).collect::<Vec<_>>(),
            "metrics": metrics.iter().map(ListedMetric::json).collect::<Vec<_>>(),
            "repeated": repeated.iter().map(repetition_json).collect::<Vec<_>>(), "left_out": left_out_json(left_out),
        }));
    }
    output::line(FIRST_LINE);
    if by_time.is_empty() {
        output::line("the store has none: `assay import results FILE` imports results of another tool");
        return Ok(());
    }
    let mut rows = vec![["NAME", "TOOL", "VERSION", "IMPORTED", "NUMBERS", "SAMPLES", "ID"].map(str::to_owned)];
    rows.extend(by_time.iter().map(|signed| evidence_cells(signed)));
    aligned(&rows).into_iter().for_each(output::line);
    repeated.iter().map(describe_repetition).for_each(output::line);
    output::line("");
    let mut rows = vec![["METRIC", "UNIT", "TOOL", "HISTORIES", "LONGEST", "STATISTICS"].map(str::to_owned)];
    rows.extend(metrics.iter().take(SHOWN_METRICS).map(ListedMetric::cells));
    aligned(&rows).into_iter().for_each(output::line);
    if let Some(more) = metrics.len().checked_sub(SHOWN_METRICS).filter(|more| *more > 0) {
        output::line(format!("and {}: `--json` lists all of them", counted(more as u64, "more metric")));
    }
    output::line(
        "`assay history --foreign METRIC` shows one from import to import, of one statistic: the mean, or METRIC_STATISTIC",
    );
    Ok(())
}

fn evidence_cells((reference, signed): &Signed) -> [String; 7] {
    let body = &signed.manifest.body;
    [
        signed.manifest.header.run_id.to_string(),
        tool(body).escape_debug().to_string(),
        body.tool_version.as_deref().map_or_else(|| "-".to_owned(), |version| version.escape_debug().to_string()),
        body.imported_at.to_seconds(),
        body.rows.len().to_string(),
        body.samples.as_ref().map_or(0, |samples| samples.rows.0).to_string(),
        reference.manifest.short(),
    ]
}

fn evidence_json((reference, signed): &Signed) -> Value {
    let body = &signed.manifest.body;
    json!({
        "name": signed.manifest.header.run_id, "id": reference.manifest, "format": body.format, "format_version": body.format_version, "tool": tool(body),
        "tool_version": body.tool_version, "imported_at": body.imported_at, "signer": signed.signer, "established": signed.established,
        "files": body.files.len(), "numbers": body.rows.len(), "samples": body.samples.as_ref().map_or(0, |samples| samples.rows.0),
    })
}

/// A metric of which there are histories.
struct ListedMetric<'a> {
    metric: &'a str,
    unit: &'a str,
    tool: &'a str,
    statistics: BTreeSet<&'a str>,
    /// The number of histories: one for each set of labels.
    histories: usize,
    /// The number of values of the longest one.
    longest: usize,
}

impl ListedMetric<'_> {
    fn cells(&self) -> [String; 6] {
        [
            self.metric.to_owned(),
            if self.unit.is_empty() { "-".to_owned() } else { self.unit.to_owned() },
            self.tool.to_owned(),
            self.histories.to_string(),
            counted(self.longest as u64, "value"),
            self.statistics.iter().copied().collect::<Vec<_>>().join(", "),
        ]
    }

    fn json(&self) -> Value {
        let Self { metric, unit, tool, statistics, histories, longest } = self;
        json!({"metric": metric, "unit": unit, "tool": tool, "statistics": statistics, "histories": histories, "longest": longest})
    }
}

/// Returns the metrics of the pieces. The unit of a count is not that of its metric.
fn metrics<'a>(pieces: &[Piece<'a>]) -> Vec<ListedMetric<'a>> {
    type Labels<'a> = BTreeMap<&'a BTreeMap<String, String>, BTreeSet<&'a RunId>>;
    let mut all: BTreeMap<(&str, &str, &str), (Labels<'_>, BTreeSet<&str>)> = BTreeMap::new();
    for piece in pieces {
        for row in piece.body.rows.iter().filter(|row| row.statistic != "count") {
            let (labels, statistics) = all.entry((&row.metric, &piece.body.format, &row.unit)).or_default();
            labels.entry(&row.labels).or_default().insert(piece.name);
            statistics.insert(&row.statistic);
        }
    }
    let listed =
        |((metric, format, unit), (labels, statistics)): ((&'a str, &'a str, &'a str), (Labels<'a>, BTreeSet<&'a str>))| {
            let longest = labels.values().map(BTreeSet::len).max().unwrap_or(0);
            ListedMetric { metric, unit, tool: tool_of_format(format), statistics, histories: labels.len(), longest }
        };
    all.into_iter().map(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_states_the_tools_and_their_versions() {
        let history = |format: &str, versions: &[Option<&str>]| {
            let value = |version: Option<&str>| ForeignValue {
                name: "a".parse().expect("a name"),
                id: Digest::compute(b"id"),
                imported_at: "2026-01-01T00:00:00.000000000Z".parse().expect("an instant"),
                format_version: None,
                tool: None,
                tool_version: version.map(str::to_owned),
                value: 1.0,
            };
            ForeignHistory {
                format: format.to_owned(),
                metric: "m".to_owned(),
                statistic: "mean".to_owned(),
                unit: "s".to_owned(),
                labels: BTreeMap::new(),
                values: versions.iter().copied().map(value).collect(),
                without_statistic: 0,
            }
        };
        let first = |versions: &[Option<&str>]| origin(&[history("aiperf", versions)]);
        assert_eq!(first(&[Some("0.13"), Some("0.13")]), "foreign: measured by AIPerf 0.13, not by Assay");
        assert_eq!(first(&[Some("2"), Some("1")]), "foreign: measured by AIPerf 1 and 2, not by Assay");
        assert_eq!(first(&[None]), "foreign: measured by AIPerf of a version that its files do not state, not by Assay");
        let mixed = "foreign: measured by AIPerf 1 and a version that its files do not state, not by Assay";
        assert_eq!(first(&[Some("1"), None]), mixed);
        let many: Vec<Option<&str>> = ["1", "2", "3", "4", "5", "6"].map(Some).to_vec();
        assert_eq!(first(&many), "foreign: measured by AIPerf 1 and 2 and 3 and 4 and 2 more versions, not by Assay");
        let two = origin(&[history("hyperfine", &[None]), history("aiperf", &[Some("1")])]);
        assert_eq!(two, "foreign: measured by AIPerf 1, hyperfine of a version that its files do not state, not by Assay");
    }

    #[test]
    fn a_metric_and_a_name_are_told_apart() {
        for metric in ["vllm.ttft", "icl_ms", "vllm.ttft_p99"] {
            assert!(is_metric(metric), "{metric}");
        }
        for name in ["nightly-1", "nightly-*", "sha256:0123456789", "0123456789"] {
            assert!(!is_metric(name), "{name}");
        }
    }
}
