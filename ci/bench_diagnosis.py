"""Whether `assay explain` finds faults that are planted in real processes, and how often it reports where nothing was.

    python3 ci/bench_diagnosis.py PROGRAMS [--trials TRIALS] [--seconds SECONDS] [SEEDS [FAULT...]]

A fault of a server is planted in one of two simulators, and one of the path before one of two servers; the trials of both are interleaved in one run. A fault of the machine is
there while one of two runs is measured. Each seed is a recording of its own: a new run, with a workload of another seed. `clean` and `clean runs` are the same two ways without a
fault. Lost packets are iptables' (`statistic`), bandwidth is limited by the kernel's token bucket (tc's tbf, in a class of htb) on the port of the server, and a server with a CPU quota is in a
control group, whose counters an exporter of this script states by the names that cAdvisor has for them. What this machine does not allow is a row with the reason.

For each fault: in how many recordings its rule holds, in how many it is the first finding, in how many the rule is named without being beyond doubt, and which other rules held. A finding beside the planted one is
no mistake by itself: a machine whose processors are taken also responds later than its server accounts for.
"""

import argparse
import asyncio
import collections
import contextlib
import functools
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

BASE = {"profile": "fast"}

# The fault, the rule that is to find it, and the settings of both simulators.
SERVERS = {
    "smaller batch limit": ("batch-limit", BASE, {**BASE, "max_num_seqs": 2}),
    "slow decode": ("server-decode", BASE, {**BASE, "itl_ms": 1.3}),
    "slow prefill": ("server-prefill", BASE, {**BASE, "ttft_ms": 9}),
    "prefix cache off": (
        "prefix-cache",
        {**BASE, "prefix_cache": "true", "prefill_per_token_us": 40},
        {**BASE, "prefix_cache": "false", "prefill_per_token_us": 40},
    ),
    "clean": (None, BASE, BASE),
}
PYTHON_LOOP = [sys.executable, "-c", "while True: pass"]
DELAY_S, RATE, QUOTA_SHARE, OTHERS = 0.006, "3mbit", 0.03, 6

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

# Writes past the page cache for the time of a trial; before each write it computes a checksum, or does nothing.
DISK_WORKLOAD = """apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: load}
spec:
  type: indicator
  script: {path: run.sh}
  metrics: [{path: written, unit: MB/s, better: higher}]
"""
DISK_SCRIPT = """#!/usr/bin/env python3
import hashlib, json, mmap, os, time
block = mmap.mmap(-1, 1 << 20)
file = os.open("written", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
begun, count = time.monotonic(), 0
while time.monotonic() - begun < %d:
    %s
    os.pwrite(file, block, (count %% 64) << 20)
    os.fdatasync(file)
    count += 1
print(json.dumps({"name": "disk", "@parameters": {}, "@result": {"written": count * 1.048576 / (time.monotonic() - begun)}}))
"""
# What the program does before each write.
CHECKSUM, NOTHING = "hashlib.sha256(block)", "pass"
DISK_NEIGHBOUR = """
import mmap, os, sys
block = mmap.mmap(-1, 1 << 20)
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
count = 0
while True:
    os.pwrite(file, block, (count % 64) << 20)
    os.fdatasync(file)
    count += 1
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

    def __init__(self, arguments, folder, seed, targets, comparison=COMPARISON, telemetry=(), disk=None):
        self.assay, self.folder = arguments.programs / "assay", folder / "work"
        self.environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
        folder = self.folder
        (folder / "workloads/load").mkdir(parents=True)
        (folder / "pipelines").mkdir()
        workload = DISK_WORKLOAD if disk else WORKLOAD % (arguments.seconds, hashlib.sha256(str(seed).encode()).hexdigest())
        (folder / "workloads/load/workload.yaml").write_text(workload)
        if disk:
            script = folder / "workloads/load/run.sh"
            script.write_text(DISK_SCRIPT % (arguments.seconds, disk))
            script.chmod(0o755)
        sources = f"  telemetry: {json.dumps(list(telemetry))}\n" if telemetry else ""
        (folder / "pipelines/load.yaml").write_text(PIPELINE % (json.dumps(targets), arguments.trials, comparison + sources))
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


class Skipped(Exception):
    """A fault that this machine does not allow, with the reason."""


def setting(*words):
    """Changes a setting of the kernel by a program of its own."""
    try:
        subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Skipped(f"`{words[0]}` is not there") from error
    except subprocess.CalledProcessError as error:
        raise Skipped(f"`{' '.join(map(str, words))}`: {error.stderr.strip()}") from error


@contextlib.contextmanager
def delayed(address, _):
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
        await asyncio.gather(pump(reader, ours, 0.0), pump(theirs, writer, DELAY_S))

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
        yield f"http://127.0.0.1:{found['port']}", ()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def port_of(address):
    return int(address.rsplit(":", 1)[1])


@contextlib.contextmanager
def lossy(share, address, _):
    """A share of the server's packets is lost."""
    rule = ["INPUT", "-i", "lo", "-p", "tcp", "--sport", port_of(address), "-m", "statistic", "--mode", "random", "--probability", share, "-j", "DROP"]
    setting("iptables", "-I", *rule)
    try:
        yield address, ()
    finally:
        setting("iptables", "-D", *rule)


@contextlib.contextmanager
def narrow(address, _):
    """Less bandwidth for what the server sends. The bucket holds one packet of the loopback device, which may have 64 KiB. Other packets are in no
    class of the hierarchy, and are not held."""
    setting("tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb")
    try:
        setting("tc", "class", "add", "dev", "lo", "parent", "1:", "classid", "1:2", "htb", "rate", "10gbit", "quantum", 200000)
        setting("tc", "qdisc", "add", "dev", "lo", "parent", "1:2", "tbf", "rate", RATE, "burst", "70kb", "latency", "2s")
        setting("tc", "filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "sport", port_of(address), "0xffff", "flowid", "1:2")
        yield address, ()
    finally:
        setting("tc", "qdisc", "del", "dev", "lo", "root")


@contextlib.contextmanager
def limited(address, process):
    """A server in a control group with a CPU quota, whose counters an exporter states."""
    top = pathlib.Path("/sys/fs/cgroup")
    is_old = (top / "cpu/cpu.cfs_quota_us").exists()
    group = (top / "cpu" if is_old else top) / f"assay-diagnosis-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Skipped(f"no control group can be made: {error}") from error
    try:
        quota = f"{int(QUOTA_SHARE * 100_000)}"
        try:
            if is_old:
                (group / "cpu.cfs_period_us").write_text("100000")
                (group / "cpu.cfs_quota_us").write_text(quota)
            else:
                (group / "cpu.max").write_text(f"{quota} 100000")
            (group / "cgroup.procs").write_text(str(process.pid))
        except OSError as error:
            raise Skipped(f"no CPU quota can be set: {error}") from error
        with exporter(group / "cpu.stat", process.pid) as url:
            yield address, ({"name": "cadvisor", "scrape": url},)
    finally:
        (group.parent / "cgroup.procs").write_text(str(process.pid))
        group.rmdir()


@contextlib.contextmanager
def exporter(stat, process):
    """The counters of a control group's quota, and the CPU time of its process, by cAdvisor's names."""

    def cpu_seconds():
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            counters = dict(line.split() for line in stat.read_text().splitlines())
            stated = {"cfs_periods_total": counters["nr_periods"], "cfs_throttled_periods_total": counters["nr_throttled"], "usage_seconds_total": cpu_seconds()}
            series = (f'# TYPE container_cpu_{name} counter\ncontainer_cpu_{name}{{pod="server"}} {value}\n' for name, value in stated.items())
            text = "".join(series).encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_address[1]}/metrics"
        serving.shutdown()


@contextlib.contextmanager
def shared(address, _):
    """A server whose places other clients take, too."""
    over = threading.Event()
    body = json.dumps({"model": "simulated-8b", "messages": [{"role": "user", "content": "others " * 40}], "max_tokens": 20}).encode()

    def send():
        connection = http.client.HTTPConnection("127.0.0.1", port_of(address))
        while not over.is_set():
            connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            connection.getresponse().read()
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(OTHERS)]
    for thread in threads:
        thread.start()
    try:
        yield address, ()
    finally:
        over.set()
        for thread in threads:
            thread.join()


@contextlib.contextmanager
def server(programs, *settings):
    process = subprocess.Popen(
        [programs / "assay-simulator", "--listen", "127.0.0.1:0", "--profile", "fast", "--model", "simulated-8b", *settings], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip().removeprefix("listening on "), process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def running(*commands):
    """Processes beside the measured ones."""
    processes = [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def neighbours(_):
    return running(*[PYTHON_LOOP] * 6)


def writers(folder):
    return running(*[[sys.executable, "-c", DISK_NEIGHBOUR, str(folder / f"neighbour-{number}")] for number in range(3)])


def nothing(_):
    return contextlib.nullcontext()


# The fault, the rule that is to find it, what is before or beside one of two servers, and the settings of both.
ENDPOINTS = {
    "queue filled by other clients": ("other-clients", shared, ["--max-num-seqs", "4"]),
    "delay on the path": ("network-path", delayed, []),
    "less bandwidth on the path": ("network-path", narrow, []),
    "packet loss of 5 %": ("packet-loss", functools.partial(lossy, 0.05), []),
    "packet loss of 1 %": ("packet-loss", functools.partial(lossy, 0.01), []),
    "CPU quota of the server": ("container-quota", limited, []),
}
# The fault, the rule, what is beside one of two runs, and what they do between writes to a disk, if they write.
MACHINES = {
    "busy neighbours": ("cpu-contention", neighbours, None),
    "slow disk, and a program that computes checksums": ("storage", writers, CHECKSUM),
    "slow disk, and a program that only writes": ("storage", writers, NOTHING),
    "clean runs": (None, nothing, None),
}


def record(arguments, folder, fault, seed):
    """Returns the rule that is to find the fault, and the explanation of one recording."""
    if fault in SERVERS:
        rule, before, after = SERVERS[fault]
        place = Place(arguments, folder, seed, [simulator("before", before), simulator("after", after)])
        place.measure("one")
        return rule, place.explain("one")
    if fault in ENDPOINTS:
        rule, plant, settings = ENDPOINTS[fault]
        with server(arguments.programs, *settings) as (before, _), server(arguments.programs, *settings) as (behind, process), plant(behind, process) as (after, telemetry):
            targets = [{"name": name, "kind": "endpoint", "url": url} for name, url in (("before", before), ("after", after))]
            place = Place(arguments, folder, seed, targets, telemetry=telemetry)
            place.measure("one")
        return rule, place.explain("one")
    rule, plant, disk = MACHINES[fault]
    place = Place(arguments, folder, seed, [{"name": "only", "kind": "host"} if disk else simulator("only", BASE)], comparison="", disk=disk)
    place.measure("before")
    with plant(folder):
        place.measure("after")
    return rule, place.explain("after", "--against", "before")


def main():
    known = [*SERVERS, *ENDPOINTS, *MACHINES]
    parser = argparse.ArgumentParser(description="Plants faults in real processes.")
    parser.add_argument("programs", type=lambda path: pathlib.Path(path).resolve(), help="the folder of Assay's programs")
    parser.add_argument("--trials", type=int, default=5, help="the trials of a side (5)")
    parser.add_argument("--seconds", type=int, default=3, help="how long a trial lasts (3)")
    parser.add_argument("seeds", type=int, nargs="?", default=5, help="the recordings of each fault (5)")
    parser.add_argument("faults", nargs="*", metavar="fault", help=", ".join(known).replace("%", "%%"))
    arguments = parser.parse_intermixed_args()
    if unknown := [fault for fault in arguments.faults if fault not in known]:
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(known)}")
    seeds, faults = arguments.seeds, arguments.faults or known
    print(f"{seeds} recordings a fault; {arguments.trials} trials of {arguments.seconds} s a side, 4 requests in flight\n")
    print("| planted | rule | found | first | not beyond doubt | other rules that held | conclusions |\n| --- | --- | ---: | ---: | ---: | --- | --- |")
    for fault in faults:
        found = first = unsure = 0
        others, conclusions = collections.Counter(), collections.Counter()
        for seed in range(1, seeds + 1):
            try:
                with tempfile.TemporaryDirectory() as folder:
                    rule, explanation = record(arguments, pathlib.Path(folder), fault, seed)
            except Skipped as error:
                print(f"| {fault} | skipped: {error} | | | | | |", flush=True)
                break
            held = [finding["rule"] for finding in explanation["findings"]]
            found += rule in held
            first += held[:1] == [rule]
            unsure += rule in [finding["rule"] for finding in explanation["unsure"]]
            others.update(set(held) - {rule})
            conclusions[explanation["conclusion"]] += 1
        else:
            show(fault, rule, seeds, [found, first, unsure], others, conclusions)


def show(fault, rule, seeds, counts, others, conclusions):
    counted = " | ".join("-" if rule is None else f"{number} of {seeds}" for number in counts)
    listed = ", ".join(f"{name} {number}" for name, number in others.most_common()) or "none"
    ended = ", ".join(f"{name} {number}" for name, number in conclusions.most_common())
    print(f"| {fault} | {rule or '-'} | {counted} | {listed} | {ended} |", flush=True)


main()
