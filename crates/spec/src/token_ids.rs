//! Prompts that are sent as token ids.

use assay_api::ServingApi;
use assay_manifest::{SyntheticText, TokenIds};

use crate::checked_value::{CheckedValue, Read};
use crate::dataset_format::format_of;
use crate::problem::Problems;

impl Read for TokenIds {
    fn read(ids: &CheckedValue) -> Option<Self> {
        let bounds: (Option<u32>, Option<u32>) = (ids.get("least")?, ids.get("most")?);
        match bounds {
            (Some(least), Some(most)) => Some(Self::Range { least, most }),
            _ => Some(Self::Tokenizer),
        }
    }
}

/// Checks that token ids are those of a tokenizer's file or of a range, and stand for prompts without a text of their own.
pub(crate) fn check_token_ids(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(ids) = spec.member("token_ids") else { return };
    check_source(spec, ids, problems);
    if let Some(api) = spec.member("api").and_then(ServingApi::read).filter(|api| !api.takes_token_ids()) {
        let takers = ServingApi::ALL.iter().filter(|api| api.takes_token_ids()).map(|api| format!("`api: {api}`"));
        let hint = format!("write {}, or remove it", takers.collect::<Vec<_>>().join(" or "));
        problems.add_hinted(
            ids.anchor,
            format!("requests of `api: {api}` have no token ids, which `spec.token_ids` sends"),
            hint,
        );
    }
    for name in ["dataset", "trace"] {
        let Some(file) = spec.member(name) else { continue };
        if let Some(format) = format_of(file).filter(|format| format.has_texts()) {
            let message = format!("`spec.token_ids` draws prompts, and the rows of a {name} of the format `{format}` have texts");
            problems.add_hinted(ids.anchor, message, "remove it: the endpoint's tokenizer makes their ids");
        }
    }
    if spec.member("text").is_some_and(|text| text.text() == Some(SyntheticText::Natural.as_str())) {
        problems.add_hinted(
            ids.anchor,
            "`spec.token_ids` sends ids, which are no text of the kind `natural`",
            "remove one of them",
        );
    }
}

/// Checks where the ids come from: the file of a tokenizer, or both bounds of a range.
fn check_source(spec: &CheckedValue, ids: &CheckedValue, problems: &mut Problems<'_>) {
    let (least, most, tokenizer) = (ids.member("least"), ids.member("most"), spec.member("tokenizer"));
    match (least, most, tokenizer) {
        (None, None, None) => problems.add_hinted(
            ids.anchor,
            "`spec.token_ids` has neither a range of ids nor the file of a `tokenizer`, whose words have some",
            "write ids of the model's vocabulary that are no special tokens, such as `token_ids: {least: 1000, most: 31999}`, or add `tokenizer`",
        ),
        (None, None, Some(tokenizer)) => {
            if let Some(template) = tokenizer.member("template") {
                let message = "`spec.tokenizer.template` is a text around each prompt, and `spec.token_ids` sends ids";
                problems.add_hinted(template.anchor, message, "remove one of them");
            }
        }
        (Some(_), Some(_), Some(_)) => problems.add_hinted(
            ids.anchor,
            "`spec.token_ids` has a range beside a `tokenizer`, whose words have ids of their own",
            "remove the range or `tokenizer`",
        ),
        (Some(_), Some(_), None) => {
            if let Some(reason) = TokenIds::read(ids).and_then(|ids| ids.refusal()) {
                problems.add_hinted(ids.anchor, format!("`spec.token_ids` has no range of ids: {reason}"), "widen the range");
            }
        }
        (Some(_), None, _) | (None, Some(_), _) => {
            let (has, lacks) = if least.is_some() { ("least", "most") } else { ("most", "least") };
            let message = format!("`spec.token_ids` has `{has}` and lacks `{lacks}`");
            problems.add_hinted(ids.anchor, message, "a range has both, which are included");
        }
    }
}
