//! A recording: the comparison of two sides, drawn with its natural variation and its faults.

use std::collections::{BTreeMap, BTreeSet};

use assay_diagnosis::{Better, Outcome, Pair, Subject, Window};
use assay_simulator::{BatchingConfig, CoTenant, EngineConfig, Latency, Profile, Seed, SlowRequests};

use crate::conditions::{Admission, Client, Conditions, Container, Deployment, Gpu, Machine, Path, Slowdown};
use crate::exporters::AdmittedJob;
use crate::fault::{Fault, Restrictions};
use crate::outcomes::outcomes;
use crate::random::Draws;
use crate::telemetry::{Exporters, Recorder};
use crate::trial::{Arrivals, SECOND_NS, Second, Trial, TrialSeeds, Work, run};

/// The trials of each side, unless another number is requested.
pub(crate) const TRIALS: usize = 5;

/// The least change of an outcome without noise that makes a fault a fault.
pub(crate) const LEAST_CHANGE: f64 = 0.05;

/// The largest change of the slowest responses: beyond it an endpoint collapses, and its requests are given up.
pub(crate) const MOST_CHANGE: f64 = 5.0;

/// The latency of the slowest responses.
const SLOWEST: &str = "e2e_ms_p99";

/// The case of every recording.
pub(crate) const CASE: &str = "load.server.base";

/// The name of the outcome of jobs.
const TURNAROUND: &str = "turnaround_s";

/// The time for which a trial of jobs lasts.
const JOBS_S: u32 = 120;

/// Everything that a recording is drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    seed: Seed,
    pub(crate) faults: Vec<Fault>,
    pub(crate) healthy: Conditions,
    /// The requests in flight at the point with most load.
    pub(crate) in_flight: u32,
    pub(crate) points: Vec<Point>,
    exporters: Exporters,
    has_jobs: bool,
    /// The names of the sides' targets: the same in two runs, two in one run.
    targets: [&'static str; 2],
    noise: Noise,
    /// The GPU that straggles, if one does.
    pub(crate) straggler: u32,
    /// True if the trials of both sides have the same requests.
    same_requests: bool,
}

/// A point of the work.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) name: String,
    work: Work,
    /// True if the faults are there while it is measured.
    pub(crate) is_faulty: bool,
}

/// The strength of natural variation.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// The sigma of the factor of a trial's times.
    trial: f64,
    /// The change of all times from the first trial of a side to the last.
    drift: [f64; 2],
    /// The sigma of the factor of the load of others on the machines.
    background: f64,
    /// The factors of the hour of each side: of all times, of the machine's load, and of the path.
    hours: [[f64; 3]; 2],
    /// The difference of temperature of the hours.
    celsius: [f64; 2],
}

impl Setup {
    /// Draws a recording; `None` if these faults do not go together.
    pub(crate) fn draw(seed: Seed, faults: &[Fault]) -> Option<Self> {
        let mut restrictions = Restrictions::default();
        if !faults.iter().all(|fault| fault.restrict(&mut restrictions)) {
            return None;
        }
        let mut draws = Draws::new(&seed, "setup");
        let deployment = draws.one_of(&[Deployment::OneMachine, Deployment::Cluster]);
        let deployment = restrictions.deployment.unwrap_or(deployment);
        let two_runs = draws.chance(0.5) || restrictions.two_runs;
        let is_open = draws.chance(0.5) || restrictions.open;
        let is_batching = draws.chance(0.5) || restrictions.batching;
        let prefix_cache = draws.chance(0.6) || restrictions.prefix_cache;
        let engine =
            if is_batching { draw_batching(&mut draws, prefix_cache) } else { draw_per_request(&mut draws, prefix_cache) };
        let in_flight = draws.log_between(4.0, 24.0) as u32;
        let work = draw_work(&mut draws, &engine, in_flight, is_open, prefix_cache);
        let mut setup = Self {
            seed,
            faults: faults.to_vec(),
            healthy: draw_conditions(&mut draws, deployment, engine),
            in_flight,
            points: draw_points(&mut draws, work, !faults.is_empty()),
            exporters: draw_exporters(&mut draws, deployment, restrictions.exporters),
            has_jobs: restrictions.jobs,
            targets: if two_runs { ["server", "server"] } else { ["before", "after"] },
            noise: draw_noise(&mut draws, two_runs),
            straggler: draws.below(16),
            same_requests: draws.chance(0.5),
        };
        for fault in faults {
            fault.prepare(&mut setup, &mut Draws::new(&seed, &format!("prepare {fault:?}")));
        }
        Some(setup)
    }

    /// Returns the recording with one of its faults alone.
    pub(crate) fn with_only(&self, fault: Fault) -> Self {
        Self { faults: vec![fault], ..self.clone() }
    }

    /// Returns the recording with the same sides and no fault, and without noise: both sides are the same.
    #[cfg(test)]
    pub(crate) fn without_faults(&self) -> Self {
        Self { faults: Vec::new(), ..self.clone() }
    }

    /// Returns the conditions of a side at a point, before the variation of trials.
    fn conditions(&self, point: &Point, is_candidate: bool) -> Conditions {
        let mut conditions = self.healthy.clone();
        if is_candidate && point.is_faulty {
            for fault in &self.faults {
                let mut draws = Draws::new(&self.seed, &format!("strength {fault:?}"));
                fault.plant(&mut conditions, self, &point.work, &mut draws);
            }
        }
        conditions
    }

    /// Returns the largest relative change for the worse of a primary outcome without any noise, at the points with the faults; infinite if
    /// the endpoint collapses.
    pub(crate) fn change_without_noise(&self) -> f64 {
        let faulty = self.points.iter().filter(|point| point.is_faulty);
        let changes = faulty.map(|point| {
            let [before, after] = [false, true].map(|is_candidate| {
                let conditions = quiet(self.conditions(point, is_candidate));
                self.measure(&conditions, point, TrialSeeds { work: self.seed, noise: self.seed }).0
            });
            let slowest = |outcomes: &BTreeMap<String, Outcome>| outcomes.get(SLOWEST).map_or(1.0, |outcome| outcome.value);
            let collapses = slowest(&after) > (1.0 + MOST_CHANGE) * slowest(&before);
            if collapses { f64::INFINITY } else { worst_change(&before, &after) }
        });
        changes.fold(0.0, f64::max)
    }

    /// Runs a trial, and returns its outcomes with what telemetry is made of.
    fn measure(
        &self,
        conditions: &Conditions,
        point: &Point,
        seeds: TrialSeeds,
    ) -> (BTreeMap<String, Outcome>, Trial, Vec<AdmittedJob>) {
        if self.has_jobs {
            let (jobs, turnaround_s) = run_jobs(conditions.admission, &Draws::new(&seeds.noise, "jobs"));
            let outcome = Outcome { value: turnaround_s, unit: "s".to_owned(), better: Some(Better::Lower), primary: true };
            let seconds = vec![Second { engaged: 0.8, ..Second::default() }; JOBS_S as usize];
            let trial = Trial { records: Vec::new(), pages: Vec::new(), seconds, end_ns: i64::from(JOBS_S) * SECOND_NS };
            return (BTreeMap::from([(TURNAROUND.to_owned(), outcome)]), trial, jobs);
        }
        let trial = run(conditions, &point.work, seeds);
        (outcomes(&trial.records, point.work.arrivals), trial, Vec::new())
    }

    /// Returns the attempts of both sides at every point, as `assay explain` reads them of two runs, with this number of trials of each
    /// side, two or more.
    pub(crate) fn pairs(&self, trials: usize) -> Vec<Pair> {
        let windows = |point: &Point, side: usize| {
            let place = |index: usize| index as f64 / (trials - 1) as f64 - 0.5;
            (0..trials).map(|index| self.window(point, side, index, place(index))).collect()
        };
        let pair = |point: &Point| Pair {
            case: CASE.to_owned(),
            point: point.name.clone(),
            baseline: windows(point, 0),
            candidate: windows(point, 1),
            subject: Subject::Requests,
            known_worse: BTreeSet::new(),
        };
        self.points.iter().map(pair).collect()
    }

    /// Returns the trial of a number, at its place among those of its side.
    fn window(&self, point: &Point, side: usize, index: usize, place: f64) -> Window {
        let purpose = |what: &str| format!("{what} {} {side} {index}", point.name);
        let requests = if self.same_requests { format!("requests {} {index}", point.name) } else { purpose("requests") };
        let seeds = TrialSeeds { work: self.seed.mixed_with(&requests), noise: self.seed.mixed_with(&purpose("noise")) };
        let mut draws = Draws::new(&self.seed, &purpose("variation"));
        let mut conditions = self.conditions(point, side == 1);
        vary(&mut conditions, &self.noise, side, place, &mut draws);
        let (outcomes, trial, jobs) = self.measure(&conditions, point, seeds);
        let recorder = Recorder {
            conditions: &conditions,
            exporters: self.exporters,
            target: (!self.has_jobs).then_some(self.targets[side]),
            draws: &Draws::new(&self.seed, &purpose("telemetry")),
        };
        Window { outcomes, readings: recorder.readings(&trial, &jobs), ..Window::default() }
    }

    /// Returns the beginning of the source that sees a fault: see [`Fault::place`].
    pub(crate) fn place(&self, fault: Fault) -> Option<&'static str> {
        fault.place(self.healthy.deployment)
    }

    /// Returns the number of the GPU that straggles, if one does.
    pub(crate) fn straggling_gpu(&self) -> Option<usize> {
        self.faults.contains(&Fault::StragglingGpu).then(|| self.straggler as usize % self.healthy.gpus.len())
    }
}

/// Returns the largest relative change for the worse of a primary outcome that both have.
fn worst_change(before: &BTreeMap<String, Outcome>, after: &BTreeMap<String, Outcome>) -> f64 {
    let change = |(name, before): (&String, &Outcome)| {
        let after = after.get(name).filter(|_| before.primary)?;
        match before.better? {
            _ if before.value <= 0.0 => None,
            Better::Lower => Some(after.value / before.value - 1.0),
            Better::Higher => Some(1.0 - after.value / before.value),
        }
    };
    before.iter().filter_map(change).fold(0.0, f64::max)
}

/// Returns the limit of running requests of an engine.
pub(crate) fn engine_limit(engine: &mut EngineConfig) -> &mut u32 {
    match engine {
        EngineConfig::Batching(batching) => &mut batching.max_num_seqs,
        EngineConfig::PerRequest(latency) => &mut latency.max_num_seqs,
    }
}

fn draw_batching(draws: &mut Draws, prefix_cache: bool) -> EngineConfig {
    let EngineConfig::Batching(mut batching) = Profile::FastBatching.engine() else { return Profile::FastBatching.engine() };
    batching.step.base_ns = draws.log_between(4e6, 12e6);
    batching.step.prefill_token_ns = draws.log_between(15e3, 60e3);
    batching.step.decode_token_ns = draws.log_between(20e3, 120e3);
    batching.step.jitter_sigma = draws.between(0.0, 0.08);
    batching.max_num_batched_tokens = draws.one_of(&[2_048, 4_096, 8_192]);
    batching.max_num_seqs = 128;
    batching.kv_blocks = 32_768;
    batching.prefix_cache = prefix_cache;
    batching.cotenant = draw_cotenant(draws);
    EngineConfig::Batching(batching)
}

fn draw_per_request(draws: &mut Draws, prefix_cache: bool) -> EngineConfig {
    let itl_ns = draws.log_between(5e6, 14e6);
    EngineConfig::PerRequest(Latency {
        ttft_ns: draws.log_between(15e6, 80e6) as i64,
        prefill_per_token_ns: draws.log_between(20e3, 150e3) as i64,
        ttft_jitter_ns: draws.log_between(1e6, 8e6) as i64,
        ttft_jitter_sigma: 0.6,
        itl_ns: itl_ns as i64,
        itl_jitter_ns: (itl_ns * draws.between(0.0, 0.15)) as i64,
        load_factor: draws.between(1.0, 2.5),
        max_num_seqs: 64,
        prefix_cache,
        kv_blocks: 32_768,
        slow: SlowRequests { factor: draws.between(1.5, 4.0), share: draws.between(0.0, 0.02) },
        cotenant: draw_cotenant(draws),
        ..Latency::none()
    })
}

fn draw_cotenant(draws: &mut Draws) -> CoTenant {
    CoTenant { factor: draws.between(1.0, 1.15), share: draws.between(0.0, 0.2), episode_ns: 2 * SECOND_NS }
}

/// Draws the work of the point with most load.
fn draw_work(draws: &mut Draws, engine: &EngineConfig, in_flight: u32, is_open: bool, prefix_cache: bool) -> Work {
    let (prompt_tokens, response_tokens) = (draws.log_between(80.0, 500.0), draws.log_between(40.0, 150.0));
    let shared_tokens = if prefix_cache { draws.log_between(200.0, 800.0) as u32 } else { 0 };
    let clients = f64::from(in_flight);
    // The time of a request, roughly: so many in flight at a time that many seconds each are a rate.
    let request_ns = match engine {
        EngineConfig::Batching(BatchingConfig { step, .. }) => {
            let prefill = clients / response_tokens * prompt_tokens * step.prefill_token_ns;
            response_tokens * (step.base_ns + clients * step.decode_token_ns + prefill)
        }
        EngineConfig::PerRequest(latency) => {
            let first = latency.ttft_ns as f64 + prompt_tokens * latency.prefill_per_token_ns as f64;
            (first + response_tokens * latency.itl_ns as f64) * f64::midpoint(1.0, latency.load_factor)
        }
    };
    Work {
        arrivals: if is_open { Arrivals::Open(clients / request_ns * 1e9) } else { Arrivals::Closed(in_flight) },
        in_flight,
        prompt_tokens,
        response_tokens,
        length_sigma: draws.between(0.2, 0.6),
        shared_tokens,
        groups: 1 + draws.below(8),
        block_tokens: 16,
    }
}

/// Draws one point, or two with less load at the first, and where the faults are.
fn draw_points(draws: &mut Draws, work: Work, has_faults: bool) -> Vec<Point> {
    let point = |load: f64, is_faulty: bool| {
        let in_flight = ((f64::from(work.in_flight) * load) as u32).max(1);
        let arrivals = match work.arrivals {
            Arrivals::Open(rate) => Arrivals::Open(rate * load),
            Arrivals::Closed(_) => Arrivals::Closed(in_flight),
        };
        let name = match arrivals {
            Arrivals::Open(_) => format!("rate-{}", 100.0 * load),
            Arrivals::Closed(clients) => format!("c-{clients}"),
        };
        Point { name, work: Work { arrivals, in_flight, ..work }, is_faulty: is_faulty && has_faults }
    };
    if !draws.chance(0.3) {
        return vec![point(1.0, true)];
    }
    let (first, second) = draws.one_of(&[(true, true), (true, true), (true, false), (false, true)]);
    vec![point(0.6, first), point(1.0, second)]
}

fn draw_exporters(draws: &mut Draws, deployment: Deployment, needed: Exporters) -> Exporters {
    let mut with = |probability: f64, needed: bool, has_place: bool| draws.chance(probability) && has_place || needed;
    let is_cluster = deployment == Deployment::Cluster;
    Exporters {
        node: with(0.8, needed.node, is_cluster) && is_cluster,
        gpus: with(0.6, needed.gpus, true),
        all_gpu_counters: with(0.5, needed.all_gpu_counters, true),
        containers: with(0.7, needed.containers, is_cluster),
        kueue: with(0.3, needed.kueue, is_cluster),
    }
}

fn draw_noise(draws: &mut Draws, two_runs: bool) -> Noise {
    let hour_sigma = if two_runs { draws.between(0.0, 0.02) } else { 0.0 };
    let mut hour = || {
        let factor = |draws: &mut Draws, sigma: f64| draws.lognormal(sigma);
        [factor(draws, hour_sigma), factor(draws, 10.0 * hour_sigma), factor(draws, 5.0 * hour_sigma)]
    };
    let hours = [hour(), hour()];
    Noise {
        trial: draws.log_between(0.002, 0.03),
        drift: [0.01 * draws.normal(), 0.01 * draws.normal()],
        background: draws.between(0.05, 0.5),
        hours,
        celsius: [100.0 * hour_sigma * draws.normal(), 100.0 * hour_sigma * draws.normal()],
    }
}

fn draw_conditions(draws: &mut Draws, deployment: Deployment, engine: EngineConfig) -> Conditions {
    let one_way_ms = if deployment == Deployment::Cluster { draws.log_between(0.05, 1.0) } else { 0.03 };
    let count = draws.one_of(&[4, 4, 8, 16]);
    let gpu = Gpu {
        sm_mhz: 1_980.0,
        memory_mhz: 2_619.0,
        celsius: draws.between(32.0, 50.0),
        idle_watts: 75.0,
        busy_watts: draws.between(350.0, 650.0),
        use_factor: 1.0,
        link_replays_per_s: if draws.chance(0.3) { draws.log_between(0.001, 0.05) } else { 0.0 },
        thermal: 0.0,
        powercap: if draws.chance(0.5) { draws.between(0.0, 0.1) } else { 0.0 },
    };
    let gpus = (0..count).map(|_| Gpu {
        sm_mhz: gpu.sm_mhz * draws.lognormal(0.003),
        celsius: gpu.celsius + 2.0 * draws.normal(),
        use_factor: draws.lognormal(0.02),
        ..gpu
    });
    let gpus = gpus.collect();
    Conditions {
        deployment,
        engine,
        cpu_share: draws.between(0.15, 0.5),
        slowdown: Slowdown::NONE,
        stalls: Vec::new(),
        prompt_factor: 1.0,
        response_factor: 1.0,
        failing: if draws.chance(0.3) { draws.log_between(0.0005, 0.003) } else { 0.0 },
        other_traffic: 0.0,
        path: Path { one_way_ms, jitter_sigma: draws.between(0.05, 0.4), loss: 0.0, bytes_per_s: None },
        client: Client { late_ms: draws.log_between(0.02, 0.3), late_sigma: draws.between(0.3, 1.0), receive_ms: 0.02 },
        client_machine: draw_machine(draws),
        server_machine: draw_machine(draws),
        container: Container { quota: None, cpus_used: draws.between(0.5, 4.0), memory_bytes: draws.log_between(4e9, 4e10) },
        gpus,
        admission: Admission {
            wait_s: draws.log_between(0.5, 5.0),
            wait_sigma: draws.between(0.1, 0.6),
            work_s: draws.log_between(4.0, 20.0),
        },
    }
}

fn draw_machine(draws: &mut Draws) -> Machine {
    let io = draws.log_between(0.0005, 0.02);
    let memory = if draws.chance(0.3) { draws.log_between(0.0001, 0.003) } else { 0.0 };
    Machine {
        cores: draws.one_of(&[4, 8, 16]),
        busy: draws.between(0.05, 0.5),
        iowait: draws.log_between(0.0002, 0.01),
        steal: if draws.chance(0.3) { draws.log_between(0.0002, 0.01) } else { 0.0 },
        cpu_pressure: draws.log_between(0.003, 0.06),
        memory_pressure: [memory, 0.3 * memory],
        io_pressure: [io, 0.5 * io],
        switches_per_s: draws.log_between(3e3, 6e4),
        memory_bytes: draws.one_of(&[32.0, 128.0, 512.0]) * 1_073_741_824.0,
        available: draws.between(0.3, 0.9),
        major_faults_per_s: draws.log_between(0.05, 5.0),
        swapped_pages_per_s: 0.0,
        disk_busy: draws.log_between(0.002, 0.1),
        disk_bytes_per_s: draws.log_between(1e4, 1e7),
        network_bytes_per_s: draws.log_between(1e5, 1e7),
        retransmits_per_s: draws.log_between(0.01, 2.0),
        clock_khz: draws.between(2.2e6, 3.6e6),
        celsius: draws.between(40.0, 65.0),
        quota: None,
    }
}

/// Varies the conditions of a trial, whose place among those of its side is from -0.5 to 0.5.
fn vary(conditions: &mut Conditions, noise: &Noise, side: usize, place: f64, draws: &mut Draws) {
    let [hour, hour_load, hour_path] = noise.hours[side];
    let trial = draws.lognormal(noise.trial);
    conditions.slowdown.all *= trial * hour * (1.0 + noise.drift[side] * place);
    conditions.path.one_way_ms *= hour_path * draws.lognormal(0.1);
    conditions.client.late_ms *= draws.lognormal(0.1);
    conditions.admission.wait_s *= hour_load * draws.lognormal(0.05);
    conditions.container.cpus_used *= draws.lognormal(0.05);
    let deployment = conditions.deployment;
    for is_server in [false, true] {
        let factor = hour_load * draws.lognormal(noise.background);
        let machine = if is_server { &mut conditions.server_machine } else { &mut conditions.client_machine };
        vary_machine(machine, factor, draws);
        machine.celsius += noise.celsius[side];
        // Others on the server's machine cost it some time.
        if is_server == (deployment == Deployment::Cluster) {
            conditions.slowdown.cpu *= 1.0 + 0.08 * (factor - 1.0);
        }
    }
    let (common_clock, common_celsius) = (draws.lognormal(0.002), noise.celsius[side] + 1.5 * draws.normal());
    conditions.slowdown.compute /= common_clock;
    for gpu in &mut conditions.gpus {
        gpu.sm_mhz *= common_clock * draws.lognormal(0.001);
        gpu.celsius += common_celsius + 0.5 * draws.normal();
        gpu.busy_watts *= draws.lognormal(0.02);
    }
}

fn vary_machine(machine: &mut Machine, load: f64, draws: &mut Draws) {
    machine.busy = (machine.busy * load).min(0.99 - machine.steal - machine.iowait);
    machine.cpu_pressure = (machine.cpu_pressure * load * draws.lognormal(0.2)).min(0.99);
    machine.switches_per_s *= load * draws.lognormal(0.05);
    machine.io_pressure = machine.io_pressure.map(|share| (share * draws.lognormal(0.25)).min(1.0));
    machine.memory_pressure = machine.memory_pressure.map(|share| (share * draws.lognormal(0.25)).min(1.0));
    machine.disk_busy = (machine.disk_busy * draws.lognormal(0.25)).min(1.0);
    machine.steal = (machine.steal * draws.lognormal(0.25)).min(0.9);
    machine.disk_bytes_per_s *= draws.lognormal(0.3);
    machine.network_bytes_per_s *= load * draws.lognormal(0.2);
    machine.retransmits_per_s *= draws.lognormal(0.4);
    machine.available *= draws.lognormal(0.03).min(1.1);
    machine.clock_khz *= draws.lognormal(0.01);
    machine.celsius += 1.5 * draws.normal();
}

/// Returns the conditions without chance, but for that of arrivals and lengths, which both sides have in common.
fn quiet(mut conditions: Conditions) -> Conditions {
    conditions.path.jitter_sigma = 0.0;
    conditions.client.late_sigma = 0.0;
    conditions.admission.wait_sigma = 0.0;
    match &mut conditions.engine {
        EngineConfig::Batching(batching) => {
            batching.step.jitter_sigma = 0.0;
            batching.cotenant = CoTenant::none();
        }
        EngineConfig::PerRequest(latency) => {
            (latency.ttft_jitter_ns, latency.itl_jitter_ns) = (0, 0);
            (latency.slow, latency.cotenant) = (SlowRequests::none(), CoTenant::none());
        }
    }
    conditions
}

/// Runs jobs one after the other, each of which a queue admits first, and returns them with the mean time until a result.
fn run_jobs(admission: Admission, draws: &Draws) -> (Vec<AdmittedJob>, f64) {
    let (mut jobs, mut at_s, mut sum) = (Vec::new(), 0.0, 0.0);
    for number in 0.. {
        let mut draws = draws.fork(&format!("job {number}"));
        let wait_s = admission.wait_s * draws.lognormal(admission.wait_sigma);
        let work_s = admission.work_s * if admission.wait_sigma > 0.0 { draws.lognormal(0.03) } else { 1.0 };
        // The first job counts whatever it takes.
        if at_s + wait_s + work_s > f64::from(JOBS_S) && number > 0 {
            break;
        }
        jobs.push(AdmittedJob { admitted_s: at_s + wait_s, wait_s });
        at_s += wait_s + work_s;
        sum += wait_s + work_s;
    }
    let mean = sum / jobs.len() as f64;
    (jobs, mean)
}
