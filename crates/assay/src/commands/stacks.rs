//! `assay stacks`: writes lock files of software stacks, and a pipeline that measures a workload with each of them.

mod resolver;
mod selection;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use assay_manifest::{Digest, MAX_NAME, Name};
use assay_report::counted;
use assay_spec::{MAX_LOCK_BYTES, Workload};
use assay_stage::{ErrorCode, Exit, Failure};
use serde_json::{Value, json};

use crate::commands::definitions;
use crate::commands::stacks::resolver::Uv;
use crate::commands::stacks::selection::{Method, Request, Selection, Stack, VariedPackage, select};
use crate::output;

/// The default of `--count`, as that of Thoth's Dependency Monkey.
const COUNT: u32 = 3;

/// The most stacks: a pipeline has at most as many variants.
const MAX_STACKS: u32 = 200;

/// The most files of `--locks`.
const MAX_FILES: usize = 1_000;

/// The skipped stacks that are printed; the report has all.
const SHOWN_SKIPPED: usize = 5;

/// The notes below the options.
const NOTES: &str = "The stacks are written to `stacks/NAME/`, with `report.json`, and the pipeline to `pipelines/NAME.yaml`. Commit them, \
run the pipeline with `assay run`, and order the stacks with `assay rank`. The same seed gives the same stacks as long as the index has the same packages.";

/// Write the lock files of several software stacks of Python packages, and a pipeline that measures a workload with each.
#[derive(clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Stacks {
    /// The requirements, as pip and uv read them
    #[arg(value_name = "REQUIREMENTS", required_unless_present = "locks")]
    requirements: Option<PathBuf>,
    /// The workload that is measured with each stack
    #[arg(long, value_name = "NAME")]
    workload: Name,
    /// Take the lock files `*.txt` of this folder, and resolve nothing
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["requirements", "method", "package", "seed", "count"])]
    locks: Option<PathBuf>,
    /// The rule by which stacks are selected
    #[arg(long, value_name = "METHOD", value_enum, default_value = "random")]
    method: Method,
    /// The number of stacks [default: 3; with `--method combinations`, all of them up to 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_STACKS)))]
    count: Option<u32>,
    /// The seed of the selection [default: the time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// A package whose versions vary, `NAME` or `NAME==VERSION,VERSION`, such as `numpy==1.26.*,2.0.1`. Repeatable [default: all]
    #[arg(long, value_name = "PACKAGE", required_if_eq("method", "combinations"))]
    package: Vec<VariedPackage>,
    /// The Python interpreter that the stacks are for
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    interpreter: String,
    /// The name of the set, of its folder and of its pipeline [default: WORKLOAD-stacks]
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
    /// The trials of each stack
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    trials: u32,
    /// The folder that the files are written to: the root of a repository
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    to: PathBuf,
    /// Overwrite files that differ
    #[arg(long)]
    force: bool,
    /// Select the stacks, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
}

/// A stack with its name.
struct NamedStack<'a> {
    name: Name,
    stack: &'a Stack,
}

impl Stacks {
    pub(crate) fn run(&self) -> Result<Exit, Failure> {
        self.check_workload()?;
        let set = self.set_name()?;
        let count = self.count.unwrap_or(if self.method == Method::Combinations { MAX_STACKS } else { COUNT }) as usize;
        let seed = self.seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()));
        let requirements =
            self.requirements.as_ref().filter(|_| self.locks.is_none()).map(|path| read_requirements(path)).transpose()?;
        let (selection, resolver) = match (&self.locks, &self.requirements) {
            (Some(folder), _) => (recorded(folder)?, None),
            (None, Some(requirements)) => {
                let mut uv = Uv::find(requirements, &self.interpreter)?;
                let request = Request { method: self.method, count, seed, packages: &self.package };
                (select(&request, &mut uv)?, Some(uv.version))
            }
            (None, None) => return Err(Failure::new(ErrorCode::NoStack, "neither requirements nor lock files are named")),
        };
        if selection.stacks.is_empty() {
            return Err(none_made(&selection));
        }
        let named = name_stacks(&selection.stacks)?;
        let report = self.report(&set, &named, &selection, (count, seed), resolver.as_deref().zip(requirements));
        if !self.dry_run {
            self.write_files(&set, &named, &report, resolver.is_some())?;
        }
        if self.json {
            output::json(&report)?;
        } else {
            self.print(&set, &named, &selection, resolver.map(|_| seed));
        }
        Ok(Exit::Done)
    }

    /// Refuses a workload that is not there: the pipeline would not be valid.
    fn check_workload(&self) -> Result<(), Failure> {
        if Workload::paths_of(&self.workload).iter().any(|path| self.to.join(path).is_file()) {
            return Ok(());
        }
        let path = Workload::path_of(&self.workload);
        let message = format!("there is no workload `{}` in `{}`", self.workload, self.to.display());
        Err(Failure::new(ErrorCode::FileMissing, message)
            .hint(format!("it would be defined in `{path}`; docs/stacks.md has an example")))
    }

    fn set_name(&self) -> Result<Name, Failure> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let text = format!("{}-stacks", self.workload);
        text.parse().map_err(|error| Failure::from_error(ErrorCode::NoStack, &error).hint("choose a shorter name with `--name`"))
    }

    fn report(
        &self,
        set: &Name,
        named: &[NamedStack<'_>],
        selection: &Selection,
        (count, seed): (usize, u64),
        resolved: Option<(&str, Digest)>,
    ) -> Value {
        let is_resolved = resolved.is_some();
        let requirements = resolved.map(|(_, digest)| json!({"path": self.requirements, "digest": digest}));
        let stack = |named: &NamedStack<'_>| {
            let packages =
                named.stack.packages.iter().map(|locked| (locked.package.name.clone(), locked.package.version.clone()));
            json!({
                "name": named.name,
                "change": named.stack.change,
                "lock": lock_path(set, &named.name),
                "digest": Digest::compute(named.stack.lock.as_bytes()),
                "packages": packages.collect::<BTreeMap<_, _>>(),
            })
        };
        json!({
            "workload": self.workload,
            "method": if is_resolved { self.method.name() } else { "locks" },
            "seed": is_resolved.then_some(seed),
            "resolver": resolved.map(|(resolver, _)| resolver),
            "exclude_newer": std::env::var("UV_EXCLUDE_NEWER").ok().filter(|_| is_resolved),
            "interpreter": self.interpreter,
            "requirements": requirements,
            "varied": self.package.iter().map(|package| json!({"name": package.name, "versions": package.patterns})).collect::<Vec<_>>(),
            "requested": is_resolved.then_some(count),
            "made": named.len(),
            "duplicates": selection.duplicates,
            "skipped": selection.skipped.iter().map(|skipped| json!({"change": skipped.change, "reason": skipped.reason})).collect::<Vec<_>>(),
            "stacks": named.iter().map(stack).collect::<Vec<_>>(),
        })
    }

    fn write_files(&self, set: &Name, named: &[NamedStack<'_>], report: &Value, is_resolved: bool) -> Result<(), Failure> {
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for NamedStack { name, stack } in named {
            files.insert(self.to.join(lock_path(set, name)), stack.lock.clone().into_bytes());
        }
        files.insert(self.to.join(format!("stacks/{set}/report.json")), definitions::written(report));
        files.insert(self.to.join(pipeline_path(set)), definitions::written(&self.pipeline(set, named, is_resolved)));
        if !self.force {
            let all = files.iter().map(|(path, bytes)| (path.clone(), bytes.as_slice()));
            definitions::refuse_others(all, "`--force` overwrites it, `--name` makes another set")?;
        }
        files.iter().try_for_each(|(path, bytes)| definitions::write(path, bytes))
    }

    /// Returns the pipeline: one variant for each stack, and the trials interleaved.
    fn pipeline(&self, set: &Name, named: &[NamedStack<'_>], is_resolved: bool) -> Value {
        let installer = if is_resolved { "uv" } else { "pip" };
        let variant = |named: &NamedStack<'_>| {
            json!({
                "name": named.name,
                "description": named.stack.change,
                "python": {"lock": lock_path(set, &named.name), "installer": installer, "interpreter": self.interpreter},
            })
        };
        json!({
            "apiVersion": assay_spec::API_VERSION,
            "kind": "Pipeline",
            "metadata": {"name": set, "description": format!("{} with {}, written by `assay stacks`.", self.workload, counted(named.len() as u64, "software stack"))},
            "spec": {
                "intent": "exploratory",
                "workloads": [self.workload],
                "targets": [{"name": "local", "kind": "host"}],
                "variants": named.iter().map(variant).collect::<Vec<_>>(),
                "trials": {"count": self.trials},
            },
        })
    }

    fn print(&self, set: &Name, named: &[NamedStack<'_>], selection: &Selection, seed: Option<u64>) {
        let varying = varying_packages(named);
        for NamedStack { name, stack } in named {
            let of = |locked: &&assay_spec::LockedPackage| varying.contains(&locked.package.name);
            let shown: Vec<String> = stack
                .packages
                .iter()
                .filter(of)
                .map(|locked| format!("{} {}", locked.package.name, locked.package.version))
                .collect();
            output::line(
                format!("{name:<24}  {}  {}", Digest::compute(stack.lock.as_bytes()).short(), shown.join(", ")).trim_end(),
            );
        }
        output::line(summary(named.len(), selection, seed));
        for skipped in selection.skipped.iter().take(SHOWN_SKIPPED) {
            output::line(format!("skipped   {}: {}", skipped.change, skipped.reason));
        }
        match selection.skipped.len().saturating_sub(SHOWN_SKIPPED) {
            0 => {}
            more => output::line(format!("          and {more} more, in the report")),
        }
        if self.dry_run {
            output::line("nothing was written: a dry run");
        } else {
            let run = format!("assay run {}", pipeline_path(set));
            output::line(format!(
                "written   {} and stacks/{set}; commit them, then `{run}` and `assay rank RUN`",
                pipeline_path(set)
            ));
        }
    }
}

/// Returns the sentence about a selection.
fn summary(made: usize, selection: &Selection, seed: Option<u64>) -> String {
    let mut parts = vec![counted(made as u64, "stack")];
    if selection.duplicates > 0 {
        // Without a resolver, and so without a seed, the lock files were there.
        let what = if seed.is_some() { "resolution" } else { "lock file" };
        parts.push(format!("{} of a stack that was there", counted(selection.duplicates as u64, what)));
    }
    if !selection.skipped.is_empty() {
        parts.push(format!("{} skipped", selection.skipped.len()));
    }
    let seed = seed.map(|seed| format!("; seed {seed}")).unwrap_or_default();
    format!("{}{seed}", parts.join(", "))
}

/// Returns the names of the packages that do not have one version in all stacks.
fn varying_packages(named: &[NamedStack<'_>]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
    let names: Vec<&str> =
        named.iter().flat_map(|named| &named.stack.packages).map(|locked| locked.package.name.as_str()).collect();
    for NamedStack { stack, .. } in named {
        for name in &names {
            let found = stack.packages.iter().find(|locked| locked.package.name == *name);
            versions.entry(name).or_default().push(found.map(|locked| locked.package.version.as_str()));
        }
    }
    let varies = |found: &Vec<Option<&str>>| found.windows(2).any(|pair| matches!(pair, [one, other] if one != other));
    versions.into_iter().filter(|(_, found)| named.len() == 1 || varies(found)).map(|(name, _)| name.to_owned()).collect()
}

fn lock_path(set: &Name, stack: &Name) -> String {
    format!("stacks/{set}/{stack}.txt")
}

fn pipeline_path(set: &Name) -> String {
    format!("pipelines/{set}.yaml")
}

/// Names stacks by what changed in them, if that makes short names that differ, and by their numbers otherwise.
fn name_stacks(stacks: &[Stack]) -> Result<Vec<NamedStack<'_>>, Failure> {
    let mut names: Vec<Name> = Vec::new();
    for (number, stack) in (1..).zip(stacks) {
        let by_number = (number..).filter_map(|number: u32| format!("stack-{number}").parse().ok());
        let name = slug(&stack.change).into_iter().chain(by_number).find(|name| !names.contains(name));
        names.push(name.ok_or_else(|| Failure::new(ErrorCode::Internal, "no name of a stack is free"))?);
    }
    Ok(names.into_iter().zip(stacks).map(|(name, stack)| NamedStack { name, stack }).collect())
}

/// Returns a text as a name; `None` if it is too long.
fn slug(text: &str) -> Option<Name> {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let name = words.join("-");
    (name.len() <= MAX_NAME).then(|| name.parse().ok()).flatten()
}

/// Reads the lock files of a folder, by name.
fn recorded(folder: &Path) -> Result<Selection, Failure> {
    let unreadable = |path: &Path, error: &std::io::Error| {
        Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", path.display())).because(error)
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            paths.push(path);
        }
    }
    if paths.len() > MAX_FILES {
        return Err(Failure::new(ErrorCode::NoStack, format!("`{}` has more than {MAX_FILES} files", folder.display())));
    }
    paths.sort();
    let mut selection = Selection::default();
    for path in paths {
        let mut bytes = Vec::new();
        // One byte more, so that a file above the limit is refused as such.
        let read = std::fs::File::open(&path).and_then(|file| file.take(MAX_LOCK_BYTES as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| unreadable(&path, &error))?;
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        selection.add(name, String::from_utf8_lossy(&bytes).into_owned());
    }
    if selection.stacks.len() > MAX_STACKS as usize {
        let message = format!("`{}` has more than {MAX_STACKS} stacks, the most of one pipeline", folder.display());
        return Err(Failure::new(ErrorCode::NoStack, message));
    }
    Ok(selection)
}

/// Returns the digest of the requirements.
fn read_requirements(path: &Path) -> Result<Digest, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", path.display())).because(&error);
    std::fs::read(path).map(|bytes| Digest::compute(&bytes)).map_err(unreadable)
}

fn none_made(selection: &Selection) -> Failure {
    let first = selection.skipped.first().map(|skipped| format!(": {}: {}", skipped.change, skipped.reason)).unwrap_or_default();
    Failure::new(ErrorCode::NoStack, format!("no stack was made, {} skipped{first}", selection.skipped.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_named_by_what_changed_or_by_number() {
        let stack = |change: &str| Stack { lock: String::new(), packages: Vec::new(), change: change.to_owned() };
        let stacks = [stack("latest"), stack("NumPy 2.1.0"), stack("numpy 2.1.0"), stack(&"a long name ".repeat(9))];
        let names: Vec<String> = name_stacks(&stacks).expect("names").iter().map(|named| named.name.to_string()).collect();
        assert_eq!(names, ["latest", "numpy-2-1-0", "stack-3", "stack-4"]);
        let names = |changes: &[&str]| -> Vec<String> {
            let stacks: Vec<Stack> = changes.iter().map(|change| stack(change)).collect();
            name_stacks(&stacks).expect("names").iter().map(|named| named.name.to_string()).collect()
        };
        assert_eq!(names(&["stack-2", "stack_2", "stack 2"]), ["stack-2", "stack-3", "stack-4"], "a name by number may be there");
        assert_eq!(names(&["x", "x", "stack-2"]), ["x", "stack-2", "stack-3"]);
    }

    #[test]
    fn a_lock_file_above_the_limit_is_refused_as_such() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("large.txt"), "#".repeat(MAX_LOCK_BYTES + 2)).expect("written");
        let selection = recorded(folder.path()).expect("read");
        let reasons: Vec<&str> = selection.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
        assert_eq!(reasons, ["the file has more than 4194304 bytes, the most of a lock file"]);
    }

    #[test]
    fn a_summary_names_only_what_happened() {
        let mut selection = Selection::default();
        assert_eq!(summary(3, &selection, Some(7)), "3 stacks; seed 7");
        selection.duplicates = 1;
        selection.add("x".to_owned(), "no lock file".to_owned());
        assert_eq!(summary(1, &selection, None), "1 stack, 1 lock file of a stack that was there, 1 skipped");
        assert_eq!(summary(1, &selection, Some(7)), "1 stack, 1 resolution of a stack that was there, 1 skipped; seed 7");
    }
}
