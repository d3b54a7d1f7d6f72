//! `assay compare` of two pieces of foreign evidence: metrics of the same definition, statistic, unit and labels, without a verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assay_foreign::{Relation, better_direction_of, field_of_metric, is_level, part_holds_numbers};
use assay_gate::foreign::{FEWER_LABELS_HINT, differing_labels};
use assay_import::{Reading, SampleValues, Series, series};
use assay_manifest::{ForeignEvidence, ForeignRow};
use assay_report::comparison::{
    ComparedDefinition, ComparedEvidence, ComparedMedian, ComparedNumber, ForeignComparison, IntervalOfMedian,
};
use assay_report::significant;
use assay_runs::{RunStore, named_store};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_stats::{Cluster, Interval, Method, NoInterval, Samples, cluster, median_interval};
use serde_json::{Value, json};

use crate::commands::foreign_evidence::{
    FIRST_LINE, Opened, PAGE, absent, aligned, labels_text, locate_named, open, origin, tool,
};
use crate::output;

/// The number of numbers that cannot be compared that are shown.
const SHOWN_UNPAIRED: usize = 20;
/// The confidence level of intervals.
const LEVEL: f64 = 0.95;

/// The form of the output of a comparison.
pub(super) struct ComparisonOutput<'a> {
    /// The folder to write the page and the document to.
    pub(super) to: Option<&'a Path>,
    pub(super) json: bool,
}

/// A number of both pieces of foreign evidence.
struct Pair<'a> {
    row: &'a ForeignRow,
    candidate: f64,
}

/// A metric that both have samples of.
struct SamplePair<'a> {
    metric: &'a str,
    labels: &'a BTreeMap<String, String>,
    unit: &'a str,
    medians: [Result<(f64, Interval), String>; 2],
}

/// One of the two that are compared.
struct Side<'a> {
    name: &'static str,
    body: &'a ForeignEvidence,
    reading: &'a Reading,
}

impl Side<'_> {
    /// Returns the lines with the tool, its version, and the files that are absent.
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}  {}", self.name, origin(self.body))];
        let line = |path: &String| format!("absent  `{}` of {}: no number was read again", path.escape_debug(), self.name);
        lines.extend(absent(self.reading).iter().map(line));
        lines.extend(self.remarks());
        lines
    }

    /// Returns the sentences about figures of its files that do not agree.
    fn remarks(&self) -> impl Iterator<Item = String> {
        self.body.remarks.iter().map(|remark| format!("{}: {}", self.name, remark.escape_debug()))
    }

    fn json(&self) -> Value {
        json!({
            "side": self.name, "format": self.body.format, "format_version": self.body.format_version, "tool": tool(self.body),
            "tool_version": self.body.tool_version, "remarks": self.body.remarks, "read_again": *self.reading == Reading::Equal, "absent": absent(self.reading),
        })
    }
}

/// Returns a sentence if both hold the same evidence, or the same file.
fn same_evidence([one, other]: &[Opened; 2]) -> Option<String> {
    if one.evidence.reference.manifest == other.evidence.reference.manifest {
        return Some("A and B are the same evidence: each number is compared with itself".to_owned());
    }
    let (ours, theirs) = (one.evidence.body(), other.evidence.body());
    let is_shared = |file: &&assay_manifest::ForeignFile| {
        let digest = file.artifact.digest;
        part_holds_numbers(&ours.format, &file.part) && theirs.files.iter().any(|other| other.artifact.digest == digest)
    };
    let shared = ours.files.iter().find(is_shared)?;
    Some(format!("A and B hold the same file `{}`, whose numbers are compared with themselves", shared.path.escape_debug()))
}

/// Returns a sentence if the numbers of the two may differ because of their tools.
fn tools_differ([first, second]: &[Side<'_>; 2]) -> Option<String> {
    let [one, other] = [first, second].map(|side| tool(side.body));
    if one != other {
        return Some(format!("the tools differ: {one} and {other}"));
    }
    match [first, second].map(|side| side.body.tool_version.as_deref()) {
        [Some(one), Some(other)] if one == other => None,
        [Some(one), Some(other)] => Some(format!(
            "the versions of {} differ: {} and {}, so a difference may be that of the tool",
            tool(first.body),
            one.escape_debug(),
            other.escape_debug()
        )),
        _ => Some(format!("it is not known if the versions of {one} are the same, so a difference may be that of the tool")),
    }
}

/// Compares two pieces of foreign evidence, named by their names or digests.
pub(crate) fn compare(place: &RunStore, names: [&str; 2], output: &ComparisonOutput<'_>) -> Result<Exit, Failure> {
    let open = |name: &str| open(place, locate_named(place, name)?);
    let opened = [open(names[0])?, open(names[1])?];
    let bodies = [opened[0].evidence.body(), opened[1].evidence.body()];
    let pairs = pairs(bodies);
    let read = |opened: &Opened| series(&opened.blobs, opened.evidence.body());
    let samples = [read(&opened[0])?, read(&opened[1])?];
    let sample_pairs = sample_pairs(bodies, [&samples[0], &samples[1]]);
    let mut not_comparable = not_comparable(bodies);
    not_comparable.extend(unpaired(bodies));
    let readings = opened.each_ref().map(|opened| &opened.evidence.reading);
    match without_samples(bodies, readings) {
        without if without.is_empty() => not_comparable.extend(unpaired_samples(bodies, [&samples[0], &samples[1]])),
        without => not_comparable.extend(without),
    }
    let [first, second] = opened.each_ref().map(|opened| (opened.evidence.body(), &opened.evidence.reading));
    let side = |name, (body, reading)| Side { name, body, reading };
    let sides = [side(SIDES[0], first), side(SIDES[1], second)];
    let document = || {
        let rows: Vec<Value> = pairs.iter().map(Pair::json).collect();
        let samples: Vec<Value> = sample_pairs.iter().map(SamplePair::json).collect();
        json!({
            "grade": "foreign", "baseline": names[0], "candidate": names[1], "rows": rows, "samples": samples,
            "not_comparable": not_comparable, "sides": sides.each_ref().map(Side::json), "tools_differ": tools_differ(&sides),
            "same": same_evidence(&opened),
        })
    };
    let has_common = !pairs.is_empty() || !sample_pairs.is_empty();
    if output.json {
        output::json(&document())?;
    } else {
        let mut lines = compare_lines(&sides, &pairs, &sample_pairs, &not_comparable).into_iter();
        lines.next().iter().for_each(output::line);
        same_evidence(&opened).iter().for_each(output::line);
        lines.for_each(output::line);
    }
    if let Some(folder) = output.to.filter(|_| has_common) {
        let page = page(&opened, &sides, &pairs, &sample_pairs, &not_comparable);
        let uri = place.store_uri()?;
        write(folder, &ForeignComparison { store: named_store(&uri), ..page }, &document())?;
        output::diagnostic(format!("wrote the comparison to {}", folder.display()));
    }
    if !has_common {
        return Err(nothing_compared(bodies));
    }
    Ok(output::established(opened.iter().all(|opened| opened.evidence.established)))
}

/// Returns the failure of two pieces without a common number, with the labels by which they differ.
fn nothing_compared([baseline, candidate]: [&ForeignEvidence; 2]) -> Failure {
    let labels = differing_labels([&[baseline], &[candidate]], SIDES);
    let why = labels.as_ref().map_or_else(String::new, |labels| format!(": {}", labels.text.escape_debug()));
    let message = format!("the two have no number of the same definition and labels in common{why}");
    let hint = match labels {
        Some(labels) if labels.may_be_of_importers => FEWER_LABELS_HINT.to_owned(),
        _ => format!("{PAGE} states the definitions; labels are the load and other circumstances"),
    };
    Failure::new(ErrorCode::NothingCompared, message).hint(hint)
}

/// Writes the page and the document.
fn write(folder: &Path, page: &ForeignComparison<'_>, document: &Value) -> Result<(), Failure> {
    let unwritable = |error: &std::io::Error| {
        Failure::new(ErrorCode::Output, format!("cannot write to `{}`", folder.display())).because(error).lasting()
    };
    let text = serde_json::to_vec_pretty(document)
        .map_err(|error| Failure::new(ErrorCode::Internal, "the comparison has no JSON form").because(&error))?;
    std::fs::create_dir_all(folder).map_err(|error| unwritable(&error))?;
    for (name, bytes) in [("report.html", page.html().as_bytes()), ("comparison.json", &text)] {
        std::fs::write(folder.join(name), bytes).map_err(|error| unwritable(&error))?;
    }
    Ok(())
}

/// Returns the comparison as a page shows it.
fn page<'a>(
    opened: &'a [Opened; 2],
    sides: &[Side<'_>; 2],
    pairs: &'a [Pair<'a>],
    samples: &'a [SamplePair<'a>],
    not_comparable: &[String],
) -> ForeignComparison<'a> {
    let number = |pair: &Pair<'a>| ComparedNumber {
        metric: &pair.row.metric,
        statistic: &pair.row.statistic,
        unit: &pair.row.unit,
        labels: &pair.row.labels,
        values: [pair.row.value, pair.candidate],
        better: better_direction_of(&pair.row.metric, &pair.row.unit, &pair.row.labels).filter(|_| is_level(&pair.row.statistic)),
    };
    let median = |pair: &SamplePair<'a>| ComparedMedian {
        metric: pair.metric,
        unit: pair.unit,
        labels: pair.labels,
        medians: pair.medians.clone().map(|side| {
            side.map(|(median, interval)| IntervalOfMedian {
                median,
                low: interval.low,
                high: interval.high,
                level: interval.level,
            })
        }),
        better: better_direction_of(pair.metric, pair.unit, pair.labels),
    };
    let mut remarks: Vec<String> = same_evidence(opened).into_iter().chain(tools_differ(sides)).collect();
    let absent = |side: &Side<'_>| {
        (!absent(side.reading).is_empty())
            .then(|| format!("files of {} are absent, so its numbers were not read again", side.name))
    };
    remarks.extend(sides.iter().filter_map(absent));
    remarks.extend(sides.iter().flat_map(Side::remarks));
    ForeignComparison {
        sides: opened.each_ref().map(compared_evidence),
        remarks,
        numbers: pairs.iter().map(number).collect(),
        medians: samples.iter().map(median).collect(),
        interval_notes: interval_lines(sides, samples).into_iter().map(str::to_owned).collect(),
        definitions: definitions(opened.each_ref().map(|opened| opened.evidence.body()), pairs, samples),
        not_comparable: not_comparable.to_vec(),
        store: None,
    }
}

fn compared_evidence(opened: &Opened) -> ComparedEvidence<'_> {
    let body = opened.evidence.body();
    ComparedEvidence {
        name: opened.evidence.manifest.header.run_id.as_str(),
        id: opened.evidence.reference.manifest,
        origin: origin(body),
        imported_at: body.imported_at,
        signer: &opened.evidence.signer,
        established: opened.evidence.established,
        files: body.files.iter().map(|file| (file.path.as_str(), file.artifact.digest)).collect(),
        absent: absent(&opened.evidence.reading).iter().map(String::as_str).collect(),
    }
}

/// Returns the definition of each metric that both have, in the order of their names. A metric that formats share has the definition of each.
fn definitions<'a>(
    bodies: [&'a ForeignEvidence; 2],
    pairs: &[Pair<'a>],
    samples: &[SamplePair<'a>],
) -> Vec<ComparedDefinition<'a>> {
    let metrics: BTreeSet<&str> =
        pairs.iter().map(|pair| pair.row.metric.as_str()).chain(samples.iter().map(|pair| pair.metric)).collect();
    let formats: BTreeSet<&str> = bodies.iter().map(|body| body.format.as_str()).collect();
    let fields = metrics.iter().flat_map(|metric| formats.iter().filter_map(|format| field_of_metric(format, metric)));
    let definition = |field: &'static assay_foreign::ResultField| ComparedDefinition {
        metric: field.metric,
        definition: field.definition,
        near: match field.relation {
            Relation::Equal => Some((field.metric, "")),
            Relation::Differs(ours, how) => Some((ours, how)),
            Relation::Unlike => None,
        },
    };
    let all: BTreeSet<ComparedDefinition<'a>> = fields.map(definition).collect();
    all.into_iter().collect()
}

fn pairs<'a>([baseline, candidate]: [&'a ForeignEvidence; 2]) -> Vec<Pair<'a>> {
    let key = |row: &'a ForeignRow| (&row.metric, &row.statistic, &row.unit, &row.labels);
    let others: BTreeMap<_, f64> = candidate.rows.iter().map(|row| (key(row), row.value)).collect();
    baseline.rows.iter().filter_map(|row| Some(Pair { row, candidate: *others.get(&key(row))? })).collect()
}

/// Returns a sentence for each two metrics that are near the same metric of Assay and defined differently.
fn not_comparable([baseline, candidate]: [&ForeignEvidence; 2]) -> Vec<String> {
    let near = |evidence: &ForeignEvidence| -> BTreeMap<&'static str, BTreeSet<&'static str>> {
        let mut near: BTreeMap<&'static str, BTreeSet<&'static str>> = BTreeMap::new();
        let metrics: BTreeSet<&str> = evidence.rows.iter().map(|row| row.metric.as_str()).collect();
        for field in metrics.into_iter().filter_map(|metric| field_of_metric(&evidence.format, metric)) {
            match field.relation {
                Relation::Differs(ours, _) => near.entry(ours).or_default().insert(field.metric),
                Relation::Equal => near.entry(field.metric).or_default().insert(field.metric),
                Relation::Unlike => false,
            };
        }
        near
    };
    let (first, second) = (near(baseline), near(candidate));
    let mut sentences = Vec::new();
    for (ours, metrics) in &first {
        for one in metrics {
            for other in second.get(ours).into_iter().flatten().filter(|other| *other != one) {
                sentences.push(format!(
                    "`{one}` and `{other}` are not comparable: both are near `{ours}`, and are defined differently ({PAGE}#{} and #{})",
                    baseline.format, candidate.format
                ));
            }
        }
    }
    sentences
}

/// The names of the two sides in sentences and tables.
const SIDES: [&str; 2] = ["A", "B"];

/// Numbers of one metric with the same labels that cannot be compared for one reason.
type Unpaired<'a> = BTreeMap<(&'a str, &'a BTreeMap<String, String>, String), BTreeSet<&'a str>>;

/// Returns a sentence for each metric with numbers that only one side has, or that the sides have in different units.
fn unpaired([baseline, candidate]: [&ForeignEvidence; 2]) -> Vec<String> {
    let mut found = Unpaired::new();
    let [ours, theirs] = [baseline, candidate].map(units_of_rows);
    for (key @ (metric, statistic, labels), units) in &ours {
        let why = match theirs.get(key) {
            Some(others) if others == units => continue,
            Some(others) => differing_units(units, others),
            None => only_in(SIDES[0]),
        };
        found.entry((metric, labels, why)).or_default().insert(statistic);
    }
    for (metric, statistic, labels) in theirs.keys().filter(|key| !ours.contains_key(*key)) {
        found.entry((metric, labels, only_in(SIDES[1]))).or_default().insert(statistic);
    }
    let mut sentences = Vec::new();
    for ((metric, labels, why), statistics) in found {
        let statistics = statistics.into_iter().collect::<Vec<_>>().join(", ");
        sentences.push(format!("`{metric}` ({statistics}){} is not comparable: {why}", of_labels(labels)));
    }
    sentences
}

type Units<'a> = BTreeMap<(&'a str, &'a str, &'a BTreeMap<String, String>), BTreeSet<&'a str>>;

/// Returns the units of each number: the tool may state one in several.
fn units_of_rows(evidence: &ForeignEvidence) -> Units<'_> {
    let mut units = Units::new();
    for row in &evidence.rows {
        units.entry((&row.metric, &row.statistic, &row.labels)).or_default().insert(&row.unit);
    }
    units
}

fn differing_units(units: &BTreeSet<&str>, others: &BTreeSet<&str>) -> String {
    let [one, other] = [units, others].map(|units| units.iter().copied().map(unit_name).collect::<Vec<_>>().join(" and "));
    format!("in {one} and in {other}")
}

fn unit_name(unit: &str) -> &str {
    if unit.is_empty() { "no unit" } else { unit }
}

fn only_in(side: &str) -> String {
    format!("only in {side}")
}

fn of_labels(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() { String::new() } else { format!(" of {}", labels_text(labels)) }
}

/// Returns a sentence for each side whose samples were recorded and are absent.
fn without_samples(bodies: [&ForeignEvidence; 2], readings: [&Reading; 2]) -> Vec<String> {
    let sentence = |((side, body), reading): ((&str, &ForeignEvidence), &Reading)| {
        let name = &body.samples.as_ref()?.artifact.name;
        let is_absent = absent(reading).contains(name);
        is_absent.then(|| format!("no medians are compared: `{}` of {side} is absent", name.escape_debug()))
    };
    SIDES.into_iter().zip(bodies).zip(readings).filter_map(sentence).collect()
}

/// Returns a sentence for each metric whose samples only one side has, or that the sides have in different units.
fn unpaired_samples([first, second]: [&ForeignEvidence; 2], [one, other]: [&Series; 2]) -> Vec<String> {
    let why = |key: &(String, BTreeMap<String, String>)| match (one.contains_key(key), other.contains_key(key)) {
        (true, false) => Some(only_in(SIDES[0])),
        (false, true) => Some(only_in(SIDES[1])),
        _ => match (sample_unit(first, &key.0), sample_unit(second, &key.0)) {
            (Some(unit), Some(others)) if unit == others => None,
            (unit, others) => {
                let [unit, others] = [unit, others].map(|unit| unit_name(unit.unwrap_or_default()));
                Some(format!("in {unit} and in {others}"))
            }
        },
    };
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let sentence = |key: &(String, BTreeMap<String, String>)| {
        Some(format!("the samples of `{}`{} are not comparable: {}", key.0, of_labels(&key.1), why(key)?))
    };
    keys.into_iter().filter_map(sentence).collect()
}

fn sample_unit<'a>(evidence: &'a ForeignEvidence, metric: &str) -> Option<&'a str> {
    evidence.samples.as_ref()?.units.get(metric).map(String::as_str)
}

fn sample_pairs<'a>([first, second]: [&'a ForeignEvidence; 2], [one, other]: [&'a Series; 2]) -> Vec<SamplePair<'a>> {
    let pair = |((metric, labels), values): (&'a (String, BTreeMap<String, String>), &'a SampleValues)| {
        let others = other.get(&(metric.clone(), labels.clone()))?;
        let unit = sample_unit(first, metric).filter(|known| sample_unit(second, metric) == Some(*known))?;
        Some(SamplePair { metric, labels, unit, medians: [median(values), median(others)] })
    };
    one.iter().filter_map(pair).collect()
}

/// Returns the median with its interval, or the reason why there is none.
fn median(values: &SampleValues) -> Result<(f64, Interval), String> {
    let samples = Samples::new(&values.values).map_err(|error| error.to_string())?;
    let interval = if values.has_lists() { clustered_interval(values, &samples) } else { median_interval(&samples, LEVEL) };
    Ok((samples.median(), interval.map_err(|error| error.to_string())?))
}

/// Returns the interval of the median of lists. The values of one, such as the gaps of one response, depend on each other, so order statistics
/// of all values would give too narrow an interval: each list is one cluster.
fn clustered_interval(values: &SampleValues, samples: &Samples) -> Result<Interval, NoInterval> {
    let median = samples.median();
    let clusters: Vec<Cluster> = values
        .rows()
        .map(|row| Cluster { part: row.iter().filter(|value| **value <= median).count() as f64, of: row.len() as f64 })
        .collect();
    let [low, high] = cluster::quantile_ranks(&clusters, 0.5, LEVEL)?;
    Ok(cluster::quantile_interval(samples.quantile(low), samples.quantile(high), LEVEL))
}

impl Pair<'_> {
    fn ratio(&self) -> Option<f64> {
        (self.row.value > 0.0).then(|| self.candidate / self.row.value)
    }

    fn json(&self) -> Value {
        let ForeignRow { metric, statistic, unit, value, labels } = self.row;
        json!({
            "metric": metric, "statistic": statistic, "unit": unit, "labels": labels, "baseline": value, "candidate": self.candidate,
            "ratio": self.ratio(),
        })
    }
}

impl SamplePair<'_> {
    fn json(&self) -> Value {
        let side = |side: &Result<(f64, Interval), String>| match side {
            Ok((median, interval)) => json!({
                "median": median, "low": interval.low, "high": interval.high, "level": interval.level, "method": interval.method.name(),
            }),
            Err(why) => json!({"no_interval": why}),
        };
        let [baseline, candidate] = &self.medians;
        json!({
            "metric": self.metric, "labels": self.labels, "unit": self.unit, "baseline": side(baseline), "candidate": side(candidate),
        })
    }
}

/// Returns the lines that state the kinds of the intervals that are shown.
fn interval_lines(sides: &[Side<'_>; 2], samples: &[SamplePair<'_>]) -> Vec<&'static str> {
    let has = |method: Method| {
        let medians = samples.iter().flat_map(|pair| &pair.medians);
        medians.flatten().any(|(_, interval)| interval.method == method)
    };
    let (by_order, by_list) = (has(Method::OrderStatistic), has(Method::ClusterQuantile));
    let mut lines = Vec::new();
    if by_order {
        lines.push("intervals: of the median, between order statistics of single requests or iterations");
    }
    if by_list {
        lines.push("intervals of lists, such as the gaps of a response: each list is one cluster, because its values depend on each other");
    }
    // Labels tell the samples of different runs apart. Only reading the files again shows that the samples have them.
    let is_checked = sides.iter().all(|side| *side.reading == Reading::Equal);
    if (by_order || by_list) && is_checked {
        lines.push("the samples of each median are of one run, so its interval does not hold the variation from run to run");
    } else if by_order || by_list {
        lines.push("files are absent, so it was not checked that the samples of a median are of one run");
    }
    lines
}

fn compare_lines(
    sides: &[Side<'_>; 2],
    pairs: &[Pair<'_>],
    samples: &[SamplePair<'_>],
    not_comparable: &[String],
) -> Vec<String> {
    let mut lines = vec![FIRST_LINE.to_owned()];
    lines.extend(sides.iter().flat_map(Side::lines));
    lines.extend(tools_differ(sides));
    lines.push(String::new());
    if !pairs.is_empty() {
        let mut rows = vec![["METRIC", "STATISTIC", "UNIT", "A", "B", "B / A", "LABELS"].map(str::to_owned)];
        for pair in pairs {
            let row = pair.row;
            rows.push([
                row.metric.clone(),
                row.statistic.clone(),
                row.unit.clone(),
                significant(row.value, None),
                significant(pair.candidate, None),
                pair.ratio().map_or_else(|| "-".to_owned(), |ratio| significant(ratio, None)),
                labels_text(&row.labels),
            ]);
        }
        lines.extend(aligned(&rows));
        lines.push("no intervals: these are numbers of one run each, as its tool states them".to_owned());
    }
    if !samples.is_empty() {
        let mut rows = vec![["MEDIAN OF", "UNIT", "A", "B", "LABELS"].map(str::to_owned)];
        for pair in samples {
            let [baseline, candidate] = pair.medians.each_ref().map(describe_median);
            rows.push([pair.metric.to_owned(), pair.unit.to_owned(), baseline, candidate, labels_text(pair.labels)]);
        }
        lines.push(String::new());
        lines.extend(aligned(&rows));
        lines.extend(interval_lines(sides, samples).into_iter().map(str::to_owned));
    }
    lines.extend(not_comparable.iter().take(SHOWN_UNPAIRED).cloned());
    if let Some(more) = not_comparable.len().checked_sub(SHOWN_UNPAIRED).filter(|more| *more > 0) {
        lines.push(format!("and {more} more that are not comparable: `--json` lists all of them"));
    }
    lines
}

fn describe_median(median: &Result<(f64, Interval), String>) -> String {
    match median {
        Ok((median, interval)) => {
            let ends = Some((interval.low, interval.high));
            let [low, high] = [interval.low, interval.high].map(|end| significant(end, ends));
            format!("{} ({low} to {high}, {:.0} %)", significant(*median, ends), interval.level * 100.0)
        }
        Err(why) => format!("- ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::foreign_evidence::absent_lines;

    /// Returns foreign evidence with these rows of metric, statistic, unit and value, and samples of `m` in a unit.
    fn evidence(rows: &[(&str, &str, &str, f64)], samples: Option<&str>) -> ForeignEvidence {
        let digest = format!("sha256:{}", "0".repeat(64));
        let artifact = |name: &str| json!({"name": name, "digest": digest, "size": "1", "media_type": "text/plain"});
        let row = |(metric, statistic, unit, value): &(&str, &str, &str, f64)| {
            let labels = json!({"name": "BM"});
            json!({"metric": metric, "statistic": statistic, "unit": unit, "value": value, "labels": labels})
        };
        let mut document = json!({
            "imported_at": "2026-01-01T00:00:00.000000000Z", "format": "google-benchmark",
            "importer": {"version": "1", "program": digest}, "files": [], "not_read": [], "left_out": [],
            "rows": rows.iter().map(row).collect::<Vec<_>>(), "key": artifact("keys/import.pub"),
        });
        if let Some(unit) = samples {
            document["samples"] = json!({"rows": "1", "units": {"m": unit}, "artifact": artifact("samples.jsonl")});
        }
        serde_json::from_value(document).expect("foreign evidence")
    }

    /// Returns the values of these rows.
    fn values(rows: &[Value]) -> SampleValues {
        let mut values = SampleValues::default();
        for row in rows {
            values.add(row);
        }
        values
    }

    fn sides<'a>(bodies: [&'a ForeignEvidence; 2], readings: [&'a Reading; 2]) -> [Side<'a>; 2] {
        [0, 1].map(|index: usize| Side { name: SIDES[index], body: bodies[index], reading: readings[index] })
    }

    /// The values of one list are the same, so 60 lists hold as much as 60 values, and not 600.
    #[test]
    fn the_values_of_a_list_do_not_narrow_an_interval() {
        let lists: Vec<Value> = (0..60).map(|at| json!(vec![at; 10])).collect();
        let singles: Vec<Value> = (0..60).map(|at| json!(at)).collect();
        let all: Vec<Value> = (0..600).map(|at| json!(at / 10)).collect();
        let width = |rows: &[Value]| median(&values(rows)).map(|(_, interval)| (interval.high - interval.low, interval.method));
        let (by_lists, method) = width(&lists).expect("an interval");
        let (by_singles, _) = width(&singles).expect("an interval");
        let (too_narrow, _) = width(&all).expect("an interval");
        assert_eq!(method, Method::ClusterQuantile);
        assert!(by_lists > 0.8 * by_singles && by_singles > 2.0 * too_narrow, "{by_lists} {by_singles} {too_narrow}");
        let few = median(&values(&lists[..20])).expect_err("too few lists");
        assert_eq!(few, "20 clusters are too few for an interval; 50 are needed");
    }

    #[test]
    fn each_sentence_about_intervals_is_printed_if_it_is_true() {
        let body = evidence(&[], None);
        let lost = Reading::Absent(vec!["f".to_owned()]);
        let lines = |rows: &[Value], reading: &Reading| {
            let labels = BTreeMap::new();
            let medians = [median(&values(rows)), median(&values(rows))];
            let pair = SamplePair { metric: "m", labels: &labels, unit: "s", medians };
            interval_lines(&sides([&body, &body], [&Reading::Equal, reading]), &[pair]).join("\n")
        };
        let [single, list]: [Vec<Value>; 2] =
            [(0..60).map(|at| json!(at)).collect(), (0..60).map(|at| json!([at, at])).collect()];
        let [order, clusters, one_run, unchecked] =
            ["between order statistics", "each list is one cluster", "are of one run, so", "was not checked"];
        for (rows, reading, expected) in [
            (&single, &Reading::Equal, [true, false, true, false]),
            (&list, &Reading::Equal, [false, true, true, false]),
            (&single, &lost, [true, false, false, true]),
            (&single[..2].to_vec(), &Reading::Equal, [false; 4]),
            (&list[..2].to_vec(), &lost, [false; 4]),
        ] {
            let printed = lines(rows, reading);
            assert_eq!([order, clusters, one_run, unchecked].map(|part| printed.contains(part)), expected, "{printed}");
        }
    }

    #[test]
    fn the_tool_and_absent_files_of_each_side_are_printed() {
        let of = |version: Option<&str>, format: &str| {
            let mut body = evidence(&[], None);
            (body.tool_version, body.format) = (version.map(str::to_owned), format.to_owned());
            body
        };
        let lost = Reading::Absent(vec!["f".to_owned()]);
        let [one, two, unknown] = [Some("1"), Some("2"), None].map(|version| of(version, "jmh"));
        let other = of(Some("1"), "hyperfine");
        let both = |second, reading| sides([&one, second], [&Reading::Equal, reading]);
        let lines = compare_lines(&both(&two, &lost), &[], &[], &[]);
        let expected = [
            FIRST_LINE,
            "A  JMH 1",
            "B  JMH 2",
            "absent  `f` of B: no number was read again",
            "the versions of JMH differ: 1 and 2, so a difference may be that of the tool",
            "",
        ];
        assert_eq!(lines, expected);
        let why = |second| tools_differ(&both(second, &Reading::Equal)).unwrap_or_default();
        assert_eq!(why(&one), "");
        assert_eq!(why(&unknown), "it is not known if the versions of JMH are the same, so a difference may be that of the tool");
        assert_eq!(why(&other), "the tools differ: JMH and hyperfine");
        assert_eq!(compare_lines(&both(&one, &Reading::Equal), &[], &[], &[]), [FIRST_LINE, "A  JMH 1", "B  JMH 1", ""]);
        let document = both(&unknown, &lost)[1].json();
        assert_eq!(
            document,
            json!({
                "side": "B", "format": "jmh", "format_version": null, "tool": "JMH", "tool_version": null, "remarks": [], "read_again": false, "absent": ["f"],
            })
        );
    }

    #[test]
    fn what_only_one_side_has_or_has_in_another_unit_is_named() {
        let one = evidence(
            &[("m", "mean", "ns", 5.0), ("m", "p50", "ns", 5.0), ("n", "mean", "", 1.0), ("same", "mean", "s", 1.0)],
            None,
        );
        let other = evidence(
            &[("m", "mean", "ms", 5.0), ("m", "p50", "ms", 5.0), ("o", "mean", "", 1.0), ("same", "mean", "s", 2.0)],
            None,
        );
        let expected = [
            "`m` (mean, p50) of name=BM is not comparable: in ns and in ms",
            "`n` (mean) of name=BM is not comparable: only in A",
            "`o` (mean) of name=BM is not comparable: only in B",
        ];
        assert_eq!(unpaired([&one, &other]), expected);
        assert_eq!(unpaired([&one, &one]), [""; 0]);
    }

    #[test]
    fn samples_that_are_absent_or_cannot_be_paired_are_named() {
        let [ns, ms] = ["ns", "ms"].map(|unit| evidence(&[], Some(unit)));
        let series = |metric: &str| Series::from([((metric.to_owned(), BTreeMap::new()), values(&[json!(1.0)]))]);
        let (m, n) = (series("m"), series("n"));
        assert_eq!(unpaired_samples([&ns, &ms], [&m, &m]), ["the samples of `m` are not comparable: in ns and in ms"]);
        assert_eq!(unpaired_samples([&ns, &ns], [&m, &m]), [""; 0]);
        let only = ["the samples of `m` are not comparable: only in A", "the samples of `n` are not comparable: only in B"];
        assert_eq!(unpaired_samples([&ns, &ns], [&m, &n]), only);
        let lost = Reading::Absent(vec!["samples.jsonl".to_owned()]);
        assert_eq!(
            without_samples([&ns, &ns], [&Reading::Equal, &lost]),
            ["no medians are compared: `samples.jsonl` of B is absent"]
        );
        assert_eq!(without_samples([&ns, &evidence(&[], None)], [&Reading::Equal, &lost]), [""; 0]);
        assert_eq!(absent_lines(absent(&lost)), ["absent  `samples.jsonl`: no number was read again"]);
    }

    #[test]
    fn a_long_list_of_what_is_not_comparable_is_cut() {
        let sentences: Vec<String> = (0..SHOWN_UNPAIRED + 3).map(|number| number.to_string()).collect();
        let body = evidence(&[], None);
        let lines = compare_lines(&sides([&body, &body], [&Reading::Equal, &Reading::Equal]), &[], &[], &sentences);
        assert_eq!(lines.last().map(String::as_str), Some("and 3 more that are not comparable: `--json` lists all of them"));
    }
}
