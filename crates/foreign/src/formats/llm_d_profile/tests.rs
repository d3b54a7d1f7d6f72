use insta::assert_snapshot;

use crate::{Import, ImportOptions, Outcome, Row, Source, import, recognise};

const CANARY: &str = "canary-4f2b9c7d1e";
const VLLM: &str = include_str!("../examples/llm_d_vllm.yaml");
const AIPERF: &str = include_str!("../examples/llm_d_aiperf.yaml");

fn imported(text: &str, options: &ImportOptions) -> Import {
    import(&Source::File { name: "a.yaml", bytes: text.as_bytes() }, options).expect("a format")
}

fn rows(import: &Import, outcome: Outcome) -> String {
    let line = |row: &Row| {
        [Some(&row.field), row.to.as_ref(), row.note.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>().join(" | ")
    };
    import.rows.iter().filter(|row| row.outcome == outcome).map(line).collect::<Vec<_>>().join("\n")
}

/// The fields of a profile are mapped as the options of the command that llm-d-benchmark runs.
#[test]
fn a_profile_is_mapped_as_its_command_line_is() {
    let line = "vllm bench serve --model llama-3.1-8b --base-url http://127.0.0.1:8000 --dataset-name random --random-input-len 10000 \
                --random-output-len 1000 --max-concurrency 1 --num-prompts 32 --percentile-metrics x --metric-percentiles x --ignore-eos";
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let same = import(&Source::Command(&words), &ImportOptions::default()).expect("a format");
    let profile = imported(VLLM, &ImportOptions::default());
    let outcomes = |import: &Import| {
        let mut rows: Vec<String> =
            import.rows.iter().filter(|row| row.field != "executable").map(|row| format!("{row:?}")).collect();
        rows.sort();
        rows
    };
    assert_eq!(outcomes(&profile), outcomes(&same));
    assert!(rows(&profile, Outcome::Ignored).contains("executable | the profile is imported, and the program is not started"));
}

/// The options of the import stand in the place of what llm-d-benchmark fills in.
#[test]
fn the_commonest_mistakes_have_a_remedy() {
    let bare = imported(AIPERF, &ImportOptions::default());
    let unknown = imported(&format!("{VLLM}request-rat: 3\nrandom-range-ratio: REPLACE_RATIO\n"), &ImportOptions::default());
    let sonnet = imported(
        "executable: a\nbase-url: http://h:1\nmodel: m\ndataset-name: sonnet\nsonnet-input-len: 8192\n",
        &ImportOptions::default(),
    );
    let scenario = imported("scenario: [{name: gpu, common: {model: {name: m}}}]\n", &ImportOptions::default());
    let experiment = imported("treatments: [{name: a, max-concurrency: 8}]\n", &ImportOptions::default());
    assert_snapshot!([bare, unknown, sonnet, scenario, experiment].map(|import| rows(&import, Outcome::Refused)).join("\n\n"));
    let named = ImportOptions { url: Some("http://h:1".to_owned()), model: Some("m".to_owned()), ..ImportOptions::default() };
    assert_eq!(rows(&imported(AIPERF, &named), Outcome::Refused), "");
}

#[test]
fn profiles_are_recognised_by_what_they_hold() {
    let name = |text: &str| recognise(&Source::File { name: "a", bytes: text.as_bytes() }).map(|format| format.name);
    for text in ["executable: a\nnum-prompts: 1\n", "endpoint-type: chat\nurl: REPLACE_X\n"] {
        assert_eq!(name(text), Some("llm-d-profile"), "{text}");
    }
    for text in [
        "executable: a\n",
        "num-prompts: 1\n",
        "executable: a\nnum-prompts: [1]\n",
        "kind: X\nexecutable: a\nnum-prompts: 1\n",
        "scenario: [{}]\n",
        "scenario: x\n",
        "treatments: []\n",
        "kind: X\nscenario: [{name: a}]\n",
    ] {
        assert_eq!(name(text), None, "{text}");
    }
}

#[test]
fn no_credential_survives() {
    let secret = format!("sk-{CANARY}sk-{CANARY}");
    for field in ["nope", "header", "extra-body", "num-prompts", "result-dir", "dataset-name", "random-range-ratio"] {
        for value in [CANARY, &secret, &format!("x-key={CANARY}")] {
            let imported = imported(
                &format!("{VLLM}{field}-2: '{value}'\n")
                    .replace(&format!("{field}-2"), field)
                    .replacen("dataset-name: random\n", "", usize::from(field == "dataset-name"))
                    .replacen("num-prompts: 32\n", "", usize::from(field == "num-prompts")),
                &ImportOptions::default(),
            );
            assert!(!format!("{imported:?}").contains(CANARY), "{field}: {imported:#?}");
        }
    }
}
