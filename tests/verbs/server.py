"""A server of data files that behaves as the first part of the path says, on loopback.

    server.py ROOT LOG    prints its port; appends "<path> <Range or ->" to LOG for each request

ok serves ROOT; norange does so without ranges; cut closes after a part; slow takes a few seconds;
wrong sends zeros; long sends too much; page sends a page of its own; missing is 404; broken is 500;
redirect leads to ok, loop to itself; half sends the first half and waits; mute sends nothing; held
waits until there is a file `go` beside LOG. Requests for
another host (as a proxy gets them) are served alike.
"""

import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ROOT, LOG = sys.argv[1:3]
GO = os.path.join(os.path.dirname(LOG), "go")
SIZES = {"train-images-idx3-ubyte.gz": 9912422, "train-labels-idx1-ubyte.gz": 28881,
         "t10k-images-idx3-ubyte.gz": 1648877, "t10k-labels-idx1-ubyte.gz": 4542}
PART, PIECE, FOREVER = 4 << 20, 1 << 16, 600


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def contents(self, kind, name):
        if kind in ("wrong", "half", "long"):
            return bytes(SIZES[name] + (kind == "long"))
        with open(os.path.join(ROOT, name), "rb") as file:
            return file.read()

    def send(self, kind, data, start):
        code = 206 if start else 200
        self.send_response(code)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        rest = data[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if kind == "cut" and len(rest) > PIECE:
            self.wfile.write(rest[:min(PART, len(rest) // 2)])
            self.close_connection = True
        elif kind == "half":
            self.wfile.write(rest[:0 if start else len(rest) // 2])
            self.wfile.flush()
            time.sleep(FOREVER)
        elif kind == "slow":
            for at in range(0, len(rest), PIECE):
                self.wfile.write(rest[at:at + PIECE])
                time.sleep(0.02)
        else:
            while kind == "held" and not os.path.exists(GO):
                time.sleep(0.01)
            self.wfile.write(rest)

    def do_GET(self):
        path = urlsplit(self.path).path
        span = self.headers.get("Range", "-")
        with open(LOG, "a", encoding="ascii") as log:
            log.write(f"{path} {span}\n")
        kind, name = path.strip("/").split("/", 1)
        if kind == "page":
            self.answer(200, b"<html>Please log in.</html>")
        elif kind in ("missing", "broken"):
            self.answer(404 if kind == "missing" else 500, b"none here")
        elif kind in ("redirect", "loop"):
            self.answer(302, b"moved", Location=f"/{kind if kind == 'loop' else 'ok'}/{name}")
        elif kind == "mute":
            time.sleep(FOREVER)
        else:
            data = self.contents(kind, name)
            start = 0
            if span.startswith("bytes=") and kind != "norange":
                start = int(span[len("bytes="):].split("-")[0])
            if start >= len(data):
                self.answer(416, Content_Range=f"bytes */{len(data)}")
            else:
                self.send(kind, data, start)


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # clients that go away are part of the tests


server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
