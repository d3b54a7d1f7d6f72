//! Latencies of a running trial so far, for the display of its progress. The thread that writes records adds them, once a request.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use assay_record::{Outcome, Phase, Record};
use assay_stage::LatencySoFar;

/// The steps of each power of two: a quantile is at most 1/16 above the truth.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// The slots of a histogram; the last one also counts everything above five hours.
const SLOTS: usize = STEPS * 41;

/// The latencies of the measured requests that succeeded so far, and the output tokens of all requests.
#[derive(Debug, Default)]
pub(crate) struct LiveLatencies {
    ttft: LiveHistogram,
    tpot: LiveHistogram,
    output_tokens: AtomicU64,
}

impl LiveLatencies {
    /// Adds the tokens of a request of any phase, and its latencies if it was measured and succeeded.
    pub(crate) fn add(&self, record: &Record) {
        self.output_tokens.fetch_add(record.output_tokens.unwrap_or(0).into(), Ordering::Relaxed);
        if record.phase != Phase::Measured || record.outcome != Outcome::Ok {
            return;
        }
        if let Some(ttft) = record.ttft_ns() {
            self.ttft.add(ttft);
        }
        if let Some((tpot, _)) = record.tpot_ns() {
            self.tpot.add(tpot as i64);
        }
    }

    /// Returns the output tokens of all requests that have ended.
    pub(crate) fn output_tokens(&self) -> u64 {
        self.output_tokens.load(Ordering::Relaxed)
    }

    /// Returns the quantiles of TTFT so far; `None` without a request that has one.
    pub(crate) fn ttft(&self) -> Option<LatencySoFar> {
        self.ttft.quantiles()
    }

    /// Returns the quantiles of TPOT so far; `None` without a request that has one.
    pub(crate) fn tpot(&self) -> Option<LatencySoFar> {
        self.tpot.quantiles()
    }
}

/// A histogram of durations that one thread writes and others read, without locks.
#[derive(Debug)]
struct LiveHistogram(Box<[AtomicU32]>);

impl Default for LiveHistogram {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl LiveHistogram {
    /// Counts a duration; a negative one counts as 0.
    fn add(&self, ns: i64) {
        if let Some(count) = self.0.get(slot(u64::try_from(ns).unwrap_or(0))) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn quantiles(&self) -> Option<LatencySoFar> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed).into()).collect();
        let total: u64 = counts.iter().sum();
        let at = |percent: u64| {
            let (rank, mut seen) = ((total * percent).div_ceil(100), 0);
            let reached = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            largest_value(reached.unwrap_or(SLOTS - 1))
        };
        (total > 0).then(|| LatencySoFar { p50_ns: at(50), p99_ns: at(99) })
    }
}

/// Returns the slot of a value: below 16 its own, above by its power of two and its four next bits.
fn slot(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let shift = value.ilog2() - STEP_BITS;
    ((shift as usize + 1) * STEPS + (value >> shift) as usize - STEPS).min(SLOTS - 1)
}

/// Returns the largest value of a slot.
fn largest_value(slot: usize) -> u64 {
    if slot < STEPS {
        return slot as u64;
    }
    let shift = slot / STEPS - 1;
    (((slot % STEPS + STEPS) as u64 + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(ttft_ns: i64) -> Record {
        Record {
            phase: Phase::Measured,
            outcome: Outcome::Ok,
            sent_ns: Some(0),
            first_token_ns: Some(ttft_ns),
            last_token_ns: Some(ttft_ns + 1_000_000),
            output_tokens: Some(11),
            ..Record::default()
        }
    }

    #[test]
    fn quantiles_are_those_of_the_measured_requests_that_succeeded() {
        let live = LiveLatencies::default();
        assert_eq!((live.ttft(), live.tpot()), (None, None));
        (1..=100).for_each(|number| live.add(&record(number * 1_000_000)));
        live.add(&Record { phase: Phase::Warmup, ..record(i64::MAX / 2) });
        live.add(&Record { outcome: Outcome::Timeout, ..record(i64::MAX / 2) });
        let ttft = live.ttft().expect("requests");
        assert!(
            (50_000_000..=53_200_000).contains(&ttft.p50_ns) && (99_000_000..=105_300_000).contains(&ttft.p99_ns),
            "{ttft:?}"
        );
        let tpot = live.tpot().expect("requests");
        assert!((100_000..=106_300).contains(&tpot.p50_ns) && tpot.p50_ns == tpot.p99_ns, "{tpot:?}");
    }

    proptest! {
        #[test]
        fn a_slot_holds_its_value_to_a_sixteenth(value in 0_u64..1 << 44) {
            let largest = largest_value(slot(value));
            prop_assert!(largest >= value && largest - value <= value / 16, "{value}: {largest}");
        }

        #[test]
        fn every_duration_is_counted(ns: i64) {
            let live = LiveHistogram::default();
            live.add(ns);
            prop_assert!(live.quantiles().is_some());
        }
    }
}
