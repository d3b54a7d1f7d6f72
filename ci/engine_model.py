"""Writes a model of random weights for llama.cpp, and its tokenizer: `python3 ci/engine_model.py FOLDER`.

FOLDER/model.gguf is a Llama of 8 layers and 14 million weights, drawn from a fixed seed. A token is a byte, in the model's vocabulary and in
FOLDER/tokenizer.json alike, so that both count the same tokens. Responses consist of letters, digits, punctuation and the space alone, so that
each of their tokens is a text of its own.
"""

import json
import pathlib
import sys

import gguf
import numpy

LAYERS, WIDTH, HIDDEN, HEADS, CONTEXT = 8, 384, 1024, 6, 8192
END = "<|end|>"


def byte_letters():
    """The letter that byte-level vocabularies write for each byte: itself if it can be printed, else the next beyond 255."""
    printed = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printed]
    return {**{byte: chr(byte) for byte in printed}, **{byte: chr(256 + place) for place, byte in enumerate(others)}}


def write_model(path, letters):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random bytes")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(letters) + 1)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*letters, END])
    writer.add_token_types([gguf.TokenType.NORMAL] * len(letters) + [gguf.TokenType.CONTROL])
    # The only merge, of a control letter twice, which no prompt holds: an empty list is not accepted.
    writer.add_token_merges([f"{letters[0]} {letters[0]}"])
    writer.add_eos_token_id(len(letters))
    writer.add_bos_token_id(len(letters))
    writer.add_add_bos_token(False)
    draw = numpy.random.default_rng(7)
    add = lambda name, *shape: writer.add_tensor(name, (draw.standard_normal(shape) / shape[-1] ** 0.5).astype(numpy.float32))
    one = lambda name: writer.add_tensor(name, numpy.ones(WIDTH, dtype=numpy.float32))
    add("token_embd.weight", len(letters) + 1, WIDTH)
    for layer in range(LAYERS):
        one(f"blk.{layer}.attn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}.weight", WIDTH, WIDTH)
        one(f"blk.{layer}.ffn_norm.weight")
        add(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
    one("output_norm.weight")
    printable = numpy.array([[32 <= byte < 127] for byte in range(len(letters) + 1)])
    output = draw.standard_normal((len(letters) + 1, WIDTH)) * printable
    writer.add_tensor("output.weight", output.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tokenizer(path, letters):
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {letter: number for number, letter in enumerate(letters)}, "merges": []},
    }
    path.write_text(json.dumps(tokenizer))


def main():
    folder = pathlib.Path(sys.argv[1])
    letters = [byte_letters()[byte] for byte in range(256)]
    write_model(str(folder / "model.gguf"), letters)
    write_tokenizer(folder / "tokenizer.json", letters)


if __name__ == "__main__":
    main()
