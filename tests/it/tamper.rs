//! Every way to change a finished run, and the refusal of each by its own name.
//!
//! Blobs are named by their digests, so there are two ways to change one: other bytes under its digest, and other bytes under
//! their own digest with a pointer redirected to them. The second works on the last manifest of a run only, since every other one is
//! pinned by the manifests after it; so a run is cut off after each stage in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use assay_envelope::{ExpectedManifest, Password, SecretKey, Signer, Trust, TrustPolicy, TrustedSigner, sign, verify};
use assay_manifest::{Count, Digest, Document, Intent, Role};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::by_hand::Bench;
use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, Pointer, blob, copy_folder, files_under, measured_fixture, write_file};

/// The stages after whose results a run can be cut off, in their order, with the kind of their manifest.
const STAGES: [(&str, &str); 7] = [
    ("source", "source"),
    ("plan", "plan"),
    ("provision", "environment"),
    ("execute", "execution_part"),
    ("collect", "collection"),
    ("reduce", "summary"),
    ("publish", "publication"),
];

/// Returns the bytes with one bit flipped, in the middle or, in a text, in the next digit after it.
///
/// A digit becomes another digit, so base64, hexadecimal and decimal text stays valid: whether a signature or a digest is wrong or
/// unreadable does not depend on which character a random signature has in the middle.
pub(crate) fn flip_bit(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    let is_text = std::str::from_utf8(&bytes).is_ok();
    let digit = bytes[middle..].iter().position(u8::is_ascii_digit).filter(|_| is_text);
    match bytes.get_mut(middle + digit.unwrap_or(0)) {
        Some(byte) => *byte ^= 1,
        None => bytes.push(0),
    }
    bytes
}

/// The rows of a table whose refusal is not the expected one.
#[derive(Default)]
struct UnexpectedResults(Vec<String>);

impl UnexpectedResults {
    fn check(&mut self, row: &str, ran: &CommandResult, error: &str) {
        if (ran.code, ran.error().as_deref()) != (20, Some(error)) {
            let found = ran.error().unwrap_or_else(|| "no error".to_owned());
            let said = ran.stderr.lines().next().unwrap_or_default();
            self.0.push(format!("{row}: expected exit 20 and {error}, found exit {} and {found}: {said}", ran.code));
        }
    }

    fn check_refused(&mut self, row: &str, ran: &CommandResult) {
        if ran.code != 20 {
            let said = ran.stdout.lines().last().unwrap_or_default();
            self.0.push(format!("{row}: expected exit 20, found exit {}: {said}", ran.code));
        }
    }

    #[track_caller]
    fn assert_none(&self) {
        assert!(self.0.is_empty(), "{} rows went wrong:\n{}", self.0.len(), self.0.join("\n"));
    }
}

#[test]
fn the_untouched_copy_verifies() {
    let bench = Bench::with_runs();
    let verified = bench.verify(&[]).success();
    assert!(verified.stdout.contains("level 3 "), "{}", verified.stdout);
}

#[test]
fn other_bytes_under_the_digest_of_a_manifest_or_bundle() {
    let bench = Bench::with_runs();
    let mut wrong = UnexpectedResults::default();
    for stage in ["source", "plan", "provision", "execute", "record", "collect", "reduce", "publish"] {
        let Pointer { manifest, bundle, .. } = bench.accepted_pointer("one", stage);
        for (what, digest) in [("manifest", manifest), ("bundle", bundle)] {
            let path = blob(&bench.store(), &digest);
            let whole = fs::read(&path).expect("the blob is there");
            for (how, bytes) in field_changes(&whole) {
                write_file(&path, &bytes);
                wrong.check(&format!("{what} of {stage}, {how}"), &bench.verify(&[]), "artifact_corrupt");
            }
            fs::remove_file(&path).expect("the blob can be removed");
            wrong.check(&format!("{what} of {stage}, lost"), &bench.verify(&[]), &format!("{what}_missing"));
            write_file(&path, &whole);
        }
    }
    bench.verify(&[]).success();
    wrong.assert_none();
}

/// Returns a flipped byte, a changed value and a dropped member, the latter two still in canonical form.
fn field_changes(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let document: Value = serde_json::from_slice(bytes).expect("manifests and bundles are JSON");
    vec![
        ("a flipped byte", flip_bit(bytes)),
        ("a changed value", canonical(&change_first_text(&document))),
        ("a dropped member", canonical(&drop_first_member(&document))),
        ("another form", [bytes, b"\n"].concat()),
    ]
}

pub(crate) fn canonical(document: &Value) -> Vec<u8> {
    assay_manifest::canonical_value(document).expect("a document of this kind is canonical")
}

/// Returns the document with its first text changed that is neither a digest nor a word of the format.
fn change_first_text(document: &Value) -> Value {
    let mut document = document.clone();
    assert!(document.get_mut("body").is_some_and(change) || change(&mut document), "some text");
    document
}

fn change(value: &mut Value) -> bool {
    match value {
        Value::Object(members) => members.values_mut().any(change),
        Value::Array(items) => items.iter_mut().any(change),
        Value::String(text) => {
            text.push('0');
            true
        }
        _ => false,
    }
}

fn drop_first_member(document: &Value) -> Value {
    let mut document = document.clone();
    let part = if document.get("body").is_some() { &mut document["body"] } else { &mut document };
    let members = part.as_object_mut().expect("an object");
    let first = members.keys().next().expect("a member").clone();
    members.remove(&first);
    document
}

/// A run that was cut off after a stage, with the means to replace that stage's result.
struct CutRun {
    bench: Bench,
    stage: &'static str,
    own: Pointer,
    other: Pointer,
}

impl CutRun {
    fn after(stage: &'static str) -> Self {
        let bench = Bench::with_runs();
        let place = STAGES.iter().position(|(name, _)| *name == stage).expect("a stage");
        for (later, _) in &STAGES[place + 1..] {
            fs::remove_dir_all(bench.store().join("runs/one").join(later)).expect("the stage has a result");
        }
        let (own, other) = (bench.accepted_pointer("one", stage), bench.accepted_pointer("two", stage));
        Self { bench, stage, own, other }
    }

    fn manifest(&self) -> Vec<u8> {
        fs::read(blob(&self.bench.store(), &self.own.manifest)).expect("the manifest")
    }

    fn bundle(&self) -> Value {
        serde_json::from_slice(&fs::read(blob(&self.bench.store(), &self.own.bundle)).expect("the bundle")).expect("JSON")
    }

    fn put(&self, bytes: &[u8]) -> String {
        let digest = Digest::compute(bytes).to_string();
        write_file(&blob(&self.bench.store(), &digest), bytes);
        digest
    }

    /// Runs `assay verify` with this manifest and bundle in the stage's pointer.
    fn verify(&self, manifest: &str, bundle: &str) -> CommandResult {
        self.own.redirect(manifest, bundle);
        self.bench.verify(&[])
    }

    /// Like [`CutRun::verify`], with a manifest of other bytes and the own bundle.
    fn with_manifest(&self, bytes: &[u8]) -> CommandResult {
        self.verify(&self.put(bytes), &self.own.bundle)
    }

    /// Like [`CutRun::verify`], with a changed bundle and the own manifest.
    fn with_bundle(&self, change: impl FnOnce(&mut Value)) -> CommandResult {
        let mut bundle = self.bundle();
        change(&mut bundle);
        self.verify(&self.own.manifest, &self.put(&serde_json::to_vec(&bundle).expect("JSON")))
    }

    /// Like [`CutRun::verify`], with a changed statement, which is not signed.
    fn with_statement(&self, change: impl FnOnce(&mut Value)) -> CommandResult {
        self.with_bundle(|bundle| {
            let payload = &mut bundle["dsseEnvelope"]["payload"];
            let mut statement: Value = serde_json::from_slice(&base64_decode(text(payload))).expect("a statement");
            change(&mut statement);
            *payload = Value::String(base64_encode(&canonical(&statement)));
        })
    }

    /// Like [`CutRun::verify`], with the same manifest, signed anew with another key over the same claims.
    fn with_signer(&self, key: SecretKey) -> CommandResult {
        let (manifest, bundle) = (self.manifest(), fs::read(blob(&self.bench.store(), &self.own.bundle)).expect("the bundle"));
        let verified =
            verify(&manifest, &bundle, local_trust(), &ExpectedManifest::default()).expect("the untouched manifest verifies");
        let (signer, predicate) = (Signer::new(key), verified.predicate().clone());
        let signed = match verified.value() {
            Document::Source(manifest) => sign(manifest, &signer, predicate),
            Document::Plan(manifest) => sign(manifest, &signer, predicate),
            Document::Environment(manifest) => sign(manifest, &signer, predicate),
            Document::ExecutionPart(manifest) => sign(manifest, &signer, predicate),
            Document::Collection(manifest) => sign(manifest, &signer, predicate),
            Document::Summary(manifest) => sign(manifest, &signer, predicate),
            Document::Publication(manifest) => sign(manifest, &signer, predicate),
            other => panic!("no stage ends with a {}", other.kind()),
        };
        let signed = signed.expect("a key signs what it is given");
        assert_eq!(signed.input_ref().manifest.to_string(), self.own.manifest);
        self.verify(&self.own.manifest, &self.put(&signed.bundle))
    }
}

fn base64_decode(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}

fn base64_encode(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(crate) fn local_key(role: Role) -> SecretKey {
    key_of(measured_fixture(), role)
}

/// Returns a role's key of this fixture.
pub(crate) fn key_of(fixture: &Fixture, role: Role) -> SecretKey {
    // Nearly all keys of tests have one salt: the work of unlocking is done once, not for each document that is signed again.
    static PASSWORD: LazyLock<Password> = LazyLock::new(|| Password::new(b"").expect("a password"));
    let text = fs::read_to_string(fixture.key(role.as_str())).expect("a local key");
    SecretKey::decrypt_with(&text, &PASSWORD).expect("the keys of tests have no password")
}

/// Returns the trust of the fixture's own policy.
pub(crate) fn local_trust() -> &'static Trust {
    static TRUST: LazyLock<Trust> = LazyLock::new(|| {
        let signers = Role::RUN.map(|role| TrustedSigner::new(format!("local-{role}"), local_key(role).public_key(), [role]));
        Trust::Policy(TrustPolicy::from_signers("local", signers.into()))
    });
    &TRUST
}

fn check_redirected(stage: &'static str) {
    let cut = CutRun::after(stage);
    let mut wrong = UnexpectedResults::default();
    let mut row = |how: &str, ran: CommandResult, error: &str| wrong.check(&format!("{stage}, {how}"), &ran, error);

    // The manifest.
    for (how, bytes) in field_changes(&cut.manifest()) {
        row(&format!("manifest with {how}"), cut.with_manifest(&bytes), "subject_digest_mismatch");
    }
    row("no JSON", cut.with_manifest(b"\xff\x00"), "subject_digest_mismatch");
    row("manifest and bundle of another run", cut.verify(&cut.other.manifest, &cut.other.bundle), "wrong_run");
    row("manifest of another run", cut.verify(&cut.other.manifest, &cut.own.bundle), "subject_digest_mismatch");
    row("bundle of another run", cut.verify(&cut.own.manifest, &cut.other.bundle), "subject_digest_mismatch");

    // The manifest of another stage.
    let neighbour = cut.bench.accepted_pointer("one", "record");
    row("bundle of another stage", cut.verify(&cut.own.manifest, &neighbour.bundle), "subject_digest_mismatch");
    row("manifest and bundle of another stage", cut.verify(&neighbour.manifest, &neighbour.bundle), "wrong_kind");

    // The bundle.
    let signature = "/dsseEnvelope/signatures/0/sig";
    let set = |place: &'static str, value: Value| move |document: &mut Value| *document.pointer_mut(place).expect(place) = value;
    row(
        "signature of other bytes",
        cut.with_bundle(|bundle| {
            let mut bytes = base64_decode(text(bundle.pointer(signature).expect("a signature")));
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            *bundle.pointer_mut(signature).expect("a signature") = Value::String(base64_encode(&bytes));
        }),
        "bad_signature",
    );
    row("no signature", cut.with_bundle(set("/dsseEnvelope/signatures", json!([]))), "signature_count");
    row("another payload type", cut.with_bundle(set("/dsseEnvelope/payloadType", json!("text/plain"))), "wrong_payload_type");
    row(
        "another bundle version",
        cut.with_bundle(set("/mediaType", json!("application/vnd.dev.sigstore.bundle.v9+json"))),
        "unknown_bundle_version",
    );
    let hint = |fingerprint: Digest| base64_encode(&hex(&fingerprint));
    let other_role = if stage == "execute" { Role::Plan } else { Role::Execute };
    let listed = hint(local_key(other_role).public_key().fingerprint());
    row(
        "hint of another listed key",
        cut.with_bundle(set("/verificationMaterial/publicKey/hint", json!(listed))),
        "bad_signature",
    );
    let unlisted = hint(Digest::compute(b"nobody's key"));
    row("hint of an unlisted key", cut.with_bundle(set("/verificationMaterial/publicKey/hint", json!(unlisted))), "unknown_key");
    row("bundle with another member", cut.with_bundle(|bundle| bundle["more"] = json!(1)), "bundle_malformed");
    row(
        "bundle without its envelope",
        cut.with_bundle(|bundle| {
            bundle.as_object_mut().expect("an object").remove("dsseEnvelope");
        }),
        "bundle_malformed",
    );

    // The statement, which is the signed part.
    let zero = "0".repeat(64);
    row("predicate type", cut.with_statement(set("/predicateType", json!("https://slsa.dev/provenance/v0.2"))), "bad_signature");
    row("subject digest", cut.with_statement(set("/subject/0/digest/sha256", json!(zero))), "bad_signature");
    row(
        "predicate dropped",
        cut.with_statement(|statement| {
            statement.as_object_mut().expect("an object").remove("predicate");
        }),
        "bad_signature",
    );

    // The signer.
    row("signed with another stage's key", cut.with_signer(local_key(other_role)), "wrong_signer");
    row("signed with an unlisted key", cut.with_signer(SecretKey::generate().expect("a key")), "unknown_key");

    // The pointer.
    let absent = format!("sha256:{zero}");
    row("pointer to no manifest", cut.verify(&absent, &cut.own.bundle), "manifest_missing");
    row("pointer to no bundle", cut.verify(&cut.own.manifest, &absent), "bundle_missing");
    write_file(&cut.own.path, b"{}");
    row("a damaged pointer", cut.bench.verify(&[]), "pointer");

    // With the original restored, the only fault is that the run was cut off.
    let whole = cut.verify(&cut.own.manifest, &cut.own.bundle);
    if cut.stage == "publish" {
        whole.success();
    } else {
        whole.refuses(21, "run_incomplete");
    }
    wrong.assert_none();
}

fn hex(digest: &Digest) -> Vec<u8> {
    let hex = digest.hex();
    (0..hex.len()).step_by(2).map(|place| u8::from_str_radix(&hex[place..place + 2], 16).expect("hexadecimal")).collect()
}

#[test]
fn a_source_in_another_s_place() {
    check_redirected("source");
}

#[test]
fn a_plan_in_another_s_place() {
    check_redirected("plan");
}

#[test]
fn an_environment_in_another_s_place() {
    check_redirected("provision");
}

#[test]
fn an_execution_part_in_another_s_place() {
    check_redirected("execute");
}

#[test]
fn a_collection_in_another_s_place() {
    check_redirected("collect");
}

#[test]
fn a_summary_in_another_s_place() {
    check_redirected("reduce");
}

#[test]
fn a_publication_in_another_s_place() {
    check_redirected("publish");
}

/// Publish itself signs a higher grade than the evidence supports.
#[test]
fn a_grade_that_the_evidence_does_not_earn_is_refused() {
    let cut = CutRun::after("publish");
    let bundle = fs::read(blob(&cut.bench.store(), &cut.own.bundle)).expect("the bundle");
    let verified =
        verify(&cut.manifest(), &bundle, local_trust(), &ExpectedManifest::default()).expect("the untouched manifest verifies");
    let Document::Publication(published) = verified.value() else { panic!("publish ends with a publication") };
    let mut lie = published.clone();
    (lie.body.grade.requested, lie.body.grade.given) = (Intent::Publication, Intent::Publication);
    let numbers = fs::read(blob(&cut.bench.store(), &lie.body.numbers.digest.to_string())).expect("the numbers");
    let mut numbers: Value = serde_json::from_slice(&numbers).expect("JSON");
    numbers["grade"] = json!(lie.body.grade);
    let numbers = canonical(&numbers);
    (lie.body.numbers.digest, lie.body.numbers.size) = (Digest::compute(&numbers), Count(numbers.len() as u64));
    cut.put(&numbers);
    let signer = Signer::new(local_key(Role::Publish));
    let signed = sign(&lie, &signer, verified.predicate().clone()).expect("a key signs what it is given");
    cut.verify(&cut.put(&signed.manifest), &cut.put(&signed.bundle)).refuses(20, "other_grade");
}

#[test]
fn every_subject_of_every_statement_is_checked() {
    let bench = Bench::with_runs();
    let mut wrong = UnexpectedResults::default();
    let mut seen = std::collections::BTreeMap::new();
    for (kind, name, digest) in subjects(&bench) {
        seen.entry(digest).or_insert((kind, name));
    }
    assert!(seen.len() > 30, "sources, workloads, raw outputs, rows, reports and keys: {}", seen.len());
    for (digest, (kind, name)) in seen {
        let path = blob(&bench.store(), &digest);
        let whole = fs::read(&path).expect("the subject is there");
        write_file(&path, &flip_bit(&whole));
        wrong.check(&format!("`{name}` of the {kind}, a flipped byte"), &bench.verify(&[]), "artifact_corrupt");
        write_file(&path, &whole);
    }
    // The raw artifacts are subjects only of the list of them.
    let evidence = evidence(&bench);
    assert!(evidence.len() > 12, "two raw outputs of each trial, and recordings");
    for (name, digest) in evidence {
        let path = blob(&bench.store(), &digest);
        let whole = fs::read(&path).expect("the evidence is there");
        write_file(&path, &flip_bit(&whole));
        wrong.check(&format!("evidence `{name}`, a flipped byte"), &bench.verify(&[]), "artifact_corrupt");
        write_file(&path, &whole);
    }
    wrong.assert_none();
}

/// Returns the subjects of all statements of the run `one`: kind, name and digest.
fn subjects(bench: &Bench) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for stage in ["source", "plan", "provision", "execute", "record", "collect", "reduce", "publish"] {
        let pointer = bench.accepted_pointer("one", stage);
        let bundle: Value =
            serde_json::from_slice(&fs::read(blob(&bench.store(), &pointer.bundle)).expect("a bundle")).expect("JSON");
        let statement: Value = serde_json::from_slice(&base64_decode(text(&bundle["dsseEnvelope"]["payload"]))).expect("JSON");
        for subject in list(&statement["subject"]) {
            let digest = format!("sha256:{}", text(&subject["digest"]["sha256"]));
            found.push((stage.to_owned(), text(&subject["name"]).to_owned(), digest));
        }
    }
    found
}

fn evidence(bench: &Bench) -> Vec<(String, String)> {
    let collection = bench.accepted_pointer("one", "collect").load(&bench.store());
    let listed = fs::read(blob(&bench.store(), text(&collection["body"]["evidence"]["digest"]))).expect("the list of evidence");
    let listed: Value = serde_json::from_slice(&listed).expect("JSON");
    list(&listed).iter().map(|one| (text(&one["name"]).to_owned(), text(&one["digest"]).to_owned())).collect()
}

#[test]
fn what_is_lost_lowers_the_level_or_breaks_the_chain() {
    let bench = Bench::with_runs();
    let lost = |digest: &str| {
        let path = blob(&bench.store(), digest);
        let whole = fs::read(&path).expect("the blob is there");
        fs::remove_file(&path).expect("the blob can be removed");
        let ran = bench.verify(&[]);
        write_file(&path, &whole);
        ran
    };
    // Raw evidence may be missing, since it need not be kept for ever; verify reports it.
    let (name, raw) = evidence(&bench).into_iter().find(|(name, _)| name.ends_with("/stdout")).expect("raw output");
    let ran = lost(&raw).success();
    assert!(ran.stdout.contains("level 2 ") && ran.stdout.contains(&name), "{}", ran.stdout);

    let mut wrong = UnexpectedResults::default();
    let source = bench.accepted_pointer("one", "source").load(&bench.store());
    for object in list(&source["body"]["objects"]) {
        let kind = text(&object["kind"]);
        wrong.check(&format!("a lost {kind}"), &lost(text(&object["artifact"]["digest"])), "artifact_absent");
    }
    wrong.check("a lost source file", &lost(text(&source["body"]["files"][0]["artifact"]["digest"])), "artifact_absent");
    let publication = bench.accepted_pointer("one", "publish").load(&bench.store());
    wrong.check("lost numbers", &lost(text(&publication["body"]["numbers"]["digest"])), "artifact_absent");
    wrong.assert_none();
}

#[test]
fn a_missing_stage_is_named() {
    let bench = Bench::with_runs();
    for (stage, kind) in STAGES.iter().rev().take(6) {
        fs::remove_dir_all(bench.store().join("runs/one").join(stage)).expect("the stage has a result");
        let ran = bench.verify(&[]).refuses(21, "run_incomplete");
        let place = STAGES.iter().position(|(name, _)| name == stage).expect("a stage");
        let expected = match STAGES[place - 1].0 {
            "source" => "no stage of it has finished".to_owned(),
            before => format!("its last finished stage is {before}"),
        };
        assert!(ran.stderr.contains(&expected), "without the {kind}: {}", ran.stderr);
    }
    fs::remove_file(bench.store().join("runs/one/source")).expect("the run has a source");
    bench.verify(&[]).refuses(2, "no_such_run");
}

#[test]
fn an_older_run_of_the_same_name_is_another_run() {
    // The same commit, keys and name: only the measurements differ.
    let older = Fixture::new();
    older.run("one").success();
    let bench = Bench::with_runs();
    copy_folder(&older.store().join("blobs"), &bench.store().join("blobs"));
    let older_of = |stage: &str| older.pointer("one", stage);
    let mut wrong = UnexpectedResults::default();

    for (stage, _) in &STAGES[1..] {
        let mixed = bench.store().join("runs/one").join(stage).join("0".repeat(64)).join("accepted/0");
        // Two accepted results of one stage, one of them the older run's.
        write_file(&mixed, &fs::read(&older_of(stage).path).expect("a pointer"));
        let ran = bench.verify(&[]);
        if *stage == "publish" {
            wrong.check("two publications", &ran, "too_many");
        } else {
            // A manifest that the Publication does not name is not part of its chain.
            assert_eq!(ran.code, 0, "{stage}: {}", ran.stderr);
        }
        fs::remove_dir_all(bench.store().join("runs/one").join(stage).join("0".repeat(64))).expect("put there before");
    }

    // Stages do not accept the two together either.
    let plan = bench.accepted_pointer("one", "plan").input();
    let environment = bench.accepted_pointer("one", "provision").input();
    let part = older_of("execute").input();
    bench.stage("collect", &[&plan, &environment, &part]).refuses(20, "other_input");
    let collection = older_of("collect").input();
    bench.stage("reduce", &[&plan, &collection, &environment]).refuses(20, "other_input");
    wrong.assert_none();
}

/// A copy of the published folder of the run `one`.
struct PublishedCopy(TempDir);

impl PublishedCopy {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(measured_fixture().scratch()).expect("a folder for the copy");
        copy_folder(&measured_fixture().published("one"), folder.path());
        Self(folder)
    }

    fn verify(&self) -> CommandResult {
        measured_fixture().assay(&["verify", &self.0.path().display().to_string()])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn relative(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).expect("below it").display().to_string()
}

#[test]
fn a_published_folder_reaches_level_2_on_its_own() {
    let published = PublishedCopy::new();
    let verified = published.verify().success();
    assert!(verified.stdout.contains("level 2 "), "{}", verified.stdout);
}

#[test]
fn every_file_of_a_published_folder_is_checked() {
    let published = PublishedCopy::new();
    let mut wrong = UnexpectedResults::default();
    for path in files_under(published.0.path()) {
        let name = relative(published.0.path(), &path);
        let whole = fs::read(&path).expect("a file of the folder");
        write_file(&path, &flip_bit(&whole));
        wrong.check_refused(&format!("`{name}` with a flipped byte"), &published.verify());
        fs::remove_file(&path).expect("the file can be removed");
        wrong.check_refused(&format!("`{name}` lost"), &published.verify());
        write_file(&path, &whole);
    }
    wrong.assert_none();
}

#[test]
fn a_published_folder_s_files_stand_where_they_belong() {
    // A reader opens `numbers.json`, not any file that has its digest.
    let published = PublishedCopy::new();
    let numbers = published.path("numbers.json");
    let whole = fs::read(&numbers).expect("numbers.json");
    write_file(&published.path("rows/more.bin"), &whole);
    write_file(&numbers, String::from_utf8_lossy(&whole).replace("100.25", "900.25").as_bytes());
    published.verify().exits(20);
}

#[test]
fn a_published_folder_s_manifests_are_refused_by_name() {
    let published = PublishedCopy::new();
    let mut wrong = UnexpectedResults::default();
    let [two, one] = [measured_fixture().published("two"), measured_fixture().published("one")];
    for path in files_under(&one.join("chain")) {
        let name = relative(&one, &path);
        let whole = fs::read(&path).expect("a file of the folder");
        // The publication is found by its path; any other manifest and bundle by the digest that pins it.
        let expected = match name.as_str() {
            "chain/publication.json" | "chain/publication.sigstore.json" => "subject_digest_mismatch",
            name if name.ends_with(".sigstore.json") => "bundle_missing",
            _ => "manifest_missing",
        };
        let other = fs::read(two.join(&name)).expect("the other run has it as well");
        write_file(&published.path(&name), &other);
        wrong.check(&format!("`{name}` of another run"), &published.verify(), expected);
        write_file(&published.path(&name), &whole);
    }
    fs::remove_file(published.path("chain/publication.json")).expect("it is there");
    wrong.check("no publication", &published.verify(), "not_a_publication");
    wrong.assert_none();
}

/// A trace prints the samples of each trial: changed ones are no samples, and the command fails whatever else it prints.
#[test]
fn a_trace_to_changed_samples_fails() {
    let fixture = measured_fixture();
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    copy_folder(&fixture.store(), &store);
    let place = store.to_str().expect("text");
    let sql = "SELECT row_id FROM outcome_fact WHERE run_id = 'one' AND statistic = 'median' ORDER BY row_id";
    let rows = fixture.assay(&["query", sql, "--format", "json"]).success().stdout;
    let row: Value = serde_json::from_str(rows.lines().next().expect("a number")).expect("JSON");
    let address = format!("one/outcome_fact/{}/value", text(&row["row_id"]));
    let trace = |more: &[&str]| fixture.assay(&[&["trace", &address, "--store", place], more].concat());
    let before = trace(&[]).success();
    let digests: Vec<String> =
        before.stdout.lines().filter_map(|line| Some(line.trim().strip_prefix("raw ")?.split(' ').next()?.to_owned())).collect();
    let changed = blob(&store, digests.first().expect("raw samples"));
    let bytes = fs::read(&changed).expect("a blob");
    fs::remove_file(&changed).expect("removed");
    write_file(&changed, &flip_bit(&bytes));
    for more in [&[][..], &["--json"], &["--recompute"]] {
        trace(more).refuses(20, "artifact_corrupt");
    }
    fs::remove_file(&changed).expect("removed");
    let absent = trace(&[]).success();
    assert!(absent.stdout.contains("raw samples are not here"), "{}", absent.stdout);
}
