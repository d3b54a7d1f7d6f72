//! The first model: every request has its own time to first token and between tokens, scaled by the number of concurrent
//! requests.
//!
//! Time to first token = (base + new prompt tokens x time per token) x load + lognormal jitter. Time to each later token = (base plus
//! normal jitter, limited to 70 % of the base) x load. Load = 1 + (F - 1) (running - 1) / (`max_num_seqs` - 1), at the due time
//! of the previous token. These are the terms that simulated inference servers commonly have, so that profiles can be shared.
//!
//! Each of these times is then multiplied by the factor of a slow request and by that of a co-tenant that is present when it
//! begins, and rounded to the nanosecond.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use super::prefix_cache::PrefixCache;
use super::slowness::{CoTenant, Episodes, SlowRequests};
use super::{Arrival, Channel, Event, EventKind, Model, Occupancy};
use crate::draw::{Concern, RequestKey, Seed};

/// The maximum jitter between tokens, as a share of the base.
const ITL_JITTER_SHARE: f64 = 0.7;

/// The latencies of a [`PerRequest`] model. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Base time to first token of an idle engine.
    pub ttft_ns: i64,
    /// Added to it for every prompt token that is not cached.
    pub prefill_per_token_ns: i64,
    /// The median of the jitter that is added to it.
    pub ttft_jitter_ns: i64,
    /// The sigma of that jitter: the standard deviation of its logarithm.
    pub ttft_jitter_sigma: f64,
    /// Time between tokens of an idle engine.
    pub itl_ns: i64,
    /// The standard deviation of the jitter that is added to it.
    pub itl_jitter_ns: i64,
    /// The factor of both in a full engine; at least 1.
    pub load_factor: f64,
    /// The maximum running requests; others wait, first come first served.
    pub max_num_seqs: u32,
    /// Tokens of the first chunk.
    pub first_chunk_tokens: u32,
    /// Tokens of each later chunk.
    pub tokens_per_chunk: u32,
    /// If true, later chunks have 1 to 2 k - 1 tokens instead, k on average.
    pub vary_chunks: bool,
    /// If true, prefixes of prompts are cached.
    pub prefix_cache: bool,
    /// Tokens of a block of the cache.
    pub block_tokens: u32,
    /// Blocks of the cache.
    pub kv_blocks: u32,
    /// Requests that are slower than that.
    pub slow: SlowRequests,
    /// A co-tenant that makes all of them slower at times.
    pub cotenant: CoTenant,
}

impl Latency {
    /// Returns latencies of 0: no time passes in the engine.
    pub fn none() -> Self {
        Self {
            ttft_ns: 0,
            prefill_per_token_ns: 0,
            ttft_jitter_ns: 0,
            ttft_jitter_sigma: 0.0,
            itl_ns: 0,
            itl_jitter_ns: 0,
            load_factor: 1.0,
            max_num_seqs: 1_000_000,
            first_chunk_tokens: 1,
            tokens_per_chunk: 1,
            vary_chunks: false,
            prefix_cache: true,
            block_tokens: 16,
            kv_blocks: 65_536,
            slow: SlowRequests::none(),
            cotenant: CoTenant::none(),
        }
    }

    fn load(&self, running: u32) -> f64 {
        let places = f64::from(self.max_num_seqs.saturating_sub(1).max(1));
        1.0 + (self.load_factor - 1.0) * f64::from(running.saturating_sub(1)) / places
    }

    fn first_token_ns(&self, key: RequestKey, new_tokens: u32, running: u32) -> i64 {
        let work = self.ttft_ns.saturating_add(self.prefill_per_token_ns.saturating_mul(i64::from(new_tokens)));
        let jitter = match self.ttft_jitter_ns {
            0 => 0.0,
            median => median as f64 * libm::exp(self.ttft_jitter_sigma * key.normal(Concern::Ttft, 0)),
        };
        whole_ns(work as f64 * self.load(running) + jitter)
    }

    fn later_tokens_ns(&self, key: RequestKey, from: u32, tokens: u32, running: u32) -> i64 {
        let one = |place: u32| match self.itl_jitter_ns {
            0 => self.itl_ns as f64,
            deviation => {
                let most = self.itl_ns as f64 * ITL_JITTER_SHARE;
                let jitter = deviation as f64 * key.normal(Concern::Itl, u64::from(place));
                self.itl_ns as f64 + jitter.clamp(-most, most)
            }
        };
        let work: f64 = (from..from.saturating_add(tokens)).map(one).sum();
        whole_ns(work * self.load(running))
    }

    /// Returns the tokens of the chunk that begins at token `from`, if there are enough.
    fn chunk_tokens(&self, key: RequestKey, from: u32) -> u32 {
        match (from, self.vary_chunks) {
            (0, _) => self.first_chunk_tokens.max(1),
            (_, false) => self.tokens_per_chunk.max(1),
            (_, true) => {
                1 + key.below(Concern::ChunkTokens, u64::from(from), self.tokens_per_chunk.saturating_mul(2).saturating_sub(1))
            }
        }
    }

    fn block_count(&self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.block_tokens.max(1)))
    }
}

/// Rounds down, so that a plan in whole units stays exact.
fn whole_ns(ns: f64) -> i64 {
    // `as` saturates, and gives 0 for NaN.
    ns.max(0.0) as i64
}

/// Concurrent requests, each with its own draws, and a queue.
pub struct PerRequest {
    latency: Latency,
    now_ns: i64,
    /// Breaks ties between events of one instant: first planned, first out.
    planned: u64,
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_request: HashMap<u64, usize>,
    running: u32,
    /// Slots of queued requests; a cancelled one stays in line until its turn.
    queue: VecDeque<usize>,
    waiting: u32,
    kv_blocks_used: u64,
    due: BinaryHeap<Reverse<(i64, u64, usize)>>,
    /// Events that have occurred and were not collected yet.
    pending_events: VecDeque<Event>,
    cache: PrefixCache,
    episodes: Episodes,
}

struct Slot {
    arrival: Arrival,
    state: State,
    /// Tokens that were sent.
    sent: u32,
    /// Tokens of the next planned chunk.
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    /// Cancelled: its remaining reference (its place in the queue or its next event) frees the slot.
    Cancelled,
}

impl PerRequest {
    /// Returns an idle engine. The seed is for draws of the engine as a whole; requests have their own keys.
    pub fn new(latency: Latency, seed: &Seed) -> Self {
        let episodes = Episodes::new(latency.cotenant, seed);
        let cache = PrefixCache::new(if latency.prefix_cache { latency.kv_blocks as usize } else { 0 });
        Self {
            latency,
            now_ns: i64::MIN,
            planned: 0,
            slots: Vec::new(),
            free: Vec::new(),
            by_request: HashMap::new(),
            running: 0,
            queue: VecDeque::new(),
            waiting: 0,
            kv_blocks_used: 0,
            due: BinaryHeap::new(),
            pending_events: VecDeque::new(),
            cache,
            episodes,
        }
    }

    fn work_until(&mut self, to_ns: i64) {
        while let Some(Reverse((at_ns, _, index))) = self.due.peek().copied().filter(|Reverse((at_ns, ..))| *at_ns <= to_ns) {
            self.due.pop();
            self.now_ns = at_ns;
            self.fire(index);
        }
        self.now_ns = self.now_ns.max(to_ns);
    }

    /// Carries out the due event of a request.
    fn fire(&mut self, index: usize) {
        if self.slots[index].state == State::Cancelled {
            self.free.push(index);
            return;
        }
        let slot = &mut self.slots[index];
        if slot.next > 0 {
            let channel = if slot.sent < slot.arrival.reasoning_tokens { Channel::Reasoning } else { Channel::Content };
            let (request, tokens) = (slot.arrival.request, slot.next);
            let held = slot.arrival.prompt_tokens.saturating_add(slot.sent);
            slot.sent += tokens;
            self.kv_blocks_used += self.latency.block_count(held.saturating_add(tokens)) - self.latency.block_count(held);
            self.push_event(request, EventKind::Chunk { tokens, channel });
        }
        let slot = &self.slots[index];
        if slot.sent < slot.arrival.output_tokens {
            self.plan_chunk(index);
        } else {
            self.finish(index);
        }
    }

    fn plan_chunk(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let (key, from) = (slot.arrival.key, slot.sent);
        slot.next = next_chunk_tokens(&self.latency, slot);
        let after_ns = self.latency.later_tokens_ns(key, from, slot.next, self.running);
        self.plan(index, after_ns);
    }

    fn plan(&mut self, index: usize, after_ns: i64) {
        let slower = self.latency.slow.factor_for(self.slots[index].arrival.key) * self.episodes.factor_at(self.now_ns);
        let after_ns = (after_ns as f64 * slower).round() as i64;
        self.planned += 1;
        self.due.push(Reverse((self.now_ns.saturating_add(after_ns), self.planned, index)));
    }

    fn finish(&mut self, index: usize) {
        let request = self.slots[index].arrival.request;
        self.push_event(request, EventKind::Finished);
        self.by_request.remove(&request);
        self.stop_running(index);
        self.free.push(index);
        self.admit_waiting();
    }

    fn stop_running(&mut self, index: usize) {
        let slot = &self.slots[index];
        self.running -= 1;
        self.kv_blocks_used -= self.latency.block_count(slot.arrival.prompt_tokens.saturating_add(slot.sent));
    }

    fn admit_waiting(&mut self) {
        while self.running < self.latency.max_num_seqs
            && let Some(index) = self.queue.pop_front()
        {
            if self.slots[index].state == State::Cancelled {
                self.free.push(index);
            } else {
                self.waiting -= 1;
                self.admit(index);
            }
        }
    }

    fn admit(&mut self, index: usize) {
        self.running += 1;
        let slot = &mut self.slots[index];
        slot.state = State::Running;
        slot.next = next_chunk_tokens(&self.latency, slot);
        let (request, key, prompt_tokens) = (slot.arrival.request, slot.arrival.key, slot.arrival.prompt_tokens);
        self.kv_blocks_used += self.latency.block_count(prompt_tokens);
        let lookup = self.cache.admit(&slot.arrival.prefix_blocks);
        let (cached_tokens, evicted_tokens) = lookup.tokens(prompt_tokens, self.latency.block_tokens);
        self.push_event(request, EventKind::Admitted { cached_tokens, evicted_tokens, evictions: lookup.evictions as u32 });
        let after_ns = self.latency.first_token_ns(key, prompt_tokens - cached_tokens, self.running);
        self.plan(index, after_ns);
    }

    /// Removes cancelled requests from the queue once they are most of it, so that impatient clients cannot make it grow.
    fn tidy_queue(&mut self) {
        if self.queue.len() > 2 * self.waiting as usize + 64 {
            let (slots, free) = (&self.slots, &mut self.free);
            self.queue.retain(|index| {
                let waits = slots[*index].state == State::Waiting;
                if !waits {
                    free.push(*index);
                }
                waits
            });
        }
    }

    fn push_event(&mut self, request: u64, kind: EventKind) {
        self.pending_events.push_back(Event { at_ns: self.now_ns, request, kind });
    }

    fn place(&mut self, arrival: Arrival) -> usize {
        let slot = Slot { arrival, state: State::Waiting, sent: 0, next: 0 };
        if let Some(index) = self.free.pop() {
            self.slots[index] = slot;
            return index;
        }
        self.slots.push(slot);
        self.slots.len() - 1
    }
}

/// Returns the tokens of a request's next chunk: no more than remain, and of one channel only.
fn next_chunk_tokens(latency: &Latency, slot: &Slot) -> u32 {
    let end = if slot.sent < slot.arrival.reasoning_tokens {
        slot.arrival.reasoning_tokens.min(slot.arrival.output_tokens)
    } else {
        slot.arrival.output_tokens
    };
    latency.chunk_tokens(slot.arrival.key, slot.sent).min(end.saturating_sub(slot.sent))
}

impl Model for PerRequest {
    fn start(&mut self, at_ns: i64) {
        self.episodes.start(at_ns);
    }

    fn arrive(&mut self, at_ns: i64, arrival: Arrival) {
        self.work_until(at_ns);
        let request = arrival.request;
        let index = self.place(arrival);
        self.by_request.insert(request, index);
        self.queue.push_back(index);
        self.waiting += 1;
        self.admit_waiting();
    }

    fn cancel(&mut self, at_ns: i64, request: u64) {
        self.work_until(at_ns);
        let Some(index) = self.by_request.remove(&request) else { return };
        let was = std::mem::replace(&mut self.slots[index].state, State::Cancelled);
        if was == State::Running {
            self.stop_running(index);
            self.admit_waiting();
        } else {
            self.waiting -= 1;
            self.tidy_queue();
        }
    }

    fn next_ns(&self) -> Option<i64> {
        let due = self.due.peek().map(|Reverse((at_ns, ..))| *at_ns);
        self.pending_events.front().map(|event| event.at_ns).or(due)
    }

    fn advance(&mut self, to_ns: i64, events: &mut Vec<Event>) {
        self.work_until(to_ns);
        events.extend(self.pending_events.drain(..));
    }

    fn occupancy(&self) -> Occupancy {
        let share = self.kv_blocks_used as f64 / f64::from(self.latency.kv_blocks.max(1));
        Occupancy {
            running: self.running,
            waiting: self.waiting,
            kv_usage: share.min(1.0),
            preemptions: 0,
            cached_blocks: self.cache.len() as u64,
            evictions: self.cache.evictions(),
            forgotten_evictions: self.cache.forgotten(),
        }
    }

    fn reset_prefix_cache(&mut self) {
        self.cache.clear();
    }
}
