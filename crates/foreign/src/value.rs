//! Values of other tools: numbers that may be quoted, and texts that may be credentials.

use assay_spec::{looks_secret, looks_secret_header};
use serde_json::Value;

/// The longest name of a field that is shown.
const MAX_NAME: usize = 100;

/// The least number above which the whole numbers that a double can be are not all of them (2^53).
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Returns the value at a path of names that are joined by dots; `None` if it is absent or null.
pub(crate) fn at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(document, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// Returns a whole number, quoted or not.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Returns a scalar as a text; `None` for maps, lists and null.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns a scalar as the value of a label: one number has one text, whether a tool writes `5` or `5.0`.
pub(crate) fn label(value: &Value) -> Option<String> {
    let whole = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0 && number.abs() < MAX_WHOLE);
    // Adding 0 leaves no sign at a 0.
    whole.map(|number| format!("{:.0}", number + 0.0)).or_else(|| text(value))
}

/// Returns a text as the number or the boolean that it spells, or else as a text.
pub(crate) fn typed(text: &str) -> Value {
    match text {
        "true" | "True" => Value::Bool(true),
        "false" | "False" => Value::Bool(false),
        _ => text.parse::<serde_json::Number>().map_or_else(|_| Value::String(text.to_owned()), Value::Number),
    }
}

/// Returns true if a value that is about to be copied looks like a credential, by itself or by the name of its field.
pub(crate) fn is_credential(name: &str, value: &str) -> bool {
    looks_secret(name, value) || looks_secret_header("", value)
}

/// Returns the name of a field or option as it may be shown: a name that is none, or is a credential, is replaced.
pub(crate) fn shown_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-/:[]()*".contains(c);
    // The members that a service adds to a definition begin with `@`. Elsewhere, it may separate a password from a host.
    let plain = name.strip_prefix('@').unwrap_or(name);
    let is_shown = !plain.is_empty()
        && name.len() <= MAX_NAME
        && plain.chars().all(is_plain)
        && !is_credential("", plain)
        && !is_credential("", plain.trim_start_matches('-'));
    if is_shown { name.to_owned() } else { "(a name that is not shown)".to_owned() }
}

/// Returns a text as a name of Assay: lower-case letters, digits and single inner hyphens, at most `max` characters.
pub(crate) fn slug(text: &str, max: usize) -> String {
    let mut name = String::new();
    for character in text.chars().map(|character| character.to_ascii_lowercase()) {
        if character.is_ascii_alphanumeric() {
            name.push(character);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let cut: String = name.chars().take(max).collect();
    cut.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_shown_only_if_they_are_no_credentials() {
        for shown in ["spec.numConcurrency", "@created"] {
            assert_eq!(shown_name(shown), shown);
        }
        for hidden in [
            "user:pass@host",
            "@",
            "@hf_abcdefghijklmnopqrstuvwx",
            "hf_abcdefghijklmnopqrstuvwx",
            "--sk-abcdefghijklmnopqrstuvwx",
            "a b",
            "",
            &"x".repeat(101),
        ] {
            assert_eq!(shown_name(hidden), "(a name that is not shown)", "{hidden}");
        }
        assert!(is_credential("password", "x") && is_credential("", "Bearer x") && !is_credential("model", "llama"));
    }

    #[test]
    fn names_are_lower_case_and_cut() {
        assert_eq!(slug("N(480,240)/(300,150)", 40), "n-480-240-300-150");
        assert_eq!(slug("Llama_3.1--8B-", 7), "llama-3");
        assert_eq!(slug("???", 7), "");
    }

    #[test]
    fn quoted_numbers_are_numbers() {
        use serde_json::json;
        assert_eq!(
            (whole(&json!("30")), whole(&json!(30)), whole(&json!("-1")), whole(&json!(1.5))),
            (Some(30), Some(30), None, None)
        );
        assert_eq!((typed("0.0"), typed("true"), typed("x")), (json!(0.0), json!(true), json!("x")));
        assert_eq!((text(&json!(1)), text(&json!([]))), (Some("1".to_owned()), None));
    }

    #[test]
    fn a_number_has_one_label_however_it_is_written() {
        use serde_json::json;
        let of = |value| label(&value).unwrap_or_default();
        assert_eq!([of(json!(5)), of(json!(5.0)), of(json!(-5.0)), of(json!(-0.0))], ["5", "5", "-5", "0"]);
        assert_eq!([of(json!(0.5)), of(json!(1e300)), of(json!("5.0")), of(json!(true))], ["0.5", "1e+300", "5.0", "true"]);
        assert_eq!(label(&json!(null)), None);
    }
}
