//! `assay exec`: measures a command, or compares two, with one command line, through the same chain as any run.
//!
//! The options become a workload of a measured command and a pipeline, which are the run's Source (`adhoc`). So a number of it has the
//! same evidence and the same statistics as that of a pipeline in Git, and it is exploratory.

pub(crate) mod comparison;
mod words;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use assay_foreign::{credential_in_words, names_authentication};
use assay_manifest::{CPU_TIME, INSTRUCTIONS, InstructionCounter, Name, RunId, WALL_TIME};
use assay_runner::SourceSpec;
use assay_spec::{ClosureError, Problem, SCHEMES, expand, looks_secret, looks_secret_header, parse_duration, read_closure};
use assay_stage::parameters::PlanParameters;
use assay_stage::{ErrorCode, Exit, Failure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};

use crate::commands::bench::distinct;
use crate::commands::definitions;
use crate::commands::run::RunRequest;
use crate::output;
use comparison::CommandComparison;

/// The path of the pipeline in the Source.
const PIPELINE: &str = "pipelines/exec.yaml";

/// The default of `--runs` for one command: as many as hyperfine's least, and enough for an interval.
const RUNS: u32 = 10;

/// The default of `--runs` for two commands: with fewer pairs, changes of a tenth are seldom found on a shared machine (`docs/gates.md`).
const RUNS_OF_COMPARISON: u32 = 20;

/// The most runs of one command: the limit of `trials.count`.
const MAX_RUNS: u32 = 1000;

/// The default of `--max-regression`, in percent, as that of a gate.
const BUDGET_PCT: f64 = 5.0;

/// The name of the workload if the program's name has no letter or digit.
const DEFAULT_NAME: &str = "command";

/// The most characters of the workload's name.
const MAX_NAME: usize = 40;

/// The text between the names of two programs, in the name of their comparison.
const VERSUS: &str = "-vs-";

/// The least and the most of `--max-regression`, in percent: those of the budget of a gate, which has to be above the least.
const BUDGETS: (f64, f64) = (0.0, 100.0);

/// The replacement of a part of a word that is no credential itself, but says where one is.
const ELSEWHERE: &str = "redacted";

/// The remedy of a credential in a command.
const CREDENTIAL_HINT: &str = "the words of a command are published with its run: pass it in a variable, with `--env NAME`, which the program reads itself; if \
                               it is no credential, put the command into a script, and measure that";

/// The fields of the definitions by the option that each comes from; a longer path comes before any path that it begins with.
const OPTIONS: [(&str, &str); 7] = [
    ("spec.command.run", "COMMAND"),
    ("spec.targets[0].command", "--baseline"),
    ("spec.targets[0].env", "--env"),
    ("spec.targets[1].env", "--env"),
    ("spec.targets[0].working_directory", "this folder"),
    ("spec.targets[1].working_directory", "this folder"),
    ("spec.time_limit", "--timeout"),
];

/// The remedy of a problem of a word that has none of its own.
const WORD_HINT: &str = "a word of the command has from 1 to 4096 characters; a shell passes others: `-- sh -c 'LINE'`";

/// The notes below the options: the measured quantities, and how the command runs.
const NOTES: &str = "Measured are wall time, CPU time in user and system mode, and peak memory, each with an interval. Wall time includes the start of \
the process. The command runs in this folder, with an empty stdin; its outputs are kept as evidence. No shell runs it: for a line of a shell, write \
`-- sh -c 'LINE'`.";

/// Measure a command, or compare two, as a signed exploratory run.
#[derive(clap::Args)]
#[command(override_usage = "assay exec [OPTIONS] -- <COMMAND>...
       assay exec --baseline <COMMAND> [OPTIONS] -- <COMMAND>...", after_help = NOTES)]
pub(crate) struct Exec {
    /// The program and its arguments, after `--`. One with a `/` is a path, any other is looked up in PATH
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Compare with this command: one text, which is split into words as a shell does, without running one. The runs of both alternate
    #[arg(long, value_name = "COMMAND")]
    baseline: Option<String>,
    /// The measured runs of each command [default: 10; 20 with --baseline]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RUNS)))]
    runs: Option<u32>,
    /// The runs of each command before those, not measured. If one of them fails, nothing is measured
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    warmup: u32,
    /// The invocations in each run, whose median is the run's value: for a program of a few milliseconds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    times: u32,
    /// The time limit of each run; a command that takes longer is stopped
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_timeout)]
    timeout: String,
    /// Count instructions too, in one more invocation of each run: by `perf`, or by `cachegrind`, which is some fifty times slower
    #[arg(long, value_name = "COUNTER", value_parser = counter_parser())]
    instructions: Option<InstructionCounter>,
    /// Exit with 40 if the command is worse than the baseline by more than this, and with 41 if that cannot be told
    #[arg(long, value_name = "PERCENT", requires = "baseline", value_parser = parse_percent)]
    max_regression: Option<f64>,
    /// A variable of the command's environment, or the name of one of this environment. Otherwise it has PATH, HOME, TMPDIR, LANG and LC_ALL
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// The name of what is measured, which its history has [default: that of the program, or NEW-vs-OLD of two]
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// The run's name [default: a new one]
    #[arg(long = "run-id", value_name = "ID")]
    run_id: Option<RunId>,
    /// Print the resulting workload and pipeline, and run nothing
    #[arg(long)]
    print: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

impl Exec {
    pub(crate) fn run(self: Box<Self>) -> Result<Exit, Failure> {
        let folder = std::env::current_dir().map_err(|error| {
            Failure::new(ErrorCode::Unreadable, "this folder cannot be found")
                .because(&error)
                .hint("change to a folder that exists")
        })?;
        let adhoc = self.definitions(&folder)?;
        check(&adhoc)?;
        if self.print {
            definitions::print(&adhoc);
            return Ok(Exit::Done);
        }
        if has_input() {
            output::diagnostic(
                "stdin is not passed on: the command reads an empty one; `-- sh -c 'COMMAND <FILE'` gives it a file",
            );
        }
        let decides_exit = self.max_regression.is_some();
        let request = RunRequest {
            source: SourceSpec { pipeline: PIPELINE.to_owned(), adhoc, ..SourceSpec::default() },
            store: self.store.clone(),
            name: self.run_id.clone(),
            plan: PlanParameters { fetch: false, ..PlanParameters::default() },
            json: self.json,
            command: "assay exec",
            search: None,
            comparison: self.baseline.is_some().then_some(CommandComparison { decides_exit }),
        };
        request.run().map_err(reword)
    }

    /// Makes the files of the Source: JSON, which is YAML.
    fn definitions(&self, folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let baseline = self.baseline_words(folder)?;
        refuse_credential("COMMAND", &self.command, folder)?;
        let name = self.name.as_ref().map_or_else(|| default_name(&self.command, baseline.as_deref()), Name::to_string);
        let targets = self.targets(baseline.as_deref(), folder)?;
        let workload = format!("workloads/{name}/workload.yaml");
        Ok(BTreeMap::from([
            (workload, definitions::written(&self.workload(&name, folder)?)),
            (PIPELINE.to_owned(), definitions::written(&self.pipeline(&name, targets))),
        ]))
    }

    fn workload(&self, name: &str, folder: &Path) -> Result<Value, Failure> {
        let mut command = json!({"run": literal_words(&self.command, folder)?, "warmup": self.warmup, "times": self.times});
        let mut metrics = vec![metric(WALL_TIME, "ms"), metric(CPU_TIME, "ms")];
        if let Some(counter) = self.instructions {
            command["instructions"] = json!(counter);
            metrics.push(metric(INSTRUCTIONS, "count"));
        }
        Ok(json!({
            "apiVersion": "assay.dev/v1alpha1",
            "kind": "Workload",
            "metadata": {"name": name},
            "spec": {"type": "indicator", "command": command, "metrics": metrics, "time_limit": self.timeout},
        }))
    }

    /// Returns the baseline, if there is one, and the command of the workload, each as a target.
    fn targets(&self, baseline: Option<&[String]>, folder: &Path) -> Result<Vec<Value>, Failure> {
        let env = self.environment()?;
        let target = |name: &str| json!({"name": name, "kind": "host", "working_directory": shown(folder), "env": env});
        let Some(words) = baseline else { return Ok(vec![target("local")]) };
        let mut target_of_baseline = target("baseline");
        target_of_baseline["command"] = json!(literal_words(words, folder)?);
        Ok(vec![target_of_baseline, target("candidate")])
    }

    /// Splits the text of the baseline, if there is one, into words, none of which holds a credential.
    fn baseline_words(&self, folder: &Path) -> Result<Option<Vec<String>>, Failure> {
        let Some(baseline) = &self.baseline else { return Ok(None) };
        let words = words::split(baseline).map_err(|error| {
            let has_credential = credential_in_words(std::slice::from_ref(baseline)).is_some();
            let shown = if has_credential { "..." } else { baseline };
            Failure::new(ErrorCode::Option, format!("`--baseline {shown}` {}", error.describe())).hint(error.hint())
        })?;
        refuse_credential("--baseline", &words, folder)?;
        Ok(Some(words))
    }

    fn pipeline(&self, workload: &str, targets: Vec<Value>) -> Value {
        let is_comparison = self.baseline.is_some();
        let runs = self.runs.unwrap_or(if is_comparison { RUNS_OF_COMPARISON } else { RUNS });
        let mut spec = json!({
            "intent": "exploratory",
            "workloads": [workload],
            "targets": targets,
            "trials": {"count": runs},
        });
        if is_comparison {
            spec["comparison"] = json!({
                "baseline": {"target": "baseline"},
                "candidate": {"target": "candidate"},
                "variable_under_test": "other",
                "other": "the command",
            });
            spec["gates"] = json!([{"name": "exec", "budget_pct": self.max_regression.unwrap_or(BUDGET_PCT)}]);
        }
        json!({"apiVersion": "assay.dev/v1alpha1", "kind": "Pipeline", "metadata": {"name": "exec"}, "spec": spec})
    }

    fn environment(&self) -> Result<Map<String, Value>, Failure> {
        distinct("--env", self.env.iter().map(|text| read_variable(text, |name| std::env::var_os(name))))
    }
}

fn metric(path: &str, unit: &str) -> Value {
    json!({"path": path, "unit": unit, "better": "lower"})
}

/// Returns the words of a command as they are written in a definition: `${` stands for itself, and the path of a program is absolute.
fn literal_words(command: &[String], folder: &Path) -> Result<Vec<String>, Failure> {
    let mut words: Vec<String> = command.iter().map(|word| word.replace("${", "$${")).collect();
    match words.first_mut() {
        Some(program) if program.is_empty() => {
            return Err(Failure::new(ErrorCode::Option, "the command names no program").hint("its first word is a program"));
        }
        Some(program) if program.contains('/') => {
            let path: PathBuf = folder.join(PathBuf::from(&*program)).components().collect();
            *program = shown(&path);
        }
        _ => {}
    }
    Ok(words)
}

/// Refuses a command with a word that looks like a credential, without showing it.
fn refuse_credential(option: &str, command: &[String], folder: &Path) -> Result<(), Failure> {
    let words: Vec<String> = command.iter().map(|word| without_places(word, folder)).collect();
    match credential_in_words(&words).or_else(|| words.iter().position(|word| sets_secret(word))) {
        Some(place) => {
            let message = format!("`{option}[{place}]` looks like a credential, or like the name of one that follows it");
            Err(Failure::new(ErrorCode::Option, message).hint(CREDENTIAL_HINT))
        }
        None => Ok(()),
    }
}

/// Returns true if a word, or a part of a line of a shell, sets a variable that holds a secret, as `env STRIPE_KEY=VALUE PROGRAM` does: `--env` refuses it, too.
fn sets_secret(word: &str) -> bool {
    let is_secret = |name: &str, value: &str| words::is_name(name) && !value.starts_with(ELSEWHERE) && holds_secret(name, value);
    let sets = |part: &str| part.split_once('=').is_some_and(|(name, value)| is_secret(name, value));
    word.split_whitespace().any(|part| sets(part.trim_matches(['\'', '"'])))
}

/// Returns a word in which each place of a credential stands as one that was left out: the path of a file (`--key server.pem`), and a variable
/// in a line of a shell (`Authorization: Bearer $TOKEN`). A word that is no line is no shell's, and `$ecret` may be a password.
fn without_places(word: &str, folder: &Path) -> String {
    let (option, value) = word.split_once('=').unwrap_or(("", word));
    let is_line = word.contains(char::is_whitespace);
    match is_path_of_file(value, folder) {
        true if option.is_empty() => ELSEWHERE.to_owned(),
        true => format!("{option}={ELSEWHERE}"),
        false if is_line => without_variables(word),
        false => word.to_owned(),
    }
}

/// Returns true if a text is the path of a file that exists. A plain word may be a password that is the name of a file by chance.
fn is_path_of_file(text: &str, folder: &Path) -> bool {
    text.contains(['/', '.']) && folder.join(text).is_file()
}

/// Returns a text with its `$NAME` and `${NAME}` as left out, each with the scheme in front of it.
fn without_variables(text: &str) -> String {
    let mut parts = text.split('$');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(rest) = after_variable(part) {
            plain.truncate(without_scheme(&plain).len());
            plain.push_str(ELSEWHERE);
            plain.push_str(rest);
        } else {
            plain.push('$');
            plain.push_str(part);
        }
    }
    plain
}

/// Returns the text behind the name of a variable, with which a text begins, in braces or not.
fn after_variable(text: &str) -> Option<&str> {
    let (name, rest) = match text.strip_prefix('{') {
        Some(braced) => braced.split_once('}')?,
        None => text.split_at(text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len())),
    };
    words::is_name(name).then_some(rest)
}

/// Returns a text without the scheme of authentication at its end.
fn without_scheme(text: &str) -> &str {
    let Some(shown) = text.strip_suffix(' ') else { return text };
    let before = shown.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scheme = shown.get(before.len()..).unwrap_or_default().to_ascii_lowercase();
    if SCHEMES.contains(&scheme.as_str()) { before } else { text }
}

/// Returns a path as a text. One that is no UTF-8 is found to be absent by the stage that uses it.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns a name for the workload of a command. That of two programs names both: the baseline's numbers are not those of the other.
fn default_name(command: &[String], baseline: Option<&[String]>) -> String {
    let new = name_of(command.first());
    match baseline.map(|words| name_of(words.first())).filter(|old| *old != new) {
        Some(old) => {
            let most = (MAX_NAME - VERSUS.len()) / 2;
            format!("{}{VERSUS}{}", shortened(&new, most), shortened(&old, most))
        }
        None => new,
    }
}

/// Returns the first characters of a name, without a hyphen at their end.
fn shortened(name: &str, most: usize) -> String {
    name.chars().take(most).collect::<String>().trim_end_matches('-').to_owned()
}

/// Returns a name for a workload from that of its program.
fn name_of(program: Option<&String>) -> String {
    let file = program.map(Path::new).and_then(Path::file_name).map(|name| name.to_string_lossy().to_ascii_lowercase());
    let plain: String = file
        .unwrap_or_default()
        .chars()
        .map(|next| if next.is_ascii_alphanumeric() { next } else { '-' })
        .take(MAX_NAME)
        .collect();
    let name = plain.trim_matches('-');
    if name.is_empty() { DEFAULT_NAME.to_owned() } else { name.to_owned() }
}

/// Parses `NAME=VALUE`, or `NAME` of a variable of this environment. A value that looks like a secret is recorded by its name only.
fn read_variable(text: &str, lookup: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<(String, Value), Failure> {
    let (name, given) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    if !words::is_name(name) {
        // The text may be a secret that was written in the wrong place.
        return Err(Failure::new(ErrorCode::Option, "`--env` is not of the form NAME or NAME=VALUE")
            .hint("such as `--env HOME` or `--env THREADS=4`; a name has letters, digits and `_`"));
    }
    if let Some(value) = given {
        if holds_secret(name, value) {
            let message =
                format!("`--env {name}=...` holds a secret, which every user of this machine can read in the list of processes");
            return Err(Failure::new(ErrorCode::Option, message).hint(format!("set the variable, and write `--env {name}`")));
        }
        return Ok((name.to_owned(), json!(value)));
    }
    let absent = || {
        Failure::new(ErrorCode::Option, format!("`--env {name}` names a variable that is not set"))
            .hint(if is_named_secret(name) { "set it".to_owned() } else { format!("set it, or write `--env {name}=VALUE`") })
    };
    let found = lookup(name).ok_or_else(absent)?;
    let plain = found.to_str().filter(|value| !holds_secret(name, value));
    Ok((name.to_owned(), plain.map_or_else(|| json!({"from_env": name}), Value::from)))
}

/// Returns true if a variable holds a secret: by its name, or by its value, such as `Bearer KEY` or an address with a password.
fn holds_secret(name: &str, value: &str) -> bool {
    let as_word = format!("{name}={value}");
    let is_place = PLACES.contains(&name);
    looks_secret(name, value)
        || looks_secret_header("", value)
        || credential_in_words(&[value.to_owned()]).is_some()
        || !is_place && credential_in_words(&[as_word]).is_some()
        || !is_place && is_named_secret(name) && (value.parse::<f64>().is_err() || value.len() >= MIN_SECRET_DIGITS)
}

/// Returns true if the name of a variable is like those of keys, passwords and sessions. Such a value is recorded by its name only, so one that is none
/// costs little: the list is wider than that for definitions.
fn is_named_secret(name: &str) -> bool {
    let capitals = name.to_ascii_uppercase();
    SECRET_ENDS.iter().any(|end| capitals.ends_with(end)) || names_authentication(name)
}

/// The ends of names of variables that hold keys and passwords.
const SECRET_ENDS: [&str; 16] = [
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "COOKIE",
    "KEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PW",
    "PWD",
    "SECRET",
    "SIGNATURE",
    "TOKEN",
    "WEBHOOK",
    "_PAT",
];

/// Variables that end like those and hold folders.
const PLACES: [&str; 2] = ["OLDPWD", "PWD"];

/// The length from which on a number under such a name is a secret too: `MAX_TOKEN=8` is none.
const MIN_SECRET_DIGITS: usize = 6;

fn parse_timeout(text: &str) -> Result<String, String> {
    parse_duration(text).map(|_| text.to_owned()).map_err(|_| "a time, such as `30s` or `10m`".to_owned())
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    number
        .filter(|number| *number > BUDGETS.0 && *number <= BUDGETS.1)
        .ok_or_else(|| format!("a number of percent above {} and up to {}, such as `5` or `5%`", BUDGETS.0, BUDGETS.1))
}

/// Returns the parser of `--instructions`, which offers the names of all counters.
fn counter_parser() -> impl TypedValueParser<Value = InstructionCounter> {
    PossibleValuesParser::new(InstructionCounter::ALL.iter().map(|counter| counter.as_str()))
        .try_map(|name| name.parse::<InstructionCounter>())
}

/// Returns true if the stdin of this process is a file or a pipe, from which a person may expect the command to read.
fn has_input() -> bool {
    let stat = rustix::fs::fstat(std::io::stdin().as_fd());
    let kind = stat.map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(rustix::fs::FileType::RegularFile | rustix::fs::FileType::Fifo))
}

/// Checks that the options make definitions that can be run. A problem names the option, because the user did not write the files.
fn check(files: &BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
    let problems = match read_closure::<Infallible>(PIPELINE, &mut |path| Ok(files.get(path).cloned())) {
        Ok(found) => expand(&found.pipeline, &found.workloads).err().unwrap_or_default(),
        Err(ClosureError::Problems(problems)) => problems,
        Err(ClosureError::Read { cause, .. }) => match cause {},
    };
    let Some(Problem { message, hint, .. }) = problems.into_iter().next() else { return Ok(()) };
    let failure = Failure::new(ErrorCode::Option, with_options(&message));
    let is_of_word = failure.message.contains("COMMAND[") || failure.message.contains("--baseline[");
    let hint = hint.map(|hint| with_options(&hint)).or_else(|| is_of_word.then(|| WORD_HINT.to_owned()));
    Err(match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// Names the option in place of the field that it becomes.
fn with_options(text: &str) -> String {
    OPTIONS.iter().fold(text.to_owned(), |text, (field, option)| text.replace(field, option))
}

/// Names what a person can do about a failed run who wrote a command and no definition.
fn reword(failure: Failure) -> Failure {
    match failure.code {
        ErrorCode::ProgramAbsent => failure.hint(
            "check its name: a program with a `/` is a path from this folder, any other is looked up in PATH; no shell runs the command, so a \
             line of a shell is written `-- sh -c 'LINE'`",
        ),
        ErrorCode::NoValidTrial => {
            let first = "does the command succeed by itself? Assay runs it without a shell, with an empty stdin and few variables (`--env` adds \
                         some), and stops it after `--timeout`";
            let hint = failure.hint.as_ref().map_or_else(|| first.to_owned(), |hint| format!("{first}\n{hint}"));
            failure.hint(hint)
        }
        ErrorCode::OtherSource => {
            let hint = failure.hint.as_ref().map(|hint| hint.replace("`assay bench`", "`assay exec`")).unwrap_or_default();
            failure.hint(hint)
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        exec: Exec,
    }

    fn exec(arguments: &[&str]) -> Exec {
        Program::try_parse_from(["exec"].iter().chain(arguments)).unwrap_or_else(|error| panic!("{error}")).exec
    }

    /// Returns the specs of the workload and of the pipeline.
    fn specs(arguments: &[&str]) -> [Value; 2] {
        let files = exec(arguments).definitions(Path::new("/here")).expect("definitions");
        check(&files).expect("they can be run");
        let of = |part: &str| {
            let (_, bytes) = files.iter().find(|(path, _)| path.starts_with(part)).expect("a file");
            serde_json::from_slice::<Value>(bytes).expect("JSON")["spec"].clone()
        };
        [of("workloads/"), of("pipelines/")]
    }

    fn refused(arguments: &[&str]) -> String {
        exec(arguments).definitions(Path::new("/here")).and_then(|files| check(&files)).expect_err("refused").to_string()
    }

    #[test]
    fn one_command_is_one_workload_on_one_target() {
        let [workload, pipeline] = specs(&["--warmup", "3", "--timeout", "5s", "--", "sort", "-n", "${x}"]);
        assert_eq!(workload["command"], json!({"run": ["sort", "-n", "$${x}"], "warmup": 3, "times": 1}));
        assert_eq!(workload["time_limit"], "5s");
        assert_eq!(pipeline["workloads"], json!(["sort"]));
        assert_eq!(pipeline["targets"], json!([{"name": "local", "kind": "host", "working_directory": "/here", "env": {}}]));
        assert_eq!(pipeline["trials"], json!({"count": 10}));
        assert!(pipeline.get("comparison").is_none() && pipeline.get("gates").is_none());
    }

    #[test]
    fn two_commands_are_two_sides_of_one_comparison() {
        let [workload, pipeline] = specs(&[
            "--baseline",
            "./old 'a b'",
            "--max-regression",
            "2.5%",
            "--instructions",
            "perf",
            "--name",
            "mine",
            "--",
            "../new",
        ]);
        assert_eq!(workload["command"]["run"], json!(["/here/../new"]));
        assert_eq!(workload["metrics"].as_array().map(Vec::len), Some(3));
        assert_eq!(pipeline["workloads"], json!(["mine"]));
        assert_eq!(pipeline["targets"][0]["command"], json!(["/here/old", "a b"]));
        assert!(pipeline["targets"][1].get("command").is_none());
        assert_eq!((&pipeline["trials"]["count"], &pipeline["gates"][0]["budget_pct"]), (&json!(20), &json!(2.5)));
    }

    #[test]
    fn a_command_that_cannot_be_run_is_refused_by_its_option() {
        let piped = refused(&["--baseline", "a | b", "--", "a"]);
        assert!(piped.contains("`--baseline a | b` has '|' outside of single quotes") && piped.contains("sh -c"), "{piped}");
        assert!(refused(&["--", ""]).contains("the command names no program"));
        let long = "x".repeat(5000);
        let long = refused(&["--", "sh", "-c", &long]);
        assert!(long.contains("COMMAND[2]") && !long.contains("spec."), "{long}");
    }

    #[test]
    fn only_a_problem_of_a_word_has_the_hint_about_words() {
        assert!(refused(&["--", "sh", ""]).contains(WORD_HINT));
        assert!(refused(&["--baseline", "sh ''", "--", "sh"]).contains(WORD_HINT));
        let many = refused(&[&["--", "sh"][..], &vec!["x"; 5000]].concat());
        assert!(many.contains("COMMAND") && !many.contains("a word of the command"), "{many}");
    }

    #[test]
    fn a_credential_in_a_command_is_refused_and_not_shown() {
        for words in [
            &["echo", "--password", "canary-4f2b"][..],
            &["echo", "--api-key", "sk-canary-4f2b"],
            &["echo", "--token=canary-4f2b"],
            &["echo", "--token", "$canary"],
            &["curl", "-H", "Authorization: Bearer canary-4f2b"],
            &["echo", "AKIAIOSFODNN7canary4f2b"],
            &["curl", "http://h/v1?api_key=canary-4f2b"],
            &["curl", "https://me:canary-4f2b@h/v1"],
            &["env", "API_KEY=canary-4f2b", "true"],
            &["env", "STRIPE_KEY=canary-4f2b", "true"],
            &["env", "AZURE_DEVOPS_EXT_PAT=canary-4f2b", "true"],
            &["sh", "-c", "SLACK_WEBHOOK='canary-4f2b' tool"],
            &["sh", "-c", "tool --token canary-4f2b"],
            &["curl", "--auth-header", "canary-4f2b"],
            &["tool", "--session-id=canary-4f2b"],
            &["docker", "login", "-u", "me", "-p", "canary-4f2b"],
            &["tool", "--login", "a:canary-4f2b"],
            &["env", "SESSION_ID=canary-4f2b", "true"],
            &["sh", "-c", "curl -H \"Authorization: Bearer $TOKEN\" -H 'X-Api-Key: canary-4f2b'"],
        ] {
            let of_command = refused(&[&["--"], words].concat());
            assert!(of_command.contains("COMMAND[") && of_command.contains("`--env NAME`"), "{of_command}");
            let text = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ");
            let of_baseline = refused(&["--baseline", &text, "--", "true"]);
            assert!(of_baseline.contains("`--baseline[") && of_baseline.contains("`--env NAME`"), "{of_baseline}");
            assert!(!of_command.contains("canary") && !of_baseline.contains("canary"), "{of_command} {of_baseline}");
        }
        let unsplit = refused(&["--baseline", "echo --token canary-4f2b | cat", "--", "true"]);
        assert!(!unsplit.contains("canary") && unsplit.contains("'|'"), "{unsplit}");
    }

    #[test]
    fn the_place_of_a_credential_is_none() {
        for words in [
            &["sh", "-c", "curl -H \"Authorization: Bearer $TOKEN\" http://h"][..],
            &["sh", "-c", "tool --token ${API_TOKEN} --password=$PASSWORD"],
            &["tool", "--key", "/proc/self/mountinfo", "--password-file=/proc/self/mountinfo"],
            &["tool", "--max-tokens", "128", "--tokenizer", "gpt2", "--token-count=8"],
            &["env", "THREADS=4", "MONKEY_PATCH=on", "PWD=/tmp", "tool"],
            &["sh", "-c", "API_KEY=$API_KEY tool"],
            &["gen-token", "x"],
            &["tool", "-p", "8080"],
            &["mkdir", "-p", "x"],
            &["cp", "-p", "a", "b"],
            &["nc", "-p", "80", "h"],
            &["python", "-c", "print(1)"],
            &["sh", "-c", "docker login -u me -p $PASSWORD && tool --session-id ${ID}"],
        ] {
            specs(&[&["--"], words].concat());
        }
        assert_eq!(without_variables("a $1 $(b) ${c d} $"), "a $1 $(b) ${c d} $", "they are no variables");
    }

    #[test]
    fn the_name_is_that_of_the_program() {
        let name = |program: &str| name_of(Some(&program.to_owned()));
        assert_eq!(["/usr/bin/Python3.11", "./a_b.sh", "..", "é"].map(name), ["python3-11", "a-b-sh", "command", "command"]);
        assert_eq!(name(&format!("{}-b", "a".repeat(39))), "a".repeat(39), "no name ends with a hyphen");
    }

    #[test]
    fn the_name_of_two_programs_is_that_of_both() {
        let workloads = |arguments: &[&str]| specs(arguments)[1]["workloads"].clone();
        assert_eq!(workloads(&["--baseline", "/bin/sleep 0.2", "--", "true"]), json!(["true-vs-sleep"]));
        assert_eq!(workloads(&["--baseline", "sh a", "--", "/bin/sh", "b"]), json!(["sh"]), "one program");
        assert_eq!(workloads(&["--baseline", "a", "--name", "mine", "--", "b"]), json!(["mine"]));
        let long = format!("{}-{}", "a".repeat(17), "b".repeat(30));
        assert_eq!(workloads(&["--baseline", "c", "--", &long]), json!([format!("{}-vs-c", "a".repeat(17))]));
    }

    #[test]
    fn a_variable_is_recorded_by_its_value_or_as_a_reference_if_it_is_a_secret() {
        let read = |text: &str| read_variable(text, |name| (name != "NOT_SET").then(|| "found".into()));
        assert_eq!(read("A=b=c"), Ok(("A".to_owned(), json!("b=c"))));
        assert_eq!(read("HOME"), Ok(("HOME".to_owned(), json!("found"))));
        assert_eq!(read("API_TOKEN"), Ok(("API_TOKEN".to_owned(), json!({"from_env": "API_TOKEN"}))));
        for secret in ["Bearer canary", "http://me:canary@h", "http://h/?api_key=canary", "sk-canary"] {
            let found = read_variable("PLACE", |_| Some(secret.into()));
            assert_eq!(found, Ok(("PLACE".to_owned(), json!({"from_env": "PLACE"}))), "{secret}");
            let given = read(&format!("PLACE={secret}")).expect_err("refused").to_string();
            assert!(given.contains("holds a secret") && !given.contains("canary"), "{given}");
        }
        for name in [
            "PGPASSWORD",
            "MYSQL_PWD",
            "OPENAI_KEY",
            "REDISCLI_AUTH",
            "my_pass",
            "COOKIE",
            "SSHPASS",
            "GITHUB_PAT",
            "MYTOKEN",
            "MYPW",
        ] {
            assert_eq!(read(name), Ok((name.to_owned(), json!({"from_env": name}))));
            assert!(read(&format!("{name}=canary")).is_err(), "{name}");
        }
        assert!(read("DB_PASSWORD=20261234").is_err() && read("API_TOKEN=0123456789").is_err(), "a number may be a secret");
        for plain in ["PWD", "SORT_KEY=3", "MAX_TOKEN=8", "AUTHOR=me", "KEYBOARD=de", "PASS_COUNT=2"] {
            let (name, value) = read(plain).expect("no secret");
            assert!(value.is_string(), "{name}: {value}");
        }
        let refused = |text| read(text).expect_err("refused").to_string();
        assert!(refused("NOT_SET").contains("names a variable that is not set"));
        let secret = refused("API_TOKEN=hunter22");
        assert!(secret.contains("holds a secret") && !secret.contains("hunter22"), "{secret}");
        let misplaced = refused("sk-hunter22");
        assert!(misplaced.contains("NAME=VALUE") && !misplaced.contains("hunter22"), "{misplaced}");
    }

    #[test]
    fn options_have_limits() {
        let refused = |arguments: &[&str]| {
            let all = [&["exec"], arguments, &["--", "true"]].concat();
            Program::try_parse_from(all).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for wrong in [["--runs", "0"], ["--runs", "1001"], ["--times", "0"], ["--timeout", "soon"], ["--instructions", "many"]] {
            assert!(refused(&wrong).contains(wrong[0]), "{wrong:?}");
        }
        assert!(refused(&["--max-regression", "5"]).contains("--baseline"), "nothing is compared");
        for wrong in ["-1", "0", "x", "100.1", "150", "1000", "NaN"] {
            let told = refused(&["--baseline", "a", &format!("--max-regression={wrong}")]);
            assert!(told.contains("--max-regression") && told.contains("above 0 and up to 100"), "{told}");
        }
        assert_eq!([parse_percent("5%"), parse_percent("2.5")], [Ok(5.0), Ok(2.5)]);
    }

    #[test]
    fn a_failure_is_told_in_the_words_of_a_command_line() {
        let hint = |code| reword(Failure::new(code, "m").hint("h")).hint.unwrap_or_default();
        assert!(hint(ErrorCode::ProgramAbsent).contains("sh -c"));
        assert!(hint(ErrorCode::NoValidTrial).contains("--timeout") && hint(ErrorCode::NoValidTrial).ends_with("\nh"));
        assert_eq!(hint(ErrorCode::Drift), "h");
        let other = reword(Failure::new(ErrorCode::OtherSource, "m").hint("`assay bench` with the same options"));
        assert_eq!(other.hint.as_deref(), Some("`assay exec` with the same options"));
    }
}
