"""Workloads: what a tenant wants, and the template of what runs.

A *generation* counts every change of the spec. A *template* changes only when what runs changes: it is named by the
digest of its content, stored once, and shipped before the first assignment that names it. Scaling makes no placement
stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.topology import Taint, Toleration
from holdfast.core.model.values.conditions import Condition
from holdfast.core.model.values.metadata import Labels, Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Document, Duration, Instant


class Spread(Document, frozen=True):
    """At most `max_skew` more replicas in one domain of `key` (zone or pool) than in the emptiest whose nodes are for
    such replicas."""

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


class RestartPolicy(StrEnum):
    """What its agent starts again, where it stands and up to restartsMax times: all that ended, what failed, nothing.

    Batch work that ended well is done and is never started again. What is not started again is given up: it waits to
    be placed anew.
    """

    ALWAYS = "always"
    ON_FAILURE = "on-failure"
    NEVER = "never"


class DriverKind(StrEnum):
    """What runs it: a process of the node, or one that is only played, for simulation and scale."""

    PROCESS = "process"
    SIMULATED = "simulated"


class Template(Document, frozen=True):
    """What runs, how it is watched over, and what a node must offer to run it.

    `secrets` are variables whose values lie on the node, in a file among its tenant's (`file:PATH`) or in its agent's
    environment (`env:NAME`): what is written here says where. `folder` and `pids` are the node's own where none is
    named, and `user` is the tenant's own. `need.disk` bounds the node's own folder.
    `grace` is how long it may take to stop, 0: as long as its region says; exclusive work never takes longer, for its
    fence is counted by that. `uses` names what it wants to find on a node: where that lies ready, it starts sooner.
    `restarted` is when its people last asked for a restart: another template, so a rollout. `isolation` is how far from
    the work of other tenants it runs: strictly, only on nodes whose agents enforce all that this takes.
    """

    command: tuple[str, ...] = ()
    environment: Labels = ()
    secrets: Labels = ()
    driver: DriverKind = DriverKind.PROCESS
    user: str = ""
    folder: str = ""
    need: Resources = ZERO
    pids: int = 0
    gpus: int = 0
    gpu_milli: int = 1000
    gpu_models: tuple[str, ...] = ()
    ports: int = 0
    require: Labels = ()
    tolerate: tuple[Toleration, ...] = ()
    spread: tuple[Spread, ...] = ()
    apart: tuple[Apart, ...] = ()
    near: tuple[Near, ...] = ()
    uses: tuple[str, ...] = ()
    startup: Probe | None = None
    readiness: Probe | None = None
    liveness: Probe | None = None
    grace: Duration = 0
    restart: RestartPolicy = RestartPolicy.ALWAYS
    restarts_max: int = 3
    restarted: Instant = 0
    isolation: Isolation = Isolation.STANDARD

    ADDED: ClassVar[Mapping[str, int]] = {"isolation": 2}


class FailoverMode(StrEnum):
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
    """Desired state of one workload. The deadline of batch work counts from when the workload was created.

    Where people do not say, exclusive work fails over once that is acknowledged, and leased work stops on disconnect.
    """

    template: Template
    replicas: int
    priority_class: str
    exclusive: bool = False
    batch: bool = False
    deadline: Duration = 0
    placement: Placement = Placement()
    disruption_max: int = 1
    failover: FailoverMode = FailoverMode.ADDITIVE
    on_disconnect: OnDisconnect = OnDisconnect.KEEP
    recovery: Recovery = Recovery()
    on_deadline: OnDeadline = OnDeadline.BEST_EFFORT


class WorkloadStatus(Document, frozen=True):
    """Progress as regions report it, summed per region: bound, ready, serving; of batch work how many have succeeded,
    and how many have failed for good."""

    observed_generation: int = 0
    bound: int = 0
    ready: int = 0
    serving: int = 0
    conditions: tuple[Condition, ...] = ()
    succeeded: int = 0
    failed: int = 0


class Workload(Document, frozen=True, tag="Workload"):
    """Written by its tenant; removed when every region has released it."""

    meta: Meta
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()


def with_implied(said: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of a spec, and what follows for its kind of workload where nothing was said.

    Whoever reads what people write asks this: in the spec itself nobody can tell a word from a default.
    """
    spec = dict(said)
    if spec.get("exclusive"):
        spec.setdefault("failover", FailoverMode.ACKNOWLEDGED)
    if spec.get("failover") is FailoverMode.LEASED:
        spec.setdefault("on_disconnect", OnDisconnect.STOP)
    return spec


def tolerates(template: Template, taint: Taint) -> bool:
    """Whether the template accepts the taint."""
    return accepts(template, taint.key, taint.value)


def accepts(template: Template, key: str, value: str) -> bool:
    """Whether the template accepts a taint of this key and value."""
    return any(t.key == key and t.value in ("", value) for t in template.tolerate)


def restarts_allowed(template: Template) -> int:
    """How often its agent may start it again where it stands."""
    return 0 if template.restart is RestartPolicy.NEVER else template.restarts_max


def name_key(tenant: str, name: str) -> str:
    """The key of a workload's name. Tenants have no slash in their names, so it reads back in one way only."""
    return f"{tenant}/{name}"
