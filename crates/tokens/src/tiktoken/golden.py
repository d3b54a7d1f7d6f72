"""Writes golden.json: vocabularies, and texts with their tokens by tiktoken itself.

    pip install tiktoken==0.14.0
    python golden.py > golden.json

`words` was trained by tiktoken's own example of a trainer, over the common words and some texts. `overlaps` has every text of at most five
letters `a` and `b` with a rank that was drawn, so that many pairs that overlap are the same token.
"""

import base64
import itertools
import json
import pathlib
import random

import tiktoken
from tiktoken._educational import bpe_train

# The patterns as tiktoken_ext/openai_public.py of tiktoken 0.14.0 has them.
from tiktoken_ext import openai_public as public
from unittest import mock

TEXTS = [
    "", " ", "\n", "The quick brown fox jumps over the lazy dog.", "don't DON'T we'll I'M it's", "  two  spaces   and\ttabs\n\n\nlines  \n x",
    "12345678 1,234.56 x1y22z333", "fn main() {\r\n    println!(\"{}\", 1 << 20);\r\n}\r\n", "HelloWorld camelCase XMLHttpRequest ǅ",
    "Größe naïve café déjà vu", "你好，世界。 こんにちは", "Привет, мир! שלום עולם", "🙂🙃 👩‍👩‍👧 e\u0301", "a//b/c///\n/d", "<|endoftext|> is text",
    "time " * 20, "x" * 70, "ab" * 40, "\u00a0\u2003 \u3000x", "trailing   ", "1٢३４", "ſ'S K's 'LL",
]


def patterns():
    """The patterns of the encodings, without their vocabularies."""
    found = {}
    for name in ["r50k_base", "p50k_base", "cl100k_base", "o200k_base"]:
        with mock.patch.object(public, "load_tiktoken_bpe", lambda *_, **__: {}), mock.patch.object(public, "data_gym_to_mergeable_bpe_ranks", lambda *_, **__: {}):
            found[name] = getattr(public, name)()["pat_str"]
    return found


def words():
    here = pathlib.Path(__file__).parent
    common = (here.parent / "common-words.txt").read_text().split()
    text = " ".join(common[:400]) + "\n" + "\n".join(TEXTS)
    return bpe_train(text, 900, patterns()["cl100k_base"], visualise=None)


def overlaps():
    texts = ["".join(letters) for size in range(2, 6) for letters in itertools.product("ab", repeat=size)]
    random.Random(7).shuffle(texts)
    ranks = {bytes([byte]): byte for byte in range(256)}
    # A third of them, so that not every neighbours are a token.
    return ranks | {text.encode(): 256 + rank for rank, text in enumerate(texts[: len(texts) // 3])}


def main():
    vocabularies = {"words": words(), "overlaps": overlaps()}
    draw = random.Random(1)
    letters = ["".join(draw.choices("ab", k=size)) for size in [7, 13, 29, 61, 127]]
    cases = []
    for vocabulary, pattern, texts in [
        *(("words", name, TEXTS) for name in patterns()),
        ("overlaps", "r50k_base", letters),
    ]:
        encoding = tiktoken.Encoding("x", pat_str=patterns()[pattern], mergeable_ranks=vocabularies[vocabulary], special_tokens={})
        cases += [{"vocabulary": vocabulary, "pattern": pattern, "text": text, "ids": encoding.encode_ordinary(text)} for text in texts]
    lines = lambda ranks: "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    document = {"vocabularies": {name: lines(ranks) for name, ranks in vocabularies.items()}, "cases": cases}
    print(json.dumps(document, ensure_ascii=True, separators=(",", ":")).replace('{"vocabulary"', '\n{"vocabulary"'))


main()
