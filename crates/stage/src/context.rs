//! The facilities of a stage besides its inputs: store, scratch, clock, cancellation, progress, checkpoints.

use std::collections::BTreeMap;
use std::path::Path;

use assay_chain::StageName;
use assay_envelope::{Trust, TrustPolicy, Verified};
use assay_manifest::{
    Artifact, Body as _, Checkpoint, Count, Digest, Document, InputRef, Instant, PodPlace, RunId, Shard, TrialId, Window,
    canonical_json, ordinal,
};
use assay_process::Cancel;
use assay_store::{CreateOutcome, Scratch, ScratchFile, Store};
use serde::{Deserialize, Serialize};

use crate::arguments::ManifestRef;
use crate::harness::load;
use crate::seal::Seal;
use crate::{AcceptedResult, ErrorCode, Event, Failure, Layout, input_digest, seal};

/// The largest mark, in bytes.
const MAX_MARK_BYTES: u64 = 4096;

/// The mark that an attempt has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartMark {
    /// The time of the beginning.
    pub at: Instant,
    /// The pod and node, in a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<PodPlace>,
}

/// The clocks. The wall clock gives instants; the monotonic clock measures spans.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Returns the time of the wall clock.
    pub fn now(self) -> Instant {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Instant::from_unix_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Begins a span.
    pub fn start(self) -> Stopwatch {
        Stopwatch { wall: self.now(), monotonic: std::time::Instant::now() }
    }
}

/// A span that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall: Instant,
    monotonic: std::time::Instant,
}

impl Stopwatch {
    /// Returns the beginning, by the wall clock.
    pub fn started_at(&self) -> Instant {
        self.wall
    }

    /// Returns the nanoseconds since the beginning, by the monotonic clock.
    pub fn elapsed_ns(&self) -> u64 {
        u64::try_from(self.monotonic.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the span until now. Its end is read from the wall clock, its length from the monotonic one.
    pub fn window(&self) -> Window {
        Window { start: self.wall, end: Clock.now(), duration_ns: Count(self.elapsed_ns()) }
    }
}

/// The facilities of a stage besides its inputs.
pub struct Context {
    pub(crate) run_id: RunId,
    pub(crate) store: Store,
    pub(crate) output: Store,
    pub(crate) scratch: Scratch,
    pub(crate) cancel: Cancel,
    pub(crate) shard: Shard,
    pub(crate) place: Option<PodPlace>,
    pub(crate) stage: StageName,
    pub(crate) input_digest: Digest,
    pub(crate) input_references: Vec<InputRef>,
    pub(crate) trust: Trust,
    pub(crate) trust_policy: Digest,
    pub(crate) binary: Digest,
    pub(crate) seal: Option<Seal>,
}

impl Context {
    /// Returns the run.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// Returns the run's pointers.
    pub fn layout(&self) -> Layout {
        Layout::for_run(&self.run_id)
    }

    /// Returns the store, for reading.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns a private folder that is removed with the stage.
    pub fn scratch(&self) -> &Path {
        self.scratch.folder()
    }

    /// Returns the token by which the stage is cancelled.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Fails if the stage has been cancelled.
    pub fn check_cancelled(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() {
            return Err(Failure::cancelled(self.cancel.reason().unwrap_or("stopped")));
        }
        Ok(())
    }

    /// Returns the clocks.
    pub fn clock(&self) -> Clock {
        Clock
    }

    /// Returns the index of this process among those that together make one trial.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Returns the pod of this process, in a cluster. It is recorded and decides nothing.
    pub fn pod_place(&self) -> Option<&PodPlace> {
        self.place.as_ref()
    }

    /// Returns the digest that identifies this call of the stage: equal calls have equal digests.
    pub fn input_digest(&self) -> Digest {
        self.input_digest
    }

    /// Returns the digest of a call with the same inputs and other parameters.
    pub fn input_digest_with(&self, parameters: &impl Serialize) -> Result<Digest, Failure> {
        let unusable = |error| Failure::new(ErrorCode::Internal, "parameters have no JSON form").because(&error);
        let parameters = serde_json::to_value(parameters).map_err(unusable)?;
        input_digest(self.stage, &self.input_references, &parameters, self.trust_policy)
    }

    /// Returns the trust policy that the inputs were verified under.
    pub fn trust_policy(&self) -> Digest {
        self.trust_policy
    }

    /// Returns the content of that policy.
    pub fn policy(&self) -> Option<&TrustPolicy> {
        match &self.trust {
            Trust::Policy(policy) => Some(policy),
            Trust::None { .. } => None,
        }
    }

    /// Returns the digest of this binary.
    pub fn binary(&self) -> Digest {
        self.binary
    }

    /// Returns true if the result will be signed, false if it is only recomputed.
    pub fn is_signing(&self) -> bool {
        self.seal.is_some()
    }

    /// Emits an event.
    pub fn emit(&self, event: Event) {
        crate::event::emit(&event);
    }

    /// Stores bytes as an output.
    pub fn put(&self, name: impl Into<String>, media_type: &str, bytes: &[u8]) -> Result<Artifact, Failure> {
        let digest = self.output.put(bytes)?;
        Ok(Artifact { name: name.into(), digest, size: Count(bytes.len() as u64), media_type: media_type.to_owned() })
    }

    /// Stores a file as an output, without holding it in memory.
    pub fn put_file(&self, name: impl Into<String>, media_type: &str, path: &Path) -> Result<Artifact, Failure> {
        let (digest, size) = self.output.put_file(path, &self.scratch)?;
        Ok(Artifact { name: name.into(), digest, size: Count(size), media_type: media_type.to_owned() })
    }

    /// Stores a stream as an output, without holding it in memory.
    pub fn put_reader(&self, name: impl Into<String>, media_type: &str, reader: impl std::io::Read) -> Result<Artifact, Failure> {
        let (digest, size) = self.output.put_reader(reader, &self.scratch)?;
        Ok(Artifact { name: name.into(), digest, size: Count(size), media_type: media_type.to_owned() })
    }

    /// Reads an artifact of an input into memory, at most `limit` bytes.
    pub fn get(&self, artifact: &Artifact, limit: u64) -> Result<Vec<u8>, Failure> {
        Ok(self.store.get(&artifact.digest, limit)?)
    }

    /// Opens an artifact of an input that may be large, after checking its digest. The file is removed when the returned value is
    /// dropped.
    pub fn materialise(&self, artifact: &Artifact) -> Result<ScratchFile, Failure> {
        Ok(self.store.materialise(&artifact.digest, &self.scratch)?)
    }

    /// Writes an artifact of an input to a path, checking its digest on the way.
    pub fn write_to(&self, digest: &Digest, to: &Path) -> Result<(), Failure> {
        Ok(self.store.materialise(digest, &self.scratch)?.persist(to)?)
    }

    /// Reads a signed manifest of the store that is no input of the stage, and verifies it under the trust of the stage.
    pub fn load_verified(&self, accepted: AcceptedResult) -> Result<Verified<Document>, Failure> {
        load(&self.store, &self.trust, ManifestRef { manifest: accepted.manifest, bundle: accepted.bundle })
    }

    /// Signs a finished step of the stage and stores it under `pointer`, so that a resumed stage can trust it.
    pub fn checkpoint(&self, pointer: &str, body: Checkpoint) -> Result<(), Failure> {
        let Some(own) = &self.seal else {
            return Err(Failure::new(ErrorCode::Recompute, format!("{} cannot be computed again: it measures", self.stage)));
        };
        let reference = seal(own, &self.store, &self.run_id, self.input_references.clone(), body)?.reference;
        let accepted = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle };
        let bytes = accepted.to_bytes()?;
        match self.store.create(pointer, &bytes)? {
            CreateOutcome::New => Ok(()),
            // A create whose folder could not be synced may still have written the pointer.
            CreateOutcome::Existing { existing } if existing == bytes => Ok(()),
            CreateOutcome::Existing { .. } => Err(Failure::new(
                ErrorCode::CheckpointTaken,
                format!("another process of this stage has finished `{pointer}` meanwhile"),
            )),
        }
    }

    /// Returns the verified checkpoints that processes of the call with this input digest have written under its trials and
    /// preparations.
    pub fn checkpoints(&self, input: Digest) -> Result<Vec<(InputRef, Checkpoint)>, Failure> {
        let prefix = format!("{}/{}", self.layout().stage(StageName::Execute), input.hex());
        let own = format!("/{}", self.shard.index);
        let steps = |path: &&String| !path.starts_with(&format!("{prefix}/accepted/")) && path.ends_with(&own);
        let mut found = Vec::new();
        for path in self.store.list(&prefix)?.iter().filter(steps) {
            let Some(bytes) = self.store.read(path, AcceptedResult::MAX_BYTES)? else { continue };
            found.push(self.checked_checkpoint(path, input, &bytes)?);
        }
        Ok(found)
    }

    fn checked_checkpoint(&self, path: &str, input: Digest, pointer: &[u8]) -> Result<(InputRef, Checkpoint), Failure> {
        let AcceptedResult { manifest, bundle } = AcceptedResult::parse(path, pointer)?;
        let verified = load(&self.store, &self.trust, ManifestRef { manifest, bundle })?;
        let foreign =
            || Failure::new(ErrorCode::OtherCheckpoint, format!("`{path}` names a manifest that is no checkpoint of this call"));
        let checkpoint = Checkpoint::from_document(verified.value()).ok_or_else(foreign)?;
        let here = self.layout();
        let Checkpoint { attempt, prepared, stack, .. } = &checkpoint.body;
        let named = match (attempt, prepared, stack) {
            (Some(attempt), None, None) => here.attempt(input, &attempt.trial_id, attempt.attempt, self.shard),
            (None, Some(prepared), None) => here.prepared(input, prepared.workload.as_str(), self.shard),
            (None, None, Some(stack)) => here.stack(input, stack.variant.as_str(), self.shard),
            _ => return Err(foreign()),
        };
        let belongs = checkpoint.header.run_id == self.run_id && checkpoint.body.input_digest == input && named == path;
        if belongs { Ok((verified.input_ref(), checkpoint.body.clone())) } else { Err(foreign()) }
    }

    /// Marks that an attempt begins, before any of its work.
    pub fn mark_attempt(&self, trial: &TrialId, attempt: u32) -> Result<(), Failure> {
        let mark = canonical_json(&StartMark { at: Clock.now(), place: self.place.clone() })
            .map_err(|error| Failure::new(ErrorCode::Internal, "a mark has no canonical form").because(&error))?;
        let path = self.layout().attempt_started(self.input_digest, trial, attempt, self.shard);
        match self.store.create(&path, &mark)? {
            CreateOutcome::New => Ok(()),
            CreateOutcome::Existing { .. } => Err(Failure::new(
                ErrorCode::AttemptTaken,
                format!("another process of this stage is at attempt {} of `{trial}`", ordinal(attempt)),
            )),
        }
    }

    /// Returns the attempts that processes of the call with this input digest have begun.
    pub fn begun_attempts(&self, input: Digest) -> Result<BTreeMap<(TrialId, u32), StartMark>, Failure> {
        let layout = self.layout();
        let own = format!("/{}.started", self.shard.index);
        let mut begun = BTreeMap::new();
        for path in self.store.list(&layout.trials(input))?.iter().filter(|path| path.ends_with(&own)) {
            let Some(bytes) = self.store.read(path, MAX_MARK_BYTES)? else { continue };
            let started = layout.started_attempt(path, input, self.shard).ok_or_else(|| damaged_mark(path))?;
            begun.insert(started, read_mark(path, &bytes)?);
        }
        Ok(begun)
    }
}

fn damaged_mark(path: &str) -> Failure {
    Failure::new(ErrorCode::Mark, format!("the mark `{path}` is damaged"))
}

fn read_mark(path: &str, bytes: &[u8]) -> Result<StartMark, Failure> {
    serde_json::from_slice(bytes).map_err(|error| damaged_mark(path).because(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_span_has_a_start_and_never_a_negative_length() {
        let watch = Clock.start();
        let window = watch.window();
        assert_eq!(window.start, watch.started_at());
        assert!(window.duration_ns.0 <= watch.elapsed_ns());
    }

    #[test]
    fn a_mark_says_when_and_where() {
        let at = "2026-01-01T00:00:00.000000001Z";
        let read = read_mark("m", format!(r#"{{"at":"{at}"}}"#).as_bytes()).expect("a mark");
        assert_eq!((read.at.to_string().as_str(), read.place), (at, None));
        let place = r#"{"node":"n","pod":"p","pod_uid":"u","job_uid":"j"}"#;
        let read = read_mark("m", format!(r#"{{"at":"{at}","place":{place}}}"#).as_bytes()).expect("a mark");
        assert_eq!(read.place.map(|place| place.node).as_deref(), Some("n"));
        for bad in ["", "{}", "null", r#"{"at":1}"#, r#"{"at":"now"}"#, &format!(r#"{{"at":"{at}","by":"me"}}"#)] {
            let failure = read_mark("runs/r/m", bad.as_bytes()).expect_err(bad);
            assert_eq!((failure.code.as_str(), failure.message.as_str()), ("mark", "the mark `runs/r/m` is damaged"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_lies_under_a_mark_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_mark("m", &bytes);
        }
    }
}
