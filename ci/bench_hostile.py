"""Hostile endpoints at 1,000 connections: what Assay's client holds in memory, how long it takes to end, and the outcome of each request.

    python3 ci/bench_hostile.py PROGRAMS [BEHAVIOUR...]

`hostile_endpoint.py` has the behaviours. A run has one trial, which is attempted three times because every request of it fails. Passes if the load generator
stays under its memory bar, the run ends in time, and each request of each attempt has an outcome.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.dont_write_bytecode = True
from bench_streams import family, field  # noqa: E402
from hostile_endpoint import BEHAVIOURS  # noqa: E402

CONNECTIONS, REQUESTS, TIMEOUT_S, ATTEMPTS = 1000, 1000, 5, 3
# The unfinished responses of one client hold 1 GiB at most; records, buffers of the kernel's sockets and code are beside it.
BAR_MEMORY_MIB = 1024 + 256
# Each attempt takes a timeout at most; start, signatures and the reading of the result are beside it.
BAR_WALL_S = ATTEMPTS * TIMEOUT_S + 45


def measure(programs, behaviour, place):
    endpoint = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("hostile_endpoint.py"), behaviour], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)
    try:
        url = endpoint.stdout.readline().split()[-1]
        command = [programs / "assay", "bench", "--url", url, "--model", "hostile", "--concurrency", CONNECTIONS, "--requests", REQUESTS, "--timeout",
                   f"{TIMEOUT_S}s", "--warmup", "0s", "--trials", 1, "--shards", 1, "--input-tokens", 16, "--output-tokens", 4, "--json"]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(place), "TMPDIR": str(place)}
        begun, most = time.monotonic(), 0
        with open(place / "out", "w") as out, open(place / "err", "w") as err:
            run = subprocess.Popen(list(map(str, command)), cwd=place, env=environment, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
            while run.poll() is None:
                most = max([most, *(peak(process) for process, name in family(run.pid).items() if name == "assay-execute")])
                time.sleep(0.1)
        took = time.monotonic() - begun
        with urllib.request.urlopen(f"{url}/counts", timeout=60) as response:
            counts = json.load(response)
    finally:
        endpoint.kill()
        endpoint.wait()
    return run.returncode, took, most / 1024, counts, (place / "err").read_text()


def peak(process):
    """The highest resident memory of a process in KiB; 0 if it has ended."""
    try:
        return field(f"/proc/{process}/status", "VmHWM")
    except (FileNotFoundError, ProcessLookupError):
        return 0


def outcomes(log):
    """The requests of the last attempt, the outcomes of them, and the reason that most have."""
    found = re.search(r"none of (\d[\d,]*) requests succeeded: ([^;\n(]*)(?:; most often `([^`]*)`)?", log)
    if not found:
        return None, {}, log[-300:]
    counted = {name: int(count.replace(",", "")) for count, name in re.findall(r"(\d[\d,]*) (\w+)", found.group(2))}
    return int(found.group(1).replace(",", "")), counted, found.group(3)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    passed = True
    print(f"{CONNECTIONS} connections, {REQUESTS} requests in each of {ATTEMPTS} attempts, timeout {TIMEOUT_S} s; bars: {BAR_MEMORY_MIB} MiB (the most of VmHWM "
          f"of the load generator), {BAR_WALL_S} s for the whole command")
    for behaviour in sys.argv[2:] or BEHAVIOURS:
        with tempfile.TemporaryDirectory(prefix="assay-hostile-") as place:
            code, took, memory, counts, log = measure(programs, behaviour, pathlib.Path(place))
        requests, counted, reason = outcomes(log)
        # The run ends with "no valid trial", which is the result of an endpoint at which nothing succeeds.
        is_well = code == 30 and requests == REQUESTS and sum(counted.values()) == REQUESTS and memory <= BAR_MEMORY_MIB and took <= BAR_WALL_S
        passed &= is_well
        print(f"  {behaviour:<15} {took:5.1f} s  {memory:7.1f} MiB  {counts['requests']:>5} requests arrived  "
              f"{json.dumps(counted)}  `{reason}`{'' if is_well else f'  FAILED (exit code {code})'}", flush=True)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
