//! `assay import results` over the real binary: foreign evidence is stored, shown, verified and compared, and no credential survives.

use std::fs;
use std::path::PathBuf;

use assay_envelope::{ExpectedManifest, Predicate, Signer, Trust, sign, verify};
use assay_foreign::RESULT_FORMATS;
use assay_manifest::{Body as _, Digest, ForeignEvidence, Role};
use assay_stage::{AcceptedResult, Layout};
use assay_store::Store;
use serde_json::{Value, json};

use crate::docs::{Reader, blocks};
use crate::pipeline::{list, text};
use crate::support::{Fixture, blob, files_under, write_file};
use crate::tamper::{flip_bit, key_of};

/// A value that no output and no file of a store may contain.
const CANARY: &str = "canary-4f2b9c7d1e";

/// Writes the files of an example into a folder of the repository, and returns its path.
fn write_example(fixture: &Fixture, format: &str) -> String {
    let format = RESULT_FORMATS.iter().find(|known| known.name == format).expect("a format");
    for (path, text) in format.examples[0].files {
        fixture.write(&format!("given/{}/{path}", format.name), text);
    }
    format!("given/{}", format.name)
}

/// Imports an example, and returns what the command printed as JSON.
fn import(fixture: &Fixture, format: &str, name: &str) -> Value {
    let folder = write_example(fixture, format);
    fixture.assay(&["import", "results", &folder, "--name", name, "--json"]).success().json()
}

fn id(shown: &Value) -> &str {
    text(&shown["evidence"]["manifest"])
}

#[test]
fn every_example_of_every_format_is_imported_shown_and_verified() {
    let fixture = Fixture::bare();
    for format in RESULT_FORMATS {
        let imported = import(&fixture, format.name, format.name);
        assert_eq!((&imported["grade"], &imported["stored"]), (&json!("foreign"), &json!(true)), "{}", format.name);
        assert_eq!(list(&imported["body"]["files"]).len(), format.examples[0].files.len(), "{}", format.name);
        let verified = fixture.assay(&["verify", id(&imported), "--strict"]).success();
        for part in [
            "only its importer vouches for it",
            "ok  signed by local-import for the role `import`",
            "read again from them, and equal",
        ] {
            assert!(verified.stdout.contains(part), "`{part}` is missing:\n{}", verified.stdout);
        }
        let shown = fixture.assay(&["show", &id(&imported)[..19]]).success();
        let first = shown.stdout.lines().next().unwrap_or_default();
        assert!(first.starts_with("foreign evidence: "), "{first}");
        assert!(shown.stdout.contains(format.tool) && shown.stdout.contains(&format!("foreign.md#{}", format.name)));
    }
    let named = fixture.assay(&["verify", "hyperfine"]).refuses(2, "no_such_run");
    assert!(
        named.stderr.contains("it is the name of foreign evidence, which is found by its digest: sha256:"),
        "{}",
        named.stderr
    );
    let unknown = fixture.assay(&["verify", "hyperfines"]).refuses(2, "no_such_run");
    assert!(!unknown.stderr.contains("foreign evidence"), "{}", unknown.stderr);
    let runs = fixture.assay(&["runs", "--json"]).success().json();
    assert_eq!(runs, json!([]), "foreign evidence is no run");
    fixture.assay(&["gc"]).success();
    fixture.assay(&["verify", id(&import(&fixture, "vllm", "after-gc"))]).success();
}

/// The page is followed word by word.
#[test]
fn foreign_evidence_is_followed_to_its_end() {
    let fixture = Fixture::bare();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/foreign.md"));
    assert_eq!(blocks.len(), 12, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
}

#[test]
fn a_table_and_an_id_are_printed() {
    let fixture = Fixture::bare();
    let folder = write_example(&fixture, "hyperfine");
    let printed = fixture.assay(&["import", "results", &format!("{folder}/hyperfine.json"), "--name", "sorts"]).success().stdout;
    for part in [
        "hyperfine of a version that its files do not state: 1 file, 14 numbers, 10 rows of single requests or iterations",
        "METRIC",
        "command=sort -n numbers.txt, parameter.lines=1000",
        "metrics with a prefix are defined by the tool: docs/reference/foreign.md#hyperfine",
        "not read: 10 values in 1 place",
        "  10  results[].exit_codes: exit codes of each execution",
        "name    sorts",
        "id      sha256:",
        "verify  assay verify sha256:",
    ] {
        assert!(printed.contains(part), "`{part}` is missing:\n{printed}");
    }
    assert!(!printed.contains("left out"), "{printed}");
    fixture.write(&format!("{folder}/notes.txt"), "of no format");
    std::os::unix::fs::symlink("/etc/passwd", fixture.repo().join(&folder).join("users")).expect("a link");
    let ran = fixture.assay(&["import", "results", &folder]).success();
    let printed = ran.stdout;
    let left_out =
        "left out: 2 files\n  notes.txt: the file is of no format that is read\n  users: it is a link or no plain file\n";
    assert!(printed.contains(left_out), "{printed}");
}

#[test]
fn a_dry_run_stores_nothing() {
    let fixture = Fixture::without_keys();
    let folder = write_example(&fixture, "aiperf");
    let printed = fixture.assay(&["import", "results", &folder, "--dry-run"]).success();
    assert!(printed.stdout.ends_with("nothing was stored: this was a dry run\n"), "{}", printed.stdout);
    assert!(!printed.stdout.contains("id      "), "{}", printed.stdout);
    let document = fixture.assay(&["import", "results", &folder, "--dry-run", "--json"]).success().json();
    assert_eq!((&document["stored"], &document["evidence"]), (&json!(false), &Value::Null));
    assert!(!fixture.store().exists() && !fixture.config().join("keys").exists());
}

#[test]
fn what_cannot_be_imported_is_refused_before_anything_is_made() {
    let fixture = Fixture::without_keys();
    fixture.write("given.json", "{\"benchmarks\": 1}");
    fixture.assay(&["import", "results", "given.json"]).refuses(10, "foreign_results");
    fixture.assay(&["import", "results", "absent.json"]).refuses(2, "unreadable");
    let example =
        |format: &str| RESULT_FORMATS.iter().find(|known| known.name == format).expect("a format").examples[0].files[0].1;
    fixture.write("nan.json", &example("vllm").replace("6.425", "NaN"));
    let refused = fixture.assay(&["import", "results", "nan.json"]).refuses(10, "foreign_results");
    assert!(refused.stderr.contains("`mean_ttft_ms` in `nan.json` is no finite number"), "{}", refused.stderr);
    fixture.write("mixed/a.json", example("vllm"));
    fixture.write("mixed/b.json", example("hyperfine"));
    let refused = fixture.assay(&["import", "results", "mixed"]).refuses(10, "foreign_results");
    assert!(refused.stderr.contains("import the results of each tool by themselves"), "{}", refused.stderr);
    assert!(!fixture.store().exists() && !fixture.config().join("keys").exists());
}

#[test]
fn a_name_is_given_once() {
    let fixture = Fixture::bare();
    import(&fixture, "vllm", "peers");
    let folder = write_example(&fixture, "vllm");
    let same = fixture.assay(&["import", "results", &folder, "--name", "peers"]).success().stdout;
    assert!(same.starts_with("nothing new: the foreign evidence `peers` is of the same files"), "{same}");
    let (path, text) = RESULT_FORMATS.iter().find(|known| known.name == "vllm").expect("a format").examples[0].files[0];
    fixture.write(&format!("{folder}/{path}"), &text.replace("6.425", "6.5"));
    let refused = fixture.assay(&["import", "results", &folder, "--name", "peers"]).refuses(2, "file_differs");
    assert!(refused.stderr.contains("has foreign evidence of the name `peers`"), "{}", refused.stderr);
}

/// Tools write command lines and headers into their results. The files are frozen as they are, so such a file is refused.
#[test]
fn no_credential_survives() {
    let fixture = Fixture::bare();
    import(&fixture, "vllm", "first");
    let aiperf = RESULT_FORMATS[0].examples[0].files[0].1;
    let with = |from: &str, to: &str| {
        assert!(aiperf.contains(from), "{from}");
        aiperf.replacen(from, to, 1)
    };
    let cases = [
        with("--endpoint-type 'chat'", &format!("--endpoint-type 'chat' --api-key '{CANARY}'")),
        with("\"streaming\": true", &format!("\"streaming\": true, \"headers\": {{\"Authorization\": \"Bearer {CANARY}\"}}")),
    ];
    for case in cases {
        fixture.write("profiles/profile.json", &case);
        for more in [&[][..], &["--json"], &["--dry-run"]] {
            let refused =
                fixture.assay(&[&["import", "results", "profiles"][..], more].concat()).refuses(10, "foreign_credential");
            assert!(refused.stderr.contains("in `profile.json` looks like a credential"), "{}", refused.stderr);
            assert!(!refused.stderr.contains(CANARY) && !refused.stdout.contains(CANARY), "{}", refused.stderr);
        }
    }
    for path in files_under(&fixture.store()) {
        let bytes = fs::read(&path).expect("a file of the store");
        assert!(!bytes.windows(CANARY.len()).any(|found| found == CANARY.as_bytes()), "{}", path.display());
    }
    fixture.write("profiles/profile.json", &with("--endpoint-type 'chat'", "--endpoint-type 'chat' --api-key REDACTED"));
    fixture.assay(&["import", "results", "profiles"]).success();
}

/// Returns the path of the first frozen file of evidence.
fn frozen(fixture: &Fixture, shown: &Value) -> PathBuf {
    blob(&fixture.store(), text(&shown["body"]["files"][0]["artifact"]["digest"]))
}

#[test]
fn a_changed_or_absent_file_is_reported() {
    let fixture = Fixture::bare();
    let imported = import(&fixture, "sglang", "peers");
    let path = frozen(&fixture, &imported);
    let bytes = fs::read(&path).expect("the frozen file");
    fs::remove_file(&path).expect("removed");
    write_file(&path, &flip_bit(&bytes));
    let refused = fixture.assay(&["verify", id(&imported)]).refuses(20, "artifact_corrupt");
    assert!(!refused.stdout.contains("ok  "), "{}", refused.stdout);
    fixture.assay(&["show", id(&imported)]).refuses(20, "artifact_corrupt");
    fs::remove_file(&path).expect("removed");
    let absent = fixture.assay(&["verify", id(&imported)]).success();
    assert!(absent.stdout.contains("`sglang_1129_8_random.jsonl` is absent: no number was read again"), "{}", absent.stdout);
    assert!(!absent.stdout.contains("and equal"), "{}", absent.stdout);
    let compared = fixture.assay(&["compare", id(&imported), id(&imported)]).success().stdout;
    for side in ["A", "B"] {
        let line = format!("absent  `sglang_1129_8_random.jsonl` of {side}: no number was read again");
        assert!(compared.contains(&line), "`{line}` is missing:\n{compared}");
    }
    let document = fixture.assay(&["compare", id(&imported), id(&imported), "--json"]).success().json();
    assert_eq!((&document["sides"][0]["read_again"], list(&document["sides"][1]["absent"]).len()), (&json!(false), 1));
    let refused = fixture.assay(&["verify", id(&imported), "--strict"]).refuses(20, "artifact_absent");
    assert!(
        refused.stderr.contains("`assay import results PATH --name peers`, with the same files, stores them again"),
        "{}",
        refused.stderr
    );
    let again = import(&fixture, "sglang", "peers");
    assert_eq!((id(&again), &again["body"]), (id(&imported), &imported["body"]), "there is no second document");
    fixture.assay(&["verify", id(&imported), "--strict"]).success();
    fs::remove_file(&path).expect("removed");
    write_file(&path, &flip_bit(&bytes));
    import(&fixture, "sglang", "peers");
    fixture.assay(&["verify", id(&imported), "--strict"]).success();
    fixture.assay(&["verify", "sha256:00000000"]).refuses(2, "no_such_document");
}

/// Signs evidence with a change by the importer's own key, and returns the digest of its manifest.
fn plant(fixture: &Fixture, shown: &Value, name: &str, change: impl FnOnce(&mut ForeignEvidence)) -> String {
    let part = |part: &str| fs::read(blob(&fixture.store(), text(&shown["evidence"][part]))).expect("a blob");
    let candidates = vec![key_of(fixture, Role::Import).public_key()];
    let verified = verify(&part("manifest"), &part("bundle"), &Trust::None { candidates }, &ExpectedManifest::default())
        .expect("it verifies");
    let mut manifest = ForeignEvidence::from_document(verified.value()).expect("foreign evidence").clone();
    change(&mut manifest.body);
    let predicate: Predicate = verified.predicate().clone();
    let signed = sign(&manifest, &Signer::new(key_of(fixture, Role::Import)), predicate).expect("it signs");
    let store = Store::open(&fixture.store().display().to_string()).expect("a store");
    store.put(&signed.manifest).expect("stored");
    store.put(&signed.bundle).expect("stored");
    let reference = signed.input_ref();
    let accepted = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle };
    store
        .create(&Layout::foreign_evidence(&name.parse().expect("a name")), &accepted.to_bytes().expect("bytes"))
        .expect("created");
    reference.manifest.to_string()
}

#[test]
fn a_document_that_contradicts_its_files_is_refused() {
    let fixture = Fixture::bare();
    let imported = import(&fixture, "aiperf", "peers");
    let refused = |name: &str, change: fn(&mut ForeignEvidence)| {
        let digest = plant(&fixture, &imported, name, change);
        let refused = fixture.assay(&["verify", &digest]).refuses(20, "foreign_evidence");
        assert!(!refused.stdout.contains("and equal"), "{}", refused.stdout);
        refused.stderr
    };
    let faster = refused("faster", |evidence| evidence.rows[0].value += 1.0);
    assert!(faster.contains("its numbers are not what its files state"), "{faster}");
    let fewer = refused("fewer", |evidence| drop(evidence.rows.pop()));
    assert!(fewer.contains("its numbers are not what its files state"), "{fewer}");
    let newer = refused("newer", |evidence| evidence.tool_version = Some("9.9.9".to_owned()));
    assert!(newer.contains("its version of the tool is not what its files state"), "{newer}");
    let hidden = refused("hidden", |evidence| evidence.not_read.clear());
    assert!(hidden.contains("its fields that were not read are not what its files state"), "{hidden}");
    let samples = refused("samples", |evidence| evidence.samples = None);
    assert!(samples.contains("its rows of single requests are not what its files state"), "{samples}");
}

/// The version of a report's format is none of the tool that made its numbers.
#[test]
fn a_benchmark_report_is_shown_with_its_version_and_its_tool() {
    let fixture = Fixture::bare();
    let origin = "Benchmark Report 0.2 (made by inference-perf 0.3.0)";
    let folder = write_example(&fixture, "benchmark-report");
    let printed = fixture.assay(&["import", "results", &folder, "--name", "one"]).success().stdout;
    assert!(printed.contains(&format!("{origin}: 1 file")), "{printed}");
    let example = RESULT_FORMATS.iter().find(|known| known.name == "benchmark-report").expect("a format").examples[0].files[0].1;
    fixture.write("two.yaml", &example.replace("mean: 0.061", "mean: 0.062"));
    let two = fixture.assay(&["import", "results", "two.yaml", "--name", "two", "--json"]).success().json();
    let members = ["format", "format_version", "tool", "tool_version"].map(|member| two["body"][member].clone());
    assert_eq!(members, ["benchmark-report", "0.2", "inference-perf", "0.3.0"].map(Value::from));
    let compared = fixture.assay(&["compare", "--foreign", "one", "two", "--to", "pages"]).success().stdout;
    assert!(compared.contains(&format!("A  {origin}\nB  {origin}")), "{compared}");
    let page = fs::read_to_string(fixture.repo().join("pages/report.html")).expect("a page");
    assert!(page.contains(origin), "{page}");
    let history = fixture.assay(&["history", "--foreign", "benchmark-report.ttft"]).success().stdout;
    assert!(history.starts_with("foreign: measured by inference-perf 0.3.0 in Benchmark Report 0.2, not by Assay"), "{history}");
    fixture.assay(&["gate", "--to", "verdicts", "--foreign", "one", "--", "two"]).success();
    let page = fs::read_to_string(fixture.repo().join("verdicts/foreign/report.html")).expect("a page");
    assert!(page.contains("benchmark-report 0.2 (made by inference-perf 0.3.0)"), "{page}");
}

/// A file whose figures do not agree is imported, and each form shows both figures.
#[test]
fn figures_that_do_not_agree_are_shown() {
    let fixture = Fixture::bare();
    let example = RESULT_FORMATS.iter().find(|known| known.name == "vllm").expect("a format").examples[0].files[0].1;
    fixture.write("given.json", &example.replace("\"completed\": 4", "\"completed\": 3"));
    let remark = "figures of `given.json` do not agree: the number of elements of `ttfts` is 4, and `completed` + `failed` is 3";
    let imported = fixture.assay(&["import", "results", "given.json", "--name", "odd", "--json"]).success().json();
    assert!(list(&imported["body"]["remarks"]).contains(&json!(remark)), "{:#}", imported["body"]["remarks"]);
    let shown = fixture.assay(&["show", id(&imported)]).success().stdout;
    assert!(shown.contains(&format!("remark  {remark}")), "{shown}");
    import(&fixture, "vllm", "even");
    let compared = fixture.assay(&["compare", "--foreign", "even", "odd", "--to", "pages"]).success().stdout;
    assert!(compared.contains(&format!("B: {remark}")) && !compared.contains("A: figures"), "{compared}");
    let file = |name: &str| fs::read_to_string(fixture.repo().join("pages").join(name)).expect("a file of the comparison");
    assert!(file("report.html").contains("B: figures of"), "{}", file("report.html"));
    let document: Value = serde_json::from_str(&file("comparison.json")).expect("JSON");
    assert!(list(&document["sides"][1]["remarks"]).contains(&json!(remark)), "{document:#}");
    let judged = fixture.assay(&["gate", "--foreign", "even", "--", "odd"]).success().stdout;
    assert!(judged.contains("`odd`: figures of `given.json` do not agree"), "{judged}");
    let hidden = plant(&fixture, &imported, "hidden", |evidence| evidence.remarks.clear());
    let refused = fixture.assay(&["verify", &hidden]).refuses(20, "foreign_evidence");
    assert!(refused.stderr.contains("its remarks are not what its files state"), "{}", refused.stderr);
}

/// Evidence of an earlier version of Assay has fewer labels.
#[test]
fn evidence_with_fewer_labels_is_said_to_be_imported_again() {
    let fixture = Fixture::bare();
    let imported = import(&fixture, "genai-bench", "new");
    let with_fewer = |evidence: &mut ForeignEvidence| {
        evidence.samples = None;
        evidence.rows.iter_mut().for_each(|row| drop(row.labels.remove("api_backend")));
    };
    let same = plant(&fixture, &imported, "same", with_fewer);
    let old = plant(&fixture, &imported, "old", |evidence| {
        with_fewer(evidence);
        evidence.importer.program = Digest::compute(b"an earlier version");
    });
    let refused = fixture.assay(&["verify", &old]).refuses(20, "foreign_evidence").stderr;
    for part in
        ["its numbers are not what its files state: it lacks the labels `api_backend`", "import them again under another name"]
    {
        assert!(refused.contains(part), "{refused}");
    }
    plant(&fixture, &imported, "read-before", |evidence| {
        evidence.rows.iter_mut().for_each(|row| drop(row.labels.remove("api_backend")));
    });
    let again = fixture.assay(&["import", "results", "given/genai-bench", "--name", "read-before"]).success();
    assert!(
        again.stderr.contains("states other numbers, labels or remarks than this version of Assay reads"),
        "{}",
        again.stderr
    );
    assert!(again.stdout.starts_with("nothing was imported: "), "{}", again.stdout);
    fs::remove_file(frozen(&fixture, &imported)).expect("removed");
    let refused = fixture.assay(&["compare", &old, id(&imported)]).refuses(2, "nothing_compared").stderr;
    for part in ["their labels differ: B alone has `api_backend`", "import its files again under another name"] {
        assert!(refused.contains(part), "{refused}");
    }
    let refused = fixture.assay(&["compare", &same, id(&imported)]).refuses(2, "nothing_compared").stderr;
    assert!(!refused.contains("import its files again"), "one program imported both: {refused}");
}

#[test]
fn a_signer_that_no_policy_names_is_not_established() {
    let fixture = Fixture::bare();
    let imported = import(&fixture, "jmh", "peers");
    let policy = fs::read_to_string(fixture.trust()).expect("the policy");
    fixture.write("trust.yaml", &policy.replace("- import", "- gate").replace("[import]", "[gate]"));
    fixture.assay(&["verify", id(&imported), "--trust", "trust.yaml"]).refuses(20, "wrong_signer");
    let fingerprint = key_of(&fixture, Role::Import).public_key().fingerprint().to_string();
    let established = fixture.assay(&["verify", id(&imported), "--trust", &fingerprint]).success();
    assert!(!established.stderr.contains("not established"), "{}", established.stderr);
    let store = fixture.store().display().to_string();
    let stranger = Fixture::without_keys();
    for command in ["verify", "show"] {
        let ran = stranger.assay(&[command, id(&imported), "--store", &store]).exits(21);
        assert!(ran.stderr.contains("internally consistent; signer not established"), "{}", ran.stderr);
    }
}

#[test]
fn equal_definitions_are_compared_and_others_are_named() {
    let fixture = Fixture::bare();
    let first = import(&fixture, "hyperfine", "first");
    let faster = RESULT_FORMATS.iter().find(|known| known.name == "hyperfine").expect("a format").examples[0].files[0].1;
    fixture.write("faster.json", &faster.replace("0.104", "0.094"));
    let second = fixture.assay(&["import", "results", "faster.json", "--name", "second", "--json"]).success().json();
    let compared = fixture.assay(&["compare", id(&first), id(&second)]).success().stdout;
    for part in [
        "only its importer vouches for it",
        "A  hyperfine of a version that its files do not state",
        "it is not known if the versions of hyperfine are the same",
        "hyperfine.wall_time",
        "B / A",
        "MEDIAN OF",
        "between order statistics",
        "the samples of each median are of one run",
    ] {
        assert!(compared.contains(part), "`{part}` is missing:\n{compared}");
    }
    for part in ["not comparable", "absent", "is one cluster"] {
        assert!(!compared.contains(part), "{compared}");
    }
    let document = fixture.assay(&["compare", id(&first), id(&second), "--json"]).success().json();
    let is_of = |sample: &&Value| sample["labels"]["command"] == "sort numbers.txt";
    let sample = &list(&document["samples"]).iter().find(is_of).expect("samples")["baseline"];
    assert_eq!((&sample["median"], &sample["method"]), (&json!(0.104), &json!("order_statistic")), "{document:#}");

    let [vllm, sglang, aiperf] = ["vllm", "sglang", "aiperf"].map(|format| import(&fixture, format, format));
    let mixed = fixture.assay(&["compare", id(&vllm), "nightly"]).refuses(2, "nothing_compared");
    assert!(mixed.stderr.contains("`nightly` is a run") && mixed.stderr.contains("assay export --format"), "{}", mixed.stderr);
    let refused = fixture.assay(&["compare", id(&vllm), id(&sglang)]).refuses(2, "nothing_compared");
    let named = "`vllm.ttft` and `sglang.ttft` are not comparable: both are near `ttft_ms`, and are defined differently \
                 (docs/reference/foreign.md#vllm and #sglang)";
    assert!(refused.stdout.contains(named), "{}", refused.stdout);
    assert!(!refused.stdout.contains("intervals"), "nothing was compared: {}", refused.stdout);
    let same = fixture.assay(&["compare", id(&aiperf), id(&aiperf), "--json"]).success().json();
    assert_eq!((&same["not_comparable"], &same["tools_differ"]), (&json!([]), &Value::Null));
    assert_eq!((&same["sides"][0]["tool"], &same["sides"][1]["read_again"]), (&json!("AIPerf"), &json!(true)));
    assert!(list(&same["rows"]).iter().all(|row| row["baseline"] == row["candidate"]));
    assert_eq!(same["same"], "A and B are the same evidence: each number is compared with itself");
    check_compared_page(&fixture);
    // Three requests are too few for an interval of a median.
    let sample = list(&same["samples"]).iter().find(|sample| sample["metric"] == "aiperf.ttft").expect("samples");
    assert!(text(&sample["baseline"]["no_interval"]).contains("3 samples"), "{sample:#}");
}

/// `--foreign` finds evidence by its name, and `--to` writes a page whose first line states the grade.
fn check_compared_page(fixture: &Fixture) {
    let example = RESULT_FORMATS.iter().find(|known| known.name == "hyperfine").expect("a format").examples[0].files[0].1;
    fixture.write("copy/hyperfine.json", example);
    fixture.assay(&["import", "results", "copy/hyperfine.json", "--name", "one"]).success();
    fixture.write("other/hyperfine.json", &example.replace("0.104,", "0.105,"));
    fixture.assay(&["import", "results", "other/hyperfine.json", "--name", "two"]).success();
    fixture.assay(&["compare", "--foreign", "one", "two", "--to", "pages"]).success();
    let file = |name: &str| fs::read_to_string(fixture.repo().join("pages").join(name)).expect("a file of the comparison");
    let page = file("report.html");
    let grade = page.find("<strong>grade foreign: Assay measured none of these numbers").expect("the grade");
    assert!(grade < page.find("<h1>one (A) and two (B)</h1>").expect("a title"), "{page}");
    for part in ["Medians of samples", "the wall time of an execution", "<svg", "command=sort"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let document: Value = serde_json::from_str(&file("comparison.json")).expect("JSON");
    assert_eq!((&document["grade"], &document["same"]), (&json!("foreign"), &Value::Null));
    fixture.assay(&["import", "results", "copy/hyperfine.json", "--name", "again"]).success();
    let again = fixture.assay(&["compare", "--foreign", "one", "again"]).success().stdout;
    assert!(again.contains("A and B hold the same file `hyperfine.json`, whose numbers are compared with themselves"), "{again}");
    let absent = fixture.assay(&["compare", "--foreign", "one", "none"]).refuses(2, "no_such_foreign_evidence");
    assert!(absent.stderr.contains("`assay history --foreign` lists"), "{}", absent.stderr);
    let store = Store::open(&fixture.store().display().to_string()).expect("a store");
    let place = |name: &str| Layout::foreign_evidence(&name.parse().expect("a name"));
    let pointer = store.read(&place("two"), AcceptedResult::MAX_BYTES).expect("read").expect("a pointer");
    store.create(&place("moved"), &pointer).expect("created");
    fixture.assay(&["compare", "--foreign", "one", "moved"]).refuses(20, "pointer_elsewhere");
}

/// The samples are a file of their own: its digest is in the document, and its rows are not.
#[test]
fn rows_of_single_requests_are_a_file() {
    let fixture = Fixture::bare();
    let imported = import(&fixture, "aiperf", "peers");
    let samples = &imported["body"]["samples"];
    let bytes = fs::read(blob(&fixture.store(), text(&samples["artifact"]["digest"]))).expect("the samples");
    assert_eq!(samples["artifact"]["digest"], json!(Digest::compute(&bytes).to_string()));
    let lines: Vec<Value> = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    assert_eq!((lines.len(), &samples["rows"]), (3, &json!("3")));
    assert_eq!(lines[0]["values"]["aiperf.ttft"], json!(7.134_500_999_999_999), "{:#}", lines[0]);
    assert_eq!(lines[0]["values"]["icl_ms"].as_array().map(Vec::len), Some(9));
    assert_eq!(samples["units"]["aiperf.ttft"], json!("ms"));
}

/// The rows of a query of foreign evidence.
fn queried(fixture: &Fixture, sql: &str) -> Vec<Value> {
    let found = fixture.assay(&["query", "--foreign", sql, "--format", "json"]).success();
    found.stdout.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

#[test]
fn sql_reads_foreign_evidence_only_if_it_is_asked_to() {
    let fixture = Fixture::bare();
    let sql = "SELECT count(*) AS n FROM foreign_outcome_fact";
    let refused = fixture.assay(&["query", sql]).refuses(2, "query_refused");
    assert!(
        refused.stderr.contains("whose numbers Assay did not measure") && refused.stderr.contains("--foreign"),
        "{}",
        refused.stderr
    );
    let imported = import(&fixture, "vllm", "peers");
    let other = import(&fixture, "hyperfine", "commands");
    let rows = |of: &Value| list(&of["body"]["rows"]).len();
    assert_eq!(queried(&fixture, sql), [json!({"n": rows(&imported) + rows(&other)})]);
    let all = queried(
        &fixture,
        "SELECT name, format, evidence_id, numbers, samples, signer, grade FROM foreign_evidence_dim ORDER BY name",
    );
    assert_eq!(all.iter().map(|row| text(&row["evidence_id"])).collect::<Vec<_>>(), [id(&other), id(&imported)]);
    assert_eq!(
        (&all[1]["numbers"], &all[1]["grade"], &all[0]["signer"]),
        (&json!(rows(&imported)), &json!("foreign"), &json!("local-import"))
    );

    let first = &list(&imported["body"]["rows"])[0];
    let labels = serde_json::to_string(&first["labels"]).expect("JSON");
    let sql = format!(
        "SELECT value, unit FROM foreign_outcome_fact WHERE evidence_id = '{}' AND metric = '{}' AND statistic = '{}' AND labels = '{labels}'",
        id(&imported),
        text(&first["metric"]),
        text(&first["statistic"]),
    );
    assert_eq!(queried(&fixture, &sql), [json!({"value": first["value"], "unit": first["unit"]})]);

    let samples = queried(
        &fixture,
        "SELECT count(DISTINCT s.sample) AS n, min(s.value) > 0 AS positive FROM foreign_sample_fact s \
         JOIN foreign_evidence_dim e ON s.evidence_id = e.evidence_id WHERE e.name = 'commands'",
    );
    assert_eq!(
        samples,
        [json!({"n": other["body"]["samples"]["rows"].as_str().and_then(|rows| rows.parse::<u64>().ok()), "positive": true})]
    );
}

#[test]
fn evidence_of_an_unknown_signer_is_left_out_by_name_and_a_changed_one_refused() {
    let fixture = Fixture::bare();
    let imported = import(&fixture, "vllm", "peers");
    let sql = "SELECT count(*) AS n FROM foreign_evidence_dim";
    let short = &id(&imported)["sha256:".len()..][..12];
    let stranger = Fixture::without_keys();
    stranger.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    let of_others = stranger.trust().display().to_string();
    for (trust, code) in [(of_others, "unknown_key"), (format!("sha256:{}", "0".repeat(64)), "pinned_key_missing")] {
        let asked = ["query", "--foreign", sql, "--trust", &trust];
        let left_out = fixture.assay(&[&asked[..], &["--format", "json"]].concat()).success();
        assert_eq!(left_out.stdout, "{\"n\":0}\n");
        assert!(left_out.stderr.contains(&format!("left out: foreign evidence {short}")), "{}", left_out.stderr);
        assert!(left_out.stderr.contains("foreign: 0 pieces"), "{}", left_out.stderr);
        fixture.assay(&[&asked[..], &["--strict"]].concat()).refuses(20, code);
    }

    let path = blob(&fixture.store(), id(&imported));
    let bytes = fs::read(&path).expect("the manifest");
    fs::remove_file(&path).expect("removed");
    write_file(&path, &flip_bit(&bytes));
    let refused = fixture.assay(&["query", "--foreign", sql]).exits(20);
    assert!(!refused.stderr.contains("valid signature"), "{}", refused.stderr);
}

#[test]
fn a_copied_pointer_counts_nothing_twice() {
    let fixture = Fixture::bare();
    import(&fixture, "hyperfine", "a");
    import(&fixture, "vllm", "b");
    let sql = "SELECT count(*) AS n FROM foreign_evidence_dim";
    let pointer = |name: &str| fixture.store().join("foreign").join(name);
    fs::copy(pointer("a"), pointer("copy")).expect("copied");
    let refused = fixture.assay(&["query", "--foreign", sql]).refuses(20, "pointer_elsewhere");
    assert!(refused.stderr.contains("the pointer `foreign/copy` is of the foreign evidence `a`"), "{}", refused.stderr);
    fs::remove_file(pointer("copy")).expect("removed");
    assert_eq!(queried(&fixture, sql), [json!({"n": 2})]);
    fs::copy(pointer("a"), pointer("b")).expect("replaced");
    fixture.assay(&["query", "--foreign", sql]).refuses(20, "pointer_elsewhere");
}

#[test]
fn samples_that_are_absent_are_said() {
    let fixture = Fixture::bare();
    let imported = import(&fixture, "hyperfine", "commands");
    let sql = "SELECT count(*) AS n FROM foreign_sample_fact";
    let ran = fixture.assay(&["query", "--foreign", sql]).success();
    assert!(!ran.stderr.contains("absent"), "{}", ran.stderr);
    fs::remove_file(blob(&fixture.store(), text(&imported["body"]["samples"]["artifact"]["digest"]))).expect("removed");
    let ran = fixture.assay(&["query", "--foreign", sql, "--format", "json"]).success();
    assert!(ran.stderr.contains("absent: the samples of foreign evidence `commands`"), "{}", ran.stderr);
    let refused = fixture.assay(&["query", "--foreign", "--strict", sql]).refuses(20, "artifact_absent");
    assert!(refused.stderr.contains("--name commands`, with the same files, stores them again"), "{}", refused.stderr);
    assert_eq!(ran.stdout, "{\"n\":0}\n");
    import(&fixture, "hyperfine", "commands");
    fixture.assay(&["query", "--foreign", "--strict", sql]).success();
}
