//! Parts of a load that several command lines have: members of bodies, SLOs, rates.

use assay_spec::{STATED_MEMBER, is_stated_member};
use serde_json::{Value, json};

use crate::command::Arguments;
use crate::draft::{Cell, member};
use crate::mapping::Mapping;
use crate::value::{is_credential, typed, whole};
use crate::yaml::Node;

/// Members of a request's body whose value may be a text. The text of any other member is not copied: it may be a credential.
const TEXT_MEMBERS: [&str; 6] = ["stop", "reasoning_effort", "service_tier", "guided_regex", "guided_grammar", "verbosity"];

/// States what becomes of a limit of concurrency that is refused.
pub(crate) const NO_CAP: &str = "no limit of concurrency stands in its place";

/// The difference of a limit of concurrency.
pub(crate) const CAP: &str =
    "a request that is due beyond it waits, and Assay counts its latencies from the time at which it was due";

/// The difference of a limit of TTFT or E2E.
const SEND: &str = "the other tool counts from the send time, and Assay from the intended time if a request has one";

/// The difference of a limit of TPOT.
const PER_TOKEN: &str = "the other tool divides by the output tokens after the first, and Assay by those after the first event";

/// The remedy of a least number of output tokens that is not the number of all responses.
const MIN_TOKENS: &str = "Assay requests the drawn number of output tokens as the least one (`exact_output: true`), and no other: write it equal to a fixed \
                          number of output tokens, or remove it";

/// The most members of a body.
const MAX_MEMBERS: usize = 100;

impl Mapping<'_> {
    /// Sets the loads of a closed loop.
    pub(crate) fn closed(&mut self, concurrency: &[u64]) {
        let load = vec![member("mode", "closed"), member("concurrency", json!(concurrency))];
        self.draft.cells.push(Cell { points: concurrency.len() as u64, load, ..Cell::default() });
    }

    /// Sets the rates of an open loop, with the arrival process.
    pub(crate) fn open(&mut self, rates: &[f64], arrival: &str, smoothness: Option<f64>, cap: Option<u64>) {
        let rates: Vec<Value> = rates.iter().map(|rate| plain_number(*rate)).collect();
        let mut load = vec![member("mode", "open"), member("rate", Value::Array(rates.clone())), member("arrival", arrival)];
        load.extend(smoothness.map(|smoothness| member("smoothness", plain_number(smoothness))));
        load.extend(cap.map(|cap| member("max_concurrency", cap)));
        self.draft.cells.push(Cell { points: rates.len() as u64, load, ..Cell::default() });
    }

    /// Adds members of each request's body. `ignore_eos` becomes `exact_output`.
    pub(crate) fn body(&mut self, field: &str, members: &serde_json::Map<String, Value>) {
        if members.len() > MAX_MEMBERS {
            return self.refused(field, "a body has at most 100 further members");
        }
        for (name, value) in members {
            self.body_member(&format!("{field}.{name}"), name, value);
        }
    }

    /// Adds one member of each request's body.
    pub(crate) fn body_member(&mut self, field: &str, name: &str, value: &Value) {
        let value = value.as_str().map_or_else(|| value.clone(), typed);
        match name {
            "ignore_eos" => {
                return match value {
                    Value::Bool(exact) => self.exact_output(field, exact),
                    _ => self.refused(field, "write `true` or `false`"),
                };
            }
            "min_tokens" => {
                self.min_tokens = Some((field.to_owned(), value));
                return;
            }
            _ if states_what_is_measured(name) => return self.refused(field, STATED_MEMBER),
            _ => {}
        }
        let is_name = name.len() <= 100
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        let is_named_credential = is_credential(name, "some-text") && !value.is_number() && !value.is_boolean();
        if !is_name || is_named_credential || !is_harmless(name, &value, 0) {
            let remedy = "its text may be a credential, and is not copied: add it to `extra_body` of the workload, or send a credential in `headers` \
                          of the target";
            return self.refused(field, remedy);
        }
        let is_scalar = value.is_number() || value.is_boolean() || value.is_string();
        if !is_scalar {
            self.add_to_extra_body(name, value);
            return self.mapped(field, "workload spec.extra_body");
        }
        match self.draft.workload.iter_mut().find(|(key, _)| key == "body") {
            Some((_, Node::Value(Value::Object(known)))) => {
                known.insert(name.to_owned(), value);
            }
            _ => self.draft.workload.push(member("body", json!({name: value}))),
        }
        self.mapped(field, "workload spec.body");
    }

    /// Adds a member to `extra_body`, which is the text of a JSON object.
    pub(crate) fn add_to_extra_body(&mut self, name: &str, value: Value) {
        let known = self.draft.workload.iter_mut().find(|(key, _)| key == "extra_body");
        if let Some((_, Node::Value(Value::String(text)))) = known {
            let mut members: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
            members.insert(name.to_owned(), value);
            *text = Value::Object(members).to_string();
        } else {
            self.draft.workload.push(member("extra_body", json!({name: value}).to_string()));
        }
    }

    /// Returns true if the workload adds a member to the body of each request.
    pub(crate) fn has_body_member(&self, name: &str) -> bool {
        self.draft.workload.iter().any(|(key, node)| match (key.as_str(), node) {
            ("body", Node::Value(Value::Object(members))) => members.contains_key(name),
            ("extra_body", Node::Value(Value::String(text))) => {
                serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok_and(|members| members.contains_key(name))
            }
            _ => false,
        })
    }

    /// Maps the least number of output tokens, after the lengths and `ignore_eos`: Assay has such a number only as a part of `exact_output`.
    pub(crate) fn settle_min_tokens(&mut self) {
        let Some((field, value)) = self.min_tokens.take() else { return };
        let is_exact =
            self.draft.workload.iter().any(|(key, node)| key == "exact_output" && matches!(node, Node::Value(Value::Bool(true))));
        match (whole(&value), self.fixed_output()) {
            (None, _) => self.refused(&field, "write a whole number"),
            (Some(0), _) => self.ignored(&field, "0 is what a server takes without it"),
            (Some(least), Some(output)) if least == output || (is_exact && least < output) => {
                self.draft.workload.retain(|(key, _)| key != "exact_output");
                self.exact_output(&field, true);
            }
            _ => self.refused(&field, MIN_TOKENS),
        }
    }

    /// Returns the output tokens of all requests, if they are the same number.
    fn fixed_output(&self) -> Option<u64> {
        let lengths = self.draft.workload.iter().find(|(key, _)| key == "lengths");
        let of_workload = lengths.and_then(|(_, node)| match node {
            Node::Value(lengths) => lengths.pointer("/output/fixed")?.as_u64(),
            _ => None,
        });
        of_workload.or_else(|| {
            let cells = self.draft.cells.iter().flat_map(|cell| &cell.members).filter(|(key, _)| key == "lengths");
            let outputs: Vec<Option<u64>> = cells.map(|(_, node)| scenario_output(node)).collect();
            outputs.first().copied().flatten().filter(|first| outputs.iter().all(|output| *output == Some(*first)))
        })
    }

    /// States if the endpoint has to generate exactly the drawn number of tokens.
    pub(crate) fn exact_output(&mut self, field: &str, exact: bool) {
        if !self.draft.workload.iter().any(|(key, _)| key == "exact_output") {
            self.draft.workload.push(member("exact_output", exact));
        }
        self.mapped(field, "workload spec.exact_output");
    }

    /// Sets limits of requests from words such as `ttft:200`, in milliseconds.
    pub(crate) fn slos(&mut self, field: &str, words: &[&str]) {
        let mut slos = serde_json::Map::new();
        for word in words.iter().flat_map(|word| word.split_whitespace()) {
            let (name, limit) = word.split_once(':').unwrap_or((word, ""));
            let name = match name {
                "ttft" | "time_to_first_token" => "ttft",
                "tpot" | "inter_token_latency" => "tpot",
                "e2el" | "request_latency" => "e2e",
                _ => return self.refused(field, "Assay has the limits `ttft`, `tpot` and `e2el` (`slos` of the workload)"),
            };
            let Some(limit) = limit.parse::<f64>().ok().filter(|limit| *limit > 0.0 && *limit < 1e9) else {
                return self.refused(field, "write each limit as NAME:MILLISECONDS");
            };
            slos.insert(name.to_owned(), json!(format!("{limit}ms")));
        }
        if slos.is_empty() {
            return self.refused(field, "write each limit as NAME:MILLISECONDS");
        }
        self.limits(field, slos);
    }

    /// Sets limits of requests, whose latencies differ from those of the other tool.
    fn limits(&mut self, field: &str, slos: serde_json::Map<String, Value>) {
        let mut hows: Vec<String> = Vec::new();
        for how in [SEND, PER_TOKEN] {
            let names: Vec<String> =
                slos.keys().filter(|slo| difference_of_slo(slo) == how).map(|slo| format!("`{slo}`")).collect();
            if !names.is_empty() {
                hows.push(format!("{}: {how}", names.join(" and ")));
            }
        }
        self.draft.workload.push(member("slos", Value::Object(slos)));
        self.approximated(field, "workload spec.slos", &hows.join("; "));
    }
}

/// Returns true for a member that other fields of a workload decide, with any of the APIs that an import writes.
fn states_what_is_measured(name: &str) -> bool {
    ["chat", "completions", "responses", "messages", "embeddings", "rerank"].iter().any(|api| is_stated_member(api, name))
}

/// Returns the output tokens of a deterministic scenario, `D(input,output)`.
fn scenario_output(lengths: &Node) -> Option<u64> {
    let Node::Value(Value::String(scenario)) = lengths else { return None };
    let (_, output) = scenario.strip_prefix("D(")?.strip_suffix(')')?.split_once(',')?;
    output.trim().parse().ok()
}

/// States the difference between a limit of another tool and the limit of Assay that it becomes.
pub(crate) fn difference_of_slo(slo: &str) -> &'static str {
    if slo == "tpot" { PER_TOKEN } else { SEND }
}

/// States the difference of normally distributed lengths that the other tool clips to bounds, and how far away the bounds are.
pub(crate) fn clipping(mean: f64, stddev: f64, least: Option<f64>, most: Option<f64>) -> String {
    let distance = |bound: f64| format!("{:.1}", (bound - mean).abs() / stddev);
    let bounds: Vec<f64> = least.into_iter().chain(most).collect();
    let names = bounds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    let distances = bounds.iter().copied().map(distance).collect::<Vec<_>>().join(" and ");
    format!("lengths are not clipped at {names}, {distances} standard deviations from the mean: Assay clips only at 1")
}

/// Returns true if bounds cut off so much of a normal distribution that its mean and spread are others without them: a twentieth on both sides together.
pub(crate) fn is_clipped_much(mean: f64, stddev: f64, least: Option<f64>, most: Option<f64>) -> bool {
    least.into_iter().chain(most).any(|bound| (bound - mean).abs() < 2.0 * stddev)
}

/// Returns a number without a fraction if it has none.
pub(crate) fn plain_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

/// Returns true if a value holds no text but that of members which are known to hold one.
fn is_harmless(name: &str, value: &Value, depth: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => TEXT_MEMBERS.contains(&name) && !is_credential(name, text),
        Value::Array(items) => depth < 8 && items.iter().all(|item| is_harmless(name, item, depth + 1)),
        Value::Object(members) => depth < 8 && members.iter().all(|(name, value)| is_harmless(name, value, depth + 1)),
    }
}

impl Mapping<'_> {
    /// Sets the inference server.
    pub(crate) fn stack(&mut self, field: &str, text: &str) {
        match plain_label(text) {
            Some(engine) => {
                self.draft.stack = Some(engine.to_ascii_lowercase());
                self.mapped(field, "workload spec.stack");
            }
            None => self.refused(field, "write the inference server, such as `vLLM`"),
        }
    }

    /// Declares a fact about the target, if it is given.
    pub(crate) fn fact(&mut self, field: &str, list: &str, name: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        let Some(label) = plain_label(text) else {
            return self.refused(field, "write letters, digits and `._+-`, at most 40 of them");
        };
        let value = Value::from(label);
        match self.draft.facts.iter_mut().find(|(key, _)| key == list) {
            Some((_, Node::Map(members))) => members.push(member(name, value)),
            _ => self.draft.facts.push((list.to_owned(), Node::Map(vec![member(name, value)]))),
        }
        let to = format!("pipeline spec.targets[0].{list}.{name}");
        if text == "A100" {
            self.approximated(field, &to, "an A100 has 40 or 80 GB: write `A100-40G` or `A100-80G`");
        } else {
            self.mapped(field, &to);
        }
    }

    /// Sets the address of the endpoint from `--base-url`, or else from `--host` and `--port`, which are this machine and this port by default.
    pub(crate) fn base_url(&mut self, arguments: &Arguments, port: u64) {
        match arguments.one("--base-url") {
            Some(url) => {
                self.endpoint("--base-url", url);
                for name in ["--host", "--port"].into_iter().filter(|name| arguments.has(name)) {
                    self.ignored(name, "`--base-url` names the endpoint");
                }
            }
            None => self.host_and_port(arguments, port),
        }
    }

    fn host_and_port(&mut self, arguments: &Arguments, port: u64) {
        let port = arguments.whole_or("--port", port, "pipeline spec.targets[0].url", self);
        let host = arguments.one("--host").unwrap_or("127.0.0.1");
        self.endpoint(&arguments.field("--host"), &format!("http://{host}:{port}"));
        if arguments.has("--port") {
            self.mapped("--port", "pipeline spec.targets[0].url");
        }
    }

    /// Sets the load of a command that sends a number of requests, at a rate or by users: `how` is the difference of its arrival process.
    pub(crate) fn rate_or_concurrency(&mut self, arguments: &Arguments, how: &str) {
        let requests = arguments.whole_or("--num-prompts", 1000, "workload spec.load.requests", self);
        let field = &arguments.field("--num-prompts");
        if !(1..=1_000_000_000).contains(&requests) {
            return self.refused(field, "write a number of requests from 1");
        }
        self.draft.load.push(member("requests", requests));
        self.mapped(field, "workload spec.load.requests");
        let cap = arguments.whole("--max-concurrency", self);
        match arguments.one("--request-rate") {
            None | Some("inf") => {
                if arguments.has("--request-rate") {
                    self.mapped("--request-rate", "workload spec.load.mode");
                }
                if let Some(cap) = cap {
                    self.mapped("--max-concurrency", "workload spec.load.concurrency");
                    self.closed(&[cap]);
                } else {
                    let how = "all requests are sent at once, as by as many users as there are requests";
                    self.approximated("--max-concurrency(absent)", "workload spec.load.concurrency", how);
                    self.closed(&[requests]);
                }
                if arguments.has("--burstiness") {
                    self.ignored("--burstiness", "it shapes a rate, and there is none");
                }
            }
            Some(_) => self.rate(arguments, cap, how),
        }
    }

    fn rate(&mut self, arguments: &Arguments, cap: Option<u64>, how: &str) {
        let Some(rate) = arguments.number("--request-rate", self) else { return };
        let smoothness = arguments.number_or("--burstiness", 1.0, "workload spec.load.arrival", self);
        self.approximated("--request-rate", "workload spec.load.rate", how);
        if arguments.has("--burstiness") {
            self.mapped("--burstiness", "workload spec.load.smoothness");
        }
        self.stands_in("--max-concurrency", "workload spec.load", NO_CAP);
        if cap.is_some() {
            self.approximated("--max-concurrency", "workload spec.load.max_concurrency", CAP);
        }
        if (smoothness - 1.0).abs() > f64::EPSILON {
            self.open(&[rate], "gamma", Some(smoothness), cap);
        } else {
            self.open(&[rate], "poisson", None, cap);
        }
    }

    /// States that the endpoint's prefix cache is used as it is.
    pub(crate) fn shared_cache(&mut self) {
        self.draft.workload.push(member("cache", "shared"));
        self.mapped("prefix_cache(implied)", "workload spec.cache");
    }

    /// States that prompts are counted by no tokenizer, whether this option names one or not.
    pub(crate) fn tokenizer_option(&mut self, arguments: &Arguments, name: &str) {
        self.tokenizer_note(if arguments.has(name) { name } else { "tokenizer(implied)" });
    }

    /// States that each point is measured once.
    pub(crate) fn measured_once(&mut self) {
        self.draft.pipeline.push(member("trials", json!({"count": 1})));
        let how = "the other tool measures each point once, which gives no interval: write 5 to get intervals";
        self.approximated("trials(implied)", "pipeline spec.trials", how);
    }

    /// Sets the time after which a request has failed, from seconds. `how` is the difference, if the other tool limits another time.
    pub(crate) fn timeout(&mut self, arguments: &Arguments, name: &str, how: Option<&str>) {
        let Some(seconds) = arguments.number(name, self) else { return };
        let millis = (seconds * 1000.0).round();
        if (1.0..=86_400_000.0).contains(&millis) {
            self.draft.load.push(member("timeout", format!("{}ms", millis as u64)));
            match how {
                Some(how) => self.approximated(name, "workload spec.load.timeout", how),
                None => self.mapped(name, "workload spec.load.timeout"),
            }
        } else {
            self.refused(name, "write a number of seconds above 0, at most a day");
        }
    }

    /// States if responses are streamed, which the other tool does or does not by default.
    pub(crate) fn streaming(&mut self, arguments: &Arguments, name: &str, default: bool) {
        let streaming = match arguments.one(name) {
            None => default,
            Some("true") => true,
            Some("false") => false,
            Some(_) => return self.refused(name, "write `true` or `false`"),
        };
        self.draft.workload.push(member("streaming", streaming));
        self.mapped(&arguments.field(name), "workload spec.streaming");
    }

    /// Returns the members of a JSON object; `None` if it is absent, empty or none.
    pub(crate) fn json_members(&mut self, arguments: &Arguments, name: &str) -> Option<serde_json::Map<String, Value>> {
        match serde_json::from_str::<Value>(arguments.one(name)?) {
            Ok(Value::Object(members)) if members.is_empty() => self.ignored(name, "it is empty"),
            Ok(Value::Object(members)) => return Some(members),
            _ => self.refused(name, "write a JSON object"),
        }
        None
    }
}

/// Returns a short text of a known field, such as a version; `None` if it may be something else.
pub(crate) fn plain_label(text: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    let accepted = !text.is_empty() && text.len() <= 40 && text.bytes().all(is_plain) && !is_credential("", text);
    accepted.then(|| text.to_owned())
}
