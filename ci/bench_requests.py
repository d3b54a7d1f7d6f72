"""Very many requests in one run: the memory of each process, and whether time and bytes grow with the requests.

    python3 ci/bench_requests.py PROGRAMS [REQUESTS]

Two runs of `assay bench` of one trial, with a tenth of the requests and with all of them (1,000,000), to a simulator that answers at once with four
streamed tokens; then `assay verify` of each, and `--recompute`. The memory of a process is what it allocated, at its highest (`RssAnon`, read every 10 ms,
so that its last moments may be missed; pages of the program's own file are left out, since they depend on the profile), its time that from
its first sight to its last. Bytes are those of the store.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

CLIENTS, TOKENS = 64, 4
PROCESSES = ["assay", "assay-plan", "assay-provision", "assay-execute", "assay-collect", "assay-reduce", "assay-publish"]
READ_EVERY_S = 0.01


class Watch(threading.Thread):
    """Reads what Assay's processes hold, by their names, and how long each is there."""

    def __init__(self):
        super().__init__(daemon=True)
        self.memory, self.seen, self.over = {}, {}, threading.Event()

    def run(self):
        while not self.over.wait(READ_EVERY_S):
            now = time.monotonic()
            for status in pathlib.Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                name = text.split("\n", 1)[0].split("\t")[1]
                if name in PROCESSES and "RssAnon:" in text:
                    self.memory[name] = max(self.memory.get(name, 0), int(text.split("RssAnon:")[1].split()[0]))
                    first, _ = self.seen.get((name, status.parent.name), (now, now))
                    self.seen[name, status.parent.name] = first, now

    def of(self, name):
        """The seconds of the process of a name that was there longest, and the KiB of the one that held most."""
        return max((last - first for (seen, _), (first, last) in self.seen.items() if seen == name), default=0), self.memory.get(name, 0)


def watched(command, environment, folder):
    """Runs a command to its end: what it printed, and what was seen of its processes."""
    watch = Watch()
    watch.start()
    ran = subprocess.run([*map(str, command)], env=environment, cwd=folder, capture_output=True, text=True)
    watch.over.set()
    watch.join()
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.stdout, watch


def measure(programs, folder, url, requests):
    home = folder / f"home-{requests}"
    home.mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(folder)}
    bench = [programs / "assay", "bench", "--url", url, "--model", "quick", "--concurrency", CLIENTS, "--requests", requests, "--trials", 1, "--shards", 1,
             "--warmup", "0s", "--input-tokens", 4, "--output-tokens", TOKENS, "--json"]
    out, watch = watched(bench, environment, folder)
    result = json.loads(out)
    [found] = result["results"]
    kept = sum(path.stat().st_size for path in (home / ".local/share/assay").rglob("*") if path.is_file())
    row = {"requests": requests, "outcomes": found["requests"], "bytes": kept}
    row |= {name: watch.of(name) for name in PROCESSES}
    for more in ([], ["--recompute"]):
        command = ["verify", result["run_id"], *more]
        _, watch = watched([programs / "assay", *command], environment, folder)
        row[" ".join(["verify", *more])] = watch.of("assay")
    return row


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    requests = int((sys.argv[2:] or ["1000000"])[0])
    with tempfile.TemporaryDirectory(prefix="assay-requests-") as place:
        folder = pathlib.Path(place)
        process = subprocess.Popen([programs / "assay-simulator", "--listen", "127.0.0.1:0", "--model", "quick", "--max-num-seqs", "1000"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = process.stdout.readline().split()[-1]
            fewer, most = [measure(programs, folder, url, count) for count in (requests // 10, requests)]
        finally:
            process.terminate()
            process.wait()
    load = pathlib.Path("/proc/loadavg").read_text().split()[0]
    print(f"one trial, {CLIENTS} requests in flight, {TOKENS} tokens each; load average {load} at the end")
    for row in (fewer, most):
        print(f"  {row['requests']:>9,} requests: {json.dumps(row['outcomes'])}")
    print(f"  bytes of the store for each request more: {(most['bytes'] - fewer['bytes']) / (requests - requests // 10):.1f}")
    print(f"  {'':20} {'s':>8} {'of a tenth':>11} {'MiB':>7} {'of a tenth':>11}")
    for name in [*PROCESSES, "verify", "verify --recompute"]:
        (before_s, before_kib), (s, kib) = fewer[name], most[name]
        times = f"{s / before_s:9.1f} x" if before_s > 0 else f"{'-':>11}"
        more = f"{kib / before_kib:9.2f} x" if before_kib > 0 else f"{'-':>11}"
        print(f"  {name:20} {s:8.2f} {times} {kib / 1024:7.0f} {more}")


if __name__ == "__main__":
    main()
