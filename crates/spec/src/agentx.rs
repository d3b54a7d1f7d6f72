//! The scenario AgentX: what a workload that is judged by its rules cannot have.
//!
//! AIPerf refuses these settings, too (`common/scenario/validator.py` of ai-dynamo/aiperf at 01def00601844da6599d11f1336cdc1a1f82a9ab). Rules that
//! depend on the corpus or on the result are judged when the result is known.

use assay_manifest::{DatasetFormat, JudgedScenario};

use crate::checked_value::{CheckedValue, Read as _, Value};
use crate::problem::Problems;

/// The rule of the lengths of responses.
const EXACT_OUTPUT: &str = "ask for responses of the recorded length (`ignore_eos`)";

/// Refuses the settings that the rules of the scenario exclude, each by name.
pub(crate) fn check_agentx(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(scenario) = spec.member("scenario").filter(|scenario| JudgedScenario::read(scenario).is_some()) else { return };
    let mut refuse = |at: Option<&CheckedValue>, rule: &str, hint: &str| {
        let place = at.map_or(scenario.span, |value| value.span);
        problems.add_hinted(place, format!("the rules of `spec.scenario` {rule}"), hint);
    };
    let is_weka = |trace: &CheckedValue| trace.text_of("format") == Some(DatasetFormat::Weka.as_str());
    if !spec.member("trace").is_some_and(is_weka) {
        let rule = "are for sessions of a trace in Weka's format, and for no synthetic or other prompts";
        refuse(None, rule, "write `format: weka`, and `sessions: {}`");
    }
    let mode = spec.at(&["load", "mode"]).filter(|mode| mode.text().is_some_and(|mode| mode != "closed"));
    if mode.is_some() {
        let hint = "write `load: {mode: closed, concurrency: [8], duration: 20m}` and `sessions: {recycle: true}`";
        refuse(mode, "ask for a number of sessions at a time, and for no rate and no schedule", hint);
    }
    let is_sweep = |levels: &&CheckedValue| matches!(&levels.value, Value::List(levels) if levels.len() > 1);
    let sweep = spec.at(&["load", "concurrency"]).filter(is_sweep);
    if sweep.is_some() {
        refuse(sweep, "ask for one concurrency, and for no sweep", "write one of them");
    }
    let off = |name: &str| spec.member(name).filter(|value| bool::read(value) == Some(false));
    if off("exact_output").is_some() {
        refuse(off("exact_output"), EXACT_OUTPUT, "remove `exact_output: false`");
    }
    if off("streaming").is_some() {
        refuse(off("streaming"), "ask for streams", "write `streaming: true`");
    }
    check_trace(spec, &mut refuse);
}

/// Refuses cuts of prompts, responses and pauses.
fn check_trace(spec: &CheckedValue, refuse: &mut impl FnMut(Option<&CheckedValue>, &str, &str)) {
    let member = |name: &str| spec.at(&["trace", name]);
    let cuts = member("over").filter(|over| over.text().is_some_and(|over| over != "refuse"));
    if cuts.is_some() {
        refuse(cuts, "allow no input that is cut or left out for its length", "remove `over`");
    }
    for name in ["max_gap", "max_tool_time"] {
        if member(name).is_some() {
            refuse(member(name), "keep the recorded pauses between turns", &format!("remove `{name}`"));
        }
    }
    let drawn = member("output").filter(|output| output.text() != Some("recorded"));
    for (name, other) in [("output", drawn), ("max_output", member("max_output"))] {
        if other.is_some() {
            refuse(other, EXACT_OUTPUT, &format!("remove `{name}`"));
        }
    }
}
