//! `mlperf.conf` and `user.conf` of MLPerf's LoadGen: lines such as `llama2-70b.Server.target_qps = 10`.

use serde_json::{Map, Value, json};

use crate::command::Takes::One;
use crate::command::{Flag, Treatment, default_in_place, ignored, one, refused, unless};
use crate::draft::{Cell, Member, member};
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::load::plain_number;
use crate::loadgen::{SCENARIOS, Setting, Settings, is_setting};
use crate::mapping::Mapping;
use crate::note::OWN_SEED;
use crate::row::Outcome;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "mlperf-conf",
    title: "a configuration of MLPerf's LoadGen",
    versions: "LoadGen 5.0.11 to 6.0.17",
    recognised_by: "a first line such as `MODEL.SCENARIO.key = NUMBER`, with a scenario of LoadGen or `*`",
    examples: &[
        Example {
            name: "rules",
            input: ExampleInput::File(include_str!("examples/mlperf.conf")),
            options: "--url http://127.0.0.1:8000 --only llama2-70b --lengths N(300,150)/(294,150)",
        },
        Example {
            name: "user",
            input: ExampleInput::File(include_str!("examples/user.conf")),
            options: "--url http://127.0.0.1:8000 --model llama-3.1-8b --lengths D(512,128)",
        },
    ],
    fields: || docs(TABLE),
    reader: Reader::Text { recognises, map },
};

const ACCURACY: &str = "Assay checks no accuracy: check it with LoadGen's mode `AccuracyOnly`";
const ALL_ROWS: &str = "Assay sends each row of a dataset once before any is repeated, and draws lengths for each request";
const BARRIER: &str = "Assay has no load whose requests wait for one another, as the samples of a query do: choose another scenario with \
                       `--only MODEL.SCENARIO`, and write `load: {mode: closed, concurrency: [NUMBER]}` for as many requests at a time";
const NO_TOKENS: &str = "Assay measures the tokens of a response, and infers none";
const NO_LIMIT: &str = "0 is no limit";
const REFUSED_SCENARIO: &str = "its scenario is refused";

/// The keys, by the scenario that reads them; `*` stands for all scenarios.
pub(crate) static TABLE: &[Flag] = &[
    one(&["Server.target_qps"], "`spec.load.rate` of a Poisson process; absent: 1", "2.5"),
    one(&["Server.target_latency"], "`spec.slos.e2e`, in milliseconds, without `use_token_latencies`", "500"),
    one(&["Server.target_latency_percentile"], "a comment on `spec.slos`: compare `good_fraction` with it; absent: 99", "97"),
    one(&["Server.ttft_latency"], "`spec.slos.ttft`, in milliseconds, with `use_token_latencies`", "450"),
    one(&["Server.tpot_latency"], "`spec.slos.tpot`, in milliseconds, with `use_token_latencies`", "40"),
    one(&["Server.max_async_queries"], "`spec.load.over_saturation.in_flight`; 0 is no limit", "100"),
    unless(&["Server.coalesce_queries"], "0", "Assay sends each request by itself: write 0", "1"),
    one(&["Offline.target_qps"], "`spec.load.requests`, with `min_duration`; absent: 1", "3000"),
    ignored(&["Offline.target_latency_percentile"], One, "LoadGen judges no latency of this scenario"),
    one(&["SingleStream.target_latency"], "a guess in milliseconds, by which the end of a trial is chosen; absent: 10", "20"),
    ignored(&["SingleStream.target_latency_percentile"], One, "results have the percentiles of all latencies"),
    refused(&["MultiStream.samples_per_query"], One, BARRIER),
    ignored(&["MultiStream.target_latency"], One, REFUSED_SCENARIO),
    ignored(&["MultiStream.target_latency_percentile"], One, REFUSED_SCENARIO),
    one(
        &["*.min_duration"],
        "`spec.load.duration`, in milliseconds, unless `min_query_count` ends later; absent: 600000",
        "60000",
    ),
    one(&["*.min_query_count"], "`spec.load.requests`, unless `min_duration` ends later; absent: 100", "5000"),
    one(&["*.max_duration"], "`spec.load.duration` beside `requests`; 0 is no limit", "900000"),
    one(&["*.max_query_count"], "`spec.load.requests` beside `duration`; 0 is no limit", "9000"),
    one(&["*.use_token_latencies"], "the latencies that have limits: those of tokens, or of whole responses", "1"),
    ignored(&["*.infer_token_latencies"], One, NO_TOKENS),
    ignored(&["*.token_latency_scaling_factor"], One, NO_TOKENS),
    unless(
        &["*.mode"],
        "2",
        "Assay measures performance and checks no accuracy: write 2; `assay bench` searches for the most load",
        "0",
    ),
    ignored(&["*.qsl_rng_seed"], One, OWN_SEED),
    ignored(&["*.sample_index_rng_seed"], One, OWN_SEED),
    ignored(&["*.schedule_rng_seed"], One, OWN_SEED),
    ignored(&["*.accuracy_log_rng_seed"], One, ACCURACY),
    ignored(&["*.accuracy_log_probability"], One, ACCURACY),
    ignored(&["*.accuracy_log_sampling_target"], One, ACCURACY),
    ignored(&["*.accuracy_sample_count_override"], One, ACCURACY),
    unless(&["*.test05"], "0", "Assay runs no audit of MLPerf: remove it, and run the audit with LoadGen", "1"),
    ignored(&["*.test05_qsl_rng_seed"], One, OWN_SEED),
    ignored(&["*.test05_sample_index_rng_seed"], One, OWN_SEED),
    ignored(&["*.test05_schedule_rng_seed"], One, OWN_SEED),
    ignored(&["*.performance_sample_count_override"], One, ALL_ROWS),
    ignored(&["*.sample_concatenate_permutation"], One, ALL_ROWS),
    unless(&["*.performance_issue_unique"], "0", "write a dataset, of which each row is sent once: `dataset: {path: FILE}`", "1"),
    unless(&["*.performance_issue_same"], "0", "write a dataset of one row: `dataset: {path: FILE}`", "1"),
    ignored(&["*.performance_issue_same_index"], One, "it belongs to `performance_issue_same`"),
    ignored(&["*.print_timestamps"], One, "Assay keeps the times of all requests"),
    ignored(&["*.target_duration"], One, "LoadGen does not read it"),
];

/// The least time of a trial, in milliseconds, in the `mlperf.conf` that LoadGen 6.0.17 reads in front of a `user.conf`.
const MIN_MILLIS: u64 = 600_000;
/// The least number of queries of a trial in LoadGen 6.0.17.
const MIN_QUERIES: u64 = 100;
/// The guess of a latency, in milliseconds, in the `mlperf.conf` of LoadGen 6.0.17.
const GUESSED_LATENCY: f64 = 10.0;
/// The percentile of LoadGen 6.0.17 for the latencies of a server.
const PERCENTILE: f64 = 99.0;
/// The factor by which LoadGen 6.0.17 adds to the samples of an offline query.
const OFFLINE_SLACK: f64 = 1.1;
/// The largest number of requests of a trial, and the largest rate.
const MAX_REQUESTS: f64 = 1e7;
/// The longest time of a trial, in milliseconds: 28 days.
const MAX_MILLIS: u64 = 28 * 24 * 3_600_000;
/// The longest time of a request: a day.
const MAX_TIMEOUT_MINUTES: u64 = 24 * 60;
/// The largest limit of requests in flight.
const MAX_IN_FLIGHT: u64 = 1_000_000;

/// Returns true if the first line that is neither empty nor a comment sets a key of a scenario.
fn recognises(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().is_some_and(is_setting)
}

/// Maps the settings of one model, a workload for each of its scenarios.
fn map(text: &str, mapping: &mut Mapping<'_>) {
    let mut settings = Settings::read(text, mapping);
    mapping.draft.workload.push(member("api", "chat"));
    if let Some((model, scenarios)) = choose(&settings, mapping) {
        name_model(&model, mapping);
        for scenario in &scenarios {
            mapping.workload = Some(suffix(scenario).to_owned());
            let cell = Scenario { settings: &mut settings, model: &model, name: scenario, minutes: 0, mapping }.map();
            mapping.draft.cells.extend(cell);
        }
        mapping.workload = None;
        report(&mut settings, &model, &scenarios, mapping);
    }
    mapping.no_endpoint("endpoint", "the file names no endpoint: name its address with `--url URL`");
    mapping.settle_model("model");
    let remedy = "LoadGen takes its samples from a dataset that the file does not name: state their numbers of tokens with `--lengths SCENARIO`, \
                  such as `D(512,128)`, and write `dataset` instead into the workloads if you have the file";
    mapping.settle_lengths("dataset", remedy);
    let api = "the file states no API: write `completions` if the endpoint has no chat";
    mapping.approximated("api(implied)", "workload spec.api", api);
    mapping.shared_cache();
    mapping.measured_once();
}

/// Returns the model and the scenarios that `--only` names, or else those of the file. The model is `*` if neither names one.
fn choose(settings: &Settings, mapping: &mut Mapping<'_>) -> Option<(String, Vec<&'static str>)> {
    mapping.declare_parts();
    let (only_model, only_scenario) = mapping.options.only.as_deref().map(split_choice).unwrap_or_default();
    let models = settings.models();
    let model = if models.is_empty() {
        only_model.unwrap_or("*").to_owned()
    } else {
        let place = mapping.choose_part("model", &models, only_model)?;
        models.get(place)?.clone()
    };
    let scenarios: Vec<&'static str> = match only_scenario {
        Some(scenario) => vec![scenario],
        None => SCENARIOS.into_iter().filter(|scenario| settings.has_scenario(&model, scenario)).collect(),
    };
    if scenarios.is_empty() {
        mapping
            .refused("--only(absent)", "the file names no scenario: choose one with `--only MODEL.SCENARIO`, such as `Server`");
        return None;
    }
    Some((model, scenarios))
}

/// Splits `MODEL`, `SCENARIO` or `MODEL.SCENARIO`.
fn split_choice(only: &str) -> (Option<&str>, Option<&'static str>) {
    let ends = |scenario: &&'static str| Some((only.strip_suffix(scenario)?, *scenario));
    match SCENARIOS.iter().find_map(ends) {
        Some(("", scenario)) => (None, Some(scenario)),
        Some((rest, scenario)) if rest.ends_with('.') => (rest.strip_suffix('.'), Some(scenario)),
        _ => (Some(only), None),
    }
}

/// Names the pipeline and the model by the benchmark.
fn name_model(model: &str, mapping: &mut Mapping<'_>) {
    if model == "*" {
        mapping.draft.set_name("mlperf");
        return;
    }
    mapping.draft.set_name(model);
    if mapping.options.model.is_none() {
        mapping.draft.model = Some(model.to_owned());
        let how = "the file names a benchmark, whose name stands for the model in requests: `--model NAME` states another";
        mapping.approximated("model(absent)", "workload spec.model", how);
    }
}

fn suffix(scenario: &str) -> &'static str {
    match scenario {
        "Server" => "server",
        "Offline" => "offline",
        "SingleStream" => "single-stream",
        _ => "multi-stream",
    }
}

/// Adds the rows of all settings, in the order of the file. Those of other models and scenarios share one.
fn report(settings: &mut Settings, model: &str, scenarios: &[&'static str], mapping: &mut Mapping<'_>) {
    let mut others = 0;
    for index in 0..settings.all.len() {
        let Some(setting) = settings.all.get(index) else { continue };
        let field = setting.field();
        let applies = setting.is_of(model) && (setting.scenario == "*" || scenarios.contains(&setting.scenario.as_str()));
        let reads = |scenario: &&'static str| flag_of(scenario, &setting.key).is_some() && setting.is_of(model);
        let is_read =
            scenarios.iter().any(|scenario| reads(scenario) && (setting.scenario == "*" || setting.scenario == *scenario));
        match &setting.treatment {
            Some(treated) => match treated.outcome {
                Outcome::Ignored => mapping.ignored(&field, &treated.note),
                Outcome::Refused => mapping.refused(&field, &treated.note),
                Outcome::Mapped => mapping.mapped(&field, &treated.to),
                outcome => mapping.row(&field, outcome, Some(&treated.to), Some(&treated.note)),
            },
            None if !applies => others += 1,
            None if is_read => mapping.ignored(&field, "a more specific setting takes precedence"),
            None => mapping.ignored(&field, &unread(&setting.key)),
        }
    }
    if others > 0 {
        let note = format!("{others} settings of models and scenarios that are not imported: `--only NAME` chooses others");
        mapping.ignored("(others)", &note);
    }
}

/// Returns why no scenario that is imported reads a key.
fn unread(key: &str) -> String {
    let keys = || TABLE.iter().flat_map(|flag| flag.names).filter_map(|name| name.split_once('.')).map(|(_, key)| key);
    if keys().any(|known| known == key) {
        return "no scenario that is imported reads it".to_owned();
    }
    let hint = assay_spec::did_you_mean(key, keys()).map(|hint| format!(": {hint}")).unwrap_or_default();
    format!("LoadGen reads no such key, and its value is not copied{hint}")
}

/// Returns the row of the table for a key that a scenario reads.
fn flag_of(scenario: &str, key: &str) -> Option<&'static Flag> {
    let reads = |name: &&str| name.split_once('.').is_some_and(|(of, known)| known == key && (of == "*" || of == scenario));
    TABLE.iter().find(|flag| flag.names.iter().any(reads))
}

/// One scenario of a model, which becomes a workload.
struct Scenario<'a, 'b, 'c> {
    settings: &'a mut Settings,
    model: &'a str,
    name: &'static str,
    /// The minutes that its trial takes, as far as the file states them.
    minutes: u64,
    mapping: &'b mut Mapping<'c>,
}

impl Scenario<'_, '_, '_> {
    /// Returns the workload; `None` if it is refused.
    fn map(&mut self) -> Option<Cell> {
        self.settle_others();
        let (load, members) = match self.name {
            "Server" => self.server()?,
            "Offline" => (self.offline()?, Vec::new()),
            "SingleStream" => (self.single_stream()?, Vec::new()),
            _ => {
                self.multi_stream();
                return None;
            }
        };
        Some(Cell { suffix: suffix(self.name).to_owned(), points: 1, minutes: Some(self.minutes), load, members })
    }

    /// Treats the keys that are ignored or refused whatever the load.
    fn settle_others(&mut self) {
        for flag in TABLE {
            let Some((of, key)) = flag.names.first().and_then(|name| name.split_once('.')) else { continue };
            let Some(value) = self.setting(key).filter(|_| of == "*" || of == self.name).map(|setting| setting.value.clone())
            else {
                continue;
            };
            match flag.treatment {
                Treatment::Ignored(why) => self.ignored(key, why),
                Treatment::Unless { value: harmless, .. } if value == harmless => {
                    self.ignored(key, "with this value it changes nothing");
                }
                Treatment::Refused(remedy) | Treatment::Unless { remedy, .. } => self.refused(key, remedy),
                Treatment::Carried(_) => {}
            }
        }
    }

    /// Queries arrive as a Poisson process, and their latencies have limits.
    fn server(&mut self) -> Option<(Vec<Member>, Vec<Member>)> {
        let rate = self.rate("workload spec.load.rate")?;
        self.mapped("target_qps", "workload spec.load.rate");
        let mut load = vec![member("mode", "open"), member("rate", json!([plain_number(rate)])), member("arrival", "poisson")];
        load.extend(self.end(1_000.0 / rate)?);
        load.extend(self.over_saturation());
        Some((load, self.slos()))
    }

    /// One query has all samples.
    fn offline(&mut self) -> Option<Vec<Member>> {
        let to = "workload spec.load.requests";
        let rate = self.rate(to)?;
        let (millis, queries) = (self.whole("min_duration", MIN_MILLIS, to), self.whole("min_query_count", MIN_QUERIES, to));
        let of_time = (OFFLINE_SLACK * (millis as f64 / 1_000.0) * rate).floor();
        let samples = of_time.max(queries as f64);
        let how = format!(
            "LoadGen sends the larger of `min_query_count` and 1.1 x `min_duration` x `target_qps` samples, which is {samples}"
        );
        let (used, unused): (&[&str], &[&str]) = if of_time > queries as f64 {
            (&["target_qps", "min_duration"], &["min_query_count"])
        } else {
            (&["min_query_count"], &["target_qps", "min_duration"])
        };
        if !(1.0..=MAX_REQUESTS).contains(&samples) {
            let field = used.first().copied().unwrap_or_default();
            self.refused(field, "the samples of the query are from 1 to 10000000: change it");
            return None;
        }
        for key in used {
            self.approximated(key, to, &how);
        }
        for key in unused {
            self.ignored(key, "the other settings give more samples");
        }
        for key in ["max_duration", "max_query_count"] {
            self.ignored(key, "LoadGen hands over all samples in one query, which it does not end");
        }
        self.ignored("use_token_latencies", "Assay measures the latencies of tokens, and this scenario has no limits");
        self.minutes = (samples / rate / 60.0).ceil() as u64;
        let samples = samples as u64;
        let at_once =
            "LoadGen hands over all samples in one query; they are sent at once, as by as many users as there are samples";
        self.mapping.approximated("Offline(implied)", "workload spec.load.concurrency", at_once);
        let timeout = self.minutes.saturating_add(5).min(MAX_TIMEOUT_MINUTES);
        let how =
            "LoadGen has no limit for a sample; here, one fails once the endpoint takes much longer than `target_qps` lets it";
        self.mapping.approximated("Offline.timeout(implied)", "workload spec.load.timeout", how);
        Some(vec![
            member("mode", "closed"),
            member("concurrency", json!([samples])),
            member("requests", samples),
            member("timeout", format!("{timeout}m")),
        ])
    }

    /// Each query follows the response to the one before.
    fn single_stream(&mut self) -> Option<Vec<Member>> {
        let latency = self.number("target_latency", GUESSED_LATENCY, "workload spec.load");
        if latency <= 0.0 {
            self.refused("target_latency", "write a time above 0");
            return None;
        }
        let mut load = vec![member("mode", "closed"), member("concurrency", json!([1]))];
        load.extend(self.end(latency)?);
        let how = "it is LoadGen's guess of the latency, by which the end of the trial is chosen, and no limit";
        self.approximated("target_latency", "workload spec.load", how);
        self.ignored("use_token_latencies", "Assay measures the latencies of tokens, and this scenario has no limits");
        Some(load)
    }

    fn multi_stream(&mut self) {
        if self.setting("samples_per_query").is_none() {
            self.mapping.refused("MultiStream.samples_per_query(absent)", BARRIER);
        }
        for key in ["min_duration", "min_query_count", "max_duration", "max_query_count", "use_token_latencies"] {
            self.ignored(key, REFUSED_SCENARIO);
        }
    }

    /// Returns the queries per second, which are above 0.
    fn rate(&mut self, to: &str) -> Option<f64> {
        let rate = self.number("target_qps", 1.0, to);
        if rate > 0.0 && rate <= MAX_REQUESTS {
            return Some(rate);
        }
        self.refused("target_qps", "write a number of queries per second above 0, at most 10000000");
        None
    }

    /// Returns the end of a trial whose queries take so long each: the later one of a time and a number of queries, as in LoadGen.
    fn end(&mut self, millis_per_query: f64) -> Option<Vec<Member>> {
        let (duration, requests) = ("workload spec.load.duration", "workload spec.load.requests");
        let millis = self.whole("min_duration", MIN_MILLIS, duration);
        let queries = self.whole("min_query_count", MIN_QUERIES, requests);
        let of_queries = queries as f64 * millis_per_query;
        let by_time = of_queries <= millis as f64;
        if millis > MAX_MILLIS || of_queries > MAX_MILLIS as f64 || (millis == 0 && queries == 0) {
            let key = if by_time { "min_duration" } else { "min_query_count" };
            self.refused(
                key,
                "write an end of the trial: a time of at most 28 days, or a number of queries that takes no longer",
            );
            return None;
        }
        self.minutes = (of_queries.max(millis as f64) / 60_000.0).ceil() as u64;
        let timeout = "LoadGen has no limit for a query; Assay counts one as failed after 5 minutes (`load.timeout`)";
        self.mapping.approximated(&format!("{}.timeout(implied)", self.name), "workload spec.load", timeout);
        let how =
            "LoadGen ends when `min_duration` has passed and `min_query_count` queries are done; at this load, this one is later";
        let (used, unused) = if by_time { ("min_duration", "min_query_count") } else { ("min_query_count", "min_duration") };
        self.approximated(used, if by_time { duration } else { requests }, how);
        self.ignored(unused, &format!("at this load, `{used}` ends later"));
        let least = if by_time { member("duration", format!("{millis}ms")) } else { member("requests", queries) };
        Some([least].into_iter().chain(self.most(by_time, millis, queries)).collect())
    }

    /// Returns the limit at which LoadGen ends a trial although its least end is not reached.
    fn most(&mut self, by_time: bool, millis: u64, queries: u64) -> Option<Member> {
        let (used, unused) = if by_time { ("max_query_count", "max_duration") } else { ("max_duration", "max_query_count") };
        let least = if by_time { millis } else { queries };
        match self.whole(unused, 0, "workload spec.load") {
            0 => self.ignored(unused, NO_LIMIT),
            most if most < least => self.refused(unused, "it ends the trial before its least end: correct one of them"),
            _ => self.ignored(unused, "the trial ends before"),
        }
        let to = if by_time { "workload spec.load.requests" } else { "workload spec.load.duration" };
        match self.whole(used, 0, to) {
            0 => self.ignored(used, NO_LIMIT),
            most if most > MAX_MILLIS => self.refused(used, "write a smaller number, or 0"),
            most => {
                self.mapped(used, to);
                return Some(if by_time { member("requests", most) } else { member("duration", format!("{most}ms")) });
            }
        }
        None
    }

    fn over_saturation(&mut self) -> Option<Member> {
        let to = "workload spec.load.over_saturation";
        match self.whole("max_async_queries", 0, to) {
            0 => self.ignored("max_async_queries", NO_LIMIT),
            most if most > MAX_IN_FLIGHT => self.refused("max_async_queries", "write a number of at most 1000000, or 0"),
            most => {
                let how = "LoadGen ends once more queries are in flight, and Assay once they have been for one second";
                self.approximated("max_async_queries", to, how);
                return Some(member("over_saturation", json!({"in_flight": most, "for": "1s"})));
            }
        }
        None
    }

    /// Returns the limits of latencies that LoadGen judges.
    fn slos(&mut self) -> Vec<Member> {
        let of_tokens = self.whole("use_token_latencies", 0, "workload spec.slos") == 1;
        let mut slos = Map::new();
        for (key, slo, is_judged) in
            [("ttft_latency", "ttft", of_tokens), ("tpot_latency", "tpot", of_tokens), ("target_latency", "e2e", !of_tokens)]
        {
            if self.setting(key).is_none() {
                continue;
            }
            let to = format!("workload spec.slos.{slo}");
            match self.whole(key, 0, &to) {
                _ if !is_judged && of_tokens => {
                    self.ignored(key, "with `use_token_latencies`, LoadGen judges the latencies of tokens");
                }
                _ if !is_judged => self.ignored(key, "LoadGen reads it with `use_token_latencies = 1` only"),
                millis if (1..=MAX_MILLIS).contains(&millis) => {
                    slos.insert(slo.to_owned(), json!(format!("{millis}ms")));
                    self.mapped(key, &to);
                }
                _ => self.refused(key, "write a whole number of milliseconds from 1"),
            }
        }
        self.percentile(&slos);
        if slos.is_empty() { Vec::new() } else { vec![member("slos", Value::Object(slos))] }
    }

    fn percentile(&mut self, slos: &Map<String, Value>) {
        let percentile = self.number("target_latency_percentile", PERCENTILE, "workload spec.slos");
        if slos.is_empty() {
            let why =
                "the file sets no limits, which LoadGen takes from a `mlperf.conf` of its own: write `slos` into the workload";
            self.mapping.ignored("Server.limits(absent)", why);
            self.ignored("target_latency_percentile", "there is no limit");
            return self.ignored("use_token_latencies", "there is no limit");
        }
        self.mapped("use_token_latencies", "workload spec.slos");
        if percentile <= 0.0 || percentile >= 100.0 {
            return self.refused("target_latency_percentile", "write a percentile between 0 and 100, such as 99");
        }
        let share = (percentile * 1e6).round() / 1e8;
        let how = format!(
            "LoadGen demands that {percentile} % of the queries meet each limit, and Assay counts those that meet all: compare `good_fraction` with {share}"
        );
        self.approximated("target_latency_percentile", "workload spec.slos", &how);
    }

    fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.all.get(self.settings.find(self.model, self.name, key)?)
    }

    /// Returns the whole number of a key, or the default if it is absent or refused.
    fn whole(&mut self, key: &str, default: u64, to: &str) -> u64 {
        let Some(value) = self.setting(key).map(Setting::whole) else { return default };
        value.unwrap_or_else(|| {
            // LoadGen reads a number that begins with 0 as an octal one.
            self.refuse_value(key, "write a whole number without zeros in front", &default_in_place(default), to);
            default
        })
    }

    /// Returns the number of a key, or the default if it is absent or refused.
    fn number(&mut self, key: &str, default: f64, to: &str) -> f64 {
        let Some(value) = self.setting(key).map(Setting::number) else { return default };
        value.unwrap_or_else(|| {
            self.refuse_value(key, "write a number of 0 or more", &default_in_place(default), to);
            default
        })
    }

    fn refuse_value(&mut self, key: &str, remedy: &str, in_place: &str, to: &str) {
        self.treat(key, Outcome::Refused, to, &format!("{remedy}; {in_place}"));
    }

    /// Records what became of a key that is given.
    fn treat(&mut self, key: &str, outcome: Outcome, to: &str, note: &str) {
        if let Some(index) = self.settings.find(self.model, self.name, key) {
            self.settings.treat(index, outcome, to, note);
        }
    }

    fn absent(&self, key: &str) -> Option<String> {
        self.setting(key).is_none().then(|| format!("{}.{key}(absent)", self.name))
    }

    fn mapped(&mut self, key: &str, to: &str) {
        match self.absent(key) {
            Some(field) if key != "use_token_latencies" => self.mapping.mapped(&field, to),
            Some(_) => {}
            None => self.treat(key, Outcome::Mapped, to, ""),
        }
    }

    fn approximated(&mut self, key: &str, to: &str, how: &str) {
        if let Some(field) = self.absent(key) {
            return self.mapping.approximated(&field, to, &format!("the default of the other tool is written out; {how}"));
        }
        let field = self.setting(key).map(Setting::field).unwrap_or_default();
        self.mapping.comment(&field, to, how);
        self.treat(key, Outcome::Approximated, to, how);
    }

    fn ignored(&mut self, key: &str, why: &str) {
        self.treat(key, Outcome::Ignored, "", why);
    }

    fn refused(&mut self, key: &str, remedy: &str) {
        match self.absent(key) {
            Some(field) => self.mapping.refused(&field, remedy),
            None => self.treat(key, Outcome::Refused, "", remedy),
        }
    }
}

#[cfg(test)]
mod tests;
