"""The checks that read only one region's log, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.core.ledger.codec import Batch
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.link_steps import LinkStepCheck
from holdfast.sim.checks.region.disruption_budget import DisruptionBudgetCheck
from holdfast.sim.checks.region.evictions import EvictionCheck
from holdfast.sim.checks.region.gangs import GangCheck
from holdfast.sim.checks.region.preemptions import PreemptionCheck
from holdfast.sim.checks.region.replica_churn import ReplicaChurnCheck
from holdfast.sim.checks.region.silent_node_rate import EndpointWithdrawalCheck, SilentNodeRateCheck
from holdfast.sim.checks.region.stop_causes import StopCauseCheck


class RegionLogCheck(Protocol):
    """A check that receives each batch after it is part of the audited state."""

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""


def region_checks(
    name: str, state: RegionState, find: Callable[[Finding], None], hears: Callable[[], bool]
) -> tuple[RegionLogCheck, ...]:
    """Return the checks of a region; `hears` returns whether its controllers receive all changes."""
    return (
        DisruptionBudgetCheck(name, find), StopCauseCheck(name, find), ReplicaChurnCheck(name, find),
        LinkStepCheck(name, find), PreemptionCheck(name, state, find), GangCheck(name, find),
        EvictionCheck(name, state, find, hears), SilentNodeRateCheck(name, state, find), EndpointWithdrawalCheck(name,
                                                                                                                 state,
                                                                                                                 find),
    )  # fmt: skip
