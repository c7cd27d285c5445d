"""From a binding and its template to what a driver starts: complete, nothing is looked up later."""

from __future__ import annotations

from holdfast.agent.driver import Work
from holdfast.core.agent.bound import Bound
from holdfast.core.model.settings import DEFAULTS
from holdfast.core.model.workload import Template


def work_of(one: Bound, template: Template, lease: int, most_ms: int = DEFAULTS.grace) -> Work:
    """What is to run in a slot. Leased work has no longer to stop than its fence allows for, which is `most_ms`."""
    grace_ms = template.grace or most_ms
    return Work(
        slot=one.slot,
        epoch=one.epoch,
        name=one.name,
        command=template.command,
        environment=template.environment,
        folder=template.folder,
        user=template.user,
        need=template.need,
        pids=template.pids,
        ports=one.ports,
        devices=one.devices,
        secrets=template.secrets,
        leased=one.leased,
        deadline=lease if one.leased else 0,
        grace_ms=min(grace_ms, most_ms) if one.leased else grace_ms,
        tenant=one.tenant,
    )
