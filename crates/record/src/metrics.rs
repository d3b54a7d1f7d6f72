//! The definitions of the metrics: from the instants of a request to its samples. They are defined only here.

use crate::Record;

/// The divisor of a TPOT: with the first event's tokens known or assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TpotDivisor {
    /// The tokens of the first event are known and were subtracted.
    FirstEventKnown,
    /// The tokens of the first event are unknown; one token was subtracted.
    FirstEventAssumedOne,
}

/// Time per output token of one request, in nanoseconds: (last token event - first) / (output tokens - tokens of the first
/// event), or output tokens - 1 if the first event's are unknown. `None` if the divisor is below 1, or if the request has no
/// token events or no count.
pub fn tpot_ns(
    first_token_ns: Option<i64>,
    last_token_ns: Option<i64>,
    output_tokens: Option<u32>,
    first_event_tokens: Option<u32>,
) -> Option<(f64, TpotDivisor)> {
    let span = last_token_ns?.checked_sub(first_token_ns?)?;
    let (first, how) = match first_event_tokens {
        Some(tokens) => (tokens, TpotDivisor::FirstEventKnown),
        None => (1, TpotDivisor::FirstEventAssumedOne),
    };
    let divisor = i64::from(output_tokens?) - i64::from(first);
    (divisor >= 1).then(|| (span as f64 / divisor as f64, how))
}

/// Returns the time from one instant to a later one, in nanoseconds; `None` if either is absent, or if the difference overflows.
/// Used for every latency: TTFT, TTFO and E2E from the start of a request, lateness from intended to sent.
pub fn since_ns(start_ns: Option<i64>, at_ns: Option<i64>) -> Option<i64> {
    at_ns?.checked_sub(start_ns?)
}

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

/// Returns true if a response differs from the requested length by more than 5 % of it, or by more than 50 tokens (AIPerf's
/// rule).
pub fn is_length_mismatch(asked: u32, got: u32) -> bool {
    let off = u64::from(asked.abs_diff(got));
    off * 20 > u64::from(asked) || off > 50
}

impl Record {
    /// The start of latencies: the intended time in an open loop, the time of sending in a closed loop.
    pub fn start_ns(&self) -> Option<i64> {
        self.intended_ns.or(self.sent_ns)
    }

    /// The delay of sending after the intended time, in nanoseconds.
    pub fn lateness_ns(&self) -> Option<i64> {
        since_ns(self.intended_ns, self.sent_ns)
    }

    /// TTFT: the first token event, since [`Record::start_ns`].
    pub fn ttft_ns(&self) -> Option<i64> {
        since_ns(self.start_ns(), self.first_token_ns)
    }

    /// TTFO: the first content event, since [`Record::start_ns`].
    pub fn ttfo_ns(&self) -> Option<i64> {
        since_ns(self.start_ns(), self.first_content_ns)
    }

    /// E2E: the last token event, since [`Record::start_ns`].
    pub fn e2e_ns(&self) -> Option<i64> {
        since_ns(self.start_ns(), self.last_token_ns)
    }

    /// TPOT of the request.
    pub fn tpot_ns(&self) -> Option<(f64, TpotDivisor)> {
        tpot_ns(self.first_token_ns, self.last_token_ns, self.output_tokens, self.first_event_tokens)
    }

    /// The gaps between its token events.
    pub fn gaps(&self) -> Vec<Gap> {
        let at_ns: Vec<i64> = self.chunks.iter().map(|chunk| chunk.at_ns).collect();
        gaps(&at_ns, |place| self.chunks.get(place)?.tokens).collect()
    }

    /// Jitter of the request, in nanoseconds. `None` for fewer than two gaps.
    pub fn jitter_ns(&self) -> Option<f64> {
        let mut jitter = Jitter::default();
        self.gaps().iter().for_each(|gap| jitter.add(gap.gap_ns));
        jitter.mean_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, Outcome};

    /// Sent 100 ns after the intended time 1,000; reasoning at 1,600, content from 1,900, six tokens until 2,600, closed at
    /// 3,000.
    fn request() -> Record {
        let chunk = |(at_ns, tokens)| Chunk { at_ns, bytes: 4, tokens };
        Record {
            intended_ns: Some(1_000),
            sent_ns: Some(1_100),
            first_token_ns: Some(1_600),
            first_content_ns: Some(1_900),
            last_token_ns: Some(2_600),
            end_ns: Some(3_000),
            outcome: Outcome::Ok,
            output_tokens: Some(6),
            first_event_tokens: Some(2),
            token_events: 4,
            chunks: [(1_600, Some(2)), (1_900, Some(1)), (2_000, Some(0)), (2_600, Some(3))].map(chunk).to_vec(),
            ..Record::default()
        }
    }

    #[test]
    fn latencies_count_from_the_intended_time() {
        let open = request();
        assert_eq!(
            (open.ttft_ns(), open.ttfo_ns(), open.e2e_ns(), open.lateness_ns()),
            (Some(600), Some(900), Some(1_600), Some(100))
        );
        let closed = Record { intended_ns: None, ..request() };
        assert_eq!(
            (closed.ttft_ns(), closed.ttfo_ns(), closed.e2e_ns(), closed.lateness_ns()),
            (Some(500), Some(800), Some(1_500), None)
        );
    }

    #[test]
    fn what_did_not_happen_is_absent() {
        let dropped = Record { intended_ns: Some(5), ..Record::default() };
        assert_eq!((dropped.ttft_ns(), dropped.ttfo_ns(), dropped.e2e_ns(), dropped.lateness_ns()), (None, None, None, None));
        assert_eq!((dropped.tpot_ns(), dropped.jitter_ns(), dropped.gaps()), (None, None, vec![]));
        let only_reasoning = Record { first_content_ns: None, ..request() };
        assert_eq!((only_reasoning.ttft_ns(), only_reasoning.ttfo_ns()), (Some(600), None));
        assert_eq!(since_ns(Some(i64::MIN), Some(i64::MAX)), None, "no number of nanoseconds");
    }

    #[test]
    fn tpot_takes_off_the_tokens_of_the_first_event() {
        let tpot = |output, first| tpot_ns(Some(1_600), Some(2_600), output, first);
        assert_eq!(tpot(Some(6), Some(2)), Some((250.0, TpotDivisor::FirstEventKnown)));
        assert_eq!(tpot(Some(6), None), Some((200.0, TpotDivisor::FirstEventAssumedOne)));
        assert_eq!(tpot(Some(4), Some(1)).map(|(ns, _)| ns), Some(1_000.0 / 3.0));
        // All tokens in the first event, or more: a divisor below 1.
        assert_eq!(
            (tpot(Some(6), Some(6)), tpot(Some(6), Some(7)), tpot(Some(1), None), tpot(Some(0), None)),
            (None, None, None, None)
        );
        assert_eq!(tpot(None, Some(2)), None);
        assert_eq!(tpot(Some(2), Some(1)), Some((1_000.0, TpotDivisor::FirstEventKnown)), "a divisor of 1 is one");
        assert_eq!((tpot_ns(None, Some(2), Some(5), None), tpot_ns(Some(1), None, Some(5), None)), (None, None));
    }

    #[test]
    fn icl_is_each_gap_and_itl_each_gap_over_its_tokens() {
        let gaps = request().gaps();
        assert_eq!(gaps.iter().map(|gap| gap.gap_ns).collect::<Vec<_>>(), [300, 100, 600]);
        // One token after 300 ns; part of a token; three tokens in 600 ns.
        assert_eq!(gaps.iter().map(|gap| gap.itl_ns()).collect::<Vec<_>>(), [(300.0, 1), (100.0, 0), (200.0, 3)]);
        assert_eq!(Gap { gap_ns: 700, tokens: None }.itl_ns(), (700.0, 1));
        assert_eq!(super::gaps(&[5], |_| None).count(), 0);
        assert_eq!(super::gaps(&[i64::MIN, i64::MAX], |_| None).next().map(|gap| gap.gap_ns), Some(i64::MAX));
    }

    #[test]
    fn jitter_is_the_mean_difference_of_consecutive_gaps() {
        // Gaps 300, 100, 600: differences 200 and 500.
        assert_eq!(request().jitter_ns(), Some(350.0));
        let of_gaps = |gaps: &[i64]| {
            let mut jitter = Jitter::default();
            for gap in gaps {
                jitter.add(*gap);
            }
            jitter.mean_ns()
        };
        assert_eq!((of_gaps(&[]), of_gaps(&[5]), of_gaps(&[5, 5]), of_gaps(&[5, 8])), (None, None, Some(0.0), Some(3.0)));
    }

    #[test]
    fn a_length_is_missed_by_five_percent_or_fifty_tokens() {
        let cases = [
            (100, 100, false),
            (100, 95, false),
            (100, 94, true),
            (100, 106, true),
            (10_000, 9_950, false),
            (10_000, 9_949, true),
        ];
        for (asked, got, mismatch) in cases {
            assert_eq!(is_length_mismatch(asked, got), mismatch, "{asked} {got}");
        }
        assert!(is_length_mismatch(10, 9) && !is_length_mismatch(0, 0) && is_length_mismatch(0, 1));
    }
}
