"""Which of the common words are single tokens of tokenizers in wide use; for a person who changes the list.

    python3 tests/single_tokens.py FOLDER

FOLDER holds rank files in tiktoken's format, `r50k_base.tiktoken`, `cl100k_base.tiktoken` and `o200k_base.tiktoken`, such as the
folder `assets` of the crate `tiktoken-rs`. A word is a single token if its bytes have a rank: the patterns that split a text before
merging keep a word and the space before it together.
"""

import base64
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
words = (HERE / "../src/common-words.txt").read_text().split()
assert words == sorted(set(words)) and all(word.isascii() and word.islower() and 3 <= len(word) <= 8 for word in words)

missing = 0
for name in ("r50k_base", "cl100k_base", "o200k_base"):
    lines = (pathlib.Path(sys.argv[1]) / f"{name}.tiktoken").read_bytes().splitlines()
    tokens = {base64.b64decode(line.split()[0]) for line in lines if line}
    behind, alone = ([word for word in words if prefix + word.encode() in tokens] for prefix in (b" ", b""))
    print(f"{name}: of {len(words)} words {len(behind)} are single tokens behind a space, {len(alone)} at the beginning")
    missing += 2 * len(words) - len(behind) - len(alone)
sys.exit(missing > 0)
