//! The words of messages and hints for someone who wrote options: definitions are written as fields, and these come from a command line.

use assay_stage::Failure;

use super::{OPTIONS, WORKLOADS};

/// Parts of messages and hints that have a form of their own in options.
const PHRASES: [(&str, &str); 29] = [
    ("`spec.load` needs at least one of `duration`, `requests`", "a trial needs `--duration` or `--requests`"),
    ("`spec.load` needs one of `duration`, `sessions`", "a trial needs `--duration` or `--sessions count=N`"),
    (
        "`spec.load` needs `sessions`, the number of sessions that are played",
        "a trial needs `--sessions count=N`, the number of sessions that are played",
    ),
    ("write `dataset: {path: FILE, output: server}` instead of `lengths` (`--dataset FILE`)", "use `--dataset FILE`"),
    ("`format` (`--dataset-format`)", "`--dataset-format`"),
    (
        "add `sessions: {}`, and play them at a concurrency, such as `load: {mode: closed, concurrency: [8], sessions: 100}`",
        "play them at a concurrency, such as `--concurrency 8 --sessions count=100`",
    ),
    ("64 lower-case hexadecimal digits", "a number, such as 42, or 64 lower-case hexadecimal digits"),
    ("write `duration` instead of `sessions`", "write `--duration` instead of `count=`"),
    ("`spec.load` lacks `duration` for `mode: users`", "`--users` needs `--duration`"),
    ("`spec.load.mode: users`", "`--users`"),
    ("in `mode: users`", "with `--users`"),
    ("of `mode: users`", "of `--users`"),
    ("remove it, or write `mode: closed` or `open`", "remove it, or `--users`"),
    ("`pattern` (`--tokenizer-pattern`)", "`--tokenizer-pattern`"),
    ("`template` (`--template`)", "`--template`"),
    ("belongs to `lengths` or `dataset`", "belongs to synthetic prompts or a `--dataset`"),
    ("belongs to `lengths`", "belongs to synthetic prompts"),
    ("is played with `sessions`", "is played with `--sessions history=recorded`"),
    ("it needs `trace` and `concurrency`", "it needs `--trace` and `--concurrency`"),
    ("`spec` lacks `custom` for `api: custom`", "`--api custom` needs `--api-path`, `--api-body` and `--api-response`"),
    ("it has the `path`, the `body` and the places of the `response`", "they describe its requests and its responses"),
    ("raise `spec.time_limit`", "write a shorter `--duration` or `--warmup`"),
    ("write `streaming: true`", "leave out `--no-streaming`"),
    ("lacks `format`", "lacks `--dataset-format`"),
    ("which `mode: replay` needs", "which a replay needs"),
    ("`mode: closed` limits", "`--concurrency` limits"),
    ("write `pooled`", "write `--connections pooled`"),
    ("write `sessions`", "write `--sessions count=N`"),
    ("it names a file of requests with times, instead of `lengths` or `dataset`", "name a file of requests with times"),
];

/// Fields and values that have a form of their own in options.
const SNIPPETS: [(&str, &str); 12] = [
    ("exact_output: false", "--no-exact-output"),
    ("sessions: {}", "--sessions history=recorded"),
    ("sessions: {turns: 20}", "--sessions turns=20"),
    ("recycle: true", "--sessions recycle=true"),
    ("sessions: {recycle: true}", "--sessions recycle=true"),
    ("load: {mode: closed, concurrency: [8], duration: 20m}", "--concurrency 8 --duration 20m"),
    ("load: {mode: closed, concurrency: [8], sessions: 100}", "--concurrency 8 --sessions count=100"),
    ("turns: {uniform: {min: 2, max: 8}}", "--sessions turns=2..8"),
    ("fields: {prompt: NAME}", "--field prompt=NAME"),
    ("format: openai_batch", "--dataset-format openai_batch"),
    ("output: {fixed: 128}", "--output-tokens 128"),
    ("token_ids: {least: 1000, most: 31999}", "--prompt-token-ids 1000..31999"),
];

/// Fields by their own names. An option that ends with `=` takes its value right after it.
const FIELDS: [(&str, &str); 48] = [
    ("api", "--api"),
    ("arrival", "--arrival"),
    ("batch", "--documents"),
    ("cache", "--cache"),
    ("concurrency", "--concurrency"),
    ("connections", "--connections"),
    ("dataset", "--dataset"),
    ("duration", "--duration"),
    ("fields", "--field"),
    ("format", "--dataset-format"),
    ("header", "--sessions header="),
    ("history", "--sessions history="),
    ("idle_cap", "--sessions idle_cap="),
    ("image_files", "--image-files"),
    ("images", "--images"),
    ("lengths", "--scenario"),
    ("marker", "--sessions marker="),
    ("max_concurrency", "--max-concurrency"),
    ("max_gap", "--max-gap"),
    ("max_input", "--max-input"),
    ("max_output", "--max-output"),
    ("max_tool_time", "--max-tool-time"),
    ("model", "--model"),
    ("output", "--output-tokens"),
    ("over", "--over"),
    ("pattern", "--tokenizer-pattern"),
    ("prefix", "--prefix"),
    ("rate", "--rate"),
    ("reasoning", "--sessions reasoning="),
    ("recycle", "--sessions recycle="),
    ("requests", "--requests"),
    ("sample", "--sample"),
    ("sessions", "--sessions"),
    ("shards", "--shards"),
    ("smoothness", "--smoothness"),
    ("speed", "--speed"),
    ("start", "--sessions start="),
    ("template", "--template"),
    ("text", "--text"),
    ("think_time", "--sessions think_time="),
    ("timeout", "--timeout"),
    ("token_ids", "--prompt-token-ids"),
    ("tokenizer", "--tokenizer"),
    ("trace", "--trace"),
    ("turns", "--sessions turns="),
    ("warm_history", "--sessions warm_history="),
    ("warmup", "--warmup"),
    ("window", "--window"),
];

/// Fields whose names alone, in the causes of a failure, mean the workload's and not those of a row of a file.
const CAUSE_FIELDS: [&str; 4] = ["fields", "max_input", "sample", "window"];

/// The parts of an option's value, by the end of the field that each becomes.
const PARTS: [(&str, &str); 9] = [
    ("share", "SHARE"),
    ("after", "TIME"),
    ("from", "FROM"),
    ("to", "TO"),
    ("input", "IN"),
    ("output", "OUT"),
    ("weight", "WEIGHT"),
    ("steps", "N"),
    ("rate", "PER_S"),
];

/// Fields that no single option becomes.
const WITHOUT_OPTION: [(&str, &str); 2] =
    [("spec.load", "the options of the load"), ("spec.time_limit", "the time limit of a trial")];

/// The words of the options of one command line.
#[derive(Clone, Debug, Default)]
pub(super) struct Wording {
    /// The files of the Source, and the paths that the user gave.
    pub(super) given: Vec<(String, String)>,
    /// True if the file is a trace.
    pub(super) is_trace: bool,
}

impl Wording {
    /// Returns the message of a problem of the definitions.
    pub(super) fn message(&self, text: &str) -> String {
        let text = without_workload(&self.with_phrases(&self.with_given_paths(text)));
        let lacks = text.find("lacks `").map(|at| at + "lacks ".len());
        spans(&text, |at, span| {
            let is_lacking = Some(at) == lacks;
            self.of_path(span).or_else(|| self.of_assignment(span)).or_else(|| is_lacking.then(|| self.of_name(span)).flatten())
        })
    }

    /// Returns the hint of a problem of the definitions.
    pub(super) fn hint(&self, text: &str) -> String {
        let text = self.with_phrases(&self.with_given_paths(text));
        spans(&text, |_, span| self.of_path(span).or_else(|| self.of_assignment(span)).or_else(|| self.of_name(span)))
    }

    /// Returns a failure of a stage, in whose causes the members of a file have names, too.
    pub(super) fn failure(&self, failure: Failure) -> Failure {
        let cause = |text: &str| {
            let text = without_workload(&self.with_phrases(&self.with_given_paths(text)));
            spans(&text, |_, span| {
                let named = CAUSE_FIELDS.contains(&span).then(|| self.of_name(span)).flatten();
                self.of_path(span).or_else(|| self.of_assignment(span)).or(named)
            })
        };
        let causes = failure.causes.iter().map(|text| cause(text)).collect();
        let hint = failure.hint.as_deref().map(cause);
        Failure { message: cause(&failure.message), causes, hint, ..failure }
    }

    fn with_given_paths(&self, text: &str) -> String {
        let quoted = |path: &str| format!("`{path}`");
        self.given.iter().fold(text.to_owned(), |text, (own, given)| text.replace(&quoted(own), &quoted(given)))
    }

    fn with_phrases(&self, text: &str) -> String {
        let phrases = PHRASES.iter().filter(|(field, _)| !self.is_trace || !field.ends_with("lacks `format`"));
        phrases.fold(text.to_owned(), |text, (field, option)| text.replace(field, option))
    }

    /// Returns the option of a path such as `spec.load.rate`, with the part of its value and with what follows a colon.
    fn of_path(&self, span: &str) -> Option<String> {
        if let Some((_, words)) = WITHOUT_OPTION.iter().find(|(field, _)| *field == span) {
            return Some((*words).to_owned());
        }
        let (path, value) = span.split_once(": ").map_or((span, None), |(path, value)| (path, Some(value)));
        let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let found =
            OPTIONS.iter().find_map(|(field, option)| Some((path.strip_prefix(field).filter(|rest| ends(rest))?, *option)));
        let (rest, option) = found?;
        let option = if self.is_trace && option == "--dataset-format" { "--trace-format" } else { option };
        Some(match value {
            Some(value) => with_value(option, value),
            None => with_part(option, rest),
        })
    }

    /// Returns the option of a field with a value, such as `cache: shared`.
    fn of_assignment(&self, span: &str) -> Option<String> {
        if let Some((_, option)) = SNIPPETS.iter().find(|(snippet, _)| *snippet == span) {
            return Some(format!("`{option}`"));
        }
        let (name, value) = span.split_once(": ")?;
        Some(with_value(self.option(name)?, value))
    }

    fn of_name(&self, span: &str) -> Option<String> {
        Some(format!("`{}`", self.option(span)?))
    }

    fn option(&self, name: &str) -> Option<&'static str> {
        let option = FIELDS.iter().find_map(|(field, option)| (*field == name).then_some(*option))?;
        Some(if self.is_trace && option == "--dataset-format" { "--trace-format" } else { option })
    }
}

/// Returns a text without the names of workloads, which the user did not write.
fn without_workload(text: &str) -> String {
    let phrases = WORKLOADS.iter().flat_map(|name| [format!(" of workload `{name}`"), format!(" of the workload `{name}`")]);
    phrases.fold(text.to_owned(), |text, phrase| text.replace(&phrase, ""))
}

fn with_value(option: &str, value: &str) -> String {
    let quoted = if value.contains(['(', ' ', '{']) { format!("'{value}'") } else { value.to_owned() };
    let space = if option.ends_with('=') { "" } else { " " };
    format!("`{option}{space}{quoted}`")
}

/// Returns an option with the part of its value that the rest of a path names: `.width` of images, or `[1].input` of pairs.
fn with_part(option: &str, rest: &str) -> String {
    let (number, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((index, rest)) => (index.parse::<u64>().ok(), rest),
        None => (None, rest),
    };
    let name = rest.rsplit('.').next().unwrap_or_default();
    let part = PARTS.iter().find_map(|(field, part)| (*field == name).then_some(*part));
    match (option, part, number) {
        (_, None, None) if name.is_empty() => format!("`{option}`"),
        ("--images" | "--prefix" | "--api-response", ..) => format!("`{option} {name}=`"),
        ("--ramp", Some("N"), _) => format!("`{option} steps=`"),
        (_, Some(part), Some(number)) => format!("`{part}` in part {} of `{option}`", number + 1),
        (_, Some(part), None) => format!("`{part}` of `{option}`"),
        (..) => format!("`{option}`"),
    }
}

/// Returns a text with other words for some of its parts in backticks: `replace` gets the place and the content of each.
fn spans(text: &str, replace: impl Fn(usize, &str) -> Option<String>) -> String {
    let (mut result, mut rest, mut at) = (String::new(), text, 0);
    while let Some((before, span, after)) = next_span(rest) {
        result.push_str(before);
        let quoted = || ["`", span, "`"].concat();
        result.push_str(&replace(at + before.len(), span).unwrap_or_else(quoted));
        at += before.len() + span.len() + 2;
        rest = after;
    }
    result + rest
}

fn next_span(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (span, after) = rest.split_once('`')?;
    Some((before, span, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_stage::ErrorCode;

    fn dataset() -> Wording {
        Wording { given: vec![("workloads/bench/dataset.jsonl".to_owned(), "/my/prompts.jsonl".to_owned())], is_trace: false }
    }

    #[test]
    fn a_message_names_the_option_and_the_part_of_its_value() {
        let said = |text: &str| dataset().message(text);
        assert_eq!(said("`spec.load.rate` must be above 0"), "`--rate` must be above 0");
        assert_eq!(said("`spec.images.width` must be from 1 to 8192"), "`--images width=` must be from 1 to 8192");
        assert_eq!(said("`spec.lengths.pairs[1].input` must be from 1"), "`IN` in part 2 of `--pairs` must be from 1");
        assert_eq!(said("`spec.load.rate.ramp.from` must be above 0"), "`FROM` of `--ramp` must be above 0");
        assert_eq!(said("`spec.load.cancel.share` must be above 0"), "`SHARE` of `--cancel` must be above 0");
        assert_eq!(said("`spec.load.rate.ramp.steps` must be from 2"), "`--ramp steps=` must be from 2");
        assert_eq!(said("`spec.trace.window.to` is not after `from`"), "`TO` of `--window` is not after `from`");
        assert_eq!(
            said("`spec.sessions.turns.uniform`: its `max` is below its `min`"),
            "`--sessions turns=`: its `max` is below its `min`"
        );
        assert_eq!(said("`spec.load.connections: sticky` needs `spec.sessions`"), "`--connections sticky` needs `--sessions`");
        let lacking = "`spec.load.mode: users` needs `spec.sessions`, whose turns its users send";
        assert_eq!(said(lacking), "`--users` needs `--sessions`, whose turns its users send");
        assert_eq!(said("add `sessions`, such as `sessions: {turns: 20}`"), "add `sessions`, such as `--sessions turns=20`");
        assert_eq!(
            said("`spec.sessions.think_time` has no place in `mode: users`"),
            "`--sessions think_time=` has no place with `--users`"
        );
        let counted = "`spec.load.sessions` cannot end a trial of `mode: users`: all";
        assert_eq!(said(counted), "`--sessions count=` cannot end a trial of `--users`: all");
        assert_eq!(said("the scenario `E(1)` is of `api: embeddings`"), "the scenario `E(1)` is of `--api embeddings`");
        assert_eq!(said("`spec.sessions` lacks `turns`"), "`--sessions` lacks `--sessions turns=`");
        assert_eq!(said("the member `model` of `spec.body` would"), "the member `model` of `--body` would");
        assert_eq!(said("`spec.loads` and an open ` alone"), "`spec.loads` and an open ` alone");
    }

    #[test]
    fn a_hint_is_written_in_options() {
        let of = |is_trace, text: &str| Wording { given: Vec::new(), is_trace }.hint(text);
        assert_eq!(
            of(false, "write `format: sharegpt`, `format: jsonl`, or remove `sessions`"),
            "write `--dataset-format sharegpt`, `--dataset-format jsonl`, or remove `--sessions`"
        );
        assert_eq!(of(true, "remove it, or write `format: timed_jsonl`"), "remove it, or write `--trace-format timed_jsonl`");
        assert_eq!(of(true, "add `sessions: {}`"), "add `--sessions history=recorded`");
        assert_eq!(
            of(
                true,
                "add `sessions: {}`, and play them at a concurrency, such as `load: {mode: closed, concurrency: [8], sessions: 100}`"
            ),
            "play them at a concurrency, such as `--concurrency 8 --sessions count=100`",
            "a hint that works, because it needs no second one"
        );
        assert_eq!(
            of(false, "remove `warmup`, or write `duration` instead of `sessions`"),
            "remove `--warmup`, or write `--duration` instead of `count=`"
        );
        assert!(
            of(false, "64 lower-case hexadecimal digits").starts_with("a number, such as 42"),
            "as `--help` says of `--seed`"
        );
        assert_eq!(of(false, "remove it, or write `history: live`"), "remove it, or write `--sessions history=live`");
        assert_eq!(of(false, "write `lengths: E(128)`"), "write `--scenario 'E(128)'`");
        assert_eq!(of(false, "limit `e2e`, or write `streaming: true`"), "limit `e2e`, or leave out `--no-streaming`");
        assert_eq!(
            of(false, "a number, such as `turns: 5`, or `turns: {uniform: {min: 2, max: 8}}`"),
            "a number, such as `--sessions turns=5`, or `--sessions turns=2..8`"
        );
        assert_eq!(
            of(true, "play them at a concurrency, such as `load: {mode: closed, concurrency: [8], sessions: 100}`"),
            "play them at a concurrency, such as `--concurrency 8 --sessions count=100`"
        );
    }

    #[test]
    fn a_failure_names_the_file_that_was_given() {
        let failure =
            Failure::new(ErrorCode::Dataset, "the dataset `workloads/bench/dataset.jsonl` of workload `bench` cannot be used");
        let mut failure = failure.hint("see `spec.load` and `spec.dataset` of the workload `bench`");
        failure.causes = vec![
            "row 1 has neither `prompt` nor `messages`; it has `model`, `output`: name the one with the prompt: `fields: {prompt: NAME}`".to_owned(),
            "row 2 has no list `requests`, more than `max_input`".to_owned(),
        ];
        let said = dataset().failure(failure);
        assert_eq!(said.message, "the dataset `/my/prompts.jsonl` cannot be used");
        assert_eq!(
            said.causes,
            [
                "row 1 has neither `prompt` nor `messages`; it has `model`, `output`: name the one with the prompt: `--field prompt=NAME`",
                "row 2 has no list `requests`, more than `--max-input`",
            ]
        );
        assert_eq!(said.hint.as_deref(), Some("see the options of the load and `--dataset`"));
    }
}
