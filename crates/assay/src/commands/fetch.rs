//! `assay fetch`: copies a run from a remote store into a local one.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Artifact, Collection, Digest, Document, InputRef, MAX_MANIFEST_BYTES, Plan, Publication, RunId};
use assay_report::counted;
use assay_runner::default_store;
use assay_runs::{VerifiedRun, store_option};
use assay_stage::{AcceptedResult, ErrorCode, Exit, Failure, Layout, first_names};
use assay_store::{CreateOutcome, MAX_POINTER_BYTES, Scratch, Store};
use assay_verify::{StoreBlobs, fetched_from, read_evidence_list, try_map_in_threads};

use crate::commands::store_options::StoreOptions;
use crate::output;

/// The most bytes of one blob in transit.
const SCRATCH_BYTES: u64 = 64 << 30;

/// The number of objects that are copied at once. Each waits for the network and for a disk much longer than for a processor, and a
/// run of many shards has thousands of small ones.
const COPIES_AT_ONCE: usize = 16;

/// Copy a run and everything that it refers to, so that it can be shown, verified and resumed without its original store. The
/// run's chain is verified first, and every copied byte is checked.
#[derive(clap::Args)]
pub(crate) struct Fetch {
    /// The run's name
    #[arg(value_name = "RUN")]
    run: RunId,
    /// The store to copy it to [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI")]
    to: Option<String>,
    /// Do not copy raw evidence, only what level 2 of `assay verify` needs
    #[arg(long)]
    without_raw: bool,
    #[command(flatten)]
    place: StoreOptions,
}

/// Copies everything that a run of a cluster rests on. `called` is the name of the store that it is copied from, which is reached
/// by another address.
pub(crate) fn fetch(run: &RunId, from: StoreOptions, called: &str, to: &str) -> Result<(), Failure> {
    let fetch = Fetch { run: run.clone(), to: Some(to.to_owned()), without_raw: false, place: from };
    fetch.copy(Some(called)).map(drop)
}

impl Fetch {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let (to, copied, is_established) = self.copy(None)?;
        self.say(&to, &copied);
        Ok(if is_established { Exit::Done } else { Exit::Unestablished })
    }

    fn copy(&self, called: Option<&str>) -> Result<(Store, CopyResult, bool), Failure> {
        let from = self.place.runs().open_store()?;
        let to = self.to.clone().map_or_else(default_store, Ok)?;
        // Checked before the other store is opened, because opening tries to write to it.
        if from.uri() == to {
            return Err(same_store(&from));
        }
        let to = Store::open(&to)?;
        if from.uri() == to.uri() {
            return Err(same_store(&from));
        }
        let opened = self.place.runs().open_or_unestablished(&self.run)?;
        let wanted = CopyPlan::collect(&from, &opened, self.without_raw)?;
        check_same_run(&to, &wanted)?;
        let copied = copy_blobs(&from, &to, &wanted)?;
        mark_fetched(&from, called.unwrap_or(from.uri()), &to, &opened)?;
        copy_notes(&from, &to, &opened.chain.run_id)?;
        create_pointers(&to, &wanted)?;
        Ok((to, copied, opened.chain.is_established()))
    }

    fn say(&self, to: &Store, copied: &CopyResult) {
        let there = match copied.there {
            0 => String::new(),
            there => format!("; {} there already", counted(there, "blob")),
        };
        let raw = if self.without_raw { ", without the raw evidence" } else { "" };
        let size = copied.bytes as f64 / 1e6;
        output::line(format!("fetched  {}: {}, {size:.1} MB{there}{raw}", self.run, counted(copied.blobs, "blob")));
        output::line(format!("to       {}", to.uri()));
        let store = self.to.as_ref().map(|_| store_option(to.uri())).unwrap_or_default();
        output::line(format!("verify   assay verify {}{store}", self.run));
        output::line(format!("show     assay show {}{store}", self.run));
    }
}

fn same_store(from: &Store) -> Failure {
    Failure::new(ErrorCode::SameStore, format!("the run would be copied from `{}` to itself", from.uri()))
        .hint("`--store` says where it is, and `--to` where it shall be")
}

/// The parts of a run that are copied.
struct CopyPlan {
    /// Digests, each with its name if it has one.
    blobs: BTreeMap<Digest, String>,
    /// Pointers with their bytes.
    pointers: Vec<Pointer>,
    /// The pointer that makes it a run, and is created last.
    source: Option<Pointer>,
}

/// The path of a small object, and its bytes.
type Pointer = (String, Vec<u8>);

impl CopyPlan {
    fn collect(from: &Store, opened: &VerifiedRun, without_raw: bool) -> Result<Self, Failure> {
        let run_id = &opened.chain.run_id;
        let layout = Layout::for_run(run_id);
        let mut wanted = Self { blobs: BTreeMap::new(), pointers: Vec::new(), source: None };
        let mut seen = BTreeSet::new();
        for (path, bytes) in read_pointers(from, &layout.run())? {
            // Marks between shards are no documents; a document that names one also names all of its inputs.
            if let Ok(accepted) = AcceptedResult::parse(&path, &bytes) {
                wanted.document(from, run_id, accepted.manifest, accepted.bundle, without_raw, &mut seen)?;
            }
            if path == layout.source() {
                wanted.source = Some((path, bytes));
            } else {
                wanted.pointers.push((path, bytes));
            }
        }
        if let Some(plan) = opened.chain.one::<Plan>() {
            wanted.pointers.extend(plan.body.cases.iter().map(|case| (layout.case(&case.case_id), b"{}".to_vec())));
        }
        if let Some(publication) = opened.chain.one::<Publication>() {
            wanted.blobs.insert(publication.body.trust_policy, "the trust policy".to_owned());
        }
        if let Some(collection) = opened.chain.one::<Collection>().filter(|_| !without_raw) {
            let evidence = read_evidence_list(&StoreBlobs::new(from.clone()), &collection.body)?;
            wanted.artifacts(&evidence.unwrap_or_default());
        }
        // What was removed cannot be copied; its tombstone is.
        for artifact in opened.removals.tombstones.iter().flat_map(|tombstone| &tombstone.list) {
            if !from.contains(&artifact.digest)? {
                wanted.blobs.remove(&artifact.digest);
            }
        }
        Ok(wanted)
    }

    fn document(
        &mut self,
        from: &Store,
        run_id: &RunId,
        manifest: Digest,
        bundle: Digest,
        without_raw: bool,
        seen: &mut BTreeSet<Digest>,
    ) -> Result<(), Failure> {
        let mut pending = vec![(manifest, bundle)];
        while let Some((manifest, bundle)) = pending.pop() {
            if !seen.insert(manifest) {
                continue;
            }
            self.blobs.insert(manifest, "a manifest".to_owned());
            self.blobs.insert(bundle, "a bundle".to_owned());
            let bytes = from.get(&manifest, MAX_MANIFEST_BYTES)?;
            let document = Document::parse(&bytes)
                .map_err(|error| Failure::new(ErrorCode::Manifest, format!("{manifest} is not a manifest")).because(&error))?;
            // A baseline of another run was compared with this one: its manifest is copied, its evidence is not.
            if document.header().run_id != *run_id {
                continue;
            }
            if !(without_raw && is_raw(&document)) {
                let artifacts: Vec<_> = document.artifacts().into_iter().cloned().collect();
                self.artifacts(&artifacts);
            }
            pending.extend(document.header().inputs.iter().map(|InputRef { manifest, bundle, .. }| (*manifest, *bundle)));
        }
        Ok(())
    }

    fn artifacts(&mut self, artifacts: &[Artifact]) {
        for artifact in artifacts {
            self.blobs.entry(artifact.digest).or_insert_with(|| artifact.name.clone());
        }
    }
}

/// Records in the other store which store's tables hold the run's rows, before a pointer makes it a run there. A run that already
/// exists there is that store's own, as is one that is published later.
fn mark_fetched(from: &Store, called: &str, to: &Store, opened: &VerifiedRun) -> Result<(), Failure> {
    let layout = Layout::for_run(&opened.chain.run_id);
    let is_there = to.read(&layout.source(), MAX_POINTER_BYTES)?.is_some();
    if opened.chain.is_complete && !is_there {
        let origin = fetched_from(from, &opened.chain.run_id)?.unwrap_or_else(|| called.to_owned());
        to.create(&layout.fetched(), origin.as_bytes())?;
    }
    Ok(())
}

/// Copies where the drivers' time went, and the receipts of hot metrics. They are no evidence, so what is there already stays.
fn copy_notes(from: &Store, to: &Store, run_id: &RunId) -> Result<(), Failure> {
    let layout = Layout::for_run(run_id);
    for below in [layout.times(), layout.hot_metrics()] {
        for (path, bytes) in read_pointers(from, &below)? {
            to.create(&path, &bytes)?;
        }
    }
    Ok(())
}

/// Reads all pointers below a path.
fn read_pointers(from: &Store, below: &str) -> Result<Vec<Pointer>, Failure> {
    let read = |path: &String| from.read(path, MAX_POINTER_BYTES).map(|bytes| Some((path.clone(), bytes?)));
    let pointers = try_map_in_threads(COPIES_AT_ONCE, &from.list(below)?, read)?;
    Ok(pointers.into_iter().flatten().collect())
}

/// Creates the pointers of a run, the one that makes it a run after all others.
fn create_pointers(to: &Store, wanted: &CopyPlan) -> Result<(), Failure> {
    let create = |(path, bytes): &Pointer| match to.create(path, bytes)? {
        CreateOutcome::Existing { existing } if existing != *bytes => Err(other_run(to, path)),
        CreateOutcome::Existing { .. } | CreateOutcome::New => Ok(()),
    };
    try_map_in_threads(COPIES_AT_ONCE, &wanted.pointers, create)?;
    wanted.source.iter().try_for_each(create)
}

/// Returns true if a document lists raw evidence.
fn is_raw(document: &Document) -> bool {
    matches!(document, Document::ExecutionPart(_) | Document::Recording(_) | Document::Checkpoint(_))
}

/// Refuses a different run of the same name in the other store, before anything is copied.
fn check_same_run(to: &Store, wanted: &CopyPlan) -> Result<(), Failure> {
    for (path, bytes) in wanted.pointers.iter().chain(&wanted.source) {
        if to.read(path, MAX_POINTER_BYTES)?.is_some_and(|there| there != *bytes) {
            return Err(other_run(to, path));
        }
    }
    Ok(())
}

fn other_run(to: &Store, path: &str) -> Failure {
    let message = format!("the store `{}` has another run of this name: `{path}` is not the same in both", to.uri());
    Failure::new(ErrorCode::OtherRun, message).hint("copy it to a store of its own with `--to`")
}

#[derive(Default)]
struct CopyResult {
    blobs: u64,
    bytes: u64,
    there: u64,
}

fn copy_blobs(from: &Store, to: &Store, wanted: &CopyPlan) -> Result<CopyResult, Failure> {
    let scratch = Scratch::new(SCRATCH_BYTES)?;
    let blobs: Vec<_> = wanted.blobs.iter().collect();
    let copy = |(digest, name): &(&Digest, &String)| copy_blob(from, to, digest, name, &scratch);
    let copies = try_map_in_threads(COPIES_AT_ONCE, &blobs, copy)?;
    let (mut copied, mut absent) = (CopyResult::default(), Vec::new());
    for ((digest, name), copy) in blobs.into_iter().zip(copies) {
        match copy {
            CopiedBlob::Present => copied.there += 1,
            CopiedBlob::Copied(bytes) => {
                copied.blobs += 1;
                copied.bytes += bytes;
            }
            CopiedBlob::Absent => absent.push(format!("`{name}` ({digest})")),
        }
    }
    if absent.is_empty() {
        return Ok(copied);
    }
    let message = format!("the store `{}` has no {}", from.uri(), first_names(&absent, 1));
    Err(Failure::new(ErrorCode::ArtifactAbsent, message)
        .hint("raw evidence may have been kept elsewhere: --without-raw copies the rest"))
}

/// The outcome of a blob's copy.
enum CopiedBlob {
    /// The other store had it.
    Present,
    /// It was copied, with its size in bytes.
    Copied(u64),
    /// The store that it is copied from does not have it.
    Absent,
}

fn copy_blob(from: &Store, to: &Store, digest: &Digest, name: &str, scratch: &Scratch) -> Result<CopiedBlob, Failure> {
    // A damaged blob of the other store is replaced.
    if matches!(to.check(digest), Ok(Some(_))) {
        return Ok(CopiedBlob::Present);
    }
    match from.materialise(digest, scratch) {
        Ok(file) => {
            to.put_file(file.path(), scratch)?;
            Ok(CopiedBlob::Copied(file.size()))
        }
        Err(assay_store::Error::Absent { .. }) => Ok(CopiedBlob::Absent),
        Err(error) => {
            let (failure, from) = (Failure::from(error), from.uri());
            Err(Failure { message: format!("`{name}` in the store `{from}`: {}", failure.message), ..failure })
        }
    }
}
