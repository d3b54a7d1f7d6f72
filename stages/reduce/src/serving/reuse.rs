//! The input tokens of a trial that a prefix cache without limits would hold, by its plan.

use std::sync::Arc;

use assay_dataset::Index;
use assay_manifest::{Block, Case, Environment, ServingWork};
use assay_metric::RepeatedInput;
use assay_record::{Outcome, Phase};
use assay_schedule::{MAX_REQUESTS, OfferedLoad, Phase as PlannedPhase, PrefixReuse, TrialSchedule, tokens_in_blocks};
use assay_warehouse::records::{RecordColumn as Column, RecordError};

use crate::serving::TrialFiles;

/// The places in the schedule of the requests of a trial.
#[derive(Default)]
pub(super) struct Places {
    /// A bit for each request of the measured phase that counts.
    bits: Vec<u64>,
    /// The number of requests of the warm-up, if it has a sequence of its own.
    warmup: u64,
    /// The place after the last request that counts.
    end: u64,
}

impl Places {
    /// Reads the places of the requests whose outcome counts.
    pub(super) fn read(files: &TrialFiles, counts: fn(Outcome) -> bool) -> Result<Self, RecordError> {
        let mut places = Self::default();
        for (_, file) in &files.shards {
            for batch in file.batches(&[Column::GlobalIndex, Column::Phase, Column::Outcome], 0..file.row_groups())? {
                let batch = batch?;
                let index = batch.ints(Column::GlobalIndex)?;
                let phases: Vec<Phase> = batch.words(Column::Phase)?;
                let outcomes: Vec<Outcome> = batch.words(Column::Outcome)?;
                for (row, (phase, outcome)) in phases.into_iter().zip(outcomes).enumerate() {
                    // No schedule has a request past this place.
                    let place =
                        index.get(row).and_then(|index| u64::try_from(index).ok()).filter(|place| *place < 2 * MAX_REQUESTS);
                    match (place, phase) {
                        (Some(place), Phase::Warmup) => places.warmup = places.warmup.max(place + 1),
                        (Some(place), Phase::Measured) if counts(outcome) => places.add(place),
                        _ => {}
                    }
                }
            }
        }
        Ok(places)
    }

    fn add(&mut self, place: u64) {
        let word = (place / 64) as usize;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if let Some(word) = self.bits.get_mut(word) {
            *word |= 1 << (place % 64);
        }
        self.end = self.end.max(place + 1);
    }

    /// Returns true if a request that counts has this place or a later one.
    pub(super) fn reach(&self, place: u64) -> bool {
        place < self.end
    }

    pub(super) fn has(&self, place: u64) -> bool {
        self.bits.get((place / 64) as usize).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }
}

/// Returns the state before the first request of each attempt of a point, or the reason why the repeated tokens are not known.
pub(super) fn reuse(work: &ServingWork, offered: Option<OfferedLoad>, index: Option<&Arc<Index>>) -> Result<PrefixReuse, String> {
    PrefixReuse::new(work, offered.ok_or("the point offers no load")?, index)
}

/// Adds up the repeated tokens of the successful requests of a trial, for a cache with blocks of this many tokens.
pub(super) fn repeated_input(
    mut reuse: PrefixReuse,
    schedule: &TrialSchedule,
    files: &TrialFiles,
    block: u32,
) -> Result<RepeatedInput, RecordError> {
    let places = Places::read(files, Outcome::is_ok)?;
    if !schedule.has_sessions() {
        let warmup = schedule.requests(PlannedPhase::WarmUp).take(usize::try_from(places.warmup).unwrap_or(usize::MAX));
        for request in warmup {
            reuse.repeated_tokens(&request);
        }
    }
    let mut sum = RepeatedInput::default();
    let measured = schedule.requests(PlannedPhase::Measure).take_while(|request| places.reach(request.global_index));
    for request in measured {
        let repeated = reuse.repeated_tokens(&request);
        if places.has(request.global_index) {
            sum.requests += 1;
            sum.repeated += u64::from(tokens_in_blocks(repeated, request.input_tokens, block));
            sum.tokens += u64::from(request.input_tokens);
        }
    }
    Ok(sum)
}

/// Returns the tokens of a block of the prefix cache of a case's target in a block of trials, as provision read it; 1 if it is not known.
pub(super) fn cache_block_tokens(environments: &[&Environment], case: &Case, block: Block) -> u32 {
    let of_block = environments.iter().filter(|environment| environment.block == block);
    let target = of_block.flat_map(|environment| &environment.targets).find(|target| target.id == case.target);
    target.and_then(|target| target.cache_block_tokens).unwrap_or(1)
}
