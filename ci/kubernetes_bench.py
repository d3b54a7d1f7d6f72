#!/usr/bin/env python3
"""What a run costs in a cluster, beside what the cluster itself costs: `ci/kubernetes bench` calls it.

A bare Job is one pod of a small static program that ends at once: from the request that creates it to the condition Complete. A
run is one serving trial of 20 requests against the simulator, with everything that a run does: Source, driver, six stages, the
recorder, the target's pod. Stages are timed by the driver. All of it is medians over repetitions of one process, in one cluster.
With `--shards N`, N pods make the load together, with resources so small that they fit on one node.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

NAMESPACE = "assay-bench"
STAGES = ["plan", "provision", "execute", "collect", "reduce", "publish"]

WORKLOAD = """apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: chat}
spec:
  type: serving
  model: simulated-8b
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  batching_policy: continuous
  stack: assay-simulator
  load: {mode: closed, concurrency: [SHARDS], requests: REQUESTS, timeout: 30s}
  lengths: D(20,10)
"""

PIPELINE = """apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {name: bench}
spec:
  workloads: [chat]
  targets: [{name: simulator, kind: simulator, config: {profile: fast}}]
  trials: {count: 1, retry_budget: 20}
  shards: SHARDS
  stages:
    - {name: plan}
    - {name: provision}
    - {name: execute, resources: RESOURCES}
    - {name: collect}
    - {name: reduce}
    - {name: publish}
"""


def main():
    options = parse()
    with tempfile.TemporaryDirectory(prefix="assay-kubernetes-bench-") as folder:
        bench = Bench(options, pathlib.Path(folder))
        try:
            bench.install()
            floors = [bench.bare_job(number) for number in range(options.repeat)]
            runs = [bench.run(number) for number in range(options.repeat)]
        finally:
            bench.remove()
    show(floors, runs)
    show_parts(runs)


def parse():
    parser = argparse.ArgumentParser(description="Measures what a run costs in a cluster.")
    parser.add_argument("--programs", required=True, type=pathlib.Path, help="the folder of Assay's programs")
    parser.add_argument("--image", required=True, help="Assay's image, which the nodes have")
    parser.add_argument("--probe", required=True, help="the image of the bare Job")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shards", type=int, default=1, help="the pods of execute")
    return parser.parse_args()


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.environment = {**os.environ, "ASSAY_CONFIG": str(folder / "config")}

    def kubectl(self, *arguments, given=None):
        command = [os.environ["KUBECTL"], *arguments]
        return subprocess.run(command, input=given, check=True, capture_output=True, text=True).stdout

    def assay(self, *arguments):
        command = [str(self.options.programs / "assay"), *arguments]
        done = subprocess.run(command, cwd=self.folder / "repo", env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} gave {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def install(self):
        repo = self.folder / "repo"
        for path, text in {"workloads/chat/workload.yaml": WORKLOAD, "pipelines/bench.yaml": PIPELINE}.items():
            (repo / path).parent.mkdir(parents=True)
            (repo / path).write_text(self.filled(text))
        git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "bench"]):
            subprocess.run([*git, *words], cwd=repo, check=True)
        trust = self.assay("bootstrap", "--namespace", NAMESPACE, "--image", self.options.image, "--store-size", "1Gi").stdout
        (self.folder / "trust.yaml").write_text(trust)
        store = f"{NAMESPACE}-store"
        self.kubectl("-n", store, "rollout", "status", "deployment/assay-store", "--timeout", "180s")
        template = "{{.data.AWS_SECRET_ACCESS_KEY | base64decode}}"
        secret = self.kubectl("-n", NAMESPACE, "get", "secret", "assay-store-source", "--template", template)
        self.environment |= {"AWS_ACCESS_KEY_ID": "source", "AWS_SECRET_ACCESS_KEY": secret}

    def filled(self, text):
        shards = self.options.shards
        resources = "{cpu: 100m}" if shards == 1 else "{cpu: 10m, memory: 256Mi}"
        return text.replace("SHARDS", str(shards)).replace("REQUESTS", str(20 * shards)).replace("RESOURCES", resources)

    def remove(self):
        spaces = [NAMESPACE, f"{NAMESPACE}-targets", f"{NAMESPACE}-store"]
        self.kubectl("delete", "namespace", "--ignore-not-found", *spaces)

    def bare_job(self, number):
        security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        pod = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "bare", "image": self.options.probe, "args": ["exit", "0"], "securityContext": security}],
        }
        job = {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"bare-{number}"},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        }
        begun = time.monotonic()
        self.kubectl("-n", NAMESPACE, "create", "-f", "-", given=json.dumps(job))
        self.kubectl("-n", NAMESPACE, "wait", "--for=condition=Complete", f"job/bare-{number}", "--timeout=120s")
        return time.monotonic() - begun

    def run(self, number):
        name = f"bench-{number}"
        begun, began_at = time.monotonic(), datetime.datetime.now(datetime.timezone.utc)
        arguments = ["run", "pipelines/bench.yaml", "--on", "kubernetes", "--namespace", NAMESPACE, "--run-id", name]
        process = subprocess.Popen(
            [str(self.options.programs / "assay"), *arguments, "--keep", "--trust", "../trust.yaml"],
            cwd=self.folder / "repo", env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        driver = {"cpu_s": 0.0, "memory_mb": 0.0}
        while process.poll() is None:
            self.watch(name, driver)
            time.sleep(0.5)
        total = time.monotonic() - begun
        said = process.stderr.read()
        if process.returncode:
            raise SystemExit(f"the run gave {process.returncode}:\n{said}")
        stages = {stage: seconds(said, stage) for stage in STAGES}
        log = self.kubectl("-n", NAMESPACE, "logs", f"job/{name}-driver")
        times = json.loads(self.assay("show", name, "--json", "--trust", "../trust.yaml").stdout)["times"]["drivers"][0]
        asked = re.search(r"asked the API server (\d+) times", log)
        return {
            "total": total,
            "first_request": self.first_request(name, began_at),
            "stages": stages,
            "times": times,
            "requests": int(asked.group(1)) if asked else None,
            **driver,
        }

    def watch(self, name, driver):
        """What the kubelet says of the driver's pod. Between two of its readings nothing changes."""
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        for node in nodes:
            path = f"/api/v1/nodes/{node['metadata']['name']}/proxy/stats/summary"
            try:
                summary = json.loads(self.kubectl("get", "--raw", path))
            except subprocess.CalledProcessError:
                continue
            for pod in summary.get("pods", []):
                if not pod["podRef"]["name"].startswith(f"{name}-driver"):
                    continue
                cpu = pod.get("cpu", {}).get("usageCoreNanoSeconds", 0) / 1e9
                memory = pod.get("memory", {}).get("workingSetBytes", 0) / 1e6
                driver["cpu_s"] = max(driver["cpu_s"], cpu)
                driver["memory_mb"] = max(driver["memory_mb"], memory)

    def first_request(self, name, began_at):
        store = self.folder / "repo/.assay"
        pointer = next((store / "runs" / name / "execute").glob("*/accepted/0"))
        digest = json.loads(pointer.read_text())["manifest"].removeprefix("sha256:")
        part = json.loads((store / "blobs/sha256" / digest[:2] / digest).read_text())
        start = part["body"]["attempts"][0]["serving"]["start"]
        at = datetime.datetime.fromisoformat(start[:26].rstrip("Z") + "+00:00")
        return (at - began_at).total_seconds()


UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0}


def seconds(said, stage):
    """How long a stage took, as the driver told it."""
    found = re.search(rf"^  {stage}[ 0-9-]* +([0-9.]+) (ms|s|min)  ", said, re.MULTILINE)
    return float(found.group(1)) * UNITS[found.group(2)] if found else float("nan")


def show(floors, runs):
    floor = statistics.median(floors)
    middle = lambda key: statistics.median(run[key] for run in runs)
    print(f"bare Job, created to Complete      {floor:6.2f} s   (median of {len(floors)}: {', '.join(f'{value:.2f}' for value in floors)})")
    for stage in STAGES:
        took = statistics.median(run["stages"][stage] for run in runs)
        print(f"stage {stage:<10}                   {took:6.2f} s   {took / floor:5.2f} x a bare Job")
    print(f"`assay run` to the first request   {middle('first_request'):6.2f} s   {middle('first_request') / floor:5.2f} x")
    print(f"`assay run` to its end             {middle('total'):6.2f} s   {middle('total') / floor:5.2f} x")
    print(f"the driver: CPU                    {middle('cpu_s'):6.2f} s   at most, as the kubelet reads it")
    print(f"the driver: memory                 {middle('memory_mb'):6.0f} MB")
    print(f"the driver: API requests           {middle('requests'):6.0f}")


def show_parts(runs):
    """Where the time of the driver went, as `assay show --json` states it."""
    parts = ["waiting_ns", "pulling_ns", "starting_ns", "working_ns", "ending_ns"]
    print(f"\n{'the driver, in seconds':<30}" + "".join(f"{part.removesuffix('_ns'):>10}" for part in parts))
    for index, stage in enumerate(runs[0]["times"]["stages"]):
        of_runs = [run["times"]["stages"][index] for run in runs]
        cells = [statistics.median(times.get(part, 0) for times in of_runs) / 1e9 for part in parts]
        print(f"{stage['stage'] + ' ' + stage['label']:<30}" + "".join(f"{cell:10.2f}" for cell in cells))
    between = [run["times"]["total_ns"] - sum(stage.get(part, 0) for stage in run["times"]["stages"] for part in parts) for run in runs]
    print(f"{'between stages':<30}{statistics.median(between) / 1e9:10.2f}")
    print(f"{'all of it':<30}{statistics.median(run['times']['total_ns'] for run in runs) / 1e9:10.2f}")


if __name__ == "__main__":
    main()
