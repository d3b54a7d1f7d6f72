//! Writes a definition as YAML, with comments above the fields that they are about.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

/// The widest line of a comment, in characters.
const MAX_COMMENT: usize = 110;

/// A value of a definition.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A scalar, or a list or map on one line.
    Value(Value),
    /// A map, one member a line.
    Map(Vec<(String, Node)>),
    /// A list of maps.
    List(Vec<Node>),
}

impl<T: Into<Value>> From<T> for Node {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

/// Comments by the path of the field that they are about, such as `workload spec.load`.
#[derive(Debug, Default)]
pub(crate) struct Comments {
    all: Vec<Comment>,
    written: BTreeSet<usize>,
    /// The workload that is being written, by the end of its name.
    workload: Option<String>,
}

#[derive(Debug)]
struct Comment {
    /// The workload that has it, by the end of its name; `None` if all have it.
    workload: Option<String>,
    path: String,
    text: String,
}

impl Comments {
    /// Adds a comment on a field, of one workload or of all.
    pub(crate) fn add(&mut self, workload: Option<&str>, path: &str, text: String) {
        self.all.push(Comment { workload: workload.map(str::to_owned), path: path.to_owned(), text });
    }

    /// Begins a workload, by the end of its name, or a definition of another kind.
    pub(crate) fn begin(&mut self, workload: Option<&str>) {
        self.workload = workload.map(str::to_owned);
    }

    fn take(&mut self, path: &str) -> Vec<String> {
        let is_here =
            |comment: &Comment| comment.path == path && (comment.workload.is_none() || comment.workload == self.workload);
        let found: Vec<usize> = (0..).zip(&self.all).filter(|(_, comment)| is_here(comment)).map(|(index, _)| index).collect();
        self.written.extend(&found);
        found.into_iter().filter_map(|index| self.all.get(index)).map(|comment| comment.text.clone()).collect()
    }

    /// Returns the comments whose field was not written.
    pub(crate) fn rest(&self) -> Vec<String> {
        (0..).zip(&self.all).filter(|(index, _)| !self.written.contains(index)).map(|(_, comment)| comment.text.clone()).collect()
    }
}

/// Returns the text of a document of members. `root` is the path of the document, such as `workload`.
pub(crate) fn write(root: &str, members: &[(String, Node)], comments: &mut Comments) -> String {
    let mut writer = Writer { text: String::new(), comments };
    writer.members(&format!("{root} "), members, 0, false);
    writer.text
}

/// Returns a comment as lines that begin with `#`.
pub(crate) fn comment(text: &str, indent: usize) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let word: String = word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > MAX_COMMENT {
            let _ = writeln!(lines, "{:indent$}# {line}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines + &format!("{:indent$}# {line}\n", "")
}

struct Writer<'a> {
    text: String,
    comments: &'a mut Comments,
}

impl Writer<'_> {
    /// Writes the members of a map. The first one of an item of a list begins with its `-`.
    fn members(&mut self, path: &str, members: &[(String, Node)], indent: usize, is_item: bool) {
        for (index, (key, node)) in members.iter().enumerate() {
            let path = format!("{path}{key}");
            let is_first = is_item && index == 0;
            let lead = if is_first { indent.saturating_sub(2) } else { indent };
            for text in self.comments.take(&path) {
                self.text.push_str(&comment(&text, lead));
            }
            let dash = if is_first { "- " } else { "" };
            let _ = write!(self.text, "{:lead$}{dash}{}:", "", scalar(key, true));
            self.node(&path, node, indent);
        }
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn node(&mut self, path: &str, node: &Node, indent: usize) {
        match node {
            Node::Value(Value::String(text)) => self.line(&format!(" {}", scalar(text, false))),
            Node::Value(value) => self.line(&format!(" {}", flow(value))),
            Node::Map(members) => {
                self.text.push('\n');
                self.members(&format!("{path}."), members, indent + 2, false);
            }
            Node::List(items) => {
                self.text.push('\n');
                for (index, item) in items.iter().enumerate() {
                    match item {
                        Node::Map(members) => self.members(&format!("{path}[{index}]."), members, indent + 4, true),
                        Node::Value(value) => self.line(&format!("{:1$}- {2}", "", indent + 2, flow(value))),
                        Node::List(_) => {}
                    }
                }
            }
        }
    }
}

/// Returns a value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => scalar(text, true),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{}: {}", scalar(name, true), flow(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns a text without quotes if every reader takes it for that text, or else in quotes.
fn scalar(text: &str, in_flow: bool) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./()-".contains(c) || (c == ',' && !in_flow);
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    let is_number = text.parse::<f64>().is_ok() || text.starts_with("0x") || text.starts_with("0o");
    let begins_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_plain && text.chars().all(is_plain) && !is_word && !is_number { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            control if control.is_control() || matches!(control, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_has_its_comments_above_its_fields() {
        let mut comments = Comments::default();
        comments.add(None, "workload spec.lengths", "exactly".to_owned());
        comments.add(Some("one"), "workload targets[0].name", "first".to_owned());
        comments.add(Some("two"), "workload targets[0].name", "of another workload".to_owned());
        comments.add(None, "elsewhere", "left".to_owned());
        comments.begin(Some("one"));
        let spec = Node::Map(vec![
            ("lengths".to_owned(), "D(1,2)".into()),
            ("body".to_owned(), json!({"a": 0.0, "b": ["x", "1"]}).into()),
        ]);
        let target = Node::Map(vec![("name".to_owned(), "a".into()), ("url".to_owned(), "http://h:1".into())]);
        let text =
            write("workload", &[("spec".to_owned(), spec), ("targets".to_owned(), Node::List(vec![target]))], &mut comments);
        insta::assert_snapshot!(text, @r#"
        spec:
          # exactly
          lengths: D(1,2)
          body: {a: 0.0, b: [x, "1"]}
        targets:
          # first
          - name: a
            url: "http://h:1"
        "#);
        assert_eq!(comments.rest(), ["of another workload", "left"]);
    }

    #[test]
    fn texts_that_mean_something_else_are_quoted() {
        for text in ["true", "No", "1", "1e5", "0x1", "", "a: b", "#x", "- a", "/x", "x\u{7}", ".inf"] {
            assert!(scalar(text, false).starts_with('"'), "{text}");
        }
        for text in ["30m", "llama-8b", "a.b/c", "D(1,2)"] {
            assert_eq!(scalar(text, false), text);
        }
        assert_eq!(scalar("D(1,2)", true), "\"D(1,2)\"");
        assert_eq!(comment("a\u{1b} b\nc", 2), "  # a\u{fffd} b c\n");
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_written_is_read_back(text in "\\PC{0,40}", control in "[\\x00-\\x20]{0,3}") {
            let text = format!("{text}{control}");
            let written = write("", &[("a".to_owned(), text.as_str().into()), ("b".to_owned(), json!([text]).into())], &mut Comments::default());
            let read = assay_spec::parse_documents("a.yaml", written.as_bytes()).expect("it is YAML");
            proptest::prop_assert_eq!(read, vec![json!({"a": text, "b": [text]})]);
        }
    }
}
