//! The workflows that `assay init` writes: what they must never do, and each of their own steps, run as a forge would.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::gate::{AUTHOR, TOKEN, write_answer_workload, write_definitions};
use crate::git_https::GitServer;
use crate::stand_in::{Flavor, Identity, StandIn};
use crate::support::{CommandResult, Fixture, binary, copy_folder, files_under, script};

/// Lists the workflows that `assay init` writes, and the one that releases Assay itself.
fn workflow_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let folders = ["ci/github", "ci/gitea", ".github/workflows"];
    let files: Vec<PathBuf> = folders.iter().flat_map(|folder| files_under(&root.join(folder))).collect();
    assert!(files.len() >= 7, "{files:?}");
    files
}

fn workflows() -> Vec<(String, String)> {
    let files = workflow_files();
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), fs::read_to_string(path).expect("a workflow"))).collect()
}

#[test]
fn no_workflow_gives_strangers_rights() {
    // In two parts, so that this file can also be searched for the word.
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
        if ["assay-plan.yaml", "assay-run.yaml", "assay-simple.yaml"].contains(&name.as_str()) {
            for word in ["secrets.", "vars.", "github.token", "environment:", ": write"] {
                assert!(!text.contains(word), "{name}: has something to take: `{word}`");
            }
        }
    }
}

/// Returns the jobs of a workflow, each by its name, without comments.
fn jobs(workflow: &str) -> Vec<(String, String)> {
    let (_, below) = workflow.split_once("\njobs:\n").expect("a workflow has jobs");
    let mut jobs: Vec<(String, String)> = Vec::new();
    for line in below.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).and_then(|rest| rest.strip_suffix(':'));
        match (name, jobs.last_mut()) {
            (Some(name), _) => jobs.push((name.to_owned(), String::new())),
            (None, Some((_, text))) => text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    jobs
}

/// The measured program runs as the user of its job, so it has all rights of the job.
#[test]
fn no_job_that_measures_can_write() {
    let (mut measuring, mut writing) = (Vec::new(), Vec::new());
    for (name, text) in workflows() {
        for (job, text) in jobs(&text) {
            let job = format!("{name}: {job}");
            if text.contains("assay run \"$PIPELINE\"") || text.contains("sut/after") {
                for word in [": write", "github.token", "FORGE_TOKEN", "assay push", "assay forge"] {
                    assert!(!text.contains(word), "{job} measures, and has `{word}`");
                }
                assert!(text.contains("permissions:\n      contents: read\n"), "{job}");
                measuring.push(job);
            } else if text.contains(": write") {
                for word in ["ASSAY_KEYS", "GATE_KEY", "COSIGN_PASSWORD", "cargo "] {
                    assert!(!text.contains(word), "{job} writes, and has `{word}`");
                }
                writing.push(job);
            }
        }
    }
    assert_eq!(measuring, ["assay-nightly.yaml: run", "assay-run.yaml: run", "assay-simple.yaml: gate", "assay.yaml: gate"]);
    let of_ours: Vec<&String> = writing.iter().filter(|job| !job.starts_with("assay-release")).collect();
    assert_eq!(of_ours, ["assay-gate.yaml: post", "assay-nightly.yaml: push", "assay-nightly.yaml: tell"]);
}

/// Linters of other projects check the forge's workflows: contexts, expressions and shell by actionlint, and ways to attack them by zizmor.
#[test]
fn linters_of_other_projects_find_no_fault() {
    let (Some(actionlint), Some(foreign)) = (std::env::var_os("ASSAY_TEST_ACTIONLINT"), std::env::var_os("ASSAY_TEST_FOREIGN"))
    else {
        println!("ASSAY_TEST_ACTIONLINT or ASSAY_TEST_FOREIGN is not set: nobody else has read the workflows");
        return;
    };
    let tools = Path::new(&foreign).join("venv/bin");
    let shellcheck = format!("-shellcheck={}", tools.join("shellcheck").display());
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        CommandResult::from_output(command.args(arguments).args(workflow_files()).output().expect("it runs"))
    };
    run(Path::new(&actionlint), &["-no-color", &shellcheck]).success();
    run(&tools.join("zizmor"), &["--offline", "--no-progress"]).success();
}

/// A step with a script.
struct Step {
    name: String,
    script: String,
}

/// Returns the steps of a workflow that run a script, in order.
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
        Self::for_file(fixture, name, &format!(".github/workflows/{workflow}"), branch)
    }

    /// Creates a machine that runs a file of the repository, on a branch.
    fn for_file(fixture: &'a Fixture, name: &str, file: &str, branch: &str) -> Self {
        let [checkout, temp] = ["checkout", "temp"].map(|part| fixture.root().join(format!("{name}.{part}")));
        for folder in [&checkout, &temp] {
            let _ = fs::remove_dir_all(folder);
        }
        fs::create_dir_all(&temp).expect("a folder");
        let origin = fixture.root().join("origin.git").display().to_string();
        fixture.git(&["clone", "--quiet", "--branch", branch, &origin, &checkout.display().to_string()]);
        let text = fs::read_to_string(fixture.repo().join(file)).expect("the workflow that init wrote");
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

    /// Creates a machine that runs a workflow of this project, with an empty checkout.
    fn for_project(fixture: &'a Fixture, name: &str, workflow: &str) -> Self {
        let [checkout, temp] = ["checkout", "temp"].map(|part| fixture.root().join(format!("{name}.{part}")));
        for folder in [&checkout, &temp] {
            fs::create_dir_all(folder).expect("a folder");
        }
        let (_, text) = workflows().into_iter().find(|(known, _)| known == workflow).expect("the workflow");
        let temp_name = temp.display().to_string();
        let variables = [
            ("RUNNER_TEMP", temp_name.clone()),
            ("GITHUB_STEP_SUMMARY", format!("{temp_name}/summary")),
            ("GITHUB_REPOSITORY", "example/assay".to_owned()),
        ];
        Self { fixture, checkout, temp, variables: variables.into(), steps: steps(&text) }
    }

    /// Merges a branch into the checkout, as a forge does for a pull request.
    fn merge(self, branch: &str) -> Self {
        let (folder, branch) = (self.checkout.display().to_string(), format!("origin/{branch}"));
        let identity = ["-c", "user.name=forge", "-c", "user.email=forge@example.org"];
        self.fixture.git(&[&["-C", &folder], &identity[..], &["merge", "--quiet", "--no-ff", "--no-edit", &branch]].concat());
        self
    }

    fn with_variables(mut self, variables: &[(&'static str, &str)]) -> Self {
        self.variables.extend(variables.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self
    }

    /// Runs a step as the forge does.
    fn step(&self, name: &str) -> CommandResult {
        let step = self.steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step `{name}`"));
        let binaries = binary("assay").parent().expect("a folder").to_owned();
        let usual = std::env::var_os("PATH").expect("a PATH");
        let path = std::env::join_paths([binaries].into_iter().chain(std::env::split_paths(&usual))).expect("paths");
        let mut command = self.fixture.command(Path::new("bash"));
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step.script]).current_dir(&self.checkout);
        CommandResult::from_output(command.env("PATH", path).envs(&self.variables).output().expect("bash runs"))
    }

    /// Returns an output that a step gave to later steps.
    fn output(&self, name: &str) -> String {
        let text = fs::read_to_string(self.temp.join("output")).expect("outputs");
        let found = text.lines().rev().find_map(|line| line.strip_prefix(&format!("{name}=")).map(ToOwned::to_owned));
        found.unwrap_or_else(|| panic!("no output `{name}` in {text}"))
    }
}

#[test]
fn a_slower_pull_request_is_measured_judged_and_told_so() {
    let mut fixture = Fixture::bare();
    write_definitions(&fixture, &["slow"]);
    let init = fixture.assay(&["init", "--pipeline", "pipelines/slow.yaml", "--releases", "https://example.org/assay"]).success();
    // Its own pipeline stays as it is; there is no nightly pipeline yet.
    assert_eq!(init.stdout.lines().filter(|line| line.starts_with("written")).count(), 4 + 2, "{}", init.stdout);
    let commit = propose_change(&fixture);

    let forge = StandIn::start(Identity::Workflow);
    forge.accept_only(TOKEN);
    let pull = forge.pull_at(AUTHOR, &commit);
    let copy = forge.pull_at(Identity::User("copycat"), &commit);
    let keys = fixture.root().join("gate-keys");
    copy_folder(&fixture.config(), &keys);
    // The machines have only the keys that a step makes or brings.
    fixture.unset("ASSAY_CONFIG");

    let planning = Machine::new(&fixture, "plan", "assay-plan.yaml", "change");
    planning.step("Show every problem").success();
    planning.step("Plan").success();
    let plan = fs::read_to_string(planning.temp.join("plan.md")).expect("a plan");
    assert!(plan.contains("`answer.local.after`"), "{plan}");

    let measuring = Machine::new(&fixture, "run", "assay-run.yaml", "change").with_variables(&[("RUN", "pr-1-1")]);
    measuring.step("Run").success();

    let key = |name: &str| fs::read_to_string(keys.join("keys").join(name)).expect("a key");
    let (url, number) = (forge.url(), pull.to_string());
    let judging = Machine::new(&fixture, "judge", "assay-gate.yaml", "main").with_variables(&[
        ("ASSAY_FORGE_TOKEN", TOKEN),
        ("GITHUB_API_URL", &url),
        ("HEAD_BRANCH", "change"),
        ("HEAD_REPOSITORY", "somebody/project"),
        ("HEAD_SHA", &commit),
        ("TOKEN", "none"),
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
    // A planted verdict is not copied.
    fs::create_dir_all(hostile.join(format!("gates/pr-{number}"))).expect("a folder");
    fs::write(hostile.join(format!("gates/pr-{number}/000001")), "{}").expect("a file");
    symlink("/etc/passwd", hostile.join("link")).expect("a link");
    judging.step("Refuse what is neither file nor folder").exits(20);
    fs::remove_file(hostile.join("link")).expect("removed");
    judging.step("Refuse what is neither file nor folder").success();
    judging.step("Fetch the head").success();
    judging.step("Fetch the run").success();
    let judging = judging.with_variables(&[("PULL", &number)]);
    judging.step("Judge").success();
    assert_eq!(judging.output("exit"), "40");

    let posting = Machine::new(&fixture, "post", "assay-gate.yaml", "main").with_variables(&[
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
    let copied = posting.with_variables(&[("PULL", &copy.to_string())]).step("Post the verdict");
    assert!(copied.code != 0 && copied.stderr.contains("is that of `pull:"), "no second chance: {}", copied.stderr);
    let comments = forge.comments(pull);
    assert_eq!(comments.len(), 1);
    assert!(comments[0].1.contains("Regressed") && comments[0].1.contains("not established"), "{}", comments[0].1);
    assert_eq!((forge.checks().len(), &forge.checks()[0]["conclusion"]), (1, &json!("failure")));
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// Commits all files, and a change above them in the branch `change`, which a pull request asks `origin.git` to merge. Returns its commit.
fn propose_change(fixture: &Fixture) -> String {
    fixture.commit("gated");
    fixture.git(&["clone", "--quiet", "--bare", ".", "../origin.git"]);
    fixture.git(&["checkout", "--quiet", "-b", "change"]);
    fixture.write("changed", "by a pull request");
    let commit = fixture.commit("a change");
    fixture.git(&["push", "--quiet", "../origin.git", "change"]);
    commit
}

/// The address of releases for tests that install none.
pub(crate) const NO_RELEASE: &str = "https://example.org/assay";

/// Creates a repository whose gate is judged by one workflow of a forge, with a pull request in the branch `change` of `origin.git`. Returns its
/// commit.
pub(crate) fn prepare_gated_repository(fixture: &mut Fixture, pipelines: &[&str], init: &[&str]) -> String {
    write_definitions(fixture, pipelines);
    let shared = ["init", "--pipeline", "pipelines/slow.yaml"];
    let init = fixture.assay(&[&shared[..], init].concat()).success();
    assert_eq!(init.stdout.lines().filter(|line| line.starts_with("written")).count(), 1, "{}", init.stdout);
    // A gate that lets nothing inconclusive pass, beside one that does.
    if pipelines.contains(&"few") {
        let text = fs::read_to_string(fixture.repo().join("pipelines/few.yaml")).expect("a pipeline");
        let strict =
            text.replace("name: few}", "name: strict}").replace("budget_pct: 5,", "budget_pct: 5, block_on_inconclusive: true,");
        assert_ne!(strict, text.replace("name: few}", "name: strict}"), "{text}");
        fixture.write("pipelines/strict.yaml", &strict);
    }
    let commit = propose_change(fixture);
    fixture.unset("ASSAY_CONFIG");
    commit
}

#[test]
fn one_job_without_rights_measures_judges_and_says_so() {
    let mut fixture = Fixture::bare();
    prepare_gated_repository(&mut fixture, &["same", "slow", "few"], &["--simple", "--releases", NO_RELEASE]);
    // The rules are those of the target branch, so a pull request that relaxes them is judged by the previous ones.
    let text = fs::read_to_string(fixture.repo().join("pipelines/slow.yaml")).expect("a pipeline");
    fixture.write("pipelines/slow.yaml", &text.replace("budget_pct: 5,", "budget_pct: 50,"));
    fixture.commit("let everything pass");
    fixture.git(&["push", "--quiet", "../origin.git", "change"]);
    // The exit codes of the gate and of the job: a regression fails, an inconclusive verdict only if the rules block on it.
    for (pipeline, judged, ends, said) in [
        ("same", "0", 0, "Unchanged"),
        ("slow", "40", 40, "Regressed"),
        ("few", "41", 0, "Inconclusive"),
        ("strict", "41", 41, "Inconclusive"),
    ] {
        let file = format!("pipelines/{pipeline}.yaml");
        let machine = Machine::for_file(&fixture, pipeline, ".github/workflows/assay.yaml", "main").merge("change");
        let machine = machine.with_variables(&[("RUN", "pr-1-1"), ("PULL", "17"), ("PIPELINE", &file)]);
        machine.step("Build both sides").success();
        assert!(machine.checkout.join("sut/after/changed").exists() && !machine.checkout.join("sut/before/changed").exists());
        machine.step("Run").success();
        machine.step("Judge").success();
        assert_eq!(machine.output("exit"), judged, "{pipeline}");
        machine.step("Show the verdict").success();
        let summary = fs::read_to_string(machine.temp.join("summary")).expect("a summary");
        assert!(summary.contains(said) && summary.contains("What this cannot prove"), "{pipeline}: {summary}");
        assert!(summary.contains("not established"), "nobody vouches for keys that were made on the spot: {summary}");
        machine.with_variables(&[("EXIT", judged)]).step("End as the gate did").exits(ends);
    }
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// Gitea checks out no merge, so the workflow makes it; it posts a status and a comment.
#[test]
fn a_pull_request_of_gitea_is_judged_and_told_so() {
    let mut fixture = Fixture::bare();
    let commit = prepare_gated_repository(&mut fixture, &["slow"], &["--forge", "gitea", "--releases", NO_RELEASE]);
    let file = ".gitea/workflows/assay.yaml";
    let forge = StandIn::start_as(Flavor::Gitea, Identity::User("assay-bot"));
    forge.accept_only(TOKEN);
    let pull = forge.pull_at(AUTHOR, &commit);
    let (url, number) = (forge.url(), pull.to_string());
    let machine = Machine::for_file(&fixture, "gate", file, "change").with_variables(&[
        ("BASE", "main"),
        ("HEAD_SHA", &commit),
        ("PULL", &number),
        ("RUN", "pr-1-1"),
    ]);
    machine.step("Merge").success();
    machine.step("Build both sides").success();
    machine.step("Run").success();
    machine.step("Judge").success();
    assert_eq!(machine.output("exit"), "40");
    machine.step("Show the verdict").success();
    let machine = machine.with_variables(&[("EXIT", "40")]);
    machine.step("End as the gate did").exits(40);

    let posting = Machine::for_file(&fixture, "post", file, "main").with_variables(&[
        ("HEAD_SHA", &commit),
        ("PULL", &number),
        ("GITHUB_API_URL", &url),
        ("LOG", "https://forge.invalid/runs/1"),
        ("ASSAY_FORGE_TOKEN", ""),
    ]);
    posting.step("Post the verdict").success();
    assert!(forge.requests().is_empty(), "without a token nothing is posted");
    let posting = posting.with_variables(&[("ASSAY_FORGE_TOKEN", TOKEN)]);
    posting.step("Post the verdict").exits(1);
    copy_folder(&machine.temp.join("verdict"), &posting.temp.join("result/verdict"));
    for said in ["created", "unchanged"] {
        let _ = fs::remove_file(posting.temp.join("comment.md"));
        let posted = posting.step("Post the verdict").success();
        assert_eq!(
            posted.stdout.lines().filter(|line| line.starts_with("check") && line.contains(said)).count(),
            1,
            "{}",
            posted.stdout
        );
    }
    let [status] = forge.statuses().try_into().expect("one status");
    assert_eq!((&status["status"], &status["context"]), (&json!("failure"), &json!("assay gate: latency")));
    assert_eq!(status["target_url"], "https://forge.invalid/runs/1");
    let [(author, comment)] = forge.comments(pull).try_into().expect("one comment, edited in place");
    assert!(author == "assay-bot" && comment.contains("Regressed"), "{comment}");
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// The checkout of the target branch plans the definitions of a pull request, and a job without keys posts the plan; a missing verdict is
/// reported.
#[test]
fn a_plan_is_posted_and_a_missing_verdict_is_told() {
    let mut fixture = Fixture::bare();
    write_definitions(&fixture, &["slow"]);
    fixture.assay(&["init", "--pipeline", "pipelines/slow.yaml", "--releases", "https://example.org/assay"]).success();
    fixture.commit("gated");
    fixture.git(&["clone", "--quiet", "--bare", ".", "../origin.git"]);
    fixture.git(&["checkout", "--quiet", "-b", "change"]);
    let text = fs::read_to_string(fixture.repo().join("pipelines/slow.yaml")).expect("a pipeline");
    fixture.write("pipelines/slow.yaml", &text.replace("count: 8", "count: 12"));
    let commit = fixture.commit("more pairs");
    fixture.write("pipelines/slow.yaml", "kind: Nothing\n");
    let broken = fixture.commit("no pipeline");
    fixture.git(&["push", "--quiet", "../origin.git", "change"]);
    fixture.git(&["push", "--quiet", "../origin.git", &format!("{commit}:refs/heads/first")]);
    fixture.unset("ASSAY_CONFIG");

    let forge = StandIn::start(Identity::Workflow);
    forge.accept_only(TOKEN);
    let pull = forge.pull_at(AUTHOR, &commit);
    let (url, number) = (forge.url(), pull.to_string());
    let planning = |head: &str| {
        let machine = Machine::new(&fixture, "planning", "assay-gate.yaml", "main")
            .with_variables(&[("HEAD_SHA", head), ("TOKEN", "none")]);
        machine.step("Fetch the commit").success();
        machine.step("Plan").success();
        assert!(!machine.checkout.join("changed").exists(), "nothing of the pull request is checked out");
        fs::read_to_string(machine.temp.join("plan.md")).expect("a plan")
    };
    let plan = planning(&commit);
    assert!(plan.contains("12 of each"), "{plan}");
    assert!(planning(&broken).starts_with("There is no plan"), "and what is wrong is shown by the job of the pull request");

    let posting = Machine::new(&fixture, "posting", "assay-gate.yaml", "main").with_variables(&[
        ("ASSAY_FORGE_TOKEN", TOKEN),
        ("GITHUB_API_URL", &url),
        ("HEAD_SHA", &commit),
        ("PULL", &number),
        ("EXIT", "20"),
        ("LOG", "https://forge.invalid/runs/1"),
    ]);
    fs::create_dir_all(posting.temp.join("result")).expect("a folder");
    fs::write(posting.temp.join("result/plan.md"), plan).expect("a plan");
    posting.step("Post the plan").success();
    posting.step("Say that there is no verdict").exits(1);
    let comments: Vec<String> = forge.comments(pull).into_iter().map(|(_, text)| text).collect();
    assert_eq!(comments.len(), 2, "each has a comment of its own");
    assert!(comments.iter().any(|text| text.contains("12 of each")));
    assert!(comments.iter().any(|text| text.contains("There is no verdict") && text.contains("exit code 20")), "{comments:?}");
    assert!(forge.checks().is_empty(), "a required check stays open");
}

/// A release packs the same bytes each time, and a workflow installs a release only if its digest matches.
#[test]
fn a_release_is_packed_and_installed_by_its_digest() {
    let fixture = Fixture::bare();
    let gh = fixture.root().join("gh");
    fs::create_dir_all(&gh).expect("a folder");
    write_program(&gh.join("gh"), "printf '%s\\n' \"$@\" > \"$RUNNER_TEMP/gh.txt\"");
    // The forge's own program is a fake, and so are the packed programs: `ci/image` tests how they are built.
    let rust = format!("{}:{}", gh.display(), std::env::var("PATH").expect("a PATH"));
    let rustup =
        std::env::var("RUSTUP_HOME").unwrap_or_else(|_| format!("{}/.rustup", std::env::var("HOME").unwrap_or_default()));
    let pack = |name: &str| {
        let machine = Machine::for_project(&fixture, name, "assay-release.yaml").with_variables(&[
            ("ARCHITECTURE", "x86_64"),
            ("GITHUB_REF_NAME", "v0.1.0"),
            ("RUSTUP_HOME", &rustup),
            ("PATH", &rust),
        ]);
        let host = CommandResult::from_output(std::process::Command::new("rustc").arg("-vV").output().expect("rustc runs"))
            .success()
            .stdout;
        let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").to_owned();
        let programs = machine.checkout.join("target").join(host).join("release");
        fs::create_dir_all(&programs).expect("a folder");
        for program in ["", "-collect", "-execute", "-plan", "-provision", "-publish", "-reduce", "-serve", "-simulator", "-sql"]
        {
            write_program(&programs.join(format!("assay{program}")), "echo assay 0.1.0");
        }
        for file in ["LICENSE", "README.md"] {
            fs::write(machine.checkout.join(file), file).expect("written");
        }
        for folder in ["ci", "tests/foreign"] {
            fs::create_dir_all(machine.checkout.join(folder)).expect("a folder");
        }
        // The scripts name folders by what these files hold.
        fs::write(machine.checkout.join("tests/foreign/any"), "").expect("written");
        for script in ["archive", "common.sh"] {
            fs::copy(Path::new("../ci").join(script), machine.checkout.join("ci").join(script)).expect("copied");
        }
        let git = |arguments: &[&str]| {
            let mut command = fixture.command(Path::new("git"));
            command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments).current_dir(&machine.checkout);
            let dates = [("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"), ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")];
            CommandResult::from_output(command.envs(dates).output().expect("git runs")).success();
        };
        git(&["init", "--quiet"]);
        git(&["add", "LICENSE", "README.md"]);
        git(&["commit", "--quiet", "--message", "released"]);
        fs::create_dir_all(machine.temp.join("image")).expect("a folder");
        for file in ["image.tar", "name.txt"] {
            fs::write(machine.temp.join("image").join(file), file).expect("written");
        }
        machine.step("Pack").success();
        machine
    };
    let archive = "dist/assay-0.1.0-linux-x86_64.tar.gz";
    let (one, other) = (pack("one"), pack("other"));
    let bytes = fs::read(one.checkout.join(archive)).expect("an archive");
    assert_eq!(bytes, fs::read(other.checkout.join(archive)).expect("an archive"), "the same files make the same archive");
    one.step("Digests").success();
    let digests = fs::read_to_string(one.checkout.join("dist/SHA256SUMS")).expect("digests");
    assert_eq!(digests.lines().count(), 3, "{digests}");
    one.step("Release").success();
    let released = fs::read_to_string(one.temp.join("gh.txt")).expect("what gh was told");
    assert!(released.starts_with("release\ncreate\nv0.1.0\n") && released.contains("dist/SHA256SUMS"), "{released}");
    let wrong = pack("wrong").with_variables(&[("GITHUB_REF_NAME", "v0.2.0")]);
    assert_ne!(wrong.step("Pack").code, 0, "the tag says what the programs say of themselves");

    let files = fixture.root().join("releases/files/v0.1.0");
    fs::create_dir_all(&files).expect("a folder");
    fs::copy(one.checkout.join(archive), files.join("assay-0.1.0-linux-x86_64.tar.gz")).expect("copied");
    let server = GitServer::start(&fixture.root().join("releases"), "nobody:nothing");
    let install = |name: &str, digest: &str| {
        let machine = Machine::for_project(&fixture, name, "assay-plan.yaml").with_variables(&[
            ("ASSAY_RELEASES", &format!("https://{}/files", server.host())),
            ("ASSAY_VERSION", "0.1.0"),
            ("ASSAY_SHA256", digest),
            ("CURL_CA_BUNDLE", &server.certificate.display().to_string()),
            ("GITHUB_PATH", &fixture.root().join(format!("{name}.path")).display().to_string()),
        ]);
        (machine.step("Install assay"), fixture.root().join(format!("{name}.path")))
    };
    let digest = digests.lines().find(|line| line.ends_with("linux-x86_64.tar.gz")).and_then(|line| line.split(' ').next());
    let (installed, path) = install("right", digest.expect("a digest"));
    installed.success();
    let folder = fs::read_to_string(path).expect("the folder of programs");
    let said = std::process::Command::new(Path::new(folder.trim()).join("assay")).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "assay 0.1.0\n");
    let (refused, path) = install("forged", &"0".repeat(64));
    assert!(refused.code != 0 && !path.exists(), "what is not what was pinned is not unpacked: {}", refused.stderr);
}

pub(crate) fn write_program(path: &Path, body: &str) {
    fs::write(path, script(body)).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
}

/// Returns the nightly pipeline: `slowness` is a file with the slowdown of its program. Every night has another seed.
fn nightly_pipeline(fixture: &Fixture, slowness: &Path) -> String {
    write_answer_workload(fixture, NIGHT, "    - {path: ttft_ms_p50, unit: ms, better: lower}");
    let [count, simulator] = [fixture.root().join("night"), binary("assay-simulator")];
    format!(
        "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: nightly}}
spec:
  intent: exploratory
  workloads: [answer]
  targets: [{{name: local, kind: host}}]
  variants:
    - {{name: default, env: {{COUNT: {}, SIMULATOR: {}, SLOWNESS: {}}}}}
  trials: {{count: 1}}
  publish: {{branch: published}}
",
        count.display(),
        simulator.display(),
        slowness.display()
    )
}

const NIGHT: &str = r#"n=$(cat "$COUNT" 2>/dev/null || echo 0)
n=$((n + 1))
echo "$n" > "$COUNT"
exec "$SIMULATOR" predict --ttft-ms 50 --ttft-jitter-ms 10 --ttft-jitter-sigma 0.3 --itl-ms 10 --itl-jitter-ms 1 --concurrency 8 \
    --requests 1000 --osl 4 --seed-from "night.$n" $(cat "$SLOWNESS")"#;

/// Runs the steps of many nights: a level that holds is not reported, and if it has moved, one issue says which one and since when.
#[test]
fn a_night_is_run_pushed_looked_at_and_told() {
    let mut fixture = Fixture::bare();
    let slowness = fixture.root().join("slowness");
    fs::write(&slowness, "").expect("written");
    let pipeline = nightly_pipeline(&fixture, &slowness);
    fixture.write("pipelines/nightly.yaml", &pipeline);
    fixture.assay(&["init", "--nightly", "pipelines/nightly.yaml"]).success();
    fixture.commit("nightly");
    fixture.git(&["clone", "--quiet", "--bare", ".", "../origin.git"]);
    // The secret is made as the workflow says.
    let pack = format!("tar --create --gzip --directory '{}' . | base64", fixture.config().display());
    let packed = CommandResult::from_output(fixture.command(Path::new("bash")).args(["-c", &pack]).output().expect("bash runs"))
        .success()
        .stdout;
    fixture.unset("ASSAY_CONFIG");
    let forge = StandIn::start(Identity::Workflow);
    let store = fixture.root().join("bucket").display().to_string();
    let night = Machine::new(&fixture, "night", "assay-nightly.yaml", "main").with_variables(&[
        ("ASSAY_STORE", &store),
        ("COSIGN_PASSWORD", ""),
        ("PIPELINE", "pipelines/nightly.yaml"),
    ]);
    let environment = night.temp.join("environment").display().to_string();
    let night = night.with_variables(&[("GITHUB_ENV", &environment), ("ASSAY_KEYS", &packed)]);
    night.step("Unpack the keys").success();
    let told = fs::read_to_string(&environment).expect("what later steps have");
    let keys = told.trim().strip_prefix("ASSAY_CONFIG=").expect("where the keys are").to_owned();
    let mut night = night.with_variables(&[("ASSAY_CONFIG", &keys)]);
    // Jobs that write have no key: they get the evidence, and the list of its signers.
    let without_keys = |name: &str| {
        let nothing = fixture.root().join(format!("{name}.nothing")).display().to_string();
        let machine = Machine::new(&fixture, name, "assay-nightly.yaml", "main");
        fs::create_dir_all(machine.temp.join("trust")).expect("a folder");
        fs::copy(Path::new(&keys).join("trust.yaml"), machine.temp.join("trust/trust.yaml")).expect("copied");
        machine.with_variables(&[("ASSAY_STORE", &store), ("ASSAY_CONFIG", &nothing)])
    };
    let mut pushing = without_keys("push").with_variables(&[("TOKEN", "none")]);
    let telling = without_keys("tell").with_variables(&[("ASSAY_FORGE_TOKEN", TOKEN), ("GITHUB_API_URL", &forge.url())]);
    let issue = telling.temp.join("issue.md");
    for number in 1..=10 {
        if number == 7 {
            fs::write(&slowness, "--slow-factor 1.1").expect("written");
        }
        night = night.with_variables(&[("RUN", &format!("nightly-{number}-1"))]);
        night.step("Run").success();
        if number == 1 {
            pushing = pushing.with_variables(&[("RUN", "nightly-1-1")]);
            pushing.step("Push the numbers").success();
            assert!(fixture.git(&["--git-dir", "../origin.git", "branch", "--list", "published"]).contains("published"));
        }
        if [1, 6].contains(&number) {
            telling.step("Look at the history").success();
            assert!(!issue.exists(), "{number} nights of one level are no news");
        }
    }
    telling.step("Look at the history").success();
    assert_eq!(telling.output("changed"), "true");
    for said in ["created", "unchanged"] {
        let posted = telling.step("Open or update the issue").success();
        assert!(posted.stdout.contains(said), "{}", posted.stdout);
    }
    let issues = forge.issues();
    assert_eq!(issues.len(), 1);
    let body = issues[0]["body"].as_str().expect("a body");
    assert!(body.contains("`ttft_ms_p50`") && body.contains("from nightly-7-1"), "{body}");
    let night = night.with_variables(&[("RUN", "nightly-11-1")]);
    night.step("Run").success();
    telling.step("Look at the history").success();
    telling.step("Open or update the issue").success();
    assert!(!Path::new(&telling.variables["ASSAY_CONFIG"]).exists(), "nobody has made keys where something is written");
    assert_eq!(forge.issues().len(), 1, "what has just been told is told where it was");
}

/// Each forge has its own files, and its own way to make a verdict binding.
#[test]
fn init_writes_what_a_forge_needs() {
    for (flags, file, next) in [
        (vec!["--simple"], ".github/workflows/assay.yaml", "then require the job `gate`"),
        (vec!["--forge", "gitlab"], ".gitlab/assay.gitlab-ci.yml", "include: [{local: .gitlab/assay.gitlab-ci.yml}]"),
        (vec!["--forge", "gitea"], ".gitea/workflows/assay.yaml", "read:user, write:issue and write:repository"),
    ] {
        let fixture = Fixture::bare();
        fixture.commit("empty");
        let init = |more: &[&str]| fixture.assay(&[&["init", "--pipeline", "pipelines/mine.yaml"], &flags[..], more].concat());
        let first = init(&[]).success();
        let starter = "written    pipelines/mine.yaml\nwritten    workloads/example/workload.yaml\n";
        assert_eq!(first.stdout, format!("written    {file}\n{starter}"));
        assert!(first.stderr.contains("try `assay run pipelines/mine.yaml`"), "{}", first.stderr);
        assert!(first.stderr.contains(next) && first.stderr.contains("docs/forges.md"), "{}", first.stderr);
        assert!(!first.stderr.contains("assay-gate") && !first.stderr.contains("nightly"), "{}", first.stderr);
        let again = format!("assay init {} --releases URL", flags.join(" "));
        assert!(first.stderr.contains(&again) && first.stderr.contains(&format!("both sides into `{file}`")), "{}", first.stderr);
        assert_eq!(init(&[]).success().stdout, format!("unchanged  {file}\n"));
        let archive = format!("sha256:{}", "a".repeat(64));
        init(&["--releases", "https://example.org/assay", "--archive", &archive]).success();
        let text = fs::read_to_string(fixture.repo().join(file)).expect("the file");
        for said in ["PIPELINE: pipelines/mine.yaml", "ASSAY_RELEASES: https://example.org/assay", &"a".repeat(64)] {
            assert!(text.contains(said), "{file}: {said}");
        }
        init(&[]).refuses(2, "file_differs");
    }
    Fixture::bare().assay(&["init", "--forge", "bitbucket"]).exits(2);
}

/// The pipelines that `assay init` writes run unchanged.
#[test]
fn the_pipelines_to_begin_with_run_as_they_stand() {
    let fixture = Fixture::new();
    fixture.commit("empty");
    let init = fixture.assay(&["init"]).success();
    for path in ["pipelines/gate.yaml", "pipelines/nightly.yaml", "workloads/example/workload.yaml"] {
        assert!(init.stdout.contains(&format!("written    {path}\n")), "{}", init.stdout);
    }
    fixture.assay(&["validate"]).success();
    fixture.commit("as init wrote it");
    fixture.assay(&["run", "pipelines/gate.yaml", "--run-id", "first"]).success();
    // A program is compared with itself: the gate judges it, and the outcome depends on the machine.
    let judged = fixture.assay(&["gate", "first", "--baseline", "main"]);
    assert!([0, 40, 41].contains(&judged.code) && judged.stdout.contains("cpu_time_ms"), "{judged:?}");
    fixture.assay(&["run", "pipelines/nightly.yaml", "--run-id", "night", "--no-push"]).success();
    // Files that the user has changed stay.
    fixture.write("pipelines/gate.yaml", "mine\n");
    let again = fixture.assay(&["init"]).success();
    assert!(!again.stdout.contains("pipelines/gate.yaml"), "{}", again.stdout);
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
