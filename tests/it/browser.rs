//! A browser opens the reports: the requirements of readers hold at two widths, light and dark, and without a mouse.
//!
//! `tests/browser/install.sh FOLDER` installs it; `ASSAY_TEST_BROWSER=FOLDER` requests it. If it is requested but absent, the
//! tests fail; if it is not requested, they say so and check nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use assay_foreign::RESULT_FORMATS;

use crate::bench::{RUN, bench_fixture, failing_server, refusing_server, run_bench};
use crate::support::{CommandResult, Fixture, binary, files_under};

/// The script that opens a page in a browser and checks it.
struct Browser(PathBuf);

impl Browser {
    /// Returns `None` if no browser was requested.
    #[expect(clippy::print_stdout, reason = "a test that looks at less says so")]
    fn from_env() -> Option<Self> {
        let Some(folder) = std::env::var_os("ASSAY_TEST_BROWSER").map(PathBuf::from) else {
            println!("ASSAY_TEST_BROWSER is not set: no browser has opened the page");
            return None;
        };
        let script = folder.join("check.mjs");
        assert!(script.is_file(), "`{}` is not there: install it with tests/browser/install.sh", script.display());
        Some(Self(script))
    }

    /// Opens a page and asserts that the script finds no problem.
    #[track_caller]
    fn check_page(&self, options: &[&str], page: &Path) {
        let mut node = Command::new("node");
        let ran = CommandResult::from_output(node.arg(&self.0).args(options).arg(page).output().expect("node starts"));
        assert_eq!(ran.code, 0, "{}:\n{}{}", page.display(), ran.stdout, ran.stderr);
    }
}

#[test]
fn a_report_of_several_loads_opens() {
    let Some(browser) = Browser::from_env() else { return };
    browser.check_page(&[], &bench_fixture().0.published(RUN).join("report.html"));
}

#[test]
fn a_report_with_failures_opens() {
    let Some(browser) = Browser::from_env() else { return };
    let fixture = Fixture::bare();
    run_bench(&fixture, &failing_server(), "failing").success();
    browser.check_page(&[], &fixture.published("failing").join("report.html"));
}

#[test]
fn a_report_of_nothing_that_counts_opens() {
    let Some(browser) = Browser::from_env() else { return };
    let fixture = Fixture::bare();
    run_bench(&fixture, &refusing_server(), "refused").exits(30);
    browser.check_page(&["--empty"], &fixture.published("refused").join("report.html"));
}

/// Opens the pages that the report's own tests check: examples of the report crate, which `cargo test` builds with all examples.
#[test]
fn the_pages_with_everything_open() {
    let Some(browser) = Browser::from_env() else { return };
    let fixture = Fixture::bare();
    for example in ["page", "history", "verdict"] {
        let made = fixture.command(&binary(&format!("examples/{example}"))).output().expect("the example runs");
        let path = fixture.root().join(format!("{example}.html"));
        std::fs::write(&path, CommandResult::from_output(made).success().stdout).expect("the page can be written");
        browser.check_page(&[], &path);
    }
}

/// The pages of foreign evidence: a comparison with samples, one of numbers alone, a history, and a verdict.
#[test]
fn the_pages_of_foreign_evidence_open() {
    let Some(browser) = Browser::from_env() else { return };
    let fixture = Fixture::bare();
    foreign_evidence(&fixture);
    let page = |name: &str| fixture.repo().join(name);
    for (a, b) in [("hyperfine-01", "hyperfine-02"), ("vllm-01", "vllm-02")] {
        fixture.assay(&["compare", "--foreign", a, b, "--to", a]).success();
        browser.check_page(&["--foreign"], &page(a).join("report.html"));
    }
    fixture.assay(&["history", "--foreign", "hyperfine.wall_time", "--html", "history.html"]).success();
    browser.check_page(&["--foreign"], &page("history.html"));
    let judged = fixture.assay(&["gate", "--foreign", "hyperfine-0*", "--to", "verdict", "--", "hyperfine-1*"]);
    assert!(judged.code == 0, "{}{}", judged.stdout, judged.stderr);
    let verdict = files_under(&page("verdict")).into_iter().find(|path| path.ends_with("report.html"));
    browser.check_page(&["--foreign"], &verdict.expect("a page"));
}

/// Imports results of two tools: the example of hyperfine eighteen times with other times, and that of vLLM twice.
fn foreign_evidence(fixture: &Fixture) {
    let example = |tool: &str| {
        let format = RESULT_FORMATS.iter().find(|known| known.name == tool).expect("a format");
        format.examples[0].files[0].1
    };
    let import = |name: &str, text: &str| {
        fixture.write(&format!("results/{name}.json"), text);
        fixture.assay(&["import", "results", &format!("results/{name}.json"), "--name", name]).success();
    };
    for number in (1..=9).chain(11..=19) {
        let time = format!("0.1{number:02},");
        import(&format!("hyperfine-{number:02}"), &example("hyperfine").replace("0.104,", &time));
    }
    import("vllm-01", example("vllm"));
    import("vllm-02", &format!("{}\n", example("vllm").trim_end()));
}
