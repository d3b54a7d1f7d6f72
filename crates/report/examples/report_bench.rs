//! Measures the page of a serving run of 1,000 loads, each with about thirty metrics of five trials: rendering time and size.
//! `cargo run --release -p assay-report --example report_bench [FOLDER]`, which writes the pages to the folder, for a browser to open.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use assay_report::{ChainSignature, Inputs, Report, Verification, WhyWorse};

#[expect(dead_code, reason = "an example needs a part of what tests need")]
#[path = "../src/run/fixture/mod.rs"]
mod fixture;

/// Number of repetitions; their median is reported.
const REPEATS: usize = 5;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    for loads in [10, 100, 1_000] {
        let model = fixture::serving::many(loads);
        let mut times: Vec<_> = (0..REPEATS).map(|_| timed(&model)).collect();
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (built, rendered, bytes) = times[REPEATS / 2];
        writeln!(out, "{loads:>5} loads: built in {built:.1} ms, rendered in {rendered:.1} ms, {bytes} bytes")?;
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{loads}.html")), model.report().html())?;
        }
    }
    Ok(())
}

fn timed(model: &fixture::Model) -> (f64, f64, usize) {
    let start = Instant::now();
    let report = model.report();
    let built = start.elapsed();
    let start = Instant::now();
    let html = report.html();
    (built.as_secs_f64() * 1e3, start.elapsed().as_secs_f64() * 1e3, html.len())
}
