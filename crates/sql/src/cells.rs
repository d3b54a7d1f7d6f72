//! Conversion of Arrow's columns to the cells of a result.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use assay_query::{Cell, Kind, QueryError, ResultColumn, ResultTable, TableColumn};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// Returns the columns of a schema, each with the table column that it passes on unchanged, if any.
pub(crate) fn columns(schema: &Schema, table_column: impl Fn(usize) -> Option<TableColumn>) -> Vec<ResultColumn> {
    let fields = schema.fields().iter().enumerate();
    let column = |(index, field): (usize, &Arc<Field>)| ResultColumn {
        name: field.name().clone(),
        kind: kind(field.data_type()),
        table_column: table_column(index),
    };
    fields.map(column).collect()
}

/// Returns the cells of Arrow's batches under these columns.
pub(crate) fn from_batches(columns: Vec<ResultColumn>, batches: &[RecordBatch]) -> Result<ResultTable, QueryError> {
    let failed = |error: ArrowError| QueryError::failed(error.to_string());
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
    // Not the array's own bitmap: an array that holds only nulls has none.
    let nulls = array.logical_nulls();
    let is_null = |index: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(index));
    let nullable = |index: usize, cell: Cell| if is_null(index) { Cell::Null } else { cell };
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
            // Such as a date beyond the calendar.
            let text = |index: usize| formatter.value(index).try_to_string().map(Cell::Text);
            (0..array.len()).map(|index| if is_null(index) { Ok(Cell::Null) } else { text(index) }).collect::<Result<_, _>>()?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let table = from_batches(columns(&schema, |_| None), &[batch]).expect("cells");
        assert_eq!(table.rows[0], [Cell::Int(7), Cell::Float(0.5), Cell::Text("1970-01-01".to_owned()), Cell::Null]);
        let large: ArrayRef = Arc::new(arrow_array::UInt64Array::from(vec![u64::MAX]));
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::UInt64, false)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![large]).expect("a batch");
        assert!(matches!(from_batches(columns(&schema, |_| None), &[batch]), Err(QueryError::Failed { .. })));
        let beyond: ArrayRef = Arc::new(arrow_array::Date32Array::from(vec![i32::MAX]));
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Date32, false)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![beyond]).expect("a batch");
        assert!(matches!(from_batches(columns(&schema, |_| None), &[batch]), Err(QueryError::Failed { .. })), "no such date");
    }
}
