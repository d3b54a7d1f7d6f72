//! A definition that its table has checked: only known fields, values of the right kind in their normal form, defaults filled in.
//!
//! Readers take their fields from here by name and cannot meet a wrong shape; [`Read`] returns `None` only if a reader requests
//! something that its table does not promise.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::Digest;
use serde_json::Value as Json;

use crate::format::{parse_duration, parse_instant};
use crate::problem::Span;

/// A checked value and its place.
#[derive(Clone, Debug)]
pub(crate) struct CheckedValue {
    pub(crate) value: Value,
    /// The value's place; for a default, the place of its parent.
    pub(crate) span: Span,
    /// The span to point at if the value as a whole is wrong: its key, or the value itself in a list.
    pub(crate) anchor: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<CheckedValue>),
    Map(Vec<(String, CheckedValue)>),
    /// A value that is present but invalid, and has been reported: later checks do not treat it as absent.
    Invalid,
}

/// Compares values without their places.
impl PartialEq for CheckedValue {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl CheckedValue {
    /// Returns the field of that name, if it is present or has a default.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns the field at the end of a path of names.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.member(name))
    }

    pub(crate) fn members(&self) -> &[(String, Self)] {
        if let Value::Map(members) = &self.value { members } else { &[] }
    }

    pub(crate) fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// Returns the text of the field of that name.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.member(name).and_then(Self::text)
    }

    /// Reads the field of that name as a `T`.
    pub(crate) fn get<T: Read>(&self, name: &str) -> Option<T> {
        self.member(name).map_or_else(T::absent_value, T::read)
    }

    /// Returns the value as JSON, with its defaults.
    pub(crate) fn plain_json(&self) -> Json {
        match &self.value {
            Value::Map(members) => members.iter().map(|(key, value)| (key.clone(), value.plain_json())).collect(),
            Value::List(items) => items.iter().map(Self::plain_json).collect(),
            Value::Invalid => Json::Null,
            Value::Bool(value) => Json::from(*value),
            Value::Integer(value) => Json::from(*value),
            Value::Number(value) => Json::from(*value),
            Value::Text(value) => Json::from(value.as_str()),
        }
    }

    /// Returns the place of every value by its path, such as `spec.targets[0].url`.
    pub(crate) fn places(&self) -> BTreeMap<String, Span> {
        let mut places = BTreeMap::new();
        self.collect_places(String::new(), &mut places);
        places
    }

    fn collect_places(&self, path: String, places: &mut BTreeMap<String, Span>) {
        for (key, value) in self.members() {
            value.collect_places(if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, places);
        }
        for (index, value) in self.items().iter().enumerate() {
            value.collect_places(format!("{path}[{index}]"), places);
        }
        places.insert(path, if matches!(self.value, Value::Map(_) | Value::List(_)) { self.anchor } else { self.span });
    }
}

/// A type that can be read from a checked value. `None` means that the table does not promise what the type needs.
pub(crate) trait Read: Sized {
    fn read(value: &CheckedValue) -> Option<Self>;

    /// Returns the value of an absent field; `None` for types that have none.
    fn absent_value() -> Option<Self> {
        None
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: &CheckedValue) -> Option<Self> {
        T::read(value).map(Some)
    }

    fn absent_value() -> Option<Self> {
        Some(None)
    }
}

/// Reads a list. A list that does not belong to this choice of the object is empty.
impl<T: Read> Read for Vec<T> {
    fn read(value: &CheckedValue) -> Option<Self> {
        value.items().iter().map(T::read).collect()
    }

    fn absent_value() -> Option<Self> {
        Some(Self::new())
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: &CheckedValue) -> Option<Self> {
        value.members().iter().map(|(key, value)| Some((key.clone(), T::read(value)?))).collect()
    }

    fn absent_value() -> Option<Self> {
        Some(Self::new())
    }
}

impl Read for bool {
    fn read(value: &CheckedValue) -> Option<Self> {
        if let Value::Bool(value) = value.value { Some(value) } else { None }
    }
}

impl Read for u64 {
    fn read(value: &CheckedValue) -> Option<Self> {
        if let Value::Integer(value) = value.value { value.try_into().ok() } else { None }
    }
}

impl Read for u32 {
    fn read(value: &CheckedValue) -> Option<Self> {
        u64::read(value)?.try_into().ok()
    }
}

impl Read for f64 {
    fn read(value: &CheckedValue) -> Option<Self> {
        if let Value::Number(value) = value.value { Some(value) } else { None }
    }
}

impl Read for String {
    fn read(value: &CheckedValue) -> Option<Self> {
        value.text().map(str::to_owned)
    }
}

/// Reads the hexadecimal digits of a digest, which its format has checked.
impl Read for Digest {
    fn read(value: &CheckedValue) -> Option<Self> {
        Digest::from_hex(value.text()?).ok()
    }
}

impl Read for Duration {
    fn read(value: &CheckedValue) -> Option<Self> {
        parse_duration(value.text()?).ok()
    }
}

impl Read for assay_manifest::Instant {
    fn read(value: &CheckedValue) -> Option<Self> {
        parse_instant(value.text()?).ok()
    }
}

macro_rules! read_from_text {
    ($($type:ty),+ $(,)?) => {
        $(impl Read for $type {
            fn read(value: &CheckedValue) -> Option<Self> {
                value.text()?.parse().ok()
            }
        })+
    };
}
pub(crate) use read_from_text;

read_from_text!(
    assay_manifest::BetterDirection,
    assay_manifest::CaseId,
    assay_manifest::ConnectionPolicy,
    assay_manifest::InferenceApi,
    assay_manifest::Intent,
    assay_manifest::Isolation,
    assay_manifest::PairUnit,
    assay_manifest::Name,
    assay_manifest::Placement,
    assay_manifest::PointId,
    assay_manifest::Role,
    assay_manifest::RunId,
    assay_manifest::TargetKind,
    assay_manifest::WorkloadType,
    crate::lengths::Scenario,
);
