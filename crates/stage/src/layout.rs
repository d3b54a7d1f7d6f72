//! The paths of a run's results in the store, and the digest that decides whether two calls of a stage are the same.

use assay_chain::StageName;
use assay_manifest::{CalibrationPace, CaseId, Digest, InputRef, Instant, Kind, Name, RunId, Shard, TrialId, canonical_json};
use assay_store::Store;
use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Failure};

/// The version of the contract between stages. It is part of every input digest: a stage of another contract never finds, or is
/// mistaken for, a result of this one.
pub const CONTRACT: &str = "v1alpha1";

/// The accepted result of a stage: the content of its pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedResult {
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of its bundle.
    pub bundle: Digest,
}

/// The pointers below a folder whose manifest has a digest that begins with some digits.
#[derive(Debug, Default)]
pub struct FoundPointers {
    /// Those that can be read.
    pub accepted: Vec<AcceptedResult>,
    /// The failure of the first one that cannot be read, whatever it is a pointer to.
    pub damaged: Option<Failure>,
}

impl AcceptedResult {
    /// The largest pointer, in bytes.
    pub const MAX_BYTES: u64 = 4096;

    /// Returns the pointer's bytes.
    pub fn to_bytes(self) -> Result<Vec<u8>, Failure> {
        canonical_json(&self)
            .map_err(|error| Failure::new(ErrorCode::Internal, "a pointer has no canonical form").because(&error))
    }

    /// Parses a pointer at `path`.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, Failure> {
        let damaged = || Failure::new(ErrorCode::Pointer, format!("the pointer `{path}` is damaged"));
        let accepted: Self = serde_json::from_slice(bytes).map_err(|error| damaged().because(&error))?;
        // One result has one canonical form, like every document.
        if accepted.to_bytes()? == bytes { Ok(accepted) } else { Err(damaged()) }
    }

    /// Reads the pointer at `path` of a store; `None` if there is none.
    pub fn read(store: &Store, path: &str) -> Result<Option<Self>, Failure> {
        let Some(bytes) = store.read(path, Self::MAX_BYTES)? else { return Ok(None) };
        Self::parse(path, &bytes).map(Some)
    }

    /// The fewest hexadecimal digits that name a document.
    const MIN_DIGITS: usize = 8;

    /// Returns the hexadecimal digits of a name that is a digest, or the beginning of one; `None` if it is neither.
    pub fn digits(name: &str) -> Option<&str> {
        let digits = name.strip_prefix("sha256:").unwrap_or(name);
        (digits.len() >= Self::MIN_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(digits)
    }

    /// Returns the pointers below a folder of a store whose manifest has a digest that begins with these digits.
    pub fn find(store: &Store, folder: &str, digits: &str) -> Result<FoundPointers, Failure> {
        let mut found = FoundPointers::default();
        for path in store.list(folder)? {
            match Self::read(store, &path) {
                Ok(accepted) => found.accepted.extend(accepted.filter(|accepted| accepted.manifest.hex().starts_with(digits))),
                Err(failure) => found.damaged = found.damaged.or(Some(failure)),
            }
        }
        Ok(found)
    }

    /// Returns the accepted results of a run's stage, in the order of their paths, each read lazily.
    pub fn list_stage(
        store: &Store,
        run_id: &RunId,
        stage: StageName,
    ) -> Result<impl Iterator<Item = Result<Self, Failure>>, Failure> {
        let paths = store.list(&Layout::for_run(run_id).stage(stage))?;
        let accepted = paths.into_iter().filter(|path| path.contains("/accepted/"));
        Ok(accepted.filter_map(move |path| Self::read(store, &path).transpose()))
    }

    /// Returns the result as an input of another stage.
    pub fn as_input(self, kind: Kind) -> InputRef {
        InputRef { kind, manifest: self.manifest, bundle: self.bundle }
    }
}

/// Returns the digest that identifies a call of a stage: of its inputs with their bundles, parameters, trust policy and contract.
/// The binary that computes the result is recorded but not part of it, and neither is the shard.
pub fn input_digest(
    stage: StageName,
    inputs: &[InputRef],
    parameters: &serde_json::Value,
    trust: Digest,
) -> Result<Digest, Failure> {
    let mut inputs = inputs.to_vec();
    inputs.sort_unstable();
    inputs.dedup();
    let key = serde_json::json!({
        "contract": CONTRACT,
        "stage": stage.as_str(),
        "inputs": inputs,
        "parameters": parameters,
        "trust_policy": trust,
    });
    let bytes = canonical_json(&key)
        .map_err(|error| Failure::new(ErrorCode::Parameters, "the stage's parameters have no canonical form").because(&error))?;
    Ok(Digest::compute(&bytes))
}

/// The pointers of one run.
#[derive(Clone, Debug)]
pub struct Layout(RunId);

impl Layout {
    /// Returns the pointers of `run_id`.
    pub fn for_run(run_id: &RunId) -> Self {
        Self(run_id.clone())
    }

    /// The prefix of all runs.
    pub const RUNS: &'static str = "runs";

    /// The prefix of all objects of the run.
    pub fn run(&self) -> String {
        format!("runs/{}", self.0)
    }

    /// The pointer of the run's Source, created once.
    pub fn source(&self) -> String {
        format!("runs/{}/source", self.0)
    }

    /// The pointer of one of the run's ends: there is one for each time that it was cancelled or failed.
    pub fn end(&self, sequence: u32) -> String {
        format!("runs/{}/ends/{sequence:06}", self.0)
    }

    /// The prefix of the tombstones of what was removed of the run.
    pub fn tombstones(&self) -> String {
        format!("runs/{}/tombstones", self.0)
    }

    /// The pointer of one of the run's tombstones: there is one for each removal.
    pub fn tombstone(&self, sequence: u32) -> String {
        format!("{}/{sequence:06}", self.tombstones())
    }

    /// The prefix of all results of a stage.
    pub fn stage(&self, stage: StageName) -> String {
        format!("runs/{}/{stage}", self.0)
    }

    /// The pointer of the accepted result of one shard of a stage.
    pub fn accepted(&self, stage: StageName, input: Digest, shard: Shard) -> String {
        format!("runs/{}/{stage}/{}/accepted/{}", self.0, input.hex(), shard.index)
    }

    /// The mark that all that has to be up beside a stage is up, so that it may begin.
    pub fn may_begin(&self, stage: StageName, input: Digest) -> String {
        format!("runs/{}/{stage}/{}/may-begin", self.0, input.hex())
    }

    /// The prefix of the marks and checkpoints of execute's trials.
    pub fn trials(&self, input: Digest) -> String {
        format!("runs/{}/execute/{}/trials", self.0, input.hex())
    }

    /// The prefix of the marks that the shards of an attempt leave for each other and for a resumed stage.
    pub fn attempt_marks(&self, input: Digest, trial: &TrialId, attempt: u32) -> String {
        format!("{}/{trial}/{attempt:06}", self.trials(input))
    }

    /// The mark that an attempt has begun.
    pub fn attempt_started(&self, input: Digest, trial: &TrialId, attempt: u32, shard: Shard) -> String {
        format!("{}/{}.started", self.attempt_marks(input, trial, attempt), shard.index)
    }

    /// The mark that an attempt is over for all of its shards, because one of them went away.
    pub fn attempt_broken(&self, input: Digest, trial: &TrialId, attempt: u32) -> String {
        format!("{}/broken", self.attempt_marks(input, trial, attempt))
    }

    /// Parses the path of a mark into the trial and number of its attempt; `None` for any other path.
    pub fn started_attempt(&self, path: &str, input: Digest, shard: Shard) -> Option<(TrialId, u32)> {
        let (trial, rest) = path.strip_prefix(&self.trials(input))?.strip_prefix('/')?.split_once('/')?;
        let (trial, attempt) = (trial.parse().ok()?, rest.split('/').next()?.parse().ok()?);
        // Each attempt has exactly one path, so two marks never stand for the same one.
        (self.attempt_started(input, &trial, attempt, shard) == path).then_some((trial, attempt))
    }

    /// The checkpoint of a finished attempt.
    pub fn attempt(&self, input: Digest, trial: &TrialId, attempt: u32, shard: Shard) -> String {
        format!("{}/{}", self.attempt_marks(input, trial, attempt), shard.index)
    }

    /// The checkpoint of a workload's preparation.
    pub fn prepared(&self, input: Digest, workload: &str, shard: Shard) -> String {
        format!("runs/{}/execute/{}/prepared/{workload}/{}", self.0, input.hex(), shard.index)
    }

    /// The checkpoint of the installed packages of a variant.
    pub fn stack(&self, input: Digest, variant: &str, shard: Shard) -> String {
        format!("runs/{}/execute/{}/stacks/{variant}/{}", self.0, input.hex(), shard.index)
    }

    /// The mark that the run was published to another store's tables and copied here: it holds that store's name.
    pub fn fetched(&self) -> String {
        format!("fetched/{}", self.0)
    }

    /// The prefix of the times of all drivers of all runs.
    pub const TIMES: &'static str = "times";

    /// The prefix of the times of the run's drivers. They are the word of the drivers, not evidence.
    pub fn times(&self) -> String {
        format!("{}/{}", Self::TIMES, self.0)
    }

    /// The times of one driver of the run.
    pub fn driver_times(&self, sequence: u32) -> String {
        format!("{}/{sequence:06}", self.times())
    }

    /// The prefix of the receipts of hot metrics of all runs.
    pub const HOT_METRICS: &'static str = "hot-metrics";

    /// The prefix of the run's receipts of hot metrics. They are the word of the program that pushed them, not evidence.
    pub fn hot_metrics(&self) -> String {
        format!("{}/{}", Self::HOT_METRICS, self.0)
    }

    /// The receipt of one push of the run's hot metrics.
    pub fn hot_metrics_receipt(&self, sequence: u32) -> String {
        format!("{}/{sequence:06}", self.hot_metrics())
    }

    /// The prefix of the measured ceilings of machines.
    pub const CEILINGS: &'static str = "ceilings";

    /// The measured ceiling of a machine, by its fingerprint. It is a cache, not evidence.
    pub fn ceiling(fingerprint: &Digest) -> String {
        format!("{}/{}", Self::CEILINGS, fingerprint.hex())
    }

    /// The prefix of all calibrations.
    pub const CALIBRATIONS: &'static str = "calibrations";

    /// The prefix of the calibrations of a machine.
    pub fn calibrations_of_machine(machine: &Digest) -> String {
        format!("{}/{}", Self::CALIBRATIONS, machine.hex())
    }

    /// The prefix of the calibrations of a load generator on a machine that took this long.
    pub fn calibrations(machine: &Digest, load_generator: &Digest, pace: CalibrationPace) -> String {
        let pace = match pace {
            CalibrationPace::Full => "full",
            CalibrationPace::Quick => "quick",
        };
        format!("{}/{}/{pace}", Self::calibrations_of_machine(machine), load_generator.hex())
    }

    /// The calibration that began at this time: the order of the paths is that of the times.
    pub fn calibration(machine: &Digest, load_generator: &Digest, pace: CalibrationPace, at: Instant) -> String {
        format!("{}/{:020}", Self::calibrations(machine, load_generator, pace), at.unix_ns())
    }

    /// The prefix of all foreign evidence.
    pub const FOREIGN: &'static str = "foreign";

    /// The foreign evidence of this name.
    pub fn foreign_evidence(name: &RunId) -> String {
        format!("{}/{name}", Self::FOREIGN)
    }

    /// The prefix of all verdicts over foreign evidence.
    pub const FOREIGN_VERDICTS: &'static str = "foreign-verdicts";

    /// The verdict over foreign evidence of this digest.
    pub fn foreign_verdict(manifest: &Digest) -> String {
        format!("{}/{}", Self::FOREIGN_VERDICTS, manifest.hex())
    }

    /// The prefix of all search results.
    pub const SEARCHES: &'static str = "searches";

    /// The result of the search whose first round is this run.
    pub fn search_result(first: &RunId) -> String {
        format!("{}/{first}", Self::SEARCHES)
    }

    /// The prefix of all verdicts.
    pub const VERDICTS: &'static str = "gates";

    /// The prefix of all verdicts about a subject, such as a pull request.
    pub fn verdicts(subject: &Name) -> String {
        format!("{}/{subject}", Self::VERDICTS)
    }

    /// The verdict about a subject with this number: the numbers put all verdicts into one order without gaps.
    pub fn verdict(subject: &Name, number: u32) -> String {
        format!("{}/{number:06}", Self::verdicts(subject))
    }

    /// The prefix of all runs of a case.
    pub fn runs_of_case(case: &CaseId) -> String {
        format!("cases/{case}")
    }

    /// The mark that a run measures a case.
    pub fn case(&self, case: &CaseId) -> String {
        format!("cases/{case}/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::Kind;
    use proptest::prelude::*;
    use serde_json::json;

    fn reference(kind: Kind, text: &str) -> InputRef {
        InputRef {
            kind,
            manifest: Digest::compute(text.as_bytes()),
            bundle: Digest::compute(format!("{text}'s bundle").as_bytes()),
        }
    }

    fn inputs() -> [InputRef; 3] {
        [reference(Kind::Plan, "plan"), reference(Kind::Environment, "a"), reference(Kind::Environment, "b")]
    }

    fn digest(stage: StageName, inputs: &[InputRef], parameters: &serde_json::Value, trust: &str) -> Digest {
        input_digest(stage, inputs, parameters, Digest::compute(trust.as_bytes())).expect("a digest")
    }

    #[test]
    fn an_input_digest_does_not_depend_on_the_order_of_the_inputs() {
        let of = |inputs: &[InputRef]| digest(StageName::Collect, inputs, &json!({}), "t");
        let [a, b, c] = inputs();
        assert_eq!(of(&[a, b, c]), of(&[c, a, b]));
        assert_eq!(of(&[a, b, c]), of(&[a, b, b, c, c]), "nor on how often one is named");
    }

    #[test]
    fn everything_that_makes_a_call_another_call_is_in_its_input_digest() {
        let [a, b, c] = inputs();
        let signed_again = InputRef { bundle: Digest::compute(b"another bundle"), ..b };
        let (none, some) = (json!({}), json!({"block": 1}));
        let digests = [
            digest(StageName::Execute, &[a, b], &none, "t"),
            digest(StageName::Record, &[a, b], &none, "t"),
            digest(StageName::Execute, &[a], &none, "t"),
            digest(StageName::Execute, &[a, c], &none, "t"),
            digest(StageName::Execute, &[a, signed_again], &none, "t"),
            digest(StageName::Execute, &[a, InputRef { kind: Kind::Recording, ..b }], &none, "t"),
            digest(StageName::Execute, &[a, b], &some, "t"),
            digest(StageName::Execute, &[a, b], &none, "another policy"),
        ];
        let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
    }

    #[test]
    fn the_key_order_of_parameters_changes_nothing() {
        let [one, other] = [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#].map(|text| serde_json::from_str(text).expect("JSON"));
        assert_eq!(digest(StageName::Plan, &[], &one, "t"), digest(StageName::Plan, &[], &other, "t"));
    }

    #[test]
    fn an_input_digest_is_the_same_in_every_build() {
        // A changed value means that this build cannot resume any run: then the contract's version has to change as well.
        let digest = digest(StageName::Plan, &[reference(Kind::Source, "source")], &json!({"fetch": true}), "t");
        insta::assert_snapshot!(digest, @"sha256:fe1e8018dec049b7d31a72c11b6d8bcb825548d8378563337661ea3ed7f427af");
    }

    #[test]
    fn parameters_without_a_canonical_form_are_refused() {
        let failure = input_digest(StageName::Plan, &[], &json!({"n": u64::MAX}), Digest::compute(b"t")).expect_err("too large");
        assert_eq!((failure.exit, failure.code.as_str()), (crate::Exit::Usage, "parameters"));
    }

    #[test]
    fn pointers_lie_where_they_are_looked_for() {
        let layout = Layout::for_run(&"nightly".parse().expect("a run id"));
        let shard = Shard { index: 2, count: 3 };
        let trial = "w.t.default.one.t0".parse().expect("a trial id");
        let case = "w.t.default".parse().expect("a case id");
        let input = Digest::compute(b"");
        let paths = [
            layout.run(),
            layout.source(),
            layout.end(7),
            layout.tombstone(7),
            layout.stage(StageName::Reduce),
            layout.accepted(StageName::Execute, input, shard),
            layout.trials(input),
            layout.attempt_started(input, &trial, 1, shard),
            layout.attempt(input, &trial, 1, shard),
            layout.prepared(input, "membw", shard),
            layout.stack(input, "numpy-2-1", shard),
            Layout::ceiling(&input),
            Layout::calibration(&input, &input, CalibrationPace::Full, Instant::from_unix_ns(7)),
            Layout::calibration(&input, &input, CalibrationPace::Quick, Instant::from_unix_ns(7)),
            Layout::foreign_evidence(&"peers".parse().expect("a name")),
            Layout::foreign_verdict(&input),
            Layout::runs_of_case(&case),
            layout.case(&case),
            layout.driver_times(7),
            layout.hot_metrics_receipt(7),
        ];
        insta::assert_snapshot!(paths.join("\n").replace(&input.hex(), "<input>"), @r"
            runs/nightly
            runs/nightly/source
            runs/nightly/ends/000007
            runs/nightly/tombstones/000007
            runs/nightly/reduce
            runs/nightly/execute/<input>/accepted/2
            runs/nightly/execute/<input>/trials
            runs/nightly/execute/<input>/trials/w.t.default.one.t0/000001/2.started
            runs/nightly/execute/<input>/trials/w.t.default.one.t0/000001/2
            runs/nightly/execute/<input>/prepared/membw/2
            runs/nightly/execute/<input>/stacks/numpy-2-1/2
            ceilings/<input>
            calibrations/<input>/<input>/full/00000000000000000007
            calibrations/<input>/<input>/quick/00000000000000000007
            foreign/peers
            foreign-verdicts/<input>
            cases/w.t.default
            cases/w.t.default/nightly
            times/nightly/000007
            hot-metrics/nightly/000007
            ");
    }

    #[test]
    fn a_mark_s_path_says_of_which_attempt_it_is() {
        let layout = Layout::for_run(&"nightly".parse().expect("a run id"));
        let (input, shard) = (Digest::compute(b""), Shard::ONLY);
        let trial: TrialId = "w.t.default.one.t0".parse().expect("a trial id");
        let path = layout.attempt_started(input, &trial, 12, shard);
        assert_eq!(layout.started_attempt(&path, input, shard), Some((trial.clone(), 12)));
        let others = [
            layout.attempt(input, &trial, 12, shard),
            layout.attempt_started(input, &trial, 12, Shard { index: 1, count: 2 }),
            layout.attempt_started(Digest::compute(b"other"), &trial, 12, shard),
            path.replace("000012", "12"),
            path.replace("000012", "+00012"),
            path.replace("nightly", "weekly"),
            format!("{}/0.started", layout.trials(input)),
            format!("{path}/0.started"),
        ];
        for other in others {
            assert_eq!(layout.started_attempt(&other, input, shard), None, "{other}");
        }
    }

    #[test]
    fn a_pointer_reads_what_it_writes_and_nothing_else() {
        let accepted = AcceptedResult { manifest: Digest::compute(b"m"), bundle: Digest::compute(b"b") };
        let bytes = accepted.to_bytes().expect("bytes");
        assert_eq!(AcceptedResult::parse("p", &bytes), Ok(accepted));
        let text = String::from_utf8(bytes).expect("UTF-8");
        for bad in
            ["", "{}", "null", &text.replace("bundle", "bundles"), &text.replace("sha256", "sha1"), &format!("{text}{text}")]
        {
            let failure = AcceptedResult::parse("runs/r/plan/x", bad.as_bytes()).expect_err(bad);
            assert_eq!((failure.code.as_str(), failure.message.as_str()), ("pointer", "the pointer `runs/r/plan/x` is damaged"));
        }
    }

    proptest! {
        #[test]
        fn whatever_lies_under_a_pointer_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = AcceptedResult::parse("p", &bytes);
        }

        #[test]
        fn whatever_a_path_is_it_names_an_attempt_or_none(rest in "[a-z0-9./+_-]{0,60}") {
            let layout = Layout::for_run(&"nightly".parse().expect("a run id"));
            let input = Digest::compute(b"");
            let path = format!("{}/{rest}", layout.trials(input));
            if let Some((trial, attempt)) = layout.started_attempt(&path, input, Shard::ONLY) {
                prop_assert_eq!(layout.attempt_started(input, &trial, attempt, Shard::ONLY), path);
            }
        }
    }
}
