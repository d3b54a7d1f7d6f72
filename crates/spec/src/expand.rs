//! Expansion of a pipeline and its workloads into cases, and the points of the cases.

use std::collections::HashMap;

use assay_manifest::{
    CacheMode, Case, CaseId, Hasher, IdError, Intent, MAX_LOAD, MeasuredCommand, Name, Point, PointId, PointKind, RateProfile,
    TargetKind, WorkloadType, canonical_value,
};
use assay_metric::{MetricName, Requirement};
use serde_json::Value as Json;

use crate::format::host_of;
use crate::pipeline::{MIN_TRIALS, Pipeline, Shards, Target};
use crate::problem::Problem;
use crate::workload::{
    ArrivalMode, Executable, OfferedRate, Parameter, Program, Script, Serving, WITHIN_RUN_SECONDS, Work, Workload,
};
use assay_stats::MIN_CLUSTERS;

/// The most cases of one pipeline: ten times the largest that is planned for.
pub const MAX_CASES: usize = 10_000;
/// The most points of one case: a sweep of more is a search, and would take weeks.
pub const MAX_POINTS: usize = 1_000;
/// The most trials of one run: at ten seconds each they take eleven days.
pub const MAX_TRIALS: usize = 100_000;

/// The length of the readable part of a point id that is followed by a digest, because it is too long or ambiguous.
const READABLE: usize = 27;
/// The digits of that digest: 48 bits tell a thousand points apart.
const DIGEST_DIGITS: usize = 12;

/// Returns the cases of a pipeline, in the order of its lists: workload by workload, target by target, variant by variant.
/// `workloads` are those that the pipeline names, in any order.
///
/// A workload is paired with the targets that can run it. A workload or a target without a partner is a problem.
pub fn expand(pipeline: &Pipeline, workloads: &[Workload]) -> Result<Vec<Case>, Vec<Problem>> {
    let mut problems = Vec::new();
    let known: HashMap<&Name, &Workload> = workloads.iter().map(|workload| (&workload.name, workload)).collect();
    let named: Vec<&Workload> = named_workloads(pipeline, &known, &mut problems);
    check_partners(pipeline, &named, &mut problems);
    check_session_headers(pipeline, &named, &mut problems);
    check_warm_replicas(pipeline, &named, &mut problems);
    check_sides(pipeline, &named, &mut problems);
    check_host_commands(pipeline, &named, &mut problems);
    check_gates(pipeline, &named, &mut problems);
    check_hosts(pipeline, &named, &mut problems);
    check_shards(pipeline, &named, &mut problems);
    check_single_trial(pipeline, &named, &mut problems);
    let sweeps = named.iter().filter_map(|workload| match points(workload) {
        Ok(points) => Some((*workload, points)),
        Err(problem) => {
            problems.push(*problem);
            None
        }
    });
    let sweeps: Vec<(&Workload, Vec<Point>)> = sweeps.collect();
    check_limits(pipeline, &sweeps, &mut problems);
    if problems.is_empty() { Ok(cases(pipeline, &sweeps)) } else { Err(problems) }
}

fn named_workloads<'a>(
    pipeline: &Pipeline,
    known: &HashMap<&Name, &'a Workload>,
    problems: &mut Vec<Problem>,
) -> Vec<&'a Workload> {
    let mut found = Vec::new();
    for (index, name) in pipeline.spec.workloads.iter().enumerate() {
        match known.get(name) {
            Some(workload) => found.push(*workload),
            None => problems.push(unknown_workload(pipeline, index, name, known.keys().map(|name| name.as_str()))),
        }
    }
    found
}

/// Returns the problem of a name in `spec.workloads` for which there is no workload.
pub(crate) fn unknown_workload<'a>(
    pipeline: &Pipeline,
    index: usize,
    name: &Name,
    known: impl Iterator<Item = &'a str>,
) -> Problem {
    let problem = pipeline.places.problem(&format!("spec.workloads[{index}]"), no_workload(name));
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let hint = crate::problem::did_you_mean(name.as_str(), known);
    problem.with_hint(hint.unwrap_or_else(|| place_of_workload(name)))
}

/// Returns the message about a name that no workload has.
pub(crate) fn no_workload(name: &Name) -> String {
    format!("there is no workload `{name}`")
}

/// Returns the hint with the place of a workload.
pub(crate) fn place_of_workload(name: &Name) -> String {
    format!("it would be defined in {}", Workload::path_of(name))
}

fn runs_on(workload: &Workload, target: &Target) -> bool {
    let is_host = target.kind == TargetKind::Host;
    match workload.workload_type() {
        WorkloadType::Serving => !is_host,
        WorkloadType::Indicator | WorkloadType::Training => is_host,
    }
}

fn check_partners(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    let targets = &pipeline.spec.targets;
    for workload in workloads.iter().filter(|workload| !targets.iter().any(|target| runs_on(workload, target))) {
        let index = pipeline.spec.workloads.iter().position(|name| *name == workload.name).unwrap_or_default();
        let (kind, asked) = match workload.workload_type() {
            WorkloadType::Serving => {
                ("serving", "an `endpoint`, a `process`, a `simulator`, `objects` or an `inference_service`")
            }
            WorkloadType::Indicator => ("indicator", "a `host`"),
            WorkloadType::Training => ("training", "a `host`"),
        };
        let message = format!("no target can run the {kind} workload `{}`", workload.name);
        let problem = pipeline.places.problem(&format!("spec.workloads[{index}]"), message);
        problems.push(problem.with_hint(format!("add a target that is {asked}")));
    }
    // If a name is unknown, a target may be meant for that workload.
    if workloads.len() < pipeline.spec.workloads.len() {
        return;
    }
    for (index, target) in targets.iter().enumerate() {
        if !workloads.iter().any(|workload| runs_on(workload, target)) {
            let message = format!("no workload of this pipeline runs on the target `{}` of `kind: {}`", target.name, target.kind);
            let problem = pipeline.places.problem(&format!("spec.targets[{index}]"), message);
            problems.push(problem.with_hint("remove the target, or name a workload for it"));
        }
    }
}

/// Returns each pair of a target, with its place in the pipeline, and a serving workload that runs on it.
fn served<'a>(
    pipeline: &'a Pipeline,
    workloads: &'a [&'a Workload],
) -> impl Iterator<Item = (usize, &'a Target, &'a Workload, &'a Serving)> {
    let targets = pipeline.spec.targets.iter().enumerate();
    targets.flat_map(move |(index, target)| {
        let on_target = workloads.iter().filter(|workload| runs_on(workload, target));
        on_target.filter_map(move |workload| match &workload.spec.work {
            Work::Serving(serving) => Some((index, target, *workload, serving.as_ref())),
            _ => None,
        })
    })
}

/// Checks that no target sets the header that is to name the session of each request.
fn check_session_headers(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    for (index, target, workload, serving) in served(pipeline, workloads) {
        let Some(header) = serving.sessions.as_ref().and_then(|sessions| sessions.header.as_deref()) else { continue };
        let Some(same) = target.headers.keys().find(|name| name.eq_ignore_ascii_case(header)) else { continue };
        let message = format!("the header `{same}` names the session of each request of the workload `{}`", workload.name);
        let problem = pipeline.places.problem(&format!("spec.targets[{index}].headers.{same}"), message);
        problems.push(problem.with_hint("remove it here, or take another name for `sessions.header`"));
    }
}

/// Checks that no workload warms the cache of several servers: a prompt would warm the one that the router gives it to, and be measured at another.
fn check_warm_replicas(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    let warmed = served(pipeline, workloads)
        .filter(|(_, target, _, serving)| target.replicas.len() > 1 && serving.cache == CacheMode::Warm);
    for (index, _, workload, _) in warmed {
        let message =
            format!("`cache: warm` of the workload `{}` would warm one of several replicas with each prompt", workload.name);
        let problem = pipeline.places.problem(&format!("spec.targets[{index}].replicas"), message);
        problems.push(problem.with_hint("write `cache: cold_flush`, `cold_salt` or `shared`, or measure one server"));
    }
}

/// Checks that the sides of a comparison have work in common.
fn check_sides(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    let Some(comparison) = &pipeline.spec.comparison else { return };
    let target = |name: &Name| pipeline.spec.targets.iter().find(|target| target.name == *name);
    let (Some(baseline), Some(candidate)) = (target(&comparison.baseline.target), target(&comparison.candidate.target)) else {
        return;
    };
    let on_both = |workload: &&Workload| runs_on(workload, baseline) && runs_on(workload, candidate);
    if workloads.len() == pipeline.spec.workloads.len() && !workloads.iter().any(on_both) {
        let message = format!("no workload of this pipeline runs on both `{}` and `{}`", baseline.name, candidate.name);
        let problem = pipeline.places.problem("spec.comparison", message);
        problems.push(problem.with_hint(format!("one is a `{}`, the other a `{}`", baseline.kind, candidate.kind)));
    }
}

/// Checks that the command of a host replaces that of each workload which runs there, and names only its parameters.
fn check_host_commands(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    let hosts = pipeline.spec.targets.iter().enumerate().filter(|(_, target)| target.kind == TargetKind::Host);
    for (index, target) in hosts.filter(|(_, target)| !target.command.is_empty()) {
        for workload in workloads.iter().filter(|workload| runs_on(workload, target)) {
            let Some(Executable { program: Program::Command(command), parameters, .. }) = workload.spec.work.executable() else {
                let message =
                    format!("the command of the target `{}` replaces none: `{}` runs a script", target.name, workload.name);
                let problem = pipeline.places.problem(&format!("spec.targets[{index}].command"), message);
                problems.push(problem.with_hint("remove it, or give the workload a `command` instead of a `script`"));
                continue;
            };
            let command = MeasuredCommand { run: target.command.clone(), ..command.clone() };
            if let Some(name) = command.names().find(|name| !parameters.contains_key(*name)) {
                let message = format!(
                    "the command of the target `{}` names `${{{name}}}`, which is no parameter of `{}`",
                    target.name, workload.name
                );
                let problem = pipeline.places.problem(&format!("spec.targets[{index}].command"), message);
                problems.push(problem.with_hint("write `$${` for what is no parameter"));
            }
        }
    }
}

/// Checks that some workload measures what each gate judges.
fn check_gates(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    if workloads.len() < pipeline.spec.workloads.len() {
        return;
    }
    let measured = gate_metric_names(workloads, pipeline.spec.pricing.is_some());
    for (gate_index, gate) in pipeline.spec.gates.iter().enumerate() {
        for (index, metric) in gate.metrics.iter().enumerate().filter(|(_, metric)| !measured.contains(&metric.as_str())) {
            let path = format!("spec.gates[{gate_index}].metrics[{index}]");
            let (message, hint) = unmeasured(pipeline, workloads, metric, &measured);
            problems.push(Problem { hint, ..pipeline.places.problem(&path, message) });
        }
        let has_output_tokens = || serving_of(workloads).any(|serving| serving.api.capabilities().has_output_tokens);
        if gate.max_output_drift_pct.is_some() && !has_output_tokens() {
            let path = format!("spec.gates[{gate_index}].max_output_drift_pct");
            let message = "no workload of this pipeline has responses with output tokens, whose number this limits";
            problems.push(pipeline.places.problem(&path, message).with_hint("remove it"));
        }
    }
}

/// Returns the message and the hint for a metric of a gate that no workload measures.
fn unmeasured(pipeline: &Pipeline, workloads: &[&Workload], metric: &str, measured: &[&str]) -> (String, Option<String>) {
    let has_serving = serving_of(workloads).next().is_some();
    if metric == MAX_LOAD && has_serving {
        let needs = "it needs `slos`, and two or more loads of one kind, such as `rate: [8, 9, 10]`";
        return (format!("no workload of this pipeline measures `{metric}`"), Some(needs.to_owned()));
    }
    let name = MetricName::find(metric).filter(|_| has_serving);
    let Some(name) = name else {
        let hint = crate::problem::did_you_mean(metric, measured.iter().copied());
        return (format!("no workload of this pipeline reports the metric `{metric}`"), hint);
    };
    let is_priced = pipeline.spec.pricing.is_some();
    let missing = serving_of(workloads).find_map(|serving| missing_requirement(serving, name, is_priced));
    match missing {
        Some(missing) => {
            (format!("no workload of this pipeline measures `{metric}`"), Some(format!("it needs {}", missing.as_str())))
        }
        None => (
            format!("gates do not judge `{metric}`"),
            Some("neither direction of it is better: it describes the load or the requests".to_owned()),
        ),
    }
}

/// Returns the metrics that gates may judge: declared ones, and those of serving that a workload measures.
pub(crate) fn gate_metric_names<'a>(workloads: &[&'a Workload], is_priced: bool) -> Vec<&'a str> {
    let declared = workloads.iter().flat_map(|w| &w.spec.metrics).map(|metric| metric.path.as_str());
    let is_measured =
        |name: &&MetricName| serving_of(workloads).any(|serving| missing_requirement(serving, name, is_priced).is_none());
    let max_load = serving_of(workloads).any(Serving::has_max_load).then_some(MAX_LOAD);
    declared.chain(MetricName::judged().filter(is_measured).map(|name| name.text)).chain(max_load).collect()
}

fn serving_of<'a>(workloads: &[&'a Workload]) -> impl Iterator<Item = &'a Serving> {
    workloads.iter().filter_map(|workload| match &workload.spec.work {
        Work::Serving(serving) => Some(serving.as_ref()),
        _ => None,
    })
}

/// Returns the first condition of a metric that a workload does not meet; `None` if the workload measures the metric.
fn missing_requirement(serving: &Serving, name: &MetricName, is_priced: bool) -> Option<Requirement> {
    name.definition().requires.iter().copied().find(|requirement| match requirement {
        Requirement::Price => !is_priced,
        other => !serving.meets(*other),
    })
}

/// Checks that the pipeline allows each script's host, if it lists any hosts.
fn check_hosts(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    let allowed = &pipeline.spec.fetch_allow;
    for workload in workloads.iter().filter(|_| !allowed.is_empty()) {
        let Some(Script::Url { url, .. }) = workload.script() else { continue };
        let host = host_of(url).to_ascii_lowercase();
        if !allowed.contains(&host) {
            let message = format!("the script's host `{host}` is not among those that the pipeline `{}` allows", pipeline.name);
            let problem = workload.places.problem("spec.script.url", message);
            problems.push(problem.with_hint(format!("add it to `spec.fetch.allow` in {}", pipeline.places.file())));
        }
    }
}

/// Checks that a cap over all requests in flight is not left to several shards, none of which knows what the others have in flight, and that no
/// program is left to several: each would run it, and they would disturb one another.
fn check_shards(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    let Shards::Count(shards @ 2..) = pipeline.spec.shards else { return };
    if let Some(program) = workloads.iter().find(|workload| matches!(workload.spec.work, Work::Indicator(_))) {
        let message = format!(
            "`spec.shards` is {shards}, and the workload `{}` is a program, which only one shard can run: shards share the requests of a load",
            program.name
        );
        let hint = "write `shards: 1`, or put the serving workloads into a pipeline of their own";
        problems.push(pipeline.places.problem("spec.shards", message).with_hint(hint));
    }
    let field = |workload: &&Workload| match &workload.spec.work {
        Work::Serving(serving) => serving.one_shard_field(),
        _ => None,
    };
    if let Some((workload, field)) = workloads.iter().find_map(|workload| Some((workload, field(workload)?))) {
        let message = format!(
            "`spec.shards` is {shards}, and `{field}` of the workload `{}` holds for all requests together, which only one shard can count",
            workload.name
        );
        let hint = format!("write `shards: 1`, or remove `{field}`");
        problems.push(pipeline.places.problem("spec.shards", message).with_hint(hint));
    }
}

/// Checks that a claim that rests on one trial of each point is made only about workloads whose trial can have intervals within its run.
fn check_single_trial(pipeline: &Pipeline, workloads: &[&Workload], problems: &mut Vec<Problem>) {
    if pipeline.spec.intent != Intent::Realism || pipeline.spec.trials.count != 1 {
        return;
    }
    for workload in workloads {
        let Err(why) = workload.may_count_one_trial() else { continue };
        let message = format!(
            "`intent: realism` needs at least {MIN_TRIALS} trials of each point, or one that has intervals within its run: of the workload `{}`, {why}",
            workload.name
        );
        let hint = format!(
            "write `count: {MIN_TRIALS}` or more, or measure at least {MIN_CLUSTERS} sessions for `duration: {WITHIN_RUN_SECONDS}s` or longer"
        );
        problems.push(pipeline.places.problem("spec.trials.count", message).with_hint(hint));
    }
}

fn check_limits(pipeline: &Pipeline, sweeps: &[(&Workload, Vec<Point>)], problems: &mut Vec<Problem>) {
    let spec = &pipeline.spec;
    let pairs = |workload: &Workload| spec.targets.iter().filter(|target| runs_on(workload, target)).count();
    let cases_of = |workload: &Workload| pairs(workload).saturating_mul(spec.variants.len());
    let cases = sweeps.iter().map(|(workload, _)| cases_of(workload)).fold(0, usize::saturating_add);
    let points =
        sweeps.iter().map(|(workload, points)| cases_of(workload).saturating_mul(points.len())).fold(0, usize::saturating_add);
    let trials = points.saturating_mul(spec.trials.count as usize);
    if cases > MAX_CASES {
        let message = format!("the pipeline has {cases} cases; at most {MAX_CASES} are allowed");
        problems.push(pipeline.places.problem("spec", message).with_hint("a case is workload x target x variant"));
    } else if trials > MAX_TRIALS {
        let message = format!("the pipeline has {trials} trials; at most {MAX_TRIALS} are allowed");
        let hint = format!("{points} points are measured {} times each", spec.trials.count);
        problems.push(pipeline.places.problem("spec", message).with_hint(hint));
    }
}

fn cases(pipeline: &Pipeline, sweeps: &[(&Workload, Vec<Point>)]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (workload, points) in sweeps {
        for target in pipeline.spec.targets.iter().filter(|target| runs_on(workload, target)) {
            for variant in &pipeline.spec.variants {
                cases.push(Case {
                    case_id: CaseId::from_names(&workload.name, &target.name, &variant.name),
                    workload: workload.name.clone(),
                    target: target.name.clone(),
                    variant: variant.name.clone(),
                    points: points.clone(),
                });
            }
        }
    }
    cases
}

/// Returns the points of a workload's sweep.
fn points(workload: &Workload) -> Result<Vec<Point>, Box<Problem>> {
    let points: Result<Vec<Point>, IdError> = match &workload.spec.work {
        Work::Serving(serving) => match &serving.load.arrivals {
            ArrivalMode::Closed { concurrency } => {
                concurrency.iter().map(|value| load_point(PointKind::Concurrency, &value.to_string())).collect()
            }
            ArrivalMode::Open { rate: OfferedRate::Each(rates), .. } => {
                rates.iter().map(|value| load_point(PointKind::Rate, &number(*value))).collect()
            }
            ArrivalMode::Open { rate: OfferedRate::Profile(profile), .. } => {
                std::iter::once(load_point(PointKind::Rate, &profile_text(profile))).collect()
            }
            ArrivalMode::Users { users, rate } => {
                let count = users.len().saturating_mul(rate.len());
                if count > MAX_POINTS {
                    return Err(Box::new(too_many_points(workload, "spec.load", "users and rates", count)));
                }
                let texts = |users: &u64, rate: &f64| (users.to_string(), number(*rate));
                let pairs = users.iter().flat_map(|users| rate.iter().map(move |rate| texts(users, rate)));
                pairs.map(|(users, rate)| point(PointKind::Users, &[("users", &users), ("rate", &rate)])).collect()
            }
            ArrivalMode::Replay { speed } => speed.iter().map(|value| load_point(PointKind::Speed, &number(*value))).collect(),
        },
        Work::Indicator(executable) | Work::Training(executable) => {
            let axes: Vec<_> = executable.parameters.iter().filter_map(|(name, parameter)| axis(name, parameter)).collect();
            let count = axes.iter().map(|(_, values)| values.len()).fold(1, usize::saturating_mul);
            if count > MAX_POINTS {
                return Err(Box::new(too_many_points(workload, "spec.parameters", "parameters", count)));
            }
            product(&axes).iter().map(|values| point(PointKind::Parameters, values)).collect()
        }
    };
    points
        .map_err(|error| Box::new(workload.places.problem("spec", format!("a point of `{}` has no id: {error}", workload.name))))
}

/// Returns a rate profile in short, such as `1..50 linear`, `1..50 in 5 steps` or `5..20 in 3 segments`. The two dots tell it from a constant
/// rate.
fn profile_text(profile: &RateProfile) -> String {
    let ramp = |from: &f64, to: &f64| format!("{}..{}", number(*from), number(*to));
    match profile {
        RateProfile::Linear { from_per_s, to_per_s } => format!("{} linear", ramp(from_per_s, to_per_s)),
        RateProfile::Exponential { from_per_s, to_per_s } => format!("{} exponential", ramp(from_per_s, to_per_s)),
        RateProfile::Steps { from_per_s, to_per_s, steps } => format!("{} in {steps} steps", ramp(from_per_s, to_per_s)),
        RateProfile::Series { segments } => {
            let (lowest, highest) = profile.range_per_s();
            let noun = if segments.len() == 1 { "segment" } else { "segments" };
            format!("{} in {} {noun}", ramp(&lowest, &highest), segments.len())
        }
    }
}

fn too_many_points(workload: &Workload, place: &str, axes: &str, count: usize) -> Problem {
    let message = format!("the {axes} of `{}` make {count} points; at most {MAX_POINTS} are allowed", workload.name);
    let problem = workload.places.problem(place, message);
    problem.with_hint("every list multiplies the points by its length")
}

fn axis<'a>(name: &'a str, parameter: &'a Parameter) -> Option<(&'a str, &'a [String])> {
    match parameter {
        Parameter::Constant(_) => None,
        Parameter::Axis(values) => Some((name, values)),
    }
}

/// Returns every combination of one value from each axis; the last axis changes fastest.
fn product<'a>(axes: &[(&'a str, &'a [String])]) -> Vec<Vec<(&'a str, &'a str)>> {
    axes.iter().fold(vec![Vec::new()], |combinations, (name, values)| {
        let extended = combinations.iter().flat_map(|combination| {
            values.iter().map(|value| combination.iter().copied().chain([(*name, value.as_str())]).collect())
        });
        extended.collect()
    })
}

fn load_point(kind: PointKind, value: &str) -> Result<Point, IdError> {
    point(kind, &[(kind.as_str(), value)])
}

fn point(kind: PointKind, values: &[(&str, &str)]) -> Result<Point, IdError> {
    Ok(Point {
        point_id: point_id(values)?,
        kind,
        value: values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        load_recipe_digest: None,
    })
}

/// Returns a readable id such as `size-8-threads-2`; `default` for the point without axes. It depends on the point alone, so that
/// adding a value to a sweep renames no other point. Values that the alphabet of names would blur are told apart by a digest at
/// the end.
fn point_id(values: &[(&str, &str)]) -> Result<PointId, IdError> {
    let words: Vec<String> = values.iter().map(|(name, value)| slugify(&format!("{name}-{value}"))).collect();
    let readable = if words.is_empty() { "default".to_owned() } else { words.join("-") };
    let clear = values.iter().all(|(_, value)| is_unambiguous(value));
    PointId::new(&readable).ok().filter(|_| clear).map_or_else(|| digested_id(&readable, values), Ok)
}

/// Returns true if a value differs from any other even after [`slugify`]: a word of lower-case letters and digits, or a decimal
/// number, whose point becomes the only hyphen that a digit follows (names begin with letters).
fn is_unambiguous(value: &str) -> bool {
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    word(value) || value.split_once('.').is_some_and(|(whole, fraction)| digits(whole) && digits(fraction))
}

fn slugify(text: &str) -> String {
    let signs: String = text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    signs.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

fn digested_id(readable: &str, values: &[(&str, &str)]) -> Result<PointId, IdError> {
    let mut hasher = Hasher::new();
    // Lengths keep the end of one name apart from the beginning of the next value.
    values
        .iter()
        .flat_map(|(name, value)| [name, value])
        .for_each(|text| hasher.update(format!("{}:{text},", text.len()).as_bytes()));
    let digest = hasher.finish().hex();
    let head: String = readable.chars().take(READABLE).collect();
    let id = format!("{}-{}", head.trim_matches('-'), digest.chars().take(DIGEST_DIGITS).collect::<String>());
    PointId::new(id.trim_matches('-'))
}

/// Returns a number as canonical JSON writes it.
fn number(value: f64) -> String {
    canonical_value(&Json::from(value)).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| value.to_string())
}
