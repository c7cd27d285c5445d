"""Paths of kinds and objects, by the table of kinds that servers use too."""

from __future__ import annotations

from holdfast.api.kinds import KINDS, find_kind

#: Kinds whose objects belong to a tenant; the path has the tenant before the name.
TENANTED = frozenset(word for word, kind in KINDS.items() if kind.tenanted)
#: In place of a tenant in a list or a watch: all tenants, whatever the default tenant is.
ALL_TENANTS = "*"


def plural(kind: str) -> str:
    """Return a kind's plural in paths, from its name (`PriorityClass`) or from the plural itself (`priorityclasses`).

    A kind that this client does not have gets the regular English plural: a newer server may have it.
    """
    known = find_kind(kind)
    if known is not None:
        return known.plural
    word = kind.lower()
    if not word.isalnum():
        raise ValueError(f"not a kind: {kind!r}")
    if word.endswith(("ss", "ch")):
        return f"{word}es"
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return word if word.endswith("s") else f"{word}s"


def collection(kind: str) -> str:
    """Return the path of all objects of a kind."""
    return f"/v1/{plural(kind)}"


def single(kind: str, name: str, tenant: str = "") -> str:
    """Return the path of one object. A name may contain slashes, but no empty, `.` or `..` segment."""
    word = plural(kind)
    if word in TENANTED and not tenant:
        raise ValueError(f"{word} belong to a tenant: pass a tenant, or set a default tenant")
    whole = f"{tenant}/{name}" if word in TENANTED else name
    if any(part in ("", ".", "..") for part in whole.split("/")):
        raise ValueError(f"not a valid name in {word}: {whole!r}")
    return f"/v1/{word}/{whole}"


def through(region: str, path: str) -> str:
    """Return the same path at a region, reached through the platform."""
    return f"/v1/in/{region}{path.removeprefix('/v1')}" if region else path
