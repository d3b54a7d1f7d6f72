"""Very many streams that are open at a time, from one machine: what they cost in memory, and that each of them is accounted for.

    python3 ci/bench_streams.py PROGRAMS [STREAMS [CLIENTS]]

A process may have 20,000 open files here, and one address has some 28,000 ports for one other. So the streams are shared out: each client is a run of
`assay bench` of its own, and has a simulator of its own. A response lasts longer than all clients take to begin, so that all streams are open at a
time, which the simulators state themselves while they are. The client's memory is that of the processes that hold its streams (`assay-execute`), at
its highest (`VmHWM`); the kernel's is what `/proc/net/sockstat` and the slab grew by while all were open.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TOKENS, TTFT_S, ITL_S = 10, 20, 8
# Connections are opened meanwhile, which takes the CPUs that clients and simulators share for some twenty seconds: no measured request begins then.
WARMUP_S = 60
BAR_CLIENT_GIB = 2.0
MODEL = "slow"
PAGE = 4096
# The exit code of a run whose attempts do not count.
NO_VALID_TRIAL = 30


def simulator(programs, number, log):
    """A simulator of slow streams at an address of its own."""
    command = [programs / "assay-simulator", "--listen", f"127.0.0.{number + 1}:0", "--model", MODEL, "--ttft-ms", str(TTFT_S * 1000),
               "--itl-ms", str(ITL_S * 1000), "--max-num-seqs", "1000000", "--max-waiting", "1000000"]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=log, text=True)
    return process, process.stdout.readline().split()[-1]


def client(programs, folder, number, url, streams):
    """A run with one trial, whose streams are all open at a time: each user sends a request of the warm-up, and then a measured one on the same connection."""
    home = folder / f"home-{number}"
    home.mkdir()
    command = [programs / "assay", "bench", "--url", url, "--model", MODEL, "--concurrency", streams, "--requests", streams, "--trials", 1, "--shards", 1,
               "--warmup", f"{WARMUP_S}s", "--input-tokens", 4, "--output-tokens", TOKENS, "--timeout", "600s", "--json"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(folder)}
    return subprocess.Popen([str(part) for part in command], cwd=home, env=environment, stdout=open(home / "out", "w"), stderr=open(home / "err", "w"),
                            stdin=subprocess.DEVNULL)


def metric(url, name):
    """The sum of a metric over its labels."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as response:
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", response.read().decode(), re.MULTILINE)
    return sum(map(float, found))


def field(path, name):
    found = re.search(rf"^{name}:\s+(\d+)", pathlib.Path(path).read_text(), re.MULTILINE)
    return int(found.group(1)) if found else 0


def kernel():
    """Memory of the kernel's sockets and of its slab, in bytes."""
    sockets = sum(int(pages) for pages in re.findall(r"mem (\d+)", pathlib.Path("/proc/net/sockstat").read_text()))
    return {"sockets": sockets * PAGE, "slab": field("/proc/meminfo", "Slab") * 1024}


def family(root):
    """The processes that descend from one, itself included, with their names."""
    parents, names = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = path.read_text().rpartition(")")
        except OSError:
            continue
        parents[int(path.parent.name)], names[int(path.parent.name)] = int(after.split()[1]), before.partition("(")[2]
    found = {root}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return {process: names.get(process, "") for process in found}


def attempts(document):
    """What execute states of each attempt's requests, wherever that stands in a document."""
    if isinstance(document, dict) and "warmup_outcomes" in document:
        return [document]
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else []
    return [told for value in inner for told in attempts(value)]


def outcomes(home, code):
    """The outcomes of the requests of all attempts of a client, the warm-up's among them, by what execute signed, and why none of them counts, if so: memory and counts are good all
    the same when a busy machine makes the client late, which is what makes an attempt invalid here."""
    log = (home / "err").read_text()
    if code not in (0, NO_VALID_TRIAL):
        sys.exit(f"the client in {home.name} ended with {code}:\n{log[-3000:]}")
    folder = pathlib.Path(json.loads((home / "out").read_text())["folder"])
    counted = {}
    for part in (folder / "chain").glob("execution_part-*[0-9].json"):
        for told in attempts(json.loads(part.read_text())):
            for kind in ("outcomes", "warmup_outcomes"):
                for outcome, count in told[kind].items():
                    counted[outcome] = counted.get(outcome, 0) + int(count)
    reason = re.search(r"because: (.*)", log)
    return counted, f" (no attempt counts: {reason.group(1)})" if reason else ""


class Watch(threading.Thread):
    """Reads the memory of the processes that hold the streams, and what was open at most."""

    def __init__(self, urls):
        super().__init__(daemon=True)
        self.runs, self.urls, self.memory, self.most, self.kernel, self.over = [], urls, {}, 0, kernel(), threading.Event()

    def run(self):
        while not self.over.wait(0.5):
            for process, name in (found for run in self.runs for found in family(run.pid).items()):
                if name == "assay-execute":
                    try:
                        self.memory[process] = max(self.memory.get(process, 0), field(f"/proc/{process}/status", "VmHWM") * 1024)
                    except (FileNotFoundError, ProcessLookupError):
                        pass
            try:
                running = sum(int(metric(url, "vllm:num_requests_running")) for url in self.urls)
            except OSError:
                continue
            self.most = max(self.most, running)
            self.kernel = {name: max(self.kernel[name], value) for name, value in kernel().items()}


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    streams, clients = (int(text) for text in (sys.argv[2:] + ["100000", "6"][len(sys.argv) - 2:]))
    each = -(-streams // clients)
    with tempfile.TemporaryDirectory(prefix="assay-streams-") as place:
        folder = pathlib.Path(place)
        with open(folder / "simulators", "w") as log:
            simulators = [simulator(programs, number, log) for number in range(clients)]
            urls = [url for _, url in simulators]
            before, watch, load = kernel(), Watch(urls), os.getloadavg()[0]
            watch.start()
            begun = time.monotonic()
            runs = [client(programs, folder, number, url, each) for number, url in enumerate(urls)]
            watch.runs = runs
            codes = [run.wait() for run in runs]
            took = time.monotonic() - begun
            watch.over.set()
            watch.join()
            finished = [int(metric(url, "vllm:request_success_total")) for url in urls]
            for process, _ in simulators:
                process.terminate()
                process.wait()
        told = [outcomes(folder / f"home-{number}", code) for number, code in enumerate(codes)]
    print(f"load average before it {load:.2f}; {each * clients} streams from {clients} clients with a simulator each, {TOKENS} tokens every {ITL_S} s, {took:.0f} s in all")
    print(f"  open at a time, by the simulators: {watch.most}")
    print(f"  finished, by the simulators: {sum(finished)} (a test request of each client among them)")
    for number, (counted, why) in enumerate(told):
        print(f"  client {number}, outcomes of all attempts: {json.dumps(counted)}{why}")
    recorded = sum(counted.get("ok", 0) for counted, _ in told)
    print(f"  responses that the clients recorded as complete, and that the simulators finished: {recorded} and {sum(finished) - clients}"
          f" ({'each accounted for' if recorded == sum(finished) - clients else 'NOT EACH ACCOUNTED FOR'})")
    total = sum(watch.memory.values()) / 2**30
    largest = max(watch.memory.values()) / 2**30
    print(f"  memory of all clients: {total:.2f} GiB, {total * 2**30 / (each * clients) / 1024:.1f} KiB a stream; the largest process {largest:.2f} GiB"
          f" (bar {BAR_CLIENT_GIB} GiB: {'met' if total <= BAR_CLIENT_GIB else 'MISSED'})")
    grown = {name: (watch.kernel[name] - before[name]) / 2**20 for name in before}
    print(f"  memory of the kernel, of both ends: sockets {grown['sockets']:.0f} MiB, slab {grown['slab']:.0f} MiB")


if __name__ == "__main__":
    main()
