//! `assay import results`: freezes and signs the results of another tool as foreign evidence.

use std::path::{Path, PathBuf};

use assay_foreign::{MAX_RESULT_BYTES, MAX_RESULT_FILES, RESULT_FORMATS};
use assay_import::{FoundFile, describe_results, freeze, key_artifact, restore, sign};
use assay_manifest::{Count, ForeignEvidence, IdError, Instant, Name, NotRead, Role, RunId};
use assay_runner::{Config, KeyRing, LocalKeys};
use assay_runs::RunStore;
use assay_stage::{Clock, ErrorCode, Exit, Failure, first_names, key_password};
use assay_store::Store;
use serde_json::json;

use crate::commands::foreign_evidence::{evidence_lines, id_lines, print_json};
use crate::commands::import::read_plain;
use crate::commands::run::make_missing_keys;
use crate::output;

/// The depth to which folders are searched.
const MAX_DEPTH: usize = 12;

/// The reason for leaving out what a folder has beside folders and files.
const NO_PLAIN_FILE: &str = "it is a link or no plain file";

/// The most links that are named if nothing can be imported.
const SHOWN_LINKS: usize = 10;

/// Import the results of another tool as foreign evidence: freeze its files by digest, read its numbers, and sign both. Only the importer
/// vouches for them.
#[derive(clap::Args)]
#[command(after_help = formats())]
pub(crate) struct ImportResults {
    /// A file that the tool wrote, or a folder of them
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// The name of the evidence in the store. If it is that of evidence of the same files, their bytes are stored again [default: the format and the time]
    #[arg(long, value_name = "NAME", value_parser = evidence_name)]
    name: Option<RunId>,
    /// Read the files, and store nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the evidence as one JSON document
    #[arg(long)]
    json: bool,
}

impl ImportResults {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let (files, links) = find_files(&self.path)?;
        let at = Clock.now();
        // The files are judged before keys and a store are made.
        let (mut evidence, samples) = describe_results(&files, at).inspect_err(|_| {
            if !links.is_empty() {
                output::diagnostic(format!("left out, because {NO_PLAIN_FILE}: {}", first_names(&links, SHOWN_LINKS)));
            }
        })?;
        evidence.left_out.extend(links.into_iter().map(|field| NotRead {
            field,
            why: NO_PLAIN_FILE.to_owned(),
            count: Count(1),
        }));
        evidence.left_out.sort();
        if self.dry_run {
            return self.print_dry_run(&evidence);
        }
        let name = self.name.clone().map_or_else(|| default_name(&evidence, at), Ok)?;
        let place = RunStore { store: self.store.clone(), trust: Vec::new() };
        let keys = import_key()?;
        let store = Store::open(&place.store_uri()?)?;
        if let Some((reference, known)) = restore(&store, &name, &files, &evidence, &samples)? {
            let is_same = known.rows == evidence.rows && known.remarks == evidence.remarks;
            if !is_same {
                output::diagnostic(format!(
                    "the foreign evidence `{name}` is of the same files and states other numbers, labels or remarks than this version of Assay reads: to \
                     import these, state another name with `--name`"
                ));
            }
            if self.json {
                print_json(&known, &json!({"name": name, "evidence": reference, "stored": true}))?;
            } else {
                let what = if is_same { "nothing new" } else { "nothing was imported" };
                output::line(format!(
                    "{what}: the foreign evidence `{name}` is of the same files, and the store has their bytes"
                ));
                id_lines(&name, &reference, &place.store_uri()?).into_iter().for_each(output::line);
            }
            return Ok(Exit::Done);
        }
        let key = keys.public(Role::Import)?.to_pem();
        evidence.key = key_artifact(&key);
        freeze(&store, &files, &evidence, &samples, &key)?;
        let reference = sign(&store, &keys, &name, evidence.clone())?;
        if self.json {
            print_json(&evidence, &json!({"name": name, "evidence": reference, "stored": true}))?;
            return Ok(Exit::Done);
        }
        evidence_lines(&evidence).into_iter().for_each(output::line);
        id_lines(&name, &reference, &place.store_uri()?).into_iter().for_each(output::line);
        Ok(Exit::Done)
    }

    fn print_dry_run(&self, evidence: &ForeignEvidence) -> Result<Exit, Failure> {
        if self.json {
            print_json(evidence, &json!({"name": self.name, "evidence": null, "stored": false}))?;
        } else {
            evidence_lines(evidence).into_iter().for_each(output::line);
            output::line("nothing was stored: this was a dry run");
        }
        Ok(Exit::Done)
    }
}

/// Parses the name of evidence, which has the form of a run id and is none.
fn evidence_name(text: &str) -> Result<RunId, IdError> {
    text.parse::<Name>()?;
    text.parse()
}

/// Returns the unlocked key of the role `import`, which is made at first use.
fn import_key() -> Result<KeyRing, Failure> {
    let (config, password) = (Config::find()?, key_password());
    let password = password.as_encoded_bytes();
    make_missing_keys(&config, password)?;
    Ok(LocalKeys::new(&config).unlock(&[Role::Import], password)?)
}

/// Returns the name of evidence without one: its format, the time, and some digits of its files.
fn default_name(evidence: &ForeignEvidence, at: Instant) -> Result<RunId, Failure> {
    let digits: String = at.to_seconds().chars().filter(char::is_ascii_digit).collect();
    let files: String = evidence.files.iter().map(|file| file.artifact.digest.hex()).collect();
    let digest = assay_manifest::Digest::compute(files.as_bytes()).hex();
    let name = format!("{}-{digits}-{}", evidence.format, digest.get(..4).unwrap_or_default());
    name.parse().map_err(|error| Failure::new(ErrorCode::Internal, format!("`{name}` is no name")).because(&error))
}

/// Returns the files of a path, in the order of their paths, and the paths of links and of what is no plain file. Paths are relative to the given one.
fn find_files(path: &Path) -> Result<(Vec<FoundFile>, Vec<String>), Failure> {
    let mut found = Vec::new();
    let mut names = Names::default();
    if path.is_dir() {
        list(path, String::new(), 0, &mut names)?;
        names.files.sort();
        let mut left = MAX_RESULT_BYTES;
        for name in names.files {
            let bytes = read(&path.join(&name), left)?;
            left = left.saturating_sub(bytes.len() as u64);
            found.push(FoundFile { path: name, bytes });
        }
    } else {
        let bytes = read(path, MAX_RESULT_BYTES)?;
        let name = path.file_name().and_then(std::ffi::OsStr::to_str).ok_or_else(|| no_text(path))?;
        found.push(FoundFile { path: name.to_owned(), bytes });
    }
    Ok((found, names.links))
}

/// The paths of a folder's files, and of its links and what is no plain file.
#[derive(Default)]
struct Names {
    files: Vec<String>,
    links: Vec<String>,
}

fn list(folder: &Path, prefix: String, depth: usize, names: &mut Names) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", folder.display())).because(&error)
    };
    if depth > MAX_DEPTH {
        return Err(Failure::new(
            ErrorCode::TooManyFiles,
            format!("`{}` is below more than {MAX_DEPTH} folders", folder.display()),
        ));
    }
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        let name = entry.file_name().into_string().map_err(|_| no_text(&entry.path()))?;
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        // A link may lead out of the folder, or round in circles.
        if kind.is_dir() {
            list(&entry.path(), name, depth + 1, names)?;
        } else if kind.is_file() {
            names.files.push(name);
        } else {
            names.links.push(name);
        }
        if names.files.len() + names.links.len() > MAX_RESULT_FILES {
            return Err(Failure::new(
                ErrorCode::TooManyFiles,
                format!("the folder has more than {MAX_RESULT_FILES} files and links"),
            ));
        }
    }
    Ok(())
}

fn no_text(path: &Path) -> Failure {
    Failure::new(ErrorCode::Unreadable, format!("the name of `{}` is not UTF-8", path.display()))
}

/// Reads a regular file of at most `limit` bytes.
fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Failure> {
    let bytes = read_plain(path, limit)?;
    if bytes.len() as u64 > limit {
        let most = MAX_RESULT_BYTES >> 20;
        return Err(Failure::new(ErrorCode::ForeignResults, format!("the files are larger than {most} MiB together"))
            .hint("name the files that state results, or a folder of these alone"));
    }
    Ok(bytes)
}

fn formats() -> String {
    let line =
        |format: &&'static assay_foreign::ResultFormat| format!("  {:20} {} ({})", format.name, format.tool, format.versions);
    format!("Formats:\n{}", RESULT_FORMATS.iter().map(line).collect::<Vec<_>>().join("\n"))
}
