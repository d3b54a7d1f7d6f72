//! The origin of result columns: taken unchanged from a column of a table, or computed.

use assay_query::TableColumn;
use datafusion::common::JoinType;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

use crate::session::SCHEMA;

/// Returns the table column that a column of a plan's result passes on unchanged, or `None` if anything was computed on the way.
///
/// Filters, joins, sorts and limits choose rows and change no value; an outer join may leave a value out.
pub(crate) fn table_column(plan: &LogicalPlan, index: usize) -> Option<TableColumn> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let column = scan.projected_schema.fields().get(index)?.name();
            let table = scan.table_name.table();
            match scan.source.get_logical_plan() {
                // A view passes on the columns of its query.
                Some(view) => table_column(&view, view.schema().index_of_column_by_name(None, column)?),
                None => assay_warehouse::table(table)
                    .filter(|_| scan.table_name.schema().is_none_or(|schema| schema == SCHEMA))
                    .map(|table| TableColumn { table: table.name.to_owned(), column: column.clone() }),
            }
        }
        LogicalPlan::Projection(projection) => expression_column(projection.expr.get(index)?, &projection.input),
        LogicalPlan::SubqueryAlias(alias) => table_column(&alias.input, index),
        LogicalPlan::Filter(filter) => table_column(&filter.input, index),
        LogicalPlan::Sort(sort) => table_column(&sort.input, index),
        LogicalPlan::Limit(limit) => table_column(&limit.input, index),
        LogicalPlan::Distinct(Distinct::All(input)) => table_column(input, index),
        LogicalPlan::Distinct(Distinct::On(on)) => expression_column(on.select_expr.get(index)?, &on.input),
        LogicalPlan::Window(window) if index < window.input.schema().fields().len() => table_column(&window.input, index),
        LogicalPlan::Aggregate(aggregate) => expression_column(aggregate.group_expr.get(index)?, &aggregate.input),
        LogicalPlan::Union(union) => {
            let mut columns = union.inputs.iter().map(|input| table_column(input, index));
            let first = columns.next()??;
            columns.all(|column| column.as_ref() == Some(&first)).then_some(first)
        }
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::RightSemi | JoinType::RightAnti => table_column(&join.right, index),
                JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full if index >= left => {
                    table_column(&join.right, index.checked_sub(left)?)
                }
                _ if index < left => table_column(&join.left, index),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the table column that an expression over `input` passes on unchanged, if any.
fn expression_column(expression: &Expr, input: &LogicalPlan) -> Option<TableColumn> {
    match expression {
        Expr::Alias(alias) => self::expression_column(&alias.expr, input),
        Expr::Column(column) => table_column(input, input.schema().maybe_index_of_column(column)?),
        _ => None,
    }
}
