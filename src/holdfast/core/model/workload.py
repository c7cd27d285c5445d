"""Workloads: what a tenant wants, and the template of what runs.

A *generation* counts every change of the spec. A *template* changes only when what runs changes: it is named by the
digest of its content, stored once, and shipped before the first assignment that names it. Scaling makes no placement
stale.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.core.model.meta import Condition, Labels, Meta
from holdfast.core.model.resources import NOTHING, Resources
from holdfast.core.model.shapes import Document, Duration, Instant
from holdfast.core.model.topology import Taint, Toleration


class Spread(Document, frozen=True):
    """At most `max_skew` more replicas in one domain of `key` (zone or pool) than in the emptiest."""

    key: str = "zone"
    max_skew: int = 1


class Apart(Document, frozen=True):
    """At most `most` members of the tenant's named group in one domain of `key` (node, zone or pool).

    Membership binds both sides: whoever names the group is counted and is kept apart.
    """

    group: str
    key: str = "node"
    most: int = 1


class Near(Document, frozen=True):
    """In a domain of `key` (node, zone or pool) in which members of the tenant's named group stand.

    Whoever names the group, here or in `apart`, is a member. Where it is `required` nothing is placed elsewhere, once
    there is a member in the region: the first may go anywhere. Otherwise such domains are only better.
    """

    group: str
    key: str = "zone"
    required: bool = False


class Template(Document, frozen=True):
    """What runs, and what a node must offer to run it.

    `restarted` is when its people last asked for a restart: another template, so a rollout.
    """

    command: tuple[str, ...] = ()
    environment: Labels = ()
    need: Resources = NOTHING
    gpus: int = 0
    gpu_milli: int = 1000
    gpu_models: tuple[str, ...] = ()
    ports: int = 0
    require: Labels = ()
    tolerate: tuple[Toleration, ...] = ()
    spread: tuple[Spread, ...] = ()
    apart: tuple[Apart, ...] = ()
    near: tuple[Near, ...] = ()
    restarts_max: int = 3
    restarted: Instant = 0


class Failover(StrEnum):
    """How an identity may move when its region is gone (RULES 6)."""

    ADDITIVE = "additive"
    ACKNOWLEDGED = "acknowledged"
    LEASED = "leased"


class OnDisconnect(StrEnum):
    """What an agent that is cut off does with the replica."""

    KEEP = "keep"
    STOP = "stop"


class OnDeadline(StrEnum):
    """What becomes of batch work that is not done by its deadline: it is given up, or goes on behind the others."""

    FAIL = "fail"
    BEST_EFFORT = "best-effort"


class Latency(Document, frozen=True):
    """How far from its clients a workload may be.

    A region over the limit, or that does not say, is excluded; one that meets the target comes first. 0: not asked.
    """

    client: str
    limit: Duration = 0
    target: Duration = 0


class Placement(Document, frozen=True):
    """Where replicas may be: named regions, jurisdictions (residency), distance to clients; and how they are split.

    Evenly; by weights; or all in the `primary` region, while it is well, and the others stand by.
    """

    regions: tuple[str, ...] = ()
    jurisdictions: tuple[str, ...] = ()
    weights: tuple[tuple[str, int], ...] = ()
    primary: str = ""
    latency: tuple[Latency, ...] = ()


class Recovery(Document, frozen=True):
    """What must come back elsewhere when a region is lost, and which budget pays."""

    budget: str = ""
    min_serving: int = 4


class WorkloadSpec(Document, frozen=True):
    """Desired state of one workload. The deadline of batch work counts from when the workload was created."""

    template: Template
    replicas: int
    priority_class: str
    exclusive: bool = False
    batch: bool = False
    deadline: Duration = 0
    placement: Placement = Placement()
    disruption_max: int = 1
    failover: Failover = Failover.ADDITIVE
    on_disconnect: OnDisconnect = OnDisconnect.KEEP
    recovery: Recovery = Recovery()
    on_deadline: OnDeadline = OnDeadline.BEST_EFFORT


class WorkloadStatus(Document, frozen=True):
    """Progress as regions report it, summed per region: bound, ready, serving."""

    observed_generation: int = 0
    bound: int = 0
    ready: int = 0
    serving: int = 0
    conditions: tuple[Condition, ...] = ()


class Workload(Document, frozen=True, tag="Workload"):
    """Written by its tenant; removed when every region has released it."""

    meta: Meta
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()


def tolerates(template: Template, taint: Taint) -> bool:
    """Whether the template accepts the taint."""
    return any(t.key == taint.key and t.value in ("", taint.value) for t in template.tolerate)


def is_counted(template: Template) -> bool:
    """Whether its replicas are counted over domains, for its own rules or for those of its groups."""
    return bool(template.spread or template.apart or template.near)


def contradictions(spec: WorkloadSpec) -> list[str]:
    """Settings that cannot all be meant; empty when the spec makes sense."""
    found = []
    if spec.replicas < 0 or spec.disruption_max < 0 or spec.recovery.min_serving < 0 or spec.deadline < 0:
        found.append("counts and deadlines cannot be negative")
    if spec.exclusive and spec.failover is Failover.ADDITIVE:
        found.append("exclusive work cannot fail over additively: two would run; use acknowledged or leased")
    if not spec.exclusive and spec.failover is not Failover.ADDITIVE:
        found.append("only exclusive work has rights to move; other work fails over additively")
    if spec.failover is Failover.LEASED and spec.on_disconnect is OnDisconnect.KEEP:
        found.append("leased work must stop on disconnect: its right moves when the lease has lapsed")
    if spec.batch and spec.exclusive:
        found.append("batch work completes and is not an identity to keep; make it a service or not exclusive")
    if spec.deadline and not spec.batch:
        found.append("only batch work is ever done: a service can meet no deadline")
    if spec.on_deadline is OnDeadline.FAIL and not spec.deadline:
        found.append("onDeadline is fail, and there is no deadline")
    found += _unplaceable(spec.placement)
    template = spec.template
    if template.restarted < 0:
        found.append("restarted is an instant and cannot be negative")
    if template.gpus < 0 or template.ports < 0 or not 0 < template.gpu_milli <= 1000:
        found.append("gpus and ports cannot be negative, and gpuMilli is between 1 and 1000")
    if template.gpus > 1 and template.gpu_milli != 1000:
        found.append("a share of a GPU is a share of one device: several devices are taken whole")
    if template.need.gpu != template.gpus * template.gpu_milli:
        found.append("need.gpu must be gpus times gpuMilli")
    if any(rule.max_skew < 1 or rule.key not in ("zone", "pool") for rule in template.spread):
        found.append("spread is over zone or pool, with a maxSkew of at least 1")
    if any(rule.most < 1 or rule.key not in ("node", "zone", "pool") or not rule.group for rule in template.apart):
        found.append("apart needs a group, node, zone or pool as its key, and a most of at least 1")
    if any(rule.key not in ("node", "zone", "pool") or not rule.group for rule in template.near):
        found.append("near needs a group, and node, zone or pool as its key")
    alone = {(rule.group, rule.key) for rule in template.apart if rule.most == 1}
    for near in template.near:
        if (near.group, near.key) in alone:
            found.append(
                f"near {near.group} and alone of it in each {near.key}: apart, with a most of 1, keeps it away"
            )
    return found


def _unplaceable(placement: Placement) -> list[str]:
    found = []
    if placement.primary and placement.weights:
        found.append("a primary region takes everything: it has no use for weights")
    if placement.primary and placement.regions and placement.primary not in placement.regions:
        found.append(f"the primary region {placement.primary} is not among the regions it may be in")
    if any(rule.limit < 0 or rule.target < 0 or not rule.client for rule in placement.latency):
        found.append("a latency rule names its client, and a limit or target that is not negative")
    if any(not rule.limit and not rule.target for rule in placement.latency):
        found.append("a latency rule has a limit, a target, or both")
    if any(0 < rule.limit < rule.target for rule in placement.latency):
        found.append("a latency target above its limit is met by whoever is allowed")
    clients = [rule.client for rule in placement.latency]
    if len(set(clients)) != len(clients):
        found.append("each client has one latency rule")
    return found
