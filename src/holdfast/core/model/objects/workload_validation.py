"""Contradictions in a workload's spec, whatever the cluster's state: each a sentence that names the field."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.probes import Probe
from holdfast.core.model.objects.topology import PRESENT_NAME_MAX
from holdfast.core.model.objects.workloads import (
    FailoverMode,
    OnDeadline,
    OnDisconnect,
    Placement,
    Template,
    WorkloadSpec,
)
from holdfast.core.model.values.limits import GANG_MAX, PORTS_MAX

#: Largest number of artifacts that a template may list in `uses`.
USES_MAX = 32
#: A shorter probe period adds load and finds nothing more.
PERIOD_MIN_MS = 100

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(r"/[!-~]*")
_REFERENCE = re.compile(r"file:[^\0]+|env:[A-Za-z_][A-Za-z0-9_]*")


def workload_problems(spec: WorkloadSpec) -> list[str]:
    """Return the contradictions in a spec; empty if there are none."""
    found = []
    if spec.replicas < 0 or spec.disruption_max < 0 or spec.recovery.min_serving < 0 or spec.deadline < 0:
        found.append("counts and deadlines cannot be negative")
    if spec.exclusive and spec.failover is FailoverMode.ADDITIVE:
        found.append("exclusive work cannot fail over additively: two would run; use acknowledged or leased")
    if not spec.exclusive and spec.failover is not FailoverMode.ADDITIVE:
        found.append("only exclusive work fails over acknowledged or leased; other work fails over additively")
    if spec.failover is FailoverMode.LEASED and spec.on_disconnect is OnDisconnect.KEEP:
        found.append("leased work must stop on disconnect: its right moves when the lease has expired")
    if spec.batch and spec.exclusive:
        found.append("batch work completes and cannot be exclusive; make it a service or not exclusive")
    if spec.deadline and not spec.batch:
        found.append("only batch work may have a deadline: a service never finishes")
    if spec.on_deadline is OnDeadline.FAIL and not spec.deadline:
        found.append("onDeadline is fail, but there is no deadline")
    if spec.batch and spec.template.readiness is not None:
        found.append("readiness is for services: batch work has no endpoint")
    if spec.gang is not None:
        found += _ill_ganged(spec, spec.gang)
    found += _unplaceable(spec.placement)
    found += _ill_shaped(spec.template)
    found += _unrunnable(spec.template)
    return found


def _ill_ganged(spec: WorkloadSpec, gang: Gang) -> list[str]:
    """Return contradictions of gangs with themselves and with the rest of the spec."""
    found = []
    if not 2 <= gang.size <= GANG_MAX:
        found.append(f"gang.size is between 2 and {GANG_MAX}, not {gang.size}: one proposal places a gang")
        return found
    if not 0 <= gang.min <= gang.size:
        found.append(f"gang.min is between 1 and gang.size, {gang.size}; 0 is gang.size")
    if gang.replace_within < 0:
        found.append("gang.replaceWithin cannot be negative; 0 stops a gang at once")
    if spec.exclusive:
        found.append("gang contradicts exclusive: identities move between regions one by one")
    if spec.replicas % gang.size:
        found.append(f"replicas is {spec.replicas}: it must be a multiple of gang.size, {gang.size}")
    if 0 < spec.disruption_max < gang.size:
        found.append(f"disruptionMax is 0 or at least gang.size, {gang.size}: a gang is stopped as a whole")
    return found


def _unplaceable(placement: Placement) -> list[str]:
    found = []
    if placement.primary and placement.weights:
        found.append("a primary region gets all replicas: remove the weights")
    if placement.primary and placement.regions and placement.primary not in placement.regions:
        found.append(f"the primary region {placement.primary} is not in regions")
    if any(rule.limit < 0 or rule.target < 0 or not rule.client for rule in placement.latency):
        found.append("a latency rule names its client, and a limit or target that is not negative")
    if any(not rule.limit and not rule.target for rule in placement.latency):
        found.append("a latency rule has a limit, a target, or both")
    if any(0 < rule.limit < rule.target for rule in placement.latency):
        found.append("a latency target must not be above its limit")
    clients = [rule.client for rule in placement.latency]
    if len(set(clients)) != len(clients):
        found.append("each client may have one latency rule")
    return found


def _ill_shaped(template: Template) -> list[str]:
    """Return requirements that no node can offer, or no scheduler can satisfy."""
    found = []
    if template.restarted < 0:
        found.append("restarted is an instant and cannot be negative")
    if template.gpus < 0 or template.ports < 0 or not 0 < template.gpu_milli <= 1000:
        found.append("gpus and ports cannot be negative, and gpuMilli is between 1 and 1000")
    if template.ports > PORTS_MAX:
        found.append(f"a replica has at most {PORTS_MAX} ports, not {template.ports}")
    if template.gpus > 1 and template.gpu_milli != 1000:
        found.append("gpuMilli below 1000 is a share of one device: it needs gpus of 1")
    if template.need.gpu != template.gpus * template.gpu_milli:
        found.append("need.gpu must be gpus times gpuMilli")
    if any(rule.max_skew < 1 or rule.key not in ("zone", "pool") for rule in template.spread):
        found.append("spread needs zone or pool as its key, and a maxSkew of at least 1")
    if any(rule.most < 1 or rule.key not in ("node", "zone", "pool") or not rule.group for rule in template.apart):
        found.append("apart needs a group, node, zone or pool as its key, and a most of at least 1")
    if any(rule.key not in ("node", "zone", "pool") or not rule.group for rule in template.near):
        found.append("near needs a group, and node, zone or pool as its key")
    alone = {(rule.group, rule.key) for rule in template.apart if rule.most == 1}
    found += [
        f"near {near.group} contradicts apart with a most of 1 for the same {near.key}"
        for near in template.near
        if (near.group, near.key) in alone
    ]
    uses = template.uses
    if len(set(uses)) != len(uses) or len(uses) > USES_MAX or any(not 0 < len(one) <= PRESENT_NAME_MAX for one in uses):
        found.append(f"uses has at most {USES_MAX} names, each once and of at most {PRESENT_NAME_MAX} characters")
    return found


def _unrunnable(template: Template) -> list[str]:
    """Return settings with which no agent can run or probe the process."""
    found = []
    if template.user == "root" or (template.user and not template.user.strip("0")):
        found.append("user is root: no replica ever runs as root")
    if template.folder and not template.folder.startswith("/"):
        found.append("folder must be an absolute path: it begins with /")
    if template.pids < 0:
        found.append("pids cannot be negative; 0 is the node's limit")
    if template.grace < 0:
        found.append("grace cannot be negative; 0 is the region's grace")
    if template.restarts_max < 0:
        found.append("restartsMax cannot be negative")
    given = {name for name, _ in template.environment}
    for name, reference in template.secrets:
        # The value is not repeated: it may be the secret itself.
        if not _VARIABLE.fullmatch(name) or not _REFERENCE.fullmatch(reference):
            found.append(f"secrets.{name} needs the source of its value on the node: file:PATH or env:NAME")
        if name in given:
            found.append(f"secrets.{name} is in environment, too: a variable has one value")
    for name in ("startup", "readiness", "liveness"):
        probe: Probe | None = getattr(template, name)
        if probe is not None:
            found += _unasked(name, probe, template.ports)
    return found


def _unasked(name: str, probe: Probe, ports: int) -> Iterator[str]:
    """Return the errors of a probe."""
    ways = [way for way in ("http", "tcp", "exec") if getattr(probe, way) is not None]
    if len(ways) != 1:
        yield f"{name} needs exactly one of http, tcp and exec, not {' and '.join(ways) or 'none'}"
    if probe.http is not None and not _PATH.fullmatch(probe.http.path):
        yield f"{name}.http.path begins with / and has only ASCII characters and no spaces"
    for way, asked in (("http", probe.http), ("tcp", probe.tcp)):
        if asked is not None and not 0 <= asked.port < ports:
            yield f"{name}.{way}.port is {asked.port}: it must be below ports, {ports}; the first is 0"
    if probe.exec is not None and not probe.exec.command:
        yield f"{name}.exec.command is empty"
    if probe.delay < 0:
        yield f"{name}.delay cannot be negative"
    if probe.period < PERIOD_MIN_MS:
        yield f"{name}.period is at least {PERIOD_MIN_MS}ms"
    if probe.timeout <= 0:
        yield f"{name}.timeout is above zero"
    if probe.failures < 1:
        yield f"{name}.failures is at least 1"
