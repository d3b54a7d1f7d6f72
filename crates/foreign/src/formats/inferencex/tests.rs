use insta::assert_snapshot;
use serde_json::{Value, json};

use super::TABLE;
use crate::command::Treatment;
use crate::{Import, ImportOptions, Outcome, Row, Source, import, recognise};

const CANARY: &str = "canary-4f2b9c7d1e";

fn imported(document: &Value, only: Option<&str>) -> Import {
    let options = ImportOptions { url: Some("http://h:1".to_owned()), only: only.map(str::to_owned), ..ImportOptions::default() };
    import(&Source::File { name: "a.yaml", bytes: document.to_string().as_bytes() }, &options).expect("a format")
}

fn example(index: usize) -> Import {
    let example = &super::FORMAT.examples[index];
    let crate::format::ExampleInput::File(text) = example.input else { panic!("a file") };
    import(&Source::File { name: "a.yaml", bytes: text.as_bytes() }, &example.import_options()).expect("a format")
}

fn rows(import: &Import, outcome: Outcome) -> String {
    let line = |row: &Row| {
        [Some(&row.field), row.to.as_ref(), row.note.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(" | ")
    };
    import.rows.iter().filter(|row| row.outcome == outcome).map(line).collect::<Vec<_>>().join("\n")
}

fn files(import: &Import) -> String {
    import.files.iter().map(|file| format!("== {}\n{}", file.path, file.text)).collect::<Vec<_>>().concat()
}

/// Returns one config, `c`, whose search space has this deployment.
fn config(deployment: &Value) -> Value {
    json!({"c": {
        "model": "m", "framework": "vllm", "precision": "fp8",
        "scenarios": {"fixed-seq-len": [{"isl": 8, "osl": 4, "search-space": [deployment]}]},
    }})
}

/// Sets a field of the config by its path in the table.
fn set(document: &mut Value, path: &str, value: Value) {
    let mut node = &mut document["c"];
    let names: Vec<&str> = path.split('.').collect();
    for (index, name) in names.iter().enumerate() {
        let (name, is_list) = name.strip_suffix("[]").map_or((*name, false), |name| (name, true));
        node = &mut node[name];
        if is_list {
            node = &mut node[0];
        }
        if index + 1 == names.len() {
            *node = value.clone();
        }
    }
}

#[test]
fn a_config_becomes_a_workload_for_each_setting_of_lengths() {
    assert_snapshot!(files(&example(0)));
    let several = example(1);
    assert_snapshot!(
        several
            .rows
            .iter()
            .map(|row| format!("{:80} {:14} {}", row.field, row.outcome, row.to.as_deref().unwrap_or_default())
                .trim_end()
                .to_owned()
                + "\n")
            .collect::<String>()
    );
    assert!(files(&several).contains("concurrency: [4, 8, 16, 32, 64, 128]") && files(&several).contains("requests: 1280"));
}

#[test]
fn each_field_of_a_config_has_its_outcome() {
    for flag in TABLE {
        let path = flag.names[0];
        let deployment =
            if path.ends_with("conc-list") { json!({"tp": 8}) } else { json!({"tp": 8, "conc-start": 2, "conc-end": 8}) };
        let mut given = config(&deployment);
        set(&mut given, path, serde_json::from_str(flag.example).unwrap_or_else(|_| json!(flag.example)));
        let imported = imported(&given, None);
        let field = format!("c.{path}");
        let found: Vec<Outcome> = imported.rows.iter().filter(|row| row.field == field).map(|row| row.outcome).collect();
        let expected = |outcome: &Outcome| match flag.treatment {
            Treatment::Carried(_) => [Outcome::Mapped, Outcome::Approximated].contains(outcome),
            Treatment::Ignored(_) => *outcome == Outcome::Ignored,
            Treatment::Refused(_) | Treatment::Unless { .. } => *outcome == Outcome::Refused,
        };
        assert!(!found.is_empty() && found.iter().all(expected), "{given}: {:#?}", imported.rows);
    }
}

/// The last step ends at the end, although it is no doubling.
#[test]
fn concurrencies_double_up_to_the_end() {
    let of = |deployment: Value| files(&imported(&config(&deployment), None));
    assert!(of(json!({"tp": 1, "conc-start": 4, "conc-end": 48})).contains("concurrency: [4, 8, 16, 32, 48]"));
    assert!(of(json!({"tp": 1, "conc-start": 3, "conc-end": 3})).contains("concurrency: [3]"));
    assert!(of(json!({"tp": 1, "conc-list": [9, 1, 9]})).contains("concurrency: [1, 9]"));
}

#[test]
fn the_deployment_is_a_label_if_there_is_one() {
    let mut given = config(&json!({"tp": 8, "conc-list": [1]}));
    assert!(files(&imported(&given, None)).contains("\n    tp: \"8\"\n"), "{}", files(&imported(&given, None)));
    given["c"]["scenarios"]["fixed-seq-len"][0]["search-space"] =
        json!([{"tp": 8, "conc-list": [1]}, {"tp": 4, "conc-list": [2]}]);
    let several = imported(&given, None);
    assert!(
        !files(&several).contains("labels:") && rows(&several, Outcome::Ignored).contains("search-space[].tp | the deployments")
    );
    assert!(
        rows(&several, Outcome::Approximated)
            .contains("conc-list | workload spec.load.concurrency | the search space has several")
    );
}

#[test]
fn the_commonest_mistakes_have_a_remedy() {
    let refused = |document: &Value, only: Option<&str>| rows(&imported(document, only), Outcome::Refused);
    let mut two = config(&json!({"tp": 1, "conc-list": [1]}));
    two["d"] = two["c"].clone();
    let mut agentic = config(&json!({"tp": 1, "conc-list": [1]}));
    agentic["c"]["scenarios"] = json!({"agentic-coding": [{"search-space": [{"tp": 8, "conc-list": [1]}]}]});
    let mut unknown = config(&json!({"tp": 1, "conc-lst": [1]}));
    unknown["c"]["presicion"] = json!("fp8");
    let mistakes = [
        refused(&two, None),
        refused(&two, Some("e")),
        refused(&agentic, None),
        refused(&unknown, None),
        refused(&config(&json!({"tp": 1, "conc-start": 8, "conc-end": 4})), None),
        refused(&config(&json!({"tp": 1, "conc-list": [0]})), None),
    ];
    assert_snapshot!(mistakes.join("\n\n"));
}

#[test]
fn the_format_is_recognised_by_its_configs() {
    let name = |document: Value| {
        recognise(&Source::File { name: "a", bytes: document.to_string().as_bytes() }).map(|format| format.name)
    };
    assert_eq!(name(config(&json!({}))), Some("inferencex-master"));
    for other in [
        json!({"c": {"model": "m", "framework": "vllm"}}),
        json!({"c": {"model": "m", "framework": "vllm", "scenarios": {}}}),
        json!({"model": "m", "framework": "vllm", "scenarios": {"fixed-seq-len": []}}),
        json!({"kind": "X", "c": config(&json!({}))["c"]}),
    ] {
        assert_eq!(name(other.clone()), None, "{other}");
    }
}

#[test]
fn the_settings_of_a_config_are_limited() {
    let setting = json!({"isl": 8, "osl": 4, "search-space": [{"tp": 1, "conc-list": [1]}]});
    let with = |settings: usize| {
        let mut given = config(&json!({}));
        given["c"]["scenarios"]["fixed-seq-len"] = vec![setting.clone(); settings].into();
        rows(&imported(&given, None), Outcome::Refused)
    };
    assert_eq!(with(200), "");
    assert!(with(201).contains("at most 200 workloads"), "{}", with(201));
}

/// A credential in any field, known or not, is in no file and no row.
#[test]
fn no_credential_survives() {
    let secret = format!("sk-{CANARY}sk-{CANARY}");
    let unknown = ["nope", "scenarios.nope", "scenarios.fixed-seq-len[].nope", "scenarios.fixed-seq-len[].search-space[].nope"];
    for path in TABLE.iter().map(|flag| flag.names[0]).chain(unknown) {
        // Plain words of these become labels, dimensions or the model.
        let is_copied = ["model", "framework", "precision", "runner", "model-prefix"].contains(&path)
            || ["tp", "ep", "pp", "dp-attn", "spec-decoding"].iter().any(|name| path.ends_with(&format!("[].{name}")));
        let values = [json!(secret), json!({"deep": [CANARY], "token": secret}), json!([secret])];
        let plain = (!is_copied).then(|| json!(CANARY));
        for value in values.into_iter().chain(plain) {
            let mut given = config(&json!({"tp": 8, "conc-list": [1]}));
            set(&mut given, path, value);
            let bytes = given.to_string();
            let options = ImportOptions { url: Some("http://h:1".to_owned()), ..ImportOptions::default() };
            let imported = import(&Source::File { name: "a", bytes: bytes.as_bytes() }, &options);
            assert!(!format!("{imported:?}").contains(CANARY), "{given}\n{imported:#?}");
        }
    }
}
