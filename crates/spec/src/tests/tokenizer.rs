//! The tokenizer of a serving workload.

use assay_manifest::{Digest, TemplateUse};
use insta::assert_snapshot;

use super::{SERVING, problems, replace_part, workload};
use crate::{Pins, Work, WorkloadTokenizer};

fn with(tokenizer: &str) -> String {
    replace_part(SERVING, "  stack: vllm\n", &format!("  stack: vllm\n  tokenizer: {tokenizer}\n"))
}

fn read(tokenizer: &str) -> WorkloadTokenizer {
    match workload(&with(tokenizer)).spec.work {
        Work::Serving(serving) => serving.tokenizer.expect("a tokenizer"),
        Work::Indicator(_) | Work::Training(_) => panic!("no serving"),
    }
}

fn of_file(path: &str, pattern: Option<&str>) -> WorkloadTokenizer {
    WorkloadTokenizer { path: path.to_owned(), pattern: pattern.map(str::to_owned), template: None }
}

#[test]
fn a_tokenizer_is_a_path_or_a_path_with_a_pattern() {
    assert_eq!(read("tokenizer.json"), of_file("tokenizer.json", None));
    assert_eq!(read("{path: ./tokenizer.json}"), of_file("tokenizer.json", None));
    assert_eq!(read("openai/o200k_base.tiktoken"), of_file("openai/o200k_base.tiktoken", Some("o200k_base")));
    assert_eq!(read("{path: o200k_base.tiktoken, pattern: cl100k_base}"), of_file("o200k_base.tiktoken", Some("cl100k_base")));
    assert_eq!(read("{path: tokenizer.model, pattern: '\\w+|\\s'}"), of_file("tokenizer.model", Some("\\w+|\\s")));
}

#[test]
fn a_folder_may_have_a_template() {
    assert_eq!(read("{folder: llama-3}"), of_file("llama-3/tokenizer.json", None));
    let chat = replace_part(&with("{folder: m, template: count}"), "type: serving\n", "type: serving\n  api: chat\n");
    let Work::Serving(serving) = workload(&chat).spec.work else { panic!("no serving") };
    let template = serving.tokenizer.expect("a tokenizer").template.expect("a template");
    assert_eq!((template.usage, template.config.as_str()), (TemplateUse::Count, "m/tokenizer_config.json"));
    let parts = workload(&chat).mutable_parts();
    assert_eq!(parts.paths, ["m/tokenizer.json"]);
    assert_eq!(parts.one_of, ["m/tokenizer_config.json", "m/chat_template.jinja"]);
}

#[test]
fn a_template_is_a_part_of_the_frozen_workload() {
    let chat = workload(&with("{folder: m, template: count}"));
    let freeze = |names: &[&str]| {
        let contents = names.iter().map(|name| (format!("m/{name}"), Digest::compute(name.as_bytes()))).collect();
        chat.freeze(&Pins { contents, ..Pins::default() }).expect("frozen")
    };
    let all = freeze(&["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]);
    assert!(all.unpinned.is_empty());
    let files = &all.json["tokenizer"]["template"]["files"];
    assert_eq!(
        (files[0]["path"].as_str(), files[1]["path"].as_str()),
        (Some("m/chat_template.jinja"), Some("m/tokenizer_config.json"))
    );
    assert_eq!(all.json["tokenizer"]["template"]["usage"], "count");
    let without = freeze(&["tokenizer.json", "tokenizer_config.json"]);
    assert!(without.unpinned.is_empty() && without.digest != all.digest);
    let alone = freeze(&["tokenizer.json", "chat_template.jinja"]);
    assert!(alone.unpinned.is_empty() && alone.digest != all.digest);
    assert_eq!(freeze(&["tokenizer.json"]).unpinned, ["m/tokenizer_config.json"]);
}

#[test]
fn the_pattern_is_a_part_of_the_frozen_workload() {
    let pins = Pins {
        contents: ["tokenizer.json", "o200k_base.tiktoken"].map(|path| (path.to_owned(), Digest::compute(b"file"))).into(),
        ..Pins::default()
    };
    let freeze = |tokenizer: &str| workload(&with(tokenizer)).freeze(&pins).expect("frozen");
    let file = Digest::compute(b"file").hex();
    assert_eq!(freeze("tokenizer.json").json["tokenizer"], serde_json::json!({"path": "tokenizer.json", "sha256": file}));
    assert_eq!(freeze("{path: tokenizer.json}").digest, freeze("tokenizer.json").digest);
    let expected = serde_json::json!({"path": "o200k_base.tiktoken", "pattern": "o200k_base", "sha256": file});
    assert_eq!(freeze("o200k_base.tiktoken").json["tokenizer"], expected);
}

#[test]
fn what_no_tokenizer_can_be_is_a_problem() {
    assert_snapshot!(problems(&with("qwen.tiktoken")), @r"
    error: `spec.tokenizer` lacks `pattern`, and the name `qwen.tiktoken` does not tell it
      --> a.yaml:12:3
       |
    12 |   tokenizer: qwen.tiktoken
       |   ^^^^^^^^^
    hint: `pattern` (`--tokenizer-pattern`) is r50k_base, p50k_base, cl100k_base, o200k_base, or the model's own regular expression
    ");
    let cases = [
        (
            "{path: tokenizer.json, pattern: o200k_base}",
            "`spec.tokenizer.pattern` belongs to a vocabulary of tiktoken, and `tokenizer.json` is none",
        ),
        ("{pattern: o200k_base}", "`folder`"),
        ("{folder: m, path: m/tokenizer.json}", "`folder`"),
        ("{path: a.tiktoken, pattern: ''}", "error: `spec.tokenizer.pattern` must not be empty"),
        ("{folder: m, pattern: o200k_base}", "`spec.tokenizer.pattern` belongs to a vocabulary of tiktoken"),
        (
            "{path: tokenizer.json, template: count}",
            "`spec.tokenizer.template` belongs to a `folder`, whose files have a template",
        ),
        (
            "{folder: m, template: apply}",
            "`spec.tokenizer.template: apply` belongs to `api: completions`, and `spec.api` is `chat`",
        ),
    ];
    for (tokenizer, says) in cases {
        let problems = problems(&with(tokenizer));
        assert!(problems.contains(says), "{tokenizer}: {problems}");
    }
    let played = |prompts: &str| replace_part(&with("{folder: m, template: count}"), "lengths: N(480,240)/(300,150)", prompts);
    let trace = problems(&played("trace: {path: a.jsonl, format: mooncake}"));
    assert!(trace.contains("would move the blocks of `spec.trace`, whose lengths have no chat template in them"), "{trace}");
    let kept = problems(&played("dataset: {path: a.jsonl}\n  sessions: {history: live, reasoning: keep}"));
    assert!(kept.contains("`spec.sessions.reasoning: keep` and `spec.tokenizer.template` exclude each other"), "{kept}");
}
