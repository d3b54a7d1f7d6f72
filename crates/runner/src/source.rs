//! Reads the Source of a run: from a commit, local or remote, or from a work tree as it is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assay_git::{Commit, FileContent, RawObject, Repository, fetch_remote};
use assay_manifest::{Artifact, Count, DefinitionImport, EnvVar, GitObject, Intent, OriginKind, RunId, Source, SourceFile};
use assay_process::{Cancel, Spawner};
use assay_spec::{Closure, ClosureError, HeaderSource, Target, expand, looks_secret, read_closure as read_definitions};
use assay_stage::read_value;
use assay_store::Store;

use crate::{Defect, Error, FileRole, Result};

mod definitions;
mod imported;

pub use definitions::ImportedOriginal;

use definitions::{Files, ReadDefinitions};
use imported::import_definitions;

/// The fewest bytes of a secret that is searched for in files: a shorter one is found in what is none.
const MIN_SECRET_BYTES: usize = 8;

/// The source to start a run from.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    /// The pipeline, or the definition of another tool: a path of this machine, or with an address as `repo` a path in that repository.
    pub pipeline: String,
    /// A repository's folder or address; without it, the one around the pipeline.
    pub repo: Option<String>,
    /// The revision; without it, the work tree, or its commit if nothing differs.
    pub commit: Option<String>,
    /// Files that exist only in memory, by path. If there are any, nothing else is read: the Source is `adhoc`.
    pub adhoc: BTreeMap<String, Vec<u8>>,
}

/// Everything that a pipeline names, read, with its origin.
pub struct LoadedSource {
    kind: OriginKind,
    repository: Option<String>,
    commit: Option<String>,
    reference: Option<String>,
    dirty: bool,
    objects: Vec<RawObject>,
    files: Files,
    /// The parsed definitions.
    pub closure: Closure,
    /// The path of the pipeline in the repository, or among the imported definitions.
    pub pipeline: String,
    /// The import that made the definitions, if the file is of another tool.
    pub import: Option<ImportedOriginal>,
    /// The folder of the repository on this machine, if it has one.
    pub root: Option<PathBuf>,
}

/// Reads the pipeline and everything that it names. The file of another tool is imported in memory. A remote is fetched into `scratch`.
pub fn read_source(spec: &SourceSpec, scratch: &Path, spawner: &Spawner, cancel: &Cancel) -> Result<LoadedSource> {
    if !spec.adhoc.is_empty() {
        return from_adhoc(spec);
    }
    match &spec.repo {
        Some(address) if is_address(address) => {
            let rev = spec.commit.as_deref().unwrap_or("HEAD");
            let fetched = fetch_remote(address, rev, scratch, spawner, cancel)?;
            // Only the remote knows which branch or tag a short name is.
            let reference = Some(rev.to_owned()).filter(|rev| rev.starts_with("refs/"));
            let origin = (assay_git::redact_url(address), reference);
            from_commit(&fetched.repository, &fetched.commit, origin, spec.pipeline.clone(), None)
        }
        _ => read_local(spec),
    }
}

/// Returns the address of a repository without its secret parts.
pub fn redact_address(address: &str) -> String {
    assay_git::redact_url(address).unwrap_or_default()
}

fn is_address(text: &str) -> bool {
    // A path has no scheme, and no colon before its first slash as `host:path` has.
    text.contains("://") || text.split('/').next().is_some_and(|first| first.contains(':'))
}

fn read_local(spec: &SourceSpec) -> Result<LoadedSource> {
    let (folder, path) = match &spec.repo {
        Some(folder) => (PathBuf::from(folder), PathBuf::from(folder).join(&spec.pipeline)),
        None => (parent(Path::new(&spec.pipeline)), PathBuf::from(&spec.pipeline)),
    };
    if spec.commit.is_none() && path.is_dir() {
        return Err(FileRole::Source.error(&path)(std::io::ErrorKind::IsADirectory.into()));
    }
    let repository = match Repository::discover(&folder) {
        Ok(repository) => repository,
        Err(assay_git::Error::NoRepository { .. }) if spec.commit.is_none() => return from_folder(&path),
        Err(error) => return Err(error.into()),
    };
    let Some(root) = repository.worktree().map(Path::to_path_buf) else {
        let rev = spec.commit.as_deref().unwrap_or("HEAD");
        let commit = repository.resolve(rev)?;
        return from_commit(&repository, &commit, (None, repository.full_name(rev)), spec.pipeline.clone(), None);
    };
    let pipeline = path_inside(&root, &path, spec.commit.is_some())?;
    match &spec.commit {
        Some(rev) => {
            let commit = repository.resolve(rev)?;
            from_commit(&repository, &commit, (repository.origin(), repository.full_name(rev)), pipeline, Some(root))
        }
        None => from_worktree(&repository, pipeline, root),
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Returns the path of a file from the root of its repository, with `/`.
fn path_inside(root: &Path, path: &Path, may_be_gone: bool) -> Result<String> {
    let root = root.canonicalize().map_err(FileRole::Source.error(root))?;
    // A file of an older commit need not be in the work tree, but its folder or one above it is.
    let absolute = match path.canonicalize() {
        Ok(absolute) => absolute,
        Err(_) if may_be_gone => std::path::absolute(path).map_err(FileRole::Source.error(path))?,
        Err(error) => return Err(FileRole::Source.error(path)(error)),
    };
    let inside = absolute.strip_prefix(&root).ok().and_then(Path::to_str);
    inside.map(str::to_owned).ok_or_else(|| Error::PipelinePath { path: path.to_owned(), root: root.clone() })
}

/// Finds the closure of a pipeline with `read`, and keeps the files that were read. If the file is of another tool, its definitions are imported.
fn read_closure<E>(pipeline: &str, mut read: impl FnMut(&str) -> Result<Option<FileContent>, E>) -> Result<ReadDefinitions>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let files = RefCell::new(Files::new());
    // The pipeline is the first file that is read.
    let first = RefCell::new(None);
    let found = read_definitions::<E>(pipeline, &mut |path| {
        let file = read(path)?;
        first.borrow_mut().get_or_insert_with(|| path.to_owned());
        Ok(file.map(|file| {
            let bytes = file.bytes.clone();
            files.borrow_mut().insert(path.to_owned(), file);
            bytes
        }))
    });
    let files = files.into_inner();
    match found {
        // A definition that does not expand is refused here, before anything of the run exists.
        Ok(closure) => match expand(&closure.pipeline, &closure.workloads) {
            Ok(_) => Ok(ReadDefinitions { pipeline: pipeline.to_owned(), closure, files, import: None }),
            Err(problems) => Err(Error::Definitions(problems)),
        },
        Err(ClosureError::Problems(problems)) => {
            let original = first.into_inner().and_then(|path| files.get_key_value(&path));
            original.and_then(|(path, file)| import_definitions(path, file)).unwrap_or(Err(Error::Definitions(problems)))
        }
        Err(ClosureError::Read { path, cause }) => Err(Error::Definition { path, source: cause.into() }),
    }
}

fn from_commit(
    repository: &Repository,
    commit: &Commit,
    (address, reference): (Option<String>, Option<String>),
    pipeline: String,
    root: Option<PathBuf>,
) -> Result<LoadedSource> {
    let read = read_closure(&pipeline, |path| repository.read_at(commit, path))?;
    let objects = repository.commit_objects(commit, &read.paths())?;
    let ReadDefinitions { pipeline, closure, files, import } = read;
    Ok(LoadedSource {
        kind: OriginKind::Git,
        repository: address,
        commit: Some(commit.id.to_string()),
        reference,
        dirty: false,
        objects,
        files,
        closure,
        pipeline,
        import,
        root,
    })
}

/// Reads a work tree. It is its commit if nothing that the pipeline names differs from it; otherwise it is allowed for
/// exploratory runs only.
fn from_worktree(repository: &Repository, pipeline: String, root: PathBuf) -> Result<LoadedSource> {
    let read = read_closure(&pipeline, |path| repository.read_worktree(path))?;
    let changed = repository.status(&read.paths())?;
    let head = repository.resolve("HEAD").ok();
    match head {
        Some(commit) if changed.is_empty() => {
            from_commit(repository, &commit, (repository.origin(), repository.full_name("HEAD")), pipeline, Some(root))
        }
        head => {
            let ReadDefinitions { pipeline, closure, files, import } = read;
            require_exploratory(&closure, &changed)?;
            Ok(LoadedSource {
                kind: OriginKind::Worktree,
                repository: repository.origin(),
                commit: head.map(|commit| commit.id.to_string()),
                reference: repository.full_name("HEAD"),
                dirty: true,
                objects: Vec::new(),
                files,
                closure,
                pipeline,
                import,
                root: Some(root),
            })
        }
    }
}

fn require_exploratory(closure: &Closure, changed: &[String]) -> Result<()> {
    let intent = closure.pipeline.spec.intent;
    if intent == Intent::Exploratory {
        return Ok(());
    }
    Err(Error::DirtyWorktree { intent, changed: changed.to_vec() })
}

/// Reads files outside any repository; the root is the folder above `pipelines/`, if the pipeline lies in one.
fn from_folder(path: &Path) -> Result<LoadedSource> {
    let absolute = path.canonicalize().map_err(FileRole::Source.error(path))?;
    let folder = parent(&absolute);
    let root = if folder.ends_with("pipelines") { parent(&folder) } else { folder };
    let pipeline = path_inside(&root, &absolute, false)?;
    let read = read_closure(&pipeline, |path| assay_git::read_folder(&root, path))?;
    let ReadDefinitions { pipeline, closure, files, import } = read;
    require_exploratory(&closure, &[])?;
    // Imported definitions lie in no work tree.
    let kind = if import.is_some() { OriginKind::Adhoc } else { OriginKind::Worktree };
    Ok(LoadedSource {
        kind,
        repository: None,
        commit: None,
        reference: None,
        dirty: kind == OriginKind::Worktree,
        objects: Vec::new(),
        files,
        closure,
        pipeline,
        import,
        root: Some(root),
    })
}

/// Reads files that exist only in memory. The store is that of the repository around the working folder, if there is one.
fn from_adhoc(spec: &SourceSpec) -> Result<LoadedSource> {
    let read = |path: &str| {
        let file = spec.adhoc.get(path).map(|bytes| FileContent { bytes: bytes.clone(), executable: false });
        Ok::<_, std::convert::Infallible>(file)
    };
    let ReadDefinitions { pipeline, closure, files, import } = read_closure(&spec.pipeline, read)?;
    require_exploratory(&closure, &[])?;
    let around = Repository::discover(Path::new(".")).ok();
    Ok(LoadedSource {
        kind: OriginKind::Adhoc,
        repository: None,
        commit: None,
        reference: None,
        dirty: false,
        objects: Vec::new(),
        files,
        closure,
        pipeline,
        import,
        root: around.and_then(|repository| repository.worktree().map(Path::to_path_buf)),
    })
}

/// Returns the definitions of a stored Source, read from its own files.
pub(crate) fn read_stored_closure(store: &Store, source: &Source) -> Result<Closure> {
    let read = |path: &str| {
        let Some(file) = source.files.iter().find(|file| file.path == path) else { return Ok(None) };
        let bytes = store.get(&file.artifact.digest, assay_spec::MAX_FILE_BYTES as u64)?;
        Ok::<_, assay_store::Error>(Some(FileContent { bytes, executable: file.executable }))
    };
    Ok(read_closure(&source.pipeline, read)?.closure)
}

impl LoadedSource {
    /// Returns the address of the repository, without credentials.
    pub fn origin(&self) -> Option<&str> {
        self.repository.as_deref()
    }

    /// Returns the files that were read, by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, file)| (path.as_str(), file.bytes.as_slice()))
    }

    /// Returns the secrets that targets, telemetry sources and receivers of hot metrics refer to.
    fn secrets(&self) -> impl Iterator<Item = EnvVar> {
        let spec = &self.closure.pipeline.spec;
        let servers = spec.telemetry.iter().filter_map(|source| source.prometheus.as_ref());
        let receivers = spec.publish.hot_metrics.iter().flat_map(|hot| &hot.receivers);
        let of_receivers =
            receivers.flat_map(|receiver| receiver.headers.iter().filter(|header| header.value.is_none()).cloned());
        spec.targets
            .iter()
            .flat_map(secrets_of)
            .chain(servers.flat_map(|server| secret_headers(&server.headers)))
            .chain(of_receivers)
    }

    /// Fails if a secret that a header or variable refers to stands in one of the files too, or in the name of the run: all of them
    /// are published. A secret that this machine does not have is not searched for.
    pub fn check_no_secret(&self, run_id: Option<&RunId>) -> Result<()> {
        for secret in self.secrets() {
            let Ok(value) = read_value(&secret) else { continue };
            // Without an authentication scheme that stands before it.
            let bytes = value.as_encoded_bytes().trim_ascii().rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            if bytes.len() < MIN_SECRET_BYTES {
                continue;
            }
            let finder = memchr::memmem::Finder::new(bytes);
            if run_id.is_some_and(|run_id| finder.find(run_id.as_str().as_bytes()).is_some()) {
                return Err(Error::SecretInName { name: secret.name });
            }
            if let Some((path, _)) = self.files().find(|(_, file)| finder.find(file).is_some()) {
                return Err(Error::SecretInFile { name: secret.name, path: path.to_owned() });
            }
        }
        Ok(())
    }

    /// Puts all files that were read into the store and returns the Source that names them.
    pub fn store(&self, store: &Store) -> Result<Source> {
        let objects = self.objects.iter().map(|object| {
            let name = format!("objects/{}", object.oid);
            let artifact = put(store, name, "application/octet-stream", &object.bytes)?;
            Ok(GitObject { oid: object.oid.to_string(), kind: object.kind, artifact })
        });
        let objects = objects.collect::<Result<_>>()?;
        let original = self.import.iter().map(|original| &original.file);
        let files = self.closure.files.iter().map(|file| &file.path).chain(original);
        let files = files.map(|path| self.store_file(store, path));
        let files = files.collect::<Result<Vec<_>>>()?;
        Ok(Source {
            kind: self.kind,
            repository: self.repository.clone(),
            commit: self.commit.clone(),
            reference: self.reference.clone(),
            dirty: self.dirty,
            objects,
            pipeline: self.pipeline.clone(),
            files_digest: Source::digest_of_files(&files),
            files,
            import: self.import.as_ref().map(|original| DefinitionImport {
                file: original.file.clone(),
                format: original.import.format.to_owned(),
                version: assay_foreign::VERSION.to_owned(),
            }),
        })
    }

    fn store_file(&self, store: &Store, path: &str) -> Result<SourceFile> {
        let file = self.files.get(path).ok_or_else(|| Error::Internal(Defect::FileNotRead(path.to_owned())))?;
        let artifact = put(store, format!("files/{path}"), "application/octet-stream", &file.bytes)?;
        Ok(SourceFile { path: path.to_owned(), executable: file.executable, artifact })
    }
}

/// Returns the headers of a target whose values are secrets, and its variables that are by their names. What another variable refers to may be
/// any word.
fn secrets_of(target: &Target) -> Vec<EnvVar> {
    let variables = target.env.iter().filter(|variable| variable.value.is_none() && looks_secret(&variable.name, "a value"));
    secret_headers(&target.headers).chain(variables.cloned()).collect()
}

/// Returns the headers whose values are secrets.
fn secret_headers(headers: &BTreeMap<String, HeaderSource>) -> impl Iterator<Item = EnvVar> {
    let secret = headers.iter().filter(|(_, source)| matches!(source, HeaderSource::Secret { .. }));
    secret.map(|(name, source)| source.to_env_var(name))
}

fn put(store: &Store, name: String, media_type: &str, bytes: &[u8]) -> Result<Artifact> {
    let digest = store.put(bytes)?;
    Ok(Artifact { name, digest, size: Count(bytes.len() as u64), media_type: media_type.to_owned() })
}

#[cfg(test)]
mod tests;
