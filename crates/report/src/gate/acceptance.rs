//! Acknowledgements, and what each did: changes that people accepted beforehand.

use assay_manifest::{Acknowledgement, MetricVerdict, Verdict};

use crate::number::{level, percent};
use crate::text::{clean, counted};

/// Acknowledgements that are listed; the rest is counted.
pub(crate) const MAX_ACCEPTED: usize = 50;

/// Metrics that one acknowledgement names; the rest is counted.
const MAX_METRICS: usize = 3;

/// What an acknowledgement did, what asks for attention first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Did {
    /// A regression was larger than it accepts, and was not let pass.
    Beyond,
    /// A regression came after it had expired, and was not let pass.
    Expired,
    /// It let a regression pass.
    Used,
    /// There was no regression for it to accept.
    Unused,
}

impl Did {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Beyond => "beyond",
            Self::Expired => "expired",
            Self::Used => "used",
            Self::Unused => "unused",
        }
    }
}

/// An acknowledgement, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) path: String,
    pub(crate) metric: String,
    /// The largest change for the worse that it accepts.
    pub(crate) accepts: String,
    pub(crate) reason: String,
    pub(crate) approver: String,
    pub(crate) expires: String,
    pub(crate) did: Did,
    /// The same in a sentence, with the metrics that it was about.
    pub(crate) effect: String,
}

/// The acknowledgements, those first that did not let a regression pass; else in the verdict's order.
pub(crate) fn all(verdict: &Verdict) -> Vec<Accepted> {
    let mut all: Vec<Accepted> = (0..verdict.acknowledgements.len()).filter_map(|place| Accepted::of(verdict, place)).collect();
    all.sort_by_key(|accepted| accepted.did);
    all
}

impl Accepted {
    fn of(verdict: &Verdict, place: usize) -> Option<Self> {
        let accepted = verdict.acknowledgements.get(place)?;
        let mut effects: Vec<(Did, &MetricVerdict)> = verdict
            .metrics
            .iter()
            .filter(|metric| verdict.acknowledgements.iter().position(|other| is_about(other, metric)) == Some(place))
            .filter_map(|metric| Some((effect_on(metric)?, metric)))
            .collect();
        effects.sort_by_key(|(did, _)| *did);
        let is_over = accepted.expires <= verdict.judged_on;
        let effect = if effects.is_empty() { unused(is_over).to_owned() } else { in_words(&effects) };
        Some(Self {
            path: clean(&accepted.path),
            metric: clean(&accepted.metric),
            accepts: level(accepted.accepts),
            reason: clean(&accepted.reason),
            approver: clean(&accepted.approver),
            expires: accepted.expires.to_seconds(),
            did: effects.first().map_or(if is_over { Did::Expired } else { Did::Unused }, |(did, _)| *did),
            effect,
        })
    }
}

/// Whether it is about that metric, by its name alone or with workload and point before it. Of several, the first counts.
fn is_about(accepted: &Acknowledgement, metric: &MetricVerdict) -> bool {
    accepted.metric == metric.metric || accepted.metric == format!("{}/{}/{}", metric.workload, metric.point_id, metric.metric)
}

/// What the acknowledgement of a metric did to it; nothing where it did not regress.
fn effect_on(metric: &MetricVerdict) -> Option<Did> {
    if metric.acknowledged.is_some() {
        return Some(Did::Used);
    }
    match metric.reason.as_ref()?.code.as_str() {
        "beyond_acknowledgement" => Some(Did::Beyond),
        "acknowledgement_expired" => Some(Did::Expired),
        _ => None,
    }
}

fn unused(is_over: bool) -> &'static str {
    if is_over { "expired; nothing regressed that it was about" } else { "unused; nothing regressed that it is about" }
}

/// `used: ttft_ms_p99 of chat at c64 (12 %)`, for each thing that it did.
fn in_words(effects: &[(Did, &MetricVerdict)]) -> String {
    let kinds = [Did::Beyond, Did::Expired, Did::Used].into_iter().filter_map(|kind| {
        let of_kind: Vec<_> = effects.iter().filter(|(did, _)| *did == kind).map(|(_, metric)| *metric).collect();
        let named: Vec<String> = of_kind.iter().take(MAX_METRICS).map(|metric| change_of(metric)).collect();
        let more = of_kind.len().saturating_sub(MAX_METRICS);
        let more = if more > 0 { format!(" and {}", counted(more as u64, "more metric")) } else { String::new() };
        (!named.is_empty()).then(|| format!("{}: {}{more}", kind.as_str(), named.join(", ")))
    });
    kinds.collect::<Vec<_>>().join("; ")
}

fn change_of(metric: &MetricVerdict) -> String {
    let change = metric.change.as_ref().map(|change| format!(" ({})", percent((change.ratio - 1.0).abs())));
    let name = format!("`{}` of {} at {}", clean(&metric.metric), metric.workload, metric.point_id);
    name + &change.unwrap_or_default()
}
