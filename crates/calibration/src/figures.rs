//! The figures of one load: the client's records beside the simulator's report of the same requests. Pure.

use assay_manifest::{Attempt, CalibrationLimits, Count, MeasurementError, Reason, ServingOutcome};
use assay_record::{Outcome, Phase, Record};
use assay_stats::nearest_rank_ns;

use crate::truth::Truth;

/// The limits of a level: the p99 of each error, and of lateness, is at most 10 ms, which is small beside the tens of milliseconds that a
/// first token takes.
pub const LIMITS: CalibrationLimits = CalibrationLimits {
    ttft_error_p99_ns: Count(10_000_000),
    itl_error_p99_ns: Count(10_000_000),
    lateness_p99_ns: Count(10_000_000),
};

/// The most requests of a level that are compared: enough for a 99th percentile, and a bound of the document's evidence.
const MAX_COMPARED: usize = 20_000;

/// The stamps of one measured request that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MeasuredRequest {
    global_index: u64,
    request_id: u128,
    ttft_ns: i64,
    /// The times of its token events; empty if the records do not list them.
    events_ns: Vec<i64>,
}

/// The measured requests of one attempt, as far as they are compared, and its token events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeasuredRequests {
    compared: Vec<MeasuredRequest>,
    /// Token events of all responses that ended in the measured phase.
    events: u64,
    /// The length of that phase, in nanoseconds.
    phase_ns: i64,
}

/// The figures of one load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) ttft_error: Option<MeasurementError>,
    pub(crate) itl_error: Option<MeasurementError>,
    pub(crate) events_per_s: f64,
    pub(crate) missed: Vec<Reason>,
}

impl MeasuredRequests {
    /// Selects the requests to compare from the records of an attempt. If they are too many, equally spaced ones are taken, by their
    /// places in the schedule.
    pub(crate) fn from_records<E>(records: impl Iterator<Item = Result<Record, E>>, outcome: &ServingOutcome) -> Result<Self, E> {
        let [from, to] = [outcome.measured_from_ns.0, outcome.measured_to_ns.0].map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
        let mut measured = Self { phase_ns: to.saturating_sub(from), ..Self::default() };
        for record in records {
            let record = record?;
            if record.end_ns.is_some_and(|end| (from..to).contains(&end)) {
                measured.events += u64::from(record.token_events);
            }
            measured.compared.extend(MeasuredRequest::from_record(&record));
        }
        let all = measured.compared.len();
        let step = all.div_ceil(MAX_COMPARED).max(1);
        measured.compared.sort_by_key(|request| request.global_index);
        measured.compared = measured.compared.into_iter().step_by(step).collect();
        Ok(measured)
    }

    /// Returns the ids of the requests to compare.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u128> {
        self.compared.iter().map(|request| request.request_id)
    }

    /// Returns the figures, and each reason why the level did not hold.
    pub(crate) fn figures(
        &self,
        attempt: &Attempt,
        outcome: &ServingOutcome,
        truth: &Truth,
        limits: &CalibrationLimits,
    ) -> Figures {
        let (mut ttft, mut itl, mut requests) = (Vec::new(), Vec::new(), 0);
        for request in &self.compared {
            let Some(known) = truth.get(request.request_id) else { continue };
            let Some(first) = known.written_ns.first() else { continue };
            requests += 1;
            ttft.push(difference(request.ttft_ns, first.saturating_sub(known.arrived_ns)));
            // Lists of another length are of other events.
            if request.events_ns.len() == known.written_ns.len() {
                let gaps = |times: &[i64]| times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect::<Vec<_>>();
                let pairs = gaps(&request.events_ns).into_iter().zip(gaps(&known.written_ns));
                itl.extend(pairs.map(|(measured, known)| difference(measured, known)));
            }
        }
        let (ttft_error, itl_error) = (error_of(ttft), error_of(itl));
        let events_per_s = if self.phase_ns > 0 { self.events as f64 * 1e9 / self.phase_ns as f64 } else { 0.0 };
        let mut missed = attempt.validity.reasons.clone();
        missed.extend(unsuccessful(outcome));
        missed.extend(self.unknown_truth(requests));
        missed.extend(exceeded(
            "ttft_error",
            "the error of TTFT",
            ttft_error.map(|error| error.p99_ns),
            limits.ttft_error_p99_ns,
        ));
        missed.extend(exceeded("itl_error", "the error of ITL", itl_error.map(|error| error.p99_ns), limits.itl_error_p99_ns));
        missed.extend(exceeded("lateness", "lateness", outcome.client.lateness_p99_ns, limits.lateness_p99_ns));
        Figures { requests, ttft_error, itl_error, events_per_s, missed }
    }

    /// Reports requests that the simulator does not know, and a level without any request.
    fn unknown_truth(&self, known: u64) -> Option<Reason> {
        let compared = self.compared.len() as u64;
        match known {
            0 => Some(Reason::new("no_requests", "no measured request succeeded that the simulator reports, too")),
            known if known < compared => {
                Some(Reason::new("no_truth", format!("the simulator reports {known} of {compared} measured requests")))
            }
            _ => None,
        }
    }
}

impl MeasuredRequest {
    fn from_record(record: &Record) -> Option<Self> {
        if record.phase != Phase::Measured || record.outcome != Outcome::Ok {
            return None;
        }
        Some(Self {
            global_index: record.global_index,
            request_id: record.request_id,
            ttft_ns: record.first_token_ns?.saturating_sub(record.sent_ns?),
            events_ns: record.chunks.iter().map(|chunk| chunk.at_ns).collect(),
        })
    }
}

fn difference(one: i64, other: i64) -> i64 {
    i64::try_from(one.abs_diff(other)).unwrap_or(i64::MAX)
}

/// Returns the percentiles of absolute differences; `None` if there is none.
fn error_of(mut differences: Vec<i64>) -> Option<MeasurementError> {
    let count = |ns: i64| Count(u64::try_from(ns).unwrap_or(0));
    Some(MeasurementError {
        n: Count(differences.len() as u64),
        p50_ns: count(nearest_rank_ns(&mut differences, 0.5)?),
        p99_ns: count(nearest_rank_ns(&mut differences, 0.99)?),
        max_ns: count(nearest_rank_ns(&mut differences, 1.0)?),
    })
}

/// Reports measured requests that did not succeed.
fn unsuccessful(outcome: &ServingOutcome) -> Option<Reason> {
    let all: u64 = outcome.outcomes.values().map(|count| count.0).sum();
    let successful = outcome.outcomes.get(Outcome::Ok.as_str()).map_or(0, |count| count.0);
    let failed = all.saturating_sub(successful);
    (failed > 0).then(|| Reason::new("failed_requests", format!("{failed} of {all} measured requests did not succeed")))
}

fn exceeded(code: &str, what: &str, p99: Option<Count>, limit: Count) -> Option<Reason> {
    let ms = |count: Count| count.0 as f64 / 1e6;
    let p99 = p99.filter(|p99| *p99 > limit)?;
    Some(Reason::new(code, format!("the p99 of {what} was {:.2} ms (limit {} ms)", ms(p99), ms(limit))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assay_manifest::{Artifact, AttemptStatus, ClientHealth, ClockOffset, Digest, Instant, Validity, Window};
    use assay_record::Chunk;

    use super::*;
    use crate::truth::TrueRequest;

    const MS: i64 = 1_000_000;

    fn outcome(outcomes: &[(&str, u64)], lateness_p99_ns: Option<u64>) -> ServingOutcome {
        let digest = Digest::compute(b"");
        ServingOutcome {
            schedule_digest: digest,
            start: Instant::from_unix_ns(0),
            measured_from_ns: Count(0),
            measured_to_ns: Count(1_000_000_000),
            outcomes: outcomes.iter().map(|(name, count)| ((*name).to_owned(), Count(*count))).collect(),
            warmup_outcomes: BTreeMap::new(),
            input_tokens: Count(0),
            output_tokens: Count(0),
            chunk_lists: "all".to_owned(),
            client: ClientHealth { lateness_p99_ns: lateness_p99_ns.map(Count), ..ClientHealth::default() },
            cache_flushed: None,
            warmed_turns: None,
            idle_cut_ns: None,
            clock: ClockOffset { source: "same_host".to_owned(), offset_ns: None, uncertainty_ns: None, no_exchange: None },
            records: Artifact { name: "r".to_owned(), digest, size: Count(0), media_type: "x".to_owned() },
        }
    }

    fn attempt(reasons: Vec<Reason>) -> Attempt {
        let window = Window { start: Instant::from_unix_ns(0), end: Instant::from_unix_ns(0), duration_ns: Count(0) };
        Attempt {
            trial_id: "w.t.default.p.t0".parse().expect("a trial id"),
            case_id: "w.t.default".parse().expect("a case id"),
            point_id: "p".parse().expect("a point id"),
            attempt: 0,
            window,
            place: None,
            status: AttemptStatus::Completed,
            validity: Validity::from_reasons(reasons),
            indicator: None,
            serving: None,
            allowed_cpus: None,
            host_before: None,
            host_after: None,
            evidence: Vec::new(),
        }
    }

    /// A request that was sent at 100 ms, and whose events came at these milliseconds.
    fn record(id: u64, events_ms: &[i64]) -> Record {
        let chunks: Vec<Chunk> = events_ms.iter().map(|at| Chunk { at_ns: at * MS, bytes: 1, tokens: None }).collect();
        Record {
            global_index: id,
            request_id: u128::from(id),
            phase: Phase::Measured,
            outcome: Outcome::Ok,
            sent_ns: Some(100 * MS),
            first_token_ns: chunks.first().map(|chunk| chunk.at_ns),
            end_ns: chunks.last().map(|chunk| chunk.at_ns),
            token_events: u32::try_from(chunks.len()).expect("few"),
            chunks,
            ..Record::default()
        }
    }

    fn truth(id: u64, arrived_ms: i64, written_ms: &[i64]) -> TrueRequest {
        let written_ns = written_ms.iter().map(|at| at * MS).collect();
        TrueRequest { request_id: format!("{id:032x}"), arrived_ns: arrived_ms * MS, written_ns }
    }

    fn figures(records: Vec<Record>, truths: Vec<TrueRequest>, outcome: &ServingOutcome, reasons: Vec<Reason>) -> Figures {
        let measured =
            MeasuredRequests::from_records(records.into_iter().map(Ok::<_, std::convert::Infallible>), outcome).expect("records");
        let mut truth = Truth::default();
        for request in truths {
            truth.add(request);
        }
        measured.figures(&attempt(reasons), outcome, &truth, &LIMITS)
    }

    fn codes(figures: &Figures) -> Vec<&str> {
        figures.missed.iter().map(|reason| reason.code.as_str()).collect()
    }

    #[test]
    fn an_error_is_the_difference_of_durations_whatever_the_clocks_began_at() {
        // TTFT 23 ms of true 20 ms; gaps 20 and 25 ms of true 20 and 20 ms.
        let found = figures(
            vec![record(1, &[123, 143, 168])],
            vec![truth(1, 9_000, &[9_020, 9_040, 9_060])],
            &outcome(&[("ok", 1)], Some(1)),
            Vec::new(),
        );
        let error =
            |n, p50, p99| Some(MeasurementError { n: Count(n), p50_ns: Count(p50), p99_ns: Count(p99), max_ns: Count(p99) });
        assert_eq!(found.ttft_error, error(1, 3_000_000, 3_000_000));
        assert_eq!(found.itl_error, error(2, 0, 5_000_000));
        assert_eq!((found.requests, found.events_per_s, codes(&found)), (1, 3.0, vec![]));
    }

    #[test]
    fn a_level_holds_within_every_limit_only() {
        let slow = figures(
            vec![record(1, &[131, 162])],
            vec![truth(1, 0, &[20, 40])],
            &outcome(&[("ok", 1), ("timeout", 2)], Some(10_000_001)),
            vec![Reason::new("client_late", "it was")],
        );
        assert_eq!(codes(&slow), ["client_late", "failed_requests", "ttft_error", "itl_error", "lateness"]);
        assert_eq!(slow.missed[2].detail, "the p99 of the error of TTFT was 11.00 ms (limit 10 ms)");
        let exact = figures(vec![record(1, &[130])], vec![truth(1, 0, &[20])], &outcome(&[("ok", 1)], Some(10_000_000)), vec![]);
        assert_eq!(codes(&exact), [""; 0], "the limits themselves hold");
        assert_eq!(exact.itl_error, None, "one event has no gap");
    }

    #[test]
    fn what_the_simulator_does_not_report_is_no_figure() {
        let ok = outcome(&[("ok", 2)], None);
        let one = figures(vec![record(1, &[120]), record(2, &[120])], vec![truth(2, 0, &[20])], &ok, Vec::new());
        assert_eq!((one.requests, codes(&one)), (1, vec!["no_truth"]));
        let none = figures(vec![record(1, &[120])], Vec::new(), &ok, Vec::new());
        assert_eq!((none.requests, none.ttft_error, codes(&none)), (0, None, vec!["no_requests"]));
        let warmup = Record { phase: Phase::Warmup, ..record(1, &[120]) };
        assert_eq!(codes(&figures(vec![warmup], vec![truth(1, 0, &[20])], &ok, Vec::new())), ["no_requests"]);
    }

    #[test]
    fn many_requests_are_compared_at_equal_distances() {
        let many = (0..=MAX_COMPARED as u64 * 2).rev().map(|id| Ok::<_, std::convert::Infallible>(record(id, &[120])));
        let measured = MeasuredRequests::from_records(many, &outcome(&[], None)).expect("records");
        let ids: Vec<u128> = measured.ids().collect();
        assert!(ids.len() <= MAX_COMPARED && ids.starts_with(&[0, 3, 6]), "{} of them", ids.len());
    }
}
