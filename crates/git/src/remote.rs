//! Remotes: the settings for reaching one, the reasons of failure, and fetching one commit.

use assay_failure::ErrorCode;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_process::{Cancel, Spawner};
use percent_encoding::percent_decode_str;

use crate::address::{MAX_TEXT, check_url, parse_url};
use crate::program::Git;
use crate::{Commit, Error, Repository};

/// The timeout of one call of git to a remote. Longer than one commit of a large repository needs over a slow line.
pub const REMOTE_LIMIT: Duration = Duration::from_mins(15);
/// The ref of the fetched commit in the scratch repository.
const FETCHED_REF: &str = "refs/assay/source";
/// The most settings of a checkout for reaching remotes: some for each of a hundred hosts.
const MAX_SETTINGS: usize = 400;
/// The settings of a checkout for reaching remotes. Its other settings (hooks, filters, work trees) concern it alone.
const SETTINGS: [&str; 7] = ["http.", "credential.", "url.", "ssh.", "core.sshcommand", "core.askpass", "core.gitproxy"];
/// Returns credentials to git from the environment, which no list of processes shows.
const CREDENTIAL_HELPER: &str =
    r#"!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$ASSAY_REMOTE_USER" "$ASSAY_REMOTE_PASSWORD"; }; f"#;

/// A remote, and the settings for reaching it.
#[derive(Clone)]
pub struct Remote {
    /// Its address without credentials, as it may be shown and recorded.
    url: String,
    /// Its address as passed to git, visible in a list of processes: without credentials too.
    given: String,
    /// Settings for git, by name.
    settings: Vec<(String, String)>,
    /// User and password from the address of a checkout's remote.
    credentials: Option<(String, String)>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Remote {
    /// Returns the remote at an address, with git's settings outside of any checkout. An address with credentials is refused.
    pub fn from_url(url: &str) -> Result<Self, RemoteError> {
        Ok(Self { url: check_url(url)?, given: url.to_owned(), settings: Vec::new(), credentials: None })
    }

    /// Returns the remote of this name in the checkout around `folder`, with the checkout's settings. Credentials in its address
    /// are removed from it and passed to git through the environment.
    pub fn from_checkout(folder: &Path, name: &str) -> Result<Self, RemoteError> {
        let repository = Repository::discover(folder)?;
        // Without the slash that libgit2 adds at its end.
        let root: PathBuf = repository.worktree().unwrap_or(folder).components().collect();
        let no_such_remote = || RemoteError::NoSuchRemote { name: name.to_owned(), checkout: root.clone() };
        let address = repository.remote_address(name).ok_or_else(no_such_remote)?;
        let settings = repository.local_settings(&SETTINGS, MAX_SETTINGS);
        let address = path_to_url(&address, &root);
        let parsed = parse_url(&address)?;
        let url = parsed.redacted();
        let mut remote = Self { given: url.clone(), url, settings, credentials: None };
        match (parsed.scheme, parsed.user, parsed.password) {
            ("ssh", _, None) | (_, None, None) => {}
            ("https", user, password) => remote.authenticate(parsed.host, user, password),
            _ => return Err(RemoteError::SecretInUrl { url: remote.url }),
        }
        Ok(remote)
    }

    fn authenticate(&mut self, host: &str, user: Option<&str>, password: Option<&str>) {
        let user = percent_decoded(user.unwrap_or_default());
        let setting = |name: &str, value: &str| (format!("credential.https://{host}.{name}"), value.to_owned());
        if let Some(password) = password {
            // An empty helper resets the earlier ones, which would be asked first.
            self.settings.extend([setting("helper", ""), setting("helper", CREDENTIAL_HELPER)]);
            self.credentials = Some((user, percent_decoded(password)));
        } else {
            self.settings.push(setting("username", &user));
        }
    }

    /// Returns the address, without credentials.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address as passed to git.
    pub(crate) fn git_address(&self) -> &str {
        &self.given
    }

    /// Returns the variables of git's environment for reaching the remote. `taken` settings are there already.
    pub(crate) fn environment(&self, taken: usize) -> Vec<(String, String)> {
        let count = ("GIT_CONFIG_COUNT".to_owned(), (taken + self.settings.len()).to_string());
        let settings = self.settings.iter().enumerate().flat_map(|(index, (name, value))| {
            let number = taken + index;
            [(format!("GIT_CONFIG_KEY_{number}"), name.clone()), (format!("GIT_CONFIG_VALUE_{number}"), value.clone())]
        });
        let credentials = self.credentials.iter().flat_map(|(user, password)| {
            [("ASSAY_REMOTE_USER".to_owned(), user.clone()), ("ASSAY_REMOTE_PASSWORD".to_owned(), password.clone())]
        });
        std::iter::once(count).chain(settings).chain(credentials).collect()
    }

    /// Returns git's messages, without secrets.
    pub(crate) fn remove_secrets(&self, said: &str) -> String {
        let said = said.replace(&self.given, &self.url);
        match &self.credentials {
            Some((_, password)) if !password.is_empty() => said.replace(password, "***"),
            _ => said,
        }
    }
}

/// Returns a path of this machine, as `git clone` leaves it in a checkout, as an address.
fn path_to_url(text: &str, root: &Path) -> String {
    let is_path = text.starts_with('/') || text.starts_with("./") || text.starts_with("../");
    // A space is no part of an address; git decodes what is escaped in the path of one.
    let escaped = |path: String| path.replace('%', "%25").replace(' ', "%20");
    if is_path { format!("file://{}", escaped(root.join(text).display().to_string())) } else { text.to_owned() }
}

/// Decodes `%40` and the like. A text that is no escape stays.
fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// A fetched commit, and the scratch repository that holds it.
pub struct FetchedCommit {
    /// The repository. Bare and shallow.
    pub repository: Repository,
    /// The commit.
    pub commit: Commit,
    /// The remote's address, without credentials.
    pub url: String,
}

/// The reason why a remote could not be reached, or did not return the requested commit.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address may not be passed to git.
    #[error("`{url}` is not the address of a remote: {rule}")]
    Url {
        /// The address, without credentials.
        url: String,
        /// The violated rule.
        rule: &'static str,
    },
    /// The address contains a secret, which would be visible in the list of processes.
    #[error("the address `{url}` holds a user or a password")]
    SecretInUrl {
        /// The address, without credentials.
        url: String,
    },
    /// The checkout has no remote of that name.
    #[error("the checkout `{}` has no remote `{name}`", checkout.display())]
    NoSuchRemote {
        /// The name.
        name: String,
        /// The root of the checkout.
        checkout: PathBuf,
    },
    /// The checkout of the remote cannot be read.
    #[error(transparent)]
    Checkout(#[from] Error),
    /// The revision cannot be requested from a remote.
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
        /// The system's error.
        source: std::io::Error,
    },
    /// Git failed.
    #[error("`git {command}` failed for `{url}` ({status}): {said}")]
    Git {
        /// The git command.
        command: &'static str,
        /// The address, without credentials.
        url: String,
        /// The exit status of git.
        status: assay_process::Status,
        /// The end of its messages.
        said: String,
    },
    /// The remote uses SHA-256 objects.
    #[error("`{url}` has SHA-256 objects, and only SHA-1 repositories are supported")]
    Sha256Remote {
        /// The address, without credentials.
        url: String,
    },
    /// Git took too long.
    #[error("{doing} `{url}` took longer than {limit:?}")]
    TimedOut {
        /// The operation of git, such as `fetching from`.
        doing: &'static str,
        /// The address, without credentials.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// It was cancelled.
    #[error("{doing} `{url}` was cancelled")]
    Cancelled {
        /// The operation of git, such as `fetching from`.
        doing: &'static str,
        /// The address, without credentials.
        url: String,
    },
    /// The fetched data cannot be read.
    #[error("what `{url}` gave cannot be read")]
    Unreadable {
        /// The address, without credentials.
        url: String,
        /// The reason.
        source: Error,
    },
}

/// The reason why git could not reach a remote, as far as its messages tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    HostKey,
    Authentication,
    NoRepository,
    NoRef,
    Unreachable,
}

impl Obstacle {
    /// Parses the messages of git, ssh and curl, in English because the environment requests it. Those of servers are the large
    /// hosts' ones.
    fn from_message(said: &str) -> Option<Self> {
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if has(&["Host key verification failed"]) {
            Some(Self::HostKey)
        } else if has(&[
            "Authentication failed",
            "could not read Username",
            "could not read Password",
            "Permission denied (",
            "terminal prompts disabled",
            "returned error: 401",
            "returned error: 403",
            "Access denied",
            "Permission to ",
            "insufficient permission",
        ]) {
            Some(Self::Authentication)
        } else if has(&[
            "does not appear to be a git repository",
            "Repository not found",
            "returned error: 404",
            "' not found",
            "does not exist",
            "No such file or directory",
        ]) {
            Some(Self::NoRepository)
        } else if has(&["couldn't find remote ref"]) {
            Some(Self::NoRef)
        } else if has(&[
            "unable to access",
            "unable to connect",
            "Could not read from remote",
            "timed out",
            "hung up",
            "early EOF",
        ]) {
            Some(Self::Unreachable)
        } else {
            None
        }
    }
}

impl RemoteError {
    /// Returns its stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Url { .. } => ErrorCode::RemoteAddress,
            Self::SecretInUrl { .. } => ErrorCode::SecretInAddress,
            Self::NoSuchRemote { .. } => ErrorCode::NoSuchRemote,
            Self::Checkout(_) => ErrorCode::Checkout,
            Self::Rev { .. } => ErrorCode::Revision,
            Self::Run(_) => ErrorCode::GitAbsent,
            Self::Scratch { .. } => ErrorCode::Scratch,
            Self::Git { said, .. } => match Obstacle::from_message(said) {
                Some(Obstacle::HostKey) => ErrorCode::UnknownHost,
                Some(Obstacle::Authentication) => ErrorCode::Authentication,
                Some(Obstacle::NoRepository) => ErrorCode::RepositoryNotFound,
                Some(Obstacle::Unreachable) => ErrorCode::Unreachable,
                Some(Obstacle::NoRef) | None => ErrorCode::GitFailed,
            },
            Self::Sha256Remote { .. } => ErrorCode::Sha256Remote,
            Self::TimedOut { .. } => ErrorCode::RemoteTimeout,
            Self::Cancelled { .. } => ErrorCode::Cancelled,
            Self::Unreadable { .. } => ErrorCode::RemoteUnreadable,
        }
    }

    /// Returns advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Url { .. } => Some("a path of this machine is written `file:///path`, and a space in it `%20`"),
            Self::SecretInUrl { .. } => Some("leave it out, and configure a credential helper or an ssh key for git"),
            Self::NoSuchRemote { .. } => Some("`git remote -v` lists what there is; `git remote add NAME ADDRESS` adds one"),
            Self::Checkout(error) => error.hint(),
            Self::Rev { .. } => Some("expressions such as `main~1` need a local clone; name it with `--repo PATH`"),
            Self::Run(_) => Some("install the `git` program"),
            Self::Git { said, .. } => Obstacle::from_message(said).map(|obstacle| match obstacle {
                Obstacle::HostKey => "connect once by hand with `ssh` and compare its key with what its owner says",
                Obstacle::Authentication => {
                    "git is asked no question here: give it a credential helper, or ssh an agent with a key"
                }
                Obstacle::NoRepository => "compare the address; many hosts say the same of a repository that you may not see",
                Obstacle::NoRef if said.contains("remote ref HEAD") => {
                    "the repository has no default branch, or no commit on it: name a branch, a tag or a commit"
                }
                Obstacle::NoRef => "`git ls-remote` lists the branches and tags that there are",
                Obstacle::Unreachable => "look at the network, the proxy and the address, and try again",
            }),
            _ => None,
        }
    }
}

/// Fetches the one commit that `rev` (a branch, a tag or a whole commit id) names into the empty scratch folder `into`.
///
/// The user's own git configuration applies: keys, proxies, credential helpers. Git never prompts.
pub fn fetch_remote(url: &str, rev: &str, into: &Path, spawner: &Spawner, cancel: &Cancel) -> Result<FetchedCommit, RemoteError> {
    let remote = Remote::from_url(url)?;
    check_rev(rev)?;
    let git = Git::new(&remote, into, spawner, cancel)?;
    git.run("init", &["--quiet", "--bare", "--object-format=sha1", "--", "."])?;
    // The whole commit, and not only its trees: libgit2 cannot fetch the objects that a partial clone omits.
    let refspec = format!("+{rev}:{FETCHED_REF}");
    let quiet = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
    git.run("fetch", &[&quiet[..], &["--", remote.git_address(), &refspec]].concat())?;
    let unreadable = |source| RemoteError::Unreadable { url: remote.url.clone(), source };
    let repository = Repository::discover(into).map_err(unreadable)?;
    let commit = repository.resolve(FETCHED_REF).map_err(unreadable)?;
    Ok(FetchedCommit { repository, commit, url: remote.url })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_an_address_are_read() {
        let decoded = ["me%40team", "100%", "%zz", "a%2fb%3A", "%", "%4"].map(percent_decoded);
        assert_eq!(decoded, ["me@team", "100%", "%zz", "a/b:", "%", "%4"]);
    }

    #[test]
    fn a_path_of_a_checkout_is_an_address() {
        let root = Path::new("/srv/me/bench");
        let addresses =
            ["/srv/a.git", "../a b/100%.git", "https://example.org/a", "git@example.org:a"].map(|text| path_to_url(text, root));
        let expected =
            ["file:///srv/a.git", "file:///srv/me/bench/../a%20b/100%25.git", "https://example.org/a", "git@example.org:a"];
        assert_eq!(addresses, expected);
    }

    /// Returns a checkout whose configuration ends with these lines.
    fn checkout(config: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        git2::Repository::init(folder.path()).expect("a repository");
        let path = folder.path().join(".git/config");
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::write(&path, text + config).expect("written");
        folder
    }

    #[test]
    fn credentials_of_a_checkout_s_address_go_to_git_unseen() {
        let checkout = checkout("[remote \"origin\"]\n\turl = https://me:p%40ss@example.org:8443/a.git\n");
        let remote = Remote::from_checkout(checkout.path(), "origin").expect("a remote");
        assert_eq!((remote.url(), remote.git_address()), ("https://example.org:8443/a.git", "https://example.org:8443/a.git"));
        let environment: std::collections::BTreeMap<_, _> = remote.environment(1).into_iter().collect();
        assert_eq!((environment["GIT_CONFIG_COUNT"].as_str(), environment["ASSAY_REMOTE_PASSWORD"].as_str()), ("3", "p@ss"));
        assert_eq!(environment["GIT_CONFIG_KEY_1"], "credential.https://example.org:8443.helper");
        assert_eq!(
            (environment["GIT_CONFIG_VALUE_1"].as_str(), environment["GIT_CONFIG_VALUE_2"].as_str()),
            ("", CREDENTIAL_HELPER)
        );
        assert_eq!(remote.remove_secrets("the password p@ss is wrong"), "the password *** is wrong");
        assert!(!format!("{remote:?}").contains("p@ss"));
    }

    #[test]
    fn a_checkout_says_how_its_remotes_are_reached() {
        let checkout = checkout(
            "[remote \"up\"]\n\turl = https://me@example.org/a\n\tpushurl = https://me@example.org/b\n\
             [http \"https://example.org/\"]\n\textraheader = X: y\n\tsslVerify\n[core]\n\tfsmonitor = evil\n\tsshCommand = ssh -4\n",
        );
        let remote = Remote::from_checkout(checkout.path(), "up").expect("a remote");
        assert_eq!(remote.url(), "https://example.org/b");
        let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [
            setting("http.https://example.org/.extraheader", "X: y"),
            setting("http.https://example.org/.sslverify", "true"),
            setting("core.sshcommand", "ssh -4"),
            setting("credential.https://example.org.username", "me"),
        ];
        assert_eq!(remote.settings, expected, "what git does in the checkout itself is not taken over");
    }

    #[test]
    fn a_name_that_no_remote_has_is_refused() {
        let checkout =
            checkout("[remote \"ssh\"]\n\turl = ssh://git:hunter2@example.org/a\n[remote \"plain\"]\n\turl = http://x/a\n");
        let refused = |name| Remote::from_checkout(checkout.path(), name).expect_err("refused");
        let root = checkout.path().canonicalize().expect("it is there");
        assert_eq!(refused("origin").to_string(), format!("the checkout `{}` has no remote `origin`", root.display()));
        assert_eq!((refused("ssh").code().as_str(), refused("plain").code().as_str()), ("secret_in_address", "remote_address"));
        assert!(!refused("ssh").to_string().contains("hunter2"));
    }

    #[test]
    fn what_kept_git_from_a_remote_is_named() {
        let code = |said: &str| {
            let status = assay_process::Status::Exited(128);
            RemoteError::Git { command: "push", url: "u".to_owned(), status, said: said.to_owned() }.code().as_str()
        };
        let words = [
            ("git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.", "authentication"),
            ("fatal: could not read Username for 'https://example.org': terminal prompts disabled", "authentication"),
            ("fatal: unable to access 'https://example.org/a/': The requested URL returned error: 403", "authentication"),
            ("remote: Permission to a/b.git denied to me.\nfatal: unable to access '..': 403", "authentication"),
            ("Host key verification failed.\nfatal: Could not read from remote repository.", "unknown_host"),
            (
                "fatal: '/srv/a' does not appear to be a git repository\nfatal: Could not read from remote repository.",
                "repository_not_found",
            ),
            ("remote: Not Found\nfatal: repository 'https://example.org/a/' not found", "repository_not_found"),
            ("fatal: unable to access 'https://nowhere/': Could not resolve host: nowhere", "unreachable"),
            ("ssh: connect to host example.org port 22: Connection timed out\nfatal: Could not read from", "unreachable"),
            ("fatal: something new", "git_failed"),
        ];
        for (said, expected) in words {
            assert_eq!(code(said), expected, "{said}");
        }
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
