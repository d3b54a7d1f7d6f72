//! Parses YAML text into a tree in which every key and value has its place.
//!
//! Definitions come from pull requests, so this reads a strict part of YAML: one document of maps, lists and scalars. Anchors,
//! aliases, merge keys and tags are refused, because each makes a file mean something other than what its lines say.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, StrInput};

use crate::problem::{Problems, Source, Span, quote};

/// The largest definition: hand-written files are a thousand times smaller.
pub const MAX_BYTES: usize = 1 << 20;
/// The deepest nesting: the definitions need sixteen levels, and recursion over the tree must end.
pub const MAX_DEPTH: usize = 32;
/// The most keys and values in one file: room for every list of a definition at its own limit in practice.
pub const MAX_NODES: usize = 100_000;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

/// A value. A scalar keeps its text: its meaning depends on its field.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    /// A value that has been reported already; readers skip it silently.
    Refused,
}

/// A key and its place.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A scalar as written in the file.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// True if quotes or a block style mark it as text, whatever it looks like.
    pub(crate) quoted: bool,
}

/// The type of a scalar by itself, before its field is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarType {
    Null,
    Bool,
    Number,
    Text,
}

impl Scalar {
    /// Returns the type of a scalar by the core schema of YAML 1.2 (section 10.3.2). `yes`, `no`, `on` and `off` are text there.
    pub(crate) fn scalar_type(&self) -> ScalarType {
        if self.quoted {
            return ScalarType::Text;
        }
        match self.text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => ScalarType::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => ScalarType::Bool,
            text if is_core_number(text) => ScalarType::Number,
            _ => ScalarType::Text,
        }
    }
}

fn is_core_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all = |digits: &str, radix| !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    match (text.get(..2), unsigned) {
        (Some("0o"), _) => all(&text[2..], 8),
        (Some("0x"), _) => all(&text[2..], 16),
        (_, ".inf" | ".Inf" | ".INF") => true,
        _ if matches!(text, ".nan" | ".NaN" | ".NAN") => true,
        // The rest is decimal; Rust's own words for infinity and NaN are letters and fail this test.
        _ => unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') && unsigned.parse::<f64>().is_ok(),
    }
}

/// Parses the tree of a definition. Refused constructs are reported and parsing goes on; `None` if the text has no tree at all.
pub(crate) fn parse(problems: &mut Problems<'_>) -> Option<Node> {
    let source = problems.source();
    if source.text().len() > MAX_BYTES {
        // Its size is not stated: a caller reads no more of it than shows that it is too large.
        let message = format!("the file has more than {MAX_BYTES} bytes, the limit of a definition");
        problems.add(source.span(0, 0), message);
        return None;
    }
    let mut reader = Reader::new(source, problems);
    match reader.document() {
        Ok(node) => Some(node),
        Err(ParseStop::Syntax(error)) => {
            reader.report_syntax_error(&error);
            None
        }
        Err(ParseStop::Reported) => None,
    }
}

/// Parses the trees of a file that may hold several documents, including empty ones.
pub(crate) fn parse_all(problems: &mut Problems<'_>) -> Option<Vec<Node>> {
    let source = problems.source();
    let mut reader = Reader::new(source, problems);
    match reader.documents() {
        Ok(nodes) => Some(nodes),
        Err(ParseStop::Syntax(error)) => {
            reader.report_syntax_error(&error);
            None
        }
        Err(ParseStop::Reported) => None,
    }
}

/// The reason why parsing ended early.
enum ParseStop {
    Syntax(ScanError),
    Reported,
}

struct Reader<'a, 'p> {
    source: &'a Source,
    problems: &'p mut Problems<'a>,
    parser: Parser<'a, StrInput<'a>>,
    /// Byte offset of each character; empty for ASCII, because both are the same there.
    offsets: Vec<usize>,
    nodes: usize,
}

impl<'a, 'p> Reader<'a, 'p> {
    fn new(source: &'a Source, problems: &'p mut Problems<'a>) -> Self {
        let text = source.text();
        let offsets = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Self { source, problems, parser: Parser::new_from_str(text), offsets, nodes: 0 }
    }

    fn document(&mut self) -> Result<Node, ParseStop> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => return self.report_empty(),
                event => {
                    let node = self.node(event, span, 1)?;
                    self.expect_end()?;
                    return Ok(node);
                }
            }
        }
    }

    fn documents(&mut self) -> Result<Vec<Node>, ParseStop> {
        let mut nodes = Vec::new();
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(nodes),
                (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing, _) => {}
                (event, span) => nodes.push(self.node(event, span, 1)?),
            }
        }
    }

    fn report_empty(&mut self) -> Result<Node, ParseStop> {
        let span = self.source.span(0, 0);
        self.problems.add_hinted(
            span,
            "the file is empty",
            "a definition begins with `apiVersion: assay.dev/v1alpha1` and `kind:`",
        );
        Err(ParseStop::Reported)
    }

    fn expect_end(&mut self) -> Result<(), ParseStop> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), span) => {
                    self.problems.add_hinted(span, "a second document begins here", "write one definition per file");
                    return Err(ParseStop::Reported);
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), ParseStop> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.span_between(span.start.index(), span.end.index()))),
            Some(Err(error)) => Err(ParseStop::Syntax(error)),
            None => Ok((Event::StreamEnd, self.span_between(usize::MAX, usize::MAX))),
        }
    }

    /// Returns the span between two character offsets, the unit in which the parser counts.
    fn span_between(&self, start: usize, end: usize) -> Span {
        self.source.span(self.byte(start), self.byte(end))
    }

    fn byte(&self, character: usize) -> usize {
        if self.offsets.is_empty() { character } else { self.offsets.get(character).copied().unwrap_or(usize::MAX) }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, ParseStop> {
        self.count(span, depth)?;
        let (value, end) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_decoration(span, anchor, tag.is_some());
                (Value::Scalar(Scalar { text: text.into_owned(), quoted: style != ScalarStyle::Plain }), span.end)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_decoration(span, anchor, tag.is_some());
                self.list(depth)?
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_decoration(span, anchor, tag.is_some());
                self.map(depth)?
            }
            Event::Alias(_) => {
                self.refuse_alias(span);
                (Value::Refused, span.end)
            }
            _ => return Err(ParseStop::Reported),
        };
        Ok(Node { value, span: Span { end: end.max(span.end), ..span } })
    }

    fn list(&mut self, depth: usize) -> Result<(Value, usize), ParseStop> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, span) => return Ok((Value::List(items), span.start)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<(Value, usize), ParseStop> {
        let mut members = Vec::new();
        let mut seen = std::collections::HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok((Value::Map(members), span.start));
            }
            let node = self.node(event, span, depth + 1)?;
            let key = self.key(node, &mut seen);
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            members.extend(key.map(|key| (key, value)));
        }
    }

    fn key(&mut self, node: Node, seen: &mut std::collections::HashMap<String, usize>) -> Option<Key> {
        let Value::Scalar(scalar) = node.value else {
            if !matches!(node.value, Value::Refused) {
                self.problems.add_hinted(node.span, "a key must be text, not a map or a list", "quote a key that holds brackets");
            }
            return None;
        };
        if scalar.text == "<<" && !scalar.quoted {
            let hint = "write the fields out, so that a reader sees them";
            self.problems.add_repeated(node.span, "merge keys are not allowed", hint);
            return None;
        }
        if scalar.scalar_type() != ScalarType::Text {
            let message = format!("the key {} is not text", quote(&scalar.text));
            self.problems.add_hinted(node.span, message, "put the key in quotes");
            return None;
        }
        if let Some(first) = seen.insert(scalar.text.clone(), node.span.line) {
            let message = format!("the key {} is given twice", quote(&scalar.text));
            self.problems.add_hinted(node.span, message, format!("it is first given in line {first}; keep one of them"));
            return None;
        }
        Some(Key { text: scalar.text, span: node.span })
    }

    fn count(&mut self, span: Span, depth: usize) -> Result<(), ParseStop> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            self.problems.add(span, format!("nested deeper than {MAX_DEPTH} levels"));
            return Err(ParseStop::Reported);
        }
        if self.nodes > MAX_NODES {
            self.problems.add(span, format!("more than {MAX_NODES} keys and values"));
            return Err(ParseStop::Reported);
        }
        Ok(())
    }

    fn refuse_decoration(&mut self, span: Span, anchor: usize, tagged: bool) {
        if anchor != 0 {
            self.problems.add_repeated(span, "anchors (`&name`) are not allowed", "write the value out where it is used");
        }
        if tagged {
            let hint = "remove the tag; the field decides what its value is";
            self.problems.add_repeated(span, "tags (`!name`) are not allowed", hint);
        }
    }

    fn refuse_alias(&mut self, span: Span) {
        self.problems.add_repeated(span, "aliases (`*name`) are not allowed", "write the value out");
    }

    fn report_syntax_error(&mut self, error: &ScanError) {
        let at = error.marker().index();
        let span = self.span_between(at, at.saturating_add(1));
        if error.info().contains("unknown anchor") {
            return self.refuse_alias(span);
        }
        let hint = syntax_hint(error.info());
        self.problems.add_maybe_hinted(span, format!("this is not YAML: {}", error.info()), hint.map(str::to_owned));
    }
}

fn syntax_hint(info: &str) -> Option<&'static str> {
    let hints = [
        ("tab", "indent with spaces; YAML allows no tabs there"),
        ("mapping values are not allowed", "quote a text that holds `: `, and check the indentation"),
        ("did not find expected key", "check the indentation: the keys of one map begin in one column"),
        ("end of stream", "a quote is opened and never closed"),
        ("simple key", "a key is followed by `:` and a space"),
    ];
    hints.iter().find(|(part, _)| info.contains(part)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::render;
    use insta::assert_snapshot;
    use proptest::prelude::*;

    /// Returns the tree in one line, or the problems.
    fn check(text: &str) -> String {
        let source = Source::new("a.yaml", text);
        let mut problems = Problems::new(&source);
        let tree = parse(&mut problems);
        let problems = problems.finish();
        if problems.is_empty() { tree.map_or("nothing".to_owned(), |node| show(&source, &node)) } else { render(&problems) }
    }

    fn show(source: &Source, node: &Node) -> String {
        match &node.value {
            Value::Scalar(scalar) => format!("{:?} {:?}", scalar.scalar_type(), scalar.text),
            Value::List(items) => format!("[{}]", items.iter().map(|item| show(source, item)).collect::<Vec<_>>().join(", ")),
            Value::Map(members) => {
                let member = |(key, value): &(Key, Node)| {
                    format!("{}@{}:{} {}", key.text, key.span.line, source.column(key.span), show(source, value))
                };
                format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
            }
            Value::Refused => "refused".to_owned(),
        }
    }

    #[test]
    fn keys_and_values_know_their_places() {
        assert_eq!(check("a: 1\nb:\n  - x\n  - {c: 'y'}\n"), r#"{a@1:1 Number "1", b@2:1 [Text "x", {c@4:6 Text "y"}]}"#);
        assert_eq!(check("ü: 'é'\nb: 2\n"), r#"{ü@1:1 Text "é", b@2:1 Number "2"}"#);
        assert_eq!(check("a: 1\r\nb: 2\r\n"), r#"{a@1:1 Number "1", b@2:1 Number "2"}"#);
    }

    #[test]
    fn only_the_core_schema_makes_a_scalar_more_than_text() {
        let looks = |text: &str| Scalar { text: text.to_owned(), quoted: false }.scalar_type();
        let all = |expected, texts: &[&str]| texts.iter().all(|text| looks(text) == expected);
        assert!(all(ScalarType::Null, &["", "~", "null", "NULL"]));
        assert!(all(ScalarType::Bool, &["true", "False", "TRUE"]));
        assert!(all(
            ScalarType::Number,
            &["0", "-1", "+2", "010", "1.", ".5", "1e3", "-1.5E-3", "0x1F", "0o17", ".inf", "-.INF", ".nan"]
        ));
        assert!(all(
            ScalarType::Text,
            &["yes", "no", "on", "off", "y", "inf", "nan", "-", ".", "1m", "0x", "1_000", "tRUE", "e5", "0x1G"]
        ));
        assert_eq!(Scalar { text: "true".to_owned(), quoted: true }.scalar_type(), ScalarType::Text);
    }

    #[test]
    fn anchors_aliases_and_tags_are_refused_together() {
        assert_snapshot!(check("a: &x 1\nb: *x\nc: !!str 2\n"), @r"
        error: anchors (`&name`) are not allowed
         --> a.yaml:1:4
          |
        1 | a: &x 1
          |    ^^^^
        hint: write the value out where it is used

        error: aliases (`*name`) are not allowed
         --> a.yaml:2:4
          |
        2 | b: *x
          |    ^^
        hint: write the value out

        error: tags (`!name`) are not allowed
         --> a.yaml:3:4
          |
        3 | c: !!str 2
          |    ^^^^^^^
        hint: remove the tag; the field decides what its value is
        ");
    }

    /// A document of anchors whose aliases multiply.
    #[test]
    fn each_kind_of_refused_construct_is_one_problem() {
        let levels = (1..40).map(|level| format!("l{level}: &l{level} [{}]\n", vec![format!("*l{}", level - 1); 9].join(", ")));
        let text = format!("l0: &l0 [x]\n{}", levels.collect::<String>());
        let source = Source::new("a.yaml", &text);
        let mut problems = Problems::new(&source);
        parse(&mut problems);
        let problems = problems.finish();
        let shown: Vec<String> = problems.iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect();
        assert_eq!(
            shown,
            [
                "1: anchors (`&name`) are not allowed, as in 39 more places up to line 40",
                "2: aliases (`*name`) are not allowed, as in 350 more places up to line 40",
            ]
        );
        assert!(check("a: !x 1\nb: !x 2\n").contains("tags (`!name`) are not allowed, as in 1 more place up to line 2"));
    }

    #[test]
    fn an_alias_without_an_anchor_is_refused() {
        assert_snapshot!(check("a: *x\n"), @r"
        error: aliases (`*name`) are not allowed
         --> a.yaml:1:4
          |
        1 | a: *x
          |    ^
        hint: write the value out
        ");
    }

    #[test]
    fn merge_keys_are_refused() {
        assert_snapshot!(check("a:\n  <<: {b: 1}\n"), @r"
        error: merge keys are not allowed
         --> a.yaml:2:3
          |
        2 |   <<: {b: 1}
          |   ^^
        hint: write the fields out, so that a reader sees them
        ");
    }

    #[test]
    fn a_second_document_is_refused() {
        assert_snapshot!(check("a: 1\n---\nb: 2\n"), @r"
        error: a second document begins here
         --> a.yaml:2:1
          |
        2 | ---
          | ^^^
        hint: write one definition per file
        ");
    }

    #[test]
    fn a_key_given_twice_is_refused() {
        assert_snapshot!(check("a: 1\nb: 2\n\"a\": 3\n"), @r#"
        error: the key `a` is given twice
         --> a.yaml:3:1
          |
        3 | "a": 3
          | ^^^
        hint: it is first given in line 1; keep one of them
        "#);
    }

    #[test]
    fn keys_that_are_not_text_are_refused() {
        assert_snapshot!(check("1: a\ntrue: b\n~: c\n[x]: d\n{y: z}: e\nyes: f\n"), @r"
        error: the key `1` is not text
         --> a.yaml:1:1
          |
        1 | 1: a
          | ^
        hint: put the key in quotes

        error: the key `true` is not text
         --> a.yaml:2:1
          |
        2 | true: b
          | ^^^^
        hint: put the key in quotes

        error: the key `~` is not text
         --> a.yaml:3:1
          |
        3 | ~: c
          | ^
        hint: put the key in quotes

        error: a key must be text, not a map or a list
         --> a.yaml:4:1
          |
        4 | [x]: d
          | ^^
        hint: quote a key that holds brackets

        error: a key must be text, not a map or a list
         --> a.yaml:5:1
          |
        5 | {y: z}: e
          | ^^^^^
        hint: quote a key that holds brackets
        ");
    }

    #[test]
    fn tabs_in_the_indentation_are_refused() {
        assert_snapshot!(check("a:\n\tb: 1\n"), @r"
        error: this is not YAML: tabs disallowed within this context (block indentation)
         --> a.yaml:2:2
          |
        2 |  b: 1
          |  ^
        hint: indent with spaces; YAML allows no tabs there
        ");
    }

    #[test]
    fn broken_yaml_says_where() {
        assert_snapshot!(check("a: b: c\n"), @r"
        error: this is not YAML: mapping values are not allowed in this context
         --> a.yaml:1:5
          |
        1 | a: b: c
          |     ^
        hint: quote a text that holds `: `, and check the indentation
        ");
    }

    #[test]
    fn an_open_quote_is_named() {
        assert_snapshot!(check("a: \"b\n"), @r#"
        error: this is not YAML: while scanning a quoted scalar, found unexpected end of stream
         --> a.yaml:1:4
          |
        1 | a: "b
          |    ^
        hint: a quote is opened and never closed
        "#);
    }

    #[test]
    fn an_empty_file_is_refused() {
        assert_snapshot!(check("# nothing here\n"), @r"
        error: the file is empty
         --> a.yaml:1:1
          |
        1 | # nothing here
          | ^
        hint: a definition begins with `apiVersion: assay.dev/v1alpha1` and `kind:`
        ");
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| check(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        assert!(nested(MAX_DEPTH).starts_with("[["), "{}", nested(MAX_DEPTH));
        assert_snapshot!(nested(MAX_DEPTH + 1), @r"
        error: nested deeper than 32 levels
         --> a.yaml:1:33
          |
        1 | [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
          |                                 ^
        ");
    }

    #[test]
    fn size_has_a_limit() {
        assert_snapshot!(check(&"a".repeat(MAX_BYTES + 1)).lines().next().unwrap_or_default(), @"error: the file has more than 1048576 bytes, the limit of a definition");
        assert!(check(&format!("a: {}", "x".repeat(MAX_BYTES - 3))).starts_with("{a@1:1 Text"));
    }

    #[test]
    fn the_number_of_nodes_has_a_limit() {
        let many = "- 1\n".repeat(MAX_NODES);
        assert_snapshot!(check(&many), @r"
        error: more than 100000 keys and values
              --> a.yaml:100000:3
               |
        100000 | - 1
               |   ^
        ");
    }

    /// Each of these has overwhelmed some YAML reader; here each results in a tree or a problem.
    #[test]
    fn hostile_texts_end_with_a_problem() {
        let laughs: String =
            (1..9).map(|i| format!("l{i}: &l{i} [*l{0},*l{0},*l{0},*l{0}]\n", i - 1)).collect::<Vec<_>>().concat();
        let hostile = [
            "[".repeat(100_000),
            "{".repeat(100_000),
            "- ".repeat(100_000),
            "? ".repeat(100_000),
            "a: ".repeat(100_000),
            format!("[{}]", "x,".repeat(MAX_BYTES / 2 - 1)),
            format!("{{{}}}", (0..60_000).map(|i| format!("é{i}: ,")).collect::<Vec<_>>().concat()),
            format!("{{{}}}", "a: 1, ".repeat(40_000)),
            "{a: ".repeat(10_000),
            (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<Vec<_>>().concat(),
            format!("l0: &l0 lol\n{laughs}"),
            "&a ".repeat(10_000),
            "!a ".repeat(10_000),
            "*a".to_owned(),
            "\"".to_owned() + &"\\u0000".repeat(10_000),
            "'".repeat(100_001),
            "%TAG ! !\n--- !x y".to_owned(),
            "--- |999\n x".to_owned(),
            "a: |\n\t\tb".to_owned(),
            "\0".to_owned(),
            "a\0b: c".to_owned(),
            "---\n---\n---".to_owned(),
            "...\n...".to_owned(),
        ];
        for text in hostile {
            let shown = check(&text);
            assert!(shown.contains("error: "), "{text:.40}: {shown:.200}");
        }
        // The only two that are YAML: a line feed in disguise and a very long scalar.
        assert!(check("a: b\u{85}c").starts_with('{'));
        assert!(check(&format!("a: '{}'", "x".repeat(1_000_000))).starts_with('{'));
    }

    proptest! {
        #[test]
        fn any_text_ends_without_a_panic(text in any::<String>()) {
            check(&text);
        }

        #[test]
        fn any_text_of_yaml_signs_ends_without_a_panic(text in "[-a:?&*!|>'\"%@`{}\\[\\], #\n\t\r~<.0é]{0,60}") {
            check(&text);
        }

        #[test]
        fn a_quoted_text_comes_back(text in "[ -~é€😀]{0,40}") {
            let source = Source::new("a", &format!("k: {}", serde_json::Value::from(text.clone())));
            let mut problems = Problems::new(&source);
            let Some(Node { value: Value::Map(members), .. }) = parse(&mut problems) else { panic!("a map") };
            let Value::Scalar(scalar) = &members[0].1.value else { panic!("a scalar") };
            prop_assert_eq!(&scalar.text, &text);
        }
    }
}
