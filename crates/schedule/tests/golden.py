"""Derives the golden values of `src/generator.rs` and `src/trial/tests.rs` from the formats' descriptions alone, with nothing but the standard library."""

import hashlib
import itertools
import json
import math
import statistics
import struct
from decimal import Decimal
from fractions import Fraction

MASK = 0xFFFFFFFF


def rotate(word, by):
    return (word << by | word >> (32 - by)) & MASK


def quarter(x, a, b, c, d):
    for first, second, third, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x[first] = (x[first] + x[second]) & MASK
        x[third] = rotate(x[third] ^ x[first], by)


def block(key, counter, nonce, rounds=8):
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), *struct.unpack("<4I", struct.pack("<QQ", counter, nonce))]
    x = list(start)
    for _ in range(rounds // 2):
        for lane in range(4):
            quarter(x, lane, 4 + lane, 8 + lane, 12 + lane)
        for lane in range(4):
            quarter(x, lane, 4 + (lane + 1) % 4, 8 + (lane + 2) % 4, 12 + (lane + 3) % 4)
    return struct.pack("<16I", *((a + b) & MASK for a, b in zip(x, start)))


def derive_key(seed, path):
    parts = [struct.pack("<Q", len(part)) + part for part in (part.encode() for part in path)]
    return hashlib.sha256(b"assay.dev/schedule/v1" + seed + struct.pack("<Q", len(parts)) + b"".join(parts)).digest()


def at(key, index, nonce=0):
    counter, place = divmod(index, 8)
    return struct.unpack_from("<Q", block(key, counter, nonce), 8 * place)[0]


def below(key, index, bound):
    nonce = 0
    while True:
        product = at(key, index, nonce) * bound
        if product % 2**64 >= 2**64 % bound:
            return product >> 64
        nonce += 1


# The algorithm itself: the first block of ChaCha20 of the all-zero key and nonce, RFC 8439 appendix A.1, test vector 1.
assert block(bytes(32), 0, 0, rounds=20).hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")

key = derive_key(bytes([7]) * 32, ["a", "path"])
print("at", [at(key, index) for index in (0, 1, 31, 32, 1_000_000_007, 2**64 - 1)])
print("below", [below(key, index, 2**63 + 1) for index in range(6)])
print("rejected", [at(key, index) * (2**63 + 1) % 2**64 < 2**64 % (2**63 + 1) for index in range(6)])
print("unit_f64", [(at(key, index) >> 11) / 2**53 for index in range(3)])
load = ["load", "sha256:" + hashlib.sha256(b"workload").hexdigest(), "c8", "3", "measure", "arrivals"]
print("load", at(derive_key(bytes([7]) * 32, load), 0))


# The load of a serving trial: `src/trial/tests.rs`.


def unit(value):
    return (value >> 11) / 2**53


def open_unit(value):
    return ((value >> 12) + 0.5) / 2**52


def normal(value):
    # CPython computes the quantile by the same algorithm, AS 241.
    return statistics.NormalDist().inv_cdf(open_unit(value))


def half_up(number):
    return math.floor(number + Fraction(1, 2))


def half_away(number):
    """For numbers that are not negative."""
    return half_up(Fraction(number))


class Load:
    """The generators of one trial."""

    def __init__(self, seed, workload, point, trial, nonce):
        self.seed, self.words, self.nonce = seed, ["load", workload, point, str(trial)], nonce

    def key(self, phase, concern, once=False):
        return derive_key(self.seed, [*self.words, phase, concern, *([self.nonce] if once else [])])


def marsaglia_tsang(key, index, shape):
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    for nonce in itertools.count():
        x, u = normal(at(key, 3 * index, nonce)), open_unit(at(key, 3 * index + 1, nonce))
        v = (1 + c * x) ** 3
        if v > 0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v


def gap(key, index, law):
    if law == "poisson":
        return -math.log(1 - unit(at(key, index)))
    shape = law["smoothness"]
    if shape >= 1:
        return marsaglia_tsang(key, index, shape) / shape
    return marsaglia_tsang(key, index, shape + 1) * open_unit(at(key, 3 * index + 2)) ** (1 / shape) / shape


def offsets(key, law, rate):
    """Nanoseconds since the phase began."""
    if law == "constant":
        yield from (half_up(Fraction(index * 10**9) / Fraction(Decimal(repr(rate)))) for index in itertools.count())
    total = 0
    for index in itertools.count():
        total += half_away(gap(key, index, law) * (1e12 / rate))
        yield half_up(Fraction(total, 1000))


def length(key, index, law):
    kind, *numbers = law
    z = normal(at(key, index))
    if kind == "uniform":
        return numbers[0] + below(key, index, numbers[1] - numbers[0] + 1)
    if kind == "normal":
        return max(1, half_away(max(0, numbers[0] + numbers[1] * z)))
    if kind == "lognormal":
        mean, stddev = numbers
        variance = math.log1p((stddev / mean) ** 2)
        return max(1, half_away(math.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * z)))
    if kind == "truncated_normal":
        return max(numbers[2], int(numbers[0] + numbers[1] * z))
    return max(numbers[2], int(numbers[0] + (numbers[1] - numbers[0]) * unit(at(key, index))))


def requests(load, phase, law, rate, lengths, begins, ends, count):
    due = itertools.repeat(None) if law == "closed" else offsets(load.key(phase, "arrivals"), law, rate)
    inputs, outputs, prompts = (load.key(phase, concern) for concern in ("input", "output", "prompt"))
    ids = load.key(phase, "request-id", once=True)
    for index, offset in zip(range(count), due):
        if offset is not None and begins + offset >= ends:
            return
        output = None if lengths[1] is None else length(outputs, index, lengths[1])
        request_id = at(ids, 2 * index) << 64 | at(ids, 2 * index + 1)
        yield index, None if offset is None else begins + offset, length(inputs, index, lengths[0]), output, at(prompts, index), request_id


def digest(*phases):
    hasher = hashlib.sha256(b"assay.dev/schedule-digest/v1")
    for phase in phases:
        for index, offset, tokens_in, tokens_out, prompt, _ in phase:
            offset, tokens_out = -1 if offset is None else offset, MASK if tokens_out is None else tokens_out
            hasher.update(struct.pack("<BQqIIIQ", 1, index, offset, tokens_in, tokens_out, MASK, prompt))
        hasher.update(b"\0")
    return hasher.hexdigest()


def trial(load, law, rate, lengths, count):
    """Five seconds of warm-up, then up to 20 seconds or `count` requests. A closed loop by the clock has the first 4,096."""
    warm_up = 4096 if law == "closed" else 10**9
    s = 10**9
    return (
        requests(load, "warm-up", law, rate, lengths, 0, 5 * s, warm_up),
        requests(load, "measure", law, rate, lengths, 5 * s, 25 * s, count),
    )


workload = "sha256:" + hashlib.sha256(b"workload").hexdigest()
load = Load(bytes([7]) * 32, workload, "rate-40", 3, f"{0x0123456789ABCDEF:032x}")
both = ("normal", 480.0, 240.0), ("truncated_uniform", 1, 300, 2)
for index, offset, tokens_in, tokens_out, prompt, request_id in itertools.islice(trial(load, "poisson", 40.0, both, 500)[1], 3):
    print(f'poisson "{index} {offset} {tokens_in} {tokens_out} {prompt:016x} {request_id:032x}"')
print("poisson digest", digest(*trial(load, "poisson", 40.0, both, 500)))
print("salt", at(load.key("trial", "salt", once=True), 0))
print("gamma digests", [digest(*trial(load, {"smoothness": smoothness}, 40.0, both, 500)) for smoothness in (0.5, 4.0)])
others = ("lognormal", 300.0, 150.0), ("uniform", 10, 19)
print("constant digest", digest(*trial(load, "constant", 33.3, others, 500)))
print("closed digest", digest(*trial(load, "closed", None, (("truncated_normal", 480.0, 240.0, 1), None), 4096)))

recipe = {
    "generator": "assay.dev/schedule/v1", "schedule": "assay.dev/schedule-digest/v1", "seed": "07" * 32,
    "workload_spec_digest": workload, "point_id": "rate-40", "rate_per_s": 40, "arrival": {"law": "poisson"},
    "input": {"law": "normal", "mean": 480, "stddev": 240},
    "output": {"law": "truncated_uniform", "low": 1, "high": 300, "floor": 2},
    "batch": 1, "requests": "500", "duration_ns": str(20 * 10**9), "warmup_ns": str(5 * 10**9), "cache": "cold_salt",
    "tokenizer": "sha256:" + hashlib.sha256(b"words").hexdigest(),
}  # fmt: skip
absent = {"rate_per_s", "requests", "output"}
closed = {name: value for name, value in recipe.items() if name not in absent} | {"concurrency": "8", "arrival": {"law": "closed"}}
for document in (recipe, closed):
    print("recipe", hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest())

parts = [b"run-1", b"chat.vllm.default.rate-40.t3", b"0"]
nonce = hashlib.sha256(b"assay.dev/nonce/v1" + b"".join(struct.pack("<Q", len(part)) + part for part in parts)).hexdigest()[:32]
print("nonce", parts[1].decode(), nonce)


def split_mix(seed, number):
    state = (seed + number * 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


# The generator itself: its first outputs from seed 1234567, as its authors' implementation and Rosetta Code give them.
assert [split_mix(1234567, number) for number in (1, 2)] == [6457827717110365317, 3203168211198807973]
print("documents", [split_mix(1, number) for number in (1, 2, 127)])


# Lengths by weights: `src/trial/length_tests.rs`.


def by_weight(weights, unit):
    sums = list(itertools.accumulate(weights))
    return next(number for number, total in enumerate(sums) if total > unit * sums[-1])


def from_histogram(key, index, edges, weights):
    number = by_weight(weights, unit(at(key, 2 * index)))
    low, above = edges[number], edges[number + 1] + (number + 2 == len(edges))
    return low + below(key, 2 * index + 1, above - low)


tables = Load(bytes([7]) * 32, "sha256:" + hashlib.sha256(b"workload").hexdigest(), "rate-40", 3, None)
pair_key, input_key = (tables.key("measure", concern) for concern in ("pair", "input"))
listed = [(256, 128, 60), (512, 256, 30), (4096, 64, 10)]
drawn = [listed[by_weight([weight for _, _, weight in listed], unit(at(pair_key, index)))] for index in range(6)]
print("pairs", [pair[:2] for pair in drawn])
print("histogram", [from_histogram(input_key, index, [1, 256, 1024, 4096], [70, 25, 5]) for index in range(6)])
print("images", [split_mix(0, 2**32 + number) for number in (1, 2)])
