//! The check that precedes every removal: the pointers of a store show all runs and verdicts that it holds. Whatever no pointer leads
//! to may be removed, so a folder of pointers that is not mounted, was restored in part, or is a link that leads nowhere, must not
//! count as one without pointers.
//!
//! A pointer that leads elsewhere than its path says counts as missing too: see [`check_places`].
//!
//! Three things reveal a missing pointer: a manifest that others of its run were made from, a folder that names the run, and a manifest
//! in a blob that nothing names. For the last one, see [`check_manifests`].

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Digest, Kind, MAX_MANIFEST_BYTES, Name, RunId};
use assay_stage::{ErrorCode, Failure, Layout, first_names};
use assay_store::{ObjectPath, Objects, Removal, Store};
use assay_verify::map_in_parallel;
use serde::Deserialize;

use crate::references::{RunReferences, VerdictReferences, run_references};

/// The number of runs or manifests that a failure names.
const MAX_NAMED: usize = 3;

/// The folders of pointers.
const POINTERS: [&str; 10] = [
    Layout::RUNS,
    Layout::VERDICTS,
    Layout::CALIBRATIONS,
    Layout::FOREIGN,
    Layout::FOREIGN_VERDICTS,
    Layout::SEARCHES,
    "cases",
    "fetched",
    Layout::HOT_METRICS,
    Layout::TIMES,
];

/// The start of every manifest in canonical form.
const MANIFEST_START: &[u8] = br#"{"body":{"#;

/// Fails unless the folders of pointers hold plain files and folders only, and `runs` a folder for each run.
pub(crate) fn check_pointers(removal: &Removal) -> Result<(), Failure> {
    POINTERS.iter().try_for_each(|prefix| removal.check_plain(prefix))?;
    let runs = removal.root().join(Layout::RUNS);
    let failed =
        |error: std::io::Error| Failure::new(ErrorCode::Store, format!("cannot list `{}`", runs.display())).because(&error);
    let entries = match std::fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let is_run = entry.file_name().to_str().is_some_and(|name| name.parse::<RunId>().is_ok());
        if !is_run || !entry.file_type().map_err(failed)?.is_dir() {
            let message = format!("`{}` is not the folder of a run", entry.path().display());
            return Err(Failure::new(ErrorCode::Listing, message)
                .hint("give the folder of a run its name again, and move anything else out of the store; nothing was removed"));
        }
    }
    Ok(())
}

/// Fails if a pointer of a run or verdict leads to a manifest that does not belong there: what it led to before is not known, and
/// nothing else may name it.
///
/// # Errors
/// Fails with `pointer_elsewhere` for a run, a calibration, foreign evidence or a search result, and with `verdict_misplaced` for a verdict.
pub(crate) fn check_places(runs: &[RunReferences], verdicts: &[VerdictReferences]) -> Result<(), Failure> {
    let not_known = "it is not known which blobs of the store are needed: ";
    let hint = "restore the pointers from a copy of the store; pointers are not signed, and everyone who can write to the store \
                can change them; nothing was removed";
    if let Some(reason) = runs.iter().flat_map(|run| &run.misplaced).next() {
        return Err(Failure::new(ErrorCode::PointerElsewhere, format!("{not_known}{reason}")).hint(hint));
    }
    if let Some(path) = misplaced_verdict(verdicts) {
        let message = format!("{not_known}the verdict that `{path}` leads to does not belong there");
        return Err(Failure::new(ErrorCode::VerdictMisplaced, message).hint(hint));
    }
    let is_elsewhere = |of: &VerdictReferences| kind_beside_gates(&of.path).is_some_and(|kind| kind != of.kind);
    if let Some(of) = verdicts.iter().find(|of| is_elsewhere(of)) {
        let expected = kind_beside_gates(&of.path).map_or("verdict", Kind::as_str);
        let message = format!("{not_known}the pointer `{}` leads to a {} instead of a {expected}", of.path, of.kind);
        return Err(Failure::new(ErrorCode::PointerElsewhere, message).hint(hint));
    }
    Ok(())
}

/// The kinds of manifest that are of no run and of no sequence of verdicts, each with the folder of its pointers.
const BESIDE_RUNS: [(Kind, &str); 4] = [
    (Kind::Calibration, Layout::CALIBRATIONS),
    (Kind::ForeignEvidence, Layout::FOREIGN),
    (Kind::ForeignVerdict, Layout::FOREIGN_VERDICTS),
    (Kind::SearchResult, Layout::SEARCHES),
];

/// Returns the kind of manifest that a pointer leads to, if the pointer is none of a verdict.
fn kind_beside_gates(path: &str) -> Option<Kind> {
    BESIDE_RUNS.into_iter().find(|(_, folder)| path.split('/').next() == Some(folder)).map(|(kind, _)| kind)
}

/// Returns the folder of the pointers of a kind that is of no run and no gate.
fn folder_beside_runs(kind: Kind) -> Option<&'static str> {
    BESIDE_RUNS.into_iter().find(|(of, _)| *of == kind).map(|(_, folder)| folder)
}

/// Returns the path of the first verdict that does not belong at its place: it is about another subject, or occurs twice, or the
/// verdicts that it names as earlier do not all come before it.
fn misplaced_verdict(verdicts: &[VerdictReferences]) -> Option<&str> {
    let mut of_gates: Vec<_> = verdicts.iter().filter(|of| kind_beside_gates(&of.path).is_none()).collect();
    of_gates.sort_unstable_by_key(|of| of.path.as_str());
    let mut before = BTreeSet::new();
    for of in of_gates {
        let belongs = of.sequence.as_ref().is_some_and(|sequence| {
            let folder = Layout::verdicts(&sequence.name);
            let is_in_folder = of.path.rsplit_once('/').is_some_and(|(parent, _)| parent == folder);
            is_in_folder && sequence.earlier.iter().all(|earlier| before.contains(earlier))
        });
        if !belongs || !before.insert(of.manifest) {
            return Some(&of.path);
        }
    }
    None
}

/// Fails if a run lacks a pointer to a manifest that its others were made from, or if one that other folders name has no pointers.
pub(crate) fn check_shown(store: &Store, runs: &[RunReferences]) -> Result<(), Failure> {
    let gaps = runs.iter().filter(|run| !run.gaps.is_empty()).map(|run| {
        let gaps: Vec<_> = run.gaps.iter().map(String::as_str).collect();
        format!("run `{}` ({})", run.run_id, gaps.join(", "))
    });
    refuse("pointers or lists of runs are missing: ", gaps.collect())?;
    let shown: BTreeSet<&str> = runs.iter().filter(|run| !run.kinds.is_empty()).map(|run| run.run_id.as_str()).collect();
    let mut hidden = BTreeMap::new();
    for (prefix, place) in [("cases", 2), ("fetched", 1), (Layout::HOT_METRICS, 1), (Layout::TIMES, 1)] {
        for path in store.list(prefix)? {
            if let Some(run) = path.split('/').nth(place).filter(|run| !shown.contains(run)) {
                hidden.entry(run.to_owned()).or_insert_with(|| format!("run `{run}` (named by `{path}`)"));
            }
        }
    }
    // Looked for again: a run may have begun after the others were read.
    for run in hidden.keys().filter_map(|run| run.parse::<RunId>().ok()).collect::<Vec<_>>() {
        if !store.list(&Layout::for_run(&run).run())?.is_empty() {
            hidden.remove(run.as_str());
        }
    }
    refuse("the folder `runs` has nothing of ", hidden.into_values().collect())
}

/// The part of a manifest of any version that says what it is.
#[derive(Deserialize)]
struct AnyManifest {
    header: AnyHeader,
    body: AnyBody,
}

#[derive(Deserialize)]
struct AnyHeader {
    kind: Kind,
    run_id: RunId,
}

#[derive(Deserialize)]
struct AnyBody {
    #[serde(default)]
    sequence: serde_json::Value,
}

/// Fails if a blob that nothing names is a manifest whose pointer is missing. `blobs` are those that nothing names, and that are old
/// enough to have got their pointers.
///
/// A process that was killed leaves a manifest without a pointer as well. When the run is resumed, its stage is executed again, so such
/// a manifest is not needed if the run has a pointer to another one of its kind, or to one of a later kind in the chain.
pub(crate) fn check_manifests(store: &Store, blobs: &[Digest]) -> Result<(), Failure> {
    let found = map_in_parallel(blobs, |digest| Ok(read_manifest(store, digest)?.map(|manifest| (*digest, manifest))));
    let found: Vec<(Digest, AnyManifest)> = found.into_iter().filter_map(Result::transpose).collect::<Result<_, Failure>>()?;
    let mut shown: BTreeMap<RunId, BTreeSet<Kind>> = BTreeMap::new();
    let (mut hidden, mut verdicts) = (BTreeMap::<RunId, Vec<(Kind, Digest)>>::new(), Vec::new());
    for (digest, AnyManifest { header: AnyHeader { kind, run_id }, body }) in found {
        if kind == Kind::Verdict {
            let subject = body.sequence.get("name").and_then(|name| name.as_str()?.parse::<Name>().ok());
            let has_others = subject.map(|subject| store.list(&Layout::verdicts(&subject))).transpose()?;
            if has_others.is_none_or(|others| others.is_empty()) {
                verdicts.push(format!("verdict {digest}"));
            }
            continue;
        }
        // It has no pointer below its run, and one that a killed process left behind is not needed.
        if let Some(prefix) = folder_beside_runs(kind) {
            if store.list(prefix)?.is_empty() {
                verdicts.push(format!("{kind} {digest}"));
            }
            continue;
        }
        // Read again: it may have begun after the other runs were read.
        if !shown.contains_key(&run_id) {
            shown.insert(run_id.clone(), run_references(store, &run_id)?.kinds);
        }
        if !shown.get(&run_id).is_some_and(|shown| shown.iter().any(|shown| supersedes(*shown, kind))) {
            hidden.entry(run_id).or_default().push((kind, digest));
        }
    }
    let runs = hidden.into_iter().filter_map(|(run_id, manifests)| {
        let kinds: BTreeSet<&str> = manifests.iter().map(|(kind, _)| kind.as_str()).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        manifests.first().map(|(_, digest)| format!("run `{run_id}` ({kinds}, such as {digest})"))
    });
    refuse("no pointer leads to manifests of ", runs.collect())?;
    refuse("no pointer leads to ", verdicts)
}

/// Reads a manifest; `None` if the blob is none. A damaged blob is no manifest either: its bytes are not what its name says.
fn read_manifest(store: &Store, digest: &Digest) -> Result<Option<AnyManifest>, Failure> {
    let start = Objects::new(store).peek(&ObjectPath::Blob(*digest), MANIFEST_START.len() as u64)?;
    if start.is_none_or(|start| start != MANIFEST_START) {
        return Ok(None);
    }
    match store.get(digest, MAX_MANIFEST_BYTES) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(assay_store::Error::Absent { .. } | assay_store::Error::Corrupt { .. } | assay_store::Error::TooLarge { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns true if a run with a pointer to a manifest of kind `shown` needs no other manifest of kind `kind` that none leads to.
fn supersedes(shown: Kind, kind: Kind) -> bool {
    // Any other kind has others only of its own.
    const CHAIN: [Kind; 8] = [
        Kind::Source,
        Kind::Plan,
        Kind::Environment,
        Kind::ExecutionPart,
        Kind::Recording,
        Kind::Collection,
        Kind::Summary,
        Kind::Publication,
    ];
    let place = |kind: Kind| CHAIN.iter().position(|one| *one == kind);
    shown == kind || place(kind).is_some_and(|of| place(shown).is_some_and(|shown| shown > of))
}

fn refuse(what: &str, names: Vec<String>) -> Result<(), Failure> {
    if names.is_empty() {
        return Ok(());
    }
    let message = format!("it is not known which blobs of the store are needed: {what}{}", first_names(&names, MAX_NAMED));
    Err(Failure::new(ErrorCode::StoreIncomplete, message).hint(
        "restore or mount the folders of the store whose files are missing, such as `runs`; if a run or its copy was interrupted, \
         repeat `assay run` with its `--run-id`, or `assay fetch`; nothing was removed",
    ))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use assay_manifest::{Document, InputRef, canonical_json};
    use assay_stage::AcceptedResult;
    use serde_json::{Value, json};

    use super::*;
    use crate::{Garbage, list_entries};

    const RUN: &str = "nightly-20261120-0200";
    /// The folder of the checkpoints of the examples, below the run.
    const CHECKPOINTS: &str = "execute/0030f08ad84157447b5f22339f4718482b2815261de3a06d3158613ff83d2b10";
    /// The manifests of the example, each after those that it was made from, and their pointers below the run.
    const MANIFESTS: [(&str, &str); 12] = [
        ("source", "source"),
        ("plan", "plan/00/accepted/0"),
        ("environment-first", "provision/00/accepted/0"),
        ("environment", "provision/01/accepted/0"),
        (
            "checkpoint-prepared",
            "execute/0030f08ad84157447b5f22339f4718482b2815261de3a06d3158613ff83d2b10/prepared/memory-bandwidth/0",
        ),
        (
            "checkpoint",
            "execute/0030f08ad84157447b5f22339f4718482b2815261de3a06d3158613ff83d2b10/trials/\
             memory-bandwidth.node-a.default.t8.t0/000000/0",
        ),
        ("execution_part", "execute/01/accepted/0"),
        ("recording", "record/01/accepted/0"),
        ("collection", "collect/00/accepted/0"),
        ("summary", "reduce/00/accepted/0"),
        ("publication", "publish/00/accepted/0"),
        ("run_end", "ends/000000"),
    ];

    /// A store with the run of the examples, and a blob that nothing names. All of it is two days old.
    struct ExampleStore {
        folder: tempfile::TempDir,
        store: Store,
        unneeded: Digest,
    }

    impl ExampleStore {
        fn new() -> Self {
            let made = Self::empty();
            let mut renamed = Vec::new();
            for (name, path) in MANIFESTS {
                made.add_manifest(name, &format!("runs/{RUN}/{path}"), &mut renamed);
            }
            made.add_manifest("verdict", "gates/pr-17/000001", &mut renamed);
            made.add_manifest("search_result", "searches/search-1", &mut renamed);
            made.store.create(&format!("cases/w.t.default/{RUN}"), b"{}").expect("a mark");
            let started = format!("runs/{RUN}/{CHECKPOINTS}/trials/memory-bandwidth.node-a.default.t8.t0/000000/0.started");
            made.store.create(&started, b"").expect("a mark");
            made.age();
            made
        }

        fn empty() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
            let unneeded = store.put(b"nothing names this").expect("put");
            Self { folder, store, unneeded }
        }

        fn add_manifest(&self, name: &str, path: &str, renamed: &mut Vec<[String; 2]>) {
            let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/examples/v1alpha1");
            let [manifest, bundle] =
                ["json", "sigstore.json"].map(|ext| fs::read(examples.join(format!("{name}.{ext}"))).expect(name));
            let before = [&manifest, &bundle].map(|bytes| Digest::compute(bytes).to_string());
            let text = String::from_utf8(manifest).expect("UTF-8");
            let text = renamed.iter().fold(text, |text, [old, new]| text.replace(old, new));
            let mut json: Value = serde_json::from_str(&text).expect("JSON");
            if name == "collection" {
                json["body"]["evidence"]["digest"] = json!(self.store.put(b"[]").expect("put"));
                json["body"]["evidence_count"] = json!("0");
                json["body"]["evidence_bytes"] = json!("0");
            }
            if name == "verdict" {
                json["body"]["sequence"] = json!({"name": "pr-17", "look": 1, "earlier": []});
            }
            let mut inputs: Vec<InputRef> = serde_json::from_value(json["header"]["inputs"].clone()).expect("inputs");
            inputs.sort_unstable();
            json["header"]["inputs"] = json!(inputs);
            let manifest = canonical_json(&json).expect("canonical");
            Document::parse(&manifest).expect(name);
            let accepted = [manifest, bundle].map(|bytes| self.store.put(&bytes).expect("put"));
            renamed.extend(before.into_iter().zip(accepted).map(|(old, new)| [old, new.to_string()]));
            let [manifest, bundle] = accepted;
            self.store.create(path, &AcceptedResult { manifest, bundle }.to_bytes().expect("bytes")).expect("created");
        }

        fn path(&self, path: &str) -> PathBuf {
            self.folder.path().join(path)
        }

        fn run(&self, path: &str) -> PathBuf {
            self.path(&format!("runs/{RUN}/{path}"))
        }

        fn age(&self) {
            let mut pending = vec![self.path("blobs")];
            while let Some(path) = pending.pop() {
                if path.is_dir() {
                    pending.extend(fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()));
                } else {
                    let time = SystemTime::now() - Duration::from_hours(48);
                    File::open(path).expect("a file").set_modified(time).expect("a time");
                }
            }
        }

        fn find(&self) -> Result<Vec<Digest>, Failure> {
            Garbage::find(&self.store).map(|garbage| garbage.blobs.into_iter().map(|(digest, _)| digest).collect())
        }

        fn refusal(&self) -> String {
            let failure = self.find().expect_err("a store whose pointers are not all there");
            assert!(failure.hint.is_some(), "{failure}");
            format!("{}: {}", failure.code, failure.message).replace(&self.folder.path().display().to_string(), "")
        }
    }

    #[test]
    fn only_what_nothing_needs_is_garbage() {
        let example = ExampleStore::new();
        assert_eq!(example.find().expect("all pointers are there"), [example.unneeded]);
    }

    #[test]
    fn a_store_without_its_runs_keeps_its_blobs() {
        let losses: [fn(&ExampleStore); 4] = [
            |example| fs::rename(example.path("runs"), example.path("away")).expect("moved"),
            |example| {
                fs::rename(example.path("runs"), example.path("away")).expect("moved");
                fs::create_dir(example.path("runs")).expect("created");
            },
            |example| fs::rename(example.run(""), example.path("away")).expect("moved"),
            |example| {
                fs::rename(example.run(""), example.path("away")).expect("moved");
                fs::create_dir(example.run("")).expect("created");
            },
        ];
        for loss in losses {
            let example = ExampleStore::new();
            loss(&example);
            let named = example.refusal();
            assert!(
                named.starts_with("store_incomplete: ")
                    && named.contains(&format!("the folder `runs` has nothing of run `{RUN}`")),
                "{named}"
            );
            // The manifests alone say that there was a run.
            fs::remove_dir_all(example.path("cases")).expect("removed");
            let refused = example.refusal();
            assert!(
                refused.starts_with("store_incomplete: ")
                    && refused.contains(&format!("no pointer leads to manifests of run `{RUN}`")),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_run_that_has_begun_meanwhile_is_not_missed() {
        let example = ExampleStore::new();
        check_shown(&example.store, &[]).expect("it is there now");
        fs::rename(example.run(""), example.path("away")).expect("moved");
        check_shown(&example.store, &[]).expect_err("it is not there");
    }

    #[test]
    fn a_link_among_the_pointers_is_refused() {
        for place in ["runs", "gates", "cases"] {
            let example = ExampleStore::new();
            fs::rename(example.path(place), example.path("away")).expect("moved");
            for target in [example.path("away"), PathBuf::from("/nonexistent")] {
                symlink(target, example.path(place)).expect("a link");
                assert!(
                    example.refusal().starts_with(&format!("not_plain: `/{place}` is a symbolic link")),
                    "{}",
                    example.refusal()
                );
                fs::remove_file(example.path(place)).expect("removed");
            }
        }
        for place in ["", "publish", CHECKPOINTS, "source"] {
            let example = ExampleStore::new();
            let place = example.run(place);
            fs::rename(&place, example.path("away")).expect("moved");
            let link = place.display().to_string();
            symlink("/nonexistent", link.trim_end_matches('/')).expect("a link");
            assert!(example.refusal().starts_with("not_plain: `/runs/"), "{}", example.refusal());
        }
    }

    #[test]
    fn a_run_that_was_restored_in_part_keeps_its_blobs() {
        for (lost, named) in [
            ("source", "no pointer leads to its source"),
            ("plan", "no pointer leads to its plan"),
            ("provision", "no pointer leads to its environment"),
            ("execute", "no pointer leads to its execution_part"),
            ("record", "no pointer leads to its recording"),
            ("collect", "no pointer leads to its collection"),
            ("reduce", "no pointer leads to its summary"),
            (CHECKPOINTS, "(checkpoint, such as sha256:"),
            ("publish", "(publication, such as sha256:"),
            ("ends", "(run_end, such as sha256:"),
        ] {
            let example = ExampleStore::new();
            fs::rename(example.run(lost), example.path("away")).expect("moved");
            let refused = example.refusal();
            assert!(
                refused.starts_with("store_incomplete: ") && refused.contains(named) && refused.contains(RUN),
                "{lost}: {refused}"
            );
        }
        let example = ExampleStore::new();
        fs::remove_dir_all(example.path("gates")).expect("removed");
        assert!(example.refusal().contains("no pointer leads to verdict sha256:"), "{}", example.refusal());
        // A file system that was not synced leaves an empty file.
        fs::write(example.run("publish/00/accepted/0"), "").expect("written");
        assert!(example.refusal().starts_with("pointer: what run"), "{}", example.refusal());
    }

    #[test]
    fn a_pointer_to_a_manifest_that_does_not_belong_there_is_refused() {
        let nothing = "it is not known which blobs of the store are needed: ";
        let moved = |from: &str, to: &str| {
            let example = ExampleStore::new();
            let bytes = fs::read(example.path(from)).expect("a pointer");
            let to = example.path(to);
            fs::create_dir_all(to.parent().expect("a folder")).expect("created");
            // Pointers are read-only, but a new file may replace one.
            let _ = fs::remove_file(&to);
            fs::write(to, bytes).expect("written");
            example.refusal()
        };
        let run = |path: &str| format!("runs/{RUN}/{path}");
        // The folder of another run, with the pointers of this one.
        assert_eq!(
            moved(&run("publish/00/accepted/0"), "runs/weekly/publish/00/accepted/0"),
            format!(
                "pointer_elsewhere: {nothing}the pointer `runs/weekly/publish/00/accepted/0` leads to a manifest of run `{RUN}`"
            )
        );
        for (from, to, named) in [
            ("publish/00/accepted/0", "reduce/00/accepted/0", "leads to a publication instead of a summary"),
            ("ends/000000", "ends/000001", "leads to a run_end of another number"),
            ("ends/000000", "tombstones/000000", "leads to a run_end instead of a tombstone"),
        ] {
            let refused = moved(&run(from), &run(to));
            assert!(refused.starts_with("pointer_elsewhere: ") && refused.contains(named), "{to}: {refused}");
        }
        for place in ["gates/pr-18/000001", "gates/pr-17/000002"] {
            assert_eq!(
                moved("gates/pr-17/000001", place),
                format!("verdict_misplaced: {nothing}the verdict that `{place}` leads to does not belong there")
            );
        }
        assert!(moved(&run("source"), "gates/pr-17/000001").starts_with("verdict_misplaced: "));
        let refused = moved(&run("source"), "calibrations/00/00/00");
        assert!(refused.starts_with("pointer_elsewhere: ") && refused.contains("a source instead of a calibration"), "{refused}");
        let refused = moved(&run("source"), "searches/search-2");
        assert!(
            refused.starts_with("pointer_elsewhere: ") && refused.contains("a source instead of a search_result"),
            "{refused}"
        );
        let refused = moved(&run("source"), "foreign/peers");
        assert!(
            refused.starts_with("pointer_elsewhere: ") && refused.contains("a source instead of a foreign_evidence"),
            "{refused}"
        );
    }

    #[test]
    fn a_folder_with_another_name_may_be_that_of_a_run() {
        let example = ExampleStore::new();
        fs::rename(example.run(""), example.path("runs/Nightly (copy)")).expect("moved");
        assert_eq!(example.refusal(), "listing: `/runs/Nightly (copy)` is not the folder of a run");
    }

    #[test]
    fn a_manifest_that_a_killed_process_left_is_garbage() {
        let example = ExampleStore::new();
        let summary = example.run("reduce/00/accepted/0");
        let accepted = AcceptedResult::parse("", &fs::read(summary).expect("a pointer")).expect("a pointer");
        let mut json: Value =
            serde_json::from_slice(&example.store.get(&accepted.manifest, 1 << 20).expect("there")).expect("JSON");
        json["body"]["notes"] = json!("of the process that was killed");
        let left = example.store.put(&canonical_json(&json).expect("canonical")).expect("put");
        json["header"]["run_id"] = json!("weekly");
        let other = example.store.put(&canonical_json(&json).expect("canonical")).expect("put");
        example.age();
        let refused = example.refusal();
        assert!(
            refused.contains(&format!("no pointer leads to manifests of run `weekly` (summary, such as {other})"))
                && !refused.contains(RUN),
            "{refused}"
        );
        fs::remove_file(example.path(&ObjectPath::Blob(other).to_string())).expect("removed");
        let mut garbage = vec![example.unneeded, left];
        garbage.sort_unstable();
        assert_eq!(example.find().expect("the run has another one"), garbage);
    }

    #[test]
    fn a_store_that_never_had_a_run_is_removed_by_hand() {
        let example = ExampleStore::empty();
        assert_eq!(example.find().expect("its blobs are young"), []);
        example.age();
        assert!(example.refusal().starts_with("store_incomplete: the store `file:"), "{}", example.refusal());
        fs::remove_file(example.path(&ObjectPath::Blob(example.unneeded).to_string())).expect("removed");
        assert_eq!(example.find().expect("it is empty"), []);
    }

    #[test]
    fn a_run_that_is_a_link_is_listed() {
        let example = ExampleStore::empty();
        fs::create_dir(example.path("runs")).expect("created");
        symlink("/nonexistent", example.path("runs/one")).expect("a link");
        symlink("/etc/passwd", example.path("runs/two")).expect("a link");
        let listed = list_entries(&example.store).expect("listed");
        assert_eq!(listed.iter().map(|(run, _)| run.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        for (run, entry) in listed {
            let failure = entry.expect_err("a link");
            assert_eq!((failure.code, failure.message), (ErrorCode::NotPlain, format!("`runs/{run}` leads to no run")));
        }
    }
}
