//! The numbers of foreign evidence from import to import: the data of a history.

use std::collections::{BTreeMap, BTreeSet};

use assay_foreign::part_holds_numbers;
use assay_manifest::{Digest, ForeignEvidence, Instant, RunId};

/// A piece of foreign evidence whose signature verifies.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its name.
    pub name: &'a RunId,
    /// The digest of its manifest.
    pub id: Digest,
    /// The document.
    pub body: &'a ForeignEvidence,
}

/// Two pieces with one file: the file is one observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// The later piece, which no history counts.
    pub name: RunId,
    /// The earlier piece.
    pub of: RunId,
    /// The path of the file in the later piece.
    pub path: String,
}

/// A number of one tool from import to import: equal format, metric, statistic, unit and labels.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignHistory {
    /// The format.
    pub format: String,
    /// The metric.
    pub metric: String,
    /// The statistic.
    pub statistic: String,
    /// The unit.
    pub unit: String,
    /// The load and other circumstances.
    pub labels: BTreeMap<String, String>,
    /// The values, by the times of their imports.
    pub values: Vec<ForeignValue>,
    /// The number of pieces that have the metric with these labels, and not this statistic.
    pub without_statistic: usize,
}

/// The value of one piece of evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignValue {
    /// The name of the piece.
    pub name: RunId,
    /// The digest of its manifest.
    pub id: Digest,
    /// The time of its import.
    pub imported_at: Instant,
    /// The version of the format, if the format is one of several tools.
    pub format_version: Option<String>,
    /// The tool that measured, if the format is one of several tools and a file names it.
    pub tool: Option<String>,
    /// The version of the tool, if a file states it.
    pub tool_version: Option<String>,
    /// The number.
    pub value: f64,
}

/// Returns the pieces by the times of their imports, each file counted once, and the pieces that repeat a file of an earlier one.
pub fn in_order(mut pieces: Vec<Piece<'_>>) -> (Vec<Piece<'_>>, Vec<Repetition>) {
    pieces.sort_by_key(|piece| (piece.body.imported_at, piece.name));
    let mut owners: BTreeMap<Digest, &RunId> = BTreeMap::new();
    let (mut counted, mut repeated) = (Vec::new(), Vec::new());
    for piece in pieces {
        let body = piece.body;
        let files: Vec<_> = body.files.iter().filter(|file| part_holds_numbers(&body.format, &file.part)).collect();
        let known = files.iter().find_map(|file| Some((*owners.get(&file.artifact.digest)?, file)));
        if let Some((of, file)) = known {
            repeated.push(Repetition { name: piece.name.clone(), of: of.clone(), path: file.path.clone() });
            continue;
        }
        owners.extend(files.iter().map(|file| (file.artifact.digest, piece.name)));
        counted.push(piece);
    }
    (counted, repeated)
}

/// A metric of a format: its format, its name, its unit and its labels.
type MetricKey<'a> = (&'a str, &'a str, &'a str, &'a BTreeMap<String, String>);

/// Returns the histories of a metric in pieces that are in order. The name is that of a metric, of which one statistic is followed, or of a metric
/// and a statistic, such as `vllm.ttft_p99`.
pub fn histories(pieces: &[Piece<'_>], name: &str) -> Vec<ForeignHistory> {
    let mut all: BTreeMap<MetricKey<'_>, BTreeMap<&str, Vec<ForeignValue>>> = BTreeMap::new();
    for piece in pieces {
        for row in piece.body.rows.iter().filter(|row| is_named(name, &row.metric, &row.statistic)) {
            let of_metric = all.entry((&piece.body.format, &row.metric, &row.unit, &row.labels)).or_default();
            of_metric.entry(&row.statistic).or_default().push(ForeignValue {
                name: piece.name.clone(),
                id: piece.id,
                imported_at: piece.body.imported_at,
                format_version: piece.body.format_version.clone(),
                tool: piece.body.tool.clone(),
                tool_version: piece.body.tool_version.clone(),
                value: row.value,
            });
        }
    }
    let mut histories = Vec::new();
    for ((format, metric, unit, labels), mut by_statistic) in all {
        let statistics: BTreeSet<&str> = by_statistic.keys().copied().collect();
        let Some(statistic) = followed_statistic(name, metric, &statistics) else { continue };
        let values = by_statistic.remove(statistic).unwrap_or_default();
        let having: BTreeSet<&RunId> = values.iter().map(|value| &value.name).collect();
        let others: BTreeSet<RunId> = by_statistic.into_values().flatten().map(|value| value.name).collect();
        let without_statistic = others.iter().filter(|name| !having.contains(name)).count();
        histories.push(ForeignHistory {
            format: format.to_owned(),
            metric: metric.to_owned(),
            statistic: statistic.to_owned(),
            unit: unit.to_owned(),
            labels: labels.clone(),
            values,
            without_statistic,
        });
    }
    histories
}

fn is_named(name: &str, metric: &str, statistic: &str) -> bool {
    name == metric || with_statistic(name, metric) == Some(statistic)
}

fn with_statistic<'a>(name: &'a str, metric: &str) -> Option<&'a str> {
    name.strip_prefix(metric)?.strip_prefix('_')
}

/// Returns the statistic that a name follows: its own, or that by which gates judge the metric; `None` if there is neither.
fn followed_statistic<'a>(name: &str, metric: &str, statistics: &BTreeSet<&'a str>) -> Option<&'a str> {
    let own = with_statistic(name, metric).and_then(|own| statistics.get(own));
    let preferred = || ForeignEvidence::PREFERRED_STATISTICS.iter().find_map(|preferred| statistics.get(preferred));
    own.or_else(preferred).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns evidence of hyperfine that was imported at a minute, with a file of these bytes and rows of label, statistic and value.
    fn evidence(minute: u32, file: &str, rows: &[(&str, &str, f64)]) -> ForeignEvidence {
        let artifact = |name: &str, bytes: &str| json!({"name": name, "digest": Digest::compute(bytes.as_bytes()), "size": "1", "media_type": "text/plain"});
        let row = |(label, statistic, value): &(&str, &str, f64)| {
            let unit = if *statistic == "count" { "" } else { "s" };
            json!({"metric": "hyperfine.wall_time", "statistic": statistic, "unit": unit, "value": value, "labels": {"command": label}})
        };
        serde_json::from_value(json!({
            "imported_at": format!("2026-01-01T00:{minute:02}:00.000000000Z"), "format": "hyperfine",
            "importer": {"version": "1", "program": Digest::compute(b"program")},
            "files": [{"path": format!("{file}.json"), "part": "results", "artifact": artifact("files/0000", file)}],
            "rows": rows.iter().map(row).collect::<Vec<_>>(), "not_read": [], "left_out": [], "key": artifact("keys/import.pub", "key"),
        }))
        .expect("foreign evidence")
    }

    fn name(name: &str) -> RunId {
        name.parse().expect("a name")
    }

    #[test]
    fn the_values_of_equal_labels_are_in_the_order_of_their_imports() {
        let names = ["late", "early", "other"].map(name);
        let bodies = [
            evidence(9, "a", &[("sort", "mean", 2.0), ("sort", "max", 3.0), ("cat", "mean", 7.0)]),
            evidence(1, "b", &[("sort", "mean", 1.0), ("sort", "count", 5.0)]),
            evidence(4, "c", &[("sort", "p50", 1.5)]),
        ];
        let pieces = names.iter().zip(&bodies).map(|(name, body)| Piece { name, id: Digest::compute(b"id"), body }).collect();
        let (ordered, repeated) = in_order(pieces);
        assert_eq!(repeated, []);
        let told = |name: &str| -> Vec<(String, String, Vec<f64>)> {
            let one = |found: ForeignHistory| {
                (found.labels["command"].clone(), found.statistic, found.values.iter().map(|value| value.value).collect())
            };
            histories(&ordered, name).into_iter().map(one).collect()
        };
        let series = |label: &str, statistic: &str, values: &[f64]| (label.to_owned(), statistic.to_owned(), values.to_vec());
        // The mean is followed, and the piece that states a median alone has no part in it.
        assert_eq!(told("hyperfine.wall_time"), [series("cat", "mean", &[7.0]), series("sort", "mean", &[1.0, 2.0])]);
        let without: Vec<usize> =
            histories(&ordered, "hyperfine.wall_time").iter().map(|history| history.without_statistic).collect();
        assert_eq!(without, [0, 1], "one piece states the median alone");
        assert_eq!(told("hyperfine.wall_time_count"), [series("sort", "count", &[5.0])]);
        assert_eq!(told("hyperfine.wall_time_max"), [series("sort", "max", &[3.0])]);
        assert_eq!(told("hyperfine.wall_time_p50"), [series("sort", "p50", &[1.5])]);
        assert_eq!([told("hyperfine.wall"), told("wall_time_ms"), told("hyperfine.wall_time_p9")].concat(), []);
    }

    #[test]
    fn a_file_counts_once_however_often_it_was_imported() {
        let names = ["first", "again", "other"].map(name);
        let rows = [("sort", "mean", 1.0)];
        let bodies = [evidence(1, "a", &rows), evidence(2, "a", &rows), evidence(3, "b", &rows)];
        let pieces = names.iter().zip(&bodies).rev().map(|(name, body)| Piece { name, id: Digest::compute(b"id"), body });
        let (ordered, repeated) = in_order(pieces.collect());
        assert_eq!(ordered.iter().map(|piece| piece.name.as_str()).collect::<Vec<_>>(), ["first", "other"]);
        assert_eq!(repeated, [Repetition { name: name("again"), of: name("first"), path: "a.json".to_owned() }]);
    }
}
