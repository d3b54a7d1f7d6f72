use assay_failure::Exit;
use assay_manifest::{
    AttemptStatus, CollectedAttempt, EndState, Environment, HostFacts, Instant, OriginKind, PlannedTrial, Reason, Recording,
    Role, RunEnd, Shard, Source, Summary, Validity, Window,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A manifest of the constructed run, with the digests that other manifests name it by. Changes in a test keep these digests.
struct Entry {
    document: Document,
    reference: InputRef,
}

struct Chain(Vec<Entry>);

const ZERO: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn run_id() -> RunId {
    "nightly".parse().expect("a run id")
}

fn body<B: Body>(value: Value) -> B {
    serde_json::from_value(value).expect("a body")
}

fn artifact(name: &str) -> Value {
    json!({"name": name, "digest": ZERO, "size": "0", "media_type": "text/plain"})
}

fn source() -> Source {
    let bytes = |path: &str| json!({"name": format!("files/{path}"), "digest": ZERO, "size": "0", "media_type": "application/octet-stream"});
    let file = |path: &str| json!({"path": path, "executable": false, "artifact": bytes(path)});
    let mut source: Source = body(json!({
        "kind": "adhoc", "dirty": false, "objects": [], "pipeline": "p.yaml", "files": [file("p.yaml"), file("queries/q.sql")],
        "files_digest": ZERO,
    }));
    source.files_digest = Source::digest_of_files(&source.files);
    source
}

fn plan() -> Plan {
    let trial = |index: u32| json!({"trial_id": format!("w.t.default.one.t{index}"), "case_id": "w.t.default", "point_id": "one", "index": index, "block": 0});
    let query = json!({"path": "q.sql", "origin": "queries/q.sql", "executable": false, "artifact": artifact("q.sql")});
    body(json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": ZERO},
        "source": {"kind": "adhoc", "dirty": false, "files_digest": source().files_digest},
        "intent": "exploratory", "controls": [], "workloads": [], "targets": [], "variants": [], "cases": [],
        "trial_policy": {"count": 2, "retry_budget": 1}, "isolation": "none", "placement": "coexist",
        "order": {"seed": "00", "digest": ZERO}, "trials": [trial(0), trial(1)], "unpinned": [], "queries": [query],
    }))
}

fn environment(plan_digest: Digest) -> Environment {
    body(json!({
        "plan_digest": plan_digest, "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [{"name": "local", "roles": ["client"], "facts": HostFacts::unknown("a test")}],
        "software": [], "targets": [], "controls": [], "placement": {}, "readings": [],
    }))
}

fn attempt(trial: &str, attempt: u32, reasons: Vec<Reason>) -> Attempt {
    let start = Instant::from_unix_ns(0);
    let planned = PlannedTrial {
        trial_id: trial.parse().expect("a trial id"),
        case_id: "w.t.default".parse().expect("a case id"),
        point_id: "one".parse().expect("a point id"),
        index: 0,
        block: 0,
    };
    Attempt::new(&planned, attempt, Window { start, end: start, duration_ns: 0.into() }, AttemptStatus::Completed, reasons)
}

/// Trial 0 is invalid in its first attempt and valid in its second; trial 1 is valid in its first.
fn part(plan_digest: Digest) -> ExecutionPart {
    ExecutionPart {
        plan_digest,
        block: Block { index: 0, incarnation: 0 },
        shard: Shard::ONLY,
        schedule_digests: BTreeMap::new(),
        prepared: Vec::new(),
        stacks: Vec::new(),
        attempts: vec![
            attempt("w.t.default.one.t0", 0, vec![Reason::new("time_limit", "stopped")]),
            attempt("w.t.default.one.t0", 1, Vec::new()),
            attempt("w.t.default.one.t1", 0, Vec::new()),
        ],
        resumed: Vec::new(),
    }
}

fn recording(plan_digest: Digest) -> Recording {
    let at = "2026-01-01T00:00:00.000000000Z";
    body(json!({
        "plan_digest": plan_digest, "block": {"index": 0, "incarnation": 0}, "sequence": 0,
        "window": {"start": at, "end": at, "duration_ns": "0"}, "interval_ns": "1000000000", "series": [], "gaps": [],
    }))
}

fn collected(part: Digest, attempt: u32, counted: bool) -> CollectedAttempt {
    let block = Block { index: 0, incarnation: 0 };
    CollectedAttempt { attempt, block, shard: Shard::ONLY, part, counted, samples: 0.into(), gaps: Vec::new() }
}

fn collection(plan_digest: Digest, part: Digest) -> Collection {
    let trial =
        |trial_id: &str, attempts| CollectedTrial { trial_id: trial_id.parse().expect("a trial id"), counted: true, attempts };
    Collection {
        plan_digest,
        trials: vec![
            trial("w.t.default.one.t0", vec![collected(part, 0, false), collected(part, 1, true)]),
            trial("w.t.default.one.t1", vec![collected(part, 0, true)]),
        ],
        cross_checks: Vec::new(),
        drift: Vec::new(),
        evidence: serde_json::from_value(artifact("evidence.json")).expect("an artifact"),
        evidence_count: 0.into(),
        evidence_bytes: 0.into(),
    }
}

fn summary(plan_digest: Digest, collection: Digest) -> Summary {
    body(json!({
        "plan_digest": plan_digest, "artifact_manifest_digest": collection, "reduce_binary": ZERO, "status": "succeeded",
        "issues": [], "points": [], "files": [],
    }))
}

fn publication(plan_digest: Digest, summary: Digest) -> assay_manifest::Publication {
    body(json!({
        "plan_digest": plan_digest, "summary": summary, "trust_policy": ZERO, "published_at": "2026-01-01T00:00:00.000000000Z",
        "grade": {"requested": "exploratory", "given": "exploratory", "shortfalls": []}, "runs": [], "warehouse_snapshot": {},
        "numbers": artifact("numbers.json"), "reports": [], "keys": [],
    }))
}

fn reference(kind: Kind, bytes: &[u8]) -> InputRef {
    InputRef { kind, manifest: Digest::compute(bytes), bundle: Digest::compute(&[b"bundle of ", bytes].concat()) }
}

impl Chain {
    /// Builds a complete run, from Source to Publication.
    fn build_complete() -> Self {
        let mut chain = Self(Vec::new());
        let source = chain.add(vec![], source());
        let plan = chain.add(vec![source], self::plan());
        let digest = self::plan().digest().expect("a digest");
        let environment = chain.add(vec![plan], self::environment(digest));
        let part = chain.add(vec![plan, environment], self::part(digest));
        let recording = chain.add(vec![plan, environment], self::recording(digest));
        let collection = chain.add(vec![plan, environment, part, recording], self::collection(digest, part.manifest));
        let summary = chain.add(vec![plan, environment, collection], self::summary(digest, collection.manifest));
        let all = vec![source, plan, environment, part, recording, collection, summary];
        chain.add(all, publication(digest, summary.manifest));
        chain
    }

    fn add<B: Body>(&mut self, inputs: Vec<InputRef>, body: B) -> InputRef
    where
        Document: From<Manifest<B>>,
    {
        let document = Document::from(Manifest::new(run_id(), inputs, body));
        let reference = reference(document.kind(), &document.to_bytes().expect("bytes"));
        self.0.push(Entry { document, reference });
        reference
    }

    /// Changes the one manifest of a kind, and keeps its digests.
    fn with<B: Body>(mut self, change: impl FnOnce(&mut Manifest<B>)) -> Self
    where
        Document: From<Manifest<B>>,
    {
        let entry = self.0.iter_mut().find(|entry| entry.document.kind() == B::KIND).expect("it is there");
        let mut manifest = B::from_document(&entry.document).expect("of that kind").clone();
        change(&mut manifest);
        entry.document = manifest.into();
        self
    }

    /// Keeps only Source and Plan: the other manifests follow a Plan that was not changed.
    fn without_followers(mut self) -> Self {
        self.0.retain(|entry| matches!(entry.document.kind(), Kind::Source | Kind::Plan));
        self
    }

    fn without(mut self, kind: Kind) -> Self {
        self.0.retain(|entry| entry.document.kind() != kind);
        self
    }

    /// Adds a second manifest like the one of a kind.
    fn with_second(mut self, kind: Kind) -> Self {
        let document = self.0.iter().find(|entry| entry.document.kind() == kind).expect("it is there").document.clone();
        let reference = reference(kind, b"the second");
        self.0.push(Entry { document, reference });
        self
    }

    fn members(&self) -> Vec<Member<'_>> {
        self.0.iter().map(|entry| Member { document: &entry.document, reference: entry.reference }).collect()
    }

    /// The result of checking the complete run.
    fn check_whole(&self) -> String {
        describe_check(check_complete(&run_id(), &self.members()))
    }

    /// The result of checking the inputs of a stage.
    fn check_links_only(&self) -> String {
        describe_check(check_links(&run_id(), &self.members()))
    }
}

fn describe_check(checked: Result<(), BrokenLink>) -> String {
    match checked {
        Ok(()) => "whole".to_owned(),
        Err(broken) => format!("{}: {broken}", broken.code().as_str()),
    }
}

#[test]
fn a_manifest_was_made_from_all_that_its_stage_takes() {
    let without =
        |chain: Chain, kind: Kind| chain.with::<Collection>(|manifest| manifest.header.inputs.retain(|input| input.kind != kind));
    let said = |kind: Kind| without(Chain::build_complete(), kind).check_whole();
    insta::assert_snapshot!(said(Kind::Plan), @"wrong_input_count: the collection was made from 0 manifests of kind plan, where its stage takes exactly one");
    insta::assert_snapshot!(said(Kind::Environment), @"wrong_input_count: the collection was made from 0 manifests of kind environment, where its stage takes at least one");
    // Recordings are optional, but none of the present ones may be omitted.
    assert!(said(Kind::Recording).starts_with("input_left_out: the collection was not made from the recording sha256:"));
    let orphan = Chain::build_complete().with::<Plan>(|manifest| manifest.header.inputs.clear()).check_whole();
    insta::assert_snapshot!(orphan, @"wrong_input_count: the plan was made from 0 manifests of kind source, where its stage takes exactly one");
}

#[test]
fn artifacts_of_a_source_are_named_after_its_files() {
    let renamed = Chain::build_complete().with::<Source>(|manifest| manifest.body.files[0].artifact.name.push('x')).check_whole();
    insta::assert_snapshot!(renamed, @"source_contradicts_itself: the source contradicts itself: `files/p.yaml` has another name or media type");
}

fn check_changed_collection(change: impl FnOnce(&mut Collection)) -> String {
    Chain::build_complete().with::<Collection>(|manifest| change(&mut manifest.body)).check_whole()
}

fn check_changed_part(change: impl FnOnce(&mut ExecutionPart)) -> String {
    Chain::build_complete().with::<ExecutionPart>(|manifest| change(&mut manifest.body)).check_whole()
}

#[test]
fn a_whole_chain_is_accepted() {
    assert_eq!(Chain::build_complete().check_whole(), "whole");
    let members = Chain::build_complete().without(Kind::Publication);
    assert_eq!(describe_check(check_publishable(&run_id(), &members.members())), "whole");
    assert_eq!(
        Chain::build_complete().without(Kind::Recording).check_links_only(),
        "whole",
        "a kind that is not here is no broken link"
    );
}

/// The result of checking the packages of a variant, as planned and as installed.
fn check_packages(planned: Value, installed: Value) -> String {
    let chain = Chain::build_complete().with::<Plan>(|manifest| {
        manifest.body.variants = body_of(json!([{"name": "default", "env": [], "python": planned}]));
        let case = json!({"case_id": "w.t.default", "workload": "w", "target": "t", "variant": "default", "points": []});
        manifest.body.cases = body_of(json!([case]));
    });
    let chain = chain.with::<ExecutionPart>(|manifest| manifest.body.stacks = body_of(installed));
    describe_check(crate::stacks::check_stacks(&chain.members()))
}

fn body_of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a part of a body")
}

#[test]
fn the_installed_packages_of_a_variant_are_those_of_its_lock_file() {
    let lock = json!({"path": "l.txt", "origin": "l.txt", "executable": false, "artifact": artifact("l.txt")});
    let planned =
        json!({"lock": lock, "packages": [{"name": "six", "version": "1.16.0"}], "installer": "pip", "interpreter": "python3"});
    let installed = |change: Value| {
        let mut stack =
            json!({"variant": "default", "lock": ZERO, "packages": [{"name": "six", "version": "1.16.0"}], "outputs": []});
        stack.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        json!([stack])
    };
    assert_eq!(check_packages(planned.clone(), installed(json!({}))), "whole");
    assert_eq!(check_packages(Value::Null, json!([])), "whole");
    let refused = |planned: &Value, installed: Value| check_packages(planned.clone(), installed);
    insta::assert_snapshot!(refused(&Value::Null, installed(json!({}))), @"stack_differs: the packages of the variant `default` are not those of the plan: the plan names none");
    insta::assert_snapshot!(refused(&planned, installed(json!({"packages": [{"name": "six", "version": "1.15.0"}]}))), @"stack_differs: the packages of the variant `default` are not those of the plan: `six` is 1.15.0 and not 1.16.0");
    insta::assert_snapshot!(refused(&planned, json!([])), @"stack_differs: the packages of the variant `default` are not those of the plan: an attempt of `w.t.default.one.t0` ran, and no installation is recorded");
    let failed = json!({"failure": {"code": "stack_not_installed", "detail": "no network"}, "packages": []});
    assert!(refused(&planned, installed(failed)).contains("no installation is recorded"), "a failed installation is none");
    let other = Digest::compute(b"another lock file");
    assert!(refused(&planned, installed(json!({"lock": other}))).contains("they were installed from sha256:"));
}

#[test]
fn the_order_of_the_members_does_not_matter() {
    let mut chain = Chain::build_complete();
    chain.0.reverse();
    assert_eq!(chain.check_whole(), "whole");
}

#[test]
fn a_run_may_have_ended_more_than_once_on_its_way() {
    let mut chain = Chain::build_complete();
    for sequence in 0..2 {
        let reason = Reason::new("stage_killed", "signal 9");
        let plan = Role::Plan;
        chain.add(vec![], RunEnd { state: EndState::Failed, stage: plan, reason, exit_code: 30, sequence, input_digest: None });
    }
    assert_eq!(chain.check_whole(), "whole");
}

#[test]
fn a_manifest_of_another_run_is_refused() {
    let other = |manifest: &mut Manifest<Environment>| manifest.header.run_id = "weekly".parse().expect("a run id");
    insta::assert_snapshot!(Chain::build_complete().with(other).check_links_only(), @"other_run: the environment belongs to run `weekly`, not to `nightly`");
}

#[test]
fn a_manifest_made_from_another_input_is_refused() {
    let stranger = reference(Kind::Environment, b"another");
    let swap = |manifest: &mut Manifest<ExecutionPart>| manifest.header.inputs[1] = stranger;
    let said = Chain::build_complete().with(swap).check_links_only();
    assert_eq!(
        said,
        format!(
            "other_input: the execution_part was made from another environment: manifest {}, bundle {}",
            stranger.manifest, stranger.bundle
        )
    );
}

#[test]
fn the_same_manifest_under_another_bundle_is_another_input() {
    let swap = |manifest: &mut Manifest<ExecutionPart>| manifest.header.inputs[1].bundle = Digest::compute(b"signed again");
    assert!(Chain::build_complete().with(swap).check_links_only().starts_with("other_input: "));
}

#[test]
fn a_named_input_must_be_there() {
    let chain = Chain::build_complete().without(Kind::Recording);
    assert!(
        chain
            .check_whole()
            .starts_with("missing_input: the collection was made from a recording that is missing: manifest sha256:")
    );
}

#[test]
fn every_kind_must_be_there_once() {
    for kind in
        [Kind::Source, Kind::Plan, Kind::Environment, Kind::ExecutionPart, Kind::Collection, Kind::Summary, Kind::Publication]
    {
        assert_eq!(Chain::build_complete().without(kind).check_whole(), format!("missing_stage: the chain has no {kind}"));
    }
    for kind in [Kind::Source, Kind::Plan, Kind::Collection, Kind::Summary, Kind::Publication] {
        let expected = format!("too_many: the chain has 2 manifests of kind {kind}, where one is expected");
        assert_eq!(Chain::build_complete().with_second(kind).check_whole(), expected);
    }
}

#[test]
fn no_result_is_accepted_twice() {
    insta::assert_snapshot!(Chain::build_complete().with_second(Kind::Environment).check_whole(), @"accepted_twice: the chain has two manifests that are `environment-0-0`");
    insta::assert_snapshot!(Chain::build_complete().with_second(Kind::ExecutionPart).check_whole(), @"accepted_twice: the chain has two manifests that are `execution_part-0-0-0`");
    insta::assert_snapshot!(Chain::build_complete().with_second(Kind::Recording).check_whole(), @"accepted_twice: the chain has two manifests that are `recording-0-0-0`");
}

/// The result for a chain with a changed Source; with `follow`, the Plan changes with it.
fn check_changed_source(change: impl Fn(&mut Source), follow: bool) -> String {
    let mut changed = source();
    change(&mut changed);
    let named = Chain::build_complete().with::<Source>(|manifest| change(&mut manifest.body));
    if !follow {
        return named.check_links_only();
    }
    let name = |body: &mut Plan| {
        (body.source.kind, body.source.repository) = (changed.kind, changed.repository);
        (body.source.commit, body.source.dirty, body.source.files_digest) = (changed.commit, changed.dirty, changed.files_digest);
    };
    named.with::<Plan>(|manifest| name(&mut manifest.body)).without_followers().check_links_only()
}

#[test]
fn imported_definitions_have_an_original_and_are_exploratory() {
    let import = |file: &'static str| {
        move |source: &mut Source| {
            let import = json!({"file": file, "format": "f", "version": "0"});
            source.import = Some(serde_json::from_value(import).expect("an import"));
        }
    };
    assert_eq!(check_changed_source(import("queries/q.sql"), true), "whole");
    for other in ["job.yaml", "p.yaml"] {
        assert_eq!(
            check_changed_source(import(other), true),
            "source_contradicts_itself: the source contradicts itself: it names no file of its own that its definitions were imported from"
        );
    }
    let claiming = |manifest: &mut Manifest<Plan>| manifest.body.intent = assay_manifest::Intent::Publication;
    let chain = Chain::build_complete().with::<Source>(|manifest| import("queries/q.sql")(&mut manifest.body));
    let claimed = chain.with::<Plan>(claiming).without_followers().check_links_only();
    assert_eq!(
        claimed,
        "plan_source_differs: the plan does not follow from the source: imported definitions are `exploratory`, and the plan is `publication`"
    );
}

#[test]
fn a_plan_names_its_source_as_it_is() {
    let to_git = |source: &mut Source| (source.kind, source.commit) = (OriginKind::Git, Some("a".repeat(40)));
    insta::assert_snapshot!(check_changed_source(to_git, false), @"plan_source_differs: the plan does not follow from the source: the plan names another kind");
    assert_eq!(check_changed_source(to_git, true), "whole", "the Plan that follows from it");
    let dirty = |source: &mut Source| (source.kind, source.dirty) = (OriginKind::Worktree, true);
    assert_eq!(check_changed_source(dirty, true), "whole");
    let clean = |source: &mut Source| source.kind = OriginKind::Worktree;
    insta::assert_snapshot!(check_changed_source(clean, true), @"source_contradicts_itself: the source contradicts itself: its kind is `worktree`, and its commit and cleanliness are not of that kind");
    let named = |plan: &mut Manifest<Plan>| plan.body.source.kind = OriginKind::Worktree;
    let chain = Chain::build_complete().with::<Source>(|manifest| dirty(&mut manifest.body)).with(named).without_followers();
    insta::assert_snapshot!(chain.check_links_only(), @"plan_source_differs: the plan does not follow from the source: the plan names another cleanliness");
    let named = |plan: &mut Manifest<Plan>| (plan.body.source.kind, plan.body.source.dirty) = (OriginKind::Worktree, true);
    let elsewhere = |source: &mut Source| {
        dirty(source);
        source.repository = Some("https://example.org/other".to_owned());
    };
    let chain = Chain::build_complete().with::<Source>(|manifest| elsewhere(&mut manifest.body)).with(named).without_followers();
    insta::assert_snapshot!(chain.check_links_only(), @"plan_source_differs: the plan does not follow from the source: the plan names another repository");
    let commit = |source: &mut Source| {
        dirty(source);
        source.commit = Some("a".repeat(40));
    };
    let chain = Chain::build_complete().with::<Source>(|manifest| commit(&mut manifest.body)).with(named).without_followers();
    insta::assert_snapshot!(chain.check_links_only(), @"plan_source_differs: the plan does not follow from the source: the plan names another commit");
    let moved = |source: &mut Source| source.pipeline = "q.yaml".to_owned();
    insta::assert_snapshot!(check_changed_source(moved, true), @"plan_source_differs: the plan does not follow from the source: the plan names another pipeline");
}

#[test]
fn a_plan_pins_the_source_s_bytes() {
    let replace = |place: usize| {
        move |source: &mut Source| {
            source.files[place].artifact.digest = Digest::compute(b"other");
            source.files_digest = Source::digest_of_files(&source.files);
        }
    };
    insta::assert_snapshot!(check_changed_source(replace(0), false), @"plan_source_differs: the plan does not follow from the source: the plan names another digest of all files");
    insta::assert_snapshot!(check_changed_source(replace(0), true), @"plan_source_differs: the plan does not follow from the source: the plan names another digest of the pipeline");
    insta::assert_snapshot!(check_changed_source(replace(1), true), @"plan_source_differs: the plan does not follow from the source: the plan pins other bytes as `queries/q.sql` than the source holds there");
    let lost = |source: &mut Source| {
        source.files.pop();
        source.files_digest = Source::digest_of_files(&source.files);
    };
    assert!(check_changed_source(lost, true).starts_with("plan_source_differs: "));
}

#[test]
fn a_source_does_not_contradict_itself() {
    let refused = |change: fn(&mut Source)| {
        let said = check_changed_source(change, true);
        assert!(said.starts_with("source_contradicts_itself: "), "{said}");
    };
    refused(|source| source.commit = Some("a".repeat(40)));
    refused(|source| source.kind = OriginKind::Git);
    refused(|source| (source.kind, source.commit, source.dirty) = (OriginKind::Git, Some("a".repeat(40)), true));
    refused(|source| source.dirty = true);
    refused(|source| drop(source.files.pop()));
}

#[test]
fn whatever_follows_another_plan_is_refused() {
    let other = Digest::compute(b"another plan");
    let expected = plan().digest().expect("a digest");
    let refused = |kind: Kind, chain: Chain| {
        assert_eq!(chain.check_links_only(), format!("other_plan: the {kind} follows plan {other}, not {expected}"));
    };
    refused(Kind::Environment, Chain::build_complete().with::<Environment>(|found| found.body.plan_digest = other));
    refused(Kind::ExecutionPart, Chain::build_complete().with::<ExecutionPart>(|found| found.body.plan_digest = other));
    refused(Kind::Recording, Chain::build_complete().with::<Recording>(|found| found.body.plan_digest = other));
    refused(Kind::Collection, Chain::build_complete().with::<Collection>(|found| found.body.plan_digest = other));
    refused(Kind::Summary, Chain::build_complete().with::<Summary>(|found| found.body.plan_digest = other));
    refused(
        Kind::Publication,
        Chain::build_complete().with::<assay_manifest::Publication>(|found| found.body.plan_digest = other),
    );
}

#[test]
fn a_summary_is_of_the_collection_that_is_here() {
    let other = Digest::compute(b"another collection");
    let said = Chain::build_complete().with::<Summary>(|found| found.body.artifact_manifest_digest = other).check_links_only();
    assert!(said.starts_with(&format!("other_evidence: the summary names the collection {other}, but the chain holds sha256:")));
    let said = Chain::build_complete().with::<assay_manifest::Publication>(|found| found.body.summary = other).check_links_only();
    assert!(said.starts_with(&format!("other_evidence: the publication names the summary {other}, but the chain holds sha256:")));
}

#[test]
fn the_collection_has_the_plan_s_trials_in_the_plan_s_order() {
    insta::assert_snapshot!(check_changed_collection(|body| { body.trials.pop(); }), @"trials_unaccounted: the collection does not account for the plan's trials: 2 planned, 1 collected, or in another order");
    insta::assert_snapshot!(check_changed_collection(|body| body.trials.reverse()), @"trials_unaccounted: the collection does not account for the plan's trials: 2 planned, 2 collected, or in another order");
}

#[test]
fn every_attempt_is_accounted_for_once() {
    let code = |said: String| said.split(": ").next().unwrap_or_default().to_owned();
    assert_eq!(code(check_changed_collection(|body| drop(body.trials[0].attempts.remove(0)))), "attempts_unaccounted");
    assert_eq!(code(check_changed_collection(|body| body.trials[1].attempts[0].attempt = 7)), "attempts_unaccounted");
    assert_eq!(
        code(check_changed_collection(|body| body.trials[1].attempts[0].part = Digest::compute(b"another part"))),
        "attempts_unaccounted"
    );
    let repeat = |body: &mut Collection| {
        let again = body.trials[0].attempts[0].clone();
        body.trials[0].attempts.push(again);
    };
    assert_eq!(code(check_changed_collection(repeat)), "attempts_unaccounted");
    assert_eq!(code(check_changed_part(|body| drop(body.attempts.pop()))), "attempts_unaccounted");
    let twice = |body: &mut ExecutionPart| body.attempts.push(attempt("w.t.default.one.t1", 0, Vec::new()));
    assert_eq!(
        code(check_changed_part(twice)),
        "attempts_unaccounted",
        "an attempt that is there twice, once worse and once better"
    );
}

#[test]
fn the_first_valid_attempt_counts_and_no_other() {
    let refused =
        "other_attempt_counted: the collection counts another attempt of trial `w.t.default.one.t0` than the first valid one";
    assert_eq!(check_changed_collection(|body| body.trials[0].attempts[0].counted = true), refused, "an invalid one as well");
    assert_eq!(check_changed_collection(|body| body.trials[0].attempts[1].counted = false), refused, "none");
    assert_eq!(check_changed_collection(|body| body.trials[0].counted = false), refused, "the trial as if none");
    let better = |body: &mut ExecutionPart| body.attempts[0].validity = Validity::from_reasons(Vec::new());
    assert_eq!(check_changed_part(better), refused, "a later one, although the first is valid");
}

#[test]
fn a_part_needs_its_block_s_environment() {
    let moved = |body: &mut ExecutionPart| body.block = Block { index: 0, incarnation: 1 };
    insta::assert_snapshot!(check_changed_part(moved), @"block_without_environment: block 0 has no environment of its own");
}

#[test]
fn blocks_and_incarnations_have_no_gaps() {
    let refusal = |blocks: &[(u32, u32)]| {
        let plan_digest = plan().digest().expect("a digest");
        let environment =
            |&(index, incarnation): &(u32, u32)| Environment { block: Block { index, incarnation }, ..environment(plan_digest) };
        let documents: Vec<_> = blocks
            .iter()
            .map(|block| Document::Environment(Manifest::new("r".parse().expect("a run"), Vec::new(), environment(block))))
            .collect();
        let digest = |place: usize| Digest::compute(&place.to_le_bytes());
        let members: Vec<_> = documents
            .iter()
            .enumerate()
            .map(|(place, document)| Member {
                document,
                reference: InputRef { kind: Kind::Environment, manifest: digest(place), bundle: digest(place) },
            })
            .collect();
        describe_check(check_blocks(&members))
    };
    assert_eq!(refusal(&[(0, 0), (0, 1), (1, 0), (0, 2)]), "whole");
    insta::assert_snapshot!(refusal(&[(0, 0), (0, 2)]), @"block_missing: the chain has block 0.2, and no block 0.1 before it");
    insta::assert_snapshot!(refusal(&[(0, 1)]), @"block_missing: the chain has block 0.1, and no block 0.0 before it");
    insta::assert_snapshot!(refusal(&[(0, 0), (2, 0)]), @"block_missing: the chain has block 2.0, and no block 1.0 before it");
    insta::assert_snapshot!(refusal(&[(0, 0), (1, 1)]), @"block_missing: the chain has block 1.1, and no block 1.0 before it");
}

#[test]
fn what_has_no_canonical_form_is_refused() {
    // No field of a plan can hold such a value at present.
    insta::assert_snapshot!(describe_check(Err(CanonicalError::NotFinite.into())), @"not_canonical: the plan has no digest");
}

#[test]
fn an_attempt_counts_only_with_all_its_shards() {
    let block = |incarnation| Block { index: 0, incarnation };
    let first = |tries: &[(Block, u32, bool)]| {
        // The tries of one attempt are its shards, in this order.
        counted_attempt(tries.iter().enumerate().map(|(place, (block, attempt, valid))| {
            let of_attempt =
                |tries: &[(Block, u32, bool)]| tries.iter().filter(|tried| (tried.0, tried.1) == (*block, *attempt)).count();
            let shard = Shard { index: of_attempt(&tries[..place]) as u32, count: of_attempt(tries) as u32 };
            ShardOutcome { block: *block, attempt: *attempt, shard, valid: *valid }
        }))
    };
    assert_eq!(first(&[]), None);
    assert_eq!(first(&[(block(0), 0, false)]), None);
    assert_eq!(first(&[(block(0), 0, true), (block(0), 0, false), (block(0), 1, true)]), Some((block(0), 1)));
    assert_eq!(first(&[(block(1), 0, true), (block(0), 3, true)]), Some((block(0), 3)), "the earlier incarnation first");
}

#[test]
fn an_attempt_that_lost_a_shard_does_not_count() {
    let block = Block { index: 0, incarnation: 0 };
    let of = |attempt, index| ShardOutcome { block, attempt, shard: Shard { index, count: 3 }, valid: true };
    assert_eq!(counted_attempt([of(0, 0), of(0, 2), of(1, 1), of(1, 0), of(1, 2)]), Some((block, 1)));
    assert_eq!(counted_attempt([of(0, 0), of(0, 2)]), None);
    assert_eq!(counted_attempt([of(0, 0), of(0, 1), of(0, 1)]), None, "one shard twice is not two");
}

#[test]
fn manifests_that_do_not_belong_together_fail_verification_whatever_their_code_means_elsewhere() {
    let count = BrokenLink::InputCount { of: Kind::Summary, kind: Kind::Plan, count: 2, expected: Arity::One };
    let failure = Failure::from(count);
    assert_eq!((failure.exit, failure.code), (Exit::Verification, ErrorCode::WrongInputCount));
    assert_eq!(ErrorCode::InputCount.exit(), Exit::Usage);
}

proptest! {
    #[test]
    fn what_counts_does_not_depend_on_the_order(
        (tries, shuffled) in prop::collection::vec((0_u32..3, 0_u32..4, any::<bool>()), 0..12)
            .prop_flat_map(|tries| (Just(tries.clone()), Just(tries).prop_shuffle()))
    ) {
        let of = |tries: &[(u32, u32, bool)]| {
            counted_attempt(tries.iter().map(|(incarnation, attempt, valid)| {
                let block = Block { index: 0, incarnation: *incarnation };
                ShardOutcome { block, attempt: *attempt, shard: Shard::ONLY, valid: *valid }
            }))
        };
        prop_assert_eq!(of(&tries), of(&shuffled));
    }
}
