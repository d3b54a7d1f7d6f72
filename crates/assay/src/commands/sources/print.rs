//! The present state of telemetry sources, for people.

use std::collections::BTreeMap;

use assay_report::counted;

use super::{PipelineSources, QueryState, SourceState};
use crate::output;

/// The width of the metrics' names.
const NAME_WIDTH: usize = 52;

pub(super) fn print(found: &PipelineSources) {
    output::line(format!("{}:", found.pipeline));
    for state in &found.sources {
        output::line("");
        let address = state.address.as_ref().map(|address| format!(" at {address}")).unwrap_or_default();
        output::line(format!("{}{address}", state.source));
        for line in lines(state) {
            output::line(format!("  {line}"));
        }
    }
}

fn lines(state: &SourceState) -> Vec<String> {
    let mut lines: Vec<String> = state.note.iter().cloned().collect();
    if let Some(error) = &state.error {
        let what = if state.unreachable { "cannot be asked now" } else { "has no counters" };
        lines.push(format!("{what}: {error}"));
    }
    if let Some(metrics) = state.metrics {
        let left_out = if state.metrics_left_out > 0 {
            format!(", and {} beyond the limits", state.metrics_left_out)
        } else {
            String::new()
        };
        lines.push(format!("responds: {} of an attempt{left_out}, from readings once a second", counted(metrics, "row")));
    }
    if !state.without_value.is_empty() {
        lines.push(format!("absent (the GPUs state no value): {}", state.without_value.join(", ")));
    }
    if let (Some(offset), Some(uncertainty)) = (state.clock_offset_ns, state.clock_uncertainty_ns) {
        let direction = if offset < 0 { "behind" } else { "ahead of" };
        let (size, error) = (offset.unsigned_abs(), seconds(uncertainty));
        lines.push(if size <= uncertainty {
            format!("responds: its clock agrees with this machine's within {error} s")
        } else {
            format!("responds: its clock is {} s {direction} this machine's, within {error} s", seconds(size))
        });
    }
    let mut packs: BTreeMap<&str, Vec<&QueryState>> = BTreeMap::new();
    state.queries.iter().for_each(|query| packs.entry(&query.pack).or_default().push(query));
    for (pack, queries) in packs {
        lines.extend(pack_lines(pack, &queries));
    }
    lines
}

fn pack_lines(pack: &str, queries: &[&QueryState]) -> Vec<String> {
    let present: Vec<&&QueryState> = queries.iter().filter(|query| query.absent.is_none() && query.error.is_none()).collect();
    let mut lines = vec![format!("{pack}: series of {} of {} queries", present.len(), queries.len())];
    if let ([], Some(first)) = (present.as_slice(), queries.first()) {
        lines.extend(first.absent.iter().map(|why| format!("  absent: {why}")));
        lines.extend(first.error.iter().map(|why| format!("  failed: {why}")));
        return lines;
    }
    lines.extend(present.iter().map(|query| format!("  {}", query_line(query))));
    let is_close = |query: &&&&QueryState| query.interval_ns.is_some_and(|interval| interval * 2 < query.resolution_ns);
    if let Some(resolution) = present.iter().find(is_close).map(|query| query.resolution_ns) {
        let exporter = queries.first().map(|query| query.exporter.as_str()).unwrap_or_default();
        lines.push(format!(
            "  {exporter} reads its values every {} s by default: closer samples repeat them",
            seconds(resolution)
        ));
    }
    let mut without: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for query in queries {
        let why = query.absent.as_deref().map(|why| ("absent", why));
        if let Some(why) = why.or(query.error.as_deref().map(|why| ("failed", why))) {
            without.entry(why).or_default().push(&query.metric);
        }
    }
    for ((what, why), metrics) in without {
        lines.push(format!("  {what} ({why}):"));
        lines.extend(metrics.iter().map(|metric| format!("    {metric}")));
    }
    lines
}

fn query_line(query: &QueryState) -> String {
    let objects = counted(query.scopes, &query.scope_kind);
    let mut parts = vec![format!("{} of {objects}", counted(query.rows, "row"))];
    match query.interval_ns {
        Some(interval) => parts.push(format!("a sample every {} s", seconds(interval))),
        None if query.ambiguous > 0 || query.without_scope > 0 => {}
        None => parts.push(format!("{} series without two samples in 15 minutes", query.series)),
    }
    if !query.too_short.is_empty() {
        parts.push(format!("too coarse for attempts of {}", query.too_short.join(", ")));
    }
    if query.ambiguous > 0 {
        parts.push(format!("{} series of one object at the same time: narrow them by `match`", query.ambiguous));
    }
    if query.without_scope > 0 {
        parts.push(format!("{} series without the label of their object", query.without_scope));
    }
    format!("{:NAME_WIDTH$} {}", query.metric, parts.join(", "))
}

/// Returns a time in seconds with at most three decimals. Longer times are rounded to hundredths: scrapes are some milliseconds late or
/// early.
fn seconds(ns: u64) -> String {
    let ms = ns.div_ceil(1_000_000);
    let ms = if ms < 500 { ms } else { (ms + 5) / 10 * 10 };
    let text = format!("{}.{:03}", ms / 1000, ms % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
