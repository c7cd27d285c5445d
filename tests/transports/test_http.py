"""What is HTTP's own among the transports: TLS, what a stranger may send, and asking without an event loop.

That it is a transport is told in tests/contract/test_transport.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.transport import (
    Framing,
    NoAnswer,
    Reply,
    Request,
    StreamDeclined,
    StreamReply,
    TransportError,
    Unreachable,
    first_value,
)
from holdfast.transports import http_connection, http_framing
from holdfast.transports.blocking_http import BlockingHttpTransport
from holdfast.transports.http_connection import ConnectionLimits
from holdfast.transports.http_framing import PeerBuffers
from holdfast.transports.http_transport import HttpTransport
from holdfast.transports.tls import TlsConfig
from tests.support.certificates import Authority
from tests.support.event_loop import in_a_loop

T = TypeVar("T")

LIMITS = ConnectionLimits(body_bytes=100_000, head_bytes=8_000, request_ms=10_000, idle_ms=10_000, drain_ms=200)


class Served:
    """A server that echoes, and remembers what it was asked."""

    def __init__(self, transport: HttpTransport) -> None:
        self.transport = transport
        self.asked: list[Request] = []
        self.ended: list[str] = []
        self.answer: Reply | None = None
        transport.serve(self.serve)

    @property
    def address(self) -> str:
        return self.transport.address

    async def serve(self, request: Request) -> Reply | StreamReply:
        self.asked.append(request)
        match request.path:
            case "/count":
                return StreamReply(
                    self.count(int(request.body or b"1000000")), Framing(first_value(request.query, "as", "lines"))
                )
            case "/wait":
                return StreamReply(self.wait())
            case "/slow":
                await asyncio.sleep(0.1)
            case "/break":
                raise ValueError("secret of the handler")
        return self.answer or Reply(headers=(("x-proven", request.proven),), body=request.body)

    async def count(self, most: int) -> AsyncIterator[bytes]:
        for number in range(most):
            yield b"%d" % number

    async def wait(self) -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.sleep(60)
        finally:
            self.ended.append("wait")


@asynccontextmanager
async def serving(tls: TlsConfig | None = None, limits: ConnectionLimits = LIMITS) -> AsyncIterator[Served]:
    transport = HttpTransport(SystemClock(), listen="127.0.0.1:0", tls=tls, limits=limits)
    await transport.start()
    try:
        yield Served(transport)
    finally:
        await transport.close()
        await asyncio.sleep(0)  # asyncio's own tasks of handshakes that have just failed end in the next turn
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"


@asynccontextmanager
async def asking(tls: TlsConfig | None = None) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(SystemClock(), tls=tls)
    await transport.start()
    try:
        yield transport
    finally:
        await transport.close()


async def asked(served: Served, request: Request, tls: TlsConfig | None = None) -> Reply:
    async with asking(tls) as transport:
        return await transport.call(served.address, request, 30_000)


async def until_ended(served: Served, what: str) -> None:
    """Wait until a source has ended, and nothing else."""
    async with asyncio.timeout(30):
        while not served.ended:
            await asyncio.sleep(0.01)
    assert served.ended == [what]


async def talk(address: str, *data: bytes) -> bytes:
    """What a server says to these bytes until it closes the connection."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for part in data:
            writer.write(part)
            await asyncio.sleep(0.01)
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()
        await writer.wait_closed()


async def aside(act: Callable[[], T]) -> T:
    """A blocking client, while the server has the loop."""
    return await asyncio.to_thread(act)


HELLO = Request("POST", "/echo", body=b"hello")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def strangers(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "theirs")


# Certificates.


@in_a_loop
async def test_tls_carries_requests_and_streams(authority: Authority) -> None:
    async with serving(authority.server()) as served, asking(authority.client()) as client:
        assert served.address.startswith("https://")
        assert (await client.call(served.address, HELLO, 30_000)).body == b"hello"
        request = Request("GET", "/count", body=b"3")
        assert [line async for line in client.stream(served.address, request, 30_000)] == [b"0", b"1", b"2"]
        assert served.asked[0].proven == ""


@in_a_loop
async def test_a_certificate_proves_its_principal(authority: Authority) -> None:
    async with serving(authority.server(require_client=True)) as served:
        reply = await asked(served, HELLO, authority.client("holdfast:agent/n1", "https://elsewhere"))
        assert first_value(reply.headers, "x-proven") == "agent/n1"


@in_a_loop
async def test_a_certificate_proves_nobody_on_a_connection_that_outlives_it(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ConnectionLimits(request_ms=100)
    async with serving(authority.server(), limits) as served, asking(authority.client("holdfast:agent/n1")) as client:
        stream = client.stream(served.address, Request("GET", "/wait"), 20_000)
        assert await anext(stream) == b"first"
        monkeypatch.setattr(
            http_connection, "wall", lambda: time.time() + 2 * 86_400
        )  # certificates of tests last a day
        with pytest.raises(NoAnswer):
            await anext(stream)
        assert served.ended == ["wait"]


@in_a_loop
async def test_a_request_on_a_kept_connection_is_nobodys_once_the_certificate_has_ended(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(authority.server()) as served, asking(authority.client("holdfast:agent/n1")) as client:
        await client.call(served.address, HELLO, 30_000)
        monkeypatch.setattr(http_connection, "wall", lambda: time.time() + 2 * 86_400)
        await client.call(served.address, HELLO, 30_000)
        assert [one.proven for one in served.asked] == ["agent/n1", ""]


@in_a_loop
async def test_what_a_sender_writes_proves_nothing(authority: Authority) -> None:
    headers = tuple((name, "person/root") for name in ("proven", "x-proven", "holdfast-proven", "x-forwarded-for"))
    forged = Request("GET", "/", (("proven", "person/root"),), headers, proven="person/root")
    async with serving(authority.server()) as served:
        for tls, proven in ((authority.client(), ""), (authority.client("holdfast:agent/n1"), "agent/n1")):
            await asked(served, forged, tls)
            assert served.asked[-1].proven == proven


@pytest.mark.parametrize("uris", [("spiffe://agent/n1",), ("holdfast:agent/n1", "holdfast:person/root")])
@in_a_loop
async def test_a_certificate_of_no_principal_or_of_two_proves_none(authority: Authority, uris: tuple[str, ...]) -> None:
    async with serving(authority.server()) as served:
        await asked(served, HELLO, authority.client(*uris))
        assert served.asked[0].proven == ""


@in_a_loop
async def test_a_server_of_another_authority_is_unreachable_and_asked_nothing(
    authority: Authority, strangers: Authority
) -> None:
    async with serving(strangers.server()) as served:
        with pytest.raises(Unreachable):
            await asked(served, HELLO, authority.client())
        with pytest.raises(Unreachable):
            await aside(lambda: BlockingHttpTransport(authority.client()).call(served.address, HELLO, 30_000))
        assert served.asked == []


@in_a_loop
async def test_a_certificate_for_another_host_is_unreachable(authority: Authority) -> None:
    async with serving(authority.server("elsewhere.example")) as served:
        with pytest.raises(Unreachable):
            await asked(served, HELLO, authority.client())
        assert served.asked == []


@in_a_loop
async def test_why_a_peer_is_not_believed_is_told_in_words(authority: Authority, strangers: Authority) -> None:
    async with serving(strangers.server()) as served:
        with pytest.raises(Unreachable, match=r": its certificate is not trusted: [a-z -]+$"):
            await asked(served, HELLO, authority.client())
        with pytest.raises(Unreachable, match=r": its certificate is not trusted: [a-z -]+$"):
            await aside(lambda: BlockingHttpTransport(authority.client()).call(served.address, HELLO, 30_000))
    with pytest.raises(Unreachable, match=r"refused|Connect call failed") as told:
        await asked(served, HELLO, authority.client())
    assert "SSLContext" not in str(told.value)


@in_a_loop
async def test_a_client_of_another_authority_or_without_a_certificate_is_not_served(
    authority: Authority, strangers: Authority
) -> None:
    forged = strangers.client("holdfast:person/root", believes=authority.authorities)
    async with serving(authority.server(require_client=True)) as served:
        for tls in (authority.client(), forged):
            # In TLS 1.3 it is told only after it has sent what it had to: it cannot know that nobody looked at it.
            with pytest.raises(TransportError):
                await asked(served, HELLO, tls)
    async with serving(authority.server()) as lenient:
        with pytest.raises(TransportError):
            await asked(lenient, HELLO, forged)
        assert served.asked == lenient.asked == []


# What strangers send.


@pytest.mark.parametrize("size", [100_001, 3_000_000])
@in_a_loop
async def test_a_body_that_is_too_large_is_refused_and_the_connection_goes_on(size: int) -> None:
    async with serving() as served, asking() as client:
        reply = await client.call(served.address, Request("POST", "/echo", body=b"x" * size), 30_000)
        problem = json.loads(reply.body)
        assert (reply.status, problem["type"]) == (413, "urn:holdfast:problem:too-large")
        assert first_value(reply.headers, "content-type") == "application/problem+json"
        assert served.asked == []
        assert (await client.call(served.address, Request("POST", "/", body=b"x" * 100_000), 30_000)).status == 200


@in_a_loop
async def test_a_chunked_body_is_counted_too() -> None:
    async with serving() as served:
        chunks = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        head = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        said = await talk(served.address, head, *[chunks] * 4, b"0\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 413 ")
        said = await talk(served.address, head, *[chunks] * 3, b"0\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200 ")
        assert [len(request.body) for request in served.asked] == [3 * 0x8000]


@pytest.mark.parametrize(
    "data",
    [
        b"what is this\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET /grö HTTP/1.1\r\nhost: x\r\n\r\n".encode("latin-1"),
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
@in_a_loop
async def test_what_is_not_http_is_told_so_and_hung_up_on(data: bytes) -> None:
    async with serving() as served:
        said = await talk(served.address, data)
        assert said.startswith(b"HTTP/1.1 400 ")
        assert json.loads(said.partition(b"\r\n\r\n")[2])["code"] == "malformed"
        assert served.asked == []


@in_a_loop
async def test_a_head_without_an_end_is_cut_off() -> None:
    async with serving() as served:
        said = await talk(served.address, b"GET / HTTP/1.1\r\n", *[b"x-filler: " + b"y" * 900 + b"\r\n"] * 9)
        assert said.startswith(b"HTTP/1.1 431 ")
        assert served.asked == []


@pytest.mark.parametrize("data", [b"", b"GET / HT", b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab"])
@in_a_loop
async def test_a_request_that_does_not_arrive_in_time_is_cut_off(data: bytes) -> None:
    async with serving(limits=ConnectionLimits(request_ms=100)) as served:
        assert (await talk(served.address, data)).startswith(b"HTTP/1.1 408 ")
        assert served.asked == []


@in_a_loop
async def test_a_connection_without_requests_is_closed_and_one_that_waits_for_its_answer_is_not() -> None:
    async with serving(limits=ConnectionLimits(request_ms=30, idle_ms=100)) as served:
        said = await talk(served.address, b"POST /slow HTTP/1.1\r\ncontent-length: 2\r\n\r\nhi")
        assert said.endswith(b"\r\n\r\nhi")


@in_a_loop
async def test_a_serving_that_fails_is_told_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        with caplog.at_level(logging.ERROR, "holdfast"):
            reply = await asked(served, Request("GET", "/break"))
        assert (reply.status, json.loads(reply.body)["type"]) == (500, "urn:holdfast:problem:internal")
        assert b"secret" not in reply.body
        assert b"Traceback" not in reply.body
        (record,) = caplog.records
        assert (record.event, record.fields["path"]) == ("serving-raised", "/break")  # type: ignore[attr-defined]


@in_a_loop
async def test_an_answer_that_cannot_be_sent_is_no_answer() -> None:
    async with serving() as served:
        served.answer = Reply(headers=(("x-note", "two\r\nlines: 1"),))
        with pytest.raises(NoAnswer):
            await asked(served, HELLO)


@in_a_loop
async def test_a_head_is_answered_as_a_get_without_its_body() -> None:
    async with serving() as served:
        served.answer = Reply(headers=(("etag", '"1.1"'),), body=b"hello")
        said = await talk(served.address, b"HEAD /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b'etag: "1.1"' in said
        assert b"content-length: 5" in said
        assert said.endswith(b"\r\n\r\n")
        said = await talk(served.address, b"HEAD /wait HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert b"content-type: application/x-ndjson" in said
        assert said.endswith(b"\r\n\r\n")
        assert [request.verb for request in served.asked] == ["GET", "GET"]


@pytest.mark.parametrize("status", [204, 304])
@in_a_loop
async def test_an_answer_without_a_body_has_none(status: int) -> None:
    async with serving() as served, asking() as client:
        served.answer = Reply(status, body=b"left out")
        for _ in range(2):
            assert await client.call(served.address, HELLO, 30_000) == Reply(status)


@in_a_loop
async def test_redirects_are_answers_and_nobody_follows_them() -> None:
    async with serving() as served:
        served.answer = Reply(307, (("location", "/elsewhere"),))
        assert (await asked(served, HELLO)).status == 307
        assert len(served.asked) == 1


@in_a_loop
async def test_signals_stay_with_the_process() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with serving():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


# Streams.


@in_a_loop
async def test_lines_and_frames_on_the_wire() -> None:
    async with serving() as served:
        end = b"connection: close\r\ncontent-length: 1\r\n\r\n2"
        lines = await talk(served.address, b"GET /count HTTP/1.1\r\nhost: x\r\n" + end)
        assert b"content-type: application/x-ndjson\r\n" in lines
        assert lines.endswith(b"\r\n\r\n2\r\n0\n\r\n2\r\n1\n\r\n0\r\n\r\n")
        frames = await talk(served.address, b"GET /count?as=frames HTTP/1.1\r\nhost: x\r\n" + end)
        assert b"content-type: application/vnd.holdfast.frames\r\n" in frames
        assert frames.endswith(b"5\r\n\0\0\0\x010\r\n5\r\n\0\0\0\x011\r\n0\r\n\r\n")


@pytest.mark.parametrize("framing", Framing)
def test_a_long_message_is_put_together_once_however_it_is_cut(
    framing: Framing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put together anew with each part, one of 64 MiB would keep the loop of who reads it for seconds."""
    joined: list[int] = []
    name = "_lines" if framing is Framing.LINES else "_frames"
    split = getattr(http_framing, name)

    def noting(data: bytes) -> tuple[list[bytes], bytes]:
        joined.append(len(data))
        found: tuple[list[bytes], bytes] = split(data)
        return found

    monkeypatch.setattr(http_framing, name, noting)
    messages = [b"a", b"", b"long" * 10_000, b"z"]
    sent = b"".join(http_framing.FRAME_ENCODERS[framing](message) for message in messages)
    for size in (1, 3, 7, 1_000, len(sent)):
        joined.clear()
        unframing = http_framing.StreamDecoder(framing)
        parts = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert [one for part in parts for one in unframing.feed(part)] == messages
        assert unframing.is_between
        assert len(joined) <= 2 * len(messages)
        assert sum(joined) <= 3 * len(sent)


@in_a_loop
async def test_a_reader_that_disconnects_ends_a_source_that_waits() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection(*served.address.removeprefix("http://").split(":"))
        writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"first\n"), 30)
        assert served.ended == []
        writer.close()
        await writer.wait_closed()
        await until_ended(served, "wait")


@in_a_loop
async def test_a_source_that_never_waits_leaves_others_their_turn() -> None:
    async with serving() as served, asking() as client:

        async def read() -> int:
            return len([line async for line in client.stream(served.address, Request("GET", "/count"), 30_000)])

        reading = asyncio.create_task(read())
        for _ in range(10):
            assert (await client.call(served.address, HELLO, 1_000)).status == 200
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])


# Asking.


@asynccontextmanager
async def a_server_that(answers: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Its address, and what it was sent. It answers the same to everything and hangs up; None: it says nothing."""
    heads: list[bytes] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.read(1_000))
        if answers is None:
            await reader.read()
        else:
            writer.write(answers)
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        server.close()
        await asyncio.sleep(0.01)


PARTS = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncont",
    "half a body": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
    "half a stream": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
    "no length": b"HTTP/1.1 200 OK\r\n\r\nall or half of it",
    "no HTTP": b"220 mail.example ready\r\n\r\n",
}


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("part", PARTS)
@in_a_loop
async def test_a_request_is_sent_once_and_without_a_whole_answer_there_is_none(verb: str, part: str) -> None:
    async with a_server_that(PARTS[part]) as (address, heads), asking() as client:
        request = Request(verb, "/x", body=b"body" if verb in ("PUT", "POST") else b"")
        with pytest.raises(NoAnswer):
            await client.call(f"http://{address}", request, 2_000)
        with pytest.raises(NoAnswer):
            await aside(lambda: BlockingHttpTransport().call(f"http://{address}", request, 2_000))
        assert [head.split()[0].decode() for head in heads] == [verb, verb]


STREAMS = {
    "within a chunk": b"8\r\nbegun",
    "between chunks": b"6\r\nbegun\n\r\n",
    "within a line": b"5\r\nbegun\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("part", STREAMS)
@in_a_loop
async def test_a_stream_that_is_cut_off_anywhere_is_no_answer(part: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
    async with a_server_that(head + STREAMS[part]) as (address, _), asking() as client:
        request = Request("GET", "/x")
        with pytest.raises(NoAnswer):
            _ = [line async for line in client.stream(f"http://{address}", request, 2_000)]
        with pytest.raises(NoAnswer):
            await aside(lambda: list(BlockingHttpTransport().stream(f"http://{address}", request, 2_000)))


@pytest.mark.parametrize("head", ["content-length: 99999999999", "transfer-encoding: chunked"])
@in_a_loop
async def test_an_answer_without_an_end_is_not_gathered(head: str) -> None:
    """Whoever is asked could fill the memory of whoever asks."""
    most, told = 1 << 20, 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal told
        await reader.read(1_000)
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        piece = bytes(1 << 16)
        try:
            while told < 100 * most:
                writer.write(piece if "length" in head else b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                told += len(piece)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_framing, "MESSAGE_MAX_BYTES", most)
        async with asking() as client:
            for asked in (client.call(address, HELLO, 60_000), anext(client.stream(address, HELLO, 60_000))):
                told = 0
                with pytest.raises(NoAnswer, match="an answer of more than"):
                    await asked
                assert told < 50 * most  # what the sockets hold, and no more
        told = 0
        with pytest.raises(NoAnswer, match="an answer of more than"):
            await aside(lambda: BlockingHttpTransport().call(address, HELLO, 60_000))
        assert told < 50 * most
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("media", ["application/json", "application/x-ndjson"])
@in_a_loop
async def test_a_peer_that_many_ask_at_a_time_cannot_fill_our_memory_with_its_answers(media: str) -> None:
    """Each of its answers is as large as one may be, and none of them ends."""
    each, asks = 1 << 20, 8
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ntransfer-encoding: chunked\r\n\r\n".encode()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(head + b"%x\r\n%b\r\n" % (each, b"." * each))
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    bad = await asyncio.start_server(pour, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{bad.sockets[0].getsockname()[1]}"
    async with asking() as client, serving() as other:
        client._client().arriving = PeerBuffers(3 * each)
        streams = [client.stream(address, HELLO, 60_000) for _ in range(asks)]
        answers = (client.call(address, HELLO, 60_000) if media.endswith("/json") else anext(one) for one in streams)
        waiting = [asyncio.ensure_future(one) for one in answers]
        broken: set[asyncio.Future[Any]] = set()
        while len(broken) < asks - 3:
            done, _ = await asyncio.wait([one for one in waiting if one not in broken], return_when="FIRST_COMPLETED")
            broken |= done
        for one in broken:
            with pytest.raises(NoAnswer, match="bytes at a time"):
                one.result()
        assert (await client.call(other.address, HELLO, 20_000)).status == 200, "others are heard as before"
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        assert client._client().arriving._of == {}
    bad.close()
    await bad.wait_closed()


@in_a_loop
async def test_a_deadline_that_passes_while_connecting_promises_that_nothing_was_sent() -> None:
    async with a_server_that(None) as (address, _), asking() as client:
        # The connection stands, and the handshake never ends: nothing of the request can have gone out.
        with pytest.raises(Unreachable):
            await client.call(f"https://{address}", HELLO, 200)
        with pytest.raises(Unreachable):
            await aside(lambda: BlockingHttpTransport().call(f"https://{address}", HELLO, 200))
        with pytest.raises(NoAnswer):
            await client.call(f"http://{address}", HELLO, 200)
        with pytest.raises(NoAnswer):
            await aside(lambda: BlockingHttpTransport().call(f"http://{address}", HELLO, 200))


@in_a_loop
async def test_plain_http_beyond_loopback_is_refused_before_a_connection_is_made() -> None:
    # The kernel takes 0.0.0.0 for this machine, and nothing but the kernel promises that: it stands for elsewhere.
    async with serving() as served, asking() as client:
        elsewhere, connections = served.address.replace("127.0.0.1", "0.0.0.0"), served.transport._crowd.connections
        plain = BlockingHttpTransport()
        for refused in (
            client.call(elsewhere, HELLO, 30_000),
            anext(client.stream(elsewhere, HELLO, 30_000)),
            aside(lambda: plain.call(elsewhere, HELLO, 30_000)),
            aside(lambda: list(plain.stream(elsewhere, HELLO, 30_000))),
        ):
            with pytest.raises(Unreachable, match="plain http beyond this machine"):
                await refused
        assert (served.asked, len(connections)) == ([], 0)
        insisting = HttpTransport(SystemClock(), insecure=True)
        await insisting.start()
        assert (await insisting.call(elsewhere, HELLO, 30_000)).body == b"hello"
        await insisting.close()
        with closing(BlockingHttpTransport(insecure=True)) as plainly:
            assert (await aside(lambda: plainly.call(elsewhere, HELLO, 30_000))).body == b"hello"


@in_a_loop
async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async with serving() as away, serving() as served, asking() as client:
        served.answer = Reply(307, (("location", f"{away.address}/echo"),))
        assert (await client.call(served.address, HELLO, 30_000)).status == 307
        with closing(BlockingHttpTransport()) as plain:
            assert (await aside(lambda: plain.call(served.address, HELLO, 30_000))).status == 307
        assert (len(served.asked), away.asked) == (2, [])


@pytest.mark.parametrize("peer", ["http://127.0.0.1:1", "https://no-such-host.invalid:80", "http://127.0.0.1:99999"])
@in_a_loop
async def test_nobody_there_is_unreachable(peer: str) -> None:
    async with asking() as client:
        with pytest.raises(Unreachable):
            await client.call(peer, HELLO, 5_000)
        with pytest.raises(Unreachable):
            await aside(lambda: BlockingHttpTransport().call(peer, HELLO, 5_000))


@in_a_loop
async def test_what_is_under_way_is_answered_before_a_server_has_closed() -> None:
    async with serving(limits=ConnectionLimits(drain_ms=2_000)) as served, asking() as client:
        under_way = asyncio.create_task(
            client.call(served.address, Request("GET", "/slow", body=b"x" * 90_000), 30_000)
        )
        while not served.asked:
            await asyncio.sleep(0.01)
        await served.transport.close()
        assert len((await under_way).body) == 90_000


# Without an event loop.


@in_a_loop
async def test_a_plain_transport_sends_and_hears_the_same() -> None:
    sent = Request(
        "PUT", "/größe/a b", (("q", "ü&="),), (("x-note", "naïve"), ("content-type", "a/b")), b"\x00" * 9_000
    )
    async with serving() as served:
        plain = BlockingHttpTransport()
        reply = await aside(lambda: plain.call(served.address, sent, 30_000))
        (came,) = served.asked
        assert (came.verb, came.path, came.query, came.body) == (sent.verb, sent.path, sent.query, sent.body)
        assert [pair for pair in came.headers if pair in sent.headers] == list(sent.headers)
        assert reply == Reply(200, (("x-proven", ""),), sent.body)
        plain.close()


@pytest.mark.parametrize("framing", Framing)
@in_a_loop
async def test_a_plain_transport_reads_streams(framing: Framing) -> None:
    async with serving() as served:
        plain = BlockingHttpTransport()
        count = Request("GET", "/count", (("as", framing.value),), body=b"5000")
        lines = await aside(lambda: list(plain.stream(served.address, count, 30_000)))
        assert lines == [b"%d" % number for number in range(5_000)]
        with pytest.raises(StreamDeclined) as declined:
            await aside(lambda: list(plain.stream(served.address, HELLO, 30_000)))
        assert declined.value.reply.body == b"hello"
        with pytest.raises(StreamDeclined):
            await aside(lambda: plain.call(served.address, count, 30_000))
        plain.close()


@in_a_loop
async def test_a_plain_reader_that_has_enough_ends_the_stream_and_an_idle_one_is_told() -> None:
    async with serving() as served:
        stream = BlockingHttpTransport().stream(served.address, Request("GET", "/wait"), 200)
        assert await aside(lambda: next(stream)) == b"first"
        with pytest.raises(NoAnswer):
            await aside(lambda: next(stream))
        await until_ended(served, "wait")


@in_a_loop
async def test_a_plain_transport_keeps_its_connection() -> None:
    async with serving() as served:
        plain = BlockingHttpTransport()
        await aside(lambda: plain.call(served.address, HELLO, 30_000))
        (kept,) = plain._kept.values()
        for question in (Request("POST", "/empty"), Request("GET", "/"), HELLO):
            await aside(lambda question=question: plain.call(served.address, question, 30_000))  # type: ignore[misc]
            assert list(plain._kept.values()) == [kept]
        plain.close()


@in_a_loop
async def test_a_plain_transport_makes_a_new_connection_when_the_kept_one_was_closed() -> None:
    async with serving(limits=ConnectionLimits(idle_ms=50)) as served:
        plain = BlockingHttpTransport()
        await aside(lambda: plain.call(served.address, HELLO, 30_000))
        (kept,) = plain._kept.values()
        await aside(lambda: select.select([kept.sock], [], [], 30))  # readable: the server has closed it
        assert (await aside(lambda: plain.call(served.address, HELLO, 30_000))).body == b"hello"
        assert list(plain._kept.values()) != [kept]
        plain.close()


@in_a_loop
async def test_a_plain_transport_shows_its_certificate(authority: Authority) -> None:
    async with serving(authority.server(require_client=True)) as served:
        plain = BlockingHttpTransport(authority.client("holdfast:person/me"))
        for _ in range(2):
            reply = await aside(lambda: plain.call(served.address, HELLO, 30_000))
            assert first_value(reply.headers, "x-proven") == "person/me"
        plain.close()


def test_a_plain_transport_brings_nothing_that_is_slow_to_import() -> None:
    slow = "{'asyncio', 'aiohttp', 'uvicorn'}"
    code = f"import sys, holdfast.transports.blocking_http; print(*sorted({slow} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
