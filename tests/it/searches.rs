//! Search results: what a search found, as a signed document that a reader replays and a workload names.

use std::fs;
use std::sync::OnceLock;

use assay_envelope::{ExpectedManifest, Signer, Trust, sign, verify};
use assay_manifest::{Body as _, Digest, Manifest, Role, SearchResult};
use assay_stage::{AcceptedResult, Layout};
use assay_store::Store;
use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::Forgery;
use crate::pipeline::{list, text};
use crate::serving::{MODEL, RETRY_BUDGET, SIMULATOR, pipeline, workload};
use crate::support::{CommandResult, Fixture, PIPELINE, blob};
use crate::tamper::key_of;

/// The SLO of every search here: every request meets it, on a machine of any speed.
const SLO: &str = "e2e=60s";

/// Searches on the simulator, with loads of a few requests. Returns the exit code and the printed search.
fn search(fixture: &Fixture, options: &[&str]) -> (i32, Value) {
    let base = ["bench", "--simulator", "fast", "--model", MODEL, "--output-tokens", "5", "--warmup", "0s", "--trials", "1"];
    let ran = fixture.assay(&[&base[..], &["--slo", SLO, "--json"], options].concat());
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran.code, found["search"].clone())
}

/// A sweep up to four requests in flight: one round, whose loads are measured.
fn swept() -> &'static (Fixture, String) {
    static SWEPT: OnceLock<(Fixture, String)> = OnceLock::new();
    SWEPT.get_or_init(|| {
        let fixture = Fixture::bare();
        let (code, search) = search(&fixture, &["--sweep", "--up-to", "4", "--requests", "10"]);
        assert_eq!(code, 0, "{search:#}");
        let result = text(&search["result"]).to_owned();
        (fixture, result)
    })
}

/// A search in two rounds, up to sixteen requests in flight, all of which meet the SLO: it finds no most load.
fn unbounded() -> &'static (Fixture, String) {
    static UNBOUNDED: OnceLock<(Fixture, String)> = OnceLock::new();
    UNBOUNDED.get_or_init(|| {
        let fixture = Fixture::shared();
        let (code, search) = search(&fixture, &["--find-max", "concurrency", "--up-to", "16", "--requests", "100"]);
        assert_eq!((code, list(&search["runs"]).len()), (41, 2), "{search:#}");
        let result = text(&search["result"]).to_owned();
        (fixture, result)
    })
}

/// Signs a search result with a change by the key of a role, and returns the digest of its manifest.
fn plant(name: &str, role: Role, change: impl FnOnce(&mut Manifest<SearchResult>)) -> String {
    let (fixture, digest) = unbounded();
    let shown = fixture.assay(&["show", digest, "--json"]).success().json();
    let part = |part: &str| fs::read(blob(&fixture.store(), text(&shown["search_result"][part]))).expect("a blob");
    let candidates = vec![key_of(fixture, Role::Source).public_key()];
    let verified = verify(&part("manifest"), &part("bundle"), &Trust::None { candidates }, &ExpectedManifest::default())
        .expect("it verifies");
    let mut manifest = SearchResult::from_document(verified.value()).expect("a search result").clone();
    change(&mut manifest);
    let signed = sign(&manifest, &Signer::new(key_of(fixture, role)), verified.predicate().clone()).expect("it signs");
    let store = Store::open(&fixture.store().display().to_string()).expect("a store");
    store.put(&signed.manifest).expect("stored");
    store.put(&signed.bundle).expect("stored");
    let reference = signed.input_ref();
    let accepted = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle };
    let path = Layout::search_result(&name.parse().expect("a run id"));
    store.create(&path, &accepted.to_bytes().expect("bytes")).expect("created");
    reference.manifest.to_string()
}

/// Returns what `assay verify` says of a changed search result that is signed by the right key.
fn refused(name: &str, change: impl FnOnce(&mut Manifest<SearchResult>)) -> String {
    let digest = plant(name, Role::Source, change);
    let ran = unbounded().0.assay(&["verify", &digest]).refuses(20, "search_result");
    assert!(!ran.stdout.contains("  ok  "), "{}", ran.stdout);
    ran.stderr
}

#[test]
fn a_search_leaves_a_document_that_verifies_and_names_its_loads() {
    let (fixture, digest) = swept();
    let verified = fixture.assay(&["verify", digest]).success().stdout;
    for line in [
        "  ok  1 round, each a run whose chain is verified",
        "  ok  3 observations read again from the summaries of the runs, and equal",
        "  ok  the search, replayed from them, takes the same loads and the same end",
    ] {
        assert!(verified.contains(line), "`{line}` is missing:\n{verified}");
    }
    let shown = fixture.assay(&["show", digest]).success().stdout;
    let snippet = format!("  load:\n    mode: closed\n    concurrency: [1, 2, 4]\n    search: {digest}\n");
    assert!(shown.contains(&snippet), "{shown}");
    let document = fixture.assay(&["show", &digest[..20], "--json"]).success().json();
    assert_eq!(document["load"], json!({"mode": "closed", "concurrency": [1, 2, 4], "search": digest}));
    assert_eq!((&document["established"], &document["body"]["end"]), (&json!(true), &json!({"outcome": "swept"})));
}

#[test]
fn a_search_that_found_nothing_leaves_a_document_without_loads() {
    let (fixture, digest) = unbounded();
    let verified = fixture.assay(&["verify", digest]).success().stdout;
    assert!(verified.contains("  ok  2 rounds, "), "{verified}");
    let shown = fixture.assay(&["show", digest]).success().stdout;
    assert!(shown.contains("found nothing: every concurrency that was tried meets the SLOs, up to concurrency 16"), "{shown}");
    assert!(!shown.contains("in a workload file"), "{shown}");
}

#[test]
fn a_document_that_contradicts_its_runs_or_itself_is_refused() {
    let observation = refused("changed-1", |result| result.body.rounds[0].observations[0].requests_per_s += 1.0);
    assert!(observation.contains("did not observe what it states of concurrency 1"), "{observation}");
    let last = refused("changed-2", |result| drop(result.body.rounds.pop()));
    assert!(last.contains("its rounds lead to concurrency 16, which no round observed"), "{last}");
    let first = refused("changed-3", |result| drop(result.body.rounds.remove(0)));
    assert!(first.contains("its round 1 observed other loads than concurrency 1, 2, 4, 8"), "{first}");
    let grid = refused("changed-4", |result| {
        result.body.grid = result.body.rounds[1].observations.iter().map(|seen| seen.load).collect();
    });
    assert!(grid.contains("it has a grid, and its rounds lead to none"), "{grid}");
    let absent = refused("changed-5", |result| result.body.rounds[1].run_id = "absent-1".parse().expect("a run id"));
    assert!(absent.contains("its round 2 is the run `absent-1`, which is not in the store"), "{absent}");
    let swapped = refused("changed-6", |result| result.body.rounds[0].publication = Digest::compute(b""));
    assert!(swapped.contains("has another publication than it states"), "{swapped}");
    let unnamed = refused("changed-7", |result| result.header.inputs.truncate(1));
    assert!(unnamed.contains("has another publication than it states"), "{unnamed}");
    let work = refused("changed-8", |result| result.body.work.model = "other".to_owned());
    assert!(work.contains("is of other work than it states"), "{work}");
    let target = refused("changed-10", |result| result.body.work.target = Digest::compute(b""));
    assert!(target.contains("is of another target than it states"), "{target}");
    let endpoint = refused("changed-11", |result| result.body.work.endpoint = "http://127.0.0.1:9".to_owned());
    assert!(endpoint.contains("is of another target than it states"), "{endpoint}");
    let twice = refused("changed-12", |result| {
        let first = result.body.rounds[0].run_id.clone();
        result.body.rounds[1].run_id = first;
    });
    assert!(twice.contains("its round 2 is the run of an earlier round"), "{twice}");
    let (code, _) = search(&unbounded().0, &["--concurrency", "1,2,4,8,16", "--requests", "100", "--run-id", "wide"]);
    assert_eq!(code, 0);
    let wide = refused("changed-13", |result| result.body.rounds[0].run_id = "wide".parse().expect("a run id"));
    assert!(wide.contains("the run `wide` is no round of a search: it has 5 loads, and the round 4"), "{wide}");
    let question = refused("changed-14", |result| result.body.question.max_concurrency = u32::MAX);
    assert!(question.contains("its question is none of a search"), "{question}");
    let slos = refused("changed-9", |result| result.body.question.slos.clear());
    assert!(slos.contains("has other SLOs than it states"), "{slos}");
}

#[test]
fn a_search_result_is_signed_for_its_role() {
    let digest = plant("other-signer", Role::Publish, |result| result.body.ended_at = assay_manifest::Instant::from_unix_ns(1));
    unbounded().0.assay(&["verify", &digest]).refuses(20, "wrong_signer");
}

/// Returns a workload file's load with these concurrencies and the search of [`swept`].
fn load(concurrency: &str, search: &str) -> String {
    format!("mode: closed, concurrency: [{concurrency}], requests: 10, search: '{search}'")
}

/// Writes a pipeline of one workload whose load names a search.
fn write(fixture: &Fixture, load: &str, slos: &str) {
    workload(fixture, "chat", load, "D(20,10)", &format!("  slos: {{{slos}}}\n"));
    fixture.write(PIPELINE, &pipeline(&["chat"], &[SIMULATOR], 1, RETRY_BUDGET, ""));
    fixture.commit("a workload of a search");
}

fn plan(fixture: &Fixture) -> CommandResult {
    fixture.assay(&["plan", PIPELINE])
}

/// A finished run, `one`, of a workload that names a search.
pub(crate) fn measured() -> &'static Fixture {
    static MEASURED: OnceLock<()> = OnceLock::new();
    let (fixture, digest) = swept();
    MEASURED.get_or_init(|| {
        for (name, concurrency) in [("fewer", "1, 2"), ("more", "1, 2, 4, 8")] {
            write(fixture, &load(concurrency, digest), "e2e: 60s");
            let why = "its loads are not those that the search found, concurrency 1, 2, 4";
            let refused = plan(fixture).refuses(10, "search_differs");
            assert!(refused.stderr.contains(why) && refused.stderr.contains("`assay show sha256:"), "{}", refused.stderr);
            fixture.run(name).refuses(10, "search_differs");
        }
        let other = Digest::compute(b"another search");
        write(fixture, &load("1, 2, 4", &other.to_string()), "e2e: 60s");
        plan(fixture).refuses(10, "search_missing");
        fixture.run("missing").refuses(10, "search_missing");
        write(fixture, &load("4, 1, 2", digest), "e2e: 60s");
        plan(fixture).success();
        fixture.run("one").success();
    });
    fixture
}

#[test]
fn a_workload_pins_the_search_that_its_loads_come_from() {
    let fixture = measured();
    let (_, digest) = swept();
    let pinned = fixture.manifest("one", "plan")["body"]["workloads"][0]["search"].clone();
    assert_eq!(pinned["manifest"]["digest"], json!(digest));
    fixture.assay(&["verify", "one"]).success();
    // The published folder holds the document, so that a reader of the folder checks it too.
    let folder = fixture.published("one").join("plan/workloads/chat/search_result.json");
    assert_eq!(Digest::compute(&fs::read(folder).expect("a file")).to_string(), *digest);
    for page in ["report.html", "report.md"] {
        let page = fs::read_to_string(fixture.published("one").join(page)).expect("a page");
        let (_, after) = page.split_once("the search result that its loads come from").expect("it is named");
        assert!(after.chars().take(300).collect::<String>().contains(digest.as_str()), "{after:.300}");
    }
}

/// The copy has all that level 3 of `assay verify` needs, but not the runs of the search, which are runs of their own.
#[test]
fn a_fetched_run_takes_the_search_of_its_workload_with_it() {
    let fixture = measured();
    let to = fixture.scratch().join("fetched");
    let to = to.display().to_string();
    fixture.assay(&["fetch", "one", "--to", &to]).success();
    fixture.assay(&["verify", "one", "--store", &to, "--recompute"]).success();
    let pinned = fixture.manifest("one", "plan")["body"]["workloads"][0]["search"].clone();
    for part in ["manifest", "bundle"] {
        fs::remove_file(blob(to.as_ref(), text(&pinned[part]["digest"]))).expect("it was copied");
        fixture.assay(&["verify", "one", "--store", &to]).refuses(20, "artifact_absent");
        fixture.assay(&["fetch", "one", "--to", &to]).success();
        fixture.assay(&["verify", "one", "--store", &to]).success();
    }
}

/// Returns how a falsified workload of the Plan of that run is detected up to level 2.
fn caught(edit: impl FnOnce(&mut Value)) -> String {
    let falsify = |_: &Bench, manifest: &mut Value| edit(&mut manifest["body"]["workloads"][0]);
    Forgery::forge_in(Bench::with_runs_of(measured()), "plan", falsify, |_| {}).describe_detection(2)
}

/// Puts a file that the store holds, which is no part of a search, in place of a part of the pinned search.
fn replace(workload: &mut Value, part: &str) {
    let [digest, size] = ["digest", "size"].map(|field| workload["spec"][field].clone());
    (workload["search"][part]["digest"], workload["search"][part]["size"]) = (digest, size);
}

#[test]
fn a_plan_that_names_another_search_is_refused() {
    let absent = json!(Digest::compute(b"{}"));
    assert_eq!(caught(|workload| workload["search"]["manifest"]["digest"] = absent), "verify: artifact_absent");
    assert_eq!(caught(|workload| replace(workload, "manifest")), "verify: plan_source_differs");
    assert_eq!(caught(|workload| replace(workload, "bundle")), "verify: bundle_malformed");
    let without = |workload: &mut Value| drop(workload.as_object_mut().expect("a workload").remove("search"));
    assert_eq!(caught(without), "verify: search_result");
}
