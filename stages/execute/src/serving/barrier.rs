//! Starts shards together: each marks itself ready, the first that sees all of them names the instant, and all begin at it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_manifest::{ClockOffset, Count, HostFacts, Instant, PlannedTrial, Shard, TrialId, canonical_json};
use assay_stage::{BrokenMark, Clock, Context, ErrorCode, Failure, Stopwatch};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::exchange::{self, Listener, Offset};
use super::{same_host, thread_failure};

/// The time from the naming of the instant to the instant, in which every shard reads it.
const MARGIN: Duration = Duration::from_millis(200);

/// The same for a single shard, which waits for no other.
const OWN_MARGIN: Duration = Duration::from_millis(5);

/// The interval at which a shard polls for the others in a folder.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The same in a bucket, where each poll is a request of every shard: often enough to see the instant well before it.
const REMOTE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The name of a shard's mark that holds the validity of its attempt.
const DONE: &str = "done";

/// The name of a shard's mark that says if it got a response.
const OFFERED: &str = "offered";

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

/// The mark of a shard that has finished measuring the offset of shard 0's clock.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockMeasuredMark {}

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

/// The mark of a shard that has sent its part of the load.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadSentMark {
    /// True if one of its measured requests got a response.
    has_response: bool,
}

/// The mark of a shard that has finished an attempt.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DoneMark {
    valid: bool,
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
}

impl Barrier {
    pub(crate) fn new(ctx: &Context, trial: &PlannedTrial, attempt: u32) -> Self {
        let folder = ctx.layout().attempt_marks(ctx.input_digest(), &trial.trial_id, attempt);
        Self { folder, trial: trial.trial_id.clone(), attempt, shard: ctx.shard() }
    }

    fn mark(&self, shard: u32, what: &str) -> String {
        format!("{}/{shard}.{what}", self.folder)
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
                put(ctx, &self.mark(0, "did"), &did)?;
            }
            return Ok(did.did);
        }
        Ok(self.wait_for_shard::<FirstResultMark<T>>(ctx, 0, "did", &ctx.clock().start())?.did)
    }

    /// Waits until all shards are ready and know their clocks, and returns the instant at which they begin.
    pub(crate) fn wait(&self, ctx: &Context, here: &HostFacts) -> Result<Start, Failure> {
        if self.shard.count <= 1 {
            return Ok(start_at(after(ctx.clock().now(), OWN_MARGIN), ctx.clock().now(), same_host()));
        }
        let boot_id = here.boot_id.value.clone();
        let own = ReadyMark { boot_id, synchronised: here.clock_synchronised.value, exchange: ClockService::NotNeeded };
        let clock = if self.shard.index == 0 { self.lead(ctx, own)? } else { self.follow(ctx, &own)? };
        // The instant is by shard 0's clock, as far as a shard knows that.
        let now = || to_first_clock(ctx.clock().now(), &clock);
        let named = StartMark { at: after(now(), MARGIN) };
        let path = format!("{}/start", self.folder);
        put(ctx, &path, &named)?;
        let named: StartMark =
            get(ctx, &path)?.ok_or_else(|| Failure::new(ErrorCode::PointerMissing, format!("`{path}` no longer exists")))?;
        Ok(start_at(named.at, now(), clock))
    }

    /// Leads, as shard 0: marks itself ready once the others are, and serves its clock if one is on another boot.
    fn lead(&self, ctx: &Context, mut own: ReadyMark) -> Result<ClockOffset, Failure> {
        let watch = ctx.clock().start();
        let others: Vec<ReadyMark> = self.wait_for_others(ctx, "ready", &watch)?;
        let is_elsewhere = others.iter().any(|other| !are_on_one_boot(&own, other));
        let listener = is_elsewhere.then(Listener::open);
        own.exchange = match &listener {
            None => ClockService::NotNeeded,
            Some(Ok(listener)) => ClockService::At(listener.address),
            Some(Err(why)) => ClockService::Unable(why.clone()),
        };
        put(ctx, &self.mark(0, "ready"), &own)?;
        if let Some(Ok(listener)) = listener {
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let serve = || listener.serve(wall_ns, self.shard.count, &is_over);
                std::thread::Builder::new().spawn_scoped(scope, serve).map_err(|error| thread_failure(&error))?;
                let asked = self.wait_for_others::<ClockMeasuredMark>(ctx, "asked", &watch);
                is_over.store(true, Ordering::Release);
                asked
            })?;
        }
        Ok(same_host())
    }

    /// Follows, as another shard: measures the offset of shard 0's clock if that is served, and waits until all have.
    fn follow(&self, ctx: &Context, own: &ReadyMark) -> Result<ClockOffset, Failure> {
        let watch = ctx.clock().start();
        put(ctx, &self.mark(self.shard.index, "ready"), own)?;
        // Shard 0 comes last: if a shard is missing, the error names that one.
        self.wait_for_others::<ReadyMark>(ctx, "ready", &watch)?;
        let first: ReadyMark = self.wait_for_shard(ctx, 0, "ready", &watch)?;
        let exchanged = match &first.exchange {
            _ if are_on_one_boot(own, &first) => None,
            ClockService::NotNeeded => Some(Err("shard 0 does not respond to requests for its clock".to_owned())),
            ClockService::At(address) => Some(exchange::measure_offset(*address, wall_ns)),
            ClockService::Unable(why) => Some(Err(why.clone())),
        };
        if let ClockService::At(_) = first.exchange {
            put(ctx, &self.mark(self.shard.index, "asked"), &ClockMeasuredMark {})?;
            self.wait_for_others::<ClockMeasuredMark>(ctx, "asked", &watch)?;
        }
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
        put(ctx, &self.mark(self.shard.index, OFFERED), &LoadSentMark { has_response })
    }

    /// Returns true if a measured request of another shard got a response, once each has recorded it.
    pub(crate) fn others_have_responses(&self, ctx: &Context) -> Result<bool, Failure> {
        if self.shard.count <= 1 {
            return Ok(false);
        }
        Ok(self.wait_for_all::<LoadSentMark>(ctx, OFFERED)?.iter().any(|shard| shard.has_response))
    }

    /// Records the validity of this shard's attempt, and returns true if it is valid in every shard.
    pub(crate) fn agree_on_validity(&self, ctx: &Context, valid: bool) -> Result<bool, Failure> {
        if self.shard.count <= 1 {
            return Ok(valid);
        }
        put(ctx, &self.mark(self.shard.index, DONE), &DoneMark { valid })?;
        Ok(self.wait_for_all::<DoneMark>(ctx, DONE)?.iter().all(|done| done.valid))
    }

    /// Returns the marks of all shards but the first, once they exist.
    fn wait_for_others<T: DeserializeOwned>(&self, ctx: &Context, what: &str, watch: &Stopwatch) -> Result<Vec<T>, Failure> {
        (1..self.shard.count).map(|shard| self.wait_for_shard(ctx, shard, what, watch)).collect()
    }

    /// Returns every shard's mark, once all exist.
    fn wait_for_all<T: DeserializeOwned>(&self, ctx: &Context, what: &str) -> Result<Vec<T>, Failure> {
        let watch = ctx.clock().start();
        (0..self.shard.count).map(|shard| self.wait_for_shard(ctx, shard, what, &watch)).collect()
    }

    /// Returns one shard's mark, once it exists, but no later than [`DEADLINE`] after the start of the watch.
    fn wait_for_shard<T: DeserializeOwned>(
        &self,
        ctx: &Context,
        shard: u32,
        what: &str,
        watch: &Stopwatch,
    ) -> Result<T, Failure> {
        let look = if ctx.store().local_root().is_some() { POLL_INTERVAL } else { REMOTE_POLL_INTERVAL };
        loop {
            ctx.check_cancelled()?;
            if let Some(mark) = get(ctx, &self.mark(shard, what))? {
                return Ok(mark);
            }
            // The validity is recorded for every attempt, also for one that was aborted.
            if what != DONE {
                self.check_not_aborted(ctx)?;
            }
            if watch.elapsed_ns() > DEADLINE.as_nanos() as u64 {
                return Err(Failure::new(
                    ErrorCode::ShardMissing,
                    format!("shard {shard} of {} did not come within {DEADLINE:?}", self.shard.count),
                )
                .hint("its log says why; the attempt is repeated when the run goes on"));
            }
            ctx.cancel().wait_timeout(look);
        }
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
