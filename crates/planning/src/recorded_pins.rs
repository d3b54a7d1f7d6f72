//! The pins that a signed Plan records, and the check that a Plan follows from its Source and these pins.

use std::collections::{BTreeMap, BTreeSet};

use assay_failure::{ErrorCode, Exit, Failure};
use assay_manifest::{Artifact, Dataset, Digest, Image, Name, PinnedFile, PinnedSearch, Plan, QueryPack, RunId, UnpinnedInput};

use crate::packs::unknown_pack;
use crate::{DatasetFile, DatasetRequest, DerivedPlan, Pins, SourceFiles, TokenizerSource, derive_plan};

/// The values of mutable references that a signed Plan records. The Source does not hold them.
#[derive(Clone, Debug)]
pub struct RecordedPins<'a> {
    images: BTreeMap<&'a str, Option<Digest>>,
    scripts: BTreeMap<(&'a Name, &'a str), &'a Artifact>,
    reasons: BTreeMap<&'a str, &'a str>,
    datasets: BTreeMap<&'a Name, &'a Dataset>,
    searches: BTreeMap<&'a Name, &'a PinnedSearch>,
    tokenizer: Option<(&'a str, Digest)>,
    template_tokens: BTreeMap<&'a Name, u32>,
    packs: BTreeMap<(&'a Name, &'a Name), &'a QueryPack>,
    asked: BTreeSet<String>,
    unpinned: Vec<UnpinnedInput>,
}

impl<'a> RecordedPins<'a> {
    /// Takes the pins of a Plan.
    pub fn from_plan(plan: &'a Plan) -> Self {
        let images = plan.workloads.iter().filter_map(|workload| workload.image.as_ref());
        let images = images.chain(plan.targets.iter().filter_map(|target| target.image.as_ref()));
        let scripts = plan.workloads.iter().filter_map(|workload| {
            let script = workload.indicator.as_ref()?.script.as_ref()?;
            Some(((&workload.name, script.origin.as_str()), &script.artifact))
        });
        let datasets =
            plan.workloads.iter().filter_map(|workload| Some((&workload.name, workload.serving.as_ref()?.prompts.dataset()?)));
        let tokenizers = plan.workloads.iter().filter_map(|workload| Some(&workload.serving.as_ref()?.tokenizer));
        let template_tokens = plan.workloads.iter().filter_map(|workload| {
            let template = workload.serving.as_ref()?.tokenizer.template.as_ref()?;
            Some((&workload.name, template.tokens))
        });
        let searches = plan.workloads.iter().filter_map(|workload| Some((&workload.name, workload.search.as_ref()?)));
        let packs =
            plan.prometheus_sources().flat_map(|(name, source)| source.packs.iter().map(move |pack| ((name, &pack.name), pack)));
        let packs = packs.filter(|(_, pack)| pack.file.is_none());
        let mut built_in = tokenizers.filter(|tokenizer| tokenizer.file.is_none());
        Self {
            tokenizer: built_in.next().map(|tokenizer| (tokenizer.name.as_str(), tokenizer.digest)),
            template_tokens: template_tokens.collect(),
            packs: packs.collect(),
            datasets: datasets.collect(),
            searches: searches.collect(),
            images: images.map(|image| (image.reference.as_str(), image.digest)).collect(),
            scripts: scripts.collect(),
            reasons: plan.unpinned.iter().map(|unpinned| (unpinned.what.as_str(), unpinned.reason.as_str())).collect(),
            asked: BTreeSet::new(),
            unpinned: Vec::new(),
        }
    }

    /// Records an unpinned input; only the plan stage states its reason.
    fn record_unpinned(&mut self, what: &str) {
        let reason = self.reasons.get(what).copied().unwrap_or_default().to_owned();
        self.unpinned.push(UnpinnedInput { what: what.to_owned(), reason });
    }
}

impl Pins for RecordedPins<'_> {
    fn script(&mut self, workload: &Name, url: &str) -> Result<Option<PinnedFile>, Failure> {
        let Some(recorded) = self.scripts.get(&(workload, url)) else {
            self.record_unpinned(url);
            return Ok(None);
        };
        let artifact = Artifact {
            name: format!("workloads/{workload}/files/script"),
            media_type: "application/octet-stream".to_owned(),
            ..(*recorded).clone()
        };
        Ok(Some(PinnedFile { path: "script".to_owned(), origin: url.to_owned(), executable: true, artifact }))
    }

    fn image(&mut self, reference: &str) -> Result<Image, Failure> {
        // A reference with a digest pins itself.
        let own = reference.rsplit_once('@').and_then(|(_, digest)| digest.parse().ok());
        let digest = own.or(self.images.get(reference).copied().flatten());
        // Each reference is resolved once.
        if self.asked.insert(reference.to_owned()) && digest.is_none() {
            self.record_unpinned(reference);
        }
        Ok(Image { reference: reference.to_owned(), digest })
    }

    /// Returns the recorded pack: its queries are those of the Assay that planned.
    fn query_pack(&mut self, source: &Name, pack: &Name) -> Result<QueryPack, Failure> {
        self.packs.get(&(source, pack)).map(|recorded| (*recorded).clone()).ok_or_else(|| unknown_pack(pack))
    }

    /// Only the plan stage states the built-in tokenizer, one for all workloads.
    fn built_in_tokenizer(&mut self) -> (String, Digest) {
        self.tokenizer.map_or_else(|| (String::new(), Digest::compute(b"")), |(name, digest)| (name.to_owned(), digest))
    }

    /// Returns the recorded import. Its file is that of the Source, or the recorded one of the address; the numbers of the import and the
    /// artifacts are only the plan stage's to state.
    fn dataset(&mut self, request: &DatasetRequest<'_>) -> Result<Option<Dataset>, Failure> {
        let recorded = self.datasets.get(request.workload).copied();
        let file = match (request.file, recorded) {
            (DatasetFile::InSource { file, .. }, _) => file.clone(),
            (DatasetFile::Url(url), Some(recorded)) => PinnedFile { origin: url.to_owned(), ..recorded.file.clone() },
            (DatasetFile::Url(url), None) => {
                self.record_unpinned(url);
                return Ok(None);
            }
        };
        Ok(recorded.map(|recorded| Dataset {
            file,
            format: request.format,
            max_output_tokens: request.max_output_tokens,
            ..recorded.clone()
        }))
    }

    /// Accepts every file: execute has read it since, and refuses a template that has other tokens than the plan stage counted.
    fn check_tokenizer(&mut self, tokenizer: &TokenizerSource<'_>) -> Result<u32, Failure> {
        Ok(self.template_tokens.get(tokenizer.workload).copied().unwrap_or(0))
    }

    /// Returns the recorded artifacts, with the digest that the workload names. The store that they are from is not known here.
    fn search_result(&mut self, workload: &Name, digest: &Digest) -> Result<PinnedSearch, Failure> {
        let message = format!("the plan does not pin the search result {} of workload `{workload}`", digest.short());
        let recorded = self.searches.get(workload).ok_or_else(|| Failure::new(ErrorCode::SearchResult, message))?;
        let [manifest, bundle] = PinnedSearch::names(workload).map(|name| (name, PinnedSearch::MEDIA_TYPE.to_owned()));
        Ok(PinnedSearch {
            manifest: Artifact { name: manifest.0, media_type: manifest.1, digest: *digest, ..recorded.manifest.clone() },
            bundle: Artifact { name: bundle.0, media_type: bundle.1, ..recorded.bundle.clone() },
        })
    }

    fn leave_unpinned(&mut self, image: &str, reason: String) {
        if !self.unpinned.iter().any(|unpinned| unpinned.what == image) {
            self.unpinned.push(UnpinnedInput { what: image.to_owned(), reason });
        }
    }

    fn take_unpinned(&mut self) -> Vec<UnpinnedInput> {
        std::mem::take(&mut self.unpinned)
    }
}

/// Checks that a Plan follows from its Source's files, with the pins that it records and in the order of its run.
pub fn check_plan(files: &SourceFiles<'_>, run_id: &RunId, plan: &Plan) -> Result<(), Failure> {
    // The files are signed and proved to be the commit's: an error of planning from them is an error of verification.
    let as_verification = |failure: Failure| Failure { exit: Exit::Verification, ..failure };
    let closure = files.closure().map_err(as_verification)?;
    let DerivedPlan { plan: expected, .. } =
        derive_plan(files, &closure, run_id, &mut RecordedPins::from_plan(plan)).map_err(as_verification)?;
    if *plan == expected {
        return Ok(());
    }
    let member = differing_member(plan, &expected).unwrap_or_else(|| "body".to_owned());
    let message = format!("the plan does not follow from the source: its `{member}` is not what the source's files give");
    Err(Failure::new(ErrorCode::PlanSourceDiffers, message).hint("an `assay` of another version may plan otherwise"))
}

/// Returns the first member in which two Plans differ.
fn differing_member(plan: &Plan, expected: &Plan) -> Option<String> {
    let (plan, expected) = (serde_json::to_value(plan).ok()?, serde_json::to_value(expected).ok()?);
    let (plan, expected) = (plan.as_object()?, expected.as_object()?);
    let mut names = plan.keys().chain(expected.keys());
    names.find(|name| plan.get(*name) != expected.get(*name)).cloned()
}
