//! The search results of a store: signed, created under their first round, found by digest, and verified by the runs of their rounds.

use assay_envelope::Trust;
use assay_manifest::{
    Artifact, Body as _, Count, Digest, Document, InputRef, Instant, Kind, MAX_MANIFEST_BYTES, Manifest, Plan, Publication, Role,
    RunId, SearchObservation, SearchResult, SearchRound, SearchedWork, Shard, Slo, Summary, Target, canonical_value,
};
use assay_report::searched_observation;
use assay_runner::KeyRing;
use assay_search::{Load, Observation, Rule, SearchConclusion, Step, conclude, load_of, question, replay};
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout, Seal, binary_digest, seal};
use assay_store::{CreateOutcome, Store};
use assay_verify::{Blobs, load_alone};
use serde_json::{Value, json};

use crate::verified_run::{RunStore, VerifiedRun};

/// The largest public key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The largest frozen workload, in bytes.
const MAX_SPEC_BYTES: u64 = 16 << 20;

/// The members of a frozen workload that differ from round to round: the loads with all that belongs to them, and the seed.
const OF_A_ROUND: [&str; 2] = ["load", "seed"];

/// A search result that verifies.
#[derive(Clone, Debug)]
pub struct VerifiedSearchResult {
    /// Its reference.
    pub reference: InputRef,
    /// Its manifest.
    pub manifest: Manifest<SearchResult>,
    /// The name of its signer.
    pub signer: String,
    /// True if a trust policy names its signer and those of all rounds.
    pub established: bool,
}

impl VerifiedSearchResult {
    /// Returns the document.
    pub fn body(&self) -> &SearchResult {
        &self.manifest.body
    }
}

/// A search that has ended, with all that it observed.
#[derive(Clone, Debug)]
pub struct EndedSearch<'a> {
    /// The rule.
    pub rule: Rule,
    /// The runs of its rounds.
    pub rounds: &'a [ObservedRound],
    /// Its last step.
    pub end: &'a Step,
    /// The time at which it ended.
    pub at: Instant,
}

/// A round of a search: its run, and what it observed.
#[derive(Clone, Debug)]
pub struct ObservedRound {
    /// The run.
    pub run_id: RunId,
    /// Its Publication.
    pub publication: InputRef,
    /// The work.
    pub work: SearchedWork,
    /// The SLOs.
    pub slos: Vec<Slo>,
    /// The observations, in the order of the loads.
    pub observations: Vec<Observation>,
}

impl ObservedRound {
    /// Reads what a run of one trial for each of these loads observed. `None` in place of an observation of a load without any: no trial of it
    /// counts, and the endpoint is not the reason.
    ///
    /// # Errors
    /// Fails with `search_result` if the run is none of a search.
    pub fn read(run: &VerifiedRun, loads: &[Load]) -> Result<Self, Failure> {
        let run_id = &run.chain.run_id;
        let other = |why: &str| contradiction(format!("the run `{run_id}` is no round of a search: {why}"));
        let plan = run.chain.one::<Plan>().ok_or_else(|| other("it has no plan"))?;
        let [workload] = plan.body.workloads.as_slice() else { return Err(other("it has not one workload")) };
        let served = workload.serving.as_ref().ok_or_else(|| other("it puts no load on an endpoint"))?;
        let summary = run.chain.one::<Summary>().ok_or_else(|| other("it has no summary"))?;
        let publication = run.chain.all::<Publication>().next().ok_or_else(|| other("it is not published"))?.0;
        let observe = |load: &Load| observe(&summary.body, *load, !served.slos.is_empty());
        let missing = |load: &Load| other(&format!("it observed nothing at {} {}", kind_of(*load), load.amount()));
        let observations = loads.iter().map(|load| observe(load).ok_or_else(|| missing(load))).collect::<Result<_, _>>()?;
        let spec = spec_without_load(run.blobs.as_ref(), &workload.spec)?.ok_or_else(|| other("its workload is absent"))?;
        let [target] = plan.body.targets.as_slice() else { return Err(other("it has not one target")) };
        let points = plan.body.cases.iter().map(|case| case.points.len()).sum::<usize>();
        if points != loads.len() {
            return Err(other(&format!("it has {points} loads, and the round {}", loads.len())));
        }
        let work = SearchedWork {
            model: served.model.clone(),
            spec,
            target: target_digest(target)?,
            endpoint: target.url.clone().unwrap_or_else(|| target.kind.to_string()),
        };
        Ok(Self { run_id: run_id.clone(), publication, work, slos: served.slos.clone(), observations })
    }

    fn written(&self) -> SearchRound {
        SearchRound {
            run_id: self.run_id.clone(),
            publication: self.publication.manifest,
            observations: self.observations.iter().map(SearchObservation::from).collect(),
        }
    }
}

/// Returns the observation of a load from the Summary of a run; `None` if no trial of it counts, and the endpoint is not the reason.
pub fn observe(summary: &Summary, load: Load, has_slos: bool) -> Option<Observation> {
    let point = summary.points.iter().find(|point| load_of(point) == Some(load))?;
    searched_observation(point, has_slos)
}

fn kind_of(load: Load) -> &'static str {
    match load {
        Load::Concurrency(_) => "concurrency",
        Load::Rate(_) => "rate",
    }
}

/// Returns the digest of a frozen workload without its loads and its seed; `None` if the file is absent.
fn spec_without_load(blobs: &dyn Blobs, spec: &Artifact) -> Result<Option<Digest>, Failure> {
    let Some(bytes) = blobs.get(&spec.digest, MAX_SPEC_BYTES)? else { return Ok(None) };
    let damaged = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::SearchResult, "the workload of a round does not parse").because(error)
    };
    let mut spec: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(&error))?;
    if let Some(members) = spec.as_object_mut() {
        members.retain(|name, _| !OF_A_ROUND.contains(&name.as_str()));
    }
    canonical_value(&spec).map(|bytes| Some(Digest::compute(&bytes))).map_err(|error| damaged(&error))
}

/// Returns the digest of a target as a Plan states it.
fn target_digest(target: &Target) -> Result<Digest, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::SearchResult, "the target of a round has no canonical form").because(error)
    };
    let value = serde_json::to_value(target).map_err(|error| failed(&error))?;
    canonical_value(&value).map(|bytes| Digest::compute(&bytes)).map_err(|error| failed(&error))
}

/// Signs the result of a search with the key of the role `source`, and stores it under its first round.
///
/// # Errors
/// Fails if the key is not unlocked, if the store refuses a write, and with `search_result` if the search has no round.
pub fn sign_search_result(store: &Store, keys: &KeyRing, search: &EndedSearch<'_>) -> Result<InputRef, Failure> {
    let first = search.rounds.first().ok_or_else(|| contradiction("the search has no round"))?;
    let pem = keys.public(Role::Source)?.to_pem();
    let key = Artifact {
        name: SearchResult::KEY.to_owned(),
        digest: store.put(pem.as_bytes())?,
        size: Count(pem.len() as u64),
        media_type: "application/x-pem-file".to_owned(),
    };
    let seen: Vec<Observation> = search.rounds.iter().flat_map(|round| round.observations.iter().copied()).collect();
    let SearchConclusion { end, grid, landmarks } = conclude(search.rule.goal, search.end, &seen);
    let result = SearchResult {
        ended_at: search.at,
        question: question(&search.rule, first.slos.clone()),
        work: first.work.clone(),
        rounds: search.rounds.iter().map(ObservedRound::written).collect(),
        end,
        grid,
        landmarks,
        key,
    };
    let seal_with = Seal {
        signer: keys.signer(Role::Source)?,
        binary: binary_digest()?,
        invocation_id: format!("{}-search-{}", first.run_id, std::process::id()),
        started: search.at,
        parameters: json!({"goal": result.question.goal}),
        stage: None,
        shard: Shard::ONLY,
        trust_policy: None,
        dependencies: Vec::new(),
    };
    let inputs = search.rounds.iter().map(|round| round.publication).collect();
    let path = Layout::search_result(&first.run_id);
    let reference = seal(&seal_with, store, &first.run_id, inputs, result)?.reference;
    let bytes = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle }.to_bytes()?;
    match store.create(&path, &bytes)? {
        CreateOutcome::New => Ok(reference),
        CreateOutcome::Existing { .. } => Err(Failure::new(ErrorCode::Busy, format!("another search result has `{path}`"))),
    }
}

/// Returns the search result of a store whose manifest has this digest, or a digest that begins so; `None` if there is none.
///
/// # Errors
/// Fails with `search_result` if several begin so; with `pointer` if none is found and a pointer is damaged.
pub fn find_search_result(store: &Store, name: &str) -> Result<Option<InputRef>, Failure> {
    let Some(digits) = AcceptedResult::digits(name) else { return Ok(None) };
    let found = AcceptedResult::find(store, Layout::SEARCHES, digits)?;
    match found.accepted.as_slice() {
        [one] => Ok(Some(one.as_input(Kind::SearchResult))),
        // A damaged pointer is that of another search result, unless none is found.
        [] => found.damaged.map_or(Ok(None), Err),
        _ => Err(contradiction(format!("several search results have a digest that begins with {name}"))
            .hint("give more digits of the digest")),
    }
}

/// Returns the public key that a search result names, unverified: it is a candidate only.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn key_beside_search_result(blobs: &dyn Blobs, reference: &InputRef) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(bytes) = blobs.get(&reference.manifest, MAX_MANIFEST_BYTES)? else { return Ok(Vec::new()) };
    let Ok(Document::SearchResult(result)) = Document::parse(&bytes) else { return Ok(Vec::new()) };
    Ok(blobs.get(&result.body.key.digest, MAX_KEY_BYTES)?.into_iter().collect())
}

/// Verifies a search result: signature and signer under `trust`; the replay, which has to lead to its loads and its end; and the run of each
/// round, whose chain is verified as that of any run, and whose Summary has to give the stated observations again.
///
/// # Errors
/// Fails with the code of the fault of a signature or of a run, and with `search_result` if the document contradicts its runs or itself, or if the
/// store lacks a run.
pub fn verify_search_result(
    place: &RunStore,
    store: &Store,
    blobs: &dyn Blobs,
    reference: InputRef,
    trust: &Trust,
) -> Result<VerifiedSearchResult, Failure> {
    let verified = load_alone(blobs, reference, trust, "search result")?;
    let manifest =
        SearchResult::from_document(verified.value()).ok_or_else(|| contradiction("the document is no search result"))?.clone();
    let result = &manifest.body;
    replay(result).map_err(|fault| contradiction(fault.to_string()))?;
    let mut established = verified.signer().established;
    for (round, number) in result.rounds.iter().zip(1_u32..) {
        let run = open_round(place, store, round, number)?;
        check_round(&manifest, round, number, &run)?;
        established &= run.chain.is_established();
    }
    if manifest.header.inputs.iter().any(|input| result.rounds.iter().all(|round| round.publication != input.manifest)) {
        return Err(contradiction("it is made from a publication that is of no round"));
    }
    Ok(VerifiedSearchResult { reference, signer: verified.signer().name.clone(), established, manifest })
}

fn open_round(place: &RunStore, store: &Store, round: &SearchRound, number: u32) -> Result<VerifiedRun, Failure> {
    place.open_in(store.clone(), &round.run_id).map_err(|failure| {
        let run_id = &round.run_id;
        if failure.code == ErrorCode::NoSuchRun {
            let message = format!("its round {number} is the run `{run_id}`, which is not in the store `{}`", store.uri());
            return contradiction(message)
                .hint("copy the run into the store with `assay fetch`, or name the store of the search with `--store`");
        }
        Failure { message: format!("round {number} of the search, the run `{run_id}`: {}", failure.message), ..failure }
    })
}

/// Checks that the run of a round gives what the document states of it.
fn check_round(manifest: &Manifest<SearchResult>, round: &SearchRound, number: u32, run: &VerifiedRun) -> Result<(), Failure> {
    let result = &manifest.body;
    let wrong = |what: &str| contradiction(format!("its round {number}, the run `{}`, {what}", round.run_id));
    let loads: Vec<Load> = round.observations.iter().filter_map(|seen| assay_search::parse_load(seen.load)).collect();
    let observed = ObservedRound::read(run, &loads)?;
    let is_named = manifest.header.inputs.contains(&observed.publication);
    if observed.publication.manifest != round.publication || !is_named {
        return Err(wrong("has another publication than it states"));
    }
    if observed.work != result.work {
        let is_elsewhere = observed.work.target != result.work.target || observed.work.endpoint != result.work.endpoint;
        let what = if is_elsewhere { "is of another target than it states" } else { "is of other work than it states" };
        return Err(wrong(what));
    }
    if observed.slos != result.question.slos {
        return Err(wrong("has other SLOs than it states"));
    }
    let published = run.chain.one::<Publication>().map(|publication| publication.body.published_at);
    if published.is_some_and(|published| published > result.ended_at) {
        return Err(wrong("was published after the time at which the search says that it ended"));
    }
    let again = observed.written().observations;
    match round.observations.iter().zip(&again).find(|(stated, found)| stated != found) {
        Some((stated, _)) => {
            Err(wrong(&format!("did not observe what it states of {} {}", stated.load.kind, stated.load.amount)))
        }
        None => Ok(()),
    }
}

fn contradiction(what: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::SearchResult, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_result_is_found_by_the_first_digits_of_its_digest() {
        let store = Store::open("memory:").expect("a store");
        let [manifest, bundle] = ["manifest", "bundle"].map(|text| Digest::compute(text.as_bytes()));
        let accepted = AcceptedResult { manifest, bundle };
        let create = |first: &str, bytes: &[u8]| {
            let path = Layout::search_result(&first.parse().expect("a run id"));
            store.create(&path, bytes).expect("created");
        };
        let bytes = accepted.to_bytes().expect("bytes");
        create("search-1", &bytes);
        let hex = manifest.hex();
        for name in [manifest.to_string(), format!("sha256:{}", &hex[..12]), hex[..8].to_owned()] {
            assert_eq!(find_search_result(&store, &name).expect("read"), Some(accepted.as_input(Kind::SearchResult)), "{name}");
        }
        for name in ["sha256:0123", "nightly", "0000000000000000", ""] {
            assert_eq!(find_search_result(&store, name).expect("read"), None, "{name}");
        }
        create("search-2", &bytes);
        let several = find_search_result(&store, &hex).expect_err("two");
        assert!(several.message.starts_with("several search results"), "{}", several.message);
        create("search-3", b"{");
        assert_eq!(find_search_result(&store, "0000000000000000").expect_err("damaged").code, ErrorCode::Pointer);
    }
}
