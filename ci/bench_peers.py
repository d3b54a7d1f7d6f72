"""Other projects' load generators beside Assay, on the same work and the same endpoint: a simulator that tells what it was asked.

    python3 ci/bench_peers.py PROGRAMS AIPERF_VENV GENAI_BENCH_VENV

The simulator counts one token a word and has a prefix cache, so its truth says what each tool sent: how many requests, in which order, how long,
how much of them an earlier one began with, and when. Both other tools get a tokenizer of the same words, in the folder in which they look for models.
"""

import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import urllib.request

import bench_peers_weka

MODEL = "assay-simulator"
REQUESTS, BLOCK = 120, 512
SCENARIOS = ["D(100,20)", "N(200,60)/(20,6)", "U(50,150)/(10,30)"]
SCENARIO_REQUESTS = 200
# What AIPerf collects beside its load is not compared; on a busy machine its collectors miss heartbeats, and it ends with an error.
ONLY_LOAD = ("--no-server-metrics", "--no-gpu-telemetry")

TOKENIZER = """
import pathlib, sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = sorted(set(pathlib.Path(sys.argv[1]).read_text().split()))
vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", *words])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
fast.save_pretrained(sys.argv[2])
"""


class Simulator:
    """A simulator of its own for each tool, so that none finds what another has left in the cache."""

    def __init__(self, programs, *options, profile="fast"):
        arguments = [programs / "assay-simulator", "--profile", profile, "--model", MODEL, *options]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip().removeprefix("listening on ")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def requests(self):
        """The requests that it was sent, in the order in which they arrived."""
        with urllib.request.urlopen(f"{self.url}/truth") as answer:
            lines = [json.loads(line) for line in answer]
        return sorted((line for line in lines if line["kind"] == "request"), key=lambda line: line["arrived_ns"])


def run(folder, environment, *arguments):
    ran = subprocess.run([str(argument) for argument in arguments], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))} ended with {ran.returncode}:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}")
    return ran.stdout


def mooncake(path):
    """Writes a trace in Mooncake's format: 120 requests in eleven seconds, of four groups with a common beginning, and repetitions."""
    draw, rows, at, fresh = random.Random(7), [], 0, 100
    for number in range(REQUESTS):
        at += draw.randrange(20, 160)
        length = draw.randrange(1100, 3000)
        group, blocks = draw.randrange(4), -(-length // BLOCK)
        ids = [2 * group, 2 * group + 1, *range(fresh, fresh + blocks - 2)]
        fresh += blocks
        if number % 5 == 4:
            # Whole blocks alone: an id that stood for a part of a block would stand for two lengths.
            earlier = rows[draw.randrange(len(rows))]
            kept = min(earlier["input_length"], length) // BLOCK
            ids = earlier["hash_ids"][:kept] + ids[kept:]
        rows.append({"timestamp": at, "input_length": length, "output_length": draw.randrange(4, 40), "hash_ids": ids})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def reused(rows):
    """The tokens of whole blocks that an earlier request of the trace begins with."""
    seen, found = set(), 0
    for row in rows:
        for number, block in enumerate(row["hash_ids"]):
            # An engine computes at least the last token, so it takes no whole prompt from its cache.
            if block not in seen or (number + 1) * BLOCK >= row["input_length"]:
                break
            found += BLOCK
        seen.update(row["hash_ids"])
    return found


def describe_replay(rows, sent):
    """What of the trace came as it was recorded. Times are those of the endpoint, since the first request."""
    same = lambda theirs, ours: sum(request[theirs] == row[ours] for request, row in zip(sent, rows))
    late = [
        (request["arrived_ns"] - sent[0]["arrived_ns"]) / 1e6 - (row["timestamp"] - rows[0]["timestamp"])
        for request, row in zip(sent, rows)
    ]
    middle = statistics.median(late)
    spread = sorted(abs(value - middle) for value in late)
    return {
        "requests": len(sent),
        "input lengths in order": same("prompt_tokens", "input_length"),
        "output lengths in order": same("output_tokens", "output_length"),
        "tokens found in the cache": sum(request["cached_tokens"] for request in sent),
        "time, p50 from its median, ms": round(spread[len(spread) // 2], 2),
        "time, p99 from its median, ms": round(spread[int(len(spread) * 0.99)], 2),
    }


def measured_by_assay(sent):
    """Without the request that asks, before anything is measured, whether the endpoint answers."""
    return sent[1:]


def last_attempt(sent, requests):
    """The requests of the attempt that counts: on a busy machine Assay discards an attempt in which its client was late, and repeats it."""
    return sent[-requests:] if len(sent) % requests == 0 else sent


def replay(programs, aiperf, folder, environment):
    rows = mooncake(folder / "trace.jsonl")
    words = next(aiperf.glob("lib/python3*/site-packages/aiperf/dataset/generator/assets/shakespeare.txt"))
    # Where the hub's library looks for a model of this name, so that nothing is asked of anybody.
    hub, commit = folder / "hf/hub/models--assay--words", "0" * 40
    (hub / "refs").mkdir(parents=True)
    (hub / "refs/main").write_text(commit)
    run(folder, environment, aiperf / "bin/python", "-c", TOKENIZER, words, hub / "snapshots" / commit)
    told = {"the trace": {
        "requests": len(rows), "input lengths in order": len(rows), "output lengths in order": len(rows),
        "tokens found in the cache": reused(rows),
    }}
    with Simulator(programs, "--block-tokens", str(BLOCK)) as simulator:
        offline = {**environment, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
        run(folder, offline, aiperf / "bin/aiperf", "profile", "--model", MODEL, "--url", simulator.url, "--endpoint-type", "chat", "--streaming",
            "--input-file", "trace.jsonl", "--custom-dataset-type", "mooncake_trace", "--fixed-schedule", "--tokenizer", "assay/words",
            "--random-seed", "7", "--extra-inputs", "ignore_eos:true", "--ui", "none", *ONLY_LOAD, "--artifact-dir", folder / "aiperf")
        told["AIPerf"] = describe_replay(rows, simulator.requests())
    with Simulator(programs, "--block-tokens", str(BLOCK)) as simulator:
        run(folder, environment, programs / "assay", "bench", "--url", simulator.url, "--model", MODEL, "--trace", "trace.jsonl",
            "--trace-format", "mooncake", "--trials", "1")
        told["Assay"] = describe_replay(rows, measured_by_assay(simulator.requests()))
    show(f"replay of one trace in Mooncake's format, {REQUESTS} requests, blocks of {BLOCK}", told)


def replay_sessions(programs, aiperf, folder, environment):
    """A trace of agents with subagents, by a user who plays one session after the other. The tokenizer is that of the other replay."""
    turns = bench_peers_weka.write(folder)
    told, sessions = {"the trace": bench_peers_weka.told(turns)}, bench_peers_weka.SESSIONS
    with Simulator(programs, "--block-tokens", str(bench_peers_weka.BLOCK)) as simulator:
        offline = {**environment, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
        run(folder, offline, aiperf / "bin/aiperf", "profile", "--model", MODEL, "--url", simulator.url, "--endpoint-type", "chat", "--streaming",
            "--input-file", "weka", "--custom-dataset-type", "weka_trace", "--concurrency", 1, "--num-conversations", sessions,
            "--tokenizer", "assay/words", "--random-seed", "7", "--extra-inputs", "ignore_eos:true", "--ui", "none", *ONLY_LOAD,
            "--artifact-dir", folder / "aiperf-weka")
        told["AIPerf"] = bench_peers_weka.describe(turns, simulator.requests())
    with Simulator(programs, "--block-tokens", str(bench_peers_weka.BLOCK)) as simulator:
        run(folder, environment, programs / "assay", "bench", "--url", simulator.url, "--model", MODEL, "--trace", "weka.jsonl",
            "--trace-format", "weka", "--sessions", f"count={sessions}", "--concurrency", 1, "--trials", "1")
        told["Assay"] = bench_peers_weka.describe(turns, last_attempt(measured_by_assay(simulator.requests()), len(turns)))
    show(f"{sessions} sessions of a trace in Weka's format, {len(turns)} requests, blocks of {bench_peers_weka.BLOCK}", told)


def describe_lengths(sent):
    def told(name):
        values = [request[name] for request in sent]
        return f"{statistics.mean(values):.1f} ± {statistics.pstdev(values):.1f}, {min(values)} to {max(values)}"

    return {"requests": len(sent), "input": told("prompt_tokens"), "output": told("output_tokens")}


def distance(first, second):
    """The largest distance of two empirical distributions (Kolmogorov and Smirnov), over what 1 in 100 equal ones exceed."""
    values = sorted({*first, *second})
    share = lambda sample, value: sum(one <= value for one in sample) / len(sample)
    found = max(abs(share(first, value) - share(second, value)) for value in values)
    return found / (1.63 * ((len(first) + len(second)) / (len(first) * len(second))) ** 0.5)


def scenarios(programs, genai_bench, folder, environment):
    words = next(genai_bench.glob("lib/python3*/site-packages/genai_bench/data/sonnet.txt"))
    run(folder, environment, genai_bench / "bin/python", "-c", TOKENIZER, words, folder / "tokenizer")
    for scenario in SCENARIOS:
        with Simulator(programs) as simulator:
            run(folder, environment, genai_bench / "bin/genai-bench", "benchmark", "--api-backend", "vllm", "--api-base", simulator.url, "--api-key", "none",
                "--api-model-name", MODEL, "--model-tokenizer", folder / "tokenizer", "--task", "text-to-text", "--traffic-scenario", scenario,
                "--num-concurrency", 4, "--max-requests-per-run", SCENARIO_REQUESTS, "--max-time-per-run", 1,
                "--experiment-base-dir", folder / "genai", "--additional-request-params", '{"ignore_eos": true}')
            theirs = simulator.requests()
        with Simulator(programs) as simulator:
            run(folder, environment, programs / "assay", "bench", "--url", simulator.url, "--model", MODEL, "--scenario", scenario, "--concurrency", 4,
                "--requests", SCENARIO_REQUESTS, "--warmup", "0s", "--trials", "1")
            ours = measured_by_assay(simulator.requests())
        told = {"genai-bench": describe_lengths(theirs), "Assay": describe_lengths(ours)}
        show(f"scenario {scenario}", told)
        far = distance([request["output_tokens"] for request in theirs], [request["output_tokens"] for request in ours])
        print(f"  distance of the output lengths: {far:.2f} of what 1 in 100 equal distributions exceed")


def show(title, told):
    print(f"\n{title}")
    names = list(dict.fromkeys(name for column in told.values() for name in column))
    width = max(map(len, names))
    print("  " + " " * width + "".join(f"  {column:>24}" for column in told))
    for name in names:
        print(f"  {name:<{width}}" + "".join(f"  {column.get(name, '-'):>24}" for column in told.values()))


def main():
    programs, aiperf, genai_bench = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="assay-peers-") as place:
        folder = pathlib.Path(place)
        (folder / "home").mkdir()
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home"), "TMPDIR": place}
        replay(programs, aiperf, folder, environment)
        replay_sessions(programs, aiperf, folder, environment)
        scenarios(programs, genai_bench, folder, environment)


if __name__ == "__main__":
    main()
