//! An explanation as lines for people.

use assay_diagnosis::{ALPHA, Change, Conclusion, Explanation, FEWEST_ATTEMPTS, Finding, Seen, Worse};
use assay_report::{counted, probability, significant};

use super::Paired;

/// The width of the labels before the texts of a finding.
const LABEL: usize = 9;

/// Returns the lines of an explanation, each without a line break: a name in them begins no line of its own.
pub(super) fn lines(paired: &Paired, found: &Explanation) -> Vec<String> {
    let [baseline, candidate] = &paired.sides;
    let mut lines = vec![headline(paired, found), format!("{candidate} against {baseline}")];
    let section = |lines: &mut Vec<String>, title: &str, texts: Vec<String>| {
        if !texts.is_empty() {
            lines.extend([String::new(), title.to_owned()]);
            lines.extend(texts.iter().map(|text| format!("  {text}")));
        }
    };
    let worse = found.worse.iter().map(worse_text);
    section(&mut lines, "WORSE", worse.collect());
    let perhaps = found.perhaps_worse.iter().map(worse_text).collect();
    section(&mut lines, "PERHAPS WORSE, AND NOT BEYOND DOUBT WITH THESE ATTEMPTS", perhaps);
    for (place, finding) in found.findings.iter().enumerate() {
        section(&mut lines, &format!("{}. {}", place + 1, finding.title), finding_lines(finding));
    }
    let unsure = found.unsure.iter().map(|unsure| {
        let seen: Vec<String> = unsure.seen.iter().map(seen_text).collect();
        let (p, seen) = (probability(unsure.p_adjusted), seen.join("; "));
        format!("{} ({}) at {} of {}: {seen}; adjusted p {p}", unsure.title, unsure.rule, unsure.point, unsure.case)
    });
    section(&mut lines, "MOVED, AND NOT BEYOND DOUBT WITH THESE ATTEMPTS", unsure.collect());
    let healthy = found.healthy.iter().map(|healthy| format!("{}: {}", healthy.name, change(&healthy.change)));
    section(&mut lines, "CHECKED, AND NOT MOVED BEYOND ITS THRESHOLD AND ITS SPREAD", healthy.collect());
    let not_checked = found.not_checked.iter().map(|rule| {
        let needs = rule.needs.map(|needs| format!("; needs {needs}")).unwrap_or_default();
        format!("{}: {}{needs}", rule.rule, rule.why)
    });
    section(&mut lines, "NOT CHECKED", not_checked.collect());
    section(&mut lines, "POINTS LEFT OUT", paired.left_out.clone());
    lines.push(String::new());
    lines.push(format!(
        "Medians of the attempts that count. One-sided tests of Welch; a rule holds if all its parts hold together at {ALPHA}, adjusted by Holm's \
         method for {}.",
        counted(found.tests as u64, "test")
    ));
    lines.push("The sides are associated with what was recorded, which does not prove a cause: the experiment does.".to_owned());
    lines
}

fn worse_text(worse: &Worse) -> String {
    let Change { baseline, candidate, .. } = worse.change;
    let percent = (candidate / baseline - 1.0) * 100.0;
    let by = if percent.is_finite() { format!(" ({percent:+.1} %)") } else { String::new() };
    format!("{} at {}: {} {}{by}", worse.case, worse.point, worse.metric, change(&worse.change))
}

/// Returns what was seen of the first finding, and the experiment that would confirm it.
pub(super) fn first_finding(found: &Explanation) -> Vec<String> {
    let Some(finding) = found.findings.first() else { return Vec::new() };
    let seen = finding.seen.iter().filter(|seen| seen.needed).map(seen_text);
    seen.map(|text| format!("{text}, at {} of {}", finding.point, finding.case))
        .chain([format!("To confirm: {}", finding.confirm)])
        .collect()
}

/// Returns the conclusion in one line.
pub(super) fn headline(paired: &Paired, found: &Explanation) -> String {
    let left_out = match paired.left_out.len() {
        0 => String::new(),
        count => format!(" {} left out, below.", counted(count as u64, "point")),
    };
    match found.conclusion {
        Conclusion::Found => {
            let more = match found.findings.len() {
                0 | 1 => String::new(),
                count => format!(" And {}, below.", counted(count as u64 - 1, "more finding")),
            };
            let first = found.findings.first().map(|finding| finding.title).unwrap_or_default();
            format!("Most evidence: {first}.{more}")
        }
        Conclusion::NotWorse => format!(
            "Nothing to explain: none of the outcomes that are judged is worse by 5 % or more, beyond the spread of the attempts.{left_out}"
        ),
        Conclusion::NothingFound => format!("Nothing found: every rule was checked, and none holds.{left_out}"),
        Conclusion::CannotTell if found.worse.is_empty() && !found.perhaps_worse.is_empty() => {
            let count = counted(found.perhaps_worse.len() as u64, "outcome");
            format!("Cannot tell: {count} may be worse, and these attempts are too few or vary too much to be sure.{left_out}")
        }
        Conclusion::CannotTell if found.worse.is_empty() => {
            format!(
                "Cannot tell: not every point has {FEWEST_ATTEMPTS} attempts of each side that count, so there may be outcomes that are worse.{left_out}"
            )
        }
        Conclusion::CannotTell => {
            format!(
                "Cannot tell: no rule holds, and {} could not be checked.{left_out}",
                counted(found.not_checked.len() as u64, "rule")
            )
        }
    }
}

fn finding_lines(finding: &Finding) -> Vec<String> {
    let line = |label: &str, text: &str| format!("{label:<LABEL$} {text}");
    let mut lines = vec![line("rule", &format!("{} ({})", finding.rule, finding.class.words()))];
    lines.extend(finding.seen.iter().map(|seen| line(if seen.needed { "seen" } else { "with it" }, &seen_text(seen))));
    let at = match finding.points.as_slice() {
        [_] => format!("{} at {}", finding.case, finding.point),
        points => format!("{} at {}; most evidence at {}", finding.case, points.join(", "), finding.point),
    };
    lines.push(line("at", &at));
    if !finding.places.is_empty() {
        lines.push(line("where", &finding.places.join(", ")));
    }
    lines.push(line("p", &format!("{}, adjusted", probability(finding.p_adjusted))));
    lines.push(line("instead", finding.instead));
    lines.push(line("confirm", finding.confirm));
    lines
}

fn seen_text(seen: &Seen) -> String {
    let object =
        seen.object.as_ref().map(|object| format!(" of {object}, and of the others in the same attempts")).unwrap_or_default();
    let share =
        seen.explains.as_ref().map(|(outcome, share)| format!("; as much as {:.0} % of the change of {outcome}", share * 100.0));
    match &seen.object {
        Some(_) => {
            let Change { baseline, candidate, unit, .. } = &seen.change;
            format!("{}{object}: {} and {} {unit}", seen.name, significant(*candidate, None), significant(*baseline, None))
        }
        None => format!("{}: {}{}", seen.name, change(&seen.change), share.unwrap_or_default()),
    }
}

fn change(change: &Change) -> String {
    let [before, now] = [change.baseline, change.candidate].map(|value| significant(value, None));
    format!("{before} -> {now} {}", change.unit)
}
