//! Checks a tree against a field table: unknown, missing and misplaced fields, kinds of values, limits, formats. Reports all
//! problems in one go; every valid part goes into the checked tree, so that later checks report their problems in the same go.

use serde_json::Value as Json;

use crate::checked_value::{CheckedValue, Value};
use crate::field::{Choice, Field, Need, Rule, Table, Type, Uniqueness};
use crate::format::{ENDPOINT_URL, Format, HTTP_URL, HTTPS_URL, REMOTE, TELEMETRY_URL, TEXT, WORD};
use crate::problem::{Problems, Source, Span, did_you_mean, quote};
use crate::secret::{carries_key, carries_password, decodings};
use crate::tables::{HEADER_SOURCE, REFERENCE};
use crate::yaml::{Key, Node, Scalar, ScalarType, Value as Tree};

/// The longest value of an environment variable: Linux takes 128 KiB, definitions need a line.
const MAX_SCALAR: usize = 4096;

/// The remedy for an address that contains a user, a password or a key.
pub const NO_CREDENTIALS: &str = "remove it; credentials go into `headers`, as references";

/// Checks a whole definition. The result lacks invalid parts.
pub(crate) fn check(table: &'static Table, node: &Node, problems: &mut Problems<'_>) -> Option<CheckedValue> {
    let top = problems.source().span(0, 0);
    Checker { problems, hidden: false }.object(table, node, FieldPlace { path: "", anchor: top })
}

/// Returns the value of an absent field, in its normal form and with an empty span.
pub(crate) fn default_value(field: &'static Field, json: &str) -> Option<CheckedValue> {
    let value: Json = serde_json::from_str(json).ok()?;
    let source = Source::new("", "");
    let mut problems = Problems::new(&source);
    let place = FieldPlace { path: field.name, anchor: Span::default() };
    Checker { problems: &mut problems, hidden: false }.value(field.kind, &node_of(&value), place)
}

fn node_of(value: &Json) -> Node {
    let scalar = |text: String, quoted| Tree::Scalar(Scalar { text, quoted });
    let value = match value {
        Json::String(text) => scalar(text.clone(), true),
        Json::Array(items) => Tree::List(items.iter().map(node_of).collect()),
        Json::Object(members) => {
            let key = |text: &String| Key { text: text.clone(), span: Span::default() };
            Tree::Map(members.iter().map(|(name, value)| (key(name), node_of(value))).collect())
        }
        other => scalar(other.to_string(), false),
    };
    Node { value, span: Span::default() }
}

/// The name of a value in messages, and the span to point at if the value is absent.
#[derive(Clone, Copy)]
struct FieldPlace<'a> {
    path: &'a str,
    anchor: Span,
}

/// The most fields that a hint names.
const MAX_NAMED_FIELDS: usize = 6;

/// Names the first fields of an object.
fn name_fields(table: &Table) -> String {
    let names: Vec<_> = table.fields.iter().take(MAX_NAMED_FIELDS).map(|field| quote(field.name)).collect();
    let more = if table.fields.len() > MAX_NAMED_FIELDS { " and others" } else { "" };
    format!("its fields are {}{more}", names.join(", "))
}

impl FieldPlace<'_> {
    fn member(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

struct Checker<'p, 'a> {
    problems: &'p mut Problems<'a>,
    /// True if the value that is being checked may be a secret, so that no message quotes it and no excerpt shows it.
    hidden: bool,
}

impl Checker<'_, '_> {
    fn value(&mut self, kind: &'static Type, node: &Node, place: FieldPlace<'_>) -> Option<CheckedValue> {
        if self.hidden || !may_be_secret(kind) {
            return self.shown_value(kind, node, place);
        }
        let before = self.problems.count();
        self.hidden = true;
        let checked = self.shown_value(kind, node, place);
        self.hidden = false;
        self.problems.redact_from(before, node.span);
        checked
    }

    /// Returns a text of the file as a message may show it.
    fn quote(&self, text: &str) -> String {
        if self.hidden { "`…`".to_owned() } else { quote(text) }
    }

    fn describe_found(&self, node: &Node) -> String {
        if self.hidden { "what is written".to_owned() } else { describe_node(node) }
    }

    fn shown_value(&mut self, kind: &'static Type, node: &Node, place: FieldPlace<'_>) -> Option<CheckedValue> {
        let value = match (kind, &node.value) {
            (_, Tree::Refused) => None,
            (Type::Object(table), _) => return self.object(table, node, place),
            (Type::Reference, _) => return self.reference(&REFERENCE, node, place),
            (Type::HeaderSource, _) => return self.reference(&HEADER_SOURCE, node, place),
            (Type::Shapes { scalar: Some(kind), .. }, Tree::Scalar(_))
            | (Type::Shapes { list: Some(kind), .. }, Tree::List(_))
            | (Type::Shapes { map: Some(kind), .. }, Tree::Map(_)) => return self.value(kind, node, place),
            (_, Tree::Scalar(scalar)) if scalar.scalar_type() == ScalarType::Null => {
                let remedy =
                    if matches!(kind, Type::Scalar) { "write `\"\"` for the empty text" } else { "give it a value or remove it" };
                self.problems.add_hinted(place.anchor, format!("`{}` has no value", place.path), remedy);
                None
            }
            (Type::Text(format), Tree::Scalar(scalar)) => self.text(format, scalar, node, place).map(Value::Text),
            (Type::Choice(choices), Tree::Scalar(scalar)) => self.choice(choices, scalar, node, place),
            (Type::Bool, Tree::Scalar(scalar)) => self.boolean(scalar, node, place),
            (Type::Integer { min, max }, Tree::Scalar(scalar)) => self.integer(scalar, (*min, *max), node, place),
            (Type::IntegerOr { word, .. }, Tree::Scalar(scalar)) if scalar.text == *word => {
                Some(Value::Text(scalar.text.clone()))
            }
            (Type::IntegerOr { word, min, max }, Tree::Scalar(scalar)) => {
                self.integer_or(word, scalar, (*min, *max), node, place)
            }
            (Type::Number { min, above_min, max }, Tree::Scalar(scalar)) => {
                self.number(scalar, (*min, *above_min, *max), node, place)
            }
            (Type::Scalar, Tree::Scalar(scalar)) => self.scalar(scalar, node, place),
            (Type::List { item, min, max, unique }, Tree::List(items)) => {
                self.check_length("items", items.len(), (*min, *max), place);
                let list = self.list(item, items.get(..*max).unwrap_or(items), place);
                self.check_unique(*unique, &list, place);
                Some(Value::List(list))
            }
            (Type::Map { key, value, min, max }, Tree::Map(members)) => {
                self.check_length("entries", members.len(), (*min, *max), place);
                Some(Value::Map(self.map(key, value, members.get(..*max).unwrap_or(members), place)))
            }
            _ => self.mismatch(kind, node, place),
        };
        Some(CheckedValue { value: value?, span: node.span, anchor: place.anchor })
    }

    fn mismatch(&mut self, kind: &Type, node: &Node, place: FieldPlace<'_>) -> Option<Value> {
        let hint = match (kind, &node.value) {
            (Type::List { .. } | Type::Shapes { list: Some(_), scalar: None, .. }, Tree::Scalar(scalar)) => {
                Some(format!("write a list: `[{}]`", visible_part(&scalar.text)))
            }
            _ => None,
        };
        let message = format!("`{}` must be {}, not {}", place.path, expectation(kind), self.describe_found(node));
        self.problems.add_maybe_hinted(node.span, message, hint);
        None
    }

    fn object(&mut self, table: &'static Table, node: &Node, place: FieldPlace<'_>) -> Option<CheckedValue> {
        let Tree::Map(members) = &node.value else {
            if !matches!(node.value, Tree::Refused) {
                let (message, hint) = match place.path {
                    "" => (format!("a {} must be a map of fields, not {}", table.name, self.describe_found(node)), None),
                    path => (format!("`{path}` must be a map, not {}", self.describe_found(node)), Some(name_fields(table))),
                };
                self.problems.add_maybe_hinted(node.span, message, hint);
            }
            return None;
        };
        let choice = find_choice(table, members);
        let mut checked = Vec::new();
        for (key, value) in members {
            let Some(field) = self.find_field(table, key, choice, place) else { continue };
            let path = place.member(field.name);
            let value = self.value(field.kind, value, FieldPlace { path: &path, anchor: key.span });
            checked.push((field.name.to_owned(), value.unwrap_or(invalid_value(key.span))));
        }
        self.check_absent(table, members, choice, place, &mut checked);
        self.check_rules(table, members, choice, place);
        Some(CheckedValue { value: Value::Map(checked), span: node.span, anchor: place.anchor })
    }

    /// Returns the field of a key. Reports a field that is unknown or does not belong here.
    fn find_field(
        &mut self,
        table: &'static Table,
        key: &Key,
        choice: Option<&str>,
        place: FieldPlace<'_>,
    ) -> Option<&'static Field> {
        let Some(field) = table.field(&key.text) else {
            if self.problems.is_full() {
                self.problems.add(key.span, "");
                return None;
            }
            let fields = table.fields.iter().filter(|field| field.belongs_to(choice)).map(|field| field.name);
            let hint = did_you_mean(&key.text, fields.clone()).or_else(|| {
                let names: Vec<_> = fields.map(|name| format!("`{name}`")).collect();
                Some(format!("it takes {}", names.join(", ")))
            });
            let place = if place.path.is_empty() { format!("a {}", table.name) } else { format!("`{}`", place.path) };
            self.problems.add_maybe_hinted(key.span, format!("{place} has no field {}", self.quote(&key.text)), hint);
            return None;
        };
        if !field.belongs_to(choice) {
            let (by, choice) = (table.selector.unwrap_or_default(), choice.unwrap_or_default());
            let others: Vec<_> = field.only.iter().map(|other| format!("`{by}: {other}`")).collect();
            let message = format!("`{}` does not belong to a {} of `{by}: {choice}`", place.member(field.name), table.name);
            self.problems.add_hinted(key.span, message, format!("it belongs to {}; remove it", others.join(" or ")));
            return None;
        }
        Some(field)
    }

    /// Reports required fields that are absent and fills in defaults.
    fn check_absent(
        &mut self,
        table: &'static Table,
        members: &[(Key, Node)],
        choice: Option<&str>,
        place: FieldPlace<'_>,
        checked: &mut Vec<(String, CheckedValue)>,
    ) {
        for field in table.fields.iter().filter(|field| !members.iter().any(|(key, _)| key.text == field.name)) {
            match field.need {
                Need::Default(json) if field.belongs_to(choice) => {
                    let value = default_value(field, json).map(|value| move_to(value, place.anchor));
                    checked.extend(value.map(|value| (field.name.to_owned(), value)));
                }
                _ if field.required_for(choice) => self.report_missing(table, field, choice, place),
                _ => {}
            }
        }
    }

    fn report_missing(&mut self, table: &Table, field: &Field, choice: Option<&str>, place: FieldPlace<'_>) {
        let whose = if place.path.is_empty() { format!("a {}", table.name) } else { format!("`{}`", place.path) };
        let condition = match (table.selector, choice, field.need, field.only) {
            (Some(by), Some(choice), Need::RequiredFor(_), _) | (Some(by), Some(choice), _, [_, ..]) => {
                format!(" for `{by}: {choice}`")
            }
            _ => String::new(),
        };
        let hint = format!("{}{}", embed_sentence(field.doc), example(field));
        self.problems.add_hinted(place.anchor, format!("{whose} lacks `{}`{condition}", field.name), hint);
    }

    fn check_rules(&mut self, table: &Table, members: &[(Key, Node)], choice: Option<&str>, place: FieldPlace<'_>) {
        // What has to end a load depends on members of the workload that are not known here: `check_load_end` does it.
        let is_checked_here = |rule: &&Rule| !matches!(rule, Rule::AtLeastOneFor(..));
        for rule in table.rules.iter().filter(is_checked_here).filter(|rule| rule.applies_to(choice)) {
            let names = rule.names();
            let given: Vec<_> = members.iter().filter(|(key, _)| names.contains(&key.text.as_str())).collect();
            let choices = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            match (rule, given.as_slice()) {
                (_, []) => {
                    let is_open = matches!(rule, Rule::AtLeastOne(_));
                    let number = if is_open { "at least one" } else { "one" };
                    self.problems.add(place.anchor, format!("`{}` needs {number} of {choices}", place.path));
                }
                (Rule::ExactlyOne(_) | Rule::ExactlyOneFor(..), [first, (second, _), ..]) => {
                    let message = format!("`{}` takes only one of {choices}", place.path);
                    self.problems.add_hinted(second.span, message, format!("`{}` is given too; keep one of them", first.0.text));
                }
                _ => {}
            }
        }
    }

    /// Checks a reference to a secret.
    fn reference(&mut self, table: &'static Table, node: &Node, place: FieldPlace<'_>) -> Option<CheckedValue> {
        if matches!(node.value, Tree::Map(_) | Tree::Refused) {
            return self.object(table, node, place);
        }
        let message = format!("`{}` must say where its value is found, never what it is", place.path);
        self.problems.add_hinted(node.span, message, "write `{from_env: NAME}` or `{from_file: PATH}`");
        None
    }

    fn text(&mut self, format: &'static Format, scalar: &Scalar, node: &Node, place: FieldPlace<'_>) -> Option<String> {
        let refuse = |this: &mut Self, why: String, hint: Option<String>| {
            let message = format!("`{}` is not {}: {} {why}", place.path, format.what, this.quote(&scalar.text));
            this.problems.add_maybe_hinted(node.span, message, hint);
        };
        if scalar.scalar_type() != ScalarType::Text {
            let message = format!("`{}` must be {}, not {}", place.path, format.what, self.describe_found(node));
            let hint = (!self.hidden).then(|| match (format.normal)(&scalar.text) {
                Ok(_) => format!("put it in quotes: `\"{}\"`", visible_part(&scalar.text)),
                Err(rule) => rule,
            });
            self.problems.add_maybe_hinted(node.span, message, hint);
            return None;
        }
        if scalar.text.contains("PRIVATE KEY") {
            let message = format!("`{}` holds a private key", place.path);
            self.problems.add_redacted(node.span, message, "remove it from the file and its history, and make a new key");
            return None;
        }
        if let Some(secret) = find_credentials(format, &scalar.text) {
            let message = format!("`{}` carries {secret}", place.path);
            let hint = if std::ptr::eq(format, &raw const REMOTE) {
                "remove it; git has credential helpers and ssh keys of its own"
            } else if std::ptr::eq(format, &raw const TELEMETRY_URL) {
                "remove it; `headers` refers to the credentials of a `prometheus`, and an exporter is asked without any"
            } else {
                NO_CREDENTIALS
            };
            self.problems.add_redacted(node.span, message, hint);
            return None;
        }
        if scalar.text.trim().is_empty() {
            self.problems.add(node.span, format!("`{}` must not be empty", place.path));
            return None;
        }
        if scalar.text.chars().count() > format.max {
            refuse(self, format!("has more than {} characters", format.max), None);
            return None;
        }
        if scalar.text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            refuse(self, "holds control characters".to_owned(), None);
            return None;
        }
        match (format.normal)(&scalar.text) {
            Ok(normal) => Some(normal),
            Err(rule) => {
                let message = format!("`{}` is not {}: {}", place.path, format.what, self.quote(&scalar.text));
                self.problems.add_hinted(node.span, message, rule);
                None
            }
        }
    }

    fn choice(&mut self, choices: &'static [Choice], scalar: &Scalar, node: &Node, place: FieldPlace<'_>) -> Option<Value> {
        let known = choices.iter().find(|choice| choice.word == scalar.text || choice.alias == Some(scalar.text.as_str()));
        if known.is_none() {
            let words: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.word)).collect();
            let number = if words.len() == 1 { "" } else { "one of " };
            let message = format!("`{}` must be {number}{}, not {}", place.path, words.join(", "), self.quote(&scalar.text));
            self.problems.add_maybe_hinted(
                node.span,
                message,
                did_you_mean(&scalar.text, choices.iter().map(|choice| choice.word)),
            );
        }
        known.map(|choice| Value::Text(choice.word.to_owned()))
    }

    fn boolean(&mut self, scalar: &Scalar, node: &Node, place: FieldPlace<'_>) -> Option<Value> {
        match scalar.text.as_str() {
            "true" if !scalar.quoted => return Some(Value::Bool(true)),
            "false" if !scalar.quoted => return Some(Value::Bool(false)),
            _ => {}
        }
        let hint = match scalar.text.to_lowercase().as_str() {
            "yes" | "on" | "y" | "true" => Some("write `true`, without quotes"),
            "no" | "off" | "n" | "false" => Some("write `false`, without quotes"),
            _ => None,
        };
        let message = format!("`{}` must be `true` or `false`, not {}", place.path, self.describe_found(node));
        self.problems.add_maybe_hinted(node.span, message, hint.map(str::to_owned));
        None
    }

    fn integer(&mut self, scalar: &Scalar, (min, max): (i64, i64), node: &Node, place: FieldPlace<'_>) -> Option<Value> {
        let digits = scalar.text.strip_prefix('-').unwrap_or(&scalar.text);
        let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        if scalar.quoted || digits.is_empty() || !plain {
            return self.not_a_number("a whole number", scalar, node, place);
        }
        let number = scalar.text.parse::<i64>().ok().filter(|number| (min..=max).contains(number));
        if number.is_none() {
            self.problems
                .add(node.span, format!("`{}` must be from {min} to {max}, not {}", place.path, visible_part(&scalar.text)));
        }
        number.map(Value::Integer)
    }

    /// Checks an integer or a word. Another word may be a misspelt number or a misspelt word, so the message names both.
    fn integer_or(
        &mut self,
        word: &'static str,
        scalar: &Scalar,
        limits: (i64, i64),
        node: &Node,
        place: FieldPlace<'_>,
    ) -> Option<Value> {
        if scalar.text.bytes().any(|byte| byte.is_ascii_digit()) {
            return self.integer(scalar, limits, node, place);
        }
        let message = format!("`{}` must be `{word}` or a whole number, not {}", place.path, self.quote(&scalar.text));
        self.problems.add_maybe_hinted(node.span, message, did_you_mean(&scalar.text, [word]));
        None
    }

    fn number(
        &mut self,
        scalar: &Scalar,
        (min, above_min, max): (f64, bool, f64),
        node: &Node,
        place: FieldPlace<'_>,
    ) -> Option<Value> {
        // The JSON form of a number, which every reader of YAML and JSON understands in the same way.
        let number = serde_json::from_str::<serde_json::Number>(&scalar.text).ok().and_then(|number| number.as_f64());
        let Some(number) = number.filter(|number| number.is_finite() && !scalar.quoted) else {
            return self.not_a_number("a number", scalar, node, place);
        };
        if number > max || number < min || (above_min && number <= min) {
            let lower = if above_min { format!("above {min}") } else { format!("at least {min}") };
            let message = format!("`{}` must be {lower} and at most {max}, not {}", place.path, visible_part(&scalar.text));
            self.problems.add(node.span, message);
            return None;
        }
        // Equal numbers have one form: -0 is 0.
        Some(Value::Number(number + 0.0))
    }

    fn not_a_number(&mut self, what: &str, scalar: &Scalar, node: &Node, place: FieldPlace<'_>) -> Option<Value> {
        let hint = match (scalar.scalar_type(), scalar.quoted) {
            (_, true) => Some("write it without quotes"),
            (ScalarType::Number, _) => Some("write it in plain decimal digits, such as `10` or `2.5`"),
            _ => None,
        };
        let message = format!("`{}` must be {what}, not {}", place.path, self.describe_found(node));
        self.problems.add_maybe_hinted(node.span, message, hint.map(str::to_owned));
        None
    }

    fn scalar(&mut self, scalar: &Scalar, node: &Node, place: FieldPlace<'_>) -> Option<Value> {
        if scalar.text.len() > MAX_SCALAR || scalar.text.contains('\0') {
            let message = format!("`{}` must have at most {MAX_SCALAR} bytes and no NUL", place.path);
            self.problems.add(node.span, message);
            return None;
        }
        Some(Value::Text(scalar.text.clone()))
    }

    fn list(&mut self, kind: &'static Type, items: &[Node], place: FieldPlace<'_>) -> Vec<CheckedValue> {
        let item = |(index, node): (usize, &Node)| {
            let path = format!("{}[{index}]", place.path);
            self.value(kind, node, FieldPlace { path: &path, anchor: node.span }).unwrap_or(invalid_value(node.span))
        };
        items.iter().enumerate().map(item).collect()
    }

    fn map(
        &mut self,
        format: &'static Format,
        kind: &'static Type,
        members: &[(Key, Node)],
        place: FieldPlace<'_>,
    ) -> Vec<(String, CheckedValue)> {
        let mut checked: Vec<(String, CheckedValue)> = Vec::new();
        for (key, node) in members {
            let scalar = Scalar { text: key.text.clone(), quoted: true };
            let key_node = Node { value: Tree::Scalar(scalar.clone()), span: key.span };
            let Some(name) = self.text(format, &scalar, &key_node, place) else { continue };
            let path = place.member(&name);
            if checked.iter().any(|(known, _)| *known == name) {
                self.problems.add(key.span, format!("`{path}` is given twice"));
                continue;
            }
            let value = self.value(kind, node, FieldPlace { path: &path, anchor: key.span });
            checked.push((name, value.unwrap_or(invalid_value(key.span))));
        }
        checked
    }

    fn check_length(&mut self, what: &str, length: usize, (min, max): (usize, usize), place: FieldPlace<'_>) {
        if length < min {
            self.problems.add(place.anchor, format!("`{}` must not be empty", place.path));
        }
        if length > max {
            self.problems.add(place.anchor, format!("`{}` has {length} {what}; at most {max} are allowed", place.path));
        }
    }

    fn check_unique(&mut self, unique: Uniqueness, items: &[CheckedValue], place: FieldPlace<'_>) {
        let mut seen = std::collections::HashSet::new();
        for item in items {
            let (subject, path) = match unique {
                Uniqueness::No => return,
                Uniqueness::Item => (Some(item), place.path.to_owned()),
                Uniqueness::Field(name) => (item.member(name), format!("{}` by `{name}", place.path)),
            };
            let Some(subject) = subject.filter(|subject| subject.value != Value::Invalid) else { continue };
            let text = subject.plain_json().to_string();
            if !seen.insert(text) {
                let shown = subject.text().map_or_else(|| subject.plain_json().to_string(), str::to_owned);
                self.problems.add(subject.span, format!("{} is listed twice in `{path}`", quote(&shown)));
            }
        }
    }
}

/// Returns a name for the credentials that a text carries, if it is an address with any. A malformed address with an `@` may hide
/// them in an unusual place, so it counts as one with credentials.
fn find_credentials(format: &'static Format, text: &str) -> Option<&'static str> {
    let is_address = [&raw const ENDPOINT_URL, &raw const HTTP_URL, &raw const HTTPS_URL, &raw const TELEMETRY_URL]
        .iter()
        .any(|address| std::ptr::eq(format, *address));
    let has_at = || decodings(text).any(|text| text.contains('@'));
    if carries_password(text) || (is_address && has_at() && (format.normal)(text).is_err()) {
        return Some("a user or password");
    }
    (is_address && carries_key(text)).then_some("a key or token")
}

/// Returns the choice that decides which fields belong, if it is a known one.
fn find_choice<'a>(table: &Table, members: &'a [(Key, Node)]) -> Option<&'a str> {
    let field = table.field(table.selector?)?;
    let Type::Choice(choices) = field.kind else { return None };
    let (_, node) = members.iter().find(|(key, _)| key.text == field.name)?;
    let Tree::Scalar(scalar) = &node.value else { return None };
    choices.iter().any(|choice| choice.word == scalar.text).then_some(&scalar.text)
}

/// Moves a default to the place of its object.
fn move_to(value: CheckedValue, to: Span) -> CheckedValue {
    let value_of = match value.value {
        Value::List(items) => Value::List(items.into_iter().map(|item| move_to(item, to)).collect()),
        Value::Map(members) => Value::Map(members.into_iter().map(|(key, value)| (key, move_to(value, to))).collect()),
        other => other,
    };
    CheckedValue { value: value_of, span: to, anchor: to }
}

/// Returns true if a field holds secrets, or would if its writer were careless.
fn may_be_secret(kind: &Type) -> bool {
    matches!(kind, Type::Reference | Type::HeaderSource | Type::Shapes { map: Some(Type::Reference), .. })
}

fn invalid_value(span: Span) -> CheckedValue {
    CheckedValue { value: Value::Invalid, span, anchor: span }
}

fn expectation(kind: &Type) -> String {
    match kind {
        Type::Text(format) => format.what.to_owned(),
        Type::Choice(_) => "a word".to_owned(),
        Type::Bool => "`true` or `false`".to_owned(),
        Type::Integer { .. } => "a whole number".to_owned(),
        Type::IntegerOr { word, .. } => format!("`{word}` or a whole number"),
        Type::Number { .. } => "a number".to_owned(),
        Type::Scalar => "a text, number or boolean".to_owned(),
        Type::List { .. } => "a list".to_owned(),
        Type::Map { .. } | Type::Object(_) | Type::Reference | Type::HeaderSource => "a map".to_owned(),
        Type::Shapes { scalar, list, map } => {
            let shapes: Vec<_> = [scalar, list, map].into_iter().flatten().map(|kind| expectation(kind)).collect();
            shapes.join(" or ")
        }
    }
}

fn describe_node(node: &Node) -> String {
    match &node.value {
        Tree::Scalar(scalar) => match scalar.scalar_type() {
            ScalarType::Null => "nothing".to_owned(),
            ScalarType::Bool => format!("the boolean {}", quote(&scalar.text)),
            ScalarType::Number => format!("the number {}", quote(&scalar.text)),
            ScalarType::Text => format!("the text {}", quote(&scalar.text)),
        },
        Tree::List(_) => "a list".to_owned(),
        Tree::Map(_) => "a map".to_owned(),
        Tree::Refused => "something that is not allowed".to_owned(),
    }
}

/// Returns a text as a message may show it inside backticks of its own.
fn visible_part(text: &str) -> String {
    quote(text).trim_matches('`').to_owned()
}

/// Returns a sentence of a table in a form that fits inside another sentence.
fn embed_sentence(sentence: &str) -> String {
    let sentence = sentence.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let mut letters = sentence.chars();
    match (letters.next(), letters.next()) {
        // `SQL files` stays as it is.
        (Some(first), Some(second)) if !second.is_uppercase() => {
            format!("{}{}", first.to_lowercase(), &sentence[first.len_utf8()..])
        }
        _ => sentence.to_owned(),
    }
}

/// Returns an example for a missing field, if it fits on a line and adds something to the field's own doc.
fn example(field: &Field) -> String {
    match field.kind {
        Type::Text(format) if [TEXT.what, WORD.what].contains(&format.what) => String::new(),
        Type::Text(format) if !format.example.contains('\n') => format!(": for example `{}: {}`", field.name, format.example),
        Type::Choice([only]) => format!(": write `{}: {}`", field.name, only.word),
        Type::Choice(choices) => {
            let words: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.word)).collect();
            format!(": one of {}", words.join(", "))
        }
        _ => String::new(),
    }
}
