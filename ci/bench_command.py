"""What a gate makes of one's own program, in real time: a command of about a second, equal on both sides and then slower by a tenth.

The program is compiled here, and does a fixed amount of work: the same on both sides, or a tenth more on the candidate's.
"""

import json
import subprocess

from bench_gate import BUDGET_PCT, OUTCOMES, PLANTED, SAME, change

PAIRS = 20
# What one invocation is to take, and the most that a decision may.
COMMAND_S = 1.0
BAR_DECIDED_S = 120.0

PROGRAM = """#include <stdio.h>
#include <stdlib.h>
/* Walks through memory that the caches do not hold, so many times. */
int main(int argc, char **argv) {
    long passes = argc > 1 ? atol(argv[1]) * PERCENT / 100 : 0, n = 1 << 20, sum = 0;
    int *numbers = malloc(n * sizeof *numbers);
    if (!numbers) return 1;
    for (long i = 0; i < n; i++) numbers[i] = (int)(i * 2654435761u);
    for (long pass = 0; pass < passes; pass++)
        for (long i = 0; i < n; i++) sum += numbers[(i * 7919) % n] ^ pass;
    printf("%ld\\n", sum);
}
"""

WORKLOAD = """apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: walk}}
spec:
  type: indicator
  command: {{run: [./walk, "{passes}"]}}
"""

PIPELINE = """apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: {name}}}
spec:
  intent: exploratory
  workloads: [walk]
  targets: [{{name: before, kind: host, folder: sut/before}}, {{name: after, kind: host, folder: {after}}}]
  comparison: {{baseline: {{target: before}}, candidate: {{target: after}}, variable_under_test: other, other: the commit}}
  trials: {{count: {pairs}}}
  gates: [{{name: speed, metrics: [cpu_time_ms], budget_pct: {budget}}}]
"""


def command(place, table):
    repo, config = repository(place), place.config(32768)

    def judge(name, run_id, pull):
        took, _ = place.run(repo, config, "assay", "run", f"pipelines/{name}.yaml", "--run-id", run_id)
        arguments = ["gate", run_id, "--pull", str(pull), "--baseline", "main", "--json"]
        judging, code, printed = place.ended(repo, config, list(OUTCOMES), "assay", *arguments)
        verdict = json.loads(printed)[0]["verdict"]
        return took + judging, OUTCOMES[code], {metric["metric"]: metric for metric in verdict["metrics"]}

    same = [judge("same", f"same-{sample}", 100 + sample) for sample in range(SAME)]
    outcomes = [outcome for _, outcome, _ in same]
    table.tell(
        "gate of a command, two equal sides",
        ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in OUTCOMES.values()),
        "none regressed",
        "regressed" not in outcomes,
        f"{SAME} runs of one program on both sides, {PAIRS} pairs of invocations of about {COMMAND_S:.0f} s, judged by its CPU time with a "
        f"budget of {BUDGET_PCT} %",
    )

    took, outcome, metrics = judge("slow", "slow", 1)
    table.tell(
        f"  {PLANTED} x the work, by CPU time",
        f"{outcome}: {shown(metrics['cpu_time_ms'])}",
        "regressed",
        outcome == "regressed",
        f"the candidate does {PLANTED} x the work; exit code 40",
    )
    wall = metrics["wall_time_ms"]
    table.add("  the same by wall time", shown(wall), "", None, "the same pairs; a metric that this gate does not name has no say")
    table.add(
        "  run and verdict",
        f"{took:.0f} s",
        f"{BAR_DECIDED_S:.0f} s",
        took / BAR_DECIDED_S,
        "`assay run` and `assay gate` as a person starts them; what is compared was built before",
    )


def shown(metric):
    """The verdict of a metric, its change, and how many more pairs would tell."""
    more = f", {metric['more_pairs']} more pairs would tell" if metric.get("more_pairs") else ""
    return f"{metric['outcome']}{change(metric)}{more}"


def repository(place):
    """A repository with the program of both sides, built, and a pipeline for each of the two comparisons."""
    repo = place.folder / "command"
    (repo / "workloads/walk").mkdir(parents=True)
    (repo / "pipelines").mkdir()
    source = place.folder / "walk.c"
    source.write_text(PROGRAM)
    for side, percent in {"before": 100, "equal": 100, "after": round(100 * PLANTED)}.items():
        (repo / "sut" / side).mkdir(parents=True)
        subprocess.run(["cc", "-O2", f"-DPERCENT={percent}", "-o", repo / "sut" / side / "walk", source], check=True)
    passes = 10
    took, _ = place.run(repo, place.config(32768), repo / "sut/before/walk", str(passes))
    passes = max(1, round(passes * COMMAND_S / took))
    (repo / "workloads/walk/workload.yaml").write_text(WORKLOAD.format(passes=passes))
    for name, after in {"same": "sut/equal", "slow": "sut/after"}.items():
        text = PIPELINE.format(name=name, after=after, pairs=PAIRS, budget=BUDGET_PCT)
        (repo / f"pipelines/{name}.yaml").write_text(text)
    (repo / ".gitignore").write_text("sut/\n")
    place.commit(repo)
    return repo
