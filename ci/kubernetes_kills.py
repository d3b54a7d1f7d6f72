#!/usr/bin/env python3
"""Kills pods of runs in a cluster, again and again: `ci/kubernetes kills` calls it.

For each seed a run of two shards is started, and at three drawn moments a drawn pod of it is deleted by force: of its driver, of a
stage, of the recorder or of its target. A run may end well, or with a failure that has a name; then the same run id goes on, as a person
would. What counts is that every run ends, that its chain verifies, that nothing is left, and how many needed to be taken up again.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import tempfile
import time

import kubernetes_bench as bench

KILLS = 3
# A run that nobody disturbs takes about half a minute.
SPAN_SECONDS = 35
TRIES = 4
# Much longer than a run whose pods are killed may take.
PATIENCE_SECONDS = 900

WORKLOAD = bench.WORKLOAD.replace("concurrency: [1], requests: 20", "concurrency: [2], duration: 4s")
PIPELINE = bench.PIPELINE.replace("  stages:", "  shards: 2\n  stages:").replace("retry_budget: 20", "retry_budget: 50")


class Kills(bench.Bench):
    def assay_run(self, name):
        """Starts the run, or takes it up."""
        words = ["run", "pipelines/bench.yaml", "--on", "kubernetes", "--namespace", bench.NAMESPACE, "--run-id", name]
        # A pipe that nobody reads would stop it.
        with open(self.folder / "said", "w") as said:
            return subprocess.Popen(
                [str(self.options.programs / "assay"), *words, "--trust", "../trust.yaml"],
                cwd=self.folder / "repo", env=self.environment, stdout=subprocess.DEVNULL, stderr=said,
            )

    def pods(self, name):
        """The pods of a run that are up, with what each is."""
        found = []
        for namespace in (bench.NAMESPACE, f"{bench.NAMESPACE}-targets"):
            listed = json.loads(self.kubectl("-n", namespace, "get", "pods", "-l", f"assay.dev/run={name}", "-o", "json"))
            for pod in listed["items"]:
                if pod["status"].get("phase") in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]:
                    what = pod["metadata"]["labels"].get("assay.dev/stage", "target")
                    found.append((what, namespace, pod["metadata"]["name"]))
        return sorted(found)

    def soak(self, seed):
        drawn = random.Random(seed)
        name = f"kills-{seed}"
        moments = sorted(drawn.uniform(2, SPAN_SECONDS) for _ in range(KILLS))
        begun, killed, failures = time.monotonic(), [], []
        for _ in range(TRIES):
            process, began = self.assay_run(name), time.monotonic()
            while process.poll() is None:
                if time.monotonic() - began > PATIENCE_SECONDS:
                    process.kill()
                    process.wait()
                    break
                if moments and time.monotonic() - begun > moments[0]:
                    pods = self.pods(name)
                    if pods:
                        moments.pop(0)
                        what, namespace, pod = drawn.choice(pods)
                        killed.append(what)
                        self.kubectl("-n", namespace, "delete", "pod", pod, "--grace-period=0", "--force", "--ignore-not-found")
                time.sleep(0.2)
            said = (self.folder / "said").read_text()
            if process.returncode == 0:
                break
            named = re.search(r"^error\[(\w+)\]", said, re.MULTILINE)
            failures.append(named.group(1) if named else f"unnamed {process.returncode}: {said[-2000:]}")
        verified = subprocess.run(
            [str(self.options.programs / "assay"), "verify", name, "--trust", "../trust.yaml"],
            cwd=self.folder / "repo", env=self.environment, capture_output=True, text=True,
        )
        left = self.left(name)
        return {
            "seed": seed, "killed": killed, "failures": failures, "seconds": time.monotonic() - begun,
            "ended": process.returncode == 0, "verified": verified.returncode == 0, "left": left,
        }

    def left(self, name):
        """What is still there of a run a while after its end."""
        for _ in range(60):
            kinds = "pods,jobs,configmaps,services"
            words = [("-n", f"{bench.NAMESPACE}{part}", "get", kinds, "-l", f"assay.dev/run={name}", "-o", "name") for part in ("", "-targets")]
            there = "".join(self.kubectl(*word) for word in words).split()
            if not there:
                break
            time.sleep(0.5)
        return there


def main():
    parser = argparse.ArgumentParser(description="Kills pods of runs in a cluster.")
    parser.add_argument("--programs", required=True, type=pathlib.Path, help="the folder of Assay's programs")
    parser.add_argument("--image", required=True, help="Assay's image, which the nodes have")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    options = parser.parse_args()
    bench.WORKLOAD, bench.PIPELINE = WORKLOAD, PIPELINE
    with tempfile.TemporaryDirectory(prefix="assay-kubernetes-kills-") as folder:
        kills = Kills(options, pathlib.Path(folder))
        try:
            kills.install()
            soaked = []
            for seed in range(options.seed, options.seed + options.runs):
                soaked.append(kills.soak(seed))
                line(soaked[-1])
        finally:
            kills.remove()
    well = [one for one in soaked if one["ended"] and one["verified"] and not one["left"]]
    unnamed = [failure for one in soaked for failure in one["failures"] if failure.startswith("unnamed")]
    taken_up = sum(1 for one in soaked if one["failures"])
    print(f"{len(well)} of {len(soaked)} runs ended, verified and left nothing; {taken_up} had to be taken up again")
    if len(well) < len(soaked) or unnamed:
        raise SystemExit("\n".join(unnamed) or 1)


def line(one):
    state = "ended" if one["ended"] else "NOT ENDED"
    state += ", verified" if one["verified"] else ", NOT VERIFIED"
    if one["left"]:
        state += f", LEFT {' '.join(one['left'])}"
    failures = f"; failed first with {', '.join(one['failures'])}" if one["failures"] else ""
    print(f"seed {one['seed']:<4} {one['seconds']:6.1f} s  killed {', '.join(one['killed']) or 'nothing'}: {state}{failures}", flush=True)


if __name__ == "__main__":
    main()
