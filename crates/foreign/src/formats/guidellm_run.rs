//! `guidellm run`, of guidellm 0.7: a scenario whose parts are options, such as `--profile kind=constant,rate=5`.

use assay_spec::parse_documents;
use serde_json::{Map, Value, json};

use crate::command::{Arguments, Flag, Takes, ignored, many, one, refused};
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::formats::guidellm_scenario::map_scenario;
use crate::mapping::Mapping;
use crate::note::OWN_REPORTS;
use crate::value::typed;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "guidellm-run",
    title: "a command line of guidellm 0.7",
    versions: "0.7.0 to 0.7.3",
    recognised_by: "`guidellm run`",
    examples: &[
        Example {
            name: "rates",
            input: ExampleInput::Command(
                "guidellm run --backend kind=openai_http,target=http://127.0.0.1:8000,model=llama-3.1-8b --profile kind=poisson,rate[0]=1,rate[1]=2.5 \
                 --constraint kind=max_duration,seconds=60 --data kind=synthetic_text,prompt_tokens=256,output_tokens=128 --output kind=json",
            ),
            options: "",
        },
        Example {
            name: "concurrent",
            input: ExampleInput::Command(
                "guidellm run --backend kind=openai_http,target=http://127.0.0.1:8000,model=m,request_format=/v1/completions \
                 --profile kind=concurrent --override profile.streams 1,8 --constraint kind=max_requests,count=100 \
                 --data {\"kind\":\"synthetic_text\",\"prompt_tokens\":256,\"output_tokens\":128}",
            ),
            options: "",
        },
    ],
    fields: || docs(FLAGS),
    reader: Reader::Command { commands: &[&["guidellm", "run"]], flags: FLAGS, map },
};

pub(crate) static FLAGS: &[Flag] = &[
    one(
        &["--backend"],
        "the fields `spec.backend` of a [scenario](#guidellm-scenario)",
        "kind=openai_http,target=http://h:1,model=m",
    ),
    one(&["--profile"], "the fields `spec.profile` of a scenario", "kind=constant,rate=3"),
    many(&["--constraint"], "an item of `spec.constraints` of a scenario", "kind=max_errors,count=3"),
    many(&["--data"], "an item of `spec.data` of a scenario", "kind=synthetic_text,prompt_tokens=9,output_tokens=9"),
    many(&["--override"], "the items of `benchmarks` of a scenario", "profile.rate 1,2"),
    one(&["--tokenizer"], "the fields `spec.tokenizer` of a scenario", "kind=huggingface_auto,model=t"),
    one(&["--data-column-mapper"], "`spec.data_column_mapper` of a scenario", "kind=generative_column_mapper"),
    many(&["--data-preprocessor"], "`spec.data_preprocessors` of a scenario", "kind=encode_media"),
    one(&["--data-finalizer"], "`spec.data_finalizer` of a scenario", "kind=generative"),
    one(&["--data-loader"], "`spec.data_loader` of a scenario", "kind=pytorch"),
    one(&["--seed"], "`spec.seed` of a scenario", "kind=static,value=1"),
    many(&["--output"], "`spec.outputs` of a scenario", "kind=json"),
    one(&["--metrics"], "`spec.metrics` of a scenario", "kind=generative"),
    refused(&["--config", "--scenario", "-c"], Takes::One, "import that file, or write its fields as options"),
    ignored(
        &["--label", "-l"],
        Takes::Many,
        "labels of guidellm's reports: write `metadata.labels` of the pipeline if readers need them",
    ),
    ignored(&["--disable-console", "--disable-console-outputs"], Takes::Nothing, OWN_REPORTS),
    ignored(&["--disable-console-interactive", "--disable-progress"], Takes::Nothing, OWN_REPORTS),
];

/// The options that are a part of a scenario: the option, the name of the part, and whether the part is a list.
const PARTS: [(&str, &str, bool); 12] = [
    ("--backend", "backend", false),
    ("--profile", "profile", false),
    ("--constraint", "constraints", true),
    ("--tokenizer", "tokenizer", false),
    ("--data", "data", true),
    ("--data-column-mapper", "data_column_mapper", false),
    ("--data-preprocessor", "data_preprocessors", true),
    ("--data-finalizer", "data_finalizer", false),
    ("--data-loader", "data_loader", false),
    ("--seed", "seed", false),
    ("--output", "outputs", true),
    ("--metrics", "metrics", false),
];

/// The highest index of a list that is written item by item.
const MAX_INDEX: usize = 1_000;

/// The most steps of the name of a field.
const MAX_STEPS: usize = 16;

fn map(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let mut spec = Map::new();
    for (option, name, is_list) in PARTS.into_iter().filter(|(option, ..)| arguments.has(option)) {
        let parts: Option<Vec<Value>> = arguments.all(option).into_iter().map(part).collect();
        let Some(mut parts) = parts else {
            mapping.refused(option, "write `kind=KIND,NAME=VALUE`, or a JSON object with a `kind`");
            continue;
        };
        mapping.mapped(option, &format!("scenario spec.{name}"));
        spec.insert(name.to_owned(), if is_list { Value::Array(parts) } else { parts.pop().unwrap_or_default() });
    }
    let mut scenario = json!({"spec": spec});
    if arguments.has("--override") {
        match overrides(&arguments.all("--override")) {
            Some(benchmarks) => {
                mapping.mapped("--override", "scenario benchmarks");
                scenario["benchmarks"] = benchmarks;
            }
            None => mapping
                .refused("--override", "write `profile.rate` or `profile.streams`, and the values with commas between them"),
        }
    }
    map_scenario(&scenario, mapping);
}

/// Returns the object that an option states: in JSON, in YAML, or as names with values; `None` if it is none, or has no kind.
fn part(text: &str) -> Option<Value> {
    let documents = parse_documents("option", text.as_bytes()).unwrap_or_default();
    let whole = documents.into_iter().next().filter(Value::is_object);
    let mut part = whole.or_else(|| fields(text))?;
    // The tool takes `prompt-tokens` for `prompt_tokens`.
    if let Some(members) = part.as_object_mut() {
        *members = std::mem::take(members).into_iter().map(|(name, value)| (name.replace('-', "_"), value)).collect();
    }
    part.get("kind").is_some_and(Value::is_string).then_some(part)
}

/// Returns the object of `NAME=VALUE,NAME.NAME=VALUE,NAME[0]=VALUE`.
fn fields(text: &str) -> Option<Value> {
    let mut object = Value::Object(Map::new());
    for pair in text.split(',') {
        let (name, value) = pair.split_once('=')?;
        let steps: Vec<Step<'_>> = name.trim().split('.').map(Step::parse).collect::<Option<_>>()?;
        if steps.len() > MAX_STEPS {
            return None;
        }
        set(&mut object, &steps, scalar(value.trim()))?;
    }
    Some(object)
}

/// A step of the name of a field: a name, and the place in its list.
struct Step<'a> {
    name: &'a str,
    index: Option<usize>,
}

impl<'a> Step<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        match text.strip_suffix(']').and_then(|text| text.split_once('[')) {
            Some((name, index)) => {
                let index = index.parse().ok().filter(|index| *index <= MAX_INDEX)?;
                (!name.is_empty()).then_some(Self { name, index: Some(index) })
            }
            None => (!text.is_empty()).then_some(Self { name: text, index: None }),
        }
    }
}

/// Sets a field of an object. `None` if it is set already, or if another field stands in the way.
fn set(object: &mut Value, steps: &[Step<'_>], value: Value) -> Option<()> {
    let (step, rest) = steps.split_first()?;
    let mut place = object.as_object_mut()?.entry(step.name.to_owned()).or_insert(Value::Null);
    if let Some(index) = step.index {
        if place.is_null() {
            *place = json!([]);
        }
        let items = place.as_array_mut()?;
        if items.len() <= index {
            items.resize(index + 1, Value::Null);
        }
        place = items.get_mut(index)?;
    }
    if rest.is_empty() {
        return place.is_null().then(|| *place = value);
    }
    if place.is_null() {
        *place = json!({});
    }
    set(place, rest, value)
}

/// Returns a value as YAML reads it.
fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" => Value::Null,
        "yes" | "on" => Value::Bool(true),
        "no" | "off" => Value::Bool(false),
        _ => serde_json::from_str(text).unwrap_or_else(|_| typed(text)),
    }
}

/// Returns the benchmarks of pairs of a field and its values: the first benchmark has the first value of each. An empty value is none.
fn overrides(words: &[&str]) -> Option<Value> {
    let mut benchmarks: Vec<Map<String, Value>> = Vec::new();
    for pair in words.chunks(2) {
        let [name @ ("profile.rate" | "profile.streams"), values] = pair else { return None };
        for (index, value) in values.split(',').map(str::trim).enumerate() {
            if index >= MAX_INDEX {
                return None;
            }
            if benchmarks.len() <= index {
                benchmarks.push(Map::new());
            }
            if let Some(benchmark) = benchmarks.get_mut(index).filter(|_| !value.is_empty()) {
                benchmark.insert((*name).to_owned(), scalar(value));
            }
        }
    }
    Some(benchmarks.into_iter().map(Value::Object).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of guidellm's own documentation of this syntax.
    #[test]
    fn an_option_is_read_as_the_tool_reads_it() {
        for (text, expected) in [
            ("kind=a,prompt_tokens=10,output-tokens=30", json!({"kind": "a", "prompt_tokens": 10, "output_tokens": 30})),
            ("kind=a, rate[1]=2 ,rate[0]=1.5", json!({"kind": "a", "rate": [1.5, 2]})),
            ("kind=a,warmup.percent=0.1,warmup.mode=x", json!({"kind": "a", "warmup": {"percent": 0.1, "mode": "x"}})),
            ("kind=a,items[0].weight=10,items[0].count=5", json!({"kind": "a", "items": [{"weight": 10, "count": 5}]})),
            ("kind=a,stream=no,model=null,name=x=y", json!({"kind": "a", "stream": false, "model": null, "name": "x=y"})),
            (r#"{"kind": "a", "streams": [1, 2]}"#, json!({"kind": "a", "streams": [1, 2]})),
            ("{kind: a, streams: [1, 2]}", json!({"kind": "a", "streams": [1, 2]})),
        ] {
            assert_eq!(part(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "constant",
            "kind=a,2",
            "rate=1",
            "kind=a,kind=b",
            "kind=a,x=1,x.y=2",
            "kind=a,x[9999]=1",
            "kind=a,.x=1",
            "[1]",
            "kind=1",
        ] {
            assert_eq!(part(text), None, "{text}");
        }
        let deep = format!("kind=a,{}=1", vec!["x"; MAX_STEPS + 1].join("."));
        assert_eq!(part(&deep), None);
    }

    #[test]
    fn overrides_are_the_benchmarks_in_order() {
        let two = overrides(&["profile.streams", "1, 2,8"]).expect("benchmarks");
        assert_eq!(two, json!([{"profile.streams": 1}, {"profile.streams": 2}, {"profile.streams": 8}]));
        let both = overrides(&["profile.rate", "1,,3", "profile.streams", "5"]).expect("benchmarks");
        assert_eq!(both, json!([{"profile.rate": 1, "profile.streams": 5}, {}, {"profile.rate": 3}]));
        for words in [&["profile.rate"][..], &["constraint[0].seconds", "1"], &["1", "2"]] {
            assert_eq!(overrides(words), None, "{words:?}");
        }
    }
}
