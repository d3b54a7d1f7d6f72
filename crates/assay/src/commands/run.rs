//! `assay run`: takes a pipeline from a commit to its published numbers.

use std::collections::BTreeSet;
use std::fmt;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use assay_envelope::ScryptCost;
use assay_gating::judge_own_comparison;
use assay_manifest::{
    CaseId, Collection, Exclusion, InputRef, LastingReason, Plan, PointSummary, Publication, RunId, Summary, TrialId, Verdict,
    WorkloadType,
};
use assay_process::Cancel;
use assay_report::shell_word;
use assay_runner::{
    BranchPush, CommittedFolder, Config, DriverTimes, MetricsPush, Pushes, Run as Driven, RunSpec, SourceSpec, UnusedName,
    export, init_keys,
};
use assay_runs::{RunStore, VerifiedRun, store_option};
use assay_stage::parameters::PlanParameters;
use assay_stage::{ErrorCode, Exit, Failure, first_names, key_password};
use assay_store::Store;
use serde_json::json;

use crate::commands::bench::search::Search;
use crate::commands::exec::comparison::{CommandComparison, comparison_json, comparison_lines};
use crate::commands::gpu_hours::{GpuHoursLimit, IN_PIPELINE};
use crate::commands::hot_metrics::{self, PushedMetrics};
use crate::commands::import::show_original;
use crate::commands::on_kubernetes::OnKubernetes;
use crate::commands::push;
use crate::commands::results::{published_numbers, results};
use crate::commands::times;
use crate::output;
use crate::progress::{Detail, Progress};

/// Run a pipeline, or the definition of another tool as it is. The same run id resumes an unfinished run and shows a finished one.
#[derive(clap::Args)]
pub(crate) struct Run {
    /// The pipeline's file, or a file that `assay import` recognises
    #[arg(value_name = "PIPELINE")]
    pipeline: String,
    /// The revision to run [default: the work tree, or its commit if nothing differs]
    #[arg(long, value_name = "REV")]
    commit: Option<String>,
    /// The repository: a folder, or an address that `git` can fetch
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,
    /// The artifact store [default: `.assay` of the repository]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// The run's name [default: a new one]
    #[arg(long = "run-id", value_name = "ID")]
    name: Option<RunId>,
    /// Fetch nothing: inputs that only a network can pin stay unpinned
    #[arg(long)]
    no_fetch: bool,
    /// Do not commit to the branch that the pipeline names, and push no hot metrics
    #[arg(long)]
    no_push: bool,
    #[command(flatten)]
    limit: GpuHoursLimit,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
    /// The runner of the stages
    #[arg(long, value_enum, default_value_t = RunnerKind::Local)]
    on: RunnerKind,
    #[command(flatten)]
    in_cluster: OnKubernetes,
}

/// The runner of the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RunnerKind {
    /// Processes on this machine
    Local,
    /// Jobs in a Kubernetes cluster
    Kubernetes,
}

impl Run {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let source = SourceSpec { pipeline: self.pipeline, repo: self.repo, commit: self.commit, ..SourceSpec::default() };
        self.limit.budget(IN_PIPELINE).take_source(&source)?;
        let plan = PlanParameters { fetch: !self.no_fetch, ..PlanParameters::default() };
        let asked = RunRequest {
            source,
            store: self.store,
            name: self.name,
            plan,
            json: self.json,
            command: "assay run",
            search: None,
            comparison: None,
        };
        match self.on {
            RunnerKind::Kubernetes => self.in_cluster.run(&asked, !self.no_push, !self.no_fetch),
            RunnerKind::Local if self.no_push => asked.run_without_push(),
            RunnerKind::Local => asked.run(),
        }
    }
}

/// A requested run, defined by a pipeline or by options.
pub(crate) struct RunRequest {
    pub(crate) source: SourceSpec,
    pub(crate) store: Option<String>,
    pub(crate) name: Option<RunId>,
    pub(crate) plan: PlanParameters,
    pub(crate) json: bool,
    /// The command that shows it.
    pub(crate) command: &'static str,
    /// The search that its loads come from.
    pub(crate) search: Option<Search>,
    /// The treatment of the comparison that it makes, if its verdict is shown with the result.
    pub(crate) comparison: Option<CommandComparison>,
}

/// The parts of a result that its manifests do not have.
struct ShownParts<'a> {
    /// The published folder.
    folder: &'a Path,
    pushed: Option<&'a CommittedFolder>,
    metrics: &'a PushedMetrics,
    store_uri: &'a str,
    times: &'a [DriverTimes],
    /// The verdict on the comparison of two commands.
    verdict: Option<&'a Verdict>,
}

/// A run that is finished and verified.
pub(crate) struct Finished {
    run: Driven,
    publication: InputRef,
    /// The run as its store has it.
    pub(crate) opened: VerifiedRun,
    pushes: Pushes,
}

/// Names a store that was removed meanwhile as what failed. The driver itself had it: what is missing without it is missing for no other reason, and
/// what was shown is in it no more.
fn check_store_stayed<T>(run: &Driven, done: Result<T, Failure>) -> Result<T, Failure> {
    run.store.check_there().map_err(|vanished| match &done {
        Ok(_) => Failure::from(vanished),
        Err(failure) => Failure::from(vanished).because(failure),
    })?;
    done
}

/// Makes signals end what runs.
pub(crate) fn handle_signals() -> Result<Cancel, Failure> {
    assay_process::cancel_on_signals(&assay_process::END_SIGNALS)
        .map_err(|error| Failure::new(ErrorCode::Signals, "cannot handle signals").because(&error))
}

impl RunRequest {
    /// Runs it to its end, commits the published folder if its pipeline names a branch, and shows the result.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        self.finish(true)
    }

    /// Runs it to its end and shows the result.
    pub(crate) fn run_without_push(self) -> Result<Exit, Failure> {
        self.finish(false)
    }

    fn finish(self, pushes: bool) -> Result<Exit, Failure> {
        self.finish_until(pushes, &handle_signals()?)
    }

    /// Like [`run`](Self::run), for a caller that handles signals itself.
    pub(crate) fn run_until(self, cancel: &Cancel) -> Result<Exit, Failure> {
        self.finish_until(true, cancel)
    }

    fn finish_until(self, pushes: bool, cancel: &Cancel) -> Result<Exit, Failure> {
        let Finished { run, publication, opened, pushes } = self.drive(pushes, Detail::Stages, cancel)?;
        let shown = self.present(&run, publication, &run.store, &opened, &pushes, cancel);
        check_store_stayed(&run, shown)
    }

    /// Runs it to its end.
    pub(crate) fn drive(&self, pushes: bool, detail: Detail, cancel: &Cancel) -> Result<Finished, Failure> {
        assay_stage::begin_binary_digest();
        let config = Config::find()?;
        let password = key_password();
        let password = password.as_encoded_bytes();
        make_missing_keys(&config, password)?;
        let spec = RunSpec {
            source: self.source.clone(),
            store: self.store.clone(),
            run_id: self.name.clone(),
            plan: self.plan.clone(),
            binaries: binaries()?,
            trust: None,
        };
        let run = Driven::open(&spec, &config, password, cancel)?;
        let pushes = if pushes { run.find_pushes()? } else { Pushes::NONE };
        let publication = if let Some(publication) = run.published()? {
            output::diagnostic(format!("`{}` is finished: nothing was measured, and its result is shown again", run.run_id));
            publication
        } else {
            let mut progress = Progress::new(self.json, std::io::stderr().is_terminal(), detail);
            self.show_import(&run);
            hot_metrics::check_secrets(&pushes)?;
            progress.begin(&run);
            run.drive(&mut progress).map_err(|error| self.with_new_name(&run, error.into()))?.publication
        };
        let store = RunStore { store: Some(run.store_uri.clone()), trust: Vec::new() };
        let opened = check_store_stayed(&run, store.open_in(run.store.clone(), &run.run_id))?;
        Ok(Finished { run, publication, opened, pushes })
    }

    /// Shows what became of the fields of another tool's definition, before anything is measured.
    pub(crate) fn show_import(&self, run: &Driven) {
        show_original(&self.source.pipeline, run.import.as_ref());
    }

    /// Adds to a failure of the plan what to type after the repair: a run that has been named stays bound to the files that it was started from.
    pub(crate) fn with_new_name(&self, run: &Driven, failure: Failure) -> Failure {
        let is_of_plan = failure.exit == Exit::Definition && run.is_planned().is_ok_and(|is_planned| !is_planned);
        if self.name.is_none() || !is_of_plan {
            return failure;
        }
        let of_source = if self.source.adhoc.is_empty() { "files" } else { "options and files" };
        let unused = UnusedName::after(&run.run_id, &run.store);
        let renamed = format!("a run is bound to its {of_source}: once they are corrected, {unused}");
        let failure = failure.or_remedy();
        let hint = failure.hint.as_ref().map_or_else(|| renamed.clone(), |hint| format!("{hint}\n{renamed}"));
        failure.hint(hint)
    }

    /// Writes the published folder of a finished run, pushes it and its hot metrics where its pipeline says so, and shows the result.
    /// `store` is the one in which it was opened, whose URI the printed commands name.
    pub(crate) fn present(
        &self,
        run: &Driven,
        publication: InputRef,
        store: &Store,
        opened: &VerifiedRun,
        pushes: &Pushes,
        cancel: &Cancel,
    ) -> Result<Exit, Failure> {
        let published = run.home.join("published");
        let folder = export(store, &run.run_id, publication, &published)?;
        if folder.file_name().is_some_and(|name| name != run.run_id.as_str()) {
            let other = published.join(run.run_id.as_str());
            output::diagnostic(format!("`{}` holds other files, and was left as it is", other.display()));
        }
        let pushed = match &pushes.branch {
            BranchPush::Automatic(branch) => push::commit(opened, branch, cancel).map(Some),
            BranchPush::NotConfigured | BranchPush::Manual(_) => Ok(None),
        };
        let metrics = match &pushes.metrics {
            MetricsPush::Automatic(to) => {
                hot_metrics::push(opened, to, Some(store), false, cancel).unwrap_or_else(PushedMetrics::from_failure)
            }
            MetricsPush::NotConfigured | MetricsPush::Manual(_) => PushedMetrics::default(),
        };
        let store_uri = opened.store.as_deref().unwrap_or(&run.store_uri);
        let elsewhere = store_option(store_uri);
        let times = times::read(store, &run.run_id);
        let failed = no_valid_trial(opened, &folder, self.search.is_some());
        let comparison = self.comparison.as_ref().filter(|_| failed.is_none());
        let verdict = comparison.map(|_| judge_own_comparison(opened)).transpose()?;
        let pushed_folder = pushed.as_ref().ok().and_then(Option::as_ref);
        let parts = ShownParts {
            folder: &folder,
            pushed: pushed_folder,
            metrics: &metrics,
            store_uri,
            times: &times,
            verdict: verdict.as_ref(),
        };
        self.show(run, opened, &parts)?;
        if let BranchPush::Manual(branch) = &pushes.branch {
            let by_hand = format!("assay push {}{elsewhere}", run.run_id);
            output::diagnostic(format!(
                "not committed to the branch `{branch}`, because what ran is no commit's; by hand: {by_hand}"
            ));
        }
        if let MetricsPush::Manual(reason) = &pushes.metrics {
            let by_hand = format!("assay push {} --hot-metrics{elsewhere}", run.run_id);
            output::diagnostic(format!("hot metrics were not pushed, because {reason}; by hand: {by_hand}"));
        }
        if let Some(failure) = metrics.failure.as_ref().filter(|_| pushed.is_err()) {
            // Of two failures one is the command's.
            output::diagnostic(&failure.message);
        }
        pushed.map_err(|failure| push_failure(run, &elsewhere, failure))?;
        metrics.failure.map_or(Ok(()), |failure| Err(hot_metrics::push_failure(&run.run_id, &elsewhere, failure)))?;
        failed.map_or(Ok(()), Err)?;
        let summary = opened.chain.one::<Summary>().map(|summary| &summary.body);
        let open = self.search.as_ref().zip(summary).and_then(|(search, summary)| search.why_open(summary));
        open.iter().for_each(output::diagnostic);
        Ok(match opened.chain.is_established() {
            false => Exit::Unestablished,
            true if open.is_some() => Exit::Inconclusive,
            true => comparison.zip(verdict.as_ref()).map_or(Exit::Done, |(comparison, verdict)| comparison.exit(verdict)),
        })
    }

    fn show(&self, run: &Driven, opened: &VerifiedRun, parts: &ShownParts<'_>) -> Result<(), Failure> {
        let ShownParts { folder, pushed, metrics, store_uri, times, verdict } = *parts;
        let lost = || Failure::new(ErrorCode::Internal, "the run is finished, but its publication is missing");
        let summary = &opened.chain.one::<Summary>().ok_or_else(lost)?.body;
        let publication = &opened.chain.one::<Publication>().ok_or_else(lost)?.body;
        let plan = &opened.chain.one::<Plan>().ok_or_else(lost)?.body;
        let report = opened.report(self.command)?.ok_or_else(lost)?;
        if self.json {
            let mut document = json!({
                "run_id": run.run_id,
                "pipeline": run.pipeline,
                "status": summary.status,
                "grade": publication.grade,
                "store": store_uri,
                "folder": folder,
                "pushed": pushed,
                "hot_metrics": metrics.receipts,
                "drift": opened.chain.one::<Collection>().map(|collection| &collection.body.drift),
                "results": results(&run.run_id, plan, summary),
                "times": times::json(times),
                "summary": summary,
                "numbers": published_numbers(&assay_verify::read_numbers(opened.blobs.as_ref(), publication)?.numbers),
                "manifests": opened.chain.documents.iter().map(assay_envelope::Verified::input_ref).collect::<Vec<_>>(),
            });
            if let Some(search) = &self.search {
                document["search"] = search.json(&run.run_id, summary);
            }
            if let Some(verdict) = verdict {
                document["comparison"] = comparison_json(verdict);
            }
            output::json(&document)?;
        } else {
            output::report(report.terminal_summary(output::width(), output::has_color()));
            verdict.iter().flat_map(|verdict| comparison_lines(verdict)).for_each(output::line);
            output::line(format!("report    {}", folder.join("report.html").display()));
            self.search.iter().filter_map(Search::line).for_each(output::line);
            if let Some(committed) = pushed {
                output::line(push::line(committed));
            }
            metrics.lines().for_each(output::line);
            let elsewhere = store_option(store_uri);
            output::line(format!("verify    assay verify {}{elsewhere}", run.run_id));
            output::line(format!("folder    assay verify {}", shell_word(&folder.display().to_string())));
            if let Some(address) = report.example_address() {
                output::line(format!("prove     assay trace {address}{elsewhere}"));
            }
            output::line(format!("more      assay show {}{elsewhere} --all", run.run_id));
        }
        Ok(())
    }
}

/// Returns the failure of a run in which a planned point has no counted trial, with the most frequent reason: failed trials are a result, but
/// one that is worth a retry. `None` if every point has one. The result of a search (`is_search`) is over all loads of a case, so there only
/// a case has to have one.
pub(crate) fn no_valid_trial(opened: &VerifiedRun, folder: &Path, is_search: bool) -> Option<Failure> {
    let summary = opened.chain.one::<Summary>().map(|summary| &summary.body)?;
    let missing = PointsWithoutTrial::find(summary, is_search)?;
    let report = folder.join("report.html");
    let lasting = assay_report::lasting_reason(&missing.points).map(describe_lasting).unwrap_or_default();
    let hint =
        format!("{lasting}`{}` lists every attempt; repair the cause, then run it again under another name", report.display());
    let causes = assay_report::commonest_reason(&missing.points).into_iter().collect();
    let failure = Failure { causes, ..Failure::new(ErrorCode::NoValidTrial, missing.to_string()) }.hint(hint);
    let outputs = missing.trial_with_output().map(|trial| {
        let elsewhere = opened.store.as_deref().map(store_option).unwrap_or_default();
        format!("`assay logs {} --trial {trial}{elsewhere}` prints all that its script wrote", opened.chain.run_id)
    });
    Some(match outputs {
        Some(outputs) => {
            let hint = failure.hint.as_ref().map_or_else(String::new, |hint| format!("{outputs}\n{hint}"));
            failure.hint(hint)
        }
        None => failure,
    })
}

/// States that no trial was tried often for a lasting reason, and the remedy, as the first line of a hint.
fn describe_lasting(reason: LastingReason) -> String {
    let remedy = match reason {
        LastingReason::NoRequests => "use a longer `duration`, or a higher rate",
        LastingReason::OverSaturated => "use a lower rate, or remove `over_saturation` to measure the queue that grows",
    };
    format!("another attempt meets `{reason}` again, so trials were not repeated to the limit: {remedy}\n")
}

/// Maximum number of cases or points that a failure names.
const MAX_NAMED: usize = 5;

/// The points of a run of which no planned trial counts.
struct PointsWithoutTrial<'a> {
    points: Vec<&'a PointSummary>,
    /// The cases none of whose points has a counted trial.
    cases: BTreeSet<&'a CaseId>,
    /// Number of all planned cases.
    all_cases: usize,
    /// Number of all planned points.
    all_points: usize,
}

impl<'a> PointsWithoutTrial<'a> {
    fn find(summary: &'a Summary, is_search: bool) -> Option<Self> {
        let planned: Vec<_> = summary.points.iter().filter(|point| point.trials_planned > 0).collect();
        let all_cases: BTreeSet<_> = planned.iter().map(|point| &point.case_id).collect();
        let counted = planned.iter().filter(|point| point.trials_counted > 0).map(|point| &point.case_id).collect();
        let cases: BTreeSet<_> = all_cases.difference(&counted).copied().collect();
        // A workload that states a queue at which a load ends early expects that some loads do.
        let is_expected = |point: &PointSummary| is_search || assay_report::is_over_saturated(point);
        let is_missing =
            |point: &&PointSummary| point.trials_counted == 0 && (cases.contains(&point.case_id) || !is_expected(point));
        let points: Vec<_> = planned.iter().copied().filter(is_missing).collect();
        (!points.is_empty()).then_some(Self { points, cases, all_cases: all_cases.len(), all_points: planned.len() })
    }
}

impl PointsWithoutTrial<'_> {
    /// Returns a trial whose script ran and has left its stdout and stderr as evidence.
    fn trial_with_output(&self) -> Option<&TrialId> {
        let of_scripts = self.points.iter().filter(|point| point.workload_type == WorkloadType::Indicator);
        let mut excluded = of_scripts.flat_map(|point| &point.excluded);
        let has_run = |exclusion: &&Exclusion| exclusion.reasons.iter().all(|reason| reason.code != "not_prepared");
        excluded.find(has_run).map(|exclusion| &exclusion.trial_id)
    }
}

impl fmt::Display for PointsWithoutTrial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.cases.len() == self.all_cases {
            let planned: u64 = self.points.iter().map(|point| u64::from(point.trials_planned)).sum();
            return f.write_str(&assay_report::describe_none_counted(planned));
        }
        let are_cases = self.points.iter().all(|point| self.cases.contains(&point.case_id));
        let (what, all, names): (_, _, Vec<String>) = if are_cases {
            ("cases", self.all_cases, self.cases.iter().map(|case| format!("`{case}`")).collect())
        } else {
            let name = |point: &&PointSummary| format!("`{}.{}`", point.case_id, point.point_id);
            ("points", self.all_points, self.points.iter().map(name).collect())
        };
        let have = if names.len() == 1 { "has" } else { "have" };
        write!(f, "{} of {all} {what} {have} no valid trial: {}", names.len(), first_names(&names, MAX_NAMED))
    }
}

/// Returns the failure to push the folder of a finished run: only the push is worth a retry.
fn push_failure(run: &Driven, elsewhere: &str, failure: Failure) -> Failure {
    let again = format!("the run is finished; to push it again: assay push {}{elsewhere}", run.run_id);
    let hint = failure.hint.as_ref().map_or_else(|| again.clone(), |hint| format!("{hint}\n{again}"));
    let exit = if failure.exit == Exit::Usage { Exit::Environment } else { failure.exit };
    Failure { exit, ..failure }.hint(hint)
}

/// Makes the missing keys at first use, and reports it.
pub(crate) fn make_missing_keys(config: &Config, password: &[u8]) -> Result<(), Failure> {
    if assay_runner::LocalKeys::new(config).missing().is_empty() && config.trust().exists() {
        return Ok(());
    }
    let made = init_keys(config, password, ScryptCost::for_password(password))?;
    if !made.roles.is_empty() {
        let roles: Vec<_> = made.roles.iter().map(|role| role.as_str()).collect();
        let folder = config.folder().join("keys");
        output::diagnostic(format!("made local signing keys in {} for {}", folder.display(), roles.join(", ")));
    }
    if made.trust_root {
        output::diagnostic(format!(
            "made a local trust root: {}; runs of this machine verify under it",
            config.trust().display()
        ));
    }
    Ok(())
}

/// Returns the folder that holds the stages' binaries: that of `assay`.
pub(crate) fn binaries() -> Result<PathBuf, Failure> {
    let this = std::env::current_exe()
        .map_err(|error| Failure::new(ErrorCode::Binaries, "cannot find the running program").because(&error))?;
    this.parent().map(PathBuf::from).ok_or_else(|| Failure::new(ErrorCode::Binaries, "the running program lies in no folder"))
}
