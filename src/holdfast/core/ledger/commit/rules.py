"""One rule per command: who may send it, its lane, what it does to the world and what takes that back.

`holdfast review`, the documents and the tests read the rules; a command without one does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from holdfast.core.ledger.answers import Accepted, Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.state.ledger_state import Session
from holdfast.core.model.objects.principals import Permission, Principal
from holdfast.core.model.values.structs import Instant, Revision


class CommandLane(IntEnum):
    """Guaranteed shares of a ledger's attention; overload sheds from the bottom (RULES 11)."""

    PROOFS = 1
    REPORTS = 2
    OPERATORS = 3
    RECONCILERS = 4
    PROPOSALS = 5
    READS = 6


class CommandContext:
    """A command under judgement: everything a handler may know besides the state."""

    __slots__ = ("actor", "at", "command", "envelope", "kind", "level", "principal", "revision", "session")

    def __init__(self, envelope: Envelope[Any], at: Instant, revision: Revision) -> None:
        self.envelope = envelope
        self.command: Any = envelope.command
        self.actor = envelope.actor
        self.kind = envelope.actor.partition("/")[0]
        self.at = at
        self.revision = revision
        #: What this server can write; the log may be of a lower level.
        self.level = LEVEL
        self.principal: Principal | None = None
        self.session: Session | None = None

    def outside_tenant(self, tenant: str) -> bool:
        """Whether the sender's scope leaves this tenant out."""
        if self.kind == "tenant":
            return self.actor != f"tenant/{tenant}"
        scoped = self.principal.spec.scope.tenant if self.principal else ""
        return bool(scoped) and scoped != tenant

    def outside_nodes(self) -> bool:
        """Whether the sender's scope is a tenant: nodes are everybody's."""
        return bool(self.principal and self.principal.spec.scope.tenant)

    def outside_node(self, node: str) -> bool:
        """Whether the sender's scope leaves this node out."""
        scoped = self.principal.spec.scope.node if self.principal else ""
        return bool(scoped) and scoped != node


class Subject(NamedTuple):
    """The object that a command changes or follows from, and the revision at which it is; 0: there is none. `own`: that
    is a revision of this log, for which a view can wait."""

    key: str
    revision: Revision
    own: bool = True


S = TypeVar("S")
Handler = Callable[[S, Any, CommandContext], Accepted | Refused]


class CommandCoalescer(Protocol):
    """Commands of one kind, judged in a row: what they share is asked once, and their events are applied together.

    A row gives exactly the answers and the state that one command after another would give; what it cannot judge so it
    leaves to the handler.
    """

    at: Instant

    def try_accept(self, command: Any, ctx: CommandContext) -> Accepted | None:
        """The answer on top of what the row holds, or None: settle the row and judge this one alone."""

    def stage(self, events: tuple[Any, ...], first: Revision, actor: str) -> None:
        """Take the events of an accepted command, to be applied when the row is settled."""

    def flush(self) -> None:
        """Apply everything the row holds."""


class CommandRule(Struct, Generic[S], frozen=True):
    """What a command is. `owners` are principals (`controller/replica`) or kinds of them (`agent`, `person`).

    People additionally need `right`. A command `undone` by nothing says why nothing is needed. What others rely on to
    happen in time is `pressing`: it goes with the reports, whatever comes below them. `subject` is the object whose
    revision a sender may expect; where there is none, nothing can be expected. What concerns the `whole` of a ledger is
    for people whose scope is no part of it. What `copies` another ledger's objects may be as large as they are there.
    """

    command: type
    handler: Handler[S]
    owners: tuple[str, ...]
    lane: CommandLane
    side_effect: str
    undone: str
    right: Permission = Permission.OPERATE
    coalescer: Callable[[S, Instant], CommandCoalescer] | None = None
    pressing: Callable[[Any], bool] | None = None
    subject: Callable[[S, Any], Subject | None] | None = None
    whole: bool = False
    copies: bool = False

    def lane_of(self, command: Any) -> CommandLane:
        """The lane in which this command goes."""
        return CommandLane.REPORTS if self.pressing is not None and self.pressing(command) else self.lane
