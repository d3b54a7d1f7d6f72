//! The second verifier, a page in a browser that shares no code with Assay, against the first: both are given the same folders, and
//! must refuse the same ones with the same error codes.
//!
//! `ASSAY_TEST_VERIFIER=FILE` names the page that `ci/verifier-page` makes, and `ASSAY_TEST_BROWSER` the browser's check, as in
//! `browser.rs`. If either is not requested, the test says so and checks nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assay_envelope::{ExpectedManifest, Predicate, SecretKey, Signer, TrustPolicy, TrustedSigner, sign, verify};
use assay_manifest::{Digest, Document, InputRef, Role};
use serde_json::{Value, json};

use crate::forgery::sort_inputs;
use crate::support::{CommandResult, Fixture, copy_folder, files_under, measured_fixture, write_file};
use crate::tamper::{canonical, flip_bit, local_key, local_trust};

/// The trust of a reader: `--trust` of the program, and the text that is pasted into the page.
#[derive(Clone)]
enum ReaderTrust {
    NoSigner,
    Fingerprints(Vec<String>),
    PolicyFile(PathBuf),
}

impl ReaderTrust {
    fn fingerprint(text: impl ToString) -> Self {
        Self::Fingerprints(vec![text.to_string()])
    }

    fn options(&self) -> Vec<String> {
        let values = match self {
            Self::NoSigner => Vec::new(),
            Self::Fingerprints(all) => all.clone(),
            Self::PolicyFile(path) => vec![path.display().to_string()],
        };
        values.into_iter().flat_map(|value| ["--trust".to_owned(), value]).collect()
    }

    fn pasted_text(&self) -> String {
        match self {
            Self::NoSigner => String::new(),
            Self::Fingerprints(all) => all.join("\n"),
            Self::PolicyFile(path) => fs::read_to_string(path).expect("a policy"),
        }
    }
}

/// The expected result of a folder.
#[derive(Clone, Copy)]
enum ExpectedResult {
    /// It verifies, and its signers are established.
    Established,
    /// It verifies, and its signers are not established.
    Unestablished,
    /// Both refuse it, with this error code.
    Refused(&'static str),
    /// The page refuses it with this error code; the program may have a more exact one.
    RefusedByPage(&'static str),
    /// Both refuse it with the same error code, whichever it is.
    RefusedAlike,
}

struct Case {
    folder: PathBuf,
    trusts: ReaderTrust,
    expected: ExpectedResult,
}

/// The cases of a test, each with a folder of its own.
struct Cases {
    fixture: Fixture,
    all: BTreeMap<String, Case>,
}

impl Cases {
    fn new() -> Self {
        Self { fixture: Fixture::without_keys(), all: BTreeMap::new() }
    }

    /// Adds a changed copy of the published folder of the run `one`.
    fn add(&mut self, name: &str, trusts: &ReaderTrust, expected: ExpectedResult, change: impl FnOnce(&Path)) {
        let folder = self.fixture.root().join(format!("case-{}", self.all.len()));
        copy_folder(&measured_fixture().published("one"), &folder);
        change(&folder);
        let known = self.all.insert(name.to_owned(), Case { folder, trusts: trusts.clone(), expected });
        assert!(known.is_none(), "two cases are called {name}");
    }

    /// Runs `assay verify` on a case, as a reader without keys or trust.
    fn verify(&self, case: &Case) -> CommandResult {
        let options = case.trusts.options();
        let folder = case.folder.display().to_string();
        let mut arguments = vec!["verify", &folder];
        arguments.extend(options.iter().map(String::as_str));
        self.fixture.assay(&arguments)
    }

    /// Returns the page's results for all cases.
    fn run_page(&self, script: &Path, page: &Path) -> Value {
        let case =
            |(name, case): (&String, &Case)| json!({"name": name, "folder": case.folder, "trust": case.trusts.pasted_text()});
        let list = self.fixture.root().join("cases.json");
        let cases: Vec<_> = self.all.iter().map(case).collect();
        write_file(&list, &serde_json::to_vec(&cases).expect("JSON"));
        let mut node = Command::new("node");
        CommandResult::from_output(node.arg(script).arg(page).arg(&list).output().expect("node starts")).success().json()
    }
}

/// Returns the script that opens the page, and the page, or `None` unless both are requested.
#[expect(clippy::print_stdout, reason = "a test that looks at less says so")]
fn requested_verifier() -> Option<(PathBuf, PathBuf)> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let (Some(browser), Some(page)) = (variable("ASSAY_TEST_BROWSER"), variable("ASSAY_TEST_VERIFIER")) else {
        println!("ASSAY_TEST_BROWSER or ASSAY_TEST_VERIFIER is not set: the second verifier was not tried");
        return None;
    };
    let script = browser.join("verifier.mjs");
    assert!(script.is_file() && page.is_file(), "`{}` or `{}` is not there", script.display(), page.display());
    Some((script, page))
}

const BUNDLE: &str = "chain/publication.sigstore.json";

fn policy_file() -> ReaderTrust {
    ReaderTrust::PolicyFile(measured_fixture().trust())
}

/// Signs a changed manifest of a folder again, and returns the reference that other manifests use.
fn sign_manifest(folder: &Path, name: &str, key: SecretKey, change: impl FnOnce(&mut Value)) -> InputRef {
    let paths = ["json", "sigstore.json"].map(|extension| folder.join(format!("chain/{name}.{extension}")));
    let [manifest, bundle] = paths.each_ref().map(|path| fs::read(path).expect("it is there"));
    let verified =
        verify(&manifest, &bundle, local_trust(), &ExpectedManifest::default()).expect("the untouched manifest verifies");
    let mut value: Value = serde_json::from_slice(&manifest).expect("JSON");
    change(&mut value);
    let changed = Document::parse(&canonical(&value)).expect("still a manifest");
    let mut predicate = verified.predicate().clone();
    // Signing lists the current inputs.
    if let Predicate::VerificationSummary(summary) = &mut predicate {
        summary.input_attestations.clear();
    }
    let signed = sign(&changed, &Signer::new(key), predicate).expect("a key signs what it is given");
    write_file(&paths[0], &signed.manifest);
    write_file(&paths[1], &signed.bundle);
    signed.input_ref()
}

/// Signs the Publication of a folder again, after a change of its body.
fn sign_again(folder: &Path, key: SecretKey, change: impl FnOnce(&mut Value)) {
    sign_manifest(folder, "publication", key, |publication| change(&mut publication["body"]));
}

/// Changes the Summary with the reduce key, and publishes the change with unchanged numbers.
fn publish_summary(folder: &Path, change: impl FnOnce(&mut Value)) {
    let summary = sign_manifest(folder, "summary", local_key(Role::Reduce), |summary| change(&mut summary["body"]));
    let path = folder.join("numbers.json");
    let mut numbers: Value = serde_json::from_slice(&fs::read(&path).expect("numbers")).expect("JSON");
    numbers["summary"] = json!(summary.manifest);
    let bytes = canonical(&numbers);
    write_file(&path, &bytes);
    sign_manifest(folder, "publication", local_key(Role::Publish), |publication| {
        let inputs = publication["header"]["inputs"].as_array_mut().expect("a list");
        let input = inputs.iter_mut().find(|input| input["kind"] == "summary").expect("the summary");
        *input = json!(summary);
        // A manifest lists its inputs in order, and the new digest may have another position.
        sort_inputs(publication);
        publication["body"]["summary"] = json!(summary.manifest);
        publication["body"]["numbers"]["digest"] = json!(Digest::compute(&bytes));
    });
}

/// Changes `numbers.json`, and signs it with the publish key.
fn publish_numbers(folder: &Path, change: impl FnOnce(&mut Vec<Value>)) {
    let path = folder.join("numbers.json");
    let mut numbers: Value = serde_json::from_slice(&fs::read(&path).expect("numbers")).expect("JSON");
    change(numbers["numbers"].as_array_mut().expect("a list"));
    let bytes = canonical(&numbers);
    write_file(&path, &bytes);
    sign_again(folder, local_key(Role::Publish), |body| {
        body["numbers"]["digest"] = json!(Digest::compute(&bytes));
        body["numbers"]["size"] = json!(bytes.len().to_string());
    });
}

fn whole_folders(cases: &mut Cases) {
    let untouched = |_: &Path| {};
    let policy = Digest::compute(&fs::read(measured_fixture().trust()).expect("the policy"));
    let keys: Vec<_> = Role::RUN.iter().map(|role| local_key(*role).public_key().fingerprint().to_string()).collect();
    let strangers: Vec<_> = Role::RUN
        .into_iter()
        .map(|role| TrustedSigner::new(role.as_str(), SecretKey::generate().expect("a key").public_key(), [role]))
        .collect();
    let other = cases.fixture.root().join("other-policy.yaml");
    write_file(&other, TrustPolicy { name: "other".to_owned(), signers: strangers, ..local_policy() }.to_yaml().as_bytes());

    cases.add("0 whole", &ReaderTrust::fingerprint(policy), ExpectedResult::Established, untouched);
    cases.add("whole, policy pasted", &policy_file(), ExpectedResult::Established, untouched);
    cases.add("whole, all keys pasted", &ReaderTrust::Fingerprints(keys.clone()), ExpectedResult::Established, untouched);
    cases.add("whole, nobody trusted", &ReaderTrust::NoSigner, ExpectedResult::Unestablished, untouched);
    let one = ReaderTrust::fingerprint(&keys[0]);
    cases.add("whole, one key pasted", &one, ExpectedResult::Refused("unknown_key"), untouched);
    let wrong = ReaderTrust::fingerprint(Digest::compute(b"somebody else's policy"));
    cases.add("whole, another fingerprint pasted", &wrong, ExpectedResult::Refused("pinned_key_missing"), untouched);
    cases.add("whole, another policy pasted", &ReaderTrust::PolicyFile(other), ExpectedResult::Refused("unknown_key"), untouched);
}

fn local_policy() -> TrustPolicy {
    match local_trust() {
        assay_envelope::Trust::Policy(policy) => policy.clone(),
        assay_envelope::Trust::None { .. } => unreachable!("the local trust is a policy"),
    }
}

/// Adds a case with a flipped bit for every file of the folder, and one with a removed file for each kind.
fn changed_files(cases: &mut Cases) {
    let published = measured_fixture().published("one");
    let mut kinds = Vec::new();
    for path in files_under(&published) {
        let path = path.strip_prefix(&published).expect("inside").to_owned();
        let name = path.display();
        cases.add(&format!("a flipped bit of {name}"), &policy_file(), ExpectedResult::RefusedAlike, |folder| {
            let bytes = fs::read(folder.join(&path)).expect("it is there");
            write_file(&folder.join(&path), &flip_bit(&bytes));
        });
        let kind = (path.parent().map(Path::to_owned), path.extension().map(ToOwned::to_owned));
        if !kinds.contains(&kind) {
            cases.add(&format!("without {name}"), &policy_file(), ExpectedResult::RefusedAlike, |folder| {
                fs::remove_file(folder.join(&path)).expect("removed");
            });
            kinds.push(kind);
        }
    }
}

fn other_bundles(cases: &mut Cases) {
    let other = measured_fixture().published("two");
    for (path, code) in [(BUNDLE, "subject_digest_mismatch"), ("chain/plan.sigstore.json", "bundle_missing")] {
        cases.add(&format!("{path} of another run"), &policy_file(), ExpectedResult::Refused(code), |folder| {
            fs::copy(other.join(path), folder.join(path)).expect("copied");
        });
    }
    let by_another = |folder: &Path| {
        let key = SecretKey::generate().expect("a key");
        write_file(&folder.join("keys/other.pub"), key.public_key().to_pem().as_bytes());
        sign_again(folder, key, |_| {});
    };
    cases.add("signed with another key", &policy_file(), ExpectedResult::Refused("unknown_key"), by_another);
    cases.add(
        "signed with another key, nobody trusted",
        &ReaderTrust::NoSigner,
        ExpectedResult::RefusedByPage("unknown_key"),
        by_another,
    );
    let by_plan = |folder: &Path| sign_again(folder, local_key(Role::Plan), |_| {});
    cases.add("signed with the key of another role", &policy_file(), ExpectedResult::Refused("wrong_signer"), by_plan);
    cases.add(
        "another role's key, nobody trusted",
        &ReaderTrust::NoSigner,
        ExpectedResult::RefusedByPage("wrong_signer"),
        by_plan,
    );
}

fn other_numbers(cases: &mut Cases) {
    let edit = |numbers: &mut Vec<Value>| numbers[0]["value"] = json!(1.5);
    cases.add("a number edited", &policy_file(), ExpectedResult::Refused("number_not_in_row"), |folder| {
        publish_numbers(folder, edit);
    });
    cases.add("a unit edited", &policy_file(), ExpectedResult::Refused("number_not_in_row"), |folder| {
        publish_numbers(folder, |numbers| numbers[0]["unit"] = json!("parsecs"));
    });
    cases.add("a number left out", &policy_file(), ExpectedResult::RefusedByPage("numbers_differ"), |folder| {
        publish_numbers(folder, |numbers| {
            numbers.pop();
        });
    });
    cases.add("another size", &policy_file(), ExpectedResult::RefusedByPage("size_differs"), |folder| {
        sign_again(folder, local_key(Role::Publish), |body| body["numbers"]["size"] = json!("1"));
    });
    cases.add("a stranger", &policy_file(), ExpectedResult::Established, |folder| write_file(&folder.join("more.txt"), b"more"));
}

/// Adds false statistics and rows that the reduce key signs, under honest numbers.
fn other_rows(cases: &mut Cases) {
    cases.add("a statistic that is not its row's", &policy_file(), ExpectedResult::RefusedByPage("row_differs"), |folder| {
        publish_summary(folder, |summary| summary["points"][0]["metrics"][0]["mean"] = json!(1.5));
    });
    cases.add("a trial's value that is not its row's", &policy_file(), ExpectedResult::RefusedByPage("row_differs"), |folder| {
        publish_summary(folder, |summary| summary["points"][0]["metrics"][0]["trials"][0]["value"] = json!(1.5));
    });
    let rows = "rows/outcome_fact.parquet";
    let file_of = |summary: &mut Value, change: &dyn Fn(&mut Value)| {
        let files = summary["files"].as_array_mut().expect("a list");
        change(files.iter_mut().find(|file| file["table"] == "outcome_fact").expect("the file"));
    };
    cases.add("the rows of another run", &policy_file(), ExpectedResult::RefusedByPage("number_without_row"), |folder| {
        let bytes = fs::read(measured_fixture().published("two").join(rows)).expect("rows");
        write_file(&folder.join(rows), &bytes);
        publish_summary(folder, |summary| {
            file_of(summary, &|file| {
                file["artifact"]["digest"] = json!(Digest::compute(&bytes));
                file["artifact"]["size"] = json!(bytes.len().to_string());
            });
        });
    });
    cases.add("more rows than there are", &policy_file(), ExpectedResult::Refused("row_count"), |folder| {
        publish_summary(folder, |summary| file_of(summary, &|file| file["rows"] = json!("1")));
    });
    cases.add("rows of another table", &policy_file(), ExpectedResult::Refused("rows"), |folder| {
        publish_summary(folder, |summary| file_of(summary, &|file| file["table"] = json!("workload_dim")));
    });
}

#[test]
fn both_verifiers_agree_on_every_folder() {
    let Some((script, page)) = requested_verifier() else { return };
    let mut cases = Cases::new();
    whole_folders(&mut cases);
    changed_files(&mut cases);
    other_bundles(&mut cases);
    other_numbers(&mut cases);
    other_rows(&mut cases);
    let shown = cases.run_page(&script, &page);
    assert_eq!(shown["findings"], json!([]), "what is wrong with the page itself");
    assert_eq!(shown["results"]["dropped"], shown["results"]["0 whole"], "a dropped folder is a chosen one");
    let wrong: Vec<_> =
        cases.all.iter().filter_map(|(name, case)| disagreement(&cases, name, case, &shown["results"][name])).collect();
    assert!(wrong.is_empty(), "{} of {} cases went wrong:\n{}", wrong.len(), cases.all.len(), wrong.join("\n"));
}

/// Returns how the page differs from what a case expects, or from the program.
fn disagreement(cases: &Cases, name: &str, case: &Case, shown: &Value) -> Option<String> {
    let [code, sentence] = ["code", "sentence"].map(|member| shown[member].as_str().expect("the page concludes"));
    let ran = cases.verify(case);
    let said = ran.error().unwrap_or_default();
    let is_whole = |established: bool, exit: i32| {
        let words = if established { "signed by those whom you trust" } else { "internally consistent; signer not established" };
        ran.code == exit
            && (code, shown["level"].as_u64(), shown["established"].as_bool()) == ("", Some(2), Some(established))
            && sentence.starts_with("The run one verifies to level 2 of 4, without plan, queries, grade and reports: ")
            && sentence.contains(words)
            && (sentence.contains("not of the run") != shown_strangers(shown).is_empty())
    };
    let is_refused = || {
        let claims = ["verifies to level", "signed by", "established"];
        (shown["level"].as_u64(), shown["established"].as_bool()) == (Some(0), Some(false))
            && sentence.starts_with("This folder does not verify: ")
            && !claims.iter().any(|claim| sentence.contains(claim))
    };
    let holds = match case.expected {
        ExpectedResult::Established => is_whole(true, 0),
        ExpectedResult::Unestablished => is_whole(false, 21),
        ExpectedResult::Refused(expected) => is_refused() && (code, said.as_str(), ran.code) == (expected, expected, 20),
        ExpectedResult::RefusedByPage(expected) => is_refused() && code == expected,
        ExpectedResult::RefusedAlike => is_refused() && ran.code == 20 && code == said,
    };
    (!holds).then(|| format!("{name}: the page says `{code}`: {sentence}\n    the program exits {} with `{said}`", ran.code))
}

fn shown_strangers(shown: &Value) -> Vec<&str> {
    let lists = shown["lists"].as_array().expect("a list");
    lists.iter().filter_map(Value::as_str).filter(|text| *text == "more.txt").collect()
}
