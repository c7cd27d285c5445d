"""Parses listen addresses, and checks whether only this machine can reach them."""

from __future__ import annotations

from holdfast.core.model.values import addresses


def parse_listen(listen: str) -> tuple[str, int] | None:
    """Return host and port of `127.0.0.1:7400` or `[::1]:7400`; None for other texts."""
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        return None
    return host, int(port)


def is_loopback(listen: str) -> bool:
    """Whether only this machine can reach the address. A name other than localhost may resolve to any host."""
    found = parse_listen(listen)
    return found is not None and addresses.is_loopback(found[0])
