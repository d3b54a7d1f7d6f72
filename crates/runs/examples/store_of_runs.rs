//! Fills a store with copies of finished runs, to measure commands on a store of many: `cargo run --release -p assay-runs --example
//! store_of_runs -- FROM STORE COUNT RUN...`
//!
//! FROM is a store with the finished runs that are named. Each copy is a run of its own: every manifest names it, is made from
//! the manifests of the copy, and is signed with the local keys; its rows are its own and lie in the warehouse. Copies share the
//! raw evidence of the run that they repeat. Reports are left out to save space, and trials keep the order of that run, so a copy
//! verifies up to level 1.
//!
//! The first and the last copies are committed to the warehouse as publish does it, and timed. For those between, the tables' logs
//! get the commits that publish would have written, without checkpoints. The one before the last ones is committed as publish does it,
//! so that it writes the checkpoint which the last ones find in a store that publish has filled, and is not timed.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use assay_envelope::{Bundle, Predicate, Statement, sign};
use assay_lake::{Lake, commit_run};
use assay_manifest::{
    Body as _, CuratedFile, Digest, Document, InputRef, Kind, Manifest, Numbers, Publication, Role, RunId, Summary,
    canonical_json,
};
use assay_runner::{Config, KeyRing, LocalKeys};
use assay_stage::{AcceptedResult, Layout};
use assay_store::{Scratch, Store};
use assay_verify::{merge_query_numbers, numbers_file, summary_numbers};
use assay_warehouse::{Row, Value};
use serde_json::Value as Json;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The number of first and of last copies that are committed as publish does it, and timed.
const TIMED: usize = 20;

/// A way to commit a copy to the warehouse.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commit {
    /// Its commits are written to the logs of the tables.
    Written,
    /// As publish does it.
    Published,
    /// As publish does it, and timed.
    Timed,
}

impl Commit {
    fn of(index: usize, count: usize) -> Self {
        match count - index {
            _ if index < TIMED => Self::Timed,
            left if left <= TIMED => Self::Timed,
            left if left == TIMED + 1 => Self::Published,
            _ => Self::Written,
        }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, count, templates @ ..] = arguments.as_slice() else { return Err("usage: FROM STORE COUNT RUN...".into()) };
    let count: usize = count.parse()?;
    let keys = LocalKeys::new(&Config::find()?).unlock(&Role::RUN, b"")?;
    let from = Store::open_existing(from)?;
    let templates = templates.iter().map(|run| Template::read(&from, run)).collect::<Result<Vec<_>>>()?;
    let mut target = Target::open(to)?;
    let mut out = std::io::stdout().lock();
    for index in 0..count {
        let template = templates.get(index % templates.len().max(1)).ok_or("no run to copy")?;
        template.copy(&mut target, &keys, index, Commit::of(index, count))?;
    }
    let median = |times: &[f64]| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    let (first, last) = target.commits.split_at(TIMED.min(target.commits.len()));
    writeln!(out, "runs {count}  first commits ms {:.1}  last commits ms {:.1}", median(first), median(last))?;
    Ok(())
}

/// A finished run.
struct Template {
    run_id: RunId,
    store: Store,
    /// Its manifests in the order of the chain, with their references and statements.
    documents: Vec<(InputRef, Document, Statement)>,
    /// Its pointers, with their bytes.
    pointers: Vec<(String, Vec<u8>)>,
}

fn rank(kind: Kind) -> usize {
    let order = [
        Kind::Source,
        Kind::Plan,
        Kind::Environment,
        Kind::Checkpoint,
        Kind::ExecutionPart,
        Kind::Recording,
        Kind::Collection,
        Kind::Summary,
        Kind::Publication,
    ];
    order.iter().position(|one| *one == kind).unwrap_or(order.len())
}

impl Template {
    fn read(store: &Store, run: &str) -> Result<Self> {
        let run_id = RunId::new(run)?;
        let mut template = Self { run_id: run_id.clone(), store: store.clone(), documents: Vec::new(), pointers: Vec::new() };
        for path in store.list(&Layout::for_run(&run_id).run())? {
            let bytes = store.read(&path, 1 << 20)?.unwrap_or_default();
            if let Ok(AcceptedResult { manifest, bundle }) = AcceptedResult::parse(&path, &bytes) {
                let document = Document::parse(&store.get(&manifest, 1 << 28)?)?;
                let signed = Bundle::parse(&store.get(&bundle, 1 << 26)?)?;
                let reference = InputRef { kind: document.kind(), manifest, bundle };
                template.documents.push((reference, document, Statement::parse(&signed.envelope.payload)?));
            }
            template.pointers.push((path, bytes));
        }
        template.documents.sort_by_key(|(reference, ..)| rank(reference.kind));
        Ok(template)
    }

    fn copy(&self, target: &mut Target, keys: &KeyRing, index: usize, commit: Commit) -> Result<()> {
        let run_id = RunId::new(format!("nightly-{index:06}"))?;
        let mut copied = Renaming::new(&self.run_id, &run_id);
        for (reference, document, statement) in &self.documents {
            if let Document::Summary(summary) = document {
                for file in &summary.body.files {
                    self.copy_rows(target, file, &mut copied)?;
                }
            }
            let mut json: Json = serde_json::from_str(&copied.rename(&String::from_utf8(document.to_bytes()?)?))?;
            if let Document::Publication(_) = document {
                self.complete_publication(target, &mut json, &copied, commit)?;
            }
            copied.resize(&mut json);
            let inputs: Vec<InputRef> = serde_json::from_value(json["header"]["inputs"].clone())?;
            json["header"]["inputs"] = serde_json::to_value(sorted(inputs))?;
            let renamed = Document::parse(&canonical_json(&json)?)?;
            let signer = keys.signer(renamed.kind().signer())?;
            let signed = sign(&renamed, &signer, copied.predicate(&statement.predicate, document)?)?;
            copied.add(&reference.manifest, &signed.manifest_digest);
            copied.add(&reference.bundle, &signed.bundle_digest);
            target.put(&signed.manifest)?;
            target.put(&signed.bundle)?;
            for artifact in document.artifacts() {
                if let Ok(bytes) = self.store.get(&artifact.digest, 1 << 30).as_deref()
                    && !matches!(document, Document::Publication(_) | Document::Summary(_))
                {
                    target.put(bytes)?;
                }
            }
            if let Document::Summary(summary) = &renamed {
                copied.summary = Some(summary.clone());
            }
            if let Document::Collection(collection) = document {
                let list: Vec<assay_manifest::Artifact> =
                    serde_json::from_slice(&self.store.get(&collection.body.evidence.digest, 1 << 28)?)?;
                for artifact in list {
                    target.put(&self.store.get(&artifact.digest, 1 << 30)?)?;
                }
            }
        }
        for (path, bytes) in &self.pointers {
            let text = String::from_utf8(bytes.clone())?;
            target.write(&path.replace(self.run_id.as_str(), run_id.as_str()), copied.rename(&text).as_bytes())?;
        }
        if let Some(plan) = self.documents.iter().find_map(|(_, document, _)| assay_manifest::Plan::from_document(document)) {
            for case in &plan.body.cases {
                target.write(&Layout::for_run(&run_id).case(&case.case_id), b"{}")?;
            }
        }
        Ok(())
    }

    /// Copies a curated file with the names and digests of the copy.
    fn copy_rows(&self, target: &Target, file: &CuratedFile, copied: &mut Renaming) -> Result<()> {
        let table = assay_warehouse::table(&file.table).ok_or("an unknown table")?;
        let mut rows = Vec::new();
        for row in assay_warehouse::read(table, self.store.get(&file.artifact.digest, 1 << 30)?)? {
            let mut renamed = Row::new(table);
            for (column, value) in row.iter() {
                let value = if let Value::Text(text) = value { Value::Text(copied.rename(text)) } else { value.clone() };
                renamed.set(column.name, value)?;
            }
            let renamed = renamed.seal()?;
            if let (Some(old), Some(new)) = (row.text("row_id"), renamed.text("row_id")) {
                copied.add_hex(old, new);
            }
            rows.push(renamed);
        }
        let mut bytes = Vec::new();
        let written = assay_warehouse::write(table, rows, &mut bytes)?;
        target.put(&bytes)?;
        copied.add(&file.artifact.digest, &written.digest);
        copied.sizes.insert(written.digest.to_string(), written.bytes);
        Ok(())
    }

    /// Commits the rows, and completes the Publication with the versions and files that follow.
    fn complete_publication(&self, target: &mut Target, json: &mut Json, copied: &Renaming, commit: Commit) -> Result<()> {
        let summary = copied.summary.as_ref().ok_or("no summary")?;
        let versions = target.commit(&copied.run_id, &summary.body.files, commit)?;
        json["body"]["warehouse_snapshot"] = serde_json::to_value(versions)?;
        let manifest: Manifest<Publication> = serde_json::from_value(json.clone())?;
        let numbers = Numbers {
            run_id: copied.run_id.clone(),
            grade: manifest.body.grade.clone(),
            summary: manifest.body.summary,
            numbers: merge_query_numbers(summary_numbers(&copied.run_id, &summary.body)?, Vec::new()),
        };
        let numbers = numbers_file(&numbers)?;
        json["body"]["numbers"] = serde_json::to_value(numbers.artifact())?;
        let (_, document, _) =
            self.documents.iter().find(|(reference, ..)| reference.kind == Kind::Publication).ok_or("no publication")?;
        let publication = Publication::from_document(document).ok_or("no publication")?;
        for key in &publication.body.keys {
            target.put(&self.store.get(&key.digest, 1 << 20)?)?;
        }
        target.put(&numbers.bytes)?;
        for (place, report) in publication.body.reports.iter().enumerate() {
            let text = copied.rename(&String::from_utf8(self.store.get(&report.digest, 1 << 28)?)?);
            let digest = Digest::compute(text.as_bytes());
            json["body"]["reports"][place]["digest"] = digest.to_string().into();
            json["body"]["reports"][place]["size"] = text.len().to_string().into();
        }
        Ok(())
    }
}

fn sorted(mut inputs: Vec<InputRef>) -> Vec<InputRef> {
    inputs.sort_unstable();
    inputs
}

/// The names and digests of a copy, by those of the run that it repeats.
struct Renaming {
    old: RunId,
    run_id: RunId,
    digests: HashMap<String, String>,
    /// The first twelve digits of each, as reports print them.
    short: HashMap<String, String>,
    sizes: BTreeMap<String, u64>,
    summary: Option<Manifest<Summary>>,
}

impl Renaming {
    fn new(old: &RunId, run_id: &RunId) -> Self {
        let (digests, short) = (HashMap::new(), HashMap::new());
        Self { old: old.clone(), run_id: run_id.clone(), digests, short, sizes: BTreeMap::new(), summary: None }
    }

    fn add(&mut self, old: &Digest, new: &Digest) {
        self.add_hex(&old.hex(), &new.hex());
    }

    fn add_hex(&mut self, old: &str, new: &str) {
        if old != new {
            self.short.insert(old.chars().take(12).collect(), new.chars().take(12).collect());
            self.digests.insert(old.to_owned(), new.to_owned());
        }
    }

    fn rename(&self, text: &str) -> String {
        let text = text.replace(self.old.as_str(), self.run_id.as_str());
        let (mut renamed, mut rest) = (String::with_capacity(text.len()), text.as_str());
        while let Some(start) = rest.find(|character: char| character.is_ascii_hexdigit() && !character.is_ascii_uppercase()) {
            let (before, from) = rest.split_at(start);
            let length = from.find(|character: char| !character.is_ascii_hexdigit() || character.is_ascii_uppercase());
            let (token, after) = from.split_at(length.unwrap_or(from.len()));
            renamed.push_str(before);
            let known = match token.len() {
                64 => self.digests.get(token),
                12 => self.short.get(token),
                _ => None,
            };
            renamed.push_str(known.map_or(token, String::as_str));
            rest = after;
        }
        renamed.push_str(rest);
        renamed
    }

    /// Corrects the sizes of curated files.
    fn resize(&self, json: &mut Json) {
        match json {
            Json::Object(fields) => {
                let size = fields.get("digest").and_then(Json::as_str).and_then(|digest| self.sizes.get(digest));
                if let (Some(size), true) = (size, fields.contains_key("size")) {
                    fields.insert("size".to_owned(), size.to_string().into());
                }
                fields.values_mut().for_each(|value| self.resize(value));
            }
            Json::Array(values) => values.iter_mut().for_each(|value| self.resize(value)),
            _ => {}
        }
    }

    fn predicate(&self, predicate: &Predicate, document: &Document) -> Result<Predicate> {
        Ok(match predicate {
            Predicate::Provenance(provenance) => {
                let mut renamed = provenance.clone();
                renamed.run_id = self.run_id.clone();
                renamed.resolved_dependencies = provenance.extra_dependencies(document.header()).into_iter().cloned().collect();
                renamed.external_parameters = serde_json::from_str(&self.rename(&provenance.external_parameters.to_string()))?;
                renamed.into()
            }
            Predicate::VerificationSummary(summary) => {
                let mut renamed = summary.clone();
                renamed.resource_uri = self.rename(&summary.resource_uri);
                renamed.input_attestations = Vec::new();
                renamed.into()
            }
            Predicate::TestResult(result) => result.clone().into(),
        })
    }
}

/// The store that is filled. Files are written as they are, without waiting for the disk: the store is a scratch one.
struct Target {
    root: PathBuf,
    lake: Lake,
    scratch: Scratch,
    /// The last version of each table.
    versions: BTreeMap<String, u64>,
    commits: Vec<f64>,
}

impl Target {
    fn open(uri: &str) -> Result<Self> {
        let store = Store::open(uri)?;
        let lake = Lake::open(&store)?;
        let root = store.local_root().ok_or("the store is a folder")?.to_owned();
        Ok(Self { root, lake, scratch: Scratch::new(8 << 30)?, versions: BTreeMap::new(), commits: Vec::new() })
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().ok_or("a file lies in a folder")?)?;
        Ok(fs::write(path, bytes)?)
    }

    fn put(&self, bytes: &[u8]) -> Result<()> {
        let hex = Digest::compute(bytes).hex();
        let path = format!("blobs/sha256/{}/{hex}", hex.split_at(2).0);
        if self.root.join(&path).exists() { Ok(()) } else { self.write(&path, bytes) }
    }

    /// Adds the rows of a run to the tables: as publish does it and timed, or by the commits alone.
    fn commit(
        &mut self,
        run_id: &RunId,
        files: &[CuratedFile],
        commit: Commit,
    ) -> Result<BTreeMap<String, assay_manifest::Count>> {
        if commit != Commit::Written {
            let began = Instant::now();
            let versions = commit_run(&self.lake, run_id, files, &self.scratch, &mut |_| ControlFlow::Continue(()))?;
            if commit == Commit::Timed {
                self.commits.push(began.elapsed().as_secs_f64() * 1e3);
            }
            self.versions = versions.iter().map(|(table, version)| (table.clone(), version.0)).collect();
            return Ok(versions);
        }
        for file in files {
            self.append(run_id, file)?;
        }
        Ok(self.versions.iter().map(|(table, version)| (table.clone(), assay_manifest::Count(*version))).collect())
    }

    fn append(&mut self, run_id: &RunId, file: &CuratedFile) -> Result<()> {
        let hex = file.artifact.digest.hex();
        let data = format!("warehouse/{}/{hex}.parquet", file.table);
        if self.root.join(&data).exists() {
            return Ok(());
        }
        fs::hard_link(self.root.join(format!("blobs/sha256/{}/{hex}", hex.split_at(2).0)), self.root.join(&data))?;
        let version = self.versions.entry(file.table.clone()).or_default();
        *version += 1;
        let (id, fingerprint) = if file.table.ends_with("_dim") {
            (format!("file/{hex}"), 0)
        } else {
            let first: [u8; 8] = Digest::compute(hex.as_bytes()).as_bytes().split_at(8).0.try_into()?;
            (format!("run/{run_id}/{}", file.table), i64::from_be_bytes(first) & i64::MAX)
        };
        let stats = serde_json::json!({"numRecords": file.rows.0}).to_string();
        let actions = [
            serde_json::json!({"commitInfo": {"timestamp": 0, "operation": "WRITE", "operationParameters": {}, "engineInfo": "assay"}}),
            serde_json::json!({"txn": {"appId": id, "version": fingerprint}}),
            serde_json::json!({"add": {
                "path": format!("{hex}.parquet"), "partitionValues": {}, "size": file.artifact.size.0, "modificationTime": 0,
                "dataChange": true, "stats": stats,
            }}),
        ];
        let text: String = actions.iter().flat_map(|action| [action.to_string(), "\n".to_owned()]).collect();
        let path = Path::new("warehouse").join(&file.table).join(format!("_delta_log/{version:020}.json"));
        self.write(&path.display().to_string(), text.as_bytes())
    }
}
