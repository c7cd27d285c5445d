"""Region health: a silent region is suspect, then lost; after contact it is healthy again (RULES 8).

    healthy ──session ended──▶ suspect ──lost_after──▶ lost
       ▲                          │ in a session          │ in a session, and in contact since
       └──────────────────────────┴───────────────────────┘        retired: by an operator, never undone here

A region's session decides, which the leader ends only after it has observed silence itself (RULES 5). A time of last
contact would not: it stands still while nothing happens.

Retirement: what a retired region held is released, part after part, until it holds nothing (RULES 8).

The operator's attestation came with the tombstone. Each part changes the region, which triggers the next one.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ledger.reconciler import (
    EVERYTHING,
    NO_CHANGES,
    ProposedCommand,
    ReconcileKey,
    ReconcileResult,
    WatchKey,
)
from holdfast.core.model.objects.topology import Region, RegionHealth
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.commands import JudgeRegion, ReleaseRetired
from holdfast.core.platform.state.tables import PlatformState


class RegionHealthReconciler:
    """The region health controller, keyed by region name."""

    name = "region-health"
    watches: tuple[str, ...] = ("region", "session")

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return state.regions.keys()

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]] if touched[0] == "region" else EVERYTHING

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        region = state.regions.get(key)  # type: ignore[arg-type]
        if region is None or not region.status.log_id:
            return NO_CHANGES
        if region.status.session in state.sessions:
            return _judged(region, RegionHealth.HEALTHY, "in contact again") if _is_back(region) else NO_CHANGES
        status = region.status
        if status.health is RegionHealth.HEALTHY:
            return _judged(region, RegionHealth.SUSPECT, "silent")
        lost_at = status.since + state.info.settings.lost_after
        if status.health is not RegionHealth.SUSPECT:
            return NO_CHANGES
        if now < lost_at:
            return ReconcileResult((), lost_at)
        return _judged(region, RegionHealth.LOST, "silent for long")


def _is_back(region: Region) -> bool:
    """Check whether a region is back: a suspect one with a session, a lost one if it has acknowledged its log since."""
    status = region.status
    if status.health is RegionHealth.SUSPECT:
        return True
    return status.health is RegionHealth.LOST and status.heard_at > status.since


def _judged(region: Region, health: RegionHealth, reason: str) -> ReconcileResult:
    return ReconcileResult((ProposedCommand(JudgeRegion(region.meta.name, health, reason), region.meta.revision),))


class RetirementReconciler:
    """The retirement controller, keyed by region name."""

    name = "retirement"
    watches: tuple[str, ...] = ("region",)

    def keys(self, state: PlatformState) -> Iterable[ReconcileKey]:
        return [name for name, _ in state.regions.items()]

    def wake(self, state: PlatformState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]]

    def reconcile(self, state: PlatformState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        region = state.regions.get(key)  # type: ignore[arg-type]
        if region is None or not region.status.unreleased:
            return NO_CHANGES
        return ReconcileResult((ProposedCommand(ReleaseRetired(region.meta.name), region.meta.revision),))
