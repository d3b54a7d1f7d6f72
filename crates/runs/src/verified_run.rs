//! A verified run: from a store by its name, or from a published folder.

use std::collections::BTreeMap;
use std::path::Path;

use assay_envelope::{Trust, Verified};
use assay_manifest::{Collection, Document, Environment, MAX_MANIFEST_BYTES, Plan, Publication, RunId, Summary, Views};
use assay_report::{ChainSignature, Inputs, Report, WhyWorse, shell_word};
use assay_runner::{Config, default_store, user_store};
use assay_stage::{AcceptedResult, ErrorCode, Exit, Failure, Layout, first_names};
use assay_store::Store;
use assay_verify::{
    Blobs, Chain, FolderBlobs, Head, Removals, StoreBlobs, VerifiedTombstone, check_pointers, head_of_folder, head_of_run,
    read_removals, walk,
};

use crate::files::read_regular_file;
use crate::list::explain_link;
use crate::trust::{establish, keys_beside_run, keys_in_folder, trust_no_signer};

/// The path of the Publication in a published folder.
const PUBLICATION: &str = "chain/publication.json";

/// The largest Publication that is read for a hint, in bytes. The hint is of use to a person who named a folder without a slash; a
/// folder of the same name may hold anything, and parsing hundreds of megabytes of it would be a high price for a hint.
const MAX_HINT_BYTES: u64 = 1 << 20;

/// The largest frozen workload and the largest query, in bytes.
const MAX_SPEC_BYTES: u64 = 16 << 20;

/// A store of runs, with the trust root that they are verified under.
#[derive(Clone, Debug)]
pub struct RunStore {
    /// The URI of the store; without it, `.assay` of the repository.
    pub store: Option<String>,
    /// A TrustPolicy file, or fingerprints; without any, the configured root.
    pub trust: Vec<String>,
}

/// A run whose chain has been verified.
pub struct VerifiedRun {
    /// Its manifests.
    pub chain: Chain,
    /// The references that the walk began at.
    pub head: Head,
    /// Its artifacts, by digest.
    pub blobs: Box<dyn Blobs>,
    /// The removals of its evidence: none for a published folder, whose files are all there.
    pub removals: Removals,
    /// Files of a published folder that do not belong to the run.
    pub strangers: Vec<String>,
    /// The trust that its signatures were verified under.
    pub trust: Trust,
    /// The source of the trust.
    pub trusted_by: String,
    /// The URI of its store; `None` if it is a published folder.
    pub store: Option<String>,
    /// The published folder, as it was named.
    pub folder: Option<String>,
}

impl VerifiedRun {
    /// Returns the Summary.
    ///
    /// # Errors
    /// Fails with `no_summary` if the run has none yet.
    pub fn summary(&self) -> Result<&Summary, Failure> {
        self.chain.one::<Summary>().map(|summary| &summary.body).ok_or_else(|| self.no_summary())
    }

    /// Returns the failure of a run that has no Summary yet.
    pub fn no_summary(&self) -> Failure {
        Failure::new(ErrorCode::NoSummary, format!("run `{}` has no Summary yet", self.chain.run_id))
    }
}

/// Returns where the published folders are, for a folder that is none: the user may have named the repository, or a folder of
/// several runs.
fn published_hint(folder: &Path) -> String {
    const NAMED: usize = 3;
    let places = [folder.join(".assay/published"), folder.join("published"), folder.to_owned()];
    for place in &places {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten().take(1000);
        let mut runs: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.join(PUBLICATION).is_file()).collect();
        runs.sort();
        if !runs.is_empty() {
            let names: Vec<_> = runs.iter().map(|path| format!("`{}`", path.display())).collect();
            return format!("name the folder of one published run: {}", first_names(&names, NAMED));
        }
    }
    "name the folder of one published run; `assay runs` lists the runs of a store, which are named without a path".to_owned()
}

impl RunStore {
    /// Returns the store's URI.
    pub fn store_uri(&self) -> Result<String, Failure> {
        Ok(self.store.clone().map_or_else(default_store, Ok)?)
    }

    /// Opens the store; see [`open_store`].
    pub fn open_store(&self) -> Result<Store, Failure> {
        open_store(self.store.as_deref())
    }

    /// Opens a run of the store. If the configured root does not know its signers, the run is opened with its signers not
    /// established.
    pub fn open_or_unestablished(&self, run_id: &RunId) -> Result<VerifiedRun, Failure> {
        match self.open(run_id.as_str()) {
            Err(failure) if failure.code == ErrorCode::UnknownKey && self.trust.is_empty() => self.open_unestablished(run_id),
            opened => opened,
        }
    }

    /// Opens a run of unknown signers: it is internally consistent, and no more is known.
    pub fn open_unestablished(&self, run_id: &RunId) -> Result<VerifiedRun, Failure> {
        let uri = self.store_uri()?;
        let store = self.open_store()?;
        let head = head_of_run(&store, run_id)?;
        let blobs = StoreBlobs::new(store);
        let trust = trust_no_signer(&keys_beside_run(&blobs, &head)?);
        let chain = walk(&blobs, &head, &trust)?;
        check_pointers(blobs.store(), &chain)?;
        let removals = read_removals(&blobs, &chain, &trust)?;
        let trusted_by = "no signer is established".to_owned();
        let (blobs, strangers) = (Box::new(blobs), Vec::new());
        Ok(VerifiedRun { chain, head, blobs, removals, strangers, trust, trusted_by, store: Some(uri), folder: None })
    }

    /// Finds a run by its name, or by the folder that it was published to, and verifies its chain.
    pub fn open(&self, name: &str) -> Result<VerifiedRun, Failure> {
        // A folder has to be named with a slash, so that a folder that happens to have a run's name is never taken for that run.
        let is_path = name.contains('/') || name == "." || name == "..";
        if is_path && Path::new(name).is_dir() {
            return self.open_folder(name);
        }
        let run_id: RunId = name.parse().map_err(|error| {
            Failure::new(ErrorCode::NoSuchRun, format!("`{name}` is neither a folder nor the name of a run"))
                .because(&error)
                .hint("a published folder is named with a `/`, such as `./folder`")
        })?;
        self.open_in_store(&run_id).map_err(|failure| match published_run(Path::new(name), MAX_HINT_BYTES) {
            Some(_) if failure.exit == Exit::Usage => {
                failure.hint(format!("the folder `./{name}` holds a published run: name it with a `/`, `assay verify ./{name}`"))
            }
            _ if failure.code == ErrorCode::NoSuchRun => self.hint_at_evidence(&run_id, failure),
            _ => failure,
        })
    }

    /// Adds the digest of the foreign evidence of this name, if there is some: it has a name, and is found by its digest.
    fn hint_at_evidence(&self, name: &RunId, failure: Failure) -> Failure {
        let pointer = |store: Store| AcceptedResult::read(&store, &Layout::foreign_evidence(name)).ok().flatten();
        match self.open_store().ok().and_then(pointer) {
            Some(evidence) => {
                failure.hint(format!("it is the name of foreign evidence, which is found by its digest: {}", evidence.manifest))
            }
            None => failure,
        }
    }

    /// Finds a run by its name, in the working folder if that is the run's published folder: the recipient of a folder works
    /// inside it.
    pub fn open_here_or_in_store(&self, run_id: &RunId) -> Result<VerifiedRun, Failure> {
        // The variable names a store for all commands, so it does not rule out the folder that this command runs in.
        let names_store = self.store.is_some() && self.store != std::env::var("ASSAY_STORE").ok();
        if !names_store && published_run(Path::new("."), MAX_MANIFEST_BYTES).as_ref() == Some(run_id) {
            return self.open_folder(".");
        }
        self.open(run_id.as_str())
    }

    /// Finds the run that a published folder holds, and verifies its chain.
    pub fn open_folder(&self, name: &str) -> Result<VerifiedRun, Failure> {
        let path = Path::new(name);
        // Checked before any hashing: a folder further up may hold a whole disk.
        let is_plain = |found: std::fs::Metadata| found.is_file();
        if !path.join(PUBLICATION).symlink_metadata().is_ok_and(is_plain) {
            let message = format!("`{name}` is not the folder of a published run: it holds no manifest at `{PUBLICATION}`");
            return Err(Failure::new(ErrorCode::NotAPublication, message).hint(published_hint(path)));
        }
        let config = Config::find()?;
        let blobs = FolderBlobs::open(path)?;
        let established = establish(&self.trust, &config, &blobs, &keys_in_folder(&blobs)?)?;
        let head = head_of_folder(&blobs)?;
        let chain = walk(&blobs, &head, &established.trust)?;
        let strangers = blobs.check_files(&chain.published_files(), &chain.recorded_sizes())?;
        Ok(VerifiedRun {
            chain,
            head,
            blobs: Box::new(blobs),
            removals: Removals::default(),
            strangers,
            trust: established.trust,
            trusted_by: established.source,
            store: None,
            folder: Some(name.to_owned()),
        })
    }

    fn open_in_store(&self, run_id: &RunId) -> Result<VerifiedRun, Failure> {
        self.open_in(self.open_store()?, run_id)
    }

    /// Finds a run by its name in this store, which is open already, and verifies its chain.
    pub fn open_in(&self, store: Store, run_id: &RunId) -> Result<VerifiedRun, Failure> {
        let config = Config::find()?;
        let uri = self.store_uri()?;
        self.verify_in_store(store.clone(), uri, &config, run_id).map_err(|failure| explain_link(failure, &store, run_id))
    }

    fn verify_in_store(&self, store: Store, uri: String, config: &Config, run_id: &RunId) -> Result<VerifiedRun, Failure> {
        let head = head_of_run(&store, run_id)?;
        let blobs = StoreBlobs::new(store);
        let established = establish(&self.trust, config, &blobs, &keys_beside_run(&blobs, &head)?)?;
        let chain = walk(&blobs, &head, &established.trust)?;
        check_pointers(blobs.store(), &chain)?;
        let removals = read_removals(&blobs, &chain, &established.trust)?;
        let (trust, trusted_by) = (established.trust, established.source);
        let (blobs, strangers) = (Box::new(blobs), Vec::new());
        Ok(VerifiedRun { chain, head, blobs, removals, strangers, trust, trusted_by, store: Some(uri), folder: None })
    }
}

/// Returns the run whose Publication lies in a folder, unverified; `None` if the folder holds no such manifest of at most `limit`
/// bytes.
fn published_run(folder: &Path, limit: u64) -> Option<RunId> {
    let bytes = read_regular_file(&folder.join(PUBLICATION), limit).ok().filter(|bytes| bytes.len() as u64 <= limit)?;
    match Document::parse(&bytes).ok()? {
        Document::Publication(publication) => Some(publication.header.run_id),
        _ => None,
    }
}

/// Opens the store that a command names, or else the default store. If there is no default store, and this user has runs that were begun
/// outside of a repository, the failure names their store.
pub fn open_store(named: Option<&str>) -> Result<Store, Failure> {
    let uri = named.map_or_else(default_store, |uri| Ok(uri.to_owned()))?;
    Store::open_existing(&uri).map_err(|error| {
        let failure = Failure::from(error);
        let is_absent = named.is_none() && failure.code == ErrorCode::StoreUri;
        let other = user_store().ok().filter(|other| is_absent && *other != uri && Path::new(other).join("runs").is_dir());
        match other {
            Some(other) => {
                failure.hint(format!("runs that were begun outside of a repository are in `{other}`: name it with `--store`"))
            }
            None => failure,
        }
    })
}

/// Returns the store's name if commands need it; `None` if it is the default store.
pub fn named_store(uri: &str) -> Option<&str> {
    Some(uri).filter(|uri| default_store().ok().as_deref() != Some(*uri))
}

/// Returns the option by which a command line names a store; empty if it is the default store.
pub fn store_option(uri: &str) -> String {
    named_store(uri).map(|uri| format!(" --store {}", shell_word(uri))).unwrap_or_default()
}

impl VerifiedRun {
    /// Returns the report of a published run, which names `command` as its verifier; `None` if the run is not published.
    pub fn report(&self, command: &str) -> Result<Option<Report>, Failure> {
        let chain = &self.chain;
        let (Some(plan), Some(collection), Some(summary), Some(publication)) =
            (chain.one::<Plan>(), chain.one::<Collection>(), chain.one::<Summary>(), chain.one::<Publication>())
        else {
            return Ok(None);
        };
        let mut environments: Vec<_> = chain.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        environments.sort_by_key(|environment| environment.block);
        let policy = match &self.trust {
            // The reader's own policy, which may differ from the published one.
            Trust::Policy(policy) => policy.digest.map(|digest| (policy.name.clone(), digest)),
            Trust::None { .. } => None,
        };
        let views = self.views(&summary.body)?;
        let report = Report::build(&Inputs {
            run_id: &chain.run_id,
            plan: &plan.body,
            environments: &environments,
            collection: &collection.body,
            summary: &summary.body,
            views: views.as_ref(),
            verified: Some(assay_report::Verification { level: "1 (chain)".to_owned(), verifier: command.to_owned() }),
            grade: &publication.body.grade,
            runs: &publication.body.runs,
            signers: &chain.documents.iter().map(describe_signature).collect::<Vec<_>>(),
            trust_policy: policy,
            workload_specs: self.workload_specs(&plan.body)?,
            queries: &publication.body.queries,
            query_texts: self.query_texts(&plan.body)?,
            why_worse: self.why_worse(&plan.body, &summary.body)?,
            warehouse_snapshot: &publication.body.warehouse_snapshot,
        });
        let removals: Vec<_> = self.removals.tombstones.iter().map(VerifiedTombstone::describe).collect();
        let report = report.with_removals(&removals);
        Ok(Some(match (&self.store, &self.folder) {
            (Some(uri), _) => report.in_store(named_store(uri)),
            (None, Some(folder)) => report.in_folder(folder),
            (None, None) => report,
        }))
    }

    /// Returns why the candidate of the run's own comparison is worse; `None` if the rows that say so are not available.
    fn why_worse(&self, plan: &Plan, summary: &Summary) -> Result<Option<WhyWorse>, Failure> {
        match assay_verify::why_worse(self.blobs.as_ref(), plan, summary) {
            Err(assay_verify::Error::NoArtifact { .. } | assay_verify::Error::NoFile { .. }) => Ok(None),
            found => Ok(found?),
        }
    }

    /// Returns the data of the serving charts; `None` if it is not available.
    fn views(&self, summary: &Summary) -> Result<Option<Views>, Failure> {
        let Some(artifact) = &summary.views else { return Ok(None) };
        let Some(bytes) = self.blobs.get(&artifact.digest, Views::MAX_BYTES)? else { return Ok(None) };
        let views = Views::parse(&bytes)
            .map_err(|error| Failure::new(ErrorCode::Views, "the summary's views are damaged").because(&error))?;
        Ok(Some(views))
    }

    fn query_texts(&self, plan: &Plan) -> Result<BTreeMap<String, String>, Failure> {
        let mut texts = BTreeMap::new();
        for query in &plan.queries {
            let Some(bytes) = self.blobs.get(&query.artifact.digest, MAX_SPEC_BYTES)? else { continue };
            texts.insert(query.path.clone(), String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(texts)
    }

    fn workload_specs(&self, plan: &Plan) -> Result<BTreeMap<assay_manifest::Name, String>, Failure> {
        let mut specs = BTreeMap::new();
        for workload in &plan.workloads {
            let Some(bytes) = self.blobs.get(&workload.spec.digest, MAX_SPEC_BYTES)? else { continue };
            let readable =
                serde_json::from_slice::<serde_json::Value>(&bytes).and_then(|json| serde_json::to_string_pretty(&json));
            specs.insert(workload.name.clone(), readable.unwrap_or_default());
        }
        Ok(specs)
    }
}

fn describe_signature(verified: &Verified<Document>) -> ChainSignature {
    ChainSignature {
        stage: verified.value().kind().signer(),
        name: assay_stage::chain_name(verified.value()),
        signer: verified.signer().name.clone(),
        key_fingerprint: verified.signer().fingerprint.to_string(),
        manifest: verified.manifest_digest(),
        bundle: verified.bundle_digest(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_costs_no_more_than_its_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("chain")).expect("made");
        let publication = include_bytes!("../../../manifests/examples/v1alpha1/publication.json");
        std::fs::write(folder.path().join(PUBLICATION), publication).expect("written");
        let size = publication.len() as u64;
        assert!(size < MAX_HINT_BYTES, "a Publication is small");
        assert!(published_run(folder.path(), size).is_some());
        assert!(published_run(folder.path(), size - 1).is_none());
    }
}
