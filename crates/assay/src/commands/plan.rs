//! `assay plan`: what a pipeline would run, without running anything.

use std::time::Duration;

use assay_manifest::{Case, PlannedTrial};
use assay_process::{Cancel, Spawner};
use assay_runner::{SourceSpec, default_store, read_source};
use assay_schedule::{OrderRules, order_digest, order_trials};
use assay_spec::{Closure, Workload, expand};
use assay_stage::{Exit, Failure};
use assay_store::Store;
use serde_json::json;

use crate::commands::estimate::estimate;
use crate::output;

/// Cases shown before the rest is only counted.
const SHOWN: usize = 100;

/// Shows cases, points, trials and how long they take. Fetches nothing; what only a network could pin is named.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// The pipeline's file
    #[arg(value_name = "PIPELINE")]
    pipeline: String,
    /// The revision; the work tree if left out
    #[arg(long, value_name = "REV")]
    commit: Option<String>,
    /// The repository: a folder, or an address that `git` can fetch
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,
    /// The artifact store, whose earlier runs tell how long; `.assay` of the repository if left out
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How long the trials will take.
struct Time {
    /// If every one runs into its limit once.
    bound: Duration,
    /// By what the cases took before; none where one of them was never run.
    estimate: Option<Duration>,
}

/// One frozen workload, as far as it is without a network.
struct Outlined {
    name: String,
    digest: assay_manifest::Digest,
    unpinned: Vec<String>,
    limit: Duration,
}

impl Plan {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let system = |error: std::io::Error| Failure::environment("system", "cannot start a thread").because(&error);
        let scratch = tempfile::tempdir().map_err(system)?;
        let spec = SourceSpec {
            pipeline: self.pipeline.clone(),
            repo: self.repo.clone(),
            commit: self.commit.clone(),
            ..SourceSpec::default()
        };
        let source = read_source(&spec, scratch.path(), &Spawner::start().map_err(system)?, &Cancel::new().map_err(system)?)?;
        let closure = &source.closure;
        let workloads = closure.workloads.iter().map(|workload| outline(closure, workload)).collect::<Result<Vec<_>, _>>()?;
        let cases = expand(&closure.pipeline, &closure.workloads).map_err(|problems| Failure::invalid(&problems))?;
        let trials = ordered(closure, &cases, &workloads)?;
        let time = Time { bound: bound(closure, &cases, &workloads), estimate: self.estimate(closure, &cases)? };
        if self.json {
            print_json(closure, &cases, &trials, &workloads, &time)?;
        } else {
            print(closure, &cases, &trials, &workloads, &time);
        }
        Ok(Exit::Done)
    }

    /// By the runs of the store, where there is one.
    fn estimate(&self, closure: &Closure, cases: &[Case]) -> Result<Option<Duration>, Failure> {
        let uri = self.store.clone().map_or_else(default_store, Ok)?;
        match Store::open_existing(&uri) {
            Ok(store) => estimate(&store, cases, closure.pipeline.spec.trials.count),
            Err(_) if self.store.is_none() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn outline(closure: &Closure, workload: &Workload) -> Result<Outlined, Failure> {
    let frozen = workload.freeze(&closure.pins_of(workload)).map_err(|error| Failure::of(Exit::Definition, "freeze", &error))?;
    Ok(Outlined {
        name: workload.name.to_string(),
        digest: frozen.digest,
        unpinned: frozen.unpinned,
        limit: workload.spec.time_limit,
    })
}

fn ordered(closure: &Closure, cases: &[Case], workloads: &[Outlined]) -> Result<Vec<PlannedTrial>, Failure> {
    let spec = &closure.pipeline.spec;
    let rules = OrderRules {
        trials: spec.trials.count,
        comparison: spec.comparison.as_ref(),
        placement: spec.placement,
        isolation: spec.isolation,
    };
    let seed = assay_schedule::order_seed(spec.trials.order_seed.as_deref(), workloads.iter().map(|workload| workload.digest))
        .map_err(|error| Failure::of(Exit::Definition, "order_seed", &error))?;
    order_trials(cases, &rules, &seed).map_err(|error| Failure::of(Exit::Definition, "order", &error))
}

/// The longest that the trials can take, if every one runs into its limit once.
fn bound(closure: &Closure, cases: &[Case], workloads: &[Outlined]) -> Duration {
    let limit = |case: &Case| {
        workloads
            .iter()
            .find(|workload| workload.name == case.workload.as_str())
            .map_or(Duration::ZERO, |workload| workload.limit)
    };
    let trials =
        |case: &Case| u32::try_from(case.points.len()).unwrap_or(u32::MAX).saturating_mul(closure.pipeline.spec.trials.count);
    cases.iter().map(|case| limit(case).saturating_mul(trials(case))).fold(Duration::ZERO, Duration::saturating_add)
}

fn print(closure: &Closure, cases: &[Case], trials: &[PlannedTrial], workloads: &[Outlined], time: &Time) {
    let points: usize = cases.iter().map(|case| case.points.len()).sum();
    let spec = &closure.pipeline.spec;
    output::line(format!(
        "{}: {} cases, {points} points, {} trials ({} each), intent {}",
        closure.pipeline.name,
        cases.len(),
        trials.len(),
        spec.trials.count,
        spec.intent
    ));
    if let Some(estimate) = time.estimate {
        output::line(format!("about {} of trials, by what these cases took before", human(estimate)));
    }
    output::line(format!("at most {} of trials, if every one runs into its time limit", human(time.bound)));
    for workload in workloads {
        output::line(format!("workload  {:<32} {}", workload.name, workload.digest));
        for what in &workload.unpinned {
            output::line(format!("          unpinned: {what}"));
        }
    }
    for case in cases.iter().take(SHOWN) {
        let shown: Vec<_> = case.points.iter().take(12).map(|point| point.point_id.as_str()).collect();
        let more = case.points.len().saturating_sub(shown.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        output::line(format!("case      {:<40} {}{more}", case.case_id, shown.join(" ")));
    }
    if cases.len() > SHOWN {
        output::line(format!("          and {} more cases", cases.len() - SHOWN));
    }
    let first: Vec<_> = trials.iter().take(6).map(|trial| trial.trial_id.as_str()).collect();
    output::line(format!("order     {}", order_digest(trials)));
    output::line(format!("          {}{}", first.join(", "), if trials.len() > first.len() { ", ..." } else { "" }));
}

/// A length of time as people say it.
fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

fn print_json(
    closure: &Closure,
    cases: &[Case],
    trials: &[PlannedTrial],
    workloads: &[Outlined],
    time: &Time,
) -> Result<(), Failure> {
    let workloads: Vec<_> = workloads
        .iter()
        .map(|workload| json!({"name": workload.name, "workload_spec_digest": workload.digest, "unpinned": workload.unpinned}))
        .collect();
    output::json(&json!({
        "pipeline": closure.pipeline.name,
        "intent": closure.pipeline.spec.intent,
        "workloads": workloads,
        "cases": cases,
        "trials": trials,
        "order_digest": order_digest(trials),
        "time_bound_seconds": time.bound.as_secs(),
        "time_estimate_seconds": time.estimate.map(|estimate| estimate.as_secs_f64()),
    }))
}
