//! `assay noise`: learns the noise of a comparison from its earlier runs, and writes it as a file for review.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use assay_gate::learning::FEWEST_RUNS;
use assay_gate::rule::{Launches, LearnedNoise};
use assay_gate::{MetricKey, learn};
use assay_gating::{Evidence, RegressedRuns, regressed_runs, trust_own_gate};
use assay_manifest::{Digest, Name, RunId};
use assay_report::{counted, percent};
use assay_runner::{Config, gate_signers};
use assay_runs::published_runs;
use assay_spec as spec;
use assay_stage::{ErrorCode, Exit, Failure};
use assay_stats::BaseNoise;
use assay_store::Store;

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
        let pipeline = self.pipeline.strip_prefix("./").unwrap_or(&self.pipeline);
        let evidence = self.select_runs(pipeline)?;
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
        match &self.to {
            None => output::lines(text.trim_end()),
            Some(file) => {
                write_file(file, &text)?;
                let (metrics, runs) = (counted(learned.len() as u64, "metric"), counted(runs.len() as u64, "run"));
                output::diagnostic(format!("{metrics} of {runs}: {}", file.display()));
                output::diagnostic(describe_spreads(&learned));
                let wanted = spec::Noise::path_of(&parsed.name);
                output::diagnostic(format!("gates read `{wanted}` of the branch that is merged into: merge it there"));
            }
        }
        Ok(Exit::Done)
    }

    /// Returns the runs to learn from, oldest first, each once: those that were named, or the newest in which no gate of this
    /// store has found a regression. A known change is no noise.
    fn select_runs(&self, pipeline: &str) -> Result<Vec<Evidence>, Failure> {
        let open = |run: &RunId| Evidence::open(&self.place.runs(), run.as_str(), self.unestablished);
        if !self.runs.is_empty() {
            let named: BTreeSet<&RunId> = self.runs.iter().collect();
            require_enough(pipeline, named.len(), "to learn from")?;
            return named.into_iter().map(open).collect();
        }
        let store = Store::open_existing(&self.place.runs().store_uri()?)?;
        let published = published_runs(&store, pipeline)?;
        require_enough(pipeline, published.len(), "of commits to learn from")?;
        let own = gate_signers(&Config::find()?)?;
        let mut newest_first = published.iter().rev().map(|run| open(run).map(|evidence| (run, evidence))).peekable();
        let regressed = match newest_first.peek() {
            Some(Ok((_, evidence))) => regressed_runs(&store, &trust_own_gate(&evidence.verified_run().trust, &own))?,
            _ => RegressedRuns::default(),
        };
        let (mut teachers, mut left_out) = (Vec::new(), Vec::new());
        for opened in newest_first {
            let (run, evidence) = opened?;
            if regressed.summaries.contains(&evidence.summary()?.manifest) {
                left_out.push(run.to_string());
            } else {
                teachers.push(evidence);
            }
            if teachers.len() == self.newest {
                break;
            }
        }
        if regressed.unread > 0 {
            output::diagnostic(describe_unread(regressed.unread));
        }
        if !left_out.is_empty() {
            let runs = counted(left_out.len() as u64, "run");
            output::diagnostic(format!(
                "{runs} left out, of which a gate says that something regressed: {}",
                left_out.join(", ")
            ));
        }
        require_enough(pipeline, teachers.len(), "to learn from in which nothing regressed")?;
        teachers.reverse();
        Ok(teachers)
    }
}

/// Describes the verdicts that could not be read.
fn describe_unread(verdicts: usize) -> String {
    let verdicts = counted(verdicts as u64, "verdict");
    format!(
        "{verdicts} could not be read, being damaged or signed by no trusted gate: a run that regressed may be among the teachers"
    )
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
            "pairs of {} resemble those before them: a change has to clear what whole runs differ by",
            counted(dependent, "metric")
        )
    });
    pair.into_iter().chain(launch).chain(spiked).chain(dependent).collect::<Vec<_>>().join("; ")
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
