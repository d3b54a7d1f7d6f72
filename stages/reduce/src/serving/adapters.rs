//! The requests of a trial by the LoRA adapter that they asked for, by the schedule.

use std::collections::BTreeMap;

use assay_manifest::{Count, ServingWork};
use assay_schedule::{Phase as PlannedPhase, TrialSchedule};
use assay_warehouse::records::RecordError;

use super::reuse::Places;
use crate::serving::TrialFiles;

/// Adds the requests of the measured phase of a trial to their numbers by adapter. Records are those of a schedule, which has the adapters.
pub(super) fn add_requests(
    numbers: &mut BTreeMap<String, Count>,
    work: &ServingWork,
    schedule: &TrialSchedule,
    files: &TrialFiles,
) -> Result<(), RecordError> {
    let places = Places::read(files, |_| true)?;
    let measured = schedule.requests(PlannedPhase::Measure).take_while(|request| places.reach(request.global_index));
    for request in measured.filter(|request| places.has(request.global_index)) {
        numbers.entry(work.model_of(request.adapter).to_owned()).or_default().0 += 1;
    }
    Ok(())
}
