"""A platform is told that a region is where somebody only listens: what that one hears is good for nothing."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdfast.core.model.objects.principals import parse_token
from holdfast.host.ports.transport import Pairs, Reply, Request, StreamDeclined
from holdfast.transports.blocking_http import BlockingHttpTransport
from holdfast.transports.tls import TlsConfig
from tests.support.certificates import Authority

HOLDFAST = (sys.executable, "-m", "holdfast.cli.main")
#: What an operator asks of the region: one of each verb, and a stream.
ASKED = (
    ("GET", "/v1/in/eu/nodes", (), b""),
    ("GET", "/v1/in/eu/nodes", (("watch", "true"),), b""),
    ("PUT", "/v1/in/eu/nodes/n1", (), b'{"spec": {"note": "by the operator"}}'),
    ("POST", "/v1/in/eu/commands/remove-node", (), b'{"node": "4.1"}'),
    ("DELETE", "/v1/in/eu/nodes/n1", (), b""),
)


class FalseRegion:
    """Listens on the loopback, and keeps every byte of every request."""

    def __init__(self) -> None:
        self.heard: list[Request] = []
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _listen(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                path, _, query = self.path.partition("?")
                pairs: Pairs = (("watch", "true"),) if query else ()
                headers = tuple((name.lower(), value) for name, value in self.headers.items())
                heard.append(Request(self.command, path, pairs, headers, body))
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_PUT = do_POST = do_DELETE = _listen  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: the test looks at what was heard."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Platform:
    """A platform's process over TLS, and who asks it."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "authority")
        self.data = folder / "data"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            at = f"127.0.0.1:{free.getsockname()[1]}"
        self.url, own = f"https://{at}", self.authority.server()
        self.process = subprocess.Popen(
            [
                *HOLDFAST, "server", "--role", "platform", "--data", str(self.data), "--listen", at,
                "--advertise", self.url, "--operator", "person/operator", "--tls-certificate", own.certificate,
                "--tls-key", own.key, "--tls-trust", own.authorities,
            ],
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def wait_for(self, name: str) -> str:
        deadline = time.monotonic() + 60
        while not (self.data / name).exists():
            assert self.process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, f"there is no {name}"
            time.sleep(0.05)
        return (self.data / name).read_text(encoding="utf-8").strip()

    def ask(self, request: Request, shows: TlsConfig) -> Reply:
        with closing(BlockingHttpTransport(shows)) as transport:
            try:
                return transport.call(self.url, request, 30_000)
            except StreamDeclined as error:
                return error.reply


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    found = Platform(tmp_path)
    try:
        found.wait_for("ready.json")
        yield found
    finally:
        found.process.send_signal(signal.SIGTERM)
        found.process.wait(30)


@pytest.fixture
def region() -> Iterator[FalseRegion]:
    found = FalseRegion()
    yield found
    found.close()


def test_a_false_region_hears_nothing_by_which_it_could_act_as_the_operator(
    platform: Platform, region: FalseRegion
) -> None:
    token, nobody = platform.wait_for("operator.token"), platform.authority.client()
    ways = (
        (nobody, (("authorization", f"Bearer {token}"), ("cookie", "operators"))),
        (platform.authority.client("holdfast:person/operator"), (("cookie", "operators"),)),
    )
    body = json.dumps({"kind": "Region", "metadata": {"name": "eu"}, "spec": {"address": region.address}}).encode()
    put = Request("PUT", "/v1/regions/eu", (), (*ways[0][1], ("idempotency-key", "region")), body)
    assert platform.ask(put, nobody).status == 201
    deadline = time.monotonic() + 60
    ready = Request("GET", "/v1/in/eu/whoami", (), ways[0][1])
    while platform.ask(ready, nobody).status != 200:
        assert time.monotonic() < deadline, "the platform's server never had a token of its own"
        time.sleep(0.1)
    for number, (shows, proof) in enumerate(ways):
        for place, (verb, path, query, sent) in enumerate(ASKED):
            key = ("idempotency-key", f"{number}-{place}")
            platform.ask(Request(verb, path, query, (*proof, key), sent), shows)
    assert len(region.heard) >= len(ways) * len(ASKED)
    held = json.loads(platform.wait_for("server-token.json"))
    secrets = [parse_token(one) for one in (token, held["current"]["token"])]
    for heard in region.heard:
        assert all(parts is not None and parts[1] not in repr(heard) for parts in secrets)
        assert not {"authorization", "cookie"} & {name for name, _ in heard.headers}
    assert_worthless(platform, region.heard)


def assert_worthless(platform: Platform, heard: list[Request]) -> None:
    """Whoever says it again at the platform is nobody there, by what it says or by what can be made of it."""
    nobody = platform.authority.client()
    for one in heard:
        for path in (one.path, f"/v1/in/eu{one.path.removeprefix('/v1')}", "/v1/whoami", "/v1/status"):
            verb = "GET" if path in ("/v1/whoami", "/v1/status") else one.verb
            headers = tuple(pair for pair in one.headers if pair[0] not in ("host", "content-length"))
            again = platform.ask(Request(verb, path, one.query, headers, one.body), nobody)
            assert again.status in (401, 404, 405), (again, one)
