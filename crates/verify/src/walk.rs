//! Walks from a run's last manifest back to its Source: every manifest is loaded by the digests that the one after it pins, and
//! verified.

use std::collections::{BTreeMap, BTreeSet};

use assay_chain::{Member, SOURCE_FOLDER, StageName, check_complete, check_links, published_files};
use assay_envelope::{ExpectedManifest, MAX_BUNDLE_BYTES, Trust, Verified, verify};
use assay_git::{CommitInfo, OfflineFile, Oid, RawObject, check_offline};
use assay_manifest::{
    Artifact, Body, Count, Document, InputRef, Kind, MAX_MANIFEST_BYTES, Manifest, OriginKind, Role, RunId, Source,
};
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout};
use assay_store::Store;

use crate::blobs::{Blobs, FolderBlobs};
use crate::statements::check_statements;
use crate::{ArtifactHolder, Error, ManifestPart, Result};

/// The largest file or Git object of a Source, in bytes.
const MAX_SOURCE_BYTES: u64 = 256 << 20;

/// The start of a walk.
#[derive(Clone, Debug)]
pub struct Head {
    /// The run.
    pub run_id: RunId,
    /// Its last manifests: the Publication or, without one, the manifests that were accepted last.
    pub references: Vec<InputRef>,
    /// The manifests that ended it early, the latest last.
    pub ends: Vec<InputRef>,
}

impl Head {
    /// Returns true if the run has been published.
    pub fn is_published(&self) -> bool {
        self.references.iter().any(|reference| reference.kind == Kind::Publication)
    }
}

/// Returns the head of a run in a store.
pub fn head_of_run(store: &Store, run_id: &RunId) -> Result<Head> {
    let layout = Layout::for_run(run_id);
    let pointer = |path: &String, kind: Kind| -> Result<Option<InputRef>> {
        Ok(AcceptedResult::read(store, path)?.map(|accepted| accepted.as_input(kind)))
    };
    let ends = store.list(&format!("{}/ends", layout.run()))?;
    let ends = ends.iter().filter_map(|path| pointer(path, Kind::RunEnd).transpose()).collect::<Result<Vec<_>, _>>()?;
    for stage in StageName::ALL.into_iter().rev().filter(|stage| *stage != StageName::Record) {
        let accepted = AcceptedResult::list_stage(store, run_id, stage)?;
        let references = accepted.map(|accepted| Ok(accepted?.as_input(stage.output_kind()))).collect::<Result<Vec<_>>>()?;
        if !references.is_empty() {
            return Ok(Head { run_id: run_id.clone(), references, ends });
        }
    }
    match pointer(&layout.source(), Kind::Source)? {
        Some(source) => Ok(Head { run_id: run_id.clone(), references: vec![source], ends }),
        None => Err(Error::NoRun { store: store.uri().to_owned(), run_id: run_id.clone() }),
    }
}

/// Returns the head of the run that a published folder holds: the Publication at its fixed path.
pub fn head_of_folder(blobs: &FolderBlobs) -> Result<Head> {
    let [manifest, bundle] = ["chain/publication.json", "chain/publication.sigstore.json"].map(|path| blobs.file_at(path));
    let (manifest, bundle) = (manifest?, bundle?);
    let bytes = blobs.get(&manifest, MAX_MANIFEST_BYTES)?.unwrap_or_default();
    let document = Document::parse(&bytes).map_err(Error::Publication)?;
    let reference = InputRef { kind: Kind::Publication, manifest, bundle };
    Ok(Head { run_id: document.header().run_id.clone(), references: vec![reference], ends: Vec::new() })
}

/// A run's manifests, all verified.
#[derive(Debug)]
pub struct Chain {
    /// The run.
    pub run_id: RunId,
    /// The manifests, in the order of the chain.
    pub documents: Vec<Verified<Document>>,
    /// The commit's data, if the Source is a commit.
    pub commit: Option<CommitInfo>,
    /// True if every stage is present.
    pub is_complete: bool,
}

impl Chain {
    /// Returns the first manifest of a kind.
    pub fn one<'a, B: Body + 'a>(&'a self) -> Option<&'a Manifest<B>> {
        self.all::<B>().next().map(|(_, manifest)| manifest)
    }

    /// Returns all manifests of a kind, with the digests that name them.
    pub fn all<'a, B: Body + 'a>(&'a self) -> impl Iterator<Item = (InputRef, &'a Manifest<B>)> {
        self.documents.iter().filter_map(|verified| Some((verified.input_ref(), B::from_document(verified.value())?)))
    }

    /// Returns true if a trust policy names every signer.
    pub fn is_established(&self) -> bool {
        self.documents.iter().all(|verified| verified.signer().established)
    }

    /// Returns the files of the run's published folder, by path. An end that the run had before it was resumed is not one of them: the
    /// Publication does not name it.
    pub fn published_files(&self) -> BTreeMap<String, assay_manifest::Digest> {
        let published = self.documents.iter().filter(|verified| verified.value().kind() != Kind::RunEnd);
        published.flat_map(|verified| published_files(verified.value(), verified.input_ref())).collect()
    }

    /// Returns the sizes in bytes that the manifests record, by digest.
    pub fn recorded_sizes(&self) -> BTreeMap<assay_manifest::Digest, Count> {
        let artifacts = self.documents.iter().flat_map(|verified| verified.value().artifacts());
        artifacts.map(|artifact| (artifact.digest, artifact.size)).collect()
    }

    /// Returns the roles that signed.
    pub fn roles(&self) -> BTreeSet<Role> {
        self.documents.iter().map(|verified| verified.value().kind().signer()).collect()
    }
}

/// Walks a run back from its head. Every manifest is loaded by digest, verified under `trust`, and pinned by the manifest that
/// names it.
pub fn walk(blobs: &dyn Blobs, head: &Head, trust: &Trust) -> Result<Chain> {
    let mut found: BTreeMap<InputRef, Verified<Document>> = BTreeMap::new();
    let mut pending: Vec<(InputRef, Option<Kind>)> =
        head.references.iter().chain(&head.ends).map(|reference| (*reference, None)).collect();
    while let Some((reference, named_by)) = pending.pop() {
        if found.contains_key(&reference) {
            continue;
        }
        let verified = load(blobs, reference, named_by, trust, &head.run_id)?;
        let header = verified.value().header();
        pending.extend(header.inputs.iter().map(|input| (*input, Some(header.kind))));
        found.insert(reference, verified);
    }
    let mut documents: Vec<_> = found.into_values().collect();
    documents.sort_by_key(|verified| (verified.value().kind(), assay_stage::chain_name(verified.value())));
    check_origin(trust, &documents)?;
    check_statements(&documents)?;
    let commit = check_chain(blobs, head, &documents)?;
    Ok(Chain { run_id: head.run_id.clone(), documents, commit, is_complete: head.is_published() })
}

/// Loads a manifest and its bundle by their digests, and verifies them. `named_by` is the manifest that names it, for messages.
pub fn load(
    blobs: &dyn Blobs,
    reference: InputRef,
    named_by: Option<Kind>,
    trust: &Trust,
    run_id: &RunId,
) -> Result<Verified<Document>> {
    let InputRef { kind, manifest, bundle } = reference;
    let missing = |part: ManifestPart, digest| Error::NoManifest { part, digest, kind, named_by };
    let in_place = |error: Error| Error::Unverified { kind, source: Box::new(error) };
    let manifest_bytes =
        blobs.get(&manifest, MAX_MANIFEST_BYTES).map_err(in_place)?.ok_or_else(|| missing(ManifestPart::Manifest, manifest))?;
    let bundle_bytes =
        blobs.get(&bundle, MAX_BUNDLE_BYTES as u64).map_err(in_place)?.ok_or_else(|| missing(ManifestPart::Bundle, bundle))?;
    let expect = ExpectedManifest { run_id: Some(run_id), kind: Some(kind), stage: Some(kind.signer()), input: Some(&reference) };
    verify(&manifest_bytes, &bundle_bytes, trust, &expect).map_err(|error| in_place(error.into()))
}

/// Loads a signed document that belongs to no run, such as a calibration, and verifies it. `what` names it in a failure.
///
/// # Errors
/// Fails with `manifest_missing` if it or its bundle is absent, and with the code of the signature's fault.
pub fn load_alone(blobs: &dyn Blobs, reference: InputRef, trust: &Trust, what: &str) -> Result<Verified<Document>, Failure> {
    let absent = |part: &str| {
        Failure::new(ErrorCode::ManifestMissing, format!("the {part} of the {what} {} is absent", reference.manifest.short()))
    };
    let manifest = blobs.get(&reference.manifest, MAX_MANIFEST_BYTES)?.ok_or_else(|| absent("manifest"))?;
    let bundle = blobs.get(&reference.bundle, MAX_BUNDLE_BYTES as u64)?.ok_or_else(|| absent("bundle"))?;
    let kind = reference.kind;
    let expect =
        ExpectedManifest { kind: Some(kind), stage: Some(kind.signer()), input: Some(&reference), ..ExpectedManifest::default() };
    Ok(verify(&manifest, &bundle, trust, &expect)?)
}

/// Checks that the run has the origin that the trust policy requires of each role that signed.
fn check_origin(trust: &Trust, documents: &[Verified<Document>]) -> Result<()> {
    let roles: BTreeSet<Role> = documents.iter().map(|verified| verified.value().kind().signer()).collect();
    for role in roles {
        documents.iter().try_for_each(|verified| trust.check_origin(role, verified.value()))?;
    }
    Ok(())
}

fn check_chain(blobs: &dyn Blobs, head: &Head, documents: &[Verified<Document>]) -> Result<Option<CommitInfo>> {
    let members: Vec<_> =
        documents.iter().map(|verified| Member { document: verified.value(), reference: verified.input_ref() }).collect();
    let checked = if head.is_published() { check_complete(&head.run_id, &members) } else { check_links(&head.run_id, &members) };
    checked?;
    let source = members.iter().find_map(|member| Source::from_document(member.document));
    match source.filter(|source| source.body.kind == OriginKind::Git) {
        Some(source) => check_commit(blobs, &source.body).map(Some),
        None => Ok(None),
    }
}

/// Returns the error for a file of the Source that is absent, or that a published folder holds with other bytes.
fn missing_source_file(blobs: &dyn Blobs, artifact: &Artifact) -> Error {
    let path = format!("{SOURCE_FOLDER}{}", artifact.name);
    match blobs.digest_at_path(&path) {
        Some(found) => Error::OtherFile { path, found, expected: artifact.digest },
        None => Error::NoArtifact { holder: ArtifactHolder::Source, name: artifact.name.clone(), digest: artifact.digest },
    }
}

/// Shows offline that the files that define the run are those of the commit.
fn check_commit(blobs: &dyn Blobs, source: &Source) -> Result<CommitInfo> {
    let parse = |oid: &str| oid.parse::<Oid>().map_err(|error| Error::Commit(error.into()));
    let commit = parse(source.commit.as_deref().ok_or(Error::CommitNotNamed)?)?;
    let bytes_of =
        |artifact: &Artifact| blobs.get(&artifact.digest, MAX_SOURCE_BYTES)?.ok_or_else(|| missing_source_file(blobs, artifact));
    let objects = source
        .objects
        .iter()
        .map(|object| Ok(RawObject { oid: parse(&object.oid)?, kind: object.kind, bytes: bytes_of(&object.artifact)? }));
    let objects = objects.collect::<Result<Vec<_>>>()?;
    let files = source.files_of_commit().map(|file| Ok((file, bytes_of(&file.artifact)?))).collect::<Result<Vec<_>>>()?;
    let files: Vec<_> =
        files.iter().map(|(file, bytes)| OfflineFile { path: &file.path, executable: file.executable, bytes }).collect();
    check_offline(commit, &objects, &files).map_err(|error| Error::Commit(error.into()))
}
