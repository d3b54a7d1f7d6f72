//! The endpoints' counters of their own work, and the part of it that falls into a window.

use crate::exposition::samples;
use assay_manifest::{Instant, Window};

/// A quantity that both sides count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedQuantity {
    /// Requests with a response.
    Requests,
    /// Tokens of prompts.
    InputTokens,
    /// Tokens of responses.
    OutputTokens,
}

impl CountedQuantity {
    /// All quantities.
    pub const ALL: [Self; 3] = [Self::Requests, Self::InputTokens, Self::OutputTokens];

    /// Returns the quantity as a word, such as `input_tokens`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
        }
    }
}

/// The counters of known servers: vLLM (and the simulator), SGLang, TGI, llama.cpp, the frontend of Dynamo. If a response has several that count the
/// same, the first of the list is used.
const KNOWN_COUNTERS: [(CountedQuantity, &str); 14] = [
    (CountedQuantity::Requests, "vllm:request_success_total"),
    (CountedQuantity::InputTokens, "vllm:prompt_tokens_total"),
    (CountedQuantity::OutputTokens, "vllm:generation_tokens_total"),
    (CountedQuantity::Requests, "sglang:num_requests_total"),
    (CountedQuantity::InputTokens, "sglang:prompt_tokens_total"),
    (CountedQuantity::OutputTokens, "sglang:generation_tokens_total"),
    (CountedQuantity::Requests, "tgi_request_success"),
    (CountedQuantity::InputTokens, "tgi_request_input_length_sum"),
    (CountedQuantity::OutputTokens, "tgi_request_generated_tokens_sum"),
    (CountedQuantity::InputTokens, "llamacpp:prompt_tokens_total"),
    (CountedQuantity::OutputTokens, "llamacpp:tokens_predicted_total"),
    (CountedQuantity::Requests, "dynamo_frontend_requests_total"),
    (CountedQuantity::InputTokens, "dynamo_frontend_input_sequence_tokens_sum"),
    (CountedQuantity::OutputTokens, "dynamo_frontend_output_sequence_tokens_sum"),
];

/// The state of one counter, summed over its labels: reasons to finish, engines, models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counter {
    /// The counter's name.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

/// The counters of one response, in the order of [`CountedQuantity::ALL`].
pub type Counters = [Option<Counter>; 3];

/// Parses the known counters in a response, and skips lines that cannot be read.
pub fn counters(text: &str) -> Counters {
    let mut sums: [Option<f64>; KNOWN_COUNTERS.len()] = [None; KNOWN_COUNTERS.len()];
    for sample in samples(text).flatten() {
        let known = KNOWN_COUNTERS.iter().position(|(_, name)| *name == sample.name);
        if let Some(sum) = known.and_then(|index| sums.get_mut(index)) {
            *sum = Some(sum.unwrap_or(0.0) + sample.value);
        }
    }
    let found = |what| {
        let mut known = KNOWN_COUNTERS.iter().zip(&sums).filter(|((of, _), _)| *of == what);
        known.find_map(|((_, name), sum)| Some(Counter { name, value: (*sum)? }))
    };
    CountedQuantity::ALL.map(found)
}

/// One successful response of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Scrape {
    /// The time of the request: counted events happened before the response, and may have happened after this time.
    pub requested_at: Instant,
    /// The time of the response: counted events happened before this time.
    pub received_at: Instant,
    /// The counters in the response.
    pub counters: Counters,
}

/// The growth of a counter around a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The counter's name.
    pub counter: &'static str,
    /// The growth from the last response received by the window's start to the first one requested after its end: at least that
    /// of the window.
    pub outer: u64,
    /// The growth from the first response requested in the window to the last one received in it: at most that of the window.
    pub inner: u64,
    /// The number of responses completely within the window: with fewer than two, `inner` has no meaning.
    pub within: usize,
    /// The start and the end of `outer`.
    pub reach: (Instant, Instant),
    /// The number of times that the counter fell, as at a restart of its server. Its growth since the previous response is lost.
    pub resets: u32,
}

/// Returns the growth of a counter around a window; `None` if no response lies before it or after it, or none has the counter.
/// Responses come in the order of their requests.
pub fn growth(scrapes: &[Scrape], what: CountedQuantity, window: &Window) -> Option<Growth> {
    let of = |scrape: &Scrape| {
        CountedQuantity::ALL.iter().zip(scrape.counters).find_map(|(of, counter)| counter.filter(|_| *of == what))
    };
    // A value that is no count is ignored.
    let usable: Vec<&Scrape> = scrapes
        .iter()
        .filter(|scrape| of(scrape).is_none_or(|counter| counter.value.is_finite() && counter.value >= 0.0))
        .collect();
    let first = usable.iter().rposition(|scrape| scrape.received_at <= window.start)?;
    let last = usable.iter().position(|scrape| scrape.requested_at >= window.end)?;
    let around = usable.get(first..=last)?;
    let name = around.iter().rev().find_map(|scrape| of(scrape))?.name;
    // Client libraries show a counter with labels once it has first counted: one that is not there yet is 0.
    let value = |scrape: &&Scrape| of(scrape).filter(|counter| counter.name == name).map_or(0.0, |counter| counter.value);
    let values: Vec<f64> = around.iter().map(value).collect();
    let within: Vec<f64> = around
        .iter()
        .filter(|scrape| scrape.requested_at >= window.start && scrape.received_at <= window.end)
        .map(value)
        .collect();
    let (outer, resets) = sum_growth(&values);
    let (inner, _) = sum_growth(&within);
    let reach = (around.first()?.requested_at, around.last()?.received_at);
    Some(Growth { counter: name, outer, inner, within: within.len(), reach, resets })
}

/// Returns how much a counter grew from value to value, and how often it fell. After a fall it has grown from 0.
fn sum_growth(values: &[f64]) -> (u64, u32) {
    let (mut sum, mut resets) = (0.0, 0);
    for pair in values.windows(2) {
        if let [before, after] = pair {
            if after < before {
                resets += 1;
                sum += after;
            } else {
                sum += after - before;
            }
        }
    }
    (sum.round() as u64, resets)
}

#[cfg(test)]
mod tests;
