//! `--sweep` and `--find-max`: loads that are searched for before they are measured.
//!
//! Each round of a search is a run of its own, as provable as any other, of one trial for each load. What is published comes from
//! the last run alone, which measures the loads that the search ended with.

use std::time::Duration;

use assay_manifest::{
    Address, AllLoads, CrossingPlace, Digest, LoadBracket, MetricSummary, PointSummary, Role, RunId, SloMetric, Summary,
    ValidityLimits,
};
use assay_report::{landmarks_of, shell_word};
use assay_runner::{Config, LocalKeys};
use assay_runs::{EndedSearch, ObservedRound, VerifiedRun, observe, sign_search_result, store_option};
use assay_search::{
    AllowedLatencies, Bracket, ClosedLoopEnd, Goal, Load, MAX_CONCURRENCY, MAX_ERROR_RATE, MIN_LANDMARK_LOADS, MIN_REQUESTS,
    Observation, Queue, Rule, Step, closed_loop_end, curve, landmarks, load_of, next_step,
};
use assay_spec::{parse_duration, parse_latency};
use assay_stage::{Clock, ErrorCode, Exit, Failure, key_password};
use assay_store::Store;
use serde_json::{Value, json};

use super::combinations::refused;
use super::{Bench, DEFAULT_DURATION, Doublings};
use crate::output;

/// The difference from Little's law above which it is reported.
const MAX_LITTLE: f64 = 0.1;

/// The most loads of the curve above a panel: a terminal has some 24 lines. The lowest are left out.
const MAX_CURVE: usize = 16;

/// The width of the longest bar of the curve, in columns.
const CURVE_WIDTH: usize = 16;

/// The options of a search.
#[derive(clap::Args)]
pub(super) struct SearchOptions {
    /// Measure from one request in flight to as many as bring no more throughput: the lowest latency, the knee and the limit
    #[arg(long, conflicts_with = "find_max")]
    sweep: bool,
    /// Search for the most load with which 99 of 100 requests are within every --slo, rate (independent arrivals, unless --arrival names others) or concurrency (requests in flight), and
    /// measure the loads around it
    #[arg(
        long,
        value_name = "LOAD",
        value_parser = ["rate", "concurrency"],
        requires = "slo",
        group = "drawn"
    )]
    find_max: Option<String>,
    /// The most requests in flight of a closed loop that --sweep and --find-max try [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONCURRENCY)))]
    up_to: Option<u32>,
}

impl SearchOptions {
    /// Returns the requested search, of trials of this many requests: no more of them can be in flight. Nor can more than the limit of open files allows.
    pub(super) fn rule(&self, requests: Option<u64>) -> Option<Rule> {
        let goal = match self.find_max.as_deref() {
            Some("concurrency") => Goal::MaxConcurrency,
            Some(_) => Goal::MaxRate,
            None if self.sweep => Goal::Sweep,
            None => return None,
        };
        let rule = Rule::new(goal);
        let most = self.up_to.unwrap_or(rule.max_concurrency);
        let requests = requests.map_or(u32::MAX, |requests| u32::try_from(requests).unwrap_or(u32::MAX));
        Some(Rule { max_concurrency: most.min(requests).min(assay_load::most_connections()), ..rule })
    }

    /// Returns the option that limits the requests in flight of the search.
    pub(super) fn limit(&self, rule: &Rule) -> &'static str {
        let by_up_to = self.up_to.unwrap_or(Rule::new(rule.goal).max_concurrency);
        match rule.max_concurrency {
            most if most >= by_up_to => "`--up-to`",
            most if most == assay_load::most_connections() => "limit of open files (`ulimit -n`)",
            _ => "`--requests`",
        }
    }

    /// Refuses a load beside a search for one, and a search whose definitions are to be printed: its loads are not known before.
    fn check_no_load(&self, bench: &Bench) -> Result<(), Failure> {
        let search = if self.sweep { "--sweep" } else { "--find-max" };
        let loads = [
            ("--concurrency", !bench.concurrency.is_empty()),
            ("--rate", !bench.rate.is_empty()),
            ("--users", !bench.users.is_empty()),
            ("--ramp", bench.ramp.is_some()),
            ("--series", !bench.series.is_empty()),
            ("--trace", bench.trace.is_some()),
        ];
        if let Some((load, _)) = loads.into_iter().find(|(_, is_given)| *is_given) {
            return refused(
                format!("`{load}` contradicts `{search}`: a search finds the loads to measure, and `{load}` states them"),
                format!("leave out `{search}` to measure these loads, or `{load}` to search"),
            );
        }
        if bench.print {
            return refused(
                format!("`--print` contradicts `{search}`: the loads to measure are not known before the search"),
                "leave out `--print`, or write the loads instead of the search",
            );
        }
        Ok(())
    }

    /// Refuses options that the search does not have a use for.
    pub(super) fn check(&self, bench: &Bench) -> Result<(), Failure> {
        let Some(rule) = self.rule(bench.requests) else {
            return match self.up_to {
                Some(_) => refused(
                    "`--up-to` limits a search, and none is requested",
                    "add `--sweep` or `--find-max`, or write `--concurrency 1..64`",
                ),
                None => Ok(()),
            };
        };
        self.check_no_load(bench)?;
        if let Some(most) = self.up_to.filter(|most| *most > assay_load::most_connections()) {
            return refused(
                format!(
                    "`--up-to {most}` is more requests in flight than the {} that the limit of open files allows",
                    assay_load::most_connections()
                ),
                "raise it, such as with `ulimit -n`, or try fewer",
            );
        }
        if let Some(requests) = bench.requests.filter(|requests| rule.goal != Goal::Sweep && *requests < MIN_REQUESTS) {
            return refused(
                format!("`--requests {requests}` are too few for `--find-max`: 99 of 100 requests are to be within the SLOs"),
                format!("write at least `--requests {MIN_REQUESTS}`"),
            );
        }
        if bench.max_errors.is_some() {
            return refused(
                "`--max-errors` ends a trial before it has numbers, and a search needs those of each load",
                "leave it out: a search by itself ends where more than 5 % of the requests fail",
            );
        }
        if rule.goal == Goal::MaxRate {
            if bench.sessions.is_empty() {
                return Ok(());
            }
            let message = "`--find-max rate` compares rates of requests, and with `--sessions` a rate is one of sessions";
            return refused(message, "write `--find-max concurrency`: sessions in flight");
        }
        let of_open_loop = [
            ("--arrival", bench.arrival.is_some()),
            ("--smoothness", bench.smoothness.is_some()),
            ("--max-concurrency", bench.max_concurrency.is_some()),
        ];
        let (search, hint) = match rule.goal {
            Goal::Sweep => ("--sweep", "leave it out"),
            Goal::MaxConcurrency | Goal::MaxRate => ("--find-max concurrency", "leave it out, or write `--find-max rate`"),
        };
        match of_open_loop.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => {
                refused(format!("`{option}` is of an open loop, and `{search}` puts closed ones on the endpoint"), hint)
            }
            None => Ok(()),
        }
    }
}

/// Returns the load that is expected to have the fewest requests per second, with these; `None` for a sweep, which needs no number of requests, and
/// for loads of which nothing is known. Loads that are as high as one at which most requests were not good are left out: they fall short with few
/// requests, too.
fn slowest(rule: &Rule, seen: &[Observation], loads: &[Load]) -> Option<(Load, f64)> {
    if rule.goal == Goal::Sweep {
        return None;
    }
    let is_hopeless = |load: &Load| {
        let of_kind = seen.iter().filter(|seen| seen.load.kind() == load.kind() && seen.load.amount() <= load.amount());
        of_kind.filter_map(|seen| seen.good_fraction).any(|good| good < 0.5)
    };
    let expected = loads.iter().filter(|load| !is_hopeless(load)).filter_map(|load| Some((*load, expected_rate(seen, *load)?)));
    expected.reduce(|one, other| if other.1 < one.1 { other } else { one })
}

/// Returns the requests per second that are expected at a load: those of a rate, and for requests in flight what the straight line between the observed
/// loads on either side says. The throughput of a closed loop rises less and less, so there are no fewer.
fn expected_rate(seen: &[Observation], load: Load) -> Option<f64> {
    let rate = match load {
        Load::Rate(rate) => rate,
        Load::Concurrency(clients) => {
            let tried = seen.iter().filter_map(|seen| match seen.load {
                Load::Concurrency(tried) => Some((tried, seen.requests_per_s)),
                Load::Rate(_) => None,
            });
            let (below, above): (Vec<_>, Vec<_>) = tried.partition(|(tried, _)| *tried <= clients);
            let (low, at_low) = below.into_iter().max_by_key(|(tried, _)| *tried)?;
            let above = above.into_iter().min_by_key(|(tried, _)| *tried);
            above.map_or(at_low, |(high, at_high)| at_low + (at_high - at_low) * f64::from(clients - low) / f64::from(high - low))
        }
    };
    (rate > 0.0).then_some(rate)
}

/// Returns the duration of a search's next round, in whole seconds: what [`needed_duration_s`] says of its slowest load, since a trial that is shorter than
/// those of the measurement sees queues that have hardly begun to grow; [`LONGEST_ROUND_S`] at most, because the measurement decides. `None` if the
/// default is long enough.
pub(super) fn round_duration_s(rule: &Rule, seen: &[Observation], loads: &[Load]) -> Option<u64> {
    let (_, per_s) = slowest(rule, seen, loads)?;
    longer_than_default_s(needed_duration_s(per_s).min(LONGEST_ROUND_S))
}

/// Returns a duration in seconds if it is longer than the default.
pub(super) fn longer_than_default_s(needed_s: u64) -> Option<u64> {
    Some(needed_s).filter(|needed_s| Duration::from_secs(*needed_s) > DEFAULT_DURATION)
}

/// The longest round of a search whose duration is not stated, in seconds.
const LONGEST_ROUND_S: u64 = 60;

/// Returns the duration in which a load of this rate hardly ever has too few requests for a number, even if they arrive at random: in whole seconds.
pub(super) fn needed_duration_s(per_s: f64) -> u64 {
    (MIN_REQUESTS as f64 * 1.3 / per_s).ceil() as u64
}

/// Returns true if a trial of this rate and duration has fewer requests than a number needs.
pub(super) fn is_too_short(per_s: f64, duration: Duration) -> bool {
    per_s * duration.as_secs_f64() < MIN_REQUESTS as f64
}

/// Returns the reason why no number can come of trials of this load and of higher ones that last so long.
pub(super) fn too_short(load: Load, duration: &str, per_s: f64) -> String {
    format!(
        "no most load within the SLOs can be measured: {} needs at least {MIN_REQUESTS} requests in a trial, and has fewer in {duration}; use `--duration {}s` or more",
        name(load),
        needed_duration_s(per_s)
    )
}

/// A search with all that it observed.
pub(crate) struct Search {
    rule: Rule,
    /// The option that limits its requests in flight.
    limit: &'static str,
    /// True if stderr has one JSON document a line, as that of the runs has.
    is_json: bool,
    seen: Vec<Observation>,
    /// The rounds that observed it, in their order.
    rounds: Vec<ObservedRound>,
    /// The digest of the signed result, once the search has ended.
    result: Option<Digest>,
}

/// The loads that a search ended with, or the reason why there are none.
pub(super) enum End {
    Measure(Vec<Load>),
    Nothing(String),
}

impl Search {
    pub(super) fn new(rule: Rule, limit: &'static str, is_json: bool) -> Self {
        Self { rule, limit, is_json, seen: Vec::new(), rounds: Vec::new(), result: None }
    }

    fn say(&self, text: &str) {
        if !self.is_json {
            output::diagnostic(format!("search: {text}"));
        }
    }

    /// Observes loads until the search ends. `observe` runs one trial of each load and returns the run.
    pub(super) fn run(
        &mut self,
        mut observe: impl FnMut(&[Load], &[Observation], usize) -> Result<VerifiedRun, Failure>,
    ) -> Result<Step, Failure> {
        self.say("rounds of one trial a load find the loads to measure");
        loop {
            let loads = match next_step(&self.rule, &self.seen) {
                Step::Observe(loads) => loads,
                end => return Ok(end),
            };
            let round = read_round(&observe(&loads, &self.seen, self.rounds.len())?, &loads)?;
            for seen in &round.observations {
                self.say(&describe(seen));
                self.seen.push(*seen);
            }
            self.rounds.push(round);
        }
    }

    /// Signs the result of the search, and stores it in the store at a URI.
    pub(super) fn sign(&mut self, end: &Step, store_uri: &str) -> Result<(), Failure> {
        let password = key_password();
        let keys = LocalKeys::new(&Config::find()?).unlock(&[Role::Source], password.as_encoded_bytes())?;
        let ended = EndedSearch { rule: self.rule, rounds: &self.rounds, end, at: Clock.now() };
        let result = sign_search_result(&Store::open(store_uri)?, &keys, &ended)?.manifest;
        self.result = Some(result);
        if matches!(end, Step::Swept(_) | Step::Found(_)) && !self.has_no_success() {
            let name = shell_word(&result.to_string());
            self.say(&format!("`assay show {name}{}` prints the loads for a workload file", store_option(store_uri)));
        }
        Ok(())
    }

    /// Returns the line that names the signed result; `None` before the search has ended.
    pub(crate) fn line(&self) -> Option<String> {
        self.result.map(|result| format!("search    {result}"))
    }

    fn runs(&self) -> Vec<&RunId> {
        self.rounds.iter().map(|round| &round.run_id).collect()
    }

    /// Returns true if no request succeeded at any load.
    fn has_no_success(&self) -> bool {
        self.seen.iter().all(has_failed_wholly)
    }

    /// Returns the reason if a sweep ended before more load brought hardly more throughput.
    fn no_limit(&self) -> Option<String> {
        let failing = self.seen.iter().find(|seen| seen.error_rate > MAX_ERROR_RATE);
        match failing {
            Some(seen) => Some(format!("failed requests end the search: {}", describe(seen))),
            None if landmarks(&self.seen).is_some() => None,
            None if self.seen.len() < MIN_LANDMARK_LOADS => Some(format!(
                "no limit is known: it takes {MIN_LANDMARK_LOADS} loads to find one, and a larger {} tries more",
                self.limit
            )),
            None => Some(format!(
                "no limit was reached: the last load still brought more throughput, and a larger {} tries more",
                self.limit
            )),
        }
    }

    /// Returns the loads to measure after the last step, or the reason why there are none.
    pub(super) fn end(&self, end: Step) -> End {
        let slos = "99 of 100 requests within every SLO";
        match end {
            Step::Swept(_) if self.has_no_success() => {
                End::Nothing("no request succeeded at any load, so there is nothing to measure".to_owned())
            }
            Step::Swept(clients) => {
                if let Some(why) = self.no_limit() {
                    self.say(&why);
                }
                End::Measure(clients.into_iter().map(Load::Concurrency).collect())
            }
            Step::Found(bracket) => {
                self.say(&describe_bracket(&bracket));
                End::Measure(bracket.grid())
            }
            Step::NoneMet(load) => End::Nothing(format!(
                "no most load with {slos}: {} already falls short, and a higher load does not count as better{}",
                name(load),
                self.contradiction(load)
            )),
            Step::AllMet(load) => {
                End::Nothing(format!("every {} that was tried has {slos}, up to {}; {}", kind(load), number(load), self.bound()))
            }
            Step::Observe(_) | Step::Unsettled => End::Nothing(format!(
                "{} loads were tried, and they contradict each other: use a longer `--duration`",
                self.seen.len()
            )),
        }
    }

    /// Returns the reason why no higher load was tried, and what to do about it.
    fn bound(&self) -> String {
        if self.rule.goal != Goal::MaxRate {
            return format!("a larger {} tries more", self.limit);
        }
        let far = "higher ones are more than four times what the closed loop reached";
        match closed_loop_end(&self.rule, &self.seen) {
            ClosedLoopEnd::FellShort(load) => {
                format!("{} falls short, which contradicts these rates: use a longer `--duration`", name(load))
            }
            ClosedLoopEnd::Saturated([before, last]) => {
                format!("{far}, whose throughput hardly rose from {} to {}: use a longer `--duration`", name(before), name(last))
            }
            ClosedLoopEnd::Most => format!("{far}, and a larger {} allows a larger loop", self.limit),
        }
    }

    /// Returns what a reader has to know of a load that falls short although a higher one does not; nothing if there is none.
    fn contradiction(&self, lowest: Load) -> String {
        let meets = |seen: &&Observation| seen.good_fraction.is_some_and(|good| good >= self.rule.share);
        let better = self.seen.iter().filter(meets).map(|seen| seen.load).find(|load| load.amount() > lowest.amount());
        better.map_or_else(String::new, |better| {
            format!(
                "; yet {} has them, so the endpoint may not have recovered from another load before it: look at the endpoint, and search again",
                name(better)
            )
        })
    }

    /// Returns what the search is for.
    pub(super) fn rule(&self) -> Rule {
        self.rule
    }

    /// Returns the slowest of loads to measure, by what was observed: see [`slowest`].
    pub(super) fn slowest(&self, loads: &[Load]) -> Option<(Load, f64)> {
        slowest(&self.rule, &self.seen, loads)
    }

    /// Tells that the trials last longer than they do by default.
    pub(super) fn say_longer(&self, load: Load, needed_s: u64) {
        self.say(&format!("each trial lasts {needed_s} s, so that {} has the {MIN_REQUESTS} requests that it needs", name(load)));
    }

    /// Returns the reason if the measured run leaves the question open.
    pub(crate) fn why_open(&self, summary: &Summary) -> Option<String> {
        if self.rule.goal == Goal::Sweep {
            return None;
        }
        let why = match all_loads(summary) {
            Some(loads) if loads.max_load().is_some() => return None,
            Some(AllLoads { bracket: Some(LoadBracket { meets, falls_short }), .. }) => {
                format!("the SLOs are met at {meets} and not at {falls_short}, which are too far from each other")
            }
            Some(loads) if !loads.crossings.is_empty() => {
                let [below, above] = censored(loads);
                format!(
                    "trials have to cross from loads that meet the SLOs to loads that do not, and {below} fell short at every load, {above} at none"
                )
            }
            _ => format!("no trial counts at every load with at least {MIN_REQUESTS} requests"),
        };
        Some(format!("no most load within the SLOs: {why}; use a longer `--duration`, or more loads around these"))
    }

    /// Returns the search and what the measured run says, for programs.
    pub(crate) fn json(&self, run_id: &RunId, summary: &Summary) -> Value {
        let found = all_loads(summary)
            .filter(|_| self.rule.goal != Goal::Sweep)
            .map_or(Value::Null, |loads| max_load_json(run_id, loads));
        let landmarks = landmarks_of(&summary.points.iter().collect::<Vec<_>>()).filter(|_| self.rule.goal == Goal::Sweep);
        json!({
            "goal": match self.rule.goal {
                Goal::Sweep => "sweep",
                Goal::MaxRate => "max_rate",
                Goal::MaxConcurrency => "max_concurrency",
            },
            "slo_share": self.rule.share,
            "result": self.result,
            "runs": self.runs(),
            "observed": self.seen.iter().map(observation_json).collect::<Vec<_>>(),
            "max_load": found,
            "landmarks": landmarks.map(|found| json!({
                "idle": observation_json(&found.idle),
                "knee": observation_json(&found.knee),
                "limit": observation_json(&found.limit),
            })),
        })
    }
}

/// Returns what all loads of a run of one case say together.
fn all_loads(summary: &Summary) -> Option<&AllLoads> {
    summary.all_loads.first()
}

/// Returns the numbers of trials that fell short at every load, and at none.
fn censored(loads: &AllLoads) -> [u32; 2] {
    [CrossingPlace::Below, CrossingPlace::AtLeast].map(|place| loads.count(place))
}

/// Returns the most load within the SLOs as JSON, with the address of its median.
fn max_load_json(run_id: &RunId, loads: &AllLoads) -> Value {
    let number = |found: &MetricSummary| {
        json!({
            "median": found.median,
            "interval": found.interval.as_ref().map(|interval| [interval.low, interval.high]),
            "n": found.n.0,
            "address": found.rows.get("median").map(|row| Address::for_value(run_id, row).to_string()),
        })
    };
    match (loads.max_load(), loads.bracket) {
        (Some(found), _) => number(found),
        (None, Some(LoadBracket { meets, falls_short })) => json!({"between": [meets, falls_short]}),
        (None, None) if loads.crossings.is_empty() => Value::Null,
        (None, None) => {
            let [below, above] = censored(loads);
            json!({"inconclusive": {"below": below, "above": above}})
        }
    }
}

impl Bench {
    /// Sets these loads instead of a search: one trial of each for a round, which has a seed of its own.
    pub(super) fn set_loads(&mut self, loads: &[Load], round: Option<Round<'_>>) {
        let closed = |load: &Load| match load {
            Load::Concurrency(clients) => Some(Doublings(vec![u64::from(*clients)])),
            Load::Rate(_) => None,
        };
        let rate = |load: &Load| match load {
            Load::Rate(rate) => Some(*rate),
            Load::Concurrency(_) => None,
        };
        self.concurrency = loads.iter().filter_map(closed).collect();
        self.rate = loads.iter().filter_map(rate).collect();
        self.is_search_round = round.is_some();
        self.over_saturation = round.and_then(|round| self.hopeless_queue(round.seen));
        if let Some(round) = round {
            self.trials = 1;
            self.seed = Some(format!("{:064x}", round.number + 1));
        }
    }

    /// Returns the queue at which a round of rates ends early. All of its rates share one, that of the highest.
    fn hopeless_queue(&self, seen: &[Observation]) -> Option<Value> {
        let highest = self.rate.iter().copied().reduce(f64::max)?;
        let allowed = AllowedLatencies { e2e_s: self.slo_s(SloMetric::E2e), ttft_s: self.slo_s(SloMetric::Ttft) };
        let stated = self.duration.as_deref().and_then(|text| parse_duration(text).ok());
        let default = || (self.duration.is_none() && self.requests.is_none()).then_some(DEFAULT_DURATION);
        let by_clock = stated.or_else(default).map(|time| time.as_secs_f64());
        let by_count = self.requests.map(|requests| requests as f64 / highest);
        let duration_s = by_clock.into_iter().chain(by_count).reduce(f64::min)?;
        let queue = Queue::hopeless(highest, allowed, seen, duration_s)?;
        Some(json!({"in_flight": queue.in_flight, "for": format!("{}ms", (queue.held_s * 1e3).ceil())}))
    }

    /// Returns the limit of an SLO in seconds; `None` if there is none, or none that can be read, which is reported elsewhere.
    fn slo_s(&self, metric: SloMetric) -> Option<f64> {
        let pair =
            |text: &String| text.split_once('=').filter(|(name, _)| *name == metric.as_str()).map(|(_, limit)| limit.to_owned());
        let limit = self.slo.iter().find_map(pair)?;
        parse_latency(&limit).ok().map(|ns| ns as f64 / 1e9)
    }
}

/// A round of a search.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    /// Its number, from 0.
    pub(super) number: usize,
    /// The observations before it.
    pub(super) seen: &'a [Observation],
}

/// Reads a round: what the only trial of its run observed at each load.
fn read_round(run: &VerifiedRun, loads: &[Load]) -> Result<ObservedRound, Failure> {
    let summary = run.chain.one::<Summary>().map(|summary| &summary.body);
    if let Some(load) = loads.iter().find(|load| summary.is_some_and(|summary| observe(summary, **load, false).is_none())) {
        return Err(no_observation(run, summary, *load));
    }
    ObservedRound::read(run, loads)
}

/// Returns the failure of a load of which no trial counts, although the endpoint is not the reason.
fn no_observation(run: &VerifiedRun, summary: Option<&Summary>, load: Load) -> Failure {
    let point = summary.into_iter().flat_map(|summary| &summary.points).find(|point| load_of(point) == Some(load));
    let causes = point.and_then(|point| assay_report::commonest_reason(&[point])).into_iter().collect();
    let failure = Failure::new(ErrorCode::NoValidTrial, format!("the search has no valid trial at {}", name(load)));
    let narrower = point.filter(|point| is_client_at_its_limit(point)).and_then(|_| narrower_search(load)).unwrap_or_default();
    let repair = format!("`assay show {}` lists the reasons; repair the cause, then search again", run.chain.run_id);
    Failure { causes, ..failure }.hint(narrower + &repair)
}

/// Returns true if the client or its machine is the reason against each attempt of a point: they may not be able to offer its load.
fn is_client_at_its_limit(point: &PointSummary) -> bool {
    let is_own = |code: &str| ValidityLimits::CLIENT_CODES.contains(&code) || ValidityLimits::MACHINE_CODES.contains(&code);
    !point.excluded.is_empty()
        && point.excluded.iter().all(|exclusion| exclusion.reasons.iter().any(|reason| is_own(&reason.code)))
}

/// Returns the line of a hint with a search that stays below a number of requests in flight; `None` for a rate, or for the lowest load.
fn narrower_search(load: Load) -> Option<String> {
    match load {
        Load::Concurrency(clients) if clients > 1 => {
            Some(format!("this client may be at its limit: `--up-to {}` searches below it\n", clients / 2))
        }
        Load::Concurrency(_) | Load::Rate(_) => None,
    }
}

/// Returns the curve so far, throughput against latency, a line for each load: the one above the panel of a round. Empty before the first round.
pub(super) fn curve_lines(seen: &[Observation]) -> Vec<String> {
    let curve = curve(seen);
    let most = curve.iter().map(|seen| seen.requests_per_s).fold(0.0, f64::max);
    let left_out = curve.len().saturating_sub(MAX_CURVE);
    let line = |seen: &Observation| {
        let width = (seen.requests_per_s / most.max(f64::MIN_POSITIVE) * CURVE_WIDTH as f64).round() as usize;
        let numbers = if seen.over_saturated {
            "over-saturated".to_owned()
        } else if has_failed_wholly(seen) {
            "every request failed".to_owned()
        } else {
            let good = seen.good_fraction.map(|share| format!("  {:>5.1} % within the SLOs", share * 100.0)).unwrap_or_default();
            format!("{:>7} req/s  E2E {:>6} ms{good}", digits(seen.requests_per_s), digits(seen.mean_latency_s * 1e3))
        };
        format!("  {:<18} {:<CURVE_WIDTH$} {numbers}", name(seen.load), "▇".repeat(width.min(CURVE_WIDTH)))
    };
    let head = (!curve.is_empty()).then(|| format!("the curve so far, {}", assay_report::counted(curve.len() as u64, "load")));
    head.into_iter().chain(curve.iter().skip(left_out).map(line)).collect()
}

/// Returns true if no request succeeded: there is neither a throughput nor a latency then.
fn has_failed_wholly(seen: &Observation) -> bool {
    seen.error_rate >= 1.0
}

/// Describes an observation in one line.
fn describe(seen: &Observation) -> String {
    if seen.over_saturated {
        return format!("{}: over-saturated, so the trial was ended early, and the load falls short", name(seen.load));
    }
    if has_failed_wholly(seen) {
        return format!("{}: every request failed", name(seen.load));
    }
    let good = seen.good_fraction.map(|share| format!(", {:.1} % within the SLOs", share * 100.0)).unwrap_or_default();
    let failed = if seen.error_rate > 0.0 { format!(", {:.1} % failed", seen.error_rate * 100.0) } else { String::new() };
    let little = seen.deviation_from_littles_law().filter(|deviation| deviation.abs() > MAX_LITTLE && seen.error_rate == 0.0);
    let little = little.map(|_| format!(" (by Little's law, {} were in flight)", digits(seen.in_flight())));
    format!(
        "{}: {} requests/s, mean E2E {} ms{good}{failed}{}",
        name(seen.load),
        digits(seen.requests_per_s),
        digits(seen.mean_latency_s * 1e3),
        little.unwrap_or_default()
    )
}

fn describe_bracket(bracket: &Bracket) -> String {
    let grid: Vec<String> = bracket.grid().into_iter().map(number).collect();
    format!(
        "the SLOs are met at {} and not at {}; measuring {}",
        name(bracket.meets),
        number(bracket.falls_short),
        grid.join(", ")
    )
}

fn name(load: Load) -> String {
    format!("{} {}", kind(load), number(load))
}

fn kind(load: Load) -> &'static str {
    match load {
        Load::Concurrency(_) => "concurrency",
        Load::Rate(_) => "rate",
    }
}

fn number(load: Load) -> String {
    match load {
        Load::Concurrency(clients) => clients.to_string(),
        Load::Rate(rate) => rate.to_string(),
    }
}

/// Writes a number with three significant digits.
fn digits(number: f64) -> String {
    let places = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.places$}")
}

/// Returns the option that asks for these loads.
pub(super) fn as_option(loads: &[Load]) -> String {
    let option = if matches!(loads, [Load::Rate(_), ..]) { "--rate" } else { "--concurrency" };
    format!("{option} {}", loads.iter().copied().map(number).collect::<Vec<_>>().join(","))
}

fn observation_json(seen: &Observation) -> Value {
    let load = match seen.load {
        Load::Concurrency(clients) => json!({"concurrency": clients}),
        Load::Rate(rate) => json!({"rate": rate}),
    };
    json!({
        "load": load,
        "requests": seen.requests,
        "error_rate": seen.error_rate,
        "requests_per_s": seen.requests_per_s,
        "mean_e2e_ms": (!has_failed_wholly(seen) && !seen.over_saturated).then_some(seen.mean_latency_s * 1e3),
        "good_fraction": seen.good_fraction,
        "over_saturated": seen.over_saturated,
    })
}

/// The exit of a search that found nothing: a result, but not one to build on.
pub(super) fn nothing_found(why: &str, search: &Search) -> Result<Exit, Failure> {
    if search.is_json {
        output::json(&json!({
            "search": {"result": search.result, "runs": search.runs(), "observed": search.seen.iter().map(observation_json).collect::<Vec<_>>(), "found": Value::Null, "why": why},
        }))?;
    } else {
        output::line(why);
        search.line().iter().for_each(output::line);
    }
    Ok(Exit::Inconclusive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(load: Load, requests_per_s: f64, mean_latency_s: f64) -> Observation {
        Observation {
            load,
            requests: 100,
            error_rate: 0.0,
            requests_per_s,
            mean_latency_s,
            good_fraction: None,
            over_saturated: false,
        }
    }

    fn search(goal: Goal) -> Search {
        Search::new(Rule::new(goal), "`--up-to`", false)
    }

    /// Returns the Summary of a closed loop whose trials cross at these places, and whose loads are too far from each other if a bracket is given.
    fn summary(crossings: &[(&str, f64)], bracket: Option<[f64; 2]>) -> Summary {
        let digest = assay_manifest::Digest::compute(b"any");
        let trials: Vec<Value> = (0..)
            .zip(crossings)
            .map(|(index, (place, load)): (u32, _)| json!({"index": index, "place": place, "load": load}))
            .collect();
        let is_known = bracket.is_none() && crossings.iter().all(|(place, _)| *place == "within");
        let metric = crossings.first().filter(|_| is_known).map(|(_, load)| {
            json!({
                "metric": "max_load", "unit": "requests", "better": "higher", "primary": false, "n": crossings.len().to_string(), "median": load,
                "mean": load, "min": load, "max": load, "stability": "unknown", "stability_reason": "a test", "rows": {"median": digest},
                "trials": [],
            })
        });
        let mut loads = json!({
            "case_id": "bench.endpoint.default", "point_id": "all-loads", "workload_spec_digest": digest, "load": "concurrency", "unit": "requests",
            "crossings": trials, "metrics": metric.into_iter().collect::<Vec<_>>(),
        });
        if let Some([meets, falls_short]) = bracket {
            loads["bracket"] = json!({"meets": meets, "falls_short": falls_short});
        }
        serde_json::from_value(json!({
            "plan_digest": digest, "artifact_manifest_digest": digest, "reduce_binary": digest, "status": "succeeded", "issues": [],
            "points": [], "all_loads": [loads], "files": [],
        }))
        .expect("a Summary")
    }

    #[test]
    fn a_search_that_the_client_ends_is_narrower_next_time() {
        let hint = "this client may be at its limit: `--up-to 32` searches below it\n";
        assert_eq!(narrower_search(Load::Concurrency(64)).as_deref(), Some(hint));
        assert_eq!([Load::Concurrency(1), Load::Rate(9.0)].map(narrower_search), [None, None]);
        let point = |reasons: &[&str]| -> PointSummary {
            let excluded: Vec<Value> = reasons
                .iter()
                .map(|code| json!({"trial_id": "w.t.v.p.t0", "attempt": 0, "reasons": [{"code": code, "detail": "d"}]}))
                .collect();
            serde_json::from_value(json!({
                "case_id": "w.t.v", "point_id": "p", "workload_type": "serving", "value": {},
                "workload_spec_digest": assay_manifest::Digest::compute(b"any"), "trials_planned": 1, "trials_counted": 0,
                "attempts": 2, "excluded": excluded, "metrics": [],
            }))
            .expect("a point")
        };
        assert!(is_client_at_its_limit(&point(&["client_late", "cpu_throttled"])));
        assert!(!is_client_at_its_limit(&point(&["client_late", "all_failed"])), "the endpoint may be the cause");
        assert!(!is_client_at_its_limit(&point(&[])));
    }

    #[test]
    fn the_curve_stands_above_a_round() {
        assert_eq!(curve_lines(&[]), [""; 0]);
        let good = |load, rate| Observation { good_fraction: Some(0.995), ..at(load, rate, 0.25) };
        let early = Observation { over_saturated: true, good_fraction: Some(0.0), ..at(Load::Rate(40.0), 0.0, 0.0) };
        let seen = [good(Load::Rate(20.0), 20.0), early, good(Load::Concurrency(2), 10.0)];
        let lines = [
            "the curve so far, 3 loads",
            "  concurrency 2      ▇▇▇▇▇▇▇▇            10.0 req/s  E2E    250 ms   99.5 % within the SLOs",
            "  rate 20            ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇    20.0 req/s  E2E    250 ms   99.5 % within the SLOs",
            "  rate 40                             over-saturated",
        ];
        assert_eq!(curve_lines(&seen), lines);
        let many: Vec<Observation> = (1..40).map(|clients| at(Load::Concurrency(clients), 1.0, 1.0)).collect();
        let lines = curve_lines(&many);
        assert_eq!((lines.len(), lines[0].as_str()), (1 + MAX_CURVE, "the curve so far, 39 loads"));
        assert!(lines[16].contains("concurrency 39"), "the highest stay");
    }

    #[test]
    fn a_search_without_a_result_says_why_and_one_with_a_result_does_not() {
        let search = search(Goal::MaxConcurrency);
        let why = |crossings: &[(&str, f64)], bracket| search.why_open(&summary(crossings, bracket)).unwrap_or_default();
        let [within, below, above] = [("within", 4.0), ("below", 4.0), ("at_least", 5.0)];
        assert_eq!(why(&[within], None), "");
        assert!(why(&[], None).contains("no trial counts at every load with at least 100 requests"));
        assert!(why(&[below], None).contains("1 fell short at every load, 0 at none"));
        assert!(why(&[above, within], None).contains("0 fell short at every load, 1 at none"));
        assert!(why(&[within], Some([4.0, 50.0])).contains("met at 4 and not at 50"));
        assert_eq!(Search::new(Rule::new(Goal::Sweep), "`--up-to`", false).why_open(&summary(&[above], None)), None);
    }

    #[test]
    fn programs_read_the_number_of_the_summary_with_its_address() {
        let run_id: RunId = "bench-1".parse().expect("a run id");
        let found = |goal: Goal, crossings: &[(&str, f64)], bracket| {
            search(goal).json(&run_id, &summary(crossings, bracket))["max_load"].clone()
        };
        let number = found(Goal::MaxConcurrency, &[("within", 4.0)], None);
        assert_eq!((&number["median"], &number["n"]), (&json!(4.0), &json!(1)));
        assert!(number["address"].as_str().is_some_and(|address| address.starts_with("bench-1/outcome_fact/")), "{number}");
        assert_eq!(found(Goal::MaxConcurrency, &[("within", 4.0)], Some([4.0, 50.0])), json!({"between": [4.0, 50.0]}));
        let censored = json!({"inconclusive": {"below": 1, "above": 0}});
        assert_eq!(found(Goal::MaxConcurrency, &[("below", 4.0), ("within", 4.0)], None), censored);
        assert_eq!(found(Goal::MaxConcurrency, &[], None), Value::Null);
        assert_eq!(found(Goal::Sweep, &[("within", 4.0)], None), Value::Null);
    }

    #[test]
    fn littles_law_is_remarked_on_only_where_it_does_not_hold() {
        let told = |requests_per_s: f64, mean_latency_s: f64| describe(&at(Load::Concurrency(8), requests_per_s, mean_latency_s));
        assert_eq!(told(16.0, 0.5), "concurrency 8: 16.0 requests/s, mean E2E 500 ms");
        assert_eq!(told(10.0, 0.5), "concurrency 8: 10.0 requests/s, mean E2E 500 ms (by Little's law, 5.00 were in flight)");
        let rate = Observation { error_rate: 0.25, good_fraction: Some(0.5), ..at(Load::Rate(0.5), 0.25, 2.0) };
        assert_eq!(describe(&rate), "rate 0.5: 0.250 requests/s, mean E2E 2000 ms, 50.0 % within the SLOs, 25.0 % failed");
    }

    #[test]
    fn a_load_at_which_every_request_failed_has_no_numbers() {
        let failed = |good_fraction| Observation { error_rate: 1.0, good_fraction, ..at(Load::Concurrency(8), 0.0, 0.0) };
        for good_fraction in [None, Some(0.0)] {
            assert_eq!(describe(&failed(good_fraction)), "concurrency 8: every request failed");
            assert!(
                curve_lines(&[failed(good_fraction)])
                    .ends_with(&[format!("  {:<18} {:<16} every request failed", "concurrency 8", "")])
            );
        }
    }

    #[test]
    fn a_search_names_its_result_once_it_is_signed() {
        let digest = Digest::compute(b"");
        let signed = Search { result: Some(digest), ..search(Goal::Sweep) };
        assert_eq!(signed.line(), Some(format!("search    {digest}")));
        assert_eq!(search(Goal::Sweep).line(), None);
    }

    #[test]
    fn a_sweep_says_why_it_names_no_limit() {
        let why = |seen: &[Observation]| {
            let search = Search { seen: seen.to_vec(), ..search(Goal::Sweep) };
            search.no_limit()
        };
        let [one, two, four] = [1, 2, 4].map(|clients| at(Load::Concurrency(clients), f64::from(clients), 1.0));
        assert!(why(&[one, two, four]).is_some_and(|why| why.contains("a larger `--up-to` tries more")));
        let too_few = why(&[one, two]).expect("a reason");
        assert_eq!(too_few, "no limit is known: it takes 3 loads to find one, and a larger `--up-to` tries more");
        let saturated = Observation { requests_per_s: 2.0, mean_latency_s: 2.0, ..four };
        assert_eq!(why(&[one, two, saturated]), None);
        let failing = Observation { error_rate: 0.98, ..four };
        let text = why(&[one, two, failing]).expect("a reason");
        assert!(text.starts_with("failed requests end the search: concurrency 4:") && !text.contains("--up-to"), "{text}");
    }

    #[test]
    fn trials_last_until_the_slowest_load_has_enough_requests() {
        let slowest = |goal: Goal, seen: &[Observation], loads: &[Load]| {
            let slowest = Search { seen: seen.to_vec(), ..search(goal) }.slowest(loads);
            slowest.map(|(load, per_s)| (load.amount(), per_s))
        };
        assert_eq!(slowest(Goal::MaxRate, &[], &[Load::Rate(12.1), Load::Rate(24.3)]), Some((12.1, 12.1)));
        assert_eq!(slowest(Goal::Sweep, &[], &[Load::Rate(0.5)]), None);
        let [one, four] = [(1, 2.0), (4, 5.0)].map(|(clients, rate)| at(Load::Concurrency(clients), rate, 0.5));
        let loads = [2, 3, 4].map(Load::Concurrency);
        let found = slowest(Goal::MaxConcurrency, &[four, one], &loads);
        assert_eq!(found, Some((2.0, 3.0)), "two requests in flight are a third of the way from one to four");
        assert_eq!(
            slowest(Goal::MaxConcurrency, &[four, one], &[Load::Concurrency(9)]),
            Some((9.0, 5.0)),
            "no fewer than what four brought"
        );
        let stuck = Observation { good_fraction: Some(0.3), ..at(Load::Concurrency(3), 0.1, 5.0) };
        let found = slowest(Goal::MaxConcurrency, &[one, stuck], &loads);
        assert_eq!(found.map(|(load, _)| load), Some(2.0), "three and more fall short in any time");
        assert_eq!(slowest(Goal::MaxConcurrency, &[], &loads), None);
        assert_eq!([12.1, 0.5].map(needed_duration_s), [11, 260]);
        let is_short = |text: &str| is_too_short(10.0, parse_duration(text).expect("a duration"));
        assert!(is_short("9s900ms") && !is_short("10s"));
        let why = too_short(Load::Rate(12.1), "1s", 12.1);
        assert!(why.contains("rate 12.1 needs at least 100 requests") && why.contains("`--duration 11s`"), "{why}");
    }

    #[test]
    fn a_round_lasts_as_long_as_the_measurement_will() {
        let seen = [(4, 10.0), (8, 12.0)].map(|(clients, rate)| at(Load::Concurrency(clients), rate, 0.5));
        let lasts = |goal: Goal, loads: &[Load]| round_duration_s(&Rule::new(goal), &seen, loads);
        assert_eq!(lasts(Goal::MaxRate, &[Load::Rate(6.5), Load::Rate(26.0)]), Some(20));
        assert_eq!(lasts(Goal::MaxRate, &[Load::Rate(13.0)]), None, "the default is long enough");
        assert_eq!(lasts(Goal::MaxRate, &[Load::Rate(0.1)]), Some(60), "the measurement decides");
        assert_eq!(lasts(Goal::MaxConcurrency, &[Load::Concurrency(6)]), Some(12));
        assert_eq!(lasts(Goal::MaxConcurrency, &[Load::Concurrency(1)]), None, "nothing is known of it");
        assert_eq!(lasts(Goal::Sweep, &[Load::Concurrency(6)]), None);
    }

    #[test]
    fn a_sweep_without_any_success_measures_nothing() {
        let failed = Observation { error_rate: 1.0, ..at(Load::Concurrency(1), 0.0, 0.0) };
        let end = |seen: &[Observation]| {
            let loads = seen.iter().map(|seen| seen.load.amount() as u32).collect();
            Search { seen: seen.to_vec(), ..search(Goal::Sweep) }.end(Step::Swept(loads))
        };
        assert!(matches!(end(&[failed]), End::Nothing(why) if why.starts_with("no request succeeded at any load")));
        let served = at(Load::Concurrency(1), 5.0, 0.2);
        assert!(
            matches!(end(&[served, Observation { load: Load::Concurrency(2), ..failed }]), End::Measure(loads) if loads.len() == 2)
        );
    }

    #[test]
    fn a_search_that_found_nothing_says_where_it_ended() {
        let why = |end: Step, goal: Goal| match search(goal).end(end) {
            End::Nothing(why) => why,
            End::Measure(loads) => panic!("{loads:?}"),
        };
        let none = why(Step::NoneMet(Load::Rate(0.5)), Goal::MaxRate);
        assert_eq!(
            none,
            "no most load with 99 of 100 requests within every SLO: rate 0.5 already falls short, and a higher load does not count as better"
        );
        let stuck = [(1, 0.0), (2, 1.0), (4, 0.0)]
            .map(|(clients, good)| Observation { good_fraction: Some(good), ..at(Load::Concurrency(clients), 1.0, 1.0) });
        let search_of_stuck = Search { seen: stuck.to_vec(), ..search(Goal::MaxConcurrency) };
        let End::Nothing(text) = search_of_stuck.end(Step::NoneMet(Load::Concurrency(1))) else { panic!("loads") };
        assert!(
            text.starts_with(&none.replace("rate 0.5", "concurrency 1")) && text.contains("; yet concurrency 2 has them"),
            "{text}"
        );
        let all = why(Step::AllMet(Load::Concurrency(64)), Goal::MaxConcurrency);
        let slos = "has 99 of 100 requests within every SLO";
        assert_eq!(all, format!("every concurrency that was tried {slos}, up to 64; a larger `--up-to` tries more"));
        let all = why(Step::AllMet(Load::Rate(64.0)), Goal::MaxRate);
        let far = "higher ones are more than four times what the closed loop reached";
        let begin = format!("every rate that was tried {slos}, up to 64");
        assert_eq!(all, format!("{begin}; {far}, and a larger `--up-to` allows a larger loop"));
        let of_loop = |seen: &[Observation]| {
            let search = Search { seen: seen.to_vec(), ..search(Goal::MaxRate) };
            let End::Nothing(why) = search.end(Step::AllMet(Load::Rate(64.0))) else { panic!("loads") };
            why
        };
        let seen =
            |clients: u32, rate, good| Observation { good_fraction: Some(good), ..at(Load::Concurrency(clients), rate, 1.0) };
        assert_eq!(
            of_loop(&[seen(4, 4.0, 1.0), seen(8, 8.0, 0.5)]),
            format!("{begin}; concurrency 8 falls short, which contradicts these rates: use a longer `--duration`")
        );
        assert_eq!(
            of_loop(&[seen(4, 4.0, 1.0), seen(8, 4.1, 1.0)]),
            format!(
                "{begin}; {far}, whose throughput hardly rose from concurrency 4 to concurrency 8: use a longer `--duration`"
            )
        );
        assert!(why(Step::Unsettled, Goal::MaxRate).contains("they contradict each other"));
    }
}
