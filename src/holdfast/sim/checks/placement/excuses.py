"""Requests that a scheduler may pass over for a while, by what it sent and how that was answered.

    in flight               while that proposal could still be committed, by the view of its scheduler
    refused, or declined    until the pause after a refusal ends, which begins when the refusal arrives, or
                            until the view contains the revision that the ledger named

The log shows partial answers and slots that were given back. A proposal that was refused as a whole is in no log: the
ledger reports its refusals here, and every command of embedded and standalone schedulers is read on its way. The
schedulers' own state is never used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import LogRecord
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import RefusedPart, decode_refused_parts
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.commands import Bind, Propose

#: Equal requests that wait together: template, and the assignment's tenant and priority class.
WaitingGroup = tuple[str, str, str]
#: A command: its sender, session and sequence number.
CommandNumber = tuple[str, Revision, int]
#: The pause after a first refusal, and the longest; it doubles each time.
PAUSE_MS, PAUSE_MOST_MS = 200, 30_000
#: Share of a proposal's lifetime for which it is meant to be valid.
MEANT_OF_LIFE = 4, 5
#: A scheduler runs its next cycle within this time after an answer.
HEARD_MS = 200


class _Pause(NamedTuple):
    """Number of refusals in a row, end of the pause, and revision up to which the view must catch up."""

    times: int
    until: Instant
    behind: Revision


class SchedulerExcuses:
    """Proposals of one region's schedulers and their outcomes. `equals` returns the group in which a request waits;
    `clock` is the world's time, independent of ledger time."""

    def __init__(self, equals: Callable[[Revision, str], WaitingGroup | None], clock: Callable[[], int]) -> None:
        self._equals = equals
        self._clock = clock
        self._pauses: dict[tuple[str, WaitingGroup], _Pause] = {}
        #: By refused command, in full or in part: when, and the pauses that begin when the refusal arrives.
        self._unheard: dict[CommandNumber, tuple[int, dict[tuple[str, WaitingGroup], _Pause]]] = {}
        #: By sent proposal: until when it was meant to be valid.
        self._valid: dict[CommandNumber, Instant] = {}
        #: By session of a scheduler and slot: until when a proposal in flight can be committed.
        self._sent: dict[tuple[str, Revision, Revision, int, str], Instant] = {}
        #: By session of a scheduler: its proposals in order of their numbers; and each by its number.
        self._proposals: dict[tuple[str, Revision], list[Propose]] = {}
        self._proposal: dict[CommandNumber, Propose] = {}
        #: By sender, time and evidence: the number of a proposal that has none in the log.
        self._numbers: dict[tuple[str, Instant, bytes], CommandNumber] = {}
        #: By reserved slot: the group in which it waited.
        self._reserved: dict[SlotKey, WaitingGroup] = {}

    def said(self, envelope: Envelope[Any], *, answered: bool) -> None:
        """Record a command of a scheduler, or its answer. Each incarnation of an embedded scheduler counts as a
        session."""
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
        """Return the number of a command. An embedded scheduler has no session or number in the log; its proposal is
        identified by sending time and evidence."""
        number = one.actor, one.session, one.sequence
        return number if one.session else self._numbers.get((one.actor, one.sent, evidence), number)

    def made(self, by: CommandNumber, sent: Instant, life_ms: int) -> Instant:
        """Return when a proposal was made, by its end of validity: it may have waited for earlier ones before it was
        sent."""
        return min(sent, self._valid.get(by, sent + life_ms) - life_ms * MEANT_OF_LIFE[0] // MEANT_OF_LIFE[1])

    def sent(self, by: CommandNumber) -> Propose | None:
        """Return a proposal as it was sent; None: it was not recorded."""
        return self._proposal.get(by)

    def beside(self, by: CommandNumber, in_flight: Iterable[int]) -> list[Propose]:
        """Return what a scheduler had in flight when it made a proposal, including what was answered before that was
        sent. Proposals of a session are numbered from 1."""
        known = self._proposals.get(by[:2], [])
        return [known[number - 1] for number in in_flight if number <= len(known)]

    def refused(self, envelope: Envelope[Any], answer: Refused, at: Instant) -> None:
        """Record a refusal of a complete command at a ledger time."""
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
        """Record a committed proposal with some refused parts: groups with such parts may wait as after a full refusal.
        Slots that are not `bound` are reserved and have not succeeded yet."""
        lost: dict[int, Revision] = {}
        for one in decode_refused_parts(answer):
            lost[one.group] = max(one.catch_up_to, lost.get(one.group, 0))
        for number, group in enumerate(groups):
            if number in lost:
                self._pause(by, [group], at, lost[number])
            elif group is not None and bound:
                self._come_through((by[0], group))

    def reserved(self, slots: Iterable[SlotKey], group: WaitingGroup | None) -> None:
        """Record reserved slots of one request; they are bound or given back later."""
        if group is not None:
            self._reserved.update(dict.fromkeys(slots, group))

    def bound(self, actor: str, slots: Iterable[SlotKey]) -> None:
        """Record that reserved slots are bound."""
        for slot in slots:
            group = self._reserved.pop(slot, None)
            if group is not None:
                self._come_through((actor, group))

    def _come_through(self, key: tuple[str, WaitingGroup]) -> None:
        """Reset the count of refusals. A pause that has begun keeps its end."""
        known = self._pauses.get(key)
        if known is not None:
            self._pauses[key] = known._replace(times=0)
            for _, mine in self._unheard.values():
                if mine.get(key) is known:
                    mine[key] = self._pauses[key]

    def declined(self, by: CommandNumber, slots: Iterable[SlotKey], at: Instant) -> None:
        """Record that reserved slots are given back: their group may wait. The scheduler gave them back, so the pause
        begins now."""
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
        """Begin the pauses of a refused command when its answer arrives."""
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
        """Return whether a scheduler may leave out a slot of a proposal; `view` is a revision and its time."""
        actor, (assignment, template) = by[0], request
        key = *by[:2], assignment, ordinal, template
        groups = [group for sent in self.beside(by, in_flight) for group in sent.groups]
        named = {(group.assignment, one.ordinal) for group in groups for one in group.placements}
        if (assignment, ordinal) in named or self._sent.get(key, -1) >= view[1]:
            return True
        group = self._equals(assignment, template)
        pause = self._pauses.get((actor, group)) if group is not None else None
        return pause is not None and (at < pause.until or view[0] < pause.behind)
