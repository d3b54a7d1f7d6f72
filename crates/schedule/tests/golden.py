"""Derives the golden values of `src/generator.rs` from the format's description alone, with nothing but the standard library."""

import hashlib
import struct

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
