//! The run that `assay export` writes in the format of another tool, filled from a verified run.

use std::collections::BTreeMap;

use assay_export::{
    ExportFormat, ExportedArrival, ExportedExecution, ExportedInput, ExportedLoad, ExportedRun, ExportedScript, ExportedServing,
    ExportedTable, ExportedTrial, ExportedValue, InputKind, MAX_EXPORTED_OUTPUT, MAX_EXPORTED_REQUESTS, MissingTrial, Needs,
};
use assay_manifest::{
    ArrivalLaw, Artifact, Attempt, CaseId, CollectedTrial, Collection, ConnectionPolicy, Digest, Environment, ExecutionPart,
    FrozenWorkload, HostFacts, LengthLaw, Plan, PlannedTrial, PointId, PointKind, PointSummary, PromptSource, Publication,
    ServingWork, Summary,
};
use assay_record::Record;
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Failure};
use assay_warehouse::records::{RecordError, RecordFile};

use crate::commands::export::{raw_file, raw_records};
use crate::commands::removed::resume_hint;

/// The manifests that an export is made from.
struct Manifests<'a> {
    opened: &'a VerifiedRun,
    plan: &'a Plan,
    trials: BTreeMap<(&'a CaseId, &'a PointId), Vec<CountedTrial<'a>>>,
    collection: &'a Collection,
    parts: BTreeMap<Digest, &'a ExecutionPart>,
    needs: Needs,
}

/// The bytes of outputs that may still be exported.
struct Left {
    bytes: u64,
}

/// The records of the trials that count, which are loaded trial by trial.
pub(crate) struct TrialRecords<'a> {
    opened: &'a VerifiedRun,
    /// The attempts that count, of each shard, by the name of their trial.
    attempts: BTreeMap<String, Vec<&'a Attempt>>,
}

impl TrialRecords<'_> {
    /// Returns the records of the measured requests of a trial, in the order of their schedule.
    ///
    /// # Errors
    /// Fails if they are absent or cannot be read, and if they are too many.
    pub(crate) fn load(&self, trial: &ExportedTrial) -> Result<Vec<Record>, Failure> {
        let mut requests = Vec::new();
        for attempt in self.attempts.get(&trial.trial_id).into_iter().flatten() {
            self.add(attempt, &mut requests)?;
        }
        requests.sort_by_key(|record| record.global_index);
        Ok(requests)
    }

    fn add(&self, attempt: &Attempt, requests: &mut Vec<Record>) -> Result<(), Failure> {
        let Some((name, bytes)) = raw_records(self.opened, attempt)? else { return Ok(()) };
        let unreadable =
            |error: RecordError| Failure::new(ErrorCode::Records, format!("`{name}` cannot be read")).because(&error);
        for record in RecordFile::open(bytes).map_err(unreadable)?.records().map_err(unreadable)? {
            let mut record = record.map_err(unreadable)?;
            if record.phase != assay_record::Phase::Measured {
                continue;
            }
            if requests.len() as u64 >= MAX_EXPORTED_REQUESTS {
                return Err(too_many_requests());
            }
            // Nearly all that a record holds is the times of its token events.
            record.chunks.shrink_to_fit();
            requests.push(record);
        }
        Ok(())
    }
}

impl Left {
    /// Takes the bytes of a script, a file or an output.
    ///
    /// # Errors
    /// Fails if they are more than may be exported.
    fn take(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.bytes = self.bytes.checked_sub(bytes.len() as u64).ok_or_else(too_much_output)?;
        Ok(bytes)
    }
}

/// A trial that counts, as it was planned and as it was collected.
struct CountedTrial<'a> {
    planned: &'a PlannedTrial,
    collected: &'a CollectedTrial,
}

/// Returns the trials that count by case and point, each in the order of the Collection.
fn counted_trials<'a>(plan: &'a Plan, collection: &'a Collection) -> BTreeMap<(&'a CaseId, &'a PointId), Vec<CountedTrial<'a>>> {
    let planned: BTreeMap<_, _> = plan.trials.iter().map(|trial| (&trial.trial_id, trial)).collect();
    let mut trials: BTreeMap<_, Vec<CountedTrial<'_>>> = BTreeMap::new();
    for collected in collection.trials.iter().filter(|trial| trial.counted) {
        if let Some(planned) = planned.get(&collected.trial_id) {
            trials.entry((&planned.case_id, &planned.point_id)).or_default().push(CountedTrial { planned, collected });
        }
    }
    trials
}

/// Fills the run for a format.
///
/// # Errors
/// Fails if the run has no result, and if outputs are needed and absent or too many.
pub(crate) fn exported_run<'a>(
    opened: &'a VerifiedRun,
    format: &ExportFormat,
) -> Result<(ExportedRun, TrialRecords<'a>), Failure> {
    let no_result = || {
        Failure::new(ErrorCode::NotPublished, format!("the run `{}` has no result yet", opened.chain.run_id))
            .hint(resume_hint(opened))
    };
    let (result, summary) = opened.chain.all::<Summary>().next().ok_or_else(no_result)?;
    let summary = &summary.body;
    let plan = &opened.chain.one::<Plan>().ok_or_else(no_result)?.body;
    let collection = &opened.chain.one::<Collection>().ok_or_else(no_result)?.body;
    let manifests = Manifests {
        opened,
        plan,
        trials: counted_trials(plan, collection),
        collection,
        parts: opened.chain.all::<ExecutionPart>().map(|(input, part)| (input.manifest, &part.body)).collect(),
        needs: format.needs,
    };
    let mut left = Left { bytes: MAX_EXPORTED_OUTPUT };
    let loads = summary.points.iter().map(|point| manifests.load(point, &mut left)).collect::<Result<Vec<_>, _>>()?;
    let windows = || opened.chain.all::<ExecutionPart>().flat_map(|(_, part)| &part.body.attempts).map(|attempt| attempt.window);
    let records = TrialRecords { opened, attempts: manifests.serving_attempts() };
    let run = ExportedRun {
        run_id: opened.chain.run_id.to_string(),
        pipeline: plan.pipeline.name.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        result: result.manifest,
        commit: plan.source.commit.clone(),
        grade: opened.chain.one::<Publication>().map(|publication| publication.body.grade.given.as_str().to_owned()),
        has_result: summary.points.iter().any(|point| point.trials_counted > 0),
        start_ns: windows().map(|window| window.start.unix_ns()).min().unwrap_or(0),
        end_ns: windows().map(|window| window.end.unix_ns()).max().unwrap_or(0),
        inputs: inputs(plan),
        tables: tables(summary),
        loads,
    };
    Ok((run, records))
}

fn inputs(plan: &Plan) -> Vec<ExportedInput> {
    let mut inputs = Vec::new();
    let mut add = |kind, name: &str, digest| inputs.push(ExportedInput { kind, name: name.to_owned(), digest });
    for workload in &plan.workloads {
        add(InputKind::Workload, workload.name.as_str(), workload.workload_spec_digest);
        if let Some(dataset) = workload.serving.as_ref().and_then(|work| work.prompts.dataset()) {
            add(InputKind::Dataset, &dataset.file.path, dataset.file.artifact.digest);
        }
    }
    let images = plan.workloads.iter().filter_map(|workload| workload.image.as_ref());
    for image in images.chain(plan.targets.iter().filter_map(|target| target.image.as_ref())) {
        if let Some(digest) = image.digest {
            add(InputKind::Image, &image.reference, digest);
        }
    }
    inputs
}

fn tables(summary: &Summary) -> Vec<ExportedTable> {
    let table = |file: &assay_manifest::CuratedFile| ExportedTable {
        name: file.table.clone(),
        digest: file.artifact.digest,
        rows: file.rows.0,
        bytes: file.artifact.size.0,
    };
    summary.files.iter().map(table).collect()
}

impl<'a> Manifests<'a> {
    fn load(&self, point: &PointSummary, left: &mut Left) -> Result<ExportedLoad, Failure> {
        let [workload, target, _] = point.case_id.names();
        let case = self.plan.case(&point.case_id);
        let work = case.and_then(|case| self.plan.workload(&case.workload));
        let kind = case
            .and_then(|case| case.points.iter().find(|planned| planned.point_id == point.point_id))
            .map(|planned| planned.kind);
        let trials = self.trials.get(&(&point.case_id, &point.point_id)).into_iter().flatten();
        Ok(ExportedLoad {
            case_id: point.case_id.to_string(),
            workload: workload.to_owned(),
            target: target.to_owned(),
            point_id: point.point_id.to_string(),
            value: point.value.clone(),
            workload_spec_digest: point.workload_spec_digest,
            serving: work.and_then(|work| serving(work, kind, &point.value)),
            script: work.map(|work| self.script(work, point, left)).transpose()?.flatten(),
            trials_planned: point.trials_planned,
            missing: self.missing(point),
            trials: trials.map(|trial| self.trial(trial, point, left)).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the planned trials of a point that do not count.
    fn missing(&self, point: &PointSummary) -> Vec<MissingTrial> {
        let planned = self.plan.trials.iter().filter(|trial| trial.case_id == point.case_id && trial.point_id == point.point_id);
        let missing = planned.filter_map(|planned| {
            let collected = self.collection.trials.iter().find(|collected| collected.trial_id == planned.trial_id);
            let attempts = collected.filter(|collected| !collected.counted).map(|collected| &collected.attempts)?;
            let reasons = attempts.iter().rev().filter_map(|attempt| {
                let found = self.parts.get(&attempt.part)?.find_attempt(&planned.trial_id, attempt.attempt)?;
                found.validity.reasons.first().map(|reason| reason.code.clone())
            });
            Some(MissingTrial { index: planned.index, reason: reasons.into_iter().next() })
        });
        let mut missing: Vec<MissingTrial> = missing.collect();
        missing.sort_by_key(|trial| trial.index);
        missing
    }

    fn trial(
        &self,
        &CountedTrial { planned, collected }: &CountedTrial<'_>,
        point: &PointSummary,
        left: &mut Left,
    ) -> Result<ExportedTrial, Failure> {
        let attempts = self.counted_attempts(collected);
        let starts = attempts.iter().map(|attempt| match &attempt.serving {
            Some(serving) => serving.start.unix_ns(),
            None => attempt.window.start.unix_ns(),
        });
        let mut exported = ExportedTrial {
            trial_id: planned.trial_id.to_string(),
            index: planned.index,
            start_ns: starts.min().unwrap_or(0),
            end_ns: attempts.iter().map(|attempt| attempt.window.end.unix_ns()).max().unwrap_or(0),
            outcomes: outcomes(&attempts),
            values: values(collected, point),
            requests: Vec::new(),
            execution: None,
        };
        if let Some(attempt) = attempts.first().filter(|_| self.needs == Needs::Outputs) {
            exported.execution = self.execution(attempt, point, left)?;
        }
        Ok(exported)
    }

    /// Returns the script of an indicator, for a format that needs it.
    fn script(&self, work: &FrozenWorkload, point: &PointSummary, left: &mut Left) -> Result<Option<ExportedScript>, Failure> {
        let indicator = work.indicator.as_ref().filter(|_| self.needs == Needs::Outputs);
        let Some((indicator, script)) = indicator.and_then(|work| Some((work, work.script.as_ref()?))) else { return Ok(None) };
        let mut read = |artifact: &Artifact| left.take(raw_file(self.opened, artifact)?);
        let files = indicator.files.iter().map(|file| Ok((file.path.clone(), read(&file.artifact)?)));
        let files = files.collect::<Result<_, Failure>>()?;
        Ok(Some(ExportedScript {
            files,
            bytes: read(&script.artifact)?,
            environment: indicator
                .parameters
                .iter()
                .chain(&point.value)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            image: work.image.as_ref().map(assay_cluster::by_digest),
        }))
    }

    /// Returns the execution of a script; `None` if the attempt ran none.
    fn execution(&self, attempt: &Attempt, point: &PointSummary, left: &mut Left) -> Result<Option<ExportedExecution>, Failure> {
        let Some(outcome) = attempt.indicator.as_ref().filter(|outcome| outcome.script_sha256.is_some()) else { return Ok(None) };
        let mut read = |output: &str| match attempt.output(output) {
            Some(artifact) => left.take(raw_file(self.opened, artifact)?),
            None => Ok(Vec::new()),
        };
        Ok(Some(ExportedExecution {
            stdout: read("stdout")?,
            stderr: read("stderr")?,
            exit_code: outcome.exit_code,
            script_sha256: outcome.script_sha256,
            pod: attempt.place.as_ref().map(|place| place.pod.clone()),
            usage: outcome.usage,
            host: self.host(point),
        }))
    }

    /// Returns the facts about the machine of a target, as the first block found it.
    fn host(&self, point: &PointSummary) -> Option<HostFacts> {
        let [_, target, _] = point.case_id.names();
        let mut environments = self.opened.chain.all::<Environment>().map(|(_, environment)| &environment.body);
        environments.find_map(|environment| {
            let provisioned = environment.targets.iter().find(|known| known.id.as_str() == target)?;
            let host = environment.hosts.iter().find(|host| provisioned.hosts.contains(&host.name))?;
            Some(host.facts.clone())
        })
    }

    /// Returns the attempts of serving that count, by the name of their trial.
    fn serving_attempts(&self) -> BTreeMap<String, Vec<&'a Attempt>> {
        let of = |trial: &CountedTrial<'_>| {
            let attempts = self.counted_attempts(trial.collected).into_iter().filter(|attempt| attempt.serving.is_some());
            (trial.planned.trial_id.to_string(), attempts.collect())
        };
        self.trials.values().flatten().map(of).collect()
    }

    /// Returns the attempt that counts, of each shard.
    fn counted_attempts(&self, trial: &CollectedTrial) -> Vec<&'a Attempt> {
        let counted = trial.attempts.iter().filter(|attempt| attempt.counted);
        counted.filter_map(|attempt| self.parts.get(&attempt.part)?.find_attempt(&trial.trial_id, attempt.attempt)).collect()
    }
}

fn too_many_requests() -> Failure {
    Failure::new(ErrorCode::ExportFormat, format!("a trial of the run has more than {MAX_EXPORTED_REQUESTS} measured requests"))
        .hint("`assay export --records` copies the records of any number of requests")
}

fn too_much_output() -> Failure {
    let most = MAX_EXPORTED_OUTPUT >> 20;
    Failure::new(ErrorCode::ExportFormat, format!("the scripts of the run and their outputs are larger than {most} MiB"))
        .hint("`assay logs RUN --trial TRIAL` prints the outputs of one trial")
}

fn outcomes(attempts: &[&Attempt]) -> BTreeMap<String, u64> {
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in attempts.iter().filter_map(|attempt| attempt.serving.as_ref()).flat_map(|serving| &serving.outcomes) {
        *outcomes.entry(name.clone()).or_default() += count.0;
    }
    outcomes
}

fn values(trial: &CollectedTrial, point: &PointSummary) -> Vec<ExportedValue> {
    let of_metric = |metric: &assay_manifest::MetricSummary| {
        let value = metric.trials.iter().find(|value| value.trial_id == trial.trial_id)?.value;
        Some(ExportedValue { metric: metric.metric.clone(), unit: metric.unit.clone(), value })
    };
    point.metrics.iter().filter_map(of_metric).collect()
}

fn serving(workload: &FrozenWorkload, kind: Option<PointKind>, value: &BTreeMap<String, String>) -> Option<ExportedServing> {
    let work = workload.serving.as_ref()?;
    let capabilities = work.api.capabilities();
    Some(ExportedServing {
        model: work.model.clone(),
        api: work.api.as_str().to_owned(),
        is_streamed: work.is_streamed(),
        arrival: arrival(work, kind, value),
        max_concurrency: work.max_concurrency.map(|cap| cap.0),
        opens_connections: work.connections == ConnectionPolicy::Never,
        is_synthetic: work.prompts.dataset().is_none(),
        input_tokens: input_tokens(work),
        output_tokens: work.output.as_ref().filter(|_| capabilities.has_output_tokens).and_then(fixed),
    })
}

/// Returns the rule by which requests are sent, as other tools have it.
fn arrival(work: &ServingWork, kind: Option<PointKind>, value: &BTreeMap<String, String>) -> ExportedArrival {
    if work.sessions.is_some() || work.rate_profile.is_some() {
        return ExportedArrival::Other;
    }
    let rate = || value.get("rate").and_then(|rate| rate.parse::<f64>().ok()).filter(|rate| rate.is_finite() && *rate > 0.0);
    let concurrency = || value.get("concurrency").and_then(|concurrency| concurrency.parse().ok());
    let known = match (work.arrival, kind) {
        (ArrivalLaw::Closed, Some(PointKind::Concurrency)) => concurrency().map(ExportedArrival::Concurrency),
        (ArrivalLaw::Constant, Some(PointKind::Rate)) => rate().map(ExportedArrival::Constant),
        (ArrivalLaw::Poisson, Some(PointKind::Rate)) => rate().map(ExportedArrival::Poisson),
        (ArrivalLaw::Gamma { smoothness }, Some(PointKind::Rate)) => {
            rate().map(|rate| ExportedArrival::Gamma { rate, smoothness })
        }
        _ => None,
    };
    known.unwrap_or(ExportedArrival::Other)
}

/// Returns the tokens of each prompt, if all have equally many.
fn input_tokens(work: &ServingWork) -> Option<u32> {
    match &work.prompts {
        PromptSource::Synthetic { input, prefix, .. } if work.documents() == 1 => {
            fixed(input).map(|tokens| tokens.saturating_add(prefix.map_or(0, |prefix| prefix.tokens())))
        }
        _ => None,
    }
}

fn fixed(law: &LengthLaw) -> Option<u32> {
    match law {
        LengthLaw::Fixed { tokens } => Some(*tokens),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_lengths_are_one_number() {
        assert_eq!((fixed(&LengthLaw::Fixed { tokens: 7 }), fixed(&LengthLaw::Uniform { min: 7, max: 7 })), (Some(7), None));
    }
}
