//! The experiments that confirm a finding, as changes of a workload.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A change of the measured work, under which both sides are measured again to confirm a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// Half of each concurrency, or of each request rate.
    HalfLoad,
    /// One request in flight.
    OneInFlight,
    /// Responses of exactly the requested length.
    ExactLengths,
}

/// The members of a load that mean the same at one request in flight: its end, its warm-up and its limits.
const KEPT_AT_ONE: [&str; 6] = ["duration", "requests", "sessions", "warmup", "timeout", "drain"];

impl Experiment {
    /// Returns the end of the names of its workload and its pipeline.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::HalfLoad => "half-load",
            Self::OneInFlight => "one-in-flight",
            Self::ExactLengths => "exact-lengths",
        }
    }

    /// Changes the definition of a workload.
    ///
    /// # Errors
    /// Returns the reason in words if the workload has nothing that can be changed so, such as a concurrency of 1 that would be halved.
    pub fn change(self, workload: &mut Value) -> Result<(), String> {
        let spec = workload.get_mut("spec").and_then(Value::as_object_mut).ok_or("the workload has no `spec`")?;
        match self {
            Self::ExactLengths => match spec.get("exact_output") {
                Some(Value::Bool(false)) => {
                    spec.remove("exact_output");
                    Ok(())
                }
                _ => Err("its responses have exact lengths already, if the endpoint obeys".to_owned()),
            },
            Self::HalfLoad => halve(spec.get_mut("load").ok_or(NO_LOAD)?),
            Self::OneInFlight => one_in_flight(spec.get_mut("load").ok_or(NO_LOAD)?),
        }
    }
}

const NO_LOAD: &str = "the workload has no `load`";

/// Halves the concurrencies of a closed loop, or the rates of another one.
fn halve(load: &mut Value) -> Result<(), String> {
    if let Some(concurrency) = load.get_mut("concurrency") {
        let halved =
            halves(concurrency, |value| Some(json!((value.as_u64()? / 2).max(1)))).ok_or("its concurrency is no number")?;
        if halved == list(concurrency) {
            return Err("its concurrency is 1 already".to_owned());
        }
        *concurrency = Value::Array(halved);
        return Ok(());
    }
    let rate = load.get_mut("rate").ok_or("its requests come at the times of a trace")?;
    *rate = Value::Array(
        halves(rate, |value| Some(json!(value.as_f64()? / 2.0))).ok_or("its rate changes during a trial, or is searched for")?,
    );
    Ok(())
}

/// Returns the half of each number, once; `None` if there is anything but numbers.
fn halves(values: &Value, half: impl Fn(&Value) -> Option<Value>) -> Option<Vec<Value>> {
    let mut all = list(values).iter().map(half).collect::<Option<Vec<_>>>()?;
    all.dedup();
    Some(all)
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

/// Replaces a load by one of one request in flight, with the same end.
fn one_in_flight(load: &mut Value) -> Result<(), String> {
    if load.get("concurrency").is_some_and(|concurrency| list(concurrency) == [json!(1)]) {
        return Err("its concurrency is 1 already".to_owned());
    }
    if load.get("mode").and_then(Value::as_str) == Some("replay") {
        return Err("its requests come at the times of a trace".to_owned());
    }
    let kept = KEPT_AT_ONE.iter().filter_map(|name| Some(((*name).to_owned(), load.get(*name)?.clone())));
    let one = [("mode".to_owned(), json!("closed")), ("concurrency".to_owned(), json!([1]))];
    *load = Value::Object(one.into_iter().chain(kept).collect());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(experiment: Experiment, load: &Value) -> Result<Value, String> {
        let mut workload = json!({"spec": {"load": load}});
        experiment.change(&mut workload)?;
        Ok(workload["spec"]["load"].clone())
    }

    #[test]
    fn half_the_load_is_half_of_each_concurrency_or_rate() {
        let half = |load: Value| changed(Experiment::HalfLoad, &load);
        assert_eq!(half(json!({"mode": "closed", "concurrency": [1, 2, 9]})).expect("changed")["concurrency"], json!([1, 4]));
        assert_eq!(half(json!({"mode": "closed", "concurrency": 8})).expect("changed")["concurrency"], json!([4]));
        let open = half(json!({"mode": "open", "rate": [50, 5], "duration": "9s"})).expect("changed");
        assert_eq!(open, json!({"mode": "open", "rate": [25.0, 2.5], "duration": "9s"}));
        assert_eq!(half(json!({"mode": "users", "users": [4], "rate": [40]})).expect("changed")["users"], json!([4]));
        for (load, why) in [
            (json!({"mode": "closed", "concurrency": [1]}), "its concurrency is 1 already"),
            (json!({"mode": "closed", "concurrency": {"find": "max"}}), "its concurrency is no number"),
            (json!({"mode": "open", "rate": {"ramp": {}}}), "its rate changes during a trial, or is searched for"),
            (json!({"mode": "replay"}), "its requests come at the times of a trace"),
        ] {
            assert_eq!(half(load).expect_err("refused"), why);
        }
        assert_eq!(Experiment::HalfLoad.change(&mut json!({"spec": {}})).expect_err("refused"), NO_LOAD);
    }

    #[test]
    fn one_request_in_flight_keeps_the_end_and_the_warm_up() {
        let one = |load: Value| changed(Experiment::OneInFlight, &load);
        let load =
            json!({"mode": "open", "rate": [50], "arrival": "poisson", "duration": "9s", "warmup": "1s", "max_concurrency": 9});
        assert_eq!(one(load).expect("changed"), json!({"mode": "closed", "concurrency": [1], "duration": "9s", "warmup": "1s"}));
        assert_eq!(one(json!({"mode": "closed", "concurrency": [1]})).expect_err("refused"), "its concurrency is 1 already");
        assert!(one(json!({"mode": "replay"})).is_err());
    }

    #[test]
    fn exact_lengths_are_asked_for_where_they_were_not() {
        let mut workload = json!({"spec": {"exact_output": false, "model": "m"}});
        Experiment::ExactLengths.change(&mut workload).expect("changed");
        assert_eq!(workload, json!({"spec": {"model": "m"}}));
        assert!(Experiment::ExactLengths.change(&mut workload).is_err(), "there is nothing to change");
    }
}
