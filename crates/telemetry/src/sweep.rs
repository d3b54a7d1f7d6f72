//! The readings of each source, distributed over the attempts that ran when they were taken.
//!
//! The recordings are found in the Collection's list of evidence and read once, a line at a time: memory holds the readings of
//! the attempts that run at one time.

use std::collections::{BTreeMap, VecDeque};

use assay_manifest::{Artifact, Instant, Reason};

use crate::recording::{BlockSource, MergedReadings, OpenArtifact, Reading, RecordingFile, by_place};
use crate::slice::{AttemptWindow, OmittedReadings, Slice};
use crate::{Error, ReadError};

/// The slices of a run: place by place, and for each place in the order in which attempts end.
pub struct Slices<'a, E> {
    open: &'a OpenArtifact<'a, E>,
    places: VecDeque<(BlockSource, Vec<RecordingFile<'a>>, VecDeque<AttemptWindow<'a>>)>,
    current: Option<ReadingSweep<'a>>,
    left_out: OmittedReadings,
}

impl<'a, E> Slices<'a, E> {
    /// Finds the recordings of these attempts in a run's list of evidence.
    pub fn new(
        mut windows: BTreeMap<BlockSource, Vec<AttemptWindow<'a>>>,
        evidence: &'a [Artifact],
        open: &'a OpenArtifact<'a, E>,
    ) -> Self {
        let of_place = |(place, recorded)| windows.remove(&place).map(|windows| (place, recorded, by_start(windows)));
        let places = by_place(evidence).into_iter().filter_map(of_place).collect();
        Self { open, places, current: None, left_out: OmittedReadings::default() }
    }

    /// Returns the next slice that is complete; `None` at the end.
    pub fn next_slice(&mut self) -> Result<Option<(BlockSource, Slice<'a>)>, ReadError<E>> {
        loop {
            if let Some(sweep) = &mut self.current
                && let Some(slice) = sweep.next(&mut self.left_out)?
            {
                self.left_out.add(&slice);
                return Ok(Some((sweep.place.clone(), slice)));
            }
            let Some((place, recorded, waiting)) = self.places.pop_front() else { return Ok(None) };
            let merged = MergedReadings::open(&place.source, &recorded, self.open)?;
            self.left_out.recordings += merged.left_out;
            self.current = Some(ReadingSweep { place, merged, latest: None, waiting, active: Vec::new(), over: VecDeque::new() });
        }
    }

    /// Returns the reason why parts of the recordings are in no slice, for people; `None` if none is missing.
    pub fn left_out(&self) -> Option<Reason> {
        self.left_out.reason()
    }
}

/// Sorts attempts by their start. Attempts that began at the same time keep their order.
fn by_start(mut windows: Vec<AttemptWindow<'_>>) -> VecDeque<AttemptWindow<'_>> {
    windows.sort_by_key(|window| (window.start, window.end));
    windows.into()
}

/// The readings of one place, merged in the order of time and distributed to its attempts.
struct ReadingSweep<'a> {
    place: BlockSource,
    merged: MergedReadings,
    /// The time of the last reading.
    latest: Option<Instant>,
    /// Attempts that have not begun.
    waiting: VecDeque<AttemptWindow<'a>>,
    /// Attempts that run: one, unless shards of two attempts overlap.
    active: Vec<Slice<'a>>,
    over: VecDeque<Slice<'a>>,
}

impl<'a> ReadingSweep<'a> {
    fn next(&mut self, left_out: &mut OmittedReadings) -> Result<Option<Slice<'a>>, Error> {
        loop {
            if let Some(slice) = self.over.pop_front() {
                return Ok(Some(slice));
            }
            if self.waiting.is_empty() && self.active.is_empty() {
                return Ok(None);
            }
            match self.merged.next()? {
                // The clock was set back: the first reading of a time is kept.
                Some(reading) if self.latest.is_some_and(|latest| reading.requested_at <= latest) => left_out.out_of_order += 1,
                Some(reading) => self.take(&reading),
                None => {
                    self.waiting.clear();
                    self.over.extend(self.active.drain(..));
                }
            }
        }
    }

    fn take(&mut self, reading: &Reading) {
        self.latest = Some(reading.requested_at);
        let (over, active): (Vec<_>, Vec<_>) =
            self.active.drain(..).partition(|slice: &Slice<'_>| slice.window.end < reading.requested_at);
        self.over.extend(over);
        self.active = active;
        while self.waiting.front().is_some_and(|window| window.start <= reading.requested_at) {
            let begun = self.waiting.pop_front().filter(|window| reading.requested_at <= window.end);
            self.active.extend(begun.map(Slice::new));
        }
        // A reading requested in the window and received after it may count later events.
        if self.active.iter().any(|slice| reading.received_at <= slice.window.end) {
            let observed = self.place.source.definition().observed(&reading.body);
            for slice in self.active.iter_mut().filter(|slice| reading.received_at <= slice.window.end) {
                slice.add(reading.requested_at, &observed);
            }
        }
    }
}
