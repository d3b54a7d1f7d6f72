//! `assay noise`: learns the noise of a comparison from its earlier runs, and writes it as a file for review.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assay_gate::MetricKey;
use assay_gate::learning::FEWEST_RUNS;
use assay_gate::rule::LearnedNoise;
use assay_gating::{NoiseEvent, NoiseFile, NoiseRequest};
use assay_manifest::RunId;
use assay_report::{counted, percent};
use assay_spec as spec;
use assay_stage::{ErrorCode, Exit, Failure};

use crate::commands::store_options::StoreOptions;
use crate::output;

/// The default number of runs to learn from.
const NEWEST: usize = 30;

/// Learn the noise of a pipeline's comparison from its earlier runs: the differences of pairs and of launches.
///
/// The result belongs in `pipelines/noise/<pipeline>.yaml` of the target branch, by a separate pull request. Gates judge by it,
/// and `assay plan` sizes comparisons by it. Runs with equal sides (main against main, every night) are best, because a real
/// difference counts as noise.
#[derive(clap::Args)]
pub(crate) struct LearnNoise {
    /// The pipeline's file, relative to the repository's root, as its runs name it
    #[arg(value_name = "PIPELINE")]
    pipeline: String,
    /// The number of newest published runs to learn from
    #[arg(long, value_name = "N", default_value_t = NEWEST, value_parser = newest)]
    newest: usize,
    /// Learn only from these runs
    #[arg(long = "run", value_name = "RUN")]
    runs: Vec<RunId>,
    /// The file to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Learn from runs of unknown signers
    #[arg(long)]
    unestablished: bool,
    #[command(flatten)]
    place: StoreOptions,
}

fn newest(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (FEWEST_RUNS..=200).contains(count));
    count.ok_or_else(|| format!("a number from {FEWEST_RUNS} to 200 is needed"))
}

impl LearnNoise {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let request = NoiseRequest {
            pipeline: self.pipeline.clone(),
            newest: self.newest,
            runs: self.runs.clone(),
            unestablished: self.unestablished,
            store: self.place.runs(),
        };
        let NoiseFile { pipeline, learned, runs, text } = request.learn(&|event| output::diagnostic(describe(event)))?;
        match &self.to {
            None => output::lines(text.trim_end()),
            Some(file) => {
                write_file(file, &text)?;
                let (metrics, runs) = (counted(learned.len() as u64, "metric"), counted(runs as u64, "run"));
                output::diagnostic(format!("{metrics} of {runs}: {}", file.display()));
                output::diagnostic(describe_spreads(&learned));
                let wanted = spec::Noise::path_of(&pipeline);
                output::diagnostic(format!("gates read `{wanted}` of the target branch: merge it there"));
            }
        }
        Ok(Exit::Done)
    }
}

/// Describes an event in one line.
fn describe(event: NoiseEvent<'_>) -> String {
    match event {
        NoiseEvent::VerdictsUnread(verdicts) => {
            let verdicts = counted(verdicts as u64, "verdict");
            format!(
                "{verdicts} could not be read, being damaged or signed by no trusted gate: the noise may have been learned from a run that regressed"
            )
        }
        NoiseEvent::RunsLeftOut(left_out) => {
            let runs = counted(left_out.len() as u64, "run");
            let names: Vec<&str> = left_out.iter().map(RunId::as_str).collect();
            format!("{runs} left out because a gate found a regression in them: {}", names.join(", "))
        }
        NoiseEvent::SignersUnknown(left_out) => {
            let runs = counted(left_out.len() as u64, "run");
            let names: Vec<&str> = left_out.iter().map(RunId::as_str).collect();
            format!("{runs} left out because their signers are unknown: {}", names.join(", "))
        }
    }
}

fn write_file(file: &Path, text: &str) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(file, text))
        .map_err(|error| Failure::new(ErrorCode::Output, format!("cannot write `{}`", file.display())).because(&error).lasting())
}

/// Describes the largest spreads, which decide how many pairs are needed.
fn describe_spreads(learned: &BTreeMap<MetricKey, LearnedNoise>) -> String {
    let widest = |of: fn(&LearnedNoise) -> f64| learned.iter().max_by(|left, right| of(left.1).total_cmp(&of(right.1)));
    let told = |what: &str, of: fn(&LearnedNoise) -> f64| {
        widest(of).map(|(taught, learned)| {
            format!("{what}: at most {}, {} of {} at {}", percent(of(learned)), taught.metric, taught.workload, taught.point)
        })
    };
    let pair = told("noise of a pair", |learned| learned.noise.without_spikes().sd);
    let launch = told("of a launch", |learned| learned.launches.map_or(0.0, |launches| launches.sd));
    let count = |is: fn(&LearnedNoise) -> bool| learned.values().filter(|learned| is(learned)).count() as u64;
    let spiked = count(|learned| learned.noise.base.is_some());
    let spiked = (spiked > 0).then(|| format!("{} with spikes", counted(spiked, "metric")));
    let dependent = count(|learned| learned.autocorrelation.is_some());
    let dependent = (dependent > 0).then(|| {
        format!(
            "neighbouring pairs of {} are correlated: a change has to exceed the differences between whole runs",
            counted(dependent, "metric")
        )
    });
    pair.into_iter().chain(launch).chain(spiked).chain(dependent).collect::<Vec<_>>().join("; ")
}
