//! The options of `assay bench` that describe an API of the endpoint's own.

use assay_stage::{ErrorCode, Failure};
use serde_json::{Map, Value, json};

/// The description of an API.
#[derive(clap::Args)]
pub(super) struct CustomApiOptions {
    /// The path of the requests of `--api custom`, such as /generate
    #[arg(long = "api-path", id = "api_path", value_name = "PATH", requires_all = ["api_body", "api_response"])]
    path: Option<String>,
    /// Their body: a JSON object with placeholders, such as '{"inputs":"${prompt}","max_new_tokens":"${output_tokens}","stream":"${stream}"}'
    #[arg(long = "api-body", id = "api_body", value_name = "JSON", requires = "api_path")]
    body: Option<String>,
    /// The places of what their responses say, such as text=choices.0.text; also input_tokens, output_tokens and finish
    #[arg(
        long = "api-response",
        id = "api_response",
        value_name = "NAME=PLACE,..",
        value_delimiter = ',',
        requires = "api_path"
    )]
    response: Vec<String>,
}

/// The place that every API has.
const TEXT: &str = "text";

/// The places of what responses say.
const PLACES: [&str; 4] = [TEXT, "input_tokens", "output_tokens", "finish"];

impl CustomApiOptions {
    /// Returns the description; `None` if there is none.
    pub(super) fn written(&self) -> Result<Option<Value>, Failure> {
        let (Some(path), Some(body)) = (&self.path, &self.body) else { return Ok(None) };
        let mut response = Map::new();
        for pair in &self.response {
            let (name, place) = pair.split_once('=').ok_or_else(|| {
                Failure::new(ErrorCode::Option, format!("`--api-response {pair}` is not of the form NAME=PLACE"))
                    .hint("such as `--api-response text=choices.0.text,output_tokens=usage.completion_tokens`")
            })?;
            if !PLACES.contains(&name) {
                return Err(Failure::new(ErrorCode::Option, format!("`--api-response` has no `{name}`")).hint(format!(
                    "it is one of {}, each with a place, such as `text=choices.0.text`",
                    PLACES.map(|place| format!("`{place}`")).join(", ")
                )));
            }
            if response.insert(name.to_owned(), json!(place)).is_some() {
                return Err(Failure::new(ErrorCode::Option, format!("`--api-response` gives `{name}` twice")));
            }
        }
        if !response.contains_key(TEXT) {
            return Err(Failure::new(
                ErrorCode::Option,
                "`--api-response` lacks `text`, the place of the text in each document of a response",
            )
            .hint("such as `--api-response text=choices.0.text`"));
        }
        Ok(Some(json!({"path": path, "body": body, "response": response})))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_a_path_a_body_and_places() {
        let written = |response: &[&str]| {
            let response = response.iter().map(|pair| (*pair).to_owned()).collect();
            let options = CustomApiOptions { path: Some("/g".to_owned()), body: Some("{}".to_owned()), response };
            options.written().map_err(|failure| failure.to_string())
        };
        let expected = json!({"path": "/g", "body": "{}", "response": {"text": "a.0.b", "finish": "c"}});
        assert_eq!(written(&["text=a.0.b", "finish=c"]), Ok(Some(expected)));
        assert!(written(&["text"]).is_err_and(|text| text.contains("`--api-response text` is not of the form NAME=PLACE")));
        assert!(written(&["text=a", "text=b"]).is_err_and(|text| text.contains("gives `text` twice")));
        let refused = written(&["txt=a"]).expect_err("refused");
        assert!(
            refused.contains("`--api-response` has no `txt`") && refused.contains("such as `text=choices.0.text`"),
            "{refused}"
        );
        assert!(written(&["finish=c"]).is_err_and(|text| text.contains("`--api-response` lacks `text`")));
    }
}
