//! A problem of a definition, its place, and a remedy: for the person who wrote the definition.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

/// The most problems reported per file: enough to repair it in one go, few enough to read.
pub const MAX_PROBLEMS: usize = 100;

/// The longest excerpt, in characters; of a longer line, the part around the place is shown.
const MAX_EXCERPT: usize = 120;
/// The most characters of a text that a message quotes.
const MAX_QUOTED: usize = 60;

/// One problem at one place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file, as the caller passed it.
    pub file: String,
    /// The line, from 1; 0 if the problem is about the file as a whole.
    pub line: usize,
    /// The column in characters, from 1; 0 if the problem is about the file as a whole.
    pub column: usize,
    /// The line's text, made safe for a terminal; empty if the problem is about the file as a whole.
    pub excerpt: Excerpt,
    /// The message, with the name of the thing that is wrong.
    pub message: String,
    /// The remedy, if there is one.
    pub hint: Option<String>,
}

/// A piece of a line, with the part that a problem is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The text, without control characters.
    pub text: String,
    /// The beginning of the marked part, in characters.
    pub offset: usize,
    /// The length of the marked part, in characters, at least 1.
    pub width: usize,
}

impl Problem {
    /// Creates a problem with a file as a whole, such as a missing file.
    pub fn for_file(file: &str, message: impl Into<String>) -> Self {
        let excerpt = Excerpt::default();
        Self { file: file.to_owned(), line: 0, column: 0, excerpt, message: message.into(), hint: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the problem as JSON, for machines.
    pub fn to_json(&self) -> Value {
        json!({
            "file": self.file, "line": self.line, "column": self.column, "excerpt": self.excerpt.text,
            "message": self.message, "hint": self.hint,
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.message)?;
        if self.line == 0 {
            write!(f, " --> {}", visible(&self.file))?;
        } else {
            let gutter = " ".repeat(self.line.to_string().len());
            let Excerpt { text, offset, width } = &self.excerpt;
            let carets = "^".repeat((*width).max(1));
            writeln!(f, "{gutter}--> {}:{}:{}", visible(&self.file), self.line, self.column)?;
            writeln!(f, "{gutter} |")?;
            writeln!(f, "{}", format!("{} | {text}", self.line).trim_end())?;
            write!(f, "{gutter} | {:offset$}{carets}", "")?;
        }
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

/// Renders problems as one text, with a blank line between them.
pub fn render(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect::<Vec<_>>().join("\n")
}

/// A range of a source text that a problem can point at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Byte offset of the first byte.
    pub(crate) start: usize,
    /// Byte offset behind the last byte.
    pub(crate) end: usize,
    /// Line of the first byte, from 1. The column is counted on demand ([`Source::column`]): counting it for every value would
    /// take quadratic time if a file is one long line.
    pub(crate) line: usize,
}

/// The text of a file, from which problems quote.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    file: Arc<str>,
    text: Arc<str>,
    /// Byte offsets at which lines begin.
    lines: Arc<[usize]>,
}

impl Source {
    pub(crate) fn new(file: &str, text: &str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { file: file.into(), text: text.into(), lines }
    }

    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the span between two byte offsets. Offsets outside the text, or within a character, are moved back.
    pub(crate) fn span(&self, start: usize, end: usize) -> Span {
        let start = self.on_character(start);
        let end = self.on_character(end).max(start);
        let line = self.lines.partition_point(|begin| *begin <= start).max(1);
        Span { start, end, line }
    }

    /// Returns the column of a span's first byte in characters, from 1.
    pub(crate) fn column(&self, span: Span) -> usize {
        let begin = self.line_begin(span.line);
        self.text.get(begin..span.start).map_or(0, |before| before.chars().count()) + 1
    }

    fn line_begin(&self, line: usize) -> usize {
        self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0)
    }

    fn on_character(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        (0..=offset).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }

    pub(crate) fn problem(&self, span: Span, message: impl Into<String>) -> Problem {
        self.problem_over(span, self.line_text(span.line), message)
    }

    /// Returns a problem whose excerpt ends at the beginning of the span, because the rest may be a secret.
    pub(crate) fn problem_redacted(&self, span: Span, message: impl Into<String>) -> Problem {
        let before = self.text.get(self.line_begin(span.line)..span.start).unwrap_or_default();
        let hidden = Span { end: span.start + 1, ..span };
        self.problem_over(hidden, &format!("{before}…"), message)
    }

    fn problem_over(&self, span: Span, line: &str, message: impl Into<String>) -> Problem {
        let marked = self.text.get(span.start..span.end).unwrap_or_default();
        let width = marked.chars().take_while(|c| *c != '\n').count();
        let column = self.column(span);
        Problem {
            file: self.file.to_string(),
            line: span.line,
            column,
            excerpt: excerpt(line, column - 1, width),
            message: message.into(),
            hint: None,
        }
    }

    fn line_text(&self, line: usize) -> &str {
        self.text.get(self.line_begin(line)..).and_then(|rest| rest.lines().next()).unwrap_or_default()
    }
}

/// Returns the part of a line around a place, made safe for a terminal, one character for each character.
fn excerpt(line: &str, column: usize, width: usize) -> Excerpt {
    let skipped = if line.chars().count() <= MAX_EXCERPT { 0 } else { column.saturating_sub(MAX_EXCERPT / 3) };
    let text: String = line.chars().skip(skipped).take(MAX_EXCERPT).map(safe).collect();
    let offset = column - skipped;
    let room = text.chars().count().saturating_sub(offset);
    Excerpt { text, offset, width: width.min(room).max(1) }
}

fn safe(character: char) -> char {
    match character {
        '\t' => ' ',
        hidden if is_hidden(hidden) => '\u{fffd}',
        shown => shown,
    }
}

/// Returns true for characters that a terminal acts on, or that change the order in which the rest is shown.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn visible(text: &str) -> String {
    text.chars().map(safe).collect()
}

/// Returns a text from a file as a message may quote it: short, visible, in backticks.
pub(crate) fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED).map(safe).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// Returns `did you mean` for an unknown word, if a known one is near.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}

fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong: `modle` finds `model`, `url` does not find `env`.
    let allowed = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase();
    let near = known.into_iter().map(|candidate| (edit_distance(&word, &candidate.to_lowercase()), candidate));
    near.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that lead from one word to the other
/// (optimal string alignment distance). Words longer than a name are not compared: the table is quadratic.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() > MAX_QUOTED || b.len() > MAX_QUOTED {
        return usize::MAX;
    }
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(from != to);
            let mut best = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The problems of one file, up to the limit.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    source: &'a Source,
    list: Vec<Problem>,
    omitted: usize,
    repeated: Vec<RepeatedProblem>,
}

/// A problem that a file has in several places for one reason.
#[derive(Debug)]
struct RepeatedProblem {
    message: &'static str,
    /// Its place in the list; `None` if the list was full.
    first: Option<usize>,
    /// The number of places after the first.
    more: usize,
    /// The line of the last place.
    last_line: usize,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(source: &'a Source) -> Self {
        Self { source, list: Vec::new(), omitted: 0, repeated: Vec::new() }
    }

    pub(crate) fn source(&self) -> &'a Source {
        self.source
    }

    /// Returns true if no more problems are kept. Making one costs time in the length of its line, so callers with many problems
    /// check this first.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_PROBLEMS
    }

    fn push(&mut self, problem: impl FnOnce(&Source) -> Problem) {
        if self.is_full() {
            self.omitted += 1;
        } else {
            self.list.push(problem(self.source));
        }
    }

    pub(crate) fn add(&mut self, span: Span, message: impl Into<String>) {
        self.push(|source| source.problem(span, message));
    }

    pub(crate) fn add_hinted(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(|source| source.problem(span, message).with_hint(hint));
    }

    /// Adds a problem that is reported once for a file: at its first place, with the number of the others.
    pub(crate) fn add_repeated(&mut self, span: Span, message: &'static str, hint: &str) {
        if let Some(known) = self.repeated.iter_mut().find(|known| known.message == message) {
            known.more += 1;
            known.last_line = span.line;
            return;
        }
        let first = (!self.is_full()).then_some(self.list.len());
        self.repeated.push(RepeatedProblem { message, first, more: 0, last_line: span.line });
        self.add_hinted(span, message, hint);
    }

    pub(crate) fn add_maybe_hinted(&mut self, span: Span, message: impl Into<String>, hint: Option<String>) {
        self.push(|source| Problem { hint, ..source.problem(span, message) });
    }

    /// Adds a problem that hides everything from the beginning of `span`, because it may be a secret.
    pub(crate) fn add_redacted(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(|source| source.problem_redacted(span, message).with_hint(hint));
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Makes the problems from the one of that number on hide everything from the beginning of `span`, because it may be a
    /// secret.
    pub(crate) fn redact_from(&mut self, number: usize, span: Span) {
        let source = self.source;
        for problem in self.list.iter_mut().skip(number) {
            let Problem { message, hint, .. } = problem.clone();
            *problem = Problem { hint, ..source.problem_redacted(span, message) };
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the problems in the order of the file, and a note about those over the limit.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        for RepeatedProblem { message, first, more, last_line } in self.repeated {
            if let Some(problem) = first.and_then(|first| self.list.get_mut(first)).filter(|_| more > 0) {
                let places = if more == 1 { "place" } else { "places" };
                problem.message = format!("{message}, as in {more} more {places} up to line {last_line}");
            }
        }
        self.list.sort_by_key(|problem| (problem.line, problem.column));
        if self.omitted > 0 {
            let message = format!("{} more problems are not shown", self.omitted);
            self.list.push(Problem::for_file(self.source.file(), message).with_hint("repair the first ones and check again"));
        }
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn problem_at(text: &str, part: &str) -> Problem {
        let source = Source::new("a.yaml", text);
        let start = text.find(part).expect("the part is in the text");
        source.problem(source.span(start, start + part.len()), "wrong")
    }

    #[test]
    fn a_problem_points_at_its_place() {
        assert_snapshot!(problem_at("a: 1\nüü: bad value\n", "bad value").with_hint("be good"), @r"
        error: wrong
         --> a.yaml:2:5
          |
        2 | üü: bad value
          |     ^^^^^^^^^
        hint: be good
        ");
    }

    #[test]
    fn a_problem_of_a_whole_file_has_no_excerpt() {
        assert_snapshot!(Problem::for_file("a.yaml", "the file is missing"), @r"
        error: the file is missing
         --> a.yaml
        ");
    }

    #[test]
    fn terminal_sequences_and_reordering_do_not_reach_the_screen() {
        let shown = problem_at("x: \u{1b}[2J\u{202e}evil\tend", "evil").to_string();
        assert_snapshot!(shown, @r"
        error: wrong
         --> a.yaml:1:9
          |
        1 | x: �[2J�evil end
          |         ^^^^
        ");
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let line = format!("{}HERE{}", "a".repeat(500), "b".repeat(500));
        let problem = problem_at(&line, "HERE");
        assert_eq!(problem.excerpt.text.chars().count(), MAX_EXCERPT);
        let marked: String = problem.excerpt.text.chars().skip(problem.excerpt.offset).take(problem.excerpt.width).collect();
        assert_eq!((marked.as_str(), problem.column), ("HERE", 501));
    }

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["model", "metrics", "time_limit", "url"];
        let near = |word| nearest(word, known);
        assert_eq!(near("modle"), Some("model"));
        assert_eq!(near("timelimit"), Some("time_limit"));
        assert_eq!(near("metric"), Some("metrics"));
        assert_eq!(near("URL"), Some("url"));
        assert_eq!(near("env"), None);
        assert_eq!(near(&"x".repeat(1000)), None);
    }

    #[test]
    fn problems_beyond_the_limit_are_counted() {
        let source = Source::new("a.yaml", "x");
        let mut problems = Problems::new(&source);
        (0..MAX_PROBLEMS + 3).for_each(|_| problems.add(source.span(0, 1), "wrong"));
        let list = problems.finish();
        assert_eq!(list.len(), MAX_PROBLEMS + 1);
        assert_eq!(list[MAX_PROBLEMS].message, "3 more problems are not shown");
    }
}
