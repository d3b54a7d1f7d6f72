//! Fetching one commit from a remote, through the `git` program: it knows the user's keys, proxies and credential helpers.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_process::{Cancel, Command, Output, Spawner};

use crate::{Commit, Error, Repository};

/// How long a fetch may take. Longer than one commit of a large repository needs over a slow line.
pub const FETCH_LIMIT: Duration = Duration::from_secs(15 * 60);
/// How much of what git said goes into an error: its last lines say what failed.
const MAX_SAID_BYTES: u64 = 4 << 10;
/// The longest address or revision.
const MAX_TEXT: usize = 2_048;
/// The protocols that may be used. `ext` and other helpers run programs that the address names, and `http` proves nothing.
const PROTOCOLS: [&str; 4] = ["https", "ssh", "git", "file"];
/// Where the fetched commit is kept in the scratch repository.
const FETCHED_REF: &str = "refs/assay/source";
/// What of the user's `GIT_` environment a fetch may see: how to reach remotes. Not what redirects git to another repository.
const KEPT: [&str; 9] = [
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
];

/// A commit that was fetched, and the scratch repository that holds it.
pub struct Fetched {
    /// The repository. Bare and shallow.
    pub repository: Repository,
    /// The commit.
    pub commit: Commit,
    /// The remote's address, without credentials.
    pub url: String,
}

/// Why a commit could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address is not one that git may be given.
    #[error("`{url}` is not the address of a remote: {rule}")]
    Url {
        /// The address, without credentials.
        url: String,
        /// What it breaks.
        rule: &'static str,
    },
    /// The address holds a secret, which would show in the list of processes.
    #[error("the address `{url}` holds a user or a password")]
    SecretInUrl {
        /// The address, without credentials.
        url: String,
    },
    /// The revision is not one that a remote can be asked for.
    #[error("`{rev}` is not a revision of a remote: expected a branch, a tag, or a whole commit id")]
    Rev {
        /// The revision.
        rev: String,
    },
    /// The `git` program could not be run.
    #[error("failed to run `git`")]
    Run(#[source] assay_process::Error),
    /// The scratch folder could not be used.
    #[error("failed to use the scratch folder `{}`", path.display())]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Git refused.
    #[error("`git {command}` failed for `{url}` ({status}): {said}")]
    Git {
        /// What git was asked for.
        command: &'static str,
        /// The address, without credentials.
        url: String,
        /// How git ended.
        status: assay_process::Status,
        /// The end of what it said.
        said: String,
    },
    /// The remote uses SHA-256 objects.
    #[error("`{url}` has SHA-256 objects, and only SHA-1 repositories are supported")]
    Sha256Remote {
        /// The address, without credentials.
        url: String,
    },
    /// The fetch took too long.
    #[error("fetching from `{url}` took longer than {limit:?}")]
    TimedOut {
        /// The address, without credentials.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// The fetch was cancelled.
    #[error("fetching from `{url}` was cancelled")]
    Cancelled {
        /// The address, without credentials.
        url: String,
    },
    /// What was fetched cannot be read.
    #[error("what `{url}` gave cannot be read")]
    Unreadable {
        /// The address, without credentials.
        url: String,
        /// Why.
        source: Error,
    },
}

impl RemoteError {
    /// What a person can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::SecretInUrl { .. } => Some("leave it out, and configure a credential helper or an ssh key for git"),
            Self::Rev { .. } => Some("expressions such as `main~1` need a local clone; name it with `--repo PATH`"),
            Self::Run(_) => Some("install the `git` program"),
            _ => None,
        }
    }
}

/// Fetches the one commit that `rev` (a branch, a tag or a whole commit id) names into the empty scratch folder `into`.
///
/// The user's own git configuration applies: keys, proxies, credential helpers. Git never asks a question.
pub fn fetch_remote(url: &str, rev: &str, into: &Path, spawner: &Spawner, cancel: &Cancel) -> Result<Fetched, RemoteError> {
    let recorded = check_url(url)?;
    check_rev(rev)?;
    let git = Git { url: &recorded, raw_url: url, into, spawner, cancel };
    git.run("init", &["--quiet", "--bare", "--object-format=sha1", "--", "."])?;
    // The whole commit, not only its trees: libgit2 cannot fetch what a partial clone leaves out.
    let refspec = format!("+{rev}:{FETCHED_REF}");
    let quiet = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
    git.run("fetch", &[&quiet[..], &["--", url, &refspec]].concat())?;
    let unreadable = |source| RemoteError::Unreadable { url: recorded.clone(), source };
    let repository = Repository::discover(into).map_err(unreadable)?;
    let commit = repository.resolve(FETCHED_REF).map_err(unreadable)?;
    Ok(Fetched { repository, commit, url: recorded })
}

struct Git<'a> {
    url: &'a str,
    raw_url: &'a str,
    into: &'a Path,
    spawner: &'a Spawner,
    cancel: &'a Cancel,
}

impl Git<'_> {
    fn run(&self, command: &'static str, args: &[&str]) -> Result<(), RemoteError> {
        let url = || self.url.to_owned();
        if self.cancel.is_cancelled() {
            return Err(RemoteError::Cancelled { url: url() });
        }
        let log = self.into.join("assay-git.log");
        let child = self.spawner.spawn(self.command(command, args, &log)).map_err(RemoteError::Run)?;
        let ended = child.wait(Some(FETCH_LIMIT), self.cancel).map_err(RemoteError::Run)?;
        if ended.cancelled {
            Err(RemoteError::Cancelled { url: url() })
        } else if ended.timed_out {
            Err(RemoteError::TimedOut { url: url(), limit: FETCH_LIMIT })
        } else if ended.status.is_success() {
            Ok(())
        } else {
            Err(refusal(command, url(), ended.status, self.said(&log)?))
        }
    }

    fn command(&self, command: &str, args: &[&str], log: &Path) -> Command {
        // No hook and no housekeeping of the user's may run in the scratch repository.
        let settings = ["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false"];
        let mut git = Command::new("git").args(settings).args([command]).args(args);
        git.env.extend(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept)));
        git = git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ALLOW_PROTOCOL", PROTOCOLS.join(":")).env("LC_ALL", "C");
        if !git.env.contains_key(std::ffi::OsStr::new("GIT_SSH_COMMAND"))
            && !git.env.contains_key(std::ffi::OsStr::new("GIT_SSH"))
        {
            git = git.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        Command { cwd: Some(self.into.to_owned()), stderr: Output::File(log.to_owned()), ..git }
    }

    /// The end of what git said, without the address as it was given.
    fn said(&self, log: &Path) -> Result<String, RemoteError> {
        let read = || {
            let mut file = File::open(log)?;
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(size.saturating_sub(MAX_SAID_BYTES)))?;
            let mut said = Vec::new();
            file.take(MAX_SAID_BYTES).read_to_end(&mut said)?;
            Ok(String::from_utf8_lossy(&said).into_owned())
        };
        let said = read().map_err(|source| RemoteError::Scratch { path: self.into.to_owned(), source })?;
        Ok(said.replace(self.raw_url, self.url).trim().to_owned())
    }
}

fn refusal(command: &'static str, url: String, status: assay_process::Status, said: String) -> RemoteError {
    // Said in English, since the environment asks for it.
    if said.contains("mismatched algorithms") && said.contains("sha256") {
        RemoteError::Sha256Remote { url }
    } else {
        RemoteError::Git { command, url, status, said }
    }
}

fn is_kept(name: &str) -> bool {
    !name.starts_with("GIT_") || KEPT.contains(&name)
}

/// Refuses every address that could make git do more than fetch: the address to record.
fn check_url(url: &str) -> Result<String, RemoteError> {
    let refuse = |rule| {
        let shown = redact_url(url).unwrap_or_else(|| "(not shown)".to_owned());
        Err(RemoteError::Url { url: shown.chars().take(200).collect(), rule })
    };
    if url.len() > MAX_TEXT {
        return refuse("it is longer than 2,048 bytes");
    }
    if url.starts_with('-') {
        return refuse("it begins with `-`");
    }
    if url.chars().any(|character| character.is_control() || character == ' ') {
        return refuse("it holds a space or a control character");
    }
    let Some(address) = Address::parse(url) else { return refuse("expected https, ssh, git or file") };
    // Git hands the host and the path to `ssh` and to the remote's shell.
    if address.host.starts_with('-') || address.path.starts_with('-') || address.user.is_some_and(|user| user.starts_with('-')) {
        return refuse("a part of it begins with `-`");
    }
    if address.has_secret() {
        return Err(RemoteError::SecretInUrl { url: address.redacted() });
    }
    Ok(address.redacted())
}

fn check_rev(rev: &str) -> Result<(), RemoteError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    let is_name = !rev.is_empty() && rev.len() <= MAX_TEXT && rev.bytes().all(allowed);
    if is_name && !rev.starts_with('-') && !rev.contains("..") {
        Ok(())
    } else {
        Err(RemoteError::Rev { rev: rev.chars().take(120).collect() })
    }
}

/// An address as git understands it.
struct Address<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    password: bool,
    host: &'a str,
    path: &'a str,
    /// `host:path` instead of `ssh://host/path`.
    short: bool,
}

impl<'a> Address<'a> {
    fn parse(url: &'a str) -> Option<Self> {
        match url.split_once("://") {
            Some((scheme, rest)) if PROTOCOLS.contains(&scheme) => Some(Self::parse_long(scheme, rest)),
            Some(_) => None,
            None => Self::parse_short(url),
        }
    }

    fn parse_long(scheme: &'a str, rest: &'a str) -> Self {
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // A query or a fragment can hold a token, and no git remote needs one.
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        let password = user.is_some_and(|user| user.contains(':'));
        let user = user.map(|user| user.split(':').next().unwrap_or_default());
        Self { scheme, user, password, host, path, short: false }
    }

    /// `user@host:path`, which is ssh. A path of this machine has a slash before any colon; `helper::address` runs a helper.
    fn parse_short(url: &'a str) -> Option<Self> {
        let (authority, path) = url.split_once(':')?;
        if authority.contains('/') || path.starts_with(':') || path.is_empty() {
            return None;
        }
        let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        (!host.is_empty()).then_some(Self { scheme: "ssh", user, password: false, host, path, short: true })
    }

    /// A user is a name for ssh. Elsewhere it may be a token.
    fn has_secret(&self) -> bool {
        self.password || (self.scheme != "ssh" && self.user.is_some())
    }

    fn redacted(&self) -> String {
        let user = self.user.filter(|_| self.scheme == "ssh").map(|user| format!("{user}@")).unwrap_or_default();
        if self.short {
            format!("{user}{}:{}", self.host, self.path)
        } else {
            format!("{}://{user}{}{}", self.scheme, self.host, self.path)
        }
    }
}

/// The address of a remote as it may be recorded: without password, query and fragment, and without a user where that is not
/// ssh. `None` for what is no address, such as a path of this machine.
pub fn redact_url(url: &str) -> Option<String> {
    // An address that is refused elsewhere (http) is still worth recording.
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if scheme == "http" {
        Some(Address::parse_long(scheme, rest).redacted())
    } else {
        Address::parse(url).map(|url| url.redacted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        check_url(url).expect_err("refused").to_string()
    }

    #[test]
    fn credentials_are_never_recorded() {
        let redacted = |url| redact_url(url).expect("an address");
        assert_eq!(redacted("https://token@example.org/a/b.git"), "https://example.org/a/b.git");
        assert_eq!(redacted("https://user:pass@example.org:8443/a?token=x#y"), "https://example.org:8443/a");
        assert_eq!(redacted("https://user:p@ss@example.org/a"), "https://example.org/a");
        assert_eq!(redacted("http://user:pass@example.org"), "http://example.org");
        assert_eq!(redacted("ssh://git:pass@example.org/a"), "ssh://git@example.org/a");
        assert_eq!(redacted("git@example.org:a/b.git"), "git@example.org:a/b.git");
        assert_eq!(redacted("file:///srv/a.git"), "file:///srv/a.git");
        for path in ["/srv/a.git", "../a", "./a:b", "", "ext::sh -c x"] {
            assert_eq!(redact_url(path), None, "{path}");
        }
    }

    #[test]
    fn addresses_that_could_do_more_than_fetch_are_refused() {
        let no_protocol = "expected https, ssh, git or file";
        assert_eq!(refused("--upload-pack=touch /x"), "`(not shown)` is not the address of a remote: it begins with `-`");
        for bad in ["ext::sh -c x", "http://example.org/a", "ftp://example.org/a", "/srv/a", "a/b:c", "fd::3", "", ":a"] {
            let text = refused(bad);
            assert!(text.contains(no_protocol) || text.contains("space"), "{bad}: {text}");
        }
        assert!(refused("https://example.org/\na").ends_with("it holds a space or a control character"));
        assert!(refused("ssh://-oProxyCommand=x/a").ends_with("a part of it begins with `-`"));
        assert!(refused("-oProxyCommand=x@example.org:a").ends_with("it begins with `-`"));
        assert!(refused("git@example.org:-x").ends_with("a part of it begins with `-`"));
    }

    #[test]
    fn an_address_with_a_secret_is_refused_without_showing_it() {
        for secret in ["https://hunter2@example.org/a", "https://user:hunter2@example.org/a", "ssh://git:hunter2@example.org/a"] {
            let text = refused(secret);
            assert!(text.ends_with("holds a user or a password") && !text.contains("hunter2"), "{text}");
        }
        assert!(!refused("ftp://user:hunter2@example.org/a").contains("hunter2"));
    }

    #[test]
    fn only_names_and_ids_are_revisions_of_a_remote() {
        for good in ["main", "v1.2.0", "feature/a-b", "HEAD", "refs/heads/main", &"0".repeat(40)] {
            assert!(check_rev(good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "--upload-pack=x", "a:b", "+a", "main~1", "main^", "a b", "a..b", "a\n", "*"] {
            assert!(check_rev(bad).is_err(), "{bad}");
        }
    }
}
