//! MLPerf LoadGen: `mlperf_log_summary.txt`.

use serde_json::{Map, Value, json};

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Label, Part, Place, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Shape,
    Version, all, label, one,
};
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "loadgen",
    tool: "MLPerf LoadGen",
    versions: "4 and 5, by its documented format",
    recognised_by: "the heading `MLPerf Results Summary`",
    examples: &[ResultExample {
        name: "server",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("mlperf_log_summary.txt", include_str!("../examples/loadgen.txt"))],
    }],
    parts: &[Part {
        name: "summary",
        form: Form::Text(parse),
        recognises: |document| document.get("scenario").is_some_and(Value::is_string),
        version: Version::Unstated,
        scopes: &[Scope { at: "", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }],
        not_read: &[("lines", "lines that state a verdict, a parameter or a number that no table has")],
    }],
};

/// The most lines of a file.
const MAX_LINES: usize = 10_000;
const LABELS: &[Label] = &[
    label("scenario", "scenario"),
    label("mode", "mode"),
    label("result", "result"),
    label("target_qps", "parameters/target_qps"),
    label("samples_per_query", "parameters/samples_per_query"),
    label("min_duration_ms", "parameters/min_duration (ms)"),
    label("min_query_count", "parameters/min_query_count"),
    label("performance_sample_count", "parameters/performance_sample_count"),
];
const RANK: &str = "percentiles are order statistics, not interpolated";

static FIELDS: &[ResultField] = &[
    all("latency", "loadgen.latency", "ns", "completion - scheduled time of a query", Differs("e2e_ms", RANK)),
    all("first_token_latency", "loadgen.ttft", "ns", "first token - scheduled time of a query", Differs("ttft_ms", RANK)),
    all(
        "time_to_output_token",
        "loadgen.tpot",
        "ns",
        "(last token - first token) / (output tokens - 1)",
        Differs("tpot_ms", RANK),
    ),
    one("Samples per second", "loadgen.samples_per_s", "1/s", "samples / time of the run", Unlike),
    one(
        "Scheduled samples per second",
        "loadgen.scheduled_samples_per_s",
        "1/s",
        "samples that were due / time over which they were due",
        Unlike,
    ),
    one(
        "Completed samples per second",
        "loadgen.completed_samples_per_s",
        "1/s",
        "completed samples / time from the first scheduled time to the last completion",
        Unlike,
    ),
    one(
        "Tokens per second",
        "loadgen.tokens_per_s",
        "tokens/s",
        "output tokens / time of the run",
        Differs("output_tokens_per_s", "over the time of the run, from the scheduled time; Assay takes its window"),
    ),
    one(
        "Completed tokens per second",
        "loadgen.completed_tokens_per_s",
        "tokens/s",
        "output tokens / time from the first scheduled time to the last completion",
        Differs("output_tokens_per_s", "over the time to the last completion; Assay takes its window"),
    ),
    one(
        "additional/Completed tokens per second",
        "loadgen.additional_completed_tokens_per_s",
        "tokens/s",
        "the same in the additional statistics, if the summary states it, too: LoadGen computes both alike",
        Differs("output_tokens_per_s", "over the time to the last completion; Assay takes its window"),
    ),
];

/// The headings of the sections of a summary.
const HEADINGS: [(&str, Section); 3] = [
    ("MLPerf Results Summary", Section::Summary),
    ("Additional Stats", Section::Additional),
    ("Test Parameters Used", Section::Parameters),
];

/// A section of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Summary,
    Additional,
    Parameters,
}

/// The phrases of lines of statistics, with the member that each becomes.
const PHRASES: [(&str, &str); 4] = [
    ("first token latency (ns)", "first_token_latency"),
    ("time to output token (ns)", "time_to_output_token"),
    ("time per output token (ns)", "time_to_output_token"),
    ("latency (ns)", "latency"),
];

/// Makes a document of the lines; `None` if they are of another format.
fn parse(text: &str) -> Option<Value> {
    let is_summary = text.lines().take(5).any(|line| line.trim() == "MLPerf Results Summary");
    if !is_summary || text.lines().count() > MAX_LINES {
        return None;
    }
    let mut document = Map::new();
    let mut rest = Vec::new();
    let mut section = Section::Summary;
    for line in text.lines() {
        section = HEADINGS.iter().find(|(heading, _)| *heading == line.trim()).map_or(section, |(_, section)| *section);
        let Some((name, value)) = line.split_once(':') else { continue };
        if !take(section, name.trim(), value.trim(), &mut document) {
            rest.push(json!(name.trim()));
        }
    }
    document.insert("lines".to_owned(), Value::Array(rest));
    Some(Value::Object(document))
}

/// Takes a line into the document; returns false if no field or label is there for it.
fn take(section: Section, name: &str, value: &str, document: &mut Map<String, Value>) -> bool {
    let is_field = |name: &str| FIELDS.iter().any(|field| field.field == name && field.shape != Shape::Statistics);
    match (name, statistic_of(name)) {
        _ if section == Section::Parameters => return take_parameter(name, value, document),
        ("Scenario" | "Mode" | "Result is", _) => {
            let name = if name == "Result is" { "result".to_owned() } else { name.to_ascii_lowercase() };
            state(document, name, json!(value));
        }
        (_, Some((member, statistic))) => state_in(document, member, statistic, number(value)),
        // LoadGen writes this number into both sections.
        _ if section == Section::Additional && document.contains_key(name) && is_field(&format!("additional/{name}")) => {
            state_in(document, "additional", name.to_owned(), number(value));
        }
        _ if is_field(name) => state(document, name.to_owned(), number(value)),
        _ => return false,
    }
    true
}

/// Takes a parameter that is a label. The rate is that of the load in the scenario `Server` alone; in others, it is a guess.
fn take_parameter(name: &str, value: &str, document: &mut Map<String, Value>) -> bool {
    let is_label =
        LABELS.iter().any(|label| matches!(label.place, Place::At(path) if path.strip_prefix("parameters/") == Some(name)));
    let is_load = name != "target_qps" || document.get("scenario").and_then(Value::as_str) == Some("Server");
    if is_label && is_load {
        state_in(document, "parameters", name.to_owned(), json!(value));
    }
    is_label && is_load
}

/// Sets a member of an object of the document.
fn state_in(document: &mut Map<String, Value>, object: &str, name: String, value: Value) {
    if let Value::Object(members) = document.entry(object).or_insert_with(|| json!({})) {
        state(members, name, value);
    }
}

/// Sets a member. A second summary in the file states it again: both are a text then, which is an error where a number is expected.
fn state(members: &mut Map<String, Value>, name: String, value: Value) {
    let value = match members.get(&name) {
        Some(first) => json!(format!("{} and {}", plain(first), plain(&value))),
        None => value,
    };
    members.insert(name, value);
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the member and the statistic of a line, such as `99.00 percentile latency (ns)`.
fn statistic_of(name: &str) -> Option<(&'static str, String)> {
    let lower = name.to_ascii_lowercase();
    let (phrase, member) = PHRASES.iter().find(|(phrase, _)| lower.ends_with(phrase))?;
    let before = lower.strip_suffix(phrase)?.trim();
    match before.strip_suffix("percentile") {
        Some(percent) => Some((member, percent.trim().to_owned())),
        None => ["min", "max", "mean"].contains(&before).then(|| (*member, before.to_owned())),
    }
}

/// Returns a number, or else the text, which is an error where a number is expected.
fn number(text: &str) -> Value {
    text.parse::<f64>().ok().filter(|number| number.is_finite()).map_or_else(|| json!(text), |number| json!(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stated_twice_is_no_number() {
        let summary =
            "MLPerf Results Summary\nScenario : Server\nSamples per second: 200\nMin latency (ns) : 1\nResult is : VALID\n";
        let once = parse(summary).expect("a summary");
        assert_eq!(
            (&once["Samples per second"], &once["latency"]["min"], &once["result"]),
            (&json!(200.0), &json!(1.0), &json!("VALID"))
        );
        let twice = parse(&(summary.to_owned() + &summary.replace("VALID", "INVALID").replace("200", "100"))).expect("a summary");
        assert_eq!(twice["Samples per second"], "200.0 and 100.0");
        assert_eq!((&twice["latency"]["min"], &twice["result"]), (&json!("1.0 and 1.0"), &json!("VALID and INVALID")));
    }

    #[test]
    fn a_number_of_two_sections_is_two() {
        let summary = "MLPerf Results Summary\nScenario : Server\nCompleted tokens per second: 100282.36\nAdditional Stats\n\
                       Completed tokens per second                 : 74638.54\nTest Parameters Used\ntarget_qps : 104\nmax_async_queries : 0\n";
        let document = parse(summary).expect("a summary");
        assert_eq!(
            (&document["Completed tokens per second"], &document["additional"]["Completed tokens per second"]),
            (&json!(100_282.36), &json!(74_638.54))
        );
        assert_eq!((&document["parameters"], &document["lines"]), (&json!({"target_qps": "104"}), &json!(["max_async_queries"])));
        let offline = parse(&summary.replace("Server", "Offline")).expect("a summary");
        assert_eq!(offline.get("parameters"), None, "the rate of another scenario is a guess");
        let additional_alone = parse(&summary.replacen("Completed tokens per second", "Other", 1)).expect("a summary");
        assert_eq!(additional_alone["Completed tokens per second"], json!(74_638.54), "older versions have it there");
        let twice = parse(&(summary.to_owned() + summary)).expect("a summary");
        assert_eq!(twice["Completed tokens per second"], "100282.36 and 100282.36", "a second summary is none of the same run");
    }

    #[test]
    fn lines_become_statistics() {
        assert_eq!(statistic_of("99.90 percentile first token latency (ns)"), Some(("first_token_latency", "99.90".to_owned())));
        assert_eq!(statistic_of("Mean Time per Output Token (ns)"), Some(("time_to_output_token", "mean".to_owned())));
        assert_eq!((statistic_of("target_latency (ns)"), statistic_of("Scenario")), (None, None));
        assert_eq!((parse("Scenario : Server\n"), parse("")), (None, None));
        // A line with the name of the statistics is none of them.
        let document =
            parse("MLPerf Results Summary\nScenario : Server\nlatency : 5\nMin latency (ns) : 1\n").expect("a summary");
        assert_eq!((&document["latency"], &document["lines"]), (&json!({"min": 1.0}), &json!(["latency"])));
    }
}
