//! `assay plan`: shows what a pipeline would run, without running it.

use std::time::Duration;

use assay_gate::{DesignPower, SizingError};
use assay_manifest::{Case, Name, PlannedTrial, Point, RunId};
use assay_process::{Cancel, Spawner};
use assay_report::counted;
use assay_runner::{LoadedSource, SourceSpec, default_store, read_source};
use assay_runs::RunStore;
use assay_schedule::{OrderRules, order_digest, order_trials};
use assay_spec::{ArrivalMode, Closure, GateSize, Problem, Serving, Work, Workload, expand};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::Store;
use serde_json::json;

use crate::commands::estimate::{Length, estimate};
use crate::commands::gpu_hours::{self, GpuHours, GpuHoursLimit, IN_PIPELINE};
use crate::commands::import::show_original;
use crate::commands::imports::{ImportCheck, ImportChecker};
use crate::commands::search_result::check_named_searches;
use crate::output;

/// The number of cases and of imported files that are shown; the rest of the cases are only counted.
const SHOWN: usize = 100;

/// Show cases, points, trials, their duration and the rows of datasets. Nothing is fetched; inputs that only a network can pin are named.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// The pipeline's file, or a file that `assay import` recognises
    #[arg(value_name = "PIPELINE")]
    pipeline: String,
    /// The revision [default: the work tree]
    #[arg(long, value_name = "REV")]
    commit: Option<String>,
    /// The repository: a folder, or an address that `git` can fetch
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,
    /// The artifact store, whose earlier runs give the duration [default: `.assay` of the repository]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// Show the trial order of a run with this name: each run draws its own
    #[arg(long, value_name = "RUN")]
    run_id: Option<RunId>,
    #[command(flatten)]
    limit: GpuHoursLimit,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
    /// Print Markdown for a pull request's comment
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// The duration of the trials.
pub(crate) struct PlanDuration {
    /// The duration according to their loads and limits.
    length: Length,
    /// True if only its time limit ends some trial, and true if that is so for every trial.
    by_limit: (bool, bool),
    /// The reason why the duration of some trial is unknown, if something else than its time limit ends it.
    unknown: Option<&'static str>,
    /// The duration according to earlier runs of the cases; `None` if one of them was never run.
    before: Option<Duration>,
    /// The GPU-hours, or the first target whose GPUs are not known.
    gpu_hours: Result<GpuHours, Name>,
}

/// One frozen workload, as far as it can be known without a network.
struct WorkloadOutline {
    name: String,
    digest: assay_manifest::Digest,
    unpinned: Vec<String>,
    limit: Duration,
    serving: Option<Serving>,
}

impl Plan {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let spec = SourceSpec {
            pipeline: self.pipeline.clone(),
            repo: self.repo.clone(),
            commit: self.commit.clone(),
            ..SourceSpec::default()
        };
        let source = read(&spec)?;
        show_original(&self.pipeline, source.import.as_ref());
        let closure = &source.closure;
        let workloads = closure.workloads.iter().map(|workload| outline(closure, workload)).collect::<Result<Vec<_>, _>>()?;
        let cases = expand(&closure.pipeline, &closure.workloads).map_err(|problems| Failure::invalid(&problems))?;
        let imports = check_imports(closure, source.files())?;
        check_named_searches(&RunStore { store: self.store.clone(), trust: Vec::new() }, closure, &cases)?;
        let order = TrialOrder::new(closure, &cases, &workloads, self.run_id.as_ref())?;
        let time = PlanDuration::new(closure, &cases, &workloads, &imports, self.before(closure, &cases)?);
        if self.json {
            print_json(closure, &cases, &order, &workloads, &imports, &time)?;
        } else if self.markdown {
            output::lines(markdown(closure, &cases, &order, &workloads, &imports, &time));
        } else {
            print(closure, &cases, &order, &workloads, &imports, &time);
        }
        self.limit.budget(IN_PIPELINE).take(time.gpu_hours())?;
        Ok(Exit::Done)
    }

    /// Estimates the duration from the runs of the store, if there is one.
    fn before(&self, closure: &Closure, cases: &[Case]) -> Result<Option<Duration>, Failure> {
        let uri = self.store.clone().map_or_else(default_store, Ok)?;
        match Store::open_existing(&uri) {
            Ok(store) => estimate(&store, cases, closure.pipeline.spec.trials.count),
            Err(_) if self.store.is_none() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads a source. Nothing of it is kept but what is returned.
pub(crate) fn read(spec: &SourceSpec) -> Result<LoadedSource, Failure> {
    let system = |error: std::io::Error| Failure::new(ErrorCode::System, "cannot start a thread").because(&error);
    let scratch = tempfile::tempdir().map_err(system)?;
    Ok(read_source(spec, scratch.path(), &Spawner::start().map_err(system)?, &Cancel::new().map_err(system)?)?)
}

/// Returns the duration of the trials that a source defines, according to their loads and limits.
pub(crate) fn read_duration(spec: &SourceSpec) -> Result<PlanDuration, Failure> {
    duration_of(&read(spec)?)
}

/// Returns the duration of the trials that a source defines which was read already.
pub(crate) fn duration_of(source: &LoadedSource) -> Result<PlanDuration, Failure> {
    let closure = &source.closure;
    let workloads = closure.workloads.iter().map(|workload| outline(closure, workload)).collect::<Result<Vec<_>, _>>()?;
    let cases = expand(&closure.pipeline, &closure.workloads).map_err(|problems| Failure::invalid(&problems))?;
    let imports = check_imports(closure, source.files())?;
    Ok(PlanDuration::new(closure, &cases, &workloads, &imports, None))
}

/// Imports the datasets and traces among the files of a source, as its plan will. Files that the plan would refuse are problems of the definitions.
fn check_imports<'a>(closure: &Closure, files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Vec<ImportCheck>, Failure> {
    let workloads: Vec<&Workload> = closure.workloads.iter().filter(|workload| workload.dataset().is_some()).collect();
    if workloads.is_empty() {
        return Ok(Vec::new());
    }
    let unwritable = |error: std::io::Error| Failure::new(ErrorCode::Scratch, "cannot write a scratch file").because(&error);
    let root = tempfile::tempdir().map_err(unwritable)?;
    for (path, bytes) in files {
        let path = root.path().join(path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, bytes)).map_err(unwritable)?;
    }
    let checker = ImportChecker::new()?;
    let checks = workloads.into_iter().filter_map(|workload| checker.check(root.path(), workload).transpose());
    let checks = checks.collect::<Result<Vec<_>, Failure>>()?;
    let problems: Vec<&Problem> = checks.iter().filter_map(ImportCheck::problem).collect();
    if problems.is_empty() { Ok(checks) } else { Err(Failure::invalid(&problems)) }
}

fn outline(closure: &Closure, workload: &Workload) -> Result<WorkloadOutline, Failure> {
    let frozen =
        workload.freeze(&closure.workload_pins(workload)).map_err(|error| Failure::from_error(ErrorCode::Freeze, &error))?;
    Ok(WorkloadOutline {
        name: workload.name.to_string(),
        digest: frozen.digest,
        unpinned: frozen.unpinned,
        limit: workload.spec.time_limit,
        serving: match &workload.spec.work {
            Work::Serving(serving) => Some(serving.as_ref().clone()),
            Work::Indicator(_) | Work::Training(_) => None,
        },
    })
}

/// The trials of a run, in their order if it is known beforehand.
struct TrialOrder {
    trials: Vec<PlannedTrial>,
    /// True if a seed is declared or the run is named.
    is_known: bool,
}

impl TrialOrder {
    fn new(closure: &Closure, cases: &[Case], workloads: &[WorkloadOutline], run_id: Option<&RunId>) -> Result<Self, Failure> {
        let spec = &closure.pipeline.spec;
        let rules = OrderRules {
            trials: spec.trials.count,
            comparison: spec.comparison.as_ref(),
            placement: spec.placement,
            isolation: spec.isolation,
        };
        let declared = spec.trials.order_seed.as_deref();
        let is_known = declared.is_some() || run_id.is_some();
        // The existence of an order does not depend on the run.
        let any = || "any".parse().map_err(|error| Failure::new(ErrorCode::Internal, "`any` is no run id").because(&error));
        let run_id = run_id.cloned().map_or_else(any, Ok)?;
        let seed = assay_schedule::order_seed(declared, &run_id, workloads.iter().map(|workload| workload.digest))
            .map_err(|error| Failure::from_error(ErrorCode::OrderSeed, &error))?;
        let trials = order_trials(cases, &rules, &seed).map_err(|error| Failure::from_error(ErrorCode::Order, &error))?;
        Ok(Self { trials, is_known })
    }

    fn lines(&self) -> Vec<String> {
        if !self.is_known {
            return vec!["order     drawn for each run; `--run-id` shows that of one".to_owned()];
        }
        let first: Vec<_> = self.trials.iter().take(6).map(|trial| trial.trial_id.as_str()).collect();
        let more = if self.trials.len() > first.len() { ", ..." } else { "" };
        vec![format!("order     {}", order_digest(&self.trials)), format!("          {}{more}", first.join(", "))]
    }
}

impl PlanDuration {
    fn new(
        closure: &Closure,
        cases: &[Case],
        workloads: &[WorkloadOutline],
        imports: &[ImportCheck],
        before: Option<Duration>,
    ) -> Self {
        let mut length = Length { expected: Some(Duration::ZERO), at_most: Duration::ZERO };
        let mut by_case = Vec::new();
        let (mut some, mut all, mut unknown) = (false, true, None);
        let workload = |case: &Case| workloads.iter().find(|workload| workload.name == case.workload.as_str());
        for (workload, case) in cases.iter().filter_map(|case| Some((workload(case)?, case))) {
            let is_by_limit = workload.serving.as_ref().is_none_or(|serving| serving.load.duration.is_none());
            some |= is_by_limit;
            all &= is_by_limit;
            let import = imports.iter().find(|import| import.workload().as_str() == workload.name);
            let span = import.and_then(ImportCheck::replayed_span);
            let mut of_case = Length { expected: Some(Duration::ZERO), at_most: Duration::ZERO };
            for point in &case.points {
                let one = workload.length(point, span);
                unknown = unknown.or_else(|| workload.serving.as_ref().filter(|_| one.expected.is_none()).and_then(open_end));
                of_case = of_case.then(one.times(closure.pipeline.spec.trials.count));
            }
            length = length.then(of_case);
            by_case.push((case, of_case));
        }
        let gpu_hours = GpuHours::new(&closure.pipeline.spec, &by_case);
        Self { length, by_limit: (some, all), unknown, before, gpu_hours }
    }

    /// Returns the GPU-hours, or the first target whose GPUs are not known before it is provisioned.
    pub(crate) fn gpu_hours(&self) -> Result<GpuHours, Name> {
        self.gpu_hours.clone()
    }

    /// Returns the longest duration of all trials, without attempts that are repeated.
    pub(crate) fn longest(&self) -> Duration {
        self.length.at_most
    }

    /// Returns the expected duration: according to earlier runs, else according to the loads.
    fn estimate(&self) -> Option<Duration> {
        self.before.or(self.length.expected)
    }

    /// Describes the GPU-hours, if the GPUs of all targets are known and there are any.
    fn gpu_line(&self) -> Option<String> {
        let found = self.gpu_hours.as_ref().ok().filter(|found| found.at_most > 0.0)?;
        let about = self.estimate().map(|time| format!("about {}, ", gpu_hours::format(found.of(time)))).unwrap_or_default();
        Some(format!("{about}at most {} GPU-hours, by the declared GPUs", gpu_hours::format_bound(found.at_most)))
    }

    /// Describes the expected duration, if there is one, the longest, and the GPU-hours.
    pub(crate) fn lines(&self) -> Vec<String> {
        let expected = match (self.before, self.length.expected) {
            (Some(before), _) => Some(format!("about {} of trials, by what these cases took before", format_duration(before))),
            (None, Some(expected)) => Some(format!("about {} of trials, by their loads", format_duration(expected))),
            (None, None) => self.unknown.map(|why| format!("the duration is unknown before a first run: {why}")),
        };
        let condition = match self.by_limit {
            (_, true) => ", if every one runs into its time limit",
            (true, false) => ", if those without a duration run into their time limit",
            (false, false) => "",
        };
        let at_most =
            format!("at most {} of trials{condition}; attempts that are repeated come on top", format_bound(self.length.at_most));
        expected.into_iter().chain([at_most]).chain(self.gpu_line()).collect()
    }
}

/// Returns the reason why the end of a trial is unknown; `None` if only its time limit ends it.
fn open_end(serving: &Serving) -> Option<&'static str> {
    let is_replay = matches!(serving.load.arrivals, ArrivalMode::Replay { .. });
    match serving.load.requests {
        _ if is_replay && serving.plays_trace() => Some("the later turns of a session wait for its responses"),
        _ if is_replay => Some("a replay lasts as long as its trace, and not all of that could be read here"),
        Some(_) => Some("a closed loop with a number of requests lasts until the last response"),
        None => None,
    }
}

impl WorkloadOutline {
    fn length(&self, point: &Point, span: Option<Duration>) -> Length {
        self.serving.as_ref().map_or(Length::up_to(self.limit), |serving| Length::for_load(serving, point, self.limit, span))
    }
}

fn print(
    closure: &Closure,
    cases: &[Case],
    order: &TrialOrder,
    workloads: &[WorkloadOutline],
    imports: &[ImportCheck],
    time: &PlanDuration,
) {
    let points: usize = cases.iter().map(|case| case.points.len()).sum();
    let spec = &closure.pipeline.spec;
    output::line(format!(
        "{}: {}, {}, {} ({} each), intent {}",
        closure.pipeline.name,
        counted(cases.len() as u64, "case"),
        counted(points as u64, "point"),
        counted(order.trials.len() as u64, "trial"),
        spec.trials.count,
        spec.intent
    ));
    time.lines().into_iter().for_each(output::line);
    for workload in workloads {
        output::line(format!("workload  {:<32} {}", workload.name, workload.digest));
        for what in &workload.unpinned {
            output::line(format!("          unpinned: {what}"));
        }
    }
    imports.iter().take(SHOWN).filter_map(ImportCheck::describe).for_each(|import| output::line(format!("import    {import}")));
    for case in cases.iter().take(SHOWN) {
        output::line(format!("case      {:<40} {}", case.case_id, list_points(case, "")));
    }
    if cases.len() > SHOWN {
        output::line(format!("          and {}", counted((cases.len() - SHOWN) as u64, "more case")));
    }
    gate_lines(closure, cases).into_iter().for_each(output::line);
    // A workload without load is one process.
    if workloads.iter().any(|workload| workload.serving.is_some()) {
        output::line(format!("shards    {}", spec.shards));
    }
    order.lines().into_iter().for_each(output::line);
}

/// Returns the first points of a case, each between these marks, and the number of the others.
fn list_points(case: &Case, mark: &str) -> String {
    let shown: Vec<_> = case.points.iter().take(12).map(|point| format!("{mark}{}{mark}", point.point_id)).collect();
    match case.points.len() - shown.len() {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}

/// Describes what each gate of a comparison can find with the planned pairs, so that the reader knows before the run whether it
/// can decide.
fn gate_lines(closure: &Closure, cases: &[Case]) -> Vec<String> {
    let planned = closure.pipeline.spec.trials.count;
    let of_one_trial = closure.gates_of_one_trial();
    let line = |sized: &GateSize| {
        let text = if of_one_trial.contains(&&sized.gate) { never_decides(&sized.gate) } else { gate_line(sized, planned) };
        format!("gate      {text}")
    };
    closure.gate_sizes(cases).iter().map(line).collect()
}

/// Says that a gate of sides that are measured in one trial each never decides.
pub(crate) fn never_decides(gate: &Name) -> String {
    format!(
        "{gate}: always inconclusive, because each side is measured in one trial: its intervals are within run and do not hold the variation \
         from run to run"
    )
}

/// Says what too few pairs cannot find.
fn cannot_find(fewest: usize, together: bool, metrics: usize) -> String {
    let fewest = counted(fewest as u64, "pair");
    match (together, metrics) {
        (true, _) => format!("cannot find a change of one metric alone: {fewest} are the fewest"),
        (false, 0 | 1) => format!("can find nothing: {fewest} are the fewest"),
        (false, _) => format!("can find nothing: {fewest} are the fewest that find a change of one metric alone"),
    }
}

fn gate_line(sized: &GateSize, planned: u32) -> String {
    let (tests, pairs) = (counted(sized.metrics.len() as u64, "metric"), counted(u64::from(planned), "pair"));
    let named = |place: usize| sized.metrics.get(place).map_or("a metric", String::as_str);
    let effect = 200.0 * sized.rules.budget;
    let needed = match &sized.size {
        Err(why @ SizingError::LaunchesUnknown { .. }) => format!("cannot decide: {why}"),
        // Without a history, only the noise up to which the design finds the effect is known.
        _ if !sized.has_learned_noise() => match assay_gate::assess_design(planned as usize, sized.metrics.len(), &sized.rules) {
            DesignPower::NeverFires { fewest, together } => cannot_find(fewest, together, sized.metrics.len()),
            DesignPower::FindsUpTo { noise } => {
                format!(
                    "find a change of {effect:.1} % where a pair's noise is at most {:.1} %, and of more once earlier runs have \
                     taught (`assay noise`)",
                    // Not above the noise up to which it is true.
                    (noise * 1000.0).floor() / 10.0
                )
            }
        },
        Err(why) => format!("cannot decide about {}: {why}", named(why.metric())),
        Ok(size) if size.pairs > planned as usize => {
            format!("are too few: by what earlier runs taught, {} find a change of {effect:.1} %", size.pairs)
        }
        Ok(size) => format!("suffice: by what earlier runs taught, {} find a change of {effect:.1} %", size.pairs),
    };
    let more = sized.size.as_ref().ok().filter(|_| sized.has_learned_noise()).map(|size| {
        let costly = size.costly.filter(|costly| costly.without < size.pairs && sized.metrics.len() > 1).map(|costly| {
            format!(
                "; {} is the costly one: without it {} would do",
                named(costly.metric),
                counted(costly.without as u64, "pair")
            )
        });
        let unknown = (size.unknown > 0).then(|| format!("; of {} nothing is known", counted(size.unknown as u64, "metric")));
        let undecidable = size.undecidable.first().map(|why| {
            let others = size.undecidable.len() - 1;
            let others = if others > 0 { format!(" and {others} more") } else { String::new() };
            format!("; no number decides about {}{others}: {why}", named(why.metric()))
        });
        [costly, unknown, undecidable].into_iter().flatten().collect::<String>()
    });
    format!("{}: {tests}; {pairs} {needed}{}", sized.gate, more.unwrap_or_default())
}

/// Formats the plan as a comment for reviewers of definitions. Names are the definitions', so they are plain; texts are escaped.
fn markdown(
    closure: &Closure,
    cases: &[Case],
    order: &TrialOrder,
    workloads: &[WorkloadOutline],
    imports: &[ImportCheck],
    time: &PlanDuration,
) -> String {
    let points: usize = cases.iter().map(|case| case.points.len()).sum();
    let spec = &closure.pipeline.spec;
    let mut lines = vec![
        format!(
            "**{}** would run {} at {} of {}: {} of each, intent {}.",
            closure.pipeline.name,
            counted(order.trials.len() as u64, "trial"),
            counted(points as u64, "point"),
            counted(cases.len() as u64, "case"),
            spec.trials.count,
            spec.intent
        ),
        String::new(),
    ];
    lines.extend(time.lines().into_iter().map(|line| format!("- {line}")));
    lines.extend(gate_lines(closure, cases).into_iter().map(|line| format!("- {}", assay_report::escape_markdown(&line))));
    let imports = imports.iter().take(SHOWN).filter_map(ImportCheck::describe);
    lines.extend(imports.map(|import| format!("- import: {}", assay_report::escape_markdown(&import))));
    lines.extend([String::new(), "| case | points |".to_owned(), "| --- | --- |".to_owned()]);
    for case in cases.iter().take(SHOWN) {
        lines.push(format!("| `{}` | {} |", case.case_id, list_points(case, "`")));
    }
    if cases.len() > SHOWN {
        lines.extend([String::new(), format!("And {}.", counted((cases.len() - SHOWN) as u64, "more case"))]);
    }
    lines.extend([String::new(), "| workload | digest | not pinned |".to_owned(), "| --- | --- | --- |".to_owned()]);
    for workload in workloads.iter().take(SHOWN) {
        let unpinned: Vec<_> = workload.unpinned.iter().map(|what| assay_report::escape_markdown(what)).collect();
        let unpinned = if unpinned.is_empty() { "nothing".to_owned() } else { unpinned.join(", ") };
        lines.push(format!("| `{}` | `{}` | {unpinned} |", workload.name, workload.digest.short()));
    }
    lines.join("\n")
}

/// Formats a duration that is a bound, rounded up to what is shown.
fn format_bound(duration: Duration) -> String {
    let unit_s = if duration < Duration::from_mins(2) { 1 } else { 60 };
    let whole = seconds_up(duration);
    format_duration(Duration::from_secs(whole.checked_next_multiple_of(unit_s).unwrap_or(whole)))
}

/// Returns the seconds of a duration that is a bound, rounded up.
fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// Formats a duration for people.
fn format_duration(duration: Duration) -> String {
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
    order: &TrialOrder,
    workloads: &[WorkloadOutline],
    imports: &[ImportCheck],
    time: &PlanDuration,
) -> Result<(), Failure> {
    let workloads: Vec<_> = workloads
        .iter()
        .map(|workload| json!({"name": workload.name, "workload_spec_digest": workload.digest, "unpinned": workload.unpinned}))
        .collect();
    output::json(&json!({
        "pipeline": closure.pipeline.name,
        "intent": closure.pipeline.spec.intent,
        "workloads": workloads,
        "imports": imports.iter().map(ImportCheck::to_json).collect::<Vec<_>>(),
        "cases": cases,
        "trials": order.trials.len(),
        "order": order.is_known.then(|| json!({"digest": order_digest(&order.trials), "trials": order.trials})),
        "shards": closure.pipeline.spec.shards.to_string(),
        "time_bound_seconds": seconds_up(time.length.at_most),
        "time_estimate_seconds": time.estimate().map(|estimate| estimate.as_secs_f64()),
        "gpu_hours_bound": time.gpu_hours.as_ref().ok().map(|found| found.at_most),
        "gpu_hours_estimate": time.gpu_hours.as_ref().ok().zip(time.estimate()).map(|(found, estimate)| found.of(estimate)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the duration that a text states.
    fn stated(text: &str) -> Duration {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        Duration::from_secs(match words.as_slice() {
            [_, "s"] => number(0),
            [_, "min"] => number(0) * 60,
            [_, "h", _, "min"] => number(0) * 3600 + number(2) * 60,
            _ => panic!("a duration: {text}"),
        })
    }

    #[test]
    fn a_bound_is_never_less_than_what_it_bounds() {
        let ms = Duration::from_millis;
        let shown = [0, 1, 10_000, 10_001, 119_001, 119_999, 120_000, 120_001, 7_140_001, 7_200_000, 7_200_001, 86_399_999];
        for duration in shown.map(ms) {
            let (text, unit) = (format_bound(duration), if duration < ms(119_001) { 1 } else { 60 });
            assert!(stated(&text) >= duration, "{text} for {duration:?}");
            assert!(stated(&text) < duration + Duration::from_secs(unit), "{text} for {duration:?}");
            assert!(Duration::from_secs(seconds_up(duration)) >= duration);
        }
        assert_eq!([ms(119_001), ms(7_200_001)].map(format_bound), ["2 min", "2 h 1 min"]);
        assert!(!format_bound(Duration::MAX).is_empty(), "no overflow");
    }

    #[test]
    fn a_bound_has_all_trials_before_it_is_rounded() {
        let one = Length { expected: None, at_most: Duration::from_millis(1_500) };
        let all = one.times(3).then(Length::up_to(Duration::from_millis(400)));
        assert_eq!((format_bound(all.at_most), seconds_up(all.at_most)), ("5 s".to_owned(), 5));
        let plan = PlanDuration {
            length: all,
            by_limit: (true, true),
            unknown: None,
            before: None,
            gpu_hours: Err("vllm".parse().expect("a name")),
        };
        let bound = "at most 5 s of trials, if every one runs into its time limit; attempts that are repeated come on top";
        assert_eq!(plan.lines(), [bound], "and no GPU-hours of GPUs that are not known");
    }
}
