//! Query packs: which series of a Prometheus a run is shown, and what they mean. Assay has some, which are files under `packs/`; a
//! pipeline may name further ones of its repository.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use assay_manifest::{JoinLabels, Name, PackQuery, QueryKind, ScopeKind, SeriesFold};

use crate::check::check;
use crate::checked_value::{CheckedValue, Read, read_from_text};
use crate::define::decode_text;
use crate::field::{Choice, Table, Type, Uniqueness, choice, default, optional, required};
use crate::format::{DURATION, LABEL_NAME, NAME, SERIES_NAME, TEXT, UNIT};
use crate::problem::{Problem, Problems, Source};
use crate::yaml::parse;

/// The largest file of a pack, in bytes: a hundred queries with their explanations.
pub const MAX_PACK_BYTES: usize = 256 << 10;

/// The most queries of a pack: each is a request for every attempt.
const MAX_QUERIES: usize = 200;

/// The most labels of a scope, and of a metric's name.
const MAX_LABELS: usize = 8;

/// The packs of Assay: name and text.
const BUILT_IN: [(&str, &str); 12] = [
    ("cadvisor", include_str!("../../../packs/cadvisor.yaml")),
    ("dcgm", include_str!("../../../packs/dcgm.yaml")),
    ("dynamo", include_str!("../../../packs/dynamo.yaml")),
    ("kube-state-metrics", include_str!("../../../packs/kube-state-metrics.yaml")),
    ("kueue", include_str!("../../../packs/kueue.yaml")),
    ("node", include_str!("../../../packs/node.yaml")),
    ("node-problem-detector", include_str!("../../../packs/node-problem-detector.yaml")),
    ("ping", include_str!("../../../packs/ping.yaml")),
    ("sglang", include_str!("../../../packs/sglang.yaml")),
    ("tgi", include_str!("../../../packs/tgi.yaml")),
    ("triton", include_str!("../../../packs/triton.yaml")),
    ("vllm", include_str!("../../../packs/vllm.yaml")),
];

static KINDS: [Choice; 3] = [
    choice("gauge", "A state at the moment of the sample."),
    choice("counter", "A count since some beginning; rows hold its increase per second."),
    choice("share", "A counter whose increase per second is a share of at most 1."),
];
static FOLDS: [Choice; 3] =
    [choice("sum", "Their sum."), choice("max", "The largest of them."), choice("min", "The smallest of them.")];
static SCOPES: [Choice; 6] = [
    choice("node", "A machine."),
    choice("gpu", "A GPU."),
    choice("pod", "A pod."),
    choice("rank", "A process of a distributed program."),
    choice("endpoint", "A server under load."),
    choice("queue", "A queue of a scheduler."),
];
static LABEL_TYPE: Type = Type::Text(&LABEL_NAME);
static SCOPE: Table = Table {
    name: "scope",
    doc: "The observed object of a series.",
    selector: None,
    fields: &[
        required("kind", &Type::Choice(&SCOPES), "The kind of the object."),
        required(
            "id",
            &Type::List { item: &LABEL_TYPE, min: 1, max: MAX_LABELS, unique: Uniqueness::Item },
            "The labels whose values identify it: stable ones, such as a UUID.",
        ),
    ],
    rules: &[],
};
static JOINS: Table = Table {
    name: "joins",
    doc: "The labels whose values are the keys of rows, by which they are joined with other tables.",
    selector: None,
    fields: &[
        optional("gpu_uuid", &LABEL_TYPE, "The label with the vendor's unique id of the GPU."),
        optional("node_name", &LABEL_TYPE, "The label with the name of the node."),
        optional("pod_uid", &LABEL_TYPE, "The label with the UID of the pod."),
    ],
    rules: &[],
};
static QUERY: Table = Table {
    name: "query",
    doc: "A selector of series, and what they mean.",
    selector: None,
    fields: &[
        required("query", &Type::Text(&TEXT), "The selector: a metric's name, and matchers of labels in braces."),
        optional("name", &Type::Text(&SERIES_NAME), "The metric's name in rows, if it is not that of the query."),
        required("kind", &Type::Choice(&KINDS), "The interpretation of the samples."),
        required("unit", &Type::Text(&UNIT), "The unit of the rows; of a counter that of its increase per second."),
        required("scope", &Type::Object(&SCOPE), "The observed object."),
        default(
            "labels",
            &Type::List { item: &LABEL_TYPE, min: 0, max: MAX_LABELS, unique: Uniqueness::Item },
            "[]",
            "The labels that are part of the metric's name in rows.",
        ),
        optional("fold", &Type::Choice(&FOLDS), "The value that is made of several series of one object at one time."),
        optional("per", &LABEL_TYPE, "The label whose number of values the folded value is divided by."),
        optional("joins", &Type::Object(&JOINS), "The labels with the keys of its rows, in place of those of the pack."),
        optional("missing", &Type::Text(&TEXT), "What it means that there is no such series, if it is not that of the pack."),
    ],
    rules: &[],
};
static PACK: Table = Table {
    name: "query pack",
    doc: "Queries of a Prometheus.",
    selector: None,
    fields: &[
        required("pack", &Type::Text(&NAME), "Its name."),
        required("exporter", &Type::Text(&TEXT), "The exporter whose metrics it selects, as messages name it."),
        required("resolution", &Type::Text(&DURATION), "The interval at which the exporter reads its values."),
        required("missing", &Type::Text(&TEXT), "What it means that there is no series of a query."),
        optional("joins", &Type::Object(&JOINS), "The labels with the keys of the rows of its queries."),
        required(
            "queries",
            &Type::List { item: &Type::Object(&QUERY), min: 1, max: MAX_QUERIES, unique: Uniqueness::No },
            "The queries.",
        ),
    ],
    rules: &[],
};

read_from_text!(QueryKind, SeriesFold, ScopeKind);

/// A query pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// Its name.
    pub name: Name,
    /// The exporter whose metrics it selects, for people.
    pub exporter: String,
    /// The interval at which the exporter reads its values.
    pub resolution: Duration,
    /// Its queries.
    pub queries: Vec<PackQuery>,
}

impl Pack {
    /// Parses the file of a pack; `file` is its name in problems.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        if bytes.len() > MAX_PACK_BYTES {
            let message = format!("the file has {} bytes; a query pack has at most {MAX_PACK_BYTES}", bytes.len());
            return Err(vec![Problem::for_file(file, message)]);
        }
        let source = Source::new(file, decode_text(file, bytes)?);
        let mut problems = Problems::new(&source);
        let checked = parse(&mut problems).and_then(|node| check(&PACK, &node, &mut problems));
        if let Some(checked) = &checked {
            check_queries(checked, &mut problems);
        }
        if !problems.is_empty() {
            return Err(problems.finish());
        }
        let pack = checked.and_then(|checked| Self::read(&checked));
        pack.ok_or_else(|| vec![Problem::for_file(file, "this query pack is valid and was not understood")])
    }

    /// Returns the text of a pack of Assay.
    pub fn built_in_text(name: &str) -> Option<&'static str> {
        BUILT_IN.into_iter().find(|(known, _)| *known == name).map(|(_, text)| text)
    }

    /// Returns the names of the packs of Assay.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(name, _)| name)
    }

    /// Returns a pack of Assay.
    pub fn built_in(name: &str) -> Option<&'static Self> {
        static PACKS: LazyLock<Vec<Pack>> = LazyLock::new(|| {
            // A test parses every file, so none is left out.
            let parsed = |(name, text): (&str, &str)| Pack::parse(&format!("packs/{name}.yaml"), text.as_bytes()).ok();
            BUILT_IN.into_iter().filter_map(parsed).collect()
        });
        PACKS.iter().find(|pack| pack.name.as_str() == name)
    }

    fn read(checked: &CheckedValue) -> Option<Self> {
        let missing: String = checked.get("missing")?;
        let joins = checked.member("joins").map_or(Some(JoinLabels::default()), read_joins)?;
        let query = |value: &CheckedValue| {
            let selector = Selector::parse(value.text_of("query")?).ok()?;
            let scope = value.member("scope")?;
            Some(PackQuery {
                name: value.get::<Option<String>>("name")?.unwrap_or(selector.metric),
                query: selector.normal,
                kind: value.get("kind")?,
                unit: value.get("unit")?,
                fold: value.get("fold")?,
                per: value.get("per")?,
                scope_kind: scope.get("kind")?,
                scope_labels: scope.get("id")?,
                labels: value.get("labels")?,
                joins: value.member("joins").map_or_else(|| Some(joins.clone()), read_joins)?,
                missing: value.get::<Option<String>>("missing")?.unwrap_or_else(|| missing.clone()),
            })
        };
        Some(Self {
            name: checked.get("pack")?,
            exporter: checked.get("exporter")?,
            resolution: checked.get("resolution")?,
            queries: checked.member("queries")?.items().iter().map(query).collect::<Option<_>>()?,
        })
    }
}

fn read_joins(joins: &CheckedValue) -> Option<JoinLabels> {
    Some(JoinLabels { gpu_uuid: joins.get("gpu_uuid")?, node_name: joins.get("node_name")?, pod_uid: joins.get("pod_uid")? })
}

/// Checks selectors, and that each row of two queries could be told apart.
fn check_queries(checked: &CheckedValue, problems: &mut Problems<'_>) {
    let mut names = BTreeSet::new();
    for query in checked.member("queries").map_or(&[][..], CheckedValue::items) {
        let Some((value, text)) = query.member("query").and_then(|value| Some((value, value.text()?))) else { continue };
        match Selector::parse(text) {
            Err(why) => {
                let hint = "write a metric's name, and matchers of labels in braces: functions, ranges and arithmetic repeat the last \
                            sample of a series, which hides how often it was scraped";
                problems.add_hinted(value.span, format!("the query is no selector of series: {why}"), hint);
            }
            Ok(selector) => {
                let name = query.text_of("name").unwrap_or(&selector.metric).to_owned();
                if !names.insert(name.clone()) {
                    let message = format!("`{name}` is the name of two queries");
                    problems.add_hinted(value.span, message, "give one of them another `name`");
                }
            }
        }
        if let Some(per) = query.member("per").filter(|_| query.member("fold").is_none()) {
            problems.add_hinted(per.anchor, "`per` divides the value of several series", "add `fold: sum`");
        }
    }
}

/// A selector of series.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selector {
    metric: String,
    /// The selector without spaces.
    normal: String,
}

impl Selector {
    fn parse(text: &str) -> Result<Self, String> {
        let (metric, rest) = split_name(text.trim(), true);
        if metric.is_empty() {
            return Err("it begins with no name of a metric".to_owned());
        }
        let rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(Self { metric: metric.to_owned(), normal: metric.to_owned() });
        }
        let inside = rest.strip_prefix('{').ok_or_else(|| format!("{:?} follows the metric", shortened(rest)))?;
        let matchers = parse_matchers(inside)?;
        let normal = if matchers.is_empty() { metric.to_owned() } else { format!("{metric}{{{}}}", matchers.join(",")) };
        Ok(Self { metric: metric.to_owned(), normal })
    }
}

/// Parses the matchers up to the closing brace, which has to be the end.
fn parse_matchers(mut rest: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            let after = after.trim();
            return if after.is_empty() { Ok(found) } else { Err(format!("{:?} follows the braces", shortened(after))) };
        }
        let (label, after) = split_name(rest, false);
        if label.is_empty() || label == "__name__" {
            return Err(format!("{:?} is no matcher of a label", shortened(rest)));
        }
        let after = after.trim_start();
        let operator = ["=~", "!~", "!=", "="].into_iter().find(|operator| after.starts_with(operator));
        let operator = operator.ok_or_else(|| format!("no `=`, `!=`, `=~` or `!~` follows the label `{label}`"))?;
        let value = after.get(operator.len()..).unwrap_or_default().trim_start();
        let inside = value.strip_prefix('"').ok_or_else(|| format!("the value of the label `{label}` has no double quotes"))?;
        let end = end_of_quoted(inside).ok_or_else(|| format!("the value of the label `{label}` does not end"))?;
        found.push(format!("{label}{operator}\"{}\"", inside.get(..end).unwrap_or_default()));
        rest = inside.get(end + 1..).unwrap_or_default().trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err("matchers are not separated by commas, or the braces are not closed".to_owned()),
        }
    }
}

/// Splits a text behind the name at its beginning. Names of metrics may have colons.
fn split_name(text: &str, is_metric: bool) -> (&str, &str) {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || (is_metric && c == ':');
    let (name, rest) = text.split_at(text.find(|c| !is_letter(c)).unwrap_or(text.len()));
    if name.starts_with(|c: char| c.is_ascii_digit()) { ("", text) } else { (name, rest) }
}

/// Returns the place of the closing quote; `None` if there is none on the line.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\n' => return None,
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    const PACK_TEXT: &str = "pack: own\nexporter: my-exporter\nresolution: 10s\nmissing: it does not run\nqueries:\n";

    fn problems(queries: &str) -> String {
        let found = Pack::parse("packs/own.yaml", format!("{PACK_TEXT}{queries}").as_bytes()).expect_err("refused");
        found.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_pack_of_this_version_is_read_and_named_as_its_file() {
        for (name, text) in BUILT_IN {
            let file = format!("packs/{name}.yaml");
            let pack = Pack::parse(&file, text.as_bytes()).unwrap_or_else(|problems| panic!("{}", crate::render(&problems)));
            assert_eq!(pack.name.as_str(), name);
            assert_eq!(Pack::built_in(name), Some(&pack));
        }
        let mut names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert!(Pack::built_in_names().eq(names), "in the order of their names");
    }

    #[test]
    fn a_query_is_read_with_its_scope() {
        let text = format!(
            "{PACK_TEXT}  - {{query: 'a:b{{ x = \"1\" , y!~\"2|3\", }}', kind: counter, unit: bytes/s, scope: {{kind: gpu, id: [UUID]}}, \
             labels: [gpu]}}\n  - {{query: up, name: alive, kind: gauge, unit: up, fold: min, scope: {{kind: node, id: [node]}}, missing: off}}\n"
        );
        let pack = Pack::parse("packs/own.yaml", text.as_bytes()).expect("a pack");
        let [first, second] = pack.queries.as_slice() else { panic!("{pack:?}") };
        assert_eq!((first.name.as_str(), first.query.as_str()), ("a:b", r#"a:b{x="1",y!~"2|3"}"#));
        assert_eq!(
            (first.kind, first.scope_kind, first.missing.as_str()),
            (QueryKind::Counter, ScopeKind::Gpu, "it does not run")
        );
        assert_eq!((second.name.as_str(), second.fold, second.missing.as_str()), ("alive", Some(SeriesFold::Min), "off"));
        assert_eq!(pack.resolution, Duration::from_secs(10));
    }

    #[test]
    fn a_query_has_the_keys_of_its_pack_or_its_own() {
        let text = format!(
            "{}joins: {{gpu_uuid: UUID, node_name: Hostname}}\nqueries:\n  - {{query: a, kind: gauge, unit: s, scope: {{kind: gpu, id: [UUID]}}}}\n  \
             - {{query: b, kind: gauge, unit: s, scope: {{kind: gpu, id: [UUID]}}, joins: {{pod_uid: uid}}}}\n",
            PACK_TEXT.trim_end_matches("queries:\n")
        );
        let pack =
            Pack::parse("packs/own.yaml", text.as_bytes()).unwrap_or_else(|problems| panic!("{}", crate::render(&problems)));
        let label = |name: &str| Some(name.to_owned());
        let joins: Vec<JoinLabels> = pack.queries.into_iter().map(|query| query.joins).collect();
        let of_pack = JoinLabels { gpu_uuid: label("UUID"), node_name: label("Hostname"), pod_uid: None };
        assert_eq!(joins, [of_pack, JoinLabels { pod_uid: label("uid"), ..JoinLabels::default() }]);
        let wrong = "  - {query: a, kind: gauge, unit: s, scope: {kind: gpu, id: [UUID]}, joins: {job_uid: job}}\n";
        assert_snapshot!(problems(wrong), @"`queries[0].joins` has no field `job_uid`");
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        let query = |query: &str| {
            problems(&format!("  - {{query: '{query}', kind: gauge, unit: s, scope: {{kind: node, id: [node]}}}}\n"))
        };
        assert_snapshot!(query("rate(up[5m])"), @r#"the query is no selector of series: "(up[5m])" follows the metric"#);
        assert_snapshot!(query("up[5m]"), @r#"the query is no selector of series: "[5m]" follows the metric"#);
        assert_snapshot!(query("up{a=\"1\"} or on() vector(1)"), @r#"the query is no selector of series: "or on() vector(1)" follows the braces"#);
        assert_snapshot!(query("{a=\"1\"}"), @"the query is no selector of series: it begins with no name of a metric");
        assert_snapshot!(query("up{__name__=\"1\"}"), @r#"the query is no selector of series: "__name__=\"1\"}" is no matcher of a label"#);
        assert_snapshot!(query("up{a"), @"the query is no selector of series: no `=`, `!=`, `=~` or `!~` follows the label `a`");
        assert_snapshot!(query("up{a=\"1"), @"the query is no selector of series: the value of the label `a` does not end");
        assert_snapshot!(query("up{a=\"1\" b=\"2\"}"), @"the query is no selector of series: matchers are not separated by commas, or the braces are not closed");
        assert_snapshot!(query("1up"), @"the query is no selector of series: it begins with no name of a metric");
    }

    #[test]
    fn names_are_given_once_and_fields_are_known() {
        let one = "  - {query: up, kind: gauge, unit: s, scope: {kind: node, id: [node]}}\n";
        assert_snapshot!(problems(&one.repeat(2)), @"`up` is the name of two queries");
        assert_snapshot!(problems(&one.replace("unit: s", "per: cpu, unit: s")), @"`per` divides the value of several series");
        assert_snapshot!(problems(&one.replace("kind: node", "kind: rack")), @"`queries[0].scope.kind` must be one of `node`, `gpu`, `pod`, `rank`, `endpoint`, `queue`, not `rack`");
        assert_snapshot!(problems("  []\n"), @"`queries` must not be empty");
    }

    proptest! {
        #[test]
        fn the_normal_form_of_a_selector_is_its_own(text in r#"[a-z:]{1,4}(\{([ab]=~?"[a-c\\"]{0,3}",? ?){0,3}\})?"#) {
            if let Ok(selector) = Selector::parse(&text) {
                prop_assert_eq!(Selector::parse(&selector.normal), Ok(selector.clone()));
            }
        }

        #[test]
        fn any_text_is_a_selector_or_refused(text in ".{0,60}") {
            let _ = Selector::parse(&text);
        }
    }
}
