//! The tasks, scenarios and iterations of genai-bench, which OME's BenchmarkJob shares with its command line.

use assay_spec::Scenario;
use serde_json::{Value, json};

use crate::client::{Client, Temperature};
use crate::draft::{Cell, member};
use crate::mapping::Mapping;
use crate::value::{slug, whole};
use crate::yaml::Node;

/// The most workloads of one pipeline.
const MAX_CELLS: usize = 200;
/// The largest number of concurrent users.
const MAX_CONCURRENCY: u64 = 10_000_000;
/// The largest number of documents in a request.
const MAX_BATCH: u64 = 4_096;
/// The concurrencies of genai-bench if none is given.
const CONCURRENCIES: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// The numbers of documents of genai-bench if none is given.
const BATCHES: [u64; 7] = [1, 2, 4, 8, 24, 48, 96];

/// A task of genai-bench.
#[derive(Debug)]
pub(crate) struct Task {
    /// Its names, the current one first.
    pub(crate) names: &'static [&'static str],
    /// The API of Assay, or the reason why there is none.
    pub(crate) api: Result<&'static str, &'static str>,
    /// The kinds of scenarios that fit it.
    kinds: &'static [&'static str],
    /// Its scenarios if none is given.
    defaults: &'static [&'static str],
    /// True if its iterations are numbers of documents at a concurrency of 1.
    pub(crate) has_batches: bool,
}

const NO_IMAGES: &str = "Assay measures no API that makes images: leave the job with genai-bench";

/// All tasks.
pub(crate) const TASKS: [Task; 7] = [
    Task {
        names: &["text-to-text"],
        api: Ok("chat"),
        kinds: &["D", "N", "U"],
        defaults: &["N(480,240)/(300,150)", "D(100,100)", "D(100,1000)", "D(2000,200)", "D(7800,200)"],
        has_batches: false,
    },
    Task {
        names: &["image-text-to-text", "image-to-text"],
        api: Ok("chat"),
        kinds: &["I"],
        defaults: &["I(512,512)", "I(1024,512)", "I(2048,2048)"],
        has_batches: false,
    },
    Task {
        names: &["text-to-embeddings"],
        api: Ok("embeddings"),
        kinds: &["E"],
        defaults: &["E(64)", "E(128)", "E(256)", "E(512)", "E(1024)"],
        has_batches: true,
    },
    Task {
        names: &["text-to-rerank"],
        api: Ok("rerank"),
        kinds: &["R"],
        defaults: &["R(64,100)", "R(128,100)", "R(256,100)", "R(512,100)", "R(1024,100)", "R(2096,100)", "R(4096,100)"],
        has_batches: true,
    },
    Task {
        names: &["image-to-embeddings"],
        api: Err("Assay sends texts to an embeddings API, and no images: measure `text-to-embeddings`"),
        kinds: &[],
        defaults: &[],
        has_batches: false,
    },
    Task { names: &["text-to-image"], api: Err(NO_IMAGES), kinds: &[], defaults: &[], has_batches: false },
    Task {
        names: &["text-to-speech"],
        api: Err("Assay measures no API that makes speech: leave the job with genai-bench"),
        kinds: &[],
        defaults: &[],
        has_batches: false,
    },
];

/// Names that guides give as scenarios and that genai-bench does not have, with what says the same in a workload.
const FICTIONAL: [(&str, &str); 11] = [
    ("constant_load", "write `load: {mode: open, rate: [RATE], arrival: constant}`"),
    ("burst_load", "write `load: {mode: open, rate: [RATE], arrival: gamma, smoothness: 0.5}`"),
    ("reasoning_short", "write the lengths out, such as `D(100,1000)`"),
    ("short_generation", "write the lengths out, such as `D(100,128)`"),
    ("batch_small", "write the lengths out, such as `D(100,100)`"),
    ("warmup", "write `load.warmup: 30s`"),
    ("constant", "write `load: {mode: open, rate: [RATE], arrival: constant, duration: TIME}`"),
    ("ramp", "write `load: {mode: open, rate: {ramp: {shape: linear, from: RATE, to: RATE}}, duration: TIME}`"),
    ("spike", "write `load: {mode: open, rate: {series: [{duration: TIME, rate: RATE}]}, duration: TIME}`"),
    ("burst", "write `load: {mode: open, rate: {series: [{duration: TIME, rate: RATE}]}, duration: TIME}`"),
    ("chat_multi_turn", "write `sessions: {turns: NUMBER}`"),
];

/// Returns the task of a name.
pub(crate) fn task(name: &str) -> Option<&'static Task> {
    TASKS.iter().find(|task| task.names.contains(&name))
}

/// Returns the names of all tasks, for a message.
pub(crate) fn task_names() -> String {
    TASKS.iter().flat_map(|task| task.names).copied().collect::<Vec<_>>().join(", ")
}

/// The names of the fields that a definition has for the same things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenaiFields {
    pub(crate) task: &'static str,
    pub(crate) scenarios: &'static str,
    pub(crate) concurrency: &'static str,
    /// `None` if the definition cannot state it.
    pub(crate) batch: Option<&'static str>,
    pub(crate) minutes: &'static str,
    pub(crate) requests: &'static str,
}

/// The load of a definition of genai-bench. Lists are `None` if they are absent.
#[derive(Debug, Default)]
pub(crate) struct GenaiLoad {
    pub(crate) task: Option<String>,
    pub(crate) scenarios: Option<Vec<String>>,
    /// `None` in a list is a value that is no whole number.
    pub(crate) concurrency: Option<Vec<Option<u64>>>,
    pub(crate) batch: Option<Vec<Option<u64>>>,
    pub(crate) minutes: Option<Value>,
    pub(crate) requests: Option<Value>,
}

impl Mapping<'_> {
    /// Maps the load: a workload for each scenario, and for each number of documents.
    pub(crate) fn genai_load(&mut self, load: &GenaiLoad, fields: GenaiFields) {
        self.genai_limits(load, fields);
        let Some(task) = self.genai_task(load, fields) else { return };
        let scenarios = self.genai_scenarios(task, load, fields);
        let points = self.genai_points(task, load, fields);
        if scenarios.len().saturating_mul(if task.has_batches { points.len() } else { 1 }) > MAX_CELLS {
            return self.refused(fields.scenarios, "a pipeline has at most 200 workloads: split the definition");
        }
        for scenario in &scenarios {
            if task.has_batches {
                self.draft.cells.extend(points.iter().map(|batch| Cell {
                    suffix: format!("{}-b{batch}", slug(scenario, 30)),
                    points: 1,
                    minutes: None,
                    load: vec![member("mode", "closed"), member("concurrency", json!([1]))],
                    members: vec![member("lengths", scenario.as_str()), member("batch", *batch)],
                }));
            } else if !points.is_empty() {
                self.draft.cells.push(Cell {
                    suffix: slug(scenario, 38),
                    points: points.len() as u64,
                    minutes: None,
                    load: vec![member("mode", "closed"), member("concurrency", json!(points))],
                    members: vec![member("lengths", scenario.as_str())],
                });
            }
        }
        self.genai_implied();
    }

    fn genai_limits(&mut self, load: &GenaiLoad, fields: GenaiFields) {
        match load.minutes.as_ref().map(whole) {
            Some(Some(minutes)) if (1..=43_000).contains(&minutes) => {
                self.draft.load.push(member("duration", format!("{minutes}m")));
                self.draft.minutes = Some(minutes);
                self.mapped(fields.minutes, "workload spec.load.duration");
            }
            Some(_) => self.refused(fields.minutes, "write a whole number of minutes from 1 to 43000"),
            None => self.refused(&format!("{}(absent)", fields.minutes), "genai-bench needs it: add the minutes of each point"),
        }
        match load.requests.as_ref().map(whole) {
            Some(Some(requests)) if (1..=1_000_000_000).contains(&requests) => {
                self.draft.load.push(member("requests", requests));
                self.mapped(fields.requests, "workload spec.load.requests");
            }
            Some(_) => self.refused(fields.requests, "write a whole number of requests from 1 to 1000000000"),
            None => self.refused(&format!("{}(absent)", fields.requests), "genai-bench needs it: add the requests of each point"),
        }
    }

    fn genai_task(&mut self, load: &GenaiLoad, fields: GenaiFields) -> Option<&'static Task> {
        let Some(name) = &load.task else {
            self.refused(&format!("{}(absent)", fields.task), &format!("write one of {}", task_names()));
            return None;
        };
        let Some(found) = task(name) else {
            self.refused(fields.task, &format!("write one of {}", task_names()));
            return None;
        };
        match found.api {
            Ok(api) => {
                self.draft.workload.insert(0, member("api", api));
                self.mapped(fields.task, "workload spec.api");
                Some(found)
            }
            Err(remedy) => {
                self.refused(fields.task, remedy);
                None
            }
        }
    }

    fn genai_scenarios(&mut self, task: &Task, load: &GenaiLoad, fields: GenaiFields) -> Vec<String> {
        let Some(given) = load.scenarios.as_ref().filter(|given| !given.is_empty()) else {
            self.mapped(&format!("{}(absent)", fields.scenarios), "workload spec.lengths");
            return task.defaults.iter().map(|scenario| (*scenario).to_owned()).collect();
        };
        let mut kept: Vec<String> = Vec::new();
        for (index, scenario) in given.iter().enumerate() {
            let field = format!("{}[{index}]", fields.scenarios);
            if kept.contains(scenario) {
                self.ignored(&field, "the scenario is given twice");
                continue;
            }
            match check_scenario(task, scenario) {
                Ok(()) => {
                    self.mapped(&field, "workload spec.lengths");
                    kept.push(scenario.clone());
                }
                Err(remedy) => self.refused(&field, &remedy),
            }
        }
        kept
    }

    /// Returns the numbers of documents of a task that iterates over them, or else the concurrencies.
    fn genai_points(&mut self, task: &Task, load: &GenaiLoad, fields: GenaiFields) -> Vec<u64> {
        let batch_field = fields.batch.unwrap_or("batch_size");
        if task.has_batches {
            if load.concurrency.is_some() {
                self.ignored(
                    fields.concurrency,
                    "genai-bench sends requests of this task one at a time, and varies the documents of each",
                );
            }
            return self.numbers(batch_field, load.batch.as_ref(), MAX_BATCH, &BATCHES, "workload spec.batch");
        }
        if load.batch.is_some() {
            self.ignored(batch_field, "genai-bench varies the concurrency of this task, with one document in each request");
        }
        self.numbers(
            fields.concurrency,
            load.concurrency.as_ref(),
            MAX_CONCURRENCY,
            &CONCURRENCIES,
            "workload spec.load.concurrency",
        )
    }

    fn numbers(&mut self, field: &str, given: Option<&Vec<Option<u64>>>, most: u64, defaults: &[u64], to: &str) -> Vec<u64> {
        let Some(given) = given.filter(|given| !given.is_empty()) else {
            self.mapped(&format!("{field}(absent)"), to);
            return defaults.to_vec();
        };
        let mut kept: Vec<u64> = Vec::new();
        for (index, number) in given.iter().enumerate() {
            match number {
                Some(number) if kept.contains(number) => self.ignored(&format!("{field}[{index}]"), "the number is given twice"),
                Some(number) if (1..=most).contains(number) => kept.push(*number),
                _ => self.refused(&format!("{field}[{index}]"), &format!("write a whole number from 1 to {most}")),
            }
        }
        if !kept.is_empty() {
            self.mapped(field, to);
        }
        kept
    }

    /// States if responses have exactly the drawn lengths. genai-bench drops `ignore_eos` for OpenAI's API (`is_openai`), so that the
    /// lengths are upper bounds there, and sends it to other servers unless a field, which has been mapped before, says otherwise.
    pub(crate) fn genai_exact_output(&mut self, is_openai: bool) {
        let has = |name: &str, text: Option<&str>| {
            let is_value = |node: &Node| matches!((node, text), (Node::Value(Value::String(value)), Some(text)) if value == text);
            self.draft.workload.iter().any(|(key, node)| key == name && (text.is_none() || is_value(node)))
        };
        if has("api", Some("chat")) && !has("exact_output", None) {
            self.exact_output("ignore_eos(implied)", !is_openai);
        }
        self.settle_min_tokens();
    }

    /// Adds a member of each request's body, or ignores one that genai-bench drops for OpenAI's API.
    pub(crate) fn genai_body_member(&mut self, field: &str, name: &str, value: &Value, is_openai: bool) {
        if is_openai && name == "ignore_eos" {
            self.ignored(field, "genai-bench drops it for OpenAI's API, so that the lengths of responses are upper bounds");
        } else {
            self.body_member(field, name, value);
        }
    }

    /// Adds what genai-bench does without a field that says so.
    fn genai_implied(&mut self) {
        self.draft.load.push(member("connections", "never"));
        self.mapped("connections(implied)", "workload spec.load.connections");
        self.implied(Client { tool: "genai-bench", temperature: Temperature::Zero, timeout: None });
        self.tokenizer_note("tokenizer(implied)");
    }

    /// States what is counted as a token without the tokenizer of the model.
    pub(crate) fn tokenizer_note(&mut self, field: &str) {
        let note = "prompts consist of common words that count as one token each; for exact lengths, put the model's `tokenizer.json` beside \
                    the workload and add `tokenizer: tokenizer.json`";
        self.approximated(field, "workload spec.lengths", note);
    }
}

/// Returns the remedy of a scenario that cannot run, or does not fit the task.
fn check_scenario(task: &Task, scenario: &str) -> Result<(), String> {
    let kind = scenario.split('(').next().unwrap_or_default();
    if let Some((name, remedy)) = FICTIONAL.iter().find(|(name, _)| *name == kind) {
        return Err(format!("genai-bench has no scenario `{name}`: {remedy}"));
    }
    let parsed = scenario.parse::<Scenario>().map_err(|error| error.to_string())?;
    if task.kinds.contains(&kind) {
        return Ok(());
    }
    let (kinds, name) = (task.kinds.join("`, `"), task.names.first().copied().unwrap_or_default());
    Err(format!(
        "the task `{name}` takes scenarios of the kind `{kinds}`, and this one is `{}`",
        parsed.to_string().split('(').next().unwrap_or_default()
    ))
}
