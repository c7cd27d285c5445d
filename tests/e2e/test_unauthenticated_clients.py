"""Whoever means harm and has no name, at real servers: connections that are opened and left, and requests of any shape.

What others do meanwhile goes on: an agent's session is renewed, and memory stays bounded.
"""

from __future__ import annotations

import random
import re
import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.wiring.config.private_files import read_private
from holdfast.wiring.dev.data_folder import address, read_ready_file, token_file
from holdfast.wiring.process import raise_open_file_limit
from tests.support.processes.real_cluster import PLACE, RealCluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1_800)]

CONNECTIONS = 10_000
REQUESTS = 100_000
#: How many connections the region bears in all; of one address by default, before it is known who asks.
MOST, MOST_OF_ADDRESS = 8_000, 512
#: All of these are this machine.
SOURCES = tuple(f"127.0.0.{number}" for number in range(2, 42))
#: How much larger a server may have become: what it keeps of strangers is bounded.
GROWTH_MB = 200
#: So many leave a large request unended; and so much larger a server may be by then, which keeps 64 MiB of them.
UNENDING, UNENDING_MB = 4_000, 400


@pytest.fixture
def field(tmp_path: Path) -> Iterator[RealCluster]:
    found = RealCluster(tmp_path)
    try:
        found.open(f"--connections={MOST}")
        begin_agent(found, "n1")
        yield found
    finally:
        found.end()


def begin_agent(field: RealCluster, node: str) -> None:
    """Returns when the region knows it."""
    data, server = field.folder / node, address(PLACE, field.port)
    words = (f"--server={server}", f"--node={node}", f"--data={data}", f"--token-file={token_file(field.folder)}")
    field.start(node, "holdfast.cli.main", "agent", *words)
    field.until(lambda: read_ready_file(data) is not None, f"{node} is not registered")


def session(field: RealCluster) -> str:
    """The agent's session, by its name; it would have another if it had not been heard for a lease."""
    with field.client() as client:
        (found,) = [
            one for one in client.region(PLACE).list("sessions").items if one["spec"]["principal"] == "agent/n1"
        ]
    return str(found["metadata"]["uid"])


def megabytes(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1_024


def place(field: RealCluster, name: str) -> tuple[str, int]:
    host, port = address(name, field.port).removeprefix("http://").split(":")
    return host, int(port)


def are_held(opened: list[socket.socket]) -> int:
    """How many the other end has not ended: of those it has, there is something to read, be it the end."""
    ears = select.poll()
    for one in opened:
        ears.register(one, select.POLLIN)
    return len(opened) - len(ears.poll(0))


@pytest.mark.parametrize("first", [b"", b"GET /v1/nodes HTTP/1.1\r\nhost: x\r\n"], ids=["silent", "half-a-head"])
@pytest.mark.parametrize(
    ("sources", "most"), [(SOURCES[:1], MOST_OF_ADDRESS), (SOURCES, MOST)], ids=["one-address", "forty-addresses"]
)
def test_with_ten_thousand_connections_opened_and_left_agents_are_heard(
    field: RealCluster, sources: tuple[str, ...], most: int, first: bytes
) -> None:
    assert raise_open_file_limit() > CONNECTIONS + 1_000, "this test needs more files than it may open"
    region = field.processes[1]
    before, size, began = session(field), megabytes(region.pid), time.monotonic()
    with ExitStack() as stack:
        opened: list[socket.socket] = []
        for number in range(CONNECTIONS):
            source = (sources[number % len(sources)], 0)
            opened.append(stack.enter_context(socket.create_connection(place(field, PLACE), 30, source)))
            if first:
                try:
                    opened[-1].sendall(first)
                except OSError:
                    continue  # it had to leave already
        took = time.monotonic() - began
        field.until(lambda: are_held(opened) <= most, "more are held than may be")  # it has seen all of them by then
        held = are_held(opened)
        begin_agent(field, "n2")  # one that comes now is let in, too
        time.sleep(25)  # more than two leases
        print(f"of {CONNECTIONS} opened in {took:.0f} s {held} are held, {are_held(opened)} at the end;", end=" ")
        print(f"{megabytes(region.pid) - size} MB more than before")
        assert held > most * 0.95, "as many are really held as may be"
        assert session(field) == before, "the agent was heard all the time"
        assert "too-many-connections" in field.log(PLACE)
    assert megabytes(region.pid) - size < GROWTH_MB
    assert region.poll() is None


def test_with_thousands_of_requests_that_never_end_agents_are_heard_and_memory_is_bounded(field: RealCluster) -> None:
    """All but the last byte of a request as large as one may be: it has to be kept until it is whole, or given up."""
    assert raise_open_file_limit() > UNENDING + 1_000, "this test needs more files than it may open"
    region, most = field.processes[1], b"POST /v1/envelopes HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"
    before, size = session(field), megabytes(region.pid)
    with ExitStack() as stack:
        opened: list[socket.socket] = []
        for number in range(UNENDING):
            source = (SOURCES[number % len(SOURCES)], 0)
            opened.append(stack.enter_context(socket.create_connection(place(field, PLACE), 30, source)))
            with suppress(OSError):  # it had to leave already
                opened[-1].sendall(most + bytes(999_999))
        held, grown = are_held(opened), megabytes(region.pid) - size
        print(f"of {UNENDING} that sent a megabyte {held} are held; {grown} MB more than before")
        begin_agent(field, "n2")  # one that comes now is let in, too
        assert session(field) == before, "the agent was heard all the time"
    assert 0 < held < 200, "as many as there is room for"
    assert grown < UNENDING_MB
    assert region.poll() is None


WORDS = (
    "v1", "nodes", "workloads", "replicas", "tokens", "principals", "commands", "envelopes", "batch", "renewals", "log",
    "bindings", "shipments", "audit", "status", "decisions", "queue", "in", PLACE, "shop", "..", "%00", "%ff", "*",
    "a" * 300,
)  # fmt: skip
PATHS = (
    "/healthz", "/readyz", "/openapi.json", "/v1/schemas", "/v1/status", "/v1/whoami", "/v1/can-i", "/v1/audit",
    "/v1/repairs", "/v1/batch", "/v1/commands/Put", "/v1/envelopes", "/v1/envelopes/batch", "/v1/renewals", "/v1/quota",
    "/v1/shipments", f"/v1/in/{PLACE}/nodes", f"/v1/in/{PLACE}/v1/nodes", "/v1/bindings", "/v1/decisions", "/v1/log",
    "/v1/queue", "/v1/nodes", "/v1/nodes/n1", "/v1/workloads", "/v1/workloads/shop/w", "/v1/tenants/shop",
    "/v1/tokens/t", "/v1/principals/person/x", "/v1/regions", "/v1/sessions", "/v1/overrides", "/v1/policies",
)  # fmt: skip
QUERIES = (
    "limit=1",
    "limit=0",
    "limit=x",
    "since=1",
    "continue=x",
    "read=linear",
    "read=any",
    "x=y",
    "session=1.1",
    "=&=",
)
TOKEN = "authorization: Bearer {token}"
HEADERS = (
    TOKEN, "authorization: Bearer hf_x_" + "A" * 43, "authorization: Basic eDp5", "authorization: Bearer",
    "holdfast-acting-for: person/operator", "holdfast-actor: agent/n1", "holdfast-forwarded: 1", 'if-match: "1.1"',
    "holdfast-timeout-ms: 10", "holdfast-timeout-ms: 99999999999999999999", "holdfast-read: linear",
    "idempotency-key: k", "content-type: application/json", "content-type: application/msgpack", "accept: */*",
    "content-type: text/\x7f", "x-long: " + "y" * 4_000, "transfer-encoding: gzip", "connection: close",
)  # fmt: skip
BODIES = (
    b"", b"{}", b"[]", b"null", b"{" * 5_000, b'{"a":' * 2_000, b"\x93\x01\x02\x03", b"\xdd\xff\xff\xff\xff",
    b"\xc7\xff\x01", b'{"session":"1.1"}', b'{"session":"' + b"9" * 400 + b'"}', "\ud7ff{}".encode(),
    b'{"apiVersion":"holdfast/v1","kind":"Workload","metadata":{"name":"w","tenant":"shop"},"spec":{}}',
    b'{"apiVersion":"holdfast/v1","kind":"Tenant","metadata":{"name":"shop"},"spec":{"pendingMax":1e999}}',
    b'{"apiVersion":"holdfast/v1","kind":"Principal","metadata":{"name":"person/x"},"spec":{"rights":["read"]}}',
)  # fmt: skip


def request(chance: random.Random, token: str) -> bytes:
    """One that is meant to be odd: of the right words in any order, then with bytes changed, lost or repeated."""
    path = chance.choice(PATHS) if chance.random() < 0.8 else "/" + "/".join(chance.choices(WORDS, k=4))
    query = "?" + "&".join(chance.sample(QUERIES, chance.randint(1, 2))) if chance.random() < 0.3 else ""
    verb = "GET" if chance.random() < 0.5 else chance.choice(("PUT", "POST", "DELETE", "HEAD", "PATCH", "X"))
    body = b"" if verb == "GET" else chance.choice(BODIES)
    head = [f"{verb} {path}{query} HTTP/1.1", "host: x"]
    if chance.random() < 0.7:
        head.append(TOKEN)
    head += chance.sample(HEADERS, chance.choice((0, 0, 1, 3)))
    whole = "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).replace("{token}", token)
    raw = bytearray(whole.encode("latin-1") + body)
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        at = chance.randrange(len(raw))
        match chance.randrange(3):
            case 0:
                raw[at] = chance.randrange(256)
            case 1:
                del raw[at : at + chance.randint(1, 20)]
            case _:
                raw[at:at] = raw[at : at + chance.randint(1, 20)]
    return bytes(raw)


class Answer(NamedTuple):
    """Of a status of 0: it was hung up on without one, or has not been asked in full."""

    status: int
    body: bytes = b""


def answer(to: tuple[str, int], raw: bytes) -> Answer:
    """What is answered; of a fault, all that is said."""
    with socket.create_connection(to, timeout=30) as connection:
        try:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            return Answer(0)
        if not select.select([connection], [], [], 70)[0]:
            raise AssertionError(f"a hang: {raw!r}")
        try:
            said = connection.recv(64)
            status = int(said.split(b" ", 2)[1]) if said.startswith(b"HTTP/1.1 ") else 0
            while status >= 500 and (more := connection.recv(4_096)):
                said += more
        except OSError:
            return Answer(0)
    return Answer(status, said)


def is_meant(raw: bytes, found: Answer) -> bool:
    """It asked to be answered within a time of its own, and was not."""
    asked = re.search(rb"\r\nholdfast-timeout-ms:", raw.partition(b"\r\n\r\n")[0], re.IGNORECASE)
    return asked is not None and (found.status == 503 or (found.status == 504 and b'"code":"deadline"' in found.body))


def test_no_fault_passes_but_that_of_a_request_that_gave_little_time() -> None:
    hasty, plain = b"GET / HTTP/1.1\r\nHoldfast-Timeout-Ms: 1\r\n\r\n", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    late = Answer(504, b'HTTP/1.1 504 \r\n\r\n{"code":"deadline"}')
    assert is_meant(hasty, late)
    assert is_meant(hasty, Answer(503))
    for raw, found in (
        (plain, late),
        (plain, Answer(503)),
        (hasty, Answer(504)),
        (hasty, Answer(500)),
        (hasty, Answer(502)),
    ):
        assert not is_meant(raw, found)


@pytest.mark.parametrize("name", ["platform", PLACE])
def test_a_hundred_thousand_odd_requests_find_no_fault_of_ours(field: RealCluster, name: str) -> None:
    chance, to = random.Random(f"odd requests to {name}"), place(field, name)
    token = read_private(field.folder / "platform" / "operator.token") or ""
    server = field.processes[0 if name == "platform" else 1]
    before, seen, size = session(field), Counter[int](), 0
    for number in range(REQUESTS // 2):
        raw = request(chance, token)
        found = answer(to, raw)
        seen[found.status] += 1
        assert found.status < 500 or is_meant(raw, found), (found, raw)
        if number == REQUESTS // 20:
            size = megabytes(server.pid)
    print(f"{name}: {dict(sorted(seen.items()))}; {megabytes(server.pid) - size} MB more than after the first tenth")
    assert server.poll() is None
    assert megabytes(server.pid) - size < GROWTH_MB
    assert session(field) == before
    assert sum(seen[status] for status in (200, 201)) > 100, seen
    assert sum(seen[status] for status in (400, 401, 403, 404, 405, 409, 413, 415, 422)) > REQUESTS // 4, seen
