//! The files of one user in a temporary folder: a repository with a small pipeline, a home, keys, and the programs under test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

/// The pipeline that every fixture has.
pub(crate) const PIPELINE: &str = "pipelines/fixture.yaml";

/// The longest that a test waits for an event: far longer than any event takes, even on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_mins(1);

/// The interval at which a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns the path of a binary of this workspace, beside the folder of this test.
pub(crate) fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    // target/<profile>/deps/it-<hash>
    let profile = test.parent().and_then(Path::parent).expect("tests lie in target/<profile>/deps");
    let path = profile.join(name);
    assert!(
        path.is_file(),
        "`{}` is not there: run `cargo build --bins` for the same profile before these tests",
        path.display()
    );
    path
}

/// The exit code and the output of a finished command.
#[derive(Clone, Debug)]
pub(crate) struct CommandResult {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandResult {
    /// A program that was ended by a signal gets the exit code that a shell would report.
    pub(crate) fn from_output(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let code = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
        let text = |bytes| String::from_utf8(bytes).expect("programs print UTF-8");
        Self { code: code.expect("a code or a signal"), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Asserts exit code 0.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        self.exits(0)
    }

    /// Asserts an exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts an exit code and an error code.
    #[track_caller]
    pub(crate) fn refuses(self, code: i32, error: &str) -> Self {
        assert_eq!(
            (self.code, self.error().as_deref()),
            (code, Some(error)),
            "stdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Returns the error code: `store_uri` of `error[store_uri]: ...`.
    pub(crate) fn error(&self) -> Option<String> {
        let rest = self.stderr.split("error[").nth(1)?;
        rest.split_once(']').map(|(code, _)| code.to_owned())
    }

    /// Parses stdout as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{}\n{}", self.stdout, self.stderr))
    }

    /// Parses the events that a stage printed, one JSON document per line.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).expect("every line of a stage is an event")).collect()
    }
}

/// One user's files, all under one folder, which is removed when the fixture is dropped.
pub(crate) struct Fixture {
    folder: TempDir,
    environment: BTreeMap<String, OsString>,
    finished: OnceLock<PathBuf>,
}

impl Fixture {
    /// Creates a repository whose only commit holds the fixture pipeline over two indicators, each a script of a few
    /// milliseconds.
    pub(crate) fn new() -> Self {
        let fixture = Self::bare();
        fixture.two_indicators();
        fixture
    }

    fn two_indicators(&self) {
        self.write(PIPELINE, &pipeline("exploratory", &["first", "second"], 3, ""));
        for name in ["first", "second"] {
            self.indicator(name, &steady_script(name), "");
        }
        self.commit("two indicators");
    }

    /// Creates a repository whose only commit holds the fixture pipeline over one indicator with this script.
    pub(crate) fn with_script(script: &str) -> Self {
        Self::with_pipeline(script, &pipeline("exploratory", &["only"], 3, ""))
    }

    /// Creates a repository whose only commit holds this pipeline, over one indicator `only` with this script.
    pub(crate) fn with_pipeline(script: &str, pipeline: &str) -> Self {
        let fixture = Self::bare();
        fixture.write(PIPELINE, pipeline);
        fixture.indicator("only", script, "");
        fixture.commit("one indicator");
        fixture
    }

    /// Creates an empty repository, and keys that are cheap to unlock.
    pub(crate) fn bare() -> Self {
        let fixture = Self::without_keys();
        copy_folder(shared_keys(), &fixture.config());
        fixture
    }

    /// Like [`Fixture::bare`], for a fixture that all tests of this process share: a later process removes it.
    pub(crate) fn shared() -> Self {
        let fixture = Self::below(shared_folder());
        copy_folder(shared_keys(), &fixture.config());
        fixture
    }

    /// Creates an empty repository without keys.
    pub(crate) fn without_keys() -> Self {
        Self::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("assay-it-").tempdir_in(parent).expect("a folder for the fixture");
        let fixture = Self { environment: environment(folder.path()), folder, finished: OnceLock::new() };
        for made in [fixture.repo(), fixture.home(), fixture.scratch()] {
            fs::create_dir_all(made).expect("a folder of the fixture");
        }
        fixture.git(&["init", "--quiet", "--initial-branch=main"]);
        fixture
    }

    /// Returns the folder of all files. It is in the environment of every process that was started for this fixture.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Returns the work tree.
    pub(crate) fn repo(&self) -> PathBuf {
        self.root().join("repo")
    }

    /// Returns the user's home.
    pub(crate) fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Returns the folder of keys and trust.
    pub(crate) fn config(&self) -> PathBuf {
        self.root().join("config")
    }

    /// Returns the folder of temporary files.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.root().join("tmp")
    }

    /// Returns a copy of the store's runs and their blobs, as they were when this was first called. No command changes its files: they are
    /// there to be linked.
    pub(crate) fn finished_runs(&self) -> &Path {
        self.finished.get_or_init(|| {
            let copy = self.root().join("finished");
            for folder in ["runs", "cases", "warehouse", "blobs"] {
                copy_folder(&self.store().join(folder), &copy.join(folder));
            }
            copy
        })
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> PathBuf {
        self.repo().join(".assay")
    }

    /// Returns the published folder of a run.
    pub(crate) fn published(&self, run_id: &str) -> PathBuf {
        self.store().join("published").join(run_id)
    }

    /// Returns the path of a role's private key.
    pub(crate) fn key(&self, role: &str) -> PathBuf {
        self.config().join("keys").join(format!("{role}.key"))
    }

    /// Returns the path of the local trust root.
    pub(crate) fn trust(&self) -> PathBuf {
        self.config().join("trust.yaml")
    }

    /// Sets a variable for every program that this fixture starts from now on.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.insert(name.to_owned(), value.into());
    }

    /// Removes a variable.
    pub(crate) fn unset(&mut self, name: &str) {
        self.environment.remove(name);
    }

    /// Writes a file of the work tree.
    pub(crate) fn write(&self, path: &str, text: &str) {
        write_file(&self.repo().join(path), text.as_bytes());
    }

    pub(crate) fn write_bytes(&self, path: &str, bytes: &[u8]) {
        write_file(&self.repo().join(path), bytes);
    }

    /// Writes a workload `name` with this script, and these further lines of its `spec`.
    pub(crate) fn indicator(&self, name: &str, script: &str, more: &str) {
        self.write(&format!("workloads/{name}/workload.yaml"), &workload(name, more));
        self.write(&format!("workloads/{name}/run.sh"), script);
        let path = self.repo().join(format!("workloads/{name}/run.sh"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script can be made executable");
    }

    /// Commits all changes and returns the commit.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Runs Git in the repository and returns its stdout.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = self.command(Path::new("git"));
        command.args(["-c", "user.name=A Tester", "-c", "user.email=tester@example.org"]).args(arguments);
        CommandResult::from_output(command.output().expect("git runs")).success().stdout
    }

    /// Returns a command that starts a program in the repository, with the fixture's environment and no other variables.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.environment).current_dir(self.repo()).stdin(Stdio::null());
        command
    }

    /// Runs `assay` to its end.
    pub(crate) fn assay(&self, arguments: &[&str]) -> CommandResult {
        self.program("assay", arguments)
    }

    /// Runs `assay` to its end in a folder other than the repository.
    pub(crate) fn assay_in(&self, folder: &Path, arguments: &[&str]) -> CommandResult {
        let mut command = self.command(&binary("assay"));
        CommandResult::from_output(command.args(arguments).current_dir(folder).output().expect("the binary runs"))
    }

    /// Runs a binary of this workspace to its end.
    pub(crate) fn program(&self, name: &str, arguments: &[&str]) -> CommandResult {
        CommandResult::from_output(self.command(&binary(name)).args(arguments).output().expect("the binary runs"))
    }

    /// Starts `assay`, for tests that stop it.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(&binary("assay"));
        command.args(arguments);
        Self::spawn_command(command)
    }

    /// Starts a command whose output is read at its end.
    pub(crate) fn spawn_command(mut command: Command) -> Running {
        Running(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts"))
    }

    /// Runs the fixture pipeline with a run id.
    pub(crate) fn run(&self, run_id: &str) -> CommandResult {
        self.assay(&["run", PIPELINE, "--run-id", run_id])
    }

    /// Verifies a run.
    pub(crate) fn verify(&self, run: &str) -> CommandResult {
        self.assay(&["verify", run])
    }

    /// Checks that a run reaches level 4: reduce gives the same rows again.
    #[track_caller]
    pub(crate) fn verify_recomputed(&self, run: &str) {
        let verified = self.assay(&["verify", run, "--recompute"]).success();
        assert!(verified.stdout.contains("level 4 (recomputed) of 4 reached"), "{}", verified.stdout);
    }

    /// Returns the only pointer of a stage of a run: digests of the manifest and of its bundle. `source` stands for the run's
    /// Source.
    pub(crate) fn pointer(&self, run_id: &str, stage: &str) -> Pointer {
        let pointers = self.pointers(run_id, stage);
        assert_eq!(pointers.len(), 1, "pointers of {stage}: {pointers:?}");
        pointers.into_iter().next().expect("one pointer")
    }

    /// Returns all pointers of a stage of a run.
    pub(crate) fn pointers(&self, run_id: &str, stage: &str) -> Vec<Pointer> {
        Pointer::list(&self.store(), run_id, stage)
    }

    /// Returns the only manifest of a stage of a run.
    pub(crate) fn manifest(&self, run_id: &str, stage: &str) -> Value {
        self.pointer(run_id, stage).load(&self.store())
    }

    /// Returns the command lines of this fixture's processes that still run; empty if all have exited.
    ///
    /// Every program that Assay starts, down to a measured script, has a variable that names a folder of this fixture.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        processes_with(&self.root().display().to_string())
    }

    /// Replaces the parts of a text that differ from run to run.
    pub(crate) fn blank(&self, text: &str) -> String {
        let mut text = text.replace(&self.root().display().to_string(), "[ROOT]");
        if let Some(canonical) = self.root().canonicalize().ok().filter(|canonical| *canonical != self.root()) {
            text = text.replace(&canonical.display().to_string(), "[ROOT]");
        }
        blank(&text)
    }

    /// Formats the whole result of a command for a snapshot.
    pub(crate) fn format_result(&self, ran: &CommandResult) -> String {
        let part = |name: &str, text: &str| match text.trim_end() {
            "" => format!("----- {name}: nothing -----\n"),
            text => format!("----- {name} -----\n{}\n", self.blank(text)),
        };
        format!("exit code {}\n{}{}", ran.code, part("stdout", &ran.stdout), part("stderr", &ran.stderr))
    }
}

/// Returns two finished runs of one commit, `one` and `two`, for tests that only read, or change a copy.
pub(crate) fn measured_fixture() -> &'static Fixture {
    static MEASURED: OnceLock<Fixture> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let fixture = Fixture::shared();
        fixture.two_indicators();
        for run_id in ["one", "two"] {
            fixture.run(run_id).success();
        }
        fixture
    })
}

/// A running `assay`.
pub(crate) struct Running(Child);

impl Running {
    /// Sends a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("the process takes a signal");
    }

    /// Waits until the process ends.
    pub(crate) fn finish(self) -> CommandResult {
        CommandResult::from_output(self.0.wait_with_output().expect("the process can be waited for"))
    }
}

/// The accepted result of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The file that holds the pointer.
    pub(crate) path: PathBuf,
    /// The digest of the manifest, with its algorithm.
    pub(crate) manifest: String,
    /// The digest of the bundle.
    pub(crate) bundle: String,
}

impl Pointer {
    /// Reads a pointer.
    pub(crate) fn read(path: &Path) -> Self {
        let json: Value = serde_json::from_slice(&fs::read(path).expect("the pointer is there")).expect("a pointer is JSON");
        let digest = |name: &str| json[name].as_str().expect("a pointer names two digests").to_owned();
        Self { path: path.to_owned(), manifest: digest("manifest"), bundle: digest("bundle") }
    }

    /// Lists all pointers of a stage of a run, in the order of their paths.
    pub(crate) fn list(store: &Path, run_id: &str, stage: &str) -> Vec<Self> {
        let folder = store.join("runs").join(run_id).join(stage);
        if folder.is_file() {
            return vec![Self::read(&folder)];
        }
        let accepted = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "accepted") || stage == "ends";
        files_under(&folder).iter().filter(|path| accepted(path)).map(|path| Self::read(path)).collect()
    }

    /// Reads the manifest that the pointer names.
    pub(crate) fn load(&self, store: &Path) -> Value {
        serde_json::from_slice(&fs::read(blob(store, &self.manifest)).expect("the manifest is there")).expect("JSON")
    }

    /// Formats the pointer as a stage's `--input` takes it.
    pub(crate) fn input(&self) -> String {
        format!("{},{}", self.manifest, self.bundle)
    }

    /// Makes the pointer name another manifest and bundle.
    pub(crate) fn redirect(&self, manifest: &str, bundle: &str) {
        write_file(&self.path, format!(r#"{{"bundle":"{bundle}","manifest":"{manifest}"}}"#).as_bytes());
    }
}

/// Returns the path of a digest's bytes in a store.
pub(crate) fn blob(store: &Path, digest: &str) -> PathBuf {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    store.join("blobs/sha256").join(&hex[..2]).join(hex)
}

/// Returns a pipeline over these workloads on this machine; `more` is further lines of its `spec`, indented by two.
pub(crate) fn pipeline(intent: &str, workloads: &[&str], trials: u32, more: &str) -> String {
    format!(
        "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: fixture}}
spec:
  intent: {intent}
  workloads: [{}]
  targets:
    - {{name: local, kind: host}}
  trials: {{count: {trials}, retry_budget: 0}}
{more}",
        workloads.join(", ")
    )
}

/// Returns a workload whose script reports `speed` in MB/s; `more` is further lines of its `spec`, indented by two.
pub(crate) fn workload(name: &str, more: &str) -> String {
    format!(
        "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: {name}}}
spec:
  type: indicator
  script: {{path: run.sh}}
  metrics:
    - {{path: speed, unit: MB/s, better: higher}}
{more}"
    )
}

/// Returns a script that only reports samples.
pub(crate) fn steady_script(name: &str) -> String {
    script(&format!("echo '{}'", indicator_output(name, "[100.25, 101.5, 99.75]")))
}

/// Returns a shell script.
pub(crate) fn script(body: &str) -> String {
    format!("#!/bin/sh\nset -eu\n{body}\n")
}

/// Returns the output of an indicator whose `speed` is this JSON value.
pub(crate) fn indicator_output(name: &str, speed: &str) -> String {
    format!(r#"{{"name": "{name}", "component": "fixture", "@parameters": {{}}, "@result": {{"speed": {speed}}}}}"#)
}

/// Lists the files under a folder, in order; empty if the folder does not exist.
pub(crate) fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("a folder can be listed").path();
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Copies a folder with its contents.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    for_each_file(from, to, |path, copy| {
        // A file that is there may be a link, whose bytes others read.
        let _ = fs::remove_file(copy);
        fs::copy(path, copy).expect("a file can be copied");
        // The times of a store's files tell which blobs were put again after a run.
        let modified = fs::metadata(path).and_then(|found| found.modified()).expect("a time");
        fs::File::open(copy).and_then(|file| file.set_modified(modified)).expect("a time can be set");
    });
}

/// Links the files of a folder, for a copy in which files are replaced and never written into: a copy costs more than what is tried with it.
pub(crate) fn link_folder(from: &Path, to: &Path) {
    for_each_file(from, to, |path, link| fs::hard_link(path, link).expect("a file can be linked"));
}

/// Calls a function with each file of a folder and its path in another one, whose folders it creates.
fn for_each_file(from: &Path, to: &Path, place: impl Fn(&Path, &Path)) {
    fs::create_dir_all(to).expect("the copy's folder");
    for path in files_under(from) {
        let copy = to.join(path.strip_prefix(from).expect("a file of the folder"));
        fs::create_dir_all(copy.parent().expect("a file lies in a folder")).expect("a folder of the copy");
        place(&path, &copy);
    }
}

/// Writes a file, replacing an existing one, and creates the folders above it.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("the file's folder");
    // Blobs are read-only, but a new file may replace one.
    let _ = fs::remove_file(path);
    fs::write(path, bytes).expect("a file can be written");
}

/// Polls until a condition holds: for conditions without a notification, such as a file that another process writes.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {WAIT_LIMIT:?} in vain: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Replaces times, durations, digests and other parts of a text that differ between runs.
pub(crate) fn blank(text: &str) -> String {
    static FILTERS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        [
            (r"sha256:[0-9a-f]{64}", "sha256:[DIGEST]"),
            (r"\b[0-9a-f]{64}\b", "[DIGEST]"),
            (r"\b[0-9a-f]{40}\b", "[COMMIT]"),
            (r"\b[0-9a-f]{16}\b", "[ROW]"),
            (r"\b[0-9a-f]{12}\b", "[SHORT]"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[TIME]"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?", "[TIME]"),
            // Columns are padded to the width of the replaced text.
            (r" +\d+(\.\d+)?\s?(ns|us|µs|ms|s|min)\b", " [DURATION]"),
            (r"\b\d+(\.\d+)?\s?(ns|us|µs|ms|s|min)\b", "[DURATION]"),
        ]
        .map(|(pattern, blank)| (Regex::new(pattern).expect("a pattern of this list"), blank))
        .into()
    });
    FILTERS.iter().fold(text.to_owned(), |text, (pattern, blank)| pattern.replace_all(&text, *blank).into_owned())
}

/// Returns the processes whose environment contains `marker`, by id and command line, without this test's own process.
fn processes_with(marker: &str) -> Vec<String> {
    let own = std::process::id();
    let ids =
        fs::read_dir("/proc").expect("processes can be listed").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = ids.filter_map(|name| name.parse::<u32>().ok()).filter(|id| *id != own);
    let marked = ids.filter(|id| {
        // A process that has exited meanwhile, or that belongs to another user, is not of this fixture.
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(marker)
    });
    let named = |id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        format!("{id}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
    };
    marked.map(named).collect()
}

/// Returns the environment of every program of a fixture: enough to run, and no variable of the user who runs the tests.
fn environment(root: &Path) -> BTreeMap<String, OsString> {
    let path = std::env::var_os("PATH").expect("PATH is set");
    let text = |text: &str| OsString::from(text);
    [
        ("PATH", path),
        ("HOME", root.join("home").into()),
        ("TMPDIR", root.join("tmp").into()),
        ("ASSAY_CONFIG", root.join("config").into()),
        ("GIT_CONFIG_GLOBAL", text("/dev/null")),
        ("GIT_CONFIG_NOSYSTEM", text("1")),
        ("GIT_AUTHOR_DATE", text("2026-01-02T03:04:05Z")),
        ("GIT_COMMITTER_DATE", text("2026-01-02T03:04:05Z")),
        ("COLUMNS", text("100")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Returns keys that are cheap to unlock, made once for all tests of this process.
fn shared_keys() -> &'static Path {
    static KEYS: OnceLock<PathBuf> = OnceLock::new();
    KEYS.get_or_init(|| {
        let fixture = Fixture::without_keys();
        fixture.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
        let kept = shared_folder().join("keys");
        copy_folder(&fixture.config(), &kept);
        kept
    })
}

/// Returns a folder that all tests of this process share. A later process removes it, because statics are never dropped.
pub(crate) fn shared_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let gone = |id: &str| !Path::new("/proc").join(id).exists();
            if name.strip_prefix("it-").is_some_and(gone) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = parent.join(format!("it-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder below the target folder");
        folder
    })
}
