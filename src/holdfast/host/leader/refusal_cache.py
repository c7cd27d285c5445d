"""Recent refusals of this leader, so that a duplicate packet is not decided twice.

A scheduler replaces a refused proposal by another. If a duplicate of the first were accepted then, both would be in
force. Refusals are not in the log: a leader caches its own, within the dedup window of sessions. After a change of
leader a duplicate is decided again, as the contract states (RULES 12).

A refusal is bound to the body of the command, for all principals. A refused number is not used up: a session may use it
again for another command.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import body_digest
from holdfast.core.ledger.commit.dedup import WINDOW
from holdfast.core.ledger.envelope import Envelope

#: Largest number of cached idempotency keys, and of sessions.
KEYS_MAX = 10_000
SESSIONS_MAX = 10_000
#: Largest number of command bodies cached under one number or key.
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
        """Whether any refusal is cached."""
        return bool(self._of_session or self._of_people)

    def earlier(self, envelope: Envelope[Any]) -> Refused | None:
        """Return the cached refusal of this command, only to its sender."""
        bodies: Bodies | None = None
        if envelope.session:
            ring = self._of_session.get(envelope.session)
            if ring is not None and ring.actor == envelope.actor:
                bodies = ring.numbers.get(envelope.sequence)
        elif envelope.key:
            bodies = self._of_people.get((envelope.actor, envelope.key))
        return None if bodies is None else bodies.get(body_digest(envelope))

    def remember(self, envelope: Envelope[Any], refused: Refused) -> None:
        """Cache a refusal that has been answered."""
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
    """Drop the entry that was added first."""
    if len(kept) > most:
        kept.popitem(last=False)
