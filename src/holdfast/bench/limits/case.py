"""Cases of limits: a ledger is filled up to a limit and emptied again by commands of the right actors.

A case has two parts, `fill` and `end`, each a generator of steps. A step is a few commands that are committed before
the generator continues, so that it can read the state between steps. Tests commit the steps to a state in memory, the
benchmark to a server's ledger on disk.
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
#: Proposals are written before they are sent, and one operator sends the commands of many.
SETTINGS = Settings(proposal_life=120_000, keys_per_actor=10**6)
PLENTY = Resources(2**39, 2**39, 2**39, 2**39)
#: Commands per step: more would stall the sender's loop.
AT_ONCE = 50


class TimePasses(NamedTuple):
    """A step that advances the clock; only a ledger in memory can."""

    ms: int


Step = list[tuple[str, Any]] | TimePasses
Story = Iterator[Step]


class LimitCase(NamedTuple):
    """One limit, or several that one object can reach at once: `covers` are the constants, `ledger` where they hold.

    The part `fill` reaches the limit, `end` removes everything. A benchmark does not time a case that must advance the
    clock. A long case has a smaller form in `less`, to check that it runs.
    """

    name: str
    ledger: str
    covers: tuple[str, ...]
    fill: Callable[[Any], Story]
    end: Callable[[Any], Story]
    is_timed: bool = True
    less: tuple[Callable[[Any], Story], Callable[[Any], Story]] | None = None


def in_steps(commands: Iterator[tuple[str, Any]] | list[tuple[str, Any]]) -> Story:
    """Group independent commands into steps."""
    step: list[tuple[str, Any]] = []
    for one in commands:
        step.append(one)
        if len(step) == AT_ONCE:
            yield step
            step = []
    if step:
        yield step


class CaseSender:
    """Puts commands into envelopes: those of machines with sessions, those of users with keys."""

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
    """A ledger in memory. `batches` are those that a store would contain."""

    def __init__(self, definition: LedgerDefinition[Any], at: int) -> None:
        self.definition, self.at = definition, at
        self.state: Any = definition.empty()
        self.batches: list[tuple[bytes, bytes]] = []
        self._sender = CaseSender()

    def commit(self, step: Step) -> None:
        """Commit a step as one batch; each of its commands must be accepted in full."""
        if isinstance(step, TimePasses):
            self.at += step.ms
            return
        draft = BatchDraft(self.definition, self.state)
        for actor, command in step:
            answer = draft.add(self._sender.envelope(draft.state, actor, command, self.at), self.at)
            assert isinstance(answer, Committed), (command, answer)
            assert not answer.answer, "part of the command was refused"
        if len(draft):
            self.batches.append(draft.seal())
            draft.commit()

    def tell(self, story: Story) -> None:
        """Commit all steps of a story."""
        for step in story:
            self.commit(step)


def a_class(name: str = "normal") -> PriorityClass:
    return PriorityClass(meta=Meta(name=name), spec=PriorityClassSpec(priority=50))


def a_tenant(name: str = "acme", **limits: Any) -> Tenant:
    return Tenant(meta=Meta(name=name), spec=TenantSpec(priority_classes=("normal",), **limits))


def a_principal(name: str, *rights: Permission, region: str = "") -> Principal:
    return Principal(meta=Meta(name=name), spec=PrincipalSpec(rights=rights, scope=Scope(region=region)))


def founding(ledger: str) -> Story:
    """Yield the first records of a log."""
    yield [("ledger", StartLog(LOG, ledger, OPERATOR, SETTINGS)), ("ledger", StartTerm(1, LOG))]
