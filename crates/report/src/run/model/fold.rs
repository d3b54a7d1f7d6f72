//! Folding of remarks: every rendering shows the gist once for all loads and metrics that it applies to, and a report also the full
//! texts.

use std::collections::{BTreeMap, BTreeSet};

use super::exclusions::fold_exclusions;
use super::remark::{Remark, RemarkKind, remarks};
use super::section::{CaseSection, PointSection};
use super::{serving, serving_remarks};
use crate::render::text::{counted, first_names};

/// Remarks with the same gist, or on unstable values, as one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FoldedRemark {
    pub(crate) kind: RemarkKind,
    /// The gist of all of them, with the first few names of points, trials and metrics.
    pub(crate) text: String,
    /// The same with all names.
    pub(crate) text_with_all_names: String,
    /// True if the text with all names leaves nothing out that the full texts have, except numbers within the ranges that it states.
    pub(crate) is_whole: bool,
    /// The full text of each, if there are several or if the gist leaves something out.
    pub(crate) full_texts: Vec<String>,
}

impl FoldedRemark {
    /// Returns the text for a report: with all names, unless the full texts follow it.
    pub(crate) fn report_text(&self) -> &str {
        if self.full_texts.is_empty() { &self.text_with_all_names } else { &self.text }
    }
}

/// The names that a remark lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// The first few; the others are counted.
    First,
    /// All of them.
    All,
}

impl Names {
    pub(super) fn list<S: AsRef<str>>(self, names: &[S]) -> String {
        match self {
            Self::First => first_names(names),
            Self::All => names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns the names of some of `points` places: `every load` for all of several.
    pub(super) fn places(self, places: &[&str], points: usize, point_word: &str) -> String {
        if points > 1 && places.len() == points { format!("every {point_word}") } else { self.list(places) }
    }
}

/// Returns the remarks on a case, folded.
pub(crate) fn fold_case(case: &CaseSection) -> Vec<FoldedRemark> {
    fold_points(std::slice::from_ref(case), case.point_word(), |_, point| point.label.clone())
}

/// Returns the remarks on all cases, folded together: points are named with their workload if there are several cases, and with their
/// target and variant if the workload has several of these.
pub(crate) fn fold_cases(cases: &[CaseSection]) -> Vec<FoldedRemark> {
    if let [only] = cases {
        return fold_case(only);
    }
    let mut sides: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for case in cases {
        sides.entry(&case.workload).or_default().insert(&case.side);
    }
    let place = |case: &CaseSection, point: &PointSection| {
        let label = if point.label == "default" { String::new() } else { format!(" {}", point.label) };
        let has_sides = sides.get(case.workload.as_str()).is_some_and(|sides| sides.len() > 1);
        let side = if has_sides { format!(" on {}", case.side) } else { String::new() };
        format!("{}{label}{side}", case.workload)
    };
    fold_points(cases, "point", place)
}

/// Folds the remarks on the points of some cases, which `place` names.
fn fold_points(
    cases: &[CaseSection],
    point_word: &str,
    place: impl Fn(&CaseSection, &PointSection) -> String,
) -> Vec<FoldedRemark> {
    let of_case = |case| PointRemarks::of_case(case, &place);
    let points: Vec<PointRemarks<'_>> = cases.iter().flat_map(of_case).collect();
    let remarks: Vec<Remark> = points.iter().flat_map(|point| point.remarks.iter().cloned()).collect();
    let mut folded = fold(&remarks, points.len(), point_word);
    let excluded = points.iter().flat_map(|of| of.point.exclusions.iter().map(move |attempt| (of.place.as_str(), attempt)));
    folded.extend(fold_exclusions(excluded, points.len(), point_word));
    folded.sort_by_key(|remark| remark.kind);
    folded
}

/// A point with its name and the remarks on it.
struct PointRemarks<'a> {
    point: &'a PointSection,
    place: String,
    remarks: Vec<Remark>,
}

impl<'a> PointRemarks<'a> {
    fn of_case(case: &'a CaseSection, place: &impl Fn(&CaseSection, &PointSection) -> String) -> Vec<Self> {
        let columns = case.serving.as_ref().map(|_| serving::explained_columns(case));
        let of_point = |point: &'a PointSection| {
            let remarks = columns.as_ref().map_or_else(|| remarks(point), |columns| serving_remarks::remarks(point, columns));
            let place = place(case, point);
            let remarks = remarks.into_iter().map(|remark| Remark { point: place.clone(), ..remark }).collect();
            Self { point, place, remarks }
        };
        case.points.iter().map(of_point).collect()
    }
}

/// Folds the remarks of `points` points, those first that matter most: one remark for several metrics or points with the same gist,
/// and one for all unstable values. `point_word` is the noun for a point: `load`.
fn fold(remarks: &[Remark], points: usize, point_word: &str) -> Vec<FoldedRemark> {
    let mut of_points: Vec<MergedRemark> = Vec::new();
    for remark in remarks {
        match of_points.iter_mut().find_map(|known| known.remark.merge(remark).then_some(known)) {
            Some(known) => {
                known.are_alike &= known.text == remark.text;
                known.full_texts.push(remark.full_text());
            }
            None => of_points.push(MergedRemark {
                remark: remark.clone(),
                text: remark.text.clone(),
                are_alike: true,
                full_texts: vec![remark.full_text()],
            }),
        }
    }
    let mut groups: Vec<Vec<&MergedRemark>> = Vec::new();
    for merged in &of_points {
        let belongs =
            |group: &&mut Vec<&MergedRemark>| group.first().is_some_and(|known| known.remark.has_same_content(&merged.remark));
        match groups.iter_mut().find(belongs) {
            Some(group) => group.push(merged),
            None => groups.push(vec![merged]),
        }
    }
    let (unstable, others): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.iter().any(|merged| merged.remark.kind == RemarkKind::Unstable));
    let mut folded: Vec<FoldedRemark> = others.iter().filter_map(|group| fold_group(group, points, point_word)).collect();
    match &unstable[..] {
        [] => {}
        [only] => folded.extend(fold_group(only, points, point_word)),
        _ => folded.extend(fold_unstable(remarks)),
    }
    folded.sort_by_key(|remark| remark.kind);
    folded
}

/// A remark on a point, merged from those on several metrics with the same gist.
struct MergedRemark {
    remark: Remark,
    /// The text of the first.
    text: String,
    /// True if the others have the same text.
    are_alike: bool,
    /// The full text of each.
    full_texts: Vec<String>,
}

/// Folds remarks with the same gist.
fn fold_group(group: &[&MergedRemark], points: usize, point_word: &str) -> Option<FoldedRemark> {
    let merged = group.first()?;
    let first = &merged.remark;
    let mut at: Vec<&str> = group.iter().map(|merged| merged.remark.point.as_str()).collect();
    at.dedup();
    let is_whole = group.iter().all(|other| other.are_alike && other.text == merged.text);
    let gist = if is_whole { &first.text } else { first.gist() };
    let text = |names: Names| {
        let about = match (first.is_about_all(), first.metrics.is_empty()) {
            (true, _) => ", every metric".to_owned(),
            (false, true) => String::new(),
            (false, false) => format!(", {}", names.list(&first.metrics)),
        };
        format!("{}{about}: {gist}", names.places(&at, points, point_word))
    };
    let text_with_all_names = text(Names::All);
    let full_texts: Vec<String> = group.iter().flat_map(|merged| merged.full_texts.iter().cloned()).collect();
    let full_texts = if full_texts == [text_with_all_names.as_str()] { Vec::new() } else { full_texts };
    Some(FoldedRemark { kind: first.kind, text: text(Names::First), text_with_all_names, is_whole, full_texts })
}

/// Folds several remarks on unstable values: their number, and the one whose trials differ most.
fn fold_unstable(remarks: &[Remark]) -> Option<FoldedRemark> {
    let unstable = || remarks.iter().filter(|remark| remark.kind == RemarkKind::Unstable);
    let numbers: usize = unstable().map(|remark| remark.metrics.len()).sum();
    let worst = unstable().max_by(|one, other| one.spread.total_cmp(&other.spread))?;
    let reason = worst.gist().trim_start_matches("unstable, ");
    let text = |names: Names| {
        format!(
            "{numbers} numbers of the tables are unstable, most of all {}, {}: {reason}",
            worst.point,
            names.list(&worst.metrics)
        )
    };
    Some(FoldedRemark {
        kind: RemarkKind::Unstable,
        text: text(Names::First),
        text_with_all_names: text(Names::All),
        is_whole: false,
        full_texts: unstable().map(Remark::full_text).collect(),
    })
}

/// Returns the note on the remarks that are left out of a list of folded remarks; `None` if none are.
pub(crate) fn left_out(folded: &[FoldedRemark], shown: usize) -> Option<String> {
    let more = folded.len().saturating_sub(shown);
    (more > 0).then(|| format!("and {}, in the report", counted(more as u64, "more remark")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::Count;

    use crate::run::fixture;

    fn remark(point: &str, metrics: &[&str], text: &str) -> Remark {
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        let kind = match text.split([',', ';', ' ']).next() {
            Some("unstable") => RemarkKind::Unstable,
            Some("stability") => RemarkKind::UnknownStability,
            Some("no") => RemarkKind::NoInterval,
            _ => RemarkKind::FailedRequests,
        };
        Remark { metrics, table_metrics: Some(9), ..Remark::for_point(kind, point, text.to_owned()) }
    }

    fn texts(folded: &[FoldedRemark]) -> Vec<&str> {
        folded.iter().map(|remark| remark.text.as_str()).collect()
    }

    fn remark_on_all(point: &str, text: &str) -> Remark {
        Remark { table_metrics: Some(2), ..remark(point, &["a", "b"], text) }
    }

    #[test]
    fn what_several_points_have_to_say_is_said_once() {
        let remarks = [
            remark_on_all("concurrency 1", "no interval, 3 samples; 5 are needed"),
            remark("concurrency 1", &["TTFT p99"], "unstable; noise: 9.64 %"),
            remark_on_all("concurrency 4", "no interval, 3 samples; 5 are needed"),
            remark("concurrency 4", &["TTFT p99"], "unstable; noise: 7 %"),
            remark("concurrency 4", &[], "5 of 9 requests failed"),
        ];
        insta::assert_snapshot!(texts(&fold(&remarks, 2, "load")).join("\n"), @r"
        concurrency 4: 5 of 9 requests failed
        every load, TTFT p99: unstable
        every load, every metric: no interval, 3 samples; 5 are needed
        ");
        assert_eq!(texts(&fold(&remarks[..1], 1, "load")), ["concurrency 1, every metric: no interval, 3 samples; 5 are needed"]);
        assert_eq!(texts(&fold(&remarks[..2], 3, "load"))[0], "concurrency 1, TTFT p99: unstable; noise: 9.64 %");
    }

    #[test]
    fn what_several_metrics_have_to_say_is_said_once() {
        let of = |point: &str, metric: &str, text: &str| Remark { table_metrics: Some(2), ..remark(point, &[metric], text) };
        let remarks = [
            of("concurrency 1", "TTFT p99", "stability unknown, 3 trials"),
            of("concurrency 1", "E2E p99", "stability unknown, 3 trials; noise: 9.64 %"),
            of("concurrency 4", "E2E p99", "stability unknown, 3 trials; noise: 7 %"),
            of("concurrency 4", "TTFT p99", "stability unknown, 3 trials; noise: 8 %"),
        ];
        assert_eq!(texts(&fold(&remarks, 2, "load")), ["every load, every metric: stability unknown, 3 trials"]);
        assert_eq!(texts(&fold(&remarks[..3], 2, "load"))[1], "concurrency 4, E2E p99: stability unknown, 3 trials; noise: 7 %");
        let failed = ["a; x", "a; y"].map(|text| Remark::for_point(RemarkKind::FailedRequests, "p", text.to_owned()));
        assert_eq!(texts(&fold(&failed, 9, "load")), ["p: a"]);
    }

    #[test]
    fn a_long_list_is_counted() {
        let many: Vec<Remark> = (0..20).map(|number| remark("p", &["a", "b", "c", "d", "e"], &format!("r{number}"))).collect();
        let folded = fold(&many, 1, "point");
        assert_eq!((folded[0].text.as_str(), folded.len()), ("p, a, b, c and 2 more: r0", 20));
        assert_eq!((folded[0].report_text(), folded[0].full_texts.len()), ("p, a, b, c, d, e: r0", 0));
        assert_eq!(left_out(&folded, 12).as_deref(), Some("and 8 more remarks, in the report"));
        assert_eq!(left_out(&folded, 20), None);
    }

    #[test]
    fn unstable_values_are_one_remark_that_names_the_worst() {
        let unstable = |point: &str, metric: &str, spread: f64| {
            let text = format!("unstable, noise: {spread}; outliers, kept: trial 3");
            Remark { spread, ..remark(point, &[metric], &text) }
        };
        let remarks = [
            unstable("concurrency 1", "TTFT p99", 0.2),
            unstable("concurrency 4", "ITL p99", 0.6),
            remark("concurrency 4", &[], "5 of 9 requests failed"),
            unstable("concurrency 4", "TTFT p99", 0.1),
        ];
        let folded = fold(&remarks, 2, "load");
        insta::assert_snapshot!(texts(&folded).join("\n"), @r"
        concurrency 4: 5 of 9 requests failed
        3 numbers of the tables are unstable, most of all concurrency 4, ITL p99: noise: 0.6
        ");
        assert_eq!(folded[1].full_texts.len(), 3);
        assert_eq!(folded[0].full_texts, [""; 0], "nothing was left out");
        let one = fold(&remarks[..1], 2, "load");
        assert_eq!(texts(&one), ["concurrency 1, TTFT p99: unstable, noise: 0.2; outliers, kept: trial 3"]);
    }

    #[test]
    fn all_of_it_is_in_a_report() {
        assert_eq!(remark_on_all("p", "x; y").full_text(), "p, every metric: x; y");
        assert_eq!(remark("p", &["a", "b"], "x; y").full_text(), "p, a, b: x; y");
        assert_eq!(Remark::for_point(RemarkKind::Excluded, "p", "x".to_owned()).full_text(), "p: x");
    }

    #[test]
    fn few_requests_are_remarked_once_for_all_loads_and_in_every_rendering() {
        let mut model = fixture::serving::small();
        for (place, point) in model.summary.points.iter_mut().enumerate() {
            for metric in &mut point.metrics {
                metric.trials.iter_mut().for_each(|trial| trial.n = Count(10 + place as u64));
            }
        }
        let report = model.report();
        let folded = fold_case(&report.cases[0]);
        let about: Vec<String> =
            folded.into_iter().map(|remark| remark.text).filter(|text| text.contains("close to their maximum")).collect();
        insta::assert_snapshot!(about.join("\n"), @r"
        concurrency 1, concurrency 64, TTFT p99, TPOT p99, E2E p99: p99 of fewer than 100 requests is close to their maximum, so ask for at least 100 requests a trial
        concurrency 1, concurrency 64, ITL p99: p99 of fewer than 100 gaps is close to their maximum, so ask for at least 100 requests a trial
        ");
        for text in [report.terminal(100, false), report.markdown(), report.html()] {
            assert!(text.contains("p99 of fewer than 100 requests"), "{text}");
        }
    }
}
