//! The signer's statement about a manifest, in three predicates that other tools support.
//!
//! Domain data is never here: it is in the manifest, which is a subject.

use assay_manifest::{Digest, Header, InputRef, Instant, Kind, Outcome, Role, RunId, Verdict};
use serde::{Deserialize, Serialize};

use crate::descriptor::{ResourceDescriptor, describe_input};

/// The type of the only statement format that is written and read.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

/// SLSA provenance: the making of a manifest. For every kind except the Publication and the Verdict.
pub const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// The result of a gate. For the Verdict.
pub const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// The verification that preceded a publication. For the Publication.
pub const VERIFICATION_SUMMARY: &str = "https://slsa.dev/verification_summary/v1";

/// Returns the predicate type under which a kind of manifest is signed, as `--type` of cosign takes it.
pub fn predicate_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Publication => VERIFICATION_SUMMARY,
        Kind::Verdict => TEST_RESULT,
        _ => PROVENANCE,
    }
}

/// Returns the build type of a kind of manifest; `None` for kinds without provenance: the Publication and the Verdict.
///
/// It follows the kind, not only the role, so that a recorder's statement can never stand for a collection's.
pub fn build_type(kind: Kind) -> Option<String> {
    let word = match kind {
        Kind::Publication | Kind::Verdict => return None,
        Kind::Recording => "recording",
        Kind::Checkpoint => "checkpoint",
        Kind::RunEnd => "run-end",
        Kind::Tombstone => "tombstone",
        Kind::SearchResult => "search-result",
        // Not a test result: a program that blocks on those must never take a verdict over foreign evidence for one about runs.
        Kind::ForeignVerdict => "foreign-verdict",
        _ => kind.signer().as_str(),
    };
    Some(format!("https://assay.dev/build/{word}/v1alpha1"))
}

/// The internal parameter of provenance that holds the container image in which the signing binary ran.
pub const IMAGE: &str = "image";

/// Returns the digest of a pinned image reference, such as `registry.example.org/assay@sha256:...`.
pub fn image_digest(reference: &str) -> Option<Digest> {
    reference.split_once('@').and_then(|(_, digest)| digest.parse().ok())
}

/// The predicate of a signer's statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// The making of the manifest.
    Provenance(Provenance),
    /// The verification that preceded the publication.
    VerificationSummary(VerificationSummary),
    /// The decision of a gate.
    TestResult(TestResult),
}

impl Predicate {
    /// Its type, as a URI.
    pub fn type_uri(&self) -> &'static str {
        match self {
            Self::Provenance(_) => PROVENANCE,
            Self::VerificationSummary(_) => VERIFICATION_SUMMARY,
            Self::TestResult(_) => TEST_RESULT,
        }
    }

    /// The digest of the signing binary; `None` for a gate's result, which has no field for it.
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

    /// The time at which the signer states to have finished. Only the signer vouches for it.
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

/// The making of a manifest: SLSA provenance v1.
#[derive(Clone, Debug, PartialEq)]
pub struct Provenance {
    /// The role that made it; must be the header's.
    pub role: Role,
    /// The run that it belongs to; must be the header's.
    pub run_id: RunId,
    /// The values that a person chose: pipeline, commit, stage, parameters. A JSON object.
    pub external_parameters: serde_json::Value,
    /// The values that the system chose: location, seeds. A JSON object.
    pub internal_parameters: serde_json::Value,
    /// The inputs of the manifest: commit, images, datasets. [`crate::sign`] adds the header's inputs.
    pub resolved_dependencies: Vec<ResourceDescriptor>,
    /// The digest of the stage's binary.
    pub builder_binary: Digest,
    /// The version of Assay.
    pub builder_version: String,
    /// The id of this invocation of the stage, such as the Job's UID.
    pub invocation_id: String,
    /// The start time.
    pub started_on: Instant,
    /// The end time; validity windows of keys are compared with it.
    pub finished_on: Instant,
}

impl Provenance {
    /// Returns the dependencies besides the inputs of the header, in the order given.
    pub fn extra_dependencies(&self, header: &Header) -> Vec<&ResourceDescriptor> {
        let inputs: Vec<_> = header.inputs.iter().flat_map(describe_input).collect();
        self.resolved_dependencies.iter().filter(|dependency| !inputs.contains(dependency)).collect()
    }
}

/// The verification that preceded a publication: SLSA verification summary v1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationSummary {
    /// The digest of the verifying binary.
    pub verifier_binary: Digest,
    /// The digest of the container image in which it ran, if it ran in one.
    pub verifier_image: Option<Digest>,
    /// The time of verification; validity windows of keys are compared with it.
    pub time_verified: Instant,
    /// The location of the verified resource.
    pub resource_uri: String,
    /// Address and digest of the trust policy.
    pub policy: (String, Digest),
    /// The verified inputs. [`crate::sign`] adds the header's inputs.
    pub input_attestations: Vec<InputRef>,
    /// The outcome.
    pub result: VerificationResult,
    /// The levels that were reached; names of our own, which must not begin with `SLSA_`.
    pub levels: Vec<String>,
}

/// The outcome of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum VerificationResult {
    /// All checks passed.
    Passed,
    /// A check failed.
    Failed,
}

/// The decision of a gate: in-toto test result v0.1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestResult {
    /// The outcome.
    pub result: GateResult,
    /// The rules and inputs of the decision. [`crate::sign`] adds the header's inputs; the gate's policy comes first.
    pub configuration: Vec<ResourceDescriptor>,
    /// The address of the verdict.
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

/// The name of the descriptor with the gate's policy and the time of the decision.
const GATE: &str = "gate";
const JUDGED_ON: &str = "judged_on";

impl TestResult {
    /// Converts a verdict to a test result: its cases are the tests. Inconclusive is a warning, or a failure if the policy blocks
    /// on it.
    pub fn from_verdict(verdict: &Verdict) -> Self {
        let cases = verdict.cases();
        let of = |is: &dyn Fn(Outcome) -> bool| {
            cases.iter().filter(|(_, outcome)| is(*outcome)).map(|(case, _)| case.to_string()).collect()
        };
        let mut configuration = vec![Self::gate_descriptor(verdict.policy.digest, verdict.judged_on)];
        let files = verdict.files.iter().map(|file| ResourceDescriptor::from_name(&file.name, file.digest));
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

    /// Returns true if it states the same as that verdict; the inputs of the decision are compared elsewhere.
    pub(crate) fn matches_verdict(&self, verdict: &Verdict) -> bool {
        let Self { result, passed_tests, warned_tests, failed_tests, .. } = Self::from_verdict(verdict);
        self.result == result
            && self.passed_tests == passed_tests
            && self.warned_tests == warned_tests
            && self.failed_tests == failed_tests
            && self.judged_on() == Some(verdict.judged_on)
    }

    /// The descriptor of the gate's policy file and of the time of its decision: a test result has no time of its own, and a key
    /// has to be valid at one.
    fn gate_descriptor(policy: Digest, judged_on: Instant) -> ResourceDescriptor {
        let mut descriptor = ResourceDescriptor::from_name(GATE, policy);
        descriptor.annotations.insert(JUDGED_ON.to_owned(), judged_on.to_string());
        descriptor
    }

    /// The time at which the gate states to have judged.
    pub(crate) fn judged_on(&self) -> Option<Instant> {
        let gate = self.configuration.iter().find(|descriptor| descriptor.name.as_deref() == Some(GATE))?;
        gate.annotations.get(JUDGED_ON)?.parse().ok()
    }
}

/// The outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum GateResult {
    /// No case regressed.
    Passed,
    /// A case is inconclusive, and the policy does not block on it.
    Warned,
    /// A case regressed.
    Failed,
}
