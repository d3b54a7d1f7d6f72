//! The parameters of each stage: the driver writes them as JSON, and the stage reads them.
//!
//! They are part of what identifies a call, so their JSON form is stable: a member that is left out by default stays left out.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Digest, Name, TrialId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::StageName;

/// The network access of the plan stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanParameters {
    /// True if fetching is allowed. Plans of pull requests that are not yet reviewed fetch nothing that their author chose.
    pub fetch: bool,
    /// The digests of files of datasets that the store holds, by workload: such a file is imported instead of fetched from its address. Only
    /// a plan that is recomputed takes it, which never signs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub datasets: BTreeMap<Name, Digest>,
}

impl Default for PlanParameters {
    fn default() -> Self {
        Self { fetch: true, datasets: BTreeMap::new() }
    }
}

/// The block to provision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProvisionParameters {
    /// The block's index in the run.
    pub block: u32,
    /// The number of times that the block was provisioned again.
    pub incarnation: u32,
    /// True if the Environment has to say how many shards make each trial: once in a run, by its first block.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shards: bool,
}

/// The block to run, and the part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExecuteParameters {
    /// The block's index in the run.
    pub block: u32,
    /// The number of times that the block was provisioned again.
    pub incarnation: u32,
    /// If true, measures nothing: only closes the block with its existing attempts, because its target has gone.
    pub close: bool,
    /// Trials that an earlier incarnation of the block has finished.
    pub except: BTreeSet<TrialId>,
}

/// The identity of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordParameters {
    /// The block's index in the run.
    pub block: u32,
    /// The number of times that the block was provisioned again.
    pub incarnation: u32,
    /// The number of the recording in the run, from 0.
    pub sequence: u32,
}

/// Collect has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectParameters {}

/// Reduce has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReduceParameters {}

/// Publish has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishParameters {}

/// The parameters of one call of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageParameters {
    /// The parameters of plan.
    Plan(PlanParameters),
    /// The parameters of provision.
    Provision(ProvisionParameters),
    /// The parameters of execute.
    Execute(ExecuteParameters),
    /// The parameters of the recorder.
    Record(RecordParameters),
    /// The parameters of collect.
    Collect(CollectParameters),
    /// The parameters of reduce.
    Reduce(ReduceParameters),
    /// The parameters of publish.
    Publish(PublishParameters),
}

impl StageParameters {
    /// Returns the default parameters of a stage.
    pub fn default_for(stage: StageName) -> Self {
        match stage {
            StageName::Plan => Self::Plan(PlanParameters::default()),
            StageName::Provision => Self::Provision(ProvisionParameters::default()),
            StageName::Execute => Self::Execute(ExecuteParameters::default()),
            StageName::Record => Self::Record(RecordParameters::default()),
            StageName::Collect => Self::Collect(CollectParameters::default()),
            StageName::Reduce => Self::Reduce(ReduceParameters::default()),
            StageName::Publish => Self::Publish(PublishParameters::default()),
        }
    }

    /// Returns the stage that takes them.
    pub fn stage(&self) -> StageName {
        match self {
            Self::Plan(_) => StageName::Plan,
            Self::Provision(_) => StageName::Provision,
            Self::Execute(_) => StageName::Execute,
            Self::Record(_) => StageName::Record,
            Self::Collect(_) => StageName::Collect,
            Self::Reduce(_) => StageName::Reduce,
            Self::Publish(_) => StageName::Publish,
        }
    }

    /// Returns the JSON object that the stage reads.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Plan(parameters) => serde_json::to_value(parameters),
            Self::Provision(parameters) => serde_json::to_value(parameters),
            Self::Execute(parameters) => serde_json::to_value(parameters),
            Self::Record(parameters) => serde_json::to_value(parameters),
            Self::Collect(parameters) => serde_json::to_value(parameters),
            Self::Reduce(parameters) => serde_json::to_value(parameters),
            Self::Publish(parameters) => serde_json::to_value(parameters),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    /// Returns the text that the driver writes, after checking that the stage reads the same parameters from it.
    fn written<P: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug + Clone>(
        parameters: &P,
        of: fn(P) -> StageParameters,
    ) -> String {
        let text = of(parameters.clone()).to_json().expect("JSON").to_string();
        assert_eq!(serde_json::from_str::<P>(&text).expect("parameters"), *parameters, "{text}");
        text
    }

    #[test]
    fn stages_read_what_the_driver_writes() {
        let trial: TrialId = "w.t.default.one.t0".parse().expect("a trial");
        let execute = ExecuteParameters { block: 2, incarnation: 1, close: true, except: BTreeSet::from([trial]) };
        let (plan, provision) = (StageParameters::Plan, StageParameters::Provision);
        assert_eq!(written(&PlanParameters { fetch: false, ..PlanParameters::default() }, plan), r#"{"fetch":false}"#);
        assert_eq!(
            written(&ProvisionParameters { block: 2, incarnation: 1, shards: false }, provision),
            r#"{"block":2,"incarnation":1}"#
        );
        assert_eq!(
            written(&ProvisionParameters { block: 0, incarnation: 0, shards: true }, provision),
            r#"{"block":0,"incarnation":0,"shards":true}"#
        );
        assert_eq!(
            written(&execute, StageParameters::Execute),
            r#"{"block":2,"close":true,"except":["w.t.default.one.t0"],"incarnation":1}"#
        );
        assert_eq!(
            written(&RecordParameters { block: 2, incarnation: 1, sequence: 3 }, StageParameters::Record),
            r#"{"block":2,"incarnation":1,"sequence":3}"#
        );
        assert_eq!(written(&CollectParameters {}, StageParameters::Collect), "{}");
        assert_eq!(written(&ReduceParameters {}, StageParameters::Reduce), "{}");
        assert_eq!(written(&PublishParameters {}, StageParameters::Publish), "{}");
    }

    fn read<P: DeserializeOwned>(text: &str) -> Result<P, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn members_that_are_missing_have_their_default() {
        assert_eq!(read("{}"), Ok(PlanParameters::default()));
        assert_eq!(read("{}"), Ok(ProvisionParameters { block: 0, incarnation: 0, shards: false }));
        assert_eq!(read("{}"), Ok(ExecuteParameters { block: 0, incarnation: 0, close: false, except: BTreeSet::new() }));
        assert_eq!(read(r#"{"block":4}"#), Ok(RecordParameters { block: 4, incarnation: 0, sequence: 0 }));
        for stage in StageName::ALL {
            assert_eq!(StageParameters::default_for(stage).stage(), stage);
        }
    }

    #[test]
    fn unknown_members_are_refused() {
        let text = r#"{"blok":0}"#;
        assert!(read::<PlanParameters>(text).is_err());
        assert!(read::<ProvisionParameters>(text).is_err());
        assert!(read::<ExecuteParameters>(text).is_err());
        assert!(read::<RecordParameters>(text).is_err());
        assert!(read::<CollectParameters>(text).is_err());
        assert!(read::<ReduceParameters>(text).is_err());
        assert!(read::<PublishParameters>(text).is_err());
    }
}
