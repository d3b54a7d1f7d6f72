//! Signing of a stage's result: the harness's half of the envelope.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::LazyLock;

use assay_chain::StageName;
use assay_envelope::{
    IMAGE, Predicate, Provenance, ResourceDescriptor, Signer, VerificationResult, VerificationSummary, image_digest,
    predicate_type, sign,
};
use assay_manifest::{Body, Digest, Document, Hasher, InputRef, Instant, Kind, Manifest, Plan, RunId, Shard, Source};
use assay_store::Store;
use serde_json::{Value, json};

use crate::{Clock, ErrorCode, Failure};

/// The key of a process, and the facts about the process that its statements contain.
pub struct Seal {
    /// The key.
    pub signer: Signer,
    /// The digest of this binary.
    pub binary: Digest,
    /// The id of this invocation, such as a Job's UID.
    pub invocation_id: String,
    /// The beginning of the invocation.
    pub started: Instant,
    /// The stage's parameters, which a person chose.
    pub parameters: Value,
    /// The stage, if a stage signs.
    pub stage: Option<StageName>,
    /// The index of this process among those that together make one trial.
    pub shard: Shard,
    /// The trust policy that the inputs were verified under.
    pub trust_policy: Option<Digest>,
    /// The dependencies of the result besides its inputs: commit, images.
    pub dependencies: Vec<ResourceDescriptor>,
}

/// A signed manifest in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedManifest {
    /// The reference by which others name it.
    pub reference: InputRef,
}

/// Signs a body as a manifest of `run_id` made from `inputs`, and stores manifest and bundle.
pub fn seal<B: Body>(
    seal: &Seal,
    store: &Store,
    run_id: &RunId,
    inputs: Vec<InputRef>,
    body: B,
) -> Result<SignedManifest, Failure> {
    let manifest = Manifest::new(run_id.clone(), inputs, body);
    let predicate = predicate(seal, run_id, B::KIND)?;
    seal_with(&seal.signer, store, manifest, predicate)
}

/// Signs a body with a predicate that its signer made, and stores manifest and bundle.
pub fn seal_with<B: Body>(
    signer: &Signer,
    store: &Store,
    manifest: Manifest<B>,
    predicate: impl Into<Predicate>,
) -> Result<SignedManifest, Failure> {
    let signed = sign(&manifest, signer, predicate)
        .map_err(|error| Failure::new(ErrorCode::Internal, format!("the {} could not be signed", B::KIND)).because(&error))?;
    let outputs = manifest.body.artifacts();
    if outputs.len() > assay_envelope::MAX_OUTPUT_SUBJECTS {
        let index = assay_envelope::outputs_index(&outputs)
            .map_err(|error| Failure::new(ErrorCode::Internal, "the list of outputs has no canonical form").because(&error))?;
        store.put(&index)?;
    }
    store.put(&signed.manifest)?;
    store.put(&signed.bundle)?;
    Ok(SignedManifest { reference: signed.input_ref() })
}

fn predicate(seal: &Seal, run_id: &RunId, kind: Kind) -> Result<Predicate, Failure> {
    if predicate_type(kind) == assay_envelope::VERIFICATION_SUMMARY {
        verification_summary(seal, run_id).map(Predicate::from)
    } else {
        Ok(provenance(seal, run_id, kind).into())
    }
}

fn verification_summary(seal: &Seal, run_id: &RunId) -> Result<VerificationSummary, Failure> {
    let unverified =
        || Failure::new(ErrorCode::Internal, "a publication needs the trust policy that its chain was verified under");
    let policy = seal.trust_policy.ok_or_else(unverified)?;
    Ok(VerificationSummary {
        verifier_binary: seal.binary,
        verifier_image: crate::pod::container_image().as_deref().and_then(image_digest),
        time_verified: Clock.now(),
        resource_uri: published_uri(run_id),
        policy: (policy_uri(&policy), policy),
        input_attestations: Vec::new(),
        result: VerificationResult::Passed,
        levels: verified_levels(),
    })
}

/// Returns the URI of the subject of a Publication's verification summary.
pub fn published_uri(run_id: &RunId) -> String {
    format!("assay:runs/{run_id}")
}

/// Returns the URI of a trust policy in a verification summary.
pub fn policy_uri(policy: &Digest) -> String {
    format!("assay:blobs/sha256/{}", policy.hex())
}

/// Returns the levels that a Publication's verification summary claims: the stage harness verifies the chain before it publishes.
pub fn verified_levels() -> Vec<String> {
    vec!["ASSAY_LEVEL_1".to_owned()]
}

fn provenance(seal: &Seal, run_id: &RunId, kind: Kind) -> Provenance {
    Provenance {
        role: kind.signer(),
        run_id: run_id.clone(),
        external_parameters: json!({
            "run_id": run_id,
            "stage": seal.stage.map_or_else(|| kind.signer().to_string(), |stage| stage.to_string()),
            "parameters": seal.parameters,
        }),
        internal_parameters: internal_parameters(seal),
        resolved_dependencies: seal.dependencies.clone(),
        builder_binary: seal.binary,
        builder_version: env!("CARGO_PKG_VERSION").to_owned(),
        invocation_id: seal.invocation_id.clone(),
        started_on: seal.started,
        finished_on: Clock.now(),
    }
}

fn internal_parameters(seal: &Seal) -> Value {
    let mut parameters = json!({"shard": seal.shard, "trust_policy": seal.trust_policy});
    if let Some(image) = crate::pod::container_image() {
        parameters[IMAGE] = image.into();
    }
    parameters
}

/// Returns the dependencies of a result besides its inputs: the commit and the pinned images, as the inputs name them.
pub fn dependencies<'a>(documents: impl Iterator<Item = &'a Document>) -> Vec<ResourceDescriptor> {
    let mut found = Vec::new();
    for document in documents {
        if let Some(source) = Source::from_document(document) {
            found.extend(source_dependencies(&source.body));
        }
        if let Some(plan) = Plan::from_document(document) {
            found.extend(plan_dependencies(&plan.body));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns the commit and the definitions of a Source.
pub fn source_dependencies(source: &Source) -> Vec<ResourceDescriptor> {
    let address = source.repository.as_deref().unwrap_or("local");
    let commit = source.commit.iter().map(|commit| ResourceDescriptor::git_commit(format!("git+{address}"), commit));
    let is_original = |path: &str| source.import.as_ref().is_some_and(|import| import.file == path);
    let is_definition =
        |path: &str| is_original(path) || Path::new(path).extension().is_some_and(|extension| extension == "yaml");
    let definitions = source.files.iter().filter(|file| is_definition(&file.path));
    commit.chain(definitions.map(|file| ResourceDescriptor::from_name(&file.path, file.artifact.digest))).collect()
}

fn plan_dependencies(plan: &Plan) -> Vec<ResourceDescriptor> {
    let workload_images = plan.workloads.iter().filter_map(|workload| workload.image.as_ref());
    let images = workload_images.chain(plan.targets.iter().filter_map(|target| target.image.as_ref()));
    let pinned =
        images.filter_map(|image| Some(ResourceDescriptor::from_uri(format!("docker://{}", image.reference), image.digest?)));
    let workloads = plan.workloads.iter();
    let specs = workloads
        .map(|workload| ResourceDescriptor::from_name(format!("workload_spec/{}", workload.name), workload.workload_spec_digest));
    pinned.chain(specs).collect()
}

/// The digest of the running binary, which stays the same for as long as it runs.
static RUNNING: LazyLock<Result<Digest, Failure>> = LazyLock::new(|| {
    let unreadable = |error: std::io::Error| Failure::new(ErrorCode::Binary, "cannot read the running binary").because(&error);
    file_digest(Path::new("/proc/self/exe")).map_err(unreadable)
});

/// Returns the digest of the running binary, which is computed once.
///
/// # Errors
/// Fails with `binary` if its file cannot be read.
pub fn binary_digest() -> Result<Digest, Failure> {
    RUNNING.clone()
}

/// Begins to compute the digest of the running binary in a thread: hashing it takes a moment, and its result is needed only for signing.
/// Without a thread, [`binary_digest`] computes it.
pub fn begin_binary_digest() {
    let _ = std::thread::Builder::new().name("digest".to_owned()).spawn(|| LazyLock::force(&RUNNING));
}

/// Computes the digest of a program's file.
pub fn file_digest(path: &Path) -> std::io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}
