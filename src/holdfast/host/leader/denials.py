"""Denials on record: added up in memory, and put into the log by whoever leads.

    note --> sums by (actor, what, code, tenant) --at most once a second--> RecordDenials

What is denied changes nothing, so it is in no batch by itself, and whoever asks a thousand times a second must not grow
the log by that: equal denials become one sum, and of more than `KINDS_MAX` kinds the rest is summed up by code alone,
under `others`.

What strangers are denied, who show nothing that proves who they are, is on record once a minute if it goes on for
longer than `STRANGERS_RECORDS`, and has kinds of its own: they choose how often they ask, and must neither fill the log
and the audit by it nor hide what people tried.

What could not be written is kept and written later, rather twice than never: a record whose outcome is unknown may be
in the log. On a follower sums wait until it leads; only reads are denied there, since commands are forwarded. What
waits on a server that ends without having led again was counted in its metrics, and is in no log.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.denials import RecordDenials
from holdfast.core.ledger.commit.authorization import PEOPLE
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.values.limits import DENIALS_MAX, TEXT_MAX
from holdfast.core.model.values.structs import Instant
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Logger, Metrics

S = TypeVar("S", bound=LedgerState)

#: Kinds of denials that are told apart between two records; and codes under which the rest is summed up.
KINDS_MAX = 100
CODES_MAX = 50
OTHERS = "others"
BETWEEN_MS = 1_000
#: Who asks without a name; and how many kinds of what they are denied are told apart.
NOBODY = "nobody"
STRANGERS_MAX = 40
#: So many records in a row tell of strangers, as after a start, when nobody is known yet; then one in so long.
STRANGERS_RECORDS = 60
STRANGERS_MS = 60_000

#: Refusals that mean: this is not yours to ask for.
DENIED = (Code.NO_RIGHT, Code.WRONG_SCOPE, Code.NOT_OWNER)

#: Actor, what, code, tenant.
Kind = tuple[str, str, str, str]

assert KINDS_MAX + CODES_MAX + 1 + STRANGERS_MAX + 1 <= DENIALS_MAX


class Denials:
    """What one server has denied and is not on record yet."""

    def __init__(self, clock: Clock, metrics: Metrics, logger: Logger) -> None:
        self._clock = clock
        self._metrics = metrics
        self._logger = logger
        #: How often, when first, and when last.
        self._sums: dict[Kind, tuple[int, Instant, Instant]] = {}
        #: How many kinds there are of people's, and of strangers'; those that are summed up by code are neither.
        self._kinds = self._strange = 0
        #: Up to when, one in `STRANGERS_MS`, the records would reach that have told of strangers.
        self._strangers_to = 0
        self._some = asyncio.Event()

    def note(self, actor: str, what: str, code: str, tenant: str = "") -> None:
        """Somebody was denied something now, by the wall clock."""
        assert code, f"{actor} was denied {what} for no reason"
        now = self._clock.wall()
        self._metrics.count("denials", code=code)
        self._add((actor, what, code, tenant), (1, now, now))

    def refused(self, envelope: Envelope[Any], answer: Refused) -> None:
        """Note a refusal if it denies a person or a tenant what they asked for."""
        if answer.code in DENIED and envelope.actor.partition("/")[0] in PEOPLE:
            command = envelope.command
            self.note(envelope.actor, type(command).__struct_config__.tag, answer.code.value, tenant_in(command))

    def waiting(self) -> tuple[Denial, ...]:
        """What is not on record yet."""
        return tuple(Denial(*kind, *sums) for kind, sums in sorted(self._sums.items()))

    async def run(self, leader: Leader[S]) -> None:
        """Put what was noted into the log for as long as this server leads."""
        while True:
            await self._some.wait()
            if taken := self._take():
                await self._record(leader, taken)
            await self._clock.sleep(BETWEEN_MS)

    async def _record(self, leader: Leader[S], taken: tuple[Denial, ...]) -> None:
        try:
            answer = await leader.submit(Envelope("ledger", RecordDenials(taken), leader.term.now()))
        except Unavailable as error:
            self._put_back(taken)
            self._logger.warning("denials-not-recorded", kinds=len(taken), why=error)
        except BaseException:
            self._put_back(taken)
            raise
        else:
            if isinstance(answer, Refused):  # trying again would not help, and they are logged
                self._logger.error("denials-refused", why=answer.message, denials=taken)
                return
            self._metrics.count("denials_recorded", sum(one.count for one in taken))

    def _take(self) -> tuple[Denial, ...]:
        """What is to be recorded now; of strangers' only if that is due."""
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
        """The sum that a denial goes to: its own, as long as there is room for another."""
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
    """The tenant that a command names; empty where it names none."""
    workload = getattr(command, "workload", None)
    return str(workload.meta.tenant if isinstance(workload, Workload) else getattr(command, "tenant", ""))
