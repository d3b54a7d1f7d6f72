//! Arithmetic of whole numbers that fails where 64 bits do not hold the result. DataFusion's own wraps around, so that the square of a latency of four seconds
//! in nanoseconds is a wrong number that looks like any other.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::registry::FunctionRegistry as _;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, BinaryExpr, ColumnarValue, EmitTo, Expr, ExprSchemable as _, GroupsAccumulator,
    Operator, ReversedUDAF, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use datafusion::prelude::SessionContext;

/// The type in which whole numbers are added up: 2^63 rows of 2^64 fit.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// Makes `+`, `-`, `*` and `sum` of whole numbers fail on overflow in the queries of a context.
pub(crate) fn check_overflow(context: &mut SessionContext) -> Result<()> {
    context.register_udaf(Arc::new(AggregateUDF::from(WholeSum { sum: Sum::new() })))?;
    context.register_function_rewrite(Arc::new(CheckedOperators))
}

fn overflow(what: &str) -> DataFusionError {
    DataFusionError::Execution(format!(
        "{what}: the result does not fit the 64 bits of whole numbers; CAST(... AS DOUBLE) around an operand computes it with 15 digits"
    ))
}

/// Replaces the operators of whole numbers by functions.
#[derive(Debug)]
struct CheckedOperators;

impl FunctionRewrite for CheckedOperators {
    fn name(&self) -> &'static str {
        "whole_numbers"
    }

    fn rewrite(&self, expression: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let (left, operator, right) = match expression {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => (*left, op, *right),
            Expr::Negative(inner) => match inner.get_type(schema)? {
                whole if whole.is_integer() => (Expr::Literal(ScalarValue::new_zero(&whole)?, None), Operator::Minus, *inner),
                _ => return Ok(Transformed::no(Expr::Negative(inner))),
            },
            other => return Ok(Transformed::no(other)),
        };
        let checked = Checked::of(&left.get_type(schema)?, operator, &right.get_type(schema)?);
        Ok(match checked {
            Some(checked) => Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
                Arc::new(ScalarUDF::from(checked)),
                vec![left, right],
            ))),
            None => Transformed::no(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))),
        })
    }
}

/// An operator of whole numbers that fails on overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operator: Operator,
    signature: Signature,
}

impl Checked {
    /// Returns the function for an operator; `None` if its result is no whole number, or if it cannot overflow in silence.
    fn of(left: &DataType, operator: Operator, right: &DataType) -> Option<Self> {
        let can_wrap = matches!(operator, Operator::Plus | Operator::Minus | Operator::Multiply);
        let is_whole =
            || BinaryTypeCoercer::new(left, &operator, right).get_result_type().is_ok_and(|result| result.is_integer());
        (can_wrap && is_whole()).then(|| Self { operator, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &'static str {
        match self.operator {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_subtract",
            _ => "checked_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else { return Err(two_operands()) };
        let (left, right) = BinaryTypeCoercer::new(left, &self.operator, right).get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return Err(two_operands()) };
        BinaryTypeCoercer::new(left, &self.operator, right).get_result_type()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &arguments.args[..] else { return Err(two_operands()) };
        let computed = match self.operator {
            Operator::Plus => apply(left, right, numeric::add),
            Operator::Minus => apply(left, right, numeric::sub),
            _ => apply(left, right, numeric::mul),
        };
        computed.map_err(|error| match error {
            DataFusionError::ArrowError(inner, _) if matches!(*inner, ArrowError::ArithmeticOverflow(_)) => {
                overflow(&inner.to_string())
            }
            other => other,
        })
    }
}

fn two_operands() -> DataFusionError {
    DataFusionError::Plan("an operator has two operands".to_owned())
}

/// `sum`, which adds up whole numbers with more than 64 bits and fails if the result needs them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WholeSum {
    sum: Sum,
}

/// Returns the arguments with the wide type in the place of that of whole numbers, and the latter.
fn widened(arguments: AccumulatorArgs<'_>) -> (AccumulatorArgs<'_>, Option<DataType>) {
    let (return_field, whole) = widened_field(&arguments.return_field);
    (AccumulatorArgs { return_field, ..arguments }, whole)
}

fn widened_field(field: &FieldRef) -> (FieldRef, Option<DataType>) {
    match field.data_type() {
        whole if whole.is_integer() => (Arc::new(Field::new(field.name(), WIDE, field.is_nullable())), Some(whole.clone())),
        _ => (Arc::clone(field), None),
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
        self.sum.return_type(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (arguments, whole) = widened(arguments);
        Ok(WideSum::of(self.sum.accumulator(arguments)?, whole))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (arguments, whole) = widened(arguments);
        Ok(WideSum::of(self.sum.create_sliding_accumulator(arguments)?, whole))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let (return_field, _) = widened_field(&arguments.return_field);
        self.sum.state_fields(StateFieldsArgs { return_field, ..arguments })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.sum.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let (arguments, whole) = widened(arguments);
        let sums = self.sum.create_groups_accumulator(arguments)?;
        Ok(match whole {
            Some(whole) => Box::new(WideSums { sums, whole }),
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

fn widen(values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    values.iter().map(|values| convert(values, &WIDE)).collect()
}

fn convert(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    Ok(cast_with_options(values, to, &CastOptions { safe: false, ..CastOptions::default() })?)
}

fn narrow(sums: &ArrayRef, whole: &DataType) -> Result<ArrayRef> {
    convert(sums, whole).map_err(|_| overflow("`sum`"))
}

/// A sum of whole numbers.
#[derive(Debug)]
struct WideSum {
    sum: Box<dyn Accumulator>,
    whole: DataType,
}

impl WideSum {
    fn of(sum: Box<dyn Accumulator>, whole: Option<DataType>) -> Box<dyn Accumulator> {
        match whole {
            Some(whole) => Box::new(Self { sum, whole }),
            None => sum,
        }
    }
}

impl Accumulator for WideSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.sum.update_batch(&widen(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&narrow(&self.sum.evaluate()?.to_array()?, &self.whole)?, 0)
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
        self.sum.retract_batch(&widen(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.sum.supports_retract_batch()
    }
}

/// The sums of whole numbers by group.
struct WideSums {
    sums: Box<dyn GroupsAccumulator>,
    whole: DataType,
}

impl GroupsAccumulator for WideSums {
    fn update_batch(&mut self, values: &[ArrayRef], groups: &[usize], filter: Option<&BooleanArray>, count: usize) -> Result<()> {
        self.sums.update_batch(&widen(values)?, groups, filter, count)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        narrow(&self.sums.evaluate(emit_to)?, &self.whole)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.sums.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.sums.merge_batch(states, groups, count)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.sums.convert_to_state(&widen(values)?, filter)
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
        let batches =
            runtime.block_on(async { context.sql(sql).await?.collect().await }).map_err(|error| error.strip_backtrace())?;
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
        ] {
            let error = query(&format!("SELECT {expression} FROM {VALUES} WHERE g = 3")).expect_err(expression);
            assert!(error.to_lowercase().contains("overflow") || error.contains("64 bits"), "{expression}: {error}");
        }
        let over_groups = query(&format!("SELECT sum(sum(v)) OVER () FROM {VALUES} GROUP BY g"));
        assert!(over_groups.is_err_and(|error| error.contains("64 bits")));
        let groups = query(&format!("SELECT sum(v) FROM {VALUES} WHERE g < 3 GROUP BY g ORDER BY g")).expect("no overflow");
        assert_eq!(groups, ["7000000000", "9223372036854775807"]);
        let overflow = query(&format!("SELECT sum(v) FROM {VALUES} GROUP BY g ORDER BY g")).expect_err("one overflows");
        assert!(overflow.contains("`sum`: the result does not fit the 64 bits"), "{overflow}");
    }
}
