"""One rule per command: who may send it, its lane, its side effect and the command that undoes it.

The command `holdfast review`, the documents and the tests read the rules. A command without a rule does not exist.
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
    """Lanes with a guaranteed share of each batch; overload sheds the highest numbers first (RULES 11)."""

    PROOFS = 1
    REPORTS = 2
    OPERATORS = 3
    RECONCILERS = 4
    PROPOSALS = 5
    READS = 6


class CommandContext:
    """A command under decision: all that a handler may use besides the state."""

    __slots__ = ("actor", "at", "command", "envelope", "kind", "level", "principal", "revision", "session")

    def __init__(self, envelope: Envelope[Any], at: Instant, revision: Revision) -> None:
        self.envelope = envelope
        self.command: Any = envelope.command
        self.actor = envelope.actor
        self.kind = envelope.actor.partition("/")[0]
        self.at = at
        self.revision = revision
        #: The highest level that this server writes; the log may have a lower one.
        self.level = LEVEL
        self.principal: Principal | None = None
        self.session: Session | None = None

    def outside_tenant(self, tenant: str) -> bool:
        """Whether the sender's scope excludes this tenant."""
        if self.kind == "tenant":
            return self.actor != f"tenant/{tenant}"
        scoped = self.principal.spec.scope.tenant if self.principal else ""
        return bool(scoped) and scoped != tenant

    def outside_nodes(self) -> bool:
        """Whether the sender's scope is a tenant: nodes belong to no tenant."""
        return bool(self.principal and self.principal.spec.scope.tenant)

    def outside_node(self, node: str) -> bool:
        """Whether the sender's scope excludes this node."""
        scoped = self.principal.spec.scope.node if self.principal else ""
        return bool(scoped) and scoped != node


class Subject(NamedTuple):
    """The object that a command changes or follows from, and its revision; 0: it does not exist. `own`: the revision is
    of this log, so a view can wait for it."""

    key: str
    revision: Revision
    own: bool = True


S = TypeVar("S")
Handler = Callable[[S, Any, CommandContext], Accepted | Refused]


class CommandCoalescer(Protocol):
    """Decides a run of commands of one kind: shared checks are made once, and the events are applied together.

    The answers and the state are exactly those of deciding the commands one by one. A command that the coalescer cannot
    decide goes to the handler.
    """

    at: Instant

    def try_accept(self, command: Any, ctx: CommandContext) -> Accepted | None:
        """Return the answer on top of the staged events. None: flush, and let the handler decide this command."""

    def stage(self, events: tuple[Any, ...], first: Revision, actor: str) -> None:
        """Add the events of an accepted command; `flush` applies them."""

    def flush(self) -> None:
        """Apply all staged events."""


class CommandRule(Struct, Generic[S], frozen=True):
    """The declaration of one command. `owners` are principals (`controller/replica`) or kinds of them (`agent`,
    `person`).

    Operators and tenants also need the permission `right`. A command that is `undone` by nothing says why. A `pressing`
    command is time-critical for other components: it uses the lane of reports, whatever its own. `subject` is the
    object whose revision a sender may expect; without it, an expectation is refused. A command that concerns the
    `whole` ledger is refused to a sender with a narrower scope. A command that `copies` objects of another ledger may
    be as large as they are there.
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
        return CommandLane.REPORTS if self.pressing is not None and self.pressing(command) else self.lane
