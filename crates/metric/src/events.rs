//! The list of token events of one request: gaps and jitter.

/// The gap before one token event and the tokens that the event brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// ICL: the gap since the previous token event, in nanoseconds.
    pub gap_ns: i64,
    /// Tokens that the event brought, if the endpoint reports them.
    pub tokens: Option<u32>,
}

impl Gap {
    /// Returns ITL (the gap over its tokens), in nanoseconds, and its number of samples, which is the number of tokens: 1 if the
    /// endpoint does not report it, 0 for an event that brought part of a token.
    pub fn itl_ns(self) -> (f64, u32) {
        let tokens = self.tokens.unwrap_or(1);
        (self.gap_ns as f64 / f64::from(tokens.max(1)), tokens)
    }
}

/// Returns the gaps between consecutive token events, from their times and from the token count at each index. ICL is each gap,
/// one sample; ITL is [`Gap::itl_ns`].
pub fn gaps<'a>(at_ns: &'a [i64], tokens: impl Fn(usize) -> Option<u32> + 'a) -> impl Iterator<Item = Gap> + 'a {
    let pairs = at_ns.windows(2).enumerate();
    pairs.filter_map(move |(before, pair)| match pair {
        [earlier, later] => Some(Gap { gap_ns: later.saturating_sub(*earlier), tokens: tokens(before + 1) }),
        _ => None,
    })
}

/// Jitter of one request, gap by gap: the mean absolute difference of consecutive gaps (the idea of RFC 3550, unsmoothed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    last_ns: Option<i64>,
    sum_ns: u128,
    differences: u64,
}

impl Jitter {
    /// Adds the next gap, in nanoseconds.
    pub fn add(&mut self, gap_ns: i64) {
        if let Some(last_ns) = self.last_ns.replace(gap_ns) {
            self.sum_ns += u128::from(gap_ns.abs_diff(last_ns));
            self.differences += 1;
        }
    }

    /// The mean so far, in nanoseconds. `None` for fewer than two gaps.
    pub fn mean_ns(self) -> Option<f64> {
        (self.differences > 0).then(|| self.sum_ns as f64 / self.differences as f64)
    }
}
