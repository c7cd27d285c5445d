"""Which objects are meant: `workload web`, `wl/web`, `workloads/shop/web`.

An object of a tenant is named `tenant/name`; where the tenant is known from `--tenant` or the context, its name is
enough. What is kept in regions is asked of a region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.api.kinds import ResourceKind, find_kind, suggest_kind
from holdfast.cli.context import CliContext
from holdfast.cli.errors import usage_error

#: How many slashes a name has by itself, where it has some: a replica is `workload/region/ordinal`.
_SLASHES = {"Workload": 0, "Assignment": 2, "Replica": 2, "Endpoint": 2, "SchedulingRequest": 3}


class ObjectRef(NamedTuple):
    """One object: its kind, its tenant where the kind has one, and its name."""

    kind: ResourceKind
    tenant: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind.name.lower(), self.tenant, self.name) if part)


def resolve_kind(word: str) -> ResourceKind:
    """The kind that a word names."""
    found = find_kind(word)
    if found is None:
        near = suggest_kind(word)
        said = f"; did you mean {near}?" if near else ""
        raise usage_error(f"there is no kind {word!r}{said}", "`holdfast schema` lists the kinds")
    return found


def resolve_objects(words: Sequence[str], context: CliContext) -> tuple[ResourceKind, list[ObjectRef]]:
    """The kind and the objects of a command: `KIND [NAME...]` or `KIND/NAME...`, of one kind."""
    if "/" not in words[0]:
        kind, names = resolve_kind(words[0]), list(words[1:])
    else:
        pairs = [word.partition("/") for word in words]
        kind, names = resolve_kind(pairs[0][0]), [rest for _, _, rest in pairs]
        odd = [word for word, pair in zip(words, pairs, strict=True) if find_kind(pair[0]) is not kind or not pair[2]]
        if odd:
            raise usage_error(f"{odd[0]!r}: all are written as {words[0].partition('/')[0]}/NAME, or none is")
    return kind, [object_ref(kind, name, context) for name in names]


def resolve_object(words: Sequence[str], context: CliContext) -> ObjectRef:
    """The one object of a command."""
    kind, found = resolve_objects(words, context)
    if len(found) != 1:
        raise usage_error(f"which {kind.name.lower()}? give one name", f"`holdfast get {kind.plural}` lists them")
    return found[0]


def object_ref(kind: ResourceKind, name: str, context: CliContext) -> ObjectRef:
    """The object of this name; `tenant/name` names another tenant's than the context does."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise usage_error(f"{name!r} is not the name of a {kind.name.lower()}")
    if not kind.tenanted:
        return ObjectRef(kind, "", name)
    own = _SLASHES.get(kind.name)
    first, slash, rest = name.partition("/")
    if slash and (name.count("/") > own if own is not None else not context.tenant):
        return ObjectRef(kind, first, rest)
    if context.tenant:
        return ObjectRef(kind, context.tenant, name)
    hint = f"`--tenant NAME`, or write {kind.name.lower()}/TENANT/{name}"
    raise usage_error(f"{kind.name.lower()}/{name}: which tenant's?", hint)


def object_label(document: Mapping[str, Any]) -> str:
    """`workload/shop/web`: how a document is spoken of."""
    meta = document.get("metadata") or {}
    parts = [str(document.get("kind", "?")).lower(), str(meta.get("tenant") or ""), str(meta.get("name") or "?")]
    return "/".join(part for part in parts if part)


def region_for(kind: ResourceKind, context: CliContext, asked: str) -> str:
    """The region that is asked about this kind; empty: the server itself. `asked` is what a flag said."""
    if "region" not in kind.ledger:
        if asked:
            hint = f"leave --region out, or look at its share there: `holdfast get assignments --region {asked}`"
            raise usage_error(f"{kind.plural} are kept by the platform and not in regions", hint)
        return ""
    return asked or ("" if "platform" in kind.ledger else context.region)


def require_workload(one: ObjectRef) -> ObjectRef:
    """The object, if it is a workload: nothing else has replicas."""
    if one.kind.name != "Workload":
        raise usage_error(f"{one} has no replicas; only workloads have")
    return one
