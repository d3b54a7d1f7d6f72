//! A history as a document for machines.

use serde_json::{Value, json};

use super::model::{AmbiguousStretch, Change, Run, Series};
use super::phrases;

impl Series {
    /// Returns the history with its changes. Changes and their intervals are shares; `news` is the change of the newest runs.
    pub fn document(&self) -> Value {
        let changes = self.changes.as_ref().map(|all| all.iter().map(|change| self.change(change)).collect::<Vec<_>>());
        json!({
            "pipeline": self.pipeline,
            "case": self.case,
            "point": self.point,
            "metric": self.metric,
            "unit": self.unit,
            "better": self.better,
            "other_work": self.other_work,
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "changes": changes.as_ref().ok(),
            "not_searched": changes.as_ref().err(),
            "untold": self.ambiguous.iter().map(|untold| self.ambiguous_value(untold)).collect::<Vec<_>>(),
            "news": self.newest_change.as_ref().map(|change| self.change(change)),
        })
    }

    fn ambiguous_value(&self, untold: &AmbiguousStretch) -> Value {
        let name = |place: usize| self.runs.get(place).map(|run| &run.id);
        json!({
            "from": name(untold.from),
            "to": untold.to.checked_sub(1).and_then(name),
            "autocorrelation": untold.autocorrelation,
        })
    }

    fn change(&self, change: &Change) -> Value {
        let run = self.runs.get(change.index);
        json!({
            "run": run.map(|run| &run.id),
            "commit": run.and_then(|run| run.commit.as_ref()),
            "p": change.p,
            "before": change.before,
            "after": change.after,
            "change": change.change,
            "low": change.interval.map(|(low, _)| low),
            "high": change.interval.map(|(_, high)| high),
            "environment": phrases::environment_note(self, change),
        })
    }
}

fn run(run: &Run) -> Value {
    json!({
        "run": run.id,
        "value": run.value,
        "commit": run.commit,
        "started": run.started,
        "address": run.address.as_ref().map(ToString::to_string),
    })
}
