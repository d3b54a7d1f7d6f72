//! The published branch: its content, concurrent pushes, the transports, and what is never pushed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assay_manifest::Instant;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::git_https::GitServer;
use crate::pipeline::text;
use crate::support::{
    CommandResult, Fixture, PIPELINE, binary, copy_folder, files_under, measured_fixture, pipeline, steady_script, wait_until,
    write_file,
};

/// The number of concurrent pushes.
const PUSHERS: usize = 8;

/// A folder with a bare repository, `numbers.git`.
struct Remote(TempDir);

impl Remote {
    fn new() -> Self {
        let remote = Self(tempfile::Builder::new().prefix("assay-it-remote-").tempdir().expect("a folder"));
        remote.git(&["init", "--quiet", "--bare", "--initial-branch=main"]);
        remote
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn path(&self) -> PathBuf {
        self.folder().join("numbers.git")
    }

    fn url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// Runs Git in the repository and returns its stdout without the last line's end.
    #[track_caller]
    fn git(&self, arguments: &[&str]) -> String {
        fs::create_dir_all(self.path()).expect("a folder");
        let mut git = Command::new("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let ran = CommandResult::from_output(git.args(arguments).current_dir(self.path()).output().expect("git runs"));
        ran.success().stdout.trim_end().to_owned()
    }

    fn hook(&self, name: &str, body: &str) {
        write_script(&self.path().join("hooks").join(name), body);
    }

    /// Lists the files of a branch and their blobs.
    fn list_files(&self, branch: &str) -> String {
        self.git(&["ls-tree", "-r", branch])
    }
}

fn write_script(path: &Path, body: &str) {
    write_file(path, format!("#!/bin/sh\n{body}\n").as_bytes());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a script can be made executable");
}

/// Creates a repository whose pipeline publishes to the branch `numbers` of its `origin`.
fn publishing_fixture(remote: &Remote) -> Fixture {
    let publish = "  publish: {branch: numbers, folder: release}\n";
    let fixture = Fixture::with_pipeline(&steady_script("only"), &pipeline("exploratory", &["only"], 3, publish));
    fixture.git(&["remote", "add", "origin", &remote.url()]);
    fixture
}

/// Returns a command: `assay push` of the shared run `one` to the branch `numbers` of an address.
fn push_one(address: &str, more: &[&str]) -> Command {
    let mut push = measured_fixture().command(&binary("assay"));
    push.args(["push", "one", "--branch", "numbers", "--remote", address]).args(more);
    push
}

fn run_command(command: &mut Command) -> CommandResult {
    CommandResult::from_output(command.output().expect("the binary runs"))
}

#[test]
fn a_finished_run_is_committed_and_its_folder_verifies_from_a_clone() {
    let remote = Remote::new();
    let fixture = publishing_fixture(&remote);
    let run = fixture.run("one").success();
    assert!(run.stdout.contains("pushed    release/one on the branch numbers of file://"), "{}", run.stdout);

    let publication = fixture.manifest("one", "publish");
    let published_at: Instant = text(&publication["body"]["published_at"]).parse().expect("an instant");
    let seconds = published_at.unix_ns().div_euclid(1_000_000_000);
    let shown = remote.git(&["log", "--format=%s|%an <%ae>|%cn <%ce>|%at|%ct|%P|%(trailers:separator=%x7C)", "numbers"]);
    let trailers =
        format!("Assay-Run: one|Assay-Publication: {}|Assay-Grade: exploratory", fixture.pointer("one", "publish").manifest);
    let who = "Assay <assay@localhost>";
    assert_eq!(shown, format!("Publish the run one of the pipeline fixture|{who}|{who}|{seconds}|{seconds}||{trailers}"));

    let published = fixture.published("one");
    let files = files_under(&published);
    let on_branch: Vec<_> =
        files.iter().map(|file| file.strip_prefix(&published).expect("inside").display().to_string()).collect();
    let mut listed: Vec<_> =
        remote.git(&["ls-tree", "-r", "--name-only", "numbers:release/one"]).lines().map(str::to_owned).collect();
    listed.sort();
    let mut expected = on_branch;
    expected.sort();
    assert_eq!(listed, expected, "all of the folder, and nothing else");

    let clone = fixture.root().join("clone");
    fixture.git(&["clone", "--quiet", "--branch", "numbers", &remote.url(), clone.to_str().expect("text")]);
    let verified = fixture.verify(clone.join("release/one").to_str().expect("text")).success();
    assert!(verified.stdout.contains("level 2 (rows and queries) of 4 reached"), "{}", verified.stdout);

    // Pushing again does nothing: by the same command and by hand, from the store and from the clone.
    let head = remote.git(&["rev-parse", "numbers"]);
    assert!(fixture.run("one").success().stdout.contains(", which held it already"));
    let again = fixture.assay(&["push", clone.join("release/one").to_str().expect("text"), "--json"]).success().json();
    assert_eq!((&again["pushed"]["is_new"], text(&again["pushed"]["commit"])), (&false.into(), head.as_str()));
    assert_eq!(remote.git(&["rev-parse", "numbers"]), head);
}

#[test]
fn each_commit_follows_the_one_before() {
    let remote = Remote::new();
    for run in ["one", "two"] {
        let mut push = measured_fixture().command(&binary("assay"));
        run_command(push.args(["push", run, "--remote", &remote.url(), "--branch", "numbers", "--folder", "."])).success();
    }
    assert_eq!(
        remote.git(&["log", "--reverse", "--format=%(trailers:key=Assay-Run,valueonly,separator=)", "numbers"]),
        "one\ntwo"
    );
    assert_eq!(remote.git(&["rev-list", "--count", "--merges", "numbers"]), "0");
    let first = remote.git(&["ls-tree", "-r", "numbers~1"]);
    assert!(
        first.lines().all(|line| remote.list_files("numbers").lines().any(|kept| kept == line)),
        "the first run's files stay"
    );
}

#[test]
fn everyone_who_pushes_at_once_lands() {
    let remote = Remote::new();
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|index| {
            let mut push = push_one(&remote.url(), &["--folder", &format!("team-{index}")]);
            push.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
        })
        .collect();
    for pusher in pushers {
        CommandResult::from_output(pusher.wait_with_output().expect("it can be waited for")).success();
    }
    assert_eq!(remote.git(&["rev-list", "--count", "numbers"]), PUSHERS.to_string());
    assert_eq!(remote.git(&["rev-list", "--count", "--merges", "numbers"]), "0", "a line of commits");
    let folders = remote.git(&["ls-tree", "--name-only", "numbers"]);
    assert_eq!(folders, (0..PUSHERS).map(|index| format!("team-{index}")).collect::<Vec<_>>().join("\n"));
    let one = remote.git(&["rev-parse", "numbers:team-0/one"]);
    assert!((1..PUSHERS).all(|index| remote.git(&["rev-parse", &format!("numbers:team-{index}/one")]) == one));
    remote.git(&["fsck", "--strict"]);
}

#[test]
fn a_remote_that_refuses_leaves_a_finished_run_to_be_pushed_again() {
    let remote = Remote::new();
    remote.hook("pre-receive", "echo 'You are not allowed to push code to protected branches on this project.' >&2; exit 1");
    let fixture = publishing_fixture(&remote);
    let refused = fixture.run("one").refuses(30, "branch_protected");
    assert!(refused.stderr.contains("You are not allowed to push code"), "{}", refused.stderr);
    let hint = "the run is finished; to push it again: assay push one";
    assert!(refused.stderr.trim_end().ends_with(hint), "{}", refused.stderr);
    assert!(refused.stdout.contains("report.html"), "the result is shown all the same");
    assert!(fixture.assay(&["runs"]).success().stdout.contains("published"));
    remote.hook("pre-receive", "echo 'only on Tuesdays' >&2; exit 1");
    let refused = fixture.assay(&["push", "one"]).refuses(30, "hook_refused");
    assert!(refused.stderr.contains("only on Tuesdays"), "{}", refused.stderr);
    assert_eq!(remote.git(&["for-each-ref"]), "");
    fs::remove_file(remote.path().join("hooks/pre-receive")).expect("removed");
    fixture.assay(&["push", "one"]).success();
    assert_eq!(remote.git(&["rev-list", "--count", "numbers"]), "1");
}

#[test]
fn a_store_that_vanishes_after_its_run_was_published_is_missed_by_name() {
    let remote = Remote::new();
    let fixture = publishing_fixture(&remote);
    let away = fixture.root().join("away");
    remote.hook("pre-receive", &format!("mv '{}' '{}'", fixture.store().display(), away.display()));
    let failed = fixture.run("one").refuses(30, "store_vanished");
    assert!(failed.stderr.contains(".assay"), "{}", failed.stderr);
    assert!(!fixture.store().exists(), "the store was made anew: {:?}", files_under(&fixture.store()));
    fs::rename(&away, fixture.store()).expect("the store can be moved");
    fs::remove_file(remote.path().join("hooks/pre-receive")).expect("removed");
    fixture.run("one").success();
}

#[test]
fn a_remote_that_nobody_knows_shows_before_anything_is_measured() {
    let remote = Remote::new();
    let fixture = publishing_fixture(&remote);
    fixture.git(&["remote", "remove", "origin"]);
    fixture.run("one").refuses(2, "no_such_remote");
    assert!(!fixture.store().join("runs/one").exists());
    let run = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--no-push"]).success();
    assert!(!run.stdout.contains("pushed"), "{}", run.stdout);
}

#[test]
fn what_is_no_commit_s_is_pushed_by_hand_only() {
    let remote = Remote::new();
    let fixture = publishing_fixture(&remote);
    fixture.indicator("only", &format!("{}# changed\n", steady_script("only")), "");
    let run = fixture.run("one").success();
    assert!(run.stderr.contains("not committed to the branch `numbers`, because what ran is no commit's"), "{}", run.stderr);
    assert_eq!(remote.git(&["for-each-ref"]), "");
    fixture.assay(&["push", "one"]).success();
    assert_eq!(remote.git(&["ls-tree", "--name-only", "numbers:release"]), "one");
}

#[test]
fn what_was_changed_after_it_was_signed_is_not_pushed() {
    let remote = Remote::new();
    let folder = remote.folder().join("one");
    copy_folder(&measured_fixture().published("one"), &folder);
    let push = |folder: &Path| {
        let mut push = measured_fixture().command(&binary("assay"));
        let folder = folder.to_str().expect("text");
        run_command(push.args(["push", folder, "--remote", &remote.url(), "--branch", "numbers"]))
    };
    let original = fs::read(folder.join("report.md")).expect("a report");
    write_file(&folder.join("report.md"), b"# A better result\n");
    push(&folder).refuses(20, "artifact_corrupt");
    fs::remove_file(folder.join("report.md")).expect("removed");
    push(&folder).refuses(20, "artifact_absent");
    assert_eq!(remote.git(&["for-each-ref"]), "");
    // Files that are not of the run stay in place.
    write_file(&folder.join("report.md"), &original);
    write_file(&folder.join("notes.md"), b"mine");
    let pushed = push(&folder).success();
    assert!(pushed.stderr.contains("`notes.md` lies in the folder and is not of the run"), "{}", pushed.stderr);
    assert!(!remote.list_files("numbers").contains("notes.md"));
}

#[test]
fn who_signed_must_be_established() {
    let remote = Remote::new();
    let folder = measured_fixture().published("one");
    let push = |more: &[&str]| {
        let mut push = measured_fixture().command(&binary("assay"));
        push.args(["push", folder.to_str().expect("text"), "--remote", &remote.url(), "--branch", "numbers"]).args(more);
        run_command(push.env("ASSAY_CONFIG", remote.folder().join("nobody")))
    };
    push(&[]).refuses(21, "signer_not_established");
    assert_eq!(remote.git(&["for-each-ref"]), "");
    push(&["--trust", folder.join("trust.yaml").to_str().expect("text")]).success();
}

#[test]
fn a_folder_that_was_published_under_the_run_s_name_stays() {
    let remote = Remote::new();
    run_command(&mut push_one(&remote.url(), &[])).success();
    // The same name, from another machine.
    let fixture = publishing_fixture(&remote);
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--no-push"]).success();
    let before = remote.git(&["rev-parse", "numbers"]);
    fixture.assay(&["push", "one", "--folder", "."]).refuses(20, "other_folder");
    fixture.assay(&["push", "one", "--folder", "one"]).refuses(2, "inside_another");
    assert_eq!(remote.git(&["rev-parse", "numbers"]), before);
}

#[test]
fn a_branch_must_be_named_by_somebody() {
    run_command(measured_fixture().command(&binary("assay")).args(["push", "one"])).refuses(2, "no_branch");
    run_command(&mut push_one("/srv/a.git", &[])).refuses(2, "remote_address");
    run_command(&mut push_one("https://token@localhost/a.git", &[])).refuses(2, "secret_in_address");
    run_command(&mut push_one("file:///nowhere/a.git", &[])).refuses(30, "repository_not_found");
    run_command(&mut push_one("file:///nowhere/a.git", &["--folder", "../a"])).refuses(2, "branch_path");
}

#[test]
fn a_push_that_is_interrupted_says_so_and_leaves_nothing_running() {
    let remote = Remote::new();
    let fixture = publishing_fixture(&remote);
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--no-push"]).success();
    let entered = fixture.root().join("entered");
    remote.hook("pre-receive", &format!("mkfifo {0}; read line < {0}", entered.display()));
    let pushing = fixture.spawn(&["push", "one"]);
    wait_until("the remote's hook runs", || entered.exists());
    pushing.signal(Signal::INT);
    pushing.finish().refuses(50, "cancelled");
    wait_until("git and the hook have ended", || fixture.leftovers().is_empty());
    assert_eq!(remote.git(&["for-each-ref"]), "");
}

/// Pushes to an ssh address; a program in place of ssh runs the remote command locally.
#[test]
fn an_ssh_address_is_pushed_to_by_the_user_s_own_program() {
    let remote = Remote::new();
    let ssh = remote.folder().join("ssh");
    let asked = remote.folder().join("asked");
    // Git asks which dialect of ssh this is (`-G`); the last argument is the command for the remote side.
    let body = "[ \"$1\" = -G ] && exit 1\nfor last; do :; done\necho \"$last\" >> ASKED\nexec sh -c \"$last\"";
    write_script(&ssh, &body.replace("ASKED", asked.to_str().expect("text")));
    let address = format!("tester@example.org:{}", remote.path().display());
    run_command(push_one(&address, &[]).env("GIT_SSH_COMMAND", &ssh)).success();
    let path = remote.path();
    let both = ["git-upload-pack", "git-receive-pack"].map(|command| format!("{command} '{}'", path.display()));
    let asked = fs::read_to_string(asked).expect("the program ran");
    assert!(both.iter().all(|command| asked.lines().any(|line| line == command)), "{asked}");
    assert_eq!(remote.git(&["ls-tree", "--name-only", "numbers"]), "one");
}

/// Tests a real ssh client against a real server, which `ASSAY_TEST_SSHD` names: if it is requested but absent, the test fails.
/// The server uses its standard streams, so it needs no port.
#[test]
fn a_real_ssh_server_takes_a_commit() {
    let Some(sshd) = std::env::var_os("ASSAY_TEST_SSHD").map(PathBuf::from) else {
        println!("ASSAY_TEST_SSHD is not set: no real ssh server was pushed to");
        return;
    };
    assert!(sshd.is_file(), "`{}` is not there", sshd.display());
    let remote = Remote::new();
    let ssh = Ssh::new(&sshd, remote.folder());
    for address in [
        format!("ssh://{}@localhost{}", ssh.user, remote.path().display()),
        format!("{}@localhost:{}", ssh.user, remote.path().display()),
    ] {
        let pushed = run_command(push_one(&address, &[]).env("GIT_SSH_COMMAND", ssh.command("client"))).success();
        assert!(pushed.stdout.contains(&address), "{}", pushed.stdout);
    }
    assert_eq!(remote.git(&["rev-list", "--count", "numbers"]), "1");
    let address = format!("{}@localhost:{}", ssh.user, remote.path().display());
    run_command(push_one(&address, &[]).env("GIT_SSH_COMMAND", ssh.command("stranger"))).refuses(30, "authentication");
    fs::write(remote.folder().join("known_hosts"), "").expect("written");
    run_command(push_one(&address, &[]).env("GIT_SSH_COMMAND", ssh.command("client"))).refuses(30, "unknown_host");
}

/// Keys and configuration of an ssh server that one key may log in to.
struct Ssh {
    folder: PathBuf,
    user: String,
    proxy: String,
}

impl Ssh {
    fn new(sshd: &Path, folder: &Path) -> Self {
        for key in ["host", "client", "stranger"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]).arg(folder.join(key));
            run_command(&mut keygen).success();
        }
        let at = |name: &str| folder.join(name).display().to_string();
        let public = |name: &str| fs::read_to_string(at(&format!("{name}.pub"))).expect("a public key");
        fs::write(at("known_hosts"), format!("localhost {}", public("host"))).expect("written");
        fs::write(at("authorized"), public("client")).expect("written");
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nLogLevel QUIET\n",
            at("host"),
            at("authorized")
        );
        fs::write(at("sshd_config"), config).expect("written");
        let user = run_command(Command::new("id").arg("--user").arg("--name")).success().stdout.trim().to_owned();
        Self { folder: folder.to_owned(), user, proxy: format!("{} -i -f {}", sshd.display(), at("sshd_config")) }
    }

    /// Returns an ssh command that logs in with this key.
    fn command(&self, key: &str) -> String {
        let at = |name: &str| self.folder.join(name).display().to_string();
        format!(
            "ssh -F /dev/null -oBatchMode=yes -oIdentitiesOnly=yes -oIdentityAgent=none -oStrictHostKeyChecking=yes -oGlobalKnownHostsFile=none \
             -oUserKnownHostsFile={} -oProxyCommand='{}' -i {}",
            at("known_hosts"),
            self.proxy,
            at(key)
        )
    }
}

#[test]
fn an_https_remote_takes_a_commit_from_whoever_knows_the_password() {
    let remote = Remote::new();
    let server = GitServer::start(remote.folder(), "tester:hunter%2");
    let trusting = |command: &mut Command| run_command(command.env("GIT_SSL_CAINFO", &server.certificate));
    let address = format!("https://{}/numbers.git", server.host());

    let nobody = trusting(&mut push_one(&address, &[])).refuses(30, "authentication");
    assert!(nobody.stderr.contains("git is asked no question here"), "{}", nobody.stderr);
    // No trusted authority signed the certificate.
    run_command(&mut push_one(&address, &[])).refuses(30, "unreachable");

    // A credential helper of the user, as the hint says.
    let config = remote.folder().join("gitconfig");
    let helper = "!f() { echo username=tester; echo password=hunter%2; }; f";
    measured_fixture().git(&["config", "--file", config.to_str().expect("text"), "credential.helper", helper]);
    trusting(push_one(&address, &[]).env("GIT_CONFIG_GLOBAL", &config)).success();
    assert_eq!(remote.git(&["ls-tree", "--name-only", "numbers"]), "one");
}

#[test]
fn a_password_in_the_address_of_a_checkout_s_remote_is_used_and_never_shown() {
    let remote = Remote::new();
    let server = GitServer::start(remote.folder(), "tester:hunter%2");
    let mut fixture = publishing_fixture(&remote);
    fixture.set("GIT_SSL_CAINFO", &server.certificate);
    let origin = |login: &str| format!("https://{login}@{}/numbers.git", server.host());
    fixture.git(&["remote", "set-url", "origin", &origin("tester:hunter%252")]);
    let run = fixture.run("one").success();
    let address = format!("release/one on the branch numbers of https://{}/numbers.git", server.host());
    assert!(run.stdout.contains(&address), "{}", run.stdout);
    assert!(![&run.stdout, &run.stderr].iter().any(|shown| shown.contains("hunter")), "{}{}", run.stdout, run.stderr);
    for file in files_under(&fixture.published("one")) {
        let bytes = fs::read(&file).expect("a published file");
        assert!(!String::from_utf8_lossy(&bytes).contains("hunter"), "{}", file.display());
    }
    fixture.git(&["remote", "set-url", "origin", &origin("tester:wrong-hunter")]);
    let refused = fixture.assay(&["push", "one"]).refuses(30, "authentication");
    assert!(!refused.stderr.contains("hunter"), "{}", refused.stderr);
}
