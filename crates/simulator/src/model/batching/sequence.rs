//! A request in a batch.

use super::BatchingConfig;
use crate::draw::Concern;
use crate::model::Arrival;

/// A request that waits or runs.
pub(super) struct Sequence {
    pub(super) arrival: Arrival,
    /// Tokens that were sent.
    pub(super) sent: u32,
    /// Tokens to compute before it decodes: its prompt and, after a preemption, what it had sent.
    pub(super) prefill_tokens: u32,
    /// Tokens that are in the KV cache, of those that are known.
    pub(super) computed: u32,
    /// Blocks of the KV cache that it holds.
    pub(super) blocks: u64,
    /// Tokens that the step under way computes for it.
    pub(super) scheduled: u32,
    /// True if it ran before.
    pub(super) is_preempted: bool,
}

impl Sequence {
    pub(super) fn new(arrival: Arrival) -> Self {
        // A prompt without tokens still takes a step.
        let prefill_tokens = arrival.prompt_tokens.max(1);
        Self { arrival, sent: 0, prefill_tokens, computed: 0, blocks: 0, scheduled: 0, is_preempted: false }
    }

    /// Returns it without anything that was computed for it.
    pub(super) fn preempted(self) -> Self {
        let prefill_tokens = self.known_tokens();
        Self { prefill_tokens, computed: 0, blocks: 0, scheduled: 0, is_preempted: true, ..self }
    }

    /// Returns true if its prompt is computed, so that each step brings its next token.
    pub(super) fn is_decoding(&self) -> bool {
        self.computed >= self.prefill_tokens
    }

    /// Returns the tokens to compute until it decodes.
    pub(super) fn uncomputed(&self) -> u32 {
        self.prefill_tokens.saturating_sub(self.computed)
    }

    /// Returns the tokens that are left to send.
    pub(super) fn left(&self) -> u32 {
        self.arrival.output_tokens.saturating_sub(self.sent)
    }

    /// Records tokens of its response. All but the last are in the cache: that one is the input of the next step.
    pub(super) fn record_sent(&mut self, tokens: u32) {
        self.sent += tokens;
        self.computed = self.known_tokens().saturating_sub(1);
    }

    /// Draws how many of the next drafts are accepted: those before the first one that is not. Drafts are drawn by their place in the
    /// response, which is verified at most once.
    pub(super) fn accepted_drafts(&self, config: &BatchingConfig) -> u32 {
        let is_accepted = |draft: &u32| {
            self.arrival.key.unit(Concern::Draft, u64::from(self.sent) + u64::from(*draft)) < config.speculative_acceptance
        };
        (0..config.speculative_tokens).take_while(is_accepted).count() as u32
    }

    /// Returns the tokens of its prompt and of its response so far.
    fn known_tokens(&self) -> u32 {
        self.arrival.prompt_tokens.max(1).saturating_add(self.sent)
    }
}
