//! `assay validate`: reports all problems of all files at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use assay_manifest::Name;
use assay_report::counted;
use assay_spec::{Closure, ClosureError, Definition, Problem, Workload, absent_files, read_closure, validate};
use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::import::foreign_problem;
use crate::commands::imports::{ImportCheck, ImportChecker, uncommitted};
use crate::commands::plan::never_decides;
use crate::commands::repository_root;
use crate::output;

/// The most files of one call: a repository of definitions is far smaller.
const MAX_FILES: usize = 100_000;

/// Check definitions and everything that pipelines name; datasets and traces are imported as a plan would.
#[derive(clap::Args)]
pub(crate) struct Validate {
    /// Files and folders [default: `pipelines` and `workloads` of the working folder]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print the problems as one JSON document
    #[arg(long)]
    json: bool,
}

impl Validate {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let paths = if self.paths.is_empty() { default_paths()? } else { self.paths };
        let files = definitions(&paths)?;
        let read: BTreeMap<String, Vec<u8>> =
            files.iter().map(|path| Ok((path.display().to_string(), read_definition(path)?))).collect::<Result<_, Failure>>()?;
        let mut problems = validate(read.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())));
        name_foreign_files(&mut problems, &read);
        let pipelines = read.iter().filter(|(path, bytes)| is_pipeline(path, bytes));
        problems.extend(pipelines.flat_map(|(path, _)| closure_problems(path)));
        problems.extend(read.iter().filter_map(|(path, bytes)| check_location(path, bytes)));
        let checks = check_imports(&read)?;
        problems.extend(checks.iter().flat_map(RootImports::problems));
        // A pipeline that names a workload finds these itself.
        for (path, bytes) in &read {
            let folder = Path::new(path).parent().unwrap_or(Path::new(""));
            let absent = absent_files(path, bytes, |named| folder.join(named).exists());
            let is_known =
                |absent: &Problem| problems.iter().any(|known| known.file == absent.file && known.message == absent.message);
            let new: Vec<Problem> = absent.into_iter().filter(|absent| !is_known(absent)).collect();
            problems.extend(new);
        }
        problems.sort_by(|a, b| (&a.file, a.line, a.column, &a.message).cmp(&(&b.file, b.line, b.column, &b.message)));
        problems.dedup();
        if self.json {
            output::json(&problems.iter().map(Problem::to_json).collect::<Vec<_>>())?;
        } else if !problems.is_empty() {
            output::diagnostic(assay_spec::render(&problems));
        }
        // The JSON document is all of stdout.
        let print: fn(String) = if self.json { |line| output::diagnostic(line) } else { |line| output::lines(line) };
        read.iter().filter(|(path, bytes)| is_pipeline(path, bytes)).flat_map(|(path, _)| notes(path)).for_each(print);
        checks.iter().flat_map(RootImports::lines).for_each(print);
        let above: BTreeSet<&Path> = read
            .iter()
            .filter(|(path, bytes)| is_pipeline(path, bytes))
            .filter_map(|(path, _)| Path::new(path).parent()?.parent())
            .collect();
        above.into_iter().filter_map(|above| repository_root::note(root_of(above))).for_each(output::diagnostic);
        if problems.is_empty() {
            print(format!("{} checked, no problems", counted(read.len() as u64, "file")));
            return Ok(Exit::Done);
        }
        let files: BTreeSet<_> = problems.iter().map(|problem| &problem.file).collect();
        output::diagnostic(format!("{} in {}", counted(problems.len() as u64, "problem"), counted(files.len() as u64, "file")));
        Ok(Exit::Definition)
    }
}

/// Replaces the problems of files that other tools define: they need to be imported, and not to be corrected.
fn name_foreign_files(problems: &mut Vec<Problem>, read: &BTreeMap<String, Vec<u8>>) {
    let with_problems: BTreeSet<String> = problems.iter().map(|problem| problem.file.clone()).collect();
    for (path, bytes) in read.iter().filter(|(path, _)| with_problems.contains(*path)) {
        if let Some(problem) = foreign_problem(path, bytes) {
            problems.retain(|known| known.file != *path);
            problems.push(problem);
        }
    }
}

fn default_paths() -> Result<Vec<PathBuf>, Failure> {
    let found: Vec<_> = ["pipelines", "workloads"].iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
    if found.is_empty() {
        return Err(Failure::new(ErrorCode::NothingToValidate, "there is neither a folder `pipelines` nor `workloads` here")
            .hint("name files or folders: `assay validate PATH...`"));
    }
    Ok(found)
}

/// Reads the bytes of a definition: a regular file, and no more of it than shows that it is too large.
fn read_definition(path: &Path) -> Result<Vec<u8>, Failure> {
    let refuse = |error: std::io::Error| unreadable(path, &error);
    // Links lead out of an untrusted repository, and pipes never end.
    if !std::fs::symlink_metadata(path).map_err(refuse)?.is_file() {
        return Err(Failure::new(ErrorCode::Unreadable, format!("`{}` is not a plain file", path.display())));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(refuse)?;
    file.take(assay_spec::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(refuse)?;
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", path.display()))
        .because(error)
        .hint("name files or folders as seen from here; without any, `pipelines` and `workloads` are checked")
}

/// Returns the definition files below the given paths, sorted. Hidden files and folders are named or left out.
fn definitions(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut pending = paths.to_vec();
    while let Some(path) = pending.pop() {
        if found.len() + pending.len() > MAX_FILES {
            return Err(Failure::new(ErrorCode::TooManyFiles, format!("more than {MAX_FILES} files are named")));
        }
        if !path.is_dir() {
            found.push(path);
            continue;
        }
        for entry in std::fs::read_dir(&path).map_err(|error| unreadable(&path, &error))? {
            let entry = entry.map_err(|error| unreadable(&path, &error))?.path();
            // A store's own copies of definitions are below `.assay`.
            if entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
                continue;
            }
            let is_definition = entry.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
            if is_definition || (entry.is_dir() && !entry.is_symlink()) {
                pending.push(entry);
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Returns true if a file is a pipeline in a `pipelines` folder, so that the files that it names can be found beside that folder.
/// A trust policy may lie there too.
fn is_pipeline(path: &str, bytes: &[u8]) -> bool {
    let is_other = matches!(Definition::parse(path, bytes), Ok(definition) if !matches!(definition, Definition::Pipeline(_)));
    Path::new(path).parent().is_some_and(|folder| folder.ends_with("pipelines")) && !is_other
}

/// Returns the problem of a file that is not read at its path, so that its author must not rely on it: the rules of a gate are
/// found by their paths.
fn check_location(path: &str, bytes: &[u8]) -> Option<Problem> {
    let of = Path::new(path);
    let below_pipelines = of.components().any(|part| part.as_os_str() == "pipelines");
    let is_of_noise = of.parent().is_some_and(|folder| folder.ends_with("pipelines/noise"));
    if is_of_noise && of.extension().is_some_and(|extension| extension == "yml") {
        let problem = Problem::for_file(path, "gates read no noise file whose name ends in `.yml`");
        return Some(problem.with_hint("let it end in `.yaml`, as `assay noise` writes it"));
    }
    let is_read = of.parent().is_some_and(|folder| folder.ends_with(assay_spec::ACKNOWLEDGEMENTS));
    let is_accepting = || matches!(Definition::parse(path, bytes), Ok(Definition::Acknowledgement(_)));
    (below_pipelines && !is_read && is_accepting()).then(|| {
        Problem::for_file(path, "gates read no acknowledgement here")
            .with_hint(format!("move it to `{}`: folders below that are not read", assay_spec::ACKNOWLEDGEMENTS))
    })
}

/// Returns the problems of the queries that a pipeline publishes with.
fn query_problems(root: &Path, queries: &[String]) -> Vec<Problem> {
    let problem = |path: &String| {
        let text = assay_git::read_folder(root, path).ok().flatten()?.bytes;
        let failure = assay_planning::check_query(path, &text).err()?;
        let problem = Problem::for_file(path, failure.message.trim_start_matches(&format!("`{path}`: ")));
        Some(match failure.hint {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        })
    };
    queries.iter().filter_map(problem).collect()
}

/// Returns the folder above that of a pipeline, and what the pipeline names; `None` if it lies in no folder.
fn closure_of(path: &str) -> Option<(&Path, Result<Closure, ClosureError<assay_git::Error>>)> {
    let pipeline = Path::new(path);
    let above = pipeline.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    let inside = pipeline.strip_prefix(above).ok()?;
    let root = root_of(above);
    let found = read_closure::<assay_git::Error>(&inside.display().to_string(), &mut |file| {
        Ok(assay_git::read_folder(root, file)?.map(|file| file.bytes))
    });
    Some((above, found))
}

/// Returns the problem of a file of a repository, with the folder of the repository as a part of its path.
fn placed(above: &Path, problem: Problem) -> Problem {
    Problem { file: above.join(&problem.file).display().to_string(), ..problem }
}

fn root_of(above: &Path) -> &Path {
    if above.as_os_str().is_empty() { Path::new(".") } else { above }
}

/// The checked datasets and traces of a repository.
struct RootImports {
    /// The folder of the repository, as it is a part of the paths of its definitions.
    above: PathBuf,
    imports: Vec<ImportCheck>,
}

impl RootImports {
    fn problems(&self) -> Vec<Problem> {
        self.imports.iter().filter_map(ImportCheck::problem).map(|problem| placed(&self.above, problem.clone())).collect()
    }

    fn lines(&self) -> Vec<String> {
        let notes = uncommitted(root_of(&self.above), &self.imports);
        self.imports.iter().filter_map(ImportCheck::describe).chain(notes).collect()
    }
}

/// Imports the datasets and traces of all workloads that files define or pipelines name, each once.
fn check_imports(read: &BTreeMap<String, Vec<u8>>) -> Result<Vec<RootImports>, Failure> {
    let mut found: BTreeMap<PathBuf, BTreeMap<Name, Workload>> = BTreeMap::new();
    let workloads = read.iter().filter_map(|(path, bytes)| workload_of(path, bytes));
    let pipelines = read.iter().filter(|(path, bytes)| is_pipeline(path, bytes)).filter_map(|(path, _)| closure_of(path));
    let named = pipelines.filter_map(|(above, closure)| Some((above, closure.ok()?.workloads)));
    let named = named.flat_map(|(above, workloads)| workloads.into_iter().map(move |workload| (above, workload)));
    for (above, workload) in workloads.chain(named).filter(|(_, workload)| workload.dataset().is_some()) {
        found.entry(above.to_owned()).or_default().insert(workload.name.clone(), workload);
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let checker = ImportChecker::new()?;
    let check = |(above, workloads): (PathBuf, BTreeMap<Name, Workload>)| {
        let imports = workloads.values().filter_map(|workload| checker.check(root_of(&above), workload).transpose());
        Ok(RootImports { imports: imports.collect::<Result<_, Failure>>()?, above })
    };
    found.into_iter().map(check).collect()
}

/// Returns the valid workload that a file defines at its place in a repository, with the folder of the repository.
fn workload_of<'a>(path: &'a str, bytes: &[u8]) -> Option<(&'a Path, Workload)> {
    let above = Path::new(path).ancestors().nth(3)?;
    let inside = Path::new(path).strip_prefix(above).ok()?.display().to_string();
    let workload = Workload::parse(&inside, bytes).ok()?;
    Workload::paths_of(&workload.name).contains(&inside).then_some((above, workload))
}

/// Returns what a reader of a valid pipeline has to know before it runs.
fn notes(path: &str) -> Vec<String> {
    let Some((_, Ok(closure))) = closure_of(path) else { return Vec::new() };
    closure.gates_of_one_trial().into_iter().map(|gate| format!("note: {path}: gate {}", never_decides(gate))).collect()
}

/// Returns the problems of what a pipeline names: workloads, scripts, files, queries.
fn closure_problems(path: &str) -> Vec<Problem> {
    let Some((above, found)) = closure_of(path) else { return Vec::new() };
    let root = root_of(above);
    let placed = |problem| placed(above, problem);
    match found {
        Ok(found) => {
            let expanded = assay_spec::expand(&found.pipeline, &found.workloads).err().unwrap_or_default();
            expanded.into_iter().chain(query_problems(root, &found.pipeline.spec.publish.queries)).map(placed).collect()
        }
        Err(ClosureError::Problems(problems)) => problems.into_iter().map(placed).collect(),
        Err(ClosureError::Read { path, cause }) => {
            let problem = Problem::for_file(&path, cause.to_string());
            vec![placed(match cause.hint() {
                Some(hint) => problem.with_hint(hint),
                None => problem,
            })]
        }
    }
}
