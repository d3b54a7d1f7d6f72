//! The reasons for which attempts do not count.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Block, Collection, Exclusion, LastingReason, PointSummary, Reason, TrialId, ordinal};

use super::fold::{FoldedRemark, Names};
use super::remark::RemarkKind;
use crate::render::number::grouped;
use crate::render::similar::merge_similar;
use crate::render::text::{clean, counted};

/// Maximum number of full texts about the exclusions of a point; the attempts of the others are counted.
const MAX_EXCLUSIONS: usize = 20;

/// Maximum number of details of a reason; other details are counted.
const MAX_DETAILS: usize = 2;

/// Maximum number of phrases for attempts in a short text; more attempts are only counted.
const MAX_PHRASES: usize = 2;

/// Returns `none of 5 trials counts`, or `the only trial does not count`.
pub fn describe_none_counted(planned: impl Into<u64>) -> String {
    match planned.into() {
        1 => "the only trial does not count".to_owned(),
        planned => format!("none of {} counts", counted(planned, "trial")),
    }
}

/// Returns the reason for which most attempts of some points do not count, in the words of the first one, and the number of attempts with
/// it. `None` if no attempt has a reason. Attempts have the same reason if its code is the same; of details that differ, one stands for all.
pub fn commonest_reason(points: &[&PointSummary]) -> Option<String> {
    let excluded = || points.iter().flat_map(|point| &point.excluded);
    let mut counts: Vec<(&Reason, u64, bool)> = Vec::new();
    for exclusion in excluded() {
        let mut said = BTreeSet::new();
        // An attempt that gives the same reason several times counts once.
        for reason in exclusion.reasons.iter().filter(|reason| said.insert(&reason.code)) {
            match counts.iter_mut().find(|(known, ..)| known.code == reason.code) {
                Some((known, count, is_same)) => {
                    *count += 1;
                    *is_same &= known.detail == reason.detail;
                }
                None => counts.push((reason, 1, true)),
            }
        }
    }
    let most = counts.iter().map(|(_, count, _)| *count).max()?;
    let (reason, _, is_same) = counts.iter().find(|(_, count, _)| *count == most)?;
    let attempts = format!("{} of {}", grouped(most), counted(excluded().count() as u64, "attempt"));
    Some(clean(&match (reason.detail.as_str(), is_same) {
        ("", _) => format!("{} ({attempts})", reason.code),
        (detail, true) => format!("{}, {detail} ({attempts})", reason.code),
        // The others have their own numbers.
        (detail, false) => format!("{} ({attempts}), one of them: {detail}", reason.code),
    }))
}

/// Returns why a point has no value of a metric: none of its trials counts, and the commonest reason of their attempts; or its trials gave none.
pub fn describe_missing_value(point: &PointSummary) -> String {
    if point.trials_counted > 0 {
        return "the Summary has no value of it".to_owned();
    }
    let reason = commonest_reason(&[point]).map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{reason}", describe_none_counted(point.trials_planned))
}

/// Returns the lasting reason of an excluded attempt of some points: a trial that meets it again is not repeated to the limit.
pub fn lasting_reason(points: &[&PointSummary]) -> Option<LastingReason> {
    points.iter().flat_map(|point| &point.excluded).find_map(|exclusion| LastingReason::find(&exclusion.reasons))
}

/// Returns the reasons for exclusions with the number of occurrences of each: `time_limit x 2, malformed`.
pub(crate) fn reason_counts<'a>(excluded: impl IntoIterator<Item = &'a Exclusion>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in excluded.into_iter().flat_map(|exclusion| &exclusion.reasons) {
        *counts.entry(&reason.code).or_default() += 1;
    }
    let show = |(code, count): (&str, usize)| if count == 1 { code.to_owned() } else { format!("{code} × {count}") };
    clean(&counts.into_iter().map(show).collect::<Vec<_>>().join(", "))
}

/// An attempt that does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExcludedAttempt {
    /// The last part of the trial's id, such as `t2`.
    trial: String,
    /// The number of the attempt, from 1. Each incarnation of a block counts from 1, so one of a later incarnation has its block beside
    /// it: `1 in block 0-1`.
    attempt: String,
    /// The code and the detail of each reason.
    reasons: Vec<(String, String)>,
    /// True if the trial counts with a later attempt.
    is_repeated: bool,
}

impl ExcludedAttempt {
    /// Returns the attempts of a point that do not count. The Collection says in which block each of them ran.
    pub(super) fn of_point(point: &PointSummary, collection: Option<&Collection>) -> Vec<Self> {
        let counted: BTreeSet<&TrialId> =
            point.metrics.iter().flat_map(|metric| &metric.trials).map(|trial| &trial.trial_id).collect();
        let attempt = |(place, exclusion): (usize, &Exclusion)| Self {
            trial: clean(exclusion.trial_id.as_str().rsplit('.').next().unwrap_or_default()),
            attempt: attempt_name(exclusion.attempt, collection.and_then(|all| find_block(&point.excluded, place, all))),
            reasons: exclusion.reasons.iter().map(|reason| (clean(&reason.code), clean(&reason.detail))).collect(),
            is_repeated: counted.contains(&exclusion.trial_id),
        };
        point.excluded.iter().enumerate().map(attempt).collect()
    }

    /// Returns the codes of its reasons, each once.
    fn codes(&self) -> Vec<&str> {
        let mut codes: Vec<&str> = Vec::new();
        for (code, _) in &self.reasons {
            if !codes.contains(&code.as_str()) {
                codes.push(code);
            }
        }
        codes
    }
}

/// Returns `1`, or `1 in block 0-1` if the block had been provisioned again.
fn attempt_name(attempt: u32, block: Option<Block>) -> String {
    match block.filter(|block| block.incarnation > 0) {
        Some(Block { index, incarnation }) => format!("{} in block {index}-{incarnation}", ordinal(attempt)),
        None => ordinal(attempt).to_string(),
    }
}

/// Returns the block of one of the excluded attempts of a point. Both documents list the attempts of a trial in the order of their
/// blocks. `None` if the Collection has another number of such attempts.
fn find_block(excluded: &[Exclusion], place: usize, collection: &Collection) -> Option<Block> {
    let exclusion = excluded.get(place)?;
    let is_alike = |other: &&Exclusion| (&other.trial_id, other.attempt) == (&exclusion.trial_id, exclusion.attempt);
    let trial = collection.trials.iter().find(|trial| trial.trial_id == exclusion.trial_id)?;
    let attempts = trial.attempts.iter().filter(|attempt| attempt.attempt == exclusion.attempt && !attempt.counted);
    // Each shard has an attempt of its own.
    let blocks: BTreeSet<Block> = attempts.map(|attempt| attempt.block).collect();
    let earlier = excluded.get(..place)?.iter().filter(is_alike).count();
    let is_same_number = excluded.iter().filter(is_alike).count() == blocks.len();
    blocks.into_iter().nth(earlier).filter(|_| is_same_number)
}

/// Attempts with the same reason codes, by the place that they belong to.
type SameReasons<'a> = Vec<(&'a str, Vec<&'a ExcludedAttempt>)>;

/// Folds the attempts that do not count, given with the name of their place, into one remark for each set of reason codes. `points` is
/// the number of all points, and `point_word` the noun for one.
pub(super) fn fold_exclusions<'a>(
    excluded: impl IntoIterator<Item = (&'a str, &'a ExcludedAttempt)>,
    points: usize,
    point_word: &str,
) -> Vec<FoldedRemark> {
    let mut places: BTreeMap<(bool, Vec<&str>), usize> = BTreeMap::new();
    let mut groups: Vec<SameReasons<'_>> = Vec::new();
    for (place, attempt) in excluded {
        let group = *places.entry((attempt.is_repeated, attempt.codes())).or_insert(groups.len());
        if group == groups.len() {
            groups.push(Vec::new());
        }
        let Some(group) = groups.get_mut(group) else { continue };
        match group.last_mut().filter(|(last, _)| *last == place) {
            Some((_, attempts)) => attempts.push(attempt),
            None => group.push((place, vec![attempt])),
        }
    }
    groups.iter().filter_map(|group| fold_group(group, points, point_word)).collect()
}

fn fold_group(group: &SameReasons<'_>, points: usize, point_word: &str) -> Option<FoldedRemark> {
    let attempts: Vec<&ExcludedAttempt> = group.iter().flat_map(|(_, attempts)| attempts.iter().copied()).collect();
    let first = attempts.first()?;
    let places: Vec<&str> = group.iter().map(|(place, _)| *place).collect();
    let text = |names: Names| {
        let place = names.places(&places, points, point_word);
        let which = match group.as_slice() {
            [_] => attempts_text(&attempts, names),
            _ => format!("{} do not count", counted(attempts.len() as u64, "attempt")),
        };
        format!("{place}: {which}{}", reasons_text(&attempts))
    };
    let kind = if first.is_repeated { RemarkKind::Repeated } else { RemarkKind::Excluded };
    let text_with_all_names = text(Names::All);
    let full_texts = full_texts(group);
    let full_texts = if full_texts == [text_with_all_names.as_str()] { Vec::new() } else { full_texts };
    Some(FoldedRemark { kind, text: text(Names::First), text_with_all_names, is_whole: true, full_texts })
}

/// Returns the codes with their details, which have ranges in place of different numbers, and the note that the attempts were repeated.
fn reasons_text(attempts: &[&ExcludedAttempt]) -> String {
    let Some(first) = attempts.first() else { return String::new() };
    let reason = |code: &&str| {
        let reasons = attempts.iter().flat_map(|attempt| &attempt.reasons).filter(|(known, _)| known == code);
        let details = merge_similar(reasons.map(|(_, detail)| detail.as_str()).filter(|detail| !detail.is_empty()));
        let more = details.len().saturating_sub(MAX_DETAILS);
        let shown = details.iter().take(MAX_DETAILS).cloned().collect::<Vec<_>>().join(", or ");
        let more = if more > 0 { format!(", or {}", counted(more as u64, "other detail")) } else { String::new() };
        if shown.is_empty() { (*code).to_owned() } else { format!("{code}: {shown}{more}") }
    };
    let reasons: Vec<String> = first.codes().iter().map(reason).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
    let repeated = match attempts.len() {
        _ if !first.is_repeated => "",
        1 => "; it was repeated",
        _ => "; each was repeated",
    };
    format!("{reasons}{repeated}")
}

/// Returns `attempt 1 of t0, t1 does not count`; trials with the same numbers of attempts are named together.
fn attempts_text(attempts: &[&ExcludedAttempt], names: Names) -> String {
    let mut numbers: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut trials: BTreeMap<&str, usize> = BTreeMap::new();
    for attempt in attempts {
        let place = *trials.entry(&attempt.trial).or_insert(numbers.len());
        match numbers.get_mut(place) {
            Some((_, numbers)) => numbers.push(attempt.attempt.as_str()),
            None => numbers.push((&attempt.trial, vec![attempt.attempt.as_str()])),
        }
    }
    let mut alike: Vec<(&[&str], Vec<&str>)> = Vec::new();
    let mut known: BTreeMap<&[&str], usize> = BTreeMap::new();
    for (trial, numbers) in &numbers {
        let place = *known.entry(numbers).or_insert(alike.len());
        match alike.get_mut(place) {
            Some((_, trials)) => trials.push(trial),
            None => alike.push((numbers, vec![trial])),
        }
    }
    if names == Names::First && alike.len() > MAX_PHRASES {
        let attempts = counted(attempts.len() as u64, "attempt");
        return format!("{attempts} of {} do not count", counted(numbers.len() as u64, "trial"));
    }
    let phrase = |(numbers, trials): &(&[&str], Vec<&str>)| {
        let attempts = if numbers.len() == 1 { "attempt" } else { "attempts" };
        format!("{attempts} {} of {}", joined(numbers), names.list(trials))
    };
    let does = match alike.as_slice() {
        [([_], _)] => "does",
        _ => "do",
    };
    format!("{} {does} not count", alike.iter().map(phrase).collect::<Vec<_>>().join(" and "))
}

/// Returns `1, 2 and 3`.
fn joined(numbers: &[&str]) -> String {
    match numbers.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => numbers.concat(),
    }
}

/// Returns a text for each place and each set of reasons, with the details as they are.
fn full_texts(group: &SameReasons<'_>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for (place, attempts) in group {
        let mut stories: Vec<Vec<&ExcludedAttempt>> = Vec::new();
        let mut known: BTreeMap<&[(String, String)], usize> = BTreeMap::new();
        for attempt in attempts {
            let story = *known.entry(&attempt.reasons).or_insert(stories.len());
            match stories.get_mut(story) {
                Some(alike) => alike.push(attempt),
                None => stories.push(vec![attempt]),
            }
        }
        let text =
            |alike: &Vec<&ExcludedAttempt>| format!("{place}: {}{}", attempts_text(alike, Names::All), reasons_text(alike));
        texts.extend(stories.iter().take(MAX_EXCLUSIONS).map(text));
        let more: usize = stories.iter().skip(MAX_EXCLUSIONS).map(Vec::len).sum();
        texts.extend((more > 0).then(|| format!("{place}: {}, listed in the Summary", counted(more as u64, "more attempt"))));
    }
    texts
}

#[cfg(test)]
mod tests {
    use assay_manifest::{CollectedAttempt, CollectedTrial, Count, Digest, Shard, TrialId};

    use super::*;
    use crate::run::fixture;

    fn excluded(trial: u32, attempt: u32, reasons: &[(&str, &str)]) -> Exclusion {
        let point = &fixture::serving::small().summary.points[0];
        let trial_id = TrialId::from_parts(&point.case_id, &point.point_id, trial);
        Exclusion { trial_id, attempt, reasons: reasons.iter().map(|(code, detail)| Reason::new(code, *detail)).collect() }
    }

    /// Returns the folded remarks on the attempts of some of two points; `is_repeated` is true if their trials count.
    fn folded(points: &[(&str, Vec<Exclusion>)], is_repeated: bool) -> Vec<FoldedRemark> {
        let mut point = fixture::serving::small().summary.points[0].clone();
        if !is_repeated {
            point.metrics.clear();
        }
        let attempts: Vec<_> = points
            .iter()
            .map(|(place, excluded)| {
                point.excluded.clone_from(excluded);
                (*place, ExcludedAttempt::of_point(&point, None))
            })
            .collect();
        let attempts = attempts.iter().flat_map(|(place, attempts)| attempts.iter().map(move |attempt| (*place, attempt)));
        fold_exclusions(attempts, 2, "load")
    }

    fn texts(points: &[(&str, Vec<Exclusion>)], is_repeated: bool) -> Vec<String> {
        folded(points, is_repeated).into_iter().map(|remark| remark.text).collect()
    }

    #[test]
    fn an_attempt_that_was_repeated_says_so() {
        let late = [("client_late", "7 ms late")];
        let one = folded(&[("concurrency 1", vec![excluded(0, 0, &late)])], true);
        assert_eq!(one[0].text, "concurrency 1: attempt 1 of t0 does not count (client_late: 7 ms late); it was repeated");
        assert_eq!((one[0].kind, one[0].full_texts.len()), (RemarkKind::Repeated, 0));
        let never = folded(&[("concurrency 1", vec![excluded(0, 0, &late)])], false);
        assert_eq!(never[0].text, "concurrency 1: attempt 1 of t0 does not count (client_late: 7 ms late)");
        assert_eq!(never[0].kind, RemarkKind::Excluded);
        assert!(RemarkKind::Repeated > RemarkKind::Unstable && RemarkKind::Repeated > RemarkKind::NoInterval);
        assert_eq!(texts(&[("p", vec![excluded(3, 1, &[])])], false), ["p: attempt 2 of t3 does not count"]);
    }

    #[test]
    fn exclusions_for_the_same_reason_are_one_remark_with_the_range_of_their_numbers() {
        let late = |percent: &str| vec![("client_late", format!("{percent} % of the requests were sent late"))];
        let of = |trial, attempt, reasons: Vec<(&str, String)>| {
            excluded(trial, attempt, &reasons.iter().map(|(code, detail)| (*code, detail.as_str())).collect::<Vec<_>>())
        };
        let first = (0..5).map(|trial| of(trial, 0, late(&format!("{}.5", trial + 1)))).collect::<Vec<_>>();
        let stalled = of(1, 1, vec![("client_stalled", "for 60 ms".to_owned())]);
        let remarks = folded(&[("concurrency 1", [first.clone(), vec![stalled]].concat())], true);
        insta::assert_snapshot!(remarks.iter().map(|remark| remark.text.as_str()).collect::<Vec<_>>().join("\n"), @r"
        concurrency 1: attempt 1 of t0, t1, t2 and 2 more does not count (client_late: 1.5 to 5.5 % of the requests were sent late); each was repeated
        concurrency 1: attempt 2 of t1 does not count (client_stalled: for 60 ms); it was repeated
        ");
        assert!(remarks[0].text_with_all_names.contains("attempt 1 of t0, t1, t2, t3, t4 does not count"));
        assert_eq!(remarks[0].full_texts.len(), 5, "each with its own number");
        assert!(remarks[0].full_texts[4].contains("attempt 1 of t4 does not count (client_late: 5.5 % of the requests"));

        let points = [("concurrency 1", first), ("concurrency 8", vec![of(0, 0, late("0.9")), of(0, 1, late("2"))])];
        insta::assert_snapshot!(texts(&points, true).join("\n"), @"every load: 7 attempts do not count (client_late: 0.9 to 5.5 % of the requests were sent late); each was repeated");
        let several =
            vec![excluded(0, 0, &[("malformed", "no JSON"), ("client_late", "")]), excluded(1, 0, &[("malformed", "empty")])];
        insta::assert_snapshot!(texts(&[("p", several)], false).join("\n"), @r"
        p: attempt 1 of t0 does not count (malformed: no JSON; client_late)
        p: attempt 1 of t1 does not count (malformed: empty)
        ");
        let wordings = ["a", "b", "c", "d"].map(|detail| excluded(0, 0, &[("malformed", detail)]));
        assert!(texts(&[("p", wordings.to_vec())], false)[0].ends_with("(malformed: a, or b, or 2 other details)"));
    }

    #[test]
    fn attempts_are_counted_from_one() {
        let late = [("client_late", "it was late")];
        assert_eq!(
            texts(&[("p", vec![excluded(2, 0, &late), excluded(2, 1, &late)])], false),
            ["p: attempts 1 and 2 of t2 do not count (client_late: it was late)"]
        );
        assert_eq!(
            texts(&[("p", vec![excluded(2, 0, &late), excluded(2, 1, &late), excluded(2, 2, &late)])], false),
            ["p: attempts 1, 2 and 3 of t2 do not count (client_late: it was late)"]
        );
        let mut model = fixture::model();
        model.summary.points[0].metrics[0].trials[0].attempt = 4;
        let report = model.report();
        let attempts: Vec<u32> = report.cases[0].points[0].rows[0]
            .measured
            .as_ref()
            .expect("it is there")
            .trials
            .iter()
            .map(|trial| trial.attempt)
            .collect();
        assert_eq!(attempts.iter().max(), Some(&5), "{attempts:?}");
        assert_eq!(attempts.iter().min(), Some(&1));
    }

    #[test]
    fn an_attempt_in_a_block_that_was_provisioned_again_names_its_block() {
        let failed = [("all_failed", "none of 10 requests succeeded")];
        let phrase = |excluded: Vec<Exclusion>, incarnations: &[u32]| {
            let mut model = fixture::serving::small();
            let attempt = |incarnation: &u32| CollectedAttempt {
                attempt: 0,
                block: Block { index: 0, incarnation: *incarnation },
                shard: Shard { index: 0, count: 1 },
                part: Digest::compute(b"part"),
                counted: false,
                samples: Count(0),
                gaps: Vec::new(),
            };
            let attempts = incarnations.iter().map(attempt).collect();
            let trial_id = excluded[0].trial_id.clone();
            model.collection.trials = vec![CollectedTrial { trial_id, counted: false, attempts }];
            let point = PointSummary { excluded, ..model.summary.points[0].clone() };
            let attempts = ExcludedAttempt::of_point(&point, Some(&model.collection));
            attempts_text(&attempts.iter().collect::<Vec<_>>(), Names::All)
        };
        let once = || excluded(0, 0, &failed);
        assert_eq!(phrase(vec![once(), once()], &[0, 1]), "attempts 1 and 1 in block 0-1 of t0 do not count");
        assert_eq!(phrase(vec![once()], &[0]), "attempt 1 of t0 does not count", "the only incarnation");
        assert_eq!(phrase(vec![once()], &[1, 1]), "attempt 1 in block 0-1 of t0 does not count", "two shards of one block");
        let disagreeing = phrase(vec![once(), once()], &[0, 1, 2]);
        assert!(!disagreeing.contains("block"), "the two documents have other numbers of attempts: {disagreeing}");
    }

    #[test]
    fn a_missing_value_has_a_reason() {
        let mut point = fixture::serving::small().summary.points[0].clone();
        assert_eq!(describe_missing_value(&point), "the Summary has no value of it");
        (point.trials_planned, point.trials_counted) = (2, 0);
        point.excluded = vec![excluded(0, 0, &[("exit_status", "9")]), excluded(1, 0, &[("exit_status", "9")])];
        assert_eq!(describe_missing_value(&point), "none of 2 trials counts: exit_status, 9 (2 of 2 attempts)");
        point.excluded.clear();
        assert_eq!(describe_missing_value(&point), "none of 2 trials counts");
    }

    #[test]
    fn the_commonest_reason_is_told_in_the_words_of_the_first() {
        let mut summary = fixture::serving::small().summary;
        for point in &mut summary.points {
            point.excluded.clear();
        }
        let commonest = |summary: &assay_manifest::Summary| commonest_reason(&summary.points.iter().collect::<Vec<_>>());
        assert_eq!(commonest(&summary), None);
        summary.points[1].excluded = vec![
            excluded(2, 0, &[("client_late", "once"), ("all_failed", "none of 10")]),
            excluded(2, 1, &[("all_failed", "none of 9"), ("all_failed", "none of 9")]),
        ];
        summary.points[2].excluded = vec![excluded(2, 0, &[("client_late", "twice")]), excluded(2, 1, &[("all_failed", "")])];
        assert_eq!(commonest(&summary).as_deref(), Some("all_failed (3 of 4 attempts), one of them: none of 10"));
        summary.points[2].excluded.clear();
        summary.points[1].excluded.remove(0);
        assert_eq!(commonest(&summary).as_deref(), Some("all_failed, none of 9 (1 of 1 attempt)"));
        summary.points[2].excluded = vec![excluded(2, 0, &[("client_late", "twice")]), excluded(2, 1, &[("all_failed", "")])];
        summary.points[1].excluded.clear();
        summary.points[2].excluded.remove(0);
        assert_eq!(commonest(&summary).as_deref(), Some("all_failed (1 of 1 attempt)"), "without words of its own");
        let lasting = |summary: &assay_manifest::Summary| lasting_reason(&summary.points.iter().collect::<Vec<_>>());
        assert_eq!(lasting(&summary), None);
        summary.points[2].excluded.push(excluded(2, 1, &[("no_requests", "none was due")]));
        assert_eq!(lasting(&summary), Some(LastingReason::NoRequests));
    }
}
