//! OpenLineage: the events START and COMPLETE (or FAIL) of a run, one on each line.

use assay_manifest::Instant;
use serde_json::{Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, left_out, same};
use crate::names::uuid;
use crate::output::Output;
use crate::run::{ExportedInput, ExportedRun, ExportedTable};

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "openlineage",
    tool: "OpenLineage",
    version: "2-0-2, by its JSON Schema",
    files: "`events.ndjson`: one event on each line, as the HTTP API takes them",
    loads: "all",
    needs: Needs::Manifests,
    fields: FIELDS,
    write,
};

const FIELDS: &[ExportField] = &[
    same("eventType", "`START`, then `COMPLETE` if at least one trial counts, else `FAIL`"),
    same("eventTime", "the start of the first attempt, and the end of the last one"),
    same("producer", "Assay, with its version"),
    same("schemaURL", "the schema of the event"),
    same("run.runId", "a UUID that follows from the run's name and the digest of its result"),
    same("run.facets.processing_engine.{}", "Assay, with its version"),
    same("run.facets.assay_run.{}", "the run, the digest of its result, its grade, its commit and the version of Assay"),
    same("job.namespace", "`assay`"),
    same("job.name", "the pipeline"),
    same("job.facets.jobType.{}", "a batch of Assay"),
    same("inputs[].namespace", "`assay`"),
    same("inputs[].name", "the kind and the name of the input: workloads, images, files of prompts"),
    same("inputs[].facets.version.{}", "the digest of the input"),
    same("outputs[].namespace", "`assay`"),
    same("outputs[].name", "the table"),
    same("outputs[].facets.version.{}", "the digest of the curated file"),
    same("outputs[].outputFacets.outputStatistics.{}", "the rows and the bytes of the curated file"),
    left_out("run.facets.parent", "a run of Assay is part of no other job"),
    left_out("run.facets.environmentVariables", "variables may hold secrets"),
    left_out("run.facets.errorMessage", "`assay show` has the reasons"),
    left_out("job.facets.sourceCodeLocation", "the address of a repository may be private; the facet `assay_run` has the commit"),
    left_out("outputs[].facets.schema", "`docs/tables.md` has the columns"),
];

const SCHEMA: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    let end = if run.has_result { "COMPLETE" } else { "FAIL" };
    let events = [event(run, "START", run.start_ns, &[]), event(run, end, run.end_ns, &run.tables)];
    out.json_lines("events.ndjson", events)
}

fn event(run: &ExportedRun, kind: &str, at_ns: i64, tables: &[ExportedTable]) -> Value {
    json!({
        "eventType": kind,
        "eventTime": Instant::from_unix_ns(at_ns).to_string(),
        "producer": producer(run),
        "schemaURL": SCHEMA,
        "run": {"runId": uuid(&[&run.run_id, &run.result.to_string()]), "facets": {
            "processing_engine": facet(run, "1-1-1/ProcessingEngineRunFacet", json!({"name": "assay", "version": run.version})),
            "assay_run": assay_facet(run),
        }},
        "job": {"namespace": "assay", "name": run.pipeline, "facets": {"jobType": facet(run, "2-0-4/JobTypeJobFacet", json!({
            "processingType": "BATCH", "integration": "ASSAY", "jobType": "BENCHMARK",
        }))}},
        "inputs": run.inputs.iter().map(|input| input_dataset(run, input)).collect::<Vec<_>>(),
        "outputs": tables.iter().map(|table| output_dataset(run, table)).collect::<Vec<_>>(),
    })
}

fn producer(run: &ExportedRun) -> String {
    format!("https://assay.dev/export/{}", run.version)
}

/// Returns a facet of the standard, by its file and name.
fn facet(run: &ExportedRun, path: &str, members: Value) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    with_origin(run, &format!("https://openlineage.io/spec/facets/{path}.json#/$defs/{name}"), members)
}

fn with_origin(run: &ExportedRun, schema: &str, mut members: Value) -> Value {
    members["_producer"] = json!(producer(run));
    members["_schemaURL"] = json!(schema);
    members
}

fn assay_facet(run: &ExportedRun) -> Value {
    let mut members = json!({"runId": run.run_id, "resultDigest": run.result.to_string(), "version": run.version});
    for (name, value) in [("grade", &run.grade), ("commit", &run.commit)] {
        if let Some(value) = value {
            members[name] = json!(value);
        }
    }
    with_origin(run, "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet", members)
}

fn version_facet(run: &ExportedRun, digest: String) -> Value {
    facet(run, "1-0-1/DatasetVersionDatasetFacet", json!({"datasetVersion": digest}))
}

fn input_dataset(run: &ExportedRun, input: &ExportedInput) -> Value {
    json!({
        "namespace": "assay",
        "name": format!("{}/{}", input.kind.as_str(), input.name),
        "facets": {"version": version_facet(run, input.digest.to_string())},
    })
}

fn output_dataset(run: &ExportedRun, table: &ExportedTable) -> Value {
    let statistics = json!({"rowCount": table.rows, "size": table.bytes, "fileCount": 1});
    json!({
        "namespace": "assay",
        "name": table.name,
        "facets": {"version": version_facet(run, table.digest.to_string())},
        "outputFacets": {"outputStatistics": facet(run, "1-0-2/OutputStatisticsOutputDatasetFacet", statistics)},
    })
}
