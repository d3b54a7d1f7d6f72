//! The comparison of the client's counts with the endpoint's: execute cannot write the endpoint's counters.
//!
//! A disagreement is recorded and fails nothing. It has harmless causes, and other traffic on the endpoint is one of them: to
//! show it is the purpose. Agreement is stated only if both limits were checked: attempts without a reading between them are
//! compared as one sum, and a growth that includes requests which the client did not count has no upper limit.

use std::collections::BTreeMap;

use assay_manifest::{
    Block, CacheMode, CheckedAttempt, Count, CrossCheck, CrossCheckOutcome, History, Instant, ServingOutcome, ServingWork,
    TemplateUse, Window,
};
use assay_record::Outcome;
use assay_telemetry::{CountedQuantity, Growth, Scrape, growth, span};

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
    open: u64,
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
            Ok(Outcome::CancelledAtEnd | Outcome::Cancelled | Outcome::Timeout) => (count, count),
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

    /// Returns the count of a quantity.
    fn of(&self, what: CountedQuantity) -> u64 {
        match what {
            CountedQuantity::Requests => self.ok,
            CountedQuantity::InputTokens => self.input_tokens,
            CountedQuantity::OutputTokens => self.output_tokens,
        }
    }
}

/// An attempt on an endpoint, over all its shards.
#[derive(Clone, Debug)]
pub(crate) struct ServedAttempt<'a> {
    pub(crate) attempt: CheckedAttempt,
    /// From the first start of a shard to the last end.
    pub(crate) window: Window,
    pub(crate) work: &'a ServingWork,
    pub(crate) counts: ClientCounts,
    /// True if every shard has counts.
    pub(crate) is_complete: bool,
}

/// The recorded readings of an endpoint's counters.
pub(crate) enum Readings {
    /// The responses of each of its servers, in the order of their requests. Their growth is added up.
    Responses(Vec<Vec<Scrape>>),
    /// None that can be used: several pods serve its address.
    SeveralPods,
}

/// The reasons why a limit could not be checked, as clauses after "because".
mod reason {
    pub(super) const SEVERAL_PODS: &str = "several pods serve the endpoint's address, and each counts only its own requests";
    pub(super) const NO_READING: &str = "no reading of the endpoint's counters was recorded";
    pub(super) const NO_COUNTER: &str = "the endpoint's readings have no known counter of this quantity";
    pub(super) const NOT_AROUND: &str = "no reading of the endpoint's counter lies before the attempt, or none after it";
    pub(super) const NO_COUNTS: &str = "a shard of the attempt has no counts";
    pub(super) const OTHER_TOKENIZER: &str = "the client does not count by the model's tokenizer";
    pub(super) const IMAGES: &str = "the tokens of an image are known to the endpoint only";
    pub(super) const LIVE_HISTORY: &str = "the client counts each live response by itself, and the endpoint within a prompt";
    pub(super) const WARMUP: &str = "the client does not count the prompts of the warm-up";
    pub(super) const OTHER_ATTEMPT: &str = "another attempt, whose count cannot be compared, lies between the same readings";
    pub(super) const WARMED_CACHE: &str = "the endpoint also counts the requests that warm its cache, and the client does not";
    pub(super) const LEFT_OPEN: &str = "the attempt before it has no counts, so the requests that it left open are unknown";
    pub(super) const FELL: &str = "the counter fell, as when the endpoint starts again, and the growth that it lost is unknown";
}

/// Returns the checks of all attempts on one endpoint, which come in the order of their starts.
pub(crate) fn checks(block: Block, attempts: &[ServedAttempt<'_>], readings: &Readings) -> Vec<CrossCheck> {
    CountedQuantity::ALL.into_iter().flat_map(|what| Comparison { block, what, attempts }.checks(readings)).collect()
}

/// The comparison of one quantity.
struct Comparison<'a> {
    block: Block,
    what: CountedQuantity,
    attempts: &'a [ServedAttempt<'a>],
}

/// Attempts without a reading between them.
struct Group<'a> {
    /// Each attempt, with the growth around its own window.
    members: Vec<(&'a ServedAttempt<'a>, Growth)>,
    window: Window,
    /// The growth around the window of all members.
    growth: Growth,
}

impl Group<'_> {
    /// Returns true if an attempt shares the growth of this group.
    fn shares(&self, served: &ServedAttempt<'_>, growth: &Growth) -> bool {
        served.window.start < self.growth.reach.1 || growth.reach.0 < self.window.end
    }
}

/// Returns the growth of the counters of all servers around a window; `None` if it is not known of one of them. A server that shows
/// other known counters and not this one has counted nothing: client libraries show a counter once it has first counted.
fn total_growth(servers: &[Vec<Scrape>], what: CountedQuantity, window: &Window) -> Option<Growth> {
    let is_idle = |scrapes: &&Vec<Scrape>| {
        let shows = |what| scrapes.iter().any(|scrape| counts(scrape, what));
        !shows(what) && CountedQuantity::ALL.into_iter().any(shows)
    };
    let counting = servers.iter().filter(|scrapes| !is_idle(scrapes));
    let of_each = counting.map(|scrapes| growth(scrapes, what, window)).collect::<Option<Vec<_>>>()?;
    of_each.into_iter().reduce(|sum, other| Growth {
        counter: sum.counter,
        outer: sum.outer.saturating_add(other.outer),
        inner: sum.inner.saturating_add(other.inner),
        within: sum.within.min(other.within),
        reach: (sum.reach.0.min(other.reach.0), sum.reach.1.max(other.reach.1)),
        resets: sum.resets.saturating_add(other.resets),
    })
}

/// Returns true if a response has a counter of a quantity.
fn counts(scrape: &Scrape, what: CountedQuantity) -> bool {
    CountedQuantity::ALL.into_iter().zip(scrape.counters).any(|(of, counter)| of == what && counter.is_some())
}

impl<'a> Comparison<'a> {
    fn checks(&self, readings: &Readings) -> Vec<CrossCheck> {
        let scrapes = match readings {
            Readings::Responses(scrapes) => scrapes,
            Readings::SeveralPods => return self.not_compared(self.attempts.iter().map(|served| (served, reason::SEVERAL_PODS))),
        };
        let (groups, apart) = self.groups(scrapes);
        let missing = self.missing_reading(scrapes);
        let mut checks =
            self.not_compared(apart.iter().map(|served| (*served, self.comparable(served).err().unwrap_or(missing))));
        checks.extend(groups.iter().flat_map(|group| self.check_group(group, &apart)));
        checks
    }

    /// Returns the attempts in groups, and those that have no reading on one of their sides.
    fn groups(&self, scrapes: &[Vec<Scrape>]) -> (Vec<Group<'a>>, Vec<&'a ServedAttempt<'a>>) {
        let (mut groups, mut apart) = (Vec::<Group<'a>>::new(), Vec::new());
        for served in self.attempts {
            let Some(own) = total_growth(scrapes, self.what, &served.window) else {
                apart.push(served);
                continue;
            };
            let shared = groups.last_mut().filter(|group| group.shares(served, &own)).and_then(|group| {
                let window = span(group.window.start.min(served.window.start), group.window.end.max(served.window.end));
                let growth = total_growth(scrapes, self.what, &window)?;
                Some((group, window, growth))
            });
            match shared {
                Some((group, window, growth)) => {
                    (group.window, group.growth) = (window, growth);
                    group.members.push((served, own));
                }
                None => groups.push(Group { window: served.window, growth: own.clone(), members: vec![(served, own)] }),
            }
        }
        (groups, apart)
    }

    fn missing_reading(&self, scrapes: &[Vec<Scrape>]) -> &'static str {
        let has_counter = scrapes.iter().flatten().any(|scrape| counts(scrape, self.what));
        match (scrapes.iter().any(Vec::is_empty), has_counter) {
            (true, _) => reason::NO_READING,
            (false, false) => reason::NO_COUNTER,
            (false, true) => reason::NOT_AROUND,
        }
    }

    /// Returns true if an attempt has the quantity: not every API has output tokens.
    fn is_counted(&self, served: &ServedAttempt<'_>) -> bool {
        self.what != CountedQuantity::OutputTokens || served.work.api.capabilities().has_output_tokens
    }

    /// Checks that the client has counted an attempt, as the endpoint has: prompts by the same tokenizer, and all of them.
    fn comparable(&self, served: &ServedAttempt<'_>) -> Result<(), &'static str> {
        if !served.is_complete {
            return Err(reason::NO_COUNTS);
        }
        match self.what {
            CountedQuantity::Requests | CountedQuantity::OutputTokens => Ok(()),
            CountedQuantity::InputTokens => match uncounted_input(served.work) {
                Some(why) => Err(why),
                None if served.work.tokenizer.file.is_none() => Err(reason::OTHER_TOKENIZER),
                None if served.counts.warmup > 0 => Err(reason::WARMUP),
                None => Ok(()),
            },
        }
    }

    /// Returns the check of a group, and those of its members that disagree on their own.
    fn check_group(&self, group: &Group<'a>, apart: &[&ServedAttempt<'_>]) -> Vec<CrossCheck> {
        let is_known = |served: &ServedAttempt<'_>| self.is_counted(served) && self.comparable(served).is_ok();
        let (known, others): (Vec<_>, Vec<_>) = group.members.iter().partition(|(served, _)| is_known(served));
        let mut checks =
            self.not_compared(others.iter().filter_map(|(served, _)| Some((*served, self.comparable(served).err()?))));
        if known.is_empty() {
            if let [check] = checks.as_mut_slice()
                && check.attempts.len() == group.members.len()
            {
                insert_growth(check, &group.growth);
            }
            return checks;
        }
        let left_open = self.left_open(group.window.start);
        let limits = known.iter().enumerate().map(|(place, (served, _))| {
            // What was left open before a group is counted once.
            Limits::new(self.what, &served.counts, left_open.filter(|_| place == 0).unwrap_or(0))
        });
        let limits = limits.reduce(Limits::plus).unwrap_or_default();
        let unlimited = self.unlimited(group, others.is_empty(), apart);
        let is_sum = known.len() > 1;
        let own: Vec<_> = match unlimited {
            None if !is_sum => Vec::new(),
            _ => known.iter().filter_map(|(served, growth)| self.own_disagreement(served, growth)).collect(),
        };
        if is_sum || own.is_empty() {
            let served: Vec<_> = known.iter().map(|(served, _)| *served).collect();
            checks.push(self.check(&served, &limits, &group.growth, unlimited));
        }
        checks.extend(own);
        checks
    }

    /// Returns the number of requests that the previous attempt may have left open; `None` if it is not known.
    fn left_open(&self, start: Instant) -> Option<u64> {
        self.previous(start).map_or(Some(0), |served| served.is_complete.then_some(served.counts.open))
    }

    fn previous(&self, start: Instant) -> Option<&'a ServedAttempt<'a>> {
        self.attempts.iter().filter(|served| served.window.end <= start).max_by_key(|served| served.window.end)
    }

    /// Returns the reason why the growth of a group may be more than the client's count, if there is one.
    fn unlimited(&self, group: &Group<'_>, is_known: bool, apart: &[&ServedAttempt<'_>]) -> Option<&'static str> {
        let (from, to) = group.growth.reach;
        let warms = |served: &ServedAttempt<'_>| {
            // The cache is warmed between the previous attempt and this one.
            served.work.cache == CacheMode::Warm
                && from < served.window.start
                && self.previous(served.window.start).is_none_or(|previous| previous.window.end < to)
        };
        if !is_known || apart.iter().any(|served| served.window.start < to && from < served.window.end) {
            Some(reason::OTHER_ATTEMPT)
        } else if self.attempts.iter().any(warms) {
            Some(reason::WARMED_CACHE)
        } else if self.left_open(group.window.start).is_none() {
            Some(reason::LEFT_OPEN)
        } else {
            None
        }
    }

    /// Compares a growth with the limits. The upper one has no meaning if there is a reason for it.
    fn check(
        &self,
        served: &[&ServedAttempt<'_>],
        limits: &Limits,
        growth: &Growth,
        unlimited: Option<&'static str>,
    ) -> CrossCheck {
        // A counter that fell has grown by more than is seen.
        let fell = (growth.resets > 0).then_some(reason::FELL);
        let (outcome, reason) = if growth.outer < limits.least {
            (fell.map_or(CrossCheckOutcome::Disagrees, |_| CrossCheckOutcome::NotCompared), fell)
        } else if unlimited.is_none() && limits.most < growth.outer {
            (CrossCheckOutcome::Disagrees, None)
        } else {
            let reason = unlimited.or(fell);
            (reason.map_or(CrossCheckOutcome::Agrees, |_| CrossCheckOutcome::AtLeast), reason)
        };
        let limit = if outcome == CrossCheckOutcome::AtLeast { "only the lower limit was checked" } else { "not compared" };
        let because = reason.map(|reason| format!("{limit}, because {reason}"));
        let parts = [Some(limits.rule(self.what, served.len())), Some(describe_growth(growth)), because];
        CrossCheck {
            block: self.block,
            attempts: served.iter().map(|served| served.attempt.clone()).collect(),
            what: self.what.as_str().to_owned(),
            counter: Some(growth.counter.to_owned()),
            client: Count(limits.client),
            endpoint: Some(Count(growth.outer)),
            outcome,
            reason: reason.map(str::to_owned),
            detail: parts.into_iter().flatten().collect::<Vec<_>>().join("; "),
        }
    }

    /// Returns the disagreement of an attempt whose growth includes requests that are not its own, if its count is more than the
    /// endpoint's with them, or less than the endpoint's within its window.
    fn own_disagreement(&self, served: &ServedAttempt<'_>, growth: &Growth) -> Option<CrossCheck> {
        let left_open = self.left_open(served.window.start);
        let limits = Limits::new(self.what, &served.counts, left_open.unwrap_or(0));
        let overlaps = |other: &ServedAttempt<'_>| {
            other.attempt != served.attempt && other.window.start < served.window.end && served.window.start < other.window.end
        };
        let is_alone = left_open.is_some() && !self.attempts.iter().any(overlaps);
        let lacks = growth.resets == 0 && growth.outer < limits.least;
        let exceeds = is_alone && limits.most < growth.inner;
        if !lacks && !exceeds {
            return None;
        }
        let mut check = self.check(&[served], &limits, growth, Some(reason::OTHER_ATTEMPT));
        (check.outcome, check.reason) = (CrossCheckOutcome::Disagrees, None);
        check.detail = format!("{}; {}", limits.rule(self.what, 1), describe_growth(growth));
        if exceeds {
            let Growth { inner, within, .. } = growth;
            check.endpoint = Some(Count(*inner));
            check.detail = format!("{}; it grew by {inner} between the {within} readings within the attempt", check.detail);
        }
        Some(check)
    }

    /// Returns one check without a comparison for each reason, over all its attempts.
    fn not_compared<'b>(&self, attempts: impl Iterator<Item = (&'b ServedAttempt<'b>, &'static str)>) -> Vec<CrossCheck> {
        let mut by_reason: BTreeMap<&str, Vec<&ServedAttempt<'_>>> = BTreeMap::new();
        for (served, reason) in attempts.filter(|(served, _)| self.is_counted(served)) {
            by_reason.entry(reason).or_default().push(served);
        }
        let check = |(reason, served): (&str, Vec<&ServedAttempt<'_>>)| CrossCheck {
            block: self.block,
            attempts: served.iter().map(|served| served.attempt.clone()).collect(),
            what: self.what.as_str().to_owned(),
            counter: None,
            client: Count(served.iter().fold(0, |sum, served| sum.saturating_add(served.counts.of(self.what)))),
            endpoint: None,
            outcome: CrossCheckOutcome::NotCompared,
            reason: Some(reason.to_owned()),
            detail: format!("not compared, because {reason}"),
        };
        by_reason.into_iter().map(check).collect()
    }
}

/// Returns the reason why the endpoint may have input tokens that the client cannot count: those that it adds to a prompt, unless the client counts
/// them by the chat template, and those of images.
fn uncounted_input(work: &ServingWork) -> Option<&'static str> {
    let Some(template) = &work.tokenizer.template else { return work.api.capabilities().added_tokens };
    let is_live = work.sessions.as_ref().is_some_and(|sessions| sessions.history == History::Live);
    match template.usage {
        _ if is_live => Some(reason::LIVE_HISTORY),
        _ if work.images.is_some() || work.image_files.is_some() => Some(reason::IMAGES),
        TemplateUse::Count => None,
        TemplateUse::Apply => work.api.capabilities().added_tokens,
    }
}

/// Returns the readings of the counter, for people.
fn describe_growth(growth: &Growth) -> String {
    let Growth { outer, reach: (from, to), resets, .. } = growth;
    let fell = match resets {
        0 => String::new(),
        1 => "; it fell once".to_owned(),
        resets => format!("; it fell {resets} times"),
    };
    format!("the counter grew by {outer} between {from} and {to}{fell}")
}

/// The range of counts that the endpoint may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limits {
    /// The client's count.
    client: u64,
    /// Requests that the endpoint may have counted, and the client has not.
    unsure: u64,
    least: u64,
    most: u64,
}

impl Limits {
    /// Returns the limits of one attempt. `left_open` are the requests that the previous attempt may have left open.
    fn new(what: CountedQuantity, counts: &ClientCounts, left_open: u64) -> Self {
        let (client, unsure) = (counts.of(what), counts.unsure.saturating_add(left_open));
        if what == CountedQuantity::Requests {
            return Self { client, unsure, least: client, most: client.saturating_add(unsure) };
        }
        // One in a hundred, and for each request that may have been counted the mean of those with a response.
        let mean = client.checked_div(counts.ok).unwrap_or(0).saturating_add(1);
        let slack = client.div_ceil(TOKEN_TOLERANCE).saturating_add(unsure.saturating_mul(mean));
        Self { client, unsure, least: client.saturating_sub(slack), most: client.saturating_add(slack) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            client: self.client.saturating_add(other.client),
            unsure: self.unsure.saturating_add(other.unsure),
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
        }
    }

    fn rule(&self, what: CountedQuantity, attempts: usize) -> String {
        let Self { client, unsure, least, most } = self;
        let together = if attempts > 1 { format!("{attempts} attempts as one sum: ") } else { String::new() };
        let counts = match what {
            CountedQuantity::Requests => format!("{client} requests succeeded and {unsure} others may have been counted"),
            CountedQuantity::InputTokens | CountedQuantity::OutputTokens => {
                format!("{client} tokens within 1 % and {unsure} requests of the mean length")
            }
        };
        format!("{together}{counts}: from {least} to {most}")
    }
}

/// Inserts the growth into a check that does not compare it.
fn insert_growth(check: &mut CrossCheck, growth: &Growth) {
    check.counter = Some(growth.counter.to_owned());
    check.endpoint = Some(Count(growth.outer));
    check.detail = format!("{}; {}", describe_growth(growth), check.detail);
}

#[cfg(test)]
mod tests;
