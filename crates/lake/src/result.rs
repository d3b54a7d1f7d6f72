//! What a query gives, and the ways to write it down. All of them are pure: equal results give equal bytes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Number, Value as Json};

use crate::{Error, Result};

/// What a column of a result holds. Types that the tables do not have, such as dates, become text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Nothing.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultColumn {
    /// Its name. Names need not differ.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// The rows that a query gave, in the order that it gave them.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultTable {
    /// The columns.
    pub columns: Vec<ResultColumn>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

impl ResultTable {
    /// Comma-separated values after RFC 4180 with `\n` as line end and a header. Null is nothing between two commas, empty text is
    /// `""`.
    pub fn csv(&self) -> String {
        let line = |fields: Vec<String>| fields.join(",") + "\n";
        let header = line(self.columns.iter().map(|column| quoted(&column.name)).collect());
        let rows = self.rows.iter().map(|row| {
            line(row.iter().map(|cell| if let Cell::Text(text) = cell { quoted(text) } else { plain(cell) }).collect())
        });
        std::iter::once(header).chain(rows).collect()
    }

    /// One JSON object for each row, a line each, its names in the order of the columns. What is no finite number is null: JSON has
    /// no word for it. Of columns with one name, the later get `_2`, `_3` and so on.
    pub fn json_lines(&self) -> String {
        let names: Vec<_> = self.unique_names().into_iter().map(|name| Json::from(name).to_string()).collect();
        let mut lines = String::new();
        for row in &self.rows {
            let fields: Vec<_> = names.iter().zip(row).map(|(name, cell)| format!("{name}:{}", json(cell))).collect();
            let _ = writeln!(lines, "{{{}}}", fields.join(","));
        }
        lines
    }

    /// A Parquet file. Columns are nullable; of columns with one name, the later get `_2`, `_3` and so on.
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

    /// Columns of text for a terminal: numbers to the right, everything else to the left, control characters escaped.
    pub fn text(&self) -> String {
        let header: Vec<_> = self.columns.iter().map(|column| shown(&column.name)).collect();
        let rows: Vec<Vec<_>> = self.rows.iter().map(|row| row.iter().map(|cell| shown(&plain(cell))).collect()).collect();
        let width = |index: usize| {
            let cells = std::iter::once(&header).chain(&rows).filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..header.len()).map(width).collect();
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

/// A cell as the shortest text that reads back as the same value.
fn plain(cell: &Cell) -> String {
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

/// Text that cannot steer a terminal.
fn shown(text: &str) -> String {
    let escaped = |character: char| match character {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => character.escape_unicode().to_string(),
        other if other.is_control() => other.escape_debug().to_string(),
        other => other.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// The cells of Arrow's batches.
pub(crate) fn of_batches(schema: &Schema, batches: &[RecordBatch]) -> Result<ResultTable> {
    let columns = schema.fields().iter().map(|field| ResultColumn { name: field.name().clone(), kind: kind(field.data_type()) });
    let columns: Vec<_> = columns.collect();
    let failed = |error: ArrowError| Error::Failed(error.to_string());
    let mut rows = Vec::new();
    for batch in batches {
        let cells = batch.columns().iter().zip(&columns).map(|(array, column)| cells(array, column.kind));
        let mut cells = cells.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let mut cells: Vec<_> = cells.iter_mut().map(|column| column.drain(..)).collect();
        for _ in 0..batch.num_rows() {
            rows.push(cells.iter_mut().map(|column| column.next().unwrap_or(Cell::Null)).collect());
        }
    }
    Ok(ResultTable { columns, rows })
}

fn kind(kind: &DataType) -> Kind {
    match kind {
        DataType::Boolean => Kind::Bool,
        kind if kind.is_integer() => Kind::Int,
        kind if kind.is_floating() => Kind::Float,
        _ => Kind::Text,
    }
}

fn cells(array: &ArrayRef, kind: Kind) -> Result<Vec<Cell>, ArrowError> {
    // A number that does not fit is an error, not a null.
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let nullable = |index: usize, cell: Cell| if array.is_null(index) { Cell::Null } else { cell };
    let each = |cell: &dyn Fn(usize) -> Cell| (0..array.len()).map(|index| nullable(index, cell(index))).collect();
    Ok(match kind {
        Kind::Bool => {
            let array = array.as_boolean();
            each(&|index| Cell::Bool(array.value(index)))
        }
        Kind::Int => {
            let array = cast_with_options(array, &DataType::Int64, &strict)?;
            let array = array.as_primitive::<Int64Type>();
            each(&|index| Cell::Int(array.value(index)))
        }
        Kind::Float => {
            let array = cast_with_options(array, &DataType::Float64, &strict)?;
            let array = array.as_primitive::<Float64Type>();
            each(&|index| Cell::Float(array.value(index)))
        }
        Kind::Text => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(array, &options)?;
            each(&|index| Cell::Text(formatter.value(index).to_string()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ResultTable {
        let column = |name: &str, kind| ResultColumn { name: name.to_owned(), kind };
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
        let reader =
            parquet::arrow::arrow_reader::ParquetRecordBatchReader::try_new(bytes::Bytes::from(bytes), 100).expect("a reader");
        let batches: Vec<_> = reader.map(|batch| batch.expect("a batch")).collect();
        let back = of_batches(&batches[0].schema(), &batches).expect("cells");
        assert_eq!(back.rows, table.rows);
        assert_eq!(back.unique_names(), ["run", "n", "n_2", "valid"]);
    }

    #[test]
    fn a_result_without_rows_has_its_columns() {
        let empty = ResultTable { rows: Vec::new(), ..example() };
        assert_eq!(empty.csv(), "run,n,value,valid\n");
        assert_eq!(empty.json_lines(), "");
        assert!(empty.parquet().is_ok());
        assert_eq!(empty.text().lines().count(), 2);
    }

    #[test]
    fn other_types_become_text_or_the_wider_number() {
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(arrow_array::UInt64Array::from(vec![7])),
            Arc::new(arrow_array::Float32Array::from(vec![0.5])),
            Arc::new(arrow_array::Date32Array::from(vec![0])),
            Arc::new(arrow_array::NullArray::new(1)),
        ];
        let fields: Vec<_> = arrays.iter().map(|array| Field::new("x", array.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("a batch");
        let table = of_batches(&schema, &[batch]).expect("cells");
        assert_eq!(table.rows[0][..3], [Cell::Int(7), Cell::Float(0.5), Cell::Text("1970-01-01".to_owned())]);
        let large: ArrayRef = Arc::new(arrow_array::UInt64Array::from(vec![u64::MAX]));
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::UInt64, false)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![large]).expect("a batch");
        assert!(matches!(of_batches(&schema, &[batch]), Err(Error::Failed(_))));
    }
}
