"""Definitions and results of other tools, imported: the same requests, and numbers that differ by their stated definitions alone.

    python3 ci/bench_imports.py PROGRAMS CACHE [FORMAT...]

Each tool runs a definition of its own against the simulator, Assay runs what `assay import` made of that definition against a simulator of the same
settings, and `assay import results` reads the numbers of the tool. The simulator's truth states each request and the time of each token, so each definition in
docs/reference/foreign.md is computed from it and compared with the number. A tool that is not installed (`peer-NAME-VERSION` in CACHE) is named. Exits with 1
if something differs that has to be equal, or if a number does not follow from its definition.
"""

import dataclasses
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from bench_peers import MODEL, TOKENIZER, Simulator, distance, last_attempt, measured_by_assay  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TTFT_MS, ITL_MS, FIRST_TOKENS, CHUNK_TOKENS = 200, 25, 4, 2
INPUT_TOKENS, OUTPUT_TOKENS = 100, 32
INPUT_STDDEV, OUTPUT_STDDEV = 20, 8
USERS, FIXED_REQUESTS, REPEATS = 4, 24, 3
# The second load: enough requests for a distribution, and a rate at which about ten are in flight.
DRAWN_REQUESTS, DRAWN_USERS, RATE = 60, 8, 10
# Of two distributions that are equal, 1 pair in 1,000 is farther apart: Kolmogorov and Smirnov's 1.95 over the 1.63 of `distance`.
MOST_DISTANCE = 1.95 / 1.63
# Of rates of two Poisson processes that are equal, 1 pair in 1,000 is farther apart in its logarithm than these standard errors.
POISSON_ERRORS = 3.29
# A process with constant gaps keeps its rate; 1 % is the client's delay of the first and the last request.
CONSTANT_ERROR = 0.01

# A run of Assay of which no trial counts, because others used the machine, is repeated: its exit code, and how often at most.
NO_VALID_TRIAL, MOST_RUNS = 30, 4

# The ranges of the fixed load that the one run of the drawn load may be off. With normal errors, it is farther away in 3 of 100 cases by these alone.
SINGLE_RUN = 3

SETTINGS = ("--ttft-jitter-ms", 0, "--itl-jitter-ms", 0, "--first-chunk-tokens", FIRST_TOKENS, "--tokens-per-chunk", CHUNK_TOKENS, "--prefix-cache", "false",
            "--max-num-seqs", 1000)
SLOW = ("--ttft-ms", TTFT_MS, "--itl-ms", ITL_MS, *SETTINGS)
# Without latencies of its own, so that a latency which a client measures is the client's and the connection's.
WITHOUT_LATENCY = ("--ttft-ms", 0, "--itl-ms", 0, *SETTINGS)

METHOD = f"""method
  simulator      TTFT {TTFT_MS} ms, {ITL_MS} ms for each later token, no jitter, no prefix cache; {FIRST_TOKENS} tokens in the first event and {CHUNK_TOKENS} in each later one,
                 so that definitions which differ in the tokens of an event give different numbers. A simulator of its own for each run, all with the same settings.
  fixed load     {FIXED_REQUESTS} requests of {INPUT_TOKENS} input and {OUTPUT_TOKENS} output tokens by {USERS} users, {REPEATS} times by each tool and by Assay, in turn.
  drawn load     normally distributed lengths, {INPUT_TOKENS} ± {INPUT_STDDEV} and {OUTPUT_TOKENS} ± {OUTPUT_STDDEV} tokens, once: at {RATE} requests/s, or by {DRAWN_USERS} users if the tool has
                 no rate.
  import         the command or file that the tool ran, word for word, with the same port of the simulator. What is imported runs as it is.
  tool, Assay    the number of a metric: the median of the runs of a load.
  truth          the definition of that number, computed from the simulator's log of the requests of the same run that were finished: when each arrived, and when
                 each event was written.
  error          the number less its truth, the median of the runs.
  allowed        by how much the number changes if the client is late by its delay in one or two instants of each request, or of half of the requests: the send
                 time, the first event, the last one, or all. And the range of the error over the runs of the fixed load; of the drawn load {SINGLE_RUN} times that in
                 proportion, because one run is no median of three.
  delay          the latency of the fixed load on a simulator without latencies: what the client, the connection and the machine add. Of the fixed load its mean
                 for means and rates, and its median for medians. Of the drawn load, which has one run, its 90th percentile for means and rates; and its 99th for
                 medians, because a single request decides the median of lengths that differ.
  difference     the tool's number less Assay's. Of it
    definition   the tool's definition less Assay's, both computed from the tool's requests;
    requests     Assay's definition computed from the tool's requests, less the same from Assay's requests: lengths and arrivals that are not the same;
    rest         what neither explains, which may be as large as both sides are allowed.
  median         linear interpolation; of guidellm the lowest value that half of the weight does not exceed, as it computes it.
  Means and medians are compared, no tails: the machine is shared.
"""


# --- Truth ---


@dataclasses.dataclass
class Request:
    """A request as the simulator saw it: times in milliseconds, and the tokens of each event."""

    sent: float
    events: list
    end: float
    input: int
    output: int

    @staticmethod
    def of(line):
        events = [(written / 1e6, tokens) for _, written, tokens, _ in line["chunks"]]
        return Request(line["arrived_ns"] / 1e6, events, line["end_ns"] / 1e6, line["prompt_tokens"], line["output_tokens"])

    @property
    def first(self):
        return self.events[0][0]

    @property
    def last(self):
        return self.events[-1][0]

    def delayed(self, sent=0, first=0, middle=0, last=0):
        """The request as a client sees it that is late: each part of it by so many milliseconds."""
        moved = [(at + (first if place == 0 else last if place == len(self.events) - 1 else middle), tokens) for place, (at, tokens) in enumerate(self.events)]
        return dataclasses.replace(self, sent=self.sent - sent, events=moved, end=self.end + last)


def gaps(request):
    return [after[0] - before[0] for before, after in zip(request.events, request.events[1:])]


# --- Definitions: each makes values with weights of the requests, or one number of all of them ---


def each(value):
    """One value a request, each with the same weight."""
    return lambda requests, _: [(value(request), 1) for request in requests]


def weighted(value, weight):
    return lambda requests, _: [(value(request), weight(request)) for request in requests]


def pooled(values):
    """Several values a request, put together."""
    return lambda requests, _: [(value, 1) for request in requests for value in values(request)]


def rate(amount, begin, end):
    """An amount over a time, per second: from the earliest beginning to the latest end of a request."""
    return lambda requests, _: sum(map(amount, requests)) / (max(map(end, requests)) - min(map(begin, requests))) * 1000


def over_own_duration(amount):
    """An amount over the duration that the tool's file states, because no endpoint sees when it begins and ends."""
    return lambda requests, stated: sum(map(amount, requests)) / stated["duration"]


def guidellm_request_rate(_, stated):
    """The requests that ended before the stated end, over the stated duration."""
    return stated["ended in time"] / stated["duration"]


def sent(request):
    return request.sent


def end(request):
    return request.end


def first(request):
    return request.first


def last(request):
    return request.last


def one(_):
    return 1


def inputs(request):
    return request.input


def outputs(request):
    return request.output


def both(request):
    return request.input + request.output


def ttft(request):
    return request.first - request.sent


def e2e(request):
    return request.last - request.sent


def e2e_to_end(request):
    return request.end - request.sent


def tpot(request):
    return (request.last - request.first) / (request.output - request.events[0][1])


def per_later_token(request):
    return (request.last - request.first) / (request.output - 1)


def per_later_token_to_end(request):
    return (request.end - request.first) / (request.output - 1)


def token_gaps(request):
    """The gaps between tokens if each has the time of its event."""
    times = [at for at, tokens in request.events for _ in range(tokens)]
    return [after - before for before, after in zip(times, times[1:])]


TTFT = each(ttft)
ASSAY = {
    "ttft_ms": TTFT,
    "ttfo_ms": TTFT,
    "ttst_ms": each(lambda request: gaps(request)[0]),
    "tpot_ms": each(tpot),
    "icl_ms": pooled(gaps),
    "e2e_ms": each(e2e),
    "e2e_per_output_token_ms": each(lambda request: e2e(request) / request.output),
    "output_tokens_per_user_per_s": each(lambda request: 1000 / tpot(request)),
    "prefill_tokens_per_s": each(lambda request: 1000 * request.input / ttft(request)),
    "request_throughput_per_s": rate(one, sent, end),
    "output_tokens_per_s": rate(outputs, sent, end),
    "input_tokens_per_s": rate(inputs, sent, end),
    "total_tokens_per_s": rate(both, sent, end),
    "isl_tokens": each(inputs),
    "osl_tokens": each(outputs),
}
RATES = ("request_throughput_per_s", "output_tokens_per_s", "input_tokens_per_s", "total_tokens_per_s")
# The page calls lengths by the names of the records; the metrics are means of them.
NAMES = {"input_tokens": "isl_tokens", "output_tokens": "osl_tokens"}

# The definition of each metric of a tool that has a counterpart of Assay. The tools' names of the page.
AIPERF = {
    "aiperf.ttft": TTFT,
    "aiperf.ttfo": TTFT,
    "ttst_ms": ASSAY["ttst_ms"],
    "aiperf.e2e": ASSAY["e2e_ms"],
    "aiperf.itl": each(lambda request: (e2e(request) - ttft(request)) / (request.output - 1)),
    "icl_ms": ASSAY["icl_ms"],
    "aiperf.output_tokens_per_user_per_s": each(lambda request: 1000 / per_later_token(request)),
    "aiperf.prefill_tokens_per_user_per_s": each(lambda request: 1000 * request.input / ttft(request)),
    "aiperf.output_tokens": each(outputs),
    "aiperf.input_tokens": each(inputs),
    "aiperf.request_throughput": over_own_duration(one),
    "aiperf.output_tokens_per_s": over_own_duration(outputs),
    "aiperf.total_tokens_per_s": over_own_duration(both),
    "aiperf.input_tokens_per_s": over_own_duration(inputs),
}
GUIDELLM = {
    "guidellm.ttft": TTFT,
    "guidellm.ttfo": TTFT,
    "guidellm.e2e": each(e2e_to_end),
    "guidellm.time_per_output_token": weighted(lambda request: e2e(request) / request.output, outputs),
    "guidellm.itl": weighted(per_later_token, lambda request: request.output - 1),
    "guidellm.request_throughput": guidellm_request_rate,
    "guidellm.input_tokens_per_s": rate(inputs, first, first),
    "guidellm.output_tokens_per_s": rate(outputs, first, last),
    "guidellm.total_tokens_per_s": rate(both, first, last),
}
GENAI_BENCH = {
    "genai-bench.ttft": TTFT,
    "genai-bench.tpot": each(per_later_token_to_end),
    "genai-bench.e2e": each(e2e_to_end),
    "genai-bench.output_tokens_per_user_per_s": each(lambda request: 1000 / per_later_token_to_end(request)),
    "genai-bench.input_tokens": each(inputs),
    "genai-bench.output_tokens": each(outputs),
    "genai-bench.prefill_tokens_per_s": each(lambda request: 1000 * request.input / ttft(request)),
    "genai-bench.request_throughput": over_own_duration(one),
    "genai-bench.output_tokens_per_s": over_own_duration(outputs),
    "genai-bench.input_tokens_per_s": over_own_duration(inputs),
    "genai-bench.total_tokens_per_s": over_own_duration(both),
}
INFERENCE_PERF = {
    "inference-perf.ttft": TTFT,
    "inference-perf.request_latency": each(e2e_to_end),
    "inference-perf.tpot": each(per_later_token),
    "inference-perf.ntpot": each(lambda request: e2e_to_end(request) / request.output),
    "inference-perf.itl": pooled(token_gaps),
    "inference-perf.request_throughput": rate(one, sent, end),
    "inference-perf.output_tokens_per_s": rate(outputs, sent, end),
    "inference-perf.input_tokens_per_s": rate(inputs, sent, end),
    "inference-perf.total_tokens_per_s": rate(both, sent, end),
}
# Counterparts that these loads cannot compare.
NOT_COMPARED = {
    "aiperf.credit_to_start": "the truth does not know when a request was permitted",
    "aiperf.goodput": "no SLOs",
    "aiperf.good_fraction": "no SLOs",
    "aiperf.error_rate": "no request failed",
    "aiperf.http_connecting": "`connect_ms` is a metric of `connections: never`",
    "inference-perf.schedule_delay": "the truth does not know when a request was due",
}


def compute(definition, statistic, requests, rule="linear", stated=None):
    """A statistic of a definition over requests. A rate is one number, whatever the statistic."""
    values = definition(requests, stated)
    if not isinstance(values, list):
        return values
    if statistic == "mean":
        return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)
    return weighted_median(values) if rule == "weighted" else statistics.median(value for value, _ in values)


def weighted_median(values):
    """The lowest value that half of the weight does not exceed."""
    half, seen = sum(weight for _, weight in values) / 2, 0
    for value, weight in sorted(values):
        seen += weight
        if seen >= half:
            return value
    return math.nan


def change(define, requests, delay):
    """By how much a number changes at most if the client is late by this delay in some instants of all requests, or of half of them."""
    late, early = {"first": delay, "middle": delay, "last": delay}, {"sent": delay}
    by_arrival = sorted(requests, key=sent)
    first_half, second_half = by_arrival[: len(by_arrival) // 2], by_arrival[len(by_arrival) // 2:]
    # The halves matter to a period: its beginning and its end belong to different requests.
    cases = [(moved, moved) for moved in (early, {"first": delay}, {"last": delay}, late)]
    cases += [(early, late), (late, {}), ({"first": delay}, {}), ({}, late), ({"last": delay}, {})]
    exact = define(by_arrival)
    moved = [[request.delayed(**one) for request in first_half] + [request.delayed(**other) for request in second_half] for one, other in cases]
    return max(abs(define(requests) - exact) for requests in moved)


# --- The tools ---


@dataclasses.dataclass
class Load:
    """What is sent: `users`, or a rate if `users` is none."""

    requests: int
    users: int | None
    rate: int | None
    drawn: bool


FIXED = Load(FIXED_REQUESTS, USERS, None, False)


@dataclasses.dataclass
class Definition:
    """What a tool runs and Assay imports: the words of the command, the words that `assay import` gets, and the file or folder of results."""

    command: list
    imported: list
    results: str


@dataclasses.dataclass
class Tool:
    name: str
    environment: str
    format: str
    definitions: dict
    define: object
    drawn: Load
    # The kind of gaps between requests of an open loop, and what the tool's median is.
    arrivals: str
    rule: str
    e2e: str
    # The metric that counts the requests of the tool's numbers, what reads the duration of its rates from its files, and the words of its prompts.
    counted: str
    stated: object
    words: object
    explained: dict = dataclasses.field(default_factory=dict)


def aiperf(folder, url, load):
    users = ["--concurrency", load.users] if load.users else ["--request-rate", load.rate]
    spread = ["--isl-stddev", INPUT_STDDEV, "--osl-stddev", OUTPUT_STDDEV] if load.drawn else []
    command = [
        "aiperf", "profile", "--model", MODEL, "--url", url, "--endpoint-type", "chat", "--streaming", *users, "--request-count", load.requests,
        "--isl", INPUT_TOKENS, "--osl", OUTPUT_TOKENS, *spread, "--extra-inputs", "ignore_eos:true", "--random-seed", 7, "--tokenizer", "assay/words",
        "--ui", "none", "--artifact-dir", "results",
    ]
    return Definition(command, ["--", *command], "results")


def guidellm(folder, url, load):
    profile = {"kind": "concurrent", "streams": [load.users]} if load.users else {"kind": "constant", "rate": [load.rate]}
    spread = {"prompt_tokens_stdev": INPUT_STDDEV, "output_tokens_stdev": OUTPUT_STDDEV} if load.drawn else {}
    scenario = {"spec": {
        "backend": {"kind": "openai_http", "target": url, "model": MODEL},
        "profile": profile,
        "constraints": [{"kind": "max_requests", "count": load.requests}],
        "tokenizer": {"kind": "huggingface_auto", "model": str(folder.parent / "tokenizer")},
        "data": [{"kind": "synthetic_text", "prompt_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, **spread}],
    }}
    # A JSON document is a YAML document, too.
    (folder / "scenario.yaml").write_text(json.dumps(scenario, indent=1))
    command = ["guidellm", "run", "--config", "scenario.yaml", "--output", "kind=json,path=results.json", "--disable-console-interactive"]
    return Definition(command, ["scenario.yaml"], "results.json")


def genai_bench(folder, url, load):
    scenario = f"N({INPUT_TOKENS},{INPUT_STDDEV})/({OUTPUT_TOKENS},{OUTPUT_STDDEV})" if load.drawn else f"D({INPUT_TOKENS},{OUTPUT_TOKENS})"
    command = [
        "genai-bench", "benchmark", "--api-backend", "vllm", "--api-base", url, "--api-key", "none", "--api-model-name", MODEL,
        "--model-tokenizer", folder.parent / "tokenizer", "--task", "text-to-text", "--traffic-scenario", scenario, "--num-concurrency", load.users,
        "--max-requests-per-run", load.requests, "--max-time-per-run", 10, "--experiment-base-dir", ".", "--experiment-folder-name", "results",
        "--additional-request-params", '{"ignore_eos": true}',
    ]
    return Definition(command, ["--", *command], "results")


def inference_perf(folder, url, load):
    def lengths(mean, stddev):
        kind = "normal" if load.drawn else "fixed"
        spread = {"std_dev": stddev, "min": 1, "max": 2 * mean} if load.drawn else {"std_dev": 0, "min": mean, "max": mean}
        return {"type": kind, "mean": mean, **spread, "total_count": load.requests}

    stage = {"num_requests": load.requests, "concurrency_level": load.users} if load.users else {"rate": load.rate, "duration": load.requests // load.rate}
    config = {
        "server": {"type": "vllm", "model_name": MODEL, "base_url": url, "ignore_eos": True},
        "api": {"type": "completion", "streaming": True},
        "load": {"type": "concurrent" if load.users else "constant", "stages": [stage], "num_workers": 1, "base_seed": 7},
        "data": {"type": "random", "input_distribution": lengths(INPUT_TOKENS, INPUT_STDDEV), "output_distribution": lengths(OUTPUT_TOKENS, OUTPUT_STDDEV)},
        "tokenizer": {"pretrained_model_name_or_path": str(folder.parent / "tokenizer")},
        "storage": {"local_storage": {"path": "results"}},
    }
    (folder / "config.yml").write_text(json.dumps(config, indent=1))
    return Definition(["inference-perf", "--config_file", "config.yml"], ["config.yml"], "results/summary_lifecycle_metrics.json")


def package_file(venv, path):
    return next(venv.glob(f"lib/python3*/site-packages/{path}")).read_text()


def aiperf_words(venv):
    return package_file(venv, "aiperf/dataset/generator/assets/shakespeare.txt")


def genai_bench_words(venv):
    return package_file(venv, "genai_bench/data/sonnet.txt")


def guidellm_words(venv):
    """The words of Faker, from which it draws sentences, and the two numbers that each prompt begins with."""
    words = re.findall(r'"([^"\s]+)"', package_file(venv, "faker/providers/lorem/en_US/__init__.py"))
    spelled = [form for word in words for form in (word, word + ".", word.capitalize(), word.capitalize() + ".")]
    return " ".join([*spelled, *map(str, range(10_000))])


def inference_perf_words(_):
    """Any words: it draws from the tokenizer's vocabulary."""
    return " ".join(f"word{number}" for number in range(2000))


def aiperf_duration(results):
    """Its phase, which begins before the first request: `benchmark_duration` is another time."""
    summary = json.loads((results / "profile_export_aiperf.json").read_text())
    begin, end_of_phase = (datetime.datetime.fromisoformat(summary[name]) for name in ("start_time", "end_time"))
    return {"duration": (end_of_phase - begin).total_seconds()}


def guidellm_duration(results):
    report = json.loads(results.read_text())["benchmarks"][0]
    ended = [request["request_end_time"] for request in report["requests"]["successful"]]
    return {"duration": report["duration"], "ended in time": sum(at <= report["end_time"] for at in ended)}


def genai_bench_duration(results):
    return {"duration": json.loads(next(results.glob("*_time_*.json")).read_text())["aggregated_metrics"]["run_duration"]}


OPEN = Load(DRAWN_REQUESTS, None, RATE, True)
CLOSED = Load(DRAWN_REQUESTS - DRAWN_REQUESTS % DRAWN_USERS, DRAWN_USERS, None, True)
TOOLS = [
    Tool(
        "AIPerf", "aiperf-0.13.0", "aiperf", AIPERF, aiperf, OPEN, "poisson", "linear", "aiperf.e2e", "aiperf.valid_requests", aiperf_duration, aiperf_words,
    ),
    Tool(
        "guidellm", "guidellm-0.7.3", "guidellm", GUIDELLM, guidellm, OPEN, "constant", "weighted", "guidellm.e2e", "guidellm.successful_requests",
        guidellm_duration, guidellm_words,
        explained={
            "counted": "its report may lack the request that ended last, although it was finished: its scheduler counts it and may end before it has passed the "
            "update on (scheduler/worker_group.py, `request_updates`)",
            "guidellm.request_throughput": "without the requests that ended after the one of which its scheduler heard last (benchmark/schemas/accumulator.py, "
            "`measure_end`)",
        },
    ),
    Tool(
        "genai-bench", "genai-bench-0.0.5", "genai-bench", GENAI_BENCH, genai_bench, CLOSED, "none", "linear", "genai-bench.e2e",
        "genai-bench.completed_requests", genai_bench_duration, genai_bench_words,
        explained={
            "input": "prompts are short of the requested length, by a word for each two lines of its text that it joins without a space (sampling/text.py, "
            "`_generate_text_from_dataset`); it counts the tokens of each line alone",
            "requests": "it looks once a second if the number of requests is reached (cli/utils.py, `manage_run_time`), and counts those that end until then",
            "unfinished": "then it ends its users, and the requests that are open are in none of its numbers",
        },
    ),
    Tool(
        "inference-perf", "inference-perf-0.6.1", "inference-perf", INFERENCE_PERF, inference_perf, OPEN, "poisson", "linear",
        "inference-perf.request_latency", "inference-perf.successful_requests", lambda _: {}, inference_perf_words,
        explained={
            "requests": "it sends rate x duration requests, whenever the last one is due; Assay sends those that a Poisson process has in the duration",
        },
    ),
]


# --- Runs ---


class Failed(Exception):
    """A command that did not succeed, with its exit code and its last lines."""

    def __init__(self, words, ran):
        output = f"{ran.stdout[-1000:]}{ran.stderr[-2000:]}"
        super().__init__(f"{' '.join(map(str, words))}\nended with {ran.returncode}:\n{output}")
        self.code = ran.returncode


def call(folder, environment, *words):
    ran = subprocess.run([str(word) for word in words], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ran.returncode != 0:
        raise Failed(words, ran)
    return ran.stdout


@dataclasses.dataclass
class Run:
    """One run of one side: its numbers by metric and statistic, the requests that were finished, and what else the simulator was sent."""

    numbers: dict
    requests: list
    unfinished: int = 0
    tests: int = 0
    stated: dict = dataclasses.field(default_factory=dict)
    # The requests of the numbers, if they are not all that were finished.
    counted: list | None = None

    @property
    def measured(self):
        return self.requests if self.counted is None else self.counted


class Bench:
    """One tool beside Assay, in a scratch folder."""

    def __init__(self, programs, venv, tool, scratch):
        self.programs, self.venv, self.tool, self.scratch = programs, venv, tool, scratch
        (scratch / "home").mkdir(parents=True)
        self.environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(scratch / "home"), "TMPDIR": str(scratch), "HF_HOME": str(scratch / "hf"), "HF_HUB_OFFLINE": "1",
            "ASSAY_CONFIG": str(scratch / "config"), "ASSAY_STORE": str(scratch / "store"), "OPENAI_API_KEY": "none",
        }
        self.runs = self.repeated = 0
        self.tokenizer()

    def tokenizer(self):
        """A tokenizer that counts one token a word, in a folder, and where the hub's library looks for a model."""
        hub, commit = self.scratch / "hf/hub/models--assay--words", "0" * 40
        (hub / "refs").mkdir(parents=True)
        (hub / "refs/main").write_text(commit)
        text = self.scratch / "words.txt"
        text.write_text(self.tool.words(self.venv))
        call(self.scratch, self.environment, self.venv / "bin/python", "-c", TOKENIZER, text, hub / "snapshots" / commit)
        (self.scratch / "tokenizer").symlink_to(hub / "snapshots" / commit)

    def pair(self, load, settings):
        """Runs the tool, and then what is imported of the same definition, on the same port."""
        self.runs += 1
        folder = self.scratch / f"run-{self.runs}"
        folder.mkdir()
        with Simulator(self.programs, *map(str, settings)) as simulator:
            url = simulator.url
            definition = self.tool.define(folder, url, load)
            program, *words = definition.command
            call(folder, self.environment, self.venv / "bin" / program, *words)
            lines = simulator.requests()
        theirs = self.tool_run(folder / definition.results, lines)
        call(folder, self.environment, self.programs / "assay", "import", "--to", "imported", *definition.imported)
        pipeline = next((folder / "imported/pipelines").glob("*.yaml"))
        return theirs, self.assay_run(folder / "imported", pipeline, url.removeprefix("http://"), settings)

    def assay_run(self, folder, pipeline, address, settings):
        """Runs what was imported, again if no trial counts because the machine held the client up."""
        for attempt in range(MOST_RUNS):
            with Simulator(self.programs, "--listen", address, *map(str, settings)) as simulator:
                try:
                    shown = call(folder, self.environment, self.programs / "assay", "run", pipeline, "--json")
                except Failed as failure:
                    if failure.code != NO_VALID_TRIAL or attempt + 1 == MOST_RUNS:
                        raise
                    self.repeated += 1
                    continue
                lines = simulator.requests()
            result = json.loads(shown)["results"][0]
            total = result["requests"]["total"]
            numbers = {metric["metric"]: metric["median"] for metric in result["metrics"]}
            counted = last_attempt(measured_by_assay(lines), total)[-total:]
            return Run(numbers, [Request.of(line) for line in counted if line["ending"] == "finished"], tests=1)

    def tool_run(self, results, lines):
        finished = [Request.of(line) for line in lines if line["ending"] == "finished"]
        numbers = self.results(results)
        run = Run(numbers, finished, unfinished=len(lines) - len(finished), stated=self.tool.stated(results))
        number = round(numbers[self.tool.counted, "value" if (self.tool.counted, "value") in numbers else "mean"][0])
        if number != len(finished):
            run.counted = sorted(finished, key=end)[:number]
        return run

    def results(self, path):
        """The numbers of the tool as they are imported: by metric and statistic, and times in milliseconds where Assay's are."""
        body = json.loads(call(self.scratch, self.environment, self.programs / "assay", "import", "results", path, "--dry-run", "--json"))["body"]
        numbers = {}
        for row in body["rows"]:
            numbers[row["metric"], row["statistic"]] = (row["value"], row["unit"])
        return numbers


# --- Comparisons ---


def beside_assay(name):
    """What docs/reference/foreign.md states about each metric of a format: the metric of Assay, and the difference or `equal`."""
    page = (ROOT / "docs/reference/foreign.md").read_text()
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != 7 or not cells[1].startswith("`"):
            continue
        metric, beside = cells[1].strip("`"), cells[6]
        named = re.match(r"`([a-z0-9_]+)`: (.*)", beside)
        if beside == "equal":
            found[metric] = (metric, "equal")
        elif named:
            found[metric] = named.groups()
    return found


@dataclasses.dataclass
class Side:
    """A number of one side: the medians of its runs, of their truths and of the errors, and the error that is allowed."""

    number: float
    truth: float
    error: float
    allowed: float

    @property
    def fails(self):
        return abs(self.error) > self.allowed


@dataclasses.dataclass
class Row:
    """A metric of a tool beside Assay's. `by_definition` and `by_requests` are parts of the difference."""

    metric: str
    ours: str
    statistic: str
    tool: Side
    assay: Side | None = None
    # Assay's number if its truth is not known: the window of an open loop begins when nothing arrives.
    number: float | None = None
    by_definition: float | None = None
    by_requests: float | None = None

    @property
    def rest(self):
        return self.tool.number - self.assay.number - self.by_definition - self.by_requests

    def failures(self):
        if self.tool.fails:
            yield f"{self.metric} {self.statistic}: an error of {self.tool.error:+.3g} is more than {self.tool.allowed:.3g}"
        if self.assay and self.assay.fails:
            yield f"{self.ours} {self.statistic} of Assay: an error of {self.assay.error:+.3g} is more than {self.assay.allowed:.3g}"
        if self.assay and abs(self.rest) > self.tool.allowed + self.assay.allowed:
            yield f"{self.metric} {self.statistic}: a rest of {self.rest:+.3g} is more than {self.tool.allowed + self.assay.allowed:.3g}"


def side(numbers, define, runs, delay, gap, ranges, key):
    """One side of a row. The first load sets the range of the error, relative to the truth, and the second takes it."""
    truths = [define(run) for run in runs]
    errors = [number - true for number, true in zip(numbers, truths)]
    truth = statistics.median(truths)
    metric, _, which = key
    if len(runs) > 1:
        ranges[key] = (max(errors) - min(errors)) / abs(truth or 1)
    spread = ranges.get(key, 0) if len(runs) > 1 else SINGLE_RUN * max(ranges.get((metric, name, which), 0) for name in ("mean", "p50", "value"))
    changes = [change(lambda requests: define(dataclasses.replace(run, counted=requests)), run.measured, delay) for run in runs]
    rounding = 1e-9 * abs(truth)
    return Side(statistics.median(numbers), truth, statistics.median(errors), statistics.median(changes) + gap + spread * abs(truth) + rounding)


def compare(tool, metric, ours, statistic, pairs, delays, load, ranges):
    """One row: each side beside its truth, and the difference of the two beside what explains it."""
    theirs_runs, our_runs = [run for run, _ in pairs], [run for _, run in pairs]
    by_tool = lambda run: compute(tool.definitions[metric], statistic, run.measured, tool.rule, run.stated)
    by_assay = lambda run: compute(ASSAY[ours], statistic, run.measured)
    delay_of = {"p50": "p99" if load.drawn else "p50"}.get(statistic, "p90" if load.drawn else "mean")
    # Each gap may change by the delay, and with it the median of all gaps.
    gaps_by = [delay if ours == "icl_ms" and statistic == "p50" else 0 for delay in delays[delay_of]]
    scale = 1000 if ours.endswith("_ms") and theirs_runs[0].numbers[metric, statistic][1] == "s" else 1
    numbers = [run.numbers[metric, statistic][0] * scale for run in theirs_runs]
    row = Row(metric, ours, statistic, side(numbers, by_tool, theirs_runs, delays[delay_of][0], gaps_by[0], ranges, (metric, statistic, "tool")))
    name = ours if ours in RATES else f"{ours}_{statistic}"
    if name not in our_runs[0].numbers:
        return row
    own = [run.numbers[name] for run in our_runs]
    if ours in RATES and load.users is None:
        row.number = statistics.median(own)
        return row
    row.assay = side(own, by_assay, our_runs, delays[delay_of][1], gaps_by[1], ranges, (metric, statistic, "assay"))
    row.by_definition = statistics.median(by_tool(run) - by_assay(run) for run in theirs_runs)
    row.by_requests = row.tool.truth - row.by_definition - row.assay.truth
    return row


def rows(tool, beside, pairs, delays, load, ranges):
    numbers = pairs[0][0].numbers
    for metric in tool.definitions:
        named, _ = beside[metric]
        ours = NAMES.get(named, named)
        wanted = ("value",) if (metric, "value") in numbers else ("mean",) if ours in RATES else ("mean", "p50")
        for statistic in wanted:
            if (metric, statistic) in numbers:
                yield compare(tool, metric, ours, statistic, pairs, delays, load, ranges)


def show_rows(title, found):
    signed = lambda value: "-" if value is None else f"{value:+.2f}"
    plain = lambda value: "-" if value is None else f"{value:.2f}"
    table = [["metric", "of Assay", "", "tool", "truth", "error", "allowed", "Assay", "truth", "error", "allowed", "difference", "definition", "requests", "rest"]]
    for row in found:
        theirs, ours = row.tool, row.assay
        cells = [row.metric, row.ours, "" if row.statistic == "value" else row.statistic]
        cells += [plain(theirs.number), plain(theirs.truth), signed(theirs.error), plain(theirs.allowed)]
        if ours:
            cells += [plain(ours.number), plain(ours.truth), signed(ours.error), plain(ours.allowed)]
            cells += [signed(value) for value in (theirs.number - ours.number, row.by_definition, row.by_requests, row.rest)]
        else:
            cells += [plain(row.number)] + ["-"] * 7
        table.append(cells)
    print(f"\n  {title}")
    widths = [max(len(line[place]) for line in table) for place in range(len(table[0]))]
    for line in table:
        print("    " + "  ".join(f"{cell:<{width}}" if place < 3 else f"{cell:>{width}}" for place, (cell, width) in enumerate(zip(line, widths))).rstrip())


def lengths_text(values):
    if min(values) == max(values):
        return f"{values[0]}"
    return f"{statistics.mean(values):.1f} ± {statistics.pstdev(values):.1f}, {min(values)} to {max(values)}"


def in_flight(requests):
    """The most requests at a time."""
    changes = sorted([(request.sent, 1) for request in requests] + [(request.end, -1) for request in requests])
    now = most = 0
    for _, change_by in changes:
        now += change_by
        most = max(most, now)
    return most


def arrival_rate(requests):
    """Requests per second from the first to the last arrival, and the standard deviation of the gaps over their mean."""
    arrived = sorted(request.sent for request in requests)
    apart = [after - before for before, after in zip(arrived, arrived[1:])]
    return 1000 / statistics.mean(apart), statistics.pstdev(apart) / statistics.mean(apart)


def joined_lines(tool, venv):
    """The fewest and the most words that prompts of the fixed load lack if two words become one where two lines of the tool's text are joined."""
    words = [len(line.split()) for line in tool.words(venv).splitlines() if line.split()]
    return math.ceil(INPUT_TOKENS / max(words)) - 1, math.ceil(INPUT_TOKENS / min(words)) - 1


def compare_requests(tool, venv, load, pairs):
    """What both sides sent, and a failure for each thing that has to be equal and is not."""
    failures = []
    theirs = [request for run, _ in pairs for request in run.requests]
    ours = [request for _, run in pairs for request in run.requests]
    told = [("requests that were finished", f"{len(theirs)}", f"{len(ours)}")]
    if len(theirs) != len(ours) and not (load.drawn and "requests" in tool.explained):
        failures.append(f"{len(theirs)} requests and {len(ours)}")
    counted = sum(len(run.measured) for run, _ in pairs)
    told.append(("  of them in the numbers", f"{counted}", f"{len(ours)}"))
    if counted != len(theirs) and "counted" not in tool.explained:
        failures.append(f"{len(theirs)} requests were finished, and the tool counts {counted}")
    unfinished = sum(run.unfinished for run, _ in pairs)
    if unfinished:
        told.append(("requests that the client ended", f"{unfinished}", "0"))
        if "unfinished" not in tool.explained:
            failures.append(f"{unfinished} requests that were not finished")
    told.append(("test requests before the load", "0", f"{sum(run.tests for _, run in pairs)}"))
    for side, value in (("input", inputs), ("output", outputs)):
        one_side, other = sorted(map(value, theirs)), sorted(map(value, ours))
        told.append((f"{side} tokens", lengths_text(one_side), lengths_text(other)))
        if side in tool.explained:
            if not load.drawn:
                fewest, most = joined_lines(tool, venv)
                if not INPUT_TOKENS - most <= one_side[0] <= one_side[-1] <= INPUT_TOKENS - fewest:
                    failures.append(f"prompts of {one_side[0]} to {one_side[-1]} words, which joined lines do not explain")
        elif load.drawn:
            far = distance(one_side, other)
            told.append((f"  distance, of what 1 in 1,000 exceed", f"{far / MOST_DISTANCE:.2f}", ""))
            if far > MOST_DISTANCE:
                failures.append(f"{side} tokens of two distributions")
        elif one_side != other:
            failures.append(f"other {side} tokens")
    if load.users:
        most = [max(in_flight(run.requests) for run, _ in pairs), max(in_flight(run.requests) for _, run in pairs)]
        told.append(("most requests in flight", *map(str, most)))
        if most[0] != most[1]:
            failures.append(f"{most[0]} requests in flight and {most[1]}")
    else:
        found = [arrival_rate(theirs), arrival_rate(ours)]
        told.append(("requests/s", *(f"{rate:.2f}" for rate, _ in found)))
        told.append(("deviation of the gaps / their mean", *(f"{spread:.2f}" for _, spread in found)))
        if tool.arrivals == "poisson":
            failures += [f"{found_rate:.2f} requests/s, and {RATE} were requested" for found_rate, _ in found
                         if abs(math.log(found_rate / RATE)) > POISSON_ERRORS / math.sqrt(load.requests)]
        error = abs(math.log(found[0][0] / found[1][0]))
        most = POISSON_ERRORS * math.sqrt(1 / len(theirs) + 1 / len(ours)) if tool.arrivals == "poisson" else CONSTANT_ERROR
        if error > most:
            failures.append(f"{found[0][0]:.2f} requests/s and {found[1][0]:.2f}")
    return told, failures


def show_requests(title, tool, told):
    print(f"\n  {title}")
    table = [("", tool.name, "Assay"), *told]
    widths = [max(len(line[place]) for line in table) for place in range(3)]
    for line in table:
        print("    " + f"{line[0]:<{widths[0]}}  {line[1]:>{widths[1]}}  {line[2]:>{widths[2]}}".rstrip())


def client_delays(tool, theirs, ours):
    """The mean and percentiles of the latency of each side on a simulator without latencies, in milliseconds."""
    def of_tool(statistic):
        value, unit = theirs.numbers[tool.e2e, statistic]
        return value * (1000 if unit == "s" else 1)

    return {statistic: (of_tool(statistic), ours.numbers[f"e2e_ms_{statistic}"]) for statistic in ("mean", "p50", "p90", "p99")}


def prove(programs, venv, tool, scratch):
    """Runs one tool beside Assay, prints its tables, and returns what differs and must not."""
    bench = Bench(programs, venv, tool, scratch)
    beside = beside_assay(tool.format)
    control = bench.pair(FIXED, WITHOUT_LATENCY)
    fixed = [bench.pair(FIXED, SLOW) for _ in range(REPEATS)]
    drawn = [bench.pair(tool.drawn, SLOW)]
    delays, ranges = client_delays(tool, *control), {}
    print(f"\n{tool.name} ({tool.environment})")
    if bench.repeated:
        print(f"  repeated     {bench.repeated} runs of Assay of which no trial counted")
    print("  definition   " + " ".join(map(str, tool.define(scratch / "run-1", "http://ADDRESS", FIXED).command)).replace(str(scratch), "FOLDER"))
    print("  delay        " + ", ".join(f"{name} {of_tool:.1f} ms (of Assay {of_assay:.1f})" for name, (of_tool, of_assay) in delays.items()))
    failures = []
    for title, load, pairs in ((f"fixed load, {REPEATS} runs", FIXED, fixed), ("drawn load, 1 run", tool.drawn, drawn)):
        told, differ = compare_requests(tool, venv, load, pairs)
        show_requests(f"requests of the {title}", tool, told)
        found = list(rows(tool, beside, pairs, delays, load, ranges))
        show_rows(f"metrics of the {title}", found)
        failures += [f"{title}: {failure}" for failure in differ + [failure for row in found for failure in row.failures()]]
    print("\n  stated in docs/reference/foreign.md")
    stated = {(metric, sentence): None for metric, (_, sentence) in beside.items() if metric in tool.definitions}
    for metric, sentence in stated:
        print(f"    {metric}: {sentence}")
    for what, sentence in tool.explained.items():
        print(f"    {what}: {sentence}")
    reported = {metric for run, _ in fixed + drawn for metric, _ in run.numbers}
    for metric in sorted(set(beside) & reported - set(tool.definitions)):
        if metric in NOT_COMPARED:
            print(f"    {metric}: not compared, {NOT_COMPARED[metric]}")
        else:
            failures.append(f"{metric}: the page has a counterpart, and there is no comparison")
    failures += [f"{metric}: a definition here, and no number" for metric in tool.definitions if metric not in reported]
    failures += [f"{metric}: stated as equal, and computed otherwise" for metric, define in tool.definitions.items()
                 if beside[metric][1] == "equal" and define is not ASSAY[beside[metric][0]]]
    for failure in failures:
        print(f"  DIFFERS {failure}")
    if not failures:
        print("  nothing differs that has to be equal")
    return failures


def main(programs, cache):
    version = subprocess.run([programs / "assay", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    sys.stdout.reconfigure(line_buffering=True)
    today = datetime.datetime.now(datetime.timezone.utc).date()
    print(METHOD)
    print(f"{version}, {today}, {os.cpu_count()} CPUs, load average before the first run {os.getloadavg()[0]:.2f}")
    failed = False
    chosen = sys.argv[3:]
    for tool in TOOLS:
        venv = cache / f"peer-{tool.environment}"
        if chosen and tool.format not in chosen:
            continue
        if not (venv / "complete").exists():
            print(f"\n{tool.name}: {tool.environment} is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="assay-imports-") as scratch:
            try:
                failed |= bool(prove(programs, venv, tool, pathlib.Path(scratch)))
            except Failed as failure:
                print(f"\n{tool.name}: {failure}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2]).absolute()))
