//! Measures the client itself.

use assay_reactor::now_ns;
use rustix::time::{ClockId, clock_gettime};

use crate::Lateness;

/// The steps of each power of two: a quantile is at most 1/32 above the truth.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// A histogram of durations, exact below 32 ns and to within 1/32 above. Its size is fixed.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    n: u64,
    max: i64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; STEPS * 60].into_boxed_slice(), n: 0, max: 0 }
    }

    /// Counts a duration; a negative one counts as 0.
    #[inline]
    pub(crate) fn add(&mut self, ns: i64) {
        let ns = ns.max(0);
        self.counts[slot(ns as u64)] += 1;
        self.n += 1;
        self.max = self.max.max(ns);
    }

    /// Returns the number of durations.
    pub(crate) fn n(&self) -> u64 {
        self.n
    }

    /// Returns the value that this share of the durations does not exceed (nearest rank), rounded up to its step.
    pub(crate) fn quantile(&self, share: f64) -> i64 {
        let rank = ((share * self.n as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (slot, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return largest_value(slot).min(self.max);
            }
        }
        self.max
    }

    pub(crate) fn lateness(&self) -> Option<Lateness> {
        let of = |share| self.quantile(share);
        (self.n > 0).then(|| Lateness { n: self.n, ns_p50: of(0.5), ns_p99: of(0.99), ns_max: self.max })
    }
}

/// Returns the slot of a value: below 32 its own, above by its power of two and its five next bits.
fn slot(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    (shift as usize + 1) * STEPS + (value >> shift) as usize - STEPS
}

/// Returns the largest value of a slot.
fn largest_value(slot: usize) -> i64 {
    if slot < STEPS {
        return i64::try_from(slot).unwrap_or(i64::MAX);
    }
    let shift = slot / STEPS - 1;
    let first = ((slot % STEPS + STEPS) as u64) << shift;
    i64::try_from(first + ((1_u64 << shift) - 1)).unwrap_or(i64::MAX)
}

/// Measures how busy the loop is, and how long it does not poll its sockets.
#[derive(Debug)]
pub(crate) struct LoopMeter {
    awake_ns: i64,
    pub(crate) spans: Histogram,
    pub(crate) longest_stall_ns: i64,
}

impl LoopMeter {
    pub(crate) fn new() -> Self {
        Self { awake_ns: now_ns(), spans: Histogram::new(), longest_stall_ns: 0 }
    }

    /// Records that the loop is about to wait.
    #[inline]
    pub(crate) fn record_sleep(&mut self, now: i64) {
        let busy = now - self.awake_ns;
        self.spans.add(busy);
        self.longest_stall_ns = self.longest_stall_ns.max(busy);
    }

    /// Records that the loop has waited until it was woken, or until `deadline` passed. It was late to its sockets by at most
    /// `late_ns`.
    #[inline]
    pub(crate) fn record_wake(&mut self, now: i64, deadline: i64, late_ns: i64) {
        self.longest_stall_ns = self.longest_stall_ns.max(now - deadline).max(late_ns);
        self.awake_ns = now;
    }
}

/// CPU time used so far, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime {
    user: i64,
    system: i64,
    thread: i64,
}

impl CpuTime {
    /// Reads the CPU times of this process and of the calling thread.
    pub(crate) fn now() -> Self {
        let (user, system) = process_times().unwrap_or_default();
        let thread = clock_gettime(ClockId::ThreadCPUTime);
        Self { user, system, thread: thread.tv_sec * 1_000_000_000 + thread.tv_nsec }
    }

    /// Returns the user, system and thread time since then.
    pub(crate) fn since(self) -> (i64, i64, i64) {
        let now = Self::now();
        (now.user - self.user, now.system - self.system, now.thread - self.thread)
    }
}

/// Reads fields 14 and 15 of `/proc/self/stat`, counted from the parenthesis that ends the program's name.
fn process_times() -> Option<(i64, i64)> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let tick_ns = 1_000_000_000 / i64::try_from(rustix::param::clock_ticks_per_second()).ok()?.max(1);
    let mut next = || fields.next()?.parse::<i64>().ok().map(|ticks| ticks * tick_ns);
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_are_nearest_rank() {
        let mut histogram = Histogram::new();
        for value in 1..=20 {
            histogram.add(value);
        }
        assert_eq!(histogram.quantile(0.5), 10);
        assert_eq!(histogram.quantile(0.99), 20);
        assert_eq!(histogram.quantile(0.05), 1);
        let expected = Lateness { n: 20, ns_p50: 10, ns_p99: 20, ns_max: 20 };
        assert_eq!(histogram.lateness(), Some(expected));
        assert_eq!(Histogram::new().lateness(), None);
    }

    #[test]
    fn process_times_are_read() {
        assert!(process_times().is_some());
    }

    proptest! {
        #[test]
        fn a_slot_holds_its_value_to_within_a_step(value in 0_u64..=i64::MAX as u64) {
            let last = largest_value(slot(value)) as u64;
            prop_assert!(last >= value);
            prop_assert!(last - value <= value / STEPS as u64, "{value} {last}");
        }
    }

    #[test]
    fn the_largest_value_has_a_slot() {
        assert!(slot(i64::MAX as u64) < STEPS * 60);
    }
}
