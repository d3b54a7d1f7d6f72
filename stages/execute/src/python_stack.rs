//! The virtual environment of a variant with Python packages: installed once before its first trial, listed, and compared with
//! the lock file. It is no part of a measurement.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_manifest::{InstalledPackage, InstalledStack, Name, PythonInstaller, PythonStack, Reason, normalised_package_name};
use assay_process::Command;
use assay_stage::{Context, ErrorCode, Failure, Secrets};
use serde::Deserialize;

use crate::capture::{self, Capture, Excerpt, describe_excess, last_lines};
use crate::workspace::{base_environment, spawner};

/// The reason code of a variant whose packages could not be installed.
const NOT_INSTALLED: &str = "stack_not_installed";

/// The reason code of a variant whose installed packages are not those of its lock file.
const DIFFERS: &str = "stack_differs";

/// The longest that one program of an installation may take: wheels of a gigabyte over a slow network.
const TIME_LIMIT: Duration = Duration::from_mins(30);

/// The bytes of an output that are read: the list of a thousand packages has a tenth of it.
const MAX_EXCERPT: u64 = 1 << 20;

/// The variables of this process that an installer gets, besides those of its own settings: its caches, its proxies and certificates.
const PASSED: [&str; 14] = [
    "HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
];

/// The beginnings of the names of installers' own settings.
const SETTINGS: [&str; 2] = ["PIP_", "UV_"];

/// The program that lists the packages of the interpreter that runs it, as one JSON document.
const LIST: &str = "import importlib.metadata, json, platform
found = sorted({(str(one.metadata['Name']), str(one.version)) for one in importlib.metadata.distributions()})
print(json.dumps({'python': platform.python_implementation() + ' ' + platform.python_version(), 'packages': found}))";

/// A virtual environment that is ready, or the reason why there is none.
pub(crate) struct VirtualEnvironment {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The reason why the variant cannot be measured.
    pub(crate) failure: Option<Reason>,
}

/// The list of installed packages, as [`LIST`] prints it.
#[derive(Deserialize)]
struct ListedPackages {
    python: String,
    packages: Vec<(String, String)>,
}

impl VirtualEnvironment {
    /// Installs the packages of a variant. A failure is a result: the variant is not measured, and the others are.
    pub(crate) fn install(ctx: &Context, variant: &Name, stack: &PythonStack) -> Result<(Self, InstalledStack), Failure> {
        let installation = Installation::new(ctx, variant, stack)?;
        let mut outputs = Vec::new();
        let found = installation.run(&mut outputs)?;
        let (failure, listed) = match found {
            Ok(listed) => (stack.difference(&listed.packages).map(|difference| differing(&difference)), listed),
            Err(failure) => (Some(failure), Listed::default()),
        };
        let Listed { installer, python, packages } = listed;
        let lock = stack.lock.artifact.digest;
        let installed =
            InstalledStack { variant: variant.clone(), lock, failure: failure.clone(), installer, python, packages, outputs };
        Ok((Self { folder: installation.folder, failure }, installed))
    }

    /// Installs the packages again for a process that resumes the stage. They have to be those of the record.
    pub(crate) fn restore(ctx: &Context, stack: &PythonStack, recorded: &InstalledStack) -> Result<Self, Failure> {
        let folder = folder_of(ctx, &recorded.variant);
        if recorded.failure.is_some() {
            return Ok(Self { folder, failure: recorded.failure.clone() });
        }
        let (ready, installed) = Self::install(ctx, &recorded.variant, stack)?;
        let is_same = (&installed.packages, &installed.python) == (&recorded.packages, &recorded.python);
        match ready.failure {
            None if is_same => Ok(ready),
            failure => {
                let why = failure.map_or_else(|| "its packages or its Python are others".to_owned(), |failure| failure.detail);
                let message = format!("the packages of the variant `{}` cannot be installed again: {why}", recorded.variant);
                Err(Failure::new(ErrorCode::StackNotInstalled, message).lasting())
            }
        }
    }
}

fn differing(difference: &str) -> Reason {
    Reason::new(DIFFERS, format!("what was installed is not what the lock file names: {difference}"))
}

fn folder_of(ctx: &Context, variant: &Name) -> PathBuf {
    ctx.scratch().join("stacks").join(variant.as_str())
}

/// The facts of a finished installation.
#[derive(Default)]
struct Listed {
    installer: Option<String>,
    python: Option<String>,
    packages: Vec<InstalledPackage>,
}

/// One installation: its places, and the environment of its programs.
struct Installation<'a> {
    ctx: &'a Context,
    variant: &'a Name,
    stack: &'a PythonStack,
    folder: PathBuf,
    lock: PathBuf,
    env: BTreeMap<OsString, OsString>,
    secrets: Secrets,
}

impl<'a> Installation<'a> {
    fn new(ctx: &'a Context, variant: &'a Name, stack: &'a PythonStack) -> Result<Self, Failure> {
        let folder = folder_of(ctx, variant);
        let lock = folder.with_extension("txt");
        let unwritable = |error: std::io::Error| {
            Failure::new(ErrorCode::Scratch, format!("cannot write `{}`", folder.display())).because(&error)
        };
        for old in [fs::remove_dir_all(&folder), fs::remove_file(&lock)] {
            if let Err(error) =
                old.or_else(|error| if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
            {
                return Err(unwritable(error));
            }
        }
        let parent = ctx.scratch().join("stacks");
        fs::create_dir_all(&parent).map_err(unwritable)?;
        ctx.write_to(&stack.lock.artifact.digest, &lock)?;
        let passed: Vec<(OsString, OsString)> = std::env::vars_os().filter(|(name, _)| is_passed(name)).collect();
        let secrets = Secrets::new(passed.iter().flat_map(|(name, value)| credentials(name, value)));
        let mut env: BTreeMap<OsString, OsString> =
            base_environment(&parent).into_iter().map(|(name, value)| (name.into(), value)).collect();
        env.extend(passed);
        Ok(Self { ctx, variant, stack, folder, lock, env, secrets })
    }

    /// Runs the steps of the installation. The inner error is the reason why one of them failed.
    fn run(&self, outputs: &mut Vec<assay_manifest::Artifact>) -> Result<Result<Listed, Reason>, Failure> {
        let mut installer = None;
        for Step { name, words } in steps(self.stack, &self.folder, &self.lock) {
            match self.run_step(name, &words, outputs)? {
                Ok(printed) if name == VERSION => installer = version_of(&printed),
                Ok(_) => {}
                Err(why) => return Ok(Err(Reason::new(NOT_INSTALLED, why))),
            }
        }
        let python = self.folder.join("bin/python").into_os_string();
        let words = [python, "-I".into(), "-c".into(), LIST.into()];
        Ok(match self.run_step("list", &words, outputs)? {
            Ok(printed) => match serde_json::from_slice::<ListedPackages>(&printed) {
                Ok(listed) => Ok(Listed { installer, python: Some(listed.python), packages: packages(listed.packages) }),
                Err(error) => Err(Reason::new(NOT_INSTALLED, format!("the list of installed packages cannot be read: {error}"))),
            },
            Err(why) => Err(Reason::new(NOT_INSTALLED, why)),
        })
    }

    /// Runs one program, keeps its outputs and returns its stdout. The inner error is the reason why it failed.
    fn run_step(
        &self,
        name: &str,
        words: &[OsString],
        outputs: &mut Vec<assay_manifest::Artifact>,
    ) -> Result<Result<Vec<u8>, String>, Failure> {
        let Some((program, arguments)) = words.split_first() else { return Ok(Ok(Vec::new())) };
        let (stdout, stderr) = (Capture::new(self.ctx)?, Capture::new(self.ctx)?);
        let command = Command {
            env: self.env.clone(),
            cwd: Some(self.ctx.scratch().join("stacks")),
            stdout: stdout.output(),
            stderr: stderr.output(),
            ..Command::new(program).args(arguments)
        };
        let what = format!("`{}` of the installation", self.shown(words));
        let child = match spawner()?.spawn(command) {
            Ok(child) => child,
            Err(error) => return Ok(Err(format!("{what} did not start: {}", crate::workspace::chain(&error)))),
        };
        let ended = capture::wait(child, TIME_LIMIT, self.ctx, [&stdout, &stderr])?;
        self.ctx.check_cancelled()?;
        let is_exceeded = [&stdout, &stderr].iter().any(|output| output.is_exceeded());
        let place = |output: &str| format!("stacks/{}/{name}/{output}", self.variant);
        let printed = stdout.keep(self.ctx, place("stdout"), &self.secrets, Excerpt::First(MAX_EXCERPT))?;
        let logged = stderr.keep(self.ctx, place("stderr"), &self.secrets, Excerpt::Last(MAX_EXCERPT))?;
        outputs.extend([printed.artifact, logged.artifact]);
        let last = last_lines(&logged.excerpt).map(|lines| format!(": {lines}")).unwrap_or_default();
        Ok(match ended {
            _ if is_exceeded => Err(describe_excess("installation")),
            ended if ended.timed_out => Err(format!("{what} ran into its time limit of {TIME_LIMIT:?}")),
            ended if !ended.status.is_success() => Err(format!("{what} ended with {}{last}", ended.status)),
            _ => Ok(printed.excerpt),
        })
    }

    /// Returns the first words of a step, without the places of this run.
    fn shown(&self, words: &[OsString]) -> String {
        let scratch = self.ctx.scratch();
        let plain = |word: &OsString| !Path::new(word).starts_with(scratch) && !word.to_string_lossy().contains('\n');
        let words: Vec<String> =
            words.iter().filter(|word| plain(word)).map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }
}

/// The name of the step that prints the version of the installer.
const VERSION: &str = "version";

/// One program of an installation.
struct Step {
    name: &'static str,
    words: Vec<OsString>,
}

/// Returns the programs that create the virtual environment and install the packages. Only wheels are installed: a source
/// distribution would be built by tools that no lock file names.
fn steps(stack: &PythonStack, folder: &Path, lock: &Path) -> [Step; 3] {
    let python = folder.join("bin/python");
    let words = |words: &[&OsStr]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<OsString>>();
    let text = |text: &'static str| OsStr::new(text);
    let (interpreter, folder, python, lock) =
        (OsStr::new(&stack.interpreter), folder.as_os_str(), python.as_os_str(), lock.as_os_str());
    let [version, create, install] = match stack.installer {
        PythonInstaller::Pip => [
            words(&[interpreter, text("-m"), text("pip"), text("--version")]),
            words(&[interpreter, text("-m"), text("venv"), text("--without-pip"), folder]),
            words(&[
                interpreter,
                text("-m"),
                text("pip"),
                text("--disable-pip-version-check"),
                text("--no-input"),
                text("--python"),
                python,
                text("install"),
                text("--no-deps"),
                text("--require-hashes"),
                text("--only-binary"),
                text(":all:"),
                text("--requirement"),
                lock,
            ]),
        ],
        PythonInstaller::Uv => [
            words(&[text("uv"), text("--version")]),
            words(&[text("uv"), text("venv"), text("--python"), interpreter, folder]),
            words(&[
                text("uv"),
                text("pip"),
                text("sync"),
                text("--require-hashes"),
                text("--only-binary"),
                text(":all:"),
                text("--compile-bytecode"),
                text("--python"),
                python,
                lock,
            ]),
        ],
    };
    [Step { name: VERSION, words: version }, Step { name: "create", words: create }, Step { name: "install", words: install }]
}

/// Returns the name and the version of the installer, such as `pip 23.2.1`.
fn version_of(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    (words.len() == 2).then(|| words.join(" "))
}

/// Returns the packages with normalised names, sorted.
fn packages(listed: Vec<(String, String)>) -> Vec<InstalledPackage> {
    let package = |(name, version): (String, String)| InstalledPackage { name: normalised_package_name(&name), version };
    let mut packages: Vec<_> = listed.into_iter().map(package).collect();
    packages.sort();
    packages
}

/// Returns true for a variable of this process that an installer gets.
fn is_passed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    PASSED.contains(&name) || SETTINGS.iter().any(|begin| name.starts_with(begin))
}

/// Returns the credentials that a variable of an installer holds: all of it if its name says so, and the user part of an address.
fn credentials(name: &OsStr, value: &OsStr) -> Vec<Vec<u8>> {
    let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
    let is_secret = ["PASSWORD", "TOKEN"].iter().any(|end| name.ends_with(end));
    let users = value.split_whitespace().filter_map(|url| url.split_once("://")?.1.rsplit_once('@')).map(|(user, _)| user);
    let passwords = users.clone().filter_map(|user| user.split_once(':')).map(|(_, password)| password);
    let all = is_secret.then_some(value.as_ref()).into_iter().chain(users).chain(passwords);
    all.filter(|text| !text.is_empty()).map(|text| text.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installer_gets_its_settings_and_no_other_variable() {
        let names =
            ["PIP_INDEX_URL", "UV_CACHE_DIR", "HTTPS_PROXY", "HOME", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "COSIGN_PASSWORD"];
        assert_eq!(names.map(|name| is_passed(OsStr::new(name))), [true, true, true, true, false, false, false]);
    }

    #[test]
    fn credentials_of_an_index_are_known() {
        let found = |name: &str, value: &str| {
            credentials(OsStr::new(name), OsStr::new(value))
                .into_iter()
                .map(|text| String::from_utf8(text).expect("text"))
                .collect::<Vec<_>>()
        };
        assert_eq!(found("PIP_INDEX_URL", "https://me:secret@index.example.org/simple"), ["me:secret", "secret"]);
        assert_eq!(found("UV_INDEX_INNER_PASSWORD", "secret"), ["secret"]);
        assert_eq!(found("PIP_INDEX_URL", "https://pypi.org/simple"), [""; 0]);
    }

    #[test]
    fn the_version_of_an_installer_is_its_first_two_words() {
        assert_eq!(version_of(b"pip 23.2.1 from /usr/lib/pip (python 3.11)\n").as_deref(), Some("pip 23.2.1"));
        assert_eq!(version_of(b"uv 0.5.1\n").as_deref(), Some("uv 0.5.1"));
        assert_eq!(version_of(b"\n"), None);
    }

    #[test]
    fn installed_packages_have_normalised_names() {
        let listed = [("Zope.Interface", "6.0"), ("attrs", "24.2")].map(|(name, version)| (name.to_owned(), version.to_owned()));
        let names: Vec<_> = packages(listed.to_vec()).into_iter().map(|package| package.name).collect();
        assert_eq!(names, ["attrs", "zope-interface"]);
    }
}
