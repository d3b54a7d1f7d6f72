//! The closure of a pipeline: every repository file that it names, directly or through its workloads.
//!
//! The caller reads the files (from a commit, a work tree, a map in a test); this module only decides which file is read next.

use std::collections::BTreeMap;

use assay_manifest::{Case, Digest, Name};

use crate::expand::{expand, unknown_workload};
use crate::format::normal_path;
use crate::freeze::Pins;
use crate::lock::parse_lock;
use crate::noise::Noise;
use crate::pack::Pack;
use crate::pipeline::{Pipeline, TelemetrySource};
use crate::problem::{Problem, quote};
use crate::sizing::{GateSize, gate_sizes};
use crate::validate::named_workloads;
use crate::workload::{PinnableFile, Workload};

/// The most files of one closure: every workload at its own limit would be more than anyone reviews.
pub const MAX_CLOSURE_FILES: usize = 10_000;
/// The largest file: scripts and sources are small, and large data is fetched by digest.
pub const MAX_FILE_BYTES: usize = 64 << 20;
/// The largest size of all files together.
pub const MAX_CLOSURE_BYTES: usize = 256 << 20;

/// Everything that a pipeline names in its repository.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The files in the order in which they are named, each once: the pipeline, then each workload with its script, its files and
    /// its README, then the queries, the objects of targets, the lock files of variants, the query packs
    /// of telemetry sources, and the noise file.
    pub files: Vec<ClosureFile>,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Its workloads, in its order.
    pub workloads: Vec<Workload>,
    /// The learned noise of its comparison, if it has gates and there is a noise file.
    pub noise: Option<Noise>,
}

/// A file of a closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosureFile {
    /// Its path from the repository's root, normalised.
    pub path: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: usize,
}

/// The reason why there is no closure.
#[derive(Debug, thiserror::Error)]
pub enum ClosureError<E> {
    /// The definitions are invalid.
    #[error("the definitions have {} problem(s)", .0.len())]
    Problems(Vec<Problem>),
    /// A file could not be read.
    #[error("failed to read `{path}`")]
    Read {
        /// The path of the file.
        path: String,
        /// The error of the reader.
        #[source]
        cause: E,
    },
}

/// Returns the bytes of a file by its path from the repository's root, or `None` if there is no such file.
pub type ReadFile<'r, E> = dyn FnMut(&str) -> Result<Option<Vec<u8>>, E> + 'r;

/// Finds and parses everything that the pipeline at `path` names. Calls `read` once for each path.
///
/// # Errors
/// All problems of all definitions in one go, or the first failure of `read`.
pub fn read_closure<E>(path: &str, read: &mut ReadFile<'_, E>) -> Result<Closure, ClosureError<E>> {
    let mut walk =
        ClosureReader { read, files: Vec::new(), known: BTreeMap::new(), bytes: 0, problems: Vec::new(), packs: BTreeMap::new() };
    let Some(pipeline) = walk.pipeline(path)? else { return Err(ClosureError::Problems(walk.problems)) };
    let workloads = walk.workloads(&pipeline)?;
    walk.queries(&pipeline)?;
    walk.objects(&pipeline)?;
    walk.locks(&pipeline)?;
    walk.packs(&pipeline)?;
    let noise = walk.noise(&pipeline)?;
    if !walk.problems.is_empty() {
        return Err(ClosureError::Problems(walk.problems));
    }
    let mut closure = Closure { files: walk.files, pipeline, workloads, noise };
    if closure.pipeline.spec.trials.sized {
        closure.pipeline.spec.trials.count = closure.pairs_needed().map_err(ClosureError::Problems)?;
    }
    Ok(closure)
}

impl Closure {
    /// Returns the digests of a workload's own files, as [`Workload::freeze`] takes them.
    pub fn workload_pins(&self, workload: &Workload) -> Pins {
        let folder = format!("{}/", Workload::folder_of(&workload.name));
        let inside = self.files.iter().filter_map(|file| Some((file.path.strip_prefix(&folder)?.to_owned(), file.digest)));
        Pins { contents: inside.collect(), images: BTreeMap::new() }
    }

    /// Returns the number of pairs that each gate needs, computed from the learned noise. A workload whose image is not pinned
    /// yet is work of which nothing is known.
    pub fn gate_sizes(&self, cases: &[Case]) -> Vec<GateSize> {
        let work_of = |workload: &Workload| {
            let frozen = workload.freeze(&self.workload_pins(workload)).ok()?;
            frozen.unpinned.is_empty().then_some(frozen.digest)
        };
        gate_sizes(&self.pipeline, &self.workloads, cases, self.noise.as_ref(), &work_of)
    }

    /// Returns the gates of a comparison whose sides are measured in one trial each, with intervals within the run: they never decide.
    pub fn gates_of_one_trial(&self) -> Vec<&Name> {
        let spec = &self.pipeline.spec;
        let is_single = spec.trials.count == 1 && spec.comparison.is_some();
        let is_within_run = is_single && self.workloads.iter().any(|workload| workload.may_count_one_trial().is_ok());
        spec.gates.iter().filter(|_| is_within_run).map(|gate| &gate.name).collect()
    }

    /// Returns the number of pairs that the most demanding gate needs.
    fn pairs_needed(&self) -> Result<u32, Vec<Problem>> {
        let cases = expand(&self.pipeline, &self.workloads)?;
        let sizes = self.gate_sizes(&cases);
        let refused = |message: String, hint: &str| {
            vec![self.pipeline.places.problem("spec.trials.count", message).with_hint(hint.to_owned())]
        };
        let learn =
            format!("learn it from earlier runs: `assay noise {}`; until then write a number", self.pipeline.places.file());
        if sizes.is_empty() {
            return Err(refused("nothing is gated, so nothing says how many trials it takes".to_owned(), "write a number"));
        }
        let mut most = 1;
        for size in &sizes {
            let needed = match &size.size {
                _ if !size.has_learned_noise() => {
                    let message = format!("nothing was learned of the noise of what gate `{}` judges", size.gate);
                    Err(refused(message, &learn))
                }
                Err(why) => {
                    let message = format!("gate `{}` cannot decide: {}: {why}", size.gate, metric_of(size, why.metric()));
                    Err(refused(
                        message,
                        "make it quieter, or judge fewer metrics; `placement: alternate` has no launches to clear",
                    ))
                }
                Ok(sized) => Ok(sized.pairs),
            };
            most = most.max(needed?);
        }
        Ok(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

fn metric_of(size: &GateSize, place: usize) -> &str {
    size.metrics.get(place).map_or("a metric", String::as_str)
}

struct ClosureReader<'r, E> {
    read: &'r mut ReadFile<'r, E>,
    files: Vec<ClosureFile>,
    /// True for each requested path that exists.
    known: BTreeMap<String, bool>,
    bytes: usize,
    problems: Vec<Problem>,
    /// The query packs that were read, by path.
    packs: BTreeMap<String, Pack>,
}

impl<E> ClosureReader<'_, E> {
    fn pipeline(&mut self, path: &str) -> Result<Option<Pipeline>, ClosureError<E>> {
        if path.is_empty() {
            let message = "the path of the pipeline is that of the repository itself, and a file is needed";
            self.problems.push(Problem::for_file(".", message).with_hint("name it, such as `pipelines/nightly.yaml`"));
            return Ok(None);
        }
        let path = match normal_path(path) {
            Ok(path) => path,
            Err(rule) => {
                let message = format!("{} is not a path in the repository: {rule}", quote(path));
                self.problems.push(Problem::for_file(path, message));
                return Ok(None);
            }
        };
        let Some(bytes) = self.file(&path, || Problem::for_file(&path, "there is no such pipeline"))? else { return Ok(None) };
        match Pipeline::parse(&path, &bytes) {
            Ok(pipeline) => Ok(Some(pipeline)),
            Err(problems) => {
                self.problems.extend(problems);
                self.check_named_workloads(&path, &bytes)?;
                Ok(None)
            }
        }
    }

    /// Looks for the workloads that a pipeline with other problems names, so that all problems are reported at once.
    fn check_named_workloads(&mut self, path: &str, bytes: &[u8]) -> Result<(), ClosureError<E>> {
        for (name, missing) in named_workloads(path, bytes) {
            if let Some((path, bytes)) = self.workload_file(&name, || missing)? {
                self.problems.extend(Workload::parse(&path, &bytes).err().unwrap_or_default());
            }
        }
        Ok(())
    }

    fn workloads(&mut self, pipeline: &Pipeline) -> Result<Vec<Workload>, ClosureError<E>> {
        let mut workloads = Vec::new();
        for (index, name) in pipeline.spec.workloads.iter().enumerate() {
            if let Some(workload) = self.workload(pipeline, index, name)? {
                self.read_parts(&workload)?;
                workloads.push(workload);
            }
        }
        Ok(workloads)
    }

    fn workload(&mut self, pipeline: &Pipeline, index: usize, name: &Name) -> Result<Option<Workload>, ClosureError<E>> {
        let found = self.workload_file(name, || unknown_workload(pipeline, index, name, std::iter::empty()))?;
        let workload = found
            .and_then(|(path, bytes)| Workload::parse(&path, &bytes).map_err(|problems| self.problems.extend(problems)).ok());
        Ok(workload)
    }

    /// Returns the file of a workload, like [`file`](Self::file), with its path.
    fn workload_file(
        &mut self,
        name: &Name,
        missing: impl FnOnce() -> Problem,
    ) -> Result<Option<(String, Vec<u8>)>, ClosureError<E>> {
        let paths = Workload::paths_of(name);
        for path in &paths {
            let bytes = self.optional_file(path)?;
            if self.known.get(path) != Some(&false) {
                return Ok(bytes.map(|bytes| (path.clone(), bytes)));
            }
        }
        self.problems.push(missing());
        Ok(None)
    }

    fn read_parts(&mut self, workload: &Workload) -> Result<(), ClosureError<E>> {
        let folder = Workload::folder_of(&workload.name);
        let parts = workload.mutable_parts();
        for part in &parts.paths {
            let place = field_path(workload, part);
            let path = format!("{folder}/{part}");
            let missing = || {
                let problem = workload.places.problem(&place, format!("there is no file {}", quote(&path)));
                problem.with_hint("paths are relative to the workload's folder")
            };
            self.file(&path, missing)?;
        }
        let one_of: Vec<String> = parts.one_of.iter().map(|part| format!("{folder}/{part}")).collect();
        for path in one_of.iter().cloned().chain([format!("{folder}/README.md")]) {
            self.optional_file(&path)?;
        }
        if !one_of.is_empty() && !one_of.iter().any(|path| self.known.get(path) == Some(&true)) {
            let names: Vec<String> = one_of.iter().map(|path| quote(path)).collect();
            let problem = workload.places.problem("spec.tokenizer", format!("there is no file {}", names.join(" or ")));
            self.problems.push(problem.with_hint("a folder with a chat template has one of them"));
        }
        Ok(())
    }

    fn queries(&mut self, pipeline: &Pipeline) -> Result<(), ClosureError<E>> {
        for (index, path) in pipeline.spec.publish.queries.iter().enumerate() {
            let place = format!("spec.publish.queries[{index}]");
            let missing = || {
                let problem = pipeline.places.problem(&place, format!("there is no file {}", quote(path)));
                problem.with_hint("paths of queries are relative to the repository's root")
            };
            self.file(path, missing)?;
        }
        Ok(())
    }

    /// Reads the learned noise of a gated comparison.
    fn noise(&mut self, pipeline: &Pipeline) -> Result<Option<Noise>, ClosureError<E>> {
        if pipeline.spec.gates.is_empty() {
            return Ok(None);
        }
        let path = Noise::path_of(&pipeline.name);
        let Some(bytes) = self.optional_file(&path)? else { return Ok(None) };
        Ok(Noise::parse_for_pipeline(&pipeline.name, &path, &bytes).map_err(|problems| self.problems.extend(problems)).ok())
    }

    /// Parses the object files, so that invalid ones are found before anything runs. Provision, which knows the cluster, checks
    /// which objects are allowed.
    fn objects(&mut self, pipeline: &Pipeline) -> Result<(), ClosureError<E>> {
        for (target_index, target) in pipeline.spec.targets.iter().enumerate() {
            for (index, path) in target.objects.iter().enumerate() {
                let place = format!("spec.targets[{target_index}].objects[{index}]");
                let missing = || {
                    let problem = pipeline.places.problem(&place, format!("there is no file {}", quote(path)));
                    problem.with_hint("paths of objects are relative to the repository's root")
                };
                let bytes = self.file(path, missing)?;
                self.problems.extend(bytes.and_then(|bytes| crate::parse_objects(path, &bytes).err()).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Parses the query packs of telemetry sources, so that one that selects nothing is found before anything runs.
    fn packs(&mut self, pipeline: &Pipeline) -> Result<(), ClosureError<E>> {
        for (source_index, source) in pipeline.spec.telemetry.iter().enumerate() {
            for (index, path) in source.prometheus.iter().flat_map(|source| &source.queries).enumerate() {
                let place = format!("spec.telemetry[{source_index}].queries[{index}]");
                let missing = || {
                    let problem = pipeline.places.problem(&place, format!("there is no file {}", quote(path)));
                    problem.with_hint("paths of query packs are relative to the repository's root")
                };
                let bytes = self.file(path, missing)?;
                match bytes.map(|bytes| Pack::parse(path, &bytes)) {
                    Some(Ok(pack)) => self.packs.extend([(path.clone(), pack)]),
                    Some(Err(problems)) => self.problems.extend(problems),
                    None => {}
                }
            }
            self.check_metric_names(pipeline, source_index, source);
        }
        Ok(())
    }

    /// Checks that the queries of a source have names of their own: rows are told apart by them.
    fn check_metric_names(&mut self, pipeline: &Pipeline, index: usize, source: &TelemetrySource) {
        let Some(server) = &source.prometheus else { return };
        let own = server.queries.iter().filter_map(|path| self.packs.get(path));
        let mut packs_of: BTreeMap<&str, &Name> = BTreeMap::new();
        for pack in server.packs.iter().filter_map(|name| Pack::built_in(name.as_str())).chain(own) {
            for query in &pack.queries {
                let Some(other) = packs_of.insert(&query.name, &pack.name) else { continue };
                let message = format!("the query packs `{other}` and `{}` both have a metric {}", pack.name, quote(&query.name));
                let problem = pipeline.places.problem(&format!("spec.telemetry[{index}]"), message);
                self.problems.push(problem.with_hint("give one of them another `name`, or make two sources of the packs"));
                return;
            }
        }
    }

    /// Parses the lock files of variants, so that one that locks nothing is found before anything is installed.
    fn locks(&mut self, pipeline: &Pipeline) -> Result<(), ClosureError<E>> {
        let stated =
            pipeline.spec.variants.iter().enumerate().filter_map(|(index, variant)| Some((index, variant.python.as_ref()?)));
        for (index, python) in stated {
            let missing = || {
                let place = format!("spec.variants[{index}].python.lock");
                let problem = pipeline.places.problem(&place, format!("there is no file {}", quote(&python.lock)));
                problem.with_hint("paths of lock files are relative to the repository's root")
            };
            let bytes = self.file(&python.lock, missing)?;
            self.problems.extend(bytes.and_then(|bytes| parse_lock(&python.lock, &bytes).err()).unwrap_or_default());
        }
        Ok(())
    }

    /// Returns the bytes of a file that must be there. A file that is named twice is read once; its second lookup returns `None`,
    /// because its bytes are not needed again.
    fn file(&mut self, path: &str, missing: impl FnOnce() -> Problem) -> Result<Option<Vec<u8>>, ClosureError<E>> {
        if self.known.get(path) == Some(&true) {
            return Ok(None);
        }
        let bytes = self.optional_file(path)?;
        if self.known.get(path) == Some(&false) {
            self.problems.push(missing());
        }
        Ok(bytes)
    }

    fn optional_file(&mut self, path: &str) -> Result<Option<Vec<u8>>, ClosureError<E>> {
        if self.known.contains_key(path) || self.is_over_limit(path) {
            return Ok(None);
        }
        let read = (self.read)(path).map_err(|cause| ClosureError::Read { path: path.to_owned(), cause })?;
        self.known.insert(path.to_owned(), read.is_some());
        let Some(bytes) = read else { return Ok(None) };
        if bytes.len() > MAX_FILE_BYTES {
            let message = format!("the file has {} bytes; at most {MAX_FILE_BYTES} are allowed", bytes.len());
            self.problems.push(Problem::for_file(path, message));
        }
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.files.push(ClosureFile { path: path.to_owned(), digest: Digest::compute(&bytes), size: bytes.len() });
        Ok(Some(bytes))
    }

    /// Returns true if the closure has reached its limit. Reports it once.
    fn is_over_limit(&mut self, path: &str) -> bool {
        let message = if self.files.len() >= MAX_CLOSURE_FILES {
            format!("the pipeline names more than {MAX_CLOSURE_FILES} files")
        } else if self.bytes > MAX_CLOSURE_BYTES {
            format!("the pipeline's files have more than {MAX_CLOSURE_BYTES} bytes together")
        } else {
            return false;
        };
        if !self.problems.iter().any(|problem| problem.message == message) {
            self.problems.push(Problem::for_file(path, message));
        }
        true
    }
}
/// Returns the path of the field that names a file of a workload's folder.
fn field_path(workload: &Workload, path: &str) -> String {
    match workload.spec.files.iter().position(|file| file == path) {
        Some(index) => format!("spec.files[{index}]"),
        None if workload.script().is_some() => "spec.script.path".to_owned(),
        None if let Some(dataset) = workload.dataset()
            && matches!(&dataset.file, PinnableFile::Path { path: of_dataset, .. } if of_dataset == path) =>
        {
            format!("spec.{}.path", dataset.member())
        }
        None => {
            let place = workload.image_files().and_then(|images| images.paths.iter().position(|image| image == path));
            place.map_or_else(|| "spec.tokenizer".to_owned(), |place| format!("spec.image_files.paths[{place}]"))
        }
    }
}
