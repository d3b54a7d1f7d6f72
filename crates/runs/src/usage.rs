//! Usage: the bytes of a store, by run and by kind. Every file of the store's folder is counted once.

use std::collections::BTreeMap;

use assay_manifest::{BlobKind, Digest, RunId};
use assay_stage::{Failure, Layout};
use assay_store::{ObjectPath, Objects, Store};
use serde::Serialize;

use crate::removal::{BlobSum, References};

/// The bytes of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindUsage {
    /// The kind: one of [`BlobKind`], or `pointers`.
    pub kind: &'static str,
    /// The number of objects and their bytes.
    #[serde(flatten)]
    pub sum: BlobSum,
}

/// The bytes that one run alone has in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunUsage {
    /// The run.
    pub run_id: RunId,
    /// Its bytes in all: blobs that it alone names, and its pointers.
    pub bytes: u64,
    /// The bytes of blobs that it shares with others; they are counted in [`StoreUsage::shared`].
    pub shared_bytes: u64,
    /// Its own bytes by kind.
    pub kinds: Vec<KindUsage>,
}

/// The bytes of a store: the sum of its parts is the size of all files of its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreUsage {
    /// The bytes of all objects.
    pub bytes: u64,
    /// The runs, the largest first.
    pub runs: Vec<RunUsage>,
    /// Blobs that several runs or verdicts name, each counted once.
    pub shared: BlobSum,
    /// Blobs that verdicts, calibrations and foreign evidence name and no run does.
    pub verdicts: BlobSum,
    /// Blobs that nothing names.
    pub unnamed: BlobSum,
    /// The objects of the warehouse: data files, logs and checkpoints.
    pub warehouse: BlobSum,
    /// Objects that are not complete.
    pub staging: BlobSum,
    /// Pointers that belong to no run: marks of cases, times of drivers, receipts of hot metrics, verdicts, calibrations, foreign evidence, search results, ceilings.
    pub pointers: BlobSum,
    /// Files that lie in the folder beside the store, such as logs and published folders.
    pub beside: BlobSum,
}

/// The folders of pointers that belong to no run.
const POINTERS: [&str; 10] = [
    "cases",
    "fetched",
    Layout::FOREIGN,
    Layout::FOREIGN_VERDICTS,
    Layout::HOT_METRICS,
    Layout::TIMES,
    Layout::VERDICTS,
    Layout::CALIBRATIONS,
    Layout::CEILINGS,
    Layout::SEARCHES,
];

#[derive(Default)]
struct OwnUsage {
    kinds: BTreeMap<&'static str, BlobSum>,
    shared_bytes: u64,
}

impl StoreUsage {
    /// Adds up the objects of a store.
    ///
    /// # Errors
    /// Fails if a run or verdict cannot be read: then it is not known which blobs it names.
    pub fn read(store: &Store) -> Result<Self, Failure> {
        let all = References::read(store)?;
        let counts = all.counts();
        let owners = owners(&all, &counts);
        let mut own: BTreeMap<&RunId, OwnUsage> = all.runs.iter().map(|run| (&run.run_id, OwnUsage::default())).collect();
        let mut usage = Self::empty();
        let mut sizes: BTreeMap<Digest, u64> = BTreeMap::new();
        Objects::new(store).for_each(|object| {
            usage.bytes = usage.bytes.saturating_add(object.size);
            if let Ok(ObjectPath::Blob(digest)) = ObjectPath::parse(&object.path) {
                match (owners.get(&digest), counts.get(&digest)) {
                    (Some((run, kind)), _) => own.entry(*run).or_default().add(kind.as_str(), object.size),
                    (None, None) => usage.unnamed.add(object.size),
                    (None, Some(1)) => usage.verdicts.add(object.size),
                    (None, Some(_)) => {
                        usage.shared.add(object.size);
                        sizes.insert(digest, object.size);
                    }
                }
                return;
            }
            match object.path.split('/').collect::<Vec<_>>().as_slice() {
                ["runs", run, _, ..] => match run.parse::<RunId>().ok().and_then(|run| own.get_mut(&run)) {
                    Some(own) => own.add("pointers", object.size),
                    None => usage.beside.add(object.size),
                },
                ["warehouse", ..] => usage.warehouse.add(object.size),
                ["staging", ..] => usage.staging.add(object.size),
                [first, _, ..] if POINTERS.contains(first) => usage.pointers.add(object.size),
                _ => usage.beside.add(object.size),
            }
        })?;
        for run in &all.runs {
            let shared = run.blobs.keys().filter_map(|digest| sizes.get(digest)).sum();
            own.entry(&run.run_id).or_default().shared_bytes = shared;
        }
        usage.runs = own.into_iter().map(|(run_id, own)| own.into_usage(run_id)).collect();
        usage.runs.sort_by_key(|run| std::cmp::Reverse(run.bytes));
        Ok(usage)
    }

    fn empty() -> Self {
        let none = BlobSum::default();
        Self {
            bytes: 0,
            runs: Vec::new(),
            shared: none,
            verdicts: none,
            unnamed: none,
            warehouse: none,
            staging: none,
            pointers: none,
            beside: none,
        }
    }
}

/// Returns the run and kind of each blob that one run names, and nothing else does.
fn owners<'a>(all: &'a References, counts: &BTreeMap<Digest, u64>) -> BTreeMap<Digest, (&'a RunId, BlobKind)> {
    let named = all.runs.iter().flat_map(|run| run.blobs.iter().map(move |(digest, blob)| (*digest, (&run.run_id, blob.kind))));
    named.filter(|(digest, _)| counts.get(digest) == Some(&1)).collect()
}

impl OwnUsage {
    fn add(&mut self, kind: &'static str, bytes: u64) {
        self.kinds.entry(kind).or_default().add(bytes);
    }

    fn into_usage(self, run_id: &RunId) -> RunUsage {
        let bytes = self.kinds.values().map(|sum| sum.bytes).sum();
        let kinds = self.kinds.into_iter().map(|(kind, sum)| KindUsage { kind, sum }).collect();
        RunUsage { run_id: run_id.clone(), bytes, shared_bytes: self.shared_bytes, kinds }
    }
}
