//! `assay init`: writes the workflows that gate a repository, and starter pipelines.

use std::path::{Path, PathBuf};

use assay_forge::Kind;
use assay_git::Repository;
use assay_manifest::Digest;
use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::definitions;
use crate::commands::forge::kinds;
use crate::commands::repository_root::way_up;
use crate::output;

/// A file that this version ships, and its path in the repository.
type ShippedFile = (&'static str, &'static str);

/// Plans, measures, judges and posts, each with no more rights than it needs.
const FULL: [ShippedFile; 4] = [
    (".github/workflows/assay-plan.yaml", include_str!("../../../../ci/github/assay-plan.yaml")),
    (RUN, include_str!("../../../../ci/github/assay-run.yaml")),
    (".github/workflows/assay-gate.yaml", include_str!("../../../../ci/github/assay-gate.yaml")),
    (NIGHT, include_str!("../../../../ci/github/assay-nightly.yaml")),
];
const RUN: &str = ".github/workflows/assay-run.yaml";
const NIGHT: &str = ".github/workflows/assay-nightly.yaml";

/// Measures and judges in one job without any right.
const SIMPLE: [ShippedFile; 1] = [(".github/workflows/assay.yaml", include_str!("../../../../ci/github/assay-simple.yaml"))];
const GITLAB: [ShippedFile; 1] = [(".gitlab/assay.gitlab-ci.yml", include_str!("../../../../ci/gitlab/assay.gitlab-ci.yml"))];
const GITEA: [ShippedFile; 1] = [(".gitea/workflows/assay.yaml", include_str!("../../../../ci/gitea/assay.yaml"))];

/// The path of the starter pipelines' workload.
const EXAMPLE: &str = "workloads/example/workload.yaml";

/// The starter pipelines, and their workload.
const STARTER_GATE: &str = include_str!("../../../../ci/starter/gate.yaml");
const STARTER_NIGHT: &str = include_str!("../../../../ci/starter/nightly.yaml");
const STARTER_WORKLOAD: &str = include_str!("../../../../ci/starter/workload.yaml");

/// The pipelines that the shipped workflows name, which are replaced by this repository's.
const GATED: &str = "pipelines/gate.yaml";
const NIGHTLY: &str = "pipelines/nightly.yaml";

/// Write the workflows that gate pull requests into this repository and, if there is no pipeline yet, one that runs unchanged. A
/// file that differs is overwritten only with `--force`; with `--releases` and `--archive`, existing files get these two filled
/// in, and stay unchanged otherwise.
#[derive(clap::Args)]
pub(crate) struct Init {
    /// The forge, which selects the workflows. GitLab and Gitea (also Forgejo) get one file, as with `--simple`
    #[arg(long, value_name = "KIND", default_value_t, value_parser = kinds())]
    forge: Kind,
    /// Write one workflow that measures and judges, without secrets or write permission. It finds accidental regressions; the
    /// judged pull request can change it
    #[arg(long, conflicts_with = "nightly")]
    simple: bool,
    /// The pipeline whose comparison gates pull requests
    #[arg(long, value_name = "FILE", default_value = GATED, value_parser = plain_path)]
    pipeline: String,
    /// The pipeline that runs every night
    #[arg(long, value_name = "FILE", default_value = NIGHTLY, value_parser = plain_path)]
    nightly: String,
    /// The URL to download releases of Assay from
    #[arg(long, value_name = "URL", value_parser = releases)]
    releases: Option<String>,
    /// The digest of the release's archive for x86-64, sha256:...
    #[arg(long, value_name = "DIGEST")]
    archive: Option<Digest>,
    /// Overwrite files that differ
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let root = repository_root()?;
        // Edits of an existing file are kept if only an address is filled in.
        let is_filling = !self.force && (self.releases.is_some() || self.archive.is_some());
        let file = |(path, shipped): &ShippedFile| {
            let path = root.join(path);
            let there = std::fs::read_to_string(&path).ok().filter(|_| is_filling);
            let text = there.map_or_else(|| self.fill_in(shipped), |there| self.fill_release(&there, self.archive.is_some()));
            (path, text)
        };
        let files: Vec<(PathBuf, String)> = self.shipped().iter().map(file).collect();
        if !self.force && !is_filling {
            let all = files.iter().map(|(path, text)| (path.clone(), text.as_bytes()));
            definitions::refuse_others(all, "`--force` overwrites it")?;
        }
        for (path, text) in files.iter().chain(&self.starters(&root)) {
            let shown = path.strip_prefix(&root).unwrap_or(path).display();
            if std::fs::read_to_string(path).is_ok_and(|there| there == *text) {
                output::line(format!("unchanged  {shown}"));
                continue;
            }
            definitions::write(path, text.as_bytes())?;
            output::line(format!("written    {shown}"));
        }
        self.print_next_steps(&root);
        Ok(Exit::Done)
    }

    /// Returns the starter pipelines, if the pipelines that the workflows name do not exist. Existing files are left alone.
    fn starters(&self, root: &Path) -> Vec<(PathBuf, String)> {
        let is_absent = |path: &str| !root.join(path).exists();
        let mut starters = Vec::new();
        if is_absent(&self.pipeline) {
            starters.push((self.pipeline.as_str(), STARTER_GATE));
        }
        if self.has(NIGHT) && is_absent(&self.nightly) {
            starters.push((self.nightly.as_str(), STARTER_NIGHT));
        }
        if !starters.is_empty() && is_absent(EXAMPLE) {
            starters.push((EXAMPLE, STARTER_WORKLOAD));
        }
        starters.into_iter().map(|(path, text)| (root.join(path), text.to_owned())).collect()
    }

    fn shipped(&self) -> &'static [ShippedFile] {
        match self.forge {
            Kind::GitHub if self.simple => &SIMPLE,
            Kind::GitHub => &FULL,
            Kind::GitLab => &GITLAB,
            Kind::Gitea => &GITEA,
        }
    }

    /// Returns the options that select this set of files again.
    fn flags(&self) -> &'static str {
        match self.forge {
            Kind::GitHub if self.simple => " --simple",
            Kind::GitHub => "",
            Kind::GitLab => " --forge gitlab",
            Kind::Gitea => " --forge gitea",
        }
    }

    fn has(&self, path: &str) -> bool {
        self.shipped().iter().any(|(shipped, _)| *shipped == path)
    }

    /// Returns a workflow with this repository's values.
    fn fill_in(&self, text: &str) -> String {
        let text = text.replace(&format!("PIPELINE: {GATED}"), &format!("PIPELINE: {}", self.pipeline));
        let text = text.replace(&format!("PIPELINE: {NIGHTLY}"), &format!("PIPELINE: {}", self.nightly));
        self.fill_release(&text, true)
    }

    /// Returns a workflow with the address and digest of Assay's release, in place of any earlier ones; with this version's
    /// number, because a digest belongs to a version.
    fn fill_release(&self, text: &str, as_this_version: bool) -> String {
        let digest = self.archive.map(|archive| format!("\"{}\"", archive.hex()));
        let said = [
            ("ASSAY_RELEASES", self.releases.clone()),
            ("ASSAY_VERSION", as_this_version.then(|| format!("\"{}\"", env!("CARGO_PKG_VERSION")))),
            ("ASSAY_SHA256", digest),
        ];
        let line = |line: &str| {
            let (name, _) = line.trim_start().split_once(": ")?;
            let value = said.iter().find(|(known, _)| *known == name)?.1.as_ref()?;
            let (indent, _) = line.split_once(name)?;
            Some(format!("{indent}{name}: {value}"))
        };
        text.lines().map(|text| line(text).unwrap_or_else(|| text.to_owned()) + "\n").collect()
    }

    fn print_next_steps(&self, root: &Path) {
        output::diagnostic("\nnext:");
        if let Some(up) = way_up(Path::new(".")) {
            output::diagnostic(format!("  cd {}", up.display()));
        }
        for (number, step) in (1..).zip(self.next_steps(root)) {
            output::diagnostic(format!("  {number}. {step}"));
        }
        let page = if self.has(RUN) { "docs/gates.md" } else { "docs/forges.md" };
        output::diagnostic(format!("`{page}` of Assay's own repository says how, step by step"));
    }

    fn next_steps(&self, root: &Path) -> Vec<String> {
        let mut steps = Vec::new();
        if self.releases.is_none() || self.archive.is_none() {
            let again = format!("assay init{} --releases URL --archive sha256:...", self.flags());
            steps.push(format!("name the release of Assay that the workflows install: `{again}`; without it they cannot run"));
        }
        if is_starter(&root.join(EXAMPLE)) {
            steps.push(format!("try `assay run {}`, then put your own program into `{EXAMPLE}`", self.pipeline));
        }
        if self.has(NIGHT) && is_starter(&root.join(&self.nightly)) {
            steps.push(format!("look at `{}`, which runs every night, or delete it and `{NIGHT}`", self.nightly));
        }
        let [first, ..] = self.shipped() else { return steps };
        let ignored = "they go below `sut/`, which `.gitignore` should name";
        steps.push(format!("write the build of both sides into `{}`: {ignored}", if self.has(RUN) { RUN } else { first.0 }));
        steps.extend(self.last_steps(root, first.0));
        steps
    }

    /// Returns the steps that a set of files needs in addition to a pipeline and a build.
    fn last_steps(&self, root: &Path, file: &str) -> Vec<String> {
        let merge = "merge all of it to the default branch: a change is judged by the rules that are there";
        match self.forge {
            Kind::GitHub if self.simple => {
                let both = root.join(RUN).is_file().then(|| format!("delete `{RUN}` or `{file}`: both measure each pull request"));
                both.into_iter().chain([format!("{merge}; then require the job `gate`")]).collect()
            }
            Kind::GitHub => vec![
                "make the gate's key, and put it into the environment `assay-gate` of the repository".to_owned(),
                "merge all of it to the default branch, and require the gate's check".to_owned(),
            ],
            Kind::GitLab => vec![
                format!("include it in `.gitlab-ci.yml`: `include: [{{local: {file}}}]`"),
                "to have verdicts posted, make the masked variable ASSAY_FORGE_TOKEN: an access token with the scope `api`".to_owned(),
                format!("{merge}; then let merge requests ask for a pipeline that succeeded"),
            ],
            Kind::Gitea => vec![
                "to have verdicts posted, make the secret ASSAY_FORGE_TOKEN: a token with read:user, write:issue and write:repository"
                    .to_owned(),
                format!("{merge}; then require the job `gate`"),
            ],
        }
    }
}

/// Returns true if a file is a starter file of this version.
fn is_starter(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| [STARTER_NIGHT, STARTER_WORKLOAD].contains(&text.as_str()))
}

fn repository_root() -> Result<PathBuf, Failure> {
    let no_repository = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(ErrorCode::NoRepository, "workflows belong into a Git repository, and this folder is in none").because(error)
    };
    let repository = Repository::discover(Path::new(".")).map_err(|error| no_repository(&error))?;
    repository.worktree().map(Path::to_owned).ok_or_else(|| {
        Failure::new(ErrorCode::NoRepository, "this repository is bare: it has no files").hint("run it in a checkout")
    })
}

/// Parses a path that means the same in YAML and in a shell.
fn plain_path(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let accepted = !text.is_empty() && !text.starts_with(['/', '-', '.']) && text.bytes().all(is_plain) && !text.contains("..");
    if accepted {
        Ok(text.to_owned())
    } else {
        Err("a path from the repository's root, of letters, digits and `/._-`".to_owned())
    }
}

fn releases(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/._-".contains(&byte);
    let accepted = text.starts_with("https://") && text.bytes().all(is_plain);
    if accepted { Ok(text.trim_end_matches('/').to_owned()) } else { Err("an address that begins with https://".to_owned()) }
}
