//! The parts of a mapping that a BenchmarkRun and a workload specification have in common.

use assay_contracts::validate;
use serde_json::{Value, json};

use crate::draft::member;
use crate::load::plain_label;
use crate::mapping::Mapping;
use crate::results::find_credential_in_text;
use crate::value::{is_credential, text, whole};
use crate::yaml::Node;

/// The longest message of a rule that is shown: it may quote the document.
const MAX_MESSAGE: usize = 300;
/// The length of a measurement if the document states none, in seconds.
const DEFAULT_SECONDS: u64 = 60;
/// The longest length of a measurement that is taken over, in seconds: 28 days.
const MAX_SECONDS: u64 = 28 * 24 * 3_600;
/// The largest number of users or requests.
const MAX_NUMBER: u64 = 10_000_000;
/// The numbers of trials that a grade above exploratory may have.
const TRIALS: std::ops::RangeInclusive<u64> = 3..=1_000;
/// The environment controls of Assay. Publication grade needs all of them.
const CONTROLS: [&str; 4] = ["dedicated_nodes", "fixed_topology", "locked_clocks", "stable_background"];

const NO_PRICE: &str = "a cost needs a price: add `pricing` to the pipeline, and results have it";
/// Metrics of the contract with Assay's own, or the reason why a run does not report them.
const METRICS: [(&str, Result<&str, &str>); 7] = [
    ("ttft_ms", Ok("metric ttft_ms")),
    ("tokens_per_second", Ok("metric output_tokens_per_s")),
    ("p99_latency_ms", Ok("metric e2e_ms_p99")),
    ("jitter_ms", Ok("metric jitter_ms")),
    ("goodput_req_s", Ok("metric goodput_requests_per_s")),
    ("cost_per_request_usd", Err(NO_PRICE)),
    ("cost_per_token_usd", Err(NO_PRICE)),
];

/// A field of a document, and its value if it is given.
pub(crate) type Given<'a> = (&'static str, Option<&'a Value>);

/// The load of a document.
pub(crate) struct ContractLoad<'a> {
    /// `closed_loop` or `open_loop`.
    pub(crate) mode: Given<'a>,
    /// Numbers of users, or rates.
    pub(crate) values: Given<'a>,
    /// The number of requests that are measured.
    pub(crate) requests: Given<'a>,
    /// The time for which is measured, such as `60s`.
    pub(crate) duration: Given<'a>,
}

impl Mapping<'_> {
    /// Refuses the fields that break a rule of the contract, with the message of the rule.
    pub(crate) fn refuse_problems(&mut self, document: &Value) {
        for problem in validate(document) {
            let is_shown = problem.message.len() <= MAX_MESSAGE && !find_credential_in_text(&problem.message);
            let message = if is_shown { &problem.message } else { "it breaks a rule of the contract" };
            self.refused(&problem.path, message);
        }
    }

    pub(crate) fn is_publication(&self) -> bool {
        self.draft.grade == Some("publication")
    }

    /// Sets the intent from a grade, by either of its names.
    pub(crate) fn grade(&mut self, field: &str, value: &Value) {
        self.draft.grade = match value.as_str() {
            Some("publication_grade" | "publication") => Some("publication"),
            Some("realism_grade" | "realism") => Some("realism"),
            _ => return self.refused(field, "write `publication_grade` or `realism_grade`"),
        };
        if self.options.keeps_grade {
            self.draft.intent = self.draft.grade;
            return self.mapped(field, "pipeline spec.intent");
        }
        let how =
            "a file that runs as it is is exploratory: `assay import` writes a pipeline of this intent, which you commit and run";
        self.approximated(field, "pipeline spec.intent", how);
    }

    /// Refuses a type of work that no stage runs.
    pub(crate) fn inference_only(&mut self, field: &str, value: &Value) {
        match value.as_str() {
            Some("inference") => self.mapped(field, "workload spec.type"),
            _ => self.refused(field, "Assay runs no training yet: write `inference`, and measure the training elsewhere"),
        }
    }

    /// Sets a dimension of the workloads.
    pub(crate) fn dimension(&mut self, field: &str, name: &'static str, value: &Value) {
        match value.as_str().and_then(plain_label) {
            Some(word) => {
                self.draft.dimensions.push(member(name, word));
                self.mapped(field, &format!("workload spec.{name}"));
            }
            None => self.refused(field, "write letters, digits and `._+-`, at most 40 of them"),
        }
    }

    /// Sets pairs of lengths with their weights. `names` are the members of an entry that hold its input and its output.
    pub(crate) fn length_pairs(&mut self, field: &str, mix: &Value, names: [&str; 2]) {
        let pair = |entry: &Value| {
            let [input, output] = names.map(|name| entry.get(name).and_then(whole).filter(|tokens| *tokens > 0));
            let weight = entry.get("weight").and_then(Value::as_f64).filter(|weight| *weight > 0.0)?;
            Some(json!({"input": input?, "output": output?, "weight": weight}))
        };
        let pairs: Option<Vec<Value>> = mix.as_array().and_then(|entries| entries.iter().map(pair).collect());
        let Some(pairs) = pairs.filter(|pairs| !pairs.is_empty()) else {
            let [input, output] = names;
            return self.refused(field, &format!("write entries with `{input}`, `{output}` and `weight`"));
        };
        self.draft.workload.push(member("lengths", json!({"pairs": pairs})));
        self.mapped(field, "workload spec.lengths.pairs");
    }

    /// Keeps a word as a label of the pipeline; `how` is the difference.
    pub(crate) fn label(&mut self, field: &str, name: &str, value: &Value, how: &str) {
        match value.as_str().and_then(plain_label) {
            Some(word) => {
                self.draft.labels.push(member(name, word));
                self.approximated(field, &format!("pipeline metadata.labels.{name}"), how);
            }
            None => {
                self.ignored(field, "its text is not copied: write it into `metadata.labels` of the pipeline if readers need it");
            }
        }
    }

    /// Sets the number of trials of each point.
    pub(crate) fn trial_count(&mut self, field: &str, value: &Value) {
        match value.as_u64().filter(|count| TRIALS.contains(count)) {
            Some(count) => {
                self.draft.pipeline.push(member("trials", json!({"count": count})));
                self.mapped(field, "pipeline spec.trials.count");
            }
            None => self.refused(field, "write a whole number from 3 to 1000"),
        }
    }

    /// Demands a proof of an environment control, if the run is a publication.
    pub(crate) fn control(&mut self, field: &str, control: &'static str, value: &Value) {
        if !self.is_publication() {
            return self.ignored(field, "the run is of realism grade, which does not rest on it");
        }
        if value != &Value::Bool(true) {
            return self.refused(field, "publication grade needs it: write `true`, or another grade");
        }
        self.draft.controls.push(member(control, json!({"require": true})));
        self.mapped(field, &format!("pipeline spec.controls.{control}"));
    }

    /// States which metrics of the contract a run reports.
    pub(crate) fn metrics(&mut self, field: &str, value: &Value) {
        let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            let known = METRICS.iter().find(|(name, _)| item.as_str() == Some(*name));
            let place = if value.is_array() { format!("{field}[{index}]") } else { field.to_owned() };
            match known {
                Some((name, Ok(metric))) => self.mapped(&format!("{place}({name})"), metric),
                Some((name, Err(why))) => self.ignored(&format!("{place}({name})"), why),
                None => self.ignored(&place, "Assay has no such metric: results have those of `docs/reference/metrics.md`"),
            }
        }
    }

    /// States that each manifest is signed, with or without a demand for it.
    pub(crate) fn signing(&mut self, field: &str, value: &Value) {
        match value {
            Value::Bool(true) => self.mapped(field, "signed manifests"),
            _ => self.approximated(field, "signed manifests", "Assay signs every manifest of every run"),
        }
    }

    /// Sets the load, and the end of a measurement.
    pub(crate) fn contract_load(&mut self, load: &ContractLoad<'_>) {
        let (field, Some(mode)) = load.mode else { return };
        if self.has_refused_part(field) {
            return;
        }
        match mode.as_str() {
            Some("closed_loop") => self.closed_loop(field, load.values),
            Some("open_loop") => self.open_loop(field, load.values),
            _ => return self.refused(field, "write `closed_loop` or `open_loop`"),
        }
        self.end(load);
    }

    fn closed_loop(&mut self, field: &str, (values_field, values): Given<'_>) {
        self.mapped(field, "workload spec.load.mode");
        let to = "workload spec.load.concurrency";
        let Some(numbers) = values.map(numbers) else {
            self.approximated(
                &format!("{values_field}(absent)"),
                to,
                "the document states no number of users, and one is written",
            );
            return self.closed(&[1]);
        };
        let users = |number: &f64| number.fract() == 0.0 && (1.0..=MAX_NUMBER as f64).contains(number);
        match numbers.filter(|numbers| numbers.iter().all(users)) {
            Some(numbers) => {
                self.closed(&numbers.iter().map(|number| *number as u64).collect::<Vec<_>>());
                self.mapped(values_field, to);
            }
            None => self.refused(values_field, "write different whole numbers of users, such as `1,8,64`"),
        }
    }

    fn open_loop(&mut self, field: &str, (values_field, values): Given<'_>) {
        self.mapped(field, "workload spec.load.mode");
        let Some(numbers) = values.map(numbers) else {
            let remedy = "the document states no rate of requests: write requests per second, such as `1,2.5,5`";
            return self.refused(&format!("{values_field}(absent)"), remedy);
        };
        match numbers.filter(|numbers| numbers.iter().all(|rate| *rate > 0.0 && *rate <= MAX_NUMBER as f64)) {
            Some(rates) => {
                self.open(&rates, "poisson", None, None);
                let how = "arrivals are those of independent users (`poisson`), which the document does not state";
                self.approximated(values_field, "workload spec.load.rate", how);
            }
            None => self.refused(values_field, "write different rates above 0, such as `1,2.5,5`"),
        }
    }

    fn end(&mut self, load: &ContractLoad<'_>) {
        let ((requests_field, requests), (duration_field, duration)) = (load.requests, load.duration);
        if let Some(requests) = requests {
            match whole(requests).filter(|requests| (1..=MAX_NUMBER).contains(requests)) {
                Some(requests) => {
                    self.draft.load.push(member("requests", requests));
                    self.mapped(requests_field, "workload spec.load.requests");
                }
                None => self.refused(requests_field, "write a whole number of requests"),
            }
        }
        let to = "workload spec.load.duration";
        match duration.map(|duration| seconds(&text(duration).unwrap_or_default())) {
            Some(Some(seconds)) => {
                self.duration(seconds);
                self.mapped(duration_field, to);
            }
            Some(None) => self.refused(duration_field, "write a time of at most 28 days, such as `60s`, `5m` or `1h`"),
            None if requests.is_none() => {
                self.duration(DEFAULT_SECONDS);
                let how = "the document states no length of a measurement, and one minute is written";
                self.approximated(&format!("{duration_field}(absent)"), to, how);
            }
            None => {}
        }
    }

    fn duration(&mut self, seconds: u64) {
        self.draft.load.push(member("duration", format!("{seconds}s")));
        self.draft.minutes = Some(seconds.div_ceil(60));
    }

    /// Adds what publication grade needs beside its intent: a claim, and a proof of each environment control.
    pub(crate) fn publication(&mut self) {
        if !self.is_publication() {
            return;
        }
        for control in CONTROLS {
            if !self.draft.controls.iter().any(|(known, _)| known == control) {
                self.draft.controls.push(member(control, json!({"require": true})));
                let how = "publication grade needs a proof of it, which the document does not demand";
                self.approximated(&format!("{control}(implied)"), &format!("pipeline spec.controls.{control}"), how);
            }
        }
        let controls = std::mem::take(&mut self.draft.controls);
        self.draft.pipeline.push(("controls".to_owned(), Node::Map(controls)));
        let claim = vec![
            member(
                "methodology",
                "Each point is measured by repeated trials; numbers have intervals over trials, and outliers are flagged and kept.",
            ),
            member("representative", false),
            member("statement", "The numbers stand for the stated target and load only."),
        ];
        self.draft.pipeline.push(("claim".to_owned(), Node::Map(claim)));
        let how = "the document states neither a methodology nor what its numbers represent: write what you know";
        self.approximated("claim(implied)", "pipeline spec.claim", how);
    }

    /// Names the pipeline by a text that is no credential.
    pub(crate) fn contract_name(&mut self, field: &str, value: &Value) {
        match value.as_str().filter(|name| !is_credential("", name)) {
            Some(name) => self.name(field, name),
            None => self.refused(field, "write a name"),
        }
    }
}

/// Returns the numbers of a list, or of a text that commas separate; `None` if there is none, or if one is given twice.
fn numbers(value: &Value) -> Option<Vec<f64>> {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let numbers: Option<Vec<f64>> = match value {
        Value::Array(items) => items.iter().map(number).collect(),
        Value::String(text) => text.split(',').map(|word| word.trim().parse().ok()).collect(),
        other => number(other).map(|number| vec![number]),
    };
    let is_new = |index: usize, numbers: &[f64]| !numbers.iter().take(index).any(|known| Some(known) == numbers.get(index));
    numbers.filter(|numbers| !numbers.is_empty() && (0..numbers.len()).all(|index| is_new(index, numbers)))
}

/// Returns the seconds of a time such as `60s`, `5m` or `1h`.
fn seconds(text: &str) -> Option<u64> {
    let unit = [("s", 1), ("m", 60), ("h", 3_600)];
    let (number, seconds) = unit.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))?;
    number.parse::<u64>().ok()?.checked_mul(seconds).filter(|seconds| (1..=MAX_SECONDS).contains(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_read_or_not_at_all() {
        let read = |value: Value| numbers(&value);
        assert_eq!(
            (read(json!("1, 8,64")), read(json!([1, "2"])), read(json!(2.5))),
            (Some(vec![1.0, 8.0, 64.0]), Some(vec![1.0, 2.0]), Some(vec![2.5]))
        );
        for none in [json!(""), json!([]), json!("1,x"), json!("1,1"), json!({}), json!([1, 1])] {
            assert_eq!(read(none.clone()), None, "{none}");
        }
        assert_eq!((seconds("60s"), seconds("5m"), seconds("1h")), (Some(60), Some(300), Some(3_600)));
        for none in ["60", "0s", "-1s", "1d", "", "99999999999999999999h", "673h"] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }
}
