"""How large inputs are carried: a dataset of a million prompts and a trace of a hundred thousand requests, through a whole run.

The memory of a process is its `VmHWM`, read fifty times a second while it lives: what it took in its last moments may be missing.
"""

import functools
import http.server
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

from bench_examples import SCALE

PROMPTS, ROWS, BLOCK = round(1_000_000 * SCALE), round(100_000 * SCALE), 512
BAR_MEMORY_MIB = 128
WORDS = "the of and a to in is you that it he was for on are as with his they at be this have from or one had by word but not what all were we when".split()


def inputs(place, table):
    folder = place.folder / "inputs"
    folder.mkdir()
    draw = random.Random(1)
    with open(folder / "prompts.jsonl", "w") as file:
        for _ in range(PROMPTS):
            prompt = " ".join(draw.choices(WORDS, k=draw.randrange(20, 60)))
            file.write(json.dumps({"prompt": prompt, "output_tokens": draw.randrange(1, 4)}) + "\n")
    at = 0
    with open(folder / "trace.jsonl", "w") as file:
        for _ in range(ROWS):
            at, blocks = at + draw.choice([0, 0, 0, 1, 1]), draw.randrange(1, 4)
            ids = [draw.randrange(1000) for _ in range(blocks)]
            file.write(json.dumps({"timestamp": at, "input_length": blocks * BLOCK, "output_length": draw.randrange(1, 4), "hash_ids": ids}) + "\n")
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=folder))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{served.server_address[1]}/prompts.jsonl"
    size = (folder / "prompts.jsonl").stat().st_size / 2**20
    dataset = ["--dataset", address, "--requests", "1000", "--concurrency", "4", "--warmup", "0s"]
    carried(place, table, f"dataset of {PROMPTS:,} prompts, {size:.0f} MiB", dataset)
    carried(place, table, f"trace of {ROWS:,} requests", ["--trace", "trace.jsonl", "--trace-format", "mooncake", "--speed", "0.5"])
    served.shutdown()


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def carried(place, table, name, options):
    """One run of one trial: how long the plan took, how many requests succeeded, and the most memory that any of its processes took."""
    environment = {**place.environment, "ASSAY_CONFIG": str(place.config(32768))}
    command = [place.binaries / "assay", "bench", "--simulator", "instant", "--model", "assay-simulator", "--trials", "1", *options]
    log = place.folder / "inputs/log"
    with open(log, "w") as printed:
        ran = subprocess.Popen(command, cwd=place.folder / "inputs", env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed)
        peaks = watch(ran)
    text = log.read_text()
    if ran.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {ran.returncode}:\n{text}")
    plan, = re.findall(r"^  plan +([0-9.]+ m?s) ", text, re.MULTILINE)
    succeeded, = re.findall(r"all ([0-9,]+) (?:counted )?requests succeeded", text)
    table.add(name, f"plan {plan}, {succeeded} requests succeeded", "", None, "one run of `assay bench` of one trial; its line of the stage `plan`")
    largest = max(peaks, key=peaks.get)
    told = ", ".join(f"{program} {peak:.0f}" for program, peak in sorted(peaks.items(), key=lambda item: -item[1]) if peak >= 1)
    table.add("  memory", f"{peaks[largest]:.0f} MiB ({told})", f"{BAR_MEMORY_MIB} MiB", peaks[largest] / BAR_MEMORY_MIB, "the most of any process of that run")


def watch(ran):
    """The most memory of each program among a process and its descendants, in MiB, until it ends."""
    peaks = {}
    while ran.poll() is None:
        pending = [ran.pid]
        while pending:
            process = pending.pop()
            try:
                threads = os.listdir(f"/proc/{process}/task")
                for thread in threads:
                    pending += open(f"/proc/{process}/task/{thread}/children").read().split()
                status = dict(line.split(":", 1) for line in open(f"/proc/{process}/status") if ":" in line)
                name, peak = status["Name"].strip(), int(status["VmHWM"].split()[0]) / 1024
            except (OSError, KeyError):
                continue
            if name.startswith("assay"):
                peaks[name] = max(peaks.get(name, 0), peak)
        time.sleep(0.02)
    return peaks
