//! Acknowledgements (changes that people accepted beforehand) and the effect of each.

use assay_manifest::{Acknowledgement, BetterDirection, CaseId, Check, MetricVerdict, Outcome, Verdict};

use crate::render::number::{level, percent};
use crate::render::text::{clean, counted};

/// Maximum number of acknowledgements that are listed; the rest are counted.
pub(crate) const MAX_ACCEPTED: usize = 50;

/// The name of the check of SLOs, and the metric that an acknowledgement of a missed SLO names.
const SLO: &str = "slo";
const GOOD_FRACTION: &str = "good_fraction";

/// Maximum number of metrics named for one acknowledgement; the rest are counted.
const MAX_METRICS: usize = 3;

/// The effect of an acknowledgement; the order puts those that need attention first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EffectKind {
    /// A regression was larger than it accepts, and did not pass.
    TooLarge,
    /// A regression came after it had expired, and did not pass.
    Expired,
    /// It let a regression pass.
    Used,
    /// There was no regression to accept.
    Unused,
    /// It is for another change than the judged one.
    OtherChange,
}

impl EffectKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "beyond",
            Self::Expired => "expired",
            Self::Used => "used",
            Self::Unused => "unused",
            Self::OtherChange => "of another change",
        }
    }
}

/// An acknowledgement and its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcknowledgementLine {
    pub(crate) path: String,
    pub(crate) metric: String,
    /// Its case and point: `chat.vllm.patched at c8`.
    pub(crate) place: String,
    /// The pull request or the commits that it is for.
    pub(crate) subject: String,
    /// The largest change for the worse that it accepts.
    pub(crate) accepts: String,
    pub(crate) reason: String,
    pub(crate) approver: String,
    pub(crate) expires: String,
    pub(crate) kind: EffectKind,
    /// The affected metrics, or the reason why there are none.
    pub(crate) effect: String,
}

/// Returns the acknowledgements, first those that did not let a regression pass; otherwise in the verdict's order.
pub(crate) fn acknowledgement_lines(verdict: &Verdict) -> Vec<AcknowledgementLine> {
    let mut all: Vec<AcknowledgementLine> =
        verdict.acknowledgements.iter().map(|accepted| AcknowledgementLine::new(verdict, accepted)).collect();
    all.sort_by_key(|accepted| accepted.kind);
    all
}

impl AcknowledgementLine {
    fn new(verdict: &Verdict, accepted: &Acknowledgement) -> Self {
        let regressed = verdict.metrics.iter().filter(|metric| metric.outcome == Outcome::Regressed);
        let about = regressed.filter(|metric| is_about(accepted, metric, verdict));
        let of_metrics = about.map(|metric| (effect_on(accepted, metric, verdict), describe_change(metric)));
        let missed = verdict.checks.iter().filter(|check| is_about_check(accepted, check));
        let of_checks =
            missed.map(|check| (effect_on_check(accepted, check, verdict), clean(&format!("the SLOs of {}", check.scope))));
        let mut effects: Vec<(EffectKind, String)> = of_metrics.chain(of_checks).collect();
        effects.sort_by_key(|(did, _)| *did);
        let is_over = accepted.expires <= verdict.judged_on;
        let (did, effect) = match effects.first() {
            Some((did, _)) => (*did, describe_effects(&effects)),
            None if !accepted.applies => {
                let judged = &verdict.sequence.name;
                (EffectKind::OtherChange, clean(&format!("it is for {}, and this verdict is about {judged}", accepted.of)))
            }
            None if is_over => (EffectKind::Expired, "nothing regressed that it was about".to_owned()),
            None => (EffectKind::Unused, "nothing regressed that it is about".to_owned()),
        };
        let point = accepted.point.as_ref().map_or_else(|| "every point".to_owned(), ToString::to_string);
        Self {
            path: clean(&accepted.path),
            metric: clean(&accepted.metric),
            place: format!("{} at {point}", accepted.case),
            subject: clean(&accepted.of),
            accepts: level(accepted.accepts),
            reason: clean(&accepted.reason),
            approver: clean(&accepted.approver),
            expires: accepted.expires.to_seconds(),
            kind: did,
            effect,
        }
    }
}

/// Returns true if it names that metric of the candidate and applies to the judged change.
fn is_about(accepted: &Acknowledgement, metric: &MetricVerdict, verdict: &Verdict) -> bool {
    let candidate = &verdict.comparison.candidate;
    accepted.applies
        && accepted.metric == metric.metric
        && accepted.case == CaseId::from_names(&metric.workload, &candidate.target, &candidate.variant)
        && accepted.point.as_ref().is_none_or(|point| *point == metric.point_id)
}

/// Returns its effect on a regressed metric that it names.
fn effect_on(accepted: &Acknowledgement, metric: &MetricVerdict, verdict: &Verdict) -> EffectKind {
    let ratio = metric.change.as_ref().map_or(1.0, |change| change.ratio);
    let worse = if metric.better == BetterDirection::Lower { ratio } else { 1.0 / ratio } - 1.0;
    if metric.acknowledged.as_ref() == Some(&accepted.path) {
        EffectKind::Used
    } else if accepted.expires <= verdict.judged_on {
        EffectKind::Expired
    } else if worse > accepted.accepts {
        EffectKind::TooLarge
    } else {
        EffectKind::Used
    }
}

/// Returns true if it accepts SLOs that the candidate missed.
fn is_about_check(accepted: &Acknowledgement, check: &Check) -> bool {
    let (case, point) = check.scope.split_once(" at ").unwrap_or_default();
    accepted.applies
        && !check.passed
        && check.name == SLO
        && accepted.metric == GOOD_FRACTION
        && accepted.case.as_str() == case
        && accepted.point.as_ref().is_none_or(|of| of.as_str() == point)
}

/// Returns its effect on missed SLOs.
fn effect_on_check(accepted: &Acknowledgement, check: &Check, verdict: &Verdict) -> EffectKind {
    if check.acknowledged.is_some() {
        EffectKind::Used
    } else if accepted.expires <= verdict.judged_on {
        EffectKind::Expired
    } else {
        EffectKind::TooLarge
    }
}

/// Lists the effects, such as `ttft_ms_p99 of chat at c64 (12 %)`; a word precedes each kind of effect except the first.
fn describe_effects(effects: &[(EffectKind, String)]) -> String {
    let kinds = [EffectKind::TooLarge, EffectKind::Expired, EffectKind::Used].into_iter().filter_map(|kind| {
        let of_kind: Vec<_> = effects.iter().filter(|(did, _)| *did == kind).map(|(_, what)| what.as_str()).collect();
        let named: Vec<&str> = of_kind.iter().take(MAX_METRICS).copied().collect();
        let more = of_kind.len().saturating_sub(MAX_METRICS);
        let more = if more > 0 { format!(" and {}", counted(more as u64, "more metric")) } else { String::new() };
        let word =
            if effects.first().is_some_and(|(first, _)| *first == kind) { String::new() } else { format!("{}: ", kind.as_str()) };
        (!named.is_empty()).then(|| format!("{word}{}{more}", named.join(", ")))
    });
    kinds.collect::<Vec<_>>().join("; ")
}

fn describe_change(metric: &MetricVerdict) -> String {
    let change = metric.change.as_ref().map(|change| format!(" ({})", percent((change.ratio - 1.0).abs())));
    let name = format!("`{}` of {} at {}", clean(&metric.metric), metric.workload, metric.point_id);
    name + &change.unwrap_or_default()
}
