//! The Plan that results from a Source's files. The plan stage resolves mutable references and plans with them; verify plans
//! again with the pins that the signed Plan records, so that a Plan holds nothing but what files and pins determine.

mod definitions;
mod image_files;
mod import_check;
mod imports;
mod packs;
mod queries;
mod recorded_pins;
mod serving;

use std::collections::BTreeMap;

use assay_failure::{ErrorCode, Failure};
use assay_manifest::{
    Artifact, ClientCertificateSource, Control, ControlFact, ControlState, Count, Dataset, Digest, FrozenWorkload, Image,
    IndicatorWork, Metric, Name, PinnedFile, PinnedSearch, PipelineRef, Plan, PrepareCommand, PythonStack, QueryPack, RunId,
    Source, SourceFile, SourceRef, Target, TargetTls, TrialOrder, TrialPolicy, UnpinnedInput, Variant,
};
use assay_schedule::{OrderRules, order_digest, order_seed, order_trials};
use assay_spec::{Closure, ClosureError, ControlRequirement, Parameter, Program, Script, Work, Workload, expand, read_closure};

use crate::packs::plan_telemetry;

pub use definitions::{DefinitionCheck, check_definitions};
pub use import_check::{CHECK_IMPORT, CheckedImport, ImportReply, MAX_COUNTED_TEXT};
pub use imports::check_imports;
pub use packs::{built_in_pack, prometheus_source};
pub use queries::{check_query, query_failure, row_id_column, run_query};
pub use recorded_pins::{RecordedPins, check_plan};
pub use serving::{
    DatasetFile, DatasetRequest, DrawnPrompts, TemplateSource, TokenizerSource, check_imported_connections, check_replays,
    with_dataset_request,
};

/// The resolved values of all mutable references in a pipeline.
pub trait Pins {
    /// Returns the bytes at a script's URL, as a file of the workload; `None` if they are unavailable, which leaves the script
    /// unpinned.
    fn script(&mut self, workload: &Name, url: &str) -> Result<Option<PinnedFile>, Failure>;

    /// Returns an image with the digest of its reference; without a digest if it is unavailable, which leaves the image unpinned.
    fn image(&mut self, reference: &str) -> Result<Image, Failure>;

    /// Records that a file names an image without a digest: the system that runs it decides which image it is.
    fn leave_unpinned(&mut self, image: &str, reason: String);

    /// Returns the query pack of Assay of this name, for the telemetry source `source`.
    fn query_pack(&mut self, source: &Name, pack: &Name) -> Result<QueryPack, Failure>;

    /// Returns name and digest of the built-in tokenizer.
    fn built_in_tokenizer(&mut self) -> (String, Digest);

    /// Imports a dataset; `None` if its bytes are unavailable, which leaves it unpinned.
    fn dataset(&mut self, request: &DatasetRequest<'_>) -> Result<Option<Dataset>, Failure>;

    /// Returns the tokens of a tokenizer's chat template, 0 without one. Refuses a tokenizer or template that execute cannot read.
    fn check_tokenizer(&mut self, tokenizer: &TokenizerSource<'_>) -> Result<u32, Failure>;

    /// Returns the search result of a digest, which a workload names, as artifacts of the Plan.
    fn search_result(&mut self, workload: &Name, digest: &Digest) -> Result<PinnedSearch, Failure>;

    /// Takes the list of inputs that could not be pinned.
    fn take_unpinned(&mut self) -> Vec<UnpinnedInput>;

    /// Records the images that a Kubernetes object of a file names without a digest.
    fn record_images(&mut self, path: &str, object: &serde_json::Value) {
        match object {
            serde_json::Value::Object(members) => {
                for (name, value) in members {
                    let containers = value.as_array().filter(|_| matches!(name.as_str(), "containers" | "initContainers"));
                    for image in containers.into_iter().flatten().filter_map(|container| container["image"].as_str()) {
                        if !image.contains("@sha256:") {
                            let reason = format!("`{path}` names it without a digest, and the cluster decides which it is");
                            self.leave_unpinned(image, reason);
                        }
                    }
                    self.record_images(path, value);
                }
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.record_images(path, item)),
            _ => {}
        }
    }
}

/// The files of a Source with their bytes, which were checked against their digests.
pub struct SourceFiles<'a> {
    source: &'a Source,
    bytes: BTreeMap<&'a str, Vec<u8>>,
}

/// A Plan, and the frozen workloads that it names.
#[derive(Clone, Debug)]
pub struct DerivedPlan {
    /// The Plan.
    pub plan: Plan,
    /// The frozen `spec` of each workload, in the Plan's order.
    pub specs: Vec<Vec<u8>>,
}

impl<'a> SourceFiles<'a> {
    /// Loads the files of a Source, each with `read`.
    pub fn load(source: &'a Source, mut read: impl FnMut(&Artifact) -> Result<Vec<u8>, Failure>) -> Result<Self, Failure> {
        let bytes = source.files.iter().map(|file| Ok((file.path.as_str(), read(&file.artifact)?)));
        Ok(Self { source, bytes: bytes.collect::<Result<_, Failure>>()? })
    }

    /// The bytes of a file; empty if the Source does not hold the path.
    pub fn bytes(&self, path: &str) -> &[u8] {
        self.bytes.get(path).map(Vec::as_slice).unwrap_or_default()
    }

    /// Parses the definitions.
    pub fn closure(&self) -> Result<Closure, Failure> {
        let mut read = |path: &str| Ok::<_, std::convert::Infallible>(self.bytes.get(path).cloned());
        read_closure(&self.source.pipeline, &mut read).map_err(|error| match error {
            ClosureError::Problems(problems) => Failure::invalid(&problems),
            ClosureError::Read { path, .. } => Failure::new(ErrorCode::Internal, format!("cannot read `{path}`")),
        })
    }

    fn file(&self, path: &str) -> Result<&'a SourceFile, Failure> {
        let missing = || Failure::new(ErrorCode::FileMissing, format!("the source does not hold `{path}`"));
        self.source.file(path).ok_or_else(missing)
    }

    /// A file of a workload's folder, with the bytes of the Source.
    fn pin_file(&self, workload: &Name, path: &str) -> Result<PinnedFile, Failure> {
        let origin = format!("{}/{path}", Workload::folder_of(workload));
        let file = self.file(&origin)?;
        let artifact = Artifact { name: format!("workloads/{workload}/files/{path}"), ..file.artifact.clone() };
        Ok(PinnedFile { path: path.to_owned(), origin, executable: file.executable, artifact })
    }

    fn pin_query(&self, path: &str) -> Result<PinnedFile, Failure> {
        let artifact = Artifact { name: format!("queries/{path}"), ..self.file(path)?.artifact.clone() };
        Ok(PinnedFile { path: path.to_owned(), origin: path.to_owned(), executable: false, artifact })
    }
}

/// Derives the Plan of the run `run_id` from the definitions of a Source and these pins.
pub fn derive_plan(
    files: &SourceFiles<'_>,
    closure: &Closure,
    run_id: &RunId,
    pins: &mut dyn Pins,
) -> Result<DerivedPlan, Failure> {
    let (source, spec) = (files.source, &closure.pipeline.spec);
    let frozen = closure.workloads.iter().map(|workload| freeze(files, pins, closure, workload));
    let (workloads, specs): (Vec<_>, Vec<_>) = frozen.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let targets = spec.targets.iter().map(|target| plan_target(pins, files, target)).collect::<Result<_, _>>()?;
    let mut cases = expand(&closure.pipeline, &closure.workloads).map_err(|problems| Failure::invalid(&problems))?;
    serving::pin_load(&mut cases, &workloads)?;
    let digests = workloads.iter().map(|workload| workload.workload_spec_digest);
    let seed = order_seed(spec.trials.order_seed.as_deref(), run_id, digests)
        .map_err(|error| Failure::from_error(ErrorCode::OrderSeed, &error))?;
    let rules = OrderRules {
        trials: spec.trials.count,
        comparison: spec.comparison.as_ref(),
        placement: spec.placement,
        isolation: spec.isolation,
    };
    let trials = order_trials(&cases, &rules, &seed).map_err(|error| Failure::from_error(ErrorCode::Order, &error))?;
    let plan = Plan {
        pipeline: PipelineRef {
            name: closure.pipeline.name.clone(),
            path: source.pipeline.clone(),
            digest: files.file(&source.pipeline)?.artifact.digest,
            owner: closure.pipeline.owner.clone(),
            labels: closure.pipeline.labels.clone(),
        },
        source: SourceRef {
            kind: source.kind,
            repository: source.repository.clone(),
            commit: source.commit.clone(),
            dirty: source.dirty,
            files_digest: source.files_digest,
        },
        intent: spec.intent,
        claim: spec.claim.clone(),
        controls: controls(&spec.controls),
        pricing: spec.pricing.clone(),
        workloads,
        targets,
        variants: spec.variants.iter().map(|variant| plan_variant(files, variant)).collect::<Result<_, _>>()?,
        telemetry: spec.telemetry.iter().map(|source| plan_telemetry(files, pins, source)).collect::<Result<_, _>>()?,
        cases,
        trial_policy: TrialPolicy {
            count: spec.trials.count,
            retry_budget: spec.trials.retry_budget,
            rebuilds: spec.trials.rebuilds,
            validity: Some(spec.trials.validity.clone()),
        },
        isolation: spec.isolation,
        placement: spec.placement,
        comparison: spec.comparison.clone(),
        load_cpus: spec.load_cpus.clone(),
        order: TrialOrder { seed: seed.to_string(), digest: order_digest(&trials) },
        trials,
        unpinned: pins.take_unpinned(),
        queries: spec.publish.queries.iter().map(|path| files.pin_query(path)).collect::<Result<_, _>>()?,
    };
    Ok(DerivedPlan { plan, specs })
}

/// Freezes a workload, with all its mutable references pinned.
fn freeze(
    files: &SourceFiles<'_>,
    pins: &mut dyn Pins,
    closure: &Closure,
    workload: &Workload,
) -> Result<(FrozenWorkload, Vec<u8>), Failure> {
    let mut pinned = closure.workload_pins(workload);
    let parts = workload.mutable_parts();
    let mut fetched = None;
    let dataset = match &workload.spec.work {
        Work::Serving(serving) => {
            with_dataset_request(files, &workload.name, serving, |request| pins.dataset(request))?.flatten()
        }
        Work::Indicator(_) | Work::Training(_) => None,
    };
    if let (Some(url), Some(dataset)) = (&parts.dataset_url, &dataset) {
        pinned.contents.insert(url.clone(), dataset.file.artifact.digest);
    }
    if let Some(url) = &parts.url {
        fetched = pins.script(&workload.name, url)?;
        pinned.contents.extend(fetched.iter().map(|file| (url.clone(), file.artifact.digest)));
    }
    let image = parts.image.as_deref().map(|reference| pins.image(reference)).transpose()?;
    pinned.images.extend(image.iter().filter_map(|image| Some((image.reference.clone(), image.digest?))));
    let frozen = workload.freeze(&pinned).map_err(|error| Failure::from_error(ErrorCode::Freeze, &error))?;
    let indicator = match &workload.spec.work {
        Work::Indicator(executable) => indicator(files, workload, executable, fetched)?,
        Work::Serving(_) | Work::Training(_) => None,
    };
    let serving = match &workload.spec.work {
        Work::Serving(serving) => serving::build_work(files, pins, workload, serving, dataset)?,
        Work::Indicator(_) | Work::Training(_) => None,
    };
    let search = match &workload.spec.work {
        Work::Serving(serving) => serving.load.search,
        Work::Indicator(_) | Work::Training(_) => None,
    };
    let search = search.map(|digest| pins.search_result(&workload.name, &digest)).transpose()?;
    let spec = Artifact {
        name: format!("workloads/{}/spec.json", workload.name),
        digest: frozen.digest,
        size: Count(frozen.bytes.len() as u64),
        media_type: "application/json".to_owned(),
    };
    let workload = FrozenWorkload {
        name: workload.name.clone(),
        owner: workload.owner.clone(),
        labels: workload.labels.clone(),
        workload_type: workload.workload_type(),
        workload_spec_digest: frozen.digest,
        spec,
        seed: frozen.seed,
        metrics: workload.spec.metrics.iter().map(metric).collect(),
        dimensions: workload.spec.dimensions.declared(),
        image,
        indicator,
        serving,
        search,
    };
    Ok((workload, frozen.bytes))
}

fn metric(metric: &assay_spec::Metric) -> Metric {
    Metric { path: metric.path.clone(), unit: metric.unit.clone(), better: metric.better, primary: metric.primary }
}

/// The program that execute runs; `None` if its script is unavailable.
fn indicator(
    files: &SourceFiles<'_>,
    workload: &Workload,
    executable: &assay_spec::Executable,
    fetched: Option<PinnedFile>,
) -> Result<Option<IndicatorWork>, Failure> {
    let (script, command) = match &executable.program {
        Program::Script(Script::Path { path, .. }) => (Some(files.pin_file(&workload.name, path)?), None),
        Program::Script(Script::Url { .. }) => (fetched, None),
        Program::Command(command) => (None, Some(command.clone())),
    };
    if script.is_none() && command.is_none() {
        return Ok(None);
    }
    let beside = workload.spec.files.iter().map(|path| files.pin_file(&workload.name, path)).collect::<Result<_, _>>()?;
    let constants = executable.parameters.iter().filter_map(|(name, parameter)| match parameter {
        Parameter::Constant(value) => Some((name.clone(), value.clone())),
        Parameter::Axis(_) => None,
    });
    let prepare = executable.prepare.as_ref().map(|prepare| PrepareCommand {
        command: prepare.command.clone(),
        outputs: prepare.outputs.clone(),
        time_limit_ns: nanoseconds(prepare.time_limit),
    });
    Ok(Some(IndicatorWork {
        script,
        output: executable.output,
        command,
        files: beside,
        parameters: constants.collect(),
        prepare,
        time_limit_ns: nanoseconds(workload.spec.time_limit),
    }))
}

pub(crate) fn nanoseconds(duration: std::time::Duration) -> Count {
    Count(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The pinned objects of a target. Images that they name without a digest stay unpinned: the cluster resolves them.
fn objects(pins: &mut dyn Pins, files: &SourceFiles<'_>, target: &assay_spec::Target) -> Result<Vec<PinnedFile>, Failure> {
    let pinned = |path: &String| {
        let objects = assay_spec::parse_objects(path, files.bytes(path)).map_err(|problems| Failure::invalid(&problems))?;
        for object in &objects {
            pins.record_images(path, object);
        }
        let artifact = Artifact { name: format!("targets/{}/{path}", target.name), ..files.file(path)?.artifact.clone() };
        Ok(PinnedFile { path: path.clone(), origin: path.clone(), executable: false, artifact })
    };
    target.objects.iter().map(pinned).collect()
}

fn plan_variant(files: &SourceFiles<'_>, variant: &assay_spec::Variant) -> Result<Variant, Failure> {
    let python = variant.python.as_ref().map(|python| plan_python(files, &variant.name, python)).transpose()?;
    Ok(Variant { name: variant.name.clone(), env: variant.env.clone(), python })
}

/// The packages of a variant, with the bytes of its lock file in the Source.
fn plan_python(files: &SourceFiles<'_>, variant: &Name, python: &assay_spec::PythonStack) -> Result<PythonStack, Failure> {
    let path = &python.lock;
    let locked = assay_spec::parse_lock(path, files.bytes(path)).map_err(|problems| Failure::invalid(&problems))?;
    let artifact = Artifact { name: format!("variants/{variant}/{path}"), ..files.file(path)?.artifact.clone() };
    Ok(PythonStack {
        lock: PinnedFile { path: path.clone(), origin: path.clone(), executable: false, artifact },
        packages: locked.into_iter().map(|locked| locked.package).collect(),
        installer: python.installer,
        interpreter: python.interpreter.clone(),
    })
}

fn plan_target(pins: &mut dyn Pins, files: &SourceFiles<'_>, target: &assay_spec::Target) -> Result<Target, Failure> {
    Ok(Target {
        name: target.name.clone(),
        kind: target.kind,
        url: target.url.clone(),
        command: target.command.clone(),
        env: target.env.clone(),
        headers: target.headers.iter().map(|(name, value)| value.to_env_var(name)).collect(),
        insecure_skip_tls_verify: target.insecure_skip_tls_verify,
        tls: target.tls.as_ref().map(plan_tls),
        replicas: target.replicas.clone(),
        objects: objects(pins, files, target)?,
        inference_service: target.inference_service.clone(),
        config: target.config.clone(),
        ready_http: target.ready.http.clone(),
        ready_timeout_ns: nanoseconds(target.ready.timeout),
        image: target.image.as_deref().map(|reference| pins.image(reference)).transpose()?,
        hardware: target.hardware.clone(),
        software: target.software.clone(),
        place: target.place.clone(),
        cpus: target.cpus.clone(),
        folder: target.folder.clone(),
        working_directory: target.working_directory.clone(),
        artifacts: target.artifacts.clone(),
    })
}

/// Returns the certificates of a definition as a plan has them.
pub fn plan_tls(tls: &assay_spec::TargetTls) -> TargetTls {
    let client = |client: &assay_spec::ClientCertificate| ClientCertificateSource {
        cert: client.cert.to_env_var("cert"),
        key: client.key.to_env_var("key"),
    };
    TargetTls { ca: tls.ca.as_ref().map(|ca| ca.to_env_var("ca")), client: tls.client.as_ref().map(client) }
}

/// The environment controls as the pipeline declares them; a required proof is absent until provision.
fn controls(asked: &[(Control, ControlRequirement)]) -> Vec<ControlFact> {
    let fact = |(control, ask): &(Control, ControlRequirement)| {
        let (state, evidence) = match ask {
            ControlRequirement::Declared(text) => (ControlState::Declared, text.clone()),
            ControlRequirement::Required => {
                (ControlState::Absent, "required by the pipeline: to be proved on the target".to_owned())
            }
            ControlRequirement::Absent => (ControlState::Absent, "neither required nor declared".to_owned()),
        };
        ControlFact { control: *control, state, evidence }
    };
    asked.iter().map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_to_be_proved_is_absent_until_it_is() {
        let asked = [
            (Control::DedicatedNodes, ControlRequirement::Declared("a rack of its own".to_owned())),
            (Control::LockedClocks, ControlRequirement::Required),
            (Control::FixedTopology, ControlRequirement::Absent),
        ];
        let facts: Vec<_> = controls(&asked).into_iter().map(|fact| (fact.control, fact.state, fact.evidence)).collect();
        let absent = ControlState::Absent;
        assert_eq!(facts[0], (Control::DedicatedNodes, ControlState::Declared, "a rack of its own".to_owned()));
        assert_eq!(facts[1], (Control::LockedClocks, absent, "required by the pipeline: to be proved on the target".to_owned()));
        assert_eq!(facts[2], (Control::FixedTopology, absent, "neither required nor declared".to_owned()));
    }

    #[test]
    fn a_file_that_the_source_lacks_is_named() {
        let source = serde_json::json!({
            "kind": "adhoc", "dirty": true, "objects": [], "pipeline": "p.yaml", "files": [],
            "files_digest": assay_manifest::Digest::compute(b""),
        });
        let source: Source = serde_json::from_value(source).expect("a source");
        let workload = "w".parse().expect("a name");
        let files = SourceFiles::load(&source, |_| Ok(Vec::new())).expect("no files");
        insta::assert_snapshot!(files.pin_file(&workload, "run.sh").expect_err("absent"), @"error[file_missing]: the source does not hold `workloads/w/run.sh`");
        insta::assert_snapshot!(files.pin_query("q.sql").expect_err("absent"), @"error[file_missing]: the source does not hold `q.sql`");
    }

    #[test]
    fn the_longest_time_fits() {
        assert_eq!(nanoseconds(std::time::Duration::from_millis(1)), Count(1_000_000));
        assert_eq!(nanoseconds(std::time::Duration::MAX), Count(u64::MAX));
    }
}
