"""What this leader refused lately, so that a packet that comes twice is not judged twice.

A scheduler whose proposal was refused makes another plan. If the network then delivers the first one again, and it
would now be accepted, two plans would hold. Refusals are not in the log: a leader remembers its own, within the window
that sessions have; after a change of leader a repeat is judged anew, and the contract says so (RULES 12).

A refusal is bound to the body of the command, for machines as for people. A refused number is not used up: a session
that was refused more often in a row than its window is wide begins again after its mark, with other commands.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import body_digest
from holdfast.core.ledger.commit.dedup import WINDOW
from holdfast.core.ledger.envelope import Envelope

#: How many refused keys of people are remembered, and of how many sessions.
KEYS_MAX = 10_000
SESSIONS_MAX = 10_000
#: Of how many commands that were sent under one number or key, one after another.
BODIES_MAX = 8

Bodies = dict[bytes, Refused]


class SessionRefusals:
    """The refusals of one session, by number."""

    __slots__ = ("actor", "numbers")

    def __init__(self, actor: str) -> None:
        self.actor = actor
        self.numbers: OrderedDict[int, Bodies] = OrderedDict()


class RefusalCache:
    """The refusals of one term."""

    def __init__(self) -> None:
        self._of_session: OrderedDict[int, SessionRefusals] = OrderedDict()
        self._of_people: OrderedDict[tuple[str, str], Bodies] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether any is remembered."""
        return bool(self._of_session or self._of_people)

    def earlier(self, envelope: Envelope[Any]) -> Refused | None:
        """The refusal that this command was given before, if it is remembered. Only its sender is told."""
        bodies: Bodies | None = None
        if envelope.session:
            ring = self._of_session.get(envelope.session)
            if ring is not None and ring.actor == envelope.actor:
                bodies = ring.numbers.get(envelope.sequence)
        elif envelope.key:
            bodies = self._of_people.get((envelope.actor, envelope.key))
        return None if bodies is None else bodies.get(body_digest(envelope))

    def remember(self, envelope: Envelope[Any], refused: Refused) -> None:
        """Keep a refusal that has been answered."""
        if envelope.session:
            ring = self._of_session.setdefault(envelope.session, SessionRefusals(envelope.actor))
            _keep(ring.numbers.setdefault(envelope.sequence, {}), envelope, refused)
            _bound(ring.numbers, WINDOW)
            _bound(self._of_session, SESSIONS_MAX)
        elif envelope.key:
            _keep(self._of_people.setdefault((envelope.actor, envelope.key), {}), envelope, refused)
            _bound(self._of_people, KEYS_MAX)


def _keep(bodies: Bodies, envelope: Envelope[Any], refused: Refused) -> None:
    bodies[body_digest(envelope)] = refused
    if len(bodies) > BODIES_MAX:
        del bodies[next(iter(bodies))]


def _bound(kept: OrderedDict[Any, Any], most: int) -> None:
    """Drop what was first kept longest ago."""
    if len(kept) > most:
        kept.popitem(last=False)
