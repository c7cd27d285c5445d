"""What this leader refused lately, so that a packet that comes twice is not judged twice.

A scheduler whose proposal was refused makes another plan. If the network then delivers the first one again, and it
would now be accepted, two plans would hold. Refusals are not in the log: a leader remembers its own, within the window
that sessions have; after a change of leader a repeat is judged anew, and the contract says so (RULES 12).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import body_digest
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.repeats import WINDOW

#: How many refused keys of people are remembered.
KEYS_MAX = 10_000


class Refusals:
    """The refusals of one term."""

    def __init__(self) -> None:
        self._of_session: dict[int, OrderedDict[int, Refused]] = {}
        self._of_people: OrderedDict[tuple[str, str], tuple[bytes, Refused]] = OrderedDict()

    def earlier(self, envelope: Envelope[Any]) -> Refused | None:
        """The refusal that this command was given before, if it is remembered."""
        if envelope.session:
            ring = self._of_session.get(envelope.session)
            return ring.get(envelope.sequence) if ring else None
        if envelope.key and self._of_people:
            kept = self._of_people.get((envelope.actor, envelope.key))
            if kept is not None and kept[0] == body_digest(envelope.command):
                return kept[1]
        return None

    def remember(self, envelope: Envelope[Any], refused: Refused) -> None:
        """Keep a refusal that has been answered."""
        if envelope.session:
            ring = self._of_session.setdefault(envelope.session, OrderedDict())
            ring[envelope.sequence] = refused
            if len(ring) > WINDOW:
                ring.popitem(last=False)
        elif envelope.key:
            self._of_people[envelope.actor, envelope.key] = (body_digest(envelope.command), refused)
            if len(self._of_people) > KEYS_MAX:
                self._of_people.popitem(last=False)

    def forget(self, session: int) -> None:
        """The session has ended: whatever comes from it is refused for that."""
        self._of_session.pop(session, None)
