//! The result of a query, and its output formats. All of them are pure: equal results give equal bytes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value as Json};

use crate::{Error, Result};

/// The type of a column of a result. Types that the tables do not have, such as dates, become text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// True or false.
    Bool,
    /// A 64-bit whole number.
    Int,
    /// A double.
    Float,
    /// Text.
    Text,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A missing value.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A double; it may be infinite or no number.
    Float(f64),
    /// Text.
    Text(String),
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultColumn {
    /// Its name. Names need not differ.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// The column of a table that it copies, value by value; `None` if the query computed it.
    pub table_column: Option<TableColumn>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
}

/// The number of rows read from a Parquet file at a time.
const READ_ROWS: usize = 8 * 1024;

/// The rows of a query's result, in the query's order.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultTable {
    /// The columns.
    pub columns: Vec<ResultColumn>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

impl ResultTable {
    /// Returns comma-separated values after RFC 4180 with `\n` as line end and a header. Null is nothing between two commas,
    /// empty text is `""`.
    pub fn csv(&self) -> String {
        let line = |fields: Vec<String>| fields.join(",") + "\n";
        let header = line(self.columns.iter().map(|column| quoted(&column.name)).collect());
        let rows = self.rows.iter().map(|row| {
            line(row.iter().map(|cell| if let Cell::Text(text) = cell { quoted(text) } else { cell_text(cell) }).collect())
        });
        std::iter::once(header).chain(rows).collect()
    }

    /// Returns one JSON object for each row, a line each, its names in the order of the columns. Numbers that are not finite are
    /// null: JSON cannot express them. Of columns with one name, the later get `_2`, `_3` and so on.
    pub fn json_lines(&self) -> String {
        let names: Vec<_> = self.unique_names().into_iter().map(|name| Json::from(name).to_string()).collect();
        let mut lines = String::new();
        for row in &self.rows {
            let fields: Vec<_> = names.iter().zip(row).map(|(name, cell)| format!("{name}:{}", json(cell))).collect();
            let _ = writeln!(lines, "{{{}}}", fields.join(","));
        }
        lines
    }

    /// Returns a Parquet file. Columns are nullable; of columns with one name, the later get `_2`, `_3` and so on.
    pub fn parquet(&self) -> Result<Vec<u8>> {
        let failed = |source: parquet::errors::ParquetError| Error::Write(Box::new(source));
        let batch = self.record_batch().map_err(|source| Error::Write(Box::new(source)))?;
        let level = ZstdLevel::try_new(3).map_err(failed)?;
        let properties = WriterProperties::builder().set_created_by("assay".to_owned()).set_compression(Compression::ZSTD(level));
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
        writer.close().map_err(failed)?;
        Ok(bytes)
    }

    /// Returns columns of text for a terminal: numbers to the right, everything else to the left, control characters escaped.
    pub fn text(&self) -> String {
        let header: Vec<_> = self.columns.iter().map(|column| escape_controls(&column.name)).collect();
        let rows: Vec<Vec<_>> =
            self.rows.iter().map(|row| row.iter().map(|cell| escape_controls(&cell_text(cell))).collect()).collect();
        let width = |index: usize| {
            let cells = std::iter::once(&header).chain(&rows).filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        // The library pads up to this width and panics beyond it.
        let widths: Vec<_> = (0..header.len()).map(width).map(|width| width.min(usize::from(u16::MAX))).collect();
        let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
        let mut text = String::new();
        for row in [header.clone(), rule].iter().chain(&rows) {
            let cells = row.iter().zip(&self.columns).zip(&widths).map(|((cell, column), width)| match column.kind {
                Kind::Int | Kind::Float => format!("{cell:>width$}"),
                Kind::Bool | Kind::Text => format!("{cell:<width$}"),
            });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    fn unique_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for column in &self.columns {
            let fresh = |name: &String| !names.contains(name);
            let numbered = (2..).map(|number| format!("{}_{number}", column.name));
            let name = std::iter::once(column.name.clone()).chain(numbered).find(fresh);
            names.extend(name);
        }
        names
    }

    fn record_batch(&self) -> Result<RecordBatch, ArrowError> {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for (index, (column, name)) in self.columns.iter().zip(self.unique_names()).enumerate() {
            let array = array(column.kind, self.rows.iter().map(|row| row.get(index).unwrap_or(&Cell::Null)));
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
    }
}

fn array<'a>(kind: Kind, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    match kind {
        Kind::Bool => {
            Arc::new(cells.map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None }).collect::<BooleanArray>())
        }
        Kind::Int => {
            Arc::new(cells.map(|cell| if let Cell::Int(value) = cell { Some(*value) } else { None }).collect::<Int64Array>())
        }
        Kind::Float => {
            Arc::new(cells.map(|cell| if let Cell::Float(value) = cell { Some(*value) } else { None }).collect::<Float64Array>())
        }
        Kind::Text => {
            Arc::new(cells.map(|cell| if let Cell::Text(value) = cell { Some(value) } else { None }).collect::<StringArray>())
        }
    }
}

/// Returns a cell as the shortest text that reads back as the same value.
fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Bool(value) => value.to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Float(value) => Number::from_f64(*value).map_or_else(|| value.to_string(), |number| number.to_string()),
        Cell::Text(value) => value.clone(),
    }
}

fn quoted(text: &str) -> String {
    let special = text.is_empty() || text.contains([',', '"', '\n', '\r']);
    if special { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn json(cell: &Cell) -> Json {
    match cell {
        Cell::Null => Json::Null,
        Cell::Bool(value) => Json::from(*value),
        Cell::Int(value) => Json::from(*value),
        Cell::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Cell::Text(value) => Json::from(value.as_str()),
    }
}

/// Escapes text so that it cannot control a terminal.
fn escape_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => shown.extend(character.escape_unicode()),
            other if other.is_control() => shown.extend(other.escape_debug()),
            other => shown.push(other),
        }
    }
    shown
}

/// Parses the output of [`ResultTable::parquet`], with the given columns. Fails with the first mismatch.
pub(crate) fn from_parquet(columns: Vec<ResultColumn>, bytes: Vec<u8>) -> Result<ResultTable, String> {
    let reader = ParquetRecordBatchReader::try_new(Bytes::from(bytes), READ_ROWS).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| error.to_string())?;
        if batch.num_columns() != columns.len() {
            return Err(format!("its rows have {} columns of {}", batch.num_columns(), columns.len()));
        }
        let cells = batch.columns().iter().zip(&columns).map(|(array, column)| cells(array, column));
        let mut cells = cells.collect::<Result<Vec<_>, _>>()?;
        let mut cells: Vec<_> = cells.iter_mut().map(|column| column.drain(..)).collect();
        for _ in 0..batch.num_rows() {
            rows.push(cells.iter_mut().map(|column| column.next().unwrap_or(Cell::Null)).collect());
        }
    }
    Ok(ResultTable { columns, rows })
}

fn cells(array: &ArrayRef, column: &ResultColumn) -> Result<Vec<Cell>, String> {
    let other = || format!("its column `{}` is {}", column.name, array.data_type());
    let filled = |cell: &dyn Fn(usize) -> Cell| {
        (0..array.len()).map(|index| if array.is_null(index) { Cell::Null } else { cell(index) }).collect()
    };
    Ok(match column.kind {
        Kind::Bool => {
            let array = array.as_boolean_opt().ok_or_else(other)?;
            filled(&|index| Cell::Bool(array.value(index)))
        }
        Kind::Int => {
            let array = array.as_primitive_opt::<Int64Type>().ok_or_else(other)?;
            filled(&|index| Cell::Int(array.value(index)))
        }
        Kind::Float => {
            let array = array.as_primitive_opt::<Float64Type>().ok_or_else(other)?;
            filled(&|index| Cell::Float(array.value(index)))
        }
        Kind::Text => {
            let array = array.as_string_opt::<i32>().ok_or_else(other)?;
            filled(&|index| Cell::Text(array.value(index).to_owned()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ResultTable {
        let column = |name: &str, kind| ResultColumn { name: name.to_owned(), kind, table_column: None };
        ResultTable {
            columns: vec![
                column("run", Kind::Text),
                column("n", Kind::Int),
                column("value", Kind::Float),
                column("valid", Kind::Bool),
            ],
            rows: vec![
                vec![Cell::Text("a, \"b\"".to_owned()), Cell::Int(5), Cell::Float(0.1), Cell::Bool(true)],
                vec![Cell::Text(String::new()), Cell::Null, Cell::Float(1e300), Cell::Null],
                vec![Cell::Null, Cell::Int(-12), Cell::Float(f64::INFINITY), Cell::Bool(false)],
                vec![Cell::Text("red \u{1b}[31m\nline".to_owned()), Cell::Int(i64::MIN), Cell::Float(2.0), Cell::Null],
            ],
        }
    }

    #[test]
    fn csv_tells_null_from_empty() {
        insta::assert_snapshot!(example().csv().replace('\u{1b}', "<esc>"), @r#"
        run,n,value,valid
        "a, ""b""",5,0.1,true
        "",,1e+300,
        ,-12,inf,false
        "red <esc>[31m
        line",-9223372036854775808,2.0,
        "#);
    }

    #[test]
    fn json_lines_keep_the_columns_order() {
        insta::assert_snapshot!(example().json_lines(), @r#"
        {"run":"a, \"b\"","n":5,"value":0.1,"valid":true}
        {"run":"","n":null,"value":1e+300,"valid":null}
        {"run":null,"n":-12,"value":null,"valid":false}
        {"run":"red \u001b[31m\nline","n":-9223372036854775808,"value":2.0,"valid":null}
        "#);
    }

    #[test]
    fn text_is_aligned_and_cannot_steer_a_terminal() {
        insta::assert_snapshot!(example().text(), @r#"
        run                                      n   value  valid
        --------------------  --------------------  ------  -----
        a, "b"                                   5     0.1  true
                                                    1e+300
                                               -12     inf  false
        red \u{1b}[31m\nline  -9223372036854775808     2.0
        "#);
    }

    #[test]
    fn parquet_reads_back_and_is_repeatable() {
        let mut table = example();
        if let Some(column) = table.columns.get_mut(2) {
            column.name = "n".to_owned();
        }
        let bytes = table.parquet().expect("written");
        assert_eq!(bytes, table.parquet().expect("written"));
        assert_eq!(from_parquet(table.columns.clone(), bytes.clone()), Ok(table.clone()));
        assert_eq!(table.unique_names(), ["run", "n", "n_2", "valid"]);
        let mut wrong = table.columns.clone();
        wrong.swap(0, 1);
        assert_eq!(from_parquet(wrong, bytes.clone()).expect_err("another type"), "its column `n` is Utf8");
        assert_eq!(from_parquet(Vec::new(), bytes).expect_err("other columns"), "its rows have 4 columns of 0");
        assert!(from_parquet(table.columns, b"no such file".to_vec()).is_err());
    }

    #[test]
    fn a_text_may_be_wider_than_any_terminal() {
        let column = ResultColumn { name: "x".to_owned(), kind: Kind::Text, table_column: None };
        let long = "y".repeat(70_000);
        let table = ResultTable { columns: vec![column], rows: vec![vec![Cell::Text(long.clone())]] };
        assert!(table.text().lines().any(|line| line == long));
    }

    #[test]
    fn a_result_without_rows_has_its_columns() {
        let empty = ResultTable { rows: Vec::new(), ..example() };
        assert_eq!(empty.csv(), "run,n,value,valid\n");
        assert_eq!(empty.json_lines(), "");
        assert!(empty.parquet().is_ok());
        assert_eq!(empty.text().lines().count(), 2);
    }
}
