//! `perf stat -x,`: one counter a line.

use serde_json::{Value, json};

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Label, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Shape, Unit,
    Version, label,
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
        version: Version::Unstated,
        scopes: &[Scope { at: "counters[]", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }],
        not_read: &[
            ("counters[]/rest", "times, shares and derived numbers behind the event"),
            ("further", "derived numbers of an event, in lines of their own"),
        ],
    }],
};

/// The most lines of a file.
const MAX_LINES: usize = 10_000;
/// The words for a counter without a value.
const NOT_COUNTED: [&str; 2] = ["<not counted>", "<not supported>"];
/// The beginning of a line with further numbers of the event of the line before: it has no value, unit and event.
const FURTHER: &str = ",,,";
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
    let (further, counters): (Vec<&str>, Vec<&str>) = lines.take(MAX_LINES + 1).partition(|line| line.starts_with(FURTHER));
    let is_short = further.len() + counters.len() <= MAX_LINES;
    let counters = counters.into_iter().map(counter).collect::<Option<Vec<Value>>>()?;
    (!counters.is_empty() && is_short).then(|| json!({"counters": counters, "further": further}))
}

fn counter(line: &str) -> Option<Value> {
    let mut fields = line.splitn(3, ',');
    let (value, unit, after) = (fields.next()?.trim(), fields.next()?, fields.next()?);
    let (event, rest) = split_event(after)?;
    let is_event = event.starts_with(|first: char| first.is_ascii_alphabetic()) && !event.contains(char::is_whitespace);
    let value = match value.parse::<f64>() {
        // A text is an error where a number is expected.
        Ok(number) => Some(number).filter(|number| number.is_finite()).map_or_else(|| json!(value), |number| json!(number)),
        Err(_) if NOT_COUNTED.contains(&value) => Value::Null,
        Err(_) => return None,
    };
    is_event.then(|| json!({"value": value, "unit": unit, "event": event, "rest": rest}))
}

/// Splits an event from the fields behind it. The name of an event may have commas between slashes, as in `cpu/event=0x3c,umask=0x1/`.
fn split_event(text: &str) -> Option<(&str, &str)> {
    let mut is_inside = false;
    let end = text.find(|letter| {
        is_inside ^= letter == '/';
        letter == ',' && !is_inside
    });
    let (event, rest) = text.split_at_checked(end.or_else(|| text.find(','))?)?;
    Some((event, rest.strip_prefix(',')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_numbers_of_an_event_are_no_counters() {
        let counters = parse("12,,cycles,100,100.00,2.5,GHz\n,,,,,0.25,stalled cycles per insn\n").expect("counters");
        assert_eq!(counters["counters"].as_array().map(Vec::len), Some(1));
        assert_eq!(counters["further"], json!([",,,,,0.25,stalled cycles per insn"]));
        assert_eq!(parse(",,,,,0.25,stalled cycles per insn\n"), None, "no counter is there");
    }

    #[test]
    fn the_name_of_an_event_may_have_commas() {
        let counters = parse("12,,cpu/event=0x3c,umask=0x1/u,100,100.00,,\n7,,a/b,100\n").expect("counters");
        assert_eq!(counters["counters"][0]["event"], json!("cpu/event=0x3c,umask=0x1/u"));
        assert_eq!(counters["counters"][0]["rest"], json!("100,100.00,,"));
        assert_eq!(counters["counters"][1]["event"], json!("a/b"), "a slash without another is a letter");
    }

    #[test]
    fn a_value_that_is_no_finite_number_stays_a_text() {
        for word in ["inf", "nan", "-inf"] {
            let counters = parse(&format!("{word},,cycles,100,100.00,,\n")).expect("counters");
            assert_eq!(counters["counters"][0]["value"], json!(word));
        }
    }

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
