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
    /// The longest that the loop left its sockets alone: at work, or asleep beyond its time.
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
    /// Connections among them that replaced one which the server had closed under a request: see the crate's documentation.
    pub connections_reopened: u64,
    /// Requests that were not prepared when they were due.
    pub starved: u64,
    /// Times that the writer was behind when the loop had records for it.
    pub sink_stalls: u64,
    /// Time that the loop waited for the writer because the reserve was full too, in nanoseconds.
    pub sink_wait_ns: i64,
    /// Most requests under way at once.
    pub most_in_flight: u64,
}
