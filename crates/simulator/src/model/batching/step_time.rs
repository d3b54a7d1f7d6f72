//! The duration of a step.

use super::sequence::Sequence;

/// The duration of a step, in nanoseconds, by what it holds:
///
/// base + prefill x tokens of prompts + decode x tokens of sequences that decode + context x tokens of context
///
/// A sequence that decodes has one token, and one more for each draft. The context of a sequence is all of its tokens that were
/// computed before the step, whose keys and values the step reads. Nothing overlaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTime {
    /// The time of a step by itself, such as for reading the weights.
    pub base_ns: f64,
    /// Added for every token of a prompt that is computed.
    pub prefill_token_ns: f64,
    /// Added for every token of a sequence that decodes.
    pub decode_token_ns: f64,
    /// Added for every token of context that is read.
    pub context_token_ns: f64,
    /// The sigma of the lognormal factor of a step, whose median is 1.
    pub jitter_sigma: f64,
}

impl StepTime {
    /// Returns the duration without jitter.
    pub(super) fn mean_ns(&self, work: StepWork) -> f64 {
        self.base_ns
            + self.prefill_token_ns * work.prefill as f64
            + self.decode_token_ns * work.decode as f64
            + self.context_token_ns * work.context as f64
    }

    /// Returns the factor of a step, from a standard normal value.
    pub(super) fn jitter(&self, normal: f64) -> f64 {
        if self.jitter_sigma > 0.0 { libm::exp(self.jitter_sigma * normal) } else { 1.0 }
    }
}

/// The work of a step, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepWork {
    prefill: u64,
    decode: u64,
    context: u64,
}

impl StepWork {
    /// Returns it with what is scheduled for a sequence.
    pub(super) fn with(mut self, sequence: &Sequence) -> Self {
        let tokens = if sequence.is_decoding() { &mut self.decode } else { &mut self.prefill };
        *tokens += u64::from(sequence.scheduled);
        self.context += u64::from(sequence.computed);
        self
    }
}
