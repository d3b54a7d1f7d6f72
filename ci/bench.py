"""The figures that have a bar, measured as whole processes. Started by ci/bench; needs nothing but Python, git and openssl, and
DuckDB for `reduce`. What benchmarks beside the code measure is read in bench_examples.py.

Every figure is the median of at least five samples, shown with the smallest and the largest, and stands beside what it is compared
with, measured in the same run. Samples of what is compared with each other are taken in turn, so that a disturbance falls on both.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import bench_command  # noqa: E402, after the line that keeps the folder clean
import bench_examples  # noqa: E402
import bench_gate  # noqa: E402
import bench_inputs  # noqa: E402

SAMPLES = 7
# What is too short for a few samples to settle.
SAMPLES_OF_A_START = 25
GIB = 1 << 30
# Keys of these costs are compared: scrypt's work is proportional to N, and nothing else of a run depends on it.
SCRYPT_NS = (32768, 65536, 131072)

BAR_CHAIN_S = 0.5
BAR_VERIFY_S = 0.1
BAR_RECOMPUTE_S = 3
BAR_VERIFY_LARGE_S = 1.0
BAR_PLAN_S = 1.0
# As many runs as a nightly pipeline of 27 cases makes in a year.
STORED_RUNS = 10_000
BAR_RUNS_S = 0.5
BAR_HISTORY_S = 1.0
BAR_START_S = 0.02
# "Near the machine's speed", as a number: no more than a quarter slower than openssl.
BAR_HASHING_RATIO = 1.25
BAR_BUILD_S = 600.0


class Figure:
    """Samples in seconds, and how they are shown."""

    def __init__(self, samples):
        self.samples = sorted(samples)
        self.median = statistics.median(self.samples)

    def __str__(self):
        return f"{seconds(self.median)} ({seconds(self.samples[0])} .. {seconds(self.samples[-1])}, n {len(self.samples)})"


def seconds(value):
    return f"{value * 1000:.1f} ms" if abs(value) < 1 else f"{value:.2f} s"


class Table:
    def __init__(self):
        self.rows = []

    def add(self, name, value, bar, ratio, method):
        """`ratio` is the figure over its bar: at most one meets it. None where there is no bar."""
        verdict = "" if ratio is None else ("bar: met" if ratio <= 1 else "bar: missed")
        self.rows.append((name, str(value), bar, "" if ratio is None else f"{ratio:.2f}", verdict, method))
        print(f"  {name}: {value}", file=sys.stderr)

    def tell(self, name, value, bar, met, method):
        """What is so or not, and no multiple of its bar."""
        self.rows.append((name, value, bar, "", "bar: met" if met else "bar: missed", method))
        print(f"  {name}: {value}", file=sys.stderr)

    def skip(self, name, why):
        self.rows.append((name, why, "", "", "", "none"))

    def show(self):
        head = ("figure", "measured: median (min .. max)", "bar", "of it", "")
        widths = [max(len(str(row[column])) for row in [head, *self.rows]) for column in range(len(head))]
        for row in [head, *self.rows]:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip())
        print("\nmethods")
        for name, *_, method in self.rows:
            print(f"  {name}: {method}")


class Place:
    """A repository, keys and a store in a scratch folder, and the programs that are measured there."""

    def __init__(self, folder, binaries):
        self.folder, self.binaries = folder, binaries.resolve()
        self.root = pathlib.Path(__file__).resolve().parent.parent
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        for made in ("home", "tmp"):
            (folder / made).mkdir(parents=True)

    def config(self, scrypt_n):
        """The configuration folder with keys of this cost."""
        folder = self.folder / f"config-{scrypt_n}"
        if not folder.exists():
            self.run(self.folder, folder, "assay", "keys", "init", "--scrypt-n", str(scrypt_n))
        return folder

    def run(self, cwd, config, program, *arguments):
        """Runs a program to its end: its wall time in seconds and its standard output. A failure of it is one of the benchmark."""
        took, _, printed = self.ended(cwd, config, [0], program, *arguments)
        return took, printed

    def ended(self, cwd, config, codes, program, *arguments):
        """As `run`, of a program that may end with any of these codes, which comes between the two."""
        path = self.binaries / program if (self.binaries / program).exists() else program
        environment = {**self.environment, "ASSAY_CONFIG": str(config)}
        start = time.perf_counter()
        ran = subprocess.run([path, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        took = time.perf_counter() - start
        if ran.returncode not in codes:
            sys.exit(f"{program} {' '.join(arguments)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return took, ran.returncode, ran.stdout

    def repository(self, name, workloads, variants=(), more="", trials=1):
        """A repository whose only commit holds a pipeline of so many trials of each workload under each variant.

        `more` is further lines of each workload's spec."""
        repo = self.folder / name
        for workload in workloads:
            folder = repo / "workloads" / workload
            folder.mkdir(parents=True)
            (folder / "workload.yaml").write_text(WORKLOAD.format(name=workload, more=more))
            script = folder / "run.sh"
            script.write_text(f"#!/bin/sh\n# {workload}\necho '{RESULT}'\n")
            script.chmod(0o755)
        (repo / "pipelines").mkdir()
        listed = "".join(f"\n    - {{name: {variant}}}" for variant in variants)
        (repo / "pipelines/bench.yaml").write_text(
            PIPELINE.format(workloads=", ".join(workloads), variants=f"  variants:{listed}\n" if variants else "", trials=trials)
        )
        self.commit(repo)
        return repo

    def commit(self, repo):
        """Commits all of a folder on its branch `main`, which a first commit makes."""
        git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        begin = [] if (repo / ".git").exists() else [["init", "--quiet", "--initial-branch", "main"]]
        for command in (*begin, ["add", "--all"], ["commit", "--quiet", "--message", "bench"]):
            subprocess.run([*git, *command], cwd=repo, env=self.environment, check=True)


RESULT = '{"name": "empty", "@parameters": {}, "@result": {"nothing": 1}}'
WORKLOAD = """apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: {name}}}
spec:
  type: indicator
  script: {{path: run.sh}}
  metrics:
    - {{path: nothing, unit: count, better: higher}}
{more}"""
PIPELINE = """apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: bench}}
spec:
  intent: exploratory
  workloads: [{workloads}]
  targets:
    - {{name: local, kind: host}}
{variants}  trials: {{count: {trials}}}
"""


def chain(place, table):
    """The chain's overhead, the verification of such a run, and hashing, which is a verification less that one."""
    hashing(place, table, verify(place, table, overhead(place, table)))


def overhead(place, table):
    """The chain's overhead; gives a repository that holds such a run, for verify."""
    template = place.repository("empty", ["empty"])
    configs = {n: place.config(n) for n in SCRYPT_NS}
    walls = {n: [] for n in SCRYPT_NS}
    for sample in range(SAMPLES + 1):
        for n in SCRYPT_NS:
            # A new repository each time: a store that fills up would make later samples dearer.
            repo = place.folder / f"empty-{n}-{sample}"
            shutil.copytree(template, repo)
            wall, _ = place.run(repo, configs[n], "assay", "run", "pipelines/bench.yaml", "--run-id", "bench")
            if sample > 0:
                walls[n].append(wall)
    medians = {n: statistics.median(walls[n]) for n in SCRYPT_NS}
    slope, _ = statistics.linear_regression(SCRYPT_NS, list(medians.values()))
    # Each sample less what unlocking costs on the line through the medians.
    beyond = Figure([wall - slope * n for n in SCRYPT_NS for wall in walls[n]])
    whole = Figure(walls[65536])
    off = medians[65536] - (medians[32768] + slope * 32768)
    table.add(
        "chain overhead beyond unlocking",
        beyond,
        seconds(BAR_CHAIN_S),
        beyond.median / BAR_CHAIN_S,
        "wall time of `assay run` of one trial of a script that only prints, less the part that grows with the keys' scrypt N: "
        f"the slope of a line through the medians at N = {', '.join(map(str, SCRYPT_NS))}, runs in turn "
        f"(the middle one is {seconds(off)} off the line; all seven keys of N 65536 cost {seconds(slope * 65536)})",
    )
    table.add("  the whole `assay run`, N 65536", whole, "", None, "wall time with keys as cosign makes them; for comparison")
    return place.folder / f"empty-65536-{SAMPLES}"


def verify(place, table, repo):
    config = place.config(65536)
    nothing, walls = [], []
    for sample in range(SAMPLES_OF_A_START):
        nothing.append(place.run(repo, config, "true")[0])
        walls.append(place.run(repo, config, "assay", "verify", "bench")[0])
    walls, nothing = Figure(walls), Figure(nothing)
    table.add(
        "verify of that run, level 3",
        walls,
        seconds(BAR_VERIFY_S),
        walls.median / BAR_VERIFY_S,
        "wall time of `assay verify`; a run of a few hundred KiB, so hashing is in it and costs next to nothing "
        f"(starting `true` the same way: {seconds(nothing.median)})",
    )
    return walls.median


def quickstart(place, table):
    """The verification of the run that the quickstart makes."""
    repo = place.folder / "quickstart"
    for copied in ("pipelines/quickstart.yaml", "workloads", "queries"):
        source, target = place.root / copied, repo / copied
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    place.commit(repo)
    config = place.config(65536)
    place.run(repo, config, "assay", "run", "pipelines/quickstart.yaml", "--run-id", "quickstart")
    for name, bar, arguments in [
        ("verify of the quickstart's run, level 3", BAR_VERIFY_S, []),
        ("verify of the quickstart's run, level 4", BAR_RECOMPUTE_S, ["--recompute"]),
    ]:
        times = range(SAMPLES_OF_A_START)
        walls = Figure([place.run(repo, config, "assay", "verify", "quickstart", *arguments)[0] for _ in times])
        method = f"wall time of `{' '.join(['assay', 'verify', 'quickstart', *arguments])}`, from the page cache"
        table.add(name, walls, seconds(bar), walls.median / bar, method)


def hashing(place, table, small_verify):
    scale = float(os.environ.get("ASSAY_BENCH_SCALE", "1"))
    size = max(1 << 20, int(GIB * scale))
    prepare = f"""  prepare:
    command: [sh, -c, head -c {size} /dev/urandom > big]
    outputs: [big]
    time_limit: 5m
"""
    repo = place.repository("big", ["big"], more=prepare)
    config = place.config(65536)
    place.run(repo, config, "assay", "run", "pipelines/bench.yaml", "--run-id", "bench")
    blob = max((path for path in (repo / ".assay/blobs").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    tools = {"openssl": ["openssl", "dgst", "-sha256", str(blob)], "sha256sum": ["sha256sum", str(blob)]}
    tools = {name: command for name, command in tools.items() if shutil.which(name)}
    walls = {name: [] for name in ("assay", *tools)}
    for sample in range(SAMPLES + 1):
        for name, command in {"assay": ["assay", "verify", "bench"], **tools}.items():
            wall, _ = place.run(repo, config, *command)
            if sample > 0:
                walls[name].append(wall)
    own = Figure([wall - small_verify for wall in walls["assay"]])
    rates = {name: size / GIB / statistics.median(walls[name]) for name in tools}
    others = ", ".join(f"{name} {rate:.2f} GiB/s" for name, rate in rates.items())
    reference = statistics.median(walls["openssl" if "openssl" in tools else "sha256sum"])
    ratio = own.median / reference
    table.add(
        f"hashing {size / GIB:.3g} GiB in verify",
        f"{own}, {size / GIB / own.median:.2f} GiB/s",
        f"{BAR_HASHING_RATIO} x openssl",
        ratio / BAR_HASHING_RATIO,
        f"`assay verify` of a run with one such raw artifact, less the verify above, from the page cache; in turn with {others}; "
        f"{ratio:.2f} x the time of openssl",
    )


def plan(place, table):
    repo = place.repository("thousand", [f"w{number}" for number in range(50)], [f"v{number}" for number in range(20)])
    config = place.config(32768)
    walls = []
    for sample in range(SAMPLES + 1):
        wall, shown = place.run(repo, config, "assay", "plan", "pipelines/bench.yaml")
        if "1000 cases" not in shown:
            sys.exit(f"the plan is not one of 1,000 cases:\n{shown}")
        walls.append(wall)
    walls = Figure(walls[1:])
    table.add(
        "plan of 1,000 cases",
        walls,
        seconds(BAR_PLAN_S),
        walls.median / BAR_PLAN_S,
        "wall time of `assay plan`: 50 workloads x 1 target x 20 variants, each a commit's files",
    )
    stage = plan_stage(place, repo, config)
    table.add(
        "the plan stage of 1,000 cases",
        stage,
        seconds(BAR_PLAN_S),
        stage.median / BAR_PLAN_S,
        "wall time of `assay-plan --recompute` on the signed Source of that commit: verify, check the commit, freeze, expand, order",
    )


def large(place, table):
    """The verification of a run of 5,000 trials."""
    repo = place.repository("large", [f"w{number}" for number in range(50)], [f"v{number}" for number in range(20)], trials=5)
    config = place.config(65536)
    took, _ = place.run(repo, config, "assay", "run", "pipelines/bench.yaml", "--run-id", "bench")
    walls = [place.run(repo, config, "assay", "verify", "bench")[0] for _ in range(SAMPLES + 1)]
    walls = Figure(walls[1:])
    table.add(
        "verify of 1,000 cases x 5 trials, level 3",
        walls,
        seconds(BAR_VERIFY_LARGE_S),
        walls.median / BAR_VERIFY_LARGE_S,
        f"wall time of `assay verify`, from the page cache; 5,000 trials of scripts that only print, whose run took {seconds(took)}",
    )


def plan_stage(place, repo, config):
    environment = {**place.environment, "ASSAY_CONFIG": str(config)}
    command = [place.binaries / "assay", "run", "pipelines/bench.yaml", "--run-id", "bench", "--json"]
    with subprocess.Popen(command, cwd=repo, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        # The trials of a thousand cases are not wanted: the run is cancelled once it has its plan.
        for line in run.stderr:
            if json.loads(line if line.startswith("{") else "{}").get("event") == "accepted":
                run.terminate()
                break
        run.stderr.read()
    store = repo / ".assay"
    source = json.loads((store / "runs/bench/source").read_text())
    arguments = ["--store", str(store), "--run", "bench", "--trust", str(config / "trust.yaml")]
    arguments += ["--input", f"{source['manifest']},{source['bundle']}", "--recompute", str(place.folder / "recomputed")]
    return Figure([place.run(repo, config, "assay-plan", *arguments)[0] for _ in range(SAMPLES + 1)][1:])


def start(place, table):
    nothing, walls = [], []
    for sample in range(SAMPLES_OF_A_START):
        nothing.append(place.run(place.folder, place.folder, "true")[0])
        walls.append(place.run(place.folder, place.folder, "assay", "--help")[0])
    walls, nothing = Figure(walls), Figure(nothing)
    table.add(
        "assay --help",
        walls,
        seconds(BAR_START_S),
        walls.median / BAR_START_S,
        f"wall time of the process, in turn with `true` ({seconds(nothing.median)}, {walls.median / nothing.median:.1f} x)",
    )


def store(place, table):
    """Commands on a store of many runs: copies of finished ones, each with manifests and rows of its own, and signed."""
    count = max(40, round(STORED_RUNS * bench_examples.SCALE))
    repo, config, many = place.repository("kept", ["w0"]), place.config(32768), place.folder / "many"
    copied = [f"copied-{number}" for number in range(4)]
    for run in copied:
        place.run(repo, config, "assay", "run", "pipelines/bench.yaml", "--run-id", run)
    _, printed = place.run(repo, config, "examples/store_of_runs", str(repo / ".assay"), str(many), str(count), *copied)
    first, last = (float(text) for text in re.findall(r"commits ms ([0-9.]+)", printed))
    for command, bar in ((["runs"], BAR_RUNS_S), (["history", "nothing"], BAR_HISTORY_S)):
        cold = place.run(repo, config, "assay", *command, "--store", str(many))[0]
        walls = Figure([place.run(repo, config, "assay", *command, "--store", str(many))[0] for _ in range(SAMPLES)])
        table.add(
            f"assay {command[0]} of {count:,} runs",
            walls,
            seconds(bar),
            walls.median / bar,
            f"wall time of `assay {' '.join(command)}`, from the page cache; the first call, without the user's cache: {seconds(cold)}",
        )
    table.add(
        f"warehouse: a commit after {count:,} runs",
        f"{last:.0f} ms, {last / first:.1f} x that of the first runs",
        "",
        None,
        "median of the 20 last commits, of which one writes a checkpoint, beside that of the first 20",
    )


def build(table):
    with tempfile.TemporaryDirectory(prefix="assay-bench-target-") as target:
        environment = {**os.environ, "CARGO_TARGET_DIR": target}
        began = time.perf_counter()
        subprocess.run(["cargo", "build", "--quiet", "--workspace", "--all-targets"], env=environment, check=True)
        took = time.perf_counter() - began
    table.add(
        "cold build",
        f"{took:.0f} s (n 1)",
        f"{BAR_BUILD_S:.0f} s",
        took / BAR_BUILD_S,
        "`cargo build --workspace --all-targets` (dev) into an empty target folder, crates already downloaded; once",
    )


def machine():
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
    load = os.getloadavg()[0]
    busy = "; BUSY, so the figures are too high" if load > os.cpu_count() / 2 else ""
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs, Linux {platform.release()}, load {load:.2f}{busy}"


# What is measured, in this order, and what of the workspace that needs.
FIGURES = {
    "start": (start, ["--bins"]),
    "chain": (chain, ["--bins"]),
    "verify": (quickstart, ["--bins"]),
    "plan": (plan, ["--bins"]),
    "large": (large, ["--bins"]),
    "client": (bench_examples.client, ["--example=bench"]),
    "instructions": (bench_examples.instructions, ["--example=bench"]),
    "ttft": (bench_examples.ttft, ["--example=ttft_error", "--bin=assay-simulator"]),
    "stalls": (bench_examples.stalls, ["--example=stalls", "--bin=assay-simulator"]),
    "reduce": (bench_examples.reduce, ["--example=reduce_bench"]),
    "report": (bench_examples.report, ["--example=report_bench"]),
    "warehouse": (bench_examples.warehouse, ["--example=commit_bench"]),
    "store": (store, ["--bins", "--example=store_of_runs"]),
    "slowdown": (bench_gate.slowdown, ["--bins"]),
    "command": (bench_command.command, ["--bins"]),
    "inputs": (bench_inputs.inputs, ["--bins"]),
}


def figures(text):
    names = text.split(",")
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise argparse.ArgumentTypeError(f"`{unknown[0]}` is none of {', '.join(FIGURES)}")
    return names


def main():
    parser = argparse.ArgumentParser(prog="ci/bench", description="Measures what has a bar.")
    parser.add_argument("binaries", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--only", type=figures, default=list(FIGURES), metavar="NAME,..", help=f"some of {', '.join(FIGURES)}")
    parser.add_argument("--build", action="store_true", help="also the cold build, which takes minutes")
    parser.add_argument("--targets", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.targets:
        # For cargo, which takes `--bins` once and then needs no `--bin`.
        targets = dict.fromkeys(target for name in asked.only for target in FIGURES[name][1])
        print(*(target for target in targets if "--bins" not in targets or not target.startswith("--bin=")))
        return
    # As an exit, so that what is running is ended and the folder is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"machine: {machine()}\n")
    table = Table()
    # Beside the repository's target folder and not in /tmp, which may be memory and small.
    with tempfile.TemporaryDirectory(prefix="assay-bench-", dir=asked.binaries) as folder:
        place = Place(pathlib.Path(folder).resolve(), asked.binaries)
        for name, (measure, _) in FIGURES.items():
            if name in asked.only:
                measure(place, table)
    if asked.build:
        build(table)
    print(file=sys.stderr)
    table.show()


if __name__ == "__main__":
    main()
