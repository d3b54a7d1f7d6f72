//! The second model: continuous batching. All requests share the steps of one engine, as in vLLM V1 and SGLang.
//!
//! A step computes a batch, and all tokens that result from it come at its end. [`StepTime`] states its duration. A step holds, within
//! its budget of `max_num_batched_tokens`:
//!
//! 1. the next token of each sequence that decodes;
//! 2. the next tokens of the prompts under way, in the order of admission;
//! 3. waiting requests, first come, first served, if there are a place and blocks for the whole prompt. None is admitted in a step
//!    that preempts.
//!
//! A request holds blocks of the KV cache for all tokens that are computed. If a sequence that decodes needs one and none is free, the
//! last admitted request is preempted: its blocks are freed, it goes to the head of the queue, and all that it had is computed again.
//! That computation does not use the prefix cache, and a block that was found in the prefix cache still takes a block of its own.
//!
//! With speculation each step of a sequence that decodes verifies drafts, and sends those that are accepted and one more token.
//!
//! These are the rules of vLLM's scheduler (`vllm/v1/core/sched/scheduler.py`), made simpler: that one does not prefer decodes to prompts
//! under way, reserves the blocks of a prompt chunk by chunk, shares the blocks of equal prefixes, and lets a preempted request find in
//! the prefix cache what is left of its blocks.

mod queue;
mod sequence;
mod step_time;

pub use step_time::StepTime;

use std::collections::VecDeque;

use super::prefix_cache::{PrefixCache, reusable_tokens};
use super::slowness::{CoTenant, Episodes};
use super::{Arrival, Channel, Event, EventKind, Model, Occupancy};
use crate::draw::{Concern, RequestKey, Seed};
use queue::Queue;
use sequence::Sequence;
use step_time::StepWork;

/// The settings of a [`Batching`] model.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchingConfig {
    /// The duration of a step.
    pub step: StepTime,
    /// The maximum tokens that a step computes: prompts share what sequences that decode leave.
    pub max_num_batched_tokens: u32,
    /// If false, a prompt is computed in one step; one of more than `max_num_batched_tokens` in a step of its own.
    pub chunked_prefill: bool,
    /// The maximum running requests; others wait, first come first served.
    pub max_num_seqs: u32,
    /// Drafts that each step of a sequence that decodes verifies.
    pub speculative_tokens: u32,
    /// The probability that a draft is accepted if those before it are.
    pub speculative_acceptance: f64,
    /// If true, prefixes of prompts are cached.
    pub prefix_cache: bool,
    /// Tokens of a block of the KV cache.
    pub block_tokens: u32,
    /// Blocks of the KV cache.
    pub kv_blocks: u32,
    /// The factor of the durations of all steps; at least 1.
    pub slow_factor: f64,
    /// A co-tenant that makes all steps longer at times.
    pub cotenant: CoTenant,
}

impl BatchingConfig {
    /// Returns the most tokens that the prompt and the response of one request may have together.
    ///
    /// The last token of a response is never in the cache, but the drafts that are verified with the one before it are.
    pub fn max_request_tokens(&self) -> u32 {
        self.kv_blocks.saturating_mul(self.block_tokens).saturating_sub(self.speculative_tokens)
    }

    fn block_count(&self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.block_tokens.max(1)))
    }

    /// Returns the tokens that a step computes for a sequence that decodes.
    fn decode_tokens(&self) -> u32 {
        self.speculative_tokens.saturating_add(1)
    }
}

/// An engine whose requests share the steps of a batch.
///
/// A request that alone needs more blocks than there are runs alone, beyond the capacity. [`BatchingConfig::max_request_tokens`] tells
/// which ones to refuse.
pub struct Batching {
    config: BatchingConfig,
    /// The key of the jitter of steps.
    key: RequestKey,
    episodes: Episodes,
    cache: PrefixCache,
    now_ns: i64,
    /// Steps that have begun.
    steps: u64,
    /// The end of the step under way.
    step_end_ns: Option<i64>,
    /// In the order of admission.
    running: Vec<Sequence>,
    queue: Queue,
    kv_blocks_used: u64,
    preemptions: u64,
    /// Events that have occurred and were not collected yet.
    pending_events: VecDeque<Event>,
}

impl Batching {
    /// Returns an idle engine. The seed is for draws of the engine as a whole; requests have their own keys.
    pub fn new(config: BatchingConfig, seed: &Seed) -> Self {
        let cache = PrefixCache::new(if config.prefix_cache { config.kv_blocks as usize } else { 0 });
        Self {
            key: RequestKey::from_seed(seed),
            episodes: Episodes::new(config.cotenant, seed),
            cache,
            config,
            now_ns: i64::MIN,
            steps: 0,
            step_end_ns: None,
            running: Vec::new(),
            queue: Queue::default(),
            kv_blocks_used: 0,
            preemptions: 0,
            pending_events: VecDeque::new(),
        }
    }

    fn work_until(&mut self, to_ns: i64) {
        while let Some(end_ns) = self.step_end_ns.take_if(|end_ns| *end_ns <= to_ns) {
            self.now_ns = end_ns;
            self.end_step();
            self.begin_step();
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// Begins a step, if there is work for one.
    fn begin_step(&mut self) {
        self.schedule();
        let scheduled = self.running.iter().filter(|sequence| sequence.scheduled > 0);
        let work = scheduled.fold(StepWork::default(), StepWork::with);
        if work != StepWork::default() {
            let jitter = self.config.step.jitter(self.key.normal(Concern::Step, self.steps));
            let slower = self.config.slow_factor * self.episodes.factor_at(self.now_ns);
            // `as` saturates.
            let duration_ns = (self.config.step.mean_ns(work) * jitter * slower).round() as i64;
            self.steps += 1;
            self.step_end_ns = Some(self.now_ns.saturating_add(duration_ns.max(0)));
        }
    }

    /// Ends a step: its tokens are sent, and requests without further ones are done.
    fn end_step(&mut self) {
        let mut running = std::mem::take(&mut self.running);
        running.retain_mut(|sequence| self.complete(sequence));
        self.running = running;
    }

    /// Completes the work of a step for one request, and returns true if the request goes on.
    fn complete(&mut self, sequence: &mut Sequence) -> bool {
        let computed = std::mem::take(&mut sequence.scheduled);
        if computed == 0 {
            return true;
        }
        let tokens = if sequence.is_decoding() { 1 + sequence.accepted_drafts(&self.config) } else { 1 };
        sequence.computed = sequence.computed.saturating_add(computed);
        if !sequence.is_decoding() {
            return true;
        }
        self.send(sequence, tokens.min(sequence.left()));
        if sequence.left() > 0 {
            return true;
        }
        self.kv_blocks_used -= sequence.blocks;
        self.push_event(sequence.arrival.request, EventKind::Finished);
        false
    }

    /// Sends tokens of one step: a chunk, or one for each channel.
    fn send(&mut self, sequence: &mut Sequence, tokens: u32) {
        let reasoning = tokens.min(sequence.arrival.reasoning_tokens.saturating_sub(sequence.sent));
        for (tokens, channel) in [(reasoning, Channel::Reasoning), (tokens - reasoning, Channel::Content)] {
            if tokens > 0 {
                self.push_event(sequence.arrival.request, EventKind::Chunk { tokens, channel });
            }
        }
        sequence.record_sent(tokens);
    }

    fn push_event(&mut self, request: u64, kind: EventKind) {
        self.pending_events.push_back(Event { at_ns: self.now_ns, request, kind });
    }
}

/// The composition of a step.
impl Batching {
    /// Decides how many tokens the next step computes for each running request, and which requests begin to run.
    fn schedule(&mut self) {
        if self.admit_long_prompt() {
            return;
        }
        let has_preempted = self.reserve_for_decodes();
        let mut budget = self.config.max_num_batched_tokens.max(1);
        let decode_tokens = self.config.decode_tokens();
        for sequence in self.running.iter_mut().filter(|sequence| sequence.is_decoding()) {
            sequence.scheduled = decode_tokens;
            budget = budget.saturating_sub(decode_tokens);
        }
        for sequence in self.running.iter_mut().filter(|sequence| !sequence.is_decoding()) {
            sequence.scheduled = sequence.uncomputed().min(budget);
            budget -= sequence.scheduled;
        }
        if !has_preempted {
            self.admit_waiting(budget);
        }
    }

    /// Without chunks, gives a step to the first waiting prompt alone if it has more tokens than any step may have.
    fn admit_long_prompt(&mut self) -> bool {
        let is_long = !self.config.chunked_prefill && self.next_prompt_tokens() > Some(self.config.max_num_batched_tokens);
        if is_long && let Some(mut sequence) = self.take_waiting() {
            sequence.scheduled = sequence.uncomputed();
            self.running.push(sequence);
            return true;
        }
        false
    }

    /// Reserves the blocks of each sequence that decodes for its next tokens, and preempts the last admitted requests while there
    /// are too few; returns true if it preempted any. Only one that runs alone may hold more blocks than there are.
    fn reserve_for_decodes(&mut self) -> bool {
        let (before, decode_tokens) = (self.preemptions, self.config.decode_tokens());
        let mut place = 0;
        while let Some(sequence) = self.running.get(place) {
            let tokens = if sequence.is_decoding() { sequence.computed.saturating_add(decode_tokens) } else { 0 };
            let missing = self.config.block_count(tokens).saturating_sub(sequence.blocks);
            if self.kv_blocks_used + missing <= self.config.kv_blocks.into() || self.running.len() == 1 {
                self.running[place].blocks += missing;
                self.kv_blocks_used += missing;
                place += 1;
            } else {
                self.preempt_last();
            }
        }
        self.preemptions > before
    }

    fn preempt_last(&mut self) {
        let Some(sequence) = self.running.pop() else { return };
        self.kv_blocks_used -= sequence.blocks;
        self.preemptions += 1;
        self.push_event(sequence.arrival.request, EventKind::Preempted);
        self.queue.push_front(sequence.preempted());
    }

    fn admit_waiting(&mut self, mut budget: u32) {
        while budget > 0
            && (self.config.chunked_prefill || self.next_prompt_tokens() <= Some(budget))
            && let Some(mut sequence) = self.take_waiting()
        {
            sequence.scheduled = sequence.uncomputed().min(budget);
            budget -= sequence.scheduled;
            self.running.push(sequence);
        }
    }

    /// Returns the tokens to compute for the prompt of the first waiting request.
    fn next_prompt_tokens(&self) -> Option<u32> {
        let sequence = self.queue.first()?;
        let found = self.cache.find(&sequence.arrival.prefix_blocks);
        Some(sequence.prefill_tokens - reusable_tokens(found, sequence.arrival.prompt_tokens, self.config.block_tokens))
    }

    /// Takes the first waiting request from the queue, with the blocks for its prompt, if there are a place and blocks for it.
    fn take_waiting(&mut self) -> Option<Sequence> {
        let blocks = self.config.block_count(self.queue.first()?.prefill_tokens);
        let has_blocks = self.kv_blocks_used + blocks <= self.config.kv_blocks.into();
        let has_place = self.running.len() < self.config.max_num_seqs as usize;
        let has_room = has_blocks && has_place || self.running.is_empty();
        if !has_room {
            return None;
        }
        let mut sequence = self.queue.pop_front()?;
        self.kv_blocks_used += blocks;
        sequence.blocks = blocks;
        if !sequence.is_preempted {
            self.look_up_prefix(&mut sequence);
        }
        Some(sequence)
    }

    /// Looks a prompt up in the prefix cache; once, because its blocks are then dropped.
    fn look_up_prefix(&mut self, sequence: &mut Sequence) {
        let lookup = self.cache.admit(&std::mem::take(&mut sequence.arrival.prefix_blocks));
        let (cached_tokens, evicted_tokens) = lookup.tokens(sequence.arrival.prompt_tokens, self.config.block_tokens);
        sequence.computed = cached_tokens;
        let admitted = EventKind::Admitted { cached_tokens, evicted_tokens, evictions: lookup.evictions as u32 };
        self.push_event(sequence.arrival.request, admitted);
    }
}

impl Model for Batching {
    fn start(&mut self, at_ns: i64) {
        self.episodes.start(at_ns);
    }

    fn arrive(&mut self, at_ns: i64, arrival: Arrival) {
        self.work_until(at_ns);
        self.queue.push_back(Sequence::new(arrival));
        if self.step_end_ns.is_none() {
            self.begin_step();
        }
    }

    /// A step under way keeps its duration.
    fn cancel(&mut self, at_ns: i64, request: u64) {
        self.work_until(at_ns);
        let place = self.running.iter().position(|sequence| sequence.arrival.request == request);
        match place {
            Some(place) => self.kv_blocks_used -= self.running.remove(place).blocks,
            None => drop(self.queue.remove(request)),
        }
    }

    fn next_ns(&self) -> Option<i64> {
        self.pending_events.front().map(|event| event.at_ns).or(self.step_end_ns)
    }

    fn advance(&mut self, to_ns: i64, events: &mut Vec<Event>) {
        self.work_until(to_ns);
        events.extend(self.pending_events.drain(..));
    }

    fn occupancy(&self) -> Occupancy {
        let share = self.kv_blocks_used as f64 / f64::from(self.config.kv_blocks.max(1));
        Occupancy {
            running: self.running.len() as u32,
            waiting: self.queue.len() as u32,
            kv_usage: share.min(1.0),
            preemptions: self.preemptions,
            cached_blocks: self.cache.len() as u64,
            evictions: self.cache.evictions(),
            forgotten_evictions: self.cache.forgotten(),
        }
    }

    fn reset_prefix_cache(&mut self) {
        self.cache.clear();
    }
}
