//! The requirements for publishing a number at a grade: pure rules, each with a name and its finding.
//!
//! A number that falls short is published at a lower grade *with the reasons*, or not at all; a shortfall is never silent.

mod calibration;
mod controls;
mod drift;
mod executables;
mod place;
mod sides;
mod tls;
mod tokens;

use assay_manifest::{
    Claim, ClockOffset, Collection, Control, ControlState, Environment, Grade, Intent, MetricSummary, OriginKind, Plan,
    PointSummary, Reason, RunStatus, Shortfall, SourceRef, Stability, Summary,
};

pub use calibration::{CALIBRATION, ClientLoad, MARGIN, client_load, describe_calibration, describe_ceiling};
pub use controls::{CONTROL_CONTRADICTED, find_contradicted_controls};
pub use drift::find_drift;
pub use executables::{EXECUTABLE_REPLACED, UNPINNED_EXECUTABLE, find_replaced_executable, find_unpinned_executables};
pub use place::{
    COLOCATED, CountedAttempt, MOVED_LOAD, MOVED_TARGET, find_colocated_load, find_moved_load, find_moved_target,
    find_shared_machine,
};
pub use sides::{CONFOUNDED, SIDES_DIFFER, find_confounded_sides, find_side_differences};
pub use tls::{TLS_NOT_VERIFIED, find_unverified_tls};
pub use tokens::{INPUT_TOKENS, OUTPUT_TOKENS, find_input_token_difference, find_output_token_difference};

/// The minimum number of counted trials of a point for a publication.
pub const MIN_TRIALS: u32 = 3;

/// The name of the rule that trials were repeated: a number whose interval is within one run is of realism grade at most.
pub const WITHIN_RUN: &str = "within_run";

/// The name of the rule that the clocks of several shards are known, and of the Summary's issue if they are not.
pub const CLOCK_OFFSET: &str = "clock_offset";

/// The evidence that the rules examine. Signatures are not part of it: the evidence was verified under the trust policy before.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The Plan.
    pub plan: &'a Plan,
    /// The environments of the run.
    pub environments: &'a [&'a Environment],
    /// The Collection.
    pub collection: &'a Collection,
    /// The share of the planned trials that count.
    pub status: RunStatus,
    /// The points with their statistics.
    pub points: &'a [PointSummary],
    /// The problems of the run as a whole; the rules look for [`CLOCK_OFFSET`], [`MOVED_LOAD`], [`CONTROL_CONTRADICTED`],
    /// [`MOVED_TARGET`], [`COLOCATED`], [`UNPINNED_EXECUTABLE`], [`EXECUTABLE_REPLACED`], [`SIDES_DIFFER`], [`CONFOUNDED`] and [`TLS_NOT_VERIFIED`].
    pub issues: &'a [Reason],
}

impl<'a> Evidence<'a> {
    /// Takes the evidence from a finished Summary.
    pub fn from_summary(
        plan: &'a Plan,
        environments: &'a [&'a Environment],
        collection: &'a Collection,
        summary: &'a Summary,
    ) -> Self {
        Self { plan, environments, collection, status: summary.status, points: &summary.points, issues: &summary.issues }
    }
}

/// Returns the grade that a run earns, with every rule of the requested grade that it does not meet.
pub fn grade(evidence: &Evidence<'_>) -> Grade {
    let requested = evidence.plan.intent;
    let shortfalls = shortfalls(requested, evidence);
    let given = match requested {
        _ if shortfalls.is_empty() => requested,
        Intent::Publication if self::shortfalls(Intent::Realism, evidence).is_empty() => Intent::Realism,
        _ => Intent::Exploratory,
    };
    let declared = if given == Intent::Publication { declared_controls(evidence.environments) } else { Vec::new() };
    Grade { requested, given, shortfalls, declared }
}

/// Returns the controls that a person declares in some block, instead of a proof in every block.
fn declared_controls(environments: &[&Environment]) -> Vec<Control> {
    let is_declared = |control: &&Control| {
        let mut facts = environments.iter().flat_map(|environment| &environment.controls);
        facts.any(|fact| fact.control == **control && fact.state == ControlState::Declared)
    };
    Control::ALL.iter().filter(is_declared).copied().collect()
}

/// Returns every rule of a grade that a run does not meet.
pub fn shortfalls(grade: Intent, evidence: &Evidence<'_>) -> Vec<Shortfall> {
    match grade {
        Intent::Exploratory => Vec::new(),
        Intent::Realism => realism_shortfalls(evidence),
        Intent::Publication => {
            let mut found = realism_shortfalls(evidence);
            found.extend(claim_shortfall(evidence.plan.claim.as_ref()));
            found.extend(control_shortfalls(evidence.environments));
            found.extend(calibration::calibration_shortfalls(&load_of(evidence), evidence.environments));
            found.extend(evidence.points.iter().flat_map(point_shortfalls));
            found.extend(run_shortfalls(evidence));
            found.extend(stated_shortfalls(
                evidence.issues,
                &[
                    CLOCK_OFFSET,
                    CONTROL_CONTRADICTED,
                    UNPINNED_EXECUTABLE,
                    EXECUTABLE_REPLACED,
                    SIDES_DIFFER,
                    CONFOUNDED,
                    TLS_NOT_VERIFIED,
                ],
            ));
            found
        }
    }
}

fn load_of(evidence: &Evidence<'_>) -> Vec<ClientLoad> {
    client_load(evidence.plan, evidence.collection, evidence.points)
}

fn shortfall(rule: &str, found: impl Into<String>) -> Shortfall {
    Shortfall { rule: rule.to_owned(), found: found.into() }
}

/// The shortfalls of realism: the run must be traceable, with one origin of the load that is apart from the target.
fn realism_shortfalls(evidence: &Evidence<'_>) -> Vec<Shortfall> {
    let mut found = traceability_shortfalls(evidence);
    found.extend(stated_shortfalls(evidence.issues, &[MOVED_LOAD, MOVED_TARGET, COLOCATED]));
    found.extend(tokens::input_token_shortfalls(evidence.points));
    found.extend(tokens::output_token_shortfalls(evidence.plan, evidence.points));
    found.extend(evidence.points.iter().filter_map(single_trial_shortfall));
    found
}

/// Reports a point that was planned as one trial and has no interval within its run: nothing then says how far its numbers can be relied on.
fn single_trial_shortfall(point: &PointSummary) -> Option<Shortfall> {
    let is_single = point.trials_planned == 1 && point.trials_counted == 1;
    if !is_single || point.is_within_run() {
        return None;
    }
    let why = point.metrics.iter().find_map(|metric| metric.interval_absent.as_deref()).unwrap_or("no reason is given");
    let name = format!("{} at `{}`", point.case_id, point.point_id);
    Some(shortfall("one_trial", format!("{name} was planned as one trial, and has no interval within its run: {why}")))
}

/// The shortfalls of traceability: a clean commit, and no input that may change its meaning later.
fn traceability_shortfalls(evidence: &Evidence<'_>) -> Vec<Shortfall> {
    let unpinned =
        evidence.plan.unpinned.iter().map(|item| shortfall("pinned", format!("`{}` is not pinned: {}", item.what, item.reason)));
    describe_unclean_source(&evidence.plan.source)
        .map(|found| shortfall("clean_commit", found))
        .into_iter()
        .chain(unpinned)
        .collect()
}

fn describe_unclean_source(source: &SourceRef) -> Option<String> {
    match (source.kind, source.dirty, &source.commit) {
        (OriginKind::Git, false, Some(_)) => None,
        (OriginKind::Git, true, _) => Some("what was read differs from its commit".to_owned()),
        (OriginKind::Git, false, None) => Some("the source names no commit".to_owned()),
        (kind, ..) => Some(format!("the run was started from a source of kind `{kind}`, and not from a commit")),
    }
}

fn claim_shortfall(claim: Option<&Claim>) -> Option<Shortfall> {
    match claim {
        None => Some(shortfall("claim", "the pipeline states neither methodology nor what its numbers represent")),
        Some(claim) if claim.methodology.trim().is_empty() => Some(shortfall("claim", "the methodology is empty")),
        Some(claim) if claim.statement.trim().is_empty() => Some(shortfall("claim", "the statement is empty")),
        Some(_) => None,
    }
}

/// Checks that each control is proved or declared in every block. A control that a block does not mention is absent.
fn control_shortfalls(environments: &[&Environment]) -> Vec<Shortfall> {
    let absent = |control: Control| environments.iter().find_map(|environment| absent_control(environment, control));
    Control::ALL.iter().filter_map(|control| absent(*control)).collect()
}

fn absent_control(environment: &Environment, control: Control) -> Option<Shortfall> {
    let mut facts = environment.controls.iter().filter(|fact| fact.control == control).peekable();
    let evidence = match facts.peek() {
        None => "it is not declared",
        Some(_) => &facts.find(|fact| fact.state == ControlState::Absent)?.evidence,
    };
    Some(shortfall("controls", format!("`{control}` is absent: {evidence}")))
}

fn point_shortfalls(point: &PointSummary) -> Vec<Shortfall> {
    let name = format!("{} at `{}`", point.case_id, point.point_id);
    let mut found = Vec::new();
    let trials = if point.trials_counted == 1 { "trial" } else { "trials" };
    if point.trials_counted < MIN_TRIALS {
        found.push(shortfall("trials", format!("{name} has {} counted {trials}, fewer than {MIN_TRIALS}", point.trials_counted)));
    }
    if point.trials_counted < point.trials_planned {
        let (counted, planned) = (point.trials_counted, point.trials_planned);
        found.push(shortfall("complete", format!("{name} has {counted} counted {trials} of {planned} planned")));
    }
    if point.is_within_run() {
        found.push(shortfall(
            WITHIN_RUN,
            format!("{name} has intervals within one run, which do not hold the variation from run to run"),
        ));
    }
    found.extend(point.metrics.iter().filter(|metric| metric.primary).flat_map(|metric| self::metric_shortfalls(&name, metric)));
    found
}

/// Checks that a primary metric has an interval, and that its trials agree.
fn metric_shortfalls(point: &str, metric: &MetricSummary) -> Vec<Shortfall> {
    let mut found = Vec::new();
    if metric.interval.is_none() {
        let why = metric.interval_absent.as_deref().unwrap_or("no reason is given");
        found.push(shortfall("interval", format!("`{}` of {point} has no interval: {why}", metric.metric)));
    }
    let (name, reason) = (&metric.metric, &metric.stability_reason);
    let instability = match metric.stability {
        Stability::Stable => None,
        Stability::Unstable => Some(format!("`{name}` of {point} is unstable: {reason}")),
        Stability::Unknown => Some(format!("the stability of `{name}` of {point} is unknown: {reason}")),
    };
    found.extend(instability.map(|found| shortfall("stability", found)));
    found
}

fn run_shortfalls(evidence: &Evidence<'_>) -> Vec<Shortfall> {
    let drift = evidence
        .collection
        .drift
        .iter()
        .map(|drift| shortfall("drift", format!("`{}` differs between blocks: {}", drift.what, drift.detail)));
    let nothing = (evidence.status == RunStatus::Failed).then(|| shortfall("complete", "no trial is valid"));
    drift.chain(nothing).collect()
}

/// Returns the issues of the Summary that are also rules.
fn stated_shortfalls<'a>(issues: &'a [Reason], rules: &'a [&str]) -> impl Iterator<Item = Shortfall> + 'a {
    issues.iter().filter(|issue| rules.contains(&issue.code.as_str())).map(|issue| shortfall(&issue.code, &issue.detail))
}

/// Reports unknown clocks of several shards, over the attempts that count: without them, the order of events in different shards
/// is unknown. `None` if one shard made each trial, or if every offset is known. Reduce, which reads the attempts, records it in
/// the Summary for the rules.
pub fn find_unknown_clocks<'a>(counted: impl IntoIterator<Item = CountedAttempt<'a>>) -> Option<Reason> {
    let mut unknown = counted.into_iter().filter_map(|counted| Some((counted, unknown_clock(&counted)?)));
    let (CountedAttempt { shard, attempt, .. }, why) = unknown.next()?;
    let more = match unknown.count() {
        0 => String::new(),
        1 => "; nor is it in one other attempt".to_owned(),
        more => format!("; nor is it in {more} other attempts"),
    };
    let (index, count, trial) = (shard.index, shard.count, &attempt.trial_id);
    let detail =
        format!("how far the clock of shard {index} of {count} is from shard 0's is not known in trial `{trial}`: {why}{more}");
    Some(Reason::new(CLOCK_OFFSET, detail))
}

/// Returns the reason why a shard's clock offset from shard 0 is unknown. A clock that the kernel reports as synchronised still
/// has an unmeasured offset.
fn unknown_clock(CountedAttempt { shard, attempt, .. }: &CountedAttempt<'_>) -> Option<String> {
    if shard.count <= 1 {
        return None;
    }
    let Some(ClockOffset { source, offset_ns, no_exchange, .. }) = attempt.serving.as_ref().map(|outcome| &outcome.clock) else {
        return Some("the attempt says nothing of it".to_owned());
    };
    if offset_ns.as_ref().is_some_and(|offset| offset.parse::<i64>().is_ok()) {
        return None;
    }
    let known_by = if source == "kernel" { "only the kernels say that they are synchronised" } else { "nobody has measured it" };
    Some(no_exchange.as_ref().map_or_else(|| known_by.to_owned(), |why| format!("{known_by} ({why})")))
}

#[cfg(test)]
mod tests;
