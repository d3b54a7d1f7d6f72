"""A search for the most load within the SLOs in real time: how far its results are from the truth, for each of some seeds and of some known limits.

    python3 ci/bench_search.py PROGRAMS [SEEDS [SECONDS]]

**Seeds.** The engine is that of the search in virtual time, four times as fast: 32 places, 10 ms to the first token and 2.5 ms to each of 15 later ones, twice that when
full. The SLO is a TTFT of 37.5 ms for 99 of 100 requests. The truth is the highest rate of independent arrivals whose TTFT p99 meets it in 60,000 requests of the
simulator's own virtual time, to 0.4 %. Each seed has a simulator of its own and is one whole `assay bench --find-max rate`: the search, and then one trial of each load
of its grid, from which the result comes. SECONDS is the duration of each load.

**Known limits.** `limited_endpoint.py` responds well to a limited number of requests at a time, and refuses, hangs or delays those beyond it. The most load follows from that limit and the mean
time that the endpoint held a request. Of a closed loop, it is the limit itself: beyond it, a client that is refused tries again at once, and every request finds the limit in
flight. A request that hangs ends only with the time limit, so a few clients may hang before they are 1 of 100 requests. Of a rate of independent arrivals, the share that is refused
is that of Erlang's loss formula, and the share that is late is how often a Poisson number reaches the limit. Each is a whole `assay bench --find-max` with five trials.

Nothing is judged: five seeds are few. A person compares the errors with 5 %, and looks whether the intervals hold the truth.
"""

import contextlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

MODEL, TOKENS, SLO_MS = "searched", (128, 16), 37.5
ENGINE = ["--ttft-ms", "10", "--ttft-jitter-ms", "2.5", "--ttft-jitter-sigma", "0.5", "--itl-ms", "2.5", "--itl-jitter-ms", "0.5", "--load-factor", "2",
          "--max-num-seqs", "32"]
REQUESTS, PRECISION = 60_000, 1.004
# The share of the requests that `--find-max` wants within the SLOs.
SHARE = 0.99
# The time limit of a request to an endpoint with a known limit.
TIMEOUT_S = 2


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


def search(programs, place, url, model, output_tokens, options):
    """The exit code and what was printed of one search, with its wall time and the end of its search."""
    place.mkdir()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place), "TMPDIR": str(place), "ASSAY_STORE": str(place / "store")}
    command = [programs / "assay", "bench", "--url", url, "--model", model, "--input-tokens", TOKENS[0], "--output-tokens", output_tokens, *options, "--json"]
    begun = time.monotonic()
    ran = subprocess.run(list(map(str, command)), cwd=place, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    took = time.monotonic() - begun
    found = json.loads(ran.stdout)["search"] if ran.stdout else {}
    end = {}
    if found.get("result"):
        shown = subprocess.run([programs / "assay", "show", found["result"], "--json"], cwd=place, env=environment, capture_output=True, text=True)
        end = json.loads(shown.stdout)["body"]["end"]
    if ran.returncode:
        print(ran.stderr[-600:], file=sys.stderr)
    return ran.returncode, found, end, took


@contextlib.contextmanager
def serving(command):
    """A server that states its address as the last word of its first line."""
    server = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


def failure(code, found):
    """The exit code, and the reason where there is no number."""
    return f"{code}{'' if found.get('max_load') else ' ' + json.dumps(found.get('why'))}"


def seeds_in_real_time(programs, folder, seeds, seconds):
    knee = true_knee(programs)
    print(f"TTFT within {SLO_MS:g} ms for 99 of 100: {knee:.1f} requests/s in virtual time, {REQUESTS:,} requests; load average before it {os.getloadavg()[0]:.2f}")
    print(f"  {'seed':>4} {'loads':>5} {'seconds':>7} {'search':>8} {'error':>7} {'result':>8} {'error':>7}  exit code", flush=True)
    for seed in range(1, seeds + 1):
        options = ["--find-max", "rate", "--slo", f"ttft={SLO_MS}ms", "--duration", f"{seconds:g}s", "--trials", 1, "--seed", seed]
        with serving([programs / "assay-simulator", "--model", MODEL, "--seed", f"{seed:x}", *ENGINE]) as url:
            code, found, end, took = search(programs, folder / f"seed-{seed}", url, MODEL, TOKENS[1], options)
        figures = ""
        for rate in [(end.get("bracket") or {}).get("crossing"), ((found or {}).get("max_load") or {}).get("median")]:
            figures += f" {rate:>8.1f} {(rate / knee - 1) * 100:>+6.1f}%" if rate else f" {'none':>8} {'':>7}"
        print(f"  {seed:>4} {len(found.get('observed', [])):>5} {took:>7.0f}{figures}  {failure(code, found)}", flush=True)


def lost_share(offered, limit):
    """Erlang's loss formula: the share of independent arrivals that find all places taken and leave."""
    share = 1.0
    for places in range(1, limit + 1):
        share = offered * share / (places + offered * share)
    return share


def share_at_limit(offered, limit):
    """How often a Poisson number of this mean is the limit at least."""
    return 1 - sum(math.exp(-offered) * offered**number / math.factorial(number) for number in range(limit))


def most_offered(share_beyond, limit):
    """The mean number of requests that want a place at which `1 - SHARE` of them get none."""
    low, high = 0.0, float(limit)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share_beyond(middle, limit) < 1 - SHARE else (low, middle)
    return low


def held_s(url):
    with urllib.request.urlopen(f"{url}/counts", timeout=60) as response:
        return json.load(response)["held_ms"] / 1000


def most_in_flight(way, limit, held):
    """The requests in flight of the largest closed loop in which `SHARE` of the requests are good."""
    good_per_s = limit / held
    hanging = (1 - SHARE) / SHARE * good_per_s * TIMEOUT_S if way == "hang" else 0
    return limit + int(hanging)


def most_arrivals(way, limit, held):
    """The highest rate of independent arrivals of which `SHARE` are good, per second."""
    return most_offered({"refuse": lost_share, "slow": share_at_limit}[way], limit) / held


# What is searched for, what the endpoint does with a request beyond its limit, the limit, and the truth.
LIMITS = [("concurrency", "refuse", 12, most_in_flight), ("concurrency", "hang", 6, most_in_flight), ("concurrency", "slow", 9, most_in_flight),
          ("rate", "refuse", 12, most_arrivals), ("rate", "slow", 12, most_arrivals)]


def known_limits(programs, folder, seconds):
    print(f"\nan endpoint of which the most load is known; five trials of {seconds:g} s a load; load average before it {os.getloadavg()[0]:.2f}")
    print(f"  {'search':<11} {'beyond':<6} {'limit':>5} {'loads':>5} {'seconds':>7} {'truth':>8} {'result':>8} {'error':>7} {'interval':>16}  exit code", flush=True)
    for kind, way, limit, most in LIMITS:
        options = ["--find-max", kind, "--slo", "ttft=25ms", "--timeout", f"{TIMEOUT_S}s", "--duration", f"{seconds:g}s", "--trials", 5, "--seed", 1]
        with serving([sys.executable, "-B", pathlib.Path(__file__).with_name("limited_endpoint.py"), way, limit]) as url:
            code, found, _, took = search(programs, folder / f"{kind}-{way}", url, "hostile", 4, options)
            truth = most(way, limit, held_s(url))
        figures = f"{'none':>8} {'':>7} {'':>16}"
        if result := found.get("max_load"):
            low_to_high = "[{:.1f}, {:.1f}]".format(*result["interval"]) if result.get("interval") else "none"
            figures = f"{result['median']:>8.1f} {(result['median'] / truth - 1) * 100:>+6.1f}% {low_to_high:>16}"
        print(f"  {kind:<11} {way:<6} {limit:>5} {len(found.get('observed', [])):>5} {took:>7.0f} {truth:>8.1f} {figures}  {failure(code, found)}", flush=True)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    seeds, seconds = (float(text) for text in (sys.argv[2:] + ["5", "5"][len(sys.argv) - 2:]))
    with tempfile.TemporaryDirectory(prefix="assay-search-", dir=programs) as place:
        if seeds:
            seeds_in_real_time(programs, pathlib.Path(place), int(seeds), seconds)
        known_limits(programs, pathlib.Path(place), seconds)


if __name__ == "__main__":
    main()
