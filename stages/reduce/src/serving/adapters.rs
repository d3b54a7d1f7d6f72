//! The requests of a point by the LoRA adapter that they asked for, by the schedule, and their latencies.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use assay_manifest::{AdapterRequests, Count, ServingWork};
use assay_schedule::{Phase as PlannedPhase, ScheduledRequest, TrialSchedule};
use assay_warehouse::records::{RecordColumn as Column, RecordError};

use super::Limits;
use super::reuse::Places;
use super::samples::pooled_latencies;
use super::trial::{RowGroupSpan, Rules, ScannedTrial, TrialFiles};

/// The most adapters whose latencies are computed: those with the most requests. Each costs a pass over the records.
const MAX_ADAPTERS: usize = 32;

/// The requests of the measured phase of the counted trials by the name that they have as their model.
pub(super) type Numbers = BTreeMap<String, Count>;

/// Calls `visit` with each counted request of the measured phase of a trial. Records are those of a schedule, which has the adapters.
fn visit_counted(
    schedule: &TrialSchedule,
    files: &TrialFiles,
    mut visit: impl FnMut(&ScheduledRequest),
) -> Result<(), RecordError> {
    let places = Places::read(files, |_| true)?;
    let measured = schedule.requests(PlannedPhase::Measure).take_while(|request| places.reach(request.global_index));
    measured.filter(|request| places.has(request.global_index)).for_each(|request| visit(&request));
    Ok(())
}

/// Adds the requests of a trial to their numbers by adapter.
pub(super) fn add_requests(
    numbers: &mut Numbers,
    work: &ServingWork,
    schedule: &TrialSchedule,
    files: &TrialFiles,
) -> Result<(), RecordError> {
    visit_counted(schedule, files, |request| numbers.entry(work.model_of(request.adapter).to_owned()).or_default().0 += 1)
}

/// The adapters whose latencies are computed, those with the most requests first.
pub(super) fn frequent(numbers: &Numbers) -> Vec<&str> {
    let mut names: Vec<(&str, Count)> = numbers.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    names.sort_by_key(|(_, count)| Reverse(count.0));
    names.into_iter().take(MAX_ADAPTERS).map(|(name, _)| name).collect()
}

/// The frequent adapters of the requests of a trial.
pub(super) struct TrialAdapters {
    /// For each place in the schedule, the rank of its adapter from 1; 0 for all others.
    ranks: Vec<u8>,
}

impl TrialAdapters {
    /// Takes the adapters of a trial's requests from the schedule that they follow.
    pub(super) fn read(
        frequent: &[&str],
        work: &ServingWork,
        schedule: &TrialSchedule,
        files: &TrialFiles,
    ) -> Result<Self, RecordError> {
        let mut ranks = Vec::new();
        visit_counted(schedule, files, |request| {
            let name = work.model_of(request.adapter);
            let rank = frequent.iter().position(|frequent| *frequent == name).and_then(|place| u8::try_from(place + 1).ok());
            let place = request.global_index as usize;
            ranks.resize(ranks.len().max(place + 1), 0);
            if let (Some(found), Some(rank)) = (ranks.get_mut(place), rank) {
                *found = rank;
            }
        })?;
        Ok(Self { ranks })
    }

    /// Returns the spans of a trial with marks for the requests of one adapter only.
    fn spans<'a>(&self, rank: usize, scanned: &ScannedTrial<'a>) -> Result<Vec<RowGroupSpan<'a>>, RecordError> {
        let is_of = |place: i64| {
            let found = usize::try_from(place).ok().and_then(|place| self.ranks.get(place));
            found.is_some_and(|found| usize::from(*found) == rank)
        };
        scanned.row_groups.iter().map(|span| span.marked(Column::GlobalIndex, is_of)).collect()
    }
}

/// Returns the requests of each adapter, with the latencies of the frequent ones over all trials.
pub(super) fn with_latencies(
    numbers: &Numbers,
    trials: &[ScannedTrial<'_>],
    adapters: &[TrialAdapters],
    rules: &Rules,
    limits: Limits,
) -> Result<BTreeMap<String, AdapterRequests>, RecordError> {
    let mut found: BTreeMap<String, AdapterRequests> = numbers
        .iter()
        .map(|(name, requests)| (name.clone(), AdapterRequests { requests: *requests, latencies: BTreeMap::new() }))
        .collect();
    for (rank, name) in (1..).zip(frequent(numbers)) {
        let spans = trials
            .iter()
            .zip(adapters)
            .map(|(scanned, adapters)| adapters.spans(rank, scanned))
            .collect::<Result<Vec<_>, _>>()?;
        let latencies = pooled_latencies(&spans, rules, limits)?;
        if let Some(adapter) = found.get_mut(name) {
            adapter.latencies = latencies;
        }
    }
    Ok(found)
}
