//! Planted waits of a run's own objects for their place in a cluster, which rules read from the facts that the cluster reported.
//!
//! A run's Jobs come one after the other to a cluster of some places, which jobs of others come to as well, at random times and for random times: first come,
//! first served. The fault is that others ask for more than there is. Nothing draws a wait: it is what is left of the places. So the waits of a run depend
//! on each other, as real ones do, although the tests of the rules take them to be independent; the recordings without a fault count how much that costs.

use assay_diagnosis::{ClusterEvent, Conclusion, Explanation, Pair, Window, explain, rules};
use assay_manifest::Instant;
use assay_telemetry::cluster::{ClusterEvent as Fact, ClusterEvents, read_sacct};
use serde_json::{Value, json};

use crate::random::Draws;
use crate::report::{listed, share};
use crate::score::SeedSet;

/// The beginning of a run, in seconds since 1970. The cluster has been in use since [`BEFORE_S`] before it.
const START_S: f64 = 1_790_000_000.0;
const BEFORE_S: f64 = 36_000.0;

/// The time from one attempt of the Kubernetes scheduler at a pod until the next, on average: each pod of others that ends is a reason for one, and else five
/// minutes are (`podMaxInUnschedulablePodsDuration`).
const RETRY_S: f64 = 60.0;

/// The period of the main loop of Slurm's scheduler (`sched_interval`).
const SLURM_LOOP_S: f64 = 60.0;

/// The recordings of each kind with the fault, and without: they have no engine, and take no time.
const PLANTED: u32 = 200;
const CLEAN: u32 = 2_000;

/// The use of a cluster by others in both runs of a recording, or the fault in the second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Others ask for at most 60 % of the places, and in the second run for more than there are.
    Overloaded,
    /// Others ask for at most 60 % of the places.
    WithRoom,
    /// Others ask for 60 to 98 % of the places: some waits are long, by chance, and those of a run depend on each other most.
    NearlyFull,
}

/// The place that a run's objects wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    Quota,
    Node,
    Slurm,
}

impl Waiting {
    pub(crate) const ALL: [Self; 3] = [Self::Quota, Self::Node, Self::Slurm];

    /// Returns its name, and the rule that names it.
    pub(crate) fn description(self) -> (&'static str, &'static str) {
        match self {
            Self::Quota => ("a Kueue queue whose quota others use", "workload-quota-wait"),
            Self::Node => ("nodes that pods of others fill", "pods-unschedulable"),
            Self::Slurm => ("a Slurm partition that jobs of others fill", "slurm-wait"),
        }
    }
}

/// The cluster, and the run's use of it.
#[derive(Clone, Copy)]
struct Load {
    places: u32,
    /// The mean time that a job of others takes.
    others_s: f64,
    /// The share of the places that others ask for.
    asked: f64,
    /// The number of the run's Jobs, and the time that each takes.
    jobs: u32,
    job_s: f64,
}

/// A Job of the run: its creation, and the time until it got its place.
struct Waited {
    created_s: f64,
    wait_s: f64,
}

impl Load {
    fn draw(draws: &mut Draws) -> Self {
        Self {
            places: 4 + draws.below(13),
            others_s: draws.log_between(300.0, 3_600.0),
            asked: draws.between(0.1, 0.6),
            jobs: 3 + draws.below(6),
            job_s: draws.log_between(120.0, 900.0),
        }
    }

    /// Runs the Jobs one after the other among those of others.
    fn run(&self, mut draws: Draws) -> Vec<Waited> {
        let mut free_s = vec![-BEFORE_S; self.places as usize];
        let between_s = self.others_s / (self.asked * f64::from(self.places));
        let mut other_s = -BEFORE_S + draws.exponential(between_s);
        let (mut own_s, mut waited) = (0.0, Vec::new());
        while waited.len() < self.jobs as usize {
            let is_own = own_s <= other_s;
            let (created_s, takes_s) = if is_own { (own_s, self.job_s) } else { (other_s, draws.exponential(self.others_s)) };
            free_s.sort_by(f64::total_cmp);
            let got_s = created_s.max(free_s[0]);
            free_s[0] = got_s + takes_s;
            if is_own {
                waited.push(Waited { created_s, wait_s: got_s - created_s });
                own_s = got_s + takes_s;
            } else {
                other_s += draws.exponential(between_s);
            }
        }
        waited
    }
}

/// The result of a recording.
pub(crate) struct Scored {
    waiting: Waiting,
    pub(crate) explanation: Explanation,
}

/// Draws and explains two runs, of which the first has facts only if they were kept.
pub(crate) fn record(set: SeedSet, waiting: Waiting, of: Use, number: u32, is_kept: bool) -> Scored {
    let seed = set.seed(&format!("{waiting:?} {of:?}"), number);
    let mut draws = Draws::new(&seed, "cluster");
    let before = Load::draw(&mut draws);
    let asked = match of {
        Use::Overloaded => [before.asked, draws.between(1.1, 2.0)],
        Use::WithRoom => [before.asked; 2],
        Use::NearlyFull => [draws.between(0.6, 0.98); 2],
    };
    let [before, now] = asked.map(|asked| Load { asked, ..before });
    let mut objects = |load: &Load, run: &str| {
        let waited = load.run(Draws::new(&seed, run));
        waited.iter().enumerate().map(|(number, job)| object(waiting, number, job, &mut draws)).collect::<Vec<_>>()
    };
    let (baseline, candidate) = (objects(&before, "before"), objects(&now, "now"));
    let baseline = if is_kept { baseline } else { Vec::new() };
    let explanation = explain(rules(), &[Pair::of_cluster_objects(baseline, candidate)]);
    Scored { waiting, explanation }
}

/// Returns the facts of a Job, read from what a cluster responds.
fn object(waiting: Waiting, number: usize, job: &Waited, draws: &mut Draws) -> Window {
    let (facts, left_out) = match waiting {
        Waiting::Quota => {
            let read = ClusterEvents::read(b"[]", b"[]", json!([workload(number, job)]).to_string().as_bytes());
            (read.events, read.left_out)
        }
        Waiting::Node => {
            let events: Vec<Value> = (0..=draws.below(3)).flat_map(|pod| pod_events(number, pod, job, draws)).collect();
            let read = ClusterEvents::read(json!(events).to_string().as_bytes(), b"[]", b"[]");
            (read.events, read.left_out)
        }
        Waiting::Slurm => read_sacct("slurm/planted.json", slurm_job(number, job, draws).to_string().as_bytes()),
    };
    assert_eq!(left_out, Vec::<String>::new(), "facts that this program wrote");
    let stage = (waiting == Waiting::Node).then(|| "execute".to_owned());
    Window { events: facts.iter().map(|fact| event(fact, stage.clone())).collect(), ..Window::default() }
}

fn event(fact: &Fact, stage: Option<String>) -> ClusterEvent {
    ClusterEvent {
        object_kind: fact.object.kind.clone(),
        object: fact.object.name.clone().unwrap_or_else(|| fact.object.uid.clone()),
        stage,
        queue: fact.object.queue.clone(),
        event_type: fact.event_type.clone(),
        status: fact.status.clone(),
        reason: fact.reason.clone(),
        count: fact.count,
        after_creation_ns: fact.after_creation_ns(),
        message: fact.message.clone(),
    }
}

/// Returns an instant of whole seconds, as an API server writes it.
fn time(after_start_s: f64) -> String {
    Instant::from_unix_ns(unix_s(after_start_s) * 1_000_000_000).to_seconds()
}

fn unix_s(after_start_s: f64) -> i64 {
    libm::floor(START_S + after_start_s) as i64
}

fn workload(number: usize, job: &Waited) -> Value {
    let got_s = job.created_s + job.wait_s + 0.5;
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "lastTransitionTime": time(got_s)});
    json!({
        "metadata": {"name": format!("job-{number}"), "uid": format!("w-{number}"), "creationTimestamp": time(job.created_s)},
        "spec": {"queueName": "load"},
        "status": {"conditions": [condition("QuotaReserved"), condition("Admitted")]},
    })
}

fn pod_events(number: usize, pod: u32, job: &Waited, draws: &mut Draws) -> Vec<Value> {
    let name = format!("load-{number}-{pod}");
    let event = |kind: &str, reason: &str, count: u64, message: &str| {
        json!({
            "involvedObject": {"kind": "Pod", "name": name, "uid": name}, "type": kind, "reason": reason, "count": count, "message": message,
            "firstTimestamp": time(job.created_s), "lastTimestamp": time(job.created_s + job.wait_s),
        })
    };
    let scheduled = event("Normal", "Scheduled", 1, "Successfully assigned");
    let failures = if job.wait_s > 0.0 { 1 + draws.poisson(job.wait_s / RETRY_S) } else { 0 };
    let failed = event("Warning", "FailedScheduling", failures, "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.");
    [(failures > 0).then_some(failed), Some(scheduled)].into_iter().flatten().collect()
}

fn slurm_job(number: usize, job: &Waited, draws: &mut Draws) -> Value {
    // A job starts when the scheduler next looks.
    let start_s = job.created_s + job.wait_s + SLURM_LOOP_S * draws.unit();
    json!({"jobs": [{
        "job_id": 4_700 + number, "name": "benchmark", "partition": "gpu", "nodes": "gpu-[1-2]", "state": {"current": ["COMPLETED"]},
        "time": {"submission": unix_s(job.created_s), "eligible": unix_s(job.created_s), "start": unix_s(start_s)},
    }]})
}

/// Computes and writes the table of waits: recordings with the fault, and without.
pub(crate) fn table(set: SeedSet, chosen: &[Waiting]) -> String {
    let mut text = String::from(
        "| planted | rule | found (95 % bounds) | first | wrong rules named | cannot tell | found without it, with room | found without it, nearly full |\n\
         | --- | --- | ---: | ---: | --- | ---: | ---: | ---: |\n",
    );
    for waiting in chosen {
        let scored =
            |count: u32, of: Use| -> Vec<Scored> { (0..count).map(|number| record(set, *waiting, of, number, true)).collect() };
        let planted = scored(PLANTED, Use::Overloaded);
        text.push_str(&row(*waiting, &planted, &[Use::WithRoom, Use::NearlyFull].map(|of| scored(CLEAN, of))));
    }
    text
}

fn row(waiting: Waiting, planted: &[Scored], clean: &[Vec<Scored>; 2]) -> String {
    let (name, rule) = waiting.description();
    let count = |of: &[Scored], is: &dyn Fn(&Scored) -> bool| of.iter().filter(|scored| is(scored)).count();
    let found = count(planted, &|scored| scored.rank().is_some());
    let first = count(planted, &|scored| scored.rank() == Some(0));
    let cannot_tell = count(planted, &|scored| scored.explanation.conclusion == Conclusion::CannotTell);
    let [room, full] = clean.each_ref().map(|of| share(count(of, &|scored| !scored.explanation.findings.is_empty()), of.len()));
    let wrong = planted.iter().flat_map(|scored| scored.explanation.findings.iter().map(|finding| finding.rule));
    format!(
        "| {name} | `{rule}` | {} | {first} | {} | {cannot_tell} | {room} | {full} |\n",
        share(found, planted.len()),
        listed(wrong.filter(|found| *found != rule)),
    )
}

impl Scored {
    /// Returns the place of the finding that names the wait, from 0.
    pub(crate) fn rank(&self) -> Option<usize> {
        let (_, rule) = self.waiting.description();
        self.explanation.findings.iter().position(|finding| finding.rule == rule)
    }

    /// Returns true if the rule could be checked.
    #[cfg(test)]
    pub(crate) fn is_judged(&self) -> bool {
        let (_, rule) = self.waiting.description();
        self.explanation.not_checked.iter().all(|unchecked| unchecked.rule != rule)
    }
}
