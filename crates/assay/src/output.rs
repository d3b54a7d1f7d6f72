//! The output streams: data goes to stdout, diagnostics go to stderr, and the exit code carries the outcome.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use assay_stage::{ErrorCode, Exit, Failure};
use serde::Serialize;

/// The width for a terminal whose width is unknown, in columns.
const DEFAULT_WIDTH: usize = 100;

/// Writes a line of data. It may contain untrusted text, so characters that control a terminal or start a new line are escaped.
pub(crate) fn line(text: impl AsRef<str>) {
    lines(in_one_line(text.as_ref()));
}

fn in_one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// Writes lines of Assay's own data, in which untrusted text is on a line of its own or absent.
pub(crate) fn lines(text: impl AsRef<str>) {
    record_write(to_stdout(|out| write(out, &escape_controls(text.as_ref()))));
}

/// Writes data as it is, for other programs. A person at a terminal sees its control characters escaped.
pub(crate) fn raw(bytes: &[u8]) -> Result<(), Failure> {
    let shown = if std::io::stdout().is_terminal() { Cow::Owned(for_person(bytes)) } else { Cow::Borrowed(bytes) };
    to_stdout(|out| out.write_all(&shown))
        .map_err(|error| Failure::new(ErrorCode::Output, "cannot write to standard output").because(&error))
}

fn for_person(bytes: &[u8]) -> Vec<u8> {
    escape_controls(&String::from_utf8_lossy(bytes)).into_bytes()
}

/// Writes a report, which has already escaped untrusted text and may contain colour.
pub(crate) fn report(text: impl AsRef<str>) {
    record_write(to_stdout(|out| write(out, text.as_ref())));
}

/// Writes a line of diagnostics to stderr.
pub(crate) fn diagnostic(text: impl AsRef<str>) {
    // If stderr is closed, the exit code still carries the outcome.
    let _ = write(&mut std::io::stderr().lock(), &escape_controls(text.as_ref()));
}

/// Returns the exit of a command that has shown signed data. If their signers are not established, it says so.
pub(crate) fn established(is_established: bool) -> Exit {
    if is_established {
        return Exit::Done;
    }
    diagnostic("internally consistent; signer not established");
    diagnostic(TRUST_HINT);
    Exit::Unestablished
}

/// The remedy for signers that are not established.
pub(crate) const TRUST_HINT: &str = "\nhint: name whom you trust with `--trust POLICY` or `--trust FINGERPRINT`";

/// Returns the text with control characters and directional marks escaped.
pub(crate) fn escape_controls(text: &str) -> String {
    let shown = |letter: char| if is_steering(letter) { letter.escape_default().to_string() } else { letter.to_string() };
    text.chars().map(shown).collect()
}

/// Returns the JSON text with the same characters escaped as in JSON, so that it stays JSON. They can occur only in its strings.
pub(crate) fn escape_json(text: &str) -> String {
    let shown = |letter: char| if is_steering(letter) { format!("\\u{:04x}", u32::from(letter)) } else { letter.to_string() };
    text.chars().map(shown).collect()
}

/// Returns true if a character could control a terminal. All of them have four hexadecimal digits.
fn is_steering(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes to stdout. If its reader has gone, as after `| head`, the rest of the output is dropped: the command still comes to its
/// end, so that its exit code is its own and nothing that it has begun is left behind.
fn to_stdout(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> std::io::Result<()> {
    if has_no_reader() {
        return Ok(());
    }
    if assay_process::began_without_stdout() {
        return Err(std::io::Error::other("stdout is closed"));
    }
    match write(&mut std::io::stdout().lock()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {
            NO_READER.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written,
    }
}

fn write(out: &mut dyn std::io::Write, text: &str) -> std::io::Result<()> {
    out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n"))
}

/// True if the reader of stdout has gone.
static NO_READER: AtomicBool = AtomicBool::new(false);

/// Returns true if the reader of stdout has gone. A command that only follows something ends then.
pub(crate) fn has_no_reader() -> bool {
    NO_READER.load(Ordering::Relaxed)
}

/// Records that data was lost, with the first reason.
fn record_write(written: std::io::Result<()>) {
    if let Err(error) = written {
        let _ = LOST.set(error);
    }
}

/// Writes a document as JSON.
pub(crate) fn json(document: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|error| Failure::new(ErrorCode::Internal, "the result has no JSON form").because(&error))?;
    lines(escape_json(&text));
    Ok(())
}

/// Writes a document as JSON on one line.
pub(crate) fn json_line(document: &impl Serialize) -> Result<(), Failure> {
    line(one_line(document)?);
    Ok(())
}

/// Returns a document as JSON on one line.
pub(crate) fn one_line(document: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(document)
        .map_err(|error| Failure::new(ErrorCode::Internal, "the result has no JSON form").because(&error))?;
    Ok(escape_json(&text))
}

/// Returns true if stdout is a terminal that shows colour.
pub(crate) fn has_color() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the width of the terminal, in columns.
pub(crate) fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    told.or(seen.filter(|columns| *columns > 0)).unwrap_or(DEFAULT_WIDTH)
}

/// The first reason why some data could not be written, if any: the disk behind stdout may be full, or stdout closed.
static LOST: OnceLock<std::io::Error> = OnceLock::new();

/// Reports the outcome of a command. A command whose data could not be written has failed.
pub(crate) fn finish(outcome: Result<Exit, Failure>) -> ExitCode {
    // A command that has written nothing has lost nothing if stdout is closed.
    if !assay_process::began_without_stdout() {
        record_write(to_stdout(|out| out.flush()));
    }
    let outcome = outcome.and_then(|exit| LOST.get().map_or(Ok(exit), |error| Err(lost(error))));
    outcome.map_or_else(
        |failure| {
            let failure = failure.or_remedy();
            diagnostic(failure.to_string());
            failure.exit.into()
        },
        Into::into,
    )
}

/// Returns the failure of a command whose data could not be written.
fn lost(error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Output, "not everything could be written to stdout")
        .because(error)
        .hint("is the disk full that it went to, or stdout closed? Without a reader, send it to `/dev/null`")
}

/// Shows a usage error, or the requested help.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // If stderr is closed, the exit code still carries the outcome.
        let _ = error.print();
        if let Some(hint) = usage_hint(error) {
            diagnostic(format!("\nhint: {hint}"));
        }
        return Exit::Usage.into();
    }
    record_write(to_stdout(|_| error.print()));
    finish(Ok(Exit::Done))
}

/// Returns what to write instead, if the message of the parser says what is wrong and not what is right.
fn usage_hint(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let has = |kinds: &[ContextKind]| kinds.iter().any(|kind| error.get(*kind).is_some());
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        _ => "",
    };
    if let Some(hint) = std::error::Error::source(error).and_then(|reason| number_hint(&reason.to_string())) {
        return Some(hint);
    }
    let is_empty = || matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    match error.kind() {
        ErrorKind::InvalidValue if is_empty() && argument.starts_with('-') => {
            Some(format!("write it behind the option: `{argument}`"))
        }
        ErrorKind::ArgumentConflict if argument == repeated(error) => Some("give it once".to_owned()),
        ErrorKind::ArgumentConflict => Some("leave one of them out".to_owned()),
        ErrorKind::UnknownArgument
            if !has(&[ContextKind::SuggestedArg, ContextKind::Suggested, ContextKind::SuggestedSubcommand]) =>
        {
            Some("the same command with `--help` lists its options".to_owned())
        }
        ErrorKind::InvalidSubcommand if !has(&[ContextKind::SuggestedSubcommand]) => {
            Some("the same command with `--help` instead lists its commands".to_owned())
        }
        _ => None,
    }
}

/// Returns the argument that another one is in conflict with; empty if there are several.
fn repeated(error: &clap::Error) -> &str {
    match error.get(clap::error::ContextKind::PriorArg) {
        Some(clap::error::ContextValue::String(prior)) => prior,
        _ => "",
    }
}

/// Returns the number to write, for a reason of the standard library or of a range.
fn number_hint(reason: &str) -> Option<String> {
    let hint = match reason {
        "invalid digit found in string" | "cannot parse integer from empty string" => "write a whole number, such as `8`",
        "invalid float literal" | "cannot parse float from empty string" => "write a number, such as `2.5`",
        "number too large to fit in target type" => "write a smaller number",
        "number too small to fit in target type" => "write a larger number",
        _ => {
            let (_, range) = reason.split_once(" is not in ")?;
            let (least, most) = range.split_once("..")?;
            return Some(match most.strip_prefix('=') {
                // The largest number that the type holds is no limit that a person has in mind.
                Some(most) if most.len() < 10 => format!("write a number from {least} to {most}"),
                _ => format!("write a number, {least} or more"),
            });
        }
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasons are those of this version of the standard library: another one fails here.
    #[test]
    fn the_commonest_mistakes_have_a_hint() {
        #[derive(clap::Parser)]
        struct Example {
            #[arg(long)]
            whole: Option<u8>,
            #[arg(long)]
            share: Option<f64>,
            #[arg(long)]
            name: Option<assay_manifest::Name>,
            #[arg(long, conflicts_with = "whole", value_parser = clap::value_parser!(u32).range(1..=200))]
            count: Option<u32>,
            #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
            least: Option<u64>,
            #[arg(long)]
            flag: bool,
        }
        let hint = |words: &[&str]| {
            let parsed = <Example as clap::Parser>::try_parse_from([&["example"], words].concat());
            let of =
                |given: Example| format!("{:?}", (given.whole, given.share, given.name, given.count, given.least, given.flag));
            usage_hint(&parsed.map(of).expect_err("refused"))
        };
        let hint = |words: &[&str]| hint(words).unwrap_or_default();
        for (words, expected) in [
            (&["--whole", "many"][..], "write a whole number, such as `8`"),
            (&["--whole", ""], "write a whole number, such as `8`"),
            (&["--whole", "300"], "write a number from 0 to 255"),
            (&["--least", "99999999999999999999"], "write a smaller number"),
            (&["--count", "300"], "write a number from 1 to 200"),
            (&["--least", "0"], "write a number, 1 or more"),
            (&["--share", "many"], "write a number, such as `2.5`"),
            (&["--share", ""], "write a number, such as `2.5`"),
            (&["--share"], "write it behind the option: `--share <SHARE>`"),
            (&["--flag", "--flag"], "give it once"),
            (&["--whole", "1", "--count", "2"], "leave one of them out"),
            (&["--nothing"], "the same command with `--help` lists its options"),
            (&["stray"], "the same command with `--help` lists its options"),
            (&["--shar", "2"], ""),
            (&["--name", "A B"], ""),
        ] {
            assert_eq!(hint(words), expected, "{words:?}");
        }
    }

    #[test]
    fn what_could_steer_a_terminal_is_shown() {
        assert_eq!(escape_controls("a\u{1b}[2Jb\rc\u{202e}d\u{9b}"), "a\\u{1b}[2Jb\\rc\\u{202e}d\\u{9b}");
        assert_eq!(escape_controls("two\nlines, für alle"), "two\nlines, für alle");
        assert_eq!(for_person(b"a,\x1b[2J\nb,\xff"), "a,\\u{1b}[2J\nb,\u{fffd}".as_bytes(), "data at a terminal");
    }

    #[test]
    fn a_name_begins_no_line_of_its_own() {
        assert_eq!(in_one_line("a\nlevel 4 of 4 reached"), "a\\nlevel 4 of 4 reached");
    }

    #[test]
    fn json_stays_json_whatever_a_name_holds() {
        let name = "a\u{1b}[2J\r\n\u{202e}\u{9b}\u{2066}ü";
        let text = one_line(&serde_json::json!({ "name": name })).expect("JSON");
        assert_eq!(text, r#"{"name":"a\u001b[2J\r\n\u202e\u009b\u2066ü"}"#);
        assert_eq!(escape_controls(&text), text, "nothing is left to write out");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["name"], name);
    }
}
