//! The reasons for which attempts do not count.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Exclusion, LastingReason, PointSummary, Reason, ordinal};

use crate::render::number::grouped;
use crate::render::text::{clean, counted};

/// Maximum number of reasons for exclusion that a point lists; other exclusions are counted.
const MAX_EXCLUSIONS: usize = 20;

/// Returns `none of 5 trials counts`, or `the only trial does not count`.
pub fn describe_none_counted(planned: impl Into<u64>) -> String {
    match planned.into() {
        1 => "the only trial does not count".to_owned(),
        planned => format!("none of {} counts", counted(planned, "trial")),
    }
}

/// Returns the reason for which most attempts of some points do not count, in the words of the first one, and the number of attempts with
/// it. `None` if no attempt has a reason.
pub fn commonest_reason(points: &[&PointSummary]) -> Option<String> {
    let excluded = || points.iter().flat_map(|point| &point.excluded);
    let mut counts: Vec<(&Reason, u64)> = Vec::new();
    for exclusion in excluded() {
        let mut said = BTreeSet::new();
        // An attempt that gives the same reason several times counts once.
        for reason in exclusion.reasons.iter().filter(|reason| said.insert(&reason.code)) {
            match counts.iter_mut().find(|(known, _)| known.code == reason.code) {
                Some((_, count)) => *count += 1,
                None => counts.push((reason, 1)),
            }
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    let (reason, _) = counts.iter().find(|(_, count)| *count == most)?;
    let detail = if reason.detail.is_empty() { String::new() } else { format!(", {}", reason.detail) };
    let attempts = counted(excluded().count() as u64, "attempt");
    Some(clean(&format!("{}{detail} ({} of {attempts})", reason.code, grouped(most))))
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

/// Returns one line for each set of reasons: attempts that were excluded for the same reasons are named together.
pub(super) fn exclusions(excluded: &[Exclusion]) -> Vec<String> {
    let mut stories: Vec<(String, Vec<String>)> = Vec::new();
    for exclusion in excluded {
        let reasons: Vec<_> = exclusion.reasons.iter().map(|reason| format!("{}, {}", reason.code, reason.detail)).collect();
        let (story, attempt) = (reasons.join("; "), attempt_name(exclusion));
        let room = stories.len() < MAX_EXCLUSIONS;
        match stories.iter_mut().find(|(known, _)| *known == story) {
            Some((_, attempts)) => attempts.push(attempt),
            None if room => stories.push((story, vec![attempt])),
            None => {}
        }
    }
    let told: usize = stories.iter().map(|(_, attempts)| attempts.len()).sum();
    let mut lines: Vec<_> = stories.iter().map(|(story, attempts)| clean(&format!("{}: {story}", attempts.join(", ")))).collect();
    if excluded.len() > told {
        lines.push(format!("and {} more, listed in the Summary", excluded.len() - told));
    }
    lines
}

/// Returns `t2`, or `t2 (attempt 2)` if it was not the first attempt.
fn attempt_name(exclusion: &Exclusion) -> String {
    let trial = exclusion.trial_id.as_str().rsplit('.').next().unwrap_or_default();
    match exclusion.attempt {
        0 => trial.to_owned(),
        _ => format!("{trial} (attempt {})", ordinal(exclusion.attempt)),
    }
}

#[cfg(test)]
mod tests {
    use assay_manifest::TrialId;

    use super::*;
    use crate::run::fixture;

    fn excluded(attempt: u32, reasons: &[(&str, &str)]) -> Exclusion {
        let point = &fixture::serving::small().summary.points[0];
        let trial_id = TrialId::from_parts(&point.case_id, &point.point_id, 2);
        Exclusion { trial_id, attempt, reasons: reasons.iter().map(|(code, detail)| Reason::new(code, *detail)).collect() }
    }

    #[test]
    fn attempts_are_counted_from_one() {
        let late = [("client_late", "it was late")];
        assert_eq!(exclusions(&[excluded(0, &late), excluded(1, &late)]), ["t2, t2 (attempt 2): client_late, it was late"]);
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
    fn the_commonest_reason_is_told_in_the_words_of_the_first() {
        let mut summary = fixture::serving::small().summary;
        for point in &mut summary.points {
            point.excluded.clear();
        }
        let commonest = |summary: &assay_manifest::Summary| commonest_reason(&summary.points.iter().collect::<Vec<_>>());
        assert_eq!(commonest(&summary), None);
        summary.points[1].excluded = vec![
            excluded(0, &[("client_late", "once"), ("all_failed", "none of 10")]),
            excluded(1, &[("all_failed", "none of 9"), ("all_failed", "none of 9")]),
        ];
        summary.points[2].excluded = vec![excluded(0, &[("client_late", "twice")]), excluded(1, &[("all_failed", "")])];
        assert_eq!(commonest(&summary).as_deref(), Some("all_failed, none of 10 (3 of 4 attempts)"));
        summary.points[1].excluded.clear();
        summary.points[2].excluded.remove(0);
        assert_eq!(commonest(&summary).as_deref(), Some("all_failed (1 of 1 attempt)"), "without words of its own");
        let lasting = |summary: &assay_manifest::Summary| lasting_reason(&summary.points.iter().collect::<Vec<_>>());
        assert_eq!(lasting(&summary), None);
        summary.points[2].excluded.push(excluded(1, &[("no_requests", "none was due")]));
        assert_eq!(lasting(&summary), Some(LastingReason::NoRequests));
    }
}
