"""One program: a platform's ledger and the model, given the same envelopes, and compared after each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.builtin.log import StartLog, StartTerm
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit.draft import Committed, fold
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.invariants import check
from holdfast.core.ledger.state.table import TableSpec
from holdfast.core.platform.commands import AttestRight
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from tests.properties.platform.expected_answers import Verdict, differences, judge
from tests.properties.platform.model.platform import World
from tests.properties.platform.model.preconditions import present
from tests.support.ledgers.platform import ROOT, PlatformBench
from tests.support.ledgers.snapshots import restored

#: How many of the last accepted envelopes may be sent once more.
KEPT = 40


class Disagreement(AssertionError):
    """The ledger and the model gave different answers, or hold different states."""


@dataclass
class Tally:
    """What a run of programs has seen: per command how many were accepted, refused and repeated, and every code."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    codes: Counter[Code] = field(default_factory=Counter)
    pairs: Counter[tuple[str, Code]] = field(default_factory=Counter)
    programs: int = 0

    def count(self, command: Any, answer: Committed | Refused | Repeated) -> None:
        name = type(command).__name__
        if isinstance(answer, Refused):
            self.refused[name] += 1
            self.codes[answer.code] += 1
            self.pairs[name, answer.code] += 1
        elif isinstance(answer, Repeated):
            self.repeated[name] += 1
        else:
            self.accepted[name] += 1

    def table(self) -> str:
        """For people: a line for each command, and a line for each code."""
        names = sorted({*self.accepted, *self.refused, *self.repeated})
        rows = [f"{'command':<18}{'accepted':>10}{'refused':>10}{'repeated':>10}"]
        rows += [f"{n:<18}{self.accepted[n]:>10}{self.refused[n]:>10}{self.repeated[n]:>10}" for n in names]
        sums = [sum(counter.values()) for counter in (self.accepted, self.refused, self.repeated)]
        rows += [f"{'all':<18}{sums[0]:>10}{sums[1]:>10}{sums[2]:>10}", ""]
        rows += [f"{code.value:<22}{count:>6}" for code, count in sorted(self.codes.items())]
        return "\n".join([f"{self.programs} programs", *rows])


class SmallState(PlatformState):
    """A platform's state in few shards: it is walked through quickly, and a fork shares more rows of each shard."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = tuple(
        replace(spec, shards=min(spec.shards, 5)) for spec in PlatformState.TABLES
    )


def folded(log: list[tuple[bytes, bytes]]) -> SmallState:
    state, previous = SmallState(), b""
    for raw, digest in log:
        fold(PLATFORM, state, PLATFORM.batches.read(raw, previous, digest))
        previous = digest
    return state


def agree(answer: Committed | Refused | Repeated, verdict: Verdict) -> bool:
    if isinstance(answer, Refused):
        return answer.code in verdict.codes
    same = (answer.revision, isinstance(answer, Repeated)) == (verdict.revision, verdict.repeat)
    return same and answer.answer == verdict.answer and not verdict.codes


def same_rows(one: PlatformState, other: PlatformState, what: str) -> None:
    for spec in SmallState.TABLES:
        mine, theirs = dict(one.table(spec.name).unordered()), dict(other.table(spec.name).unordered())
        assert mine == theirs, f"{what}: {spec.name} differs"


class Program:
    """A ledger and its model under way."""

    def __init__(self, seed: int, tally: Tally) -> None:
        self.chance = Random(seed)
        #: Chance of its own: what senders expect does not change what else happens.
        self.reader = Random(f"{seed} read")
        self.tally = tally
        self.bench = PlatformBench()
        self.bench.state, self.bench.follower = folded(self.bench.log), folded(self.bench.log)
        self.world = World()
        self.keys = 0
        self.accepted: list[Envelope[Any]] = []
        self.story: list[str] = []
        for command in (StartLog("log-platform", "platform", ROOT), StartTerm(1, "server-1")):
            verdict = judge(self.world, Envelope("ledger", command, sent=self.at), self.at)
            tally.count(command, Committed(verdict.revision, b""))

    @property
    def at(self) -> int:
        return self.bench.at

    def envelope(self, actor: str, command: Any, **fields: Any) -> Envelope[Any]:
        """The envelope that this actor would send now, unless told otherwise."""
        kind = actor.partition("/")[0]
        if kind in ("region", "agent", "scheduler") and not isinstance(command, OpenSession):
            session = fields.setdefault("session", self.world.session_of(actor))
            life = self.world.sessions.get(session)
            fields.setdefault("sequence", life.high + 1 if life else 1)
        if kind in ("person", "tenant"):
            self.keys += 1
            fields.setdefault("key", f"k{self.keys}")
            if not getattr(command, "expect", 0) and self.reader.randrange(8) == 0:
                fields.setdefault("expect", self._expected(command))
        return Envelope(actor, command, **{"sent": self.at, **fields})

    def _expected(self, command: Any) -> int:
        """What a sender has read: mostly what is there, now and then something else, or that there is something."""
        found = present(self.world, command)
        ending = self.world.workloads.get(command.workload) if isinstance(command, AttestRight) else None
        if ending is not None and ending.meta.finalizers:  # which of a record's events changed it last is not modelled
            return self.reader.choice((0, PRESENT, ABSENT))
        if not found:
            return self.reader.choice((0, 0, 0, 0, ABSENT, PRESENT))
        return self.reader.choice((found, found, found, PRESENT, PRESENT, found - 1, ABSENT))

    def give(self, envelope: Envelope[Any]) -> Verdict:
        """Let both judge it, and compare everything."""
        verdict = judge(self.world, envelope, self.at)
        self.story.append(f"at {self.at}: {str(envelope)[:1_000]}\n    {verdict}")
        answer = self.bench.give(envelope)
        if not agree(answer, verdict):
            raise Disagreement(f"the model answers {verdict}, the ledger {answer}")
        wrong = differences(self.world, self.bench.state)
        if wrong:
            raise Disagreement("; ".join(wrong))
        self.tally.count(envelope.command, answer)
        if verdict.accepted:
            self.accepted = [*self.accepted[1 - KEPT :], envelope]
        return verdict

    def send(self, actor: str, command: Any, **fields: Any) -> bool:
        """Whether it was accepted."""
        return self.give(self.envelope(actor, command, **fields)).accepted

    def finish(self) -> None:
        """A replay of the log, and a snapshot taken and restored, give this very state."""
        state = self.bench.state
        digest = state_digest(state)
        again = folded(self.bench.log)
        assert state_digest(again) == digest, "a replay of the log gives another digest"
        same_rows(state, again, "replay")
        back = restored(state.fork(), SmallState())
        assert state_digest(back) == digest, "a restored snapshot has another digest"
        assert check(back, PLATFORM.invariants) == []
        same_rows(state, back, "snapshot")
