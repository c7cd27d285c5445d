"""The wire format, equal for all transports: URLs, headers, and the framing of a stream's messages.

Nothing here does I/O or is slow to import: the command line uses it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote, urlencode

from holdfast.host.ports.transport import Framing, Pairs, Request

MEDIA = {Framing.LINES: "application/x-ndjson", Framing.FRAMES: "application/vnd.holdfast.frames"}
FRAMING_BY_MEDIA = {media: framing for framing, media in MEDIA.items()}

#: Headers of a connection, not of the request: each transport sets its own. `expect` is one of them in effect.
HOP_HEADERS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip

#: Largest reply, and largest message of a stream, that is accepted.
MESSAGE_MAX_BYTES = 64 << 20

#: Largest number of buffered bytes of incomplete replies of one peer. A malicious peer that gets many requests could
#: send the largest reply to each.
PEER_MAX_BYTES = 256 << 20

_LENGTH_BYTES = 4

#: Why nothing is sent over plain HTTP to another machine.
PLAINTEXT_REFUSED = "plain http beyond this machine is refused, since others could read what is sent: use https"


def request_target(request: Request) -> str:
    """Return path and query as in a request line: ASCII, with equal values after decoding."""
    assert request.path.startswith("/"), f"a path begins with a slash: {request.path!r}"
    path = quote(request.path, safe="/:@!$&'()*+,;=~")
    if path.startswith("//"):
        path = "/%2F" + path[2:]  # otherwise, the first part would be read as a host name
    return f"{path}?{urlencode(request.query, quote_via=quote)}" if request.query else path


def strip_hop_headers(headers: Pairs) -> list[tuple[str, str]]:
    """Return the headers of the request or reply itself, without those of its connection."""
    return [pair for pair in headers if pair[0] not in HOP_HEADERS]


def parse_headers(raw: Iterable[tuple[bytes, bytes]]) -> Pairs:
    """Return received headers in the form of the port."""
    pairs = [(name.lower().decode("latin-1"), value.decode("utf-8", "replace")) for name, value in raw]
    return tuple(pair for pair in pairs if pair[0] not in HOP_HEADERS)


def framing_of(headers: Pairs) -> Framing | None:
    """Return the framing that these headers announce; None: it is not a stream."""
    for name, value in headers:
        if name == "content-type":
            return FRAMING_BY_MEDIA.get(value.partition(";")[0].strip().lower())
    return None


def _line(message: bytes) -> bytes:
    if b"\n" in message:
        raise ValueError("a line must not contain a newline")
    return message + b"\n"


def _frame(message: bytes) -> bytes:
    return len(message).to_bytes(_LENGTH_BYTES, "big") + message


#: From a message to its bytes on the wire.
FRAME_ENCODERS: dict[Framing, Callable[[bytes], bytes]] = {Framing.LINES: _line, Framing.FRAMES: _frame}


class PeerBuffers:
    """Buffered bytes of incomplete replies, by peer."""

    def __init__(self, most: int = PEER_MAX_BYTES) -> None:
        self._most = most
        self._of: dict[str, int] = {}

    def keep(self, peer: str, more: int) -> None:
        """Add to the buffered bytes of a peer, or subtract. Raise ValueError above the limit; the new bytes must be
        discarded then."""
        kept = self._of.get(peer, 0) + more
        if more > 0 and kept > self._most:
            raise ValueError(f"{peer} answers with more than {self._most} bytes at a time")
        if kept:
            self._of[peer] = kept
        else:
            self._of.pop(peer, None)


class StreamDecoder:
    """From bytes on the wire, in any pieces, back to messages. Pieces of an incomplete message stay separate: joining a
    long message again with each piece would be slow."""

    def __init__(self, framing: Framing) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        #: Bytes needed until the next message is complete, as far as is known.
        self._whole = _LENGTH_BYTES
        self._is_lines = framing is Framing.LINES

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now. Raise ValueError for one above the size limit."""
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
        """Bytes of an incomplete message."""
        return self._size

    @property
    def is_between(self) -> bool:
        """Whether no incomplete message is buffered: a stream may end here."""
        return not self._size


def _whole(rest: bytes) -> int:
    """Return the size of the frame at the begin of these bytes; the size of its length field, if that is incomplete."""
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
