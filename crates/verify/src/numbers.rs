//! Whether published numbers are those of their rows: what publish checks before it signs, and a reader after.

use std::collections::BTreeMap;

use assay_manifest::{CuratedFile, Digest, Number, Numbers, RunId};
use assay_stage::Failure;
use assay_warehouse::{OUTCOME_FACT, ROW_ID, Row, Value};

/// The fewest digits of a row id in an address. Forty-eight bits part the rows of any one run.
const MIN_ROW_DIGITS: usize = 12;

/// The outcome rows of a run by their ids, each with the file that holds it.
#[derive(Debug, Default)]
pub struct OutcomeRows(BTreeMap<String, (Digest, Row)>);

impl OutcomeRows {
    /// Adds the rows of a curated file. No two rows of a run have one id.
    pub fn add(&mut self, file: &CuratedFile, rows: Vec<Row>) -> Result<(), Failure> {
        for row in rows {
            let id = row.text(ROW_ID).unwrap_or_default().to_owned();
            if let Some((_, row)) = self.0.insert(id, (file.artifact.digest, row)) {
                let id = row.text(ROW_ID).unwrap_or_default();
                return Err(Failure::verification(
                    "row_twice",
                    format!("the row `{id}` of `{}` is there twice", file.artifact.name),
                ));
            }
        }
        Ok(())
    }

    /// The one row whose id begins with these digits.
    fn only(&self, digits: &str) -> Option<&(Digest, Row)> {
        let mut found = self.0.range(digits.to_owned()..).take_while(|(id, _)| id.starts_with(digits));
        match (found.next(), found.next()) {
            (Some((_, row)), None) => Some(row),
            _ => None,
        }
    }
}

/// Every number says what its row says, and lies where its address says. Signed numbers that were put under another name, unit or
/// case would otherwise still find a row with their value.
pub fn check_numbers(run_id: &RunId, numbers: &Numbers, rows: &OutcomeRows) -> Result<(), Failure> {
    let differing = numbers.numbers.iter().find_map(|number| Some((number, difference(run_id, number, rows)?)));
    match differing {
        None => Ok(()),
        Some((Number { address, .. }, what)) => Err(Failure::verification(
            "number_not_in_row",
            format!("the number `{address}` is not the one in its row: {what} differs"),
        )),
    }
}

/// The first thing in which a number differs from its row.
fn difference(run_id: &RunId, number: &Number, rows: &OutcomeRows) -> Option<&'static str> {
    let Some((file, row)) = row_digits(run_id, &number.address).and_then(|digits| rows.only(digits)) else {
        return Some("its address");
    };
    let text = |column: &str| row.text(column).unwrap_or_default();
    let count = i64::try_from(number.n.0).unwrap_or(i64::MAX);
    let comparisons = [
        ("its file", *file == number.file),
        ("the run", text("run_id") == run_id.as_str()),
        ("the case", text("benchmark_case_id") == number.benchmark_case_id),
        ("the point", text("point_id") == number.point_id),
        // A published number is a statistic across trials.
        ("the trial", row.get("trial_id") == Some(&Value::Null)),
        ("the metric", text("metric") == number.metric),
        ("the statistic", text("statistic") == number.statistic),
        ("the unit", text("unit") == number.unit),
        ("the count", row.get("n") == Some(&Value::Int(count))),
        ("the value", row.get("value") == Some(&Value::Float(number.value))),
    ];
    comparisons.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
}

/// The digits of the row id in `<run>/outcome_fact/<digits>/value`.
fn row_digits<'a>(run_id: &RunId, address: &'a str) -> Option<&'a str> {
    let inside = address.strip_prefix(run_id.as_str())?.strip_prefix('/')?.strip_prefix(OUTCOME_FACT.name)?.strip_prefix('/')?;
    inside.strip_suffix("/value").filter(|digits| digits.len() >= MIN_ROW_DIGITS)
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Artifact, Count, NumberSource};
    use assay_stage::Exit;
    use proptest::prelude::*;

    use super::*;

    fn run_id() -> RunId {
        "nightly".parse().expect("a run id")
    }

    fn file() -> CuratedFile {
        let (digest, size) = (Digest::of(b"file"), Count(4));
        let artifact = Artifact { name: "rows/outcome_fact.parquet".to_owned(), digest, size, media_type: "p".to_owned() };
        CuratedFile { table: OUTCOME_FACT.name.to_owned(), rows: Count(2), artifact }
    }

    fn row(metric: &str, trial: Option<&str>) -> Row {
        let digest = Digest::of(b"");
        let build = || {
            Row::new(&OUTCOME_FACT)
                .with("run_id", "nightly")?
                .with("benchmark_case_id", "w.t.default")?
                .with("workload_spec_digest", digest)?
                .with("artifact_manifest_digest", digest)?
                .with("software_version_key", "s")?
                .with("hardware_topology_key", "h")?
                .with("cluster_region_key", "c")?
                .with("workload_key", "w")?
                .with("artifact_lineage_key", "l")?
                .with("point_id", "one")?
                .with("trial_id", trial)?
                .with("metric", metric)?
                .with("statistic", "median")?
                .with("value", 1.5)?
                .with("unit", "GB/s")?
                .with("n", 5_i64)?
                .with("valid", true)?
                .with("primary", true)?
                .sealed()
        };
        build().expect("a whole row")
    }

    fn rows() -> OutcomeRows {
        let mut rows = OutcomeRows::default();
        rows.add(&file(), vec![row("rate", None), row("rate", Some("w.t.default.one.t0")), row("size", None)]).expect("distinct");
        rows
    }

    fn number(row: &Row) -> Number {
        let id = row.text(ROW_ID).expect("an id");
        Number {
            address: format!("nightly/outcome_fact/{}/value", &id[..12]),
            benchmark_case_id: "w.t.default".to_owned(),
            point_id: "one".to_owned(),
            metric: row.text("metric").expect("a metric").to_owned(),
            statistic: "median".to_owned(),
            value: 1.5,
            unit: "GB/s".to_owned(),
            n: Count(5),
            source: NumberSource::Rows,
            query: None,
            file: file().artifact.digest,
        }
    }

    /// What is said of the number of a row after a change.
    fn said(change: impl FnOnce(&mut Number)) -> String {
        let mut number = number(&row("rate", None));
        change(&mut number);
        difference(&run_id(), &number, &rows()).unwrap_or("nothing").to_owned()
    }

    #[test]
    fn a_number_is_the_one_in_its_row() {
        assert_eq!(said(|_| {}), "nothing");
        let whole = row("rate", None).text(ROW_ID).expect("an id").to_owned();
        assert_eq!(
            said(|number| number.address = format!("nightly/outcome_fact/{whole}/value")),
            "nothing",
            "all digits will do"
        );
    }

    #[test]
    fn whatever_differs_is_named() {
        assert_eq!(said(|number| number.benchmark_case_id = "other.t.default".to_owned()), "the case");
        assert_eq!(said(|number| number.point_id = "two".to_owned()), "the point");
        assert_eq!(said(|number| number.metric = "latency".to_owned()), "the metric");
        assert_eq!(said(|number| number.statistic = "max".to_owned()), "the statistic");
        assert_eq!(said(|number| number.unit = "MB/s".to_owned()), "the unit");
        assert_eq!(said(|number| number.n = Count(50)), "the count");
        assert_eq!(said(|number| number.value = 1.500_000_000_000_000_2), "the value");
        assert_eq!(said(|number| number.file = Digest::of(b"other")), "its file");
        let size = number(&row("size", None)).address;
        assert_eq!(said(|number| number.address = size), "the metric", "another row with the same value");
        let trial = number(&row("rate", Some("w.t.default.one.t0"))).address;
        assert_eq!(said(|number| number.address = trial), "the trial", "one trial's value as if it were all of them");
    }

    #[test]
    fn an_address_names_one_row() {
        let id = row("rate", None).text(ROW_ID).expect("an id").to_owned();
        let bad = [
            String::new(),
            "nightly/outcome_fact//value".to_owned(),
            format!("nightly/outcome_fact/{}/value", &id[..11]),
            format!("weekly/outcome_fact/{id}/value"),
            format!("nightly/workload_dim/{id}/value"),
            format!("nightly/outcome_fact/{id}/n"),
            format!("nightly/outcome_fact/{id}"),
            format!("nightly/outcome_fact/{}/value", "0".repeat(64)),
        ];
        for bad in bad {
            assert_eq!(said(|number| number.address.clone_from(&bad)), "its address", "{bad}");
        }
    }

    #[test]
    fn the_first_wrong_number_is_refused() {
        let (good, mut bad) = (number(&row("rate", None)), number(&row("size", None)));
        bad.value = 2.0;
        let all = |numbers| Numbers {
            run_id: run_id(),
            grade: assay_manifest::Grade {
                asked: assay_manifest::Intent::Exploratory,
                given: assay_manifest::Intent::Exploratory,
                shortfalls: Vec::new(),
            },
            summary: Digest::of(b""),
            numbers,
        };
        assert_eq!(check_numbers(&run_id(), &all(vec![good.clone()]), &rows()), Ok(()));
        let failure = check_numbers(&run_id(), &all(vec![good, bad.clone()]), &rows()).expect_err("another value");
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Verification, "number_not_in_row"));
        assert_eq!(failure.message, format!("the number `{}` is not the one in its row: the value differs", bad.address));
    }

    #[test]
    fn a_row_is_there_once() {
        let mut rows = rows();
        let failure = rows.add(&file(), vec![row("rate", None)]).expect_err("again");
        assert_eq!(failure.code, "row_twice");
    }

    proptest! {
        #[test]
        fn whatever_an_address_is_it_names_a_row_or_none(address in "(nightly/outcome_fact/)?\\PC{0,40}(/value)?") {
            let digits = row_digits(&run_id(), &address).map(str::to_owned);
            if let Some(digits) = digits {
                prop_assert_eq!(address, format!("nightly/outcome_fact/{digits}/value"));
            }
        }
    }
}
