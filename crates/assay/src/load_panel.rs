//! The panel of a running trial: phase, time left, rates, latencies and failures so far, as plain lines.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use assay_manifest::ordinal;
use assay_stage::{Event, LatencySoFar};

/// The time over which rates are computed.
const WINDOW: Duration = Duration::from_secs(3);

/// A trial and its place in the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrialRef {
    /// Its id.
    pub(crate) trial: String,
    /// The attempt, from 0.
    pub(crate) attempt: u32,
    /// Its place in the block, from 1.
    pub(crate) number: u32,
    /// The number of trials in the block.
    pub(crate) of: u32,
}

/// The last reported progress of one shard's load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ShardLoad {
    sent: u64,
    in_flight: u64,
    ended: u64,
    failed: u64,
    output_tokens: u64,
    elapsed_ns: u64,
    warmup_ns: u64,
    duration_ns: Option<u64>,
    ttft: Option<LatencySoFar>,
    tpot: Option<LatencySoFar>,
}

/// Requests and tokens at one instant, over all shards.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    ended: u64,
    output_tokens: u64,
}

/// The state of the panel.
#[derive(Debug, Default)]
pub(crate) struct LoadPanel {
    trial: TrialRef,
    shards: BTreeMap<u32, ShardLoad>,
    readings: VecDeque<Reading>,
    finished: u64,
    finished_ns: u64,
}

impl LoadPanel {
    /// Begins a trial, or another attempt at it.
    pub(crate) fn start(&mut self, trial: TrialRef) {
        if trial != self.trial {
            *self = Self { trial, finished: self.finished, finished_ns: self.finished_ns, ..Self::default() };
        }
    }

    /// Takes the progress of one shard's load; any other event is ignored.
    pub(crate) fn update(&mut self, shard: u32, event: &Event, at: Instant) {
        let Event::Load { sent, in_flight, ok, failed, output_tokens, elapsed_ns, warmup_ns, duration_ns, ttft, tpot, .. } =
            event
        else {
            return;
        };
        let load = ShardLoad {
            sent: *sent,
            in_flight: *in_flight,
            ended: ok.saturating_add(*failed),
            failed: *failed,
            output_tokens: *output_tokens,
            elapsed_ns: *elapsed_ns,
            warmup_ns: *warmup_ns,
            duration_ns: *duration_ns,
            ttft: *ttft,
            tpot: *tpot,
        };
        self.shards.insert(shard, load);
        let reading = Reading { at, ended: self.sum(|load| load.ended), output_tokens: self.sum(|load| load.output_tokens) };
        self.readings.push_back(reading);
        while self.readings.len() > 2 && self.readings.front().is_some_and(|first| at.duration_since(first.at) > WINDOW) {
            self.readings.pop_front();
        }
    }

    /// Takes the duration of a finished trial, in nanoseconds.
    pub(crate) fn finish(&mut self, duration_ns: u64) {
        self.finished += 1;
        self.finished_ns = self.finished_ns.saturating_add(duration_ns);
    }

    /// Returns the lines of the panel.
    pub(crate) fn lines(&self) -> Vec<String> {
        let TrialRef { trial, attempt, number, of } = &self.trial;
        let again = if *attempt > 0 { format!(", attempt {}", ordinal(*attempt)) } else { String::new() };
        let first = format!("trial {number} of {of}: {trial}{again}");
        if self.shards.is_empty() {
            return vec![first];
        }
        let (phase, left) = self.phase();
        let left = match (left, self.total_left_ns(left)) {
            (Some(left), Some(total)) if *of > 1 => format!(", {} left; all trials: about {}", seconds(left), seconds(total)),
            (Some(left), _) => format!(", {} left", seconds(left)),
            (None, _) => String::new(),
        };
        let (requests_per_s, tokens_per_s) = self.rates();
        let requests = format!(
            "  requests  {} sent, {} in flight, {} failed   {requests_per_s} req/s   {tokens_per_s} tok/s",
            self.sum(|load| load.sent),
            self.sum(|load| load.in_flight),
            self.sum(|load| load.failed),
        );
        let latencies: Vec<_> = [("TTFT", self.worst(|load| load.ttft)), ("TPOT", self.worst(|load| load.tpot))]
            .into_iter()
            .filter_map(|(name, latency)| {
                let LatencySoFar { p50_ns, p99_ns } = latency?;
                Some(format!("{name} p50 {}, p99 {}", milliseconds(p50_ns), milliseconds(p99_ns)))
            })
            .collect();
        let latencies = if latencies.is_empty() { "none yet".to_owned() } else { latencies.join("   ") };
        vec![first, format!("  phase     {phase}{left}"), requests, format!("  latency   {latencies}")]
    }

    /// Returns the phase, and the time until the measured phase ends.
    fn phase(&self) -> (&'static str, Option<u64>) {
        let load = self.shards.values().max_by_key(|load| load.elapsed_ns).copied().unwrap_or_default();
        let end = load.duration_ns.map(|duration| load.warmup_ns.saturating_add(duration));
        let left = end.map(|end| end.saturating_sub(load.elapsed_ns));
        match load.elapsed_ns {
            elapsed if elapsed < load.warmup_ns => ("warm-up", left),
            _ if left == Some(0) => ("waiting for the last responses", None),
            _ => ("measured", left),
        }
    }

    /// Returns the estimated time until all trials of the block have ended, from the mean duration of those that have.
    fn total_left_ns(&self, left: Option<u64>) -> Option<u64> {
        let mean = self.finished_ns.checked_div(self.finished)?;
        let others = u64::from(self.trial.of.saturating_sub(self.trial.number));
        Some(left?.saturating_add(mean.saturating_mul(others)))
    }

    /// Returns requests and output tokens per second, as text.
    fn rates(&self) -> (String, String) {
        let (Some(first), Some(last)) = (self.readings.front(), self.readings.back()) else { return Default::default() };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let rate =
            |count: u64| if seconds > 0.0 { assay_report::significant(count as f64 / seconds, None) } else { "-".to_owned() };
        let tokens = last.output_tokens.saturating_sub(first.output_tokens);
        (rate(last.ended.saturating_sub(first.ended)), rate(tokens))
    }

    fn sum(&self, of: impl Fn(&ShardLoad) -> u64) -> u64 {
        self.shards.values().map(of).fold(0, u64::saturating_add)
    }

    /// Returns the largest quantiles of all shards.
    fn worst(&self, of: impl Fn(&ShardLoad) -> Option<LatencySoFar>) -> Option<LatencySoFar> {
        let larger =
            |a: LatencySoFar, b: LatencySoFar| LatencySoFar { p50_ns: a.p50_ns.max(b.p50_ns), p99_ns: a.p99_ns.max(b.p99_ns) };
        self.shards.values().filter_map(of).reduce(larger)
    }
}

/// Returns a duration in whole seconds, or in larger units.
fn seconds(ns: u64) -> String {
    match ns.div_ceil(1_000_000_000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => assay_report::duration(seconds.saturating_mul(1_000_000_000)),
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{} ms", assay_report::significant(ns as f64 / 1e6, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn load(ok: u64, elapsed_ms: u64, ttft: Option<LatencySoFar>) -> Event {
        Event::Load {
            trial: "bench.endpoint.default.concurrency-8.t2".parse().expect("a trial"),
            attempt: 0,
            sent: ok + 8,
            in_flight: 6,
            ok,
            failed: 2,
            token_events: ok * 32,
            output_tokens: ok * 32,
            elapsed_ns: elapsed_ms * MS,
            warmup_ns: 1000 * MS,
            duration_ns: Some(10_000 * MS),
            ttft,
            tpot: ttft.map(|_| LatencySoFar { p50_ns: MS, p99_ns: 2 * MS }),
        }
    }

    fn trial(number: u32, attempt: u32) -> TrialRef {
        TrialRef { trial: "bench.endpoint.default.concurrency-8.t2".to_owned(), attempt, number, of: 10 }
    }

    #[test]
    fn a_trial_is_shown_from_its_start_to_its_last_response() {
        let (mut panel, start) = (LoadPanel::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        panel.start(trial(3, 0));
        assert_eq!(panel.lines(), ["trial 3 of 10: bench.endpoint.default.concurrency-8.t2"]);
        panel.update(0, &load(10, 500, None), at(500));
        let expected = [
            "trial 3 of 10: bench.endpoint.default.concurrency-8.t2",
            "  phase     warm-up, 11 s left",
            "  requests  18 sent, 6 in flight, 2 failed   - req/s   - tok/s",
            "  latency   none yet",
        ];
        assert_eq!(panel.lines(), expected);
        (1..3).for_each(|_| panel.finish(11_500 * MS));
        panel.update(0, &load(110, 1500, Some(LatencySoFar { p50_ns: 5 * MS, p99_ns: 7 * MS })), at(1500));
        let expected = [
            "trial 3 of 10: bench.endpoint.default.concurrency-8.t2",
            "  phase     measured, 10 s left; all trials: about 90 s",
            "  requests  118 sent, 6 in flight, 2 failed   100 req/s   3200 tok/s",
            "  latency   TTFT p50 5.00 ms, p99 7.00 ms   TPOT p50 1.00 ms, p99 2.00 ms",
        ];
        assert_eq!(panel.lines(), expected);
        // Two shards share the load: counts add up, and of the latencies the larger ones are shown.
        panel.update(1, &load(100, 1500, Some(LatencySoFar { p50_ns: 6 * MS, p99_ns: 6 * MS })), at(1500));
        let lines = panel.lines();
        assert!(lines[2].starts_with("  requests  226 sent, 12 in flight, 4 failed"), "{lines:?}");
        assert!(lines[3].starts_with("  latency   TTFT p50 6.00 ms, p99 7.00 ms"), "{lines:?}");
        panel.update(0, &load(900, 11_200, None), at(11_200));
        assert_eq!(panel.lines()[1], "  phase     waiting for the last responses");
        panel.start(trial(3, 1));
        assert_eq!(panel.lines(), ["trial 3 of 10: bench.endpoint.default.concurrency-8.t2, attempt 2"]);
    }
}
