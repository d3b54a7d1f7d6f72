//! `assay rank`: orders the variants of a run by a metric, and says which of them cannot be told apart.

use std::collections::BTreeMap;

use assay_manifest::{Digest, Plan, Summary};
use assay_report::ranking::{Candidate, METHOD, Pair, PairTest, Ranking, measured, rank};
use assay_report::{counted, describe_missing_value, level, probability};
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Exit, Failure, first_names};
use assay_stats::CONFIDENCE_LEVEL;
use serde_json::{Value, json};

use crate::commands::store_options::StoreOptions;
use crate::output;

/// The number of variants that a cell of the table names.
const SHOWN_VARIANTS: usize = 3;

/// Order the variants of a run, such as software stacks, by a metric, and say which of them cannot be told apart.
#[derive(clap::Args)]
pub(crate) struct Rank {
    /// The run, by its name or its published folder
    #[arg(value_name = "RUN")]
    run: String,
    /// The metric [default: every primary metric]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    #[command(flatten)]
    place: StoreOptions,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

impl Rank {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let opened = self.place.open(&self.run)?;
        let summary = opened.summary()?;
        let plan = &opened.chain.one::<Plan>().ok_or_else(|| opened.no_summary())?.body;
        let measured = measured(plan, summary, self.metric.as_deref(), describe_missing_value);
        if measured.is_empty() {
            return Err(self.nothing_ranked(plan, summary));
        }
        let rankings = rank(measured);
        if self.json {
            output::json(&document(&opened, &rankings))?;
        } else {
            text(&rankings).iter().for_each(output::line);
        }
        Ok(output::established(opened.chain.is_established()))
    }

    fn nothing_ranked(&self, plan: &Plan, summary: &Summary) -> Failure {
        let failure = |message: String| Failure::new(ErrorCode::NothingRanked, message);
        if plan.variants.len() < 2 {
            let hint = "a pipeline states several with `variants`; `assay stacks` writes one for each software stack";
            return failure(format!("the run `{}` has one variant, and two or more are ranked", self.run)).hint(hint);
        }
        let mut known: Vec<&str> =
            summary.points.iter().flat_map(|point| &point.metrics).map(|metric| metric.metric.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let what =
            self.metric.as_deref().map_or_else(|| "a primary metric".to_owned(), |metric| format!("the metric `{metric}`"));
        let hint = format!("a ranking needs a metric with `better`; the run reports {}", first_names(&known, 10));
        failure(format!("no point of the run `{}` has {what} that says which direction is better", self.run)).hint(hint)
    }
}

/// Returns the lines of all rankings, each without a line break.
fn text(rankings: &[Ranking]) -> Vec<String> {
    let mut lines = Vec::new();
    for ranking in rankings {
        lines.push(ranking.headline());
        lines.push(format!("{}: {}", ranking.measured.place, ranking.measured.metric));
        lines.extend(table(ranking));
        lines.extend(ranking.measured.left_out.iter().map(|(variant, why)| format!("  `{variant}` is not ranked: {why}")));
        lines.extend(not_compared(ranking));
        lines.extend(same_locks(ranking));
        lines.push(String::new());
    }
    lines.extend(method(rankings));
    lines
}

fn table(ranking: &Ranking) -> Vec<String> {
    let candidates = &ranking.measured.candidates;
    if candidates.is_empty() {
        return Vec::new();
    }
    let width = candidates.iter().map(|candidate| candidate.variant.chars().count()).chain([7]).max().unwrap_or(7);
    let medians: Vec<String> =
        candidates.iter().map(|candidate| candidate.median_with_interval(&ranking.measured.unit)).collect();
    let median_width = medians.iter().map(|median| median.chars().count()).chain([6]).max().unwrap_or(6);
    let heading = format!(
        "       {:<width$}  {:<median_width$}  {:>6}  {:<22}  NOT TOLD APART FROM",
        "VARIANT", "MEDIAN", "TRIALS", "BEST IS BETTER BY"
    );
    let rows = candidates.iter().zip(&medians).enumerate().map(|(place, (candidate, median))| {
        let trials = format!("{}/{}", candidate.values.len(), candidate.planned);
        let similar: Vec<&str> = ranking.not_told_apart(place);
        let against = ranking.against_best(place).map(Pair::ratio_with_interval).unwrap_or_default();
        let row = format!(
            "  {:>3}  {:<width$}  {median:<median_width$}  {trials:>6}  {against:<22}  {}",
            place + 1,
            candidate.variant,
            first_names(&similar, SHOWN_VARIANTS)
        );
        row.trim_end().to_owned()
    });
    std::iter::once(heading).chain(rows).collect()
}

/// Returns a line for each lock file that several variants have.
fn same_locks(ranking: &Ranking) -> Vec<String> {
    let mut variants: BTreeMap<Digest, Vec<&str>> = BTreeMap::new();
    for candidate in &ranking.measured.candidates {
        if let Some(lock) = candidate.lock {
            variants.entry(lock).or_default().push(&candidate.variant);
        }
    }
    let line = |names: Vec<&str>| {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("  {} have the same lock file: their packages do not differ", first_names(&quoted, SHOWN_VARIANTS))
    };
    variants.into_values().filter(|names| names.len() > 1).map(line).collect()
}

/// Returns a line for each reason why pairs were not compared.
fn not_compared(ranking: &Ranking) -> Vec<String> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for why in ranking.pairs.iter().filter_map(|pair| pair.test.as_ref().err()) {
        *reasons.entry(why).or_default() += 1;
    }
    reasons.into_iter().map(|(why, pairs)| format!("  {} not compared: {why}", counted(pairs, "pair"))).collect()
}

/// Returns the lines that say how the variants were compared; none if no pair was.
fn method(rankings: &[Ranking]) -> Vec<String> {
    let pairs = rankings.iter().flat_map(|ranking| &ranking.pairs);
    let tests: Vec<&PairTest> = pairs.filter_map(|pair| pair.test.as_ref().ok()).collect();
    if tests.is_empty() {
        return Vec::new();
    }
    let told_apart = rankings.iter().flat_map(|ranking| &ranking.pairs).filter(|pair| pair.is_told_apart());
    let largest = told_apart.filter_map(|pair| pair.test.as_ref().ok()).map(|test| test.adjusted).reduce(f64::max);
    let count = counted(tests.len() as u64, "pair");
    let result = match largest {
        Some(p) => format!("Of {count}, those told apart have an adjusted p of {} at most.", probability(p)),
        None => format!("None of {count} is told apart at {}.", level(CONFIDENCE_LEVEL)),
    };
    vec![result, format!("{METHOD} docs/statistics.md has the method.")]
}

fn document(opened: &VerifiedRun, rankings: &[Ranking]) -> Value {
    json!({
        "run": opened.chain.run_id,
        "level": CONFIDENCE_LEVEL,
        "adjustment": "holm",
        "tests": rankings.iter().flat_map(|ranking| &ranking.pairs).filter(|pair| pair.test.is_ok()).count(),
        "rankings": rankings.iter().map(ranking_document).collect::<Vec<_>>(),
    })
}

fn ranking_document(ranking: &Ranking) -> Value {
    let measured = &ranking.measured;
    let name = |place: usize| measured.candidates.get(place).map(|candidate| &candidate.variant);
    let variant = |(place, candidate): (usize, &Candidate)| {
        json!({
            "place": place + 1,
            "variant": candidate.variant,
            "lock": candidate.lock,
            "median": candidate.median,
            "interval": candidate.interval,
            "trials_counted": candidate.values.len(),
            "trials_planned": candidate.planned,
            "not_told_apart_from": ranking.not_told_apart(place),
            "not_compared_with": ranking.not_compared(place),
        })
    };
    let pair = |pair: &Pair| {
        let test = pair.test.as_ref();
        json!({
            "better": name(pair.places.0),
            "other": name(pair.places.1),
            "rounds": pair.rounds,
            "ratio": test.ok().map(|test| test.ratio),
            "low": test.ok().map(|test| test.interval.0),
            "high": test.ok().map(|test| test.interval.1),
            "p": test.ok().map(|test| test.p),
            "adjusted_p": test.ok().map(|test| test.adjusted),
            "told_apart": pair.is_told_apart(),
            "not_compared": test.err(),
        })
    };
    json!({
        "result": ranking.headline(),
        "place": measured.place,
        "metric": measured.metric,
        "unit": measured.unit,
        "better": measured.better,
        "variants": measured.candidates.iter().enumerate().map(variant).collect::<Vec<_>>(),
        "pairs": ranking.pairs.iter().map(pair).collect::<Vec<_>>(),
        "not_ranked": measured.left_out.iter().map(|(variant, why)| json!({"variant": variant, "reason": why})).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use assay_manifest::BetterDirection;
    use assay_report::ranking::Measured;

    use super::*;

    /// Returns the lines of a ranking of `old` and `new` with these values, in rounds 0, 1, 2 and so on.
    fn lines(old: &[f64], new: &[f64]) -> String {
        lines_with_locks([None, None], old, new)
    }

    /// Returns the same lines of variants with these lock files.
    fn lines_with_locks(locks: [Option<Digest>; 2], old: &[f64], new: &[f64]) -> String {
        let candidate = |variant: &str, values: &[f64]| Candidate {
            variant: variant.to_owned(),
            lock: None,
            median: values.iter().copied().fold(f64::NAN, f64::min),
            interval: None,
            values: (0..).zip(values.iter().copied()).collect(),
            planned: 4,
        };
        let measured = Measured {
            place: "w on t at one".to_owned(),
            metric: "elapsed".to_owned(),
            unit: "ms".to_owned(),
            better: BetterDirection::Lower,
            candidates: [candidate("old", old), candidate("new", new)]
                .into_iter()
                .zip(locks)
                .map(|(candidate, lock)| Candidate { lock, ..candidate })
                .collect(),
            left_out: Vec::new(),
        };
        text(&rank(vec![measured])).join("\n")
    }

    #[test]
    fn a_pair_is_told_apart_or_none_is() {
        let apart = lines(&[13.0, 13.1, 12.9, 13.0], &[10.0, 10.0, 10.1, 9.9]);
        assert!(apart.contains("Of 1 pair, those told apart have an adjusted p of ") && !apart.contains("None of"), "{apart}");
        let equal = lines(&[10.0, 10.2, 9.9, 10.0], &[10.1, 10.0, 10.1, 9.9]);
        assert!(equal.contains("None of 1 pair is told apart at 95 %.") && !equal.contains("adjusted p"), "{equal}");
        assert!(equal.contains("NOT TOLD APART FROM") && equal.contains("  1  old"), "{equal}");
    }

    #[test]
    fn pairs_that_cannot_be_compared_are_counted_with_the_reason() {
        let few = lines(&[13.0, 13.1], &[10.0, 10.0, 10.1]);
        assert!(few.contains("  `old` is not ranked: 2 of 4 trials count, and a ranking needs 3"), "{few}");
        assert!(!few.contains("told apart at") && !few.contains("Student"), "nothing was compared: {few}");
        let same = lines(&[2.0, 2.0, 2.0], &[1.0, 1.0, 1.0]);
        assert!(same.contains("  1 pair not compared: the ratio is the same in every round"), "{same}");
        assert!(!lines(&[13.0, 13.1, 12.9], &[10.0, 10.0, 10.1]).contains("not compared"));
    }

    #[test]
    fn variants_with_one_lock_file_are_named() {
        let [one, other] = [b"1", b"2"].map(|bytes| Some(Digest::compute(bytes)));
        let said = |locks| {
            lines_with_locks(locks, &[13.0, 13.1, 12.9], &[10.0, 10.0, 10.1]).contains("`new`, `old` have the same lock file")
        };
        assert_eq!([said([one, one]), said([one, other]), said([None, None])], [true, false, false]);
    }
}
