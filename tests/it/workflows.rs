//! The workflows that `assay init` writes: what they may never do, and every step of theirs that is ours, run as a forge would.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::gate::{AUTHOR, TOKEN, made_up};
use crate::stand_in::{Identity, StandIn};
use crate::support::{Fixture, Ran, binary, copy_folder, files_under};

fn workflows() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").join("ci/github");
    let files = files_under(&folder);
    assert!(files.len() >= 5, "{files:?}");
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).expect("a workflow"))).collect()
}

#[test]
fn no_workflow_gives_strangers_rights() {
    // In two parts, so that this file may be searched for the word as well.
    let with_rights = ["pull_request", "target"].join("_");
    for (name, text) in workflows() {
        assert!(!text.contains(&with_rights), "{name}: runs what a stranger wrote with the repository's rights");
        assert!(text.contains("\npermissions: {}\n"), "{name}: begins without any right");
        for line in text.lines().filter(|line| line.trim_start().trim_start_matches("- ").starts_with("uses: ")) {
            let pin = line.split('@').nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
            let is_commit = pin.len() == 40 && pin.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit && line.contains(" # v"), "{name}: {line}");
        }
        for step in steps(&text) {
            assert!(!step.script.contains("${{"), "{name}: `{}` puts a value into a script", step.name);
        }
        if ["assay-plan.yaml", "assay-run.yaml"].contains(&name.as_str()) {
            assert!(!text.contains("secrets.") && !text.contains(": write"), "{name}: has something to take");
        }
    }
}

/// A step with a script.
struct Step {
    name: String,
    script: String,
}

/// The steps of a workflow that run something, in order.
fn steps(workflow: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    let (mut name, mut lines) = (String::new(), workflow.lines().peekable());
    while let Some(line) = lines.next() {
        if let Some(named) = line.trim_start().strip_prefix("- name: ") {
            named.clone_into(&mut name);
        }
        let Some(run) = line.strip_prefix("        run: ") else { continue };
        let mut script = if run == "|" { String::new() } else { run.to_owned() };
        while let Some(inner) = lines.next_if(|line| run == "|" && (line.starts_with("          ") || line.is_empty())) {
            script.push_str(inner.get(10..).unwrap_or_default());
            script.push('\n');
        }
        found.push(Step { name: name.clone(), script });
    }
    found
}

/// A machine of a forge: a checkout, a folder for temporary files, and the variables of a workflow.
struct Machine<'a> {
    fixture: &'a Fixture,
    checkout: PathBuf,
    temp: PathBuf,
    variables: BTreeMap<&'static str, String>,
    steps: Vec<Step>,
}

impl<'a> Machine<'a> {
    fn new(fixture: &'a Fixture, name: &str, workflow: &str, branch: &str) -> Self {
        let [checkout, temp] = ["checkout", "temp"].map(|part| fixture.root().join(format!("{name}.{part}")));
        for folder in [&checkout, &temp] {
            let _ = fs::remove_dir_all(folder);
        }
        fs::create_dir_all(&temp).expect("a folder");
        let origin = fixture.root().join("origin.git").display().to_string();
        fixture.git(&["clone", "--quiet", "--branch", branch, &origin, &checkout.display().to_string()]);
        let text =
            fs::read_to_string(fixture.repo().join(".github/workflows").join(workflow)).expect("the workflow that init wrote");
        let temp_name = temp.display().to_string();
        let variables = [
            ("RUNNER_TEMP", temp_name.clone()),
            ("GITHUB_OUTPUT", format!("{temp_name}/output")),
            ("GITHUB_STEP_SUMMARY", format!("{temp_name}/summary")),
            ("GITHUB_SERVER_URL", "https://forge.invalid".to_owned()),
            ("GITHUB_REPOSITORY", "example/project".to_owned()),
            ("PIPELINE", "pipelines/slow.yaml".to_owned()),
        ];
        Self { fixture, checkout, temp, variables: variables.into(), steps: steps(&text) }
    }

    fn with(mut self, variables: &[(&'static str, &str)]) -> Self {
        self.variables.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self
    }

    /// Runs a step as the forge does.
    fn step(&self, name: &str) -> Ran {
        let step = self.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step `{name}`"));
        let binaries = binary("assay").parent().expect("a folder").to_owned();
        let usual = std::env::var_os("PATH").expect("a PATH");
        let path = std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&usual))).expect("paths");
        let mut command = self.fixture.command(Path::new("bash"));
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step.script]).current_dir(&self.checkout);
        Ran::of(command.env("PATH", path).envs(&self.variables).output().expect("bash runs"))
    }

    /// What a step gave to those after it.
    fn output(&self, name: &str) -> String {
        let text = fs::read_to_string(self.temp.join("output")).expect("outputs");
        let found = text.lines().rev().find_map(|line| line.strip_prefix(&format!("{name}=")).map(ToOwned::to_owned));
        found.unwrap_or_else(|| panic!("no output `{name}` in {text}"))
    }
}

#[test]
fn a_slower_pull_request_is_measured_judged_and_told_so() {
    let mut fixture = Fixture::bare();
    made_up(&fixture, &["slow"]);
    let init = fixture.assay(&["init", "--pipeline", "pipelines/slow.yaml", "--releases", "https://example.org/assay"]).success();
    assert_eq!(init.stdout.lines().filter(|line| line.starts_with("written")).count(), 4);
    fixture.commit("gated");
    fixture.git(&["clone", "--quiet", "--bare", ".", "../origin.git"]);
    fixture.git(&["checkout", "--quiet", "-b", "change"]);
    fixture.write("changed", "by a pull request");
    let commit = fixture.commit("a change");
    fixture.git(&["push", "--quiet", "../origin.git", "change"]);

    let forge = StandIn::start(Identity::Workflow);
    forge.accept_only(TOKEN);
    let pull = forge.pull_at(AUTHOR, &commit);
    let keys = fixture.root().join("gate-keys");
    copy_folder(&fixture.config(), &keys);
    // The machines have no keys but those that a step makes or brings.
    fixture.unset("ASSAY_CONFIG");

    let planning = Machine::new(&fixture, "plan", "assay-plan.yaml", "change");
    planning.step("Show every problem").success();
    planning.step("Plan").success();
    let plan = fs::read_to_string(planning.temp.join("plan.md")).expect("a plan");
    assert!(plan.contains("`answer.local.after`"), "{plan}");

    let measuring = Machine::new(&fixture, "run", "assay-run.yaml", "change").with(&[("RUN", "pr-1-1")]);
    measuring.step("Run").success();

    let key = |name: &str| fs::read_to_string(keys.join("keys").join(name)).expect("a key");
    let (url, number) = (forge.url(), pull.to_string());
    let judging = Machine::new(&fixture, "judge", "assay-gate.yaml", "main").with(&[
        ("ASSAY_FORGE_TOKEN", TOKEN),
        ("GITHUB_API_URL", &url),
        ("HEAD_SHA", &commit),
        ("DEFAULT_BRANCH", "main"),
        ("ASSAY_STORE", "gate-store"),
        ("RUN", "pr-1-1"),
        ("GATE_KEY", &key("gate.key")),
        ("GATE_PUB", &key("gate.pub")),
        ("COSIGN_PASSWORD", ""),
    ]);
    judging.step("Find the pull request").success();
    assert_eq!(judging.output("number"), number);
    let hostile = judging.temp.join("hostile");
    copy_folder(&measuring.temp.join("evidence"), &hostile);
    // A verdict that somebody planted stays behind.
    fs::create_dir_all(hostile.join(format!("gates/pr-{number}"))).expect("a folder");
    fs::write(hostile.join(format!("gates/pr-{number}/000001")), "{}").expect("a file");
    symlink("/etc/passwd", hostile.join("link")).expect("a link");
    judging.step("Refuse what is neither file nor folder").exits(20);
    fs::remove_file(hostile.join("link")).expect("removed");
    judging.step("Refuse what is neither file nor folder").success();
    judging.step("Fetch the run").success();
    let judging = judging.with(&[("PULL", &number)]);
    judging.step("Judge").success();
    assert_eq!(judging.output("exit"), "40");

    let posting = Machine::new(&fixture, "post", "assay-gate.yaml", "main").with(&[
        ("ASSAY_FORGE_TOKEN", TOKEN),
        ("GITHUB_API_URL", &url),
        ("HEAD_SHA", &commit),
        ("PULL", &number),
        ("EXIT", "40"),
    ]);
    copy_folder(&judging.temp.join("verdict"), &posting.temp.join("result"));
    for said in ["created", "unchanged"] {
        let _ = fs::remove_file(posting.temp.join("comment.md"));
        let posted = posting.step("Post the verdict").success();
        assert_eq!(posted.stdout.matches(said).count(), 2, "{}", posted.stdout);
    }
    posting.step("End as the gate did").exits(40);
    let comments = forge.comments(pull);
    assert_eq!(comments.len(), 1);
    assert!(comments[0].1.contains("Regressed") && comments[0].1.contains("not established"), "{}", comments[0].1);
    assert_eq!((forge.checks().len(), &forge.checks()[0]["conclusion"]), (1, &json!("failure")));
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// The steps of a night: what they say of a history that is too short is nothing, and an issue is opened once.
#[test]
fn a_night_is_run_pushed_looked_at_and_told() {
    let mut fixture = Fixture::bare();
    made_up(&fixture, &["slow"]);
    let pipeline = fixture.repo().join("pipelines/slow.yaml");
    let text = fs::read_to_string(&pipeline).expect("a pipeline");
    fixture.write("pipelines/slow.yaml", &format!("{text}  publish: {{branch: published}}\n"));
    fixture.assay(&["init", "--nightly", "pipelines/slow.yaml"]).success();
    fixture.commit("nightly");
    fixture.git(&["clone", "--quiet", "--bare", ".", "../origin.git"]);
    let keys = fixture.config().display().to_string();
    fixture.unset("ASSAY_CONFIG");
    let forge = StandIn::start(Identity::Workflow);
    let night = Machine::new(&fixture, "night", "assay-nightly.yaml", "main").with(&[
        ("ASSAY_STORE", "evidence"),
        ("ASSAY_CONFIG", &keys),
        ("COSIGN_PASSWORD", ""),
        ("RUN", "nightly-1-1"),
        ("TOKEN", "none"),
        ("ASSAY_FORGE_TOKEN", TOKEN),
        ("GITHUB_API_URL", &forge.url()),
    ]);
    night.step("Run").success();
    night.step("Push the numbers").success();
    assert!(fixture.git(&["--git-dir", "../origin.git", "branch", "--list", "published"]).contains("published"));
    night.step("Look at the history").success();
    let issue = night.temp.join("issue.md");
    assert!(!issue.exists(), "one night is no history");
    fs::write(&issue, "The level moved.\n").expect("an issue");
    for _ in 0..2 {
        night.step("Open or update the issue").success();
    }
    assert_eq!(forge.issues().len(), 1);
}

#[test]
fn init_overwrites_nothing_that_differs() {
    let fixture = Fixture::bare();
    fixture.commit("empty");
    fixture.assay(&["init"]).success();
    let again = fixture.assay(&["init"]).success();
    assert_eq!(again.stdout.lines().filter(|line| line.starts_with("unchanged")).count(), 4);
    fixture.write(".github/workflows/assay-run.yaml", "mine\n");
    fixture.assay(&["init"]).refuses(2, "file_differs");
    fixture.assay(&["init", "--force"]).success();
    fixture.assay(&["init", "--pipeline", "../x"]).exits(2);
    fixture.assay(&["init", "--pipeline", "a b"]).exits(2);
}
