//! Writes the page of made-up histories to stdout: `cargo run -p assay-report --example history > page.html`. The argument `terminal`
//! or `issue` selects that rendering instead; `long` selects the page of a history of ten thousand runs, `foreign` that of another tool's
//! results.

use std::io::{self, Write as _};

use assay_report::history;

#[path = "../src/history/fixture.rs"]
mod fixture;

fn main() -> io::Result<()> {
    let report = fixture::report(&fixture::all());
    let text = match std::env::args().nth(1).as_deref() {
        Some("terminal") => report.terminal(100),
        Some("issue") => report.issue().unwrap_or_default(),
        Some("foreign") => fixture::foreign_report().html(),
        Some("long") => fixture::report(&[fixture::long(10_000)]).html(),
        _ => report.html(),
    };
    io::stdout().lock().write_all(text.as_bytes())
}
