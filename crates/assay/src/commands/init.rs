//! `assay init`: the workflows that gate a repository, written into it.

use std::path::{Path, PathBuf};

use assay_git::Repository;
use assay_manifest::Digest;
use assay_stage::{Exit, Failure};

use crate::output;

/// Where workflows lie.
const FOLDER: &str = ".github/workflows";

/// The workflows as this version ships them.
const WORKFLOWS: [(&str, &str); 4] = [
    ("assay-plan.yaml", include_str!("../../../../ci/github/assay-plan.yaml")),
    ("assay-run.yaml", include_str!("../../../../ci/github/assay-run.yaml")),
    ("assay-gate.yaml", include_str!("../../../../ci/github/assay-gate.yaml")),
    ("assay-nightly.yaml", include_str!("../../../../ci/github/assay-nightly.yaml")),
];

/// What stands in them where somebody has to say more.
const GATED: &str = "pipelines/gate.yaml";
const NIGHTLY: &str = "pipelines/nightly.yaml";

/// Write the workflows that plan, run and gate pull requests into this repository. A file that differs is never overwritten unless told to;
/// with `--releases` and `--archive`, files that are there get these two filled in, and stay as they are otherwise.
#[derive(clap::Args)]
pub(crate) struct Init {
    /// The pipeline whose comparison gates pull requests
    #[arg(long, value_name = "FILE", default_value = GATED, value_parser = plain_path)]
    pipeline: String,
    /// The pipeline that runs every night
    #[arg(long, value_name = "FILE", default_value = NIGHTLY, value_parser = plain_path)]
    nightly: String,
    /// Where releases of Assay are downloaded from
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
        // What somebody has written into a file since is not lost where only an address is filled in.
        let is_filling = !self.force && (self.releases.is_some() || self.archive.is_some());
        let file = |(name, shipped): &(&str, &str)| {
            let path = root.join(FOLDER).join(name);
            let there = std::fs::read_to_string(&path).ok().filter(|_| is_filling);
            let text = there.map_or_else(|| self.filled_in(shipped), |there| self.installing(&there, self.archive.is_some()));
            (path, text)
        };
        let files: Vec<(PathBuf, String)> = WORKFLOWS.iter().map(file).collect();
        if !self.force && !is_filling {
            refuse_others(&files)?;
        }
        for (path, text) in &files {
            let shown = path.strip_prefix(&root).unwrap_or(path).display();
            if std::fs::read_to_string(path).is_ok_and(|there| there == *text) {
                output::line(format!("unchanged  {shown}"));
                continue;
            }
            write(path, text)?;
            output::line(format!("written    {shown}"));
        }
        self.say_what_is_next(&root);
        Ok(Exit::Done)
    }

    /// A workflow with what this repository says.
    fn filled_in(&self, text: &str) -> String {
        let text = text.replace(&format!("PIPELINE: {GATED}"), &format!("PIPELINE: {}", self.pipeline));
        let text = text.replace(&format!("PIPELINE: {NIGHTLY}"), &format!("PIPELINE: {}", self.nightly));
        self.installing(&text, true)
    }

    /// A workflow with where Assay is to be had, whatever it said before; as this version, because a digest is a version's.
    fn installing(&self, text: &str, as_this_version: bool) -> String {
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

    fn say_what_is_next(&self, root: &Path) {
        let mut steps = Vec::new();
        if self.releases.is_none() || self.archive.is_none() {
            steps.push(
                "say which Assay they install: `assay init --releases URL --archive sha256:...`; until then they install nothing"
                    .to_owned(),
            );
        }
        if !root.join(&self.pipeline).is_file() {
            steps.push(format!("write `{}`, with a `comparison` and `gates`", self.pipeline));
        }
        if !root.join(&self.nightly).is_file() {
            steps.push(format!("write `{}`, which runs every night, or delete `{FOLDER}/assay-nightly.yaml`", self.nightly));
        }
        steps.push(format!("write the build of both sides into `{FOLDER}/assay-run.yaml`"));
        steps.push("make the gate's key, and put it into the environment `assay-gate` of the repository".to_owned());
        steps.push("merge all of it to the default branch, and require the gate's check".to_owned());
        output::talk("\nnext:");
        for (number, step) in (1..).zip(steps) {
            output::talk(format!("  {number}. {step}"));
        }
        output::talk("`docs/gates.md` of Assay's own repository says how, step by step");
    }
}

fn repository_root() -> Result<PathBuf, Failure> {
    let no_repository = |error: &(dyn std::error::Error + 'static)| {
        Failure::usage("no_repository", "workflows belong into a Git repository, and this folder is in none").because(error)
    };
    let repository = Repository::discover(Path::new(".")).map_err(|error| no_repository(&error))?;
    repository
        .worktree()
        .map(Path::to_owned)
        .ok_or_else(|| Failure::usage("no_repository", "this repository is bare: it has no files").hint("run it in a checkout"))
}

/// Nothing is written where something would be lost.
fn refuse_others(files: &[(PathBuf, String)]) -> Result<(), Failure> {
    let differs = |(path, text): &&(PathBuf, String)| path.exists() && std::fs::read_to_string(path).ok().as_ref() != Some(text);
    let Some((path, _)) = files.iter().find(differs) else { return Ok(()) };
    let message = format!("`{}` is there and differs, so nothing was written", path.display());
    Err(Failure::usage("file_differs", message).hint("`--force` overwrites it"))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| {
        Failure::environment("output", format!("cannot write `{}`", path.display())).because(&error).lasting()
    };
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(unwritable)?;
    std::fs::write(path, text).map_err(unwritable)
}

/// A path that means the same in YAML and in a shell as here.
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
