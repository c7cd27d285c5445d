"""The ledger that a scheduler works for, as the scheduler sees it: beside it, or far away."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.core.ledger.answers import Refused, Repeated
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.values.structs import Revision
from holdfast.core.scheduling.cycle import SchedulerView
from holdfast.host.watch.key_changes import KeyChanges

ProposalAnswer = Committed | Refused | Repeated


class RegionClient(Protocol):
    """A view that may be old, and a voice that is judged."""

    def view(self) -> SchedulerView | None:
        """What is known of it now; None while it cannot be spoken to: then there is no use in looking. The state is
        for reading in this turn of the loop, and not to be kept."""

    def changes(self) -> KeyChanges:
        """What changes from this call on."""

    async def submit(self, command: Any, view: Revision, policy: Revision, evidence: bytes) -> ProposalAnswer:
        """The answer, once it is there. `Unavailable` when it is not known whether there will ever be one."""
