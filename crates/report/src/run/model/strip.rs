//! The state strip of a run: how far to trust the numbers below it, in a few labelled facts.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Control, ControlFact, ControlState, CrossCheck, CrossCheckOutcome, Exclusion, Grade, PointSummary, Role, RunOutcome,
    RunStatus, ServingPoint, Summary, WorkloadType,
};
use assay_metric::{Metric, Statistic};

use super::environment;
use super::exclusions::{commonest_reason, describe_none_counted, reason_counts};
use super::load::{self, ExcludedRequests, Failure};
use super::outcome::PLANNED_CANCELLATION;
use crate::render::number::{bytes, grouped, milliseconds, percent};
use crate::render::strip::StripItem;
use crate::render::text::{all_of, clean, counted};
use crate::run::inputs::Inputs;

/// Maximum number of different error messages about failed requests.
const MAX_ERROR_MESSAGES: usize = 3;

/// Maximum number of different reasons why counts were not compared.
const MAX_REASONS: usize = 3;

/// Returns all items, in the order in which a reader needs them; `requests` is the one that [`requests`] returns.
pub(crate) fn items(inputs: &Inputs<'_>, requests: Option<StripItem>) -> Vec<StripItem> {
    let always = [signatures, controls, machine, source, evidence, runs].map(|item| item(inputs));
    let first = [verified(inputs), Some(trials(inputs)), requests, client(inputs), Some(grade(inputs))];
    first.into_iter().flatten().chain(always).collect()
}

fn verified(inputs: &Inputs<'_>) -> Option<StripItem> {
    let verified = inputs.verified.as_ref()?;
    let by = clean(&format!("by {}, before this report was made", verified.verifier));
    let again =
        "a report cannot vouch for itself: verify its folder again, with `assay verify` or the verifier page of an Assay release"
            .to_owned();
    Some(StripItem::new("Verified", false, clean(&format!("to level {}", verified.level)), vec![by, again]))
}

/// States the outcomes of all requests that were due; `None` for a run without serving.
pub(super) fn requests(inputs: &Inputs<'_>) -> Option<StripItem> {
    let points: Vec<&ServingPoint> = inputs.summary.points.iter().filter_map(|point| point.serving.as_ref()).collect();
    if points.is_empty() {
        return None;
    }
    let due: u64 = points.iter().map(|point| point.requests.0).sum();
    let excluded = points.iter().map(|point| ExcludedRequests::new(&point.excluded_outcomes));
    let excluded = excluded.fold(ExcludedRequests::default(), ExcludedRequests::plus);
    if due == 0 && excluded.all > 0 {
        return Some(excluded_requests(inputs, &points, excluded));
    }
    if due == 0 {
        return Some(no_requests(inputs));
    }
    let ok: u64 = points.iter().filter_map(|point| point.outcomes.get("ok")).map(|count| count.0).sum();
    let cancelled: u64 = points.iter().filter_map(|point| point.outcomes.get(PLANNED_CANCELLATION)).map(|count| count.0).sum();
    let uncancelled = due.saturating_sub(cancelled);
    let failed = uncancelled.saturating_sub(ok);
    let request = if excluded.all > 0 { "counted request" } else { "request" };
    let headline = match failed {
        0 if cancelled > 0 => format!("all others of {} succeeded", counted(due, request)),
        0 if due == 1 => format!("the only {request} succeeded"),
        0 => format!("{} succeeded", all_of(due, request)),
        _ => format!("{} of {} failed ({})", grouped(failed), counted(uncancelled, request), share(failed, uncancelled)),
    };
    let headline = cancelled_clause(cancelled) + &headline + &excluded.clause();
    let listed = points.iter().flat_map(|point| &point.failures);
    let mut details = failure_counts(&load::failures(points.iter().map(|point| &point.outcomes), listed));
    details.push("of the measured phases of counted trials, of which none is left out of the error rate".to_owned());
    Some(StripItem::new("Requests", failed > 0, headline, details))
}

/// States that no attempt has a request of a measured phase, and the most frequent reason, such as the requests before it that failed.
fn no_requests(inputs: &Inputs<'_>) -> StripItem {
    let points: Vec<&PointSummary> = inputs.summary.points.iter().filter(|point| point.serving.is_some()).collect();
    let reason = commonest_reason(&points).map(|reason| format!(": {reason}")).unwrap_or_default();
    StripItem::new("Requests", true, format!("no request was measured{reason}"), Vec::new())
}

/// States how many requests the client cancelled as planned; empty if it cancelled none.
fn cancelled_clause(cancelled: u64) -> String {
    match cancelled {
        0 => String::new(),
        1 => "1 was cancelled by the client as planned, ".to_owned(),
        _ => format!("{} were cancelled by the client as planned, ", grouped(cancelled)),
    }
}

/// Returns each kind of failed requests with its number and the first message.
fn failure_counts(failures: &[Failure]) -> Vec<String> {
    let count = |failure: &Failure| {
        let message = failure.describe_message().map(|said| format!("; {said}")).unwrap_or_default();
        format!("{}: {}{message}", failure.kind, grouped(failure.count))
    };
    failures.iter().map(count).collect()
}

/// States the outcomes of the requests of a run without a counted attempt, with their error messages.
fn excluded_requests(inputs: &Inputs<'_>, points: &[&ServingPoint], excluded: ExcludedRequests) -> StripItem {
    let headline = format!("{}, in attempts that do not count", excluded.describe());
    let failures = load::failures(points.iter().map(|point| &point.excluded_outcomes), []);
    let mut details = failure_counts(&failures);
    let reasons = inputs.summary.points.iter().flat_map(|point| &point.excluded).flat_map(|exclusion| &exclusion.reasons);
    for reason in reasons.filter(|reason| reason.code == "all_failed") {
        let said = clean(&reason.detail);
        if details.len() < failures.len() + MAX_ERROR_MESSAGES && !details.contains(&said) {
            details.push(said);
        }
    }
    StripItem::new("Requests", true, headline, details)
}

fn share(part: u64, whole: u64) -> String {
    percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// States whether the client measured the endpoint or limited the result; `None` for a run without serving.
fn client(inputs: &Inputs<'_>) -> Option<StripItem> {
    let points = || inputs.summary.points.iter().filter(|point| point.workload_type == WorkloadType::Serving);
    points().next()?;
    let limited: Vec<&Exclusion> =
        points().flat_map(|point| &point.excluded).filter(|exclusion| is_client_limit(exclusion)).collect();
    let headline = match limited.len() {
        0 if inputs.plan.trial_policy.stated_limits().is_some() => {
            "no attempt was limited by its client, by limits of the pipeline's own".to_owned()
        }
        0 => "no attempt was limited by its client".to_owned(),
        some => format!("{} limited by the client, excluded", counted(some as u64, "attempt")),
    };
    let mut details: Vec<String> = Vec::new();
    details.extend((!limited.is_empty()).then(|| reason_counts(limited.iter().copied())));
    details.extend(worst_lateness(inputs.summary));
    let checks = CrossChecks::new(&inputs.collection.cross_checks);
    details.extend(checks.describe());
    let assumed: u64 = points().filter_map(|point| point.serving.as_ref()).map(|serving| serving.tpot_assumed.0).sum();
    details
        .extend((assumed > 0).then(|| format!("TPOT of {} assumes one token in the first event", counted(assumed, "request"))));
    Some(StripItem::new("Client", !limited.is_empty() || !checks.differing.is_empty(), headline, details))
}

/// The comparisons of the client's counts with the endpoint's, by outcome.
struct CrossChecks<'a> {
    all: &'a [CrossCheck],
    agreeing: Vec<&'a CrossCheck>,
    differing: Vec<&'a CrossCheck>,
    /// Those without an upper limit.
    bounded: Vec<&'a CrossCheck>,
    uncompared: Vec<&'a CrossCheck>,
}

impl<'a> CrossChecks<'a> {
    fn new(all: &'a [CrossCheck]) -> Self {
        let of = |outcome| all.iter().filter(|check| check.outcome == outcome).collect();
        Self {
            all,
            agreeing: of(CrossCheckOutcome::Agrees),
            differing: of(CrossCheckOutcome::Disagrees),
            bounded: of(CrossCheckOutcome::AtLeast),
            uncompared: of(CrossCheckOutcome::NotCompared),
        }
    }

    /// States no more than the checks found: agreement only if both limits were checked and no count differs.
    fn describe(&self) -> Vec<String> {
        let compared = self.agreeing.len() + self.differing.len() + self.bounded.len();
        if compared == 0 {
            let reasons = because(&self.uncompared);
            return vec![format!("no count of the client was compared with the endpoint's own counters{reasons}")];
        }
        let mut details = vec![if !self.differing.is_empty() {
            format!("the endpoint's own counters differ from the client's counts in {}", part_of(self.differing.len(), compared))
        } else if !self.agreeing.is_empty() {
            format!(
                "the endpoint's own counters agree with the client's counts in {}, over {}",
                part_of(self.agreeing.len(), compared),
                self.agreeing_attempts()
            )
        } else {
            format!(
                "the endpoint's own counters are {AT_LEAST} in {}, and no upper limit could be checked{}",
                part_of(compared, compared),
                because(&self.bounded)
            )
        }];
        if self.bounded.len() < compared && !self.bounded.is_empty() {
            let checks = counted(self.bounded.len() as u64, "check");
            details.push(format!("in {checks}, they are only known to be {AT_LEAST}{}", because(&self.bounded)));
        }
        if !self.uncompared.is_empty() {
            let are = if self.uncompared.len() == 1 { "is" } else { "are" };
            let others = counted(self.uncompared.len() as u64, "other count");
            details.push(format!("{others} {are} not compared{}", because(&self.uncompared)));
        }
        details.extend(self.differing.iter().map(|check| describe_difference(check)));
        details
    }

    /// Returns the number of attempts with a count that agrees, among all attempts that have a check.
    fn agreeing_attempts(&self) -> String {
        let agreeing = attempts(self.agreeing.iter().copied());
        let all = attempts(self.all.iter());
        if agreeing == all { all_of(all, "attempt") } else { format!("{} of {}", grouped(agreeing), counted(all, "attempt")) }
    }
}

/// The phrase for counts without an upper limit. Counts of tokens have a tolerance.
const AT_LEAST: &str = "at least the client's counts (within the tolerance)";

/// Returns a phrase for some of the checks: `2 of 3 checks`, `all 3 checks`.
fn part_of(part: usize, all: usize) -> String {
    if part == all { all_of(all as u64, "check") } else { format!("{part} of {}", counted(all as u64, "check")) }
}

/// Returns the number of different attempts in some checks.
fn attempts<'a>(checks: impl Iterator<Item = &'a CrossCheck>) -> u64 {
    let attempts = checks.flat_map(|check| check.attempts.iter().map(|attempt| (check.block, attempt)));
    attempts.collect::<BTreeSet<_>>().len() as u64
}

/// Returns the different reasons of some checks as a clause.
fn because(checks: &[&CrossCheck]) -> String {
    let reasons: BTreeSet<&str> = checks.iter().filter_map(|check| check.reason.as_deref()).collect();
    let more = reasons.len().saturating_sub(MAX_REASONS);
    let mut shown: Vec<String> = reasons.into_iter().take(MAX_REASONS).map(clean).collect();
    shown.extend((more > 0).then(|| counted(more as u64, "more reason")));
    if shown.is_empty() { String::new() } else { format!(", because {}", shown.join("; ")) }
}

fn describe_difference(check: &CrossCheck) -> String {
    let endpoint = check.endpoint.map_or_else(|| "nothing".to_owned(), |count| count.0.to_string());
    clean(&format!("{}: the client counted {}, the endpoint {endpoint}", check.what, check.client.0))
}

/// Returns true if an exclusion's reasons say that the client, not the endpoint, was the limit.
fn is_client_limit(exclusion: &Exclusion) -> bool {
    let codes = ["cpu_throttled", "late_sends", "rate_not_reached", "starved", "stalled"];
    exclusion.reasons.iter().any(|reason| reason.code.starts_with("client") || codes.contains(&reason.code.as_str()))
}

/// States the largest delay with which requests were sent, over the points that had intended times.
fn worst_lateness(summary: &Summary) -> Option<String> {
    let metrics = summary.points.iter().flat_map(|point| &point.metrics);
    let tail = Metric::SendLateness.name(Statistic::P99)?;
    let worst = metrics.filter(|metric| metric.metric == tail.text).map(|metric| metric.max).reduce(f64::max)?;
    Some(format!("sent at most {} late in its worst trial (99th percentile)", milliseconds(worst)))
}

/// States the number of counted trials among the planned ones.
pub(super) fn counted_trials(inputs: &Inputs<'_>) -> String {
    let planned = inputs.plan.trials.len() as u64;
    let counting: u64 = inputs.summary.points.iter().map(|point| u64::from(point.trials_counted)).sum();
    match inputs.summary.status {
        RunStatus::Succeeded if planned == 1 => "the only trial counts".to_owned(),
        RunStatus::Succeeded => format!("{} count", all_of(planned, "trial")),
        RunStatus::Partial => {
            let count = if counting == 1 { "counts" } else { "count" };
            format!("{} of {} {count}", grouped(counting), counted(planned, "trial"))
        }
        RunStatus::Failed => describe_none_counted(planned),
    }
}

fn trials(inputs: &Inputs<'_>) -> StripItem {
    let points = &inputs.summary.points;
    let attempts: u64 = points.iter().map(|point| u64::from(point.attempts)).sum();
    let excluded: usize = points.iter().map(|point| point.excluded.len()).sum();
    let status = inputs.summary.status;
    let headline = match status {
        RunStatus::Succeeded => counted_trials(inputs),
        RunStatus::Partial => format!("partial: {}", counted_trials(inputs)),
        RunStatus::Failed => format!("failed: {}", counted_trials(inputs)),
    };
    let reasons = reason_counts(points.iter().flat_map(|point| &point.excluded));
    let attempts = match excluded {
        0 => format!("{}, none excluded", counted(attempts, "attempt")),
        _ => format!("{}, {excluded} excluded: {reasons}", counted(attempts, "attempt")),
    };
    let issues = inputs.summary.issues.iter().map(|issue| clean(&format!("{}: {}", issue.code, issue.detail)));
    StripItem::new("Trials", status != RunStatus::Succeeded, headline, std::iter::once(attempts).chain(issues).collect())
}

/// States which controls rest on declarations alone; `None` if all are proved.
fn declared_controls(grade: &Grade) -> Option<String> {
    let named: Vec<_> = grade.declared.iter().map(|control| format!("`{control}`")).collect();
    let (controls, rest) = if named.len() == 1 { ("control", "rests") } else { ("controls", "rest") };
    let sentence = || format!("the {controls} {} {rest} on a person's declaration, and no telemetry proves it", named.join(", "));
    (!named.is_empty()).then(sentence)
}

fn grade(inputs: &Inputs<'_>) -> StripItem {
    let grade = inputs.grade;
    let lower = grade.given != grade.requested;
    let headline = if lower {
        format!("{}; {} was intended", grade.given, grade.requested)
    } else {
        format!("{}, as intended", grade.given)
    };
    let rests = declared_controls(grade);
    let headline = rests.as_ref().map_or(headline.clone(), |_| format!("{headline}, by declaration"));
    let shortfalls = grade.shortfalls.iter().map(|shortfall| clean(&format!("{}: {}", shortfall.rule, shortfall.found)));
    StripItem::new("Grade", lower || rests.is_some(), headline, shortfalls.chain(rests).collect())
}

/// Counts the verified signatures. A published report is made before the Publication that names it, and a shown one afterwards: both
/// count the manifests without the Publication, so that they give the same number.
fn signatures(inputs: &Inputs<'_>) -> StripItem {
    let publications = inputs.signers.iter().filter(|signature| signature.stage == Role::Publish).count();
    let before = counted((inputs.signers.len() - publications) as u64, "signed manifest");
    let signed = if publications > 0 { format!("{before} and the Publication") } else { before };
    let (caution, headline) = match &inputs.trust_policy {
        _ if inputs.signers.is_empty() => (true, "none: nothing here is signed".to_owned()),
        Some((name, _)) => (false, format!("{signed}, trusted by `{}`", clean(name))),
        None => (true, format!("{signed}, signer not established")),
    };
    let mut by_signer: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for signature in inputs.signers {
        let stages = by_signer.entry(&signature.signer).or_default();
        if !stages.contains(&signature.stage.as_str()) {
            stages.push(signature.stage.as_str());
        }
    }
    let mut details: Vec<_> =
        by_signer.into_iter().map(|(signer, stages)| clean(&format!("{signer}: {}", stages.join(", ")))).collect();
    if publications == 0 && !inputs.signers.is_empty() {
        details.push("the Publication is signed after this report, which it names".to_owned());
    }
    details.push(
        "a report cannot vouch for itself: `assay verify`, or the verifier page of an Assay release, says which level holds"
            .to_owned(),
    );
    StripItem::new("Signatures", caution, headline, details)
}

fn controls(inputs: &Inputs<'_>) -> StripItem {
    let facts: Vec<(Control, &ControlFact)> = weakest_controls(inputs);
    let count = |state| {
        let known = facts.iter().filter(|(_, fact)| fact.state == state).count();
        let unmentioned = if state == ControlState::Absent { Control::ALL.len() - facts.len() } else { 0 };
        known + unmentioned
    };
    let headline = format!(
        "{} proved, {} declared, {} absent",
        count(ControlState::Proved),
        count(ControlState::Declared),
        count(ControlState::Absent)
    );
    let detail = |control: &Control| {
        let name = control.as_str().replace('_', " ");
        match facts.iter().find(|(known, _)| known == control) {
            Some((_, fact)) if fact.evidence.is_empty() => format!("{name}: {}", fact.state),
            Some((_, fact)) => clean(&format!("{name}: {} ({})", fact.state, fact.evidence)),
            None => format!("{name}: absent (not mentioned)"),
        }
    };
    StripItem::new("Controls", count(ControlState::Absent) > 0, headline, Control::ALL.iter().map(detail).collect())
}

/// Returns each control at its weakest: a run is as controlled as its least controlled block.
fn weakest_controls<'a>(inputs: &Inputs<'a>) -> Vec<(Control, &'a ControlFact)> {
    let observed = inputs.environments.iter().flat_map(|environment| &environment.controls);
    let plan: &'a assay_manifest::Plan = inputs.plan;
    let declared = plan.controls.iter().filter(|_| inputs.environments.is_empty());
    let mut weakest: BTreeMap<Control, &ControlFact> = BTreeMap::new();
    for fact in observed.chain(declared) {
        let known = weakest.entry(fact.control).or_insert(fact);
        if fact.state > known.state {
            *known = fact;
        }
    }
    weakest.into_iter().collect()
}

fn machine(inputs: &Inputs<'_>) -> StripItem {
    let machines = environment::machines(inputs.environments);
    let Some((machine, others)) = machines.split_first() else {
        return StripItem::new("Machine", true, "unknown".to_owned(), vec!["no host has the role of a target".to_owned()]);
    };
    let others = others.iter().map(|other| format!("also {}", other.describe()));
    let clients = environment::clients(inputs.environments);
    let clients = clients.iter().map(|client| format!("the client ran on {}", client.describe()));
    let rest = Some(machine.details.clone()).filter(|rest| !rest.is_empty());
    let details = rest.into_iter().chain(others).chain(clients).chain([format!("facts read {}", read_at(inputs))]);
    StripItem::new("Machine", false, machine.title.clone(), details.collect())
}

fn read_at(inputs: &Inputs<'_>) -> String {
    let times: Vec<_> = inputs.environments.iter().map(|environment| environment.observed_at).collect();
    match (times.iter().min(), times.iter().max()) {
        (Some(first), Some(last)) if first != last => {
            format!("{} to {}, {}", first.to_seconds(), last.to_seconds(), counted(times.len() as u64, "block"))
        }
        (Some(only), _) => only.to_seconds(),
        _ => "never".to_owned(),
    }
}

fn source(inputs: &Inputs<'_>) -> StripItem {
    let source = &inputs.plan.source;
    let commit = source.commit.as_deref().map(|commit| clean(&commit.chars().take(12).collect::<String>()));
    let headline = match (&commit, source.dirty) {
        (Some(commit), false) => format!("commit {commit}"),
        (Some(commit), true) => format!("commit {commit} with uncommitted changes"),
        (None, _) => format!("{}, no commit", source.kind),
    };
    let pipeline = clean(&format!("pipeline {}", inputs.plan.pipeline.path));
    let details = source.repository.iter().map(|repository| clean(repository)).chain([pipeline]).collect();
    StripItem::new("Source", source.dirty || commit.is_none(), headline, details)
}

/// The label of the item on raw evidence.
pub(super) const EVIDENCE: &str = "Evidence";

fn evidence(inputs: &Inputs<'_>) -> StripItem {
    let collection = inputs.collection;
    let gaps: usize = collection.trials.iter().flat_map(|trial| &trial.attempts).map(|attempt| attempt.gaps.len()).sum();
    let headline = format!("{}, {}", counted(collection.evidence_count.0, "raw artifact"), bytes(collection.evidence_bytes.0));
    let recording = match gaps {
        0 => "no gaps in what was recorded".to_owned(),
        _ => format!("{} in what was recorded", counted(gaps as u64, "gap")),
    };
    let drift = collection.drift.iter().map(|drift| clean(&format!("drift of {}: {}", drift.what, drift.detail)));
    let caution = gaps > 0 || !collection.drift.is_empty();
    StripItem::new(EVIDENCE, caution, headline, std::iter::once(recording).chain(drift).collect())
}

fn runs(inputs: &Inputs<'_>) -> StripItem {
    let others: Vec<_> = inputs.runs.iter().filter(|run| run.outcome != RunOutcome::This).collect();
    let headline = match others.len() {
        0 => "this one only".to_owned(),
        more => format!("this one and {}", counted(more as u64, "other")),
    };
    let details = others.iter().map(|run| format!("`{}` {}", run.run_id, run.outcome)).collect();
    StripItem::new("Runs of these cases", false, headline, details)
}

#[cfg(test)]
mod tests {
    use assay_manifest::Count;

    use super::*;
    use crate::run::fixture::{self, Model};

    fn item(model: &Model, label: &str) -> StripItem {
        model.report().strip.into_iter().find(|item| item.label == label).expect("it is there")
    }

    #[test]
    fn a_published_report_and_a_shown_one_count_the_same_manifests() {
        let mut model = fixture::model();
        let shown = item(&model, "Signatures");
        assert_eq!(shown.headline, "6 signed manifests and the Publication, trusted by `local`");
        model.signers.retain(|signature| signature.stage != Role::Publish);
        let published = item(&model, "Signatures");
        assert_eq!(published.headline, "6 signed manifests, trusted by `local`");
        let follows = "the Publication is signed after this report, which it names".to_owned();
        assert!(published.details.contains(&follows) && !shown.details.contains(&follows));
        model.signers.clear();
        assert!(!item(&model, "Signatures").details.contains(&follows), "nothing is signed here");
    }

    #[test]
    fn one_trial_and_one_request_are_no_plural() {
        let mut model = fixture::serving::small();
        let trials = |model: &Model| item(model, "Trials").headline;
        model.plan.trials.truncate(1);
        model.summary.status = RunStatus::Succeeded;
        assert_eq!(trials(&model), "the only trial counts");
        model.summary.status = RunStatus::Failed;
        assert_eq!(trials(&model), "failed: the only trial does not count");
        let mut model = fixture::serving::small();
        for point in &mut model.summary.points {
            point.trials_counted = 0;
        }
        model.summary.points[0].trials_counted = 1;
        assert_eq!(trials(&model), "partial: 1 of 15 trials counts");
        for serving in model.summary.points.iter_mut().filter_map(|point| point.serving.as_mut()) {
            (serving.requests, serving.outcomes) = (Count(0), BTreeMap::new());
        }
        let serving = model.summary.points[0].serving.as_mut().expect("it serves");
        (serving.requests, serving.outcomes) = (Count(1), BTreeMap::from([("ok".to_owned(), Count(1))]));
        assert_eq!(item(&model, "Requests").headline, "the only request succeeded");
        assert_eq!(item(&fixture::model(), "Trials").headline, "partial: 12 of 20 trials count");
    }

    #[test]
    fn requests_that_a_resumed_run_had_cancelled_are_not_called_failed() {
        let mut model = fixture::serving::small();
        let counts =
            |outcomes: &[(&str, u64)]| outcomes.iter().map(|(name, count)| ((*name).to_owned(), Count(*count))).collect();
        for serving in model.summary.points.iter_mut().filter_map(|point| point.serving.as_mut()) {
            (serving.requests, serving.outcomes) = (Count(50), counts(&[("ok", 50)]));
        }
        let first = model.summary.points[0].serving.as_mut().expect("it serves");
        first.excluded_outcomes = counts(&[("ok", 4), ("cancelled_at_end", 2)]);
        insta::assert_snapshot!(item(&model, "Requests").headline, @"all 150 counted requests succeeded; 2 of 6 were cancelled in attempts that do not count");
        for serving in model.summary.points.iter_mut().filter_map(|point| point.serving.as_mut()) {
            (serving.requests, serving.outcomes) = (Count(0), BTreeMap::new());
        }
        insta::assert_snapshot!(item(&model, "Requests").headline, @"2 of 6 requests were cancelled, in attempts that do not count");
    }

    #[test]
    fn a_run_without_a_measured_request_says_which_other_requests_failed() {
        let mut model = fixture::serving::small();
        for point in &mut model.summary.points {
            point.excluded.clear();
            let serving = point.serving.as_mut().expect("it serves");
            (serving.requests, serving.outcomes) = (Count(0), BTreeMap::new());
        }
        assert_eq!(item(&model, "Requests").headline, "no request was measured");
        let point = &mut model.summary.points[0];
        let detail = "2 of 3 turns that bring the history of sessions into the endpoint's cache failed, the first of them turn 4 of session 1 (timeout)";
        let trial_id = assay_manifest::TrialId::from_parts(&point.case_id, &point.point_id, 0);
        point.excluded =
            vec![Exclusion { trial_id, attempt: 0, reasons: vec![assay_manifest::Reason::new("warm_history_failed", detail)] }];
        insta::assert_snapshot!(item(&model, "Requests").headline, @"no request was measured: warm_history_failed, 2 of 3 turns that bring the history of sessions into the endpoint's cache failed, the first of them turn 4 of session 1 (timeout) (1 of 1 attempt)");
        let screen = model.report().terminal_summary(100, false);
        assert!(screen.contains("no request was measured") && !screen.contains("0 of 0"), "{screen}");
    }

    #[test]
    fn requests_that_were_cancelled_as_planned_are_not_called_failed() {
        let mut model = fixture::serving::small();
        for serving in model.summary.points.iter_mut().filter_map(|point| point.serving.as_mut()) {
            (serving.requests, serving.outcomes) = (Count(0), BTreeMap::new());
        }
        let headline = |model: &mut Model, outcomes: &[(&str, u64)]| {
            let serving = model.summary.points[0].serving.as_mut().expect("it serves");
            serving.requests = Count(outcomes.iter().map(|(_, count)| count).sum());
            serving.outcomes = outcomes.iter().map(|(name, count)| ((*name).to_owned(), Count(*count))).collect();
            item(model, "Requests").headline
        };
        insta::assert_snapshot!(headline(&mut model, &[("ok", 60), ("cancelled", 20)]), @"20 were cancelled by the client as planned, all others of 80 requests succeeded");
        insta::assert_snapshot!(headline(&mut model, &[("ok", 57), ("cancelled", 1), ("timeout", 3)]), @"1 was cancelled by the client as planned, 3 of 60 requests failed (5.0 %)");
    }

    #[test]
    fn failed_requests_are_counted_by_status() {
        let mut model = fixture::serving::small();
        model.summary.points[0].serving = model.summary.points[1].serving.clone();
        insta::assert_snapshot!(item(&model, "Requests").details.join("\n"), @r"
        timeout: 22
        http_error 503: 4; the first http_error 503: `the engine is overloaded`
        of the measured phases of counted trials, of which none is left out of the error rate
        ");
    }

    #[test]
    fn runs_are_set_as_code() {
        let html = fixture::report().html();
        assert!(html.contains("<code>quickstart-2026-11-19</code> finished"));
        assert!(fixture::report().markdown().contains("`quickstart-2026-11-19` finished"));
    }

    /// A check with this outcome over these trials of the first point; the reason is given if the outcome has one.
    fn check(what: &str, trials: &[u32], outcome: CrossCheckOutcome) -> CrossCheck {
        let attempt = |trial: &u32| assay_manifest::CheckedAttempt {
            trial_id: format!("w.t.default.one.t{trial}").parse().expect("a trial id"),
            attempt: 0,
        };
        let has_reason = matches!(outcome, CrossCheckOutcome::AtLeast | CrossCheckOutcome::NotCompared);
        CrossCheck {
            block: assay_manifest::Block { index: 0, incarnation: 0 },
            attempts: trials.iter().map(attempt).collect(),
            what: what.to_owned(),
            counter: Some("counter".to_owned()),
            client: Count(50),
            endpoint: Some(Count(53)),
            outcome,
            reason: has_reason.then(|| format!("{what} have a reason")),
            detail: String::new(),
        }
    }

    #[test]
    fn counters_agree_only_if_both_limits_were_checked_and_none_differs() {
        use CrossCheckOutcome::{Agrees, AtLeast, Disagrees, NotCompared};
        let of = |checks: &[(&str, &[u32], CrossCheckOutcome)]| {
            let checks: Vec<_> = checks.iter().map(|(what, trials, outcome)| check(what, trials, *outcome)).collect();
            CrossChecks::new(&checks).describe().join("\n")
        };
        insta::assert_snapshot!(of(&[("requests", &[0], Agrees)]), @"the endpoint's own counters agree with the client's counts in the only check, over the only attempt");
        insta::assert_snapshot!(of(&[("requests", &[0, 1], Agrees), ("output_tokens", &[0, 1], Agrees)]), @"the endpoint's own counters agree with the client's counts in all 2 checks, over all 2 attempts");
        insta::assert_snapshot!(of(&[("requests", &[0], Agrees), ("requests", &[1, 2], AtLeast), ("prompts", &[0], NotCompared)]), @r"
        the endpoint's own counters agree with the client's counts in 1 of 2 checks, over 1 of 3 attempts
        in 1 check, they are only known to be at least the client's counts (within the tolerance), because requests have a reason
        1 other count is not compared, because prompts have a reason
        ");
        let without_agreement = [
            of(&[("requests", &[0], AtLeast)]),
            of(&[("requests", &[0], AtLeast), ("output_tokens", &[0], AtLeast), ("prompts", &[0], NotCompared)]),
            of(&[("requests", &[0], Agrees), ("output_tokens", &[0], Disagrees), ("requests", &[1], AtLeast)]),
            of(&[("requests", &[0], Disagrees), ("output_tokens", &[0], Disagrees)]),
            of(&[("requests", &[0], NotCompared), ("prompts", &[0], NotCompared)]),
            of(&[]),
        ];
        for text in &without_agreement {
            assert!(!text.contains("agree"), "{text}");
        }
        insta::assert_snapshot!(without_agreement.join("\n\n"), @r"
        the endpoint's own counters are at least the client's counts (within the tolerance) in the only check, and no upper limit could be checked, because requests have a reason

        the endpoint's own counters are at least the client's counts (within the tolerance) in all 2 checks, and no upper limit could be checked, because output_tokens have a reason; requests have a reason
        1 other count is not compared, because prompts have a reason

        the endpoint's own counters differ from the client's counts in 1 of 3 checks
        in 1 check, they are only known to be at least the client's counts (within the tolerance), because requests have a reason
        output_tokens: the client counted 50, the endpoint 53

        the endpoint's own counters differ from the client's counts in all 2 checks
        requests: the client counted 50, the endpoint 53
        output_tokens: the client counted 50, the endpoint 53

        no count of the client was compared with the endpoint's own counters, because prompts have a reason; requests have a reason

        no count of the client was compared with the endpoint's own counters
        ");
    }

    #[test]
    fn a_long_list_of_reasons_is_cut() {
        let checks: Vec<_> = (0..5).map(|n| check(&format!("count-{n}"), &[n], CrossCheckOutcome::NotCompared)).collect();
        insta::assert_snapshot!(CrossChecks::new(&checks).describe().join("\n"), @"no count of the client was compared with the endpoint's own counters, because count-0 have a reason; count-1 have a reason; count-2 have a reason; 2 more reasons");
    }

    #[test]
    fn a_difference_is_marked_and_the_absence_of_a_comparison_is_not() {
        let mut model = fixture::serving::small();
        model.summary.points.iter_mut().for_each(|point| point.excluded.clear());
        let mut marked = |outcome| {
            model.collection.cross_checks = vec![check("requests", &[0], outcome)];
            item(&model, "Client").caution
        };
        let expected = [false, true, false, false];
        assert_eq!(CrossCheckOutcome::ALL.iter().map(|outcome| marked(*outcome)).collect::<Vec<_>>(), expected);
    }
}
