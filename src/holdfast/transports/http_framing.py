"""What goes over the wire, the same for all who speak it: URLs, headers, and how a stream's messages are kept apart.

Nothing here does I/O, and nothing here is slow to import: the command line needs it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote, urlencode

from holdfast.host.ports.transport import Framing, Pairs, Request

MEDIA = {Framing.LINES: "application/x-ndjson", Framing.FRAMES: "application/vnd.holdfast.frames"}
FRAMING_BY_MEDIA = {media: framing for framing, media in MEDIA.items()}

#: Headers of one connection and not of the request: each carrier makes its own. `expect` is one of them in effect.
HOP_HEADERS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip

#: The largest answer, and the largest message of a stream, that is taken for one.
MESSAGE_MAX_BYTES = 64 << 20

#: So much is kept at a time of what one peer answers, as long as it is not whole: whoever is asked by many, and is bad,
#: could answer each of them with the largest answer there is.
PEER_MAX_BYTES = 256 << 20

_LENGTH_BYTES = 4

#: Why nothing is sent over plain HTTP to another machine.
PLAINTEXT_REFUSED = "it is plain http and not on this machine, where others could read what is sent; https is needed"


def request_target(request: Request) -> str:
    """Path and query as they stand in a request line: ASCII, and what they were once they are decoded."""
    assert request.path.startswith("/"), f"a path begins with a slash: {request.path!r}"
    path = quote(request.path, safe="/:@!$&'()*+,;=~")
    if path.startswith("//"):
        path = "/%2F" + path[2:]  # or the first part of the path would read as the name of a host
    return f"{path}?{urlencode(request.query, quote_via=quote)}" if request.query else path


def strip_hop_headers(headers: Pairs) -> list[tuple[str, str]]:
    """The headers that are the request's own, or the reply's, and not its connection's."""
    return [pair for pair in headers if pair[0] not in HOP_HEADERS]


def parse_headers(raw: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Headers as they came, in the form that the port asks for."""
    pairs = [(name.lower().decode("latin-1"), value.decode("utf-8", "replace")) for name, value in raw]
    return tuple(pair for pair in pairs if pair[0] not in HOP_HEADERS)


def framing_of(headers: Pairs) -> Framing | None:
    """Which framing these headers announce; none: this is no stream."""
    for name, value in headers:
        if name == "content-type":
            return FRAMING_BY_MEDIA.get(value.partition(";")[0].strip().lower())
    return None


def _line(message: bytes) -> bytes:
    if b"\n" in message:
        raise ValueError("a line holds no newline")
    return message + b"\n"


def _frame(message: bytes) -> bytes:
    return len(message).to_bytes(_LENGTH_BYTES, "big") + message


#: From a message to its bytes on the wire.
FRAME_ENCODERS: dict[Framing, Callable[[bytes], bytes]] = {Framing.LINES: _line, Framing.FRAMES: _frame}


class PeerBuffers:
    """How much is kept of answers that are on their way, by peer."""

    def __init__(self, most: int = PEER_MAX_BYTES) -> None:
        self._most = most
        self._of: dict[str, int] = {}

    def keep(self, peer: str, more: int) -> None:
        """So much more is kept of what this peer answers, or less. Raises ValueError where that is too much: then
        whatever has come just now is not to be kept."""
        kept = self._of.get(peer, 0) + more
        if more > 0 and kept > self._most:
            raise ValueError(f"{peer} answers with more than {self._most} bytes at a time")
        if kept:
            self._of[peer] = kept
        else:
            self._of.pop(peer, None)


class StreamDecoder:
    """From bytes on the wire, however they were cut, back to messages. What is not whole yet is left as it came: a long
    message would else be put together anew with each of its parts."""

    def __init__(self, framing: Framing) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        #: How many bytes there are when the next message is whole, as far as is known.
        self._whole = _LENGTH_BYTES
        self._is_lines = framing is Framing.LINES

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now. Raises ValueError for one that is larger than any may be."""
        self._parts.append(data)
        self._size += len(data)
        messages: list[bytes] = []
        if b"\n" in data if self._is_lines else self._size >= self._whole:
            messages, rest = (_lines if self._is_lines else _frames)(b"".join(self._parts))
            self._parts, self._size, self._whole = [rest] if rest else [], len(rest), _whole(rest)
        if self._size > MESSAGE_MAX_BYTES + _LENGTH_BYTES:
            raise ValueError(f"a message of more than {MESSAGE_MAX_BYTES} bytes")
        return messages

    @property
    def kept(self) -> int:
        """How many bytes have come of a message that is not whole."""
        return self._size

    @property
    def is_between(self) -> bool:
        """Whether all that came was whole: a stream may end here."""
        return not self._size


def _whole(rest: bytes) -> int:
    """How many bytes a frame has that begins so; of its length alone, where not even that is here."""
    return _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "big") if len(rest) >= _LENGTH_BYTES else _LENGTH_BYTES


def _lines(data: bytes) -> tuple[list[bytes], bytes]:
    *messages, rest = data.split(b"\n")
    return messages, rest


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    messages, at = [], 0
    while len(data) - at >= _LENGTH_BYTES:
        begin = at + _LENGTH_BYTES
        end = begin + int.from_bytes(data[at:begin], "big")
        if end - begin > MESSAGE_MAX_BYTES:
            raise ValueError(f"a message of {end - begin} bytes")
        if end > len(data):
            break
        messages.append(data[begin:end])
        at = end
    return messages, data[at:]
