"""Addresses of servers: whether a host is this machine, and whether credentials may be sent to a URL. Pure.

One grammar, and narrower than what URL libraries take: no user, path or query, and nothing that two parsers could read
in two ways. A name other than `localhost` is elsewhere, whatever it resolves to now: another answer may come later.
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
    """The address that a host is, brackets or not; None for a name. An IPv4 address within IPv6 is that address."""
    try:
        found = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped if mapped is not None else found


def is_loopback(host: str) -> bool:
    """Whether what is sent to this host stays on this machine."""
    ip = ip_of(host)
    return ip.is_loopback if ip is not None else host.lower() == LOCALHOST


def is_cleartext(scheme: str, host: str) -> bool:
    """Whether somebody on the way could read what is sent so, or answer in the host's place."""
    return scheme.lower() != "https" and not is_loopback(host)


def url_problem(url: str) -> str:
    """Why this is no URL of a server; empty when it is one."""
    found = _URL.fullmatch(url)
    port = found[3] if found is not None else None
    if found is None or (port is not None and not 0 < int(port) <= _PORT_MAX):
        return "is no URL of a server; write it as https://HOST:PORT"
    if found[2].startswith("[") and ip_of(found[2]) is None:
        return "is no URL of a server: in the brackets is no IPv6 address"
    return ""


def address_problem(url: str) -> str:
    """Why no server can be reached by this URL, from wherever; empty when one could be."""
    found = _URL.fullmatch(url)
    ip = ip_of(found[2]) if found is not None else None
    if ip is not None and ip.is_unspecified:
        return "is an address that nobody can reach; name the one that others use: https://HOST:PORT"
    return url_problem(url)


def without_user(url: str) -> str:
    """What was given for an address, as it may be shown: whatever stands before an @ could be a password."""
    before, at, rest = url.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    return f"{scheme if slashes else ''}{slashes}(secret)@{rest}" if at else url


def is_exposed(url: str) -> bool:
    """Whether what is sent to this URL travels in the clear, as far as can be told from it: what is not plainly https,
    or this machine, is. A name that is no URL of HTTP is not judged."""
    found = _URL.fullmatch(url)
    return is_cleartext(found[1], found[2]) if found is not None else url.lower().startswith("http:")


def credentials_problem(url: str) -> str:
    """Why nothing that proves who somebody is may be sent to this URL; empty when it may."""
    return address_problem(url) or (
        "is plain http and not on this machine: credentials would travel in the clear; write https://HOST:PORT"
        if is_exposed(url)
        else ""
    )


def origin(address: str) -> str:
    """One form of an address, for comparison: `HTTPS://eu.example/` is `https://eu.example:443`, and so is the bare
    name `eu.example`, by which servers know one another where they have no URLs."""
    found = _URL.fullmatch(address if "://" in address else f"https://{address}")
    if found is None:
        return address
    scheme = found[1].lower()
    return f"{scheme}://{found[2].lower()}:{int(found[3] or _PORTS[scheme])}"
