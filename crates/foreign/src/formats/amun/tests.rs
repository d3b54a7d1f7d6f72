//! Specifications of Amun: each field, both stored copies, credentials, and the files that are written.

use std::collections::BTreeSet;

use assay_manifest::Digest;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::pipfile::pipfile;
use super::{FORMAT, RULES};
use crate::format::ExampleInput;
use crate::{Import, ImportOptions, Outcome, Source, import, recognise};

/// A value that no output may contain.
const CANARY: &str = "canary-4f2b9c7d1e";
const SCRIPT: &str = "#!/bin/sh\necho '{}'\n";

fn text_with(text: &str, options: &ImportOptions) -> Import {
    import(&Source::File { name: "any.name", bytes: text.as_bytes() }, options).expect("a specification")
}

/// Imports a specification with a base, a script and these members.
fn with(members: &Value) -> Import {
    text_with(&specification(members).to_string(), &ImportOptions::default())
}

fn specification(members: &Value) -> Value {
    let mut document = json!({"base": "registry.example.org/base:1", "script": SCRIPT});
    for (name, value) in members.as_object().expect("members") {
        document[name] = value.clone();
    }
    document
}

fn rows(import: &Import, outcome: Outcome) -> String {
    let line = |row: &crate::Row| {
        [Some(&row.field), row.to.as_ref(), row.note.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(" | ")
    };
    import.rows.iter().filter(|row| row.outcome == outcome).map(line).collect::<Vec<_>>().join("\n")
}

fn refused(members: &Value) -> String {
    rows(&with(members), Outcome::Refused)
}

fn example(index: usize) -> Import {
    let ExampleInput::File(text) = FORMAT.examples[index].input else { panic!("a file") };
    text_with(text, &ImportOptions::default())
}

fn file<'a>(import: &'a Import, ending: &str) -> &'a str {
    let found = import.files.iter().find(|file| file.path.ends_with(ending));
    &found.unwrap_or_else(|| panic!("no {ending} among {:?}", import.files)).text
}

fn whole(import: &Import) -> String {
    let rows = import.rows.iter().map(|row| format!("{} | {} | {}\n", row.field, row.outcome, row.to.as_deref().unwrap_or("")));
    let files = import.files.iter().map(|file| format!("== {}\n{}", file.path, file.text));
    rows.chain(files).collect()
}

#[test]
fn a_stored_specification_becomes_an_indicator() {
    assert_snapshot!(whole(&example(0)));
}

#[test]
fn a_stack_becomes_the_recipe_of_an_image() {
    assert_snapshot!(whole(&example(1)));
}

/// Each field of the table has a case: its value, and its outcome.
#[test]
fn each_field_has_its_outcome() {
    use Outcome::{Approximated, Ignored, Mapped, Refused};
    let hardware = |part: &str, name: &str, value: Value| json!({part: {"requests": {"hardware": {name: value}}}});
    let lock = json!({"default": {"a": {"version": "==1"}}});
    let stack =
        |requirements: Value, locked: Value| json!({"python": {"requirements": requirements, "requirements_locked": locked}});
    let packages = json!({"packages": {"a": "*"}});
    let cases: Vec<(&str, Value, &str, Outcome)> = vec![
        ("identifier", json!({"identifier": "a-b"}), "identifier", Mapped),
        ("identifier", json!({"identifier": "A B"}), "identifier", Approximated),
        ("identifier", json!({"identifier": ["a"]}), "identifier", Refused),
        ("script", json!({}), "script", Mapped),
        ("script", json!({"script": "import json\n"}), "script", Approximated),
        ("script", json!({"script": "https://example.org/run.py"}), "script", Approximated),
        ("script", json!({"script": "http://example.org/run.py"}), "script", Refused),
        ("script", json!({"script": "https://github.com/o/r/blob/main/run.py"}), "script", Refused),
        ("script", json!({"script": ""}), "script", Refused),
        ("script", json!({"script": null, "packages": []}), "script(absent)", Refused),
        ("environment", json!({"environment": [{"name": "A", "value": "1"}]}), "environment[0](A)", Mapped),
        ("environment", json!({"environment": [{"name": "A", "value": "1 $B"}]}), "environment[0](A)", Approximated),
        ("environment", json!({"environment": [{"name": "A", "value": "1\n2"}]}), "environment[0](A)", Refused),
        ("environment", json!({"environment": [{"name": "A-B", "value": "1"}]}), "environment[0](A-B)", Refused),
        (
            "environment",
            json!({"environment": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
            "environment[0](A)",
            Ignored,
        ),
        ("environment", json!({"environment": {"A": "1"}, "batch_size": 1}), "environment", Refused),
        ("batch_size", json!({}), "batch_size(absent)", Mapped),
        ("batch_size", json!({"batch_size": 1}), "batch_size", Mapped),
        ("batch_size", json!({"batch_size": "7"}), "batch_size", Approximated),
        ("batch_size", json!({"batch_size": 0}), "batch_size", Refused),
        ("batch_size", json!({"batch_size": 1001}), "batch_size", Refused),
        ("base", json!({}), "base", Approximated),
        ("base", json!({"base": "Not An Image"}), "base", Refused),
        ("update", json!({"update": true}), "update", Mapped),
        ("update", json!({"update": "yes"}), "update", Refused),
        ("packages", json!({"packages": ["gcc"]}), "packages", Mapped),
        ("packages", json!({"packages": [1]}), "packages", Refused),
        ("packages", json!({"packages": ["a\nb"]}), "packages", Refused),
        ("upgrade_pip", json!({"upgrade_pip": false}), "upgrade_pip", Mapped),
        ("python_packages", json!({"python_packages": ["numpy"]}), "python_packages", Mapped),
        ("python_packages", json!({"python_packages": []}), "python_packages", Mapped),
        ("files", json!({"files": [{"path": "/home/amun/a/b", "content": "x"}]}), "files[0]", Mapped),
        ("files", json!({"files": [{"path": "a", "content": "x"}]}), "files[0]", Approximated),
        ("files", json!({"files": [{"path": "/etc/a", "content": "x"}]}), "files[0]", Mapped),
        ("files", json!({"files": [{"path": "/home/amun/../a", "content": "x"}]}), "files[0]", Refused),
        ("files", json!({"files": [{"path": "/home/amun/script", "content": "x"}]}), "files[0]", Refused),
        ("files", json!({"files": [{"path": "a/workload.yaml", "content": "x"}]}), "files[0]", Refused),
        ("files", json!({"files": [{"path": "a", "content": "x"}, {"path": "a/b", "content": "x"}]}), "files[1]", Refused),
        ("files", json!({"files": [{"path": "a"}]}), "files[0]", Refused),
        ("files", json!({"files": "a"}), "files", Refused),
        ("python.requirements", stack(packages.clone(), lock.clone()), "python.requirements", Mapped),
        ("python.requirements", stack(json!({}), json!({})), "python.requirements", Ignored),
        ("python.requirements", stack(json!({}), lock.clone()), "python.requirements(absent)", Refused),
        ("python.requirements", stack(json!("numpy"), lock.clone()), "python.requirements", Refused),
        ("python.requirements_locked", stack(packages.clone(), lock.clone()), "python.requirements_locked", Mapped),
        ("python.requirements_locked", stack(packages.clone(), json!({})), "python.requirements_locked(absent)", Refused),
        ("python.requirements_locked", stack(packages.clone(), json!("x")), "python.requirements_locked", Refused),
        (
            "python.runtime_environment",
            json!({"python": {"runtime_environment": {"python_version": "3.8"}}}),
            "python.runtime_environment",
            Ignored,
        ),
        ("python.constraints", json!({"python": {"constraints": ["a<2"]}}), "python.constraints", Ignored),
        ("package_manager", json!({"package_manager": "pipenv"}), "package_manager", Ignored),
        ("package_manager", json!({"package_manager": "poetry"}), "package_manager", Refused),
        ("package_manager", stack(packages, lock), "package_manager(absent)", Mapped),
        ("run.requests.cpu", json!({}), "run.requests.cpu(absent)", Mapped),
        ("run.requests.cpu", json!({"run": {"requests": {"cpu": 2}}}), "run.requests.cpu", Mapped),
        ("run.requests.cpu", json!({"run": {"requests": {"cpu": "many"}}}), "run.requests.cpu", Refused),
        ("run.requests.memory", json!({"run": {"requests": {"memory": "1Gi"}}}), "run.requests.memory", Mapped),
        ("run.requests.hardware.cpu_family", hardware("run", "cpu_family", json!(6)), "run.requests.hardware.cpu_family", Mapped),
        ("run.requests.hardware.cpu_model", hardware("run", "cpu_model", json!(94)), "run.requests.hardware.cpu_model", Mapped),
        (
            "run.requests.hardware.physical_cpus",
            hardware("run", "physical_cpus", json!(4)),
            "run.requests.hardware.physical_cpus",
            Mapped,
        ),
        (
            "run.requests.hardware.processor",
            hardware("run", "processor", json!("a b")),
            "run.requests.hardware.processor",
            Refused,
        ),
        (
            "build.requests.hardware.cpu_family",
            hardware("build", "cpu_family", json!(6)),
            "build.requests.hardware.cpu_family",
            Mapped,
        ),
        (
            "build.requests.hardware.cpu_model",
            hardware("build", "cpu_model", json!(1)),
            "build.requests.hardware.cpu_model",
            Mapped,
        ),
        (
            "build.requests.hardware.physical_cpus",
            hardware("build", "physical_cpus", json!(1)),
            "build.requests.hardware.physical_cpus",
            Mapped,
        ),
        (
            "build.requests.hardware.processor",
            hardware("build", "processor", json!("")),
            "build.requests.hardware.processor",
            Refused,
        ),
        ("build.requests.cpu", json!({"build": {"requests": {"cpu": "1"}}}), "build.requests.cpu", Ignored),
        ("build.requests.memory", json!({"build": {"requests": {"memory": "1Gi"}}}), "build.requests.memory", Ignored),
        ("send_messages", json!({"send_messages": true}), "send_messages", Ignored),
        ("force_sync", json!({"force_sync": true}), "force_sync", Ignored),
    ];
    for (_, members, field, outcome) in &cases {
        let imported = with(members);
        let found = imported.rows.iter().find(|row| row.field == *field);
        assert_eq!(found.map(|row| row.outcome), Some(*outcome), "{members}\n{:#?}", imported.rows);
        let is_refused = imported.count(Outcome::Refused) > 0;
        assert!(is_refused || imported.files.len() >= 3 || members["script"].is_string(), "{members}: {:?}", imported.files);
        assert!(!rows(&imported, Outcome::Refused).contains("(result)"), "{members}: {}", rows(&imported, Outcome::Refused));
    }
    let covered: BTreeSet<&str> = cases.iter().map(|(path, ..)| *path).collect();
    assert_eq!(covered, RULES.iter().map(|rule| rule.path).collect(), "each row of the table has a case");
}

#[test]
fn a_specification_is_recognised_by_its_shape() {
    let is_it = |document: Value| recognise(&Source::File { name: "x", bytes: document.to_string().as_bytes() }).is_some();
    for document in [
        json!({"base": "a", "script": "x"}),
        json!({"base": "a", "batch_size": "2"}),
        json!({"base": "a", "@amun_api_url": "x"}),
        json!({"base": "a", "python": {}, "unknown": 1}),
        json!({"base": "a", "environment": []}),
    ] {
        assert!(is_it(document.clone()), "{document}");
    }
    for document in [
        json!({"base": "a"}),
        json!({"script": "x"}),
        json!({"base": {}, "script": "x"}),
        json!({"base": "core22", "name": "snap", "environment": {"A": "1"}}),
        json!({"base": "a", "script": "x", "kind": "Deployment"}),
        json!({"base": "a", "batch_size": "many"}),
    ] {
        assert!(!is_it(document.clone()), "{document}");
    }
}

#[test]
fn members_of_the_service_and_unknown_ones_are_shown_and_not_copied() {
    let imported = with(&json!({"@created": CANARY, "unknown": CANARY, "batchsize": 3}));
    assert_snapshot!(rows(&imported, Outcome::Ignored), @r"
    batchsize | Amun has no such field, and its value is not copied: did you mean `batch_size`?
    unknown | Amun has no such field, and its value is not copied
    @created | the service recorded it with the specification
    ");
    assert!(!format!("{imported:?}").contains(CANARY));
}

#[test]
fn quotes_are_single_again_only_in_the_copy_for_the_workflow() {
    let doubled = SCRIPT.replace('\'', "''");
    let script = |members: &Value| {
        let imported = with(members);
        let is_stated = imported.rows.iter().any(|row| row.field == "quotes(implied)");
        (file(&imported, "/script").to_owned(), is_stated)
    };
    assert_eq!(script(&json!({"script": doubled, "batch_size": "1"})), (SCRIPT.to_owned(), true));
    assert_eq!(script(&json!({"script": doubled, "batch_size": 1})), (doubled.clone(), false), "the copy as it was submitted");
    let odd = format!("{doubled}# it's\n");
    assert_eq!(script(&json!({"script": odd, "batch_size": "1"})), (odd.clone(), false), "a single quote is none of a pair");
    assert_eq!(script(&json!({"batch_size": "1"})), (SCRIPT.to_owned(), false));
}

#[test]
fn the_digest_of_the_script_is_that_of_its_bytes() {
    let imported = with(&json!({}));
    let digest = Digest::compute(SCRIPT.as_bytes()).hex();
    assert_eq!(file(&imported, "/script"), SCRIPT);
    assert!(file(&imported, "workload.yaml").contains(&format!("script: {{path: script, sha256: {digest}}}")));
    assert!(rows(&imported, Outcome::Mapped).contains(&format!("script | workload spec.script, sha256 {digest}")));
    let other = with(&json!({"script": "print(1)\n"}));
    assert_eq!((file(&other, "/script"), file(&other, "/script.py")), ("#!/bin/sh\nexec python3 script.py\n", "print(1)\n"));
    assert!(file(&other, "workload.yaml").contains("files: [script.py]"));
    let of_address = with(&json!({"script": "https://example.org/run.py"}));
    assert!(file(&of_address, "workload.yaml").contains("script: {url: \"https://example.org/run.py\"}"));
}

#[test]
fn credentials_are_moved_or_refused_and_never_copied() {
    let moved = with(&json!({"environment": [{"name": "HF_TOKEN", "value": CANARY}, {"name": "PLAIN", "value": "x"}]}));
    assert_snapshot!(rows(&moved, Outcome::SecretReference), @"environment[0](HF_TOKEN) | pipeline spec.targets[0].env | the pipeline takes it from the variable `HF_TOKEN` of the environment in which `assay run` runs");
    assert!(file(&moved, "inspection.yaml").contains("HF_TOKEN: {from_env: HF_TOKEN}"), "{:?}", moved.files);
    assert_eq!(moved.credentials.first().map(String::as_str), Some("environment[0](HF_TOKEN)"));
    assert!(!format!("{moved:?}").contains(CANARY));
    let secret = format!("sk-{CANARY}");
    for (members, field) in [
        (json!({"script": format!("#!/bin/sh\nexport API_KEY={secret}\n")}), "script"),
        (json!({"script": format!("https://example.org/run.py?token={secret}")}), "script"),
        (json!({"files": [{"path": "a", "content": format!("password={secret}")}]}), "files[0]"),
        (json!({"python_packages": [format!("--index-url=https://user:{secret}@example.org/simple")]}), "python_packages"),
        (
            json!({"python": {
                "requirements": {"source": [{"url": format!("https://user:{secret}@example.org/simple")}]},
                "requirements_locked": {"default": {"a": {"version": "==1"}}},
            }}),
            "python.requirements",
        ),
    ] {
        let imported = with(&members);
        let rows = rows(&imported, Outcome::Refused);
        assert!(rows.starts_with(&format!("{field} | ")) && rows.contains("credential"), "{members}: {rows}");
        assert!(!imported.credentials.is_empty() && !format!("{imported:?}").contains(CANARY), "{members}");
    }
    let plain = with(&json!({"environment": [{"name": "PLAIN", "value": "x"}]}));
    assert!(plain.credentials.is_empty() && rows(&plain, Outcome::SecretReference).is_empty());
}

#[test]
fn steps_of_an_image_refuse_a_definition_that_runs_as_it_is() {
    let options = ImportOptions { runs_as_it_is: true, ..ImportOptions::default() };
    let run = |members: &Value| rows(&text_with(&specification(members).to_string(), &options), Outcome::Refused);
    let lock = json!({"requirements": {"packages": {"a": "*"}}, "requirements_locked": {"default": {"a": {"version": "==1"}}}});
    for (members, field) in [
        (json!({"packages": ["gcc"]}), "packages"),
        (json!({"python_packages": ["numpy"]}), "python_packages"),
        (json!({"update": true}), "update"),
        (json!({"upgrade_pip": true}), "upgrade_pip"),
        (json!({"files": [{"path": "/etc/a", "content": "x"}]}), "files[0]"),
        (json!({"python": lock}), "python.requirements_locked"),
    ] {
        let found = run(&members);
        assert!(found.starts_with(&format!("{field} | it is a step of an image that has to be built")), "{members}: {found}");
        assert_eq!(refused(&members), "", "it is imported: {members}");
    }
    let without = json!({"update": false, "packages": [], "files": [{"path": "/home/amun/a", "content": "x"}], "batch_size": 2});
    assert_eq!(run(&without), "");
}

#[test]
fn demands_of_run_and_build_are_one() {
    let of = |run: Value, build: Value| json!({"run": {"requests": {"hardware": {"cpu_model": run}}}, "build": {"requests": {"hardware": {"cpu_model": build}}}});
    let same = with(&of(json!(94), json!("94")));
    assert!(file(&same, "inspection.yaml").contains("{key: CPU_MODEL, operator: In, values: [\"94\"]}"), "{:?}", same.files);
    assert!(rows(&same, Outcome::Approximated).contains("hardware(implied)"));
    assert!(refused(&of(json!(94), json!(95))).starts_with("build.requests.hardware.cpu_model | `run` demands another value"));
    let none = with(&json!({}));
    assert!(!file(&none, "inspection.yaml").contains("affinity") && !rows(&none, Outcome::Approximated).contains("hardware"));
}

#[test]
fn texts_stay_texts_in_the_recipe_and_in_the_pipfile() {
    let imported = with(&json!({
        "packages": ["a'; touch b"],
        "environment": [{"name": "A", "value": "x \"y\" $HOME \\ 'z'"}],
    }));
    let recipe = file(&imported, "Containerfile");
    assert!(recipe.contains("ENV A=\"x \\\"y\\\" \\$HOME \\\\ 'z'\"\n"), "{recipe}");
    assert!(recipe.contains("apt-get install -y 'a'\\''; touch b'; fi\n"), "{recipe}");
    assert!(file(&imported, "workload.yaml").contains("A: \"x \\\"y\\\" $HOME \\\\ 'z'\""));
    let requirements = json!({
        "packages": {"a.b": "*", "c": {"version": "==1", "extras": ["x"], "markers": null}, "\"": ">=\u{7f}1"},
        "source": [{"url": "u"}, {"url": "v"}], "pipenv": {"allow_prereleases": true}, "note": 1,
    });
    assert_snapshot!(pipfile(&requirements).expect("an object"), @r#"
    note = 1

    [packages]
    "\"" = ">=\u007f1"
    "a.b" = "*"
    c = {extras = ["x"], version = "==1"}

    [pipenv]
    allow_prereleases = true

    [[source]]
    url = "u"

    [[source]]
    url = "v"
    "#);
    assert_eq!(pipfile(&json!(["a"])), None);
}
