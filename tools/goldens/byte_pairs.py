#!/usr/bin/env python3
"""What Hugging Face's tokenizers makes of texts, for tests/text/test_bpe.c and test_published.c.

Usage: byte_pairs.py DATASETS    (needs tokenizers 0.23, regex; DATASETS has tinyshakespeare and ptb)

Writes tests/text/golden/tokenizer.json, learned from TEXT with a special token and some that were added behind, and
byte_pairs.json: tokens of strings; what is learned from TEXT without special tokens; of the published texts how many
tokens there are with 2,000 learned from the first, and a hash of them. Bytes that are no UTF-8, which tokenizers does
not take, are cut in pieces as characters of no class and given to its model.
"""
import json
import sys
from pathlib import Path

import regex
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

GOLDEN = Path(__file__).resolve().parents[2] / "tests/text/golden"
EXPRESSION = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEXT = (
    "The learner's text isn't long, but they've said what they'll need: I'm sure you're reading, he'd say.\n"
    "One token after the other, and another one; the other tokens are there, and there, and there.\n\n"
    "  for i in range(100):\n        print(i * 1000, 2024, 3.14159)\n\n\t\tend\n"
    "aaaa aaa aa a aaaaaa aaaaaaaa baaaa baaab ........ ... .... ===== ==\n"
    "\u4e2d\u6587\u6587\u5b57 \u4e2d\u6587\u8bcd\u5178\uff0c\u8fd9\u662f\u4e2d\u6587\u3002 "
    "na\u00efve caf\u00e9 cafe\u0301 \u00fcber \u0416\u0443\u043a \U0001f600\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467\n") * 2
STRINGS = [
    "", " ", "  ", "a", " a", "  a", "   \n  a", "\n", "\n\n\n", " \n", "a\n", "a \n b", "\t\tend", "a\r\nb", "the other token",
    "isn't", "ISN'T", "he'd've", "'s", " 's", "'s's", "''s", "'", "'x", "they'll'", "can't've'", "\u2019s", "l'", "'l", "'r", "'v",
    "123 4567", " 12a34", "3.14", "\u00bd\u2167\u0663\u00b2", "x\u00b2", "aaaaa", "aaaaaaaaaaaaaaaaaaaaaaaa", "baaaaab", "......",
    "\u4e2d\u6587\u5b57\u5178", "\u3000\u4e2d\u6587 \u3000x", "caf\u00e9 cafe\u0301", "\u0301", "a\u0301\u0302b", "\u0416\u0443\u043a!",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467!", "\U0001f1e9\U0001f1ea", "a\u00a0b", "a \u00a0b", "\u00a0 a", "a\u0085b", "\u2028x",
    "\u1680x", "\u180ex", "\u200bx", "\ufeffx", "a\x1cb", "\x7f\x80\xa0\xad", "\u1c89\ua7cb\U00010d40", "\U000323af\U000e0101\U0010ffff",
    "<|endoftext|>", "a<|endoftext|> b", "<|endoftext", "<|endoftext|><|endoftext|>\n", "xy xyz xyzz", "xyxyz", "a b c d", "q<x>q",
    " !\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~", "for i in range(10):\n    pass\n\n\n\nx", "a" * 300 + " " * 40 + "b" * 30,
]
BYTES = [b"\xff", b"a\x00b\x00", b"a\xffb", b" \xff\xfe", b"\xe2\x82", b"\xe2\x82 a", b"ab\xc3", b"\xc3(\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf", b"\xff's", b"the\xe4\xb8",
         b"\x80\x80\x80 \x80", b"\xf0\x9f\x98 \xf0\x9f\x98\x80"]


def learn(text, size, special=()):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=size, show_progress=False, special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    return tokenizer


def merges(tokenizer):
    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def letters():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


def of_bytes(tokenizer, data):
    letter = letters()
    ids = []
    for piece in regex.findall(EXPRESSION, data.decode("utf-8", "surrogateescape")):
        word = "".join(letter[b] for b in piece.encode("utf-8", "surrogateescape"))
        ids += [token.id for token in tokenizer.model.tokenize(word)]
    return ids


def digest(numbers):
    """FNV-1a of little-endian 32 bits each."""
    value = 0xcbf29ce484222325
    for number in numbers:
        for byte in number.to_bytes(4, "little"):
            value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


def main():
    shared = Path(sys.argv[1])
    tokenizer = learn(TEXT, 420, ["<|endoftext|>"])
    tokenizer.add_tokens([AddedToken("xy"), AddedToken("xyz", normalized=False), AddedToken("xyzz"), AddedToken("<x>")])
    (GOLDEN / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False) + "\n")
    result = {"text": TEXT, "size": 420, "merges": merges(learn(TEXT, 420)),
              "cases": [{"text": s, "ids": tokenizer.encode(s).ids} for s in STRINGS],
              "bytes": [{"bytes": list(b), "ids": of_bytes(tokenizer, b)} for b in BYTES]}
    for case in result["cases"]:
        if "xy" not in case["text"] and "<" not in case["text"]:
            assert of_bytes(tokenizer, case["text"].encode()) == case["ids"], case
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    result["prefixed"] = [{"text": s, "ids": tokenizer.encode(s).ids} for s in STRINGS]
    published = []
    for name in ("tinyshakespeare/input.txt", "ptb/ptb.train.txt", "ptb/ptb.valid.txt", "ptb/ptb.test.txt"):
        text = (shared / name).read_bytes().decode()
        if not published:
            tokenizer = learn(text, 2000)
            vocabulary = tokenizer.get_vocab()
            pairs = [vocabulary[t] for merge in merges(tokenizer) for t in merge.split(" ")]
        ids = tokenizer.encode(text).ids
        published.append({"name": name, "tokens": len(ids), "digest": digest(ids)})
    result["published"] = {"size": 2000, "pairs": digest(pairs), "texts": published}
    lines = [f"  {json.dumps(k)}: " + (json.dumps(v) if not isinstance(v, list) or isinstance(v[0], str) else
                                       "[\n" + ",\n".join("    " + json.dumps(c) for c in v) + "\n  ]") for k, v in result.items()]
    (GOLDEN / "byte_pairs.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
