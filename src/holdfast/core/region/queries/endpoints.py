"""The list of endpoints: where replicas that serve, or are about to, are reached. It is derived, so it is as durable as
the log.

    ready ──one question answered──▶ serving        listed: both, with ports, on a node with an address
    serving ──none answered, several times──▶ ready

Work that completes serves nobody and is not listed. What has no ports cannot be asked: it serves once it is ready.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.state.tables import RegionState

#: Phases in which an endpoint is listed.
LISTED = (Phase.READY, Phase.SERVING)


class EndpointCheck(NamedTuple):
    """What an endpoint is asked: a GET of a path; without one, only whether it takes a connection."""

    host: str
    port: int
    path: str = ""


def is_published(state: RegionState, slot: Slot) -> bool:
    """Whether it serves somebody, or is to: it is ready, and does not merely complete."""
    return slot.phase in LISTED and not state.assignments[slot.assignment].batch


def is_listed(state: RegionState, slot: Slot) -> bool:
    """Whether it is in the list."""
    return bool(slot.ports) and is_published(state, slot) and bool(state.nodes[slot.node].address)


def check_for(state: RegionState, slot: Slot) -> EndpointCheck | None:
    """What one that is listed is asked: as its readiness probe asks it over HTTP, else at its first port."""
    if not is_listed(state, slot):
        return None
    host = state.nodes[slot.node].address
    readiness = state.templates[slot.template].readiness
    if readiness is not None and readiness.http is not None:
        return EndpointCheck(host, slot.ports[readiness.http.port], readiness.http.path)
    return EndpointCheck(host, slot.ports[0])
