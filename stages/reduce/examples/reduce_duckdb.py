"""Asks DuckDB for the quantiles that `reduce_bench` computes, of the same files with as many threads, and times it.

    pip install duckdb
    python stages/reduce/examples/reduce_duckdb.py FOLDER [THREADS]

The first query holds the quantiles and means of every latency, as reduce's quantile pass does (which takes 182 points of three
curves besides); under a closed loop nothing has an intended time, and the time at which a request was begun stands for it. The second
adds what reduce's first pass counts.
"""

import resource
import sys
import time

import duckdb

folder = sys.argv[1]
threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
TAIL = "[0.5, 0.9, 0.95, 0.99]"
LATENCIES = f"""
    avg(first_token_ns - dequeued_ns), quantile_cont(first_token_ns - dequeued_ns, {TAIL}),
    quantile_cont(first_token_ns - sent_ns, [0.5, 0.99]),
    quantile_cont(first_content_ns - dequeued_ns, [0.5, 0.99]),
    avg((last_token_ns - first_token_ns) / (output_tokens - 1)),
    quantile_cont((last_token_ns - first_token_ns) / (output_tokens - 1), {TAIL}),
    avg(last_token_ns - dequeued_ns), quantile_cont(last_token_ns - dequeued_ns, {TAIL}),
    quantile_cont(last_token_ns - sent_ns, [0.5, 0.99])
"""
REQUESTS = f"select {LATENCIES} from '{{file}}' where phase = 'measured' and outcome = 'ok'"
LATENESS = "select quantile_cont(sent_ns - dequeued_ns, [0.5, 0.99]) from '{file}' where phase = 'measured'"
COUNTS = """
    select outcome, count(*), sum(input_tokens), sum(output_tokens), sum(cached_tokens), min(sent_ns), max(sent_ns),
           count(*) filter (first_token_ns - dequeued_ns <= 200000000
                            and (last_token_ns - first_token_ns) <= 12000000 * (output_tokens - 1)),
           count(*) filter (abs(output_tokens - output_tokens_requested) * 20 > output_tokens_requested)
    from '{file}' where phase = 'measured' group by outcome
"""
GAPS = """
    select avg(gap), quantile_cont(gap, [0.5, 0.99]) from (
        select unnest(list_transform(range(2, len(chunk_at_ns) + 1), lambda i: chunk_at_ns[i] - chunk_at_ns[i - 1])) as gap
        from '{file}' where phase = 'measured' and outcome = 'ok')
"""


def timed(name, file, *queries):
    database = duckdb.connect()
    database.execute(f"set threads = {threads}")
    begun, before = time.monotonic(), time.process_time()
    rows = [database.execute(query.format(file=file)).fetchall() for query in queries]
    seconds, cpu = time.monotonic() - begun, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: {seconds:.2f} s (CPU {cpu:.2f} s) with {threads} threads; peak so far {peak} MiB")
    for row in rows:
        print("   ", row)


requests, streams = f"{folder}/requests.parquet", f"{folder}/streams.parquet"
timed("warm the file cache", requests, "select count(*), sum(first_token_ns) from '{file}'")
timed("quantiles of requests", requests, REQUESTS, LATENESS)
timed("quantiles and counts of requests", requests, REQUESTS, LATENESS, COUNTS)
timed("quantiles of chunk gaps", streams, GAPS)
