//! A trial's records: the results of one pass over all of them, and the selection that later passes read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use assay_manifest::{SessionCounts, SloMetric, TrialId};
use assay_metric::{
    BusySpan, Field, MeasuredPhase, PhaseEnd, RequestFields, SHARE_BITS, TIME_SLICES, Totals, TpotDivisor, is_length_mismatch,
    quantity, share_within, time_slice_of, tpot_ns,
};
use assay_record::{Outcome, Phase, TokenSource, UsageFault};
use assay_schedule::Stripe;
use assay_warehouse::records::{Batch, Ints, RecordColumn as Column, RecordError, RecordFile};

use super::time_slices::SliceTally;
use super::views::Sample;

/// The number of row groups that one thread takes at a time.
const SPAN_GROUPS: usize = 8;

/// The counted attempt of a trial with the records of all its shards.
pub(crate) struct TrialFiles {
    /// The trial.
    pub(crate) trial_id: TrialId,
    /// The attempt.
    pub(crate) attempt: u32,
    /// The files, by shard.
    pub(crate) shards: Vec<(u32, RecordFile)>,
    /// The planned measurement.
    pub(crate) planned: PlannedMeasurement,
    /// The window as execute states it; `None` if it is not stated.
    pub(crate) stated_window: Option<Range<i64>>,
    /// The outcomes of the measured phase's requests as execute states them; `None` if they are not stated.
    pub(crate) stated_outcomes: Option<BTreeMap<String, u64>>,
    /// The turns that were sent before it so that a cache holds their history, as execute states it; `None` if none were to be.
    pub(crate) warmed_turns: Option<u64>,
    /// The idle time that was cut, in nanoseconds, as execute states it; `None` without an idle cap.
    pub(crate) idle_cut_ns: Option<u64>,
    /// True if every request's chunk list was kept.
    pub(crate) all_lists: bool,
}

/// The planned measurement of a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlannedMeasurement {
    /// The start of the measured phase, and its duration if the clock ends it.
    pub(crate) phase: MeasuredPhase,
    /// The number of requests that end it.
    pub(crate) requests: Option<u64>,
    /// The users of a closed loop, over all shards.
    pub(crate) users: Option<u64>,
    /// True if requests are turns of sessions: each user plays one session at a time, and pauses between its turns.
    pub(crate) has_sessions: bool,
}

/// The settings for reading records.
pub(super) struct Rules {
    /// True if requests have intended times, from which their latencies count.
    pub(super) has_intended: bool,
    /// True if requests are turns of sessions.
    pub(super) has_sessions: bool,
    /// True if due requests wait while as many are in flight as the workload allows.
    pub(super) has_cap: bool,
    /// True if each request opens a connection.
    pub(super) is_connecting: bool,
    /// True if their turns have planned times, by a trace or by the grid of a user.
    pub(super) has_planned: bool,
    /// True if they are turns of the sessions of a trace.
    pub(super) plays_trace: bool,
    /// True if the first session of each user begins in its middle.
    pub(super) begins_in_middle: bool,
    /// True if this trace records the end of every response.
    pub(super) has_recorded_ends: bool,
    /// True if responses have tokens.
    pub(super) has_output: bool,
    /// The limits of a good request, in nanoseconds.
    pub(super) slos: Vec<(SloMetric, u64)>,
}

/// Some row groups of a file, with marks for the rows that count.
pub(super) struct RowGroupSpan<'a> {
    pub(super) file: &'a RecordFile,
    pub(super) groups: Range<usize>,
    /// The requests of the measured phase.
    pub(super) measured: RowMarks,
    /// Those of them that succeeded.
    pub(super) ok: RowMarks,
}

impl RowGroupSpan<'_> {
    /// Returns the span with the marks of those rows only whose whole number in a column is one of these.
    pub(super) fn marked(&self, column: Column, is_one: impl Fn(i64) -> bool) -> Result<Self, RecordError> {
        let rows = self.measured.0.len() as u64 * 64;
        let (mut measured, mut ok) = (RowMarks::with_rows(rows), RowMarks::with_rows(rows));
        self.each(&[column], |batch, before| {
            let numbers = batch.ints(column)?;
            let found = (0..batch.rows()).filter(|row| numbers.get(*row).is_some_and(&is_one)).map(|row| before + row);
            for row in found {
                if self.measured.get(row) {
                    measured.set(row);
                }
                if self.ok.get(row) {
                    ok.set(row);
                }
            }
            Ok(())
        })?;
        Ok(Self { file: self.file, groups: self.groups.clone(), measured, ok })
    }

    /// Calls `visit` with batches of some columns, and with the place of their first row among the span's rows.
    pub(super) fn each(
        &self,
        columns: &[Column],
        mut visit: impl FnMut(&Batch, usize) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        let mut before = 0;
        for batch in self.file.batches(columns, self.groups.clone())? {
            let batch = batch?;
            visit(&batch, before)?;
            before += batch.rows();
        }
        Ok(())
    }
}

/// A mark for each row of some row groups.
#[derive(Default)]
pub(super) struct RowMarks(Vec<u64>);

impl RowMarks {
    fn with_rows(rows: u64) -> Self {
        Self(vec![0; (rows as usize).div_ceil(64)])
    }

    fn set(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    /// Returns true if a row is marked.
    #[inline]
    pub(super) fn get(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Returns the number of marked rows.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// The share of a request that counts as a whole.
const WHOLE: u64 = 1 << SHARE_BITS;

/// The results of one pass over records. Every part adds up in any order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Requests of the measured phase by outcome.
    outcomes: [u64; Outcome::ALL.len()],
    /// Those that succeeded, by the source of their token counts.
    sources: [u64; TokenSource::ALL.len()],
    /// Those with a token count of the endpoint that is not used, by the reason.
    usage_faults: [u64; UsageFault::ALL.len()],
    /// The sums that metrics are computed from.
    pub(super) totals: Totals,
    /// Requests whose TPOT assumes one token in the first event.
    pub(super) tpot_assumed: u64,
    /// Token events of those that succeeded.
    pub(super) token_events: u64,
    /// Requests of the measured phase that met each SLO.
    pub(super) within: Vec<u64>,
    /// The sessions of both phases.
    pub(super) sessions: SessionCounts,
    /// Those of them with which users begin in their middle, by their numbers.
    from_middle: BTreeSet<i64>,
    /// The requests of the measured phase that may be shown.
    pub(super) sample: Sample,
    /// The requests of both phases that ended in each time slice of the window.
    pub(super) slices: [SliceTally; TIME_SLICES],
}

impl Tally {
    /// Returns the number of requests of the measured phase.
    pub(super) fn requests(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Returns the number of requests by outcome: every outcome that occurred.
    pub(super) fn outcomes(&self) -> BTreeMap<String, u64> {
        nonzero_counts(Outcome::ALL, &self.outcomes)
    }

    /// Returns the number of requests that succeeded, by the source of their token counts.
    pub(super) fn sources(&self) -> BTreeMap<String, u64> {
        nonzero_counts(TokenSource::ALL, &self.sources)
    }

    /// Returns the number of requests that succeeded and have a token count of the endpoint that is not used, by the reason.
    pub(super) fn usage_faults(&self) -> BTreeMap<String, u64> {
        let mut faults = nonzero_counts(UsageFault::ALL, &self.usage_faults);
        faults.remove(UsageFault::None.as_str());
        faults
    }

    /// Returns the number of requests that succeeded.
    pub(super) fn ok(&self) -> u64 {
        self.outcomes.get(Outcome::Ok as usize).copied().unwrap_or(0)
    }

    /// Returns the number of requests that the client cancelled as planned.
    pub(super) fn cancelled(&self) -> u64 {
        self.outcomes.get(Outcome::Cancelled as usize).copied().unwrap_or(0)
    }

    /// Returns the number of the others: those that succeeded or failed.
    pub(super) fn uncancelled(&self) -> u64 {
        self.requests() - self.cancelled()
    }

    fn merge(&mut self, other: Self) {
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(mine, theirs)| *mine += theirs);
        self.sources.iter_mut().zip(other.sources).for_each(|(mine, theirs)| *mine += theirs);
        self.usage_faults.iter_mut().zip(other.usage_faults).for_each(|(mine, theirs)| *mine += theirs);
        self.totals.merge(other.totals);
        self.tpot_assumed += other.tpot_assumed;
        self.token_events += other.token_events;
        self.within.resize(self.within.len().max(other.within.len()), 0);
        self.within.iter_mut().zip(other.within).for_each(|(mine, theirs)| *mine += theirs);
        self.sessions.add(&other.sessions);
        self.from_middle.extend(other.from_middle);
        self.sample.merge(other.sample);
        self.slices.iter_mut().zip(other.slices).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

fn bump(counts: &mut [u64], place: usize) {
    if let Some(count) = counts.get_mut(place) {
        *count += 1;
    }
}

fn nonzero_counts(words: &[impl ToString], counts: &[u64]) -> BTreeMap<String, u64> {
    words.iter().zip(counts).filter(|(_, count)| **count > 0).map(|(word, count)| (word.to_string(), *count)).collect()
}

/// The reason why the records of a trial cannot be reduced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialError {
    /// A file cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file's rows belong to another attempt or shard.
    #[error("row {row} of shard {shard} is of attempt {} and shard {found_shard}", .found_attempt.saturating_add(1))]
    OtherAttempt {
        /// The row.
        row: u64,
        /// The shard that the file should belong to.
        shard: u32,
        /// The attempt that the row belongs to, from 0.
        found_attempt: i64,
        /// The shard that the row belongs to.
        found_shard: i64,
    },
    /// Execute states other outcomes.
    #[error("execute states the outcomes {stated} of the measured phase, but the records have {actual}")]
    OtherOutcomes {
        /// The outcomes that execute states.
        stated: String,
        /// The outcomes in the records.
        actual: String,
    },
    /// Execute states another window.
    #[error("execute states a measured window from {} to {} ns, but by plan and records it is from {} to {} ns", .stated.start, .stated.end, .actual.start, .actual.end)]
    OtherWindow {
        /// The window that execute states.
        stated: Range<i64>,
        /// The window that follows from the plan and the records.
        actual: Range<i64>,
    },
}

/// A trial after the first pass over its records.
pub(super) struct ScannedTrial<'a> {
    pub(super) trial: &'a TrialFiles,
    /// The time that every rate, goodput and cost is over.
    pub(super) window: Range<i64>,
    /// The part of it in which all users were busy, or the reason why there is none.
    pub(super) steady: Result<Range<i64>, String>,
    pub(super) row_groups: Vec<RowGroupSpan<'a>>,
    pub(super) tally: Tally,
}

/// Reads all records of a trial once, several threads at a time. `timeline` is true if some are kept for the timeline.
pub(super) fn scan_trial<'a>(
    trial: &'a TrialFiles,
    rules: &Rules,
    timeline: bool,
    threads: usize,
) -> Result<ScannedTrial<'a>, TrialError> {
    let ranges: Vec<(u32, &RecordFile, Range<usize>)> = trial
        .shards
        .iter()
        .flat_map(|(shard, file)| {
            let starts = (0..file.row_groups()).step_by(SPAN_GROUPS);
            starts.map(move |start| (*shard, file, start..(start + SPAN_GROUPS).min(file.row_groups())))
        })
        .collect();
    let Spans { window, counts_shares, steady } = spans(trial, &ranges, threads)?;
    let never = i64::MAX..i64::MAX;
    let pass = Pass { trial, rules, timeline, window: window.clone(), counts_shares, steady: steady.clone().unwrap_or(never) };
    let scans = in_parallel(threads, &ranges, |(shard, file, groups)| pass.scan_span(*shard, file, groups.clone()))?;
    let mut scanned = ScannedTrial { trial, window, steady, row_groups: Vec::new(), tally: Tally::default() };
    scanned.tally.within = vec![0; rules.slos.len()];
    for (span, tally) in scans {
        scanned.row_groups.push(span);
        scanned.tally.merge(tally);
    }
    scanned.tally.sessions.begun.0 += scanned.tally.from_middle.len() as u64;
    check_outcomes(trial, &scanned.tally)?;
    match &trial.stated_window {
        Some(stated) if *stated != scanned.window => {
            Err(TrialError::OtherWindow { stated: stated.clone(), actual: scanned.window })
        }
        _ => Ok(scanned),
    }
}

/// The data of a trial's records that decide its window and the time in which all users were busy.
#[derive(Default)]
struct EndTimes {
    measured: u64,
    last_end_ns: Option<i64>,
    busy: Option<BusySpan>,
}

impl EndTimes {
    fn read(file: &RecordFile, groups: Range<usize>, users: Option<usize>) -> Result<Self, RecordError> {
        let mut ends = Self { busy: users.map(BusySpan::new), ..Self::default() };
        for batch in file.batches(&[Column::Phase, Column::Sent, Column::LastToken, Column::End], groups)? {
            let batch = batch?;
            let (sent, last, end) = (batch.ints(Column::Sent)?, batch.ints(Column::LastToken)?, batch.ints(Column::End)?);
            for (row, phase) in batch.words::<Phase>(Column::Phase)?.into_iter().enumerate() {
                let end = end.get(row).or(last.get(row));
                if phase == Phase::Measured {
                    ends.measured += 1;
                    ends.last_end_ns = ends.last_end_ns.max(end);
                }
                if let (Some(busy), Some(sent), Some(end)) = (&mut ends.busy, sent.get(row), end) {
                    busy.add(sent, end);
                }
            }
        }
        Ok(ends)
    }

    fn merge(&mut self, other: Self) {
        self.measured += other.measured;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
        match (&mut self.busy, other.busy) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine, theirs) => *mine = mine.take().or(theirs),
        }
    }
}

/// The times of a trial over all its shards.
struct Spans {
    window: Range<i64>,
    /// True if a request counts by the share of its time that lies in the window, false if it counts whole where it completes in it:
    /// see [`Pass::add_to_window`].
    counts_shares: bool,
    /// The part of the window in which all users were busy, or the reason why there is none.
    steady: Result<Range<i64>, String>,
}

/// Finds the spans of a trial.
fn spans(trial: &TrialFiles, ranges: &[(u32, &RecordFile, Range<usize>)], threads: usize) -> Result<Spans, TrialError> {
    let PlannedMeasurement { phase, requests, users, has_sessions } = trial.planned;
    if requests.is_none() && users.is_none() && phase.duration_ns.is_some() {
        let steady = Err("only a closed loop has users who are all busy at once".to_owned());
        return Ok(Spans { window: phase.window(PhaseEnd::ByClock), counts_shares: false, steady });
    }
    let shards = u32::try_from(trial.shards.len()).unwrap_or(u32::MAX);
    let own_users = |shard: u32| {
        if has_sessions {
            return None;
        }
        let share = Stripe::new(shard, shards).map_or(0, |stripe| stripe.share(users.unwrap_or(0)));
        usize::try_from(share).ok().filter(|share| *share > 0)
    };
    let end_times =
        in_parallel(threads, ranges, |(shard, file, groups)| EndTimes::read(file, groups.clone(), own_users(*shard)))?;
    let mut of_shards: BTreeMap<u32, EndTimes> = BTreeMap::new();
    for ((shard, ..), ends) in ranges.iter().zip(end_times) {
        of_shards.entry(*shard).or_default().merge(ends);
    }
    let measured: u64 = of_shards.values().map(|ends| ends.measured).sum();
    let last_end_ns = of_shards.values().filter_map(|ends| ends.last_end_ns).max();
    let by_count = requests.is_some_and(|requests| measured >= requests);
    let window =
        phase.window(if by_count || phase.duration_ns.is_none() { PhaseEnd::ByCount { last_end_ns } } else { PhaseEnd::ByClock });
    let steady = match users {
        None => Err("only a closed loop has users who are all busy at once".to_owned()),
        Some(_) if has_sessions => Err("the users of sessions pause between turns".to_owned()),
        Some(users) => {
            let with_users = trial.shards.iter().filter(|(shard, _)| own_users(*shard).is_some()).count();
            let spans: Vec<_> = of_shards.into_values().filter_map(|ends| ends.busy?.span()).collect();
            let all = spans.iter().fold(window.clone(), |all, span| all.start.max(span.start)..all.end.min(span.end));
            let never = || format!("there was no time in which all of {} had a request under way", quantity(users, "user"));
            (spans.len() == with_users && all.start < all.end).then_some(all).ok_or_else(never)
        }
    };
    Ok(Spans { counts_shares: users.is_some() || Some(window.end) == last_end_ns, window, steady })
}

fn check_outcomes(trial: &TrialFiles, tally: &Tally) -> Result<(), TrialError> {
    let actual = tally.outcomes();
    let Some(stated) = &trial.stated_outcomes else { return Ok(()) };
    let stated: BTreeMap<String, u64> =
        stated.iter().filter(|(_, count)| **count > 0).map(|(word, count)| (word.clone(), *count)).collect();
    if stated == actual {
        Ok(())
    } else {
        Err(TrialError::OtherOutcomes { stated: format!("{stated:?}"), actual: format!("{actual:?}") })
    }
}

/// Works on every item, several at a time, and returns the results in the items' order.
pub(super) fn in_parallel<I: Sync, T: Send, E: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T, E>)>> = Mutex::new(Vec::new());
    let worker = || {
        while let Some((place, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|place| Some((place, items.get(place)?)))
        {
            let result = work(item);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
        }
    };
    std::thread::scope(|scope| {
        // A thread that cannot be started leaves its items to the others.
        (1..threads.min(items.len())).for_each(|_| drop(std::thread::Builder::new().spawn_scoped(scope, worker)));
        worker();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

struct Pass<'a, 'r> {
    trial: &'a TrialFiles,
    rules: &'r Rules,
    timeline: bool,
    window: Range<i64>,
    counts_shares: bool,
    /// The time in which all users were busy; of no length if there was none.
    steady: Range<i64>,
}

/// The columns of the first pass.
const COLUMNS: &[Column] = &[
    Column::GlobalIndex,
    Column::Attempt,
    Column::Shard,
    Column::Phase,
    Column::Outcome,
    Column::Intended,
    Column::Ready,
    Column::Dequeued,
    Column::Sent,
    Column::FirstToken,
    Column::FirstContent,
    Column::LastToken,
    Column::End,
    Column::InputTokensRequested,
    Column::InputTokens,
    Column::InputTokensEndpoint,
    Column::CachedTokens,
    Column::OutputTokensRequested,
    Column::OutputTokens,
    Column::OutputSource,
    Column::UsageFault,
    Column::FirstEventTokens,
    Column::TokenEvents,
    Column::Session,
    Column::Turn,
    Column::SessionTurns,
    Column::SessionDone,
];

/// The fields of a request that the first pass reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) index: i64,
    pub(super) outcome: Outcome,
    pub(super) start: Option<i64>,
    ready: Option<i64>,
    pub(super) dequeued: Option<i64>,
    pub(super) sent: Option<i64>,
    pub(super) first_token: Option<i64>,
    pub(super) first_content: Option<i64>,
    pub(super) last_token: Option<i64>,
    pub(super) end: Option<i64>,
    input_tokens_requested: Option<i64>,
    input_tokens: Option<i64>,
    input_tokens_endpoint: Option<i64>,
    cached_tokens: Option<i64>,
    output_tokens_requested: Option<i64>,
    pub(super) output_tokens: Option<i64>,
    source: TokenSource,
    usage_fault: UsageFault,
    first_event_tokens: Option<i64>,
    token_events: i64,
    session: Option<i64>,
    turn: Option<i64>,
    session_turns: Option<i64>,
    session_done: Option<i64>,
}

impl Request {
    fn tpot(&self) -> Option<(f64, TpotDivisor)> {
        let small = |tokens: Option<i64>| tokens.and_then(|tokens| u32::try_from(tokens).ok());
        tpot_ns(self.first_token, self.last_token, small(self.output_tokens), small(self.first_event_tokens))
    }

    /// Returns true if the request succeeded within a limit, the limit itself included. A missing value is not within it.
    fn is_within(&self, slo: SloMetric, at_most_ns: u64) -> bool {
        self.outcome.is_ok() && slo.is_within(at_most_ns, &self.fields())
    }

    /// Returns the facts that SLOs limit.
    fn fields(&self) -> RequestFields {
        let mut fields = RequestFields::default();
        fields.set(Field::Start, self.start);
        fields.set(Field::FirstToken, self.first_token);
        fields.set(Field::FirstContent, self.first_content);
        fields.set(Field::LastToken, self.last_token);
        fields.set(Field::OutputTokens, self.output_tokens);
        fields.set(Field::FirstEventTokens, self.first_event_tokens);
        fields
    }
}

impl<'a> Pass<'a, '_> {
    fn scan_span(&self, shard: u32, file: &'a RecordFile, groups: Range<usize>) -> Result<(RowGroupSpan<'a>, Tally), TrialError> {
        let rows = file.rows_in(groups.clone());
        let mut span = RowGroupSpan { file, groups, measured: RowMarks::with_rows(rows), ok: RowMarks::with_rows(rows) };
        let mut tally = Tally { within: vec![0; self.rules.slos.len()], ..Tally::default() };
        let mut before = 0;
        for batch in file.batches(COLUMNS, span.groups.clone())? {
            let batch = batch?;
            check_origin(&batch, shard, self.trial.attempt)?;
            self.scan_batch(&batch, before, &mut span, &mut tally)?;
            before += batch.rows();
        }
        Ok((span, tally))
    }

    fn scan_batch(
        &self,
        batch: &Batch,
        before: usize,
        span: &mut RowGroupSpan<'_>,
        tally: &mut Tally,
    ) -> Result<(), RecordError> {
        let columns = Columns::new(batch, self.rules.has_intended)?;
        let phases: Vec<Phase> = batch.words(Column::Phase)?;
        for (row, phase) in phases.into_iter().enumerate() {
            let Some(request) = columns.request(row) else { continue };
            if phase == Phase::Measured {
                span.measured.set(before + row);
                if request.outcome.is_ok() {
                    span.ok.set(before + row);
                }
                self.add_measured(&request, tally);
            }
            if self.rules.has_sessions {
                self.add_turn(&request, tally);
            }
            self.add_to_window(&request, tally);
            self.add_to_slice(&request, tally);
        }
        Ok(())
    }

    fn add_measured(&self, request: &Request, tally: &mut Tally) {
        bump(&mut tally.outcomes, request.outcome as usize);
        if let Some(sent) = request.sent {
            tally.totals.add_sent(sent);
            tally.totals.queued += u64::from(request.ready > request.start);
        }
        let mut good = !self.rules.slos.is_empty();
        for ((metric, at_most_ns), within) in self.rules.slos.iter().zip(&mut tally.within) {
            let keeps = request.is_within(*metric, *at_most_ns);
            *within += u64::from(keeps);
            good &= keeps;
        }
        tally.totals.good += u64::from(good);
        if self.timeline {
            tally.sample.add(request);
        }
        if request.outcome.is_ok() {
            add_successful(request, tally);
        }
    }

    /// Adds a request to the time slice in which it ended; one that was never sent ended when it was due.
    fn add_to_slice(&self, request: &Request, tally: &mut Tally) {
        let ended = request.end.or(request.last_token).or(request.sent).or(request.start);
        let slice = ended.and_then(|ended| time_slice_of(&self.window, ended)).and_then(|place| tally.slices.get_mut(place));
        if let Some(slice) = slice {
            slice.add(request);
        }
    }

    /// Adds a request to the throughput of the window.
    ///
    /// Under closed loop a request counts by the share of its time in the window. Users that keep step complete their requests in
    /// waves, and whole waves may end just before or just after an end of the window: counted where they complete, every trial would be
    /// wrong by the same wave. The same holds if the last response ends the window: no request is in flight then, and all that the
    /// warm-up left would be added. If the clock ends an open loop, a request counts where it completes: by shares, an overloaded
    /// endpoint would be credited with the queue in front of it, which no number of users bounds.
    fn add_to_window(&self, request: &Request, tally: &mut Tally) {
        let Some(end) = request.end.or(request.last_token).filter(|_| request.outcome.is_ok()) else { return };
        let sent = request.sent.unwrap_or(end);
        let output = if self.rules.has_output { request.output_tokens } else { Some(0) };
        let input = request.input_tokens_endpoint.or(request.input_tokens);
        tally.totals.steady.add(share_within(sent, end, &self.steady), input, output);
        let share = if self.counts_shares {
            share_within(sent, end, &self.window)
        } else if end > self.window.start && end <= self.window.end {
            WHOLE
        } else {
            0
        };
        tally.totals.completed.add(share, input, output);
        let turns = request.session_turns.and_then(|turns| u64::try_from(turns).ok()).filter(|turns| *turns > 0);
        tally.totals.completed_sessions += turns.map_or(0, |turns| u128::from(share / turns));
        if !self.rules.slos.is_empty()
            && self.rules.slos.iter().all(|(metric, at_most_ns)| request.is_within(*metric, *at_most_ns))
        {
            tally.totals.completed_good.add(share, input, output);
        }
    }

    /// Counts a session with its first turn, and with the one that completes it or is the first that failed. One that begins in its middle is counted
    /// once for all of its turns.
    fn add_turn(&self, request: &Request, tally: &mut Tally) {
        let is_last = request.session_done == request.session_turns;
        let users = self.trial.planned.users.filter(|_| self.rules.begins_in_middle).unwrap_or(0);
        let from_middle = request.session.filter(|session| u64::try_from(*session).is_ok_and(|session| session < users));
        let sessions = &mut tally.sessions;
        sessions.begun.0 += u64::from(request.turn == Some(0) && from_middle.is_none());
        sessions.complete.0 += u64::from(request.outcome.is_ok() && is_last);
        sessions.failed.0 += u64::from(!request.outcome.is_ok() && request.session_done.is_some());
        tally.from_middle.extend(from_middle);
    }
}

fn add_successful(request: &Request, tally: &mut Tally) {
    bump(&mut tally.sources, request.source as usize);
    bump(&mut tally.usage_faults, request.usage_fault as usize);
    let totals = &mut tally.totals;
    request.input_tokens_requested.into_iter().for_each(|tokens| totals.isl_requested.add(tokens));
    request.input_tokens.into_iter().for_each(|tokens| totals.isl.add(tokens));
    if let (Some(ours), Some(theirs)) = (request.input_tokens, request.input_tokens_endpoint) {
        totals.isl_compared.add(ours);
        totals.isl_endpoint.add(theirs);
    }
    request.output_tokens.into_iter().for_each(|tokens| totals.osl.add(tokens));
    if let Some(tokens) = request.cached_tokens {
        totals.cached.add(tokens);
        let of = request.input_tokens_endpoint.or(request.input_tokens);
        if let Some(of) = of {
            totals.cached_of.add(of);
        }
    }
    if let (Some(Ok(requested)), Some(Ok(actual))) =
        (request.output_tokens_requested.map(u32::try_from), request.output_tokens.map(u32::try_from))
    {
        totals.with_both_lengths += 1;
        totals.mismatched += u64::from(is_length_mismatch(requested, actual));
    }
    tally.token_events += request.token_events.max(0).cast_unsigned();
    let assumed = request.tpot().is_some_and(|(_, how)| how == TpotDivisor::FirstEventAssumedOne);
    tally.tpot_assumed += u64::from(assumed);
}

fn check_origin(batch: &Batch, shard: u32, attempt: u32) -> Result<(), TrialError> {
    let (attempts, shards) = (batch.ints(Column::Attempt)?, batch.ints(Column::Shard)?);
    let (attempts, shards) = (attempts.complete().unwrap_or_default(), shards.complete().unwrap_or_default());
    let other = attempts.iter().zip(shards).position(|(a, s)| *a != i64::from(attempt) || *s != i64::from(shard));
    match other {
        None => Ok(()),
        Some(place) => Err(TrialError::OtherAttempt {
            row: batch.first_row() + place as u64,
            shard,
            found_attempt: attempts.get(place).copied().unwrap_or(-1),
            found_shard: shards.get(place).copied().unwrap_or(-1),
        }),
    }
}

/// The columns of a batch of the first pass.
struct Columns<'a> {
    index: Ints<'a>,
    outcomes: Vec<Outcome>,
    sources: Vec<TokenSource>,
    usage_faults: Vec<UsageFault>,
    start: Ints<'a>,
    ready: Ints<'a>,
    dequeued: Ints<'a>,
    sent: Ints<'a>,
    first_token: Ints<'a>,
    first_content: Ints<'a>,
    last_token: Ints<'a>,
    end: Ints<'a>,
    input_tokens_requested: Ints<'a>,
    input_tokens: Ints<'a>,
    input_tokens_endpoint: Ints<'a>,
    cached_tokens: Ints<'a>,
    output_tokens_requested: Ints<'a>,
    output_tokens: Ints<'a>,
    first_event_tokens: Ints<'a>,
    token_events: Ints<'a>,
    session: Ints<'a>,
    turn: Ints<'a>,
    session_turns: Ints<'a>,
    session_done: Ints<'a>,
}

impl<'a> Columns<'a> {
    fn new(batch: &'a Batch, has_intended: bool) -> Result<Self, RecordError> {
        Ok(Self {
            index: batch.ints(Column::GlobalIndex)?,
            outcomes: batch.words(Column::Outcome)?,
            sources: batch.words(Column::OutputSource)?,
            usage_faults: batch.words(Column::UsageFault)?,
            start: batch.ints(start_column(has_intended))?,
            ready: batch.ints(Column::Ready)?,
            dequeued: batch.ints(Column::Dequeued)?,
            sent: batch.ints(Column::Sent)?,
            first_token: batch.ints(Column::FirstToken)?,
            first_content: batch.ints(Column::FirstContent)?,
            last_token: batch.ints(Column::LastToken)?,
            end: batch.ints(Column::End)?,
            input_tokens_requested: batch.ints(Column::InputTokensRequested)?,
            input_tokens: batch.ints(Column::InputTokens)?,
            input_tokens_endpoint: batch.ints(Column::InputTokensEndpoint)?,
            cached_tokens: batch.ints(Column::CachedTokens)?,
            output_tokens_requested: batch.ints(Column::OutputTokensRequested)?,
            output_tokens: batch.ints(Column::OutputTokens)?,
            first_event_tokens: batch.ints(Column::FirstEventTokens)?,
            token_events: batch.ints(Column::TokenEvents)?,
            session: batch.ints(Column::Session)?,
            turn: batch.ints(Column::Turn)?,
            session_turns: batch.ints(Column::SessionTurns)?,
            session_done: batch.ints(Column::SessionDone)?,
        })
    }

    fn request(&self, row: usize) -> Option<Request> {
        Some(Request {
            index: self.index.get(row)?,
            outcome: *self.outcomes.get(row)?,
            start: self.start.get(row),
            ready: self.ready.get(row),
            dequeued: self.dequeued.get(row),
            sent: self.sent.get(row),
            first_token: self.first_token.get(row),
            first_content: self.first_content.get(row),
            last_token: self.last_token.get(row),
            end: self.end.get(row),
            input_tokens_requested: self.input_tokens_requested.get(row),
            input_tokens: self.input_tokens.get(row),
            input_tokens_endpoint: self.input_tokens_endpoint.get(row),
            cached_tokens: self.cached_tokens.get(row),
            output_tokens_requested: self.output_tokens_requested.get(row),
            output_tokens: self.output_tokens.get(row),
            source: *self.sources.get(row)?,
            usage_fault: *self.usage_faults.get(row)?,
            first_event_tokens: self.first_event_tokens.get(row),
            token_events: self.token_events.get(row)?,
            session: self.session.get(row),
            turn: self.turn.get(row),
            session_turns: self.session_turns.get(row),
            session_done: self.session_done.get(row),
        })
    }
}

/// Returns the column from which latencies count: the intended time if requests have one, else the send time.
pub(super) fn start_column(has_intended: bool) -> Column {
    if has_intended { Column::Intended } else { Column::Sent }
}
