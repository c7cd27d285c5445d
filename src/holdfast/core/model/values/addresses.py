"""Addresses of servers: whether a host is this machine, and whether credentials may be sent to a URL. Pure.

One grammar, narrower than that of URL libraries: no user, path or query, and no text that two parsers could read
differently. A name other than `localhost` counts as remote, whatever it resolves to: a later lookup may differ.
"""

from __future__ import annotations

import ipaddress
import re

LOCALHOST = "localhost"
_URL = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?/?", re.IGNORECASE | re.ASCII)
_PORT_MAX = 65_535
_PORTS = {"http": 80, "https": 443}

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def ip_of(host: str) -> IpAddress | None:
    """Return a host's IP address, with or without brackets; None for a name. A mapped IPv6 address becomes IPv4."""
    try:
        found = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped if mapped is not None else found


def is_loopback(host: str) -> bool:
    """Whether data sent to this host stays on this machine."""
    ip = ip_of(host)
    return ip.is_loopback if ip is not None else host.lower() == LOCALHOST


def is_cleartext(scheme: str, host: str) -> bool:
    """Whether a third party on the network could read data sent this way, or answer in the host's place."""
    return scheme.lower() != "https" and not is_loopback(host)


def url_problem(url: str) -> str:
    """Return why this is no URL of a server; empty if it is one."""
    found = _URL.fullmatch(url)
    port = found[3] if found is not None else None
    if found is None or (port is not None and not 0 < int(port) <= _PORT_MAX):
        return "is no URL of a server; write it as https://HOST:PORT"
    if found[2].startswith("[") and ip_of(found[2]) is None:
        return "is no URL of a server: the brackets contain no IPv6 address"
    return ""


def address_problem(url: str) -> str:
    """Return why this URL cannot be the address of any server; empty if it can."""
    found = _URL.fullmatch(url)
    ip = ip_of(found[2]) if found is not None else None
    if ip is not None and ip.is_unspecified:
        return "is an address that cannot be reached; write the one that clients use: https://HOST:PORT"
    return url_problem(url)


def without_user(url: str) -> str:
    """Return an address in a form that may be shown: the part before an @ could be a password."""
    before, at, rest = url.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    return f"{scheme if slashes else ''}{slashes}(secret)@{rest}" if at else url


def is_exposed(url: str) -> bool:
    """Whether data sent to this URL travels in the clear: neither plainly https nor this machine. A text that is no
    HTTP URL is not checked further."""
    found = _URL.fullmatch(url)
    return is_cleartext(found[1], found[2]) if found is not None else url.lower().startswith("http:")


def credentials_problem(url: str) -> str:
    """Return why credentials may not be sent to this URL; empty if they may."""
    return address_problem(url) or (
        "is plain http beyond this machine: credentials would travel in the clear; write https://HOST:PORT"
        if is_exposed(url)
        else ""
    )


def origin(address: str) -> str:
    """Return one form of an address, for comparison: `HTTPS://eu.example/` is `https://eu.example:443`. The bare name
    `eu.example`, which identifies a server without a URL, gives the same."""
    found = _URL.fullmatch(address if "://" in address else f"https://{address}")
    if found is None:
        return address
    scheme = found[1].lower()
    return f"{scheme}://{found[2].lower()}:{int(found[3] or _PORTS[scheme])}"
