"""How often the client's judgement of itself is wrong: short loads with a known truth, undisturbed and with planted disturbances.

    python3 ci/bench_validity.py PROGRAMS [REPEATS [SECONDS]]

PROGRAMS is a folder with `assay-simulator` and `examples/stalls`. Each trial has a simulator and a client of its own. The truth is the simulator's log:
from the arrival of a request to the write of its first token event, and between the writes of neighbouring ones. The errors are those of TTFT and ITL at
the 99th percentile. An error is small below both 5 % of the truth and 1 ms, and large above both. The larger one of a trial decides:

    false positive: an invalid trial whose errors are small
    miss:           a valid trial of which an error is large

Of misses, those beyond the bound that docs/statistics.md states are counted: TTFT more than 25 ms and 10 % above the truth.

The verdict is that of the load generator's rules, and of `cpu_throttled` for a client with a CPU quota. Beside it stand what the machine says of each
trial: the shares of time during which some task waited for a CPU (PSI), and of CPU time that the hypervisor took (steal).
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

SMALL_SHARE, SMALL_MS = 0.05, 1.0
BOUND_SHARE, BOUND_MS = 0.10, 25.0
MAX_THROTTLED_SHARE = 0.05
WARMUP_S = 0.5
PERIOD_US = 100_000
MODEL = ["--profile=instant", "--ttft-ms=20", "--ttft-jitter-ms=5", "--ttft-jitter-sigma=0.3", "--itl-ms=5", "--model=m", "--until-stdin-closes",
         "--listen=127.0.0.1:0", "--seed=1"]
BUSY = [sys.executable, "-c", "while True: pass"]


class Skipped(Exception):
    """A disturbance that this machine does not allow, with the reason."""


class Group:
    """A CPU control group of a quota, of version 1 or 2, that exists while the context does."""

    def __init__(self, share):
        self.quota_us, top = int(share * PERIOD_US), pathlib.Path("/sys/fs/cgroup")
        self.is_old = (top / "cpu/cpu.cfs_quota_us").exists()
        self.folder = (top / "cpu" if self.is_old else top) / f"assay-bench-{os.getpid()}"

    def __enter__(self):
        try:
            self.folder.mkdir()
            if self.is_old:
                (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self.folder / "cpu.cfs_quota_us").write_text(str(self.quota_us))
            else:
                (self.folder / "cpu.max").write_text(f"{self.quota_us} {PERIOD_US}")
        except OSError as error:
            self.__exit__()
            raise Skipped(f"no control group with a CPU quota can be made: {error}") from error
        return self

    def __exit__(self, *_):
        if self.folder.exists():
            self.folder.rmdir()

    def start_in(self, command):
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def throttled_s(self):
        fields = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(fields["throttled_time"]) / 1e9 if "throttled_time" in fields else int(fields["throttled_usec"]) / 1e6


def machine():
    """Seconds since boot: of CPU pressure (absent without PSI), stolen by the hypervisor, and of all CPU time."""
    try:
        pressure = int(pathlib.Path("/proc/pressure/cpu").read_text().split("total=")[1].split()[0]) / 1e6
    except OSError:
        pressure = None
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return pressure, ticks[7], sum(ticks)


def trial(programs, mode, seconds, disturb=None, group=None):
    simulator = subprocess.Popen([programs / "assay-simulator", *MODEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = simulator.stdout.readline().strip().rsplit("/", 1)[-1]
        command = [str(programs / "examples/stalls"), "client", address, mode, str(seconds)]
        before, began = machine(), time.monotonic()
        client = subprocess.Popen(group.start_in(command) if group else command, stdout=subprocess.PIPE, text=True)
        if disturb:
            disturb(client, seconds)
        output, _ = client.communicate(timeout=120)
        took, after = time.monotonic() - began, machine()
        if client.returncode:
            raise SystemExit(f"the client ended with {client.returncode}")
    finally:
        simulator.stdin.close()
        simulator.wait()
    found = json.loads(output)
    if not found["n"] or found["itl_n"] != found["true_itl_n"]:
        raise SystemExit(f"{found['itl_n']} gaps were measured and {found['true_itl_n']} are in the simulator's log, of {found['n']} requests")
    reason = found["verdict"] and found["verdict"].split(":")[0]
    if group and group.throttled_s() / took > MAX_THROTTLED_SHARE:
        reason = reason or "cpu_throttled"
    errors = [(found[of] / 1e6, found[f"true_{of}"] / 1e6) for of in ("p99_ns", "itl_p99_ns")]
    pressure = None if before[0] is None else (after[0] - before[0]) / took
    return {"reason": reason, "errors": errors, "pressure": pressure, "steal": (after[1] - before[1]) / max(after[2] - before[2], 1)}


def is_large(measured, truth):
    return abs(measured - truth) > max(SMALL_SHARE * truth, SMALL_MS)


def is_small(measured, truth):
    return abs(measured - truth) < min(SMALL_SHARE * truth, SMALL_MS)


def is_beyond_bound(measured, truth):
    return measured - truth > max(BOUND_SHARE * measured, BOUND_MS)


def stop(count, ms):
    """Stops and continues the client, at equal distances in its measured phase."""

    def disturb(client, seconds):
        time.sleep(WARMUP_S)
        for _ in range(count):
            time.sleep(max(seconds / (count + 1) - ms / 1e3, 0.02))
            client.send_signal(signal.SIGSTOP)
            time.sleep(ms / 1e3)
            client.send_signal(signal.SIGCONT)

    return lambda programs, mode, seconds: trial(programs, mode, seconds, disturb)


def beside_busy(programs, mode, seconds):
    busy = [subprocess.Popen(BUSY) for _ in range(os.cpu_count())]
    try:
        return trial(programs, mode, seconds)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def with_quota(share):
    def run(programs, mode, seconds):
        with Group(share) as group:
            return trial(programs, mode, seconds, group=group)

    return run


NOT_PLANTED = {
    "retransmissions": "netem would have to run in a network namespace of the trial",
    "memory pressure": "it would disturb the other programs of the machine",
    "a slow disk": "the client measures nothing that a disk delays",
}

DISTURBANCES = {
    "none": trial,
    "stopped 3 x 20 ms": stop(3, 20),
    "stopped 3 x 50 ms": stop(3, 50),
    "stopped 10 x 50 ms": stop(10, 50),
    "stopped 3 x 200 ms": stop(3, 200),
    "stopped 3 x 500 ms": stop(3, 500),
    "a busy process on each CPU": beside_busy,
    "CPU quota of 10 %": with_quota(0.10),
    "CPU quota of 3 %": with_quota(0.03),
}


def span(values, form):
    low, high = form.format(min(values)), form.format(max(values))
    return low if low == high else f"{low} to {high}"


def row(name, trials):
    valid = [one for one in trials if not one["reason"]]
    false_positives = sum(1 for one in trials if one["reason"] and all(is_small(*error) for error in one["errors"]))
    misses = sum(1 for one in valid if any(is_large(*error) for error in one["errors"]))
    beyond = sum(1 for one in valid if is_beyond_bound(*one["errors"][0]))
    reasons = sorted({one["reason"] for one in trials if one["reason"]})
    ttft, itl = ([measured - truth for measured, truth in (one["errors"][place] for one in trials)] for place in (0, 1))
    known = [one["pressure"] for one in trials if one["pressure"] is not None]
    cells = [name, f"{len(valid)} of {len(trials)}", span(ttft, "{:.1f}"), span(itl, "{:.1f}"), false_positives, misses, beyond,
             ", ".join(f"`{reason}`" for reason in reasons) or "-", f"{statistics.median(known):.0%}" if known else "absent",
             f"{statistics.median(one['steal'] for one in trials):.1%}"]
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
    return false_positives, misses, beyond, len(trials) - len(valid), len(valid)


def main():
    programs, repeats, seconds = (sys.argv[1:] + [None, None])[:3]
    programs, repeats, seconds = pathlib.Path(programs), int(repeats or 5), int(seconds or 4)
    print(f"{repeats} trials of {seconds} s in each loop; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs at the start\n")
    print("| disturbance | valid | TTFT p99 error, ms | ITL p99 error, ms | false positives | misses | beyond the bound | reasons | CPU pressure | steal |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    totals, skipped = [], []
    for name, run in DISTURBANCES.items():
        for mode in ("closed", "open"):
            try:
                totals.append(row(f"{name}, {mode}", [run(programs, mode, seconds) for _ in range(repeats)]))
            except Skipped as why:
                skipped.append(f"{name}, {mode}: {why}")
    false_positives, misses, beyond, invalid, valid = (sum(column) for column in zip(*totals))
    print(f"\n{false_positives} of {invalid} invalid trials are false positives; {misses} of {valid} valid trials are misses, "
          f"{beyond} of them beyond the bound")
    skipped += [f"{name}: {why}" for name, why in NOT_PLANTED.items()]
    for why in skipped:
        print(f"skipped: {why}")


if __name__ == "__main__":
    main()
