//! The field tables: the fields of a Pipeline, a Workload, a TrustPolicy, an Acknowledgement, a Noise and a ForeignGate.
//!
//! This is the only place that defines them. A field is added here, read in the reader of its kind, and is then checked,
//! documented, suggested and in the JSON Schema. A default never changes within an apiVersion, because it is left out of digests.

mod custom_api;
mod hot_metrics;
mod pod;
mod tokenizer;

use assay_api::ServingApi;
use assay_manifest::{MAX_IMAGE_FILES, MAX_IMAGE_SIDE, MAX_IMAGES, MAX_SESSION_TURNS};
use assay_metric::{SloMetric, Unit};

use crate::field::{Choice, Field, Rule, Table, Type, Uniqueness, choice, default, optional, required};
use crate::format::{
    ABSOLUTE_PATH, BRANCH, CASE_ID, CERTIFICATES, COMMIT, CPUS, CRON, CURRENCY, DATE, DURATION, DURATION_OR_NONE, ENDPOINT_URL,
    ENV_NAME, GIT_REF, HEADER, HOST, HTTP_PATH, HTTP_URL, HTTPS_URL, IMAGE, INSTANT, JSON_OBJECT, LABEL, LABEL_NAME, LATENCY,
    LATENESS, LOOPBACK, MEMBER, METRIC, NAME, OBJECT_NAME, PATH, PAUSE, PUBLIC_KEY, QUANTITY, REMOTE, RUN_ID, SACCT, SCENARIO,
    SEED, SESSION_HEADER, SHA256, SQL_PATH, TELEMETRY_URL, TEXT, TIMEZONE, UNIT, WORD,
};
use crate::lengths::MAX_TOKENS;

pub(crate) use hot_metrics::HOT_LABELS;

/// The version of the format that this crate reads.
pub const API_VERSION: &str = "assay.dev/v1alpha1";

/// The most workloads, targets or variants of one pipeline, for each list by itself; [`crate::MAX_CASES`] limits their product.
const MAX_LIST: usize = 200;
/// The most telemetry sources of one pipeline: each is scraped by a thread of the recorder.
const MAX_TELEMETRY: usize = 16;
/// The most files of query packs of one telemetry source.
const MAX_PACKS: usize = 20;
/// The most labels that a telemetry source matches, and the most values of one of them: the nodes of a large run.
const MAX_LABEL_MATCHERS: usize = 20;
const MAX_MATCHED: usize = 1_000;
/// The most values of one axis of a sweep: enough for every power of two of every unit.
const MAX_AXIS: usize = 200;
/// The most environment variables, labels, headers or parameters of one object.
const MAX_MAP: usize = 100;
/// The most words of one command line.
const MAX_COMMAND: usize = 200;
/// The most object files of one target.
const MAX_OBJECT_FILES: usize = 20;
/// The most servers behind the address of one target: each is scraped by a thread of the recorder.
const MAX_REPLICAS: usize = 64;
/// The most files of one workload.
const MAX_FILES: usize = 500;
/// The highest concurrency or rate: ten times what is planned for on paper.
const MAX_LOAD: i64 = 10_000_000;

/// The lowest rate of a load, per second, as schedules have it: one arrival in some three hours.
const MIN_RATE: f64 = 1e-4;

/// The most rates of a ramp of steps.
const MAX_STEPS: i64 = 200;

/// The largest cap over an open loop: more connections than one process can have.
const MAX_IN_FLIGHT: i64 = 1_000_000;

/// The lowest and the highest speed of a replay; the schedule has the same limits.
const SPEED_LIMITS: (f64, f64) = (1e-3, 1e6);

/// The most groups of prompts that share a beginning; the schedule has the same limit.
const MAX_GROUPS: i64 = 100_000;

/// The most pairs of lengths, and the most bins of a histogram: as many as a schedule takes.
const MAX_WEIGHTS: usize = 1_000;

static TEXT_TYPE: Type = Type::Text(&TEXT);
static WORD_TYPE: Type = Type::Text(&WORD);
static NAME_TYPE: Type = Type::Text(&NAME);
static PATH_TYPE: Type = Type::Text(&PATH);
static DURATION_TYPE: Type = Type::Text(&DURATION);
static METRIC_TYPE: Type = Type::Text(&METRIC);
static IMAGE_TYPE: Type = Type::Text(&IMAGE);
static SEED_TYPE: Type = Type::Text(&SEED);
static CPUS_TYPE: Type = Type::Text(&CPUS);
static NAMES: Type = Type::List { item: &NAME_TYPE, min: 1, max: MAX_LIST, unique: Uniqueness::Item };
static COMMAND: Type = Type::List { item: &TEXT_TYPE, min: 1, max: MAX_COMMAND, unique: Uniqueness::No };
static PATHS: Type = Type::List { item: &PATH_TYPE, min: 0, max: MAX_FILES, unique: Uniqueness::Item };
static TEXTS: Type = Type::Map { key: &LABEL, value: &TEXT_TYPE, min: 0, max: MAX_MAP };
static FACTS: Type = Type::Map { key: &LABEL, value: &Type::Scalar, min: 0, max: MAX_MAP };
static SETTING: Type = Type::Shapes { scalar: Some(&Type::Scalar), list: None, map: Some(&Type::Reference) };
static ENV: Type = Type::Map { key: &ENV_NAME, value: &SETTING, min: 0, max: MAX_MAP };

/// A reference to a secret.
pub(crate) static REFERENCE: Table = Table {
    name: "reference",
    doc: "The location of a secret. A definition never contains its value.",
    selector: None,
    fields: &[
        optional("from_env", &Type::Text(&ENV_NAME), "The environment variable of the runner that holds the secret."),
        optional("from_file", &TEXT_TYPE, "The file on the runner that holds the secret."),
    ],
    rules: &[Rule::ExactlyOne(&["from_env", "from_file"])],
};
pub(crate) static AUTH_SCHEMES: [Choice; 3] = [
    choice("Bearer", "A token, such as an API key."),
    choice("Basic", "Name and password, encoded."),
    choice("Token", "A token."),
];
pub(crate) static HEADER_SOURCE: Table = Table {
    name: "header source",
    doc: "The source of a header's value. A secret is a reference: a definition never contains its value.",
    selector: None,
    fields: &[
        optional("from_env", &Type::Text(&ENV_NAME), "The environment variable of the runner that holds the secret."),
        optional("from_file", &TEXT_TYPE, "The file on the runner that holds the secret."),
        optional("value", &TEXT_TYPE, "The value itself, if it is no secret."),
        optional("scheme", &Type::Choice(&AUTH_SCHEMES), "The authentication scheme that is put before the secret."),
    ],
    rules: &[Rule::ExactlyOne(&["from_env", "from_file", "value"])],
};

static METADATA: Table = Table {
    name: "metadata",
    doc: "What it is called and whose it is. Not part of any digest of the work.",
    selector: None,
    fields: &[
        required("name", &NAME_TYPE, "Its name, part of every identifier made from it. A workload is named as its folder."),
        optional("description", &TEXT_TYPE, "What it is for, for people."),
        optional("owner", &TEXT_TYPE, "Who answers for it: a team or a person."),
        default("labels", &TEXTS, "{}", "Names and texts of your own choosing."),
    ],
    rules: &[],
};

static VERSION_CHOICE: [Choice; 1] = [choice(API_VERSION, "The only version; it changes in place until `v1`.")];

/// A workload file.
pub(crate) static WORKLOAD: Table = Table {
    name: "Workload",
    doc: "A frozen description of work, at `workloads/<name>/workload.yaml`. The digest of its `spec` is `workload_spec_digest`.",
    selector: None,
    fields: &[
        required("apiVersion", &Type::Choice(&VERSION_CHOICE), "The version of the format."),
        required("kind", &Type::Choice(&[choice("Workload", "A workload.")]), "What the file defines."),
        required("metadata", &Type::Object(&METADATA), "What it is called and whose it is."),
        required("spec", &Type::Object(&WORKLOAD_SPEC), "The work. This part is digested, with defaults left out."),
    ],
    rules: &[],
};

pub(crate) static WORKLOAD_TYPES: [Choice; 3] = [
    choice("serving", "An inference endpoint under load."),
    choice("indicator", "An executable that prints one JSON document."),
    choice("training", "A job whose steps are observed. No stage can run it yet, so it is refused."),
];
const SERVING: &[&str] = &["serving"];
const EXECUTED: &[&str] = &["indicator", "training"];

/// The digested part of a workload.
pub(crate) static WORKLOAD_SPEC: Table = Table {
    name: "workload",
    doc: "The work. Fields that equal their default are left out of the digest, so writing a default out changes nothing.",
    selector: Some("type"),
    fields: &[
        required("type", &Type::Choice(&WORKLOAD_TYPES), "The kind of work."),
        optional("model", &WORD_TYPE, "The model, such as `llama-3.1-8b`.").required_for_choices(&["serving", "training"]),
        optional("precision", &WORD_TYPE, "The number format, such as `fp8`.").required_for_choices(&["serving", "training"]),
        optional("framework", &WORD_TYPE, "What computes, such as `pytorch`.").only(EXECUTED).required_for_choices(&["training"]),
        optional("parallelism", &WORD_TYPE, "The parallelism of the work, such as `tp8`.").only(&["training"]),
        required("protocol", &WORD_TYPE, "The protocol of the endpoint, such as `openai_compatible_http`.").only(SERVING),
        required("deployment_model", &WORD_TYPE, "The deployment of the model, such as `deployment_per_gpu`.").only(SERVING),
        required("batching_policy", &WORD_TYPE, "The batching of requests, such as `continuous`.").only(SERVING),
        required("stack", &WORD_TYPE, "The inference server, such as `vllm`.").only(SERVING),
        optional(
            "script",
            &Type::Object(&SCRIPT),
            "The executable that one trial runs and that prints a result. Either this or `command`.",
        )
        .only(EXECUTED)
        .required_for_choices(&["training"]),
        optional(
            "output",
            &Type::Choice(&HARNESSES),
            "The benchmark harness whose output the `script` prints: each of its benchmarks becomes metrics, `NAME.time_nanoseconds` and the \
             like. If left out, the script prints a result.",
        )
        .only(&["indicator"]),
        optional(
            "command",
            &Type::Object(&MEASURED_COMMAND),
            "Your program, which one trial runs and Assay times. Either this or `script`.",
        )
        .only(&["indicator"]),
        default("files", &PATHS, "[]", "Files beside the script, relative to the workload's folder."),
        optional(
            "image",
            &IMAGE_TYPE,
            "The container image that the work runs in, in a cluster; pinned to its digest when a run is planned.",
        ),
        optional("prepare", &Type::Object(&PREPARE), "The command that runs once before the first trial, outside of timing.")
            .only(EXECUTED),
        default(
            "parameters",
            &PARAMETERS,
            "{}",
            "Environment variables of the script. A list is an axis of the sweep: one point for each value.",
        )
        .only(EXECUTED),
        default("api", &Type::Choice(&APIS), "\"chat\"", "The API of the endpoint that requests use.").only(SERVING),
        required("load", &Type::Object(&LOAD), "How requests arrive.").only(SERVING),
        optional(
            "lengths",
            &LENGTHS,
            "The numbers of input and output tokens, for synthetic prompts. Either this, `dataset` or `trace`.",
        )
        .only(SERVING),
        default(
            "text",
            &Type::Choice(&TEXTS_OF_PROMPTS),
            "\"words\"",
            "The kind of the text of prompts that are drawn: by `lengths`, or for rows that have lengths.",
        )
        .only(SERVING),
        optional(
            "token_ids",
            &Type::Object(&TOKEN_IDS),
            "Prompts are lists of token ids instead of texts, for `api: completions`: drawn ones, and those of traces that have lengths. If left out: texts.",
        )
        .only(SERVING),
        default(
            "adapters",
            &Type::List { item: &Type::Object(&ADAPTER), min: 0, max: 1000, unique: Uniqueness::Field("name") },
            "[]",
            "The LoRA adapters of `model` that requests name in its place. Each request has one of them, each session one for all of its turns.",
        )
        .only(SERVING),
        optional(
            "images",
            &Type::Object(&IMAGES),
            "The images of each request or turn. If left out: none, or those of a scenario `I(width,height,images)`.",
        )
        .only(SERVING),
        optional(
            "image_files",
            &Type::Object(&IMAGE_FILES),
            "Files of images, of which each request or turn has some, drawn by its seed. If left out: none.",
        )
        .only(SERVING),
        optional(
            "prefix",
            &Type::Object(&PREFIX),
            "The beginnings that synthetic prompts have in common, in front of `lengths`. If left out: none.",
        )
        .only(SERVING),
        optional(
            "sessions",
            &Type::Object(&SESSIONS),
            "Requests are turns of conversations. If left out, each request stands for itself.",
        )
        .only(SERVING),
        optional(
            "scenario",
            &Type::Choice(&SCENARIOS),
            "The scenario of another project by whose rules the result is judged, which does not change the load.",
        )
        .only(SERVING),
        optional("dataset", &Type::Object(&DATASET), "A file of prompts. Either this, `lengths` or `trace`.").only(SERVING),
        optional(
            "trace",
            &Type::Object(&TRACE),
            "A file of requests with their times, to be replayed. Either this, `lengths` or `dataset`.",
        )
        .only(SERVING),
        default(
            "exact_output",
            &Type::Bool,
            "true",
            "Request exactly the drawn or recorded number of output tokens, by `ignore_eos` and `min_tokens`.",
        )
        .only(SERVING),
        default("batch", &Type::Integer { min: 1, max: 4096 }, "1", "Documents in each request, if the API takes documents.")
            .only(SERVING),
        default("body", &BODY, "{}", "Members added to each request's body, such as `temperature`.").only(SERVING),
        optional(
            "extra_body",
            &Type::Text(&JSON_OBJECT),
            "A JSON object whose members are added to each request's body, such as `{\"chat_template_kwargs\":{\"enable_thinking\":false}}`. A member that is `null` removes one, such as the `temperature` of 0 that requests have by default.",
        )
        .only(SERVING),
        optional("custom", &Type::Object(&custom_api::CUSTOM_API), "The description of the API, for `api: custom`.").only(SERVING),
        optional(
            "tokenizer",
            &tokenizer::TOKENIZER,
            "A `tokenizer.json` or a `.tiktoken` file beside the workload. Without one, prompts consist of common words, one token each.",
        )
        .only(SERVING),
        default("cache", &Type::Choice(&CACHES), "\"cold_salt\"", "The state of the prefix cache, a part of the workload.")
            .only(SERVING),
        default("streaming", &Type::Bool, "true", "Stream the responses.").only(SERVING),
        default("capture", &Type::Choice(&CAPTURES), "\"digest\"", "The form in which prompts and responses are kept.")
            .only(SERVING),
        default("slos", &Type::Object(&SLOS), "{}", "The limits that a request must meet to count towards goodput.")
            .only(SERVING),
        default(
            "metrics",
            &METRICS,
            "[]",
            "The reported metrics. Other values of a result are kept raw and never gated; their units are those of the last words of their names, such as `_bytes`, or else unknown. If left out for a `command`: all that it has.",
        ),
        default("time_limit", &DURATION_TYPE, "\"30m\"", "The time after which a trial is stopped and invalid."),
        optional("seed", &SEED_TYPE, "The seed of all random draws. If left out: derived from `workload_spec_digest`."),
    ],
    rules: &[
        Rule::ExactlyOneFor("indicator", &["script", "command"]),
        Rule::ExactlyOneFor("serving", &["lengths", "dataset", "trace"]),
    ],
};

static SCRIPT: Table = Table {
    name: "script",
    doc: "The executable that one trial runs. It is pinned by the digest of its bytes.",
    selector: None,
    fields: &[
        optional("path", &PATH_TYPE, "A file, relative to the workload's folder."),
        optional("url", &Type::Text(&HTTPS_URL), "The address from which it is fetched when a run is planned."),
        optional("sha256", &Type::Text(&SHA256), "The digest that the fetched bytes must have."),
    ],
    rules: &[Rule::ExactlyOne(&["path", "url"])],
};

pub(crate) static HARNESSES: [Choice; 6] = [
    choice("go-bench", "The text of `go test -bench`. Each repetition of `-count` is a sample."),
    choice("google-benchmark", "The JSON of Google Benchmark: `--benchmark_format=json`. Each repetition is a sample."),
    choice("pytest-benchmark", "The JSON of pytest-benchmark: `--benchmark-json=FILE`. Each round is a sample."),
    choice("hyperfine", "The JSON of hyperfine: `--export-json FILE`. Each run is a sample."),
    choice("criterion", "The messages of cargo-criterion: `--message-format=json`. Each sample is its time per iteration."),
    choice("jmh", "The JSON of JMH: `-rf json -rff FILE`. Each iteration is a sample."),
];

pub(crate) static COUNTERS: [Choice; 2] = [
    choice("perf", "The processor's own counter, by `perf stat`: user mode only. Few virtual machines have one."),
    choice(
        "cachegrind",
        "A simulated processor, by `valgrind --tool=cachegrind`: the same everywhere, about fifty times slower.",
    ),
];

/// The most times that one trial runs a command.
const MAX_RUNS: i64 = 10_000;

static MEASURED_COMMAND: Table = Table {
    name: "command",
    doc: "A program that Assay times. Each trial reports `cpu_time_ms` (user and system mode, with the processes that it waited \
          for) and `wall_time_ms`, and `max_rss_kib` if `metrics` declares it. Each invocation has a fresh folder that holds \
          the workload's `files`.",
    selector: None,
    fields: &[
        required(
            "run",
            &COMMAND,
            "Program and arguments. A program with a `/` is looked up in the target's `folder`, any other in PATH. `${NAME}` \
             stands for the value of a parameter, `$${` for `${`.",
        ),
        default(
            "times",
            &Type::Integer { min: 1, max: MAX_RUNS },
            "1",
            "The number of times that each trial runs it; the median is the trial's value, and the outputs of the last one are kept. Use more than one if it takes milliseconds.",
        ),
        default(
            "warmup",
            &Type::Integer { min: 0, max: MAX_RUNS },
            "0",
            "The number of times that it runs before the first trial of each point, not measured. If one of them fails, no trial of the \
             point runs.",
        ),
        optional(
            "instructions",
            &Type::Choice(&COUNTERS),
            "The counter of `instructions`, in one more, untimed invocation of each trial. If left out, they are not counted.",
        ),
    ],
    rules: &[],
};

static PREPARE: Table = Table {
    name: "prepare",
    doc: "A command that runs once before the first trial, outside of timing, such as a compiler.",
    selector: None,
    fields: &[
        required("command", &COMMAND, "Program and arguments, run in the trial's folder."),
        default("outputs", &PATHS, "[]", "The files that it creates; their digests are recorded."),
        default("time_limit", &DURATION_TYPE, "\"10m\"", "The time after which it is stopped."),
    ],
    rules: &[],
};

static AXIS: Type = Type::List { item: &Type::Scalar, min: 1, max: MAX_AXIS, unique: Uniqueness::Item };
static PARAMETER: Type = Type::Shapes { scalar: Some(&Type::Scalar), list: Some(&AXIS), map: None };
static PARAMETERS: Type = Type::Map { key: &ENV_NAME, value: &PARAMETER, min: 0, max: MAX_MAP };

static BODY: Type = Type::Map { key: &MEMBER, value: &Type::Scalar, min: 0, max: MAX_MAP };
pub(crate) static APIS: [Choice; ServingApi::ALL.len()] = api_choices();

const fn api_choices() -> [Choice; ServingApi::ALL.len()] {
    let mut choices = [const { choice("", "") }; ServingApi::ALL.len()];
    let mut at = 0;
    while at < choices.len() {
        let api = ServingApi::ALL[at];
        choices[at] = choice(api.as_str(), api.summary());
        at += 1;
    }
    choices
}

pub(crate) static LOAD_MODES: [Choice; 4] = [
    choice(
        "closed",
        "A closed loop: each response is followed by the next request, at a fixed concurrency. Has no intended send times, unless requests are turns of `spec.sessions`.",
    ),
    choice("open", "Requests arrive by a schedule, independent of completions."),
    choice(
        "users",
        "Users, each of whom plays one session of `spec.sessions` after the other, with equal gaps between turns: the number of users over the rate. A turn that waits for the response before it is late and moves no other.",
    ),
    choice(
        "replay",
        "The requests of `spec.trace` arrive at their recorded times, independent of completions, once; with `spec.sessions`, its sessions do.",
    ),
];
pub(crate) static ARRIVALS: [Choice; 3] = [
    choice("constant", "Equal gaps."),
    choice("poisson", "Exponential gaps: independent users."),
    choice("gamma", "Gamma gaps: burstier below a smoothness of 1, smoother above."),
];
pub(crate) static CONNECTIONS: [Choice; 3] = [
    choice("pooled", "A request takes any open connection that is idle, or opens one."),
    choice(
        "never",
        "Each request opens a connection of its own. Its latencies include the time to connect, TLS handshake included, in a closed loop, too.",
    ),
    choice("sticky", "The requests of a session share a connection, which no other session uses. Needs `spec.sessions`."),
];
static CONCURRENCIES: Type =
    Type::List { item: &Type::Integer { min: 1, max: MAX_LOAD }, min: 1, max: MAX_AXIS, unique: Uniqueness::Item };
static RATES: Type = Type::List { item: &RATE, min: 1, max: MAX_AXIS, unique: Uniqueness::Item };

static OFFERED_RATES: Type = Type::Shapes { scalar: None, list: Some(&RATES), map: Some(&Type::Object(&RATE_PROFILE)) };
static RATE: Type = Type::Number { min: MIN_RATE, above_min: false, max: MAX_LOAD as f64 };
static RATE_PROFILE: Table = Table {
    name: "rate profile",
    doc: "A rate that changes during each trial, over its `duration`; one point. A warm-up has the rate of the start. The gaps of the arrival process are stretched and compressed by the rate.",
    selector: None,
    fields: &[
        optional("ramp", &Type::Object(&RAMP), "From one rate to another."),
        optional("series", &SERIES, "Constant rates one after the other, which fill the `duration` together."),
    ],
    rules: &[Rule::ExactlyOne(&["ramp", "series"])],
};
static SERIES: Type = Type::List { item: &Type::Object(&RATE_SEGMENT), min: 1, max: MAX_AXIS, unique: Uniqueness::No };
static RATE_SEGMENT: Table = Table {
    name: "rate segment",
    doc: "A constant rate for some time.",
    selector: None,
    fields: &[required("duration", &DURATION_TYPE, "The time."), required("rate", &RATE, "Arrivals per second.")],
    rules: &[],
};
pub(crate) static RAMP_SHAPES: [Choice; 3] = [
    choice("linear", "The rate changes by the same amount in equal times."),
    choice("exponential", "The rate changes by the same factor in equal times."),
    choice("steps", "Constant rates for equal times, which differ by the same amount."),
];
static RAMP: Table = Table {
    name: "ramp",
    doc: "A rate that goes from one value to another over the `duration` of a trial.",
    selector: Some("shape"),
    fields: &[
        required("shape", &Type::Choice(&RAMP_SHAPES), "The course of the rate."),
        required("from", &RATE, "Arrivals per second at the start."),
        required("to", &RATE, "Arrivals per second at the end."),
        required("steps", &Type::Integer { min: 2, max: MAX_STEPS }, "The number of rates, the first and the last included.")
            .only(&["steps"]),
    ],
    rules: &[],
};

static SPEEDS: Type = Type::List {
    item: &Type::Number { min: SPEED_LIMITS.0, above_min: false, max: SPEED_LIMITS.1 },
    min: 1,
    max: MAX_AXIS,
    unique: Uniqueness::Item,
};

pub(crate) static LOAD: Table = Table {
    name: "load",
    doc: "The arrival of requests; with `spec.sessions`, that of sessions. Each concurrency, rate or speed is one point. If `duration` and `requests` are given, the first reached ends a trial.",
    selector: Some("mode"),
    fields: &[
        required("mode", &Type::Choice(&LOAD_MODES), "The rule that decides when a request is sent."),
        required("concurrency", &CONCURRENCIES, "Users at a time, one point each.").only(&["closed"]),
        required("users", &CONCURRENCIES, "Numbers of users, one point each for each rate.").only(&["users"]),
        required(
            "rate",
            &OFFERED_RATES,
            "Arrivals per second, one point each, or a rate that changes during each trial. Of users, the turns of all of them together.",
        )
        .only(&["open", "users"]),
        default("arrival", &Type::Choice(&ARRIVALS), "\"poisson\"", "The arrival process.").only(&["open"]),
        optional(
            "smoothness",
            &Type::Number { min: 0.0, above_min: true, max: 1000.0 },
            "Shape of the gamma process; 1 is Poisson.",
        )
        .only(&["open"]),
        optional(
            "max_concurrency",
            &Type::Integer { min: 1, max: MAX_IN_FLIGHT },
            "The most requests in flight: one that is due beyond it waits, and its latencies count from the time at which it was due. All of them are sent by one shard.",
        )
        .only(&["open", "replay"]),
        default("speed", &SPEEDS, "[1]", "The speeds of the replay, one point each: 2 halves all times of the trace.")
            .only(&["replay"]),
        optional("duration", &DURATION_TYPE, "The time for which requests are sent and measured, after the warm-up.").required_for_choices(&["users"]),
        optional(
            "requests",
            &Type::Integer { min: 1, max: 1_000_000_000 },
            "The number of requests that are sent and measured, after the warm-up.",
        ),
        optional(
            "sessions",
            &Type::Integer { min: 1, max: 1_000_000 },
            "The number of sessions that end a trial, with `spec.sessions`, instead of `requests` or `duration`. Needs a `warmup` of 0s.",
        ),
        default(
            "warmup",
            &Type::Text(&DURATION_OR_NONE),
            "\"0s\"",
            "The time for which load is offered before measuring starts, without draining in between.",
        ),
        default("timeout", &DURATION_TYPE, "\"5m\"", "The time after which a request has failed."),
        default("connections", &Type::Choice(&CONNECTIONS), "\"pooled\"", "The reuse of connections."),
        optional("cancel", &Type::Object(&CANCEL), "The requests that the client cancels, as users do who stop waiting. The seed decides which."),
        optional(
            "over_saturation",
            &Type::Object(&OVER_SATURATION),
            "The queue at which a trial ends early, because requests arrive faster than they are served.",
        )
        .only(&["open"]),
        optional("stop_on_errors", &Type::Object(&STOP_ON_ERRORS), "The failed requests at which a trial ends early."),
        optional(
            "search",
            &Type::Text(&SHA256),
            "The digest of the search result that the loads come from, as `assay bench --find-max` or `--sweep` printed it. `assay plan` refuses a workload whose loads, SLOs or model are not those of the search.",
        )
        .only(&["closed", "open"]),
    ],
    rules: &[Rule::AtLeastOneFor(&["closed", "open"], &["duration", "requests", "sessions"])],
};

static CANCEL: Table = Table {
    name: "cancel",
    doc: "A share of the requests is cancelled by the client: it closes the connection so long after the request was sent. A request whose response is complete before is not cancelled. Cancelled requests are counted apart: they are no failures, and no latency and no rate has them.",
    selector: None,
    fields: &[
        required("share", &Type::Number { min: 0.0, above_min: true, max: 1.0 }, "The probability that a request is cancelled."),
        required(
            "after",
            &Type::Text(&DURATION_OR_NONE),
            "The time from the last byte of the request to its cancellation; `0s` closes at once.",
        ),
    ],
    rules: &[],
};

static OVER_SATURATION: Table = Table {
    name: "over_saturation",
    doc: "A trial ends early once more requests have been in flight, without a break, for so long: they arrive faster than the endpoint serves them, and a longer queue tells nothing more. Its attempt is kept and does not count (`over_saturated`), and is not repeated. Each of several shards has its part of the requests.",
    selector: None,
    fields: &[
        required(
            "in_flight",
            &Type::Integer { min: 1, max: MAX_IN_FLIGHT },
            "The requests in flight, of all shards together, that a trial may have for longer.",
        ),
        required("for", &DURATION_TYPE, "The time for which more of them end the trial."),
    ],
    rules: &[],
};

static STOP_ON_ERRORS: Table = Table {
    name: "stop_on_errors",
    doc: "A trial ends early once so many of its requests have failed, those of the warm-up too; the first limit that is met ends it. Its attempt is kept and does not count (`too_many_errors`); it is tried again within the budget of retries. Requests that the client cancelled or could not send are no failures here.",
    selector: None,
    fields: &[
        optional(
            "count",
            &Type::Integer { min: 1, max: 1_000_000_000 },
            "The number of failed requests that ends a trial. Each of several shards has its part.",
        ),
        optional(
            "share",
            &Type::Number { min: 0.0, above_min: true, max: 1.0 },
            "The share of failures, among the requests that ended last, that ends a trial. A share of 1 stands for failures in a row.",
        ),
        optional(
            "of_last",
            &Type::Integer { min: 1, max: 100_000 },
            "The number of requests, of one shard, that `share` is of; 100 if absent. As long as fewer have ended, `share` ends nothing.",
        ),
    ],
    rules: &[Rule::AtLeastOne(&["count", "share"])],
};

static LENGTHS: Type =
    Type::Shapes { scalar: Some(&Type::Text(&SCENARIO)), list: None, map: Some(&Type::Object(&LENGTHS_TABLE)) };
static LENGTHS_TABLE: Table = Table {
    name: "lengths",
    doc: "The numbers of input and output tokens: a scenario such as `D(128,256)`, the two distributions written out, or pairs.",
    selector: None,
    fields: &[
        optional("input", &Type::Object(&DISTRIBUTION), "Tokens of the prompt."),
        optional("output", &Type::Object(&DISTRIBUTION), "Tokens of the response. Required with `input`."),
        optional("pairs", &PAIRS, "Pairs of input and output, of which each request has one, drawn by their weights."),
    ],
    rules: &[Rule::ExactlyOne(&["input", "pairs"])],
};
static PAIRS: Type = Type::List { item: &Type::Object(&PAIR), min: 1, max: MAX_WEIGHTS, unique: Uniqueness::No };
static WEIGHT: Type = Type::Number { min: 0.0, above_min: false, max: 1e9 };
static ADAPTER: Table = Table {
    name: "adapter",
    doc: "A LoRA adapter, by the name that the endpoint serves it under.",
    selector: None,
    fields: &[
        required(
            "name",
            &WORD_TYPE,
            "Its name, which requests have as their `model`. The name of the model itself stands for no adapter.",
        ),
        default("weight", &WEIGHT, "1", "The weight: the adapter is drawn with a probability in proportion to it."),
    ],
    rules: &[],
};
static PAIR: Table = Table {
    name: "pair of lengths",
    doc: "An input and an output that belong together.",
    selector: None,
    fields: &[
        required("input", &TOKENS, "Tokens of the prompt."),
        required("output", &TOKENS, "Tokens of the response."),
        default("weight", &WEIGHT, "1", "The weight: the pair is drawn with a probability in proportion to it."),
    ],
    rules: &[],
};
static HISTOGRAM: Table = Table {
    name: "histogram",
    doc: "A bin is drawn by its weight, and a whole number of the bin, each equally likely. Bin `k` begins at edge `k` and ends before edge `k + 1`; \
          the last bin includes its upper edge, as in NumPy's `histogram`.",
    selector: None,
    fields: &[
        required(
            "edges",
            &Type::List { item: &TOKENS, min: 2, max: MAX_WEIGHTS + 1, unique: Uniqueness::No },
            "The edges of the bins, rising: one more than there are bins.",
        ),
        required(
            "weights",
            &Type::List { item: &WEIGHT, min: 1, max: MAX_WEIGHTS, unique: Uniqueness::No },
            "The weight of each bin, such as a count or a share.",
        ),
    ],
    rules: &[],
};
static TOKENS: Type = Type::Integer { min: 1, max: MAX_TOKENS.cast_signed() };
static SPREAD: Type = Type::Number { min: 0.0, above_min: false, max: MAX_TOKENS as f64 };
static MEAN: Type = Type::Number { min: 1.0, above_min: false, max: MAX_TOKENS as f64 };
static DISTRIBUTION: Table = Table {
    name: "distribution",
    doc: "The number of tokens, drawn for each request. Draws are rounded to the nearest whole number and clipped to at least 1.",
    selector: None,
    fields: &[
        optional("fixed", &TOKENS, "A constant number."),
        optional("uniform", &Type::Object(&UNIFORM), "Uniformly distributed between two bounds."),
        optional("normal", &Type::Object(&NORMAL), "Normally distributed."),
        optional("lognormal", &Type::Object(&NORMAL), "Log-normally distributed; mean and spread are those of the token counts."),
        optional("histogram", &Type::Object(&HISTOGRAM), "A bin of a histogram, and any number of the bin."),
        optional("vllm_range", &Type::Object(&VLLM_RANGE), "The rule of `vllm bench serve`: `--random-range-ratio`."),
        optional("sglang_range", &Type::Object(&SGLANG_RANGE), "The rule of SGLang's `bench_serving`: `--random-range-ratio`."),
    ],
    rules: &[Rule::ExactlyOne(&["fixed", "uniform", "normal", "lognormal", "histogram", "vllm_range", "sglang_range"])],
};
static VLLM_RANGE: Table = Table {
    name: "vLLM's range",
    doc: "Uniformly distributed from floor(`tokens` x (1 - `ratio`)), but at least 1, to ceil(`tokens` x (1 + `ratio`)). A ratio of 0 is a fixed length. \
          Special tokens of a tokenizer are not subtracted.",
    selector: None,
    fields: &[
        required("tokens", &TOKENS, "The length in the middle: `--random-input-len` or `--random-output-len`."),
        required(
            "ratio",
            &Type::Number { min: 0.0, above_min: false, max: 0.999_999 },
            "The share by which it varies to both sides.",
        ),
    ],
    rules: &[],
};
static SGLANG_RANGE: Table = Table {
    name: "SGLang's range",
    doc: "Uniformly distributed from trunc(`tokens` x `ratio`), but at least 1, to `tokens`. A ratio of 1 is a fixed length, and 0 is any up to it.",
    selector: None,
    fields: &[
        required("tokens", &TOKENS, "The largest length: `--random-input-len` or `--random-output-len`."),
        required(
            "ratio",
            &Type::Number { min: 0.0, above_min: false, max: 1.0 },
            "The smallest length, as a share of the largest.",
        ),
    ],
    rules: &[],
};
static UNIFORM: Table = Table {
    name: "uniform",
    doc: "A uniform distribution between two bounds, both included.",
    selector: None,
    fields: &[required("min", &TOKENS, "The lower bound."), required("max", &TOKENS, "The upper bound.")],
    rules: &[],
};
static NORMAL: Table = Table {
    name: "mean and spread",
    doc: "Mean and standard deviation, in tokens.",
    selector: None,
    fields: &[required("mean", &MEAN, "The mean."), required("stddev", &SPREAD, "The standard deviation.")],
    rules: &[],
};

static IMAGE_SIDE: Type = Type::Integer { min: 1, max: MAX_IMAGE_SIDE as i64 };
pub(crate) static IMAGE_FORMATS: [Choice; 2] = [
    choice("png", "PNG, stored without compression: 3 bytes a pixel."),
    choice("jpeg", "JPEG, baseline, of quality 75: about a sixth of a byte a pixel."),
];
pub(crate) static TEXTS_OF_PROMPTS: [Choice; 2] = [
    choice("words", "Common words, drawn by themselves: one token each, and no sense."),
    choice(
        "natural",
        "Prose: each word follows the two before it somewhere in *Alice's Adventures in Wonderland*. With a tokenizer file, prompts are encoded until they \
         have their length.",
    ),
];
static IMAGES: Table = Table {
    name: "images",
    doc: "Synthetic images, which the seed decides to the byte. They are sent as data URLs behind the text of the prompt.",
    selector: None,
    fields: &[
        required("width", &IMAGE_SIDE, "The width of an image, in pixels."),
        required("height", &IMAGE_SIDE, "The height of an image, in pixels."),
        default("count", &Type::Integer { min: 1, max: MAX_IMAGES as i64 }, "1", "Images of each request."),
        default("format", &Type::Choice(&IMAGE_FORMATS), "\"jpeg\"", "Their file format."),
    ],
    rules: &[],
};

static IMAGE_PATHS: Type = Type::List { item: &PATH_TYPE, min: 1, max: MAX_IMAGE_FILES, unique: Uniqueness::Item };
static IMAGE_FILES: Table = Table {
    name: "image files",
    doc: "Image files, which are sent as data URLs behind the text of the prompt.",
    selector: None,
    fields: &[
        required("paths", &IMAGE_PATHS, "PNG and JPEG files of at most 8 MiB each, relative to the workload's folder."),
        default(
            "count",
            &Type::Integer { min: 1, max: MAX_IMAGES as i64 },
            "1",
            "Images of each request. A file may be drawn more than once.",
        ),
    ],
    rules: &[],
};

static TOKEN_ID: Type = Type::Integer { min: 0, max: u32::MAX as i64 };
static TOKEN_IDS: Table = Table {
    name: "token ids",
    doc: "The ids that prompts are drawn from: with neither bound, those of the words of the `tokenizer`.",
    selector: None,
    fields: &[
        optional("least", &TOKEN_ID, "The smallest id, included."),
        optional("most", &TOKEN_ID, "The largest id, included. At least 64 ids are needed."),
    ],
    rules: &[],
};

static SHARED_TOKENS: Type = Type::Integer { min: 0, max: MAX_TOKENS.cast_signed() };
static PREFIX: Table = Table {
    name: "prefix",
    doc: "The beginnings that synthetic prompts have in common: all of them the tokens of `system`, and those of a group the tokens of `group`.",
    selector: None,
    fields: &[
        default("system", &SHARED_TOKENS, "0", "Tokens that all prompts begin with, like a system prompt."),
        default("group", &SHARED_TOKENS, "0", "Tokens that the prompts of a group have next."),
        default("groups", &Type::Integer { min: 1, max: MAX_GROUPS }, "1", "The number of groups."),
        default(
            "zipf",
            &Type::Number { min: 0.0, above_min: false, max: 10.0 },
            "0",
            "The exponent of Zipf's law, by which requests belong to groups. 0 makes groups equally likely.",
        ),
    ],
    rules: &[Rule::AtLeastOne(&["system", "group"])],
};

static TURNS: Type = Type::Integer { min: 1, max: MAX_SESSION_TURNS as i64 };
static MEAN_TURNS: Type = Type::Number { min: 1.0, above_min: false, max: MAX_SESSION_TURNS as f64 };
static SPREAD_OF_TURNS: Type = Type::Number { min: 0.0, above_min: false, max: MAX_SESSION_TURNS as f64 };
static TURNS_LAW: Type = Type::Shapes { scalar: Some(&TURNS), list: None, map: Some(&Type::Object(&TURNS_TABLE)) };
static TURNS_TABLE: Table = Table {
    name: "turns",
    doc: "The number of turns, drawn for each session. Draws are rounded to the nearest whole number and clipped to 1 to 1,000.",
    selector: None,
    fields: &[
        optional("fixed", &TURNS, "A constant number."),
        optional("uniform", &Type::Object(&TURNS_BOUNDS), "Uniformly distributed between two bounds."),
        optional("normal", &Type::Object(&TURNS_SPREAD), "Normally distributed."),
        optional("lognormal", &Type::Object(&TURNS_SPREAD), "Log-normally distributed; mean and spread are those of the turns."),
    ],
    rules: &[Rule::ExactlyOne(&["fixed", "uniform", "normal", "lognormal"])],
};
static TURNS_BOUNDS: Table = Table {
    name: "bounds of turns",
    doc: "Two bounds, both included.",
    selector: None,
    fields: &[required("min", &TURNS, "The lower bound."), required("max", &TURNS, "The upper bound.")],
    rules: &[],
};
static TURNS_SPREAD: Table = Table {
    name: "mean and spread of turns",
    doc: "Mean and standard deviation.",
    selector: None,
    fields: &[required("mean", &MEAN_TURNS, "The mean."), required("stddev", &SPREAD_OF_TURNS, "The standard deviation.")],
    rules: &[],
};
static PAUSE_TYPE: Type = Type::Text(&PAUSE);
static PAUSE_LAW: Type = Type::Shapes { scalar: Some(&PAUSE_TYPE), list: None, map: Some(&Type::Object(&PAUSE_TABLE)) };
static PAUSE_TABLE: Table = Table {
    name: "think time",
    doc: "The distribution of a pause. Draws longer than a day are clipped to a day.",
    selector: None,
    fields: &[
        optional("fixed", &PAUSE_TYPE, "A constant time."),
        optional("uniform", &Type::Object(&PAUSE_BOUNDS), "Uniformly distributed between two bounds."),
        optional("exponential", &Type::Object(&PAUSE_MEAN), "Exponentially distributed."),
        optional("lognormal", &Type::Object(&PAUSE_SPREAD), "Log-normally distributed; mean and spread are those of the pauses."),
    ],
    rules: &[Rule::ExactlyOne(&["fixed", "uniform", "exponential", "lognormal"])],
};
static PAUSE_BOUNDS: Table = Table {
    name: "bounds of a pause",
    doc: "Two bounds, both included.",
    selector: None,
    fields: &[required("min", &PAUSE_TYPE, "The lower bound."), required("max", &PAUSE_TYPE, "The upper bound.")],
    rules: &[],
};
static PAUSE_MEAN: Table = Table {
    name: "mean of a pause",
    doc: "The mean.",
    selector: None,
    fields: &[required("mean", &PAUSE_TYPE, "The mean.")],
    rules: &[],
};
static PAUSE_SPREAD: Table = Table {
    name: "mean and spread of a pause",
    doc: "Mean and standard deviation.",
    selector: None,
    fields: &[required("mean", &DURATION_TYPE, "The mean."), required("stddev", &PAUSE_TYPE, "The standard deviation.")],
    rules: &[],
};
pub(crate) static HISTORIES: [Choice; 2] = [
    choice(
        "recorded",
        "The recorded responses of a dataset, or drawn words, as many as the requested length: every endpoint gets the same bytes, and computes these tokens anew.",
    ),
    choice(
        "live",
        "The endpoint's own responses: what it generated may still be in its cache, and turns differ between endpoints.",
    ),
];
pub(crate) static REASONING: [Choice; 2] =
    [choice("drop", "It is left out."), choice("keep", "It is sent back as `reasoning_content`.")];
pub(crate) static SCENARIOS: [Choice; 1] = [choice(
    "agentx",
    "AgentX of InferenceX, `inferencex-agentx-mvp` of AIPerf: sessions of coding agents of a trace in Weka's format. Results state `agentx_rules_met`, with a reason for each rule that is not met.",
)];
static SESSIONS: Table = Table {
    name: "sessions",
    doc: "Conversations of several requests. Each turn sends all that was said before, and `lengths` are what a turn adds: its own words, and \
          the response. With `dataset`, they are its conversations, and with `trace` its sessions, with their recorded pauses. A turn is sent its think time after the response to the turn before, and a turn that fails ends its session.",
    selector: None,
    fields: &[
        optional(
            "turns",
            &TURNS_LAW,
            "The number of turns, for each session. The conversations of a dataset and the sessions of a trace have their own.",
        ),
        default(
            "think_time",
            &PAUSE_LAW,
            "\"0s\"",
            "The time from the end of a response to the next turn. A trace has its own, and `mode: users` has a grid instead.",
        ),
        default("history", &Type::Choice(&HISTORIES), "\"recorded\"", "The responses that the next turns repeat."),
        optional(
            "header",
            &Type::Text(&SESSION_HEADER),
            "The name of a header whose value is the same in all requests of a session and in no others, such as `x-session-id`.",
        ),
        default(
            "reasoning",
            &Type::Choice(&REASONING),
            "\"drop\"",
            "The treatment of the reasoning of live responses in the next turns.",
        ),
        default(
            "recycle",
            &Type::Bool,
            "false",
            "Let users play the sessions of a trace until `load.duration` ends: after the last one all of them come again, with other words unless `cache: shared`.",
        ),
        optional(
            "start",
            &Type::Object(&SESSION_START),
            "The first session of each user begins in its middle: turns before that time are history and are not sent.",
        ),
        default(
            "warm_history",
            &Type::Bool,
            "false",
            "With `start`: send the last turn before it of each stream that has begun, before the trial, so that the endpoint's cache holds the history. They are not measured.",
        ),
        optional(
            "idle_cap",
            &DURATION_TYPE,
            "The longest time in which nothing is in flight: the turns that are due later then come earlier, all by the same time. One shard only.",
        ),
        default(
            "marker",
            &Type::Bool,
            "false",
            "Put words that no other session of any trial has in front of the first message of the user. Their tokens are counted.",
        ),
    ],
    rules: &[],
};
static SHARE_OF_SESSION: Type = Type::Number { min: 0.0, above_min: false, max: 1.0 };
static SESSION_START: Table = Table {
    name: "start",
    doc: "The time at which a session of a trace begins: drawn between two shares of its recorded length.",
    selector: None,
    fields: &[
        default("from", &SHARE_OF_SESSION, "0", "The lower bound."),
        default("to", &SHARE_OF_SESSION, "1", "The upper bound."),
    ],
    rules: &[],
};

pub(crate) static DATASET_FORMATS: [Choice; 13] = [
    choice("jsonl", "JSON Lines, or a JSON array: objects with a `prompt` or `messages`, or texts."),
    choice("sharegpt", "ShareGPT: conversations, of which the first turn is the request and the second its recorded response."),
    choice("openai_batch", "A batch file of OpenAI's API: a whole body in each line. Its `max_tokens` stays a limit."),
    choice("csv", "Comma-separated values with a line of column names."),
    choice(
        "parquet",
        "Parquet: columns as the members of `jsonl`, lists of messages too, or a column `conversations` as in `sharegpt`.",
    ),
    choice("text", "One prompt in each line."),
    TRACE_FORMATS[0],
    TRACE_FORMATS[1],
    TRACE_FORMATS[2],
    TRACE_FORMATS[3],
    TRACE_FORMATS[4],
    TRACE_FORMATS[5],
    TRACE_FORMATS[6],
];
pub(crate) const TRACE_FORMATS: [Choice; 7] = [
    choice(
        "mooncake",
        "Mooncake: JSON Lines with `timestamp` (ms), `input_length`, `output_length` and `hash_ids` of 512 tokens; also `session_id` and `delay` (ms).",
    ),
    choice(
        "bailian",
        "Alibaba Cloud's Bailian: JSON Lines with `chat_id`, `parent_chat_id`, `timestamp` (s), the lengths and `hash_ids` of 16 tokens.",
    ),
    choice("azure", "Azure: CSV with `TIMESTAMP` (a date and a time), `ContextTokens` and `GeneratedTokens`."),
    choice("burstgpt", "BurstGPT: CSV with `Timestamp` (s), `Request tokens` and `Response tokens`."),
    Choice {
        alias: Some("timed-jsonl"),
        ..choice(
            "timed_jsonl",
            "JSON Lines with `at_ms` and a `prompt`, `messages` or a whole `body`; also `output_tokens`, `session_id` and `service_ms`.",
        )
    },
    choice("weka", "Weka: one session of a coding agent in each line, with its `requests`. Needs `spec.sessions`."),
    choice("tracelab", "TraceLab: one round of a session of a coding agent in each line. Needs `spec.sessions`."),
];
static TRACE_FORMAT_CHOICES: [Choice; 7] = TRACE_FORMATS;
pub(crate) static OVER_LONG: [Choice; 3] = [
    choice("refuse", "The run is refused."),
    choice("truncate", "The end of the prompt is cut off; the plan counts such prompts."),
    choice("skip", "The row is left out; the plan counts such rows."),
];
pub(crate) static RESPONSE_LENGTHS: [Choice; 2] = [
    choice("recorded", "As many tokens as the row's recorded response has; the endpoint decides for a row without one."),
    choice("server", "The endpoint decides."),
];
static RESPONSE_LENGTH: Type =
    Type::Shapes { scalar: Some(&Type::Choice(&RESPONSE_LENGTHS)), list: None, map: Some(&Type::Object(&DISTRIBUTION)) };

pub(crate) static DATASET: Table = Table {
    name: "dataset",
    doc: "A file of prompts, pinned by digest when a run is planned. Each trial sends its rows in an order of its own, each row once before \
          any is repeated. Of a trace, only the times are left unused.",
    selector: None,
    fields: &[
        optional("path", &PATH_TYPE, "A file, relative to the workload's folder."),
        optional("url", &Type::Text(&HTTP_URL), "The address from which it is fetched when a run is planned."),
        optional("sha256", &Type::Text(&SHA256), "The digest that the fetched bytes must have."),
        optional(
            "format",
            &Type::Choice(&DATASET_FORMATS),
            "The format. If left out: by the ending of the name, such as `.jsonl`.",
        ),
        optional("fields", &Type::Object(&DATASET_FIELDS), "The names of the members or columns that are read."),
        optional("max_input", &TOKENS, "The most tokens of a prompt."),
        default("over", &Type::Choice(&OVER_LONG), "\"refuse\"", "The treatment of a longer prompt."),
        default(
            "output",
            &RESPONSE_LENGTH,
            "\"recorded\"",
            "The tokens of responses: recorded ones, the endpoint's choice, or a distribution.",
        ),
        optional("max_output", &TOKENS, "The most tokens of a response."),
    ],
    rules: &[Rule::ExactlyOne(&["path", "url"])],
};
static WINDOW: Table = Table {
    name: "window",
    doc: "The part of a trace that is replayed, since its first row. The replay begins at the start of the window.",
    selector: None,
    fields: &[
        default("from", &Type::Text(&DURATION_OR_NONE), "\"0s\"", "The start."),
        optional("to", &DURATION_TYPE, "The end; a row at it is outside."),
    ],
    rules: &[],
};
pub(crate) static TRACE: Table = Table {
    name: "trace",
    doc: "A file of requests with the times at which they came, pinned by digest when a run is planned. `load.mode` is `replay`: each trial \
          sends its requests once, in their order. With `spec.sessions`, its sessions are played turn by turn, at their times or, if `load.mode` is \
          `closed`, at a concurrency. Where a format has lengths and blocks only, prompts are made of words; equal blocks \
          are equal words.",
    selector: None,
    fields: &[
        optional("path", &PATH_TYPE, "A file, relative to the workload's folder."),
        optional("url", &Type::Text(&HTTP_URL), "The address from which it is fetched when a run is planned."),
        optional("sha256", &Type::Text(&SHA256), "The digest that the fetched bytes must have."),
        required("format", &Type::Choice(&TRACE_FORMAT_CHOICES), "The format."),
        optional("fields", &Type::Object(&DATASET_FIELDS), "The names of the members that are read, for `timed_jsonl`."),
        optional("window", &Type::Object(&WINDOW), "The part that is replayed. If left out: all of it."),
        optional(
            "max_gap",
            &DURATION_TYPE,
            "The longest time between two requests; longer ones are cut, and counted. With `spec.sessions`: the longest pause before a later turn.",
        ),
        optional(
            "max_tool_time",
            &DURATION_TYPE,
            "With `spec.sessions`, the longest pause after a response that called a tool. If left out: `max_gap`.",
        ),
        optional(
            "sample",
            &Type::Number { min: 0.0, above_min: true, max: 1.0 },
            "The share of its sessions that is kept, or of its requests if it names no sessions. Times stay as they are.",
        ),
        optional("max_input", &TOKENS, "The most tokens of a prompt."),
        default("over", &Type::Choice(&OVER_LONG), "\"refuse\"", "The treatment of a longer prompt."),
        default(
            "output",
            &RESPONSE_LENGTH,
            "\"recorded\"",
            "The tokens of responses: recorded ones, the endpoint's choice, or a distribution.",
        ),
        optional("max_output", &TOKENS, "The most tokens of a response."),
    ],
    rules: &[Rule::ExactlyOne(&["path", "url"])],
};
static FIELD_NAME: Type = Type::Text(&TEXT);
static DATASET_FIELDS: Table = Table {
    name: "fields of a dataset",
    doc: "The names of the members or columns that are read. A named one must be in every row. Dots lead into nested objects.",
    selector: None,
    fields: &[
        optional("prompt", &FIELD_NAME, "The prompt. If left out: `prompt`."),
        optional("messages", &FIELD_NAME, "The messages of a chat, instead of a prompt. If left out: `messages`."),
        optional("system", &FIELD_NAME, "A system message. If left out: `system`."),
        optional(
            "output",
            &FIELD_NAME,
            "The text of the recorded response, of which only the length is used. If left out: `output`.",
        ),
        optional("output_tokens", &FIELD_NAME, "The number of tokens of the recorded response. If left out: `output_tokens`."),
    ],
    rules: &[],
};

pub(crate) static CACHES: [Choice; 4] = [
    choice("cold_salt", "Each trial's prompts begin with their own salt, so they match no prefix of another trial."),
    choice("cold_flush", "The endpoint's cache is flushed before each trial."),
    choice("warm", "The trial's own prompts are sent once before it is measured."),
    choice("shared", "Nothing is done: trials find the cache as earlier ones left it."),
];
pub(crate) static CAPTURES: [Choice; 3] = [
    choice("none", "Nothing."),
    choice("digest", "Their digests: equal texts are recognised, and none is disclosed."),
    choice("full", "The texts themselves, as raw evidence."),
];
static LATENCY_TYPE: Type = Type::Text(&LATENCY);
pub(crate) static SLOS: Table = Table {
    name: "SLOs",
    doc: "Limits that a request must meet to count towards goodput. A value equal to the limit meets it; a missing value does not.",
    selector: None,
    fields: &SLO_FIELDS,
    rules: &[],
};

/// A field for each metric that an SLO may limit.
static SLO_FIELDS: [Field; SloMetric::ALL.len()] = {
    let mut fields = [const { optional("", &LATENCY_TYPE, "") }; SloMetric::ALL.len()];
    let mut at = 0;
    while at < fields.len() {
        let slo = SloMetric::ALL[at];
        fields[at] = optional(slo.as_str(), limit_type(slo), slo.doc());
        at += 1;
    }
    fields
};

/// The type of a limit, by the unit of its metric.
const fn limit_type(slo: SloMetric) -> &'static Type {
    match slo.metric().definition().unit {
        Unit::Milliseconds => &LATENCY_TYPE,
        _ => panic!("limits in this unit have no type"),
    }
}

pub(crate) static BETTERS: [Choice; 2] =
    [choice("higher", "Larger is better, such as a throughput."), choice("lower", "Smaller is better, such as a latency.")];
static METRIC_TABLE: Table = Table {
    name: "metric",
    doc: "A reported value.",
    selector: None,
    fields: &[
        required("path", &METRIC_TYPE, "Its path in the result, members joined by dots."),
        required("unit", &Type::Text(&UNIT), "The unit of its values."),
        required("better", &Type::Choice(&BETTERS), "The direction that is better."),
        default("primary", &Type::Bool, "true", "Let gates judge it."),
    ],
    rules: &[],
};
static METRICS: Type =
    Type::List { item: &Type::Object(&METRIC_TABLE), min: 0, max: MAX_LIST, unique: Uniqueness::Field("path") };

/// A pipeline file.
pub(crate) static PIPELINE: Table = Table {
    name: "Pipeline",
    doc: "Chains the six stages over workloads and targets.",
    selector: None,
    fields: &[
        required("apiVersion", &Type::Choice(&VERSION_CHOICE), "The version of the format."),
        required("kind", &Type::Choice(&[choice("Pipeline", "A pipeline.")]), "What the file defines."),
        required("metadata", &Type::Object(&METADATA), "What it is called and whose it is."),
        required("spec", &Type::Object(&PIPELINE_SPEC), "The workloads, the targets, the trials and the claim."),
    ],
    rules: &[],
};

pub(crate) static INTENTS: [Choice; 3] = [
    Choice { word: "exploratory", alias: Some("exploratory_grade"), doc: "Exploration; never publishable." },
    Choice { word: "realism", alias: Some("realism_grade"), doc: "As in real use: shared machines, recorded context." },
    Choice {
        word: "publication",
        alias: Some("publication_grade"),
        doc: "A claim: everything that the claim rules require holds.",
    },
];
pub(crate) static ISOLATIONS: [Choice; 3] = [
    choice("none", "Nothing is done between trials."),
    choice("flush", "The target's prefix cache is flushed, at Assay's request, before each trial."),
    choice("restart_target", "The target is restarted for each trial."),
];
pub(crate) static PLACEMENTS: [Choice; 2] = [
    choice("coexist", "Both sides of a comparison are up together."),
    choice("alternate", "One side is up at a time; provision and execute repeat by blocks."),
];

static PIPELINE_SPEC: Table = Table {
    name: "pipeline",
    doc: "A case is workload x target x variant. A workload is paired with the targets that can run it: \
          indicators and training with `host`, serving with every other kind.",
    selector: None,
    fields: &[
        default("intent", &Type::Choice(&INTENTS), "\"exploratory\"", "The purpose of the run; decides how much must be proved."),
        required("workloads", &NAMES, "Names of workloads: `workloads/<name>/workload.yaml`."),
        required(
            "targets",
            &Type::List { item: &Type::Object(&TARGET), min: 1, max: MAX_LIST, unique: Uniqueness::Field("name") },
            "The systems under test.",
        ),
        default(
            "variants",
            &Type::List { item: &Type::Object(&VARIANT), min: 1, max: MAX_LIST, unique: Uniqueness::Field("name") },
            "[{\"name\": \"default\"}]",
            "Named changes of a target's surroundings.",
        ),
        default(
            "telemetry",
            &Type::List { item: &Type::Object(&TELEMETRY), min: 0, max: MAX_TELEMETRY, unique: Uniqueness::Field("name") },
            "[]",
            "Further sources of telemetry: exporters, Prometheus servers, GPUs and spans. The host of the load and the targets' endpoints are always recorded.",
        ),
        default("trials", &Type::Object(&TRIALS), "{}", "The trials of each point."),
        default("isolation", &Type::Choice(&ISOLATIONS), "\"none\"", "The isolation between trials; limits what may be claimed."),
        optional(
            "placement",
            &Type::Choice(&PLACEMENTS),
            "The way in which the sides of a comparison share the machine. If left out: `alternate` if there are `gates` and \
             the run starts both sides, else `coexist`.",
        ),
        optional("comparison", &Type::Object(&COMPARISON), "The two sides that are compared."),
        default(
            "shards",
            &Type::IntegerOr { word: "auto", min: 1, max: assay_manifest::MAX_SHARDS as i64 },
            "\"auto\"",
            "The number of processes that share the load of a trial. `auto`: enough to keep each below half of its measured ceiling.",
        ),
        optional("load", &Type::Object(&LOAD_PLACE), "The placement of the load generator."),
        optional("pricing", &Type::Object(&PRICING), "The price of an hour of the target."),
        optional(
            "claim",
            &Type::Object(&CLAIM),
            "The statement that accompanies published numbers. Required for `intent: publication`.",
        ),
        default(
            "controls",
            &Type::Object(&CONTROLS),
            "{}",
            "The environment controls that a claim rests on; a control that is not named is absent.",
        ),
        default(
            "gates",
            &Type::List { item: &Type::Object(&GATE), min: 0, max: MAX_LIST, unique: Uniqueness::Field("name") },
            "[]",
            "Rules from verdicts to an exit code.",
        ),
        default("stages", &STAGES_TYPE, ALL_STAGES, "The chain: all six stages in their fixed order, each with its overrides."),
        optional("schedule", &Type::Object(&SCHEDULE), "The schedule on which the pipeline runs."),
        default("publish", &Type::Object(&PUBLISH), "{}", "The published queries, and the destination."),
        default("fetch", &Type::Object(&FETCH), "{}", "The hosts that the plan stage may fetch from."),
        default("time_limit", &DURATION_TYPE, "\"24h\"", "The time after which a run is cancelled."),
    ],
    rules: &[],
};

pub(crate) static TARGET_KINDS: [Choice; 6] = [
    choice("host", "The machine itself, for indicators and training."),
    choice("endpoint", "An endpoint that is already running."),
    choice("process", "A process that provision starts."),
    choice("simulator", "The built-in reference endpoint, whose true times are known."),
    choice("objects", "Kubernetes objects that provision creates, in a cluster only."),
    choice(
        "inference_service",
        "An InferenceService of KServe or OME, or an LLMInferenceService of KServe, that is already running, in a cluster only.",
    ),
];
const REACHED: &[&str] = &["endpoint", "process", "simulator", "objects"];
const ASKED: &[&str] = &["endpoint", "process", "simulator", "objects", "inference_service"];
pub(crate) static INFERENCE_APIS: [Choice; 3] = [
    choice("kserve", "KServe's, `serving.kserve.io/v1beta1`."),
    choice("kserve_llm", "KServe's LLMInferenceService, `serving.kserve.io/v1alpha1`."),
    choice("ome", "OME's, `ome.io/v1beta1`."),
];
static CLIENT_CERTIFICATE: Table = Table {
    name: "client certificate",
    doc: "The certificate that the client shows to a server that demands one (mutual TLS).",
    selector: None,
    fields: &[
        required("cert", &Type::Reference, "The certificate in PEM, and behind it those that lead to its authority."),
        required("key", &Type::Reference, "Its private key in PEM, not encrypted. It is in no manifest, log or result."),
    ],
    rules: &[],
};
static TARGET_TLS: Table = Table {
    name: "tls",
    doc: "The certificates of connections to a target at `https`.",
    selector: None,
    fields: &[
        optional("ca", &Type::Reference, "Certificate authorities in PEM that are trusted besides those of the machine."),
        optional("client", &Type::Object(&CLIENT_CERTIFICATE), "The certificate of the client."),
    ],
    rules: &[Rule::AtLeastOne(&["ca", "client"])],
};
pub(crate) static TARGET: Table = Table {
    name: "target",
    doc: "A system under test.",
    selector: Some("kind"),
    fields: &[
        required("name", &NAME_TYPE, "Its name."),
        required("kind", &Type::Choice(&TARGET_KINDS), "The kind of target."),
        optional(
            "url",
            &Type::Text(&ENDPOINT_URL),
            "Its address. For `objects`: a Service among them, with its port. A simulator without one chooses a free port. An `endpoint` may be at a Unix socket of this machine: `unix:/run/server.sock`, with the path of its requests after another `:` if it is not `/v1`.",
        )
        .only(REACHED)
        .required_for_choices(&["endpoint", "process", "objects"]),
        optional(
            "command",
            &COMMAND,
            "Program and arguments of a process. For a host: those that a workload's `command` runs on this side, in place of its `run`.",
        )
        .only(&["host", "process"])
        .required_for_choices(&["process"]),
        required(
            "objects",
            &Type::List { item: &PATH_TYPE, min: 1, max: MAX_OBJECT_FILES, unique: Uniqueness::Item },
            "YAML files with the objects, relative to the repository's root.",
        )
        .only(&["objects"]),
        required("inference_service", &Type::Object(&INFERENCE_SERVICE), "The InferenceService.")
            .only(&["inference_service"]),
        default("env", &ENV, "{}", "Its environment variables: texts, or references to secrets.").only(&["host", "process", "simulator"]),
        default(
            "headers",
            &Type::Map { key: &HEADER, value: &Type::HeaderSource, min: 0, max: MAX_MAP },
            "{}",
            "Headers sent with each request. One that carries credentials is a reference.",
        )
        .only(ASKED),
        default(
            "insecure_skip_tls_verify",
            &Type::Bool,
            "false",
            "Accept any certificate over TLS. Results state it, and earn no publication grade.",
        )
        .only(&["endpoint"]),
        optional("tls", &Type::Object(&TARGET_TLS), "The certificates of connections to it, also to its replicas.").only(&["endpoint"]),
        default(
            "replicas",
            &Type::List { item: &Type::Text(&HTTP_URL), min: 0, max: MAX_REPLICAS, unique: Uniqueness::Item },
            "[]",
            "The addresses of the servers behind `url`, where that is a router: the counters of each are read and added up, and the cache of each is \
             emptied. If none is listed, the pods of a Service are found in a cluster.",
        )
        .only(&["endpoint"]),
        default("ready", &Type::Object(&READY), "{}", "The readiness probe.").only(ASKED),
        default("config", &FACTS, "{}", "Settings of the simulator, named like its options: `profile`, `seed` and so on.")
            .only(&["simulator"]),
        optional("image", &IMAGE_TYPE, "The container image that it runs in; for an endpoint, as declared."),
        default(
            "hardware",
            &FACTS,
            "{}",
            "Declared facts about its hardware, by name, such as `gpu_model`, `gpu_count` and `cpu_model`; of a target whose prompts and responses \
             are computed by different GPUs, `prefill_gpu_count` and `decode_gpu_count`. Observed facts take precedence.",
        ),
        default(
            "software",
            &FACTS,
            "{}",
            "Declared versions of its software, by name: `server`, `framework`, `driver`, `cuda`, `nccl` and others. Observed \
             versions take precedence.",
        ),
        default(
            "place",
            &FACTS,
            "{}",
            "Its declared place: `region`, `availability_zone`, `node_pool`, `queue`, `resource_flavor` and `tenant_mode`.",
        ),
        optional(
            "cpus",
            &CPUS_TYPE,
            "The CPUs that its processes are pinned to on one machine. If `load.cpus` names others, it does not share CPUs with the load.",
        )
        .only(&["process", "simulator"]),
        optional(
            "folder",
            &PATH_TYPE,
            "The folder with the files that a workload's `command` runs on this side, relative to the repository's root. With \
             `trials.rebuilds`, it has a folder for each build: `1`, `2` and so on.",
        )
        .only(&["host"]),
        optional(
            "working_directory",
            &Type::Text(&ABSOLUTE_PATH),
            "The folder of the machine in which a workload's `command` runs on this side. If left out, each invocation has a new one with \
             the workload's `files`.",
        )
        .only(&["host"]),
        default(
            "artifacts",
            &PATHS,
            "[]",
            "Files and folders that it executes and that no other field names, relative to the repository's root; their digests are recorded.",
        )
        .only(&["host", "process"]),
    ],
    rules: &[],
};
static LOAD_PLACE: Table = Table {
    name: "load generator",
    doc: "The placement of the load generator.",
    selector: None,
    fields: &[optional(
        "cpus",
        &CPUS_TYPE,
        "The CPUs that it is pinned to on one machine; a target's `cpus` may not include any of them.",
    )],
    rules: &[],
};
static INFERENCE_SERVICE: Table = Table {
    name: "inference service",
    doc: "An InferenceService or LLMInferenceService of the cluster. It is used, and neither changed nor released.",
    selector: None,
    fields: &[
        required("api", &Type::Choice(&INFERENCE_APIS), "The API that defines it."),
        required("name", &Type::Text(&OBJECT_NAME), "Its name."),
        required("namespace", &Type::Text(&OBJECT_NAME), "Its namespace."),
        optional("path", &Type::Text(&HTTP_PATH), "The path of its API below the address that it states, such as `/openai`."),
    ],
    rules: &[],
};
static READY: Table = Table {
    name: "ready",
    doc: "The readiness probe, before anything is measured.",
    selector: None,
    fields: &[
        optional("http", &Type::Text(&HTTP_PATH), "A path that returns 200 once the target is ready."),
        default("timeout", &DURATION_TYPE, "\"5m\"", "The time limit for readiness."),
    ],
    rules: &[],
};
static VARIANT: Table = Table {
    name: "variant",
    doc: "A named change of a target's surroundings.",
    selector: None,
    fields: &[
        required("name", &NAME_TYPE, "Its name."),
        optional("description", &TEXT_TYPE, "The change, for people."),
        default(
            "env",
            &ENV,
            "{}",
            "Environment variables that it adds to those of a target of `kind: host`, or replaces. A server is started once for all variants: make each a target with an `env` of its own.",
        ),
        optional(
            "python",
            &Type::Object(&PYTHON_STACK),
            "The Python packages that the programs of a target of `kind: host` run with.",
        ),
    ],
    rules: &[],
};
pub(crate) static PYTHON_INSTALLERS: [Choice; 2] =
    [choice("pip", "pip, as a module of the interpreter, version 22.3 or later."), choice("uv", "uv, found in PATH.")];
static PYTHON_STACK: Table = Table {
    name: "Python packages",
    doc: "A software stack of Python packages: they are installed in a virtual environment once before the first trial of the variant, from \
          wheels with the digests of the lock file, and compared with it. Scripts that begin with `#!/usr/bin/env python3`, and commands that \
          name `python3`, run in it.",
    selector: None,
    fields: &[
        required(
            "lock",
            &PATH_TYPE,
            "The lock file: a requirements file with the exact version and the digests of each package, relative to the repository's root.",
        ),
        default("installer", &Type::Choice(&PYTHON_INSTALLERS), "\"pip\"", "The program that installs the packages."),
        default(
            "interpreter",
            &WORD_TYPE,
            "\"python3\"",
            "The interpreter of the virtual environment: a path, or a name that is found in PATH.",
        ),
    ],
    rules: &[],
};
static PACKS: Type = Type::Shapes { scalar: Some(&NAME_TYPE), list: Some(&NAMES), map: None };
static LABEL_VALUES: Type = Type::Shapes {
    scalar: Some(&TEXT_TYPE),
    list: Some(&Type::List { item: &TEXT_TYPE, min: 1, max: MAX_MATCHED, unique: Uniqueness::Item }),
    map: None,
};
static TELEMETRY: Table = Table {
    name: "telemetry source",
    doc: "An exporter, the GPUs of the recorder's machine or the spans of servers, which are recorded while trials run, a Prometheus, which is asked afterwards for the samples of each attempt, or the accounting of a Slurm job.",
    selector: None,
    fields: &[
        required(
            "name",
            &NAME_TYPE,
            "Its name, which becomes `exporter/NAME`, `prometheus/NAME`, `nvidia-smi/NAME` or `otlp/NAME` in the column `source` of `telemetry_slice_fact`.",
        ),
        optional(
            "scrape",
            &Type::Text(&TELEMETRY_URL),
            "The address of an exporter's counters, without credentials, such as `http://node-7:9100/metrics`. The path is \
             `/metrics` if it is left out.",
        ),
        optional(
            "prometheus",
            &Type::Text(&TELEMETRY_URL),
            "The address of a Prometheus, or of another server with its HTTP API, before `/api/v1`, such as `http://prometheus:9090`.",
        ),
        optional(
            "nvidia_smi",
            &Type::Bool,
            "`true`: the GPUs of the machine that the recorder runs on, as `nvidia-smi`, which is found in PATH, reports them once a second.",
        ),
        optional(
            "otlp",
            &Type::Text(&LOOPBACK),
            "The loopback address at which the recorder receives spans of the servers under test, as OTLP over HTTP: `127.0.0.1:4318`.",
        ),
        optional(
            "sacct",
            &Type::Text(&SACCT),
            "The accounting of the Slurm job that the run is in, read once after the trials: `command` runs `sacct --json` for `SLURM_JOB_ID`; an absolute path is a file of its output.",
        ),
        optional("pack", &PACKS, "The query packs of Assay that a `prometheus` is asked: one name, or a list."),
        optional(
            "queries",
            &Type::List { item: &PATH_TYPE, min: 1, max: MAX_PACKS, unique: Uniqueness::Item },
            "Further query packs: YAML files, relative to the repository's root.",
        ),
        optional(
            "match",
            &Type::Map { key: &LABEL_NAME, value: &LABEL_VALUES, min: 1, max: MAX_LABEL_MATCHERS },
            "The labels that each series must have, such as `cluster: a`, with one value, or a list of values of which it has one.",
        ),
        optional(
            "headers",
            &Type::Map { key: &HEADER, value: &Type::HeaderSource, min: 1, max: MAX_MAP },
            "Headers sent with each request to a `prometheus`. One that carries credentials is a reference.",
        ),
        optional("insecure_skip_tls_verify", &Type::Bool, "Accept any certificate of a `prometheus` over TLS."),
        optional("tls", &Type::Object(&TARGET_TLS), "The certificates of connections to a `prometheus`."),
    ],
    rules: &[Rule::ExactlyOne(&["scrape", "prometheus", "nvidia_smi", "otlp", "sacct"])],
};
static TRIALS: Table = Table {
    name: "trials",
    doc: "The trials of each point: at least 3, unless the intent is exploratory, or it is realism and each trial measures sessions for at least 900 s: then 1, with intervals within run.",
    selector: None,
    fields: &[
        default(
            "count",
            &Type::IntegerOr { word: "sized", min: 1, max: 1000 },
            "5",
            "The number of trials of each point. `sized`: as many as the gates need given the noise in `pipelines/noise/<pipeline>.yaml`, at most 60.",
        ),
        default(
            "retry_budget",
            &Type::Integer { min: 0, max: 100 },
            "2",
            "The number of invalid attempts of one trial that may be repeated.",
        ),
        optional(
            "validity",
            &Type::Object(&VALIDITY),
            "The limits within which an attempt counts, if they are not the defaults.",
        ),
        default(
            "rebuilds",
            &Type::Integer { min: 1, max: 1000 },
            "1",
            "The number of builds of each side of a `command`; the pairs take them in turn. With one, a gate judges two \
             binaries; with as many as there are pairs, the effects of rebuilding, such as another layout of code, are averaged \
             out.",
        ),
        optional(
            "order_seed",
            &SEED_TYPE,
            "The seed of the order of the trials, to repeat an order; no gate judges such a run. If left out, each run has its own: a digest of its id and of the workloads' digests.",
        ),
    ],
    rules: &[],
};
static SHARE_LIMIT: Type = Type::Number { min: 0.0, above_min: false, max: 1.0 };
static VALIDITY: Table = Table {
    name: "validity",
    doc: "The limits within which an attempt counts. An attempt beyond one of them measured its client or a disturbed machine: it is kept, listed and repeated. The plan pins them, and `assay verify` judges every attempt again by them.",
    selector: None,
    fields: &[
        required("reason", &TEXT_TYPE, "The reason why this pipeline has limits of its own. It is part of the plan."),
        default(
            "lateness_p99",
            &Type::Text(&LATENESS),
            "\"25ms\"",
            "The maximum lateness of sending at the 99th percentile (`client_late`). 1 read for 100 token events may be later, and a 99th percentile may be as much above the true one, or by `delay_share` of it (`client_stalled`). From 5ms, the slice of a busy scheduler, to 1s.",
        ),
        default(
            "stall",
            &DURATION_TYPE,
            "\"1s\"",
            "The longest time for which the client may not poll its sockets (`client_stalled`).",
        ),
        default(
            "delay_share",
            &SHARE_LIMIT,
            "0.1",
            "The maximum share of the trial, of its requests' time and of a 99th percentile that may be the client's own delay (`client_stalled`).",
        ),
        default(
            "sent_share",
            &SHARE_LIMIT,
            "0.95",
            "The minimum share of the requested rate that must have been sent (`rate_not_offered`).",
        ),
        default(
            "throttled_share",
            &SHARE_LIMIT,
            "0.05",
            "The maximum share of the attempt for which its control group may be throttled (`cpu_throttled`).",
        ),
        optional(
            "steal_share",
            &SHARE_LIMIT,
            "The maximum share of the machine's CPU time that other guests of its hypervisor may take (`cpu_stolen`). No limit if left out.",
        ),
        optional(
            "softirq_share",
            &SHARE_LIMIT,
            "The maximum share of the machine's CPU time that soft interrupts may take, such as the handling of packets (`cpu_softirq`). No limit if left out.",
        ),
        optional(
            "pressure_share",
            &SHARE_LIMIT,
            "The maximum share of the attempt during which some task of the control group, or of the machine if the group counts none, waited for a CPU (`cpu_pressure`). No limit if left out.",
        ),
        optional(
            "retransmit_share",
            &SHARE_LIMIT,
            "The maximum share of the TCP segments sent that were sent again (`tcp_retransmits`). No limit if left out.",
        ),
    ],
    rules: &[],
};
static SIDE: Table = Table {
    name: "side",
    doc: "One side of a comparison.",
    selector: None,
    fields: &[
        required("target", &NAME_TYPE, "A target of this pipeline."),
        default("variant", &NAME_TYPE, "\"default\"", "A variant of this pipeline."),
    ],
    rules: &[],
};
pub(crate) static VARIABLES: [Choice; 12] = [
    choice("hardware_generation", "The hardware."),
    choice("runtime_version", "The version of the runtime or server."),
    choice("scheduler_path", "The scheduling of the work."),
    choice("control_plane_path", "The path through the control plane."),
    choice("driver_stack", "Drivers and their libraries."),
    choice("network_topology", "The network."),
    choice("storage_stack", "The storage."),
    choice("batching_policy", "The batching of requests."),
    choice("concurrency_model", "The implementation of concurrency."),
    choice("kernel_implementation", "The compute kernels."),
    choice("model", "The model."),
    choice("other", "Something else, named in `other`."),
];
static COMPARISON: Table = Table {
    name: "comparison",
    doc: "Two sides that differ in one variable.",
    selector: Some("variable_under_test"),
    fields: &[
        required("baseline", &Type::Object(&SIDE), "The side that is compared against."),
        required("candidate", &Type::Object(&SIDE), "The side that is judged."),
        required("variable_under_test", &Type::Choice(&VARIABLES), "The one variable that differs."),
        required("other", &TEXT_TYPE, "What differs, where no other word fits.").only(&["other"]),
    ],
    rules: &[],
};
static PRICING: Table = Table {
    name: "pricing",
    doc: "The price of an hour of the target. Not part of any workload's digest.",
    selector: None,
    fields: &[
        required("gpu_hour", &Type::Number { min: 0.0, above_min: false, max: 1e9 }, "Price of one GPU for one hour."),
        required("currency", &Type::Text(&CURRENCY), "The currency, by ISO 4217."),
        required("source", &TEXT_TYPE, "The source of the price."),
        required("as_of", &Type::Text(&DATE), "The day on which it was valid."),
    ],
    rules: &[],
};
static CLAIM: Table = Table {
    name: "claim",
    doc: "The statement that accompanies published numbers.",
    selector: None,
    fields: &[
        required("methodology", &TEXT_TYPE, "The method of measurement."),
        required("representative", &Type::Bool, "Whether it stands for more than itself."),
        required("statement", &TEXT_TYPE, "A statement of what the numbers do and do not represent."),
    ],
    rules: &[],
};
static CONTROL_TYPE: Type = Type::Object(&CONTROL);
static CONTROL: Table = Table {
    name: "environment control",
    doc: "`require: true` makes Assay prove it on the target; if it cannot, the grade falls. `declare` is a person's statement.",
    selector: None,
    fields: &[
        optional("require", &Type::Bool, "Require a proof; `false` is the same as leaving the control out."),
        optional("declare", &TEXT_TYPE, "A statement, by the person responsible, of how it is ensured."),
    ],
    rules: &[Rule::ExactlyOne(&["require", "declare"])],
};
pub(crate) static CONTROLS: Table = Table {
    name: "controls",
    doc: "The environment controls that a claim rests on. Each ends up `proved`, `declared` or `absent`.",
    selector: None,
    fields: &[
        optional("dedicated_nodes", &CONTROL_TYPE, "Nothing else runs on the target's nodes."),
        optional("fixed_topology", &CONTROL_TYPE, "The same devices and links in every trial."),
        optional("locked_clocks", &CONTROL_TYPE, "Clocks are pinned."),
        optional("stable_background", &CONTROL_TYPE, "The background load does not change."),
    ],
    rules: &[],
};
static GATE: Table = Table {
    name: "gate",
    doc: "A rule from verdicts to an exit code. A metric regressed only if the test, the noise floor and the budget all agree.",
    selector: None,
    fields: &[
        required("name", &NAME_TYPE, "Its name."),
        default(
            "metrics",
            &Type::List { item: &METRIC_TYPE, min: 0, max: MAX_LIST, unique: Uniqueness::Item },
            "[]",
            "The metrics that it judges; if empty, every primary metric. `max_load` is the most load within the SLOs over all loads of a workload.",
        ),
        default(
            "budget_pct",
            &Type::Number { min: 0.0, above_min: true, max: 100.0 },
            "5",
            "The largest change for the worse that passes.",
        ),
        default("block_on_inconclusive", &Type::Bool, "false", "Block on an inconclusive verdict too."),
        default(
            "q",
            &Type::Number { min: 0.0, above_min: true, max: 0.5 },
            "0.05",
            "The false discovery rate: the accepted share of false alarms among alarms, over all looks.",
        ),
        default(
            "looks",
            &Type::List { item: &SHARE, min: 1, max: MAX_LOOKS, unique: Uniqueness::No },
            "[1]",
            "One item for each time that the same tree may be judged, each with the trials of one more run: the share of `q` \
             that this look spends. The sum is at most 1.",
        ),
        default("slo", &Type::Bool, "false", "Block if a point of the candidate misses its SLOs."),
        default(
            "provenance",
            &Type::Bool,
            "false",
            "Block a run without a commit (a modified work tree, an ad hoc run), or whose signers are not established.",
        ),
        optional(
            "max_error_rate_pct",
            &Type::Number { min: 0.0, above_min: false, max: 100.0 },
            "The largest share of the candidate's requests that may fail at any point; a larger one blocks.",
        ),
        optional(
            "max_output_drift_pct",
            &Type::Number { min: 0.0, above_min: true, max: 100.0 },
            "The largest difference of the candidate's mean output length from the baseline's at any point; a larger one blocks.",
        ),
    ],
    rules: &[],
};
static SHARE: Type = Type::Number { min: 0.0, above_min: true, max: 1.0 };
/// The most looks of a gate: further looks spend more than they find.
const MAX_LOOKS: usize = 3;
pub(crate) static STAGES: [Choice; 6] = [
    choice("plan", "Expands the pipeline and pins its inputs. Timeout 10m."),
    choice("provision", "Starts targets and records the environment. Timeout 30m."),
    choice("execute", "Runs the trials. Timeout 24h."),
    choice("collect", "Completes and freezes the evidence. Timeout 30m."),
    choice("reduce", "Computes rows and statistics. Timeout 30m."),
    choice("publish", "Commits rows and renders the report. Timeout 10m."),
];
const ALL_STAGES: &str = r#"[{"name": "plan"}, {"name": "provision"}, {"name": "execute"}, {"name": "collect"}, {"name": "reduce"}, {"name": "publish"}]"#;
static STAGES_TYPE: Type = Type::List { item: &Type::Object(&STAGE), min: 1, max: 20, unique: Uniqueness::Field("name") };
static STAGE: Table = Table {
    name: "stage",
    doc: "A stage of the chain, with the pipeline's overrides.",
    selector: None,
    fields: &[
        required("name", &Type::Choice(&STAGES), "The stage."),
        optional(
            "image",
            &IMAGE_TYPE,
            "The container image that it runs in, in a cluster, named by digest; Assay's programs are copied into it. An administrator has to list it there.",
        ),
        default("resources", &Type::Object(&RESOURCES), "{}", "The resources that it needs in a cluster."),
        default("placement", &Type::Object(&STAGE_PLACEMENT), "{}", "The nodes that it may run on in a cluster."),
        default("pod", &Type::Object(&pod::POD), "{}", "Further settings of its pods in a cluster."),
        optional("timeout", &DURATION_TYPE, "The time after which an attempt of the stage is stopped."),
        default("retries", &Type::Integer { min: 0, max: 10 }, "1", "The number of retries after an environment failure."),
    ],
    rules: &[],
};
static RESOURCES: Table = Table {
    name: "resources",
    doc: "The resources that a stage needs in a cluster.",
    selector: None,
    fields: &[
        optional("cpu", &Type::Text(&QUANTITY), "CPU cores."),
        optional("memory", &Type::Text(&QUANTITY), "Memory in bytes."),
    ],
    rules: &[],
};
static STAGE_PLACEMENT: Table = Table {
    name: "stage placement",
    doc: "The nodes that a stage may run on in a cluster.",
    selector: None,
    fields: &[default(
        "node_selector",
        &Type::Map { key: &NODE_LABEL, value: &TEXT_TYPE, min: 0, max: MAX_MAP },
        "{}",
        "Labels that a node must carry.",
    )],
    rules: &[],
};
static NODE_LABEL: crate::format::Format = crate::format::Format {
    what: "a node label",
    pattern: "^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$",
    example: "kubernetes.io/arch",
    max: 317,
    normal: BRANCH.normal,
};
static SCHEDULE: Table = Table {
    name: "schedule",
    doc: "The schedule on which the pipeline runs. The slot is part of the run id, so that a missing run is noticed.",
    selector: None,
    fields: &[
        required("cron", &Type::Text(&CRON), "Minute, hour, day of month, month, day of week."),
        default("timezone", &Type::Text(&TIMEZONE), "\"UTC\"", "The time zone of `cron`."),
        default(
            "deadline",
            &DURATION_TYPE,
            "\"1h\"",
            "The time after its slot until which a run may start; a run that could not is skipped and reported.",
        ),
    ],
    rules: &[],
};
static PUBLISH: Table = Table {
    name: "publish",
    doc: "The published queries, and the destination.",
    selector: None,
    fields: &[
        default(
            "queries",
            &Type::List { item: &Type::Text(&SQL_PATH), min: 0, max: MAX_LIST, unique: Uniqueness::Item },
            "[]",
            "SQL files that select published numbers, relative to the repository's root.",
        ),
        optional("branch", &Type::Text(&BRANCH), "The branch that published folders are committed to; none if left out."),
        optional("folder", &PATH_TYPE, "The folder on the branch that gets a folder for each run; the root if left out."),
        optional(
            "remote",
            &Type::Text(&REMOTE),
            "The remote that has the branch: a name from the checkout, or an address without credentials. `origin` if left out.",
        ),
        optional(
            "hot_metrics",
            &Type::Object(&hot_metrics::HOT_METRICS),
            "The time-series stores that get the headline numbers of each run; none if left out.",
        ),
    ],
    rules: &[],
};
static FETCH: Table = Table {
    name: "fetch",
    doc: "The hosts that the plan stage may contact to fetch scripts and query registries.",
    selector: None,
    fields: &[default(
        "allow",
        &Type::List { item: &Type::Text(&HOST), min: 0, max: MAX_LIST, unique: Uniqueness::Item },
        "[]",
        "Hosts that may be fetched from. Empty: any host for a trusted run, none for an untrusted one.",
    )],
    rules: &[],
};

/// A trust policy file.
pub(crate) static TRUST_POLICY: Table = Table {
    name: "TrustPolicy",
    doc: "Says which key may sign what, and of what origin a manifest must be.",
    selector: None,
    fields: &[
        required("apiVersion", &Type::Choice(&VERSION_CHOICE), "The version of the format."),
        required("kind", &Type::Choice(&[choice("TrustPolicy", "A trust policy.")]), "What the file defines."),
        required("metadata", &Type::Object(&METADATA), "What it is called and whose it is."),
        required("spec", &Type::Object(&TRUST_SPEC), "Who is trusted with what."),
    ],
    rules: &[],
};
static TRUST_SPEC: Table = Table {
    name: "trust policy",
    doc: "Who is trusted with what. Whoever is not named is not trusted.",
    selector: None,
    fields: &[
        required(
            "signers",
            &Type::List { item: &Type::Object(&SIGNER), min: 1, max: MAX_LIST, unique: Uniqueness::Field("name") },
            "The keys, each with what it may sign.",
        ),
        default(
            "expectations",
            &Type::List { item: &Type::Object(&EXPECTATION), min: 0, max: MAX_LIST, unique: Uniqueness::No },
            "[]",
            "Requirements on the origin of manifests. A manifest must meet every entry that covers its role.",
        ),
        default(
            "timestamp_authorities",
            &Type::List { item: &Type::Object(&AUTHORITY), min: 0, max: 20, unique: Uniqueness::Field("name") },
            "[]",
            "The authorities whose RFC 3161 timestamps are believed. Without any, a timestamp is reported and not checked.",
        ),
    ],
    rules: &[],
};
static WORDS_OF_ORIGIN: Type = Type::List { item: &WORD_TYPE, min: 0, max: MAX_LIST, unique: Uniqueness::Item };
static GIT_REFS: Type = Type::List { item: &Type::Text(&GIT_REF), min: 0, max: MAX_LIST, unique: Uniqueness::Item };
static PIPELINE_PATHS: Type = Type::List { item: &PATH_TYPE, min: 0, max: MAX_LIST, unique: Uniqueness::Item };
static DIGESTS: Type = Type::List { item: &Type::Text(&SHA256), min: 0, max: MAX_LIST, unique: Uniqueness::Item };
pub(crate) static REQUIREMENTS: [Choice; 2] = [
    choice("optional", "A bundle may have no timestamp."),
    choice("required", "A bundle without a timestamp by an authority of this policy is refused."),
];
static EXPECTATION: Table = Table {
    name: "expectation",
    doc: "A requirement on the origin of manifests. An empty list requires nothing; of a list, one entry must match. A fact that the \
          evidence does not record does not match.",
    selector: None,
    fields: &[
        default(
            "roles",
            &Type::List { item: &Type::Choice(&ROLES), min: 0, max: 20, unique: Uniqueness::Item },
            "[]",
            "The roles that it covers; empty: `source`, `plan`, `provision`, `execute`, `collect`, `reduce` and `publish`.",
        ),
        default("repositories", &WORDS_OF_ORIGIN, "[]", "Addresses of the repository that the run was started from."),
        default(
            "refs",
            &GIT_REFS,
            "[]",
            "Full names of the branch or tag that the run was started from, as the source's signer recorded it.",
        ),
        default("pipelines", &PIPELINE_PATHS, "[]", "Paths of the pipeline in the repository."),
        default("binaries", &DIGESTS, "[]", "SHA-256 digests of the binary that signed."),
        default("images", &DIGESTS, "[]", "SHA-256 digests of the container image in which the signing binary ran."),
        default("timestamp", &Type::Choice(&REQUIREMENTS), "\"optional\"", "Whether a bundle needs a checked timestamp."),
    ],
    rules: &[Rule::AtLeastOne(&["repositories", "refs", "pipelines", "binaries", "images", "timestamp"])],
};
static AUTHORITY: Table = Table {
    name: "timestamp authority",
    doc: "A timestamp authority and the root that its certificates chain to.",
    selector: None,
    fields: &[
        required("name", &NAME_TYPE, "The name of the authority, for reports."),
        required(
            "certificates",
            &Type::Text(&CERTIFICATES),
            "The certificate chain as PEM text, in a block; the last certificate is the trusted root.",
        ),
        optional("not_before", &Type::Text(&INSTANT), "Timestamps from before this instant are not believed."),
        optional("not_after", &Type::Text(&INSTANT), "Timestamps from after this instant are not believed."),
    ],
    rules: &[],
};
pub(crate) static ROLES: [Choice; 11] = [
    choice("source", "Whoever starts a run."),
    choice("plan", "The plan stage."),
    choice("provision", "The provision stage."),
    choice("execute", "The execute stage."),
    choice("collect", "The collect stage and its recorder."),
    choice("reduce", "The reduce stage."),
    choice("publish", "The publish stage."),
    choice("gate", "The gate."),
    choice("calibrate", "The calibration of a client."),
    choice("probe", "The hardware probe on a target's node."),
    choice("import", "An importer of another tool's results."),
];
static SIGNER: Table = Table {
    name: "signer",
    doc: "A key and what it may sign.",
    selector: None,
    fields: &[
        required("name", &NAME_TYPE, "Whose key it is."),
        required("key", &Type::Text(&PUBLIC_KEY), "The public key as PEM text, in a block."),
        required(
            "signs",
            &Type::List { item: &Type::Choice(&ROLES), min: 1, max: 20, unique: Uniqueness::Item },
            "The roles that it may sign for.",
        ),
        optional("not_before", &Type::Text(&INSTANT), "Signatures from before this instant are not trusted."),
        optional("not_after", &Type::Text(&INSTANT), "Signatures from after this instant are not trusted."),
    ],
    rules: &[],
};

/// An acknowledgement file.
pub(crate) static ACKNOWLEDGEMENT: Table = Table {
    name: "Acknowledgement",
    doc: "Accepts one change for the worse beforehand, at `pipelines/acks/<name>.yaml` of the target branch. A larger change \
          still blocks, and so does every other one.",
    selector: None,
    fields: &[
        required("apiVersion", &Type::Choice(&VERSION_CHOICE), "The version of the format."),
        required("kind", &Type::Choice(&[choice("Acknowledgement", "An acknowledgement.")]), "What the file defines."),
        required("metadata", &Type::Object(&METADATA), "What it is called and whose it is."),
        required("spec", &Type::Object(&ACKNOWLEDGED), "The accepted change."),
    ],
    rules: &[],
};
static ACKNOWLEDGED: Table = Table {
    name: "acknowledgement",
    doc: "The accepted change, its place, its approver and its expiry.",
    selector: None,
    fields: &[
        required("case", &Type::Text(&CASE_ID), "The candidate's case: `workload.target.variant`."),
        optional("point", &NAME_TYPE, "The point; every point of the case if left out."),
        required("metric", &METRIC_TYPE, "The metric."),
        required(
            "accepts_pct",
            &Type::Number { min: 0.0, above_min: true, max: 1000.0 },
            "The largest change for the worse that is accepted.",
        ),
        optional(
            "pull_request",
            &Type::Integer { min: 1, max: 1_000_000_000 },
            "The pull request whose change is accepted, by its number.",
        ),
        optional("range", &Type::Object(&RANGE), "The commits whose change is accepted."),
        required("reason", &TEXT_TYPE, "The reason."),
        required("approver", &TEXT_TYPE, "The person who approved it."),
        required("expires", &Type::Text(&INSTANT), "The instant from which it accepts nothing, and gates report it as expired."),
    ],
    rules: &[Rule::ExactlyOne(&["pull_request", "range"])],
};
static RANGE: Table = Table {
    name: "range",
    doc: "The commits after a base, up to and including a merge.",
    selector: None,
    fields: &[
        required("base", &Type::Text(&COMMIT), "The commit before the change."),
        required("merge", &Type::Text(&COMMIT), "The commit that merged the change."),
    ],
    rules: &[],
};

/// The rules by which foreign evidence is judged.
pub(crate) static FOREIGN_GATE: Table = Table {
    name: "ForeignGate",
    doc: "The rules by which `assay gate --foreign` judges results of other tools, which Assay did not measure. `--policy` names the file.",
    selector: None,
    fields: &[
        required("apiVersion", &Type::Choice(&VERSION_CHOICE), "The version of the format."),
        required("kind", &Type::Choice(&[choice("ForeignGate", "Rules for foreign evidence.")]), "What the file defines."),
        required("metadata", &Type::Object(&METADATA), "What the gate is called and whose it is."),
        required("spec", &Type::Object(&FOREIGN_RULES), "The rules."),
    ],
    rules: &[],
};
static FOREIGN_RULES: Table = Table {
    name: "foreign rules",
    doc: "A metric regressed only if the test, the noise floor and the budget all agree.",
    selector: None,
    fields: &[
        default(
            "allow_foreign",
            &Type::Bool,
            "false",
            "Let a verdict block although Assay measured none of its numbers. Otherwise it is advisory: the exit code is 0.",
        ),
        default(
            "metrics",
            &Type::List { item: &METRIC_TYPE, min: 0, max: MAX_LIST, unique: Uniqueness::Item },
            "[]",
            "The metrics that decide, such as `vllm.ttft`, or one statistic of a metric, such as `vllm.ttft_p99`; if empty, every metric whose better direction is known. A metric without a \
             statistic is its mean, value or median: the first of these that there is.",
        ),
        default(
            "budget_pct",
            &Type::Number { min: 0.0, above_min: true, max: 100.0 },
            "5",
            "The largest change for the worse that passes.",
        ),
        default(
            "q",
            &Type::Number { min: 0.0, above_min: true, max: 0.5 },
            "0.05",
            "The false discovery rate: the accepted share of false alarms among alarms.",
        ),
        default(
            "block_on_inconclusive",
            &Type::Bool,
            "false",
            "Block on an inconclusive verdict too, if `allow_foreign` is true.",
        ),
    ],
    rules: &[],
};

/// A noise file.
pub(crate) static NOISE: Table = Table {
    name: "Noise",
    doc: "The noise of a comparison, learned from earlier runs, at `pipelines/noise/<pipeline>.yaml` of the target branch. \
          `assay noise` writes it. Gates judge by it, and `assay plan` sizes comparisons by it.",
    selector: None,
    fields: &[
        required("apiVersion", &Type::Choice(&VERSION_CHOICE), "The version of the format."),
        required("kind", &Type::Choice(&[choice("Noise", "Learned noise.")]), "What the file defines."),
        required("metadata", &Type::Object(&METADATA), "The name, which is the pipeline's name, and the owner."),
        required("spec", &Type::Object(&LEARNED), "The learned noise."),
    ],
    rules: &[],
};
static LEARNED: Table = Table {
    name: "learned",
    doc: "The learned noise and the runs that it was learned from.",
    selector: None,
    fields: &[
        required(
            "learned_from",
            &Type::List { item: &Type::Object(&NOISE_RUN), min: 1, max: MAX_LIST, unique: Uniqueness::Field("run") },
            "The runs that it was learned from.",
        ),
        required(
            "metrics",
            &Type::List { item: &Type::Object(&METRIC_NOISE), min: 1, max: MAX_LEARNED, unique: Uniqueness::No },
            "The noise of each metric at each point. Nothing is known about a metric or point that is not listed.",
        ),
    ],
    rules: &[],
};
/// The most metrics at points of a noise file: as many as a file of rules has room for.
const MAX_LEARNED: usize = 4_000;
static NOISE_RUN: Table = Table {
    name: "noise run",
    doc: "A run that noise was learned from.",
    selector: None,
    fields: &[
        required("run", &Type::Text(&RUN_ID), "Its name."),
        required("summary", &Type::Text(&SHA256), "The digest of its Summary."),
    ],
    rules: &[],
};
static NOISE_SPREAD: Type = Type::Number { min: 0.0, above_min: false, max: 5.0 };
static PAIR_UNITS: [Choice; 2] =
    [choice("pair", "Its trials only: both sides stayed up."), choice("launch", "Launches of both sides.")];
const FREEDOM: Field = required(
    "freedom",
    &Type::Number { min: 0.0, above_min: true, max: 1e6 },
    "The number of independent normal differences that carry as much information about that spread.",
);
const WORTH: Field = required(
    "worth",
    &Type::Number { min: 0.0, above_min: true, max: 1.0 },
    "The information in one difference relative to a normal one: less if tails are heavy.",
);
static USUAL_NOISE: Table = Table {
    name: "usual noise",
    doc: "The noise without spikes. A spike is many times as large as all other differences: beyond six robust standard deviations.",
    selector: None,
    fields: &[
        required("pair", &NOISE_SPREAD, "The spread of one difference that is no spike."),
        FREEDOM,
        WORTH,
        required("spikes", &Type::Integer { min: 0, max: 1_000_000 }, "The number of differences that are spikes."),
        required("differences", &Type::Integer { min: 1, max: 1_000_000 }, "The number of all differences."),
    ],
    rules: &[],
};
static METRIC_NOISE: Table = Table {
    name: "metric noise",
    doc: "The noise of a metric at a point. Spreads are standard deviations of logarithms of ratios: 0.02 is about 2 %.",
    selector: None,
    fields: &[
        required("workload", &NAME_TYPE, "The workload."),
        required("work", &Type::Text(&SHA256), "Its `workload_spec_digest`. The noise does not apply to other work."),
        required("point", &NAME_TYPE, "The point."),
        required("metric", &METRIC_TYPE, "The metric."),
        required(
            "unit",
            &Type::Choice(&PAIR_UNITS),
            "The part of the design that each pair had anew. Noise of one unit says nothing about the other.",
        ),
        required("pair", &NOISE_SPREAD, "The spread of one pair's difference, candidate over baseline."),
        FREEDOM,
        WORTH,
        optional("usual", &Type::Object(&USUAL_NOISE), "The same without spikes, if there are any."),
        required("launch", &NOISE_SPREAD, "The spread of a launch, including the contribution of a run's trials."),
        required(
            "launches",
            &Type::Integer { min: 1, max: 1_000_000 },
            "The number of launches of either side that it was seen in.",
        ),
        default(
            "largest_shift",
            &Type::Number { min: 0.0, above_min: false, max: 20.0 },
            "0.0",
            "The largest shift of a whole run: launches may fall into groups, which a spread describes poorly.",
        ),
        optional(
            "autocorrelation",
            &Type::Number { min: -1.0, above_min: false, max: 1.0 },
            "The lag-1 autocorrelation of pairs, if the runs show one: a change then has to exceed the difference between whole \
             runs.",
        ),
    ],
    rules: &[],
};

/// Returns every table, for tests.
#[cfg(test)]
pub(crate) fn all_tables() -> Vec<&'static Table> {
    fn visit(kind: &'static Type, found: &mut Vec<&'static Table>) {
        match kind {
            Type::Object(table) => {
                if found.iter().any(|known| std::ptr::eq(*known, *table)) {
                    return;
                }
                found.push(table);
                table.fields.iter().for_each(|field| visit(field.kind, found));
            }
            Type::List { item, .. } => visit(item, found),
            Type::Map { value, .. } => visit(value, found),
            Type::Shapes { scalar, list, map } => [scalar, list, map].into_iter().flatten().for_each(|kind| visit(kind, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for table in [&WORKLOAD, &PIPELINE, &TRUST_POLICY, &ACKNOWLEDGEMENT, &NOISE, &FOREIGN_GATE] {
        found.push(table);
        table.fields.iter().for_each(|field| visit(field.kind, &mut found));
    }
    found.extend([&REFERENCE, &HEADER_SOURCE]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Need;
    use assay_manifest as manifest;

    #[test]
    fn every_word_of_the_manifests_has_its_choice() {
        let words = |choices: &[Choice]| choices.iter().map(|choice| choice.word).collect::<Vec<_>>();
        macro_rules! agree {
            ($($choices:ident = $type:ty),+ $(,)?) => {
                $(assert_eq!(words(&$choices), <$type>::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());)+
            };
        }
        agree!(
            WORKLOAD_TYPES = manifest::WorkloadType,
            INTENTS = manifest::Intent,
            ISOLATIONS = manifest::Isolation,
            PLACEMENTS = manifest::Placement,
            TARGET_KINDS = manifest::TargetKind,
            INFERENCE_APIS = manifest::InferenceApi,
            BETTERS = manifest::BetterDirection,
            PYTHON_INSTALLERS = manifest::PythonInstaller,
            ROLES = manifest::Role,
        );
        let controls: Vec<_> = CONTROLS.fields.iter().map(|field| field.name).collect();
        assert_eq!(controls, manifest::Control::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&STAGES), manifest::Role::STAGES.iter().map(|role| role.as_str()).collect::<Vec<_>>());
    }

    #[test]
    fn every_table_is_whole() {
        for table in all_tables() {
            let by = table.selector.and_then(|by| table.field(by)).map(|field| match (field.kind, field.need) {
                (Type::Choice(choices), Need::Required) => choices.iter().map(|choice| choice.word).collect::<Vec<_>>(),
                _ => panic!("{}: the deciding field must be a required choice", table.name),
            });
            for field in table.fields {
                assert!(field.doc.ends_with('.'), "{}.{} ends its sentence", table.name, field.name);
                assert_eq!(table.fields.iter().filter(|other| other.name == field.name).count(), 1, "{}", field.name);
                let choices = field.only.iter().chain(match field.need {
                    Need::RequiredFor(choices) => choices,
                    _ => &[],
                });
                for choice in choices {
                    assert!(by.as_ref().is_some_and(|by| by.contains(choice)), "{}.{}: {choice}", table.name, field.name);
                }
            }
            for rule in table.rules {
                let names = rule.names();
                assert!(names.iter().all(|name| table.field(name).is_some()), "{}", table.name);
            }
        }
    }
}
