//! The rule by which a count of output tokens contradicts its own request.

/// Returns true if a count of output tokens contradicts a request that allows at most `limit`.
///
/// The limit of every known API holds for all generated tokens, those of reasoning included (`max_completion_tokens` and
/// `max_output_tokens` of OpenAI, `max_tokens` of Anthropic, `max_tokens` of vLLM), so that a larger count is not one of tokens that the
/// request allows. Two cases are no contradiction. Some servers generate one token more than the limit (mistral.rs, issue 1539). And if the
/// client received as many token events, it has seen that the endpoint sent more than was requested.
pub fn exceeds_limit(tokens: i64, limit: u64, token_events: u32) -> bool {
    u64::try_from(tokens).is_ok_and(|tokens| tokens > limit.saturating_add(1) && tokens > u64::from(token_events))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_no_larger_than_its_limit_and_one_or_the_events_that_came() {
        assert!(!exceeds_limit(32, 32, 1) && !exceeds_limit(33, 32, 1), "one token more is a habit of servers");
        assert!(exceeds_limit(34, 32, 33) && exceeds_limit(4_000_000_000, 32, 32));
        assert!(!exceeds_limit(40, 32, 40), "the client saw as many events");
        assert!(!exceeds_limit(i64::MAX, u64::MAX, 0) && !exceeds_limit(-1, 0, 0), "another fault names a negative count");
    }
}
