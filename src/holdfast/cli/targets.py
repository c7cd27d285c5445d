"""The objects that a command names: `workload web`, `wl/web`, `workloads/shop/web`; and words of other systems.

A tenant's object is named `tenant/name`; with a tenant from `--tenant` or the context, its name is enough. Requests for
objects that regions store go to a region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from holdfast.api.kinds import ResourceKind, find_kind, suggest_kind
from holdfast.cli.context import CliContext
from holdfast.cli.errors import usage_error

#: Slashes that a name contains itself: a replica is `workload/region/ordinal`.
_SLASHES = {"Workload": 0, "Assignment": 2, "Replica": 2, "Endpoint": 2, "SchedulingRequest": 3}
_LOGS = "the files are in the data folder of the node's agent: slots/*/logs, and logs/* after the end of a run"
_ROLLOUT = "`holdfast restart workload NAME`, and `holdfast wait workload NAME --for=condition=Updated`"
#: Commands that Holdfast does not have, and what to use instead.
FOREIGN_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "cordon": "apply its Node with `cordoned: true` and --region NAME",
        "uncordon": "apply its Node with `cordoned: false` and --region NAME",
        "drain": "not there yet; a Node with `draining: true` receives no new replicas",
        "logs": _LOGS,
        "rollout": _ROLLOUT,
        "top": "`holdfast get nodes --region NAME` shows capacity and free capacity",
        "exec": "not there: log in to the node",
        "create": "`holdfast apply -f FILE`",
        "run": "`holdfast apply -f FILE`",
        "plan": "`holdfast diff -f FILE`",
        "edit": "`holdfast get KIND NAME -o yaml`, then `holdfast apply -f FILE`",
        "events": "`holdfast decisions`, `holdfast audit`",
        "api-resources": "`holdfast schema`",
        "auth": "`holdfast can-i`, `holdfast whoami`",
    }
)
_REPLICAS = "replicas: `holdfast get replicas -A --region NAME`"
_WORKLOADS = "workloads"
_TENANTS = "tenants"
#: Kinds that Holdfast does not have, and the kind or command that has their place.
_FOREIGN_KINDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("pod", "po", "alloc", "allocation"), _REPLICAS),
        **dict.fromkeys(("deployment", "deploy", "statefulset", "sts", "job"), _WORKLOADS),
        **dict.fromkeys(("namespace", "ns"), _TENANTS),
        **dict.fromkeys(("event", "ev"), "`holdfast decisions` and `holdfast audit`"),
        **dict.fromkeys(("service", "svc", "endpointslice"), "endpoints: `holdfast endpoints WORKLOAD`"),
        **dict.fromkeys(("replicaset", "rs"), "the template of a workload: `holdfast describe workload NAME`"),
        **dict.fromkeys(("resourcequota", "account"), "quotas"),
        **dict.fromkeys(("partition", "nodegroup"), "nodepools"),
    }
)


class ObjectRef(NamedTuple):
    """One object: its kind, its tenant if the kind has one, and its name."""

    kind: ResourceKind
    tenant: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind.name.lower(), self.tenant, self.name) if part)


def resolve_kind(word: str) -> ResourceKind:
    found = find_kind(word)
    if found is None:
        from holdfast.cli.targets import foreign_kind

        instead = foreign_kind(word)
        near = "" if instead else suggest_kind(word)
        said = f"; did you mean {near}?" if near else f"; instead: {instead}" if instead else ""
        raise usage_error(f"there is no kind {word!r}{said}", "`holdfast schema` lists the kinds")
    return found


def resolve_objects(words: Sequence[str], context: CliContext) -> tuple[ResourceKind, list[ObjectRef]]:
    """Return the kind and the objects of a command: `KIND [NAME...]` or `KIND/NAME...`, of one kind."""
    if "/" not in words[0]:
        kind, names = resolve_kind(words[0]), list(words[1:])
    else:
        pairs = [word.partition("/") for word in words]
        kind, names = resolve_kind(pairs[0][0]), [rest for _, _, rest in pairs]
        odd = [word for word, pair in zip(words, pairs, strict=True) if find_kind(pair[0]) is not kind or not pair[2]]
        if odd:
            raise usage_error(f"{odd[0]!r}: write all as {words[0].partition('/')[0]}/NAME, or none")
    return kind, [object_ref(kind, name, context) for name in names]


def resolve_object(words: Sequence[str], context: CliContext) -> ObjectRef:
    """Return the single object of a command."""
    kind, found = resolve_objects(words, context)
    if len(found) != 1:
        raise usage_error(
            f"{kind.name.lower()}: exactly one name is required", f"`holdfast get {kind.plural}` lists them"
        )
    return found[0]


def object_ref(kind: ResourceKind, name: str, context: CliContext) -> ObjectRef:
    """Return the object of this name. `tenant/name` overrides the context's tenant."""
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise usage_error(f"{name!r} is not a valid {kind.name.lower()} name")
    if not kind.tenanted:
        return ObjectRef(kind, "", name)
    own = _SLASHES.get(kind.name)
    first, slash, rest = name.partition("/")
    if slash and (name.count("/") > own if own is not None else not context.tenant):
        return ObjectRef(kind, first, rest)
    if context.tenant:
        return ObjectRef(kind, context.tenant, name)
    hint = f"`--tenant NAME`, or write {kind.name.lower()}/TENANT/{name}"
    raise usage_error(f"{kind.name.lower()}/{name}: no tenant given", hint)


def object_label(document: Mapping[str, Any]) -> str:
    """Return a document's label, such as `workload/shop/web`."""
    meta = document.get("metadata") or {}
    parts = [str(document.get("kind", "?")).lower(), str(meta.get("tenant") or ""), str(meta.get("name") or "?")]
    return "/".join(part for part in parts if part)


def region_for(kind: ResourceKind, context: CliContext, asked: str) -> str:
    """Return the region that receives requests for this kind; empty: the configured server. `asked` is the flag's
    value."""
    if "region" not in kind.ledger:
        if asked:
            hint = f"leave --region out; `holdfast get assignments --region {asked}` shows the region's share"
            raise usage_error(f"{kind.plural} are stored by the platform, not by regions", hint)
        return ""
    return asked or ("" if "platform" in kind.ledger else context.region)


def require_workload(one: ObjectRef) -> ObjectRef:
    """Return the object if it is a workload; no other kind has replicas."""
    if one.kind.name != "Workload":
        raise usage_error(f"{one} has no replicas; only workloads have")
    return one


def foreign_kind(word: str) -> str:
    """Return what has the place of a kind of another system; empty for an unknown word."""
    word = word.lower()
    return _FOREIGN_KINDS.get(word) or _FOREIGN_KINDS.get(word.removesuffix("s"), "")
