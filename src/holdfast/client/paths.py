"""The path of a kind and of an object, by the same table of kinds that servers have."""

from __future__ import annotations

from holdfast.api.kinds import KINDS, find_kind

#: Kinds whose objects belong to a tenant, which stands before their name.
TENANTED = frozenset(word for word, kind in KINDS.items() if kind.tenanted)
#: Instead of a tenant's name in a list or a watch: those of all tenants, whatever the default is.
ALL_TENANTS = "*"


def plural(kind: str) -> str:
    """The path's word for a kind, from its name (`PriorityClass`) or from that word itself (`priorityclasses`).

    A kind that a newer server may have is called as English has it.
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
    """The path of all objects of a kind."""
    return f"/v1/{plural(kind)}"


def single(kind: str, name: str, tenant: str = "") -> str:
    """The path of one object. A name may hold slashes, and no part that a carrier would take for a step."""
    word = plural(kind)
    if word in TENANTED and not tenant:
        raise ValueError(f"{word} belong to a tenant: name it, or set the default of this access")
    whole = f"{tenant}/{name}" if word in TENANTED else name
    if any(part in ("", ".", "..") for part in whole.split("/")):
        raise ValueError(f"not the name of one of the {word}: {whole!r}")
    return f"/v1/{word}/{whole}"


def through(region: str, path: str) -> str:
    """The same path at a region, reached through the platform."""
    return f"/v1/in/{region}{path.removeprefix('/v1')}" if region else path
