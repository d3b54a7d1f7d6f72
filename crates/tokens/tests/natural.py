"""Derives the golden values of `src/natural.rs` from the format's description alone."""

import collections
import hashlib
import pathlib

text = (pathlib.Path(__file__).parent.parent / "src" / "natural-text.txt").read_bytes()
words = text.decode("ascii").split()
places = collections.defaultdict(list)
for place, word in enumerate(words):
    places[words[place - 1], word].append(place)


def split_mix(seed, number):
    state = (seed + number * 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def draws(seed):
    number = 1
    while True:
        output = split_mix(seed, number)
        yield output % 2**32
        yield output >> 32
        number += 1


def chain(seed, count):
    drawn = draws(seed)
    place = next(drawn) * len(words) >> 32
    for _ in range(count):
        yield words[place]
        known = places[words[place - 1], words[place]]
        place = (known[next(drawn) * len(known) >> 32] + 1) % len(words)


print(hashlib.sha256(text).hexdigest())
print(" ".join(chain(7, 24)))
