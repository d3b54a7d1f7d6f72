//! The ceiling of one shard: measured on the machine where load will run, or taken over from an earlier measurement on an equal
//! machine.

mod measure;
mod probe;

use std::io::Write as _;
use std::path::Path;

use assay_manifest::{Ceiling, Count, Digest, Fact, HostFacts, Instant, canonical_json};
use assay_process::Cancel;
use assay_stage::{Clock, Context, ErrorCode, Failure, Layout, binary_digest, with_causes};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::measure::{Figures, measure};
use crate::{LOCAL, simulator};

/// The version of the measurement: a change of method invalidates earlier measurements.
const FORMAT: u32 = 1;
/// The largest measurement that is read from the store.
const MAX_BYTES: u64 = 4096;

/// A measurement, in the form of the store and of a probe's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    concurrency: u32,
    requests_per_s: u32,
    events_per_s: u32,
    measured_at: Instant,
    program: Digest,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    cpu_millis: Option<Count>,
}

/// The result that a probe prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeOutput {
    fingerprint: Digest,
    /// Absent if an equal machine was measured before, or if the measurement failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    measured: Option<Measurement>,
    /// The reason why the measurement failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    failure: Option<String>,
}

/// Digest of everything that decides how much load a shard makes here: two machines with the same fingerprint make the same load.
fn fingerprint(facts: &HostFacts, program: &Digest) -> Result<Digest, Failure> {
    let mut key = facts.load_facts();
    key.insert("format".to_owned(), json!(FORMAT));
    key.insert("program".to_owned(), json!(program));
    let bytes = canonical_json(&key)
        .map_err(|error| Failure::new(ErrorCode::Internal, "a fingerprint has no canonical form").because(&error))?;
    Ok(Digest::compute(&bytes))
}

impl Measurement {
    fn new(figures: Figures, facts: &HostFacts, program: Digest) -> Self {
        let Figures { concurrency, requests_per_s, events_per_s } = figures;
        let cpu_millis = facts.cgroup_cpu_millis.value;
        Self { concurrency, requests_per_s, events_per_s, measured_at: Clock.now(), program, cpu_millis }
    }

    /// Parses a measurement from a source that is not trusted; `None` if it is unusable.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(bytes).ok()?;
        read.is_usable().then_some(read)
    }

    /// Returns true if no figure is zero: any load would take infinitely many shards of a zero ceiling.
    fn is_usable(&self) -> bool {
        self.concurrency > 0 && self.requests_per_s > 0 && self.events_per_s > 0
    }

    fn as_fact(&self, fingerprint: Digest, cached: bool, node: &str) -> Fact<Ceiling> {
        let Self { concurrency, requests_per_s, events_per_s, measured_at, program, cpu_millis } = self.clone();
        let ceiling = Ceiling {
            concurrency,
            requests_per_s,
            events_per_s,
            cached,
            measured_at,
            fingerprint,
            program,
            cpu_millis,
            node: node.to_owned(),
        };
        let how =
            if cached { "measured on such a machine before" } else { "measured against a simulator beside the load generator" };
        Fact::observed(ceiling, how)
    }
}

/// Returns the ceiling of a shard on this machine. It fails only if the stage is stopped.
pub(crate) fn local_ceiling(ctx: &Context, facts: &HostFacts) -> Result<Fact<Ceiling>, Failure> {
    let fingerprint = fingerprint(facts, &ctx.binary())?;
    if let Some(known) = read_cached(ctx, &fingerprint) {
        return Ok(known.as_fact(fingerprint, true, LOCAL));
    }
    let figures =
        simulator::program().map_err(|failure| failure.message).and_then(|program| measure_figures(&program, ctx.cancel()));
    ctx.check_cancelled()?;
    Ok(match figures {
        Ok(figures) => {
            let measured = Measurement::new(figures, facts, ctx.binary());
            store_measurement(ctx, &fingerprint, &measured);
            measured.as_fact(fingerprint, false, LOCAL)
        }
        Err(why) => Fact::unknown(why),
    })
}

/// Measures the figures. The error is one line.
fn measure_figures(simulator: &Path, cancel: &Cancel) -> Result<Figures, String> {
    measure(simulator, cancel).map_err(|error| with_causes(&error))
}

/// Returns the earlier measurement of an equal machine. It is no evidence, so one that cannot be read is measured again.
fn read_cached(ctx: &Context, fingerprint: &Digest) -> Option<Measurement> {
    let path = Layout::ceiling(fingerprint);
    let bytes = ctx.store().read(&path, MAX_BYTES).unwrap_or_else(|error| {
        tracing::warn!(%error, path, "what was measured before cannot be read");
        None
    })?;
    let read = Measurement::parse(&bytes);
    if read.is_none() {
        tracing::warn!(path, "what was measured before is damaged, and is measured again");
    }
    read
}

/// Stores a measurement for later runs. If the store refuses it, a later run takes some seconds longer.
fn store_measurement(ctx: &Context, fingerprint: &Digest, measured: &Measurement) {
    let path = Layout::ceiling(fingerprint);
    let kept = canonical_json(measured).map_err(|error| error.to_string());
    let kept = kept.and_then(|bytes| ctx.store().create(&path, &bytes).map_err(|error| error.to_string()));
    if let Err(error) = kept {
        tracing::warn!(error, path, "the measured ceiling is not kept for later runs");
    }
}

/// Prints how much load a shard here can make, as one line of JSON; the fingerprint alone if it is one of the known ones.
pub(crate) fn print_ceiling(known: &[Digest]) -> Result<(), Failure> {
    let facts = assay_host::facts(&assay_host::Root::host());
    let program = binary_digest()?;
    let fingerprint = fingerprint(&facts, &program)?;
    let mut said = ProbeOutput { fingerprint, measured: None, failure: None };
    if !known.contains(&fingerprint) {
        let cancel = Cancel::new().map_err(|error| Failure::new(ErrorCode::Cancel, "a pipe cannot be made").because(&error))?;
        match simulator::program().map_err(|failure| failure.message).and_then(|program| measure_figures(&program, &cancel)) {
            Ok(figures) => said.measured = Some(Measurement::new(figures, &facts, program)),
            Err(why) => said.failure = Some(why),
        }
    }
    let line = serde_json::to_string(&said).map_err(|error| Failure::new(ErrorCode::Internal, "not JSON").because(&error))?;
    writeln!(std::io::stdout().lock(), "{line}")
        .map_err(|error| Failure::new(ErrorCode::Stdout, "cannot be written").because(&error))
}

#[cfg(test)]
mod tests;
