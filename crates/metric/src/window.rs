//! The window of a trial: the time that every rate, goodput and cost is over. This is its only definition.

use std::ops::Range;

/// The planned measured phase of a trial, in nanoseconds since the trial's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasuredPhase {
    /// The start: the end of the warm-up.
    pub from_ns: i64,
    /// The duration by the clock; absent if only a number of requests ends the phase.
    pub duration_ns: Option<i64>,
}

/// The event that ended the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseEnd {
    /// The clock: requests could become due until the end of the duration.
    ByClock,
    /// The number of requests: all of them had become due. The window extends to the end of the last one.
    ByCount {
        /// The end of the last measured request, over all shards; absent if there was none.
        last_end_ns: Option<i64>,
    },
}

impl MeasuredPhase {
    /// Returns the window: from the start of measuring to the end of the duration or, by count, to the end of the last measured
    /// request, but never beyond the duration. Empty if there is no such time.
    pub fn window(self, ended: PhaseEnd) -> Range<i64> {
        let by_clock = self.duration_ns.map(|duration| self.from_ns.saturating_add(duration));
        let end = match ended {
            PhaseEnd::ByClock => by_clock.unwrap_or(self.from_ns),
            PhaseEnd::ByCount { last_end_ns } => {
                let last = last_end_ns.unwrap_or(self.from_ns);
                by_clock.map_or(last, |by_clock| last.min(by_clock))
            }
        };
        self.from_ns..end.max(self.from_ns)
    }
}

/// Finds the steady state of a closed loop of concurrency N: from the send time of the N-th request to the end of the N-th
/// last. Before it, some user has not started; after it, some user has finished. Requests may be added in any order; memory is
/// bounded by the number of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusySpan {
    users: usize,
    /// The earliest send times.
    sent: SmallestValues,
    /// The latest ends, bitwise negated so that the latest is the smallest.
    ended: SmallestValues,
}

impl BusySpan {
    /// Creates the state for this number of users.
    pub fn new(users: usize) -> Self {
        Self { users, sent: SmallestValues::default(), ended: SmallestValues::default() }
    }

    /// Adds a request that was sent, in either phase.
    #[inline]
    pub fn add(&mut self, sent_ns: i64, end_ns: i64) {
        self.sent.add(sent_ns, self.users);
        self.ended.add(!end_ns, self.users);
    }

    /// Adds the requests of another instance for the same users.
    pub fn merge(&mut self, other: Self) {
        other.sent.values.into_iter().for_each(|value| self.sent.add(value, self.users));
        other.ended.values.into_iter().for_each(|value| self.ended.add(value, self.users));
    }

    /// Returns the time in which all users were busy; `None` if there was none, or if there are no users.
    pub fn span(mut self) -> Option<Range<i64>> {
        let (from, to) = (self.sent.largest(self.users)?, !self.ended.largest(self.users)?);
        (to > from).then_some(from..to)
    }
}

/// The few smallest of many values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SmallestValues {
    values: Vec<i64>,
    /// Values at or above this bound are not among the smallest.
    bound: Option<i64>,
}

impl SmallestValues {
    /// Adds a value to the `few` smallest. Holds up to twice as many before it drops the larger half.
    #[inline]
    fn add(&mut self, value: i64, few: usize) {
        if self.bound.is_some_and(|bound| value >= bound) {
            return;
        }
        self.values.push(value);
        if self.values.len() >= few.saturating_mul(2).max(16) {
            self.prune(few);
        }
    }

    fn prune(&mut self, few: usize) {
        if let Some(last) = few.checked_sub(1).filter(|last| *last < self.values.len()) {
            self.bound = Some(*self.values.select_nth_unstable(last).1);
        }
        self.values.truncate(few);
    }

    /// The largest of the `few` smallest values; `None` if there are fewer.
    fn largest(&mut self, few: usize) -> Option<i64> {
        let last = few.checked_sub(1)?;
        (last < self.values.len()).then(|| *self.values.select_nth_unstable(last).1)
    }
}

/// Binary places of a share of a request: see [`share_within`].
pub const SHARE_BITS: u32 = 32;

/// Returns the share of a request's time from send to end that lies within a span, in units of 2^-32, rounded down: the
/// request's work counts as spread evenly over its time. Sums of such integers do not depend on their order.
pub fn share_within(sent_ns: i64, end_ns: i64, span: &Range<i64>) -> u64 {
    let whole = 1_u64 << SHARE_BITS;
    let length = end_ns.saturating_sub(sent_ns);
    if length <= 0 {
        return if span.contains(&end_ns) { whole } else { 0 };
    }
    let within = end_ns.min(span.end).saturating_sub(sent_ns.max(span.start)).max(0);
    // At most the whole, which fits.
    ((u128::from(within.unsigned_abs()) << SHARE_BITS) / u128::from(length.unsigned_abs())) as u64
}

/// The number of time slices of a window.
pub const TIME_SLICES: usize = 10;

/// Returns the time slice of a window that an instant lies in: the window is cut into [`TIME_SLICES`] parts of equal length, counted from 0.
/// Each holds its end and not its start, as the window does for responses that complete. `None` outside of the window.
#[inline]
pub fn time_slice_of(window: &Range<i64>, at_ns: i64) -> Option<usize> {
    let length = u64::try_from(window.end.checked_sub(window.start)?).ok()?;
    let offset = u64::try_from(at_ns.checked_sub(window.start)?).ok().filter(|offset| (1..=length).contains(offset))?;
    usize::try_from((u128::from(offset) * TIME_SLICES as u128 - 1) / u128::from(length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_holds_its_end_and_not_its_start() {
        let of = |at| time_slice_of(&(100..200), at);
        assert_eq!(
            [100, 101, 110, 111, 150, 151, 190, 191, 200, 201].map(of),
            [None, Some(0), Some(0), Some(1), Some(4), Some(5), Some(8), Some(9), Some(9), None]
        );
        // Slices of 0.7 ns: an instant is in the slice in which it ends.
        assert_eq!((1..=7).map(|at| time_slice_of(&(0..7), at)).collect::<Vec<_>>(), [1, 2, 4, 5, 7, 8, 9].map(Some));
        assert_eq!((time_slice_of(&(5..5), 5), time_slice_of(&(i64::MIN..i64::MAX), 0)), (None, None));
        assert_eq!(time_slice_of(&(0..i64::MAX), i64::MAX), Some(TIME_SLICES - 1));
    }

    #[test]
    fn by_count_the_window_reaches_to_the_end_of_the_last_request_and_never_beyond_the_duration() {
        let phase = |duration_ns| MeasuredPhase { from_ns: 100, duration_ns };
        let count = |last_end_ns| PhaseEnd::ByCount { last_end_ns };
        let cases = [
            (phase(Some(50)), PhaseEnd::ByClock, 100..150),
            (phase(None), count(Some(130)), 100..130),
            (phase(Some(50)), count(Some(130)), 100..130),
            (phase(Some(50)), count(Some(160)), 100..150),
            (phase(Some(50)), count(None), 100..100),
            (phase(None), count(None), 100..100),
            (phase(None), count(Some(90)), 100..100),
            (phase(None), PhaseEnd::ByClock, 100..100),
            (phase(Some(i64::MAX)), PhaseEnd::ByClock, 100..i64::MAX),
        ];
        for (phase, ended, window) in cases {
            assert_eq!(phase.window(ended), window, "{phase:?} {ended:?}");
        }
    }

    fn busy(users: usize, requests: &[(i64, i64)]) -> Option<Range<i64>> {
        let mut one = BusySpan::new(users);
        let (mut first, mut second) = (one.clone(), BusySpan::new(users));
        for (place, (sent, end)) in requests.iter().enumerate() {
            one.add(*sent, *end);
            if place % 2 == 0 { &mut first } else { &mut second }.add(*sent, *end);
        }
        second.merge(first);
        let span = one.span();
        assert_eq!(second.span(), span, "parts in another order are the whole");
        span
    }

    #[test]
    fn all_users_are_busy_from_the_last_one_s_first_request_to_the_first_one_s_last() {
        assert_eq!(busy(2, &[(0, 10), (3, 12), (11, 20), (13, 25)]), Some(3..20));
        assert_eq!(busy(2, &[(13, 25), (11, 20), (3, 12), (0, 10)]), Some(3..20));
        assert_eq!(busy(3, &[(0, 10), (1, 11), (2, 12)]), Some(2..10), "as many requests as users");
        assert_eq!(busy(3, &[(0, 10), (1, 11)]), None, "one user never began");
        assert_eq!(busy(2, &[(0, 10), (10, 20)]), None, "one after the other");
        assert_eq!((busy(0, &[(0, 10)]), busy(1, &[])), (None, None));
        let many: Vec<(i64, i64)> = (0..1000).map(|number| (number * 7 % 1000, number * 7 % 1000 + 100)).collect();
        assert_eq!(busy(10, &many), Some(9..1090));
    }

    #[test]
    fn a_request_counts_by_the_part_of_its_time() {
        let whole = 1_u64 << SHARE_BITS;
        let share = |sent, end| share_within(sent, end, &(100..200));
        assert_eq!([share(100, 200), share(120, 130), share(50, 150), share(150, 350)], [whole, whole, whole / 2, whole / 4]);
        assert_eq!([share(0, 100), share(200, 300), share(50, 250)], [0, 0, whole / 2]);
        assert_eq!([share(150, 150), share(90, 90), share(200, 200)], [whole, 0, 0]);
        assert_eq!(share_within(i64::MIN, i64::MAX, &(i64::MIN..i64::MAX)), whole);
    }
}
