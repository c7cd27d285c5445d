"""Which objects are meant: `workload web`, `wl/web`, `workloads/shop/web`.

An object of a tenant is named `tenant/name`; where the tenant is known from `--tenant` or the context, its name is
enough. What is kept in regions is asked of a region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.api.kinds import Kind, find, suggest
from holdfast.cli.context import Context
from holdfast.cli.errors import misused

__all__ = ["Kind", "Named", "find", "named", "named_in", "region_for", "the_kind", "the_object", "the_objects"]

#: How many slashes a name has by itself, where it has some: a replica is `workload/region/ordinal`.
_SLASHES = {"Workload": 0, "Assignment": 2, "Replica": 2, "Endpoint": 2, "SchedulingRequest": 3}


class Named(NamedTuple):
    """One object: its kind, its tenant where the kind has one, and its name."""

    kind: Kind
    tenant: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind.name.lower(), self.tenant, self.name) if part)


def the_kind(word: str) -> Kind:
    """The kind that a word names."""
    found = find(word)
    if found is None:
        near = suggest(word)
        said = f"; did you mean {near}?" if near else ""
        raise misused(f"there is no kind {word!r}{said}", "`holdfast schema` lists the kinds")
    return found


def the_objects(words: Sequence[str], context: Context) -> tuple[Kind, list[Named]]:
    """The kind and the objects of a command: `KIND [NAME...]` or `KIND/NAME...`, of one kind."""
    if "/" not in words[0]:
        kind, names = the_kind(words[0]), list(words[1:])
    else:
        pairs = [word.partition("/") for word in words]
        kind, names = the_kind(pairs[0][0]), [rest for _, _, rest in pairs]
        odd = [word for word, pair in zip(words, pairs, strict=True) if find(pair[0]) is not kind or not pair[2]]
        if odd:
            raise misused(f"{odd[0]!r}: all are written as {words[0].partition('/')[0]}/NAME, or none is")
    return kind, [named(kind, name, context) for name in names]


def the_object(words: Sequence[str], context: Context) -> Named:
    """The one object of a command."""
    kind, found = the_objects(words, context)
    if len(found) != 1:
        raise misused(f"which {kind.name.lower()}? give one name", f"`holdfast get {kind.plural}` lists them")
    return found[0]


def named(kind: Kind, name: str, context: Context) -> Named:
    """The object of this name; `tenant/name` names another tenant's than the context does."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise misused(f"{name!r} is not the name of a {kind.name.lower()}")
    if not kind.tenanted:
        return Named(kind, "", name)
    own = _SLASHES.get(kind.name)
    first, slash, rest = name.partition("/")
    if slash and (name.count("/") > own if own is not None else not context.tenant):
        return Named(kind, first, rest)
    if context.tenant:
        return Named(kind, context.tenant, name)
    hint = f"`--tenant NAME`, or write {kind.name.lower()}/TENANT/{name}"
    raise misused(f"{kind.name.lower()}/{name}: which tenant's?", hint)


def named_in(document: Mapping[str, Any]) -> str:
    """`workload/shop/web`: how a document is spoken of."""
    meta = document.get("metadata") or {}
    parts = [str(document.get("kind", "?")).lower(), str(meta.get("tenant") or ""), str(meta.get("name") or "?")]
    return "/".join(part for part in parts if part)


def region_for(kind: Kind, context: Context, asked: str) -> str:
    """The region that is asked about this kind; empty: the server itself. `asked` is what a flag said."""
    if "region" not in kind.ledger:
        if asked:
            hint = f"leave --region out, or look at its share there: `holdfast get assignments --region {asked}`"
            raise misused(f"{kind.plural} are kept by the platform and not in regions", hint)
        return ""
    return asked or ("" if "platform" in kind.ledger else context.region)


def the_workload(one: Named) -> Named:
    """The object, if it is a workload: nothing else has replicas."""
    if one.kind.name != "Workload":
        raise misused(f"{one} has no replicas; only workloads have")
    return one
