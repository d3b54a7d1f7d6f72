//! Pinned queries: their results over a run's curated files, and the numbers that they publish.
//!
//! A published query selects, joins and orders; the statistics were computed before. So each row of its result names its curated
//! row in the column `row_id`, and every value under the name of one of that row's columns is that row's value. Other columns are
//! allowed: they are shown, and are no numbers.

use std::collections::BTreeMap;

use assay_failure::{ErrorCode, Exit, Failure};
use assay_manifest::{Number, NumberSource, PinnedFile, RunId};
use assay_planning::{query_failure, row_id_column};
use assay_query::{Cell, ResultTable};
use assay_warehouse::Value;

use crate::numbers::{NumberRows, read_number};
use crate::published::PublishedFile;
use crate::{Error, QueryRowFault, Result};

/// Converts a failure of the warehouse into one for the user of the command, which ends with the exit code `wrong_query` if a
/// query itself is wrong: only the caller knows who wrote it.
pub fn lake_failure(error: impl Into<assay_lake::Error>, wrong_query: Exit) -> Failure {
    use assay_lake::Error;
    let error: Error = error.into();
    let hint = error.hint().map(str::to_owned);
    let code = match error {
        Error::Query(error) => return query_failure(error, wrong_query),
        Error::OtherSchema { .. } => ErrorCode::OldFormat,
        ref error if error.fails_verification() => ErrorCode::Warehouse,
        Error::NoRunRows { .. } | Error::NoVersion { .. } => ErrorCode::Warehouse,
        Error::Panicked(_) => ErrorCode::Internal,
        _ => ErrorCode::WarehouseUnavailable,
    };
    Failure { hint, ..Failure::from_error(code, &error) }
}

/// Makes the published file of a query's result: `results/queries/latency.csv` for `queries/latency.sql`.
pub fn query_result_file(query: &PinnedFile, result: &ResultTable) -> PublishedFile {
    let path = query.path.strip_suffix(".sql").unwrap_or(&query.path);
    PublishedFile { name: format!("results/{path}.csv"), media_type: "text/csv", bytes: result.csv().into_bytes() }
}

/// Returns the numbers that a query's result publishes, row by row. Fails if a row is not of the run, or if a value under the
/// name of one of its columns is not the row's.
pub fn query_numbers(run_id: &RunId, query: &PinnedFile, result: &ResultTable, rows: &NumberRows) -> Result<Vec<Number>> {
    let id_column = row_id_column(result)?;
    let refuse = |fault: QueryRowFault| Err(Error::QueryRow { query: query.path.clone(), fault });
    let mut numbers = Vec::new();
    for cells in &result.rows {
        let Some(Cell::Text(id)) = cells.get(id_column) else {
            return refuse(QueryRowFault::NoRowId);
        };
        let Some((file, row)) = rows.find_by_id(id) else {
            return refuse(QueryRowFault::UnknownRow(id.clone()));
        };
        for (column, cell) in result.columns.iter().zip(cells) {
            let Some(value) = row.get(&column.name) else { continue };
            if !is_same(cell, value) {
                return refuse(QueryRowFault::OtherValue { row: id.clone(), column: column.name.clone() });
            }
            let number = read_number(run_id, *file, row, &column.name);
            numbers.extend(number.map(|number| Number {
                source: NumberSource::Query,
                query: Some(query.artifact.clone()),
                ..number
            }));
        }
    }
    Ok(numbers)
}

fn is_same(cell: &Cell, value: &Value) -> bool {
    match (cell, value) {
        (Cell::Null, Value::Null) => true,
        (Cell::Bool(cell), Value::Bool(value)) => cell == value,
        (Cell::Int(cell), Value::Int(value)) => cell == value,
        (Cell::Int(cell), Value::Instant(value)) => *cell == value.unix_ns(),
        (Cell::Float(cell), Value::Float(value)) => cell.to_bits() == value.to_bits(),
        (Cell::Text(cell), Value::Text(value)) => cell == value,
        _ => false,
    }
}

/// Returns all published numbers: those of the Summary's statistics, then those that queries select in addition, each once. A
/// number that several queries select belongs to the first one.
pub fn merge_query_numbers(numbers: Vec<Number>, selected: impl IntoIterator<Item = Number>) -> Vec<Number> {
    let mut numbers = numbers;
    let mut places: BTreeMap<String, usize> =
        numbers.iter().enumerate().map(|(place, number)| (number.address.clone(), place)).collect();
    for number in selected {
        match places.get(&number.address).and_then(|place| numbers.get_mut(*place)) {
            Some(known) if known.source == NumberSource::Query => {}
            Some(known) => *known = number,
            None => {
                places.insert(number.address.clone(), numbers.len());
                numbers.push(number);
            }
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Count, Digest};

    use super::*;

    fn number(address: &str, source: NumberSource, unit: &str) -> Number {
        Number {
            address: address.to_owned(),
            benchmark_case_id: "w.t.default".to_owned(),
            point_id: "one".to_owned(),
            metric: "rate".to_owned(),
            statistic: "median".to_owned(),
            value: 1.0,
            unit: unit.to_owned(),
            n: Count(5),
            source,
            query: None,
            file: Digest::compute(b"file"),
        }
    }

    #[test]
    fn a_number_is_published_once_and_is_its_first_query_s() {
        let (rows, query) = (NumberSource::Rows, NumberSource::Query);
        let base = vec![number("a", rows, "base"), number("b", rows, "base")];
        let selected = [
            number("b", query, "first"),
            number("c", query, "first"),
            number("b", query, "second"),
            number("c", query, "second"),
        ];
        let all = merge_query_numbers(base, selected);
        let said: Vec<_> = all.iter().map(|number| (number.address.as_str(), number.source, number.unit.as_str())).collect();
        assert_eq!(said, [("a", rows, "base"), ("b", query, "first"), ("c", query, "first")]);
    }

    #[test]
    fn a_cell_is_its_row_s_value_to_the_last_bit() {
        assert!(is_same(&Cell::Float(0.1), &Value::Float(0.1)));
        assert!(!is_same(&Cell::Float(0.1 + 0.2), &Value::Float(0.3)));
        assert!(!is_same(&Cell::Float(0.0), &Value::Float(-0.0)), "zero has a sign");
        assert!(!is_same(&Cell::Float(1.0), &Value::Int(1)), "another type is another value");
        assert!(is_same(&Cell::Null, &Value::Null) && !is_same(&Cell::Null, &Value::Int(0)));
        assert!(is_same(&Cell::Int(7), &Value::Instant(assay_manifest::Instant::from_unix_ns(7))));
    }

    #[test]
    fn failures_of_the_warehouse_keep_their_kind() {
        use assay_lake::Error;
        let exit = |error: Error| lake_failure(error, Exit::Usage).exit;
        let refused = assay_query::Error::from(assay_query::QueryError::refused(""));
        assert_eq!(exit(refused.into()), Exit::Usage);
        assert_eq!(exit(Error::Missing { table: "t", digest: Digest::compute(b"") }), Exit::Verification);
        assert_eq!(exit(Error::Contended { table: "t", attempts: 3 }), Exit::Environment);
    }
}
