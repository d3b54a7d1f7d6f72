//! The fine print: the definitions behind the numbers, the pinned references, and the limits of what the numbers represent.

use std::collections::BTreeSet;

use assay_manifest::{Claim, IntervalKind, Isolation, Plan, PointEnergy, ProvisionedTarget, Summary, ValidityLimits};

use super::work::RequestedWork;
use crate::render::fine_print::FinePrint;
use crate::render::number::{level, significant};
use crate::render::text::{clean, counted};
use crate::run::inputs::Inputs;

/// Maximum number of unpinned references that are named; the rest are counted.
const MAX_UNPINNED: usize = 20;

/// The code of the Summary's issue about executables without a digest, as named in the claim rules.
const UNPINNED_EXECUTABLE: &str = "unpinned_executable";

/// Maximum number of workloads whose load is described; the frozen specs have all of them.
const MAX_WORKLOADS: usize = 12;

/// Returns the paragraphs, in the order of the report.
pub(crate) fn items(inputs: &Inputs<'_>) -> Vec<FinePrint> {
    let of_this_run = |label, text| FinePrint { label, text, of_this_run: true };
    let always = |label, text: &str| FinePrint { label, text: text.to_owned(), of_this_run: false };
    let claim = inputs.plan.claim.as_ref();
    let methodology = claim.map(|claim| clean(&claim.methodology)).filter(|text| !text.is_empty());
    let mut items = vec![of_this_run("What it represents", represents(claim))];
    items.extend(methodology.map(|text| of_this_run("Methodology", text)));
    items.extend([of_this_run("Interval", interval(inputs.summary))]);
    let all_serving = inputs.plan.workloads.iter().all(|workload| workload.serving.is_some());
    items.extend((!all_serving).then(|| always("Median", MEDIAN)));
    items.extend(serving(inputs));
    items.extend(energy(&inputs.summary.energy).map(|text| of_this_run("Energy", text)));
    items.extend([
        always("Spread", SPREAD),
        always("Digits", DIGITS),
        always("Failures", FAILURES),
        of_this_run("Order", order(inputs.plan)),
    ]);
    items.extend(own_limits(inputs.plan).map(|text| of_this_run("Validity", text)));
    items.extend(shards(inputs).map(|text| of_this_run("Shards", text)));
    items.extend(calibration(inputs).map(|text| of_this_run("Calibration", text)));
    items.extend([of_this_run("Pinned", pinned(inputs.plan)), of_this_run("Not pinned", unpinned(inputs)), always("Time", TIME)]);
    items
}

const MEDIAN: &str = "A trial's value is the median of its samples; the number is the median of the counted trials' values. Quantiles \
                      interpolate linearly between neighbouring order statistics.";

/// Returns the definitions for serving; empty if the run has no serving.
fn serving(inputs: &Inputs<'_>) -> Vec<FinePrint> {
    let works = || inputs.plan.workloads.iter().filter_map(|workload| Some((&workload.name, workload.serving.as_ref()?)));
    if works().next().is_none() {
        return Vec::new();
    }
    let always = |label, text: &str| FinePrint { label, text: text.to_owned(), of_this_run: false };
    let load = works().take(MAX_WORKLOADS).map(|(name, work)| {
        let work = RequestedWork::new(work);
        let slos = if work.slos.is_empty() { String::new() } else { format!("; SLOs {}", work.slo_text()) };
        let temperature = work.temperature.as_ref().map(|temperature| format!("; {temperature}")).unwrap_or_default();
        let (summary, arrivals, lengths, cache) = (work.summary(), &work.arrivals, &work.lengths, work.cache);
        format!("`{name}`: {summary}; {arrivals}; {lengths}{temperature}; prefix cache: {cache}{slos}")
    });
    let load = FinePrint { label: "Load", text: format!("{}.", load.collect::<Vec<_>>().join(". ")), of_this_run: true };
    vec![
        load,
        always("Percentiles", PERCENTILES),
        always("From", FROM),
        always("TTFT", TTFT),
        always("TPOT", TPOT),
        always("ITL, ICL", ITL),
        always("E2E", E2E),
        always("Throughput", THROUGHPUT),
        always("Failed", ERRORS),
        always("Goodput", GOODPUT),
        always("With failures", WITH_FAILURES),
    ]
}

/// Maximum number of energies that are listed; the rows of telemetry have all of them.
const MAX_ENERGIES: usize = 12;

/// Returns the energy of points for their work; `None` if no source had a meter.
fn energy(all: &[PointEnergy]) -> Option<String> {
    let one = |found: &PointEnergy| {
        let per_token =
            found.joules_per_output_token.map(|joules| format!("{} J per output token and ", significant(joules, None)));
        format!(
            "`{}` at {}: {}{} J per request ({}, {}, {} of `{}`, median of {})",
            found.case_id,
            found.point_id,
            per_token.unwrap_or_default(),
            significant(found.joules_per_request, None),
            found.boundary,
            found.method,
            counted(found.objects.0, "object"),
            clean(&found.source),
            counted(found.attempts.0, "attempt"),
        )
    };
    let shown: Vec<String> = all.iter().take(MAX_ENERGIES).map(one).collect();
    let more = all.len().saturating_sub(MAX_ENERGIES);
    let more = if more == 0 { String::new() } else { format!("; {more} more are in the rows of telemetry") };
    (!all.is_empty()).then(|| {
        format!(
            "{}{more}. Of all objects that the source observes, whether or not they serve the target; of the time that their readings cover, warm-up \
             included, and of the requests that succeeded in it. No number of this run comes from it.",
            shown.join("; ")
        )
    })
}

const PERCENTILES: &str = "For serving a trial's value is the statistic that the metric names, over the trial's successful \
                           requests; the number is the median of the counted trials' values. Linear interpolation at (n - 1) q. A \
                           distribution is of the requests of all counted trials together: where trials differ, a percentile that is \
                           read from it is not the number.";

const FROM: &str = "Under open loop latencies count from the intended send time, so that a request that waits for its turn is late. Under \
                    closed loop there is no intended time: they count from the send time, and a stalled endpoint hides how long others would \
                    have waited.";

const TTFT: &str = "Time to the first token event: the first chunk that brings content, reasoning or tool text. TTFO is the time to the first \
                    content.";

const TPOT: &str = "Time per output token of one request: from the first token event to the last, over the output tokens less those of the first \
                    event (less one if that is unknown). Other tools call this ITL.";

const ITL: &str = "ICL is the time between consecutive token events, one sample each. ITL is that time divided by the tokens of the later \
                   event, one sample for each token.";

const E2E: &str = "To the last token event; if responses are not streamed, to the end of the response.";

const THROUGHPUT: &str = "Successful requests that completed within the window, and their output tokens, over its length. The window begins with the measured phase and \
     ends with its duration, or with the last measured request where a number of them ended the load. `_steady` is the rate in the \
     steady state of a closed loop, without ramp and drain. Failed requests do not count.";

const ERRORS: &str = "The table counts requests over all counted trials, and so does the share in a remark. The metric `error_rate` is the median \
                      of the trials' own shares.";

const GOODPUT: &str = "Requests a second that met every SLO, each by itself. Whether a load met the SLOs as a whole is another question: the 99th \
                       percentile of each, failures counted as slowest.";

const WITH_FAILURES: &str = "The same percentile by the same rule over all requests, failed ones as the slowest. It is absent where it rests on a \
                             failed request.";

const SPREAD: &str = "CV is the standard deviation of the trials' values (ddof 1) over their mean.";

const DIGITS: &str = "Three significant digits, and none below the second digit of the interval's width. The stored value keeps all \
                      its digits.";

const FAILURES: &str = "Attempts that are not valid are kept, counted and listed; none of them is part of a number. Outliers (median \
                        absolute deviation) are flagged and kept in the number.";

const TIME: &str = "Times are asserted by the signers; no independent clock has stamped them.";

fn represents(claim: Option<&Claim>) -> String {
    match claim {
        Some(claim) => {
            let scope = if claim.representative { "claimed to stand for more than itself" } else { "stands for itself only" };
            format!("{} ({scope})", clean(&claim.statement))
        }
        None => "No claim was written. The numbers stand for this workload on this machine at this time, and for nothing more."
            .to_owned(),
    }
}

fn interval(summary: &Summary) -> String {
    let intervals = || summary.points.iter().flat_map(|point| &point.metrics).filter_map(|metric| metric.interval.as_ref());
    let methods = |kind: IntervalKind| {
        let used: BTreeSet<(String, String)> = intervals()
            .filter(|interval| interval.kind == kind)
            .map(|interval| (clean(&interval.method), level(interval.level)))
            .collect();
        let methods: Vec<_> = used.iter().map(|(method, level)| format!("{} at {level}", method_name(method))).collect();
        (!methods.is_empty()).then(|| methods.join("; "))
    };
    let between = methods(IntervalKind::BetweenTrials)
        .map(|methods| format!("For the median across trials: {methods}. The unit of inference is the trial."));
    let within = methods(IntervalKind::WithinRun)
        .map(|methods| format!("Within run, of one trial with its sessions as clusters: {methods}. {WITHIN_RUN_LIMIT}"));
    let texts: Vec<String> = between.into_iter().chain(within).collect();
    if texts.is_empty() { "No number of this run has an interval.".to_owned() } else { texts.join(" ") }
}

/// The limit of an interval within a run, a sentence.
const WITHIN_RUN_LIMIT: &str = "An interval within run does not hold the variation from run to run: another run of the same system may lie \
                                outside it.";

fn method_name(method: &str) -> &str {
    match method {
        "order_statistic" => "between two order statistics, with their exact coverage,",
        "bootstrap_percentile" => "percentile bootstrap",
        "cluster_ratio" => "linearised ratio of sums over sessions, Student's t,",
        "cluster_quantile" => "Woodruff's interval of quantiles over sessions, Student's t,",
        "bootstrap_bca" => "bias-corrected and accelerated bootstrap",
        other => other,
    }
}

fn order(plan: &Plan) -> String {
    let isolation = match plan.isolation {
        Isolation::None => "nothing was done between trials",
        Isolation::Flush => "the prefix cache was emptied before every trial",
        Isolation::RestartTarget => "the target was restarted for every trial",
    };
    let seed = clean(&plan.order.seed.chars().take(12).collect::<String>());
    format!("Trials ran interleaved in a seeded order (seed {seed}…, {}); {isolation}.", counted(plan.block_count(), "block"))
}

/// States the limits by which attempts counted, if they are the pipeline's own, with those that hold by default.
fn own_limits(plan: &Plan) -> Option<String> {
    let (limits, reason) = plan.trial_policy.stated_limits()?;
    let reason = clean(reason);
    Some(format!(
        "Attempts count by limits of the pipeline's own ({reason}): {limits}. By default they are {}.",
        ValidityLimits::default()
    ))
}

/// Returns the number of shards of each trial and the reason for it; `None` if the pipeline set the number.
fn shards(inputs: &Inputs<'_>) -> Option<String> {
    let count = inputs.environments.iter().find_map(|environment| environment.shards.as_ref())?;
    let measured = count.ceiling.as_ref().and_then(|ceiling| ceiling.value.as_ref());
    let measured = measured.map(|ceiling| {
        let from = if ceiling.cached { "measured earlier on such a machine" } else { "measured by this run" };
        format!(" The ceiling of one shard was {from}, at {}.", ceiling.measured_at.to_seconds())
    });
    Some(format!("{}.{}", clean(&count.formula), measured.unwrap_or_default()))
}

/// Returns the load of each client beside what it was calibrated for; `None` if there is no load, or no calibration was looked for.
fn calibration(inputs: &Inputs<'_>) -> Option<String> {
    let load = assay_claim::client_load(inputs.plan, inputs.collection, &inputs.summary.points);
    let sentences = assay_claim::describe_calibration(&load, inputs.environments);
    (!sentences.is_empty()).then(|| clean(&sentences.join(" ")))
}

fn pinned(plan: &Plan) -> String {
    let work = plan.workloads.iter().filter_map(|workload| workload.indicator.as_ref());
    let files = work.flat_map(|work| work.script.iter().chain(&work.files));
    let workload_images = plan.workloads.iter().filter_map(|workload| workload.image.as_ref());
    let images = workload_images.chain(plan.targets.iter().filter_map(|target| target.image.as_ref()));
    let images = images.filter(|image| image.digest.is_some()).count();
    let commit = match (&plan.source.commit, plan.source.dirty) {
        (Some(_), false) => "the commit, ",
        _ => "",
    };
    format!(
        "By digest: {commit}workloads {}, scripts and files {}, images {images}, queries {}.",
        plan.workloads.len(),
        files.count(),
        plan.queries.len()
    )
}

/// Describes the references that may change later: unpinned references of the plan, and executables without a digest.
fn unpinned(inputs: &Inputs<'_>) -> String {
    let references = inputs.plan.unpinned.iter().map(|unpinned| format!("{} ({})", unpinned.what, unpinned.reason));
    let targets = inputs.environments.iter().flat_map(|environment| &environment.targets);
    let executables: BTreeSet<String> = targets.flat_map(ProvisionedTarget::describe_unpinned).collect();
    // Programs that indicators executed are in no Environment; the Summary lists those without a digest.
    let stated = inputs.summary.issues.iter().filter(|issue| executables.is_empty() && issue.code == UNPINNED_EXECUTABLE);
    let stated: Vec<_> = stated.map(|issue| issue.detail.clone()).collect();
    let all: Vec<_> = references.chain(executables).chain(stated).map(|line| clean(&line)).collect();
    if all.is_empty() {
        let observed = "Every reference is pinned, and every executable that was observed has a digest.";
        let has_command =
            inputs.plan.workloads.iter().filter_map(|workload| workload.indicator.as_ref()).any(|work| work.command.is_some());
        let unread =
            if has_command { " What a command reads is not observed, such as files that its arguments name." } else { "" };
        return format!("{observed}{unread}");
    }
    let more = all.len().saturating_sub(MAX_UNPINNED);
    let mut lines: Vec<_> = all.into_iter().take(MAX_UNPINNED).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    format!("{}.", lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str, method: &str, per_token: Option<f64>) -> PointEnergy {
        serde_json::from_value(serde_json::json!({
            "case_id": "chat.vllm.default", "point_id": "c8", "source": source, "boundary": "gpu", "method": method, "objects": "8",
            "attempts": "1", "joules_per_output_token": per_token, "joules_per_request": 203.456,
        }))
        .expect("an energy")
    }

    #[test]
    fn energy_is_said_with_its_boundary_and_method() {
        assert_eq!(energy(&[]), None);
        insta::assert_snapshot!(energy(&[found("prometheus/fleet", "counter", Some(0.41234)), found("exporter/g", "approximated", None)]).expect("a text"), @"`chat.vllm.default` at c8: 0.412 J per output token and 203 J per request (gpu, counter, 8 objects of `prometheus/fleet`, median of 1 attempt); `chat.vllm.default` at c8: 203 J per request (gpu, approximated, 8 objects of `exporter/g`, median of 1 attempt). Of all objects that the source observes, whether or not they serve the target; of the time that their readings cover, warm-up included, and of the requests that succeeded in it. No number of this run comes from it.");
        let many = vec![found("host", "counter", None); MAX_ENERGIES + 3];
        assert!(energy(&many).expect("a text").contains("; 3 more are in the rows of telemetry. "));
    }
}
