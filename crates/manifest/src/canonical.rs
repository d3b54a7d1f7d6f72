//! Canonical JSON: RFC 8785 (the JSON Canonicalization Scheme), with one additional refusal.
//!
//! RFC 8785 numbers are IEEE doubles, so an integer beyond 2^53 - 1 would silently lose digits. It is refused here; 64-bit counts
//! travel as decimal strings ([`crate::Count`]), instants and seeds as strings too.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;

/// The largest integer up to which a double holds all integers exactly: 2^53 - 1.
pub const MAX_EXACT_INTEGER: u64 = (1 << 53) - 1;

/// The error of writing a value in canonical form.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// The integer would lose digits as a double.
    #[error("the integer {0} is beyond 2^53-1 and would lose digits; write it as a decimal string")]
    InexactInteger(String),
    /// NaN and the infinities have no JSON form.
    #[error("a number is not finite")]
    NotFinite,
    /// The type does not serialise to JSON at all.
    #[error("the value does not serialise to JSON")]
    Serialize(#[source] serde_json::Error),
}

/// Returns the canonical bytes of a serialisable value.
pub fn canonical_json(value: &impl Serialize) -> Result<Vec<u8>, CanonicalError> {
    canonical_value(&serde_json::to_value(value).map_err(CanonicalError::Serialize)?)
}

/// Returns the canonical bytes of a JSON value.
pub fn canonical_value(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    let mut out = Vec::new();
    write_value(value, &mut out)?;
    Ok(out)
}

fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out)?,
        Value::String(text) => write_string(text, out)?,
        Value::Array(items) => write_list(items.iter(), *b"[]", out, write_value)?,
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            // RFC 8785 section 3.2.3 sorts by UTF-16 code units, which differs from byte order above U+FFFF.
            members.sort_by(|(a, _), (b, _)| compare_keys(a, b));
            write_list(members.into_iter(), *b"{}", out, |(key, value), out| {
                write_string(key, out)?;
                out.push(b':');
                write_value(value, out)
            })?;
        }
    }
    Ok(())
}

fn write_list<T>(
    items: impl Iterator<Item = T>,
    brackets: [u8; 2],
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>) -> Result<(), CanonicalError>,
) -> Result<(), CanonicalError> {
    out.push(brackets[0]);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(item, out)?;
    }
    out.push(brackets[1]);
    Ok(())
}

fn write_number(number: &serde_json::Number, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    if magnitude.is_some_and(|magnitude| magnitude > MAX_EXACT_INTEGER) {
        return Err(CanonicalError::InexactInteger(number.to_string()));
    }
    let double = number.as_f64().filter(|double| double.is_finite()).ok_or(CanonicalError::NotFinite)?;
    // ECMAScript's number form, which RFC 8785 section 3.2.2.3 prescribes. It writes -0 as 0.
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(double).as_bytes());
    Ok(())
}

/// Compares keys by UTF-16 code units. Their order is that of the bytes if both are ASCII.
fn compare_keys(a: &str, b: &str) -> Ordering {
    if a.is_ascii() && b.is_ascii() { a.cmp(b) } else { a.encode_utf16().cmp(b.encode_utf16()) }
}

fn write_string(text: &str, out: &mut Vec<u8>) -> Result<(), CanonicalError> {
    // serde_json escapes exactly what RFC 8785 section 3.2.2.2 requires: the two-letter forms if they exist, \u00xx in lower case
    // for the other control characters, and nothing else.
    serde_json::to_writer(out, text).map_err(CanonicalError::Serialize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        let value: Value = serde_json::from_str(text).expect("valid JSON");
        String::from_utf8(canonical_value(&value).expect("canonical")).expect("UTF-8")
    }

    #[test]
    fn the_examples_of_rfc_8785_hold() {
        // Section 3.2.2 and 3.2.3.
        assert_eq!(
            canonical(
                r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
                "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#
            ),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
        assert_eq!(
            canonical(r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}"
        );
    }

    #[test]
    fn integers_that_a_double_cannot_hold_are_refused() {
        assert_eq!(canonical("9007199254740991"), "9007199254740991");
        for big in ["9007199254740992", "-9007199254740992", "18446744073709551615"] {
            let value: Value = serde_json::from_str(big).expect("valid JSON");
            assert!(matches!(canonical_value(&value), Err(CanonicalError::InexactInteger(_))), "{big}");
        }
    }

    #[test]
    fn an_integral_float_and_the_integer_have_one_form() {
        assert_eq!(canonical("[1.0,-0.0,100e0]"), "[1,0,100]");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-(1i64 << 53) + 1..(1i64 << 53)).prop_map(Value::from),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_json_is_a_fixed_point(value in any_json()) {
            // A float of 2^53 or more is an integer in ECMAScript's form, and is refused when it comes back.
            if let Ok(once) = canonical_value(&value) {
                let again: Value = serde_json::from_slice(&once).expect("canonical JSON is JSON");
                if let Ok(twice) = canonical_value(&again) {
                    prop_assert_eq!(twice, once);
                }
            }
        }
    }
}
