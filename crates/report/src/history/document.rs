//! A history as a document for machines.

use serde_json::{Value, json};

use super::model::{AmbiguousStretch, Change, Run, Series, Subject};
use super::phrases;

impl Series {
    /// Returns the history with its changes. Changes and their intervals are shares; `news` is the change of the newest runs.
    pub fn document(&self) -> Value {
        let changes = self.changes.as_ref().map(|all| all.iter().map(|change| self.change(change)).collect::<Vec<_>>());
        let mut document = json!({
            "metric": self.metric,
            "unit": self.unit,
            "better": self.better,
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "changes": changes.as_ref().ok(),
            "not_searched": changes.as_ref().err(),
            "untold": self.ambiguous.iter().map(|untold| self.ambiguous_value(untold)).collect::<Vec<_>>(),
            "news": self.newest_change.as_ref().map(|change| self.change(change)),
        });
        let own = match &self.subject {
            Subject::Point { pipeline, case, point } => {
                json!({"pipeline": pipeline, "case": case, "point": point, "other_work": self.other_work})
            }
            Subject::Foreign { tool, statistic, labels } => {
                let without = self.other_work;
                json!({"grade": "foreign", "tool": tool, "statistic": statistic, "labels": labels, "without_statistic": without})
            }
        };
        if let (Some(members), Value::Object(own)) = (document.as_object_mut(), own) {
            members.extend(own);
        }
        document
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
    match &run.evidence {
        None => json!({
            "run": run.id,
            "value": run.value,
            "commit": run.commit,
            "started": run.started,
            "address": run.address.as_ref().map(ToString::to_string),
        }),
        Some(evidence) => json!({
            "evidence": run.id,
            "id": evidence,
            "value": run.value,
            "imported_at": run.started,
            "tool_changed": run.tool_changed,
        }),
    }
}
