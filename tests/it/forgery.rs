//! A finished run that one role falsified: it signs a false result with its own key, and the honest stages make everything downstream
//! from it.
//!
//! [`Forgery::forge_manifest`], [`Forgery::forge_artifact`] and [`Forgery::forge_rows`] change one thing. Up to the recordings, the results
//! that were made from the changed manifest are signed again by their own roles, with the digests that they must now name; nothing is
//! measured again. From collect on, the honest programs run. If one of them refuses the falsification, [`Forgery::refused_by`]
//! returns which, and with what error; if none does, [`Forgery::verify`] returns what a reader finds.

use std::collections::BTreeMap;
use std::fs;

use assay_envelope::{ExpectedManifest, Predicate, ResourceDescriptor, Signer, sign, verify};
use assay_manifest::{Digest, Document, InputRef, Role};
use assay_warehouse::{Row, Table};
use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::pipeline::{list, text};
use crate::support::{CommandResult, Pointer, blob, measured_fixture, write_file};
use crate::tamper::{canonical, key_of, local_trust};

/// The stages in the order of the chain, each with the role whose key signs.
pub(crate) const STAGES: [(&str, Role); 8] = [
    ("source", Role::Source),
    ("plan", Role::Plan),
    ("provision", Role::Provision),
    ("execute", Role::Execute),
    ("record", Role::Collect),
    ("collect", Role::Collect),
    ("reduce", Role::Reduce),
    ("publish", Role::Publish),
];

/// The stages that run again, honestly, downstream of a falsification; the results of the other stages are signed again instead.
const RUN_AGAIN: [&str; 3] = ["collect", "reduce", "publish"];

/// A change of a manifest, and of the store.
pub(crate) type Edit = Box<dyn FnOnce(&Bench, &mut Value)>;

/// A run with a falsified result, in a separate store.
pub(crate) struct Forgery {
    bench: Bench,
    /// Digests that other results still name, each with the digest that replaces it.
    renamed: BTreeMap<String, String>,
    /// A further change of the result of a later stage, which is signed again.
    further: Option<(&'static str, Edit)>,
    refusal: Option<(&'static str, CommandResult)>,
}

impl Forgery {
    /// Falsifies the run `one` of two indicators: a stage signs a changed manifest. `edit` is given the manifest's body.
    pub(crate) fn forge_manifest(stage: &str, edit: impl FnOnce(&mut Value)) -> Self {
        Self::forge(stage, |_, manifest| edit(&mut manifest["body"]))
    }

    /// Like [`Forgery::forge_manifest`], but a stage signs a changed artifact of that name.
    pub(crate) fn forge_artifact(stage: &str, name: &str, edit: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        Self::forge(stage, |bench, manifest| replace_artifact(bench, manifest, name, edit))
    }

    /// Like [`Forgery::forge_manifest`], but reduce signs changed rows of a table.
    pub(crate) fn forge_rows(table: &'static Table, edit: impl FnOnce(&mut Vec<Row>)) -> Self {
        Self::forge("reduce", |bench, manifest| replace_rows(bench, manifest, table, edit))
    }

    /// Like [`Forgery::forge_manifest`], but `edit` may change the whole manifest of the stage and the store.
    pub(crate) fn forge(stage: &str, edit: impl FnOnce(&Bench, &mut Value)) -> Self {
        Self::forge_with_statement(stage, edit, |_| {})
    }

    /// Like [`Forgery::forge`], with another statement about the manifest as well.
    pub(crate) fn forge_with_statement(
        stage: &str,
        edit: impl FnOnce(&Bench, &mut Value),
        state: impl FnOnce(&mut Predicate),
    ) -> Self {
        Self::forge_in(Bench::with_runs(), stage, edit, state)
    }

    /// Like [`Forgery::forge_with_statement`], for the run `one` of a bench.
    pub(crate) fn forge_in(
        bench: Bench,
        stage: &str,
        edit: impl FnOnce(&Bench, &mut Value),
        state: impl FnOnce(&mut Predicate),
    ) -> Self {
        Self::forge_two(bench, stage, edit, state, None)
    }

    /// Like [`Forgery::forge_in`], with a further change of the result of a later stage up to the recordings.
    pub(crate) fn forge_two(
        bench: Bench,
        stage: &str,
        edit: impl FnOnce(&Bench, &mut Value),
        state: impl FnOnce(&mut Predicate),
        further: Option<(&'static str, Edit)>,
    ) -> Self {
        let place = STAGES.iter().position(|(name, _)| *name == stage).expect("a stage");
        if stage != "publish" {
            // The honest publish commits rows under the run's name that differ from those in the tables.
            fs::remove_dir_all(bench.store().join("warehouse")).expect("it was copied");
        }
        let mut forgery = Self { bench, renamed: BTreeMap::new(), further, refusal: None };
        let (_, role) = STAGES[place];
        let pointer = forgery.bench.accepted_pointer("one", stage);
        let mut manifest = pointer.load(&forgery.bench.store());
        let plan = digest_of_body(&manifest);
        edit(&forgery.bench, &mut manifest);
        if stage == "plan" {
            forgery.renamed.insert(plan, digest_of_body(&manifest));
        }
        forgery.sign_again(&pointer, role, &manifest, state);
        for (name, role) in &STAGES[place + 1..] {
            // A plan follows from its Source alone, so an honest plan stage treats a false Source like any other.
            let runs_again = RUN_AGAIN.contains(name) || (stage == "source" && *name == "plan");
            match runs_again {
                _ if forgery.refusal.is_some() => {}
                true => forgery.run_again(name),
                false => forgery.sign_follower(name, *role),
            }
        }
        forgery
    }

    /// Returns the stage that refused the falsification, with its error, or `None` if every honest stage accepted it.
    pub(crate) fn refused_by(&self) -> Option<(&'static str, String)> {
        self.refusal.as_ref().map(|(stage, ran)| (*stage, ran.error().unwrap_or_else(|| format!("exit {}", ran.code))))
    }

    /// Returns the store of the falsified run.
    pub(crate) fn into_bench(self) -> Bench {
        self.bench
    }

    /// Runs `assay` with the store of the falsified run.
    pub(crate) fn assay(&self, arguments: &[&str]) -> CommandResult {
        self.bench.assay(arguments)
    }

    /// Verifies the run as a reader.
    pub(crate) fn verify(&self, more: &[&str]) -> CommandResult {
        self.bench.verify(more)
    }

    /// Queries the warehouse as a reader.
    pub(crate) fn query(&self, sql: &str) -> CommandResult {
        self.bench.query(sql)
    }

    /// Returns the error with which a stage or `assay verify` refuses the falsification: `publish: evidence_incomplete`, or `verify:
    /// row_differs`. `level` is the level that a reader verifies, 1 to 4. If it is not refused, returns the last line of the output,
    /// such as `level 3 (raw bytes) of 4 reached`.
    pub(crate) fn describe_detection(&self, level: u8) -> String {
        if let Some((stage, error)) = self.refused_by() {
            return format!("{stage}: {error}");
        }
        let ran = self.verify(if level == 4 { &["--recompute"] } else { &[] });
        match ran.error() {
            Some(error) => format!("verify: {error}"),
            None => ran.stdout.lines().last().unwrap_or_default().to_owned(),
        }
    }

    /// Signs the result of a stage again, with the current digests of its inputs.
    fn sign_follower(&mut self, stage: &str, role: Role) {
        let pointer = self.bench.accepted_pointer("one", stage);
        let mut manifest = self.load_with_renamed_inputs(&pointer);
        if let Some((_, edit)) = self.further.take_if(|(further, _)| *further == stage) {
            edit(&self.bench, &mut manifest);
        }
        self.sign_again(&pointer, role, &manifest, |_| {});
    }

    /// Runs a stage again.
    fn run_again(&mut self, stage: &'static str) {
        let pointer = self.bench.accepted_pointer("one", stage);
        let manifest = self.load_with_renamed_inputs(&pointer);
        let inputs: Vec<String> = list(&manifest["header"]["inputs"]).iter().map(input_of).collect();
        fs::remove_dir_all(self.bench.store().join("runs/one").join(stage)).expect("the stage has a result");
        let ran = self.bench.stage(stage, &inputs.iter().collect::<Vec<_>>());
        if ran.code != 0 {
            self.refusal = Some((stage, ran));
            return;
        }
        let mut made = self.bench.accepted_pointer("one", stage);
        if stage == "plan" {
            // Otherwise it would be younger than the measurements that follow it.
            made = self.sign_with_times_of(&pointer, &made);
        }
        let bodies = [&pointer, &made].map(|pointer| digest_of_body(&pointer.load(&self.bench.store())));
        let [before, after] = bodies;
        self.renamed.insert(before, after);
        self.rename(&pointer, &made.manifest, &made.bundle);
    }

    /// Signs the new plan with the times of the original plan.
    fn sign_with_times_of(&mut self, then: &Pointer, now: &Pointer) -> Pointer {
        let [manifest, bundle] =
            [&then.manifest, &then.bundle].map(|digest| fs::read(blob(&self.bench.store(), digest)).expect("a blob"));
        let honest = verify(&manifest, &bundle, local_trust(), &ExpectedManifest::default()).expect("the honest plan verifies");
        let Predicate::Provenance(before) = honest.predicate() else { panic!("a plan states how it was made") };
        let at = (before.started_on, before.finished_on);
        let plan = now.load(&self.bench.store());
        self.sign_again(now, Role::Plan, &plan, |predicate| {
            let Predicate::Provenance(provenance) = predicate else { panic!("a plan states how it was made") };
            (provenance.started_on, provenance.finished_on) = at;
        });
        self.bench.accepted_pointer("one", "plan")
    }

    /// Returns the manifest of a pointer, with the current digests of its inputs.
    fn load_with_renamed_inputs(&self, pointer: &Pointer) -> Value {
        let mut manifest = pointer.load(&self.bench.store());
        rename(&mut manifest, &self.renamed);
        sort_inputs(&mut manifest);
        manifest
    }

    /// Signs a manifest with a role's own key, puts it into the store and names it as the accepted result.
    fn sign_again(&mut self, pointer: &Pointer, role: Role, manifest: &Value, state: impl FnOnce(&mut Predicate)) {
        let store = self.bench.store();
        let [bytes, bundle] = [&pointer.manifest, &pointer.bundle].map(|digest| fs::read(blob(&store, digest)).expect("a blob"));
        let honest = verify(&bytes, &bundle, local_trust(), &ExpectedManifest::default()).expect("the honest manifest verifies");
        let document = Document::parse(&canonical(manifest)).expect("a lie is well formed");
        let mut predicate = honest.predicate().clone();
        // The parts of the statement that repeat the manifest follow the falsified one; signing adds the inputs anew.
        match &mut predicate {
            Predicate::Provenance(provenance) => {
                provenance.resolved_dependencies = self.dependencies_of(&document);
                (provenance.role, provenance.run_id) = (document.header().stage, document.header().run_id.clone());
            }
            Predicate::VerificationSummary(summary) => summary.input_attestations.clear(),
            Predicate::TestResult(_) => {}
        }
        state(&mut predicate);
        let signed = sign(&document, &Signer::new(key_of(measured_fixture(), role)), predicate).expect("it signs");
        let (manifest, bundle) = (put(&self.bench, &signed.manifest), put(&self.bench, &signed.bundle));
        pointer.redirect(&manifest, &bundle);
        self.rename(pointer, &manifest, &bundle);
    }

    /// Returns the dependencies besides the inputs that the statement about a manifest names.
    fn dependencies_of(&self, document: &Document) -> Vec<ResourceDescriptor> {
        if let Document::Source(source) = document {
            return assay_stage::source_dependencies(&source.body);
        }
        let read = |input: &InputRef| fs::read(blob(&self.bench.store(), &input.manifest.to_string())).ok();
        let inputs = document.header().inputs.iter().filter_map(read);
        let inputs: Vec<Document> = inputs.filter_map(|bytes| Document::parse(&bytes).ok()).collect();
        assay_stage::dependencies(inputs.iter())
    }

    fn rename(&mut self, pointer: &Pointer, manifest: &str, bundle: &str) {
        self.renamed.insert(pointer.manifest.clone(), manifest.to_owned());
        self.renamed.insert(pointer.bundle.clone(), bundle.to_owned());
    }
}

/// Puts bytes into the store of a bench and returns their digest.
pub(crate) fn put(bench: &Bench, bytes: &[u8]) -> String {
    let digest = Digest::compute(bytes).to_string();
    write_file(&blob(&bench.store(), &digest), bytes);
    digest
}

fn digest_of_body(manifest: &Value) -> String {
    Digest::compute(&canonical(&manifest["body"])).to_string()
}

fn input_of(input: &Value) -> String {
    format!("{},{}", text(&input["manifest"]), text(&input["bundle"]))
}

/// Sorts the inputs of a manifest, because new digests may change their order.
pub(crate) fn sort_inputs(manifest: &mut Value) {
    let mut inputs: Vec<InputRef> = serde_json::from_value(manifest["header"]["inputs"].clone()).expect("inputs");
    inputs.sort_unstable();
    manifest["header"]["inputs"] = json!(inputs);
}

/// Replaces every text that is a renamed digest.
fn rename(value: &mut Value, renamed: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|value| rename(value, renamed)),
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, renamed)),
        Value::String(text) => {
            if let Some(now) = renamed.get(text) {
                now.clone_into(text);
            }
        }
        _ => {}
    }
}

/// Replaces the artifact of that name, wherever a manifest names it.
pub(crate) fn replace_artifact(bench: &Bench, manifest: &mut Value, name: &str, edit: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let mut artifacts = Vec::new();
    artifacts_of(&mut manifest["body"], name, &mut artifacts);
    let first = artifacts.first().unwrap_or_else(|| panic!("the manifest has no `{name}`"));
    let bytes = edit(fs::read(blob(&bench.store(), text(&first["digest"]))).expect("the artifact's bytes"));
    let (digest, size) = (json!(put(bench, &bytes)), json!(bytes.len().to_string()));
    for artifact in artifacts {
        (artifact["digest"], artifact["size"]) = (digest.clone(), size.clone());
    }
}

fn artifacts_of<'a>(value: &'a mut Value, name: &str, found: &mut Vec<&'a mut Value>) {
    if value["name"] == name && value["digest"].is_string() && value["media_type"].is_string() {
        return found.push(value);
    }
    match value {
        Value::Object(members) => members.values_mut().for_each(|value| artifacts_of(value, name, found)),
        Value::Array(items) => items.iter_mut().for_each(|value| artifacts_of(value, name, found)),
        _ => {}
    }
}

/// Replaces the rows of a table of a Summary. Rows are sealed again, so that their ids match.
pub(crate) fn replace_rows(bench: &Bench, manifest: &mut Value, table: &'static Table, edit: impl FnOnce(&mut Vec<Row>)) {
    let mut count = 0;
    replace_artifact(bench, manifest, &format!("rows/{}.parquet", table.name), |bytes| {
        let mut rows = assay_warehouse::read(table, bytes).expect("curated rows");
        edit(&mut rows);
        count = rows.len();
        let mut bytes = Vec::new();
        let sealed = rows.into_iter().map(|row| row.seal().expect("a whole row"));
        assay_warehouse::write(table, sealed.collect::<Vec<_>>(), &mut bytes).expect("rows can be written");
        bytes
    });
    let files = manifest["body"]["files"].as_array_mut().expect("curated files");
    let file = files.iter_mut().find(|file| file["table"] == table.name).expect("the table's file");
    file["rows"] = json!(count.to_string());
}
