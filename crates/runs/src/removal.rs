//! Removal: what leaves a store with a run's evidence, what stays and why, and what nothing needs any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use assay_manifest::{Artifact, Digest, Document, Kind, RemovalScope, RemovedKind, RunId, Summary};
use assay_runner::RunLock;
use assay_stage::{ErrorCode, Failure, Layout};
use assay_store::{GRACE, Object, ObjectPath, Objects, OldScratch, Removal, Store};
use assay_verify::sum_kinds;

use crate::completeness::{check_manifests, check_places, check_pointers, check_shown};
use crate::references::{Need, RunReferences, VerdictReferences, all_references, run_references, verdict_references};
use crate::verified_run::VerifiedRun;

/// The largest file of a Source that is searched for a reference to a run, in bytes: a noise file is far smaller.
const MAX_REFERRING_BYTES: u64 = 4 << 20;

/// The age from which a manifest has its pointer, in milliseconds: it is created at once after the manifest was put.
const SETTLED_MS: i64 = 3_600_000;

/// The blobs that the runs and verdicts of a store name.
#[derive(Debug)]
pub struct References {
    /// The runs, in the order of their names.
    pub runs: Vec<RunReferences>,
    /// The verdicts.
    pub verdicts: Vec<VerdictReferences>,
    /// Set once the pointers of the store were found to be complete.
    checked: OnceLock<()>,
}

impl References {
    /// Reads them.
    ///
    /// # Errors
    /// Fails if a run or verdict cannot be read: then it is not known what it needs.
    pub fn read(store: &Store) -> Result<Self, Failure> {
        Ok(Self { runs: all_references(store)?, verdicts: verdict_references(store)?, checked: OnceLock::new() })
    }

    /// Fails if pointers of the store are missing or lead elsewhere: then these are not all blobs that are needed. The store is examined once.
    fn check_complete(&self, store: &Store) -> Result<(), Failure> {
        if self.checked.get().is_none() {
            check_pointers(&Removal::open(store)?)?;
            check_places(&self.runs, &self.verdicts)?;
            check_shown(store, &self.runs)?;
        }
        self.checked.get_or_init(|| ());
        Ok(())
    }

    /// Returns all blobs that they name.
    pub fn digests(&self) -> BTreeSet<Digest> {
        let runs = self.runs.iter().flat_map(|run| run.blobs.keys().copied());
        runs.chain(self.verdicts.iter().flat_map(|verdict| verdict.blobs.iter().copied())).collect()
    }

    /// Returns the number of runs and verdicts that name each blob.
    pub fn counts(&self) -> BTreeMap<Digest, u64> {
        let mut counts = BTreeMap::new();
        let runs = self.runs.iter().flat_map(|run| run.blobs.keys());
        runs.chain(self.verdicts.iter().flat_map(|verdict| &verdict.blobs)).for_each(|digest| {
            *counts.entry(*digest).or_default() += 1;
        });
        counts
    }
}

/// The blobs that a removal of the evidence of a run would take.
#[derive(Clone, Debug)]
pub struct RunRemoval {
    /// The run.
    pub run_id: RunId,
    /// The part that is removed.
    pub scope: RemovalScope,
    /// The blobs that go, sorted, each by the name of one artifact that it holds.
    pub list: Vec<Artifact>,
    /// Their number and size by kind.
    pub kinds: Vec<RemovedKind>,
    /// Blobs that stay because another run or a verdict names them.
    pub shared: BlobSum,
    /// Blobs that stay because they were put again after the run had ended: another run may be about to name them.
    pub renewed: BlobSum,
    /// The latest time that a blob may have to go, in milliseconds since 1970.
    before_unix_ms: i64,
}

/// A number of blobs, and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct BlobSum {
    /// Their number.
    pub count: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl BlobSum {
    /// Adds a blob.
    pub fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl RunRemoval {
    /// Computes what the removal of a verified run's evidence would take. Nothing is removed that is absent already: a removal
    /// explains no earlier loss.
    ///
    /// # Errors
    /// Fails with `run_needed` if a verdict or a noise file rests on results that would go, with `run_unfinished` if a process may still
    /// write to the run, with `store_incomplete` if the store has a run whose pointers are missing, and with `pointer_elsewhere` or
    /// `verdict_misplaced` if one leads to a manifest that does not belong there.
    pub fn plan(store: &Store, run: &VerifiedRun, scope: RemovalScope, all: &References) -> Result<Self, Failure> {
        let run_id = &run.chain.run_id;
        let now = now_unix_ms();
        let last = last_written(store, run_id)?;
        if !run.chain.is_complete && run.head.ends.is_empty() && last >= now - grace_ms() {
            return Err(unfinished(run));
        }
        all.check_complete(store)?;
        if scope == RemovalScope::Results {
            check_not_needed(store, run, all)?;
        }
        let own = run_references(store, run_id)?;
        let others = all.runs.iter().filter(|other| other.run_id != *run_id).flat_map(|other| other.blobs.keys());
        let others: BTreeSet<&Digest> = others.chain(all.verdicts.iter().flat_map(|verdict| &verdict.blobs)).collect();
        // A blob of the run was put before the pointer that leads to it; a later time is that of another writer.
        let before_unix_ms = last.saturating_add(1).max(now - grace_ms());
        let (objects, mut list) = (Objects::new(store), Vec::new());
        let (mut shared, mut renewed) = (BlobSum::default(), BlobSum::default());
        let highest = if scope == RemovalScope::Results { Need::Results } else { Need::Evidence };
        for (digest, blob) in own.blobs.iter().filter(|(_, blob)| blob.need <= highest) {
            let Some(artifact) = &blob.artifact else { continue };
            let Some(object) = objects.info(&ObjectPath::Blob(*digest))? else { continue };
            if others.contains(digest) {
                shared.add(object.size);
            } else if object.modified_unix_ms >= before_unix_ms {
                renewed.add(object.size);
            } else {
                list.push(artifact.clone());
            }
        }
        list.sort_unstable();
        let kinds = sum_kinds(&run.chain.documents, &list);
        Ok(Self { run_id: run_id.clone(), scope, list, kinds, shared, renewed, before_unix_ms })
    }

    /// Removes the blobs; the tombstone has to be in the store already. Returns what was removed: a blob that was put again meanwhile
    /// stays.
    pub fn apply(&self, removal: &Removal) -> Result<BlobSum, Failure> {
        let mut removed = BlobSum::default();
        for artifact in &self.list {
            if let Some(bytes) = removal.remove_blob(&artifact.digest, self.before_unix_ms)? {
                removed.add(bytes);
            }
        }
        Ok(removed)
    }

    /// Returns the sum of what goes.
    pub fn sum(&self) -> BlobSum {
        let mut sum = BlobSum::default();
        self.list.iter().for_each(|artifact| sum.add(artifact.size.0));
        sum
    }
}

/// Returns the time of the last pointer of a run, in milliseconds since 1970. Tombstones are no part of it.
fn last_written(store: &Store, run_id: &RunId) -> Result<i64, Failure> {
    let layout = Layout::for_run(run_id);
    let tombstones = format!("{}/", layout.tombstones());
    let pointers = Objects::new(store).list(&format!("{}/", layout.run()), None)?;
    let times = pointers.iter().filter(|object| !object.path.starts_with(&tombstones)).map(|object| object.modified_unix_ms);
    Ok(times.max().unwrap_or_default())
}

/// Returns the failure of a run that may still be written to. The command that began it is not known, and only a run in a cluster can
/// be cancelled.
fn unfinished(run: &VerifiedRun) -> Failure {
    let run_id = &run.chain.run_id;
    Failure::new(ErrorCode::RunUnfinished, format!("the run `{run_id}` has not ended, and was written to within the last day"))
        .hint("after a day without a change it can be removed; if it runs in a cluster, `assay cancel` ends it")
}

/// Refuses to remove results that a verdict judged, or that a noise file was learned from.
fn check_not_needed(store: &Store, run: &VerifiedRun, all: &References) -> Result<(), Failure> {
    let Some((summary, _)) = run.chain.all::<Summary>().next() else { return Ok(()) };
    let run_id = &run.chain.run_id;
    let needed = |by: String| {
        Failure::new(ErrorCode::RunNeeded, format!("the results of run `{run_id}` are needed: {by}"))
            .hint("`--evidence-only` removes the raw evidence and keeps what it needs")
    };
    if let Some(verdict) = all.verdicts.iter().find(|verdict| verdict.summaries.contains(&summary.manifest)) {
        return Err(needed(format!("the verdict `{}` judged them", verdict.path)));
    }
    let mut seen = BTreeSet::new();
    let hex = summary.manifest.hex();
    for other in all.runs.iter().filter(|other| other.run_id != *run_id) {
        for (digest, path) in source_files(store, &other.run_id)? {
            if seen.insert(digest) && mentions(store, &digest, &hex)? {
                return Err(needed(format!("`{path}` of run `{}` was learned from them", other.run_id)));
            }
        }
    }
    // Other documents are learned from nothing: results of another tool may name the run that they were exported from.
    for verdict in all.verdicts.iter().filter(|document| document.kind == Kind::Verdict) {
        for file in &verdict.files {
            if seen.insert(file.digest) && mentions(store, &file.digest, &hex)? {
                return Err(needed(format!("`{}` of the verdict `{}` was learned from them", file.name, verdict.path)));
            }
        }
    }
    Ok(())
}

/// Returns the YAML files of a run's Source, with their paths.
fn source_files(store: &Store, run_id: &RunId) -> Result<Vec<(Digest, String)>, Failure> {
    let Some(Document::Source(source)) = crate::list::read_document(store, &Layout::for_run(run_id).source(), run_id)? else {
        return Ok(Vec::new());
    };
    let is_definition = |path: &str| std::path::Path::new(path).extension().is_some_and(|ext| ext == "yaml" || ext == "yml");
    let files = source.body.files.into_iter().filter(|file| is_definition(&file.path));
    Ok(files.map(|file| (file.artifact.digest, file.path)).collect())
}

/// Returns true if a file names a digest. A file that is absent or too large names none.
fn mentions(store: &Store, file: &Digest, hex: &str) -> Result<bool, Failure> {
    match store.get(file, MAX_REFERRING_BYTES) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).contains(hex)),
        Err(assay_store::Error::Absent { .. } | assay_store::Error::TooLarge { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The files of a store that nothing needs any more.
#[derive(Debug)]
pub struct Garbage {
    /// Blobs that no run and no verdict names, with their sizes.
    pub blobs: Vec<(Digest, u64)>,
    /// Blobs that none names yet, and that are younger than [`GRACE`]: a run may be about to name them.
    pub young: BlobSum,
    /// Objects that were never completed.
    pub staged: Vec<Object>,
    /// Scratch folders of processes that have ended.
    pub scratch: Vec<OldScratch>,
    before_unix_ms: i64,
}

impl Garbage {
    /// Finds it. The blobs are listed after what names them was read, so a blob that a run names meanwhile is young.
    ///
    /// # Errors
    /// Fails if a run or verdict cannot be read, with `pointer_elsewhere` or `verdict_misplaced` if a pointer leads to a manifest that
    /// does not belong there, and with `store_incomplete` if the store has results to which no pointer leads: a folder of pointers
    /// that is not mounted looks like one that was never there.
    pub fn find(store: &Store) -> Result<Self, Failure> {
        let removal = Removal::open(store)?;
        let now = now_unix_ms();
        let before_unix_ms = now - grace_ms();
        // Before the pointers are read, so that a link is named, and not what it leads to.
        check_pointers(&removal)?;
        let references = References::read(store)?;
        check_places(&references.runs, &references.verdicts)?;
        check_shown(store, &references.runs)?;
        let named = references.digests();
        let (mut blobs, mut settled, mut young) = (Vec::new(), Vec::new(), BlobSum::default());
        Objects::new(store).for_each(|object| match ObjectPath::parse(&object.path) {
            Ok(ObjectPath::Blob(digest)) if !named.contains(&digest) => {
                if object.modified_unix_ms < now - SETTLED_MS {
                    settled.push(digest);
                }
                if object.modified_unix_ms < before_unix_ms {
                    blobs.push((digest, object.size));
                } else {
                    young.add(object.size);
                }
            }
            _ => {}
        })?;
        blobs.sort_unstable();
        settled.sort_unstable();
        check_manifests(store, &settled)?;
        if named.is_empty() && !blobs.is_empty() {
            return Err(empty_store(store));
        }
        let (staged, mut scratch) = (removal.list_stale(before_unix_ms)?, OldScratch::list(before_unix_ms));
        // A run that is driven holds its lock; the folder of a killed one stays until the run is resumed, which may be never.
        let (folders, locks) = (removal.root().join("scratch"), removal.root().join("locks"));
        let is_left = |name: &str| name.parse::<RunId>().is_ok_and(|run| RunLock::take(&locks, &run).is_ok());
        scratch.extend(OldScratch::list_named(&folders, before_unix_ms, is_left));
        Ok(Self { blobs, young, staged, scratch, before_unix_ms })
    }

    /// Removes it. Returns the removed blobs; one that was put again meanwhile stays.
    pub fn remove(&self, store: &Store) -> Result<BlobSum, Failure> {
        let (removal, mut removed) = (Removal::open(store)?, BlobSum::default());
        for (digest, _) in &self.blobs {
            if let Some(bytes) = removal.remove_blob(digest, self.before_unix_ms)? {
                removed.add(bytes);
            }
        }
        removal.remove_stale(GRACE)?;
        // A folder that cannot be removed is in use again.
        self.scratch.iter().for_each(|folder| {
            let _ = folder.remove();
        });
        Ok(removed)
    }
}

/// The failure for a store that has old blobs, and neither runs nor verdicts.
fn empty_store(store: &Store) -> Failure {
    let message =
        format!("the store `{}` has blobs, but no run and no verdict, so it is not known which of them are needed", store.uri());
    Failure::new(ErrorCode::StoreIncomplete, message).hint(
        "restore or mount its folder `runs`; if the store never had a run, and nothing in it is needed, remove the folder of the store \
         by hand",
    )
}

fn grace_ms() -> i64 {
    i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX)
}

fn now_unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
