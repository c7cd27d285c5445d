"""Those who judge a region's log batch by batch and need no more than that, put together for one region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from holdfast.core.ledger.codec import Batch
from holdfast.core.region.state import RegionState
from holdfast.sim.audit import Finding
from holdfast.sim.judges.budgets import Budgets
from holdfast.sim.judges.causes import Causes
from holdfast.sim.judges.churn import Churn
from holdfast.sim.judges.damped import Damped
from holdfast.sim.judges.evicted import Evictions
from holdfast.sim.judges.listed import Listed
from holdfast.sim.judges.shipped import Steps


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
