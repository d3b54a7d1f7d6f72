//! The lineage of a number: row, file, Summary, evidence, plan, workload, commit, and the signatures on each step.

use assay_manifest::{Address, Artifact, FrozenWorkload, Name, PinnedFile, PublishedQuery, Role, ServingWork};

use crate::evidence::ChainSignature;
use crate::render::command::shell_word;
use crate::render::number::{bytes, duration};
use crate::render::text::{clean, clean_lines};
use crate::run::inputs::Inputs;

/// Maximum number of artifacts in a list; the rest are counted, and named by the list's manifest.
const MAX_ARTIFACTS: usize = 60;

/// Maximum number of signatures in the table: a run of hundreds of blocks has hundreds, and `assay verify` prints them all.
const MAX_SIGNATURES: usize = 100;

/// The steps that the lineages of all numbers of a run share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lineage {
    pub(crate) signatures: Vec<Signature>,
    pub(crate) signatures_left_out: usize,
    pub(crate) trust_policy: Option<(String, String)>,
    pub(crate) source: Vec<(&'static str, String)>,
    pub(crate) workloads: Vec<WorkloadLineage>,
    pub(crate) files: Vec<ArtifactRow>,
    /// The curated files that hold addressed rows, usually one.
    pub(crate) outcome_files: Vec<String>,
    pub(crate) queries: Vec<QueryLineage>,
    /// The versions of the warehouse's tables that hold the files, by table.
    pub(crate) snapshot: Vec<(String, String)>,
    pub(crate) evidence: ArtifactRow,
    pub(crate) evidence_count: u64,
    pub(crate) plan_digest: String,
    pub(crate) collection_digest: String,
    /// The digest of the Summary's manifest, if its signature is among the given ones.
    pub(crate) summary_digest: Option<String>,
}

/// A pinned query and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryLineage {
    pub(crate) path: String,
    pub(crate) digest: String,
    pub(crate) rows: u64,
    /// The result's file in the published folder.
    pub(crate) result: String,
    /// The query's text; `None` if the caller did not give it.
    pub(crate) text: Option<String>,
}

/// A signature with the command that checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) stage: Role,
    pub(crate) name: String,
    pub(crate) signer: String,
    pub(crate) key: String,
    pub(crate) manifest: String,
    pub(crate) bundle: String,
    pub(crate) command: String,
}

/// A workload as it was frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkloadLineage {
    pub(crate) name: String,
    pub(crate) spec_digest: String,
    /// The frozen spec, indented; `None` if the caller did not give it.
    pub(crate) spec: Option<String>,
    pub(crate) seed: String,
    pub(crate) time_limit: Option<String>,
    /// The search result that its loads come from, and the files of the work: script, files beside it, queries.
    pub(crate) pinned: Vec<ArtifactRow>,
}

/// An artifact in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArtifactRow {
    pub(crate) name: String,
    pub(crate) digest: String,
    pub(crate) size: String,
}

impl Lineage {
    pub(crate) fn build(inputs: &Inputs<'_>) -> Self {
        let (plan, summary, collection) = (inputs.plan, inputs.summary, inputs.collection);
        let outcome = summary.files.iter().filter(|file| file.table == Address::TABLE);
        let summary_signature = inputs.signers.iter().find(|signature| signature.stage == Role::Reduce);
        Self {
            signatures: inputs.signers.iter().take(MAX_SIGNATURES).map(Signature::new).collect(),
            signatures_left_out: inputs.signers.len().saturating_sub(MAX_SIGNATURES),
            trust_policy: inputs.trust_policy.as_ref().map(|(name, digest)| (clean(name), digest.to_string())),
            source: source(inputs),
            workloads: plan.workloads.iter().map(|workload| WorkloadLineage::new(workload, inputs)).collect(),
            files: summary.files.iter().take(MAX_ARTIFACTS).map(|file| ArtifactRow::from_artifact(&file.artifact)).collect(),
            outcome_files: outcome.take(MAX_ARTIFACTS).map(|file| file.artifact.digest.to_string()).collect(),
            queries: inputs.queries.iter().take(MAX_ARTIFACTS).map(|query| QueryLineage::new(query, inputs)).collect(),
            snapshot: snapshot(inputs),
            evidence: ArtifactRow::from_artifact(&collection.evidence),
            evidence_count: collection.evidence_count.0,
            plan_digest: summary.plan_digest.to_string(),
            collection_digest: summary.artifact_manifest_digest.to_string(),
            summary_digest: summary_signature.map(|signature| signature.manifest.to_string()),
        }
    }

    /// Returns the frozen workload of that name.
    pub(crate) fn workload(&self, name: &str) -> Option<&WorkloadLineage> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    /// Returns the command that checks the signature over the Summary, the manifest that vouches for the curated files.
    pub(crate) fn summary_command(&self) -> Option<&str> {
        self.signatures.iter().find(|signature| signature.stage == Role::Reduce).map(|signature| signature.command.as_str())
    }

    /// Returns the commit, if there is one.
    pub(crate) fn commit(&self) -> Option<&str> {
        self.source.iter().find(|(label, _)| *label == "commit").map(|(_, commit)| commit.as_str())
    }
}

impl QueryLineage {
    fn new(query: &PublishedQuery, inputs: &Inputs<'_>) -> Self {
        Self {
            path: clean(&query.path),
            digest: query.digest.to_string(),
            rows: query.rows.0,
            result: clean(&query.result.name),
            text: inputs.query_texts.get(&query.path).map(|text| clean_lines(text)),
        }
    }
}

/// Returns the versions of the tables that hold rows of the run.
fn snapshot(inputs: &Inputs<'_>) -> Vec<(String, String)> {
    let has_rows = |table: &str| inputs.summary.files.iter().any(|file| file.table == table);
    let pinned = inputs.warehouse_snapshot.iter().filter(|(table, _)| has_rows(table));
    pinned.map(|(table, version)| (clean(table), version.to_string())).collect()
}

impl Signature {
    fn new(signed: &ChainSignature) -> Self {
        Self {
            stage: signed.stage,
            name: clean(&signed.name),
            signer: clean(&signed.signer),
            key: clean(&signed.key_fingerprint),
            manifest: signed.manifest.to_string(),
            bundle: signed.bundle.to_string(),
            command: cosign_command(signed),
        }
    }
}

/// Returns the command that checks a signature without Assay's code. cosign refuses a statement of another type than the named one.
fn cosign_command(signed: &ChainSignature) -> String {
    let predicate = predicate_type(signed.stage);
    let bundle = shell_word(&format!("chain/{}.sigstore.json", signed.name));
    let manifest = shell_word(&format!("chain/{}.json", signed.name));
    format!(
        "cosign verify-blob-attestation --key keys/{}.pub --insecure-ignore-tlog --type {predicate} --bundle {bundle} {manifest}",
        signed.stage
    )
}

/// Returns the value of cosign's `--type` for a role's statements.
fn predicate_type(stage: Role) -> &'static str {
    match stage {
        Role::Gate => "https://in-toto.io/attestation/test-result/v0.1",
        Role::Publish => "https://slsa.dev/verification_summary/v1",
        _ => "slsaprovenance1",
    }
}

impl WorkloadLineage {
    fn new(workload: &FrozenWorkload, inputs: &Inputs<'_>) -> Self {
        let work = workload.indicator.as_ref();
        let serving = workload.serving.as_ref();
        let files = work.into_iter().flat_map(|work| work.script.iter().chain(&work.files));
        let files = files.chain(serving.into_iter().flat_map(ServingWork::files));
        let files = files.chain(serving.and_then(|work| work.prompts.dataset()).map(|dataset| &dataset.file));
        let search = workload.search.iter().map(|search| ArtifactRow {
            name: "the search result that its loads come from".to_owned(),
            ..ArtifactRow::from_artifact(&search.manifest)
        });
        let time_limit = work.map(|work| work.time_limit_ns).or(serving.map(|work| work.time_limit_ns));
        Self {
            name: workload.name.to_string(),
            spec_digest: workload.workload_spec_digest.to_string(),
            spec: spec(&workload.name, inputs),
            seed: clean(&workload.seed),
            time_limit: time_limit.map(|limit| duration(limit.0)),
            pinned: search.chain(files.map(ArtifactRow::from_file)).take(MAX_ARTIFACTS).collect(),
        }
    }
}

fn spec(name: &Name, inputs: &Inputs<'_>) -> Option<String> {
    inputs.workload_specs.get(name).map(|text| clean_lines(text))
}

impl ArtifactRow {
    fn from_artifact(artifact: &Artifact) -> Self {
        Self { name: clean(&artifact.name), digest: artifact.digest.to_string(), size: bytes(artifact.size.0) }
    }

    fn from_file(file: &PinnedFile) -> Self {
        Self { name: clean(&file.origin), ..Self::from_artifact(&file.artifact) }
    }
}

fn source(inputs: &Inputs<'_>) -> Vec<(&'static str, String)> {
    let source = &inputs.plan.source;
    let dirty = if source.dirty { "; what was read differs from the commit" } else { "" };
    let mut lines = vec![("kind", format!("{}{dirty}", source.kind))];
    lines.extend(source.repository.iter().map(|repository| ("repository", clean(repository))));
    lines.extend(source.commit.iter().map(|commit| ("commit", clean(commit))));
    lines.push(("files read", source.files_digest.to_string()));
    lines.push(("pipeline", clean(&format!("{} ({})", inputs.plan.pipeline.path, inputs.plan.pipeline.digest))));
    lines
}
