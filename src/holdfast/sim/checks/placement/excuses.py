"""Who may be passed over for a while, by what was said and answered: nobody else may.

    proposed, and not answered     as long as that proposal could still land, by the view of whoever made it
    refused, or declined           until the pause after a refusal is over, which begins when the refusal is heard, or
                                   until the view has what the ledger named

Told by the log where it says so: what a record answered of its parts, and slots that were given back. A proposal that
was refused as a whole is in no log: the ledger is asked for it as it answers, and what a scheduler says, apart or
beside the leader, is read on its way. What a scheduler believes of itself is never asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import LogRecord
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.commands import Bind, Propose

#: Of requests that are equal, and wait together: template and assignment's tenant and class, by whoever looks at them.
WaitingGroup = tuple[str, str, str]
#: A command by its sender, session and number.
CommandNumber = tuple[str, Revision, int]
#: The pause after a first refusal, and the longest; each time it is twice as long.
PAUSE_MS, PAUSE_MOST_MS = 200, 30_000
#: For so much of the life of a proposal one is meant to be valid.
MEANT_OF_LIFE = 4, 5
#: Whoever has an answer looks again within this.
HEARD_MS = 200

_unmet = msgspec.msgpack.Decoder(list[RefusedPart])


class _Pause(NamedTuple):
    """How often in a row, until when, and up to which revision of the view."""

    times: int
    until: Instant
    behind: Revision


class SchedulerExcuses:
    """What schedulers of one region said, and what became of it. `equals` says with whom a request waits, `clock` how
    much time has passed, whatever the ledger's own does."""

    def __init__(self, equals: Callable[[Revision, str], WaitingGroup | None], clock: Callable[[], int]) -> None:
        self._equals = equals
        self._clock = clock
        self._pauses: dict[tuple[str, WaitingGroup], _Pause] = {}
        #: By a command that was refused, all of it or parts: when that was, and whose pauses begin when it is heard.
        self._unheard: dict[CommandNumber, tuple[int, dict[tuple[str, WaitingGroup], _Pause]]] = {}
        #: By a proposal that a scheduler has sent: until when it was meant to be valid.
        self._valid: dict[CommandNumber, Instant] = {}
        #: By session of a scheduler and slot: until when a proposal that it sent can land.
        self._sent: dict[tuple[str, Revision, Revision, int, str], Instant] = {}
        #: By session of a scheduler its proposals in their order, which it numbers by: and those by their number.
        self._proposals: dict[tuple[str, Revision], list[Propose]] = {}
        self._proposal: dict[CommandNumber, Propose] = {}
        #: By sender, time and evidence: the number of a proposal, for those that the log has without one.
        self._numbers: dict[tuple[str, Instant, bytes], CommandNumber] = {}
        #: By slot that is reserved: with whom it waited.
        self._reserved: dict[SlotKey, WaitingGroup] = {}

    def said(self, envelope: Envelope[Any], *, answered: bool) -> None:
        """A scheduler sends something to its region, or has an answer to it. A life of one beside the leader is told as
        a session."""
        command, number = envelope.command, (envelope.actor, envelope.session, envelope.sequence)
        if answered:
            self._heard(number)
        if isinstance(command, Propose):
            self._valid[number] = command.valid_until
            self._numbers[envelope.actor, envelope.sent, envelope.evidence] = number
            if not answered and number not in self._proposal:
                self._proposal[number] = command
                self._proposals.setdefault(number[:2], []).append(command)
            for group in command.groups:
                for one in group.placements:
                    key = *number[:2], group.assignment, one.ordinal, group.template
                    if answered:
                        self._sent.pop(key, None)
                    else:
                        self._sent[key] = command.valid_until

    def number(self, one: Envelope[Any] | LogRecord[Any], evidence: bytes) -> CommandNumber:
        """What a command goes by. From beside the leader it has no session and no number: a proposal is known again by
        when it was sent, and by what was said beside it."""
        number = one.actor, one.session, one.sequence
        return number if one.session else self._numbers.get((one.actor, one.sent, evidence), number)

    def made(self, by: CommandNumber, sent: Instant, life_ms: int) -> Instant:
        """When a proposal was made: it may have waited on its way for others to be answered, and says until when it is
        meant to be valid."""
        return min(sent, self._valid.get(by, sent + life_ms) - life_ms * MEANT_OF_LIFE[0] // MEANT_OF_LIFE[1])

    def sent(self, by: CommandNumber) -> Propose | None:
        """A proposal as it was sent; None: nobody has told of it."""
        return self._proposal.get(by)

    def beside(self, by: CommandNumber, in_flight: Iterable[int]) -> list[Propose]:
        """What a scheduler had on its way when it made a proposal, whatever became of it; what was answered before that
        was sent included. It numbers what it proposes in one session from 1 on."""
        known = self._proposals.get(by[:2], [])
        return [known[number - 1] for number in in_flight if number <= len(known)]

    def refused(self, envelope: Envelope[Any], answer: Refused, at: Instant) -> None:
        """The region refuses something as a whole, at a time of its own."""
        command, number = envelope.command, self.number(envelope, envelope.evidence)
        if isinstance(command, Propose):
            parts = [RefusedPart(*one) for one in answer.facts.get("refused", ())]
            behind = max([one.catch_up_to for one in parts], default=int(answer.facts.get("catch_up_to", 0)))
            named = [self._equals(group.assignment, group.template) for group in command.groups]
            self._pause(number, named, at, behind)
        elif isinstance(command, Bind):
            self._pause(number, [self._reserved.pop(slot, None) for slot in command.slots], at)

    def met_in_part(
        self, by: CommandNumber, groups: list[WaitingGroup | None], answer: bytes, at: Instant, *, bound: bool = True
    ) -> None:
        """A proposal has landed but for some parts: whoever lost some may wait as if all had been refused. What is
        not `bound` is reserved: it has not come through before it is."""
        lost: dict[int, Revision] = {}
        for one in _unmet.decode(answer) if answer else ():
            lost[one.group] = max(one.catch_up_to, lost.get(one.group, 0))
        for number, group in enumerate(groups):
            if number in lost:
                self._pause(by, [group], at, lost[number])
            elif group is not None and bound:
                self._come_through((by[0], group))

    def reserved(self, slots: Iterable[SlotKey], group: WaitingGroup | None) -> None:
        """Slots of one request are reserved, and are bound later or given back."""
        if group is not None:
            self._reserved.update(dict.fromkeys(slots, group))

    def bound(self, actor: str, slots: Iterable[SlotKey]) -> None:
        """Slots that were reserved are bound."""
        for slot in slots:
            group = self._reserved.pop(slot, None)
            if group is not None:
                self._come_through((actor, group))

    def _come_through(self, key: tuple[str, WaitingGroup]) -> None:
        """What was in vain before does not count any more. A pause that has begun ends when it was to."""
        known = self._pauses.get(key)
        if known is not None:
            self._pauses[key] = known._replace(times=0)
            for _, mine in self._unheard.values():
                if mine.get(key) is known:
                    mine[key] = self._pauses[key]

    def declined(self, by: CommandNumber, slots: Iterable[SlotKey], at: Instant) -> None:
        """Slots that were reserved are given back: whoever waits with them may wait a while. Who gives back knows."""
        self._pause(by, [self._reserved.pop(slot, None) for slot in slots], at)
        del self._unheard[by]

    def _pause(
        self, by: CommandNumber, groups: Iterable[WaitingGroup | None], at: Instant, behind: Revision = 0
    ) -> None:
        _, mine = self._unheard.get(by, (0, {}))
        self._unheard[by] = self._clock(), mine
        for key in dict.fromkeys((by[0], group) for group in groups if group is not None):
            known = self._pauses.get(key)
            times = known.times if known is not None else 0
            until = at + min(PAUSE_MOST_MS, PAUSE_MS << min(times, 10)) + HEARD_MS
            self._pauses[key] = mine[key] = _Pause(times + 1, until, behind)

    def _heard(self, by: CommandNumber) -> None:
        """Whoever was refused knows by now: what it was to wait for begins here."""
        began, pauses = self._unheard.pop(by, (0, {}))
        for key, pause in pauses.items():
            if self._pauses.get(key) is pause:
                self._pauses[key] = pause._replace(until=pause.until + self._clock() - began)

    def is_excused(
        self,
        by: CommandNumber,
        in_flight: Iterable[int],
        request: tuple[Revision, str],
        ordinal: int,
        view: tuple[Revision, Instant],
        at: Instant,
    ) -> bool:
        """Whether a scheduler may leave a slot alone in what it sent then; a view is a revision, and when that was."""
        actor, (assignment, template) = by[0], request
        key = *by[:2], assignment, ordinal, template
        groups = [group for sent in self.beside(by, in_flight) for group in sent.groups]
        named = {(group.assignment, one.ordinal) for group in groups for one in group.placements}
        if (assignment, ordinal) in named or self._sent.get(key, -1) >= view[1]:
            return True
        group = self._equals(assignment, template)
        pause = self._pauses.get((actor, group)) if group is not None else None
        return pause is not None and (at < pause.until or view[0] < pause.behind)
