//! What a signer says about a manifest, in three predicates that other tools know.
//!
//! Domain data is never here: it stands in the manifest, which is a subject.

use assay_manifest::{Digest, Header, InputRef, Instant, Kind, Outcome, Role, RunId, Verdict};
use serde::{Deserialize, Serialize};

use crate::descriptor::{ResourceDescriptor, of_input};

/// SLSA provenance: how a manifest was made. For every kind but the Publication and the Verdict.
pub const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// The result of a gate. For the Verdict.
pub const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// What was verified before something was published. For the Publication.
pub const VERIFICATION_SUMMARY: &str = "https://slsa.dev/verification_summary/v1";

/// The predicate type under which a kind of manifest is signed: what `--type` of cosign must name.
pub fn predicate_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Publication => VERIFICATION_SUMMARY,
        Kind::Verdict => TEST_RESULT,
        _ => PROVENANCE,
    }
}

/// The build type of a kind of manifest; none for those that have no provenance: the Publication and the Verdict.
///
/// It follows the kind, not only the role, so that a recorder's statement can never stand for a collection's.
pub fn build_type(kind: Kind) -> Option<String> {
    let word = match kind {
        Kind::Publication | Kind::Verdict => return None,
        Kind::Recording => "recording",
        Kind::Checkpoint => "checkpoint",
        Kind::RunEnd => "run-end",
        _ => kind.signer().as_str(),
    };
    Some(format!("https://assay.dev/build/{word}/v1alpha1"))
}

/// The internal parameter of provenance that holds the container image in which the signing binary ran.
pub const IMAGE: &str = "image";

/// The digest of an image reference that is pinned, such as `registry.example.org/assay@sha256:...`.
pub fn image_digest(reference: &str) -> Option<Digest> {
    reference.split_once('@').and_then(|(_, digest)| digest.parse().ok())
}

/// What a signer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// How the manifest was made.
    Provenance(Provenance),
    /// What was verified before it was published.
    VerificationSummary(VerificationSummary),
    /// How a gate decided.
    TestResult(TestResult),
}

impl Predicate {
    /// Its type, an address.
    pub fn type_uri(&self) -> &'static str {
        match self {
            Self::Provenance(_) => PROVENANCE,
            Self::VerificationSummary(_) => VERIFICATION_SUMMARY,
            Self::TestResult(_) => TEST_RESULT,
        }
    }

    /// The digest of the signing binary; `None` for a gate's result, which has no place for it.
    pub fn binary(&self) -> Option<Digest> {
        match self {
            Self::Provenance(provenance) => Some(provenance.builder_binary),
            Self::VerificationSummary(summary) => Some(summary.verifier_binary),
            Self::TestResult(_) => None,
        }
    }

    /// The digest of the container image in which the signing binary ran; `None` outside of containers.
    pub fn image(&self) -> Option<Digest> {
        match self {
            Self::Provenance(provenance) => image_digest(provenance.internal_parameters.get(IMAGE)?.as_str()?),
            Self::VerificationSummary(summary) => summary.verifier_image,
            Self::TestResult(_) => None,
        }
    }

    /// When the signer says that it was done. Nothing but the signer's word stands behind it.
    pub fn asserted_time(&self) -> Option<Instant> {
        match self {
            Self::Provenance(provenance) => Some(provenance.finished_on),
            Self::VerificationSummary(summary) => Some(summary.time_verified),
            Self::TestResult(result) => result.judged_on(),
        }
    }
}

impl From<TestResult> for Predicate {
    fn from(result: TestResult) -> Self {
        Self::TestResult(result)
    }
}

impl From<Provenance> for Predicate {
    fn from(provenance: Provenance) -> Self {
        Self::Provenance(provenance)
    }
}

impl From<VerificationSummary> for Predicate {
    fn from(summary: VerificationSummary) -> Self {
        Self::VerificationSummary(summary)
    }
}

/// How a manifest was made: SLSA provenance v1.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    /// The role that made it; must be the header's.
    pub role: Role,
    /// The run that it belongs to; must be the header's.
    pub run_id: RunId,
    /// What a person chose: pipeline, commit, stage, parameters. A JSON object.
    pub external_parameters: serde_json::Value,
    /// What the machinery chose: where it ran, seeds. A JSON object.
    pub internal_parameters: serde_json::Value,
    /// What it was made from: commit, images, datasets. The header's inputs are added by [`crate::sign`].
    pub resolved_dependencies: Vec<ResourceDescriptor>,
    /// The digest of the stage's binary.
    pub builder_binary: Digest,
    /// The version of Assay.
    pub builder_version: String,
    /// Names this invocation of the stage, such as the Job's UID.
    pub invocation_id: String,
    /// When it began.
    pub started_on: Instant,
    /// When it ended; validity windows of keys are compared with this.
    pub finished_on: Instant,
}

impl Provenance {
    /// What the manifest was made from besides the inputs of its header, in the order given.
    pub fn dependencies_besides(&self, header: &Header) -> Vec<&ResourceDescriptor> {
        let inputs: Vec<_> = header.inputs.iter().flat_map(of_input).collect();
        self.resolved_dependencies.iter().filter(|dependency| !inputs.contains(dependency)).collect()
    }
}

/// What was verified before something was published: SLSA verification summary v1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationSummary {
    /// The digest of the verifying binary.
    pub verifier_binary: Digest,
    /// The digest of the container image in which it ran, if it ran in one.
    pub verifier_image: Option<Digest>,
    /// When it verified; validity windows of keys are compared with this.
    pub time_verified: Instant,
    /// Where what was verified can be had.
    pub resource_uri: String,
    /// Address and digest of the trust policy.
    pub policy: (String, Digest),
    /// What was verified. The header's inputs are added by [`crate::sign`].
    pub input_attestations: Vec<InputRef>,
    /// The outcome.
    pub result: VerificationResult,
    /// The levels that were reached; words of our own, which must not begin with `SLSA_`.
    pub levels: Vec<String>,
}

/// The outcome of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum VerificationResult {
    /// Everything held.
    Passed,
    /// Something did not.
    Failed,
}

/// How a gate decided: in-toto test result v0.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestResult {
    /// The outcome.
    pub result: GateResult,
    /// What it was judged by and from. The header's inputs are added by [`crate::sign`]; the gate's policy comes first.
    pub configuration: Vec<ResourceDescriptor>,
    /// Where the verdict can be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
    /// The benchmark case ids that passed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub passed_tests: Vec<String>,
    /// The benchmark case ids that were inconclusive.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warned_tests: Vec<String>,
    /// The benchmark case ids that regressed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failed_tests: Vec<String>,
}

/// The name of the descriptor that says which gate judged, and when.
const GATE: &str = "gate";
const JUDGED_ON: &str = "judged_on";

impl TestResult {
    /// What a verdict says, in the words of a test result: its cases are the tests. Inconclusive is a warning, and a failure where the
    /// policy blocks on it.
    pub fn of(verdict: &Verdict) -> Self {
        let cases = verdict.cases();
        let of = |is: &dyn Fn(Outcome) -> bool| {
            cases.iter().filter(|(_, outcome)| is(*outcome)).map(|(case, _)| case.to_string()).collect()
        };
        let mut configuration = vec![Self::gate(verdict.policy.digest, verdict.judged_on)];
        let files = verdict.files.iter().map(|file| ResourceDescriptor::named(&file.name, file.digest));
        configuration.extend(files);
        Self {
            result: match verdict.outcome {
                _ if verdict.blocks => GateResult::Failed,
                Outcome::Inconclusive => GateResult::Warned,
                _ => GateResult::Passed,
            },
            configuration,
            url: None,
            passed_tests: of(&|outcome| matches!(outcome, Outcome::Improved | Outcome::Unchanged)),
            warned_tests: of(&|outcome| outcome == Outcome::Inconclusive),
            failed_tests: of(&|outcome| outcome == Outcome::Regressed),
        }
    }

    /// Whether it says what that verdict does; what it was judged from is compared elsewhere.
    pub(crate) fn is_of(&self, verdict: &Verdict) -> bool {
        let Self { result, passed_tests, warned_tests, failed_tests, .. } = Self::of(verdict);
        self.result == result
            && self.passed_tests == passed_tests
            && self.warned_tests == warned_tests
            && self.failed_tests == failed_tests
            && self.judged_on() == Some(verdict.judged_on)
    }

    /// The descriptor that says by which file's rules a gate judged, and when: a test result has no time of its own, and a key has to be
    /// valid at one.
    fn gate(policy: Digest, judged_on: Instant) -> ResourceDescriptor {
        let mut descriptor = ResourceDescriptor::named(GATE, policy);
        descriptor.annotations.insert(JUDGED_ON.to_owned(), judged_on.to_string());
        descriptor
    }

    /// When the gate says that it judged.
    pub(crate) fn judged_on(&self) -> Option<Instant> {
        let gate = self.configuration.iter().find(|descriptor| descriptor.name.as_deref() == Some(GATE))?;
        gate.annotations.get(JUDGED_ON)?.parse().ok()
    }
}

/// The outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum GateResult {
    /// Nothing regressed.
    Passed,
    /// Inconclusive, and the policy does not block on it.
    Warned,
    /// Something regressed.
    Failed,
}
