//! Predicts measurements: the model serves a load in virtual time, and a perfect client measures it.
//!
//! The definitions are those of every other number: the formulas of `assay-metric` and the quantiles of `assay-stats`. Nothing
//! here reads a clock, so equal settings give equal bytes on every machine.

use assay_metric::{Estimator, Formula, Gap, Metric, RequestFields, SHARE_BITS, Statistic, Totals, TrialTotals, Use, since_ns};
use assay_record::Record;
use assay_stats::{quantile, quantiles_ns};
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::config::Config;
use crate::draw::{Concern, RequestKey, Seed};
use crate::engine::{Engine, TooManyStalls};
use crate::fault::Fault;
use crate::model::Model;
use crate::settings::{SettingsError, out_of_range, within};
use crate::simulation::{LaterTurn, Load, SimulatedRequest, SimulatedTurn, Simulation, simulate};

/// The maximum requests of a load; each is held until its turn.
const MAX_REQUESTS: u32 = 1_000_000;

/// The maximum tokens of all responses together: each is a sample of 8 bytes until the end.
const MAX_OUTPUT_TOKENS: u32 = 20_000_000;

/// The maximum blocks of the prompts of all sessions at a time, each of 8 bytes.
const MAX_SESSION_BLOCKS: u64 = 20_000_000;

/// The maximum turns of a session, as workloads have it (the simulator links no manifests), and the maximum pause between them: an hour.
const MAX_TURNS: u32 = 1_000;
const MAX_THINK_TIME_MS: f64 = 3_600_000.0;

/// The minimum and maximum request rate, per second: one in three hours, one every 100 ns. Those of Assay's own schedules.
const RATE_PER_S: (f64, f64) = (1e-4, 1e7);

/// 1 over the golden ratio.
const INVERSE_GOLDEN_RATIO: f64 = 0.618_033_988_749_894_9;

/// Up to here, 104 days, a double represents every nanosecond.
const MAX_NS: i64 = 1 << 53;

/// The load to simulate.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub(crate) struct LoadArgs {
    /// Closed loop: requests in flight; each response is followed at once by the next request
    #[arg(long, value_name = "N", required_unless_present = "rate", conflicts_with = "rate", help_heading = "Load")]
    concurrency: Option<u32>,
    /// Open loop: requests per second on average, with random arrivals (Poisson). With --users, their turns per second, with equal gaps
    #[arg(long, value_name = "PER_S", help_heading = "Load")]
    rate: Option<f64>,
    /// Users who play sessions of --turns one after the other: each sends a turn every N / rate seconds, or, if a response takes longer, as
    /// soon as it has ended. They begin in the midst of their first sessions
    #[arg(long, value_name = "N", requires_all = ["rate", "turns"], conflicts_with = "think_time_ms", help_heading = "Load")]
    users: Option<u32>,
    /// Total requests
    #[arg(long, value_name = "N", help_heading = "Load")]
    requests: u32,
    /// Tokens per prompt; no two prompts share a prefix. With --turns, the tokens that each turn adds
    #[arg(long, value_name = "TOKENS", default_value_t = 128, help_heading = "Load")]
    isl: u32,
    /// Tokens per response
    #[arg(long, value_name = "TOKENS", default_value_t = 128, help_heading = "Load")]
    osl: u32,
    /// Sessions of so many turns, each of which sends all that was said before; as many sessions at a time as --concurrency or --users
    #[arg(long, value_name = "N", help_heading = "Load")]
    turns: Option<u32>,
    /// Time from the end of a response to the next turn of its session [default: 0]
    #[arg(long, value_name = "MS", requires = "turns", help_heading = "Load")]
    think_time_ms: Option<f64>,
}

/// The reason why a load cannot be predicted.
#[derive(Debug, Error)]
pub(crate) enum PredictError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Stalls(#[from] TooManyStalls),
    #[error("the load would take more than 104 days; ask for fewer requests, or for shorter times")]
    TooLong,
}

/// A prediction in the form of an indicator's output, so that a workload can run it as one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Prediction {
    name: &'static str,
    component: &'static str,
    #[serde(rename = "@parameters")]
    parameters: Parameters,
    #[serde(rename = "@result")]
    result: PredictedMetrics,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Parameters {
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    users: Option<u32>,
    requests: u32,
    isl: u32,
    osl: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think_time_ms: Option<f64>,
    seed: String,
}

/// Metrics by name, in the order in which they are printed. A metric that cannot be computed is absent.
#[derive(Clone, Debug, PartialEq)]
struct PredictedMetrics(Vec<(&'static str, Option<f64>)>);

impl PredictedMetrics {
    fn has(&self, metric: &str) -> bool {
        self.0.iter().any(|(name, value)| *name == metric && value.is_some())
    }
}

impl Serialize for PredictedMetrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter_map(|(name, value)| Some((name, (*value)?))))
    }
}

impl Prediction {
    /// Returns the absent metrics with the reasons, for people.
    pub(crate) fn remarks(&self) -> Vec<&'static str> {
        let has_latency = self.result.has("ttft_ms_p50");
        let remarks = [
            (!has_latency, "latencies are missing: no request succeeded"),
            (
                has_latency && !self.result.has("tpot_ms_p50"),
                "TPOT, TTST, ITL and ICL are missing: responses of one chunk have none",
            ),
            (!self.result.has("request_throughput_per_s"), "throughput is missing: no time passed"),
        ];
        remarks.into_iter().filter(|(holds, _)| *holds).map(|(_, remark)| remark).collect()
    }
}

/// Serves the load in virtual time, from the start of the endpoint on.
pub(crate) fn predict(config: &Config, args: &LoadArgs) -> Result<Prediction, PredictError> {
    check(config, args)?;
    if args.users.is_some() && f64::from(args.requests) * 1e9 / args.rate.unwrap_or(f64::NAN) > MAX_NS as f64 {
        return Err(PredictError::TooLong);
    }
    let mut engine = Engine::new(config.engine.model(&config.seed));
    config.stalls.iter().try_for_each(|stall| engine.stall(*stall))?;
    if let Some(turns) = args.turns {
        let mut seen = LoadSamples::new();
        if let Some(clients) = args.concurrency {
            let load = Load::Closed { clients, requests: sessions(config, args, turns) };
            seen.add_all(simulate(engine, config.seed, load));
        } else {
            let load = Load::Open(users(config, args, &UserGrid::new(config, args, turns)));
            seen.add_all(simulate(engine, config.seed, load));
        }
        return seen.into_prediction(config, args);
    }
    let requests = requests(config, args);
    let last_due_ns = requests.last().map_or(0, |due| due.offset_ns);
    // Requests with one of these faults are refused at once: they do not queue and do not load the engine.
    let (refused, served): (Vec<SimulatedRequest>, Vec<SimulatedRequest>) =
        requests.into_iter().partition(|due| has_fault(config, due));
    let load = match args.concurrency {
        Some(clients) => Load::Closed { clients, requests: served },
        None => Load::Open(served),
    };
    let mut seen = LoadSamples { failed: refused.len() as u32, last_ns: last_due_ns, ..LoadSamples::new() };
    seen.add_all(simulate(engine, config.seed, load).with_max_waiting(config.limits.waiting));
    seen.into_prediction(config, args)
}

fn check(config: &Config, args: &LoadArgs) -> Result<(), SettingsError> {
    within("concurrency", args.concurrency, 1, MAX_REQUESTS)?;
    within("rate", args.rate, RATE_PER_S.0, RATE_PER_S.1)?;
    within("isl", Some(args.isl), 1, config.max_model_len - 1)?;
    within("osl", Some(args.osl), 1, config.max_model_len.saturating_sub(args.isl))?;
    let most = MAX_REQUESTS.min(MAX_OUTPUT_TOKENS / args.osl);
    if !(1..=most).contains(&args.requests) {
        let range = format!("from 1 to {most} with responses of {} tokens", args.osl);
        return Err(out_of_range("requests", &args.requests.to_string(), &range));
    }
    if let Some(turns) = args.turns {
        check_sessions(config, args, turns)?;
    }
    if config.ready_after_ns > 0 {
        let ms = config.ready_after_ns as f64 / 1e6;
        return Err(out_of_range(
            "ready_after_ms",
            &ms.to_string(),
            "0 for a prediction, which begins with an endpoint that is ready",
        ));
    }
    let wire = |fault: &&Fault| !matches!(fault, Fault::Status(_) | Fault::Refuse);
    match config.faults.iter().find(wire) {
        Some(fault) => {
            let range = "`status:CODE` or `refuse` for a prediction; what the others do depends on the client";
            Err(out_of_range("fault", &fault.to_string(), range))
        }
        None => Ok(()),
    }
}

fn check_sessions(config: &Config, args: &LoadArgs, turns: u32) -> Result<(), SettingsError> {
    within("think_time_ms", args.think_time_ms, 0.0, MAX_THINK_TIME_MS)?;
    within("users", args.users, 1, MAX_REQUESTS)?;
    if args.rate.is_some() && args.users.is_none() {
        return Err(out_of_range("turns", &turns.to_string(), "given with `--concurrency`, or with `--users` and `--rate`"));
    }
    let longest = config.max_model_len / args.isl.saturating_add(args.osl).max(1);
    if !(1..=MAX_TURNS.min(longest)).contains(&turns) {
        return Err(out_of_range(
            "turns",
            &turns.to_string(),
            &format!("from 1 to {} with turns of this length", MAX_TURNS.min(longest)),
        ));
    }
    let (setting, at_a_time) = match args.users {
        Some(users) => ("users", users.min(args.requests)),
        None => ("concurrency", args.concurrency.unwrap_or(1)),
    };
    // A turn that is refused would end its session.
    if at_a_time > config.limits.waiting {
        let range = format!("at most `max_waiting`, {}, with sessions", config.limits.waiting);
        return Err(out_of_range(setting, &at_a_time.to_string(), &range));
    }
    if let Some(fault) = config.faults.first() {
        return Err(out_of_range("fault", &fault.to_string(), "absent with sessions, which end with a failed turn"));
    }
    let blocks = |turn: u32| u64::from(turn_tokens(args, turn) / config.engine.block_tokens().max(1));
    match args.users {
        // All turns of users are held from the start on.
        Some(_) => {
            let grid = UserGrid::new(config, args, turns);
            let held = (0..grid.users).flat_map(|user| grid.turns_of(user)).map(|(_, turn)| blocks(turn.turn));
            let range = format!("so small that the prompts of all turns have at most {MAX_SESSION_BLOCKS} blocks");
            fewer_blocks(held, ("requests", args.requests), &range)
        }
        None if !args.requests.is_multiple_of(turns) => {
            let range = format!("a multiple of the {turns} turns of a session");
            Err(out_of_range("requests", &args.requests.to_string(), &range))
        }
        None => {
            let held = (0..turns).map(|turn| blocks(turn).saturating_mul(at_a_time.into()));
            let range = format!("so small that the prompts of all sessions at a time have at most {MAX_SESSION_BLOCKS} blocks");
            fewer_blocks(held, (setting, at_a_time), &range)
        }
    }
}

/// Refuses a setting with which more blocks are held at a time than a prediction may hold.
fn fewer_blocks(
    held: impl Iterator<Item = u64>,
    (setting, value): (&'static str, u32),
    range: &str,
) -> Result<(), SettingsError> {
    match held.fold(0, u64::saturating_add) {
        0..=MAX_SESSION_BLOCKS => Ok(()),
        _ => Err(out_of_range(setting, &value.to_string(), range)),
    }
}

/// Returns the tokens of the prompt of a turn: all that was said before, and its own.
fn turn_tokens(args: &LoadArgs, turn: u32) -> u32 {
    args.isl.saturating_mul(turn + 1).saturating_add(args.osl.saturating_mul(turn))
}

/// Returns a turn: the request with this number. No two sessions share a prefix.
fn turn_request(config: &Config, args: &LoadArgs, number: u32, turn: SimulatedTurn) -> SimulatedRequest {
    let prompt_tokens = turn_tokens(args, turn.turn);
    // A session is one growing text, so that the place of a block in it names the block.
    let block = |block: u32| turn.session << 32 | u64::from(block);
    SimulatedRequest {
        request_id: u128::from(number),
        prompt_tokens,
        output_tokens: args.osl,
        reasoning_tokens: reasoning_tokens(config, args),
        prefix_blocks: (0..prompt_tokens / config.engine.block_tokens().max(1)).map(block).collect(),
        turn: Some(turn),
        ..SimulatedRequest::default()
    }
}

/// Returns the first turns of the sessions of a closed loop, each with its later ones.
fn sessions(config: &Config, args: &LoadArgs, turns: u32) -> impl Iterator<Item = SimulatedRequest> {
    let pause_ns = (args.think_time_ms.unwrap_or(0.0) * 1e6) as i64;
    (0..args.requests / turns).map(move |session| {
        let request = |turn| {
            let number = session * turns + turn + 1;
            turn_request(config, args, number, SimulatedTurn { session: session.into(), turn, turns })
        };
        let later = (1..turns).map(|turn| LaterTurn { pause_ns, request: request(turn) });
        SimulatedRequest { later_turns: later.collect(), ..request(0) }
    })
}

/// The grid of users: point `g` is `g / rate` after the start, is one turn, and belongs to user `g` modulo their number, as the load generator
/// has it.
struct UserGrid {
    users: u32,
    rate_per_s: f64,
    /// The points of all users.
    points: u32,
    /// The turns of a session.
    turns: u32,
    /// The value from 0 to 1 that decides how many turns are left of first sessions.
    age: f64,
}

impl UserGrid {
    fn new(config: &Config, args: &LoadArgs, turns: u32) -> Self {
        let age = RequestKey::from_seed(&config.seed).unit(Concern::Age, 0);
        let (users, rate_per_s) = (args.users.unwrap_or(1).min(args.requests), args.rate.unwrap_or(RATE_PER_S.0));
        Self { users, rate_per_s, points: args.requests, turns, age }
    }

    /// Returns the turns that are left of the first session of a user, spread evenly over the users: multiples of the golden ratio are.
    fn left_of_first(&self, user: u32) -> u32 {
        let share = (self.age + f64::from(user) * INVERSE_GOLDEN_RATIO).fract();
        (share * f64::from(self.turns)) as u32 + 1
    }

    /// Returns the points of a user, in ascending order, each with its turn.
    fn turns_of(&self, user: u32) -> impl Iterator<Item = (u32, SimulatedTurn)> {
        let first = self.left_of_first(user);
        (user..self.points).step_by(self.users as usize).zip(0_u32..).map(move |(point, played)| {
            let (before, turn, turns) = match played.checked_sub(first) {
                None => (0, played, first),
                Some(after) => (after / self.turns + 1, after % self.turns, self.turns),
            };
            let session = u64::from(user) + u64::from(before) * u64::from(self.users);
            (point, SimulatedTurn { session, turn, turns })
        })
    }

    /// Returns the time of a point, in nanoseconds since the start.
    fn at_ns(&self, point: u32) -> i64 {
        libm::round(f64::from(point) * 1e9 / self.rate_per_s) as i64
    }
}

/// Returns the first turn of each user, with all turns of the user after it.
fn users(config: &Config, args: &LoadArgs, grid: &UserGrid) -> Vec<SimulatedRequest> {
    let request = |(point, turn)| {
        let at_ns = grid.at_ns(point);
        SimulatedRequest { offset_ns: at_ns, planned_ns: Some(at_ns), ..turn_request(config, args, point + 1, turn) }
    };
    let of_user = |user| {
        let mut turns = grid.turns_of(user).map(request);
        let first = turns.next()?;
        let later_turns = turns.map(|request| LaterTurn { pause_ns: 0, request }).collect();
        Some(SimulatedRequest { later_turns, ..first })
    };
    (0..grid.users).filter_map(of_user).collect()
}

fn reasoning_tokens(config: &Config, args: &LoadArgs) -> u32 {
    (f64::from(args.osl) * config.reasoning_share) as u32
}

fn requests(config: &Config, args: &LoadArgs) -> Vec<SimulatedRequest> {
    let due = |(number, offset_ns)| SimulatedRequest {
        offset_ns,
        request_id: u128::from(number),
        prompt_tokens: args.isl,
        output_tokens: args.osl,
        reasoning_tokens: reasoning_tokens(config, args),
        ..SimulatedRequest::default()
    };
    let numbers = 1..=args.requests;
    match args.rate {
        Some(rate) => numbers.zip(arrivals(&config.seed, rate)).map(due).collect(),
        None => numbers.map(|number| (number, 0)).map(due).collect(),
    }
}

/// Returns the instants of a Poisson process: the gap before each is exponential, by inversion.
fn arrivals(seed: &Seed, rate_per_s: f64) -> impl Iterator<Item = i64> {
    let key = RequestKey::from_seed(seed);
    let mut at_ns = 0.0;
    (0..).map(move |index| {
        at_ns -= libm::log(1.0 - key.unit(Concern::Arrival, index)) * 1e9 / rate_per_s;
        at_ns as i64
    })
}

fn has_fault(config: &Config, due: &SimulatedRequest) -> bool {
    config.draw_fault(due.key(&config.seed)).is_some()
}

/// The samples of all requests so far.
struct LoadSamples {
    /// The samples of each predicted distribution.
    distributions: Vec<(Metric, Samples)>,
    /// The sums over the requests; all responses complete within the window.
    totals: Totals,
    failed: u32,
    /// The end of the last request, or its due time.
    last_ns: i64,
    preemptions: u64,
}

/// The samples of one metric: latencies in nanoseconds, others in the unit of the metric.
enum Samples {
    Whole(Vec<i64>),
    Quotients(Vec<f64>),
}

/// Returns the metrics that a prediction has, in the order in which they are printed.
fn predicted() -> impl Iterator<Item = Metric> {
    Metric::ALL.iter().copied().filter(|metric| metric.has_use(Use::Prediction))
}

impl LoadSamples {
    fn new() -> Self {
        let is_distribution = |metric: &Metric| !matches!(metric.definition().formula, Formula::Trial(_));
        let distributions = predicted().filter(is_distribution).map(|metric| (metric, Samples::new(metric))).collect();
        Self { distributions, totals: Totals::default(), failed: 0, last_ns: 0, preemptions: 0 }
    }

    fn add_all<M: Model>(&mut self, mut simulation: Simulation<M, impl Iterator<Item = SimulatedRequest>>) {
        simulation.by_ref().for_each(|record| self.add(&record));
        self.preemptions = simulation.occupancy().preemptions;
    }

    fn add(&mut self, record: &Record) {
        self.last_ns = self.last_ns.max(record.end_ns.unwrap_or(0));
        if !record.outcome.is_ok() {
            self.failed += 1;
            return;
        }
        let (fields, gaps) = (record.fields(), record.gaps());
        self.distributions.iter_mut().for_each(|(metric, samples)| samples.add(*metric, &fields, &gaps));
        self.totals.completed.add(WHOLE_REQUEST, None, Some(record.output_tokens.unwrap_or(0).into()));
    }

    fn into_prediction(self, config: &Config, args: &LoadArgs) -> Result<Prediction, PredictError> {
        if self.last_ns > MAX_NS {
            return Err(PredictError::TooLong);
        }
        let preemptions = config.engine.preempts().then_some(("preemptions", Some(self.preemptions as f64)));
        let mut result = self.into_metrics(args.requests);
        result.0.extend(preemptions);
        Ok(Prediction {
            name: "prediction",
            component: "assay-simulator",
            parameters: Parameters {
                concurrency: args.concurrency,
                rate: args.rate,
                users: args.users,
                requests: args.requests,
                isl: args.isl,
                osl: args.osl,
                turns: args.turns,
                think_time_ms: args.think_time_ms,
                seed: config.seed.to_string(),
            },
            result,
        })
    }

    fn into_metrics(self, requests: u32) -> PredictedMetrics {
        let Self { mut distributions, totals, failed, last_ns, .. } = self;
        let trial = TrialTotals {
            requests: requests.into(),
            ok: (requests - failed).into(),
            cancelled: None,
            totals: &totals,
            window_ns: u64::try_from(last_ns).ok().filter(|ns| *ns > 0),
            steady_ns: Err("a prediction has no steady state".to_owned()),
            is_open_loop: false,
            has_cap: false,
            has_sessions: false,
            has_slos: false,
            no_output: None,
            documents: None,
            repeated: Err("a prediction has no repeated prompts".to_owned()),
            gpus: Err("a prediction has no GPUs".to_owned()),
            price_per_s: Err("a prediction has no price".to_owned()),
        };
        let mut values = Vec::new();
        for metric in predicted() {
            let samples = distributions.iter_mut().find(|(other, _)| *other == metric);
            let row = metric.definition();
            match (row.formula, samples) {
                (Formula::Trial(formula), _) => {
                    values.extend(row.names.iter().map(|name| (name.text, formula(&trial).ok().map(|(value, _)| value))));
                }
                (_, Some((_, samples))) => values.extend(samples.quantiles(metric)),
                (_, None) => {}
            }
        }
        PredictedMetrics(values)
    }
}

/// The share of a request that counts as a whole.
const WHOLE_REQUEST: u64 = 1 << SHARE_BITS;

impl Samples {
    fn new(metric: Metric) -> Self {
        let is_quotient = metric == Metric::Itl || matches!(metric.definition().formula, Formula::Quotient(_));
        if is_quotient { Self::Quotients(Vec::new()) } else { Self::Whole(Vec::new()) }
    }

    fn add(&mut self, metric: Metric, fields: &RequestFields, gaps: &[Gap]) {
        match (self, metric.definition().formula) {
            (Self::Whole(samples), Formula::Span { from, to }) => samples.extend(since_ns(fields.get(from), fields.get(to))),
            (Self::Quotients(samples), Formula::Quotient(quotient)) => samples.extend((quotient.sample)(fields)),
            (Self::Whole(samples), Formula::Gaps) => samples.extend(gaps.iter().map(|gap| gap.gap_ns)),
            (Self::Whole(samples), _) => samples.extend(gaps.first().map(|gap| gap.gap_ns)),
            (Self::Quotients(samples), _) => {
                for (itl_ns, count) in gaps.iter().map(|gap| gap.itl_ns()) {
                    samples.extend(std::iter::repeat_n(itl_ns, count as usize));
                }
            }
        }
    }

    /// Returns the median and the 99th percentile of a metric, in its unit.
    fn quantiles(&mut self, metric: Metric) -> Vec<(&'static str, Option<f64>)> {
        let names = metric.definition().names.iter().filter(|name| [Statistic::P50, Statistic::P99].contains(&name.statistic));
        names
            .map(|name| (name.text, self.statistic(name.statistic).map(|sample| metric.definition().unit.from_sample(sample))))
            .collect()
    }

    fn statistic(&mut self, statistic: Statistic) -> Option<f64> {
        let Estimator::Quantile(q) = statistic.estimator() else { return None };
        match self {
            Self::Whole(samples) => quantiles_ns(samples, &[q])?.first().copied(),
            Self::Quotients(samples) => {
                samples.sort_unstable_by(f64::total_cmp);
                quantile(samples, q)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(users: u32, turns: u32, age: f64) -> UserGrid {
        UserGrid { users, rate_per_s: 1.5, points: 9, turns, age }
    }

    #[test]
    fn first_sessions_have_fewer_turns_left_as_the_load_generator_has_it() {
        // The multiples of 0.618.. modulo 1 are 0, 0.618, 0.236, 0.854 and 0.472; times 10 and rounded down, plus 1.
        let left = |age| [0, 1, 2, 3, 4].map(|user| grid(5, 10, age).left_of_first(user));
        assert_eq!(left(0.0), [1, 7, 3, 9, 5]);
        assert_eq!(left(0.5), [6, 2, 8, 4, 10]);
    }

    #[test]
    fn a_user_plays_one_session_after_the_other_at_points_of_its_own() {
        let grid = grid(2, 3, 0.0);
        let turns = |user| {
            let all = grid.turns_of(user).map(|(point, turn)| (point, turn.session, turn.turn, turn.turns));
            all.collect::<Vec<_>>()
        };
        assert_eq!(turns(0), [(0, 0, 0, 1), (2, 2, 0, 3), (4, 2, 1, 3), (6, 2, 2, 3), (8, 4, 0, 3)]);
        assert_eq!(turns(1), [(1, 1, 0, 2), (3, 1, 1, 2), (5, 3, 0, 3), (7, 3, 1, 3)]);
        assert_eq!([0, 1, 3].map(|point| grid.at_ns(point)), [0, 666_666_667, 2_000_000_000]);
    }
}
