//! Checks that published numbers are those of their rows: publish does so before it signs, and a reader afterwards.

use std::collections::BTreeMap;

use assay_manifest::{Address, Count, CuratedFile, Digest, MIN_ROW_DIGITS, Number, NumberSource, Numbers, RunId};
use assay_warehouse::{NUMBER_TABLES, OUTCOME_FACT, ROW_ID, Row, Table, Value};

use crate::{Error, Result};

/// The statistic of a number that has a column of its own in a wide table: the column names it.
const COLUMN: &str = "column";

/// The rows of a run that hold numbers, by table and id, each with the file that holds it.
#[derive(Debug, Default)]
pub struct NumberRows(BTreeMap<(&'static str, String), (Digest, Row)>);

impl NumberRows {
    /// Returns true if rows of this table hold numbers.
    pub fn is_number_table(table: &Table) -> bool {
        NUMBER_TABLES.contains(&table)
    }

    /// Adds the rows of a curated file, without those of a table that holds no numbers. Two rows of a table must not have the
    /// same id.
    pub fn add(&mut self, file: &CuratedFile, rows: Vec<Row>) -> Result<()> {
        for row in rows.into_iter().filter(|row| Self::is_number_table(row.table())) {
            let key = (row.table().name, row.text(ROW_ID).unwrap_or_default().to_owned());
            if let Some((_, row)) = self.0.insert(key, (file.artifact.digest, row)) {
                let row = row.text(ROW_ID).unwrap_or_default().to_owned();
                return Err(Error::RowTwice { row, file: file.artifact.name.clone() });
            }
        }
        Ok(())
    }

    /// Returns the one row of a table whose id begins with these digits.
    fn find_by_prefix(&self, table: &str, digits: &str) -> Option<&(Digest, Row)> {
        let table = NUMBER_TABLES.into_iter().find(|known| known.name == table)?.name;
        let mut found = self.0.range((table, digits.to_owned())..);
        let mut found = found.by_ref().take_while(|((of, id), _)| *of == table && id.starts_with(digits));
        match (found.next(), found.next()) {
            (Some((_, row)), None) => Some(row),
            _ => None,
        }
    }

    /// Returns the row with that whole id, from any table.
    pub(crate) fn find_by_id(&self, id: &str) -> Option<&(Digest, Row)> {
        NUMBER_TABLES.into_iter().find_map(|table| self.0.get(&(table.name, id.to_owned())))
    }
}

/// Returns the number in a column of a row; `None` if the column holds none that is published: text, null, or a value of one
/// trial.
pub(crate) fn read_number(run_id: &RunId, file: Digest, row: &Row, column: &str) -> Option<Number> {
    let text = |column: &str| row.text(column).unwrap_or_default().to_owned();
    let value = match row.get(column)? {
        Value::Float(value) => *value,
        Value::Int(value) => *value as f64,
        _ => return None,
    };
    let is_long = *row.table() == OUTCOME_FACT;
    let (metric, statistic, unit, n) = if is_long {
        if column != "value" || row.get("trial_id") != Some(&Value::Null) {
            return None;
        }
        (text("metric"), text("statistic"), text("unit"), "n")
    } else {
        let described = row.table().columns().find(|known| known.name == column && !known.key)?;
        let unit = match described.unit {
            Some("as `currency` says") => text("currency"),
            unit => unit.unwrap_or("ratio").to_owned(),
        };
        (column.to_owned(), COLUMN.to_owned(), unit, "trials_counted")
    };
    let Some(Value::Int(n)) = row.get(n) else { return None };
    Some(Number {
        address: Address::new(run_id, row.table().name, row.text(ROW_ID)?, column).to_string(),
        benchmark_case_id: text("benchmark_case_id"),
        point_id: text("point_id"),
        metric,
        statistic,
        value,
        unit,
        n: Count(u64::try_from(*n).ok()?),
        source: NumberSource::Rows,
        query: None,
        file,
    })
}

/// Checks that every number agrees with its row and with its address. Otherwise a signed number that was put under another name,
/// unit or case would still find a row with its value.
pub fn check_numbers(run_id: &RunId, numbers: &Numbers, rows: &NumberRows) -> Result<()> {
    let differing = numbers.numbers.iter().find_map(|number| Some((number, difference(run_id, number, rows)?)));
    match differing {
        None => Ok(()),
        Some((Number { address, .. }, difference)) => Err(Error::Number { address: address.clone(), difference }),
    }
}

/// Returns the first field in which a number differs from its row.
fn difference(run_id: &RunId, number: &Number, rows: &NumberRows) -> Option<&'static str> {
    const ADDRESS: &str = "its address";
    let Some(address) = address_in(run_id, &number.address) else { return Some(ADDRESS) };
    let Some((file, row)) = rows.find_by_prefix(address.table(), address.row()) else { return Some(ADDRESS) };
    if row.text("run_id") != Some(run_id.as_str()) {
        return Some("the run");
    }
    // A published number is a statistic across trials.
    if !matches!(row.get("trial_id"), None | Some(Value::Null)) {
        return Some("the trial");
    }
    let Some(expected) = read_number(run_id, *file, row, address.column()) else { return Some(ADDRESS) };
    let comparisons = [
        ("its file", expected.file == number.file),
        ("the case", expected.benchmark_case_id == number.benchmark_case_id),
        ("the point", expected.point_id == number.point_id),
        ("the metric", expected.metric == number.metric),
        ("the statistic", expected.statistic == number.statistic),
        ("the unit", expected.unit == number.unit),
        ("the count", expected.n == number.n),
        // Bits, not values: zero has a sign, which is signed too.
        ("the value", expected.value.to_bits() == number.value.to_bits()),
    ];
    comparisons.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
}

/// Parses an address of this run that names its row unambiguously.
fn address_in(run_id: &RunId, text: &str) -> Option<Address> {
    let address: Address = text.parse().ok()?;
    (address.run_id() == run_id && address.row().len() >= MIN_ROW_DIGITS).then_some(address)
}

#[cfg(test)]
mod tests {
    use assay_failure::{Exit, Failure};
    use assay_manifest::Artifact;
    use assay_warehouse::SERVING_OUTCOME_FACT;
    use proptest::prelude::*;

    use super::*;

    fn run_id() -> RunId {
        "nightly".parse().expect("a run id")
    }

    fn file() -> CuratedFile {
        let (digest, size) = (Digest::compute(b"file"), Count(4));
        let artifact = Artifact { name: "rows/outcome_fact.parquet".to_owned(), digest, size, media_type: "p".to_owned() };
        CuratedFile { table: OUTCOME_FACT.name.to_owned(), rows: Count(2), artifact }
    }

    /// A row of one point, with the columns that every fact has.
    fn point_row(table: &'static Table) -> assay_warehouse::Result<Row> {
        let digest = Digest::compute(b"");
        Row::new(table)
            .with("run_id", "nightly")?
            .with("benchmark_case_id", "w.t.default")?
            .with("workload_spec_digest", digest)?
            .with("artifact_manifest_digest", digest)?
            .with("software_version_key", "s")?
            .with("hardware_topology_key", "h")?
            .with("cluster_region_key", "c")?
            .with("workload_key", "w")?
            .with("artifact_lineage_key", "l")?
            .with("point_id", "one")
    }

    fn row(metric: &str, trial: Option<&str>) -> Row {
        let build = || {
            point_row(&OUTCOME_FACT)?
                .with("trial_id", trial)?
                .with("metric", metric)?
                .with("statistic", "median")?
                .with("value", 1.5)?
                .with("unit", "GB/s")?
                .with("n", 5_i64)?
                .with("valid", true)?
                .with("primary", true)?
                .seal()
        };
        build().expect("a whole row")
    }

    fn rows() -> NumberRows {
        let mut rows = NumberRows::default();
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

    /// Returns the error for the number of a row after a change.
    fn check_changed(change: impl FnOnce(&mut Number)) -> String {
        let mut number = number(&row("rate", None));
        change(&mut number);
        difference(&run_id(), &number, &rows()).unwrap_or("nothing").to_owned()
    }

    #[test]
    fn a_number_is_the_one_in_its_row() {
        assert_eq!(check_changed(|_| {}), "nothing");
        let whole = row("rate", None).text(ROW_ID).expect("an id").to_owned();
        assert_eq!(
            check_changed(|number| number.address = format!("nightly/outcome_fact/{whole}/value")),
            "nothing",
            "all digits will do"
        );
    }

    #[test]
    fn whatever_differs_is_named() {
        assert_eq!(check_changed(|number| number.benchmark_case_id = "other.t.default".to_owned()), "the case");
        assert_eq!(check_changed(|number| number.point_id = "two".to_owned()), "the point");
        assert_eq!(check_changed(|number| number.metric = "latency".to_owned()), "the metric");
        assert_eq!(check_changed(|number| number.statistic = "max".to_owned()), "the statistic");
        assert_eq!(check_changed(|number| number.unit = "MB/s".to_owned()), "the unit");
        assert_eq!(check_changed(|number| number.n = Count(50)), "the count");
        assert_eq!(check_changed(|number| number.value = 1.500_000_000_000_000_2), "the value");
        assert_eq!(check_changed(|number| number.file = Digest::compute(b"other")), "its file");
        let size = number(&row("size", None)).address;
        assert_eq!(check_changed(|number| number.address = size), "the metric", "another row with the same value");
        let trial = number(&row("rate", Some("w.t.default.one.t0"))).address;
        assert_eq!(check_changed(|number| number.address = trial), "the trial", "one trial's value as if it were all of them");
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
            assert_eq!(check_changed(|number| number.address.clone_from(&bad)), "its address", "{bad}");
        }
    }

    #[test]
    fn the_first_wrong_number_is_refused() {
        let (good, mut bad) = (number(&row("rate", None)), number(&row("size", None)));
        bad.value = 2.0;
        let all = |numbers| Numbers {
            run_id: run_id(),
            grade: assay_manifest::Grade {
                requested: assay_manifest::Intent::Exploratory,
                given: assay_manifest::Intent::Exploratory,
                shortfalls: Vec::new(),
                declared: Vec::new(),
            },
            summary: Digest::compute(b""),
            numbers,
        };
        check_numbers(&run_id(), &all(vec![good.clone()]), &rows()).expect("the number of its row");
        let error = check_numbers(&run_id(), &all(vec![good, bad.clone()]), &rows()).expect_err("another value");
        let failure = Failure::from(error);
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Verification, "number_not_in_row"));
        assert_eq!(failure.message, format!("the number `{}` is not the one in its row: the value differs", bad.address));
    }

    #[test]
    fn a_row_is_there_once() {
        let mut rows = rows();
        let failure = rows.add(&file(), vec![row("rate", None)]).expect_err("again");
        assert_eq!(failure.code().as_str(), "row_twice");
    }

    #[test]
    fn a_column_of_a_wide_row_is_a_number_with_the_column_s_unit() {
        let digest = Digest::compute(b"");
        let build = || {
            point_row(&SERVING_OUTCOME_FACT)?
                .with("point_kind", "concurrency")?
                .with("trials_counted", 5_i64)?
                .with("requests", 100_i64)?
                .with("completed", 100_i64)?
                .with("failed", 0_i64)?
                .with("dropped", 0_i64)?
                .with("cancelled", 0_i64)?
                .with("duration_ns", 1_000_i64)?
                .with("ttft_ns_p99", 12_000_000_i64)?
                .with("currency", "EUR")?
                .with("cost_per_token", 0.25)?
                .seal()
        };
        let row = build().expect("a whole row");
        let number = read_number(&run_id(), digest, &row, "ttft_ns_p99").expect("a number");
        assert_eq!((number.metric.as_str(), number.unit.as_str(), number.value, number.n), ("ttft_ns_p99", "ns", 12e6, Count(5)));
        assert!(number.address.starts_with("nightly/serving_outcome_fact/") && number.address.ends_with("/ttft_ns_p99"));
        assert_eq!(read_number(&run_id(), digest, &row, "cost_per_token").map(|number| number.unit), Some("EUR".to_owned()));
        assert_eq!(read_number(&run_id(), digest, &row, "tpot_ns_p99"), None, "nothing is no number");
        assert_eq!(read_number(&run_id(), digest, &row, "point_id"), None, "text is no number");
        let mut rows = NumberRows::default();
        rows.add(&file(), vec![row]).expect("distinct");
        let mut number = Number { file: file().artifact.digest, ..number };
        assert_eq!(difference(&run_id(), &number, &rows), None);
        number.unit = "ms".to_owned();
        assert_eq!(difference(&run_id(), &number, &rows), Some("the unit"));
    }

    proptest! {
        #[test]
        fn whatever_an_address_is_it_names_a_row_or_none(address in "(nightly/outcome_fact/)?\\PC{0,40}(/value)?") {
            if let Some(found) = address_in(&run_id(), &address) {
                prop_assert_eq!(address, found.to_string());
            }
        }
    }
}
