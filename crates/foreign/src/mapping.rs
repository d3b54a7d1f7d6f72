//! The rows and the draft that a format fills in while it maps a definition.

use assay_spec::Scenario;
use serde_json::Value;

use crate::definition::ImportOptions;
use crate::draft::{Draft, member};
use crate::results::is_placeholder;
use crate::row::{Outcome, Row};
use crate::value::{is_credential, shown_name};
use crate::yaml::Comments;

/// The most rows of one definition; further ones are refused together.
const MAX_ROWS: usize = 1_000;
/// The reason why a member inside of a value is ignored.
const NOT_READ: &str = "Assay does not read this member, and its value is not copied";
/// The reason why an endpoint of a definition is ignored.
pub(crate) const NAMED_BY_OPTION: &str = "`--url` names the endpoint instead";
/// The remedy of a value that stands for another.
const IS_PLACEHOLDER: &str = "`REPLACE_...` stands for a value that llm-d-benchmark fills in: write the value";
/// The most names of parts in a message.
const MAX_LISTED: usize = 20;

/// The mapping of one definition.
#[derive(Debug)]
pub(crate) struct Mapping<'a> {
    pub(crate) options: &'a ImportOptions,
    pub(crate) rows: Vec<Row>,
    pub(crate) draft: Draft,
    pub(crate) comments: Comments,
    /// The fields of the definition whose values are credentials.
    pub(crate) credentials: Vec<String>,
    pub(crate) document: usize,
    /// The workload that fields are mapped to, by the end of its name; `None` if they are those of all workloads.
    pub(crate) workload: Option<String>,
    /// The members inside of fields that no rule reads: the path of the field, and that of the member behind it.
    pub(crate) unread: Vec<(String, String)>,
    /// The field that states the least number of output tokens, and its value.
    pub(crate) min_tokens: Option<(String, Value)>,
    /// True if the definition has parts with names, of which `--only` chooses one.
    has_parts: bool,
    /// True if the definition states no numbers of tokens, so that `--lengths` does.
    has_no_lengths: bool,
}

impl<'a> Mapping<'a> {
    pub(crate) fn new(options: &'a ImportOptions, document: usize) -> Self {
        Self {
            options,
            rows: Vec::new(),
            draft: Draft::default(),
            comments: Comments::default(),
            credentials: Vec::new(),
            document,
            workload: None,
            unread: Vec::new(),
            min_tokens: None,
            has_parts: false,
            has_no_lengths: false,
        }
    }

    /// Records that a field of Assay means the same. A field that is refused stays so, and its row states the value that is written.
    pub(crate) fn mapped(&mut self, field: &str, to: &str) {
        if self.is_refused(field) {
            return self.stands_in(field, to, written_in_place(field));
        }
        let note = field.ends_with("(absent)").then_some("the default of the other tool is written out");
        self.row(field, Outcome::Mapped, Some(to), note);
    }

    /// Records a difference, which is also a comment beside the field of Assay. A field that is refused stays so, and its row states the
    /// value that is written.
    pub(crate) fn approximated(&mut self, field: &str, to: &str, how: &str) {
        if self.is_refused(field) {
            return self.stands_in(field, to, &format!("{}: {how}", written_in_place(field)));
        }
        self.comment(field, to, how);
        self.row(field, Outcome::Approximated, Some(to), Some(how));
    }

    /// Writes a difference beside the field of Assay.
    pub(crate) fn comment(&mut self, field: &str, to: &str, how: &str) {
        self.comments.add(self.workload.as_deref(), to, format!("`{}`: {how}", shown_name(field)));
    }

    /// Records a credential, whose value is not copied.
    pub(crate) fn secret(&mut self, field: &str, to: &str, place: &str) {
        let text = format!("`{}` was a credential: {place}", shown_name(field));
        self.comments.add(self.workload.as_deref(), to, text);
        self.row(field, Outcome::SecretReference, Some(to), Some(place));
    }

    /// Records that the definition has a credential as the value of a field, unless the value only stands for one.
    pub(crate) fn has_credential(&mut self, field: &str, value: &str) {
        if !is_placeholder(value) {
            self.credentials.push(shown_name(field));
        }
    }

    pub(crate) fn ignored(&mut self, field: &str, why: &str) {
        self.left_out(field, Outcome::Ignored, why);
    }

    pub(crate) fn refused(&mut self, field: &str, remedy: &str) {
        self.left_out(field, Outcome::Refused, remedy);
    }

    /// Returns true if a field, or its absence, stands for one that is given and refused.
    fn is_refused(&self, field: &str) -> bool {
        self.refused_row(field).is_some()
    }

    /// Returns true if a field, a part of it, or a part of the definition that it belongs to is refused.
    pub(crate) fn has_refused_part(&self, field: &str) -> bool {
        let is_below = |path: &str, parent: &str| path.strip_prefix(parent).is_some_and(|rest| rest.starts_with(['.', '[']));
        let concerns = |row: &Row| row.field == field || is_below(&row.field, field) || is_below(field, &row.field);
        self.rows.iter().any(|row| row.outcome == Outcome::Refused && concerns(row))
    }

    /// Returns true if a field is ignored or refused as a whole.
    pub(crate) fn is_left_out(&self, field: &str) -> bool {
        let field = shown_name(field);
        let is_whole = |row: &Row| row.field == field && matches!(row.outcome, Outcome::Ignored | Outcome::Refused);
        self.rows.iter().any(is_whole)
    }

    fn refused_row(&self, field: &str) -> Option<usize> {
        let field = shown_name(field.strip_suffix("(absent)").unwrap_or(field));
        self.rows.iter().rposition(|row| row.outcome == Outcome::Refused && row.field == field)
    }

    /// States the value that stands in the place of a refused field, in its row and in the comment of the pipeline, once. A field that
    /// is not refused stays as it is.
    pub(crate) fn stands_in(&mut self, field: &str, to: &str, statement: &str) {
        let Some(row) = self.refused_row(field).and_then(|index| self.rows.get_mut(index)).filter(|row| row.to.is_none()) else {
            return;
        };
        let remedy = row.note.take().unwrap_or_default();
        let note = format!("{remedy}; {statement}");
        let (before, after) =
            (left_out_comment(&row.field, row.outcome, &remedy), left_out_comment(&row.field, row.outcome, &note));
        row.to = Some(to.to_owned());
        row.note = Some(note);
        if let Some(comment) = self.draft.not_carried.iter_mut().rev().find(|comment| **comment == before) {
            *comment = after;
        }
    }

    fn left_out(&mut self, field: &str, outcome: Outcome, note: &str) {
        self.draft.not_carried.push(left_out_comment(&shown_name(field), outcome, note));
        self.row(field, outcome, None, Some(note));
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, field: &str, outcome: Outcome, to: Option<&str>, note: Option<&str>) {
        let row = |field: String, outcome, to: Option<&str>, note: Option<&str>| Row {
            document: self.document,
            field,
            outcome,
            to: to.map(str::to_owned),
            note: note.map(str::to_owned),
        };
        let row = match self.rows.len().cmp(&MAX_ROWS) {
            std::cmp::Ordering::Less => row(shown_name(field), outcome, to, note),
            std::cmp::Ordering::Equal => {
                row("(more fields)".to_owned(), Outcome::Refused, None, Some("one definition has at most 1000 fields"))
            }
            std::cmp::Ordering::Greater => return,
        };
        self.rows.push(row);
    }

    /// Sets the name of the pipeline, and the beginning of the names of its workloads.
    pub(crate) fn name(&mut self, field: &str, text: &str) {
        let name = self.draft.set_name(text);
        if name == text {
            self.mapped(field, "pipeline metadata.name");
        } else {
            self.approximated(
                field,
                "pipeline metadata.name",
                "names have lower-case letters, digits and hyphens, at most 40 characters",
            );
        }
    }

    /// Sets the model.
    pub(crate) fn model(&mut self, field: &str, text: &str) {
        if self.options.model.is_some() {
            return self.ignored(field, "`--model` names the model instead");
        }
        let is_name = !text.is_empty() && text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name || is_credential("", text) {
            return self.refused(field, "a model is a short text without spaces: name it with `--model NAME`");
        }
        self.draft.model = Some(text.to_owned());
        self.mapped(field, "workload spec.model");
    }

    /// Sets the model that `--model` names, or reports that there is none.
    pub(crate) fn settle_model(&mut self, field: &str) {
        if let Some(model) = &self.options.model {
            self.draft.model = Some(model.clone());
            self.row("--model", Outcome::Mapped, Some("workload spec.model"), None);
        } else if self.draft.model.is_none() && !self.rows.iter().any(|row| row.field == field) {
            self.refused(
                &format!("{field}(absent)"),
                "Assay sends the name of a model in each request: name it with `--model NAME`",
            );
        }
    }
}

impl Mapping<'_> {
    /// Returns the place of the part of a definition that `only` names, or of the only one there is. `noun` is what a part is called.
    pub(crate) fn choose_part(&mut self, noun: &str, names: &[String], only: Option<&str>) -> Option<usize> {
        self.has_parts = true;
        let list = names_in_short(names);
        match only {
            Some(only) => {
                let place = names.iter().position(|name| name == only);
                if place.is_none() {
                    self.refused("--only", &format!("the file has no such {noun}: choose one of {list}"));
                }
                place
            }
            None if names.len() > 1 => {
                let remedy = format!("the file has {} {noun}s: choose one with `--only NAME`: {list}", names.len());
                self.refused("--only(absent)", &remedy);
                None
            }
            None => names.first().map(|_| 0),
        }
    }

    /// Records that the definition has parts with names.
    pub(crate) fn declare_parts(&mut self) {
        self.has_parts = true;
    }

    /// Reports that a definition names no endpoint, unless `--url` does.
    pub(crate) fn no_endpoint(&mut self, field: &str, remedy: &str) {
        if self.options.url.is_none() {
            self.refused(&format!("{field}(absent)"), remedy);
        }
    }

    /// Reports a value that llm-d-benchmark fills in: of the endpoint's address, of the model or of another field.
    pub(crate) fn placeholder(&mut self, field: &str, is_address: bool, is_model: bool) {
        match (&self.options.url, &self.options.model) {
            (Some(_), _) if is_address => self.ignored(field, NAMED_BY_OPTION),
            (_, Some(_)) if is_model => self.ignored(field, "`--model` names the model instead"),
            _ if is_address => self.refused(field, &format!("{IS_PLACEHOLDER}, or name the address with `--url URL`")),
            _ if is_model => self.refused(field, &format!("{IS_PLACEHOLDER}, or name the model with `--model NAME`")),
            _ => self.refused(field, IS_PLACEHOLDER),
        }
    }

    /// Sets the lengths that `--lengths` states, for a definition that has none, or reports that there are none.
    pub(crate) fn settle_lengths(&mut self, field: &str, remedy: &str) {
        self.has_no_lengths = true;
        let Some(lengths) = self.options.lengths.as_deref() else {
            return self.refused(&format!("{field}(absent)"), remedy);
        };
        match lengths.parse::<Scenario>() {
            Ok(_) => {
                self.draft.workload.push(member("lengths", lengths));
                self.mapped("--lengths", "workload spec.lengths");
                self.tokenizer_note("tokenizer(implied)");
            }
            Err(error) => self.refused("--lengths", &error.to_string()),
        }
    }

    /// Ignores the members inside of the fields that no rule reads, unless the field is ignored or refused as a whole: once all fields have their rows.
    fn settle_unread(&mut self) {
        for (parent, member) in std::mem::take(&mut self.unread) {
            if !self.is_left_out(&parent) {
                self.ignored(&format!("{parent}{member}"), NOT_READ);
            }
        }
    }

    /// Applies the options that stand for all formats, and refuses those that have no effect.
    pub(crate) fn settle_options(&mut self) {
        self.settle_unread();
        if let Some(url) = &self.options.url {
            self.draft.target.clear();
            self.address("--url", url);
        }
        if self.options.only.is_some() && !self.has_parts {
            self.refused("--only", "the definition has no parts to choose from: leave it out");
        }
        if self.options.lengths.is_some() && !self.has_no_lengths {
            self.refused(
                "--lengths",
                "the definition states what its requests are made of: leave it out, and change the workloads",
            );
        }
    }
}

/// Returns the first names of a list, and the number of the others.
fn names_in_short(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MAX_LISTED).map(|name| shown_name(name)).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// States the value that stands in the place of a refused field: its first one if it is given twice, or else the default.
fn written_in_place(field: &str) -> &'static str {
    if field.ends_with("(absent)") {
        "the default of the other tool stands in its place"
    } else {
        "the first of its values stands in its place"
    }
}

/// Returns the comment of a pipeline on a field that has no place in it.
fn left_out_comment(field: &str, outcome: Outcome, note: &str) -> String {
    format!("`{field}` is {outcome}: {note}")
}
