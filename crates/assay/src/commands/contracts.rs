//! `assay contracts`: the contract of BenchmarkRuns, its rules, and a renderer.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use assay_contracts::{
    FIELDS, Interface, OverrideError, is_workload_specification, render_run, summarize, summarize_contracts, validate,
};
use assay_manifest::Instant;
use assay_spec::{MAX_OBJECT_BYTES, Problem, parse_documents};
use assay_stage::{ErrorCode, Exit, Failure};
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::commands::import::read_plain;
use crate::output;

/// Print the summary of the contract of BenchmarkRuns as one JSON document, check documents by its rules, or render a BenchmarkRun.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Contracts {
    #[command(subcommand)]
    of: Option<Of>,
    #[command(flatten)]
    time: Time,
}

/// The parts of the contract.
#[derive(clap::Subcommand)]
enum Of {
    /// Check a BenchmarkRun or a workload specification by the rules of the contract: exit code 0 if it is valid, or else 1
    Validate(ValidateContract),
    /// Print a BenchmarkRun with up to ten overrides of the template
    Render(Box<RenderRun>),
}

/// The time that a document states.
#[derive(clap::Args)]
struct Time {
    /// The time that `generated_at_utc` states, in UTC, such as `2026-11-29T12:00:00Z` [default: now]
    #[arg(long, value_name = "TIME", value_parser = utc)]
    generated_at: Option<String>,
}

#[derive(clap::Args)]
struct ValidateContract {
    /// The file; `-` reads it from stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print `valid`, `file`, `errors` and `summary` as one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct RenderRun {
    /// `metadata.name`
    #[arg(long, value_name = "NAME", value_parser = plain)]
    name: Option<String>,
    /// `spec.intent.benchmarkClass`
    #[arg(long, value_name = "CLASS", value_parser = choices("benchmarkClass"))]
    benchmark_class: Option<String>,
    /// `spec.intent.workloadType`
    #[arg(long, value_name = "TYPE", value_parser = choices("workloadType"))]
    workload_type: Option<String>,
    /// `spec.intent.schedulerPath`
    #[arg(long, value_name = "PATH", value_parser = plain)]
    scheduler_path: Option<String>,
    /// `spec.intent.cadence`
    #[arg(long, value_name = "CADENCE", value_parser = choices("cadence"))]
    cadence: Option<String>,
    /// `spec.workload.model`, and the fixed control
    #[arg(long, value_name = "MODEL", value_parser = plain)]
    model: Option<String>,
    /// `spec.workload.precision`, and the fixed control
    #[arg(long, value_name = "PRECISION", value_parser = plain)]
    precision: Option<String>,
    /// `spec.workload.batchingPolicy`, and the fixed control
    #[arg(long, value_name = "POLICY", value_parser = plain)]
    batching_policy: Option<String>,
    /// `spec.workload.concurrencyModel`, and the fixed control
    #[arg(long, value_name = "MODE", value_parser = plain)]
    concurrency_model: Option<String>,
    /// `spec.comparison.variableUnderTest`
    #[arg(long, value_name = "VARIABLE", value_parser = choices("comparisonVariable"))]
    comparison_variable: Option<String>,
    /// Print the document, the applied values and the time as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    time: Time,
}

impl Contracts {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        match self.of {
            Some(Of::Validate(command)) => command.run(),
            Some(Of::Render(command)) => command.run(),
            None => {
                output::json(&summarize_contracts(&self.time.or_now(), &[Interface::Cli]))?;
                Ok(Exit::Done)
            }
        }
    }
}

impl ValidateContract {
    fn run(self) -> Result<Exit, Failure> {
        let file = self.file.display().to_string();
        let (errors, document) = match parse(&file, &read(&self.file)?) {
            Ok(document) => (validate(&document).iter().map(ToString::to_string).collect(), document),
            Err(errors) => (errors, Value::Null),
        };
        let is_valid = errors.is_empty();
        let summary = summarize(&document);
        if self.json {
            output::json(&json!({"valid": is_valid, "file": file, "errors": errors, "summary": summary}))?;
        } else {
            let kind = if is_workload_specification(&document) { "workload specification" } else { "BenchmarkRun" };
            output::line(format!("{kind} {}: {file}", if is_valid { "valid" } else { "invalid" }));
            for error in &errors {
                output::line(format!("- {error}"));
            }
            if is_valid {
                output::json(&summary)?;
            }
        }
        // The exit codes are those of the project that defined the contract.
        Ok(if is_valid { Exit::Done } else { Exit::Unexpected })
    }
}

/// Returns the one document of a file, or the errors in the form of the contract's rules. No error quotes the file.
fn parse(file: &str, bytes: &[u8]) -> Result<Value, Vec<String>> {
    let syntax = |problem: &Problem| match problem.line {
        0 => format!("document: {}", problem.message),
        line => format!("document: line {line}: {}", problem.message),
    };
    let documents = parse_documents(file, bytes).map_err(|problems| problems.iter().map(syntax).collect::<Vec<_>>())?;
    let mut documents = documents.into_iter();
    match (documents.next(), documents.next()) {
        (document, None) => Ok(document.unwrap_or_default()),
        _ => Err(vec!["document: expected one YAML document".to_owned()]),
    }
}

/// Reads a file, or stdin, and no more of it than shows that it is too large.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let limit = MAX_OBJECT_BYTES as u64;
    if path != Path::new("-") {
        return read_plain(path, limit);
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| Failure::new(ErrorCode::Unreadable, "cannot read stdin").because(&error))?;
    Ok(bytes)
}

impl RenderRun {
    fn run(self) -> Result<Exit, Failure> {
        let given = [
            &self.name,
            &self.benchmark_class,
            &self.workload_type,
            &self.scheduler_path,
            &self.cadence,
            &self.model,
            &self.precision,
            &self.batching_policy,
            &self.concurrency_model,
            &self.comparison_variable,
        ];
        let overrides = FIELDS.iter().zip(given).filter_map(|(field, value)| Some((field.name, value.as_deref()?)));
        let internal = |error: OverrideError| Failure::new(ErrorCode::Internal, error.to_string());
        let rendered = render_run(overrides).map_err(internal)?;
        if self.json {
            output::json(&rendered.to_json(&self.time.or_now()))?;
        } else {
            output::raw(rendered.yaml.as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

impl Time {
    fn or_now(&self) -> String {
        let now = || {
            let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Instant::from_unix_ns(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)).to_seconds()
        };
        self.generated_at.clone().unwrap_or_else(now)
    }
}

/// Returns the values that a field takes.
fn choices(name: &str) -> PossibleValuesParser {
    FIELDS.iter().find(|field| field.name == name).map_or(&[][..], |field| field.choices).into()
}

/// Checks a value that any field without choices takes.
fn plain(text: &str) -> Result<String, String> {
    let checked = render_run([("name", text)]);
    checked.map(|_| text.to_owned()).map_err(|_| "write a text on one line, of at most 200 bytes".to_owned())
}

/// Checks a time: RFC 3339 in UTC, to the second or to the nanosecond.
fn utc(text: &str) -> Result<String, String> {
    let whole = text.strip_suffix('Z').map(|time| format!("{time}.000000000Z"));
    let is_time = [Some(text.to_owned()), whole].into_iter().flatten().any(|text| text.parse::<Instant>().is_ok());
    if is_time { Ok(text.to_owned()) } else { Err("write a time in UTC, such as 2026-11-29T12:00:00Z".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_in_utc() {
        for time in ["2026-11-29T12:00:00Z", "2026-11-29T12:00:00.000000001Z"] {
            assert_eq!(utc(time).as_deref(), Ok(time));
        }
        for none in ["2026-11-29", "2026-11-29T12:00:00+01:00", "now", "", "2026-13-29T12:00:00Z"] {
            assert!(utc(none).is_err(), "{none}");
        }
    }

    #[test]
    fn every_field_with_choices_has_an_option_that_takes_them() {
        for field in FIELDS.iter().filter(|field| !field.choices.is_empty()) {
            let taken: Vec<String> = clap::builder::TypedValueParser::possible_values(&choices(field.name))
                .into_iter()
                .flatten()
                .map(|value| value.get_name().to_owned())
                .collect();
            assert_eq!(taken, field.choices, "{}", field.name);
        }
    }
}
