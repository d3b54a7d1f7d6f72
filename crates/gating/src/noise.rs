//! The noise of a comparison, learned from its earlier runs, as a file for review.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use assay_gate::learning::FEWEST_RUNS;
use assay_gate::rule::{Launches, LearnedNoise};
use assay_gate::{MetricKey, learn};
use assay_manifest::{Digest, Name, RunId};
use assay_report::counted;
use assay_runner::{Config, gate_signers};
use assay_runs::{RunStore, published_runs};
use assay_spec as spec;
use assay_stage::{ErrorCode, Failure};
use assay_stats::BaseNoise;

use crate::evidence::Evidence;
use crate::sequence::{RegressedRuns, regressed_runs, trust_own_gate};

/// The runs to learn noise from.
#[derive(Clone, Debug)]
pub struct NoiseRequest {
    /// The pipeline's file, relative to the repository's root, as its runs name it.
    pub pipeline: String,
    /// The number of newest published runs to learn from.
    pub newest: usize,
    /// The only runs to learn from; the newest ones if it is empty.
    pub runs: Vec<RunId>,
    /// True if noise is also learned from runs of unknown signers.
    pub unestablished: bool,
    /// The store of the runs.
    pub store: RunStore,
}

/// The noise that was learned.
#[derive(Clone, Debug)]
pub struct NoiseFile {
    /// The name of the pipeline.
    pub pipeline: Name,
    /// The noise of each metric.
    pub learned: BTreeMap<MetricKey, LearnedNoise>,
    /// The number of runs that it was learned from.
    pub runs: usize,
    /// The file, as YAML.
    pub text: String,
}

/// An event while noise is learned.
#[derive(Clone, Copy, Debug)]
pub enum NoiseEvent<'a> {
    /// That many verdicts could not be read: they are damaged, or signed by no trusted gate.
    VerdictsUnread(usize),
    /// These runs are left out, because a gate found a regression in them.
    RunsLeftOut(&'a [RunId]),
    /// These runs are left out, because their signers are unknown.
    SignersUnknown(&'a [RunId]),
}

impl NoiseRequest {
    /// Learns the noise, and checks that the file can be read again.
    pub fn learn(&self, report: &dyn Fn(NoiseEvent<'_>)) -> Result<NoiseFile, Failure> {
        let pipeline = self.pipeline.strip_prefix("./").unwrap_or(&self.pipeline);
        let evidence = self.select_runs(pipeline, report)?;
        let parsed = check_pipeline(pipeline, &evidence)?;
        let runs = evidence.iter().map(Evidence::as_run).collect::<Result<Vec<_>, _>>()?;
        let learned = learn(&runs);
        if learned.is_empty() {
            let message = format!("no {FEWEST_RUNS} of the runs of `{pipeline}` compare the same work");
            return Err(Failure::new(ErrorCode::NothingLearned, message).hint(
                "a pipeline teaches noise by its `comparison`, with two pairs or more; a workload that changed is other work",
            ));
        }
        let summaries: Vec<(RunId, Digest)> =
            evidence.iter().map(|run| Ok((run.run_id().clone(), run.summary()?.manifest))).collect::<Result<_, Failure>>()?;
        let text = format_yaml(&parsed.name, &summaries, &learned);
        // No file is written that its reader would refuse.
        if let Err(problems) = spec::Noise::parse("the noise that was learned", text.as_bytes()) {
            return Err(Failure::invalid(&problems));
        }
        Ok(NoiseFile { pipeline: parsed.name, runs: runs.len(), text, learned })
    }

    /// Returns the runs to learn from, oldest first, each once: those that were named, or the newest in which no gate of this
    /// store has found a regression. A known change is no noise.
    fn select_runs(&self, pipeline: &str, report: &dyn Fn(NoiseEvent<'_>)) -> Result<Vec<Evidence>, Failure> {
        let open = |run: &RunId| Evidence::open(&self.store, run.as_str(), self.unestablished);
        if !self.runs.is_empty() {
            let named: BTreeSet<&RunId> = self.runs.iter().collect();
            require_enough(pipeline, named.len(), "to learn from")?;
            return named.into_iter().map(open).collect();
        }
        let store = self.store.open_store()?;
        let published = published_runs(&store, pipeline)?;
        check_exists(pipeline, published.len())?;
        require_enough(pipeline, published.len(), "of commits to learn from")?;
        let own = gate_signers(&Config::find()?)?;
        let mut unknown = Vec::new();
        let known = published.iter().rev().filter_map(|run| match open(run) {
            Err(failure) if failure.code == ErrorCode::UnknownKey => {
                unknown.push(run.clone());
                None
            }
            opened => Some(opened.map(|evidence| (run, evidence))),
        });
        let mut newest_first = known.peekable();
        let regressed = match newest_first.peek() {
            Some(Ok((_, evidence))) => regressed_runs(&store, &trust_own_gate(&evidence.verified_run().trust, &own))?,
            _ => RegressedRuns::default(),
        };
        let (mut accepted, mut left_out) = (Vec::new(), Vec::new());
        for opened in newest_first {
            let (run, evidence) = opened?;
            if regressed.summaries.contains(&evidence.summary()?.manifest) {
                left_out.push(run.clone());
            } else {
                accepted.push(evidence);
            }
            if accepted.len() == self.newest {
                break;
            }
        }
        if !unknown.is_empty() {
            report(NoiseEvent::SignersUnknown(&unknown));
        }
        if regressed.unread > 0 {
            report(NoiseEvent::VerdictsUnread(regressed.unread));
        }
        if !left_out.is_empty() {
            report(NoiseEvent::RunsLeftOut(&left_out));
        }
        require_enough(pipeline, accepted.len(), "to learn from in which nothing regressed")?;
        accepted.reverse();
        Ok(accepted)
    }
}

/// Refuses fewer runs than are needed to learn from; `of` names the runs that were counted.
fn require_enough(pipeline: &str, found: usize, of: &str) -> Result<(), Failure> {
    if found >= FEWEST_RUNS {
        return Ok(());
    }
    let message = format!("`{pipeline}` has {} {of}, and {FEWEST_RUNS} are needed", counted(found as u64, "run"));
    Err(Failure::new(ErrorCode::TooFewRuns, message)
        .hint("`assay runs` lists what a store has; the file is named from the repository's root, as `pipelines/nightly.yaml`"))
}

/// Fails if neither a run nor this checkout has the pipeline: its path is wrong.
fn check_exists(pipeline: &str, found: usize) -> Result<(), Failure> {
    if found > 0 || Path::new(pipeline).is_file() {
        return Ok(());
    }
    Err(Failure::new(ErrorCode::Unreadable, format!("there is no file `{pipeline}`, and the store has no run of it"))
        .hint("name the file from the repository's root, as `pipelines/nightly.yaml`"))
}

/// Returns the pipeline of all these runs.
fn check_pipeline(wanted: &str, evidence: &[Evidence]) -> Result<spec::Pipeline, Failure> {
    let mut newest = Err(Failure::new(ErrorCode::Internal, "there is no run to learn from"));
    for run in evidence {
        let own = run.own_pipeline()?;
        if own.path != wanted {
            let message = format!("run `{}` ran `{}`, which teaches nothing of `{wanted}`", run.run_id(), own.path);
            return Err(Failure::new(ErrorCode::RunOfOtherPipeline, message));
        }
        newest = spec::Pipeline::parse(&own.path, &own.bytes).map_err(|problems| Failure::invalid(&problems));
    }
    newest
}

fn format_yaml(pipeline: &Name, runs: &[(RunId, Digest)], learned: &BTreeMap<MetricKey, LearnedNoise>) -> String {
    let mut text = format!(
        "# Written by `assay noise`. Spreads are standard deviations of logarithms of ratios: 0.02 is about 2 %.\n\
         apiVersion: {}\nkind: Noise\nmetadata: {{name: \"{pipeline}\"}}\nspec:\n  learned_from:\n",
        spec::API_VERSION
    );
    for (run, summary) in runs {
        let _ = writeln!(text, "    - {{run: \"{run}\", summary: \"{}\"}}", summary.hex());
    }
    text.push_str("  metrics:\n");
    for (of, LearnedNoise { noise, launches, autocorrelation }) in learned {
        let Launches { sd: launch, n: launches, largest } = launches.unwrap_or(Launches { sd: 0.0, n: 1, largest: 0.0 });
        let _ = writeln!(
            text,
            "    - workload: \"{}\"\n      work: \"{}\"\n      point: \"{}\"\n      metric: \"{}\"\n      unit: {}\n      pair: {}\n      freedom: {}\n      worth: {}\n      \
             launch: {}\n      launches: {launches}\n      largest_shift: {}",
            of.workload,
            of.work.hex(),
            of.point,
            of.metric,
            of.unit,
            short(noise.sd),
            short(noise.freedom),
            short(noise.worth),
            short(launch),
            short(largest)
        );
        if let Some(BaseNoise { sd, freedom, worth, spikes }) = noise.base {
            let _ = writeln!(
                text,
                "      usual: {{pair: {}, freedom: {}, worth: {}, spikes: {}, differences: {}}}",
                short(sd),
                short(freedom),
                short(worth),
                spikes.seen,
                spikes.among
            );
        }
        if let Some(correlation) = autocorrelation {
            let _ = writeln!(text, "      autocorrelation: {}", short(*correlation));
        }
    }
    text
}

/// Formats a number with four digits: so few runs determine no more.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0.0".to_owned();
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(1, 12);
    format!("{value:.*}", digits as usize)
}
