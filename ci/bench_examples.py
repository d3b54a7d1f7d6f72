"""The figures that benchmarks beside the code print: this runs them, reads their tables, and sets them beside their bars.

Each of these programs measures what it is compared with in the same run, so that a ratio says more than its two sides.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys

SCALE = float(os.environ.get("ASSAY_BENCH_SCALE", "1"))
# Each run gives one sample of every figure. A small scale is for trying things out.
SAMPLES = 3 if SCALE >= 1 else 1

BAR_CLIENT_RATIO = 1.5
BAR_EVENT_US = 5.0
BAR_USER_US = 1.0
BAR_REQUEST_US = 50.0
BAR_PACING_US = 200.0
BAR_TTFT_US = 1000.0
BAR_TTFT_STREAMS = 64
BAR_QUANTILES_RATIO = 1.0
BAR_REDUCE_RATIO = 3.0
BAR_REDUCE_MIB = 512
BAR_PAGE_BYTES = 2_000_000
BAR_PAGE_OPENS_MS = 2000
PAGE_OPENINGS = 5

RECORDS = 10_000_000
STREAMS = 200_000
CHUNKS = 128

NUMBER = r"(-?\d+(?:\.\d+)?)"


class Samples:
    """Samples in some unit: the median, between the smallest and the largest."""

    def __init__(self, samples, unit, digits=2):
        self.samples, self.unit, self.digits = sorted(samples), unit, digits
        self.median = statistics.median(self.samples)

    def __str__(self):
        low, middle, high = (f"{value:,.{self.digits}f}" for value in (self.samples[0], self.median, self.samples[-1]))
        return f"{middle} {self.unit} ({low} .. {high}, n {len(self.samples)})"


def output(place, program, *arguments):
    """What a program prints; a failure of it is one of the benchmark."""
    environment = {**place.environment, "TMPDIR": str(place.folder / "tmp")}
    ran = subprocess.run([program, *map(str, arguments)], env=environment, cwd=place.folder, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, arguments))} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def numbers(pattern, text, program):
    """The numbers of every place where `pattern` holds, `#` being a number. None at all is a program that prints something else."""
    rows = re.findall(pattern.replace(" ", r"\s+").replace("#", NUMBER), text)
    if not rows:
        sys.exit(f"{program} prints nothing like `{pattern}`:\n{text}")
    return [[float(cell) for cell in ([row] if isinstance(row, str) else row)] for row in rows]


def example(place, name, *arguments):
    return output(place, place.binaries / "examples" / name, *arguments)


def client(place, table):
    printed = [example(place, "bench") for _ in range(SAMPLES)]
    loads = [numbers(r"\n +(\d+) (\d+) # # # #(?=\n)", text, "bench") for text in printed]
    for load in zip(*loads):
        streams, rate = (int(cell) for cell in load[0][:2])
        bare, ratio = (statistics.median(row[column] for row in load) for column in (2, 4))
        table.add(
            f"client, an event at {streams:,} streams, {rate:,}/s",
            f"{Samples([row[3] for row in load], 'us')}, {ratio:.2f} x bare",
            f"{BAR_CLIENT_RATIO} x bare",
            ratio / BAR_CLIENT_RATIO,
            "CPU time of the client's process an event, user and system, a run of 5 s less one of 1 s, over that of a loop of epoll "
            f"and read that parses nothing, on the same streams in the same run ({bare:.2f} us)",
        )
    fastest = max(zip(*loads), key=lambda load: load[0][1])
    rate = int(fastest[0][1])
    for name, column, bar in [("all in", 3, BAR_EVENT_US), ("user time beyond the bare loop", 5, BAR_USER_US)]:
        samples = Samples([row[column] for row in fastest], "us")
        table.add(f"  {name}, {rate:,}/s", samples, f"{bar:g} us", samples.median / bar, "of the row above, an event")
    requests = [numbers(r"bare # us, assay # us, ratio #", text, "bench")[0] for text in printed]
    cost, ratio = Samples([row[1] for row in requests], "us"), statistics.median(row[2] for row in requests)
    table.add(
        "client, a request that is not streamed",
        f"{cost}, {ratio:.2f} x bare",
        f"{BAR_REQUEST_US:g} us",
        cost.median / BAR_REQUEST_US,
        "CPU time of the client's process a request, 64 users, 80,000 requests less 20,000; beside a loop that writes and reads "
        "the same",
    )

    def lateness(who):
        return [numbers(rf"{who}: +p50 # us, p99 # us", text, "bench")[0][1] for text in printed]

    timer, paced = lateness("thread"), lateness("assay")
    late = Samples(paced, "us", 0)
    table.add(
        "client, p99 lateness of 10,000 requests/s",
        f"{late}, {late.median / statistics.median(timer):.1f} x a timer",
        f"{BAR_PACING_US:g} us",
        late.median / BAR_PACING_US,
        "sent less intended, 5 s against a server that only responds, after a thread that does nothing but wait for the same times "
        f"({statistics.median(timer):.0f} us)",
    )


def instructions(place, table):
    """What no other load of the machine changes. A client with clocks and sockets does not run under valgrind: it reads the vDSO, which valgrind hides."""
    if shutil.which("valgrind") is None:
        table.skip("client, instructions an event", "valgrind is not installed")
        return
    short, long = (counted_instructions(place.binaries / "examples/bench", "follow", times) for times in (20, 120))
    table.add(
        "client, instructions an event, parser and record",
        f"{(long - short) / 100_000:,.0f}",
        "",
        None,
        "callgrind: a response of 1,000 events of 235 bytes, followed in reads of one event 120 times, less 20 times; no clocks and no sockets",
    )


def counted_instructions(*command):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *map(str, command)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr}")
    return int(re.search(r"Collected : (\d+)", ran.stderr).group(1))


def ttft(place, table):
    printed = [example(place, "ttft_error", place.binaries / "assay-simulator", SCALE) for _ in range(SAMPLES)]
    loads = [numbers(r"\n +(\d+) (\d+) # # # # # #", text, "ttft_error") for text in printed]
    for load in zip(*loads):
        streams, requests = (int(cell) for cell in load[0][:2])
        middle, most, after = (statistics.median(row[column] for row in load) for column in (2, 4, 6))
        p99 = Samples([row[3] for row in load], "us", 0)
        has_bar = streams == BAR_TTFT_STREAMS
        table.add(
            f"TTFT error at {streams:,} stream{'s' if streams > 1 else ''}, p99",
            f"{p99}; p50 {middle:,.0f}, max {most:,.0f} us",
            f"{BAR_TTFT_US:g} us" if has_bar else "",
            p99.median / BAR_TTFT_US if has_bar else None,
            "measured TTFT less the simulator's own (arrival of the request to the write of the first token, `/truth`) of "
            f"{requests:,} requests, 50 events/s a stream, a core each; from the write to the client's stamp p99 {after:,.0f} us",
        )


def stalls(place, table):
    text = example(place, "stalls", place.binaries / "assay-simulator", 6 if SCALE >= 1 else 2)
    print(text, file=sys.stderr)
    [[missed]] = numbers(r"\n(\d+) rows are valid beyond the bound", text, "stalls")
    rows = re.findall(r"\n(?:closed|open) .*? (valid|client_\w+)", text)
    table.add(
        "stopped clients beyond the bound",
        f"{missed:.0f} of {len(rows)} rows; {len(rows) - rows.count('valid')} invalid",
        "0 rows",
        missed * 2,
        "clients that are stopped for 50 ms to 2 s, or starved: TTFT p99 within 25 ms or 10 % of the simulator's own, or the attempt is "
        "invalid; a simulator that stalls makes none invalid",
    )


def reduce(place, table):
    python = os.environ.get("ASSAY_BENCH_PYTHON", "python3")
    if subprocess.run([python, "-c", "import duckdb"], capture_output=True).returncode != 0:
        print("  reduce: not measured, because DuckDB is not there", file=sys.stderr)
        table.skip("reduce", "not measured: no DuckDB, which tests/foreign/install.sh installs")
        return
    script = place.root / "stages/reduce/examples/reduce_duckdb.py"
    threads = len(os.sched_getaffinity(0))
    folder = place.folder / "reduce"
    records, streams = (max(1000, int(count * SCALE)) for count in (RECORDS, STREAMS))
    passes, asked = [], []
    for _ in range(SAMPLES):
        text = example(place, "reduce_bench", folder, records, streams)
        seconds = r"# s \(CPU # s\)"
        passes.append(numbers(f"check {seconds}, first pass {seconds}, quantile pass {seconds}, whole {seconds}; peak # MiB", text, "reduce_bench"))
        responses = re.findall(rf"^([a-z ]+): {NUMBER} s", output(place, python, script, folder, threads), re.M)
        asked.append({query: float(wall) for query, wall in responses})
    of_requests, of_streams = zip(*passes)
    against = f"wall time with {threads} threads each, on the same file from the page cache, in turn with"
    rows = [
        (f"quantiles of {records:,} records", of_requests, 4, "quantiles of requests", BAR_QUANTILES_RATIO),
        ("  the whole of reduce", of_requests, 6, "quantiles and counts of requests", BAR_REDUCE_RATIO),
        (f"quantiles of {streams:,} x {CHUNKS} chunks", of_streams, 4, "quantiles of chunk gaps", None),
        ("  the whole of reduce", of_streams, 6, "quantiles of chunk gaps", None),
    ]
    for name, samples, column, query, bar in rows:
        own = Samples([row[column] for row in samples], "s")
        other = statistics.median(each[query] for each in asked)
        ratio = own.median / other
        table.add(
            name,
            f"{own}, {ratio:.2f} x DuckDB",
            f"{bar:g} x DuckDB" if bar else "",
            ratio / bar if bar else None,
            f"{against} DuckDB's `{query}` ({other:.2f} s)",
        )
    peak = Samples([row[8] for row in of_requests], "MiB", 0)
    table.add(
        "  its memory",
        peak,
        f"{BAR_REDUCE_MIB} MiB",
        peak.median / BAR_REDUCE_MIB,
        "the largest resident set of the process that wrote the records and reduced them",
    )


def report(place, table):
    pages = place.folder / "pages"
    pages.mkdir()
    rows = numbers(r"(\d+) loads: built in # ms, rendered in # ms, (\d+) bytes", example(place, "report_bench", pages), "report_bench")
    times = {int(loads): built + rendered for loads, built, rendered, _ in rows}
    most = max(rows)
    loads, size = int(most[0]), most[3]
    table.add(
        f"page of {loads:,} points",
        f"{size / 1e6:.2f} MB",
        f"{BAR_PAGE_BYTES / 1e6:g} MB",
        size / BAR_PAGE_BYTES,
        "bytes of the HTML of a made-up serving run, each point about thirty metrics of five trials",
    )
    fewer = loads // 10
    table.add(
        "  built and rendered",
        f"{times[loads]:.0f} ms, {times[loads] / times[fewer]:.1f} x that of {fewer:,} points",
        "",
        None,
        "median of five; ten times the points and ten times the time is linear",
    )
    browser = os.environ.get("ASSAY_BENCH_BROWSER")
    if browser is None:
        table.skip("  opens in a browser", "not measured: no Chromium, which tests/browser/install.sh installs")
        return
    printed = subprocess.run(
        ["node", os.path.join(browser, "opening.mjs"), pages / f"{loads}.html", str(PAGE_OPENINGS)], capture_output=True, text=True, check=True
    ).stdout
    drawn = Samples([row[2] for row in numbers(r"read # ms, loaded # ms, drawn # ms", printed, "opening.mjs")], "ms", 0)
    table.add(
        "  opens in a browser",
        drawn,
        f"{BAR_PAGE_OPENS_MS} ms",
        drawn.median / BAR_PAGE_OPENS_MS,
        "until headless Chromium has drawn all of the page, each time in a new window of 1,280 pixels",
    )


def warehouse(place, table):
    printed = example(place, "commit_bench", place.folder / "warehouse")
    rows = {int(row[0]): row[1:] for row in numbers(r"\n +(\d+) # # # #", printed, "commit_bench")}
    least, most = min(rows), max(rows)
    names = ["commit of a run", "  again, by a retry", "  list of a table's files", "  a sum over verified rows"]
    methods = [
        "all tables of one run, 200 rows in each fact",
        "the same run once more: every transaction is found",
        "the files of `outcome_fact` at its newest version",
        "`SELECT count(*), sum(value)`, every file hashed before it is read",
    ]
    for column, (name, method) in enumerate(zip(names, methods)):
        late, early = rows[most][column], rows[least][column]
        table.add(
            f"{name}, after {most:,} runs",
            f"{late:.1f} ms, {late / early:.1f} x that after {least}",
            "",
            None,
            f"{method}; median of 11",
        )
