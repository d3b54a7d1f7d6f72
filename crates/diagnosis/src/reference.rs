//! The page of all rules.

use std::fmt::Write as _;

use crate::rule::{By, Direction, EventSelector, Rule, Signal, Statistic, rules};

/// Returns the page of all rules, as Markdown.
pub fn reference_page() -> String {
    let mut page = "# Rules of diagnosis\n\nMade from `diagnosis/*.yaml` by `assay generate`. How they are used: [Diagnosis](../diagnosis.md).\n".to_owned();
    for rule in rules() {
        write_rule(&mut page, rule);
    }
    page
}

fn write_rule(page: &mut String, rule: &Rule) {
    let slower: Vec<String> = rule.slower.iter().map(|name| format!("`{name}`")).collect();
    let playbook = serde_json::to_value(rule.playbook).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default();
    let _ = write!(
        page,
        "\n## {}\n\n{}. Class: {}. Playbook: `{playbook}`. Outcomes, of which one has to be worse: {}.\n\n| signal | metrics | moved | why |\n| --- | --- | --- | --- |\n",
        rule.rule,
        rule.title,
        rule.class.words(),
        slower.join(", "),
    );
    rule.signals.iter().for_each(|signal| write_signal(page, signal, ""));
    rule.supports.iter().for_each(|signal| write_signal(page, signal, " (supports)"));
    let _ = write!(
        page,
        "\n- What else looks like this: {}\n- To confirm: {}\n- Needs {}.\n",
        rule.instead, rule.confirm, rule.needs
    );
}

fn write_signal(page: &mut String, signal: &Signal, supports: &str) {
    let metrics: Vec<String> = signal
        .is
        .iter()
        .map(|formula| {
            let labels: Vec<String> = formula.labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let over = formula.over.as_ref().map(|over| format!(" / `{over}{labels}`")).unwrap_or_default();
            let by = formula.by.as_ref().map(by_label).unwrap_or_default();
            let divided = formula.over_outcome.as_ref().map(|outcome| format!(" / `{outcome}`")).unwrap_or_default();
            let from = formula.less_from.as_ref().map(|from| format!("`{from}` - ")).unwrap_or_default();
            let of = match formula.statistic {
                Statistic::Mean => "",
                Statistic::Max => "largest ",
            };
            let of_event = formula.event.as_ref().map(|event| format!(" of {}", facts(event))).unwrap_or_default();
            let zero = formula.zero_beside.as_ref().map(|beside| format!(" (0 beside {})", facts(beside))).unwrap_or_default();
            format!("{of}{from}`{}{labels}`{over}{by}{divided}{of_event}{zero}", formula.metric)
        })
        .collect();
    let direction = match signal.moved {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    let mut by = Vec::new();
    if signal.ratio > 1.0 {
        by.push(format!("{} times", signal.ratio));
    }
    if signal.amount > 0.0 {
        by.push(format!("{} {}", signal.amount, signal.unit));
    }
    let below = signal.below.map(|level| format!(", to below {level} {}", signal.unit)).unwrap_or_default();
    let absent = signal
        .when_absent
        .as_ref()
        .map(|absent| format!(", taken as {} where it is absent and `{}` is there", absent.value, absent.beside));
    let absent = absent.unwrap_or_default();
    let share = signal.least_share * 100.0;
    let share = if share > 0.0 { format!(" and {share:.0} % of the change of the outcome") } else { String::new() };
    let guard = if signal.guard { "; a p-value of 0.05 of its own suffices" } else { "" };
    let among = signal.among.as_ref().map(|labels| format!(", one among those of `{}`", labels.join("`, `"))).unwrap_or_default();
    let _ = writeln!(
        page,
        "| {}{supports} | {} | {direction} by {}{share}{below}{among}{absent}{guard} | {} |",
        signal.name,
        metrics.join(", or "),
        by.join(" and "),
        signal.reason
    );
}

/// Returns the way in which quotients are put together, in words.
fn by_label(by: &By) -> String {
    match by {
        By::Sum(label) => format!(", summed over `{label}`"),
        By::Max(label) => format!(", the largest of every `{label}`"),
    }
}

/// Returns the facts of a cluster that a formula reads, in words.
fn facts(EventSelector { object_kind, stage, event_type, status, reason }: &EventSelector) -> String {
    let stage = stage.as_ref().map(|stage| format!(" of {stage}")).unwrap_or_default();
    let words: Vec<&str> = [event_type, status, reason].into_iter().flatten().map(String::as_str).collect();
    format!("a {object_kind}{stage}: `{}`", words.join(" "))
}
