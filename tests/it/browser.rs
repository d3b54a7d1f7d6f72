//! A browser opens the reports: what a reader needs of them holds at two widths, light and dark, and without a mouse.
//!
//! It is installed by `tests/browser/install.sh FOLDER`; `ASSAY_TEST_BROWSER=FOLDER` asks for it. Asked for and absent, the tests
//! fail; not asked for, they say so and look at nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{RUN, bench_of, benched, failing_server, refusing_server};
use crate::support::{Fixture, Ran, binary};

/// The script that opens a page in a browser and looks at it.
struct Browser(PathBuf);

impl Browser {
    /// None where no browser was asked for.
    #[expect(clippy::print_stdout, reason = "a test that looks at less says so")]
    fn asked() -> Option<Self> {
        let Some(folder) = std::env::var_os("ASSAY_TEST_BROWSER").map(PathBuf::from) else {
            println!("ASSAY_TEST_BROWSER is not set: no browser has opened the page");
            return None;
        };
        let script = folder.join("check.mjs");
        assert!(script.is_file(), "`{}` is not there: install it with tests/browser/install.sh", script.display());
        Some(Self(script))
    }

    /// Opens a page and insists that nothing is found.
    #[track_caller]
    fn opens(&self, options: &[&str], page: &Path) {
        let mut node = Command::new("node");
        let ran = Ran::of(node.arg(&self.0).args(options).arg(page).output().expect("node starts"));
        assert_eq!(ran.code, 0, "{}:\n{}{}", page.display(), ran.stdout, ran.stderr);
    }
}

#[test]
fn a_report_of_several_loads_opens() {
    let Some(browser) = Browser::asked() else { return };
    browser.opens(&[], &benched().0.published(RUN).join("report.html"));
}

#[test]
fn a_report_with_failures_opens() {
    let Some(browser) = Browser::asked() else { return };
    let fixture = Fixture::bare();
    bench_of(&fixture, &failing_server(), "failing").success();
    browser.opens(&[], &fixture.published("failing").join("report.html"));
}

#[test]
fn a_report_of_nothing_that_counts_opens() {
    let Some(browser) = Browser::asked() else { return };
    let fixture = Fixture::bare();
    bench_of(&fixture, &refusing_server(), "refused").exits(30);
    browser.opens(&["--empty"], &fixture.published("refused").join("report.html"));
}

/// The pages that the report's own tests look at: examples of the report crate, which `cargo test` builds with all examples.
#[test]
fn the_pages_with_everything_open() {
    let Some(browser) = Browser::asked() else { return };
    let fixture = Fixture::bare();
    for example in ["page", "history", "verdict"] {
        let made = fixture.command(&binary(&format!("examples/{example}"))).output().expect("the example runs");
        let path = fixture.root().join(format!("{example}.html"));
        std::fs::write(&path, Ran::of(made).success().stdout).expect("the page can be written");
        browser.opens(&[], &path);
    }
}
