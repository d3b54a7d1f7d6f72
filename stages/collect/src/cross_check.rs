//! The comparison of the client's counts with the endpoint's: execute cannot write the endpoint's counters.
//!
//! A disagreement is recorded and fails nothing. It has harmless causes, and other traffic on the endpoint is one of them: to
//! show it is the purpose.

use assay_manifest::{CacheMode, Count, CrossCheck, Instant, ServingOutcome, ServingWork};
use assay_record::Outcome;
use assay_telemetry::{CountedQuantity, Growth};

/// The tolerance of tokens, as one in this number: endpoints count end-of-text tokens and clients do not, or vice versa.
const TOKEN_TOLERANCE: u64 = 100;

/// The client's counts in one attempt, over all its shards and phases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientCounts {
    /// Requests with a response.
    ok: u64,
    /// Other requests that may have reached the endpoint, which may or may not have counted them as completed.
    unsure: u64,
    /// Those among them that may have been open when the attempt ended.
    pub(crate) open: u64,
    /// Requests of the warm-up.
    warmup: u64,
    input_tokens: u64,
    output_tokens: u64,
}

impl ClientCounts {
    pub(crate) fn from_outcomes<'a>(outcomes: impl IntoIterator<Item = &'a ServingOutcome>) -> Self {
        let mut all = Self::default();
        for outcome in outcomes {
            for (word, Count(count)) in outcome.outcomes.iter().chain(&outcome.warmup_outcomes) {
                all.add(word, *count);
            }
            all.warmup = outcome.warmup_outcomes.values().fold(all.warmup, |sum, count| sum.saturating_add(count.0));
            all.input_tokens = all.input_tokens.saturating_add(outcome.input_tokens.0);
            all.output_tokens = all.output_tokens.saturating_add(outcome.output_tokens.0);
        }
        all
    }

    fn add(&mut self, word: &str, count: u64) {
        let (unsure, open) = match word.parse() {
            Ok(Outcome::Ok) => {
                self.ok = self.ok.saturating_add(count);
                return;
            }
            // These reached no endpoint.
            Ok(Outcome::Dropped | Outcome::ConnectError) => return,
            Ok(Outcome::CancelledAtEnd | Outcome::Timeout) => (count, count),
            Ok(
                Outcome::HttpError
                | Outcome::ConnectionClosed
                | Outcome::Malformed
                | Outcome::EventTooLarge
                | Outcome::StreamError
                | Outcome::Truncated
                | Outcome::Empty,
            )
            | Err(_) => (count, 0),
        };
        self.unsure = self.unsure.saturating_add(unsure);
        self.open = self.open.saturating_add(open);
    }
}

/// The other activity on the endpoint, as far as this run knows it.
pub(crate) struct OtherActivity<'a> {
    /// Requests that the previous attempt may have left open.
    pub(crate) left_open: u64,
    /// Returns true if another attempt ran between two instants.
    pub(crate) between: &'a dyn Fn(Instant, Instant) -> bool,
}

/// Returns the checks of one attempt, one for each growth.
pub(crate) fn checks(
    counted: &ClientCounts,
    work: &ServingWork,
    growths: &[(CountedQuantity, Growth)],
    neighbours: &OtherActivity<'_>,
) -> Vec<CrossCheck> {
    growths.iter().filter_map(|(what, growth)| check(counted, work, *what, growth, neighbours)).collect()
}

fn check(
    counted: &ClientCounts,
    work: &ServingWork,
    what: CountedQuantity,
    growth: &Growth,
    neighbours: &OtherActivity<'_>,
) -> Option<CrossCheck> {
    let unsure = counted.unsure.saturating_add(neighbours.left_open);
    let (client, bounds) = match what {
        CountedQuantity::Requests => (counted.ok, Bounds::for_requests(counted.ok, unsure)),
        CountedQuantity::OutputTokens => {
            // Not every API has output tokens.
            work.output?;
            (counted.output_tokens, Bounds::for_tokens(counted.output_tokens, counted.ok, unsure))
        }
        CountedQuantity::InputTokens => match comparable_prompts(work, counted) {
            Ok(()) => (counted.input_tokens, Bounds::for_tokens(counted.input_tokens, counted.ok, unsure)),
            Err(why) => return Some(informational(counted.input_tokens, what, growth, why)),
        },
    };
    let (from, to) = growth.reach;
    // Requests that warm the cache are sent before the window begins, and are counted by the endpoint only.
    let has_neighbours = work.cache == CacheMode::Warm || (neighbours.between)(from, to);
    // The outer readings may include other attempts of the run; then only the inner growth is certainly the attempt's.
    let surely = if has_neighbours { growth.inner } else { growth.outer };
    let agrees = growth.resets == 0 && bounds.least <= growth.outer && surely <= bounds.most;
    Some(CrossCheck {
        what: what.as_str().to_owned(),
        counter: growth.counter.to_owned(),
        client: Count(client),
        endpoint: Count(growth.outer),
        agrees,
        detail: [bounds.rule, describe_readings(growth, has_neighbours)].join("; "),
    })
}

/// Returns the readings of the counter, for people.
fn describe_readings(growth: &Growth, has_neighbours: bool) -> String {
    let Growth { outer, inner, within, reach: (from, to), resets, .. } = growth;
    let shared = match within {
        _ if !has_neighbours => String::new(),
        // The recorder sends a request once a second: a shorter window holds one response at most.
        0 | 1 => ", which requests outside of the window share; the window is too short to hold two readings, so it was only \
                  checked that the growth is not smaller"
            .to_owned(),
        _ => format!(", which requests outside of the window share, and by {inner} within the window"),
    };
    let fell = match resets {
        0 => String::new(),
        resets => format!("; it fell {resets} times, as when the endpoint starts again, and what it lost is unknown"),
    };
    format!("the counter grew by {outer} between {from} and {to}{shared}{fell}")
}

/// The range of counts that the endpoint may have.
struct Bounds {
    least: u64,
    most: u64,
    rule: String,
}

impl Bounds {
    fn for_requests(ok: u64, unsure: u64) -> Self {
        let most = ok.saturating_add(unsure);
        let rule = format!("{ok} requests succeeded and {unsure} others may have been counted: from {ok} to {most}");
        Self { least: ok, most, rule }
    }

    /// One in a hundred, and for each request that may have been counted the mean of those with a response.
    fn for_tokens(tokens: u64, ok: u64, unsure: u64) -> Self {
        let mean = tokens.checked_div(ok).unwrap_or(0).saturating_add(1);
        let slack = tokens.div_ceil(TOKEN_TOLERANCE).saturating_add(unsure.saturating_mul(mean));
        let (least, most) = (tokens.saturating_sub(slack), tokens.saturating_add(slack));
        let rule = format!("{tokens} tokens within 1 % and {unsure} requests of the mean length: from {least} to {most}");
        Self { least, most, rule }
    }
}

/// Checks that client and endpoint count the same prompts by the same tokenizer.
fn comparable_prompts(work: &ServingWork, counted: &ClientCounts) -> Result<(), &'static str> {
    match work.api.capabilities().added_tokens {
        Some(why) => Err(why),
        None if work.tokenizer.file.is_none() => Err("the client does not count by the model's tokenizer"),
        None if counted.warmup > 0 => Err("the client does not count the prompts of the warm-up"),
        None => Ok(()),
    }
}

fn informational(client: u64, what: CountedQuantity, growth: &Growth, why: &str) -> CrossCheck {
    CrossCheck {
        what: what.as_str().to_owned(),
        counter: growth.counter.to_owned(),
        client: Count(client),
        endpoint: Count(growth.outer),
        agrees: true,
        detail: format!("informational, nothing is required: {why}"),
    }
}

#[cfg(test)]
mod tests;
