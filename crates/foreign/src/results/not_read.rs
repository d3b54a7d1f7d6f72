//! Fields that were not read, with the reason and their number.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Count, NotRead};
use serde_json::Value;

use super::format::{Part, Place, Scope, ScopeKind, Shape, Unit};
use super::path::{join, without_conditions};
use super::statistic::statistic;
use crate::value::shown_name;

/// The most paths that are counted by themselves. Paths beyond it are counted together.
const MAX_PATHS: usize = 2_000;
/// The path of what is counted together.
const MORE: &str = "(more fields)";

const UNKNOWN: &str = "no table of Assay has this field";
const EMPTY: &str = "the tool states no value";

/// The number of values of each path of the documents of a part.
#[derive(Debug, Default)]
pub(crate) struct Leaves(BTreeMap<(String, bool), u64>);

impl Leaves {
    /// Counts the values of a document.
    pub(crate) fn add(&mut self, document: &Value) {
        self.visit(&mut String::new(), document);
    }

    fn visit(&mut self, path: &mut String, value: &Value) {
        let length = path.len();
        match value {
            Value::Array(items) => {
                path.push_str("[]");
                for item in items {
                    self.visit(path, item);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let parent = path.len();
                    if !path.is_empty() {
                        path.push('/');
                    }
                    path.push_str(name);
                    self.visit(path, member);
                    path.truncate(parent);
                }
            }
            _ => self.count(path, value.is_null()),
        }
        path.truncate(length);
    }

    fn count(&mut self, path: &str, is_null: bool) {
        if let Some(count) = self.0.get_mut(&(path.to_owned(), is_null)) {
            *count += 1;
            return;
        }
        let path = if self.0.len() < MAX_PATHS { path } else { MORE };
        *self.0.entry((path.to_owned(), is_null)).or_default() += 1;
    }

    /// Returns the fields of a part that were not read.
    pub(crate) fn not_read(&self, part: &Part) -> Vec<NotRead> {
        let mut found: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        let known = Known::of(part);
        for ((path, is_null), count) in &self.0 {
            if let Some((field, why)) = known.judge(part, path, *is_null) {
                *found.entry((shown(&field), why)).or_default() += count;
            }
        }
        found.into_iter().map(|((field, why), count)| NotRead { field, why: why.to_owned(), count: Count(count) }).collect()
    }
}

/// The paths that the table of a part reads.
struct Known {
    exact: BTreeSet<String>,
    /// The paths of objects of statistics.
    statistics: BTreeSet<String>,
    /// Beginning and end of paths with a statistic between.
    named: Vec<(String, String)>,
    /// The paths of objects whose values are labels, and the names of members that are none.
    objects: Vec<(String, &'static [&'static str])>,
    /// The last names of paths of labels and units, which may lie in what surrounds a scope.
    near: BTreeSet<String>,
}

impl Known {
    fn of(part: &Part) -> Self {
        let mut known = Self {
            exact: BTreeSet::new(),
            statistics: BTreeSet::new(),
            named: Vec::new(),
            objects: Vec::new(),
            near: BTreeSet::new(),
        };
        known.exact.extend(part.version.places().into_iter().flatten().map(str::to_owned));
        part.scopes.iter().for_each(|scope| known.add(scope));
        known
    }

    fn add(&mut self, scope: &Scope) {
        for label in scope.labels {
            match label.place {
                Place::At(path) | Place::Whole(path) => {
                    self.near.insert(without_conditions(path));
                }
                Place::Members { at, but } => {
                    self.objects.push((join(&without_conditions(scope.at), &without_conditions(at)), but));
                }
                Place::Folder => {}
            }
        }
        for field in scope.fields {
            let path = join(&without_conditions(scope.at), field.field);
            if let Unit::StatedAt(place, _) = field.unit {
                self.near.insert(place.to_owned());
            }
            match (path.split_once("{}"), field.shape) {
                (Some((before, after)), _) => self.named.push((before.to_owned(), after.to_owned())),
                (None, Shape::Statistics) => {
                    self.statistics.insert(join(&path, "percentiles"));
                    self.statistics.insert(path);
                }
                (None, Shape::Number(_)) => {
                    if scope.kind == ScopeKind::Samples {
                        self.exact.insert(join(&path, "[]"));
                    }
                    self.exact.insert(path);
                }
            }
        }
    }

    /// Returns the field and the reason for which a value was not read; `None` if it was read.
    fn judge(&self, part: &Part, path: &str, is_null: bool) -> Option<(String, &'static str)> {
        if self.reads(path) {
            return is_null.then(|| (object_of(path), EMPTY));
        }
        if let Some((prefix, why)) = part.not_read.iter().find(|(prefix, _)| is_below(path, prefix)) {
            return Some(((*prefix).to_owned(), why));
        }
        Some((object_of(path), if is_null { EMPTY } else { UNKNOWN }))
    }

    fn reads(&self, path: &str) -> bool {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_between = |(before, after): &(String, String)| {
            let inner = path.strip_prefix(before.as_str()).and_then(|rest| rest.strip_suffix(after.as_str()));
            inner.is_some_and(|inner| statistic(inner).is_some())
        };
        let is_near =
            |place: &String| path.strip_suffix(place.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        let is_label =
            |(object, but): &(String, &[&str])| is_below(path, object) && !path.split('/').any(|name| but.contains(&name));
        self.exact.contains(path)
            || self.objects.iter().any(is_label)
            || (self.statistics.contains(parent) && statistic(name).is_some())
            || self.named.iter().any(is_between)
            || self.near.iter().any(is_near)
    }
}

/// Returns true for the path of a value, or of one that is in it.
fn is_below(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
}

/// Returns the path of the object of statistics that a value is of, or else the path itself: one line for a metric is enough.
fn object_of(path: &str) -> String {
    let is_part = |name: &str| statistic(name).is_some() || ["unit", "units", "mode", "variance", "pdf"].contains(&name);
    match path.rsplit_once('/') {
        Some((parent, name)) if is_part(name) => parent.strip_suffix("/percentiles").unwrap_or(parent).to_owned(),
        _ => path.to_owned(),
    }
}

/// Returns a path as it may be shown: without names that are none, or are credentials.
pub(crate) fn shown(path: &str) -> String {
    if path == MORE {
        return path.to_owned();
    }
    path.split('/').map(shown_name).collect::<Vec<_>>().join(".")
}
