//! Canonical JSON: RFC 8785 (the JSON Canonicalization Scheme), with one additional refusal.
//!
//! RFC 8785 numbers are IEEE doubles, so an integer beyond 2^53 - 1 would silently lose digits. It is refused here; 64-bit counts
//! travel as decimal strings ([`crate::Count`]), instants and seeds as strings too.

use std::cmp::Ordering;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

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
///
/// They are written in one pass: every manifest that is read is also written, to see that its bytes are the canonical ones.
pub fn canonical_json(value: &impl Serialize) -> Result<Vec<u8>, CanonicalError> {
    let mut output = Output::default();
    let written = value.serialize(&mut Serializer::with_formatter(io::sink(), CanonicalFormatter(&mut output)));
    match (written, output.refusal) {
        (Ok(()), _) => Ok(output.bytes),
        (Err(_), Some(refusal)) => Err(refusal),
        (Err(error), None) => Err(CanonicalError::Serialize(error)),
    }
}

/// Returns the canonical bytes of a JSON value.
pub fn canonical_value(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    canonical_json(value)
}

/// The bytes so far, and the objects that are not complete yet.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// The members of all open objects, those of the innermost last.
    members: Vec<Member>,
    /// For each open object, the number of members of those around it.
    objects: Vec<usize>,
    /// Room for the members of an object in their order.
    sorted: Vec<u8>,
    /// True between the start and the end of a key, where numbers are text.
    in_key: bool,
    refusal: Option<CanonicalError>,
}

/// The places of a member in the bytes.
#[derive(Clone, Copy)]
struct Member {
    /// The quote with which its key starts.
    start: usize,
    /// The colon after its key.
    colon: usize,
    /// The end of its value.
    end: usize,
}

impl Output {
    fn refuse(&mut self, refusal: CanonicalError) -> io::Result<()> {
        self.refusal = Some(refusal);
        Err(io::Error::other("refused"))
    }

    /// Writes bytes; it never fails, and has the form of what calls it.
    #[expect(clippy::unnecessary_wraps, reason = "the methods of a formatter return results")]
    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn integer(&mut self, text: impl ToString, magnitude: u128) -> io::Result<()> {
        if self.in_key || magnitude <= u128::from(MAX_EXACT_INTEGER) {
            return self.push(text.to_string().as_bytes());
        }
        self.refuse(CanonicalError::InexactInteger(text.to_string()))
    }

    /// Writes a double in ECMAScript's form, which RFC 8785 section 3.2.2.3 prescribes. It writes -0 as 0.
    fn double(&mut self, double: f64) -> io::Result<()> {
        if !double.is_finite() {
            return self.refuse(CanonicalError::NotFinite);
        }
        self.push(ryu_js::Buffer::new().format_finite(double).as_bytes())
    }

    fn key(&self, member: Member) -> &[u8] {
        self.bytes.get(member.start..member.colon).unwrap_or_default()
    }

    /// Puts the members of the innermost object in the order of their keys. Of members of one key, the last counts.
    fn end_object(&mut self) {
        let first = self.objects.pop().unwrap_or_default();
        let mut members = self.members.split_off(first);
        // Most objects are written in their order by the types that hold them.
        if !members.is_sorted_by(|a, b| compare_keys(self.key(*a), self.key(*b)) == Ordering::Less) {
            let start = members.first().map_or(self.bytes.len(), |member| member.start);
            members.sort_by(|a, b| compare_keys(self.key(*a), self.key(*b)));
            self.sorted.clear();
            for (index, member) in members.iter().enumerate() {
                if members.get(index + 1).is_some_and(|next| self.key(*next) == self.key(*member)) {
                    continue;
                }
                if !self.sorted.is_empty() {
                    self.sorted.push(b',');
                }
                self.sorted.extend_from_slice(self.bytes.get(member.start..member.end).unwrap_or_default());
            }
            self.bytes.truncate(start);
            self.bytes.extend_from_slice(&self.sorted);
        }
        self.bytes.push(b'}');
    }
}

/// Compares keys as they are written, with their quotes, by the UTF-16 code units of their text (RFC 8785 section 3.2.3). For plain
/// ASCII, that is the order of the bytes; it differs for text above U+FFFF.
fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    let is_plain = |key: &[u8]| key.iter().all(|byte| byte.is_ascii() && *byte != b'\\');
    if is_plain(a) && is_plain(b) {
        // Without the quotes at the end, which sort behind other signs.
        let text = |key| <[u8]>::split_last(key).map_or(key, |(_, text)| text);
        return text(a).cmp(text(b));
    }
    let units =
        |key| serde_json::from_slice::<String>(key).map(|text| text.encode_utf16().collect::<Vec<_>>()).unwrap_or_default();
    units(a).cmp(&units(b))
}

/// Writes to the output alone: the bytes of an object have to be there when it ends. The writer of the serializer stays empty.
struct CanonicalFormatter<'o>(&'o mut Output);

/// Defines the methods that write an integer.
macro_rules! integers {
    ($($method:ident: $type:ty = |$value:ident| $magnitude:expr),+ $(,)?) => {
        $(fn $method<W: ?Sized + io::Write>(&mut self, _: &mut W, $value: $type) -> io::Result<()> {
            self.0.integer($value, $magnitude)
        })+
    };
}

impl Formatter for CanonicalFormatter<'_> {
    integers! {
        write_i8: i8 = |value| value.unsigned_abs().into(),
        write_i16: i16 = |value| value.unsigned_abs().into(),
        write_i32: i32 = |value| value.unsigned_abs().into(),
        write_i64: i64 = |value| value.unsigned_abs().into(),
        write_i128: i128 = |value| value.unsigned_abs(),
        write_u8: u8 = |value| value.into(),
        write_u16: u16 = |value| value.into(),
        write_u32: u32 = |value| value.into(),
        write_u64: u64 = |value| value.into(),
        write_u128: u128 = |value| value,
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, _: &mut W, value: f32) -> io::Result<()> {
        self.0.double(value.into())
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, _: &mut W, value: f64) -> io::Result<()> {
        self.0.double(value)
    }

    fn write_number_str<W: ?Sized + io::Write>(&mut self, _: &mut W, value: &str) -> io::Result<()> {
        let double = value.parse().unwrap_or(f64::NAN);
        self.0.double(double)
    }

    fn write_null<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.push(b"null")
    }

    fn write_bool<W: ?Sized + io::Write>(&mut self, _: &mut W, value: bool) -> io::Result<()> {
        self.0.push(if value { b"true" } else { b"false" })
    }

    // serde_json escapes exactly what RFC 8785 section 3.2.2.2 requires: the two-letter forms if they exist, \u00xx in lower case for the
    // other control characters, and nothing else.
    fn begin_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.push(b"\"")
    }

    fn end_string<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.push(b"\"")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.0.push(fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(&mut self, _: &mut W, escape: CharEscape) -> io::Result<()> {
        CompactFormatter.write_char_escape(&mut self.0.bytes, escape)
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, _: &mut W, fragment: &str) -> io::Result<()> {
        self.0.push(fragment.as_bytes())
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.push(b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.push(b"]")
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        self.0.push(if first { b"" } else { b"," })
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.objects.push(self.0.members.len());
        self.0.push(b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.end_object();
        Ok(())
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W, first: bool) -> io::Result<()> {
        self.0.push(if first { b"" } else { b"," })?;
        let start = self.0.bytes.len();
        self.0.members.push(Member { start, colon: start, end: start });
        self.0.in_key = true;
        Ok(())
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.0.in_key = false;
        Ok(())
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        let colon = self.0.bytes.len();
        if let Some(member) = self.0.members.last_mut() {
            member.colon = colon;
        }
        self.0.push(b":")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        let end = self.0.bytes.len();
        if let Some(member) = self.0.members.last_mut() {
            member.end = end;
        }
        Ok(())
    }
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
    fn members_are_sorted_at_every_depth_whatever_order_they_are_written_in() {
        #[derive(Serialize)]
        struct Outer {
            b: Vec<Inner>,
            ab: u64,
            a: f32,
            #[serde(flatten)]
            more: std::collections::BTreeMap<String, Option<bool>>,
        }
        #[derive(Serialize)]
        struct Inner {
            z: std::collections::BTreeMap<u64, i8>,
            y: (),
        }
        let inner = |key| Inner { z: [(10, -1), (key, 2)].into(), y: () };
        let more = [("a!".to_owned(), Some(true)), ("b".to_owned(), None)].into();
        let outer = Outer { b: vec![inner(9), inner(u64::MAX)], ab: 1, a: 0.5, more };
        // The member `b` is there twice; the last one counts, as in the value.
        let expected = r#"{"a":0.5,"a!":true,"ab":1,"b":null}"#;
        assert_eq!(String::from_utf8(canonical_json(&outer).expect("canonical")).expect("UTF-8"), expected);
        assert_eq!(canonical_value(&serde_json::to_value(&outer).expect("a value")).expect("canonical"), expected.as_bytes());
        let inner = String::from_utf8(canonical_json(&outer.b).expect("canonical")).expect("UTF-8");
        assert_eq!(inner, r#"[{"y":null,"z":{"10":-1,"9":2}},{"y":null,"z":{"10":-1,"18446744073709551615":2}}]"#);
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
