"""Denials: aggregated in memory, and recorded in the log by the leader.

    note --> sums by (actor, what, code, tenant) --at most once a second--> RecordDenials

A denied request is in no batch by itself, and frequent requests must not grow the log: equal denials become one sum.
Beyond `KINDS_MAX` kinds, denials are summed by code alone, under `others`.

Denials of unauthenticated requests have kinds of their own, and after `STRANGERS_RECORDS` records are recorded once a
minute: their senders must neither fill the log nor hide denials of principals.

Denials that could not be recorded are retried, even after an unknown outcome, so some may be recorded twice. A
follower, which denies only reads since it forwards commands, keeps its sums until it leads. If it ends before that,
they are in its metrics only.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.audit import RecordDenials
from holdfast.core.ledger.commit.authorization import PEOPLE
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.values.limits import DENIALS_MAX, TEXT_MAX
from holdfast.core.model.values.structs import Instant
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Logger, Metrics

#: Largest number of kinds per record, and of codes under which the rest is summed.
KINDS_MAX = 100
CODES_MAX = 50
OTHERS = "others"
BETWEEN_MS = 1_000
#: The actor of unauthenticated requests, and the largest number of their kinds.
NOBODY = "nobody"
STRANGERS_MAX = 40
#: This many records in a row may contain unauthenticated denials; then one per interval.
STRANGERS_RECORDS = 60
STRANGERS_MS = 60_000

#: The refusal codes that count as a denial.
DENIED = (Code.NO_RIGHT, Code.WRONG_SCOPE, Code.NOT_OWNER)

#: Actor, what, code, tenant.
Kind = tuple[str, str, str, str]

assert KINDS_MAX + CODES_MAX + 1 + STRANGERS_MAX + 1 <= DENIALS_MAX


class Denials:
    """The denials of one server that are not recorded yet."""

    def __init__(self, clock: Clock, metrics: Metrics, logger: Logger) -> None:
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        #: Per kind: the count, and the times of the first and the last.
        self._sums: dict[Kind, tuple[int, Instant, Instant]] = {}
        #: The number of kinds of principals and of unauthenticated senders, without sums by code.
        self._kinds = self._strange = 0
        #: The end of the record budget of unauthenticated denials: each record moves it by `STRANGERS_MS`.
        self._strangers_to = 0
        self._some = asyncio.Event()

    def note(self, actor: str, what: str, code: str, tenant: str = "") -> None:
        """Add a denial, with the time of the wall clock."""
        assert code, f"{actor} was denied {what} without a code"
        now = self._clock.wall()
        self._metrics.count("denials", code=code)
        self._add((actor, what, code, tenant), (1, now, now))

    def refused(self, envelope: Envelope[Any], answer: Refused) -> None:
        """Add a refusal that denies a request of an operator or tenant."""
        if answer.code in DENIED and envelope.actor.partition("/")[0] in PEOPLE:
            command = envelope.command
            self.note(envelope.actor, type(command).__struct_config__.tag, answer.code.value, tenant_in(command))

    def waiting(self) -> tuple[Denial, ...]:
        """Return the denials that are not recorded yet."""
        return tuple(Denial(*kind, *sums) for kind, sums in sorted(self._sums.items()))

    async def run(self, leader: Leader[S]) -> None:
        """Record denials in the log while this server leads."""
        while True:
            await self._some.wait()
            if taken := self._take():
                await self._record(leader, taken)
            await self._clock.sleep(BETWEEN_MS)

    async def _record(self, leader: Leader[S], taken: tuple[Denial, ...]) -> None:
        try:
            answer = await leader.submit_as("ledger", RecordDenials(taken))
        except Unavailable as error:
            self._put_back(taken)
            self._logger.warning("denials-not-recorded", kinds=len(taken), why=error)
        except BaseException:
            self._put_back(taken)
            raise
        else:
            if isinstance(answer, Refused):  # a retry would not help, and they are logged
                self._logger.error("denials-refused", why=answer.message, denials=taken)
                return
            self._metrics.count("denials_recorded", sum(one.count for one in taken))

    def _take(self) -> tuple[Denial, ...]:
        """Take the denials to record now; unauthenticated ones when due."""
        now, left = self._clock.boot(), self._sums
        self._sums, self._kinds, self._strange = {}, 0, 0
        self._some.clear()
        strange = [kind for kind in left if kind[0] == NOBODY]
        if strange and self._strangers_to > now + (STRANGERS_RECORDS - 1) * STRANGERS_MS:
            for kind in strange:
                self._add(kind, left.pop(kind))
        elif strange:
            self._strangers_to = max(self._strangers_to, now) + STRANGERS_MS
        return tuple(Denial(*kind, *sums) for kind, sums in sorted(left.items()))

    def _put_back(self, taken: tuple[Denial, ...]) -> None:
        for one in taken:
            self._add((one.actor, one.what, one.code, one.tenant), (one.count, one.first, one.last))

    def _add(self, kind: Kind, sums: tuple[int, Instant, Instant]) -> None:
        kind = self._position(kind)
        count, first, last = sums
        known = self._sums.get(kind)
        if known is None:
            self._kinds += kind[0] not in (OTHERS, NOBODY)
            self._strange += kind[0] == NOBODY
        else:
            count, first, last = count + known[0], min(first, known[1]), max(last, known[2])
        self._sums[kind] = (count, first, last)
        self._some.set()

    def _position(self, kind: Kind) -> Kind:
        """Return the kind under which a denial is summed: its own, within the limits."""
        actor, what, code, tenant = (text[:TEXT_MAX] for text in kind)
        mine = (actor, what, code, tenant)
        if actor == NOBODY:
            return mine if mine in self._sums or self._strange < STRANGERS_MAX else (NOBODY, "", OTHERS, "")
        if actor != OTHERS and (mine in self._sums or self._kinds < KINDS_MAX):
            return mine
        rest = (OTHERS, "", code, "")
        summed_up = len(self._sums) - self._kinds - self._strange
        return rest if rest in self._sums or summed_up < CODES_MAX else (OTHERS, "", OTHERS, "")


def tenant_in(command: Any) -> str:
    """Return the tenant that a command names; empty if it names none."""
    workload = getattr(command, "workload", None)
    return str(workload.meta.tenant if isinstance(workload, Workload) else getattr(command, "tenant", ""))
