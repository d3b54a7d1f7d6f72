//! `assay import`: workloads and a pipeline from the definition of another tool.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use assay_foreign::{FORMATS, Import as Imported, ImportError, ImportOptions, Outcome, Row, Source, import, recognise};
use assay_report::{counted, shell_word};
use assay_runner::ImportedOriginal;
use assay_spec::{MAX_OBJECT_BYTES, Problem, Scenario};
use assay_stage::{ErrorCode, Exit, Failure};
use serde_json::json;

use crate::commands::build_image::{Builder, BuiltImage, Recipe, build, repository};
use crate::commands::definitions;
use crate::commands::import_results::ImportResults;
use crate::commands::repository_root;
use crate::output;

/// The most files of a folder.
const MAX_FILES: usize = 1_000;

/// The most entries of a folder that are named as left out.
const MAX_LEFT_OUT: usize = 10;

/// Write workloads and a pipeline from a definition or a command line of another tool, and print what became of each of its fields.
/// If a field is refused, nothing is written, and the exit code is 10.
#[derive(clap::Args)]
#[command(after_help = formats(), args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Import {
    #[command(subcommand)]
    results: Option<Of>,
    /// A file, or a folder, of which each file is imported that a format recognises
    #[arg(value_name = "PATH", required_unless_present = "command")]
    path: Option<PathBuf>,
    /// The folder that gets `pipelines` and `workloads` [default: the root of the Git repository, outside of one the working folder]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// The model, in place of any that the definition names
    #[arg(long, value_name = "NAME", value_parser = model)]
    model: Option<String>,
    /// The address of the endpoint, in place of any that the definition names
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The numbers of tokens, such as `D(128,256)`, if the definition states none
    #[arg(long, value_name = "SCENARIO", value_parser = lengths)]
    lengths: Option<String>,
    /// The part of the definition that is imported, if it has several with names
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Build the image that the definition describes, push it to this repository, and write its digest into the workload. buildah, podman or docker
    /// builds it: the first of them that `PATH` has, with settings and logins of its own
    #[arg(long, value_name = "REPOSITORY", value_parser = repository, conflicts_with = "dry_run")]
    build_image: Option<String>,
    /// The program that builds the image
    #[arg(long, value_name = "PROGRAM", value_enum, requires = "build_image")]
    builder: Option<Builder>,
    /// Write what can be written, without the fields that are refused. Otherwise one of them means that nothing is written, and exit
    /// code 10
    #[arg(long)]
    partial: bool,
    /// Write nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite files that differ
    #[arg(long)]
    force: bool,
    /// Print the fields and the files as one JSON document
    #[arg(long)]
    json: bool,
    /// The command line of a tool, after `--`; put no key into it that others may not see
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "path")]
    command: Vec<String>,
}

/// The imports that are not of definitions.
#[derive(clap::Subcommand)]
enum Of {
    /// Import the results of another tool as foreign evidence
    Results(ImportResults),
}

/// An imported file or command line, with its name.
struct Found {
    source: Option<String>,
    /// The bytes of a file.
    bytes: Vec<u8>,
    imported: Imported,
}

/// An entry of a folder that is not imported.
struct LeftOut {
    path: String,
    why: &'static str,
}

/// The definitions that a command names.
#[derive(Default)]
struct Definitions {
    found: Vec<Found>,
    left_out: Vec<LeftOut>,
}

impl Import {
    pub(crate) fn run(mut self) -> Result<Exit, Failure> {
        if let Some(Of::Results(results)) = self.results.take() {
            return results.run();
        }
        let Definitions { mut found, left_out } = self.import()?;
        let mut files = joined_files(&found)?;
        let refused: usize = found.iter().map(|found| found.imported.count(Outcome::Refused)).sum();
        let is_refused = (refused > 0 && !self.partial) || files.is_empty();
        let is_written = !is_refused && !self.dry_run;
        let folder = self.folder();
        if is_written && !self.force {
            let before = if self.command.is_empty() { "" } else { "; write either before the `--`" };
            let hint = format!("`--force` overwrites it; `--to FOLDER` writes elsewhere{before}");
            definitions::refuse_others(files.iter().map(|(path, text)| (folder.join(path), text.as_bytes())), &hint)?;
        }
        let mut built = None;
        if let Some(repository) = self.build_image.as_ref().filter(|_| is_written) {
            // Nothing is written before the registry has the image.
            let image = build(&Recipe::find(&files)?, repository, self.builder)?;
            self.name_image(&mut found, &image.reference)?;
            files = joined_files(&found)?;
            built = Some(image);
        }
        if is_written {
            for (path, text) in &files {
                definitions::write(&folder.join(path), text.as_bytes())?;
            }
        }
        self.print(&Definitions { found, left_out }, &folder, &files, (is_written, built))?;
        if is_refused {
            output::diagnostic(nothing_written(refused, !files.is_empty()));
            return Ok(Exit::Definition);
        }
        Ok(Exit::Done)
    }

    fn options(&self) -> ImportOptions {
        let Self { model, url, lengths, only, .. } = self;
        let [model, url, lengths, only] = [model, url, lengths, only].map(Clone::clone);
        ImportOptions { model, url, lengths, only, keeps_grade: true, ..ImportOptions::default() }
    }

    /// Imports files again, with the image that was built.
    fn name_image(&self, found: &mut [Found], image: &str) -> Result<(), Failure> {
        let options = ImportOptions { image: Some(image.to_owned()), ..self.options() };
        for Found { source, bytes, imported } in found {
            let Some(name) = source else { continue };
            *imported = import(&Source::File { name, bytes }, &options).map_err(|error| failure(&format!("`{name}`"), error))?;
        }
        Ok(())
    }

    fn import(&self) -> Result<Definitions, Failure> {
        let options = self.options();
        let Some(path) = &self.path else {
            let imported =
                import(&Source::Command(&self.command), &options).map_err(|error| match quoted_command(&self.command) {
                    Some(line) => failure("the command line", error)
                        .hint(format!("a command line comes word by word, without quotes around it: `assay import -- {line}`")),
                    None => failure("the command line", error),
                })?;
            let found = vec![Found { source: None, bytes: Vec::new(), imported }];
            return Ok(Definitions { found, left_out: Vec::new() });
        };
        if path.is_dir() {
            return import_folder(path, &options);
        }
        let name = path.display().to_string();
        let bytes = read_plain(path, MAX_OBJECT_BYTES as u64)?;
        let imported = import(&Source::File { name: &name, bytes: &bytes }, &options);
        let imported = imported.map_err(|error| failure(&format!("`{name}`"), error))?;
        Ok(Definitions { found: vec![Found { source: Some(name), bytes, imported }], left_out: Vec::new() })
    }

    /// Returns the folder that gets the files.
    fn folder(&self) -> PathBuf {
        let here = || PathBuf::from(".");
        self.to.clone().or_else(|| repository_root::way_up(&here())).unwrap_or_else(here)
    }

    fn print(
        &self,
        Definitions { found, left_out }: &Definitions,
        folder: &Path,
        files: &BTreeMap<String, String>,
        (is_written, built): (bool, Option<BuiltImage>),
    ) -> Result<(), Failure> {
        if self.json {
            let document: Vec<_> = found
                .iter()
                .map(|Found { source, imported, .. }| {
                    json!({
                        "source": source, "format": imported.format, "fields": imported.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
                        "commands": imported.commands,
                    })
                })
                .collect();
            let files: Vec<_> = files.iter().map(|(path, text)| json!({"path": path, "text": text})).collect();
            let image = built.map(|built| json!({"reference": built.reference, "builder": built.builder.name()}));
            let shown: Vec<_> =
                left_out.iter().take(MAX_LEFT_OUT).map(|LeftOut { path, why }| json!({"path": path, "reason": why})).collect();
            return output::json(&json!({
                "imports": document, "files": files, "written": is_written, "image": image,
                "left_out": {"count": left_out.len(), "first": shown},
            }));
        }
        for found in found {
            output::lines(table(found));
        }
        for line in left_out_lines(left_out) {
            output::line(format!("left out     {line}"));
        }
        if let Some(BuiltImage { reference, builder }) = built {
            output::line(format!("pushed       {reference}, built by {}", builder.name()));
        }
        for path in files.keys().filter(|_| is_written || self.dry_run) {
            output::line(format!("{}  {}", if is_written { "written    " } else { "not written" }, folder.join(path).display()));
        }
        if is_written {
            repository_root::note(folder).into_iter().for_each(output::diagnostic);
            output::diagnostic("next:");
            commands_to_root(folder).into_iter().for_each(output::diagnostic);
            output::diagnostic("  assay validate");
            for command in found.iter().flat_map(|found| &found.imported.commands) {
                output::diagnostic(format!("  {command}"));
            }
        }
        Ok(())
    }
}

/// Imports each file of a folder that a format recognises.
fn import_folder(folder: &Path, options: &ImportOptions) -> Result<Definitions, Failure> {
    let mut definitions = Definitions::default();
    for path in entries(folder)? {
        let name = path.display().to_string();
        match import_entry(&path, &name, options)? {
            Ok(found) => definitions.found.push(found),
            Err(why) => definitions.left_out.push(LeftOut { path: name, why }),
        }
    }
    if definitions.found.is_empty() {
        let causes = left_out_lines(&definitions.left_out);
        return Err(Failure { causes, ..failure(&format!("`{}`", folder.display()), ImportError::Unknown) });
    }
    Ok(definitions)
}

/// Imports an entry of a folder. Returns the reason if it is left out: that no format recognises it, or that it is no file that can be read.
fn import_entry(path: &Path, name: &str, options: &ImportOptions) -> Result<Result<Found, &'static str>, Failure> {
    if path.is_dir() {
        return Ok(Err("a folder in the folder"));
    }
    let bytes = match read_plain(path, MAX_OBJECT_BYTES as u64) {
        Err(_) if path.is_symlink() && leads_nowhere(path) => return Ok(Err("a link that leads to no file")),
        Err(_) if !is_document(path) || !path.is_file() => return Ok(Err("it cannot be read")),
        read => read?,
    };
    match import(&Source::File { name, bytes: &bytes }, options) {
        Ok(imported) => Ok(Ok(Found { source: Some(name.to_owned()), bytes, imported })),
        Err(_) if bytes.len() > MAX_OBJECT_BYTES => Ok(Err("it is larger than a definition")),
        Err(ImportError::Syntax(_)) if is_document(path) => Ok(Err("it cannot be read as YAML or JSON")),
        Err(ImportError::Syntax(_) | ImportError::Unknown) => Ok(Err("it is of no format that can be imported")),
        Err(error) => Err(failure(&format!("`{name}`"), error)),
    }
}

fn leads_nowhere(path: &Path) -> bool {
    path.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns a line for each of the first entries that are left out, and the number of the others.
fn left_out_lines(left_out: &[LeftOut]) -> Vec<String> {
    let first = left_out.iter().take(MAX_LEFT_OUT).map(|LeftOut { path, why }| format!("{path}: {why}"));
    let more = left_out.len().saturating_sub(MAX_LEFT_OUT);
    first.chain((more > 0).then(|| format!("{more} more, {} in all", left_out.len()))).collect()
}

/// The most lines about a file that runs as it is; fields that are not taken over exactly, and defaults for absent ones, are always shown.
const MAX_FOLDED_LINES: usize = 12;

/// Returns what became of the fields of a file that runs as it is: all of them if they are few, or else all that were not taken over exactly as the file
/// states them.
/// `path` is the file as the user named it.
fn folded_table(path: &str, imported: &Imported) -> Vec<String> {
    let is_always_shown = |row: &&Row| row.outcome != Outcome::Mapped || row.field.ends_with("(absent)");
    let is_whole = imported.rows.len() + 2 <= MAX_FOLDED_LINES;
    let shown: Vec<&Row> = imported.rows.iter().filter(|row| is_whole || is_always_shown(row)).collect();
    let width = shown.iter().map(|row| row.field.len()).max().unwrap_or(0);
    let line = |row: &&Row| {
        let parts = [row.to.as_deref(), row.note.as_deref()];
        let treatment = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
        format!("  {:width$}  {:27}  {treatment}", row.field, row.outcome.as_str()).trim_end().to_owned()
    };
    let counts = Outcome::ALL.map(|outcome| (imported.count(outcome), outcome));
    let counts: Vec<String> =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, outcome)| format!("{count} {outcome}")).collect();
    let rest = if is_whole { String::new() } else { format!("; all fields: assay import {} --dry-run", shell_word(path)) };
    let head = format!("{path}: {}, imported in memory", imported.title);
    let foot = format!("  {}{rest}", counts.join(", "));
    [head].into_iter().chain(shown.iter().map(line)).chain([foot]).collect()
}

/// Prints what became of the fields of another tool's definition that runs as it is, if there is one.
pub(crate) fn show_original(path: &str, original: Option<&ImportedOriginal>) {
    let lines = original.into_iter().flat_map(|original| folded_table(path, &original.import));
    lines.for_each(output::diagnostic);
}

/// Describes why nothing was written. `--partial` helps only if there are files without the refused fields.
fn nothing_written(refused: usize, has_rest: bool) -> String {
    let refused = counted(refused as u64, "field");
    if has_rest {
        format!("nothing was written: {refused} refused; `--partial` writes the rest")
    } else {
        format!("nothing was written: {refused} refused, and without the refused fields there is no whole definition")
    }
}

/// Returns the commands that lead to the folder from which a plan finds the files: below the root of a repository, they are copied there first.
fn commands_to_root(folder: &Path) -> Vec<String> {
    let way_up = repository_root::way_up(folder);
    let root = way_up.as_ref().map_or_else(|| folder.to_owned(), |up| folder.join(up));
    let root = if is_current(&root) { PathBuf::from(".") } else { root };
    let word = |path: &Path| shell_word(&path.display().to_string());
    let copy = way_up.map(|_| {
        let [pipelines, workloads] = ["pipelines", "workloads"].map(|name| word(&folder.join(name)));
        format!("  cp -R {pipelines} {workloads} {}", word(&root))
    });
    let change = (root != Path::new(".")).then(|| format!("  cd {}", word(&root)));
    copy.into_iter().chain(change).collect()
}

/// Returns true if a folder is the one in which the command runs.
fn is_current(folder: &Path) -> bool {
    let current = std::env::current_dir().and_then(|current| current.canonicalize());
    matches!((folder.canonicalize(), current), (Ok(folder), Ok(current)) if folder == current)
}

/// Returns the beginning of a command line that is given as one word, because it has quotes around it: the words of the command that
/// recognise its format. The others may hold credentials.
fn quoted_command(words: &[String]) -> Option<String> {
    let [line] = words else { return None };
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let format = recognise(&Source::Command(&words))?;
    Some(format!("{} ...", format.recognised_by.split('`').nth(1)?))
}

/// Returns the table of the fields of an import, with the number of each outcome.
fn table(found: &Found) -> String {
    let Found { source, imported, .. } = found;
    let mut text = match source {
        Some(source) => format!("{source}: {}\n", imported.title),
        None => format!("{}\n", imported.title),
    };
    let width = imported.rows.iter().map(|row| row.field.len()).max().unwrap_or(0);
    for row in &imported.rows {
        let to = row.to.as_ref().map(|to| format!("  {to}")).unwrap_or_default();
        let _ = writeln!(text, "  {:width$}  {:27}{to}", row.field, row.outcome.as_str());
        if let Some(note) = &row.note {
            let _ = writeln!(text, "      {note}");
        }
    }
    let counts = Outcome::ALL.map(|outcome| format!("{} {outcome}", imported.count(outcome)));
    text + &counts.join(", ")
}

/// Returns the files of all imports by their paths. Two of one name are refused: one would replace the other.
fn joined_files(found: &[Found]) -> Result<BTreeMap<String, String>, Failure> {
    let mut files = BTreeMap::new();
    for file in found.iter().flat_map(|found| &found.imported.files) {
        if files.insert(file.path.clone(), file.text.clone()).is_some_and(|known| known != file.text) {
            let message = format!("two definitions would be written to `{}`", file.path);
            return Err(Failure::new(ErrorCode::FileDiffers, message)
                .hint("give them names that differ, or import each to a folder of its own"));
        }
    }
    Ok(files)
}

/// Returns the problem of a file that another tool defines; `None` if it is none that can be imported.
pub(crate) fn foreign_problem(path: &str, bytes: &[u8]) -> Option<Problem> {
    let format = recognise(&Source::File { name: path, bytes })?;
    let problem = Problem::for_file(path, format!("this is {}, and no definition of Assay", format.title));
    Some(problem.with_hint(format!("`assay import {path}` writes workloads and a pipeline from it")))
}

fn failure(name: &str, error: ImportError) -> Failure {
    match error {
        ImportError::Syntax(problems) => {
            let failure = Failure::new(ErrorCode::ForeignFormat, format!("{name} cannot be read as YAML or JSON"));
            let cause = |problem: &Problem| match problem.line {
                0 => problem.message.clone(),
                line => format!("line {line}: {}", problem.message),
            };
            let hint = problems.iter().find_map(|problem| problem.hint.clone());
            Failure { causes: problems.iter().map(cause).collect(), hint, ..failure }
        }
        ImportError::Unknown => Failure::new(ErrorCode::ForeignFormat, format!("{name} is of no format that can be imported"))
            .hint(format!("these are: {}", FORMATS.map(|format| format.recognised_by).join("; "))),
        ImportError::TooLarge(_) => Failure::new(ErrorCode::ForeignFormat, format!("{name}: {error}")),
    }
}

/// Reads a regular file, and no more of it than shows that it is too large.
pub(crate) fn read_plain(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", path.display())).because(&error);
    // Pipes never end, and opening one may wait for its writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(Failure::new(ErrorCode::Unreadable, format!("`{}` is not a plain file", path.display())));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Returns true for a file that is expected to be imported by its ending. Any other is imported if it is recognised by its content.
fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known))
}

/// Returns the entries of a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", folder.display())).because(&error)
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        found.push(entry.map_err(unreadable)?.path());
        if found.len() > MAX_FILES {
            return Err(Failure::new(ErrorCode::TooManyFiles, format!("the folder has more than {MAX_FILES} files")));
        }
    }
    found.sort();
    Ok(found)
}

fn model(text: &str) -> Result<String, String> {
    let accepted = !text.is_empty() && text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if accepted { Ok(text.to_owned()) } else { Err("a short text without spaces".to_owned()) }
}

fn lengths(text: &str) -> Result<String, String> {
    text.parse::<Scenario>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn formats() -> String {
    let line =
        |format: &&'static assay_foreign::Format| format!("  {:20} {} ({})", format.name, format.recognised_by, format.versions);
    format!("Formats:\n{}", FORMATS.iter().map(line).collect::<Vec<_>>().join("\n"))
}
