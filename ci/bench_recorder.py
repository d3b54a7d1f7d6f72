"""What the recorder of telemetry costs: pairs of runs of the same load, one with the recorder and one without, in an order that alternates.

    python3 ci/bench_recorder.py PROGRAMS [PAIRS [SECONDS]]

Without the recorder means: its process is stopped (`SIGSTOP`) once execute has begun, and goes on (`SIGCONT`) once execute has ended. So no option of Assay turns it
off, and a run without its readings says so: each such run has to have the issue `recording_gaps`, or the bench ends. The share of a core is the mean of the host
metric `recorder_cpu_us` of the runs with it. Of each metric of the load, the estimate is the mean over pairs of the logarithm of the ratio with/without, with an
interval of Student's t; all intervals together hold with 95 % (Bonferroni). A metric has moved if its interval does not hold 1.
"""

import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from bench_streams import family  # noqa: E402

PAIRS, SECONDS, CONCURRENCY = 20, 20, 8
MODEL, TTFT_MS, ITL_MS = "steady", 20, 5
METRICS = ["ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "e2e_ms_p50", "e2e_ms_p99", "output_tokens_per_s"]
LEVEL = 0.95
# The exit code of a command whose signers no trust policy establishes: this bench has none.
NOT_ESTABLISHED = 21
# The names of processes, as the kernel cuts them off.
RECORDER, EXECUTE = "assay-collect", "assay-execute"


def student_cdf(t, freedom):
    """The probability that Student's t is at most `t`, by Simpson's rule over its density."""
    if t < 0:
        return 1 - student_cdf(-t, freedom)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    steps = 2000
    width = t / steps
    weights = [1 if place in (0, steps) else 4 if place % 2 else 2 for place in range(steps + 1)]
    density = [scale * (1 + (place * width) ** 2 / freedom) ** (-(freedom + 1) / 2) for place in range(steps + 1)]
    return 0.5 + width / 3 * sum(weight * value for weight, value in zip(weights, density))


def student_quantile(share, freedom):
    """The value that Student's t does not exceed with this probability, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def paired_ratio(pairs, tests):
    """The ratio with/without over pairs, and its interval, of which `tests` hold together."""
    logs = [math.log(one / other) for one, other in pairs]
    mean = statistics.mean(logs)
    half = student_quantile(1 - (1 - LEVEL) / (2 * tests), len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return tuple(math.exp(value) for value in (mean, mean - half, mean + half))


def simulator(programs, log):
    """A simulator whose latencies are constant: what varies is the client's and the machine's."""
    command = [programs / "assay-simulator", "--listen", "127.0.0.1:0", "--model", MODEL, "--ttft-ms", str(TTFT_MS), "--itl-ms", str(ITL_MS), "--max-num-seqs", "64"]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True)
    return process, process.stdout.readline().split()[-1]


def alive(process):
    """True for a process that has not ended."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def hold_recorder(run):
    """Stops the recorder of a run while execute works."""
    stopped, execute = set(), set()
    while run.poll() is None:
        processes = family(run.pid)
        execute = {process for process, name in processes.items() if name == EXECUTE and alive(process)}
        if execute and not stopped:
            for process in (process for process, name in processes.items() if name == RECORDER):
                os.kill(process, signal.SIGSTOP)
                stopped.add(process)
        if stopped and not execute:
            break
        time.sleep(0.02)
    for process in stopped:
        try:
            os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass
    return bool(stopped)


def summary(folder):
    """The Summary of a run, of its published folder."""
    [path] = [path for path in (folder / "chain").glob("summary*.json") if ".sigstore." not in path.name]
    document = json.loads(path.read_text())
    return document.get("body", document)


def measure(programs, place, url, number, seconds, is_recorded):
    """A run with or without the recorder: its metrics, and the recorder's CPU time in microseconds per second."""
    name = f"recorder-{number}-{'with' if is_recorded else 'without'}"
    home = place / name
    home.mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place), "TMPDIR": str(place)}
    command = [programs / "assay", "bench", "--url", url, "--model", MODEL, "--concurrency", CONCURRENCY, "--duration", f"{seconds}s", "--trials", 1, "--input-tokens",
               64, "--output-tokens", 32, "--run-id", name, "--store", place / "store", "--json"]
    run = subprocess.Popen([str(part) for part in command], cwd=home, env=environment, stdout=open(home / "out", "w"), stderr=open(home / "err", "w"),
                           stdin=subprocess.DEVNULL)
    was_held = False if is_recorded else hold_recorder(run)
    if code := run.wait():
        sys.exit(f"`{name}` ended with {code}:\n{(home / 'err').read_text()[-3000:]}")
    found = summary(pathlib.Path(json.loads((home / "out").read_text())["folder"]))
    gaps = [issue for issue in found["issues"] if issue["code"] == "recording_gaps" and "`host`" in issue["detail"]]
    if not is_recorded and not (was_held and gaps):
        sys.exit(f"`{name}` was to have no readings, and does not say so: {found['issues']}")
    metrics = {metric["metric"]: metric["median"] for metric in found["points"][0]["metrics"]}
    query = f"SELECT mean FROM telemetry WHERE run_id = '{name}' AND metric = 'recorder_cpu_us' AND mean IS NOT NULL"
    asked = subprocess.run([str(programs / "assay"), "query", query, "--store", str(place / "store"), "--format", "json"], cwd=home, env=environment,
                           capture_output=True, text=True)
    if asked.returncode not in (0, NOT_ESTABLISHED):
        sys.exit(f"the rows of `{name}` cannot be read:\n{asked.stderr[-3000:]}")
    rows = [json.loads(line) for line in asked.stdout.splitlines() if line.strip()]
    return metrics, [row["mean"] for row in rows if "mean" in row]


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    pairs, seconds = [int(word) for word in [*sys.argv[2:], *map(str, [PAIRS, SECONDS][len(sys.argv) - 2:])]]
    if pairs < 2:
        sys.exit("an interval needs two pairs or more")
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        server, url = simulator(programs, open(place / "simulator", "w"))
        try:
            both, used = [], []
            for number in range(pairs):
                found = {}
                for is_recorded in ([True, False] if number % 2 == 0 else [False, True]):
                    metrics, cpu = measure(programs, place, url, number, seconds, is_recorded)
                    found[is_recorded] = metrics
                    used += cpu if is_recorded else []
                both.append((found[True], found[False]))
                print(f"  pair {number + 1} of {pairs}", file=sys.stderr, flush=True)
        finally:
            server.terminate()
            server.wait()
    print(f"{pairs} pairs of {seconds} s at {CONCURRENCY} requests in flight, {os.cpu_count()} CPUs\n")
    if used:
        print(f"the recorder took {statistics.median(used) / 1e6:.2%} of a core (median of {len(used)} runs, at most {max(used) / 1e6:.2%})\n")
    print("| metric | with / without | interval | moved |\n| --- | ---: | ---: | --- |")
    for metric in METRICS:
        values = [(one[metric], other[metric]) for one, other in both if one.get(metric, 0) > 0 and other.get(metric, 0) > 0]
        if len(values) < 2:
            print(f"| `{metric}` | not measured | | |")
            continue
        ratio, low, high = paired_ratio(values, len(METRICS))
        print(f"| `{metric}` | {ratio:.4f} | {low:.4f} to {high:.4f} | {'no' if low <= 1 <= high else 'yes'} |")


if __name__ == "__main__":
    main()
