//! Tests of the parser: one line for each thing that a script may print, and properties over everything else.

use proptest::prelude::*;

use crate::{MAX_BYTES, MAX_DEPTH, MAX_PATH_BYTES, MAX_PATHS, MAX_SAMPLES, MAX_VALUES, Output, OutputError, Value, parse};

fn output(text: &str) -> Output {
    parse(text.as_bytes()).expect("a well-formed output")
}

fn malformed(text: &str) -> OutputError {
    parse(text.as_bytes()).expect_err("a malformed output")
}

/// Returns code and message of a refusal, as `code: message`.
fn refusal(text: &str) -> String {
    let malformed = malformed(text);
    format!("{}: {malformed}", malformed.code())
}

/// Returns a document with this `@result` and nothing else of interest.
fn with_result(result: &str) -> String {
    format!(r#"{{"name": "PiTest", "@parameters": {{}}, "@result": {result}}}"#)
}

/// Returns the values of such a `@result` as `path=value` texts, or as `path!` if a value is not finite.
fn flat(result: &str) -> Vec<String> {
    let output = output(&with_result(result));
    let values = output.result.iter().map(|(path, value)| format!("{path}={}", shown(value)));
    values.chain(output.not_finite.iter().map(|path| format!("{path}!"))).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => format!("{number}"),
        Value::Samples(samples) => format!("{samples:?}"),
        Value::Text(text) => format!("{text:?}"),
        Value::Bool(truth) => format!("{truth}"),
        Value::Null => "null".to_owned(),
    }
}

fn paths(values: &[(String, Value)]) -> Vec<&str> {
    values.iter().map(|(path, _)| path.as_str()).collect()
}

fn value<'a>(values: &'a [(String, Value)], path: &str) -> &'a Value {
    &values.iter().find(|(name, _)| name == path).expect("a value at the path").1
}

// Documents of real indicators.

#[test]
fn a_tensorflow_matmul() {
    let output = output(
        r#"{
  "@parameters": {"dtype": "float32", "device": "cpu", "reps": 50, "mini_batch": 40, "matrix_size": 512},
  "@result": {"rate": 1073.2179215, "elapsed": 9.991884231567383},
  "name": "PiMatmul",
  "component": "tensorflow",
  "tensorflow_aicoe_buildinfo": {"build": {"copt": ["-march=native", "-O3"]}, "bazel": null},
  "tensorflow_upstream_buildinfo": null
}
"#,
    );
    assert_eq!(output.name, "PiMatmul");
    assert_eq!(output.component.as_deref(), Some("tensorflow"));
    assert_eq!(paths(&output.parameters), ["dtype", "device", "reps", "mini_batch", "matrix_size"]);
    assert_eq!(*value(&output.parameters, "device"), Value::Text("cpu".to_owned()));
    let expected = [("rate", 1_073.217_921_5), ("elapsed", 9.991_884_231_567_383)];
    assert_eq!(output.result, expected.map(|(path, number)| (path.to_owned(), Value::Number(number))));
    assert_eq!(output.extra, ["tensorflow_aicoe_buildinfo", "tensorflow_upstream_buildinfo"]);
}

#[test]
fn a_pytorch_conv2d_names_a_framework() {
    let output = output(
        r#"{"name": "PiConv2D", "framework": "pytorch", "pytorch_buildinfo": null, "overall_score": null,
            "@parameters": {"dtype": "float32", "strides": 2, "padding": "SAME"}, "@result": {"rate": NaN, "elapsed": 0.0}}"#,
    );
    assert_eq!(output.component.as_deref(), Some("pytorch"));
    assert_eq!(output.result, [("elapsed".to_owned(), Value::Number(0.0))]);
    assert_eq!(output.not_finite, ["rate"]);
    assert_eq!(output.extra, ["pytorch_buildinfo", "overall_score"]);
}

#[test]
fn a_pyperformance_document_is_flattened() {
    let output = output(
        r#"{"name": "PiPyPerformance", "component": "performance", "@parameters": {}, "@result": {
            "version": "1.0",
            "metadata": {"cpu_count": 8, "python_version": "3.8.3 (64-bit)"},
            "benchmarks": [{
                "metadata": {"name": "2to3", "loops": 1},
                "runs": [
                    {"warmups": [[1, 0.31], [2, 0.3]]},
                    {"metadata": {"load_avg_1min": 0.5}, "values": [0.29, 0.3, 0.31]}
                ]
            }]
        }}"#,
    );
    assert_eq!(
        paths(&output.result),
        [
            "version",
            "metadata.cpu_count",
            "metadata.python_version",
            "benchmarks.0.metadata.name",
            "benchmarks.0.metadata.loops",
            "benchmarks.0.runs.0.warmups.0",
            "benchmarks.0.runs.0.warmups.1",
            "benchmarks.0.runs.1.metadata.load_avg_1min",
            "benchmarks.0.runs.1.values",
        ]
    );
    assert_eq!(*value(&output.result, "benchmarks.0.runs.1.values"), Value::Samples(vec![0.29, 0.3, 0.31]));
}

// Values.

#[test]
fn every_kind_of_value_has_its_place() {
    let result = r#"{"n": 1.5, "s": [1, 2], "t": "x", "b": true, "f": false, "z": null, "o": {"p": {"q": -3e2}}}"#;
    assert_eq!(flat(result), ["n=1.5", "s=[1.0, 2.0]", "t=\"x\"", "b=true", "f=false", "z=null", "o.p.q=-300"]);
}

#[test]
fn other_arrays_are_flattened_by_number() {
    assert_eq!(flat(r#"{"a": [1, "x", [2, 3], {"k": 4}]}"#), ["a.0=1", "a.1=\"x\"", "a.2=[2.0, 3.0]", "a.3.k=4"]);
}

#[test]
fn what_holds_nothing_leaves_nothing() {
    assert_eq!(flat(r#"{"a": [], "b": {}, "c": [[], {}]}"#), [""; 0]);
}

#[test]
fn what_is_not_finite_is_marked_and_never_a_number() {
    assert_eq!(flat(r#"{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999, "e": -1e999}"#), ["a!", "b!", "c!", "d!", "e!"]);
    assert_eq!(flat(r#"{"o": {"p": [1, NaN, 2]}}"#), ["o.p!"]);
    assert_eq!(flat(r#"{"m": ["x", NaN]}"#), ["m.0=\"x\"", "m.1!"]);
    assert_eq!(output(r#"{"name": "n", "@parameters": {"p": NaN}, "@result": {}, "x": NaN}"#).not_finite, ["p"]);
}

#[test]
fn numbers_are_read_exactly() {
    for text in ["0", "-0", "0.1", "-0.0", "1E5", "1e+5", "1e-5", "123456789.123456789", "5e-324", "1e-999", "9007199254740993"] {
        let number = text.parse::<f64>().expect("a number");
        let read = output(&with_result(&format!(r#"{{"x": {text}}}"#))).result;
        assert_eq!(read, [("x".to_owned(), Value::Number(number))], "{text}");
    }
}

#[test]
fn escapes_are_read() {
    assert_eq!(flat(r#"{"x": "\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é😀\u007f"}"#), [r#"x="\"\\/\u{8}\u{c}\n\r\té😀é😀\u{7f}""#]);
    assert_eq!(flat(r#"{"\u0061": 1}"#), ["a=1"]);
}

// The top level of the document.

#[test]
fn white_space_around_the_document_is_nothing() {
    let text = with_result("{}");
    assert_eq!(output(&format!("\r\n\t {text} \n\n")), output(&text));
}

#[test]
fn component_and_framework_are_one_thing() {
    let component = |members: &str| {
        let text = with_result("{}").replacen('{', &format!("{{{members}"), 1);
        parse(text.as_bytes()).map(|output| output.component)
    };
    assert_eq!(component(""), Ok(None));
    assert_eq!(component(r#""framework": "a", "#), Ok(Some("a".to_owned())));
    assert_eq!(component(r#""component": "a", "#), Ok(Some("a".to_owned())));
    assert_eq!(component(r#""component": "a", "framework": "a", "#), Ok(Some("a".to_owned())));
    assert_eq!(component(r#""component": "a", "framework": null, "#), Ok(Some("a".to_owned())));
    assert_eq!(component(r#""component": null, "#), Ok(None));
    assert_eq!(
        component(r#""component": "a", "framework": "b", "#),
        Err(OutputError::Disagreement { framework: "b".to_owned(), component: "a".to_owned() })
    );
    assert_eq!(
        component(r#""component": 3, "#),
        Err(OutputError::WrongKind { key: "component", found: "a number", expected: "a text" })
    );
}

#[test]
fn nothing_is_not_a_document() {
    for text in ["", " ", "\n\t\r "] {
        assert_eq!(refusal(text), "empty: the output is empty");
    }
}

#[test]
fn the_document_is_an_object() {
    let refused = |text| refusal(text).replace("not_an_object: the document is ", "");
    assert_eq!(refused("[]"), "an array, not an object");
    assert_eq!(refused("3"), "a number, not an object");
    assert_eq!(refused("NaN"), "a number, not an object");
    assert_eq!(refused(r#""{}""#), "a text, not an object");
    assert_eq!(refused("true"), "a boolean, not an object");
    assert_eq!(refused("null"), "null, not an object");
}

#[test]
fn name_parameters_and_result_are_needed() {
    assert_eq!(refusal("{}"), "missing: `@parameters` is missing");
    assert_eq!(refusal(r#"{"@parameters": {}, "name": "n"}"#), "missing: `@result` is missing");
    assert_eq!(refusal(r#"{"@parameters": {}, "@result": {}}"#), "missing: `name` is missing");
    assert_eq!(refusal(&with_result("[1]")), "wrong_kind: `@result` is an array, not an object");
    assert_eq!(refusal(&with_result("null")), "wrong_kind: `@result` is null, not an object");
    assert_eq!(
        refusal(r#"{"name": "n", "@parameters": "x", "@result": {}}"#),
        "wrong_kind: `@parameters` is a text, not an object"
    );
    assert_eq!(refusal(r#"{"name": null, "@parameters": {}, "@result": {}}"#), "wrong_kind: `name` is null, not a text");
}

#[test]
fn a_document_is_all_that_is_printed() {
    let refused = |after: &str| refusal(&format!("{{}}{after}"));
    assert_eq!(refused("{}"), "trailing_bytes: the output goes on after its document at line 1 column 3");
    assert_eq!(refused("\n\nDone."), "trailing_bytes: the output goes on after its document at line 3 column 1");
    assert_eq!(refused("\0"), "trailing_bytes: the output goes on after its document at line 1 column 3");
}

#[test]
fn a_key_is_there_once() {
    assert_eq!(refusal(r#"{"a": 1, "a": 1}"#), "duplicate_key: the key `a` at line 1 column 10 is there twice in one object");
    assert_eq!(
        refusal("{\"name\": \"n\",\n \"@result\": {\"x\": {\"é\": 1,\n  \"\\u00e9\": 2}}}"),
        "duplicate_key: the key `é` at line 3 column 3 is there twice in one object"
    );
    assert_eq!(malformed(r#"{"x": [{"k": 1, "k": 1}]}"#).code(), "duplicate_key");
    assert_eq!(flat(r#"{"a": {"k": 1}, "b": {"k": 1}}"#), ["a.k=1", "b.k=1"]);
}

#[test]
fn parameters_and_result_share_no_key() {
    let refused = |parameters, result| refusal(&format!(r#"{{"name": "n", "@parameters": {parameters}, "@result": {result}}}"#));
    let text = "colliding_keys: the key `a` is both in `@parameters` and in `@result`";
    assert_eq!(refused(r#"{"a": 1}"#, r#"{"a": 1}"#), text);
    assert_eq!(refused(r#"{"a": {"x": 1}}"#, r#"{"b": 1, "a": {"y": 1}}"#), text);
    assert_eq!(refused(r#"{"a": []}"#, r#"{"a": NaN}"#), text);
    assert_eq!(refused(r#"{"a.b": 1}"#, r#"{"a": {"b": 1}}"#), "colliding_paths: two values have the path `a.b`");
}

#[test]
fn no_path_is_there_twice() {
    let refused = |result| refusal(&with_result(result));
    assert_eq!(refused(r#"{"a.b": 1, "a": {"b": 1}}"#), "colliding_paths: two values have the path `a.b`");
    assert_eq!(refused(r#"{"a": {"b": NaN}, "a.b": 1}"#), "colliding_paths: two values have the path `a.b`");
    assert_eq!(refused(r#"{"a": ["x"], "a.0": 1}"#), "colliding_paths: two values have the path `a.0`");
    assert_eq!(flat(r#"{"a.b": 1, "a": {"c": 2}}"#), ["a.b=1", "a.c=2"]);
}

// Invalid JSON, and its place.

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    let cases = [
        ("{", "line 1 column 2: expected a key in double quotes"),
        ("{'a': 1}", "line 1 column 2: expected a key in double quotes"),
        (r#"{"a": 1,}"#, "line 1 column 9: expected a key in double quotes"),
        (r#"{"a" 1}"#, "line 1 column 6: expected `:`"),
        (r#"{"a": 1 "b": 2}"#, "line 1 column 9: expected `,` or `}`"),
        ("{\"a\":\n", "line 2 column 1: it ends where a value is expected"),
        ("[1 2]", "line 1 column 4: expected `,` or `]`"),
        ("[1,]", "line 1 column 4: expected a value"),
        ("[", "line 1 column 2: it ends where a value is expected"),
        ("[1", "line 1 column 3: expected `,` or `]`"),
        ("None", "line 1 column 1: expected a value"),
        ("nan", "line 1 column 1: expected a value"),
        ("+1", "line 1 column 1: expected a value"),
        (".5", "line 1 column 1: expected a value"),
        ("-", "line 1 column 2: expected a digit"),
        ("-NaN", "line 1 column 2: expected a digit"),
        ("1.", "line 1 column 3: expected a digit after the decimal point"),
        ("1e", "line 1 column 3: expected a digit in the exponent"),
        ("1e+", "line 1 column 4: expected a digit in the exponent"),
        (r#""a"#, "line 1 column 3: it ends within a text"),
        ("\"a\nb\"", "line 1 column 3: a control character in a text must be escaped"),
        (r#""é\x""#, "line 1 column 3: no such escape"),
        (r#""\"#, "line 1 column 2: no such escape"),
        (r#""\u12"#, "line 1 column 2: expected `\\u` and four hexadecimal digits"),
        (r#""\u12é4""#, "line 1 column 2: expected `\\u` and four hexadecimal digits"),
        (r#""\u+123""#, "line 1 column 2: expected `\\u` and four hexadecimal digits"),
        (r#""\ud800""#, "line 1 column 2: half of a surrogate pair is not a character"),
        (r#""\ud800\u0041""#, "line 1 column 2: half of a surrogate pair is not a character"),
        (r#""\ud800\n""#, "line 1 column 2: expected `\\u` and four hexadecimal digits"),
        (r#""\ude00""#, "line 1 column 2: half of a surrogate pair is not a character"),
        ("\u{feff}{}", "line 1 column 1: expected a value"),
        ("Traceback (most recent call last):", "line 1 column 1: expected a value"),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), format!("not_json: the output is not JSON at {expected}"), "{text}");
    }
}

#[test]
fn numbers_that_only_look_like_json_leave_bytes_behind() {
    for text in ["01", "0x10", "1_000", "1.5.2", "NaNs", "Infinity1"] {
        assert_eq!(malformed(text).code(), "trailing_bytes", "{text}");
    }
}

#[test]
fn other_encodings_are_refused() {
    let refused = parse(b"{\"\xc3\xa9\":\n \"\xff\"}").expect_err("not UTF-8");
    assert_eq!(refused.to_string(), "the output is not JSON at line 2 column 3: this is not UTF-8");
}

#[test]
fn a_hostile_text_is_shortened_and_escaped_in_messages() {
    let key = "\\u001b[31m".repeat(1000);
    let message = refusal(&format!(r#"{{"{key}": 1, "{key}": 1}}"#));
    assert!(message.chars().count() < 250, "{message}");
    assert!(!message.contains('\u{1b}'), "{message:?}");
}

// Limits.

#[test]
fn the_size_is_limited() {
    let padded = |size: usize| {
        let text = with_result("{}");
        format!("{text}{}", " ".repeat(size - text.len()))
    };
    output(&padded(MAX_BYTES));
    assert_eq!(refusal(&padded(MAX_BYTES + 1)), "too_large: the output is larger than the limit of 16777216 bytes");
}

#[test]
fn the_depth_is_limited() {
    let nested = |depth: usize| with_result(&format!(r#"{{"x": {}1{}}}"#, "[".repeat(depth), "]".repeat(depth)));
    output(&nested(MAX_DEPTH - 2));
    assert_eq!(malformed(&nested(MAX_DEPTH - 1)).code(), "too_deep");
    assert_eq!(refusal(&"[".repeat(1_000_000)), "too_deep: the output is nested deeper than the limit of 64 at line 1 column 65");
    assert_eq!(malformed(&r#"{"a":"#.repeat(1_000_000)).code(), "too_deep");
}

#[test]
fn the_number_of_values_is_limited() {
    // The array itself counts too.
    let items = |count: usize| format!("[{}1]", "[],".repeat(count - 2));
    assert_eq!(malformed(&items(MAX_VALUES)).code(), "not_an_object");
    assert_eq!(malformed(&items(MAX_VALUES + 1)).code(), "too_many_values");
}

#[test]
fn the_number_of_samples_is_limited() {
    let samples = |count: usize| with_result(&format!(r#"{{"x": [{}1]}}"#, "1,".repeat(count - 1)));
    assert_eq!(paths(&output(&samples(MAX_SAMPLES)).result), ["x"]);
    assert_eq!(malformed(&samples(MAX_SAMPLES + 1)).code(), "too_many_samples");
}

#[test]
fn the_number_of_paths_is_limited() {
    let items = |count: usize| with_result(&format!(r#"{{"x": [{}null]}}"#, "null,".repeat(count - 1)));
    assert_eq!(output(&items(MAX_PATHS)).result.len(), MAX_PATHS);
    assert_eq!(malformed(&items(MAX_PATHS + 1)).code(), "too_many_paths");
}

#[test]
fn the_length_of_a_path_is_limited() {
    let nested = |length: usize| with_result(&format!(r#"{{"{}": {{"k": 1}}}}"#, "é".repeat(length)));
    output(&nested((MAX_PATH_BYTES - 2) / 2));
    let refused = refusal(&nested(MAX_PATH_BYTES / 2));
    assert!(refused.starts_with("path_too_long: the path `ééé") && refused.ends_with("…` is longer than the limit of 500 bytes"));
}

// Properties.

fn any_value() -> impl Strategy<Value = Value> {
    let number = || any::<f64>().prop_filter("finite", |number| number.is_finite());
    prop_oneof![
        number().prop_map(Value::Number),
        prop::collection::vec(number(), 1..5).prop_map(Value::Samples),
        any::<String>().prop_map(Value::Text),
        any::<bool>().prop_map(Value::Bool),
        Just(Value::Null),
    ]
}

fn any_values() -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::collection::btree_map(any::<String>(), any_value(), 0..8).prop_map(|values| values.into_iter().collect())
}

fn as_json(values: &[(String, Value)]) -> serde_json::Value {
    let json = |value: &Value| match value {
        Value::Number(number) => (*number).into(),
        Value::Samples(samples) => samples.clone().into(),
        Value::Text(text) => text.clone().into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Null => serde_json::Value::Null,
    };
    values.iter().map(|(path, value)| (path.clone(), json(value))).collect::<serde_json::Map<_, _>>().into()
}

fn sorted(mut values: Vec<(String, Value)>) -> Vec<(String, Value)> {
    values.sort_by(|(a, _), (b, _)| a.cmp(b));
    values
}

/// Generates text of which a JSON reader understands a good part.
fn nearly_json() -> impl Strategy<Value = String> {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "u",
        "d800",
        "\\udc00",
        "1",
        "-",
        "0",
        ".",
        "e",
        "+",
        "NaN",
        "Infinity",
        "null",
        "true",
        " ",
        "\n",
        "é",
        "😀",
        "\"name\":\"n\"",
        "\"@result\":{",
        "\"@parameters\":{",
        "\"a\":",
        "\u{0}",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn bytes_never_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn near_misses_never_make_it_panic(text in nearly_json()) {
        let _ = parse(text.as_bytes());
    }

    /// Text that serde_json accepts is JSON here too. (The reverse does not hold: serde_json accepts neither NaN nor numbers
    /// beyond a double.)
    #[test]
    fn it_takes_the_json_that_others_take(text in nearly_json()) {
        if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
            let refused = parse(text.as_bytes()).err().map_or("", |malformed| malformed.code());
            prop_assert!(!["empty", "not_json", "trailing_bytes"].contains(&refused), "{}", refused);
        }
    }

    #[test]
    fn a_cut_document_is_refused(cut in 0..500_usize) {
        let text = with_result(r#"{"rate": 12.5, "nested": {"samples": [1, 2.5e3, NaN], "text": "\u00e9\n"}, "flag": true}"#);
        prop_assert!(parse(&text.as_bytes()[..cut % text.len()]).is_err());
    }

    #[test]
    fn finite_documents_come_back(name in any::<String>(), values in any_values(), more in any_values(), pretty in any::<bool>()) {
        let parameters: Vec<_> = more.into_iter().map(|(path, value)| (format!("p{path}"), value)).collect();
        let result: Vec<_> = values.into_iter().map(|(path, value)| (format!("r{path}"), value)).collect();
        let document = serde_json::json!({"name": name, "@parameters": as_json(&parameters), "@result": as_json(&result)});
        let text = if pretty { format!("{document:#}") } else { document.to_string() };
        let read = output(&text);
        prop_assert_eq!(read.name, name);
        prop_assert_eq!(sorted(read.parameters), sorted(parameters));
        prop_assert_eq!(sorted(read.result), sorted(result));
        prop_assert!(read.not_finite.is_empty() && read.extra.is_empty());
    }
}
