//! Writes the page of a made-up serving run to stdout: `cargo run -p assay-report --example page > page.html`. The argument `terminal`
//! or `markdown` selects that rendering instead.

use std::io::{self, Write as _};

use assay_report::{ChainSignature, Inputs, Report, Verification, WhyWorse};

#[expect(dead_code, reason = "an example needs a part of what tests need")]
#[path = "../src/run/fixture/mod.rs"]
mod fixture;

fn main() -> io::Result<()> {
    let mut model = fixture::serving::whole();
    fixture::serving::derive(&mut model, "output_tokens_per_s", "output_tokens_per_gpu_per_s", 0.125);
    for (from, range, factor) in
        [("p50", "1k_ms_p50", 0.8), ("p99", "1k_ms_p99", 0.8), ("p50", "4k_ms_p50", 1.7), ("p99", "4k_ms_p99", 1.7)]
    {
        fixture::serving::derive(&mut model, &format!("ttft_ms_{from}"), &format!("ttft_input_{range}"), factor);
    }
    let report = model.report();
    let text = match std::env::args().nth(1).as_deref() {
        Some("terminal") => report.terminal(100, false),
        Some("markdown") => report.markdown(),
        _ => report.html(),
    };
    io::stdout().lock().write_all(text.as_bytes())
}
