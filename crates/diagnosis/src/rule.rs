//! The rules: data that is reviewed like code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::evidence::{ClusterEvent, Pair, Reading, Subject};
use crate::experiment::Experiment;

/// The rules of this version of Assay, by file.
const FILES: [(&str, &str); 6] = [
    ("diagnosis/server.yaml", include_str!("../../../diagnosis/server.yaml")),
    ("diagnosis/machine.yaml", include_str!("../../../diagnosis/machine.yaml")),
    ("diagnosis/node.yaml", include_str!("../../../diagnosis/node.yaml")),
    ("diagnosis/gpu.yaml", include_str!("../../../diagnosis/gpu.yaml")),
    ("diagnosis/work.yaml", include_str!("../../../diagnosis/work.yaml")),
    ("diagnosis/scheduler.yaml", include_str!("../../../diagnosis/scheduler.yaml")),
];

/// The name in `slower` that stands for every outcome with a direction.
pub(crate) const ANY: &str = "any";

/// The name in `slower` of a rule that explains no outcome, but the time before one.
pub(crate) const NONE: &str = "none";

/// The kind of bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The computation itself.
    Compute,
    /// The network, and the links between processors.
    Communication,
    /// The data that is worked on did not come in time.
    Input,
    /// Queues, schedulers, quotas and the machine beside the computation.
    ControlPlane,
}

impl Class {
    /// Returns the class in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Communication => "communication",
            Self::Input => "input",
            Self::ControlPlane => "control plane",
        }
    }
}

/// The investigation that a rule is a step of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Playbook {
    /// Tail latencies grew.
    TailLatencyRegression,
    /// GPUs are idle while there is work.
    LowGpuUtilization,
    /// One of many workers holds up the rest.
    DistributedStraggler,
    /// Work waits for its place in the cluster.
    SchedulerBackpressure,
}

/// The source of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceClass {
    /// The machine of the recorder.
    Host,
    /// The servers of the case's target, and the samples of serving programs that a Prometheus has.
    Endpoint,
    /// The exporters that the pipeline names, the samples of exporters that a Prometheus has, and the GPUs by `nvidia-smi`.
    Exporter,
    /// The numbers of the run itself.
    Outcome,
    /// The facts that a cluster or its scheduler reported about the run's objects (`cluster_event_fact`).
    ClusterEvent,
}

impl SourceClass {
    /// Returns true for a reading of a source of this class.
    pub(crate) fn matches(self, reading: &Reading) -> bool {
        let of =
            |word: &str| reading.source == word || reading.source.strip_prefix(word).is_some_and(|rest| rest.starts_with('/'));
        let is_server = reading.scope_kind == "endpoint";
        match self {
            Self::Host => of("host"),
            Self::Endpoint => of("endpoint") || (of("prometheus") && is_server),
            Self::Exporter => of("exporter") || of("nvidia-smi") || (of("prometheus") && !is_server),
            Self::Outcome | Self::ClusterEvent => false,
        }
    }
}

impl Rule {
    /// Returns true if the units of a comparison may have what the rule needs. If they cannot, the rule is no open question: a command has no
    /// endpoint, and the sides of one run waited in one queue, together.
    pub(crate) fn applies_to(&self, pair: &Pair) -> bool {
        let needs = |class: SourceClass| self.signals.iter().any(|signal| signal.of == class);
        match pair.subject {
            Subject::Requests => !needs(SourceClass::ClusterEvent),
            Subject::Command => !needs(SourceClass::Endpoint) && !needs(SourceClass::ClusterEvent),
            Subject::ClusterObjects => needs(SourceClass::ClusterEvent),
        }
    }
}

/// A direction of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// It grew.
    Up,
    /// It fell.
    Down,
}

/// The way in which the series of one name are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Combine {
    /// Their sum.
    #[default]
    Sum,
    /// Their mean.
    Mean,
    /// Their median, which one of many does not move.
    Median,
    /// The largest of them.
    Max,
}

/// The statistic of a telemetry metric over an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Statistic {
    /// The mean of the samples; of a counter, its mean increase per second.
    #[default]
    Mean,
    /// The largest sample.
    Max,
}

/// The facts of an object that a formula reads: those that have every value that is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventSelector {
    /// The kind of the object.
    pub(crate) object_kind: String,
    /// The stage that the object runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) stage: Option<String>,
    /// The type of the event or condition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) event_type: Option<String>,
    /// The status of the condition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) status: Option<String>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) reason: Option<String>,
}

impl EventSelector {
    /// Returns true if a fact is about an object of the kind and the stage.
    pub(crate) fn is_about(&self, event: &ClusterEvent) -> bool {
        event.object_kind == self.object_kind && is_asked(self.stage.as_ref(), event.stage.as_ref())
    }

    /// Returns true if a fact has every value.
    pub(crate) fn matches(&self, event: &ClusterEvent) -> bool {
        self.is_about(event)
            && is_asked(self.event_type.as_ref(), event.event_type.as_ref())
            && is_asked(self.status.as_ref(), event.status.as_ref())
            && is_asked(self.reason.as_ref(), event.reason.as_ref())
    }
}

fn is_asked(asked: Option<&String>, found: Option<&String>) -> bool {
    asked.is_none() || asked == found
}

/// The columns of `cluster_event_fact` that are quantities: the number of times that an event happened, and the time from the creation of its object.
pub(crate) const COUNT: &str = "count";
/// See [`COUNT`].
pub(crate) const AFTER_CREATION: &str = "after_creation_ns";

/// The label of whose values each has a quotient of its own, by the way in which the quotients are put together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// Their sum: a request waits for one model of an ensemble after the other.
    Sum(String),
    /// The largest: the time of an ensemble holds those of its models.
    Max(String),
}

/// A way to compute a quantity. The first of several whose metrics are there is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Formula {
    /// The metric; of facts of a cluster, the column that is the quantity.
    pub(crate) metric: String,
    /// The facts of a cluster that have it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) event: Option<EventSelector>,
    /// The fact beside which the absence of `event` means that it happened 0 times. Without it, the absence means that nothing is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) zero_beside: Option<EventSelector>,
    /// The metric that it is divided by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) over: Option<String>,
    /// The label of whose values each has a quotient of its own, and how these are put together. A value of which nothing was counted has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) by: Option<By>,
    /// The factor to the signal's unit, if it is not that of the signal's other formulas.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) times: Option<f64>,
    /// The labels that a series needs, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(crate) labels: BTreeMap<String, String>,
    /// The statistic of both.
    #[serde(default)]
    pub(crate) statistic: Statistic,
    /// The outcome that the result is divided by.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) over_outcome: Option<String>,
    /// The outcome that the result, in the signal's unit, is subtracted from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) less_from: Option<String>,
}

impl Formula {
    /// Returns true if an outcome is a part of it.
    fn is_of_an_outcome(&self) -> bool {
        self.less_from.is_some() || self.over_outcome.is_some()
    }
}

/// The labels that tell apart the objects among which one is looked for, such as `[Hostname, gpu]`.
pub type Among = Vec<String>;

/// A quantity, and the change of it that is part of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// The quantity in words.
    pub name: String,
    /// Its source.
    pub of: SourceClass,
    #[serde(default)]
    pub(crate) combine: Combine,
    pub(crate) is: Vec<Formula>,
    #[serde(default = "one")]
    pub(crate) times: f64,
    /// The unit of the quantity, of its changes and of `amount`.
    pub unit: String,
    /// The direction of the change.
    pub moved: Direction,
    /// The smallest change, as the larger value over the smaller one.
    #[serde(default = "one")]
    pub ratio: f64,
    /// The smallest change, in the unit.
    #[serde(default)]
    pub amount: f64,
    /// The level that the candidate has to be below as well.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub below: Option<f64>,
    /// The value of an attempt that has none while others have one, such as the throttled share of a container without a quota, or of one that is idle.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub when_absent: Option<WhenAbsent>,
    /// If one object among several is looked for: the labels that tell them apart. The change is then that object's distance from the others, in
    /// the same attempts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub among: Option<Among>,
    /// The reason for the thresholds.
    pub reason: String,
    /// True if the signal only has to have moved, beyond its thresholds and with a p-value of 0.05 alone: the others carry the evidence.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub guard: bool,
    /// The least part of the change of `explains` that its change is, from 0 to 1; otherwise it has not moved far enough.
    #[serde(default)]
    pub least_share: f64,
    /// The outcome of the same unit that its change is a part of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub explains: Option<String>,
}

/// The value that the absence of a metric means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhenAbsent {
    /// The value, in the signal's unit.
    pub value: f64,
    /// A metric of the same exporter that is always there. Where it was not recorded, nothing is known of the other one.
    pub beside: String,
}

fn one() -> f64 {
    1.0
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name.
    pub rule: String,
    /// The matter if it holds, as a sentence.
    pub title: String,
    /// The kind of bottleneck.
    pub class: Class,
    /// The investigation that it is a step of.
    pub playbook: Playbook,
    /// The rules whose matter leads to this one: if one of them holds at the same case, its finding comes first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub follows: Vec<String>,
    /// The rules whose matter leads to this one, and this one's to theirs: of those that hold, the one whose first signal changed by the larger ratio
    /// comes first. Each of them names the other.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mutual: Vec<String>,
    /// The outcomes, of which one has to be worse; `any` for all, `none` if the rule explains no outcome.
    pub slower: Vec<String>,
    /// The signals that all have to have moved.
    pub signals: Vec<Signal>,
    /// Signals that support the rule if they moved as well.
    #[serde(default)]
    pub supports: Vec<Signal>,
    /// Other causes that look like this.
    pub instead: String,
    /// The experiment that would confirm it.
    pub confirm: String,
    /// The same as a change of the workload, if it is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub experiment: Option<Experiment>,
    /// The recordings that it needs.
    pub needs: String,
}

/// The reason why a file of rules is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The file is not YAML of this subset.
    #[error("`{file}` cannot be read: {problem}")]
    Yaml {
        /// The file.
        file: String,
        /// The first problem.
        problem: String,
    },
    /// A rule has not the form of a rule.
    #[error("rule {number} of `{file}`: {problem}")]
    Form {
        /// The file.
        file: String,
        /// The number of the rule in it, from 1.
        number: usize,
        /// The problem.
        problem: String,
    },
}

/// Reads a file of rules: one YAML document each.
///
/// # Errors
/// Fails if the file is not YAML, if a rule has an unknown or missing field, and if a threshold or a name makes no sense.
pub fn parse_rules(file: &str, text: &str) -> Result<Vec<Rule>, RuleError> {
    let documents = assay_spec::parse_documents(file, text.as_bytes()).map_err(|problems| RuleError::Yaml {
        file: file.to_owned(),
        problem: problems.first().map(|problem| problem.message.clone()).unwrap_or_default(),
    })?;
    let mut rules = Vec::new();
    for (place, document) in documents.into_iter().enumerate() {
        let refuse = |problem: String| RuleError::Form { file: file.to_owned(), number: place + 1, problem };
        let rule: Rule = serde_json::from_value(document).map_err(|error| refuse(error.to_string()))?;
        check(&rule).map_err(refuse)?;
        rules.push(rule);
    }
    let mut names = BTreeSet::new();
    match rules.iter().position(|rule| !names.insert(&rule.rule)) {
        Some(place) => Err(RuleError::Form { file: file.to_owned(), number: place + 1, problem: "its name is taken".to_owned() }),
        None => Ok(rules),
    }
}

/// Returns what makes no sense in a rule.
fn check(rule: &Rule) -> Result<(), String> {
    let texts = [&rule.rule, &rule.title, &rule.instead, &rule.confirm, &rule.needs];
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err("a text is empty".to_owned());
    }
    if rule.slower.is_empty() || rule.signals.is_empty() {
        return Err("it needs `slower` and a signal".to_owned());
    }
    let stands_alone = |name: &str| rule.slower.iter().any(|slower| slower == name) && rule.slower.len() > 1;
    if stands_alone(ANY) || stands_alone(NONE) {
        return Err(format!("`{ANY}` and `{NONE}` stand alone in `slower`"));
    }
    if rule.signals.iter().all(|signal| signal.guard) {
        return Err("it needs a signal that is no `guard`".to_owned());
    }
    let is_of_cluster = |signal: &Signal| signal.of == SourceClass::ClusterEvent;
    if rule.signals.iter().any(is_of_cluster) {
        if !rule.signals.iter().chain(&rule.supports).all(is_of_cluster) {
            return Err(
                "facts of a cluster are of a run, and other signals of an attempt: a rule has one or the other".to_owned()
            );
        }
        if rule.slower != [NONE] {
            return Err(format!("facts of a cluster are of a run, which has no outcome: `slower` is `[{NONE}]`"));
        }
    }
    rule.signals.iter().chain(&rule.supports).try_for_each(check_signal)
}

fn check_signal(signal: &Signal) -> Result<(), String> {
    let refuse = |problem: &str| Err(format!("signal `{}`: {problem}", signal.name));
    if signal.is.is_empty() || signal.reason.trim().is_empty() {
        return refuse("it needs a metric and a reason");
    }
    let is_number = |value: f64| value.is_finite() && value >= 0.0;
    let factors = || signal.is.iter().filter_map(|formula| formula.times).chain([signal.times]);
    if factors().any(|times| !is_number(times) || times == 0.0) {
        return refuse("`times` is a number above 0");
    }
    if !is_number(signal.amount) || !is_number(signal.ratio) {
        return refuse("a threshold is no number of 0 or more");
    }
    if signal.is.iter().any(|formula| formula.by.is_some() && formula.over.is_none()) {
        return refuse("`by` is of quotients, and needs `over`");
    }
    if signal.ratio < 1.0 || (signal.ratio <= 1.0 && signal.amount <= 0.0) {
        return refuse("it needs a `ratio` above 1, or an `amount`");
    }
    if signal.least_share > 1.0 || !is_number(signal.least_share) || signal.least_share > 0.0 && signal.explains.is_none() {
        return refuse("`least_share` is a number from 0 to 1 of what it `explains`");
    }
    if signal.when_absent.as_ref().is_some_and(|absent| !is_number(absent.value) || absent.beside.is_empty()) {
        return refuse("`when_absent` needs a `value` of 0 or more, and the metric that is there `beside` it");
    }
    check_facts(signal).or_else(|problem| refuse(&problem))?;
    let is_outcome = signal.of == SourceClass::Outcome;
    let has_parts = |formula: &Formula| formula.over.is_some() || formula.is_of_an_outcome() || formula.times.is_some();
    if is_outcome && signal.is.iter().any(has_parts) {
        return refuse("an outcome is taken as it is");
    }
    match &signal.among {
        Some(labels) if is_outcome || labels.is_empty() => refuse("`among` needs labels of a telemetry metric"),
        Some(_) if signal.is.iter().any(Formula::is_of_an_outcome) => {
            refuse("`among` has no `less_from` and no `over_outcome`: an outcome is of no object")
        }
        _ => Ok(()),
    }
}

/// Returns what makes no sense in a signal of facts of a cluster, or in one that has parts of such.
fn check_facts(signal: &Signal) -> Result<(), String> {
    let has_parts = |formula: &Formula| formula.event.is_some() || formula.zero_beside.is_some();
    if signal.of != SourceClass::ClusterEvent {
        let is_wrong = signal.is.iter().any(has_parts);
        return if is_wrong { Err("`event` and `zero_beside` are of a `cluster_event`".to_owned()) } else { Ok(()) };
    }
    let is_of_metrics = |formula: &Formula| {
        formula.over.is_some() || formula.is_of_an_outcome() || formula.times.is_some() || !formula.labels.is_empty()
    };
    if signal.among.is_some() || signal.when_absent.is_some() || signal.explains.is_some() || signal.is.iter().any(is_of_metrics)
    {
        return Err("a fact of a cluster is taken as it is".to_owned());
    }
    signal.is.iter().try_for_each(|formula| match (formula.metric.as_str(), &formula.event, &formula.zero_beside) {
        (COUNT, Some(_), _) | (AFTER_CREATION, Some(_), None) => Ok(()),
        (COUNT | AFTER_CREATION, None, _) => Err("it needs an `event`".to_owned()),
        (AFTER_CREATION, ..) => Err("`zero_beside` is of a `count`".to_owned()),
        _ => Err(format!("its metric is `{COUNT}` or `{AFTER_CREATION}`")),
    })
}

/// Returns a rule that is named in `follows` and is not there, or that follows itself by way of others, with the rule that names it; or one that is named in
/// `mutual` and does not name the other.
#[cfg(test)]
fn misplaced(rules: &[Rule]) -> Option<(&str, &str)> {
    let named = |name: &str| rules.iter().find(|rule| rule.rule == name);
    for rule in rules {
        let is_one_sided = |name: &&String| named(name).is_none_or(|other| !other.mutual.contains(&rule.rule));
        if let Some(name) = rule.mutual.iter().find(is_one_sided) {
            return Some((&rule.rule, name));
        }
        let (mut seen, mut open) = (BTreeSet::new(), vec![rule]);
        while let Some(next) = open.pop() {
            for name in &next.follows {
                match named(name) {
                    Some(before) if before.rule != rule.rule => {
                        if seen.insert(&before.rule) {
                            open.push(before);
                        }
                    }
                    _ => return Some((&next.rule, name)),
                }
            }
        }
    }
    None
}

/// Returns the rules of this version, in the order of their files.
pub fn rules() -> &'static [Rule] {
    static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
        // A test reads every file, so none is left out.
        FILES.iter().flat_map(|(file, text)| parse_rules(file, text).unwrap_or_default()).collect()
    });
    &RULES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_rules_is_read_and_every_name_is_free() {
        let mut names = BTreeSet::new();
        for (file, text) in FILES {
            for rule in parse_rules(file, text).unwrap_or_else(|error| panic!("{error}")) {
                assert!(names.insert(rule.rule.clone()), "{} twice", rule.rule);
            }
        }
        assert_eq!(names.len(), rules().len());
        assert_eq!(misplaced(rules()), None, "a rule follows one that is not there, or itself");
        assert!(names.len() > 15);
    }

    #[test]
    fn every_metric_of_the_queue_is_in_the_pack_of_its_server() {
        let packs = [
            ("vllm:", include_str!("../../../packs/vllm.yaml")),
            ("sglang:", include_str!("../../../packs/sglang.yaml")),
            ("tgi_", include_str!("../../../packs/tgi.yaml")),
            ("nv_", include_str!("../../../packs/triton.yaml")),
        ];
        let queue = rules().iter().find(|rule| rule.rule == "server-queue").expect("it is a rule");
        let formulas = queue.signals.iter().chain(&queue.supports).flat_map(|signal| &signal.is);
        let mut seen = BTreeSet::new();
        for metric in formulas.flat_map(|formula| std::iter::once(&formula.metric).chain(&formula.over)) {
            let (prefix, pack) = packs.iter().find(|(prefix, _)| metric.starts_with(prefix)).expect("of a server with a pack");
            assert!(
                [format!("query: {metric},"), format!("query: '{metric}',")].iter().any(|query| pack.contains(query)),
                "{metric}"
            );
            seen.insert(prefix);
        }
        assert_eq!(seen.len(), packs.len(), "each server has a queue");
    }

    #[test]
    fn facts_of_a_cluster_are_the_only_signals_of_a_rule_without_outcomes() {
        let rule = |slower: &str, formula: &str, more: &str| {
            format!(
                "rule: a\ntitle: b\nclass: control_plane\nplaybook: scheduler_backpressure\nslower: [{slower}]\nsignals:\n  - {{name: s, of: \
                 cluster_event, is: [{{{formula}}}], unit: s, moved: up, ratio: 2, reason: r}}\n{more}instead: c\nconfirm: d\nneeds: e\n"
            )
        };
        let pods = "metric: count, event: {object_kind: Pod}";
        assert_eq!(parse_rules("r.yaml", &rule("none", pods, "")).expect("a rule").len(), 1);
        let host = "supports: [{name: h, of: host, is: [{metric: m}], unit: s, moved: up, ratio: 2, reason: r}]\n";
        let zero = "metric: after_creation_ns, event: {object_kind: Pod}, zero_beside: {object_kind: Pod}";
        for (text, why) in [
            (rule("any", pods, ""), "which has no outcome: `slower` is `[none]`"),
            (rule("none", pods, host), "a rule has one or the other"),
            (rule("none", "metric: count", ""), "signal `s`: it needs an `event`"),
            (rule("none", "metric: wait, event: {object_kind: Pod}", ""), "its metric is `count` or `after_creation_ns`"),
            (rule("none", zero, ""), "`zero_beside` is of a `count`"),
            (rule("none", "metric: count, over: m, event: {object_kind: Pod}", ""), "is taken as it is"),
            (rule("none", "metric: count, event: {kind: Pod}", ""), "unknown field `kind`"),
        ] {
            let found = parse_rules("r.yaml", &text).expect_err("refused").to_string();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn a_rule_that_makes_no_sense_is_refused_by_its_place() {
        let rule = |signal: &str| {
            format!(
                "rule: a\ntitle: b\nclass: compute\nplaybook: low_gpu_utilization\nslower: [any]\nsignals: [{signal}]\ninstead: c\n\
                 confirm: d\nneeds: e\n"
            )
        };
        let signal = |more: &str| format!("{{name: s, of: host, is: [{{metric: m}}], unit: s, moved: up, reason: r{more}}}");
        let refused = |text: &str| parse_rules("r.yaml", text).expect_err("refused").to_string();
        assert_eq!(parse_rules("r.yaml", &rule(&signal(", ratio: 2"))).expect("a rule").len(), 1);
        for (text, why) in [
            (rule(&signal("")), "rule 1 of `r.yaml`: signal `s`: it needs a `ratio` above 1, or an `amount`"),
            (rule(&signal(", ratio: 0.5")), "it needs a `ratio` above 1, or an `amount`"),
            (rule(&signal(", amount: -1")), "a threshold is no number of 0 or more"),
            (rule(&signal(", ratio: 2, times: 0")), "`times` is a number above 0"),
            (rule(&signal(", ratio: 2").replace("metric: m", "metric: m, times: -1")), "`times` is a number above 0"),
            (
                rule(&signal(", ratio: 2").replace("metric: m", "metric: m, by: {sum: model}")),
                "`by` is of quotients, and needs `over`",
            ),
            (rule(&signal(", amount: 1, among: []")), "`among` needs labels of a telemetry metric"),
            (
                rule(&signal(", amount: 1, among: [gpu]").replace("metric: m", "metric: m, over_outcome: o")),
                "`among` has no `less_from` and no `over_outcome`",
            ),
            (
                rule(&signal(", ratio: 2").replace("of: host", "of: outcome").replace("metric: m", "metric: m, over_outcome: o")),
                "an outcome is taken as it is",
            ),
            (rule(&signal(", amount: 1, other: 1")), "unknown field `other`"),
            (rule(""), "it needs `slower` and a signal"),
            (rule(&signal(", ratio: 2")).replace("[any]", "[any, ttft_ms_p50]"), "stand alone"),
            (rule(&signal(", ratio: 2")).replace("title: b", "title: ''"), "a text is empty"),
            (format!("{0}---\n{0}", rule(&signal(", ratio: 2"))), "rule 2 of `r.yaml`: its name is taken"),
            ("a: [".to_owned(), "`r.yaml` cannot be read: "),
            (
                rule(&signal(", ratio: 2").replace("metric: m", "metric: m, event: {object_kind: Pod}")),
                "are of a `cluster_event`",
            ),
        ] {
            let found = refused(&text);
            assert!(found.contains(why), "{found}");
        }
    }
}
