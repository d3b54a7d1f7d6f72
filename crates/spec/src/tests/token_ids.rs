//! Prompts that are sent as token ids.

use assay_manifest::TokenIds;

use super::{SERVING, problems, replace_part, workload};
use crate::Work;

/// Returns a workload of completions with these token ids and further fields.
fn with(ids: &str, more: &str) -> String {
    replace_part(SERVING, "  load:", &format!("  api: completions\n  token_ids: {ids}\n{more}  load:"))
}

fn read(text: &str) -> Option<TokenIds> {
    let Work::Serving(serving) = workload(text).spec.work else { panic!("serving") };
    serving.token_ids
}

/// Returns the problems with their hints, without the places.
fn found(text: &str) -> Vec<String> {
    let is_said = |line: &&str| line.starts_with("error: ") || line.starts_with("hint: ");
    problems(text).lines().filter(is_said).map(str::to_owned).collect()
}

#[test]
fn they_are_a_range_or_those_of_the_tokenizer() {
    assert_eq!(read(SERVING), None);
    assert_eq!(read(&with("{least: 0, most: 63}", "")), Some(TokenIds::Range { least: 0, most: 63 }));
    assert_eq!(read(&with("{}", "  tokenizer: tokenizer.json\n")), Some(TokenIds::Tokenizer));
    let trace =
        replace_part(&with("{least: 0, most: 999}", ""), "lengths: N(480,240)/(300,150)", "dataset: {path: t, format: mooncake}");
    assert_eq!(read(&trace), Some(TokenIds::Range { least: 0, most: 999 }));
}

#[test]
fn a_source_of_ids_is_needed_and_only_one() {
    let hint = "hint: write ids of the model's vocabulary that are no special tokens, such as `token_ids: {least: 1000, most: 31999}`, or add `tokenizer`";
    assert_eq!(
        found(&with("{}", "")),
        ["error: `spec.token_ids` has neither a range of ids nor the file of a `tokenizer`, whose words have some", hint]
    );
    assert_eq!(
        found(&with("{least: 5}", "")),
        ["error: `spec.token_ids` has `least` and lacks `most`", "hint: a range has both, which are included"]
    );
    assert_eq!(
        found(&with("{most: 5}", "  tokenizer: tokenizer.json\n")),
        ["error: `spec.token_ids` has `most` and lacks `least`", "hint: a range has both, which are included"]
    );
    assert_eq!(
        found(&with("{least: 0, most: 999}", "  tokenizer: tokenizer.json\n")),
        [
            "error: `spec.token_ids` has a range beside a `tokenizer`, whose words have ids of their own",
            "hint: remove the range or `tokenizer`",
        ]
    );
    assert_eq!(
        found(&with("{least: 1, most: 63}", "")),
        ["error: `spec.token_ids` has no range of ids: 63 ids are fewer than 64", "hint: widen the range"]
    );
    assert!(found(&with("{least: 0, most: 4294967296}", ""))[0].contains("must be from 0 to 4294967295"));
}

#[test]
fn what_has_a_text_of_its_own_has_no_ids() {
    let ids = "{least: 0, most: 999}";
    assert_eq!(
        found(&replace_part(&with(ids, ""), "api: completions", "api: chat")),
        [
            "error: requests of `api: chat` have no token ids, which `spec.token_ids` sends",
            "hint: write `api: completions`, or remove it",
        ]
    );
    let dataset = |file: &str| found(&replace_part(&with(ids, ""), "lengths: N(480,240)/(300,150)", file));
    let remedy = "hint: remove it: the endpoint's tokenizer makes their ids";
    for file in ["dataset: {path: p.jsonl}", "dataset: {path: p, format: jsonl}"] {
        let refused = "error: `spec.token_ids` draws prompts, and the rows of a dataset of the format `jsonl` have texts";
        assert_eq!(dataset(file), [refused, remedy]);
    }
    assert_eq!(
        found(&with(ids, "  text: natural\n")),
        ["error: `spec.token_ids` sends ids, which are no text of the kind `natural`", "hint: remove one of them"]
    );
    let template = found(&with("{}", "  tokenizer: {folder: m, template: apply}\n"));
    let refused = "error: `spec.tokenizer.template` is a text around each prompt, and `spec.token_ids` sends ids";
    assert_eq!(template, [refused, "hint: remove one of them"]);
}
