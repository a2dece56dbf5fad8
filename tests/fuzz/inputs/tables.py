"""Tables in CSV files, good and bad."""


def write_all(write):
    for name, text in [("plain", b"a,b,c\n1,2.5,x\n-3,1e-40,y\n"), ("semicolons", b"\xef\xbb\xbfa;b\r\n1;NA\r\n;2\r\n"),
                       ("quotes", b'"a","b"\n"x ""y""\n","1"\n\n"z,;\tz", 2 '), ("empty", b""), ("few", b"a\tb\n1\t2\n3\n"), ("many", b"1,2\n3,4,5\n"),
                       ("open_quote", b'a,b\n1,"2\n3,4\n'), ("in_the_middle", b'a,b\n1,2"\n'), ("wide", b"\xff\xfea\0"),
                       ("numbers", b"1e27,9007199254740993,.5\n1e308,-0,18446744073709551616\n0.1,1e-400,5.\n")]:
        for style in (0, 1, 6, 41, 250):
            write("csv", f"{name}_{style}", bytes([style]) + text)
