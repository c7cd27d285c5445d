"""Those who judge a region's log batch by batch and need no more than that, put together for one region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.core.ledger.codec import Batch
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.link_steps import Steps
from holdfast.sim.checks.region.disruption_budget import Budgets
from holdfast.sim.checks.region.endpoint_withdrawals import Listed
from holdfast.sim.checks.region.evictions import Evictions
from holdfast.sim.checks.region.replica_churn import Churn
from holdfast.sim.checks.region.silent_node_rate import Damped
from holdfast.sim.checks.region.stop_causes import Causes


class Judge(Protocol):
    """Who is told of each batch, once it is part of the audited state."""

    def take(self, batch: Batch[Any]) -> None:
        """The next batch."""


def regional(
    name: str, state: RegionState, find: Callable[[Finding], None], hears: Callable[[], bool]
) -> tuple[Judge, ...]:
    """The judges of a region; `hears` says whether controllers there are told of what happens."""
    return (
        Budgets(name, find), Causes(name, find), Churn(name, find), Steps(name, find),
        Evictions(name, state, find, hears), Damped(name, state, find), Listed(name, state, find),
    )  # fmt: skip
