//! Pinned queries: their results over a run's curated files, and the numbers that they publish.
//!
//! A published query selects, joins and orders; the statistics were computed before. So each row of its result names its curated
//! row in the column `row_id`, and every value under the name of one of that row's columns is that row's value. Other columns are
//! allowed: they are shown, and are no numbers.

use std::collections::BTreeMap;

use assay_lake::{Cell, Error, Limits, Query, QueryError, Reading, ResultTable, TableColumn};
use assay_manifest::{CuratedFile, Number, NumberSource, PinnedFile, RunId};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::{Scratch, Store};
use assay_warehouse::{ROW_ID, Value};

use crate::numbers::{NUMBER_TABLES, NumberRows, read_number};
use crate::published::PublishedFile;

/// The most rows that a published query may return: a report is read by people.
const MAX_ROWS: u64 = 10_000;

/// Turns a failure of the warehouse into one for the user of the command. A wrong query becomes a failure of kind `wrong_query`.
pub fn lake_failure(error: Error, wrong_query: Exit) -> Failure {
    let hint = error.hint().map(str::to_owned);
    let (exit, code) = match &error {
        Error::Query(QueryError::Refused { .. }) => (wrong_query, ErrorCode::QueryRefused),
        Error::Query(QueryError::Wrong { .. }) | Error::NotOpened(_) => (wrong_query, ErrorCode::Query),
        Error::Query(QueryError::OverLimit { .. }) => (wrong_query, ErrorCode::QueryTooLarge),
        Error::Query(QueryError::Failed { .. }) => (wrong_query, ErrorCode::QueryFailed),
        Error::NoProgram(_) => (Exit::Usage, ErrorCode::BinaryMissing),
        Error::OtherSchema { .. } => (Exit::Environment, ErrorCode::OldFormat),
        error if error.fails_verification() => (Exit::Verification, ErrorCode::Warehouse),
        Error::NoRunRows { .. } | Error::NoVersion { .. } => (Exit::Verification, ErrorCode::Warehouse),
        Error::Query(QueryError::GaveUp { .. }) | Error::GaveUp(_) | Error::Write(_) => (Exit::Unexpected, ErrorCode::Warehouse),
        _ => (Exit::Environment, ErrorCode::Warehouse),
    };
    Failure { hint, ..Failure::from_error(code, &error).with_exit(exit) }
}

/// Executes a query over a run's curated files in `store`. Its failures name the query's file, `path`.
pub fn run_query(
    path: &str,
    text: &[u8],
    files: &[CuratedFile],
    store: &Store,
    scratch: &Scratch,
) -> Result<ResultTable, Failure> {
    let limits = Limits { rows: MAX_ROWS, ..Limits::default() };
    let named = |failure: Failure| Failure { message: format!("`{path}`: {}", failure.message), ..failure };
    let asked = || {
        let wrong = |error: Error| lake_failure(error, Exit::Definition);
        let sql = std::str::from_utf8(text).map_err(|_| Failure::new(ErrorCode::Query, "it is not UTF-8 text"))?;
        let parsed = Query::parse(sql).map_err(wrong)?;
        if parsed.reads_catalog() {
            return Err(Failure::new(
                ErrorCode::QueryRefused,
                "it reads `information_schema`, which lists things in no fixed order",
            )
            .hint("a published query depends on the run's rows alone"));
        }
        let reading = Reading::from_files(store, files, &parsed, scratch).map_err(wrong)?;
        let result = reading.run_query(&parsed, limits).map_err(wrong)?;
        check_columns(&result).map(|()| result)
    };
    asked().map_err(named)
}

/// Checks that a query can be published, as far as that is known before the measurement: over tables without rows.
pub fn check_query(path: &str, text: &[u8]) -> Result<(), Failure> {
    let (store, scratch) = (Store::open("memory:")?, Scratch::new(0)?);
    run_query(path, text, &[], &store, &scratch).map(|_| ())
}

/// Checks that the columns of a result can be published: each has a plain name, `row_id` is that of a table that holds numbers,
/// and a column that has the name of one of that table's columns is that very column of the same table.
fn check_columns(result: &ResultTable) -> Result<(), Failure> {
    let row_id = result.columns.get(row_id_column(result)?).and_then(|column| column.table_column.as_ref());
    let of_numbers = |from: &&TableColumn| from.column == ROW_ID && NUMBER_TABLES.iter().any(|table| table.name == from.table);
    let Some(TableColumn { table, .. }) = row_id.filter(of_numbers) else {
        return Err(Failure::new(ErrorCode::QueryChangesRows, "its column `row_id` is not that of a table that holds numbers")
            .hint("published rows are those of `outcome_fact`, `serving_outcome_fact` and `training_outcome_fact`, one in each query"));
    };
    for column in &result.columns {
        let name: String = column.name.chars().take(80).flat_map(char::escape_default).collect();
        let is_plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
        if !column.name.starts_with(|first: char| first.is_ascii_lowercase()) || !column.name.chars().all(is_plain) {
            return Err(Failure::new(ErrorCode::QueryColumnName, format!("it names a column `{name}`"))
                .hint("a published column's name is of lower-case letters, digits and `_`: give it one with `AS`"));
        }
        let is_of_table = NUMBER_TABLES.iter().any(|table| table.columns().any(|of_table| of_table.name == column.name));
        let is_it = |from: &TableColumn| from.table == *table && from.column == column.name;
        if is_of_table && !column.table_column.as_ref().is_some_and(is_it) {
            let message = format!("its column `{name}` is not the column of that name of `{table}`, as it stands there");
            return Err(Failure::new(ErrorCode::QueryChangesRows, message).hint(
                "give another column, or one that you compute, a name of its own with `AS`: statistics are not made by queries",
            ));
        }
    }
    Ok(())
}

fn row_id_column(result: &ResultTable) -> Result<usize, Failure> {
    let mut found = result.columns.iter().enumerate().filter(|(_, column)| column.name == ROW_ID).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(Failure::new(ErrorCode::QueryWithoutRows, "it gives several columns `row_id`")
            .hint("select one: that of the row whose values are published")),
        _ => Err(Failure::new(ErrorCode::QueryWithoutRows, "it gives no column `row_id`")
            .hint("select `row_id` too: a published number's address is the row that it stands in")),
    }
}

/// Makes the published file of a query's result: `results/queries/latency.csv` for `queries/latency.sql`.
pub fn query_result_file(query: &PinnedFile, result: &ResultTable) -> PublishedFile {
    let path = query.path.strip_suffix(".sql").unwrap_or(&query.path);
    PublishedFile { name: format!("results/{path}.csv"), media_type: "text/csv", bytes: result.csv().into_bytes() }
}

/// Returns the numbers that a query's result publishes, row by row. Fails if a row is not of the run, or if a value under the
/// name of one of its columns is not the row's.
pub fn query_numbers(
    run_id: &RunId,
    query: &PinnedFile,
    result: &ResultTable,
    rows: &NumberRows,
) -> Result<Vec<Number>, Failure> {
    let id_column = row_id_column(result)?;
    let refuse = |message: String, hint: &str| {
        Err(Failure::new(ErrorCode::QueryChangesRows, format!("`{}`: {message}", query.path)).hint(hint))
    };
    let mut numbers = Vec::new();
    for cells in &result.rows {
        let Some(Cell::Text(id)) = cells.get(id_column) else {
            return refuse("a row has no `row_id`".to_owned(), "an outer join may have made it; select rows that are there");
        };
        let Some((file, row)) = rows.find_by_id(id) else {
            let hint = "published rows are those of `outcome_fact`, `serving_outcome_fact` and `training_outcome_fact`";
            return refuse(format!("`row_id` {id} is no row of this run that holds numbers"), hint);
        };
        for (column, cell) in result.columns.iter().zip(cells) {
            let Some(value) = row.get(&column.name) else { continue };
            if !is_same(cell, value) {
                let message = format!("the row {id} holds another `{}` than the query gives", column.name);
                return refuse(message, "give a column that you compute a name of its own: statistics are not made by queries");
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
    fn a_query_is_checked_before_there_are_rows() {
        let code = |sql: &str| check_query("queries/q.sql", sql.as_bytes()).map_err(|failure| failure.code.to_string());
        assert_eq!(code("SELECT row_id, value FROM outcome_fact"), Ok(()));
        assert_eq!(code("SELECT value FROM outcome_fact"), Err("query_without_rows".to_owned()));
        assert_eq!(code("SELECT a.row_id, b.row_id FROM outcome_fact a, outcome_fact b"), Err("query_without_rows".to_owned()));
        assert_eq!(code("DROP TABLE outcome_fact"), Err("query_refused".to_owned()));
        let changes = Err("query_changes_rows".to_owned());
        assert_eq!(code("SELECT row_id, value * 2 AS value FROM outcome_fact"), changes);
        assert_eq!(code("SELECT row_id, unit AS metric FROM outcome_fact"), changes);
        assert_eq!(code("SELECT upper(row_id) AS row_id, value FROM outcome_fact"), changes);
        assert_eq!(code("SELECT row_id, value * 2 AS twice FROM outcome_fact"), Ok(()));
        // A value of another table, and rows that hold no numbers.
        assert_eq!(code("SELECT s.row_id, x.value FROM serving_outcome_fact s, generate_series(7, 7) x"), changes);
        let joined = "FROM outcome_fact o JOIN serving_outcome_fact s ON o.point_id = s.point_id";
        assert_eq!(code(&format!("SELECT o.row_id, s.ttft_ns_p99 {joined}")), changes);
        assert_eq!(code(&format!("SELECT o.row_id, o.value, s.ttft_ns_p99 AS of_the_point {joined}")), Ok(()));
        assert_eq!(code("SELECT row_id, workload FROM workload_dim"), changes);
        assert_eq!(code("SELECT row_id, value FROM outcomes ORDER BY value * 2"), Ok(()));
        let catalog =
            "SELECT row_id, t.table_name AS note FROM outcome_fact, (SELECT table_name FROM information_schema.tables) t";
        assert_eq!(code(catalog), Err("query_refused".to_owned()));
        for name in ["VALUE", "value ", "vаlue", "1value", "=cmd()", ""] {
            let sql = format!("SELECT row_id, 1.0 AS \"{name}\" FROM outcome_fact");
            assert_eq!(code(&sql), Err("query_column_name".to_owned()), "{name}");
        }
        let failure = check_query("queries/q.sql", b"\xff").expect_err("no text");
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Definition, "`queries/q.sql`: it is not UTF-8 text"));
    }

    #[test]
    fn failures_of_the_warehouse_keep_their_kind() {
        let exit = |error: Error| lake_failure(error, Exit::Usage).exit;
        assert_eq!(exit(QueryError::refused("").into()), Exit::Usage);
        assert_eq!(exit(Error::Missing { table: "t", digest: Digest::compute(b"") }), Exit::Verification);
        assert_eq!(exit(Error::Contended { table: "t", attempts: 3 }), Exit::Environment);
    }
}
