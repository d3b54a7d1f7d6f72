"""Whether `assay explain` finds faults that are planted, and how often it reports where nothing was.

    python3 ci/bench_diagnosis.py PROGRAMS [SEEDS [FAULT...]]

A fault of a server is planted in one of two simulators, whose trials are interleaved in one run. A fault of the machine is there while one of two runs is
measured. Each seed is a recording of its own: a new run, with a workload of another seed. `clean` and `clean runs` are the same two ways without a fault.

For each fault: in how many recordings its rule holds, in how many it is the first finding, and which other rules held. A finding beside the planted one is
no mistake by itself: a machine whose processors are taken also answers later than its server accounts for.
"""

import asyncio
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

TRIALS, SECONDS, BASE = 5, 3, {"profile": "fast"}

# The fault, the rule that is to find it, and the settings of both simulators.
SERVERS = {
    "queue": ("server-queue", BASE, {**BASE, "max_num_seqs": 2}),
    "slow decode": ("server-decode", BASE, {**BASE, "itl_ms": 1.3}),
    "slow prefill": ("server-prefill", BASE, {**BASE, "ttft_ms": 9}),
    "prefix cache off": (
        "prefix-cache",
        {**BASE, "prefix_cache": "true", "prefill_per_token_us": 40},
        {**BASE, "prefix_cache": "false", "prefill_per_token_us": 40},
    ),
    "clean": (None, BASE, BASE),
}
BUSY = [sys.executable, "-c", "while True: pass"]
MACHINES = {"busy neighbours": ("cpu-contention", 6), "clean runs": (None, 0)}
DELAY = ("network delay", "network-path", 0.006)

WORKLOAD = """apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: load}
spec:
  type: serving
  model: simulated-8b
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  batching_policy: continuous
  stack: assay-simulator
  load: {mode: closed, concurrency: [4], duration: %ds}
  lengths: D(40,20)
  prefix: {system: 200}
  seed: '%s'
"""

PIPELINE = """apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {name: load}
spec:
  intent: exploratory
  workloads: [load]
  targets: %s
  trials: {count: %d, retry_budget: 100}
%s"""

COMPARISON = "  comparison: {baseline: {target: before}, candidate: {target: after}, variable_under_test: other, other: a planted fault}\n"


class Place:
    """A repository and a store of one recording."""

    def __init__(self, programs, folder, seed, targets, comparison=COMPARISON):
        self.assay, self.folder = programs / "assay", folder / "work"
        self.environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
        folder = self.folder
        (folder / "workloads/load").mkdir(parents=True)
        (folder / "pipelines").mkdir()
        (folder / "workloads/load/workload.yaml").write_text(WORKLOAD % (SECONDS, hashlib.sha256(str(seed).encode()).hexdigest()))
        (folder / "pipelines/load.yaml").write_text(PIPELINE % (json.dumps(targets), TRIALS, comparison))
        author = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        for words in (["init", "-q", "-b", "main", "."], ["add", "."], [*author, "commit", "-qm", "a recording"]):
            subprocess.run(["git", *words], cwd=folder, check=True)

    def run(self, *words):
        ran = subprocess.run([self.assay, *words], cwd=self.folder, env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ran.returncode not in (0, 21):
            sys.exit(f"assay {' '.join(words)} ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
        return ran.stdout

    def measure(self, name):
        self.run("run", "pipelines/load.yaml", "--run-id", name)

    def explain(self, *words):
        return json.loads(self.run("explain", *words, "--json"))["explanation"]


def simulator(name, config):
    return {"name": name, "kind": "simulator", "config": config}


@contextlib.contextmanager
def delayed(address, seconds):
    """A proxy before a server on this machine, through which each byte from the server comes later."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    host, port = address.removeprefix("http://").rsplit(":", 1)
    found = {}

    async def pump(reader, writer, delay):
        queue = asyncio.Queue()

        async def send():
            while (item := await queue.get()) is not None:
                due, data = item
                await asyncio.sleep(max(0.0, due - loop.time()))
                writer.write(data)
                await writer.drain()
            writer.close()

        sending = asyncio.ensure_future(send())
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                queue.put_nowait((loop.time() + delay, data))
        queue.put_nowait(None)
        with contextlib.suppress(ConnectionError):
            await sending

    async def serve(reader, writer):
        theirs, ours = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, ours, 0.0), pump(theirs, writer, seconds))

    async def start():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        found["port"] = server.sockets[0].getsockname()[1]
        ready.set()

    def work():
        asyncio.set_event_loop(loop)
        loop.create_task(start())
        loop.run_forever()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{found['port']}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextlib.contextmanager
def server(programs):
    process = subprocess.Popen(
        [programs / "assay-simulator", "--listen", "127.0.0.1:0", "--profile", "fast", "--model", "simulated-8b"], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip().removeprefix("listening on ")
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def neighbours(count):
    running = [subprocess.Popen(BUSY) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def record(programs, folder, fault, seed):
    """Returns the rule that is to find the fault, and the explanation of one recording."""
    if fault in SERVERS:
        rule, before, after = SERVERS[fault]
        place = Place(programs, folder, seed, [simulator("before", before), simulator("after", after)])
        place.measure("one")
        return rule, place.explain("one")
    if fault == DELAY[0]:
        with server(programs) as before, server(programs) as behind, delayed(behind, DELAY[2]) as after:
            targets = [{"name": name, "kind": "endpoint", "url": url} for name, url in (("before", before), ("after", after))]
            place = Place(programs, folder, seed, targets)
            place.measure("one")
        return DELAY[1], place.explain("one")
    rule, count = MACHINES[fault]
    place = Place(programs, folder, seed, [simulator("only", BASE)], comparison="")
    place.measure("before")
    with neighbours(count):
        place.measure("after")
    return rule, place.explain("after", "--against", "before")


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    faults = sys.argv[3:] or [*SERVERS, DELAY[0], *MACHINES]
    print(f"{seeds} recordings a fault; {TRIALS} trials of {SECONDS} s a side, 4 requests in flight\n")
    print("| planted | rule | found | first | other rules that held | conclusions |\n| --- | --- | ---: | ---: | --- | --- |")
    for fault in faults:
        found = first = 0
        others, conclusions = collections.Counter(), collections.Counter()
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                rule, explanation = record(programs, pathlib.Path(folder), fault, seed)
            held = [finding["rule"] for finding in explanation["findings"]]
            found += rule in held
            first += held[:1] == [rule]
            others.update(set(held) - {rule})
            conclusions[explanation["conclusion"]] += 1
        count = lambda number: "-" if rule is None else f"{number} of {seeds}"
        listed = ", ".join(f"{name} {number}" for name, number in others.most_common()) or "none"
        ended = ", ".join(f"{name} {number}" for name, number in conclusions.most_common())
        print(f"| {fault} | {rule or '-'} | {count(found)} | {count(first)} | {listed} | {ended} |", flush=True)


main()
