"""The table of kinds: names, ledgers, who writes them, and the columns of a listing.

The module imports nothing heavy: the command line reads the table before it imports the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

API_VERSION = "holdfast/v1"

PLATFORM = frozenset({"platform"})
REGION = frozenset({"region"})
BOTH = PLATFORM | REGION


class Column(NamedTuple):
    """A column of a table. The path is dotted, into the document.

    The hint says how to show the value: `text`, `age` (time since), `until` (time left), `list` (joined), `map`
    (`a=b`), `amounts` (`cpu=2 memory=4Gi`), `flag` (yes or empty), `count` (length of the list), `why` (of conditions:
    why replicas fail or have no node).
    """

    title: str
    path: str
    hint: str = "text"


class ResourceKind(NamedTuple):
    """A kind of object. Events with a watch key of kind `key`, or of a kind in `also`, change its objects."""

    name: str
    plural: str
    short: tuple[str, ...]
    ledger: frozenset[str]
    key: str
    columns: tuple[Column, ...]
    tenanted: bool = False
    writable: bool = False
    #: Ledgers on which PUT and DELETE are served.
    written_on: frozenset[str] = frozenset()
    also: tuple[str, ...] = ()
    #: Whether DELETE is served where PUT is. A command removes a node, and another one takes back a policy.
    deletable: bool = True
    #: Whether its objects have labels and annotations. A revision of a policy has none.
    marked: bool = True


_NAME = Column("NAME", "metadata.name")
_TENANT = Column("TENANT", "metadata.tenant")


def _columns(*rows: tuple[str, str] | tuple[str, str, str]) -> tuple[Column, ...]:
    return (_NAME, *(Column(*row) for row in rows))


def _tenanted(*rows: tuple[str, str] | tuple[str, str, str]) -> tuple[Column, ...]:
    return (_TENANT, *_columns(*rows))


def _operators(
    name: str, plural: str, short: tuple[str, ...], key: str, columns: tuple[Column, ...], ledger: frozenset[str]
) -> ResourceKind:
    """Return a kind that operators write on the platform."""
    return ResourceKind(name, plural, short, ledger, key, columns, writable=True, written_on=PLATFORM)


_TABLE = (
    _operators("Tenant", "tenants", ("ten",), "tenant", _columns(
        ("CLASSES", "spec.priorityClasses", "list"), ("WORKLOADS-MAX", "spec.workloadsMax")), PLATFORM),
    _operators("Quota", "quotas", ("quo",), "quota", _columns(
        ("HARD", "spec.hard", "amounts"), ("PROTECTED", "spec.protected", "amounts"), ("WEIGHT", "spec.weight")),
        PLATFORM),
    _operators("PriorityClass", "priorityclasses", ("pc",), "priority-class", _columns(
        ("PRIORITY", "spec.priority"), ("RECLAIMABLE", "spec.reclaimable", "flag"),
        ("MAY-PREEMPT", "spec.mayPreempt", "flag")), BOTH),
    _operators("Principal", "principals", (), "principal", _columns(
        ("RIGHTS", "spec.rights", "list"), ("TENANT", "spec.scope.tenant"), ("REGION", "spec.scope.region"),
        ("DISABLED", "spec.disabled", "flag")), BOTH),
    _operators("Token", "tokens", (), "token", _columns(
        ("PRINCIPAL", "spec.principal"), ("EXPIRES", "spec.expires", "until"),
        ("REVOKED", "spec.revoked", "flag")), BOTH),
    _operators("Region", "regions", ("reg",), "region", _columns(
        ("HEALTH", "status.health"), ("SINCE", "status.since", "age"), ("JURISDICTION", "spec.jurisdiction"),
        ("LAST CONTACT", "status.heardAt", "age")), PLATFORM),
    _operators("NodePool", "nodepools", ("np",), "node-pool", _columns(
        ("REGION", "spec.region"), ("MINIMUM", "spec.minimum"), ("MAXIMUM", "spec.maximum"),
        ("COST", "spec.cost")), PLATFORM),
    _operators("RecoveryBudget", "recoverybudgets", ("rb",), "recovery-budget", _columns(
        ("REGIONS", "spec.regions", "list"), ("EACH", "spec.each", "amounts"),
        ("TENANTS", "spec.tenants", "list")), PLATFORM),
    ResourceKind("Workload", "workloads", ("wl",), PLATFORM, "workload", _tenanted(
        ("REPLICAS", "spec.replicas"), ("BOUND", "status.bound"), ("READY", "status.ready"),
        ("SERVING", "status.serving"), ("SUCCEEDED", "status.succeeded"),
        ("UPDATED", "status.conditions[Updated].status"), ("CLASS", "spec.priorityClass"),
        ("AGE", "metadata.created", "age"), ("DELETED", "metadata.deletion.at", "age"),
        ("WHY", "status.conditions", "why")),
        tenanted=True, writable=True, written_on=PLATFORM),
    ResourceKind("Assignment", "assignments", ("as",), BOTH, "assignment", _tenanted(
        ("REGION", "spec.region"), ("PURPOSE", "spec.purpose"), ("STAGE", "spec.stage"),
        ("REPLICAS", "status.replicas"), ("CLASS", "spec.priorityClass")), tenanted=True),
    ResourceKind("Grant", "grants", ("gr",), BOTH, "grant", _columns(
        ("VERSION", "spec.version"), ("TARGET", "spec.target", "amounts"), ("CHARGED", "status.charged", "amounts"),
        ("ENDS", "spec.ends", "until"))),
    ResourceKind("SchedulerPolicy", "policies", ("pol",), BOTH, "policy", _columns(
        ("REVISION", "metadata.revision"), ("STAGE", "status.stage"), ("STRATEGY", "spec.strategy"),
        ("AUTHOR", "status.author"), ("AGE", "metadata.created", "age"), ("VALID", "status.valid", "count")),
        writable=True, written_on=PLATFORM, also=("validity",), deletable=False, marked=False),
    ResourceKind("Override", "overrides", ("ov",), BOTH, "override", _columns(
        ("ACTION", "spec.action"), ("REGION", "spec.region"), ("TARGET", "spec.target"), ("OWNER", "status.owner"),
        ("ENDS", "spec.ends", "until"), ("REASON", "spec.reason")), also=("platform-override",)),
    ResourceKind("Breach", "breaches", ("br",), BOTH, "breach", _columns(
        ("SUBJECT", "status.subject"), ("OVERSHOOT", "status.overshoot"), ("OWNER", "status.owner"),
        ("OPENED", "status.opened", "age"), ("DEADLINE", "status.deadline", "until"))),
    ResourceKind("Session", "sessions", (), BOTH, "session", _columns(
        ("UID", "metadata.uid"), ("OPENED", "status.opened", "age"), ("COMMANDS", "status.high"))),
    ResourceKind("Node", "nodes", ("no",), REGION, "node", _columns(
        ("HEALTH", "status.health"), ("POOL", "status.pool"), ("ZONE", "status.zone"),
        ("FREE", "status.free", "amounts"), ("REPLICAS", "status.replicas"), ("CORDONED", "spec.cordoned", "flag"),
        ("DRAINING", "spec.draining", "flag"), ("NOTE", "spec.note")),
        writable=True, written_on=REGION, also=("node-report",), deletable=False),
    ResourceKind("Replica", "replicas", ("rep",), REGION, "workload", _tenanted(
        ("PHASE", "status.phase"), ("NODE", "status.node"), ("SINCE", "status.since", "age"),
        ("CAUSE", "status.cause"), ("RESTARTS", "status.restarts"), ("DETAIL", "status.detail")),
        tenanted=True, also=("node",)),
    ResourceKind("Endpoint", "endpoints", ("ep",), REGION, "workload", _tenanted(
        ("ADDRESSES", "status.addresses", "list"), ("PHASE", "status.phase"), ("NODE", "status.node"),
        ("ZONE", "status.zone"), ("SINCE", "status.since", "age")), tenanted=True, also=("node",)),
    ResourceKind("SchedulingRequest", "requests", ("req",), REGION, "workload", _tenanted(
        ("OPEN", "status.open"), ("SINCE", "status.since", "age"), ("ATTEMPTS", "status.attempts"),
        ("REASON", "status.reasons.0.message")), tenanted=True),
    ResourceKind("Reservation", "reservations", ("res",), REGION, "hold", _columns(
        ("PURPOSE", "spec.purpose"), ("NODE", "spec.node"), ("NEED", "spec.need", "amounts"),
        ("ACCOUNT", "spec.account"), ("ENDS", "spec.ends", "until"))),
)  # fmt: skip

#: Kinds of soft state by plural: read from the memory of a leader, and neither written nor watched.
SOFT_KINDS: dict[str, ResourceKind] = {
    "schedulers": ResourceKind("Scheduler", "schedulers", ("sched",), REGION, "", _columns(
        ("WHERE", "spec.where"), ("PLACED/S", "status.placedPerSecond"),
        ("CONFLICTS", "status.conflictsPerPlacement"), ("BY REASON", "status.conflictReasons", "list"),
        ("VIEW AGE", "status.viewAge"), ("LAST CYCLE", "status.lastCycle", "age"))),
}  # fmt: skip

#: By plural.
KINDS: dict[str, ResourceKind] = {kind.plural: kind for kind in _TABLE}
BY_NAME: dict[str, ResourceKind] = {kind.name: kind for kind in _TABLE}
_BY_WORD: dict[str, ResourceKind] = {
    word: kind
    for kind in (*_TABLE, *SOFT_KINDS.values())
    for word in (kind.name, kind.name.lower(), kind.plural, *kind.short)
}
_BY_WORD.update(policy=KINDS["policies"], request=KINDS["requests"])


#: The order in which a set of documents is applied: a kind comes after the kinds that it refers to.
_APPLIED = (
    "PriorityClass",
    "Tenant",
    "Quota",
    "Region",
    "NodePool",
    "RecoveryBudget",
    "SchedulerPolicy",
    "Principal",
    "Token",
    "Workload",
)


def apply_order(kind: object) -> int:
    """Return the position of this kind when many documents are applied; an unknown kind comes last."""
    return _APPLIED.index(kind) if kind in _APPLIED else len(_APPLIED)


def public_name(struct: type) -> str:
    """Return the name under which a struct is published: of an object its kind, which is its tag; of another one, as a
    schema, its class name without `View`."""
    config: Any = struct
    if "meta" in config.__struct_fields__:
        return str(config.__struct_config__.tag)
    return struct.__name__.removesuffix("View")


def find_kind(word: str) -> ResourceKind | None:
    """Return the kind with this name, plural, singular or short name."""
    return _BY_WORD.get(word) or _BY_WORD.get(word.lower())


def suggest_kind(word: str) -> str:
    """Return the plural of the kind that was probably meant; empty if none is near."""
    from holdfast.api.spelling import nearest

    near = nearest(word, _BY_WORD)
    return _BY_WORD[near].plural if near else ""
