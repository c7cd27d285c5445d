"""Where a limit is taken and left again: a ledger, and somebody who sends what a case says, in the right names.

A case is a story in two parts, `fill` and `end`, each a generator of steps. A step is a handful of commands that are
committed before the story goes on: it may look at the state in between. The tests commit steps to a state in memory,
the benchmark to a server's ledger on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast.core.ledger.builtin.log import StartLog, StartTerm
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec, Scope
from holdfast.core.model.objects.tenants import PriorityClass, PriorityClassSpec, Tenant, TenantSpec
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import Settings

OPERATOR = "person/bench"
LOG = "bench"
#: Proposals are written before they are sent, and one person does what many would.
SETTINGS = Settings(proposal_life=120_000, keys_per_actor=10**6)
PLENTY = Resources(2**39, 2**39, 2**39, 2**39)
#: How many commands a step has at most: more would be a stall of whoever sends them.
AT_ONCE = 50


class TimePasses(NamedTuple):
    """Let so much time pass. Only a world in memory can."""

    ms: int


Step = list[tuple[str, Any]] | TimePasses
Story = Iterator[Step]


class LimitCase(NamedTuple):
    """A limit, or several that one object can have at once: `covers` are the constants, `ledger` where they hold.

    `fill` takes it to the limit, `end` ends it. What needs a clock that can be moved is not `timed` by a benchmark.
    Where that takes long, `less` is the same with less of it, for who only wants to see that it runs.
    """

    name: str
    ledger: str
    covers: tuple[str, ...]
    fill: Callable[[Any], Story]
    end: Callable[[Any], Story]
    is_timed: bool = True
    less: tuple[Callable[[Any], Story], Callable[[Any], Story]] | None = None


def in_steps(commands: Iterator[tuple[str, Any]] | list[tuple[str, Any]], most: int = AT_ONCE) -> Story:
    """Commands that do not depend on one another, some at a time."""
    step: list[tuple[str, Any]] = []
    for one in commands:
        step.append(one)
        if len(step) == most:
            yield step
            step = []
    if step:
        yield step


class CaseSender:
    """Puts commands into envelopes: machines in their sessions, people with keys of their own."""

    def __init__(self) -> None:
        self._sequences: dict[int, int] = {}
        self._keys = 0

    def envelope(self, state: LedgerState, actor: str, command: Any, at: int) -> Envelope[Any]:
        kind = actor.partition("/")[0]
        if kind in ("person", "tenant"):
            self._keys += 1
            return Envelope(actor, command, at, key=f"{state.info.seq}-{self._keys}")
        if kind not in ("agent", "scheduler", "region") or isinstance(command, OpenSession):
            return Envelope(actor, command, at)
        session = state.session_of[actor]
        last = max(self._sequences.get(session, 0), state.sessions[session].high)
        number = self._sequences[session] = last + 1
        return Envelope(actor, command, at, session=session, sequence=number)


class InMemoryLedger:
    """A ledger in memory. `batches` is what a store would hold."""

    def __init__(self, definition: LedgerDefinition[Any], at: int) -> None:
        self.definition, self.at = definition, at
        self.state: Any = definition.empty()
        self.batches: list[tuple[bytes, bytes]] = []
        self._sender = CaseSender()

    def commit(self, step: Step) -> None:
        """Commit a step as one batch; each of its commands must be accepted whole."""
        if isinstance(step, TimePasses):
            self.at += step.ms
            return
        draft = BatchDraft(self.definition, self.state)
        for actor, command in step:
            answer = draft.add(self._sender.envelope(draft.state, actor, command, self.at), self.at)
            assert isinstance(answer, Committed), (command, answer)
            assert not answer.answer, "something of it was refused"
        if len(draft):
            self.batches.append(draft.seal())
            draft.commit()

    def tell(self, story: Story) -> None:
        """Commit a whole story."""
        for step in story:
            self.commit(step)


def a_class(name: str = "normal") -> PriorityClass:
    return PriorityClass(meta=Meta(name=name), spec=PriorityClassSpec(priority=50))


def a_tenant(name: str = "acme", **limits: Any) -> Tenant:
    return Tenant(meta=Meta(name=name), spec=TenantSpec(priority_classes=("normal",), **limits))


def a_principal(name: str, *rights: Permission, region: str = "") -> Principal:
    return Principal(meta=Meta(name=name), spec=PrincipalSpec(rights=rights, scope=Scope(region=region)))


def founding(ledger: str) -> Story:
    """The first records of a log."""
    yield [("ledger", StartLog(LOG, ledger, OPERATOR, SETTINGS)), ("ledger", StartTerm(1, LOG))]
