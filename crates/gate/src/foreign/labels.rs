//! The labels by which the numbers of two sides are not of one load.

use std::collections::{BTreeMap, BTreeSet};

use assay_failure::first_names;
use assay_manifest::ForeignEvidence;

/// The most labels of a kind that are named.
const SHOWN_LABELS: usize = 6;

/// The hint for labels that one side alone has.
pub const FEWER_LABELS_HINT: &str = "evidence that an earlier version of Assay imported may have fewer labels: import its files again under another name, with \
                                     `assay import results PATH --name NAME`";

/// The difference of the labels of two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelDifference {
    /// The labels that one side alone has and those with other values, in words.
    pub text: String,
    /// True if one side has labels that the other does not, and more than one program imported the evidence.
    pub may_be_of_importers: bool,
}

/// The values of a label on both sides.
type Values<'a> = [BTreeSet<&'a str>; 2];

/// Returns the difference of the labels of the metrics that both sides have; `None` if they have no metric in common or no label differs.
pub fn differing_labels(sides: [&[&ForeignEvidence]; 2], names: [&str; 2]) -> Option<LabelDifference> {
    let rows = sides.map(|pieces| pieces.iter().flat_map(|piece| &piece.rows).collect::<Vec<_>>());
    let [ours, theirs] = rows.each_ref().map(|rows| rows.iter().map(|row| row.metric.as_str()).collect::<BTreeSet<_>>());
    let mut labels: BTreeMap<&str, Values<'_>> = BTreeMap::new();
    for (side, rows) in rows.iter().enumerate() {
        for row in rows.iter().filter(|row| ours.contains(row.metric.as_str()) && theirs.contains(row.metric.as_str())) {
            for (name, value) in &row.labels {
                if let Some(values) = labels.entry(name).or_default().get_mut(side) {
                    values.insert(value);
                }
            }
        }
    }
    let of_one = |side: usize| {
        let has = |values: &Values<'_>| values.iter().enumerate().all(|(place, found)| (place == side) != found.is_empty());
        labels.iter().filter(|(_, values)| has(values)).map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>()
    };
    let is_disjoint = |[one, other]: &Values<'_>| !one.is_empty() && !other.is_empty() && one.is_disjoint(other);
    let changed = labels.iter().filter(|(_, values)| is_disjoint(values)).map(|(name, [one, other])| {
        let [one, other] = [one, other].map(|values| first_names(&values.iter().collect::<Vec<_>>(), 2));
        format!("`{name}` ({one} / {other})")
    });
    let changed: Vec<String> = changed.collect();
    let mut parts = Vec::new();
    for (side, name) in names.into_iter().enumerate() {
        let own = of_one(side);
        if !own.is_empty() {
            parts.push(format!("{name} alone has {}", first_names(&own, SHOWN_LABELS)));
        }
    }
    let importers: BTreeSet<_> = sides.into_iter().flatten().map(|piece| &piece.importer.program).collect();
    let may_be_of_importers = !parts.is_empty() && importers.len() > 1;
    if !changed.is_empty() {
        parts.push(format!("other values have {}", first_names(&changed, SHOWN_LABELS)));
    }
    (!parts.is_empty())
        .then(|| LabelDifference { text: format!("their labels differ: {}", parts.join("; ")), may_be_of_importers })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn evidence(metric: &str, labels: &Value) -> ForeignEvidence {
        imported("1", metric, labels)
    }

    /// Returns evidence that the program with this digest, of one digit, imported.
    fn imported(program: &str, metric: &str, labels: &Value) -> ForeignEvidence {
        let program = format!("sha256:{}", program.repeat(64));
        let digest = format!("sha256:{}", "0".repeat(64));
        serde_json::from_value(json!({
            "imported_at": "2026-01-01T00:00:00.000000000Z", "format": "aiperf", "importer": {"version": "1", "program": program},
            "files": [], "not_read": [], "left_out": [],
            "rows": [{"metric": metric, "statistic": "mean", "unit": "ms", "value": 1.0, "labels": labels}],
            "key": {"name": "keys/import.pub", "digest": digest, "size": "1", "media_type": "text/plain"},
        }))
        .expect("foreign evidence")
    }

    #[test]
    fn labels_of_one_side_and_other_values_are_named() {
        let old = evidence("m", &json!({"concurrency": "2", "same": "1"}));
        let new = evidence("m", &json!({"concurrency": "4", "same": "1", "datasets.main.entries": "8"}));
        let of = |one: &ForeignEvidence, other: &ForeignEvidence| {
            differing_labels([&[one], &[other]], ["the baseline", "the candidate"])
                .map(|found| (found.text, found.may_be_of_importers))
        };
        let both =
            "their labels differ: the candidate alone has `datasets.main.entries`; other values have `concurrency` (2 / 4)";
        assert_eq!(of(&old, &new), Some((both.to_owned(), false)), "one program imported both");
        let of_other = imported("2", "m", &json!({"concurrency": "4", "same": "1", "datasets.main.entries": "8"}));
        assert_eq!(of(&old, &of_other), Some((both.to_owned(), true)));
        let values = evidence("m", &json!({"concurrency": "4", "same": "1"}));
        let changed = "their labels differ: other values have `concurrency` (2 / 4)";
        assert_eq!(of(&old, &values), Some((changed.to_owned(), false)));
        assert_eq!(of(&old, &old), None);
        assert_eq!(of(&old, &evidence("n", &json!({"other": "1"}))), None, "no metric in common");
    }
}
