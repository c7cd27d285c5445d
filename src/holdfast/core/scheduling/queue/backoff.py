"""Back-off of groups that left the queue after failed proposals, for their return.

    all slots reserved ──▶ the group leaves ──▶ declined, or not bound ──▶ it waits again, longer each time

The outcome of a reservation arrives when nothing of the group waits. Without this memory, a declined group would be
reserved and declined as fast as the ledger answers.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from holdfast.core.model.values.structs import Duration, Instant
from holdfast.core.scheduling.queue.request_groups import GroupKey

#: Groups that are remembered, the last that left.
LEFT_MAX = 10_000


class DepartedGroup(Struct, frozen=True):
    """Number of failed proposals in a row, and the end of the back-off."""

    attempts: int
    until: Instant


class GroupBackoff:
    """The back-off of groups that are not in the queue."""

    def __init__(self) -> None:
        self._left: OrderedDict[GroupKey, DepartedGroup] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def attempts(self, key: GroupKey) -> int:
        """Return the number of failed proposals in a row."""
        left = self._left.get(key)
        return left.attempts if left is not None else 0

    def leave(self, key: GroupKey, tries: int, until: Instant) -> None:
        """Record a group that left, or was refused after it left."""
        self._left[key] = DepartedGroup(tries, until)
        self._left.move_to_end(key)
        if len(self._left) > LEFT_MAX:
            self._left.popitem(last=False)

    def come_back(self, key: GroupKey) -> DepartedGroup | None:
        """Remove and return a group that is back in the queue or was placed."""
        return self._left.pop(key, None)

    def granted(self, account: str) -> None:
        """End the back-off of groups whose account's grant changed."""
        for key, left in self._left.items():
            if account in key[4]:
                self._left[key] = DepartedGroup(left.attempts, 0)

    def changed(self) -> None:
        """End all back-offs: a change may cure any group."""
        for key, left in self._left.items():
            self._left[key] = DepartedGroup(left.attempts, 0)

    def go_back(self, step: Duration) -> None:
        """Adjust to a ledger time lower by `step`: back-offs keep their length."""
        for key, left in self._left.items():
            self._left[key] = DepartedGroup(left.attempts, left.until - step)
