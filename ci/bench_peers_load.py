"""Other projects' load generators beside Assay, on the same load: what a token costs the client, and how far its latencies are from the true ones.

    python3 ci/bench_peers_load.py PROGRAMS AIPERF_VENV GUIDELLM_VENV GENAI_BENCH_VENV

Each tool sends the same number of requests to a simulator of its own, which has fixed latencies and states when each request arrived and when it
wrote each token. The method of each figure is printed before the table.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from bench_peers import MODEL, ONLY_LOAD, TOKENIZER, Simulator, last_attempt, measured_by_assay  # noqa: E402

TTFT_MS, ITL_MS = 200, 50
INPUT_TOKENS, OUTPUT_TOKENS = 100, 32
# Streams and requests: enough rounds for a 99th percentile, and few enough that all tools are done in a quarter of an hour.
SCALE = float(os.environ.get("ASSAY_BENCH_SCALE", "1"))
CLOSED = {streams: max(streams, 2, round(SCALE * requests)) for streams, requests in {1: 20, 64: 1280, 512: 5120}.items()}
RATE, RATE_REQUESTS = 100, max(2, round(SCALE * 2000))
# Below this many tokens, chance in the CPU of the start is more than the cost of the tokens.
LEAST_TOKENS = 5000
CAUSE_CHARACTERS = 300

METHOD = f"""method
  The simulator has a TTFT of {TTFT_MS} ms and {ITL_MS} ms between tokens, without jitter; each response has {OUTPUT_TOKENS} tokens, one in each event.
  Each cell is one run of the tool's own command, with a simulator of its own on the same CPUs. Assay's programs are of the dev profile, in which the
  crates that send and read are optimised.
  Settings: what the tool's own help or settings file recommends for this load.
    AIPerf       `--workers-max` is the number of CPUs (its default, 0.75 x CPUs - 1, is less than one here), no dashboard, no telemetry, and the
                 endpoint's token counts instead of a tokenizer's (`--use-server-token-count`).
    guidellm     its defaults: at most 10 worker processes (GUIDELLM__MAX_WORKER_PROCESSES); no interactive progress.
    genai-bench  one process below 512 streams, its default, and `--num-workers` of the number of CPUs at 512.
    Assay        one load generator process (`--shards 1`), because by default a run measures first how many it needs; no warm-up, and one trial.
  truth        of all requests of the run that the simulator finished: arrival of the request to the write of the first token; TPOT is the time from the
               first to the last token over {OUTPUT_TOKENS - 1}. A quantile of the truth is interpolated linearly.
  error        the tool's own quantile less that of the truth. TPOT is what AIPerf and guidellm call inter-token latency.
  CPU          user and system time of all processes of the command, from its start to its end (getrusage of all that have ended, orphans included).
  CPU/token    that over the tokens that the simulator has sent; `beyond start` is less the CPU of a run of one request, over the further tokens.
  memory       the most, at any sample (5 a second), of the sum of RSS of all processes of the command, which counts a shared page once for each
               of them; the sum of PSS (once a second) shares it among them.
  rate         arrivals at the simulator, less one, over the time from the first to the last; the distance is that of each arrival from a grid of that rate
               that begins with the first, less its median.
  wall         of the command, from start to exit."""

# Runs a command as the parent of all its descendants, so that the CPU time of orphans counts, and samples their memory.
WATCHED = """
import ctypes, json, os, pathlib, resource, subprocess, sys, threading, time

def tree():
    parents, pages = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)], pages[int(path.parent.name)] = int(fields[1]), int(fields[21])
    found = set()
    for process in parents:
        line = []
        while process in parents and process != os.getpid():
            line.append(process)
            process = parents[process]
        if process == os.getpid():
            found.update(line)
    return {process: pages[process] * os.sysconf("SC_PAGE_SIZE") for process in found}

def proportional(process):
    try:
        text = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)

def sample():
    number = 0
    while not over.wait(0.2):
        found = tree()
        most["rss"] = max(most["rss"], sum(found.values()))
        most["processes"] = max(most["processes"], len(found))
        if number % 5 == 0:
            most["pss"] = max(most["pss"], sum(map(proportional, found)))
        number += 1

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
most, over = {"rss": 0, "pss": 0, "processes": 0}, threading.Event()
sampler = threading.Thread(target=sample)
begun = time.monotonic()
command = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
sampler.start()
code = command.wait()
wall = time.monotonic() - begun
over.set()
sampler.join()
# Orphans that outlive the command are waited for, and ended if they do not end.
limit = time.monotonic() + 10
while True:
    try:
        ended, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        break
    if ended == 0:
        if time.monotonic() > limit:
            [os.kill(process, 9) for process in tree()]
        time.sleep(0.05)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
result = {"code": code, "wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, **most}
pathlib.Path(sys.argv[1]).write_text(json.dumps(result))
"""


class Failed(Exception):
    """A tool that did not finish its run, with the lines that say why."""


class Place:
    """The scratch folder of one run."""

    def __init__(self, folder, environment):
        self.folder, self.environment = folder, environment

    def run(self, *command):
        """Runs a command to its end, and returns what it used."""
        used, log = self.folder / "used.json", self.folder / "log"
        with open(log, "w") as output:
            arguments = [sys.executable, "-c", WATCHED, used, *command]
            subprocess.run(list(map(str, arguments)), cwd=self.folder, env=self.environment, stdout=output, stderr=subprocess.STDOUT, check=True)
        told = json.loads(used.read_text())
        if told["code"] != 0:
            lines = [line.strip(" │╭╰─╮╯") for line in log.read_text(errors="replace").splitlines()]
            why = [line for line in lines if line.startswith(("because: ", "Error: ", "Reason: "))] or [line for line in lines if line]
            raise Failed(f"exit code {told['code']}: {' '.join(why[-2:])[:CAUSE_CHARACTERS]}")
        return told


def load_of(streams, rate):
    return ["--concurrency", streams] if streams else ["--request-rate", rate, "--arrival-pattern", "constant"]


def aiperf(venv, place, url, streams, rate, requests):
    used = place.run(
        venv / "bin/aiperf", "profile", "--model", MODEL, "--url", url, "--endpoint-type", "chat", "--streaming", *load_of(streams, rate),
        "--request-count", requests, "--isl", INPUT_TOKENS, "--osl", OUTPUT_TOKENS, "--extra-inputs", "ignore_eos:true", "--random-seed", 7,
        "--tokenizer", "assay/words", "--use-server-token-count", "--workers-max", os.cpu_count(), "--ui", "none", *ONLY_LOAD,
        "--export-level", "summary", "--artifact-dir", place.folder / "aiperf",
    )
    told = json.loads((place.folder / "aiperf/profile_export_aiperf.json").read_text())
    quantiles = {name: [told[metric][quantile] for quantile in ("p50", "p99")] for name, metric in
                 (("ttft", "time_to_first_token"), ("tpot", "inter_token_latency"))}
    return used, quantiles


def guidellm(venv, place, url, streams, rate, requests):
    profile = f"kind=concurrent,streams={streams}" if streams else f"kind=constant,rate={rate}"
    used = place.run(
        venv / "bin/guidellm", "run", "--backend", f"kind=openai_http,target={url},model={MODEL}", "--profile", profile,
        "--constraint", f"kind=max_requests,count={requests}", "--tokenizer", f"kind=huggingface_auto,model={place.environment['WORDS']}",
        "--data", f"kind=synthetic_text,prompt_tokens={INPUT_TOKENS},output_tokens={OUTPUT_TOKENS}", "--output", "kind=json,path=guidellm.json",
        "--disable-console-interactive",
    )
    metrics = json.loads((place.folder / "guidellm.json").read_text())["benchmarks"][0]["metrics"]
    quantiles = {name: [metrics[metric]["successful"]["percentiles"][quantile] for quantile in ("p50", "p99")] for name, metric in
                 (("ttft", "time_to_first_token_ms"), ("tpot", "inter_token_latency_ms"))}
    return used, quantiles


def genai_bench(venv, place, url, streams, rate, requests):
    if not streams:
        raise Failed("it has no request rate")
    workers = ["--num-workers", os.cpu_count()] if streams >= 512 else []
    used = place.run(
        venv / "bin/genai-bench", "benchmark", "--api-backend", "vllm", "--api-base", url, "--api-key", "none", "--api-model-name", MODEL,
        "--model-tokenizer", place.environment["WORDS"], "--task", "text-to-text", "--traffic-scenario", f"D({INPUT_TOKENS},{OUTPUT_TOKENS})",
        "--num-concurrency", streams, "--max-requests-per-run", requests, "--max-time-per-run", 10, *workers, "--metrics-time-unit", "ms",
        "--experiment-base-dir", place.folder / "genai", "--additional-request-params", '{"ignore_eos": true}',
    )
    found = next((place.folder / "genai").glob("*/D*.json"))
    told = json.loads(found.read_text())["aggregated_metrics"]["stats"]
    return used, {name: [told[name][quantile] for quantile in ("p50", "p99")] for name in ("ttft", "tpot")}


def assay(programs, place, url, streams, rate, requests):
    load = ["--concurrency", streams] if streams else ["--rate", rate, "--arrival", "constant"]
    used = place.run(
        programs / "assay", "bench", "--url", url, "--model", MODEL, *load, "--requests", requests, "--warmup", "0s", "--trials", 1, "--shards", 1,
        "--input-tokens", INPUT_TOKENS, "--output-tokens", OUTPUT_TOKENS, "--json",
    )
    lines = (place.folder / "log").read_text().splitlines()
    # The result is the only document of several lines; the events of the run are one a line.
    text = "\n".join(line for line in lines if not line.startswith('{"'))
    document, _ = json.JSONDecoder().raw_decode(text[text.index("{"):])
    metrics = {metric["metric"]: metric["median"] for metric in document["results"][0]["metrics"]}
    # Requests of an open loop count from the time at which they are due, which the truth does not know.
    ttft = "ttft" if streams else "ttft_sent"
    return used, {name: [metrics[f"{metric}_ms_{quantile}"] for quantile in ("p50", "p99")] for name, metric in (("ttft", ttft), ("tpot", "tpot"))}


def truth(sent):
    """The true quantiles of the requests that were finished."""
    ttft = [(request["chunks"][0][1] - request["arrived_ns"]) / 1e6 for request in sent]
    tpot = [(request["chunks"][-1][1] - request["chunks"][0][1]) / 1e6 / (request["output_tokens"] - 1) for request in sent]
    return {"ttft": [quantile(ttft, 0.5), quantile(ttft, 0.99)], "tpot": [quantile(tpot, 0.5), quantile(tpot, 0.99)]}


def quantile(values, share):
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def pacing(sent, rate):
    """The rate at which requests arrived, and the 99th percentile of their distance from a grid of the requested rate."""
    arrived = [request["arrived_ns"] / 1e9 for request in sent]
    off = [at - arrived[0] - number / rate for number, at in enumerate(arrived)]
    middle = statistics.median(off)
    return (len(arrived) - 1) / (arrived[-1] - arrived[0]), quantile([abs(value - middle) * 1e3 for value in off], 0.99)


def measure(tool, program, programs, place, streams, rate, requests):
    """One run of one tool: what it used, what it said and what is true; or the reason why there is none."""
    fixed = ("--ttft-ms", str(TTFT_MS), "--itl-ms", str(ITL_MS), "--max-num-seqs", "100000")
    with Simulator(programs, *fixed, profile="instant") as simulator:
        try:
            used, quantiles = tool(program, place, simulator.url, streams, rate, requests)
        except Failed as failure:
            return {"failed": str(failure)}
        sent = simulator.requests()
    tokens = sum(request["output_tokens"] for request in sent if request["ending"] == "finished")
    if tool is assay:
        sent = last_attempt(measured_by_assay(sent), requests)
    finished = [request for request in sent if request["ending"] == "finished" and len(request["chunks"]) > 1]
    true = truth(finished)
    errors = {name: [told - known for told, known in zip(quantiles[name], true[name])] for name in true}
    return {"used": used, "tokens": tokens, "errors": errors, "sent": len(sent), "finished": len(finished), "pacing": pacing(sent, rate) if rate else None}


def rows(runs, levels):
    """The rows of the table: a name, and a text for each tool."""
    def row(name, text):
        return name, [text(tool) for tool in runs]

    for level in levels:
        def cell(shown, level=level):
            def text(tool):
                run = runs[tool][level]
                return "none" if "failed" in run else shown(run, runs[tool])
            return text

        def beyond(run, others):
            start = others["start"]
            if "failed" in start:
                return "none"
            more = run["tokens"] - start["tokens"]
            if more < LEAST_TOKENS:
                return "-"
            return f"{(run['used']['cpu_s'] - start['used']['cpu_s']) * 1e6 / more:.0f} us"

        error = lambda name, place: cell(lambda run, _: f"{run['errors'][name][place]:+.2f} ms")
        yield row(f"{level}: requests finished, of those sent", cell(lambda run, _: f"{run['finished']} of {run['sent']}"))
        yield row("  CPU", cell(lambda run, _: f"{run['used']['cpu_s']:.1f} s"))
        yield row("  CPU/token", cell(lambda run, _: f"{run['used']['cpu_s'] * 1e6 / run['tokens']:.0f} us"))
        yield row("  CPU/token beyond start", cell(beyond))
        yield row("  TTFT error, p50", error("ttft", 0))
        yield row("  TTFT error, p99", error("ttft", 1))
        yield row("  TPOT error, p50", error("tpot", 0))
        yield row("  TPOT error, p99", error("tpot", 1))
        if level == f"{RATE} requests/s":
            yield row("  rate that arrived, of that requested", cell(lambda run, _: f"{run['pacing'][0] / RATE:.4f} x"))
            yield row("  arrival, distance from the grid, p99", cell(lambda run, _: f"{run['pacing'][1]:.2f} ms"))
        yield row("  memory, RSS (PSS)", cell(lambda run, _: f"{run['used']['rss'] / 2**20:.0f} ({run['used']['pss'] / 2**20:.0f}) MiB"))
        yield row("  wall", cell(lambda run, _: f"{run['used']['wall_s']:.1f} s"))


def show(runs, levels):
    table = [("", list(runs)), *rows(runs, levels)]
    width = max(len(name) for name, _ in table)
    columns = [max(len(cells[place]) for _, cells in table) for place in range(len(runs))]
    for name, cells in table:
        print(f"{name:<{width}}" + "".join(f"  {cell:>{column}}" for cell, column in zip(cells, columns)))
    for tool, measured in runs.items():
        for level, run in measured.items():
            if "failed" in run:
                print(f"  {tool}, {level}: none, because {run['failed']}")


def tokenizers(folder, environment, venvs):
    """A tokenizer that counts one token a word, where each tool finds it: in a folder, and as a model of the hub."""
    words = next(venvs["AIPerf"].glob("lib/python3*/site-packages/aiperf/dataset/generator/assets/shakespeare.txt"), None)
    lines = next(venvs["genai-bench"].glob("lib/python3*/site-packages/genai_bench/data/sonnet.txt"), None)
    text = folder / "words.txt"
    text.write_text("\n".join(path.read_text() for path in (words, lines) if path))
    hub, commit = folder / "hf/hub/models--assay--words", "0" * 40
    (hub / "refs").mkdir(parents=True)
    (hub / "refs/main").write_text(commit)
    python = next(venv / "bin/python" for venv in venvs.values() if (venv / "complete").exists())
    subprocess.run([python, "-c", TOKENIZER, text, hub / "snapshots" / commit], env=environment, check=True, capture_output=True)
    return hub / "snapshots" / commit


def main():
    programs, *venvs = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    venvs = dict(zip(("AIPerf", "guidellm", "genai-bench"), venvs, strict=True))
    tools = {"AIPerf": aiperf, "guidellm": guidellm, "genai-bench": genai_bench, "Assay": assay}
    levels = {"start": (1, None, 1), **{f"{streams} stream{'s' * (streams > 1)}": (streams, None, requests) for streams, requests in CLOSED.items()},
              f"{RATE} requests/s": (None, RATE, RATE_REQUESTS)}
    print(METHOD)
    print(f"\n{os.cpu_count()} CPUs, load average before the first run {os.getloadavg()[0]:.2f}")
    runs = {tool: {} for tool in tools}
    with tempfile.TemporaryDirectory(prefix="assay-peers-load-") as scratch:
        folder = pathlib.Path(scratch)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), "TMPDIR": scratch, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
        (folder / "home").mkdir()
        environment["WORDS"] = str(tokenizers(folder, environment, venvs))
        for level, (streams, rate, requests) in levels.items():
            for tool, command in tools.items():
                place = Place(folder / f"{tool}-{level.replace('/', ' per ')}".replace(" ", "-"), environment)
                place.folder.mkdir()
                program = programs if tool == "Assay" else venvs[tool]
                if tool != "Assay" and not (program / "complete").exists():
                    runs[tool][level] = {"failed": "it could not be installed"}
                    continue
                before = os.getloadavg()[0]
                runs[tool][level] = measure(command, program, programs, place, streams, rate, requests)
                took = runs[tool][level].get("used", {}).get("wall_s", 0)
                print(f"  {tool}, {level}: {took:.0f} s, load average before it {before:.2f}", file=sys.stderr)
    print()
    show(runs, [level for level in levels if level != "start"])


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
