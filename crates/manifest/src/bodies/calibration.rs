//! Calibration: the load that one load generator process makes on a machine, and how exactly it measures, against the built-in
//! simulator, whose true times are known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::body;
use crate::{
    Artifact, CanonicalError, ClientHealth, Count, CpuList, Digest, Fact, FactSource, HostFacts, Instant, LoadUnit, Reason,
    RunId, TrialId, canonical_json,
};

/// The simulator that a client was calibrated against.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationEndpoint {
    /// The digest of its program.
    pub program: Digest,
    /// Its options, in their order.
    pub settings: Vec<String>,
    /// The CPUs that it was allowed to use, as the kernel reports them (`Cpus_allowed_list`).
    pub allowed_cpus: String,
}

/// The limits within which a level holds, besides those of each attempt's own validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationLimits {
    /// The largest 99th percentile of the error of TTFT, in nanoseconds.
    pub ttft_error_p99_ns: Count,
    /// The largest 99th percentile of the error of ITL, in nanoseconds.
    pub itl_error_p99_ns: Count,
    /// The largest 99th percentile of lateness, in nanoseconds: of the delay of sending after the intended time.
    pub lateness_p99_ns: Count,
}

/// The error of a measured duration: the absolute difference from the duration that the simulator reports of the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasurementError {
    /// The number of compared durations.
    pub n: Count,
    /// The 50th percentile (nearest rank), in nanoseconds.
    pub p50_ns: Count,
    /// The 99th percentile (nearest rank), in nanoseconds.
    pub p99_ns: Count,
    /// The maximum, in nanoseconds.
    pub max_ns: Count,
}

/// The figures of one load: the last attempt of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationLevel {
    /// The unit of the load: requests in flight, or requests per second.
    pub unit: LoadUnit,
    /// The requested amount.
    pub amount: f64,
    /// The run of the attempt.
    pub run_id: RunId,
    /// The manifest of the execution part that holds the attempt.
    pub part: Digest,
    /// The trial.
    pub trial_id: TrialId,
    /// The number of the attempt, from 0.
    pub attempt: u32,
    /// The length of its measured phase, in nanoseconds.
    pub measured_ns: Count,
    /// Compared requests: measured, successful, and reported by the simulator, too. Of very many, equally spaced ones are compared.
    pub requests: Count,
    /// The error of TTFT, from the first byte of a request that was sent to the first token event; absent without such requests.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ttft_error: Option<MeasurementError>,
    /// The error of ITL, between neighbouring token events; absent if no response has two.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub itl_error: Option<MeasurementError>,
    /// Token events of the responses that ended in the measured phase, per second of it.
    pub events_per_s: f64,
    /// The health of the client: lateness, CPU time, requests sent per second.
    pub client: ClientHealth,
    /// The reasons why the level did not hold: those against the attempt, and each limit that was exceeded. Empty if it held.
    pub missed: Vec<Reason>,
    /// The client's records of its requests, as Parquet.
    pub records: Artifact,
    /// The simulator's report of the same requests, as JSON lines.
    pub truth: Artifact,
}

impl CalibrationLevel {
    /// Returns true if the client measured this load within all limits.
    pub fn holds(&self) -> bool {
        self.missed.is_empty()
    }

    /// Returns the CPU time of the client for each token event, in nanoseconds, over the whole attempt; `None` without an event.
    pub fn cpu_per_event_ns(&self) -> Option<f64> {
        let cpu_us = self.client.cpu_user_us.0.saturating_add(self.client.cpu_system_us.0);
        (self.client.events.0 > 0).then(|| cpu_us as f64 * 1e3 / self.client.events.0 as f64)
    }
}

/// The highest load of one unit that a client was calibrated for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibratedCeiling {
    /// The unit.
    pub unit: LoadUnit,
    /// The amount.
    pub amount: f64,
    /// True if no level failed, so that the client may carry more.
    pub at_least: bool,
}

/// The time for which a calibration measured each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibrationPace {
    /// Some seconds: what runs refer to.
    Full,
    /// At least one level took less than [`CalibrationPace::FULL_NS`]: runs refer to it only where no full one is.
    Quick,
}

impl CalibrationPace {
    /// The shortest level of a full calibration, in nanoseconds.
    pub const FULL_NS: u64 = 2_000_000_000;
}

/// The load that one client makes on a machine and how exactly it measures it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The time at which it began.
    pub calibrated_at: Instant,
    /// The digest of the facts that decide how much load a client makes on this machine: see [`HostFacts::machine_digest`].
    pub machine: Digest,
    /// The facts about the machine.
    pub facts: HostFacts,
    /// The digest of the program that made the load: that of the execute stage.
    pub load_generator: Digest,
    /// The CPUs that the client was allowed to use, as the kernel reports them (`Cpus_allowed_list`).
    pub allowed_cpus: String,
    /// The simulator.
    pub simulator: CalibrationEndpoint,
    /// Streams that the limit of open files allows one client to have open at a time.
    pub open_streams: Count,
    /// The limits of a level.
    pub limits: CalibrationLimits,
    /// The levels, in the order in which they were measured.
    pub levels: Vec<CalibrationLevel>,
    /// The public key of the signer. It vouches for nothing by itself: a trust policy names the keys that may sign.
    pub key: Artifact,
}

body!(Calibration, |calibration| {
    let raw = calibration.levels.iter().flat_map(|level| [&level.records, &level.truth]);
    raw.chain([&calibration.key]).collect()
});

impl Calibration {
    /// The name of the public key among the outputs.
    pub const KEY: &'static str = "keys/calibrate.pub";

    /// Returns true unless client and simulator are known to have had CPUs of their own: then each took CPU time from the other.
    pub fn shares_cpus(&self) -> bool {
        let lists = (self.allowed_cpus.parse::<CpuList>(), self.simulator.allowed_cpus.parse::<CpuList>());
        !matches!(lists, (Ok(client), Ok(simulator)) if client.shared_with(&simulator).is_none())
    }

    /// Returns how long its levels were measured.
    pub fn pace(&self) -> CalibrationPace {
        let is_quick = self.levels.iter().any(|level| level.measured_ns.0 < CalibrationPace::FULL_NS);
        if is_quick { CalibrationPace::Quick } else { CalibrationPace::Full }
    }

    /// Returns the ceilings of the units that have one: the highest level below the first that failed. Events per second are those
    /// that arrived at the highest such number of streams.
    pub fn ceilings(&self) -> Vec<CalibratedCeiling> {
        let streams = self.held(LoadUnit::Concurrency);
        let rates = self.held(LoadUnit::RequestsPerS);
        let ceiling = |held: &(Vec<&CalibrationLevel>, bool)| {
            let level = held.0.last()?;
            Some(CalibratedCeiling { unit: level.unit, amount: level.amount, at_least: held.1 })
        };
        let events = streams.0.iter().map(|level| level.events_per_s).reduce(f64::max);
        let events =
            events.map(|amount| CalibratedCeiling { unit: LoadUnit::EventsPerS, amount: amount.floor(), at_least: streams.1 });
        [ceiling(&streams), ceiling(&rates), events].into_iter().flatten().collect()
    }

    /// Returns the levels of a unit below the first that failed, in the order of their amounts, and true if none failed.
    fn held(&self, unit: LoadUnit) -> (Vec<&CalibrationLevel>, bool) {
        let mut levels: Vec<&CalibrationLevel> = self.levels.iter().filter(|level| level.unit == unit).collect();
        levels.sort_by(|one, other| one.amount.total_cmp(&other.amount));
        let all = levels.len();
        let held: Vec<_> = levels.into_iter().take_while(|level| level.holds()).collect();
        let none_failed = held.len() == all;
        (held, none_failed)
    }
}

/// The calibration that holds for the load generator of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationReference {
    /// The digest of its manifest, which is among the readings of the Environment, with its bundle.
    pub manifest: Digest,
    /// The digest of its bundle.
    pub bundle: Digest,
    /// The time at which it began.
    pub calibrated_at: Instant,
    /// Its ceilings.
    pub ceilings: Vec<CalibratedCeiling>,
}

impl CalibrationReference {
    /// The name of the calibration's manifest among the readings of an Environment.
    pub const MANIFEST: &'static str = "calibration/calibration.json";

    /// The name of its bundle among them.
    pub const BUNDLE: &'static str = "calibration/calibration.sigstore.json";

    /// Returns the reference of a calibration.
    pub fn new(manifest: Digest, bundle: Digest, calibration: &Calibration) -> Self {
        Self { manifest, bundle, calibrated_at: calibration.calibrated_at, ceilings: calibration.ceilings() }
    }
}

/// Returns the value of a fact that was observed.
fn observed<T>(fact: &Fact<T>) -> Option<&T> {
    fact.value.as_ref().filter(|_| fact.source == FactSource::Observed)
}

impl HostFacts {
    /// Returns the facts that decide how much load a program makes on this machine: two machines with equal ones make the same load.
    /// Declared facts are left out: a person stated them of a target.
    pub fn load_facts(&self) -> serde_json::Map<String, serde_json::Value> {
        let facts = serde_json::json!({
            "cpu_model": observed(&self.cpu_model),
            "cpu_signature": observed(&self.cpu_signature),
            "microcode": observed(&self.microcode),
            "architecture": observed(&self.architecture),
            "kernel": observed(&self.kernel),
            "virtualization": observed(&self.virtualization),
            "cores": observed(&self.cores),
            "logical_cpus": observed(&self.logical_cpus),
            "usable_cpus": observed(&self.usable_cpus),
            "smt": observed(&self.smt),
            "governor": observed(&self.governor),
            "max_frequency_khz": observed(&self.max_frequency_khz),
            "boost": observed(&self.boost),
            "cpu_millis": observed(&self.cgroup_cpu_millis),
        });
        if let serde_json::Value::Object(facts) = facts { facts } else { serde_json::Map::new() }
    }

    /// Returns the digest of [`HostFacts::load_facts`] in canonical form.
    ///
    /// # Errors
    /// Fails if a fact has no canonical form.
    pub fn machine_digest(&self) -> Result<Digest, CanonicalError> {
        Ok(Digest::compute(&canonical_json(&self.load_facts())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(name: &str) -> Artifact {
        Artifact { name: name.to_owned(), digest: Digest::compute(b""), size: Count(0), media_type: "text/plain".to_owned() }
    }

    fn level(unit: LoadUnit, amount: f64, holds: bool) -> CalibrationLevel {
        CalibrationLevel {
            unit,
            amount,
            run_id: "r".parse().expect("a run id"),
            part: Digest::compute(b"part"),
            trial_id: "w.t.default.p.t0".parse().expect("a trial id"),
            attempt: 0,
            measured_ns: Count(CalibrationPace::FULL_NS),
            requests: Count(10),
            ttft_error: None,
            itl_error: None,
            events_per_s: amount * 50.0 + 0.5,
            client: ClientHealth {
                cpu_user_us: Count(30),
                cpu_system_us: Count(10),
                events: Count(8),
                ..ClientHealth::default()
            },
            missed: if holds { Vec::new() } else { vec![Reason::new("itl_error", "too large")] },
            records: artifact("records"),
            truth: artifact("truth"),
        }
    }

    fn calibration(levels: Vec<CalibrationLevel>) -> Calibration {
        let facts = HostFacts::unknown("a test");
        Calibration {
            calibrated_at: Instant::from_unix_ns(0),
            machine: facts.machine_digest().expect("a digest"),
            facts,
            load_generator: Digest::compute(b"execute"),
            allowed_cpus: "0-1".to_owned(),
            simulator: CalibrationEndpoint {
                program: Digest::compute(b"simulator"),
                settings: Vec::new(),
                allowed_cpus: "2-3".to_owned(),
            },
            open_streams: Count(100),
            limits: CalibrationLimits { ttft_error_p99_ns: Count(1), itl_error_p99_ns: Count(1), lateness_p99_ns: Count(1) },
            levels,
            key: artifact("key"),
        }
    }

    fn ceilings(levels: &[(LoadUnit, f64, bool)]) -> Vec<(LoadUnit, f64, bool)> {
        let levels = levels.iter().map(|(unit, amount, holds)| level(*unit, *amount, *holds)).collect();
        let ceilings = calibration(levels).ceilings();
        ceilings.into_iter().map(|ceiling| (ceiling.unit, ceiling.amount, ceiling.at_least)).collect()
    }

    #[test]
    fn one_short_level_makes_a_calibration_quick() {
        let [long, mut short] = [1.0, 2.0].map(|streams| level(LoadUnit::Concurrency, streams, true));
        assert_eq!(calibration(vec![long.clone(), short.clone()]).pace(), CalibrationPace::Full);
        short.measured_ns.0 -= 1;
        assert_eq!(calibration(vec![long, short]).pace(), CalibrationPace::Quick);
    }

    #[test]
    fn a_ceiling_is_the_highest_level_below_the_first_that_failed() {
        use LoadUnit::{Concurrency, EventsPerS, RequestsPerS};
        let both =
            [(Concurrency, 64.0, true), (Concurrency, 1.0, true), (RequestsPerS, 500.0, true), (RequestsPerS, 1000.0, false)];
        assert_eq!(ceilings(&both), [(Concurrency, 64.0, true), (RequestsPerS, 500.0, false), (EventsPerS, 3200.0, true)]);
        let gap = [(Concurrency, 1.0, true), (Concurrency, 2.0, false), (Concurrency, 4.0, true)];
        assert_eq!(ceilings(&gap), [(Concurrency, 1.0, false), (EventsPerS, 50.0, false)], "4 held by luck");
        assert_eq!(ceilings(&[(Concurrency, 1.0, false)]), [], "not even one");
        assert_eq!(ceilings(&[]), []);
    }

    #[test]
    fn cpus_are_shared_unless_the_lists_show_that_they_are_not() {
        let mut of = calibration(Vec::new());
        assert!(!of.shares_cpus());
        of.simulator.allowed_cpus = "1-3".to_owned();
        assert!(of.shares_cpus());
        of.simulator.allowed_cpus = "unknown".to_owned();
        assert!(of.shares_cpus(), "nothing shows that they are not");
    }

    #[test]
    fn the_cost_of_an_event_is_the_cpu_time_of_the_client() {
        let mut one = level(LoadUnit::Concurrency, 1.0, true);
        assert_eq!(one.cpu_per_event_ns(), Some(5_000.0));
        one.client.events = Count(0);
        assert_eq!(one.cpu_per_event_ns(), None);
    }

    #[test]
    fn another_processor_is_another_machine_and_another_boot_is_not() {
        let of = |change: fn(&mut HostFacts)| {
            let mut facts = HostFacts::unknown("a test");
            change(&mut facts);
            facts.machine_digest().expect("a digest")
        };
        let same = of(|_| {});
        assert_eq!(of(|facts| facts.boot_id = crate::Fact::observed("b".to_owned(), "")), same);
        assert_ne!(of(|facts| facts.cpu_model = crate::Fact::observed("b".to_owned(), "")), same);
    }
}
