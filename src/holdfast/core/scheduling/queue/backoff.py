"""Groups that left the queue with something in vain behind them: they may come back, and are not tried at once then.

    reserved, all of it ──▶ it waits no more, and leaves ──▶ declined, or not bound ──▶ it waits anew, later each time

What becomes of a reservation is said when nothing of it waits: without this, whoever is declined each time would be
reserved, declined and reserved again as fast as the ledger answers.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from holdfast.core.model.values.structs import Duration, Instant
from holdfast.core.scheduling.queue.request_groups import GroupKey

#: So many are known, the last that left.
LEFT_MAX = 10_000


class DepartedGroup(Struct, frozen=True):
    """How often in a row what was proposed of a group was in vain, and until when it is not tried again."""

    attempts: int
    until: Instant


class GroupBackoff:
    """Of groups that are not in one queue."""

    def __init__(self) -> None:
        self._left: OrderedDict[GroupKey, DepartedGroup] = OrderedDict()

    def __len__(self) -> int:
        return len(self._left)

    def attempts(self, key: GroupKey) -> int:
        """How often in a row it was in vain."""
        left = self._left.get(key)
        return left.attempts if left is not None else 0

    def leave(self, key: GroupKey, tries: int, until: Instant) -> None:
        """A group has left, or has and is refused: it is known until it comes back, or so many others have left."""
        self._left[key] = DepartedGroup(tries, until)
        self._left.move_to_end(key)
        if len(self._left) > LEFT_MAX:
            self._left.popitem(last=False)

    def come_back(self, key: GroupKey) -> DepartedGroup | None:
        """It is there again, or came through: whoever knows it from here on is told what was."""
        return self._left.pop(key, None)

    def granted(self, account: str) -> None:
        """What an account was granted has changed: whoever it pays for may be tried as soon as it is back."""
        for key, left in self._left.items():
            if account in key[4]:
                self._left[key] = DepartedGroup(left.attempts, 0)

    def changed(self) -> None:
        """Something changed that may cure anything."""
        for key, left in self._left.items():
            self._left[key] = DepartedGroup(left.attempts, 0)

    def go_back(self, step: Duration) -> None:
        """Time is lower by so much than it was said to be: pauses end as much earlier."""
        for key, left in self._left.items():
            self._left[key] = DepartedGroup(left.attempts, left.until - step)
