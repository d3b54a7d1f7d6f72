//! The API of an endpoint's own.

use insta::assert_snapshot;

use super::{SERVING, problems, replace_part, workload};
use crate::Work;

/// A workload whose API is described by these fields.
fn described(fields: &str) -> String {
    let custom = format!("type: serving\n  api: custom\n  custom: {{{fields}}}\n");
    replace_part(SERVING, "type: serving\n", &custom)
}

const GOOD: &str = "path: /generate, body: '{\"inputs\": \"${prompt}\", \"n\": \"${output_tokens}\"}', response: {text: token.text, finish: done}";

#[test]
fn an_api_is_described_by_its_path_its_body_and_its_responses() {
    let Work::Serving(serving) = workload(&described(GOOD)).spec.work else { panic!("no serving") };
    let custom = serving.custom.expect("a description");
    assert_eq!((custom.path.as_str(), custom.text.as_str(), custom.finish.as_deref()), ("/generate", "token.text", Some("done")));
    assert_eq!((custom.input_tokens, custom.output_tokens), (None, None));
    assert_eq!(custom.body["inputs"], "${prompt}");
    assert!(workload(&described(GOOD)).freeze(&crate::Pins::default()).expect("frozen").json["custom"]["body"].is_string());
}

#[test]
fn a_description_that_cannot_be_used_is_a_problem() {
    let first = |text: &str| problems(text).lines().next().unwrap_or_default().to_owned();
    let changed = |from: &str, to: &str| first(&described(&replace_part(GOOD, from, to)));
    let all = [
        first(&replace_part(SERVING, "type: serving\n", "type: serving\n  api: custom\n")),
        first(&replace_part(&described(GOOD), "api: custom", "api: chat")),
        changed("${prompt}", "none"),
        changed("${output_tokens}", "7"),
        changed("token.text", "token..text"),
        changed("token.text", "done.text"),
        changed("/generate", "/generate?key=1"),
        changed("'{", "'["),
        first(&replace_part(&described(GOOD), "  custom:", "  body: {inputs: other}\n  custom:")),
    ];
    assert_snapshot!(all.join("\n"), @r#"
    error: `spec` lacks `custom` for `api: custom`
    error: `spec.custom` belongs to `api: custom`
    error: `spec.custom` cannot be used: the body has neither `${prompt}` nor `${messages}`
    error: `spec.custom.body` has no `${output_tokens}`, so that no request can ask for its length
    error: `spec.custom.response.text` is not a path in a response: `token..text`
    error: `spec.custom` cannot be used: `done.text` and `done` cannot both be read: one is the place of the other, or contains it
    error: `spec.custom.path` has a query
    error: `spec.custom.body` is not a JSON object: `["inputs": "${prompt}", "n": "${output_tokens}"}`
    error: `spec.custom.body` has the member `inputs`, which a further member would replace
    "#);
}

#[test]
fn a_body_that_is_no_json_object_is_refused_with_an_example_that_has_placeholders() {
    let hint = |to: &str| {
        problems(&described(&replace_part(GOOD, "'{", to)))
            .lines()
            .find_map(|line| line.split_once("hint: ").map(|(_, hint)| hint.to_owned()))
    };
    let example = r#"such as `{"inputs":"${prompt}","max_new_tokens":"${output_tokens}","stream":"${stream}"}`"#;
    assert!(hint("'[").is_some_and(|hint| hint.contains(example)), "{:?}", hint("'["));
    let custom = example.trim_start_matches("such as `").trim_end_matches('`');
    let accepted = described(&format!("path: /g, body: '{custom}', response: {{text: text}}"));
    assert!(matches!(workload(&accepted).spec.work, Work::Serving(_)));
}
