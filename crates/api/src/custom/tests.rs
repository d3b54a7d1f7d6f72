use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::*;

/// Text Generation Inference's own API, with these paths.
fn api(body: Value) -> CustomApi {
    CustomApi {
        path: "/generate".to_owned(),
        body: body.as_object().expect("an object").clone(),
        text: "token.text".to_owned(),
        input_tokens: Some("details.prefill_tokens".to_owned()),
        output_tokens: Some("details.generated_tokens".to_owned()),
        finish: Some("details.finish_reason".to_owned()),
    }
}

fn generate() -> CustomApi {
    api(
        json!({"inputs": "${prompt}", "parameters": {"max_new_tokens": "${output_tokens}", "do_sample": false}, "stream": "${stream}"}),
    )
}

fn body(api: &CustomApi, prompt: &str, output_tokens: Option<u32>, extra_members: Value) -> Value {
    let inputs = [prompt.to_owned()];
    let bytes = api.request_body(&RequestBody {
        model: "m",
        input: RequestInput::Texts { query: None, inputs: &inputs },
        output_tokens,
        max_output_tokens: None,
        exact_output: true,
        streamed: true,
        continuous_usage: true,
        extra_body: &BTreeMap::new(),
        extra_members: extra_members.as_object().expect("an object"),
    });
    serde_json::from_slice(&bytes).expect("JSON")
}

#[test]
fn a_body_is_filled_and_nothing_is_added_to_it() {
    let expected = json!({"inputs": "a b", "parameters": {"max_new_tokens": 7, "do_sample": false}, "stream": true});
    assert_eq!(body(&generate(), "a b", Some(7), json!({})), expected);
    let decided = json!({"inputs": "a b", "parameters": {"do_sample": false}, "stream": true, "seed": 1});
    assert_eq!(body(&generate(), "a b", None, json!({"seed": 1})), decided, "the endpoint decides the length");
    let chat = api(json!({"model": "${model}", "messages": "${messages}", "options": ["${stream}", null]}));
    let expected = json!({"model": "m", "messages": [{"role": "user", "content": "a"}], "options": [true, null]});
    assert_eq!(body(&chat, "a", Some(7), json!({})), expected);
}

#[test]
fn what_a_placeholder_stands_for_is_not_filled_in_turn() {
    let text = api(json!({"text": "<${model}> ${prompt} </${model}>"}));
    assert_eq!(body(&text, "is ${model} and ${prompt}", None, json!({})), json!({"text": "<m> is ${model} and ${prompt} </m>"}));
}

#[test]
fn a_description_that_cannot_be_used_is_refused() {
    let refused = |body: Value| api(body).check().expect_err("refused").to_string();
    let all = [
        json!({}),
        json!({"a": "${prompt}", "b": ["${messages}"]}),
        json!({"a": "${prompt} ${prompts}"}),
        json!({"a": "${prompt} ${"}),
        json!({"a": "${prompt}", "b": "n=${output_tokens}"}),
        json!({"a": "${prompt}", "b": ["${output_tokens}"]}),
    ];
    assert_snapshot!(all.map(refused).join("\n"), @r"
    the body has neither `${prompt}` nor `${messages}`
    the body has 2 places for the prompt, not one
    the body has the placeholder `${prompts}`, which is none of `${prompt}`, `${messages}`, `${model}`, `${output_tokens}` and `${stream}`
    the body has the placeholder `${`, which is none of `${prompt}`, `${messages}`, `${model}`, `${output_tokens}` and `${stream}`
    `${output_tokens}` is a value of its own, and the body has it within a text
    `${output_tokens}` is not the value of a member of an object
    ");
    let paths = |text: &str, finish: &str| {
        let api = CustomApi { text: text.to_owned(), finish: Some(finish.to_owned()), ..generate() };
        api.check().expect_err("refused").to_string()
    };
    let all = [paths("", "a"), paths("a..b", "a"), paths(&"a.".repeat(17), "b"), paths("a.0", "a"), paths("a.b", "a.b")];
    assert_snapshot!(all.join("\n"), @r"
    `` is no path of names and places of lists that are joined by dots, such as `choices.0.text`
    `a..b` is no path of names and places of lists that are joined by dots, such as `choices.0.text`
    `a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.` is no path of names and places of lists that are joined by dots, such as `choices.0.text`
    `a.0` and `a` cannot both be read: one is the place of the other, or contains it
    `a.b` and `a.b` cannot both be read: one is the place of the other, or contains it
    ");
    assert!(generate().takes_output_tokens() && !api(json!({"a": "${prompt}"})).takes_output_tokens());
}

/// The text, the counts of input and output, and the finish reason of a document.
type Values = (String, Option<u32>, Option<u32>, Option<String>);

fn parsed(api: &CustomApi, document: &str) -> Result<Values, String> {
    let mut text = Vec::new();
    let parsed = api.check().expect("a good one").parse_response(document.as_bytes(), &mut TextSink::Text(&mut text))?;
    if let Some(error) = parsed.error {
        return Err(error);
    }
    assert_eq!(parsed.content, text.len());
    let finish = parsed.finish.map(response::to_text);
    Ok((String::from_utf8(text).expect("UTF-8"), parsed.usage.prompt, parsed.usage.completion, finish))
}

#[test]
fn values_are_read_at_their_places_alone() {
    let event = r#"{"index":1,"token":{"id":5,"text":"caf\u00e9","special":false},"generated_text":null,"details":null}"#;
    assert_eq!(parsed(&generate(), event), Ok(("caf\u{e9}".to_owned(), None, None, None)));
    let last = r#"{"token":{"text":"","x":{"text":"no"}},"details":{"finish_reason":"length","generated_tokens":7,"prefill_tokens":3,"prefill":[]}}"#;
    assert_eq!(parsed(&generate(), last), Ok((String::new(), Some(3), Some(7), Some("length".to_owned()))));
    assert_eq!(parsed(&generate(), r#"{"text":"no","tokens":[{"text":"no"}]}"#), Ok((String::new(), None, None, None)));
    let odd = r#"{"token":[{"text":"no"}],"details":{"generated_tokens":"7","finish_reason":5}}"#;
    assert_eq!(parsed(&generate(), odd), Ok((String::new(), None, None, None)));

    let listed =
        CustomApi { text: "0.outputs.1.text".to_owned(), input_tokens: None, output_tokens: None, finish: None, ..generate() };
    let document = r#"[{"outputs":[{"text":"a"},{"text":"b"}]},{"outputs":[{"text":"c"},{"text":"d"}]}]"#;
    assert_eq!(parsed(&listed, document), Ok(("b".to_owned(), None, None, None)));
    assert!(!listed.check().expect("a good one").has_finish());
}

#[test]
fn errors_and_documents_of_another_kind_are_told() {
    assert_eq!(parsed(&generate(), r#"{"error":"overloaded","error_type":"overloaded"}"#), Err("overloaded".to_owned()));
    assert_eq!(parsed(&generate(), r#"{"error":{"message":"too long"}}"#), Err("too long".to_owned()));
    assert_eq!(parsed(&generate(), r#"{"error":null}"#), Ok((String::new(), None, None, None)));
    for malformed in ["", "{", r#"{"token":{"text":5}}"#, "{} {}", r#"{"x":01}"#] {
        assert!(parsed(&generate(), malformed).is_err(), "{malformed}");
    }
    let own = CustomApi { text: "error".to_owned(), ..generate() };
    assert_eq!(parsed(&own, r#"{"error":"is a text"}"#).map(|read| read.0), Ok("is a text".to_owned()));
}
