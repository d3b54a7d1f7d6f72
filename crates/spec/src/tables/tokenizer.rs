//! The tokenizer of a serving workload.

use super::PATH_TYPE;
use crate::field::{Choice, Rule, Table, Type, choice, optional};
use crate::format::SPLIT_PATTERN;

static TEMPLATE_USES: [Choice; 2] = [
    choice("apply", "The client applies it, and sends the text: for `api: completions`."),
    choice("count", "The endpoint applies it, and the client counts its tokens: for `api: chat`."),
];

pub(crate) static TOKENIZER: Type =
    Type::Shapes { scalar: Some(&PATH_TYPE), list: None, map: Some(&Type::Object(&TOKENIZER_TABLE)) };

static TOKENIZER_TABLE: Table = Table {
    name: "tokenizer",
    doc: "The tokenizer that counts tokens and makes prompts: the path of its file, or that with more.",
    selector: None,
    fields: &[
        optional("path", &PATH_TYPE, "A `tokenizer.json` or a `.tiktoken` file, relative to the workload's folder."),
        optional(
            "folder",
            &PATH_TYPE,
            "A folder as Hugging Face publishes it with a model, relative to the workload's folder: `tokenizer.json`, and for `template` also `tokenizer_config.json` and, if it is there, `chat_template.jinja`.",
        ),
        optional(
            "template",
            &Type::Choice(&TEMPLATE_USES),
            "Make the tokens of the folder's chat template a part of each prompt's length. If left out, only the text of a prompt is counted.",
        ),
        optional(
            "pattern",
            &Type::Text(&SPLIT_PATTERN),
            "Of a vocabulary of tiktoken, the pattern that splits texts: `r50k_base`, `p50k_base`, `cl100k_base`, `o200k_base`, or a regular expression. If left out: by the name of the file, such as `o200k_base.tiktoken`.",
        ),
    ],
    rules: &[Rule::ExactlyOne(&["path", "folder"])],
};
