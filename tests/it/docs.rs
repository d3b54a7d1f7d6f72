//! Tests that follow the pages word by word: every command in them runs, every file in them is written as printed.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, binary, files_under};

/// A fenced block that names its use: `sh run`, `sh beside`, `sql ask` or `yaml file=PATH`.
pub(crate) struct Block {
    pub(crate) purpose: String,
    body: String,
}

pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some((_, what)) = line.strip_prefix("```").and_then(|info| info.split_once(' ')) else { continue };
        let body: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block { purpose: what.to_owned(), body: body.join("\n") + "\n" });
    }
    blocks
}

/// A reader who follows a page, in a separate folder.
pub(crate) struct Reader<'a> {
    fixture: &'a Fixture,
    pub(crate) folder: PathBuf,
    /// A folder of programs that the page expects to be installed.
    pub(crate) tools: Option<PathBuf>,
    /// Processes that run in a separate terminal and are ended after the page.
    background: Vec<Child>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(fixture: &'a Fixture) -> Self {
        let folder = fixture.root().join("reader");
        std::fs::create_dir(&folder).expect("a folder for the reader");
        Self { fixture, folder, tools: None, background: Vec::new() }
    }

    pub(crate) fn follow(&mut self, block: &Block) {
        match block.purpose.as_str() {
            "run" => self.run(&block.body),
            "beside" => {
                let child = self.shell(&format!("exec {}", block.body)).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
                self.background.push(child.expect("sh runs"));
            }
            "ask" => {}
            what => self.write(what.strip_prefix("file=").expect("a block says what is to be done with it"), &block.body),
        }
    }

    fn run(&self, commands: &str) {
        let ran = self.shell(commands).output().expect("sh runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{commands}\nended with {}:\n{said}", ran.status);
    }

    /// Returns a shell that exits at the first failure, with this workspace's binaries on its path.
    fn shell(&self, commands: &str) -> Command {
        let binaries = binary("assay").parent().expect("binaries lie in a folder").to_owned();
        let folders = std::iter::once(binaries).chain(self.tools.clone());
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&std::env::var_os("PATH").expect("a PATH"))));
        let mut shell = self.fixture.command(Path::new("sh"));
        shell.args(["-euc", commands]).current_dir(&self.folder).env("PATH", path.expect("paths"));
        shell
    }

    fn write(&self, path: &str, body: &str) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
        std::fs::write(&path, body).expect("a file");
        let mode = if body.starts_with("#!") { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        for child in &mut self.background {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn adding_a_workload_is_followed_to_its_end() {
    let page = include_str!("../../docs/adding-a-workload.md");
    let blocks = blocks(page);
    assert!(blocks.len() >= 8, "the page has its steps");
    let fixture = Fixture::new();
    let mut reader = Reader::new(&fixture);
    for block in &blocks {
        reader.follow(block);
    }
    assert!(reader.folder.join("my-benchmarks/.assay/published/claimed/report.html").is_file());
}

/// The port differs from the page's, because another process may be using that one.
#[test]
fn benchmarking_an_endpoint_is_followed_to_its_end() {
    const ADDRESS: &str = "127.0.0.1:8000";
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string();
    let page = include_str!("../../docs/serving.md").replace(ADDRESS, &free);
    let blocks = blocks(&page);
    assert!(blocks.len() >= 7, "the page has its steps");
    let fixture = Fixture::new();
    let mut reader = Reader::new(&fixture);
    for block in &blocks {
        reader.follow(block);
    }
    let published = reader.folder.join("my-serving/.assay/published");
    for run in ["first-look", "first"] {
        assert!(published.join(run).join("report.html").is_file(), "{run}");
    }
    let question = blocks.iter().find(|block| block.purpose == "ask").expect("the page asks the raw records");
    check_raw_records(&reader.folder.join("my-serving"), &published.join("first"), &question.body);
    check_warehouse_examples(&fixture, &reader.folder.join("my-serving"), &published.join("first"));
    drop(reader);
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// The page's commands state with which exit code a gate ends.
#[test]
fn gating_is_followed_to_its_end() {
    let fixture = Fixture::new();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/gates.md"));
    assert!(blocks.len() >= 7, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
    assert!(reader.folder.join("my-gate/verdicts/latency/report.html").is_file());
    drop(reader);
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// The script for any CI stops the slower change, and leaves the files that a CI shows.
#[test]
fn judging_anywhere_is_followed_to_its_end() {
    let fixture = Fixture::new();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/forges.md"));
    assert_eq!(blocks.len(), 5, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
    let verdict = std::fs::read_to_string(reader.folder.join("my-project/assay/verdict/latency/check.json")).expect("a check");
    assert!(verdict.contains("\"failure\""), "the candidate is slower: {verdict}");
    drop(reader);
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// The port differs from the page's here too.
#[test]
fn stores_are_served_and_fetched_as_the_page_says() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string();
    let page = include_str!("../../docs/stores.md").replace("127.0.0.1:8420", &free);
    let fixture = Fixture::new();
    let mut reader = Reader::new(&fixture);
    for block in &blocks(&page) {
        reader.follow(block);
    }
    assert!(reader.folder.join("served/runs/first/source").is_file());
    assert!(reader.folder.join("measured/copy/runs/first/source").is_file());
    drop(reader);
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// The query over the raw records returns the trial's number up to the last bit, if DuckDB is installed (see `foreign.rs`).
#[expect(clippy::print_stdout, reason = "a test that looks at less says so")]
fn check_raw_records(repository: &Path, published: &Path, sql: &str) {
    const ASK: &str = "import duckdb, json, sys; print(json.dumps(duckdb.execute(sys.argv[1]).fetchall()))";
    let Some(folder) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: nobody has asked the raw records");
        return;
    };
    let summary: Value =
        serde_json::from_slice(&std::fs::read(published.join("chain/summary.json")).expect("the summary")).expect("JSON");
    let points = list(&summary["body"]["points"]).iter();
    let point = points.clone().find(|point| point["point_id"] == "concurrency-8").expect("the point of the page's query");
    let metric = list(&point["metrics"]).iter().find(|metric| metric["metric"] == "ttft_ms_p99").expect("the page's metric");
    let trial = list(&metric["trials"])
        .iter()
        .find(|trial| text(&trial["trial_id"]).rsplit('.').next() == Some("t0"))
        .expect("it counts");
    let mut python = Command::new(folder.join("venv/bin/python"));
    let output = CommandResult::from_output(python.args(["-c", ASK, sql]).current_dir(repository).output().expect("python runs"))
        .success()
        .json();
    // The query names every attempt of the trial, and a busy machine may have invalidated one.
    if trial["attempt"] == 0 {
        let [row] = &list(&output)[..] else { panic!("one row, as every request succeeded: {output}") };
        assert_eq!(row[2].to_string(), text(&trial["n"]), "{output}");
        // DuckDB interpolates by other operations, which may differ in the last bit.
        let (asked, stored) = (row[3].as_f64().expect("a number"), trial["value"].as_f64().expect("a number"));
        assert!((asked - stored).abs() <= 1e-12 * stored, "{output} is not {stored}");
    }
}

/// Follows the README after the build: the quickstart pipeline of this repository, then the two commands that its run prints.
#[test]
fn the_readme_s_path_ends_in_a_proved_number() {
    assert!(include_str!("../../README.md").contains("`assay run pipelines/quickstart.yaml`"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let fixture = Fixture::without_keys();
    for folder in ["pipelines", "queries", "workloads"] {
        crate::support::copy_folder(&root.join(folder), &fixture.repo().join(folder));
    }
    fixture.commit("the shipped definitions");
    fixture.assay(&["validate"]).success();
    let of_users = fixture.assay(&["run", "pipelines/chat-users.yaml", "--json"]).success().json();
    let loads: Vec<_> = list(&of_users["results"]).iter().map(|result| result["load"].clone()).collect();
    assert_eq!(loads, [4, 8].map(|users| json!({"users": users, "rate": 40})));
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
    // The examples of the warehouse's page name what this run has measured.
    let examples = sql_examples(include_str!("../../docs/warehouse.md"));
    let of_quickstart: Vec<_> =
        examples.iter().filter(|example| example.contains("FROM outcomes") && example.contains("hash_mb_per_s")).collect();
    assert!(of_quickstart.len() >= 2, "{examples:?}");
    for query in of_quickstart {
        let rows = fixture.assay(&["query", "--format", "json", query]).success().stdout;
        assert_eq!(rows.lines().count(), 1, "{query}\n{rows}");
    }
}

/// Returns the SQL statements of a page's indented examples: on their own, in a shell command, and in a Python call.
fn sql_examples(page: &str) -> Vec<String> {
    let indented = |line: &&str| line.starts_with("    ") || line.is_empty();
    let lines: Vec<&str> = page.lines().filter(indented).map(str::trim).collect();
    let blocks = lines.split(|line| line.is_empty()).map(|block| block.join("\n"));
    let statements = |block: String| -> Vec<String> {
        let code = block.replace("\"\"\"", "\"");
        let quoted = code.split('"').map(str::trim).filter(|text| text.starts_with("SELECT")).map(str::to_owned);
        let bare =
            code.split(';').map(str::trim).filter(|text| text.starts_with("SELECT") && !text.contains('"')).map(str::to_owned);
        quoted.chain(bare).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    };
    blocks.flat_map(statements).collect()
}

/// Returns the number of times that a statement has a condition, whatever the alias of its table.
fn conditions(statement: &str, condition: &str) -> usize {
    statement.replace(['\n', '.'], " ").matches(&format!(" {condition}")).count()
}

/// A result that mixes statistics, or trials and points, has no meaning.
#[test]
fn examples_of_the_warehouse_ask_for_one_metric_one_statistic_and_one_kind_of_row() {
    let examples = sql_examples(include_str!("../../docs/warehouse.md"));
    let mut checked = 0;
    for example in &examples {
        if example.contains("outcome_fact") || example.contains("FROM outcomes") {
            assert_eq!(conditions(example, "metric = '"), 1, "one metric:\n{example}");
            assert_eq!(conditions(example, "statistic = '"), 1, "one statistic:\n{example}");
            let kinds = ["trial_id IS NULL", "trial_id IS NOT NULL"].map(|kind| conditions(example, kind));
            assert_eq!(kinds.iter().sum::<usize>(), 1, "one kind of row:\n{example}");
            checked += 1;
        } else if example.contains("FROM cluster_events") {
            checked += 1;
        } else if example.contains("FROM telemetry") {
            assert_eq!(conditions(example, "metric = '"), 1, "one metric:\n{example}");
            checked += 1;
        }
    }
    assert!(checked >= 6 && checked + 1 == examples.len(), "{checked} of:\n{}", examples.join("\n\n"));
    // The test itself sees the mixture that a page once had.
    let mixed = "SELECT benchmark_case_id, avg(value) FROM outcome_fact GROUP BY ALL";
    assert_eq!((sql_examples(&format!("    sql(\"{mixed}\")")), conditions(mixed, "metric = '")), (vec![mixed.to_owned()], 0));
}

/// Runs the page's examples over a real run: its names take the place of the page's, and each example has rows of one kind.
fn check_warehouse_examples(fixture: &Fixture, repository: &Path, published: &Path) {
    let summary: Value =
        serde_json::from_slice(&std::fs::read(published.join("chain/summary.json")).expect("the summary")).expect("JSON");
    let point = &summary["body"]["points"][0];
    let points = list(&summary["body"]["points"]).len();
    let trials: usize = list(&summary["body"]["points"]).iter().map(|point| list(&point["metrics"][0]["trials"]).len()).sum();
    let examples = sql_examples(include_str!("../../docs/warehouse.md"));
    let own = examples.iter().filter(|example| !example.contains("_scan") && !example.contains("outcome_fact"));
    for example in own {
        let query = example
            .replace("nightly-20261120-0200", "first")
            .replace("sha256.local.default", text(&point["case_id"]))
            .replace("hash_mb_per_s", "ttft_ms_p99");
        let arguments = ["query", "--format", "json", &query];
        let asked = CommandResult::from_output(
            fixture.command(&binary("assay")).args(arguments).current_dir(repository).output().expect("assay runs"),
        )
        .success();
        let rows = asked.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        // The store holds the page's other run, too.
        let rows: Vec<Value> = rows.filter(|row| row["run_id"].is_null() || row["run_id"] == "first").collect();
        match () {
            // This run was in no cluster, and most machines have no meter of energy.
            () if example.contains("FROM cluster_events") || example.contains("energy_per_output_token") => {}
            () if example.contains("FROM runs") => assert_eq!(rows.len(), 1, "{query}"),
            () if example.contains("trial_id IS NULL") => assert_eq!(rows.len(), points, "{query}"),
            () if example.contains("trial_id IS NOT NULL") => assert_eq!(rows.len(), trials, "{query}"),
            () => assert!(!rows.is_empty(), "{query}"),
        }
    }
}

/// Lists every page for readers: this repository's README, and all pages below `docs`.
fn pages(root: &Path) -> Vec<PathBuf> {
    let docs = files_under(&root.join("docs")).into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    docs.chain([root.join("README.md")]).collect()
}

/// Returns the lines of a page that are not in a fenced block.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    page.lines().filter(move |line| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Returns the link anchors of a page's headings: in lower case, words joined by hyphens, without other punctuation.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = prose(page).filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading.to_lowercase().replace(' ', "-");
        kept.chars().filter(|each| each.is_alphanumeric() || "-_".contains(*each)).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_in_the_pages_arrive() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let pages = pages(root);
    assert!(pages.len() >= 10, "{pages:?}");
    let mut followed = 0;
    for page in pages {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = read(&page);
        for target in prose(&text).flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = page.parent().expect("a page lies in a folder");
            let arrives = if path.is_empty() { page.clone() } else { folder.join(path) };
            assert!(arrives.exists(), "{} links to `{target}`, which is not there", page.display());
            let has_it = || anchors(&read(&arrives)).contains(anchor);
            assert!(anchor.is_empty() || has_it(), "{} links to `{target}`, a heading that is not there", page.display());
            followed += 1;
        }
    }
    assert!(followed > 50, "{followed} links");
}

/// A command, and two of them, are measured without any file.
#[test]
fn measuring_a_command_is_followed_to_its_end() {
    let fixture = Fixture::new();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/exec.md"));
    assert!(blocks.len() >= 5, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
    drop(reader);
    assert_eq!(fixture.leftovers(), [""; 0]);
}
