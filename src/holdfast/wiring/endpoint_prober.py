"""Endpoint probes over real sockets: a GET of a path, or only a connection."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from holdfast.core.region.queries.endpoints import EndpointCheck
from holdfast.host.ports.endpoint_prober import EndpointProber

#: Only the first line of an answer is read.
LINE_BYTES = 4_096
#: Characters of a path beside letters and digits. Tenants write paths, which must not become a second request.
_SAFE = "/%?=&;:@!$'()*+,~-._"


class SocketProber(EndpointProber):
    """Probes from this machine. A connection is used for one probe, and closed at once."""

    async def probe(self, question: EndpointCheck) -> str:
        """Return why the probe failed; empty: it passed, over HTTP with a status from 200 to 399."""
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
    """Return why this first line of an answer, such as `HTTP/1.1 200 OK`, fails the probe; empty: it passes."""
    parts = line.split(maxsplit=2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/") or not parts[1].isdigit():
        return "the answer is not HTTP" if line else "the connection was closed without an answer"
    status = int(parts[1])
    return "" if 200 <= status < 400 else f"HTTP {status}"
