//! A finished run of which one role lies: it signs something false with its own key, and everything downstream is made by the honest
//! others from what it signed.
//!
//! [`Forgery::of_manifest`], [`Forgery::of_artifact`] and [`Forgery::of_rows`] change one thing. Up to the recordings, what was made
//! from the changed manifest is signed again by its own role, with the digests that it must now name: nobody measures again. From
//! collect on, the honest programs run. If one of them refuses the lie, [`Forgery::refused_by`] says which, and with what error; if
//! none does, [`Forgery::verify`] says what a reader finds.

use std::collections::BTreeMap;
use std::fs;

use assay_envelope::{ExpectedManifest, Predicate, ResourceDescriptor, Signer, sign, verify};
use assay_manifest::{Digest, Document, InputRef, Role};
use assay_warehouse::{Row, Table};
use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::pipeline::{list, text};
use crate::support::{Pointer, Ran, blob, measured, write_file};
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

/// The stages that run again, honestly, downstream of a lie; what the ones before them made is signed again instead.
const RUN_AGAIN: [&str; 3] = ["collect", "reduce", "publish"];

/// A run with a lie in it, in a store of its own.
pub(crate) struct Forgery {
    bench: Bench,
    /// What no longer has the digest that others name it by, and the digest that it has now.
    renamed: BTreeMap<String, String>,
    refusal: Option<(&'static str, Ran)>,
}

impl Forgery {
    /// The run `one` of two indicators, in which a stage signs a changed manifest. `edit` is given the manifest's body.
    pub(crate) fn of_manifest(stage: &str, edit: impl FnOnce(&mut Value)) -> Self {
        Self::forge(stage, |_, manifest| edit(&mut manifest["body"]))
    }

    /// The same, in which a stage signs a changed artifact of that name.
    pub(crate) fn of_artifact(stage: &str, name: &str, edit: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        Self::forge(stage, |bench, manifest| replace_artifact(bench, manifest, name, edit))
    }

    /// The same, in which reduce signs changed rows of a table.
    pub(crate) fn of_rows(table: &'static Table, edit: impl FnOnce(&mut Vec<Row>)) -> Self {
        Self::forge("reduce", |bench, manifest| replace_rows(bench, manifest, table, edit))
    }

    /// The same, in which a stage signs whatever `edit` makes of its whole manifest and of the store.
    pub(crate) fn forge(stage: &str, edit: impl FnOnce(&Bench, &mut Value)) -> Self {
        Self::forge_stated(stage, edit, |_| {})
    }

    /// The same, with another statement about the manifest as well.
    pub(crate) fn forge_stated(stage: &str, edit: impl FnOnce(&Bench, &mut Value), state: impl FnOnce(&mut Predicate)) -> Self {
        Self::of_bench(Bench::with_runs(), stage, edit, state)
    }

    /// The same, of the run `one` of a bench.
    pub(crate) fn of_bench(
        bench: Bench,
        stage: &str,
        edit: impl FnOnce(&Bench, &mut Value),
        state: impl FnOnce(&mut Predicate),
    ) -> Self {
        let place = STAGES.iter().position(|(name, _)| *name == stage).expect("a stage");
        if stage != "publish" {
            // The honest publish commits other rows under the run's name than the tables hold.
            fs::remove_dir_all(bench.store().join("warehouse")).expect("it was copied");
        }
        let mut forgery = Self { bench, renamed: BTreeMap::new(), refusal: None };
        let (_, role) = STAGES[place];
        let pointer = forgery.bench.of("one", stage);
        let mut manifest = pointer.load(&forgery.bench.store());
        let plan = digest_of_body(&manifest);
        edit(&forgery.bench, &mut manifest);
        if stage == "plan" {
            forgery.renamed.insert(plan, digest_of_body(&manifest));
        }
        forgery.sign_again(&pointer, role, &manifest, state);
        for (name, role) in &STAGES[place + 1..] {
            // A plan follows from its Source alone, so an honest one says of a false Source what it says of any.
            let runs_again = RUN_AGAIN.contains(name) || (stage == "source" && *name == "plan");
            match runs_again {
                _ if forgery.refusal.is_some() => {}
                true => forgery.run_again(name),
                false => forgery.follow(name, *role),
            }
        }
        forgery
    }

    /// The stage that refused the lie, with its error; none if every honest stage took it.
    pub(crate) fn refused_by(&self) -> Option<(&'static str, String)> {
        self.refusal.as_ref().map(|(stage, ran)| (*stage, ran.error().unwrap_or_else(|| format!("exit {}", ran.code))))
    }

    /// What a reader finds.
    pub(crate) fn verify(&self, more: &[&str]) -> Ran {
        self.bench.verify(more)
    }

    /// What a query of the warehouse finds.
    pub(crate) fn query(&self, sql: &str) -> Ran {
        self.bench.query(sql)
    }

    /// The error with which the lie is refused, by whomever: `publish: evidence_incomplete`, or `verify: row_differs`. `level` is how
    /// far a reader goes, 1 to 4. If nobody refuses it, this is what is said at the end, such as `level 3 (raw bytes) of 4 reached`.
    pub(crate) fn caught(&self, level: u8) -> String {
        if let Some((stage, error)) = self.refused_by() {
            return format!("{stage}: {error}");
        }
        let ran = self.verify(if level == 4 { &["--recompute"] } else { &[] });
        match ran.error() {
            Some(error) => format!("verify: {error}"),
            None => ran.stdout.lines().last().unwrap_or_default().to_owned(),
        }
    }

    /// Signs what a stage made again, with the digests of what it was made from as they are now.
    fn follow(&mut self, stage: &str, role: Role) {
        let pointer = self.bench.of("one", stage);
        let manifest = self.inputs_renamed(&pointer);
        self.sign_again(&pointer, role, &manifest, |_| {});
    }

    /// Runs a stage again.
    fn run_again(&mut self, stage: &'static str) {
        let pointer = self.bench.of("one", stage);
        let manifest = self.inputs_renamed(&pointer);
        let inputs: Vec<String> = list(&manifest["header"]["inputs"]).iter().map(input_of).collect();
        fs::remove_dir_all(self.bench.store().join("runs/one").join(stage)).expect("the stage has a result");
        let ran = self.bench.stage(stage, &inputs.iter().collect::<Vec<_>>());
        if ran.code != 0 {
            self.refusal = Some((stage, ran));
            return;
        }
        let mut made = self.bench.of("one", stage);
        if stage == "plan" {
            // Made now, it would be younger than what was measured by it.
            made = self.signed_as_of(&pointer, &made);
        }
        let bodies = [&pointer, &made].map(|pointer| digest_of_body(&pointer.load(&self.bench.store())));
        let [before, after] = bodies;
        self.renamed.insert(before, after);
        self.rename(&pointer, &made.manifest, &made.bundle);
    }

    /// Signs a plan that was made now at the time at which the plan of the run was made.
    fn signed_as_of(&mut self, then: &Pointer, now: &Pointer) -> Pointer {
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
        self.bench.of("one", "plan")
    }

    /// The manifest that a pointer leads to, with the digests of what it was made from as they are now.
    fn inputs_renamed(&self, pointer: &Pointer) -> Value {
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
        // What a statement repeats of the manifest follows the lie; the inputs are added anew when it is signed.
        match &mut predicate {
            Predicate::Provenance(provenance) => {
                provenance.resolved_dependencies = self.dependencies_of(&document);
                (provenance.role, provenance.run_id) = (document.header().stage, document.header().run_id.clone());
            }
            Predicate::VerificationSummary(summary) => summary.input_attestations.clear(),
            Predicate::TestResult(_) => {}
        }
        state(&mut predicate);
        let signed = sign(&document, &Signer::new(key_of(measured(), role)), predicate).expect("it signs");
        let (manifest, bundle) = (put(&self.bench, &signed.manifest), put(&self.bench, &signed.bundle));
        pointer.redirect(&manifest, &bundle);
        self.rename(pointer, &manifest, &bundle);
    }

    /// What the statement about a manifest names besides its inputs.
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

/// Puts bytes into the store of a bench and gives their digest.
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

/// Inputs stand in one order, which new digests may change.
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

/// Replaces the rows of a table of a Summary. Rows are sealed again, so that their ids are their own.
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
