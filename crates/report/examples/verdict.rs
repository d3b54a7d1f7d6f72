//! Writes the page of a made-up verdict to stdout: `cargo run -p assay-report --example verdict > page.html`. The argument `terminal`,
//! `markdown`, `junit` or `check-run` selects that rendering instead.

use std::io::{self, Write as _};

use assay_report::{ChainSignature, gate};

#[expect(dead_code, reason = "an example needs a part of what tests need")]
#[path = "../src/gate/fixture.rs"]
mod fixture;

fn main() -> io::Result<()> {
    let report = fixture::model().report();
    let text = match std::env::args().nth(1).as_deref() {
        Some("terminal") => report.terminal(100, false),
        Some("markdown") => report.markdown(65_535),
        Some("junit") => report.junit(),
        Some("check-run") => format!("{:#}", report.check_run()),
        _ => report.html(),
    };
    io::stdout().lock().write_all(text.as_bytes())
}
