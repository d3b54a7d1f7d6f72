//! A model in real time, with scripted stalls: times in which the whole endpoint stops.

use thiserror::Error;

use crate::model::{Arrival, Event, Model, Occupancy};

/// The maximum stalls of an engine.
pub const MAX_STALLS: usize = 10_000;

/// A time in which the endpoint reads, computes and writes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The start, in nanoseconds.
    pub at_ns: i64,
    /// The duration, in nanoseconds.
    pub for_ns: i64,
}

/// The error for more stalls than [`MAX_STALLS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an endpoint stalls at most {MAX_STALLS} times; start it anew")]
pub struct TooManyStalls;

/// A model whose own time stops during stalls: all that it would have done then, and all that follows, is delayed by the stall.
///
/// A request that arrives during a stall is read at its end.
pub struct Engine<M> {
    model: M,
    /// In order, without overlap.
    stalls: Vec<Pause>,
}

/// A stall in the model's own time.
#[derive(Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
struct Pause {
    /// The start, in the model's time, which stops until the end of the stall.
    model_ns: i64,
    /// The offset of real time from the model's after the stall.
    shift_ns: i64,
    /// The start, in real time.
    begin_ns: i64,
    end_ns: i64,
}

impl<M: Model> Engine<M> {
    /// Returns an engine without stalls.
    pub fn new(model: M) -> Self {
        Self { model, stalls: Vec::new() }
    }

    /// Like [`Model::start`].
    pub fn start(&mut self, at_ns: i64) {
        self.model.start(at_ns);
    }

    /// Adds a stall, which must not begin before any instant of an earlier call. One that would begin within or before the last
    /// one is appended to it.
    pub fn stall(&mut self, stall: Stall) -> Result<(), TooManyStalls> {
        if self.stalls.len() >= MAX_STALLS {
            return Err(TooManyStalls);
        }
        let (earliest, shift_ns) = self.stalls.last().map_or((i64::MIN, 0), |last| (last.end_ns, last.shift_ns));
        let (begin_ns, for_ns) = (stall.at_ns.max(earliest), stall.for_ns.max(0));
        self.stalls.push(Pause {
            model_ns: begin_ns.saturating_sub(shift_ns),
            shift_ns: shift_ns.saturating_add(for_ns),
            begin_ns,
            end_ns: begin_ns.saturating_add(for_ns),
        });
        Ok(())
    }

    /// Returns the end of the stall at an instant, if there is one.
    pub fn stalled_until_ns(&self, now_ns: i64) -> Option<i64> {
        let pause = self.pause_before(now_ns)?;
        (now_ns < pause.end_ns).then_some(pause.end_ns)
    }

    /// Returns the start of the next stall after an instant.
    pub fn next_stall_ns(&self, now_ns: i64) -> Option<i64> {
        let begun = self.stalls.partition_point(|pause| pause.begin_ns <= now_ns);
        self.stalls.get(begun).map(|pause| pause.begin_ns)
    }

    /// Like [`Model::arrive`].
    pub fn arrive(&mut self, at_ns: i64, arrival: Arrival) {
        self.model.arrive(self.model_ns(at_ns), arrival);
    }

    /// Like [`Model::cancel`].
    pub fn cancel(&mut self, at_ns: i64, request: u64) {
        self.model.cancel(self.model_ns(at_ns), request);
    }

    /// Like [`Model::next_ns`].
    pub fn next_ns(&self) -> Option<i64> {
        self.model.next_ns().map(|model_ns| self.real_ns(model_ns))
    }

    /// Like [`Model::advance`].
    pub fn advance(&mut self, to_ns: i64, events: &mut Vec<Event>) {
        let before = events.len();
        // Events that are due at the very instant at which a stall begins come at its end.
        let stalled = self.stalled_until_ns(to_ns).is_some();
        self.model.advance(self.model_ns(to_ns).saturating_sub(i64::from(stalled)), events);
        if !self.stalls.is_empty() {
            for event in &mut events[before..] {
                event.at_ns = self.real_ns(event.at_ns);
            }
        }
    }

    /// Like [`Model::occupancy`].
    pub fn occupancy(&self) -> Occupancy {
        self.model.occupancy()
    }

    /// Like [`Model::reset_prefix_cache`].
    pub fn reset_prefix_cache(&mut self) {
        self.model.reset_prefix_cache();
    }

    fn pause_before(&self, real_ns: i64) -> Option<&Pause> {
        let begun = self.stalls.partition_point(|pause| pause.begin_ns <= real_ns);
        self.stalls.get(begun.checked_sub(1)?)
    }

    fn model_ns(&self, real_ns: i64) -> i64 {
        match self.pause_before(real_ns) {
            Some(pause) if real_ns < pause.end_ns => pause.model_ns,
            Some(pause) => real_ns.saturating_sub(pause.shift_ns),
            None => real_ns,
        }
    }

    fn real_ns(&self, model_ns: i64) -> i64 {
        let begun = self.stalls.partition_point(|pause| pause.model_ns <= model_ns);
        let shift_ns = begun.checked_sub(1).and_then(|last| self.stalls.get(last)).map_or(0, |pause| pause.shift_ns);
        model_ns.saturating_add(shift_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{RequestKey, Seed};
    use crate::model::{EventKind, Latency, PerRequest};

    /// Returns an engine with the first token after 10 and each later one after 5.
    fn engine(stalls: &[(i64, i64)]) -> Engine<PerRequest> {
        let latency = Latency { ttft_ns: 10, itl_ns: 5, ..Latency::none() };
        let mut engine = Engine::new(PerRequest::new(latency, &Seed::default()));
        for (at_ns, for_ns) in stalls {
            engine.stall(Stall { at_ns: *at_ns, for_ns: *for_ns }).expect("few stalls");
        }
        engine
    }

    fn arrival(request: u64, output_tokens: u32) -> Arrival {
        let key = RequestKey::from_id(&Seed::default(), "a");
        Arrival { request, key, prompt_tokens: 1, output_tokens, reasoning_tokens: 0, prefix_blocks: Vec::new() }
    }

    fn chunks(engine: &mut Engine<PerRequest>, to_ns: i64) -> Vec<i64> {
        let mut events = Vec::new();
        engine.advance(to_ns, &mut events);
        let is_chunk = |event: &&Event| matches!(event.kind, EventKind::Chunk { .. });
        events.iter().filter(is_chunk).map(|event| event.at_ns).collect()
    }

    #[test]
    fn what_follows_a_stall_comes_as_much_later_as_it_lasted() {
        let mut engine = engine(&[(12, 100), (130, 7)]);
        engine.arrive(0, arrival(1, 6));
        // Without stalls: 10, 15, 20, 25, 30, 35.
        assert_eq!(chunks(&mut engine, 111), [10]);
        assert_eq!(engine.next_ns(), Some(115));
        assert_eq!(chunks(&mut engine, 1_000), [115, 120, 125, 137, 142]);
    }

    #[test]
    fn what_is_due_when_a_stall_begins_comes_at_its_end() {
        let mut engine = engine(&[(15, 100)]);
        engine.arrive(0, arrival(1, 2));
        assert_eq!(chunks(&mut engine, 114), [10]);
        assert_eq!(chunks(&mut engine, 115), [115]);
    }

    #[test]
    fn a_request_that_comes_in_a_stall_is_read_at_its_end() {
        let mut engine = engine(&[(5, 20)]);
        engine.arrive(6, arrival(1, 1));
        assert_eq!(chunks(&mut engine, 100), [35]);
    }

    #[test]
    fn stalls_that_overlap_follow_each_other() {
        let engine = engine(&[(10, 10), (12, 5)]);
        let stalled: Vec<Option<i64>> = [9, 10, 19, 20, 24, 25].map(|now| engine.stalled_until_ns(now)).into();
        assert_eq!(stalled, [None, Some(20), Some(20), Some(25), Some(25), None]);
        assert_eq!([9, 10, 20].map(|now| engine.next_stall_ns(now)), [Some(10), Some(20), None]);
    }
}
