#!/usr/bin/env python3
"""Writes comparing.json: what NumPy and SciPy say of quantiles, two-sample tests, pairs, shifts, outliers and correlated series.

Run in this folder, with NumPy 2 and SciPy 1.17 in an environment of their own; the tests only read what it wrote:

    python3 -m venv /tmp/scipy && /tmp/scipy/bin/pip install numpy scipy && /tmp/scipy/bin/python comparing.py

It draws from seeded generators only, so it writes the same file each time. Where SciPy has no function of its own (p-values given ties,
the interval of a shift, Geyer's sequence) the definition is computed the plain way, by listing every choice or in exact fractions. What
SciPy says of pairs is held to such counts as well.
"""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import scipy
from scipy import special, stats

METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear",
    "median_unbiased", "normal_unbiased",
]
ALTERNATIVES = ["two-sided", "less", "greater"]


def normal(seed, n, mean=100.0, sd=5.0):
    return [round(float(x), 6) for x in np.random.default_rng(seed).normal(mean, sd, n)]


def lognormal(seed, n, sigma=0.5):
    return [round(float(x), 6) for x in np.random.default_rng(seed).lognormal(1.0, sigma, n)]


def whole(seed, n, below):
    return [float(x) for x in np.random.default_rng(seed).integers(0, below, n)]


QUANTILE_SAMPLES = [
    [4.25], [1.0, 2.5], [3.0, 1.0, 2.0], [2.0, 2.0, 3.0, 3.0, 3.0, 5.0, 8.0, 8.0, 1.0], [-1e150, 1e150, 0.0, 1e-150],
    normal(1, 21), lognormal(2, 40), [1e9 + x for x in normal(3, 10, 0.0, 1.0)], whole(4, 64, 30),
]
# Products n q that are not whole by a rounding error alone are left out: NumPy takes them as they are, Assay as they are meant.
QS = [0.0, 0.013, 0.1, 0.25, 0.3, 0.5, 0.617, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0]


def quantiles(values):
    def meant(q):
        product = len(values) * q
        return product == round(product) or abs(product - round(product)) > 1e-9

    found = [[method, q, float(np.quantile(values, q, method=method))] for method in METHODS for q in QS if meant(q)]
    return {"values": values, "quantiles": found}


def quantile_interval(n, q, level):
    """Ranks by scanning the binomial distribution; equal tails, and an extreme sample where an end cannot lie that far out."""
    def below(rank):  # the quantile lies below the sample of this one-based rank
        return float(stats.binom.cdf(rank - 1, n, q))

    def above(rank):
        return float(stats.binom.sf(rank - 1, n, q))

    half = (1.0 - level) / 2.0
    low_limit = (1.0 - level) - above(n) if above(n) > half else half
    high_limit = (1.0 - level) - below(1) if below(1) > half else half
    low = max([rank for rank in range(1, n + 1) if below(rank) <= low_limit], default=1)
    high = min([rank for rank in range(1, n + 1) if above(rank) <= high_limit], default=n)
    coverage = 1.0 - below(low) - above(high)
    return {"n": n, "q": q, "level": level, "low": low, "high": high, "coverage": coverage}


PAIRS = {
    "one and one": ([1.0], [2.0]),
    "one and three": ([2.5], [1.0, 2.0, 3.0]),
    "apart": ([2.0, 1.0, 3.0, 5.0], [12.0, 11.0, 13.0, 15.0]),
    "mixed": ([2.0, 1.0, 3.0, 5.0], [0.0, 4.0, 6.0, 7.0]),
    "one value against many": ([2.0, 1.0, 3.0, 5.0], [2.0, 2.0, 2.0, 2.0]),
    "ties": ([1.0, 1.0, 2.0, 3.0, 3.0], [1.0, 2.0, 2.0, 3.0, 4.0, 4.0]),
    "ties 7 v 8": (whole(11, 7, 6), whole(12, 8, 7)),
    "ties 9 v 9": (whole(13, 9, 12), whole(14, 9, 14)),
    "extreme": ([-1e150, 1e-150, 3.0], [1e150, 0.0, 2.0, 5.0]),
    "small magnitudes": ([1e-140, 3e-140, 2e-140], [5e-140, 4e-140, 2.5e-140]),
    "12 v 12": (normal(15, 12), normal(16, 12, 104.0)),
    "20 v 20": (normal(17, 20), normal(18, 20, 103.0, 8.0)),
    "5 v 400": (normal(19, 5, 106.0), normal(20, 400)),
    "50 v 50": (lognormal(21, 50), lognormal(22, 50, 0.7)),
    "100 v 100": (lognormal(23, 100), lognormal(24, 100, 0.7)),
    "ties 60 v 80": (whole(25, 60, 25), whole(26, 80, 28)),
    "ramps": ([float(x) for x in range(500)], [float(x) for x in range(600)]),
    "far apart": (normal(27, 80), normal(28, 90, 140.0)),
}
EXACT_PAIRS = 2_500
LISTED_CHOICES = 60_000


def choices(first, second):
    """Every way to choose the first sample from all values."""
    pool = list(first) + list(second)
    for chosen in itertools.combinations(range(len(pool)), len(first)):
        inside = set(chosen)
        yield [pool[i] for i in chosen], [pool[i] for i in range(len(pool)) if i not in inside]


def doubled_u(first, second):
    return sum((a > b) + (a >= b) for a in first for b in second)


def listed_mann_whitney(first, second):
    seen = doubled_u(first, second)
    found = [doubled_u(a, b) for a, b in choices(first, second)]
    less = Fraction(sum(u <= seen for u in found), len(found))
    greater = Fraction(sum(u >= seen for u in found), len(found))
    return {"two-sided": float(min(1, 2 * min(less, greater))), "less": float(less), "greater": float(greater)}


def tied(first, second):
    return len(set(first) | set(second)) < len(first) + len(second)


def mann_whitney(name):
    first, second = PAIRS[name]
    exact = len(first) * len(second) <= EXACT_PAIRS
    if exact and tied(first, second):
        assert math.comb(len(first) + len(second), len(first)) <= LISTED_CHOICES
        p, computation = listed_mann_whitney(first, second), "exact_with_ties"
    else:
        method, computation = ("exact", "exact") if exact else ("asymptotic", "normal")
        p = {a: float(stats.mannwhitneyu(first, second, alternative=a, method=method).pvalue) for a in ALTERNATIVES}
    u = float(stats.mannwhitneyu(first, second, method="asymptotic").statistic)
    return {"name": name, "first": first, "second": second, "u": u, "p": p, "computation": computation}


def scaled_distance(first, second):
    n, m = len(first), len(second)
    return max(abs(sum(a <= x for a in first) * m - sum(b <= x for b in second) * n) for x in [*first, *second])


def kolmogorov_smirnov(name):
    first, second = PAIRS[name]
    exact = len(first) * len(second) <= 10_000
    distance = float(stats.ks_2samp(first, second, method="asymp").statistic)
    if exact and tied(first, second):
        if math.comb(len(first) + len(second), len(first)) > LISTED_CHOICES:
            return None
        seen = scaled_distance(first, second)
        found = [scaled_distance(a, b) >= seen for a, b in choices(first, second)]
        p = float(Fraction(sum(found), len(found)))
    elif exact:
        p = float(stats.ks_2samp(first, second, method="exact").pvalue)
    else:
        n, m = len(first), len(second)
        p = float(special.kolmogorov(math.sqrt(n * m / (n + m)) * distance))
    return {"name": name, "distance": distance, "p": p, "exact": exact}


def welch(name):
    # In units of the largest value: SciPy's degrees of freedom overflow or vanish with the fourth power of the values.
    unit = max(abs(x) for side in PAIRS[name] for x in side)
    first, second = ([x / unit for x in side] for side in PAIRS[name])
    found = {a: stats.ttest_ind(first, second, equal_var=False, alternative=a) for a in ALTERNATIVES}
    return {
        "name": name,
        "t": float(found["less"].statistic),
        "df": float(found["less"].df),
        "p": {a: float(found[a].pvalue) for a in ALTERNATIVES},
    }


def untied_tail(n, m):
    """P(U <= u) for every u, counted by the recurrence of Mann and Whitney in whole numbers."""
    counts = [[None] * (m + 1) for _ in range(n + 1)]
    for i in range(n + 1):
        for j in range(m + 1):
            if i == 0 or j == 0:
                counts[i][j] = [1]
                continue
            row = [0] * (i * j + 1)
            for u, ways in enumerate(counts[i - 1][j]):
                row[u + j] += ways
            for u, ways in enumerate(counts[i][j - 1]):
                row[u] += ways
            counts[i][j] = row
    total = math.comb(n + m, n)
    return [Fraction(x, total) for x in itertools.accumulate(counts[n][m])]


def shift(name, level):
    first, second = PAIRS[name]
    n, m = len(first), len(second)
    differences = sorted(b - a for a in first for b in second)
    half = (1.0 - level) / 2.0
    if n * m <= EXACT_PAIRS:
        tail = [float(p) for p in untied_tail(n, m)]
    else:
        sd = math.sqrt(n * m * (n + m + 1) / 12.0)
        tail = [float(p) for p in stats.norm.cdf((np.arange(n * m) + 0.5 - n * m / 2.0) / sd)]
    rank = max([u for u in range((n * m + 1) // 2) if tail[u] <= half], default=0)
    return {
        "name": name,
        "level": level,
        "estimate": float(np.median(differences)),
        "low": differences[rank],
        "high": differences[-1 - rank],
        "coverage": 1.0 - 2.0 * tail[rank],
        "delta": float(Fraction(sum((b > a) - (b < a) for a in first for b in second), n * m)),
    }


def ratio(name, level):
    """The shift of NumPy's logarithms, taken back by exp."""
    PAIRS["logarithms"] = tuple([float(x) for x in np.log(side)] for side in PAIRS[name])
    found = shift("logarithms", level)
    del PAIRS["logarithms"]
    return {"name": name, "level": level} | {key: math.exp(found[key]) for key in ("estimate", "low", "high")}


DIFFERENCES = {
    "one": [0.5],
    "three alike": [2.0, 2.0, 2.0],
    # Hollander and Wolfe, "Nonparametric Statistical Methods", 1973, p. 29: the depression scale before and after, as in R's
    # help(wilcox.test), which says V = 40 and p = 0.01953, and of the shift 0.46, from 0.010 to 0.786.
    "depression": [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01],
    "ties and zeros": [1.0, 2.0, 2.0, -3.0, 3.0, 0.0, 4.0, -1.0, 5.0, 5.0, 0.0],
    # Decimal fractions: 0.1 + 0.2 is 0.3, but not in binary.
    "decimals": [0.1, 0.2, -0.3, 0.3, 0.6, -0.1, 0.7, 0.4],
    "15": normal(51, 15, 0.4, 1.0),
    "ties 18": [x - 3.0 for x in whole(52, 20, 9)],
    "30, far out": normal(53, 30, 2.0, 1.0),
    "60": normal(54, 60, 0.3, 1.0),
    "ties 60": [x - 8.0 for x in whole(55, 60, 21)],
    "200": normal(56, 200, 0.25, 1.0),
    "ties 200": [x - 25.0 for x in whole(57, 200, 61)],
    "201": normal(58, 201, -0.2, 1.0),
    "ties 300": [x - 12.0 for x in whole(59, 300, 31)],
    "1000": normal(60, 1000, 0.15, 1.0),
}
EXACT_DIFFERENCES = 200
LISTED_FLIPS = 20


def ways_of_sums(parts):
    """In how many ways each sum comes of these whole numbers, each taken or left."""
    ways = {0: 1}
    for part in parts:
        taken = {total + part: count for total, count in ways.items()}
        ways = {total: ways.get(total, 0) + taken.get(total, 0) for total in ways.keys() | taken.keys()}
    return ways


def counted(parts, values, turned):
    """The share of all signs under which the parts on the turned side sum to at least what they do in these values."""
    least = sum(part for part, x in zip(parts, values) if turned * x > 0)
    return float(Fraction(sum(count for total, count in ways_of_sums(parts).items() if total >= least), 2 ** len(parts)))


TURNED = {"greater": 1, "less": -1}


def signed_rank(name):
    """SciPy's approximation, and where it is exact the count in whole numbers: SciPy's agrees, but loses digits in the tail."""
    values = DIFFERENCES[name]
    ranked = [x for x in values if x != 0.0]
    n, ranks = len(ranked), stats.rankdata(np.abs(ranked))

    def scipys(method):
        return {a: float(stats.wilcoxon(values, alternative=a, method=method, correction=True).pvalue) for a in TURNED}

    if n > EXACT_DIFFERENCES:
        p = scipys("asymptotic")
    else:
        p = {a: counted([int(2 * rank) for rank in ranks], ranked, turned) for a, turned in TURNED.items()}
        if len(set(ranks)) == n:
            assert all(math.isclose(p[a], found, rel_tol=1e-9) for a, found in scipys("exact").items()), name
        elif n <= 12:
            # With ties it lists every sign.
            assert p == scipys(stats.PermutationMethod(n_resamples=np.inf)), name
    statistic = float(sum(rank for rank, x in zip(ranks, ranked) if x > 0))
    assert name != "depression" or (statistic, round(p["greater"], 5)) == (40.0, 0.01953)
    return {
        "name": name, "differences": values, "n": n, "zeros": len(values) - n, "statistic": statistic, "p": p,
        "exact": n <= EXACT_DIFFERENCES,
    }


def sign_flip(name):
    """SciPy's exact permutation test of the mean, and the same counted in millionths, of which every difference is a whole number."""
    values = DIFFERENCES[name]
    test = {"statistic": np.mean, "permutation_type": "samples", "n_resamples": np.inf, "vectorized": True, "batch": 4096}
    p = {a: float(stats.permutation_test((values,), alternative=a, **test).pvalue) for a in TURNED}
    millionths = [abs(round(x * 10**6)) for x in values]
    assert all(math.isclose(p[a], counted(millionths, values, turned), rel_tol=1e-12) for a, turned in TURNED.items()), name
    return {"name": name, "p": p}


def averages(name, alpha):
    """The median of all averages of two differences, and the outermost ones that the signed-rank test at alpha does not reject."""
    values = np.array(DIFFERENCES[name])
    n = len(values)
    walsh = np.sort(np.concatenate([(x + values[place:]) / 2.0 for place, x in enumerate(values)]))
    if n <= EXACT_DIFFERENCES:
        ways = ways_of_sums(range(1, n + 1))
        tail = [float(Fraction(count, 2**n)) for count in itertools.accumulate(ways[total] for total in sorted(ways))]
        rank = sum(p <= alpha for p in tail) - 1
    else:
        sd = math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
        rank = math.floor(n * (n + 1) / 4.0 - 0.5 + sd * float(stats.norm.ppf(alpha)))
    bounds = {"lower": float(walsh[rank]), "upper": float(walsh[-1 - rank])} if rank >= 0 else {"lower": None, "upper": None}
    found = {"shift": float(np.median(walsh)), **bounds}
    assert (name, alpha) != ("depression", 0.025) or [round(x, 9) for x in found.values()] == [0.46, 0.01, 0.786]
    return {"name": name, "alpha": alpha, **found}


def outliers(values):
    """Modified z-scores beyond 3.5; by the mean absolute deviation where the median one is 0."""
    deviations = np.abs(np.array(values) - np.median(values))
    scale = float(stats.median_abs_deviation(values, scale="normal")) or float(np.mean(deviations)) * math.sqrt(math.pi / 2.0)
    z = deviations / scale if scale else deviations
    assert np.min(np.abs(z - 3.5)) > 1e-6
    return {"values": values, "flagged": [int(place) for place in np.nonzero(z > 3.5)[0]]}


def ar1(seed, n, phi):
    noise = np.random.default_rng(seed).normal(0.0, 1.0, n)
    series = [noise[0]]
    for step in noise[1:]:
        series.append(phi * series[-1] + step)
    return [round(float(x) + 50.0, 6) for x in series]


def series(values, batches):
    x = np.array(values)
    n = len(x)
    deviations = x - math.fsum(values) / n
    r = [math.fsum(deviations[: n - k] * deviations[k:]) / math.fsum(deviations**2) for k in range(n)] + [0.0]
    total, lags = 0.0, 0
    while lags < n and r[lags] + r[lags + 1] > 0.0:
        total += r[lags] + r[lags + 1]
        lags += 2
    tau = max(1.0, 2.0 * total - 1.0)
    starts = [batch * n // batches for batch in range(batches + 1)]
    means = np.array([np.mean(x[a:b]) for a, b in zip(starts, starts[1:])])
    half = float(stats.t.ppf(0.975, batches - 1)) * float(np.std(means, ddof=1)) / math.sqrt(batches)
    mean = math.fsum(values) / n
    return {
        "values": values, "autocorrelations": r[: min(n, 6)], "effective": n / tau, "lags": min(lags, n), "batches": batches,
        "low": mean - half, "high": mean + half,
    }


def prediction(values, level):
    x = np.array(values)
    n = len(x)
    half = float(stats.t.ppf((1 + level) / 2, n - 1)) * float(np.std(x, ddof=1)) * math.sqrt(1 + 1 / n)
    logs = np.log(x)
    log_half = float(stats.t.ppf((1 + level) / 2, n - 1)) * float(np.std(logs, ddof=1)) * math.sqrt(1 + 1 / n)
    bound = float(np.std(x, ddof=1)) * math.sqrt((n - 1) / float(stats.chi2.ppf(1 - level, n - 1)))
    return {
        "values": values, "level": level, "low": float(np.mean(x)) - half, "high": float(np.mean(x)) + half,
        "log_low": math.exp(float(np.mean(logs)) - log_half), "log_high": math.exp(float(np.mean(logs)) + log_half),
        "sd_upper_bound": bound,
    }


def fences(values, factor):
    low, high = np.quantile(values, [0.25, 0.75])
    return {"values": values, "factor": factor, "low": float(low - factor * (high - low)), "high": float(high + factor * (high - low))}


SEVERAL = [name for name, (first, second) in PAIRS.items() if min(len(first), len(second)) > 1]
REFERENCE = {
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "quantiles": [quantiles(values) for values in QUANTILE_SAMPLES],
    "quantile_intervals": [
        quantile_interval(n, q, level)
        for n, q, level in [
            (20, 0.25, 0.95), (20, 0.75, 0.9), (60, 0.9, 0.95), (300, 0.99, 0.95), (299, 0.99, 0.95), (400, 0.99, 0.95),
            (1000, 0.99, 0.99), (1000, 0.01, 0.95), (5000, 0.999, 0.95), (20000, 0.95, 0.95), (15, 0.3, 0.8),
        ]
    ],
    "mann_whitney": [mann_whitney(name) for name in PAIRS],
    "kolmogorov_smirnov": [found for found in map(kolmogorov_smirnov, PAIRS) if found],
    "welch": [welch(name) for name in SEVERAL],
    "shifts": [
        shift(name, level)
        for name in ("apart", "mixed", "ties", "ties 9 v 9", "12 v 12", "20 v 20", "5 v 400", "50 v 50", "100 v 100", "ties 60 v 80")
        for level in (0.9, 0.95)
    ],
    "ratios": [
        ratio(name, level) for name in ("small magnitudes", "apart", "12 v 12", "20 v 20", "5 v 400", "100 v 100") for level in (0.9, 0.95)
    ],
    "signed_ranks": [signed_rank(name) for name in DIFFERENCES],
    "sign_flips": [sign_flip(name) for name, values in DIFFERENCES.items() if 1 < len(values) <= LISTED_FLIPS],
    "averages": [averages(name, alpha) for name in DIFFERENCES for alpha in (0.025, 5e-4)],
    "outliers": [
        outliers(values)
        for values in [
            *(values for values in QUANTILE_SAMPLES if len(values) >= 5), lognormal(61, 100), [0.0, *normal(62, 30), 300.0],
            [5.0, 5.0, 5.0, 5.0, 9.0, 5.0], [5.0] * 9, [float(x) for x in np.random.default_rng(63).standard_t(2.0, 200).round(6)],
        ]
    ],
    "student": [
        [t, df, float(stats.t.cdf(t, df)), float(stats.t.sf(t, df))]
        for t in (-40.0, -3.2, -1e-3, 0.0, 0.7, 2.1, 12.0, 1e4)
        for df in (1.0, 2.0, 3.7, 19.0, 100.5, 1e4, 1e6)
    ],
    "student_quantiles": [
        [p, df, float(special.stdtrit(df, p))]
        for p in (1e-10, 5e-4, 0.025, 0.3, 0.9, 0.975, 0.9995)
        for df in (1.0, 2.0, 4.0, 19.0, 100.5, 1e4)
    ],
    "chi_squared": [
        [x, df, float(stats.chi2.cdf(x, df)), float(stats.chi2.sf(x, df))]
        for df in (1.0, 2.0, 4.0, 19.0, 250.0, 1e5)
        for x in (0.01 * df, 0.5 * df, df, 1.1 * df, 3.0 * df)
    ],
    "chi_squared_quantiles": [
        [p, df, float(stats.chi2.ppf(p, df))]
        for p in (1e-9, 0.05, 0.2, 0.5, 0.8, 0.975, 0.9999)
        for df in (1.0, 2.0, 4.0, 19.0, 250.0, 1e5)
    ],
    "kolmogorov": [[x, float(special.kolmogorov(x))] for x in (0.2, 0.4, 0.7, 0.99, 1.0, 1.3, 2.0, 5.0, 15.0)],
    "predictions": [
        prediction(values, level)
        for values in ([3.0, 4.0], [3.0, 4.0, 3.5], normal(31, 20), lognormal(32, 40), normal(33, 1000))
        for level in (0.8, 0.95)
    ],
    "series": [
        series(values, batches)
        for values, batches in (
            ([1.0, 2.0, 4.0, 3.0], 2), (ar1(41, 100, 0.6), 10), (ar1(42, 501, 0.9), 20), (ar1(43, 200, -0.5), 7),
            (normal(44, 300), 20), ([float(x) for x in range(60)], 10),
        )
    ],
    "fences": [fences(values, factor) for values in QUANTILE_SAMPLES for factor in (1.5, 3.0)],
}

with open("comparing.json", "w", encoding="ascii") as file:
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in REFERENCE.items()]
    file.write("{\n" + ",\n".join(lines) + "\n}\n")
