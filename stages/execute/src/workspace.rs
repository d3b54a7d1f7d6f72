//! The files of a workload: those that the plan pins, and those that its preparation makes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_manifest::{Digest, FrozenWorkload, IndicatorWork, PinnedFile, PreparationResult, PrepareCommand, Reason};
use assay_process::{Command, Spawner};
use assay_stage::{Context, ErrorCode, Failure, Secrets};

use crate::capture::{self, Capture, Excerpt, describe_excess};

/// The name of the script in the folder in which it runs.
pub(crate) const SCRIPT: &str = "script";

/// The reason code of a script that would not run with the packages of its variant.
const OTHER_INTERPRETER: &str = "other_interpreter";

/// The most bytes of a script's first line that are read: more than a kernel reads.
const MAX_FIRST_LINE: u64 = 4 << 10;

/// The files of one workload, ready to be copied into the folder of an attempt.
pub(crate) struct Workspace {
    /// The path in the attempt's folder, and the path of the bytes.
    files: Vec<(PathBuf, PathBuf)>,
    /// The reason why the preparation failed, if it did.
    pub(crate) failure: Option<String>,
}

impl Workspace {
    /// Runs the workload's preparation in its own folder and keeps its outputs.
    pub(crate) fn prepare(ctx: &Context, workload: &FrozenWorkload) -> Result<(Self, Option<PreparationResult>), Failure> {
        let work = indicator(workload)?;
        let Some(prepare) = &work.prepare else {
            return Ok((Self { files: place_pinned(ctx, work, &pinned_folder(ctx, workload)?)?, failure: None }, None));
        };
        let folder = prepare_folder(ctx, workload)?;
        place_pinned(ctx, work, &folder)?;
        let prepared = run_preparation(ctx, workload, prepare, &folder)?;
        // Attempts get the pinned bytes, whatever the preparation did to its own copies.
        let mut files = place_pinned(ctx, work, &pinned_folder(ctx, workload)?)?;
        files.extend(prepare.outputs.iter().map(|path| (PathBuf::from(path), folder.join(path))));
        Ok((Self { files, failure: prepared.failure.clone() }, Some(prepared)))
    }

    /// Restores the outputs of an earlier preparation.
    pub(crate) fn restore(ctx: &Context, workload: &FrozenWorkload, prepared: &PreparationResult) -> Result<Self, Failure> {
        let work = indicator(workload)?;
        let folder = prepare_folder(ctx, workload)?;
        let mut files = place_pinned(ctx, work, &pinned_folder(ctx, workload)?)?;
        if prepared.succeeded {
            for path in work.prepare.iter().flat_map(|prepare| &prepare.outputs) {
                let name = output_name(workload, path);
                let made = prepared.outputs.iter().find(|output| output.name == name).ok_or_else(|| {
                    Failure::new(ErrorCode::PreparedOutput, format!("the checkpoint of `{}` lacks `{path}`", workload.name))
                })?;
                place(ctx, made.digest, &folder.join(path), true)?;
                files.push((PathBuf::from(path), folder.join(path)));
            }
        }
        Ok(Self { files, failure: prepared.failure.clone() })
    }

    /// Creates the same folder again, in any state of the old one.
    pub(crate) fn renew_folder(&self, ctx: &Context, name: &str) -> Result<PathBuf, Failure> {
        let folder = ctx.scratch().join(name);
        match remove_folder(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(unwritable(&folder, &error)),
            _ => self.attempt_folder(ctx, name),
        }
    }

    /// Returns the reason why the script would not run in a virtual environment: its first line names the path of an interpreter.
    pub(crate) fn fixed_interpreter(&self) -> Option<Reason> {
        let (_, script) = self.files.iter().find(|(path, _)| path == Path::new(SCRIPT))?;
        let mut line = Vec::new();
        let file = fs::File::open(script).ok()?;
        BufReader::new(file.take(MAX_FIRST_LINE)).read_until(b'\n', &mut line).ok()?;
        let interpreter = python_of_first_line(&String::from_utf8_lossy(&line))?;
        Some(Reason::new(
            OTHER_INTERPRETER,
            format!(
                "the script begins with `#!{interpreter}`, and would not run with the packages of its variant; write `#!/usr/bin/env python3`"
            ),
        ))
    }

    /// Creates a folder with all files in it, for one attempt.
    pub(crate) fn attempt_folder(&self, ctx: &Context, name: &str) -> Result<PathBuf, Failure> {
        let folder = fresh_folder(ctx, name)?;
        for (path, from) in &self.files {
            let to = folder.join(path);
            make_parent(&to)?;
            fs::copy(from, &to).map_err(|error| unwritable(&to, &error))?;
        }
        Ok(folder)
    }
}

/// Returns the Python interpreter that the first line of a script names by its path.
fn python_of_first_line(line: &str) -> Option<String> {
    let program = line.strip_prefix("#!")?.split_whitespace().next()?;
    let is_python = Path::new(program).file_name()?.to_str()?.starts_with("python");
    is_python.then(|| program.escape_debug().to_string())
}

fn indicator(workload: &FrozenWorkload) -> Result<&IndicatorWork, Failure> {
    workload.indicator.as_ref().ok_or_else(|| Failure::new(ErrorCode::Internal, format!("`{}` is no indicator", workload.name)))
}

fn place_pinned(ctx: &Context, work: &IndicatorWork, folder: &Path) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let mut files = Vec::new();
    if let Some(script) = &work.script {
        files.push((PathBuf::from(SCRIPT), place_file(ctx, script, folder, SCRIPT, true)?));
    }
    for file in &work.files {
        files.push((PathBuf::from(&file.path), place_file(ctx, file, folder, &file.path, file.executable)?));
    }
    Ok(files)
}

fn place_file(ctx: &Context, file: &PinnedFile, folder: &Path, path: &str, executable: bool) -> Result<PathBuf, Failure> {
    let to = folder.join(path);
    place(ctx, file.artifact.digest, &to, executable)?;
    Ok(to)
}

/// Puts an artifact at a path and checks its digest.
fn place(ctx: &Context, digest: Digest, to: &Path, executable: bool) -> Result<(), Failure> {
    make_parent(to)?;
    ctx.write_to(&digest, to)?;
    let mode = if executable { 0o755 } else { 0o644 };
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(|error| unwritable(to, &error))
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error)),
        None => Ok(()),
    }
}

/// Returns the folder in which a workload's preparation runs.
fn prepare_folder(ctx: &Context, workload: &FrozenWorkload) -> Result<PathBuf, Failure> {
    fresh_folder(ctx, &format!("prepare-{}", workload.name))
}

/// Returns the folder of a workload's pinned files, from which attempts copy them.
fn pinned_folder(ctx: &Context, workload: &FrozenWorkload) -> Result<PathBuf, Failure> {
    fresh_folder(ctx, &format!("pinned-{}", workload.name))
}

/// Removes a folder with all that is in it, folders included that a program made read-only, as Go does with its cache of modules.
pub(crate) fn remove_folder(folder: &Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            make_writable(folder)?;
            fs::remove_dir_all(folder)
        }
        removed => removed,
    }
}

/// Makes a folder and those below it writable. Links are not followed.
fn make_writable(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

fn fresh_folder(ctx: &Context, name: &str) -> Result<PathBuf, Failure> {
    let folder = ctx.scratch().join(name);
    fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    Ok(folder)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Scratch, format!("cannot write `{}`", path.display())).because(error)
}

fn output_name(workload: &FrozenWorkload, path: &str) -> String {
    format!("prepared/{}/files/{path}", workload.name)
}

fn run_preparation(
    ctx: &Context,
    workload: &FrozenWorkload,
    prepare: &PrepareCommand,
    folder: &Path,
) -> Result<PreparationResult, Failure> {
    let (stdout, stderr) = (Capture::new(ctx)?, Capture::new(ctx)?);
    let command = preparation(prepare, folder, &stdout, &stderr)?;
    let limit = Duration::from_nanos(prepare.time_limit_ns.0);
    let (exit_code, mut failure) = match spawner()?.spawn(command) {
        Ok(child) => {
            let ended = capture::wait(child, limit, ctx, [&stdout, &stderr])?;
            ctx.check_cancelled()?;
            let code = match ended.status {
                assay_process::Status::Exited(code) => Some(code),
                assay_process::Status::Signaled(_) => None,
            };
            let failure = match ended {
                _ if [&stdout, &stderr].iter().any(|output| output.is_exceeded()) => Some(describe_excess("preparation")),
                ended if ended.timed_out => Some(format!("the preparation ran into its time limit of {limit:?}")),
                ended if !ended.status.is_success() => Some(format!("the preparation ended with {}", ended.status)),
                _ => None,
            };
            (code, failure)
        }
        Err(error) => (None, Some(format!("the preparation did not start: {}", chain(&error)))),
    };
    let mut outputs = Vec::new();
    for (name, log) in [("stdout", stdout), ("stderr", stderr)] {
        outputs
            .push(log.keep(ctx, format!("prepared/{}/{name}", workload.name), &Secrets::default(), Excerpt::First(0))?.artifact);
    }
    for path in &prepare.outputs {
        match made_file(&folder.join(path)) {
            Ok(file) => outputs.push(ctx.put_file(output_name(workload, path), "application/octet-stream", &file)?),
            Err(why) => failure = failure.or(Some(format!("the preparation did not make `{path}`: {why}"))),
        }
    }
    Ok(PreparationResult { workload: workload.name.clone(), succeeded: failure.is_none(), failure, exit_code, outputs })
}

pub(crate) fn chain(error: &assay_process::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn preparation(prepare: &PrepareCommand, folder: &Path, stdout: &Capture, stderr: &Capture) -> Result<Command, Failure> {
    let Some((program, arguments)) = prepare.command.split_first() else {
        return Err(Failure::new(ErrorCode::Prepare, "the preparation has an empty command"));
    };
    let mut command = Command::new(program).args(arguments);
    command.env = base_environment(folder).into_iter().map(|(name, value)| (name.into(), value)).collect();
    command.cwd = Some(folder.to_owned());
    command.stdout = stdout.output();
    command.stderr = stderr.output();
    Ok(command)
}

/// Returns the environment of every measured program and preparation: no variable that could hold a secret or change with the
/// user.
pub(crate) fn base_environment(folder: &Path) -> Vec<(&'static str, std::ffi::OsString)> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    vec![
        ("PATH", path),
        ("HOME", folder.into()),
        ("TMPDIR", folder.into()),
        ("LANG", "C.UTF-8".into()),
        ("LC_ALL", "C.UTF-8".into()),
    ]
}

fn made_file(path: &Path) -> Result<PathBuf, String> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(path.to_owned()),
        Ok(_) => Err("it is not a plain file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the thread that starts all children of this process.
pub(crate) fn spawner() -> Result<&'static Spawner, Failure> {
    static SPAWNER: std::sync::OnceLock<Spawner> = std::sync::OnceLock::new();
    if let Some(spawner) = SPAWNER.get() {
        return Ok(spawner);
    }
    let started = Spawner::start().map_err(|error| Failure::new(ErrorCode::Spawner, "cannot start a thread").because(&error))?;
    Ok(SPAWNER.get_or_init(|| started))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_a_program_made_read_only_become_writable() {
        let outer = tempfile::tempdir().expect("a folder");
        let beside = outer.path().join("beside");
        fs::create_dir(&beside).expect("created");
        let (folder, inner) = (outer.path().join("home"), outer.path().join("home/go/pkg"));
        fs::create_dir_all(&inner).expect("created");
        fs::write(inner.join("file"), "x").expect("written");
        std::os::unix::fs::symlink(&beside, inner.join("link")).expect("linked");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        for path in [&beside, &inner, &outer.path().join("home/go")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o555)).expect("read-only");
        }
        make_writable(&folder).expect("writable");
        assert_eq!((mode(&folder), mode(&inner), mode(&beside)), (0o700, 0o700, 0o555));
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o555)).expect("read-only");
        remove_folder(&folder).expect("removed");
        assert!(!folder.exists() && beside.exists());
    }

    #[test]
    fn only_a_path_of_python_is_another_interpreter() {
        let found = |line: &str| python_of_first_line(line);
        assert_eq!(found("#!/usr/bin/python3 -u\n").as_deref(), Some("/usr/bin/python3"));
        assert_eq!(found("#! /opt/python3.12/bin/python3.12").as_deref(), Some("/opt/python3.12/bin/python3.12"));
        for line in ["#!/usr/bin/env python3", "#!/bin/sh", "import numpy", "", "#!"] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
