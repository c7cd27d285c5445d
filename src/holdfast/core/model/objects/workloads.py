"""Workloads: what a tenant wants to run, and the template of its replicas.

A *generation* counts every change of the spec. A *template* changes only when the way a replica runs changes. It is
named by the digest of its content, stored once, and shipped before the first assignment that names it. So scaling makes
no placement stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.topology import Taint, Toleration
from holdfast.core.model.values.conditions import Condition
from holdfast.core.model.values.metadata import Labels, Meta
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Document, Duration, Instant


class Spread(Document, frozen=True):
    """At most `max_skew` more replicas in one domain of `key` (zone or pool) than in the emptiest one. Only domains
    with nodes for such replicas count."""

    key: str = "zone"
    max_skew: int = 1


class Apart(Document, frozen=True):
    """At most `most` members of the tenant's named group in one domain of `key` (node, zone or pool).

    Every template that names the group is a member: it is counted and kept apart.
    """

    group: str
    key: str = "node"
    most: int = 1


class Near(Document, frozen=True):
    """Placement in a domain of `key` (node, zone or pool) that has members of the tenant's named group.

    Every template that names the group, here or in `apart`, is a member. With `required`, replicas are placed only in
    such domains once the region has a member: the first may go anywhere. Otherwise such domains are only preferred.
    """

    group: str
    key: str = "zone"
    required: bool = False


class RestartPolicy(StrEnum):
    """What the agent restarts on the same node, up to restartsMax times: every ended run, failed runs, or none.

    A batch run that succeeded is finished and never restarted. A run that is not restarted is released, and its replica
    is placed again.
    """

    ALWAYS = "always"
    ON_FAILURE = "on-failure"
    NEVER = "never"


class DriverKind(StrEnum):
    """How a replica runs: as a process of the node, or simulated, for simulation and scale tests."""

    PROCESS = "process"
    SIMULATED = "simulated"


class Template(Document, frozen=True):
    """How one replica runs, how it is probed, and what a node must offer to run it.

    The `secrets` are variables whose values are on the node, in a file of its tenant (`file:PATH`) or in the agent's
    environment (`env:NAME`): the template has only the source. Defaults of `folder` and `pids` are the node's; of
    `user`, the tenant's. `need.disk` bounds the node's own folder. `grace` is how long a stop may take, 0: as the
    region is configured; exclusive work has at most the region's grace, which its fence counts. `uses` names artifacts
    that make a start faster on nodes where they are cached. `restarted` is the time of the last requested restart: a
    new template, so a rollout. With strict `isolation` it runs only on nodes whose agents enforce all of it.
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
    """How an identity may move when its region is lost (RULES 6)."""

    ADDITIVE = "additive"
    ACKNOWLEDGED = "acknowledged"
    LEASED = "leased"


class OnDisconnect(StrEnum):
    """What an agent that is cut off does with the replica."""

    KEEP = "keep"
    STOP = "stop"


class OnDeadline(StrEnum):
    """What happens to batch work that has not finished by its deadline: it fails, or continues with lower urgency."""

    FAIL = "fail"
    BEST_EFFORT = "best-effort"


class Latency(Document, frozen=True):
    """How far from its clients a workload may run.

    A region above the limit, or without a value, is excluded; one that meets the target is preferred. 0: no rule.
    """

    client: str
    limit: Duration = 0
    target: Duration = 0


class Placement(Document, frozen=True):
    """Where replicas may run: named regions, jurisdictions (residency), distance to clients; and how they are split.

    They are split evenly; by weights; or all in the `primary` region while it is healthy, with the others on standby.
    """

    regions: tuple[str, ...] = ()
    jurisdictions: tuple[str, ...] = ()
    weights: tuple[tuple[str, int], ...] = ()
    primary: str = ""
    latency: tuple[Latency, ...] = ()


class Recovery(Document, frozen=True):
    """What must be restored elsewhere when a region is lost, and the recovery budget that is charged."""

    budget: str = ""
    min_serving: int = 4


class WorkloadSpec(Document, frozen=True):
    """Desired state of one workload. The deadline of batch work counts from the workload's creation.

    By default, exclusive work has acknowledged failover, leased work stops on disconnect, and the disruption budget of
    gangs is one gang.
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
    gang: Gang | None = None

    ADDED: ClassVar[Mapping[str, int]] = {"gang": 3}

    @property
    def unit(self) -> int:
        """The number of replicas that are never split over regions, or scaled by less: the size of a gang, or 1."""
        return self.gang.size if self.gang is not None else 1


class WorkloadStatus(Document, frozen=True):
    """Progress as regions report it, summed: bound, ready, serving; for batch work, how many have succeeded, and how
    many have failed for good."""

    observed_generation: int = 0
    bound: int = 0
    ready: int = 0
    serving: int = 0
    conditions: tuple[Condition, ...] = ()
    succeeded: int = 0
    failed: int = 0


class Workload(Document, frozen=True, tag="Workload"):
    """What a tenant wants to run. Its tenant writes it; it is deleted once every region has released it."""

    meta: Meta
    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()


def with_implied(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stated fields of a spec, with the defaults that its kind of workload implies.

    Parsers of documents call this, since a spec itself does not show whether a field was stated or is a default.
    """
    spec = dict(said)
    if spec.get("exclusive"):
        spec.setdefault("failover", FailoverMode.ACKNOWLEDGED)
    if spec.get("failover") is FailoverMode.LEASED:
        spec.setdefault("on_disconnect", OnDisconnect.STOP)
    if spec.get("gang") is not None:
        spec.setdefault("disruption_max", spec["gang"].size)
    return spec


def tolerates(template: Template, taint: Taint) -> bool:
    return accepts(template, taint.key, taint.value)


def accepts(template: Template, key: str, value: str) -> bool:
    """Whether the template accepts a taint of this key and value."""
    return any(t.key == key and t.value in ("", value) for t in template.tolerate)


def restarts_allowed(template: Template) -> int:
    """Return how often the agent may restart a replica on the same node."""
    return 0 if template.restart is RestartPolicy.NEVER else template.restarts_max


def name_key(tenant: str, name: str) -> str:
    """Return the key of a workload's name. Tenant names have no slash, so the key is unambiguous."""
    return f"{tenant}/{name}"
