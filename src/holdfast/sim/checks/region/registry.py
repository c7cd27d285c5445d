"""Those who judge a region's log batch by batch and need no more than that, put together for one region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.core.ledger.codec import Batch
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.link_steps import LinkStepCheck
from holdfast.sim.checks.region.disruption_budget import DisruptionBudgetCheck
from holdfast.sim.checks.region.endpoint_withdrawals import EndpointWithdrawalCheck
from holdfast.sim.checks.region.evictions import EvictionCheck
from holdfast.sim.checks.region.replica_churn import ReplicaChurnCheck
from holdfast.sim.checks.region.silent_node_rate import SilentNodeRateCheck
from holdfast.sim.checks.region.stop_causes import StopCauseCheck


class RegionLogCheck(Protocol):
    """Who is told of each batch, once it is part of the audited state."""

    def take(self, batch: Batch[Any]) -> None:
        """The next batch."""


def region_checks(
    name: str, state: RegionState, find: Callable[[Finding], None], hears: Callable[[], bool]
) -> tuple[RegionLogCheck, ...]:
    """The judges of a region; `hears` says whether controllers there are told of what happens."""
    return (
        DisruptionBudgetCheck(name, find), StopCauseCheck(name, find), ReplicaChurnCheck(name, find),
        LinkStepCheck(name, find),
        EvictionCheck(name, state, find, hears), SilentNodeRateCheck(name, state, find), EndpointWithdrawalCheck(name,
                                                                                                                 state,
                                                                                                                 find),
    )  # fmt: skip
