//! The workloads and the pipeline that an import writes, while they are being filled in.

use std::collections::BTreeSet;

use assay_spec::API_VERSION;
use serde_json::json;

use crate::definition::ImportedFile;
use crate::value::slug;
use crate::yaml::{Comments, Node, comment, write};

/// The longest name of a workload or pipeline.
const MAX_NAME: usize = 40;
/// The stages of a pipeline, in their order.
const STAGES: [&str; 6] = ["plan", "provision", "execute", "collect", "reduce", "publish"];
/// The minutes of load of one run above which its limits are raised: they are 24 h by default, and a run has more to do.
const LONG_RUN_MINUTES: u64 = 16 * 60;
/// The longest time that a definition can state: 30 days.
const MAX_HOURS: u64 = 30 * 24;

/// A field and its value.
pub(crate) type Member = (String, Node);

/// Definitions that are being filled in.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    name: String,
    pub(crate) model: Option<String>,
    /// The inference server; `None` if it is not known.
    pub(crate) stack: Option<String>,
    /// The grade that the definition demands, as an intent.
    pub(crate) grade: Option<&'static str>,
    /// The intent of the pipeline; exploratory if it is `None`.
    pub(crate) intent: Option<&'static str>,
    /// Dimensions of all workloads, in place of what is not known.
    pub(crate) dimensions: Vec<Member>,
    /// Environment controls that have to be proved.
    pub(crate) controls: Vec<Member>,
    /// Targets that are complete, in front of the one that is being filled in.
    pub(crate) sides: Vec<Vec<Member>>,
    /// Labels of the pipeline.
    pub(crate) labels: Vec<Member>,
    /// The members of the target, without its name; empty if there is none.
    pub(crate) target: Vec<Member>,
    /// Declared facts about the target.
    pub(crate) facts: Vec<Member>,
    /// Headers of the target.
    pub(crate) headers: Vec<Member>,
    /// Further members of the pipeline's `spec`.
    pub(crate) pipeline: Vec<Member>,
    /// Overrides of the execute stage, which makes the load.
    pub(crate) execute: Vec<Member>,
    /// Pod settings of the execute stage.
    pub(crate) pod: Vec<Member>,
    /// Members of `load` that all workloads have, after its mode and its axis.
    pub(crate) load: Vec<Member>,
    /// Members that all workloads have.
    pub(crate) workload: Vec<Member>,
    /// The workloads.
    pub(crate) cells: Vec<Cell>,
    /// An indicator in their place.
    pub(crate) indicator: Option<IndicatorDraft>,
    /// Minutes of load of each point, if they are limited by time.
    pub(crate) minutes: Option<u64>,
    /// Sentences about fields that have no place in the definitions.
    pub(crate) not_carried: Vec<String>,
    /// The store that results go to, as `--store` takes it.
    pub(crate) store: Option<String>,
}

/// A workload of its own.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    /// The end of its name; empty for the only one.
    pub(crate) suffix: String,
    /// Its number of points.
    pub(crate) points: u64,
    /// Minutes of load of each point, in place of those of all workloads.
    pub(crate) minutes: Option<u64>,
    /// The mode of `load` and its axis.
    pub(crate) load: Vec<Member>,
    /// Its other members.
    pub(crate) members: Vec<Member>,
}

/// A workload of type `indicator`, and its files.
#[derive(Debug, Default)]
pub(crate) struct IndicatorDraft {
    /// The members of its `spec` behind the type.
    pub(crate) members: Vec<Member>,
    /// The files beside it: path and text.
    pub(crate) files: Vec<(String, String)>,
}

/// Returns a member.
pub(crate) fn member(name: &str, value: impl Into<Node>) -> Member {
    (name.to_owned(), value.into())
}

impl Draft {
    /// Sets the name, and returns it as Assay writes it.
    pub(crate) fn set_name(&mut self, text: &str) -> String {
        self.name = slug(text, MAX_NAME);
        self.name.clone()
    }

    fn base(&self) -> &str {
        if self.name.is_empty() { "imported" } else { &self.name }
    }

    /// Returns the path of the pipeline.
    pub(crate) fn pipeline_path(&self) -> String {
        format!("pipelines/{}.yaml", self.base())
    }

    /// Completes the target that is being filled in, as a side of a comparison, and begins another.
    pub(crate) fn finish_side(&mut self, name: &str) {
        let target = self.named_target(name);
        self.sides.push(target);
        self.target.clear();
        self.facts.clear();
        self.headers.clear();
    }

    fn named_target(&self, name: &str) -> Vec<Member> {
        let mut target = vec![member("name", name)];
        target.extend(clone_members(&self.target));
        target.extend(clone_members(&self.facts));
        if !self.headers.is_empty() {
            target.push(member("headers", Node::Map(clone_members(&self.headers))));
        }
        target
    }

    /// Returns the folder of the only workload.
    pub(crate) fn workload_folder(&self) -> String {
        format!("workloads/{}", self.base())
    }

    /// Returns true if the parts without which there are no definitions are there: a target, and a model with a load or an indicator.
    pub(crate) fn is_complete(&self) -> bool {
        let has_load = self.model.is_some() && !self.cells.is_empty();
        !self.target.is_empty() && (has_load || self.indicator.is_some())
    }

    /// Returns the files: the workloads with the files beside them, then the pipeline.
    pub(crate) fn files(&self, title: &str, comments: &mut Comments) -> Vec<ImportedFile> {
        let (names, workloads) = match &self.indicator {
            Some(indicator) => (vec![self.base().to_owned()], self.indicator_files(indicator, title, comments)),
            None => (self.workload_names(), self.serving_files(title, comments)),
        };
        comments.begin(None);
        let body = write("pipeline", &self.pipeline_members(&names), comments);
        let mut text = self.head(title);
        let rest = comments.rest();
        for line in rest.iter().chain(&self.not_carried) {
            text.push_str("#\n");
            text.push_str(&comment(line, 0));
        }
        workloads.into_iter().chain([ImportedFile { path: self.pipeline_path(), text: text + &body }]).collect()
    }

    fn serving_files(&self, title: &str, comments: &mut Comments) -> Vec<ImportedFile> {
        let names = self.workload_names();
        let file = |(name, cell): (&String, &Cell)| {
            comments.begin(Some(&cell.suffix));
            let text = self.head(title) + &write("workload", &self.workload_members(name, cell), comments);
            ImportedFile { path: format!("workloads/{name}/workload.yaml"), text }
        };
        names.iter().zip(&self.cells).map(file).collect()
    }

    fn indicator_files(&self, indicator: &IndicatorDraft, title: &str, comments: &mut Comments) -> Vec<ImportedFile> {
        let folder = self.workload_folder();
        let spec = [vec![member("type", "indicator")], clone_members(&indicator.members)].concat();
        let members = definition("Workload", vec![member("name", self.base())], spec);
        let text = self.head(title) + &write("workload", &members, comments);
        let workload = ImportedFile { path: format!("{folder}/workload.yaml"), text };
        let beside = |(path, text): &(String, String)| ImportedFile { path: format!("{folder}/{path}"), text: text.clone() };
        [workload].into_iter().chain(indicator.files.iter().map(beside)).collect()
    }

    /// Returns the comment at the beginning of a definition.
    fn head(&self, title: &str) -> String {
        let rest = match self.indicator {
            Some(_) => "It does not state which values of the result are metrics: declare them as `metrics` of the workload.",
            None => "`unknown` stands for what it does not state: write what you know.",
        };
        comment(&format!("Imported from {title} by `assay import`. {rest}"), 0)
    }

    /// Returns a name for each workload, all different and short enough.
    fn workload_names(&self) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let mut names = Vec::new();
        for (index, cell) in self.cells.iter().enumerate() {
            let with = |suffix: &str| {
                let suffix = slug(suffix, MAX_NAME - 2);
                let base = slug(self.base(), MAX_NAME - 1 - suffix.len());
                if suffix.is_empty() { slug(self.base(), MAX_NAME) } else { slug(&format!("{base}-{suffix}"), MAX_NAME) }
            };
            let mut name = with(&cell.suffix);
            if taken.contains(&name) {
                name = with(&format!("{}-{}", index + 1, cell.suffix));
            }
            taken.insert(name.clone());
            names.push(name);
        }
        names
    }

    fn minutes_of(&self, cell: &Cell) -> Option<u64> {
        cell.minutes.or(self.minutes)
    }

    /// Returns a dimension, or what is written if the definition does not state it.
    fn dimension(&self, name: &str, otherwise: &str) -> Member {
        self.dimensions.iter().find(|(known, _)| known == name).cloned().unwrap_or_else(|| member(name, otherwise))
    }

    fn workload_members(&self, name: &str, cell: &Cell) -> Vec<Member> {
        let mut load: Vec<Member> = clone_members(&cell.load);
        load.extend(clone_members(&self.load));
        let mut spec = vec![
            member("type", "serving"),
            member("model", self.model.clone().unwrap_or_default()),
            self.dimension("precision", "unknown"),
            self.dimension("protocol", "openai_compatible_http"),
            self.dimension("deployment_model", "unknown"),
            self.dimension("batching_policy", "unknown"),
            member("stack", self.stack.clone().unwrap_or_else(|| "unknown".to_owned())),
            member("load", Node::Map(load)),
        ];
        spec.extend(clone_members(&cell.members));
        spec.extend(clone_members(&self.workload));
        if let Some(minutes) = self.minutes_of(cell).filter(|minutes| *minutes >= 20) {
            spec.push(member("time_limit", format!("{}m", minutes.saturating_add(15))));
        }
        definition("Workload", vec![member("name", name)], spec)
    }

    fn pipeline_members(&self, names: &[String]) -> Vec<Member> {
        let mut metadata = vec![member("name", self.base())];
        if !self.labels.is_empty() {
            metadata.push(member("labels", Node::Map(clone_members(&self.labels))));
        }
        let only = if self.indicator.is_some() { "local" } else { "endpoint" };
        let last = self.named_target(if self.sides.is_empty() { only } else { "candidate" });
        let targets = self.sides.iter().cloned().chain([last]).map(Node::Map).collect();
        let mut spec = vec![
            member("intent", self.intent.unwrap_or("exploratory")),
            member("workloads", json!(names)),
            member("targets", Node::List(targets)),
        ];
        spec.extend(clone_members(&self.pipeline));
        spec.extend(self.long_run_members());
        definition("Pipeline", metadata, spec)
    }

    /// Returns the stages, if one has overrides, and the limit of the run, if it is a long one.
    fn long_run_members(&self) -> Vec<Member> {
        let minutes_of = |cell: &Cell| self.minutes_of(cell).unwrap_or(0).saturating_mul(cell.points);
        let minutes = self.cells.iter().map(minutes_of).fold(0_u64, u64::saturating_add);
        let hours = (minutes > LONG_RUN_MINUTES).then(|| (minutes / 40 + 1).min(MAX_HOURS));
        let mut execute = clone_members(&self.execute);
        if !self.pod.is_empty() {
            execute.push(member("pod", Node::Map(clone_members(&self.pod))));
        }
        execute.extend(hours.map(|hours| member("timeout", format!("{hours}h"))));
        let mut members = Vec::new();
        if !execute.is_empty() {
            let stage = |name: &&'static str| {
                let mut stage = vec![member("name", *name)];
                if *name == "execute" {
                    stage.extend(clone_members(&execute));
                }
                Node::Map(stage)
            };
            members.push(member("stages", Node::List(STAGES.iter().map(stage).collect())));
        }
        members.extend(hours.map(|hours| member("time_limit", format!("{hours}h"))));
        members
    }
}

fn clone_members(members: &[Member]) -> Vec<Member> {
    members.to_vec()
}

fn definition(kind: &str, metadata: Vec<Member>, spec: Vec<Member>) -> Vec<Member> {
    vec![
        member("apiVersion", API_VERSION),
        member("kind", kind),
        member("metadata", Node::Map(metadata)),
        member("spec", Node::Map(spec)),
    ]
}
