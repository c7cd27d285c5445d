"""Endpoints asked over real sockets: a GET of a path, or only a connection."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from holdfast.core.region.queries.endpoints import EndpointCheck
from holdfast.host.ports.endpoint_prober import EndpointProber

#: Of an answer only its first line is read.
LINE_BYTES = 4_096
#: What a path may have beside letters and digits: it comes from people, and must not become a second request.
_SAFE = "/%?=&;:@!$'()*+,~-._"


class SocketProber(EndpointProber):
    """Asks from this machine. A connection is used for one question, and closed at once."""

    async def probe(self, question: EndpointCheck) -> str:
        """Why it was not answered; empty: it was, over HTTP with anything from 200 to 399."""
        try:
            reader, writer = await asyncio.open_connection(question.host, question.port, limit=LINE_BYTES)
        except OSError as error:
            return error.strerror or str(error)
        try:
            if not question.path:
                return ""
            writer.write(_request(question))
            line = await reader.readline()
        except (OSError, ValueError) as error:
            return str(error) or type(error).__name__
        finally:
            writer.transport.abort()
        return _judged(line)


def _request(question: EndpointCheck) -> bytes:
    host = f"[{question.host}]" if ":" in question.host else question.host
    lines = (
        f"GET {quote(question.path, safe=_SAFE)} HTTP/1.1",
        f"Host: {host}:{question.port}",
        "User-Agent: holdfast-endpoints",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _judged(line: bytes) -> str:
    """What the first line of an answer says: `HTTP/1.1 200 OK`."""
    parts = line.split(maxsplit=2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/") or not parts[1].isdigit():
        return "it does not speak HTTP" if line else "the connection was closed without an answer"
    status = int(parts[1])
    return "" if 200 <= status < 400 else f"HTTP {status}"
