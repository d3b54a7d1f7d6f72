//! The pages are followed word by word: every command in them runs, every file in them is written as it stands.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::{Fixture, binary};

/// A fenced block that says what is to be done with it: `sh run`, or `yaml file=PATH`.
struct Block {
    what: String,
    body: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some((_, what)) = line.strip_prefix("```").and_then(|info| info.split_once(' ')) else { continue };
        let body: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block { what: what.to_owned(), body: body.join("\n") + "\n" });
    }
    blocks
}

fn follow(fixture: &Fixture, folder: &Path, block: &Block) {
    if let Some(path) = block.what.strip_prefix("file=") {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        std::fs::write(&path, &block.body).expect("a file");
        let mode = if block.body.starts_with("#!") { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        return;
    }
    assert_eq!(block.what, "run", "a block says `run` or `file=PATH`");
    let binaries = binary("assay").parent().expect("binaries lie in a folder").to_owned();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").expect("a PATH"));
    let mut shell = fixture.command(Path::new("sh"));
    let ran = shell.args(["-euc", &block.body]).current_dir(folder).env("PATH", path).output().expect("sh runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}\nended with {}:\n{said}", block.body, ran.status);
}

#[test]
fn adding_a_workload_is_followed_to_its_end() {
    let page = include_str!("../../docs/adding-a-workload.md");
    let blocks = blocks(page);
    assert!(blocks.len() >= 8, "the page has its steps");
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().expect("a folder");
    for block in &blocks {
        follow(&fixture, folder.path(), block);
    }
    assert!(folder.path().join("my-benchmarks/.assay/published/claimed/report.html").is_file());
}

/// The README's path after the build: the quickstart pipeline of this repository, then the two commands that its run prints.
#[test]
fn the_readme_s_path_ends_in_a_proved_number() {
    assert!(include_str!("../../README.md").contains("`assay run pipelines/quickstart.yaml`"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let fixture = Fixture::without_keys();
    for folder in ["pipelines", "workloads"] {
        crate::support::copy_folder(&root.join(folder), &fixture.repo().join(folder));
    }
    fixture.commit("the shipped definitions");
    let ran = fixture.assay(&["run", "pipelines/quickstart.yaml"]).success();
    let printed = |name: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(name)).expect("the command is printed");
        line.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, says) in [("verify ", "level 3 (raw bytes) of 4 reached"), ("prove ", "number ")] {
        let command = printed(name);
        let arguments: Vec<_> = command.iter().map(String::as_str).collect();
        assert!(fixture.assay(&arguments).success().stdout.contains(says), "{command:?}");
    }
}

#[test]
fn links_in_the_pages_arrive() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    for page in ["README.md", "docs/architecture.md", "docs/provenance.md", "docs/adding-a-workload.md"] {
        let text = std::fs::read_to_string(root.join(page)).expect(page);
        let folder = root.join(page).parent().expect("a folder").to_owned();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(folder.join(target).exists(), "{page} links to `{target}`, which is not there");
        }
    }
}
