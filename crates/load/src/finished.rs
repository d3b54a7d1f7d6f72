//! What a trial came to, and how well the client did its part.

use assay_record::{Outcome, Phase};

/// A trial that ran to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finished {
    /// Requests by phase and outcome; every record that the sink was given is counted once.
    pub counts: Counts,
    /// When the measured phase began, in nanoseconds since the trial's start.
    pub measured_from_ns: i64,
    /// Where the trial's window ends as this shard sees it ([`assay_record::MeasuredPhase::window`]): by the clock, or by count with the
    /// end of the last measured request. In nanoseconds since the trial's start.
    pub measured_to_ns: i64,
    /// When the last request had ended, in nanoseconds since the trial's start.
    pub ended_ns: i64,
    /// Whether it was cancelled before its time.
    pub cancelled: bool,
    /// What the client measured of itself.
    pub client: Client,
}

/// Requests by phase and outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    cells: [[u64; OUTCOMES]; 2],
}

const OUTCOMES: usize = Outcome::ALL.len();

/// One count for each request.
impl FromIterator<(Phase, Outcome)> for Counts {
    fn from_iter<I: IntoIterator<Item = (Phase, Outcome)>>(requests: I) -> Self {
        let mut counts = Self::default();
        requests.into_iter().for_each(|(phase, outcome)| counts.add(phase, outcome));
        counts
    }
}

impl Counts {
    /// How many of a phase ended so.
    pub fn of(&self, phase: Phase, outcome: Outcome) -> u64 {
        self.cells[phase as usize][outcome as usize]
    }

    /// How many of a phase there were: every request that was due in it.
    pub fn due(&self, phase: Phase) -> u64 {
        self.cells[phase as usize].iter().sum()
    }

    pub(crate) fn add(&mut self, phase: Phase, outcome: Outcome) {
        self.cells[phase as usize][outcome as usize] += 1;
    }
}

/// How late measured requests were sent, in nanoseconds after their intended times. Of all that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Requests that were sent.
    pub n: u64,
    /// Median, to within 1/32 above.
    pub ns_p50: i64,
    /// 99th percentile, to within 1/32 above.
    pub ns_p99: i64,
    /// The latest.
    pub ns_max: i64,
}

/// How late the event loop was to its sockets in the measured phase and the drain. Each delay is an upper bound: from the earliest
/// instant at which the socket can have been ready to its read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The time that is judged, in nanoseconds: from the start of the measured phase to the end of the last request.
    pub judged_ns: i64,
    /// The part of it in which sockets waited for the loop for [`DELAY_GRAIN`](crate::DELAY_GRAIN) or longer.
    pub late_ns: i64,
    /// Measured requests that ended well.
    pub requests: u64,
    /// Those whose first or last token event was read late by [`DELAY_GRAIN`](crate::DELAY_GRAIN) or more.
    pub late_requests: u64,
    /// The sum of their times from sending to end.
    pub request_ns: i64,
    /// The part of it that the last token events waited for the client.
    pub request_late_ns: i64,
    /// Token events of these requests.
    pub token_events: u64,
    /// Reads that were late by more than [`MAX_LATENESS_P99`](crate::MAX_LATENESS_P99).
    pub late_reads: u64,
    /// TTFT at the 99th percentile as measured, and the least that it can truly be, to within 1/32 above.
    pub ttft_p99: Option<(i64, i64)>,
    /// The same of E2E.
    pub e2e_p99: Option<(i64, i64)>,
    /// Waits that a signal ended: the process was stopped and continued, or handled a signal.
    pub interruptions: u64,
    /// Time that the loop's thread could have run and did not; absent if the kernel does not count it.
    pub run_delay_ns: Option<i64>,
}

/// What the client measured of itself, over both phases unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// Lateness of the measured phase; absent under closed loop and where nothing was sent.
    pub lateness: Option<Lateness>,
    /// Requests that fell due a second in the measured phase; absent where it had no length.
    pub asked_per_s: Option<f64>,
    /// Requests that were sent a second in the measured phase; absent where it had no length.
    pub sent_per_s: Option<f64>,
    /// How much later than asked the loop was ready, in nanoseconds; 0 where it waited for the start.
    pub started_late_ns: i64,
    /// How late the loop was to its sockets, and what of the latencies that may be.
    pub delays: Delays,
    /// The longest that the loop left its sockets alone: at work, stopped, or asleep beyond its time. An upper bound.
    pub longest_stall_ns: i64,
    /// 99th percentile of the time that the loop worked between two waits, in nanoseconds, to within 1/32 above.
    pub busy_ns_p99: i64,
    /// CPU time of the whole process, in user mode, in nanoseconds; the kernel tells it in ticks of (mostly) 10 ms.
    pub cpu_user_ns: i64,
    /// CPU time of the whole process, in the kernel, in nanoseconds; likewise in ticks.
    pub cpu_system_ns: i64,
    /// CPU time of the loop's thread, exact.
    pub loop_cpu_ns: i64,
    /// Reads, those that found nothing excepted.
    pub reads: u64,
    /// Reads that filled the buffer: more was waiting than was looked at.
    pub full_reads: u64,
    /// Events of streams.
    pub events: u64,
    /// Token events among them.
    pub token_events: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests that were given another connection, because the server had closed their kept-alive one before it can have read any
    /// of them.
    pub resends: u64,
    /// Requests that were not prepared when they were due.
    pub starved: u64,
    /// Times that the writer was behind when the loop had records for it.
    pub sink_stalls: u64,
    /// Time that the loop waited for the writer because the reserve was full too, in nanoseconds.
    pub sink_wait_ns: i64,
    /// Most requests under way at once.
    pub most_in_flight: u64,
}
