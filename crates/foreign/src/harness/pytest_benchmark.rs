//! The JSON of pytest-benchmark: `--benchmark-json=FILE`.
//!
//! Each round is a sample, in seconds. A file that was saved without the rounds has their median in their place.

use super::json::{document, list, number, numbers, text};
use super::{HarnessError, Measurements};

pub(super) fn read(output: &str, measurements: &mut Measurements) -> Result<(), HarnessError> {
    let document = document(output)?;
    for (index, benchmark) in list(&document, "benchmarks", "the document")?.iter().enumerate() {
        let place = format!("benchmarks[{index}]");
        let name = text(benchmark, "fullname", &place)?;
        let place = format!("{place}.stats");
        let stats = benchmark.get("stats").unwrap_or(&serde_json::Value::Null);
        let rounds = match numbers(stats, "data", &place)?.filter(|rounds| !rounds.is_empty()) {
            Some(rounds) => rounds,
            None => vec![number(stats, "median", &place)?],
        };
        measurements.add(name, "time", "s", &rounds)?;
    }
    Ok(())
}
