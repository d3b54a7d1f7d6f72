//! The API of a workload that describes its own.

use assay_api::{CustomApi, ServingApi};
use assay_manifest::DatasetFormat;
use serde_json::{Map, Value as Json};

use crate::checked_value::{CheckedValue, Read};
use crate::problem::{Problems, quote};
use crate::secret::{carries_key, looks_secret_member};

impl Read for CustomApi {
    fn read(custom: &CheckedValue) -> Option<Self> {
        let response = custom.member("response")?;
        Some(Self {
            path: custom.get("path")?,
            // Its format has checked it.
            body: serde_json::from_str(custom.text_of("body")?).ok()?,
            text: response.get("text")?,
            input_tokens: response.get("input_tokens")?,
            output_tokens: response.get("output_tokens")?,
            finish: response.get("finish")?,
        })
    }
}

/// Checks that an API is described if and only if it is one's own, and that its description can be used.
pub(crate) fn check_custom_api(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let is_custom = spec.member("api").and_then(ServingApi::read) == Some(ServingApi::Custom);
    let custom = match (spec.member("custom"), is_custom) {
        (Some(custom), true) => custom,
        (Some(custom), false) => {
            let message = format!("`spec.custom` belongs to `api: {}`", ServingApi::Custom);
            return problems.add_hinted(custom.anchor, message, format!("write `api: {}`, or remove it", ServingApi::Custom));
        }
        (None, true) => {
            let message = format!("`spec` lacks `custom` for `api: {}`", ServingApi::Custom);
            let anchor = spec.member("api").map_or(spec.anchor, |api| api.anchor);
            return problems.add_hinted(anchor, message, "it has the `path`, the `body` and the places of the `response`");
        }
        (None, false) => return,
    };
    let Some(api) = CustomApi::read(custom) else { return };
    if api.path.contains(['?', '#']) {
        problems.add_hinted(custom.anchor, "`spec.custom.path` has a query", "put the query behind the target's URL");
    }
    if carries_key(&api.path) {
        problems.add_redacted(custom.anchor, "`spec.custom.path` carries a key or token", crate::NO_CREDENTIALS);
    }
    if let Err(error) = api.check() {
        problems.add(custom.anchor, format!("`spec.custom` cannot be used: {error}"));
    }
    if api.body.iter().any(|(name, value)| looks_secret_member(name, value)) {
        let message = "`spec.custom.body` holds what looks like a secret; a definition holds references to secrets only";
        problems.add_redacted(custom.anchor, message, crate::NO_CREDENTIALS);
    }
    let further = spec.member("body").map_or(&[][..], CheckedValue::members).iter().map(|(name, _)| name.clone());
    let extra: Option<Map<String, Json>> = spec.text_of("extra_body").and_then(|text| serde_json::from_str(text).ok());
    let further = further.chain(extra.unwrap_or_default().keys().cloned().collect::<Vec<_>>());
    for name in further.filter(|name| api.body.contains_key(name)) {
        let message = format!("`spec.custom.body` has the member {}, which a further member would replace", quote(&name));
        problems.add_hinted(custom.anchor, message, "write its value there");
    }
    if spec.member("exact_output").and_then(bool::read) != Some(false) && !api.takes_output_tokens() {
        let message = "`spec.custom.body` has no `${output_tokens}`, so that no request can ask for its length";
        problems.add_hinted(
            custom.anchor,
            message,
            "add it, or write `exact_output: false`: the endpoint decides the lengths then",
        );
    }
    for member in ["dataset", "trace"] {
        let file = spec.member(member).filter(|file| file.text_of("format") == Some(DatasetFormat::OpenaiBatch.as_str()));
        if let Some(file) = file {
            let message = format!("`spec.{member}` has whole bodies of another API than `api: {}`", ServingApi::Custom);
            problems.add_hinted(file.anchor, message, "write a file of prompts");
        }
    }
}
