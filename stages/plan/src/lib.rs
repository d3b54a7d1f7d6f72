//! Plan: from the Source's files to frozen workloads and ordered trials, with everything mutable pinned.

mod fetch;
mod image;
mod pin;
mod serving;

use std::collections::BTreeMap;

use assay_git::{OfflineFile, Oid, RawObject, check_offline};
use assay_manifest::{
    Control, ControlFact, ControlState, Count, FrozenWorkload, IndicatorWork, MAX_MANIFEST_BYTES, Metric, Name, OriginKind,
    PinnedFile, PipelineRef, Plan, Prepare, Source, SourceFile, SourceRef, Target, TrialOrder, TrialPolicy, Variant,
};
use assay_schedule::{OrderRules, order_digest, order_seed, order_trials};
use assay_spec::{Closure, ClosureError, ControlAsk, Parameter, Work, Workload, closure, expand};
use assay_stage::{Context, Exit, Failure, Inputs, Stage, StageName};
use serde::{Deserialize, Serialize};

use crate::pin::Pinner;

/// The largest file of a Source that is read back.
const MAX_FILE_BYTES: u64 = assay_spec::MAX_FILE_BYTES as u64;

/// What the plan stage may reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// Whether anything may be fetched. Plans of pull requests that nobody has read yet fetch nothing that their author chose.
    pub fetch: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { fetch: true }
    }
}

/// The plan stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planner;

impl Stage for Planner {
    type Parameters = Parameters;
    type Output = Plan;
    const NAME: StageName = StageName::Plan;

    fn run(&self, inputs: &Inputs, parameters: &Parameters, ctx: &Context) -> Result<Plan, Failure> {
        let source = &inputs.one::<Source>()?.body;
        let files = Files::load(ctx, source)?;
        files.check_commit(ctx, source)?;
        let closure = files.closure(source)?;
        let spec = &closure.pipeline.spec;

        let mut pinner = Pinner::new(ctx, parameters.fetch, &spec.fetch_allow);
        let workloads = closure.workloads.iter().map(|workload| freeze(ctx, &mut pinner, source, &closure, workload));
        let workloads = workloads.collect::<Result<Vec<_>, _>>()?;
        let targets = spec.targets.iter().map(|target| plan_target(&mut pinner, &files, target)).collect::<Result<_, _>>()?;
        let mut cases = expand(&closure.pipeline, &closure.workloads).map_err(|problems| Failure::invalid(&problems))?;
        serving::pin_load(&mut cases, &workloads)?;
        let digests = workloads.iter().map(|workload| workload.workload_spec_digest);
        let seed = order_seed(spec.trials.order_seed.as_deref(), digests)
            .map_err(|error| Failure::of(Exit::Definition, "order_seed", &error))?;
        let rules = OrderRules {
            trials: spec.trials.count,
            comparison: spec.comparison.as_ref(),
            placement: spec.placement,
            isolation: spec.isolation,
        };
        let trials = order_trials(&cases, &rules, &seed).map_err(|error| Failure::of(Exit::Definition, "order", &error))?;
        ctx.check_cancelled()?;
        Ok(Plan {
            pipeline: PipelineRef {
                name: closure.pipeline.name.clone(),
                path: source.pipeline.clone(),
                digest: files.file(&source.pipeline)?.artifact.digest,
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
            variants: spec
                .variants
                .iter()
                .map(|variant| Variant { name: variant.name.clone(), env: variant.env.clone() })
                .collect(),
            cases,
            trial_policy: TrialPolicy { count: spec.trials.count, retry_budget: spec.trials.retry_budget },
            isolation: spec.isolation,
            placement: spec.placement,
            comparison: spec.comparison.clone(),
            load_cpus: spec.load_cpus.clone(),
            order: TrialOrder { seed: seed.to_string(), digest: order_digest(&trials) },
            trials,
            unpinned: pinner.into_unpinned(),
            queries: checked_queries(&files, &spec.publish.queries)?,
        })
    }
}

/// The Source's files, read and checked.
struct Files<'a> {
    source: &'a Source,
    bytes: BTreeMap<&'a str, Vec<u8>>,
}

impl<'a> Files<'a> {
    fn load(ctx: &Context, source: &'a Source) -> Result<Self, Failure> {
        let read = |file: &'a SourceFile| Ok((file.path.as_str(), ctx.get(&file.artifact, MAX_FILE_BYTES)?));
        let bytes = source.files.iter().map(read).collect::<Result<_, Failure>>()?;
        if Source::digest_of_files(&source.files) != source.files_digest {
            return Err(Failure::verification("files_digest", "the source's files are not those of its digest"));
        }
        Ok(Self { source, bytes })
    }

    /// Shows that the files are the commit's: commit, trees and blobs are hashed anew, and no remote is asked.
    fn check_commit(&self, ctx: &Context, source: &Source) -> Result<(), Failure> {
        if source.kind != OriginKind::Git {
            return Ok(());
        }
        let not_shown = |error: &(dyn std::error::Error + 'static)| Failure::of(Exit::Verification, "commit", error);
        let unnamed = || Failure::verification("commit", "the source is of a commit, but does not name it");
        let commit: Oid = source.commit.as_deref().ok_or_else(unnamed)?.parse().map_err(|error| not_shown(&error))?;
        let objects = source.objects.iter().map(|object| {
            let bytes = ctx.get(&object.artifact, MAX_MANIFEST_BYTES)?;
            Ok(RawObject { oid: object.oid.parse().map_err(|error| not_shown(&error))?, kind: object.kind, bytes })
        });
        let objects = objects.collect::<Result<Vec<_>, Failure>>()?;
        let files = source.files.iter().map(|file| {
            let unread = || Failure::unexpected("source", format!("`{}` was not read", file.path));
            let bytes = self.bytes.get(file.path.as_str()).ok_or_else(unread)?;
            Ok(OfflineFile { path: &file.path, executable: file.executable, bytes })
        });
        let files = files.collect::<Result<Vec<_>, Failure>>()?;
        check_offline(commit, &objects, &files).map_err(|error| not_shown(&error))?;
        Ok(())
    }

    fn closure(&self, source: &Source) -> Result<Closure, Failure> {
        let mut read = |path: &str| Ok::<_, std::convert::Infallible>(self.bytes.get(path).cloned());
        closure(&source.pipeline, &mut read).map_err(|error| match error {
            ClosureError::Problems(problems) => Failure::invalid(&problems),
            ClosureError::Read { path, .. } => Failure::unexpected("closure", format!("cannot read `{path}`")),
        })
    }

    fn file(&self, path: &str) -> Result<&'a SourceFile, Failure> {
        file_of(self.source, path)
    }
}

fn file_of<'a>(source: &'a Source, path: &str) -> Result<&'a SourceFile, Failure> {
    source.file(path).ok_or_else(|| Failure::definition("file_missing", format!("the source does not hold `{path}`")))
}

/// One workload with everything mutable in it pinned.
fn freeze(
    ctx: &Context,
    pinner: &mut Pinner<'_>,
    source: &Source,
    closure: &Closure,
    workload: &Workload,
) -> Result<FrozenWorkload, Failure> {
    let mut pins = closure.pins_of(workload);
    let parts = workload.mutable_parts();
    let mut fetched = None;
    if let Some(url) = &parts.url {
        fetched = pinner.script(&workload.name, url)?;
        pins.contents.extend(fetched.iter().map(|file| (url.clone(), file.artifact.digest)));
    }
    let image = parts.image.as_deref().map(|reference| pinner.image(reference)).transpose()?;
    pins.images.extend(image.iter().filter_map(|image| Some((image.reference.clone(), image.digest?))));
    let frozen = workload.freeze(&pins).map_err(|error| Failure::of(Exit::Definition, "freeze", &error))?;
    let indicator = match &workload.spec.work {
        Work::Indicator(executable) => indicator(source, workload, executable, fetched)?,
        Work::Serving(_) | Work::Training(_) => None,
    };
    let serving = match &workload.spec.work {
        Work::Serving(serving) => Some(serving::work(ctx, source, workload, serving)?),
        Work::Indicator(_) | Work::Training(_) => None,
    };
    Ok(FrozenWorkload {
        name: workload.name.clone(),
        workload_type: workload.workload_type(),
        workload_spec_digest: frozen.digest,
        spec: ctx.put(format!("workloads/{}/spec.json", workload.name), "application/json", &frozen.bytes)?,
        seed: frozen.seed,
        metrics: workload.spec.metrics.iter().map(metric).collect(),
        dimensions: workload.spec.dimensions.declared(),
        image,
        indicator,
        serving,
    })
}

fn metric(metric: &assay_spec::Metric) -> Metric {
    Metric { path: metric.path.clone(), unit: metric.unit.clone(), better: metric.better, primary: metric.primary }
}

/// What execute runs; absent where the script could not be had.
fn indicator(
    source: &Source,
    workload: &Workload,
    executable: &assay_spec::Executable,
    fetched: Option<PinnedFile>,
) -> Result<Option<IndicatorWork>, Failure> {
    let script = match &executable.script {
        assay_spec::Script::Path { path, .. } => Some(pinned(source, &workload.name, path)?),
        assay_spec::Script::Url { .. } => fetched,
    };
    let Some(script) = script else { return Ok(None) };
    let files = workload.spec.files.iter().map(|path| pinned(source, &workload.name, path)).collect::<Result<_, _>>()?;
    let constants = executable.parameters.iter().filter_map(|(name, parameter)| match parameter {
        Parameter::Constant(value) => Some((name.clone(), value.clone())),
        Parameter::Axis(_) => None,
    });
    let prepare = executable.prepare.as_ref().map(|prepare| Prepare {
        command: prepare.command.clone(),
        outputs: prepare.outputs.clone(),
        time_limit_ns: nanoseconds(prepare.time_limit),
    });
    Ok(Some(IndicatorWork {
        script,
        files,
        parameters: constants.collect(),
        prepare,
        time_limit_ns: nanoseconds(workload.spec.time_limit),
    }))
}

fn nanoseconds(duration: std::time::Duration) -> Count {
    Count(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A file of a workload's folder, as the Source holds it.
fn pinned(source: &Source, workload: &Name, path: &str) -> Result<PinnedFile, Failure> {
    let origin = format!("{}/{path}", Workload::folder_of(workload));
    let file = file_of(source, &origin)?;
    let mut artifact = file.artifact.clone();
    artifact.name = format!("workloads/{workload}/files/{path}");
    Ok(PinnedFile { path: path.to_owned(), origin, executable: file.executable, artifact })
}

/// The pinned queries. One that cannot be published is found here, and not when everything has been measured.
fn checked_queries(files: &Files<'_>, paths: &[String]) -> Result<Vec<PinnedFile>, Failure> {
    for path in paths {
        let text = files.bytes.get(path.as_str()).map(Vec::as_slice).unwrap_or_default();
        assay_verify::check_query(path, text)?;
    }
    queries(files.source, paths)
}

fn queries(source: &Source, paths: &[String]) -> Result<Vec<PinnedFile>, Failure> {
    let query = |path: &String| {
        let file = file_of(source, path)?;
        let mut artifact = file.artifact.clone();
        artifact.name = format!("queries/{path}");
        Ok(PinnedFile { path: path.clone(), origin: path.clone(), executable: false, artifact })
    };
    paths.iter().map(query).collect()
}

/// The pinned objects of a target. Images that they name without a digest are pinned by nobody: the cluster resolves them.
fn objects(pinner: &mut Pinner<'_>, files: &Files<'_>, target: &assay_spec::Target) -> Result<Vec<PinnedFile>, Failure> {
    let pinned = |path: &String| {
        let text = files.bytes.get(path.as_str()).map(Vec::as_slice).unwrap_or_default();
        let objects = assay_spec::objects(path, text).map_err(|problems| Failure::invalid(&problems))?;
        for object in &objects {
            pinner.images_of(path, object);
        }
        let mut artifact = files.file(path)?.artifact.clone();
        artifact.name = format!("targets/{}/{path}", target.name);
        Ok(PinnedFile { path: path.clone(), origin: path.clone(), executable: false, artifact })
    };
    target.objects.iter().map(pinned).collect()
}

fn plan_target(pinner: &mut Pinner<'_>, files: &Files<'_>, target: &assay_spec::Target) -> Result<Target, Failure> {
    Ok(Target {
        name: target.name.clone(),
        kind: target.kind,
        url: target.url.clone(),
        command: target.command.clone(),
        env: target.env.clone(),
        headers: target.headers.iter().map(|(name, secret)| secret.named(name)).collect(),
        objects: objects(pinner, files, target)?,
        inference_service: target.inference_service.clone(),
        config: target.config.clone(),
        ready_http: target.ready.http.clone(),
        ready_timeout_ns: nanoseconds(target.ready.timeout),
        image: target.image.as_deref().map(|reference| pinner.image(reference)).transpose()?,
        hardware: target.hardware.clone(),
        cpus: target.cpus.clone(),
        artifacts: target.artifacts.clone(),
    })
}

/// What the pipeline says of the environment controls; what has to be proved is not known before provision.
fn controls(asked: &[(Control, ControlAsk)]) -> Vec<ControlFact> {
    let fact = |(control, ask): &(Control, ControlAsk)| {
        let (state, evidence) = match ask {
            ControlAsk::Declared(text) => (ControlState::Declared, text.clone()),
            ControlAsk::Required => (ControlState::Absent, "required by the pipeline: to be proved on the target".to_owned()),
            ControlAsk::Absent => (ControlState::Absent, "neither required nor declared".to_owned()),
        };
        ControlFact { control: *control, state, evidence }
    };
    asked.iter().map(fact).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_fetches_unless_it_is_told_not_to() {
        let read = |text| serde_json::from_str::<Parameters>(text).expect("parameters");
        assert_eq!(read("{}"), Parameters { fetch: true });
        assert_eq!(read(r#"{"fetch":false}"#), Parameters { fetch: false });
        assert!(serde_json::from_str::<Parameters>(r#"{"fetsh":false}"#).is_err(), "a slip of the pen is not a permission");
    }

    #[test]
    fn what_has_to_be_proved_is_absent_until_it_is() {
        let asked = [
            (Control::DedicatedNodes, ControlAsk::Declared("a rack of its own".to_owned())),
            (Control::LockedClocks, ControlAsk::Required),
            (Control::FixedTopology, ControlAsk::Absent),
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
            "files_digest": assay_manifest::Digest::of(b""),
        });
        let source: Source = serde_json::from_value(source).expect("a source");
        let workload = "w".parse().expect("a name");
        insta::assert_snapshot!(pinned(&source, &workload, "run.sh").expect_err("absent"), @"error[file_missing]: the source does not hold `workloads/w/run.sh`");
        insta::assert_snapshot!(queries(&source, &["q.sql".to_owned()]).expect_err("absent"), @"error[file_missing]: the source does not hold `q.sql`");
    }

    #[test]
    fn the_longest_time_fits() {
        assert_eq!(nanoseconds(std::time::Duration::from_millis(1)), Count(1_000_000));
        assert_eq!(nanoseconds(std::time::Duration::MAX), Count(u64::MAX));
    }
}
