"""A search for the most load within the SLOs in real time: how far its results are from the truth, for each of some seeds.

    python3 ci/bench_search.py PROGRAMS [SEEDS [SECONDS]]

The engine is that of the search in virtual time, four times as fast: 32 places, 10 ms to the first token and 2.5 ms to each of 15 later ones, twice that when
full. The SLO is a TTFT of 37.5 ms for 99 of 100 requests. The truth is the highest rate of independent arrivals whose TTFT p99 meets it in 60,000 requests of the
simulator's own virtual time, to 0.4 %. Each seed has a simulator of its own and is one whole `assay bench --find-max rate`: the search, and then one trial of each load
of its grid, from which the result comes. SECONDS is the duration of each load.

Nothing is judged: five seeds are few. A person compares the last column with 5 %.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MODEL, TOKENS, SLO_MS = "searched", (128, 16), 37.5
ENGINE = ["--ttft-ms", "10", "--ttft-jitter-ms", "2.5", "--ttft-jitter-sigma", "0.5", "--itl-ms", "2.5", "--itl-jitter-ms", "0.5", "--load-factor", "2",
          "--max-num-seqs", "32"]
REQUESTS, PRECISION = 60_000, 1.004


def meets(programs, rate, seed):
    """Whether a long run in virtual time meets the SLO at a rate."""
    command = [programs / "assay-simulator", "predict", "--rate", rate, "--requests", REQUESTS, "--isl", TOKENS[0], "--osl", TOKENS[1], "--seed", f"{seed:x}", *ENGINE]
    found = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)
    return found["@result"]["ttft_ms_p99"] <= SLO_MS


def true_knee(programs):
    low, high = 128.0, 512.0
    while high > low * PRECISION:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if meets(programs, middle, 0xabc) else (low, middle)
    return low


def search(programs, folder, seed, seconds):
    """The exit code and what was printed of one search, with its wall time and the end of its search."""
    simulator = subprocess.Popen(list(map(str, [programs / "assay-simulator", "--model", MODEL, "--seed", f"{seed:x}", *ENGINE])), stdout=subprocess.PIPE, text=True)
    try:
        url = simulator.stdout.readline().split()[-1]
        place = folder / f"seed-{seed}"
        place.mkdir()
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(place), "TMPDIR": str(place)}
        options = ["--find-max", "rate", "--slo", f"ttft={SLO_MS}ms", "--duration", f"{seconds:g}s", "--trials", 1, "--seed", seed]
        command = [programs / "assay", "bench", "--url", url, "--model", MODEL, "--input-tokens", TOKENS[0], "--output-tokens", TOKENS[1], *options, "--json"]
        begun = time.monotonic()
        ran = subprocess.run(list(map(str, command)), cwd=place, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        took = time.monotonic() - begun
        found = json.loads(ran.stdout)["search"] if ran.stdout else {}
        end = {}
        if found.get("result"):
            shown = subprocess.run([programs / "assay", "show", found["result"], "--json"], cwd=place, env=environment, capture_output=True, text=True)
            end = json.loads(shown.stdout)["body"]["end"]
    finally:
        simulator.terminate()
        simulator.wait()
    if ran.returncode:
        print(ran.stderr[-600:], file=sys.stderr)
    return ran.returncode, found, end, took


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    seeds, seconds = (float(text) for text in (sys.argv[2:] + ["5", "5"][len(sys.argv) - 2:]))
    knee = true_knee(programs)
    print(f"TTFT within {SLO_MS:g} ms for 99 of 100: {knee:.1f} requests/s in virtual time, {REQUESTS:,} requests; load average before it {os.getloadavg()[0]:.2f}")
    print(f"  {'seed':>4} {'loads':>5} {'seconds':>7} {'search':>8} {'error':>7} {'result':>8} {'error':>7}  exit code", flush=True)
    with tempfile.TemporaryDirectory(prefix="assay-search-", dir=programs) as place:
        for seed in range(1, int(seeds) + 1):
            code, found, end, took = search(programs, pathlib.Path(place), seed, seconds)
            figures = ""
            for rate in [(end.get("bracket") or {}).get("crossing"), ((found or {}).get("max_load") or {}).get("median")]:
                figures += f" {rate:>8.1f} {(rate / knee - 1) * 100:>+6.1f}%" if rate else f" {'none':>8} {'':>7}"
            print(f"  {seed:>4} {len(found.get('observed', [])):>5} {took:>7.0f}{figures}  {code}{'' if found.get('max_load') else ' ' + json.dumps(found.get('max_load') or found.get('why'))}",
                  flush=True)


if __name__ == "__main__":
    main()
