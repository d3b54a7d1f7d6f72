//! The programs that resolve stacks: uv writes lock files, pip lists the versions of a package.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_process::{Cancel, Command, Output, Spawner};
use assay_stage::{ErrorCode, Failure};
use tempfile::TempDir;

use crate::commands::stacks::selection::{Resolution, Resolve};

/// The longest that one resolution may take.
const TIME_LIMIT: Duration = Duration::from_mins(10);

/// The most bytes of an output that are read.
const MAX_OUTPUT: u64 = 4 << 20;

/// The most characters of a resolver's last line that are kept.
const MAX_REASON: usize = 400;

/// The remedy for an absent uv.
const UV_HINT: &str = "install it with `pip install uv`, or name lock files that you have with `--locks FOLDER`";

/// uv, and the pip of an interpreter.
pub(crate) struct Uv {
    spawner: Spawner,
    /// Never cancelled: a signal ends this process, and its children with it.
    cancel: Cancel,
    folder: TempDir,
    requirements: PathBuf,
    interpreter: String,
    /// Its name and version, such as `uv 0.5.1`.
    pub(crate) version: String,
}

/// The result of a program: its stdout, or the last line of its stderr.
type Printed = Result<String, String>;

impl Uv {
    /// Finds uv in PATH, for the Python that `interpreter` names.
    pub(crate) fn find(requirements: &Path, interpreter: &str) -> Result<Self, Failure> {
        let spawner = Spawner::start().map_err(|error| Failure::from_error(ErrorCode::Spawner, &error))?;
        let cancel =
            Cancel::new().map_err(|error| Failure::new(ErrorCode::Descriptors, "no file descriptor is left").because(&error))?;
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::new(ErrorCode::Scratch, "cannot make a temporary folder").because(&error))?;
        let requirements = std::path::absolute(requirements).unwrap_or_else(|_| requirements.to_owned());
        let mut uv = Self { spawner, cancel, folder, requirements, interpreter: interpreter.to_owned(), version: String::new() };
        let printed = uv.start(&["uv", "--version"]).map_err(|error| {
            Failure::new(ErrorCode::ResolverAbsent, "the resolver `uv` cannot be started").because(&error).hint(UV_HINT)
        })?;
        let printed = printed
            .map_err(|why| Failure::new(ErrorCode::ResolverAbsent, format!("`uv --version` failed: {why}")).hint(UV_HINT))?;
        uv.version = printed.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        Ok(uv)
    }

    fn start(&self, words: &[&str]) -> Result<Printed, assay_process::Error> {
        let (stdout, stderr) = (self.folder.path().join("stdout"), self.folder.path().join("stderr"));
        let Some((program, arguments)) = words.split_first() else { return Ok(Ok(String::new())) };
        let command = Command {
            stdout: Output::File(stdout.clone()),
            stderr: Output::File(stderr.clone()),
            ..Command::new(OsString::from(program)).args(arguments.iter().copied()).inherit_env()
        };
        let ended = self.spawner.spawn(command)?.wait(Some(TIME_LIMIT), &self.cancel)?;
        if ended.timed_out {
            return Ok(Err(format!("`{program}` ran into its time limit of {TIME_LIMIT:?}")));
        }
        Ok(if ended.status.is_success() {
            Ok(read(&stdout))
        } else {
            Err(last_line(&read(&stderr)).unwrap_or(ended.status.to_string()))
        })
    }

    fn run(&self, words: &[&str]) -> Result<Printed, Failure> {
        self.start(words).map_err(|error| Failure::from_error(ErrorCode::Process, &error))
    }
}

impl Resolve for Uv {
    fn lock(&mut self, wanted: &Resolution<'_>) -> Result<Result<String, String>, Failure> {
        let (output, constraints) = (self.folder.path().join("lock.txt"), self.folder.path().join("constraints.txt"));
        let unwritable = |error: std::io::Error| {
            Failure::new(ErrorCode::Scratch, format!("cannot write `{}`", output.display())).because(&error)
        };
        // uv keeps the versions of a lock file that is there.
        std::fs::write(&output, wanted.kept.unwrap_or_default()).map_err(unwritable)?;
        let pins: Vec<String> = wanted.pins.iter().map(|(name, version)| format!("{name}=={version}\n")).collect();
        std::fs::write(&constraints, pins.concat()).map_err(unwritable)?;
        let moved = wanted.moved.map(|(name, version)| format!("--upgrade-package={name}=={version}"));
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let (requirements, constraints, target) = (path(&self.requirements), path(&constraints), path(&output));
        let mut words = vec![
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
            "--only-binary",
            ":all:",
            "--python",
            &self.interpreter,
            "--constraints",
            &constraints,
            "--output-file",
            &target,
        ];
        words.extend(moved.as_deref());
        words.push(&requirements);
        Ok(match self.run(&words)? {
            Ok(_) => Ok(read(&output)),
            Err(why) => Err(why),
        })
    }

    fn versions(&mut self, package: &str) -> Result<Result<Vec<String>, String>, Failure> {
        let words = [
            &self.interpreter,
            "-m",
            "pip",
            "index",
            "versions",
            "--only-binary",
            ":all:",
            "--disable-pip-version-check",
            package,
        ];
        Ok(self.run(&words)?.map(|printed| listed_versions(&printed)))
    }
}

/// Returns the versions that `pip index versions` printed, the newest first.
fn listed_versions(printed: &str) -> Vec<String> {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix("Available versions:"));
    line.unwrap_or_default().split(',').map(str::trim).filter(|version| !version.is_empty()).map(str::to_owned).collect()
}

fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    // A file that is absent or cut reads as one with less text, which the caller finds to lack what it needs.
    let _ = std::fs::File::open(path).and_then(|file| file.take(MAX_OUTPUT).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the last paragraph's end of a program's diagnostics in one line: resolvers break their reason into lines of equal width.
fn last_line(stderr: &str) -> Option<String> {
    let lines: Vec<&str> = stderr.lines().map(|line| line.trim_matches(|letter: char| !letter.is_ascii_graphic())).collect();
    let is_hint = |line: &&&str| line.is_empty() || line.starts_with("hint:");
    let end = lines.iter().rposition(|line| !is_hint(&line))?;
    let begin = lines.get(..end)?.iter().rposition(|line| line.is_empty()).map_or(0, |empty| empty + 1);
    let text = lines.get(begin..=end)?.join(" ");
    let reason = text.split_once("Because ").map_or(text.as_str(), |(_, reason)| reason);
    Some(reason.chars().take(MAX_REASON).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_list() {
        assert_eq!(
            listed_versions("six (1.17.0)\nAvailable versions: 1.17.0, 1.16.0\n  INSTALLED: 1.16.0\n"),
            ["1.17.0", "1.16.0"]
        );
        assert!(listed_versions("ERROR\n").is_empty());
    }

    #[test]
    fn a_reason_that_is_broken_into_lines_is_one_line() {
        let uv = "  × No solution found when resolving dependencies:\n  ╰─▶ Because there is no version of pace==9 and you\n      require pace==9, we can conclude that your requirements are\n      unsatisfiable.\n";
        assert_eq!(
            last_line(uv).as_deref(),
            Some(
                "there is no version of pace==9 and you require pace==9, we can conclude that your requirements are unsatisfiable."
            )
        );
        assert_eq!(last_line("error: no\n\nhint: try again\n").as_deref(), Some("error: no"));
        assert_eq!(last_line("\n"), None);
    }
}
