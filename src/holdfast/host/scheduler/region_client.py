"""The port to the ledger of a scheduler's region, in its own process or remote."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.model.values.structs import Revision
from holdfast.core.scheduling.view import SchedulerView
from holdfast.host.watch.changes import KeyChanges


class RegionClient(Protocol):
    """A view, which may be stale, and a way to submit commands."""

    def view(self) -> SchedulerView | None:
        """Return the current view; None while the ledger cannot be reached. The state is valid in this turn of the
        event loop only."""

    def changes(self) -> KeyChanges:
        """Return the changes from this call on."""

    async def submit(self, command: Any, view: Revision, policy: Revision, evidence: bytes) -> CommandAnswer:
        """Submit a command and return its answer. `Unavailable` if the outcome is unknown."""
