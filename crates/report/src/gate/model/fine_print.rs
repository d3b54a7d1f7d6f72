//! The fine print of a verdict: the method, the expected false alarms, and the meaning of each word.

use assay_manifest::{FloorSource, Verdict};

use super::row::{ABSENT, Row};
use crate::render::fine_print::FinePrint;
use crate::render::number::{fixed, level};
use crate::render::text::{clean, counted};

/// Number of unchanged comparisons for which the expected number of false alarms is stated.
const NOTHING_CHANGED: f64 = 1_000.0;

/// Returns the share of `q` that this look may spend; 0 for a look that the rules do not have.
pub(crate) fn share_of_look(verdict: &Verdict) -> f64 {
    let place = (verdict.sequence.look as usize).checked_sub(1);
    place.and_then(|place| verdict.policy.looks.get(place)).copied().unwrap_or(0.0)
}

/// Returns the share of false alarms among alarms that this look allows.
pub(crate) fn q_of_look(verdict: &Verdict) -> f64 {
    verdict.policy.q * share_of_look(verdict)
}

/// Maximum number of metrics whose unpaired test is stated; the page has all of them.
const MAX_UNPAIRED: usize = 5;

/// Returns the paragraphs, in the order of the report.
pub(crate) fn items(verdict: &Verdict, primary: &[Row]) -> Vec<FinePrint> {
    let family = primary.len();
    let of_this = |label, text| FinePrint { label, text, of_this_run: true };
    let always = |label, text: &str| FinePrint { label, text: text.to_owned(), of_this_run: false };
    vec![
        of_this("Method", method(verdict, family)),
        of_this("False alarms", false_alarms(verdict, family)),
        of_this("Floor", floor(verdict)),
        always("Change", CHANGE),
        of_this("Interval", interval(verdict)),
        of_this("Outcomes", outcomes(verdict)),
        always("Size", SIZE),
        always("Would have been found", DETECTABLE),
        always("Adjusted p", P),
        of_this("Unpaired p", unpaired(primary)),
        always("Medians", MEDIANS),
        always("Acknowledged", ACKNOWLEDGED),
        always("Other metrics", OTHERS),
        always("What it represents", REPRESENTS),
    ]
}

const CHANGE: &str = "The ratio of Hodges and Lehmann, candidate over baseline, less one: the median of the averages of all pairs of log-ratios. It \
                      is not the ratio of the two medians beside it, which ignores that trials are paired.";
const SIZE: &str =
    "The change in multiples of the budget, on logarithms, whatever its interval: within budget, 1-2, 2-4, beyond 4.";
const DETECTABLE: &str = "The smallest change for the worse that this design finds with a probability of 0.8 by the whole rule, at the noise that \
                          was met. Smaller ones may pass.";
const P: &str = "The smaller of the two one-sided probabilities of signed ranks so far from no change, exact up to 200 pairs, adjusted for the family and for both directions.";
const MEDIANS: &str = "The median of all trials of a side that are part of a pair, to three significant digits.";
const ACKNOWLEDGED: &str =
    "It regressed, and a reviewed file of the target branch had accepted a change of that size: it is reported, and passes.";
const OTHERS: &str = "Reported, adjusted as a family of their own, and without a say in the outcome.";
const REPRESENTS: &str = "The two sides as they were measured, on these machines at that time, and nothing more. Times are asserted by the \
                          signers; no independent clock has stamped them.";

fn method(verdict: &Verdict, family: usize) -> String {
    format!(
        "Wilcoxon's signed ranks, one-sided, on the log-ratios of adjacent pairs; Benjamini and Hochberg over the family of {} at q = {}. Method `{}`.",
        counted(family as u64, "primary metric"),
        level(q_of_look(verdict)),
        clean(&verdict.contract)
    )
}

fn false_alarms(verdict: &Verdict, family: usize) -> String {
    let q = q_of_look(verdict);
    let all = verdict.policy.q * verdict.policy.looks.iter().sum::<f64>();
    let looks = match verdict.policy.looks.len() {
        0 | 1 => String::new(),
        looks => format!(" Over all {looks} looks of a sequence it is {} at most.", level(all)),
    };
    let unchanged = match family {
        1 => "the metric did not change".to_owned(),
        _ => format!("none of the {} changed", counted(family as u64, "metric")),
    };
    format!(
        "Among the alarms of this look at most {} are false in expectation: of {NOTHING_CHANGED} comparisons like it in which {unchanged}, \
         at most {} would alarm. Budget and floor make it fewer.{looks} It holds where metrics are independent or depend positively.",
        level(q),
        fixed(NOTHING_CHANGED * q, 0)
    )
}

/// States the result of the unpaired test, which decides nothing, for the metrics that need attention first.
fn unpaired(primary: &[Row]) -> String {
    let tested: Vec<&Row> = primary.iter().filter(|row| row.unpaired != ABSENT).collect();
    let named: Vec<String> = tested.iter().take(MAX_UNPAIRED).map(|row| format!("{} for {}", row.unpaired, row.name())).collect();
    let more = tested.len().saturating_sub(MAX_UNPAIRED);
    let more = if more > 0 { format!(", and {} in the page", counted(more as u64, "more metric")) } else { String::new() };
    let values = if named.is_empty() { "no metric has one".to_owned() } else { named.join(", ") };
    format!(
        "Rank sums of Mann and Whitney, two-sided, as if nothing were paired and unadjusted: {values}{more}. It decides nothing."
    )
}

fn floor(verdict: &Verdict) -> String {
    let is = |source: FloorSource| {
        verdict.metrics.iter().any(|metric| metric.floor.as_ref().is_some_and(|floor| floor.source == source))
    };
    let sources = [
        (
            FloorSource::Rerandomised,
            "every pair has launches of its own, so that no launch is left in the difference, and it is 0",
        ),
        (FloorSource::History, "from what earlier runs teach of how launches differ"),
        (
            FloorSource::Autocorrelation,
            "where pairs resemble those before them, from what earlier runs teach of how whole runs differ",
        ),
        (
            FloorSource::Unlearned,
            "where no earlier run taught whether pairs resemble those before them, from this run's noise and number of pairs: \
             a stretch of few pairs looks like a change. More pairs make it smaller, and earlier runs do away with it (`assay noise`)",
        ),
    ];
    let used: Vec<&str> = sources.into_iter().filter(|(source, _)| is(*source)).map(|(_, text)| text).collect();
    let used = if used.is_empty() { "not known, so that nothing is decided".to_owned() } else { used.join("; ") };
    let learned = verdict.learned.map(|digest| format!(" Learned from `{digest}`.")).unwrap_or_default();
    format!("What the design cannot average away, and the interval's end has to clear: {used}.{learned}")
}

fn interval(verdict: &Verdict) -> String {
    let levels: Vec<f64> =
        verdict.metrics.iter().filter_map(|metric| metric.change.as_ref()).map(|change| change.level).collect();
    let text = levels.first().map_or_else(|| "No change has one.".to_owned(), |first| format!("At {}.", level(*first)));
    format!("{text} It inverts the test: what it holds, the signed ranks would not reject.")
}

fn outcomes(verdict: &Verdict) -> String {
    let budget = verdict.policy.budget;
    format!(
        "Regressed: adjusted p at most q, and the change beyond the budget of {}, and the interval clear of the floor. Improved mirrors it. \
         Inconclusive: not regressed, and a change of {} would not have been found, or the floor was not cleared, or something else than the \
         variable under test differs. Unchanged is what is left.",
        level(budget),
        level(2.0 * budget)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::fixture;

    #[test]
    fn a_gate_of_one_metric_speaks_of_one() {
        let verdict = fixture::model().verdict;
        let text = |family: usize| false_alarms(&verdict, family);
        assert!(
            text(1).contains("in which the metric did not change, at most") && !text(1).contains("none of the"),
            "{}",
            text(1)
        );
        assert!(text(2).contains("in which none of the 2 metrics changed, at most"), "{}", text(2));
    }
}
