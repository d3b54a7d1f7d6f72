//! Nouns that agree with their number.

/// Returns `count` with its noun: `1 answer`, `5 answers`.
pub(crate) fn quantity(count: impl Into<u64>, noun: &str) -> String {
    match count.into() {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0_u64, 1, 2].map(|count| quantity(count, "answer")), ["0 answers", "1 answer", "2 answers"]);
    }
}
