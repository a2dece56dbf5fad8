"""What another host answers to `lockstep ps`."""

RANK = (b'{"run": 11, "rank": 0, "size": 2, "host": "a", "first_host": "a", "pid": 11, "start_ticks": 7, "step": 3, "steps": 9, '
        b'"samples_per_second": 80, "waited": 0.25, "rss_bytes": 5000000, "device": "cpu", "folder": "/run", "config": "c.yaml", '
        b'"other_hosts": "b"}\n')


def write_all(write):
    second = RANK.replace(b'"rank": 0', b'"rank": 1').replace(b"0.25", b"null").replace(b"5000000", b"null")
    for name, answer in [("one", RANK), ("two", RANK + second), ("same", RANK + RANK), ("controls", RANK.replace(b"/run", b"\\u001b[2J\\ud83d\\ude00")),
                         ("lacks", RANK.replace(b'"pid": 11, ', b"")), ("long", RANK.replace(b'"cpu"', b'"' + 40 * b"c" + b'"')),
                         ("no_end", RANK[:-1]), ("banner", b"Welcome\n" + RANK)]:
        write("ranks", name, answer)
