"""A small HTTP service, with switches for typical failures.

    python -m holdfast.examples.service --name risk-api [--slow-start 3s] [--crash-after 30s] [--unready-after 10s] ...

It listens on $PORT. `/` returns its identity, `/healthz` that it runs, `/readyz` whether it accepts requests. A POST to
`/switch/crash`, `/switch/hang`, `/switch/unready` or `/switch/ready` causes that state, for demonstrations. On SIGTERM
it accepts no new connections, finishes the open ones, and exits.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def seconds(text: str) -> float:
    """Parse a duration such as 500ms, 3s or 2m."""
    for unit, worth in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        number = text.removesuffix(unit)
        if number != text:
            return float(number) * worth
    return float(text)


class ExampleService:
    """The current state of the service."""

    def __init__(self, name: str, slow_start: float, unready_after: float) -> None:
        self.name = name
        self.began = time.monotonic()
        self.hangs = threading.Event()
        self._slow_start = slow_start
        self._unready_after = unready_after
        self._said: bool | None = None

    def is_ready(self) -> bool:
        """Whether it accepts requests: once it has started, unless a switch overrides it."""
        age = time.monotonic() - self.began
        if self._said is not None:
            return self._said
        return age >= self._slow_start and not 0 < self._unready_after <= age

    def switch(self, word: str) -> bool:
        """Apply a switch; whether there is such a switch."""
        if word == "crash":
            os._exit(70)
        if word == "hang":
            self.hangs.set()
        elif word in ("ready", "unready"):
            self._said = word == "ready"
        else:
            return False
        return True


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    service: ExampleService
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """A page, or its health."""
        service = self.service
        if service.hangs.is_set():
            time.sleep(3_600)
        if self.path == "/readyz" and not service.is_ready():
            self._answer(503, {"ready": False})
        elif self.path in ("/", "/healthz", "/readyz"):
            slot, token = os.environ.get("HOLDFAST_SLOT", ""), os.environ.get("HOLDFAST_FENCING_TOKEN", "")
            self._answer(200, {"service": service.name, "slot": slot, "token": token, "pid": os.getpid()})
        else:
            self._answer(404, {"error": "no such page"})

    def do_POST(self) -> None:
        """A switch."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        _, first, word = (*self.path.split("/"), "", "")[:3]
        known = first == "switch" and self.service.switch(word)
        self._answer(200 if known else 404, {"switched": word if known else ""})

    def _answer(self, status: int, said: dict[str, object]) -> None:
        body = json.dumps(said).encode() + b"\n"
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print one line for each request on standard output."""
        print(f"{self.address_string()} {format % args}", flush=True)


def main(words: Sequence[str]) -> int:
    """Serve until stopped; return the exit code."""
    parser = argparse.ArgumentParser(prog="holdfast.examples.service")
    parser.add_argument("--name", default="service")
    parser.add_argument("--slow-start", type=seconds, default=0.0)
    parser.add_argument("--crash-after", type=seconds, default=0.0)
    parser.add_argument("--unready-after", type=seconds, default=0.0)
    said = parser.parse_args(words)
    port = int(os.environ.get("PORT", "8080"))
    handler = type("Bound", (Handler,), {"service": ExampleService(said.name, said.slow_start, said.unready_after)})
    server = ThreadingHTTPServer(("", port), handler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    if said.crash_after:
        timer = threading.Timer(said.crash_after, os._exit, (70,))
        timer.daemon = True
        timer.start()
    print(f"{said.name} serves on port {port}", flush=True)
    server.serve_forever(poll_interval=0.05)
    server.server_close()
    print(f"{said.name} was asked to stop", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
