#!/usr/bin/env python3
"""Writes reference.json: what NumPy and SciPy say about the same samples, and a bootstrap and signs drawn by an independent ChaCha8.

Run in this folder with NumPy and SciPy installed: python3 reference.py
"""

import json
import math
import struct

import numpy as np
import scipy
from scipy import stats

SAMPLES = {
    "one": [4.25],
    "two": [1.0, 2.5],
    "five": [103.1, 99.7, 101.2, 100.4, 98.9],
    "ties": [2.0, 2.0, 3.0, 3.0, 3.0, 5.0, 8.0, 8.0, 1.0],
    "offset": [1e9 + x for x in (0.25, 0.5, 0.125, 0.75, 0.0, 0.375)],
    "negative": [-5.5, -1.25, 0.5, 2.75, -3.0, 10.0, 4.5, -0.75],
    "normal_21": [round(x, 6) for x in np.random.default_rng(1).normal(100.0, 5.0, 21)],
    "lognormal_40": [round(x, 6) for x in np.random.default_rng(2).lognormal(1.0, 0.8, 40)],
    "drifting_60": [round(x, 6) for x in 100.0 + 0.01 * np.arange(60) + np.random.default_rng(3).normal(0.0, 1.0, 60)],
}
QS = [0.0, 0.01, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0]
SEED = bytes(range(32))
RESAMPLES = 2_000


def present(value):
    return None if value is None or not math.isfinite(value) else float(value)


def describe(values):
    x = np.array(values)
    several = len(values) > 1
    return {
        "values": values,
        "quantiles": [[q, float(np.quantile(x, q, method="linear"))] for q in QS],
        "nearest_ranks": [[q, float(np.quantile(x, q, method="inverted_cdf"))] for q in QS],
        "mean": math.fsum(values) / len(values),
        "variance": float(np.var(x - x[0], ddof=1)) if several else None,
        "cv": present(stats.variation(x, ddof=1)) if several else None,
        "iqr": float(stats.iqr(x)),
        "mad": float(stats.median_abs_deviation(x)),
    }


def median_interval(n):
    """The ranks of SciPy's exact binomial quantile confidence interval, and the coverage of those ranks."""
    interval = stats.quantile_test(np.arange(1.0, n + 1.0), q=0, p=0.5).confidence_interval(0.95)
    low, high = int(interval.low), int(interval.high)
    assert low + high == n + 1
    return {"n": n, "low": low, "high": high, "level": 1.0 - 2.0 * float(stats.binom.cdf(low - 1, n, 0.5))}


def kendall(values):
    """The exact p-value of Kendall's tau against the order (no ties here), and the Theil-Sen slope."""
    order = np.arange(len(values))
    return {
        "values": values,
        "p": float(stats.kendalltau(order, values, method="exact").pvalue),
        "slope": float(stats.theilslopes(values, order).slope),
    }


def chacha8_words(seed, stream):
    """The ChaCha keystream with 8 rounds, a 64-bit block counter and a 64-bit stream number, as 32-bit words."""
    mask = 0xFFFFFFFF

    def quarter(s, a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & mask
            s[z] ^= s[x]
            s[z] = ((s[z] << turn) | (s[z] >> (32 - turn))) & mask

    key = list(struct.unpack("<8I", seed))
    counter = 0
    while True:
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *key]
        start += [counter & mask, counter >> 32, stream & mask, stream >> 32]
        state = start[:]
        for _ in range(4):
            for column in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
                quarter(state, *column)
            for diagonal in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
                quarter(state, *diagonal)
        yield from ((a + b) & mask for a, b in zip(state, start))
        counter += 1


def indices(seed, stream, n):
    reject_below = 2**32 % n
    for word in chacha8_words(seed, stream):
        product = word * n
        if product & 0xFFFFFFFF >= reject_below:
            yield product >> 32


def bootstrap(name, statistic, stream):
    x = np.sort(np.array(SAMPLES[name]))
    draw = indices(SEED, stream, len(x))
    replicates = np.array([statistic(x[[next(draw) for _ in x]]) for _ in range(RESAMPLES)])
    low, high = np.quantile(replicates, [0.025, 0.975])
    return {"sample": name, "statistic": statistic.__name__, "low": float(low), "high": float(high)}


def drawn_flips(values):
    """99,999 draws of signs by the same words, a bit for each difference in order of magnitude and 32 to a word. The values are whole
    numbers, so every sum is exact."""
    ordered = sorted((x for x in values if x != 0.0), key=lambda x: (abs(x), x))
    words = chacha8_words(SEED, 0)
    reached = 0
    for _ in range(99_999):
        flips = sum(next(words) << start for start in range(0, len(ordered), 32))
        # At least as much as was observed: what is flipped sums to 0 or less.
        reached += sum(x for place, x in enumerate(ordered) if flips >> place & 1) <= 0.0
    return {"differences": values, "p": (1 + reached) / 100_000}


def bca(name, statistic):
    """SciPy's own BCa interval from many resamples: another generator, so only near, within a share of the width."""
    found = stats.bootstrap(
        (SAMPLES[name],), statistic, n_resamples=200_000, batch=10_000, method="BCa", rng=np.random.default_rng(4)
    ).confidence_interval
    return {"sample": name, "statistic": statistic.__name__, "low": float(found.low), "high": float(found.high)}


def normal(x):
    return {"x": x, "cdf": float(stats.norm.cdf(x))}


def normal_quantile(p):
    return {"p": p, "x": float(stats.norm.ppf(p))}


REFERENCE = {
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "samples": {name: describe(values) for name, values in SAMPLES.items()},
    "median_intervals": [median_interval(n) for n in (6, 7, 8, 9, 10, 15, 20, 33, 51, 100, 1000, 3000)],
    "trends": [kendall(SAMPLES[name]) for name in ("five", "negative", "normal_21", "lognormal_40", "drifting_60")],
    "resamples": RESAMPLES,
    "bootstraps": [
        bootstrap(name, statistic, stream)
        for name in ("normal_21", "lognormal_40")
        for statistic, stream in ((np.median, 0), (np.mean, 1))
    ],
    "sign_flips": [drawn_flips([float(x) for x in np.random.default_rng(5).integers(-3, 6, n)]) for n in (24, 40)],
    "bcas": [bca(name, statistic) for name in ("normal_21", "lognormal_40") for statistic in (np.mean, np.median)],
    "normal_cdf": [normal(x) for x in (-30.0, -8.0, -3.0, -1.96, -0.5, 0.0, 0.1, 1.0, 2.5, 6.0)],
    "normal_quantile": [normal_quantile(p) for p in (1e-300, 1e-20, 1e-6, 0.001, 0.025, 0.07, 0.3, 0.5, 0.9, 0.975, 0.999999)],
}

with open("reference.json", "w", encoding="ascii") as file:
    json.dump(REFERENCE, file, indent=1)
    file.write("\n")
