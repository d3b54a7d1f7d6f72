//! The requests that were too long for the endpoint, by what it says, for the rules of AgentX.
//!
//! Source: `common/scenario/context_overflow.py` of ai-dynamo/aiperf at 58028d5ba1cb33b0e135e18f1cc8833556a3639e.

use assay_record::Outcome;
use assay_warehouse::records::{RecordColumn as Column, RecordError};

use super::trial::{RowGroupSpan, ScannedTrial, in_parallel};

/// Parts of an error, in lower case, by which an endpoint says that a prompt is too long for it.
const OVERFLOWS: [&str; 4] = ["context length", "maximum context", "context_length_exceeded", "prompt is too long"];

/// Returns the number of failed requests of measured phases whose error says that the prompt is too long. A record keeps the beginning of
/// an error, so that a longer one may not be recognised.
pub(super) fn context_overflows(trials: &[ScannedTrial<'_>], threads: usize) -> Result<u64, RecordError> {
    let has_failed = |span: &&RowGroupSpan<'_>| span.measured.count() > span.ok.count();
    let spans: Vec<&RowGroupSpan<'_>> = trials.iter().flat_map(|trial| &trial.row_groups).filter(has_failed).collect();
    Ok(in_parallel(threads, &spans, |span| overflows_of_span(span))?.into_iter().sum())
}

fn overflows_of_span(span: &RowGroupSpan<'_>) -> Result<u64, RecordError> {
    let mut count = 0;
    span.each(&[Column::Outcome, Column::Error], |batch, before| {
        let outcomes: Vec<Outcome> = batch.words(Column::Outcome)?;
        for (row, outcome) in outcomes.into_iter().enumerate() {
            if span.measured.get(before + row) && outcome.is_failure() {
                count += u64::from(batch.error(row)?.is_some_and(is_overflow));
            }
        }
        Ok(())
    })?;
    Ok(count)
}

fn is_overflow(error: &str) -> bool {
    let error = error.to_lowercase();
    OVERFLOWS.iter().any(|part| error.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_is_recognised_by_what_endpoints_say() {
        let said = "400: This model's Maximum Context Length is 100 tokens";
        assert!(
            is_overflow(said) && is_overflow(r#"{"code":"context_length_exceeded"}"#) && is_overflow("Prompt is too long: 9")
        );
        assert!(!is_overflow("the model is overloaded") && !is_overflow("prompt too long"));
    }
}
