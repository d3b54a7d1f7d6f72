//! Measures the delay of the event loop to its sockets, and its share of the measured latencies.
//!
//! A socket that a wait reports was not ready when the wait before it returned. That, the time that the thread waited for a CPU,
//! and the waits that a signal or an overslept deadline ended give the earliest instant at which the socket can have become
//! ready: an upper bound of the client's own delay for each read. A slow endpoint does not change it.
//!
//! After a pause the loop polls its sockets without sleeping first ([`DelayMeter::must_poll`]). The duration of a wait does not
//! show if it slept: one that finds a socket at once and is kept from the CPU on its way back takes as long as one that slept.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use assay_record::Record;

use crate::meter::Histogram;
use crate::summary::Delays;
use crate::validity::DELAY_GRAIN;

/// A wait shorter than this did not sleep: its sockets may have been ready before it began.
const SLEPT_NS: i64 = 50_000;
/// A wait that ends this long after its deadline was kept from the CPU.
const OVERSLEPT_NS: i64 = 1_000_000;
/// A loop that has not polled its sockets for this long polls before it sleeps.
const PAUSE_NS: i64 = 1_000_000;
/// The kernel's run delay of the thread is read at most once in this time, because a read takes a microsecond.
const SAMPLE_NS: i64 = 1_000_000;

const GRAIN_NS: i64 = DELAY_GRAIN.as_nanos() as i64;

/// One wait of the event loop. Instants in nanoseconds since the trial's start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wait {
    pub(crate) began_ns: i64,
    pub(crate) deadline_ns: i64,
    pub(crate) ended_ns: i64,
    /// True if a signal ended it, so that it reports no sockets.
    pub(crate) interrupted: bool,
    /// The number of sockets that it reports.
    pub(crate) ready: usize,
    /// True if it reports as many sockets as fit, so that more may be ready.
    pub(crate) is_full: bool,
    /// The time that the thread waited for a CPU before this wait ended.
    pub(crate) run_delay_ns: i64,
}

/// The earliest instant at which the sockets of the last wait may have been ready.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    since_ns: i64,
    /// The latest instant for which every socket that was ready then has certainly been reported.
    polled_ns: i64,
    was_full: bool,
}

impl Readiness {
    /// Takes a wait and returns the maximum delay of the loop to the sockets that it reports, in nanoseconds.
    #[inline]
    pub(crate) fn take(&mut self, wait: &Wait) -> i64 {
        if wait.interrupted {
            return 0;
        }
        let slept_ns = wait.ended_ns - wait.began_ns - wait.run_delay_ns;
        let slept_to_ns = wait.deadline_ns.max(wait.began_ns);
        let overslept = wait.ended_ns - slept_to_ns > OVERSLEPT_NS;
        if !self.was_full {
            let before = overslept || slept_ns < SLEPT_NS || wait.deadline_ns <= wait.began_ns;
            self.since_ns = if before { self.polled_ns } else { wait.ended_ns - wait.run_delay_ns };
        }
        self.was_full = wait.is_full;
        // The thread may have been kept from the CPU after the kernel had polled.
        self.polled_ns = if overslept { slept_to_ns } else { wait.ended_ns };
        if wait.ready == 0 { 0 } else { wait.ended_ns - self.since_ns }
    }

    /// Returns true if the sockets have not been polled for so long that the next wait must not sleep.
    #[inline]
    pub(crate) fn must_poll(&self, now: i64) -> bool {
        now - self.polled_ns > PAUSE_NS
    }

    /// Returns the maximum delay of a read at this instant.
    #[inline]
    pub(crate) fn delay_ns(&self, at_ns: i64) -> i64 {
        (at_ns - self.since_ns).max(0)
    }
}

/// The time for which this thread was runnable but did not run, from `/proc/thread-self/schedstat`.
#[derive(Debug)]
pub(crate) struct RunDelay {
    /// Absent if the kernel does not count it.
    file: Option<File>,
    sampled_at_ns: i64,
    total_ns: i64,
    first_ns: i64,
}

impl RunDelay {
    /// Opens the counter of the calling thread, and of no other.
    pub(crate) fn for_this_thread() -> Self {
        let mut delay =
            Self { file: File::open("/proc/thread-self/schedstat").ok(), sampled_at_ns: i64::MIN, total_ns: 0, first_ns: 0 };
        match delay.read() {
            Some(total_ns) => (delay.total_ns, delay.first_ns) = (total_ns, total_ns),
            None => delay.file = None,
        }
        delay
    }

    /// Returns the growth since the last sample; 0 if that was less than [`SAMPLE_NS`] ago.
    #[inline]
    pub(crate) fn sample(&mut self, now: i64) -> i64 {
        if now.saturating_sub(self.sampled_at_ns) < SAMPLE_NS {
            return 0;
        }
        self.sampled_at_ns = now;
        let Some(total_ns) = self.read() else { return 0 };
        let grown = total_ns - self.total_ns;
        self.total_ns = total_ns;
        grown
    }

    /// Returns the total since this was created.
    pub(crate) fn total_ns(&mut self) -> Option<i64> {
        Some(self.read()? - self.first_ns)
    }

    fn read(&self) -> Option<i64> {
        let mut text = [0; 96];
        let count = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        parse_run_delay(text.get(..count)?)
    }
}

/// Parses the second of the three numbers: time spent waiting on a run queue, in nanoseconds (kernel documentation,
/// `sched-stats`).
fn parse_run_delay(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Sums up the delays of a trial.
#[derive(Debug)]
pub(crate) struct DelayMeter {
    readiness: Readiness,
    run_delay: RunDelay,
    /// Events before this instant do not count.
    from_ns: i64,
    /// Reads that are late by more are counted.
    late_read_ns: i64,
    /// Late time up to this instant is in the sum.
    counted_to_ns: i64,
    ttft: Bounds,
    e2e: Bounds,
    sums: Delays,
}

/// A measured latency and its lower bound.
#[derive(Debug)]
struct Bounds {
    measured: Histogram,
    least: Histogram,
}

impl Bounds {
    fn new() -> Self {
        Self { measured: Histogram::new(), least: Histogram::new() }
    }

    fn add(&mut self, measured_ns: i64, delay_ns: i64) {
        self.measured.add(measured_ns);
        self.least.add(measured_ns - delay_ns);
    }

    /// Returns the measured 99th percentile and its lower bound.
    fn p99(&self) -> Option<(i64, i64)> {
        (self.measured.n() > 0).then(|| (self.measured.quantile(0.99), self.least.quantile(0.99)))
    }
}

/// The client's own delay in the times of one request, in nanoseconds; upper bounds.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "every name ends in its unit")]
pub(crate) struct RequestDelays {
    /// From the stamp of sending to the end of the write, if it did not wait for the endpoint.
    pub(crate) write_ns: i64,
    pub(crate) first_token_ns: i64,
    pub(crate) last_token_ns: i64,
}

impl RequestDelays {
    /// Records a read, which may have brought the first token event and the latest one.
    #[inline]
    pub(crate) fn record_read(&mut self, record: &Record, at_ns: i64, delay_ns: i64) {
        if record.last_token_ns == Some(at_ns) {
            self.last_token_ns = delay_ns;
            if record.first_token_ns == Some(at_ns) {
                self.first_token_ns = delay_ns;
            }
        }
    }
}

impl DelayMeter {
    /// Returns a meter for the calling thread. Events before `from_ns` do not count; reads are late beyond `late_read_ns`.
    pub(crate) fn new(from_ns: i64, late_read_ns: i64) -> Self {
        Self {
            readiness: Readiness::default(),
            run_delay: RunDelay::for_this_thread(),
            from_ns,
            late_read_ns,
            counted_to_ns: from_ns,
            ttft: Bounds::new(),
            e2e: Bounds::new(),
            sums: Delays::default(),
        }
    }

    /// Records a wait, whose `run_delay_ns` is set here, and returns the delay of the loop.
    #[inline]
    pub(crate) fn record_wait(&mut self, mut wait: Wait) -> i64 {
        wait.run_delay_ns = self.run_delay.sample(wait.ended_ns);
        let late_ns = self.readiness.take(&wait);
        self.sums.interruptions += u64::from(wait.interrupted && wait.ended_ns >= self.from_ns);
        if late_ns >= GRAIN_NS {
            // Sockets that did not fit into a batch are late by time that was counted already.
            let from_ns = (wait.ended_ns - late_ns).max(self.counted_to_ns);
            self.sums.late_ns += (wait.ended_ns - from_ns).max(0);
            self.counted_to_ns = wait.ended_ns;
        }
        late_ns
    }

    /// Returns true if the loop has paused: its next wait must end at once, so that its sockets are known to have been ready
    /// before.
    #[inline]
    pub(crate) fn must_poll(&self, now: i64) -> bool {
        self.readiness.must_poll(now)
    }

    /// Returns the maximum delay of a read at this instant.
    #[inline]
    pub(crate) fn record_read(&mut self, at_ns: i64) -> i64 {
        let delay_ns = self.readiness.delay_ns(at_ns);
        self.sums.late_reads += u64::from(delay_ns > self.late_read_ns && at_ns >= self.from_ns);
        delay_ns
    }

    /// Records a measured request that succeeded.
    pub(crate) fn record_request(&mut self, record: &Record, lateness_ns: Option<i64>, delays: RequestDelays) {
        let sent_late_ns = lateness_ns.unwrap_or(0).max(0) + delays.write_ns;
        if let Some(ttft_ns) = record.ttft_ns() {
            self.ttft.add(ttft_ns, sent_late_ns + delays.first_token_ns);
        }
        if let Some(e2e_ns) = record.e2e_ns() {
            self.e2e.add(e2e_ns, sent_late_ns + delays.last_token_ns);
        }
        let took_ns = record.end_ns.zip(record.sent_ns).map_or(0, |(end, sent)| (end - sent).max(0));
        self.sums.requests += 1;
        self.sums.request_ns = self.sums.request_ns.saturating_add(took_ns);
        self.sums.token_events += u64::from(record.token_events);
        let last_ns = delays.last_token_ns;
        self.sums.late_requests += u64::from(last_ns.max(delays.first_token_ns) >= GRAIN_NS);
        if last_ns >= GRAIN_NS {
            self.sums.request_late_ns = self.sums.request_late_ns.saturating_add(last_ns.min(took_ns));
        }
    }

    /// Returns the totals of a trial that ended at this instant.
    pub(crate) fn finish(mut self, ended_ns: i64) -> Delays {
        Delays {
            judged_ns: (ended_ns - self.from_ns).max(0),
            run_delay_ns: self.run_delay.total_ns(),
            ttft_p99: self.ttft.p99(),
            e2e_p99: self.e2e.p99(),
            ..self.sums
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Returns a wait with one socket ready. It may end after its deadline or before it.
    fn wait(began_ms: i64, ended_ms: i64, deadline_ms: i64) -> Wait {
        Wait { began_ns: began_ms * MS, ended_ns: ended_ms * MS, deadline_ns: deadline_ms * MS, ready: 1, ..Wait::default() }
    }

    /// Returns the delay of the loop to each wait's sockets, in milliseconds.
    fn delays(waits: &[Wait]) -> Vec<i64> {
        let mut readiness = Readiness::default();
        waits.iter().map(|wait| readiness.take(wait) / MS).collect()
    }

    #[test]
    fn a_slow_endpoint_delays_no_read() {
        // The loop sleeps up to its deadline, repeatedly, and is woken in time.
        let slow: Vec<_> = (0..1000).map(|turn| Wait { ready: 0, ..wait(turn * 10, turn * 10 + 10, turn * 10 + 10) }).collect();
        assert!(delays(&slow).iter().all(|delay| *delay == 0));
        let woken = [slow[0], wait(10, 17, 20)];
        assert_eq!(delays(&woken), [0, 0]);
    }

    #[test]
    fn a_loop_that_oversleeps_may_have_been_late_since_it_looked_last() {
        assert_eq!(delays(&[wait(0, 1, 10), wait(1, 911, 11)]), [0, 910]);
        assert_eq!(delays(&[wait(0, 1, 10), Wait { ready: 0, ..wait(1, 911, 11) }]), [0, 0], "no socket was ready");
    }

    #[test]
    fn a_stop_that_interrupts_a_wait_counts_for_the_sockets_that_the_next_one_finds() {
        let interrupted = Wait { interrupted: true, ready: 0, ..wait(1, 901, 11) };
        let found = Wait { ended_ns: 901 * MS + 10_000, ..wait(901, 0, 911) };
        assert_eq!(delays(&[wait(0, 1, 10), interrupted, found]), [0, 0, 900]);
        // No socket was ready at the end of the stop: those that came later were read at once.
        assert_eq!(delays(&[wait(0, 1, 10), interrupted, wait(901, 905, 911)]), [0, 0, 0]);
    }

    #[test]
    fn a_loop_that_paused_looks_before_it_sleeps() {
        let mut readiness = Readiness::default();
        let mut must_look = |wait: Wait| {
            readiness.take(&wait);
            (readiness.must_poll(wait.ended_ns), readiness.must_poll(wait.ended_ns + 2 * MS))
        };
        assert_eq!(must_look(wait(0, 1, 10)), (false, true), "only after work that took long");
        let interrupted = Wait { interrupted: true, ready: 0, ..wait(1, 901, 11) };
        assert_eq!(must_look(interrupted), (true, true));
        assert_eq!(must_look(Wait { ready: 0, ..wait(901, 901, 901) }), (false, true));
        // Stopped after the kernel had polled.
        assert_eq!(must_look(Wait { ready: 0, ..wait(902, 1_500, 902) }), (true, true));
    }

    #[test]
    fn a_look_that_is_kept_from_the_cpu_on_its_way_back_has_not_slept() {
        let interrupted = Wait { interrupted: true, ready: 0, ..wait(1, 901, 11) };
        let look = |ended_ms| wait(901, ended_ms, 901);
        assert_eq!(delays(&[wait(0, 1, 10), interrupted, look(902)]), [0, 0, 901]);
        // No socket was ready when the kernel polled, and the stop came then: the next poll finds the sockets that became ready
        // meanwhile.
        let stopped = Wait { ready: 0, ..wait(1, 401, 1) };
        assert_eq!(delays(&[wait(0, 1, 10), stopped, wait(401, 402, 401)]), [0, 0, 401]);
    }

    #[test]
    fn work_delays_the_sockets_that_become_ready_meanwhile() {
        let at_once = Wait { ended_ns: 41 * MS + 10_000, ..wait(41, 0, 50) };
        assert_eq!(delays(&[wait(0, 1, 10), at_once]), [0, 40]);
    }

    #[test]
    fn time_on_the_run_queue_is_a_delay() {
        assert_eq!(delays(&[wait(0, 1, 10), Wait { run_delay_ns: 4 * MS, ..wait(1, 9, 11) }]), [0, 4]);
        // The wait did not sleep at all: the sockets may have been ready before it.
        assert_eq!(delays(&[wait(0, 1, 10), Wait { run_delay_ns: 8 * MS, ..wait(3, 11, 13) }]), [0, 10]);
    }

    #[test]
    fn sockets_that_did_not_fit_into_a_batch_wait_on() {
        let full = Wait { is_full: true, ended_ns: 31 * MS, ..wait(31, 0, 40) };
        assert_eq!(delays(&[wait(0, 1, 10), full, wait(61, 61, 70)]), [0, 30, 60]);
    }

    #[test]
    fn late_time_is_counted_once_and_only_after_the_warm_up() {
        let mut meter = DelayMeter::new(10 * MS, 25 * MS);
        let full = |at_ms: i64| Wait { is_full: true, ..wait(at_ms, at_ms, at_ms + 10) };
        // Sockets have waited since 0; the loop has read them at 30 and at 50.
        for wait in [wait(0, 0, 10), full(30), wait(50, 50, 60)] {
            meter.record_wait(wait);
        }
        assert_eq!(meter.finish(100 * MS).late_ns, 40 * MS);
    }

    #[test]
    fn the_kernel_s_account_is_read() {
        assert_eq!(parse_run_delay(b"132626 2027440 2\n"), Some(2_027_440));
        assert_eq!(
            (parse_run_delay(b"0 0 0"), parse_run_delay(b""), parse_run_delay(b"1"), parse_run_delay(b"1 x 2")),
            (Some(0), None, None, None)
        );
        let mut delay = RunDelay::for_this_thread();
        assert!(delay.sample(0) >= 0);
        assert_eq!(delay.sample(SAMPLE_NS - 1), 0, "not again so soon");
    }

    #[test]
    fn the_bounds_of_a_percentile_hold_the_true_one() {
        let mut meter = DelayMeter::new(0, 25 * MS);
        for index in 0..200 {
            let delay_ns = if index % 50 == 0 { 800 * MS } else { 0 };
            let at = 20 * MS + delay_ns;
            let record = Record {
                sent_ns: Some(0),
                first_token_ns: Some(at),
                last_token_ns: Some(at),
                end_ns: Some(at),
                ..Record::default()
            };
            meter.record_request(
                &record,
                record.client_lateness_ns(),
                RequestDelays { first_token_ns: delay_ns, last_token_ns: delay_ns, ..RequestDelays::default() },
            );
        }
        let delays = meter.finish(1_000 * MS);
        let (measured, least) = delays.ttft_p99.expect("a percentile");
        assert!((820 * MS..850 * MS).contains(&measured) && (20 * MS..21 * MS).contains(&least), "{measured} {least}");
        assert_eq!((delays.late_requests, delays.requests, delays.request_late_ns), (4, 200, 3_200 * MS));
    }
}
