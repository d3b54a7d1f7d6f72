//! Shards start together: each says that it is ready, the first that sees all of them names the instant, and all keep to it.

use std::time::Duration;

use assay_manifest::{ClockOffset, HostFacts, Instant, PlannedTrial, Shard, canonical_json};
use assay_stage::{Context, Failure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::same_host;

/// From the naming of the instant to the instant: time for every shard to read it.
const MARGIN: Duration = Duration::from_millis(200);

/// The same for a single shard, which has nobody to wait for.
const OWN_MARGIN: Duration = Duration::from_millis(5);

/// How often a shard looks for the others.
const LOOK: Duration = Duration::from_millis(5);

/// How long shards are waited for.
const DEADLINE: Duration = Duration::from_secs(120);

/// The largest mark.
const MAX_MARK_BYTES: u64 = 4096;

/// A shard is ready.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ready {
    /// Two shards on one boot share their clocks.
    boot_id: Option<String>,
    /// Whether the kernel says that its clock is synchronised.
    synchronised: Option<bool>,
}

/// The instant at which all begin.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    at: Instant,
}

/// A shard has finished an attempt.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    valid: bool,
}

/// When an attempt begins.
pub(crate) struct Start {
    /// By the wall clock.
    pub(crate) at: Instant,
    /// By this host's monotonic clock.
    pub(crate) monotonic_ns: i64,
    /// How much too late this shard came; none where it was in time.
    pub(crate) missed_by_ns: Option<i64>,
    /// This shard's clock against shard 0's.
    pub(crate) clock: ClockOffset,
}

/// The meeting place of one attempt's shards.
pub(crate) struct Barrier {
    folder: String,
    shard: Shard,
}

impl Barrier {
    pub(crate) fn of(ctx: &Context, trial: &PlannedTrial, attempt: u32) -> Self {
        let folder = ctx.layout().attempt_marks(ctx.input_digest(), &trial.trial_id, attempt);
        Self { folder, shard: ctx.shard() }
    }

    fn mark(&self, shard: u32, what: &str) -> String {
        format!("{}/{shard}.{what}", self.folder)
    }

    /// Waits until all shards are ready, and gives the instant at which they begin.
    pub(crate) fn wait(&self, ctx: &Context, here: &HostFacts) -> Result<Start, Failure> {
        if self.shard.count <= 1 {
            return Ok(start_at(after(ctx.clock().now(), OWN_MARGIN), ctx.clock().now(), same_host()));
        }
        let own = Ready { boot_id: here.boot_id.value.clone(), synchronised: here.clock_synchronised.value };
        put(ctx, &self.mark(self.shard.index, "ready"), &own)?;
        let first = self.all::<Ready>(ctx, "ready")?;
        let named = Named { at: after(ctx.clock().now(), MARGIN) };
        let path = format!("{}/start", self.folder);
        put(ctx, &path, &named)?;
        let named: Named = get(ctx, &path)?.ok_or_else(|| Failure::environment("pointer", format!("`{path}` has gone")))?;
        Ok(start_at(named.at, ctx.clock().now(), clock(&own, first.first())))
    }

    /// Says how this shard's attempt went, and gives whether it is valid in every shard.
    pub(crate) fn agree(&self, ctx: &Context, valid: bool) -> Result<bool, Failure> {
        if self.shard.count <= 1 {
            return Ok(valid);
        }
        put(ctx, &self.mark(self.shard.index, "done"), &Done { valid })?;
        Ok(self.all::<Done>(ctx, "done")?.iter().all(|done| done.valid))
    }

    /// Every shard's mark, once all are there.
    fn all<T: DeserializeOwned>(&self, ctx: &Context, what: &str) -> Result<Vec<T>, Failure> {
        let watch = ctx.clock().start();
        let mut marks = Vec::new();
        for shard in 0..self.shard.count {
            loop {
                ctx.check_cancelled()?;
                if let Some(mark) = get(ctx, &self.mark(shard, what))? {
                    marks.push(mark);
                    break;
                }
                if watch.elapsed_ns() > DEADLINE.as_nanos() as u64 {
                    return Err(Failure::environment(
                        "shard_missing",
                        format!("shard {shard} of {} did not come within {DEADLINE:?}", self.shard.count),
                    )
                    .hint("its log says why; the attempt is repeated when the run goes on"));
                }
                ctx.cancel().wait_timeout(LOOK);
            }
        }
        Ok(marks)
    }
}

/// The clock of a shard against that of shard 0: one boot has one clock; two synchronised kernels are near each other, how near
/// nobody has measured.
fn clock(own: &Ready, first: Option<&Ready>) -> ClockOffset {
    let unknown = |source: &str| ClockOffset { source: source.to_owned(), offset_ns: None, uncertainty_ns: None };
    match (own.boot_id.as_ref(), first.and_then(|first| first.boot_id.as_ref())) {
        (Some(own), Some(first)) if own == first => same_host(),
        _ if own.synchronised == Some(true) && first.and_then(|first| first.synchronised) == Some(true) => unknown("kernel"),
        _ => unknown("unknown"),
    }
}

fn after(now: Instant, margin: Duration) -> Instant {
    Instant::from_unix_ns(now.unix_ns().saturating_add(i64::try_from(margin.as_nanos()).unwrap_or(i64::MAX)))
}

fn start_at(at: Instant, now: Instant, clock: ClockOffset) -> Start {
    let left = at.unix_ns().saturating_sub(now.unix_ns());
    let monotonic_ns = assay_reactor::now_ns().saturating_add(left);
    Start { at, monotonic_ns, missed_by_ns: (left < 0).then_some(left.saturating_neg()), clock }
}

/// Creates a mark; one that is there already stays.
fn put(ctx: &Context, path: &str, mark: &impl Serialize) -> Result<(), Failure> {
    let bytes =
        canonical_json(mark).map_err(|error| Failure::unexpected("mark", "a mark has no canonical form").because(&error))?;
    ctx.store().create(path, &bytes)?;
    Ok(())
}

fn get<T: DeserializeOwned>(ctx: &Context, path: &str) -> Result<Option<T>, Failure> {
    let Some(bytes) = ctx.store().read(path, MAX_MARK_BYTES)? else { return Ok(None) };
    let mark = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::verification("mark", format!("the mark `{path}` is damaged")).because(&error))?;
    Ok(Some(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(boot: Option<&str>, synchronised: Option<bool>) -> Ready {
        Ready { boot_id: boot.map(str::to_owned), synchronised }
    }

    #[test]
    fn one_boot_has_one_clock() {
        let source = |own: &Ready, first: &Ready| clock(own, Some(first)).source;
        assert_eq!(source(&ready(Some("a"), None), &ready(Some("a"), None)), "same_host");
        assert_eq!(source(&ready(Some("a"), Some(true)), &ready(Some("b"), Some(true))), "kernel");
        assert_eq!(source(&ready(Some("a"), Some(true)), &ready(Some("b"), Some(false))), "unknown");
        assert_eq!(source(&ready(None, None), &ready(None, None)), "unknown", "two unknown boots are not one");
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
