"""A long run at a high request rate: whether memory and open descriptors of each process stay flat, and whether each request is accounted for.

    python3 ci/bench_soak.py PROGRAMS [MINUTES [RATE]]

Once in five seconds it reads, of each process of the run and of the simulator, the resident memory and the number of open descriptors, and of the
simulator the requests that have arrived and ended. The slope is that of Theil and Sen, the median over all pairs of readings of their slopes, so that buffers that fill
and empty do not decide; the readings of the first fifth, in which processes start and buffers reach their size, do not count. A process that was there for
less than half of the time has no slope.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from bench_streams import family, field, metric, outcomes  # noqa: E402

MODEL, TTFT_MS, ITL_MS, OUTPUT_TOKENS = "soak", 20, 5, 8
RATE = 1000
EVERY_S = 5
# The most that a flat process grows by over the readings that count: a tenth of its memory or what an allocator may keep, and a few descriptors.
GROWTH_SHARE, GROWTH_MIB, GROWTH_DESCRIPTORS = 0.1, 4.0, 2


def reading(process):
    """Resident memory in MiB and open descriptors of a process; none if it has ended."""
    try:
        memory = field(f"/proc/{process}/status", "VmRSS") / 1024
        return memory, len(os.listdir(f"/proc/{process}/fd"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def slope(points):
    """The median slope of all pairs of points (Theil and Sen)."""
    slopes = [(after - before) / (later - at) for number, (at, before) in enumerate(points) for later, after in points[number + 1:]]
    return statistics.median(slopes)


class Readings:
    """What was read of each process over time."""

    def __init__(self, begun):
        self.begun, self.names, self.taken, self.counts = begun, {}, {}, []

    def take(self, processes, url):
        at = time.monotonic() - self.begun
        for process, name in processes.items():
            if found := reading(process):
                self.names[process] = name
                self.taken.setdefault(process, []).append((at, *found))
        try:
            running, ended = metric(url, "vllm:num_requests_running"), metric(url, "vllm:request_success_total")
        except OSError:
            return
        self.counts.append((at, int(running), int(ended)))

    def judge(self, minutes):
        """Prints a line for each process, and returns whether all are flat."""
        flat, judged, first = True, 0, minutes * 60 / 5
        print(f"  {'process':<16} {'MiB at a fifth':>15} {'at the end':>11} {'slope':>15} {'descriptors':>12} {'slope':>12}")
        for process, taken in self.taken.items():
            counted = [one for one in taken if one[0] >= first]
            if len(counted) < 10 or counted[-1][0] - counted[0][0] < minutes * 30:
                continue
            took = (counted[-1][0] - counted[0][0]) / 60
            memory = slope([(at / 60, mib) for at, mib, _ in counted])
            descriptors = slope([(at / 60, open_files) for at, _, open_files in counted])
            middle = statistics.median(mib for _, mib, _ in counted)
            is_flat = memory * took <= max(GROWTH_MIB, GROWTH_SHARE * middle) and descriptors * took <= GROWTH_DESCRIPTORS
            flat, judged = flat and is_flat, judged + 1
            print(f"  {self.names[process]:<16} {counted[0][1]:>15.1f} {counted[-1][1]:>11.1f} {memory:>+8.3f} MiB/min {counted[-1][2]:>12}"
                  f" {descriptors:>+8.3f}/min{'' if is_flat else '  GROWS'}")
        return flat and judged > 0


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    minutes, rate = (float(text) for text in (sys.argv[2:] + ["30", str(RATE)][len(sys.argv) - 2:]))
    with tempfile.TemporaryDirectory(prefix="assay-soak-", dir=programs) as place:
        folder = pathlib.Path(place)
        # The truth of one request alone is kept, and no block of a prompt, of which evicted ones are remembered: so the simulator has nothing that grows either.
        simulator = subprocess.Popen(
            list(map(str, [programs / "assay-simulator", "--model", MODEL, "--ttft-ms", TTFT_MS, "--itl-ms", ITL_MS, "--max-num-seqs", 100000,
                           "--truth-requests", 1, "--truth-chunks", 1, "--prefix-cache", "false"])), stdout=subprocess.PIPE, text=True)
        url = simulator.stdout.readline().split()[-1]
        load = ["--rate", f"{rate:g}", "--duration", f"{minutes * 60:.0f}s", "--warmup", "0s", "--trials", 1, "--shards", 1]
        command = [programs / "assay", "bench", "--url", url, "--model", MODEL, *load, "--input-tokens", 16, "--output-tokens", OUTPUT_TOKENS, "--json"]
        environment = {"PATH": "/usr/bin:/bin", "HOME": place, "TMPDIR": place}
        begun = time.monotonic()
        print(f"{rate:g} requests/s for {minutes:g} minutes, {OUTPUT_TOKENS} tokens each, TTFT {TTFT_MS} ms and {ITL_MS} ms a token; "
              f"load average before it {os.getloadavg()[0]:.2f}", flush=True)
        with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
            run = subprocess.Popen(list(map(str, command)), cwd=place, env=environment, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
            readings = Readings(begun)
            while run.poll() is None:
                readings.take({**family(run.pid), simulator.pid: "assay-simulator"}, url)
                time.sleep(EVERY_S)
        took, finished = time.monotonic() - begun, int(metric(url, "vllm:request_success_total"))
        simulator.terminate()
        simulator.wait()
        counted, why = outcomes(folder, run.returncode)
        attempts = (folder / "err").read_text().count('"event":"trial_finished"')
    print(f"  {took:.0f} s in all, {attempts} attempt(s){why}")
    print("  minute: requests that the simulator has finished (in flight)")
    places = [readings.counts[round(share * (len(readings.counts) - 1) / 8)] for share in range(9)]
    print("    " + ", ".join(f"{at / 60:.1f}: {ended:,} ({running})" for at, running, ended in places))
    flat = readings.judge(minutes)
    # The simulator has also finished the test request.
    accounted = finished == counted.get("ok", 0) + 1 and set(counted) == {"ok"}
    print(f"  recorded outcomes of all attempts: {json.dumps(counted)}; finished by the simulator: {finished:,}, the test request among them")
    print(f"  memory and descriptors: {'flat' if flat else 'GROWING'}; requests: {'all accounted for' if accounted else 'NOT ACCOUNTED FOR'}")
    sys.exit(0 if flat and accounted else 1)


if __name__ == "__main__":
    main()
