//! The results as tables of Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assay_diagnosis::Conclusion;

use crate::fault::Fault;
use crate::score::{Kind, Scored};

/// Writes the tables of recordings with one fault each.
pub(crate) fn of_faults(all: &[Scored]) -> String {
    let mut text = String::from(
        "| planted | strength | worse by: median (range) | redraws | rule | found (95 % bounds) | first | first among causes | right scope | \
         consequences named | wrong rules named | cannot tell | no finding |\n\
         | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: |\n",
    );
    let mut sums = Sums::default();
    for fault in Fault::ALL {
        let of_fault: Vec<&Scored> = all.iter().filter(|scored| scored.faults == [fault]).collect();
        if !of_fault.is_empty() {
            text.push_str(&row(fault, &of_fault, &mut sums));
        }
    }
    let Sums { recordings, found, first, first_cause, scope, wrong } = sums;
    let _ = writeln!(
        text,
        "\nTogether: found {}, first {}, first among causes {}, right scope {}, with a wrong rule {}.",
        share(found, recordings),
        share(first, recordings),
        share(first_cause, recordings),
        share(scope, found),
        share(wrong, recordings),
    );
    let _ = writeln!(text, "\n### Planted and first finding\n\n{}", confusion(all));
    text
}

#[derive(Default)]
struct Sums {
    recordings: usize,
    found: usize,
    first: usize,
    first_cause: usize,
    scope: usize,
    wrong: usize,
}

fn row(fault: Fault, all: &[&Scored], sums: &mut Sums) -> String {
    let description = fault.description();
    let count = |is: &dyn Fn(&Scored) -> bool| all.iter().filter(|scored| is(scored)).count();
    let mut changes: Vec<f64> = all.iter().map(|scored| 100.0 * scored.change).collect();
    changes.sort_by(f64::total_cmp);
    let worse = format!("{:.0} % ({:.0} to {:.0})", changes[changes.len() / 2], changes[0], changes[changes.len() - 1]);
    let redraws: u32 = all.iter().map(|scored| scored.redraws).sum();
    let found = count(&|scored| scored.rank(fault).is_some());
    let first = count(&|scored| scored.rank(fault) == Some(0));
    let first_cause = count(&|scored| scored.is_first_cause(fault));
    let scope = count(&|scored| scored.right_scope == [true]);
    let wrong = count(&|scored| scored.rules(Kind::Wrong).next().is_some());
    let cannot_tell = count(&|scored| scored.conclusion == Conclusion::CannotTell);
    let none = count(&|scored| matches!(scored.conclusion, Conclusion::NothingFound | Conclusion::NotWorse));
    sums.recordings += all.len();
    sums.found += found;
    sums.first += first;
    sums.first_cause += first_cause;
    sums.scope += scope;
    sums.wrong += wrong;
    format!(
        "| {} | {} | {worse} | {redraws} | `{}` | {} | {first} | {first_cause} | {scope} | {} | {} | {cannot_tell} | {none} |\n",
        description.name,
        description.change,
        description.rule,
        share(found, all.len()),
        listed(all.iter().flat_map(|scored| scored.rules(Kind::Consequence))),
        listed(all.iter().flat_map(|scored| scored.rules(Kind::Wrong))),
    )
}

/// Counts texts, the most frequent first.
pub(crate) fn listed<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = counts.iter().map(|(text, count)| format!("`{text}` {count}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Writes the first findings of each fault.
fn confusion(all: &[Scored]) -> String {
    let mut text = String::from("| planted | first finding, with the number of recordings |\n| --- | --- |\n");
    for fault in Fault::ALL {
        let of_fault: Vec<&Scored> = all.iter().filter(|scored| scored.faults == [fault]).collect();
        if !of_fault.is_empty() {
            let first = of_fault.iter().map(|scored| scored.findings.first().map_or("no finding", |(rule, _)| *rule));
            let _ = writeln!(text, "| {} | {} |", fault.description().name, listed(first));
        }
    }
    text
}

/// Writes the results of recordings in which nothing was planted.
pub(crate) fn of_clean(all: &[Scored]) -> String {
    let reports = all.iter().filter(|scored| !scored.findings.is_empty()).count();
    let conclusion = |scored: &Scored| match scored.conclusion {
        Conclusion::Found => "found",
        Conclusion::CannotTell => "cannot tell",
        Conclusion::NothingFound => "nothing found",
        Conclusion::NotWorse => "not worse",
    };
    format!(
        "Recordings with a finding: {}. Their rules: {}. Conclusions: {}.\n",
        share(reports, all.len()),
        listed(all.iter().flat_map(|scored| scored.rules(Kind::Wrong))),
        listed(all.iter().map(conclusion)),
    )
}

/// Writes the results of recordings with two faults each.
pub(crate) fn of_pairs(all: &[Scored]) -> String {
    let mut counts = [0; 4];
    for scored in all {
        let found = scored.faults.iter().filter(|fault| scored.rank(**fault).is_some()).count();
        let place = match (found, scored.conclusion) {
            (2, _) => 0,
            (1, _) => 1,
            (_, Conclusion::CannotTell) => 2,
            _ => 3,
        };
        counts[place] += 1;
    }
    let wrong = all.iter().filter(|scored| scored.rules(Kind::Wrong).next().is_some()).count();
    let n = all.len();
    format!(
        "| both found | one | none, \"cannot tell\" | none, otherwise | with a wrong rule |\n| ---: | ---: | ---: | ---: | ---: |\n\
         | {} | {} | {} | {} | {} |\n\nWrong rules: {}.\n",
        share(counts[0], n),
        share(counts[1], n),
        share(counts[2], n),
        share(counts[3], n),
        share(wrong, n),
        listed(all.iter().flat_map(|scored| scored.rules(Kind::Wrong))),
    )
}

/// Writes a count with the bounds of its share.
pub(crate) fn share(count: usize, of: usize) -> String {
    let [low, high] = bounds(count, of);
    format!("{count} of {of} ({:.0} to {:.0} %)", 100.0 * low, 100.0 * high)
}

/// Returns the 95 % bounds of a share (Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the
/// binomial", Biometrika 26, 1934), by bisection on the binomial distribution.
pub(crate) fn bounds(count: usize, of: usize) -> [f64; 2] {
    // The probability of at most `k` successes at a share.
    let at_most = |k: usize, share: f64| {
        let mut term = of as f64 * libm::log(1.0 - share);
        let mut sum = libm::exp(term);
        for successes in 1..=k {
            term += libm::log((of - successes + 1) as f64 / successes as f64) + libm::log(share / (1.0 - share));
            sum += libm::exp(term);
        }
        sum
    };
    let crossing = |k: usize, probability: f64| {
        let (mut low, mut high) = (1e-12, 1.0 - 1e-12);
        for _ in 0..100 {
            let middle = f64::midpoint(low, high);
            if at_most(k, middle) > probability { low = middle } else { high = middle }
        }
        low
    };
    let low = if count == 0 { 0.0 } else { crossing(count - 1, 0.975) };
    let high = if count >= of { 1.0 } else { crossing(count, 0.025) };
    [low, high]
}
