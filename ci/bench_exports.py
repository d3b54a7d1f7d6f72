"""Each export of a small run, read by the tool whose format it is.

    python3 ci/bench_exports.py PROGRAMS CACHE

A run on the simulator is exported in every format, and each tool loads its files with its own models, in an environment of its own: `peer-NAME-VERSION` in
CACHE. One line each says what was read, and a number of it beside Assay's. A tool that is not installed is named. Exits with 1 if a tool refuses its files.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

LOADS = ["--concurrency", "1,4", "--rate", "50", "--scenario", "D(100,20)", "--trials", "3", "--requests", "40", "--warmup", "0s"]

# The reader of each format: the environment, and a program whose argument is the folder of the export.
READERS = {
    "benchmark-report": (
        "llmd-benchmark-report-0.2.1",
        """
from llmd_benchmark_report import core
reports = [core.import_benchmark_report(str(path)) for path in sorted(folder.glob("*.json"))]
first = reports[0].results.request_performance.aggregate
print(f"{len(reports)} reports of version {reports[0].version}; TTFT p99 {first.latency.time_to_first_token.p99} ms of {first.requests.total} requests")
""",
    ),
    "aiperf": (
        "aiperf-0.13.0",
        """
from aiperf.common.models.export_models import JsonExportData
from aiperf.common.models.record_models import MetricRecordInfo
summaries = [JsonExportData.model_validate_json(path.read_text()) for path in sorted(folder.glob("*/profile_export_aiperf.json"))]
records = [MetricRecordInfo.model_validate_json(line) for path in folder.glob("*/profile_export.jsonl") for line in path.read_text().splitlines()]
print(f"{len(summaries)} summaries and {len(records)} records; TTFT p99 {summaries[0].time_to_first_token.p99} ms")
""",
    ),
    "genai-bench": (
        "genai-bench-0.0.5",
        """
from genai_bench.analysis.experiment_loader import load_multiple_experiments
experiments = load_multiple_experiments(str(folder))
metadata, runs = sorted(experiments, key=lambda experiment: experiment[0].experiment_folder_name)[0]
scenario = metadata.traffic_scenario[0]
first = runs[scenario][1]["aggregated_metrics"]
print(f"{len(experiments)} experiments, each of the concurrencies {metadata.num_concurrency}; TTFT p99 {first.stats.ttft.p99} s")
""",
    ),
    "guidellm": (
        "guidellm-0.7.3",
        """
from guidellm.benchmark.schemas.report import GenerativeBenchmarksReport
reports = [GenerativeBenchmarksReport.load_file(path) for path in sorted(folder.glob("*/benchmarks.json"))]
first = reports[0].benchmarks[0]
dumped = reports[0].model_dump(mode="json")
print(f"{len(reports)} reports, each of {len(reports[0].benchmarks)} benchmarks; TTFT mean {first.metrics.time_to_first_token_ms.successful.mean} ms")
""",
    ),
    "mlflow": (
        "mlflow-skinny-3.17.2",
        """
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
import mlflow
client = mlflow.MlflowClient(tracking_uri=(folder / "mlruns").absolute().as_uri())
experiments = [experiment.experiment_id for experiment in client.search_experiments() if experiment.name.startswith("assay/")]
runs = client.search_runs(experiments)
first = min(runs, key=lambda run: run.info.run_name)
print(f"{len(runs)} runs; {first.info.run_name}: ttft_ms_p99 {first.data.metrics['ttft_ms_p99']} ms, run {first.data.tags['assay_run_id']}")
""",
    ),
    "openlineage": (
        "openlineage-python-1.54.0",
        """
import json
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
events = [json.loads(line) for line in (folder / "events.ndjson").read_text().splitlines()]
for event in events:
    inputs = [InputDataset(one["namespace"], one["name"]) for one in event["inputs"]]
    outputs = [OutputDataset(one["namespace"], one["name"]) for one in event["outputs"]]
    RunEvent(eventTime=event["eventTime"], producer=event["producer"], eventType=RunState[event["eventType"]],
             run=Run(event["run"]["runId"]), job=Job(event["job"]["namespace"], event["job"]["name"]), inputs=inputs, outputs=outputs)
print(f"{' and '.join(event['eventType'] for event in events)}; {len(events[1]['inputs'])} inputs, {len(events[1]['outputs'])} outputs")
""",
    ),
    # vLLM and LoadGen read no results of their own with models: what their scripts take from the files is read as they do.
    "vllm": (
        None,
        """
import json
documents = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
first = documents[0]
assert len(first["ttfts"]) == len(first["itls"]) == len(first["errors"]) == len(first["input_lens"])
print(f"{len(documents)} documents; TTFT p99 {first['p99_ttft_ms']} ms (no model of the tool: read as JSON)")
""",
    ),
    "loadgen": (
        None,
        """
import json
details = [path.read_text().splitlines() for path in sorted(folder.glob("*/mlperf_log_detail.txt"))]
messages = [json.loads(line.removeprefix(":::MLLOG ")) for line in details[0]]
values = {message["key"]: message["value"] for message in messages}
assert values["result_validity"] == "INVALID" and "assay_requests_failed" in values
assert not any(message["metadata"]["is_error"] for message in messages), "no request failed"
print(f"{len(details)} logs; mean latency {values['result_mean_latency_ns']} ns (no model of the tool: read as JSON)")
""",
    ),
}


def main(programs, cache):
    refused = []
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        environment = {**os.environ, "ASSAY_CONFIG": str(scratch / "config"), "ASSAY_STORE": str(scratch / "store")}

        def assay(*arguments):
            subprocess.run([programs / "assay", *arguments], check=True, cwd=scratch, env=environment, stdout=subprocess.DEVNULL)

        assay("bench", "--simulator", "fast", *LOADS, "--run-id", "exported")
        shown = subprocess.run([programs / "assay", "show", "exported", "--json"], cwd=scratch, env=environment, capture_output=True, check=True)
        first = json.loads(shown.stdout)["results"][0]
        ours = {metric["metric"]: metric["median"] for metric in first["metrics"]}
        print(f"assay: {first['point']}, medians of 3 trials: ttft_ms_p99 {ours['ttft_ms_p99']}, ttft_ms_mean {ours['ttft_ms_mean']}")
        for name, (tool, program) in READERS.items():
            assay("export", "exported", "--format", name, "--to", name)
            python = pathlib.Path(sys.executable) if tool is None else cache / f"peer-{tool}" / "bin" / "python"
            if not python.exists():
                print(f"{name}: {tool} is not installed")
                continue
            command = [python, "-c", f"import pathlib, sys\nfolder = pathlib.Path(sys.argv[1])\n{program}", scratch / name]
            read = subprocess.run(command, capture_output=True, text=True, cwd=scratch)
            if read.returncode != 0:
                refused.append(name)
            said = read.stdout.strip().splitlines() or read.stderr.strip().splitlines()
            print(f"{name}: {'read' if read.returncode == 0 else 'REFUSED'} by {tool or 'a script'}: {said[-1] if said else ''}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2]).absolute()))
