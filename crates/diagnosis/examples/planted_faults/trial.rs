//! One trial in virtual time: the simulator's engine under a load, the path between it and the client, and the client's records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use assay_record::{Outcome, Record};
use assay_simulator::{Engine, LaterTurn, Load, Model, Seed, SimulatedRequest, Simulation, Stall, simulate};

use crate::conditions::{Conditions, Path, Stalls};
use crate::random::Draws;

pub(crate) const SECOND_NS: i64 = 1_000_000_000;

/// The time for which requests are sent.
pub(crate) const DURATION_NS: i64 = 20 * SECOND_NS;

/// The most time after it for requests in flight; what is left then is never counted as ended.
const DRAIN_NS: i64 = 20 * SECOND_NS;

/// The requests of a client of a closed loop that are drawn at a time.
const CHAIN: u64 = 16;

/// The bytes of a prompt's token and of a response's chunk on the wire, headers included.
const TOKEN_BYTES: f64 = 5.0;
const CHUNK_BYTES: f64 = 300.0;

/// The retransmission timeout of a connection that sends little, in milliseconds: Linux's minimum.
const RETRANSMISSION_MS: f64 = 200.0;

/// The model that the endpoint serves.
pub(crate) const MODEL: &str = "simulated-8b";

/// The work of a point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) arrivals: Arrivals,
    /// The requests in flight on an idle day: of an open loop about as many.
    pub(crate) in_flight: u32,
    /// The median lengths in tokens, and the sigma of both.
    pub(crate) prompt_tokens: f64,
    pub(crate) response_tokens: f64,
    pub(crate) length_sigma: f64,
    /// The tokens that the prompts of a group begin with, and the number of groups.
    pub(crate) shared_tokens: u32,
    pub(crate) groups: u32,
    /// The tokens of a block.
    pub(crate) block_tokens: u32,
}

/// The arrival process of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrivals {
    /// Independent arrivals at this rate per second.
    Open(f64),
    /// This many clients, each of which sends its next request when a response is complete.
    Closed(u32),
}

/// The seeds of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrialSeeds {
    /// Decides lengths, groups and arrivals.
    pub(crate) work: Seed,
    /// Decides everything else.
    pub(crate) noise: Seed,
}

/// The result of a trial.
pub(crate) struct Trial {
    pub(crate) records: Vec<Record>,
    /// The bodies of `GET /metrics` with their times.
    pub(crate) pages: Vec<(i64, String)>,
    /// For each second: the share in which the engine had requests, and the packets lost on the way to the server and back.
    pub(crate) seconds: Vec<Second>,
    pub(crate) end_ns: i64,
}

/// The traffic and the work of one second, as the machines count them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Second {
    pub(crate) engaged: f64,
    pub(crate) lost_up: u64,
    pub(crate) lost_down: u64,
    pub(crate) bytes_up: f64,
    pub(crate) bytes_down: f64,
}

/// A request before it is sent.
struct DrawnRequest {
    request: SimulatedRequest,
    /// The prompt's tokens by the client's own count.
    prompt_tokens: u32,
    /// The time from its intended time to its arrival at the server, in parts.
    late_ns: i64,
    up_ns: i64,
    lost_up: bool,
}

/// The facts of a request that its record lacks.
#[derive(Clone, Copy)]
struct Sending {
    prompt_tokens: u32,
    late_ns: i64,
    up_ns: i64,
    lost_up: bool,
}

fn ms(ms: f64) -> i64 {
    libm::round(ms * 1e6) as i64
}

/// The requests of a trial, by their number.
struct Requests<'a> {
    conditions: &'a Conditions,
    work: &'a Work,
    seeds: TrialSeeds,
}

impl Requests<'_> {
    /// Draws a request; `other` marks one of another client.
    fn draw(&self, number: u64, other: bool) -> DrawnRequest {
        let (conditions, work) = (self.conditions, self.work);
        let mut draws = Draws::new(&self.seeds.work, &format!("request {number} {other}"));
        let mut length = |median: f64| (median * draws.lognormal(work.length_sigma)).clamp(4.0, 8.0 * median);
        let (prompt, response) = (length(work.prompt_tokens), length(work.response_tokens));
        let group = draws.below(work.groups.max(1));
        let prompt_tokens = prompt as u32 + work.shared_tokens;
        let counted = (f64::from(prompt_tokens) * conditions.prompt_factor) as u32;
        let block = |place: u32| -> u64 {
            let shared = (place + 1) * work.block_tokens <= work.shared_tokens;
            let of = if shared { u64::from(group) } else { (1 << 32) + (u64::from(other) << 31) + number };
            of << 16 | u64::from(place.min(0xffff))
        };
        let mut on_path = Draws::new(&self.seeds.noise, &format!("path {number} {other}"));
        let (client, path) = (conditions.client, conditions.path);
        let late_ns = ms(client.late_ms * on_path.lognormal(client.late_sigma));
        let lost_up = on_path.chance(path.loss);
        let up = path.one_way_ms * on_path.lognormal(path.jitter_sigma) + if lost_up { RETRANSMISSION_MS } else { 0.0 };
        DrawnRequest {
            request: SimulatedRequest {
                request_id: u128::from(number) | u128::from(other) << 100,
                prompt_tokens: counted.max(1),
                output_tokens: ((response * conditions.response_factor) as u32).max(1),
                prefix_blocks: (0..counted / work.block_tokens.max(1)).map(block).collect(),
                ..SimulatedRequest::default()
            },
            prompt_tokens,
            late_ns,
            up_ns: ms(up),
            lost_up,
        }
    }
}

impl DrawnRequest {
    fn sending(&self) -> Sending {
        Sending { prompt_tokens: self.prompt_tokens, late_ns: self.late_ns, up_ns: self.up_ns, lost_up: self.lost_up }
    }
}

/// Runs a trial.
pub(crate) fn run(conditions: &Conditions, work: &Work, seeds: TrialSeeds) -> Trial {
    let requests = Requests { conditions, work, seeds };
    let stalls = draw_stalls(&conditions.stalls, &seeds.noise);
    let mut engine = Engine::new(conditions.effective_engine().model(&seeds.noise));
    for stall in &stalls {
        // The number of stalls is far below the limit, which a test of the limit would show.
        engine.stall(*stall).expect("fewer stalls than the limit");
    }
    match work.arrivals {
        Arrivals::Open(rate) => {
            let (due, sent) = open_load(&requests, rate, &frozen(conditions, &stalls));
            let simulation = simulate(engine, seeds.noise, Load::Open(due)).with_failures(conditions.failing);
            observe(simulation, &requests, sent)
        }
        Arrivals::Closed(clients) => {
            let load = Load::Closed { clients, requests: closed_load(&requests) };
            observe(simulate(engine, seeds.noise, load).with_failures(conditions.failing), &requests, Sent::InTurn)
        }
    }
}

/// Returns the stalls that stop the client, too.
fn frozen(conditions: &Conditions, stalls: &[Stall]) -> Vec<Stall> {
    let stops = |stalls: &Stalls| matches!(stalls, Stalls::Quota { stops_client: true, .. });
    if conditions.stalls.iter().any(stops) { stalls.to_vec() } else { Vec::new() }
}

/// The client's own requests.
enum Sent {
    /// Those of an open loop by their ids, with the time at which each is due.
    WhenDue(BTreeMap<u128, (i64, Sending)>),
    /// Those of a closed loop: all.
    InTurn,
}

impl Sent {
    /// Returns the time at which a request is due, and the facts that its record lacks; `None` for one of another client.
    fn get(&self, requests: &Requests<'_>, id: u128) -> Option<(Option<i64>, Sending)> {
        match self {
            Self::WhenDue(sent) => sent.get(&id).map(|(due_ns, sending)| (Some(*due_ns), *sending)),
            Self::InTurn => Some((None, requests.draw(u64::try_from(id).ok()?, false).sending())),
        }
    }
}

/// Returns the requests of an open loop in the order in which they reach the server.
fn open_load(requests: &Requests<'_>, rate: f64, frozen: &[Stall]) -> (Vec<SimulatedRequest>, Sent) {
    let (mut due, mut sent) = (Vec::new(), BTreeMap::new());
    let others = requests.conditions.other_traffic;
    for (other, rate) in [(false, rate), (true, rate * others)] {
        if rate <= 0.0 {
            continue;
        }
        let mut arrivals = Draws::new(&requests.seeds.work, if other { "arrivals of others" } else { "arrivals" });
        let (mut at, mut number) = (0.0, 0);
        loop {
            at += arrivals.exponential(1e9 / rate);
            if at >= DURATION_NS as f64 {
                break;
            }
            let mut drawn = requests.draw(number, other);
            let sent_ns = at as i64 + drawn.late_ns;
            let stalled = frozen.iter().find(|stall| stall.at_ns <= sent_ns && sent_ns < stall.at_ns + stall.for_ns);
            drawn.late_ns += stalled.map_or(0, |stall| stall.at_ns + stall.for_ns - sent_ns);
            let sending = drawn.sending();
            if !other {
                sent.insert(drawn.request.request_id, (at as i64, sending));
            }
            due.push((at as i64 + drawn.late_ns, sending.up_ns, drawn.request));
            number += 1;
        }
    }
    due.sort_by_key(|(sent_ns, _, request)| (*sent_ns, request.request_id));
    let mut link = Link::new(requests.conditions.path);
    let mut arrived: Vec<SimulatedRequest> = due
        .into_iter()
        .map(|(sent_ns, up_ns, request)| {
            let wait_ns = link.pass(sent_ns, f64::from(request.prompt_tokens) * TOKEN_BYTES) - sent_ns;
            if let Some((_, sending)) = sent.get_mut(&request.request_id) {
                sending.up_ns += wait_ns;
            }
            SimulatedRequest { offset_ns: sent_ns + wait_ns + up_ns, ..request }
        })
        .collect();
    arrived.sort_by_key(|request| (request.offset_ns, request.request_id));
    (arrived, Sent::WhenDue(sent))
}

/// Returns the requests of a closed loop as chains: each is sent after the response before, and the times on the path and in the client.
fn closed_load(requests: &Requests<'_>) -> impl Iterator<Item = SimulatedRequest> {
    // A request that fails ends its chain.
    let length = if requests.conditions.failing > 0.0 { 1 } else { CHAIN };
    let one_way_ms = requests.conditions.path.one_way_ms;
    (0..u64::MAX / length).map(move |chain| {
        let mut turns = (chain * length..(chain + 1) * length).map(|number| {
            let drawn = requests.draw(number, false);
            LaterTurn { pause_ns: drawn.late_ns + drawn.up_ns + ms(one_way_ms), request: drawn.request }
        });
        let first = turns.next().map(|turn| turn.request).unwrap_or_default();
        SimulatedRequest { later_turns: turns.collect::<VecDeque<_>>(), ..first }
    })
}

/// A link that carries one packet after the other.
struct Link {
    bytes_per_s: Option<f64>,
    free_ns: i64,
}

impl Link {
    fn new(path: Path) -> Self {
        Self { bytes_per_s: path.bytes_per_s, free_ns: 0 }
    }

    /// Returns the time at which bytes that come at a time have passed.
    fn pass(&mut self, at_ns: i64, bytes: f64) -> i64 {
        let Some(bytes_per_s) = self.bytes_per_s else { return at_ns };
        self.free_ns = self.free_ns.max(at_ns) + (bytes / bytes_per_s * 1e9) as i64;
        self.free_ns
    }
}

fn draw_stalls(all: &[Stalls], seed: &Seed) -> Vec<Stall> {
    const PERIOD_NS: i64 = 100_000_000;
    let end_ns = DURATION_NS + DRAIN_NS;
    let mut drawn = Vec::new();
    for (place, stalls) in all.iter().enumerate() {
        let mut draws = Draws::new(seed, &format!("stalls {place}"));
        match *stalls {
            Stalls::Quota { periods, share, .. } => {
                for period in 0..end_ns / PERIOD_NS {
                    let for_ns = (share * draws.between(0.7, 1.3) * PERIOD_NS as f64).min(0.95 * PERIOD_NS as f64) as i64;
                    if draws.chance(periods) {
                        drawn.push(Stall { at_ns: (period + 1) * PERIOD_NS - for_ns, for_ns });
                    }
                }
            }
            Stalls::Bursts { share, mean_ms } => {
                let mut at_ns = 0;
                while at_ns < end_ns {
                    at_ns += ms(draws.exponential(mean_ms * (1.0 - share) / share));
                    let for_ns = ms(draws.exponential(mean_ms));
                    drawn.push(Stall { at_ns, for_ns });
                    at_ns += for_ns;
                }
            }
        }
    }
    drawn.sort_by_key(|stall| stall.at_ns);
    drawn
}

/// Observes a simulation: the endpoint's metrics each second, and the records of the client.
fn observe<M, I>(mut simulation: Simulation<M, I>, requests: &Requests<'_>, sent: Sent) -> Trial
where
    M: Model,
    I: Iterator<Item = SimulatedRequest>,
{
    const PARTS: i64 = 10;
    let (mut pages, mut seconds, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    let mut second = 0;
    loop {
        let start_ns = second * SECOND_NS;
        let mut engaged = 0;
        for part in 1..=PARTS {
            simulation.advance_to(start_ns + part * SECOND_NS / PARTS);
            engaged += i64::from(simulation.occupancy().running > 0);
        }
        ended.extend(simulation.take_ended());
        second += 1;
        seconds.push(Second { engaged: engaged as f64 / PARTS as f64, ..Second::default() });
        pages.push((second * SECOND_NS, simulation.metrics(MODEL)));
        if second * SECOND_NS == DURATION_NS {
            simulation.stop_sending();
        }
        let occupancy = simulation.occupancy();
        let is_over = second * SECOND_NS >= DURATION_NS && occupancy.running + occupancy.waiting == 0;
        if is_over || second * SECOND_NS >= DURATION_NS + DRAIN_NS {
            break;
        }
    }
    let is_own = |record: &Record| record.request_id >> 100 == 0;
    let mut records: Vec<Record> = ended.into_iter().filter(is_own).collect();
    records.extend(unanswered(&records, &sent, second * SECOND_NS));
    records.sort_by_key(|record| record.request_id);
    receive(&mut records, requests, &sent, &mut seconds);
    let last = records.iter().filter_map(|record| record.end_ns).max().unwrap_or(0);
    Trial { records, pages, seconds, end_ns: last.max(DURATION_NS) }
}

/// Returns the records of due requests that have not ended: the client gives them up.
fn unanswered(ended: &[Record], sent: &Sent, at_ns: i64) -> Vec<Record> {
    let Sent::WhenDue(due) = sent else { return Vec::new() };
    let known: BTreeSet<u128> = ended.iter().map(|record| record.request_id).collect();
    let left = due.iter().filter(|(id, _)| !known.contains(id));
    left.map(|(id, (due_ns, sending))| Record {
        request_id: *id,
        sent_ns: Some(due_ns + sending.late_ns + sending.up_ns),
        end_ns: Some(at_ns),
        outcome: Outcome::Timeout,
        ..Record::default()
    })
    .collect()
}

/// Shifts the records from the server's times to the client's.
fn receive(records: &mut [Record], requests: &Requests<'_>, sent: &Sent, seconds: &mut [Second]) {
    let (path, client) = (requests.conditions.path, requests.conditions.client);
    pass_link(records, path);
    let last = seconds.len() - 1;
    let second_of = |at_ns: i64| usize::try_from(at_ns / SECOND_NS).unwrap_or(0).min(last);
    for record in records {
        let Some((due_ns, sending)) = sent.get(requests, record.request_id) else { continue };
        let arrived_ns = record.sent_ns.unwrap_or(0);
        let sent_ns = (arrived_ns - sending.up_ns).max(0);
        let place = second_of(sent_ns);
        seconds[place].lost_up += u64::from(sending.lost_up);
        seconds[place].bytes_up += f64::from(record.input_tokens) * TOKEN_BYTES;
        record.intended_ns = due_ns;
        (record.dequeued_ns, record.sent_ns, record.write_done_ns) = (Some(sent_ns), Some(sent_ns), Some(sent_ns));
        record.input_tokens = sending.prompt_tokens;
        let mut draws = Draws::new(&requests.seeds.noise, &format!("way back {}", record.request_id));
        let down_ms = path.one_way_ms * draws.lognormal(path.jitter_sigma);
        let mut latest_ns = 0;
        for chunk in &mut record.chunks {
            let place = second_of(chunk.at_ns);
            seconds[place].bytes_down += CHUNK_BYTES;
            let lost = path.loss > 0.0 && draws.chance(path.loss);
            seconds[place].lost_down += u64::from(lost);
            let receive_ms = if client.receive_ms > 0.0 { client.receive_ms * draws.lognormal(client.late_sigma) } else { 0.0 };
            // Half of the losses show by the packets after them, within a round trip; the others by a timeout.
            let again_ms = match (lost, lost && draws.chance(0.5)) {
                (false, _) => 0.0,
                (true, true) => 3.0 * path.one_way_ms + 10.0,
                (true, false) => RETRANSMISSION_MS,
            };
            latest_ns = latest_ns.max(chunk.at_ns + ms(down_ms + receive_ms + again_ms));
            chunk.at_ns = latest_ns;
        }
        let (first, end) = (record.chunks.first().map(|chunk| chunk.at_ns), record.chunks.last().map(|chunk| chunk.at_ns));
        record.first_byte_ns = first.or(record.end_ns);
        (record.first_token_ns, record.first_content_ns, record.last_token_ns) = (first, first, end);
        record.end_ns = end.or(record.end_ns.map(|end_ns| end_ns + ms(down_ms)));
    }
}

/// Passes all chunks through the link back, in the order in which the server sends them.
fn pass_link(records: &mut [Record], path: Path) {
    if path.bytes_per_s.is_none() {
        return;
    }
    let places = records
        .iter()
        .enumerate()
        .flat_map(|(record, found)| found.chunks.iter().enumerate().map(move |(chunk, at)| (at.at_ns, record, chunk)));
    let mut places: Vec<_> = places.collect();
    places.sort_unstable();
    let mut link = Link::new(path);
    for (at_ns, record, chunk) in places {
        records[record].chunks[chunk].at_ns = link.pass(at_ns, CHUNK_BYTES);
    }
}
