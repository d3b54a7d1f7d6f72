//! Arithmetic of whole numbers and decimals that fails where their type does not hold the result. DataFusion's own wraps around, or has more digits than are
//! printed, so that the square of a latency of four seconds in nanoseconds is a wrong number that looks like any other.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::registry::FunctionRegistry as _;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, BinaryExpr, EmitTo, Expr, ExprSchemable as _, GroupsAccumulator, Operator,
    ReversedUDAF, Signature,
};
use datafusion::prelude::SessionContext;

/// Makes `+`, `-`, `*` and `sum` of whole numbers and decimals fail on overflow in the queries of a context, and `/` of decimals.
pub(crate) fn check_overflow(context: &mut SessionContext) -> Result<()> {
    context.register_udaf(Arc::new(AggregateUDF::from(WholeSum { sum: Sum::new() })))?;
    context.register_function_rewrite(Arc::new(CheckedOperators))
}

/// The remedy for a result that its type does not hold.
const REMEDY: &str =
    "a whole number has 64 bits and a decimal 38 digits; CAST(... AS DOUBLE) around an operand computes with 15 digits";

/// Returns the description of an error, with the remedy if it is one of a number that its type does not hold.
pub(crate) fn describe(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let is_overflow = match error.find_root() {
        DataFusionError::ArrowError(inner, _) => {
            matches!(**inner, ArrowError::ArithmeticOverflow(_))
                || ["is out of range", "Can't cast value", "too large to store"].iter().any(|part| text.contains(part))
        }
        _ => false,
    };
    if is_overflow { format!("{text}: {REMEDY}") } else { text }
}

/// Computes operators of whole numbers and decimals in a wider type, and casts the result back, which fails if it does not fit. Functions in their place would
/// be simpler, and a chain of a thousand of them would take minutes to plan.
#[derive(Debug)]
struct CheckedOperators;

impl FunctionRewrite for CheckedOperators {
    fn name(&self) -> &'static str {
        "checked_arithmetic"
    }

    fn rewrite(&self, expression: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        check_spans(&expression, schema)?;
        let (left, operator, right) = match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => (*left, op, *right),
            Expr::Negative(inner) => match inner.get_type(schema)? {
                whole if whole.is_integer() => (Expr::Literal(ScalarValue::new_zero(&whole)?, None), Operator::Minus, *inner),
                _ => return Ok(Transformed::no(Expr::Negative(inner))),
            },
            other => return Ok(Transformed::no(other)),
        };
        if !matches!(operator, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide) {
            return Ok(Transformed::no(binary(left, operator, right)));
        }
        let (left_type, right_type) = (left.get_type(schema)?, right.get_type(schema)?);
        check_dates(&left_type, operator, &right_type)?;
        let coercer = BinaryTypeCoercer::new(&left_type, &operator, &right_type);
        // What does not fit together is refused by name afterwards.
        let (Ok((left_type, right_type)), Ok(result)) = (coercer.get_input_types(), coercer.get_result_type()) else {
            return Ok(Transformed::no(binary(left, operator, right)));
        };
        if left_type.is_integer() && right_type.is_integer() && operator != Operator::Divide {
            return Ok(Transformed::yes(cast(binary(cast(left, WIDE_WHOLE), operator, cast(right, WIDE_WHOLE)), result)));
        }
        match result {
            DataType::Decimal256(..) => Err(too_wide("arithmetic")),
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
                let wide = DataType::Decimal256(76, scale);
                Ok(Transformed::yes(cast(cast(binary(left, operator, right), wide), result)))
            }
            _ => Ok(Transformed::no(binary(left, operator, right))),
        }
    }
}

/// The type in which whole numbers are computed: it holds each of 64 bits.
const WIDE_WHOLE: DataType = DataType::Decimal128(20, 0);

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

fn cast(values: Expr, to: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(values), to))
}

fn too_wide(what: &str) -> DataFusionError {
    DataFusionError::Plan(format!("{what} takes decimals of at most 38 digits"))
}

/// Refuses what DataFusion computes of spans of time in fewer bits than they need: their mean, and their parts.
fn check_spans(expression: &Expr, schema: &DFSchema) -> Result<()> {
    let is_span = |argument: &Expr| {
        Ok::<_, DataFusionError>(matches!(argument.get_type(schema)?, DataType::Duration(_) | DataType::Interval(_)))
    };
    let (name, argument) = match expression {
        Expr::AggregateFunction(call) => (call.func.name(), call.params.args.first()),
        Expr::WindowFunction(call) => (call.fun.name(), call.params.args.first()),
        Expr::ScalarFunction(call) => (call.func.name(), call.args.get(1)),
        _ => return Ok(()),
    };
    match argument {
        Some(argument) if ["avg", "date_part"].contains(&name) && is_span(argument)? => Err(no_spans(name)),
        _ => Ok(()),
    }
}

fn no_spans(function: &str) -> DataFusionError {
    DataFusionError::Plan(format!(
        "`{function}` takes no span of time: subtract nanoseconds, such as `started_unix_ns`, or CAST(... AS BIGINT)"
    ))
}

/// Refuses to take a whole number for days: DataFusion's own cast of one to an interval wraps around.
fn check_dates(left: &DataType, operator: Operator, right: &DataType) -> Result<()> {
    let is_date = |side: &DataType| matches!(side, DataType::Date32 | DataType::Date64);
    let is_sum = matches!(operator, Operator::Plus | Operator::Minus);
    if is_sum && (is_date(left) && right.is_integer() || left.is_integer() && is_date(right)) {
        return Err(DataFusionError::Plan(
            "a whole number is no time: add an interval to a date, such as INTERVAL '7' DAY".to_owned(),
        ));
    }
    Ok(())
}

/// `sum`, which adds up whole numbers and decimals in a wider type and fails if the result needs it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeSum {
    sum: Sum,
}

/// Returns the type in which values of a type are added up, in which 2^63 rows fit; `None` for their own.
fn wide(sum: &DataType) -> Option<DataType> {
    match sum {
        whole if whole.is_integer() => Some(DataType::Decimal128(38, 0)),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            Some(DataType::Decimal256(76, *scale))
        }
        _ => None,
    }
}

/// Returns the field with the type in which its values are added up.
fn widened(field: &FieldRef) -> FieldRef {
    match wide(field.data_type()) {
        Some(wide) => Arc::new(Field::new(field.name(), wide, field.is_nullable())),
        None => Arc::clone(field),
    }
}

impl AggregateUDFImpl for WholeSum {
    fn name(&self) -> &str {
        self.sum.name()
    }

    fn signature(&self) -> &Signature {
        self.sum.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Duration(_) | DataType::Interval(_)] => Err(no_spans("sum")),
            [DataType::Decimal256(..)] => Err(too_wide("`sum`")),
            _ => self.sum.return_type(types),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let result = arguments.return_type().clone();
        let return_field = widened(&arguments.return_field);
        Ok(WideSum::of(self.sum.accumulator(AccumulatorArgs { return_field, ..arguments })?, result))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let result = arguments.return_type().clone();
        let return_field = widened(&arguments.return_field);
        Ok(WideSum::of(self.sum.create_sliding_accumulator(AccumulatorArgs { return_field, ..arguments })?, result))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let return_field = widened(&arguments.return_field);
        self.sum.state_fields(StateFieldsArgs { return_field, ..arguments })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.sum.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let result = arguments.return_type().clone();
        let return_field = widened(&arguments.return_field);
        let sums = self.sum.create_groups_accumulator(AccumulatorArgs { return_field, ..arguments })?;
        Ok(match wide(&result) {
            Some(wide) => Box::new(WideSums { sums, wide, result }),
            None => sums,
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.sum.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.sum.order_sensitivity()
    }
}

fn widen(values: &[ArrayRef], wide: &DataType) -> Result<Vec<ArrayRef>> {
    values.iter().map(|values| convert(values, wide)).collect()
}

fn convert(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(values, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

fn narrow(sums: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
    convert(sums, result).map_err(|_| DataFusionError::Execution(format!("the sum overflows: {REMEDY}")))
}

/// A sum of whole numbers or decimals.
#[derive(Debug)]
struct WideSum {
    sum: Box<dyn Accumulator>,
    wide: DataType,
    result: DataType,
}

impl WideSum {
    fn of(sum: Box<dyn Accumulator>, result: DataType) -> Box<dyn Accumulator> {
        match wide(&result) {
            Some(wide) => Box::new(Self { sum, wide, result }),
            None => sum,
        }
    }
}

impl Accumulator for WideSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.update_batch(&widen(values, &self.wide)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&narrow(&self.sum.evaluate()?.to_array()?, &self.result)?, 0)
    }

    fn size(&self) -> usize {
        self.sum.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.sum.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.sum.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.retract_batch(&widen(values, &self.wide)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.sum.supports_retract_batch()
    }
}

/// The sums of whole numbers or decimals by group.
struct WideSums {
    sums: Box<dyn GroupsAccumulator>,
    wide: DataType,
    result: DataType,
}

impl GroupsAccumulator for WideSums {
    fn update_batch(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>, count: usize) -> Result<()> {
        self.sums.update_batch(&widen(values, &self.wide)?, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        narrow(&self.sums.evaluate(emit_to)?, &self.result)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.sums.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.sums.merge_batch(states, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.sums.convert_to_state(&widen(values, &self.wide)?, filter)
    }

    fn size(&self) -> usize {
        self.sums.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array as _;

    use super::*;

    const VALUES: &str =
        "(VALUES (1, 4000000000), (1, 3000000000), (2, 9223372036854775807), (3, 9223372036854775807), (3, 5)) AS t(g, v)";

    /// Returns the values of a query's only column as texts, or the error.
    fn query(sql: &str) -> Result<Vec<String>, String> {
        let mut context = SessionContext::new();
        check_overflow(&mut context).expect("registered");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let batches = runtime.block_on(async { context.sql(sql).await?.collect().await }).map_err(|error| describe(&error))?;
        let values = batches.iter().flat_map(|batch| {
            let column = batch.column(0);
            (0..column.len())
                .map(|row| ScalarValue::try_from_array(column, row).expect("a value").to_string())
                .collect::<Vec<_>>()
        });
        Ok(values.collect())
    }

    #[test]
    fn arithmetic_of_whole_numbers_is_exact_or_fails() {
        for (expression, value) in [
            ("2000000000 * 4000000000", "8000000000000000000"),
            ("v - 5", "3999999995"),
            ("-v", "-4000000000"),
            ("CAST(v AS INT UNSIGNED) + g", "4000000001"),
            ("CAST(v AS DOUBLE) * v", "16000000000000000000"),
            ("v * 1.5", "6000000000"),
            ("NULL + v", "NULL"),
            ("sum(v)", "7000000000"),
            ("CAST(v AS DECIMAL(38, 0)) * v", "16000000000000000000"),
            ("CAST(v AS DECIMAL(20, 2)) / 3", "1333333333.333333"),
            ("sum(CAST(v AS DECIMAL(38, 0)))", "7000000000"),
            ("sum(CAST(g AS DECIMAL(9, 2)))", "2.00"),
            ("CAST(to_timestamp_nanos(v) - to_timestamp_nanos(1) AS BIGINT)", "3999999999"),
            ("date_part('year', to_timestamp_nanos(v))", "1970"),
            ("avg(v)", "3500000000"),
            ("DATE '2026-01-03' - DATE '2026-01-01'", "2"),
            ("DATE '2026-01-03' + INTERVAL '7' DAY", "2026-01-10"),
            ("sum(v + 1)", "7000000002"),
            ("sum(DISTINCT v)", "7000000000"),
            ("sum(g * 1.5)", "3"),
            ("sum(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "3000000000"),
        ] {
            let found = query(&format!("SELECT {expression} FROM {VALUES} WHERE g = 1"));
            assert_eq!(found.as_ref().map(|values| values[0].as_str()), Ok(value), "{expression}");
        }
        for expression in [
            "v * v",
            "v + v * 2",
            "v + 9223372036854775807",
            "-v - v * 2",
            "-(-v - 1)",
            "abs(-v - 1)",
            "sum(v * 2)",
            "sum(v)",
            "sum(DISTINCT v)",
            "sum(v) OVER (ORDER BY v)",
            "sum(v) OVER (ORDER BY v ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            "-sum(v)",
            "CAST(v AS BIGINT UNSIGNED) * CAST(3 AS BIGINT UNSIGNED)",
            "9223372036854775807 + 1",
            "CAST(v AS DECIMAL(38, 0)) * v * v",
            "CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) + CAST('1' AS DECIMAL(38, 0))",
            "sum(CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)))",
            "sum(CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))) OVER ()",
            "CAST(CAST(g AS INT) + 2147483645 AS INT) + CAST(g AS INT)",
        ] {
            let error = query(&format!("SELECT {expression} FROM {VALUES} WHERE g = 3")).expect_err(expression);
            assert!(error.to_lowercase().contains("overflow") || error.contains(REMEDY), "{expression}: {error}");
        }
        let span = "(to_timestamp_nanos(v) - to_timestamp_nanos(0))";
        for refused in [
            "DATE '2026-01-01' + v".to_owned(),
            "v + DATE '2026-01-01'".to_owned(),
            "sum(CAST(v AS DECIMAL(76, 0)))".to_owned(),
            format!("sum({span})"),
            format!("avg({span})"),
            format!("avg({span}) OVER ()"),
            format!("date_part('microsecond', {span})"),
            format!("EXTRACT(MILLISECOND FROM {span})"),
        ] {
            assert!(query(&format!("SELECT {refused} FROM {VALUES}")).is_err(), "{refused}");
        }
        let over_groups = query(&format!("SELECT sum(sum(v)) OVER () FROM {VALUES} GROUP BY g"));
        assert!(over_groups.is_err_and(|error| error.contains(REMEDY)));
        let groups = query(&format!("SELECT sum(v) FROM {VALUES} WHERE g < 3 GROUP BY g ORDER BY g")).expect("no overflow");
        assert_eq!(groups, ["7000000000", "9223372036854775807"]);
        let overflow = query(&format!("SELECT sum(v) FROM {VALUES} GROUP BY g ORDER BY g")).expect_err("one overflows");
        assert!(overflow.contains("the sum overflows: a whole number has 64 bits"), "{overflow}");
    }
}
