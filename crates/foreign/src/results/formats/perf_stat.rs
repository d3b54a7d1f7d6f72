//! `perf stat -x,`: one counter a line.

use serde_json::{Value, json};

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Label, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Shape, Unit,
    label,
};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "perf-stat",
    tool: "perf stat",
    versions: "`-x,` of Linux 6, by its documented format",
    recognised_by: "lines of value, unit and event, separated by commas",
    examples: &[ResultExample {
        name: "counters",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("perf.csv", include_str!("../examples/perf-stat.csv"))],
    }],
    parts: &[Part {
        name: "counters",
        form: Form::Text(parse),
        recognises: |document| document.get("counters").is_some_and(Value::is_array),
        version: "",
        scopes: &[Scope { at: "counters[]", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }],
        not_read: &[("counters[]/rest", "times, shares and derived numbers behind the event")],
    }],
};

/// The most lines of a file.
const MAX_LINES: usize = 10_000;
/// The words for a counter without a value.
const NOT_COUNTED: [&str; 2] = ["<not counted>", "<not supported>"];
const LABELS: &[Label] = &[label("event", "event")];

static FIELDS: &[ResultField] = &[ResultField {
    field: "value",
    metric: "perf-stat.counter",
    unit: Unit::StatedAt(
        "unit",
        &[("", "1"), ("msec", "ms"), ("ns", "ns"), ("Joules", "J"), ("MiB", "MiB"), ("MB/s", "MB/s"), ("C", "C")],
    ),
    shape: Shape::Number("value"),
    definition: "the value of an event; of `-r`, the mean of the repetitions",
    relation: Relation::Unlike,
}];

/// Makes a document of the lines; `None` if one of them is no counter.
fn parse(text: &str) -> Option<Value> {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let counters = lines.take(MAX_LINES + 1).map(counter).collect::<Option<Vec<Value>>>()?;
    (!counters.is_empty() && counters.len() <= MAX_LINES).then(|| json!({"counters": counters}))
}

fn counter(line: &str) -> Option<Value> {
    let mut fields = line.splitn(4, ',');
    let (value, unit, event, rest) = (fields.next()?.trim(), fields.next()?, fields.next()?, fields.next()?);
    let is_event = event.starts_with(|first: char| first.is_ascii_alphabetic()) && !event.contains(char::is_whitespace);
    let value = match value.parse::<f64>() {
        Ok(number) => json!(number),
        Err(_) if NOT_COUNTED.contains(&value) => Value::Null,
        Err(_) => return None,
    };
    is_event.then(|| json!({"value": value, "unit": unit, "event": event, "rest": rest}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_formats_are_none() {
        let counters =
            parse("# started\n\n1.5,msec,task-clock,100,100.00,,\n<not counted>,,cycles,0,0.00,,\n").expect("counters");
        assert_eq!(counters["counters"][0]["value"], json!(1.5));
        assert_eq!(counters["counters"][1]["value"], Value::Null);
        for text in ["", "# only\n", "a,b,c,d\n", "1,2\n", "1,,9,100\n", "1,ms,task-clock,1\ntext\n", "1,,two words,1\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
