"""The contract of a reconciler: `reconcile(state, key, now)` gives commands, and when to look again.

    touched object --wake--> keys --reconcile--> commands to the ledger, which judges them as it judges everybody's

It works from what is, not from what happened: looked at too often it is silent, and looked at too late it does the same
as in time. It holds nothing between two calls. Who calls it, how often, and what becomes of a refusal is the runner's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.values.structs import Instant, Revision

T = TypeVar("T")


#: What a reconciler looks at in one call: plain values with a stable repr, such as a uid, a name, or a tuple of them.
ReconcileKey = Hashable
#: What an event touched: the kind of the object and its id.
WatchKey = tuple[str, Hashable]

S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)

#: What `wake` answers where a change concerns all keys, however many: whoever asks lists them once for all changes.
EVERYTHING: tuple[ReconcileKey, ...] = ("everything",)


class ProposedCommand(Struct, frozen=True):
    """A command to send, and the revision that made it necessary. `expect`: of the object by which it was decided; once
    that is another one the command is stale."""

    command: Any
    cause: Revision = 0
    expect: Revision = 0


class ReconcileResult(Struct, frozen=True):
    """What to send now, and when to look again even if nothing changes. The commands do not rely on one another:
    each may be refused by itself."""

    commands: tuple[ProposedCommand, ...] = ()
    requeue_at: Instant | None = None


NO_CHANGES = ReconcileResult()


class Reconciler(Protocol[S_contra]):
    """One controller. Its principal is `controller/NAME`, and it sends only what that one may."""

    name: str
    #: The kinds of objects whose changes it listens to.
    watches: tuple[str, ...]

    def keys(self, state: S_contra) -> Iterable[ReconcileKey]:
        """Everything it might have to do something about, in a chosen order: what a resync looks at."""

    def wake(self, state: S_contra, touched: WatchKey) -> Iterable[ReconcileKey]:
        """Its keys that a change of this object may concern, or `EVERYTHING`. The object may be gone from the state by
        now."""

    def reconcile(self, state: S_contra, key: ReconcileKey, now: Instant) -> ReconcileResult:
        """What to do about this key. Nothing, if the key is gone or all is as it should be."""


def keys_to_wake(reconciler: Reconciler[S], state: S, touched: Iterable[WatchKey]) -> Iterator[ReconcileKey]:
    """The keys that these changes concern. All are listed once, however many changes concern all of them."""
    listed = False
    for one in touched:
        if one[0] in reconciler.watches:
            keys = reconciler.wake(state, one)
            if keys is not EVERYTHING:
                yield from keys
            elif not listed:
                listed = True
                yield from reconciler.keys(state)


def principal(name: str) -> str:
    """Who a reconciler of this name acts as."""
    return f"controller/{name}"


def chunked(named: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """As many as one command may name, and then as many again (RULES 11)."""
    for first in range(0, len(named), PARTS_MAX):
        yield tuple(named[first : first + PARTS_MAX])
