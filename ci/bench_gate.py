"""What a gate makes of slowdowns that are planted, in real time: runs of the simulator under load, each judged as a pull request would be.

The tests plant the same on the simulator's virtual clock, where an outcome is a function of a seed. Here the clock is the machine's, and so
is whatever else it does: this shows what is left of a planted change once it was measured.
"""

import contextlib
import json
import os
import random
import select
import subprocess
import sys

SCALE = float(os.environ.get("ASSAY_BENCH_SCALE", "1"))
# So often are two equal sides measured and judged.
SAME = max(1, round(5 * SCALE))
PAIRS = 8
BUDGET_PCT = 5
PLANTED = 1.1
METRICS = ("ttft_ms_p50", "ttft_ms_p99")
# The exit codes of a gate: passed, regressed, inconclusive.
OUTCOMES = {0: "passed", 40: "regressed", 41: "inconclusive"}

# What is planted in the candidate.
RUNS = {"same": "", "slow": f", slow_factor: {PLANTED}", "tail": ", slow_factor: 1.4, slow_share: 0.03"}
# A co-tenant: so many busy loops for each CPU, that run and rest for so many seconds in turn.
LOOPS = 8
SPELLS_S = (2, 8)

WORKLOAD = """apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: chat}
spec:
  type: serving
  model: simulated
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  batching_policy: continuous
  stack: assay-simulator
  load: {mode: closed, concurrency: [32], duration: 2s, warmup: 300ms, timeout: 10s}
  lengths: D(64,4)
"""

SIMULATOR = "ttft_ms: 50, ttft_jitter_ms: 10, ttft_jitter_sigma: 0.3, itl_ms: 10, itl_jitter_ms: 1"

PIPELINE = """apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: {name}}}
spec:
  intent: exploratory
  workloads: [chat]
  targets:
    - {{name: before, kind: simulator, config: {{{simulator}}}}}
    - {{name: after, kind: simulator, config: {{{simulator}{candidate}}}}}
  comparison:
    baseline: {{target: before}}
    candidate: {{target: after}}
    variable_under_test: runtime_version
  placement: alternate
  trials: {{count: {pairs}}}
  gates:
    - {{name: latency, metrics: [{metrics}], budget_pct: {budget}}}
"""

ACKNOWLEDGEMENT = """apiVersion: assay.dev/v1alpha1
kind: Acknowledgement
metadata: {{name: {name}}}
spec:
  case: chat.after.default
  metric: {metric}
  accepts_pct: 20
  pull_request: 2
  reason: planted
  approver: bench
  expires: "2100-01-01T00:00:00Z"
"""


class Judged:
    """The outcome of a gate, and of each of its metrics: what it was found to be, and the ratio with its interval."""

    def __init__(self, code, printed):
        verdict = json.loads(printed)[0]["verdict"]
        self.outcome = OUTCOMES[code]
        # What a gate does not name is shown by it, and has no say.
        self.metrics = {metric["metric"]: metric for metric in verdict["metrics"] if metric["primary"]}

    def outcomes(self):
        return {name: metric["outcome"] for name, metric in self.metrics.items()}

    def __str__(self):
        told = (f"{name} {metric['outcome']}{change(metric)}" for name, metric in self.metrics.items())
        return f"{self.outcome}: {', '.join(told)}"


def change(metric):
    """The estimated ratio of candidate to baseline, and between what it lies."""
    estimate = metric.get("change")
    if not estimate:
        return ""
    low, high = (f"{estimate[end]:.3f}" if end in estimate else "unbounded" for end in ("low", "high"))
    return f", {estimate['ratio']:.3f} x ({low} .. {high})"


def slowdown(place, table):
    repo, config = repository(place), place.config(32768)

    def run(name, run_id):
        place.run(repo, config, "assay", "run", f"pipelines/{name}.yaml", "--run-id", run_id)

    def judge(run_id, pull):
        arguments = ["gate", run_id, "--pull", str(pull), "--baseline", "main", "--json"]
        _, code, printed = place.ended(repo, config, list(OUTCOMES), "assay", *arguments)
        return Judged(code, printed)

    same = []
    for sample in range(SAME):
        run("same", f"same-{sample}")
        same.append(judge(f"same-{sample}", 100 + sample).outcome)
    counts = {outcome: same.count(outcome) for outcome in OUTCOMES.values()}
    table.tell(
        "gate, two equal sides",
        ", ".join(f"{count} {outcome}" for outcome, count in counts.items()),
        "none regressed",
        counts["regressed"] == 0,
        f"{SAME} runs of two simulators that take turns, {PAIRS} pairs of launches of 2 s with 32 users in real time, judged by "
        f"{' and '.join(METRICS)} with a budget of {BUDGET_PCT} %",
    )

    run("slow", "slow")
    slow = judge("slow", 1)
    table.tell(
        f"  {PLANTED} x slower",
        str(slow),
        "both regressed",
        slow.outcome == "regressed" and set(slow.outcomes().values()) == {"regressed"},
        f"the candidate takes {PLANTED} x as long for everything; exit code 40",
    )

    run("tail", "tail")
    tail = judge("tail", 3)
    table.tell(
        "  a slower tail",
        str(tail),
        "the tail alone regressed",
        tail.outcomes() == {METRICS[0]: "unchanged", METRICS[1]: "regressed"},
        "3 % of the candidate's requests take 1.4 x as long",
    )

    with cotenant():
        run("same", "beside")
    beside = judge("beside", 4)
    table.tell(
        "  a noisy co-tenant",
        str(beside),
        "not regressed",
        beside.outcome != "regressed",
        f"two equal sides beside {LOOPS} busy loops for each CPU, which run and rest for {SPELLS_S[0]} to {SPELLS_S[1]} s in turn",
    )

    # Last, because it changes what is accepted, and with it the commit that decides.
    for metric in METRICS:
        path = repo / f"pipelines/acks/{metric}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(ACKNOWLEDGEMENT.format(metric=metric, name=metric.replace("_", "-")))
    place.commit(repo)
    accepted = judge("slow", 2)
    table.tell(
        "  the slower one, acknowledged",
        str(accepted),
        "passed",
        accepted.outcome == "passed",
        "the run that is slower, judged anew once the target branch has acknowledgements of both metrics",
    )


@contextlib.contextmanager
def cotenant():
    """Somebody else who takes the machine's CPUs now and then."""
    loops = LOOPS * len(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, __file__, str(loops)], stdin=subprocess.PIPE) as busy:
        try:
            yield
        finally:
            busy.stdin.close()
            busy.wait()


def be_busy(loops):
    """Runs that many busy loops, and none, in turn, until standard input ends: also where whoever started this is gone."""
    draws = random.Random(1)
    spin = [sys.executable, "-c", "while True: pass"]
    over = False
    while not over:
        busy = [subprocess.Popen(spin) for _ in range(loops)]
        over = ended_within(draws.uniform(*SPELLS_S))
        for loop in busy:
            loop.kill()
            loop.wait()
        over = over or ended_within(draws.uniform(*SPELLS_S))


def ended_within(seconds):
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def repository(place):
    """A repository with a pipeline for all that is planted."""
    repo = place.folder / "slowdown"
    (repo / "workloads/chat").mkdir(parents=True)
    (repo / "workloads/chat/workload.yaml").write_text(WORKLOAD)
    (repo / "pipelines").mkdir()
    for name, candidate in RUNS.items():
        text = PIPELINE.format(
            name=name, simulator=SIMULATOR, candidate=candidate, pairs=PAIRS, metrics=", ".join(METRICS), budget=BUDGET_PCT
        )
        (repo / f"pipelines/{name}.yaml").write_text(text)
    place.commit(repo)
    return repo


if __name__ == "__main__":
    be_busy(int(sys.argv[1]))
