"""The list of endpoints: addresses of replicas that serve, or are about to. It is derived, so as durable as the log.

    ready ──one probe passed──▶ serving         listed: both, with ports, on a node with an address
    serving ──several probes failed──▶ ready

Batch work is not listed. Replicas without ports cannot be probed: they serve once they are ready.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.state.tables import RegionState

#: Phases in which an endpoint is listed.
LISTED = (Phase.READY, Phase.SERVING)


class EndpointCheck(NamedTuple):
    """Probe of an endpoint: a GET of a path; without a path, a connection."""

    host: str
    port: int
    path: str = ""


def is_published(state: RegionState, slot: Slot) -> bool:
    """Return whether the slot is ready or serving, and not batch work."""
    return slot.phase in LISTED and not state.assignments[slot.assignment].batch


def is_listed(state: RegionState, slot: Slot) -> bool:
    return bool(slot.ports) and is_published(state, slot) and bool(state.nodes[slot.node].address)


def check_for(state: RegionState, slot: Slot) -> EndpointCheck | None:
    """Return the probe of a listed slot: its HTTP readiness probe, or else a connection to its first port."""
    if not is_listed(state, slot):
        return None
    host = state.nodes[slot.node].address
    readiness = state.templates[slot.template].readiness
    if readiness is not None and readiness.http is not None:
        return EndpointCheck(host, slot.ports[readiness.http.port], readiness.http.path)
    return EndpointCheck(host, slot.ports[0])
