"""Vocabulary files, good and bad, which are texts as well."""


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
