//! Files of Kubernetes objects as plain values. The code that creates the objects decides which ones are allowed; this module
//! only parses the YAML, as strictly as that of definitions, except that a file may hold several documents.

use serde_json::{Map, Value as Json};

use crate::define::decode_text;
use crate::problem::{Excerpt, Problem, Problems, Source, quote};
use crate::secret::looks_secret;
use crate::yaml::{Key, Node, Scalar, ScalarType, Value, parse_all};

/// The largest file of objects: hand-written ones are a hundred times smaller, and a cluster accepts no object larger than four
/// times this.
pub const MAX_OBJECT_BYTES: usize = 256 << 10;

/// Parses the objects of a file, in their order; `file` is its name in problems. Empty documents are skipped.
pub fn parse_objects(file: &str, bytes: &[u8]) -> Result<Vec<Json>, Vec<Problem>> {
    if bytes.len() > MAX_OBJECT_BYTES {
        let message = format!("the file has {} bytes; a file of objects has at most {MAX_OBJECT_BYTES}", bytes.len());
        return Err(vec![Problem::for_file(file, message)]);
    }
    let source = Source::new(file, decode_text(file, bytes)?);
    let mut problems = Problems::new(&source);
    let documents = parse_all(&mut problems).unwrap_or_default();
    let mut objects = Vec::new();
    for node in &documents {
        refuse_secrets(node, &mut problems);
        match value_of(node, &mut problems) {
            Json::Null => {}
            object @ Json::Object(_) => objects.push(object),
            _ => problems.add_hinted(node.span, "an object must be a map of fields", "it begins with `apiVersion:` and `kind:`"),
        }
    }
    if problems.is_empty() && objects.is_empty() {
        problems.add(source.span(0, 0), "the file holds no object");
    }
    if problems.is_empty() { Ok(objects) } else { Err(problems.finish()) }
}

/// Parses the documents of a file that other tools define, in their order; `file` is its name in problems. Empty documents are skipped.
///
/// Such a file may hold credentials in any field. Values are therefore neither judged nor quoted: no problem has an excerpt, and a number that
/// JSON does not have stays a text.
pub fn parse_documents(file: &str, bytes: &[u8]) -> Result<Vec<Json>, Vec<Problem>> {
    if bytes.len() > MAX_OBJECT_BYTES {
        let message = format!("the file has {} bytes; a definition has at most {MAX_OBJECT_BYTES}", bytes.len());
        return Err(vec![Problem::for_file(file, message)]);
    }
    let source = Source::new(file, decode_text(file, bytes)?);
    let mut problems = Problems::new(&source);
    let documents = parse_all(&mut problems).unwrap_or_default();
    if problems.is_empty() {
        return Ok(documents.iter().map(plain_value).filter(|value| !value.is_null()).collect());
    }
    let without_excerpt = |problem: Problem| Problem { excerpt: Excerpt::default(), ..problem };
    Err(problems.finish().into_iter().map(without_excerpt).collect())
}

fn plain_value(node: &Node) -> Json {
    match &node.value {
        Value::Refused => Json::Null,
        Value::Scalar(scalar) => scalar_of(scalar).unwrap_or_else(|_| Json::String(scalar.text.clone())),
        Value::List(items) => items.iter().map(plain_value).collect(),
        Value::Map(members) => Json::Object(members.iter().map(|(key, value)| (key.text.clone(), plain_value(value))).collect()),
    }
}

fn value_of(node: &Node, problems: &mut Problems<'_>) -> Json {
    match &node.value {
        Value::Refused => Json::Null,
        Value::Scalar(scalar) => scalar_of(scalar).unwrap_or_else(|(message, hint)| {
            problems.add_hinted(node.span, message, hint);
            Json::Null
        }),
        Value::List(items) => items.iter().map(|item| value_of(item, problems)).collect(),
        Value::Map(members) => {
            Json::Object(members.iter().map(|(key, value)| (key.text.clone(), value_of(value, problems))).collect::<Map<_, _>>())
        }
    }
}

/// Returns a scalar by the rules of the core schema. Fails if readers of YAML disagree about it.
fn scalar_of(scalar: &Scalar) -> Result<Json, (String, &'static str)> {
    let text = scalar.text.as_str();
    match scalar.scalar_type() {
        ScalarType::Null => Ok(Json::Null),
        ScalarType::Bool => Ok(Json::Bool(text.eq_ignore_ascii_case("true"))),
        ScalarType::Text => Ok(Json::String(text.to_owned())),
        ScalarType::Number => {
            let digits = text.trim_start_matches(['-', '+']);
            if digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let hint = "write `0o644` for octal, a number without the zero for decimal, or quotes for text";
                return Err((format!("{} is octal to some readers and decimal to others", quote(text)), hint));
            }
            number(text).ok_or_else(|| (format!("{} is no number that JSON has", quote(text)), "put a text in quotes"))
        }
    }
}

fn number(text: &str) -> Option<Json> {
    let radix = |digits: &str, radix| i64::from_str_radix(digits, radix).ok().map(Json::from);
    match text.get(..2) {
        Some("0o") => radix(&text[2..], 8),
        Some("0x") => radix(&text[2..], 16),
        _ => {
            let whole = text.parse::<i64>().ok().map(Json::from);
            whole.or_else(|| serde_json::Number::from_f64(text.parse().ok()?).map(Json::Number))
        }
    }
}

/// Refuses plain secrets: a file of a repository is public, so a secret in it is none any more.
fn refuse_secrets(node: &Node, problems: &mut Problems<'_>) {
    match &node.value {
        Value::Scalar(_) | Value::Refused => {}
        Value::List(items) => {
            for item in items {
                refuse_secrets(item, problems);
            }
        }
        Value::Map(members) => {
            let scalar = |name: &str| {
                let (_, found) = members.iter().find(|(key, _): &&(Key, Node)| key.text == name)?;
                let Value::Scalar(scalar) = &found.value else { return None };
                Some((scalar.text.as_str(), found.span))
            };
            if let (Some((name, _)), Some((value, span))) = (scalar("name"), scalar("value"))
                && looks_secret(name, value)
            {
                let hint = "take it from a Secret with `valueFrom: {secretKeyRef: {name: target-secrets, key: ...}}`";
                problems.add_redacted(
                    span,
                    format!("{} looks like a secret; objects hold references to secrets only", quote(name)),
                    hint,
                );
            }
            for (_, value) in members {
                refuse_secrets(value, problems);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;
    use proptest::prelude::*;

    fn check(text: &str) -> String {
        match parse_objects("a.yaml", text.as_bytes()) {
            Ok(objects) => objects.iter().map(Json::to_string).collect::<Vec<_>>().join("\n"),
            Err(problems) => render(&problems),
        }
    }

    #[test]
    fn documents_become_values_as_the_core_schema_has_them() {
        assert_eq!(
            check(
                "# none\n---\n---\nkind: A\nn: [1, -2, 0o17, 0x1F, 1.5, 1e3]\n---\nkind: B\nt: ['1', yes, 1m, ~, true]\nb: |\n  x: y\n"
            ),
            "{\"kind\":\"A\",\"n\":[1,-2,15,31,1.5,1000.0]}\n{\"b\":\"x: y\\n\",\"kind\":\"B\",\"t\":[\"1\",\"yes\",\"1m\",null,true]}"
        );
    }

    #[test]
    fn what_readers_of_yaml_do_not_agree_on_is_refused() {
        insta::assert_snapshot!(check("mode: 0644\nmax: .inf\n---\n- a\n---\na: &x 1\n"), @r"
        error: `0644` is octal to some readers and decimal to others
         --> a.yaml:1:7
          |
        1 | mode: 0644
          |       ^^^^
        hint: write `0o644` for octal, a number without the zero for decimal, or quotes for text

        error: `.inf` is no number that JSON has
         --> a.yaml:2:6
          |
        2 | max: .inf
          |      ^^^^
        hint: put a text in quotes

        error: an object must be a map of fields
         --> a.yaml:4:1
          |
        4 | - a
          | ^^^
        hint: it begins with `apiVersion:` and `kind:`

        error: anchors (`&name`) are not allowed
         --> a.yaml:6:4
          |
        6 | a: &x 1
          |    ^^^^
        hint: write the value out where it is used
        ");
    }

    #[test]
    fn a_secret_is_refused_and_not_shown() {
        let shown = check("env:\n  - {name: HF_TOKEN, value: hunter2}\n  - {name: MAX_TOKEN, value: '8'}\n");
        insta::assert_snapshot!(shown, @r"
        error: `HF_TOKEN` looks like a secret; objects hold references to secrets only
         --> a.yaml:2:29
          |
        2 |   - {name: HF_TOKEN, value: …
          |                             ^
        hint: take it from a Secret with `valueFrom: {secretKeyRef: {name: target-secrets, key: ...}}`
        ");
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn documents_of_other_tools_are_read_without_quoting_them() {
        let read = |text: &str| parse_documents("a.yaml", text.as_bytes());
        let documents = read("---\n---\na: 0644\nenv: [{name: HF_TOKEN, value: hunter2}]\n---\n{\"b\": .inf}\n").expect("YAML");
        let expected = ["{\"a\":\"0644\",\"env\":[{\"name\":\"HF_TOKEN\",\"value\":\"hunter2\"}]}", "{\"b\":\".inf\"}"];
        assert_eq!(documents.iter().map(Json::to_string).collect::<Vec<_>>(), expected);
        let problems = read("password: hunter2\n  more: hunter2\n").expect_err("no YAML");
        assert!(!format!("{problems:?}").contains("hunter2") && problems[0].line == 2, "{problems:?}");
        assert_eq!(read("# nothing\n").expect("no document"), [Json::Null; 0]);
        assert!(read(&" ".repeat(MAX_OBJECT_BYTES + 1)).is_err());
    }

    #[test]
    fn a_file_without_an_object_or_with_too_much_is_refused() {
        insta::assert_snapshot!(check("# nothing\n"), @r"
        error: the file holds no object
         --> a.yaml:1:1
          |
        1 | # nothing
          | ^
        ");
        insta::assert_snapshot!(check(&" ".repeat(MAX_OBJECT_BYTES + 1)), @r"
        error: the file has 262145 bytes; a file of objects has at most 262144
         --> a.yaml
        ");
        insta::assert_snapshot!(check("a: 1\n  b: 2\n"), @r"
        error: this is not YAML: mapping values are not allowed in this context
         --> a.yaml:2:4
          |
        2 |   b: 2
          |    ^
        hint: quote a text that holds `: `, and check the indentation
        ");
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_is_read_or_refused(text in "[-a-z0-9:\\[\\]{}'\"#&*!|>.,~ \n]{0,80}") {
            let _ = parse_objects("a.yaml", text.as_bytes());
        }
    }
}
