"""Vocabulary files, good and bad, which are texts as well."""

import json


def tokenizer(vocabulary, merges, **more):
    """A tokenizer.json with all that is read of one."""
    return json.dumps({"added_tokens": more.pop("added", []), "normalizer": None,
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": more.pop("prefix", False)},
                       "model": {"type": "BPE", "vocab": {name: i for i, name in enumerate(vocabulary)}, "merges": merges, **more}},
                      ensure_ascii=False)


def write_all(write):
    for name, text in [("char", "lockstep vocabulary 1 char 5\n\\n\n\\s\na\n\u00e9\n\U0001f600\n"), ("byte", "lockstep vocabulary 1 byte 256\n"),
                       ("word", "lockstep vocabulary 1 word 4\n<eos>\nthe\n<unk>\n\\x00\\x7f\\\\\n"), ("empty", ""),
                       ("twice", "lockstep vocabulary 1 char 2\na\na\n"), ("cut", "lockstep vocabulary 1 word 3\n<eos>\n<unk>\n"),
                       ("many", "lockstep vocabulary 1 char 2147483647\na\n"), ("more", "lockstep vocabulary 1 char 1\na\nb\n"),
                       ("blank", "lockstep vocabulary 1 word 3\n<eos>\n<unk>\na\\sb\n"), ("text", "the cat\tsat \r\n\n on the\u20ac mat"),
                       ("escape", "lockstep vocabulary 1 char 1\n\\x8\n")]:
        for style in (0, 1, 2, 36, 65, 250):
            write("vocabulary", f"{name}_{style}", bytes([style]) + text.encode())
    for name, text in [("overlong", b"a\xc0\x80"), ("surrogate", b"a\xed\xa0\x80"), ("half", b"ab\xf0\x9f\x98"), ("stray", b"\x80\x80b")]:
        write("vocabulary", name, b"\x01" + text)
    letters = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 324)]]
    for name, text in [("bpe", tokenizer([*"ab", "ab", "\u0120", "\u0120ab"], ["a b", ["\u0120", "ab"]])),
                       ("bpe_all", tokenizer([*letters, "ab", "aba", "\u0120a"], ["a b", "ab a", "\u0120 a"], prefix=True)),
                       ("bpe_added", tokenizer([*letters, "aa"], ["a a"], added=[{"id": 257, "content": "a b"}, {"id": 0, "content": "!", "special": True},
                                                                                {"id": 258, "content": "aa\u00e9\"", "normalized": False}])),
                       ("bpe_unknown", tokenizer(["<u>", "a"], [], unk_token="<u>")), ("bpe_merge", tokenizer(["a", "b"], ["a b"])),
                       ("bpe_other", '{"model": {"type": "Unigram"}}'), ("bpe_cut", '{"model": {"vocab": {"a": 0'), ("bpe_none", "{}")]:
        write("vocabulary", name, b"\x03" + text.encode())
    for name, text in [("learn_runs", b"aaaa aaa  \n\n aaaaaa a ......"), ("learn_mixed", "it's \u4e2d\u6587 12 \u00a0x\u3000 \U0001f600!".encode()),
                       ("learn_bytes", b"\xff\xfe a\xe2\x82 \xc3(")]:
        for style in (3, 35, 255):
            write("vocabulary", f"{name}_{style}", bytes([style]) + text)
