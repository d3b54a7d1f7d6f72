//! Starts shards together: each marks itself ready, shard 0 names the instant once all of them look for it, and all begin at it.
//!
//! The marks are objects of the store, and each look at them is one list request of a shard, however many shards there are. What
//! a shard has to tell all others is in the name of its mark, which is not read: `3.valid` or `3.invalid`. Otherwise, N shards
//! would read N x N marks for each attempt.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_manifest::LastingReason::{self, NoRequests, OverSaturated};
use assay_manifest::{ClockOffset, Count, HostFacts, Instant, PlannedTrial, Shard, TrialId, canonical_json};
use assay_stage::{BrokenMark, Clock, Context, ErrorCode, Failure, Stopwatch};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::exchange::{self, Listener, Offset};
use super::{same_host, thread_failure};
use crate::verdict::ShardVerdict;

/// The time from the naming of the instant to the instant, in which every shard reads it: several times the shortest interval
/// between two looks.
const MARGIN: Duration = Duration::from_millis(200);

/// The same for a single shard, which waits for no other.
const OWN_MARGIN: Duration = Duration::from_millis(5);

/// The shortest and the longest interval between two looks at the marks in a folder.
const LOCAL_INTERVALS: Range<Duration> = Duration::from_millis(5)..Duration::from_millis(50);

/// The same in a bucket, where each look is a request. The shortest is short enough to see the instant well before it.
const REMOTE_INTERVALS: Range<Duration> = Duration::from_millis(50)..Duration::from_millis(500);

/// The same for lost shards, while a shard sends its load.
const LOST_SHARD_INTERVALS: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(5);

/// The part of the time waited so far that may pass until the next look: a wait gets longer by an eighth at most.
const INTERVAL_PART: u32 = 8;

/// The name of the mark of a shard that is ready.
const READY: &str = "ready";

/// The name of the mark of a shard that knows its clock, and looks for the instant at the shortest interval.
const AWAITING: &str = "awaiting";

/// The name of the mark with the result of the first shard's work for all.
const DID: &str = "did";

/// The name of the mark with the instant at which all begin.
const START: &str = "start";

/// The name of the mark of an attempt that a shard has aborted.
const BROKEN: &str = "broken";

/// The names of the marks of a shard that has sent its load, by whether a measured request of it got a response.
const RESPONSES: [&str; 2] = ["unserved", "served"];

/// The names of the marks of a shard that has finished an attempt, by its verdict.
const VERDICTS: [&str; 4] = [
    ShardVerdict::Valid.mark(),
    ShardVerdict::Invalid.mark(),
    ShardVerdict::Lasting(NoRequests).mark(),
    ShardVerdict::Lasting(OverSaturated).mark(),
];

/// The timeout of waiting for shards.
const DEADLINE: Duration = Duration::from_mins(2);

/// The maximum size of a mark.
const MAX_MARK_BYTES: u64 = 4096;

/// The mark of a shard that is ready.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyMark {
    /// Two shards on one boot share their clocks.
    boot_id: Option<String>,
    /// True if the kernel reports that its clock is synchronised.
    synchronised: Option<bool>,
    /// The clock service of shard 0; meaningless in the others.
    #[serde(default)]
    exchange: ClockService,
}

/// The availability of shard 0's clock service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClockService {
    /// Not needed: all shards are on one boot.
    #[default]
    NotNeeded,
    /// Available at this address.
    At(SocketAddr),
    /// Unavailable, with the reason.
    Unable(String),
}

/// A mark whose name says all.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyMark {}

/// The mark with the instant at which all begin.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartMark {
    at: Instant,
}

/// The mark with the result of the first shard's work for all.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstResultMark<T> {
    did: T,
}

/// The names of the marks of one attempt that exist.
#[derive(Debug, Default)]
struct Marks(BTreeSet<String>);

impl Marks {
    /// Takes the names from the paths of a listing of the attempt's folder.
    fn from_paths(folder: &str, paths: &[String]) -> Self {
        let name = |path: &String| Some(path.strip_prefix(folder)?.strip_prefix('/')?.to_owned());
        Self(paths.iter().filter_map(name).collect())
    }

    fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    fn is_of(&self, shard: u32, what: &str) -> bool {
        self.contains(&format!("{shard}.{what}"))
    }

    /// Returns the first of these shards that has none of these marks.
    fn find_missing(&self, mut shards: Range<u32>, any_of: &[&str]) -> Option<u32> {
        shards.find(|shard| !any_of.iter().any(|what| self.is_of(*shard, what)))
    }
}

/// The intervals at which a shard looks at the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Always the shortest, because what is awaited must be seen at once.
    Shortest,
    /// Longer and longer, because it may come at any time: pods of other shards may start minutes later.
    Growing,
}

/// Returns the pause until the next look, after a wait of this length.
fn pause(waited: Duration, intervals: &Range<Duration>) -> Duration {
    (waited / INTERVAL_PART).clamp(intervals.start, intervals.end)
}

/// Returns the pause between two looks for a lost shard, in an attempt that has lasted this long.
pub(crate) fn lost_shard_pause(elapsed: Duration) -> Duration {
    pause(elapsed, &LOST_SHARD_INTERVALS)
}

/// The start of an attempt.
pub(crate) struct Start {
    /// By the wall clock.
    pub(crate) at: Instant,
    /// By this host's monotonic clock.
    pub(crate) monotonic_ns: i64,
    /// The lateness of this shard; none if it was in time.
    pub(crate) missed_by_ns: Option<i64>,
    /// This shard's clock relative to shard 0's.
    pub(crate) clock: ClockOffset,
}

/// The synchronisation of one attempt's shards.
pub(crate) struct Barrier {
    folder: String,
    trial: TrialId,
    attempt: u32,
    shard: Shard,
    /// The timeout of waiting for shards.
    deadline: Duration,
}

impl Barrier {
    pub(crate) fn new(ctx: &Context, trial: &PlannedTrial, attempt: u32) -> Self {
        let folder = ctx.layout().attempt_marks(ctx.input_digest(), &trial.trial_id, attempt);
        Self { folder, trial: trial.trial_id.clone(), attempt, shard: ctx.shard(), deadline: DEADLINE }
    }

    /// Waits longer for the other shards: this one may have ended its load early.
    pub(crate) fn waiting_longer(self, by: Duration) -> Self {
        Self { deadline: DEADLINE.saturating_add(by), ..self }
    }

    fn mark(&self, shard: u32, what: &str) -> String {
        self.path(&format!("{shard}.{what}"))
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Does work in the first shard that is done once for all, and returns its result in every shard.
    pub(crate) fn run_in_first_shard<T: Serialize + DeserializeOwned>(
        &self,
        ctx: &Context,
        what: impl FnOnce() -> T,
    ) -> Result<T, Failure> {
        if self.shard.index == 0 {
            let did = FirstResultMark { did: what() };
            if self.shard.count > 1 {
                put(ctx, &self.mark(0, DID), &did)?;
            }
            return Ok(did.did);
        }
        self.wait_for_shards(ctx, 0..1, &[DID], Pace::Growing, &ctx.clock().start())?;
        Ok(read::<FirstResultMark<T>>(ctx, &self.mark(0, DID))?.did)
    }

    /// Waits until all shards are ready and know their clocks, and returns the instant at which they begin.
    pub(crate) fn wait(&self, ctx: &Context, here: &HostFacts) -> Result<Start, Failure> {
        if self.shard.count <= 1 {
            return Ok(start_at(after(ctx.clock().now(), OWN_MARGIN), ctx.clock().now(), same_host()));
        }
        let boot_id = here.boot_id.value.clone();
        let own = ReadyMark { boot_id, synchronised: here.clock_synchronised.value, exchange: ClockService::NotNeeded };
        let clock = if self.shard.index == 0 { self.lead(ctx, own)? } else { self.follow(ctx, &own)? };
        let named: StartMark = read(ctx, &self.path(START))?;
        // The instant is by shard 0's clock, as far as a shard knows that.
        Ok(start_at(named.at, to_first_clock(ctx.clock().now(), &clock), clock))
    }

    /// Leads, as shard 0: marks itself ready once the others are, serves its clock if one is on another boot, and names the instant
    /// once all others look for it.
    fn lead(&self, ctx: &Context, mut own: ReadyMark) -> Result<ClockOffset, Failure> {
        let (watch, others) = (ctx.clock().start(), 1..self.shard.count);
        self.wait_for_shards(ctx, others.clone(), &[READY], Pace::Growing, &watch)?;
        let marks: Vec<ReadyMark> = others.clone().map(|shard| read(ctx, &self.mark(shard, READY))).collect::<Result<_, _>>()?;
        let is_elsewhere = marks.iter().any(|other| !are_on_one_boot(&own, other));
        let listener = is_elsewhere.then(Listener::open);
        own.exchange = match &listener {
            None => ClockService::NotNeeded,
            Some(Ok(listener)) => ClockService::At(listener.address),
            Some(Err(why)) => ClockService::Unable(why.clone()),
        };
        put(ctx, &self.mark(0, READY), &own)?;
        let wait = || self.wait_for_shards(ctx, others, &[AWAITING], Pace::Shortest, &watch);
        match listener {
            Some(Ok(listener)) => {
                let is_over = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let serve = || listener.serve(wall_ns, self.shard.count, &is_over);
                    std::thread::Builder::new().spawn_scoped(scope, serve).map_err(|error| thread_failure(&error))?;
                    let awaiting = wait();
                    is_over.store(true, Ordering::Release);
                    awaiting
                })?;
            }
            _ => drop(wait()?),
        }
        put(ctx, &self.path(START), &StartMark { at: after(ctx.clock().now(), MARGIN) })?;
        Ok(same_host())
    }

    /// Follows, as another shard: measures the offset of shard 0's clock if that is served, and waits until the instant is named.
    fn follow(&self, ctx: &Context, own: &ReadyMark) -> Result<ClockOffset, Failure> {
        let watch = ctx.clock().start();
        put(ctx, &self.mark(self.shard.index, READY), own)?;
        // Shard 0 comes last: if a shard is missing, the error names that one.
        self.wait_until(ctx, Pace::Growing, &watch, |marks| {
            let is_led = marks.is_of(0, READY);
            if is_led { Ok(()) } else { Err(marks.find_missing(1..self.shard.count, &[READY]).unwrap_or(0)) }
        })?;
        let first: ReadyMark = read(ctx, &self.mark(0, READY))?;
        let exchanged = match &first.exchange {
            _ if are_on_one_boot(own, &first) => None,
            ClockService::NotNeeded => Some(Err("shard 0 does not respond to requests for its clock".to_owned())),
            ClockService::At(address) => Some(exchange::measure_offset(*address, wall_ns)),
            ClockService::Unable(why) => Some(Err(why.clone())),
        };
        put(ctx, &self.mark(self.shard.index, AWAITING), &EmptyMark {})?;
        self.wait_until(ctx, Pace::Shortest, &watch, |marks| {
            let is_named = marks.contains(START);
            if is_named { Ok(()) } else { Err(marks.find_missing(1..self.shard.count, &[AWAITING]).unwrap_or(0)) }
        })?;
        Ok(clock_offset(own, &first, exchanged))
    }

    /// Marks the attempt as cut short in this shard, so that the others neither wait for it nor measure an attempt that cannot
    /// count. A process that replaces a lost shard joins at the next attempt.
    pub(crate) fn abort(&self, ctx: &Context) -> Result<(), Failure> {
        if self.shard.count <= 1 {
            return Ok(());
        }
        BrokenMark { shard: self.shard.index }.write(ctx.store(), &ctx.layout(), ctx.input_digest(), &self.trial, self.attempt)
    }

    /// Fails with [`ErrorCode::ShardLost`] if a shard has aborted the attempt.
    pub(crate) fn check_not_aborted(&self, ctx: &Context) -> Result<(), Failure> {
        if self.shard.count <= 1 {
            return Ok(());
        }
        match get::<BrokenMark>(ctx, &ctx.layout().attempt_broken(ctx.input_digest(), &self.trial, self.attempt))? {
            None => Ok(()),
            Some(BrokenMark { shard }) => {
                let message = format!("shard {shard} of {} went away in the middle of the attempt", self.shard.count);
                Err(Failure::new(ErrorCode::ShardLost, message))
            }
        }
    }

    /// Tells the other shards if a measured request of this shard got a response.
    pub(crate) fn report_responses(&self, ctx: &Context, has_response: bool) -> Result<(), Failure> {
        if self.shard.count <= 1 {
            return Ok(());
        }
        put(ctx, &self.mark(self.shard.index, RESPONSES[usize::from(has_response)]), &EmptyMark {})
    }

    /// Returns true if a measured request of another shard got a response, once each has recorded it.
    pub(crate) fn others_have_responses(&self, ctx: &Context) -> Result<bool, Failure> {
        if self.shard.count <= 1 {
            return Ok(false);
        }
        let marks = self.wait_for_shards(ctx, 0..self.shard.count, &RESPONSES, Pace::Growing, &ctx.clock().start())?;
        Ok((0..self.shard.count).any(|shard| marks.is_of(shard, RESPONSES[1])))
    }

    /// Records this shard's verdict over its attempt, and returns the verdict of all shards.
    pub(crate) fn agree_on_verdict(&self, ctx: &Context, verdict: ShardVerdict) -> Result<ShardVerdict, Failure> {
        if self.shard.count <= 1 {
            return Ok(verdict);
        }
        put(ctx, &self.mark(self.shard.index, verdict.mark()), &EmptyMark {})?;
        let marks = self.wait_for_shards(ctx, 0..self.shard.count, &VERDICTS, Pace::Growing, &ctx.clock().start())?;
        Ok(verdict_of_all(&marks, self.shard.count))
    }

    /// Waits until each of these shards has one of these marks, and returns all marks.
    fn wait_for_shards(
        &self,
        ctx: &Context,
        shards: Range<u32>,
        any_of: &[&str],
        pace: Pace,
        watch: &Stopwatch,
    ) -> Result<Marks, Failure> {
        // The verdict is recorded for every attempt, also for one that was aborted.
        let is_end = any_of == VERDICTS;
        self.look(ctx, pace, watch, is_end, |marks| marks.find_missing(shards.clone(), any_of).map_or(Ok(()), Err))
    }

    /// Waits until `find` is content with the marks, unless the attempt is aborted.
    fn wait_until(
        &self,
        ctx: &Context,
        pace: Pace,
        watch: &Stopwatch,
        find: impl Fn(&Marks) -> Result<(), u32>,
    ) -> Result<Marks, Failure> {
        self.look(ctx, pace, watch, false, find)
    }

    /// Looks at the marks until `find` is content with them, but no later than the deadline after the start of the watch. `find`
    /// returns the shard that is missing.
    fn look(
        &self,
        ctx: &Context,
        pace: Pace,
        watch: &Stopwatch,
        is_end: bool,
        find: impl Fn(&Marks) -> Result<(), u32>,
    ) -> Result<Marks, Failure> {
        let intervals = if ctx.store().local_root().is_some() { LOCAL_INTERVALS } else { REMOTE_INTERVALS };
        let here = ctx.clock().start();
        loop {
            ctx.check_cancelled()?;
            let marks = Marks::from_paths(&self.folder, &ctx.store().list(&self.folder)?);
            let Err(shard) = find(&marks) else { return Ok(marks) };
            if !is_end && marks.contains(BROKEN) {
                self.check_not_aborted(ctx)?;
            }
            let deadline = self.deadline;
            if u128::from(watch.elapsed_ns()) > deadline.as_nanos() {
                return Err(Failure::new(
                    ErrorCode::ShardMissing,
                    format!("shard {shard} of {} did not come within {deadline:?}", self.shard.count),
                )
                .hint("its log says why; the attempt is repeated when the run goes on"));
            }
            ctx.cancel().wait_timeout(match pace {
                Pace::Shortest => intervals.start,
                Pace::Growing => pause(Duration::from_nanos(here.elapsed_ns()), &intervals),
            });
        }
    }
}

/// Returns the verdict of a number of shards. The attempt is valid if it is so in each. A process that replaces another one may judge it
/// anew: what was invalid once stays so. Another attempt may be valid if a shard had a reason that may pass.
fn verdict_of_all(marks: &Marks, shards: u32) -> ShardVerdict {
    let is_in_any = |verdict: ShardVerdict| (0..shards).any(|shard| marks.is_of(shard, verdict.mark()));
    let lasting = LastingReason::ALL.iter().copied().map(ShardVerdict::Lasting).find(|verdict| is_in_any(*verdict));
    match lasting {
        _ if is_in_any(ShardVerdict::Invalid) => ShardVerdict::Invalid,
        Some(lasting) => lasting,
        None if (0..shards).all(|shard| marks.is_of(shard, ShardVerdict::Valid.mark())) => ShardVerdict::Valid,
        None => ShardVerdict::Invalid,
    }
}

/// Returns true if both have the same boot id, and so one clock. Two unknown boots are not the same.
fn are_on_one_boot(one: &ReadyMark, other: &ReadyMark) -> bool {
    one.boot_id.is_some() && one.boot_id == other.boot_id
}

/// Returns the clock of a shard relative to shard 0: the same on one boot, else the result of an exchange. Without one, two
/// synchronised kernels are close to each other, by an unmeasured amount.
fn clock_offset(own: &ReadyMark, first: &ReadyMark, exchanged: Option<Result<Offset, String>>) -> ClockOffset {
    let no_exchange = match exchanged {
        None => return same_host(),
        Some(Ok(Offset { ns, bound_ns })) => {
            // The exchange returns shard 0's clock relative to this one.
            let offset_ns = Some(ns.saturating_neg().to_string());
            return ClockOffset {
                source: "exchange".to_owned(),
                offset_ns,
                uncertainty_ns: Some(Count(bound_ns)),
                no_exchange: None,
            };
        }
        Some(Err(why)) => Some(why),
    };
    let are_synchronised = [own, first].iter().all(|shard| shard.synchronised == Some(true));
    let source = if are_synchronised { "kernel" } else { "unknown" };
    ClockOffset { source: source.to_owned(), offset_ns: None, uncertainty_ns: None, no_exchange }
}

/// Converts an instant of this shard's clock to shard 0's, as far as the offset is known.
fn to_first_clock(now: Instant, clock: &ClockOffset) -> Instant {
    let offset_ns: i64 = clock.offset_ns.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
    Instant::from_unix_ns(now.unix_ns().saturating_sub(offset_ns))
}

/// Returns the wall clock, for an exchange.
fn wall_ns() -> i64 {
    Clock.now().unix_ns()
}

fn after(now: Instant, margin: Duration) -> Instant {
    Instant::from_unix_ns(now.unix_ns().saturating_add(i64::try_from(margin.as_nanos()).unwrap_or(i64::MAX)))
}

fn start_at(at: Instant, now: Instant, clock: ClockOffset) -> Start {
    let left = at.unix_ns().saturating_sub(now.unix_ns());
    let monotonic_ns = assay_reactor::now_ns().saturating_add(left);
    Start { at, monotonic_ns, missed_by_ns: (left < 0).then_some(left.saturating_neg()), clock }
}

/// Creates a mark; an existing one stays.
fn put(ctx: &Context, path: &str, mark: &impl Serialize) -> Result<(), Failure> {
    let bytes = canonical_json(mark)
        .map_err(|error| Failure::new(ErrorCode::Internal, "a mark has no canonical form").because(&error))?;
    ctx.store().create(path, &bytes)?;
    Ok(())
}

/// Reads a mark that a listing contains.
fn read<T: DeserializeOwned>(ctx: &Context, path: &str) -> Result<T, Failure> {
    get(ctx, path)?.ok_or_else(|| Failure::new(ErrorCode::PointerMissing, format!("`{path}` no longer exists")))
}

fn get<T: DeserializeOwned>(ctx: &Context, path: &str) -> Result<Option<T>, Failure> {
    let Some(bytes) = ctx.store().read(path, MAX_MARK_BYTES)? else { return Ok(None) };
    let mark = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(ErrorCode::Mark, format!("the mark `{path}` is damaged")).because(&error))?;
    Ok(Some(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(boot: Option<&str>, synchronised: Option<bool>) -> ReadyMark {
        ReadyMark { boot_id: boot.map(str::to_owned), synchronised, exchange: ClockService::NotNeeded }
    }

    fn marks(names: &[&str]) -> Marks {
        let paths: Vec<String> = names.iter().map(|name| format!("runs/r/trials/t/000001/{name}")).collect();
        Marks::from_paths("runs/r/trials/t/000001", &paths)
    }

    #[test]
    fn a_listing_names_the_shard_that_is_missing() {
        let there = marks(&["0.started", "0.ready", "2.ready", "10.ready", "1"]);
        assert_eq!(there.find_missing(0..1, &[READY]), None);
        assert_eq!(there.find_missing(0..3, &[READY]), Some(1), "neither `1` nor `10.ready` is a mark of shard 1");
        assert_eq!(there.find_missing(0..2, &[READY, "started"]), Some(1));
        assert_eq!(Marks::from_paths("runs/r/trials/t/00000", &["runs/r/trials/t/000001/0.ready".to_owned()]).0.len(), 0);
    }

    #[test]
    fn an_attempt_counts_only_if_no_process_of_any_shard_found_it_invalid() {
        use ShardVerdict::{Invalid, Lasting, Valid};
        let of_two = |names: &[&str]| verdict_of_all(&marks(names), 2);
        assert_eq!(of_two(&["0.valid", "1.valid"]), Valid);
        assert_eq!(of_two(&["0.valid", "1.invalid"]), Invalid);
        assert_eq!(of_two(&["0.valid"]), Invalid);
        assert_eq!(of_two(&["0.valid", "1.valid", "1.invalid"]), Invalid, "a replaced process judged it first");
        assert_eq!(of_two(&["0.no_requests", "1.valid"]), Lasting(NoRequests), "a shard without a user has no reason");
        assert_eq!(of_two(&["0.over_saturated", "1.valid"]), Lasting(OverSaturated), "the load was less than all of it");
        assert_eq!(of_two(&["0.no_requests", "1.invalid"]), Invalid, "the reason of the other may pass");
    }

    /// Counts the looks of one shard that waits for so long, if a look itself takes no time.
    fn looks(wait: Duration, intervals: &Range<Duration>) -> u32 {
        let (mut waited, mut looks) = (Duration::ZERO, 0);
        while waited < wait {
            waited += pause(waited, intervals);
            looks += 1;
        }
        looks
    }

    #[test]
    fn the_longer_a_wait_the_fewer_looks_a_second() {
        let seconds = |count| Duration::from_secs(count);
        assert_eq!(pause(Duration::ZERO, &REMOTE_INTERVALS), Duration::from_millis(50));
        assert_eq!(pause(seconds(2), &REMOTE_INTERVALS), Duration::from_millis(250));
        assert_eq!(pause(seconds(100), &REMOTE_INTERVALS), Duration::from_millis(500));
        // At the shortest interval they would be 20, 200 and 1200.
        assert_eq!([1, 10, 60].map(|count| looks(seconds(count), &REMOTE_INTERVALS)), [16, 40, 140]);
        assert_eq!([1, 10, 60].map(|count| looks(seconds(count), &LOST_SHARD_INTERVALS)), [1, 10, 26]);
        assert!(MARGIN >= 4 * REMOTE_INTERVALS.start, "each shard looks several times before the instant");
    }

    #[test]
    fn one_boot_has_one_clock() {
        let (a, b, nobody) = (ready(Some("a"), None), ready(Some("b"), None), ready(None, None));
        assert!(are_on_one_boot(&a, &ready(Some("a"), Some(true))));
        assert!(!are_on_one_boot(&a, &b) && !are_on_one_boot(&a, &nobody));
        assert!(!are_on_one_boot(&nobody, &nobody), "two unknown boots are not one");
        assert_eq!(clock_offset(&a, &a, None), same_host());
    }

    #[test]
    fn what_was_exchanged_stands_and_else_what_the_kernels_say() {
        let (synchronised, other) = (ready(Some("a"), Some(true)), ready(Some("b"), Some(true)));
        let found = clock_offset(&synchronised, &other, Some(Ok(Offset { ns: -250, bound_ns: 40 })));
        assert_eq!((found.source.as_str(), found.offset_ns.as_deref()), ("exchange", Some("250")), "this clock minus shard 0's");
        assert_eq!((found.uncertainty_ns, found.no_exchange.as_deref()), (Some(Count(40)), None));
        assert_eq!(to_first_clock(Instant::from_unix_ns(1000), &found), Instant::from_unix_ns(750), "shard 0's clock is behind");

        let refused = || Some(Err("refused".to_owned()));
        let near = clock_offset(&synchronised, &other, refused());
        assert_eq!(
            (near.source.as_str(), near.offset_ns.as_deref(), near.no_exchange.as_deref()),
            ("kernel", None, Some("refused"))
        );
        assert_eq!(to_first_clock(Instant::from_unix_ns(1000), &near), Instant::from_unix_ns(1000));
        assert_eq!(clock_offset(&synchronised, &ready(Some("b"), Some(false)), refused()).source, "unknown");
        assert_eq!(clock_offset(&ready(None, None), &ready(None, None), refused()).source, "unknown");
    }

    #[test]
    fn a_mark_says_where_a_clock_is_asked() {
        let mark =
            ReadyMark { exchange: ClockService::At("10.0.0.1:4242".parse().expect("an address")), ..ready(Some("a"), None) };
        let text = String::from_utf8(canonical_json(&mark).expect("a mark")).expect("text");
        assert_eq!(text, r#"{"boot_id":"a","exchange":{"at":"10.0.0.1:4242"},"synchronised":null}"#);
        assert_eq!(serde_json::from_str::<ReadyMark>(&text).expect("read back").exchange, mark.exchange);
    }

    #[test]
    fn who_comes_too_late_knows_by_how_much() {
        let at = |ns| Instant::from_unix_ns(ns);
        assert_eq!(start_at(at(50), at(80), same_host()).missed_by_ns, Some(30));
        assert_eq!(start_at(at(80), at(80), same_host()).missed_by_ns, None);
        let start = start_at(at(2_000_000_000), at(1_000_000_000), same_host());
        let left = start.monotonic_ns - assay_reactor::now_ns();
        assert!(start.missed_by_ns.is_none() && left <= 1_000_000_000);
    }
}
