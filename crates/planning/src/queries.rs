//! Pinned queries: what a query has to be so that its result can be published, and its execution over a run's curated files.
//!
//! A published query selects, joins and orders; the statistics were computed before. So each row of its result names its curated
//! row in the column `row_id`, and every value under the name of one of that row's columns is that row's value. Other columns are
//! allowed: they are shown, and are no numbers.

use assay_failure::{ErrorCode, Exit, Failure};
use assay_manifest::CuratedFile;
use assay_query::{Error, Limits, Query, QueryError, ResultTable, TableColumn, open_files};
use assay_store::{Scratch, Store};
use assay_warehouse::{NUMBER_TABLES, ROW_ID};

/// The most rows that a published query may return: a report is read by people.
const MAX_ROWS: u64 = 10_000;

/// Converts a failure of a query into one for the user of the command, which ends with the exit code `wrong_query` if the query
/// itself is wrong: only the caller knows who wrote it.
pub fn query_failure(error: Error, wrong_query: Exit) -> Failure {
    let hint = error.hint().map(str::to_owned);
    let of_query = |code| Failure::from_error(code, &error).with_exit(wrong_query);
    let failure = match &error {
        Error::Query(QueryError::Refused { .. }) | Error::Foreign(_) => of_query(ErrorCode::QueryRefused),
        Error::Query(QueryError::Invalid { .. }) | Error::NotOpened(_) => of_query(ErrorCode::Query),
        Error::Query(QueryError::OverLimit { .. }) => of_query(ErrorCode::QueryTooLarge),
        Error::Query(QueryError::Failed { .. }) => of_query(ErrorCode::QueryFailed),
        Error::NoProgram(_) => Failure::from_error(ErrorCode::BinaryMissing, &error),
        other if other.fails_verification() => Failure::from_error(ErrorCode::Warehouse, &error),
        Error::Query(QueryError::NoThread { .. }) => Failure::from_error(ErrorCode::Threads, &error),
        Error::Query(QueryError::EngineFailed { .. }) | Error::Write(_) => Failure::from_error(ErrorCode::Internal, &error),
        _ => Failure::from_error(ErrorCode::WarehouseUnavailable, &error),
    };
    Failure { hint, ..failure }
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
        let wrong = |error: Error| query_failure(error, Exit::Definition);
        let sql = std::str::from_utf8(text).map_err(|_| Failure::new(ErrorCode::Query, "it is not UTF-8 text"))?;
        let parsed = Query::parse(sql).map_err(wrong)?;
        if parsed.reads_catalog() {
            return Err(Failure::new(
                ErrorCode::QueryRefused,
                "it reads `information_schema`, which lists things in no fixed order",
            )
            .hint("a published query depends on the run's rows alone"));
        }
        let opened = open_files(store, files, &parsed, scratch).map_err(wrong)?;
        let result = assay_query::run_query(&opened, &parsed, limits).map_err(wrong)?;
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

/// Returns the place of the one column `row_id` of a result.
pub fn row_id_column(result: &ResultTable) -> Result<usize, Failure> {
    let mut found = result.columns.iter().enumerate().filter(|(_, column)| column.name == ROW_ID).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(Failure::new(ErrorCode::QueryWithoutRows, "it gives several columns `row_id`")
            .hint("select one: that of the row whose values are published")),
        _ => Err(Failure::new(ErrorCode::QueryWithoutRows, "it gives no column `row_id`")
            .hint("select `row_id` too: a published number's address is the row that it stands in")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
