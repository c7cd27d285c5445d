"""One program: a region's ledger and the model, given the same envelopes, and compared after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest import mock

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit.draft import Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.table import TableSpec
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region.decide import full_list
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.properties.region.comparison import (
    Disagreement,
    adopt_epochs,
    compare_answers,
    differences,
    same_rows,
    violations,
)
from tests.properties.region.expected_answers import Verdict, judge, remember
from tests.properties.region.model.region import Model
from tests.properties.region.model.shipments import GONE_MAX
from tests.properties.region.world import Chance
from tests.support.ledgers.region import CLASSES, ROOT, RegionBench, a_principal
from tests.support.ledgers.snapshots import restored

#: How many of the last accepted envelopes may be sent once more.
KEPT = 40


@dataclass
class Tally:
    """What a run of programs has seen: per command how many were accepted and refused, and every refusal code.

    `codes` counts refused commands, `part_codes` what was refused of commands that were accepted for the rest.
    """

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    codes: Counter[Code] = field(default_factory=Counter)
    part_codes: Counter[Code] = field(default_factory=Counter)
    edges: Counter[tuple[Phase, Phase, str]] = field(default_factory=Counter)
    #: What became of full lists that came in more than one part, or took away more than one record holds.
    lists: Counter[str] = field(default_factory=Counter)
    #: What became of batch work.
    over: Counter[str] = field(default_factory=Counter)
    programs: int = 0

    def count(self, command: Any, verdict: Verdict, before: Model, after: Model) -> None:
        name = type(command).__name__
        if verdict.repeats is not None:
            self.repeated[name] += 1
        elif verdict.code is None:
            self.accepted[name] += 1
            self.part_codes.update(verdict.parts.values())
            self.edges.update(edges_taken(command, verdict, before, after))
            self.over.update("done" if one.done else "failed" for one in after.over - before.over)
            if isinstance(command, c.Ship) and command.full:
                self.lists.update(becoming_of_lists(before, after))
        else:
            self.refused[name] += 1
            self.codes[verdict.code] += 1


def becoming_of_lists(before: Model, after: Model) -> Iterator[str]:
    """What a part of a full list has done, in a word or two."""
    if after.listing is None:
        yield from ["ended"] if before.listing is not None else []
    elif before.listing not in (None, after.listing):
        yield "replaced"
    elif after.swept is not None:
        yield "swept"
    else:
        yield "went on" if before.listing is not None else "begun"


def edges_taken(command: Any, verdict: Verdict, before: Model, after: Model) -> Iterator[tuple[Phase, Phase, str]]:
    """The edges that slots took between the two, by what they were and what has become of them."""
    moves = enumerate(command.moves if isinstance(command, c.Move) else ())
    causes = {one.slot: one.cause for index, one in moves if (0, index) not in verdict.parts}
    for key, old in before.slots.items():
        new = after.slots.get(key)
        if new is not None and new.phase is old.phase:
            continue
        if new is None:
            yield old.phase, Phase.RELEASED, causes.get(key, "withdrawn")
        elif new.phase is Phase.PENDING:
            yield old.phase, Phase.PENDING if old.phase is Phase.RESERVED else Phase.RELEASED, new.cause
        elif old.phase is Phase.PENDING:
            yield Phase.PENDING, Phase.RESERVED, "placed"
            if new.phase is Phase.BOUND:
                yield Phase.RESERVED, Phase.BOUND, "bound"
        else:
            yield old.phase, new.phase, new.cause


class SmallState(RegionState):
    """A region's state in few shards: it is walked through quickly, and a fork shares more rows of each shard."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = tuple(
        replace(spec, shards=min(spec.shards, 5)) for spec in RegionState.TABLES
    )


def folded(log: list[tuple[bytes, bytes]], state: RegionState) -> RegionState:
    previous = b""
    for raw, digest in log:
        fold(REGION, state, REGION.batches.read(raw, previous, digest))
        previous = digest
    return state


class Program:
    """A ledger and its model under way."""

    def __init__(self, chance: Chance, tally: Tally) -> None:
        self.bench = RegionBench(checked=False)
        self.bench.state = folded(self.bench.log, SmallState())
        self.model = model_of_a_new_bench(self.bench)
        self.chance = chance
        self.tally = tally
        self.keys = 0
        self.accepted: list[Envelope[Any]] = []
        self.story: list[str] = []
        #: The parts of every full list that was thought of.
        self.lists: dict[tuple[str, int, int], tuple[c.Ship, ...]] = {}

    @property
    def at(self) -> int:
        return self.bench.at

    def branch(self) -> Program:
        """Another program that goes on from here, on a fork of the ledger's state."""
        other = Program.__new__(Program)
        other.__dict__ = dict(self.__dict__)
        other.bench = self.bench.branch()
        other.model = self.model.clone()
        other.accepted, other.story = list(self.accepted), [*self.story, "a fork goes on from here"]
        return other

    def session_of(self, actor: str) -> int:
        return next((uid for uid, s in self.model.sessions.items() if s.principal == actor), 0)

    def envelope(self, actor: str, command: Any, **fields: Any) -> Envelope[Any]:
        """The envelope that this actor would send now, unless told otherwise."""
        kind = actor.partition("/")[0]
        if kind in ("agent", "scheduler") and not isinstance(command, OpenSession):
            session = fields.setdefault("session", self.session_of(actor))
            known = self.model.sessions.get(session)
            fields.setdefault("sequence", known.high + 1 if known else 1)
        if kind in ("person", "tenant"):
            self.keys += 1
            fields.setdefault("key", f"k{self.keys}")
        fields.setdefault("sent", self.at)
        return Envelope(actor, command, **fields)

    def give(self, envelope: Envelope[Any]) -> Verdict:
        """Let both judge it, and compare everything."""
        verdict, after = judge(self.model, envelope, self.at)
        self.story.append(f"at {self.at}: {envelope}\n    {verdict}")
        with mock.patch.object(full_list, "REMOVED_MAX", GONE_MAX):
            answer = self.bench.give(envelope)
        compare_answers(answer, verdict)
        if isinstance(answer, Committed):
            adopt_epochs(after, self.bench.state)
            remember(after, envelope, self.at, answer.revision, answer.answer)
            self.accepted = [*self.accepted[1 - KEPT :], envelope]
        found = [*differences(after, self.bench.state), *violations(self.bench.state)]
        if found:
            raise Disagreement("; ".join(found))
        self.tally.count(envelope.command, verdict, self.model, after)
        self.model = after
        return verdict

    def send(self, actor: str, command: Any, **fields: Any) -> Verdict:
        return self.give(self.envelope(actor, command, **fields))

    def crash(self) -> None:
        """Another server leads from now on, and knows what is logged: nothing else was in memory."""
        before = self.bench.state
        self.bench.state = restored(before.fork(), SmallState())
        same_rows(before, self.bench.state, "crash")
        self.tally.lists["crashed"] += 1
        self.story.append("a crash")

    def finish(self) -> None:
        """A replay of the log, and a snapshot taken and restored, give this very state."""
        state = self.bench.state
        digest = state_digest(state)
        again = folded(self.bench.log, SmallState())
        assert state_digest(again) == digest, "a replay of the log gives another digest"
        same_rows(state, again, "replay")
        back = restored(state.fork(), SmallState())
        assert state_digest(back) == digest, "a restored snapshot has another digest"
        assert not violations(back)
        same_rows(state, back, "snapshot")


def model_of_a_new_bench(bench: RegionBench) -> Model:
    """What a bench begins with, told to the model."""
    operator = bench.state.principals[ROOT]
    model = Model("log-eu", "region/eu", seq=bench.state.info.seq, term=1, term_at=bench.at, jurisdiction="eu")
    model.platform_log, model.platform_term, model.cursor = "log-platform", 1, 1
    machines = (a_principal("agent/*"), a_principal("scheduler/*"))
    model.principals = {principal.meta.name: principal for principal in (operator, *machines)}
    model.classes = {cls.meta.name: cls for cls in CLASSES}
    return model
