//! Writes the page of a made-up serving run to stdout: `cargo run -p assay-report --example page > page.html`. The argument `terminal`
//! or `markdown` selects that rendering instead.

use std::io::{self, Write as _};

use assay_report::{ChainSignature, Inputs, Report, Verification};

#[expect(dead_code, reason = "an example needs a part of what tests need")]
#[path = "../src/run/fixture/mod.rs"]
mod fixture;

fn main() -> io::Result<()> {
    let report = fixture::serving::whole().report();
    let text = match std::env::args().nth(1).as_deref() {
        Some("terminal") => report.terminal(100, false),
        Some("markdown") => report.markdown(),
        _ => report.html(),
    };
    io::stdout().lock().write_all(text.as_bytes())
}
