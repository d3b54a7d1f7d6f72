//! The JSON of hyperfine: `--export-json FILE`.
//!
//! Each run is a sample of wall time, in seconds. User and system time are means of all runs, because hyperfine writes no others.

use super::json::{document, failed, list, numbers, optional_number, text};
use super::{HarnessError, Measurements};

pub(super) fn read(output: &str, measurements: &mut Measurements) -> Result<(), HarnessError> {
    let document = document(output)?;
    for (index, result) in list(&document, "results", "the document")?.iter().enumerate() {
        let place = format!("results[{index}]");
        let command = text(result, "command", &place)?;
        if let Some(reason) = crate::failed::hyperfine(result) {
            return Err(failed(command, &reason));
        }
        if let Some(times) = numbers(result, "times", &place)? {
            measurements.add(command, "time", "s", &times)?;
        }
        if let Some(peaks) = numbers(result, "memory_usage_byte", &place)? {
            measurements.add(command, "peak_memory", "B", &peaks)?;
        }
        for (member, quantity) in [("user", "user_time"), ("system", "system_time")] {
            if let Some(mean) = optional_number(result, member, &place)? {
                measurements.add(command, quantity, "s", &[mean])?;
            }
        }
    }
    Ok(())
}
