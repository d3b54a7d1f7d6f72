//! Runs the `git` program, which uses the user's keys, proxies and credential helpers.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use assay_process::{Cancel, Command, Output, Spawner, Status};

use crate::address::PROTOCOLS;
use crate::remote::REMOTE_LIMIT;
use crate::{Remote, RemoteError};

/// The number of bytes of git's stderr in an error: its last lines name the failure.
const MAX_STDERR_BYTES: u64 = 4 << 10;
/// The most bytes of git's stdout: some lines of names and ids.
const MAX_STDOUT_BYTES: u64 = 1 << 20;
/// The variables of the user's `GIT_` environment that git gets: those for reaching remotes, and the user's identity. Variables
/// that redirect git to another repository are removed.
const KEPT_VARIABLES: [&str; 13] = [
    "GIT_ASKPASS",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
];

/// Git, run in a scratch repository to reach one remote.
pub(crate) struct Git<'a> {
    remote: &'a Remote,
    /// The scratch repository, which is bare.
    into: &'a Path,
    spawner: &'a Spawner,
    cancel: &'a Cancel,
    /// True if the user has configured an ssh program for git.
    has_own_ssh: bool,
}

/// The result of a call of git.
pub(crate) struct GitOutput {
    pub(crate) status: Status,
    /// Its stdout.
    pub(crate) stdout: String,
    /// The end of its stderr, without secrets.
    pub(crate) stderr: String,
}

impl<'a> Git<'a> {
    /// Returns a git runner for one remote, in the scratch folder `into`.
    pub(crate) fn new(remote: &'a Remote, into: &'a Path, spawner: &'a Spawner, cancel: &'a Cancel) -> Result<Self, RemoteError> {
        let git = Self { remote, into, spawner, cancel, has_own_ssh: true };
        let has_own_ssh = git.call("config", &["config", "--get", "core.sshCommand"], into)?.status.is_success();
        Ok(Self { has_own_ssh, ..git })
    }

    /// Runs a command, and returns its stdout if it succeeds.
    pub(crate) fn run(&self, command: &'static str, args: &[&str]) -> Result<String, RemoteError> {
        let ran = self.run_to_end(command, args)?;
        if ran.status.is_success() { Ok(ran.stdout) } else { Err(self.refusal(command, ran)) }
    }

    /// Runs a command, and returns its result whether it succeeds or not.
    pub(crate) fn run_to_end(&self, command: &'static str, args: &[&str]) -> Result<GitOutput, RemoteError> {
        // Before `init`, there is no repository; every other command names it, independent of the user's settings.
        let repository: &[&str] = if command == "init" { &[] } else { &["--git-dir=."] };
        self.call(command, &[repository, &[command], args].concat(), self.into)
    }

    /// Returns the configured name and address of the user, in the checkout if there is one; `None` if git would guess them.
    pub(crate) fn identity(&self, checkout: Option<&Path>) -> Option<(String, String)> {
        let args = ["-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"];
        let ran = self.call("var", &args, checkout.unwrap_or(self.into)).ok()?;
        // `A. Person <a@example.org> 1700000000 +0000`
        let (name, rest) = ran.stdout.split_once(" <")?;
        let (email, _) = rest.split_once('>')?;
        ran.status.is_success().then(|| (name.to_owned(), email.to_owned()))
    }

    /// Returns the error of a failed command.
    pub(crate) fn refusal(&self, command: &'static str, ran: GitOutput) -> RemoteError {
        let url = self.remote.url().to_owned();
        // The messages are in English, because the environment requests it.
        let other_hash = ["mismatched algorithms", "does not support this repository's hash algorithm"];
        if other_hash.iter().any(|words| ran.stderr.contains(words)) {
            RemoteError::Sha256Remote { url }
        } else {
            RemoteError::Git { command, url, status: ran.status, said: ran.stderr }
        }
    }

    fn call(&self, command: &'static str, args: &[&str], folder: &Path) -> Result<GitOutput, RemoteError> {
        let (doing, url) = (doing(command), || self.remote.url().to_owned());
        if self.cancel.is_cancelled() {
            return Err(RemoteError::Cancelled { doing, url: url() });
        }
        let [out, log] = ["assay-git.out", "assay-git.log"].map(|name| self.into.join(name));
        let git = Command {
            cwd: Some(folder.to_owned()),
            stdout: Output::File(out.clone()),
            stderr: Output::File(log.clone()),
            ..self.command(args)
        };
        let child = self.spawner.spawn(git).map_err(RemoteError::Run)?;
        let ended = child.wait(Some(REMOTE_LIMIT), self.cancel).map_err(RemoteError::Run)?;
        if ended.cancelled {
            return Err(RemoteError::Cancelled { doing, url: url() });
        }
        if ended.timed_out {
            return Err(RemoteError::TimedOut { doing, url: url(), limit: REMOTE_LIMIT });
        }
        let read = |path: &Path, limit| read_end(path, limit).map_err(|source| self.scratch(source));
        let said = self.remote.remove_secrets(&read(&log, MAX_STDERR_BYTES)?).trim().to_owned();
        Ok(GitOutput { status: ended.status, stdout: read(&out, MAX_STDOUT_BYTES)?, stderr: said })
    }

    fn scratch(&self, source: std::io::Error) -> RemoteError {
        RemoteError::Scratch { path: self.into.to_owned(), source }
    }

    fn command(&self, args: &[&str]) -> Command {
        // No hook and no housekeeping of the user may run in the scratch repository.
        let settings = ["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false"];
        let mut git = Command::new("git").args(settings).args(args);
        git.env.extend(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
        let taken = git.env.get(OsStr::new("GIT_CONFIG_COUNT")).and_then(|count| count.to_str()?.parse().ok()).unwrap_or(0);
        git.env.extend(self.remote.environment(taken).into_iter().map(|(name, value)| (OsString::from(name), value.into())));
        git = git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ALLOW_PROTOCOL", PROTOCOLS.join(":")).env("LC_ALL", "C");
        let has_own_ssh = ["GIT_SSH_COMMAND", "GIT_SSH"].iter().any(|name| git.env.contains_key(OsStr::new(name)));
        if !has_own_ssh && !self.has_own_ssh {
            // ssh must not prompt: the process has no user.
            git = git.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        git
    }
}

fn doing(command: &str) -> &'static str {
    match command {
        "push" => "pushing to",
        "ls-remote" => "asking",
        _ => "fetching from",
    }
}

fn is_kept(name: &str) -> bool {
    let is_setting = ["GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"].iter().any(|prefix| name.starts_with(prefix));
    !name.starts_with("GIT_") || is_setting || KEPT_VARIABLES.contains(&name)
}

/// Returns the last bytes of a file, as text.
fn read_end(path: &Path, limit: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
